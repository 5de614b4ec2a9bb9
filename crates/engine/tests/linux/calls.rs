//! Sequences of calls, made on both.

use crate::machine::{ME, Machine, image};
use crate::random::{Random, seeds};
use perfuse_engine::abi::{
    Attr, AttrFlags, Breakpoint, ByteOrder, EventType, OpenFlags, ReadFormat, SampleType,
};
use perfuse_engine::{Ioctl, OpenArguments};
use perfuse_sys::signal::{SIGTRAP, Signals};
use perfuse_sys::{ioctl, perf_event_open_bytes};
use perfuse_testkit::Outcome;
use std::os::fd::{AsFd, OwnedFd};

/// How many sequences, and how many calls each.
const SEQUENCES: u64 = 3000;
const CALLS: usize = 24;

/// An attr in memory; printed as what it says.
#[derive(Clone)]
struct AttrBytes(Vec<u8>);

impl std::fmt::Debug for AttrBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Attr::decode(&self.0, ByteOrder::NATIVE) {
            Ok(wire) => write!(f, "{}", wire.attr),
            Err(error) => write!(f, "{error}"),
        }
    }
}

/// A call with its arguments; events are named by their place in the list of those that are open.
#[derive(Clone, Debug)]
enum Call {
    Open { attr: AttrBytes, pid: i32, cpu: i32, group: Option<usize>, flags: u64 },
    Close(usize),
    Read(usize, usize),
    Enable(usize, bool),
    Disable(usize, bool),
    Reset(usize, bool),
    Refresh(usize, i32),
    Period(usize, u64),
    Pause(usize, bool),
    SetOutput(usize, Option<usize>),
    Filter(usize, &'static std::ffi::CStr),
}

/// The event on both sides.
struct Open {
    linux: OwnedFd,
    engine: i32,
}

pub(crate) fn compare(privileged: bool) -> Outcome {
    // Events with sigtrap would end this program.
    let traps = Signals::collect(&[SIGTRAP]).expect("signals can be blocked");
    let mut answers = std::collections::BTreeMap::new();
    for seed in seeds(SEQUENCES) {
        sequence(seed, privileged, &mut answers);
    }
    while traps.next().is_some() {}
    // A generator that only ever fails, or never does, would prove little.
    assert!(answers.len() > 5, "{answers:?}");
    eprintln!("{answers:?}");
    Ok(())
}

fn sequence(seed: u64, privileged: bool, answers: &mut std::collections::BTreeMap<String, u64>) {
    let mut random = Random::new(seed);
    let mut machine = Machine::new(online_cpus());
    machine.world.privileged = privileged;
    let me = std::process::id();
    machine.world.tasks.insert(me, ME);
    let mut open: Vec<Open> = Vec::new();
    let mut done: Vec<Call> = Vec::new();
    for _ in 0..CALLS {
        let call = call(&mut random, open.len(), me);
        done.push(call.clone());
        let (linux, engine) = both(&mut machine, &mut open, &call);
        let kind = format!("{call:?}");
        let kind = kind.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        *answers
            .entry(format!(
                "{kind} {}",
                linux.as_ref().map_or_else(|errno| format!("{errno:?}"), |_| "ok".into())
            ))
            .or_insert(0) += 1;
        assert_eq!(engine, linux, "the engine, and Linux; PERFUSE_SEED={seed}; {}", history(&done));
    }
    for event in open {
        machine.close(event.engine);
    }
}

fn online_cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)
}

fn history(done: &[Call]) -> String {
    done.iter().map(|call| format!("{call:?}\n")).collect()
}

/// Both answers: the number, or the errno's name.
type Answer = Result<u64, String>;

fn both(machine: &mut Machine, open: &mut Vec<Open>, call: &Call) -> (Answer, Answer) {
    let linux =
        |result: Result<(), perfuse_sys::Errno>| result.map(|()| 0).map_err(|errno| format!("{errno:?}"));
    let engine = |result: Result<u64, perfuse_engine::abi::Errno>| {
        result.map(|_| 0).map_err(|errno| format!("{errno:?}"))
    };
    match call {
        Call::Open { attr, pid, cpu, group, flags } => {
            let leader = group.map(|group| open[group].linux.as_fd());
            let flags = OpenFlags::from_bits_retain(*flags);
            let mut bytes = attr.0.clone();
            let first = perf_event_open_bytes(&mut bytes, *pid, *cpu, leader, flags);
            let group_fd = group.map_or(-1, |group| open[group].engine);
            let arguments = OpenArguments { pid: *pid, cpu: *cpu, group_fd, flags };
            let mut other = attr.0.clone();
            let second = machine.open_bytes(ME, &mut other, arguments);
            let answers =
                (linux(first.as_ref().map(|_| ()).map_err(|errno| *errno)), engine(second.map(|_| 0)));
            let size = |bytes: &[u8]| u32::from_ne_bytes(bytes[4..8].try_into().expect("four bytes"));
            assert_eq!(size(&other), size(&bytes), "the size that is told");
            match (first, second) {
                (Ok(linux), Ok(engine)) => open.push(Open { linux, engine }),
                // The difference is told by the caller.
                (_, Ok(engine)) => machine.close(engine),
                _ => {}
            }
            answers
        }
        Call::Close(at) => {
            let event = open.remove(*at);
            machine.close(event.engine);
            (Ok(0), Ok(0))
        }
        Call::Read(at, room) => {
            let mut words = vec![0; *room];
            let first = perfuse_sys::read(open[*at].linux.as_fd(), &mut words);
            let first = first.map(|words| words as u64 * 8).map_err(|errno| format!("{errno:?}"));
            let mut bytes = Vec::new();
            let key = machine.key(open[*at].engine);
            let second = machine.engine.read(key, machine.now, room * 8, &mut bytes);
            (first, second.map(|()| bytes.len() as u64).map_err(|errno| format!("{errno:?}")))
        }
        Call::Enable(at, group) | Call::Disable(at, group) | Call::Reset(at, group) => {
            let fd = open[*at].linux.as_fd();
            use perfuse_engine::abi::IocFlags;
            let flags = if *group { IocFlags::GROUP } else { IocFlags::empty() };
            let group = *group;
            let (first, second) = match call {
                Call::Enable(..) => (ioctl::enable(fd, flags), Ioctl::Enable { group }),
                Call::Disable(..) => (ioctl::disable(fd, flags), Ioctl::Disable { group }),
                _ => (ioctl::reset(fd, flags), Ioctl::Reset { group }),
            };
            (linux(first), engine(machine.ioctl(open[*at].engine, second)))
        }
        Call::Refresh(at, more) => {
            let first = ioctl::refresh(open[*at].linux.as_fd(), *more);
            (linux(first), engine(machine.ioctl(open[*at].engine, Ioctl::Refresh(*more))))
        }
        Call::Period(at, period) => {
            let first = ioctl::period(open[*at].linux.as_fd(), *period);
            (linux(first), engine(machine.ioctl(open[*at].engine, Ioctl::Period(*period))))
        }
        Call::Pause(at, pause) => {
            let first = ioctl::pause_output(open[*at].linux.as_fd(), *pause);
            (linux(first), engine(machine.ioctl(open[*at].engine, Ioctl::PauseOutput(*pause))))
        }
        Call::SetOutput(at, target) => {
            let first =
                ioctl::set_output(open[*at].linux.as_fd(), target.map(|target| open[target].linux.as_fd()));
            let target = target.map(|target| machine.key(open[target].engine));
            (linux(first), engine(machine.ioctl(open[*at].engine, Ioctl::SetOutput(target))))
        }
        Call::Filter(at, text) => {
            let first = ioctl::set_filter(open[*at].linux.as_fd(), text);
            let text = text.to_str().expect("plain text");
            (linux(first), engine(machine.ioctl(open[*at].engine, Ioctl::SetFilter(text))))
        }
    }
}

fn call(random: &mut Random, open: usize, me: u32) -> Call {
    if open == 0 || open < 6 && random.one_in(2) {
        return open_call(random, open, me);
    }
    let at = random.below(open);
    let flag = random.one_in(2);
    match random.below(11) {
        0 => Call::Close(at),
        1 | 2 => Call::Read(at, random.of(&[0, 1, 2, 3, 5, 16, 64])),
        3 => Call::Enable(at, flag),
        4 => Call::Disable(at, flag),
        5 => Call::Reset(at, flag),
        6 => Call::Refresh(at, random.of(&[0, 1, 5, -1])),
        7 => Call::Period(at, random.of(&[0, 1, 1000, 100_000, 100_001, 1 << 62, 1 << 63])),
        8 => Call::Pause(at, flag),
        9 => Call::SetOutput(at, flag.then(|| random.below(open))),
        _ => Call::Filter(at, random.of(&[c"", c"x == 1", c"0"])),
    }
}

/// What programs ask for: most of it is accepted.
fn ordinary(random: &mut Random) -> Attr {
    let mut attr = Attr::new(random.of(&[
        EventType::SOFTWARE,
        EventType::SOFTWARE,
        EventType::SOFTWARE,
        EventType::BREAKPOINT,
    ]));
    attr.config = random.below(12) as u64;
    if attr.type_ == EventType::BREAKPOINT {
        attr.bp_type = Breakpoint(random.of(&[2, 3]));
        attr.config1 = random.of(&[8, 0x1000, 0x10_0000]);
        attr.config2 = random.of(&[1, 2, 4, 8]);
    }
    if random.one_in(2) {
        attr.sample_period = random.of(&[1, 2, 1000, 99_999]);
    }
    let sampled = [
        SampleType::IP,
        SampleType::TID,
        SampleType::TIME,
        SampleType::CPU,
        SampleType::PERIOD,
        SampleType::CALLCHAIN,
        SampleType::IDENTIFIER,
        SampleType::READ | SampleType::TID,
    ];
    if random.one_in(2) {
        attr.sample_type = random.of(&sampled) | random.of(&sampled);
    }
    attr.read_format = ReadFormat::from_bits_retain(random.bits(5, 2));
    let flags = [
        AttrFlags::DISABLED,
        AttrFlags::INHERIT,
        AttrFlags::EXCLUDE_KERNEL,
        AttrFlags::FREQ,
        AttrFlags::SAMPLE_ID_ALL,
        AttrFlags::MMAP,
        AttrFlags::COMM,
        AttrFlags::TASK,
        AttrFlags::WATERMARK,
        AttrFlags::PINNED,
        AttrFlags::EXCLUSIVE,
        AttrFlags::USE_CLOCKID,
    ];
    attr.flags = flags.iter().filter(|_| random.one_in(6)).fold(AttrFlags::empty(), |all, flag| all | *flag);
    attr.clockid = random.of(&[0, 1, 1, 4, 7]);
    attr.size = Attr::SIZE_VER8;
    attr
}

fn open_call(random: &mut Random, open: usize, me: u32) -> Call {
    let group = (open > 0 && random.one_in(2)).then(|| random.below(open));
    if !random.one_in(3) {
        let attr = AttrBytes(image(&ordinary(random)));
        let (pid, cpu) = random.of(&[(0, -1), (0, -1), (0, -1), (0, 0), (me as i32, -1), (-1, 0), (-1, 1)]);
        let flags = if random.one_in(9) { random.bits(4, 3) & !4 } else { 0 };
        return Call::Open { attr, pid, cpu, group, flags };
    }
    let mut attr = Attr::new(random.of(&[
        EventType::SOFTWARE,
        EventType::SOFTWARE,
        EventType::SOFTWARE,
        EventType::BREAKPOINT,
        EventType::HARDWARE,
        EventType::RAW,
        EventType::HW_CACHE,
        EventType(6),
        EventType(7),
        EventType(99),
    ]));
    attr.config = match random.below(10) {
        0 => random.next(),
        1 => (random.below(8) as u64) << 32 | random.below(12) as u64,
        _ => random.below(14) as u64,
    };
    if attr.type_ == EventType::BREAKPOINT {
        attr.bp_type = Breakpoint(random.of(&[0, 1, 2, 3, 3, 2, 4, 5, 7, 8]));
        attr.config1 = random.of(&[0, 8, 0x1001, 0x10_0000, 0x7fff_ffff_fff8, !0, 1 << 63, !0 - 7]);
        attr.config2 = random.of(&[0, 1, 2, 3, 4, 8, 8, 16, 24]);
    }
    if random.one_in(2) {
        attr.sample_period = random.of(&[1, 2, 1000, 99_999, 100_000, 100_001, 1 << 63]);
    }
    if random.one_in(2) {
        attr.sample_type = SampleType::from_bits_retain(random.bits(26, 8));
    }
    if random.one_in(2) {
        attr.read_format = ReadFormat::from_bits_retain(random.bits(5, 2) | random.bits(6, 40));
    }
    attr.flags = AttrFlags::from_bits_retain(random.bits(38, 14) | random.bits(42, 200));
    if random.one_in(8) {
        attr.flags |= AttrFlags::SIGTRAP | AttrFlags::REMOVE_ON_EXEC;
    }
    if random.one_in(8) {
        attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    } else if random.one_in(3) {
        attr.flags |= AttrFlags::EXCLUDE_KERNEL;
    }
    attr.wakeup = random.below(3) as u32;
    if random.one_in(4) {
        attr.branch_sample_type = perfuse_engine::abi::BranchSampleType::from_bits_retain(random.bits(21, 5));
    }
    if random.one_in(3) {
        attr.sample_regs_user = random.bits(24, 4) | random.bits(40, 60);
    }
    if random.one_in(4) {
        attr.sample_regs_intr = random.bits(24, 4) | random.bits(40, 60);
    }
    if random.one_in(4) {
        attr.sample_stack_user = random.of(&[8, 7, 4096, 65528, 65535, 65536]);
    }
    if random.one_in(4) {
        attr.clockid = random.of(&[0, 1, 2, 4, 7, 11, 12, -1]);
    }
    if random.one_in(6) {
        attr.sample_max_stack = random.of(&[1, 127, 128]);
    }
    if random.one_in(12) {
        attr.aux_sample_size = 8;
    }
    if random.one_in(12) {
        attr.aux_action = perfuse_engine::abi::AuxAction::from_bits_retain(random.below(9) as u32);
    }
    attr.size = match random.below(8) {
        0 => random.of(&[0, 64, 72, 80, 96, 104, 112, 120, 128]),
        1 => random.of(&[63, 65, 100, 137, 200, 4096, 4097]),
        _ => Attr::SIZE_VER8,
    };
    let size = attr.size as usize;
    let mut bytes = image(&attr);
    bytes.resize(size.max(4104), 0);
    if size > 136 && random.one_in(2) {
        bytes[136 + random.below(size.min(4096) - 136)] = 1;
    }
    Call::Open {
        attr: AttrBytes(bytes),
        pid: random.of(&[0, 0, 0, 0, me as i32, -1, -2, i32::MAX]),
        cpu: random.of(&[-1, -1, -1, 0, 0, 1, -2, 100]),
        group,
        flags: if random.one_in(5) { random.bits(5, 3) & !4 } else { 0 },
    }
}
