//! Text to [`Scenario`].

mod blocks;
mod event;
mod expect;
mod names;

use super::words::{Result, Words, errno, unknown};
use super::{Action, Line, Scenario, ScenarioError, Show, Statement};
use crate::machine::{ROOT, Setup};
use crate::program::Program;
use event::event;
use expect::{EXPECTATIONS, expect};
use perfuse_abi::{Attr, AttrFlags};
use perfuse_engine::{CgroupId, Sysctl};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

pub(super) fn scenario(text: &str) -> std::result::Result<Scenario, ScenarioError> {
    let scenario = Scenario {
        setup: Setup::default(),
        tracepoints: Vec::new(),
        cgroups: Vec::new(),
        programs: Vec::new(),
        statements: Vec::new(),
    };
    let column = Rc::new(Cell::new(0));
    let mut parser = Parser { lines: text.lines().collect(), at: 0, column, depth: 0, scenario };
    match parser.all() {
        Ok(()) => Ok(parser.scenario),
        Err(problem) => {
            let (line, column) = (parser.at.max(1), parser.column.get());
            let text = parser.lines.get(line - 1).copied().unwrap_or_default().to_owned();
            Err(ScenarioError { line, column, text, problem })
        }
    }
}

struct Parser<'t> {
    lines: Vec<&'t str>,
    /// Number of the line at hand, from 1.
    at: usize,
    /// Where the word at hand is in it, from 1; 0 where it is about no word.
    column: Rc<Cell<usize>>,
    /// Blocks that are open.
    depth: usize,
    scenario: Scenario,
}

/// Statements that are no actions.
const STATEMENTS: [&str; 9] =
    ["machine", "cgroup", "program", "start", "open", "at", "run", "expect", "show"];

/// Actions on an event.
const EVENT_ACTIONS: [&str; 16] = [
    "enable",
    "disable",
    "reset",
    "refresh",
    "period",
    "output",
    "pause",
    "resume",
    "filter",
    "modify",
    "map",
    "unmap",
    "map-aux",
    "unmap-aux",
    "close",
    "drain",
];

/// Actions on the machine.
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

impl<'t> Parser<'t> {
    /// The next line that says something: its first word and the rest.
    fn next(&mut self) -> Option<(&'t str, Words<'t>)> {
        while let Some(line) = self.lines.get(self.at) {
            self.at += 1;
            let mut words = Words::of(line, self.column.clone());
            if let Some(first) = words.next() {
                return Some((first, words));
            }
        }
        self.column.set(0);
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
                    self.scenario.programs.push(Program { name, steps: Arc::from(steps), on, cgroup });
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
                    return Err(unknown("show has no form", other, ["counts", "records", "schedule"]));
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
            "map-aux" => {
                let pages = words.small("the number of pages", 0, 1 << 20)? as usize;
                Action::MapAux(event, pages, words.take("read-only"))
            }
            "unmap-aux" => Action::UnmapAux(event),
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
}

fn integer(word: &str) -> Result<i32> {
    word.parse().map_err(|_| format!("'{word}' is no number"))
}

fn on_off(words: &mut Words<'_>) -> Result<bool> {
    match words.need("enable or disable")? {
        "enable" => Ok(true),
        "disable" => Ok(false),
        word => Err(unknown("prctl has no", word, ["enable", "disable"])),
    }
}

/// The id of a cgroup by its place: the root is no cgroup of the scenario.
pub(crate) fn cgroup_id(place: usize) -> CgroupId {
    CgroupId(ROOT.0 + 1 + place as u64)
}

fn sysctl(word: &str) -> Result<Sysctl> {
    let known = Sysctl::ALL.iter().map(|file| file.name());
    Sysctl::ALL
        .into_iter()
        .find(|file| file.name() == word)
        .ok_or_else(|| unknown("no file is called", word, known))
}
