//! Clocks of whole cpus that run BPF programs, as bpftrace's `profile` and `interval` do: there are no whole cpus here, so that the
//! supervisor looks, when the time is over, which thread runs on the cpu, and the program runs for that one, or for an idle cpu.

use super::Machine;
use crate::bpf::Sight;
use crate::stopped::StoppedThread;
use perfuse_abi::{Attr, AttrFlags, EventType, Software};
use perfuse_engine::{CpuState, EventKey, TaskId};
use std::collections::BTreeMap;

/// The clocks, by the events that stand for them. These count nothing, and go off by no clock of their own.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    all: BTreeMap<EventKey, Clock>,
    /// None goes off before.
    rest_until: u64,
}

#[derive(Debug)]
struct Clock {
    cpu: u32,
    period_ns: u64,
    /// When it goes off next, while it is on.
    next: Option<u64>,
    sight: Sight,
}

/// A clock that has gone off.
#[derive(Clone, Debug)]
pub(crate) struct DueClock {
    pub(crate) event: EventKey,
    pub(crate) cpu: u32,
    /// The threads for which its program may run.
    pub(crate) sight: Sight,
}

/// As `perf_swevent_init_hrtimer` has it.
const SHORTEST_NS: u64 = 10_000;

/// Clocks rest for so many times as long as they took, whatever their periods: the supervisor is there for others, too.
const REST: u64 = 4;

/// An idle cpu.
#[derive(Debug)]
struct Idle;

impl CpuState for Idle {
    fn is_user(&self) -> bool {
        false
    }

    fn ip(&self) -> u64 {
        crate::SOMEWHERE_IN_KERNEL
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn has_user(&self) -> bool {
        false
    }
}

/// So many there are at most, as each stop of a thread asks them all.
const MOST: usize = 1024;

/// The period of a clock in ns; `None`: the event is no clock that goes off.
pub(super) fn period_ns(attr: &Attr) -> Option<u64> {
    let is_clock = attr.type_ == EventType::SOFTWARE && Software(attr.config) == Software::CPU_CLOCK;
    let period = match attr.flags.contains(AttrFlags::FREQ) {
        true => 1_000_000_000u64.checked_div(attr.sample_period)?,
        false => attr.sample_period,
    };
    (is_clock && period > 0).then_some(period.max(SHORTEST_NS))
}

impl Machine {
    /// Whether there may be one more.
    pub(super) fn has_room_for_clock(&self) -> bool {
        self.clocks.all.len() < MOST
    }

    /// An event stands for the clock of a cpu.
    pub(super) fn add_clock(&mut self, event: EventKey, cpu: u32, period_ns: u64, sight: Sight) {
        self.clocks.all.insert(event, Clock { cpu, period_ns, next: None, sight });
    }

    pub(super) fn remove_clock(&mut self, event: EventKey) {
        self.clocks.all.remove(&event);
    }

    /// Whether clocks are on or off that were not when they were last asked about.
    pub(crate) fn clocks_have_changed(&self) -> bool {
        self.clocks.all.iter().any(|(&event, clock)| self.engine.is_on(event) != clock.next.is_some())
    }

    /// The clocks that have gone off, and when the next one will.
    pub(crate) fn due_clocks(&mut self, now: u64) -> (Vec<DueClock>, Option<u64>) {
        let mut due = Vec::new();
        let rest_until = self.clocks.rest_until;
        for (&event, clock) in &mut self.clocks.all {
            if !self.engine.is_on(event) {
                clock.next = None;
                continue;
            }
            let next = *clock.next.get_or_insert(now + clock.period_ns);
            if next.max(rest_until) <= now {
                due.push(DueClock { event, cpu: clock.cpu, sight: clock.sight.clone() });
                // One that was missed goes off no more.
                clock.next = Some(now + clock.period_ns - (now - next) % clock.period_ns);
            }
        }
        let first = self.clocks.all.values().filter_map(|clock| clock.next).min();
        (due, first.map(|first| first.max(rest_until)))
    }

    /// Notes how long the programs of clocks took, and the search for their threads, up to now.
    pub(crate) fn clocks_took(&mut self, ns: u64, now: u64) {
        self.clocks.rest_until = self.clocks.rest_until.max(now + REST * ns);
    }

    /// A clock has gone off while no thread ran that its program may see.
    pub(crate) fn clock_of_idle(&mut self, clock: &DueClock) {
        let now = self.now();
        if self.engine.current(clock.cpu).is_some() {
            self.engine.place(clock.cpu, now, None);
        }
        self.engine.run_program(clock.event, clock.cpu, now, &Idle);
    }

    /// Clocks have gone off while a thread ran, which is stopped since.
    pub(crate) fn clocks_of(&mut self, task: TaskId, clocks: &[DueClock], stopped: &StoppedThread) {
        let now = self.now();
        self.within(task, now, |engine, cpu| {
            clocks.iter().for_each(|clock| engine.run_program(clock.event, cpu, now, stopped));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_and_frequencies() {
        let clock = |period, flags| {
            let attr = Attr {
                config: Software::CPU_CLOCK.0,
                sample_period: period,
                ..Attr::new(EventType::SOFTWARE)
            };
            period_ns(&Attr { flags: attr.flags | flags, ..attr })
        };
        let none = AttrFlags::empty();
        assert_eq!(
            [clock(1_000_000_000, none), clock(99, AttrFlags::FREQ)],
            [Some(1_000_000_000), Some(10_101_010)]
        );
        assert_eq!(
            [clock(0, none), clock(0, AttrFlags::FREQ), clock(7, none)],
            [None, None, Some(SHORTEST_NS)]
        );
        let other = Attr { config: Software::DUMMY.0, sample_period: 5, ..Attr::new(EventType::SOFTWARE) };
        assert_eq!(period_ns(&other), None);
    }
}
