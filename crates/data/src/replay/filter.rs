//! Which records of a recording count: those of some commands, processes, threads or cpus, and of some spans of time.

use crate::PerfData;
use crate::feature::{Feature, FeatureId, Section};
use std::fmt;

/// Which records count; all of them by default.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Names of commands; empty for all.
    pub comms: Vec<String>,
    /// Processes; empty for all.
    pub pids: Vec<u32>,
    /// Threads; empty for all.
    pub tids: Vec<u32>,
    /// Cpus.
    pub cpus: Option<CpuRanges>,
    /// Spans of time. Parts of a recording are to be [settled](TimeSpans::settle) first.
    pub time: Option<TimeSpans>,
}

impl Filter {
    /// Whether a cpu and a time are among those wanted.
    pub fn admits_moment(&self, cpu: Option<u32>, time: Option<u64>) -> bool {
        let in_ranges = |cpus: &CpuRanges| cpu.is_some_and(|cpu| cpus.has(cpu));
        let in_spans = |spans: &TimeSpans| time.is_some_and(|time| spans.has(time));
        self.cpus.as_ref().is_none_or(in_ranges) && self.time.as_ref().is_none_or(in_spans)
    }

    /// Whether a thread is among those wanted.
    pub fn admits_task(&self, pid: u32, tid: u32, comm: &[u8]) -> bool {
        let listed = |list: &[u32], value| list.is_empty() || list.contains(&value);
        listed(&self.pids, pid)
            && listed(&self.tids, tid)
            && (self.comms.is_empty() || self.comms.iter().any(|name| name.as_bytes() == comm))
    }

    /// Whether [`admits_task`](Self::admits_task) says the same of all threads.
    pub fn admits_all_tasks(&self) -> bool {
        self.comms.is_empty() && self.pids.is_empty() && self.tids.is_empty()
    }
}

/// Spans of time: `[start],[stop]` in seconds, several of them with blanks between, or parts of the recording,
/// such as `10%/2` for its second tenth or `0%-10%,30%-40%`. Both ends belong to a span.
///
/// ```
/// let spans: perfuse_data::replay::TimeSpans = "1.5,2 3,".parse()?;
/// assert!(spans.has(2_000_000_000) && !spans.has(2_000_000_001) && spans.has(u64::MAX));
/// assert!("120%/2".parse::<perfuse_data::replay::TimeSpans>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct TimeSpans {
    spans: Vec<(u64, u64)>,
    /// Parts of the recording, as shares of its length.
    parts: Vec<(f64, f64)>,
    text: String,
}

impl std::str::FromStr for TimeSpans {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |text: &str, missing| match text.trim() {
            "" => Ok(missing),
            text => nanoseconds(text).ok_or(format!("'{text}' is no time in seconds")),
        };
        let span = |text: &str| {
            let (start, end) = text.split_once(',').ok_or("start,end in seconds; either may be left out")?;
            Ok::<_, String>((parse(start, 0)?, parse(end, u64::MAX)?))
        };
        let (mut spans, mut parts) = (Vec::new(), Vec::new());
        if text.contains('%') {
            let words = text.split([',', ' ']).filter(|word| !word.is_empty());
            parts = words.map(part).collect::<Result<_, _>>()?;
        } else {
            spans = text.split_whitespace().map(span).collect::<Result<_, _>>()?;
        }
        if spans.is_empty() && parts.is_empty() {
            return Err("start,end in seconds; either may be left out".to_owned());
        }
        Ok(TimeSpans { spans, parts, text: text.to_owned() })
    }
}

/// A part of a recording: `10%/2` or `10%-20%`.
fn part(text: &str) -> Result<(f64, f64), String> {
    let wrong = || format!("'{text}' is no part such as 10%/2 or 10%-20%");
    let percent = |text: &str| text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let part = match (text.split_once('/'), text.split_once('-')) {
        (Some((each, number)), _) => {
            let each = percent(each).ok_or_else(wrong)?;
            let number: u32 = number.parse().map_err(|_| wrong())?;
            (each * (f64::from(number) - 1.0), each * f64::from(number))
        }
        (None, Some((from, to))) => (percent(from).ok_or_else(wrong)?, percent(to).ok_or_else(wrong)?),
        (None, None) => (0.0, percent(text).ok_or_else(wrong)?),
    };
    let is_share = |percent: f64| (0.0..=100.0).contains(&percent);
    if is_share(part.0) && is_share(part.1) { Ok((part.0 / 100.0, part.1 / 100.0)) } else { Err(wrong()) }
}

impl TimeSpans {
    /// As they were told.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a time is in one of them.
    pub fn has(&self, time: u64) -> bool {
        self.spans.iter().any(|&(from, to)| (from..=to).contains(&time))
    }

    /// Finds out which spans of a recording its parts are.
    ///
    /// # Errors
    ///
    /// There are parts, and the recording does not say when it began and ended.
    pub fn settle(&mut self, data: &mut PerfData<'_>) -> Result<(), NoTimes> {
        if self.parts.is_empty() {
            return Ok(());
        }
        let Ok(Some(Section { feature: Feature::SampleTime(times), .. })) =
            data.feature(FeatureId::SAMPLE_TIME)
        else {
            return Err(NoTimes);
        };
        let (first, last) = (times.first_ns, times.last_ns);
        let at =
            |share: f64| first.saturating_add((last.saturating_sub(first) as f64 * share).round() as u64);
        let span = |(from, to): (f64, f64)| {
            let (from, to) = (at(from), at(to));
            // The end of a part belongs to the next one, but for the last.
            (from, if to > from && to != last { to - 1 } else { to })
        };
        self.spans.extend(self.parts.drain(..).map(span));
        Ok(())
    }
}

/// The recording does not say when it began and ended, as those from pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTimes;

impl fmt::Display for NoTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the recording does not say when it began and ended, as those from pipes")
    }
}

impl std::error::Error for NoTimes {}

fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = format!("{:0<9}", fraction.get(..9).unwrap_or(fraction));
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction.parse().ok()?)
}

/// Cpus as a list of ranges.
#[derive(Clone, Debug)]
pub struct CpuRanges(Vec<(u32, u32)>);

impl CpuRanges {
    /// Whether a cpu is among them.
    pub fn has(&self, cpu: u32) -> bool {
        self.0.iter().any(|&(first, last)| (first..=last).contains(&cpu))
    }
}

impl std::str::FromStr for CpuRanges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
        };
        let ranges = text.split(',').map(|part| range(part).ok_or(format!("'{part}' is no cpu")));
        ranges.collect::<Result<_, _>>().map(CpuRanges)
    }
}
