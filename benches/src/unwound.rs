//! The cost of stacks that are unwound while they are recorded, next to `perf record --call-graph dwarf`, and the time that a
//! frame takes.
//!
//! The program has no frame pointers and calls its functions to many depths, some of them in the C library.

use crate::measure::{Contestant, compare, display, median};
use crate::record::cpu_ns;
use perfuse_data::PerfData;
use perfuse_data::replay::Replay;
use perfuse_symbols::Symbolizer;
use perfuse_unwind::Unwinder;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

const FAULTS: &str = "200000";
const DEPTH: &str = "9";
const ROUNDS: usize = 5;

struct Recorder {
    name: &'static str,
    words: Vec<String>,
    file: PathBuf,
}

/// Everything.
pub fn all() {
    let folder = std::env::temp_dir().join(format!("perfuse-bench-unwound-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join("program");
    match compile(&program) {
        Ok(()) => run(&folder, &program),
        Err(error) => println!("skipped: unwound: {error}"),
    }
    let _ = std::fs::remove_dir_all(&folder);
}

fn compile(program: &Path) -> Result<(), String> {
    let source = program.with_extension("c");
    std::fs::write(&source, include_str!("stacks.c")).map_err(|error| error.to_string())?;
    let mut command = Command::new("cc");
    command.args(["-O1", "-fomit-frame-pointer", "-pthread", "-o"]).arg(program).arg(&source);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cc: {status}")),
        Err(error) => Err(format!("cc: {error}")),
    }
}

fn run(folder: &Path, program: &Path) {
    let perfuse = crate::stat::perfuse();
    let recorder = |name: &'static str, words: &[&str]| Recorder {
        name,
        words: words.iter().map(|&word| word.to_owned()).collect(),
        file: folder.join(name.replace(' ', "-")),
    };
    let mut recorders = Vec::new();
    if Command::new("perf").arg("--version").stdout(Stdio::null()).status().is_ok() {
        let words = ["perf", "record", "-B", "-N", "--call-graph", "dwarf"];
        recorders.push(recorder("perf dwarf", &words));
    } else {
        println!("skipped: perf record: no perf on the PATH");
    }
    for how in ["unwound", "dwarf", "fp"] {
        let name = ["perfuse unwound", "perfuse dwarf", "perfuse fp"];
        let name = name.into_iter().find(|name| name.ends_with(how)).expect("one of them");
        recorders.push(recorder(name, &[&perfuse, "record", "--call-graph", how]));
    }
    cost(&recorders, program);
    sizes(&recorders);
    for recorder in recorders.iter().filter(|recorder| recorder.name.ends_with("dwarf")).take(1) {
        frames(&recorder.file);
    }
}

/// The cpu time that a run of the program takes more than alone, by its own slowness and by the recorder.
fn cost(recorders: &[Recorder], program: &Path) {
    let time = |command: &mut Command| {
        let before = cpu_ns(libc::RUSAGE_CHILDREN);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.expect("it runs").success(), "{command:?}");
        (cpu_ns(libc::RUSAGE_CHILDREN) - before) as f64
    };
    let alone = RefCell::new(Vec::new());
    let turns: Vec<RefCell<Vec<f64>>> = recorders.iter().map(|_| RefCell::default()).collect();
    let mut contestants = vec![Contestant::timed("alone", || {
        let ns = time(Command::new(program).args([FAULTS, DEPTH]));
        alone.borrow_mut().push(ns);
        ns
    })];
    for (recorder, turns) in recorders.iter().zip(&turns) {
        contestants.push(Contestant::timed(recorder.name, move || {
            let mut command = Command::new(&recorder.words[0]);
            command.args(&recorder.words[1..]).args(["-q", "-e", "cpu-clock", "-F", "4000", "-o"]);
            let ns = time(command.arg(&recorder.file).arg("--").arg(program).args([FAULTS, DEPTH]));
            turns.borrow_mut().push(ns);
            ns
        }));
    }
    compare("cpu time of a program and its recorder, 4000 samples a second", ROUNDS, contestants);
    let alone = median(&mut alone.borrow_mut());
    println!("what recording adds to the cpu time, per sample");
    for (recorder, turns) in recorders.iter().zip(&turns) {
        let more = median(&mut turns.borrow_mut()) - alone;
        let samples = samples(&recorder.file).max(1) as f64;
        println!("  {:34} {:>12}", recorder.name, display(more.max(0.0) / samples));
    }
    println!();
}

/// How many samples a recording has.
fn samples(file: &Path) -> u64 {
    let mut samples = 0;
    let mut replay = Replay::new(PerfData::open(file).expect("a recording"));
    let gone = replay.each(|step| {
        samples += u64::from(step?.sample().is_some());
        Ok::<(), perfuse_data::Error>(())
    });
    gone.expect("whole records");
    samples
}

fn sizes(recorders: &[Recorder]) {
    println!("bytes of the file, for each sample");
    for recorder in recorders {
        let bytes = std::fs::metadata(&recorder.file).expect("a recording").len();
        println!("  {:34} {:>12}", recorder.name, bytes / samples(&recorder.file).max(1));
    }
    println!();
}

/// Unwinds the copies of a recording, again and again: what that takes more than going through them.
fn frames(file: &Path) {
    let through = |unwinder: &mut Option<Unwinder>| {
        let start = Instant::now();
        let (mut frames, mut chain) = (0u64, Vec::new());
        let gone = Replay::new(PerfData::open(file).expect("a recording")).each(|step| {
            let step = step?;
            if let Some(unwinder) = unwinder {
                let unwound = unwinder.unwind(&step, &mut chain).is_some();
                frames += if unwound { chain.len() as u64 } else { 0 };
            }
            Ok::<(), perfuse_data::Error>(())
        });
        gone.expect("whole records");
        (start.elapsed().as_nanos() as f64, frames)
    };
    let mut unwinder = Some(Unwinder::new(Arc::new(Symbolizer::default()), std::env::consts::ARCH));
    let (mut plain, mut unwound, mut all) = (Vec::new(), Vec::new(), 0);
    for _ in 0..=ROUNDS {
        plain.push(through(&mut None).0);
        let (ns, frames) = through(&mut unwinder);
        unwound.push(ns);
        all = frames;
    }
    let more = median(&mut unwound) - median(&mut plain);
    println!("unwinding  (median of {ROUNDS} rounds)");
    println!("  {:34} {:>12}\n", "a frame", display(more / all.max(1) as f64));
}
