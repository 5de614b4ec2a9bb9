//! Calls that wait for an answer: the quickest way to have one's system calls done by another process.
//!
//! A filter can answer that a call be told to whoever listens to it (`seccomp_unotify(2)`), and that the
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
use crate::ptrace::{self, Tid};
use crate::supervisor::Waker;
use crate::width::Width;
use perfuse_abi::Errno;
use perfuse_sys::poll::poll;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const RECEIVE: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;
const IS_VALID: u64 = 0x4008_2102;
const SET_FLAGS: u64 = 0x4008_2104;
/// The one who is woken runs on the cpu of who wakes it, who sleeps next.
const SYNC_WAKE_UP: u64 = 1;
/// The kernel does the call.
const CONTINUE: u32 = 1;

/// `struct seccomp_notif`, with its `struct seccomp_data`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Notification {
    id: u64,
    tid: u32,
    flags: u32,
    call: i32,
    arch: u32,
    ip: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const _: () = assert!(size_of::<Notification>() == 80 && size_of::<Response>() == 24);

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
        // SAFETY: a plain number. Before 6.6 it is refused, and wake-ups are as they are.
        unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS as _, SYNC_WAKE_UP) };
        let (machine, waker) = (self.machine.clone(), self.waker);
        let until = self.until.try_clone().map_err(|_| Errno::EMFILE)?;
        let work = move || serve(&listener, &until, &intercept, &machine, waker);
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
    drop(fetch(pid, probe)?);
    let number = injector.install_with_listener(program)?;
    let listener = fetch(pid, number as RawFd);
    injector.close(number);
    listeners.listen(listener?, intercept)
}

/// A copy of a process's descriptor.
pub(super) fn fetch(pid: Tid, number: RawFd) -> Result<OwnedFd, Errno> {
    // The same everywhere.
    const PIDFD_OPEN: libc::c_long = 434;
    const PIDFD_GETFD: libc::c_long = 438;
    // SAFETY: plain numbers; what is answered is a fresh descriptor that nobody else has, or an error.
    unsafe {
        let process = libc::syscall(PIDFD_OPEN, pid, 0) as RawFd;
        if process == -1 {
            return Err(ptrace::last());
        }
        let process = OwnedFd::from_raw_fd(process);
        let fd = libc::syscall(PIDFD_GETFD, process.as_raw_fd(), number, 0) as RawFd;
        if fd == -1 { Err(ptrace::last()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Answers until nobody is left who could call.
fn serve(
    listener: &OwnedFd,
    until: &UnixStream,
    intercept: &Mutex<Intercept>,
    machine: &Mutex<Machine>,
    waker: Waker,
) {
    loop {
        match poll(&[listener.as_fd(), until.as_fd()], None).as_deref() {
            Ok([calls, over]) if calls.readable && !over.any() => {}
            Err(&Errno::EINTR) => continue,
            _ => return,
        }
        let mut notification = Notification::default();
        // SAFETY: the request writes one notification into a live one, which is all zeros as it has to be.
        // One that was taken back meanwhile, by a signal, is an error or waited beyond.
        if unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut notification) } == -1 {
            continue;
        }
        let answer = {
            let mut intercept = intercept.lock().unwrap_or_else(PoisonError::into_inner);
            // The thread may have been killed since. Not so its number, from here on: the dead are taken under
            // this lock.
            // SAFETY: the request reads one number from a live one.
            if unsafe { libc::ioctl(listener.as_raw_fd(), IS_VALID as _, &raw const notification.id) } == -1 {
                continue;
            }
            let width = Width::of_architecture(notification.arch);
            let call = width
                .and_then(|width| SystemCall::new(width, notification.call as u64, notification.arguments));
            call.and_then(|call| intercept.waiting(machine, notification.tid as Tid, &call))
        };
        // The supervisor sets its ticks, and asks for a stop to set debug registers, which then comes before
        // the thread goes on in its program. A ring that is not heard is followed by another.
        for _ in 0..100 {
            let machine = machine.lock().unwrap_or_else(PoisonError::into_inner);
            let steps = machine.steps_have_changed();
            if !machine.period_has_changed() && !machine.watches_have_changed() && !steps {
                break;
            }
            drop(machine);
            waker.wake();
            std::thread::sleep(Duration::from_micros(20));
        }
        let (value, error, flags) = match answer {
            None => (0, 0, CONTINUE),
            Some(Ok(value)) => (value as i64, 0, 0),
            Some(Err(errno)) => (0, -errno.0, 0),
        };
        let response = Response { id: notification.id, value, error, flags };
        // SAFETY: the request reads one response from a live one. One that was killed meanwhile needs none.
        unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const response) };
    }
}
