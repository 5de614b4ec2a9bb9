//! EINVAL, E2BIG and EOVERFLOW: what is wrong with the request itself.

use super::attr::first_violation;
use super::{Cause, Diagnosis, Open, Part, remedy};
use crate::call::Subject;
use crate::pmu::Pmu;
use perfuse_abi::{Attr, AttrFlags, EventType, OpenFlags, Release, SampleType};
use perfuse_sys::Errno;

pub(super) fn einval(open: &Open<'_>) -> Option<Diagnosis> {
    first_violation(open)
        .or_else(|| of_the_pmu(open))
        .or_else(|| of_the_group(open))
        .or_else(|| by_elimination(open))
}

/// Checks of the PMU (rules B16 to B18).
fn of_the_pmu(open: &Open<'_>) -> Option<Diagnosis> {
    let Open { attr, facts, findings, .. } = open;
    let pmu = facts.pmu(attr.type_);
    let name = pmu.map_or("the PMU", |pmu| pmu.name());
    if pmu.is_some_and(|pmu| pmu.name() == "uprobe") {
        return Some(
            Diagnosis::new(Cause::ProbePlace, "the file cannot be probed there (rule J51)")
                .remedy("give a regular file, and an offset within it where an instruction starts"),
        );
    }
    if pmu.is_some_and(|pmu| pmu.name() == "kprobe") {
        return Some(
            Diagnosis::new(Cause::ProbePlace, "the kernel does not let this address be probed (rule J52)")
                .remedy("probe another function: see /sys/kernel/debug/kprobes/blacklist"),
        );
    }
    // A breakpoint is never tried without its address and length, so nothing is left to blame them for.
    if findings.bare != Some(Err(Errno::EINVAL)) || attr.type_ == EventType::BREAKPOINT {
        return None;
    }
    if attr.type_ == EventType::TRACEPOINT {
        let text = format!("no tracepoint has id {} (rule J30)", attr.config);
        return Some(
            Diagnosis::new(Cause::UnknownTracepoint, text)
                .remedy("read the id from events/SUBSYSTEM/NAME/id of the tracing file system"),
        );
    }
    // The same event of a cpu instead of a thread.
    if findings.on_cpu == Some(Ok(())) {
        let text = format!("{name} counts for a package or the machine, not for threads (rule B17)");
        let place = format!("measure a cpu of /sys/bus/event_source/devices/{name}/cpumask (-a)");
        return Some(Diagnosis::new(Cause::NotPerTask, text).remedy(place));
    }
    match attr.type_ {
        EventType::HARDWARE | EventType::HW_CACHE => {
            let text = format!("there is no such event: config {:#x} (rule N1)", attr.config);
            Some(Diagnosis::new(Cause::UnknownEvent, text))
        }
        _ if findings.culprits.contains(&Part::Excludes) => Some(no_exclude(name)),
        _ => {
            let text = format!("{name} does not take config {:#x} like this", attr.config);
            let place = format!("its fields: head /sys/bus/event_source/devices/{name}/format/*");
            Some(Diagnosis::new(Cause::EventConfig, text).remedy(place))
        }
    }
}

fn no_exclude(pmu: &str) -> Diagnosis {
    Diagnosis::new(Cause::NoExclude, format!("{pmu} cannot leave out user space, kernel or hypervisor"))
        .remedy("drop the modifiers (:u, :k, …)")
}

/// Rules B13 and B28 to B32.
fn of_the_group(open: &Open<'_>) -> Option<Diagnosis> {
    let Open { attr, findings, .. } = open;
    let needs_aux = attr.aux_sample_size != 0
        || attr.aux_action.bits() != 0
        || attr.flags.contains(AttrFlags::AUX_OUTPUT);
    if open.flags.contains(OpenFlags::FD_OUTPUT) {
        return Some(
            Diagnosis::new(
                Cause::Redirection,
                "the output target has no ring, or another cpu or clock (rule G30)",
            )
            .remedy("map the target first; redirect only events of the same cpu or thread"),
        );
    }
    let Some(leader) = open.leader else {
        // Rule B32.
        let text = "an event that uses an AUX area needs a group leader that has one";
        return needs_aux.then(|| {
            Diagnosis::new(Cause::AuxLeader, text)
                .remedy("open it in the group of an AUX event such as intel_pt//")
        });
    };
    if !findings.culprits.is_empty() && !findings.culprits.contains(&Part::Group) {
        return None;
    }
    if let Some((text, remedy)) = difference(open, leader) {
        return Some(Diagnosis::new(Cause::Group, text).remedy(remedy));
    }
    if attr.flags.intersects(AttrFlags::PINNED | AttrFlags::EXCLUSIVE) {
        let text = "pinned and exclusive are for group leaders (rule B28)";
        return Some(Diagnosis::new(Cause::Group, text).remedy("set them on the leader only"));
    }
    if counts_on_the_cpu(open, attr) {
        let text =
            "the group does not fit the PMU's counters all at once, or has events of two PMUs (rule B29)";
        let remedy = "make the group smaller, or open the event by itself: the kernel then takes turns";
        return Some(Diagnosis::new(Cause::Group, text).remedy(remedy));
    }
    let mut text = "the leader is a member of another group, or the group has events of two PMUs \
                    (rules B28, B29)"
        .to_owned();
    let mut diagnosis = Diagnosis::new(Cause::Group, "").remedy("open it as a group of its own");
    if attr.flags.contains(AttrFlags::INHERIT) {
        text += "; an inherited group may also have changed places with a child's copy (rule D20)";
        diagnosis = diagnosis.remedy("build inherited groups before the task forks");
    }
    diagnosis.explanation = text;
    Some(diagnosis)
}

/// The first difference between an event and its leader that the kernel forbids, in its order, as far as it
/// can be seen from outside; with its remedy.
fn difference(open: &Open<'_>, leader: &Subject) -> Option<(String, &'static str)> {
    let attr = open.attr;
    let has = |attr: &Attr, flag| attr.flags.contains(flag);
    let (own, leads) = (has(attr, AttrFlags::INHERIT), has(&leader.attr, AttrFlags::INHERIT));
    if own != leads && !open.is_cpu_wide() {
        let which = if own {
            "the event is inherited and its leader is not"
        } else {
            "the leader is inherited and the event is not"
        };
        return Some((format!("{which} (rule B13)"), "set inherit on both, or on neither"));
    }
    let clock = |attr: &Attr| has(attr, AttrFlags::USE_CLOCKID).then_some(attr.clockid);
    if clock(attr) != clock(&leader.attr) {
        return Some((
            "the event and its group leader have different clocks (rule B28)".to_owned(),
            "give all members the leader's clock",
        ));
    }
    if open.cpu != leader.cpu {
        let cpu =
            |cpu: i32| if cpu == -1 { "on no particular cpu".to_owned() } else { format!("on cpu {cpu}") };
        let text =
            format!("the event counts {} and its group leader {} (rule B28)", cpu(open.cpu), cpu(leader.cpu));
        return Some((text, "open a group for each cpu"));
    }
    if open.is_cgroup() && (!leader.cgroup || open.pid != leader.pid) {
        let text = "the event counts another cgroup than its group leader (rule B19)";
        return Some((text.to_owned(), "open a group for each cgroup"));
    }
    let whom = |pid| match pid {
        -1 => "everything on its cpu".to_owned(),
        0 => "this thread".to_owned(),
        pid => format!("thread {pid}"),
    };
    // A cgroup's events, and those of 0 and of the caller's own number, have one context.
    let unclear = open.pid >= 0 && leader.pid >= 0 && (open.pid == 0 || leader.pid == 0);
    if open.pid != leader.pid && !open.is_cgroup() && !leader.cgroup && !unclear {
        let text = format!(
            "the event counts {} and its group leader {} (rule B28)",
            whom(open.pid),
            whom(leader.pid)
        );
        return Some((text, "open a group for each of them"));
    }
    None
}

/// Whether it takes one of a processor's counters.
fn counts_on_the_cpu(open: &Open<'_>, attr: &Attr) -> bool {
    attr.type_ == EventType::HARDWARE
        || attr.type_ == EventType::HW_CACHE
        || open.facts.pmu(attr.type_).is_some_and(Pmu::is_cpu)
}

/// Blames the option that the probes found guilty, where no rule explains the refusal.
fn by_elimination(open: &Open<'_>) -> Option<Diagnosis> {
    let Open { attr, facts, findings, .. } = open;
    let name = facts.pmu(attr.type_).map_or("the kernel", |pmu| pmu.name());
    Some(match *findings.culprits.first()? {
        Part::Group => return None,
        Part::Excludes => no_exclude(name),
        Part::Sampling => {
            Diagnosis::new(Cause::NoSampling, format!("{name} counts this event but does not sample it"))
                .remedy("count it (no period, no frequency), and sample by cpu-clock")
        }
        Part::Precise => {
            let text = format!("{name} does not sample this event at precise_ip {}", attr.flags.precise_ip());
            Diagnosis::new(Cause::NoPrecise, text).remedy("drop p from the modifier, or sample with a period")
        }
        Part::MoreConfig => {
            let place = format!("its fields: head /sys/bus/event_source/devices/{name}/format/*");
            let text = format!("{name} does not take what is in config1 to config4");
            Diagnosis::new(Cause::EventConfig, text).remedy(place)
        }
        Part::Clock => Diagnosis::new(Cause::Clock, format!("clock {} is not for this event", attr.clockid))
            .remedy("use CLOCK_MONOTONIC or CLOCK_MONOTONIC_RAW"),
        Part::Aux => Diagnosis::new(Cause::NoAux, format!("{name} has no AUX area for this")),
        part @ (Part::Flag(_) | Part::Sample(_) | Part::Read(_)) => {
            let part = part_name(part);
            let text = format!("{name} refuses the event with {part} and takes it without");
            Diagnosis::new(Cause::Contradiction, text).remedy(format!("do without {part}"))
        }
    })
}

fn part_name(part: Part) -> String {
    let of = |set: &str, name: Option<&str>| format!("{set}{}", name.unwrap_or_default());
    match part {
        Part::Flag(flag) => of("", flag.iter_names().next().map(|(name, _)| name)).to_ascii_lowercase(),
        Part::Sample(field) => of("sample_type ", field.iter_names().next().map(|(name, _)| name)),
        Part::Read(format) => of("read_format ", format.iter_names().next().map(|(name, _)| name)),
        other => format!("{other:?}"),
    }
}

pub(super) fn e2big(open: &Open<'_>) -> Option<Diagnosis> {
    let Open { attr, facts, findings, .. } = open;
    // Rule A3.
    if attr.size != 0 && !(Attr::SIZE_VER0..=Attr::SIZE_MAX).contains(&attr.size) {
        let text = format!("attr.size is {}; it must be between 64 and 4096", attr.size);
        return Some(Diagnosis::new(Cause::OutOfRange, text));
    }
    let known = findings.attr_size.or_else(|| facts.kernel().map(attr_size_of));
    // Rule A4: the kernel looks at every byte, so the newest field that is not zero is the one.
    if let Some(known) = known.filter(|known| attr.size > *known) {
        let text = match Attr::FIELDS.iter().rfind(|field| field.attr_size() > known && field.get(attr) != 0)
        {
            Some(field) => format!(
                "{} came with Linux {}; this kernel ({}) knows an attr of {known} bytes",
                field.name, field.since, facts.release
            ),
            None => format!(
                "the attr has non-zero bytes beyond the {known} this kernel ({}) knows",
                facts.release
            ),
        };
        return Some(
            Diagnosis::new(Cause::TooNew, text).remedy("leave that field at zero, or boot a newer kernel"),
        );
    }
    // Rules J51 and J52.
    if let Some(pmu) = facts.pmu(attr.type_).filter(|pmu| pmu.name() == "kprobe" || pmu.name() == "uprobe") {
        let what = if pmu.name() == "kprobe" { "function's name" } else { "path" };
        return Some(Diagnosis::new(Cause::OutOfRange, format!("the {what} is too long")));
    }
    // Rule B31.
    open.leader.is_some().then(|| {
        Diagnosis::new(Cause::GroupReadSize, "the group has more members than one read may return (16 KiB)")
            .remedy("split the group, or ask for less in read_format")
    })
}

/// The attr size of an unmodified release.
fn attr_size_of(release: Release) -> u32 {
    let fields = Attr::FIELDS.iter().filter(|field| field.since <= release);
    fields.map(perfuse_abi::Field::attr_size).max().unwrap_or(Attr::SIZE_VER0)
}

/// Rule B21.
pub(super) fn eoverflow(open: &Open<'_>) -> Option<Diagnosis> {
    let Open { attr, facts, .. } = open;
    if !attr.sample_type.contains(SampleType::CALLCHAIN) {
        return None;
    }
    let limit = facts.max_stack.map_or_else(|| "its limit".to_owned(), |limit| limit.to_string());
    let text =
        format!("callchains of {} frames, and kernel.perf_event_max_stack is {limit}", attr.sample_max_stack);
    Some(
        Diagnosis::new(Cause::StackDepth, text)
            .remedy(format!("ask for {limit} frames or fewer, or 0 for as many as allowed"))
            .remedy(remedy::sysctl(facts, "perf_event_max_stack", attr.sample_max_stack)),
    )
}
