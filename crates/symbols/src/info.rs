//! [`DebugInfo`]: lines and inlined functions of a program or library, from its file or from a recording that has them inside.

use crate::debug_files::SymbolOptions;
use crate::dwarf::{FileInfo, SourceFrame};
use crate::elf::Elf;
use crate::error::Error;
use crate::go::GoTable;
use crate::kept::lines::{Asked, KeptLines};
use crate::sealed::SealedDso;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The debug information of a program or library. It is read as far as addresses are asked for, by any number of threads.
#[derive(Debug)]
pub struct DebugInfo(Source);

#[derive(Debug)]
enum Source {
    File(OfFile),
    Kept(Box<Kept>),
    Sealed(Sealed),
}

/// The tables of a file.
#[derive(Debug)]
enum OfFile {
    Dwarf(Box<FileInfo>),
    Go(GoTable),
}

impl OfFile {
    fn read(elf: &Elf, path: &Path, options: &SymbolOptions) -> Result<Option<Self>, Error> {
        match FileInfo::of(elf, path, options)? {
            Some(info) => Ok(Some(OfFile::Dwarf(Box::new(info)))),
            None => Ok(GoTable::read(elf, true)?.map(OfFile::Go)),
        }
    }

    fn frames(&self, addresses: &[u64], found: &mut dyn FnMut(usize, &SourceFrame<'_>)) {
        match self {
            OfFile::Dwarf(info) => info.frames(addresses, found),
            OfFile::Go(table) => table.frames(addresses, found),
        }
    }

    /// Whether answers needed, or lacked, files that may change without this one.
    fn needs_others(&self) -> bool {
        matches!(self, OfFile::Dwarf(info) if info.needs_others())
    }
}

/// Answers that were given before, and the file that is opened for others.
struct Kept {
    lines: KeptLines,
    file: (Elf, PathBuf, SymbolOptions),
    info: OnceLock<Option<OfFile>>,
}

impl Kept {
    fn frames(&self, addresses: &[u64], found: &mut dyn FnMut(usize, &SourceFrame<'_>)) {
        let mut left = Vec::new();
        for (index, &address) in addresses.iter().enumerate() {
            if !self.lines.frames(address, &mut |frame| found(index, frame)) {
                left.push(index);
            }
        }
        if left.is_empty() {
            return;
        }
        let Some(info) = self.info.get_or_init(|| self.open()) else { return };
        let asked: Vec<u64> = left.iter().map(|&index| addresses[index]).collect();
        let mut tell = |index: usize, frame: &SourceFrame<'_>| found(left[index], frame);
        let answers = Asked::frames(&asked, |answer| info.frames(&asked, answer), &mut tell);
        // What other files have to tell may be there tomorrow, or be another.
        if !info.needs_others() {
            self.lines.add(answers);
        }
    }

    fn open(&self) -> Option<OfFile> {
        let (elf, path, options) = &self.file;
        match OfFile::read(elf, path, options) {
            Ok(info) => info,
            Err(error) => {
                log::info!("lines of {}: {error}", path.display());
                None
            }
        }
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lines.fmt(f)
    }
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
        Ok(OfFile::read(elf, path, options)?.map(|info| DebugInfo(Source::File(info))))
    }

    /// That which a recording has inside.
    pub(crate) fn of_sealed(object: Arc<SealedDso>) -> Self {
        DebugInfo(Source::Sealed(Sealed(object)))
    }

    /// That of an open file at a path, which is read for addresses that were not asked for before.
    pub(crate) fn kept(lines: KeptLines, elf: Elf, path: PathBuf, options: SymbolOptions) -> Self {
        let file = (elf, path, options);
        DebugInfo(Source::Kept(Box::new(Kept { lines, file, info: OnceLock::new() })))
    }

    /// The same from the file alone, which tells discriminators and the lines of declarations: those are in no cache and in no
    /// recording.
    pub fn frames_of_file(&self, addresses: &[u64], found: &mut dyn FnMut(usize, &SourceFrame<'_>)) {
        match &self.0 {
            Source::File(info) => info.frames(addresses, found),
            Source::Kept(kept) => {
                if let Some(info) = kept.info.get_or_init(|| kept.open()) {
                    info.frames(addresses, found);
                }
            }
            Source::Sealed(_) => {}
        }
    }

    /// Writes the answers that were given, where a cache keeps them.
    pub(crate) fn keep(&self) {
        if let Source::Kept(kept) = &self.0 {
            kept.lines.keep();
        }
    }

    /// Whether a file has any that can be read.
    pub(crate) fn is_in(elf: &Elf) -> bool {
        FileInfo::is_in(elf) || elf.is_go()
    }

    /// Tells `found` of the functions at addresses, as the file's symbols count: the index of the address, and a function.
    /// Those of one address follow each other, the innermost first. Many addresses at once are found faster than one after
    /// the other; which is told of first is open.
    pub fn frames(&self, addresses: &[u64], found: &mut dyn FnMut(usize, &SourceFrame<'_>)) {
        match &self.0 {
            Source::File(info) => info.frames(addresses, found),
            Source::Kept(kept) => kept.frames(addresses, found),
            Source::Sealed(Sealed(object)) => object.frames(addresses, found),
        }
    }
}
