//! What is counted and recorded, on both: breakpoints on a variable that this program writes so many times.
//! Values, lost records, heads of rings and readiness must be the same after every call.

use crate::machine::{ME, Machine, Reader, USER, image};
use crate::random::{Random, seeds};
use perfuse_engine::abi::{
    Attr, AttrFlags, Breakpoint, EventType, IocFlags, OpenFlags, ReadFormat, SampleType,
};
use perfuse_engine::{Ioctl, OpenArguments};
use perfuse_sys::{Mapping, Protection, ioctl, perf_event_open_bytes, prctl};
use perfuse_testkit::Outcome;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SEQUENCES: u64 = 300;
const CALLS: usize = 40;
const PAGE: usize = 4096;
/// Where the kernel tells the head of a ring, and the reader its tail.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// What is watched.
static WATCHED: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Debug)]
enum Call {
    Open(Box<Attr>, Option<usize>, OpenFlags),
    Close(usize),
    Write(u64),
    Enable(usize, bool),
    Disable(usize, bool),
    Reset(usize, bool),
    Refresh(usize, i32),
    Period(usize, u64),
    Pause(usize, bool),
    SetOutput(usize, Option<usize>),
    Modify(usize, Box<Attr>),
    Map(usize, usize),
    Unmap(usize),
    Consume(usize),
    Poll(usize),
    Prctl(bool),
}

/// The event on both sides.
struct Open {
    mapping: Option<Mapping>,
    linux: OwnedFd,
    reader: Option<Reader>,
    engine: i32,
    attr: Attr,
}

pub(crate) fn compare(privileged: bool) -> Outcome {
    let mut samples = 0;
    for seed in seeds(SEQUENCES) {
        samples += sequence(seed, privileged);
    }
    // Rings in which nothing ever is would prove little.
    assert!(samples > 0, "nothing was recorded");
    eprintln!("{samples} bytes were recorded by both");
    Ok(())
}

fn sequence(seed: u64, privileged: bool) -> u64 {
    let mut random = Random::new(seed);
    let mut machine = Machine::new(1);
    machine.world.privileged = privileged;
    let mut open: Vec<Open> = Vec::new();
    let mut done = Vec::new();
    for _ in 0..CALLS {
        let call = call(&mut random, &open);
        done.push(call.clone());
        let (linux, engine) = both(&mut machine, &mut open, &call);
        let history = || done.iter().map(|call| format!("{call:?}\n")).collect::<String>();
        assert_eq!(engine, linux, "the engine, and Linux; PERFUSE_SEED={seed}; {}", history());
        for (at, event) in open.iter().enumerate() {
            let (linux, engine) = values(&mut machine, event);
            assert_eq!(
                engine,
                linux,
                "the engine's event {at}, and Linux'; PERFUSE_SEED={seed}; {}",
                history()
            );
        }
    }
    let heads = open.iter().filter_map(|event| event.mapping.as_ref());
    let bytes = heads.map(|mapping| mapping.load_u64(HEAD, Ordering::Acquire)).filter(|&head| head < 1 << 63);
    let bytes = bytes.sum();
    (0..open.len()).rev().for_each(|at| close(&mut machine, &mut open, at));
    bytes
}

/// Both answers: the number, or the errno's name.
type Answer = Result<u64, String>;

/// What can be read, and the head of the ring.
type Values = (Vec<u64>, Option<u64>);

/// Linux', and the engine's.
fn values(machine: &mut Machine, event: &Open) -> (Values, Values) {
    let mut words = vec![0; 64];
    let linux = perfuse_sys::read(event.linux.as_fd(), &mut words).expect("there is room");
    words.truncate(linux);
    let head = event.mapping.as_ref().map(|mapping| mapping.load_u64(HEAD, Ordering::Acquire));
    let engine = machine.words(event.engine).expect("there is room");
    ((words, head), (engine, event.reader.as_ref().map(Reader::head)))
}

fn close(machine: &mut Machine, open: &mut Vec<Open>, at: usize) {
    let event = open.remove(at);
    if event.reader.is_some() {
        let key = machine.key(event.engine);
        machine.engine.munmap(key, machine.now);
    }
    machine.close(event.engine);
}

fn both(machine: &mut Machine, open: &mut Vec<Open>, call: &Call) -> (Answer, Answer) {
    let linux =
        |result: Result<(), perfuse_sys::Errno>| result.map(|()| 0).map_err(|errno| format!("{errno:?}"));
    let engine = |result: Result<u64, perfuse_engine::abi::Errno>| {
        result.map(|_| 0).map_err(|errno| format!("{errno:?}"))
    };
    let flags = |group: bool| if group { IocFlags::GROUP } else { IocFlags::empty() };
    match *call {
        Call::Open(ref attr, group, flags) => {
            let leader = group.map(|group| open[group].linux.as_fd());
            let first = perf_event_open_bytes(&mut image(attr), 0, -1, leader, flags);
            let group_fd = group.map_or(-1, |group| open[group].engine);
            let arguments = OpenArguments { pid: 0, cpu: -1, group_fd, flags };
            let second = machine.open_bytes(ME, &mut image(attr), arguments);
            let answers =
                (linux(first.as_ref().map(|_| ()).map_err(|errno| *errno)), engine(second.map(|_| 0)));
            if let (Ok(linux), Ok(engine)) = (first, second) {
                open.push(Open { mapping: None, linux, reader: None, engine, attr: **attr });
            }
            answers
        }
        Call::Close(at) => {
            close(machine, open, at);
            (Ok(0), Ok(0))
        }
        Call::Write(times) => {
            for _ in 0..times {
                WATCHED.store(times, Ordering::SeqCst);
                let all: Vec<_> = open.iter().map(|event| machine.key(event.engine)).collect();
                machine.engine.breakpoints(&all, 0, machine.now, &USER);
            }
            (Ok(0), Ok(0))
        }
        Call::Enable(at, group) => (
            linux(ioctl::enable(open[at].linux.as_fd(), flags(group))),
            engine(machine.ioctl(open[at].engine, Ioctl::Enable { group })),
        ),
        Call::Disable(at, group) => (
            linux(ioctl::disable(open[at].linux.as_fd(), flags(group))),
            engine(machine.ioctl(open[at].engine, Ioctl::Disable { group })),
        ),
        Call::Reset(at, group) => (
            linux(ioctl::reset(open[at].linux.as_fd(), flags(group))),
            engine(machine.ioctl(open[at].engine, Ioctl::Reset { group })),
        ),
        Call::Refresh(at, more) => (
            linux(ioctl::refresh(open[at].linux.as_fd(), more)),
            engine(machine.ioctl(open[at].engine, Ioctl::Refresh(more))),
        ),
        Call::Period(at, period) => (
            linux(ioctl::period(open[at].linux.as_fd(), period)),
            engine(machine.ioctl(open[at].engine, Ioctl::Period(period))),
        ),
        Call::Pause(at, pause) => (
            linux(ioctl::pause_output(open[at].linux.as_fd(), pause)),
            engine(machine.ioctl(open[at].engine, Ioctl::PauseOutput(pause))),
        ),
        Call::SetOutput(at, target) => {
            let fd = target.map(|target| open[target].linux.as_fd());
            let key = target.map(|target| machine.key(open[target].engine));
            (
                linux(ioctl::set_output(open[at].linux.as_fd(), fd)),
                engine(machine.ioctl(open[at].engine, Ioctl::SetOutput(key))),
            )
        }
        Call::Modify(at, ref attr) => {
            let mut bytes = image(attr);
            let mut memory = perfuse_engine::AttrMemory(&mut bytes);
            (
                linux(ioctl::modify_attributes(open[at].linux.as_fd(), attr)),
                engine(machine.ioctl(open[at].engine, Ioctl::ModifyAttributes(&mut memory))),
            )
        }
        Call::Map(at, pages) => {
            let event = &mut open[at];
            let mapped = Mapping::new(event.linux.as_fd(), (pages + 1) * PAGE, Protection::ReadWrite, 0);
            let reader = machine.try_map(event.engine, pages);
            let answers = (mapped.is_ok(), reader.is_some());
            if answers == (true, true) {
                (event.mapping, event.reader) = (mapped.ok(), reader);
            }
            (Ok(answers.0.into()), Ok(answers.1.into()))
        }
        Call::Unmap(at) => {
            open[at].mapping = None;
            if open[at].reader.take().is_some() {
                let key = machine.key(open[at].engine);
                machine.engine.munmap(key, machine.now);
            }
            (Ok(0), Ok(0))
        }
        Call::Consume(at) => {
            let event = &mut open[at];
            if let (Some(mapping), Some(reader)) = (&event.mapping, &mut event.reader) {
                let head = mapping.load_u64(HEAD, Ordering::Acquire);
                mapping.store_u64(TAIL, head, Ordering::Release);
                reader.skip();
            }
            (Ok(0), Ok(0))
        }
        Call::Poll(at) => {
            let ready =
                perfuse_sys::poll::poll(&[open[at].linux.as_fd()], Some(Duration::ZERO)).expect("it works");
            let first = u64::from(ready[0].readable)
                | u64::from(ready[0].hangup) << 4
                | u64::from(ready[0].error) << 3;
            (Ok(first), Ok(u64::from(machine.poll(open[at].engine) & 0x19)))
        }
        Call::Prctl(enable) => {
            let first =
                if enable { prctl::task_perf_events_enable() } else { prctl::task_perf_events_disable() };
            machine.engine.prctl(ME, enable, machine.now);
            (linux(first), Ok(0))
        }
    }
}

fn call(random: &mut Random, open: &[Open]) -> Call {
    let group = (!open.is_empty() && random.one_in(2)).then(|| random.below(open.len()));
    if open.is_empty() || open.len() < 5 && random.one_in(5) {
        let flags = if random.one_in(5) {
            OpenFlags::from_bits_retain(random.bits(2, 2))
        } else {
            OpenFlags::empty()
        };
        return Call::Open(Box::new(breakpoint(random)), group, flags);
    }
    let (at, flag) = (random.below(open.len()), random.one_in(2));
    match random.below(22) {
        // Who closes a leader that is off leaves members whose turn Linux and the engine choose differently.
        0 if group.is_none() && open.len() == 1 => Call::Close(at),
        1..=6 => Call::Write(random.of(&[1, 2, 3, 10, 150])),
        7 | 8 => Call::Enable(at, flag),
        9 => Call::Disable(at, flag),
        10 => Call::Reset(at, flag),
        11 => Call::Refresh(at, random.of(&[0, 1, 5, 100, -1])),
        12 => Call::Period(at, random.of(&[0, 1, 4, 20, 1 << 63])),
        13 => Call::Pause(at, flag),
        14 => Call::SetOutput(at, flag.then(|| random.below(open.len()))),
        15 => {
            let mut attr = open[at].attr;
            attr.config2 = random.of(&[1, 2, 3, 8]);
            attr.flags.set(AttrFlags::DISABLED, flag);
            attr.sample_period += u64::from(random.one_in(6));
            Call::Modify(at, Box::new(attr))
        }
        16 | 17 if open[at].mapping.is_none() => Call::Map(at, random.of(&[0, 1, 1, 2, 3])),
        18 if random.one_in(3) => Call::Unmap(at),
        19 => Call::Consume(at),
        20 => Call::Prctl(flag),
        _ => Call::Poll(at),
    }
}

/// A breakpoint on the variable, with samples of a known size.
fn breakpoint(random: &mut Random) -> Attr {
    let mut attr = Attr::new(EventType::BREAKPOINT);
    attr.size = Attr::SIZE_VER8;
    attr.bp_type = Breakpoint(random.of(&[2, 3]));
    attr.config1 = WATCHED.as_ptr() as u64;
    attr.config2 = random.of(&[1, 4, 8]);
    attr.sample_period = random.of(&[0, 1, 1, 2, 3, 7, 50]);
    let fields = [
        SampleType::IP,
        SampleType::TID,
        SampleType::TIME,
        SampleType::ADDR,
        SampleType::CPU,
        SampleType::PERIOD,
        SampleType::ID,
        SampleType::READ | SampleType::TID,
        SampleType::WEIGHT,
        SampleType::RAW,
    ];
    attr.sample_type =
        fields.iter().filter(|_| random.one_in(5)).fold(SampleType::empty(), |all, one| all | *one);
    attr.read_format = random.of(&[
        ReadFormat::empty(),
        ReadFormat::GROUP,
        ReadFormat::LOST,
        ReadFormat::GROUP | ReadFormat::LOST,
    ]);
    let flags = [
        AttrFlags::DISABLED,
        AttrFlags::PINNED,
        AttrFlags::EXCLUSIVE,
        AttrFlags::SAMPLE_ID_ALL,
        AttrFlags::WATERMARK,
        AttrFlags::WRITE_BACKWARD,
        AttrFlags::INHERIT,
    ];
    attr.flags =
        flags.iter().filter(|_| random.one_in(7)).fold(AttrFlags::EXCLUDE_KERNEL, |all, flag| all | *flag);
    attr.wakeup = random.of(&[0, 1, 3, 100]);
    attr
}
