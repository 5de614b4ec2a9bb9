//! No other differences than the rows of docs/hosting.md: sequences of calls, drawn by a generator with a fixed seed as for the
//! comparison of Linux with the engine, are made on Linux and hosted. Each answer is the same, or a row explains it.
//!
//! `PERFUSE_SEED=n` plays only the sequence n; `PERFUSE_FIRST_SEED=n PERFUSE_SEEDS=m` plays m from n on.

use super::draw::{self, PATHS, Tracepoints};
use super::image::{AttrBytes, image};
use super::random::{Random, seeds};
use super::rows::{self, Case, Opening};
use super::scenarios::allowed;
use super::{play, text};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, OpenFlags, ioctl};
use perfuse_sys::signal::{SIGTRAP, Signals};
use perfuse_sys::{Errno, perf_event_open_bytes};
use perfuse_testkit::{Outcome, Puppet, Sandbox, Skip, need, work};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many sequences there are, and how many calls each has at most.
const SEQUENCES: u64 = 400;
const CALLS: usize = 16;
const PAGE: usize = 4096;

/// The variable that breakpoints watch.
static WATCHED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn calls_of_root_are_answered_alike() -> Outcome {
    need::root()?;
    compare(Sandbox::new(), Sandbox::new(), false)
}

/// As in a container.
pub(crate) fn calls_that_a_filter_refuses_are_answered_alike() -> Outcome {
    need::root()?;
    compare(Sandbox::new(), Sandbox::new().refusing_perf_event_open(libc::EPERM), false)
}

pub(crate) fn calls_of_users_are_answered_alike() -> Outcome {
    compare(Sandbox::new().unprivileged(), Sandbox::new().unprivileged(), true)
}

/// The calls of sequences, by seed and step, each with its answer.
type Answers = BTreeMap<u64, Vec<(String, String)>>;

fn compare(on_linux: Sandbox, hosted: Sandbox, of_user: bool) -> Outcome {
    perfuse_sys::perf_event_open_is_reachable().map_err(|error| Skip::needs("perf_event_open(2)", error))?;
    need::no_hardware_pmu()?;
    let [linux, ours] = [("tool", on_linux), ("host", hosted)].map(|(role, sandbox)| {
        let output = play(sandbox, role, "sweep");
        assert!(output.status.success(), "as {role}: {}", text(&output));
        answers(&String::from_utf8_lossy(&output.stdout))
    });
    assert_eq!(linux.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>(), "all were played");
    let (mut same, mut explained, mut unexplained) = (0, BTreeMap::new(), Vec::new());
    for (seed, on_linux) in &linux {
        let hosted = &ours[seed];
        // After one difference the two are in different states.
        let differs = on_linux.iter().zip(hosted).position(|(linux, ours)| linux != ours);
        same += differs.unwrap_or(on_linux.len());
        let Some(at) = differs else {
            assert_eq!(on_linux.len(), hosted.len(), "PERFUSE_SEED={seed}: one has more calls");
            continue;
        };
        let ((call, linux), (other, ours)) = (on_linux[at].clone(), hosted[at].clone());
        assert_eq!(call, other, "PERFUSE_SEED={seed}: the same call was to be made");
        let case = Case { opening: opening(&call), call, linux, ours, of_user };
        match rows::explanation(&case) {
            Some(row) => *explained.entry(row).or_insert(0) += 1,
            None => unexplained.push(format!("PERFUSE_SEED={seed}, call {at}: {case}")),
        }
    }
    eprintln!("{same} answers are the same; the first difference of a sequence: {explained:?}");
    assert!(unexplained.is_empty(), "{} without a row:\n{}", unexplained.len(), unexplained.join("\n"));
    assert!(same > 1000 || linux.len() < 100, "only {same} answers could be compared");
    Ok(())
}

/// Takes apart what [`sweep`] has written.
fn answers(text: &str) -> Answers {
    let mut all = Answers::new();
    for line in text.lines() {
        let (seed, rest) = line.split_once(' ').expect("a seed");
        let calls = all.entry(seed.parse().expect("a number")).or_default();
        if let Some((call, answer)) = rest.split_once(" = ") {
            calls.push((call.to_owned(), answer.to_owned()));
        }
    }
    all
}

/// The arguments of a call that opens an event, as [`Player::open`] has written them.
fn opening(call: &str) -> Option<Opening> {
    let words: Vec<&str> = call.strip_prefix("open ")?.split(' ').collect();
    let &[bytes, pid, cpu, _group, flags] = &words[..] else { panic!("an opening: {call}") };
    let byte = |at: usize| u8::from_str_radix(&bytes[at..at + 2], 16).expect("hexadecimal");
    let bytes: Vec<u8> = (0..bytes.len()).step_by(2).map(byte).collect();
    let number = |word: &str| word.parse::<i64>().expect("a number");
    let attr = Attr::peek(&bytes, ByteOrder::NATIVE);
    Some(Opening { attr, pid: number(pid), cpu: number(cpu), flags: number(flags) as u64 })
}

/// An event that is open.
struct Open {
    fd: OwnedFd,
    attr: Attr,
    areas: Vec<(*mut libc::c_void, usize)>,
}

/// Plays sequences, and writes down what was answered.
pub(crate) fn sweep() {
    // Events with sigtrap would end this program.
    let traps = Signals::collect(&[SIGTRAP]).expect("signals can be blocked");
    let tracepoints = need::tracefs().ok().and_then(|tracing| {
        let id = |name: &str| {
            let id = std::fs::read_to_string(tracing.join("events").join(name).join("id"));
            id.ok()?.trim().parse().ok()
        };
        Some(Tracepoints { open: id("syscalls/sys_enter_getppid")?, closed: id("sched/sched_process_fork")? })
    });
    let mut child = Puppet::fork(&[], |_| {});
    let file = File::open("/dev/null").expect("it is always there");
    for seed in seeds(SEQUENCES) {
        println!("{seed} begins");
        let mut player = Player {
            seed,
            random: Random::new(seed),
            tracepoints,
            child: child.pid(),
            file: &file,
            open: Vec::new(),
        };
        (0..CALLS).for_each(|_| player.call());
        player.end();
        while traps.next().is_some() {}
    }
    child.reap();
}

struct Player<'a> {
    seed: u64,
    random: Random,
    tracepoints: Option<Tracepoints>,
    child: u32,
    file: &'a File,
    open: Vec<Open>,
}

/// "ok" with a number, or the errno.
fn said(answer: i64) -> String {
    match answer {
        0.. => format!("ok {answer}"),
        _ => format!("{:?}", Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))),
    }
}

impl Player<'_> {
    fn tell(&self, call: &str, answer: &str) {
        println!("{} {call} = {answer}", self.seed);
    }

    /// One call more.
    fn call(&mut self) {
        let many = self.open.len();
        if many == 0 || many < 5 && self.random.one_in(2) {
            return self.open();
        }
        let at = self.random.below(many);
        let flag = self.random.one_in(2);
        let fd = self.open[at].fd.as_raw_fd();
        let control = |code: u32, argument: u64| {
            // SAFETY: the argument is a number, or the address of memory that lives and is as long as the code says.
            said(unsafe { libc::ioctl(fd, code as _, argument) }.into())
        };
        let group = u64::from(flag);
        let (call, answer) = match self.random.below(24) {
            0 => {
                let open = self.open.remove(at);
                drop(open.fd);
                unmap(open.areas);
                ("close".to_owned(), "ok".to_owned())
            }
            1..=3 => {
                let words = self.random.of(&[0, 1, 2, 3, 5, 16, 64]);
                (format!("read {words}"), read(&self.open[at], words))
            }
            4 => (format!("enable {group}"), control(ioctl::ENABLE, group)),
            5 => (format!("disable {group}"), control(ioctl::DISABLE, group)),
            6 => (format!("reset {group}"), control(ioctl::RESET, group)),
            7 => {
                let more = self.random.of(&[0, 1, 5, u64::MAX, 1 << 32]);
                (format!("refresh {more}"), control(ioctl::REFRESH, more))
            }
            8 => {
                let period: u64 = self.random.of(&[0, 1, 1000, 100_000, 100_001, 1 << 62, 1 << 63]);
                (format!("period {period}"), control(ioctl::PERIOD, (&raw const period) as u64))
            }
            9 => (format!("pause {group}"), control(ioctl::PAUSE_OUTPUT, group)),
            10 => {
                let (target, name) = self.descriptor();
                (format!("output {name}"), control(ioctl::SET_OUTPUT, target as i64 as u64))
            }
            11 => {
                let text = self.random.of(&[
                    c"common_pid == 1",
                    c"",
                    c"0",
                    c"comm ~ \"a*\"",
                    c"filter 0x10/0x20@/bin/sh",
                ]);
                (format!("filter {text:?}"), control(ioctl::SET_FILTER, text.as_ptr() as u64))
            }
            12 => {
                let mut attr = self.open[at].attr;
                match self.random.below(4) {
                    0 => attr.flags.toggle(AttrFlags::DISABLED),
                    1 => attr.sample_period += 1,
                    2 => attr.size = self.random.of(&[0, 64, 112, 128, 136]),
                    _ => attr.config2 = self.random.of(&[1, 2, 3, 4, 8, 16]),
                }
                let bytes = image(&attr);
                ("modify".to_owned(), control(ioctl::MODIFY_ATTRIBUTES, bytes.as_ptr() as u64))
            }
            13 => {
                let (target, name) = self.descriptor();
                (format!("program {name}"), control(ioctl::SET_BPF, target as u32 as u64))
            }
            14 => {
                let mut query = [4u32; 8];
                ("programs".to_owned(), control(ioctl::QUERY_BPF, query.as_mut_ptr() as u64))
            }
            15..=17 => self.map(at),
            18 if !self.open[at].areas.is_empty() => {
                let area = self.open[at].areas.remove(0);
                unmap(vec![area]);
                ("unmap".to_owned(), "ok".to_owned())
            }
            19 => {
                // SAFETY: plain numbers.
                let answer = unsafe { libc::prctl(if flag { 32 } else { 31 }) };
                (format!("prctl {flag}"), said(answer.into()))
            }
            // Here a hit takes the block of SIGTRAP away (the row ignored-sigtrap).
            20 if !self.open.iter().any(|open| open.attr.flags.contains(AttrFlags::SIGTRAP)) => {
                (0..3).for_each(|value| WATCHED.store(value, Relaxed));
                block_traps();
                ("write".to_owned(), "ok".to_owned())
            }
            21 => {
                let code =
                    self.random.of(&[0x2400u32, 0x240c, 0x24ff, 0x5401, 0x541b, 0x8008_2407, 0x8004_2407]);
                let mut words = [0u64; 8];
                (format!("ioctl {code:#x}"), control(code, words.as_mut_ptr() as u64))
            }
            22 => {
                let mut word = 0u64;
                let word = (&raw mut word).cast::<libc::c_void>();
                let which = self.random.below(7);
                // SAFETY: of a word that lives no more than that is read or written.
                let answer = unsafe {
                    match which {
                        0 => libc::write(fd, word, 8) as i64,
                        1 => libc::pread(fd, word, 8, 0) as i64,
                        2 => libc::lseek(fd, 8, libc::SEEK_SET),
                        3 => libc::fcntl(fd, libc::F_GETFD).into(),
                        4 => libc::fcntl(fd, libc::F_GETPIPE_SZ).into(),
                        5 => libc::fcntl(fd, libc::F_SETPIPE_SZ, 8192).into(),
                        _ => libc::fcntl(fd, libc::F_GETFL).into(),
                    }
                };
                (format!("file {which}"), said(answer))
            }
            _ => ("poll".to_owned(), polled(fd)),
        };
        self.tell(&format!("{at} {call}"), &answer);
    }

    /// A descriptor, and its name.
    fn descriptor(&mut self) -> (i32, String) {
        match self.random.below(12) {
            0 => (self.file.as_raw_fd(), "file".to_owned()),
            1 => (999_999, "nothing".to_owned()),
            n if self.open.is_empty() || n % 2 == 0 => (-1, "none".to_owned()),
            _ => {
                let which = self.random.below(self.open.len());
                (self.open[which].fd.as_raw_fd(), format!("event-{which}"))
            }
        }
    }

    fn open(&mut self) {
        let (group, name) = self.descriptor();
        let kind = self.random.below(24);
        let mut bytes = match (kind, self.tracepoints) {
            (0, Some(known)) => AttrBytes(image(&draw::tracepoint(&mut self.random, known))),
            (1, _) => AttrBytes(image(&draw::uprobe(&mut self.random))),
            (2..6, _) => AttrBytes(image(&draw::breakpoint(&mut self.random, WATCHED.as_ptr() as u64))),
            (6..14, _) => draw::wild(&mut self.random),
            _ => AttrBytes(image(&draw::ordinary(&mut self.random))),
        };
        let attr = Attr::peek(&bytes.0, ByteOrder::NATIVE);
        if !allowed().is_empty() && !self.random.one_in(8) {
            let mut attr = Attr::peek(&bytes.0, ByteOrder::NATIVE);
            attr.flags |= allowed() | AttrFlags::EXCLUDE_HV;
            attr.poke(&mut bytes.0, ByteOrder::NATIVE);
        }
        let own = work::thread_id() as i32;
        let (pid, whom) = self.random.of(&[
            (0, 0),
            (0, 0),
            (0, 0),
            (own, 1),
            (self.child as i32, 2),
            (-1, -1),
            (i32::MAX, i32::MAX),
        ]);
        let cpu = self.random.of(&[-1, -1, -1, -1, 0, 1, -2, 100]);
        let flags = match self.random.below(10) {
            0 => self.random.bits(5, 3),
            _ => OpenFlags::FD_CLOEXEC.bits(),
        };
        // Where the memory of this program lies is no matter.
        let mut told = bytes.0.clone();
        told.truncate(144);
        if [WATCHED.as_ptr() as u64].contains(&attr.config1)
            || PATHS.iter().any(|(path, _)| path.as_ptr() as u64 == attr.config1)
        {
            told[56..64].fill(0xaa);
        }
        let told: String = told.iter().map(|byte| format!("{byte:02x}")).collect();
        // SAFETY: a group of another process is none of ours; the number is used for this call alone.
        let group = (group != -1).then(|| unsafe { std::os::fd::BorrowedFd::borrow_raw(group) });
        let opened = perf_event_open_bytes(&mut bytes.0, pid, cpu, group, OpenFlags::from_bits_retain(flags));
        let size = Attr::peek(&bytes.0, ByteOrder::NATIVE).size;
        let answer = opened.as_ref().map_or_else(|errno| format!("{errno:?}, {size}"), |_| "ok".to_owned());
        self.tell(&format!("open {told} {whom} {cpu} {name} {flags}"), &answer);
        if let Ok(fd) = opened {
            self.open.push(Open { fd, attr, areas: Vec::new() });
        }
    }

    fn map(&mut self, at: usize) -> (String, String) {
        let pages = self.random.of(&[1, 2, 2, 2, 3, 3, 4, 5, 6, 9]);
        let offset = if self.random.one_in(4) { self.random.of(&[1, 2, 4]) * PAGE } else { 0 };
        let prot = self.random.of(&[1, 3, 3, 3, 5, 0]);
        let flags = if self.random.one_in(8) { libc::MAP_PRIVATE } else { libc::MAP_SHARED };
        let event = &mut self.open[at];
        // SAFETY: the kernel chooses the address.
        let area = unsafe {
            libc::mmap(std::ptr::null_mut(), pages * PAGE, prot, flags, event.fd.as_raw_fd(), offset as i64)
        };
        let answer = if area == libc::MAP_FAILED {
            said(-1)
        } else {
            event.areas.push((area, pages * PAGE));
            if prot & 1 != 0 && offset == 0 {
                // SAFETY: within the control page, which is mapped and readable.
                let word = |at: usize| unsafe { area.cast::<u8>().add(at).cast::<u64>().read_volatile() };
                format!(
                    "ok, version {} size {} data {}..{}",
                    word(0) as u32,
                    word(136) >> 32,
                    word(1040),
                    word(1048)
                )
            } else {
                "ok".to_owned()
            }
        };
        (format!("map {pages} {offset} {prot} {flags}"), answer)
    }

    fn end(&mut self) {
        for open in self.open.drain(..) {
            drop(open.fd);
            unmap(open.areas);
        }
    }
}

fn unmap(areas: Vec<(*mut libc::c_void, usize)>) {
    for (at, len) in areas {
        // SAFETY: it was mapped so, and nobody refers to it.
        unsafe { libc::munmap(at, len) };
    }
}

fn block_traps() {
    // SAFETY: sets of signals that live.
    unsafe {
        let mut trap: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut trap, SIGTRAP);
        libc::pthread_sigmask(libc::SIG_BLOCK, &trap, std::ptr::null_mut());
    }
}

/// How many bytes are read; of a group, how many events are in it, too.
fn read(open: &Open, words: usize) -> String {
    let mut room = vec![0u64; words];
    let read = perfuse_sys::read(open.fd.as_fd(), &mut room);
    let grouped = open.attr.read_format.contains(perfuse_abi::ReadFormat::GROUP);
    match read {
        Ok(many @ 1..) if grouped => format!("ok {many} words of {} events", room[0]),
        Ok(many) => format!("ok {many} words"),
        Err(errno) => format!("{errno:?}"),
    }
}

/// Whether there will be nothing, or something is wrong. What happens while calls are made fills rings in one and not in the other.
fn polled(fd: i32) -> String {
    let mut one = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one live entry.
    unsafe { libc::poll(&raw mut one, 1, 0) };
    format!("{:#x}", one.revents & !(libc::POLLIN | libc::POLLRDNORM))
}
