//! The PMUs in the header of a recording: their numbers, their abilities, and, where cores differ, the cpus that
//! have them.

use crate::Str;
use crate::feature::{Capability, Feature, HybridNode, PmuCaps, PmuMapping};
use std::fs;
use std::path::Path;

const DEVICES: &str = "/sys/bus/event_source/devices";

/// The PMUs of this machine, by name.
#[derive(Debug, Default)]
pub(super) struct Pmus(Vec<Pmu>);

#[derive(Debug)]
struct Pmu {
    name: String,
    kind: u32,
    /// Names and values.
    caps: Vec<(String, String)>,
    /// Its cpus, if it is that of one of several kinds of cores.
    cores: Option<String>,
}

impl Pmus {
    pub(super) fn look() -> Self {
        Self::at(Path::new(DEVICES))
    }

    fn at(devices: &Path) -> Self {
        let pmus = names(devices).into_iter().filter_map(|name| {
            let folder = devices.join(&name);
            let text = |file: &str| Some(fs::read_to_string(folder.join(file)).ok()?.trim().to_owned());
            let caps = names(&folder.join("caps")).into_iter();
            let caps = caps.filter_map(|cap| Some((cap.clone(), text(&format!("caps/{cap}"))?)));
            let (kind, caps) = (text("type")?.parse().ok()?, caps.collect());
            let cores = if name.starts_with("cpu_") { text("cpus") } else { None };
            Some(Pmu { name, kind, caps, cores })
        });
        Pmus(pmus.collect())
    }

    /// The sections.
    pub(super) fn features(&self) -> Vec<Feature<'_>> {
        let mappings = self.0.iter().map(|pmu| PmuMapping { kind: pmu.kind, name: Str::new(&pmu.name) });
        let mut all = vec![Feature::PmuMappings(mappings.collect())];
        // That of all cores has a section of its own.
        let (cpu, others): (Vec<&Pmu>, Vec<&Pmu>) = self.0.iter().partition(|pmu| pmu.name == "cpu");
        all.extend(cpu.first().map(|pmu| Feature::CpuPmuCaps(pmu.capabilities())));
        let able = others.iter().filter(|pmu| !pmu.caps.is_empty());
        let caps = able.map(|pmu| PmuCaps { caps: pmu.capabilities(), pmu: Str::new(&pmu.name) });
        all.push(Feature::PmuCaps(caps.collect()));
        let cores = self.0.iter().filter_map(|pmu| {
            Some(HybridNode { pmu: Str::new(&pmu.name), cpus: Str::new(pmu.cores.as_deref()?) })
        });
        let cores: Vec<_> = cores.collect();
        if !cores.is_empty() {
            all.push(Feature::HybridTopology(cores));
        }
        all
    }
}

impl Pmu {
    fn capabilities(&self) -> Vec<Capability<'_>> {
        let caps = self.caps.iter();
        caps.map(|(name, value)| Capability { name: Str::new(name), value: Str::new(value) }).collect()
    }
}

/// The names of the files in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feature::FeatureId;

    fn machine(name: &str, files: &[(&str, &str)]) -> Pmus {
        let root = std::env::temp_dir().join(format!("perfuse-pmus-{}-{name}", std::process::id()));
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let pmus = Pmus::at(&root);
        fs::remove_dir_all(root).unwrap();
        pmus
    }

    #[test]
    fn one_kind_of_cores() {
        let pmus = machine(
            "one",
            &[
                ("software/type", "1\n"),
                ("cpu/type", "4\n"),
                ("cpu/caps/max_precise", "3\n"),
                ("x/y", "no type"),
            ],
        );
        let features = pmus.features();
        let ids: Vec<_> = features.iter().map(Feature::id).collect();
        assert_eq!(ids, [FeatureId::PMU_MAPPINGS, FeatureId::CPU_PMU_CAPS, FeatureId::PMU_CAPS]);
        let precise = Capability { name: Str::new("max_precise"), value: Str::new("3") };
        assert_eq!(features[1], Feature::CpuPmuCaps(vec![precise]));
        assert_eq!(features[2], Feature::PmuCaps(Vec::new()));
    }

    #[test]
    fn two_kinds_of_cores() {
        let pmus = machine(
            "two",
            &[
                ("cpu_atom/type", "10"),
                ("cpu_atom/cpus", "8-15\n"),
                ("cpu_core/type", "4"),
                ("cpu_core/cpus", "0-7\n"),
                ("cpu_core/caps/branches", "32\n"),
            ],
        );
        let [atom, core] = [("cpu_atom", "8-15"), ("cpu_core", "0-7")]
            .map(|(pmu, cpus)| HybridNode { pmu: Str::new(pmu), cpus: Str::new(cpus) });
        assert_eq!(pmus.features().last(), Some(&Feature::HybridTopology(vec![atom, core])));
        let branches = Capability { name: Str::new("branches"), value: Str::new("32") };
        let caps = PmuCaps { caps: vec![branches], pmu: Str::new("cpu_core") };
        assert!(pmus.features().contains(&Feature::PmuCaps(vec![caps])));
    }
}
