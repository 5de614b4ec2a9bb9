//! The types of programs that trace, and what each may see: its context, the helpers that it may call.

use core::fmt;

/// `enum bpf_prog_type`, as far as it is run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramType {
    /// Packets; what `BPF_PROG_TEST_RUN` runs.
    SocketFilter,
    /// kprobes and uprobes; the context is the registers.
    Kprobe,
    /// Tracepoints; the context is the record.
    Tracepoint,
    /// Overflows of events; the context is the registers, the period and the address.
    PerfEvent,
    /// Tracepoints, with the arguments of their call as the context.
    RawTracepoint,
}

impl ProgramType {
    /// Its number.
    pub const fn number(self) -> u32 {
        match self {
            ProgramType::SocketFilter => 1,
            ProgramType::Kprobe => 2,
            ProgramType::Tracepoint => 5,
            ProgramType::PerfEvent => 7,
            ProgramType::RawTracepoint => 17,
        }
    }

    /// The type with this number.
    pub const fn of_number(number: u32) -> Option<ProgramType> {
        Some(match number {
            1 => ProgramType::SocketFilter,
            2 => ProgramType::Kprobe,
            5 => ProgramType::Tracepoint,
            7 => ProgramType::PerfEvent,
            17 => ProgramType::RawTracepoint,
            _ => return None,
        })
    }

    /// Whether a program of this type may call the helper.
    pub fn may_call(self, helper: u32) -> bool {
        // Maps, numbers, time, ring buffers, tail calls, callbacks, and memory of the kernel and of users.
        const ALL: &[u32] = &[
            1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 15, 16, 35, 42, 45, 80, 87, 88, 89, 105, 106, 112, 113, 114, 115,
            118, 123, 125, 130, 131, 132, 133, 134, 160, 181, 182, 195, 208,
        ];
        const TRACING: &[u32] = &[22, 25, 27, 37, 55, 67, 109, 117];
        match helper {
            4 | 45 => self != ProgramType::SocketFilter,
            26 => self == ProgramType::SocketFilter,
            25 if self == ProgramType::SocketFilter => true,
            56 | 119 => self == ProgramType::PerfEvent,
            173 => self == ProgramType::Kprobe,
            174 => self != ProgramType::SocketFilter,
            _ if ALL.contains(&helper) => true,
            _ => TRACING.contains(&helper) && self != ProgramType::SocketFilter,
        }
    }

    /// What is read at these bytes of the context.
    ///
    /// `registers_bytes` is the size of `struct pt_regs` (or `user_pt_regs`) of the architecture: 168 for x86-64.
    pub fn context_access(self, off: i64, size: u32, write: bool, registers_bytes: u32) -> ContextAccess {
        let end = off + i64::from(size);
        let aligned = off % i64::from(size) == 0;
        let within = |limit: i64| off >= 0 && end <= limit && aligned;
        let fine = match self {
            ProgramType::SocketFilter => {
                const CB: core::ops::Range<i64> = 48..68;
                let is_of =
                    |fields: core::ops::Range<i64>| fields.contains(&off) && fields.contains(&(end - 1));
                let hidden = [72..76, 76..84, 88..140, 140..144, 144..152, 152..160, 160..164, 168..192];
                let in_cb = is_of(CB) && size <= 8;
                within(192)
                    && if write { in_cb } else { in_cb || size <= 4 && !hidden.into_iter().any(is_of) }
            }
            ProgramType::Kprobe => !write && within(i64::from(registers_bytes)),
            // The first word is the kernel's own.
            ProgramType::Tracepoint => !write && off >= 8 && within(8192),
            ProgramType::PerfEvent => {
                let registers = i64::from(registers_bytes);
                !write && within(registers + 16) && (size == 8 || off >= registers)
            }
            ProgramType::RawTracepoint => !write && within(96),
        };
        if fine { ContextAccess::Number } else { ContextAccess::No }
    }

    /// The bytes of the context that a program may read at most, in words.
    pub(crate) fn context_in_words(self) -> &'static str {
        match self {
            ProgramType::SocketFilter => {
                "a socket filter reads the fields of __sk_buff that are for it, and writes cb"
            }
            ProgramType::Kprobe => "a probe reads struct pt_regs, aligned, and writes nothing",
            ProgramType::Tracepoint => {
                "a tracepoint's program reads the record from byte 8 on, aligned, and writes nothing"
            }
            ProgramType::PerfEvent => {
                "an event's program reads registers as 8 bytes each, then sample_period and addr, and writes nothing"
            }
            ProgramType::RawTracepoint => {
                "a raw tracepoint's program reads its arguments, 8 bytes each, and writes nothing"
            }
        }
    }
}

impl fmt::Display for ProgramType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProgramType::SocketFilter => "socket filter",
            ProgramType::Kprobe => "kprobe",
            ProgramType::Tracepoint => "tracepoint",
            ProgramType::PerfEvent => "perf event",
            ProgramType::RawTracepoint => "raw tracepoint",
        })
    }
}

/// What some bytes of a context are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextAccess {
    /// Nothing that the program may touch so.
    No,
    /// Any number.
    Number,
}
