//! Sleep by records, for where BPF programs are refused: an event `context-switches` has a sample of each thread that leaves its cpu,
//! with its stack, and records of when it left and when it came back. [`Out`] takes these on their way to the sink and sums them up.
//!
//! A thread comes back on another cpu than it left, perhaps, whose ring was read before. So what was read is looked at by its times,
//! and no later than what all rings had held when they were read the time before.

use crate::Error;
use crate::plan::{Plan, Request, Target};
use crate::sink::{Sink, Written};
use perfuse::Builder;
use perfuse::abi::record::{
    CallchainContext, Decoded, Misc, RawRecord, Record, RecordFormat, RecordType, Tid,
};
use perfuse::abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType, Software};
use perfuse_data::NewEvent;
use perfuse_data::feature::{BuildIdEntry, Feature};
use perfuse_data::tool::ToolRecord;
use perfuse_events::Source;
use perfuse_trace::OffCpuRow;
use std::collections::{HashMap, HashSet};
use std::io;

/// Sums of threads and stacks, and stacks, that are kept.
const MOST_ROWS: usize = 1 << 20;
const MOST_STACKS: usize = 1 << 18;

/// The number of a stack that is not known, or found no room.
const NO_STACK: u32 = u32::MAX;

/// The plan with an event that hits when threads leave their cpus, in place of one that programs write to. That of the embedded kernel
/// hits when they come back, and its samples need no folding.
pub(crate) fn plan(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let is_embedded = plan.kernel.facts().is_embedded;
    let (type_, config) = match is_embedded {
        true => (EventType::TRACEPOINT, perfuse::tracefs::ASLEEP),
        false => (EventType::SOFTWARE, Software::CONTEXT_SWITCHES.0),
    };
    // Folding finds its records by their event, at a place that is the same in all records.
    plan.fields.identifier |= !is_embedded;
    let cgroup = plan.events.first().and_then(|request| request.cgroup.clone());
    for request in plan.events.iter_mut().filter(|request| request.off_cpu) {
        request.spec.source = Source::Kernel { type_, config, more: [0; 4] };
        request.spec.options.overwrite = Some(false);
        request.cgroup = cgroup.clone();
    }
    plan
}

/// Whether a request is of the event that hits when threads leave their cpus.
pub(crate) fn is_asked(request: &Request) -> bool {
    let config = Software::CONTEXT_SWITCHES.0;
    request.off_cpu && matches!(request.spec.source, Source::Kernel { config: own, .. } if own == config)
}

/// Whether a request is of an event that has samples of sleep as it happens: to be folded, or the embedded kernel's.
pub(crate) fn is_sampled(request: &Request) -> bool {
    is_asked(request) || is_told(request)
}

/// Whether a request is of the embedded kernel's event, which has a sample of each sleep.
fn is_told(request: &Request) -> bool {
    request.off_cpu && request.spec.event_type() == Some(EventType::TRACEPOINT)
}

/// The event as it is opened.
pub(crate) fn opened(plan: &Plan, request: &Request, builder: Builder) -> Builder {
    if is_told(request) {
        let fields = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD;
        return builder.user_and_kernel().period(1).sample(fields);
    }
    let cpu = if plan.fields.cpu || plan.fields.raw { SampleType::CPU } else { SampleType::empty() };
    let builder = builder.user_and_kernel().period(1);
    builder.sample(SampleType::IP | SampleType::TID | SampleType::TIME | cpu).with(|attr| {
        attr.flags |= AttrFlags::CONTEXT_SWITCH | AttrFlags::EXCLUDE_CALLCHAIN_KERNEL;
    })
}

/// The attr that its samples have in a recording, of that which they come with: the one that perf gives them.
pub(crate) fn told(mut attr: Attr) -> Attr {
    (attr.type_, attr.config) = (EventType::SOFTWARE, Software::BPF_OUTPUT.0);
    attr.sample_type |= SampleType::PERIOD | SampleType::CALLCHAIN;
    attr.flags -= AttrFlags::CONTEXT_SWITCH | AttrFlags::EXCLUDE_CALLCHAIN_KERNEL;
    attr
}

/// An event in a thread's life.
#[derive(Clone, Copy, Debug)]
enum What {
    /// It is about to leave its cpu, with this stack.
    Stack(u32),
    /// It leaves, and sleeps, or it could have gone on.
    Out {
        sleeps: bool,
    },
    In,
    Ends,
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    time: u64,
    thread: Tid,
    what: What,
}

/// A thread that is followed.
#[derive(Debug, Default)]
struct Thread {
    /// Its stack, until it leaves.
    stack: Option<u32>,
    /// While it sleeps: its process and thread, the stack, and the time at which it fell asleep.
    sleeps: Option<(Tid, u32, u64)>,
    /// It leaves its cpu once more.
    ends: bool,
}

/// Sums sleep up.
#[derive(Debug, Default)]
pub(crate) struct Folding {
    ids: HashSet<u64>,
    samples: RecordFormat,
    others: RecordFormat,
    /// This process, where all are recorded.
    but: Option<u32>,
    moments: Vec<Moment>,
    /// The latest time of what the rings held when they were read last.
    last: u64,
    threads: HashMap<u32, Thread>,
    stacks: HashMap<Box<[u64]>, u32>,
    rows: Vec<(Tid, u32, u64, u64)>,
    places: HashMap<(u32, u32), usize>,
    without_room: u64,
    /// Samples that went no further, of the current file.
    pub(crate) samples_taken: u64,
}

impl Folding {
    /// `comes` is how the event's samples come, with these ids, and `others` is the format of other records.
    pub(crate) fn new(plan: &Plan, ids: HashSet<u64>, comes: &Attr, others: &RecordFormat) -> Self {
        Folding {
            ids,
            samples: RecordFormat::of(comes, ByteOrder::NATIVE),
            others: *others,
            but: (matches!(plan.target, Target::Cpus(_)) && plan.follow.is_none()).then(std::process::id),
            ..Folding::default()
        }
    }

    /// Whether a record goes no further.
    fn takes(&mut self, record: &RawRecord<'_>) -> bool {
        let is_own = |format: &RecordFormat| format.id_of(record).is_some_and(|id| self.ids.contains(&id));
        match record.header.kind {
            RecordType::SAMPLE if is_own(&self.samples) => {
                self.samples_taken += 1;
                let Ok(Decoded { record: Record::Sample(sample), .. }) = record.decode(&self.samples) else {
                    return true;
                };
                let (Some(thread), Some(time)) = (sample.tid, sample.time) else { return true };
                let chain = sample.callchain.as_ref().map(|chain| chain.words.iter().collect::<Vec<u64>>());
                // Markers between the sides of a chain are no addresses.
                let mut chain = chain.unwrap_or_default();
                chain.retain(|&word| word < CallchainContext::MAX.0);
                let what = What::Stack(self.stack(chain));
                self.moments.push(Moment { time, thread, what });
                true
            }
            RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE if is_own(&self.samples) => {
                let misc = record.header.misc;
                let what = match misc.contains(Misc::SWITCH_OUT) {
                    true => What::Out { sleeps: !misc.contains(Misc::SWITCH_OUT_PREEMPT) },
                    false => What::In,
                };
                if let (Some(thread), Some(time)) =
                    (self.samples.tid_of(record), self.samples.time_of(record))
                {
                    self.moments.push(Moment { time, thread, what });
                }
                true
            }
            RecordType::EXIT => {
                if let Ok(Decoded { record: Record::Exit(exit), .. }) = record.decode(&self.others) {
                    let thread = Tid { pid: exit.pid, tid: exit.tid };
                    self.moments.push(Moment { time: exit.time, thread, what: What::Ends });
                }
                false
            }
            _ => false,
        }
    }

    /// The number of a stack.
    fn stack(&mut self, chain: Vec<u64>) -> u32 {
        let (count, chain) = (self.stacks.len(), chain.into_boxed_slice());
        match self.stacks.get(&chain) {
            Some(&number) => number,
            None if count >= MOST_STACKS => NO_STACK,
            None => {
                self.stacks.insert(chain, count as u32);
                count as u32
            }
        }
    }

    /// All rings have been read.
    pub(crate) fn round(&mut self) {
        let latest = self.latest();
        let until = std::mem::replace(&mut self.last, latest);
        self.fold(until);
    }

    fn latest(&self) -> u64 {
        self.moments.iter().map(|moment| moment.time).max().unwrap_or(0).max(self.last)
    }

    fn fold(&mut self, until: u64) {
        let mut moments = std::mem::take(&mut self.moments);
        moments.sort_by_key(|moment| moment.time);
        let due = moments.partition_point(|moment| moment.time <= until);
        moments.drain(..due).for_each(|moment| self.happens(moment));
        self.moments = moments;
    }

    fn happens(&mut self, Moment { time, thread: who, what }: Moment) {
        // The idle task does not sleep.
        if who.tid == 0 || Some(who.pid) == self.but {
            return;
        }
        let thread = self.threads.entry(who.tid).or_default();
        match what {
            What::Stack(stack) => thread.stack = Some(stack),
            What::Out { .. } if thread.ends => drop(self.threads.remove(&who.tid)),
            What::Out { sleeps } => {
                let stack = thread.stack.take().unwrap_or(NO_STACK);
                thread.sleeps = sleeps.then_some((who, stack, time));
            }
            What::In => {
                thread.ends = false;
                if let Some((who, stack, since)) = thread.sleeps.take() {
                    self.add(who, stack, time.saturating_sub(since));
                }
            }
            What::Ends => *thread = Thread { ends: true, ..Thread::default() },
        }
    }

    fn add(&mut self, thread: Tid, stack: u32, ns: u64) {
        let place = match self.places.get(&(thread.tid, stack)) {
            Some(&place) => place,
            None if self.rows.len() >= MOST_ROWS => {
                self.without_room += 1;
                return;
            }
            None => {
                self.places.insert((thread.tid, stack), self.rows.len());
                self.rows.push((thread, stack, 0, 0));
                self.rows.len() - 1
            }
        };
        let (_, _, count, sum) = &mut self.rows[place];
        (*count, *sum) = (*count + 1, *sum + ns);
    }

    /// Ends: the sums up to a time, and how many sleeps found no room.
    pub(crate) fn end(mut self, now: Option<u64>) -> (Vec<OffCpuRow>, u64) {
        self.fold(u64::MAX);
        let now = now.unwrap_or(self.last);
        let mut asleep: Vec<_> = self.threads.values().filter_map(|thread| thread.sleeps).collect();
        asleep.sort_unstable_by_key(|(who, ..)| who.tid);
        asleep.into_iter().for_each(|(who, stack, since)| self.add(who, stack, now.saturating_sub(since)));
        let mut chains = vec![&[][..]; self.stacks.len()];
        self.stacks.iter().for_each(|(chain, &number)| chains[number as usize] = chain);
        let rows = self.rows.iter().map(|&(thread, stack, count, ns)| OffCpuRow {
            pid: thread.pid,
            tid: thread.tid,
            stack: chains.get(stack as usize).map(|chain| chain.to_vec()).unwrap_or_default(),
            count,
            ns,
        });
        (rows.collect(), self.without_room)
    }
}

/// The sink of a session, and what is summed up before it.
pub(crate) struct Out<'a> {
    sink: &'a mut dyn Sink,
    pub(crate) folding: Option<Folding>,
}

impl<'a> Out<'a> {
    pub(crate) fn new(sink: &'a mut dyn Sink) -> Self {
        Out { sink, folding: None }
    }

    /// Samples that were summed up, of the current file.
    pub(crate) fn samples_taken(&self) -> u64 {
        self.folding.as_ref().map_or(0, |folding| folding.samples_taken)
    }
}

impl Sink for Out<'_> {
    fn is_stream(&self) -> bool {
        self.sink.is_stream()
    }

    fn begin(
        &mut self,
        events: &[NewEvent],
        features: Vec<Feature<'_>>,
        level: Option<i32>,
    ) -> Result<(), Error> {
        self.sink.begin(events, features, level)
    }

    fn records(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let Some(folding) = &mut self.folding else { return self.sink.records(parts) };
        let all = parts.concat();
        // The records between those that it takes go on, in pieces.
        let (mut pieces, mut begin, mut at) = (Vec::new(), 0, 0);
        while let Ok((record, after)) = RawRecord::split(&all[at..], ByteOrder::NATIVE) {
            let end = all.len() - after.len();
            if folding.takes(&record) {
                pieces.push(&all[begin..at]);
                begin = end;
            }
            at = end;
        }
        pieces.push(&all[begin..]);
        pieces.retain(|piece| !piece.is_empty());
        if pieces.is_empty() { Ok(()) } else { self.sink.records(&pieces) }
    }

    fn record(&mut self, record: &Decoded<'_>, format: &RecordFormat) -> io::Result<()> {
        self.sink.record(record, format)
    }

    fn tool(&mut self, record: ToolRecord<'_>) -> io::Result<()> {
        self.sink.tool(record)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    fn len(&self) -> u64 {
        self.sink.len()
    }

    fn compressed(&self) -> Option<(u64, u64)> {
        self.sink.compressed()
    }

    fn complete(
        &mut self,
        features: Vec<Feature<'_>>,
        ids: &[BuildIdEntry<'_>],
        others_follow: bool,
    ) -> Result<Written, Error> {
        self.sink.complete(features, ids, others_follow)
    }

    fn fail(&mut self, error: io::Error) -> Error {
        self.sink.fail(error)
    }

    fn undo(&mut self) {
        self.sink.undo();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEEPS: What = What::Out { sleeps: true };
    const PREEMPTED: What = What::Out { sleeps: false };

    fn empty() -> Folding {
        Folding { but: Some(9), ..Folding::default() }
    }

    fn at(time: u64, tid: u32, what: What) -> Moment {
        Moment { time, thread: Tid { pid: tid, tid }, what }
    }

    /// Threads with their stacks, how often they slept there, and for how long.
    fn told(folding: Folding, now: u64) -> Vec<(u32, Vec<u64>, u64, u64)> {
        let (rows, without_room) = folding.end(Some(now));
        assert_eq!(without_room, 0);
        rows.into_iter().map(|row| (row.tid, row.stack, row.count, row.ns)).collect()
    }

    #[test]
    fn rings_may_be_read_in_any_order() {
        let mut folding = empty();
        let [here, there] = [folding.stack(vec![1, 2]), folding.stack(vec![3])];
        // One ring has that it left, and came back the second time; the other one has what was between.
        let first = [at(10, 5, What::Stack(here)), at(11, 5, SLEEPS), at(40, 5, What::In)];
        let second = [at(21, 5, What::In), at(30, 5, What::Stack(there)), at(31, 5, SLEEPS)];
        folding.moments.extend(first);
        folding.round();
        assert!(folding.rows.is_empty(), "the other ring may have something from before");
        folding.moments.extend(second);
        folding.round();
        assert_eq!(told(folding, 100), [(5, vec![1, 2], 1, 10), (5, vec![3], 1, 9)]);
    }

    #[test]
    fn only_sleep_counts_and_it_counts_to_the_end() {
        let mut folding = empty();
        let stack = folding.stack(vec![1]);
        folding.moments.extend([
            // It could have gone on; and who is back already has not left.
            at(1, 5, What::Stack(stack)),
            at(2, 5, PREEMPTED),
            at(8, 5, What::In),
            at(9, 5, What::In),
            // The sample of this one was lost: the stack of the one before is not its.
            at(10, 5, SLEEPS),
            at(14, 5, What::In),
            at(20, 5, What::Stack(stack)),
            at(21, 5, SLEEPS),
            // It ends, and never comes back; then a thread has its number.
            at(30, 6, What::Ends),
            at(31, 6, SLEEPS),
            at(50, 6, What::In),
            at(60, 6, SLEEPS),
            at(61, 7, What::Ends),
            // Nobody, and who records.
            at(5, 0, SLEEPS),
            at(15, 0, What::In),
            at(5, 9, SLEEPS),
            at(15, 9, What::In),
        ]);
        assert_eq!(told(folding, 70), [(5, vec![], 1, 4), (5, vec![1], 1, 49), (6, vec![], 1, 10)]);
    }
}
