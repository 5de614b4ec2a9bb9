//! The PMUs of a machine as sysfs shows them: their types, their terms in `format`, the events they name in
//! `events`.

use crate::catalogue::{Pmu, PmuEvent, Refusal, Scale};
use crate::format::Format;
use alloc::string::String;
use alloc::vec::Vec;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A folder such as `/sys/bus/event_source/devices`. Nothing is read before it is asked.
#[derive(Clone, Debug)]
pub struct Sysfs {
    devices: PathBuf,
    /// Asked for with every event of the cpu.
    cores: OnceLock<Vec<String>>,
}

impl Default for Sysfs {
    fn default() -> Self {
        Sysfs::at("/sys/bus/event_source/devices")
    }
}

/// The details of an event in files beside its own.
const ASIDE: [&str; 4] = [".scale", ".unit", ".per-pkg", ".snapshot"];

impl Sysfs {
    /// PMUs in this folder.
    pub fn at(devices: impl Into<PathBuf>) -> Self {
        Sysfs { devices: devices.into(), cores: OnceLock::new() }
    }

    /// Text of a file, without white space around it. Names must stay below the folder.
    fn text(&self, parts: &[&str]) -> Option<String> {
        if parts.iter().any(|part| part.is_empty() || part.starts_with('.') || part.contains('/')) {
            return None;
        }
        let path = parts.iter().fold(self.devices.clone(), |path, part| path.join(part));
        Some(fs::read_to_string(path).ok()?.trim().into())
    }

    fn names(&self, folder: &[&str]) -> std::io::Result<Vec<String>> {
        let path = folder.iter().fold(self.devices.clone(), |path, part| path.join(part));
        let entries = fs::read_dir(path)?;
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// All names, in order.
    pub fn pmus(&self) -> Result<Vec<String>, Refusal> {
        self.names(&[])
            .map_err(|error| Refusal::Unreadable(alloc::format!("{}: {error}", self.devices.display())))
    }

    /// A PMU, by its name.
    pub fn pmu(&self, name: &str) -> Result<Pmu, Refusal> {
        let type_ = self.text(&[name, "type"]).and_then(|text| text.parse().ok()).ok_or(Refusal::Unknown)?;
        let list = |file| self.text(&[name, file]).and_then(|text| parse_cpu_list(&text));
        let cpus = list("cpus");
        let is_core = name == "cpu" || name == "cpum_cf" || cpus.is_some();
        Ok(Pmu { type_, cpus: list("cpumask").or(cpus), is_core })
    }

    /// The PMUs that say what they are, and what.
    pub fn identifiers(&self) -> Vec<(String, String)> {
        let pmus = self.pmus().unwrap_or_default().into_iter();
        pmus.filter_map(|pmu| self.text(&[&pmu, "identifier"]).map(|own| (pmu, own))).collect()
    }

    /// The PMUs of cores, if there are several. Looked for once.
    pub fn cores(&self) -> Vec<String> {
        self.cores.get_or_init(|| self.find_cores()).clone()
    }

    fn find_cores(&self) -> Vec<String> {
        if self.devices.join("cpu").exists() {
            return Vec::new();
        }
        let has_cpus = |name: &String| self.devices.join(name).join("cpus").exists();
        let cores: Vec<String> = self.pmus().unwrap_or_default().into_iter().filter(has_cpus).collect();
        if cores.len() > 1 { cores } else { Vec::new() }
    }

    /// Where a term goes.
    pub fn format(&self, pmu: &str, term: &str) -> Option<Format> {
        Format::parse(&self.text(&[pmu, "format", term])?)
    }

    /// The terms.
    pub fn formats(&self, pmu: &str) -> Vec<String> {
        self.names(&[pmu, "format"]).unwrap_or_default()
    }

    /// An event that the PMU names. The kernel's names are all in one case, which need not be that of
    /// `name`.
    pub fn event(&self, pmu: &str, name: &str) -> Option<PmuEvent> {
        if ASIDE.iter().any(|end| name.ends_with(end)) {
            return None;
        }
        let spellings = [name.into(), name.to_ascii_lowercase(), name.to_ascii_uppercase()];
        let (name, terms) =
            spellings.iter().find_map(|name| Some((name, self.text(&[pmu, "events", name])?)))?;
        let aside = |end: &str| self.text(&[pmu, "events", &alloc::format!("{name}{end}")]);
        let (factor, unit) = (aside(".scale").and_then(|text| text.parse().ok()), aside(".unit"));
        let scale = (factor.is_some() || unit.is_some())
            .then(|| Scale { factor: factor.unwrap_or(1.0), unit: unit.unwrap_or_default() });
        Some(PmuEvent {
            terms,
            scale,
            snapshot: aside(".snapshot").is_some_and(|text| text == "1"),
            per_package: aside(".per-pkg").is_some_and(|text| text == "1"),
            description: String::new(),
        })
    }

    /// The events that the PMU names.
    pub fn events(&self, pmu: &str) -> Vec<String> {
        let mut names = self.names(&[pmu, "events"]).unwrap_or_default();
        names.retain(|name| !ASIDE.iter().any(|end| name.ends_with(end)));
        names
    }
}

/// A list such as `0-3,8`, as sysfs and perf's `-C` write it. `None` if it is not one.
///
/// ```
/// assert_eq!(perfuse_events::parse_cpu_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
/// assert_eq!(perfuse_events::parse_cpu_list("2-1"), None);
/// ```
pub fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // More cpus than any kernel supports is a typing error, not a list.
        if first > last || last - first > 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Cpus in order as a list that [`parse_cpu_list`] reads.
///
/// ```
/// assert_eq!(perfuse_events::cpu_list(&[0, 1, 2, 4, 6, 7]), "0-2,4,6-7");
/// assert_eq!(perfuse_events::cpu_list(&[3]), "3");
/// ```
pub fn cpu_list(cpus: &[u32]) -> String {
    let mut ranges = Vec::new();
    let mut rest = cpus;
    while let Some((&first, _)) = rest.split_first() {
        let length = rest.iter().zip(first..).take_while(|(cpu, expected)| **cpu == *expected).count();
        ranges.push(match length {
            1 => alloc::format!("{first}"),
            _ => alloc::format!("{first}-{}", rest[length - 1]),
        });
        rest = &rest[length..];
    }
    ranges.join(",")
}
