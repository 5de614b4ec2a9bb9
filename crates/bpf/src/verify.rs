//! The verifier: proves of a program, before it runs, that every access is within what it points to, that registers and memory are
//! of the kind that is wanted, and that it ends. It goes all ways through the program as Linux's does, with what registers and
//! stacks may hold (`state`), and leaves a way where an earlier one covers it.
//!
//! Its rules are those of Linux for who may load tracing programs (`CAP_BPF` and `CAP_PERFMON`): pointers may be compared and
//! stored as numbers, and the stack may be read before it was written (here it is zero). Where it is stricter, the crate's page
//! says so. Parts: `scalar` and `tnum` are numbers, `flow` the ways, `memory` accesses, `calls` helpers and functions.

mod calls;
mod flow;
mod memory;
pub mod refusal;
mod scalar;
mod state;
mod tnum;

use crate::helper::number;
use crate::insn::{AluOp, AtomicOp, Cond, Constant, Insn, Operand, Reg, Size, Width, by_slot};
use crate::map::{MapId, MapKind, Maps};
use crate::program::ProgramType;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flow::Flow;
pub use refusal::{Reason, Refusal};
use scalar::Scalar;
use state::{Frame, Held, Kind, State, Turns};

/// Instructions that are looked at on all ways together, as on Linux.
pub const MOST_LOOKED_AT: u32 = 1_000_000;
/// Slots of a program.
const MOST_SLOTS: usize = 1_000_000;
/// Ways that are still to be gone.
const MOST_WAYS: usize = 8192;
/// Memory for states that are remembered.
const MOST_REMEMBERED_BYTES: usize = 64 << 20;
/// States that are remembered of a slot.
const MOST_REMEMBERED: usize = 64;
/// Distances of pointers.
const FAR: i64 = 1 << 29;

/// What the verifier learned of a program that it lets through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Instructions that were looked at on all ways.
    pub looked_at: u32,
    /// States that were remembered.
    pub states: u32,
    /// Bytes of stack that each function takes at most.
    pub stack_bytes: u32,
    /// Bytes of the context that are read, from its beginning.
    pub context_bytes: u32,
    /// It asks for callchains (rule K1).
    pub wants_stacks: bool,
}

/// What is wrong, and the slot where.
type Checked<T> = Result<T, (usize, Reason)>;

/// Verifies instructions for a type of program; `indices` are the maps of `map[idx:0]` and so on.
pub fn verify(
    program_type: ProgramType,
    insns: &[Insn],
    maps: &Maps,
    indices: &[MapId],
) -> Result<Verified, Refusal> {
    let slots = by_slot(insns);
    let mut looked_at = 0;
    let verified = Verifier::new(program_type, &slots, maps, indices).and_then(|mut verifier| {
        let done = verifier.all_ways();
        looked_at = verifier.learned.looked_at;
        done.map(|()| verifier.learned)
    });
    verified.map_err(|(slot, reason)| {
        let insn = slots.get(slot).copied().flatten();
        Refusal { slot, insn, reason, looked_at }
    })
}

/// A state that was met, for ways that come to the same slot later.
struct Remembered {
    state: State,
    /// The one before on the same way.
    before: Option<usize>,
    /// Ways from here that are not at their end.
    open: u32,
    /// The call of a helper that takes turns here; 0 is none.
    instance: u32,
}

/// A way that is still to be gone.
struct Way {
    state: State,
    slot: usize,
    before: Option<usize>,
}

/// Where a way leads next.
enum Next {
    Slot(usize),
    End,
}

struct Verifier<'a> {
    program_type: ProgramType,
    slots: &'a [Option<Insn>],
    maps: &'a Maps,
    indices: &'a [MapId],
    flow: Flow,
    learned: Verified,
    remembered: Vec<Remembered>,
    /// By slot.
    at_slot: Vec<Vec<usize>>,
    remembered_bytes: usize,
    ways: Vec<Way>,
    last_id: u32,
    /// The way that is gone.
    state: State,
    before: Option<usize>,
    /// The turn that is taken at this slot, if it takes turns.
    turns: Turns,
    /// The turn that was just over.
    after_turn: Option<Turns>,
}

impl<'a> Verifier<'a> {
    fn new(
        program_type: ProgramType,
        slots: &'a [Option<Insn>],
        maps: &'a Maps,
        indices: &'a [MapId],
    ) -> Checked<Self> {
        if slots.is_empty() {
            return Err((0, Reason::Empty));
        }
        if slots.len() > MOST_SLOTS {
            return Err((MOST_SLOTS, Reason::TooLong { slots: slots.len() }));
        }
        let flow = Flow::of(slots)?;
        let mut frame = Frame::new(0, 0, None);
        frame.regs[1] = Held::pointer(Kind::Context);
        Ok(Verifier {
            program_type,
            slots,
            maps,
            indices,
            flow,
            learned: Verified::default(),
            remembered: Vec::new(),
            at_slot: vec![Vec::new(); slots.len()],
            remembered_bytes: 0,
            ways: Vec::new(),
            last_id: 0,
            state: State { frames: vec![frame], reservations: Vec::new() },
            before: None,
            turns: Turns { instance: 0, turn: 0 },
            after_turn: None,
        })
    }

    fn all_ways(&mut self) -> Checked<()> {
        let mut slot = 0;
        // So that only ways of some length are remembered.
        let mut since = 0;
        loop {
            let mut ends = false;
            let after = self.after_turn.take();
            if self.takes_turns(slot) {
                self.turns = match after {
                    Some(turns) => Turns { turn: turns.turn + 1, ..turns },
                    None => Turns { instance: self.new_id(), turn: 0 },
                };
            }
            if self.flow.joins[slot] {
                ends = self.is_covered(slot)?;
                if !ends && (since >= 8 || self.takes_turns(slot)) {
                    self.remember(slot);
                    since = 0;
                }
            }
            if !ends {
                self.learned.looked_at += 1;
                since += 1;
                if self.learned.looked_at > MOST_LOOKED_AT {
                    return Err((slot, Reason::TooComplex { limit: MOST_LOOKED_AT }));
                }
                match self.step(slot)? {
                    Next::Slot(next) => {
                        slot = next;
                        continue;
                    }
                    Next::End => {}
                }
            }
            self.way_is_over();
            let Some(way) = self.ways.pop() else { return Ok(()) };
            (self.state, slot, self.before) = (way.state, way.slot, way.before);
        }
    }

    fn takes_turns(&self, slot: usize) -> bool {
        self.slots[slot] == Some(Insn::CallHelper(number::LOOP))
    }

    /// The states that this way came through have one open way less.
    fn way_is_over(&mut self) {
        let mut at = self.before;
        while let Some(index) = at {
            let remembered = &mut self.remembered[index];
            remembered.open -= 1;
            at = if remembered.open == 0 { remembered.before } else { None };
        }
    }

    /// Another way from the present state, or a changed one, is to be gone later.
    fn also(&mut self, slot: usize, at: usize, state: State) -> Checked<()> {
        if self.ways.len() >= MOST_WAYS {
            return Err((slot, Reason::TooManyWays));
        }
        if let Some(before) = self.before {
            self.remembered[before].open += 1;
        }
        self.ways.push(Way { state, slot: at, before: self.before });
        Ok(())
    }

    /// Whether an earlier way came here with all that this one has.
    fn is_covered(&mut self, slot: usize) -> Checked<bool> {
        // Registers that nobody reads any more are of no interest.
        let live = self.flow.live[slot];
        for (number, held) in self.state.frame_mut().regs.iter_mut().enumerate().take(10) {
            if live & 1 << number == 0 {
                *held = Held::UNSET;
            }
        }
        self.state.drop_lone_ids();
        let instance = if self.takes_turns(slot) { self.turns.instance } else { 0 };
        for index in self.at_slot[slot].iter().rev() {
            let remembered = &self.remembered[*index];
            if remembered.open == 0 {
                if remembered.state.covers(&self.state) {
                    return Ok(true);
                }
            } else if instance != 0 && remembered.instance == instance {
                // A turn that changes nothing shows that more turns do not either; the helper ends them.
                if remembered.state.covers(&self.state) {
                    return Ok(true);
                }
            } else if remembered.state == self.state {
                return Err((slot, Reason::InfiniteLoop));
            }
        }
        Ok(false)
    }

    fn remember(&mut self, slot: usize) {
        let cost = self.state.cost_bytes();
        if self.remembered_bytes + cost > MOST_REMEMBERED_BYTES {
            return;
        }
        if self.at_slot[slot].len() >= MOST_REMEMBERED {
            // The oldest goes; rather one whose ways have ended, as the others are of no use to others yet.
            let closed = self.at_slot[slot].iter().position(|index| self.remembered[*index].open == 0);
            let gone = self.at_slot[slot].remove(closed.unwrap_or(0));
            let state = &mut self.remembered[gone].state;
            self.remembered_bytes -= state.cost_bytes();
            *state = State { frames: Vec::new(), reservations: Vec::new() };
        }
        self.remembered_bytes += cost;
        self.learned.states += 1;
        self.at_slot[slot].push(self.remembered.len());
        let instance = if self.takes_turns(slot) { self.turns.instance } else { 0 };
        let state = self.state.clone();
        self.remembered.push(Remembered { state, before: self.before, open: 1, instance });
        self.before = Some(self.remembered.len() - 1);
    }

    fn new_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    /// What a register holds, in words.
    fn in_words(&self, held: &Held) -> String {
        let and = |text: String| match (held.off, held.number.value()) {
            (0, Some(0)) => text,
            (off, Some(more)) => format!("{text} {:+}", i64::from(off).wrapping_add(more as i64)),
            (0, None) => format!("{text} plus {}", held.number),
            (off, None) => format!("{text} {off:+} plus {}", held.number),
        };
        let of_map = |map: MapId| match self.maps.get(map) {
            Ok(found) => {
                let spec = found.spec();
                format!("map {} ({} of {} bytes)", map.0, spec.kind.in_words(), spec.value_size)
            }
            Err(_) => format!("map {}", map.0),
        };
        match held.kind {
            Kind::Unset => "nothing".into(),
            Kind::Number => format!("{}", held.number),
            Kind::Context => and("the context".into()),
            Kind::Map(map) => format!("{} itself", of_map(map)),
            Kind::Value(map) => and(format!("in a value of {}", of_map(map))),
            Kind::ValueOrNull(map) => format!("a value of {}, or null", of_map(map)),
            Kind::Stack(_) => and("on the stack at 0".into()).replace("at 0 ", "at "),
            Kind::Reserved(bytes) => and(format!("in {bytes} reserved bytes")),
            Kind::ReservedOrNull(bytes) => format!("{bytes} reserved bytes, or null"),
            Kind::Function(slot) => format!("the function at {slot}"),
        }
    }

    fn read(&self, slot: usize, reg: Reg) -> Checked<Held> {
        let held = *self.state.reg(reg);
        if held.kind == Kind::Unset { Err((slot, Reason::Unset { reg })) } else { Ok(held) }
    }

    fn write(&mut self, slot: usize, reg: Reg, held: Held) -> Checked<()> {
        if reg == Reg::R10 {
            return Err((slot, Reason::FramePointer));
        }
        self.state.set(reg, held);
        Ok(())
    }

    /// The content of a register of which there is a copy from now on: what is learned of one is known of both.
    fn copied(&mut self, reg: Reg, mut held: Held) -> Held {
        if held.kind == Kind::Number && held.id == 0 && held.number.value().is_none() {
            held.id = self.new_id();
            self.state.set(reg, held);
        }
        held
    }

    fn operand(&self, slot: usize, src: Operand) -> Checked<Held> {
        match src {
            Operand::Reg(reg) => self.read(slot, reg),
            Operand::Imm(imm) => Ok(Held::number(Scalar::of(i64::from(imm) as u64))),
        }
    }

    /// What one instruction does.
    fn step(&mut self, slot: usize) -> Checked<Next> {
        // Ways lead to the beginnings of instructions alone.
        let Some(insn) = self.slots[slot] else { return Err((slot, Reason::Unsupported)) };
        let next = slot + insn.slots();
        match insn {
            Insn::Alu { width, op: AluOp::Mov, dst, src } => {
                let mut held = self.operand(slot, src)?;
                if let (Width::W64, Operand::Reg(src)) = (width, src) {
                    held = self.copied(src, held);
                }
                if width == Width::W32 {
                    held = match held.kind {
                        Kind::Number => Held::number(held.number.low(32)),
                        _ => Held::number(Scalar::of_bytes(4)),
                    };
                }
                self.write(slot, dst, held)?;
            }
            Insn::Alu { width, op, dst, src } => {
                let (a, b) = (self.read(slot, dst)?, self.operand(slot, src)?);
                self.shift_is_sane(slot, op, width, src)?;
                let held = self.alu(slot, (width, op), (dst, &a), (src, &b))?;
                self.write(slot, dst, held)?;
            }
            Insn::Neg { width, dst } => {
                let held = self.read(slot, dst)?;
                let number = if held.kind == Kind::Number { held.number } else { Scalar::UNKNOWN };
                let number = Scalar::of(0).alu(AluOp::Sub, width, &number);
                self.write(slot, dst, Held::number(number))?;
            }
            Insn::Extend { width, bits, dst, src } => {
                let held = self.read(slot, src)?;
                let number = if held.kind == Kind::Number { held.number } else { Scalar::UNKNOWN };
                self.write(slot, dst, Held::number(number.extended(u32::from(bits), width)))?;
            }
            Insn::Swap { bits, dst, .. } => {
                self.read(slot, dst)?;
                self.write(slot, dst, Held::number(Scalar::of_bytes(u32::from(bits) / 8)))?;
            }
            Insn::Constant { dst, value } => {
                let held = self.constant(slot, value)?;
                self.write(slot, dst, held)?;
            }
            Insn::Load { size, signed, dst, base, off } => {
                let mut held = self.load(slot, base, off, size)?;
                if signed {
                    let number = if held.kind == Kind::Number { held.number } else { Scalar::UNKNOWN };
                    held = Held::number(number.extended(size.bytes() * 8, Width::W64));
                }
                self.write(slot, dst, held)?;
            }
            Insn::LoadAcquire { size, dst, base, off } => {
                let held = self.load(slot, base, off, size)?;
                self.write(slot, dst, held)?;
            }
            Insn::Store { size, base, off, src } => {
                let mut held = self.operand(slot, src)?;
                if let (Operand::Reg(src), Size::B8) = (src, size) {
                    held = self.copied(src, held);
                }
                self.store(slot, (base, off, size), &held)?;
            }
            Insn::StoreRelease { size, base, off, src } => {
                let held = self.read(slot, src)?;
                self.store(slot, (base, off, size), &held)?;
            }
            Insn::Atomic { size, op, base, off, src } => self.atomic(slot, op, size, (base, off), src)?,
            Insn::Goto(off) => return flow::target(self.slots, slot, i32::from(off)).map(Next::Slot),
            Insn::GotoLong(off) => return flow::target(self.slots, slot, off).map(Next::Slot),
            Insn::If { width, cond, dst, src, off } => {
                let to = flow::target(self.slots, slot, i32::from(off))?;
                return self.condition(slot, (width, cond), (dst, src), (next, to));
            }
            Insn::CallHelper(number) => return self.call_helper(slot, number),
            Insn::CallLocal(off) => {
                let to = flow::target(self.slots, slot, off)?;
                self.enter(slot, slot, None, |caller, frame| {
                    frame.regs[1..=5].copy_from_slice(&caller.regs[1..=5]);
                })?;
                return Ok(Next::Slot(to));
            }
            Insn::Exit => return self.exit(slot),
            Insn::Packet { index, .. } => self.packet(slot, index)?,
            Insn::MayGoto(_) | Insn::CallKernel { .. } => return Err((slot, Reason::Unsupported)),
        }
        Ok(Next::Slot(next))
    }

    fn constant(&self, slot: usize, value: Constant) -> Checked<Held> {
        let of_fd = |fd: i32| {
            let map = MapId(fd as u32);
            self.maps.get(map).map(|found| (map, found)).map_err(|_| (slot, Reason::NoMap { map: fd }))
        };
        let of_index = |index: i32| {
            let map = usize::try_from(index).ok().and_then(|index| self.indices.get(index));
            of_fd(map.ok_or((slot, Reason::NoMap { map: index }))?.0 as i32)
        };
        let in_value = |(map, found): (MapId, &crate::map::Map), at: i32| {
            let spec = found.spec();
            let at = at as u32;
            let (map_number, values, size) = (map.0 as i32, spec.max_entries, spec.value_size);
            if spec.kind != MapKind::Array {
                return Err((slot, Reason::NoDirectValue { map: map_number }));
            }
            if values != 1 || at >= size {
                return Err((slot, Reason::BeyondDirectValue { map: map_number, values, size, at }));
            }
            Ok(Held { off: at as i32, ..Held::pointer(Kind::Value(map)) })
        };
        Ok(match value {
            Constant::Value(value) => Held::number(Scalar::of(value)),
            Constant::Map(fd) => Held::pointer(Kind::Map(of_fd(fd)?.0)),
            Constant::MapIndex(index) => Held::pointer(Kind::Map(of_index(index)?.0)),
            Constant::MapValue(fd, at) => in_value(of_fd(fd)?, at)?,
            Constant::MapIndexValue(index, at) => in_value(of_index(index)?, at)?,
            Constant::Function(off) => Held::pointer(Kind::Function(flow::target(self.slots, slot, off)?)),
            Constant::Variable(..) => return Err((slot, Reason::Unsupported)),
        })
    }

    /// Constant shifts are shorter than what they shift, and constant divisors are not zero.
    fn shift_is_sane(&self, slot: usize, op: AluOp, width: Width, src: Operand) -> Checked<()> {
        let Operand::Imm(imm) = src else { return Ok(()) };
        let bits = if width == Width::W64 { 64 } else { 32 };
        match op {
            AluOp::Lsh | AluOp::Rsh | AluOp::Arsh if !(0..bits).contains(&imm) => {
                Err((slot, Reason::Shift { by: imm, bits }))
            }
            AluOp::Div | AluOp::SDiv | AluOp::Mod | AluOp::SMod if imm == 0 => Err((slot, Reason::ByZero)),
            _ => Ok(()),
        }
    }

    fn alu(
        &mut self,
        slot: usize,
        (width, op): (Width, AluOp),
        (dst, a): (Reg, &Held),
        (src, b): (Operand, &Held),
    ) -> Checked<Held> {
        let wrong = |reg: Reg, held: &Held| {
            let holds = self.in_words(held);
            Err((slot, Reason::Arithmetic { reg, holds }))
        };
        let b_reg = if let Operand::Reg(reg) = src { reg } else { dst };
        match (a.kind, b.kind) {
            (Kind::Number, Kind::Number) => Ok(Held::number(a.number.alu(op, width, &b.number))),
            // The distance of two pointers, as a number.
            _ if a.kind.is_pointer() && b.kind.is_pointer() => match op {
                AluOp::Sub if width == Width::W64 => Ok(Held::number(Scalar::UNKNOWN)),
                AluOp::Sub => Ok(Held::number(Scalar::of_bytes(4))),
                _ => wrong(dst, a),
            },
            _ if width == Width::W32 => match op {
                AluOp::Sub => Ok(Held::number(Scalar::of_bytes(4))),
                _ => wrong(
                    if a.kind.is_pointer() { dst } else { b_reg },
                    if a.kind.is_pointer() { a } else { b },
                ),
            },
            (Kind::Number, _) => match op {
                AluOp::Add => self.moved(slot, b_reg, b, &a.number),
                _ => wrong(b_reg, b),
            },
            _ => match op {
                AluOp::Add => self.moved(slot, dst, a, &b.number),
                AluOp::Sub if !matches!(a.kind, Kind::Stack(_)) => {
                    let back = Scalar::of(0).alu(AluOp::Sub, Width::W64, &b.number);
                    self.moved(slot, dst, a, &back)
                }
                _ => wrong(dst, a),
            },
        }
    }

    /// A pointer that a number was added to.
    fn moved(&self, slot: usize, reg: Reg, pointer: &Held, by: &Scalar) -> Checked<Held> {
        let movable =
            matches!(pointer.kind, Kind::Context | Kind::Value(_) | Kind::Stack(_) | Kind::Reserved(_));
        if !movable {
            let holds = self.in_words(pointer);
            let null = pointer.kind.may_be_null();
            let reason =
                if null { Reason::MaybeNull { reg, holds } } else { Reason::Arithmetic { reg, holds } };
            return Err((slot, reason));
        }
        let far = || Err((slot, Reason::FarAway { reg, holds: format!("{by}") }));
        let near = -FAR..FAR;
        match by.value() {
            Some(by) => {
                let off = i64::from(pointer.off).checked_add(by as i64).filter(|off| near.contains(off));
                match off {
                    Some(off) if near.contains(&(by as i64)) => Ok(Held { off: off as i32, ..*pointer }),
                    _ => far(),
                }
            }
            // What may come from far below is never compared enough afterwards.
            None if by.smin <= -FAR || pointer.number.smin <= -FAR || pointer.number.smax >= FAR => far(),
            None => Ok(Held { number: pointer.number.alu(AluOp::Add, Width::W64, by), ..*pointer }),
        }
    }

    /// A jump on a condition: both ways, as far as they are possible.
    fn condition(
        &mut self,
        slot: usize,
        (width, cond): (Width, Cond),
        (dst, src): (Reg, Operand),
        (next, to): (usize, usize),
    ) -> Checked<Next> {
        let (a, b) = (self.read(slot, dst)?, self.operand(slot, src)?);
        let against_null = width == Width::W64 && b.kind == Kind::Number && b.number.value() == Some(0);
        // As on Linux, the context and the stack are not among those.
        let told =
            matches!(a.kind, Kind::Value(_) | Kind::Map(_) | Kind::Reserved(_)) || a.kind.may_be_null();
        if told && against_null && matches!(cond, Cond::Eq | Cond::Ne) {
            let null_goes = cond == Cond::Eq;
            if !a.kind.may_be_null() {
                return Ok(Next::Slot(if null_goes { next } else { to }));
            }
            let mut null = self.state.clone();
            self.is_null(&mut null, a.id);
            self.is_not_null(a.id);
            let (null_at, other) = if null_goes { (to, next) } else { (next, to) };
            self.also(slot, null_at, null)?;
            return Ok(Next::Slot(other));
        }
        if a.kind != Kind::Number || b.kind != Kind::Number {
            // Pointers are compared as numbers that nothing is known of.
            let state = self.state.clone();
            self.also(slot, to, state)?;
            return Ok(Next::Slot(next));
        }
        let same = matches!(src, Operand::Reg(reg) if reg == dst);
        if same {
            // A register and itself.
            let equal = matches!(cond, Cond::Eq | Cond::Ge | Cond::Le | Cond::SGe | Cond::SLe);
            if cond != Cond::Set {
                return Ok(Next::Slot(if equal { to } else { next }));
            }
        }
        let goes = a.number.compared(cond, width, &b.number, true);
        let stays = a.number.compared(cond, width, &b.number, false);
        let learn = |state: &mut State, (x, y): (Scalar, Scalar)| {
            let mut known = |reg: Reg, id: u32, number: Scalar| {
                state.frame_mut().regs[reg.index()].number = number;
                if id != 0 {
                    state.each(|held| {
                        if held.kind == Kind::Number && held.id == id {
                            held.number = number;
                        }
                    });
                }
            };
            if same {
                return;
            }
            known(dst, a.id, x);
            if let Operand::Reg(src) = src {
                // What is known of copies of both is enough once.
                if a.id == 0 || a.id != b.id {
                    known(src, b.id, y);
                }
            }
        };
        match (goes, stays) {
            (Some(goes), Some(stays)) => {
                let mut state = self.state.clone();
                learn(&mut state, goes);
                self.also(slot, to, state)?;
                learn(&mut self.state, stays);
                Ok(Next::Slot(next))
            }
            (Some(goes), None) => {
                learn(&mut self.state, goes);
                Ok(Next::Slot(to))
            }
            (None, Some(stays)) => {
                learn(&mut self.state, stays);
                Ok(Next::Slot(next))
            }
            (None, None) => Ok(Next::End),
        }
    }

    /// All copies of a pointer are null.
    fn is_null(&self, state: &mut State, id: u32) {
        let mut reservation = 0;
        state.each(|held| {
            if held.id == id && held.kind.may_be_null() {
                reservation = held.reservation;
                *held = Held::number(Scalar::of(0));
            }
        });
        state.reservations.retain(|known| known.0 != reservation);
    }

    /// No copy of a pointer is null.
    fn is_not_null(&mut self, id: u32) {
        self.state.each(|held| {
            if held.id == id && held.kind.may_be_null() {
                (held.kind, held.id) = (held.kind.not_null(), 0);
            }
        });
    }

    fn atomic(
        &mut self,
        slot: usize,
        op: AtomicOp,
        size: Size,
        (base, off): (Reg, i16),
        src: Reg,
    ) -> Checked<()> {
        self.read(slot, src)?;
        if op == AtomicOp::CmpXchg {
            self.read(slot, Reg::R0)?;
        }
        let pointer = self.read(slot, base)?;
        if pointer.kind == Kind::Context {
            let off = i64::from(off);
            let program_type = self.program_type;
            let size = i64::from(size.bytes());
            return Err((slot, Reason::Context { program_type, off, size, write: true }));
        }
        // As Linux has it, the old value comes before the pointer is used again.
        let result = if op == AtomicOp::CmpXchg { Reg::R0 } else { src };
        if op.fetches() && result == base {
            let holds = "the old value before the new one is stored".into();
            return Err((slot, Reason::NoPointer { reg: base, holds }));
        }
        let old = self.load(slot, base, off, size)?;
        Self::aligned(slot, base, &pointer, i64::from(off), size.bytes())?;
        self.store(slot, (base, off, size), &Held::number(Scalar::UNKNOWN))?;
        let old = if old.kind == Kind::Number { old } else { Held::number(Scalar::UNKNOWN) };
        match op {
            AtomicOp::CmpXchg => self.write(slot, Reg::R0, old),
            op if op.fetches() => self.write(slot, src, old),
            _ => Ok(()),
        }
    }
}
