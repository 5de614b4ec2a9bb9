//! [`Origin`]: where and how a recording was made, which reports tell beside its profile.

use perfuse_data::PerfData;
use perfuse_data::feature::{Feature, FeatureId};

/// Where and how the recording was made, by its own header.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Origin {
    /// The name of the machine.
    pub hostname: Option<String>,
    /// The release of its kernel.
    pub os_release: Option<String>,
    /// Its architecture, as `uname -m` calls it.
    pub arch: Option<String>,
    /// Its processor.
    pub cpu: Option<String>,
    /// Cpus that ran.
    pub cpus_online: Option<u32>,
    /// Cpus that there were.
    pub cpus_available: Option<u32>,
    /// Its memory, in KiB.
    pub memory_kib: Option<u64>,
    /// The version of the program that recorded.
    pub perf_version: Option<String>,
    /// The command line that recorded.
    pub command: Option<Vec<String>>,
    /// The time of the first sample.
    pub first_sample_ns: Option<u64>,
    /// The time of the last sample.
    pub last_sample_ns: Option<u64>,
}

impl Origin {
    /// Reads it from the sections of a recording; what is not there, or cannot be read, is nothing.
    #[must_use]
    pub fn read(data: &mut PerfData<'_>) -> Self {
        let mut origin = Origin::default();
        let ids: Vec<FeatureId> = data.features().collect();
        for id in ids {
            let Ok(Some(section)) = data.feature(id) else { continue };
            match section.feature {
                Feature::Hostname(text) => origin.hostname = Some(text.to_string()),
                Feature::OsRelease(text) => origin.os_release = Some(text.to_string()),
                Feature::Arch(text) => origin.arch = Some(text.to_string()),
                Feature::CpuDesc(text) => origin.cpu = Some(text.to_string()),
                Feature::NrCpus(cpus) => {
                    (origin.cpus_online, origin.cpus_available) = (Some(cpus.online), Some(cpus.available));
                }
                Feature::TotalMem(kib) => origin.memory_kib = Some(kib),
                Feature::Version(text) => origin.perf_version = Some(text.to_string()),
                Feature::Cmdline(words) => {
                    origin.command = Some(words.iter().map(ToString::to_string).collect());
                }
                Feature::SampleTime(time) => {
                    (origin.first_sample_ns, origin.last_sample_ns) =
                        (Some(time.first_ns), Some(time.last_ns));
                }
                _ => {}
            }
        }
        origin
    }
}
