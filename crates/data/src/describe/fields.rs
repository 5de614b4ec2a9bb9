//! Which fields the line of a sample has: those of perf for the type of event, or those asked for.

use crate::Event;
use perfuse_abi::{BranchSampleType, EventType, SampleType};
use std::fmt;
use std::str::FromStr;

macro_rules! fields {
    ($($field:ident = $name:literal),+ $(,)?) => {
        /// A field of a sample's line, by its name in `-F` of `perf script`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Field {
            $(#[doc = concat!("`", $name, "`")] $field),+
        }

        const ALL: &[(Field, &str)] = &[$((Field::$field, $name)),+];
    };
}

fields! {
    Comm = "comm",
    Tid = "tid",
    Pid = "pid",
    Time = "time",
    Cpu = "cpu",
    Event = "event",
    Trace = "trace",
    Ip = "ip",
    Sym = "sym",
    Dso = "dso",
    Addr = "addr",
    Symoff = "symoff",
    Period = "period",
    Iregs = "iregs",
    Uregs = "uregs",
    Brstack = "brstack",
    Brstacksym = "brstacksym",
    Brstackoff = "brstackoff",
    Brstackinsn = "brstackinsn",
    Brstackinsnlen = "brstackinsnlen",
    Brstackdisasm = "brstackdisasm",
    DataSrc = "data_src",
    Weight = "weight",
    BpfOutput = "bpf-output",
    PhysAddr = "phys_addr",
    Misc = "misc",
    DataPageSize = "data_page_size",
    CodePageSize = "code_page_size",
    InsLat = "ins_lat",
    Cgroup = "cgroup",
    RetireLat = "retire_lat",
    Tod = "tod",
    Srcline = "srcline",
    Srccode = "srccode",
    Dsoff = "dsoff",
    Insn = "insn",
    Insnlen = "insnlen",
    Disasm = "disasm",
    // Of instruction traces, which are not decoded: there is nothing to print.
    Flags = "flags",
    Callindent = "callindent",
    Ipc = "ipc",
    Synth = "synth",
}

impl Field {
    /// Its name.
    fn name(self) -> &'static str {
        ALL.iter().find(|(field, _)| *field == self).map_or("", |(_, name)| name)
    }

    /// The names of all fields.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|(_, name)| *name)
    }
}

/// Fields of perf that are not printed, and why.
const REFUSED: [(&str, &str); 3] = [
    ("metric", "metrics are made by perfuse stat"),
    ("machine_pid", "what happened in guests (perf inject --guest-data) is not told apart"),
    ("vcpu", "what happened in guests (perf inject --guest-data) is not told apart"),
];

/// A set of fields, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Set(u64);

impl Set {
    const fn of(fields: &[Field]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < fields.len() {
            bits |= 1 << fields[index] as u64;
            index += 1;
        }
        Set(bits)
    }

    const fn has(self, field: Field) -> bool {
        self.0 & 1 << field as u64 != 0
    }
}

/// The types of events that `-F` tells apart.
const TYPES: [&str; 7] = ["hw", "sw", "trace", "cache", "raw", "break", "synth"];

fn type_of(event: &Event) -> &'static str {
    match event.attr.type_ {
        EventType::HARDWARE => "hw",
        EventType::SOFTWARE => "sw",
        EventType::TRACEPOINT => "trace",
        EventType::HW_CACHE => "cache",
        EventType::RAW => "raw",
        EventType::BREAKPOINT => "break",
        _ => "other",
    }
}

fn defaults(kind: &str) -> Set {
    use Field::*;
    const COMMON: &[Field] = &[Comm, Tid, Cpu, Time, Event];
    const PLACE: &[Field] = &[Ip, Sym, Symoff, Dso, Period];
    const MEMORY: &[Field] = &[Addr, DataSrc, Weight, PhysAddr, DataPageSize, CodePageSize, InsLat];
    let of = |lists: &[&[Field]]| Set(lists.iter().fold(0, |bits, list| bits | Set::of(list).0));
    match kind {
        "trace" => of(&[COMMON, &[Trace]]),
        "sw" => of(&[COMMON, PLACE, &[BpfOutput]]),
        "raw" => of(&[COMMON, PLACE, MEMORY]),
        _ => of(&[COMMON, PLACE]),
    }
}

/// Fields of which some types of events have none: they are left out there without a word.
fn is_of_type(field: Field, kind: &str) -> bool {
    match field {
        Field::Trace => kind == "trace",
        Field::BpfOutput => matches!(kind, "sw" | "trace"),
        _ => true,
    }
}

/// The fields that were asked for: `[hw|sw|trace|raw|cache|break:]FIELD,...`, each field with a plus or minus to change what is there
/// anyway.
///
/// ```
/// use perfuse_data::describe::{AskedFields, Field};
///
/// let asked: AskedFields = "trace:+ip,-cpu".parse()?;
/// assert!(asked.names(Field::Ip) && !asked.names(Field::Cpu));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct AskedFields {
    /// Only for this type of events.
    kind: Option<&'static str>,
    set: Set,
    plus: Set,
    minus: Set,
    is_change: bool,
}

impl AskedFields {
    /// Whether they are for the lines of this event.
    pub fn is_for(&self, event: &Event) -> bool {
        self.kind.is_none_or(|only| only == type_of(event))
    }

    /// Whether a field was named, other than to leave it out.
    pub fn names(&self, field: Field) -> bool {
        self.set.has(field) || self.plus.has(field)
    }
}

impl FromStr for AskedFields {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => {
                let known = TYPES.iter().find(|known| **known == kind);
                (Some(*known.ok_or(format!("'{kind}:' is none of {}", TYPES.join(", ")))?), rest)
            }
            None => (None, text),
        };
        let mut asked = AskedFields { kind, set: Set(0), plus: Set(0), minus: Set(0), is_change: false };
        for word in rest.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let name = word.trim_start_matches(['+', '-']);
            if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
                return Err(format!("'{name}': {reason}"));
            }
            let known = ALL.iter().find(|(_, known)| *known == name);
            let names = || Field::names().collect::<Vec<_>>().join(", ");
            let (field, _) = known.ok_or_else(|| format!("'{name}' is no field; there are {}", names()))?;
            let bit = Set::of(&[*field]).0;
            match word.as_bytes()[0] {
                b'+' => asked.plus.0 |= bit,
                b'-' => asked.minus.0 |= bit,
                _ => asked.set.0 |= bit,
            }
            asked.is_change |= name.len() < word.len();
        }
        if asked.is_change && asked.set.0 != 0 {
            return Err("fields with and without + or - do not go together".to_owned());
        }
        Ok(asked)
    }
}

/// The fields of an event's lines.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    set: Set,
    /// The name of the event.
    pub name: String,
    /// Whether its samples have callchains that are to be printed.
    pub has_chains: bool,
}

impl Fields {
    /// Of an event that is called `name`; `is_deep` if callchains are wanted.
    ///
    /// # Errors
    ///
    /// A field was asked for of which these samples have nothing.
    pub fn of(
        event: &Event,
        name: String,
        asked: &[AskedFields],
        is_deep: bool,
    ) -> Result<Self, NoSuchField> {
        let (kind, sample_type) = (type_of(event), event.attr.sample_type);
        let has_chains = is_deep && sample_type.contains(SampleType::CALLCHAIN);
        let (mut set, mut wanted) = (defaults(kind), Set(0));
        // A list for another type leaves this one as it is.
        let of_this_type = asked.iter().filter(|asked| asked.is_for(event));
        if kind == "trace" && has_chains && of_this_type.clone().all(|asked| asked.is_change) {
            set.0 |= Set::of(&[Field::Ip, Field::Sym, Field::Symoff, Field::Dso]).0;
        }
        for asked in of_this_type {
            if !asked.is_change {
                (set, wanted) = (asked.set, asked.set);
            }
            set = Set((set.0 | asked.plus.0) & !asked.minus.0);
            wanted = Set((wanted.0 | asked.plus.0) & !asked.minus.0);
        }
        // These tell of what another prints.
        for (field, of) in
            [(Field::Srcline, Field::Ip), (Field::Srccode, Field::Ip), (Field::Symoff, Field::Sym)]
        {
            if wanted.has(field) && !set.has(of) {
                let needs = FieldNeed::Field(of.name());
                return Err(NoSuchField { event: name, field: field.name(), needs });
            }
        }
        let before = set;
        for &(field, field_name) in ALL.iter().filter(|(field, _)| before.has(*field)) {
            let needed = needs(field);
            if (needed.is_empty() || sample_type.intersects(needed)) && has_all_branches(field, event) {
                if !is_of_type(field, kind) {
                    set.0 &= !Set::of(&[field]).0;
                }
                continue;
            }
            if wanted.has(field) {
                let needs = FieldNeed::Recording(how_to_record(field));
                return Err(NoSuchField { event: name, field: field_name, needs });
            }
            set.0 &= !Set::of(&[field]).0;
        }
        Ok(Fields { set, name, has_chains })
    }

    /// Whether nothing is printed of these events.
    pub fn is_empty(&self) -> bool {
        self.set.0 == 0
    }

    /// Whether a line has this field.
    #[inline]
    pub fn has(&self, field: Field) -> bool {
        self.set.has(field)
    }
}

/// A field that was asked for, and that has nothing to print of an event's samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchField {
    /// The event.
    pub event: String,
    /// The field.
    pub field: &'static str,
    /// The thing that is missing.
    pub needs: FieldNeed,
}

/// A thing that a field needs, and that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldNeed {
    /// The samples do not have it: the option with which it is recorded.
    Recording(&'static str),
    /// It tells of what this field prints, which is not there.
    Field(&'static str),
}

impl fmt::Display for NoSuchField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoSuchField { event, field, needs } = self;
        match needs {
            FieldNeed::Recording(option) => {
                write!(f, "the samples of {event} do not have what '{field}' prints: record with {option}")
            }
            FieldNeed::Field(other) => write!(
                f,
                "'{field}' tells of what '{other}' prints, and that is not among the fields: -F +{other},{field}"
            ),
        }
    }
}

impl std::error::Error for NoSuchField {}

/// Parts of a sample, of which it must have one.
fn needs(field: Field) -> SampleType {
    match field {
        Field::Ip => SampleType::IP,
        Field::Sym | Field::Dso | Field::Symoff | Field::Srcline | Field::Srccode | Field::Dsoff => {
            SampleType::IP | SampleType::ADDR
        }
        Field::Pid | Field::Tid => SampleType::TID,
        Field::Time | Field::Tod => SampleType::TIME,
        Field::Cpu => SampleType::CPU,
        Field::Addr => SampleType::ADDR,
        Field::DataSrc => SampleType::DATA_SRC,
        Field::Weight => SampleType::WEIGHT | SampleType::WEIGHT_STRUCT,
        Field::InsLat | Field::RetireLat => SampleType::WEIGHT_STRUCT,
        Field::Iregs => SampleType::REGS_INTR,
        Field::Uregs => SampleType::REGS_USER,
        Field::PhysAddr => SampleType::PHYS_ADDR,
        Field::DataPageSize => SampleType::DATA_PAGE_SIZE,
        Field::CodePageSize => SampleType::CODE_PAGE_SIZE,
        Field::Cgroup => SampleType::CGROUP,
        Field::Brstackinsn | Field::Brstackinsnlen | Field::Brstackdisasm => SampleType::BRANCH_STACK,
        _ => SampleType::empty(),
    }
}

/// Whether an event's samples have every branch that was taken, where a field tells of what ran in between.
fn has_all_branches(field: Field, event: &Event) -> bool {
    match field {
        Field::Brstackinsn | Field::Brstackinsnlen | Field::Brstackdisasm => {
            event.attr.branch_sample_type.contains(BranchSampleType::ANY)
        }
        _ => true,
    }
}

fn how_to_record(field: Field) -> &'static str {
    match field {
        Field::Time | Field::Tod => "-T",
        Field::Cpu => "--sample-cpu",
        Field::Addr | Field::DataSrc => "-d",
        Field::Weight | Field::InsLat | Field::RetireLat => "-W",
        Field::Iregs => "--intr-regs",
        Field::Uregs => "--user-regs",
        Field::PhysAddr => "--phys-data",
        Field::DataPageSize => "--data-page-size",
        Field::CodePageSize => "--code-page-size",
        Field::Cgroup => "--all-cgroups",
        Field::Brstackinsn | Field::Brstackinsnlen | Field::Brstackdisasm => "-b, which takes all branches",
        _ => "the event's defaults",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_refused() {
        let parse = |text: &str| text.parse::<AskedFields>();
        assert!(parse("comm,nonsense").is_err_and(|text| text.contains("nonsense")));
        assert!(parse("foo:comm").is_err());
        assert!(parse("comm,+ip").is_err());
        assert!(parse("+brstack,-dso").is_ok_and(|asked| asked.is_change && asked.minus.has(Field::Dso)));
    }

    #[test]
    fn fields_of_one_type_leave_the_others_as_they_are() {
        let types = ["hw", "sw", "trace", "raw", "cache", "break"];
        let event_of = |kind: &str| {
            let number = [("sw", 1), ("trace", 2), ("cache", 3), ("raw", 4), ("break", 5)];
            let number = number.iter().find(|(name, _)| *name == kind).map_or(0, |(_, number)| *number);
            let mut attr = perfuse_abi::Attr::new(EventType(number));
            attr.sample_type = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::CALLCHAIN;
            let format = perfuse_abi::record::RecordFormat::of(&attr, perfuse_abi::ByteOrder::NATIVE);
            let (attr_tail, ids) = (Vec::new(), Vec::new());
            Event { attr, attr_tail, ids, name: None, unit: None, scale: None, cpus: None, format }
        };
        let fields = |event: &Event, asked: &[&str]| {
            let asked: Vec<AskedFields> = asked.iter().map(|text| text.parse().unwrap()).collect();
            let fields = Fields::of(event, String::new(), &asked, true).unwrap();
            (fields.set.0, fields.has_chains)
        };
        for kind in types {
            let event = event_of(kind);
            let usual = fields(&event, &[]);
            assert_ne!(usual.0 & Set::of(&[Field::Ip]).0, 0, "{kind} has callchains");
            for other in types.iter().filter(|other| **other != kind) {
                for text in ["comm", "", "+pid", "-ip", "addr", "ip,sym"] {
                    let asked = format!("{other}:{text}");
                    assert_eq!(fields(&event, &[&asked]), usual, "{kind} with {asked}");
                    assert!(!asked.parse::<AskedFields>().unwrap().is_for(&event));
                }
            }
            let own = format!("{kind}:comm");
            assert_eq!(fields(&event, &[&own]).0, Set::of(&[Field::Comm]).0, "{own}");
        }
    }
}
