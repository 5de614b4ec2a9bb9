//! The system's settings, and their meaning for this user.

use super::{Setting, Verdict};
use crate::facts::parse::Flavour;
use crate::facts::{Capabilities, Facts};
use std::fs;

/// Those that are known here; what cannot be read is left out (and named in the JSON).
pub(super) fn list(facts: &Facts) -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut add = |id, title, verdict, text: String, remedies: Vec<String>| {
        settings.push(Setting { id, title, verdict, text, remedies });
    };
    if let Some(level) = facts.paranoid {
        let (verdict, text) = paranoid(facts, level);
        add("paranoid", "paranoid", verdict, text, Vec::new());
    }
    if let Err(errno) = facts.reachable {
        let text = format!("perf_event_open is answered with {errno} before the kernel sees it");
        add("seccomp", "seccomp", Verdict::No, text, Vec::new());
    } else if let Some(filter) = facts.seccomp_filter {
        let text = if filter { "a filter that lets perf_event_open through" } else { "no filter" };
        add("seccomp", "seccomp", Verdict::Yes, text.to_owned(), Vec::new());
    }
    if let Some(mode) = &facts.lockdown {
        let tight = mode == "confidentiality";
        let meaning = if tight { ": no kprobes, no kernel registers" } else { "" };
        let verdict = if tight { Verdict::Partly } else { Verdict::Yes };
        add("lockdown", "lockdown", verdict, format!("{mode}{meaning}"), Vec::new());
    }
    if let Some(symbols) = kernel_symbols(facts) {
        settings.push(symbols);
    }
    let mut add = |id, title, verdict, text: String, remedies: Vec<String>| {
        settings.push(Setting { id, title, verdict, text, remedies });
    };
    if let Some(limit) = facts.open_files {
        let now = facts.open_now.map_or_else(String::new, |now| format!(", {now} in use"));
        let raise = if limit.hard > limit.soft {
            format!(", can be raised to {}", limit.hard)
        } else {
            String::new()
        };
        let verdict = if limit.hard < 1024 { Verdict::Partly } else { Verdict::Yes };
        let remedies = match verdict {
            Verdict::Yes => Vec::new(),
            _ => {
                vec!["raise the hard limit: nofile in limits.conf, LimitNOFILE=, docker --ulimit".to_owned()]
            }
        };
        add("open-files", "descriptors", verdict, format!("{}{raise}{now}", limit.soft), remedies);
    }
    // Elsewhere the watchdog is often one that needs no counter.
    if facts.arch.starts_with("x86") && facts.nmi_watchdog == Some(1) && facts.cpu_pmus().next().is_some() {
        let text = "the NMI watchdog takes one hardware counter of every cpu".to_owned();
        let remedies = vec!["sudo sysctl kernel.nmi_watchdog=0".to_owned()];
        add("nmi-watchdog", "watchdog", Verdict::Partly, text, remedies);
    }
    if let Some(rate) = facts.max_sample_rate {
        let low = rate < 4000;
        let verdict = if low { Verdict::Partly } else { Verdict::Yes };
        let why = if low { " (the kernel lowers it when sampling takes too long)" } else { "" };
        let remedies =
            if low { vec!["sudo sysctl kernel.perf_event_max_sample_rate=100000".into()] } else { vec![] };
        add("sample-rate", "sample rate", verdict, format!("up to {rate} Hz{why}"), remedies);
    }
    if fs::exists("/sys/kernel/btf/vmlinux").unwrap_or(false) {
        add("btf", "BTF", Verdict::Yes, "present".to_owned(), Vec::new());
    }
    settings
}

/// The level, and whether it concerns this user.
fn paranoid(facts: &Facts, level: i64) -> (Verdict, String) {
    let name = format!("kernel.perf_event_paranoid = {level}");
    if facts.may_monitor() {
        let by = [Capabilities::PERFMON, Capabilities::SYS_ADMIN]
            .into_iter()
            .filter(|capability| facts.capable(*capability))
            .map(|capability| capability.to_string())
            .collect::<Vec<_>>();
        // Debian's patch does not know CAP_PERFMON.
        let closed = facts.closed_level().is_some_and(|closed| level >= closed);
        if closed && facts.flavour != Flavour::Ubuntu && !facts.capable(Capabilities::SYS_ADMIN) {
            return (Verdict::No, format!("{name}: closed, CAP_PERFMON is not enough for this kernel"));
        }
        return (Verdict::Yes, format!("{name}; ignored for you ({})", by.join(" + ")));
    }
    let verdict = if level > 1 { Verdict::Partly } else { Verdict::Yes };
    let namespace = match facts.initial_user_namespace {
        Some(false) => " (capabilities of this user namespace do not count)",
        _ => "",
    };
    (verdict, format!("{name}: {}{namespace}", allowed_at(facts, level)))
}

/// Says in words how much a user without privilege may measure at this level.
fn allowed_at(facts: &Facts, level: i64) -> &'static str {
    match level {
        level if facts.closed_level().is_some_and(|closed| level >= closed) => {
            "nothing; this distribution's kernel refuses every event"
        }
        2.. => "own processes, user space only; context-switches and tracepoints would read 0",
        1 => "own processes, the kernel's side included; no whole cpus",
        0 => "all processes and cpus; no raw tracepoint data",
        _ => "everything, with rings of any size",
    }
}

/// Says how much a user without privilege may measure here; `None` if the caller is such a user himself, or the
/// level is unknown.
pub(super) fn normal_user(facts: &Facts) -> Option<String> {
    if !facts.may_monitor() {
        return None;
    }
    if facts.reachable.is_err() {
        return Some("nothing, as you".to_owned());
    }
    let mut text = allowed_at(facts, facts.paranoid?).to_owned();
    if tracing_is_closed() {
        text += "; no tracepoints by name (the tracing file system is closed to them)";
    }
    Some(text)
}

/// Whether others than the owner and group may not enter the tracing file system.
fn tracing_is_closed() -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata("/sys/kernel/tracing").is_ok_and(|folder| folder.permissions().mode() & 0o001 == 0)
}

/// Whether addresses of the kernel can be given names.
fn kernel_symbols(facts: &Facts) -> Option<Setting> {
    let restrict = facts.kptr_restrict.map_or_else(String::new, |n| format!("kptr_restrict = {n}, "));
    let Ok(symbols) = fs::read_to_string("/proc/kallsyms") else {
        return Some(Setting {
            id: "kernel-symbols",
            title: "kernel symbols",
            verdict: Verdict::Partly,
            text: format!("{restrict}/proc/kallsyms cannot be read: kernel addresses stay numbers"),
            remedies: Vec::new(),
        });
    };
    // Hidden addresses are 0, and so are a few that are not hidden.
    let hidden = symbols.lines().all(|line| line.starts_with("0000000000000000"));
    let (verdict, text, remedies) = if hidden {
        let remedies = match facts.kptr_restrict {
            Some(0) => vec!["run it with sudo".to_owned()],
            _ => vec!["sudo sysctl kernel.kptr_restrict=0 (and run it with sudo)".to_owned()],
        };
        let text = format!("{restrict}addresses are hidden: samples in the kernel stay numbers");
        (Verdict::Partly, text, remedies)
    } else {
        (Verdict::Yes, format!("{restrict}{} symbols", symbols.lines().count()), Vec::new())
    };
    Some(Setting { id: "kernel-symbols", title: "kernel symbols", verdict, text, remedies })
}
