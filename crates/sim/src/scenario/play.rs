//! Plays a scenario.

use super::{Action, Expected, Line, Open, Scenario, Show, Statement, show};
use crate::machine::Machine;
use crate::reader::Reader;
use perfuse_abi::{Attr, Errno};
use perfuse_engine::{Ioctl, OpenArguments, TaskId};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What came of a scenario.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What it showed.
    pub text: String,
    /// Expectations that were met.
    pub met: usize,
    /// Those that were not: line and what was found.
    pub failed: Vec<(usize, String)>,
}

/// An event of the scenario.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) name: String,
    pub(super) attr: Attr,
    pub(super) fd: Result<i32, Errno>,
    pub(super) reader: Option<Reader>,
    /// All that was read from its ring.
    pub(super) bytes: Vec<u8>,
    /// Whether it counted, at each look.
    pub(super) active: Vec<bool>,
}

/// Everything while it is played.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) machine: Machine,
    tasks: BTreeMap<String, TaskId>,
    pub(super) events: Vec<Watched>,
    /// Times of looks.
    pub(super) looks: Vec<u64>,
    look_every: u64,
    /// What is to be done later.
    later: Vec<(u64, usize, Action)>,
}

/// How many looks a diagram has.
const LOOKS: u64 = 72;

/// Plays a scenario to its end.
pub fn play(scenario: &Scenario) -> Outcome {
    let mut machine = Machine::new(scenario.setup.clone());
    scenario.programs.iter().for_each(|program| machine.know(program.clone()));
    scenario.tracepoints.iter().for_each(|id| machine.declare_tracepoint(*id));
    let whole: u64 = scenario
        .statements
        .iter()
        .map(|line| match line.statement {
            Statement::Run(ns) => ns,
            _ => 0,
        })
        .sum();
    let mut stage = Stage {
        machine,
        tasks: BTreeMap::new(),
        events: Vec::new(),
        looks: Vec::new(),
        look_every: (whole / LOOKS).max(1),
        later: Vec::new(),
    };
    let mut outcome = Outcome::default();
    // What is to happen at a time is known before that time is run through.
    for Line { number, statement } in &scenario.statements {
        if let Statement::Do { at: Some(at), action } = statement {
            stage.later.push((*at, *number, action.clone()));
        }
    }
    stage.later.sort_by_key(|(at, number, _)| (*at, *number));
    for Line { number, statement } in &scenario.statements {
        stage.perform(*number, statement, &mut outcome);
    }
    outcome
}

impl Stage {
    fn perform(&mut self, number: usize, statement: &Statement, outcome: &mut Outcome) {
        match statement {
            Statement::Start(name) => {
                if let Some(task) = self.machine.spawn(name) {
                    self.tasks.entry(name.clone()).or_insert(task);
                }
            }
            Statement::Open(open) => self.open(open),
            Statement::Do { at: Some(_), .. } => {}
            Statement::Do { at: None, action } => {
                if let Err(problem) = self.act(action) {
                    outcome.failed.push((number, problem));
                }
            }
            Statement::Run(ns) => self.run(*ns, outcome),
            Statement::Expect { event, expected } => match self.compare(event, expected) {
                Ok(()) => outcome.met += 1,
                Err(found) => outcome.failed.push((number, found)),
            },
            Statement::Show(what) => {
                self.drain_all();
                let text = match what {
                    Show::Counts => show::counts(self),
                    Show::Records(event) => show::records(self, event.as_deref()),
                    Show::Schedule => show::schedule(self),
                };
                // Writing to a string does not fail.
                let _ = write!(outcome.text, "{text}");
            }
        }
    }

    fn open(&mut self, open: &Open) {
        let task = open.program.as_ref().and_then(|name| self.tasks.get(name)).copied();
        let group = open.group.as_ref().and_then(|name| self.find(name)).and_then(|event| event.fd.ok());
        let arguments = OpenArguments {
            pid: task.map_or(-1, |task| task.0 as i32),
            cpu: open.cpu.map_or(-1, |cpu| cpu as i32),
            group_fd: group.unwrap_or(-1),
            ..OpenArguments::default()
        };
        let fd = self.machine.open(TaskId(0), &open.attr, arguments);
        let reader = match (open.ring, fd) {
            (Some(pages), Ok(fd)) => self.machine.map(fd, pages).ok(),
            _ => None,
        };
        let active = vec![false; self.looks.len()];
        let (name, attr) = (open.name.clone(), open.attr);
        self.events.push(Watched { name, attr, fd, reader, bytes: Vec::new(), active });
    }

    pub(super) fn find(&self, name: &str) -> Option<&Watched> {
        self.events.iter().find(|event| event.name == name)
    }

    fn run(&mut self, ns: u64, outcome: &mut Outcome) {
        let end = self.machine.now() + ns;
        loop {
            let now = self.machine.now();
            let next_look = (now / self.look_every + 1) * self.look_every;
            let next_action = self.later.first().map_or(u64::MAX, |(at, ..)| *at).max(now);
            let next = next_look.min(next_action).min(end);
            self.machine.run_until(next);
            while self.later.first().is_some_and(|(at, ..)| *at <= next) {
                let (_, number, action) = self.later.remove(0);
                if let Err(problem) = self.act(&action) {
                    outcome.failed.push((number, problem));
                }
            }
            if next == next_look {
                self.look();
            }
            if next == end {
                return;
            }
        }
    }

    fn look(&mut self) {
        self.looks.push(self.machine.now());
        let machine = &self.machine;
        for event in &mut self.events {
            event.active.push(event.fd.is_ok_and(|fd| machine.is_active(fd)));
        }
        self.drain_all();
    }

    fn drain_all(&mut self) {
        for event in &mut self.events {
            if let Some(reader) = &mut event.reader {
                event.bytes.extend(reader.take());
            }
        }
    }

    fn act(&mut self, action: &Action) -> Result<(), String> {
        if let Action::Unplug(cpu) = action {
            if *cpu >= self.machine.setup().cpus {
                return Err(format!("there is no cpu {cpu}"));
            }
            self.machine.unplug(*cpu);
            return Ok(());
        }
        let name = action.event().map_or("", String::as_str);
        let fd = self.find(name).ok_or_else(|| format!("no event '{name}' is open"))?.fd;
        let fd = fd.map_err(|errno| format!("{name} could not be opened: {errno}"))?;
        let answer = match action {
            Action::Enable(_, group) => self.machine.ioctl(fd, Ioctl::Enable { group: *group }),
            Action::Disable(_, group) => self.machine.ioctl(fd, Ioctl::Disable { group: *group }),
            Action::Reset(_, group) => self.machine.ioctl(fd, Ioctl::Reset { group: *group }),
            Action::Refresh(_, more) => self.machine.ioctl(fd, Ioctl::Refresh(*more)),
            Action::Period(_, period) => self.machine.ioctl(fd, Ioctl::Period(*period)),
            Action::Close(_) => self.machine.close(fd).map(|()| 0),
            Action::Drain(_) => {
                self.drain_all();
                Ok(0)
            }
            Action::Unplug(_) => Ok(0),
        };
        answer.map(drop).map_err(|errno| format!("{action:?}: {errno}"))
    }

    fn compare(&mut self, name: &str, expected: &Expected) -> Result<(), String> {
        let fd = self.find(name).ok_or_else(|| format!("no event '{name}' is open"))?.fd;
        let found = match fd {
            Err(errno) if *expected == Expected::Refused(errno) => return Ok(()),
            Err(errno) => return Err(format!("{name} was refused: {errno}")),
            Ok(fd) => self.machine.read(fd).map_err(|errno| format!("{name} cannot be read: {errno}"))?,
        };
        match (found.first(), expected) {
            (None, Expected::Error) => Ok(()),
            (None, _) => Err(format!("{name} is in the error state")),
            (Some(value), Expected::Between(low, high)) if (low..=high).contains(&value) => Ok(()),
            (Some(value), Expected::Between(low, high)) if low == high => {
                Err(format!("{name} is {value}, not {low}"))
            }
            (Some(value), Expected::Between(low, high)) => {
                Err(format!("{name} is {value}, not {low}..{high}"))
            }
            (Some(value), Expected::Refused(errno)) => {
                Err(format!("{name} was opened and is {value}; it should have been refused: {errno}"))
            }
            (Some(value), Expected::Error) => Err(format!("{name} is {value}, and not in the error state")),
        }
    }
}
