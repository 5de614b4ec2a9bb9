//! What is counted: events, sides, turns, groups, and why something is missing.

use super::*;
use perfuse::abi::EventType;
use perfuse_data::PerfData;
use perfuse_events::{EventSpec, Source};
use perfuse_stat::derive::{Kind, metric};
use perfuse_stat::{Destination, MissingKind, Request, replay};

pub(super) fn hardware_events_are_counted_to_the_last_one() -> perfuse_testkit::Outcome {
    let report = counted(&of_first(WORKER, "cycles,instructions"));
    let whole = |value| Reading { value, raw: value, enabled_ns: 10_000_000, running_ns: 10_000_000 };
    assert_eq!(readings(&report), [whole(10_000_000), whole(20_000_000)]);
    Ok(())
}

pub(super) fn software_events_are_counted_with_them() -> perfuse_testkit::Outcome {
    let scenario = "
        program worker
          repeat 3
            compute 2ms
            fault 5
            major-fault 2
            sleep 1ms
          end
        end
        start worker
    ";
    let report = counted(&of_first(scenario, "task-clock,faults,minor-faults,major-faults,cs"));
    // It goes to sleep three times; its end is no switch.
    assert_eq!(values(&report), [6_000_000, 21, 15, 6, 3]);
    Ok(())
}

pub(super) fn sides_are_counted_apart() -> perfuse_testkit::Outcome {
    let scenario = "
        program worker
          compute 3ms cycles=1000
          kernel 2ms cycles=500
        end
        start worker
    ";
    let report = counted(&of_first(scenario, "cycles,cycles:u,cycles:k"));
    assert_eq!(values(&report), [4_000_000, 3_000_000, 1_000_000]);
    Ok(())
}

/// A task with two children, one of which has a thread.
const FAMILY: &str = "
    machine
      cpus 4
    end
    program thread
      compute 1ms cycles=1000
    end
    program child
      thread thread
      compute 2ms cycles=1000
      fault 3
    end
    program parent
      start child
      start child
      compute 4ms cycles=1000
      wait
    end
    start parent
";

pub(super) fn what_a_task_starts_is_counted_with_it() -> perfuse_testkit::Outcome {
    let report = counted(&of_first(FAMILY, "cycles,faults,task-clock"));
    assert_eq!(values(&report), [10_000_000, 6, 10_000_000]);
    Ok(())
}

pub(super) fn without_inheritance_it_is_not() -> perfuse_testkit::Outcome {
    let mut plan = of_first(FAMILY, "cycles,faults,task-clock");
    plan.inherit = false;
    assert_eq!(values(&counted(&plan)), [4_000_000, 0, 4_000_000]);
    Ok(())
}

/// Three events for two counters, for a time that is a multiple of all turns.
const TURNS: &str = "
    machine
      counters 2
    end
    program worker
      compute 120ms cycles=1000 instructions=2000 branches=500
    end
    start worker
";

pub(super) fn events_that_take_turns_are_scaled_to_the_whole_time() -> perfuse_testkit::Outcome {
    let report = counted(&of_first(TURNS, "cycles,instructions,branches"));
    let shared =
        |value: u64| Reading { value, raw: value / 3 * 2, enabled_ns: 120_000_000, running_ns: 80_000_000 };
    assert_eq!(readings(&report), [120_000_000, 240_000_000, 60_000_000].map(shared));
    assert_eq!(report.events[0].rows[0].share(), 2.0 / 3.0);
    Ok(())
}

pub(super) fn without_scaling_the_raw_count_is_told() -> perfuse_testkit::Outcome {
    let mut plan = of_first(TURNS, "cycles,instructions,branches");
    plan.scale = false;
    assert_eq!(values(&counted(&plan)), [80_000_000, 160_000_000, 40_000_000]);
    Ok(())
}

pub(super) fn members_of_a_group_take_turns_together() -> perfuse_testkit::Outcome {
    let report = counted(&of_first(TURNS, "{cycles,instructions},branches"));
    let half = |value: u64| (value, 60_000_000);
    let found: Vec<_> = readings(&report).iter().map(|reading| (reading.raw, reading.running_ns)).collect();
    assert_eq!(found, [60_000_000, 120_000_000, 30_000_000].map(half));
    assert_eq!(values(&report), [120_000_000, 240_000_000, 60_000_000]);
    Ok(())
}

pub(super) fn a_group_that_does_not_fit_is_missing_with_the_reason() -> perfuse_testkit::Outcome {
    let report = counted(&of_first(TURNS, "{cycles,instructions,branches},faults"));
    // Two of them fit, and are counted all the time.
    assert_eq!(
        [0, 1, 3].map(|event| reading(&report.events[event].rows[0]).value),
        [120_000_000, 240_000_000, 0]
    );
    let missing = missing(&report, 2);
    assert_eq!((missing.kind, &*missing.cause), (MissingKind::NotSupported, "group"));
    assert_eq!(missing.errno.as_deref(), Some("EINVAL"));
    Ok(())
}

pub(super) fn a_weak_group_that_does_not_fit_falls_apart() -> perfuse_testkit::Outcome {
    let report = counted(&of_first(TURNS, "{cycles,instructions,branches}:W"));
    assert_eq!(values(&report), [120_000_000, 240_000_000, 60_000_000]);
    assert!(readings(&report).iter().all(|reading| reading.running_ns == 80_000_000), "{report:?}");
    Ok(())
}

pub(super) fn a_pinned_event_is_always_counted() -> perfuse_testkit::Outcome {
    let report = counted(&of_first(TURNS, "cycles,instructions,branches:D"));
    let running: Vec<u64> = readings(&report).iter().map(|reading| reading.running_ns).collect();
    assert_eq!(running, [60_000_000, 60_000_000, 120_000_000]);
    assert_eq!(values(&report), [120_000_000, 240_000_000, 60_000_000]);
    Ok(())
}

/// It is in the error state from the first moment on, which shows as an end of file (rule E1).
pub(super) fn a_pinned_event_that_does_not_fit_is_missing() -> perfuse_testkit::Outcome {
    let mut plan = of_first(TURNS, "cycles:D,instructions:D,branches:D");
    plan.timeout = Some(std::time::Duration::from_millis(20));
    let report = counted(&plan);
    assert_eq!([0, 1].map(|event| reading(&report.events[event].rows[0]).value), [20_000_000, 40_000_000]);
    assert_eq!(missing(&report, 2).cause, "no-room");
    Ok(())
}

pub(super) fn without_a_pmu_only_the_hardware_is_missing() -> perfuse_testkit::Outcome {
    let scenario = WORKER.replacen("program", "machine\n no-pmu\n end\n program", 1);
    let report = counted(&of_first(&scenario, "cycles,task-clock"));
    let missing = missing(&report, 0);
    assert_eq!((missing.kind, &*missing.cause), (MissingKind::NotSupported, "no-hardware-pmu"));
    assert_eq!(reading(&report.events[1].rows[0]).value, 10_000_000);
    Ok(())
}

pub(super) fn the_kernel_side_is_left_out_where_it_is_refused() -> perfuse_testkit::Outcome {
    let scenario = "
        unprivileged
        program worker
          compute 3ms cycles=1000
          kernel 2ms cycles=1000
        end
        start worker
    ";
    let report = counted(&of_first(scenario, "cycles"));
    assert_eq!((&*report.events[0].name, report.events[0].lost_kernel_side), ("cycles:u", true));
    assert_eq!(values(&report), [3_000_000]);
    Ok(())
}

pub(super) fn hits_that_match_a_filter_are_counted() -> perfuse_testkit::Outcome {
    let scenario = "
        machine
          tracepoint 42
        end
        program worker
          repeat 10
            tracepoint 42 value=1
            tracepoint 42 value=2 weight=3
            compute 10us
          end
        end
        start worker
    ";
    let source = Source::Kernel { type_: EventType::TRACEPOINT, config: 42, more: [0; 4] };
    let hits = |filter: Option<&str>| {
        let mut plan = of_first(scenario, "dummy");
        let dummy = plan.events.remove(0);
        let (spec, filter) = (EventSpec::new("sim:hit", source), filter.map(str::to_owned));
        plan.events = vec![Request { spec, filter, ..dummy }];
        values(&counted(&plan))
    };
    assert_eq!(hits(None), [40]);
    assert_eq!(hits(Some("value == 1")), [10]);
    assert_eq!(hits(Some("value > 1 && common_pid == 100")), [30]);
    Ok(())
}

pub(super) fn an_exec_is_counted_on() -> perfuse_testkit::Outcome {
    let scenario = "
        program image
          compute 3ms cycles=2000
        end
        program worker
          compute 2ms cycles=1000
          exec image
        end
        start worker
    ";
    assert_eq!(values(&counted(&of_first(scenario, "cycles,task-clock"))), [8_000_000, 5_000_000]);
    Ok(())
}

pub(super) fn recorded_counts_are_the_same_bytes_and_the_same_counts() -> perfuse_testkit::Outcome {
    let record = |name: &str| {
        let path = std::env::temp_dir().join(format!("perfuse-stat-sim-{}-{name}", std::process::id()));
        let mut destination = Destination::File(path.clone());
        let plan = of_first(TURNS, "cycles,instructions,branches,faults");
        let made = count(&plan, &mut (), None, Some(&mut destination)).expect("counts").expect("a run");
        let bytes = std::fs::read(&path).expect("a recording");
        let mut data = PerfData::open(&path).expect("a recording");
        let (replayed, _) = replay(&mut data, None, "it", |_| Ok(())).expect("counts").expect("some");
        std::fs::remove_file(&path).expect("it was there");
        assert_eq!(readings(&replayed), readings(&made));
        bytes
    };
    assert!(record("one") == record("other"));
    Ok(())
}

pub(super) fn instructions_per_cycle_are_told() -> perfuse_testkit::Outcome {
    let report = counted(&of_first(WORKER, "task-clock,cycles,instructions"));
    let found: Vec<_> = report
        .events
        .iter()
        .map(|event| metric(&report, event, &event.rows[0].place).map(|metric| (metric.kind, metric.value)))
        .collect();
    assert_eq!(found[1..], [Some((Kind::GigaHertz, Some(1.0))), Some((Kind::PerCycle, Some(2.0)))]);
    Ok(())
}
