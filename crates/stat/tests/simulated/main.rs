//! Counts of machines that exist in memory alone: every value is known beforehand.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

mod counts;
mod places;
mod times;

use perfuse::Perf;
use perfuse::control::Control;
use perfuse_events::Machine;
use perfuse_sim::SimKernel;
use perfuse_stat::{Missing, Observer, Outcome, Plan, Reading, Report, Requests, Row, Target, count};
use perfuse_testkit::suite;
use std::io;
use std::sync::Arc;

suite! {
    deterministic:
        counts::hardware_events_are_counted_to_the_last_one,
        counts::software_events_are_counted_with_them,
        counts::sides_are_counted_apart,
        counts::what_a_task_starts_is_counted_with_it,
        counts::without_inheritance_it_is_not,
        counts::events_that_take_turns_are_scaled_to_the_whole_time,
        counts::without_scaling_the_raw_count_is_told,
        counts::members_of_a_group_take_turns_together,
        counts::a_group_that_does_not_fit_is_missing_with_the_reason,
        counts::a_weak_group_that_does_not_fit_falls_apart,
        counts::a_pinned_event_is_always_counted,
        counts::a_pinned_event_that_does_not_fit_is_missing,
        counts::without_a_pmu_only_the_hardware_is_missing,
        counts::the_kernel_side_is_left_out_where_it_is_refused,
        counts::hits_that_match_a_filter_are_counted,
        counts::an_exec_is_counted_on,
        counts::recorded_counts_are_the_same_bytes_and_the_same_counts,
        counts::instructions_per_cycle_are_told,
        times::counting_starts_after_the_delay,
        times::counting_ends_with_the_time,
        times::intervals_are_counted_one_by_one,
        times::no_interval_has_no_length,
        times::counting_ends_after_so_many_intervals,
        times::an_interval_in_which_nothing_ran_counts_nothing,
        times::counting_lasts_as_long_as_one_of_its_targets,
        times::orders_start_and_stop_all_events,
        times::orders_start_and_stop_one_event,
        times::a_pmu_that_goes_leaves_what_it_counted,
        places::all_cpus_are_summed_up,
        places::each_cache_and_cluster_has_a_row,
        places::each_cpu_has_a_row,
        places::thousands_of_cpus_have_a_row_each,
        places::each_thread_has_a_row_with_its_name,
        places::all_threads_of_a_process_are_counted,
        places::each_core_has_a_row,
        places::cgroups_are_counted_apart,
        places::a_task_that_moves_is_counted_where_it_is,
        places::a_cpu_that_goes_keeps_its_count,
        places::a_cpu_that_comes_back_is_not_counted_again,
        places::migrations_and_switches_are_counted,
        places::a_target_that_is_not_there_is_told,
        places::a_cgroup_that_is_not_there_is_told;
}

/// The number of the first task of a scenario.
const FIRST: u32 = 100;

/// One task that makes a thousand cycles a microsecond for ten milliseconds.
const WORKER: &str = "
    program worker
      compute 10ms cycles=1000 instructions=2000
    end
    start worker
";

/// The machine of a scenario.
fn kernel(scenario: &str) -> SimKernel {
    SimKernel::of(&scenario.parse().expect("a scenario"))
}

fn requests(events: &str) -> Requests {
    let mut requests = Requests::default();
    requests.add(events, &Machine::unknown()).expect("events of every kernel");
    requests
}

/// Events of a target.
fn plan(kernel: impl Into<Arc<SimKernel>>, target: Target, events: &str) -> Plan {
    let mut plan = Plan::new(target, Vec::new(), requests(events).all);
    plan.kernel = Perf::from(kernel.into());
    plan
}

/// The same of the first task.
fn of_first(scenario: &str, events: &str) -> Plan {
    plan(kernel(scenario), Target::Threads(vec![FIRST]), events)
}

/// Keeps the reports of intervals.
#[derive(Default)]
struct Heard(Vec<Report>);

impl Observer for Heard {
    fn interval(&mut self, report: &Report) -> io::Result<()> {
        self.0.push(report.clone());
        Ok(())
    }
}

/// The counts in total.
fn counted(plan: &Plan) -> Report {
    counted_with(plan, None).0
}

/// The same, while orders are obeyed, and the intervals.
fn counted_with(plan: &Plan, control: Option<Control>) -> (Report, Vec<Report>) {
    let mut heard = Heard::default();
    let report = count(plan, &mut heard, control, None).expect("counts").expect("a run");
    (report, heard.0)
}

fn reading(row: &Row) -> Reading {
    match &row.outcome {
        Outcome::Counted(readings) => readings[0],
        Outcome::Missing(missing) => panic!("{missing:?}"),
    }
}

/// The readings of each event that has one row.
fn readings(report: &Report) -> Vec<Reading> {
    report.events.iter().map(|event| reading(&event.rows[0])).collect()
}

/// Their values.
fn values(report: &Report) -> Vec<u64> {
    readings(report).iter().map(|reading| reading.value).collect()
}

/// The values of an event, by row.
fn rows(report: &Report, event: usize) -> Vec<(String, u64)> {
    report.events[event].rows.iter().map(|row| (row.place.to_string(), reading(row).value)).collect()
}

/// Why an event is missing.
fn missing(report: &Report, event: usize) -> Missing {
    match &report.events[event].rows[0].outcome {
        Outcome::Missing(missing) => missing.clone(),
        Outcome::Counted(readings) => panic!("{readings:?}"),
    }
}
