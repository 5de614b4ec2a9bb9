//! Who takes back what was put into processes when the tracer is killed: a process of its own, which waits for that
//! and nothing else.
//!
//! Linux lets tracees go when their tracer dies, with all traps that are in their text and all that their debug
//! registers watch; the next hit would end them. So there is a list of both in memory that the two processes
//! share. They share descriptors, too, as it may take the tracer's rights to open a tracee's memory.
//!
//! A tracee that is in a trap at that very moment is lost all the same, and so is one that is stepped.

use crate::debug;
use crate::ptrace::{self, Resume, Status, Tid};
use crate::remote;
use crate::text::{Original, TRAP};
use perfuse_abi::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// How many traps and threads the list has room for; more are not guarded.
const MOST: usize = 4096;

/// A trap, or a thread with debug registers.
#[repr(C)]
#[derive(Debug, Default)]
struct Entry {
    /// [`FREE`], [`TRAPPED`] or [`WATCHED`].
    kind: AtomicU32,
    /// The descriptor of the memory, or the thread.
    number: AtomicI32,
    addr: AtomicU64,
    original: AtomicU32,
}

const FREE: u32 = 0;
const TRAPPED: u32 = 1;
const WATCHED: u32 = 2;

/// The tracer's end.
#[derive(Debug)]
pub(super) struct Guardian {
    list: &'static [Entry],
    watched: BTreeSet<Tid>,
}

impl Guardian {
    /// Starts the process; `None` where it cannot be.
    pub(super) fn start() -> Option<Self> {
        let bytes = MOST * size_of::<Entry>();
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses the address, so no existing memory is touched.
        let list = unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, flags, -1, 0) };
        if list == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: just mapped, so large, aligned to pages, zeros, which are free entries, and never unmapped; the
        // fields are atomic, so that both processes may use them.
        let list = unsafe { std::slice::from_raw_parts(list.cast::<Entry>(), MOST) };
        // The same everywhere.
        const PIDFD_OPEN: libc::c_long = 434;
        // SAFETY: plain numbers.
        let tracer = unsafe { libc::syscall(PIDFD_OPEN, libc::getpid(), 0) } as RawFd;
        if tracer == -1 {
            return None;
        }
        // One in between, which ends at once: nobody waits for the grandchild.
        match fork_with_files() {
            0 => {
                if fork_with_files() == 0 {
                    guard(list, tracer);
                }
                // SAFETY: ends the process without running anything of this program.
                unsafe { libc::_exit(0) }
            }
            -1 => None,
            between => {
                // SAFETY: no status is asked for; it is our child.
                while unsafe { libc::waitpid(between, std::ptr::null_mut(), libc::__WALL) } == -1
                    && ptrace::last() == Errno::EINTR
                {}
                Some(Guardian { list, watched: BTreeSet::new() })
            }
        }
    }
}

fn add(list: &[Entry], kind: u32, number: i32, addr: u64, original: u32) {
    if let Some(entry) = list.iter().find(|entry| entry.kind.load(Ordering::Relaxed) == FREE) {
        entry.number.store(number, Ordering::Relaxed);
        entry.addr.store(addr, Ordering::Relaxed);
        entry.original.store(original, Ordering::Relaxed);
        entry.kind.store(kind, Ordering::Release);
    }
}

fn remove(list: &[Entry], kind: u32, number: i32) {
    for entry in list {
        let is_it = entry.kind.load(Ordering::Relaxed) == kind;
        if is_it && entry.number.load(Ordering::Relaxed) == number {
            entry.kind.store(FREE, Ordering::Release);
        }
    }
}

/// The memory of a process, whose traps are taken back if the tracer is killed. Not any longer once this is dropped.
#[derive(Debug)]
pub(super) struct Memory {
    file: File,
    list: &'static [Entry],
}

impl Memory {
    /// These traps are there, and no others.
    pub(super) fn set(&self, traps: impl Iterator<Item = (u64, Original)>) {
        let number = self.file.as_raw_fd();
        remove(self.list, TRAPPED, number);
        for (addr, original) in traps {
            let mut word = [0; 4];
            word[..original.len()].copy_from_slice(&original);
            add(self.list, TRAPPED, number, addr, u32::from_ne_bytes(word));
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        remove(self.list, TRAPPED, self.file.as_raw_fd());
    }
}

impl Guardian {
    /// For the traps in a process's memory; `None` where it cannot be opened.
    pub(super) fn memory(&self, pid: Tid) -> Option<Memory> {
        let file = File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).ok()?;
        Some(Memory { file, list: self.list })
    }

    /// Something is watched by a thread's debug registers, or no longer.
    pub(super) fn watches(&mut self, tid: Tid, any: bool) {
        if any && self.watched.insert(tid) {
            add(self.list, WATCHED, tid, 0, 0);
        } else if !any && self.watched.remove(&tid) {
            remove(self.list, WATCHED, tid);
        }
    }
}

/// `fork(2)`, but for descriptors, which both processes have in common. Nothing but system calls may be done by the
/// child, as other threads of this process may have held any lock.
fn fork_with_files() -> libc::pid_t {
    // SAFETY: the child has a copy of all memory, its stack among it; no pointers are given.
    unsafe {
        libc::syscall(libc::SYS_clone, libc::CLONE_FILES, 0usize, 0usize, 0usize, 0usize) as libc::pid_t
    }
}

/// Waits until the tracer has ended, and takes everything back.
fn guard(list: &[Entry], tracer: RawFd) -> ! {
    // SAFETY: plain numbers and a set of all signals that lives; what asks the tracer's group to end is none of ours.
    unsafe {
        libc::setsid();
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
    let mut ended = libc::pollfd { fd: tracer, events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to a live value. A wait that failed would take back what is needed: it is not left
    // before there is an answer.
    while unsafe { libc::poll(&raw mut ended, 1, -1) } < 1 {}
    let of = |kind: u32| list.iter().filter(move |entry| entry.kind.load(Ordering::Acquire) == kind);
    for entry in of(TRAPPED) {
        let (memory, addr) =
            (entry.number.load(Ordering::Relaxed), entry.addr.load(Ordering::Relaxed) as libc::off_t);
        let original = entry.original.load(Ordering::Relaxed).to_ne_bytes();
        let mut there = Original::default();
        let len = there.len();
        // SAFETY: both buffers are live and so long; who is gone has no memory to read.
        unsafe {
            if libc::pread(memory, there.as_mut_ptr().cast(), len, addr) == len as isize && there == TRAP {
                libc::pwrite(memory, original.as_ptr().cast(), len, addr);
            }
        }
    }
    for entry in of(WATCHED) {
        let tid = entry.number.load(Ordering::Relaxed);
        // Where that is refused, nothing can be done.
        let _ = disarm(tid);
    }
    // SAFETY: ends the process without running anything of this program.
    unsafe { libc::_exit(0) }
}

fn disarm(tid: Tid) -> Result<(), Errno> {
    ptrace::seize(tid, 0)?;
    ptrace::interrupt(tid)?;
    let signal = loop {
        match remote::wait_for(tid)? {
            Status::Event(ptrace::EVENT_STOP) => break 0,
            Status::Signal(libc::SIGTRAP) if debug::is_hit(tid) => break 0,
            Status::Signal(signal) => break signal,
            _ => ptrace::resume(tid, Resume::Continue(0))?,
        }
    };
    debug::arm(tid, &[])?;
    ptrace::detach(tid, signal)
}
