//! Readings of `/proc` and the clocks about a thread: its time on cpus, faults, switches, and its memory map.
//!
//! The files of a thread are read below its process (`/proc/PID/task/TID`), as `/proc/TID` sums up the
//! whole process. They can be read of a dead thread that has not been waited for yet, and tell its last,
//! exact numbers then.
//!
//! Of a thread of another process that runs just now the time is that of the last tick or switch, as
//! much as a tick (4 ms with 250 ticks a second) too small.

use crate::ptrace::Tid;
use perfuse_abi::Errno;
use perfuse_abi::record::NamespaceLink;
use perfuse_proc::{Stat, Status, read};
use perfuse_sys::{clock, file, limits, thread};
use std::cell::RefCell;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Numbers of a thread, since its birth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time on cpus, in ns.
    pub time_ns: u64,
    /// Time in wait for a cpu up to its last arrival at one, in ns; 0 where the kernel does not count that.
    pub waited_ns: u64,
    /// Page faults without I/O.
    pub minor: u64,
    /// Page faults with I/O.
    pub major: u64,
    /// Switches to other threads, both kinds.
    pub switches: u64,
    /// How often it came to a cpu; 0 where the kernel does not count that.
    pub arrivals: u64,
    /// Moves to other cpus.
    pub migrations: u64,
    /// The cpu where it runs or ran last.
    pub cpu: u32,
}

impl Reading {
    /// That of one that is dead. Linux' events end before it leaves its cpu for good: that switch is not counted.
    pub(crate) fn of_the_dead(mut self) -> Self {
        let left = self.arrivals > 0 && self.switches >= self.arrivals;
        self.switches -= u64::from(left);
        self
    }
}

/// The parts of a [`Reading`] that are wanted: each comes from another file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Faults and the cpu.
    pub faults: bool,
    /// Switches.
    pub switches: bool,
    /// Migrations.
    pub migrations: bool,
}

/// How far a thread has come. As long as this stays the same, one that did not run has not run since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Time on cpus, in ns.
    pub(crate) time_ns: u64,
    /// Time in wait for one, up to its last arrival.
    pub(crate) waited_ns: u64,
    /// How often it came to a cpu; 0 where the kernel does not count that.
    pub(crate) arrivals: u64,
}

impl Progress {
    /// Whether it has not run in between.
    pub(crate) fn is_at(self, later: Progress) -> bool {
        (self.time_ns, self.arrivals) == (later.time_ns, later.arrivals)
    }
}

thread_local! {
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How many files could not be opened because there was no descriptor left.
static SHORT: AtomicUsize = AtomicUsize::new(0);

/// How often numbers could not be read because there was no descriptor left, up to now.
pub(crate) fn times_short() -> usize {
    SHORT.load(Relaxed)
}

fn open(path: &str) -> Option<File> {
    let short = |error: &std::io::Error| matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    let opened = File::open(path).inspect_err(|error| {
        SHORT.fetch_add(usize::from(short(error)), Relaxed);
    });
    opened.ok()
}

/// Hands a file's text on. These files are read very often, so nothing is allocated.
fn with_text<R>(path: &str, parse: impl FnOnce(&str) -> Option<R>) -> Option<R> {
    with_text_of(&open(path)?, parse)
}

fn with_text_of<R>(file: &File, parse: impl FnOnce(&str) -> Option<R>) -> Option<R> {
    // A name may contain anything; what follows it is ASCII.
    with_bytes_of(file, |bytes| match std::str::from_utf8(bytes) {
        Ok(text) => parse(text),
        Err(_) => parse(&String::from_utf8_lossy(bytes)),
    })
}

fn with_bytes_of<R>(file: &File, parse: impl FnOnce(&[u8]) -> Option<R>) -> Option<R> {
    TEXT.with_borrow_mut(|text| {
        // Exact sizes are unknown; one page holds any of them but maps.
        text.resize(4096, 0);
        let got = file.read_at(text, 0).ok()?;
        parse(&text[..got])
    })
}

/// The files of a thread. They stay open, which halves the price of reading them, as long as there are not
/// too many in all.
#[derive(Debug)]
pub(crate) struct Files {
    dir: String,
    kept: [Option<File>; NAMES.len()],
}

const NAMES: [&str; 5] = ["schedstat", "stat", "status", "sched", "comm"];
const SCHEDSTAT: usize = 0;
const STAT: usize = 1;
const STATUS: usize = 2;
const SCHED: usize = 3;
const COMM: usize = 4;

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// So many files are kept open at most, of all threads: few of those that this process may have.
fn most_kept() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let limit = limits::open_files().map_or(0, |limit| limit.soft);
        (limit / 8).min(128) as usize
    })
}

impl Files {
    pub(crate) fn new(pid: Tid, tid: Tid) -> Self {
        Files { dir: format!("/proc/{pid}/task/{tid}"), kept: Default::default() }
    }

    fn with_text<R>(&mut self, which: usize, parse: impl FnOnce(&str) -> Option<R>) -> Option<R> {
        self.with_file(which, |file| with_text_of(file, parse))
    }

    fn with_file<R>(&mut self, which: usize, read: impl FnOnce(&File) -> Option<R>) -> Option<R> {
        if let Some(file) = &self.kept[which] {
            return read(file);
        }
        let file = open(&format!("{}/{}", self.dir, NAMES[which]))?;
        let read = read(&file);
        // Elsewhere than on Linux a second reading may answer what the first one did.
        if shows_the_dead() {
            match KEPT.fetch_add(1, Relaxed) < most_kept() {
                true => self.kept[which] = Some(file),
                false => drop(KEPT.fetch_sub(1, Relaxed)),
            }
        }
        read
    }

    /// Reads the numbers of the thread; `None` once it is gone.
    pub(crate) fn read(&mut self, tid: Tid, wanted: Wanted) -> Option<Reading> {
        let mut reading = Reading::default();
        reading.time_ns = match self.with_text(SCHEDSTAT, progress) {
            Some(progress) => {
                if wanted.faults {
                    self.stat(&mut reading)?;
                }
                (reading.waited_ns, reading.arrivals) = (progress.waited_ns, progress.arrivals);
                progress.time_ns
            }
            // gVisor has no schedstat, and shows the clocks of all threads. The ticks of stat are the last
            // resort.
            None => {
                let ticks = self.stat(&mut reading)?;
                clock::read_ns(clock::of_thread(tid)).unwrap_or(ticks * 10_000_000)
            }
        };
        if wanted.switches || wanted.migrations {
            // `sched` tells both, for less than `status` alone; it is there with CONFIG_SCHED_DEBUG.
            let both = self.with_text(SCHED, sched);
            let (migrations, switches) =
                both.unwrap_or_else(|| (0, self.switches().filter(|_| wanted.switches).unwrap_or_default()));
            (reading.migrations, reading.switches) = (migrations, switches);
        }
        Some(reading)
    }

    /// Its name; `None` once it is gone.
    pub(crate) fn name(&mut self) -> Option<Vec<u8>> {
        self.with_file(COMM, |file| {
            with_bytes_of(file, |name| Some(name.strip_suffix(b"\n").unwrap_or(name).to_vec()))
        })
    }

    /// How often it left a cpu.
    pub(crate) fn switches(&mut self) -> Option<u64> {
        self.with_text(STATUS, |text| {
            let status = Status(text);
            let [voluntary, forced] = ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"]
                .map(|name| status.number::<u64>(name));
            Some(voluntary? + forced?)
        })
    }

    /// How far it has come; `None` once it is gone, and where that is not told.
    pub(crate) fn progress(&mut self) -> Option<Progress> {
        if !shows_the_dead() {
            return None;
        }
        self.with_text(SCHEDSTAT, progress)
    }

    /// Whether it is running or could, and the cpu; `None` once it is gone.
    pub(crate) fn state(&mut self) -> Option<(bool, u32)> {
        self.with_stat(|stat| Some((stat.is_runnable(), u32::try_from(stat.number(39)?).ok()?)))
    }

    fn with_stat<R>(&mut self, parse: impl FnOnce(Stat<'_>) -> Option<R>) -> Option<R> {
        self.with_file(STAT, |file| with_bytes_of(file, |text| parse(Stat::parse(text)?)))
    }

    /// Faults and the cpu; the ticks that it has run.
    fn stat(&mut self, reading: &mut Reading) -> Option<u64> {
        self.with_stat(|stat| {
            let mut fields = stat.fields();
            // Field 3 is first here: 10 minor faults, 12 major faults, 14 and 15 ticks, 39 the cpu.
            reading.minor = fields.nth(7)?.parse().ok()?;
            reading.major = fields.nth(1)?.parse().ok()?;
            let (user, system): (u64, u64) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            reading.cpu = fields.nth(23)?.parse().ok()?;
            Some(user + system)
        })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.kept.iter().flatten().count(), Relaxed);
    }
}

fn progress(schedstat: &str) -> Option<Progress> {
    let mut words = schedstat.trim_end().split(' ').map(|word| word.parse().ok());
    Some(Progress { time_ns: words.next()??, waited_ns: words.next()??, arrivals: words.next()?? })
}

/// Reads the numbers of a thread; `None` once it is gone.
pub fn read(pid: Tid, tid: Tid, wanted: Wanted) -> Option<Reading> {
    Files::new(pid, tid).read(tid, wanted)
}

/// The calling thread's own numbers: no files but for migrations.
pub fn read_own(wanted: Wanted) -> Reading {
    let mut reading = Reading { time_ns: clock_ns(clock::CLOCK_THREAD_CPUTIME_ID), ..Reading::default() };
    if wanted.faults || wanted.switches {
        let used = thread::used();
        (reading.minor, reading.major) = (used.minor_faults, used.major_faults);
        reading.switches = used.switches;
    }
    if wanted.migrations {
        let (pid, tid) = (std::process::id() as Tid, own_tid());
        let only = Wanted { migrations: true, ..Wanted::default() };
        reading.migrations = read(pid, tid, only).map_or(0, |reading| reading.migrations);
    }
    reading.cpu = thread::own_cpu().unwrap_or(0);
    reading
}

/// The reading of another thread of this process, with its time, which is exact even while it runs.
pub(crate) fn of_sibling(tid: Tid, reading: Reading) -> Reading {
    Reading { time_ns: clock::read_ns(clock::of_thread(tid)).unwrap_or(reading.time_ns), ..reading }
}

/// Whether a thread is dead, though not yet waited for.
pub(crate) fn is_dead(tid: Tid) -> bool {
    let dead = open(&format!("/proc/{tid}/stat"))
        .and_then(|file| with_bytes_of(&file, |text| Some(Stat::parse(text)?.is_dead())));
    dead.unwrap_or(true)
}

/// Whether the numbers of the dead can be read: not so in gVisor.
pub(crate) fn shows_the_dead() -> bool {
    static SHOWN: OnceLock<bool> = OnceLock::new();
    *SHOWN.get_or_init(|| std::path::Path::new("/proc/self/schedstat").exists())
}

/// The calling thread.
pub fn own_tid() -> Tid {
    thread::own_tid()
}

/// The time that a clock shows, in ns.
pub fn clock_ns(clock: i32) -> u64 {
    clock::read_ns(clock).unwrap_or(0)
}

/// The time on `CLOCK_MONOTONIC`, in ns.
pub(crate) fn now_ns() -> u64 {
    clock_ns(clock::CLOCK_MONOTONIC)
}

/// Ticks a second, from the clock that only ticks move.
pub fn tick_rate() -> u32 {
    let step_ns = clock::step_ns(clock::CLOCK_MONOTONIC_COARSE).filter(|&ns| ns > 0);
    step_ns.map_or(250, |ns| (1_000_000_000 / ns).clamp(24, 10_000) as u32)
}

/// The name of a thread.
pub fn comm(pid: Tid, tid: Tid) -> Vec<u8> {
    Files::new(pid, tid).name().unwrap_or_default()
}

/// The kernel's priority of a thread: 100 above that of `proc(5)`.
pub(crate) fn priority(pid: Tid, tid: Tid) -> Option<i64> {
    let text = perfuse_proc::read::stat(pid as u32, tid as u32)?;
    let priority: i64 = Stat::parse(&text)?.fields().nth(18 - 3)?.parse().ok()?;
    Some(priority + 100)
}

/// The path that the program of a process was asked for by: what `AT_EXECFN` points to (`getauxval(3)`).
pub(crate) fn program_name(pid: Tid) -> Option<Vec<u8>> {
    const AT_EXECFN: u64 = 31;
    let auxv = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let word = if is_narrow(pid) { 4 } else { 8 };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
    let mut entries =
        auxv.chunks_exact(2 * word).map(|entry| (number(&entry[..word]), number(&entry[word..])));
    let (_, addr) = entries.find(|&(kind, _)| kind == AT_EXECFN)?;
    let mut bytes = vec![0; libc::PATH_MAX as usize];
    let got = crate::remote::read_present(pid, addr, &mut bytes).ok()?;
    let end = bytes[..got].iter().position(|&byte| byte == 0)?;
    bytes.truncate(end);
    Some(bytes)
}

/// How often a thread has left its cpu by itself.
pub(crate) fn voluntary_switches(tid: Tid) -> Option<u64> {
    Status(&status(tid)).field("voluntary_ctxt_switches")?.parse().ok()
}

/// The process of a thread.
pub fn process_of(tid: Tid) -> Option<Tid> {
    number_in_status(tid, "Tgid")
}

/// `CAP_PERFMON`, or `CAP_SYS_ADMIN`, in the first user namespace: a caller that has it may measure all (rule B25).
pub(crate) fn may_measure_all(tid: Tid) -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON: u64 = 1 << 38;
    /// The first namespaces have numbers of their own.
    const FIRST: u64 = 0xefff_fffd;
    let status = status(tid);
    let effective = Status(&status).field("CapEff").and_then(|set| u64::from_str_radix(set, 16).ok());
    effective.is_some_and(|set| set & (SYS_ADMIN | PERFMON) != 0)
        && std::fs::metadata(format!("/proc/{tid}/ns/user")).is_ok_and(|namespace| namespace.ino() == FIRST)
}

/// How many seccomp filters a thread has; `None` where that is not told (before Linux 5.9, in gVisor).
pub(crate) fn filters_of(tid: Tid) -> Option<usize> {
    Status(&status(tid)).number("Seccomp_filters")
}

/// The rights of a thread over others, as they were at a moment: the part of the kernel's check (rule B25) that can be read.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    /// Real user and group.
    ids: Option<(u32, u32)>,
    /// `CapPrm`.
    permitted: Option<u64>,
    user_namespace: Option<(u64, u64)>,
}

impl Credentials {
    /// Those that a thread has now; nobody's, if it is gone.
    pub(crate) fn of(tid: Tid) -> Self {
        let permitted = Status(&status(tid)).set("CapPrm");
        Credentials { ids: real_ids(tid), permitted, user_namespace: user_namespace(tid) }
    }

    /// Whether another thread is the same user's, in the same user namespace, and neither has rights that these lack nor hides its memory.
    pub(crate) fn may_look_at(&self, other: Tid) -> bool {
        let others = status(other);
        let is_all = |name, id: u32| {
            let ids = Status(&others).field(name)?.split_whitespace().take(3).map(str::parse);
            Some(ids.collect::<Result<Vec<u32>, _>>().ok()?.iter().all(|other| *other == id))
        };
        let permitted = self.permitted.zip(Status(&others).set("CapPrm"));
        // The memory of the dead is gone: Linux asks no more about it.
        let is_dead = || Status(&others).field("State").is_some_and(|state| state.starts_with(['Z', 'X']));
        self.ids.is_some_and(|(user, group)| {
            is_all("Uid", user) == Some(true) && is_all("Gid", group) == Some(true)
        }) && permitted.is_some_and(|(own, others)| others & !own == 0)
            && (is_dead() || can_be_dumped(other, &others) == Some(true))
            && self.user_namespace.is_some()
            && self.user_namespace == user_namespace(other)
    }
}

/// The file that a thread's user namespace is.
fn user_namespace(tid: Tid) -> Option<(u64, u64)> {
    std::fs::metadata(format!("/proc/{tid}/ns/user")).ok().map(|file| (file.dev(), file.ino()))
}

/// Whether a thread's process can be dumped, as far as that can be told: otherwise its files are root's, not its
/// user's.
fn can_be_dumped(tid: Tid, status: &str) -> Option<bool> {
    let user = Status(status).effective_user()?;
    Some(std::fs::metadata(format!("/proc/{tid}/stat")).ok()?.uid() == user)
}

/// The namespaces of a thread, in the order of records of them.
pub(crate) fn namespaces(tid: Tid) -> Option<[NamespaceLink; 7]> {
    let links = read::namespaces(tid as u32).map(|(dev, ino)| NamespaceLink { dev, ino });
    links.iter().any(|link| link.ino != 0).then_some(links)
}

/// The number of the system call that a thread is in; `None` inside: it is in none. It does not run: `None`. Nor where that is
/// not told, as in gVisor and of those that hide.
pub(crate) fn call_of(tid: Tid) -> Option<Option<u64>> {
    with_text(&format!("/proc/{tid}/syscall"), |text| match text.split_whitespace().next()? {
        "-1" => Some(None),
        number => number.parse().ok().map(Some),
    })
}

/// Whether a thread sleeps, and is not stopped.
pub(crate) fn sleeps(tid: Tid) -> bool {
    let asleep = open(&format!("/proc/{tid}/stat"))
        .and_then(|file| with_bytes_of(&file, |text| Some(Stat::parse(text)?.state() == 'S')));
    asleep.unwrap_or(false)
}

/// The descriptors that an epoll of a thread would tell of when they can be read.
pub(crate) fn watched_by_epoll(tid: Tid, epoll: i32) -> Option<Vec<i32>> {
    const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
    let text = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{epoll}")).ok()?;
    let entry = |line: &str| {
        let mut words = line.strip_prefix("tfd:")?.split_whitespace();
        let fd = words.next()?.parse().ok()?;
        let events = words.nth(1).and_then(|events| u32::from_str_radix(events, 16).ok())?;
        (events & READABLE != 0).then_some(fd)
    };
    // Of others than epolls there are no such lines.
    text.contains("tfd:").then(|| text.lines().filter_map(entry).collect())
}

/// Whether a thread has this descriptor open.
pub(crate) fn is_open(tid: Tid, fd: i32) -> bool {
    fd >= 0 && std::fs::symlink_metadata(format!("/proc/{tid}/fd/{fd}")).is_ok()
}

/// The text of a setting of the kernel, a file of `/proc/sys/kernel`.
pub(crate) fn sysctl(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()
}

/// Whether a process that has just replaced its program is now out of sight for those who could look at it
/// (rule D43): it has gained rights, or its program cannot be read.
pub(crate) fn has_gained_rights(pid: Tid) -> bool {
    let status = status(pid);
    let ids =
        |name| Status(&status).field(name).map(|ids| ids.split_whitespace().take(2).collect::<Vec<_>>());
    let (Some(users), Some(groups)) = (ids("Uid"), ids("Gid")) else { return false };
    can_be_dumped(pid, &status) == Some(false)
        || users.first() != users.last()
        || groups.first() != groups.last()
}

/// The mounts that a thread sees, as `mountinfo` of proc(5) lists them.
pub(crate) fn mounts(tid: Tid) -> String {
    std::fs::read_to_string(format!("/proc/{tid}/mountinfo")).unwrap_or_default()
}

/// Whether files of this device, as a thread has it mounted, have pages that the kernel can read: a probe is in none
/// of those that are made when they are read.
pub(crate) fn files_have_pages(tid: Tid, (major, minor): (u32, u32)) -> bool {
    const WITHOUT: [&str; 8] =
        ["proc", "tracefs", "debugfs", "securityfs", "binfmt_misc", "hugetlbfs", "mqueue", "bpf"];
    let mounts = mounts(tid);
    let device = format!("{major}:{minor}");
    let mut kinds = mounts
        .lines()
        .filter(|line| line.split(' ').nth(2) == Some(&device))
        .filter_map(|line| line.split_once(" - ")?.1.split(' ').next());
    !kinds.any(|kind| WITHOUT.contains(&kind))
}

/// Whether the program of a process is a 32-bit one, as far as its file can be looked at.
pub(crate) fn is_narrow(pid: Tid) -> bool {
    let mut head = [0; 5];
    let read = File::open(format!("/proc/{pid}/exe")).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head[4] == 1
}

/// A pid namespace, and how far below this process's it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespace {
    pub(crate) id: u64,
    pub(crate) depth: usize,
}

/// The pid namespace of a process, if it is another one than this process's. An error: it is another, and not known.
pub(crate) fn namespace_of(pid: Tid) -> Result<Option<Namespace>, Errno> {
    let own = std::fs::metadata("/proc/self/ns/pid").map(|namespace| namespace.ino()).ok();
    let other = namespace_above(pid, 0);
    let depth = numbers(pid).map(|(_, tids)| tids.len() - 1);
    // gVisor tells of one process what it tells of all: nothing.
    if depth.is_none() && numbers(own_tid()).is_none() {
        return Ok(None);
    }
    match (own, other, depth) {
        // Where there are none to be seen, there is one.
        (None, _, _) | (_, None, Some(0)) => Ok(None),
        (Some(own), Some(other), _) if own == other => Ok(None),
        (_, Some(id), Some(depth @ 1..)) => Ok(Some(Namespace { id, depth })),
        _ => Err(Errno::ESRCH),
    }
}

/// The pid namespace so many levels above a process's.
pub(crate) fn namespace_above(pid: Tid, levels: usize) -> Option<u64> {
    let mut namespace = File::open(format!("/proc/{pid}/ns/pid")).ok()?;
    for _ in 0..levels {
        namespace = file::parent_namespace(&namespace)?;
    }
    Some(namespace.metadata().ok()?.ino())
}

/// The numbers of a thread's process, and its own, in this process's namespace and each one below it up to its own.
pub(crate) fn numbers(tid: Tid) -> Option<(Vec<Tid>, Vec<Tid>)> {
    let status = status(tid);
    let list = |name| {
        let list =
            Status(&status).field(name)?.split_whitespace().map(str::parse).collect::<Result<Vec<Tid>, _>>();
        list.ok().filter(|list| !list.is_empty())
    };
    Some((list("NStgid")?, list("NSpid")?))
}

/// The process that a process's descriptor of one (`pidfd_open(2)`) names.
pub(crate) fn process_behind(tid: Tid, fd: u64) -> Option<Tid> {
    let info = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).ok()?;
    Status(&info).field("Pid")?.parse().ok().filter(|&pid| pid > 0)
}

/// The real user and group of a thread.
pub(crate) fn real_ids(tid: Tid) -> Option<(u32, u32)> {
    let status = status(tid);
    let first = |name| Status(&status).field(name)?.split_whitespace().next()?.parse().ok();
    Some((first("Uid")?, first("Gid")?))
}

/// All of a thread's status: lists of groups can be long.
fn status(tid: Tid) -> String {
    read::status(tid as u32).unwrap_or_default()
}

/// Whether a signal to a thread or process would be delivered: it neither is pending nor blocked.
pub(crate) fn takes_signal(tid: Tid, signal: i32) -> bool {
    let held = with_text(&format!("/proc/{tid}/status"), |text| {
        let sets = ["SigPnd", "ShdPnd", "SigBlk"].map(|name| Status(text).set(name).unwrap_or(0));
        Some(sets.into_iter().fold(0, |held, set| held | set))
    });
    held.is_some_and(|held| held & 1 << (signal - 1) == 0)
}

/// Whether a signal that is sent to a thread now does something to it at once: it neither blocks nor ignores it.
pub(crate) fn gets_signal(tid: Tid, signal: i32) -> bool {
    let held = with_text(&format!("/proc/{tid}/status"), |text| {
        Some(Status(text).set("SigBlk")? | Status(text).set("SigIgn")?)
    });
    held.is_some_and(|held| held & 1 << (signal - 1) == 0)
}

/// Whether a signal that is about to be delivered to a thread ends its system calls: it has a handler, or it stops the
/// process. Those that are ignored do not. (After the others the program sees no answer.)
pub(crate) fn ends_calls(tid: Tid, signal: i32) -> bool {
    let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal);
    dispositions(tid).is_none_or(|does| does.catches(signal) || stops && !does.ignores(signal))
}

/// Whether a signal that is about to be delivered to a thread does nothing to it.
pub(crate) fn does_nothing(tid: Tid, signal: i32) -> bool {
    let by_default = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH].contains(&signal);
    dispositions(tid).is_some_and(|does| does.ignores(signal) || by_default && !does.catches(signal))
}

/// Whether a stopped thread has signals that come to it when it goes on.
pub(crate) fn has_signals(tid: Tid) -> bool {
    let waiting = with_text(&format!("/proc/{tid}/status"), |text| {
        let status = Status(text);
        Some((status.set("SigPnd")? | status.set("ShdPnd")?) & !status.set("SigBlk")?)
    });
    waiting.is_none_or(|waiting| waiting != 0)
}

/// Whether a signal waits for a thread that does not block it: it is told next.
pub(crate) fn is_about_to_get(tid: Tid, signal: i32) -> bool {
    let status = status(tid);
    let has = |name| Status(&status).set(name).is_some_and(|set| set & 1 << (signal - 1) != 0);
    has("SigPnd") && !has("SigBlk")
}

/// The fate of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) dead: bool,
    /// The thread that traces it; 0: none that this process can see.
    pub(crate) tracer: Tid,
}

/// The same, by its open `status`; `None`: it is gone.
pub(crate) fn fate(status: &File) -> Option<Fate> {
    with_text_of(status, |text| {
        let dead = Status(text).field("State")?.starts_with(['Z', 'X']);
        Some(Fate { dead, tracer: Status(text).field("TracerPid")?.parse().ok()? })
    })
}

/// The system call that a thread is in and sleeps; `None`: it runs, or that is not told.
pub(crate) fn is_in_call(pid: Tid, tid: Tid) -> Option<libc::c_long> {
    with_text(&format!("/proc/{pid}/task/{tid}/syscall"), |text| text.split(' ').next()?.parse().ok())
}

/// The file of a process's program: device and inode.
pub(crate) fn program_of(pid: Tid) -> Option<(u64, u64)> {
    std::fs::metadata(format!("/proc/{pid}/exe")).ok().map(|file| (file.dev(), file.ino()))
}

/// The children of a thread, where the kernel tells them (`CONFIG_PROC_CHILDREN`).
pub(crate) fn children_of(pid: Tid, tid: Tid) -> Vec<Tid> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Whether there is `/proc`, of this process's pid namespace.
pub fn is_there() -> bool {
    // Not opened: descriptors may have run out.
    std::fs::exists("/proc/self/status").unwrap_or(false)
}

/// The ways in which a process deals with signals.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dispositions {
    ignored: u64,
    caught: u64,
    /// It is the first one of a pid namespace below this process's.
    pub(crate) is_init: bool,
}

impl Dispositions {
    pub(crate) fn ignores(&self, signal: i32) -> bool {
        self.ignored & 1 << (signal - 1) != 0
    }

    pub(crate) fn catches(&self, signal: i32) -> bool {
        self.caught & 1 << (signal - 1) != 0
    }

    fn parse(status: &str) -> Self {
        let mut all = Dispositions::default();
        for (name, value) in status.lines().filter_map(|line| line.split_once(':')) {
            let set = || u64::from_str_radix(value.trim(), 16).unwrap_or(0);
            match name {
                "SigIgn" => all.ignored = set(),
                "SigCgt" => all.caught = set(),
                // Its numbers, from this process's namespace to its own.
                "NSpid" => all.is_init = value.split_whitespace().skip(1).last() == Some("1"),
                _ => {}
            }
        }
        all
    }
}

/// The ways in which a process deals with signals; `None`: it is gone.
pub(crate) fn dispositions(pid: Tid) -> Option<Dispositions> {
    with_text(&format!("/proc/{pid}/status"), |text| Some(Dispositions::parse(text)))
}

/// The process that traces a process; 0: none.
pub(crate) fn tracer_of(pid: Tid) -> Tid {
    // The kernel tells which of its threads does.
    let thread = number_in_status(pid, "TracerPid").unwrap_or(0);
    if thread == 0 { 0 } else { process_of(thread).unwrap_or(thread) }
}

/// The parent of a process, for this process's pid namespace.
pub fn parent_of(pid: Tid) -> Option<Tid> {
    number_in_status(pid, "PPid")
}

fn number_in_status(tid: Tid, name: &str) -> Option<Tid> {
    with_text(&format!("/proc/{tid}/status"), |text| Status(text).number(name))
}

/// The threads of a process.
pub fn threads_of(pid: Tid) -> Vec<Tid> {
    read::threads(pid as u32).unwrap_or_default().into_iter().map(|tid| tid as Tid).collect()
}

/// A line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// The first address.
    pub from: u64,
    /// The first address after it.
    pub to: u64,
    /// `PROT_*`.
    pub prot: u32,
    /// Changes are shared.
    pub shared: bool,
    /// The offset in the file.
    pub pgoff: u64,
    /// Device and inode of the file; zeros for none.
    pub file: (u32, u32, u64),
    /// The path, `[heap]` and its like, or nothing.
    pub name: Vec<u8>,
}

/// Migrations and switches in a text of `sched`.
fn sched(text: &str) -> Option<(u64, u64)> {
    let mut lines = text.lines();
    // They stand in this order since Linux 2.6.31.
    let mut number = |name| {
        let number = lines.find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
        number?.trim().parse().ok()
    };
    Some((number("se.nr_migrations")?, number("nr_switches")?))
}

/// The memory map of a process; nothing once it is gone.
pub fn maps(pid: Tid) -> Vec<Map> {
    let text = read::maps(pid as u32).unwrap_or_default();
    perfuse_proc::maps(&text).map(Map::from).collect()
}

impl From<perfuse_proc::Map<'_>> for Map {
    fn from(map: perfuse_proc::Map<'_>) -> Self {
        let perfuse_proc::Map { start, end, prot, shared, offset, device, inode, name } = map;
        let file = (device.0, device.1, inode);
        Map { from: start, to: end, prot, shared, pgoff: offset, file, name: name.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It may have been read while it was still on its way.
    #[test]
    fn the_last_switch_of_the_dead_is_not_counted() {
        let switches =
            |switches, arrivals| Reading { switches, arrivals, ..Reading::default() }.of_the_dead().switches;
        assert_eq!(switches(2, 2), 1);
        assert_eq!(switches(1, 2), 1);
        // Where arrivals are not told.
        assert_eq!(switches(2, 0), 2);
    }

    #[test]
    fn what_sched_tells() {
        let text = "cat (9010, #threads: 1)\n-----\nse.exec_start   :   2653383.950878\n\
            se.sum_exec_runtime   :     12.948280\nse.nr_migrations      :      3\n\
            nr_switches           :      20\nnr_voluntary_switches :      7\n";
        assert_eq!(sched(text), Some((3, 20)));
        let older = "cat (1, #threads: 1)\nse.sum_exec_runtime : 12.948280\nnr_switches : 20\n";
        assert_eq!(sched(older), None);
    }

    #[test]
    fn the_files_of_a_thread_agree() {
        // A thread that waits changes nothing of what is read of it.
        let (tell, told) = std::sync::mpsc::channel();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            tell.send(own_tid()).expect("the test listens");
            wait.recv().expect("the test tells the end");
        });
        let tid = told.recv().expect("the thread starts");
        let mut files = Files::new(std::process::id() as Tid, tid);
        let all = Wanted { faults: true, switches: true, migrations: true };
        let agree = || {
            let (Some(all), Some(switches)) = (files.read(tid, all), files.switches()) else { return false };
            all.switches == switches
        };
        // It may still be on its way to sleep.
        assert!(std::iter::repeat_with(agree).take(10_000).any(|agrees| agrees));
        end.send(()).expect("the thread waits");
        waiting.join().expect("it ends well");
    }

    #[test]
    fn own_numbers_are_those_of_proc() {
        let wanted = Wanted { faults: true, switches: true, migrations: false };
        let pid = std::process::id() as Tid;
        let before = read_own(wanted);
        let between = read(pid, own_tid(), wanted).expect("this thread lives");
        let after = read_own(wanted);
        assert!(before.minor <= between.minor && between.minor <= after.minor);
        assert!(before.switches <= between.switches && between.switches <= after.switches);
        assert!(between.time_ns <= after.time_ns && before.time_ns < after.time_ns);
    }

    #[test]
    fn the_time_of_another_thread_is_exact() {
        let main = own_tid();
        let before = read_own(Wanted::default()).time_ns;
        let pid = std::process::id() as Tid;
        let seen = move || read(pid, main, Wanted::default()).map(|reading| of_sibling(main, reading));
        let seen = std::thread::spawn(seen).join();
        let seen = seen.expect("no panic").expect("the thread lives").time_ns;
        assert!(before <= seen && seen <= read_own(Wanted::default()).time_ns);
    }
}
