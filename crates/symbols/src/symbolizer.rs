//! [`Symbolizer`]: all DSOs of a profile, each loaded once, and what several of them share: the running
//! kernel's symbols, and the code that each process made at run time.

use crate::debug_files::SymbolOptions;
use crate::dso::{Dso, DsoKey, DsoKind, find_in_parts};
use crate::error::Error;
use crate::jit::CodeMap;
use crate::jit::dump::{JitDump, JitHeader};
use crate::jit::perf_map;
use crate::kernel::{self, KernelSymbols};
use crate::load;
use crate::missing::Missing;
use crate::table::{FoundSymbol, Symbol, SymbolId, SymbolTable};
use perfuse_files::Owners;
use perfuse_proc::{Status, read};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Gives out DSOs, the same one for the same key.
///
/// ```no_run
/// use perfuse_symbols::{DsoKey, Address, Symbolizer};
///
/// let symbolizer = Symbolizer::default();
/// // A mapping of process 4711: 7f80_0000_0000-7f80_0001_0000 r-xp 0002_6000 /usr/lib/libc.so.6
/// let libc = symbolizer.dso(&DsoKey::of_map(b"/usr/lib/libc.so.6", 4711));
/// let ip = 0x7f80_0000_1234u64;
/// match libc.find(Address::FileOffset(ip - 0x7f80_0000_0000 + 0x2_6000)) {
///     Some(found) => println!("{}+{:#x}", found.symbol.demangled(), found.offset),
///     None => println!("[unknown]: {:?}", libc.missing()),
/// }
/// ```
#[derive(Debug, Default)]
pub struct Symbolizer {
    shared: Arc<Shared>,
    dsos: Mutex<HashMap<DsoKey, Arc<Dso>>>,
    jits: Mutex<HashMap<u32, Arc<JitCode>>>,
}

/// Shared by all DSOs.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) options: SymbolOptions,
    kernel: OnceLock<Result<Arc<KernelSymbols>, Missing>>,
}

impl Shared {
    /// The symbols of the running kernel, or those of the list that was given in place of its own.
    pub(crate) fn kernel(&self) -> Result<Arc<KernelSymbols>, Missing> {
        let read = || match &self.options.kallsyms {
            Some(path) => kernel::open_copy(path),
            None => KernelSymbols::running(),
        };
        self.kernel.get_or_init(|| read().map(Arc::new)).clone()
    }
}

/// A jitdump that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitDumpAdded {
    /// The file's header.
    pub header: JitHeader,
    /// How many pieces of code it tells of.
    pub pieces: usize,
    /// The fault that ended the reading, if one did.
    pub damage: Option<Error>,
}

impl Symbolizer {
    /// With other than the usual places to look.
    pub fn new(options: SymbolOptions) -> Self {
        Symbolizer { shared: Arc::new(Shared { options, ..Shared::default() }), ..Symbolizer::default() }
    }

    /// Where it looks.
    pub fn options(&self) -> &SymbolOptions {
        &self.shared.options
    }

    /// The DSO with this key. It is cheap to ask for one that is never used: nothing is loaded yet.
    pub fn dso(&self, key: &DsoKey) -> Arc<Dso> {
        let mut dsos = lock(&self.dsos);
        let identity = identity(key);
        let known = match &identity {
            Some(identity) => dsos.get(identity),
            None => dsos.get(key),
        };
        if let Some(dso) = known {
            return dso.clone();
        }
        let jit = match key.kind {
            DsoKind::Anonymous { pid } => Some(self.jit(pid)),
            _ => None,
        };
        let (key, shared) = (key.clone(), self.shared.clone());
        let dso = Arc::new(Dso { key: key.clone(), shared, jit, loaded: OnceLock::new() });
        dsos.insert(identity.unwrap_or(key), dso.clone());
        dso
    }

    /// Makes a DSO of a table, for code that a recording itself tells of, such as BPF programs in KSYMBOL
    /// records. Its addresses are [`Address::Memory`](crate::Address::Memory).
    pub fn insert(&self, key: &DsoKey, table: SymbolTable) -> Arc<Dso> {
        let (shared, loaded) = (self.shared.clone(), OnceLock::from(load::made(table)));
        let dso = Arc::new(Dso { key: key.clone(), shared, jit: None, loaded });
        lock(&self.dsos).insert(identity(key).unwrap_or_else(|| key.clone()), dso.clone());
        dso
    }

    /// All DSOs so far, in no order.
    pub fn dsos(&self) -> Vec<Arc<Dso>> {
        lock(&self.dsos).values().cloned().collect()
    }

    /// Takes in a jitdump that a process maps: its code is found in all anonymous memory of the process,
    /// before what a perf map says. The file has to belong to root, to the user who reads it, or to the user whose
    /// process runs ([`SymbolOptions::any_owner`]); so has a perf map.
    pub fn add_jitdump(&self, pid: u32, path: &Path) -> Result<JitDumpAdded, Missing> {
        let options = &self.shared.options;
        let owners = owners_of(options, pid);
        let mut places = vec![options.under_root(path)];
        if options.live {
            places.push(load::in_root_of(pid, path));
        }
        let mut why = None;
        for place in places {
            match JitDump::open_of(&place, owners) {
                Ok(dump) => {
                    let header = *dump.header();
                    let (map, damage) = dump.code_map();
                    let pieces = map.len();
                    self.jit(pid).add_dump(map);
                    return Ok(JitDumpAdded { header, pieces, damage });
                }
                Err(error) => {
                    let reason = Missing::from_error(&place, error);
                    why = Some(match why {
                        Some(why) => Missing::or_better(why, reason),
                        None => reason,
                    });
                }
            }
        }
        Err(why.unwrap_or(Missing::NoFile { tried: vec![path.to_owned()] }))
    }

    /// How much of the code in jitdumps of a process there is at a time: where this is the same, so is what
    /// [`Dso::find_at`] finds in its anonymous memory.
    pub fn jit_known_at(&self, pid: u32, time: u64) -> u64 {
        let jit = lock(&self.jits).get(&pid).cloned();
        jit.map_or(0, |jit| jit.dumps().map(|map| map.known_at(time) as u64).sum())
    }

    /// Forgets what is known of code that a process made at run time, so that maps which have grown are
    /// read again. DSOs of the process that were given out before go on with what they know.
    pub fn forget_jit(&self, pid: u32) {
        lock(&self.jits).remove(&pid);
        lock(&self.dsos).retain(|key, _| key.kind != DsoKind::Anonymous { pid });
    }

    fn jit(&self, pid: u32) -> Arc<JitCode> {
        let new = || Arc::new(JitCode { pid, shared: self.shared.clone(), ..JitCode::default() });
        lock(&self.jits).entry(pid).or_insert_with(new).clone()
    }
}

/// A key in a form that is equal for equal DSOs, if it is not in that form already: with a build-id, the
/// process makes no difference.
fn identity(key: &DsoKey) -> Option<DsoKey> {
    (key.build_id.is_some() && key.pid.is_some()).then(|| DsoKey { pid: None, ..key.clone() })
}

/// Nothing is left half done where a panic could have happened.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The code that a process made at run time.
#[derive(Debug, Default)]
pub(crate) struct JitCode {
    pid: u32,
    shared: Arc<Shared>,
    perf_map: OnceLock<Result<CodeMap, Missing>>,
    dumps: OnceLock<Box<Dump>>,
}

/// A list that only grows, so that what was found in it stays where it is.
#[derive(Debug)]
struct Dump {
    map: CodeMap,
    next: OnceLock<Box<Dump>>,
}

impl JitCode {
    pub(crate) fn find(&self, address: u64, time: u64) -> Option<FoundSymbol<'_>> {
        let dumps = self.dumps().zip(1..).map(|(map, part)| (part, map));
        find_in_parts(dumps, address, time)
            .or_else(|| find_in_parts(self.perf_map().ok().into_iter().map(|map| (0, map)), address, time))
    }

    pub(crate) fn get(&self, id: SymbolId) -> Option<Symbol<'_>> {
        let (part, index) = ((id.0 >> 32) as usize, id.0 as u32 as usize);
        let map = match part.checked_sub(1) {
            None => self.perf_map().ok()?,
            Some(number) => self.dumps().nth(number)?,
        };
        Some(Symbol { id, ..map.get(index)? })
    }

    /// Why nothing is known; if anything is, nothing is missing.
    pub(crate) fn missing(&self) -> Option<&Missing> {
        if self.dumps.get().is_some() { None } else { self.perf_map().err() }
    }

    fn dumps(&self) -> impl Iterator<Item = &CodeMap> {
        let first = self.dumps.get();
        std::iter::successors(first, |dump| dump.next.get()).map(|dump| &dump.map)
    }

    fn add_dump(&self, map: CodeMap) {
        let mut new = Box::new(Dump { map, next: OnceLock::new() });
        let mut place = &self.dumps;
        while let Err(back) = place.set(new) {
            new = back;
            match place.get() {
                Some(dump) => place = &dump.next,
                None => return, // cannot be: what is not set can be set
            }
        }
    }

    fn perf_map(&self) -> Result<&CodeMap, &Missing> {
        let read = || {
            let places = perf_map_places(&self.shared.options, self.pid);
            let owners = owners_of(&self.shared.options, self.pid);
            let mut why = None;
            for place in &places {
                match perf_map::read(place, owners) {
                    Ok(map) => return Ok(map),
                    Err(error) if error.is_not_found() => {}
                    Err(error) => why = Some(Missing::from_error(place, error)),
                }
            }
            Err(why.unwrap_or(Missing::NoJitMap { tried: places }))
        };
        self.perf_map.get_or_init(read).as_ref()
    }
}

/// Where the perf map of a process may be. A process in a container has its own `/tmp`, and its own idea of
/// its number.
fn perf_map_places(options: &SymbolOptions, pid: u32) -> Vec<PathBuf> {
    let map = |pid: u32| PathBuf::from(format!("/tmp/perf-{pid}.map"));
    let mut places = Vec::new();
    if options.live {
        let inner = innermost_pid(pid).unwrap_or(pid);
        places.push(load::in_root_of(pid, &map(inner)));
        if inner != pid {
            places.push(load::in_root_of(pid, &map(pid)));
        }
    }
    places.push(options.under_root(&map(pid)));
    places
}

/// Whose files are believed about the code that a process made.
fn owners_of(options: &SymbolOptions, pid: u32) -> Owners {
    let process = fs::metadata(format!("/proc/{pid}")).ok().filter(|_| options.live);
    match process {
        _ if options.any_owner => Owners::Any,
        Some(process) => Owners::Trusted { also: Some(process.uid()) },
        None => Owners::Trusted { also: None },
    }
}

/// The number that a running process takes for its own.
fn innermost_pid(pid: u32) -> Option<u32> {
    Status(&read::status(pid)?).innermost_process()
}
