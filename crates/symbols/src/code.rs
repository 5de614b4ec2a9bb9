//! The result of loading a DSO: its symbols, and the way from a place to them.

use crate::debug_files::DebugSources;
use crate::elf::Layout;
use crate::kernel::KernelSymbols;
use crate::key::Address;
use crate::missing::Missing;
use crate::table::SymbolTable;
use std::sync::Arc;

/// The page of system calls that old programs call on x86.
const VSYSCALLS: [(u64, &str); 3] = [(0, "gettimeofday"), (0x400, "time"), (0x800, "getcpu")];

/// The result of loading.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) code: Code,
    pub(crate) missing: Option<Missing>,
    pub(crate) sources: DebugSources,
}

/// Symbols and what leads from a place to them.
#[derive(Debug, Default)]
pub(crate) enum Code {
    #[default]
    Nothing,
    /// Of a file that is mapped in pieces.
    File { layout: Layout, table: SymbolTable },
    /// Of addresses that are `shift` more than those of the table; offsets begin at `base`.
    Shifted { table: SymbolTable, shift: u64, base: u64 },
    /// Of the kernel or one module (by its place in the list of modules), in the same way.
    Kernel { symbols: Arc<KernelSymbols>, module: Option<usize>, shift: u64, base: u64 },
    /// Of whatever a process made.
    Jit,
}

impl From<Missing> for Loaded {
    fn from(missing: Missing) -> Self {
        Loaded { missing: Some(missing), ..Loaded::default() }
    }
}

/// The address of a place as the symbols count.
pub(crate) fn address(code: &Code, place: Address) -> Option<u64> {
    match (code, place) {
        (Code::Nothing, _) | (Code::Jit, Address::FileOffset(_)) => None,
        (Code::File { layout, .. }, Address::FileOffset(offset)) => layout.address_of(offset),
        (Code::File { .. } | Code::Jit, Address::Memory(address)) => Some(address),
        (Code::Shifted { shift, .. } | Code::Kernel { shift, .. }, Address::Memory(address)) => {
            Some(address.wrapping_sub(*shift))
        }
        (Code::Shifted { base, .. } | Code::Kernel { base, .. }, Address::FileOffset(offset)) => {
            Some(base.wrapping_add(offset))
        }
    }
}

pub(crate) fn vsyscalls() -> Code {
    use crate::table::{SymbolBinding, SymbolKind, TableBuilder};
    const PAGE: u64 = 0xffff_ffff_ff60_0000;
    let mut builder = TableBuilder::default();
    for (offset, name) in VSYSCALLS {
        let pushed =
            builder.push(PAGE + offset, 0x400, name.as_bytes(), SymbolBinding::Global, SymbolKind::Function);
        debug_assert_eq!(pushed, Ok(()), "three symbols fit");
    }
    Code::Shifted { table: builder.finish(&[]), shift: 0, base: PAGE }
}
