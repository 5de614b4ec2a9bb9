//! Tables of a processor's events and metrics, in the format of the kernel's `tools/perf/pmu-events`: JSON
//! files of one processor in a folder, beside a `mapfile.csv` that says which folder is whose. Nothing of
//! any vendor is in here; the tables are read from where somebody put them.

mod entry;
mod facts;
mod folder;
mod processor;

pub use facts::MachineFacts;
pub use folder::{TablesError, cpuid_of_this_machine};
pub use processor::Processor;

use crate::catalogue::PmuEvent;
use crate::metric::Metric;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use std::path::{Path, PathBuf};

/// The events and metrics of one processor.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Where they were read.
    pub folder: PathBuf,
    /// The metrics, in order of their names.
    pub metrics: Vec<Metric>,
    /// Descriptions of groups of metrics, by name, as far as there are any.
    pub groups: BTreeMap<String, String>,
    /// Files that could not be read, in words.
    pub complaints: Vec<String>,
    /// By name, in small letters.
    events: BTreeMap<String, Vec<TableEvent>>,
}

/// An event of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableEvent {
    /// The PMU, or what stands at the start of its name; `None`: that of the cores.
    pub(crate) pmu: Option<String>,
    /// The one PMU whose table it stands in: that of one of several kinds of cores, or one outside of the
    /// processor.
    pub(crate) only: Option<String>,
    pub(crate) event: PmuEvent,
}

/// Metrics of events that every machine has.
const COMMON: &str = include_str!("tables/common.json");

impl Tables {
    /// Metrics of events that every machine has, which come with this crate.
    pub fn common() -> Self {
        let mut tables = Tables::default();
        tables.add(COMMON, "common", &Reading::default());
        tables
    }

    /// The tables in a folder for the processor `cpuid`, and the common metrics. The folder is one of JSON
    /// files, or has a `mapfile.csv`, or has a folder for this architecture that does. `None`: its
    /// `mapfile.csv` does not know the processor.
    pub fn load(folder: &Path, cpuid: &str) -> Result<Option<Self>, TablesError> {
        folder::load(folder, &Processor::of(cpuid))
    }

    /// The same for a machine that may have several kinds of cores, each with its table, and PMUs outside of them
    /// that say what they are: events and metrics of the folders `sys` are taken for those whose `Compat` fits.
    pub fn load_for(folder: &Path, processor: &Processor) -> Result<Option<Self>, TablesError> {
        folder::load(folder, processor)
    }

    /// Takes in a file of events and metrics by its text; what of it cannot be read is added to the complaints.
    pub fn read(&mut self, text: &str, file: &str) {
        self.add(text, file, &Reading::default());
    }

    /// Takes in a file.
    pub(crate) fn add(&mut self, text: &str, file: &str, reading: &Reading<'_>) {
        let objects = match entry::objects(text) {
            Ok(objects) => objects,
            Err(reason) => return self.complaints.push(alloc::format!("{file}: {reason}")),
        };
        for object in objects {
            match entry::read(&object, reading.standard.unwrap_or(&BTreeMap::new())) {
                Ok(entry::Entry { event, metric, compat }) => {
                    let unit = event.as_ref().and_then(|(_, event)| event.pmu.as_deref());
                    let unit = unit.or(metric.as_ref().and_then(|metric| metric.pmu.as_deref()));
                    let Some(only) = reading.places(unit, compat.as_deref()) else { continue };
                    if let Some((name, event)) = event {
                        let own = self.events.entry(name).or_default();
                        own.extend(
                            only.iter().map(|only| TableEvent { only: only.clone(), ..event.clone() }),
                        );
                    }
                    let metric = metric.map(|metric| match (&metric.pmu, reading.core) {
                        (None, Some(core)) => Metric { pmu: Some(core.into()), ..metric },
                        _ => metric,
                    });
                    // An entry of a vendor's table says more than that of all processors.
                    if let Some(metric) = metric {
                        self.metrics.retain(|own| own.name != metric.name || own.pmu != metric.pmu);
                        self.metrics.push(metric);
                    }
                }
                Err(reason) => self.complaints.push(alloc::format!("{file}: {reason}")),
            }
        }
        self.metrics.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// An event of a PMU, by name in any case.
    pub fn event(&self, pmu: &str, is_core: bool, name: &str) -> Option<PmuEvent> {
        let events = self.events.get(&name.to_ascii_lowercase())?;
        let found = events.iter().find(|event| event.is_of(pmu, is_core));
        found.map(|found| found.event.clone())
    }

    /// The names of a PMU's events, in order.
    pub fn events(&self, pmu: &str, is_core: bool) -> Vec<String> {
        let of_it = |events: &&Vec<TableEvent>| events.iter().any(|event| event.is_of(pmu, is_core));
        self.events.iter().filter(|(_, events)| of_it(events)).map(|(name, _)| name.clone()).collect()
    }

    /// How many events there are, whether the machine has their PMUs or not.
    pub fn event_count(&self) -> usize {
        self.events.len()
    }

    /// A metric by its own name, in any case; where several PMUs have one, that of `pmu`.
    pub fn metric(&self, name: &str, pmu: Option<&str>) -> Option<&Metric> {
        let mut named = self.metrics.iter().filter(|metric| metric.name.eq_ignore_ascii_case(name));
        let first = named.clone().next();
        named.find(|metric| metric.pmu.as_deref() == pmu).or(first)
    }
}

/// How the entries of a file are to be understood.
#[derive(Debug, Default)]
pub(crate) struct Reading<'r> {
    /// Events that others refer to.
    standard: Option<&'r BTreeMap<String, entry::Object>>,
    /// The kind of cores that they are about.
    core: Option<&'r str>,
    /// PMUs with what they are, of which some are meant.
    identifiers: &'r [(String, String)],
}

impl Reading<'_> {
    /// The PMUs that alone have an entry for this unit; one that is no name for those that its unit tells. `None`:
    /// the machine has none of them.
    fn places(&self, unit: Option<&str>, compat: Option<&str>) -> Option<Vec<Option<String>>> {
        let (Some(unit), Some(compat)) = (unit, compat) else {
            let of_cores = self.core.filter(|_| unit.is_none());
            return Some(alloc::vec![of_cores.map(Into::into)]);
        };
        let is_meant = |(pmu, identifier): &&(String, String)| {
            folder::is_identifier(compat, identifier) && is_of_unit(unit, pmu)
        };
        let found: Vec<_> =
            self.identifiers.iter().filter(is_meant).map(|(pmu, _)| Some(pmu.clone())).collect();
        (!found.is_empty()).then_some(found)
    }
}

/// Whether a PMU is one of a unit, whose parts are those of a name such as `hisi_sccl1_ddrc0`.
fn is_of_unit(unit: &str, pmu: &str) -> bool {
    if !unit.contains(',') {
        return crate::resolve::is_meant_by(unit, pmu);
    }
    let mut rest = pmu;
    unit.split(',').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

impl TableEvent {
    fn is_of(&self, pmu: &str, is_core: bool) -> bool {
        if let Some(only) = &self.only {
            return only == pmu;
        }
        match &self.pmu {
            None => is_core,
            Some(own) => is_of_unit(own, pmu),
        }
    }
}
