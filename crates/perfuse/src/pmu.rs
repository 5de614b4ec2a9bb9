//! PMUs as the kernel shows them in sysfs: their type number, the meaning of their config bits, and
//! the events they name.

use crate::error::{Call, Error, Result};
use crate::event::Event;
use crate::tracefs::file_error;
use perfuse_abi::EventType;
pub use perfuse_events::{Config, Format, cpu_list, parse_cpu_list};
use perfuse_sys::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const DEVICES: &str = "/sys/bus/event_source/devices";

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

    /// The PMU of this name; the error tells if there is none.
    pub fn named(name: &str) -> Result<Self> {
        let path = Path::new(DEVICES).join(name).join("type");
        if name.is_empty() || name.contains('/') {
            return Err(Error::new(Call::File { path }, Errno::ENOENT));
        }
        let text = read(path.clone())?;
        let number = text.trim().parse().map_err(|_| Error::new(Call::File { path }, Errno::EINVAL))?;
        Ok(Pmu::new(name, EventType(number)))
    }

    /// Every PMU of this machine, by name.
    pub fn all() -> Result<Vec<Self>> {
        Self::list().map_err(|e| file_error(DEVICES.into(), Some(&e)))
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

    fn dir(&self) -> PathBuf {
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

    /// Where the bits of a term go.
    pub fn format(&self, term: &str) -> Result<Format> {
        let path = self.dir().join("format").join(term);
        let text = read(path.clone())?;
        Format::parse(&text).ok_or_else(|| Error::new(Call::File { path }, Errno::EINVAL))
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

    /// An event the PMU names.
    pub fn event(&self, name: &str) -> Result<Event> {
        let path = self.dir().join("events").join(name);
        let terms = read(path.clone())?;
        let mut config = Config::default();
        for term in terms.trim().split(',') {
            let (term, value) = term.split_once('=').unwrap_or((term, "1"));
            let value = parse_number(value)
                .ok_or_else(|| Error::new(Call::File { path: path.clone() }, Errno::EINVAL))?;
            self.set(&mut config, term, value)?;
        }
        Ok(self.make(config, &format!("{}/{name}/", self.name)))
    }

    /// An event by its terms: names of `format` files, or `config` to `config4` for whole words.
    pub fn event_with(&self, terms: &[(&str, u64)]) -> Result<Event> {
        let mut config = Config::default();
        for &(term, value) in terms {
            self.set(&mut config, term, value)?;
        }
        let shown: Vec<_> = terms.iter().map(|(term, value)| format!("{term}={value:#x}")).collect();
        Ok(self.make(config, &format!("{}/{}/", self.name, shown.join(","))))
    }

    fn set(&self, config: &mut Config, term: &str, value: u64) -> Result<()> {
        let whole = ["config", "config1", "config2", "config3", "config4"];
        if let Some(word) = whole.iter().position(|name| *name == term) {
            config.words[word] = value;
            return Ok(());
        }
        if self.format(term)?.apply(value, config) {
            return Ok(());
        }
        Err(Error::new(Call::File { path: self.dir().join("format").join(term) }, Errno::ERANGE))
    }

    fn make(&self, config: Config, name: &str) -> Event {
        Event::Pmu { type_: self.type_, config, name: name.into() }
    }
}

fn read(path: PathBuf) -> Result<String> {
    fs::read_to_string(&path).map_err(|e| file_error(path, Some(&e)))
}

/// A decimal number, or a hexadecimal one with 0x.
fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The cpus that are online, in order. `[0]` where the system does not tell.
pub fn online_cpus() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online");
    text.ok().and_then(|list| parse_cpu_list(&list)).unwrap_or_else(|| vec![0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_unless_marked() {
        assert_eq!(parse_number("16"), Some(16));
        assert_eq!(parse_number("0x16"), Some(22));
        assert_eq!(parse_number("?"), None);
    }
}
