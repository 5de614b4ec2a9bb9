//! Records itself for a second, in memory, and prints its ten hottest functions.

use perfuse_data::{PerfData, ReadOptions, replay::Replay, session::Level};
use perfuse_profile::{Collector, Column, Frames, Key, Names, Plan as Keys, Report};
use perfuse_record::{Observer, Plan, StreamSink, Sums, Target, record};
use std::{ops::ControlFlow, thread, time::Duration, time::Instant};

struct Until(Instant);

impl Observer for Until {
    fn progress(&mut self, _: Sums) -> ControlFlow<()> {
        if Instant::now() < self.0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    thread::spawn(|| {
        loop {
            std::hint::black_box(std::process::id().to_string().len());
        }
    });
    let mut sink = StreamSink::new(Vec::new());
    let plan = Plan::new(Target::Processes(vec![std::process::id()]), Vec::new());
    let ended = record(&plan, &mut sink, &mut Until(Instant::now() + Duration::from_secs(1)), None)?;
    println!("{} samples", ended.sums.samples);

    let recording = sink.get_ref().map_or(&[][..], Vec::as_slice);
    let mut collector = Collector::new(Keys::new(&[Key::Symbol]), Frames::new(true));
    let keys = collector.keys().to_vec();
    let mut replay = Replay::new(PerfData::from_reader(recording, ReadOptions::default())?);
    replay.each(|step| {
        let step = step?;
        if let (Some(decoded), Some(index), Some(event)) =
            (step.decoded, step.entry.event_index(), step.entry.event())
        {
            if let perfuse_data::abi::record::Record::Sample(sample) = &decoded.record {
                let level = Level::of(decoded.misc);
                collector.add((index, &event.attr), step.session, sample, level, event.weight(sample));
            }
        }
        Ok::<_, perfuse_data::Error>(())
    })?;
    let ((profiles, frames), (_, session)) = (collector.finish(), replay.into_parts());
    for profile in &profiles {
        let (report, names) =
            (Report::new(profile, &frames, &[Key::Symbol]), Names::new(&frames, &session, profile, &keys));
        let mut entries: Vec<_> = report.entries.iter().collect();
        names.sort(&mut entries, &[Column::Own], None);
        for entry in entries.iter().take(10) {
            println!(
                "{:5.1} %  {}",
                100.0 * entry.self_weight as f64 / profile.weight as f64,
                names.text(entry, Key::Symbol)
            );
        }
    }
    Ok(())
}
