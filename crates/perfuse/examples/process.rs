//! Samples all threads of a process for a second, and those that start meanwhile, and prints its hottest functions:
//! `process PID`; without a number, its own work.

use perfuse::{Counter, SamplerSet, abi::SampleType, abi::Software, abi::record::Record};
use perfuse_symbols::ProcessSymbols;
use std::{collections::HashMap, env, process, thread, time::Duration};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pid = match env::args().nth(1) {
        Some(pid) => pid.parse()?,
        None => process::id(),
    };
    let fields = SampleType::IP | SampleType::TID | SampleType::TIME;
    let event = Counter::builder(Software::TASK_CLOCK).frequency(997).user_only().sample(fields);
    let mut set = SamplerSet::process(pid, [event])?;
    if pid == process::id() {
        thread::spawn(|| while !std::hint::black_box(process::id().to_string()).is_empty() {});
    }
    thread::sleep(Duration::from_secs(1));
    set.disable()?;

    let (symbols, mut counts) = (ProcessSymbols::of(pid), HashMap::<String, usize>::new());
    for record in set.records().iter() {
        if let Record::Sample(sample) = record.decode()?.record {
            let name = sample.ip.and_then(|ip| symbols.name(ip));
            *counts.entry(name.unwrap_or_else(|| "[unknown]".into())).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (name, count) in counts.iter().take(10) {
        println!("{count:6}  {name}");
    }
    Ok(())
}
