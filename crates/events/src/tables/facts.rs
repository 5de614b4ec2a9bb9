//! Facts of a machine that definitions of metrics may ask for before anything is counted.

use super::folder::{cpuid_of_this_machine, is_cpu};
use crate::machine::Machine;
use crate::metric::Context;
use crate::sysfs::parse_cpu_list;
use crate::tree::EventList;
use alloc::collections::BTreeSet;
use alloc::string::String;
use std::fs;
use std::path::Path;

/// The facts of the running machine, with the events of `machine`.
#[derive(Clone, Copy, Debug)]
pub struct MachineFacts<'m> {
    /// Where events are looked up.
    pub machine: &'m Machine,
    /// Whole cores are measured: all of their cpus, for all tasks.
    pub whole_cores: bool,
}

const CPUS: &str = "/sys/devices/system/cpu";

fn text(path: &str) -> Option<String> {
    Some(fs::read_to_string(Path::new(CPUS).join(path)).ok()?.trim().into())
}

fn count(list: &str) -> Option<f64> {
    Some(parse_cpu_list(&text(list)?)?.len() as f64)
}

/// How many different values the cpus that are online have in their folders `topology`.
fn different(files: &[&str]) -> Option<f64> {
    let value = |cpu: u32| {
        let of = |file: &&str| text(&alloc::format!("cpu{cpu}/topology/{file}"));
        files.iter().map(of).collect::<Option<alloc::vec::Vec<_>>>()
    };
    let values: Option<BTreeSet<_>> = parse_cpu_list(&text("online")?)?.into_iter().map(value).collect();
    Some(values?.len() as f64)
}

/// The frequency that a processor is sold with, at which its clock ticks: the end of `model name`, from the text
/// of `/proc/cpuinfo`. Not every processor tells it there, and the kernel tells it nowhere else.
fn nominal_hz(info: &str) -> Option<f64> {
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    let (_, frequency) = line.rsplit_once('@')?;
    let frequency = frequency.trim();
    let (number, factor) = match frequency.strip_suffix("GHz") {
        Some(number) => (number, 1e9),
        None => (frequency.strip_suffix("MHz")?, 1e6),
    };
    Some(number.trim().parse::<f64>().ok()? * factor)
}

impl Context for MachineFacts<'_> {
    fn literal(&self, name: &str) -> Option<f64> {
        let truth = |is: bool| f64::from(u8::from(is));
        let smt = || text("smt/active").is_some_and(|active| active == "1");
        match name {
            "num_cpus" => count("present"),
            "num_cpus_online" => count("online"),
            "num_cores" => different(&["physical_package_id", "die_id", "core_id"])
                .or_else(|| different(&["physical_package_id", "core_id"])),
            "num_dies" => different(&["physical_package_id", "die_id"]),
            "num_packages" => different(&["physical_package_id"]),
            "smt_on" => Some(truth(smt())),
            // Without siblings a thread has its core for itself.
            "core_wide" => Some(truth(!smt() || self.whole_cores)),
            "has_pmem" => Some(truth(Path::new("/sys/firmware/acpi/tables/NFIT").exists())),
            "slots" => {
                let slots = fs::read_to_string("/sys/bus/event_source/devices/armv8_pmuv3_0/caps/slots");
                let slots = slots.ok()?;
                u64::from_str_radix(slots.trim().trim_start_matches("0x"), 16).ok().map(|slots| slots as f64)
            }
            "system_tsc_freq" => nominal_hz(&fs::read_to_string("/proc/cpuinfo").ok()?),
            _ => None,
        }
    }

    fn has_event(&self, name: &str) -> Option<bool> {
        let list: Result<EventList, _> = name.parse();
        Some(list.and_then(|list| list.resolve(self.machine)).is_ok())
    }

    fn is_cpu(&self, pattern: &str) -> Option<bool> {
        Some(is_cpu(pattern, &cpuid_of_this_machine()?))
    }
}

#[cfg(test)]
mod tests {
    use super::nominal_hz;

    #[test]
    fn a_name_may_tell_the_frequency() {
        let of = |name: &str| nominal_hz(&alloc::format!("processor\t: 0\nmodel name\t: {name}\n"));
        assert_eq!(of("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz"), Some(2.4e9));
        assert_eq!(of("Genuine CPU @ 800MHz"), Some(8e8));
        assert_eq!((of("AMD EPYC"), of("x @ much"), nominal_hz("")), (None, None, None));
    }
}
