//! Trying things out: every check really opens events, makes something happen, and reads. Nothing else
//! on the machine is disturbed: what is opened measures this process, a cpu for a moment, or a place
//! that is never reached.

use super::{Check, Reason};
use crate::facts::Facts;
use crate::{Builder, Cgroup, Counter, Error, Event, Perf, Sampler, Target};
use perfuse_abi::record::Record;
use perfuse_abi::{Breakpoint, CacheEvent, Hardware, SampleType, Software};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// All of them, in the order in which they are told.
pub(super) fn run(kernel: &Perf, facts: &Facts) -> Vec<Check> {
    vec![
        software(kernel),
        kernel_side(kernel),
        timer_sampling(kernel),
        cpu_wide(kernel),
        cgroup(kernel),
        hardware(kernel),
        cache(kernel),
        hardware_sampling(kernel),
        user_reads(kernel, facts),
        tracepoints(kernel),
        uprobes(kernel),
        kprobes(kernel),
        breakpoints(kernel),
        rings(kernel, facts),
        embedded(),
    ]
}

/// Something to measure: page faults, a system call, time.
fn work() {
    let mut pages = vec![0u8; 1 << 18];
    pages.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    black_box(pages);
    std::thread::sleep(Duration::from_micros(100));
    let end = Instant::now() + Duration::from_millis(1);
    while Instant::now() < end {
        black_box((0..100u64).sum::<u64>());
    }
}

/// Opens, counts [`work`], and reads.
fn count(builder: Builder) -> Result<(u64, Counter), Error> {
    let mut counter = builder.open()?;
    counter.enable()?;
    work();
    counter.disable()?;
    let value = counter.read()?.value;
    Ok((value, counter))
}

/// Names, separated by commas.
fn list<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn software(kernel: &Perf) -> Check {
    const ID: (&str, &str) = ("software", "software events");
    const EVENTS: [Software; 7] = [
        Software::TASK_CLOCK,
        Software::CPU_CLOCK,
        Software::PAGE_FAULTS,
        Software::PAGE_FAULTS_MIN,
        Software::PAGE_FAULTS_MAJ,
        Software::CONTEXT_SWITCHES,
        Software::CPU_MIGRATIONS,
    ];
    let (mut read, mut refused, mut user_only) = (Vec::new(), Vec::new(), false);
    for event in EVENTS {
        match count(kernel.counter(event)) {
            Ok((_, counter)) => {
                user_only |= counter.given_up().iter().any(|given| given.what == "kernel side");
                read.push(Event::from(event));
            }
            Err(error) => refused.push((Event::from(event), error)),
        }
    }
    let seen = format!("opened and read: {} of {}", read.len(), EVENTS.len());
    match refused.first() {
        None => Check::yes(ID.0, ID.1, format!("{}; {seen}", "task-clock, page-faults, context-switches …")),
        Some((_, error)) if read.is_empty() => Check::no(ID.0, ID.1, error),
        Some((_, error)) => {
            let names: Vec<_> = refused.iter().map(|(event, _)| event).collect();
            let side = if user_only { "of user space; " } else { "" };
            Check::partly(ID.0, ID.1, format!("{side}{seen}, not {}", list(&names)), error.into())
        }
    }
}

fn kernel_side(kernel: &Perf) -> Check {
    const ID: (&str, &str) = ("kernel", "the kernel's side");
    match count(kernel.counter(Software::PAGE_FAULTS).user_and_kernel()) {
        Ok(_) => Check::yes(ID.0, ID.1, "counts and samples include the kernel"),
        Err(error) => Check::no(ID.0, ID.1, &error),
    }
}

/// How many samples a sampler took of [`work`], and where.
fn samples(event: Builder) -> Result<(usize, &'static str), Error> {
    let event = event.sample(SampleType::IP | SampleType::TID | SampleType::TIME);
    let mut sampler = Sampler::builder().event(event).pages(8).open()?;
    sampler.enable()?;
    (0..10).for_each(|_| work());
    sampler.disable()?;
    let without = sampler.sources().iter().any(|source| !source.counter().given_up().is_empty());
    let place = if without { "user space only" } else { "user space and kernel" };
    let mut all = 0;
    for entry in sampler.batch().iter() {
        if let Ok(Record::Sample(_)) = entry.decode().map(|decoded| decoded.record) {
            all += 1;
        }
    }
    Ok((all, place))
}

fn timer_sampling(kernel: &Perf) -> Check {
    const ID: (&str, &str) = ("timer-sampling", "sampling by a timer");
    match samples(kernel.counter(Software::CPU_CLOCK).period(500_000)) {
        Ok((0, _)) => {
            let text = "the timer was set and no sample arrived";
            Check::no(ID.0, ID.1, Reason::new("cpu-clock", "no-samples", "no samples arrive", text))
        }
        Ok((all, place)) => Check::yes(ID.0, ID.1, format!("cpu-clock, {place}: {all} samples in a moment")),
        Err(error) => Check::no(ID.0, ID.1, &error),
    }
}

fn cpu_wide(kernel: &Perf) -> Check {
    const ID: (&str, &str) = ("cpu-wide", "whole cpus (-a)");
    let cpus = crate::online_cpus();
    let mut read = 0;
    for cpu in &cpus {
        match count(kernel.counter(Software::CPU_CLOCK).target(Target::cpu(*cpu))) {
            Ok(_) => read += 1,
            Err(error) if read == 0 => return Check::no(ID.0, ID.1, &error),
            Err(error) => {
                let detail = format!("opened and read on {read} of {} cpus", cpus.len());
                return Check::partly(ID.0, ID.1, detail, (&error).into());
            }
        }
    }
    Check::yes(ID.0, ID.1, format!("every process; opened and read on {read} of {} cpus", cpus.len()))
}

fn cgroup(kernel: &Perf) -> Check {
    const ID: (&str, &str) = ("cgroup", "cgroups (-G)");
    let cpu = crate::online_cpus().first().copied().unwrap_or(0);
    let opened = Cgroup::open("/").and_then(|root| {
        let path = root.path().display().to_string();
        kernel.counter(Software::TASK_CLOCK).target(Target::cgroup(&root, cpu)).open().map(|_| path)
    });
    match opened {
        Ok(path) => Check::yes(ID.0, ID.1, path),
        Err(error) => Check::no(ID.0, ID.1, &error),
    }
}

fn hardware(kernel: &Perf) -> Check {
    const ID: (&str, &str) = ("hardware", "hardware events");
    let (mut counted, mut refused) = (Vec::new(), Vec::new());
    for event in Hardware::ALL {
        match count(kernel.counter(*event)) {
            Ok((value, _)) => counted.push((Event::from(*event), value)),
            Err(error) => refused.push((Event::from(*event), error)),
        }
    }
    let names: Vec<_> = counted.iter().map(|(event, _)| event).collect();
    let Some((_, first)) = refused.first() else {
        return Check::yes(ID.0, ID.1, format!("all {}", counted.len()));
    };
    if counted.is_empty() {
        return Check::no(ID.0, ID.1, first);
    }
    let zero = counted.iter().all(|(_, value)| *value == 0);
    let seen = if zero { "; every count is 0: this PMU is not real" } else { "" };
    let missing: Vec<_> = refused.iter().map(|(event, _)| event).collect();
    let detail = format!("{}{seen}; not {}", list(&names), list(&missing));
    // Hardly a processor has all of them: cycles and instructions are what counts.
    let essential =
        |error: &Event| [Hardware::CPU_CYCLES, Hardware::INSTRUCTIONS].map(Event::from).contains(error);
    match refused.iter().find(|(event, _)| essential(event)) {
        Some((_, error)) => Check::partly(ID.0, ID.1, detail, error.into()),
        None => Check::yes(ID.0, ID.1, detail),
    }
}

fn cache(kernel: &Perf) -> Check {
    const ID: (&str, &str) = ("cache", "cache events");
    let mut first = None;
    let all = CacheEvent::all().count();
    let opened = CacheEvent::all().filter(|event| match kernel.counter(*event).open() {
        Ok(_) => true,
        Err(error) => {
            first.get_or_insert(error);
            false
        }
    });
    match (opened.count(), first) {
        (0, Some(error)) => Check::no(ID.0, ID.1, &error),
        (opened, _) => Check::yes(ID.0, ID.1, format!("{opened} of {all} (no processor has all)")),
    }
}

fn hardware_sampling(kernel: &Perf) -> Check {
    const ID: (&str, &str) = ("hardware-sampling", "sampling by cycles");
    match samples(kernel.counter(Hardware::CPU_CYCLES).period(100_000)) {
        Ok((0, _)) => {
            let text = "the counter ran and no overflow interrupt arrived";
            let reason = Reason::new("cycles", "no-samples", "no samples arrive", text);
            Check::no(ID.0, ID.1, reason.remedy("sample by cpu-clock"))
        }
        Ok((all, place)) => {
            let level = (1..=3).take_while(|level| precise(kernel, *level)).last().unwrap_or(0);
            Check::yes(ID.0, ID.1, format!("{place}: {all} samples in a moment; precise_ip up to {level}"))
        }
        Err(error) => Check::no(ID.0, ID.1, &error),
    }
}

/// Whether cycles can be sampled at this level of precision.
fn precise(kernel: &Perf, level: u8) -> bool {
    let builder = kernel.counter(Hardware::CPU_CYCLES).period(1_000_000).precise(level);
    builder.open().is_ok_and(|counter| counter.attr().flags.precise_ip() == level)
}

fn user_reads(kernel: &Perf, facts: &Facts) -> Check {
    const ID: (&str, &str) = ("user-reads", "user-space reads");
    // arm64 wants to be asked for each event: bit 0 of config1 is "64 bits", bit 1 "rdpmc" (rule F34).
    let asked = if facts.user_access == Some(1) { 0b11 } else { 0 };
    let cycles = kernel.counter(Hardware::CPU_CYCLES).user_only().with(|attr| attr.config1 |= asked);
    match cycles.open().and_then(Counter::into_user_counter) {
        Ok(counter) if counter.is_allowed() => {
            let clock = if counter.time_conversion().is_some() { ", times included" } else { "" };
            let asked = if asked == 0 { "" } else { " with config1=3" };
            Check::yes(ID.0, ID.1, format!("cycles{asked}{clock}"))
        }
        Ok(_) => {
            let text = "the kernel does not let user space read this counter";
            let reason = Reason::new("cycles", "user-access", "the kernel keeps them closed", text);
            let reason = match facts.user_access {
                Some(0) => {
                    reason.remedy("sudo sysctl kernel.perf_user_access=1, and bit 1 of the event's config1")
                }
                Some(_) => reason,
                None => reason.remedy("echo 1 | sudo tee /sys/bus/event_source/devices/cpu/rdpmc"),
            };
            Check::no(ID.0, ID.1, reason)
        }
        Err(error) => Check::no(ID.0, ID.1, &error),
    }
}

fn tracepoints(kernel: &Perf) -> Check {
    const ID: (&str, &str) = ("tracepoints", "tracepoints");
    let counted = Event::tracepoint("sched:sched_switch").and_then(|event| count(kernel.counter(event)));
    match counted {
        Ok((0, _)) => {
            let text = "the event was opened and a task switch was not counted";
            Check::no(ID.0, ID.1, Reason::new("sched:sched_switch", "not-counted", "not counted", text))
        }
        Ok(_) => {
            let root = crate::tracefs::root().ok();
            let systems = root.as_ref().and_then(|root| std::fs::read_dir(root.join("events")).ok());
            let systems = systems.map_or(0, |entries| {
                entries.filter(|entry| entry.as_ref().is_ok_and(|e| e.path().is_dir())).count()
            });
            let place = match root {
                Some(root) if root.starts_with("/proc") => {
                    "tracefs, which is mounted nowhere else".to_owned()
                }
                Some(root) => root.display().to_string(),
                None => String::new(),
            };
            Check::yes(ID.0, ID.1, format!("{systems} subsystems in {place}"))
        }
        Err(error) => Check::no(ID.0, ID.1, &error),
    }
}

fn uprobes(kernel: &Perf) -> Check {
    const ID: (&str, &str) = ("uprobes", "probes of programs");
    // The start of an ELF file is mapped, but not executable: no code is changed.
    match Event::uprobe("/proc/self/exe", 0).and_then(|event| kernel.counter(event).open()) {
        Ok(_) => Check::yes(ID.0, ID.1, "uprobe, uretprobe"),
        Err(error) => Check::no(ID.0, ID.1, missing_pmu(&error, "CONFIG_UPROBE_EVENTS")),
    }
}

fn kprobes(kernel: &Perf) -> Check {
    const ID: (&str, &str) = ("kprobes", "probes of the kernel");
    // A function that is called once in the life of a kernel, at its end.
    match Event::kprobe("kernel_restart").and_then(|event| kernel.counter(event).open()) {
        Ok(_) => Check::yes(ID.0, ID.1, "kprobe, kretprobe"),
        Err(error) => Check::no(ID.0, ID.1, missing_pmu(&error, "CONFIG_KPROBE_EVENTS")),
    }
}

/// A PMU that is not there because the kernel was built without it.
fn missing_pmu(error: &Error, option: &str) -> Reason {
    let mut reason = Reason::from(error);
    if error.cause() == crate::diagnosis::Cause::NoFile {
        (reason.cause, reason.words) = ("not-built", "the kernel was built without");
        reason.explanation =
            format!("the kernel was built without {option}; that cannot be changed at run time");
        reason.remedies = vec!["use tracepoints".to_owned()];
    }
    reason
}

fn breakpoints(kernel: &Perf) -> Check {
    const ID: (&str, &str) = ("breakpoints", "memory watches");
    static WATCHED: AtomicU64 = AtomicU64::new(0);
    let event = Event::breakpoint(Breakpoint::W, (&raw const WATCHED) as u64, 8);
    let counted = kernel.counter(event).user_only().open().and_then(|mut counter| {
        counter.enable()?;
        (0..3).for_each(|i| WATCHED.store(i, Ordering::SeqCst));
        counter.disable()?;
        Ok(counter.read()?.value)
    });
    match counted {
        Ok(3) => Check::yes(ID.0, ID.1, "3 of 3 writes to a variable counted"),
        Ok(other) => {
            let text = format!("of 3 writes to a variable {other} were counted");
            let tried = "a watch on a variable";
            Check::no(ID.0, ID.1, Reason::new(tried, "not-counted", "not counted", text))
        }
        Err(error) => Check::no(ID.0, ID.1, &error),
    }
}

/// Tries the embedded kernel: traces a command, and counts it.
fn embedded() -> Check {
    const ID: (&str, &str) = ("embedded", "without Linux");
    let Some(kernel) = Perf::embedded() else {
        let reason = Reason::new(
            "cannot count by ptrace",
            "not-embedded",
            "not for this architecture",
            "perfuse's own kernel knows x86-64 and arm64",
        );
        return Check::no(ID.0, ID.1, reason);
    };
    let used = match Perf::linux_refuses() {
        Some(_) => "stat and record use it here, as Linux refuses",
        None => "not needed here; --kernel embedded",
    };
    let counted = || -> Result<u64, Error> {
        let command = crate::Command::new("true").hold()?;
        let builder = kernel.counter(Software::TASK_CLOCK);
        let counter = builder.target(command.target()).enable_on_exec(true).open()?;
        command.release()?.wait()?;
        Ok(counter.read()?.value)
    };
    match counted() {
        Ok(0) => Check::no(
            ID.0,
            ID.1,
            Reason::new(
                "cannot count a command by ptrace",
                "unknown",
                "nothing was counted",
                "its clock stood still",
            ),
        ),
        Ok(_) => {
            let steps = cost_of_a_step(&kernel).map_or_else(
                |error| format!("no single steps ({})", error.cause().words()),
                |cost| format!("step/instructions/u takes {:.0} µs an instruction", cost.as_secs_f64() * 1e6),
            );
            let Err(errno) = crate::embedded::ring_memory() else {
                return Check::yes(
                    ID.0,
                    ID.1,
                    format!("commands are counted and sampled by ptrace; {steps}; {used}"),
                );
            };
            let reason = Reason::new(
                &format!("cannot make the memory of rings ({errno})"),
                "not-embedded",
                "no samples",
                "memfd_create(2), which makes it, is refused by this sandbox: commands are counted, and not sampled",
            );
            Check::partly(ID.0, ID.1, format!("commands are counted by ptrace; {steps}; {used}"), reason)
        }
        Err(error) => Check::no(ID.0, ID.1, &error),
    }
}

/// The time of one stepped instruction, measured with the few of a child that fails to execute a program.
fn cost_of_a_step(kernel: &Perf) -> Result<Duration, Error> {
    let command = crate::Command::new("/nonexistent/program").hold()?;
    let builder = kernel.counter(Event::single_step()).user_only();
    let counter = builder.target(command.target()).enabled(true).open()?;
    let start = Instant::now();
    drop(command.release());
    let took = start.elapsed();
    Ok(took / u32::try_from(counter.read()?.value.max(1)).unwrap_or(u32::MAX))
}

fn rings(kernel: &Perf, facts: &Facts) -> Check {
    const ID: (&str, &str) = ("rings", "ring buffers");
    const USUAL: usize = 128;
    // Recording takes one ring for each cpu, all at once.
    let (mut rings, mut smallest, mut refused) = (Vec::new(), usize::MAX, None);
    let cpus = crate::online_cpus();
    for cpu in &cpus {
        let event = kernel.counter(Software::DUMMY).user_only();
        let builder = Sampler::builder().target(Target::this_thread().on_cpu(*cpu)).event(event);
        let opened = builder.clone().exactly_pages(USUAL).open().or_else(|error| {
            refused.get_or_insert(error);
            builder.pages(USUAL).open()
        });
        match opened {
            Ok(sampler) => {
                smallest = smallest.min(sampler.ring_bytes());
                rings.push(sampler);
            }
            Err(error) => return Check::no(ID.0, ID.1, &error),
        }
    }
    let detail = format!("{} KiB on each of {} cpus", smallest / 1024, cpus.len());
    match refused {
        None => Check::yes(ID.0, ID.1, format!("{detail}{}", spare(facts))),
        Some(error) => Check::partly(ID.0, ID.1, format!("only {detail}"), (&error).into()),
    }
}

/// How far the budget of locked memory goes.
fn spare(facts: &Facts) -> String {
    use crate::facts::Capabilities;
    if facts.capable(Capabilities::IPC_LOCK) {
        return ", without limit (CAP_IPC_LOCK)".to_owned();
    }
    let (Some(share), Some(limit)) = (facts.ring_share_bytes(), facts.locked_bytes) else {
        return String::new();
    };
    let all = share.saturating_add(limit.soft) / 1024;
    if limit.soft == u64::MAX { ", without limit".to_owned() } else { format!(", {all} KiB in all") }
}
