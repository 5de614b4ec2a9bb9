//! Records itself for a second, in memory, and prints its ten hottest functions.

use perfuse_data::{PerfData, ReadOptions};
use perfuse_profile::{LocalSymbols, Plan as Keys, Profile};
use perfuse_record::{Observer, Plan, StreamSink, Sums, Target, record};
use std::{ops::ControlFlow, process, thread, time::Duration, time::Instant};

struct Until(Instant);

impl Observer for Until {
    fn progress(&mut self, _: Sums) -> ControlFlow<()> {
        if Instant::now() < self.0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    thread::spawn(|| while !std::hint::black_box(process::id().to_string()).is_empty() {});
    let mut sink = StreamSink::new(Vec::new());
    let plan = Plan::new(Target::Processes(vec![process::id()]), Vec::new());
    record(&plan, &mut sink, &mut Until(Instant::now() + Duration::from_secs(1)), None)?;

    let recording = PerfData::from_reader(sink.get_ref().unwrap().as_slice(), ReadOptions::default())?;
    let profile = Profile::read(recording, Keys::new(&[]))?;
    println!("{} samples", profile.event(0).samples);
    for function in profile.hottest(0, &LocalSymbols::default()).iter().take(10) {
        println!("{:5.1} %  {}", 100.0 * function.share, function.name);
    }
    Ok(())
}
