//! Text to [`Scenario`].

use super::{Action, Expected, Line, Open, Scenario, ScenarioError, Show, Statement};
use crate::hardware::{KINDS, NAMES, PmuModel, Rates, kind_named};
use crate::machine::Setup;
use crate::program::{Program, Step};
use perfuse_abi::{Attr, AttrFlags, BranchSampleType, Errno, EventType, ReadFormat, SampleType};
use perfuse_events::{EventList, NoCatalogue};
use std::rc::Rc;

type Result<T> = std::result::Result<T, String>;

/// The words of a line.
struct Words<'t> {
    words: std::vec::IntoIter<&'t str>,
}

impl<'t> Words<'t> {
    fn of(line: &'t str) -> Self {
        let line = line.split('#').next().unwrap_or_default();
        Words { words: line.split_whitespace().collect::<Vec<_>>().into_iter() }
    }

    fn next(&mut self) -> Option<&'t str> {
        self.words.next()
    }

    fn need(&mut self, what: &str) -> Result<&'t str> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }

    fn number(&mut self, what: &str) -> Result<u64> {
        number(self.need(what)?, what)
    }

    fn end(&mut self) -> Result<()> {
        match self.next() {
            None => Ok(()),
            Some(word) => Err(format!("'{word}' is too much here")),
        }
    }
}

fn number(word: &str, what: &str) -> Result<u64> {
    let parsed = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => word.replace('_', "").parse(),
    };
    parsed.map_err(|_| format!("{what} is a number, not '{word}'"))
}

fn duration(word: &str) -> Result<u64> {
    let wrong = || format!("a time is a number with ns, us, ms or s, not '{word}'");
    let split = word.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (digits, unit) = word.split_at(split);
    let scale = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    digits.parse::<u64>().ok().and_then(|value| value.checked_mul(scale)).ok_or_else(wrong)
}

pub(super) fn scenario(text: &str) -> std::result::Result<Scenario, ScenarioError> {
    let mut lines = Lines { lines: text.lines().collect(), at: 0 };
    let parsed = lines.scenario();
    parsed.map_err(|problem| ScenarioError { line: lines.at.max(1), problem })
}

struct Lines<'t> {
    lines: Vec<&'t str>,
    /// Number of the line at hand, from 1.
    at: usize,
}

impl<'t> Lines<'t> {
    /// The next line that says something: its first word and the rest.
    fn next(&mut self) -> Option<(&'t str, Words<'t>)> {
        while let Some(line) = self.lines.get(self.at) {
            self.at += 1;
            let mut words = Words::of(line);
            if let Some(first) = words.next() {
                return Some((first, words));
            }
        }
        None
    }

    fn scenario(&mut self) -> Result<Scenario> {
        let mut scenario = Scenario {
            setup: Setup::default(),
            tracepoints: Vec::new(),
            programs: Vec::new(),
            statements: Vec::new(),
        };
        while let Some((first, mut words)) = self.next() {
            let number = self.at;
            match first {
                "machine" => {
                    words.end()?;
                    self.machine(&mut scenario)?;
                }
                "program" => {
                    let name = words.need("the program's name")?.to_owned();
                    let on = match words.next() {
                        None => None,
                        Some("cpu") => Some(words.number("the cpu")? as u32),
                        Some(word) => return Err(format!("'cpu N' or nothing was expected, not '{word}'")),
                    };
                    words.end()?;
                    let steps = self.steps(&format!("program {name}"))?;
                    scenario.programs.push(Program { name, steps: Rc::from(steps), on });
                }
                first => {
                    let statement = statement(first, &mut words)?;
                    words.end()?;
                    scenario.statements.push(Line { number, statement });
                }
            }
        }
        self.check(&scenario)?;
        Ok(scenario)
    }

    /// Names that nobody defined are told where they are used.
    fn check(&mut self, scenario: &Scenario) -> Result<()> {
        let known = |name: &str| scenario.programs.iter().any(|program| program.name == name);
        let mut opened: Vec<&str> = Vec::new();
        for line in &scenario.statements {
            self.at = line.number;
            let program = match &line.statement {
                Statement::Start(name) => Some(name),
                Statement::Open(open) => {
                    if let Some(group) = open.group.as_ref().filter(|group| !opened.contains(&group.as_str()))
                    {
                        return Err(format!("no event '{group}' is open here"));
                    }
                    opened.push(&open.name);
                    open.program.as_ref()
                }
                _ => None,
            };
            if let Some(name) = program.filter(|name| !known(name)) {
                return Err(format!("there is no program '{name}'"));
            }
            let event = match &line.statement {
                Statement::Expect { event, .. } => Some(event),
                Statement::Do { action, .. } => action.event(),
                Statement::Show(Show::Records(Some(event))) => Some(event),
                _ => None,
            };
            if let Some(event) = event.filter(|event| !opened.contains(&event.as_str())) {
                return Err(format!("no event '{event}' is open here"));
            }
        }
        Ok(())
    }

    fn machine(&mut self, scenario: &mut Scenario) -> Result<()> {
        let setup = &mut scenario.setup;
        while let Some((first, mut words)) = self.next() {
            let pmu = |setup: &mut Setup, change: &mut dyn FnMut(&mut PmuModel)| {
                change(setup.pmu.get_or_insert_with(PmuModel::default));
            };
            match first {
                "end" => return words.end(),
                "cpus" => setup.cpus = words.number("the number of cpus")?.clamp(1, 1024) as u32,
                "hz" => setup.hz = words.number("the ticks a second")?.clamp(1, 10_000) as u32,
                "seed" => setup.seed = words.number("the seed")?,
                "slice" => setup.slice_ns = duration(words.need("the time")?)?.max(1),
                "tracepoint" => scenario.tracepoints.push(words.number("the id")?),
                "no-pmu" => setup.pmu = None,
                "counters" => {
                    let counters = words.number("the number of counters")?.min(64) as usize;
                    pmu(setup, &mut |pmu| pmu.counters = counters);
                }
                "fixed" => {
                    let kind = kind(words.need("the event")?)?;
                    pmu(setup, &mut |pmu| pmu.fixed.push(kind));
                }
                "only" => {
                    let kind = kind(words.need("the event")?)?;
                    let list = words.need("the counters")?;
                    let counters: Result<Vec<usize>> =
                        list.split(',').map(|word| number(word, "a counter").map(|n| n as usize)).collect();
                    let counters = counters?;
                    pmu(setup, &mut |pmu| {
                        pmu.only_on.insert(kind, counters.clone());
                    });
                }
                "refuses" => {
                    let every = words.number("one in how many")?;
                    pmu(setup, &mut |pmu| pmu.refuses_one_in = every);
                }
                other => {
                    return Err(format!(
                        "'{other}' says nothing about a machine; cpus, hz, slice, seed, counters, fixed, only, \
                         refuses, no-pmu, tracepoint, end"
                    ));
                }
            }
            words.end()?;
        }
        Err("the machine has no 'end'".to_owned())
    }

    fn steps(&mut self, of: &str) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        while let Some((first, mut words)) = self.next() {
            let step = match first {
                "end" => {
                    words.end()?;
                    return Ok(steps);
                }
                "compute" | "kernel" => {
                    let ns = duration(words.need("the time")?)?;
                    Step::Compute { ns, kernel: first == "kernel", rates: rates(&mut words)? }
                }
                "fault" | "major-fault" => {
                    let count = words.next().map_or(Ok(1), |word| number(word, "the number of faults"))?;
                    Step::Fault { count, major: first != "fault", addr: 0x7000_0000 }
                }
                "sleep" => Step::Sleep(duration(words.need("the time")?)?),
                "start" | "thread" => {
                    let program = words.need("the program")?.to_owned();
                    Step::Start { program, thread: first == "thread" }
                }
                "wait" => Step::Wait,
                "exit" => Step::Exit,
                "exec" => Step::Exec(words.need("the program")?.to_owned()),
                "comm" => Step::Comm(words.need("the name")?.to_owned()),
                "map" | "map-data" => Step::Map {
                    addr: words.number("the address")?,
                    len: words.number("the length")?,
                    executable: first == "map",
                    name: words.need("the file")?.to_owned(),
                },
                "write" | "read" => Step::Touch {
                    addr: words.number("the address")?,
                    len: words.next().map_or(Ok(8), |word| number(word, "the length"))?,
                    write: first == "write",
                },
                "tracepoint" => Step::Tracepoint {
                    id: words.number("the id")?,
                    count: words.next().map_or(Ok(1), |word| number(word, "the weight"))?,
                },
                "repeat" => {
                    let times = words.number("how often")?;
                    words.end()?;
                    Step::Repeat(times, Rc::from(self.steps("repeat")?))
                }
                other => {
                    return Err(format!(
                        "'{other}' is no step; compute, kernel, fault, major-fault, sleep, start, thread, wait, \
                         exec, comm, map, map-data, read, write, tracepoint, repeat, exit, end"
                    ));
                }
            };
            words.end()?;
            steps.push(step);
        }
        Err(format!("{of} has no 'end'"))
    }
}

impl Action {
    /// The event it is about.
    pub(super) fn event(&self) -> Option<&String> {
        match self {
            Action::Enable(event, _)
            | Action::Disable(event, _)
            | Action::Reset(event, _)
            | Action::Refresh(event, _)
            | Action::Period(event, _)
            | Action::Close(event)
            | Action::Drain(event) => Some(event),
            Action::Unplug(_) => None,
        }
    }
}

fn kind(name: &str) -> Result<usize> {
    kind_named(name).ok_or_else(|| format!("the hardware knows {}, not '{name}'", NAMES.join(", ")))
}

/// `cycles=3000 instructions=2000`; cycles are there where nothing is said.
fn rates(words: &mut Words<'_>) -> Result<Rates> {
    let mut rates = [0; KINDS];
    let mut given = false;
    while let Some(word) = words.next() {
        let (name, rate) =
            word.split_once('=').ok_or_else(|| format!("EVENT=RATE was expected, not '{word}'"))?;
        rates[kind(name)?] = number(rate, "a rate")?;
        given = true;
    }
    if !given {
        rates[0] = 1000;
    }
    Ok(rates)
}

fn statement(first: &str, words: &mut Words<'_>) -> Result<Statement> {
    Ok(match first {
        "start" => Statement::Start(words.need("the program")?.to_owned()),
        "open" => Statement::Open(Box::new(open(words)?)),
        "run" => Statement::Run(duration(words.need("the time")?)?),
        "at" => {
            let at = duration(words.need("the time")?)?;
            let name = words.need("the action")?;
            Statement::Do { at: Some(at), action: action(name, words)? }
        }
        "expect" => {
            let event = words.need("the event")?.to_owned();
            Statement::Expect { event, expected: expected(words.need("the value")?)? }
        }
        "show" => Statement::Show(match words.need("what")? {
            "counts" => Show::Counts,
            "records" => Show::Records(words.next().map(str::to_owned)),
            "schedule" => Show::Schedule,
            other => return Err(format!("there is nothing to show as '{other}'; counts, records, schedule")),
        }),
        name => Statement::Do { at: None, action: action(name, words)? },
    })
}

fn action(name: &str, words: &mut Words<'_>) -> Result<Action> {
    if name == "unplug" {
        return Ok(Action::Unplug(words.number("the cpu")? as u32));
    }
    let known = ["enable", "disable", "reset", "refresh", "period", "close", "drain"];
    if !known.contains(&name) {
        let all = "machine, program, start, open, at, run, expect, show, unplug";
        return Err(format!("'{name}' is no statement; there are {all}, {}", known.join(", ")));
    }
    let event = words.need("the event")?.to_owned();
    let mut group = || match words.next() {
        None => Ok(false),
        Some("group") => Ok(true),
        Some(word) => Err(format!("'group' or nothing was expected, not '{word}'")),
    };
    Ok(match name {
        "enable" => Action::Enable(event, group()?),
        "disable" => Action::Disable(event, group()?),
        "reset" => Action::Reset(event, group()?),
        "refresh" => {
            let word = words.need("the number")?;
            Action::Refresh(event, word.parse().map_err(|_| format!("'{word}' is no number"))?)
        }
        "period" => Action::Period(event, words.number("the period")?),
        "close" => Action::Close(event),
        _ => Action::Drain(event),
    })
}

fn expected(word: &str) -> Result<Expected> {
    if word == "error" {
        return Ok(Expected::Error);
    }
    if let Some(errno) = (1..=133).map(Errno).find(|errno| errno.name() == Some(word)) {
        return Ok(Expected::Refused(errno));
    }
    match word.split_once("..") {
        Some((low, high)) => Ok(Expected::Between(number(low, "a value")?, number(high, "a value")?)),
        None => number(word, "a value").map(|value| Expected::Between(value, value)),
    }
}

/// Flags whose names are taken from the attr.
fn flag(word: &str) -> Option<AttrFlags> {
    let upper = word.to_ascii_uppercase();
    AttrFlags::from_name(&upper)
}

fn open(words: &mut Words<'_>) -> Result<Open> {
    let name = words.need("a name for the event")?.to_owned();
    let text = words.need("the event")?;
    let mut attr = Attr {
        read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
        ..Attr::new(EventType::SOFTWARE)
    };
    if let Some(id) = text.strip_prefix("tracepoint:") {
        (attr.type_, attr.config) = (EventType::TRACEPOINT, number(id, "the id of a tracepoint")?);
    } else if let Some(place) = text.strip_prefix("mem:") {
        attr.type_ = EventType::BREAKPOINT;
        let (addr, len) = place.split_once('/').unwrap_or((place, "8"));
        (attr.config1, attr.config2) = (number(addr, "the address")?, number(len, "the length")?);
        attr.bp_type = perfuse_abi::Breakpoint::RW;
    } else {
        let list: EventList = text.parse().map_err(|error: perfuse_events::EventError| error.explain())?;
        let sets = list.resolve(&NoCatalogue).map_err(|error| error.explain())?;
        let spec = sets.first().and_then(|set| set.events.first());
        if !spec.is_some_and(|spec| spec.apply(&mut attr)) {
            return Err(format!("'{text}' is nothing that a kernel counts"));
        }
        attr.flags.remove(AttrFlags::EXCLUDE_GUEST);
    }
    let mut open = Open { name, attr, program: None, cpu: None, group: None, ring: None };
    while let Some(word) = words.next() {
        let attr = &mut open.attr;
        match word.split_once('=') {
            None if word == "on" => open.program = Some(words.need("the program")?.to_owned()),
            None if word == "cpu" => open.cpu = Some(words.number("the cpu")? as u32),
            None if word == "group" => open.group = Some(words.need("the leader")?.to_owned()),
            None => {
                attr.flags |= flag(word).ok_or_else(|| format!("no flag of an attr is called '{word}'"))?
            }
            Some(("period", value)) => attr.set_period(number(value, "the period")?),
            Some(("freq", value)) => attr.set_sample_freq(number(value, "the frequency")?),
            Some(("ring", value)) => open.ring = Some(number(value, "pages")? as usize),
            Some(("wakeup", value)) => attr.set_wakeup_events(number(value, "the number")? as u32),
            Some(("watermark", value)) => attr.set_wakeup_watermark(number(value, "bytes")? as u32),
            Some(("max-stack", value)) => attr.sample_max_stack = number(value, "the number")? as u16,
            Some(("sample", list)) => {
                for field in list.split(',') {
                    let known = SampleType::from_name(&field.to_ascii_uppercase());
                    attr.sample_type |= known.ok_or_else(|| format!("samples have no field '{field}'"))?;
                }
            }
            Some(("read", list)) => {
                for field in list.split(',') {
                    let known = ReadFormat::from_name(&field.to_ascii_uppercase());
                    attr.read_format |= known.ok_or_else(|| format!("reads have no field '{field}'"))?;
                }
            }
            Some(("branches", list)) => {
                for field in list.split(',') {
                    let known = BranchSampleType::from_name(&field.to_ascii_uppercase());
                    attr.branch_sample_type |= known.ok_or_else(|| format!("no branches are '{field}'"))?;
                }
            }
            Some((key, _)) => {
                return Err(format!(
                    "'{key}=' is not known; period, freq, sample, read, ring, wakeup, watermark, max-stack, branches"
                ));
            }
        }
    }
    Ok(open)
}
