//! Helpers: their numbers, names, and what they take and give. `verify` checks calls against these rows, and
//! `vm` carries them out.

use crate::names::NAMES;

/// The number that loaders (libbpf, [`object`](crate::object)) put where a program asks for a type, member or value that the kernel does
/// not have. No helper has it: a program that does not get there runs.
pub const NOT_IN_KERNEL: u32 = 0x0bad_2310;

/// What a helper takes in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arg {
    /// Any initialized number or pointer.
    Any,
    /// A map.
    Map,
    /// Memory with a key of the map.
    Key,
    /// Memory with a value of the map.
    Value,
    /// Memory for a value of the map.
    ValueOut,
    /// The context.
    Context,
    /// Memory to read; the next argument is its size.
    Memory,
    /// Memory to write.
    MemoryOut,
    /// Memory to write, or null.
    MemoryOutOrNull,
    /// The size of the memory before, not zero.
    Size,
    /// The size of the memory before.
    SizeOrZero,
    /// Bytes to reserve, a constant.
    Reserved,
    /// Memory that `ringbuf_reserve` gave.
    Reservation,
    /// Eight bytes for a number.
    NumberOut,
    /// Text that never changes: in a map that programs cannot write, frozen.
    Text,
    /// A function of this program.
    Callback,
    /// Memory of the stack for the callback, or null.
    CallbackData,
}

/// What a helper gives in `r0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// A number.
    Number,
    /// Nothing that may be used.
    Nothing,
    /// A value of the map, or null.
    ValueOrNull,
    /// Memory of a ring buffer, which must be given back, or null.
    ReservationOrNull,
}

/// A helper that is run here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Helper {
    pub(crate) number: u32,
    pub(crate) args: &'static [Arg],
    pub(crate) gives: Gives,
}

#[allow(missing_docs, reason = "the names are those of the helpers")]
pub(crate) mod number {
    pub(crate) const MAP_LOOKUP_ELEM: u32 = 1;
    pub(crate) const MAP_UPDATE_ELEM: u32 = 2;
    pub(crate) const MAP_DELETE_ELEM: u32 = 3;
    pub(crate) const PROBE_READ: u32 = 4;
    pub(crate) const KTIME_GET_NS: u32 = 5;
    pub(crate) const TRACE_PRINTK: u32 = 6;
    pub(crate) const GET_PRANDOM_U32: u32 = 7;
    pub(crate) const GET_SMP_PROCESSOR_ID: u32 = 8;
    pub(crate) const TAIL_CALL: u32 = 12;
    pub(crate) const GET_CURRENT_PID_TGID: u32 = 14;
    pub(crate) const GET_CURRENT_UID_GID: u32 = 15;
    pub(crate) const GET_CURRENT_COMM: u32 = 16;
    pub(crate) const PERF_EVENT_READ: u32 = 22;
    pub(crate) const PERF_EVENT_OUTPUT: u32 = 25;
    pub(crate) const SKB_LOAD_BYTES: u32 = 26;
    pub(crate) const GET_STACKID: u32 = 27;
    pub(crate) const GET_CURRENT_TASK: u32 = 35;
    pub(crate) const CURRENT_TASK_UNDER_CGROUP: u32 = 37;
    pub(crate) const GET_NUMA_NODE_ID: u32 = 42;
    pub(crate) const PROBE_READ_STR: u32 = 45;
    pub(crate) const PERF_EVENT_READ_VALUE: u32 = 55;
    pub(crate) const PERF_PROG_READ_VALUE: u32 = 56;
    pub(crate) const GET_STACK: u32 = 67;
    pub(crate) const GET_CURRENT_CGROUP_ID: u32 = 80;
    pub(crate) const MAP_PUSH_ELEM: u32 = 87;
    pub(crate) const MAP_POP_ELEM: u32 = 88;
    pub(crate) const MAP_PEEK_ELEM: u32 = 89;
    pub(crate) const STRTOL: u32 = 105;
    pub(crate) const STRTOUL: u32 = 106;
    pub(crate) const SEND_SIGNAL: u32 = 109;
    pub(crate) const PROBE_READ_USER: u32 = 112;
    pub(crate) const PROBE_READ_KERNEL: u32 = 113;
    pub(crate) const PROBE_READ_USER_STR: u32 = 114;
    pub(crate) const PROBE_READ_KERNEL_STR: u32 = 115;
    pub(crate) const SEND_SIGNAL_THREAD: u32 = 117;
    pub(crate) const JIFFIES64: u32 = 118;
    pub(crate) const READ_BRANCH_RECORDS: u32 = 119;
    pub(crate) const GET_CURRENT_ANCESTOR_CGROUP_ID: u32 = 123;
    pub(crate) const KTIME_GET_BOOT_NS: u32 = 125;
    pub(crate) const RINGBUF_OUTPUT: u32 = 130;
    pub(crate) const RINGBUF_RESERVE: u32 = 131;
    pub(crate) const RINGBUF_SUBMIT: u32 = 132;
    pub(crate) const RINGBUF_DISCARD: u32 = 133;
    pub(crate) const RINGBUF_QUERY: u32 = 134;
    pub(crate) const KTIME_GET_COARSE_NS: u32 = 160;
    pub(crate) const GET_FUNC_IP: u32 = 173;
    pub(crate) const GET_ATTACH_COOKIE: u32 = 174;
    pub(crate) const LOOP: u32 = 181;
    pub(crate) const STRNCMP: u32 = 182;
    pub(crate) const MAP_LOOKUP_PERCPU_ELEM: u32 = 195;
    pub(crate) const KTIME_GET_TAI_NS: u32 = 208;
}
use number::*;

const fn row(number: u32, args: &'static [Arg], gives: Gives) -> Helper {
    Helper { number, args, gives }
}

const HELPERS: &[Helper] = &[
    row(MAP_LOOKUP_ELEM, &[Arg::Map, Arg::Key], Gives::ValueOrNull),
    row(MAP_UPDATE_ELEM, &[Arg::Map, Arg::Key, Arg::Value, Arg::Any], Gives::Number),
    row(MAP_DELETE_ELEM, &[Arg::Map, Arg::Key], Gives::Number),
    row(PROBE_READ, &[Arg::MemoryOut, Arg::SizeOrZero, Arg::Any], Gives::Number),
    row(KTIME_GET_NS, &[], Gives::Number),
    row(TRACE_PRINTK, &[Arg::Memory, Arg::Size], Gives::Number),
    row(GET_PRANDOM_U32, &[], Gives::Number),
    row(GET_SMP_PROCESSOR_ID, &[], Gives::Number),
    row(TAIL_CALL, &[Arg::Context, Arg::Map, Arg::Any], Gives::Nothing),
    row(GET_CURRENT_PID_TGID, &[], Gives::Number),
    row(GET_CURRENT_UID_GID, &[], Gives::Number),
    row(GET_CURRENT_COMM, &[Arg::MemoryOut, Arg::Size], Gives::Number),
    row(PERF_EVENT_READ, &[Arg::Map, Arg::Any], Gives::Number),
    row(PERF_EVENT_OUTPUT, &[Arg::Context, Arg::Map, Arg::Any, Arg::Memory, Arg::SizeOrZero], Gives::Number),
    row(SKB_LOAD_BYTES, &[Arg::Context, Arg::Any, Arg::MemoryOut, Arg::Size], Gives::Number),
    row(GET_STACKID, &[Arg::Context, Arg::Map, Arg::Any], Gives::Number),
    row(GET_CURRENT_TASK, &[], Gives::Number),
    row(CURRENT_TASK_UNDER_CGROUP, &[Arg::Map, Arg::Any], Gives::Number),
    row(GET_NUMA_NODE_ID, &[], Gives::Number),
    row(PROBE_READ_STR, &[Arg::MemoryOut, Arg::SizeOrZero, Arg::Any], Gives::Number),
    row(PERF_EVENT_READ_VALUE, &[Arg::Map, Arg::Any, Arg::MemoryOut, Arg::Size], Gives::Number),
    row(PERF_PROG_READ_VALUE, &[Arg::Context, Arg::MemoryOut, Arg::Size], Gives::Number),
    row(GET_STACK, &[Arg::Context, Arg::MemoryOut, Arg::SizeOrZero, Arg::Any], Gives::Number),
    row(GET_CURRENT_CGROUP_ID, &[], Gives::Number),
    row(MAP_PUSH_ELEM, &[Arg::Map, Arg::Value, Arg::Any], Gives::Number),
    row(MAP_POP_ELEM, &[Arg::Map, Arg::ValueOut], Gives::Number),
    row(MAP_PEEK_ELEM, &[Arg::Map, Arg::ValueOut], Gives::Number),
    row(STRTOL, &[Arg::Memory, Arg::Size, Arg::Any, Arg::NumberOut], Gives::Number),
    row(STRTOUL, &[Arg::Memory, Arg::Size, Arg::Any, Arg::NumberOut], Gives::Number),
    row(SEND_SIGNAL, &[Arg::Any], Gives::Number),
    row(PROBE_READ_USER, &[Arg::MemoryOut, Arg::SizeOrZero, Arg::Any], Gives::Number),
    row(PROBE_READ_KERNEL, &[Arg::MemoryOut, Arg::SizeOrZero, Arg::Any], Gives::Number),
    row(PROBE_READ_USER_STR, &[Arg::MemoryOut, Arg::SizeOrZero, Arg::Any], Gives::Number),
    row(PROBE_READ_KERNEL_STR, &[Arg::MemoryOut, Arg::SizeOrZero, Arg::Any], Gives::Number),
    row(SEND_SIGNAL_THREAD, &[Arg::Any], Gives::Number),
    row(JIFFIES64, &[], Gives::Number),
    row(READ_BRANCH_RECORDS, &[Arg::Context, Arg::MemoryOutOrNull, Arg::SizeOrZero, Arg::Any], Gives::Number),
    row(GET_CURRENT_ANCESTOR_CGROUP_ID, &[Arg::Any], Gives::Number),
    row(KTIME_GET_BOOT_NS, &[], Gives::Number),
    row(RINGBUF_OUTPUT, &[Arg::Map, Arg::Memory, Arg::SizeOrZero, Arg::Any], Gives::Number),
    row(RINGBUF_RESERVE, &[Arg::Map, Arg::Reserved, Arg::Any], Gives::ReservationOrNull),
    row(RINGBUF_SUBMIT, &[Arg::Reservation, Arg::Any], Gives::Nothing),
    row(RINGBUF_DISCARD, &[Arg::Reservation, Arg::Any], Gives::Nothing),
    row(RINGBUF_QUERY, &[Arg::Map, Arg::Any], Gives::Number),
    row(KTIME_GET_COARSE_NS, &[], Gives::Number),
    row(GET_FUNC_IP, &[Arg::Context], Gives::Number),
    row(GET_ATTACH_COOKIE, &[Arg::Context], Gives::Number),
    row(LOOP, &[Arg::Any, Arg::Callback, Arg::CallbackData, Arg::Any], Gives::Number),
    row(STRNCMP, &[Arg::Memory, Arg::Size, Arg::Text], Gives::Number),
    row(MAP_LOOKUP_PERCPU_ELEM, &[Arg::Map, Arg::Key, Arg::Any], Gives::ValueOrNull),
    row(KTIME_GET_TAI_NS, &[], Gives::Number),
];

/// Whether Linux has a helper for programs under the GPL alone.
pub fn is_gpl_only(number: u32) -> bool {
    const GPL: [u32; 16] = [
        PROBE_READ,
        TRACE_PRINTK,
        PERF_EVENT_READ,
        PERF_EVENT_OUTPUT,
        GET_STACKID,
        GET_CURRENT_TASK,
        PROBE_READ_STR,
        PERF_EVENT_READ_VALUE,
        PERF_PROG_READ_VALUE,
        GET_STACK,
        PROBE_READ_USER,
        PROBE_READ_KERNEL,
        PROBE_READ_USER_STR,
        PROBE_READ_KERNEL_STR,
        READ_BRANCH_RECORDS,
        GET_FUNC_IP,
    ];
    GPL.contains(&number)
}

/// The helper with this number, if it is run here.
pub(crate) fn helper(number: u32) -> Option<&'static Helper> {
    HELPERS.binary_search_by_key(&number, |row| row.number).ok().map(|at| &HELPERS[at])
}

/// Whether a helper writes to the memory that this register points to.
pub(crate) fn writes(number: u32, reg: crate::insn::Reg) -> bool {
    let arg = helper(number).and_then(|row| row.args.get(reg.index().checked_sub(1)?));
    matches!(arg, Some(Arg::MemoryOut | Arg::MemoryOutOrNull | Arg::ValueOut | Arg::NumberOut))
}

/// The name of a helper without `bpf_`.
pub fn name(number: u32) -> Option<&'static str> {
    NAMES.get(number as usize).copied().filter(|_| number != 0)
}

/// The number of the helper with this name, without `bpf_`.
pub fn by_name(name: &str) -> Option<u32> {
    NAMES.iter().skip(1).position(|known| *known == name).map(|at| at as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_by_number_and_have_names() {
        assert!(HELPERS.is_sorted_by_key(|row| row.number));
        for row in HELPERS {
            assert_eq!(by_name(name(row.number).unwrap()), Some(row.number));
            assert_eq!(helper(row.number).unwrap().number, row.number);
        }
        assert_eq!((name(0), name(212), name(211)), (None, None, Some("cgrp_storage_delete")));
        assert_eq!((by_name("unspec"), by_name("ringbuf_reserve")), (None, Some(131)));
    }
}
