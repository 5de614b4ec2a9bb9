//! Registers as `attr.sample_regs_user` and `attr.sample_regs_intr` number them: one bit each, different
//! on every architecture (`<asm/perf_regs.h>`). Values of a sample are in [`Regs`](crate::record::Regs).

use crate::event::named_numbers;

named_numbers! {
    /// A register of x86, 32 and 64 bit. Each XMM register takes two numbers, its low half first, and
    /// needs a PMU with extended registers.
    X86Reg(u8) "PERF_REG_X86_" {
        /// Accumulator.
        AX = 0,
        /// Base.
        BX = 1,
        /// Counter.
        CX = 2,
        /// Data.
        DX = 3,
        /// Source index.
        SI = 4,
        /// Destination index.
        DI = 5,
        /// Frame pointer.
        BP = 6,
        /// Stack pointer.
        SP = 7,
        /// Instruction pointer.
        IP = 8,
        /// Flags.
        FLAGS = 9,
        /// Code segment.
        CS = 10,
        /// Stack segment.
        SS = 11,
        /// Data segment; 32-bit kernels only.
        DS = 12,
        /// Extra segment; 32-bit kernels only.
        ES = 13,
        /// F segment; 32-bit kernels only.
        FS = 14,
        /// G segment; 32-bit kernels only.
        GS = 15,
        /// Register 8.
        R8 = 16,
        /// Register 9.
        R9 = 17,
        /// Register 10.
        R10 = 18,
        /// Register 11.
        R11 = 19,
        /// Register 12.
        R12 = 20,
        /// Register 13.
        R13 = 21,
        /// Register 14.
        R14 = 22,
        /// Register 15.
        R15 = 23,
        /// Vector register 0.
        XMM0 = 32,
        /// Vector register 1.
        XMM1 = 34,
        /// Vector register 2.
        XMM2 = 36,
        /// Vector register 3.
        XMM3 = 38,
        /// Vector register 4.
        XMM4 = 40,
        /// Vector register 5.
        XMM5 = 42,
        /// Vector register 6.
        XMM6 = 44,
        /// Vector register 7.
        XMM7 = 46,
        /// Vector register 8.
        XMM8 = 48,
        /// Vector register 9.
        XMM9 = 50,
        /// Vector register 10.
        XMM10 = 52,
        /// Vector register 11.
        XMM11 = 54,
        /// Vector register 12.
        XMM12 = 56,
        /// Vector register 13.
        XMM13 = 58,
        /// Vector register 14.
        XMM14 = 60,
        /// Vector register 15.
        XMM15 = 62,
    }
}

named_numbers! {
    /// A register of arm64.
    Arm64Reg(u8) "PERF_REG_ARM64_" {
        /// Register 0.
        X0 = 0,
        /// Register 1.
        X1 = 1,
        /// Register 2.
        X2 = 2,
        /// Register 3.
        X3 = 3,
        /// Register 4.
        X4 = 4,
        /// Register 5.
        X5 = 5,
        /// Register 6.
        X6 = 6,
        /// Register 7.
        X7 = 7,
        /// Register 8.
        X8 = 8,
        /// Register 9.
        X9 = 9,
        /// Register 10.
        X10 = 10,
        /// Register 11.
        X11 = 11,
        /// Register 12.
        X12 = 12,
        /// Register 13.
        X13 = 13,
        /// Register 14.
        X14 = 14,
        /// Register 15.
        X15 = 15,
        /// Register 16.
        X16 = 16,
        /// Register 17.
        X17 = 17,
        /// Register 18.
        X18 = 18,
        /// Register 19.
        X19 = 19,
        /// Register 20.
        X20 = 20,
        /// Register 21.
        X21 = 21,
        /// Register 22.
        X22 = 22,
        /// Register 23.
        X23 = 23,
        /// Register 24.
        X24 = 24,
        /// Register 25.
        X25 = 25,
        /// Register 26.
        X26 = 26,
        /// Register 27.
        X27 = 27,
        /// Register 28.
        X28 = 28,
        /// Frame pointer.
        X29 = 29,
        /// Link register.
        LR = 30,
        /// Stack pointer.
        SP = 31,
        /// Program counter.
        PC = 32,
        /// Vector granule: the length of the SVE vectors in units of 64 bits (Linux 6.1).
        VG = 46,
    }
}

/// An architecture whose registers have names here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// x86, 64 bit.
    X86_64,
    /// arm64.
    Arm64,
}

impl Arch {
    /// The architecture this code was compiled for, if it is one of these.
    pub const NATIVE: Option<Arch> = if cfg!(target_arch = "x86_64") {
        Some(Arch::X86_64)
    } else if cfg!(target_arch = "aarch64") {
        Some(Arch::Arm64)
    } else {
        None
    };

    /// The architecture `uname -m` calls so.
    pub fn from_machine(machine: &str) -> Option<Arch> {
        match machine {
            "x86_64" | "amd64" => Some(Arch::X86_64),
            "aarch64" | "arm64" => Some(Arch::Arm64),
            _ => None,
        }
    }

    /// Every register that every kernel and cpu of this architecture gives: the general ones.
    pub const fn general_mask(self) -> u64 {
        match self {
            Arch::X86_64 => 0xff_0fff,
            Arch::Arm64 => (1 << 33) - 1,
        }
    }

    /// The number of the instruction pointer.
    pub const fn ip(self) -> u32 {
        match self {
            Arch::X86_64 => X86Reg::IP.0 as u32,
            Arch::Arm64 => Arm64Reg::PC.0 as u32,
        }
    }

    /// The number of the stack pointer.
    pub const fn sp(self) -> u32 {
        match self {
            Arch::X86_64 => X86Reg::SP.0 as u32,
            Arch::Arm64 => Arm64Reg::SP.0 as u32,
        }
    }

    /// Every register that has a name, with its number.
    pub fn registers(self) -> impl Iterator<Item = (&'static str, u32)> {
        let numbers = match self {
            Arch::X86_64 => 0..64,
            Arch::Arm64 => 0..47,
        };
        numbers.filter_map(move |number| Some((self.name(number)?, number)))
    }

    /// The name of register `number`, as the header spells it without its prefix. The upper half of an
    /// XMM register has none.
    ///
    /// ```
    /// use perfuse_abi::regs::Arch;
    /// assert_eq!(Arch::X86_64.name(8), Some("IP"));
    /// assert_eq!(Arch::Arm64.name(46), Some("VG"));
    /// ```
    pub fn name(self, number: u32) -> Option<&'static str> {
        let number = u8::try_from(number).ok()?;
        match self {
            Arch::X86_64 => X86Reg(number).header_name()?.strip_prefix("PERF_REG_X86_"),
            Arch::Arm64 => Arm64Reg(number).header_name()?.strip_prefix("PERF_REG_ARM64_"),
        }
    }

    /// The number of the register called `name`, in upper or lower case.
    pub fn number(self, name: &str) -> Option<u32> {
        let (_, number) = self.registers().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(number)
    }

    /// The bits that select register `number`: two for an XMM register.
    pub const fn bits(self, number: u32) -> u64 {
        match self {
            Arch::X86_64 if number >= 32 && number < 64 => 3 << (number & !1),
            _ if number < 64 => 1 << number,
            _ => 0,
        }
    }

    /// The mask of registers given by name; the first unknown name is the error.
    ///
    /// ```
    /// use perfuse_abi::regs::Arch;
    /// assert_eq!(Arch::X86_64.mask(["ip", "SP", "xmm1"]), Ok(1 << 8 | 1 << 7 | 3 << 34));
    /// assert_eq!(Arch::X86_64.mask(["ip", "pc"]), Err("pc"));
    /// ```
    pub fn mask<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Result<u64, &'n str> {
        names.into_iter().try_fold(0, |mask, name| Ok(mask | self.bits(self.number(name).ok_or(name)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_inverse() {
        for arch in [Arch::X86_64, Arch::Arm64] {
            for (name, number) in arch.registers() {
                assert_eq!(arch.number(name), Some(number));
            }
        }
        assert_eq!(Arch::X86_64.registers().count(), 24 + 16);
        assert_eq!(Arch::Arm64.registers().count(), 34);
    }

    #[test]
    fn general_registers_are_those_without_the_segments_of_32_bit() {
        let names = Arch::X86_64.registers().map(|(name, _)| name);
        let general = names.filter(|n| !n.starts_with("XMM") && !["DS", "ES", "FS", "GS"].contains(n));
        assert_eq!(Arch::X86_64.mask(general), Ok(Arch::X86_64.general_mask()));
        let all = Arch::Arm64.registers().map(|(name, _)| name).filter(|n| *n != "VG");
        assert_eq!(Arch::Arm64.mask(all), Ok(Arch::Arm64.general_mask()));
    }

    #[test]
    fn a_number_beyond_the_mask_selects_nothing() {
        assert_eq!(Arch::Arm64.bits(64), 0);
        assert_eq!(Arch::X86_64.name(300), None);
    }
}
