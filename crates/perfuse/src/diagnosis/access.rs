//! EACCES, EPERM, and whatever a guard in front of the kernel answers: who may measure what.

use super::{Cause, Diagnosis, Open, remedy};
use crate::facts::parse::Flavour;
use crate::facts::{Capabilities, Facts};
use perfuse_abi::{Attr, AttrFlags, BranchSampleType, EventType, Release, SampleType, Software};
use perfuse_sys::Errno;

/// The call did not reach the kernel: something in front of it answered.
pub(super) fn guarded(open: &Open<'_>) -> Option<Diagnosis> {
    let Err(answer) = open.facts.reachable else { return None };
    // Something that answers in place of the kernel answers every call alike.
    if answer != open.errno {
        return None;
    }
    Some(unreachable(open.facts, answer))
}

/// Why `perf_event_open(2)` does not reach a kernel that knows it.
pub(crate) fn unreachable(facts: &Facts, answer: Errno) -> Diagnosis {
    let other = match facts.flavour {
        Flavour::GVisor => Some("gVisor"),
        Flavour::Wsl1 => Some("WSL 1"),
        _ => None,
    };
    // gVisor's word for a call that it has in its table, and does not serve.
    if let (Some(name), Errno::ENOSYS | Errno::ENODEV) = (other, answer) {
        let text = format!("{name} answers the system calls here, and it has no perf_events");
        return Diagnosis::new(Cause::OtherKernel, text).remedies(remedy::other_kernel(facts));
    }
    // perf_event_open(2): the existence of this file tells whether the kernel has perf_events.
    let built_without = facts.config.is_some_and(|config| !config.perf_events);
    if answer == Errno::ENOSYS
        && (built_without || facts.paranoid.is_none() && facts.seccomp_filter != Some(true))
    {
        return Diagnosis::new(Cause::NoPerfEvents, "this kernel was built without CONFIG_PERF_EVENTS")
            .remedy("boot a kernel with CONFIG_PERF_EVENTS=y");
    }
    let who = match (facts.seccomp_filter, facts.container.as_deref()) {
        (Some(true), Some(container)) => {
            format!("a seccomp filter, probably that of the {container} container,")
        }
        (Some(true), None) => "a seccomp filter on this process".to_owned(),
        _ => "something in front of the kernel (no seccomp filter of this process)".to_owned(),
    };
    let text = format!("{who} answers perf_event_open before the kernel sees it; no sysctl helps");
    Diagnosis::new(Cause::Seccomp, text).remedies(remedy::seccomp(facts))
}

/// One check of rights that the request does not pass.
struct Needs {
    cause: Cause,
    /// The thing that the check protects.
    what: String,
    /// The level of `perf_event_paranoid` at which it passes; `None`: at no level.
    level: Option<i64>,
}

/// The checks of rights in the kernel's order that a user without privilege fails.
fn unmet(open: &Open<'_>) -> Vec<Needs> {
    let Open { attr, facts, .. } = open;
    let mut unmet = Vec::new();
    let has = |flag| attr.flags.contains(flag);
    let sample = |field| attr.sample_type.contains(field);
    // Where the level is unknown the default is assumed.
    let level = facts.paranoid.unwrap_or(2);
    let mut kernel = |there: bool, what: &str| {
        if there && level > 1 {
            unmet.push(Needs { cause: Cause::ParanoidKernel, what: what.to_owned(), level: Some(1) });
        }
    };
    let own_levels = !attr.branch_sample_type.intersects(BranchSampleType::PLM_ALL);
    let kernel_branches = attr.branch_sample_type.intersects(BranchSampleType::KERNEL | BranchSampleType::HV)
        || own_levels && !(has(AttrFlags::EXCLUDE_KERNEL) && has(AttrFlags::EXCLUDE_HV));
    // Rules A11 and A11b.
    kernel(sample(SampleType::BRANCH_STACK) && kernel_branches, "branches of the kernel or hypervisor");
    // Rule B4; since 7.2 also for what shows the kernel in other ways.
    kernel(!has(AttrFlags::EXCLUDE_KERNEL), KERNEL_PART);
    let newer = facts.kernel().is_some_and(|release| release >= Release::new(7, 2));
    let callchain = sample(SampleType::CALLCHAIN) && !has(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL);
    kernel(newer && callchain, "kernel callchains");
    kernel(newer && has(AttrFlags::TEXT_POKE), "text_poke records");
    // Rule B7.
    kernel(sample(SampleType::PHYS_ADDR), "physical addresses");
    // Rule B5.
    if has(AttrFlags::NAMESPACES) {
        let what = "namespace records".to_owned();
        unmet.push(Needs { cause: Cause::PrivilegedFeature, what, level: None });
    }
    // Rule J50.
    if let Some(pmu) = facts.pmu(attr.type_).filter(|pmu| pmu.name() == "kprobe" || pmu.name() == "uprobe") {
        let what = format!("{}s", pmu.name());
        unmet.push(Needs { cause: Cause::PrivilegedFeature, what, level: None });
    }
    // Rule B26.
    if open.is_cpu_wide() && level > 0 {
        let what = if open.is_cgroup() { "a cgroup" } else { "every process of a cpu" };
        unmet.push(Needs { cause: Cause::ParanoidCpuWide, what: what.to_owned(), level: Some(0) });
    }
    unmet
}

const KERNEL_PART: &str = "the kernel's part of the event";

/// Events with kernel registers always, of which nothing is left without the kernel (rules J1, J32).
fn happens_in_the_kernel(attr: &Attr) -> bool {
    const SWITCHES: [Software; 3] =
        [Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS, Software::CGROUP_SWITCHES];
    attr.type_ == EventType::TRACEPOINT
        || attr.type_ == EventType::SOFTWARE && SWITCHES.contains(&Software(attr.config))
}

pub(super) fn eacces(open: &Open<'_>) -> Option<Diagnosis> {
    let facts = open.facts;
    if let Some(closed) = closed(open) {
        return Some(closed);
    }
    let unmet = if facts.may_monitor() { Vec::new() } else { unmet(open) };
    let foreign = foreign(open);
    if let Some(foreign) = foreign {
        // The thread is checked before the cpu (rules B25, B26), but after everything else.
        if unmet.iter().all(|needs| needs.cause == Cause::ParanoidCpuWide) {
            return Some(foreign);
        }
    }
    // The strictest check decides: lowering the level half-way would be in vain.
    let hardest = unmet.iter().min_by_key(|needs| needs.level.unwrap_or(i64::MIN))?;
    let what = unmet.iter().map(|needs| needs.what.as_str()).collect::<Vec<_>>().join(", ");
    let rights = match facts.initial_user_namespace {
        Some(false) => "a user namespace whose capabilities do not count",
        _ if facts.uid == Some(0) => "a root without CAP_PERFMON",
        _ => "a user without privilege",
    };
    let Some(level) = hardest.level else {
        let text = format!("{what}: only with CAP_PERFMON, whatever kernel.perf_event_paranoid says");
        return Some(Diagnosis::new(hardest.cause, text).remedies(remedy::privilege(facts, false)));
    };
    let now = facts.paranoid.map_or_else(|| "at its default".to_owned(), |level| level.to_string());
    let text = format!(
        "kernel.perf_event_paranoid is {now}; for {rights} it must be {level} or lower to measure {what}"
    );
    let only_the_kernel = unmet.iter().all(|needs| needs.what == KERNEL_PART);
    let text = if only_the_kernel && happens_in_the_kernel(open.attr) {
        format!("{text}; with exclude_kernel (:u) it would open and always count 0")
    } else {
        text
    };
    let mut diagnosis = Diagnosis::new(hardest.cause, text);
    if only_the_kernel {
        if !happens_in_the_kernel(open.attr) {
            diagnosis = diagnosis.remedy("leave the kernel out: set exclude_kernel, the modifier :u");
        }
    } else if hardest.cause == Cause::ParanoidKernel {
        diagnosis = diagnosis.remedy(format!("leave out {what} (exclude_kernel, exclude_hv)"));
    } else if hardest.cause == Cause::ParanoidCpuWide && open.pid == -1 {
        diagnosis =
            diagnosis.remedy("measure your own processes instead of whole cpus, user space only (:u)");
    }
    Some(diagnosis.remedy(remedy::paranoid(facts, level)).remedies(remedy::privilege(facts, false)))
}

/// A distribution's level at which only an administrator may use the call. Debian checks for
/// CAP_SYS_ADMIN, so that CAP_PERFMON does not help there.
fn closed(open: &Open<'_>) -> Option<Diagnosis> {
    let facts = open.facts;
    let (level, closed) = (facts.paranoid?, facts.closed_level()?);
    let full = facts.flavour != Flavour::Ubuntu;
    let exempt = facts.capable(Capabilities::SYS_ADMIN) || !full && facts.may_monitor();
    // The probe decides, where there is one: a level may be set and not enforced.
    let refused = open.findings.least.is_none_or(|least| least == Err(Errno::EACCES));
    if level < closed || exempt || !refused {
        return None;
    }
    let whose = match facts.flavour {
        Flavour::Ubuntu => "Ubuntu's kernel",
        Flavour::Android => "Android's kernel",
        _ => "Debian's kernel",
    };
    let but = if facts.capable(Capabilities::PERFMON) { " (CAP_PERFMON is not enough)" } else { "" };
    let text = format!(
        "kernel.perf_event_paranoid is {level}: {whose} then refuses every event to users without privilege{but}"
    );
    // 2 opens user space of own processes; the request may need less than that.
    let level = unmet(open).iter().filter_map(|needs| needs.level).min().unwrap_or(closed - 1);
    Some(
        Diagnosis::new(Cause::ParanoidClosed, text)
            .remedy(remedy::paranoid(facts, level))
            .remedies(remedy::privilege(facts, full)),
    )
}

/// A thread the caller may not look into (rule B25).
fn foreign(open: &Open<'_>) -> Option<Diagnosis> {
    let (facts, task) = (open.facts, open.findings.task?);
    if open.attr.flags.contains(AttrFlags::SIGTRAP)
        && facts.may_monitor()
        && !facts.capable(Capabilities::KILL)
    {
        let text = format!("SIGTRAP in thread {}, of another process, needs CAP_KILL as well", open.pid);
        return Some(Diagnosis::new(Cause::ForeignTask, text).remedy("run it with sudo"));
    }
    if facts.may_monitor() || !task.exists {
        return None;
    }
    let text = match (task.uid, facts.uid) {
        (Some(uid), Some(own)) if uid != own => {
            format!("thread {} belongs to uid {uid}, this process to uid {own}", open.pid)
        }
        _ => format!(
            "thread {} may not be debugged by this process: it started set-user-ID, dropped privileges, or a \
             security module protects it",
            open.pid
        ),
    };
    let own = match task.uid {
        Some(uid) if facts.uid != Some(uid) => vec![format!("run it as that user: sudo -u '#{uid}' …")],
        _ => Vec::new(),
    };
    Some(Diagnosis::new(Cause::ForeignTask, text).remedies(remedy::privilege(facts, false)).remedies(own))
}

pub(super) fn eperm(open: &Open<'_>) -> Option<Diagnosis> {
    let Open { attr, facts, .. } = open;
    let monitor = facts.may_monitor();
    let confidential = facts.lockdown.as_deref() == Some("confidentiality");
    // Rules B8 and J52.
    let kprobe = facts.pmu(attr.type_).is_some_and(|pmu| pmu.name() == "kprobe");
    if confidential && (attr.sample_type.contains(SampleType::REGS_INTR) || kprobe) {
        let what = if kprobe { "kprobes" } else { "registers of the kernel" };
        let text = format!("kernel lockdown is in confidentiality mode, which protects {what}");
        return Some(
            Diagnosis::new(Cause::Lockdown, text)
                .remedy("boot without lockdown=confidentiality (Secure Boot may set it)"),
        );
    }
    // Rule J31.
    let raw = attr.sample_type.contains(SampleType::RAW);
    if attr.type_ == EventType::TRACEPOINT && raw && !monitor && facts.paranoid.is_none_or(|level| level > -1)
    {
        let now = facts.paranoid.map_or_else(|| "at its default".to_owned(), |level| level.to_string());
        let text = format!(
            "kernel.perf_event_paranoid is {now}; raw tracepoint data needs -1 for a user without privilege"
        );
        return Some(
            Diagnosis::new(Cause::ParanoidTracepoint, text)
                .remedy("count the tracepoint, or sample it without its fields (no sample_type RAW)")
                .remedy(remedy::paranoid(facts, -1))
                .remedies(remedy::privilege(facts, false)),
        );
    }
    // Rule J20: the upper half of the address space is the kernel's.
    if attr.type_ == EventType::BREAKPOINT
        && attr.bp_addr() >> 63 == 1
        && !facts.capable(Capabilities::SYS_ADMIN)
    {
        let text = format!("{:#x} is in kernel memory, which only CAP_SYS_ADMIN may watch", attr.bp_addr());
        let remedies = remedy::privilege(facts, true);
        return Some(Diagnosis::new(Cause::KernelBreakpoint, text).remedies(remedies));
    }
    security_module(open)
}

/// The last explanation: the kernel's own checks pass, so the modules' do not (rules B3, B22).
pub(super) fn security_module(open: &Open<'_>) -> Option<Diagnosis> {
    const HOOKED: [&str; 3] = ["selinux", "bpf", "smack"];
    let modules = open.facts.security_modules.as_ref()?;
    let hooked: Vec<_> = modules.iter().map(String::as_str).filter(|name| HOOKED.contains(name)).collect();
    if hooked.is_empty() {
        return None;
    }
    let text = format!("a security module refuses it ({})", hooked.join(", "));
    let mut diagnosis = Diagnosis::new(Cause::SecurityModule, text);
    if hooked.contains(&"selinux") {
        diagnosis =
            diagnosis.remedy("see what was denied: sudo ausearch -m avc -ts recent | grep perf_event");
    }
    Some(diagnosis)
}
