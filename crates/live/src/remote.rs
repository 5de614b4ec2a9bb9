//! The memory of other processes, and system calls done by a stopped tracee on our behalf.
//!
//! Memory is read with `process_vm_readv(2)`, where that is refused or unknown through `/proc/PID/mem`, and
//! as the last resort word by word with ptrace. What may have to be waited for is read by a thread of its own.

mod at_hand;
mod harbour;

pub(crate) use harbour::{Harbour, is_there as is_in_harbour, of as harbour_of};

use crate::proc;
use crate::ptrace::{self, Resume, Status, Tid};
use crate::regs::Registers;
use perfuse_abi::Errno;
use perfuse_sys::wait;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// `process_vm_*` answered that it is not for us.
static WITHOUT_PROCESS_VM: AtomicBool = AtomicBool::new(false);

/// Copies memory of a process. Returns how many bytes could be read from the start; `EFAULT` for none, and where nobody fills it.
pub fn read(tid: Tid, addr: u64, into: &mut [u8]) -> Result<usize, Errno> {
    // Only the thread that traces can read word by word.
    if WITHOUT_PROCESS_VM.load(Relaxed) || at_hand::bytes_at_hand(tid, addr, into.len(), false) == into.len()
    {
        return read_at_once(tid, addr, into);
    }
    let mut bytes = vec![0; into.len()];
    let bytes = at_hand::patiently(move || {
        let got = read_at_once(tid, addr, &mut bytes)?;
        bytes.truncate(got);
        Ok(bytes)
    })?;
    into[..bytes.len()].copy_from_slice(&bytes);
    Ok(bytes.len())
}

/// The same of the memory that is there, from its start on, as Linux copies stacks: it waits for no page.
pub(crate) fn read_present(tid: Tid, addr: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let there = at_hand::bytes_at_hand(tid, addr, into.len(), false);
    if there == 0 && !into.is_empty() {
        Err(Errno::EFAULT)
    } else {
        read_at_once(tid, addr, &mut into[..there])
    }
}

fn read_at_once(tid: Tid, addr: u64, into: &mut [u8]) -> Result<usize, Errno> {
    if into.is_empty() {
        return Ok(0);
    }
    if !WITHOUT_PROCESS_VM.load(Relaxed) {
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        // Pages of their own, as a read that is not wholly possible ends between two of them.
        let remote = pages(addr, into.len());
        let count = remote.len() as libc::c_ulong;
        // SAFETY: the local vector describes a live slice, which the kernel writes; the remote addresses
        // are another process's, and checked by the kernel.
        let got = unsafe { libc::process_vm_readv(tid, &raw const local, 1, remote.as_ptr(), count, 0) };
        match ptrace::last() {
            _ if got > 0 => return Ok(got as usize),
            Errno::ENOSYS | Errno::EPERM => WITHOUT_PROCESS_VM.store(true, Relaxed),
            errno => return Err(errno),
        }
    }
    let through_file = File::open(format!("/proc/{tid}/mem")).and_then(|file| file.read_at(into, addr));
    match through_file {
        Ok(got) if got > 0 => Ok(got),
        _ => read_words(tid, addr, into),
    }
}

/// A range cut at the boundaries of pages, the first 64 of them.
fn pages(addr: u64, len: usize) -> Vec<libc::iovec> {
    const PAGE: u64 = 4096;
    let end = addr.saturating_add(len as u64);
    let mut from = addr;
    let mut all = Vec::with_capacity(len / PAGE as usize + 2);
    while from < end && all.len() < 64 {
        let next = (from & !(PAGE - 1)).saturating_add(PAGE).min(end);
        all.push(libc::iovec { iov_base: from as *mut libc::c_void, iov_len: (next - from) as usize });
        from = next;
    }
    all
}

const WORD: usize = size_of::<libc::c_long>();

fn read_words(tid: Tid, addr: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let mut done = 0;
    while done < into.len() {
        let at = addr.wrapping_add(done as u64);
        let skip = (at % WORD as u64) as usize;
        let word = match ptrace::peek(tid, at - skip as u64) {
            Ok(word) => word.to_ne_bytes(),
            Err(_) if done > 0 => break,
            Err(errno) => return Err(if errno == Errno::EIO { Errno::EFAULT } else { errno }),
        };
        let part = &word[skip..];
        let len = part.len().min(into.len() - done);
        into[done..done + len].copy_from_slice(&part[..len]);
        done += len;
    }
    Ok(done)
}

/// Copies memory of a process, all of it: `EFAULT` where some is not there.
pub fn read_exact(tid: Tid, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < into.len() {
        match read(tid, addr.wrapping_add(done as u64), &mut into[done..])? {
            0 => return Err(Errno::EFAULT),
            got => done += got,
        }
    }
    Ok(())
}

/// Writes to the memory of a stopped tracee, also where it may only read.
pub fn write(tid: Tid, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
    match write_through_process_vm(tid, addr, bytes) {
        Ok(()) => Ok(()),
        Err(_) => write_words(tid, addr, bytes),
    }
}

/// Writes to the memory of a stopped tracee, where it may itself: `EFAULT`.
pub(crate) fn write_as_program(tid: Tid, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
    match write_through_process_vm(tid, addr, bytes) {
        Err(Errno::ENOSYS | Errno::EPERM) if may_write(tid, addr, bytes.len()) => {
            write_words(tid, addr, bytes)
        }
        written => written,
    }
}

/// Whether a process may write there itself. Where that is not shown, it may.
fn may_write(tid: Tid, addr: u64, len: usize) -> bool {
    const PROT_WRITE: u32 = 2;
    let maps = proc::maps(tid);
    let writable = maps.iter().filter(|map| map.prot & PROT_WRITE != 0);
    let end = addr.saturating_add(len as u64);
    let reached = writable.fold(addr, |at, map| if (map.from..map.to).contains(&at) { map.to } else { at });
    maps.is_empty() || reached >= end
}

fn write_through_process_vm(tid: Tid, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
    if bytes.is_empty() {
        return Ok(());
    }
    if WITHOUT_PROCESS_VM.load(Relaxed) {
        return Err(Errno::ENOSYS);
    }
    if at_hand::bytes_at_hand(tid, addr, bytes.len(), true) < bytes.len() {
        let bytes = bytes.to_vec();
        return at_hand::patiently(move || write_at_once(tid, addr, &bytes));
    }
    write_at_once(tid, addr, bytes)
}

fn write_at_once(tid: Tid, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: addr as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the local vector describes a live slice, which the kernel only reads; the remote address
    // is another process's, and checked by the kernel.
    match unsafe { libc::process_vm_writev(tid, &raw const local, 1, &raw const remote, 1, 0) } {
        -1 => Err(ptrace::last()),
        put if put == bytes.len() as isize => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

/// Word by word, which also changes what the tracee itself may only read.
fn write_words(tid: Tid, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        let at = addr.wrapping_add(done as u64);
        let skip = (at % WORD as u64) as usize;
        let len = (WORD - skip).min(bytes.len() - done);
        let mut word = [0; WORD];
        if len < WORD {
            word = ptrace::peek(tid, at - skip as u64)?.to_ne_bytes();
        }
        word[skip..skip + len].copy_from_slice(&bytes[done..done + len]);
        ptrace::poke(tid, at - skip as u64, libc::c_long::from_ne_bytes(word))?;
        done += len;
    }
    Ok(())
}

/// Where an instruction stands in code, given that it begins at a multiple of its own alignment.
pub(crate) fn find_instruction(code: &[u8], instruction: &[u8]) -> Option<usize> {
    let step = if cfg!(target_arch = "aarch64") { 4 } else { 1 };
    (0..code.len()).step_by(step).find(|&at| code[at..].starts_with(instruction))
}

/// Where the system call instruction of a stopped tracee's program stands: in its vdso. `ENOEXEC` where there is none.
pub fn syscall_site(tid: Tid) -> Result<u64, Errno> {
    let instruction = Registers::of(tid)?.call_instruction();
    let maps = perfuse_proc::read::maps(tid as u32).map_err(|_| Errno::ESRCH)?;
    let vdso = perfuse_proc::maps(&maps).find(|map| map.name == b"[vdso]").ok_or(Errno::ENOEXEC)?;
    let (from, to) = (vdso.start, vdso.end);
    let mut code = vec![0; (to - from) as usize];
    read_exact(tid, from, &mut code)?;
    find_instruction(&code, instruction).map(|at| from + at as u64).ok_or(Errno::ENOEXEC)
}

/// A tracee that does something for us while other signals wait. Its mask is as before once this is dropped, and what
/// could not wait is told again.
#[derive(Debug)]
struct MaskedSignals {
    tid: Tid,
    mask: u64,
    /// Signals that came nevertheless.
    aside: Vec<i32>,
    /// How often it has been stopped.
    stops: u64,
}

/// A tracee that is stopped so often without getting further is left alone: another process stops it faster than it
/// is resumed.
const MOST_STOPS: usize = 256;

impl MaskedSignals {
    /// `mask`: what it blocks meanwhile, made from what it blocks now.
    fn begin(tid: Tid, mask: impl Fn(u64) -> u64) -> Result<Self, Errno> {
        let before = ptrace::signal_mask(tid)?;
        ptrace::set_signal_mask(tid, mask(before))?;
        Ok(MaskedSignals { tid, mask: before, aside: Vec::new(), stops: 0 })
    }

    /// On to such a stop.
    fn until(&mut self, how: Resume, stop: Status) -> Result<(), Errno> {
        for _ in 0..MOST_STOPS {
            ptrace::resume(self.tid, how)?;
            self.stops += 1;
            match wait_for(self.tid)? {
                status if status == stop => return Ok(()),
                Status::Event(_) | Status::GroupStop(_) | Status::Syscall => {}
                Status::Signal(signal) if is_sent(self.tid) => {
                    if !self.aside.contains(&signal) {
                        self.aside.push(signal);
                    }
                }
                // The last step for a tracer that was killed.
                Status::Signal(libc::SIGTRAP) => {}
                Status::Signal(_) => return Err(Errno::ENOEXEC),
                Status::Ended(_) => return Err(Errno::ESRCH),
            }
        }
        Err(Errno::EINTR)
    }

    /// On to the next trap, or to a signal that the instruction where it stands has raised, at whose delivery it is
    /// stopped then. `EINTR`: it was stopped again and again before it could.
    fn until_trap(&mut self, how: Resume) -> Result<Option<i32>, Errno> {
        for _ in 0..MOST_STOPS {
            ptrace::resume(self.tid, how)?;
            self.stops += 1;
            match wait_for(self.tid)? {
                // A stop of the whole process, which is told again once signals can come.
                Status::Event(_) | Status::GroupStop(_) | Status::Syscall => {}
                Status::Signal(signal) if is_sent(self.tid) => {
                    if !self.aside.contains(&signal) {
                        self.aside.push(signal);
                    }
                }
                Status::Signal(libc::SIGTRAP) => return Ok(None),
                Status::Signal(signal) => return Ok(Some(signal)),
                Status::Ended(_) => return Err(Errno::ESRCH),
            }
        }
        Err(Errno::EINTR)
    }
}

impl Drop for MaskedSignals {
    fn drop(&mut self) {
        // One that was killed meanwhile needs neither.
        let _ = ptrace::set_signal_mask(self.tid, self.mask);
        for &signal in &self.aside {
            // SAFETY: plain numbers; the thread is our tracee, whose end has not been taken.
            unsafe { libc::syscall(libc::SYS_tkill, self.tid, signal) };
        }
    }
}

/// Whether the signal at whose delivery a tracee is stopped comes from a program: not from what it did itself.
fn is_sent(tid: Tid) -> bool {
    ptrace::signal_info(tid).is_ok_and(|info| {
        // On arm64 the trap at the end of a call looks like one without a sender.
        let nobody = cfg!(target_arch = "aarch64")
            && info.code() == libc::SI_USER
            && info.sender() == 0
            && info.signal() == libc::SIGTRAP;
        info.code() <= 0 && !nobody
    })
}

/// System calls done by a tracee, which is stopped where it could go on in user space: at the delivery of a
/// signal, at an interrupt, at the exit of a system call; not in the middle of one (the events of fork and
/// exec). Its registers are as before once this is dropped, and it is stopped still, so that those who
/// waited for its stop need not know.
#[derive(Debug)]
pub struct Calls {
    site: u64,
    /// Where it waits if it loses its tracer.
    rest: Option<u64>,
    /// It has done one, after which it waits there.
    rests: bool,
    /// What lay in its [slot](Registers::return_slot).
    slot: Option<(u64, [u8; 8])>,
    before: Registers,
    thread: MaskedSignals,
}

impl Calls {
    /// `site`: where the system call instruction stands. `ESRCH`: it died.
    pub fn begin(tid: Tid, site: u64) -> Result<Self, Errno> {
        let before = Registers::of(tid)?;
        // The trap of the single step is forced, and must not be blocked.
        let thread = MaskedSignals::begin(tid, |_| !(1 << (libc::SIGTRAP - 1)))?;
        Ok(Calls { site, rest: None, rests: false, slot: None, before, thread })
    }

    /// Those of a thread that may lose its tracer meanwhile: whoever has told a guardian of its registers and of the signals that it
    /// blocks can leave it alone at any time. It is stopped by an interrupt once this is dropped.
    pub(crate) fn begin_in(tid: Tid, harbour: Harbour) -> Result<Self, Errno> {
        let mut calls = Calls::begin(tid, harbour.call)?;
        if let Some(at) = calls.before.return_slot() {
            let mut there = [0; 8];
            read_exact(tid, at, &mut there)?;
            calls.slot = Some((at, there));
            write(tid, at, &harbour.rest.to_le_bytes())?;
        }
        calls.rest = Some(harbour.rest);
        Ok(calls)
    }

    /// How often the tracee has been stopped for these calls, each of which is a switch to the kernel.
    pub(crate) fn stops(&self) -> u64 {
        self.thread.stops
    }

    /// One call. The answer is its, or its errno; arguments in memory are as wide as the program.
    pub fn call(&mut self, call: libc::c_long, arguments: [u64; 6]) -> Result<u64, Errno> {
        let tid = self.thread.tid;
        let registers = self.before.calling(self.site, call, arguments)?;
        if let Some(rest) = self.rest {
            registers.returning_to(rest).give(tid)?;
            self.rests = true;
            // To its entry, and to its exit. A single step would end in a signal if there were no tracer by then.
            for _ in 0..2 {
                self.thread.until(Resume::Syscall(0), Status::Syscall)?;
            }
            return Registers::of(tid)?.answer();
        }
        registers.give(tid)?;
        if self.thread.until_trap(Resume::Step(0))?.is_some() {
            // There is no such instruction at the site.
            return Err(Errno::ENOEXEC);
        }
        Registers::of(tid)?.answer()
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        if self.rests {
            // A call of the program's own begins again after an interrupt, and not behind a call.
            let tid = self.thread.tid;
            let _ = ptrace::interrupt(tid);
            let _ = self.thread.until(Resume::Continue(0), Status::Event(ptrace::EVENT_STOP));
        }
        // One that was killed meanwhile needs none.
        if let Some((at, there)) = self.slot {
            let _ = write(self.thread.tid, at, &there);
        }
        let _ = self.before.give(self.thread.tid);
    }
}

/// A tracee, stopped outside of any system call, does the next instruction, which is none that calls the
/// system. Signals come thereafter; the answer is one that the instruction has raised instead of being done, at whose
/// delivery the tracee is stopped. `ESRCH`: it died.
pub(crate) fn step(tid: Tid) -> Result<Option<i32>, Errno> {
    undisturbed(tid, Resume::Step(0))
}

/// The same up to a trap that has been set for it.
#[cfg(target_arch = "aarch64")]
pub(crate) fn run(tid: Tid) -> Result<Option<i32>, Errno> {
    undisturbed(tid, Resume::Continue(0))
}

fn undisturbed(tid: Tid, how: Resume) -> Result<Option<i32>, Errno> {
    // A signal of the instruction itself is forced, and must find its handler.
    const FAULTS: u64 = 1 << (libc::SIGTRAP - 1)
        | 1 << (libc::SIGSEGV - 1)
        | 1 << (libc::SIGBUS - 1)
        | 1 << (libc::SIGFPE - 1)
        | 1 << (libc::SIGILL - 1);
    MaskedSignals::begin(tid, |mask| !FAULTS | mask & FAULTS & !(1 << (libc::SIGTRAP - 1)))?.until_trap(how)
}

/// Waits for the next stop of one tracee, which is taken or has to be ended by
/// [`resume`](ptrace::resume). The dead are not taken: `ESRCH`.
pub fn wait_for(tid: Tid) -> Result<Status, Errno> {
    loop {
        let options = wait::WEXITED | wait::WSTOPPED | wait::WNOWAIT | wait::__WALL;
        let found = match wait::change(Some(tid), options) {
            Ok(found) => found,
            Err(Errno::EINTR) => continue,
            Err(_) => return Err(Errno::ESRCH),
        };
        if ptrace::tells_of_death(&found) {
            return Err(Errno::ESRCH);
        }
        if let Some(status) =
            ptrace::stop_in(&found).map_or_else(|| ptrace::take(tid), |stop| Ok(Some(stop)))?
        {
            return Ok(status);
        }
    }
}
