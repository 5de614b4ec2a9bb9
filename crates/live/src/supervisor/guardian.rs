//! The guardian: a process that waits for the end of the tracer, and takes traps and breakpoints back from processes if that was
//! killed.
//!
//! Linux lets tracees go when their tracer dies, with all traps that are in their text and all that their debug
//! registers watch; the next hit would end them. So there is a list of both in a file in memory. The two processes
//! share their descriptors: that of the list, and those of the tracees' memory, as it may take the tracer's rights to
//! open it.
//!
//! A call of a tracee that does the rest of another one is told from a list of its own: its answer becomes that of both. A tracee that
//! was doing calls for us waits until it gets its registers back, which are on a third list.
//!
//! All that takes a while. What comes before it, the [handlers](crate::handler) of the tracees see to.

use crate::debug;
use crate::ptrace::{self, Resume, Status, Tid};
use crate::regs::{Registers, WORDS};
use crate::remote;
use crate::text::{Original, TRAP};
use perfuse_abi::Errno;
use perfuse_sys::{file, memfd, pidfd, poll, process, signal, wait};
use std::collections::BTreeMap;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
    const FREE: [u8; Self::BYTES] = [0; Self::BYTES];

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

/// Registers behind a call whose rest is being done, and the part that has been done before it: the thread, that
/// number, and the registers. No thread has the number 0.
const PART_WORDS: usize = 2 + WORDS;

/// A list, of entries of one size. An entry for which there is no memory is not guarded.
#[derive(Debug)]
struct List {
    file: File,
    free: Vec<u64>,
    /// How many entries there are, free ones too.
    len: u64,
}

impl List {
    fn new() -> Option<Self> {
        let file = memfd::create(c"perfuse_guardian").ok()?;
        Some(List { file: file.into(), free: Vec::new(), len: 0 })
    }

    /// Its place.
    fn add(&mut self, entry: &[u8]) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.len += 1;
            self.len - 1
        });
        let _ = self.file.write_all_at(entry, place * entry.len() as u64);
        place
    }

    /// `free`: an entry that is none.
    fn remove(&mut self, place: u64, free: &[u8]) {
        let _ = self.file.write_all_at(free, place * free.len() as u64);
        self.free.push(place);
    }
}

/// One could not be started.
static MISSING: AtomicBool = AtomicBool::new(false);

/// Whether something that has to be taken back was put into processes of others, and no guardian could be started to
/// do that if this process is killed. Told once.
pub fn take_unguarded() -> bool {
    MISSING.swap(false, Relaxed)
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
    parts: List,
    /// Places there.
    transfers: BTreeMap<Tid, u64>,
    /// Threads that do calls for us: entries like those of the parts, with the signals that they block.
    calls: List,
}

impl Guardian {
    /// Starts the process; `None` where it cannot be, which is [told](take_unguarded).
    pub(super) fn start() -> Option<Self> {
        let started = Self::try_to_start();
        if started.is_none() {
            MISSING.store(true, Relaxed);
        }
        started
    }

    fn try_to_start() -> Option<Self> {
        let (list, parts, calls) = (List::new()?, List::new()?, List::new()?);
        // The guardian's: it stays open here.
        let tracer = ManuallyDrop::new(pidfd::open(std::process::id() as Tid).ok()?);
        // One in between, which ends at once: so the grandchild has no parent that waits for it.
        // SAFETY: both children make system calls alone, and end with one.
        match unsafe { process::fork_with_files() }.ok()? {
            0 => {
                // SAFETY: as above.
                if unsafe { process::fork_with_files() } == Ok(0) {
                    guard(list.file.as_fd(), parts.file.as_fd(), calls.file.as_fd(), tracer.as_fd());
                }
                process::end(0)
            }
            between => {
                while wait::status(between, wait::__WALL) == Err(Errno::EINTR) {}
                let (watched, transfers) = (BTreeMap::new(), BTreeMap::new());
                Some(Guardian { list: Arc::new(Mutex::new(list)), watched, parts, transfers, calls })
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
                    list.remove(*place, &Entry::FREE);
                }
                stays
            });
            for (addr, original) in wanted {
                let entry = Entry { kind: TRAPPED, number, addr, original };
                known.entry(addr).or_insert_with(|| (original, list.add(&entry.bytes())));
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
                self.watched.entry(tid).or_insert_with(|| list.add(&entry.bytes()));
            }
            false => drop(self.watched.remove(&tid).map(|place| list.remove(place, &Entry::FREE))),
        });
    }
}

impl Guardian {
    /// A thread does the rest of a call of which so much is done, with these registers behind it; or it is over.
    pub(super) fn transfers(&mut self, tid: Tid, part: Option<(u64, &Registers)>) {
        self.parts.set_thread(&mut self.transfers, tid, part);
    }

    /// A thread does calls for us, which has these registers and blocks these signals otherwise; the answer is for [`called`](Self::called).
    pub(super) fn calls(&mut self, tid: Tid, mask: u64, before: &Registers) -> u64 {
        self.calls.add(&thread_bytes(tid, mask, before))
    }

    /// It has done them.
    pub(super) fn called(&mut self, place: u64) {
        self.calls.remove(place, &[0; THREAD_BYTES]);
    }
}

const THREAD_BYTES: usize = 8 * PART_WORDS;

/// The entry of a thread.
fn thread_bytes(tid: Tid, number: u64, registers: &Registers) -> [u8; THREAD_BYTES] {
    let words = [tid as u64, number].into_iter().chain(*registers.words());
    let mut bytes = [0; THREAD_BYTES];
    bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_ne_bytes()));
    bytes
}

impl List {
    fn set_thread(&mut self, places: &mut BTreeMap<Tid, u64>, tid: Tid, entry: Option<(u64, &Registers)>) {
        match entry {
            Some((number, registers)) => {
                let bytes = thread_bytes(tid, number, registers);
                match places.get(&tid) {
                    Some(place) => drop(self.file.write_all_at(&bytes, place * THREAD_BYTES as u64)),
                    None => drop(places.insert(tid, self.add(&bytes))),
                }
            }
            None => drop(places.remove(&tid).map(|place| self.remove(place, &[0; THREAD_BYTES]))),
        }
    }
}

/// Waits until the tracer has ended, and takes everything back. In a process of its own, which may do nothing but system
/// calls.
fn guard(list: BorrowedFd<'_>, parts: BorrowedFd<'_>, calls: BorrowedFd<'_>, tracer: BorrowedFd<'_>) -> ! {
    // A request to the tracer's group to end is none of ours.
    process::lead_session();
    signal::block_all();
    poll::wait_for(tracer);
    // Threads first, which cannot wait. Those that are gone need nothing.
    for_each_thread(calls, |tid, mask, before| {
        let _ = give_back(tid, mask, before);
    });
    for_each_thread(parts, |tid, done, behind| {
        let _ = answer(tid, done, behind);
    });
    for_each(list, |bytes| match Entry::of(bytes) {
        entry if entry.kind == FREE => {}
        entry => take_back(entry),
    });
    process::end(0)
}

fn for_each_thread(list: BorrowedFd<'_>, mut act: impl FnMut(Tid, u64, [u64; WORDS])) {
    for_each(list, |bytes: &[u8; 8 * PART_WORDS]| {
        let word = |index: usize| u64::from_ne_bytes(std::array::from_fn(|at| bytes[8 * index + at]));
        if word(0) != 0 {
            act(word(0) as Tid, word(1), std::array::from_fn(|index| word(2 + index)));
        }
    });
}

fn take_back(entry: Entry) {
    match entry.kind {
        TRAPPED => {
            let mut there = Original::default();
            // A process that is gone has no memory to read.
            if file::read_exact_at(entry.number, &mut there, entry.addr) && there == TRAP {
                let _ = file::write_all_at(entry.number, &entry.original, entry.addr);
            }
        }
        // Where that is refused, nothing can be done.
        WATCHED => drop(disarm(entry.number)),
        _ => {}
    }
}

/// Goes through a list of entries of a size, without memory of its own.
fn for_each<const BYTES: usize>(list: BorrowedFd<'_>, mut act: impl FnMut(&[u8; BYTES])) {
    let mut bytes = [0; BYTES];
    let mut at = 0;
    while file::read_exact_at(list.as_raw_fd(), &mut bytes, at) {
        act(&bytes);
        at += BYTES as u64;
    }
}

/// Stops a thread that has no tracer. The signal that it is to get when it goes on, 0 for none.
fn stop(tid: Tid) -> Result<i32, Errno> {
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
    Ok(signal)
}

fn disarm(tid: Tid) -> Result<(), Errno> {
    let signal = stop(tid)?;
    debug::arm(tid, &[])?;
    ptrace::detach(tid, signal)
}

/// A thread that did calls for us goes on where it stood before.
fn give_back(tid: Tid, mask: u64, before: [u64; WORDS]) -> Result<(), Errno> {
    let signal = stop(tid)?;
    let registers = Registers::of(tid)?;
    // It may not have left yet, or be back.
    if remote::is_in_harbour(tid, registers.ip()) {
        registers.with_words(before).give(tid)?;
    }
    ptrace::set_signal_mask(tid, mask)?;
    ptrace::detach(tid, signal)
}

/// Ends the rest of a thread's call, of which so much had been done before.
fn answer(tid: Tid, done: u64, behind: [u64; WORDS]) -> Result<(), Errno> {
    let signal = stop(tid)?;
    let registers = Registers::of(tid)?;
    let mut behind = registers.with_words(behind);
    // If it has gone on nothing can be done.
    if registers.stack() == behind.stack()
        && registers.ip() <= behind.ip()
        && behind.ip() - registers.ip() <= 4
    {
        let did = if registers.ip() == behind.ip() { registers.result().max(0) } else { 0 };
        behind.set_result(done as i64 + did);
        behind.give(tid)?;
    }
    ptrace::detach(tid, signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(list: &SharedList) -> Vec<Entry> {
        let mut all = Vec::new();
        with(list, |list| for_each(list.file.as_fd(), |bytes| all.push(Entry::of(bytes))));
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
