//! How many samples filters let through, and what is said where that is none.

use super::FilterArgs;
use crate::term::number::grouped;
use perfuse_abi::record::Sample;

/// The samples of a recording: all that were seen, and how many of them passed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    seen: u64,
    passed: u64,
    with_cpu: bool,
    /// The earliest and the latest time.
    times: Option<(u64, u64)>,
}

impl Passed {
    /// Takes a sample.
    pub(crate) fn count(&mut self, sample: &Sample<'_>, passes: bool) {
        self.seen += 1;
        self.passed += u64::from(passes);
        self.with_cpu |= sample.cpu.is_some();
        if let Some(time) = sample.time {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
    }

    /// The sentence for a recording of which nothing is left by these filters and `others`.
    pub(crate) fn none_left(&self, filter: &FilterArgs, others: &[String]) -> Option<String> {
        let words = [&filter.words_of_tasks()[..], others].concat();
        self.none(filter, others).or_else(|| {
            (self.seen > 0 && !words.is_empty())
                .then(|| format!("none of {} samples passes {}", grouped(self.seen), words.join(" ")))
        })
    }

    /// The sentence for a recording with samples of which none passes the filters, these and `others`.
    pub(crate) fn none(&self, filter: &FilterArgs, others: &[String]) -> Option<String> {
        let words = [&filter.words_of_tasks()[..], &filter.words_of_moments(), others].concat();
        if self.seen == 0 || self.passed > 0 || words.is_empty() {
            return None;
        }
        let all = match self.times.filter(|_| filter.time.is_some()) {
            Some((first, last)) => {
                let seconds = |time: u64| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
                format!("{}, from {} to {} s", grouped(self.seen), seconds(first), seconds(last))
            }
            None => grouped(self.seen),
        };
        let lacks = match (filter.cpu.is_some() && !self.with_cpu, filter.time.is_some()) {
            (true, _) => "; they do not tell their cpu (record --sample-cpu)",
            (_, true) if self.times.is_none() => "; they do not tell their time (record -T)",
            _ => "",
        };
        Some(format!("no sample passes {}; the recording has {all}{lacks}", words.join(" ")))
    }
}
