//! The checks of `perf_event_open(2)` that depend on nothing but its arguments and a few settings, in
//! the kernel's order (rules A8 to A21 and B1 to B24). All of them answer EINVAL.

use super::name::unnamed;
use super::{Cause, Diagnosis, Open, Part, remedy};
use perfuse_abi::{Attr, AttrFlags, BranchSampleType, Breakpoint, EventType, SampleType};

/// The first check that fails, if one of these does.
pub(super) fn first_violation(open: &Open<'_>) -> Option<Diagnosis> {
    unknown_bits(open)
        .or_else(|| contradiction(open))
        .or_else(|| rate(open))
        .or_else(|| target(open))
        .or_else(|| inherited_reads(open.attr))
        .or_else(|| breakpoint(open))
        .or_else(|| clock(open))
}

fn contradicts(text: &str, remedy: &str) -> Option<Diagnosis> {
    Some(Diagnosis::new(Cause::Contradiction, text).remedy(remedy))
}

fn out_of_range(text: String) -> Option<Diagnosis> {
    Some(Diagnosis::new(Cause::OutOfRange, text))
}

/// Rules B1 and A8 to A10: bits without a meaning, or with one that this kernel does not know yet.
fn unknown_bits(open: &Open<'_>) -> Option<Diagnosis> {
    let Open { attr, facts, findings, .. } = open;
    let unknown = |set: &str, bits: u64| {
        (bits != 0).then(|| {
            Diagnosis::new(Cause::UnknownBits, format!("{set} has bits without a meaning: {bits:#x}"))
        })
    };
    let found = unknown("the flags argument", unnamed(open.flags, open.flags.iter_names()).bits());
    if found.is_some() {
        return found;
    }
    if attr.size as usize > size_of::<Attr>() {
        return out_of_range(format!(
            "attr.size is {}, more than the {} bytes there are",
            attr.size,
            size_of::<Attr>()
        ));
    }
    let flags = attr.flags - AttrFlags::PRECISE_IP_MASK;
    let found = unknown("attr's bit-field", unnamed(flags, flags.iter_names()).bits())
        .or_else(|| unknown("attr.__reserved_2", attr.reserved_2.into()))
        .or_else(|| {
            unknown("attr.aux_action", unnamed(attr.aux_action, attr.aux_action.iter_names()).bits().into())
        })
        .or_else(|| {
            unknown("attr.sample_type", unnamed(attr.sample_type, attr.sample_type.iter_names()).bits())
        })
        .or_else(|| {
            unknown("attr.read_format", unnamed(attr.read_format, attr.read_format.iter_names()).bits())
        });
    if found.is_some() {
        return found;
    }
    let running = facts.kernel()?;
    let newer = attr.requirements().into_iter().filter(|requirement| requirement.since > running);
    // Vendors bring new things to old releases: where the probes clear it, it is not the reason.
    let suspected = |what: &str| {
        findings.culprits.is_empty()
            || findings.culprits.iter().any(|part| match part {
                Part::Flag(flag) => is_name_of(what, flag.iter_names()),
                Part::Sample(field) => is_name_of(what, field.iter_names()),
                Part::Read(format) => is_name_of(what, format.iter_names()),
                Part::Aux => what.starts_with("aux_"),
                Part::Clock => what.contains("clockid"),
                _ => false,
            })
    };
    let newest = newer.into_iter().rfind(|requirement| suspected(&requirement.to_string()))?;
    let text = format!("{newest} came with Linux {}, this is {}", newest.since, facts.release);
    Some(Diagnosis::new(Cause::TooNew, text).remedy(format!("do without {newest}, or boot a newer kernel")))
}

/// Whether "sample_type CGROUP" or "sigtrap" is the name of one of these flags.
fn is_name_of<F>(what: &str, mut flags: impl Iterator<Item = (&'static str, F)>) -> bool {
    let last = what.rsplit(' ').next().unwrap_or(what);
    flags.any(|(name, _)| name.eq_ignore_ascii_case(last))
}

/// Rules A11 to A21.
fn contradiction(open: &Open<'_>) -> Option<Diagnosis> {
    let Open { attr, facts, .. } = open;
    let has = |flag| attr.flags.contains(flag);
    let sample = |field| attr.sample_type.contains(field);
    if sample(SampleType::BRANCH_STACK) {
        let bits = unnamed(attr.branch_sample_type, attr.branch_sample_type.iter_names()).bits();
        if bits != 0 {
            let text = format!("attr.branch_sample_type has bits without a meaning: {bits:#x}");
            return Some(Diagnosis::new(Cause::UnknownBits, text));
        }
        if (attr.branch_sample_type - BranchSampleType::PLM_ALL).is_empty() {
            let text =
                "sample_type BRANCH_STACK with a branch_sample_type that names no kind of branch (rule A11)";
            return contradicts(text, "add branch_sample_type ANY, or a narrower kind");
        }
    }
    let registers = |what: &str, mask: u64| {
        let bad = if facts.arch == "x86_64" { mask & 0xff00_f000 } else { 0 };
        if mask == 0 {
            return contradicts(
                &format!("sample_type asks for registers and {what} names none"),
                "name some registers",
            );
        }
        let text = format!("{what} names registers this architecture does not have: {bad:#x} (rule A13)");
        (bad != 0).then(|| Diagnosis::new(Cause::NoRegisters, text))
    };
    if sample(SampleType::REGS_USER) {
        let found = registers("sample_regs_user", attr.sample_regs_user);
        if found.is_some() {
            return found;
        }
    }
    let stack = attr.sample_stack_user;
    if sample(SampleType::STACK_USER) && (stack >= 65535 || stack % 8 != 0) {
        return out_of_range(format!("sample_stack_user is {stack}; it must be a multiple of 8 below 65535"));
    }
    if sample(SampleType::REGS_INTR) {
        let found = registers("sample_regs_intr", attr.sample_regs_intr);
        if found.is_some() {
            return found;
        }
    }
    if sample(SampleType::WEIGHT | SampleType::WEIGHT_STRUCT) {
        return contradicts("sample_type has both WEIGHT and WEIGHT_STRUCT", "ask for one of them");
    }
    if has(AttrFlags::INHERIT_THREAD) && !has(AttrFlags::INHERIT) {
        return contradicts("inherit_thread without inherit", "set inherit too");
    }
    if has(AttrFlags::REMOVE_ON_EXEC | AttrFlags::ENABLE_ON_EXEC) {
        return contradicts("remove_on_exec together with enable_on_exec", "choose one of them");
    }
    if has(AttrFlags::SIGTRAP) && !has(AttrFlags::REMOVE_ON_EXEC) {
        return contradicts("sigtrap without remove_on_exec", "set remove_on_exec too");
    }
    None
}

/// Rule B6.
fn rate(open: &Open<'_>) -> Option<Diagnosis> {
    let Open { attr, facts, .. } = open;
    let Some(asked) = attr.sample_freq() else {
        let text = || format!("a period of {:#x} has its highest bit set", attr.sample_period);
        return (attr.sample_period >> 63 == 1).then(|| Diagnosis::new(Cause::OutOfRange, text()));
    };
    let limit =
        facts.max_sample_rate.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| asked > *limit)?;
    let text = format!("{asked} samples per second, and kernel.perf_event_max_sample_rate is {limit}");
    Some(
        Diagnosis::new(Cause::SampleRate, text)
            .remedy(format!("sample at {limit} Hz or less"))
            .remedy(remedy::sysctl(facts, "perf_event_max_sample_rate", asked)),
    )
}

/// Rules B9, B14 and B15.
fn target(open: &Open<'_>) -> Option<Diagnosis> {
    let no_target = |text: &str, remedy: &str| Some(Diagnosis::new(Cause::NoTarget, text).remedy(remedy));
    if open.is_cgroup() && (open.pid == -1 || open.cpu == -1) {
        return no_target("a cgroup is measured on one cpu at a time", "open one event for each cpu");
    }
    if open.pid == -1 && open.cpu == -1 {
        return no_target("neither a thread nor a cpu is named", "open one event for each cpu");
    }
    let possible = open.facts.possible_cpus;
    if open.cpu < -1 || possible.is_some_and(|cpus| i64::from(open.cpu) >= i64::from(cpus)) {
        let last =
            possible.map_or_else(String::new, |cpus| format!(", the last one is {}", cpus.saturating_sub(1)));
        return Some(Diagnosis::new(Cause::NoSuchCpu, format!("there is no cpu {}{last}", open.cpu)));
    }
    if open.attr.flags.contains(AttrFlags::SIGTRAP) && open.is_cpu_wide() {
        return no_target("sigtrap needs a thread to signal", "bind the event to a thread");
    }
    None
}

/// Rule B15.
fn inherited_reads(attr: &Attr) -> Option<Diagnosis> {
    let reads = attr.flags.contains(AttrFlags::INHERIT) && attr.sample_type.contains(SampleType::READ);
    if reads && !attr.sample_type.contains(SampleType::TID) {
        return contradicts("inherit with sample_type READ, and without TID", "add sample_type TID");
    }
    None
}

/// Rule J20. Slots come before shapes, but their errno is another.
fn breakpoint(open: &Open<'_>) -> Option<Diagnosis> {
    let attr = open.attr;
    if attr.type_ != EventType::BREAKPOINT {
        return None;
    }
    let shape =
        |text: String, remedy: &str| Some(Diagnosis::new(Cause::BreakpointShape, text).remedy(remedy));
    let (address, length) = (attr.bp_addr(), attr.bp_len());
    // arm64 takes any length up to 8 at any address.
    let x86 = open.facts.arch.starts_with("x86");
    match attr.bp_type {
        Breakpoint::W | Breakpoint::RW => {}
        Breakpoint::R if x86 => {
            return shape("x86 cannot watch reads alone".to_owned(), "watch reads and writes (rw)");
        }
        Breakpoint::R => {}
        Breakpoint::X if x86 && length != 8 => {
            let text = format!("an execution breakpoint has length 8, sizeof(long), not {length}");
            return shape(text, "set bp_len to 8");
        }
        Breakpoint::X => return None,
        other => {
            return shape(
                format!("bp_type {} is neither write, read-write nor execution", other.0),
                "set bp_type to W, RW or X",
            );
        }
    }
    if address.checked_add(length.saturating_sub(1)).is_none() {
        return shape(
            format!("{length} bytes at {address:#x} run over the end of the address space"),
            "watch less",
        );
    }
    if !(1..=8).contains(&length) || x86 && !length.is_power_of_two() {
        return shape(
            format!("a breakpoint watches 1, 2, 4 or 8 bytes, not {length}"),
            "watch 1, 2, 4 or 8 bytes",
        );
    }
    if x86 && address % length != 0 {
        let text = format!("{address:#x} is not a multiple of the {length} bytes to be watched");
        return shape(text, "align the address, or watch fewer bytes");
    }
    if address >> 63 == 1 && attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) {
        return shape(
            format!("{address:#x} is in kernel memory, which exclude_kernel leaves out"),
            "drop exclude_kernel",
        );
    }
    None
}

/// Rule B24.
fn clock(open: &Open<'_>) -> Option<Diagnosis> {
    let attr = open.attr;
    if !attr.flags.contains(AttrFlags::USE_CLOCKID) {
        return None;
    }
    let (name, everywhere) = match attr.clockid {
        1 | 4 => return None,
        0 => ("CLOCK_REALTIME", false),
        7 => ("CLOCK_BOOTTIME", false),
        11 => ("CLOCK_TAI", false),
        _ => ("", true),
    };
    let software = attr.type_ == EventType::SOFTWARE;
    if !everywhere && software {
        return None;
    }
    let text = match everywhere {
        true => format!("clock {} cannot stamp events", attr.clockid),
        false => {
            format!("{name} cannot be read in the interrupts of this event, only in those of software events")
        }
    };
    Some(Diagnosis::new(Cause::Clock, text).remedy("use CLOCK_MONOTONIC or CLOCK_MONOTONIC_RAW"))
}
