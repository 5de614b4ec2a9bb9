//! The cost of recording for the programs that are recorded and for the recorder, and how much it sees, next to
//! `perf record`.
//!
//! The programs are this one, called with [`WORK`]: they say how long they took, and how much cpu time.

use crate::measure::{Contestant, compare};
use perfuse_data::PerfData;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The first argument that makes this program do some work: its kind and amount follow.
pub const WORK: &str = "--work";

/// Does some work and says how many ns of time and of cpu time that took.
pub fn work(kind: &str, amount: u64) {
    let start = Instant::now();
    match kind {
        crate::hosted::CALLS => return crate::hosted::calls(amount),
        crate::siblings::GROUP => return crate::siblings::work(true, amount),
        crate::siblings::ALONE => return crate::siblings::work(false, amount),
        "cpu" => spin(amount),
        "calls" => (0..amount).for_each(|_| small_call()),
        "faults" => drop(black_box(touched(amount as usize))),
        "switches" => switch(amount),
        "forks" => (0..amount).for_each(|_| fork(50_000)),
        other => panic!("no work {other}"),
    }
    println!("{} {}", start.elapsed().as_nanos(), cpu_ns(libc::RUSAGE_SELF) + cpu_ns(libc::RUSAGE_CHILDREN));
}

fn spin(rounds: u64) {
    let mut value = 1u64;
    (0..rounds)
        .for_each(|round| value = black_box(value.wrapping_mul(6364136223846793005).wrapping_add(round)));
}

/// A system call that does next to nothing.
fn small_call() {
    // SAFETY: it has no preconditions.
    black_box(unsafe { libc::getppid() });
}

/// So many pages, each written to for the first time.
fn touched(pages: usize) -> Vec<u8> {
    let mut memory = vec![0u8; pages * 4096];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    memory
}

/// Two threads wake each other.
fn switch(rounds: u64) {
    use std::io::{Read, Write, pipe};
    let (mut ping, mut pong) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    let echo = std::thread::spawn(move || {
        let mut byte = [0];
        while ping.0.read(&mut byte).is_ok_and(|got| got == 1) && pong.1.write_all(&byte).is_ok() {}
    });
    let mut byte = [0];
    (0..rounds).for_each(|_| {
        ping.1.write_all(&byte).expect("a pipe takes a byte");
        pong.0.read_exact(&mut byte).expect("an answer");
    });
    drop(ping.1);
    echo.join().expect("no panic");
}

/// A process that lives for less than a millisecond.
fn fork(rounds: u64) {
    // SAFETY: this program has one thread, and the child only computes and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            spin(rounds);
            libc::_exit(0);
        }
        assert!(child > 0 && libc::waitpid(child, std::ptr::null_mut(), 0) == child);
    }
}

pub fn cpu_ns(of: i32) -> u64 {
    // SAFETY: all zeros is a valid value of that plain struct, and the pointer is to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(of, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// A recorder: how it is called up to its options.
#[derive(Clone)]
struct Recorder {
    name: &'static str,
    words: Vec<String>,
    file: PathBuf,
}

/// The results of one run.
pub(crate) struct Run {
    /// Of the work.
    pub(crate) ns: f64,
    pub(crate) work_cpu_ns: f64,
    /// Of the recorder itself.
    own_cpu_ns: f64,
}

impl Run {
    fn cpu_ns(&self) -> f64 {
        self.work_cpu_ns + self.own_cpu_ns
    }
}

impl Recorder {
    fn all(perfuse: &str) -> Vec<Self> {
        let file =
            |name: &str| std::env::temp_dir().join(format!("perfuse-bench-{name}-{}", std::process::id()));
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let ours = Recorder { name: "perfuse", words: words(&[perfuse, "record"]), file: file("ours") };
        let mut all = vec![ours];
        if Command::new("perf").arg("--version").stdout(Stdio::null()).status().is_ok() {
            // Its cache of build-ids would cost it a second each time.
            let words = words(&["perf", "record", "-B", "-N"]);
            all.push(Recorder { name: "perf", words, file: file("perfs") });
        } else {
            println!("skipped: perf record: no perf on the PATH");
        }
        all
    }

    fn run(&self, options: &[&str], kind: &str, amount: u64) -> Run {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(["-q", "-o"]).arg(&self.file).args(options).arg("--");
        command.arg(std::env::current_exe().expect("this program"));
        run(command, kind, amount)
    }

    /// Numbers of records, and of samples among them, and of lost ones.
    fn counts(&self) -> (u64, u64, u64) {
        use perfuse::abi::record::{Record, RecordType};
        let mut data = PerfData::open(&self.file).expect("a recording");
        let (mut records, mut samples, mut lost) = (0, 0, 0);
        while let Some(entry) = data.next().expect("whole records") {
            records += 1;
            samples += u64::from(entry.kind() == RecordType::SAMPLE);
            if entry.kind() == RecordType::LOST_SAMPLES
                && let Record::LostSamples(count) = entry.decode().expect("known").record
            {
                lost += count;
            }
        }
        (records, samples, lost)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        for name in [self.file.clone(), PathBuf::from(format!("{}.old", self.file.display()))] {
            let _ = std::fs::remove_file(name);
        }
    }
}

/// Does work that nobody measures.
pub(crate) fn alone(kind: &str, amount: u64) -> Run {
    run(Command::new(std::env::current_exe().expect("this program")), kind, amount)
}

/// Does work under a program that measures it.
pub(crate) fn run(mut command: Command, kind: &str, amount: u64) -> Run {
    let before = cpu_ns(libc::RUSAGE_CHILDREN);
    let output = command.args([WORK, kind, &amount.to_string()]).stderr(Stdio::null()).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{command:?}: {:?}", output.status);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = said.split_whitespace().map(|word| word.parse::<f64>().expect("a number"));
    let (ns, work_cpu_ns) = (numbers.next().expect("a time"), numbers.next().expect("cpu time"));
    let all = (cpu_ns(libc::RUSAGE_CHILDREN) - before) as f64;
    Run { ns, work_cpu_ns, own_cpu_ns: (all - work_cpu_ns).max(0.0) }
}

/// Everything.
pub fn all() {
    let perfuse = crate::stat::perfuse();
    let recorders = Recorder::all(&perfuse);
    start(&perfuse, &recorders);
    slow_down(&recorders);
    tracepoint(&recorders);
    coverage(&recorders);
}

/// From start to exit, around `true`.
fn start(perfuse: &str, recorders: &[Recorder]) {
    let time = |mut command: Command| {
        let start = Instant::now();
        assert!(command.stderr(Stdio::null()).status().expect("it runs").success());
        start.elapsed().as_nanos() as f64
    };
    assert!(Path::new(perfuse).exists());
    let mut contestants = vec![Contestant::timed("true", move || time(Command::new("true")))];
    contestants.extend(recorders.iter().map(|recorder| {
        Contestant::timed(recorder.name, move || {
            let mut command = Command::new(&recorder.words[0]);
            command.args(&recorder.words[1..]).arg("-o").arg(&recorder.file).arg("true");
            time(command)
        })
    }));
    compare("record: a whole command, true", 15, contestants);
}

/// How much more cpu time recorded programs and their recorders take together. Time on the clock would be that of the
/// machine's other work too.
fn slow_down(recorders: &[Recorder]) {
    let programs = [("cpu", 60_000_000), ("calls", 1_000_000), ("forks", 400)];
    let options: [(&str, &[&str]); 5] = [
        ("997 Hz", &["-F", "997"]),
        ("4000 Hz", &["-F", "4000"]),
        ("20000 Hz", &["-F", "20000"]),
        ("20000 Hz -g", &["-F", "20000", "-g"]),
        ("20000 Hz dwarf", &["-F", "20000", "--call-graph", "dwarf"]),
    ];
    for (kind, amount) in programs {
        for (name, options) in options {
            let options = [&["-e", "cpu-clock"], options].concat();
            let mut contestants = vec![Contestant::timed("alone", || alone(kind, amount).cpu_ns())];
            contestants.extend(recorders.iter().map(|recorder| {
                let options = options.clone();
                Contestant::timed(recorder.name, move || recorder.run(&options, kind, amount).cpu_ns())
            }));
            compare(
                &format!("record: cpu time of a program and its recorder: {kind}, {name}"),
                9,
                contestants,
            );
        }
    }
}

/// The cost of one record of a busy tracepoint for the recorder, in cpu time beyond its start and end.
fn tracepoint(recorders: &[Recorder]) {
    const CALLS: u64 = 1_000_000;
    let options = ["-a", "-e", "raw_syscalls:sys_enter"];
    let mut contestants = Vec::new();
    for recorder in recorders {
        let turn = move || {
            let few = recorder.run(&options, "calls", CALLS / 4).own_cpu_ns;
            let (few_records, ..) = recorder.counts();
            let many = recorder.run(&options, "calls", CALLS).own_cpu_ns;
            let (records, _, lost) = recorder.counts();
            if lost > 0 {
                println!("  {}: {lost} of {} lost", recorder.name, records + lost);
            }
            (many - few).max(0.0) / (records - few_records) as f64
        };
        contestants.push(Contestant::timed(recorder.name, turn));
    }
    compare("record: a record of raw_syscalls:sys_enter, the whole system", 5, contestants);
}

/// How many samples there are for a second of cpu time, as a share of what the frequency says.
fn coverage(recorders: &[Recorder]) {
    println!("record: samples at 997 Hz, of those that the cpu time of the program should give");
    for (kind, amount) in [("cpu", 300_000_000), ("forks", 2000)] {
        for recorder in recorders {
            let run = recorder.run(&["-e", "cpu-clock", "-F", "997"], kind, amount);
            let (_, samples, _) = recorder.counts();
            let share = samples as f64 / (run.work_cpu_ns / 1e9 * 997.0);
            println!("  {:34} {:>12}   {share:>7.3}", recorder.name, kind);
        }
    }
    println!();
}
