//! The machine as a kernel, measured by the library: what descriptors, rings and waits do, and how time passes.
#![cfg(all(feature = "kernel", any(target_arch = "x86_64", target_arch = "aarch64")))]

use perfuse::abi::record::Record;
use perfuse::abi::{EventType, Hardware, ReadFormat, SampleType, Software};
use perfuse::diagnosis::Cause;
use perfuse::kernel::{Kernel, Surroundings};
use perfuse::{Counter, Event, Group, Perf, Sampler, Target, Wait};
use perfuse_sim::SimKernel;
use perfuse_sys::poll::Readiness;
use std::sync::Arc;
use std::time::Duration;

const WORKER: &str = "
    program worker
      compute 4ms cycles=1000 instructions=3000
      fault 5
      compute 4ms cycles=1000 instructions=3000
    end
    start worker
";

fn kernel(scenario: &str) -> (Arc<SimKernel>, Perf) {
    let kernel = Arc::new(SimKernel::of(&scenario.parse().expect("a scenario")));
    (kernel.clone(), Perf::from(kernel))
}

fn counter(perf: &Perf, event: impl Into<Event>) -> Counter {
    let mut counter = perf.counter(event).target(Target::thread(100)).open().expect("it can be opened");
    counter.enable().expect("it is open");
    counter
}

#[test]
fn counters_follow_the_time_that_passes() {
    let (kernel, perf) = kernel(WORKER);
    let (cycles, faults) = (counter(&perf, Hardware::CPU_CYCLES), counter(&perf, Software::PAGE_FAULTS));
    for (ms, cycles_then, faults_then) in [(1, 1, 0), (2, 3, 0), (3, 6, 5), (9, 8, 5)] {
        kernel.run_for(ms * 1_000_000);
        assert_eq!(cycles.read().expect("a count").value, cycles_then * 1_000_000);
        assert_eq!(faults.read().expect("a count").value, faults_then);
    }
}

#[test]
fn a_group_is_read_at_once() {
    let (kernel, perf) = kernel(WORKER);
    let mut group = Group::on(Target::thread(100)).kernel(&perf);

    let cycles = group.add(Hardware::CPU_CYCLES).expect("room");
    let instructions = group.add(Hardware::INSTRUCTIONS).expect("room");
    group.enable().expect("it is open");
    kernel.run_for(2_500_000);
    let counts = group.read().expect("counts");
    assert_eq!((counts[cycles].value, counts[instructions].value), (2_500_000, 7_500_000));
}

#[test]
fn a_wait_takes_as_long_as_the_records_need_to_come() {
    let (kernel, perf) = kernel(WORKER);
    let event = perf.counter(Hardware::CPU_CYCLES).period(1_500_000).sample(SampleType::TIME);
    let event = event.with(|attr| attr.set_wakeup_events(2));
    let mut sampler = Sampler::builder().target(Target::thread(100)).event(event).open().expect("a ring");
    sampler.enable().expect("it is open");
    let began = kernel.now();
    let mut waited = || {
        let wait = sampler.wait(Some(Duration::from_millis(10))).expect("a wait");
        let batch = sampler.batch();
        let is_sample = |record: Record<'_>| matches!(record, Record::Sample(_));
        let records = batch.iter().filter(|record| is_sample(record.decode().expect("a record").record));
        (wait, records.count(), kernel.now() - began)
    };
    assert_eq!(waited(), (Wait::Records, 2, Duration::from_millis(3)));
    assert_eq!(waited(), (Wait::Records, 2, Duration::from_millis(6)));
    // The fifth sample comes with the end.
    assert_eq!(waited(), (Wait::Records, 1, Duration::from_millis(8)));
    assert_eq!(waited(), (Wait::Ended, 0, Duration::from_millis(8)));
}

#[test]
fn a_wait_for_nothing_ends_with_its_time_or_the_machines() {
    let (kernel, _) = kernel(&format!("{WORKER} run 20ms"));
    let began = kernel.now();
    assert_eq!(kernel.poll(&[], Some(Duration::from_millis(7))), Ok(Vec::new()));
    assert_eq!((kernel.now() - began, kernel.is_over()), (Duration::from_millis(7), false));
    assert_eq!(kernel.poll(&[], None), Ok(Vec::new()));
    assert_eq!((kernel.now() - began, kernel.is_over()), (Duration::from_millis(20), true));
}

#[test]
fn those_who_are_woken_run_later_where_they_are_slow() {
    let kernel = SimKernel::of(&WORKER.parse().expect("a scenario")).with_latency(700_000);
    let kernel = Arc::new(kernel);
    let event = Perf::from(kernel.clone()).counter(Hardware::CPU_CYCLES).period(2_000_000);
    let event = event.with(|attr| attr.set_wakeup_events(1));
    let mut sampler = Sampler::builder().target(Target::thread(100)).event(event).open().expect("a ring");
    sampler.enable().expect("it is open");
    let began = kernel.now();
    assert_eq!(sampler.wait(None).expect("a wait"), Wait::Records);
    assert_eq!(kernel.now() - began, Duration::from_micros(2700));
}

#[test]
fn a_task_that_ends_hangs_up() {
    let (kernel, perf) = kernel(WORKER);
    let event = perf.counter(Software::DUMMY).period(1);
    let sampler = Sampler::builder().target(Target::thread(100)).event(event).open().expect("a ring");
    let began = kernel.now();
    assert_eq!(sampler.wait(None).expect("a wait"), Wait::Ended);
    assert_eq!(kernel.now() - began, Duration::from_millis(8));
    assert!(!kernel.is_alive(100) && kernel.processes().is_empty());
}

#[test]
fn what_is_to_happen_happens_at_its_time() {
    let scenario = "machine\n cpus 3\nend\nprogram worker\n compute 9ms cycles=1000\nend\nstart worker\n\
                    at 2ms unplug 2\nrun 4ms\nstart worker as late\nplug 2\nset perf_event_paranoid x\nrun 6ms";
    let (kernel, perf) = kernel(scenario);
    assert_eq!((kernel.online_cpus(), kernel.processes()), (vec![0, 1, 2], vec![100]));
    kernel.run_for(3_000_000);
    assert_eq!((kernel.online_cpus(), kernel.processes()), (vec![0, 1], vec![100]));
    kernel.run_for(2_000_000);
    assert_eq!((kernel.online_cpus(), kernel.processes()), (vec![0, 1, 2], vec![100, 101]));
    kernel.run_for(100_000_000);
    assert!(kernel.is_over());
    assert_eq!(perf.take_notices().len(), 1, "a text that is no number");
}

#[test]
fn refusals_name_what_the_machine_lacks() {
    let (_, perf) = kernel("machine\n no-pmu\nend\nprogram w\n compute 1ms\nend\nstart w");
    let refused = |event: Event, tid| {
        let opened = perf.counter(event).target(Target::thread(tid)).open();
        opened.expect_err("it is not there").cause()
    };
    assert_eq!(refused(Hardware::CPU_CYCLES.into(), 100), Cause::NoHardwarePmu);
    assert_eq!(refused(Software::TASK_CLOCK.into(), 7), Cause::NoSuchTask);
    let unknown =
        perf.counter(Software::DUMMY).target(Target::thread(100)).with(|attr| attr.type_ = EventType(77));
    assert_eq!(unknown.open().expect_err("no such type").cause(), Cause::UnknownEvent);
}

#[test]
fn it_knows_the_whole_interface_and_its_descriptors_alone() {
    let (kernel, perf) = kernel(WORKER);
    assert!(perf.support().read_format.contains(ReadFormat::LOST));
    assert!(perf.facts().is_simulated && !perf.facts().is_embedded);
    let (_, others) = self::kernel(WORKER);
    let theirs = counter(&others, Software::TASK_CLOCK);
    let mut words = [0; 8];
    use std::os::fd::AsFd;
    assert_eq!(kernel.read(theirs.as_fd(), &mut words), Err(perfuse_sys::Errno::EBADF));
    assert_eq!(
        theirs.poll(Some(Duration::ZERO)).map(Readiness::any).ok(),
        Some(true),
        "no ring: it hangs up"
    );
}
