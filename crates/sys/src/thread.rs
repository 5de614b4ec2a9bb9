//! The calling thread: its number, its cpus, what it has used.

use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Its number.
pub fn own_tid() -> i32 {
    gettid().as_raw_nonzero().get()
}

/// The cpu where it runs.
pub fn own_cpu() -> Option<u32> {
    u32::try_from(sched_getcpu()).ok()
}

/// The resources that a thread has used since its birth, as the kernel counts for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Switches to other threads, both kinds.
    pub switches: u64,
}

/// That of the calling thread (`getrusage(2)`).
pub fn used() -> Used {
    // SAFETY: an all-zero rusage is a valid value of that plain struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    Used {
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
        switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
    }
}

/// The cpus where a thread may run.
#[derive(Clone, Copy, Debug)]
pub struct Cpus(CpuSet);

impl Cpus {
    /// Those of the calling thread; none where that is not told.
    pub fn own() -> Self {
        Cpus(sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new()))
    }

    /// One alone; `None` of a number that no set has.
    pub fn only(cpu: u32) -> Option<Self> {
        let mut set = CpuSet::new();
        let cpu = usize::try_from(cpu).ok().filter(|&cpu| cpu < CpuSet::MAX_CPU)?;
        set.set(cpu);
        Some(Cpus(set))
    }

    /// The calling thread runs there from now on. It stays where it is if it may run on none of them.
    pub fn apply(&self) {
        let _ = sched_setaffinity(None, &self.0);
    }
}

/// Does something on a cpu, if the calling thread may run there, and lets the thread run where it could before.
pub fn on_cpu<T>(cpu: u32, work: impl FnOnce() -> T) -> T {
    let before = Cpus::own();
    if let Some(only) = Cpus::only(cpu) {
        only.apply();
    }
    let done = work();
    before.apply();
    done
}

/// The calling thread, if it is of an ordinary scheduling class, runs for short times only: the shorter, the sooner Linux
/// (6.12) gives it a cpu that is busy, where without this it would have to wait for as long as others may run. It asks
/// for the least that can be had, which needs no rights.
pub fn ask_for_short_turns() {
    /// `struct sched_attr`.
    #[repr(C)]
    #[derive(Debug, Default)]
    struct Attr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    const LEAST_NS: u64 = 100_000;
    let mut attr = Attr::default();
    let size = size_of::<Attr>() as u32;
    // SAFETY: pointer and size are those of a live value.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    if got == 0 && [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(attr.policy as i32)) {
        (attr.size, attr.runtime) = (size, LEAST_NS);
        // SAFETY: the pointer is to a live value, whose size it tells.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    }
}

/// How many cpus this machine may ever have, for each of which maps of BPF have a value of their own; where nothing tells, those that
/// it [can have](configured_cpus).
pub fn possible_cpus() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<usize>().ok());
    last.map_or_else(configured_cpus, |last| last + 1)
}

/// How many cpus this machine can have.
pub fn configured_cpus() -> usize {
    // SAFETY: sysconf has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(1)
}
