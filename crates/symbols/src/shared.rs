//! Shared by all DSOs of a [`Symbolizer`](crate::Symbolizer): the places to look, and the running kernel's symbols.

use crate::code::{Code, Loaded};
use crate::debug_files::SymbolOptions;
use crate::image::FileId;
use crate::kept;
use crate::kernel::{self, KernelSymbols};
use crate::key::DsoKey;
use crate::missing::Missing;
use crate::reading::Reading;
use crate::running::Running;
use crate::sealed::{Sealed, SealedDso};
use crate::table::{FoundSymbol, Symbol, SymbolId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Marks ids of symbols that were found in the whole list, after those of the kept one.
const LEFT_OUT: u64 = 1 << 63;

/// Shared by all DSOs.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) options: SymbolOptions,
    pub(crate) running: Running,
    kernel: OnceLock<Result<Arc<KernelSymbols>, Missing>>,
    kept: OnceLock<Result<Arc<KernelSymbols>, Missing>>,
    /// Names that recordings have inside.
    sealed: RwLock<Vec<Arc<Sealed>>>,
    /// Files that were read, which may have any number of names.
    files: Mutex<HashMap<FileId, Arc<OnceLock<Arc<Reading>>>>>,
}

impl Shared {
    pub(crate) fn new(options: SymbolOptions) -> Self {
        Shared { options, ..Shared::default() }
    }

    /// What was read of a file, or is read now.
    pub(crate) fn file(&self, id: FileId, read: impl FnOnce() -> Loaded) -> Arc<Reading> {
        let file = self.files.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default().clone();
        file.get_or_init(|| Arc::new(read().into())).clone()
    }

    /// Takes in the names of a recording.
    pub(crate) fn take_sealed(&self, sealed: Sealed) {
        self.sealed.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(sealed));
    }

    /// The names that recordings have inside.
    pub(crate) fn all_sealed(&self) -> Vec<Arc<Sealed>> {
        self.sealed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The names of an object that a recording has inside.
    pub(crate) fn sealed(&self, key: &DsoKey) -> Option<Arc<SealedDso>> {
        let all = self.all_sealed();
        SealedDso::of(all.iter().flat_map(|sealed| sealed.objects(key)).cloned().collect()).map(Arc::new)
    }

    /// Whether code belongs to the running kernel.
    pub(crate) fn is_of_running(&self, code: &Code) -> bool {
        matches!(code, Code::Kernel { symbols, .. } if self.is_running(symbols))
    }

    /// The symbols of the running kernel, or those of the list that was given in place of its own; none for a copied system.
    pub(crate) fn kernel(&self) -> Result<Arc<KernelSymbols>, Missing> {
        let read = || match &self.options.kallsyms {
            Some(path) => kernel::open_copy(path),
            None if self.options.symfs.is_some() => Err(Missing::NoFile { tried: Vec::new() }),
            None => KernelSymbols::running(),
        };
        self.kernel.get_or_init(|| read().map(Arc::new)).clone()
    }

    /// The same, or only those that stay while it runs, where a folder keeps them.
    pub(crate) fn kernel_kept(&self) -> Result<Arc<KernelSymbols>, Missing> {
        match (&self.options.cache, self.kernel.get()) {
            (Some(folder), None) if self.options.kallsyms.is_none() && self.options.symfs.is_none() => {
                let read = || kept::kernel::running(folder).map(Arc::new);
                let found = self.kept.get_or_init(read).clone();
                if found.as_ref().map_or(true, |symbols| !symbols.leaves_out()) {
                    // That was all of the list.
                    return self.kernel.get_or_init(|| found).clone();
                }
                found
            }
            _ => self.kernel(),
        }
    }

    /// Whether these are symbols of the kernel that runs, as far as they were read here.
    pub(crate) fn is_running(&self, symbols: &Arc<KernelSymbols>) -> bool {
        let is_of = |list: &OnceLock<Result<Arc<KernelSymbols>, Missing>>| {
            list.get().is_some_and(|list| list.as_ref().is_ok_and(|list| Arc::ptr_eq(list, symbols)))
        };
        self.options.kallsyms.is_none() && (is_of(&self.kernel) || is_of(&self.kept))
    }

    /// The symbol of what [`kernel_kept`](Self::kernel_kept) leaves out.
    pub(crate) fn find_left_out(&self, address: u64) -> Option<FoundSymbol<'_>> {
        self.kernel().ok()?;
        let (_, found) = self.kernel.get()?.as_ref().ok()?.find(address)?;
        let id = SymbolId(found.symbol.id.0 | LEFT_OUT);
        Some(FoundSymbol { symbol: Symbol { id, ..found.symbol }, ..found })
    }

    /// The symbol with an id that such a search gave; `None` for other ids.
    pub(crate) fn left_out(&self, id: SymbolId) -> Option<Symbol<'_>> {
        let of_list = SymbolId(id.0.checked_sub(LEFT_OUT)?);
        Some(Symbol { id, ..self.kernel.get()?.as_ref().ok()?.get(of_list)? })
    }
}
