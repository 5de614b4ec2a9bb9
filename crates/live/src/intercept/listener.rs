//! Calls that wait for an answer: the quickest way to have one's system calls done by another process.
//!
//! A filter can answer that a call be told to its listener (`seccomp_unotify(2)`), and that the
//! thread sleep until it is answered. That takes two switches on one cpu and no request of ptrace's, half of
//! what a stop costs. It does for calls that only concern memory and the engine. A thread of ours listens to
//! each filter, beside the supervisor.
//!
//! Where it cannot be had (before Linux 5.19, in gVisor, beside another filter with a listener, where
//! `pidfd_getfd(2)` is refused as by Docker) the same calls are stopped like all others.

use super::Intercept;
use super::calls::SystemCall;
use super::inject::Injector;
use crate::machine::Machine;
use crate::ptrace::Tid;
use crate::supervisor::Waker;
use crate::width::Width;
use perfuse_abi::Errno;
use perfuse_sys::pidfd;
use perfuse_sys::poll::poll;
use perfuse_sys::seccomp::{self, Answer};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The state that the threads which listen share.
#[derive(Debug)]
pub(super) struct Listeners {
    machine: Arc<Mutex<Machine>>,
    waker: Waker,
    /// They end when this is closed.
    _over: UnixStream,
    until: UnixStream,
}

impl Listeners {
    pub(super) fn new(machine: Arc<Mutex<Machine>>, waker: Waker) -> Result<Self, Errno> {
        let (over, until) = UnixStream::pair().map_err(|_| Errno::EMFILE)?;
        Ok(Listeners { machine, waker, _over: over, until })
    }

    /// Starts a thread for a filter's listener.
    fn listen(&self, listener: OwnedFd, intercept: Arc<Mutex<Intercept>>) -> Result<(), Errno> {
        seccomp::wake_in_turns(listener.as_fd());
        let (machine, waker) = (self.machine.clone(), self.waker.clone());
        let until = self.until.try_clone().map_err(|_| Errno::EMFILE)?;
        let work = move || serve(&listener, &until, &intercept, &machine, &waker);
        let thread = std::thread::Builder::new().name("perfuse".to_owned()).spawn(work);
        thread.map(drop).map_err(|_| Errno::EAGAIN)
    }
}

/// Puts a filter of whose calls some wait for us on a process, which has `probe` open, and listens.
pub(super) fn install(
    injector: &mut Injector<'_>,
    pid: Tid,
    probe: RawFd,
    program: &super::filter::Program,
    listeners: &Listeners,
    intercept: Arc<Mutex<Intercept>>,
) -> Result<(), Errno> {
    // Once there is the filter there has to be a listener.
    drop(pidfd::descriptor_of(pid, probe)?);
    let number = injector.install_with_listener(program)?;
    let listener = pidfd::descriptor_of(pid, number as RawFd);
    injector.close(number);
    listeners.listen(listener?, intercept)
}

/// Answers until no process is left that could call.
fn serve(
    listener: &OwnedFd,
    until: &UnixStream,
    intercept: &Mutex<Intercept>,
    machine: &Mutex<Machine>,
    waker: &Waker,
) {
    loop {
        match poll(&[listener.as_fd(), until.as_fd()], None).as_deref() {
            Ok([calls, over]) if calls.readable && !over.any() => {}
            Err(&Errno::EINTR) => continue,
            _ => return,
        }
        // One that was taken back meanwhile, by a signal, is an error or waited beyond.
        let Ok(notification) = seccomp::receive(listener.as_fd()) else { continue };
        let answer = {
            let mut intercept = intercept.lock().unwrap_or_else(PoisonError::into_inner);
            // The thread may have been killed since. Not so its number, from here on: the dead are taken under
            // this lock.
            if !seccomp::still_waits(listener.as_fd(), notification.id) {
                continue;
            }
            let width = Width::of_architecture(notification.arch);
            let call = width
                .and_then(|width| SystemCall::new(width, notification.call as u64, notification.arguments));
            call.and_then(|call| intercept.waiting(machine, notification.tid as Tid, &call))
        };
        // The supervisor sets its ticks, and asks for a stop to set debug registers, which then comes before
        // the thread goes on in its program.
        for look in 0..100 {
            let machine = machine.lock().unwrap_or_else(PoisonError::into_inner);
            let others = machine.steps_have_changed() || machine.clocks_have_changed();
            if !machine.period_has_changed() && !machine.watches_have_changed() && !others {
                break;
            }
            drop(machine);
            if look == 0 {
                waker.wake();
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        seccomp::answer(listener.as_fd(), notification.id, answer.map_or(Answer::Continue, Answer::Done));
    }
}
