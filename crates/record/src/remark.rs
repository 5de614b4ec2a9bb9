//! Remarks of a recording about itself.

use crate::{Chains, Rate, StackSums};
use std::fmt;
use std::time::Duration;

/// Something that matters to what is recorded: what was given up, lost, or is not as one might think. The text names
/// causes; what would help depends on the program that records.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Remark {
    /// There is no PMU: the clock is sampled in place of cycles.
    Clock {
        /// Why there are no cycles.
        why: &'static str,
        /// How often.
        rate: Rate,
        /// With which call chains.
        chains: Option<Chains>,
    },
    /// Weak groups were taken apart, and why.
    WeakGroups(&'static str),
    /// Processes have more threads than there may be descriptors, as the words say: cpus are sampled in their stead.
    Following(String),
    /// Threads came and went while they were looked for.
    ThreadsMissed,
    /// The kernel does not have what an event was asked to record.
    Without(String),
    /// These events are not inherited, as Linux could start nothing under an inherited probe.
    ProbesAlone(Vec<String>),
    /// The kernel refuses the values of groups for what the tasks start.
    NotInherited,
    /// This user may not sample the kernel; `perf_event_paranoid`, as far as it can be read.
    UserOnly(String),
    /// More rings were wanted than this user may lock in memory: threads share those of the cpus.
    SharedRings,
    /// Rings are smaller than wished, in bytes; `perf_event_mlock_kb`, as far as it can be read.
    SmallRings {
        /// The room that they have.
        bytes: usize,
        /// The room that was wished.
        wished: usize,
        /// The setting.
        limit: String,
    },
    /// Rings hold more than the size at which another file begins.
    LargeRings(u64),
    /// The size at which the recording stops is reached.
    SizeReached,
    /// A line that answers an order of the control channel.
    Control(String),
    /// Records were lost, as rings of so many bytes were full.
    Lost {
        /// How many.
        records: u64,
        /// The size of a ring.
        ring: usize,
    },
    /// Many of the stacks that were unwound lack their outermost callers.
    Incomplete {
        /// How they ended.
        sums: StackSums,
        /// Bytes that were copied of each.
        copied: u32,
    },
    /// So much of the time was not sampled.
    Unseen {
        /// Of this clock, if there are several.
        event: Option<String>,
        /// In per cent.
        percent: f64,
        /// The side that clocks leave out, in words.
        left_out: Option<&'static str>,
        /// The tasks ran for less than a period, for so long.
        short: Option<Duration>,
        /// The embedded kernel looked, at random times.
        embedded: bool,
        /// It is more than the births and ends of tasks can leave out.
        late: bool,
    },
    /// The kernel paused sampling so often.
    Throttled(u64),
    /// So many bytes of the rings were no records.
    Corrupt(u64),
    /// Samples, or those of one event, are not folded in the kernel, but recorded one by one; the words say why.
    NotFolded(String),
    /// Sleep is summed up by records of each switch, as BPF programs cannot do it; the words say why.
    OffCpuByRecords(String),
    /// Linux refuses these records, too.
    OffCpuElsewhere,
    /// So many sleeps and threads found no room in the sums of `offcpu-time`.
    OffCpuWithoutRoom(u64),
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::Clock { why, rate, chains } => {
                let chains = match chains {
                    None => "",
                    Some(Chains::FramePointers) => ", call chains by frame pointers",
                    Some(Chains::Stack(_)) => ", copies of the stack",
                    Some(Chains::Unwound(_)) => ", call chains unwound from copies of the stack",
                    Some(Chains::LastBranches) => ", call chains from branches",
                };
                write!(f, "cycles: {why}; sampling cpu-clock instead, ")?;
                match rate {
                    Rate::Frequency(hz) => write!(f, "{hz} Hz{chains}"),
                    Rate::Period(period) => write!(f, "every {period} ns{chains}"),
                }
            }
            Remark::WeakGroups(why) => write!(f, "groups of weak events are taken apart: {why}"),
            Remark::Following(why) => write!(f, "{why}: whole cpus are sampled, and these processes kept"),
            Remark::ThreadsMissed => {
                f.write_str("threads came and went while they were looked for; some may not be recorded")
            }
            Remark::Without(what) => write!(f, "recorded without {what}"),
            Remark::ProbesAlone(events) => write!(
                f,
                "{}: recorded without the threads and processes that the recorded tasks start (Linux could start none \
                 under an inherited probe)",
                events.join(", ")
            ),
            Remark::NotInherited => f.write_str(
                "threads and processes that the recorded tasks start are left out: this kernel refuses the values of \
                 groups (modifier S) for them; Linux takes these from 6.13 on",
            ),
            Remark::UserOnly(paranoid) => {
                write!(f, "user side only: this user may not sample the kernel, perf_event_paranoid is {paranoid}")
            }
            Remark::SharedRings => f.write_str(
                "one ring for each cpu in place of one for each thread, which is more than this user may lock in \
                 memory",
            ),
            Remark::SmallRings { bytes, wished, limit } => write!(
                f,
                "rings of {} KiB in place of {}, which is what this user may lock in memory (perf_event_mlock_kb is \
                 {limit}); records may be lost",
                bytes >> 10,
                wished >> 10,
            ),
            Remark::LargeRings(held) => {
                write!(f, "the rings hold {held} bytes until they are written: files may exceed their size")
            }
            Remark::SizeReached => f.write_str("the size at which the recording stops is reached"),
            Remark::Control(line) => f.write_str(line),
            Remark::Lost { records, ring } => {
                write!(f, "{records} records lost: rings of {ring} bytes were full before they could be read")
            }
            Remark::Incomplete { sums, .. } => {
                let reasons = [
                    (sums.deeper, "are deeper than what was copied of them"),
                    (sums.longer, "have more frames than are recorded"),
                    (sums.lost, "end in code without unwinding tables and frame pointers"),
                ];
                write!(f, "{} of {} stacks lack their outermost callers: ", sums.incomplete(), sums.stacks)?;
                let told = reasons.iter().filter(|(count, _)| *count > 0);
                let told: Vec<_> = told.map(|(count, why)| format!("{count} {why}")).collect();
                f.write_str(&told.join(", "))
            }
            Remark::Unseen { event, percent, left_out, short, embedded, late } => {
                event.as_ref().map_or(Ok(()), |event| write!(f, "{event}: "))?;
                write!(f, "{percent:.0} % of the time was not sampled: ")?;
                left_out.map_or(Ok(()), |words| write!(f, "{words}, and "))?;
                match short {
                    Some(time) => write!(
                        f,
                        "the recorded tasks ran for {:.3} ms, less than the time from sample to sample",
                        time.as_secs_f64() * 1e3
                    ),
                    None if *late => f.write_str(
                        "samples were taken late; the machine is busy, or a virtual one that waits for its cpus",
                    ),
                    None if *embedded => f.write_str("tasks that end before perfuse can look at them have no samples"),
                    None => {
                        f.write_str("processes and threads that end before their first sample is due have none")
                    }
                }
            }
            Remark::Throttled(times) => {
                write!(f, "the kernel paused sampling {times} times: it took too much of its time")
            }
            Remark::Corrupt(bytes) => write!(f, "{bytes} bytes of the rings were no records"),
            Remark::NotFolded(why) => write!(f, "samples are not folded, but recorded one by one: {why}"),
            Remark::OffCpuByRecords(why) => {
                write!(f, "offcpu-time is summed up by a record of each switch, not by BPF programs: {why}")
            }
            Remark::OffCpuElsewhere => {
                f.write_str("the embedded kernel tells of sleep in system calls without any rights (--kernel embedded)")
            }
            Remark::OffCpuWithoutRoom(count) => {
                write!(f, "offcpu-time: {count} sleeps or threads found no room in the sums")
            }
        }
    }
}
