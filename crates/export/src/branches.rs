//! Branch records for compilers and linkers: [`Branches`] adds up where processors branched, and writes it for one program, as a
//! sample profile of LLVM (AutoFDO) or as BOLT's fdata.
//!
//! A branch that was taken tells of two things: of itself, and of all the code between the place that the branch before it went to, and
//! its own. Places are those of files, so that runs at different addresses are one.

mod autofdo;
mod bolt;

use perfuse_data::replay::{Filter, Step};
use perfuse_data::session::{Level, Session};
use perfuse_profile::symbols::{Dso, FoundSymbol};
use perfuse_profile::{FastMap, LocalSymbols, Lookup, ThreadTime};
use std::io::{self, Write};
use std::sync::Arc;

/// Code between two branches is no longer: what is, has gone other ways in between.
const MAX_STRETCH: u64 = 1 << 20;
/// Addresses that are remembered; then they are looked up again.
const MOST_PLACES: usize = 1 << 20;

/// A format that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BranchFormat {
    /// LLVM's sample profile as text: `llvm-profdata` and `clang -fprofile-sample-use` read it. It takes debug information.
    AutoFdo,
    /// BOLT's fdata, for `llvm-bolt -data` and `merge-fdata`. Without any branches it has samples alone.
    Bolt,
}

impl BranchFormat {
    /// All, with their names.
    pub const ALL: [(BranchFormat, &'static str); 2] =
        [(BranchFormat::AutoFdo, "autofdo"), (BranchFormat::Bolt, "bolt")];

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(format, _)| *format)
    }

    /// By the usual endings of files: `.afdo`, `.prof`, `.fdata`.
    pub fn of_path(path: &std::path::Path) -> Option<Self> {
        let ending = path.extension()?.to_string_lossy().to_lowercase();
        match ending.as_str() {
            "afdo" | "autofdo" | "prof" => Some(BranchFormat::AutoFdo),
            "fdata" => Some(BranchFormat::Bolt),
            _ => None,
        }
    }
}

/// A place in a program: its number, and the address as its symbols count.
type Place = (u32, u64);

/// How often a branch was taken, and how often it was not foreseen.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    count: u64,
    missed: u64,
}

/// How much a file tells of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BranchesWritten {
    /// Branches, or samples where there are none, that the file tells of.
    pub told: u64,
    /// Of how many functions.
    pub functions: usize,
}

/// The branches of samples, added up.
pub struct Branches {
    lookup: Lookup,
    programs: FastMap<u32, Arc<Dso>>,
    /// By the state of the maps, and address.
    known: FastMap<(u64, u64), Option<Place>>,
    /// None stands for code without a file.
    taken: FastMap<(Option<Place>, Option<Place>), Taken>,
    /// Code that was run from the first address up to the start of the last instruction.
    stretches: FastMap<(u32, u64, u64), u64>,
    /// Where samples are, for recordings without branches.
    samples: FastMap<Place, u64>,
    /// Names of events with samples.
    events: Vec<String>,
}

impl Branches {
    /// Of no samples yet.
    pub fn new(symbols: LocalSymbols) -> Self {
        Branches {
            lookup: Lookup::new(symbols, false),
            programs: FastMap::default(),
            known: FastMap::default(),
            taken: FastMap::default(),
            stretches: FastMap::default(),
            samples: FastMap::default(),
            events: Vec::new(),
        }
    }

    /// Takes a record of a replay, if it passes; what is no sample says nothing here. Branches of the kernel are left out.
    pub fn step(&mut self, step: &Step<'_>, filter: &Filter) {
        let (Some(sample), Some(event)) = (step.sample(), step.entry.event()) else { return };
        let (session, at) = (step.session, ThreadTime::of(&event.attr, sample));
        let is_wanted = filter.admits_moment(sample.cpu.map(|cpu| cpu.cpu), sample.time)
            && filter.admits_task(at.pid, at.tid, &session.name_of(at.tid));
        if !is_wanted {
            return;
        }
        let mut place = |address| self.place(session, at, address);
        match &sample.branch_stack {
            Some(branches) => {
                // The newest comes first: where the one before went to, is seen with the next.
                let mut newer: Option<Option<Place>> = None;
                let mut found = Vec::with_capacity(branches.entries.len());
                for branch in branches.entries.iter() {
                    let (from, to) = (place(branch.from), place(branch.to));
                    let stretch = newer.flatten().zip(to);
                    found.push((from, to, branch.flags.mispred(), stretch));
                    newer = Some(from);
                }
                for (from, to, is_missed, stretch) in found {
                    if from.is_some() || to.is_some() {
                        let taken = self.taken.entry((from, to)).or_default();
                        taken.count += 1;
                        taken.missed += u64::from(is_missed);
                    }
                    if let Some(((last_of, last), (of, first))) = stretch {
                        if of == last_of && first <= last && last - first <= MAX_STRETCH {
                            *self.stretches.entry((of, first, last)).or_default() += 1;
                        }
                    }
                }
            }
            None => {
                let Some(found) = sample.ip.and_then(place) else { return };
                let name = step.formats.event_name(event);
                if !self.events.contains(&name) {
                    self.events.push(name);
                }
                *self.samples.entry(found).or_default() += 1;
            }
        }
    }

    fn place(&mut self, session: &Session, at: ThreadTime, address: u64) -> Option<Place> {
        // The upper half is the kernel's.
        if address == 0 || address >> 63 != 0 {
            return None;
        }
        let key = (session.maps_of(at.pid, at.tid).id(), address);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let found = self.lookup.counted(session, at, Level::User, address).map(|(object, dso, counted)| {
            self.programs.entry(object).or_insert(dso);
            (object, counted)
        });
        if self.known.len() >= MOST_PLACES {
            self.known.clear();
        }
        self.known.insert(key, found);
        found
    }

    /// Whether there are branches; else there are samples at most.
    pub fn has_branches(&self) -> bool {
        !self.taken.is_empty()
    }

    /// The programs and libraries with the branches that come from each, or its samples where there are none; the one with most of them first.
    pub fn programs(&self) -> Vec<(u32, &str, u64)> {
        let mut sums: FastMap<u32, u64> = FastMap::default();
        for ((from, _), taken) in &self.taken {
            if let Some((of, _)) = from {
                *sums.entry(*of).or_default() += taken.count;
            }
        }
        for ((of, _), count) in self.samples.iter().filter(|_| self.taken.is_empty()) {
            *sums.entry(*of).or_default() += count;
        }
        let name = |(of, sum): (u32, u64)| (of, self.lookup.object(of), sum);
        let mut programs: Vec<_> = sums.into_iter().map(name).collect();
        programs.sort_unstable_by(|a, b| (b.2, a.1).cmp(&(a.2, b.1)));
        programs
    }

    /// Writes what there is of a program, by the number that [`programs`](Self::programs) has.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write(
        &self,
        program: u32,
        format: BranchFormat,
        to: &mut dyn Write,
    ) -> io::Result<BranchesWritten> {
        let Some(dso) = self.programs.get(&program) else { return Ok(BranchesWritten::default()) };
        match format {
            BranchFormat::AutoFdo => autofdo::write(self, program, dso, to),
            BranchFormat::Bolt => bolt::write(self, program, dso, to),
        }
    }

    /// The code of a program that was run, and how often; of one function each.
    fn stretches_of(&self, program: u32, dso: &Dso) -> Vec<(u64, u64, u64)> {
        let mut stretches: Vec<(u64, u64, u64)> = Vec::new();
        for (&(of, first, last), &count) in &self.stretches {
            if of == program && is_of_one(dso, first, last) {
                stretches.push((first, last, count));
            }
        }
        stretches.sort_unstable();
        stretches
    }
}

fn is_of_one(dso: &Dso, first: u64, last: u64) -> bool {
    let start = |address| dso.find_counted(address).map(|FoundSymbol { symbol, .. }| symbol.start);
    let first = start(first);
    first.is_some() && first == start(last)
}
