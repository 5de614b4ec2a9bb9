//! Instructions counted one by one on the embedded kernel: exactly as many as a program is known to do.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use perfuse::abi::record::{Record, RecordFormat};
use perfuse::abi::{Breakpoint, ByteOrder, Hardware, SampleType};
use perfuse::{
    Builder, Command, Counter, Event, Inherit, Perf, RingOptions, SamplerSet, Scope, Target, Wait,
};
use perfuse_testkit::tiny::{ENTRY, ENTRY_OFFSET, LOOPS_AT, LOOPS_OUTSIDE, LOOPS_ROUND, LOOPS_SECOND, Tiny};
use perfuse_testkit::work::{Child, SPIN_INSTRUCTIONS, spin};
use perfuse_testkit::{Outcome, Skip, suite};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Once;
use std::time::Duration;

/// The embedded kernel.
fn embedded() -> Perf {
    Perf::embedded().expect("one for this architecture")
}

suite! {
    all need perfuse_testkit::need::ptrace;
    measurements:
        a_program_of_known_instructions,
        each_sample_is_at_its_instruction,
        instructions_mean_it_when_asked,
        it_is_refused_with_a_reason,
        loops_are_counted_exactly,
        system_calls_are_one_instruction,
        what_repeats_itself_is_one_instruction,
        handlers_of_signals_are_counted,
        children_are_counted_too,
        breakpoints_count_beside_it,
        probes_count_beside_it,
        exclusive_stores_succeed,
        flags_on_the_stack_are_as_ever;
}

fn stepping() -> Builder {
    Counter::builder(Event::single_step()).kernel(embedded()).user_only()
}

/// Counts a program from its exec to its end.
fn count(program: &Tiny, event: Builder) -> u64 {
    let command = Command::new(program.path()).hold().expect("a child");
    let counter = event.target(command.target()).enable_on_exec(true).open().expect("it can be stepped");
    let (status, _) = command.release().expect("a program").wait().expect("its end");
    assert!(status.success(), "{status}");
    counter.read().expect("read").value
}

fn a_program_of_known_instructions() -> Outcome {
    for rounds in [1, 10, 500] {
        let program = Tiny::loops(rounds);
        let expected = LOOPS_OUTSIDE + LOOPS_ROUND * u64::from(rounds);
        assert_eq!(count(&program, stepping()), expected, "{rounds} rounds");
    }
    Ok(())
}

fn each_sample_is_at_its_instruction() -> Outcome {
    const ROUNDS: u64 = 50;
    const PERIOD: u64 = 7;
    let program = Tiny::loops(ROUNDS as u16);
    let command = Command::new(program.path()).hold().expect("a child");
    let fields = SampleType::IP | SampleType::PERIOD;
    let event = stepping().period(PERIOD).sample(fields).enable_on_exec(true);
    let scope = Scope::command(&command);
    let mut set = SamplerSet::open(&scope, &[event.into()], RingOptions::default()).expect("samplers");
    let running = command.release().expect("a program");
    let format = RecordFormat::of(set.attr(0).expect("it is open"), ByteOrder::NATIVE);
    let mut places = Vec::new();
    loop {
        let told = set.wait(&[], Some(Duration::from_millis(200))).expect("wait");
        for ring in 0..set.rings() {
            for raw in set.batch(ring).iter() {
                if let Record::Sample(sample) = raw.decode(&format).expect("a record").record {
                    assert_eq!(sample.period, Some(PERIOD));
                    places.push(sample.ip.expect("a place"));
                }
            }
        }
        if told == Wait::Ended {
            break;
        }
    }
    running.wait().expect("its end");
    // The first instruction is before the loop.
    let round = ENTRY + LOOPS_AT;
    let of_loop = |number: u64| if number % 2 == 1 { round } else { round + LOOPS_SECOND };
    let instructions = 1 + LOOPS_ROUND * ROUNDS;
    let expected: Vec<u64> = (1..)
        .map(|sample| sample * PERIOD)
        .take_while(|&at| at <= instructions)
        .map(|at| of_loop(at - 1))
        .collect();
    assert_eq!(places[..expected.len()], expected, "where each seventh instruction is");
    assert_eq!(places.len() as u64, (LOOPS_OUTSIDE + LOOPS_ROUND * ROUNDS) / PERIOD);
    Ok(())
}

fn instructions_mean_it_when_asked() -> Outcome {
    let program = Tiny::loops(20);
    let event = || embedded().counter(Hardware::INSTRUCTIONS).user_only();
    let command = Command::new(program.path()).hold().expect("a child");
    let error = event().target(command.target()).open().expect_err("never silently");
    assert!(error.to_string().contains("step/instructions/u"), "{error}");
    drop(command);
    let stepping = Perf::embedded_stepping().expect("one for this architecture");
    let stepped = stepping.counter(Hardware::INSTRUCTIONS).user_only();
    assert_eq!(count(&program, stepped), LOOPS_OUTSIDE + 20 * LOOPS_ROUND);
    let command = Command::new(program.path()).hold().expect("a child");
    event().target(command.target()).open().expect_err("no stepping without asking for it");
    Ok(())
}

fn it_is_refused_with_a_reason() -> Outcome {
    let error = stepping().open().expect_err("no process steps itself");
    assert!(error.to_string().contains("trace itself"), "{error}");
    let command = Command::new("true").hold().expect("a child");
    let error = stepping().user_and_kernel().target(command.target()).open().expect_err("user space alone");
    assert!(error.to_string().contains("user space alone"), "{error}");
    let elsewhere = Counter::builder(Event::single_step()).user_only().open().expect_err("no PMU of Linux'");
    assert!(!elsewhere.to_string().is_empty());
    Ok(())
}

/// The instructions of a child from a read in which it sleeps to its end, doing `body` in between.
fn of_child(event: Builder, body: impl FnOnce()) -> u64 {
    let (ours, its) = UnixStream::pair().expect("a pair of sockets");
    let child = Child::fork(|| {
        let _ = (&its).read_exact(&mut [0]);
        body();
    });
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid())).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next())
    };
    while state() != Some('S') {
        std::thread::sleep(Duration::from_millis(1));
    }
    let target = Target::thread(child.pid());
    let counter = event.target(target).enabled(true).open().expect("a child can be stepped");
    (&ours).write_all(&[1]).expect("the child listens");
    // It is traced: nobody else may wait for it before it has ended.
    while state().is_some_and(|state| !"XZ".contains(state)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let value = counter.read().expect("read").value;
    drop(counter);
    value
}

/// The instructions of `more` instances of something beyond those of `fewer`.
fn difference(fewer: u64, more: u64, body: fn(u64)) -> u64 {
    let count = |number| of_child(stepping(), || body(number));
    // A library does things otherwise once there is another thread, which the first measurement starts.
    static FIRST: Once = Once::new();
    FIRST.call_once(|| _ = of_child(stepping(), || spin(1)));
    let (first, second) = (count(fewer), count(more));
    second - first
}

fn loops_are_counted_exactly() -> Outcome {
    assert_eq!(difference(100, 1100, spin), 1000 * SPIN_INSTRUCTIONS);
    assert_eq!(difference(100, 100, spin), 0);
    Ok(())
}

/// `getppid(2)`, with four instructions to a round.
fn calls(rounds: u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a system call without arguments or effects; what it and the loop change is told.
    unsafe {
        std::arch::asm!("2:", "mov eax, 110", "syscall", "dec {0}", "jnz 2b", inout(reg) rounds => _,
            out("rax") _, out("rcx") _, out("r11") _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a system call without arguments or effects; what it and the loop change is told.
    unsafe {
        std::arch::asm!("2:", "mov x8, #173", "svc #0", "subs {0}, {0}, #1", "b.ne 2b", inout(reg) rounds => _,
            out("x0") _, out("x8") _, options(nostack));
    }
}

fn system_calls_are_one_instruction() -> Outcome {
    assert_eq!(difference(10, 110, calls), 400);
    Ok(())
}

#[cfg(target_arch = "x86_64")]
fn fill(len: u64) {
    static mut ROOM: [u8; 4096] = [0; 4096];
    // SAFETY: it stays within the room, which nobody else uses in this process of one thread.
    unsafe {
        std::arch::asm!("rep stosb", inout("rcx") len => _, inout("rdi") (&raw mut ROOM) => _, in("al") 1u8,
            options(nostack));
    }
}

fn what_repeats_itself_is_one_instruction() -> Outcome {
    #[cfg(target_arch = "x86_64")]
    assert_eq!((difference(0, 1, fill), difference(1, 300, fill)), (0, 0));
    Ok(())
}

extern "C" fn handler(_signal: i32) {
    spin(5);
}

fn signals(number: u64) {
    // SAFETY: a handler that uses nothing but registers; signals to oneself come before the call returns.
    unsafe {
        libc::signal(libc::SIGUSR1, handler as extern "C" fn(i32) as libc::sighandler_t);
        for _ in 0..number {
            libc::raise(libc::SIGUSR1);
        }
    }
}

fn handlers_of_signals_are_counted() -> Outcome {
    let of_one = difference(1, 2, signals);
    assert!(of_one > 5 * SPIN_INSTRUCTIONS, "{of_one}");
    assert_eq!(difference(2, 12, signals), 10 * of_one);
    Ok(())
}

fn children_are_counted_too() -> Outcome {
    difference(1, 1, spin);
    let family = |rounds| {
        of_child(stepping().inherit(Inherit::All), || {
            // SAFETY: the child only counts down and ends.
            unsafe {
                match libc::fork() {
                    0 => {
                        spin(rounds);
                        libc::_exit(0)
                    }
                    child => libc::waitpid(child, std::ptr::null_mut(), 0),
                };
            }
        })
    };
    // The library's own work of a fork varies, but by far less than this.
    let more = family(2100) - family(100);
    assert!(more.abs_diff(2000 * SPIN_INSTRUCTIONS) < 500, "{more}");
    Ok(())
}

fn breakpoints_count_beside_it() -> Outcome {
    let program = Tiny::loops(40);
    let command = Command::new(program.path()).hold().expect("a child");
    let at = ENTRY + LOOPS_AT;
    let hits = Counter::builder(Event::breakpoint(Breakpoint::X, at, size_of::<usize>() as u64));
    let hits = hits.kernel(embedded()).user_only().target(command.target()).enable_on_exec(true).open();
    let hits = match hits {
        Ok(hits) => hits,
        Err(error) => return Err(Skip::needs("debug registers", error)),
    };
    let steps = stepping().target(command.target()).enable_on_exec(true).open().expect("it can be stepped");
    command.release().expect("a program").wait().expect("its end");
    assert_eq!(hits.read().expect("read").value, 40);
    assert_eq!(steps.read().expect("read").value, LOOPS_OUTSIDE + 40 * LOOPS_ROUND);
    Ok(())
}

fn probes_count_beside_it() -> Outcome {
    let program = Tiny::loops(40);
    // Two instructions that are done in place of the program, or stepped over; both are counted by all.
    let probe = |offset| {
        let event = Event::uprobe(program.path(), offset).map_err(|error| Skip::needs("uprobes", error))?;
        Ok::<_, Skip>(Counter::builder(event).kernel(embedded()).user_only())
    };
    let at = ENTRY_OFFSET + LOOPS_AT;
    let probes = [probe(at)?, probe(at + LOOPS_SECOND)?];
    let command = Command::new(program.path()).hold().expect("a child");
    let on = |builder: Builder| builder.target(command.target()).enable_on_exec(true).open();
    let hits = probes.map(|probe| on(probe).expect("a probe"));
    let steps = on(stepping()).expect("it can be stepped");
    command.release().expect("a program").wait().expect("its end");
    assert_eq!(hits.map(|hits| hits.read().expect("read").value), [40, 40]);
    assert_eq!(steps.read().expect("read").value, LOOPS_OUTSIDE + 40 * LOOPS_ROUND);
    Ok(())
}

/// Adds with exclusive loads and stores, six instructions to a round.
#[cfg(target_arch = "aarch64")]
fn adds(rounds: u64) {
    let mut sum = 0u64;
    // SAFETY: the word is live and aligned; what the loop changes is told.
    unsafe {
        std::arch::asm!("2:", "ldxr {1}, [{3}]", "add {1}, {1}, #1", "stxr {2:w}, {1}, [{3}]", "cbnz {2:w}, 2b",
            "subs {0}, {0}, #1", "b.ne 2b", inout(reg) rounds => _, out(reg) _, out(reg) _, in(reg) &raw mut sum,
            options(nostack));
    }
}

fn exclusive_stores_succeed() -> Outcome {
    #[cfg(target_arch = "aarch64")]
    assert_eq!(difference(5, 55, adds), 300);
    Ok(())
}

/// Ends otherwise than it should if the flag by which it is stepped can be seen.
#[cfg(target_arch = "x86_64")]
fn looks_at_flags(_: u64) {
    let flags: u64;
    // SAFETY: what is pushed is popped, and flags are saved by the compiler.
    unsafe { std::arch::asm!("pushfq", "pop {0}", out(reg) flags) };
    if flags & 1 << 8 != 0 {
        // SAFETY: it ends the process.
        unsafe { libc::_exit(1) };
    }
    spin(1000);
}

fn flags_on_the_stack_are_as_ever() -> Outcome {
    #[cfg(target_arch = "x86_64")]
    assert!(of_child(stepping(), || looks_at_flags(0)) > 1000 * SPIN_INSTRUCTIONS);
    Ok(())
}
