//! [`Dso`]: an object that code is part of, which can be asked for symbols, and loads them when it is asked the first time.

use crate::code::{self, Code, Loaded};
use crate::debug_files::DebugSources;
use crate::elf::Elf;
use crate::info::DebugInfo;
use crate::key::{Address, DsoKey, DsoKind};
use crate::load;
use crate::missing::Missing;
use crate::process_code::JitCode;
use crate::reading::Reading;
use crate::sealed::SealedDso;
use crate::shared::Shared;
use crate::table::{FoundSymbol, Symbol, SymbolId};
use perfuse_files::BuildId;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A DSO that can be asked for symbols. They are loaded by the first question; all further ones take no
/// lock.
pub struct Dso {
    pub(crate) key: DsoKey,
    pub(crate) shared: Arc<Shared>,
    jit: Option<Arc<JitCode>>,
    read: OnceLock<Arc<Reading>>,
    /// The lines that its recording has inside.
    lines: OnceLock<Option<(DebugInfo, u64)>>,
    sealed: OnceLock<Option<Arc<SealedDso>>>,
}

impl Dso {
    /// With code that its process makes, and what was loaded before.
    pub(crate) fn new(
        key: DsoKey,
        shared: Arc<Shared>,
        jit: Option<Arc<JitCode>>,
        read: OnceLock<Arc<Reading>>,
    ) -> Self {
        Dso { key, shared, jit, read, lines: OnceLock::new(), sealed: OnceLock::new() }
    }

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
        let address = code::address(&loaded.code, place)?;
        match &loaded.code {
            Code::Nothing => None,
            Code::File { table, .. } | Code::Shifted { table, .. } => table.find(address),
            Code::Kernel { symbols, module: None, .. } => match symbols.find(address) {
                Some((_, found)) => Some(found),
                None if symbols.leaves_out() => self.shared.find_left_out(address),
                None => None,
            },
            Code::Kernel { symbols, module: Some(module), .. } => symbols.find_in_numbered(*module, address),
            Code::Jit => self.jit.as_ref()?.find(address, time),
        }
    }

    /// The symbol at an address as the DSO's symbols count, which [`address`](Self::address) tells. For memory whose code
    /// changes, that of the last code there.
    pub fn find_counted(&self, address: u64) -> Option<FoundSymbol<'_>> {
        match &self.load().code {
            Code::Nothing => None,
            Code::File { table, .. } | Code::Shifted { table, .. } => table.find(address),
            Code::Kernel { symbols, .. } => match symbols.find(address) {
                Some((_, found)) => Some(found),
                None if symbols.leaves_out() => self.shared.find_left_out(address),
                None => None,
            },
            Code::Jit => self.jit.as_ref()?.find(address, u64::MAX),
        }
    }

    /// The symbol with an id that came from this DSO.
    pub fn symbol(&self, id: SymbolId) -> Option<Symbol<'_>> {
        match &self.load().code {
            Code::Nothing => None,
            Code::File { table, .. } | Code::Shifted { table, .. } => table.get(usize::try_from(id.0).ok()?),
            Code::Kernel { symbols, .. } => self.shared.left_out(id).or_else(|| symbols.get(id)),
            Code::Jit => self.jit.as_ref()?.get(id),
        }
    }

    /// The address of a place as the DSO's symbols and debug information count.
    pub fn address(&self, place: Address) -> Option<u64> {
        code::address(&self.load().code, place)
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

    /// The debug information of the file, and how much higher its symbols count than that; read when it is wanted first.
    /// `None` if there is none for the build that was recorded.
    pub fn debug_info(&self) -> Option<(&DebugInfo, u64)> {
        let info = match self.sealed() {
            Some(sealed) => {
                let lines = || sealed.has_lines().then(|| (DebugInfo::of_sealed(sealed.clone()), 0));
                self.lines.get_or_init(lines)
            }
            None => {
                let read = self.reading();
                read.info.get_or_init(|| load::debug_info(&self.shared, &self.key, &read.loaded.sources))
            }
        };
        info.as_ref().map(|(info, shift)| (info, *shift))
    }

    /// Writes answers that were given into the cache.
    pub(crate) fn keep(&self) {
        if let Some(Some((info, _))) = self.read.get().and_then(|read| read.info.get()) {
            info.keep();
        }
    }

    /// Whether a file with debug information is there, which takes no reading of it.
    pub fn has_debug_info(&self) -> bool {
        if let Some(sealed) = self.sealed() {
            return sealed.has_lines();
        }
        let read = self.reading();
        let found = || load::debug_file(&self.shared, &self.key, &read.loaded.sources).is_some();
        *read.has_info.get_or_init(|| read.info.get().map_or_else(found, Option::is_some))
    }

    /// Loads the symbols now, rather than with the first question.
    pub fn preload(&self) {
        self.load();
    }

    pub(crate) fn load(&self) -> &Loaded {
        &self.reading().loaded
    }

    fn reading(&self) -> &Reading {
        self.read.get_or_init(|| {
            let read = self.read();
            match &read.loaded.missing {
                Some(missing) => log::info!("symbols of {}: {missing}", self.key.path.display()),
                None => log::debug!("symbols of {}: read", self.key.path.display()),
            }
            read
        })
    }

    /// The build-id: the recorded one, or that of the file whose symbols were found.
    pub fn build_id(&self) -> Option<BuildId> {
        if self.key.build_id.is_some() {
            return self.key.build_id;
        }
        match &self.key.kind {
            DsoKind::File => {
                let binary = self.debug_sources().binary.as_ref()?;
                Elf::open(binary).ok()?.build_id().ok().flatten()
            }
            DsoKind::Kernel { .. } if self.shared.is_of_running(&self.load().code) => {
                BuildId::of_running_kernel()
            }
            _ => None,
        }
    }

    /// The names that the recording has inside for this object, if these are used: they are if they tell of all addresses, or
    /// if this machine does not have the object.
    pub(crate) fn sealed(&self) -> Option<&Arc<SealedDso>> {
        let find = || {
            let sealed = self.shared.sealed(&self.key)?;
            let is_lost = || matches!(self.read_here(&self.meant(&sealed)).loaded.code, Code::Nothing);
            (sealed.is_whole() || is_lost()).then_some(sealed)
        };
        self.sealed.get_or_init(find).as_ref()
    }

    /// The key with the build-id that was found where the recording was sealed.
    pub(crate) fn meant(&self, sealed: &SealedDso) -> DsoKey {
        self.key.clone().with_build_id(self.key.build_id.or(sealed.key().build_id))
    }

    fn read(&self) -> Arc<Reading> {
        match self.sealed() {
            Some(_) if matches!(self.key.kind, DsoKind::Anonymous { .. }) => self.read_here(&self.key),
            Some(sealed) => Arc::new(sealed.loaded().into()),
            None => self.read_here(&self.key),
        }
    }

    /// Reads the symbols that this machine has.
    pub(crate) fn read_here(&self, key: &DsoKey) -> Arc<Reading> {
        let loaded = match &key.kind {
            DsoKind::File => return load::file(&self.shared, key),
            DsoKind::Vdso => load::vdso(&self.shared, key),
            DsoKind::Vsyscall => Loaded { code: code::vsyscalls(), ..Loaded::default() },
            DsoKind::Kernel { reference } => load::kernel(&self.shared, key, reference.as_ref()),
            DsoKind::Module { base } => load::module(&self.shared, key, *base),
            DsoKind::Anonymous { .. } => Loaded { code: Code::Jit, ..Loaded::default() },
            DsoKind::Special => {
                let name = key.path.to_string_lossy().into_owned();
                Loaded { missing: Some(Missing::NoCode { name }), ..Loaded::default() }
            }
        };
        Arc::new(loaded.into())
    }
}

impl fmt::Debug for Dso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dso").field("key", &self.key).field("read", &self.read.get()).finish()
    }
}
