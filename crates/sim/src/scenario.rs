//! Scenarios: a machine, programs, events and actions on them, as text that people read.
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

mod check;
mod parse;
mod play;
mod records;
mod words;

use crate::machine::{Handler, Setup};
use crate::program::Program;
use perfuse_abi::{Attr, Errno, OpenFlags, PollFlags};
use perfuse_engine::{State, Sysctl};
use std::fmt;

#[cfg(feature = "kernel")]
pub(crate) use parse::cgroup_id;
pub use play::{BUDGET, EventOutcome, NamedSwitch, Outcome, play, play_within};
#[cfg(feature = "kernel")]
pub(crate) use play::{act_on_machine, machine};
pub use records::{RecordValue, ScenarioRecord};

/// A scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The machine.
    pub setup: Setup,
    /// Ids of its tracepoints.
    pub tracepoints: Vec<u64>,
    /// Its cgroups in order: the name, and the place of the parent among them.
    pub cgroups: Vec<(String, Option<usize>)>,
    /// Its programs.
    pub programs: Vec<Program>,
    /// The actions, in order.
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
#[non_exhaustive]
pub enum Statement {
    /// `start PROGRAM [as NAME]`
    Start {
        /// The program.
        program: String,
        /// The task's name; the program's if nothing is said.
        name: String,
    },
    /// `open NAME EVENT [on TASK] [cpu N] [group NAME] ...`
    Open(Box<Open>),
    /// `at TIME ACTION`, or an action at once.
    Do {
        /// Since the machine was switched on; `None`: now.
        at: Option<u64>,
        /// The action.
        action: Action,
        /// `fails ERRNO`
        fails: Option<Errno>,
    },
    /// `run TIME`: for so long.
    Run(u64),
    /// `expect ...`
    Expect(Expect),
    /// `show counts`, `show records [NAME]`, `show schedule`
    Show(Show),
}

/// An event to open.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// Its name.
    pub name: String,
    /// The request.
    pub attr: Attr,
    /// Its target.
    pub on: Target,
    /// The cpu.
    pub cpu: Option<i32>,
    /// The event that leads.
    pub group: Option<String>,
    /// The event whose ring it uses.
    pub output: Option<String>,
    /// The task that opens it; `None`: one outside of the machine.
    pub by: Option<String>,
    /// Pages of its ring.
    pub ring: Option<usize>,
    /// Its ring is mapped without the right to write, so that the oldest records are overwritten.
    pub overwrite: bool,
    /// Pages of its AUX area, which lies behind its ring.
    pub aux: Option<usize>,
    /// The AUX area is mapped without the right to write, so that the oldest trace is overwritten.
    pub aux_overwrite: bool,
    /// How often its ring is read.
    pub reads: Reads,
    /// `O_ASYNC` is set.
    pub signals: bool,
    /// The action of the handler of its signals.
    pub handler: Option<Handler>,
    /// The flags of `perf_event_open(2)` besides that of cgroups.
    pub flags: OpenFlags,
}

/// The target of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All.
    All,
    /// A task, or the first of a program.
    Task(String),
    /// A cgroup, by its place.
    Cgroup(usize),
    /// This process number.
    Pid(i32),
}

/// When a ring is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Each so many ns, and before anything is expected or shown.
    Every(u64),
    /// When `drain` says so.
    Never,
}

/// An action on an event, or on the machine.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
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
    /// `output NAME OTHER`, `output NAME none`
    Output(String, Option<String>),
    /// `pause NAME`, `resume NAME`
    Pause(String, bool),
    /// `filter NAME TEXT`
    Filter(String, String),
    /// `modify NAME EVENT`
    Modify(String, Box<Attr>),
    /// `map NAME PAGES [read-only]`
    Map(String, usize, bool),
    /// `unmap NAME`
    Unmap(String),
    /// `map-aux NAME PAGES [read-only]`
    MapAux(String, usize, bool),
    /// `unmap-aux NAME`
    UnmapAux(String),
    /// `close NAME`
    Close(String),
    /// `drain NAME`: reads its ring.
    Drain(String),
    /// `unplug CPU`, `plug CPU`
    Plug(u32, bool),
    /// `remove-pmu`
    RemovePmu,
    /// `set FILE VALUE`
    Set(Sysctl, String),
    /// `mux-interval MS`
    MuxInterval(u64),
    /// `privileged`, `unprivileged`
    Privileged(bool),
    /// `may-trace`, `may-not-trace`
    MayTrace(bool),
    /// `locked-memory PAGES`
    LockedMemory(u64),
    /// `descriptors N`
    Descriptors(usize),
    /// `prctl TASK enable`, `prctl TASK disable`
    Prctl(String, bool),
    /// `move TASK CGROUP`, by its place; the root if none.
    Move(String, Option<usize>),
}

/// An expectation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Expect {
    /// `expect NAME[.FIELD][+NAME[.FIELD]...] VALUE`
    Value(Vec<Quantity>, Expected),
    /// `expect NAME ERRNO`: it could not be opened, or cannot be read.
    Refused(String, Errno),
    /// `expect NAME error`: it reads as the end of the file.
    EndOfFile(String),
    /// `expect NAME state STATE`
    State(String, State),
    /// `expect NAME poll in|hup|err|nothing`
    Poll(String, PollFlags),
    /// `expect NAME group VALUE...`: the values of a group, the leader first.
    Group(String, Vec<Expected>),
    /// `expect active 110 NAME NAME NAME`
    Active(Vec<(String, bool)>),
    /// `expect records NAME KIND VALUE`
    Records(String, RecordName, Expected),
    /// `expect order NAME KIND[*N]... [...]`; the flag: more may follow.
    Order(String, Vec<(RecordName, u64)>, bool),
    /// `expect record NAME KIND N|last [FIELD=VALUE]...`
    Record {
        /// The event.
        event: String,
        /// The kind.
        kind: RecordName,
        /// Which of that kind, from 1; the last one if none.
        which: Option<u64>,
        /// Its fields.
        fields: Vec<(String, FieldValue)>,
    },
    /// `expect sysctl FILE VALUE`
    Sysctl(Sysctl, String),
}

/// A kind of record; `None`: all.
pub type RecordName = Option<perfuse_abi::record::RecordType>;

/// A number of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// The event.
    pub event: String,
    /// Which number.
    pub field: Field,
}

/// The numbers of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Its count.
    Value,
    /// Nanoseconds that it was enabled.
    Enabled,
    /// Nanoseconds that it counted.
    Running,
    /// Records that were lost.
    Lost,
    /// How often those who wait for it were woken.
    Wakes,
    /// Signals that there is something to read.
    Signals,
    /// Signals that it is over.
    Hups,
    /// SIGTRAPs.
    Traps,
    /// Where in the ring the next record comes.
    Head,
    /// Bytes that were read from its AUX area and are the trace that belongs there.
    Trace,
}

/// A value, or a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Between these, both included.
    Between(u64, u64),
    /// The sum of these.
    Same(Vec<Quantity>),
}

/// The value of a field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A number between these.
    Between(u64, u64),
    /// The process number of a task.
    Text(String),
}

/// The output.
#[derive(Clone, Debug, PartialEq)]
pub enum Show {
    /// Counts and times of all events.
    Counts,
    /// The records of one ring, or of all.
    Records(Option<String>),
    /// The running tasks and the counting events over time.
    Schedule,
}

/// A line that is no statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScenarioError {
    /// Counted from 1.
    pub line: usize,
    /// Where in the line, in characters from 1; 0 where it is about no word of it.
    pub column: usize,
    /// The line.
    pub text: String,
    /// The fault, and the expectation.
    pub problem: String,
}

impl fmt::Display for ScenarioError {
    /// One line; [`explain`](ScenarioError::explain) shows the place too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            0 => write!(f, "line {}: {}", self.line, self.problem),
            column => write!(f, "line {}, column {column}: {}", self.line, self.problem),
        }
    }
}

impl ScenarioError {
    /// The fault, the line, and a mark below the place, as text.
    pub fn explain(&self) -> String {
        // Control characters would move the mark, or the terminal's cursor.
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let line: String = self.text.trim_end().chars().map(plain).collect();
        match self.column {
            0 => self.to_string(),
            column => format!("{self}\n    {line}\n    {}^", " ".repeat(column - 1)),
        }
    }
}

impl std::error::Error for ScenarioError {}

impl std::str::FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        parse::scenario(text)
    }
}
