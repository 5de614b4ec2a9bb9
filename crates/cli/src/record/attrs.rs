//! What the kernel is asked for: the attr of each event, as perf's for the same options, and the event
//! that tells about tasks.
//!
//! Differences from perf: records always carry IDENTIFIER (one way to find their event, with any number of
//! events), the clock is CLOCK_MONOTONIC, and rings wake the reader when they are half full.

use super::plan::{Chains, Fields, Plan, Rate, Request, Start, Whom};
use crate::stat;
use perfuse::abi::{Attr, AttrFlags, BranchSampleType, EventType, ReadFormat, SampleType, Software};
use perfuse::{Builder, Counter};
use perfuse_events::{Exclude, Precise};

/// The events to open, in order. The one at [`Wanted::tracker`] tells about tasks and maps.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) builders: Vec<Builder>,
    pub(super) tracker: usize,
}

/// Makes the builders. `watermark` is the number of bytes at which a ring wakes the reader.
pub(super) fn wanted(plan: &Plan, requests: &[Request], watermark: u32) -> Wanted {
    // Sampling starts with the command: then its own event can tell about tasks too, from the same moment.
    let on_exec = plan.whom == Whom::Command && plan.start == Start::AtOnce;
    let has_tracepoint = requests.iter().any(is_tracepoint);
    let with_cpu = plan.fields.cpu || plan.fields.raw || has_tracepoint;
    let mut builders: Vec<_> = requests
        .iter()
        .filter_map(|request| sampled(plan, request, with_cpu).map(|builder| (builder, request)))
        .map(|(builder, _)| builder.enable_on_exec(on_exec))
        .collect();
    let tracker = if on_exec { 0 } else { builders.len() };
    if !on_exec {
        let fields = SampleType::IP | SampleType::TID | SampleType::TIME;
        let fields = if with_cpu { fields | SampleType::CPU } else { fields };
        let dummy = Counter::builder(Software::DUMMY).user_only().period(1).sample(fields).enabled(true);
        builders.push(dummy.with(|attr| attr.read_format &= KEPT));
    }
    for (index, builder) in builders.iter_mut().enumerate() {
        let mut changed = builder.clone().with(|attr| {
            attr.set_wakeup_watermark(watermark);
            if let Some(clock) = plan.clock {
                attr.flags |= AttrFlags::USE_CLOCKID;
                attr.clockid = clock;
            }
        });
        if index == tracker {
            changed = tracking(changed, plan);
        }
        *builder = changed;
    }
    Wanted { builders, tracker }
}

/// Of the read format, what perf asks for too.
const KEPT: ReadFormat = ReadFormat::ID.union(ReadFormat::LOST);

fn tracking(builder: Builder, plan: &Plan) -> Builder {
    use AttrFlags as F;
    let data = needs_data_maps(plan);
    let builder = builder
        .with(|attr| {
            attr.flags |= F::MMAP | F::COMM | F::TASK | plan.sideband;
            attr.flags.set(F::MMAP_DATA, data);
        })
        .prefer(|attr| attr.flags |= F::MMAP2 | F::COMM_EXEC | F::KSYMBOL | F::BPF_EVENT);
    if plan.build_ids { builder.prefer(|attr| attr.flags |= F::BUILD_ID) } else { builder }
}

/// Whether maps without code matter: for data addresses, and for unwinding through sections that are not
/// mapped with the code.
pub(super) fn needs_data_maps(plan: &Plan) -> bool {
    plan.fields.data || matches!(plan.chains, Some(Chains::Stack(_)))
}

pub(super) fn is_tracepoint(request: &Request) -> bool {
    matches!(request.spec.source, perfuse_events::Source::Kernel { type_: EventType::TRACEPOINT, .. })
}

/// An event that is sampled; `None` for what the kernel does not count.
fn sampled(plan: &Plan, request: &Request, with_cpu: bool) -> Option<Builder> {
    let fields = plan.fields;
    let mut builder = stat::builder(&request.spec)?;
    if !fields.exclude.is_empty() && request.spec.exclude == (Exclude { guest: true, ..Exclude::default() }) {
        builder = builder.user_and_kernel().with(|attr| attr.flags |= fields.exclude);
    }
    if request.spec.precise == Precise::Most {
        builder = builder.most_precise();
    }
    let tracepoint = is_tracepoint(request);
    let rate = if tracepoint && !plan.rate_given { Rate::Period(1) } else { plan.rate };
    let mut sample = SampleType::IP | SampleType::TID | SampleType::TIME;
    builder = match rate {
        Rate::Frequency(hz) => {
            sample |= SampleType::PERIOD;
            builder.frequency(hz)
        }
        Rate::Period(period) => builder.period(period),
    };
    let stack = matches!(plan.chains, Some(Chains::Stack(_)));
    let chosen = [
        (fields.period || tracepoint, SampleType::PERIOD),
        (with_cpu, SampleType::CPU),
        (fields.raw || tracepoint, SampleType::RAW),
        (fields.data || stack, SampleType::ADDR | SampleType::DATA_SRC),
        (fields.physical, SampleType::ADDR | SampleType::PHYS_ADDR),
        (fields.page_size, SampleType::ADDR | SampleType::DATA_PAGE_SIZE),
        (fields.times, SampleType::READ),
        (fields.cgroup, SampleType::CGROUP),
    ];
    chosen.iter().filter(|(on, _)| *on).for_each(|(_, field)| sample |= *field);
    builder = builder.sample(sample).with(move |attr| counts(attr, fields));
    if fields.weight {
        // Newer kernels say more in the same eight bytes, and both at once are refused.
        builder = builder.sample(SampleType::WEIGHT);
    }
    builder = chains(builder, plan.chains);
    let branches = plan.branches;
    if branches.is_empty() { Some(builder) } else { Some(builder.with(|attr| branch_stack(attr, branches))) }
}

/// What reading the event gives.
fn counts(attr: &mut Attr, fields: Fields) {
    if !(fields.per_thread_counts || fields.times) {
        attr.read_format &= KEPT;
    }
    attr.flags.set(AttrFlags::INHERIT_STAT, fields.per_thread_counts);
}

fn branch_stack(attr: &mut Attr, branches: BranchSampleType) {
    attr.sample_type |= SampleType::BRANCH_STACK;
    attr.branch_sample_type |= branches;
    let kinds = BranchSampleType::PLM_ALL;
    // What is sampled decides, unless told; and privilege levels alone are no kind of branch.
    if !branches.intersects(kinds) {
        attr.branch_sample_type |= BranchSampleType::USER;
        if !attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) {
            attr.branch_sample_type |= BranchSampleType::KERNEL;
        }
    }
    if branches.difference(kinds).is_empty() {
        attr.branch_sample_type |= BranchSampleType::ANY;
    }
}

fn chains(builder: Builder, chains: Option<Chains>) -> Builder {
    match chains {
        None => builder,
        Some(Chains::FramePointers) => builder.sample(SampleType::CALLCHAIN),
        Some(Chains::Stack(bytes)) => builder.with(|attr| {
            attr.sample_type |= SampleType::CALLCHAIN | SampleType::REGS_USER | SampleType::STACK_USER;
            attr.flags |= AttrFlags::EXCLUDE_CALLCHAIN_USER;
            attr.sample_regs_user = USER_REGISTERS;
            attr.sample_stack_user = bytes;
        }),
        Some(Chains::LastBranches) => builder.with(|attr| {
            attr.sample_type |= SampleType::CALLCHAIN | SampleType::BRANCH_STACK;
            attr.flags |= AttrFlags::EXCLUDE_CALLCHAIN_USER;
            attr.branch_sample_type = BranchSampleType::USER
                | BranchSampleType::CALL_STACK
                | BranchSampleType::NO_CYCLES
                | BranchSampleType::NO_FLAGS
                | BranchSampleType::HW_INDEX;
        }),
    }
}

/// Every register that unwinding may need: of x86-64 all but the segments ds, es, fs and gs.
const USER_REGISTERS: u64 = if cfg!(target_arch = "x86_64") {
    0xff_0fff
} else if cfg!(target_arch = "aarch64") {
    (1 << 33) - 1
} else {
    u32::MAX as u64
};
