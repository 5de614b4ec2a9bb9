//! The page of time: when samples of each thread or cpu were, and the part of them that the other pages show.

use perfuse_profile::{Profile, SampleRow};
use perfuse_term::foreign::foreign;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// More threads than this have no line; their samples are in the sum.
const MOST_LANES: usize = 4096;
/// So many numbers of all lines are kept at most.
const MOST_CELLS: usize = 1 << 22;

/// A thread or a cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Lane {
    /// A thread, by its number.
    Thread(u32),
    /// A cpu, by its number.
    Cpu(u32),
}

impl Lane {
    /// That of a row, if the profile tells it.
    fn of(profile: &Profile, row: &SampleRow, is_cpu: bool) -> Option<Self> {
        match is_cpu {
            true => profile.cpu(row).map(Lane::Cpu),
            false => profile.thread(row).map(|(id, _)| Lane::Thread(id)),
        }
    }
}

/// The samples that pages show: all, or those of a part of the time, of a thread or of a cpu.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// From this time on until before that one, in ns on the recording's clock.
    pub span_ns: Option<Range<u64>>,
    /// The thread or cpu.
    pub lane: Option<Lane>,
}

impl Choice {
    /// The part of a profile that is chosen.
    pub fn of<'p>(&self, profile: &'p Profile) -> Cow<'p, Profile> {
        let is_wanted = |row: &SampleRow| match self.lane {
            None => true,
            lane @ Some(Lane::Cpu(_)) => Lane::of(profile, row, true) == lane,
            lane @ Some(Lane::Thread(_)) => Lane::of(profile, row, false) == lane,
        };
        match self {
            Choice { span_ns: None, lane: None } => Cow::Borrowed(profile),
            _ => Cow::Owned(profile.part(self.span_ns.clone(), is_wanted)),
        }
    }
}

/// When samples of an event were, in steps of the same length.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timeline {
    /// From the first sample until after the last one, whatever their events.
    pub(crate) span_ns: Range<u64>,
    pub(crate) steps: usize,
    pub(crate) is_cpu: bool,
    /// The event's weight in each step.
    pub(crate) all: Vec<u64>,
    /// Those with the largest weight first.
    pub(crate) lanes: Vec<Lined>,
}

/// A thread or cpu with its weight, all of it and in each step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lined {
    pub(crate) lane: Lane,
    /// Harmless on a terminal.
    pub(crate) name: String,
    pub(crate) weight: u64,
    pub(crate) cells: Vec<u64>,
}

impl Timeline {
    /// Nothing where the profile has no times.
    pub(crate) fn new(profile: &Profile, event: usize, steps: usize, is_cpu: bool) -> Option<Self> {
        let (first, last) = profile.span_ns()?;
        let steps = steps.clamp(1, 1 << 10);
        let span_ns = first..last.saturating_add(1);
        let lane_of: Vec<Option<Lane>> = profile
            .samples()
            .iter()
            .map(|row| (row.event as usize == event).then(|| Lane::of(profile, row, is_cpu)).flatten())
            .collect();
        let mut sums: HashMap<Lane, (u64, String)> = HashMap::new();
        for (row, lane) in profile.samples().iter().zip(&lane_of) {
            let Some(lane) = *lane else { continue };
            let sum = sums.entry(lane).or_insert_with(|| (0, name(profile, row, lane)));
            sum.0 = sum.0.saturating_add(row.weight);
        }
        let mut lanes: Vec<Lined> = sums
            .into_iter()
            .map(|(lane, (weight, name))| Lined { lane, name, weight, cells: Vec::new() })
            .collect();
        lanes.sort_by(|one, other| other.weight.cmp(&one.weight).then(one.lane.cmp(&other.lane)));
        lanes.truncate(MOST_LANES.min(MOST_CELLS / steps));
        let places: HashMap<Lane, usize> =
            lanes.iter().enumerate().map(|(place, lined)| (lined.lane, place)).collect();
        let place_of: Vec<Option<usize>> =
            lane_of.iter().map(|lane| places.get(lane.as_ref()?).copied()).collect();
        let mut timeline = Timeline { span_ns, steps, is_cpu, all: vec![0; steps], lanes };
        timeline.lanes.iter_mut().for_each(|lined| lined.cells = vec![0; steps]);
        for sample in profile.sample_times() {
            if profile.samples()[sample.row as usize].event as usize != event {
                continue;
            }
            let step = timeline.step_of(sample.time_ns);
            timeline.all[step] = timeline.all[step].saturating_add(sample.weight);
            if let Some(place) = place_of[sample.row as usize] {
                let cell = &mut timeline.lanes[place].cells[step];
                *cell = cell.saturating_add(sample.weight);
            }
        }
        Some(timeline)
    }

    /// The step that a time is in.
    pub(crate) fn step_of(&self, time_ns: u64) -> usize {
        let length = u128::from((self.span_ns.end - self.span_ns.start).max(1));
        let since = u128::from(time_ns.saturating_sub(self.span_ns.start));
        ((since * self.steps as u128 / length) as usize).min(self.steps - 1)
    }

    /// The time of some steps that follow each other: the samples in it are those of the steps.
    pub(crate) fn time_of(&self, steps: Range<usize>) -> Range<u64> {
        let length = u128::from((self.span_ns.end - self.span_ns.start).max(1));
        // The first time in a step is that whose step is no longer the one before.
        let start = |step: usize| (step as u128 * length).div_ceil(self.steps as u128) as u64;
        self.span_ns.start + start(steps.start)..self.span_ns.start + start(steps.end.min(self.steps))
    }
}

fn name(profile: &Profile, row: &SampleRow, lane: Lane) -> String {
    match lane {
        Lane::Cpu(cpu) => format!("cpu {cpu}"),
        Lane::Thread(id) => {
            let name =
                profile.thread(row).map(|(_, name)| foreign(name.as_ref()).into_owned()).unwrap_or_default();
            format!("{name} {id}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_times_are_inverse() {
        for (start, end, steps) in [(0, 1, 1), (5, 1005, 7), (10, 13, 40), (u64::MAX - 9, u64::MAX, 3)] {
            let timeline = Timeline { span_ns: start..end, steps, ..Timeline::default() };
            for time in [start, start + (end - start) / 2, end - 1] {
                let step = timeline.step_of(time);
                assert!(timeline.time_of(step..step + 1).contains(&time), "{time} in {step} of {steps}");
            }
            assert_eq!(timeline.time_of(0..steps), start..end);
        }
    }
}
