//! Injected system calls, which a stopped tool does for the supervisor, with arguments in a page of the tool's own.

use super::fd_passing;
use super::filter::{self, Program};
use crate::proc;
use crate::ptrace::{self, Resume, Status, Tid};
use crate::regs::{Registers, Width};
use crate::remote;
use perfuse_abi::Errno;
use perfuse_sys::limits::{self, Limit};
use std::os::fd::RawFd;

/// Bytes of the page.
const ROOM: u64 = 4096;

/// `MAP_32BIT`: below 2 GiB.
const LOW: i32 = 0x40;

/// `MAP_FIXED_NOREPLACE`.
const NOT_OVER_OTHERS: i32 = 0x10_0000;

/// The traces that calls for us have left in a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Remains {
    /// A page for arguments.
    page: Option<u64>,
    /// Stops that nobody has been told of.
    stops: u64,
}

impl Remains {
    /// In the memory of a child that is a copy of this one's.
    pub(super) fn of_child(self) -> Self {
        Remains { stops: 0, ..self }
    }

    /// Its memory is gone.
    pub(super) fn forget_page(&mut self) {
        self.page = None;
    }

    /// How often threads have been stopped since this was asked last.
    pub(super) fn take_stops(&mut self) -> u64 {
        std::mem::take(&mut self.stops)
    }
}

/// A thread that is stopped where it can do system calls for us.
#[derive(Debug)]
pub(super) struct Injector<'a> {
    tid: Tid,
    /// The address of an instruction that calls the system, as the program does; `None`: it is to be found.
    site: Option<u64>,
    /// It is a 32-bit program.
    narrow: bool,
    remains: &'a mut Remains,
    /// Once there was a call.
    calls: Option<remote::Calls>,
    /// Its `/proc` is not this process's.
    outside: bool,
}

/// `SECCOMP_SET_MODE_FILTER` and `SECCOMP_FILTER_FLAG_TSYNC`.
const SET_FILTER: u64 = 1;
const ALL_THREADS: u64 = 1;

impl<'a> Injector<'a> {
    /// Those of a thread that is right behind a system call, with these registers.
    pub(super) fn new(tid: Tid, registers: &Registers, remains: &'a mut Remains) -> Self {
        let narrow = registers.is_narrow();
        // The instruction of a narrow call in a wide program is of the other kind.
        let own = narrow == (registers.width() == Width::Narrow);
        let site = own.then(|| registers.ip() - registers.call_instruction().len() as u64);
        Injector { tid, site, narrow, remains, calls: None, outside: false }
    }

    /// Those of a thread in another pid namespace than this process, if so.
    pub(super) fn outside(self, outside: bool) -> Self {
        Injector { outside, ..self }
    }

    pub(super) fn tid(&self) -> Tid {
        self.tid
    }

    pub(super) fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// Those of a thread whose program has just been replaced, at the end of that call.
    pub(super) fn of_new_program(tid: Tid, remains: &'a mut Remains) -> Result<Self, Errno> {
        let narrow = Registers::of(tid)?.is_narrow();
        Ok(Injector { tid, site: None, narrow, remains, calls: None, outside: false })
    }

    pub(super) fn call(&mut self, call: libc::c_long, arguments: [u64; 6]) -> Result<u64, Errno> {
        let calls = match &mut self.calls {
            Some(calls) => calls,
            none => {
                let site = match self.site {
                    Some(site) => site,
                    None => remote::syscall_site(self.tid).or_else(|_| site_near(self.tid))?,
                };
                none.insert(remote::Calls::begin(self.tid, site)?)
            }
        };
        let before = calls.stops();
        let answer = calls.call(call, arguments);
        self.remains.stops += calls.stops() - before;
        answer
    }

    /// Puts bytes where the thread's system calls can read them.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<u64, Errno> {
        debug_assert!(bytes.len() as u64 <= ROOM, "what is put is short");
        let page = match self.remains.page {
            Some(page) => page,
            None => {
                let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
                let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
                let page = self.call(libc::SYS_mmap, [0, ROOM, prot, flags, u64::MAX, 0])?;
                self.remains.page = Some(page);
                page
            }
        };
        remote::write(self.tid, page, bytes)?;
        Ok(page)
    }

    /// Promises the kernel never to gain rights by exec, without which filters are for root alone.
    pub(super) fn renounce_privileges(&mut self) -> Result<(), Errno> {
        self.call(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0, 0]).map(drop)
    }

    /// Puts a filter on all threads of the process.
    pub(super) fn install(&mut self, program: &Program) -> Result<(), Errno> {
        let page = self.put_filter(program)?;
        match self.call(libc::SYS_seccomp, [SET_FILTER, ALL_THREADS, page, 0, 0, 0])? {
            0 => Ok(()),
            // Threads with filters of their own: at least this one.
            _ => self.call(libc::SYS_seccomp, [SET_FILTER, 0, page, 0, 0, 0]).map(drop),
        }
    }

    /// The same with a listener, whose descriptor is the answer: `EINVAL` before Linux 5.19, `EBUSY` where
    /// another filter has one, `ESRCH` for threads with filters of their own.
    pub(super) fn install_with_listener(&mut self, program: &Program) -> Result<u64, Errno> {
        // Calls that are being answered are not begun again because of a signal.
        const WAIT_KILLABLE: u64 = 32;
        const LISTENER: u64 = 8;
        const OR_ESRCH: u64 = 16;
        let page = self.put_filter(program)?;
        let flags = ALL_THREADS | OR_ESRCH | LISTENER | WAIT_KILLABLE;
        self.call(libc::SYS_seccomp, [SET_FILTER, flags, page, 0, 0, 0])
    }

    /// The address of the filter's `struct sock_fprog`.
    fn put_filter(&mut self, program: &Program) -> Result<u64, Errno> {
        // struct sock_fprog: a number, padding, a pointer; the program follows it.
        let pointer = if self.narrow { 4 } else { 8 };
        let header = 2 * pointer;
        let mut bytes = (program.len() as u64).to_le_bytes().to_vec();
        bytes.resize(header, 0);
        for step in program {
            bytes.extend(step.code.to_ne_bytes());
            bytes.extend([step.jt, step.jf]);
            bytes.extend(step.k.to_ne_bytes());
        }
        let page = self.put(&bytes)?;
        // Both architectures are little-endian.
        bytes[pointer..header].copy_from_slice(&(page + header as u64).to_le_bytes()[..pointer]);
        self.put(&bytes[..header])
    }

    /// Opens the file of the supervisor's descriptor `fd`. The tool may not be allowed to, or see another `/proc`;
    /// what it opens then is its own affair.
    pub(super) fn open(&mut self, fd: RawFd, flags: i32) -> Result<u64, Errno> {
        if self.outside {
            return fd_passing::pass(self, fd, flags);
        }
        let path = format!("/proc/{}/fd/{fd}\0", std::process::id());
        let path = self.put(path.as_bytes())?;
        match self.call(libc::SYS_openat, [libc::AT_FDCWD as u64, path, flags as u64, 0, 0, 0]) {
            Err(errno) if ![Errno::EMFILE, Errno::ENFILE].contains(&errno) => {
                fd_passing::pass(self, fd, flags)
            }
            opened => opened,
        }
    }

    pub(super) fn close(&mut self, fd: u64) {
        // One that was just opened can be closed.
        let _ = self.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    }

    /// Opens the file of the supervisor's descriptor `fd`, under the lowest free number from `first` on:
    /// `EMFILE`. `high`: how many such numbers the process has.
    pub(super) fn open_high(
        &mut self,
        fd: RawFd,
        first: i32,
        high: usize,
        close_on_exec: bool,
    ) -> Result<i32, Errno> {
        let low = self.open(fd, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC)?;
        // Linux would have given those the numbers from here on.
        if limits::open_files_of(self.tid).is_ok_and(|limit| low + high as u64 >= limit.soft) {
            self.close(low);
            return Err(Errno::EMFILE);
        }
        let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
        let arguments = [low, command as u64, first as u64, 0, 0, 0];
        let high = match self.call(libc::SYS_fcntl, arguments) {
            // There is room for the number that Linux would have given. Is there for this one?
            Err(Errno::EMFILE | Errno::EINVAL) => {
                let limit = raise_limit(self.tid);
                let high = self.call(libc::SYS_fcntl, arguments);
                if let Some(before) = limit {
                    set_limit(self.tid, before);
                }
                high
            }
            high => high,
        };
        self.close(low);
        high.map(|fd| fd as i32).map_err(|_| Errno::EMFILE)
    }

    /// Maps the file of the supervisor's descriptor `fd`, from an offset on. `access`: how it is opened, as memory that is mapped to be
    /// read can be made writable later if its file is. `place`: where, and whether exactly there.
    pub(super) fn map(
        &mut self,
        (fd, offset, access): (RawFd, u64, i32),
        len: u64,
        prot: u64,
        flags: u64,
        place: MapAt,
    ) -> Result<u64, Errno> {
        let low = self.open(fd, libc::O_CLOEXEC | access)?;
        let flags = flags & !(libc::MAP_FIXED | NOT_OVER_OTHERS) as u64;
        let mut map =
            |addr, more: i32| self.call(libc::SYS_mmap, [addr, len, prot, flags | more as u64, low, offset]);
        let mapped = match place {
            MapAt::Exactly(addr, how) => map(addr, how),
            // Linux of before 4.17 takes it for a hint.
            MapAt::Preferably(addr) => map(addr, NOT_OVER_OTHERS).or_else(|_| map(0, 0)),
            MapAt::Low => map(0, LOW),
        };
        self.close(low);
        mapped
    }
}

/// An instruction that calls the system, in the code where a thread is: every dynamic linker and every
/// static program has one.
fn site_near(tid: Tid) -> Result<u64, Errno> {
    const MOST: u64 = 4 << 20;
    let registers = Registers::of(tid)?;
    let addr = registers.ip();
    let map =
        proc::maps(tid).into_iter().find(|map| (map.from..map.to).contains(&addr)).ok_or(Errno::ENOEXEC)?;
    let mut code = vec![0; (map.to - map.from).min(MOST) as usize];
    remote::read_exact(tid, map.from, &mut code)?;
    let found = remote::find_instruction(&code, registers.call_instruction());
    found.map(|at| map.from + at as u64).ok_or(Errno::ENOEXEC)
}

/// Where to map.
#[derive(Clone, Copy, Debug)]
pub(super) enum MapAt {
    /// There, with this flag.
    Exactly(u64, i32),
    /// There, if nothing is.
    Preferably(u64),
    /// Where 32 bits reach.
    Low,
}

impl MapAt {
    /// The place that a tool has asked for; where it leaves that open, ours.
    pub(super) fn asked(width: Width, addr: u64, flags: u64, ours: u64) -> Self {
        match flags as i32 & (libc::MAP_FIXED | NOT_OVER_OTHERS) {
            0 if width == Width::Narrow => MapAt::Low,
            0 => MapAt::Preferably(ours),
            how => MapAt::Exactly(addr, how),
        }
    }
}

/// Lets a process have as many descriptors as it could allow itself; the answer is the limit before.
fn raise_limit(tid: Tid) -> Option<Limit> {
    let before = limits::open_files_of(tid).ok().filter(|limit| limit.soft < limit.hard)?;
    set_limit(tid, Limit { soft: before.hard, ..before });
    Some(before)
}

fn set_limit(tid: Tid, limit: Limit) {
    // One that stays is met with EMFILE.
    let _ = limits::set_open_files_of(tid, limit);
}

/// At a stop by a filter, before the system call: the thread goes on to the end of it; its registers there.
pub(super) fn finish(tid: Tid) -> Result<Registers, Errno> {
    loop {
        ptrace::resume(tid, Resume::Syscall(0))?;
        if remote::wait_for(tid)? == Status::Syscall {
            return Registers::of(tid);
        }
    }
}

/// At a stop by a filter, before the system call: it is not done; the thread is stopped behind it.
pub(super) fn skip(tid: Tid, registers: &Registers) -> Result<(), Errno> {
    let mut registers = *registers;
    registers.set_result(0);
    registers.replace_call(tid, None)?;
    finish(tid).map(drop)
}

/// The limit of descriptors decides from where on those of events are numbered: below 1024 if possible, for
/// the sake of `select(2)`, and so high that common programs do not reach it.
pub(super) fn first_number(limit: u64) -> i32 {
    const USUAL: u64 = 768;
    if limit > USUAL { USUAL as i32 } else { (limit * 3 / 4) as i32 }
}

/// The filter for processes with events, whose descriptors have these numbers. `waiting`: calls that can do so
/// [wait](super::listener) for their answers.
pub(super) fn owners(first: i32, last: i32, waiting: bool) -> Program {
    filter::for_owners(first as u32, last as u32, waiting)
}

/// The filter for processes with objects of `bpf(2)`.
pub(super) fn links(opens: bool) -> Program {
    filter::for_links(opens)
}

/// The filter for processes with a ring at addresses with this upper half.
pub(super) fn memory(high: u32) -> Program {
    filter::for_memory(high)
}
