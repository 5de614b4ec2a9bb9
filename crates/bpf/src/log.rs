//! The log of Linux's verifier, read: the sentence that refuses becomes the reason that our verifier would give, so that people
//! read the same words whoever refused. What has no such reason stays as Linux wrote it. And [written](text): for callers of
//! `bpf(2)`, who look for Linux's sentences in it.

mod written;

pub use written::{accepted, nothing_looked_at, text, undecodable};

use crate::insn::{Insn, Reg, Width, by_slot};
use crate::program::ProgramType;
use crate::verify::{Reason, Refusal};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Reads the log of a program that Linux refused. `None` if the log refuses nothing.
///
/// ```
/// use perfuse_bpf::{ProgramType, assemble, log};
///
/// let insns = assemble("r0 = r2; exit")?;
/// let text = "0: R1=ctx() R10=fp0\n0: (bf) r0 = r2\nR2 !read_ok\nprocessed 1 insns (limit 1000000)";
/// let refusal = log::refusal(ProgramType::Kprobe, &insns, text).expect("it is refused");
/// assert!(refusal.to_string().starts_with("instruction 0 (r0 = r2): r2 holds nothing yet"));
/// # Ok::<(), perfuse_bpf::AssembleError>(())
/// ```
pub fn refusal(program_type: ProgramType, insns: &[Insn], log: &str) -> Option<Refusal> {
    let (mut slot, mut looked_at) = (0, 0);
    let mut sentences: Vec<&str> = Vec::new();
    for line in log.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // Some sentences have no end of line before what follows.
        let (line, processed) =
            line.split_once("processed ").map_or((line, None), |(line, rest)| (line, Some(rest)));
        if let Some(rest) = processed {
            looked_at = first_number(rest).unwrap_or(0) as u32;
        }
        if line.is_empty() || line.starts_with("cur state:") || line.starts_with("old state:") {
            continue;
        }
        match line.split_once(": ") {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                if rest.starts_with('(') {
                    slot = number.parse().unwrap_or(0);
                    sentences.clear();
                }
                // This one begins on the line of the instruction.
                sentences.extend(rest.find("infinite loop detected").map(|at| &rest[at..]));
            }
            _ if line.starts_with(';') || line.starts_with("from ") || line.starts_with("func#") => {}
            _ => sentences.push(line),
        }
    }
    let last = sentences.last()?;
    let slots = by_slot(insns);
    let told = Told {
        program_type,
        insn: slots.get(slot).copied().flatten(),
        before: sentences.iter().rev().nth(1).copied(),
    };
    let (at, reason) = told.reason(last);
    let slot = at.unwrap_or(slot);
    Some(Refusal { slot, insn: slots.get(slot).copied().flatten(), reason, looked_at })
}

/// What a sentence is about.
struct Told<'a> {
    program_type: ProgramType,
    insn: Option<Insn>,
    /// The sentence before.
    before: Option<&'a str>,
}

fn first_number(text: &str) -> Option<i64> {
    let at = text.find(|c: char| c.is_ascii_digit())?;
    let negative = text[..at].ends_with('-');
    let digits: String = text[at..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<i64>().ok().map(|number| if negative { -number } else { number })
}

/// The number after a word.
fn after(text: &str, word: &str) -> Option<i64> {
    text.split_once(word).and_then(|(_, rest)| first_number(rest))
}

/// The text between two others.
fn between<'a>(text: &'a str, first: &str, last: &str) -> &'a str {
    text.split_once(first).and_then(|(_, rest)| rest.split_once(last)).map_or("", |(inner, _)| inner)
}

/// Linux's name of what a register holds, in our words.
fn in_words(kind: &str) -> String {
    match kind {
        "scalar" | "inv" => "a number".to_owned(),
        "fp" => "on the stack".to_owned(),
        "ctx" => "the context".to_owned(),
        "map_ptr" => "a map itself".to_owned(),
        "map_value" => "in a value of a map".to_owned(),
        "map_value_or_null" => "a value of a map, or null".to_owned(),
        "ringbuf_mem" | "mem" => "in reserved bytes".to_owned(),
        "ringbuf_mem_or_null" | "mem_or_null" => "reserved bytes, or null".to_owned(),
        "func" => "a function".to_owned(),
        kind => format!("of Linux's kind {kind}"),
    }
}

impl Told<'_> {
    /// The register that the instruction reaches memory by, or works on.
    fn base(&self) -> Reg {
        match self.insn {
            Some(
                Insn::Load { base, .. }
                | Insn::Store { base, .. }
                | Insn::Atomic { base, .. }
                | Insn::LoadAcquire { base, .. }
                | Insn::StoreRelease { base, .. },
            ) => base,
            Some(Insn::Alu { dst, .. }) => dst,
            _ => Reg::R1,
        }
    }

    fn reason(&self, text: &str) -> (Option<usize>, Reason) {
        let named = text.split(['R', ' ']).find_map(|word| word.parse().ok().and_then(Reg::new));
        let named = named.filter(|_| text.contains('R')).unwrap_or(self.base());
        let has = |words: &str| text.contains(words);
        let number = |word: &str| after(text, word).unwrap_or(0);
        let helper = text.rsplit('#').next().and_then(first_number).unwrap_or(0) as u32;
        let reg = named;
        let of_kind = |kind: &str| {
            let holds = in_words(kind);
            if kind.ends_with("_or_null") {
                Reason::MaybeNull { reg, holds }
            } else {
                Reason::NoPointer { reg, holds }
            }
        };
        let reason = match () {
            () if has("!read_ok") => Reason::Unset { reg },
            () if has("frame pointer is read only") => Reason::FramePointer,
            () if has("invalid mem access '") => of_kind(between(text, "invalid mem access '", "'")),
            () if has("pointer arithmetic on") && has("null-check") => {
                of_kind(between(text, "pointer arithmetic on ", " prohibited"))
            }
            () if has("pointer arithmetic on") => {
                let holds = in_words(between(text, "pointer arithmetic on ", " prohibited"));
                Reason::Arithmetic { reg, holds }
            }
            () if has("pointer arithmetic") || has("on pointer prohibited") || has("pointer += pointer") => {
                Reason::Arithmetic { reg, holds: "a pointer".to_owned() }
            }
            () if has("subtraction from stack pointer")
                || has("tried to subtract pointer")
                || has("pointer prohibited") =>
            {
                Reason::Arithmetic { reg, holds: "a pointer".to_owned() }
            }
            () if has("unbounded min value is not allowed") || has("pointer be out of bounds") => {
                Reason::FarAway { reg: self.base(), holds: "a number".to_owned() }
            }
            () if has("is outside of the allowed memory range") || has("is outside of the array range") => {
                let before = self.before.unwrap_or_default();
                let room = after(before, "value_size=").or_else(|| after(before, "mem_size=")).unwrap_or(0);
                let size = after(before, " size=").unwrap_or(0);
                let off = after(before, " off=").unwrap_or(0);
                Reason::Outside { reg, holds: format!("in memory, at {off}"), size, room }
            }
            () if has("min value is negative") => Reason::Negative { reg, holds: "a number".to_owned() },
            () if has("unbounded memory access") || has("unbounded variable-offset") => {
                Reason::Unbounded { reg, holds: "a number".to_owned() }
            }
            () if has("from stack R") || has("to stack R") => {
                let (off, size) = (number("off="), number("size="));
                let holds = format!("on the stack, and reached at {off}");
                match off < 0 && off + size > 0 || has("variable-offset") {
                    true => Reason::AboveStack { reg, holds, size },
                    false => Reason::Outside { reg, holds, size, room: 512 },
                }
            }
            () if has("invalid bpf_context access") => Reason::Context {
                program_type: self.program_type,
                off: number("off="),
                size: number("size="),
                write: matches!(
                    self.insn,
                    Some(Insn::Store { .. } | Insn::StoreRelease { .. } | Insn::Atomic { .. })
                ),
            },
            () if has("stores into R") && has("ctx is not allowed") => {
                let Some(Insn::Atomic { size, off, .. }) = self.insn else {
                    return (None, Reason::Other { text: text.to_owned() });
                };
                let (off, size) = (i64::from(off), i64::from(size.bytes()));
                Reason::Context { program_type: self.program_type, off, size, write: true }
            }
            () if has("dereference of modified ctx ptr") => Reason::MovedContext { reg },
            () if has("misaligned") => Reason::Misaligned {
                reg: self.base(),
                off: after(text, ")+").unwrap_or(0) + number("+0"),
                size: number("size "),
            },
            () if has("invalid size of register") => Reason::HalfPointer,
            () if has("invalid shift") => {
                let bits =
                    if matches!(self.insn, Some(Insn::Alu { width: Width::W64, .. })) { 64 } else { 32 };
                Reason::Shift { by: number("shift ") as i32, bits }
            }
            () if has("div by zero") => Reason::ByZero,
            () if has("cannot return stack pointer") => Reason::ReturnsStack,
            () if has("zero-sized read") => Reason::ZeroSize { reg },
            () if has("must have zero offset when passed to release func") => {
                Reason::MovedReservation { reg }
            }
            () if has("Unreleased reference") || has("reference leak") => {
                Reason::Kept { call: number("alloc_insn=") as usize }
            }
            () if has("expected prog array map for tail call") => {
                Reason::MapForOthers { number: 12, kind: "another kind".to_owned() }
            }
            () if has("cannot pass map_type") => {
                let kind = crate::map::MapKind::of_number(number("map_type ") as u32);
                let kind = kind.map_or("another kind", |kind| kind.in_words()).to_owned();
                Reason::MapForOthers { number: helper, kind }
            }
            () if has("invalid func ") => Reason::NoHelper { number: helper },
            () if has("unknown func ")
                || has("cannot use helper")
                || has("not supported for program type") =>
            {
                let number = text.split('#').nth(1).and_then(first_number).unwrap_or(0) as u32;
                Reason::HelperForOthers { number, program_type: self.program_type }
            }
            () if has("expected=") => {
                let holds = in_words(between(text, "type=", " expected"));
                let wanted = text.split("expected=").nth(1).unwrap_or_default();
                if holds.ends_with("or null") && !wanted.contains("or_null") {
                    return (None, Reason::MaybeNull { reg, holds });
                }
                let wants = match wanted {
                    wanted if wanted.contains("map_ptr") => "a map",
                    wanted if wanted.contains("ctx") => "the context, which r1 was at the beginning",
                    wanted if wanted.contains("ringbuf_mem") && !wanted.contains("fp") => {
                        "the beginning of what bpf_ringbuf_reserve gave"
                    }
                    wanted if wanted.contains("func") => "a function of this program",
                    "scalar" => "a number",
                    _ => "memory",
                };
                Reason::Argument { reg, holds, wants }
            }
            () if has("is not a known constant") => {
                Reason::Argument { reg, holds: "a number".to_owned(), wants: "a constant number of bytes" }
            }
            () if has("the call stack of") => Reason::TooDeep { most: 8 },
            () if has("BPF program is too large") => Reason::TooComplex { limit: 1_000_000 },
            () if has("jumps is too complex") => Reason::TooManyWays,
            () if has("At callback return") => Reason::Turns { holds: "something else".to_owned() },
            () if has("infinite loop detected at insn") => {
                return (Some(number("insn ") as usize), Reason::InfiniteLoop);
            }
            () if has("R6 != pointer to skb") || has("instructions not allowed for this program type") => {
                Reason::NoPacket { program_type: self.program_type }
            }
            () if has("GPL-restricted") => {
                let number = match self.insn {
                    Some(Insn::CallHelper(number)) => number,
                    _ => 0,
                };
                Reason::Licence { number }
            }
            () if has("write into map forbidden") => Reason::ReadOnly { reg: self.base() },
            () if has("read from map forbidden") => Reason::WriteOnly { reg: self.base() },
            () if has("is not pointing to valid bpf_map") => Reason::NoMap { map: number("fd ") as i32 },
            () if has("direct value access") => Reason::NoDirectValue { map: 0 },
            () if has("invalid access to map value pointer") => {
                let [size, at] = [number("value_size="), number("off=")].map(|number| number as u32);
                Reason::BeyondDirectValue { map: 0, values: if at < size { 2 } else { 1 }, size, at }
            }
            () if has("unreachable insn") => return (Some(number("insn ") as usize), Reason::Unreachable),
            () if has("jump out of range from insn") => {
                return (Some(number("insn ") as usize), Reason::JumpOutside { to: number(" to ") });
            }
            () if has("jump into the middle of ldimm64") => {
                return (None, Reason::JumpIntoConstant { to: number("insn ") as usize });
            }
            () if has("last insn is not an exit or jmp") => return (None, Reason::FallsOff),
            _ => Reason::Other { text: text.to_owned() },
        };
        (None, reason)
    }
}
