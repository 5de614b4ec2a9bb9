//! ENOENT, EOPNOTSUPP, ENODEV, EBUSY and their like: what the machine, the kernel or the moment does
//! not have.

use super::probe::{CgroupKind, Part};
use super::{Cause, Diagnosis, Open, remedy};
use crate::own_pmus::OWN_PMUS;
use crate::pmu::Pmu;
use perfuse_abi::{AttrFlags, EventType, Hardware, Release, SampleType, Software};

pub(super) fn enosys(open: &Open<'_>) -> Option<Diagnosis> {
    // Rule A14.
    let stack = open.attr.sample_type.contains(SampleType::STACK_USER);
    stack.then(|| {
        Diagnosis::new(Cause::NoRegisters, "this architecture cannot copy user stacks into samples")
            .remedy("record callchains instead of stacks")
    })
}

pub(super) fn enoent(open: &Open<'_>) -> Option<Diagnosis> {
    let Open { attr, facts, findings, .. } = open;
    // Rule B19 comes after the PMU was found.
    if open.is_cgroup() && findings.bare == Some(Ok(())) {
        return Some(cgroup(open));
    }
    match attr.type_ {
        EventType::HARDWARE | EventType::HW_CACHE => {
            let (_, pmu) = Hardware::from_config(attr.config);
            match pmu {
                EventType(0) => hardware(open),
                type_ if facts.pmu(type_).is_some_and(Pmu::is_cpu) => hardware(open),
                EventType(type_) => Some(unknown_pmu(open, type_)),
            }
        }
        EventType::RAW => hardware(open),
        EventType::SOFTWARE => {
            // Rule J1. The table of the kernel grows.
            let since = match Software(attr.config) {
                Software::CGROUP_SWITCHES => Some(Release::new(5, 13)),
                Software::BPF_OUTPUT => Some(Release::new(4, 4)),
                Software::DUMMY => Some(Release::new(3, 12)),
                _ => None,
            };
            let running = facts.kernel();
            Some(match since {
                Some(since) if running.is_some_and(|running| running < since) => {
                    let text =
                        format!("this software event came with Linux {since}, this is {}", facts.release);
                    Diagnosis::new(Cause::TooNew, text)
                }
                _ => Diagnosis::new(
                    Cause::UnknownEvent,
                    format!("this kernel has no software event {}", attr.config),
                ),
            })
        }
        type_ => Some(match facts.pmu(type_) {
            Some(pmu) if pmu.name() == "kprobe" => {
                Diagnosis::new(Cause::ProbePlace, "the kernel has no such function (rule J52)")
                    .remedy("look for its name in /proc/kallsyms; inlined functions have none")
            }
            Some(pmu) if pmu.name() == "uprobe" => {
                Diagnosis::new(Cause::NoFile, "the file to be probed does not exist (rule J51)")
                    .remedy("give its path as this process sees it")
            }
            Some(pmu) => {
                let text = format!("the PMU {} has no event {:#x}", pmu.name(), attr.config);
                let place = format!("its events: ls /sys/bus/event_source/devices/{}/events", pmu.name());
                Diagnosis::new(Cause::UnknownEvent, text).remedy(place)
            }
            None => unknown_pmu(open, type_.0),
        }),
    }
}

fn cgroup(open: &Open<'_>) -> Diagnosis {
    let place = open.facts.cgroups.as_ref().map(|path| path.display().to_string());
    if open.findings.cgroup == Some(CgroupKind::Version2) {
        // A hierarchy of version 2 gets its controllers when the first of them is delegated.
        let text = "no controller has been switched on in the cgroup tree since it was mounted, so perf_event is not \
                    attached to it";
        let place = place.unwrap_or_else(|| "/sys/fs/cgroup".to_owned());
        let remedy = format!("echo +pids | sudo tee {place}/cgroup.subtree_control");
        return Diagnosis::new(Cause::CgroupHierarchy, text).remedy(remedy);
    }
    let text = "the cgroup belongs to a version 1 hierarchy without the perf_event controller";
    let remedy = match place {
        Some(place) => format!("use a cgroup below {place}"),
        None => "mount a hierarchy that has it: sudo mount -t cgroup2 cgroup2 DIRECTORY".to_owned(),
    };
    Diagnosis::new(Cause::CgroupHierarchy, text).remedy(remedy)
}

fn unknown_pmu(open: &Open<'_>, type_: u32) -> Diagnosis {
    if let Some(own) = OWN_PMUS.iter().find(|own| own.type_ == type_) {
        let text =
            format!("Linux has no PMU {}: perfuse's own kernel does, which steps by ptrace(2)", own.name);
        return Diagnosis::new(Cause::UnknownPmu, text)
            .remedy("have it count in place of Linux: --kernel embedded, or PERFUSE_KERNEL=embedded");
    }
    let names: Vec<_> = open.facts.pmus.iter().flatten().map(|pmu| pmu.name()).collect();
    let text = format!("no PMU has type {type_}; there are: {}", names.join(", "));
    Diagnosis::new(Cause::UnknownPmu, text)
        .remedy("read the number from /sys/bus/event_source/devices/*/type; it changes from boot to boot")
}

fn hardware(open: &Open<'_>) -> Option<Diagnosis> {
    let facts = open.facts;
    let mut cpu_pmus = facts.cpu_pmus().map(|pmu| pmu.name()).peekable();
    if cpu_pmus.peek().is_none() {
        let Some(pmus) = facts.pmus.as_ref() else {
            let text = "no PMU of this kernel has such an event; which there are is not to be seen, as \
                        /sys/bus/event_source/devices cannot be read";
            return Some(
                Diagnosis::new(Cause::UnknownEvent, text)
                    .remedy("have /sys mounted: mount -t sysfs sysfs /sys"),
            );
        };
        let names: Vec<_> = pmus.iter().map(|pmu| pmu.name()).collect();
        let why = match facts.hypervisor.as_deref() {
            Some(name) => {
                let name = if name == "a hypervisor" { "the hypervisor" } else { name };
                format!("{name} shows no PMU to this virtual machine")
            }
            None => "the kernel found no PMU for this processor".to_owned(),
        };
        let text = format!(
            "{why}: there is no cpu PMU among {}; no sysctl or capability helps",
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        );
        return Some(
            Diagnosis::new(Cause::NoHardwarePmu, text).remedies(remedy::hardware_pmu(facts, open.attr)),
        );
    }
    let names: Vec<_> = cpu_pmus.collect();
    let what = if open.attr.type_ == EventType::RAW { "raw event" } else { "event" };
    let whose = match names.as_slice() {
        [one] => format!("the PMU of this processor ({one}) has no such {what}"),
        many => format!("none of this processor's PMUs ({}) has such a {what}", many.join(", ")),
    };
    Some(Diagnosis::new(Cause::UnknownEvent, whose).remedy(format!(
        "see what it has: ls /sys/bus/event_source/devices/{}/events",
        names.first().copied().unwrap_or("cpu")
    )))
}

pub(super) fn enodev(open: &Open<'_>) -> Option<Diagnosis> {
    let online = open.facts.online_cpus.as_ref();
    let cpu = u32::try_from(open.cpu).ok();
    // The leader is looked at first (rule B11), but an offline cpu is certain.
    if let (Some(online), Some(cpu)) = (online, cpu) {
        if open.is_cpu_wide() && !online.contains(&cpu) {
            let text = format!("cpu {cpu} is offline");
            let remedy = format!("echo 1 | sudo tee /sys/devices/system/cpu/cpu{cpu}/online");
            return Some(Diagnosis::new(Cause::CpuOffline, text).remedy(remedy));
        }
    }
    if open.leader.is_some() {
        return Some(
            Diagnosis::new(
                Cause::LeaderGone,
                "the task of the group leader has ended, or its cpu went offline",
            )
            .remedy("open a new leader"),
        );
    }
    match open.facts.pmu(open.attr.type_) {
        Some(pmu) if !pmu.is_cpu() => {
            let text = format!("the PMU {} has nothing to count on cpu {} (rule B16)", pmu.name(), open.cpu);
            let place = format!("use a cpu of /sys/bus/event_source/devices/{}/cpumask", pmu.name());
            Some(Diagnosis::new(Cause::PmuGone, text).remedy(place))
        }
        _ => None,
    }
}

pub(super) fn esrch(open: &Open<'_>) -> Option<Diagnosis> {
    Some(match open.findings.task {
        Some(task) if task.exists && !task.zombie => {
            Diagnosis::new(Cause::TaskExiting, format!("thread {} is ending", open.pid))
        }
        Some(task) if task.exists => Diagnosis::new(
            Cause::NoSuchTask,
            format!("thread {} has ended (a zombie has no events)", open.pid),
        ),
        _ => {
            let text = format!("no such thread: {}", open.pid);
            let diagnosis = Diagnosis::new(Cause::NoSuchTask, text);
            match &open.facts.container {
                Some(_) => diagnosis.remedy("give its id as this container numbers it"),
                None => diagnosis,
            }
        }
    })
}

pub(super) fn ebadf(open: &Open<'_>) -> Option<Diagnosis> {
    // The leader comes first (rules B11, B19).
    Some(if open.is_cgroup() && (open.leader.is_none() || open.findings.cgroup == Some(CgroupKind::Other)) {
        Diagnosis::new(Cause::NotACgroup, "the descriptor is not that of a cgroup's directory")
            .remedy("open the directory of the cgroup for reading")
    } else {
        Diagnosis::new(Cause::NotAnEvent, "the group's descriptor is not that of an open event")
    })
}

pub(super) fn eopnotsupp(open: &Open<'_>) -> Option<Diagnosis> {
    let Open { attr, facts, findings, .. } = open;
    let pmu = facts.pmu(attr.type_).map_or_else(
        || super::event_name(attr),
        |pmu| {
            if pmu.is_cpu() { "this processor's PMU".to_owned() } else { format!("the PMU {}", pmu.name()) }
        },
    );
    let helped = |part| findings.culprits.contains(&part);
    let unprobed = findings.culprits.is_empty();
    let sample = |field| attr.sample_type.contains(field) && (unprobed || helped(Part::Sample(field)));
    // Each is looked for in the kernel's order; what the probes clear is skipped.
    Some(if sample(SampleType::BRANCH_STACK) {
        let diagnosis = Diagnosis::new(Cause::NoBranchStack, format!("{pmu} cannot record branches"));
        match facts.hypervisor {
            Some(_) => diagnosis
                .remedy("in a virtual machine branch records must be passed through (QEMU: lbr-fmt=)"),
            None => diagnosis,
        }
        .remedy("use callchains instead (frame pointers or DWARF)")
    } else if attr.type_ == EventType::BREAKPOINT {
        Diagnosis::new(
            Cause::NoBreakpoints,
            "this processor has no breakpoint registers for that, or a range",
        )
        .remedy("watch 1, 2, 4 or 8 bytes")
    } else if attr.flags.precise_ip() > 0 && (unprobed || helped(Part::Precise)) {
        let text = format!("{pmu} cannot sample at precise_ip {}", attr.flags.precise_ip());
        Diagnosis::new(Cause::NoPrecise, text).remedy("ask for less: one p fewer in the modifier, or none")
    } else if attr.aux_sample_size != 0
        || attr.aux_action.bits() != 0
        || attr.flags.contains(AttrFlags::AUX_OUTPUT)
    {
        Diagnosis::new(Cause::NoAux, format!("{pmu} has no AUX area for this (rule B18)"))
    } else if (attr.sample_regs_user | attr.sample_regs_intr) >> 32 != 0 && facts.arch.starts_with("x86") {
        Diagnosis::new(Cause::NoRegisters, format!("{pmu} cannot record vector registers (rule B16)"))
    } else if helped(Part::Excludes) {
        Diagnosis::new(Cause::NoExclude, format!("{pmu} cannot leave out all that exclude_* asks for"))
            .remedy("drop the modifiers (:u, :k, :I, …)")
    } else if attr.sample_period != 0 && (unprobed || helped(Part::Sampling)) {
        Diagnosis::new(
            Cause::NoSampling,
            format!("{pmu} has no overflow interrupt: it counts but cannot sample"),
        )
        .remedy("count it (no period, no frequency), and sample by cpu-clock")
    } else {
        return None;
    })
}

pub(super) fn ebusy(open: &Open<'_>) -> Option<Diagnosis> {
    let pmu = open.facts.pmu(open.attr.type_).map_or("this PMU", |pmu| pmu.name());
    let text =
        format!("{pmu} is in use by others and has room for one kind of user at a time (rules B20, B33)");
    let mut diagnosis = Diagnosis::new(Cause::ExclusivePmu, text)
        .remedy("end the other user: look for [perf_event] in the output of sudo ls -l /proc/*/fd");
    if open.facts.nmi_watchdog == Some(1) {
        diagnosis = diagnosis.remedy(remedy::sysctl(open.facts, "nmi_watchdog", 0));
    }
    Some(diagnosis)
}

pub(super) fn enospc(open: &Open<'_>) -> Option<Diagnosis> {
    let breakpoint = open.attr.type_ == EventType::BREAKPOINT;
    breakpoint.then(|| {
        let slots = match open.facts.arch {
            "x86_64" | "x86" => "all 4 debug registers".to_owned(),
            _ => "all debug registers for this".to_owned(),
        };
        let whom = if open.is_cpu_wide() { "a cpu" } else { "the thread" };
        let text = format!("{slots} of {whom} are taken, debuggers included (rule J22)");
        Diagnosis::new(Cause::BreakpointSlots, text)
            .remedy("close other breakpoint events; end debuggers that watch the same program")
    })
}
