//! `--follow`: of all that whole cpus record, what belongs to some tasks and to all that these start.
//!
//! Events of a task start anew in every child, so that one which ends before its first sample is due is never
//! sampled; events of a cpu go on whoever runs there. Records of forks tell which task is whose child.
//!
//! A fork is recorded on one cpu and the child's first sample perhaps on another, whose ring may be read
//! first. So what belongs to nobody known waits until all rings have been read once more. Were it still
//! unknown then, it would have been recorded before the fork.

use perfuse::abi::ByteOrder;
use perfuse::abi::record::{Misc, RawRecord, Record, RecordFormat, RecordType, Tid};
use std::collections::HashSet;

/// Tasks that are followed.
#[derive(Debug, Default)]
pub(crate) struct Follow {
    tids: HashSet<u32>,
    /// The command, until it is executed: what it does before is done by this program.
    awaited: Option<u32>,
    /// When it was executed: another cpu may have records of it from before.
    executed_ns: Option<u64>,
    /// Records of tasks that were not known: of the pass before, and of this one.
    older: Vec<u8>,
    newer: Vec<u8>,
    /// Tasks that have ended, likewise; others may still have records of them.
    gone: [Vec<u32>; 2],
    passes: u64,
}

/// The owner of a record.
enum Owner {
    /// The whole cpu's.
    Nobody,
    Task(u32),
    /// A fork: the parent's, and it tells of a child.
    Parent {
        parent: u32,
        child: u32,
    },
}

impl Follow {
    /// Follows the threads of processes that run.
    pub(crate) fn threads(tids: impl IntoIterator<Item = u32>) -> Self {
        Follow { tids: tids.into_iter().collect(), ..Follow::default() }
    }

    /// Follows a command from its start on.
    pub(crate) fn command(pid: u32) -> Self {
        Follow { awaited: Some(pid), ..Follow::default() }
    }

    /// The records that are to be kept, of those from one ring.
    pub(crate) fn pick(&mut self, first: &[u8], second: &[u8], format: &RecordFormat) -> Vec<u8> {
        let joined;
        let mut rest = first;
        if !second.is_empty() {
            joined = [first, second].concat();
            rest = &joined;
        }
        let mut kept = Vec::new();
        while let Ok((record, after)) = RawRecord::split(rest, ByteOrder::NATIVE) {
            let bytes = &rest[..rest.len() - after.len()];
            rest = after;
            if self.is_followed(&record, format) {
                kept.extend_from_slice(bytes);
            } else {
                self.newer.extend_from_slice(bytes);
            }
        }
        kept
    }

    /// All rings have been read: returns what is to be kept of what waited for that.
    pub(crate) fn next_pass(&mut self, format: &RecordFormat) -> Vec<u8> {
        let waited = std::mem::replace(&mut self.older, std::mem::take(&mut self.newer));
        let records = || {
            let mut rest = waited.as_slice();
            std::iter::from_fn(move || {
                let (record, after) = RawRecord::split(rest, ByteOrder::NATIVE).ok()?;
                let bytes = &rest[..rest.len() - after.len()];
                rest = after;
                Some((record, bytes))
            })
        };
        // Children of children may come in any order.
        loop {
            let before = self.tids.len();
            for (record, _) in records().filter(|(record, _)| record.header.kind == RecordType::FORK) {
                self.is_followed(&record, format);
            }
            if self.tids.len() == before {
                break;
            }
        }
        let mut kept = Vec::new();
        for (record, bytes) in records() {
            if self.is_followed(&record, format) {
                kept.extend_from_slice(bytes);
            }
        }
        let [older, newer] = &mut self.gone;
        for tid in older.drain(..) {
            self.tids.remove(&tid);
        }
        std::mem::swap(older, newer);
        self.passes += 1;
        kept
    }

    /// Nothing that comes later belongs before what has been kept: readers may sort it.
    pub(crate) fn round_is_over(&self) -> bool {
        self.passes % 2 == 0
    }

    fn is_followed(&mut self, record: &RawRecord<'_>, format: &RecordFormat) -> bool {
        match owner(record, format) {
            Owner::Nobody => true,
            Owner::Parent { parent, child } => {
                let followed = self.tids.contains(&parent) && self.executed_ns <= format.time_of(record);
                if followed {
                    self.tids.insert(child);
                    // The number is used again.
                    self.gone.iter_mut().for_each(|gone| gone.retain(|&tid| tid != child));
                }
                followed
            }
            Owner::Task(tid) => {
                let executed = record.header.kind == RecordType::COMM
                    && record.header.misc.contains(Misc::COMM_EXEC)
                    && self.awaited == Some(tid);
                if executed {
                    self.awaited = None;
                    self.executed_ns = format.time_of(record);
                    self.tids.insert(tid);
                }
                let followed = self.tids.contains(&tid) && self.executed_ns <= format.time_of(record);
                if followed && record.header.kind == RecordType::EXIT {
                    self.gone[1].push(tid);
                }
                followed
            }
        }
    }
}

fn owner(record: &RawRecord<'_>, format: &RecordFormat) -> Owner {
    let task = |tid: Option<Tid>| tid.map_or(Owner::Nobody, |tid| Owner::Task(tid.tid));
    if let RecordType::SAMPLE | RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE = record.header.kind {
        return task(format.tid_of(record));
    }
    match record.decode(format).map(|decoded| decoded.record) {
        Ok(Record::Comm(comm)) => task(Some(comm.tid)),
        Ok(Record::Mmap(map)) => task(Some(map.tid)),
        Ok(Record::Mmap2(map)) => task(Some(map.tid)),
        Ok(Record::Namespaces(namespaces)) => task(Some(namespaces.tid)),
        Ok(Record::Fork(fork)) => Owner::Parent { parent: fork.ptid, child: fork.tid },
        Ok(Record::Exit(exit)) => Owner::Task(exit.tid),
        _ => Owner::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse::abi::SampleType;

    fn format() -> RecordFormat {
        RecordFormat {
            sample_type: SampleType::IDENTIFIER | SampleType::IP | SampleType::TID,
            ..RecordFormat::default()
        }
    }

    fn record(kind: RecordType, misc: Misc, words: &[u32]) -> Vec<u8> {
        let mut bytes = kind.0.to_ne_bytes().to_vec();
        bytes.extend(misc.bits().to_ne_bytes());
        bytes.extend((8 + 4 * words.len() as u16).to_ne_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    fn sample(tid: u32) -> Vec<u8> {
        record(RecordType::SAMPLE, Misc::empty(), &[0, 0, 0, 0, tid, tid])
    }

    fn fork(parent: u32, child: u32) -> Vec<u8> {
        record(RecordType::FORK, Misc::empty(), &[child, parent, child, parent, 0, 0])
    }

    #[test]
    fn children_are_followed_whatever_is_read_first() {
        let format = format();
        let mut follow = Follow::threads([1]);
        // A grandchild's sample and the fork of it are read before the fork of the child.
        let kept = follow.pick(&[sample(3), fork(2, 3), sample(9), sample(1)].concat(), &[], &format);
        assert_eq!(kept, sample(1));
        assert!(follow.next_pass(&format).is_empty());
        assert_eq!(follow.pick(&fork(1, 2), &[], &format), fork(1, 2));
        assert_eq!(follow.next_pass(&format), [sample(3), fork(2, 3)].concat());
        assert!(follow.round_is_over());
        assert!(follow.next_pass(&format).is_empty());
    }

    #[test]
    fn a_command_is_followed_from_its_exec_to_its_end() {
        let format = format();
        let mut follow = Follow::command(5);
        let exec = record(RecordType::COMM, Misc::COMM_EXEC, &[5, 5]);
        let exit = record(RecordType::EXIT, Misc::empty(), &[5, 1, 5, 1, 0, 0]);
        let stream = [sample(5), exec.clone(), sample(5), exit.clone()].concat();
        let kept = follow.pick(&stream[..40], &stream[40..], &format);
        assert_eq!(kept, [exec, sample(5), exit].concat());
        for _ in 0..2 {
            follow.next_pass(&format);
        }
        assert!(follow.pick(&sample(5), &[], &format).is_empty());
    }

    #[test]
    fn a_child_with_the_number_of_one_that_has_ended_is_followed() {
        let format = format();
        let mut follow = Follow::threads([1]);
        let exit = record(RecordType::EXIT, Misc::empty(), &[2, 1, 2, 1, 0, 0]);
        let stream = [fork(1, 2), exit, fork(1, 2)].concat();
        assert_eq!(follow.pick(&stream, &[], &format), stream);
        for _ in 0..3 {
            follow.next_pass(&format);
        }
        assert_eq!(follow.pick(&sample(2), &[], &format), sample(2));
    }

    #[test]
    fn what_another_cpu_has_from_before_the_exec_is_left_out() {
        let sample_type = SampleType::IP | SampleType::TID | SampleType::TIME;
        let format = RecordFormat { sample_type, sample_id_all: true, ..RecordFormat::default() };
        let mut follow = Follow::command(5);
        let sample = |time| record(RecordType::SAMPLE, Misc::empty(), &[0, 0, 5, 5, time, 0]);
        let exec = record(RecordType::COMM, Misc::COMM_EXEC, &[5, 5, 0, 0, 5, 5, 70, 0]);
        assert_eq!(follow.pick(&exec, &[], &format), exec);
        let other = [sample(69), sample(70), sample(71)].concat();
        assert_eq!(follow.pick(&other, &[], &format), [sample(70), sample(71)].concat());
    }
}
