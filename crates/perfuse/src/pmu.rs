//! PMUs as the kernel shows them in sysfs: their type number, the meaning of their config bits, and
//! the events they name.

use crate::error::{Call, Error, Result};
use crate::event::Event;
use crate::tracefs::file_error;
use perfuse_abi::EventType;
use perfuse_sys::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
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

/// A set of values for the five config words of an attr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `config`, `config1`, `config2`, `config3`, `config4`.
    pub words: [u64; 5],
}

/// Where a term's bits go, from a file such as `format/event` with the text `config:0-7,32-35`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Index of the config word.
    pub word: usize,
    /// Bit ranges; the term's lowest bits go to the first.
    pub bits: Vec<RangeInclusive<u32>>,
}

impl Format {
    /// Reads a format file's text. `None` if it is not of that form.
    pub fn parse(text: &str) -> Option<Self> {
        let (word, ranges) = text.trim().split_once(':')?;
        let word = match word.strip_prefix("config")? {
            "" => 0,
            digit => digit.parse().ok().filter(|word| (1..5).contains(word))?,
        };
        let bits = ranges
            .split(',')
            .map(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
                (first <= last && last < 64).then_some(first..=last)
            })
            .collect::<Option<_>>()?;
        Some(Format { word, bits })
    }

    /// Puts `value` where it belongs. `false` if it has more bits than there is room for.
    pub fn apply(&self, value: u64, config: &mut Config) -> bool {
        let mut left = value;
        for range in &self.bits {
            let width = range.end() - range.start() + 1;
            let mask = u64::MAX >> (64 - width);
            config.words[self.word] &= !(mask << range.start());
            config.words[self.word] |= (left & mask) << range.start();
            left = left.checked_shr(width).unwrap_or(0);
        }
        left == 0
    }
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

/// A list such as `0-3,8`, as sysfs and perf's `-C` write it. `None` if it is not one.
///
/// ```
/// assert_eq!(perfuse::parse_cpu_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
/// assert_eq!(perfuse::parse_cpu_list("2-1"), None);
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

/// The cpus that are online, in order. `[0]` where the system does not tell.
pub fn online_cpus() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online");
    text.ok().and_then(|list| parse_cpu_list(&list)).unwrap_or_else(|| vec![0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_bits_are_filled_from_the_lowest() {
        // AMD's event select: eight bits low, four bits high.
        let format = Format::parse("config:0-7,32-35\n").unwrap();
        let mut config = Config::default();
        assert!(format.apply(0xfc1, &mut config));
        assert_eq!(config.words[0], 0xf_0000_00c1);
        assert!(!format.apply(0x1000, &mut config), "a thirteenth bit has no room");
    }

    #[test]
    fn formats_of_every_word() {
        let format = Format::parse("config3:5").unwrap();
        let mut config = Config::default();
        assert!(format.apply(1, &mut config));
        assert_eq!(config.words, [0, 0, 0, 32, 0]);
        assert_eq!(Format::parse("config:0-63").unwrap().bits, [0..=63]);
        for bad in
            ["", "config", "config5:0", "config0:1", "configx:0", "config:8-4", "config:64", "format:1"]
        {
            assert_eq!(Format::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_are_decimal_unless_marked() {
        assert_eq!(parse_number("16"), Some(16));
        assert_eq!(parse_number("0x16"), Some(22));
        assert_eq!(parse_number("?"), None);
    }
}
