//! The store of files by build-id that perf keeps, in `~/.debug` unless something else is said: [`BuildIdStore`] lists it, adds
//! files and removes them. Symbols are looked for in it by [`SymbolOptions`](crate::SymbolOptions).
//!
//! A file lies in `PATH/ID/elf`, its debug file beside it as `debug`, and the link `.build-id/xx/yyyy` leads to that folder; the
//! kernel's list of symbols lies in `[kernel.kallsyms]/ID/kallsyms`, the vdso in `[vdso]/ID/vdso`. A file gets another name there
//! (a hard link) where the file system allows, and else a copy, as with perf. Names are made of paths that were looked up, and a
//! link that leads out of the store is none.

use crate::debug_files::SymbolOptions;
use crate::elf::Elf;
use crate::error::Error;
use crate::vdso::vdso_image;
use perfuse_files::BuildId;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::{fmt, process};

/// The folder of links.
const LINKS: &str = ".build-id";
/// The names of the kernel and of the vdso.
const KERNEL: &str = "[kernel.kallsyms]";
const VDSO: &str = "[vdso]";
/// A store with more files is not listed further.
const MOST: usize = 1 << 20;
/// No file of a store is larger.
const MOST_BYTES: u64 = 64 << 30;

/// A store of files by their build-ids.
#[derive(Clone, Debug)]
pub struct BuildIdStore {
    folder: PathBuf,
}

/// A file of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct StoredFile {
    /// Its build-id.
    pub id: BuildId,
    /// The path that it was added by, or `[kernel.kallsyms]` or `[vdso]`.
    pub name: PathBuf,
}

/// A file that goes into a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Addition<'p> {
    /// An ELF file that is known by this path, all links followed.
    File {
        /// The path that the store keeps.
        name: &'p Path,
        /// The place to read it from: the same, unless the file belongs to another root folder.
        place: &'p Path,
    },
    /// The running kernel's list of symbols.
    Kernel,
    /// The vdso of this process.
    Vdso,
}

/// Why a store is not as was asked for.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The file cannot be read as an ELF file.
    File(Error),
    /// The file has no build-id.
    NoBuildId(PathBuf),
    /// The path is none that a store can keep: it is relative, or goes up.
    Path(PathBuf),
    /// A file or folder of the store cannot be made, read or removed.
    Store {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::File(error) => error.fmt(f),
            StoreError::NoBuildId(path) => {
                write!(f, "{} has no build-id; linkers write one with --build-id", path.display())
            }
            StoreError::Path(path) => write!(f, "{}: the store keeps whole paths alone", path.display()),
            StoreError::Store { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::File(error) => Some(error),
            StoreError::Store { error, .. } => Some(error),
            StoreError::NoBuildId(_) | StoreError::Path(_) => None,
        }
    }
}

impl StoreError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| StoreError::Store { path, error }
    }
}

impl StoredFile {
    /// Whether the file at its path, or the kernel that runs, is still of this build. As with perf, the vdso never is.
    pub fn is_current(&self) -> bool {
        let id = match self.name.as_os_str().as_bytes() {
            bytes if bytes == KERNEL.as_bytes() => BuildId::of_running_kernel(),
            [b'/', ..] => build_id_of(&self.name).ok(),
            _ => None,
        };
        id.is_some_and(|id| id.matches(&self.id))
    }
}

impl BuildIdStore {
    /// The store in a folder, which is made when the first file is added.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        BuildIdStore { folder: folder.into() }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn link(&self, id: &BuildId) -> PathBuf {
        let (folder, file) = id.store_name();
        self.folder.join(LINKS).join(folder).join(file)
    }

    /// The path that a file was added by. `None` if it is not there, or its link leads elsewhere than into the store.
    pub fn name_of(&self, id: &BuildId) -> Option<PathBuf> {
        let target = fs::read_link(self.link(id)).ok()?;
        let inner = target.strip_prefix("../..").ok()?;
        let is_inside = inner.components().all(|part| matches!(part, Component::Normal(_)));
        let name = inner.parent().filter(|name| is_inside && !name.as_os_str().is_empty())?;
        if inner.file_name()? != OsStr::new(&id.to_string()) {
            return None;
        }
        let is_path = name.as_os_str().as_bytes().first() != Some(&b'[');
        Some(if is_path { Path::new("/").join(name) } else { name.to_owned() })
    }

    /// The folder of a file that is there, by the name it has in the store.
    fn place(&self, name: &Path, id: &BuildId) -> PathBuf {
        self.folder.join(name.strip_prefix("/").unwrap_or(name)).join(id.to_string())
    }

    /// The file itself: the program, the kernel's list, or the vdso.
    pub fn file(&self, id: &BuildId) -> Option<PathBuf> {
        let place = self.place(&self.name_of(id)?, id);
        ["elf", "kallsyms", "vdso"].iter().map(|file| place.join(file)).find(|file| file.is_file())
    }

    /// The files and folders of an entry, as paths within the store: what an archive of it holds. The link comes last.
    pub fn parts(&self, id: &BuildId) -> Vec<PathBuf> {
        let Some(name) = self.name_of(id) else { return Vec::new() };
        let place = self.place(&name, id);
        let inside = |path: &Path| path.strip_prefix(&self.folder).ok().map(Path::to_owned);
        let files = ["elf", "kallsyms", "vdso", "debug", "probes"].iter().map(|file| place.join(file));
        let files = files.filter(|file| fs::symlink_metadata(file).is_ok_and(|found| found.is_file()));
        files.chain([self.link(id)]).filter_map(|path| inside(&path)).collect()
    }

    /// All files, by build-id. A store that is not there has none.
    ///
    /// # Errors
    ///
    /// The folder of links cannot be read.
    pub fn list(&self) -> Result<Vec<StoredFile>, StoreError> {
        let links = self.folder.join(LINKS);
        let mut found = Vec::new();
        for folder in names(&links)? {
            if folder.len() != 2 {
                continue;
            }
            for file in names(&links.join(&folder))? {
                let digits = [folder.as_bytes(), file.as_bytes()].concat();
                let id = String::from_utf8(digits).ok().and_then(|digits| digits.parse::<BuildId>().ok());
                let stored = id.and_then(|id| Some(StoredFile { id, name: self.name_of(&id)? }));
                if found.len() < MOST {
                    found.extend(stored);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// The build-ids of the files that were added by this path.
    ///
    /// # Errors
    ///
    /// A folder of the store cannot be read.
    pub fn named(&self, name: &Path) -> Result<Vec<BuildId>, StoreError> {
        if !is_whole(name) {
            return Ok(Vec::new());
        }
        let folder = self.folder.join(name.strip_prefix("/").unwrap_or(name));
        let ids = names(&folder)?.into_iter().filter_map(|id| id.into_string().ok()?.parse().ok());
        let mut ids: Vec<BuildId> = ids.filter(|id| self.name_of(id).as_deref() == Some(name)).collect();
        ids.sort();
        Ok(ids)
    }

    /// Adds a file, with its debug file if `options` lead to one by its build-id. A file that is there already stays as it is.
    ///
    /// # Errors
    ///
    /// The file cannot be read or has no build-id; its path is none to keep; the store cannot be written.
    pub fn add(&self, addition: Addition<'_>, options: &SymbolOptions) -> Result<BuildId, StoreError> {
        match addition {
            Addition::File { name, place } => {
                let (id, elf) = open(place)?;
                self.keep(name, &id, |folder| {
                    put_file(place, &folder.join("elf"))?;
                    if let Some(debug) = options.debug_file_of(&id, &elf) {
                        put_file(&debug, &folder.join("debug"))?;
                    }
                    Ok(())
                })?;
                Ok(id)
            }
            Addition::Kernel => {
                let id = BuildId::of_running_kernel();
                let id = id.ok_or_else(|| StoreError::NoBuildId("/sys/kernel/notes".into()))?;
                self.keep(Path::new(KERNEL), &id, |folder| {
                    let list = Path::new("/proc/kallsyms");
                    let mut file = File::open(list).map_err(StoreError::at(list))?;
                    put(&mut file, &folder.join("kallsyms"), 0o755)
                })?;
                Ok(id)
            }
            Addition::Vdso => {
                let name = Path::new(VDSO);
                let image = vdso_image().map_err(StoreError::File)?;
                let elf = Elf::from_bytes(VDSO, image.clone()).map_err(StoreError::File)?;
                let id = elf.build_id().map_err(StoreError::File)?;
                let id = id.ok_or_else(|| StoreError::NoBuildId(name.to_owned()))?;
                self.keep(name, &id, |folder| put(&mut &image[..], &folder.join("vdso"), 0o600))?;
                Ok(id)
            }
        }
    }

    /// Makes the folder of a file, has it filled, and lets the link lead there.
    fn keep(
        &self,
        name: &Path,
        id: &BuildId,
        fill: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if !is_whole(name) {
            return Err(StoreError::Path(name.to_owned()));
        }
        let (folder, link) = (self.place(name, id), self.link(id));
        let links = link.parent().unwrap_or(&self.folder);
        for folder in [&*folder, links] {
            fs::create_dir_all(folder).map_err(StoreError::at(folder))?;
        }
        fill(&folder)?;
        let inner = name.strip_prefix("/").unwrap_or(name).join(id.to_string());
        let target = Path::new("../..").join(inner);
        match symlink(&target, &link) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // The file is known by another path, or the link leads nowhere.
                let is_there = fs::metadata(&link).is_ok();
                if !is_there {
                    let new = beside(&link);
                    symlink(&target, &new)
                        .and_then(|()| fs::rename(&new, &link))
                        .map_err(StoreError::at(&link))?;
                }
                Ok(())
            }
            made => made.map_err(StoreError::at(&link)),
        }
    }

    /// Lets the link of a build-id lead to where an archive says that the file is, if that is a place in a store. `false` if it
    /// is none. A link that is there and leads to a file stays.
    #[cfg(feature = "archive")]
    pub(crate) fn lead(&self, id: &BuildId, target: &Path) -> Result<bool, StoreError> {
        let Some(inner) = target.strip_prefix("../..").ok().and_then(Path::parent) else { return Ok(false) };
        let bytes = inner.as_os_str().as_bytes();
        let name = if bytes.first() == Some(&b'[') { inner.to_owned() } else { Path::new("/").join(inner) };
        if !is_whole(&name) || target.file_name() != Some(OsStr::new(&id.to_string())) {
            return Ok(false);
        }
        self.keep(&name, id, |_| Ok(()))?;
        Ok(true)
    }

    /// Removes a file with its debug file and its link. `false` if it is not there.
    ///
    /// # Errors
    ///
    /// Something of it cannot be removed.
    pub fn remove(&self, id: &BuildId) -> Result<bool, StoreError> {
        let link = self.link(id);
        let Ok(found) = fs::symlink_metadata(&link) else { return Ok(false) };
        if !found.is_symlink() {
            return Ok(false); // of another layout
        }
        let place = self.name_of(id).map(|name| self.place(&name, id));
        fs::remove_file(&link).map_err(StoreError::at(&link))?;
        let Some(place) = place else { return Ok(true) };
        // A folder that is itself a link would lead out of the store.
        let Ok(found) = fs::symlink_metadata(&place) else { return Ok(true) };
        let removed = if found.is_dir() { fs::remove_dir_all(&place) } else { fs::remove_file(&place) };
        removed.map_err(StoreError::at(&place))?;
        Ok(true)
    }
}

/// The build-id of an ELF file.
///
/// # Errors
///
/// The file cannot be read, or has none.
pub fn build_id_of(path: &Path) -> Result<BuildId, StoreError> {
    open(path).map(|(id, _)| id)
}

pub(crate) fn open(path: &Path) -> Result<(BuildId, Elf), StoreError> {
    let elf = Elf::open(path).map_err(StoreError::File)?;
    let id = elf.build_id().map_err(StoreError::File)?;
    id.map(|id| (id, elf)).ok_or_else(|| StoreError::NoBuildId(path.to_owned()))
}

/// A path from the root on, or a name in brackets.
fn is_whole(name: &Path) -> bool {
    let mut parts = name.components();
    let bytes = name.as_os_str().as_bytes();
    match bytes.first() {
        Some(b'[') => !bytes.contains(&b'/'),
        _ => {
            parts.next() == Some(Component::RootDir)
                && bytes.len() > 1
                && parts.all(|part| matches!(part, Component::Normal(_)))
        }
    }
}

/// The names in a folder; none if it is not there.
fn names(folder: &Path) -> Result<Vec<OsString>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(StoreError::at(folder)(error)),
    };
    let names = entries.take(MOST).map(|entry| entry.map(|entry| entry.file_name()));
    names.collect::<Result<_, _>>().map_err(StoreError::at(folder))
}

/// A name beside a file that nobody else uses.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned().into_vec();
    name.extend(format!(".{}.new", process::id()).bytes());
    OsString::from_vec(name).into()
}

/// Gives a file one more name, or copies it. A file that is there stays.
fn put_file(from: &Path, to: &Path) -> Result<(), StoreError> {
    // A name is given to the file that is there, not to a link to it, and not across folders that are mounted.
    let is_file = fs::symlink_metadata(from).is_ok_and(|found| found.is_file());
    match is_file.then(|| fs::hard_link(from, to)) {
        Some(Ok(())) => return Ok(()),
        Some(Err(error)) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        _ => {}
    }
    let refused = |error| match error {
        perfuse_files::Error::Io(error) => error,
        error => io::Error::other(error),
    };
    let mut file = perfuse_files::open(from).map_err(|error| StoreError::at(from)(refused(error)))?;
    let mode = file.metadata().map_or(0o755, |found| found.permissions().mode() & 0o755);
    put(&mut file, to, mode | 0o400)
}

/// Writes a file that is there when it is whole. One that is there before stays.
pub(crate) fn put(from: &mut dyn Read, to: &Path, mode: u32) -> Result<(), StoreError> {
    if fs::symlink_metadata(to).is_ok() {
        return Ok(());
    }
    let new = beside(to);
    let mut write = || {
        let mut file = File::options().write(true).create_new(true).open(&new)?;
        io::copy(&mut from.take(MOST_BYTES), &mut file)?;
        file.flush()?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        fs::rename(&new, to)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&new);
        StoreError::at(to)(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_store_keeps() {
        for (name, is) in [
            ("/usr/bin/ls", true),
            ("[vdso]", true),
            ("[x]/../../y", false),
            ("usr/bin/ls", false),
            ("/usr/../../etc/passwd", false),
            ("/", false),
            ("", false),
            ("//anon", true),
        ] {
            assert_eq!(is_whole(Path::new(name)), is, "{name}");
        }
    }
}
