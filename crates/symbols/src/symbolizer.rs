//! [`Symbolizer`]: all DSOs of a profile, each loaded once, and what several of them share: the running
//! kernel's symbols, and the code that each process made at run time.

use crate::debug_files::SymbolOptions;
use crate::dso::Dso;
use crate::error::Error;
use crate::jit::dump::{JitDump, JitHeader};
use crate::key::{DsoKey, DsoKind};
use crate::load;
use crate::missing::Missing;
use crate::process_code::{JitCode, owners_of};
use crate::running::MappedAt;
use crate::sealed::Sealed;
use crate::shared::Shared;
use crate::table::SymbolTable;
use perfuse_files::in_root_of;
use std::collections::HashMap;
use std::path::Path;
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
        Symbolizer { shared: Arc::new(Shared::new(options)), dsos: Mutex::default(), jits: Mutex::default() }
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
        let dso = Arc::new(Dso::new(key.clone(), shared, jit, OnceLock::new()));
        dsos.insert(identity.unwrap_or(key), dso.clone());
        dso
    }

    /// Takes in that a process of a recording may still run: what it tells of code that it made is then looked for as it sees
    /// files, under the number that it has for itself. It does run if it has one of these mappings of files; by its
    /// number alone it may be a later process. Tells whether it does.
    pub fn meet<'m>(&self, pid: u32, mappings: impl IntoIterator<Item = MappedAt<'m>>) -> bool {
        self.shared.options.symfs.is_none() && self.shared.running.meet(pid, mappings)
    }

    /// The process by whose root folder the file of a mapping is to be looked for ([`DsoKey::pid`]): one that still runs, as
    /// [`meet`](Self::meet) tells it, and sees other files than this one, or another that sees the same. `None` where the name
    /// means the file that it means here.
    pub fn seen_by(&self, pid: u32, mapping: MappedAt<'_>) -> Option<u32> {
        let options = &self.shared.options;
        options.symfs.is_none().then(|| self.shared.running.seen_by(pid, mapping))?
    }

    /// Makes a DSO of a table, for code that a recording itself tells of, such as BPF programs in KSYMBOL
    /// records. Its addresses are [`Address::Memory`](crate::Address::Memory).
    pub fn insert(&self, key: &DsoKey, table: SymbolTable) -> Arc<Dso> {
        let (shared, loaded) = (self.shared.clone(), OnceLock::from(Arc::new(load::made(table).into())));
        let dso = Arc::new(Dso::new(key.clone(), shared, None, loaded));
        lock(&self.dsos).insert(identity(key).unwrap_or_else(|| key.clone()), dso.clone());
        dso
    }

    /// Takes in the names that a recording has inside ([`Sealing`](crate::Sealing)): they come before those of this machine's
    /// files, for objects that are asked for from now on.
    pub fn take_sealed(&self, sealed: Sealed) {
        self.shared.take_sealed(sealed);
        lock(&self.dsos).clear();
        lock(&self.jits).clear();
    }

    /// The text of a source file that a recording has inside.
    pub fn sealed_source(&self, path: &str) -> Option<Arc<[u8]>> {
        self.shared.all_sealed().iter().find_map(|sealed| sealed.source(path))
    }

    /// Of code that a process made and whose names a recording has inside: whether it was other code at other times. `None` if
    /// no recording has it.
    pub fn sealed_has_times(&self, pid: u32) -> Option<bool> {
        let all = self.shared.all_sealed();
        all.iter().flat_map(|sealed| sealed.made(pid)).map(|object| object.has_times()).reduce(|a, b| a || b)
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
        let owners = owners_of(&self.shared, pid);
        let mut places = vec![options.under_root(path)];
        if options.live || self.shared.running.has_met(pid) {
            // It made the file, under a name that may mean another one here.
            places.insert(0, in_root_of(pid, path));
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
        let new = || Arc::new(JitCode::new(pid, self.shared.clone()));
        lock(&self.jits).entry(pid).or_insert_with(new).clone()
    }
}

/// Answers of debug information that were given go into the [cache](SymbolOptions::cache), if there is one.
impl Drop for Symbolizer {
    fn drop(&mut self) {
        if self.shared.options.cache.is_some() {
            self.dsos().iter().for_each(|dso| dso.keep());
        }
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
