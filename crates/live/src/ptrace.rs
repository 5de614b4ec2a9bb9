//! `ptrace(2)` and the waits that go with it, one function each. Plain calls: what they mean for a
//! measured process is decided in [`supervisor`](crate::supervisor).
//!
//! Linux ties a tracee to the *thread* that seized it; all functions that name one have to be called on
//! that thread, and answer `ESRCH` elsewhere, or for a tracee that is not stopped or was killed.

use perfuse_abi::Errno;
use perfuse_sys::process::Usage;
use perfuse_sys::wait::{self, Change};
use std::ptr;

/// The number of a thread, as `gettid(2)` gives it.
pub type Tid = i32;

/// `PTRACE_EVENT_STOP`: an interrupt, a group-stop, or the first stop of a new tracee.
pub const EVENT_STOP: i32 = 128;

/// The options of tracees: all that they start is traced too.
pub const FOLLOW: i32 = libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESYSGOOD;

/// Tracees are killed when their tracer goes away.
pub const EXITKILL: i32 = libc::PTRACE_O_EXITKILL;

/// Tracees stop where a seccomp filter answers `SECCOMP_RET_TRACE`.
pub const TRACESECCOMP: i32 = libc::PTRACE_O_TRACESECCOMP;

/// The state of a tracee, as `waitpid(2)` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It ended; the whole status, for `WEXITSTATUS` and its like.
    Ended(i32),
    /// A signal is about to be delivered.
    Signal(i32),
    /// It stops as all its process does, because of this signal (`SIGSTOP`, `SIGTSTP`, ...). To be
    /// answered with [`listen`].
    GroupStop(i32),
    /// At the entry or the exit of a system call, after [`Resume::Syscall`].
    Syscall,
    /// A `PTRACE_EVENT_*`, [`EVENT_STOP`] among them.
    Event(i32),
}

/// How a tracee goes on; each takes the signal it is given on its way, 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Until something happens.
    Continue(i32),
    /// Until the entry or exit of a system call.
    Syscall(i32),
    /// For one instruction.
    Step(i32),
}

fn check(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result == -1 { Err(last()) } else { Ok(result) }
}

pub(crate) fn last() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// A request that takes two words and writes nothing to this process's memory.
fn request(request: RequestCode, tid: Tid, addr: usize, data: usize) -> Result<libc::c_long, Errno> {
    // SAFETY: the requests used with this function take plain numbers and do not write to our memory.
    check(unsafe { libc::ptrace(request, tid, addr, data) })
}

/// The type of the first argument, which differs between C libraries.
#[cfg(target_env = "musl")]
type RequestCode = libc::c_int;
#[cfg(not(target_env = "musl"))]
type RequestCode = libc::c_uint;

/// Begins to trace a thread, without stopping it. `EPERM`: it is traced already, or may not be (another
/// user's, Yama's `ptrace_scope`); `ESRCH`: no such thread.
pub fn seize(tid: Tid, options: i32) -> Result<(), Errno> {
    request(libc::PTRACE_SEIZE as RequestCode, tid, 0, options as usize).map(drop)
}

/// Asks a running tracee to stop: it tells an [`EVENT_STOP`] soon.
pub fn interrupt(tid: Tid) -> Result<(), Errno> {
    request(libc::PTRACE_INTERRUPT as RequestCode, tid, 0, 0).map(drop)
}

/// Lets a stopped tracee go on.
pub fn resume(tid: Tid, how: Resume) -> Result<(), Errno> {
    let (code, signal) = match how {
        Resume::Continue(signal) => (libc::PTRACE_CONT, signal),
        Resume::Syscall(signal) => (libc::PTRACE_SYSCALL, signal),
        Resume::Step(signal) => (libc::PTRACE_SINGLESTEP, signal),
    };
    request(code as RequestCode, tid, 0, signal as usize).map(drop)
}

/// Leaves a tracee in its group-stop, from which `SIGCONT` wakes it.
pub fn listen(tid: Tid) -> Result<(), Errno> {
    request(libc::PTRACE_LISTEN as RequestCode, tid, 0, 0).map(drop)
}

/// Lets a stopped tracee go for good.
pub fn detach(tid: Tid, signal: i32) -> Result<(), Errno> {
    request(libc::PTRACE_DETACH as RequestCode, tid, 0, signal as usize).map(drop)
}

/// Changes the options of a stopped tracee.
pub fn set_options(tid: Tid, options: i32) -> Result<(), Errno> {
    request(libc::PTRACE_SETOPTIONS as RequestCode, tid, 0, options as usize).map(drop)
}

/// The number that came with an event: the new thread of a fork, the former number of a thread that execs, the
/// data of a seccomp filter.
pub fn event_message(tid: Tid) -> Result<u64, Errno> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the request writes one word into a live word.
    check(unsafe {
        libc::ptrace(libc::PTRACE_GETEVENTMSG as RequestCode, tid, ptr::null_mut::<u8>(), &raw mut message)
    })?;
    Ok(message as u64)
}

/// Where in a system call a tracee is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStop {
    /// It begins.
    Entry {
        /// The call.
        number: u64,
        /// Its arguments.
        arguments: [u64; 6],
    },
    /// It ends.
    Exit {
        /// Its result; an errno is below zero.
        result: i64,
    },
}

/// Where in a system call a tracee is, at a [`Status::Syscall`]; `None` at other stops. `EIO` before Linux 5.3.
pub fn call_stop(tid: Tid) -> Result<Option<CallStop>, Errno> {
    const GET_SYSCALL_INFO: u32 = 0x420e;
    // `struct ptrace_syscall_info`: the kind of stop and the architecture, instruction, stack; the call and its arguments, or its
    // result.
    let mut info = [0u64; 11];
    // SAFETY: the request writes no more than the bytes that are announced, into a live array of as many.
    check(unsafe {
        libc::ptrace(GET_SYSCALL_INFO as RequestCode, tid, size_of_val(&info), info.as_mut_ptr())
    })?;
    let [kind, _, _, first, ref arguments @ ..] = info;
    Ok(match kind.to_ne_bytes()[0] {
        1 => {
            let arguments = *arguments.first_chunk().expect("seven words are left");
            Some(CallStop::Entry { number: first, arguments })
        }
        2 => Some(CallStop::Exit { result: first as i64 }),
        _ => None,
    })
}

/// The details of a signal: a `siginfo_t`, as words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalInfo(pub(crate) [u64; 16]);

const _: () = assert!(size_of::<SignalInfo>() == size_of::<libc::siginfo_t>());

impl SignalInfo {
    /// `si_signo`.
    pub fn signal(&self) -> i32 {
        self.0[0] as i32
    }

    /// `si_errno`.
    pub fn errno(&self) -> i32 {
        (self.0[0] >> 32) as i32
    }

    /// `si_code`.
    pub fn code(&self) -> i32 {
        self.0[1] as i32
    }

    /// `si_pid`, of a signal that was sent by a process.
    pub fn sender(&self) -> Tid {
        self.0[2] as Tid
    }

    /// `si_addr`, of a signal about an instruction or an address.
    pub fn addr(&self) -> u64 {
        self.0[2]
    }
}

/// The details of the signal at whose delivery a tracee is stopped.
pub fn signal_info(tid: Tid) -> Result<SignalInfo, Errno> {
    let mut info = SignalInfo::default();
    // SAFETY: the request writes one siginfo into a live place of its size.
    check(unsafe {
        libc::ptrace(libc::PTRACE_GETSIGINFO as RequestCode, tid, ptr::null_mut::<u8>(), info.0.as_mut_ptr())
    })?;
    Ok(info)
}

/// Changes those details.
pub(crate) fn set_signal_info(tid: Tid, info: &SignalInfo) -> Result<(), Errno> {
    // SAFETY: the request reads one siginfo, and so many bytes are there.
    check(unsafe {
        libc::ptrace(libc::PTRACE_SETSIGINFO as RequestCode, tid, ptr::null_mut::<u8>(), info.0.as_ptr())
    })
    .map(drop)
}

/// How many signals like this one, that of a descriptor, wait for a stopped tracee and its process. `None`: so many
/// signals wait that they are not looked through.
pub(crate) fn signals_waiting(tid: Tid, signal: i32, fd: i32) -> Option<u64> {
    const PEEKSIGINFO: u32 = 0x4209;
    const OF_PROCESS: u32 = 1;
    /// `struct ptrace_peeksiginfo_args`.
    #[repr(C)]
    struct Which {
        from: u64,
        flags: u32,
        count: i32,
    }
    const MOST: usize = 128;
    let mut waiting = 0;
    for flags in [0, OF_PROCESS] {
        let which = Which { from: 0, flags, count: MOST as i32 };
        let mut found = [[0u64; 16]; MOST];
        // SAFETY: the request reads the live struct and writes no more of what `siginfo_t` takes than it announces, into
        // a live array of as many.
        let got =
            unsafe { libc::ptrace(PEEKSIGINFO as RequestCode, tid, &raw const which, found.as_mut_ptr()) };
        // Where the request is not known, none are found.
        let found = &found[..usize::try_from(got).unwrap_or(0).min(MOST)];
        if found.len() == MOST {
            return None;
        }
        waiting +=
            found.iter().filter(|info| info[0] as i32 == signal && info[3] as i32 == fd).count() as u64;
    }
    Some(waiting)
}

/// The signals that a stopped tracee blocks, signal 1 in bit 0.
pub fn signal_mask(tid: Tid) -> Result<u64, Errno> {
    let mut mask = 0u64;
    // SAFETY: the request writes the eight bytes that are announced into a live word.
    check(unsafe { libc::ptrace(GETSIGMASK as RequestCode, tid, size_of::<u64>(), &raw mut mask) })?;
    Ok(mask)
}

/// Sets the signals that a stopped tracee blocks.
pub fn set_signal_mask(tid: Tid, mask: u64) -> Result<(), Errno> {
    // SAFETY: the request reads the eight bytes that are announced from a live word.
    check(unsafe { libc::ptrace(SETSIGMASK as RequestCode, tid, size_of::<u64>(), &raw const mask) })
        .map(drop)
}

const GETSIGMASK: u32 = 0x420a;
const SETSIGMASK: u32 = 0x420b;

/// A set of registers of a stopped tracee, as `core(5)` numbers them (`NT_PRSTATUS`, ...). Returns how
/// many bytes there are: fewer than `into` holds for a 32-bit program.
pub(crate) fn get_register_set(tid: Tid, which: i32, into: &mut [u64]) -> Result<usize, Errno> {
    let mut vector = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: size_of_val(into) };
    // SAFETY: the vector describes a live slice, of which the kernel writes no more than that.
    check(unsafe {
        libc::ptrace(libc::PTRACE_GETREGSET as RequestCode, tid, which as usize, &raw mut vector)
    })?;
    Ok(vector.iov_len)
}

/// Sets such a set; `bytes` as many as [`get_register_set`] told.
pub(crate) fn set_register_set(tid: Tid, which: i32, from: &[u64], bytes: usize) -> Result<(), Errno> {
    let len = bytes.min(size_of_val(from));
    let mut vector = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: len };
    // SAFETY: the vector describes a live slice, which the kernel only reads.
    check(unsafe {
        libc::ptrace(libc::PTRACE_SETREGSET as RequestCode, tid, which as usize, &raw mut vector)
    })
    .map(drop)
}

/// A word of a stopped tracee's memory.
pub(crate) fn peek(tid: Tid, addr: u64) -> Result<libc::c_long, Errno> {
    let mut word: libc::c_long = 0;
    // SAFETY: the system call (unlike the library's function) writes the word to a live word.
    check(unsafe {
        libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKDATA as usize, tid, addr as usize, &raw mut word)
    })?;
    Ok(word)
}

/// Sets a word of a stopped tracee's memory, also where it may only read.
pub(crate) fn poke(tid: Tid, addr: u64, word: libc::c_long) -> Result<(), Errno> {
    request(libc::PTRACE_POKEDATA as RequestCode, tid, addr as usize, word as usize).map(drop)
}

/// A word of the kernel's `struct user` of a stopped tracee.
#[cfg(target_arch = "x86_64")]
pub(crate) fn peek_user(tid: Tid, offset: usize) -> Result<u64, Errno> {
    let mut word = 0u64;
    // SAFETY: the system call (unlike the library's function) writes the word to a live word.
    check(unsafe {
        libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKUSER as usize, tid, offset, &raw mut word)
    })?;
    Ok(word)
}

/// Sets a word of it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn poke_user(tid: Tid, offset: usize, word: u64) -> Result<(), Errno> {
    request(libc::PTRACE_POKEUSER as RequestCode, tid, offset, word as usize).map(drop)
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Something happened to a tracee or child of this thread; it is still to be [taken](take), or to be
    /// ended by [`resume`].
    Happened {
        /// The thread.
        tid: Tid,
        /// It is dead: `/proc` shows its last numbers until it is taken.
        dead: bool,
        /// The cause of its stop, where that is told without taking it: not in gVisor.
        stop: Option<Status>,
    },
    /// A signal came in between.
    Interrupted,
    /// There are neither tracees nor children.
    Nobody,
    /// Nothing happened (asked without waiting).
    Nothing,
}

/// Waits for a tracee or a child *of this thread*, without taking the news.
pub fn wait(block: bool) -> Result<Waited, Errno> {
    let mut options = wait::WEXITED | wait::WSTOPPED | wait::WNOWAIT | wait::__WALL | wait::__WNOTHREAD;
    if !block {
        options |= wait::WNOHANG;
    }
    match wait::change(None, options) {
        Ok(Change { pid: 0, .. }) => Ok(Waited::Nothing),
        Ok(found) => {
            Ok(Waited::Happened { tid: found.pid, dead: tells_of_death(&found), stop: stop_in(&found) })
        }
        Err(Errno::EINTR) => Ok(Waited::Interrupted),
        Err(Errno::ECHILD) => Ok(Waited::Nobody),
        Err(errno) => Err(errno),
    }
}

/// The cause of a tracee's stop, from `waitid(2)`, if the stop needs not be taken. gVisor does not tell; and before the
/// stop after an exec is taken, Linux answers no request, as the thread may have another number now.
pub(crate) fn stop_in(found: &Change) -> Option<Status> {
    if found.code != wait::CLD_TRAPPED {
        return None;
    }
    let stop = decode(found.status << 8 | 0x7f);
    (stop != Status::Event(libc::PTRACE_EVENT_EXEC)).then_some(stop)
}

/// Whether `waitid(2)` told of an end. gVisor tells of stops as of deaths by a signal that there is not.
pub(crate) fn tells_of_death(found: &Change) -> bool {
    const STOPPED: i32 = 0x7f;
    match found.code {
        wait::CLD_EXITED => true,
        wait::CLD_KILLED | wait::CLD_DUMPED => found.status != STOPPED,
        _ => false,
    }
}

/// Takes the stop of a tracee, if waits tell of one still: it stays stopped, and they tell of others.
pub fn take_stop(tid: Tid) {
    let _ = wait::change(Some(tid), wait::WSTOPPED | wait::WNOHANG | wait::__WALL);
}

/// The stop of a thread, if it has stopped; the dead tell no more: `ESRCH`. It is taken where that is the only way to learn of it:
/// a tracee whose stop has been taken loses the signal at which it stopped, if its tracer is killed.
pub(crate) fn peek_stop(tid: Tid) -> Result<Option<Status>, Errno> {
    let options = wait::WEXITED | wait::WSTOPPED | wait::WNOWAIT | wait::WNOHANG | wait::__WALL;
    let found = wait::change(Some(tid), options)?;
    if tells_of_death(&found) {
        return Err(Errno::ESRCH);
    }
    stop_in(&found).map_or_else(|| take(tid), |stop| Ok(Some(stop)))
}

/// Takes the news of a thread, if any; the dead are gone thereafter.
pub fn take(tid: Tid) -> Result<Option<Status>, Errno> {
    Ok(wait::status(tid, wait::__WALL | wait::WNOHANG)?.map(decode))
}

/// [`take`] with the resources that the dead used, their process in all: for which Linux looks at each of its
/// threads.
pub fn take_with_usage(tid: Tid) -> Result<Option<(Status, Usage)>, Errno> {
    let taken = wait::status_and_usage(tid, wait::__WALL | wait::WNOHANG)?;
    Ok(taken.map(|(status, usage)| (decode(status), usage)))
}

/// Reads a wait status.
fn decode(status: i32) -> Status {
    if !libc::WIFSTOPPED(status) {
        return Status::Ended(status);
    }
    let signal = libc::WSTOPSIG(status);
    match (status >> 16, signal) {
        (0, signal) if signal == libc::SIGTRAP | 0x80 => Status::Syscall,
        (0, signal) => Status::Signal(signal),
        (EVENT_STOP, libc::SIGTRAP) => Status::Event(EVENT_STOP),
        (EVENT_STOP, signal) => Status::GroupStop(signal),
        (event, _) => Status::Event(event),
    }
}
