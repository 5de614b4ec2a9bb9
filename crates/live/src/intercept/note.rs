//! Notes for the user who runs a tool: the reasons that the errnos which the tool got cannot tell.

use crate::proc;
use crate::ptrace::Tid;
use perfuse_abi::Errno;
use std::fmt;

/// Something to be told at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The tool wants to measure a process that cannot be traced; it was answered `EACCES`.
    Untraceable {
        /// The process.
        pid: Tid,
        /// Why not.
        why: Untraceable,
    },
    /// The tool wants records of context switches, of which a tracer does not hear; it was answered `EOPNOTSUPP`.
    Switches,
    /// The tool, which has failed, wanted events of whole cpus; it was answered `EACCES`.
    WholeCpus,
    /// No descriptor can be given to the tool, which was answered `EACCES`.
    Unreachable {
        /// The process that opened an event.
        pid: Tid,
    },
    /// No memory can be had that both the tool and perfuse map: rings are refused with this errno.
    NoRings(Errno),
    /// Another process traces a thread from now on.
    Detached {
        /// The thread.
        tid: Tid,
        /// Its name.
        name: String,
    },
    /// A process has events, and is not let go for another to trace it, which was answered `EPERM`.
    Kept {
        /// The process.
        pid: Tid,
    },
    /// The tool asks `bpf(2)` for something that is not served, which was answered `EINVAL`.
    NotServed {
        /// The command, or what is missing of it.
        what: String,
    },
    /// A BPF program ended before its end, with the result 0.
    ProgramFaulted {
        /// Its name and id.
        program: String,
        /// Why.
        why: String,
    },
    /// There is no descriptor left to look at `/proc` with; reading counts is answered `EMFILE`.
    Short,
}

/// The function that is told.
pub struct OnNote(pub Box<dyn FnMut(&Note) + Send>);

impl fmt::Debug for OnNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

/// Why a process cannot be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Untraceable {
    /// It is another user's, or has rights that the tool has not.
    NotIts,
    /// Another process traces it.
    Traced {
        /// That one.
        by: Tid,
    },
    /// Yama's `ptrace_scope` has this value, and perfuse lacks the right to trace.
    Scope(i64),
    /// The kernel says so, for reasons of its own.
    Refused(Errno),
}

impl Untraceable {
    /// Finds out why `ptrace(2)` refused.
    pub(super) fn find(pid: Tid, errno: Errno) -> Self {
        match (proc::tracer_of(pid), yama_scope()) {
            (by @ 1.., _) => Untraceable::Traced { by },
            (_, Some(scope @ 1..)) => Untraceable::Scope(scope),
            _ => Untraceable::Refused(errno),
        }
    }
}

/// Yama's `ptrace_scope`, where there is Yama.
pub(super) fn yama_scope() -> Option<i64> {
    std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?.trim().parse().ok()
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Untraceable { pid, why } => write!(f, "the tool may not measure process {pid}: {why}"),
            Note::Unreachable { pid } => write!(
                f,
                "process {pid} of the tool can be given no events: it is in a network namespace of its own, and the \
                 sandbox refuses pidfd_getfd(2), which would lead there. Start perfuse inside of that namespace"
            ),
            Note::WholeCpus => f.write_str(
                "the tool asked for events of whole cpus, and perfuse sees only processes that run below it, or that the \
                 tool names: answered EACCES. Leave out -a (--all-cpus) and -C, and give a command or -p PID",
            ),
            Note::NoRings(errno) => write!(
                f,
                "the tool's rings cannot be made: memfd_create(2) answers {errno}. Counts can be had, samples cannot; a \
                 seccomp profile that allows it would help, as Docker's does"
            ),
            Note::Detached { tid, name } => write!(
                f,
                "{name} ({tid}) is traced by another process now: as long as it is, its counts are those of /proc, and \
                 there are no samples, breakpoints, probes or single steps of it and of what it starts. A \
                 program that opens events there is answered ENOSYS"
            ),
            Note::Kept { pid } => write!(
                f,
                "process {pid} cannot be traced by the tool, which is answered EPERM: it has perf events, or has been \
                 started by one that has, and perfuse has to stop its calls"
            ),
            Note::NotServed { what } => {
                write!(f, "the tool asks bpf(2) for {what}, which perfuse does not serve: answered EINVAL")
            }
            Note::ProgramFaulted { program, why } => {
                write!(f, "the tool's BPF program {program} was ended, with the result 0: {why}")
            }
            Note::Short => f.write_str(
                "there are no file descriptors left to count with: counts cannot be read, and samples are missing. \
                 Start it with a higher limit: ulimit -n",
            ),
            Note::Switches => f.write_str(
                "the tool asks for records of context switches, of which a tracer does not hear: refused. With \
                 perfuse run --estimate-switches they are told from the CPU time between two samples",
            ),
        }
    }
}

impl fmt::Display for Untraceable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untraceable::NotIts => f.write_str("it is another user's, or has more rights than the tool"),
            Untraceable::Traced { by } => write!(
                f,
                "process {by} (strace, a debugger, another perfuse) traces it, and a process has one tracer only"
            ),
            Untraceable::Scope(1) => f.write_str(
                "kernel.yama.ptrace_scope is 1, which lets only what perfuse started be traced. Let the tool start \
                 it, or, as root: sysctl kernel.yama.ptrace_scope=0",
            ),
            Untraceable::Scope(2) => f.write_str(
                "kernel.yama.ptrace_scope is 2, which leaves ptrace to processes with CAP_SYS_PTRACE",
            ),
            Untraceable::Scope(scope) => {
                write!(f, "kernel.yama.ptrace_scope is {scope}, which forbids ptrace until the next boot")
            }
            Untraceable::Refused(errno) => write!(
                f,
                "ptrace(2) answers {errno}: it may be a thread of the kernel, one that is not dumpable (setuid, or by \
                 prctl), or the sandbox needs CAP_SYS_PTRACE for it"
            ),
        }
    }
}
