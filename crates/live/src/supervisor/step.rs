//! Tracees whose instructions are counted one by one: they are resumed for one instruction at a time, and each
//! stop tells whether one was done.
//!
//! The count is that of a hardware counter of a program on a quiet machine: each instruction that
//! is completed, one that repeats itself (`rep movsb`) once, the one that calls the system when it does, none
//! that faults. The tracee notices nothing of it: no trap reaches it, and the flag
//! by which x86 steps is hidden where the program could see it.
//!
//! Stops in the middle of a system call (fork, exec, filters, the end) come after the instruction that called, and
//! the events on it may change there. So that instruction counts at the first of these stops or at the end of
//! the call, whichever comes first, if it was stepped: a thread that began in the kernel has not called.

use super::{Supervisor, Tracee, lock};
use crate::ptrace::{self, Resume, SignalInfo, Tid};
use crate::regs::Registers;
use crate::remote;
use crate::stopped::StoppedThread;
use crate::text;
#[cfg(target_arch = "aarch64")]
use crate::{debug, exclusive};

/// How a tracee is stepped.
#[derive(Debug, Default)]
pub(super) struct StepState {
    /// It is to be.
    wanted: bool,
    /// It was resumed for one instruction.
    on: bool,
    /// It stopped in the middle of a system call.
    in_call: bool,
    /// It has been born in one, and has not run yet.
    newborn: bool,
    /// The instruction that calls the system would be one that has not been counted.
    owed: bool,
    /// The last trap was that of the end of a system call.
    returned: bool,
    /// A call is begun again after a signal, unless that has a handler which ends it.
    withheld: bool,
    /// Where it stood when it was resumed.
    before: Option<Registers>,
    /// It tells before it ends.
    tells_of_end: bool,
}

/// The cause of a SIGTRAP of a tracee that is stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trap {
    /// An instruction was done.
    Done,
    /// A system call is over.
    Returned,
    /// It is about to begin the handler of a signal.
    Handler,
    /// Something else.
    Other,
}

impl Trap {
    fn of(info: &SignalInfo) -> Self {
        const TRAP_BRKPT: i32 = 1;
        const TRAP_TRACE: i32 = 2;
        match info.code() {
            TRAP_TRACE => Trap::Done,
            TRAP_BRKPT if cfg!(target_arch = "x86_64") => Trap::Returned,
            libc::SI_USER if cfg!(target_arch = "aarch64") && info.sender() == 0 => Trap::Returned,
            libc::SIGTRAP => Trap::Handler,
            _ => Trap::Other,
        }
    }
}

impl StepState {
    /// Of a tracee that has just been born.
    pub(super) fn of_newborn() -> Self {
        StepState { in_call: true, newborn: true, ..StepState::default() }
    }

    /// Of a tracee that another has traced meanwhile.
    pub(super) fn of_returned(wanted: bool) -> Self {
        StepState { wanted, ..StepState::default() }
    }

    /// Of a tracee that has just replaced its program.
    pub(super) fn of_new_program(wanted: bool) -> Self {
        StepState { wanted, in_call: true, ..StepState::default() }
    }

    /// Whether it is to be stepped.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// A stopped tracee tells before it ends, from now on.
    pub(super) fn tell_of_end(&mut self, tid: Tid, options: i32) {
        if !self.tells_of_end {
            self.tells_of_end = ptrace::set_options(tid, options | libc::PTRACE_O_TRACEEXIT).is_ok();
        }
    }

    /// Whether it has been born, and its first stop is still to come or to be left.
    pub(super) fn is_newborn(&self) -> bool {
        self.newborn
    }

    /// It goes on when its process does.
    pub(super) fn remainders(&mut self) {
        self.on = self.wanted;
    }
}

impl Tracee {
    /// How it goes on, when it is to go on like this; `options`: those of tracees.
    pub(super) fn stride(&mut self, tid: Tid, how: Resume, options: i32) -> Resume {
        let stepping = &mut self.stepping;
        let Resume::Continue(signal) = how else { return how };
        (stepping.on, stepping.newborn) = (stepping.wanted, false);
        if !stepping.on {
            return how;
        }
        stepping.tell_of_end(tid, options);
        stepping.owed |= !stepping.in_call;
        if stepping.before.is_none() {
            stepping.before = Registers::of(tid).ok();
        }
        Resume::Step(signal)
    }
}

impl Supervisor {
    /// Tracees are stepped from now on, or no longer; or their calls are told.
    pub fn follow_steps(&mut self) {
        self.follow_calls();
        // As calls: all have been asked to stop when others see the change.
        let mut machine = lock(&self.machine);
        let changes = machine.take_step_changes();
        if changes.is_empty() {
            return;
        }
        for (tid, wanted) in changes {
            let Some(tracee) = self.tracees.get_mut(&tid) else { continue };
            tracee.stepping.wanted = wanted;
            // One that is stepped stops by itself.
            if wanted && !tracee.stopped && !tracee.stepping.on {
                // One that is dead needs none.
                let _ = tracee.interrupt(tid);
            }
        }
        drop(machine);
        self.count_paced();
    }

    /// How many are stepped may have changed.
    pub(super) fn count_paced(&mut self) {
        self.paced = self.tracees.values().filter(|tracee| tracee.stepping.wanted).count();
        if self.paced != 1 {
            self.affinity.set(None);
        }
    }

    /// Whether all that are to be stepped are.
    pub fn steps_are_settled(&self) -> bool {
        let is_settled = |tracee: &Tracee| !tracee.stepping.wanted || tracee.stepping.on || tracee.stopped;
        self.calls_are_settled() && self.tracees.values().all(is_settled)
    }

    /// A tracee got a SIGTRAP. If that is one of stepping it, the answer is true.
    pub(super) fn stepped(&mut self, tid: Tid) -> bool {
        let Some(tracee) = self.tracees.get_mut(&tid).filter(|tracee| tracee.stepping.on) else {
            return false;
        };
        let Ok(info) = ptrace::signal_info(tid) else { return false };
        let trap = Trap::of(&info);
        if trap == Trap::Other {
            return false;
        }
        let watches = !tracee.armed.is_empty();
        let Ok(now) = Registers::of(tid) else { return true };
        let stepping = &mut tracee.stepping;
        let before = stepping.before.replace(now);
        let returned = std::mem::replace(&mut stepping.returned, trap == Trap::Returned);
        let counts = match trap {
            Trap::Done => match &before {
                // arm64 traps twice at the end of a call.
                Some(before) if returned && before.ip() == now.ip() => false,
                Some(before) => {
                    hide_flag(tid, before, &now);
                    !repeats(tid, before, &now)
                }
                None => true,
            },
            Trap::Returned => {
                // One that was interrupted is done again.
                stepping.withheld = stepping.owed && is_restarted(&now);
                std::mem::take(&mut stepping.owed) && !stepping.withheld
            }
            Trap::Handler => std::mem::take(&mut stepping.withheld),
            Trap::Other => false,
        };
        stepping.in_call = false;
        if counts {
            self.count_step(tid, before.unwrap_or(now));
        }
        // On x86 one stop tells of a breakpoint and of a step.
        if watches && trap == Trap::Done && cfg!(target_arch = "x86_64") {
            self.watched_too(tid);
        }
        true
    }

    /// A tracee that stopped otherwise; `in_call`: in the middle of a system call, which has been called.
    pub(super) fn stopped_in_step(&mut self, tid: Tid, in_call: bool) {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        let stepping = &mut tracee.stepping;
        // A call that was interrupted before it was stepped is begun again, and was called before.
        let begun = || Registers::of(tid).is_ok_and(|now| is_restarted(&now));
        stepping.in_call = in_call || stepping.newborn || stepping.wanted && !stepping.on && begun();
        if in_call && stepping.on && std::mem::take(&mut stepping.owed) {
            if let Some(before) = stepping.before.take() {
                self.count_step(tid, before);
            }
        }
    }

    /// A tracee is about to end: by a system call, or by a signal.
    pub(super) fn ends_in_step(&mut self, tid: Tid) {
        let behind = |registers: Registers| {
            let call = registers.call_instruction();
            let mut code = vec![0; call.len()];
            let at = registers.ip().wrapping_sub(call.len() as u64);
            remote::read_exact(tid, at, &mut code).is_ok() && code == call
        };
        let called = Registers::of(tid).is_ok_and(behind);
        self.stopped_in_step(tid, called);
    }

    /// A tracee that is about to be stepped and stands before a sequence that cannot be: it does that at once.
    #[cfg(target_arch = "aarch64")]
    pub(super) fn pass_exclusive(&mut self, tid: Tid) {
        let stepped = |tracee: &&Tracee| tracee.stepping.wanted && !tracee.stepping.in_call;
        let Some(tracee) = self.tracees.get(&tid).filter(stepped) else { return };
        let Ok(before) = Registers::of(tid) else { return };
        let mut code = [0; 4 * exclusive::LONGEST];
        let got = remote::read(tid, before.ip(), &mut code).unwrap_or(0);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        let code: Vec<u32> = code[..got].chunks_exact(4).map(word).collect();
        let Some(sequence) = exclusive::sequence(&code, before.ip()) else { return };
        let exits: Vec<u64> = sequence.exits.iter().map(|(exit, _)| *exit).collect();
        // One that was killed meanwhile tells so next.
        let _ = debug::run_to(
            tid,
            &exits,
            &tracee.armed.iter().map(|watched| watched.breakpoint).collect::<Vec<_>>(),
        );
        let at = Registers::of(tid).map_or(0, |now| now.ip());
        let done = sequence.exits.iter().find(|(exit, _)| *exit == at).map_or(0, |(_, done)| *done);
        for _ in 0..done {
            self.count_step(tid, before);
        }
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.stepping.before = None;
        }
    }

    /// A tracee has been helped past an instruction, which it has thereby done.
    pub(super) fn helped(&mut self, tid: Tid) {
        let Some(tracee) = self.tracees.get_mut(&tid).filter(|tracee| tracee.stepping.on) else { return };
        if let Some(before) = tracee.stepping.before.take() {
            self.count_step(tid, before);
        }
    }

    /// One instruction more, which was done there.
    fn count_step(&mut self, tid: Tid, before: Registers) {
        let mut machine = lock(&self.machine);
        let Some(task) = machine.task_of(tid) else { return };
        if machine.stepped(task) {
            machine.see_step(task, &StoppedThread::new(tid, before));
            // A stop costs a fraction on the cpu of the one that stops.
            if self.paced == 1 {
                self.affinity.set(Some(machine.cpu_of(task)));
            }
        }
    }
}

/// Whether a system call has been interrupted, so that it will be begun again: `ERESTARTSYS` and its like.
fn is_restarted(now: &Registers) -> bool {
    matches!(-now.result(), 512..=514 | 516)
}

/// Whether a step was one of an instruction that repeats itself, and is not over.
#[cfg(target_arch = "x86_64")]
fn repeats(tid: Tid, before: &Registers, now: &Registers) -> bool {
    if before.ip() != now.ip() {
        return false;
    }
    let mut code = [0; 8];
    let got = remote::read(tid, now.ip(), &mut code).unwrap_or(0);
    text::is_repeated(&code[..got])
}

/// Whether a step was one of an instruction that repeats itself, and is not over.
#[cfg(target_arch = "aarch64")]
fn repeats(tid: Tid, before: &Registers, now: &Registers) -> bool {
    let mut code = [0; 4];
    before.ip() == now.ip()
        && remote::read_exact(tid, now.ip(), &mut code).is_ok()
        && text::is_repeated(&code)
}

/// `pushf` pushes the flag by which the processor steps, too.
#[cfg(target_arch = "x86_64")]
fn hide_flag(tid: Tid, before: &Registers, now: &Registers) {
    const TRAP_FLAG: u8 = 1;
    let len = now.ip().wrapping_sub(before.ip());
    if now.stack().wrapping_add(8) != before.stack() || !(1..=2).contains(&len) {
        return;
    }
    let (mut code, mut upper) = ([0; 2], [0]);
    let code = &mut code[..len as usize];
    let pushes_flags =
        remote::read_exact(tid, before.ip(), code).is_ok() && matches!(*code, [0x9c] | [_, 0x9c]);
    let at = now.stack().wrapping_add(1);
    if pushes_flags && remote::read_exact(tid, at, &mut upper).is_ok() {
        let _ = remote::write(tid, at, &[upper[0] & !TRAP_FLAG]);
    }
}

#[cfg(target_arch = "aarch64")]
fn hide_flag(_tid: Tid, _before: &Registers, _now: &Registers) {}
