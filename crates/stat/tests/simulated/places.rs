//! Where and for whom it is counted: cpus, threads, cores, cgroups; and cpus that go and come.

use super::*;
use perfuse_stat::{Aggregation, Error};

/// Work for three of four cpus.
const CPUS: &str = "
    machine
      cpus 4
    end
    program one cpu 0
      compute 1ms cycles=1000
    end
    program two cpu 1
      compute 2ms cycles=1000
    end
    program three cpu 2
      compute 3ms cycles=1000
    end
    start one
    start two
    start three
    run 5ms
";

fn all(cpus: u32) -> Target {
    Target::Cpus { cpus: (0..cpus).collect(), all: true }
}

/// The same counts as if each had been told for itself.
fn named<'n>(values: impl IntoIterator<Item = (&'n str, u64)>) -> Vec<(String, u64)> {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(super) fn all_cpus_are_summed_up() -> perfuse_testkit::Outcome {
    let report = counted(&plan(kernel(CPUS), all(4), "cycles,cpu-clock"));
    // The clock goes on where nobody runs.
    assert_eq!(values(&report), [6_000_000, 20_000_000]);
    assert_eq!(report.events[0].rows[0].targets, 4);
    assert_eq!(report.runs[0].wall_ns, 5_000_000);
    Ok(())
}

pub(super) fn each_cpu_has_a_row() -> perfuse_testkit::Outcome {
    let mut plan = plan(kernel(CPUS), all(4), "cycles,task-clock");
    plan.aggregation = Aggregation::Cpu;
    let report = counted(&plan);
    let expected = [("cpu 0", 1_000_000), ("cpu 1", 2_000_000), ("cpu 2", 3_000_000), ("cpu 3", 0)];
    assert_eq!(rows(&report, 0), named(expected));
    assert!(rows(&report, 1).iter().all(|(_, ns)| *ns == 5_000_000), "{:?}", rows(&report, 1));
    Ok(())
}

pub(super) fn each_cache_and_cluster_has_a_row() -> perfuse_testkit::Outcome {
    for (aggregation, expected) in [
        (Aggregation::Cache(None), vec![("S0-D0-L2-ID0", 3_000_000), ("S0-D0-L2-ID2", 3_000_000)]),
        (Aggregation::Cache(Some(3)), vec![("S0-D0-L0-ID0", 6_000_000)]),
        (Aggregation::Cluster, vec![("S0-D0-CLS0", 6_000_000)]),
    ] {
        let mut plan = plan(kernel(CPUS), all(4), "cycles");
        plan.aggregation = aggregation;
        assert_eq!(rows(&counted(&plan), 0), named(expected), "{aggregation:?}");
    }
    Ok(())
}

pub(super) fn thousands_of_cpus_have_a_row_each() -> perfuse_testkit::Outcome {
    use perfuse_sim::{Machine, PmuModel, Setup, Step, program};
    const CPUS: u32 = 2000;
    let setup = Setup { cpus: CPUS, pmu: Some(PmuModel::default()), ..Setup::default() };
    let mut machine = Machine::new(setup);
    for cpu in 0..CPUS {
        let rates = [1000, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let ns = u64::from(cpu % 7 + 1) * 100_000;
        let mut own = program(&format!("on {cpu}"), vec![Step::Compute { ns, kernel: false, rates }]);
        own.on = Some(cpu);
        machine.know(own.clone());
        machine.spawn(&own.name).expect("it is known");
    }
    let mut plan = plan(SimKernel::new(machine), all(CPUS), "cycles");
    plan.aggregation = Aggregation::Cpu;
    let report = counted(&plan);
    let expected: Vec<_> =
        (0..CPUS).map(|cpu| (format!("cpu {cpu}"), u64::from(cpu % 7 + 1) * 100_000)).collect();
    assert_eq!(rows(&report, 0), expected);
    Ok(())
}

/// A process of two threads, one of which calls itself otherwise, and another process.
const THREADS: &str = "
    machine
      cpus 4
    end
    program second
      comm helper
      compute 6ms cycles=1000
    end
    program first
      thread second
      compute 4ms cycles=1000
      wait
    end
    program other
      compute 2ms cycles=1000
    end
    start first
    start other
";

pub(super) fn each_thread_has_a_row_with_its_name() -> perfuse_testkit::Outcome {
    let kernel = kernel(THREADS);
    kernel.run_for(1_000_000);
    let mut plan = plan(kernel, Target::EveryThread(vec![100, 101, 102]), "cycles");
    plan.aggregation = Aggregation::Thread;
    let report = counted(&plan);
    let expected = [("first 100", 3_000_000), ("other 101", 1_000_000), ("helper 102", 5_000_000)];
    assert_eq!(rows(&report, 0), named(expected));
    Ok(())
}

pub(super) fn all_threads_of_a_process_are_counted() -> perfuse_testkit::Outcome {
    let kernel = kernel(THREADS);
    kernel.run_for(1_000_000);
    let report = counted(&plan(kernel, Target::Processes(vec![FIRST]), "cycles"));
    assert_eq!((values(&report), report.events[0].rows[0].targets), (vec![8_000_000], 2));
    Ok(())
}

pub(super) fn each_core_has_a_row() -> perfuse_testkit::Outcome {
    let mut plan = plan(kernel(CPUS), all(4), "cycles");
    plan.aggregation = Aggregation::Core;
    let expected =
        [("S0-D0-C0", 1_000_000), ("S0-D0-C1", 2_000_000), ("S0-D0-C2", 3_000_000), ("S0-D0-C3", 0)];
    assert_eq!(rows(&counted(&plan), 0), named(expected));
    plan = self::plan(kernel(CPUS), all(4), "cycles");
    plan.aggregation = Aggregation::Socket;
    assert_eq!(rows(&counted(&plan), 0), named([("socket 0", 6_000_000)]));
    Ok(())
}

/// A cgroup within another, and a task in each of them and in none.
const CGROUPS: &str = "
    cgroup outer
    cgroup inner in outer
    machine
      cpus 2
    end
    program a cgroup outer
      compute 1ms cycles=1000
    end
    program b cgroup inner
      compute 2ms cycles=1000
    end
    program c
      compute 4ms cycles=1000
    end
    start a
    start b
    start c
    run 10ms
";

pub(super) fn cgroups_are_counted_apart() -> perfuse_testkit::Outcome {
    let mut requests = requests("cycles,faults");
    requests.for_each_cgroup("outer,inner").expect("two names");
    let mut plan = plan(kernel(CGROUPS), all(2), "cycles");
    (plan.events, plan.cgroups) = (requests.all, true);
    let report = counted(&plan);
    let found: Vec<_> =
        report.events.iter().map(|event| (event.cgroup.as_deref(), reading(&event.rows[0]).value)).collect();
    let (outer, inner) = (Some("outer"), Some("inner"));
    assert_eq!(found, [(outer, 3_000_000), (outer, 0), (inner, 2_000_000), (inner, 0)]);
    Ok(())
}

pub(super) fn a_task_that_moves_is_counted_where_it_is() -> perfuse_testkit::Outcome {
    let scenario = "
        cgroup here
        cgroup there
        program worker cgroup here
          compute 10ms cycles=1000
        end
        start worker
        at 3ms move worker there
        at 8ms move worker root
        run 20ms
    ";
    let mut requests = requests("cycles");
    requests.for_each_cgroup("here,there").expect("two names");
    let mut plan = plan(kernel(scenario), all(1), "cycles");
    (plan.events, plan.cgroups) = (requests.all, true);
    assert_eq!(values(&counted(&plan)), [3_000_000, 5_000_000]);
    Ok(())
}

/// Two tasks for two cpus, one of which goes while they work.
const HOTPLUG: &str = "
    machine
      cpus 2
    end
    program worker
      compute 6ms cycles=1000
    end
    start worker as a
    start worker as b
    at 2ms unplug 1
    at 6ms plug 1
    run 20ms
";

pub(super) fn a_cpu_that_goes_keeps_its_count() -> perfuse_testkit::Outcome {
    let mut plan = plan(kernel(HOTPLUG), all(2), "cycles");
    plan.timeout = Some(std::time::Duration::from_millis(5));
    plan.aggregation = Aggregation::Cpu;
    let report = counted(&plan);
    assert_eq!(rows(&report, 0), named([("cpu 0", 5_000_000), ("cpu 1", 2_000_000)]));
    Ok(())
}

/// Events of a cpu end with it (rule C22): both tasks have made all their cycles, and some of them were made unseen.
pub(super) fn a_cpu_that_comes_back_is_not_counted_again() -> perfuse_testkit::Outcome {
    let mut plan = plan(kernel(HOTPLUG), all(2), "cycles");
    plan.aggregation = Aggregation::Cpu;
    let report = counted(&plan);
    assert_eq!(rows(&report, 0)[1], ("cpu 1".to_owned(), 2_000_000));
    let of_tasks = counted(&self::plan(kernel(HOTPLUG), Target::Threads(vec![100, 101]), "cycles"));
    assert_eq!(values(&of_tasks), [12_000_000]);
    Ok(())
}

pub(super) fn migrations_and_switches_are_counted() -> perfuse_testkit::Outcome {
    let report = counted(&plan(kernel(HOTPLUG), Target::Threads(vec![100, 101]), "migrations,cs,task-clock"));
    // One goes from the cpu that leaves, takes its turn with the other, and one of them comes back with the cpu.
    assert_eq!(values(&report), [2, 2, 12_000_000]);
    Ok(())
}

pub(super) fn a_target_that_is_not_there_is_told() -> perfuse_testkit::Outcome {
    for target in [Target::Processes(vec![99]), Target::Threads(vec![99])] {
        let counted = count(&plan(kernel(WORKER), target.clone(), "cycles"), &mut (), None, None);
        match (counted, target) {
            (Err(Error::Perf(error)), Target::Processes(_)) => assert!(error.is_gone(), "{error}"),
            (Ok(Some(report)), Target::Threads(_)) => assert_eq!(missing(&report, 0).cause, "not-enabled"),
            other => panic!("{other:?}"),
        }
    }
    Ok(())
}

pub(super) fn a_cgroup_that_is_not_there_is_told() -> perfuse_testkit::Outcome {
    let mut plan = plan(kernel(CGROUPS), all(2), "cycles");
    plan.events[0].cgroup = Some("nowhere".to_owned());
    let error = count(&plan, &mut (), None, None).expect_err("no such cgroup").to_string();
    assert!(error.contains("nowhere") && error.contains("ENOENT"), "{error}");
    Ok(())
}
