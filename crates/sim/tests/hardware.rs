//! The hardware of this machine and that of the simulated one, asked for the same: events that are refused, that
//! fail, that gets which share of the time, how many samples there are. Wants a PMU with one counter for cycles and
//! six for everything, which is what the arm64 machine of `.ci/cross-test` emulates.

use perfuse_engine::abi::{
    Attr, AttrFlags, EventType, Hardware, OpenFlags, ReadFormat, SampleType, page::offset,
};
use perfuse_engine::{MapRequest, OpenArguments};
use perfuse_sim::{KINDS, Machine, NAMES, PmuModel, Setup, Step, program};
use perfuse_sys::{Mapping, Protection, perf_event_open, read};
use perfuse_testkit::{Outcome, Skip, need, suite, work};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

suite! {
    witnesses:
        events_that_fit_count_all_the_time,
        counters_are_shared_in_turns,
        pinned_events_that_do_not_fit_fail,
        pinned_events_leave_the_rest_to_others,
        an_exclusive_event_is_alone,
        groups_take_turns_as_a_whole,
        a_group_that_could_never_fit_is_refused,
        nothing_is_counted_where_all_modes_are_left_out,
        samples_come_once_a_period;
}

/// How long each setting is measured.
const TIME: Duration = Duration::from_millis(300);
/// Shares may differ by so much: the machine does other things too.
const TOLERANCE: f64 = 0.1;

/// An event: its kind, its flags, its leader by its place in the list.
#[derive(Clone, Copy, Debug)]
struct Asked {
    what: Hardware,
    flags: AttrFlags,
    leader: Option<usize>,
}

/// The outcome of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Refused(i32),
    Failed,
    /// It counted this share of the time, and anything at all.
    Counted(f64, bool),
}

fn cycles() -> Asked {
    Asked { what: Hardware::CPU_CYCLES, flags: AttrFlags::EXCLUDE_KERNEL, leader: None }
}

fn with(asked: Asked, flags: AttrFlags) -> Asked {
    Asked { flags: asked.flags | flags, ..asked }
}

fn attr(asked: &Asked) -> Attr {
    Attr {
        config: asked.what.0,
        size: Attr::SIZE_VER5,
        flags: asked.flags,
        read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
        ..Attr::new(EventType::HARDWARE)
    }
}

fn fate(words: &[u64]) -> Fate {
    match *words {
        [value, enabled, running] => Fate::Counted(running as f64 / enabled as f64, value > 0),
        _ => Fate::Failed,
    }
}

fn on_linux(asked: &[Asked]) -> Vec<Fate> {
    let mut open: Vec<Result<OwnedFd, i32>> = Vec::new();
    for one in asked {
        let leader = one.leader.and_then(|leader| open[leader].as_ref().ok()).map(AsFd::as_fd);
        let fd = perf_event_open(&mut attr(one), 0, -1, leader, OpenFlags::empty());
        open.push(fd.map_err(|errno| errno.0));
    }
    work::burn(TIME);
    let all = open.iter().map(|fd| match fd {
        Err(errno) => Fate::Refused(*errno),
        Ok(fd) => {
            let mut words = [0; 3];
            let len = read(fd.as_fd(), &mut words).expect("it can be read");
            fate(&words[..len])
        }
    });
    all.collect()
}

/// A machine with the same counters, and a task that works all the time.
fn machine() -> (Machine, perfuse_engine::TaskId) {
    let fixed = NAMES.iter().position(|&name| name == "cycles").into_iter().collect();
    let pmu = PmuModel { counters: 6, fixed, ..PmuModel::default() };
    let mut machine = Machine::new(Setup { pmu: Some(pmu), ..Setup::default() });
    let work = Step::Compute { ns: u64::MAX / 4, kernel: false, rates: [1000; KINDS] };
    machine.know(program("work", vec![work]));
    let task = machine.spawn("work").expect("it is known");
    machine.run_until(1000);
    (machine, task)
}

fn on_engine(asked: &[Asked]) -> Vec<Fate> {
    let (mut machine, task) = machine();
    let mut open: Vec<Result<i32, i32>> = Vec::new();
    for one in asked {
        let group_fd = one.leader.and_then(|leader| open[leader].ok()).unwrap_or(-1);
        let arguments = OpenArguments { group_fd, ..OpenArguments::default() };
        match machine.open(task, &attr(one), arguments) {
            Ok(fd) => open.push(Ok(fd)),
            Err(errno) => open.push(Err(errno.0)),
        }
    }
    machine.run_until(machine.now() + TIME.as_nanos() as u64);
    let all = open.into_iter().map(|fd| match fd {
        Err(errno) => Fate::Refused(errno),
        Ok(fd) => fate(&machine.read(fd).expect("it can be read")),
    });
    all.collect()
}

/// Both answers, which must agree; that of Linux.
fn compare(asked: &[Asked]) -> Result<Vec<Fate>, Skip> {
    seven_counters()?;
    let (linux, engine) = (on_linux(asked), on_engine(asked));
    for (at, pair) in linux.iter().zip(&engine).enumerate() {
        let same = match pair {
            (Fate::Counted(a, any), Fate::Counted(b, other)) => (a - b).abs() < TOLERANCE && any == other,
            (a, b) => a == b,
        };
        assert!(same, "event {at}: {linux:?} on Linux, {engine:?} on the engine");
    }
    eprintln!("{linux:?}");
    Ok(linux)
}

/// Skips where the counters are others: eight events for cycles must be one too many, and instructions count.
fn seven_counters() -> Result<(), Skip> {
    need::hardware_pmu()?;
    let shares = on_linux(&[with(cycles(), AttrFlags::PINNED); 8]);
    let work = shares.iter().filter(|&&share| share != Fate::Failed).count();
    if work != 7 || matches!(shares[0], Fate::Refused(_)) {
        return Err(Skip::needs("a PMU with seven counters for cycles", format_args!("{shares:?}")));
    }
    Ok(())
}

fn events_that_fit_count_all_the_time() -> Outcome {
    let fates = compare(&[cycles(); 7])?;
    assert!(
        fates.iter().all(|fate| matches!(fate, Fate::Counted(share, true) if *share > 0.95)),
        "{fates:?}"
    );
    Ok(())
}

fn counters_are_shared_in_turns() -> Outcome {
    for events in [8, 9, 12, 16] {
        compare(&vec![cycles(); events])?;
    }
    let instructions = Asked { what: Hardware::INSTRUCTIONS, ..cycles() };
    if matches!(on_linux(&[instructions])[..], [Fate::Refused(_)]) {
        return Err(Skip::needs("instructions", "the PMU does not count them"));
    }
    compare(&[instructions; 7])?;
    Ok(())
}

fn pinned_events_that_do_not_fit_fail() -> Outcome {
    let fates = compare(&[with(cycles(), AttrFlags::PINNED); 12])?;
    assert_eq!(fates.iter().filter(|&&fate| fate == Fate::Failed).count(), 5, "{fates:?}");
    Ok(())
}

fn pinned_events_leave_the_rest_to_others() -> Outcome {
    let mut asked = vec![with(cycles(), AttrFlags::PINNED); 2];
    asked.resize(11, cycles());
    compare(&asked).map(drop)
}

fn an_exclusive_event_is_alone() -> Outcome {
    compare(&[with(cycles(), AttrFlags::EXCLUSIVE), cycles()]).map(drop)
}

fn groups_take_turns_as_a_whole() -> Outcome {
    let group = |first| (0..3).map(move |at| Asked { leader: (at > 0).then_some(first), ..cycles() });
    let asked: Vec<Asked> = [0, 3, 6].into_iter().flat_map(group).collect();
    compare(&asked).map(drop)
}

fn a_group_that_could_never_fit_is_refused() -> Outcome {
    let asked: Vec<Asked> = (0..8).map(|at| Asked { leader: (at > 0).then_some(0), ..cycles() }).collect();
    let fates = compare(&asked)?;
    assert_eq!(fates[7], Fate::Refused(22), "{fates:?}");
    Ok(())
}

fn nothing_is_counted_where_all_modes_are_left_out() -> Outcome {
    let fates = compare(&[cycles(), with(cycles(), AttrFlags::EXCLUDE_USER)])?;
    assert!(matches!(fates[1], Fate::Counted(_, false)), "{fates:?}");
    Ok(())
}

/// The count, and how many records of a sample each are in the ring.
fn samples_come_once_a_period() -> Outcome {
    const PERIOD: u64 = 1_000_000;
    const SAMPLE: u64 = 16;
    seven_counters()?;
    let sampling = Attr { sample_period: PERIOD, sample_type: SampleType::PERIOD, ..attr(&cycles()) };
    let fd = perf_event_open(&mut sampling.clone(), 0, -1, None, OpenFlags::empty()).expect("cycles");
    let ring = Mapping::new(fd.as_fd(), 9 * 4096, Protection::ReadWrite, 0).expect("a ring");
    work::burn(TIME);
    let mut words = [0; 3];
    read(fd.as_fd(), &mut words).expect("it can be read");
    let linux = (words[0] / PERIOD, ring.load_u64(offset::DATA_HEAD, Ordering::Acquire) / SAMPLE);
    let (mut machine, task) = machine();
    let fd = machine.open(task, &sampling, OpenArguments::default()).expect("cycles");
    let reader = machine.map(task, fd, MapRequest::ring(8)).expect("a ring");
    machine.run_until(machine.now() + TIME.as_nanos() as u64);
    let count = machine.read(fd).expect("it can be read")[0];
    let engine = (count / PERIOD, reader.page(offset::DATA_HEAD) / SAMPLE);
    for (periods, samples) in [linux, engine] {
        assert!(
            samples > 0 && periods.abs_diff(samples) <= 2,
            "{linux:?} on Linux, {engine:?} on the engine"
        );
    }
    Ok(())
}
