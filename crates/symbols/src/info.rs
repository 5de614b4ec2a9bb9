//! [`DebugInfo`]: lines and inlined functions of a program or library, from its file or from a recording that has them inside.

use crate::debug_files::SymbolOptions;
use crate::dwarf::{FileInfo, SourceFrame};
use crate::elf::Elf;
use crate::error::Error;
use crate::sealed::SealedDso;
use std::path::Path;
use std::sync::Arc;

/// The debug information of a program or library. It is read as far as addresses are asked for, by any number of threads.
#[derive(Debug)]
pub struct DebugInfo(Source);

#[derive(Debug)]
enum Source {
    File(Box<FileInfo>),
    Sealed(Sealed),
}

struct Sealed(Arc<SealedDso>);

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.key().fmt(f)
    }
}

impl DebugInfo {
    /// That of an open file. `path` is where the file is, and `options` where others are: units of their own (`.dwo`, `.dwp`),
    /// and what several debug files have in common.
    ///
    /// # Errors
    ///
    /// A section cannot be read. `None` if the file has no debug information.
    pub fn of(elf: &Elf, path: &Path, options: &SymbolOptions) -> Result<Option<Self>, Error> {
        Ok(FileInfo::of(elf, path, options)?.map(|info| DebugInfo(Source::File(Box::new(info)))))
    }

    /// That which a recording has inside.
    pub(crate) fn of_sealed(object: Arc<SealedDso>) -> Self {
        DebugInfo(Source::Sealed(Sealed(object)))
    }

    /// Whether a file has any that can be read.
    pub(crate) fn is_in(elf: &Elf) -> bool {
        FileInfo::is_in(elf)
    }

    /// Tells `found` of the functions at addresses, as the file's symbols count: the index of the address, and a function.
    /// Those of one address follow each other, the innermost first. Many addresses at once are found faster than one after
    /// the other; which is told of first is open.
    pub fn frames(&self, addresses: &[u64], found: &mut dyn FnMut(usize, &SourceFrame<'_>)) {
        match &self.0 {
            Source::File(info) => info.frames(addresses, found),
            Source::Sealed(Sealed(object)) => object.frames(addresses, found),
        }
    }
}
