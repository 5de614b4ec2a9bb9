//! Calls made of entries and exits, thread by thread.

use std::collections::HashMap;

/// So many calls may be under way: threads that end in one, or whose exits are lost, leave theirs behind.
const MOST: usize = 1 << 16;

/// Where and when something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The time in nanoseconds.
    pub time: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The cpu, if it is told.
    pub cpu: Option<u32>,
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where and when it began; of a call whose entry is not told, where and when it ended.
    pub at: Moment,
    /// Which.
    pub number: u64,
    /// Its arguments, if its entry is told.
    pub arguments: Option<[u64; 6]>,
    /// How long it took; nothing for one that did not end.
    pub duration: Option<u64>,
    /// What it returned; nothing for one that did not end.
    pub returned: Option<i64>,
}

impl Call {
    /// The error that it returned.
    pub fn error(&self) -> Option<u16> {
        self.returned.filter(|value| (-4095..0).contains(value)).map(|value| value.unsigned_abs() as u16)
    }
}

/// Joins entries and exits.
#[derive(Debug, Default)]
pub struct Joiner {
    /// By thread.
    under_way: HashMap<u32, Call>,
    without_entry: u64,
    without_exit: u64,
}

impl Joiner {
    /// Takes an entry. A call of the same thread that is still under way never ended, or its exit is lost: it is given back.
    pub fn enter(&mut self, at: Moment, number: u64, arguments: [u64; 6]) -> Option<Call> {
        if self.under_way.len() >= MOST && !self.under_way.contains_key(&at.tid) {
            self.without_exit += 1;
            return None;
        }
        let call = Call { at, number, arguments: Some(arguments), duration: None, returned: None };
        let before = self.under_way.insert(at.tid, call);
        self.without_exit += u64::from(before.is_some());
        before
    }

    /// Takes an exit. Nothing is given back for one that no call of the recording is known to: of a thread that was born by it, say.
    pub fn exit(&mut self, at: Moment, number: u64, returned: i64) -> Option<Call> {
        let mut found = self.under_way.remove(&at.tid);
        // The return from a signal's handler has brought the registers of before, and tells no number.
        if found.as_ref().is_some_and(|call| call.number != number && number != u64::MAX) {
            // Where a thread executes a program, it becomes the process's first one.
            found = None;
        }
        if found.is_none() {
            let is_same =
                |call: &Call| call.at.pid == at.pid && call.number == number && call.at.tid != at.tid;
            let executed = |call: &Call| is_same(call) && returned == 0 && at.tid == at.pid;
            let other = self.under_way.iter().find(|(_, call)| executed(call)).map(|(tid, _)| *tid);
            found = other.and_then(|tid| self.under_way.remove(&tid));
        }
        match found {
            Some(mut call) => {
                call.duration = Some(at.time.saturating_sub(call.at.time));
                call.returned = Some(returned);
                Some(call)
            }
            None => {
                self.without_entry += 1;
                Some(Call { at, number, arguments: None, duration: None, returned: Some(returned) })
            }
        }
    }

    /// A thread has ended: the call that it was in never returns.
    pub fn ended(&mut self, tid: u32) -> Option<Call> {
        self.under_way.remove(&tid)
    }

    /// The calls that are still under way, by time.
    pub fn rest(&mut self) -> Vec<Call> {
        let mut calls: Vec<Call> = self.under_way.drain().map(|(_, call)| call).collect();
        calls.sort_by_key(|call| (call.at.time, call.at.tid));
        calls
    }

    /// Exits without an entry, and entries without an exit that another call followed.
    pub fn unmatched(&self) -> (u64, u64) {
        (self.without_entry, self.without_exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64, pid: u32, tid: u32) -> Moment {
        Moment { time, pid, tid, cpu: None }
    }

    #[test]
    fn each_thread_is_in_one_call() {
        let mut joiner = Joiner::default();
        assert_eq!(joiner.enter(at(10, 1, 1), 0, [3, 0, 8, 0, 0, 0]), None);
        assert_eq!(joiner.enter(at(11, 1, 2), 1, [0; 6]), None);
        let call = joiner.exit(at(15, 1, 1), 0, 8).unwrap();
        assert_eq!((call.at.time, call.duration, call.returned, call.error()), (10, Some(5), Some(8), None));
        let call = joiner.exit(at(17, 1, 2), 1, -2).unwrap();
        assert_eq!((call.duration, call.error()), (Some(6), Some(2)));
        // Its exit was lost.
        joiner.enter(at(20, 1, 1), 0, [0; 6]);
        assert_eq!(
            joiner.enter(at(30, 1, 1), 1, [0; 6]).map(|call| (call.number, call.returned)),
            Some((0, None))
        );
        // A child comes out of a call that another thread made.
        let born = joiner.exit(at(31, 9, 9), 56, 0).unwrap();
        assert_eq!((born.arguments, born.duration), (None, None));
        assert_eq!(joiner.unmatched(), (1, 1));
        assert_eq!(joiner.rest().len(), 1);
        // Numbers that errors do not reach are results: addresses, say.
        joiner.enter(at(40, 1, 1), 9, [0; 6]);
        assert_eq!(joiner.exit(at(41, 1, 1), 9, -5000).unwrap().error(), None);
    }

    #[test]
    fn a_thread_that_executes_a_program_becomes_the_first() {
        let mut joiner = Joiner::default();
        joiner.enter(at(1, 7, 8), 59, [0; 6]);
        assert_eq!(joiner.exit(at(5, 7, 7), 59, 0).unwrap().duration, Some(4));
        assert!(joiner.rest().is_empty());
    }
}
