//! Plays a scenario.

mod show;

use super::parse::cgroup_id;
use super::records::{self, ScenarioRecord};
use super::{Action, Line, Open, Reads, Scenario, Show, Statement, Target};
use crate::machine::{Machine, ROOT, Setup};
use crate::reader::{AuxReader, Reader};
use perfuse_abi::read::ReadValues;
use perfuse_abi::wire::{Layout, Writer};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, Errno, OpenFlags};
use perfuse_engine::{AttrMemory, Ioctl, MapRequest, OpenArguments, State, TaskId};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The outcome of a scenario.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// The text that it showed.
    pub text: String,
    /// Expectations that were met; that something fails is one.
    pub met: usize,
    /// Those that were not, and actions that could not be done: the line, and the finding.
    pub failed: Vec<(usize, String)>,
    /// How long it went on, on the machine.
    pub ns: u64,
    /// How many steps the machine did.
    pub steps: u64,
    /// Its events, in the order in which they were opened.
    pub events: Vec<EventOutcome>,
    /// The task of each cpu over time.
    pub switches: Vec<NamedSwitch>,
}

/// The outcome of an event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EventOutcome {
    /// Its name.
    pub name: String,
    /// The errno it was refused with, or cannot be read with at the end.
    pub refused: Option<Errno>,
    /// Its state at the end; `None` if it was refused or closed.
    pub state: Option<State>,
    /// Its count, and the times enabled and counting; `None` also in the error state.
    pub values: Option<[u64; 3]>,
    /// The records read from its ring; a text for bytes that are no record.
    pub records: Vec<Result<ScenarioRecord, String>>,
}

/// A task got a cpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSwitch {
    /// When.
    pub at: u64,
    /// The cpu.
    pub cpu: u32,
    /// The task and its first name; `None`: the cpu has nothing to do.
    pub task: Option<(TaskId, String)>,
}

/// An event of the scenario.
#[derive(Debug)]
pub(super) struct ScenarioEvent {
    pub(super) name: String,
    pub(super) attr: Attr,
    pub(super) fd: Result<i32, Errno>,
    /// The id, which outlives the descriptor.
    pub(super) id: u64,
    pub(super) reader: Option<Reader>,
    aux: Option<AuxReader>,
    /// Bytes that were read from its AUX area and are right.
    pub(super) trace: u64,
    reads: Reads,
    overwrite: bool,
    by: TaskId,
    /// All that was read from its ring.
    pub(super) bytes: Vec<u8>,
    /// How many of it and its copies in child tasks counted, at each look.
    pub(super) active: Vec<usize>,
}

/// Everything while it is played.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) machine: Machine,
    tasks: BTreeMap<String, TaskId>,
    pub(super) events: Vec<ScenarioEvent>,
    /// Times of looks.
    pub(super) looks: Vec<u64>,
    look_every: u64,
    /// Actions that are still to come.
    scheduled: Vec<ScheduledAction>,
    /// Bytes of all records.
    kept: usize,
}

#[derive(Debug)]
struct ScheduledAction {
    at: u64,
    line: usize,
    action: Action,
    fails: Option<Errno>,
}

/// How many looks a diagram has.
const LOOKS: u64 = 72;

/// Steps after which a scenario is given up.
pub const BUDGET: u64 = 20_000_000;

/// Bytes of records that are kept.
const MOST_BYTES: usize = 256 << 20;

/// The task that acts where none of the machine's does.
const OUTSIDE: TaskId = TaskId(0);

/// Plays a scenario to its end.
pub fn play(scenario: &Scenario) -> Outcome {
    play_within(scenario, BUDGET)
}

/// Plays a scenario to its end, or until the machine has done so many steps.
pub fn play_within(scenario: &Scenario, budget: u64) -> Outcome {
    let machine = machine(scenario, Setup { budget, ..scenario.setup.clone() });
    let whole = scenario.statements.iter().fold(0, |whole: u64, line| match line.statement {
        Statement::Run(ns) => whole.saturating_add(ns),
        _ => whole,
    });
    let mut player = Player {
        machine,
        tasks: BTreeMap::new(),
        events: Vec::new(),
        looks: Vec::new(),
        look_every: (whole / LOOKS).max(1),
        scheduled: Vec::new(),
        kept: 0,
    };
    let mut outcome = Outcome::default();
    // Actions of a time are known before the machine runs through that time.
    for Line { number, statement } in &scenario.statements {
        if let Statement::Do { at: Some(at), action, fails } = statement {
            player.scheduled.push(ScheduledAction {
                at: *at,
                line: *number,
                action: action.clone(),
                fails: *fails,
            });
        }
    }
    player.scheduled.sort_by_key(|scheduled| (scheduled.at, scheduled.line));
    for Line { number, statement } in &scenario.statements {
        player.perform(*number, statement, &mut outcome);
        if player.machine.is_exhausted() {
            outcome.failed.push((*number, format!("this needs more than {budget} steps: given up")));
            player.tell(&mut outcome);
            return outcome;
        }
    }
    player.tell(&mut outcome);
    for scheduled in &player.scheduled {
        outcome.failed.push((scheduled.line, "the run ended before this time".to_owned()));
    }
    if player.kept >= MOST_BYTES {
        outcome.failed.push((0, "there were more records than can be kept".to_owned()));
    }
    outcome
}

impl Player {
    /// Leaves in the outcome how all ended.
    fn tell(&mut self, outcome: &mut Outcome) {
        let machine = &mut self.machine;
        (outcome.ns, outcome.steps) = (machine.now(), machine.steps());
        for event in &self.events {
            let read = event.fd.and_then(|fd| machine.read(fd));
            let values = read.as_ref().ok().and_then(|words| {
                let values = ReadValues::from_words(words, event.attr.read_format).ok()?;
                Some([values.get(0)?.value, values.time_enabled()?, values.time_running()?])
            });
            outcome.events.push(EventOutcome {
                name: event.name.clone(),
                refused: read.err(),
                state: event.fd.ok().and_then(|fd| machine.state(fd)),
                values,
                records: records::of(&event.attr, &event.bytes).collect(),
            });
        }
        let named = |task: TaskId| (task, machine.first_name(task).to_owned());
        outcome.switches.extend(machine.schedule.iter().map(|switch| NamedSwitch {
            at: switch.at,
            cpu: switch.cpu,
            task: switch.task.map(named),
        }));
    }

    fn perform(&mut self, number: usize, statement: &Statement, outcome: &mut Outcome) {
        let done = match statement {
            Statement::Start { program, name } => match self.machine.spawn(program) {
                Some(task) => {
                    self.tasks.insert(name.clone(), task);
                    Ok(())
                }
                None => Err("there are too many tasks".to_owned()),
            },
            Statement::Open(open) => self.open(open),
            Statement::Do { at: Some(_), .. } => Ok(()),
            Statement::Do { at: None, action, fails } => {
                let done = self.act(action, *fails);
                outcome.met += usize::from(fails.is_some() && done.is_ok());
                done
            }
            Statement::Run(ns) => {
                self.run(*ns, outcome);
                Ok(())
            }
            Statement::Expect(expect) => {
                self.read_rings(true);
                let checked = self.check(expect);
                outcome.met += usize::from(checked.is_ok());
                checked
            }
            Statement::Show(what) => {
                self.read_rings(true);
                let text = match what {
                    Show::Counts => show::counts(self),
                    Show::Records(event) => show::records(self, event.as_deref()),
                    Show::Schedule => show::schedule(self),
                };
                // Writing to a string does not fail.
                let _ = write!(outcome.text, "{text}");
                Ok(())
            }
        };
        if let Err(problem) = done {
            outcome.failed.push((number, problem));
        }
    }

    /// A task by its name, or the first that runs a program of this name.
    pub(super) fn task(&self, name: &str) -> Option<TaskId> {
        task_of(&self.machine, &self.tasks, name)
    }

    fn open(&mut self, open: &Open) -> Result<(), String> {
        let missing = |name: &str| format!("no such task: '{name}'");
        let pid = match &open.on {
            Target::All => -1,
            Target::Task(name) => self.task(name).ok_or_else(|| missing(name))?.0 as i32,
            Target::Cgroup(place) => {
                let wanted = cgroup_id(*place);
                let found = self.machine.world.cgroups.iter().find(|(_, cgroup)| **cgroup == wanted);
                found.map_or(-1, |(fd, _)| *fd)
            }
            Target::Pid(pid) => *pid,
        };
        let by = match &open.by {
            Some(name) => self.task(name).ok_or_else(|| missing(name))?,
            None => OUTSIDE,
        };
        let fd_of = |name: &Option<String>| -> Result<i32, String> {
            let Some(name) = name else { return Ok(-1) };
            // The descriptor of one that was refused is not open.
            Ok(self.find(name).and_then(|event| event.fd.ok()).unwrap_or(i32::MAX))
        };
        let (group, output) = (fd_of(&open.group)?, fd_of(&open.output)?);
        let mut flags = open.flags;
        if matches!(open.on, Target::Cgroup(_)) {
            flags |= OpenFlags::PID_CGROUP;
        }
        let arguments = OpenArguments { pid, cpu: open.cpu.unwrap_or(-1), group_fd: group, flags };
        let fd = self.machine.open(by, &open.attr, arguments);
        let mut event = ScenarioEvent {
            name: open.name.clone(),
            attr: open.attr,
            fd,
            id: 0,
            reader: None,
            aux: None,
            trace: 0,
            reads: open.reads,
            overwrite: open.overwrite,
            by,
            bytes: Vec::new(),
            active: vec![0; self.looks.len()],
        };
        let mut result = Ok(());
        if let Ok(fd) = fd {
            event.id = self.machine.ioctl(fd, Ioctl::Id).unwrap_or(0);
            if let Some(handler) = open.handler {
                self.machine.handlers.insert(event.id, handler);
            }
            if let (true, Some(event)) = (open.signals, self.machine.event(fd)) {
                self.machine.engine.set_async(event, true);
            }
            if output != -1 {
                let target = self.machine.event(output);
                let done = self.machine.ioctl(fd, Ioctl::SetOutput(target));
                result = done.map(drop).map_err(|errno| format!("its output goes nowhere: {errno}"));
            }
            if let Some(pages) = open.ring {
                match self.machine.map(by, fd, ring(pages, open.overwrite)) {
                    Ok(reader) => event.reader = Some(reader),
                    Err(errno) => result = Err(format!("its ring cannot be mapped: {errno}")),
                }
            }
            if let Some(pages) = open.aux {
                let Some(ring) = &event.reader else {
                    return Err("its AUX area lies behind a ring: ring=PAGES is missing".to_owned());
                };
                match self.machine.map_aux(by, fd, ring, pages, !open.aux_overwrite) {
                    Ok(aux) => event.aux = Some(aux),
                    Err(errno) => result = Err(format!("its AUX area cannot be mapped: {errno}")),
                }
            }
        }
        self.events.push(event);
        result
    }

    pub(super) fn find(&self, name: &str) -> Option<&ScenarioEvent> {
        self.events.iter().find(|event| event.name == name)
    }

    /// The descriptor of an event that is open.
    pub(super) fn fd(&self, name: &str) -> Result<i32, String> {
        let event = self.find(name).ok_or_else(|| format!("no event '{name}' is open yet"))?;
        event.fd.map_err(|errno| format!("{name} was refused: {errno}"))
    }

    fn run(&mut self, ns: u64, outcome: &mut Outcome) {
        let end = self.machine.now().saturating_add(ns);
        let after = |now: u64, every: u64| (now / every + 1) * every;
        loop {
            let now = self.machine.now();
            let next_look = after(now, self.look_every);
            let reads = self.events.iter().filter_map(|event| match (event.reads, &event.reader) {
                (Reads::Every(every), Some(_)) => Some(after(now, every)),
                _ => None,
            });
            let next_read = reads.min().unwrap_or(end);
            let next_action = self.scheduled.first().map_or(u64::MAX, |scheduled| scheduled.at).max(now);
            let next = next_look.min(next_read).min(next_action).min(end);
            self.machine.run_until(next);
            if self.machine.is_exhausted() {
                return;
            }
            while self.scheduled.first().is_some_and(|scheduled| scheduled.at <= next) {
                let ScheduledAction { line, action, fails, .. } = self.scheduled.remove(0);
                match self.act(&action, fails) {
                    Ok(()) => outcome.met += usize::from(fails.is_some()),
                    Err(problem) => outcome.failed.push((line, problem)),
                }
            }
            if next == next_look {
                self.look();
            }
            self.read_rings(false);
            if next == end {
                return;
            }
        }
    }

    fn look(&mut self) {
        self.looks.push(self.machine.now());
        let machine = &self.machine;
        for event in &mut self.events {
            event.active.push(event.fd.map_or(0, |fd| machine.counting(fd)));
        }
    }

    /// Reads the rings whose turn it is; all that are read at all, if `now`.
    fn read_rings(&mut self, now: bool) {
        let at = self.machine.now();
        for place in 0..self.events.len() {
            let due = match self.events[place].reads {
                Reads::Every(every) => now || at % every == 0,
                Reads::Never => false,
            };
            if due {
                self.read_ring(place);
            }
        }
    }

    fn read_ring(&mut self, place: usize) {
        let event = &mut self.events[place];
        let Some(reader) = &mut event.reader else { return };
        if let Some(aux) = &mut event.aux {
            event.trace += aux.take(reader);
        }
        if event.overwrite && event.attr.flags.contains(AttrFlags::WRITE_BACKWARD) {
            event.bytes = reader.look_back();
        } else if !event.overwrite {
            let bytes = reader.take();
            if self.kept < MOST_BYTES {
                self.kept += bytes.len();
                event.bytes.extend(bytes);
            }
        }
    }

    fn act(&mut self, action: &Action, fails: Option<Errno>) -> Result<(), String> {
        let done = self.try_action(action)?;
        match (done, fails) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(errno)) => Err(format!("it was done; it should have failed: {errno}")),
            (Err(found), Some(errno)) if found == errno => Ok(()),
            (Err(found), Some(errno)) => Err(format!("it failed: {found}, and not: {errno}")),
            (Err(found), None) => Err(format!("it failed: {found}")),
        }
    }

    /// The outcome of an action; the outer error is one of the scenario.
    fn try_action(&mut self, action: &Action) -> Result<Result<(), Errno>, String> {
        if let Some(done) = act_on_machine(&mut self.machine, &self.tasks, action) {
            return done;
        }
        match action {
            Action::Enable(name, group) => return self.ioctl(name, Ioctl::Enable { group: *group }),
            Action::Disable(name, group) => return self.ioctl(name, Ioctl::Disable { group: *group }),
            Action::Reset(name, group) => return self.ioctl(name, Ioctl::Reset { group: *group }),
            Action::Refresh(name, more) => return self.ioctl(name, Ioctl::Refresh(*more)),
            Action::Period(name, period) => return self.ioctl(name, Ioctl::Period(*period)),
            Action::Pause(name, pause) => return self.ioctl(name, Ioctl::PauseOutput(*pause)),
            Action::Filter(name, text) => return self.ioctl(name, Ioctl::SetFilter(text)),
            Action::Output(name, target) => {
                let target = match target {
                    None => None,
                    Some(target) => self.machine.event(self.fd(target)?),
                };
                return self.ioctl(name, Ioctl::SetOutput(target));
            }
            Action::Modify(name, attr) => {
                // All that is not the breakpoint stays as it is (rule C51).
                let mut whole = self.find(name).map_or(**attr, |event| event.attr);
                (whole.type_, whole.bp_type) = (attr.type_, attr.bp_type);
                (whole.config1, whole.config2) = (attr.config1, attr.config2);
                whole.flags.set(AttrFlags::DISABLED, attr.flags.contains(AttrFlags::DISABLED));
                let mut bytes = Vec::new();
                whole.size = whole.size.min(self.machine.engine.config().attr_size);
                whole
                    .layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE))
                    .map_err(|error| format!("{error:?}"))?;
                return self.ioctl(name, Ioctl::ModifyAttributes(&mut AttrMemory(&mut bytes)));
            }
            Action::Map(name, pages, read_only) => {
                let fd = self.fd(name)?;
                let caller = self.find(name).map_or(OUTSIDE, |event| event.by);
                let mapped = self.machine.map(caller, fd, ring(*pages, *read_only));
                return Ok(mapped.map(|reader| {
                    // A second mapping shows the same; the first reader goes on.
                    if let Some(event) = self.events.iter_mut().find(|event| event.name == *name) {
                        event.overwrite |= *read_only && event.reader.is_none();
                        event.reader.get_or_insert(reader);
                    }
                }));
            }
            Action::Unmap(name) => {
                let fd = self.fd(name)?;
                self.read_rings(true);
                if let Some(event) = self.events.iter_mut().find(|event| event.name == *name) {
                    event.reader = None;
                }
                return Ok(self.machine.unmap(fd));
            }
            Action::MapAux(name, pages, read_only) => {
                let fd = self.fd(name)?;
                let Some(event) = self.events.iter_mut().find(|event| event.name == *name) else {
                    return Ok(Err(Errno::EBADF));
                };
                let ring = event.reader.as_ref().ok_or_else(|| format!("{name} has no ring"))?;
                let mapped = self.machine.map_aux(event.by, fd, ring, *pages, !*read_only);
                return Ok(mapped.map(|aux| {
                    event.aux.get_or_insert(aux);
                }));
            }
            Action::UnmapAux(name) => {
                let fd = self.fd(name)?;
                self.read_rings(true);
                if let Some(event) = self.events.iter_mut().find(|event| event.name == *name) {
                    event.aux = None;
                }
                return Ok(self.machine.unmap_aux(fd));
            }
            Action::Close(name) => {
                let fd = self.fd(name)?;
                return Ok(self.machine.close(fd));
            }
            Action::Drain(name) => {
                if let Some(place) = self.events.iter().position(|event| event.name == *name) {
                    self.read_ring(place);
                }
            }
            // The others are the machine's.
            _ => {}
        }
        Ok(Ok(()))
    }

    fn ioctl(&mut self, name: &str, ioctl: Ioctl<'_>) -> Result<Result<(), Errno>, String> {
        let fd = self.fd(name)?;
        Ok(self.machine.ioctl(fd, ioctl).map(drop))
    }
}

/// The machine of a scenario, built like this, with its programs; nothing has started.
pub(crate) fn machine(scenario: &Scenario, setup: Setup) -> Machine {
    let mut machine = Machine::new(setup);
    scenario.programs.iter().for_each(|program| machine.know(program.clone()));
    scenario.tracepoints.iter().for_each(|id| machine.declare_tracepoint(*id));
    for (_, parent) in &scenario.cgroups {
        machine.make_cgroup(parent.map_or(ROOT, cgroup_id));
    }
    machine
}

/// A task by its name, or the first that runs a program of this name.
fn task_of(machine: &Machine, tasks: &BTreeMap<String, TaskId>, name: &str) -> Option<TaskId> {
    let named = tasks.get(name).copied();
    named.or_else(|| machine.running(name).next())
}

/// The outcome of an action that is about the machine; `None`: it is about an event.
pub(crate) fn act_on_machine(
    machine: &mut Machine,
    tasks: &BTreeMap<String, TaskId>,
    action: &Action,
) -> Option<Result<Result<(), Errno>, String>> {
    let task = |machine: &Machine, name: &str| {
        task_of(machine, tasks, name).ok_or_else(|| format!("no such task: '{name}'"))
    };
    match action {
        Action::Plug(cpu, true) => machine.plug(*cpu),
        Action::Plug(cpu, false) => machine.unplug(*cpu),
        Action::RemovePmu => {
            if !machine.remove_pmu() {
                return Some(Err("there is no PMU".to_owned()));
            }
        }
        Action::Set(file, value) => return Some(Ok(machine.engine.set_sysctl(*file, value))),
        Action::MuxInterval(ms) => match machine.engine.pmu_by_name("cpu") {
            Some((pmu, _)) => return Some(Ok(machine.engine.set_mux_interval_ms(pmu, *ms))),
            None => return Some(Err("there is no PMU".to_owned())),
        },
        Action::Privileged(privileged) => machine.world.privileged = *privileged,
        Action::MayTrace(may) => machine.world.may_trace = *may,
        Action::LockedMemory(pages) => machine.world.locked_pages = *pages,
        Action::Descriptors(most) => machine.world.descriptor_limit = *most,
        Action::Prctl(name, enable) => match task(machine, name) {
            Ok(task) => machine.prctl(task, *enable),
            Err(missing) => return Some(Err(missing)),
        },
        Action::Move(name, cgroup) => match task(machine, name) {
            Ok(task) => machine.move_to_cgroup(task, cgroup.map_or(ROOT, cgroup_id)),
            Err(missing) => return Some(Err(missing)),
        },
        _ => return None,
    }
    Some(Ok(Ok(())))
}

fn ring(pages: usize, read_only: bool) -> MapRequest {
    MapRequest { writable: !read_only, ..MapRequest::ring(pages) }
}
