//! Commands measured from the outside: their counts, and that they end as they would alone.

use perfuse_abi::wire::{Layout, Writer};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, ReadFormat, SampleType, Software};
use perfuse_engine::{EventKey, MapRequest, Memory, OpenArguments, TaskId};
use perfuse_live::machine::{Machine, Rights, Settings};
use perfuse_live::ptrace::Tid;
use perfuse_live::supervisor::{Front, Supervisor};
use perfuse_sys::process::{self, Usage};
use perfuse_testkit::Outcome;
#[cfg(not(target_arch = "x86_64"))]
use perfuse_testkit::Skip;
use std::ffi::OsString;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

perfuse_testkit::suite! {
    all need perfuse_testkit::need::ptrace;
    measurements:
        a_command_ends_as_it_would_alone,
        time_is_that_of_the_whole_family,
        faults_and_switches_are_counted,
        who_stops_for_other_reasons_is_sampled_still,
        who_runs_is_sampled_among_many_who_sleep,
        shares_do_not_depend_on_how_long_the_cycle_is,
        children_shorter_than_a_period_are_sampled_in_proportion;
}

/// Remembers how the command ended.
#[derive(Default)]
struct Ends(Vec<(Tid, i32, Usage)>);

impl Front for Ends {
    fn ended(&mut self, _supervisor: &mut Supervisor, tid: Tid, status: i32, usage: &Usage) {
        self.0.push((tid, status, *usage));
    }
}

/// A value with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    value: u64,
    enabled: u64,
    running: u64,
}

struct Measured {
    counts: Vec<Count>,
    status: i32,
    usage: Usage,
}

fn bytes_of(attr: &Attr) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut attr = Attr { size: Attr::SIZE_VER8, ..*attr };
    attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).expect("an attr can be written");
    bytes
}

fn count(machine: &mut Machine, event: EventKey) -> Count {
    let mut bytes = Vec::new();
    machine.read(event, 24, &mut bytes).expect("it can be read");
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("three words"));
    Count { value: word(0), enabled: word(8), running: word(16) }
}

/// A command with its supervisor, held before its exec.
struct Command {
    machine: Arc<Mutex<Machine>>,
    supervisor: Supervisor,
    held: process::Held,
}

impl Command {
    fn new(command: &[&str]) -> Self {
        let machine = Arc::new(Mutex::new(Machine::new(Settings::default())));
        let mut supervisor = Supervisor::new(machine.clone(), 0).expect("a supervisor");
        let arguments: Vec<OsString> = command.iter().map(OsString::from).collect();
        let held = process::spawn(&arguments[0], &arguments).expect("a child");
        supervisor.seize(held.pid(), held.pid()).expect("one's own child can be traced");
        Command { machine, supervisor, held }
    }

    /// Opens an event on it and all that it starts, from its exec on.
    fn open(&self, mut attr: Attr, cpu: i32) -> EventKey {
        attr.flags |= AttrFlags::INHERIT | AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC;
        let arguments = OpenArguments { pid: self.held.pid(), cpu, ..OpenArguments::default() };
        let mut machine = self.machine.lock().expect("no panic");
        machine.open(TaskId(0), &mut bytes_of(&attr), arguments, None, Rights::OWN).expect("it can be opened")
    }

    /// Runs it to its end.
    fn run(self) -> (Arc<Mutex<Machine>>, i32, Usage) {
        let Command { machine, mut supervisor, held } = self;
        let pid = held.pid();
        // Its exec is a stop that this thread has to handle meanwhile.
        let release = std::thread::spawn(move || held.release().map(drop));
        let mut ends = Ends::default();
        supervisor.run(&mut ends).expect("a loop that ends");
        release.join().expect("no panic").expect("an exec");
        let (_, status, usage) = *ends.0.iter().find(|(tid, ..)| *tid == pid).expect("it ended");
        (machine, status, usage)
    }
}

fn counted(which: Software) -> Attr {
    let mut attr = Attr::new(EventType::SOFTWARE);
    attr.config = which.0;
    attr.read_format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    attr
}

/// Counts what a command and all that it starts do.
fn measure(command: &[&str], events: &[Software]) -> Measured {
    let command = Command::new(command);
    let open = |which: &Software| command.open(counted(*which), -1);
    let keys: Vec<EventKey> = events.iter().map(open).collect();
    let (machine, status, usage) = command.run();
    let mut machine = machine.lock().expect("no panic");
    let counts = keys.into_iter().map(|event| count(&mut machine, event)).collect();
    Measured { counts, status, usage }
}

/// The samples of a command's clock, of all that it starts.
#[derive(Debug)]
struct Sampled {
    samples: u64,
    /// The sum of their periods.
    told_ns: u64,
    /// How long it ran.
    ran_ns: u64,
    /// Where each was, and its period.
    places: Vec<(u64, u64)>,
}

fn sample(command: &[&str], rate: u64) -> Sampled {
    const PAGES: usize = 256;
    const SAMPLE: u32 = 9;
    let command = Command::new(command);
    let clock = command.open(counted(Software::TASK_CLOCK), -1);
    let mut attr = Attr::new(EventType::SOFTWARE);
    (attr.config, attr.sample_period) = (Software::CPU_CLOCK.0, rate);
    attr.sample_type = SampleType::IP | SampleType::PERIOD;
    attr.flags |= AttrFlags::FREQ;
    // SAFETY: sysconf has no preconditions.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) } as i32;
    let ring = |cpu| {
        let event = command.open(attr, cpu);
        let request = MapRequest { pages: PAGES + 1, offset: 0, shared: true, writable: true };
        command.machine.lock().expect("no panic").mmap(TaskId(0), event, request).expect("a ring")
    };
    let rings: Vec<_> = (0..cpus).map(ring).collect();
    let (machine, ..) = command.run();
    let ran_ns = count(&mut machine.lock().expect("no panic"), clock).value;
    let mut sampled = Sampled { samples: 0, told_ns: 0, ran_ns, places: Vec::new() };
    let page = perfuse_sys::page_size();
    for ring in rings {
        // The head of the ring stands in its control page.
        let word = |at: usize| ring.words()[at / 8].load(Relaxed);
        let (head, mut at) = (word(1024) as usize, 0);
        assert!(head < PAGES * page, "all of it is still there");
        while at < head {
            let header = word(page + at);
            if header as u32 == SAMPLE {
                sampled.samples += 1;
                sampled.told_ns += word(page + at + 16);
                sampled.places.push((word(page + at + 8), word(page + at + 16)));
            }
            at += (header >> 48) as usize;
        }
    }
    sampled
}

fn a_command_ends_as_it_would_alone() -> Outcome {
    let ended = |script: &str| measure(&["sh", "-c", script], &[Software::TASK_CLOCK]).status;
    assert_eq!(libc::WEXITSTATUS(ended("exit 7")), 7);
    assert_eq!(libc::WTERMSIG(ended("kill -TERM $$")), libc::SIGTERM);
    assert_eq!(libc::WTERMSIG(ended("kill -KILL $$")), libc::SIGKILL);
    // A handler gets its signal, and a stop stays one until it is continued.
    assert_eq!(libc::WEXITSTATUS(ended("trap 'exit 3' USR1; kill -USR1 $$; exit 4")), 3);
    let stops = "(sleep 0.2; kill -CONT $$) & kill -STOP $$; wait; exit 5";
    assert_eq!(libc::WEXITSTATUS(ended(stops)), 5);
    Ok(())
}

fn time_is_that_of_the_whole_family() -> Outcome {
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let family = format!("({script}) & ({script}); wait");
    let Measured { counts, usage, .. } = measure(&["sh", "-c", &family], &[Software::TASK_CLOCK]);
    let both = counts[0];
    assert_eq!((both.enabled, both.running), (both.value, both.value), "a task's time is its event's time");
    // The shell's own figures of its children and itself; the time before the exec is not counted.
    let used = (usage.user + usage.system).as_nanos() as u64;
    assert!(both.value <= used + 1_000_000 && both.value > used / 2, "{both:?} of {used} ns");
    Ok(())
}

fn faults_and_switches_are_counted() -> Outcome {
    let events = [Software::PAGE_FAULTS, Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS];
    let counts = measure(&["sleep", "0.05"], &events).counts;
    assert!((20..2000).contains(&counts[0].value), "{:?}", counts[0]);
    assert!((1..50).contains(&counts[1].value), "{:?}", counts[1]);
    assert!(counts[2].value < 20, "{:?}", counts[2]);
    Ok(())
}

fn who_stops_for_other_reasons_is_sampled_still() -> Outcome {
    // Each fork is a stop, which may come between an interrupt and the stop for it.
    let forks = "i=0; while [ $i -lt 200 ]; do (:); i=$((i+1)); done";
    let script = format!("{forks}; while [ $i -lt 300000 ]; do i=$((i+1)); done");
    agrees_in_the_end(|| {
        let Sampled { told_ns, ran_ns, .. } = sample(&["sh", "-c", &script], 4000);
        let all_of_it = (ran_ns / 2..ran_ns / 2 * 3).contains(&told_ns);
        if all_of_it { Ok(()) } else { Err(format!("{told_ns} of {ran_ns} ns")) }
    });
    Ok(())
}

fn who_runs_is_sampled_among_many_who_sleep() -> Outcome {
    let sleepers = "i=0; while [ $i -lt 40 ]; do sleep 60 & all=\"$all $!\"; i=$((i+1)); done";
    let script = format!("{sleepers}; while [ $i -lt 200000 ]; do i=$((i+1)); done; kill $all; wait");
    let sampled = sample(&["sh", "-c", &script], 999);
    assert!(sampled.told_ns > sampled.ran_ns / 2, "up to the end: {sampled:?}");
    // However busy the machine: one in ten.
    assert!(sampled.samples > sampled.ran_ns / 10_000_000, "{sampled:?}");
    Ok(())
}

/// How often [`work::spin`](perfuse_testkit::work::spin) goes round in a millisecond.
#[cfg(target_arch = "x86_64")]
fn rounds_of_a_millisecond() -> u32 {
    let took = |_| {
        let from = perfuse_testkit::work::thread_time();
        perfuse_testkit::work::spin(1_000_000);
        (perfuse_testkit::work::thread_time() - from).as_nanos() as u64
    };
    let fastest = (0..20).map(took).min().expect("some rounds");
    (1_000_000 * 1_000_000 / fastest.max(1)) as u32
}

/// A program that goes round in one loop and then in another one, sleeps, and begins again, so many times.
/// Behind its entry by so much: the second loop, and what comes after it.
#[cfg(target_arch = "x86_64")]
fn two_loops(first: u32, second: u32, sleep_ns: u64, times: u32) -> (perfuse_testkit::tiny::Tiny, u64, u64) {
    let mut code = vec![0xbb];
    code.extend(times.to_le_bytes());
    let (again, mut loops) = (code.len(), Vec::new());
    for rounds in [first, second] {
        // mov $rounds, %ecx; until aligned: nop; dec %ecx; jnz
        code.push(0xb9);
        code.extend(rounds.to_le_bytes());
        code.resize(
            (code.len() + perfuse_testkit::tiny::ENTRY as usize).next_multiple_of(32)
                - perfuse_testkit::tiny::ENTRY as usize,
            0x90,
        );
        loops.push(code.len() as u64);
        code.extend([0xff, 0xc9, 0x75, 0xfc]);
    }
    let end = code.len() as u64;
    // push $ns; push $0; mov %rsp, %rdi; xor %esi, %esi; mov $35 (nanosleep), %eax; syscall; pop %rax; pop %rax
    code.push(0x68);
    code.extend((sleep_ns as u32).to_le_bytes());
    code.extend([0x6a, 0, 0x48, 0x89, 0xe7, 0x31, 0xf6, 0xb8, 35, 0, 0, 0, 0x0f, 0x05, 0x58, 0x58]);
    // dec %ebx; jnz again; xor %edi, %edi; mov $60 (exit), %eax; syscall
    code.extend([0xff, 0xcb, 0x0f, 0x85]);
    let back = again as i32 - (code.len() as i32 + 4);
    code.extend(back.to_le_bytes());
    code.extend([0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]);
    (perfuse_testkit::tiny::Tiny::new(&code), loops[1], end)
}

/// Plays rounds, which may have bad luck each, until one agrees.
fn agrees_in_the_end(mut round: impl FnMut() -> Result<(), String>) {
    let all: Vec<String> = (0..6).map_while(|_| round().err()).collect();
    assert!(all.len() < 6, "{all:#?}");
}

#[cfg(target_arch = "x86_64")]
fn shares_do_not_depend_on_how_long_the_cycle_is() -> Outcome {
    let rounds = rounds_of_a_millisecond();
    // 8 ms of work and 3 ms of sleep, about the period of a sample; and 0.05 ms of sleep in 2 ms.
    for (rate, work, sleep_ns, times) in [(99, 80, 3_000_000, 150), (999, 19, 50_000, 400)] {
        let (program, second, end) =
            two_loops(rounds / 100 * 7 * work, rounds / 100 * 3 * work, sleep_ns, times);
        let path = program.path().to_str().expect("a plain name");
        let mut places = Vec::new();
        agrees_in_the_end(|| {
            let began = std::time::Instant::now();
            let sampled = sample(&[path], rate);
            // It sleeps for a twentieth of its time or more, as timers are late. Where it waits for a cpu, so does the
            // supervisor, which then gets one when it falls asleep.
            let alone_ns = u128::from(sampled.ran_ns + u64::from(times) * sleep_ns);
            let is_crowded = 4 * began.elapsed().as_nanos() > 5 * alone_ns;
            let most_asleep = if is_crowded { 0.25 } else { 0.12 };
            places.extend(sampled.places);
            let within = |from: u64, to: u64| {
                let at = |ip: u64| ip.wrapping_sub(perfuse_testkit::tiny::ENTRY);
                let inside = places.iter().filter(|(ip, _)| (from..to).contains(&at(*ip)));
                inside.map(|(_, period)| *period).sum::<u64>() as f64
            };
            let (first, last, rest) = (within(0, second), within(second, end), within(end, u64::MAX));
            let (share, asleep) = (first / (first + last), rest / (first + last + rest));
            let told = format!(
                "{share} in the first, {asleep} asleep of at most {most_asleep}, of {} samples at {rate} Hz",
                places.len()
            );
            if (share - 0.7).abs() < 0.06 && asleep < most_asleep { Ok(()) } else { Err(told) }
        });
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
fn children_shorter_than_a_period_are_sampled_in_proportion() -> Outcome {
    let rounds = rounds_of_a_millisecond();
    let (program, ..) = two_loops(rounds, rounds, 1, 1);
    let script = format!("i=0; while [ $i -lt 150 ]; do {}; i=$((i+1)); done", program.path().display());
    let (mut told, mut ran) = (0, 0);
    agrees_in_the_end(|| {
        let sampled = sample(&["sh", "-c", &script], 99);
        (told, ran) = (told + sampled.told_ns, ran + sampled.ran_ns);
        let share = told as f64 / ran as f64;
        if (share - 1.0).abs() < 0.4 { Ok(()) } else { Err(format!("{told} of {ran} ns: {share}")) }
    });
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
fn shares_do_not_depend_on_how_long_the_cycle_is() -> Outcome {
    Err(Skip::needs("x86-64", "the loops are written in its instructions"))
}

#[cfg(not(target_arch = "x86_64"))]
fn children_shorter_than_a_period_are_sampled_in_proportion() -> Outcome {
    Err(Skip::needs("x86-64", "the loops are written in its instructions"))
}
