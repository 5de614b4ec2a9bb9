//! Counts the records of a perf.data file by kind and event: `kinds perf.data`.

use perfuse_data::PerfData;
use std::collections::BTreeMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "perf.data".into());
    let mut data = PerfData::open(path)?;
    let mut counts = BTreeMap::<String, usize>::new();
    while let Some(entry) = data.next()? {
        let event = entry.event().and_then(|event| event.name.clone()).unwrap_or_default();
        let kind = match entry.is_kernel() {
            true => format!("{} {event}", entry.raw.header.kind),
            false => "of perf itself".to_owned(),
        };
        *counts.entry(kind).or_default() += 1;
    }
    for (kind, count) in counts {
        println!("{count:8}  {kind}");
    }
    Ok(())
}
