//! What registers and stacks hold at a place of a program, on one way to it, and whether one such state is covered by another.

use super::scalar::Scalar;
use crate::insn::Reg;
use crate::map::MapId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The kind of a register's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing was put there.
    Unset,
    Number,
    Context,
    /// A map itself.
    Map(MapId),
    /// Bytes of a value.
    Value(MapId),
    ValueOrNull(MapId),
    /// Bytes below the top of this frame.
    Stack(u8),
    /// Memory of a ring buffer, of so many bytes.
    Reserved(u32),
    ReservedOrNull(u32),
    /// A function, by its slot.
    Function(usize),
}

impl Kind {
    pub(crate) fn is_pointer(self) -> bool {
        !matches!(self, Kind::Unset | Kind::Number)
    }

    pub(crate) fn may_be_null(self) -> bool {
        matches!(self, Kind::ValueOrNull(_) | Kind::ReservedOrNull(_))
    }

    /// After a comparison with null.
    pub(crate) fn not_null(self) -> Kind {
        match self {
            Kind::ValueOrNull(map) => Kind::Value(map),
            Kind::ReservedOrNull(bytes) => Kind::Reserved(bytes),
            kind => kind,
        }
    }
}

/// The content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) kind: Kind,
    /// Of a pointer: how far from the beginning for certain.
    pub(crate) off: i32,
    /// The number; of a pointer what was added besides.
    pub(crate) number: Scalar,
    /// Copies of one value have one id: what is learned of one is known of all. 0 is none.
    pub(crate) id: u32,
    /// The reservation that this points into; 0 is none.
    pub(crate) reservation: u32,
}

impl Held {
    pub(crate) const UNSET: Held =
        Held { kind: Kind::Unset, off: 0, number: Scalar::UNKNOWN, id: 0, reservation: 0 };

    pub(crate) const fn number(number: Scalar) -> Held {
        Held { kind: Kind::Number, number, ..Held::UNSET }
    }

    pub(crate) const fn pointer(kind: Kind) -> Held {
        Held { kind, number: Scalar::of(0), ..Held::UNSET }
    }
}

/// A byte of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Byte {
    Unset,
    Any,
    Zero,
}

/// Eight bytes of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Bytes([Byte; 8]),
    /// A register that was put there.
    Spilled(Held),
}

impl Word {
    pub(crate) const UNSET: Word = Word::Bytes([Byte::Unset; 8]);

    fn is_unset(&self) -> bool {
        *self == Word::UNSET
    }
}

/// A call of a function by a helper that calls it again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turns {
    /// Of one call of the helper.
    pub(crate) instance: u32,
    pub(crate) turn: u32,
}

/// A function that was entered and not left.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) regs: [Held; 11],
    /// From the top down.
    pub(crate) stack: Vec<Word>,
    /// The slot of the call; of a helper's function that of the helper's call.
    pub(crate) call: usize,
    pub(crate) turns: Option<Turns>,
}

impl Frame {
    pub(crate) fn new(number: usize, call: usize, turns: Option<Turns>) -> Frame {
        let mut regs = [Held::UNSET; 11];
        regs[10] = Held::pointer(Kind::Stack(number as u8));
        Frame { regs, stack: Vec::new(), call, turns }
    }

    /// The word with the byte at this distance below the top, and the place of the byte in it.
    pub(crate) fn word_at(off: i64) -> (usize, usize) {
        let word = ((-off - 1) / 8) as usize;
        (word, (off + 8 * (word as i64 + 1)) as usize)
    }

    pub(crate) fn word(&self, index: usize) -> Word {
        self.stack.get(index).copied().unwrap_or(Word::UNSET)
    }

    pub(crate) fn word_mut(&mut self, index: usize) -> &mut Word {
        if self.stack.len() <= index {
            self.stack.resize(index + 1, Word::UNSET);
        }
        &mut self.stack[index]
    }
}

/// All of it: frames, and reservations that are still to be given back, with the slots of their calls.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) frames: Vec<Frame>,
    pub(crate) reservations: Vec<(u32, usize)>,
}

impl State {
    pub(crate) fn frame(&self) -> &Frame {
        &self.frames[self.frames.len() - 1]
    }

    pub(crate) fn frame_mut(&mut self) -> &mut Frame {
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    pub(crate) fn reg(&self, reg: Reg) -> &Held {
        &self.frame().regs[reg.index()]
    }

    pub(crate) fn set(&mut self, reg: Reg, held: Held) {
        self.frame_mut().regs[reg.index()] = held;
    }

    /// Everything that registers and stacks hold.
    pub(crate) fn each(&mut self, mut see: impl FnMut(&mut Held)) {
        for frame in &mut self.frames {
            frame.regs.iter_mut().for_each(&mut see);
            for word in &mut frame.stack {
                if let Word::Spilled(held) = word {
                    see(held);
                }
            }
        }
    }

    /// Ids of numbers that have no second holder mean nothing.
    pub(crate) fn drop_lone_ids(&mut self) {
        let mut seen: Vec<u32> = Vec::new();
        self.each(|held| {
            if held.kind == Kind::Number && held.id != 0 {
                seen.push(held.id);
            }
        });
        if seen.is_empty() {
            return;
        }
        seen.sort_unstable();
        let lone = |id: u32| {
            let first = seen.partition_point(|seen| *seen < id);
            seen.get(first + 1).is_none_or(|next| *next != id)
        };
        self.each(|held| {
            if held.kind == Kind::Number && held.id != 0 && lone(held.id) {
                held.id = 0;
            }
        });
    }

    /// Bytes that a copy takes, about.
    pub(crate) fn cost_bytes(&self) -> usize {
        self.frames
            .iter()
            .map(|frame| size_of::<Frame>() + frame.stack.len() * size_of::<Word>())
            .sum::<usize>()
            + 64
    }

    /// Whether a program that is safe from this state on is safe from the other one on.
    pub(crate) fn covers(&self, other: &State) -> bool {
        if self.frames.len() != other.frames.len() || self.reservations.len() != other.reservations.len() {
            return false;
        }
        let mut ids = Ids::default();
        let frames = self.frames.iter().zip(&other.frames);
        let fine = frames.into_iter().all(|(old, new)| {
            old.call == new.call
                && old.turns.is_some() == new.turns.is_some()
                && old.regs.iter().zip(&new.regs).all(|(old, new)| ids.holds(old, new))
                && ids.stack(&old.stack, &new.stack)
        });
        fine && self.reservations.iter().zip(&other.reservations).all(|(old, new)| ids.same(old.0, new.0))
    }
}

/// Which ids of one state are which of another.
#[derive(Default)]
struct Ids {
    to: BTreeMap<u32, u32>,
    from: BTreeMap<u32, u32>,
}

impl Ids {
    fn same(&mut self, old: u32, new: u32) -> bool {
        if old == 0 || new == 0 {
            return old == new;
        }
        *self.to.entry(old).or_insert(new) == new && *self.from.entry(new).or_insert(old) == old
    }

    fn holds(&mut self, old: &Held, new: &Held) -> bool {
        match old.kind {
            // It is not read before it is written.
            Kind::Unset => true,
            Kind::Number => {
                match new.kind {
                    Kind::Number => {
                        old.number.contains(&new.number) && (old.id == 0 || self.same(old.id, new.id))
                    }
                    Kind::Unset => false,
                    // A pointer is a number like any, for who takes it for one.
                    _ => old.id == 0 && old.number == Scalar::UNKNOWN,
                }
            }
            Kind::Value(_)
            | Kind::Reserved(_)
            | Kind::Stack(_)
            | Kind::Context
            | Kind::Map(_)
            | Kind::Function(_) => {
                old.kind == new.kind
                    && old.off == new.off
                    && old.number.contains(&new.number)
                    && self.same(old.reservation, new.reservation)
            }
            Kind::ValueOrNull(_) | Kind::ReservedOrNull(_) => {
                old.kind == new.kind
                    && old.off == new.off
                    && old.number.contains(&new.number)
                    && self.same(old.id, new.id)
                    && self.same(old.reservation, new.reservation)
            }
        }
    }

    fn stack(&mut self, old: &[Word], new: &[Word]) -> bool {
        old.iter().enumerate().all(|(i, old)| {
            let new = new.get(i).unwrap_or(&Word::UNSET);
            match (old, new) {
                (old, _) if old.is_unset() => true,
                (Word::Spilled(old), Word::Spilled(new)) => self.holds(old, new),
                (Word::Bytes(old), Word::Bytes(new)) => old.iter().zip(new).all(|(old, new)| match old {
                    Byte::Unset | Byte::Any => true,
                    Byte::Zero => *new == Byte::Zero,
                }),
                (Word::Bytes(old), Word::Spilled(new)) => {
                    old.iter().all(|byte| *byte != Byte::Zero)
                        || new.kind == Kind::Number && new.number.value() == Some(0)
                }
                // Any bytes are a number.
                (Word::Spilled(old), Word::Bytes(_)) => {
                    old.kind == Kind::Number && old.id == 0 && old.number == Scalar::UNKNOWN
                }
            }
        })
    }
}
