//! Rings in the memory of a tool: where they are mapped, and which calls about memory are answered otherwise for
//! them, as they are memory files of ours where Linux has memory of its own.

use super::calls::{Answer, caller, done};
use super::files::MappedRing;
use super::filter::RINGS;
use super::inject::{self, Injector, MapAt};
use super::{Intercept, Note, Process};
use crate::memory;
use crate::proc;
use crate::ptrace::{self, SignalInfo, Tid};
use crate::regs::Registers;
use crate::served::settle;
use crate::supervisor::Supervisor;
use perfuse_abi::Errno;
use perfuse_engine::{EventKey, MapRequest};
use std::os::fd::{AsFd, AsRawFd};

/// The arguments of `mmap`, as far as events and maps of BPF take or refuse them alike.
#[derive(Clone, Copy)]
pub(super) struct MapCall {
    pub(super) addr: u64,
    pub(super) len: u64,
    pub(super) prot: u64,
    pub(super) flags: u64,
    pub(super) offset: u64,
    pub(super) writable: bool,
    pub(super) shared: bool,
}

impl MapCall {
    /// `EINVAL` of no bytes and of a place within a page, `EPERM` of memory that is to be executed (rule F4).
    pub(super) fn of(registers: &Registers) -> Result<Self, Errno> {
        let [addr, len, prot, flags, _, offset] = [0, 1, 2, 3, 4, 5].map(|index| registers.argument(index));
        let offset = registers.width().offset(offset);
        if len == 0 || offset % perfuse_sys::page_size() as u64 != 0 {
            return Err(Errno::EINVAL);
        }
        if prot & libc::PROT_EXEC as u64 != 0 {
            return Err(Errno::EPERM);
        }
        let writable = prot & libc::PROT_WRITE as u64 != 0;
        let shared = flags & libc::MAP_TYPE as u64 != libc::MAP_PRIVATE as u64;
        Ok(MapCall { addr, len, prot, flags, offset, writable, shared })
    }

    /// The bytes of whole pages: `ENOMEM`.
    pub(super) fn whole(&self) -> Result<u64, Errno> {
        self.len.checked_next_multiple_of(perfuse_sys::page_size() as u64).ok_or(Errno::ENOMEM)
    }
}

impl Intercept {
    /// `mmap`: the thread is behind the call.
    pub(super) fn map(
        &mut self,
        supervisor: &Supervisor,
        tid: Tid,
        registers: &Registers,
        event: EventKey,
    ) -> Result<u64, Errno> {
        let call = MapCall::of(registers)?;
        let MapCall { addr, len, prot, flags, offset, writable, shared } = call;
        let page = perfuse_sys::page_size() as u64;
        let pages = call.whole()? / page;
        let request = MapRequest { pages: pages as usize, offset, shared, writable };
        let caller = caller(supervisor.shared(), tid)?;
        let memory = supervisor.machine().mmap(caller, event, request);
        self.tell_of_memory(memory.is_err());
        let memory = memory?;
        let process = self.process(tid);
        let place = MapAt::asked(registers.width(), addr, flags, process.free_place(pages * page));
        let fd = memory.as_fd().as_raw_fd();
        let mut injector = process.injector(tid, registers);
        let mapped = injector.map((fd, 0, libc::O_RDWR), len, prot, flags, place);
        match mapped {
            Ok(addr) => {
                let ring = MappedRing { event, len: pages * page, prot };
                // Rule F11. One that could be written, or that a child has too, is better than none.
                let _ =
                    injector.call(libc::SYS_madvise, [addr, ring.len, libc::MADV_DONTFORK as u64, 0, 0, 0]);
                let _ = ring.protect_data(&mut injector, addr);
                process.rings.insert(addr, ring);
                // A ring whose end is not heard of is better than none.
                let _ = process.watch(tid, registers, addr);
                if let (Some(open), true) = (self.table.get(event), writable) {
                    open.served.set_ring(Some(memory));
                }
                settle(&*supervisor.machine(), self, event);
            }
            Err(_) => supervisor.machine().munmap(event),
        }
        mapped
    }

    /// Memory for rings was refused: the user is told once, if there never is any.
    pub(super) fn tell_of_memory(&mut self, is_refused: bool) {
        if !is_refused || self.told_of_rings {
            return;
        }
        if let Err(errno) = memory::can_be_had() {
            self.told_of_rings = true;
            (self.on_note.0)(&Note::NoRings(errno));
        }
    }

    /// Memory is about to be unmapped, or something else mapped over it. Rings go as a whole, or not.
    pub(super) fn unmap(&mut self, supervisor: &Supervisor, tid: Tid, addr: u64, len: u64) -> Answer {
        let touched: Vec<(u64, bool)> = self.touched(tid, addr, len).collect();
        if touched.iter().any(|(_, whole)| !whole) {
            return Answer::With(Err(Errno::EINVAL));
        }
        let rings = &mut self.process(tid).rings;
        let gone: Vec<MappedRing> = touched.iter().filter_map(|(from, _)| rings.remove(from)).collect();
        for mapped in gone {
            self.unmapped(supervisor, mapped);
        }
        Answer::Pass
    }

    /// The rings that some memory has a part of: where they begin, and whether it is all of them.
    fn touched(&mut self, tid: Tid, addr: u64, len: u64) -> impl Iterator<Item = (u64, bool)> + '_ {
        let end = end_of(addr, len);
        let rings = self.process(tid).rings.range(..end);
        let touched = rings.filter(move |(from, mapped)| **from + mapped.len > addr);
        touched.map(move |(&from, mapped)| (from, from >= addr && from + mapped.len <= end))
    }

    /// `mprotect`: a ring cannot become code, and parts of it are not protected otherwise than the rest (rule F11).
    pub(super) fn reprotect(&mut self, tid: Tid, addr: u64, len: u64, prot: u64) -> Result<(), Errno> {
        let touched: Vec<(u64, bool)> = self.touched(tid, addr, len).collect();
        if !touched.is_empty() && prot & libc::PROT_EXEC as u64 != 0 {
            return Err(Errno::EACCES);
        }
        let rings = &mut self.process(tid).rings;
        for (from, whole) in touched {
            let Some(mapped) = rings.get_mut(&from) else { continue };
            if !whole && mapped.prot != prot {
                return Err(Errno::EINVAL);
            }
            mapped.prot = prot;
        }
        Ok(())
    }

    /// `mprotect` that lets memory be written: not the data of rings (rule F11).
    pub(super) fn make_writable(
        &mut self,
        supervisor: &Supervisor,
        tid: Tid,
        registers: &Registers,
        addr: u64,
        len: u64,
    ) -> Result<Answer, Errno> {
        let touched: Vec<u64> = self.touched(tid, addr, len).map(|(from, _)| from).collect();
        if touched.is_empty() {
            return Ok(Answer::Pass);
        }
        let answer = done(tid)?;
        self.stopped_again(supervisor, tid);
        let process = self.process(tid);
        for from in touched {
            let Some(&ring) = process.rings.get(&from) else { continue };
            let _ = ring.protect_data(&mut process.injector(tid, registers), from);
        }
        Ok(Answer::Done(answer))
    }

    /// Whether a SIGSEGV is about a store to the data of a ring, where Linux sends SIGBUS: tells it so.
    pub(super) fn is_store_to_data(&self, tid: Tid) -> bool {
        const ACCESS: i32 = 2;
        let Some(process) = self.threads.get(&tid).and_then(|pid| self.processes.get(pid)) else {
            return false;
        };
        let Ok(info) = ptrace::signal_info(tid) else { return false };
        let SignalInfo(mut words) = info;
        let addr = words[2];
        let Some((&from, ring)) = process.rings.range(..=addr).next_back() else { return false };
        let is =
            info.code() == ACCESS && ring.has_own_data() && (from + page()..from + ring.len).contains(&addr);
        // One that would not come would be raised again and again.
        if !is || !proc::gets_signal(tid, libc::SIGBUS) {
            return false;
        }
        // `BUS_ADRERR` is the same number.
        words[0] = libc::SIGBUS as u64;
        ptrace::set_signal_info(tid, &SignalInfo(words)).is_ok()
    }

    /// The refusal of calls that cannot be done with rings, as Linux has them in memory that is no file's, and our memory files would allow.
    pub(super) fn is_refused_by_rings(
        &mut self,
        tid: Tid,
        call: libc::c_long,
        addr: u64,
        len: u64,
        third: u64,
    ) -> Option<Errno> {
        const POPULATE: [i32; 2] = [22, 23];
        self.touched(tid, addr, len).next()?;
        let third = third as i32;
        match call {
            libc::SYS_madvise if third == libc::MADV_REMOVE => Some(Errno::ENODEV),
            libc::SYS_madvise => {
                let refused = [
                    libc::MADV_DONTNEED,
                    libc::MADV_DOFORK,
                    libc::MADV_DODUMP,
                    libc::MADV_COLD,
                    libc::MADV_PAGEOUT,
                ];
                (refused.contains(&third) || POPULATE.contains(&third)).then_some(Errno::EINVAL)
            }
            libc::SYS_msync => (third & libc::MS_SYNC != 0).then_some(Errno::EINVAL),
            _ => Some(Errno::EINVAL),
        }
    }

    /// `mremap`: a ring may move, but neither grow nor shrink.
    pub(super) fn remap(
        &mut self,
        supervisor: &mut Supervisor,
        tid: Tid,
        registers: &Registers,
    ) -> Result<Answer, Errno> {
        const DONT_UNMAP: u64 = 4;
        let [addr, old, new, flags] = [0, 1, 2, 3].map(|index| registers.argument(index));
        let [old, new] = [old, new].map(|len| end_of(0, len));
        if (old == 0 || flags & DONT_UNMAP != 0) && self.touched(tid, addr, old.max(1)).next().is_some() {
            return Ok(Answer::With(Err(if old == 0 { Errno::EFAULT } else { Errno::EINVAL })));
        }
        let rings = &self.process(tid).rings;
        let ring = rings.get(&addr).copied().filter(|mapped| mapped.len == old && old == new);
        if flags & libc::MREMAP_FIXED as u64 == 0 && ring.is_some() {
            return Ok(Answer::With(Ok(addr)));
        }
        if flags & libc::MREMAP_FIXED as u64 == 0 && new <= old {
            return Ok(self.unmap(supervisor, tid, addr.saturating_add(new), old - new));
        }
        let touched = self.touched(tid, addr, old).count();
        if touched == 0 {
            return Ok(Answer::Pass);
        }
        let Some(ring) = ring.filter(|_| touched == 1) else {
            return Ok(Answer::With(Err(if new > old { Errno::EFAULT } else { Errno::EINVAL })));
        };
        let to = registers.argument(4);
        if to < addr.saturating_add(old) && addr < to.saturating_add(old) {
            return Ok(Answer::With(Err(Errno::EINVAL)));
        }
        let answer = if ring.has_own_data() {
            inject::skip(tid, registers)?;
            ring.move_to(&mut self.process(tid).injector(tid, registers), addr, to, flags)
        } else {
            done(tid)?
        };
        self.stopped_again(supervisor, tid);
        if let Ok(to) = answer {
            let process = self.process(tid);
            if let Some(mapped) = process.rings.remove(&addr) {
                process.rings.insert(to, mapped);
            }
            process.watch(tid, registers, to)?;
        }
        Ok(Answer::Done(answer))
    }
}

fn page() -> u64 {
    perfuse_sys::page_size() as u64
}

impl MappedRing {
    /// Whether its data are mapped otherwise than its control page, which can be written.
    fn has_own_data(&self) -> bool {
        self.prot & libc::PROT_WRITE as u64 != 0 && self.len > page()
    }

    /// Its data can be read only. The thread is behind a system call.
    fn protect_data(&self, injector: &mut Injector<'_>, addr: u64) -> Result<(), Errno> {
        if !self.has_own_data() {
            return Ok(());
        }
        let prot = self.prot & !(libc::PROT_WRITE as u64);
        injector.call(libc::SYS_mprotect, [addr + page(), self.len - page(), prot, 0, 0, 0]).map(drop)
    }

    /// Moves it, both parts of it, as the flags of `mremap` say.
    fn move_to(&self, injector: &mut Injector<'_>, addr: u64, to: u64, flags: u64) -> Result<u64, Errno> {
        let mut part = |at: u64, len: u64| {
            injector.call(libc::SYS_mremap, [addr + at, len, len, flags, to.wrapping_add(at), 0])
        };
        part(0, page())?;
        part(page(), self.len - page())?;
        Ok(to)
    }
}

impl Process {
    /// Calls about memory near a ring are to be heard of. The thread is behind a system call.
    fn watch(&mut self, tid: Tid, registers: &Registers, addr: u64) -> Result<(), Errno> {
        let high = (addr >> 32) as u32;
        if !self.watched.insert(high) {
            return Ok(());
        }
        Injector::new(tid, registers, &mut self.remains).install(&inject::memory(high))
    }

    /// An address where a ring of so many bytes fits.
    fn free_place(&self, len: u64) -> u64 {
        let mut from = RINGS.start;
        for (&addr, mapped) in self.rings.range(RINGS) {
            if addr.saturating_sub(from) >= len {
                break;
            }
            from = addr + mapped.len;
        }
        from
    }
}

/// The end of memory of so many bytes, which is whole pages.
fn end_of(addr: u64, len: u64) -> u64 {
    let page = perfuse_sys::page_size() as u64;
    addr.saturating_add(len.checked_next_multiple_of(page).unwrap_or(u64::MAX))
}
