//! Tracepoints of tasks: system calls, at stops of threads that tell of them, and births, new programs and ends.

use super::{LiveTask, Machine};
use crate::call_texts;
use crate::proc::{self, Reading};
use crate::ptrace::{CallStop, Tid};
use crate::regs::Registers;
use crate::stopped::{ExitingThread, StoppedThread};
use crate::tracepoints::{self, Tracepoint, What};
use perfuse_abi::{Errno, EventType};
use perfuse_engine::{CpuState, Engine, Hit, TaskId};
use perfuse_trace::Filling;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The tracepoints of which there have been events, and the tasks whose calls are told.
#[derive(Debug, Default)]
pub(super) struct Tracepoints {
    opened: BTreeMap<What, Vec<Arc<Tracepoint>>>,
    /// Tasks whose calls are told since, or no longer.
    changed: BTreeSet<TaskId>,
    /// Whether programs run at calls: those of all tasks that they may see (rule K4).
    run_programs: bool,
}

impl Tracepoints {
    pub(super) fn new(engine: &mut Engine) -> Self {
        engine.refuse_unknown_tracepoints(Errno::ENOENT);
        engine.set_filter_maker(tracepoints::filter);
        Tracepoints::default()
    }

    fn of(&self, what: What) -> &[Arc<Tracepoint>] {
        self.opened.get(&what).map_or(&[], Vec::as_slice)
    }
}

/// A call that a thread is in.
#[derive(Debug)]
pub(super) struct RunningCall {
    registers: Registers,
    /// When it began, or its sleep was told last, and the thread's numbers then.
    since: u64,
    reading: Reading,
    stops: u64,
}

impl LiveTask {
    /// Whether it has left its cpu by itself since this was asked last, but for stops: others take the cpu of one that could run on.
    fn has_waited(&mut self) -> bool {
        let Some(switches) = proc::voluntary_switches(self.tid) else { return true };
        let before = self.waits.replace((switches, self.all_stops));
        before.is_none_or(|(before, stops)| {
            switches.saturating_sub(before) > self.all_stops.saturating_sub(stops)
        })
    }
}

/// How far a call has come when its sleep is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until<'s> {
    /// It has ended, and the thread is stopped there.
    Return(&'s StoppedThread),
    /// The thread ends, and has its memory still.
    End,
    /// It goes on.
    Now,
}

/// Shorter sleep is not told, in nanoseconds: it could be the stop of the thread itself.
const LEAST: u64 = 20_000;
/// The same where nothing tells whether it has slept.
const LEAST_WITHOUT_ARRIVALS: u64 = 200_000;

/// Data of a call's record, as Linux has them: the head that all records have, and words.
fn record(id: u64, tid: Tid, words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut record = (id as u16).to_ne_bytes().to_vec();
    record.extend([0; 2]);
    record.extend(tid.to_ne_bytes());
    record.extend(words.into_iter().flat_map(u64::to_ne_bytes));
    record
}

/// The number of a call in the word that it has alone: an int, and nothing.
fn number_alone(number: u64) -> u64 {
    let mut word = [0; 8];
    word[..4].copy_from_slice(&(number as u32).to_ne_bytes());
    u64::from_ne_bytes(word)
}

impl Machine {
    /// An event is to be opened: a tracepoint exists as soon as somebody asks for it.
    pub(super) fn know_tracepoint(&mut self, id: u64) {
        let Some(tracepoint) = tracepoints::get(id) else { return };
        let known = self.tracepoints.opened.entry(tracepoint.what).or_default();
        if known.iter().all(|known| known.id != id) {
            known.push(tracepoint);
            self.engine.declare_open_tracepoint(id);
        }
    }

    /// A task is about to leave its cpu: whether its calls are to be told whenever it runs.
    pub(super) fn note_calls(&mut self, task: TaskId, cpu: u32) {
        let of_calls = self.tracepoints.opened.range(..=What::ExitOf(u64::MAX));
        let mut ids = of_calls.flat_map(|(_, points)| points).map(|point| point.id);
        let runs_programs = ids.clone().any(|id| self.engine.runs_programs_at(id));
        let listens = ids.any(|id| self.engine.listens(cpu, EventType::TRACEPOINT, id));
        let ran_programs = std::mem::replace(&mut self.tracepoints.run_programs, runs_programs);
        if runs_programs && !ran_programs {
            let others = self.tasks.iter_mut().filter(|(_, known)| !known.tells_calls);
            for (&other, known) in others.filter(|(_, known)| self.bpf.may_trace(known.tid)) {
                known.tells_calls = true;
                self.tracepoints.changed.insert(other);
            }
        }
        let Some(known) = self.tasks.get_mut(&task) else { return };
        // A thread that programs see already is not asked about at each of its stops.
        let wanted = listens || runs_programs && (known.tells_calls || self.bpf.may_trace(known.tid));
        if std::mem::replace(&mut known.tells_calls, wanted) != wanted {
            self.tracepoints.changed.insert(task);
        }
    }

    /// Threads whose calls are told since this was asked last, or no longer.
    pub(crate) fn take_call_changes(&mut self) -> Vec<(Tid, bool)> {
        let changed = std::mem::take(&mut self.tracepoints.changed);
        let of = |task| self.tasks.get(&task).map(|known| (known.tid, known.tells_calls));
        changed.into_iter().filter_map(of).collect()
    }

    /// Whether `take_call_changes` has something to tell.
    pub(super) fn calls_have_changed(&self) -> bool {
        !self.tracepoints.changed.is_empty()
    }

    /// Whether the calls of a task are told.
    pub(crate) fn tells_calls(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|known| known.tells_calls)
    }

    /// A task begins a call, or ends one, and is stopped there.
    pub(crate) fn called(&mut self, task: TaskId, number: u64, stop: CallStop, stopped: &StoppedThread) {
        if let CallStop::Exit { .. } = stop {
            self.tell_sleep(task, Until::Return(stopped));
        }
        self.tell_call(task, number, stop, stopped);
        if let CallStop::Entry { .. } = stop {
            self.begin_call(task, stopped);
        }
    }

    /// Whether [calls that SIGKILL ends](crate::machine::Settings::cut_calls) are told.
    pub(crate) fn tells_cut_calls(&self) -> bool {
        self.cut_calls
    }

    /// Whether the time that threads sleep is told.
    pub(crate) fn tells_sleep(&self) -> bool {
        !self.tracepoints.of(What::Asleep).is_empty()
    }

    /// A task is stopped in a call, which goes on.
    pub(crate) fn begin_call(&mut self, task: TaskId, stopped: &StoppedThread) {
        let (now, wanted) = (self.now(), self.wanted);
        if !self.tells_sleep() {
            return;
        }
        let Some(known) = self.tasks.get_mut(&task).filter(|known| known.call.is_none()) else { return };
        let registers = *stopped.registers();
        let stops = known.all_stops;
        known.waits = known.waits.or_else(|| Some((proc::voluntary_switches(known.tid)?, stops)));
        known.call = known.read(wanted).map(|reading| RunningCall { registers, since: now, reading, stops });
    }

    /// Tells how long a task has slept in its call.
    pub(crate) fn tell_sleep(&mut self, task: TaskId, until: Until<'_>) {
        let (now, wanted) = (self.now(), self.wanted);
        let Some(known) = self.tasks.get_mut(&task) else { return };
        let Some(RunningCall { registers, since, reading: before, stops }) = known.call.take() else {
            return;
        };
        let Some(reading) = known.read(wanted) else { return };
        let (pid, tid) = (known.pid, known.tid);
        let ran = reading.time_ns.saturating_sub(before.time_ns);
        let waited = reading.waited_ns.saturating_sub(before.waited_ns);
        let away = now.saturating_sub(since).saturating_sub(ran);
        let counts_arrivals = reading.arrivals > 0;
        let has_slept = match until {
            // It has come to a cpu after each stop but the last; if it slept, more often.
            Until::Return(_) | Until::End => {
                let arrivals = reading.arrivals.saturating_sub(before.arrivals);
                !counts_arrivals || arrivals > known.all_stops.saturating_sub(stops) && known.has_waited()
            }
            Until::Now => known.files.state().is_some_and(|(runs, _)| !runs),
        };
        let least = if counts_arrivals { LEAST } else { LEAST_WITHOUT_ARRIVALS };
        let is_told = has_slept && away.saturating_sub(waited) >= least;
        if let Until::Now = until {
            // From its sleep it comes to a cpu before its next stop.
            let (since, reading, stops) =
                if is_told { (now, reading, known.all_stops + 1) } else { (since, before, stops) };
            known.call = Some(RunningCall { registers, since, reading, stops });
        }
        if !is_told {
            return;
        }
        // The stack of one that sleeps stays as it is.
        let registers = if let Until::Return(stopped) = until { *stopped.registers() } else { registers };
        let name = proc::comm(pid, tid);
        let values = [
            ("comm", Filling::Bytes(&name)),
            ("pid", Filling::Number(tid as u64)),
            ("delay", Filling::Number(away)),
        ];
        self.tell(What::Asleep, task, Some(&StoppedThread::new(tid, registers)), away, &values);
    }

    fn tell_call(&mut self, task: TaskId, number: u64, stop: CallStop, stopped: &StoppedThread) {
        let Some((_, tid)) = self.tid_of(task) else { return };
        let (any, this) = match stop {
            CallStop::Entry { .. } => (What::Entry, What::EntryOf(number)),
            CallStop::Exit { .. } => (What::Exit, What::ExitOf(number)),
        };
        let raw = self.tracepoints.of(any).iter().map(|point| (point, number));
        let alone = self.tracepoints.of(this).iter().map(|point| (point, number_alone(number)));
        let told = raw.chain(alone).map(|(point, number)| {
            let mut data = match stop {
                CallStop::Entry { arguments, .. } => {
                    record(point.id, tid, [number].into_iter().chain(arguments))
                }
                CallStop::Exit { result } => record(point.id, tid, [number, result as u64]),
            };
            // It has as many arguments as the call.
            data.truncate(point.size.max(16));
            (point.id, data)
        });
        let told: Vec<(u64, Vec<u8>)> = told.collect();
        if told.is_empty() {
            return;
        }
        self.happened(task, stopped, |engine, cpu, now| {
            if let CallStop::Entry { arguments, .. } = &stop {
                call_texts::note(tid, now, number, arguments);
            }
            for (id, record) in &told {
                engine.tracepoint(cpu, now, &Hit::new(*id, record), stopped);
            }
        });
    }

    /// Tells of what happens to a task, with its weight, and the fields of its record by their names.
    fn tell(
        &mut self,
        what: What,
        task: TaskId,
        stopped: Option<&StoppedThread>,
        count: u64,
        values: &[(&str, Filling<'_>)],
    ) {
        stopped.iter().for_each(|stopped| self.see_maps(task, stopped));
        let moment: &dyn CpuState = stopped.map_or(&ExitingThread, |stopped| stopped);
        let (now, Some((_, tid))) = (self.now(), self.tid_of(task)) else { return };
        for point in self.tracepoints.of(what).to_vec() {
            let head =
                [("common_type", Filling::Number(point.id)), ("common_pid", Filling::Number(tid as u64))];
            let record = point.format.fill(&[&head, values].concat());
            self.within(task, now, |engine, cpu| {
                engine.tracepoint(cpu, now, &Hit { count, ..Hit::new(point.id, &record) }, moment);
            });
        }
    }

    /// The same of a task that is stopped in the kernel.
    fn tell_stopped(&mut self, what: What, task: TaskId, values: &[(&str, Filling<'_>)]) {
        let stopped = self.tid_of(task).and_then(|(_, tid)| {
            let registers = Registers::of(tid).ok()?;
            Some(StoppedThread::new(tid, registers).in_kernel(true))
        });
        self.tell(what, task, stopped.as_ref(), 1, values);
    }

    /// A task has made another: `sched:sched_process_fork`.
    pub(super) fn tell_fork(&mut self, parent: TaskId, child: Tid) {
        let (false, Some((pid, tid))) = (self.tracepoints.of(What::Fork).is_empty(), self.tid_of(parent))
        else {
            return;
        };
        let name = proc::comm(pid, tid);
        let values = [
            ("parent_comm", Filling::Bytes(&name)),
            ("parent_pid", Filling::Number(tid as u64)),
            ("child_comm", Filling::Bytes(&name)),
            ("child_pid", Filling::Number(child as u64)),
        ];
        self.tell_stopped(What::Fork, parent, &values);
    }

    /// A task has another program: `sched:sched_process_exec`. `former`: its number before.
    pub(super) fn tell_exec(&mut self, task: TaskId, former: Tid) {
        let (false, Some((pid, tid))) = (self.tracepoints.of(What::Exec).is_empty(), self.tid_of(task))
        else {
            return;
        };
        let name = proc::program_name(pid).unwrap_or_default();
        let values = [
            ("filename", Filling::Bytes(&name)),
            ("pid", Filling::Number(tid as u64)),
            ("old_pid", Filling::Number(former as u64)),
        ];
        self.tell_stopped(What::Exec, task, &values);
    }

    /// A task ends: `sched:sched_process_exit`.
    pub(super) fn tell_end(&mut self, task: TaskId) {
        let (false, Some((pid, tid))) = (self.tracepoints.of(What::End).is_empty(), self.tid_of(task)) else {
            return;
        };
        let is_last = self.processes.get(&pid).is_some_and(|process| process.threads == 1);
        let name = proc::comm(pid, tid);
        let values = [
            ("comm", Filling::Bytes(&name)),
            ("pid", Filling::Number(tid as u64)),
            ("prio", Filling::Number(proc::priority(pid, tid).unwrap_or(120) as u64)),
            ("group_dead", Filling::Number(is_last.into())),
        ];
        self.tell(What::End, task, None, 1, &values);
    }
}
