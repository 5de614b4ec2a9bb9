//! Targets of a recording: tasks with all that they start, processes, cpus, cgroups; and the records that tell of them.

use super::*;
use perfuse::abi::AttrFlags;
use perfuse_record::{Error, rehearse};
use perfuse_testkit::Outcome;
use std::collections::BTreeSet;

/// Two tasks that share a cpu, in turns of a millisecond.
const SHARED: &str = "
    machine
      slice 1ms
    end
    program worker
      compute 4ms cycles=1000
    end
    start worker as a
    start worker as b
";

pub(super) fn switches_are_recorded_with_those_who_come_and_go() -> Outcome {
    let mut plan = of_first(SHARED, "cycles");
    plan.sideband = AttrFlags::CONTEXT_SWITCH;
    let made = make(&plan);
    use perfuse::abi::record::Misc;
    let switches = made.told(RecordType::SWITCH, |record| {
        (record.sample_id.time.expect("a time") / 1000, record.misc.contains(Misc::SWITCH_OUT))
    });
    // It runs in every second millisecond, and comes once more to end.
    let turns = [0, 2, 4, 6].map(|begin| [(begin * 1000, false), (begin * 1000 + 1000, true)]);
    let turns = [&turns.concat()[..], &[(8000, false)]].concat();
    assert_eq!(switches, turns);
    assert_eq!(made.times("cycles"), ms([1, 3, 5, 7]));
    Ok(())
}

/// Two tasks share a cpu in turns of a millisecond; one of them sleeps, and its child on another cpu does.
const SLEEPERS: &str = "
    machine
      cpus 2
      slice 1ms
    end
    program child cpu 1
      sleep 7ms
      compute 1ms
      sleep 2ms
    end
    program sleeper cpu 0
      start child
      repeat 3
        compute 1500us
        sleep 4ms
      end
      wait
    end
    program busy cpu 0
      compute 60ms
    end
    start sleeper
    start busy
";

pub(super) fn sleep_is_summed_up_by_records() -> Outcome {
    let slept = |target| {
        let mut plan = plan(kernel(SLEEPERS), target, "dummy");
        plan.events.push(Request::off_cpu());
        let made = make(&plan);
        let told = made.told(RecordType::SWITCH, |_| ()).len();
        assert_eq!(told, 0, "these are summed up");
        let why = made.remarks.iter().find(|remark| matches!(remark, Remark::OffCpuByRecords(_)));
        assert!(why.is_some(), "{:?}", made.remarks);
        let samples = made.samples(|sample| {
            let thread = sample.tid.expect("a thread").tid;
            (thread, sample.period.expect("a period") / 1000)
        });
        assert_eq!(made.ended.sums.samples, samples.len() as u64);
        assert!(samples.iter().all(|(name, _)| name == "offcpu-time"), "{samples:?}");
        let mut sums = BTreeMap::new();
        samples.into_iter().for_each(|(_, (thread, us))| *sums.entry(thread).or_insert(0) += us);
        sums
    };
    let family = slept(Target::Threads(vec![FIRST]));
    let [sleeper, child] = [family[&FIRST], family[&(FIRST + 2)]];
    // That another one has its cpu is no sleep; that it waits for its child is.
    assert_eq!(child, 9000, "{family:?}");
    assert!((12_000..13_000).contains(&sleeper), "{family:?}");
    assert_eq!(family.len(), 2);
    // So it is on whole cpus, where nobody is idle, and the busy one never sleeps.
    let all = slept(Target::Cpus(vec![0, 1]));
    assert_eq!(all, family);
    Ok(())
}

/// A task with two children, which run for two and three milliseconds, on cpus of their own.
const FAMILY: &str = "
    machine
      cpus 4
    end
    program small
      compute 2ms cycles=1000
    end
    program large
      compute 3ms cycles=1000
      comm grown
      compute 2ms cycles=1000
    end
    program parent
      start small
      start large
      compute 1ms cycles=1000
      wait
    end
    start parent
";

pub(super) fn what_a_task_starts_is_sampled_with_it() -> Outcome {
    let made = make(&of_first(FAMILY, "cycles"));
    assert_eq!(made.by_thread(), [(100, 1), (101, 2), (102, 5)].into());
    Ok(())
}

pub(super) fn without_inheritance_it_is_not() -> Outcome {
    let mut plan = of_first(FAMILY, "cycles");
    plan.inherit = false;
    assert_eq!(make(&plan).by_thread(), [(100, 1)].into());
    Ok(())
}

pub(super) fn names_births_and_ends_are_recorded() -> Outcome {
    let made = make(&of_first(FAMILY, "cycles"));
    let forks = made.told(RecordType::FORK, |record| match &record.record {
        Record::Fork(task) => (task.pid, task.ppid),
        _ => (0, 0),
    });
    // The first was there before, and is told as the child of nobody.
    assert_eq!(forks, [(100, 0), (101, 100), (102, 100)]);
    let names = made.told(RecordType::COMM, |record| match &record.record {
        Record::Comm(comm) => (comm.tid.tid, comm.name.to_string()),
        _ => (0, String::new()),
    });
    assert_eq!(names, [(100, "parent".to_owned()), (102, "grown".to_owned())]);
    let ends = made.told(RecordType::EXIT, |record| match &record.record {
        Record::Exit(task) => (record.sample_id.time.map(|ns| ns / 1_000_000), task.tid),
        _ => (None, 0),
    });
    let mut ends = ends;
    ends.sort_unstable();
    assert_eq!(ends, [(Some(2), 101), (Some(5), 100), (Some(5), 102)]);
    Ok(())
}

/// Two libraries, one of which was mapped before the recording began.
pub(super) fn what_was_mapped_before_is_told_first() -> Outcome {
    let scenario = "
        program worker
          map 0x7f0000000000 0x2000 /lib/early
          map-data 0x7f0000008000 0x1000 /lib/early
          compute 2ms cycles=1000
          map 0x7f0000010000 0x3000 /lib/late
          compute 2ms cycles=1000
        end
        start worker
    ";
    let kernel = kernel(scenario);
    kernel.run_for(1_000_000);
    let made = make(&plan(kernel, Target::Threads(vec![FIRST]), "cycles"));
    let maps = made.told(RecordType::MMAP2, |record| match &record.record {
        Record::Mmap2(map) => (map.filename.to_string(), map.addr, map.len),
        _ => (String::new(), 0, 0),
    });
    let expected = [
        ("/lib/early".to_owned(), 0x7f00_0000_0000, 0x2000),
        ("/lib/late".to_owned(), 0x7f00_0001_0000, 0x3000),
    ];
    assert_eq!(maps, expected);
    assert_eq!(made.times("cycles"), ms(2..=4));
    Ok(())
}

/// A process of three threads on cpus of their own, and another one.
const THREADS: &str = "
    machine
      cpus 4
    end
    program second
      compute 6ms cycles=1000
    end
    program first
      thread second
      thread second
      compute 4ms cycles=1000
      wait
    end
    program other
      compute 9ms cycles=1000
    end
    start first
    start other
";

pub(super) fn all_threads_of_a_process_are_sampled() -> Outcome {
    let kernel = kernel(THREADS);
    kernel.run_for(1_500_000);
    let made = make(&plan(kernel, Target::Processes(vec![FIRST]), "cycles"));
    // What is left of 4 ms and 6 ms.
    assert_eq!(made.by_thread(), [(100, 2), (102, 4), (103, 4)].into());
    Ok(())
}

/// Rings are read one after the other: those of threads that take turns on a cpu are out of the order of time.
/// The process of three threads, where descriptors are short.
fn short_of_descriptors(machine: &str, events: &str) -> Plan {
    let scenario = THREADS.replace("cpus 4\n", &format!("cpus 4\n{machine}\n")) + "\ndescriptors 8\n";
    let kernel = kernel(&scenario);
    kernel.run_for(1_500_000);
    plan(kernel, Target::Processes(vec![FIRST]), events)
}

/// Whatever has to be given up before: the PMU, a group.
pub(super) fn more_threads_than_descriptors_are_sampled_by_whole_cpus() -> Outcome {
    let made = make(&short_of_descriptors("", "cycles"));
    assert!(matches!(made.remarks[..], [Remark::Following(_)]), "{:?}", made.remarks);
    assert_eq!(made.by_thread().into_keys().collect::<Vec<_>>(), [100, 102, 103]);
    let mut plan = short_of_descriptors("no-pmu", "cycles");
    plan.default_events = true;
    let made = make(&plan);
    assert!(matches!(made.remarks[..], [Remark::Clock { .. }, Remark::Following(_)]), "{:?}", made.remarks);
    assert_eq!(made.by_thread().into_keys().collect::<Vec<_>>(), [100, 102, 103]);
    Ok(())
}

pub(super) fn whole_cpus_are_not_sampled_where_that_is_excluded() -> Outcome {
    for machine in ["", "no-pmu"] {
        let mut plan = short_of_descriptors(machine, "cycles");
        plan.default_events = true;
        let refused =
            |plan: &Plan| rehearse(plan).expect("a rehearsal").pop().is_some_and(|last| last.error.is_some());
        assert!(!refused(&plan), "{machine}");
        plan.never_follow = true;
        assert!(refused(&plan), "{machine}");
        let error =
            record(&plan, &mut StreamSink::new(Vec::new()), &mut (), None).expect_err("too many threads");
        let Error::Perf(error) = error else { panic!("{error}") };
        assert_eq!(error.cause(), perfuse::diagnosis::Cause::OpenFiles, "{machine}");
    }
    let mut plan = of_first(FAMILY, "cycles");
    plan.target = Target::Command;
    (plan.may_follow, plan.never_follow) = (true, true);
    assert!(plan.following().is_none());
    Ok(())
}

pub(super) fn a_thread_has_a_ring_of_its_own() -> Outcome {
    let scenario = THREADS.replacen("cpus 4", "cpus 1\n slice 1ms", 1);
    let order = |by_thread| {
        let kernel = kernel(&scenario);
        kernel.run_for(1);
        // The first has lost a nanosecond, and with it a sample.
        let mut plan = plan(kernel, Target::Processes(vec![FIRST]), "cycles");
        (plan.by_thread, plan.inherit) = (by_thread, false);
        let made = make(&plan);
        assert_eq!(made.by_thread(), [(100, 3), (102, 6), (103, 6)].into());
        let all = made.samples(|sample| (sample.tid.expect("a thread").tid, sample.time.expect("a time")));
        let is_sorted = |by: fn(&(u32, u64)) -> u64| all.iter().map(|(_, sample)| by(sample)).is_sorted();
        (is_sorted(|(tid, _)| u64::from(*tid)), is_sorted(|(_, time)| *time))
    };
    assert_eq!((order(true), order(false)), ((true, false), (false, true)));
    Ok(())
}

pub(super) fn whole_cpus_are_sampled_whoever_runs_there() -> Outcome {
    let made = make(&plan(kernel(THREADS), Target::Cpus(vec![0, 1, 2, 3]), "cycles"));
    assert_eq!(made.by_thread(), [(100, 4), (101, 9), (102, 6), (103, 6)].into());
    assert_eq!(made.by_cpu().values().sum::<usize>(), 25);
    let one = make(&plan(kernel(THREADS), Target::Cpus(vec![1]), "cycles"));
    assert_eq!(one.by_cpu().into_keys().collect::<Vec<_>>(), [1]);
    // Tasks of all cpus are told, as they may come to this one.
    let ended = one.told(RecordType::EXIT, |record| match &record.record {
        Record::Exit(exit) => exit.tid,
        _ => 0,
    });
    assert_eq!(ended.into_iter().collect::<BTreeSet<_>>(), [100, 101, 102, 103].into());
    Ok(())
}

pub(super) fn of_whole_cpus_one_process_with_its_children_is_kept() -> Outcome {
    let scenario = format!("{FAMILY}\n    program other\n compute 9ms cycles=1000\n end\n start other\n");
    let mut plan = plan(kernel(&scenario), Target::Cpus(vec![0, 1, 2, 3]), "cycles");
    plan.follow = Some(vec![FIRST]);
    let made = make(&plan);
    let threads: Vec<u32> = made.by_thread().into_keys().collect();
    assert_eq!(threads, [100, 102, 103]);
    Ok(())
}

pub(super) fn a_cgroup_is_sampled_while_its_tasks_run() -> Outcome {
    let scenario = "
        cgroup shop
        machine
          cpus 2
        end
        program inside cpu 0 cgroup shop
          compute 8ms cycles=1000
        end
        program outside cpu 1
          compute 8ms cycles=1000
        end
        start inside
        start outside
        at 3500us move outside shop
        at 5500us move inside root
    ";
    let mut plan = plan(kernel(scenario), Target::Cpus(vec![0, 1]), "cycles");
    plan.events[0].cgroup = Some("shop".to_owned());
    let made = make(&plan);
    // The first for 5.5 ms, the other for the last 4.5 ms.
    assert_eq!(made.by_thread(), [(100, 5), (101, 4)].into());
    Ok(())
}

pub(super) fn a_cpu_that_goes_has_no_more_samples_and_the_others_go_on() -> Outcome {
    let scenario = "
        machine
          cpus 2
        end
        program worker
          compute 10ms cycles=1000
        end
        start worker as a
        start worker as b
        at 4500us unplug 1
        run 30ms
    ";
    let made = make(&plan(kernel(scenario), Target::Cpus(vec![0, 1]), "cycles"));
    // Both went on on the first cpu, with all that was left of both.
    assert_eq!(made.by_cpu(), [(0, 15), (1, 4)].into());
    let last = made.samples(|sample| (sample.cpu.map(|cpu| cpu.cpu), sample.time.expect("a time")));
    let last = last.into_iter().filter(|(_, (cpu, _))| *cpu == Some(1)).map(|(_, (_, time))| time).max();
    assert_eq!(last, Some(4_000_000));
    Ok(())
}

pub(super) fn hundreds_of_cpus_have_a_ring_each() -> Outcome {
    let mut scenario =
        "machine\n cpus 256\n end\n program worker\n compute 2ms cycles=1000\n end\n".to_owned();
    scenario += &"start worker\n".repeat(256);
    let mut plan = plan(kernel(&scenario), Target::Cpus((0..256).collect()), "cycles");
    plan.pages = Some(1);
    let made = make(&plan);
    assert_eq!(made.by_cpu(), (0..256).map(|cpu| (cpu, 2)).collect());
    assert_eq!(made.ended.sums.samples, 512);
    Ok(())
}

pub(super) fn a_target_that_is_not_there_is_refused() -> Outcome {
    for target in [Target::Threads(vec![99]), Target::Processes(vec![99])] {
        let plan = plan(kernel(WORKER), target, "cycles");
        match record(&plan, &mut StreamSink::new(Vec::new()), &mut (), None) {
            Err(Error::Perf(error)) => assert!(error.is_gone(), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    Ok(())
}
