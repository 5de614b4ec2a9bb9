//! Where programs and the debug files of stripped programs are kept: next to the program, under
//! `/usr/lib/debug`, and in stores by build-id. The order is perf's. A file is taken only if its build-id is
//! the wanted one, or, where there is none, if its checksum is the one that the program names.

use crate::elf::{DebugLink, Elf};
use perfuse_files::{BuildId, Owners};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The files that source lines of a DSO can be read from, each of the build that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DebugSources {
    /// The program or library itself.
    pub binary: Option<PathBuf>,
    /// The file with its debug information, if that is kept apart.
    pub debug: Option<PathBuf>,
}

/// What a debuginfod server has of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The program or library itself.
    Executable,
    /// The file with its debug information.
    DebugInfo,
}

impl Part {
    /// Its name at the servers, and in the folder of what was kept.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Executable => "executable",
            Part::DebugInfo => "debuginfo",
        }
    }
}

/// Where to look for programs, debug files and what the kernel tells.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SymbolOptions {
    /// Paths of programs and debug files are below this folder: the root of a copied system, whose kernel and vdso are not those
    /// of the running one.
    pub symfs: Option<PathBuf>,
    /// The store that perf fills when it records: by default what perf's configuration says as `buildid.dir`, or `~/.debug`.
    pub build_id_store: Option<PathBuf>,
    /// Folders of debug files: by default `/usr/lib/debug`.
    pub debug_dirs: Vec<PathBuf>,
    /// The cache of debuginfod clients: by default `~/.cache/debuginfod_client`.
    pub debuginfod_cache: Option<PathBuf>,
    /// Processes of the profile may still run: files are also looked for in their root folders, which
    /// for containers is another one.
    pub live: bool,
    /// Believe what the files of any user say of code made at run time: `perf-PID.map` and `jit-PID.dump`, which everybody
    /// can put into `/tmp`. By default only those of root, of the user who reads them, and with `live` of the process's user.
    pub any_owner: bool,
    /// The kernel's ELF file, to be used instead of the running kernel's list of symbols; below `symfs` if its path is relative.
    pub vmlinux: Option<PathBuf>,
    /// A copy of `/proc/kallsyms`, to be used instead of the running kernel's, and before `vmlinux`.
    pub kallsyms: Option<PathBuf>,
    /// A folder for what was found out before, in files of this user alone: the list of the running kernel's symbols while it
    /// runs, which is read there in a tenth of the time, and the lines and inlined functions that a
    /// [`Symbolizer`](crate::Symbolizer) was asked for until it was dropped. By default there is none, and nothing is written.
    pub cache: Option<PathBuf>,
    /// A file with the vdso, to be used instead of this process's.
    pub vdso: Option<PathBuf>,
}

impl Default for SymbolOptions {
    /// The usual places, of the user whose environment this process has.
    fn default() -> Self {
        let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = folder("HOME");
        let cache = folder("XDG_CACHE_HOME").or_else(|| Some(home.as_ref()?.join(".cache")));
        SymbolOptions {
            symfs: None,
            build_id_store: perf_store(home.as_deref()),
            debug_dirs: vec![PathBuf::from("/usr/lib/debug")],
            debuginfod_cache: folder("DEBUGINFOD_CACHE_PATH")
                .or_else(|| Some(cache?.join("debuginfod_client"))),
            live: false,
            any_owner: false,
            vmlinux: None,
            kallsyms: None,
            cache: None,
            vdso: None,
        }
    }
}

impl SymbolOptions {
    /// The same for a copied system: paths are below `root`, and its store of build-ids is there, as perf's `--symfs` has it.
    #[must_use]
    pub fn below(self, root: PathBuf) -> Self {
        SymbolOptions { build_id_store: Some(root.join(".debug")), symfs: Some(root), ..self }
    }

    /// A path of the recorded system as one of this system.
    pub(crate) fn under_root(&self, path: &Path) -> PathBuf {
        match &self.symfs {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        }
    }

    /// The debug file of an ELF file, from the folders that name it by build-id.
    pub(crate) fn debug_file_of(&self, id: &BuildId, elf: &Elf) -> Option<PathBuf> {
        let (folder, file) = id.store_name();
        let name = format!("{file}.debug");
        let places = self.debug_dirs.iter();
        let places = places.map(|dir| self.under_root(&dir.join(".build-id").join(&folder).join(&name)));
        let mut places = places.chain(self.downloaded(id, Part::DebugInfo));
        places.find(|place| {
            let debug = Elf::open(place).ok().filter(|debug| debug.machine() == elf.machine());
            debug.and_then(|debug| debug.build_id().ok().flatten()).is_some_and(|found| found.matches(id))
        })
    }

    /// Where clients of debuginfod keep what a server sent.
    pub(crate) fn downloaded(&self, id: &BuildId, part: Part) -> Option<PathBuf> {
        Some(self.debuginfod_cache.as_ref()?.join(id.to_string()).join(part.name()))
    }

    /// Files in the store of perf that may have this build-id.
    ///
    /// `names` are what a file is called there, by what it is. Old stores have the file itself where new
    /// ones have a folder.
    pub(crate) fn stored(&self, id: &BuildId, names: &[&str]) -> Vec<PathBuf> {
        let Some(store) = &self.build_id_store else { return Vec::new() };
        let (folder, file) = id.store_name();
        let entry = store.join(".build-id").join(folder).join(file);
        let in_folder = names.iter().map(|name| entry.join(name));
        in_folder.chain([entry.clone()]).collect()
    }

    /// Places where the debug file of a program may be. The program's path is that of the recorded system;
    /// the flag tells places that only the name leads to.
    fn debug_candidates(
        &self,
        path: Option<&Path>,
        id: Option<&BuildId>,
        link: Option<&DebugLink>,
    ) -> Vec<(PathBuf, bool)> {
        let mut places = Vec::new();
        let folder = path.and_then(Path::parent);
        if let (Some(folder), Some(link)) = (folder, link) {
            places.push((self.under_root(&folder.join(&link.name)), true));
            places.push((self.under_root(&folder.join(".debug").join(&link.name)), true));
            for debug in &self.debug_dirs {
                let inner = folder.strip_prefix("/").unwrap_or(folder);
                places.push((self.under_root(&debug.join(inner).join(&link.name)), true));
            }
        }
        if let Some(id) = id {
            places.extend(self.stored(id, &["debug", "elf"]).into_iter().map(|path| (path, false)));
        }
        if let Some(path) = path.and_then(|path| path.strip_prefix("/").ok()) {
            for debug in &self.debug_dirs {
                let mut with_ending = debug.join(path).into_os_string();
                with_ending.push(".debug");
                places.push((self.under_root(Path::new(&with_ending)), false));
                places.push((self.under_root(&debug.join(path)), false));
            }
        }
        if let Some(id) = id {
            let (folder, file) = id.store_name();
            for debug in &self.debug_dirs {
                let place = debug.join(".build-id").join(&folder).join(format!("{file}.debug"));
                places.push((self.under_root(&place), false));
            }
            places.extend(self.downloaded(id, Part::DebugInfo).map(|place| (place, false)));
        }
        places
    }

    /// The debug file of a program: the first that is of the same build and that `wanted` likes.
    pub(crate) fn find_debug_file(
        &self,
        path: Option<&Path>,
        id: Option<&BuildId>,
        link: Option<&DebugLink>,
        wanted: impl Fn(&Elf) -> bool,
    ) -> Option<(PathBuf, Elf)> {
        self.debug_candidates(path, id, link).into_iter().find_map(|(place, by_name)| {
            let elf = Elf::open(&place).ok()?;
            if !wanted(&elf) {
                return None;
            }
            let found = elf.build_id().ok().flatten();
            let fits = match (id, found, link) {
                (Some(id), Some(found), _) => found.matches(id),
                (None, None, Some(link)) if by_name => elf.crc() == Some(link.crc),
                _ => false,
            };
            fits.then_some((place, elf))
        })
    }

    /// The file with the debug information of a program that has none itself, of the same build: the first of
    /// the usual places where `wanted` likes one.
    pub fn debug_file(
        &self,
        path: &Path,
        program: &Elf,
        wanted: impl Fn(&Elf) -> bool,
    ) -> Option<(PathBuf, Elf)> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (id, link) = (program.build_id().ok().flatten(), program.debug_link().ok().flatten());
        self.find_debug_file(Some(&path), id.as_ref(), link.as_ref(), wanted)
    }

    /// The file that a debug file shares information with others through (as `dwz` makes it): at the place it
    /// names, or by its build-id among the debug files.
    pub fn alternative_of(&self, path: &Path, debug: &Elf) -> Option<Elf> {
        let (named, id) = debug.alternative_link().ok().flatten()?;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (folder, file) = id.store_name();
        let by_id = self
            .debug_dirs
            .iter()
            .map(|dir| self.under_root(&dir.join(".build-id").join(&folder).join(format!("{file}.debug"))));
        let named = [path.parent().map_or_else(|| named.clone(), |folder| folder.join(&named))];
        named.into_iter().chain(by_id).find_map(|place| {
            let elf = Elf::open(&place).ok()?;
            elf.build_id().ok().flatten().filter(|found| found.matches(&id)).map(|_| elf)
        })
    }
}

/// The store that perf uses for a user with this home folder: files of its configuration may name another one. Files of other
/// users than root and this one do not count, as with perf.
fn perf_store(home: Option<&Path>) -> Option<PathBuf> {
    const MOST: u64 = 1 << 20;
    let files = match std::env::var_os("PERF_CONFIG") {
        Some(file) => vec![PathBuf::from(file)],
        None => {
            let own = home.map(|home| home.join(".perfconfig"));
            own.into_iter().chain(["/etc/perfconfig".into()]).collect()
        }
    };
    let configured = files.iter().find_map(|file| {
        let (mut text, mut file) =
            (String::new(), perfuse_files::open_of(file, Owners::Trusted { also: None }).ok()?.take(MOST));
        file.read_to_string(&mut text).ok()?;
        configured_dir(&text, home)
    });
    configured.or_else(|| Some(home?.join(".debug")))
}

/// The folder that perf's configuration names for its store, from the text of a `perfconfig` file: `dir` in `[buildid]`. The
/// last one counts, and `~/` stands for the home folder.
fn configured_dir(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    let (mut in_section, mut found) = (false, None);
    for line in text.lines() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            in_section = section.trim_end_matches(']').trim().eq_ignore_ascii_case("buildid");
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| in_section) else { continue };
        if key.trim().eq_ignore_ascii_case("dir") {
            let value = value.split(['#', ';']).next().unwrap_or_default().trim();
            found = Some(value.trim_matches('"').to_owned()).filter(|value| !value.is_empty());
        }
    }
    let dir = found?;
    match dir.strip_prefix("~/") {
        Some(rest) => Some(home?.join(rest)),
        None => Some(dir.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_order_of_perf() {
        let options = SymbolOptions {
            build_id_store: Some("/home/u/.debug".into()),
            debuginfod_cache: Some("/home/u/.cache/debuginfod_client".into()),
            ..SymbolOptions::default()
        };
        let id = "0123456789abcdef0123456789abcdef01234567".parse().expect("an id");
        let link = DebugLink { name: "ls.debug".into(), crc: 1 };
        let places = options.debug_candidates(Some(Path::new("/usr/bin/ls")), Some(&id), Some(&link));
        let places: Vec<_> = places.iter().map(|(path, _)| path.to_str().expect("UTF-8")).collect();
        assert_eq!(
            places,
            [
                "/usr/bin/ls.debug",
                "/usr/bin/.debug/ls.debug",
                "/usr/lib/debug/usr/bin/ls.debug",
                "/home/u/.debug/.build-id/01/23456789abcdef0123456789abcdef01234567/debug",
                "/home/u/.debug/.build-id/01/23456789abcdef0123456789abcdef01234567/elf",
                "/home/u/.debug/.build-id/01/23456789abcdef0123456789abcdef01234567",
                "/usr/lib/debug/usr/bin/ls.debug",
                "/usr/lib/debug/usr/bin/ls",
                "/usr/lib/debug/.build-id/01/23456789abcdef0123456789abcdef01234567.debug",
                "/home/u/.cache/debuginfod_client/0123456789abcdef0123456789abcdef01234567/debuginfo",
            ]
        );
    }

    #[test]
    fn a_copied_system_has_its_own_root() {
        let options = SymbolOptions { symfs: Some("/copy".into()), ..SymbolOptions::default() };
        assert_eq!(options.under_root(Path::new("/usr/bin/ls")), Path::new("/copy/usr/bin/ls"));
    }

    #[test]
    fn perfs_configuration_names_the_folder() {
        let home = Some(Path::new("/home/u"));
        let dir = |text: &str| configured_dir(text, home).map(|dir| dir.display().to_string());
        assert_eq!(dir("[buildid]\n\tdir = ~/ids # mine\n").as_deref(), Some("/home/u/ids"));
        assert_eq!(dir("[buildid]\ndir = /a\n[BuildId]\ndir=\"/b c\"\n").as_deref(), Some("/b c"));
        assert_eq!(dir("[report]\ndir = /a\n[buildid]\n# dir = /b\n"), None);
        assert_eq!(dir("dir = /a\n[buildid\ndir"), None);
        assert_eq!(configured_dir("[buildid]\ndir = ~/ids", None), None);
    }
}
