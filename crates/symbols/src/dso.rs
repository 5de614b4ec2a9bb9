//! The objects that code is part of (in perf's word DSOs): a file, the kernel, a module, the vdso, memory that a
//! program filled itself. [`DsoKey`] names one as a recording does; [`Dso`] is one that can be asked for
//! symbols, and loads them when it is asked the first time.

use crate::debug_files::DebugSources;
use crate::elf::Layout;
use crate::jit::CodeMap;
use crate::kernel::KernelSymbols;
use crate::load;
use crate::missing::Missing;
use crate::symbolizer::{JitCode, Shared};
use crate::table::{FoundSymbol, Symbol, SymbolId, SymbolTable};
use perfuse_files::BuildId;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The kind of a DSO.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DsoKind {
    /// A program or library.
    File,
    /// The library that the kernel puts into every process.
    Vdso,
    /// The page of three system calls at a fixed address, on x86.
    Vsyscall,
    /// The kernel without its modules.
    Kernel {
        /// A symbol and the address it had, as the mapping of the kernel in perf.data tells: the kernel's
        /// place changes with every start.
        reference: Option<Reference>,
    },
    /// A kernel module; the path is its file, or its name in brackets.
    Module {
        /// The address it was loaded at.
        base: u64,
    },
    /// Memory without a file, with whatever the process put there.
    Anonymous {
        /// The process.
        pid: u32,
    },
    /// Pages of the kernel without code of a program.
    Special,
}

/// A kernel symbol and its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Its name, `_text` or `_stext`.
    pub symbol: String,
    /// Its address.
    pub address: u64,
}

/// A DSO as a recording names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DsoKey {
    /// Its kind.
    pub kind: DsoKind,
    /// Its path, or what the kernel shows in place of one.
    pub path: PathBuf,
    /// Its build-id, if that was recorded.
    pub build_id: Option<BuildId>,
    /// A process that has it mapped. Only to be given if that process has another root folder than this
    /// one: DSOs with the same path and different processes are different, unless they have a build-id.
    pub pid: Option<u32>,
}

impl DsoKey {
    /// Of a mapping of user memory by the name that the kernel shows for it, in `/proc/PID/maps` and in
    /// MMAP records.
    ///
    /// ```
    /// use perfuse_symbols::{DsoKey, DsoKind};
    ///
    /// assert_eq!(DsoKey::of_map(b"/usr/bin/ls", 7).kind, DsoKind::File);
    /// assert_eq!(DsoKey::of_map(b"[vdso]", 7).kind, DsoKind::Vdso);
    /// assert_eq!(DsoKey::of_map(b"//anon", 7).kind, DsoKind::Anonymous { pid: 7 });
    /// ```
    pub fn of_map(name: &[u8], pid: u32) -> Self {
        let begins = |start: &str| name.starts_with(start.as_bytes());
        let anonymous = [
            "//anon",
            "/anon_hugepage",
            "/dev/zero",
            "/dev/ashmem",
            "/memfd:",
            "/SYSV",
            "[anon",
            "[heap]",
            "[stack",
        ];
        let kind = match name {
            b"[vdso]" | b"[vdso32]" | b"[vdsox32]" => DsoKind::Vdso,
            b"[vsyscall]" => DsoKind::Vsyscall,
            b"" => DsoKind::Anonymous { pid },
            _ if anonymous.iter().any(|start| begins(start)) => DsoKind::Anonymous { pid },
            _ if begins("[kernel") => DsoKind::Kernel { reference: None },
            _ if begins("[") => DsoKind::Special,
            _ => DsoKind::File,
        };
        let name = if name.is_empty() { b"//anon" } else { name };
        DsoKey { kind, path: OsStr::from_bytes(name).into(), build_id: None, pid: None }
    }

    /// The running kernel, or the one of a recording on this machine.
    pub fn kernel(reference: Option<Reference>) -> Self {
        DsoKey {
            kind: DsoKind::Kernel { reference },
            path: "[kernel.kallsyms]".into(),
            build_id: None,
            pid: None,
        }
    }

    /// A kernel module by its file or its name in brackets.
    pub fn module(path: impl Into<PathBuf>, base: u64) -> Self {
        DsoKey { kind: DsoKind::Module { base }, path: path.into(), build_id: None, pid: None }
    }

    /// The same with a build-id.
    pub fn with_build_id(self, build_id: Option<BuildId>) -> Self {
        DsoKey { build_id, ..self }
    }

    /// The name of a module: that of its file without folders and endings, with underscores.
    pub fn module_name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy();
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let name = name.find(".ko").map_or(name, |end| &name[..end]);
        name.replace('-', "_")
    }
}

/// Where in a DSO something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An offset in the file: the address less the mapping's start, plus the mapping's offset. For files,
    /// the vdso, and modules, whose mapping begins with their code.
    FileOffset(u64),
    /// An address of memory, for the kernel, modules, and memory without a file; for a file, one as its
    /// symbols count.
    Memory(u64),
}

/// A DSO that can be asked for symbols. They are loaded by the first question; all further ones take no
/// lock.
pub struct Dso {
    pub(crate) key: DsoKey,
    pub(crate) shared: Arc<Shared>,
    pub(crate) jit: Option<Arc<JitCode>>,
    pub(crate) loaded: OnceLock<Loaded>,
}

/// The result of loading.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) code: Code,
    pub(crate) missing: Option<Missing>,
    pub(crate) sources: DebugSources,
}

/// Symbols and what leads from a place to them.
#[derive(Debug, Default)]
pub(crate) enum Code {
    #[default]
    Nothing,
    /// Of a file that is mapped in pieces.
    File { layout: Layout, table: SymbolTable },
    /// Of addresses that are `shift` more than those of the table; offsets begin at `base`.
    Shifted { table: SymbolTable, shift: u64, base: u64 },
    /// Of the kernel or one module (by its place in the list of modules), in the same way.
    Kernel { symbols: Arc<KernelSymbols>, module: Option<usize>, shift: u64, base: u64 },
    /// Of whatever a process made.
    Jit,
}

/// The page of system calls that old programs call on x86.
const VSYSCALLS: [(u64, &str); 3] = [(0, "gettimeofday"), (0x400, "time"), (0x800, "getcpu")];

impl Dso {
    /// Its name in a recording.
    pub fn key(&self) -> &DsoKey {
        &self.key
    }

    /// The path, or what the kernel shows in place of one.
    pub fn path(&self) -> &Path {
        &self.key.path
    }

    /// The symbol at a place. For memory whose code changes, that of the last code there.
    pub fn find(&self, place: Address) -> Option<FoundSymbol<'_>> {
        self.find_at(place, u64::MAX)
    }

    /// The symbol at a place at a time, in the clock that the process's compiler used. For everything but
    /// code made at run time the time makes no difference.
    pub fn find_at(&self, place: Address, time: u64) -> Option<FoundSymbol<'_>> {
        let loaded = self.load();
        let address = address(&loaded.code, place)?;
        match &loaded.code {
            Code::Nothing => None,
            Code::File { table, .. } | Code::Shifted { table, .. } => table.find(address),
            Code::Kernel { symbols, module: None, .. } => Some(symbols.find(address)?.1),
            Code::Kernel { symbols, module: Some(module), .. } => symbols.find_in_numbered(*module, address),
            Code::Jit => self.jit.as_ref()?.find(address, time),
        }
    }

    /// The symbol with an id that came from this DSO.
    pub fn symbol(&self, id: SymbolId) -> Option<Symbol<'_>> {
        match &self.load().code {
            Code::Nothing => None,
            Code::File { table, .. } | Code::Shifted { table, .. } => table.get(usize::try_from(id.0).ok()?),
            Code::Kernel { symbols, .. } => symbols.get(id),
            Code::Jit => self.jit.as_ref()?.get(id),
        }
    }

    /// The address of a place as the DSO's symbols and debug information count.
    pub fn address(&self, place: Address) -> Option<u64> {
        address(&self.load().code, place)
    }

    /// Why there are no symbols, or not all.
    pub fn missing(&self) -> Option<&Missing> {
        let loaded = self.load();
        match (&loaded.code, &self.jit) {
            (Code::Jit, Some(jit)) => jit.missing(),
            _ => loaded.missing.as_ref(),
        }
    }

    /// The files that source lines can be read from.
    pub fn debug_sources(&self) -> &DebugSources {
        &self.load().sources
    }

    /// Loads the symbols now, rather than with the first question.
    pub fn preload(&self) {
        self.load();
    }

    fn load(&self) -> &Loaded {
        self.loaded.get_or_init(|| {
            let loaded = self.read();
            match &loaded.missing {
                Some(missing) => log::info!("symbols of {}: {missing}", self.key.path.display()),
                None => log::debug!("symbols of {}: read", self.key.path.display()),
            }
            loaded
        })
    }

    fn read(&self) -> Loaded {
        match &self.key.kind {
            DsoKind::File => load::file(&self.shared, &self.key),
            DsoKind::Vdso => load::vdso(&self.shared, &self.key),
            DsoKind::Vsyscall => Loaded { code: vsyscalls(), ..Loaded::default() },
            DsoKind::Kernel { reference } => load::kernel(&self.shared, &self.key, reference.as_ref()),
            DsoKind::Module { base } => load::module(&self.shared, &self.key, *base),
            DsoKind::Anonymous { .. } => Loaded { code: Code::Jit, ..Loaded::default() },
            DsoKind::Special => {
                let name = self.key.path.to_string_lossy().into_owned();
                Loaded { missing: Some(Missing::NoCode { name }), ..Loaded::default() }
            }
        }
    }
}

impl fmt::Debug for Dso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dso").field("key", &self.key).field("loaded", &self.loaded.get()).finish()
    }
}

fn address(code: &Code, place: Address) -> Option<u64> {
    match (code, place) {
        (Code::Nothing, _) | (Code::Jit, Address::FileOffset(_)) => None,
        (Code::File { layout, .. }, Address::FileOffset(offset)) => layout.address_of(offset),
        (Code::File { .. } | Code::Jit, Address::Memory(address)) => Some(address),
        (Code::Shifted { shift, .. } | Code::Kernel { shift, .. }, Address::Memory(address)) => {
            Some(address.wrapping_sub(*shift))
        }
        (Code::Shifted { base, .. } | Code::Kernel { base, .. }, Address::FileOffset(offset)) => {
            Some(base.wrapping_add(offset))
        }
    }
}

fn vsyscalls() -> Code {
    use crate::table::{SymbolBinding, SymbolKind, TableBuilder};
    const PAGE: u64 = 0xffff_ffff_ff60_0000;
    let mut builder = TableBuilder::default();
    for (offset, name) in VSYSCALLS {
        let pushed =
            builder.push(PAGE + offset, 0x400, name.as_bytes(), SymbolBinding::Global, SymbolKind::Function);
        debug_assert_eq!(pushed, Ok(()), "three symbols fit");
    }
    Code::Shifted { table: builder.finish(&[]), shift: 0, base: PAGE }
}

/// Asks several maps, the last first, until one knows the address: part 0 is the perf map, the others are
/// jitdumps, of which a process has more than one only if it executed another program.
pub(crate) fn find_in_parts<'a>(
    parts: impl Iterator<Item = (u64, &'a CodeMap)>,
    address: u64,
    time: u64,
) -> Option<FoundSymbol<'a>> {
    let found = parts.filter_map(|(part, map)| {
        let found = map.find(address, time)?;
        let id = SymbolId(part << 32 | found.symbol.id.0);
        Some(FoundSymbol { symbol: Symbol { id, ..found.symbol }, ..found })
    });
    found.last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_files() {
        let anonymous = DsoKind::Anonymous { pid: 1 };
        for (name, kind) in [
            ("", anonymous.clone()),
            ("//anon", anonymous.clone()),
            ("[heap]", anonymous.clone()),
            ("[stack:12]", anonymous.clone()),
            ("[anon:dalvik-jit]", anonymous.clone()),
            ("/memfd:doublemapper (deleted)", anonymous.clone()),
            ("/SYSV00000000 (deleted)", anonymous.clone()),
            ("/dev/zero (deleted)", anonymous),
            ("[vsyscall]", DsoKind::Vsyscall),
            ("[vvar]", DsoKind::Special),
            ("[uprobes]", DsoKind::Special),
            ("[kernel.kallsyms]_text", DsoKind::Kernel { reference: None }),
            ("/usr/lib/libc.so.6", DsoKind::File),
        ] {
            assert_eq!(DsoKey::of_map(name.as_bytes(), 1).kind, kind, "{name}");
        }
        assert_eq!(DsoKey::of_map(b"", 1).path, Path::new("//anon"));
    }

    #[test]
    fn modules_have_the_names_that_the_kernel_lists() {
        for (path, name) in [
            ("[e1000]", "e1000"),
            ("/lib/modules/6.1.0/kernel/net/nf-tables.ko.xz", "nf_tables"),
            ("/lib/modules/6.1.0/kernel/fs/ext4.ko", "ext4"),
        ] {
            assert_eq!(DsoKey::module(path, 0).module_name(), name);
        }
    }
}
