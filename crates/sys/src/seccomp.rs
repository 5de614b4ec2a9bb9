//! Listeners of seccomp filters (`seccomp_unotify(2)`): calls of other threads that wait for an answer.

use crate::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

const RECEIVE: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;
const IS_VALID: u64 = 0x4008_2102;
const SET_FLAGS: u64 = 0x4008_2104;
/// The one who is woken runs on the cpu of who wakes it, who sleeps next.
const SYNC_WAKE_UP: u64 = 1;
/// The kernel does the call.
const CONTINUE: u32 = 1;

/// A call that waits: `struct seccomp_notif`, with its `struct seccomp_data`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Notification {
    /// By which it is answered.
    pub id: u64,
    /// The thread that calls; 0 where it is of another pid namespace.
    pub tid: u32,
    /// None are defined.
    pub flags: u32,
    /// The number of the call.
    pub call: i32,
    /// `AUDIT_ARCH_*`.
    pub arch: u32,
    /// The instruction pointer.
    pub ip: u64,
    /// The arguments.
    pub arguments: [u64; 6],
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

/// The answer to a thread that calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The kernel does the call.
    Continue,
    /// A value, or an error.
    Done(Result<u64, Errno>),
}

/// Asks the kernel to run the answering thread on the cpu of the calling one, which sleeps meanwhile. Before Linux
/// 6.6 it refuses, and wakes up threads as ever.
pub fn wake_in_turns(listener: BorrowedFd<'_>) {
    // SAFETY: a plain number.
    unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS as _, SYNC_WAKE_UP) };
}

/// The next call that waits; waits for one. It is an error if a signal took the call back meanwhile.
pub fn receive(listener: BorrowedFd<'_>) -> Result<Notification, Errno> {
    let mut told = Notification::default();
    // SAFETY: the request writes one notification into a live one, which is all zeros as it has to be.
    crate::errno::check(unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut told) })?;
    Ok(told)
}

/// Whether the call still waits: its thread may have been killed.
pub fn still_waits(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the request reads one number from a live one.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), IS_VALID as _, &raw const id) };
    result != -1
}

/// Answers a call. One that was killed meanwhile needs none.
pub fn answer(listener: BorrowedFd<'_>, id: u64, answer: Answer) {
    let (value, error, flags) = match answer {
        Answer::Continue => (0, 0, CONTINUE),
        Answer::Done(Ok(value)) => (value as i64, 0, 0),
        Answer::Done(Err(errno)) => (0, -errno.0, 0),
    };
    let response = Response { id, value, error, flags };
    // SAFETY: the request reads one response from a live one.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const response) };
}
