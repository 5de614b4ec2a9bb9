//! Samples chosen by others: from the first of one event on, until the first of another.

use super::Formats;
use crate::FileRecord;
use crate::names::is_name_of;

/// Events that switch: samples count from one of the event [`on`](Self::on) until one of the event [`off`](Self::off), and again
/// from the next; all of them where there is none. An event may be both, by turns. Names go with or without modifiers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// The event from which on samples count; without it they do from the beginning.
    pub on: Option<String>,
    /// The event from which on they do not.
    pub off: Option<String>,
    /// The samples that switch count, too.
    pub are_shown: bool,
}

impl Switches {
    /// Whether all samples count.
    pub fn is_empty(&self) -> bool {
        self.on.is_none() && self.off.is_none()
    }

    /// The first of the two that no event has for its name.
    pub fn unknown(&self, names: &[String]) -> Option<&str> {
        let mut asked = self.on.iter().chain(&self.off);
        asked.find(|asked| !names.iter().any(|name| is_name_of(asked, name))).map(String::as_str)
    }
}

/// Goes through samples in their order, and says which count.
#[derive(Clone, Debug)]
pub struct Switched {
    switches: Switches,
    is_off: bool,
    /// Of each event, whether it switches on, and off.
    roles: Vec<(bool, bool)>,
}

impl Switched {
    /// By these switches, before the first sample.
    pub fn new(switches: Switches) -> Self {
        let is_off = switches.on.is_some();
        Switched { switches, is_off, roles: Vec::new() }
    }

    /// Whether the next sample counts.
    #[inline]
    pub fn admits(&mut self, entry: &FileRecord<'_>, formats: &Formats) -> bool {
        self.switches.is_empty() || self.is_admitted(entry, formats)
    }

    fn is_admitted(&mut self, entry: &FileRecord<'_>, formats: &Formats) -> bool {
        let Some(index) = entry.event_index() else { return !self.is_off };
        if index >= self.roles.len() {
            let Switches { on, off, .. } = &self.switches;
            let is = |asked: &Option<String>, name: &str| {
                asked.as_ref().is_some_and(|asked| is_name_of(asked, name))
            };
            let names = entry.events().iter().map(|event| formats.event_name(event));
            self.roles = names.map(|name| (is(on, &name), is(off, &name))).collect();
        }
        let (is_on, is_off) = self.roles.get(index).copied().unwrap_or_default();
        let switches = if self.is_off { is_on } else { is_off };
        self.is_off ^= switches;
        if switches { self.switches.are_shown } else { !self.is_off }
    }
}
