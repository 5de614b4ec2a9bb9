//! Programs of object files in Linux. Their source is beside the objects.

use perfuse::abi::{SampleType, Software};
use perfuse::bpf::btf::Btf;
use perfuse::bpf::object::{Object, Target};
use perfuse::bpf::{ByteOrder, ProgramType};
use perfuse::{Counter, Event, Programs};
use perfuse_testkit::{Outcome, Skip, need, suite};

const COUNTS: &[u8] = include_bytes!("../../bpf/tests/objects/counts.bpf.o");
const TASK: &[u8] = include_bytes!("../../bpf/tests/objects/task.bpf.o");

suite! {
    all need need::root;
    measurements:
        a_helper_calls_a_function_of_the_program,
        a_program_counts_overflows,
        a_program_reads_what_the_kernel_has;
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight"))).collect()
}

fn a_program_counts_overflows() -> Outcome {
    let mut object = Object::parse(COUNTS, &Target::new(1)).expect("an object");
    object.variable("step").expect("a variable").copy_from_slice(&5u32.to_ne_bytes());
    let mut programs = Programs::of_object(&object).map_err(|error| Skip::needs("BPF", error))?;
    let clock = Counter::builder(Event::Software(Software::CPU_CLOCK)).period(100_000).sample(SampleType::IP);
    let mut counter = clock.open().expect("a clock");
    let program = &object.programs[0];
    assert_eq!(
        (program.section.as_str(), program.program_type),
        ("perf_event", Some(ProgramType::PerfEvent))
    );
    programs.at_event(&mut counter, ProgramType::PerfEvent, &program.insns).expect("Linux takes it");
    counter.enable().expect("enable");
    let read = |map: &str, key: u32| {
        let map = programs.map(object.map(map).expect("a map"));
        numbers(&map.lookup(&key.to_ne_bytes()).expect("a value"))
    };
    // Reading takes the time that the clock counts.
    let _ = (0..10_000_000).any(|_| read(".bss", 0)[0] > 10);
    counter.disable().expect("disable");
    let hits = read(".bss", 0)[0];
    assert!(hits > 10, "{hits}");
    // Each adds 2 * 5 and a number that begins with 3 and grows.
    let sum = 13 * hits + hits * (hits - 1) / 2;
    assert_eq!(read("counts", 5), [hits, sum]);
    assert_eq!(read(".data", 0), [sum, 3 + hits]);
    Ok(())
}

fn a_helper_calls_a_function_of_the_program() -> Outcome {
    need::tracefs()?;
    let mut object = Object::parse(COUNTS, &Target::new(1)).expect("an object");
    object.variable("step").expect("a variable").copy_from_slice(&5u32.to_ne_bytes());
    let mut programs = Programs::of_object(&object).map_err(|error| Skip::needs("BPF", error))?;
    let program = &object.programs[1];
    let name = program.place().expect("a tracepoint").replace('/', ":");
    let event =
        Event::tracepoint(&name).map_err(|error| Skip::needs("tracepoints of system calls", error))?;
    let mut counter = Counter::new(event).expect("a tracepoint");
    match programs.at_event(&mut counter, ProgramType::Tracepoint, &program.insns) {
        // bpf_loop came with Linux 5.17.
        Err(error) if error.log.contains("invalid func") => return Err(Skip::needs("bpf_loop", error)),
        attached => attached.expect("Linux takes it"),
    }
    counter.enable().expect("enable");
    let _ = std::os::unix::process::parent_id();
    counter.disable().expect("disable");
    let data = programs.map(object.map(".data").expect("a map")).lookup(&[0; 4]).expect("a value");
    // 0 + 1 + 2 + 3 + 4, at each call.
    assert_eq!(numbers(&data), [10, 3]);
    Ok(())
}

fn a_program_reads_what_the_kernel_has() -> Outcome {
    need::tracefs()?;
    let types =
        std::fs::read("/sys/kernel/btf/vmlinux").map_err(|error| Skip::needs("the kernel's types", error))?;
    let types = Btf::parse(types, ByteOrder::NATIVE).expect("types");
    let mut object =
        Object::parse(TASK, &Target { types: Some(&types), ..Target::new(1) }).expect("an object");
    object.variable("wanted").expect("a variable").copy_from_slice(&std::process::id().to_ne_bytes());
    let mut programs = Programs::of_object(&object).map_err(|error| Skip::needs("BPF", error))?;
    let program = &object.programs[0];
    let name = program.place().expect("a tracepoint").replace('/', ":");
    let event =
        Event::tracepoint(&name).map_err(|error| Skip::needs("tracepoints of system calls", error))?;
    let mut counter = Counter::new(event).expect("a tracepoint");
    programs.at_event(&mut counter, ProgramType::Tracepoint, &program.insns).expect("Linux takes it");
    counter.enable().expect("enable");
    let _ = std::os::unix::process::parent_id();
    let seen = programs.map(object.map(".bss").expect("a map")).lookup(&[0; 4]).expect("a value");
    let [pid, tgid, leader] =
        [0, 4, 8].map(|at| u32::from_ne_bytes(seen[at..at + 4].try_into().expect("four")));
    // SAFETY: it takes nothing, and cannot fail.
    let own = unsafe { libc::gettid() } as u32;
    assert_eq!((pid, tgid, leader), (own, std::process::id(), std::process::id()));
    let comm = std::fs::read_to_string(format!("/proc/self/task/{own}/comm")).expect("its name");
    assert_eq!(seen[12..28].split(|byte| *byte == 0).next(), Some(comm.trim_end().as_bytes()));
    Ok(())
}
