//! The requests to the kernel: the attr of each event, as perf's for the same options, and the event
//! that tells about tasks.
//!
//! Differences from perf, on purpose: records always carry the time, which is CLOCK_MONOTONIC; maps carry
//! build-ids where the kernel can; the event that tells about tasks counts the user side, so that everybody
//! may have it.

use crate::off_cpu::folding;
use crate::plan::{Chains, Fields, Plan, Rate, Request, Target};
use crate::{rings, terms};
use perfuse::abi::regs::Arch;
use perfuse::abi::{Attr, AttrFlags, BranchSampleType, EventType, ReadFormat, SampleType, Software};
use perfuse::{Builder, Error, SetEvent, Start};
use perfuse_events::{EventSpec, Precise, Source};

/// The events to open, in order. The one at [`Wanted::tracker`] tells about tasks and maps.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) events: Vec<SetEvent>,
    pub(crate) tracker: usize,
}

/// Makes the events. Their rings wake the reader when they are half full (rules G14 and G15), or with each sample.
pub(crate) fn wanted(plan: &Plan, requests: &[Request]) -> Result<Wanted, Error> {
    let on_exec = plan.target == Target::Command && plan.start == Start::AtOnce;
    // Where tasks are sampled from the first moment, the first event can tell about them too, as perf's does.
    let own_tracker = plan.start == Start::AtOnce && !matches!(plan.target, Target::Cpus(_));
    let mut events: Vec<SetEvent> = Vec::new();
    for request in requests {
        let Some(builder) = sampled(plan, request) else { continue };
        let mut builder = builder.enable_on_exec(on_exec);
        let leader = events.last().filter(|last| last.group.is_some() && last.group == request.group);
        if let (Some(leader), true) = (leader, request.spec.sample_read) {
            // Its values come with the samples of the leader, which it follows.
            let sample_type = leader.builder.attr().sample_type;
            builder = builder.period(0).with(|attr| attr.sample_type = sample_type);
        }
        let cgroup =
            request.cgroup.as_deref().map(|name| plan.kernel.surroundings().cgroup(name)).transpose()?;
        let (mut cpus, options) = (request.spec.cpus(), &request.spec.options);
        if let Target::Cpus(sampled) = &plan.target {
            // The event that tells about tasks is on all of them.
            let own = cpus.as_ref().map_or(sampled.clone(), |own| {
                sampled.iter().copied().filter(|cpu| own.contains(cpu)).collect()
            });
            cpus = Some(own);
        }
        let (inherit, overwrite) = (options.inherit, options.overwrite);
        events.push(SetEvent { builder, group: request.group, cgroup, cpus, inherit, overwrite });
    }
    let tracker = if own_tracker { 0 } else { events.len() };
    if !own_tracker {
        let asked = as_asked(plan);
        // Until the command's exec, records are about this program.
        let held = plan.target == Target::Command;
        let dummy = plan.kernel.counter(Software::DUMMY).user_only().period(1).sample(asked.sample_type);
        let dummy = dummy.enabled(!held).enable_on_exec(held).with(|attr| attr.read_format &= KEPT);
        let dummy = dummy.with(|attr| {
            (attr.sample_regs_user, attr.sample_stack_user) =
                (asked.sample_regs_user, asked.sample_stack_user);
        });
        events.push(dummy.into());
    }
    let reads = requests.first().is_some_and(|request| request.spec.sample_read);
    if let ([event], true) = (&mut events[..], reads) {
        event.builder = event.builder.clone().with(|attr| attr.sample_type |= SampleType::ID);
    }
    for (index, event) in events.iter_mut().enumerate() {
        let mut changed = event.builder.clone().with(|attr| {
            if !plan.buffering || requests.get(index).is_some_and(|request| request.prompt) {
                attr.set_wakeup_events(1);
            }
            if plan.fields.identifier {
                attr.sample_type |= SampleType::IDENTIFIER;
            }
            if let Some(clock) = plan.clock {
                attr.flags |= AttrFlags::USE_CLOCKID;
                attr.clockid = clock;
            }
        });
        if plan.inherit && matches!(plan.target, Target::Cpus(_)) {
            // There it means nothing; perf sets it too.
            event.inherit = event.inherit.or(Some(true));
        }
        if index == tracker {
            changed = tracking(changed, plan);
        }
        event.builder = changed;
    }
    Ok(Wanted { events, tracker })
}

/// The attr that options alone ask for, as far as the event that tells about tasks can have it. It is never
/// sampled; but where the others have the same fields, every record tells its event at the same place without a
/// field of its own for that.
fn as_asked(plan: &Plan) -> Attr {
    let source = Source::Kernel { type_: EventType::SOFTWARE, config: Software::DUMMY.0, more: [0; 4] };
    let plain = sampled(plan, &Request::new(EventSpec::new("dummy", source)));
    let mut attr = plain.map(|builder| builder.attr()).unwrap_or_default();
    attr.sample_type -= SampleType::REGS_INTR | SampleType::BRANCH_STACK;
    if plan.fields.user_regs != 0 {
        attr.sample_type -= SampleType::REGS_USER;
        attr.sample_regs_user = 0;
    }
    attr
}

/// Of the read format, what perf asks for too.
const KEPT: ReadFormat = ReadFormat::ID.union(ReadFormat::LOST);

fn tracking(builder: Builder, plan: &Plan) -> Builder {
    use AttrFlags as F;
    let data = if needs_data_maps(plan) { F::MMAP_DATA } else { F::empty() };
    let builder = builder
        .with(|attr| attr.flags |= F::MMAP | F::COMM | F::TASK | plan.sideband | data)
        .prefer(|attr| attr.flags |= F::MMAP2 | F::COMM_EXEC | F::KSYMBOL)
        .prefer(|attr| attr.flags.set(F::BPF_EVENT, plan.bpf));
    if plan.build_ids { builder.prefer(|attr| attr.flags |= F::BUILD_ID) } else { builder }
}

/// Whether maps without code matter: for data addresses, for unwinding through sections that are not mapped with the code, and
/// where they are asked for.
pub(crate) fn needs_data_maps(plan: &Plan) -> bool {
    plan.sideband.contains(AttrFlags::MMAP_DATA) || plan.fields.data || terms::any_kept_stacks(plan)
}

/// Whether the event happens rarely enough to be sampled each time.
fn counts_one_by_one(request: &Request) -> bool {
    request.is_tracepoint()
        || request.spec.probe.is_some()
        || request.spec.event_type() == Some(EventType::BREAKPOINT)
}

/// An event that is sampled; `None` for what the kernel does not count.
fn sampled(plan: &Plan, request: &Request) -> Option<Builder> {
    let fields = plan.fields;
    let mut builder = Builder::from_spec(&request.spec)?.kernel(&plan.kernel);
    if folding::is_sampled(request) {
        let how = match terms::chains(plan, &request.spec) {
            Some(how @ Chains::Unwound(_)) => how,
            _ => Chains::FramePointers,
        };
        return Some(chains(folding::opened(plan, request, builder), plan, Some(how), Rate::Period(1)));
    }
    if request.off_cpu {
        // Nothing hits it; its samples are made of sums at the end.
        let sample =
            SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD | SampleType::CALLCHAIN;
        return Some(builder.period(1).sample(sample).with(|attr| attr.read_format &= KEPT));
    }
    if !fields.exclude.is_empty() {
        // This overrides the event's modifiers for user and kernel.
        let hv = request.spec.exclude.hv;
        builder = builder.user_and_kernel().with(|attr| {
            attr.flags |= fields.exclude;
            attr.flags.set(AttrFlags::EXCLUDE_HV, hv);
        });
    }
    // Nobody who is followed is idle. Only clocks tick for the idle task, and only they know of it everywhere.
    if plan.follow.is_some() && builder.attr().type_ == EventType::SOFTWARE {
        builder = builder.with(|attr| attr.flags |= AttrFlags::EXCLUDE_IDLE);
    }
    if request.spec.precise == Precise::Most {
        builder = builder.most_precise();
    }
    let tracepoint = request.is_tracepoint();
    let usual = if counts_one_by_one(request) && !plan.rate_given { Rate::Period(1) } else { plan.rate };
    let rate = terms::rate(plan, &request.spec).unwrap_or(usual);
    let how = terms::chains(plan, &request.spec);
    let mut sample = SampleType::IP | SampleType::TID;
    if request.spec.options.time != Some(false) {
        sample |= SampleType::TIME;
    }
    builder = match rate {
        Rate::Frequency(hz) => {
            sample |= SampleType::PERIOD;
            builder.frequency(hz)
        }
        Rate::Period(period) => builder.period(period),
    };
    let stack = matches!(how, Some(Chains::Stack(_)));
    let chosen = [
        (fields.period || tracepoint || plan.fold || plan.kernel.facts().is_embedded, SampleType::PERIOD),
        (fields.cpu || fields.raw || tracepoint, SampleType::CPU),
        (fields.raw || tracepoint, SampleType::RAW),
        (fields.data || stack, SampleType::ADDR | SampleType::DATA_SRC),
        (fields.physical, SampleType::PHYS_ADDR),
        (fields.page_size, SampleType::DATA_PAGE_SIZE),
        (fields.code_page_size, SampleType::CODE_PAGE_SIZE),
        (fields.transaction, SampleType::TRANSACTION),
        (fields.user_regs != 0, SampleType::REGS_USER),
        (fields.intr_regs != 0, SampleType::REGS_INTR),
        (request.spec.sample_read, SampleType::READ),
        (fields.cgroup, SampleType::CGROUP),
    ];
    chosen.iter().filter(|(on, _)| *on).for_each(|(_, field)| sample |= *field);
    if fields.weight {
        sample |= weight(plan);
    }
    builder = builder.sample(sample).with(|attr| {
        counts(attr, fields, request);
        attr.sample_regs_user = fields.user_regs;
        attr.sample_regs_intr = fields.intr_regs;
        if fields.no_samples {
            attr.set_sample_freq(0);
        }
    });
    builder = chains(builder, plan, how, rate);
    if let Some(entries) = request.spec.options.max_stack {
        builder = builder.with(|attr| attr.sample_max_stack = entries);
    }
    let builder = terms::aux(builder, &request.spec);
    let branches = terms::branches(plan, &request.spec).unwrap_or_default();
    if branches.is_empty() { Some(builder) } else { Some(builder.with(|attr| branch_stack(attr, branches))) }
}

/// The weight of a sample: with its parts, where the kernel knows them. It refuses both at once.
fn weight(plan: &Plan) -> SampleType {
    let parts = SampleType::WEIGHT_STRUCT;
    let known = plan.kernel.support().sample_type.contains(parts);
    if known { parts } else { SampleType::WEIGHT }
}

/// Chooses the fields that reading the event gives.
fn counts(attr: &mut Attr, fields: Fields, request: &Request) {
    if !(fields.per_thread_counts || fields.times) {
        attr.read_format &= KEPT;
    }
    if request.spec.sample_read && request.group.is_some() {
        attr.read_format |= ReadFormat::GROUP;
    }
    attr.flags.set(AttrFlags::INHERIT_STAT, fields.per_thread_counts);
}

/// Of which privilege levels is left to the kernel unless told: those that are sampled.
fn branch_stack(attr: &mut Attr, branches: BranchSampleType) {
    attr.sample_type |= SampleType::BRANCH_STACK;
    attr.branch_sample_type |= branches;
    // Privilege levels alone are no kind of branch.
    if branches.difference(BranchSampleType::PLM_ALL).is_empty() {
        attr.branch_sample_type |= BranchSampleType::ANY;
    }
}

fn chains(builder: Builder, plan: &Plan, how: Option<Chains>, rate: Rate) -> Builder {
    let sides = plan.fields.exclude_chains;
    let builder = if how.is_some() { builder.with(|attr| attr.flags |= sides) } else { builder };
    match how {
        None => builder,
        Some(Chains::FramePointers) => builder.sample(SampleType::CALLCHAIN),
        Some(Chains::Stack(_) | Chains::Unwound(_)) => builder.with(|attr| {
            attr.sample_type |= SampleType::CALLCHAIN | SampleType::REGS_USER | SampleType::STACK_USER;
            attr.flags |= AttrFlags::EXCLUDE_CALLCHAIN_USER;
            attr.sample_regs_user = match (plan.fields.user_regs, how) {
                (0, _) => registers(),
                (chosen, Some(Chains::Unwound(_))) => chosen | registers(),
                (chosen, _) => chosen | place(),
            };
            attr.sample_stack_user = match how {
                Some(Chains::Stack(bytes) | Chains::Unwound(Some(bytes))) => bytes,
                _ => copied(rings::ring_bytes(plan) as u64, rate),
            };
        }),
        Some(Chains::LastBranches) => builder.with(|attr| {
            attr.sample_type |= SampleType::CALLCHAIN | SampleType::BRANCH_STACK;
            attr.branch_sample_type = BranchSampleType::USER
                | BranchSampleType::CALL_STACK
                | BranchSampleType::NO_CYCLES
                | BranchSampleType::NO_FLAGS
                | BranchSampleType::HW_INDEX;
        }),
    }
}

/// The registers without which nothing can be unwound.
fn place() -> u64 {
    Arch::NATIVE.map_or(0, |arch| 1 << arch.ip() | 1 << arch.sp())
}

/// Bytes to copy of a stack that is unwound at once: of a tenth of a second of samples the copies fit into a ring, and four copies
/// in any case. What is not there of a stack takes room in a ring, and no time.
fn copied(ring: u64, rate: Rate) -> u32 {
    /// Of an event whose rate is not known.
    const USUAL: u64 = 1000;
    let hz = match rate {
        Rate::Frequency(hz) => hz,
        Rate::Period(_) => USUAL,
    };
    let (least, most) = (Chains::STACK_BYTES.into(), Chains::MOST_STACK_BYTES.into());
    (ring / (hz / 10).max(1)).clamp(least, most).min(ring / 4) as u32 / 8 * 8
}

/// The mask of every register that unwinding may need.
pub fn registers() -> u64 {
    Arch::NATIVE.map_or(u64::from(u32::MAX), Arch::general_mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_stacks_fit_into_their_ring() {
        let of = |ring: u64, hz| copied(ring, Rate::Frequency(hz));
        assert_eq!(of(8 << 20, 999), Chains::MOST_STACK_BYTES);
        assert_eq!(of(1 << 20, 999), 10_584);
        assert_eq!(of(512 << 10, 9_999), Chains::STACK_BYTES);
        // Four of them, however small it is.
        assert_eq!((of(16 << 10, 99), of(4 << 10, 99)), (4 << 10, 1 << 10));
        assert_eq!(copied(1 << 20, Rate::Period(1)), of(1 << 20, 1000));
    }
}
