//! Breakpoints in the text of a tracee: the instruction that traps, in place of the one that was there, and what
//! that one does where this is quickly told.

use crate::ptrace::Tid;
use crate::regs::Registers;
use crate::remote;
use perfuse_abi::Errno;

#[cfg(target_arch = "x86_64")]
const TRAP: [u8; 1] = [0xcc];
#[cfg(target_arch = "aarch64")]
const TRAP: [u8; 4] = [0x00, 0x00, 0x20, 0xd4];

/// The bytes that were there.
pub(crate) type Original = [u8; TRAP.len()];

/// Where a thread stands that was just trapped by one.
pub(crate) fn trapped_at(registers: &Registers) -> u64 {
    if cfg!(target_arch = "x86_64") { registers.ip() - 1 } else { registers.ip() }
}

/// Whether there is a trap.
pub(crate) fn is_trap(tid: Tid, addr: u64) -> bool {
    let mut bytes = Original::default();
    remote::read_exact(tid, addr, &mut bytes).is_ok() && bytes == TRAP
}

/// Puts a trap into the text of a stopped tracee: what was there. `EOPNOTSUPP`: an instruction that calls the
/// system, which cannot be stepped over; `EEXIST`: a trap of the program's own.
pub(crate) fn insert(tid: Tid, addr: u64) -> Result<Original, Errno> {
    let mut bytes = [0; 4];
    let got = remote::read(tid, addr, &mut bytes)?;
    let calls = match bytes {
        #[cfg(target_arch = "x86_64")]
        [0x0f, 0x05 | 0x34, ..] | [0xcd, ..] => true,
        #[cfg(target_arch = "aarch64")]
        word => u32::from_le_bytes(word) & 0xffe0_001f == 0xd400_0001,
        #[cfg(target_arch = "x86_64")]
        _ => false,
    };
    let mut original = Original::default();
    if got < original.len() {
        return Err(Errno::EFAULT);
    }
    original.copy_from_slice(&bytes[..TRAP.len()]);
    if calls {
        return Err(Errno::EOPNOTSUPP);
    }
    if original == TRAP {
        return Err(Errno::EEXIST);
    }
    remote::write(tid, addr, &TRAP)?;
    Ok(original)
}

/// Puts the trap there again.
pub(crate) fn insert_again(tid: Tid, addr: u64) -> Result<(), Errno> {
    remote::write(tid, addr, &TRAP)
}

/// Takes a trap back, if it is still there: what was mapped may be another file by now.
pub(crate) fn remove(tid: Tid, addr: u64, original: Original) -> Result<(), Errno> {
    if is_trap(tid, addr) { remote::write(tid, addr, &original) } else { Ok(()) }
}

/// Does the instruction that a trap stands for in place of the tracee. Whether it could: only some are known,
/// with which most functions begin.
#[cfg(target_arch = "x86_64")]
pub(crate) fn does(tid: Tid, registers: &mut Registers, original: Original) -> bool {
    let ip = registers.ip();
    let mut code = [0; 4];
    // Those of 32-bit programs mean something else.
    if registers.is_narrow() || remote::read(tid, ip, &mut code).unwrap_or(0) < 1 {
        return false;
    }
    code[0] = original[0];
    let (pushed, len) = match code {
        // endbr64, nop
        [0xf3, 0x0f, 0x1e, 0xfa] => (None, 4),
        [0x90, ..] => (None, 1),
        [byte @ 0x50..=0x57, ..] => (Some(byte & 7), 1),
        [0x41, byte @ 0x50..=0x57, ..] => (Some(8 + (byte & 7)), 2),
        _ => return false,
    };
    if let Some(register) = pushed {
        let (value, to) = (registers.numbered(register), registers.stack().wrapping_sub(8));
        if remote::write(tid, to, &value.to_le_bytes()).is_err() {
            return false;
        }
        registers.set_stack(to);
    }
    registers.set_ip(ip + len);
    true
}

/// Does the instruction that a trap stands for in place of the tracee. Whether it could: `nop` and `bti`, with
/// which functions begin where branches are guarded.
#[cfg(target_arch = "aarch64")]
pub(crate) fn does(_tid: Tid, registers: &mut Registers, original: Original) -> bool {
    let plain = [0xd503_201f, 0xd503_241f, 0xd503_245f, 0xd503_249f, 0xd503_24df];
    let does = plain.contains(&u32::from_le_bytes(original));
    if does {
        registers.set_ip(registers.ip() + 4);
    }
    does
}
