//! Two sets of pairs of a value and a control register: one for code, one for data.

use super::HwBreakpoint;
use crate::ptrace::{self, SignalInfo, Tid};
use crate::remote;
use perfuse_abi::{Breakpoint, Errno};

/// `NT_ARM_HW_BREAK` and `NT_ARM_HW_WATCH`.
const SETS: [(i32, bool); 2] = [(0x402, true), (0x403, false)];

/// Most pairs in a set, and the words of `struct user_hwdebug_state`: one about all, two for each pair.
const PAIRS: usize = 16;
const WORDS: usize = 1 + 2 * PAIRS;

fn is_code(breakpoint: &HwBreakpoint) -> bool {
    breakpoint.kind == Breakpoint::X
}

/// The control register: enabled, for user space, on load or store or both, of which bytes from the address
/// (a multiple of 8, or of 4 for code) on.
fn control(breakpoint: &HwBreakpoint) -> u64 {
    let (kind, bytes) = match breakpoint.kind {
        Breakpoint::X => (0, 0xf),
        kind => {
            let bytes = if breakpoint.len >= 8 { 0xff } else { (1 << breakpoint.len) - 1 };
            (u64::from(kind.0 & 3), bytes << (breakpoint.addr & 7))
        }
    };
    1 | 2 << 1 | kind << 3 | (bytes & 0xff) << 5
}

pub(super) fn arm(tid: Tid, breakpoints: &[HwBreakpoint]) -> Result<(), Errno> {
    for (set, code) in SETS {
        let mut words = [0; WORDS];
        ptrace::get_register_set(tid, set, &mut words)?;
        let there = (words[0] & 0xff) as usize;
        let own: Vec<&HwBreakpoint> =
            breakpoints.iter().filter(|breakpoint| is_code(breakpoint) == code).collect();
        if own.len() > there {
            return Err(Errno::ENOSPC);
        }
        for (pair, words) in words[1..].chunks_exact_mut(2).enumerate() {
            let breakpoint = own.get(pair);
            words[0] = breakpoint.map_or(0, |breakpoint| breakpoint.addr & if code { !3 } else { !7 });
            words[1] = breakpoint.map_or(0, |breakpoint| control(breakpoint));
        }
        if there > 0 {
            ptrace::set_register_set(tid, set, &words, 8 * (1 + 2 * there))?;
        }
    }
    Ok(())
}

/// The thread stops before the instruction, which has to be done while nothing is watched.
pub(super) fn hit(tid: Tid, info: &SignalInfo, armed: &[HwBreakpoint]) -> Result<Vec<usize>, Errno> {
    let mut hit = at(info.addr(), armed);
    let only_written = |place: &usize| armed[*place].kind == Breakpoint::W;
    // It is not told whether it was read or written. If it is read, a watchpoint for writes is no obstacle.
    if hit.iter().any(only_written) && !hit.iter().all(only_written) {
        let writes: Vec<HwBreakpoint> =
            hit.iter().copied().filter(only_written).map(|place| armed[place]).collect();
        arm(tid, &writes)?;
        remote::step(tid)?;
        if !super::is_hit(tid) {
            hit.retain(|place| !only_written(place));
            arm(tid, armed)?;
            return Ok(hit);
        }
    }
    arm(tid, &[])?;
    let stepped = remote::step(tid);
    arm(tid, armed)?;
    stepped.map(|_| hit)
}

/// Which are hit by an access at this address.
fn at(addr: u64, armed: &[HwBreakpoint]) -> Vec<usize> {
    let which = |test: &dyn Fn(&HwBreakpoint) -> bool| -> Vec<usize> {
        armed.iter().enumerate().filter(|(_, breakpoint)| test(breakpoint)).map(|(place, _)| place).collect()
    };
    let mut hit = which(&|breakpoint| match is_code(breakpoint) {
        true => breakpoint.addr & !3 == addr,
        false => (breakpoint.addr..breakpoint.addr + breakpoint.len).contains(&addr),
    });
    // An access that is larger than the watched memory tells where it began; up to a cache line, zeroed at once.
    let away = |breakpoint: &HwBreakpoint| breakpoint.addr.abs_diff(addr);
    if hit.is_empty() {
        let nearest = which(&|breakpoint| !is_code(breakpoint) && away(breakpoint) < 64);
        hit.extend(nearest.into_iter().min_by_key(|&place| away(&armed[place])));
    }
    hit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched_is_told_as_the_processor_wants_it() {
        let told = |kind, addr, len| control(&HwBreakpoint { kind, addr, len });
        assert_eq!(told(Breakpoint::W, 0x1000, 8), 1 | 2 << 1 | 2 << 3 | 0xff << 5);
        assert_eq!(told(Breakpoint::RW, 0x1004, 4), 1 | 2 << 1 | 3 << 3 | 0xf0 << 5);
        assert_eq!(told(Breakpoint::X, 0x1004, 8), 1 | 2 << 1 | 0xf << 5);
    }

    #[test]
    fn an_access_is_known_by_its_address() {
        let breakpoint = |kind, addr, len| HwBreakpoint { kind, addr, len };
        let armed = [
            breakpoint(Breakpoint::X, 0x2000, 4),
            breakpoint(Breakpoint::W, 0x1004, 4),
            breakpoint(Breakpoint::RW, 0x1000, 8),
            breakpoint(Breakpoint::R, 0x1080, 1),
        ];
        assert_eq!(at(0x2000, &armed), [0]);
        assert_eq!(at(0x1006, &armed), [1, 2]);
        assert_eq!(at(0x1002, &armed), [2]);
        assert_eq!(at(0x1070, &armed), [3], "one of sixteen bytes and more");
        assert_eq!(at(0x3000, &armed), [0; 0]);
    }
}
