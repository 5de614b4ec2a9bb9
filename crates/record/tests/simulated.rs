//! Recordings of a machine that exists in memory alone: every sample is known beforehand.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use perfuse::Perf;
use perfuse::abi::record::{Decoded, Record};
use perfuse_data::{PerfData, ReadOptions};
use perfuse_events::{EventList, Machine};
use perfuse_record::{Ended, Observer, Plan, Rate, Remark, Request, StreamSink, Target, record};
use perfuse_sim::SimKernel;
use perfuse_testkit::{Outcome, suite};
use std::sync::Arc;

suite! {
    deterministic:
        a_sample_is_taken_at_each_period;
}

/// The number of the first task of a scenario.
const FIRST: u32 = 100;

/// One task that makes a thousand cycles a microsecond for ten milliseconds.
const WORKER: &str = "
    program worker
      compute 10ms cycles=1000
    end
    start worker
";

/// The machine of a scenario.
fn kernel(scenario: &str) -> SimKernel {
    SimKernel::of(&scenario.parse().expect("a scenario"))
}

fn requests(events: &str) -> Vec<Request> {
    let list: EventList = events.parse().expect("a list");
    let sets = list.resolve(&Machine::new()).expect("events of every kernel");
    let mut requests = Vec::new();
    for (number, set) in sets.into_iter().enumerate() {
        let group = (set.events.len() > 1).then_some(number as u32);
        let request = |spec| Request { group, weak: set.weak, ..Request::new(spec) };
        requests.extend(set.events.into_iter().map(request));
    }
    requests
}

/// Events of a target, sampled each million times.
fn plan(kernel: SimKernel, target: Target, events: &str) -> Plan {
    let mut plan = Plan::new(target, Vec::new());
    plan.kernel = Perf::from(Arc::new(kernel));
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

#[derive(Default)]
struct Heard(Vec<Remark>);

impl Observer for Heard {
    fn remark(&mut self, remark: &Remark) {
        self.0.push(remark.clone());
    }
}

fn make(plan: &Plan) -> Made {
    let (mut sink, mut heard) = (StreamSink::new(Vec::new()), Heard::default());
    let ended = record(plan, &mut sink, &mut heard, None).expect("a recording");
    let bytes = sink.get_ref().expect("it has begun").clone();
    Made { ended, remarks: heard.0, bytes }
}

impl Made {
    /// What `pick` takes of the kernel's records, in order of the file, each with the name of its event.
    fn records<T>(&self, mut pick: impl FnMut(&str, &Decoded<'_>) -> Option<T>) -> Vec<T> {
        let mut data =
            PerfData::from_reader(self.bytes.as_slice(), ReadOptions::default()).expect("a recording");
        let mut picked = Vec::new();
        while let Some(entry) = data.next().expect("a record") {
            if entry.is_kernel() {
                let name = entry.event().and_then(|event| event.name.clone()).unwrap_or_default();
                picked.extend(pick(&name, &entry.decode().expect("a record of the kernel")));
            }
        }
        picked
    }

    /// The times of the samples of an event, in nanoseconds.
    fn times(&self, event: &str) -> Vec<u64> {
        self.records(|name, record| match &record.record {
            Record::Sample(sample) if name == event => sample.time,
            _ => None,
        })
    }
}

fn a_sample_is_taken_at_each_period() -> Outcome {
    let made = make(&of_first(WORKER, "cycles"));
    let millions: Vec<u64> = (1..=10).map(|ms| ms * 1_000_000).collect();
    assert_eq!(made.times("cycles"), millions);
    assert_eq!(made.ended.sums.samples, 10);
    println!("{:?} {:?}", made.ended, made.remarks);
    Ok(())
}
