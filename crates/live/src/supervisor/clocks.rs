//! Clocks of whole cpus whose BPF programs run for the thread that is there when they go off: it is stopped for that.

use super::{Front, Supervisor, lock};
use crate::machine::DueClock;
use crate::proc;
use crate::ptrace::Tid;
use crate::regs::Registers;
use crate::stopped::StoppedThread;

impl Supervisor {
    /// Sees to clocks that have gone off.
    pub(super) fn follow_clocks(&mut self, front: &mut dyn Front) {
        if self.clock_at.is_none() && !self.machine().clocks_have_changed() {
            return;
        }
        let begin = proc::now_ns();
        let (due, next) = self.machine().due_clocks(begin);
        if next != self.clock_at {
            self.clock_at = next;
            self.set_alarm();
        }
        if due.is_empty() {
            return;
        }
        let running = self.running();
        for clock in due {
            let found = running.iter().find(|(tid, cpu)| *cpu == clock.cpu && clock.sight.has(*tid));
            let asked =
                found.and_then(|(tid, _)| self.tracees.get_mut(tid)?.interrupt(*tid).is_ok().then_some(*tid));
            match asked {
                Some(tid) => self.clocked.entry(tid).or_default().push(clock),
                None => self.machine().clock_of_idle(&clock),
            }
        }
        let end = proc::now_ns();
        self.machine().clocks_took(end - begin, end);
        front.effects(&self.machine);
    }

    /// The tracees that run or wait for a cpu, with their cpus.
    fn running(&self) -> Vec<(Tid, u32)> {
        let free = self.tracees.iter().filter(|(_, tracee)| !tracee.stopped);
        let place = |(&tid, tracee): (&Tid, &super::Tracee)| {
            let (runs, cpu) = proc::Files::new(tracee.pid, tid).state()?;
            runs.then_some((tid, cpu))
        };
        free.filter_map(place).collect()
    }

    /// A tracee is stopped: runs the programs of the clocks for which it was asked to.
    pub(super) fn run_clocks(&mut self, front: &mut dyn Front, tid: Tid) {
        let Some(clocks) = self.clocked.remove(&tid) else { return };
        let Ok(registers) = Registers::of(tid) else { return };
        let stopped = StoppedThread::new(tid, registers).in_kernel(registers.in_system_call(tid));
        let mut machine = lock(&self.machine);
        if let Some(task) = machine.task_of(tid) {
            let begin = proc::now_ns();
            machine.clocks_of(task, &clocks, &stopped);
            let end = proc::now_ns();
            machine.clocks_took(end - begin, end);
        }
        drop(machine);
        front.effects(&self.machine);
    }
}

/// The clocks for which tracees are asked to stop.
pub(super) type Clocked = std::collections::BTreeMap<Tid, Vec<DueClock>>;
