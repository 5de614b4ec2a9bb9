//! Calls: arguments and results of helpers, functions of the program, and returns.

use super::memory::Access;
use super::refusal::Reason;
use super::scalar::Scalar;
use super::state::{Byte, Frame, Held, Kind, Turns, Word};
use super::{Checked, FAR, Next, Verifier};
use crate::helper::{self, Arg, Gives, number};
use crate::insn::Reg;
use crate::map::{MapId, MapKind};
use crate::memory::FRAMES;

/// What the arguments of a call told.
#[derive(Default)]
struct Told {
    map: Option<MapId>,
    map_in: Option<Reg>,
    /// The key is a number that the map has a value for, whatever comes.
    key_is_there: bool,
    /// The size of the last memory argument, and how it is used.
    memory: Option<(Reg, Access, bool)>,
    most_bytes: i64,
    reserved: u32,
    reservation: u32,
    callback: Option<usize>,
    data: Option<Held>,
}

const ARGUMENTS: [Reg; 5] = [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5];

impl Verifier<'_> {
    pub(super) fn call_helper(&mut self, slot: usize, id: u32) -> Checked<Next> {
        let Some(row) = helper::helper(id) else { return Err((slot, Reason::NoHelper { number: id })) };
        if !self.program_type.may_call(id) {
            return Err((slot, Reason::HelperForOthers { number: id, program_type: self.program_type }));
        }
        let mut told = Told::default();
        for (arg, reg) in row.args.iter().zip(ARGUMENTS) {
            self.argument(slot, id, *arg, reg, &mut told)?;
        }
        // As on Linux, what the arguments are comes first.
        if let Some((map, reg)) = told.map.zip(told.map_in) {
            self.map_is_for(slot, id, map, reg)?;
        }
        if id == number::RINGBUF_SUBMIT || id == number::RINGBUF_DISCARD {
            self.given_back(told.reservation);
        }
        if id == number::TAIL_CALL {
            if let Some(kept) = self.state.reservations.first() {
                return Err((slot, Reason::Kept { call: kept.1 }));
            }
        }
        self.learned.wants_stacks |= matches!(id, number::GET_STACK | number::GET_STACKID);
        let turns = Scalar::UNKNOWN;
        let map = told.map.unwrap_or(MapId(0));
        let gives = match row.gives {
            Gives::Number => Held::number(match id {
                number::GET_SMP_PROCESSOR_ID => Scalar::between(0, i64::from(self.maps.cpus()) - 1),
                number::GET_STACK
                | number::PROBE_READ_STR
                | number::PROBE_READ_KERNEL_STR
                | number::PROBE_READ_USER_STR => Scalar::between(-4095, told.most_bytes),
                _ => Scalar::UNKNOWN,
            }),
            Gives::Nothing => Held::UNSET,
            Gives::ValueOrNull if told.key_is_there => Held::pointer(Kind::Value(map)),
            Gives::ValueOrNull => Held { id: self.new_id(), ..Held::pointer(Kind::ValueOrNull(map)) },
            Gives::ReservationOrNull => {
                let id = self.new_id();
                self.state.reservations.push((id, slot));
                Held { id, reservation: id, ..Held::pointer(Kind::ReservedOrNull(told.reserved)) }
            }
        };
        if id == number::LOOP {
            // The way on, without a turn or after some; and the way into the next turn.
            let (Some(function), Some(data)) = (told.callback, told.data) else {
                return Err((slot, Reason::Unsupported));
            };
            let mut over = self.state.clone();
            clear_arguments(over.frame_mut());
            over.frame_mut().regs[0] = Held::number(Scalar::UNKNOWN);
            self.also(slot, slot + 1, over)?;
            self.enter(slot, slot, Some(self.turns), |_, frame| {
                frame.regs[1] = Held::number(turns);
                frame.regs[2] = data;
            })?;
            return Ok(Next::Slot(function));
        }
        let frame = self.state.frame_mut();
        clear_arguments(frame);
        frame.regs[0] = gives;
        Ok(Next::Slot(slot + 1))
    }

    /// Checks an argument, and remembers what those after it want to know.
    fn argument(&mut self, slot: usize, id: u32, arg: Arg, reg: Reg, told: &mut Told) -> Checked<()> {
        let held = self.read(slot, reg)?;
        let wrong = |this: &Self, wants: &'static str| {
            let holds = this.in_words(&held);
            Err((slot, Reason::Argument { reg, holds, wants }))
        };
        let map = told.map.and_then(|map| self.maps.get(map).ok());
        let key = map.map_or(0, |map| i64::from(map.spec().key_size));
        let value = map.map_or(0, |map| i64::from(map.spec().value_size));
        let is_null = held.kind == Kind::Number && held.number.value() == Some(0);
        match arg {
            Arg::Any => Ok(()),
            Arg::Map => {
                let Kind::Map(map) = held.kind else { return wrong(self, "a map") };
                (told.map, told.map_in) = (Some(map), Some(reg));
                Ok(())
            }
            Arg::Key => {
                if key == 0 {
                    return Err((slot, Reason::ZeroSize { reg }));
                }
                let wants = "memory with a key of the map";
                self.memory_argument(slot, reg, &held, key, Access::Read, wants)?;
                // The first value of an array is always there.
                told.key_is_there = id == number::MAP_LOOKUP_ELEM
                    && map
                        .is_some_and(|map| matches!(map.spec().kind, MapKind::Array | MapKind::PerCpuArray))
                    && self.is_zero(&held, key);
                Ok(())
            }
            Arg::Value => {
                self.memory_argument(slot, reg, &held, value, Access::Read, "memory with a value of the map")
            }
            Arg::ValueOut => {
                self.memory_argument(slot, reg, &held, value, Access::Write, "memory for a value of the map")
            }
            Arg::NumberOut => {
                self.memory_argument(slot, reg, &held, 8, Access::Write, "eight bytes of memory")
            }
            Arg::Context => match held.kind {
                Kind::Context if held.off == 0 && held.number.value() == Some(0) => Ok(()),
                Kind::Context => Err((slot, Reason::MovedContext { reg })),
                _ => wrong(self, "the context, which r1 was at the beginning"),
            },
            Arg::Memory => {
                told.memory = Some((reg, Access::Read, false));
                Ok(())
            }
            Arg::MemoryOut | Arg::MemoryOutOrNull => {
                told.memory = Some((reg, Access::Write, arg == Arg::MemoryOutOrNull));
                Ok(())
            }
            Arg::Size | Arg::SizeOrZero => {
                if held.kind != Kind::Number {
                    return wrong(self, "a size");
                }
                let number = held.number;
                let holds = self.in_words(&held);
                if number.smin < 0 {
                    return Err((slot, Reason::Negative { reg, holds }));
                }
                if number.umax >= FAR as u64 {
                    return Err((slot, Reason::Unbounded { reg, holds }));
                }
                if number.umin == 0 && arg == Arg::Size {
                    return Err((slot, Reason::ZeroSize { reg }));
                }
                told.most_bytes = number.umax as i64;
                let Some((memory, access, or_null)) = told.memory else { return Ok(()) };
                let pointer = *self.state.reg(memory);
                let null = pointer.kind == Kind::Number && pointer.number.value() == Some(0);
                if null && or_null {
                    return Ok(());
                }
                self.memory_argument(
                    slot,
                    memory,
                    &pointer,
                    number.umax as i64,
                    access,
                    "memory of that size",
                )
            }
            Arg::Reserved => match held.number.value() {
                Some(bytes) if held.kind == Kind::Number && bytes < FAR as u64 => {
                    told.reserved = bytes as u32;
                    Ok(())
                }
                _ => wrong(self, "a constant number of bytes"),
            },
            Arg::Reservation => match held.kind {
                Kind::Reserved(_) if held.off == 0 && held.number.value() == Some(0) => {
                    told.reservation = held.reservation;
                    Ok(())
                }
                Kind::Reserved(_) => Err((slot, Reason::MovedReservation { reg })),
                kind if kind.may_be_null() => {
                    Err((slot, Reason::MaybeNull { reg, holds: self.in_words(&held) }))
                }
                _ => wrong(self, "the beginning of what bpf_ringbuf_reserve gave"),
            },
            Arg::Text => self.text(slot, reg, &held),
            Arg::Callback => {
                let Kind::Function(function) = held.kind else {
                    return wrong(self, "a function of this program");
                };
                told.callback = Some(function);
                Ok(())
            }
            Arg::CallbackData => match held.kind {
                Kind::Stack(_) => {
                    told.data = Some(held);
                    Ok(())
                }
                _ if is_null => {
                    told.data = Some(held);
                    Ok(())
                }
                _ => wrong(self, "memory of the stack, or 0"),
            },
        }
    }

    /// Memory of a size that a helper reads or writes.
    fn memory_argument(
        &mut self,
        slot: usize,
        reg: Reg,
        held: &Held,
        size: i64,
        access: Access,
        wants: &'static str,
    ) -> Checked<()> {
        let is_memory = matches!(held.kind, Kind::Stack(_) | Kind::Value(_) | Kind::Reserved(_));
        if !is_memory && !held.kind.may_be_null() {
            let holds = self.in_words(held);
            return Err((slot, Reason::Argument { reg, holds, wants }));
        }
        let place = self.reach(slot, (reg, held), 0, size, access)?;
        if let (Some((frame, first, last)), Access::Write) = (place, access) {
            self.smear(frame, first, last + size);
        }
        Ok(())
    }

    /// Whether so many bytes of a stack are all zero.
    fn is_zero(&self, held: &Held, size: i64) -> bool {
        let (Kind::Stack(frame), Some(more)) = (held.kind, held.number.value()) else { return false };
        let from = i64::from(held.off) + more as i64;
        (from..from + size).all(|off| {
            let (index, at) = Frame::word_at(off);
            matches!(self.state.frames[usize::from(frame)].word(index), Word::Bytes(found) if found[at] == Byte::Zero)
        })
    }

    /// A text in a map that nobody changes.
    fn text(&mut self, slot: usize, reg: Reg, held: &Held) -> Checked<()> {
        const WANTS: &str = "a text in a map that programs only read and that is frozen";
        let found = match held.kind {
            Kind::Value(map) => self.maps.get(map).ok().filter(|map| map.is_constant()),
            _ => None,
        };
        let at = held.number.value().and_then(|more| usize::try_from(i64::from(held.off) + more as i64).ok());
        let text = found.and_then(|map| map.cell_value(0)?.get(at?..));
        if text.is_some_and(|text| text.contains(&0)) {
            return Ok(());
        }
        let holds = self.in_words(held);
        Err((slot, Reason::Argument { reg, holds, wants: WANTS }))
    }

    /// Maps that a helper is for, and what programs may do with them.
    fn map_is_for(&self, slot: usize, id: u32, map: MapId, reg: Reg) -> Checked<()> {
        let found = self.maps.get(map).map_err(|_| (slot, Reason::NoMap { map: map.0 as i32 }))?;
        let kind = found.spec().kind;
        let fits = match id {
            number::TAIL_CALL => kind == MapKind::ProgArray,
            number::PERF_EVENT_OUTPUT | number::PERF_EVENT_READ | number::PERF_EVENT_READ_VALUE => {
                kind == MapKind::PerfEventArray
            }
            number::CURRENT_TASK_UNDER_CGROUP => kind == MapKind::CgroupArray,
            number::GET_STACKID => kind == MapKind::StackTrace,
            number::RINGBUF_OUTPUT | number::RINGBUF_RESERVE | number::RINGBUF_QUERY => {
                kind == MapKind::RingBuf
            }
            number::MAP_PUSH_ELEM | number::MAP_POP_ELEM | number::MAP_PEEK_ELEM => {
                matches!(kind, MapKind::Queue | MapKind::Stack)
            }
            number::MAP_LOOKUP_PERCPU_ELEM => kind.is_per_cpu(),
            _ => kind.has_values(),
        };
        if !fits {
            return Err((slot, Reason::MapForOthers { number: id, kind: kind.in_words().into() }));
        }
        let changes = matches!(
            id,
            number::MAP_UPDATE_ELEM | number::MAP_DELETE_ELEM | number::MAP_PUSH_ELEM | number::MAP_POP_ELEM
        );
        if changes && !found.is_writable_by_programs() {
            return Err((slot, Reason::ReadOnly { reg }));
        }
        let looks =
            matches!(id, number::MAP_LOOKUP_ELEM | number::MAP_PEEK_ELEM | number::MAP_LOOKUP_PERCPU_ELEM);
        if looks && !found.is_readable_by_programs() {
            return Err((slot, Reason::WriteOnly { reg }));
        }
        Ok(())
    }

    /// A reservation is over: what points there points nowhere.
    fn given_back(&mut self, reservation: u32) {
        self.state.reservations.retain(|known| known.0 != reservation);
        self.state.each(|held| {
            if held.reservation == reservation && held.kind.is_pointer() {
                *held = Held::number(Scalar::UNKNOWN);
            }
        });
    }

    /// Enters a function; its registers are set from those of the caller.
    pub(super) fn enter(
        &mut self,
        slot: usize,
        call: usize,
        turns: Option<Turns>,
        arguments: impl FnOnce(&Frame, &mut Frame),
    ) -> Checked<()> {
        let depth = self.state.frames.len();
        if depth >= FRAMES {
            return Err((slot, Reason::TooDeep { most: FRAMES }));
        }
        let mut frame = Frame::new(depth, call, turns);
        arguments(self.state.frame(), &mut frame);
        let live = self.flow.live.get(call + 1).copied().unwrap_or(u16::MAX);
        let caller = self.state.frame_mut();
        if turns.is_none() {
            clear_arguments(caller);
            caller.regs[0] = Held::UNSET;
            for number in 6..10 {
                if live & 1 << number == 0 {
                    caller.regs[number] = Held::UNSET;
                }
            }
        }
        self.state.frames.push(frame);
        Ok(())
    }

    /// Returns from a function, or ends.
    pub(super) fn exit(&mut self, slot: usize) -> Checked<Next> {
        let depth = self.state.frames.len();
        let result = self.read(slot, Reg::R0)?;
        if depth == 1 {
            return match self.state.reservations.first() {
                Some(kept) => Err((slot, Reason::Kept { call: kept.1 })),
                None => Ok(Next::End),
            };
        }
        if matches!(result.kind, Kind::Stack(frame) if usize::from(frame) == depth - 1) {
            return Err((slot, Reason::ReturnsStack));
        }
        let Some(left) = self.state.frames.pop() else { return Ok(Next::End) };
        // Pointers into the stack that is gone point nowhere.
        let gone = (depth - 1) as u8;
        self.state.each(|held| {
            if held.kind == Kind::Stack(gone) {
                *held = Held::number(Scalar::UNKNOWN);
            }
        });
        if left.turns.is_some() {
            if result.kind != Kind::Number || !Scalar::between(0, 1).contains(&result.number) {
                return Err((slot, Reason::Turns { holds: self.in_words(&result) }));
            }
            self.widen();
            self.after_turn = left.turns;
            return Ok(Next::Slot(left.call));
        }
        self.state.frame_mut().regs[0] = result;
        Ok(Next::Slot(left.call + 1))
    }

    /// After a turn numbers on stacks may be anything: so that turns come to an end here that covers all others.
    fn widen(&mut self) {
        for frame in &mut self.state.frames {
            for word in &mut frame.stack {
                match word {
                    Word::Spilled(held) if held.kind == Kind::Number => {
                        *held = Held::number(Scalar::UNKNOWN);
                    }
                    Word::Bytes(found) => {
                        for byte in found.iter_mut().filter(|byte| **byte == Byte::Zero) {
                            *byte = Byte::Any;
                        }
                    }
                    Word::Spilled(_) => {}
                }
            }
        }
    }
}

/// Calls leave nothing in the registers of arguments.
fn clear_arguments(frame: &mut Frame) {
    frame.regs[1..=5].fill(Held::UNSET);
}
