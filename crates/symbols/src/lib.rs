#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! [`Symbolizer`] hands out a [`Dso`] for each [`DsoKey`]; a `Dso` loads itself when it is asked first:
//! an [`Elf`] file becomes a [`SymbolTable`], the kernel's list becomes [`KernelSymbols`], what compilers
//! write about code they made at run time becomes a [`CodeMap`]. Source lines and inlined functions are in the
//! file's [`DebugInfo`]. All of these can be used on their own. [`ProcessSymbols`] does it for addresses in the memory of a
//! process that runs.
#![forbid(unsafe_code)]

#[cfg(feature = "archive")]
pub mod archive;
mod bytes;
mod code;
mod debug_files;
mod debuginfod;
mod demangle;
mod dso;
mod dwarf;
mod elf;
mod error;
mod go;
mod image;
mod info;
mod jit;
mod kept;
mod kernel;
mod key;
mod load;
mod missing;
mod numbers;
mod pieces;
mod process;
mod process_code;
mod ranges;
mod reading;
mod running;
mod sealed;
mod sealing;
mod shared;
mod store;
mod symbolizer;
mod table;
mod vdso;

pub use bytes::{CodeBytes, NoCode};
pub use debug_files::{DebugSources, Part, SymbolOptions};
pub use debuginfod::{FetchError, GatherError, Gathered, Servers};
pub use demangle::{Signatures, demangle};
pub use dso::Dso;
pub use dwarf::SourceFrame;
pub use elf::{
    DebugLink, DeclaredProbe, Elf, FunctionValue, FunctionValues, Layout, LineAddresses, SourceLine,
    UnwindSections, ValueKind,
};
pub use error::{Error, Problem};
pub use info::DebugInfo;
pub use jit::CodeMap;
pub use jit::dump::{JitDump, JitEvent, JitHeader, JitLine, JitRecord};
pub use jit::written::{WrittenCode, WrittenDump};
pub use kernel::{InModule, KernelSymbols, LoadedModule, Module, NamedSymbol, read_modules};
pub use key::{Address, DsoKey, DsoKind, Reference};
pub use missing::Missing;
pub use perfuse_files::{BuildId, BuildIdError};
pub use process::ProcessSymbols;
pub use running::MappedAt;
pub use sealed::Sealed;
pub use sealing::Sealing;
pub use store::{Addition, BuildIdStore, StoreError, StoredFile, build_id_of};
pub use symbolizer::{JitDumpAdded, Symbolizer};
pub use table::{
    FoundSymbol, Symbol, SymbolBinding, SymbolId, SymbolKind, SymbolTable, TableBuilder, TableFull,
};
pub use vdso::{vdso_build_id, vdso_image};

/// The text of a source file, which has to be a regular one of at most 8 MiB.
pub fn read_source(path: &std::path::Path) -> Option<Vec<u8>> {
    const MOST_BYTES: u64 = 8 << 20;
    perfuse_files::read(path, MOST_BYTES).ok()
}

#[cfg(test)]
mod threads {
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Symbolizer>();
        is_shared::<crate::ProcessSymbols>();
        is_shared::<crate::Dso>();
        is_shared::<crate::Elf>();
        is_shared::<crate::DebugInfo>();
        is_shared::<crate::SymbolTable>();
        is_shared::<crate::KernelSymbols>();
        is_shared::<crate::CodeMap>();
        is_shared::<crate::Sealed>();
        is_shared::<crate::Sealing>();
        is_shared::<crate::Error>();
    }
}
