//! Bytes become instructions, of either machine: the decoders are in `x86` and `arm64`.

use crate::code::{Arch, Decoded, MOST_BYTES, Next, Syntax};
use crate::{arm64, x86};

/// The instructions of code that begins at an address: one after the other, without gaps, until the bytes end. Bytes that
/// are no instruction are shown as such.
///
/// ```
/// use perfuse_annotate::{Arch, Flow, Syntax, disassemble};
///
/// let code = [0x85, 0xff, 0x74, 0x02, 0xff, 0xc7, 0xc3];
/// let list = disassemble(&code, 0x1190, Arch::X86_64, Syntax::Att);
/// let texts: Vec<&str> = list.iter().map(|instruction| instruction.text.as_str()).collect();
/// assert_eq!(texts, ["test   %edi,%edi", "je     0x1196", "inc    %edi", "ret"]);
/// assert_eq!(list[1].target, Some((Flow::Jump, 0x1196)));
/// ```
pub fn disassemble(bytes: &[u8], address: u64, arch: Arch, syntax: Syntax) -> Vec<Decoded> {
    let bytes = &bytes[..bytes.len().min(MOST_BYTES)];
    match arch {
        Arch::X86_64 => x86::disassemble(bytes, address, 64, syntax),
        Arch::X86 => x86::disassemble(bytes, address, 32, syntax),
        Arch::Arm64 => arm64::disassemble(bytes, address),
    }
}

/// The bytes and the text of the first instruction of code for an ELF machine (a number of the `EM_*` family), and whether control always
/// goes elsewhere from it, `None` if it is no instruction; `None` where there is none, and for machines whose code is not taken apart.
pub fn first_instruction(bytes: &[u8], machine: u16, address: u64) -> Option<(usize, String, Option<bool>)> {
    let first = disassemble(bytes, address, Arch::of_elf(machine)?, Syntax::Att).into_iter().next()?;
    let leaves = (first.next != Next::Unknown).then_some(first.next == Next::Elsewhere);
    Some((first.len, first.text, leaves))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_become_instructions_without_gaps(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            address in any::<u64>(),
            arch in prop_oneof![Just(Arch::X86_64), Just(Arch::X86), Just(Arch::Arm64)],
            syntax in prop_oneof![Just(Syntax::Att), Just(Syntax::Intel)],
        ) {
            let list = disassemble(&bytes, address, arch, syntax);
            let mut at = address;
            for instruction in &list {
                prop_assert_eq!(instruction.address, at);
                prop_assert!(instruction.len > 0 && !instruction.text.is_empty());
                at = at.wrapping_add(instruction.len as u64);
            }
            prop_assert_eq!(at, address.wrapping_add(bytes.len() as u64));
        }
    }

    #[test]
    fn a_function_without_an_end_is_cut() {
        let list = disassemble(&vec![0x90; MOST_BYTES + 100], 0, Arch::X86_64, Syntax::Att);
        assert_eq!(list.len(), MOST_BYTES);
    }
}
