//! Counts that `perf stat record` has written, as lines: those of each event, with thread and cpu, when an interval or all of it ends.

use perfuse_data::FileRecord;
use perfuse_data::replay::Formats;
use perfuse_data::text::foreign;
use perfuse_data::tool::{Stat, StatRound, Tool};
use std::collections::HashMap;
use std::fmt::Write as _;

/// The tag of the way to sum up among the settings of a recording, and its value where one row stands for all.
const AGGREGATION: u64 = 0;
const ALL_TOGETHER: u64 = 1;

/// Counts since the last end. Each record of a count has one line.
#[derive(Default)]
pub(super) struct Counts {
    /// By index of the event, thread, and cpu.
    since: Vec<(usize, Stat)>,
    /// The threads that were measured, by index.
    threads: Vec<u64>,
    /// Each count as it was told last, where perf tells what was added since.
    before: Option<HashMap<(usize, u32, u32), Stat>>,
    has_heading: bool,
}

impl Counts {
    /// Takes a record; the lines, if it is an end.
    pub(super) fn take(&mut self, entry: &FileRecord<'_>, formats: &Formats, json: bool) -> Option<String> {
        match entry.tool().ok()?.tool {
            Tool::ThreadMap(threads) => self.threads = threads.into_iter().map(|thread| thread.tid).collect(),
            Tool::StatConfig(entries) => {
                let sums_up_all =
                    entries.into_iter().any(|entry| (entry.tag, entry.value) == (AGGREGATION, ALL_TOGETHER));
                self.before = (!sums_up_all).then(HashMap::new);
            }
            Tool::Stat(stat) => {
                let events = entry.events();
                let event = events.by_id(stat.id).or((events.len() == 1).then_some(0))?;
                self.since.push((event, stat));
            }
            Tool::StatRound(round) => return Some(self.round(entry, formats, round, json)),
            _ => {}
        }
        None
    }

    fn round(&mut self, entry: &FileRecord<'_>, formats: &Formats, round: StatRound, json: bool) -> String {
        // perf goes through the cpus in the order of their numbers, "any" first.
        self.since.sort_by_key(|(event, stat)| (*event, stat.thread, stat.cpu.wrapping_add(1)));
        let mut out = String::new();
        for (event, stat) in self.since.drain(..) {
            let name = entry.events().get(event).map(|event| formats.event_name(event)).unwrap_or_default();
            let tid = self.threads.get(stat.thread as usize).map_or(-1, |tid| *tid as i32);
            let (cpu, time_ns) = (stat.cpu as i32, round.time_ns);
            let before = self.before.as_mut();
            let before = before.and_then(|before| before.insert((event, stat.thread, stat.cpu), stat));
            let before = before.unwrap_or_default();
            let value = stat.value.wrapping_sub(before.value);
            let enabled_ns = stat.enabled_ns.wrapping_sub(before.enabled_ns);
            let running_ns = stat.running_ns.wrapping_sub(before.running_ns);
            if json {
                let object = serde_json::json!({
                    "event": name, "cpu": cpu, "tid": tid, "value": value,
                    "enabled_ns": enabled_ns, "running_ns": running_ns, "time_ns": time_ns,
                });
                let _ = writeln!(out, "{object}");
                continue;
            }
            if !std::mem::replace(&mut self.has_heading, true) {
                let _ = writeln!(
                    out,
                    "{:>3} {:>8} {:>15} {:>15} {:>15} {:>15} EVENT",
                    "CPU", "THREAD", "VAL", "ENA", "RUN", "TIME"
                );
            }
            let _ = writeln!(
                out,
                "{cpu:>3} {tid:>8} {value:>15} {enabled_ns:>15} {running_ns:>15} {time_ns:>15} {}",
                foreign(&name)
            );
        }
        out
    }
}
