//! Loading: from the name of a DSO to its symbols, by way of every place where they may be, and to the
//! reason why there are none.

use crate::code::{Code, Loaded};
use crate::debug_files::{DebugSources, Part, SymbolOptions};
use crate::elf::{DebugLink, Elf};
use crate::error::Error;
use crate::info::DebugInfo;
use crate::kept::lines::KeptLines;
use crate::kernel::{self, KALLSYMS, KernelSymbols};
use crate::key::{DsoKey, Reference};
use crate::missing::Missing;
use crate::reading::Reading;
use crate::shared::Shared;
use crate::table::{SymbolTable, TableBuilder};
use crate::vdso;
use perfuse_files::{BuildId, in_root_of};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A program or library, and its debug file. Under whichever names and in whichever folders a file is, it is read once.
pub(crate) fn file(shared: &Shared, key: &DsoKey) -> Arc<Reading> {
    let options = &shared.options;
    let bytes = key.path.as_os_str().as_bytes();
    let gone = bytes.strip_suffix(b" (deleted)");
    let path = gone.map_or(key.path.as_path(), |path| Path::new(std::ffi::OsStr::from_bytes(path)));

    let mut places = Vec::new();
    if gone.is_none() || key.build_id.is_some() {
        // A process with another root folder means that one's file; one of that name here is it only if it is of the same build.
        places.extend(key.pid.map(|pid| in_root_of(pid, path)));
        if key.pid.is_none() || key.build_id.is_some() {
            places.push(options.under_root(path));
        }
    }
    if let Some(id) = &key.build_id {
        places.extend(options.stored(id, &["elf"]));
        places.extend(options.downloaded(id, Part::Executable).filter(|place| place.exists()));
    }
    let (binary, why) = first_of_build(&places, key.build_id.as_ref());
    match binary {
        Some((place, elf)) => match elf.file_id() {
            Some(id) => shared.file(id, || with_binary(options, key.pid, path, place, &elf)),
            None => Arc::new(with_binary(options, key.pid, path, place, &elf).into()),
        },
        None => Arc::new(Reading::from(match debug_file_alone(options, path, key.build_id.as_ref()) {
            Some(loaded) => loaded,
            None if gone.is_some() && key.build_id.is_none() => Missing::Deleted { path: path.into() }.into(),
            None => why.unwrap_or(Missing::NoFile { tried: places }).into(),
        })),
    }
}

/// The first of these files that is an ELF file of the wanted build; else the best reason why none is.
fn first_of_build(places: &[PathBuf], wanted: Option<&BuildId>) -> (Option<(PathBuf, Elf)>, Option<Missing>) {
    let mut why: Option<Missing> = None;
    for place in places {
        let reason = match open_build(place, wanted) {
            Ok(elf) => return (Some((place.clone(), elf)), None),
            Err(reason) => reason,
        };
        why = Some(match why {
            Some(why) => why.or_better(reason),
            None => reason,
        });
    }
    (None, why)
}

pub(crate) fn open_build(place: &Path, wanted: Option<&BuildId>) -> Result<Elf, Missing> {
    let elf = Elf::open(place).map_err(|error| Missing::from_error(place, error))?;
    let Some(&wanted) = wanted else { return Ok(elf) };
    match elf.build_id().map_err(Missing::Unreadable)? {
        Some(found) if found.matches(&wanted) => Ok(elf),
        found => Err(Missing::OtherBuildId { path: place.to_owned(), wanted, found }),
    }
}

/// Symbols of a file that is there. `path` is what the recorded system calls it, or a process that sees other files than this one.
fn with_binary(options: &SymbolOptions, pid: Option<u32>, path: &Path, place: PathBuf, elf: &Elf) -> Loaded {
    let mut loaded = Loaded::default();
    let mut builder = TableBuilder::default();
    if let Err(error) = collect(options, (pid, path), &place, elf, &mut builder, &mut loaded) {
        loaded.missing = Some(Missing::Unreadable(error));
    }
    let table = builder.finish(&elf.areas());
    if table.is_empty() && !matches!(loaded.missing, Some(Missing::Unreadable(_))) {
        loaded.missing = Some(Missing::NoSymbols { path: place.clone() });
    }
    loaded.sources.binary = Some(place);
    loaded.code = Code::File { layout: elf.layout().clone(), table };
    loaded
}

/// Collects all there is; what was collected before an error stays.
fn collect(
    options: &SymbolOptions,
    (pid, path): (Option<u32>, &Path),
    place: &Path,
    elf: &Elf,
    builder: &mut TableBuilder,
    loaded: &mut Loaded,
) -> Result<(), Error> {
    let procedures = elf.procedures()?;
    if !elf.add_symtab(builder, &procedures)? {
        let (id, link) = (elf.build_id().unwrap_or(None), elf.debug_link().unwrap_or(None));
        match find_debug_file(options, pid, path, id.as_ref(), link.as_ref(), Elf::has_symtab) {
            Some((debug_path, debug)) => {
                debug.add_symtab(builder, &procedures)?;
                // Prelinking moves a library, and not its debug file.
                let bases = (elf.layout().first_address(), debug.layout().first_address());
                if let (Some(now), Some(then)) = bases {
                    builder.shift(now.wrapping_sub(then));
                }
                loaded.sources.debug = Some(debug_path);
            }
            None => {
                elf.add_dynsym(builder, &procedures)?;
                if !elf.add_debugdata(builder)? && !elf.add_go(builder)? {
                    loaded.missing = Some(Missing::Stripped { path: place.to_owned() });
                }
            }
        }
    }
    elf.add_plt(builder)
}

/// The debug file of a program: of those that the process sees by whose root folder it was found, or of those here.
fn find_debug_file(
    options: &SymbolOptions,
    pid: Option<u32>,
    path: &Path,
    id: Option<&BuildId>,
    link: Option<&DebugLink>,
    wanted: fn(&Elf) -> bool,
) -> Option<(PathBuf, Elf)> {
    let find = |options: &SymbolOptions| options.find_debug_file(Some(path), id, link, wanted);
    let below = |pid| SymbolOptions { symfs: Some(in_root_of(pid, Path::new(""))), ..options.clone() };
    pid.and_then(|pid| find(&below(pid))).or_else(|| find(options))
}

/// The file with debug information, of those that symbols were found in or another debug file of the same build; and how much
/// higher the program's symbols count: prelinking moves a library, and not its debug file.
pub(crate) fn debug_file(
    shared: &Shared,
    key: &DsoKey,
    sources: &DebugSources,
) -> Option<(PathBuf, Elf, u64)> {
    let options = &shared.options;
    let open = |path: &PathBuf| Some((path.clone(), open_build(path, key.build_id.as_ref()).ok()?));
    let binary = sources.binary.as_ref().and_then(open);
    let has_info = |found: &(PathBuf, Elf)| found.1.has_debug_info();
    let program = binary.as_ref().map(|(_, elf)| elf);
    let id = program.and_then(|elf| elf.build_id().ok().flatten()).or(key.build_id);
    let link = program.and_then(|elf| elf.debug_link().ok().flatten());
    let debug = sources.debug.as_ref().filter(|_| !binary.as_ref().is_some_and(has_info)).and_then(open);
    let debug = debug.filter(has_info).or_else(|| match &binary {
        Some(found) if has_info(found) => None,
        _ => find_debug_file(options, key.pid, &key.path, id.as_ref(), link.as_ref(), Elf::has_debug_info),
    });
    let base = |elf: &Elf| elf.layout().first_address();
    let shift = match (program.and_then(base), debug.as_ref().and_then(|(_, elf)| base(elf))) {
        (Some(now), Some(then)) => now.wrapping_sub(then),
        _ => 0,
    };
    let (path, elf) = debug.or(binary)?;
    DebugInfo::is_in(&elf).then_some((path, elf, shift))
}

/// The debug information of that file.
pub(crate) fn debug_info(shared: &Shared, key: &DsoKey, sources: &DebugSources) -> Option<(DebugInfo, u64)> {
    let (path, elf, shift) = debug_file(shared, key, sources)?;
    if let (Some(folder), Some(id)) = (&shared.options.cache, elf.file_id()) {
        let kept = KeptLines::open(folder, &path, id);
        return Some((DebugInfo::kept(kept, elf, path, shared.options.clone()), shift));
    }
    match DebugInfo::of(&elf, &path, &shared.options) {
        Ok(info) => Some((info?, shift)),
        Err(error) => {
            log::info!("lines of {}: {error}", path.display());
            None
        }
    }
}

/// Symbols of a program that is gone, from its debug file.
fn debug_file_alone(options: &SymbolOptions, path: &Path, id: Option<&BuildId>) -> Option<Loaded> {
    let (debug, elf) = options.find_debug_file(Some(path), Some(id?), None, Elf::has_symtab)?;
    if !elf.layout().has_code() {
        return Some(Missing::NoLayout { debug }.into());
    }
    let code = match elf.symbols() {
        Ok(table) => Code::File { layout: elf.layout().clone(), table },
        Err(error) => return Some(Missing::Unreadable(error).into()),
    };
    let sources = DebugSources { binary: None, debug: Some(debug) };
    Some(Loaded { code, sources, missing: None })
}

/// The vdso: a file that was given, this process's, or one that perf kept.
pub(crate) fn vdso(shared: &Shared, key: &DsoKey) -> Loaded {
    let wanted = key.build_id.as_ref();
    if let Some(path) = &shared.options.vdso {
        return match open_build(path, wanted) {
            Ok(elf) => vdso_symbols(&elf, path),
            Err(missing) => missing.into(),
        };
    }
    if key.path.as_os_str() != "[vdso]" && wanted.is_none() {
        // That of another word size than this process has.
        return Missing::NoFile { tried: vec![key.path.clone()] }.into();
    }
    let own = vdso::open();
    let found = own.as_ref().ok().and_then(|elf| elf.build_id().ok().flatten());
    match (&own, wanted) {
        (Ok(elf), None) if shared.options.symfs.is_none() => return vdso_symbols(elf, &key.path),
        (Ok(elf), Some(wanted)) if found.is_some_and(|found| found.matches(wanted)) => {
            return vdso_symbols(elf, &key.path);
        }
        _ => {}
    }
    let stored = wanted.map_or(Vec::new(), |id| shared.options.stored(id, &["vdso", "elf"]));
    match (first_of_build(&stored, wanted).0, own, wanted) {
        (Some((place, elf)), ..) => vdso_symbols(&elf, &place),
        (None, Err(error), _) => Missing::Unreadable(error).into(),
        (None, Ok(_), Some(&wanted)) => {
            Missing::OtherBuildId { path: "[vdso] of the running kernel".into(), wanted, found }.into()
        }
        (None, Ok(_), None) => Missing::NoFile { tried: vec![key.path.clone()] }.into(),
    }
}

/// The file of the vdso whose symbols were found: one that was given, this process's, or one that was kept.
pub(crate) fn vdso_file(shared: &Shared, key: &DsoKey) -> Result<Elf, Error> {
    let wanted = key.build_id.as_ref();
    let fits = |elf: &Elf| {
        let found = elf.build_id().ok().flatten();
        wanted.is_none_or(|wanted| found.is_some_and(|found| found.matches(wanted)))
    };
    if let Some(path) = &shared.options.vdso {
        return Elf::open(path);
    }
    let own = vdso::open()?;
    let stored = wanted.map_or(Vec::new(), |id| shared.options.stored(id, &["vdso", "elf"]));
    match fits(&own) {
        true => Ok(own),
        false => Ok(first_of_build(&stored, wanted).0.map_or(own, |(_, elf)| elf)),
    }
}

fn vdso_symbols(elf: &Elf, path: &Path) -> Loaded {
    match elf.symbols() {
        Ok(table) => Loaded { code: Code::File { layout: elf.layout().clone(), table }, ..Loaded::default() },
        Err(error) => Missing::from_error(path, error).into(),
    }
}

/// The kernel: the list or file that was given, the running kernel's list if it is that kernel, a list that perf
/// kept, or an ELF file of the same build.
pub(crate) fn kernel(shared: &Shared, key: &DsoKey, reference: Option<&Reference>) -> Loaded {
    let wanted = key.build_id.as_ref();
    let options = &shared.options;
    if let (Some(path), None) = (&options.vmlinux, &options.kallsyms) {
        let path = options.symfs.as_deref().unwrap_or(Path::new("")).join(path);
        return match open_build(&path, wanted) {
            Ok(elf) => vmlinux(&elf, &path, reference),
            Err(missing) => missing.into(),
        };
    }
    let why = match kernel_list(shared, wanted) {
        Ok(symbols) => {
            let now = reference.and_then(|reference| symbols.address_of(&reference.symbol));
            let shift = shift(reference, now);
            return Loaded {
                code: Code::Kernel { symbols, module: None, shift, base: 0u64.wrapping_sub(shift) },
                ..Loaded::default()
            };
        }
        Err(why) => why,
    };
    let running = || options.symfs.is_none().then(BuildId::of_running_kernel)?;
    let id = wanted.copied().or_else(running);
    let stored = id.map_or(Vec::new(), |id| options.stored(&id, &["elf", "vmlinux"]));
    let found = first_of_build(&stored, id.as_ref()).0;
    let found = found.or_else(|| options.find_debug_file(None, id.as_ref(), None, Elf::has_symtab));
    match found {
        Some((path, elf)) => vmlinux(&elf, &path, reference),
        None => why.into(),
    }
}

/// How much higher the recorded kernel was than the one whose symbols there are.
fn shift(reference: Option<&Reference>, now: Option<u64>) -> u64 {
    match (reference, now) {
        (Some(reference), Some(now)) => reference.address.wrapping_sub(now),
        _ => 0,
    }
}

/// The list of symbols of the wanted kernel: one that was given, the running one's, one that perf kept.
fn kernel_list(shared: &Shared, wanted: Option<&BuildId>) -> Result<Arc<KernelSymbols>, Missing> {
    if shared.options.kallsyms.is_some() {
        return shared.kernel_kept();
    }
    let Some(&wanted) = wanted else { return shared.kernel_kept() };
    let running = BuildId::of_running_kernel();
    let why = match running {
        Some(running) if running.matches(&wanted) => match shared.kernel_kept() {
            Ok(symbols) => return Ok(symbols),
            Err(why) => why,
        },
        found => Missing::OtherBuildId { path: KALLSYMS.into(), wanted, found },
    };
    let mut stored = shared.options.stored(&wanted, &["kallsyms"]).into_iter();
    stored.find_map(|path| kernel::open_copy(&path).ok()).map(Arc::new).ok_or(why)
}

/// The kernel's ELF file, whose addresses are those before it was moved.
fn vmlinux(elf: &Elf, path: &Path, reference: Option<&Reference>) -> Loaded {
    let table = match elf.symbols() {
        Ok(table) if table.is_empty() => return Missing::NoSymbols { path: path.to_owned() }.into(),
        Ok(table) => table,
        Err(error) => return Missing::Unreadable(error).into(),
    };
    let then = reference.and_then(|reference| kernel::address_in(table.iter(), &reference.symbol));
    let shift = shift(reference, then);
    let sources = DebugSources { binary: Some(path.to_owned()), debug: None };
    Loaded { code: Code::Shifted { table, shift, base: 0u64.wrapping_sub(shift) }, sources, missing: None }
}

/// A module: from the running kernel's list if it is loaded now as it was then, or from its file.
pub(crate) fn module(shared: &Shared, key: &DsoKey, base: u64) -> Loaded {
    let name = key.module_name();
    let loaded_now = match (&key.build_id, shared.options.kallsyms.is_some()) {
        (None, _) | (_, true) => true,
        (Some(wanted), false) => BuildId::of_loaded_module(&name).is_some_and(|found| found.matches(wanted)),
    };
    let has_it = |symbols: &KernelSymbols| {
        symbols.modules().binary_search_by(|module| module.name.as_str().cmp(&name)).ok()
    };
    let symbols = match loaded_now {
        false => Err(Missing::NoModule { name: name.clone() }),
        true => match shared.kernel_kept() {
            Ok(symbols) if symbols.leaves_out() && has_it(&symbols).is_none() => shared.kernel(),
            symbols => symbols,
        },
    };
    let why = match symbols {
        Ok(symbols) => {
            if let Some(number) = has_it(&symbols) {
                let now = symbols.modules()[number].base;
                let shift = now.map_or(0, |now| if base == 0 { 0 } else { base.wrapping_sub(now) });
                let base = base.wrapping_sub(shift);
                let code = Code::Kernel { symbols, module: Some(number), shift, base };
                return Loaded { code, ..Loaded::default() };
            }
            Missing::NoModule { name: name.clone() }
        }
        Err(why) => why,
    };
    let mut places = Vec::new();
    if !key.path.as_os_str().as_bytes().starts_with(b"[") {
        places.push(shared.options.under_root(&key.path));
    }
    if let Some(id) = &key.build_id {
        places.extend(shared.options.stored(id, &["elf"]));
    }
    let id = key.build_id.as_ref();
    let (found, reason) = first_of_build(&places, id);
    let found = found.filter(|(_, elf)| elf.has_symtab());
    let found = found.or_else(|| shared.options.find_debug_file(Some(&key.path), id, None, Elf::has_symtab));
    match found {
        Some((path, elf)) => module_file(&elf, path, base),
        None => reason.unwrap_or(why).into(),
    }
}

/// The file of a module, whose symbols count from its start.
fn module_file(elf: &Elf, path: PathBuf, base: u64) -> Loaded {
    match elf.symbols() {
        Ok(table) => {
            let sources = DebugSources { binary: Some(path), debug: None };
            Loaded { code: Code::Shifted { table, shift: base, base: 0 }, sources, missing: None }
        }
        Err(error) => Missing::Unreadable(error).into(),
    }
}

/// A table that somebody made, in place of all that.
pub(crate) fn made(table: SymbolTable) -> Loaded {
    Loaded { code: Code::Shifted { table, shift: 0, base: 0 }, ..Loaded::default() }
}
