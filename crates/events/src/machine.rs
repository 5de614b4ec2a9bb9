//! The catalogue of the running machine: its tracepoints in the tracing file system, its PMUs in sysfs.

use crate::catalogue::{Catalogue, Pmu, PmuEvent, Probe, Refusal};
use crate::format::Format;
use crate::probe::ProbePlace;
use crate::sysfs::Sysfs;
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// All that the running machine tells about its events, or one whose file systems stand elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Its tracepoints.
    pub tracefs: Tracefs,
    /// Its PMUs.
    pub sysfs: Sysfs,
    /// PMUs that it has beside those.
    pub beside: &'static [OwnPmu],
    /// The type of the PMU `uprobe`, where sysfs shows none.
    pub uprobe: Option<u32>,
    /// Finds where in its file a probe is.
    pub finder: Option<ProbeFinder>,
    /// The vendor's tables of its events, which tell more than its kernel.
    #[cfg(feature = "tables")]
    pub tables: Option<TableSource>,
}

/// A PMU that sysfs does not show: of another implementation of perf_events than Linux'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnPmu {
    /// Its name.
    pub name: &'static str,
    /// `attr.type` of its events.
    pub type_: u32,
    /// Its terms, and where they go.
    pub format: &'static [(&'static str, &'static str)],
    /// The events that it names, with their terms.
    pub events: &'static [(&'static str, &'static str)],
    /// A sentence about them.
    pub description: &'static str,
}

/// Finds where in its file a probe is: each place, but for the type. Reading programs is not the business of this
/// crate.
pub type ProbeFinder = fn(&ProbePlace) -> Result<Vec<Probe>, Refusal>;

/// Reads the tables of the machine's processor, when they are first needed.
#[cfg(feature = "tables")]
pub type TableSource = fn() -> Option<&'static crate::tables::Tables>;

impl Machine {
    /// The running one. Nothing is read before it is asked.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that tells nothing, whatever the running one does: it has the events that every kernel has names for.
    pub fn unknown() -> Self {
        // Below what is no folder there is nothing.
        let nowhere = "/dev/null";
        Machine { tracefs: Tracefs::at(nowhere), sysfs: Sysfs::at(nowhere), ..Self::default() }
    }

    fn own(&self, pmu: &str) -> Option<&'static OwnPmu> {
        self.beside.iter().find(|own| own.name == pmu)
    }
}

impl Catalogue for Machine {
    fn tracepoint(&self, system: &str, name: &str) -> Result<u64, Refusal> {
        self.tracefs.tracepoint(system, name)
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, Refusal> {
        self.tracefs.tracepoints()
    }

    fn pmus(&self) -> Result<Vec<String>, Refusal> {
        let mut all = match self.sysfs.pmus() {
            Err(refusal) if self.beside.is_empty() => return Err(refusal),
            all => all.unwrap_or_default(),
        };
        all.extend(self.beside.iter().map(|own| own.name.into()));
        all.sort();
        Ok(all)
    }

    fn pmu(&self, name: &str) -> Result<Pmu, Refusal> {
        match self.own(name) {
            Some(own) => Ok(Pmu { type_: own.type_, ..Pmu::default() }),
            None => self.sysfs.pmu(name),
        }
    }

    fn cores(&self) -> Vec<String> {
        self.sysfs.cores()
    }

    fn format(&self, pmu: &str, term: &str) -> Option<Format> {
        let Some(own) = self.own(pmu) else { return self.sysfs.format(pmu, term) };
        own.format.iter().find(|(name, _)| *name == term).and_then(|(_, place)| Format::parse(place))
    }

    fn formats(&self, pmu: &str) -> Vec<String> {
        let Some(own) = self.own(pmu) else { return self.sysfs.formats(pmu) };
        own.format.iter().map(|&(name, _)| name.into()).collect()
    }

    fn pmu_event(&self, pmu: &str, name: &str) -> Option<PmuEvent> {
        if let Some(own) = self.own(pmu) {
            let (_, terms) = own.events.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
            let (terms, description) = ((*terms).into(), own.description.into());
            return Some(PmuEvent { terms, description, ..PmuEvent::default() });
        }
        let own = self.sysfs.event(pmu, name);
        #[cfg(feature = "tables")]
        if let Some(tables) = self.tables.and_then(|source| source()) {
            let is_core = self.sysfs.pmu(pmu).is_ok_and(|pmu| pmu.is_core);
            let told = tables.event(pmu, is_core, name);
            // The kernel knows how its PMU is asked; what the event means stands in the table.
            return match (own, told) {
                (Some(own), Some(told)) => Some(PmuEvent { description: told.description, ..own }),
                (own, told) => own.or(told),
            };
        }
        own
    }

    fn pmu_events(&self, pmu: &str) -> Vec<String> {
        if let Some(own) = self.own(pmu) {
            return own.events.iter().map(|&(name, _)| name.into()).collect();
        }
        let own = self.sysfs.events(pmu);
        #[cfg(feature = "tables")]
        if let Some(tables) = self.tables.and_then(|source| source()) {
            let is_core = self.sysfs.pmu(pmu).is_ok_and(|pmu| pmu.is_core);
            let known = |name: &String| own.iter().any(|own| own.eq_ignore_ascii_case(name));
            let more: Vec<String> =
                tables.events(pmu, is_core).into_iter().filter(|name| !known(name)).collect();
            return own.into_iter().chain(more).collect();
        }
        own
    }

    fn probe(&self, place: &ProbePlace) -> Result<Vec<Probe>, Refusal> {
        let name = match place {
            ProbePlace::Uprobe { .. } | ProbePlace::Line { .. } | ProbePlace::Usdt { .. } => "uprobe",
            ProbePlace::Kprobe { .. } => "kprobe",
        };
        let own = self.uprobe.filter(|_| name == "uprobe");
        let Some(type_) = self.sysfs.pmu(name).map(|pmu| pmu.type_).ok().or(own) else {
            return Err(Refusal::Unreadable(alloc::format!(
                "this kernel has no PMU '{name}', which makes such probes (CONFIG_{}_EVENTS)",
                name.to_ascii_uppercase()
            )));
        };
        let at = |offset: u64| alloc::vec![Probe { offset, ..Probe::default() }];
        let found = match (place, self.finder) {
            (ProbePlace::Uprobe { symbol, offset, .. }, _) if symbol.is_empty() => at(*offset),
            (ProbePlace::Kprobe { offset, .. }, _) => at(*offset),
            (place, Some(finder)) => finder(place)?,
            (_, None) => return Err(Refusal::Unreadable("nobody was asked to look into files".into())),
        };
        Ok(found.into_iter().map(|probe| Probe { type_, ..probe }).collect())
    }
}

/// Tracepoints as the tracing file system tells them. Nothing is read before it is asked.
#[derive(Clone, Debug, Default)]
pub struct Tracefs {
    /// Its root, if it is known.
    root: Option<PathBuf>,
    /// Finds it.
    finder: Option<TracefsFinder>,
    /// Tracepoints that are there where it cannot be read, with their ids.
    own: Option<OwnTracepoints>,
    /// They are not there, but elsewhere: the words for that where it cannot be read.
    hint: Option<&'static str>,
}

/// Finds the root of the tracing file system, or tells why it cannot be had.
pub type TracefsFinder = fn() -> Result<PathBuf, Refusal>;

/// Tells tracepoints, `system:name`, with their ids.
pub type OwnTracepoints = fn() -> Vec<(Cow<'static, str>, u64)>;

/// The places where the tracing file system is mounted.
pub const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

impl Tracefs {
    /// The one of the running machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// One rooted elsewhere.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Tracefs { root: Some(root.into()), ..Self::default() }
    }

    /// The one that `finder` finds, who is asked anew each time: mounting is not the business of this crate.
    pub fn found_by(finder: TracefsFinder) -> Self {
        Tracefs { finder: Some(finder), ..Self::default() }
    }

    /// The same with tracepoints that are there where the file system cannot be read; `own` is asked each time.
    #[must_use]
    pub fn or(self, own: OwnTracepoints) -> Self {
        Tracefs { own: Some(own), ..self }
    }

    /// The same with what would help to have these tracepoints where the file system cannot be read.
    #[must_use]
    pub fn or_elsewhere(self, own: OwnTracepoints, hint: &'static str) -> Self {
        Tracefs { own: Some(own), hint: Some(hint), ..self }
    }

    /// The folder `events`.
    fn events(&self) -> Result<PathBuf, Refusal> {
        if let Some(finder) = self.finder {
            return finder().map(|root| root.join("events"));
        }
        let places = self.root.iter().map(PathBuf::as_path).chain(TRACEFS.iter().map(Path::new));
        let mut answer = None;
        for place in places.take(if self.root.is_some() { 1 } else { TRACEFS.len() }) {
            match fs::metadata(place.join("events")) {
                Ok(_) => return Ok(place.join("events")),
                // The place of one that may not be entered is the better answer.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    answer.get_or_insert((place.to_path_buf(), error));
                }
                Err(_) => {}
            }
        }
        Err(match answer {
            Some((place, error)) => closed(&place, &error),
            None => Refusal::Unreadable("the tracing file system is not mounted here".into()),
        })
    }
}

/// For a folder that this user may not read.
fn closed(place: &Path, error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let mount = place.ancestors().find(|dir| dir.ends_with("tracing")).unwrap_or(place);
            Refusal::Unreadable(alloc::format!(
                "this user may not read {}; as root: mount -o remount,mode=755 {}",
                place.display(),
                mount.display()
            ))
        }
        _ => Refusal::Unreadable(alloc::format!("{}: {error}", place.display())),
    }
}

impl Catalogue for Tracefs {
    fn tracepoint(&self, system: &str, name: &str) -> Result<u64, Refusal> {
        // A path made of names must stay below `events`.
        if [system, name].iter().any(|part| part.starts_with('.') || part.contains('/')) {
            return Err(Refusal::Unknown);
        }
        let own = || {
            let mut all = self.own.map_or_else(Vec::new, |own| own()).into_iter();
            all.find(|(own, _)| own.split_once(':') == Some((system, name)))
        };
        let path = match self.events() {
            Ok(events) => events.join(system).join(name).join("id"),
            Err(Refusal::Unreadable(why)) => {
                let elsewhere = |hint| Refusal::Unreadable(alloc::format!("{why}; {hint}"));
                return match (own(), self.hint) {
                    (Some((_, id)), None) => Ok(id),
                    (Some(_), Some(hint)) => Err(elsewhere(hint)),
                    (None, _) => Err(Refusal::Unreadable(why)),
                };
            }
            Err(other) => return Err(other),
        };
        match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map_err(|_| Refusal::Unknown),
            Err(error) => match own().filter(|_| self.hint.is_none()) {
                Some((_, id)) => Ok(id),
                None if error.kind() == io::ErrorKind::NotFound => Err(Refusal::Unknown),
                None => Err(closed(&path, &error)),
            },
        }
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, Refusal> {
        let events = match self.events() {
            Ok(events) => events,
            Err(refusal) => {
                let own = self.own.filter(|_| self.hint.is_none()).ok_or(refusal)?();
                let names = own.iter().filter_map(|(name, _)| name.split_once(':'));
                return Ok(names.map(|(system, name)| (system.to_owned(), name.to_owned())).collect());
            }
        };
        let names = |dir: &Path| -> Result<Vec<String>, Refusal> {
            let entries = fs::read_dir(dir).map_err(|error| closed(dir, &error))?;
            let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            let mut names: Vec<String> = entries
                .filter_map(Result::ok)
                .filter(is_dir)
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect();
            names.sort();
            Ok(names)
        };
        let mut all = Vec::new();
        for system in names(&events)? {
            all.extend(names(&events.join(&system))?.into_iter().map(|name| (system.clone(), name)));
        }
        Ok(all)
    }
}
