//! Refusals in words: which instruction, what its register may hold, and what would help. The same reasons are made by our
//! verifier and read out of Linux's log ([`crate::log`]), so both kernels speak with one voice.

use crate::helper::NOT_IN_KERNEL;
use crate::insn::{Insn, Reg};
use crate::program::ProgramType;
use alloc::string::String;
use core::fmt;
use perfuse_abi::Errno;

/// A program that is not let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The slot of the instruction.
    pub slot: usize,
    /// The instruction, if there is one.
    pub insn: Option<Insn>,
    /// Why.
    pub reason: Reason,
    /// Instructions that were looked at before, on all ways.
    pub looked_at: u32,
}

/// Why a program is not let through. What a register holds is told in words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the types and told by the sentences")]
pub enum Reason {
    /// No instruction at all.
    Empty,
    /// More than the kernel takes.
    TooLong { slots: usize },
    /// A jump that leads out of its function or the program.
    JumpOutside { to: i64 },
    /// A jump to the second slot of a constant.
    JumpIntoConstant { to: usize },
    /// The last instruction of a function goes on.
    FallsOff,
    /// No way leads there.
    Unreachable,
    /// No form that can be verified or run here.
    Unsupported,
    /// No such map.
    NoMap { map: i32 },
    /// The map's value cannot be pointed to.
    NoDirectValue { map: i32 },
    /// The place that is pointed to is not in the value, or which value it is in is not said.
    BeyondDirectValue { map: i32, values: u32, size: u32, at: u32 },
    /// The same state again: it never ends.
    InfiniteLoop,
    /// Too many instructions on all ways.
    TooComplex { limit: u32 },
    /// Too many ways that are still to be gone.
    TooManyWays,
    /// Functions that call each other too deep.
    TooDeep { most: usize },
    /// A register that nothing was put in.
    Unset { reg: Reg },
    /// `r10` is not written.
    FramePointer,
    /// An access by what is no pointer to memory.
    NoPointer { reg: Reg, holds: String },
    /// An access by what may be null.
    MaybeNull { reg: Reg, holds: String },
    /// An access outside of what is pointed to.
    Outside { reg: Reg, holds: String, size: i64, room: i64 },
    /// An access at the top of the stack or above it.
    AboveStack { reg: Reg, holds: String, size: i64 },
    /// A pointer that would be moved by a number without an end.
    FarAway { reg: Reg, holds: String },
    /// A part of a pointer is put on the stack, or taken from there.
    HalfPointer,
    /// A constant shift that leaves nothing.
    Shift { by: i32, bits: i32 },
    /// A constant divisor that is zero.
    ByZero,
    /// A function that returns a pointer to its stack.
    ReturnsStack,
    /// A reservation is given back by a pointer that was moved.
    MovedReservation { reg: Reg },
    /// An access at a distance that may be negative.
    Negative { reg: Reg, holds: String },
    /// An access at a distance, or of a size, without an end.
    Unbounded { reg: Reg, holds: String },
    /// An access that is not aligned.
    Misaligned { reg: Reg, off: i64, size: i64 },
    /// An access to the context that this program may not make.
    Context { program_type: ProgramType, off: i64, size: i64, write: bool },
    /// A pointer to the context that was moved.
    MovedContext { reg: Reg },
    /// Arithmetic that pointers are not for.
    Arithmetic { reg: Reg, holds: String },
    /// A value of a map that programs may not change.
    ReadOnly { reg: Reg },
    /// A value of a map that programs may not see.
    WriteOnly { reg: Reg },
    /// A helper that does not exist, or not here.
    NoHelper { number: u32 },
    /// A helper that programs of this type may not call.
    HelperForOthers { number: u32, program_type: ProgramType },
    /// An argument that does not fit.
    Argument { reg: Reg, holds: String, wants: &'static str },
    /// A size that may be zero.
    ZeroSize { reg: Reg },
    /// A map that the helper is not for.
    MapForOthers { number: u32, kind: String },
    /// A load from a packet by what is none, or in a program that has none.
    NoPacket { program_type: ProgramType },
    /// A helper that the program's licence does not allow.
    Licence { number: u32 },
    /// A reservation that is not given back.
    Kept { call: usize },
    /// A function of a helper that returns something else than 0 or 1.
    Turns { holds: String },
    /// A sentence of Linux's log that has no reason of ours.
    Other { text: String },
}

impl Reason {
    /// The errno of `bpf(2)`.
    pub fn errno(&self) -> Errno {
        match self {
            Reason::TooLong { .. }
            | Reason::TooComplex { .. }
            | Reason::TooManyWays
            | Reason::TooDeep { .. } => Errno::E2BIG,
            Reason::Empty
            | Reason::JumpOutside { .. }
            | Reason::JumpIntoConstant { .. }
            | Reason::FallsOff
            | Reason::Unreachable
            | Reason::InfiniteLoop
            | Reason::Unsupported
            | Reason::NoHelper { .. }
            | Reason::NoPacket { .. }
            | Reason::Licence { .. }
            | Reason::MapForOthers { .. }
            | Reason::NoDirectValue { .. }
            | Reason::Kept { .. }
            | Reason::AboveStack { .. }
            | Reason::FarAway { .. }
            | Reason::Shift { .. }
            | Reason::ByZero
            | Reason::ReturnsStack
            | Reason::MovedReservation { .. }
            | Reason::Turns { .. } => Errno::EINVAL,
            Reason::NoMap { .. } => Errno::EBADF,
            Reason::BeyondDirectValue { values: 2.., .. } => crate::map::ENOTSUPP,
            Reason::BeyondDirectValue { .. } => Errno::EINVAL,
            Reason::HelperForOthers { number: crate::helper::number::GET_FUNC_IP, program_type }
                if *program_type != ProgramType::SocketFilter =>
            {
                crate::map::ENOTSUPP
            }
            Reason::HelperForOthers { .. } => Errno::EINVAL,
            _ => Errno::EACCES,
        }
    }

    /// What would help.
    pub fn help(&self) -> Option<&'static str> {
        Some(match self {
            Reason::Empty => "the shortest program is 'r0 = 0' and 'exit'",
            Reason::TooLong { .. } => "go on in a second program by bpf_tail_call",
            Reason::JumpOutside { .. } => "jumps stay within their function; 'call' enters another one",
            Reason::JumpIntoConstant { .. } => {
                "jump to the slot before, where the constant begins, or after it"
            }
            Reason::FallsOff => "end the function with 'exit' or 'goto'",
            Reason::Unreachable => "leave it out, or let a jump lead there",
            Reason::NoMap { .. } => "make the map first, and keep it until the program is loaded",
            Reason::NoDirectValue { .. } | Reason::BeyondDirectValue { .. } => {
                "pointers into a value are for arrays of one entry, and begin within the value"
            }
            Reason::InfiniteLoop => "count the turns in a register and leave when it reaches a limit",
            Reason::TooComplex { .. } => "make loops shorter, or put their body in a function for bpf_loop",
            Reason::TooManyWays => "join ways earlier: fewer conditions behind each other",
            Reason::TooDeep { .. } => "8 functions may be entered at a time, and none calls itself",
            Reason::Unset { .. } => "put something in it on every way that leads here; calls clear r1 to r5",
            Reason::FramePointer => "copy r10 to another register and move that",
            Reason::NoPointer { .. } => {
                "only pointers to the stack, the context, values of maps and reserved memory reach memory; others are \
                 read by bpf_probe_read_kernel or bpf_probe_read_user"
            }
            Reason::MaybeNull { .. } => "compare it with 0 first, and go on with it where it is not",
            Reason::Outside { .. } => "compare the distance with the size first, on every way",
            Reason::AboveStack { .. } => {
                "the stack lies below r10: take a smaller size, or begin further down"
            }
            Reason::FarAway { .. } => {
                "compare the number with the most that fits first, on both sides, or mask it with '&='"
            }
            Reason::HalfPointer => "put pointers on the stack, and take them from there, by 8 bytes",
            Reason::Shift { .. } => "shift by less than the width",
            Reason::ByZero => "divide by something else",
            Reason::ReturnsStack => "let the caller pass memory of its own stack",
            Reason::MovedReservation { .. } => {
                "keep the pointer as bpf_ringbuf_reserve gave it, and move a copy"
            }
            Reason::Negative { .. } => "make it unsigned: compare it without sign, or mask it with '&='",
            Reason::Unbounded { .. } => "compare it with the most that fits, or mask it with '&='",
            Reason::Misaligned { .. } => {
                "places on the stack, and those of lock and atomic, are multiples of the size"
            }
            Reason::Context { program_type, .. } => program_type.context_in_words(),
            Reason::MovedContext { .. } => {
                "keep the pointer as it came in r1, and put the distance in the access"
            }
            Reason::Arithmetic { .. } => "pointers take additions and subtractions of whole registers alone",
            Reason::ReadOnly { .. } => "the map has BPF_F_RDONLY_PROG: programs read it alone",
            Reason::WriteOnly { .. } => "the map has BPF_F_WRONLY_PROG: programs write it alone",
            Reason::ZeroSize { .. } => "compare it with 0 first",
            Reason::NoPacket { .. } => "only socket filters read packets so, and have the context in r6 then",
            Reason::Licence { .. } => "load the program under the GPL, or a licence that goes with it",
            Reason::Kept { .. } => "give it back on every way by bpf_ringbuf_submit or bpf_ringbuf_discard",
            Reason::Turns { .. } => "return 0 to go on and 1 to stop",
            Reason::HelperForOthers { .. }
            | Reason::MapForOthers { .. }
            | Reason::Unsupported
            | Reason::NoHelper { .. }
            | Reason::Argument { .. }
            | Reason::Other { .. } => {
                return None;
            }
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |number: &u32| crate::helper::name(*number).unwrap_or("unknown");
        match self {
            Reason::Empty => write!(f, "the program has no instructions"),
            Reason::TooLong { slots } => write!(f, "the program has {slots} slots, and 1000000 are the most"),
            Reason::JumpOutside { to } => write!(f, "it leads to slot {to}, outside of its function"),
            Reason::JumpIntoConstant { to } => write!(f, "it leads to slot {to}, the middle of a constant"),
            Reason::FallsOff => write!(f, "the function goes on behind its last instruction"),
            Reason::Unreachable => write!(f, "no way leads here"),
            Reason::Unsupported => write!(f, "this form of instruction is not run here"),
            Reason::NoMap { map } => write!(f, "there is no map {map}"),
            Reason::NoDirectValue { map } => write!(f, "map {map} has no value to point to"),
            Reason::BeyondDirectValue { map, values: 2.., .. } => {
                write!(f, "map {map} has several values, and which one is pointed to is not said")
            }
            Reason::BeyondDirectValue { map, size, at, .. } => {
                write!(f, "map {map} has values of {size} bytes, and {at} is behind them")
            }
            Reason::InfiniteLoop => {
                write!(f, "it comes here again with nothing changed, and would never end")
            }
            Reason::TooComplex { limit } => {
                write!(f, "more than {limit} instructions were looked at on all ways")
            }
            Reason::TooManyWays => write!(f, "more than 8192 ways are still to be looked at"),
            Reason::TooDeep { most } => write!(f, "more than {most} functions call each other"),
            Reason::Unset { reg } => write!(f, "{reg} holds nothing yet"),
            Reason::FramePointer => write!(f, "r10, the frame pointer, is only read"),
            Reason::NoPointer { reg, holds } => write!(f, "{reg} is {holds}, not memory"),
            Reason::MaybeNull { reg, holds } => write!(f, "{reg} is {holds}"),
            Reason::Outside { reg, holds, size, room } => {
                write!(f, "{reg} is {holds}: {size} bytes there are not all within its {room}")
            }
            Reason::AboveStack { reg, holds, size } => {
                write!(f, "{reg} is {holds}: {size} bytes there reach above the stack")
            }
            Reason::FarAway { reg, holds } => {
                write!(f, "{reg} would be moved by {holds}, which is not bounded")
            }
            Reason::HalfPointer => write!(f, "this moves a part of a pointer"),
            Reason::Shift { by, bits } => write!(f, "a shift by {by} leaves nothing of {bits} bits"),
            Reason::ByZero => write!(f, "this divides by zero"),
            Reason::ReturnsStack => write!(f, "r0 points to the stack of the function that ends"),
            Reason::MovedReservation { reg } => write!(f, "{reg} points into reserved memory and was moved"),
            Reason::Negative { reg, holds } => write!(f, "{reg} is {holds}, and may be negative"),
            Reason::Unbounded { reg, holds } => write!(f, "{reg} is {holds}, which is not bounded"),
            Reason::Misaligned { reg, off, size } => {
                write!(f, "{size} bytes at {reg} {off:+} are not at a multiple of their size")
            }
            Reason::Context { off, size, write: true, .. } => {
                write!(f, "{size} bytes of the context at {off} are not for writing")
            }
            Reason::Context { off, size, write: false, .. } => {
                write!(f, "{size} bytes of the context at {off} are not for this program")
            }
            Reason::MovedContext { reg } => write!(f, "{reg} points to the context and was moved"),
            Reason::Arithmetic { reg, holds } => {
                write!(f, "{reg} is {holds}, which this operation is not for")
            }
            Reason::ReadOnly { reg } => write!(f, "{reg} is in a map that this program may not change"),
            Reason::WriteOnly { reg } => write!(f, "{reg} is in a map that this program may not read"),
            Reason::NoHelper { number: NOT_IN_KERNEL } => {
                f.write_str("the program asks here for a type, member or value that the kernel does not have")
            }
            Reason::NoHelper { number } => write!(f, "there is no helper bpf_{}#{number} here", name(number)),
            Reason::HelperForOthers { number, program_type } => {
                write!(f, "bpf_{} is not for a {program_type} program", name(number))
            }
            Reason::Argument { reg, holds, wants } => write!(f, "{reg} is {holds}; wanted is {wants}"),
            Reason::ZeroSize { reg } => write!(f, "{reg} is a size and may be zero"),
            Reason::MapForOthers { number, kind } => {
                write!(f, "bpf_{} is not for a map of kind {kind}", name(number))
            }
            Reason::NoPacket { .. } => write!(f, "r6 is no packet"),
            Reason::Licence { number } => {
                write!(f, "bpf_{} is for programs under the GPL", name(number))
            }
            Reason::Kept { call } => {
                write!(f, "the memory that instruction {call} reserved is not given back")
            }
            Reason::Turns { holds } => write!(f, "a function for bpf_loop returns {holds}"),
            Reason::Other { text } => write!(f, "{text}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.insn {
            Some(insn) => write!(f, "instruction {} ({insn}): {}", self.slot, self.reason)?,
            None => write!(f, "{}", self.reason)?,
        }
        match self.reason.help() {
            Some(help) => write!(f, "\n→ {help}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Refusal {}
