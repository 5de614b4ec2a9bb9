//! The caller of code without unwinding tables, by what the code is going to do (x86-64).
//!
//! A function puts the stack back before it returns, on every way. So the instructions from a place on are followed, over calls and into
//! both ways of a condition, until one returns: there the return address is on top of the stack, and what was taken off before tells the
//! frame. Not followed are jumps by a register. Behind a call that never returns another function's code may begin; it would
//! have the return address at an address that the ABI excludes, as calls are made with a stack of whole 16 bytes.
//!
//! Used by `unwinder`, which also checks that there is a call before the return address.

use crate::registers::Registers;
use crate::rules::Rule;
use crate::stack::{End, Stack};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use perfuse_abi::regs::Arch;
use std::collections::HashMap;

/// So many instructions are followed until one returns, and so many more to see whether others agree.
const MOST_INSTRUCTIONS: usize = 8000;
const MOST_FURTHER: usize = 400;
/// A jump to where more bytes lie in between leaves the function.
const FARTHEST: u64 = 1 << 20;
/// So many ways wait to be followed.
const MOST_WAYS: usize = 64;
/// Bytes that are read at once.
const WINDOW: usize = 256;
/// No instruction has more bytes.
const LONGEST: usize = 15;
/// DWARF's numbers of `rbp` and `rsp`.
const BP: u16 = 6;
const SP: u16 = 7;

/// Reads code at an address into a buffer, and tells how many bytes there are.
pub(crate) type Read<'r> = dyn FnMut(u64, &mut [u8]) -> usize + 'r;

/// The caller of a thread of x86-64 in code of which no table tells, by what it is going to do until it returns. `None` where that
/// tells nothing: it jumps by a register, or ways do not agree. `read` reads code at an address into a buffer, and tells how many bytes
/// there are; `is_exact` if the thread is at its place, and did not make a call before it.
///
/// Callers should look whether there is a call before the place that it gives: code may do things that no compiler makes it do.
///
/// ```
/// use perfuse_abi::{ByteOrder, record::{Regs, RegsAbi}, regs::Arch};
/// use perfuse_unwind::{Registers, Stack, caller_by_code};
///
/// // pop rbx; ret, at 0x1000, with a stack at 0x7008: a saved register and the return address.
/// let code = [0x5b, 0xc3];
/// let regs = Regs { abi: RegsAbi::ABI_64, mask: 1 << 7 | 1 << 8, words: [0x7008, 0x1000][..].into() };
/// let registers = Registers::of(&regs, Arch::X86_64).unwrap();
/// let bytes: Vec<u8> = [3u64, 0x4000].into_iter().flat_map(u64::to_le_bytes).collect();
/// let stack = Stack { start: 0x7008, bytes: &bytes, order: ByteOrder::Little };
/// let mut read = |at: u64, into: &mut [u8]| {
///     let rest = &code[(at as usize).saturating_sub(0x1000).min(code.len())..];
///     into[..rest.len()].copy_from_slice(rest);
///     rest.len()
/// };
/// let caller = caller_by_code(&mut read, &registers, &stack, true).unwrap().unwrap();
/// assert_eq!((caller.ip(), caller.sp(), caller.get(3)), (Some(0x4000), Some(0x7018), Some(3)));
/// ```
pub fn caller_by_code(
    read: &mut dyn FnMut(u64, &mut [u8]) -> usize,
    registers: &Registers,
    stack: &Stack<'_>,
    is_exact: bool,
) -> Option<Result<Registers, End>> {
    if registers.arch != Arch::X86_64 {
        return None;
    }
    let low = |number| registers.get(number);
    let rule = rule(read, registers.ip()?, &low, is_exact, &mut { 2 * MOST_INSTRUCTIONS })?;
    Some(rule.apply(registers, stack, is_exact))
}

/// The value of a register: so much more than that of one (by DWARF's number) was at the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    of: u16,
    more: i64,
}

impl Value {
    fn plus(self, more: i64) -> Option<Self> {
        // No frame has gigabytes.
        let more = self.more.checked_add(more).filter(|more| more.abs() < 1 << 31)?;
        Some(Value { more, ..self })
    }
}

/// Facts that are known on a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    sp: Option<Value>,
    bp: Option<Value>,
    /// Where the registers of the caller were taken from, by their numbers. The outer `None`: they are as they were.
    saved: [Option<Option<Value>>; 16],
    /// Where each register was put on the way, and what was known of the caller's then.
    put: [Option<(Value, Option<Option<Value>>)>; 16],
    /// The highest stack until here: below it, all has been taken off.
    highest: Value,
    /// A call lies behind, which may be one that never returns.
    has_called: bool,
}

/// The rule of a place, if all ways from it on that return agree. `low` gives the value of `rsp` and `rbp` there, as far as it is
/// known: its last 4 bits count. `is_exact` if the thread is there, and did not make a call before it. Instructions that are followed
/// are taken from `budget`.
pub(crate) fn rule(
    read: &mut Read<'_>,
    place: u64,
    low: &dyn Fn(u16) -> Option<u64>,
    is_exact: bool,
    budget: &mut usize,
) -> Option<Rule> {
    // Where functions are aligned, room is left behind a call that never returns, but before a loop, too.
    let found = [true, false]
        .into_iter()
        .find_map(|ends_at_room| follow(read, (place, !is_exact), low, (ends_at_room, budget)).transpose());
    let (top, state) = found?.ok()?;
    let end = top.plus(8)?;
    let registers = state.saved.iter().zip(0u16..).filter_map(|(saved, register)| {
        let offset = |value: Value| (value.of == end.of).then(|| value.more - end.more);
        (*saved).filter(|_| register != SP).map(|value| (register, value.and_then(offset)))
    });
    Some(Rule::of_code((end.of, end.more), registers))
}

/// Ways do not agree.
struct Disagree;

/// The stack before a return, and all that is known there. `None` if no way returns.
fn follow(
    read: &mut Read<'_>,
    (place, has_called): (u64, bool),
    low: &dyn Fn(u16) -> Option<u64>,
    (ends_at_room, budget): (bool, &mut usize),
) -> Result<Option<(Value, State)>, Disagree> {
    let at = |of| Some(Value { of, more: 0 });
    let highest = Value { of: SP, more: 0 };
    let first = State { sp: at(SP), bp: at(BP), saved: [None; 16], put: [None; 16], highest, has_called };
    let mut ways = vec![(place, first)];
    let mut code = Window { start: 0, bytes: [0; WINDOW], len: 0 };
    let (mut seen, mut left) = (HashMap::new(), MOST_INSTRUCTIONS.min(*budget));
    // The last: the stack is whole there.
    let mut found: Option<(Value, State, bool)> = None;
    while let Some((mut at, mut state)) = ways.pop() {
        let mut is_behind_call = false;
        while left > 0 {
            match seen.insert(at, state.sp) {
                None => (left, *budget) = (left - 1, budget.saturating_sub(1)),
                // Ways that meet have the same stack.
                Some(other) if other == state.sp => break,
                Some(_) => return Err(Disagree),
            }
            let Some(instruction) = code.instruction(read, at) else { break };
            if is_behind_call
                && (ends_at_room && instruction.mnemonic() == Mnemonic::Nop || is_start(&instruction))
            {
                break;
            }
            is_behind_call = instruction.mnemonic() == Mnemonic::Call;
            let next = state.step(&instruction);
            state.highest = match state.sp {
                Some(sp) if sp.of != state.highest.of || sp.more > state.highest.more => sp,
                _ => state.highest,
            };
            match next {
                Next::Goes(way) => {
                    if let Some(way) = way.filter(|_| ways.len() < MOST_WAYS) {
                        ways.push((way, state));
                    }
                    at = instruction.next_ip();
                }
                Next::Jumps(to) if to.abs_diff(place) <= FARTHEST => at = to,
                // Another function, which returns in place of this one, has the same stack.
                Next::Returns | Next::Jumps(_) => {
                    let Some(top) = state.sp else { break };
                    let end = low(top.of).map(|low| low.wrapping_add_signed(top.more).wrapping_add(8));
                    // Nobody is called from below the stack.
                    if top.of == SP && top.more < 0 {
                        break;
                    }
                    let fits = end.is_some_and(|end| end % 16 == 0);
                    // Compilers call functions that call nobody with any stack.
                    if !fits && (state.has_called || matches!(next, Next::Jumps(_))) {
                        break;
                    }
                    match &mut found {
                        Some((_, _, true)) if !fits => {}
                        Some((_, _, other_fits)) if fits != *other_fits => found = Some((top, state, fits)),
                        None => (found, left) = (Some((top, state, fits)), left.min(MOST_FURTHER)),
                        Some((other, ..)) if *other != top => return Err(Disagree),
                        Some((_, other, _)) => other.agree(&state),
                    }
                    break;
                }
                Next::Ends => break,
            }
        }
    }
    Ok(found.map(|(top, state, _)| (top, state)))
}

/// Whether functions begin so, where calls and jumps by registers are guarded.
fn is_start(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Endbr64
}

/// Whether the code before an address ends with a call, as it does before each return address. `before` are the last bytes of it.
pub(crate) fn is_call_before(before: &[u8]) -> bool {
    let back = |bytes: usize| before.len().checked_sub(bytes).and_then(|at| before.get(at..));
    let is_near = back(5).is_some_and(|bytes| bytes[0] == 0xe8);
    // By a register or memory: ff /2, with up to five bytes of an address behind it.
    let by_memory = |bytes: &[u8]| bytes[0] == 0xff && bytes[1] >> 3 & 7 == 2;
    is_near || [2, 3, 4, 6, 7].into_iter().any(|bytes| back(bytes).is_some_and(by_memory))
}

/// Where control goes on.
enum Next {
    /// To the next instruction, or, on a condition, there.
    Goes(Option<u64>),
    Jumps(u64),
    Returns,
    /// Nobody knows.
    Ends,
}

impl State {
    /// Facts about which two ways do not agree are not known.
    fn agree(&mut self, other: &State) {
        for (mine, theirs) in self.saved.iter_mut().zip(&other.saved) {
            if mine != theirs {
                *mine = Some(None);
            }
        }
    }

    fn step(&mut self, instruction: &Instruction) -> Next {
        use Mnemonic::*;
        let moved = |value: Option<Value>, by: i64| value.and_then(|value| value.plus(by));
        let first = instruction.op0_kind();
        let target = matches!(first, OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
        match instruction.mnemonic() {
            INVALID | Int3 | Int1 | Int | Ud0 | Ud1 | Ud2 | Hlt | Retf | Iret | Iretd | Iretq | Enter
            | Sysret | Sysexit => return Next::Ends,
            Ret => return Next::Returns,
            // Code that asks where it is takes the return address off by itself.
            Call if target && instruction.near_branch_target() == instruction.next_ip() => return Next::Ends,
            Call => {
                self.has_called = true;
                return Next::Goes(None);
            }
            Jmp if target => return Next::Jumps(instruction.near_branch_target()),
            Jmp => return Next::Ends,
            _ if target => return Next::Goes(Some(instruction.near_branch_target())),
            _ => {}
        }
        let register = (first == OpKind::Register).then(|| instruction.op0_register()).and_then(number_of);
        let number = register.map(|(number, _)| number);
        // Of parts of a register it is not followed what becomes of it.
        let is_whole = register.is_some_and(|(_, bytes)| bytes == 8);
        match instruction.mnemonic() {
            Push => {
                let bytes = if register.is_some_and(|(_, bytes)| bytes == 2) { 2 } else { 8 };
                self.sp = moved(self.sp, -bytes);
                if let Some(number) = number.filter(|_| is_whole) {
                    self.put(number, self.sp);
                }
            }
            Mov if first == OpKind::Memory && instruction.op1_kind() == OpKind::Register => {
                if let (Some((number, 8)), to @ Some(_)) =
                    (number_of(instruction.op1_register()), self.address(instruction))
                {
                    self.put(number, to);
                }
            }
            Pushfq => self.sp = moved(self.sp, -8),
            Popfq => self.sp = moved(self.sp, 8),
            Pop => {
                let top = self.sp;
                self.sp = moved(top, 8);
                if let Some(number) = number {
                    self.write(number, None, Some(top.filter(|_| is_whole)));
                }
            }
            Leave => {
                self.sp = moved(self.bp, 8);
                let frame = self.bp;
                self.write(BP, None, Some(frame));
            }
            Cmp | Test | Bt | Nop | Endbr64 => {}
            Mov if is_whole && instruction.op1_kind() == OpKind::Register => {
                let value = match instruction.op1_register() {
                    Register::RSP => self.sp,
                    Register::RBP => self.bp,
                    _ => None,
                };
                number.into_iter().for_each(|number| self.write(number, value, None));
            }
            Mov if is_whole && instruction.op1_kind() == OpKind::Memory => {
                let from = self.address(instruction);
                number.into_iter().for_each(|number| self.write(number, None, Some(from)));
            }
            Lea if is_whole => {
                let value = self.address(instruction);
                number.into_iter().for_each(|number| self.write(number, value, None));
            }
            mnemonic @ (Add | Sub) if register == Some((SP, 8)) => {
                let by = instruction.try_immediate(1).ok().map(|by| by as i64);
                let by = by.and_then(|by| if mnemonic == Sub { by.checked_neg() } else { Some(by) });
                self.sp = by.and_then(|by| moved(self.sp, by));
            }
            _ => number.into_iter().for_each(|number| self.write(number, None, None)),
        }
        Next::Goes(None)
    }

    /// A register is written: with a value that is known, or from a place in memory that is.
    fn write(&mut self, number: u16, value: Option<Value>, from: Option<Option<Value>>) {
        match number {
            SP => self.sp = value,
            _ => {
                if number == BP {
                    self.bp = value;
                }
                let (Some(from), Some(saved)) = (from, self.saved.get_mut(usize::from(number))) else {
                    return;
                };
                let put = self.put[usize::from(number)];
                // Functions use a register only after they have saved it: the last value that is read is the caller's.
                *saved = match (from, put) {
                    (Some(from), Some((to, before))) if to == from => before,
                    // The place on the stack belongs to something else by now.
                    (Some(from), _) if from.of == self.highest.of && from.more < self.highest.more => {
                        Some(None)
                    }
                    _ => Some(from),
                };
            }
        }
    }

    /// A register is put on the stack.
    fn put(&mut self, number: u16, to: Option<Value>) {
        let saved = self.saved.get(usize::from(number)).copied().unwrap_or(None);
        if let Some(put) = self.put.get_mut(usize::from(number)) {
            *put = to.map(|to| (to, saved));
        }
    }

    /// The address of a memory operand, if it is on the stack.
    fn address(&self, instruction: &Instruction) -> Option<Value> {
        let base = match instruction.memory_base() {
            Register::RSP => self.sp,
            Register::RBP => self.bp,
            _ => None,
        };
        let is_plain =
            instruction.memory_index() == Register::None && instruction.segment_prefix() == Register::None;
        base.filter(|_| is_plain)?.plus(instruction.memory_displacement64() as i64)
    }
}

/// DWARF's number of a general register, and how many bytes of it are meant.
fn number_of(register: Register) -> Option<(u16, u8)> {
    // The registers in the order of their codes in instructions, for each size.
    const CODES: [u16; 8] = [0, 2, 1, 3, 7, 6, 4, 5];
    let register = register as u32;
    let [r64, r32, r16] = [Register::RAX, Register::EAX, Register::AX].map(|first| first as u32);
    let (code, bytes) = match register {
        _ if (r64..r64 + 16).contains(&register) => (register - r64, 8),
        _ if (r32..r32 + 16).contains(&register) => (register - r32, 4),
        _ if (r16..r16 + 16).contains(&register) => (register - r16, 2),
        // Nobody keeps addresses in their parts.
        _ => return None,
    };
    Some((CODES.get(code as usize).copied().unwrap_or(code as u16), bytes))
}

/// A piece of code.
struct Window {
    start: u64,
    bytes: [u8; WINDOW],
    len: usize,
}

impl Window {
    /// The instruction at an address, if there is code.
    fn instruction(&mut self, read: &mut Read<'_>, at: u64) -> Option<Instruction> {
        let within =
            |window: &Self| usize::try_from(at.wrapping_sub(window.start)).ok().filter(|&to| to < window.len);
        if within(self).is_none_or(|to| self.len - to < LONGEST) {
            (self.start, self.len) = (at, read(at, &mut self.bytes).min(WINDOW));
        }
        let bytes = self.bytes.get(within(self)?..self.len)?;
        let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_abi::ByteOrder;
    use perfuse_abi::record::{Regs, RegsAbi};

    const START: u64 = 0x1000;

    fn reader(code: &[u8]) -> impl FnMut(u64, &mut [u8]) -> usize + '_ {
        move |at, into| {
            let rest = at.checked_sub(START).and_then(|at| code.get(at as usize..)).unwrap_or_default();
            let len = rest.len().min(into.len());
            into[..len].copy_from_slice(&rest[..len]);
            len
        }
    }

    /// The caller of code at an offset, where `rsp` is 0x7000 and more and `rbp` 0x7100: its place, `rsp`, `rbx` and `rbp`. The word
    /// at each address is the address.
    fn caller(code: &[u8], offset: u64, sp: u64) -> Result<[Option<u64>; 4], Option<End>> {
        caller_of(code, (offset, true), sp)
    }

    fn caller_of(
        code: &[u8],
        (offset, is_exact): (u64, bool),
        sp: u64,
    ) -> Result<[Option<u64>; 4], Option<End>> {
        let (sp, bp) = (0x7000 + sp, 0x7100);
        let mask = 1 << 1 | 1 << 6 | 1 << 7 | 1 << 8;
        let words = [0x33, bp, sp, START + offset];
        let regs = Regs { abi: RegsAbi::ABI_64, mask, words: words[..].into() };
        let registers = Registers::of(&regs, Arch::X86_64).expect("64 bits");
        let bytes: Vec<u8> = (0x7000u64..0x7200).step_by(8).flat_map(u64::to_le_bytes).collect();
        let stack = Stack { start: 0x7000, bytes: &bytes, order: ByteOrder::Little };
        let low = |number| registers.get(number);
        let mut budget = 20_000;
        let rule = rule(&mut reader(code), START + offset, &low, is_exact, &mut budget).ok_or(None)?;
        let caller = rule.apply(&registers, &stack, is_exact).map_err(Some)?;
        Ok([16, 7, 3, 6].map(|number| caller.get(number)))
    }

    #[test]
    fn a_caller_is_found_from_each_instruction() {
        // push rbx; sub rsp,16; call; test eax,eax; je +6; add rsp,16; pop rbx; ret; nop; xor eax,eax; add rsp,16; pop rbx; ret
        let code = [
            &[0x53, 0x48, 0x83, 0xec, 0x10, 0xe8, 0, 1, 0, 0, 0x85, 0xc0, 0x74, 6][..],
            &[0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3],
            &[0x31, 0xc0, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3],
        ]
        .concat();
        // The return address is at 0x7038.
        for (offset, sp) in
            [(0, 0x38), (1, 0x30), (5, 0x20), (10, 0x20), (14, 0x20), (18, 0x30), (19, 0x38), (22, 0x20)]
        {
            let rbx = if offset == 0 || offset == 19 { 0x33 } else { 0x7030 };
            let found = caller(&code, offset, sp);
            assert_eq!(found, Ok([Some(0x7038), Some(0x7040), Some(rbx), Some(0x7100)]), "{offset}");
        }
    }

    #[test]
    fn a_frame_pointer_gives_the_stack_back() {
        // push rbp; mov rbp,rsp; and rsp,-32; sub rsp,rax; leave; ret
        let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xe0, 0x48, 0x29, 0xc4, 0xc9, 0xc3];
        let whole = |at: u64, bp: u64| Ok([Some(at), Some(at + 8), Some(0x33), Some(bp)]);
        assert_eq!(caller(&code, 0, 0x38), whole(0x7038, 0x7100));
        assert_eq!(caller(&code, 1, 0x30), whole(0x7038, 0x7030));
        // From here on it is at the frame pointer.
        assert_eq!(caller(&code, 4, 0x28), whole(0x7108, 0x7100));
        assert_eq!(caller(&code, 11, 0x18), whole(0x7108, 0x7100));
    }

    #[test]
    fn code_behind_a_call_that_never_returns_is_no_part_of_the_function() {
        // call; and the next function: push rbx; pop rbx; ret. The stack is whole at the call.
        let code = [0xe8, 0, 1, 0, 0, 0x53, 0x5b, 0xc3];
        assert_eq!(caller(&code, 0, 0x20), Err(None));
        assert_eq!(caller_of(&code, (5, false), 0x20), Err(None));
        // A thread in the next function, which was called with a stack that is not whole: it calls nobody.
        assert_eq!(caller(&code, 5, 0x20).map(|found| found[0]), Ok(Some(0x7020)));
        // je +3; pop rcx; ret; call; and room before the next function: nopl (rax); add rsp,8; jmp to the pop
        let code =
            [0x74, 3, 0x59, 0xc3, 0x90, 0xe8, 0, 1, 0, 0, 0x0f, 0x1f, 0, 0x48, 0x83, 0xc4, 8, 0xeb, 0xef];
        assert_eq!(caller(&code, 0, 0x20).map(|found| found[0]), Ok(Some(0x7028)));
        // call; room before a loop: nopl (rax); dec ecx; jne; pop rcx; ret
        let code = [0xe8, 0, 1, 0, 0, 0x0f, 0x1f, 0, 0xff, 0xc9, 0x75, 0xfc, 0x59, 0xc3];
        assert_eq!(caller(&code, 0, 0x20).map(|found| found[0]), Ok(Some(0x7028)));
    }

    #[test]
    fn a_far_jump_leaves_the_function_as_a_return_does() {
        // add rsp,8; jmp far; and before that only the jump
        let code = [0x48, 0x83, 0xc4, 8, 0xe9, 0, 0, 0, 0x10];
        assert_eq!(caller(&code, 0, 0x30).map(|found| found[0]), Ok(Some(0x7038)));
        assert_eq!(caller(&code[4..], 0, 0x30), Err(None));
    }

    #[test]
    fn ways_that_disagree_or_do_not_end_tell_nothing() {
        // je +2; pop rcx; pop rcx; ret
        assert_eq!(caller(&[0x74, 2, 0x59, 0x59, 0xc3], 0, 0x28), Err(None));
        // je +1; pop rcx; ret: both meet with other stacks
        assert_eq!(caller(&[0x74, 1, 0x59, 0xc3], 0, 0x28), Err(None));
        // je +2; pop rcx; ret; ret: one of both has a stack that cannot be behind a call, and elsewhere seldom is
        let code = [0x74, 2, 0x59, 0xc3, 0xc3];
        assert_eq!(caller(&code, 0, 0x28).map(|found| found[0]), Ok(Some(0x7028)));
        assert_eq!(caller_of(&code, (0, false), 0x28).map(|found| found[0]), Ok(Some(0x7028)));
        // jmp rax; jmp to itself; hlt; nothing
        for code in [&[0xff, 0xe0][..], &[0xeb, 0xfe], &[0xf4], &[]] {
            assert_eq!(caller(code, 0, 0x28), Err(None), "{code:x?}");
        }
        // The end of the copy of the stack is told.
        assert_eq!(caller(&[0x48, 0x81, 0xc4, 0, 0x10, 0, 0, 0xc3], 0, 0x28), Err(Some(End::Stack)));
    }

    #[test]
    fn calls_are_known_by_their_bytes() {
        let calls: [&[u8]; 6] = [
            &[0xe8, 1, 2, 3, 4],
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd1],
            &[0xff, 0x54, 0x24, 8],
            &[0xff, 0x15, 0, 0, 0, 1],
            &[0xff, 0x94, 0x24, 0, 1, 0, 0],
        ];
        assert!(calls.iter().all(|call| is_call_before(&[&[0x90; 7][..], call].concat())));
        assert!(!is_call_before(&[0x90; 7]) && !is_call_before(&[]) && !is_call_before(&[0xff, 0xe0]));
    }

    proptest::proptest! {
        #[test]
        fn any_code_ends(code in proptest::collection::vec(0u8.., 0..600), offset in 0u64..600, sp in 0u64..64) {
            let _ = caller(&code, offset, sp);
        }
    }
}
