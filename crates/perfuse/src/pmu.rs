//! PMUs as the kernel shows them in sysfs: their type number, cpus, and the events they name. How one is found by its name,
//! with errors that explain themselves, is in `sysfs`; how events are made of its terms, in `event`.

use perfuse_abi::EventType;
pub use perfuse_events::{Config, Format, cpu_list, parse_cpu_list};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) const DEVICES: &str = "/sys/bus/event_source/devices";

/// A PMU of this machine.
///
/// ```
/// use perfuse::Pmu;
/// for pmu in Pmu::all()? {
///     println!("{} has type {:?} and names the events {:?}", pmu.name(), pmu.event_type(), pmu.events());
/// }
/// # Ok::<(), perfuse::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmu {
    name: String,
    type_: EventType,
}

impl Pmu {
    /// A PMU with this name and type, whether or not this machine has it.
    pub fn new(name: impl Into<String>, type_: EventType) -> Self {
        Pmu { name: name.into(), type_ }
    }

    /// [`all`](Self::all) with the plain error: a diagnosis, which looks at the PMUs, cannot begin with one.
    pub(crate) fn list() -> io::Result<Vec<Self>> {
        let mut pmus: Vec<_> = fs::read_dir(DEVICES)?
            .filter_map(|entry| {
                let entry = entry.ok()?;
                // One that vanishes meanwhile is not there.
                let number = fs::read_to_string(entry.path().join("type")).ok()?.trim().parse().ok()?;
                Some(Pmu::new(entry.file_name().into_string().ok()?, EventType(number)))
            })
            .collect();
        pmus.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(pmus)
    }

    pub(crate) fn dir(&self) -> PathBuf {
        Path::new(DEVICES).join(&self.name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its type: `attr.type` of its events.
    pub fn event_type(&self) -> EventType {
        self.type_
    }

    /// Whether it counts a cpu's cycles and instructions.
    pub fn is_cpu(&self) -> bool {
        const PREFIXES: [&str; 4] = ["cpu_", "armv", "apple_", "cpum_cf"];
        self.name == "cpu"
            || self.type_ == EventType::RAW
            || PREFIXES.iter().any(|prefix| self.name.starts_with(prefix))
    }

    /// The cpus on which its events are to be opened, if it says so: one for each thing it measures
    /// (`cpumask` of an uncore PMU), or all it belongs to (`cpus` of a hybrid core PMU).
    pub fn cpus(&self) -> Option<Vec<u32>> {
        ["cpumask", "cpus"]
            .iter()
            .find_map(|file| parse_cpu_list(&fs::read_to_string(self.dir().join(file)).ok()?))
    }

    /// The events it names, with their terms as they stand there.
    pub fn events(&self) -> BTreeMap<String, String> {
        let Ok(entries) = fs::read_dir(self.dir().join("events")) else { return BTreeMap::new() };
        entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let aside =
                    [".scale", ".unit", ".per-pkg", ".snapshot"].iter().any(|end| name.ends_with(end));
                (!aside).then(|| fs::read_to_string(entry.path()).ok())?.map(|t| (name, t.trim().to_owned()))
            })
            .collect()
    }
}

/// The cpus that are online, in order. `[0]` where the system does not tell.
pub fn online_cpus() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online");
    text.ok().and_then(|list| parse_cpu_list(&list)).unwrap_or_else(|| vec![0])
}
