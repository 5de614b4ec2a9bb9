//! Scenarios: a machine, programs, events and what is done to them, as text that people read.
//!
//! ```text
//! # Ten events share seven counters: the window of those that count moves on by one at each turn.
//! machine
//!   counters 7
//! end
//!
//! program worker
//!   compute 40ms cycles=3000 instructions=2000    # occurrences a microsecond
//! end
//!
//! start worker
//! open c0 cycles on worker
//! open i0 instructions:u on worker period=100000 sample=IP,TID,TIME ring=8
//! at 5ms disable c0
//! run 20ms
//! expect c0 15000000
//! show counts
//! ```
//!
//! A line is a statement; `#` begins a remark. Blocks end with `end`. `docs/scenarios.md` of the project
//! describes all statements.

mod parse;
mod play;
mod show;

use crate::machine::Setup;
use crate::program::Program;
use perfuse_abi::{Attr, Errno};
use std::fmt;

pub use play::{Outcome, play};

/// A scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The machine.
    pub setup: Setup,
    /// Ids of its tracepoints.
    pub tracepoints: Vec<u64>,
    /// Its programs.
    pub programs: Vec<Program>,
    /// What is done, in order.
    pub statements: Vec<Line>,
}

/// A statement with its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Counted from 1.
    pub number: usize,
    /// The statement.
    pub statement: Statement,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `start PROGRAM`
    Start(String),
    /// `open NAME EVENT [on PROGRAM] [cpu N] [group NAME] ...`
    Open(Box<Open>),
    /// `at TIME ACTION`, or an action at once.
    Do {
        /// Since the machine was switched on; `None`: now.
        at: Option<u64>,
        /// What.
        action: Action,
    },
    /// `run TIME`: for so long.
    Run(u64),
    /// `expect NAME VALUE`, `expect NAME LOW..HIGH`, `expect NAME ERRNO`
    Expect {
        /// The event.
        event: String,
        /// What it reads as.
        expected: Expected,
    },
    /// `show counts`, `show records [NAME]`, `show schedule`
    Show(Show),
}

/// An event to open.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// What it is called.
    pub name: String,
    /// What is asked for.
    pub attr: Attr,
    /// The program whose first task is measured.
    pub program: Option<String>,
    /// The cpu.
    pub cpu: Option<u32>,
    /// The event that leads.
    pub group: Option<String>,
    /// Pages of its ring.
    pub ring: Option<usize>,
}

/// What can be done to an event, or to the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `enable NAME [group]`
    Enable(String, bool),
    /// `disable NAME [group]`
    Disable(String, bool),
    /// `reset NAME [group]`
    Reset(String, bool),
    /// `refresh NAME N`
    Refresh(String, i32),
    /// `period NAME N`
    Period(String, u64),
    /// `close NAME`
    Close(String),
    /// `drain NAME`: reads its ring.
    Drain(String),
    /// `unplug CPU`
    Unplug(u32),
}

/// What an event is expected to read as.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// Between these, both included.
    Between(u64, u64),
    /// It could not be opened.
    Refused(Errno),
    /// It is in the error state.
    Error,
}

/// What to print.
#[derive(Clone, Debug, PartialEq)]
pub enum Show {
    /// Counts and times of all events.
    Counts,
    /// The records of one ring, or of all.
    Records(Option<String>),
    /// Who ran, and what counted, over time.
    Schedule,
}

/// A line that is no statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub problem: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for ScenarioError {}

impl std::str::FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        parse::scenario(text)
    }
}
