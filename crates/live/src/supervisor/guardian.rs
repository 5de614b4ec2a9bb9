//! Who takes back what was put into processes when the tracer is killed: a process of its own, which waits for that
//! and nothing else.
//!
//! Linux lets tracees go when their tracer dies, with all traps that are in their text and all that their debug
//! registers watch; the next hit would end them. So there is a list of both in a file in memory. The two processes
//! share their descriptors: that of the list, and those of the tracees' memory, as it may take the tracer's rights to
//! open it.
//!
//! A tracee that is in a trap at that very moment is lost all the same, and so is one that is stepped.

use crate::debug;
use crate::ptrace::{self, Resume, Status, Tid};
use crate::remote;
use crate::text::{Original, TRAP};
use perfuse_abi::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// A trap, or a thread with debug registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// [`FREE`], [`TRAPPED`] or [`WATCHED`].
    kind: u32,
    /// The descriptor of the memory, or the thread.
    number: i32,
    addr: u64,
    original: Original,
}

const FREE: u32 = 0;
const TRAPPED: u32 = 1;
const WATCHED: u32 = 2;

impl Entry {
    const BYTES: usize = 20;

    fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.addr.to_ne_bytes());
        bytes[16..16 + self.original.len()].copy_from_slice(&self.original);
        bytes
    }

    fn of(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| std::array::from_fn(|index| bytes[at + index]);
        Entry {
            kind: u32::from_ne_bytes(word(0)),
            number: i32::from_ne_bytes(word(4)),
            addr: u64::from_ne_bytes(bytes[8..16].try_into().unwrap_or_default()),
            original: std::array::from_fn(|index| bytes[16 + index]),
        }
    }
}

/// The list. What cannot be written, as there is no memory left, is not guarded.
#[derive(Debug)]
struct List {
    file: File,
    free: Vec<u64>,
    /// How many entries there are, free ones too.
    len: u64,
}

impl List {
    fn new() -> Option<Self> {
        // SAFETY: the name is NUL-terminated; the answer is an error or a fresh descriptor that nobody else has.
        let file = unsafe {
            let fd = libc::memfd_create(c"perfuse_guardian".as_ptr(), libc::MFD_CLOEXEC);
            (fd != -1).then(|| File::from(OwnedFd::from_raw_fd(fd)))?
        };
        Some(List { file, free: Vec::new(), len: 0 })
    }

    /// Its place.
    fn add(&mut self, entry: Entry) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.len += 1;
            self.len - 1
        });
        let _ = self.file.write_all_at(&entry.bytes(), place * Entry::BYTES as u64);
        place
    }

    fn remove(&mut self, place: u64) {
        let _ = self.file.write_all_at(&FREE.to_ne_bytes(), place * Entry::BYTES as u64);
        self.free.push(place);
    }
}

type SharedList = Arc<Mutex<List>>;

fn with<R>(list: &SharedList, act: impl FnOnce(&mut List) -> R) -> R {
    act(&mut list.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The tracer's end.
#[derive(Debug)]
pub(super) struct Guardian {
    list: SharedList,
    /// The places of threads.
    watched: BTreeMap<Tid, u64>,
}

impl Guardian {
    /// Starts the process; `None` where it cannot be.
    pub(super) fn start() -> Option<Self> {
        let list = List::new()?;
        // The same everywhere.
        const PIDFD_OPEN: libc::c_long = 434;
        // SAFETY: plain numbers.
        let tracer = unsafe { libc::syscall(PIDFD_OPEN, libc::getpid(), 0) } as RawFd;
        if tracer == -1 {
            return None;
        }
        let number = list.file.as_raw_fd();
        // One in between, which ends at once: nobody waits for the grandchild.
        match fork_with_files() {
            0 => {
                if fork_with_files() == 0 {
                    guard(number, tracer);
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
                Some(Guardian { list: Arc::new(Mutex::new(list)), watched: BTreeMap::new() })
            }
        }
    }
}

/// The memory of a process, whose traps are taken back if the tracer is killed. Not any longer once this is dropped.
#[derive(Debug)]
pub(super) struct Memory {
    file: File,
    list: SharedList,
    /// The traps, and their places.
    traps: Mutex<BTreeMap<u64, (Original, u64)>>,
}

impl Memory {
    /// These traps are there, and no others.
    pub(super) fn set(&self, traps: impl Iterator<Item = (u64, Original)>) {
        let wanted: BTreeMap<u64, Original> = traps.collect();
        let mut known = self.traps.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.file.as_raw_fd();
        with(&self.list, |list| {
            known.retain(|addr, (original, place)| {
                let stays = wanted.get(addr) == Some(original);
                if !stays {
                    list.remove(*place);
                }
                stays
            });
            for (addr, original) in wanted {
                let entry = Entry { kind: TRAPPED, number, addr, original };
                known.entry(addr).or_insert_with(|| (original, list.add(entry)));
            }
        });
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.set(std::iter::empty());
    }
}

impl Guardian {
    /// For the traps in a process's memory; `None` where it cannot be opened.
    pub(super) fn memory(&self, pid: Tid) -> Option<Memory> {
        let file = File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).ok()?;
        Some(Memory { file, list: self.list.clone(), traps: Mutex::default() })
    }

    /// Something is watched by a thread's debug registers, or no longer.
    pub(super) fn watches(&mut self, tid: Tid, any: bool) {
        with(&self.list, |list| match any {
            true => {
                let entry = Entry { kind: WATCHED, number: tid, addr: 0, original: Original::default() };
                self.watched.entry(tid).or_insert_with(|| list.add(entry));
            }
            false => drop(self.watched.remove(&tid).map(|place| list.remove(place))),
        });
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
fn guard(list: RawFd, tracer: RawFd) -> ! {
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
    for_each(list, |entry| match entry.kind {
        TRAPPED => {
            let (memory, addr) = (entry.number, entry.addr as libc::off_t);
            let mut there = Original::default();
            let len = there.len();
            // SAFETY: both buffers are live and so long; who is gone has no memory to read.
            unsafe {
                if libc::pread(memory, there.as_mut_ptr().cast(), len, addr) == len as isize && there == TRAP
                {
                    libc::pwrite(memory, entry.original.as_ptr().cast(), len, addr);
                }
            }
        }
        // Where that is refused, nothing can be done.
        WATCHED => drop(disarm(entry.number)),
        _ => {}
    });
    // SAFETY: ends the process without running anything of this program.
    unsafe { libc::_exit(0) }
}

/// Goes through a list, without memory of its own.
fn for_each(list: RawFd, mut act: impl FnMut(Entry)) {
    let mut bytes = [0; Entry::BYTES];
    let mut at: libc::off_t = 0;
    // SAFETY: the buffer is live and so long.
    while unsafe { libc::pread(list, bytes.as_mut_ptr().cast(), bytes.len(), at) } == bytes.len() as isize {
        act(Entry::of(&bytes));
        at += bytes.len() as libc::off_t;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(list: &SharedList) -> Vec<Entry> {
        let mut all = Vec::new();
        for_each(with(list, |list| list.file.as_raw_fd()), |entry| all.push(entry));
        all.retain(|entry| entry.kind != FREE);
        all.sort_by_key(|entry| entry.addr);
        all
    }

    #[test]
    fn all_traps_are_on_the_list() {
        let list: SharedList = Arc::new(Mutex::new(List::new().expect("a file in memory")));
        let file = || File::open("/dev/null").expect("there is one");
        let memory = || Memory { file: file(), list: list.clone(), traps: Mutex::default() };
        let (one, other) = (memory(), memory());
        let trap = |addr: u64| (addr, [addr as u8; TRAP.len()]);
        one.set((0..20_000).map(trap));
        other.set([trap(50_000)].into_iter());
        let entry = |memory: &Memory, addr| {
            let (addr, original) = trap(addr);
            Entry { kind: TRAPPED, number: memory.file.as_raw_fd(), addr, original }
        };
        let all: Vec<Entry> =
            (0..20_000).map(|addr| entry(&one, addr)).chain([entry(&other, 50_000)]).collect();
        assert_eq!(listed(&list), all);
        one.set((0..20_000).filter(|addr| addr % 1000 == 1).map(trap));
        assert_eq!(listed(&list).len(), 21);
        one.set([(1, [99; TRAP.len()])].into_iter());
        assert_eq!(listed(&list)[0].original, [99; TRAP.len()]);
        drop(one);
        assert_eq!(listed(&list), [entry(&other, 50_000)]);
        other.set((0..20_000).map(trap));
        assert_eq!(with(&list, |list| list.len), 20_001, "places are used again");
    }
}
