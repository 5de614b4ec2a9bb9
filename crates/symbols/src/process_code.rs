//! The code that a process made at run time: of its perf map, and of its jitdumps.

use crate::jit::{CodeMap, perf_map};
use crate::missing::Missing;
use crate::shared::Shared;
use crate::table::{FoundSymbol, Symbol, SymbolId};
use perfuse_files::{Owners, in_root_of};
use perfuse_proc::{Status, read};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

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
    /// Nothing is read yet.
    pub(crate) fn new(pid: u32, shared: Arc<Shared>) -> Self {
        let all = shared.all_sealed();
        let code = JitCode { pid, shared, ..JitCode::default() };
        for object in all.iter().flat_map(|sealed| sealed.made(pid)) {
            // This machine's files of the same number are another process's.
            let _ = code.perf_map.set(Err(Missing::NoJitMap { tried: Vec::new() }));
            code.add_dump(object.made());
        }
        code
    }

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

    pub(crate) fn dumps(&self) -> impl Iterator<Item = &CodeMap> {
        let first = self.dumps.get();
        std::iter::successors(first, |dump| dump.next.get()).map(|dump| &dump.map)
    }

    pub(crate) fn add_dump(&self, map: CodeMap) {
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
            let places = perf_map_places(&self.shared, self.pid);
            let owners = owners_of(&self.shared, self.pid);
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
fn perf_map_places(shared: &Shared, pid: u32) -> Vec<PathBuf> {
    let map = |pid: u32| PathBuf::from(format!("/tmp/perf-{pid}.map"));
    let mut places = Vec::new();
    if is_running(shared, pid) {
        let inner = innermost_pid(pid).unwrap_or(pid);
        places.push(in_root_of(pid, &map(inner)));
        if inner != pid {
            places.push(in_root_of(pid, &map(pid)));
        }
    }
    places.push(shared.options.under_root(&map(pid)));
    places
}

/// Whether the process of this number is the one that is meant.
fn is_running(shared: &Shared, pid: u32) -> bool {
    shared.options.live || shared.running.has_met(pid)
}

/// The users whose files are believed about the code that a process made.
pub(crate) fn owners_of(shared: &Shared, pid: u32) -> Owners {
    let process = fs::metadata(format!("/proc/{pid}")).ok().filter(|_| is_running(shared, pid));
    match process {
        _ if shared.options.any_owner => Owners::Any,
        Some(process) => Owners::Trusted { also: Some(process.uid()) },
        None => Owners::Trusted { also: None },
    }
}

/// The number that a running process takes for its own.
fn innermost_pid(pid: u32) -> Option<u32> {
    Status(&read::status(pid)?).innermost_process()
}

/// Asks several maps, the last first, until one knows the address: part 0 is the perf map, the others are
/// jitdumps, of which a process has more than one only if it executed another program.
fn find_in_parts<'a>(
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
