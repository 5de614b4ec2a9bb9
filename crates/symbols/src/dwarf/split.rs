//! Units whose entries are in a file of their own (`-gsplit-dwarf`): a `.dwo` each, or all in a package, the `.dwp` beside the
//! program.

use super::sections::Sections;
use super::{Slice, lock, units};
use crate::debug_files::SymbolOptions;
use crate::elf::Elf;
use gimli::{Dwarf, DwarfPackage, Endianity, Reader, Section, SectionId, Unit};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Bytes of such files that are kept; then they are read again.
const MOST_BYTES: usize = 256 << 20;
/// Files that are remembered, be they there or not.
const MOST_FILES: usize = 1 << 16;

/// The files with the entries of a program's units.
#[derive(Debug)]
pub(super) struct Split {
    path: PathBuf,
    options: SymbolOptions,
    package: OnceLock<Option<Sections>>,
    files: Mutex<Files>,
    was_asked: AtomicBool,
}

#[derive(Debug, Default)]
struct Files {
    known: HashMap<PathBuf, Option<Arc<Sections>>>,
    bytes: usize,
}

/// A file that has a unit.
pub(super) enum Found<'s> {
    Package(&'s Sections),
    File(Arc<Sections>),
}

/// A file and a unit of it.
type OtherFile<'s, E> = (Dwarf<Slice<'s, E>>, Unit<Slice<'s, E>>);

impl Split {
    pub(super) fn new(path: &Path, options: &SymbolOptions) -> Self {
        let (path, options) = (path.to_owned(), options.clone());
        let (package, files, was_asked) = (OnceLock::new(), Mutex::default(), AtomicBool::new(false));
        Split { path, options, package, files, was_asked }
    }

    /// Whether any unit had its entries elsewhere.
    pub(super) fn was_asked(&self) -> bool {
        self.was_asked.load(Ordering::Relaxed)
    }

    /// The file with the entries of a unit, if that has them elsewhere and they are there.
    pub(super) fn of<E: Endianity>(
        &self,
        dwarf: &Dwarf<Slice<'_, E>>,
        unit: &Unit<Slice<'_, E>>,
    ) -> Option<Found<'_>> {
        unit.dwo_id?;
        self.was_asked.store(true, Ordering::Relaxed);
        if let Some(package) = self.package.get_or_init(|| self.open_package()) {
            return Some(Found::Package(package));
        }
        let name = dwarf.attr_string(unit, unit.dwo_name().ok()??).ok()?;
        let name = Path::new(OsStr::from_bytes(name.slice()));
        let folder = unit.comp_dir.map(|folder| PathBuf::from(OsStr::from_bytes(folder.slice())));
        let told = folder.unwrap_or_default().join(name);
        let beside = self.path.parent().and_then(|folder| Some(folder.join(name.file_name()?)));
        let places = [Some(self.options.under_root(&told)), beside];
        places.into_iter().flatten().find_map(|place| self.file(place)).map(Found::File)
    }

    fn open_package(&self) -> Option<Sections> {
        let mut path = self.path.clone().into_os_string();
        path.push(".dwp");
        Sections::read(&Elf::open(Path::new(&path)).ok()?, true).ok()
    }

    fn file(&self, path: PathBuf) -> Option<Arc<Sections>> {
        if let Some(known) = lock(&self.files).known.get(&path) {
            return known.clone();
        }
        let read = || Sections::read(&Elf::open(&path).ok()?, true).ok().map(Arc::new);
        let sections = read();
        let mut files = lock(&self.files);
        files.bytes += sections.as_ref().map_or(0, |sections| sections.bytes());
        if files.bytes > MOST_BYTES || files.known.len() >= MOST_FILES {
            *files = Files::default();
        }
        files.known.insert(path, sections.clone());
        sections
    }
}

impl Found<'_> {
    /// The unit's entries.
    pub(super) fn unit<'s, E: Endianity>(
        &'s self,
        main: &Dwarf<Slice<'s, E>>,
        skeleton: &Unit<Slice<'s, E>>,
    ) -> Option<OtherFile<'s, E>> {
        let wanted = skeleton.dwo_id?;
        let endian = main.debug_info.reader().endian();
        let dwarf = match self {
            Found::Package(sections) => {
                let load = |id: SectionId| Ok::<_, gimli::Error>(sections.slice(id, endian));
                let package = DwarfPackage::load(load, Slice::new(&[], endian)).ok()?;
                package.find_cu(wanted, main).ok()??
            }
            Found::File(sections) => {
                let mut dwarf = sections.dwarf(endian);
                dwarf.make_dwo(main);
                dwarf
            }
        };
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let abbreviations = dwarf.abbreviations(&header).ok()?;
            let mut unit = units::bare(&dwarf, header, abbreviations).ok()?;
            if unit.dwo_id == Some(wanted) {
                unit.copy_relocated_attributes(skeleton);
                return Some((dwarf, unit));
            }
        }
        None
    }
}
