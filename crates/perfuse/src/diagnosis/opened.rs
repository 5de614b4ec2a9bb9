//! Calls on events that are open (read, ioctl, mmap), on the program that is measured, and on files.

use super::{Cause, Diagnosis, Findings, remedy, tracing};
use crate::call::{Call, Subject};
use crate::facts::Facts;
use perfuse_abi::{AttrFlags, ioctl as code};
use perfuse_sys::Errno;
use std::path::Path;

pub(super) fn diagnose(
    call: &Call,
    subject: Option<&Subject>,
    errno: Errno,
    facts: &Facts,
    findings: &Findings,
) -> Option<Diagnosis> {
    match call {
        Call::Read => read(errno),
        Call::Ioctl(code) => ioctl(*code, subject, errno, facts),
        Call::Mmap { bytes, offset: 0 } => ring(*bytes, subject, errno, facts),
        Call::Mmap { bytes, .. } => aux(*bytes, errno, facts),
        Call::Spawn { program } => spawn(&program.to_string_lossy(), findings.program.as_deref(), errno),
        Call::Process => (errno == Errno::ESRCH || errno == Errno::ECHILD).then(|| {
            Diagnosis::new(Cause::NoSuchTask, "the program has ended, or is not a child of this process")
        }),
        Call::File { path } | Call::Cgroup { path } => file(path, errno, facts),
        _ => None,
    }
}

fn read(errno: Errno) -> Option<Diagnosis> {
    match errno {
        // Rule E1.
        Errno::ENOSPC => Some(
            Diagnosis::new(Cause::ShortBuffer, "the buffer is smaller than what the event's read format returns")
                .remedy("make room for every member of the group: members added later count too"),
        ),
        // Rule E1: end of file, which the library turns into an errno.
        Errno::ENODATA => Some(
            Diagnosis::new(Cause::NoRoom, "a pinned event must always be on the PMU, and it found no room there")
                .remedy("enable it again when others have freed a counter; or do without pinned"),
        ),
        // Rule D12.
        Errno::ECHILD => Some(
            Diagnosis::new(
                Cause::GroupChanged,
                "a member was added to, or taken from, the group after its task forked; reads fail until those \
                 children have ended",
            )
            .remedy("build the group before the task forks; or read the members one by one, without read_format GROUP"),
        ),
        _ => None,
    }
}

fn ioctl(ioctl: u32, subject: Option<&Subject>, errno: Errno, facts: &Facts) -> Option<Diagnosis> {
    let flags = subject.map_or(AttrFlags::empty(), |subject| subject.attr.flags);
    let counts_only = subject.is_some_and(|subject| subject.attr.sample_period == 0);
    match (ioctl, errno) {
        (_, Errno::ENOTTY) => {
            let since = match ioctl {
                code::PAUSE_OUTPUT => " before Linux 4.7",
                c if c == code::QUERY_BPF => " before Linux 4.16",
                c if c == code::MODIFY_ATTRIBUTES => " before Linux 4.17",
                _ => "",
            };
            let text = format!("the descriptor is not that of an event, or the kernel has no such ioctl{since}");
            Some(Diagnosis::new(Cause::NotAnEvent, text))
        }
        // Rule C48.
        (code::REFRESH, Errno::EINVAL) => {
            let why = match (flags.contains(AttrFlags::INHERIT), counts_only) {
                (true, _) => "refresh does not go with inherit",
                (_, true) => "refresh is for sampling events; this one only counts",
                _ => "refresh is for sampling events without inherit",
            };
            Some(Diagnosis::new(Cause::NotSampling, why))
        }
        // Rule C49.
        (code::PERIOD, Errno::EINVAL) if counts_only => {
            Some(Diagnosis::new(Cause::NotSampling, "the event only counts: it has no period to change")
                .remedy("open it with a period or frequency"))
        }
        (code::PERIOD, Errno::EINVAL) if flags.contains(AttrFlags::FREQ) => {
            let limit = facts.max_sample_rate.map_or_else(String::new, |limit| format!(" ({limit})"));
            let text = format!("the frequency is 0 or above kernel.perf_event_max_sample_rate{limit}");
            Some(Diagnosis::new(Cause::SampleRate, text))
        }
        (code::PERIOD, Errno::EINVAL) => {
            Some(Diagnosis::new(Cause::OutOfRange, "the period is 0, too large, or shorter than the PMU takes"))
        }
        // Rule G30.
        (code::SET_OUTPUT, Errno::EINVAL) => Some(
            Diagnosis::new(
                Cause::Redirection,
                "records go only to a mapped ring of the same cpu (or thread), clock and direction, and only from \
                 an event that is not mapped itself",
            )
            .remedy("map the target first, and redirect events of the same cpu or thread only"),
        ),
        (code::SET_OUTPUT, Errno::EBADF) => {
            Some(Diagnosis::new(Cause::NotAnEvent, "the target of the redirection is not an open event"))
        }
        // Rules J34 and J40.
        (c, Errno::EEXIST) if c == code::SET_FILTER => {
            Some(Diagnosis::new(Cause::Filter, "the event has a filter, which cannot be replaced")
                .remedy("open the event anew"))
        }
        (c, _) if c == code::SET_FILTER => Some(
            Diagnosis::new(Cause::Filter, "the event does not take this filter, or has no filters at all")
                .remedy("for a tracepoint: fields, operators and values as in its `format` file"),
        ),
        // Rules K1 and K10.
        (code::SET_BPF, Errno::EEXIST) => {
            Some(Diagnosis::new(Cause::Bpf, "the event has a BPF program already").remedy("open the event anew"))
        }
        (code::SET_BPF, Errno::EBADF) => Some(Diagnosis::new(Cause::Bpf, "there is no such BPF program descriptor")),
        (code::SET_BPF, _) => {
            Some(Diagnosis::new(Cause::Bpf, "the BPF program is not of the type for this kind of event (rule K1)"))
        }
        (c, Errno::EPERM) if c == code::QUERY_BPF && !facts.may_monitor() => {
            let text = "listing BPF programs is for CAP_PERFMON only";
            Some(Diagnosis::new(Cause::PrivilegedFeature, text).remedies(remedy::privilege(facts, false)))
        }
        (c, Errno::EINVAL) if c == code::QUERY_BPF => {
            Some(Diagnosis::new(Cause::Bpf, "only tracepoint events can list their BPF programs (rule K10)"))
        }
        // Rule C51.
        (c, Errno::EOPNOTSUPP) if c == code::MODIFY_ATTRIBUTES => {
            Some(Diagnosis::new(Cause::Contradiction, "only breakpoints can be modified in place"))
        }
        (c, Errno::ENOSPC) if c == code::MODIFY_ATTRIBUTES => {
            Some(Diagnosis::new(Cause::BreakpointSlots, "every debug register for this type is taken"))
        }
        (c, Errno::EINVAL) if c == code::MODIFY_ATTRIBUTES => Some(
            Diagnosis::new(
                Cause::BreakpointShape,
                "the breakpoint cannot be moved so: only bp_addr, bp_type, bp_len and disabled may change, and they \
                 must be valid",
            )
            .remedy("start from the attr the event was opened with, its size included"),
        ),
        // Rule C55.
        (code::PAUSE_OUTPUT, Errno::EINVAL) => {
            Some(Diagnosis::new(Cause::Redirection, "the event has no ring to pause").remedy("map a ring first"))
        }
        _ => None,
    }
}

/// Rules F1 to F8.
fn ring(bytes: usize, subject: Option<&Subject>, errno: Errno, facts: &Facts) -> Option<Diagnosis> {
    match errno {
        Errno::EINVAL => {
            let inherits = |s: &Subject| s.attr.flags.contains(AttrFlags::INHERIT) && s.cpu == -1;
            if subject.is_some_and(inherits) {
                return Some(
                    Diagnosis::new(
                        Cause::RingInherit,
                        "an inherited event needs a cpu to have a ring (rule F1)",
                    )
                    .remedy("open one event for each cpu, or drop inherit"),
                );
            }
            let pages = bytes.div_ceil(facts.page_bytes);
            let data = pages.saturating_sub(1);
            if data != 0 && !data.is_power_of_two() {
                let text =
                    format!("a ring is one page and a power of two of data pages, not {data} (rule F5)");
                let fitting = (data.next_power_of_two() + 1) * facts.page_bytes;
                return Some(Diagnosis::new(Cause::RingSize, text).remedy(format!("map {fitting} bytes")));
            }
            let mut text = "the event has a ring of another size already".to_owned();
            if subject.is_none() {
                text += ", or is inherited without being bound to a cpu";
            }
            let text = format!("{text} (rules F1, F6)");
            Some(Diagnosis::new(Cause::RingTaken, text).remedy("map it once, with one size"))
        }
        Errno::EBUSY => Some(
            Diagnosis::new(Cause::RingTaken, "the event writes to the ring of another event (rule F6)")
                .remedy("read the other event's ring"),
        ),
        Errno::EPERM | Errno::EAGAIN => locked_memory(bytes, "ring", facts),
        Errno::ENOMEM => {
            let text = format!("the kernel could not get {} KiB for the ring", bytes / 1024);
            Some(Diagnosis::new(Cause::Memory, text).remedy("map a smaller ring (fewer pages)"))
        }
        Errno::ENODEV => None,
        _ => None,
    }
}

/// Rule F20, with its numbers.
fn locked_memory(bytes: usize, what: &str, facts: &Facts) -> Option<Diagnosis> {
    if facts.locks_without_limit() {
        return None;
    }
    let kib = |bytes: u64| bytes / 1024;
    let mut text = format!("this {what} wants {} KiB of locked memory", kib(bytes as u64));
    if let (Some(share), Some(cpus)) = (facts.ring_share_bytes(), &facts.online_cpus) {
        text += &format!(
            "; allowed are {} KiB per user (kernel.perf_event_mlock_kb {} × {} cpus)",
            kib(share),
            facts.mlock_kib.unwrap_or(0),
            cpus.len()
        );
    }
    if let Some(limit) = facts.locked_bytes {
        let limit =
            if limit.soft == u64::MAX { "unlimited".to_owned() } else { format!("{} KiB", kib(limit.soft)) };
        let used = facts
            .pinned_bytes
            .map_or_else(String::new, |used| format!(", of which {} KiB are used", kib(used)));
        text += &format!(", and beyond that {limit} per process (RLIMIT_MEMLOCK{used})");
    }
    text += "; other rings of this user count too";
    Some(Diagnosis::new(Cause::LockedMemory, text).remedies(remedy::ring_memory(facts, bytes as u64)))
}

/// Rule F9.
fn aux(bytes: usize, errno: Errno, facts: &Facts) -> Option<Diagnosis> {
    match errno {
        Errno::EPERM => locked_memory(bytes, "AUX area", facts),
        Errno::EOPNOTSUPP => Some(
            Diagnosis::new(Cause::NoAux, "the event's PMU has no AUX area")
                .remedy("use an event that has one, such as intel_pt// or cs_etm//"),
        ),
        Errno::EINVAL => {
            let pages = bytes / facts.page_bytes.max(1);
            if !pages.is_power_of_two() || bytes % facts.page_bytes.max(1) != 0 {
                let text = format!("an AUX area is a power of two of pages, not {pages}");
                return Some(Diagnosis::new(Cause::AuxArea, text));
            }
            Some(Diagnosis::new(
                Cause::AuxArea,
                "the AUX area must start behind the ring, where aux_offset and aux_size of the control page say, and \
                 be mapped once (rule F9)",
            )
            .remedy("map the ring first, then write aux_offset and aux_size"))
        }
        Errno::ENOMEM => Some(
            Diagnosis::new(Cause::Memory, "the PMU could not get memory for its AUX area")
                .remedy("map a smaller AUX area"),
        ),
        _ => None,
    }
}

fn spawn(program: &str, found: Option<&Path>, errno: Errno) -> Option<Diagnosis> {
    let path = program.contains('/');
    Some(match errno {
        Errno::ENOENT if path => {
            Diagnosis::new(Cause::NoProgram, "there is no such file, or its interpreter is missing")
        }
        Errno::ENOENT => Diagnosis::new(Cause::NoProgram, "no such program on the PATH"),
        // execvp(3): a folder of the PATH that may not be searched hides that the program is in none.
        Errno::EACCES if found.is_none() => Diagnosis::new(
            Cause::NoProgram,
            "no such program on the PATH, as far as this user may search its folders",
        ),
        Errno::EACCES if found.is_some_and(Path::is_dir) => {
            Diagnosis::new(Cause::NotExecutable, "it is a directory")
        }
        Errno::EACCES => {
            let file = found.unwrap_or(Path::new(program)).display();
            Diagnosis::new(Cause::NotExecutable, "the file may not be executed by this user")
                .remedy(format!("chmod +x {file}, if it is yours"))
        }
        Errno::ENOEXEC => {
            Diagnosis::new(Cause::NotExecutable, "the file is no program for this machine, and no script")
        }
        Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG => {
            Diagnosis::new(Cause::NoProgram, "the path leads nowhere")
        }
        Errno::EINVAL => Diagnosis::new(Cause::OutOfRange, "a name or argument contains a NUL byte"),
        Errno::E2BIG => Diagnosis::new(Cause::OutOfRange, "arguments and environment are too long"),
        Errno::EAGAIN => Diagnosis::new(Cause::TryAgain, "too many processes of this user (ulimit -u)"),
        _ => return None,
    })
}

fn file(path: &Path, errno: Errno, facts: &Facts) -> Option<Diagnosis> {
    if tracing::has(path) {
        if let Some(diagnosis) = tracing::file(errno, facts) {
            return Some(diagnosis);
        }
    }
    match errno {
        Errno::EACCES | Errno::EPERM => Some(
            Diagnosis::new(Cause::FilePermission, "this user may not read it").remedy("run it with sudo"),
        ),
        Errno::ENOENT | Errno::ENOTDIR => Some(Diagnosis::new(Cause::NoFile, "it does not exist")),
        Errno::EINVAL => {
            Some(Diagnosis::new(Cause::Unknown, "its content is not of the form it should have"))
        }
        _ => None,
    }
}
