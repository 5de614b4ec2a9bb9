//! Text to [`Scenario`].

use super::words::{Result, Words, errno, number, range, small, time, unknown};
use super::{
    Action, Expect, Expected, Field, FieldValue, Line, On, Open, Quantity, Reads, RecordName, Scenario,
    ScenarioError, Show, Statement,
};
use crate::hardware::{KINDS, NAMES, PmuModel, Rates, kind_named};
use crate::machine::{ROOT, Setup};
use crate::program::{Program, Step};
use perfuse_abi::record::RecordType;
use perfuse_abi::{Attr, AttrFlags, BranchSampleType, Breakpoint, EventType, ReadFormat, SampleType};
use perfuse_engine::{CgroupId, State, Sysctl};
use perfuse_events::{EventList, NoCatalogue};
use std::rc::Rc;

/// The most that a hardware event can happen in a microsecond.
const MOST_RATE: u64 = 1_000_000;

/// How often rings are read where nothing is said.
const READ_EVERY_NS: u64 = 1_000_000;

/// How deep blocks may be in each other.
const DEEPEST: usize = 16;

pub(super) fn scenario(text: &str) -> std::result::Result<Scenario, ScenarioError> {
    let scenario = Scenario {
        setup: Setup::default(),
        tracepoints: Vec::new(),
        cgroups: Vec::new(),
        programs: Vec::new(),
        statements: Vec::new(),
    };
    let mut parser = Parser { lines: text.lines().collect(), at: 0, depth: 0, scenario };
    match parser.all() {
        Ok(()) => Ok(parser.scenario),
        Err(problem) => Err(ScenarioError { line: parser.at.max(1), problem }),
    }
}

struct Parser<'t> {
    lines: Vec<&'t str>,
    /// Number of the line at hand, from 1.
    at: usize,
    /// Blocks that are open.
    depth: usize,
    scenario: Scenario,
}

/// What a machine is described with.
const MACHINE: [&str; 14] = [
    "cpus",
    "hz",
    "slice",
    "seed",
    "sample-time",
    "interrupt-time",
    "tracepoint",
    "no-pmu",
    "counters",
    "fixed",
    "only",
    "width",
    "refuses",
    "end",
];

/// Steps of programs.
const STEPS: [&str; 21] = [
    "compute",
    "kernel",
    "fault",
    "major-fault",
    "sleep",
    "start",
    "thread",
    "wait",
    "exec",
    "exec-suid",
    "comm",
    "map",
    "map-data",
    "read",
    "write",
    "tracepoint",
    "prctl",
    "enter",
    "repeat",
    "exit",
    "end",
];

/// Statements that are no actions.
const STATEMENTS: [&str; 9] =
    ["machine", "cgroup", "program", "start", "open", "at", "run", "expect", "show"];

/// What is done to an event.
const EVENT_ACTIONS: [&str; 14] = [
    "enable", "disable", "reset", "refresh", "period", "output", "pause", "resume", "filter", "modify",
    "map", "unmap", "close", "drain",
];

/// What is done to the machine.
const MACHINE_ACTIONS: [&str; 13] = [
    "unplug",
    "plug",
    "remove-pmu",
    "set",
    "mux-interval",
    "privileged",
    "unprivileged",
    "may-trace",
    "may-not-trace",
    "locked-memory",
    "descriptors",
    "prctl",
    "move",
];

/// What follows `expect` in place of an event's name.
const EXPECTATIONS: [&str; 5] = ["active", "records", "order", "record", "sysctl"];

/// Options of `open` with a value.
const OPTIONS: [&str; 15] = [
    "period",
    "freq",
    "sample",
    "read",
    "ring",
    "read-every",
    "wakeup",
    "watermark",
    "max-stack",
    "branches",
    "stack",
    "regs",
    "clock",
    "sig-data",
    "config1",
];

/// Options of `open` that are words.
const WORDS: [&str; 7] = ["on", "cpu", "group", "output", "by", "overwrite", "signals"];

impl<'t> Parser<'t> {
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

    fn all(&mut self) -> Result<()> {
        while let Some((first, mut words)) = self.next() {
            let number = self.at;
            match first {
                "machine" => {
                    words.end()?;
                    self.machine()?;
                }
                "cgroup" => {
                    let name = words.need("the cgroup's name")?;
                    let parent =
                        if words.take("in") { Some(self.cgroup(words.need("the cgroup")?)?) } else { None };
                    words.end()?;
                    self.scenario.cgroups.push((name.to_owned(), parent));
                }
                "program" => {
                    let name = words.need("the program's name")?.to_owned();
                    let (mut on, mut cgroup) = (None, None);
                    while let Some(word) = words.next() {
                        match word {
                            "cpu" => on = Some(self.cpu(&mut words)?),
                            "cgroup" => cgroup = Some(cgroup_id(self.cgroup(words.need("the cgroup")?)?)),
                            word => return Err(unknown("a program has no", word, ["cpu", "cgroup"])),
                        }
                    }
                    let steps = self.steps(&format!("program {name}"))?;
                    self.scenario.programs.push(Program { name, steps: Rc::from(steps), on, cgroup });
                }
                first => {
                    let statement = self.statement(first, &mut words)?;
                    words.end()?;
                    self.scenario.statements.push(Line { number, statement });
                }
            }
        }
        self.check()
    }

    fn cgroup(&self, name: &str) -> Result<usize> {
        let known = self.scenario.cgroups.iter().map(|(name, _)| name.as_str());
        known
            .clone()
            .position(|known| known == name)
            .ok_or_else(|| unknown("no cgroup is called", name, known))
    }

    fn cpu(&self, words: &mut Words<'_>) -> Result<u32> {
        words.small("the cpu", 0, u64::from(self.scenario.setup.cpus) - 1).map(|cpu| cpu as u32)
    }

    /// Names that nobody defined are told where they are used.
    fn check(&mut self) -> Result<()> {
        let programs: Vec<&str> =
            self.scenario.programs.iter().map(|program| program.name.as_str()).collect();
        let mut tasks = programs.clone();
        let mut opened: Vec<&str> = Vec::new();
        for line in &self.scenario.statements {
            self.at = line.number;
            let task = |name: &str| {
                let known = tasks.contains(&name);
                if known {
                    Ok(())
                } else {
                    Err(unknown("no task or program is called", name, tasks.iter().copied()))
                }
            };
            let event = |name: &str| {
                let known = opened.contains(&name);
                if known { Ok(()) } else { Err(unknown("no event is open as", name, opened.iter().copied())) }
            };
            let amounts = |all: &[Quantity]| all.iter().try_for_each(|one| event(&one.event));
            let value = |value: &Expected| match value {
                Expected::Same(all) => amounts(all),
                Expected::Between(..) => Ok(()),
            };
            match &line.statement {
                Statement::Start { program, name } => {
                    if !programs.contains(&program.as_str()) {
                        return Err(unknown("no program is called", program, programs.iter().copied()));
                    }
                    tasks.push(name);
                }
                Statement::Open(open) => {
                    if let On::Task(name) = &open.on {
                        task(name)?;
                    }
                    open.by.as_ref().map_or(Ok(()), |name| task(name))?;
                    for name in open.group.iter().chain(&open.output) {
                        event(name)?;
                    }
                    if opened.contains(&open.name.as_str()) {
                        return Err(format!("there is an event '{}' already", open.name));
                    }
                    opened.push(&open.name);
                }
                Statement::Do { action, .. } => {
                    for name in action.events() {
                        event(name)?;
                    }
                    if let Action::Prctl(name, _) | Action::Move(name, _) = action {
                        task(name)?;
                    }
                }
                Statement::Expect(expect) => match expect {
                    Expect::Value(all, expected) => {
                        amounts(all)?;
                        value(expected)?;
                    }
                    Expect::Refused(name, _)
                    | Expect::EndOfFile(name)
                    | Expect::State(name, _)
                    | Expect::Poll(name, _)
                    | Expect::Order(name, ..)
                    | Expect::Records(name, ..)
                    | Expect::Record { event: name, .. } => event(name)?,
                    Expect::Group(name, values) => {
                        event(name)?;
                        values.iter().try_for_each(value)?;
                    }
                    Expect::Active(all) => all.iter().try_for_each(|(name, _)| event(name))?,
                    Expect::Sysctl(..) => {}
                },
                Statement::Show(Show::Records(Some(name))) => event(name)?,
                Statement::Show(_) | Statement::Run(_) => {}
            }
        }
        Ok(())
    }

    fn machine(&mut self) -> Result<()> {
        while let Some((first, mut words)) = self.next() {
            let setup = &mut self.scenario.setup;
            if first == "end" {
                return words.end();
            }
            if first == "no-pmu" {
                setup.pmu = None;
                words.end()?;
                continue;
            }
            let mut none = PmuModel::default();
            let pmu = setup.pmu.as_mut().unwrap_or(&mut none);
            match first {
                "cpus" => setup.cpus = words.small("the number of cpus", 1, 256)? as u32,
                "hz" => setup.hz = words.small("the number of ticks a second", 1, 10_000)? as u32,
                "seed" => setup.seed = words.number("the seed")?,
                "slice" => setup.slice_ns = words.time()?.max(1000),
                "sample-time" => setup.sample_ns = Some(words.time()?),
                "interrupt-time" => setup.interrupt_ns = words.time()?.max(1),
                "tracepoint" => self.scenario.tracepoints.push(words.number("the id")?),
                "counters" => pmu.counters = words.small("the number of counters", 0, 64)? as usize,
                "width" => pmu.width = words.small("the number of bits", 8, 64)? as u32,
                "fixed" => {
                    let kind = kind(words.need("the event")?)?;
                    if pmu.fixed.len() >= 64 {
                        return Err("there are 64 fixed counters at most".to_owned());
                    }
                    pmu.fixed.push(kind);
                }
                "only" => {
                    let kind = kind(words.need("the event")?)?;
                    let list = words.need("the counters")?;
                    let counter = |word| small(word, "a counter", 0, 63).map(|counter| counter as usize);
                    pmu.only_on.insert(kind, list.split(',').map(counter).collect::<Result<_>>()?);
                }
                "refuses" => pmu.refuses_one_in = words.small("one in how many", 0, u64::MAX)?,
                other => return Err(unknown("nothing of a machine is called", other, MACHINE)),
            }
            words.end()?;
        }
        Err("the machine has no 'end'".to_owned())
    }

    fn steps(&mut self, of: &str) -> Result<Vec<Step>> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("blocks may be {DEEPEST} deep"));
        }
        let mut steps = Vec::new();
        while let Some((first, mut words)) = self.next() {
            let step = match first {
                "end" => {
                    words.end()?;
                    self.depth -= 1;
                    return Ok(steps);
                }

                "compute" | "kernel" => {
                    let ns = words.time()?;
                    Step::Compute { ns, kernel: first == "kernel", rates: rates(&mut words)? }
                }
                "fault" | "major-fault" => {
                    let count = words.next().map_or(Ok(1), |word| number(word, "the number of faults"))?;
                    Step::Fault { count, major: first != "fault", addr: 0x7000_0000 }
                }
                "sleep" => Step::Sleep(words.time()?),
                "start" | "thread" => {
                    let program = words.need("the program")?.to_owned();
                    Step::Start { program, thread: first == "thread" }
                }
                "wait" => Step::Wait,
                "exit" => Step::Exit,
                "exec" | "exec-suid" => {
                    Step::Exec { program: words.need("the program")?.to_owned(), fresh: first == "exec-suid" }
                }
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
                "tracepoint" => {
                    let id = words.number("the id")?;
                    let (mut count, mut value) = (1, 0);
                    while let Some(word) = words.next() {
                        match word.split_once('=') {
                            Some(("weight", weight)) => count = number(weight, "the weight")?,
                            Some(("value", word)) => value = number(word, "the value")?,
                            _ => return Err(unknown("a hit has no", word, ["weight=N", "value=N"])),
                        }
                    }
                    Step::Tracepoint { id, count, value }
                }
                "prctl" => Step::Prctl(on_off(&mut words)?),
                "enter" => Step::Enter(cgroup_id(self.cgroup(words.need("the cgroup")?)?)),
                "repeat" => {
                    let times = words.number("how often")?;
                    words.end()?;
                    Step::Repeat(times, Rc::from(self.steps("repeat")?))
                }
                other => return Err(unknown("no step is called", other, STEPS)),
            };
            words.end()?;
            steps.push(step);
        }
        Err(format!("{of} has no 'end'"))
    }

    fn statement(&self, first: &str, words: &mut Words<'_>) -> Result<Statement> {
        Ok(match first {
            "start" => {
                let program = words.need("the program")?.to_owned();
                let name = if words.take("as") {
                    words.need("the task's name")?.to_owned()
                } else {
                    program.clone()
                };
                Statement::Start { program, name }
            }
            "open" => Statement::Open(Box::new(self.open(words)?)),
            "run" => Statement::Run(words.time()?),
            "at" => {
                let at = words.time()?;
                let name = words.need("the action")?;
                self.doing(Some(at), name, words)?
            }
            "expect" => Statement::Expect(expect(words)?),
            "show" => Statement::Show(match words.need("what")? {
                "counts" => Show::Counts,
                "records" => Show::Records(words.next().map(str::to_owned)),
                "schedule" => Show::Schedule,
                other => {
                    return Err(unknown("nothing can be shown as", other, ["counts", "records", "schedule"]));
                }
            }),
            name => self.doing(None, name, words)?,
        })
    }

    fn doing(&self, at: Option<u64>, name: &str, words: &mut Words<'_>) -> Result<Statement> {
        let action = self.action(name, words)?;
        let fails = if words.take("fails") {
            let word = words.need("the errno")?;
            Some(errno(word).ok_or_else(|| format!("'{word}' is no errno, such as EINVAL"))?)
        } else {
            None
        };
        Ok(Statement::Do { at, action, fails })
    }

    fn action(&self, name: &str, words: &mut Words<'_>) -> Result<Action> {
        Ok(match name {
            "unplug" | "plug" => Action::Plug(self.cpu(words)?, name == "plug"),
            "remove-pmu" => Action::RemovePmu,
            "set" => {
                let file = sysctl(words.need("the file")?)?;
                Action::Set(file, words.need("the value")?.to_owned())
            }
            "mux-interval" => Action::MuxInterval(words.number("the number of ms")?),
            "privileged" | "unprivileged" => Action::Privileged(name == "privileged"),
            "may-trace" | "may-not-trace" => Action::MayTrace(name == "may-trace"),
            "locked-memory" => Action::LockedMemory(words.number("the number of pages")?),
            "descriptors" => Action::Descriptors(words.number("the number")? as usize),
            "prctl" => Action::Prctl(words.need("the task")?.to_owned(), on_off(words)?),
            "move" => {
                let task = words.need("the task")?.to_owned();
                let cgroup = words.need("the cgroup, or root")?;
                Action::Move(task, if cgroup == "root" { None } else { Some(self.cgroup(cgroup)?) })
            }
            name if EVENT_ACTIONS.contains(&name) => self.event_action(name, words)?,
            name => {
                let all = STATEMENTS.iter().chain(&EVENT_ACTIONS).chain(&MACHINE_ACTIONS);
                return Err(unknown("no statement is called", name, all.copied()));
            }
        })
    }

    fn event_action(&self, name: &str, words: &mut Words<'_>) -> Result<Action> {
        let event = words.need("the event")?.to_owned();
        Ok(match name {
            "enable" => Action::Enable(event, words.take("group")),
            "disable" => Action::Disable(event, words.take("group")),
            "reset" => Action::Reset(event, words.take("group")),
            "refresh" => {
                let word = words.need("the number")?;
                Action::Refresh(event, word.parse().map_err(|_| format!("'{word}' is no number"))?)
            }
            "period" => Action::Period(event, words.number("the period")?),
            "output" => {
                let target = words.need("the event, or none")?;
                Action::Output(event, (target != "none").then(|| target.to_owned()))
            }
            "pause" | "resume" => Action::Pause(event, name == "pause"),
            "filter" => {
                let mut text: Vec<&str> = Vec::new();
                while let Some(word) = words.next_but("fails") {
                    text.push(word);
                }
                Action::Filter(event, text.join(" "))
            }
            "modify" => Action::Modify(event, Box::new(self.modified(words)?)),
            "map" => {
                let pages = words.small("the number of pages", 0, 1 << 20)? as usize;
                Action::Map(event, pages, words.take("read-only"))
            }
            "unmap" => Action::Unmap(event),
            "close" => Action::Close(event),
            _ => Action::Drain(event),
        })
    }

    fn modified(&self, words: &mut Words<'_>) -> Result<Attr> {
        let mut attr = event(words.need("the event")?)?;
        if words.take("disabled") {
            attr.flags |= AttrFlags::DISABLED;
        }
        Ok(attr)
    }

    fn open(&self, words: &mut Words<'_>) -> Result<Open> {
        let name = words.need("a name for the event")?.to_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if EXPECTATIONS.contains(&name.as_str()) || !name.chars().all(plain) {
            return Err(format!("an event cannot be called '{name}'; letters, digits, - and _ make a name"));
        }
        let mut open = Open {
            name,
            attr: event(words.need("the event")?)?,
            on: On::All,
            cpu: None,
            group: None,
            output: None,
            by: None,
            ring: None,
            overwrite: false,
            reads: Reads::Every(READ_EVERY_NS),
            signals: false,
        };
        while let Some(word) = words.next() {
            match word.split_once('=') {
                Some((key, value)) => option(&mut open, key, value)?,
                None => match word {
                    "on" => {
                        let whom = words.need("the task")?;
                        open.on = match whom {
                            "cgroup" => On::Cgroup(self.cgroup(words.need("the cgroup")?)?),
                            "pid" => On::Pid(integer(words.need("the number")?)?),
                            task => On::Task(task.to_owned()),
                        };
                    }
                    "cpu" => open.cpu = Some(integer(words.need("the cpu")?)?),
                    "group" => open.group = Some(words.need("the leader")?.to_owned()),
                    "output" => open.output = Some(words.need("the event")?.to_owned()),
                    "by" => open.by = Some(words.need("the task")?.to_owned()),
                    "overwrite" => open.overwrite = true,
                    "signals" => open.signals = true,
                    word => {
                        let names: Vec<String> = AttrFlags::all()
                            .iter_names()
                            .map(|(name, _)| name.to_ascii_lowercase())
                            .collect();
                        let known = WORDS.into_iter().chain(names.iter().map(String::as_str));
                        let flag = AttrFlags::from_name(&word.to_ascii_uppercase());
                        open.attr.flags |= flag.ok_or_else(|| unknown("an event has no", word, known))?;
                    }
                },
            }
        }
        Ok(open)
    }
}

fn integer(word: &str) -> Result<i32> {
    word.parse().map_err(|_| format!("'{word}' is no number"))
}

fn on_off(words: &mut Words<'_>) -> Result<bool> {
    match words.need("enable or disable")? {
        "enable" => Ok(true),
        "disable" => Ok(false),
        word => Err(unknown("events cannot be switched to", word, ["enable", "disable"])),
    }
}

/// The id of a cgroup by its place: the root is no cgroup of the scenario.
pub(super) fn cgroup_id(place: usize) -> CgroupId {
    CgroupId(ROOT.0 + 1 + place as u64)
}

fn sysctl(word: &str) -> Result<Sysctl> {
    let known = Sysctl::ALL.iter().map(|file| file.name());
    Sysctl::ALL
        .into_iter()
        .find(|file| file.name() == word)
        .ok_or_else(|| unknown("no file is called", word, known))
}

fn kind(name: &str) -> Result<usize> {
    kind_named(name).ok_or_else(|| unknown("the hardware does not know", name, NAMES))
}

/// `cycles=3000 instructions=2000`; cycles are there where nothing is said.
fn rates(words: &mut Words<'_>) -> Result<Rates> {
    let mut rates = [0; KINDS];
    let mut given = false;
    while let Some(word) = words.next() {
        let (name, rate) =
            word.split_once('=').ok_or_else(|| format!("EVENT=RATE was expected, not '{word}'"))?;
        rates[kind(name)?] = small(rate, "a rate", 0, MOST_RATE)?;
        given = true;
    }
    if !given {
        rates[0] = 1000;
    }
    Ok(rates)
}

/// What is to be counted.
fn event(text: &str) -> Result<Attr> {
    let mut attr = Attr {
        read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
        ..Attr::new(EventType::SOFTWARE)
    };
    if let Some(id) = text.strip_prefix("tracepoint:") {
        (attr.type_, attr.config) = (EventType::TRACEPOINT, number(id, "the id of a tracepoint")?);
    } else if let Some(numbers) = text.strip_prefix("type:") {
        let (type_, config) = numbers.split_once(':').unwrap_or((numbers, "0"));
        attr.type_ = EventType(small(type_, "the type", 0, u64::from(u32::MAX))? as u32);
        attr.config = number(config, "the config")?;
    } else if let Some(place) = text.strip_prefix("mem:") {
        attr.type_ = EventType::BREAKPOINT;
        let (place, kind) = place.rsplit_once(':').unwrap_or((place, "rw"));
        let (addr, len) = place.split_once('/').unwrap_or((place, "8"));
        (attr.config1, attr.config2) = (number(addr, "the address")?, number(len, "the length")?);
        let kinds = ["r", "w", "rw", "x"];
        attr.bp_type = match kind {
            "r" => Breakpoint::R,
            "w" => Breakpoint::W,
            "rw" => Breakpoint::RW,
            "x" => Breakpoint::X,
            kind => return Err(unknown("memory is not watched for", kind, kinds)),
        };
    } else {
        let list: EventList = text.parse().map_err(|error: perfuse_events::EventError| error.explain())?;
        let sets = list.resolve(&NoCatalogue).map_err(|error| error.explain())?;
        let spec = sets.first().and_then(|set| set.events.first());
        if !spec.is_some_and(|spec| spec.apply(&mut attr)) {
            return Err(format!("'{text}' is nothing that a kernel counts"));
        }
        attr.flags.remove(AttrFlags::EXCLUDE_GUEST);
    }
    Ok(attr)
}

/// Names of a list, joined by commas.
fn names<F: bitflags::Flags + Copy>(list: &str, what: &str) -> Result<F> {
    let mut all = F::empty();
    for word in list.split(',') {
        let known: Vec<&str> = F::FLAGS.iter().map(bitflags::Flag::name).collect();
        let one = F::from_name(&word.to_ascii_uppercase());
        all.insert(one.ok_or_else(|| unknown(what, word, known))?);
    }
    Ok(all)
}

fn option(open: &mut Open, key: &str, value: &str) -> Result<()> {
    let attr = &mut open.attr;
    let word = |what| small(value, what, 0, u64::from(u32::MAX)).map(|value| value as u32);
    match key {
        "period" => attr.set_period(number(value, "the period")?),
        "freq" => attr.set_sample_freq(number(value, "the frequency")?),
        "ring" => open.ring = Some(small(value, "the number of pages", 0, 1 << 20)? as usize),
        "read-every" => {
            open.reads = if value == "never" { Reads::Never } else { Reads::Every(time(value)?.max(1000)) };
        }
        "wakeup" => attr.set_wakeup_events(word("the number")?),
        "watermark" => attr.set_wakeup_watermark(word("the number of bytes")?),
        "max-stack" => attr.sample_max_stack = small(value, "the number", 0, 65535)? as u16,
        "stack" => attr.sample_stack_user = word("the number of bytes")?,
        "regs" => {
            let mask = number(value, "the mask")?;
            (attr.sample_regs_user, attr.sample_regs_intr) = (mask, mask);
        }
        "clock" => {
            attr.flags |= AttrFlags::USE_CLOCKID;
            attr.clockid = integer(value)?;
        }
        "sig-data" => attr.sig_data = number(value, "the data")?,
        "config1" => attr.config1 = number(value, "the config")?,
        "sample" => attr.sample_type |= names::<SampleType>(value, "samples have no")?,
        "read" => attr.read_format |= names::<ReadFormat>(value, "reads have no")?,
        "branches" => attr.branch_sample_type |= names::<BranchSampleType>(value, "no branches are")?,
        key => return Err(unknown("an event has no", key, OPTIONS)),
    }
    Ok(())
}

fn expect(words: &mut Words<'_>) -> Result<Expect> {
    let first = words.need("what")?;
    Ok(match first {
        "active" => {
            let picture = words.need("a picture such as 110")?;
            let mut all = Vec::new();
            for mark in picture.chars() {
                let name = words.need("an event for each digit")?.to_owned();
                all.push(match mark {
                    '0' | '.' => (name, false),
                    '1' | '#' => (name, true),
                    mark => return Err(format!("a picture is made of 1 and 0, not '{mark}'")),
                });
            }
            Expect::Active(all)
        }
        "records" => {
            let event = words.need("the event")?.to_owned();
            let kind = record_kind(words.need("the kind")?)?;
            Expect::Records(event, kind, expected(words.need("how many")?)?)
        }
        "order" => {
            let event = words.need("the event")?.to_owned();
            let (mut kinds, mut more) = (Vec::new(), false);
            while let Some(word) = words.next() {
                if word == "..." {
                    more = true;
                    break;
                }
                let (name, times) = word.split_once('*').unwrap_or((word, "1"));
                kinds.push((record_kind(name)?, number(times, "how often")?));
            }
            Expect::Order(event, kinds, more)
        }
        "record" => {
            let event = words.need("the event")?.to_owned();
            let kind = record_kind(words.need("the kind")?)?;
            let which = match words.need("which one")? {
                "last" => None,
                word => Some(small(word, "which one", 1, u64::MAX)?),
            };
            let mut fields = Vec::new();
            while let Some(word) = words.next() {
                let (name, value) =
                    word.split_once('=').ok_or_else(|| format!("FIELD=VALUE was expected, not '{word}'"))?;
                let value = match range(value, "") {
                    Ok((low, high)) => FieldValue::Between(low, high),
                    Err(_) => FieldValue::Text(value.to_owned()),
                };
                fields.push((name.to_owned(), value));
            }
            Expect::Record { event, kind, which, fields }
        }
        "sysctl" => {
            let file = sysctl(words.need("the file")?)?;
            Expect::Sysctl(file, words.need("the value")?.to_owned())
        }
        quantities => {
            let name = || quantities.to_owned();
            match words.need("the value")? {
                "error" => Expect::EndOfFile(name()),
                "state" => Expect::State(name(), state(words.need("the state")?)?),
                "poll" => Expect::Poll(
                    name(),
                    match words.need("the answer")? {
                        "in" => 0x41,
                        "err" => 0x8,
                        "hup" => 0x10,
                        "nothing" => 0,
                        word => {
                            return Err(unknown(
                                "poll does not answer",
                                word,
                                ["in", "hup", "err", "nothing"],
                            ));
                        }
                    },
                ),
                "group" => {
                    let mut values = Vec::new();
                    while let Some(word) = words.next() {
                        values.push(expected(word)?);
                    }
                    Expect::Group(name(), values)
                }
                "same" => Expect::Value(
                    self::quantities(quantities)?,
                    Expected::Same(self::quantities(words.need("as what")?)?),
                ),
                word => match errno(word) {
                    Some(errno) => Expect::Refused(name(), errno),
                    None => Expect::Value(self::quantities(quantities)?, expected(word)?),
                },
            }
        }
    })
}

fn expected(word: &str) -> Result<Expected> {
    range(word, "a value").map(|(low, high)| Expected::Between(low, high))
}

fn quantities(word: &str) -> Result<Vec<Quantity>> {
    const FIELDS: [(&str, Field); 9] = [
        ("value", Field::Value),
        ("enabled", Field::Enabled),
        ("running", Field::Running),
        ("lost", Field::Lost),
        ("wakes", Field::Wakes),
        ("signals", Field::Signals),
        ("hups", Field::Hups),
        ("traps", Field::Traps),
        ("head", Field::Head),
    ];
    let one = |word: &str| {
        let (event, field) = word.split_once('.').unwrap_or((word, "value"));
        let known = FIELDS.iter().map(|(name, _)| *name);
        let found = FIELDS.iter().find(|(name, _)| *name == field);
        let (_, field) = found.ok_or_else(|| unknown("an event has no", field, known))?;
        Ok(Quantity { event: event.to_owned(), field: *field })
    };
    word.split('+').map(one).collect()
}

fn state(word: &str) -> Result<State> {
    const STATES: [(&str, State); 6] = [
        ("revoked", State::Revoked),
        ("exit", State::Exit),
        ("error", State::Error),
        ("off", State::Off),
        ("inactive", State::Inactive),
        ("active", State::Active),
    ];
    let found = STATES.iter().find(|(name, _)| *name == word);
    let known = STATES.iter().map(|(name, _)| *name);
    found.map(|(_, state)| *state).ok_or_else(|| unknown("no state is called", word, known))
}

fn record_kind(word: &str) -> Result<RecordName> {
    if word == "all" {
        return Ok(None);
    }
    let names: Vec<String> = (1..=22).map(|kind| RecordType(kind).to_string()).collect();
    let found = names.iter().position(|name| name == word);
    let known = names.iter().map(String::as_str).chain(["all"]);
    found
        .map(|place| Some(RecordType(place as u32 + 1)))
        .ok_or_else(|| unknown("no records are called", word, known))
}

impl Action {
    /// The events it is about.
    pub(super) fn events(&self) -> impl Iterator<Item = &String> {
        let (event, other) = match self {
            Action::Enable(event, _)
            | Action::Disable(event, _)
            | Action::Reset(event, _)
            | Action::Refresh(event, _)
            | Action::Period(event, _)
            | Action::Pause(event, _)
            | Action::Filter(event, _)
            | Action::Modify(event, _)
            | Action::Map(event, ..)
            | Action::Unmap(event)
            | Action::Close(event)
            | Action::Drain(event) => (Some(event), None),
            Action::Output(event, target) => (Some(event), target.as_ref()),
            Action::Plug(..)
            | Action::RemovePmu
            | Action::Set(..)
            | Action::MuxInterval(_)
            | Action::Privileged(_)
            | Action::MayTrace(_)
            | Action::LockedMemory(_)
            | Action::Descriptors(_)
            | Action::Prctl(..)
            | Action::Move(..) => (None, None),
        };
        event.into_iter().chain(other)
    }
}
