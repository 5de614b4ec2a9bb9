//! Breakpoints in the text of a tracee: the instruction that traps, in place of the one that was there, and what
//! that one does where this is quickly told.

use crate::ptrace::Tid;
use crate::regs::Registers;
use crate::remote;
use perfuse_abi::Errno;

#[cfg(target_arch = "x86_64")]
pub(crate) const TRAP: [u8; 1] = [0xcc];
#[cfg(target_arch = "aarch64")]
pub(crate) const TRAP: [u8; 4] = [0x00, 0x00, 0x20, 0xd4];

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

/// Puts a trap into the text of a stopped tracee; the answer is the bytes that were there. `EOPNOTSUPP`: an
/// instruction that calls the system, which cannot be stepped over; `EEXIST`: a trap of the program's own.
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

/// The bytes at a place.
pub(crate) fn read(tid: Tid, addr: u64) -> Result<Original, Errno> {
    let mut bytes = Original::default();
    remote::read_exact(tid, addr, &mut bytes).map(|()| bytes)
}

/// Puts the trap there again.
pub(crate) fn insert_again(tid: Tid, addr: u64) -> Result<(), Errno> {
    remote::write(tid, addr, &TRAP)
}

/// Takes a trap back, if it is still there: another file may be mapped there by now.
pub(crate) fn remove(tid: Tid, addr: u64, original: Original) -> Result<(), Errno> {
    if is_trap(tid, addr) { remote::write(tid, addr, &original) } else { Ok(()) }
}

/// Whether code begins with an instruction that Linux sets no probe on in a 64-bit program: one that is not the user's, or
/// would not survive a step (`good_insns_64` of `arch/x86/kernel/uprobes.c`). A trap may be one of ours.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_refused(code: &[u8]) -> bool {
    let is_plain = |byte: &u8| matches!(byte, 0x64..=0x67 | 0xf2 | 0xf3);
    let prefixes = code.iter().position(|byte| !is_plain(byte)).unwrap_or(code.len());
    let (prefixes, rest) = code.split_at(prefixes);
    let rest = match rest {
        [0x40..=0x4f, rest @ ..] => rest,
        rest => rest,
    };
    match rest {
        // Prefixes of segments, and of a lock.
        [0x26 | 0x2e | 0x36 | 0x3e | 0xf0, ..] => true,
        [0x06 | 0x07 | 0x0e | 0x16 | 0x17 | 0x1e | 0x1f | 0x27 | 0x2f | 0x37 | 0x3f, ..] => true,
        [0x60 | 0x61 | 0x6c..=0x6f | 0x82 | 0x9a | 0xcd..=0xcf | 0xd4 | 0xd6, ..] => true,
        [0xe4..=0xe7 | 0xea | 0xec..=0xef | 0xf1 | 0xf4 | 0xfa | 0xfb, ..] => true,
        // A stack segment is loaded.
        [0x8e, modrm, ..] => modrm >> 3 & 7 == 2,
        // Processors do not agree on narrow branches.
        [0xe8 | 0xe9 | 0xeb | 0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..] => prefixes.contains(&0x66),
        _ => false,
    }
}

/// Whether code begins with an instruction that Linux sets no probe on: these are not known here.
#[cfg(target_arch = "aarch64")]
pub(crate) fn is_refused(_code: &[u8]) -> bool {
    false
}

/// Whether code begins with an instruction that repeats itself: a string instruction with a
/// prefix for it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_repeated(code: &[u8]) -> bool {
    let is_prefix = |byte: &u8| {
        matches!(byte, 0xf2 | 0xf3 | 0x66 | 0x67 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0x40..=0x4f)
    };
    let opcode = code.iter().position(|byte| !is_prefix(byte)).unwrap_or(code.len());
    let repeats = code[..opcode].iter().any(|byte| matches!(byte, 0xf2 | 0xf3));
    repeats && matches!(code.get(opcode), Some(0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf))
}

/// Whether code begins with an instruction that repeats itself: one that copies or sets
/// memory.
#[cfg(target_arch = "aarch64")]
pub(crate) fn is_repeated(code: &[u8]) -> bool {
    // CPY*, SET*: size 00 011 o0 01 op1 0 Rs op2 01 Rn Rd.
    let word = code.try_into().map_or(0, u32::from_le_bytes);
    word & 0x3b20_0c00 == 0x1900_0400
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

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn string_instructions_are_repeated_by_a_prefix() {
        for repeated in [&[0xf3, 0xa4][..], &[0xf3, 0x48, 0xab], &[0xf2, 0xae], &[0x66, 0xf3, 0xa5, 0x90]] {
            assert!(is_repeated(repeated), "{repeated:x?}");
        }
        // movsb, rep ret, pause, popcnt, jmp to itself, and unknown bytes
        for once in [&[0xa4][..], &[0xf3, 0xc3], &[0xf3, 0x90], &[0xf3, 0x0f, 0xb8, 0xc1], &[0xeb, 0xfe], &[]]
        {
            assert!(!is_repeated(once), "{once:x?}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn probes_sit_on_what_survives_a_step() {
        // jumps and calls that are narrow, a privileged instruction, one of a stack segment, one with a lock
        for refused in [
            &[0x66, 0xeb, 0][..],
            &[0x66, 0xe8],
            &[0x66, 0x75, 0],
            &[0x66, 0x0f, 0x84],
            &[0xf4],
            &[0x8e, 0xd0],
            &[0xf0, 0x01],
        ] {
            assert!(is_refused(refused), "{refused:x?}");
        }
        // the same at their usual width, another segment, push, a move with a prefix
        for usual in [
            &[0xeb, 0][..],
            &[0xe8],
            &[0x75, 0],
            &[0x0f, 0x84],
            &[0x8e, 0xd8],
            &[0x55],
            &[0x66, 0x89, 0xc0],
            &[],
        ] {
            assert!(!is_refused(usual), "{usual:x?}");
        }
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn instructions_for_memory_are_repeated() {
        // cpyfm, cpym, setm
        for repeated in [0x1944_0443u32, 0x1d44_0443, 0x19c5_4443] {
            assert!(is_repeated(&repeated.to_le_bytes()), "{repeated:x}");
        }
        // nop, b to itself, ldr
        for once in [0xd503_201fu32, 0x1400_0000, 0xf940_0020] {
            assert!(!is_repeated(&once.to_le_bytes()), "{once:x}");
        }
    }
}
