//! What a table says at an address, and how a caller's registers come of it.

use crate::registers::{COUNT, Registers, address, ip, link, sp};
use crate::stack::{End, Stack};
use gimli::{
    CfaRule, Encoding, EndianSlice, EvaluationResult, Expression, Format, FrameDescriptionEntry,
    RegisterRule, RunTimeEndian, UnwindExpression, UnwindTableRow, Value,
};
use perfuse_abi::regs::Arch;

/// Steps of an expression: those of real programs have a few.
const MOST_STEPS: u32 = 1000;

pub(crate) type Slice<'t> = EndianSlice<'t, RunTimeEndian>;

/// The bytes of an expression.
type Bytes = Box<[u8]>;

/// The rules of an address, for all registers that change.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    cfa: Place,
    registers: Box<[(u16, Saved)]>,
    /// The register that becomes the place in the caller.
    return_register: u16,
    /// The frame of a signal's handler: its caller was interrupted, and made no call.
    pub(crate) is_signal: bool,
    endian: RunTimeEndian,
}

/// Where the frame of the caller ends.
#[derive(Clone, Debug)]
enum Place {
    Register(u16, i64),
    Expression(Bytes),
}

/// How a register of the caller is found.
#[derive(Clone, Debug)]
enum Saved {
    Same,
    At(i64),
    Is(i64),
    In(u16),
    AtExpression(Bytes),
    IsExpression(Bytes),
    Constant(u64),
    Unknown,
}

impl Rule {
    /// `section` is what the table is in.
    pub(crate) fn of(
        row: &UnwindTableRow<usize>,
        fde: &FrameDescriptionEntry<Slice<'_>>,
        (section, endian): (&[u8], RunTimeEndian),
    ) -> Option<Self> {
        let bytes = |UnwindExpression { offset, length }: &UnwindExpression<usize>| -> Option<Bytes> {
            Some(section.get(*offset..offset.checked_add(*length)?)?.into())
        };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Place::Register(register.0, *offset),
            CfaRule::Expression(expression) => Place::Expression(bytes(expression)?),
        };
        let registers = row.registers().filter(|(register, _)| usize::from(register.0) < COUNT);
        let registers = registers.map(|(register, rule)| {
            let saved = match rule {
                RegisterRule::SameValue => Saved::Same,
                RegisterRule::Offset(offset) => Saved::At(*offset),
                RegisterRule::ValOffset(offset) => Saved::Is(*offset),
                RegisterRule::Register(register) => Saved::In(register.0),
                RegisterRule::Expression(expression) => Saved::AtExpression(bytes(expression)?),
                RegisterRule::ValExpression(expression) => Saved::IsExpression(bytes(expression)?),
                RegisterRule::Constant(value) => Saved::Constant(*value),
                _ => Saved::Unknown,
            };
            Some((register.0, saved))
        });
        Some(Rule {
            cfa,
            registers: registers.collect::<Option<_>>()?,
            return_register: fde.cie().return_address_register().0,
            is_signal: fde.is_signal_trampoline(),
            endian,
        })
    }

    /// Where the frame ends at a register and more, below it the return address; and where in the frame, from its end on, registers are
    /// saved. `None`: nobody knows where.
    pub(crate) fn of_code(
        (register, more): (u16, i64),
        saved: impl Iterator<Item = (u16, Option<i64>)>,
    ) -> Self {
        let return_register = ip(Arch::X86_64);
        let saved = saved.map(|(register, at)| (register, at.map_or(Saved::Unknown, Saved::At)));
        Rule {
            cfa: Place::Register(register, more),
            registers: saved.chain([(return_register, Saved::At(-8))]).collect(),
            return_register,
            is_signal: false,
            endian: RunTimeEndian::Little,
        }
    }

    /// The registers of the caller. `is_exact` if the thread is at this place, and did not make a call there.
    pub(crate) fn apply(
        &self,
        registers: &Registers,
        stack: &Stack<'_>,
        is_exact: bool,
    ) -> Result<Registers, End> {
        let arch = registers.arch;
        let cfa = match &self.cfa {
            Place::Register(register, offset) => {
                registers.get(*register).ok_or(End::Unknown)?.wrapping_add_signed(*offset)
            }
            Place::Expression(bytes) => self.evaluate(bytes, registers, stack, None)?,
        };
        let mut caller = *registers;
        caller.forget(ip(arch));
        caller.set(sp(arch), cfa);
        for (register, saved) in &self.registers {
            let register = *register;
            let value = match saved {
                Saved::Same => registers.get(register),
                Saved::At(offset) => stack.word(cfa.wrapping_add_signed(*offset)),
                Saved::Is(offset) => Some(cfa.wrapping_add_signed(*offset)),
                Saved::In(other) => registers.get(*other),
                Saved::AtExpression(bytes) => {
                    stack.word(self.evaluate(bytes, registers, stack, Some(cfa))?)
                }
                Saved::IsExpression(bytes) => Some(self.evaluate(bytes, registers, stack, Some(cfa))?),
                Saved::Constant(value) => Some(*value),
                Saved::Unknown => None,
            };
            match value {
                Some(value) => caller.set(register, value),
                // What lies below the stack pointer is not copied: a register that was popped again is what it was.
                None if matches!(saved, Saved::At(_)) && is_exact && register != self.return_register => {}
                None => caller.forget(register),
            }
        }
        let is_told = self.registers.iter().any(|(register, _)| *register == self.return_register);
        let back = match is_told {
            true => caller.get(self.return_register).ok_or(End::Stack)?,
            // A leaf function has not saved it; in one that made a call it is what no caller has.
            false => match link(arch).filter(|&link| link == self.return_register && is_exact) {
                Some(link) => registers.get(link).ok_or(End::Unknown)?,
                None => return Err(End::Root),
            },
        };
        let back = address(arch, back);
        if back == 0 {
            return Err(End::Root);
        }
        if cfa == registers.sp().unwrap_or(0) && Some(back) == registers.ip() {
            return Err(End::Loop);
        }
        caller.set(ip(arch), back);
        Ok(caller)
    }

    /// The value of an expression; `initial` is what it begins with.
    fn evaluate(
        &self,
        bytes: &[u8],
        registers: &Registers,
        stack: &Stack<'_>,
        initial: Option<u64>,
    ) -> Result<u64, End> {
        let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
        let mut evaluation = Expression(Slice::new(bytes, self.endian)).evaluation(encoding);
        evaluation.set_max_iterations(MOST_STEPS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate().map_err(|_| End::Unknown)?;
        for _ in 0..MOST_STEPS {
            result = match result {
                EvaluationResult::Complete => {
                    let value = evaluation.value_result().ok_or(End::Unknown)?;
                    return value.to_u64(u64::MAX).map_err(|_| End::Unknown);
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = registers.get(register.0).ok_or(End::Unknown)?;
                    evaluation.resume_with_register(Value::Generic(value))
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    let value = stack.word(address).ok_or(End::Stack)?;
                    evaluation.resume_with_memory(Value::Generic(value))
                }
                _ => return Err(End::Unknown),
            }
            .map_err(|_| End::Unknown)?;
        }
        Err(End::Unknown)
    }
}
