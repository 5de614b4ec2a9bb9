//! The log as Linux writes it: the instruction that is refused, the sentence about it, and how much was looked at.

use crate::helper;
use crate::insn::{AluOp, DecodeError, Insn, Reg, Undecodable, Width};
use crate::map::MapKind;
use crate::program::ProgramType;
use crate::verify::{Reason, Refusal, Verified};
use alloc::format;
use alloc::string::String;

/// The log of a program that was refused. Sentences are those of Linux 6.18, with its names of what registers hold; what it tells
/// besides of every way through a program is not told.
///
/// ```
/// use perfuse_bpf::{Maps, ProgramType, assemble, log, verify};
///
/// let insns = assemble("r0 = r2; exit")?;
/// let refusal = verify(ProgramType::Kprobe, &insns, &Maps::new(1, 0, 0), &[]).expect_err("r2 holds nothing");
/// assert!(log::text(&refusal).contains("R2 !read_ok"));
/// # Ok::<(), perfuse_bpf::AssembleError>(())
/// ```
pub fn text(refusal: &Refusal) -> String {
    let Refusal { slot, insn, reason, looked_at } = refusal;
    // A fault that is found before the ways are gone is about no instruction on one.
    let instruction = match (insn, is_of_a_way(reason)) {
        (Some(insn), true) => format!("{slot}: ({:02x}) {insn}\n", insn.encode().0.code),
        _ => String::new(),
    };
    format!("{instruction}{}\n{}", sentence(*slot, insn.as_ref(), reason), processed(*looked_at, 0))
}

/// The log of instructions that are none.
pub fn undecodable(error: &DecodeError) -> String {
    let DecodeError { slot, why, found } = error;
    let sentence = match why {
        Undecodable::Opcode => format!("unknown opcode {:02x}", found.code),
        Undecodable::Register(number) => format!("{slot}: ({:02x})\nR{number} is invalid", found.code),
        Undecodable::Half => "invalid bpf_ld_imm64 insn".into(),
        Undecodable::Reserved if is_atomic(found.code) => {
            format!("{slot}: BUG_{:02x}\nBPF_ATOMIC uses invalid atomic opcode {:02x}", found.code, found.imm)
        }
        Undecodable::Reserved => {
            format!("{slot}: ({:02x})\n{} uses reserved fields", found.code, class(found.code))
        }
    };
    format!("{sentence}\n{}", nothing_looked_at())
}

fn is_atomic(code: u8) -> bool {
    code & 7 == 3 && code & 0xe0 == 0xc0
}

/// Linux's name of the class of an opcode, where it speaks of its fields.
fn class(code: u8) -> &'static str {
    match (code & 7, code & 0xf0) {
        (4 | 7, 0xb0) => "BPF_MOV",
        (4 | 7, 0x80) => "BPF_NEG",
        (4 | 7, 0xd0) => "BPF_END",
        (4 | 7, _) => "BPF_ALU",
        (0, _) => "BPF_LD_ABS",
        (1, _) => "BPF_LDX",
        (2, _) => "BPF_ST",
        (3, _) => "BPF_STX",
        (5 | 6, 0x00) => "BPF_JA",
        (5, 0x80) => "BPF_CALL",
        (5, 0x90) => "BPF_EXIT",
        _ => "BPF_JMP/JMP32",
    }
}

/// The log of a program that was let through.
pub fn accepted(verified: &Verified) -> String {
    processed(verified.looked_at, verified.states)
}

/// The last line of the log of a program that was refused before its instructions were looked at.
pub fn nothing_looked_at() -> String {
    processed(0, 0)
}

fn processed(looked_at: u32, states: u32) -> String {
    format!(
        "processed {looked_at} insns (limit 1000000) max_states_per_insn 0 total_states {states} peak_states {states} \
         mark_read 0\n"
    )
}

fn is_of_a_way(reason: &Reason) -> bool {
    !matches!(
        reason,
        Reason::Empty
            | Reason::TooLong { .. }
            | Reason::JumpOutside { .. }
            | Reason::JumpIntoConstant { .. }
            | Reason::FallsOff
            | Reason::Unreachable
            | Reason::NoMap { .. }
            | Reason::NoDirectValue { .. }
            | Reason::BeyondDirectValue { .. }
    )
}

/// Linux's name of what a register holds, by our words for it.
fn kind(holds: &str) -> &'static str {
    const KINDS: [(&str, &str); 9] = [
        ("or null", "map_value_or_null"),
        ("in a value", "map_value"),
        ("itself", "map_ptr"),
        ("the context", "ctx"),
        ("on the stack", "fp"),
        ("reserved bytes", "ringbuf_mem"),
        ("the function", "func"),
        ("a pointer", "ptr"),
        ("nothing", "?"),
    ];
    match KINDS.iter().find(|(words, _)| holds.contains(words)) {
        Some((_, "map_value_or_null")) if holds.contains("reserved") => "ringbuf_mem_or_null",
        Some((_, kind)) => kind,
        None => "scalar",
    }
}

fn sentence(slot: usize, insn: Option<&Insn>, reason: &Reason) -> String {
    let name = |number: &u32| format!("bpf_{}#{number}", helper::name(*number).unwrap_or("unknown"));
    let is_call = matches!(insn, Some(Insn::CallHelper(_)));
    let is_arithmetic = matches!(insn, Some(Insn::Alu { .. }));
    let writes = match (insn, reason) {
        (Some(Insn::Store { .. } | Insn::StoreRelease { .. } | Insn::Atomic { .. }), _) => true,
        (Some(Insn::CallHelper(number)), Reason::Outside { reg, .. } | Reason::AboveStack { reg, .. }) => {
            helper::writes(*number, *reg)
        }
        _ => false,
    };
    let r = |reg: &Reg| format!("R{}", reg.number());
    match reason {
        Reason::Empty | Reason::TooLong { .. } => format!("{reason}"),
        Reason::JumpOutside { to } => format!("jump out of range from insn {slot} to {to}"),
        Reason::JumpIntoConstant { to } => format!("jump into the middle of ldimm64 insn {to}"),
        Reason::FallsOff => "last insn is not an exit or jmp".into(),
        Reason::Unreachable => format!("unreachable insn {slot}"),
        Reason::Unsupported => match insn {
            Some(insn) => format!("unknown opcode {:02x}", insn.encode().0.code),
            None => "unknown opcode".into(),
        },
        Reason::NoMap { map } => format!("fd {map} is not pointing to valid bpf_map"),
        Reason::NoDirectValue { .. } => "no direct value access support for this map type".into(),
        Reason::BeyondDirectValue { size, at, .. } => {
            format!("invalid access to map value pointer, value_size={size} off={at}")
        }
        Reason::InfiniteLoop => format!("infinite loop detected at insn {slot}"),
        Reason::TooComplex { limit } => format!("BPF program is too large. Processed {} insn", limit + 1),
        Reason::TooManyWays => "The sequence of 8193 jumps is too complex.".into(),
        Reason::TooDeep { most } => format!("the call stack of {} frames is too deep", most + 1),
        Reason::Unset { reg } => format!("{} !read_ok", r(reg)),
        Reason::FramePointer => "frame pointer is read only".into(),
        Reason::NoPointer { reg, holds } => format!("{} invalid mem access '{}'", r(reg), kind(holds)),
        Reason::MaybeNull { reg, holds } => match kind(holds) {
            kind if is_call => format!("{} type={kind} expected=fp, pkt, map_key, map_value, mem", r(reg)),
            kind if is_arithmetic => {
                format!("{} pointer arithmetic on {kind} prohibited, null-check it first", r(reg))
            }
            kind => format!("{} invalid mem access '{kind}'", r(reg)),
        },
        Reason::Outside { reg, holds, size, room } => {
            let off = distance(holds) + offset(insn);
            // Of a place that is known the least one is outside already.
            let end = if holds.contains(" plus ") { "max" } else { "min" };
            let outside = format!("{} {end} value is outside of the allowed memory range", r(reg));
            match kind(holds) {
                "fp" => stack(r(reg), holds, writes, off, *size),
                "ringbuf_mem" => {
                    format!("invalid access to memory, mem_size={room} off={off} size={size}\n{outside}")
                }
                _ => {
                    format!("invalid access to map value, value_size={room} off={off} size={size}\n{outside}")
                }
            }
        }
        Reason::AboveStack { reg, holds, size } => {
            stack(r(reg), holds, writes, distance(holds) + offset(insn), *size)
        }
        Reason::FarAway { .. } => {
            "math between pointer and register with unbounded min value is not allowed".into()
        }
        Reason::HalfPointer => match writes {
            true => "invalid size of register spill".into(),
            false => "invalid size of register fill".into(),
        },
        Reason::Shift { by, .. } => format!("invalid shift {by}"),
        Reason::ByZero => "div by zero".into(),
        Reason::ReturnsStack => "cannot return stack pointer to the caller".into(),
        Reason::MovedReservation { reg } => {
            format!("{} must have zero offset when passed to release func or trusted arg to kfunc", r(reg))
        }
        Reason::Negative { reg, .. } if is_call => {
            format!("{} min value is negative, either use unsigned or 'var &= const'", r(reg))
        }
        Reason::Negative { reg, .. } => format!(
            "{} min value is negative, either use unsigned index or do a if (index >=0) check.",
            r(reg)
        ),
        Reason::Unbounded { reg, .. } => {
            format!("{} unbounded memory access, make sure to bounds check any such access", r(reg))
        }
        Reason::Misaligned { reg, off, size } => {
            let what = if *reg == Reg::R10 { "stack" } else { "value" };
            format!("misaligned {what} access off 0+0+{off} size {size}")
        }
        Reason::Context { .. } if matches!(insn, Some(Insn::Atomic { .. })) => {
            let Some(Insn::Atomic { base, .. }) = insn else { return String::new() };
            format!("BPF_ATOMIC stores into {} ctx is not allowed", r(base))
        }
        Reason::Context { off, size, .. } => format!("invalid bpf_context access off={off} size={size}"),
        Reason::MovedContext { reg } => format!("dereference of modified ctx ptr {} off disallowed", r(reg)),
        Reason::Arithmetic { reg, holds } => arithmetic(&r(reg), kind(holds), insn),
        Reason::ReadOnly { .. } => "write into map forbidden".into(),
        Reason::WriteOnly { .. } => "read from map forbidden".into(),
        Reason::NoHelper { number } => format!("invalid func unknown#{number}"),
        Reason::HelperForOthers { number, program_type } if reason.errno() == crate::map::ENOTSUPP => {
            format!("func {} not supported for program type {}", name(number), program_type.number())
        }
        Reason::HelperForOthers { number, .. } => {
            format!("program of this type cannot use helper {}", name(number))
        }
        Reason::Argument { reg, holds, wants } => match kind(holds) {
            "scalar" if wants.contains("constant number") => format!("{} is not a known constant", r(reg)),
            kind => format!("{} type={kind} expected={}", r(reg), expected(wants)),
        },
        Reason::ZeroSize { reg } => format!("{} invalid zero-sized read", r(reg)),
        Reason::MapForOthers { number, kind } => {
            let map_type = MapKind::in_these_words(kind).map_or(0, MapKind::number);
            match *number {
                helper::number::TAIL_CALL => "expected prog array map for tail call".into(),
                number => format!("cannot pass map_type {map_type} into func {}", name(&number)),
            }
        }
        Reason::NoPacket { program_type: ProgramType::SocketFilter } => {
            "at the time of BPF_LD_ABS|IND R6 != pointer to skb".into()
        }
        Reason::NoPacket { .. } => "BPF_LD_[ABS|IND] instructions not allowed for this program type".into(),
        Reason::Licence { .. } => {
            "cannot call GPL-restricted function from non-GPL compatible program".into()
        }
        Reason::Kept { call } => format!(
            "Unreleased reference id=1 alloc_insn={call}\n\
             BPF_EXIT instruction in main prog would lead to reference leak"
        ),
        Reason::Turns { .. } => "At callback return the register R0 should have been in [0, 1]".into(),
        Reason::Other { text } => text.clone(),
    }
}

fn stack(register: String, holds: &str, writes: bool, off: i64, size: i64) -> String {
    let direction = if writes { "write to" } else { "read from" };
    match holds.split_once(" plus ") {
        Some((_, more)) => {
            format!(
                "invalid variable-offset {direction} stack {register} var_off={more} off={off} size={size}"
            )
        }
        None => format!("invalid {direction} stack {register} off={off} size={size}"),
    }
}

/// Operations that pointers are not for.
fn arithmetic(register: &str, kind: &str, insn: Option<&Insn>) -> String {
    let Some(Insn::Alu { width, op, .. }) = insn else {
        return format!("{register} pointer arithmetic on {kind} prohibited");
    };
    match op {
        _ if *width == Width::W32 => format!("{register} 32-bit pointer arithmetic prohibited"),
        AluOp::Sub if kind == "fp" => format!("{register} subtraction from stack pointer prohibited"),
        AluOp::Add if matches!(kind, "ctx" | "fp" | "map_value" | "ringbuf_mem") => {
            format!("{register} pointer += pointer prohibited")
        }
        AluOp::Add | AluOp::Sub => format!("{register} pointer arithmetic on {kind} prohibited"),
        AluOp::And => format!("{register} bitwise operator &= on pointer prohibited"),
        AluOp::Or => format!("{register} bitwise operator |= on pointer prohibited"),
        AluOp::Xor => format!("{register} bitwise operator ^= on pointer prohibited"),
        _ => {
            let text = insn.map(|insn| format!("{insn}")).unwrap_or_default();
            let operator = text.split_whitespace().nth(1).unwrap_or("=");
            format!("{register} pointer arithmetic with {operator} operator prohibited")
        }
    }
}

/// Where an instruction reaches from its pointer.
fn offset(insn: Option<&Insn>) -> i64 {
    match insn {
        Some(
            Insn::Load { off, .. }
            | Insn::Store { off, .. }
            | Insn::Atomic { off, .. }
            | Insn::LoadAcquire { off, .. }
            | Insn::StoreRelease { off, .. },
        ) => i64::from(*off),
        _ => 0,
    }
}

/// The distance in our words for a pointer: the last number with a sign.
fn distance(holds: &str) -> i64 {
    let words = holds.split_whitespace().rev();
    words.filter(|word| word.starts_with(['+', '-'])).find_map(|word| word.parse().ok()).unwrap_or(0)
}

/// Linux's names of what an argument is to be, by our words for it.
fn expected(wants: &str) -> &'static str {
    match wants {
        "a map" => "map_ptr",
        "a size" | "a constant number of bytes" => "scalar",
        "a function of this program" => "func",
        wants if wants.starts_with("the context") => "ctx",
        wants if wants.contains("bpf_ringbuf_reserve") => "ringbuf_mem",
        _ => "fp, pkt, pkt_meta, map_key, map_value, mem, ringbuf_mem, buf, trusted_ptr_",
    }
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::{MapKind, MapSpec, Maps, ProgramType, assemble, log, verify};
    use core::mem::discriminant;

    /// Programs that are refused, and the sentence that Linux 6.18 writes about each.
    const REFUSED: &[(&str, &str)] = &[
        ("r0 = r2; exit", "R2 !read_ok"),
        ("exit", "R0 !read_ok"),
        ("r0 = 0; r10 = 5; exit", "frame pointer is read only"),
        ("r0 = 0; goto +5; exit", "jump out of range from insn 1 to 7"),
        ("r0 = 0; exit; r0 = 1; exit", "unreachable insn 2"),
        ("r0 = 0; again: goto again", "infinite loop detected at insn 1"),
        ("r0 = *(u64 *)(r10 +0); exit", "invalid read from stack R10 off=0 size=8"),
        ("*(u64 *)(r10 -520) = 1; r0 = 0; exit", "invalid write to stack R10 off=-520 size=8"),
        (
            "r1 = r10; r1 += -8; r2 = 16; call get_current_comm; exit",
            "invalid write to stack R1 off=-8 size=16",
        ),
        ("r0 = 5; r0 = *(u64 *)(r0 +0); exit", "R0 invalid mem access 'scalar'"),
        ("r1 *= 2; r0 = 0; exit", "R1 pointer arithmetic"),
        ("r0 = 1; r0 <<= 64; exit", "invalid shift 64"),
        ("r0 = 1; r0 /= 0; exit", "div by zero"),
        ("r0 = *(u64 *)(r1 +400); exit", "invalid bpf_context access off=400 size=8"),
        ("r0 = 0; *(u64 *)(r1 +0) = r0; exit", "invalid bpf_context access off=0 size=8"),
        ("call 5000; exit", "invalid func unknown#5000"),
        ("r2 = 0; r1 = r10; r1 += -8; call get_current_comm; exit", "R2 invalid zero-sized read"),
        ("r1 = 0; r2 = 0; call map_lookup_elem; exit", "R1 type=scalar expected=map_ptr"),
        (
            "*(u32 *)(r10 -4) = 5; r1 = map[fd:0]; r2 = r10; r2 += -4; call map_lookup_elem; r0 = *(u64 *)(r0 +0); exit",
            "R0 invalid mem access 'map_value_or_null'",
        ),
        (
            "*(u32 *)(r10 -4) = 5; r1 = map[fd:0]; r2 = r10; r2 += -4; call map_lookup_elem; if r0 == 0 goto out; \
             r0 = *(u64 *)(r0 +9); out: r0 = 0; exit",
            "invalid access to map value, value_size=16 off=9 size=8",
        ),
        ("r1 = map[fd:7]; r0 = 0; exit", "fd 7 is not pointing to valid bpf_map"),
        (
            "r1 = map[fd:1]; r2 = 16; r3 = 0; call ringbuf_reserve; if r0 == 0 goto out; out: r0 = 0; exit",
            "Unreleased reference",
        ),
        (
            "r1 = map[fd:2]; r2 = r10; r2 += -4; *(u32 *)(r10 -4) = 0; call map_lookup_elem; r0 = 0; exit",
            "cannot pass map_type 4",
        ),
        ("call f; exit; f: call f; exit", "the call stack of 9 frames is too deep"),
    ];

    #[test]
    fn what_is_written_is_what_is_read() {
        let mut maps = Maps::new(1, 1 << 20, 1);
        maps.create(MapSpec::new(MapKind::Array, 4, 16, 4)).unwrap();
        maps.create(MapSpec::new(MapKind::RingBuf, 0, 0, 4096)).unwrap();
        maps.create(MapSpec::new(MapKind::PerfEventArray, 4, 4, 2)).unwrap();
        for (program, sentence) in REFUSED {
            let insns = assemble(program).unwrap();
            let refusal = verify(ProgramType::PerfEvent, &insns, &maps, &[]).expect_err(program);
            let written = text(&refusal);
            assert!(written.contains(sentence), "{program}: {written}");
            assert!(written.contains("processed "), "{program}: {written}");
            let read = log::refusal(ProgramType::PerfEvent, &insns, &written).expect(program);
            assert_eq!(
                discriminant(&read.reason),
                discriminant(&refusal.reason),
                "{program}: {written}\n{read}\n{refusal}"
            );
        }
    }
}
