//! The names everybody knows: hardware, software and tool events, with their aliases.

use alloc::vec::Vec;
pub(crate) use perfuse_abi::{Hardware, Software};

/// Values that the measuring tool knows without asking the kernel for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tool {
    /// Wall time, in ns.
    DurationTime,
    /// CPU time of the command in user space, in ns.
    UserTime,
    /// CPU time of the command in the kernel, in ns.
    SystemTime,
}

pub(crate) const HARDWARE: &[(&str, Hardware)] = &[
    ("cycles", Hardware::CPU_CYCLES),
    ("cpu-cycles", Hardware::CPU_CYCLES),
    ("instructions", Hardware::INSTRUCTIONS),
    ("cache-references", Hardware::CACHE_REFERENCES),
    ("cache-misses", Hardware::CACHE_MISSES),
    ("branches", Hardware::BRANCH_INSTRUCTIONS),
    ("branch-instructions", Hardware::BRANCH_INSTRUCTIONS),
    ("branch-misses", Hardware::BRANCH_MISSES),
    ("bus-cycles", Hardware::BUS_CYCLES),
    ("stalled-cycles-frontend", Hardware::STALLED_CYCLES_FRONTEND),
    ("idle-cycles-frontend", Hardware::STALLED_CYCLES_FRONTEND),
    ("stalled-cycles-backend", Hardware::STALLED_CYCLES_BACKEND),
    ("idle-cycles-backend", Hardware::STALLED_CYCLES_BACKEND),
    ("ref-cycles", Hardware::REF_CPU_CYCLES),
];

pub(crate) const SOFTWARE: &[(&str, Software)] = &[
    ("cpu-clock", Software::CPU_CLOCK),
    ("task-clock", Software::TASK_CLOCK),
    ("page-faults", Software::PAGE_FAULTS),
    ("faults", Software::PAGE_FAULTS),
    ("context-switches", Software::CONTEXT_SWITCHES),
    ("cs", Software::CONTEXT_SWITCHES),
    ("cpu-migrations", Software::CPU_MIGRATIONS),
    ("migrations", Software::CPU_MIGRATIONS),
    ("minor-faults", Software::PAGE_FAULTS_MIN),
    ("major-faults", Software::PAGE_FAULTS_MAJ),
    ("alignment-faults", Software::ALIGNMENT_FAULTS),
    ("emulation-faults", Software::EMULATION_FAULTS),
    ("dummy", Software::DUMMY),
    ("bpf-output", Software::BPF_OUTPUT),
    ("cgroup-switches", Software::CGROUP_SWITCHES),
];

pub(crate) const TOOL: &[(&str, Tool)] = &[
    ("duration_time", Tool::DurationTime),
    ("user_time", Tool::UserTime),
    ("system_time", Tool::SystemTime),
];

fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|&(_, event)| event)
}

pub(crate) fn hardware(name: &str) -> Option<Hardware> {
    find(HARDWARE, name)
}

pub(crate) fn software(name: &str) -> Option<Software> {
    find(SOFTWARE, name)
}

pub(crate) fn tool(name: &str) -> Option<Tool> {
    find(TOOL, name)
}

/// Every name that means an event on any machine; of a cache event its usual spelling.
pub fn known_names() -> Vec<&'static str> {
    let hardware = HARDWARE.iter().map(|&(name, _)| name);
    let software = SOFTWARE.iter().map(|&(name, _)| name);
    let tool = TOOL.iter().map(|&(name, _)| name);
    hardware.chain(software).chain(tool).chain(crate::cache::USUAL.iter().copied()).collect()
}
