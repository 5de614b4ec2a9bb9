//! Whether code has frame pointers, as a look at its unwinding tables tells: what decides if the kernel can follow its stacks.

use crate::registers::{fp, link};
use crate::tables::Tables;
use gimli::{CfaRule, RegisterRule, UnwindTableRow};
use perfuse_abi::regs::Arch;
use perfuse_symbols::{Elf, Error};

/// So many functions are looked at, all over an object.
const LOOKED_AT: usize = 400;
/// Tables with more bytes are not looked at.
const MOST_BYTES: u64 = 128 << 20;
/// `EM_X86_64` and `EM_AARCH64`.
const MACHINES: [(u16, Arch); 2] = [(62, Arch::X86_64), (183, Arch::Arm64)];

/// Functions of an object that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FramePointers {
    /// Those that have a frame: on x86-64 they put something on the stack, on arm64 they keep a return address there.
    pub functions: usize,
    /// Those of them that keep a frame pointer.
    pub with: usize,
    /// It is a program in Go, whose code keeps frame pointers; what there are of tables was not looked at.
    pub is_go: bool,
}

impl FramePointers {
    /// Looks at some of the functions that a program or library has tables of.
    ///
    /// # Errors
    ///
    /// The tables cannot be read.
    pub fn of(elf: &Elf) -> Result<Self, Error> {
        if elf.is_go() {
            return Ok(FramePointers { is_go: true, ..FramePointers::default() });
        }
        let arch = MACHINES.iter().find(|(machine, _)| *machine == elf.machine()).map(|(_, arch)| *arch);
        let Some(arch) = arch else { return Ok(FramePointers::default()) };
        let tables = Tables::new(elf.unwind_sections_within(MOST_BYTES)?, elf.is_big_endian());
        Ok(tables.frame_pointers(arch))
    }

    /// Whether the kernel can follow its stacks: three of four functions keep a frame pointer. `None` if there was nothing to look
    /// at.
    pub fn are_there(&self) -> Option<bool> {
        match (self.is_go, self.functions) {
            (true, _) => Some(true),
            (false, 0) => None,
            (false, functions) => Some(self.with * 4 >= functions * 3),
        }
    }
}

impl Tables {
    /// Looks at some of the functions, all over the object.
    pub fn frame_pointers(&self, arch: Arch) -> FramePointers {
        let mut found = FramePointers::default();
        let step = self.len().div_ceil(LOOKED_AT).max(1);
        for index in (0..self.len()).step_by(step) {
            let (mut has_frame, mut has_pointer) = (false, false);
            let mut first = None;
            self.each_row(index, |row| {
                let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return };
                let began = *first.get_or_insert(*offset);
                match link(arch) {
                    None => {
                        has_pointer |= register.0 == fp(arch);
                        has_frame |= *offset != began || register.0 == fp(arch);
                    }
                    Some(link) => {
                        has_frame |= is_saved(row, link);
                        has_pointer |= is_saved(row, link) && is_saved(row, fp(arch));
                    }
                }
            });
            found.functions += usize::from(has_frame);
            found.with += usize::from(has_frame && has_pointer);
        }
        found
    }
}

fn is_saved(row: &UnwindTableRow<usize>, register: u16) -> bool {
    matches!(row.register(gimli::Register(register)), RegisterRule::Offset(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::tests::made_of;

    #[test]
    fn a_frame_that_is_addressed_by_its_pointer_has_one() {
        let look = |instructions: &[&[u8]]| {
            let found = made_of(instructions).frame_pointers(Arch::X86_64);
            (found.functions, found.with, found.are_there())
        };
        // From the next byte on CFA is r7+16; 3 bytes on it is r6+16.
        let push: &[u8] = &[0x41, 0x0e, 16];
        assert_eq!(look(&[push]), (1, 0, Some(false)));
        assert_eq!(look(&[push, &[0x86, 2, 0x43, 0x0d, 6]]), (1, 1, Some(true)));
        // One that leaves the stack alone tells nothing.
        assert_eq!(look(&[]), (0, 0, None));
    }

    #[test]
    fn on_arm64_it_is_kept_beside_the_return_address() {
        let look = |instructions: &[&[u8]]| {
            let found = made_of(instructions).frame_pointers(Arch::Arm64);
            (found.functions, found.with)
        };
        // CFA is r7+32, x29 at CFA-32, x30 at CFA-24.
        let (moves, pointer, link): (&[u8], &[u8], &[u8]) = (&[0x41, 0x0e, 32], &[0x9d, 4], &[0x9e, 3]);
        assert_eq!(look(&[moves, pointer, link]), (1, 1));
        assert_eq!(look(&[moves, link]), (1, 0));
        assert_eq!(look(&[moves]), (0, 0));
    }

    #[test]
    fn three_of_four_functions_are_enough() {
        let of = |functions, with| FramePointers { functions, with, is_go: false }.are_there();
        assert_eq!([of(4, 3), of(4, 2), of(0, 0)], [Some(true), Some(false), None]);
        assert_eq!(FramePointers { is_go: true, ..FramePointers::default() }.are_there(), Some(true));
    }
}
