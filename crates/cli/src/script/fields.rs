//! Which fields a line has: those of perf for the kind of event, or those asked for.

use perfuse_abi::{EventType, SampleType};
use perfuse_data::Event;

/// Every name that `-F` takes, in the order of the line.
pub(super) const NAMES: [&str; 19] = [
    "comm",
    "pid",
    "tid",
    "cpu",
    "time",
    "period",
    "event",
    "trace",
    "addr",
    "data_src",
    "weight",
    "phys_addr",
    "ip",
    "sym",
    "symoff",
    "dso",
    "brstack",
    "iregs",
    "uregs",
];

/// What was asked for with `-F`.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Only for this type of events.
    kind: Option<&'static str>,
    plus: Vec<&'static str>,
    minus: Vec<&'static str>,
    is_change: bool,
}

/// `[hw|sw|trace|raw|cache:]FIELD,...`, each field with a plus or minus to change what is there anyway.
pub(super) fn parse(text: &str) -> Result<Asked, String> {
    let kinds = ["hw", "sw", "trace", "raw", "cache"];
    let (kind, rest) = match text.split_once(':') {
        Some((kind, rest)) => {
            let known = kinds.iter().find(|known| **known == kind);
            (Some(*known.ok_or(format!("'{kind}:' is none of {}", kinds.join(", ")))?), rest)
        }
        None => (None, text),
    };
    let mut asked = Asked { kind, plus: Vec::new(), minus: Vec::new(), is_change: false };
    for word in rest.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let name = word.trim_start_matches(['+', '-']);
        let known = NAMES.iter().find(|known| **known == name);
        let name = *known.ok_or(format!("'{name}' is no field; there are {}", NAMES.join(", ")))?;
        asked.is_change |= name.len() < word.len();
        if word.starts_with('-') { asked.minus.push(name) } else { asked.plus.push(name) }
    }
    Ok(asked)
}

/// The fields of an event's lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    /// One bit for each of [`NAMES`].
    set: u32,
    pub(super) name: String,
}

fn bit(name: &str) -> u32 {
    NAMES.iter().position(|known| *known == name).map_or(0, |at| 1 << at)
}

impl Fields {
    pub(super) fn of(event: &Event, asked: Option<&Asked>) -> Self {
        let kind = event.attr.type_;
        let kind_name = match kind {
            EventType::HARDWARE => "hw",
            EventType::SOFTWARE => "sw",
            EventType::TRACEPOINT => "trace",
            EventType::HW_CACHE => "cache",
            _ => "raw",
        };
        let mut names = vec!["comm", "tid", "cpu", "time", "event"];
        match kind {
            EventType::TRACEPOINT => names.push("trace"),
            _ => names.push("period"),
        }
        let has = |flag| event.attr.sample_type.contains(flag);
        if kind != EventType::TRACEPOINT || has(SampleType::CALLCHAIN) {
            names.extend(["ip", "sym", "symoff", "dso"]);
        }
        if has(SampleType::ADDR) && kind != EventType::TRACEPOINT {
            names.push("addr");
        }
        if has(SampleType::DATA_SRC) && kind != EventType::TRACEPOINT {
            names.push("data_src");
        }
        if let Some(asked) = asked.filter(|asked| asked.kind.is_none_or(|kind| kind == kind_name)) {
            if !asked.is_change {
                names.clear();
            }
            names.extend(&asked.plus);
            names.retain(|name| !asked.minus.contains(name));
        }
        let set = names.into_iter().map(bit).fold(0, |set, bit| set | bit);
        Fields { set, name: crate::recording::event_name(event) }
    }

    #[inline]
    pub(super) fn has(&self, index: Field) -> bool {
        self.set & 1 << index as u32 != 0
    }
}

/// The places in [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Comm,
    Pid,
    Tid,
    Cpu,
    Time,
    Period,
    Event,
    Trace,
    Addr,
    DataSrc,
    Weight,
    PhysAddr,
    Ip,
    Sym,
    Symoff,
    Dso,
    Brstack,
    Iregs,
    Uregs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_places_agree() {
        assert_eq!(NAMES[Field::Comm as usize], "comm");
        assert_eq!(NAMES[Field::Trace as usize], "trace");
        assert_eq!(NAMES[Field::Symoff as usize], "symoff");
        assert_eq!(NAMES[Field::Uregs as usize], "uregs");
    }

    #[test]
    fn unknown_fields_are_refused() {
        assert!(parse("comm,nonsense").is_err_and(|text| text.contains("nonsense")));
        assert!(parse("foo:comm").is_err());
        assert!(parse("+brstack,-dso").is_ok_and(|asked| asked.is_change && asked.minus == ["dso"]));
    }
}
