//! DR0 to DR3 with addresses, DR7 with their kinds and lengths, DR6 that tells which was hit.

use super::HwBreakpoint;
use crate::ptrace::{self, SignalInfo, Tid};
use perfuse_abi::{Breakpoint, Errno};

/// Where the debug registers lie in the kernel's `struct user`.
const REGISTERS: usize = 848;
const STATUS: usize = 6;
const CONTROL: usize = 7;
const SLOTS: usize = 4;

/// DR6 with no bit set: its reserved ones are always.
const NOTHING: u64 = 0xffff_0ff0;

fn set(tid: Tid, register: usize, value: u64) -> Result<(), Errno> {
    ptrace::poke_user(tid, REGISTERS + 8 * register, value)
}

/// The bits of a slot in DR7.
fn control(slot: usize, breakpoint: &HwBreakpoint) -> u64 {
    let kind = match breakpoint.kind {
        Breakpoint::X => 0,
        Breakpoint::W => 1,
        _ => 3,
    };
    // The length of a breakpoint on code is that of the address, in spite of the one that was asked for.
    let len = match (kind, breakpoint.len) {
        (0, _) | (_, 1) => 0,
        (_, 2) => 1,
        (_, 4) => 3,
        _ => 2,
    };
    (kind | len << 2) << (16 + 4 * slot) | 1 << (2 * slot)
}

pub(super) fn arm(tid: Tid, breakpoints: &[HwBreakpoint]) -> Result<(), Errno> {
    if breakpoints.len() > SLOTS {
        return Err(Errno::ENOSPC);
    }
    set(tid, CONTROL, 0)?;
    let mut all = 0;
    for (slot, breakpoint) in breakpoints.iter().enumerate() {
        set(tid, slot, breakpoint.addr)?;
        all |= control(slot, breakpoint);
    }
    if all == 0 {
        return Ok(());
    }
    set(tid, STATUS, NOTHING)?;
    set(tid, CONTROL, all)
}

/// Data is watched past the access, and Linux sees to it that code goes on.
pub(super) fn hit(tid: Tid, _info: &SignalInfo, armed: &[HwBreakpoint]) -> Result<Vec<usize>, Errno> {
    let status = ptrace::peek_user(tid, REGISTERS + 8 * STATUS)?;
    // Older kernels add to it.
    set(tid, STATUS, NOTHING)?;
    Ok((0..armed.len()).filter(|slot| status & 1 << slot != 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched_is_told_as_the_processor_wants_it() {
        let told = |slot, kind, len| control(slot, &HwBreakpoint { kind, addr: 0, len });
        assert_eq!(told(0, Breakpoint::W, 1), 0x0001_0001);
        assert_eq!(told(0, Breakpoint::RW, 8), 0x000b_0001);
        assert_eq!(told(1, Breakpoint::W, 4), 0x00d0_0004);
        assert_eq!(told(3, Breakpoint::X, 8), 0x0000_0040);
    }
}
