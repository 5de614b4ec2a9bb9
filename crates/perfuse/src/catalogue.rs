//! All events of a machine as plain data: what they are called and mean, how they are encoded, and whether they open here.
//!
//! ```
//! use perfuse::catalogue::{Depth, Kind, Listing, Prober};
//! use perfuse::Perf;
//! use perfuse_events::Machine;
//!
//! let mut listing = Listing::default();
//! listing.add_events(&Machine::new(), Depth::Names, &|kind| kind == Kind::Software, Some(&mut Prober::new(&Perf::linux())));
//! for event in &listing.entries {
//!     println!("{}: {}", event.name, event.works.words());
//! }
//! ```

mod prober;
mod rate;
mod wanted;

pub use prober::{Prober, WhyNot, Works};
pub use rate::Rate;
pub use wanted::Wanted;

use crate::tracefs;
use perfuse_abi::Attr;
use perfuse_events::{Catalogue as _, CommonKind, EventSpec, Machine, Refusal, common_events};
use perfuse_trace::Format;
use std::collections::BTreeMap;

/// Kinds of events, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The cpu counts them.
    Hardware,
    /// The cpu counts them, about its caches.
    Cache,
    /// The kernel counts them.
    Software,
    /// The measuring program knows them itself.
    Tool,
    /// A PMU of this machine names them in sysfs or in tables.
    Pmu,
    /// A place in the kernel's code.
    Tracepoint,
    /// Numbers made of several events.
    Metric,
    /// How other events are written.
    Form,
}

impl Kind {
    /// A stable word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Hardware => "hardware",
            Kind::Cache => "cache",
            Kind::Software => "software",
            Kind::Tool => "tool",
            Kind::Pmu => "pmu",
            Kind::Tracepoint => "tracepoint",
            Kind::Metric => "metric",
            Kind::Form => "form",
        }
    }

    /// The heading above events of this kind.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Hardware => "hardware events: counted by the cpu",
            Kind::Cache => "cache events: uses of the cpu's caches, counted by it",
            Kind::Software => "software events: counted by the kernel",
            Kind::Tool => "events that perfuse measures itself",
            Kind::Pmu => "events that the PMUs of this machine name",
            Kind::Tracepoint => "tracepoints: places in the kernel's code",
            Kind::Metric => "metrics, for perfuse stat -M: numbers made of several events",
            Kind::Form => "events that are written, not chosen",
        }
    }
}

/// How much is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Names, and all else that a list shows.
    Names,
    /// Also the numbers of tracepoints: a file each.
    Encodings,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The word to write after `-e`.
    pub name: String,
    /// Its other names; of a metric, its groups.
    pub aliases: Vec<String>,
    /// Its kind.
    pub kind: Kind,
    /// A sentence; empty if there is none.
    pub description: String,
    /// The attr's type and config words, where they are known.
    pub encoding: Option<(u32, Vec<u64>)>,
    /// The terms an event of a PMU stands for, or the expression of a metric.
    pub terms: String,
    /// The unit of its values; empty for a count.
    pub unit: String,
    /// Whether it works here, if that was tried.
    pub works: Works,
}

impl Entry {
    /// The event as attrs have it: `type 4, config 0x3c`.
    pub fn encoding_text(&self) -> Option<String> {
        let (type_, words) = self.encoding.as_ref()?;
        let names = ["config", "config1", "config2", "config3", "config4"];
        let words = words.iter().zip(names).enumerate();
        let words = words.filter(|(index, (word, _))| *index == 0 || **word != 0);
        let words: Vec<_> = words.map(|(_, (word, name))| format!("{name} {word:#x}")).collect();
        Some(format!("type {type_}, {}", words.join(", ")))
    }
}

/// The events, and the kinds that cannot be listed.
#[derive(Debug, Default)]
pub struct Listing {
    /// In order of their kinds.
    pub entries: Vec<Entry>,
    /// Why a kind is not there.
    pub missing: Vec<(Kind, String)>,
}

impl Listing {
    /// Adds the events of the kinds wanted, but for metrics and forms; with a prober, and whether they work.
    pub fn add_events(
        &mut self,
        machine: &Machine,
        depth: Depth,
        wanted: &dyn Fn(Kind) -> bool,
        mut prober: Option<&mut Prober>,
    ) {
        self.common(wanted, machine, prober.as_deref_mut());
        if wanted(Kind::Pmu) {
            self.pmus(machine, prober.as_deref_mut());
        }
        if wanted(Kind::Tracepoint) {
            self.tracepoints(machine, depth, prober);
        }
    }

    fn common(&mut self, wanted: &dyn Fn(Kind) -> bool, machine: &Machine, mut prober: Option<&mut Prober>) {
        for common in common_events() {
            let kind = match common.kind {
                CommonKind::Hardware => Kind::Hardware,
                CommonKind::Cache => Kind::Cache,
                CommonKind::Software => Kind::Software,
                CommonKind::Tool => Kind::Tool,
            };
            if !wanted(kind) {
                continue;
            }
            let spec = prober.as_ref().and_then(|_| spec(common.name, machine));
            self.entries.push(Entry {
                name: common.name.into(),
                aliases: common.aliases.iter().map(|&alias| alias.into()).collect(),
                kind,
                description: common.description,
                encoding: spec.as_ref().and_then(encoding),
                terms: String::new(),
                unit: String::new(),
                works: match (&mut prober, &spec) {
                    (Some(prober), Some(spec)) => prober.try_event(kind, spec),
                    _ => Works::Unknown,
                },
            });
        }
    }

    fn pmus(&mut self, machine: &Machine, mut prober: Option<&mut Prober>) {
        let pmus = match machine.pmus() {
            Ok(pmus) => pmus,
            Err(refusal) => return self.missing.push((Kind::Pmu, reason(refusal))),
        };
        for pmu in pmus {
            for event in machine.pmu_events(&pmu) {
                let name = format!("{pmu}/{event}/");
                let Some(described) = machine.pmu_event(&pmu, &event) else { continue };
                // One that wants to be told more has no meaning by itself.
                let spec = prober.as_ref().and_then(|_| spec(&name, machine));
                let works = match (&mut prober, &spec) {
                    (Some(prober), Some(spec)) => prober.try_event(Kind::Pmu, spec),
                    _ => Works::Unknown,
                };
                let scale = described.scale.as_ref();
                self.entries.push(Entry {
                    name,
                    aliases: vec![event],
                    kind: Kind::Pmu,
                    description: described.description,
                    encoding: spec.as_ref().and_then(encoding),
                    terms: described.terms,
                    unit: scale.map_or_else(String::new, |scale| scale.unit.clone()),
                    works,
                });
            }
        }
    }

    fn tracepoints(&mut self, machine: &Machine, depth: Depth, prober: Option<&mut Prober>) {
        let names = match machine.tracepoints() {
            Ok(names) => names,
            Err(refusal) => return self.missing.push((Kind::Tracepoint, reason(refusal))),
        };
        // Some of the folder cannot be opened at all; what is said of one that can holds for all.
        let first = names.iter().filter(|(system, _)| system != "ftrace");
        let spec = first.take(3).find_map(|(system, name)| spec(&format!("{system}:{name}"), machine));
        let works = match (prober, spec) {
            (Some(prober), Some(spec)) => prober.try_tracepoint(&spec),
            _ => Works::Unknown,
        };
        for (system, name) in names.iter().filter(|(system, _)| system != "ftrace") {
            let encoding = match depth {
                Depth::Names => None,
                Depth::Encodings => machine.tracepoint(system, name).ok().map(|id| (2, vec![id])),
            };
            self.entries.push(Entry {
                name: format!("{system}:{name}"),
                aliases: Vec::new(),
                kind: Kind::Tracepoint,
                description: String::new(),
                encoding,
                terms: String::new(),
                unit: String::new(),
                works: works.clone(),
            });
        }
    }

    /// Adds what no list can have: how it is written, and whether it works.
    pub fn add_forms(&mut self, machine: &Machine, prober: &mut Prober) {
        let forms = [
            ("rNNN", "an event code of the cpu, in hexadecimal", "r1"),
            ("PMU/term=value,.../", "an event of a PMU by its terms; -v shows the terms of this machine", ""),
            ("mem:ADDRESS[/LENGTH][:rwx]", "accesses to memory", "mem:0x10000:rw"),
            (
                "uprobe:/PATH:SYMBOL[+OFFSET][%return]",
                "calls of a function of a program or library",
                "uprobe:/proc/nowhere/exe:0x1000",
            ),
            (
                "uprobe:/PATH:SOURCE:LINE",
                "a line of the source of a program built with -g",
                "uprobe:/proc/nowhere/exe:0x1000",
            ),
            (
                "usdt:/PATH:PROVIDER:NAME",
                "a probe that a program or library declares",
                "uprobe:/proc/nowhere/exe:0x1000",
            ),
            ("kprobe:FUNCTION[+OFFSET][%return]", "calls of a function of the kernel", "kprobe:do_exit"),
            ("TYPE:CONFIG", "an event by the numbers of its attr", ""),
            ("{EVENT,EVENT,...}", "events that are counted together or not at all", ""),
        ];
        for (name, description, example) in forms {
            let works = match example {
                "" => Works::Unknown,
                example => match spec_or_reason(example, machine) {
                    Ok(spec) => prober.try_event(Kind::Form, &spec),
                    Err(reason) => Works::no(reason, Vec::new()),
                },
            };
            self.entries.push(Entry {
                name: name.into(),
                aliases: Vec::new(),
                kind: Kind::Form,
                description: description.into(),
                encoding: None,
                terms: String::new(),
                unit: String::new(),
                works,
            });
        }
    }

    /// The kinds with their entries, in order.
    pub fn by_kind(&self) -> BTreeMap<Kind, Vec<&Entry>> {
        let mut kinds: BTreeMap<Kind, Vec<&Entry>> = BTreeMap::new();
        for entry in &self.entries {
            kinds.entry(entry.kind).or_default().push(entry);
        }
        kinds
    }
}

fn reason(refusal: Refusal) -> String {
    match refusal {
        Refusal::Unreadable(reason) => reason,
        _ => "there are none".into(),
    }
}

fn spec_or_reason(name: &str, machine: &Machine) -> Result<EventSpec, String> {
    let sets = name.parse().and_then(|list: perfuse_events::EventList| list.resolve(machine));
    let sets = sets.map_err(|error| error.problem().to_string())?;
    sets.into_iter().flat_map(|set| set.events).next().ok_or_else(String::new)
}

/// The event of a name; of those that are one for each kind of cores, the first.
pub fn spec(name: &str, machine: &Machine) -> Option<EventSpec> {
    spec_or_reason(name, machine).ok()
}

fn encoding(spec: &EventSpec) -> Option<(u32, Vec<u64>)> {
    let mut attr = Attr::default();
    if !spec.apply(&mut attr) {
        return None;
    }
    let words = [attr.config, attr.config1, attr.config2, attr.config3, attr.config4];
    let count = words.iter().rposition(|word| *word != 0).map_or(1, |last| last + 1);
    Some((attr.type_.0, words[..count].to_vec()))
}

/// The fields of a tracepoint, without those that all have: names and types.
pub fn fields(name: &str) -> Vec<(String, String)> {
    let text = name.split_once(':').and_then(|(system, name)| tracefs::format(system, name));
    let Some(format) = text.and_then(|text| Format::parse(std::str::from_utf8(&text).ok()?)) else {
        return Vec::new();
    };
    let own = format.fields.into_iter().filter(|field| !field.name.starts_with("common_"));
    own.map(|field| (field.name, field.type_name)).collect()
}
