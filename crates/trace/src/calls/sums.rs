//! What the calls of a trace come to, by thread and call. They are summed up from records, or by the kernel (`in_kernel.rs`).

use super::join::Call;
use super::table::Calls;
use crate::sums::Distribution;
use std::collections::{BTreeMap, HashMap};

/// Calls of one kind, of one thread or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallRow {
    /// How long they took, in nanoseconds.
    pub times: Distribution,
    /// The errors that they returned.
    pub errors: BTreeMap<u16, u64>,
    /// Calls whose beginning is not known.
    pub untimed: u64,
}

impl CallRow {
    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.times.count() + self.untimed
    }

    /// How many of them failed.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Takes the calls of another row.
    pub fn add(&mut self, other: &CallRow) {
        self.untimed += other.untimed;
        other.errors.iter().for_each(|(error, count)| *self.errors.entry(*error).or_default() += count);
        self.times.merge(&other.times);
    }
}

/// Sums of calls.
#[derive(Clone, Debug, Default)]
pub struct CallSums {
    /// By thread and number of the call. The thread is 0 where threads are not told apart.
    pub rows: HashMap<(u32, u64), CallRow>,
    /// The process and the last name of each thread.
    pub names: HashMap<u32, (u32, String)>,
}

impl CallSums {
    /// Whether a call stands in tables: one that returned, and whose beginning is known. Of a command's first `execve` only the end is
    /// in the records, and it counts.
    pub fn has(call: &Call, calls: &Calls) -> bool {
        let is_known =
            || call.arguments.is_some() || calls.get(call.number).is_some_and(|spec| spec.name == "execve");
        call.returned.is_some() && is_known()
    }

    /// Takes a call of a thread with this name.
    pub fn add(&mut self, call: &Call, comm: &[u8]) {
        let row = self.rows.entry((call.at.tid, call.number)).or_default();
        match call.duration {
            Some(duration) => row.times.add(duration.into()),
            None => row.untimed += 1,
        }
        if let Some(error) = call.error() {
            *row.errors.entry(error).or_default() += 1;
        }
        let (_, name) = self.names.entry(call.at.tid).or_default();
        if name.as_bytes() != comm && !comm.is_empty() {
            self.names.insert(call.at.tid, (call.at.pid, String::from_utf8_lossy(comm).into_owned()));
        }
    }

    /// The sums of all threads, by number of the call.
    pub fn by_call(&self) -> HashMap<u64, CallRow> {
        let mut all: HashMap<u64, CallRow> = HashMap::new();
        self.rows.iter().for_each(|((_, number), row)| all.entry(*number).or_default().add(row));
        all
    }
}
