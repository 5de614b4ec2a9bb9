//! The programs and libraries that are mapped, with their tables: each is looked for once, when it is wanted first.

use crate::rules::Rule;
use crate::tables::Tables;
use perfuse_data::session::{Map, Object as Told, ObjectKind};
use perfuse_files::{View, in_root_of};
use perfuse_symbols::{
    BuildId, DebugSources, DsoKey, DsoKind, Elf, Layout, MappedAt, SymbolOptions, Symbolizer, vdso_image,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All tables together take no more than so many bytes; then they are read again.
const MOST_BYTES: usize = 512 << 20;
/// So much of it may be one object's, of a program that runs: a web browser has 20 MiB.
const MOST_OF_ONE: u64 = 128 << 20;
/// The machine whose code is followed, of an ELF file.
const EM_X86_64: u16 = 62;
/// Objects that are remembered; then they are looked for again.
const MOST: usize = 1 << 16;

/// So many files stay open, to read code from that no table tells of.
const MOST_OPEN: usize = 64;

/// An object with its tables.
pub(crate) struct Object {
    pub(crate) number: u32,
    layout: Layout,
    tables: Tables,
    /// The file, if its code can be followed.
    file: Option<Elf>,
}

impl Object {
    /// The rules that its tables have at an offset in its file.
    pub(crate) fn rule(&self, offset: u64) -> Option<Rule> {
        self.tables.rule(self.layout.address_of(offset)?)
    }

    /// Reads code from an offset in its file on, and tells how many bytes there are.
    pub(crate) fn code(&self, offset: u64, into: &mut [u8]) -> usize {
        let read = |elf: &Elf| elf.code(self.layout.address_of(offset)?, into.len() as u64).ok();
        let bytes = self.file.as_ref().and_then(read).unwrap_or_default().bytes;
        into[..bytes.len()].copy_from_slice(&bytes);
        bytes.len()
    }
}

/// Where files are looked for.
#[derive(Debug)]
enum Source {
    /// Where symbols are found, with debug files.
    Symbols(Arc<Symbolizer>),
    /// Where processes that run have them.
    Running,
}

/// The objects that were asked for.
pub(crate) struct Objects {
    source: Source,
    /// `None` where there are neither tables nor code.
    known: HashMap<(DsoKey, u64), Option<Arc<Object>>>,
    /// The objects of files in which symbols were found: a file may have any number of names. By what tells one from another that
    /// had its name before.
    files: HashMap<(Option<BuildId>, u64, DebugSources), Option<Arc<Object>>>,
    numbers: u32,
    bytes: usize,
    open: usize,
}

impl Objects {
    pub(crate) fn of(symbolizer: Arc<Symbolizer>) -> Self {
        Self::with(Source::Symbols(symbolizer))
    }

    pub(crate) fn of_running() -> Self {
        Self::with(Source::Running)
    }

    fn with(source: Source) -> Self {
        Objects { source, known: HashMap::new(), files: HashMap::new(), numbers: 0, bytes: 0, open: 0 }
    }

    /// Whether they are those of processes that run here.
    pub(crate) fn are_running(&self) -> bool {
        matches!(self.source, Source::Running)
    }

    /// The object of a process's mapping, if it has tables, or code that can be followed.
    pub(crate) fn get(&mut self, told: &Told, map: &Map, pid: u32) -> Option<Arc<Object>> {
        if told.kind != ObjectKind::User {
            return None;
        }
        let id = told.build_id.and_then(|id| BuildId::new(id.as_bytes()));
        let seen_by = match &self.source {
            Source::Symbols(symbolizer) if !map.by_address => {
                symbolizer.seen_by(pid, MappedAt { address: map.start, name: &told.name, inode: map.inode })
            }
            _ => None,
        };
        let named = DsoKey { pid: seen_by, ..DsoKey::of_map(&told.name, pid).with_build_id(id) };
        let key = (named, map.inode);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let sources = match &self.source {
            Source::Symbols(symbolizer) if key.0.kind == DsoKind::File => {
                Some((id, map.inode, symbolizer.dso(&key.0).debug_sources().clone()))
            }
            _ => None,
        };
        if let Some(known) = sources.as_ref().and_then(|sources| self.files.get(sources)) {
            let known = known.clone();
            self.known.insert(key, known.clone());
            return known;
        }
        let found = match &self.source {
            Source::Symbols(symbolizer) => by_symbols(symbolizer, &key.0),
            Source::Running => by_process(&key.0, map, pid),
        };
        let has_code = |elf: &Elf| elf.is_64() && elf.machine() == EM_X86_64;
        let found = found.filter(|(tables, elf)| !tables.is_empty() || has_code(elf));
        let bytes = found.as_ref().map_or(0, |(tables, _)| tables.bytes());
        if self.known.len() >= MOST || self.bytes + bytes > MOST_BYTES {
            self.known.clear();
            self.files.clear();
            (self.bytes, self.open) = (0, 0);
        }
        self.bytes += bytes;
        let number = self.numbers;
        self.numbers = self.numbers.wrapping_add(1);
        let object = found.map(|(tables, elf)| {
            let layout = elf.layout().clone();
            let file = Some(elf).filter(|elf| has_code(elf) && self.open < MOST_OPEN);
            self.open += usize::from(file.is_some());
            Arc::new(Object { number, layout, tables, file })
        });
        if let Some(sources) = sources {
            self.files.insert(sources, object.clone());
        }
        self.known.insert(key, object.clone());
        object
    }
}

fn vdso() -> Option<Elf> {
    Elf::from_bytes("[vdso]", vdso_image().ok()?).ok()
}

fn by_symbols(symbolizer: &Symbolizer, key: &DsoKey) -> Option<(Tables, Elf)> {
    let dso = symbolizer.dso(key);
    let sources = dso.debug_sources();
    let elf = match key.kind {
        DsoKind::File => Elf::open(sources.binary.as_ref()?).ok()?,
        // The symbols are known only if it is this system's.
        DsoKind::Vdso => vdso()?,
        _ => return None,
    };
    let debug = sources.debug.as_ref().and_then(|path| Elf::open(path).ok());
    Some((Tables::of(&elf, debug.as_ref()).ok()?, elf))
}

/// The file that a process has mapped, as far as whoever records may open it, with the tables of its debug file if only that has them.
fn by_process(key: &DsoKey, map: &Map, pid: u32) -> Option<(Tables, Elf)> {
    let mut place = PathBuf::new();
    let elf = match key.kind {
        DsoKind::File => {
            let is_wanted = |elf: &Elf| match key.build_id {
                Some(wanted) => elf.build_id().ok().flatten().is_some_and(|id| id.matches(&wanted)),
                None => true,
            };
            let [below, here] = places(&key.path, pid);
            // Where the process sees other files, one of that name here may be any.
            let is_it = |here: &PathBuf| fs::metadata(here).is_ok_and(|found| found.ino() == map.inode);
            let here = Some(here).filter(|here| key.build_id.is_some() || !View::differs(pid) || is_it(here));
            // Where it is deleted or has another's name, the process still has it.
            let kept = kept(pid, map).into_iter().filter(|kept| key.build_id.is_some() || is_it(kept));
            let is_below = key.build_id.is_some() || map.inode == 0 || is_it(&below);
            let first = Some(below.clone()).filter(|_| is_below);
            // File systems in layers may show another inode than that of the mapping.
            let mut places = [first, here].into_iter().flatten().chain(kept).chain([below]);
            places.find_map(|found| {
                let elf = Elf::open(&found).ok().filter(is_wanted)?;
                place = found;
                Some(elf)
            })?
        }
        DsoKind::Vdso => vdso()?,
        _ => return None,
    };
    let mut sections = elf.unwind_sections_within(MOST_OF_ONE).ok()?;
    if sections.debug_frame.is_empty() && key.kind == DsoKind::File {
        let frames = |debug: &Elf| Some(debug.unwind_sections_within(MOST_OF_ONE).ok()?.debug_frame);
        let has_frames = |debug: &Elf| debug.has_debug_frame();
        let debug = SymbolOptions::default().debug_file(&place, &elf, has_frames);
        sections.debug_frame = debug.and_then(|(_, debug)| frames(&debug)).unwrap_or_default();
    }
    Some((Tables::new(sections, elf.is_big_endian()), elf))
}

/// Where the kernel itself shows a file that is mapped, or the program: to those who may trace the process.
fn kept(pid: u32, map: &Map) -> [PathBuf; 2] {
    let Map { start, end, .. } = map;
    [format!("/proc/{pid}/exe"), format!("/proc/{pid}/map_files/{start:x}-{end:x}")].map(PathBuf::from)
}

/// Where a file may be: in a container the process has another root folder, and it may be gone meanwhile.
fn places(path: &Path, pid: u32) -> [PathBuf; 2] {
    let bytes = path.as_os_str().as_bytes();
    let name = Path::new(OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes)));
    [in_root_of(pid, name), name.to_owned()]
}
