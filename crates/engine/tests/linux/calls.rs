//! Sequences of calls, made on both: every answer must be the same.

use crate::call::{Call, Fd};
use crate::draw::{self, PATHS, Tracepoints};
use crate::image::{AttrBytes, image};
use crate::machine::{Machine, PAGE};
use crate::pair::{Answers, Disturbed, Pair};
use crate::random::{Random, asked, seeds};
use perfuse_engine::abi::{Attr, AttrFlags, Errno, EventType, OpenFlags};
use perfuse_engine::{CgroupId, Filter, MapRequest, ProbePmu, Probes, ProgramKind};
use perfuse_sys::signal::{SIGTRAP, Signals};
use perfuse_testkit::bpf::{Program, ProgramType};
use perfuse_testkit::{Outcome, need, work};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::rc::Rc;

/// How many sequences, and how many calls each.
const SEQUENCES: u64 = 100;
const CALLS: usize = 24;

/// A difference that is known, and why it is there.
struct Exception {
    why: &'static str,
    applies: fn(&Call, &Answers) -> bool,
}

/// The differences between the two.
const EXCEPTIONS: &[Exception] = &[Exception {
    why: "what happens while calls are made (ticks, faults, switches) fills rings of Linux, and the engine is not \
          told of it: there nothing is to be read",
    applies: |call, answers| matches!((call, &answers.linux, &answers.engine), (Call::Poll(_), Ok(linux), Ok(engine)) if linux ^ engine == 1),
}];

pub(crate) fn compare(privileged: bool) -> Outcome {
    // Events with sigtrap would end this program.
    let traps = Signals::collect(&[SIGTRAP]).expect("signals can be blocked");
    let mut tally = Tally::default();
    let world = World::find();
    for seed in seeds(SEQUENCES) {
        Disturbed::until_not(|| sequence(seed, privileged, &world, &mut tally));
    }
    while traps.next().is_some() {}
    // A generator that only ever fails, or never does, would prove little.
    assert!(tally.answers.len() > 5, "{:?}", tally.answers);
    eprintln!("{:?}", tally.answers);
    for (exception, times) in EXCEPTIONS.iter().zip(&tally.exceptions) {
        eprintln!("{times} times they differ: {}", exception.why);
    }
    Ok(())
}

/// The targets on this machine besides this program.
struct World {
    tracepoints: Option<Tracepoints>,
    /// A folder that is a cgroup, and one that is none.
    cgroup: Option<File>,
    folder: File,
    /// BPF programs, if this user may load any.
    programs: Rc<[Program]>,
}

/// Two of each kind, but for the one that may be attached to everything that is no tracing event.
const PROGRAMS: [(ProgramType, ProgramKind); 5] = [
    (ProgramType::PerfEvent, ProgramKind::PerfEvent),
    (ProgramType::Tracepoint, ProgramKind::Tracepoint),
    (ProgramType::Tracepoint, ProgramKind::Tracepoint),
    (ProgramType::Kprobe, ProgramKind::Kprobe),
    (ProgramType::Kprobe, ProgramKind::Kprobe),
];

impl World {
    fn find() -> Self {
        let folder = File::open("/proc").expect("it is always there");
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let cgroup = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let cgroup = cgroup.into_iter().find(|words| words.get(2) == Some(&"cgroup2"));
        let cgroup = cgroup.and_then(|words| File::open(words[1]).ok());
        let programs = PROGRAMS.iter().map(|(type_, _)| Program::returning(*type_, 1).ok());
        let programs = programs.collect::<Option<Rc<[Program]>>>().unwrap_or_default();
        World { tracepoints: tracepoints(), cgroup, folder, programs }
    }

    /// A new machine of which the same is true.
    fn pair(&self, privileged: bool) -> Pair {
        let mut pair = Pair::new(online_cpus(), privileged);
        pair.know_programs(&self.programs, &PROGRAMS.map(|(_, kind)| kind));
        let Machine { engine, world, .. } = &mut pair.machine;
        let uprobes = engine.register(Box::new(ProbePmu::uprobe(Box::new(Paths))));
        uprobes.expect("there is no other");
        if let Some(known) = self.tracepoints {
            engine.declare_open_tracepoint(known.open);
            engine.declare_tracepoint(known.closed);
            engine.set_filter_maker(filter_of);
        }
        if let Some(cgroup) = &self.cgroup {
            world.cgroups.insert(cgroup.as_raw_fd(), CgroupId(1));
        }
        pair
    }
}

/// The tracepoints, also where the user may not look for them: then they were looked for before.
pub(crate) fn tracepoints() -> Option<Tracepoints> {
    if let (Some(open), Some(closed)) = (asked("PERFUSE_OPEN_TRACEPOINT"), asked("PERFUSE_TRACEPOINT")) {
        return Some(Tracepoints { open, closed });
    }
    let events = need::tracefs().ok()?.join("events");
    let id = |name: &str| std::fs::read_to_string(events.join(name).join("id")).ok()?.trim().parse().ok();
    Some(Tracepoints { open: id("syscalls/sys_enter_getppid")?, closed: id("sched/sched_process_fork")? })
}

/// Filters of tracepoints: those of [`FILTERS`].
fn filter_of(_id: u64, text: &str) -> Result<Filter, Errno> {
    let known = FILTERS.iter().find(|(filter, _)| filter.to_str() == Ok(text));
    known.map_or(Err(Errno::EINVAL), |(_, answer)| answer.map(|()| Box::new(|_: &[u8]| true) as Filter))
}

/// Answers as the kernel does for [`PATHS`].
#[derive(Debug)]
struct Paths;

impl Probes for Paths {
    fn set(&mut self, attr: &Attr, _returns: bool) -> Result<u64, Errno> {
        let path = PATHS.iter().find(|(path, _)| path.as_ptr() as u64 == attr.config1);
        path.map_or(Err(Errno::EFAULT), |(_, answer)| answer.map(|()| 1))
    }

    fn clear(&mut self, _number: u64) {}

    fn filter(&mut self, number: u64, text: &str) -> Result<Filter, Errno> {
        filter_of(number, text)
    }
}

#[derive(Default)]
struct Tally {
    answers: BTreeMap<String, u64>,
    exceptions: Vec<u64>,
}

impl Tally {
    fn count(&mut self, call: &Call, answers: &Answers) {
        let kind = format!("{call:?}");
        let kind = kind.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let answer = answers.linux.as_ref().map_or_else(|errno| errno.as_str(), |_| "ok");
        *self.answers.entry(format!("{kind} {answer}")).or_insert(0) += 1;
    }

    /// Whether a difference is a known one.
    fn excuses(&mut self, call: &Call, answers: &Answers) -> bool {
        self.exceptions.resize(EXCEPTIONS.len(), 0);
        let known = EXCEPTIONS.iter().position(|exception| (exception.applies)(call, answers));
        known.inspect(|&known| self.exceptions[known] += 1).is_some()
    }
}

fn sequence(seed: u64, privileged: bool, world: &World, tally: &mut Tally) -> Result<(), Disturbed> {
    let mut random = Random::new(seed);
    let mut pair = world.pair(privileged);
    let mut done: Vec<Call> = Vec::new();
    for _ in 0..CALLS {
        let call = call(&mut random, &pair, world);
        done.push(call.clone());
        let answers = pair.make(&call)?;
        tally.count(&call, &answers);
        let history = || done.iter().map(|call| format!("{call:?}\n")).collect::<String>();
        if answers.engine != answers.linux {
            let known = tally.excuses(&call, &answers);
            assert!(known, "{answers:?}; PERFUSE_SEED={seed}; {}", history());
        }
    }
    Ok(())
}

fn online_cpus() -> u32 {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    online.trim().rsplit(['-', ',']).next().and_then(|last| last.parse().ok()).map_or(1, |last: u32| last + 1)
}

fn call(random: &mut Random, pair: &Pair, world: &World) -> Call {
    let open = pair.open.len();
    if open == 0 || open < 6 && random.one_in(2) {
        return open_call(random, pair, world);
    }
    let at = random.below(open);
    let event = &pair.open[at];
    let flag = random.one_in(2);
    let kid = (!pair.kids.is_empty()).then(|| random.below(pair.kids.len()));
    match (random.below(26), kid) {
        (0, _) => Call::Close(at),
        (1 | 2, _) => Call::Read(at, random.of(&[0, 1, 2, 3, 5, 16, 64])),
        (3, _) => Call::Enable(at, flag),
        (4, _) => Call::Disable(at, flag),
        (5, _) => Call::Reset(at, flag),
        (6, _) => Call::Refresh(at, random.of(&[0, 1, 5, -1])),
        (7, _) => Call::Period(at, random.of(&[0, 1, 1000, 100_000, 100_001, 1 << 62, 1 << 63])),
        (8, _) => Call::Pause(at, flag),
        (9, _) => Call::SetOutput(at, draw_fd(random, open, 2)),
        (10 | 11, _) => Call::Filter(at, filter(random)),
        (12, _) => Call::Modify(at, Box::new(modified(random, event.attr.unwrap_or_default()))),
        (13 | 14, _) => map(random, pair, at),
        (15, _) if !event.areas.is_empty() => Call::Unmap(at, random.below(event.areas.len())),
        (16, _) if !pair.left.is_empty() => Call::UnmapClosed(random.below(pair.left.len())),
        (17, _) => {
            let page = PAGE as u64;
            let word = random.of(&[1032, 1056, 1064, 1064, 1072]);
            Call::Tell(at, word, random.of(&[0, page, 2 * page, 3 * page, 4 * page, !0]))
        }
        (18, _) => Call::Prctl(flag),
        (19, None) => Call::Fork,
        (19, Some(_)) if pair.kids.len() < 2 => Call::Fork,
        (20, Some(kid)) if pair.kids[kid].ended => Call::Reap(kid),
        (20, Some(kid)) => Call::ChildEnds(kid),
        (24, _) => {
            let which = random.below(pair.programs.len() + 1);
            Call::SetBpf(at, (which < pair.programs.len()).then_some(which))
        }
        (25, _) => Call::QueryBpf(at),
        _ => Call::Poll(at),
    }
}

/// None, an event, or one in `others` cases something else.
fn draw_fd(random: &mut Random, open: usize, others: usize) -> Fd {
    match random.below(8 * others) {
        0 => Fd::File,
        n if open == 0 || n % 2 == 0 => Fd::None,
        _ => Fd::Event(random.below(open)),
    }
}

fn map(random: &mut Random, pair: &Pair, at: usize) -> Call {
    // One of the size that is there already, or that was told for the AUX area.
    let again = pair.open[at].ring().map(|area| area.linux.len() / PAGE);
    let offset = if random.one_in(4) { random.of(&[1, 2, 3, 4]) * PAGE as u64 } else { 0 };
    let pages = match again {
        Some(pages) if offset == 0 && random.one_in(2) => pages,
        _ => random.of(&[1, 2, 2, 2, 3, 3, 4, 5, 6, 9]),
    };
    Call::Map(at, MapRequest { pages, offset, shared: !random.one_in(8), writable: !random.one_in(5) })
}

/// Texts, and what tracepoints say to them: filters of fields that all have, and others (rule J34).
const FILTERS: [(&CStr, Result<(), Errno>); 12] = [
    (c"common_pid == 1", Ok(())),
    (c"common_pid != 0 && (common_type > 3 || !(common_pid & 1))", Ok(())),
    (c"comm ~ \"a*\"", Ok(())),
    (c"", Err(Errno::EINVAL)),
    (c"0", Err(Errno::EINVAL)),
    (c"x == 1", Err(Errno::EINVAL)),
    (c"common_pid ==", Err(Errno::EINVAL)),
    (c"common_pid ~ \"1\"", Err(Errno::EINVAL)),
    (c"(common_pid == 1", Err(Errno::ENOENT)),
    (c"common_pid == 1)", Err(Errno::EPERM)),
    (c"comm == \"a", Err(Errno::ESRCH)),
    (c"filter 0x10/0x20@/bin/sh", Err(Errno::EINVAL)),
];

fn filter(random: &mut Random) -> CString {
    match random.below(12) {
        0 => CString::new(vec![b'x'; random.of(&[4094, 4095, 4096, 5000])]).expect("no zeros"),
        _ => random.of(&FILTERS).0.to_owned(),
    }
}

/// Another attr for `MODIFY_ATTRIBUTES`.
fn modified(random: &mut Random, mut attr: Attr) -> Attr {
    match random.below(5) {
        0 => attr.type_ = random.of(&[EventType::SOFTWARE, EventType::BREAKPOINT]),
        1 => attr.flags.toggle(AttrFlags::DISABLED),
        2 => attr.sample_period += 1,
        3 => attr.size = random.of(&[0, 64, 112, 128, 136]),
        _ => {}
    }
    if random.one_in(2) {
        attr.config2 = random.of(&[1, 2, 3, 4, 8, 16]);
        attr.config1 = random.of(&[8, 0x1000, 0x1001, 0x7fff_ffff_fff8, !0, 1 << 63]);
    }
    attr
}

fn open_call(random: &mut Random, pair: &Pair, world: &World) -> Call {
    let group = draw_fd(random, pair.open.len(), 3);
    let me = work::thread_id() as i32;
    let mut pids = vec![0, 0, 0, 0, me];
    pids.extend(pair.kids.iter().map(|kid| kid.pid() as i32));
    let kind = random.below(12);
    let (attr, mut pid, cpu);
    if kind < 8 {
        let drawn = match (kind, world.tracepoints) {
            (0 | 1, Some(known)) => draw::tracepoint(random, known),
            (2, _) => draw::uprobe(random),
            _ => draw::ordinary(random),
        };
        attr = AttrBytes(image(&drawn));
        let own = random.of(&pids);
        (pid, cpu) = random.of(&[(own, -1), (own, -1), (0, -1), (0, 0), (me, -1), (-1, 0), (-1, 1)]);
    } else {
        attr = draw::wild(random);
        pids.extend([-1, -2, i32::MAX]);
        (pid, cpu) = (random.of(&pids), random.of(&[-1, -1, -1, 0, 0, 1, -2, 100]));
    }
    let flags = match random.below(14) {
        0 => random.bits(5, 3),
        1 => OpenFlags::PID_CGROUP.bits(),
        2 => OpenFlags::FD_OUTPUT.bits() | OpenFlags::FD_NO_GROUP.bits(),
        _ => 0,
    };
    if flags & OpenFlags::PID_CGROUP.bits() != 0 && random.one_in(2) {
        let cgroup = world.cgroup.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        pid = random.of(&[cgroup, cgroup, world.folder.as_raw_fd(), pair.file(), 9999]);
    }
    Call::Open { attr, pid, cpu, group, flags }
}
