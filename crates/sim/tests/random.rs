//! Properties of any machine: no text of a scenario breaks anything, or takes forever; and what the
//! cpus counted is what the tasks counted.
//!
//! `PERFUSE_SEED=n` plays only that case again, `PERFUSE_SEEDS=n` says how many there are.

use perfuse_engine::OpenArguments;
use perfuse_engine::abi::{Attr, AttrFlags, EventType, Hardware, ReadFormat};
use perfuse_sim::scenario::{Scenario, play_within};
use perfuse_sim::{KINDS, Machine, PmuModel, Program, Setup, Step};
use std::fs;
use std::ops::Range;

#[path = "../../engine/tests/shared/random.rs"]
mod random;
use random::{Random, seeds};

fn between(random: &mut Random, range: Range<u64>) -> u64 {
    range.start + random.next() % (range.end - range.start)
}

fn one<'t, T>(random: &mut Random, all: &'t [T]) -> &'t T {
    &all[random.below(all.len())]
}

/// Words that are put in place of others.
const WORDS: [&str; 24] = [
    "0",
    "1",
    "18446744073709551615",
    "0xffffffffffffffff",
    "9223372036854775808",
    "4294967296",
    "1000000s",
    "999999ms",
    "1ns",
    "0ns",
    "period=1",
    "period=9223372036854775807",
    "freq=100000",
    "ring=1",
    "ring=65536",
    "ring=0",
    "inherit",
    "pinned",
    "exclusive",
    "group",
    "fails",
    "EINVAL",
    "cycles=1000000",
    "sample=IP,TID,TIME,ADDR,READ,CALLCHAIN,ID,CPU,PERIOD,STREAM_ID,RAW,STACK_USER",
];

/// The same word; another one if it is a number.
fn number(random: &mut Random, word: &str) -> String {
    const NUMBERS: [&str; 8] = ["0", "1", "2", "7", "63", "1000000", "4294967295", "18446744073709551615"];
    let (before, digits) =
        word.rsplit_once('=').map_or(("", word), |(name, _)| word.split_at(name.len() + 1));
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    if end == 0 || random.one_in(3) {
        return word.to_owned();
    }
    format!("{before}{}{}", random.of(&NUMBERS), &digits[end..])
}

/// A text made of the lines and words of the shipped scenarios, with a few things wrong.
fn text(random: &mut Random, shipped: &[String]) -> String {
    let mut lines: Vec<String> = one(random, shipped).lines().map(str::to_owned).collect();
    for _ in 0..=random.below(3) {
        let at = random.below(lines.len());
        match random.below(6) {
            0 => drop(lines.remove(at)),
            1 => {
                let other: Vec<&str> = one(random, shipped).lines().collect();
                lines.insert(at, random.of(&other).to_owned());
            }
            2 => {
                let again = lines[at].clone();
                lines.insert(at, again);
            }
            // Another number or time of the same unit, mostly a scenario again.
            3 | 4 => {
                let numbers: Vec<String> = lines[at].split(' ').map(|word| number(random, word)).collect();
                lines[at] = numbers.join(" ");
            }
            _ => {
                let mut words: Vec<&str> = lines[at].split(' ').collect();
                let place = random.below(words.len());
                if random.one_in(4) {
                    words.insert(place, random.of(&WORDS));
                } else {
                    words[place] = random.of(&WORDS);
                }
                lines[at] = words.join(" ");
            }
        }
        if lines.is_empty() {
            lines.push(String::new());
        }
    }
    lines.join("\n")
}

#[test]
fn no_text_breaks_anything() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let shipped: Vec<String> = paths.iter().map(|path| fs::read_to_string(path).expect("a text")).collect();
    let mut played = 0;
    for seed in seeds(500) {
        let text = text(&mut Random::new(seed), &shipped);
        let scenario: Result<Scenario, _> = text.parse();
        if let Ok(scenario) = scenario {
            played += 1;
            let outcome = std::panic::catch_unwind(|| play_within(&scenario, 20_000));
            assert!(outcome.is_ok(), "PERFUSE_SEED={seed}:\n{text}");
        }
    }
    println!("{played} were scenarios");
}

/// A program that works, sleeps and starts others, which come after it in the list.
fn steps(random: &mut Random, depth: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..=random.below(5) {
        let mut rates = [0; KINDS];
        rates[0] = between(random, 1..3000);
        rates[1] = between(random, 0..3000);
        steps.push(match random.below(6) {
            0 => Step::Sleep(between(random, 1..9_000_000)),
            1 if depth < 3 => Step::Start { program: format!("p{}", depth + 1), thread: random.one_in(2) },
            2 => Step::Wait,
            3 => Step::Fault { count: between(random, 1..9), major: random.one_in(2), addr: 0 },
            kind => Step::Compute { ns: between(random, 1..9_000_000), kernel: kind == 4, rates },
        });
    }
    steps
}

fn hardware(config: Hardware, flags: AttrFlags) -> Attr {
    let read_format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    Attr { config: config.0, flags, read_format, ..Attr::new(EventType::HARDWARE) }
}

#[test]
fn nothing_counted_is_lost() {
    let mut migrated = 0;
    for seed in seeds(300) {
        let random = &mut Random::new(seed);
        let cpus = between(random, 1..5) as u32;
        let pmu = PmuModel { counters: 16, width: between(random, 16..49) as u32, ..PmuModel::default() };
        let slice_ns = between(random, 100_000..5_000_000);
        let mut machine =
            Machine::new(Setup { cpus, slice_ns, pmu: Some(pmu), budget: 5_000_000, ..Setup::default() });
        for depth in 0..4 {
            let on = random.one_in(5).then(|| random.below(cpus as usize) as u32);
            let steps = steps(random, depth).into();
            machine.know(Program { name: format!("p{depth}"), steps, on, cgroup: None });
        }
        let roots: Vec<_> = (0..=random.below(4)).map(|_| machine.spawn("p0").expect("a task")).collect();
        let kind = random.of(&[Hardware::CPU_CYCLES, Hardware::INSTRUCTIONS]);
        let exclude = random.of(&[AttrFlags::empty(), AttrFlags::EXCLUDE_USER, AttrFlags::EXCLUDE_KERNEL]);
        let stat = if random.one_in(2) { AttrFlags::INHERIT_STAT } else { AttrFlags::empty() };
        let tasks: Vec<i32> = roots
            .iter()
            .map(|root| {
                let mut attr = hardware(kind, exclude | AttrFlags::INHERIT | stat);
                if random.one_in(2) {
                    // Not so often that it is throttled, which counts less (rule I12).
                    attr.set_period(between(random, 40_000..1_000_000));
                }
                let arguments = OpenArguments { pid: root.0 as i32, ..OpenArguments::default() };
                machine.open(*root, &attr, arguments).expect("an event")
            })
            .collect();
        let wide: Vec<i32> = (0..cpus)
            .map(|cpu| {
                let arguments = OpenArguments { pid: -1, cpu: cpu as i32, ..OpenArguments::default() };
                machine.open(roots[0], &hardware(kind, exclude), arguments).expect("an event")
            })
            .collect();
        let sum = |machine: &mut Machine, fds: &[i32]| {
            let reads = fds.iter().map(|fd| machine.read(*fd).expect("a read"));
            reads.fold([0; 3], |sum: [u64; 3], words| std::array::from_fn(|place| sum[place] + words[place]))
        };
        let mut last = [0; 3];
        while machine.has_tasks() && machine.now() < 2_000_000_000 {
            let end = machine.now() + between(random, 1..20_000_000);
            machine.run_until(end);
            assert!(!machine.is_exhausted(), "PERFUSE_SEED={seed}");
            let (by_task, by_cpu) = (sum(&mut machine, &tasks), sum(&mut machine, &wide));
            assert_eq!(by_task[0], by_cpu[0], "PERFUSE_SEED={seed} at {end}");
            assert!(by_task[2] <= by_task[1], "PERFUSE_SEED={seed}: running more than enabled");
            let grows = by_task.iter().zip(last).all(|(now, last)| *now >= last);
            assert!(grows, "PERFUSE_SEED={seed}: {by_task:?} after {last:?}");
            last = by_task;
        }
        migrated += u64::from(cpus > 1);
    }
    println!("{migrated} with several cpus");
}
