//! What the calls of a trace come to, by thread and call. They are summed up from records, or by the kernel (`in_kernel.rs`).

use super::join::Call;
use super::table::Calls;
use crate::errno::errno_name;
use crate::sums::Distribution;
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

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

    /// The table that `strace -c` has: the most time first.
    pub fn like_strace(&self, table: &Calls, most: usize) -> String {
        let rows = self.by_call();
        let mut rows: Vec<(&u64, &CallRow)> = rows.iter().collect();
        rows.sort_by_key(|(number, row)| (Reverse(row.times.sum()), **number));
        let whole: f64 = rows.iter().map(|(_, row)| row.times.sum() as f64).sum();
        let line = "------ ----------- ----------- --------- --------- ----------------\n";
        let mut out = String::from("% time     seconds  usecs/call     calls    errors syscall\n") + line;
        let mut all = CallRow::default();
        let row = |out: &mut String, name: &str, row: &CallRow| {
            let sum = row.times.sum() as f64;
            let share = if whole > 0.0 { sum * 100.0 / whole } else { 0.0 };
            let errors = if row.failed() == 0 { String::new() } else { row.failed().to_string() };
            let each = sum / 1000.0 / row.calls().max(1) as f64;
            let (seconds, calls) = (sum / 1e9, row.calls());
            let _ = writeln!(out, "{share:>6.2} {seconds:>11.6} {each:>11.0} {calls:>9} {errors:>9} {name}");
        };
        for (index, (number, each)) in rows.into_iter().enumerate() {
            if index < most {
                row(&mut out, &table.name(*number), each);
            }
            all.add(each);
        }
        out += line;
        row(&mut out, "total", &all);
        out
    }

    /// All rows as a document of the schema `perfuse.trace/1`.
    pub fn json(&self, table: &Calls) -> Value {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by_key(|(key, _)| **key);
        let rows = rows.into_iter().map(|((tid, number), row)| {
            let (pid, name) = self.names.get(tid).cloned().unwrap_or_default();
            let named = |(error, count): (&u16, &u64)| {
                (errno_name(*error).map_or_else(|| error.to_string(), str::to_owned), json!(count))
            };
            let errors: Map<_, _> = row.errors.iter().map(named).collect();
            let times = &row.times;
            json!({
                "pid": pid, "tid": tid, "comm": name, "call": table.name(*number), "calls": row.calls(),
                "errors": errors, "total_ns": times.sum() as u64, "min_ns": times.min().map(|ns| ns as u64),
                "p50_ns": times.quantile(0.5).map(|ns| ns as u64), "p99_ns": times.quantile(0.99).map(|ns| ns as u64),
                "max_ns": times.max().map(|ns| ns as u64),
            })
        });
        json!({ "schema": "perfuse.trace/1", "calls": rows.collect::<Vec<_>>() })
    }
}
