//! When it is counted: delays, limits, intervals, orders.

use super::*;
use perfuse::Start;
use perfuse_sys::pipe;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::Duration;

pub(super) fn counting_starts_after_the_delay() -> perfuse_testkit::Outcome {
    let mut plan = of_first(WORKER, "cycles");
    plan.start = Start::After(Duration::from_micros(2500));
    let report = counted(&plan);
    assert_eq!(values(&report), [7_500_000]);
    assert_eq!(readings(&report)[0].enabled_ns, 7_500_000);
    // The delay is no part of the time that is told, of intervals, and of the limit.
    assert_eq!(report.runs[0].wall_ns, 7_500_000);
    let mut plan = of_first(WORKER, "cycles");
    plan.start = Start::After(Duration::from_micros(2500));
    plan.interval = Some(Duration::from_millis(2));
    plan.timeout = Some(Duration::from_millis(5));
    let (report, intervals) = counted_with(&plan, None);
    assert_eq!(by_interval(&intervals), [(2, 2_000_000), (4, 2_000_000), (5, 1_000_000)]);
    assert_eq!(report.runs[0].wall_ns, 5_000_000);
    Ok(())
}

pub(super) fn counting_ends_with_the_time() -> perfuse_testkit::Outcome {
    let mut plan = of_first(WORKER, "cycles");
    plan.timeout = Some(Duration::from_micros(3250));
    let report = counted(&plan);
    assert_eq!(values(&report), [3_250_000]);
    assert_eq!(report.runs[0].wall_ns, 3_250_000);
    Ok(())
}

/// Works, and sleeps for as long.
const STEPS: &str = "
    program worker
      compute 3ms cycles=1000
      sleep 3ms
      compute 3ms cycles=2000
      sleep 3ms
    end
    start worker
";

/// The values of an event in each interval, with the interval's end in milliseconds.
fn by_interval(intervals: &[Report]) -> Vec<(u64, u64)> {
    let end = |report: &Report| report.interval.expect("an interval").at_ns / 1_000_000;
    intervals.iter().map(|report| (end(report), readings(report)[0].value)).collect()
}

pub(super) fn intervals_are_counted_one_by_one() -> perfuse_testkit::Outcome {
    let mut plan = of_first(WORKER, "cycles");
    plan.interval = Some(Duration::from_millis(4));
    plan.timeout = Some(Duration::from_millis(10));
    let (report, intervals) = counted_with(&plan, None);
    assert_eq!(by_interval(&intervals), [(4, 4_000_000), (8, 4_000_000), (10, 2_000_000)]);
    assert_eq!(values(&report), [10_000_000]);
    assert!(intervals[0].interval.is_some_and(|interval| interval.first));
    assert!(intervals[1].interval.is_some_and(|interval| !interval.first));
    Ok(())
}

pub(super) fn no_interval_has_no_length() -> perfuse_testkit::Outcome {
    let mut plan = of_first(WORKER, "cycles");
    plan.interval = Some(Duration::from_millis(5));
    plan.kernel = Perf::new(kernel(&format!("{WORKER} run 10ms")));
    let (_, intervals) = counted_with(&plan, None);
    assert_eq!(by_interval(&intervals), [(5, 5_000_000), (10, 5_000_000)]);
    Ok(())
}

pub(super) fn counting_ends_after_so_many_intervals() -> perfuse_testkit::Outcome {
    let mut plan = of_first(WORKER, "cycles");
    (plan.interval, plan.intervals) = (Some(Duration::from_millis(2)), Some(3));
    let (report, intervals) = counted_with(&plan, None);
    assert_eq!(by_interval(&intervals), [(2, 2_000_000), (4, 2_000_000), (6, 2_000_000)]);
    assert_eq!((values(&report), report.runs[0].wall_ns), (vec![6_000_000], 6_000_000));
    Ok(())
}

pub(super) fn an_interval_in_which_nothing_ran_counts_nothing() -> perfuse_testkit::Outcome {
    let mut plan = of_first(STEPS, "cycles");
    (plan.interval, plan.intervals) = (Some(Duration::from_millis(3)), Some(3));
    let (_, intervals) = counted_with(&plan, None);
    assert_eq!(by_interval(&intervals[..1]), [(3, 3_000_000)]);
    assert_eq!(missing(&intervals[1], 0).cause, "not-enabled");
    assert_eq!(by_interval(&intervals[2..]), [(9, 6_000_000)]);
    Ok(())
}

pub(super) fn counting_lasts_as_long_as_one_of_its_targets() -> perfuse_testkit::Outcome {
    let scenario = "
        machine
          cpus 2
        end
        program short
          compute 30ms cycles=1000
        end
        program long
          compute 250ms cycles=1000
        end
        start short
        start long
        run 1s
    ";
    // Whether they are still there is looked at ten times a second.
    for (tids, end_ms, cycles) in [(vec![100], 100, 30), (vec![100, 101], 300, 280)] {
        let report = counted(&plan(kernel(scenario), Target::Threads(tids), "cycles"));
        assert_eq!(report.runs[0].wall_ns, end_ms * 1_000_000);
        assert_eq!(values(&report), [cycles * 1_000_000]);
    }
    Ok(())
}

/// Counts while these orders come, each at its time in microseconds.
fn ordered(events: &str, orders: &[(u64, &'static str)]) -> Report {
    let (reading, writing) = pipe::nonblocking(true).expect("a pipe");
    let control = Control::open(&format!("fd:{}", reading.as_raw_fd())).expect("a channel");
    let writing = Arc::new(File::from(writing));
    let mut kernel = kernel(WORKER);
    for &(at_us, order) in orders {
        let writing = writing.clone();
        kernel = kernel.at(at_us * 1000, move |_| (&*writing).write_all(order.as_bytes()).expect("room"));
    }
    let plan = plan(kernel, Target::Threads(vec![FIRST]), events);
    counted_with(&plan, Some(control)).0
}

pub(super) fn orders_start_and_stop_all_events() -> perfuse_testkit::Outcome {
    let report = ordered("cycles,instructions", &[(1000, "disable\n"), (4000, "enable\n"), (6500, "stop\n")]);
    assert_eq!(values(&report), [3_500_000, 7_000_000]);
    assert_eq!(report.runs[0].wall_ns, 6_500_000);
    Ok(())
}

pub(super) fn orders_start_and_stop_one_event() -> perfuse_testkit::Outcome {
    let orders = [(1000, "disable cycles\n"), (4000, "enable cycles\n"), (6000, "stop\n")];
    assert_eq!(values(&ordered("cycles,instructions", &orders)), [3_000_000, 12_000_000]);
    Ok(())
}

pub(super) fn a_pmu_that_goes_leaves_what_it_counted() -> perfuse_testkit::Outcome {
    let kernel = kernel(WORKER).at(3_500_000, |machine| assert!(machine.remove_pmu()));
    let report = counted(&plan(kernel, Target::Threads(vec![FIRST]), "task-clock,cycles"));
    assert_eq!(reading(&report.events[0].rows[0]).value, 10_000_000);
    assert_eq!(reading(&report.events[1].rows[0]).value, 3_500_000);
    Ok(())
}
