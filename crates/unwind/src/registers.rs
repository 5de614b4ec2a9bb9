//! The registers of a thread, numbered as DWARF numbers them.

use perfuse_abi::record::{Regs, RegsAbi};
use perfuse_abi::regs::Arch;

/// More registers than this are not told apart: those of arm64 are 33.
pub(crate) const COUNT: usize = 33;

/// DWARF's numbers of x86-64's registers, in perf's order (`PERF_REG_X86_AX` is 0): numbers without one are segments and flags.
const OF_X86: [Option<u8>; 24] = {
    let none = None;
    [
        Some(0),  // ax
        Some(3),  // bx
        Some(2),  // cx
        Some(1),  // dx
        Some(4),  // si
        Some(5),  // di
        Some(6),  // bp
        Some(7),  // sp
        Some(16), // ip
        none,
        none,
        none,
        none,
        none,
        none,
        none,
        Some(8),
        Some(9),
        Some(10),
        Some(11),
        Some(12),
        Some(13),
        Some(14),
        Some(15),
    ]
};

/// The registers of a thread, those that are known.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    pub(crate) arch: Arch,
    values: [u64; COUNT],
    known: u64,
}

impl Registers {
    /// Those of a sample. `None` if there are none, those of a program of 32 bits, or of another architecture than x86-64 and arm64.
    pub fn of(regs: &Regs<'_>, arch: Arch) -> Option<Self> {
        if regs.abi != RegsAbi::ABI_64 {
            return None;
        }
        let mut registers = Registers { arch, values: [0; COUNT], known: 0 };
        for (bit, value) in (0..64).filter(|bit| regs.mask >> bit & 1 == 1).zip(regs.words.iter()) {
            let number = match arch {
                Arch::X86_64 => OF_X86.get(bit as usize).copied().flatten(),
                Arch::Arm64 => u8::try_from(bit).ok(),
                _ => return None,
            };
            if let Some(number) = number {
                registers.set(u16::from(number), value);
            }
        }
        Some(registers)
    }

    /// The value of a register, if it is known.
    #[inline]
    pub fn get(&self, number: u16) -> Option<u64> {
        let at = usize::from(number);
        (at < COUNT && self.known >> at & 1 == 1).then(|| self.values[at])
    }

    #[inline]
    pub(crate) fn set(&mut self, number: u16, value: u64) {
        let at = usize::from(number);
        if at < COUNT {
            self.values[at] = value;
            self.known |= 1 << at;
        }
    }

    #[inline]
    pub(crate) fn forget(&mut self, number: u16) {
        self.known &= !1u64.checked_shl(number.into()).unwrap_or(0);
    }

    /// Where the thread is.
    pub fn ip(&self) -> Option<u64> {
        self.get(ip(self.arch))
    }

    /// Its stack pointer.
    pub fn sp(&self) -> Option<u64> {
        self.get(sp(self.arch))
    }
}

/// DWARF's number of the place where a thread is: what return addresses become.
pub(crate) const fn ip(arch: Arch) -> u16 {
    match arch {
        Arch::X86_64 => 16,
        _ => 32,
    }
}

/// DWARF's number of the stack pointer.
pub(crate) const fn sp(arch: Arch) -> u16 {
    match arch {
        Arch::X86_64 => 7,
        _ => 31,
    }
}

/// DWARF's number of the frame pointer.
pub(crate) const fn fp(arch: Arch) -> u16 {
    match arch {
        Arch::X86_64 => 6,
        _ => 29,
    }
}

/// The register with the return address when a function begins, where it is not on the stack.
pub(crate) const fn link(arch: Arch) -> Option<u16> {
    match arch {
        Arch::X86_64 => None,
        _ => Some(30),
    }
}

/// A return address without the signature that arm64 may put into its upper bits.
pub(crate) const fn address(arch: Arch, value: u64) -> u64 {
    match arch {
        Arch::X86_64 => value,
        _ => value & 0x0000_ffff_ffff_ffff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_the_numbers_of_dwarf() {
        // bp, sp, ip and r12, which perf numbers 6, 7, 8 and 20.
        let mask = 1 << 6 | 1 << 7 | 1 << 8 | 1 << 20;
        let regs = Regs { abi: RegsAbi::ABI_64, mask, words: [1, 2, 3, 4][..].into() };
        let registers = Registers::of(&regs, Arch::X86_64).expect("64 bits");
        assert_eq!([6, 7, 16, 12].map(|number| registers.get(number)), [1, 2, 3, 4].map(Some));
        assert_eq!(
            (registers.sp(), registers.ip(), registers.get(0), registers.get(99)),
            (Some(2), Some(3), None, None)
        );
        let narrow = Regs { abi: RegsAbi::ABI_32, ..regs };
        assert!(Registers::of(&narrow, Arch::X86_64).is_none());
    }
}
