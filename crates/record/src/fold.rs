//! Samples that BPF programs fold while they are taken ([`perfuse_trace::Fold`]): in the file stands one for each thread, stack and name,
//! with the sum of their periods, at the time of the last one. What finds no room in the kernel is a sample of its own.

use crate::followed::{NotInKernel, has_kernels_numbers};
use crate::opening::Opened;
use crate::plan::{Plan, Switch};
use crate::tally::Tally;
use crate::{Error, Remark, Sink, off_cpu};
use perfuse::Programs;
use perfuse::abi::record::{CallchainContext, Cpu, CpuMode, Decoded, Misc, Record, RecordFormat, Tid};
use perfuse::abi::regs::Arch;
use perfuse::abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType};
use perfuse::bpf::{AssembleError, ProgramType};
use perfuse_trace::{Fold, FoldedRow};
use std::io;

/// The clock by which the programs go.
const MONOTONIC: i32 = 1;

/// Frames of a stack, unless the event says how many.
const FRAMES: u32 = 127;

/// Fields of samples that are the same for all that become one, or can be summed up.
const FOLDED: SampleType = SampleType::IP
    .union(SampleType::TID)
    .union(SampleType::TIME)
    .union(SampleType::PERIOD)
    .union(SampleType::CALLCHAIN)
    .union(SampleType::CPU)
    .union(SampleType::ID)
    .union(SampleType::STREAM_ID)
    .union(SampleType::IDENTIFIER);

/// The programs, while they run.
#[derive(Debug)]
pub(crate) struct Folds {
    asked: Fold,
    programs: Programs,
}

impl Folds {
    /// Attaches programs to the events that are sampled by overflows, if the plan asks for that; others have their samples. An event that
    /// Linux refuses a program has its samples too, and a remark.
    ///
    /// # Errors
    ///
    /// Linux runs no such programs for this user. Then none is attached.
    pub(crate) fn begin(plan: &Plan, opened: &mut Opened) -> Result<Option<Self>, NotInKernel> {
        if !plan.fold {
            return Ok(None);
        }
        let facts = plan.kernel.facts();
        let arch = Arch::NATIVE.filter(|_| !facts.is_embedded && !facts.is_simulated);
        let arch = arch.ok_or(NotInKernel::Asked("only Linux runs such programs"))?;
        if !has_kernels_numbers() {
            return Err(NotInKernel::OTHER_NUMBERS);
        }
        let attrs: Vec<(usize, Attr)> = folded(opened).collect();
        let any = |field| attrs.iter().any(|(_, attr)| attr.sample_type.contains(field));
        let most = |attr: &Attr| match attr.sample_max_stack {
            0 => FRAMES,
            frames => frames.into(),
        };
        let frames = if any(SampleType::CALLCHAIN) {
            attrs.iter().map(|(_, attr)| most(attr)).max().unwrap_or(FRAMES)
        } else {
            0
        };
        let asked = Fold { frames, by_cpu: any(SampleType::CPU) };
        let texts = attrs.iter().map(|&(event, _)| Ok((event, asked.program(event as u32, arch)?)));
        let texts: Result<Vec<_>, AssembleError> = texts.collect();
        let texts = texts.map_err(|_| NotInKernel::Asked("its programs are not understood"))?;
        let mut programs = Programs::new(&asked.maps())?;
        // From the first one that is attached, its samples are in the maps only: the others cannot end this.
        for (event, insns) in texts {
            let attached = programs.at_event_of_set(&mut opened.set, event, ProgramType::PerfEvent, &insns);
            if let Err(why) = attached {
                opened.remarks.push(Remark::NotFolded(why.to_string()));
            }
        }
        Ok(Some(Folds { asked, programs }))
    }

    /// Writes the rows of the maps, when the events are off. Returns how many samples they are.
    pub(crate) fn write(self, opened: &Opened, tally: &mut Tally, sink: &mut dyn Sink) -> Result<u64, Error> {
        let read = |map: usize| self.programs.map(map).entries();
        let rows = self.asked.rows(&read);
        let rows = rows.map_err(|errno| {
            Error::Plan(format!("folded samples cannot be read: {}", perfuse_sys::io_error(errno)))
        })?;
        let mut bytes = Vec::new();
        for row in &rows {
            let source = opened.set.sources().iter().find(|source| source.event == row.event as usize);
            let (Some(source), Some(attr)) = (source, opened.set.attr(row.event as usize)) else { continue };
            let format = RecordFormat::of(attr, ByteOrder::NATIVE);
            bytes.clear();
            let written = encode(row, source.id, &format, &mut bytes).and_then(|()| {
                tally.look(&bytes, &[], &format);
                sink.records(&[&bytes])
            });
            written.map_err(|error| sink.fail(error))?;
        }
        Ok(rows.iter().map(|row| row.count).sum())
    }
}

/// The events that programs of this kind can be at, with the attrs of their samples.
fn folded(opened: &Opened) -> impl Iterator<Item = (usize, Attr)> + '_ {
    opened.requests.iter().enumerate().filter_map(|(event, request)| {
        let attr = opened.set.attr(event)?;
        let overflows = !(request.off_cpu || request.spec.probe.is_some())
            && attr.type_ != EventType::TRACEPOINT
            && attr.sample_period != 0;
        overflows.then_some((event, *attr))
    })
}

/// Whether samples can be folded as they were asked for.
///
/// # Errors
///
/// They have fields that differ from sample to sample.
pub(crate) fn check(plan: &Plan, opened: &Opened) -> Result<(), Error> {
    if !plan.fold {
        return Ok(());
    }
    if plan.follow.is_some() || plan.overwrite || plan.switch != Switch::Never {
        return Err(Error::Plan(
            "folded samples are those of tasks or whole cpus, written once, at the end: not of processes that are followed, nor with \
             rings that are overwritten, nor to several files"
                .into(),
        ));
    }
    if plan.clock != Some(MONOTONIC) {
        return Err(Error::Plan(
            "samples that are folded have times of CLOCK_MONOTONIC, and of no other clock (-k)".into(),
        ));
    }
    for (event, attr) in folded(opened) {
        let name = opened.names.get(event).map_or("", String::as_str);
        let more = attr.sample_type - FOLDED;
        let sides = AttrFlags::EXCLUDE_CALLCHAIN_KERNEL | AttrFlags::EXCLUDE_CALLCHAIN_USER;
        if more.intersects(SampleType::STACK_USER | SampleType::BRANCH_STACK) {
            return Err(Error::Plan(format!(
                "{name}: samples are folded by stacks that the kernel knows, by frame pointers: --call-graph fp"
            )));
        }
        if !more.is_empty() || attr.flags.intersects(sides) || !attr.sample_type.contains(SampleType::TIME) {
            let names: Vec<_> = more.iter_names().map(|(name, _)| name).collect();
            let what =
                if names.is_empty() { "parts of stacks, or no times".to_owned() } else { names.join(", ") };
            return Err(Error::Plan(format!(
                "{name}: samples that are folded tell only of threads, stacks, cpus and periods, not: {what}"
            )));
        }
    }
    Ok(())
}

fn encode(row: &FoldedRow, id: u64, format: &RecordFormat, bytes: &mut Vec<u8>) -> io::Result<()> {
    let sides = [(CallchainContext::KERNEL, &row.kernel), (CallchainContext::USER, &row.user)];
    let sides = sides.into_iter().filter(|(_, stack)| !stack.is_empty());
    let chain: Vec<u64> =
        sides.flat_map(|(side, stack)| std::iter::once(side.0).chain(stack.iter().copied())).collect();
    let mode = if row.kernel.is_empty() { CpuMode::USER } else { CpuMode::KERNEL };
    let who = Tid { pid: row.pid, tid: row.tid };
    let mut sample = off_cpu::sample(id, who, row.last_ns, row.period, &chain);
    sample.ip = row.kernel.first().or(row.user.first()).copied().or(Some(0));
    sample.cpu = Some(Cpu::from(row.cpu));
    let record = Decoded { misc: Misc::from(mode), ..Decoded::from(Record::Sample(sample)) };
    let encoded = record.encode(format, bytes);
    encoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))
}
