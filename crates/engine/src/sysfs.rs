//! The files of `/sys/bus/event_source/devices` (section M).

use crate::engine::Engine;
use crate::pmu::{PmuId, SysfsFile};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use perfuse_abi::{Errno, EventType};

impl Engine {
    /// The PMUs that have a directory, with their names.
    pub fn devices(&self) -> impl Iterator<Item = (PmuId, &str, EventType)> {
        let named = self.pmus.living().filter(|(_, pmu)| !HIDDEN.contains(&&*pmu.info.name));
        named.map(|(id, pmu)| (id, &*pmu.info.name, pmu.type_))
    }

    /// A PMU by its name; also one without a directory.
    pub fn pmu_by_name(&self, name: &str) -> Option<(PmuId, EventType)> {
        self.pmus.by_name(name).map(|id| (id, self.pmus.get(id).type_))
    }

    /// The files of a PMU's directory; none once it is gone.
    pub fn device_files(&self, pmu: PmuId) -> Vec<SysfsFile> {
        let Some(own) = self.pmus.find(pmu) else { return Vec::new() };
        let about = &own.info.description;
        let file = |path: String, text: String, mode| SysfsFile { path, text, mode };
        let mut files = Vec::new();
        files.push(file("type".into(), format!("{}\n", own.type_.0), 0o444));
        let interval = own.mux_interval_ns / 1_000_000;
        files.push(file("perf_event_mux_interval_ms".into(), format!("{interval}\n"), 0o644));
        for (dir, entries) in [("format", &about.format), ("events", &about.events), ("caps", &about.caps)] {
            files.extend(
                entries.iter().map(|(name, text)| file(format!("{dir}/{name}"), format!("{text}\n"), 0o444)),
            );
        }
        if let Some(cpus) = &about.cpumask {
            files.push(file("cpumask".into(), format!("{}\n", ranges(cpus)), 0o444));
        }
        if about.address_filters > 0 {
            files.push(file("nr_addr_filters".into(), format!("{}\n", about.address_filters), 0o444));
        }
        files
    }

    /// Writes `perf_event_mux_interval_ms`: `EINVAL` below 1; `ENODEV` once the PMU is gone.
    pub fn set_mux_interval_ms(&mut self, pmu: PmuId, ms: u64) -> Result<(), Errno> {
        let ns = ms.checked_mul(1_000_000).filter(|&ns| ns > 0).ok_or(Errno::EINVAL)?;
        self.pmus.find_mut(pmu).ok_or(Errno::ENODEV)?.mux_interval_ns = ns;
        Ok(())
    }
}

/// These have a type and no directory (rule M2).
const HIDDEN: [&str; 2] = ["cpu_clock", "task_clock"];

/// "0-3,8".
fn ranges(cpus: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = cpus;
    while let Some(&first) = rest.first() {
        let run = rest.iter().enumerate().take_while(|&(index, &cpu)| cpu == first + index as u32).count();
        let last = rest[run - 1];
        let comma = if text.is_empty() { "" } else { "," };
        text += &if last == first { format!("{comma}{first}") } else { format!("{comma}{first}-{last}") };
        rest = &rest[run..];
    }
    text
}
