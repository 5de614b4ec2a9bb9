//! Why the embedded kernel refuses.

use crate::call::Call;
use crate::diagnosis::{Cause, Diagnosis};
use perfuse_abi::{Attr, AttrFlags, EventType, Hardware, OpenFlags, SampleType, Software};
use perfuse_live::{memory, proc, step};
use perfuse_sys::Errno;

/// The reason for an errno of the embedded kernel; `None` where it has the meaning of Linux.
pub(super) fn explain(call: &Call, errno: Errno) -> Option<Diagnosis> {
    let here = |cause, text: &str| Some(Diagnosis::new(cause, text).remedies(remedies(cause)));
    if matches!(call, Call::Mmap { .. }) && memory::can_be_had() == Err(errno) {
        let text = "the memory of rings is made by memfd_create(2), which this sandbox refuses";
        let remedy = "a seccomp profile that allows memfd_create, as Docker's does; counting needs none";
        return Some(Diagnosis::new(Cause::NotEmbedded, text).remedies(vec![remedy.to_owned()]));
    }
    let Call::Open { attr, pid, cpu, flags, .. } = call else {
        return None;
    };
    let software = attr.type_ == EventType::SOFTWARE;
    if errno == Errno::ESRCH && !proc::is_there() {
        let text = "/proc is not mounted, where clocks, names and memory maps of processes are read in place of Linux' \
                    perf_events";
        let remedy = "mount -t proc proc /proc, or let the container have it";
        return Some(Diagnosis::new(Cause::NotEmbedded, text).remedies(vec![remedy.to_owned()]));
    }
    match errno {
        Errno::EACCES if flags.contains(OpenFlags::PID_CGROUP) => here(
            Cause::NotEmbedded,
            "without Linux' perf_events only processes can be measured that may be traced, not cgroups",
        ),
        Errno::EACCES if *pid == -1 || *cpu != -1 && *pid <= 0 => here(
            Cause::NotEmbedded,
            "without Linux' perf_events only processes can be measured that may be traced, not whole cpus",
        ),
        Errno::EACCES if is_step(attr) && !attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) => here(
            Cause::NotEmbedded,
            "without Linux' perf_events instructions are counted by single steps, which are those of user space alone",
        ),
        Errno::EPERM => here(
            Cause::PtraceRefused,
            "ptrace(2), by which it would be measured in place of Linux' perf_events, may not attach to it",
        ),
        Errno::ENOENT if software => here(
            Cause::NotEmbedded,
            "without Linux' perf_events nobody tells of this event: there are cpu-clock, task-clock, dummy, and \
             where /proc shows them page faults, context switches and cpu migrations",
        ),
        Errno::ENOENT if attr.type_ == EventType::BREAKPOINT => here(
            Cause::NotEmbedded,
            "without Linux' perf_events breakpoints are set through ptrace(2), and here, as in gVisor, it does not \
             write the debug registers",
        ),
        Errno::EOPNOTSUPP if attr.flags.contains(AttrFlags::SIGTRAP) => here(
            Cause::NotEmbedded,
            "without Linux' perf_events signals of events are sent by `perfuse run` alone",
        ),
        Errno::EOPNOTSUPP if is_probe(attr) && *pid == 0 => here(
            Cause::NotEmbedded,
            "without Linux' perf_events no probes can be set in this process itself, as no process can trace \
             itself",
        ),
        Errno::EOPNOTSUPP if is_step(attr) && *pid == 0 => here(
            Cause::NotEmbedded,
            "without Linux' perf_events this process itself cannot be stepped, as no process can trace itself",
        ),
        Errno::ENOENT if attr.type_ == step::TYPE => here(
            Cause::NotEmbedded,
            "instructions are stepped through with ptrace(2), and here, as in gVisor, it does not step",
        ),
        Errno::ENOENT if is_step(attr) => here(
            Cause::NotEmbedded,
            "without Linux' perf_events there are no hardware events; instructions can be counted by single \
             steps, tens of thousands of times slower, if asked for: step/instructions/u",
        ),
        Errno::EOPNOTSUPP if attr.type_ == EventType::BREAKPOINT && *pid == 0 => here(
            Cause::NotEmbedded,
            "without Linux' perf_events no breakpoints can be set in this process itself, as no process can \
             trace itself",
        ),
        Errno::ENOENT => here(
            Cause::NotEmbedded,
            "without Linux' perf_events there are no hardware events, caches or tracepoints but those of system calls, only software \
             events such as task-clock and page-faults, and breakpoints",
        ),
        Errno::EOPNOTSUPP if attr.flags.contains(AttrFlags::CONTEXT_SWITCH) => here(
            Cause::NotEmbedded,
            "without Linux' perf_events nobody tells of each switch of a thread, so there are no records of them",
        ),
        Errno::EOPNOTSUPP if attr.sample_type.contains(SampleType::BRANCH_STACK) => here(
            Cause::NotEmbedded,
            "without Linux' perf_events nobody tells the branches that a processor took; callchains can be had by --call-graph fp or dwarf",
        ),
        Errno::EOPNOTSUPP if attr.flags.contains(AttrFlags::INHERIT) && *pid == 0 => here(
            Cause::NotEmbedded,
            "without Linux' perf_events what this process itself starts cannot be followed, as no process \
             can trace itself",
        ),
        Errno::EOPNOTSUPP if software && is_clock(attr.config) => here(
            Cause::NotEmbedded,
            "without Linux' perf_events this process's own threads can be counted but not sampled",
        ),
        Errno::EOPNOTSUPP if software => here(
            Cause::NotEmbedded,
            "without Linux' perf_events single faults and switches are not seen, only how many there were",
        ),
        _ => None,
    }
}

/// The type of probes is the only one that is not the same everywhere.
fn is_probe(attr: &Attr) -> bool {
    attr.type_.0 > EventType::BREAKPOINT.0 && attr.type_ != step::TYPE
}

/// An event that is counted by single steps, or could be.
fn is_step(attr: &Attr) -> bool {
    attr.type_ == step::TYPE || attr.type_ == EventType::HARDWARE && attr.config == Hardware::INSTRUCTIONS.0
}

fn is_clock(config: u64) -> bool {
    [Software::CPU_CLOCK, Software::TASK_CLOCK].iter().any(|clock| clock.0 == config)
}

fn remedies(cause: Cause) -> Vec<String> {
    match cause {
        Cause::NotEmbedded => {
            vec!["perfuse doctor tells why Linux refuses, and what would change it".to_owned()]
        }
        _ => vec![
            "a process of somebody else's, or one that runs already: start it under perfuse".to_owned(),
            "as its owner: sudo sysctl kernel.yama.ptrace_scope=0".to_owned(),
            "in a container: a seccomp profile that allows ptrace, as Docker's does".to_owned(),
        ],
    }
}
