//! Callchains whose user part comes later (Linux 6.19): the kernel's part is in the sample, with a cookie in place of the rest,
//! and a record of the thread tells that when it returns to its program.

use crate::error::Location;
use perfuse_abi::record::{Callchain, CallchainContext, RawRecord, Record, RecordFormat, Sample, Tid};
use perfuse_abi::wire::Words;
use std::collections::VecDeque;

/// Bytes of samples that wait; then the oldest go on without.
pub(crate) const MOST_WAITING: usize = 64 << 20;

/// Samples that wait for the user part of their callchain.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    of: (Tid, u64),
    location: Location,
    bytes: Vec<u8>,
    format: RecordFormat,
}

impl Deferred {
    /// Has a sample wait that its cookie tells from others.
    pub(super) fn wait(&mut self, of: (Tid, u64), location: Location, bytes: &[u8], format: &RecordFormat) {
        self.bytes += bytes.len();
        self.waiting.push_back(Waiting { of, location, bytes: bytes.to_vec(), format: *format });
    }

    /// The samples that waited for this part, by their places, with whole callchains.
    pub(super) fn join(&mut self, of: (Tid, u64), ips: Words<'_>) -> Vec<(Location, Vec<u8>)> {
        let (mut due, mut left) = (Vec::new(), VecDeque::with_capacity(self.waiting.len()));
        for waiting in self.waiting.drain(..) {
            match waiting.of == of {
                true => due.push(waiting),
                false => left.push_back(waiting),
            }
        }
        self.waiting = left;
        due.into_iter().map(|waiting| self.go_on(waiting, Some(ips))).collect()
    }

    /// Those that waited too long, or all: without the user part.
    pub(super) fn give_up(&mut self, all: bool) -> Vec<(Location, Vec<u8>)> {
        let mut due = Vec::new();
        while all || self.bytes > MOST_WAITING {
            let Some(waiting) = self.waiting.pop_front() else { break };
            due.push(self.go_on(waiting, None));
        }
        due
    }

    fn go_on(&mut self, waiting: Waiting, ips: Option<Words<'_>>) -> (Location, Vec<u8>) {
        self.bytes -= waiting.bytes.len();
        (waiting.location, joined(&waiting.bytes, &waiting.format, ips))
    }
}

/// The thread and the cookie of a sample whose callchain goes on later.
pub(crate) fn cookie(sample: &Sample<'_>) -> Option<(Tid, u64)> {
    let words = sample.callchain?.words;
    // The cookie is the last word, if there is one.
    let marker = words.get(words.len().checked_sub(2)?)?;
    (marker == CallchainContext::USER_DEFERRED.0).then_some(())?;
    Some((sample.tid?, words.get(words.len() - 1)?))
}

/// A sample with the user part of its callchain in place of the cookie; without it the callchain ends before that.
pub(crate) fn joined(bytes: &[u8], format: &RecordFormat, ips: Option<Words<'_>>) -> Vec<u8> {
    let try_join = |most: usize| {
        let (raw, _) = RawRecord::split(bytes, format.order).ok()?;
        let mut decoded = raw.decode(format).ok()?;
        let Record::Sample(sample) = &mut decoded.record else { return None };
        let is_deferred = |word: &u64| *word == CallchainContext::USER_DEFERRED.0;
        let mut words: Vec<u64> =
            sample.callchain?.words.iter().take_while(|word| !is_deferred(word)).collect();
        if let Some(ips) = ips.filter(|ips| !ips.is_empty()) {
            let has_marker = ips.get(0).is_some_and(|word| CallchainContext::of(word).is_some());
            words.extend((!has_marker).then_some(CallchainContext::USER.0));
            words.extend(ips.iter().take(most));
        }
        sample.callchain = Some(Callchain { words: Words::from(&words[..]) });
        let mut out = Vec::new();
        decoded.encode(format, &mut out).ok().map(|_| out)
    };
    // Beside large raw data there may be no room for all.
    try_join(usize::MAX).or_else(|| try_join(0)).unwrap_or_default()
}
