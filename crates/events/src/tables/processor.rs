//! The facts that choose a machine's tables: its kinds of cores, and what the PMUs outside of them say they are.

use super::folder::cpuid_of_this_machine;
use crate::sysfs::Sysfs;
use alloc::string::String;
use alloc::vec::Vec;
use std::fs;

/// A machine, as tables know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// The names of its cores in a `mapfile.csv`: with their PMU, where there are several kinds.
    pub cores: Vec<(Option<String>, String)>,
    /// PMUs that say what they are (in a file `identifier`), and what.
    pub identifiers: Vec<(String, String)>,
}

impl Processor {
    /// One with a single kind of cores.
    pub fn of(cpuid: &str) -> Self {
        Processor { cores: alloc::vec![(None, cpuid.into())], identifiers: Vec::new() }
    }

    /// That of the running machine. `PERF_CPUID` in the environment names another, as it does to perf.
    pub fn of_this_machine() -> Self {
        let midr = |cpu: u32| {
            let path = alloc::format!("/sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1");
            Some(String::from(fs::read_to_string(path).ok()?.trim()))
        };
        let sysfs = Sysfs::default();
        let mut processor = Processor { cores: Vec::new(), identifiers: sysfs.identifiers() };
        if std::env::var_os("PERF_CPUID").is_none() {
            processor.cores = of_cores(&sysfs, midr);
        }
        if processor.cores.is_empty() {
            processor.cores.push((None, cpuid_of_this_machine().unwrap_or_default()));
        }
        processor
    }
}

/// Kinds of cores that are different processors, as Arm's are, each with what its first cpu is.
fn of_cores(sysfs: &Sysfs, midr: impl Fn(u32) -> Option<String>) -> Vec<(Option<String>, String)> {
    let of = |pmu: String| {
        let first = *sysfs.pmu(&pmu).ok()?.cpus?.first()?;
        Some((Some(pmu), midr(first)?))
    };
    sysfs.cores().into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_cores_is_a_processor() {
        let root = std::env::temp_dir().join(alloc::format!("perfuse-cores-{}", std::process::id()));
        for (pmu, cpus) in [("armv8_cortex_a53", "0-3"), ("armv8_cortex_a72", "4-5"), ("imx8_ddr0", "")] {
            fs::create_dir_all(root.join(pmu)).unwrap();
            fs::write(root.join(pmu).join("type"), "9").unwrap();
            match cpus {
                "" => fs::write(root.join(pmu).join("identifier"), "i.MX8MQ\n").unwrap(),
                cpus => fs::write(root.join(pmu).join("cpus"), cpus).unwrap(),
            }
        }
        let sysfs = Sysfs::at(&root);
        let midr = |cpu: u32| Some(if cpu < 4 { "0x410fd034" } else { "0x410fd083" }.into());
        let cores = of_cores(&sysfs, midr);
        let identifiers = sysfs.identifiers();
        let _ = fs::remove_dir_all(&root);
        let core = |pmu: &str, cpuid: &str| (Some(pmu.into()), cpuid.into());
        assert_eq!(cores, [core("armv8_cortex_a53", "0x410fd034"), core("armv8_cortex_a72", "0x410fd083")]);
        assert_eq!(identifiers, [("imx8_ddr0".into(), "i.MX8MQ".into())]);
    }
}
