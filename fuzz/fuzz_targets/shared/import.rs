//! A profile of another tool, by way of its recording.

use perfuse_data::PerfData;
use perfuse_export::{Format, Import, ImportFormat, Stacks};
use perfuse_profile::{LocalSymbols, Profile};
use std::io::Cursor;

/// Reads bytes, and compares the sums of the events with those of the recording.
pub fn check(format: ImportFormat, bytes: &[u8]) {
    let Ok(import) = Import::read(format, bytes) else { return };
    // Longer input takes longer than a fuzzer has, not another way.
    if import.samples() > 1 << 16 && !import.is_merged() {
        return;
    }
    let (recording, names) = import.recording().expect("names fit");
    let symbols = LocalSymbols::default();
    names.give(symbols.symbolizer());
    let data = PerfData::from_seekable(Cursor::new(recording), Default::default()).expect("a recording");
    let profile = Profile::read(data, Format::Pprof.plan()).expect("it is whole");
    let weights: Vec<u64> = profile.events().iter().map(|event| event.weight).collect();
    for (event, (_, weight)) in import.events().iter().enumerate() {
        assert_eq!(weights.get(event).copied().unwrap_or(0), *weight);
    }
    let _ = Stacks::of(&profile, &symbols);
}
