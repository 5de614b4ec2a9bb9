#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! [`Symbolizer`] hands out a [`Dso`] for each [`DsoKey`]; a `Dso` loads itself when it is asked first:
//! an [`Elf`] file becomes a [`SymbolTable`], the kernel's list becomes [`KernelSymbols`], what compilers
//! write about code they made at run time becomes a [`CodeMap`]. All of these can be used on their own.
#![forbid(unsafe_code)]

mod debug_files;
mod demangle;
mod dso;
mod elf;
mod error;
mod image;
mod jit;
mod kernel;
mod load;
mod missing;
mod symbolizer;
mod table;
mod vdso;

pub use debug_files::{DebugSources, SymbolOptions};
pub use demangle::{Signatures, demangle};
pub use dso::{Address, Dso, DsoKey, DsoKind, Reference};
pub use elf::{DebugLink, DeclaredProbe, Elf, LineAddresses, SourceLine};
pub use error::{Error, Problem};
pub use jit::CodeMap;
pub use jit::dump::{JitDump, JitEvent, JitHeader, JitLine, JitRecord};
pub use kernel::{InModule, KernelSymbols, LoadedModule, Module, read_modules};
pub use missing::Missing;
pub use perfuse_files::{BuildId, BuildIdError};
pub use symbolizer::{JitDumpAdded, Symbolizer};
pub use table::{
    FoundSymbol, Symbol, SymbolBinding, SymbolId, SymbolKind, SymbolTable, TableBuilder, TableFull,
};
pub use vdso::vdso_image;

#[cfg(test)]
mod threads {
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Symbolizer>();
        is_shared::<crate::Dso>();
        is_shared::<crate::Elf>();
        is_shared::<crate::SymbolTable>();
        is_shared::<crate::KernelSymbols>();
        is_shared::<crate::CodeMap>();
        is_shared::<crate::Error>();
    }
}
