//! How much of a clock's time its samples stand for: the sum of their periods, of each clock by itself.

use perfuse::abi::record::{RawRecord, RecordFormat};
use perfuse::abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType, Software};
use std::collections::BTreeMap;

/// Linux's clocks tick no more often, whatever period their samples tell.
const SHORTEST_NS: f64 = 10_000.0;

/// The clocks that are sampled, by the ids in their samples.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    by_id: BTreeMap<u64, Clock>,
    /// The format of samples that tell whose they are.
    told: Option<RecordFormat>,
}

#[derive(Debug)]
struct Clock {
    format: RecordFormat,
    period_ns: f64,
    seen_ns: f64,
}

impl Clocks {
    /// An event with this id; one that is no clock changes nothing.
    pub(crate) fn add(&mut self, id: u64, attr: &Attr) {
        let Some(period_ns) = period_ns(attr) else { return };
        let format = RecordFormat::of(attr, ByteOrder::NATIVE);
        if attr.sample_type.intersects(SampleType::IDENTIFIER | SampleType::ID) {
            self.told = Some(format);
        }
        self.by_id.insert(id, Clock { format, period_ns, seen_ns: 0.0 });
    }

    /// A sample.
    pub(crate) fn sample(&mut self, sample: &RawRecord<'_>) {
        let clock = match self.told {
            Some(format) => format.id_of(sample).and_then(|id| self.by_id.get_mut(&id)),
            None => self.by_id.values_mut().next(),
        };
        if let Some(clock) = clock {
            let told = clock.format.period_of(sample).map_or(clock.period_ns, |ns| ns as f64);
            clock.seen_ns += told.max(SHORTEST_NS);
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The time that the samples of one of them stand for, with those that were lost, and the time from sample to sample.
    pub(crate) fn seen(&self, id: u64, lost: u64) -> Option<(f64, f64)> {
        self.by_id.get(&id).map(|clock| (clock.seen_ns + lost as f64 * clock.period_ns, clock.period_ns))
    }
}

/// A clock's time, and how much of it was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    pub(crate) time_ns: f64,
    pub(crate) seen_ns: f64,
    pub(crate) period_ns: f64,
    /// The events that it is of.
    pub(crate) events: u32,
    /// The time that it leaves out, in words.
    pub(crate) left_out: Option<&'static str>,
}

impl Share {
    /// How much of the time was not sampled, in per cent, if that is more than chance leaves out.
    pub(crate) fn unseen(&self) -> Option<f64> {
        let (expected, missing) = (self.expected(), self.missing());
        let none = self.seen_ns == 0.0 && expected > 0.0;
        // Three times what chance does, where samples are taken at random, and what one thread begins and ends with.
        let much = missing > 3.0 * expected.sqrt() + 3.0 && missing > 0.1 * expected;
        (none || much).then_some(100.0 * missing / expected)
    }

    /// How many samples the time that was not seen should give.
    fn missing(&self) -> f64 {
        (self.time_ns - self.seen_ns) / self.period_ns
    }

    /// Whether so much is missing that the timer came late: the clock of each task, of which so many were born, leaves out less than
    /// a period, but for time that is [left out](left_out).
    pub(crate) fn is_late(&self, births: u64) -> bool {
        self.left_out.is_none() && self.missing() > (births + 1) as f64 * f64::from(self.events)
    }

    /// How many samples that much time should give.
    pub(crate) fn expected(&self) -> f64 {
        self.time_ns / self.period_ns
    }
}

/// The time that a clock which goes on there does not sample.
pub(crate) fn left_out(attr: &Attr) -> Option<&'static str> {
    if attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) {
        Some("time in the kernel is left out (:u)")
    } else if attr.flags.contains(AttrFlags::EXCLUDE_USER) {
        Some("time in user space is left out (:k)")
    } else {
        None
    }
}

/// The time from sample to sample of a clock that ticks all the time; members of a group that is read with its leader's
/// samples (modifier S) take none.
fn period_ns(attr: &Attr) -> Option<f64> {
    let clocks = [Software::CPU_CLOCK.0, Software::TASK_CLOCK.0];
    let is_clock = attr.type_ == EventType::SOFTWARE && clocks.contains(&attr.config);
    let period = attr.sample_freq().map(|hz| 1e9 / hz as f64).or(attr.period().map(|ns| ns as f64));
    let period = period.filter(|&ns| ns > 0.0 && is_clock && !attr.flags.contains(AttrFlags::EXCLUDE_IDLE));
    period.map(|ns| ns.max(SHORTEST_NS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse::abi::record::{Header, RecordType};

    fn clock(id: u64, tells: SampleType, clocks: &mut Clocks) {
        let sample_type = tells | SampleType::IP | SampleType::PERIOD;
        let attr = Attr {
            type_: EventType::SOFTWARE,
            config: Software::TASK_CLOCK.0,
            sample_period: 1_000_000,
            sample_type,
            ..Attr::default()
        };
        clocks.add(id, &attr);
    }

    #[test]
    fn each_clock_has_its_own_samples_whatever_is_sampled_beside_it() {
        // Samples tell whose they are first of all, or where attrs alike let that be found.
        for tells in [SampleType::IDENTIFIER, SampleType::ID] {
            let mut clocks = Clocks::default();
            clock(7, tells, &mut clocks);
            clock(8, tells, &mut clocks);
            let faults =
                Attr { type_: EventType::SOFTWARE, config: Software::PAGE_FAULTS.0, ..Attr::default() };
            clocks.add(9, &faults);
            for id in [7, 7, 8, 9, 9, 9] {
                let words = if tells == SampleType::ID { [0, id, 2_000_000] } else { [id, 0, 2_000_000] };
                let body = words.map(u64::to_ne_bytes).concat();
                let header = Header { kind: RecordType::SAMPLE, ..Header::default() };
                clocks.sample(&RawRecord { header, body: &body });
            }
            assert_eq!(clocks.seen(7, 1), Some((5e6, 1e6)), "{tells:?}");
            assert_eq!(clocks.seen(8, 0), Some((2e6, 1e6)), "{tells:?}");
            assert_eq!(clocks.seen(9, 0), None, "{tells:?}");
        }
    }

    #[test]
    fn samples_of_one_event_alone_need_not_tell_whose_they_are() {
        let mut clocks = Clocks::default();
        clock(7, SampleType::empty(), &mut clocks);
        let body = [0, 2_000_000].map(u64::to_ne_bytes).concat();
        let header = Header { kind: RecordType::SAMPLE, ..Header::default() };
        clocks.sample(&RawRecord { header, body: &body });
        assert_eq!(clocks.seen(7, 0), Some((2e6, 1e6)));
    }

    #[test]
    fn what_chance_leaves_out_is_not_told_and_less_than_fifty_samples_are() {
        let share = |expected: f64, seen: f64| Share {
            time_ns: expected * 1e6,
            seen_ns: seen * 1e6,
            period_ns: 1e6,
            events: 1,
            left_out: None,
        };
        for (expected, seen) in [(100.0, 75.0), (1000.0, 920.0), (0.0, 0.0), (9.0, 1.0)] {
            assert_eq!(share(expected, seen).unseen(), None, "{expected} {seen}");
        }
        let (half, kernel) = (share(60.0, 30.0), Share { left_out: Some("the kernel"), ..share(60.0, 30.0) });
        assert_eq!([half.is_late(10), half.is_late(30), kernel.is_late(10)], [true, false, false]);
        assert!(!Share { events: 4, ..half }.is_late(10), "a clock on each of four cpus");
        for (expected, seen, percent) in [(60.0, 30.0, 50.0), (1000.0, 800.0, 20.0), (0.5, 0.0, 100.0)] {
            assert_eq!(share(expected, seen).unseen(), Some(percent), "{expected} {seen}");
        }
    }
}
