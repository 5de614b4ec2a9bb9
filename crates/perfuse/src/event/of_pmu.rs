//! Events made of the terms of a PMU.

use super::Event;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::pmu::{Config, Pmu};
use crate::sysfs::read;
use perfuse_sys::Errno;

impl Pmu {
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
        Ok(self.make(config, &format!("{}/{name}/", self.name())))
    }

    /// An event by its terms: names of `format` files, or `config` to `config4` for whole words.
    pub fn event_with(&self, terms: &[(&str, u64)]) -> Result<Event> {
        let mut config = Config::default();
        for &(term, value) in terms {
            self.set(&mut config, term, value)?;
        }
        let shown: Vec<_> = terms.iter().map(|(term, value)| format!("{term}={value:#x}")).collect();
        Ok(self.make(config, &format!("{}/{}/", self.name(), shown.join(","))))
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
        Event::Pmu { type_: self.event_type(), config, name: name.into() }
    }
}

/// A decimal number, or a hexadecimal one with 0x.
fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
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
