#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! [`Symbolizer`] hands out a [`Dso`] for each [`DsoKey`]; a `Dso` loads itself when it is asked first:
//! an [`Elf`] file becomes a [`SymbolTable`], the kernel's list becomes [`KernelSymbols`], what compilers
//! write about code they made at run time becomes a [`CodeMap`]. All of these can be used on their own.
#![forbid(unsafe_code)]

mod build_id;
mod debug_files;
mod demangle;
mod dso;
mod elf;
mod error;
mod image;
mod jit;
mod kernel;
mod lines;
mod load;
mod missing;
mod symbolizer;
mod table;
mod vdso;

pub use build_id::{BuildId, BuildIdError};
pub use debug_files::Options;
pub use demangle::{Signatures, demangle};
pub use dso::{Dso, DsoKey, DsoKind, Place, Reference};
pub use elf::{DebugLink, DeclaredProbe, Elf, LineAddresses, SourceLine};
pub use error::{Error, Problem};
pub use jit::CodeMap;
pub use jit::dump::{JitDump, JitEvent, JitHeader, JitLine, JitRecord};
pub use kernel::{InModule, KernelSymbols, LoadedModule, Module, read_modules};
pub use lines::{DebugSources, Line, LineInfo};
pub use missing::Missing;
pub use symbolizer::{JitDumpAdded, Symbolizer};
pub use table::{Binding, Found, Full, Kind, Symbol, SymbolId, SymbolTable, TableBuilder};
pub use vdso::vdso_image;
