//! Commands measured from the outside: what is counted, and that they end as they would alone.

use perfuse_abi::wire::{Layout, Writer};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, ReadFormat, SampleType, Software};
use perfuse_engine::{EventKey, MapRequest, Memory, OpenArguments, TaskId};
use perfuse_live::machine::{Machine, Settings};
use perfuse_live::ptrace::Tid;
use perfuse_live::supervisor::{Front, Supervisor};
use perfuse_sys::process::{self, Usage};
use std::ffi::OsString;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

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
        machine.open(TaskId(0), &mut bytes_of(&attr), arguments, None, true).expect("it can be opened")
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

/// What the samples of a command's clock tell, of all that it starts.
#[derive(Debug)]
struct Sampled {
    samples: u64,
    /// The sum of their periods.
    told_ns: u64,
    /// How long it ran.
    ran_ns: u64,
}

fn sample(command: &[&str], rate: u64) -> Sampled {
    const PAGES: usize = 256;
    const SAMPLE: u32 = 9;
    let command = Command::new(command);
    let clock = command.open(counted(Software::TASK_CLOCK), -1);
    let mut attr = Attr::new(EventType::SOFTWARE);
    (attr.config, attr.sample_period) = (Software::CPU_CLOCK.0, rate);
    attr.sample_type = SampleType::PERIOD;
    attr.flags |= AttrFlags::FREQ | AttrFlags::EXCLUDE_KERNEL;
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
    let mut sampled = Sampled { samples: 0, told_ns: 0, ran_ns };
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
                sampled.told_ns += word(page + at + 8);
            }
            at += (header >> 48) as usize;
        }
    }
    sampled
}

#[test]
fn a_command_ends_as_it_would_alone() {
    let ended = |script: &str| measure(&["sh", "-c", script], &[Software::TASK_CLOCK]).status;
    assert_eq!(libc::WEXITSTATUS(ended("exit 7")), 7);
    assert_eq!(libc::WTERMSIG(ended("kill -TERM $$")), libc::SIGTERM);
    assert_eq!(libc::WTERMSIG(ended("kill -KILL $$")), libc::SIGKILL);
    // A handler gets its signal, and a stop stays one until it is continued.
    assert_eq!(libc::WEXITSTATUS(ended("trap 'exit 3' USR1; kill -USR1 $$; exit 4")), 3);
    let stops = "(sleep 0.2; kill -CONT $$) & kill -STOP $$; wait; exit 5";
    assert_eq!(libc::WEXITSTATUS(ended(stops)), 5);
}

#[test]
fn time_is_that_of_the_whole_family() {
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let family = format!("({script}) & ({script}); wait");
    let Measured { counts, usage, .. } = measure(&["sh", "-c", &family], &[Software::TASK_CLOCK]);
    let both = counts[0];
    assert_eq!((both.enabled, both.running), (both.value, both.value), "a task's time is its event's time");
    // What the shell is told of its children and itself; the time before the exec is not counted.
    let used = (usage.user + usage.system).as_nanos() as u64;
    assert!(both.value <= used + 1_000_000 && both.value > used / 2, "{both:?} of {used} ns");
}

#[test]
fn faults_and_switches_are_counted() {
    let events = [Software::PAGE_FAULTS, Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS];
    let counts = measure(&["sleep", "0.05"], &events).counts;
    assert!((20..2000).contains(&counts[0].value), "{:?}", counts[0]);
    assert!((1..50).contains(&counts[1].value), "{:?}", counts[1]);
    assert!(counts[2].value < 20, "{:?}", counts[2]);
}

#[test]
fn who_stops_for_other_reasons_is_sampled_still() {
    // Each fork is a stop, which may come between an interrupt and the stop for it.
    let forks = "i=0; while [ $i -lt 200 ]; do (:); i=$((i+1)); done";
    let script = format!("{forks}; while [ $i -lt 300000 ]; do i=$((i+1)); done");
    let sampled = sample(&["sh", "-c", &script], 4000);
    assert!(sampled.told_ns > sampled.ran_ns / 2, "up to the end: {sampled:?}");
    assert!(sampled.told_ns <= sampled.ran_ns, "no time twice: {sampled:?}");
}

#[test]
fn who_runs_is_sampled_among_many_who_sleep() {
    let sleepers = "i=0; while [ $i -lt 40 ]; do sleep 60 & all=\"$all $!\"; i=$((i+1)); done";
    let script = format!("{sleepers}; while [ $i -lt 200000 ]; do i=$((i+1)); done; kill $all; wait");
    let sampled = sample(&["sh", "-c", &script], 999);
    assert!(sampled.told_ns > sampled.ran_ns / 2, "up to the end: {sampled:?}");
    // However busy the machine: one in ten.
    assert!(sampled.samples > sampled.ran_ns / 10_000_000, "{sampled:?}");
}
