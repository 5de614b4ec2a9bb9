//! The interpreter: runs a [`Code`] on a [`Memory`] until it returns, faults, or has spent its budget. Opcodes are those of the
//! instruction set, with jumps, maps and signed forms made ready beforehand, so that a step is one `match`. Helpers are
//! carried out in [`call`].

mod call;

use crate::insn::{AluOp, AtomicOp, Constant, Insn, Operand, Size, SwapOp, Width, by_slot};
use crate::map::{MapId, Maps};
use crate::memory::{CONTEXT_POINTER, FRAMES, Memory, frame_pointer, function_pointer, map_pointer};
use crate::world::World;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// Programs that go on in each other (`MAX_TAIL_CALL_CNT`).
const TAIL_CALLS: u32 = 33;

/// Why a run ended before its program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The budget of instructions is spent.
    Budget,
    /// An instruction touched what is not the program's; the verifier lets no such program through.
    Access {
        /// The slot of the instruction.
        slot: usize,
        /// The pointer.
        pointer: u64,
        /// Bytes.
        len: usize,
    },
    /// Too many functions called each other.
    Depth {
        /// The slot of the call.
        slot: usize,
    },
    /// No instruction is here, or none that is run here.
    Instruction {
        /// The slot.
        slot: usize,
    },
    /// A helper that is not run here, or with arguments that it cannot take.
    Helper {
        /// The slot of the call.
        slot: usize,
        /// Its number.
        number: u32,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Budget => write!(f, "the program has spent its budget of instructions"),
            Fault::Access { slot, pointer, len } => {
                write!(
                    f,
                    "instruction {slot} touches {len} bytes at {pointer:#x}, which are not the program's"
                )
            }
            Fault::Depth { slot } => {
                write!(f, "instruction {slot} calls a ninth function; 8 may call each other")
            }
            Fault::Instruction { slot } => write!(f, "there is no instruction {slot} that can be run here"),
            Fault::Helper { slot, number } => {
                let name = crate::helper::name(*number).unwrap_or("unknown");
                write!(f, "instruction {slot} calls bpf_{name}#{number}, which cannot do this here")
            }
        }
    }
}

impl core::error::Error for Fault {}

/// A step.
#[derive(Clone, Copy, Debug)]
struct Op {
    code: u8,
    dst: u8,
    src: u8,
    /// A distance of memory, or the slot to go to.
    off: i32,
    imm: u64,
}

/// Opcodes that the instruction set does not use.
mod own {
    /// No instruction.
    pub(super) const NONE: u8 = 0x00;
    pub(super) const EXTEND64: u8 = 0xe7;
    pub(super) const EXTEND32: u8 = 0xe4;
    pub(super) const SDIV64: u8 = 0xf7;
    pub(super) const SDIV32: u8 = 0xf4;
    pub(super) const SMOD64: u8 = 0xff;
    pub(super) const SMOD32: u8 = 0xfc;
    pub(super) const CALL_LOCAL: u8 = 0x8d;
    pub(super) const SWAP: u8 = 0xef;
    pub(super) const ATOMIC64: u8 = 0xdb;
    pub(super) const ATOMIC32: u8 = 0xc3;
}

/// A program made ready to run.
#[derive(Clone, Debug)]
pub struct Code {
    ops: Vec<Op>,
}

impl Code {
    /// Makes instructions ready; `maps` are those of indices (`map[idx:0]`), while descriptors (`map[fd:3]`) are numbers of maps.
    /// What cannot be run here becomes a fault where it is reached.
    pub fn new(insns: &[Insn], indices: &[MapId]) -> Self {
        let slots = by_slot(insns);
        let ops = slots.iter().enumerate().map(|(slot, insn)| op(slot, *insn, indices)).collect();
        Code { ops }
    }
}

fn op(slot: usize, insn: Option<Insn>, indices: &[MapId]) -> Op {
    let none = Op { code: own::NONE, dst: 0, src: 0, off: 0, imm: 0 };
    let Some(insn) = insn else { return none };
    let first = insn.encode().0;
    let plain = Op {
        code: first.code,
        dst: first.dst,
        src: first.src,
        off: i32::from(first.off),
        imm: first.imm as i64 as u64,
    };
    // A distance that leads nowhere ends at a slot that is not there.
    let target = |off: i32| i32::try_from(slot as i64 + 1 + i64::from(off)).unwrap_or(-1);
    match insn {
        Insn::Alu { width, op: AluOp::SDiv | AluOp::SMod, src, .. } => {
            let division = first.code & 0xf0 == 0x30;
            let code = match (width, division) {
                (Width::W64, true) => own::SDIV64,
                (Width::W32, true) => own::SDIV32,
                (Width::W64, false) => own::SMOD64,
                (Width::W32, false) => own::SMOD32,
            };
            Op { code, off: i32::from(matches!(src, Operand::Reg(_))), ..plain }
        }
        Insn::Extend { width, bits, .. } => Op {
            code: if width == Width::W64 { own::EXTEND64 } else { own::EXTEND32 },
            imm: 64 - u64::from(bits),
            ..plain
        },
        Insn::Swap { op, bits, .. } => {
            let turns = match op {
                SwapOp::Le => cfg!(target_endian = "big"),
                SwapOp::Be => cfg!(target_endian = "little"),
                SwapOp::Swap => true,
            };
            Op { code: own::SWAP, off: i32::from(turns), imm: u64::from(bits), ..plain }
        }
        Insn::Constant { value, .. } => {
            let of_index =
                |index: i32| usize::try_from(index).ok().and_then(|index| indices.get(index).copied());
            // Of the value of a map, what is added to its pointer stands in `off`.
            let (imm, off) = match value {
                Constant::Value(value) => (Some(value), -1),
                Constant::Map(fd) => (Some(map_pointer(MapId(fd as u32))), -1),
                Constant::MapIndex(index) => (of_index(index).map(map_pointer), -1),
                Constant::MapValue(fd, at) => (Some(u64::from(fd as u32)), at),
                Constant::MapIndexValue(index, at) => (of_index(index).map(|map| u64::from(map.0)), at),
                Constant::Function(at) => (Some(function_pointer(target(at) as usize)), -1),
                Constant::Variable(..) => (None, 0),
            };
            imm.map_or(none, |imm| Op { off, imm, ..plain })
        }
        Insn::Goto(off) => Op { off: target(i32::from(off)), ..plain },
        Insn::GotoLong(off) => Op { code: 0x05, off: target(off), ..plain },
        // As if there were always time; the budget ends it.
        Insn::MayGoto(_) => Op { code: 0x05, off: target(0), ..plain },
        Insn::If { off, .. } => Op { off: target(i32::from(off)), ..plain },
        Insn::CallHelper(number) => Op { imm: u64::from(number), ..plain },
        Insn::CallLocal(off) => Op { code: own::CALL_LOCAL, off: target(off), ..plain },
        Insn::CallKernel { .. } => none,
        Insn::Atomic { size, .. } => {
            Op { code: if size == Size::B8 { own::ATOMIC64 } else { own::ATOMIC32 }, ..plain }
        }
        Insn::LoadAcquire { size, dst, base, off } => {
            op(slot, Some(Insn::Load { size, signed: false, dst, base, off }), indices)
        }
        Insn::StoreRelease { size, base, off, src } => {
            op(slot, Some(Insn::Store { size, base, off, src: Operand::Reg(src) }), indices)
        }
        _ => plain,
    }
}

/// What a caller wants back: where it goes on, and its registers.
#[derive(Debug)]
struct Frame<'w> {
    code: &'w Code,
    slot: usize,
    kept: [u64; 4],
    /// The function is called again and again, for a helper.
    turns: Option<call::Turns>,
}

/// What a run may use.
pub(crate) struct Run<'a, 'w> {
    pub(crate) memory: Memory<'a>,
    pub(crate) world: &'w mut dyn World,
    /// Programs by the owner's number, for tail calls.
    pub(crate) programs: &'w dyn Fn(u32) -> Option<&'w Code>,
    /// Instructions that may still be run.
    pub(crate) budget: u64,
    /// What `r1` and `r2` are at the beginning.
    pub(crate) arguments: [u64; 2],
}

impl<'a, 'w> Run<'a, 'w> {
    pub(crate) fn new(
        maps: &'a mut Maps,
        context: &'a mut [u8],
        world: &'w mut dyn World,
        programs: &'w dyn Fn(u32) -> Option<&'w Code>,
        budget: u64,
    ) -> Self {
        let stack = Box::new([0; crate::memory::FRAME * FRAMES]);
        let memory = Memory { stack, context, reservations: Vec::new(), maps };
        Run { memory, world, programs, budget, arguments: [CONTEXT_POINTER, 0] }
    }

    /// Runs a program from its beginning.
    pub(crate) fn run(&mut self, code: &'w Code) -> Result<u64, Fault> {
        let result = self.steps(code);
        // What was reserved and not given back, which only a fault leaves behind, is thrown away.
        for reservation in &mut self.memory.reservations {
            if reservation.open {
                if let Some(ring) = self.memory.maps.get_mut(reservation.ring).ok().and_then(|map| map.ring())
                {
                    ring.commit(reservation.at, &[], true);
                }
            }
        }
        result
    }

    #[allow(clippy::too_many_lines, reason = "an arm for each opcode")]
    fn steps(&mut self, mut code: &'w Code) -> Result<u64, Fault> {
        let mut regs = [0u64; 16];
        let mut frames: Vec<Frame<'w>> = Vec::new();
        let mut tail_calls = 0;
        (regs[1], regs[2], regs[10]) = (self.arguments[0], self.arguments[1], frame_pointer(0));
        let mut pc = 0usize;
        // The budget is charged where a stretch of instructions ends: at jumps, calls and returns.
        let mut ops: &[Op] = &code.ops;
        let mut begin = 0usize;
        macro_rules! charge {
            () => {
                match self.budget.checked_sub((pc - begin) as u64) {
                    Some(rest) => self.budget = rest,
                    None => {
                        self.budget = 0;
                        return Err(Fault::Budget);
                    }
                }
            };
        }
        macro_rules! jump {
            ($to:expr) => {{
                charge!();
                pc = $to;
                begin = pc;
            }};
        }
        macro_rules! dst {
            ($op:ident) => {
                regs[($op.dst & 15) as usize]
            };
        }
        macro_rules! src {
            ($op:ident) => {
                regs[($op.src & 15) as usize]
            };
        }
        macro_rules! go {
            ($op:ident, $if:expr) => {
                if $if {
                    jump!($op.off as u32 as usize);
                }
            };
        }
        macro_rules! low {
            ($value:expr) => {
                u64::from($value as u32)
            };
        }
        macro_rules! load {
            ($op:ident, $size:expr, $as:ty) => {{
                let pointer = src!($op).wrapping_add($op.off as i64 as u64);
                let value = self.memory.load(pointer, $size);
                let value =
                    value.ok_or(Fault::Access { slot: pc - 1, pointer, len: $size.bytes() as usize })?;
                dst!($op) = value as $as as i64 as u64;
            }};
        }
        macro_rules! store {
            ($op:ident, $size:expr, $value:expr) => {{
                let pointer = dst!($op).wrapping_add($op.off as i64 as u64);
                let stored = self.memory.store(pointer, $size, $value);
                stored.ok_or(Fault::Access { slot: pc - 1, pointer, len: $size.bytes() as usize })?;
            }};
        }
        loop {
            let Some(op) = ops.get(pc) else { return Err(Fault::Instruction { slot: pc }) };
            pc += 1;
            match op.code {
                0x07 => dst!(op) = dst!(op).wrapping_add(op.imm),
                0x0f => dst!(op) = dst!(op).wrapping_add(src!(op)),
                0x17 => dst!(op) = dst!(op).wrapping_sub(op.imm),
                0x1f => dst!(op) = dst!(op).wrapping_sub(src!(op)),
                0x27 => dst!(op) = dst!(op).wrapping_mul(op.imm),
                0x2f => dst!(op) = dst!(op).wrapping_mul(src!(op)),
                0x37 => dst!(op) = dst!(op).checked_div(op.imm).unwrap_or(0),
                0x3f => dst!(op) = dst!(op).checked_div(src!(op)).unwrap_or(0),
                0x47 => dst!(op) |= op.imm,
                0x4f => dst!(op) |= src!(op),
                0x57 => dst!(op) &= op.imm,
                0x5f => dst!(op) &= src!(op),
                0x67 => dst!(op) = dst!(op).wrapping_shl(op.imm as u32),
                0x6f => dst!(op) = dst!(op).wrapping_shl(src!(op) as u32),
                0x77 => dst!(op) = dst!(op).wrapping_shr(op.imm as u32),
                0x7f => dst!(op) = dst!(op).wrapping_shr(src!(op) as u32),
                0x87 => dst!(op) = dst!(op).wrapping_neg(),
                0x97 => dst!(op) = dst!(op).checked_rem(op.imm).unwrap_or(dst!(op)),
                0x9f => dst!(op) = dst!(op).checked_rem(src!(op)).unwrap_or(dst!(op)),
                0xa7 => dst!(op) ^= op.imm,
                0xaf => dst!(op) ^= src!(op),
                0xb7 => dst!(op) = op.imm,
                0xbf => dst!(op) = src!(op),
                0xc7 => dst!(op) = (dst!(op) as i64).wrapping_shr(op.imm as u32) as u64,
                0xcf => dst!(op) = (dst!(op) as i64).wrapping_shr(src!(op) as u32) as u64,

                0x04 => dst!(op) = low!(dst!(op).wrapping_add(op.imm)),
                0x0c => dst!(op) = low!(dst!(op).wrapping_add(src!(op))),
                0x14 => dst!(op) = low!(dst!(op).wrapping_sub(op.imm)),
                0x1c => dst!(op) = low!(dst!(op).wrapping_sub(src!(op))),
                0x24 => dst!(op) = low!(dst!(op).wrapping_mul(op.imm)),
                0x2c => dst!(op) = low!(dst!(op).wrapping_mul(src!(op))),
                0x34 => dst!(op) = low!((dst!(op) as u32).checked_div(op.imm as u32).unwrap_or(0)),
                0x3c => dst!(op) = low!((dst!(op) as u32).checked_div(src!(op) as u32).unwrap_or(0)),
                0x44 => dst!(op) = low!(dst!(op) | op.imm),
                0x4c => dst!(op) = low!(dst!(op) | src!(op)),
                0x54 => dst!(op) = low!(dst!(op) & op.imm),
                0x5c => dst!(op) = low!(dst!(op) & src!(op)),
                0x64 => dst!(op) = low!((dst!(op) as u32).wrapping_shl(op.imm as u32)),
                0x6c => dst!(op) = low!((dst!(op) as u32).wrapping_shl(src!(op) as u32)),
                0x74 => dst!(op) = low!((dst!(op) as u32).wrapping_shr(op.imm as u32)),
                0x7c => dst!(op) = low!((dst!(op) as u32).wrapping_shr(src!(op) as u32)),
                0x84 => dst!(op) = low!((dst!(op) as u32).wrapping_neg()),
                0x94 => {
                    let value = dst!(op) as u32;
                    dst!(op) = low!(value.checked_rem(op.imm as u32).unwrap_or(value));
                }
                0x9c => {
                    let value = dst!(op) as u32;
                    dst!(op) = low!(value.checked_rem(src!(op) as u32).unwrap_or(value));
                }
                0xa4 => dst!(op) = low!(dst!(op) ^ op.imm),
                0xac => dst!(op) = low!(dst!(op) ^ src!(op)),
                0xb4 => dst!(op) = low!(op.imm),
                0xbc => dst!(op) = low!(src!(op)),
                0xc4 => dst!(op) = low!((dst!(op) as i32).wrapping_shr(op.imm as u32)),
                0xcc => dst!(op) = low!((dst!(op) as i32).wrapping_shr(src!(op) as u32)),

                own::EXTEND64 => dst!(op) = ((src!(op) << op.imm) as i64 >> op.imm) as u64,
                own::EXTEND32 => dst!(op) = low!((src!(op) << op.imm) as i64 >> op.imm),
                own::SWAP => {
                    let value = dst!(op);
                    dst!(op) = match (op.imm, op.off != 0) {
                        (16, true) => u64::from((value as u16).swap_bytes()),
                        (32, true) => u64::from((value as u32).swap_bytes()),
                        (_, true) => value.swap_bytes(),
                        (16, false) => u64::from(value as u16),
                        (32, false) => low!(value),
                        (_, false) => value,
                    };
                }
                own::SDIV64 | own::SMOD64 => {
                    let by = if op.off != 0 { src!(op) } else { op.imm } as i64;
                    let value = dst!(op) as i64;
                    dst!(op) = match (op.code, by) {
                        (own::SDIV64, 0) => 0,
                        (_, 0) => value as u64,
                        (own::SDIV64, _) => value.wrapping_div(by) as u64,
                        _ => value.wrapping_rem(by) as u64,
                    };
                }
                own::SDIV32 | own::SMOD32 => {
                    let by = if op.off != 0 { src!(op) } else { op.imm } as i32;
                    let value = dst!(op) as i32;
                    dst!(op) = match (op.code, by) {
                        (own::SDIV32, 0) => 0,
                        (_, 0) => low!(value),
                        (own::SDIV32, _) => low!(value.wrapping_div(by)),
                        _ => low!(value.wrapping_rem(by)),
                    };
                }

                0x18 => {
                    let value = match (op.src, op.off) {
                        // The value of a map.
                        (2 | 6, at) => {
                            let begins = self.memory.value_pointer(MapId(op.imm as u32), 0);
                            let begins = begins.ok_or(Fault::Instruction { slot: pc - 1 })?;
                            begins.wrapping_add(u64::from(at as u32))
                        }
                        _ => op.imm,
                    };
                    dst!(op) = value;
                    pc += 1;
                }
                0x71 => load!(op, Size::B1, u64),
                0x69 => load!(op, Size::B2, u64),
                0x61 => load!(op, Size::B4, u64),
                0x79 => load!(op, Size::B8, u64),
                0x91 => load!(op, Size::B1, i8),
                0x89 => load!(op, Size::B2, i16),
                0x81 => load!(op, Size::B4, i32),
                0x72 => store!(op, Size::B1, op.imm),
                0x6a => store!(op, Size::B2, op.imm),
                0x62 => store!(op, Size::B4, op.imm),
                0x7a => store!(op, Size::B8, op.imm),
                0x73 => store!(op, Size::B1, src!(op)),
                0x6b => store!(op, Size::B2, src!(op)),
                0x63 => store!(op, Size::B4, src!(op)),
                0x7b => store!(op, Size::B8, src!(op)),
                own::ATOMIC64 | own::ATOMIC32 => {
                    let size = if op.code == own::ATOMIC64 { Size::B8 } else { Size::B4 };
                    let pointer = dst!(op).wrapping_add(op.off as i64 as u64);
                    let fault = Fault::Access { slot: pc - 1, pointer, len: size.bytes() as usize };
                    let old = self.memory.load(pointer, size).ok_or(fault)?;
                    let (with, mut goes_to) = (src!(op), None);
                    let new = match op.imm & 0xfe {
                        0x00 => old.wrapping_add(with),
                        0x40 => old | with,
                        0x50 => old & with,
                        0xa0 => old ^ with,
                        0xe0 => with,
                        _ => {
                            let expected = if size == Size::B8 { regs[0] } else { low!(regs[0]) };
                            goes_to = Some(0);
                            if old == expected { with } else { old }
                        }
                    };
                    self.memory.store(pointer, size, new).ok_or(fault)?;
                    if op.imm & 1 != 0 {
                        regs[goes_to.unwrap_or((op.src & 15) as usize)] = old;
                    }
                }

                0x05 => jump!(op.off as u32 as usize),
                0x15 => go!(op, dst!(op) == op.imm),
                0x1d => go!(op, dst!(op) == src!(op)),
                0x25 => go!(op, dst!(op) > op.imm),
                0x2d => go!(op, dst!(op) > src!(op)),
                0x35 => go!(op, dst!(op) >= op.imm),
                0x3d => go!(op, dst!(op) >= src!(op)),
                0x45 => go!(op, dst!(op) & op.imm != 0),
                0x4d => go!(op, dst!(op) & src!(op) != 0),
                0x55 => go!(op, dst!(op) != op.imm),
                0x5d => go!(op, dst!(op) != src!(op)),
                0x65 => go!(op, dst!(op) as i64 > op.imm as i64),
                0x6d => go!(op, dst!(op) as i64 > src!(op) as i64),
                0x75 => go!(op, dst!(op) as i64 >= op.imm as i64),
                0x7d => go!(op, dst!(op) as i64 >= src!(op) as i64),
                0xa5 => go!(op, dst!(op) < op.imm),
                0xad => go!(op, dst!(op) < src!(op)),
                0xb5 => go!(op, dst!(op) <= op.imm),
                0xbd => go!(op, dst!(op) <= src!(op)),
                0xc5 => go!(op, (dst!(op) as i64) < op.imm as i64),
                0xcd => go!(op, (dst!(op) as i64) < src!(op) as i64),
                0xd5 => go!(op, dst!(op) as i64 <= op.imm as i64),
                0xdd => go!(op, dst!(op) as i64 <= src!(op) as i64),
                0x16 => go!(op, dst!(op) as u32 == op.imm as u32),
                0x1e => go!(op, dst!(op) as u32 == src!(op) as u32),
                0x26 => go!(op, dst!(op) as u32 > op.imm as u32),
                0x2e => go!(op, dst!(op) as u32 > src!(op) as u32),
                0x36 => go!(op, dst!(op) as u32 >= op.imm as u32),
                0x3e => go!(op, dst!(op) as u32 >= src!(op) as u32),
                0x46 => go!(op, dst!(op) as u32 & op.imm as u32 != 0),
                0x4e => go!(op, dst!(op) as u32 & src!(op) as u32 != 0),
                0x56 => go!(op, dst!(op) as u32 != op.imm as u32),
                0x5e => go!(op, dst!(op) as u32 != src!(op) as u32),
                0x66 => go!(op, dst!(op) as i32 > op.imm as i32),
                0x6e => go!(op, dst!(op) as i32 > src!(op) as i32),
                0x76 => go!(op, dst!(op) as i32 >= op.imm as i32),
                0x7e => go!(op, dst!(op) as i32 >= src!(op) as i32),
                0xa6 => go!(op, (dst!(op) as u32) < op.imm as u32),
                0xae => go!(op, (dst!(op) as u32) < src!(op) as u32),
                0xb6 => go!(op, dst!(op) as u32 <= op.imm as u32),
                0xbe => go!(op, dst!(op) as u32 <= src!(op) as u32),
                0xc6 => go!(op, (dst!(op) as i32) < op.imm as i32),
                0xce => go!(op, (dst!(op) as i32) < src!(op) as i32),
                0xd6 => go!(op, dst!(op) as i32 <= op.imm as i32),
                0xde => go!(op, dst!(op) as i32 <= src!(op) as i32),

                own::CALL_LOCAL => {
                    self.enter(&mut frames, &mut regs, code, pc, None)?;
                    jump!(op.off as u32 as usize);
                }
                0x85 => {
                    let number = op.imm as u32;
                    let args = [regs[1], regs[2], regs[3], regs[4], regs[5]];
                    charge!();
                    begin = pc;
                    let done = call::helper(self, number, args);
                    match done.ok_or(Fault::Helper { slot: pc - 1, number })? {
                        call::Done::Number(value) => regs[0] = value,
                        call::Done::Program(next) if tail_calls < TAIL_CALLS => {
                            tail_calls += 1;
                            (code, ops) = (next, &next.ops);
                            (pc, begin) = (0, 0);
                            regs[1] = args[0];
                        }
                        call::Done::Program(_) => regs[0] = 0,
                        call::Done::Turns(turns) => {
                            let args = turns.arguments();
                            match args {
                                Some(args) => {
                                    let to = turns.function;
                                    self.enter(&mut frames, &mut regs, code, pc, Some(turns))?;
                                    regs[1..=4].copy_from_slice(&args);
                                    (pc, begin) = (to, to);
                                }
                                None => regs[0] = turns.made,
                            }
                        }
                    }
                }
                // From the packet: at a place, or at one and what a register says. Without a byte there the program ends.
                0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 => {
                    let more = if op.code & 0xe0 == 0x40 { src!(op) as u32 } else { 0 };
                    let len = [4, 2, 1][usize::from(op.code >> 3 & 3)];
                    let mut bytes = [0; 4];
                    if self.world.packet((op.imm as u32).wrapping_add(more), &mut bytes[4 - len..]).is_err() {
                        charge!();
                        return Ok(0);
                    }
                    regs[0] = u64::from(u32::from_be_bytes(bytes));
                }
                0x95 => {
                    charge!();
                    let Some(mut frame) = frames.pop() else { return Ok(regs[0]) };
                    (code, ops) = (frame.code, &frame.code.ops);
                    if let Some(turns) = &mut frame.turns {
                        turns.made += 1;
                        let next = if regs[0] == 0 { turns.arguments() } else { None };
                        if let Some(args) = next {
                            regs[1..=4].copy_from_slice(&args);
                            (pc, begin) = (turns.function, turns.function);
                            self.memory.clear(frames.len() + 1);
                            frames.push(frame);
                            continue;
                        }
                        regs[0] = turns.made;
                    }
                    (pc, begin) = (frame.slot, frame.slot);
                    regs[6..10].copy_from_slice(&frame.kept);
                    regs[10] = frame_pointer(frames.len());
                }
                _ => return Err(Fault::Instruction { slot: pc - 1 }),
            }
        }
    }

    /// A new frame.
    fn enter(
        &mut self,
        frames: &mut Vec<Frame<'w>>,
        regs: &mut [u64; 16],
        code: &'w Code,
        slot: usize,
        turns: Option<call::Turns>,
    ) -> Result<(), Fault> {
        if frames.len() + 1 >= FRAMES {
            return Err(Fault::Depth { slot: slot - 1 });
        }
        let kept = [regs[6], regs[7], regs[8], regs[9]];
        frames.push(Frame { code, slot, kept, turns });
        regs[10] = frame_pointer(frames.len());
        self.memory.clear(frames.len());
        Ok(())
    }
}

/// Whether the operation gives the value that was there before.
impl AtomicOp {
    pub(crate) fn fetches(self) -> bool {
        !matches!(self, AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor)
    }
}
