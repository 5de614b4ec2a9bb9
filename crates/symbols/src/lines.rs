//! Where source lines and inlined functions will come from: the trait between whoever reads DWARF (not
//! this crate yet) and whoever shows frames.

use crate::error::Error;
use std::path::PathBuf;

/// One function at an address, and where in the source the address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The function's name as the file has it, perhaps mangled; `None` if only the line is known.
    pub function: Option<&'a str>,
    /// The source file.
    pub file: Option<&'a str>,
    /// The line, counted from 1.
    pub line: Option<u32>,
    /// The column, counted from 1.
    pub column: Option<u32>,
}

/// Source lines and inlined functions of one file.
pub trait LineInfo: Send + Sync {
    /// Calls `each` for the functions at an address of the file (see [`Dso::address`](crate::Dso::address)):
    /// the innermost inlined one first, the one that has a symbol last. Nothing is called where
    /// nothing is known.
    fn lines(&self, address: u64, each: &mut dyn FnMut(Line<'_>)) -> Result<(), Error>;
}

/// The files that source lines of a DSO can be read from, each of the build that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugSources {
    /// The program or library itself.
    pub binary: Option<PathBuf>,
    /// The file with its debug information, if that is kept apart.
    pub debug: Option<PathBuf>,
}
