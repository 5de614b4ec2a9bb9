//! Traps in the text of tracees: put there and taken back while one of the process's threads is stopped; and the
//! threads that run into one.
//!
//! The instruction under a trap is done in place of the thread if it is a simple one. Otherwise it is put back
//! for one step, while the other threads of the process are held, so that none of them slips through.
//!
//! Libraries that a program loads later are seen by a trap where its dynamic linker tells debuggers of them.
//!
//! Where a function returns to is known when it begins, and there a trap is set, too. (Linux has it return to a
//! trap of its own in place of that, which debuggers and exceptions stumble over, and which could not be taken back
//! everywhere.) A thread that comes there has returned if its stack is that much shorter.

use super::guardian::Memory;
use super::{Supervisor, linker, lock};
use crate::handler;
use crate::machine::ProbesAt;
use crate::ptrace::{self, SignalInfo, Status, Tid};
use crate::regs::Registers;
use crate::remote;
use crate::stopped::StoppedThread;
use crate::text::{self, Original};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The traps and semaphores in the memory of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct PatchedText {
    traps: BTreeMap<u64, Trap>,
    /// Semaphores that count us.
    semaphores: BTreeSet<u64>,
    /// Where traps are taken back from if this process is killed.
    memory: Option<Arc<Memory>>,
}

#[derive(Clone, Debug)]
struct Trap {
    original: Original,
    probes: ProbesAt,
    /// It is where the program begins, when the libraries that it is linked with are there.
    begin: bool,
    /// It is where functions return to.
    returns: bool,
    /// It is where the dynamic linker tells of libraries that come and go.
    tells_of_maps: bool,
}

impl Trap {
    fn new(original: Original) -> Self {
        Trap { original, probes: ProbesAt::default(), begin: false, returns: false, tells_of_maps: false }
    }
}

/// A function that a thread is in, whose return has probes.
#[derive(Clone, Debug)]
pub(super) struct ReturnInstance {
    function: u64,
    /// Where it will return to, and with more of the stack left than this.
    to: u64,
    stack: u64,
    probes: Vec<u64>,
}

/// The cause of a SIGTRAP, as far as traps of ours are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrapCause {
    /// None of ours.
    Not,
    /// One of ours. The thread goes on.
    Past,
    /// One of ours, and the instruction under it raised this signal, at whose delivery the thread is stopped.
    Raised(i32),
}

/// More functions that are in each other have no return: as many as Linux allows.
const DEEPEST: usize = 64;

/// How long threads are waited for that have been interrupted: one that does not stop sleeps in the kernel, and will
/// stop before it does anything else.
const PATIENCE: Duration = Duration::from_millis(5);

fn add_to_semaphore(tid: Tid, addr: u64, step: u16) {
    let mut count = [0; 2];
    if remote::read_exact(tid, addr, &mut count).is_ok() {
        let _ = remote::write(tid, addr, &u16::from_ne_bytes(count).wrapping_add(step).to_ne_bytes());
    }
}

impl Supervisor {
    /// Sets the traps that events want now, at the next stop of a thread of each process: soon.
    pub fn follow_probes(&mut self) {
        if !lock(&self.machine).take_probe_change() {
            return;
        }
        let pids: BTreeSet<Tid> = self.tracees.values().map(|tracee| tracee.pid).collect();
        for pid in pids {
            if self.texts.contains_key(&pid) || lock(&self.machine).has_probes() {
                self.stale.insert(pid);
                let threads = self.tracees.iter_mut().filter(|(_, tracee)| tracee.pid == pid);
                let mut threads: Vec<_> = threads.collect();
                if !threads.iter().any(|(_, tracee)| tracee.stopped) {
                    // Those that are dead need none.
                    for (tid, tracee) in &mut threads {
                        let _ = tracee.interrupt(**tid);
                    }
                }
            }
        }
    }

    /// Whether all traps are where they are to be.
    pub fn probes_are_settled(&self) -> bool {
        self.stale.is_empty()
    }

    /// A thread of a process is stopped: sets its traps.
    pub(super) fn update_text(&mut self, tid: Tid) {
        if self.stale.is_empty() {
            return;
        }
        let Some(pid) = self.tracees.get(&tid).map(|tracee| tracee.pid) else { return };
        // Of a process that another traces in part, that part would tell of no traps.
        if !self.stale.remove(&pid) || self.has_detached_threads(pid) {
            return;
        }
        let wanted = lock(&self.machine).probes_of(pid);
        let returns = wanted.traps.values().any(|at| !at.returns.is_empty());
        if !returns {
            self.tracees
                .values_mut()
                .filter(|tracee| tracee.pid == pid)
                .for_each(|one| one.return_instances.clear());
        }
        let linker = if wanted.any { linker::told_at(tid) } else { None };
        self.announce_at(pid, tid, wanted.traps.keys().copied().chain(linker));
        let text = self.texts.entry(pid).or_default();
        text.traps.retain(|&addr, trap| {
            trap.probes = ProbesAt::default();
            trap.returns &= returns;
            trap.tells_of_maps = linker == Some(addr);
            let stays = trap.begin || trap.returns || trap.tells_of_maps || wanted.traps.contains_key(&addr);
            if !stays {
                // One that was killed meanwhile has none.
                let _ = text::remove(tid, addr, trap.original);
            }
            stays
        });
        for (addr, probes) in wanted.traps {
            match text.traps.get_mut(&addr) {
                Some(trap) => trap.probes = probes,
                // A place that cannot have one has none.
                None => drop(text::insert(tid, addr).map(|original| {
                    text.traps.insert(addr, Trap { probes, ..Trap::new(original) });
                })),
            }
        }
        if let Some(addr) = linker.filter(|addr| !text.traps.contains_key(addr)) {
            // Without one, libraries are seen when something else changes.
            if let Ok(original) = text::insert(tid, addr) {
                text.traps.insert(addr, Trap { tells_of_maps: true, ..Trap::new(original) });
            }
        }
        if let Some(trap) = linker.and_then(|addr| text.traps.get_mut(&addr)) {
            trap.tells_of_maps = true;
        }
        let semaphores: BTreeSet<u64> = wanted.semaphores.into_iter().collect();
        for &addr in text.semaphores.symmetric_difference(&semaphores) {
            add_to_semaphore(tid, addr, if semaphores.contains(&addr) { 1 } else { u16::MAX });
        }
        text.semaphores = semaphores;
        if text.traps.is_empty() && text.semaphores.is_empty() {
            self.texts.remove(&pid);
        }
        self.guard_traps(pid);
    }

    /// Traps are about to be set at such places, as far as there are none.
    fn announce_at(&mut self, pid: Tid, tid: Tid, places: impl Iterator<Item = u64>) {
        if !matches!(self.shelters.get(&pid), Some(Some(_))) {
            return;
        }
        let there = self.texts.get(&pid);
        let new = places.filter(|addr| there.is_none_or(|text| !text.traps.contains_key(addr)));
        // Where nothing can be read there will be no trap.
        let original = |addr| Some((addr, text::read(tid, addr).ok()?));
        let new: Vec<(u64, Original)> = new.filter_map(original).collect();
        self.announce(pid, tid, &new);
    }

    /// The traps in a process.
    pub(super) fn text_in(&self, pid: Tid) -> Vec<(u64, Original)> {
        let text = self.texts.get(&pid);
        text.into_iter().flat_map(|text| &text.traps).map(|(&addr, trap)| (addr, trap.original)).collect()
    }

    /// The traps of a process have changed: these are taken back if this process is killed.
    fn guard_traps(&mut self, pid: Tid) {
        if !self.texts.get(&pid).is_some_and(|text| text.memory.is_some() || !text.traps.is_empty()) {
            return;
        }
        let memory = match self.texts.get(&pid).and_then(|text| text.memory.clone()) {
            Some(memory) => Some(memory),
            None => self.guardian().and_then(|guardian| guardian.memory(pid)).map(Arc::new),
        };
        let (Some(memory), Some(text)) = (memory, self.texts.get_mut(&pid)) else { return };
        memory.set(text.traps.iter().map(|(&addr, trap)| (addr, trap.original)));
        text.memory = Some(memory);
    }

    /// A process has a copy of another's memory, or that memory itself, with all that is in it; `child` one of
    /// the stack of `parent`.
    pub(super) fn text_copied(&mut self, from: Tid, to: Tid, parent: Tid, child: Tid) {
        let return_instances =
            self.tracees.get(&parent).map(|parent| parent.return_instances.clone()).unwrap_or_default();
        if let Some(child) = self.tracees.get_mut(&child) {
            child.return_instances = return_instances;
        }
        if let Some(text) = self.texts.get(&from).cloned() {
            self.texts.insert(to, PatchedText { memory: None, ..text });
            self.guard_traps(to);
        }
    }

    /// A process has a new program, in which nothing is yet. Libraries that it is linked with are seen as they are mapped, until it begins.
    pub(super) fn text_replaced(&mut self, pid: Tid, tid: Tid) {
        self.texts.remove(&pid);
        if !lock(&self.machine).has_probes() {
            return;
        }
        self.stale.insert(pid);
        self.shelter_new_program(tid);
        if let Some((entry, original)) = linker::entry(tid).and_then(|at| {
            self.announce_at(pid, tid, [at].into_iter());
            Some((at, text::insert(tid, at).ok()?))
        }) {
            let trap = Trap { begin: true, ..Trap::new(original) };
            self.texts.entry(pid).or_default().traps.insert(entry, trap);
            let is_probed = lock(&self.machine).probes_of(pid).any;
            if let Some(tracee) = self.tracees.get_mut(&tid) {
                tracee.calls.set_maps(is_probed);
            }
            self.guard_traps(pid);
        }
    }

    /// A thread of a process, which is stopped, is to be another's: nothing is left in its memory. A process whose
    /// memory it borrows has its traps again at its next stop.
    pub(super) fn text_taken_back(&mut self, pid: Tid, tid: Tid) {
        if self.texts.is_empty() {
            return;
        }
        let borrows = self.tracees.get(&tid).is_some_and(|tracee| tracee.borrows);
        let lender = if borrows { crate::proc::parent_of(pid) } else { None };
        for owner in [Some(pid), lender].into_iter().flatten() {
            let Some(text) = self.texts.remove(&owner) else { continue };
            // One that was killed meanwhile has none.
            for (&addr, trap) in &text.traps {
                let _ = text::remove(tid, addr, trap.original);
            }
            for &addr in &text.semaphores {
                add_to_semaphore(tid, addr, u16::MAX);
            }
            for tracee in self.tracees.values_mut().filter(|tracee| tracee.pid == owner) {
                tracee.return_instances.clear();
            }
            if owner != pid {
                self.stale.insert(owner);
                for (other, tracee) in self.tracees.iter_mut().filter(|(_, tracee)| tracee.pid == owner) {
                    let _ = tracee.interrupt(*other);
                }
            }
        }
    }

    /// A process is all ours again: its traps are to be there as before.
    pub(super) fn text_wanted_again(&mut self, pid: Tid) {
        if lock(&self.machine).has_probes() && !self.has_detached_threads(pid) {
            self.stale.insert(pid);
        }
    }

    /// A process is gone.
    pub(super) fn text_is_gone(&mut self, pid: Tid) {
        if self.texts.is_empty() && self.stale.is_empty() && self.shelters.is_empty() {
            return;
        }
        if !self.tracees.values().any(|tracee| tracee.pid == pid) {
            self.shelters.remove(&pid);
            self.texts.remove(&pid);
            self.stale.remove(&pid);
        }
    }

    /// A tracee got a SIGTRAP. If it has run into a trap of ours, that is told, and it is past it.
    pub(super) fn probed(&mut self, tid: Tid) -> TrapCause {
        if self.texts.is_empty() && self.had_texts.is_empty() {
            return TrapCause::Not;
        }
        let Some(pid) = self.tracees.get(&tid).map(|tracee| tracee.pid) else { return TrapCause::Not };
        let info = ptrace::signal_info(tid).ok().filter(|info| info.code() > 0);
        let told_by_kernel = info.is_some();
        let Ok(mut registers) = Registers::of(tid) else { return TrapCause::Not };
        let addr = text::trapped_at(&registers);
        let trap = self.texts.get(&pid).and_then(|text| text.traps.get(&addr)).cloned();
        let Some(trap) = trap.filter(|_| told_by_kernel) else {
            // Taken back while it was on its way.
            let late = told_by_kernel && self.had_texts.contains(&addr) && !text::is_trap(tid, addr);
            if late {
                self.mark(pid, tid, info.as_ref(), addr, &registers);
                registers.set_ip(addr);
                let _ = registers.give(tid);
            }
            return if late { TrapCause::Past } else { TrapCause::Not };
        };
        self.had_texts.insert(addr);
        self.mark(pid, tid, info.as_ref(), addr, &registers);
        self.shelter_again(pid, tid);
        registers.set_ip(addr);
        if trap.tells_of_maps {
            self.stale.insert(pid);
        }
        if trap.returns {
            self.returned(tid, &registers);
        }
        if !trap.probes.own.is_empty() {
            let stopped = StoppedThread::at_trap(tid, registers, trap.original);
            self.tell_probes(tid, &trap.probes.own, None, &stopped);
        }
        if !trap.probes.returns.is_empty() {
            self.entered(pid, tid, &trap.probes.returns, &registers);
        }
        if trap.begin {
            self.begun(pid, tid, addr);
        }
        // A request that fails was for one that was killed meanwhile, which is told next.
        if text::does(tid, &mut registers, trap.original) {
            let _ = registers.give(tid);
            self.helped(tid);
        } else if registers.give(tid).is_ok() {
            if let Some(signal) = self.step_over(pid, tid, addr, trap.original) {
                return TrapCause::Raised(signal);
            }
            self.helped(tid);
        }
        TrapCause::Past
    }

    /// A program begins: from now on its linker tells of libraries.
    fn begun(&mut self, pid: Tid, tid: Tid, addr: u64) {
        if let Some(trap) = self.texts.get_mut(&pid).and_then(|text| text.traps.get_mut(&addr)) {
            trap.begin = false;
        }
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.calls.set_maps(false);
        }
        self.stale.insert(pid);
    }

    /// A thread is stopped at a trap of ours: if this process is killed now, it goes on where it stands then.
    fn mark(&self, pid: Tid, tid: Tid, info: Option<&SignalInfo>, addr: u64, registers: &Registers) {
        if let (Some(info), Some(Some(_))) = (info, self.shelters.get(&pid)) {
            let _ = ptrace::set_signal_info(tid, &handler::marked(info, addr, registers));
        }
    }

    fn tell_probes(&self, tid: Tid, probes: &[u64], function: Option<u64>, stopped: &StoppedThread) {
        let mut machine = lock(&self.machine);
        if let Some(task) = machine.task_of(tid) {
            machine.probed(task, probes, function, stopped);
        }
    }

    /// A thread begins a function whose return has probes.
    fn entered(&mut self, pid: Tid, tid: Tid, probes: &[u64], registers: &Registers) {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        let (function, stack) = (registers.ip(), registers.stack());
        let to = registers.link().or_else(|| {
            let mut word = [0; 8];
            let size = if registers.is_narrow() { 4 } else { 8 };
            remote::read_exact(tid, stack, &mut word[..size]).ok().map(|()| u64::from_le_bytes(word))
        });
        let Some(to) = to else { return };
        // Functions deeper in the stack have been left without a return, and so has one that began here before,
        // unless it has passed its place on to another function: that ends both.
        tracee.return_instances.retain(|one| one.stack > stack || one.stack == stack && one.to == to);
        if let Some(again) =
            tracee.return_instances.iter().position(|one| (one.stack, one.function) == (stack, function))
        {
            tracee.return_instances.truncate(again);
        }
        if tracee.return_instances.len() >= DEEPEST {
            return;
        }
        if !tracee.borrows {
            self.announce_at(pid, tid, [to].into_iter());
        }
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        let text = self.texts.entry(pid).or_default();
        let is_new = !text.traps.contains_key(&to);
        match text.traps.get_mut(&to) {
            Some(trap) => trap.returns = true,
            // The owner of that memory would not know.
            None if tracee.borrows => return,
            None => match text::insert(tid, to) {
                Ok(original) => {
                    text.traps.insert(to, Trap { returns: true, ..Trap::new(original) });
                }
                // A place that cannot have one has none.
                Err(_) => return,
            },
        }
        tracee.return_instances.push(ReturnInstance { function, to, stack, probes: probes.to_vec() });
        if is_new {
            self.guard_traps(pid);
        }
    }

    /// A thread has come to where functions return to. Those that it has left are told if they return there.
    fn returned(&mut self, tid: Tid, registers: &Registers) {
        let came_by_return = registers.have_returned(tid);
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        // On x86 the return address lay there.
        let left = registers.stack() + u64::from(registers.link().is_some());
        let stays = tracee
            .return_instances
            .iter()
            .position(|one| one.stack < left)
            .unwrap_or(tracee.return_instances.len());
        let left = tracee.return_instances.split_off(stays);
        // Code that catches an exception goes on there, too.
        for one in left.into_iter().rev().filter(|one| came_by_return && one.to == registers.ip()) {
            self.tell_probes(tid, &one.probes, Some(one.function), &StoppedThread::new(tid, *registers));
        }
    }

    /// A thread does the instruction under a trap, or is told a signal of it, which is the answer. One that
    /// comes to the same place again is trapped again, and counted, as Linux does it (rule J54).
    fn step_over(&mut self, pid: Tid, tid: Tid, addr: u64, original: Original) -> Option<i32> {
        let held = self.hold_others(pid, tid);
        let mut raised = None;
        if text::remove(tid, addr, original).is_ok() {
            // A thread that was killed meanwhile has raised nothing.
            raised = self.step_sheltered(pid, tid).unwrap_or(None);
            let _ = text::insert_again(tid, addr);
        }
        for other in held {
            let mut machine = lock(&self.machine);
            if let Some(task) = machine.task_of(other) {
                machine.stopped(task);
            }
            drop(machine);
            self.resume(other, super::Resume::Continue(0));
        }
        raised
    }

    /// Stops the other threads of a process; the answer is those that are to be let go again. Other news of them is kept for later.
    fn hold_others(&mut self, pid: Tid, tid: Tid) -> Vec<Tid> {
        let others = self.tracees.iter_mut().filter_map(|(other, tracee)| {
            let is_other = tracee.pid == pid && *other != tid && !tracee.stopped;
            (is_other && tracee.interrupt(*other).is_ok()).then_some(*other)
        });
        let mut running: Vec<Tid> = others.collect();
        let mut held = Vec::new();
        let until = Instant::now() + PATIENCE;
        let stop = Status::Event(ptrace::EVENT_STOP);
        while !running.is_empty() && Instant::now() < until {
            running.retain(|&other| match ptrace::peek_stop(other) {
                Ok(None) => true,
                Err(_) => false,
                Ok(Some(status)) => {
                    match self.tracees.get_mut(&other) {
                        Some(tracee) if status == stop => {
                            (tracee.stopped, tracee.interrupted) = (true, false);
                            held.push(other);
                        }
                        _ => self.defer(other, status),
                    }
                    false
                }
            });
            std::hint::spin_loop();
        }
        held.iter().for_each(|&other| self.restart_call(other, stop));
        held
    }
}
