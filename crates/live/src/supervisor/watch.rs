//! Debug registers of tracees: written when they are stopped, and so they are stopped when breakpoints change; and
//! the hits of tracees.

use super::guardian::Guardian;
use super::{Supervisor, Tracee, lock};
use crate::debug::{self, HwBreakpoint};
use crate::machine::ArmedBreakpoint;
use crate::ptrace::{self, Tid};
use crate::regs::Registers;
use crate::stopped::StoppedThread;
use perfuse_engine::EventKey;

fn breakpoints(watched: &[ArmedBreakpoint]) -> Vec<HwBreakpoint> {
    watched.iter().map(|watched| watched.breakpoint).collect()
}

impl Tracee {
    /// It is stopped: writes its debug registers.
    pub(super) fn arm(&mut self, tid: Tid) {
        let Some(wanted) = self.to_arm.take() else { return };
        if breakpoints(&wanted) != breakpoints(&self.armed) {
            // A tracee that was killed tells so next. If another tracer has the registers, nothing is hit.
            if debug::arm(tid, &breakpoints(&wanted)).is_err() {
                self.armed = Vec::new();
                return;
            }
        }
        self.armed = wanted;
    }
}

impl Supervisor {
    /// The breakpoints of a tracee are taken back if this process is killed.
    pub(super) fn guard_watches(&mut self, tid: Tid, any: bool) {
        if let Some(guardian) = self.guardian() {
            guardian.watches(tid, any);
        }
    }

    /// The guardian of tracees that go on if this process is killed.
    pub(super) fn guardian(&mut self) -> Option<&mut Guardian> {
        if self.options & ptrace::EXITKILL != 0 && !self.attached {
            return None;
        }
        self.guardian.get_or_insert_with(Guardian::start).as_mut()
    }

    /// Sets debug registers to the breakpoints of now: of tracees that run as soon as they have been
    /// stopped, which is before they do another instruction of their program, as far as they were not
    /// running at that moment on another cpu.
    pub fn follow_watches(&mut self) {
        // Others see the change as made when they get the lock: by then all have been asked to stop.
        let mut machine = lock(&self.machine);
        for (tid, watched) in machine.take_watch_changes() {
            let Some(tracee) = self.tracees.get_mut(&tid) else { continue };
            tracee.to_arm = Some(watched);
            if !tracee.stopped {
                // One that is dead needs none.
                let _ = tracee.interrupt(tid);
            }
        }
    }

    /// Whether all debug registers are as they are to be.
    pub fn watches_are_settled(&self) -> bool {
        self.tracees.values().all(|tracee| tracee.to_arm.is_none())
    }

    /// A tracee got a SIGTRAP. If it is one of its debug registers, that is told, and the answer is true.
    pub(super) fn watched(&mut self, tid: Tid) -> bool {
        if !debug::is_hit(tid) {
            return false;
        }
        self.watched_too(tid);
        if cfg!(target_arch = "aarch64") {
            // It is past it now.
            self.helped(tid);
        }
        true
    }

    /// Tells of the breakpoints of a tracee that were hit.
    pub(super) fn watched_too(&mut self, tid: Tid) {
        let Some(tracee) = self.tracees.get(&tid) else { return };
        // Where it is, before it is let past that.
        let registers = Registers::of(tid);
        let hit = debug::hit(tid, &breakpoints(&tracee.armed));
        let events: Vec<EventKey> = hit.iter().map(|&place| tracee.armed[place].event).collect();
        if let (Ok(registers), false) = (registers, events.is_empty()) {
            let mut machine = lock(&self.machine);
            if let Some(task) = machine.task_of(tid) {
                machine.hit(task, &events, &StoppedThread::new(tid, registers));
            }
        }
    }
}
