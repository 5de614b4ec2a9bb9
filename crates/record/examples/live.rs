//! A live profile of a running process, `live PID [embedded]`: its five hottest functions, each second, three times.

use perfuse_data::{PerfData, ReadOptions, replay::Replay};
use perfuse_profile::{LocalSymbols, Plan, Profile, Reading};
use perfuse_record::{Plan as RecordPlan, StreamSink, Target, record};
use std::{env::args, error::Error, os::unix::net::UnixStream, thread};

fn show(window: &Profile, symbols: &LocalSymbols) {
    println!("{} samples", window.event(0).samples);
    for function in window.hottest(0, symbols).iter().take(5) {
        println!("{:5.1} %  {}", 100.0 * function.share, function.name);
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let process = Target::Processes(vec![args().nth(1).ok_or("wants a process")?.parse()?]);
    let mut plan = RecordPlan::new(process, Vec::new());
    if args().nth(2).is_some() {
        plan.kernel = perfuse::Perf::embedded().ok_or("there is no embedded kernel here")?;
    }
    let (recorder, recording) = UnixStream::pair()?;
    thread::spawn(move || record(&plan, &mut StreamSink::new(recorder), &mut (), None));
    let (mut reading, symbols) = (Reading::new(Plan::new(&[])), LocalSymbols::default());
    let (mut end, mut windows) = (u64::MAX, 0..3);
    let ended = Replay::new(PerfData::from_reader(recording, ReadOptions::default())?).each(|step| {
        let step = step.map_err(Some)?;
        let time = step.sample().and_then(|sample| sample.time).unwrap_or(0);
        if time >= end {
            show(&reading.take(step.session), &symbols);
            end = windows.next().filter(|window| *window < 2).map(|_| u64::MAX).ok_or(None)?;
        }
        end = if time > 0 { end.min(time + 1_000_000_000) } else { end };
        reading.step(&step);
        Ok(())
    });
    ended.or_else(|error: Option<perfuse_data::Error>| error.map_or(Ok(()), |error| Err(error.into())))
}
