//! System calls that ended with `EINTR` because their thread was stopped: they are begun again.
//!
//! Most calls begin again by themselves when a thread was stopped without a signal to be handled. Some answer `EINTR`
//! for any wake-up (`epoll_wait`, `semtimedop`, `io_getevents`, sockets with a timeout, ...: signal(7)): an
//! interrupt of ours, or a signal that the program ignores, which the kernel would not even have sent to a thread
//! without a tracer. Such an answer is taken back before the program sees it. A signal that has a handler, or one
//! that stops the process, ends the call as ever.
//!
//! A call with a timeout has what was left of that when it is begun again. A tracer does not hear when a call was made; but
//! a thread that is looked at for samples is known to sleep since a look, and of the others the time counts from the first
//! interruption on. The argument stays as it is. The thread is followed to the end of
//! the call, is stopped when the time is over, and gets the answer of one whose time is over.
//!
//! A call that was to transfer more than it has done, and would have done so without a stop of ours ([`remainder`]),
//! does the rest before the program sees an answer. Until then the thread is followed, and a guardian knows what it
//! is to be answered if this process is killed.
//!
//! `close` is not begun again: its descriptor is gone.

mod remainder;

use super::{Supervisor, lock};
use crate::proc;
use crate::ptrace::{self, Resume, Status, Tid};
use crate::regs::{Registers, Width};
use crate::remote;
use crate::width::IO_PGETEVENTS;
use perfuse_sys::{pidfd, socket};
use remainder::Remainder;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A call that has been begun again.
#[derive(Clone, Debug)]
pub(super) struct RestartedCall {
    /// When its time is over, if ever, and its answer then.
    until: u64,
    answer: i64,
    at: CallStage,
    /// It does the rest of another one.
    part: Option<Box<PartialTransfer>>,
}

/// A call of which a part is done.
#[derive(Clone, Debug)]
struct PartialTransfer {
    /// The registers that the program finds after the call; the answer in them grows with each part.
    behind: Registers,
    done: u64,
    remainder: Remainder,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallStage {
    Entry,
    Inside,
    Exit,
}

impl RestartedCall {
    /// The rest of a call has ended, whose thread gets the registers behind it all. Whether there may be more to do, at the
    /// stop that comes next.
    fn has_done_remainder(&mut self, tid: Tid) -> bool {
        let (Some(mut part), Ok(registers)) = (self.part.take(), Registers::of(tid)) else { return false };
        let result = registers.result();
        let did = u64::try_from(result).unwrap_or(0);
        let was_stopped = Registers::is_interruption(result) || did > 0 && did < part.remainder.asked;
        let is_left = was_stopped || did == part.remainder.asked && part.remainder.more;
        let goes_on = is_left && self.until > proc::now_ns();
        self.at = CallStage::Exit;
        // One that was killed meanwhile tells so next.
        let answer = (part.done + did) as i64;
        if goes_on {
            part.behind.set_result(answer);
            let _ = part.behind.give(tid);
        } else {
            // Signals that it has raised itself are no reason to do it once more.
            let _ = part.behind.end_for_good(tid, answer);
        }
        goes_on && ptrace::interrupt(tid).is_ok()
    }

    /// How its thread goes on.
    pub(super) fn stride(&self, how: Resume) -> Resume {
        match how {
            Resume::Continue(signal) => Resume::Syscall(signal),
            Resume::Step(signal) if self.part.is_some() => Resume::Syscall(signal),
            how => how,
        }
    }
}

/// How long to wait until a thread is interrupted once more that was not where it could be.
const PATIENCE_NS: u64 = 1_000_000;

impl Supervisor {
    /// A tracee is stopped, before a signal or by an interrupt: if that ended its system call, this is begun again.
    pub(super) fn restart_call(&mut self, tid: Tid, status: Status) {
        let signal = match status {
            Status::Event(ptrace::EVENT_STOP) => None,
            Status::Signal(signal) => Some(signal),
            _ => return,
        };
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        let Ok(registers) = Registers::of(tid) else { return };
        #[cfg(target_arch = "aarch64")]
        if tracee.stands.is_some_and(|place| place != (registers.ip(), registers.stack())) {
            tracee.stands = None;
        }
        let was_interrupted = registers.was_interrupted();
        let done = registers.transferred().filter(|_| !tracee.stepping.is_wanted());
        if !was_interrupted && done.is_none() && tracee.restarted.is_none() {
            return;
        }
        let (now, ends) = (proc::now_ns(), signal.is_some_and(|signal| proc::ends_calls(tid, signal)));
        let waiting = tracee.restarted.as_ref().filter(|restarted| restarted.at == CallStage::Entry);
        if let Some(RestartedCall { part: Some(part), until, .. }) = waiting {
            // Its rest has not been begun yet.
            if ends || *until <= now || self.ends_calls || self.asked_for.contains(&tid) {
                let _ = part.behind.give(tid);
                tracee.restarted = None;
                self.remainder_is_over(tid);
            }
        } else if was_interrupted {
            self.interrupted(tid, registers, ends, now);
        } else if let Some(done) = done {
            self.begin_remainder(tid, registers, done, ends, now);
        } else if waiting.is_some_and(|restarted| ends || restarted.until <= now) {
            // One that has not been made again yet ends here, too.
            self.interrupted(tid, registers, ends, now);
        }
    }

    /// A tracee is stopped whose call has ended with `EINTR`, or is about to be made again. `ends`: by a signal that ends calls.
    fn interrupted(&mut self, tid: Tid, mut registers: Registers, ends: bool, now: u64) {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        let was_interrupted = registers.was_interrupted();
        if ends {
            tracee.restarted = None;
            // One that was killed meanwhile tells so next.
            let _ = registers.end_with(tid, -i64::from(libc::EINTR));
            #[cfg(target_arch = "aarch64")]
            {
                tracee.stands = Some((registers.ip(), registers.stack()));
            }
            return;
        }
        if let Some(restarted) = tracee.restarted.as_ref().filter(|restarted| restarted.until <= now) {
            if was_interrupted || restarted.at == CallStage::Entry {
                // One that was killed meanwhile tells so next.
                let _ = registers.end_with(tid, restarted.answer);
                tracee.restarted = None;
            }
            return;
        }
        let call = if was_interrupted { registers.ended_call(tid, tracee.seen.as_ref()) } else { None };
        let Some((of_call, call)) = call.filter(|(_, call)| *call != Some(libc::SYS_close)) else { return };
        #[cfg(target_arch = "aarch64")]
        if tracee.stands == Some((registers.ip(), registers.stack())) {
            return;
        }
        if tracee.restarted.is_none() && !tracee.stepping.is_wanted() {
            if let Some((ns, answer)) = timeout(tracee.pid, tid, &of_call, call) {
                let until = self.called_at(tid, now).saturating_add(ns);
                self.follow_until(tid, RestartedCall { until, answer, at: CallStage::Entry, part: None });
            }
        }
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        if let Some(restarted) = tracee.restarted.as_ref().filter(|restarted| restarted.until <= now) {
            // One that was killed meanwhile tells so next.
            let _ = registers.end_with(tid, restarted.answer);
            tracee.restarted = None;
            return;
        }
        if let Some(restarted) = &mut tracee.restarted {
            restarted.at = CallStage::Entry;
        }
        let _ = registers.restart_call(tid, &of_call);
    }

    /// A tracee is stopped whose call has done so much: if it would have done more, it does the rest. `ends`: by a
    /// signal that ends calls.
    fn begin_remainder(&mut self, tid: Tid, registers: Registers, done: u64, ends: bool, now: u64) {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        let before = tracee.restarted.take();
        #[cfg(target_arch = "aarch64")]
        if tracee.stands == Some((registers.ip(), registers.stack())) {
            return;
        }
        if ends {
            #[cfg(target_arch = "aarch64")]
            {
                tracee.stands = Some((registers.ip(), registers.stack()));
            }
            return;
        }
        let numbers = Width::ALL.map(|width| width.call(registers.call()));
        if !registers.may_be_one_of_many() && !numbers.into_iter().flatten().any(remainder::may_be_left_of) {
            return;
        }
        let Some((of_call, Some(call))) = registers.ended_call(tid, tracee.seen.as_ref()) else { return };
        let Some(remainder) = remainder::of(tid, &of_call, call, done) else { return };
        // It would end the rest at once, and has a stop of its own, at which this is done.
        if proc::has_signals(tid) {
            tracee.restarted = before;
            return;
        }
        let pid = tracee.pid;
        let until = before.map(|before| before.until).unwrap_or_else(|| {
            let time = timeout(pid, tid, &of_call, Some(call));
            time.map_or(u64::MAX, |(ns, _)| self.called_at(tid, now).saturating_add(ns))
        });
        // Of those that are many the arguments stand elsewhere.
        let own = registers.may_be_one_of_many().then_some(call);
        let Ok(doing) = of_call.doing(remainder.call.or(own), remainder.arguments) else { return };
        let ends = self.ends_calls || self.asked_for.contains(&tid);
        if until > now && !ends && doing.give(tid).is_ok() {
            if let Some(guardian) = self.guardian() {
                guardian.transfers(tid, Some((done, &registers)));
            }
            let part = Some(Box::new(PartialTransfer { behind: registers, done, remainder }));
            self.follow_until(tid, RestartedCall { until, answer: done as i64, at: CallStage::Entry, part });
        }
    }

    /// A tracee has the answer of a call whose rest it has done, or is gone.
    pub(super) fn remainder_is_over(&mut self, tid: Tid) {
        if let Some(Some(guardian)) = &mut self.guardian {
            guardian.transfers(tid, None);
        }
    }

    /// Stops the threads that do the rest of a call. None is begun from now on until a thread is traced, as this process may
    /// end soon.
    pub fn end_remainders(&mut self) {
        self.ends_calls = true;
        for (tid, tracee) in &mut self.tracees {
            let Some(RestartedCall { part: Some(_), at: CallStage::Inside, .. }) = tracee.restarted else {
                continue;
            };
            // One that is dead needs none.
            let _ = tracee.interrupt(*tid);
        }
    }

    /// Whether a thread does the rest of a call.
    pub(super) fn does_remainder(&self, tid: Tid) -> bool {
        self.tracees
            .get(&tid)
            .is_some_and(|tracee| tracee.restarted.as_ref().is_some_and(|restarted| restarted.part.is_some()))
    }

    /// Whether no rest of a call is being done that is to be ended.
    pub fn remainders_are_settled(&self) -> bool {
        let remainders =
            || self.tracees.values().filter_map(|tracee| tracee.restarted.as_ref()?.part.as_ref());
        !self.ends_calls || remainders().next().is_none()
    }

    /// A tracee's call is followed until its time is over.
    fn follow_until(&mut self, tid: Tid, restarted: RestartedCall) {
        if restarted.until < u64::MAX {
            self.deadlines.insert((restarted.until, tid));
            self.set_alarm();
        }
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.restarted = Some(restarted);
        }
    }

    /// When a tracee made the call that it was interrupted in, as far as that is known; now, if it is not.
    fn called_at(&self, tid: Tid, now: u64) -> u64 {
        if let Some(began) = self.tracees.get(&tid).and_then(|tracee| tracee.calls.began()) {
            return began.min(now);
        }
        let mut machine = lock(&self.machine);
        machine.task_of(tid).and_then(|task| machine.sleeps_since(task)).map_or(now, |since| since.min(now))
    }

    /// A tracee is at the entry or the exit of a system call. Whether that is for us only.
    pub(super) fn follows_call(&mut self, tid: Tid) -> bool {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return false };
        let Some(restarted) = &mut tracee.restarted else { return false };
        match restarted.at {
            CallStage::Entry => restarted.at = CallStage::Inside,
            CallStage::Inside if restarted.part.is_some() => {
                if !restarted.has_done_remainder(tid) {
                    tracee.restarted = None;
                    #[cfg(target_arch = "aarch64")]
                    {
                        tracee.stands =
                            Registers::of(tid).ok().map(|registers| (registers.ip(), registers.stack()));
                    }
                }
                self.remainder_is_over(tid);
            }
            // The signal that interrupted it is told next; an interrupt of ours that this stop has swallowed has to be made again.
            CallStage::Inside if Registers::of(tid).is_ok_and(|registers| registers.was_interrupted()) => {
                restarted.at = CallStage::Exit;
                let _ = ptrace::interrupt(tid);
            }
            CallStage::Inside | CallStage::Exit => tracee.restarted = None,
        }
        true
    }

    /// Stops those whose calls have lasted for as long as they may.
    pub(super) fn follow_deadlines(&mut self) {
        if self.deadlines.is_empty() {
            return;
        }
        let now = proc::now_ns();
        while let Some((until, tid)) = self.deadlines.first().copied().filter(|(until, _)| *until <= now) {
            self.deadlines.remove(&(until, tid));
            let Some(tracee) = self.tracees.get_mut(&tid) else { continue };
            let Some(restarted) = tracee.restarted.as_ref().filter(|restarted| restarted.until <= now) else {
                continue;
            };
            if restarted.at == CallStage::Inside {
                let _ = tracee.interrupt(tid);
            }
            self.deadlines.insert((now + PATIENCE_NS, tid));
        }
        self.set_alarm();
    }

    /// The alarm rings when the first of these is to be seen to.
    pub(super) fn set_alarm(&mut self) {
        let look = self.looks_at_lent().then_some(self.look_at);
        let first = self.deadlines.first().map(|first| first.0);
        self.alarm.set([first, look, self.clock_at].into_iter().flatten().min());
    }
}

/// Of a call that does not last for ever: its longest time in ns, and its answer then.
fn timeout(pid: Tid, tid: Tid, registers: &Registers, call: Option<libc::c_long>) -> Option<(u64, i64)> {
    #[cfg(target_arch = "x86_64")]
    const EPOLL_WAIT: libc::c_long = libc::SYS_epoll_wait;
    #[cfg(target_arch = "aarch64")]
    const EPOLL_WAIT: libc::c_long = -1;
    const EAGAIN: i64 = -(libc::EAGAIN as i64);
    let time_at = |argument: usize| time(tid, registers, registers.argument(argument));
    let socket = || socket_of(pid, registers.argument(0) as i32);
    let ns = |time: Duration| time.as_nanos() as u64;
    match call? {
        EPOLL_WAIT | libc::SYS_epoll_pwait => {
            let ms = u64::try_from(registers.argument(3) as i32).ok()?;
            Some((ms * 1_000_000, 0))
        }
        libc::SYS_epoll_pwait2 => Some((time_at(3)?, 0)),
        libc::SYS_io_getevents | IO_PGETEVENTS => Some((time_at(4)?, 0)),
        libc::SYS_semtimedop => Some((time_at(3)?, EAGAIN)),
        libc::SYS_rt_sigtimedwait => Some((time_at(2)?, EAGAIN)),
        libc::SYS_io_uring_enter => {
            const EXTENDED: u64 = 1 << 3;
            const ABSOLUTE: u64 = 1 << 5;
            let flags = registers.argument(3) & (EXTENDED | ABSOLUTE);
            let mut at = [0; 8];
            remote::read_exact(tid, registers.argument(4).wrapping_add(16), &mut at).ok()?;
            let ns = time_of_64(tid, u64::from_le_bytes(at)).filter(|_| flags == EXTENDED)?;
            Some((ns, -i64::from(libc::ETIME)))
        }
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => Some((ns(socket::receive_timeout(&socket()?)?), EAGAIN)),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => {
            Some((ns(socket::send_timeout(&socket()?)?), EAGAIN))
        }
        libc::SYS_connect => {
            let socket = socket()?;
            let error = if socket::is_local(&socket) { libc::EAGAIN } else { libc::EINPROGRESS };
            Some((ns(socket::send_timeout(&socket)?), -i64::from(error)))
        }
        _ => None,
    }
}

/// A `struct timespec` of a caller, in ns; `None` for a null pointer.
fn time(tid: Tid, registers: &Registers, at: u64) -> Option<u64> {
    /// The first of the calls that 32-bit programs have for wider times.
    const WIDER: u64 = 403;
    if registers.width() == Width::Native || registers.call() >= WIDER {
        return time_of_64(tid, at);
    }
    let mut time = [0; 8];
    remote::read_exact(tid, at, &mut time).ok()?;
    let word =
        |at: usize| u64::from(u32::from_le_bytes([time[at], time[at + 1], time[at + 2], time[at + 3]]));
    Some(word(0) * 1_000_000_000 + word(4))
}

fn time_of_64(tid: Tid, at: u64) -> Option<u64> {
    let (mut seconds, mut ns) = ([0; 8], [0; 8]);
    remote::read_exact(tid, at, &mut seconds).ok()?;
    remote::read_exact(tid, at.wrapping_add(8), &mut ns).ok()?;
    let seconds = u64::from_le_bytes(seconds).saturating_mul(1_000_000_000);
    Some(seconds.saturating_add(u64::from_le_bytes(ns)))
}

/// A process's socket.
fn socket_of(pid: Tid, fd: i32) -> Option<OwnedFd> {
    pidfd::descriptor_of(pid, fd).ok()
}
