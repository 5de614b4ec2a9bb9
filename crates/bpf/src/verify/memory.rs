//! Accesses of memory: what a pointer may reach, and what stacks hold.

use super::refusal::Reason;
use super::scalar::Scalar;
use super::state::{Byte, Frame, Held, Kind, Word};
use super::{Checked, FAR, Verifier};
use crate::insn::{AluOp, Reg, Size, Width};
use crate::map::MapId;
use crate::memory::FRAME;
use crate::program::{ContextAccess, ProgramType};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Verifier<'_> {
    /// Bytes within so much room, from the first that may be touched to the last.
    pub(super) fn within(
        &self,
        slot: usize,
        (reg, held): (Reg, &Held),
        off: i64,
        size: i64,
        room: i64,
    ) -> Checked<()> {
        let holds = || self.in_words(held);
        let fixed = i64::from(held.off) + off;
        let number = &held.number;
        if number.smin < 0 && (number.value().is_none() && number.smin.saturating_add(fixed) < 0) {
            return Err((slot, Reason::Negative { reg, holds: holds() }));
        }
        if number.smin <= -FAR || number.smax >= FAR {
            return Err((slot, Reason::Unbounded { reg, holds: holds() }));
        }
        let (first, last) = (fixed + number.smin, fixed + number.smax);
        if first < 0 || last + size > room || size < 0 {
            return Err((slot, Reason::Outside { reg, holds: holds(), size, room }));
        }
        Ok(())
    }

    /// Whether the bytes may be read or written; of stacks the frame, and the distances from its top that may be touched first.
    pub(super) fn reach(
        &mut self,
        slot: usize,
        (reg, held): (Reg, &Held),
        off: i64,
        size: i64,
        access: Access,
    ) -> Checked<Option<(usize, i64, i64)>> {
        match held.kind {
            Kind::Value(map) => {
                let found = self.maps.get(map).map_err(|_| (slot, Reason::NoMap { map: map.0 as i32 }))?;
                match access {
                    Access::Read if !found.is_readable_by_programs() => {
                        return Err((slot, Reason::WriteOnly { reg }));
                    }
                    Access::Write if !found.is_writable_by_programs() => {
                        return Err((slot, Reason::ReadOnly { reg }));
                    }
                    _ => {}
                }
                self.within(slot, (reg, held), off, size, i64::from(found.spec().value_size))?;
                Ok(None)
            }
            Kind::Reserved(bytes) => {
                self.within(slot, (reg, held), off, size, i64::from(bytes))?;
                Ok(None)
            }
            Kind::Stack(frame) => {
                let number = &held.number;
                if number.value().is_none() && (number.smin <= -FAR || number.smax >= FAR) {
                    return Err((slot, Reason::Unbounded { reg, holds: self.in_words(held) }));
                }
                let fixed = i64::from(held.off) + off;
                let (first, last) = (fixed + number.smin, fixed + number.smax);
                let room = FRAME as i64;
                if last + size > 0 && first >= -room && first < 0 {
                    return Err((slot, Reason::AboveStack { reg, holds: self.in_words(held), size }));
                }
                if first < -room || last + size > 0 || size < 0 {
                    return Err((slot, Reason::Outside { reg, holds: self.in_words(held), size, room }));
                }
                let used = (-first) as u32;
                self.learned.stack_bytes = self.learned.stack_bytes.max(used);
                Ok(Some((usize::from(frame), first, last)))
            }
            kind if kind.may_be_null() => Err((slot, Reason::MaybeNull { reg, holds: self.in_words(held) })),
            _ => Err((slot, Reason::NoPointer { reg, holds: self.in_words(held) })),
        }
    }

    fn context(
        &mut self,
        slot: usize,
        (reg, held): (Reg, &Held),
        off: i64,
        size: u32,
        write: bool,
    ) -> Checked<Held> {
        if held.off != 0 || held.number.value() != Some(0) {
            return Err((slot, Reason::MovedContext { reg }));
        }
        match self.program_type.context_access(off, size, write, REGISTERS) {
            ContextAccess::Number => {
                let end = (off + i64::from(size)) as u32;
                self.learned.context_bytes = self.learned.context_bytes.max(end);
                Ok(Held::number(Scalar::of_bytes(size)))
            }
            ContextAccess::No => {
                let program_type = self.program_type;
                Err((slot, Reason::Context { program_type, off, size: i64::from(size), write }))
            }
        }
    }

    /// A load from the packet, whose number comes in `r0`; it ends the program where there is none.
    pub(super) fn packet(&mut self, slot: usize, index: Option<Reg>) -> Checked<()> {
        let refused = Err((slot, Reason::NoPacket { program_type: self.program_type }));
        if self.program_type != ProgramType::SocketFilter {
            return refused;
        }
        let held = self.read(slot, Reg::R6)?;
        if held.kind != Kind::Context || held.off != 0 || held.number.value() != Some(0) {
            return refused;
        }
        if let Some(index) = index {
            self.read(slot, index)?;
        }
        let frame = self.state.frame_mut();
        for reg in &mut frame.regs[1..=5] {
            *reg = Held::UNSET;
        }
        frame.regs[0] = Held::number(Scalar::of_bytes(4));
        Ok(())
    }

    /// Places of the stack, and of whatever is worked on in one step, are multiples of the size.
    pub(super) fn aligned(slot: usize, reg: Reg, held: &Held, off: i64, size: u32) -> Checked<()> {
        let at = i64::from(held.off) + off;
        // All that may be added is a multiple, too.
        let bits = held.number.bits;
        let low = u64::from(size) - 1;
        if at & low as i64 != 0 || (bits.value | bits.mask) & low != 0 {
            return Err((slot, Reason::Misaligned { reg, off: at, size: i64::from(size) }));
        }
        Ok(())
    }

    /// What a load puts in its register.
    pub(super) fn load(&mut self, slot: usize, base: Reg, off: i16, size: Size) -> Checked<Held> {
        let held = self.read(slot, base)?;
        let (off, bytes) = (i64::from(off), size.bytes());
        if held.kind == Kind::Context {
            return self.context(slot, (base, &held), off, bytes, false);
        }
        let place = self.reach(slot, (base, &held), off, i64::from(bytes), Access::Read)?;
        let Some((frame, first, last)) = place else {
            if let Kind::Value(map) = held.kind {
                let at = i64::from(held.off) + off;
                if let Some(value) =
                    held.number.value().and_then(|more| self.constant_value(map, at + more as i64, bytes))
                {
                    return Ok(Held::number(Scalar::of(value)));
                }
            }
            return Ok(Held::number(Scalar::of_bytes(bytes)));
        };
        Self::aligned(slot, base, &held, off, bytes)?;
        if first != last {
            return Ok(Held::number(Scalar::of_bytes(bytes)));
        }
        let (index, at) = Frame::word_at(first);
        match self.state.frames[frame].word(index) {
            Word::Spilled(spilled) if bytes == 8 => Ok(spilled),
            Word::Spilled(spilled) if spilled.kind.is_pointer() => Err((slot, Reason::HalfPointer)),
            Word::Spilled(spilled) => {
                let below = if cfg!(target_endian = "little") { at } else { 8 - at - bytes as usize };
                let down = Scalar::of(below as u64 * 8);
                let number = spilled.number.alu(AluOp::Rsh, Width::W64, &down).low(bytes * 8);
                Ok(Held::number(number))
            }
            Word::Bytes(found) => {
                let zero = found[at..at + bytes as usize].iter().all(|byte| *byte == Byte::Zero);
                Ok(Held::number(if zero { Scalar::of(0) } else { Scalar::of_bytes(bytes) }))
            }
        }
    }

    /// A value that nobody can change any more.
    fn constant_value(&self, map: MapId, at: i64, bytes: u32) -> Option<u64> {
        let found = self.maps.get(map).ok().filter(|map| map.is_constant())?;
        if found.spec().kind != crate::map::MapKind::Array || found.spec().max_entries != 1 {
            return None;
        }
        let found = found.cell_value(0)?.get(usize::try_from(at).ok()?..)?.get(..bytes as usize)?;
        let mut whole = [0; 8];
        if cfg!(target_endian = "little") {
            whole[..found.len()].copy_from_slice(found);
        } else {
            whole[8 - found.len()..].copy_from_slice(found);
        }
        Some(u64::from_ne_bytes(whole))
    }

    /// A store of what a register holds.
    pub(super) fn store(
        &mut self,
        slot: usize,
        (base, off, size): (Reg, i16, Size),
        value: &Held,
    ) -> Checked<()> {
        let held = self.read(slot, base)?;
        let (off, bytes) = (i64::from(off), size.bytes());
        if held.kind == Kind::Context {
            return self.context(slot, (base, &held), off, bytes, true).map(|_| ());
        }
        let place = self.reach(slot, (base, &held), off, i64::from(bytes), Access::Write)?;
        let Some((frame, first, last)) = place else { return Ok(()) };
        Self::aligned(slot, base, &held, off, bytes)?;
        if value.kind.is_pointer() && bytes != 8 && first == last {
            return Err((slot, Reason::HalfPointer));
        }
        if first != last {
            self.smear(frame, first, last + i64::from(bytes));
            return Ok(());
        }
        let (index, at) = Frame::word_at(first);
        let word = self.state.frames[frame].word_mut(index);
        if bytes == 8 {
            *word = match value.kind {
                Kind::Number if value.number.value() == Some(0) => Word::Bytes([Byte::Zero; 8]),
                _ => Word::Spilled(*value),
            };
            return Ok(());
        }
        let zero = value.kind == Kind::Number && value.number.low(bytes * 8).value() == Some(0);
        let mut found = of_word(word);
        found[at..at + bytes as usize].fill(if zero { Byte::Zero } else { Byte::Any });
        *word = Word::Bytes(found);
        Ok(())
    }

    /// Any bytes are on a stack from here to there.
    pub(super) fn smear(&mut self, frame: usize, from: i64, to: i64) {
        for off in from..to {
            let (index, at) = Frame::word_at(off);
            let word = self.state.frames[frame].word_mut(index);
            let mut found = of_word(word);
            found[at] = Byte::Any;
            *word = Word::Bytes(found);
        }
    }
}

/// `struct pt_regs` and `user_pt_regs` of the architecture.
const REGISTERS: u32 = if cfg!(target_arch = "aarch64") { 272 } else { 168 };

/// A word by its bytes; a register that was there is taken apart.
fn of_word(word: &Word) -> [Byte; 8] {
    match word {
        Word::Bytes(found) => *found,
        Word::Spilled(_) => [Byte::Any; 8],
    }
}
