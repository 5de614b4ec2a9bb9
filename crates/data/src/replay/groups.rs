//! Samples that carry the counts of a group. Only the leader of such a group samples; what the others
//! counted since the sample before is taken for a sample of each, as perf does.

use crate::{Event, FileRecord};
use perfuse_abi::record::Sample;
use perfuse_abi::{AttrFlags, SampleType};
use std::collections::HashMap;

/// The counts of the last samples.
#[derive(Debug, Default)]
pub struct Groups {
    /// By id, and thread where each thread counts for itself.
    counts: HashMap<(u64, u32), u64>,
}

impl Groups {
    /// The events that a sample is one of, each by its index with the period it stands for.
    pub fn deliver<'a>(
        &mut self,
        entry: &FileRecord<'a>,
        sample: &Sample<'_>,
        mut visit: impl FnMut(usize, &'a Event, u64),
    ) {
        let (Some(index), Some(event)) = (entry.event_index(), entry.event()) else { return };
        let Some(values) = &sample.read else { return visit(index, event, event.weight(sample)) };
        for value in values.entries() {
            let Some(id) = value.id else { return visit(index, event, event.weight(sample)) };
            let Some(member) = entry.events().by_id(id) else { continue };
            let event = &entry.events()[member];
            let by_thread = event.attr.flags.contains(AttrFlags::INHERIT)
                && event.attr.sample_type.contains(SampleType::TID);
            let tid = sample.tid.filter(|_| by_thread).map_or(0, |tid| tid.tid);
            let before = self.counts.insert((id, tid), value.value).unwrap_or(0);
            let period = value.value.wrapping_sub(before);
            if period != 0 {
                visit(member, event, period);
            }
        }
    }
}
