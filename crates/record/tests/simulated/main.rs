//! Recordings of machines that exist in memory alone: every record is known beforehand.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

mod rings;
mod samples;
mod tasks;

use perfuse::Perf;
use perfuse::abi::EventType;
use perfuse::abi::record::{Decoded, Record, RecordType, Sample};
use perfuse::control::Control;
use perfuse_data::{PerfData, ReadOptions};
use perfuse_events::{EventList, EventSpec, Machine, Source};
use perfuse_record::{Ended, Observer, Plan, Rate, Remark, Request, StreamSink, Sums, Target, record};
use perfuse_sim::SimKernel;
use perfuse_testkit::suite;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

suite! {
    deterministic:
        samples::one_is_taken_at_each_period,
        samples::a_term_gives_an_event_a_period_of_its_own,
        samples::a_frequency_becomes_as_many_a_second,
        samples::two_recordings_of_the_same_machine_are_the_same_bytes,
        samples::none_is_taken_before_the_delay_is_over,
        samples::a_recording_ends_when_its_target_does,
        samples::orders_switch_them_on_and_off,
        samples::orders_about_single_events_are_obeyed,
        samples::events_that_take_turns_are_sampled_in_their_turns_alone,
        samples::a_leader_tells_the_counts_of_its_group,
        samples::a_weak_group_that_does_not_fit_falls_apart,
        samples::a_group_that_does_not_fit_is_refused,
        samples::modifiers_leave_out_a_side,
        samples::the_kernel_side_is_given_up_where_it_is_refused,
        samples::the_clock_is_sampled_where_there_is_no_pmu,
        samples::clocks_beside_each_other_are_each_sampled_all_the_time,
        samples::too_many_are_throttled_and_that_is_told,
        samples::call_chains_begin_where_the_sample_is,
        samples::a_filter_keeps_the_hits_that_match,
        samples::a_filter_for_no_tracepoint_is_refused,
        samples::an_observer_ends_the_recording,
        samples::a_pmu_that_goes_ends_its_samples,
        rings::what_finds_no_room_is_counted_and_told,
        rings::a_larger_ring_loses_nothing,
        rings::a_ring_that_is_overwritten_keeps_the_newest,
        rings::one_event_is_overwritten_and_another_is_not,
        rings::readers_are_woken_at_half_a_ring,
        rings::what_was_read_is_handed_on_at_once,
        rings::without_buffering_each_sample_wakes,
        rings::a_recording_stops_at_its_size,
        rings::parts_follow_one_another_in_time_and_lose_nothing,
        rings::locked_memory_that_is_short_makes_smaller_rings,
        tasks::switches_are_recorded_with_those_who_come_and_go,
        tasks::sleep_is_summed_up_by_records,
        tasks::what_a_task_starts_is_sampled_with_it,
        tasks::without_inheritance_it_is_not,
        tasks::names_births_and_ends_are_recorded,
        tasks::what_was_mapped_before_is_told_first,
        tasks::all_threads_of_a_process_are_sampled,
        tasks::more_threads_than_descriptors_are_sampled_by_whole_cpus,
        tasks::whole_cpus_are_not_sampled_where_that_is_excluded,
        tasks::a_thread_has_a_ring_of_its_own,
        tasks::whole_cpus_are_sampled_whoever_runs_there,
        tasks::of_whole_cpus_one_process_with_its_children_is_kept,
        tasks::a_cgroup_is_sampled_while_its_tasks_run,
        tasks::a_cpu_that_goes_has_no_more_samples_and_the_others_go_on,
        tasks::hundreds_of_cpus_have_a_ring_each,
        tasks::a_target_that_is_not_there_is_refused;
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

fn requests(events: &str) -> Vec<Request> {
    let list: EventList = events.parse().expect("a list");
    let sets = list.resolve(&Machine::unknown()).expect("events of every kernel");
    let mut requests = Vec::new();
    for (number, set) in sets.into_iter().enumerate() {
        let group = (set.events.len() > 1).then_some(number as u32);
        let request = |spec| Request { group, weak: set.weak, ..Request::new(spec) };
        requests.extend(set.events.into_iter().map(request));
    }
    requests
}

/// A tracepoint of a scenario.
fn tracepoint(id: u64) -> Request {
    let source = Source::Kernel { type_: EventType::TRACEPOINT, config: id, more: [0; 4] };
    Request::new(EventSpec::new("sim:hit", source))
}

/// Events of a target, sampled each million times.
fn plan(kernel: impl Into<Arc<SimKernel>>, target: Target, events: &str) -> Plan {
    let mut plan = Plan::new(target, Vec::new());
    plan.kernel = Perf::from(kernel.into());
    plan.events = requests(events);
    plan.default_events = false;
    plan.rate = Rate::Period(1_000_000);
    plan
}

/// The same of the first task.
fn of_first(scenario: &str, events: &str) -> Plan {
    plan(kernel(scenario), Target::Threads(vec![FIRST]), events)
}

/// A recording, and what was said about it.
struct Made {
    ended: Ended,
    remarks: Vec<Remark>,
    bytes: Vec<u8>,
}

/// Keeps remarks, and ends the recording after so many samples.
struct Heard {
    remarks: Vec<Remark>,
    most: u64,
}

impl Observer for Heard {
    fn remark(&mut self, remark: &Remark) {
        self.remarks.push(remark.clone());
    }

    fn progress(&mut self, sums: Sums) -> ControlFlow<()> {
        if sums.samples >= self.most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn make(plan: &Plan) -> Made {
    make_with(plan, None, u64::MAX)
}

/// Makes a recording that obeys orders, until there are so many samples.
fn make_with(plan: &Plan, control: Option<Control>, most: u64) -> Made {
    let (mut sink, mut heard) = (StreamSink::new(Vec::new()), Heard { remarks: Vec::new(), most });
    let ended = record(plan, &mut sink, &mut heard, control).expect("a recording");
    let bytes = sink.get_ref().expect("it has begun").clone();
    Made { ended, remarks: heard.remarks, bytes }
}

impl Made {
    /// Shows each record of the kernel in the order of the file, with the name of its event.
    fn each(&self, mut see: impl FnMut(&str, &Decoded<'_>)) {
        let bytes = self.bytes.as_slice();
        let mut data = PerfData::from_reader(bytes, ReadOptions::default()).expect("a recording");
        while let Some(entry) = data.next().expect("a record") {
            if entry.is_kernel() {
                let event = entry.event_index().and_then(|index| entry.events().get(index));
                let name = event.and_then(|event| event.name.clone()).unwrap_or_default();
                see(&name, &entry.decode().expect("a record of the kernel"));
            }
        }
    }

    /// What `pick` takes of each sample, with the event that it is of.
    fn samples<T>(&self, pick: impl Fn(&Sample<'_>) -> T) -> Vec<(String, T)> {
        let mut all = Vec::new();
        self.each(|name, record| {
            if let Record::Sample(sample) = &record.record {
                all.push((name.to_owned(), pick(sample)));
            }
        });
        all
    }

    /// The times of the samples of an event, in microseconds.
    fn times(&self, event: &str) -> Vec<u64> {
        let all = self.samples(|sample| sample.time.expect("a time") / 1000);
        all.into_iter().filter(|(name, _)| name == event).map(|(_, time)| time).collect()
    }

    /// How many samples each thread has.
    fn by_thread(&self) -> BTreeMap<u32, usize> {
        counted(self.samples(|sample| sample.tid.expect("a thread").tid))
    }

    /// How many samples each cpu has.
    fn by_cpu(&self) -> BTreeMap<u32, usize> {
        counted(self.samples(|sample| sample.cpu.expect("a cpu").cpu))
    }

    /// The records of a kind, as `pick` tells them.
    fn told<T>(&self, kind: RecordType, pick: impl Fn(&Decoded<'_>) -> T) -> Vec<T> {
        let mut all = Vec::new();
        self.each(|_, record| {
            if record.record.kind() == kind {
                all.push(pick(record));
            }
        });
        all
    }
}

fn counted(all: Vec<(String, u32)>) -> BTreeMap<u32, usize> {
    all.into_iter().fold(BTreeMap::new(), |mut counts, (_, key)| {
        *counts.entry(key).or_default() += 1;
        counts
    })
}

/// So many milliseconds, in microseconds.
fn ms(range: impl IntoIterator<Item = u64>) -> Vec<u64> {
    range.into_iter().map(|ms| ms * 1000).collect()
}
