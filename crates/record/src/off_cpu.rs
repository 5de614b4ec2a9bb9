//! `offcpu-time`: the time that threads sleep, summed up by BPF programs, or by records ([`folding`]) where these are refused, and
//! written as samples at the end, in perf's form: an event `bpf-output` that counts nothing by itself, with a sample for each thread
//! and stack whose period is the time in nanoseconds.

pub(crate) mod folding;

use crate::followed::{NotInKernel, follow, whose};
use crate::plan::Request;
use crate::{Error, Plan};
use perfuse::abi::record::{Callchain, CallchainContext, Cpu, CpuMode, Decoded, Misc, Record, Sample, Tid};
use perfuse::abi::wire::Seq;
use perfuse::abi::{EventType, Software};
use perfuse::{HeldCommand, Programs};
use perfuse_events::{EventSpec, Source};
use perfuse_trace::{OffCpu, OffCpuRow};

/// `CLOCK_MONOTONIC`, by which the programs go.
const MONOTONIC: i32 = 1;

/// perf's name of the event.
const NAME: &str = "offcpu-time";

impl Request {
    /// The time that threads sleep, with the stacks at which they went to sleep. BPF programs sum it up, on Linux 5.18, for root or
    /// with CAP_BPF and CAP_PERFMON. Without them it takes the kernel's side of context switches: CAP_PERFMON, or
    /// `kernel.perf_event_paranoid` at most 1.
    pub fn off_cpu() -> Self {
        let config = Software::BPF_OUTPUT.0;
        let source = Source::Kernel { type_: EventType::SOFTWARE, config, more: [0; 4] };
        Request { off_cpu: true, ..Request::new(EventSpec::new(NAME, source)) }
    }
}

/// The programs, while they run.
#[derive(Debug)]
pub(crate) struct Sleeping {
    asked: OffCpu,
    programs: Programs,
}

impl Sleeping {
    /// Attaches the programs, if the plan asks for them. Those of a command or of processes follow nobody yet.
    ///
    /// # Errors
    ///
    /// They cannot tell what the plan asks for, or are refused.
    pub(crate) fn prepare(plan: &Plan) -> Result<Option<Self>, NotInKernel> {
        if !plan.events.iter().any(|request| request.off_cpu) {
            return Ok(None);
        }
        let asked = OffCpu { whose: whose(plan)? };
        let mut programs = Programs::new(&asked.maps())?;
        let texts = asked.programs().map_err(|_| NotInKernel::Asked("its programs are not understood"))?;
        for (place, insns) in texts {
            programs.at_raw_tracepoint(place, &insns)?;
        }
        Ok(Some(Sleeping { asked, programs }))
    }

    /// Begins to follow the plan's target.
    pub(crate) fn begin(&self, plan: &Plan, held: Option<&HeldCommand>) -> Result<(), Error> {
        follow(&self.programs, plan, held.map(HeldCommand::pid))
    }

    /// Ends the programs: what they came to, and how much found no room.
    pub(crate) fn end(mut self) -> Result<(Vec<OffCpuRow>, u64), Error> {
        self.programs.detach();
        let read = |map: usize| self.programs.map(map).entries();
        let now = perfuse_sys::clock::read_ns(MONOTONIC).unwrap_or(0);
        let rows = self
            .asked
            .rows(&read, now)
            .map_err(|errno| Error::Plan(format!("{NAME} cannot be read: {}", perfuse_sys::io_error(errno))));
        rows.map(|(rows, no_room)| (rows, no_room.calls + no_room.threads))
    }
}

/// Hands a sample of each row to `take`, in the order of their times from `time` on.
pub(crate) fn samples<E>(
    rows: &[OffCpuRow],
    id: u64,
    time: u64,
    mut take: impl FnMut(&Decoded<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut chain = Vec::new();
    for (row, time) in rows.iter().zip(time..) {
        chain.clear();
        chain.push(CallchainContext::USER.0);
        chain.extend(&row.stack);
        let who = Tid { pid: row.pid, tid: row.tid };
        let mut sample = sample(id, who, time, row.ns, &chain);
        sample.ip = Some(row.stack.first().copied().unwrap_or(0));
        take(&Decoded { misc: Misc::from(CpuMode::USER), ..Decoded::from(Record::Sample(sample)) })?;
    }
    Ok(())
}

/// A sample that stands for many.
pub(crate) fn sample(id: u64, who: Tid, time: u64, period: u64, chain: &[u64]) -> Sample<'_> {
    let mut sample = Sample::default();
    (sample.identifier, sample.id, sample.stream_id) = (Some(id), Some(id), Some(id));
    (sample.tid, sample.time, sample.cpu, sample.period) =
        (Some(who), Some(time), Some(Cpu::from(0)), Some(period));
    sample.callchain = Some(Callchain { words: Seq::from(chain) });
    sample
}
