//! The threads that run at a moment, as far as a recording's context switches, ends of threads and samples tell. Of that, a sample
//! has its parallelism: a second of two threads is half a second of waiting for the program.

use perfuse_abi::record::{Decoded, Misc, Record};
use std::collections::VecDeque;

/// So many run at a time at most, if a recording does not tell how many cpus there were.
const MOST: usize = 4096;

/// The threads that run. There are never more than cpus: whoever has been running for longest makes room, as records may be lost.
#[derive(Clone, Debug)]
pub struct Running {
    /// The thread that came last is the last.
    tids: VecDeque<u32>,
    cpus: usize,
}

impl Running {
    /// On a machine with this number of cpus; 0 if nobody knows.
    pub fn new(cpus: usize) -> Self {
        Running { tids: VecDeque::new(), cpus: if cpus == 0 { MOST } else { cpus.min(MOST) } }
    }

    /// Takes in what a record tells. A thread that ends leaves its cpu without a record of the switch.
    pub fn heed(&mut self, decoded: &Decoded<'_>) {
        match &decoded.record {
            Record::Switch | Record::SwitchCpuWide(_) => match decoded.tid() {
                Some(tid) if decoded.misc.contains(Misc::SWITCH_OUT) => self.leave(tid.tid),
                Some(tid) => self.come(tid.tid),
                None => {}
            },
            Record::Exit(task) => self.leave(task.tid),
            Record::Sample(sample) => sample.tid.iter().for_each(|tid| self.come(tid.tid)),
            _ => {}
        }
    }

    /// How many threads run; the one whose sample is asked for does at least.
    pub fn count(&self) -> u32 {
        self.tids.len().max(1) as u32
    }

    /// The idle task of a cpu is nobody.
    fn come(&mut self, tid: u32) {
        if tid == 0 || self.tids.contains(&tid) {
            return;
        }
        if self.tids.len() >= self.cpus {
            self.tids.pop_front();
        }
        self.tids.push_back(tid);
    }

    fn leave(&mut self, tid: u32) {
        self.tids.retain(|&other| other != tid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_abi::record::{Sample, SampleId, Task, Tid};

    /// The count after records in short: `+7` and `-7` are switches of a thread, `!7` is its end, `7` its sample.
    fn count(cpus: usize, records: &str) -> u32 {
        let mut running = Running::new(cpus);
        for word in records.split_whitespace() {
            let number = word.trim_start_matches(['+', '-', '!']).parse().unwrap();
            let tid = Tid { pid: number, tid: number };
            let mut sample = Sample::default();
            sample.tid = Some(tid);
            let mut decoded = Decoded::from(match word.as_bytes()[0] {
                b'!' => Record::Exit(Task { tid: number, ..Task::default() }),
                b'+' | b'-' => Record::Switch,
                _ => Record::Sample(sample),
            });
            decoded.sample_id = SampleId { tid: Some(tid), ..SampleId::default() };
            if word.starts_with('-') {
                decoded.misc = Misc::SWITCH_OUT;
            }
            running.heed(&decoded);
        }
        running.count()
    }

    #[test]
    fn threads_run_from_their_first_sign_to_their_last() {
        for (records, expected) in [
            ("", 1),
            ("7", 1),
            ("7 +8", 2),
            ("7 +8 7 8", 2),
            ("7 +8 -7", 1),
            ("7 +8 !8", 1),
            ("+7 +0 0", 1),
            ("-7 !9", 1),
        ] {
            assert_eq!(count(4, records), expected, "{records}");
        }
    }

    #[test]
    fn no_more_run_than_there_are_cpus() {
        assert_eq!(count(2, "1 2 3 4"), 2);
        // The one that ran for longest made room.
        assert_eq!(count(2, "1 2 3 -1"), 2);
        assert_eq!(count(2, "1 2 3 -3"), 1);
        assert_eq!(count(0, "1 2 3 4"), 4);
    }
}
