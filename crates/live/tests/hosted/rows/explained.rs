//! How drawn calls show the rows of docs/hosting.md.

use perfuse_abi::{Attr, AttrFlags, EventType, OpenFlags, SampleType, Software};
use std::fmt;

/// The arguments of a call that opens an event. `pid` is 0 for the caller, 1 for the caller by its number, 2 for a child.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) attr: Attr,
    pub(crate) pid: i64,
    pub(crate) cpu: i64,
    pub(crate) flags: u64,
}

/// A call that was answered in different ways.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) call: String,
    pub(crate) opening: Option<Opening>,
    pub(crate) linux: String,
    pub(crate) ours: String,
    /// Of one without privileges.
    pub(crate) of_user: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { call, opening, linux, ours, .. } = self;
        match opening {
            Some(Opening { attr, pid, cpu, flags }) => {
                write!(
                    f,
                    "open {attr} of {pid} on {cpu}, flags {flags} ({})",
                    call.split(' ').nth(4).unwrap_or("")
                )?;
            }
            None => write!(f, "{call}")?,
        }
        write!(f, ": {linux} on Linux, {ours} hosted")
    }
}

/// The row that a difference is of.
pub(crate) fn explanation(case: &Case) -> Option<&'static str> {
    let opening = case.opening.as_ref()?;
    EXPLANATIONS.iter().find(|(_, explains)| explains(opening, case)).map(|(row, _)| *row)
}

type Explains = fn(&Opening, &Case) -> bool;

/// Rows, and whether one explains why a call that opens an event is answered in two ways. Others are answered alike.
pub(super) const EXPLANATIONS: &[(&str, Explains)] = &[
    // Linux refuses it before it looks at anything else (rule B4).
    ("counts-of-the-kernel", |opening, case| {
        let fields = SampleType::PHYS_ADDR | SampleType::BRANCH_STACK;
        let of_kernel =
            !opening.has(AttrFlags::EXCLUDE_KERNEL) || opening.attr.sample_type.intersects(fields);
        case.of_user && of_kernel && case.linux.starts_with("EACCES")
    }),
    ("cgroups", |opening, case| {
        opening.flags & OpenFlags::PID_CGROUP.bits() != 0 && case.is_refused("EBADF")
    }),
    // Of whole cpus, where programs of BPF write to.
    ("bpf-of-users", |opening, case| {
        let is_output =
            opening.is(EventType::SOFTWARE) && Software(opening.attr.config) == Software::BPF_OUTPUT;
        case.of_user && is_output && opening.pid == -1 && case.linux.starts_with("EACCES")
    }),
    // Linux goes on to look whether the group is of the same cpu (rule B28).
    ("whole-cpus", |opening, case| opening.pid == -1 && case.is_refused("EACCES")),
    // Linux asks the PMU, which may know no such event, or not let it be sampled so.
    ("tracepoints", |opening, case| opening.is(EventType::TRACEPOINT) && case.is_refused("ENOENT")),
    ("other-pmus", |opening, case| opening.attr.type_.0 >= 9 && case.is_refused("ENOENT")),
    ("switch-records", |opening, case| {
        opening.has(AttrFlags::CONTEXT_SWITCH) && case.linux == "ok" && case.is_refused("EOPNOTSUPP")
    }),
    ("single-faults-and-switches", |opening, case| {
        let counted = [
            Software::PAGE_FAULTS,
            Software::PAGE_FAULTS_MIN,
            Software::PAGE_FAULTS_MAJ,
            Software::CONTEXT_SWITCHES,
            Software::CPU_MIGRATIONS,
        ];
        let is_one = opening.is(EventType::SOFTWARE) && counted.contains(&Software(opening.attr.config));
        is_one && opening.attr.sample_period != 0 && case.linux == "ok" && case.is_refused("EOPNOTSUPP")
    }),
    // Linux goes on to look whether the group is of the same cpu.
    ("kernel-breakpoints", |opening, case| {
        const END_OF_PROGRAMS: u64 = 0x7fff_ffff_f000;
        let end = opening.attr.config1.saturating_add(opening.attr.config2);
        opening.is(EventType::BREAKPOINT) && end > END_OF_PROGRAMS && case.is_refused("EPERM")
    }),
    ("probes-of-users", |opening, case| {
        // The type of the only other PMU that a draw names.
        case.of_user && opening.attr.type_.0 > 5 && case.linux.starts_with("EACCES")
    }),
];

impl Opening {
    fn has(&self, flag: AttrFlags) -> bool {
        self.attr.flags.contains(flag)
    }

    fn is(&self, type_: EventType) -> bool {
        self.attr.type_ == type_
    }
}

impl Case {
    fn is_refused(&self, errno: &str) -> bool {
        self.ours.starts_with(errno)
    }
}
