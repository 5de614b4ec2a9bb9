//! The order in which ticks look at sampled threads: of thousands few may run, and a tick has time to look at some.

use crate::machine::TickResult;
use crate::ptrace::Tid;
use std::collections::VecDeque;

/// The threads that ticks look at.
#[derive(Debug, Default)]
pub(super) struct SamplingQueue {
    /// Threads that ran lately, with the number of looks that have found them idle since.
    busy: VecDeque<(Tid, u8)>,
    /// The others.
    idle: VecDeque<Tid>,
}

/// So many looks find one idle that is not taken for busy any more.
const PATIENCE: u8 = 16;

/// So many of the idle ones have their turn even where the busy ones take all the time.
const LEAST: usize = 4;

impl SamplingQueue {
    /// Adds a thread.
    pub(super) fn add(&mut self, tid: Tid) {
        self.busy.push_back((tid, PATIENCE));
    }

    /// Looks at threads that ran lately, then at the others in turn, each once at most, as long as there is time.
    /// `has_time`: whether less than one part of so many of the time between two ticks is over.
    pub(super) fn turn(
        &mut self,
        mut look: impl FnMut(Tid) -> TickResult,
        mut has_time: impl FnMut(u64) -> bool,
    ) {
        let idle = self.idle.len();
        for _ in 0..self.busy.len() {
            if !has_time(4) {
                break;
            }
            let Some((tid, looks)) = self.busy.pop_front() else { break };
            match look(tid) {
                TickResult::Nothing => {}
                TickResult::Idle if looks == PATIENCE => self.idle.push_back(tid),
                TickResult::Idle => self.busy.push_back((tid, looks + 1)),
                TickResult::Ran | TickResult::Due(_) | TickResult::Elsewhere(_) => {
                    self.busy.push_back((tid, 0))
                }
            }
        }
        for turn in 0..idle {
            if turn >= LEAST && !has_time(16) {
                break;
            }
            let Some(tid) = self.idle.pop_front() else { break };
            match look(tid) {
                TickResult::Nothing => {}
                TickResult::Idle => self.idle.push_back(tid),
                TickResult::Ran | TickResult::Due(_) | TickResult::Elsewhere(_) => {
                    self.busy.push_back((tid, 0))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The threads that one turn looked at; there is time for `most`.
    fn turn(queue: &mut SamplingQueue, most: usize, look: impl Fn(Tid) -> TickResult) -> Vec<Tid> {
        let (mut seen, mut asked) = (Vec::new(), 0);
        let has_time = |_| {
            asked += 1;
            asked <= most
        };
        queue.turn(
            |tid| {
                seen.push(tid);
                look(tid)
            },
            has_time,
        );
        seen
    }

    #[test]
    fn who_runs_is_looked_at_each_time_and_nobody_is_forgotten() {
        let mut queue = SamplingQueue::default();
        (0..100).for_each(|tid| queue.add(tid));
        let look = |tid| if tid == 70 { TickResult::Ran } else { TickResult::Idle };
        for _ in 0..2 {
            assert_eq!(turn(&mut queue, usize::MAX, look).len(), 100);
        }
        let mut others = Vec::new();
        for _ in 0..10 {
            let mut seen = turn(&mut queue, 11, look);
            assert_eq!(seen.remove(0), 70);
            others.append(&mut seen);
        }
        others.sort_unstable();
        others.dedup();
        assert_eq!(others.len(), 99, "each had its turn");
        // One that runs again is noticed, those that are gone are not asked for again.
        assert_eq!(turn(&mut queue, usize::MAX, |_| TickResult::Ran).len(), 100);
        assert_eq!(turn(&mut queue, usize::MAX, |_| TickResult::Nothing).len(), 100);
        assert!(turn(&mut queue, usize::MAX, look).is_empty());
    }
}
