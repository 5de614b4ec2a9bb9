//! How many records of each kind there are: those of `perf report --stats`.

use crate::replay::Groups;
use crate::{Error, PerfData};
use perfuse_abi::record::{Record, RecordType};
use std::collections::BTreeMap;

/// The records of a recording, counted.
#[derive(Debug, Default)]
pub struct RecordCounts {
    /// By kind.
    pub kinds: BTreeMap<RecordType, u64>,
    /// Samples by event, in the order of the events. A sample of a group is one of each of its members.
    pub samples: Vec<u64>,
    groups: Groups,
}

impl RecordCounts {
    /// Counts all records up to the end; what cannot be read is told to `complain`.
    pub fn count(&mut self, data: &mut PerfData<'_>, mut complain: impl FnMut(&Error)) {
        loop {
            let entry = match data.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(error) => {
                    complain(&error);
                    continue;
                }
            };
            *self.kinds.entry(entry.kind()).or_default() += 1;
            if entry.kind() != RecordType::SAMPLE {
                continue;
            }
            if let Ok(Record::Sample(sample)) = entry.decode().map(|decoded| decoded.record) {
                let samples = &mut self.samples;
                self.groups.deliver(&entry, &sample, |index, _, _| {
                    samples.resize(samples.len().max(index + 1), 0);
                    samples[index] += 1;
                });
            }
        }
    }

    /// Counts the records of these kinds alone, without looking into them.
    pub fn count_kinds(&mut self, data: &mut PerfData<'_>, only: &[RecordType]) {
        loop {
            match data.next() {
                Ok(Some(entry)) if only.contains(&entry.kind()) => {
                    *self.kinds.entry(entry.kind()).or_default() += 1;
                }
                Ok(None) => break,
                _ => {}
            }
        }
    }

    /// All records.
    pub fn total(&self) -> u64 {
        self.kinds.values().sum()
    }
}
