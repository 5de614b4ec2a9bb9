//! The ways through a program, before anything is known of values: where instructions lead, which belong to which function,
//! which registers are read later. Programs that go nowhere are refused here.

use super::refusal::Reason;
use crate::helper;
use crate::insn::{AtomicOp, Constant, Insn, Operand, Reg};
use alloc::vec;
use alloc::vec::Vec;

/// What is known of each slot.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Ways that join here, or that go back to here: worth remembering what was known.
    pub(crate) joins: Vec<bool>,
    /// Registers that are read after coming here, by bits.
    pub(crate) live: Vec<u16>,
}

/// The registers that an instruction reads and writes, by bits.
fn uses(insn: &Insn) -> (u16, u16) {
    let bit = |reg: Reg| 1u16 << reg.number();
    let of = |src: Operand| match src {
        Operand::Reg(reg) => bit(reg),
        Operand::Imm(_) => 0,
    };
    const CALLED: u16 = 0b11_1111;
    match *insn {
        Insn::Alu { op: crate::insn::AluOp::Mov, dst, src, .. } => (of(src), bit(dst)),
        Insn::Alu { dst, src, .. } => (bit(dst) | of(src), bit(dst)),
        Insn::Neg { dst, .. } | Insn::Swap { dst, .. } => (bit(dst), bit(dst)),
        Insn::Extend { dst, src, .. } => (bit(src), bit(dst)),
        Insn::Constant { dst, .. } => (0, bit(dst)),
        Insn::Load { dst, base, .. } | Insn::LoadAcquire { dst, base, .. } => (bit(base), bit(dst)),
        Insn::Store { base, src, .. } => (bit(base) | of(src), 0),
        Insn::StoreRelease { base, src, .. } => (bit(base) | bit(src), 0),
        Insn::Atomic { op: AtomicOp::CmpXchg, base, src, .. } => (bit(base) | bit(src) | 1, 1),
        Insn::Atomic { op, base, src, .. } => (bit(base) | bit(src), if op.fetches() { bit(src) } else { 0 }),
        Insn::Packet { index, .. } => (1 << 6 | index.map_or(0, bit), CALLED),
        Insn::If { dst, src, .. } => (bit(dst) | of(src), 0),
        Insn::CallHelper(number) => {
            let count = helper::helper(number).map_or(5, |helper| match number {
                helper::number::TRACE_PRINTK => 5,
                _ => helper.args.len(),
            });
            (((1u16 << count) - 1) << 1, CALLED)
        }
        Insn::CallLocal(_) => (0b11_1110, CALLED),
        Insn::CallKernel { .. } => (0b11_1110, CALLED),
        Insn::Exit => (1, 0),
        Insn::Goto(_) | Insn::GotoLong(_) | Insn::MayGoto(_) => (0, 0),
    }
}

/// Where an instruction leads within its function: on, and to another slot.
fn ways(slot: usize, insn: &Insn) -> (bool, Option<i64>) {
    let to = |off: i32| Some(slot as i64 + 1 + i64::from(off));
    match *insn {
        Insn::Goto(off) => (false, to(i32::from(off))),
        Insn::GotoLong(off) => (false, to(off)),
        Insn::MayGoto(off) | Insn::If { off, .. } => (true, to(i32::from(off))),
        Insn::Exit => (false, None),
        _ => (true, None),
    }
}

/// The slot that a distance leads to, if an instruction begins there.
pub(crate) fn target(slots: &[Option<Insn>], slot: usize, off: i32) -> Result<usize, (usize, Reason)> {
    let to = slot as i64 + 1 + i64::from(off);
    match usize::try_from(to).ok().and_then(|to| slots.get(to).map(|insn| (to, insn))) {
        None => Err((slot, Reason::JumpOutside { to })),
        Some((to, None)) => Err((slot, Reason::JumpIntoConstant { to })),
        Some((to, Some(_))) => Ok(to),
    }
}

impl Flow {
    /// Looks at all slots.
    pub(crate) fn of(slots: &[Option<Insn>]) -> Result<Flow, (usize, Reason)> {
        let len = slots.len();
        // Functions begin where calls and pointers lead.
        let mut begins = vec![false; len];
        begins[0] = true;
        for (slot, insn) in slots.iter().enumerate() {
            if let Some(Insn::CallLocal(off) | Insn::Constant { value: Constant::Function(off), .. }) = insn {
                begins[target(slots, slot, *off)?] = true;
            }
        }
        let function: Vec<usize> = begins
            .iter()
            .scan(0, |count, begins| {
                *count += usize::from(*begins);
                Some(*count)
            })
            .collect();
        let mut joins = vec![false; len];
        let mut ways_in = vec![0u8; len];
        for (slot, insn) in slots.iter().enumerate() {
            let Some(insn) = insn else { continue };
            let (goes_on, to) = ways(slot, insn);
            let next = slot + insn.slots();
            if let Some(to) = to {
                let to = target(slots, slot, i32::try_from(to - slot as i64 - 1).unwrap_or(i32::MAX))?;
                if function[to] != function[slot] {
                    return Err((slot, Reason::JumpOutside { to: to as i64 }));
                }
                joins[to] |= to <= slot;
                ways_in[to] = ways_in[to].saturating_add(1);
            }
            if goes_on {
                if next >= len || begins[next] {
                    return Err((slot, Reason::FallsOff));
                }
                ways_in[next] = ways_in[next].saturating_add(1);
            }
            // The verifier comes back to calls that take turns.
            joins[slot] |= matches!(insn, Insn::CallHelper(helper::number::LOOP));
        }
        for (slot, ways) in ways_in.iter().enumerate() {
            joins[slot] |= *ways > 1;
        }
        reachable(slots, &begins)?;
        Ok(Flow { joins, live: live(slots) })
    }
}

/// All instructions of functions that are called are reached from somewhere.
fn reachable(slots: &[Option<Insn>], begins: &[bool]) -> Result<(), (usize, Reason)> {
    let mut reached = vec![false; slots.len()];
    let mut open: Vec<usize> =
        begins.iter().enumerate().filter(|(_, begins)| **begins).map(|(slot, _)| slot).collect();
    while let Some(slot) = open.pop() {
        if core::mem::replace(&mut reached[slot], true) {
            continue;
        }
        let Some(insn) = &slots[slot] else { continue };
        let (goes_on, to) = ways(slot, insn);
        open.extend(to.and_then(|to| usize::try_from(to).ok()));
        if goes_on {
            open.push(slot + insn.slots());
        }
    }
    match slots.iter().zip(&reached).position(|(insn, reached)| insn.is_some() && !reached) {
        Some(slot) => Err((slot, Reason::Unreachable)),
        None => Ok(()),
    }
}

/// Registers that are read later, from each slot on; the arguments of functions are taken for read.
fn live(slots: &[Option<Insn>]) -> Vec<u16> {
    let mut live = vec![0u16; slots.len()];
    loop {
        let mut changed = false;
        for (slot, insn) in slots.iter().enumerate().rev() {
            let Some(insn) = insn else { continue };
            let (goes_on, to) = ways(slot, insn);
            let after = |slot: usize| live.get(slot).copied().unwrap_or(0);
            let mut out = to.and_then(|to| usize::try_from(to).ok()).map_or(0, after);
            if goes_on {
                out |= after(slot + insn.slots());
            }
            let (reads, writes) = uses(insn);
            let before = out & !writes | reads;
            changed |= before != live[slot];
            live[slot] = before;
        }
        if !changed {
            return live;
        }
    }
}
