//! Which records of a recording count: those of some commands, processes, threads or cpus, and of some spans of time.

use super::Switches;
use crate::PerfData;
use crate::feature::{Feature, FeatureId, Section};
use perfuse_abi::record::RecordType;
use perfuse_trace::Expr;
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
    /// Of samples, those that it means: see [`Selection`](super::Selection).
    pub expr: Option<Expr>,
    /// Of samples in the spans of time, those between others.
    pub switches: Switches,
}

impl Filter {
    /// Whether a cpu is among those wanted.
    pub fn admits_cpu(&self, cpu: Option<u32>) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpu.is_some_and(|cpu| cpus.has(cpu)))
    }

    /// Whether a cpu and a time are among those wanted.
    pub fn admits_moment(&self, cpu: Option<u32>, time: Option<u64>) -> bool {
        self.admits_cpu(cpu) && self.admits_time(time)
    }

    /// Whether a time is among those wanted.
    pub fn admits_time(&self, time: Option<u64>) -> bool {
        self.time.as_ref().is_none_or(|spans| time.is_some_and(|time| spans.has(time)))
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
        let parse = |text: &str, missing| if text.is_empty() { Ok(missing) } else { nanoseconds(text) };
        let span = |text: &str| {
            let (start, end) = text.split_once(',').ok_or(FORM)?;
            match (parse(start, 0)?, parse(end, u64::MAX)?) {
                (start, end) if start <= end => Ok((start, end)),
                _ => Err(format!("'{text}' ends before it begins")),
            }
        };
        let (mut spans, mut parts) = (Vec::new(), Vec::new());
        if text.contains('%') {
            let words = text.split([',', ' ']).filter(|word| !word.is_empty());
            parts = words.map(part).collect::<Result<_, _>>()?;
        } else {
            // A blank behind a comma parts no spans: `1.5, 2`.
            let mut words: Vec<String> = Vec::new();
            for word in text.split_whitespace() {
                match words.last_mut().filter(|last| last.ends_with(',') && !word.contains(',')) {
                    Some(start) => start.push_str(word),
                    None => words.push(word.to_owned()),
                }
            }
            spans = words.iter().map(|word| span(word)).collect::<Result<_, _>>()?;
        }
        if spans.is_empty() && parts.is_empty() {
            return Err(FORM.to_owned());
        }
        Ok(TimeSpans { spans, parts, text: text.to_owned() })
    }
}

/// How a span is written.
const FORM: &str = "start,end in seconds; either may be left out";

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
    match part {
        (from, to) if !is_share(from) || !is_share(to) => Err(wrong()),
        (from, to) if from > to => Err(format!("'{text}' ends before it begins")),
        (from, to) => Ok((from / 100.0, to / 100.0)),
    }
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
        // perf leaves zeros where it does not look at samples when it records.
        if times.last_ns == 0 {
            return Err(NoTimes);
        }
        self.settle_in((times.first_ns, times.last_ns));
        Ok(())
    }

    /// The same of a recording whose first and last sample were at these times.
    pub fn settle_in(&mut self, (first, last): (u64, u64)) {
        let at =
            |share: f64| first.saturating_add((last.saturating_sub(first) as f64 * share).round() as u64);
        let span = |(from, to): (f64, f64)| {
            let (from, to) = (at(from), at(to));
            // The end of a part belongs to the next one, but for the last.
            (from, if to > from && to != last { to - 1 } else { to })
        };
        self.spans.extend(self.parts.drain(..).map(span));
    }
}

/// The times of the first and the last sample of the rest of a recording, which is read for that: one in the form of pipes does not
/// say. `None` if no sample tells a time. Records that cannot be read are passed over.
pub fn sample_span(data: &mut PerfData<'_>) -> Option<(u64, u64)> {
    let mut span = None;
    loop {
        let time = match data.next() {
            Ok(Some(entry)) if entry.kind() == RecordType::SAMPLE => entry.time(),
            Ok(None) => return span,
            _ => None,
        };
        if let Some(time) = time {
            let (first, last) = span.unwrap_or((time, time));
            span = Some((first.min(time), last.max(time)));
        }
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

/// A time in seconds, with nine digits of a fraction at most.
fn nanoseconds(text: &str) -> Result<u64, String> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() && fraction.is_empty() || !digits(seconds) || !digits(fraction) {
        return Err(format!("'{text}' is no time in seconds"));
    }
    if fraction.len() > 9 {
        return Err(format!("'{text}': no time is finer than nanoseconds, nine digits"));
    }
    let whole = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() };
    let fraction = whole(&format!("{fraction:0<9}"));
    let time = whole(seconds).and_then(|seconds| seconds.checked_mul(1_000_000_000)?.checked_add(fraction?));
    time.ok_or_else(|| format!("'{text}': no clock goes so far"))
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

impl fmt::Display for CpuRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            if first == last { write!(f, "{comma}{first}")? } else { write!(f, "{comma}{first}-{last}")? }
        }
        Ok(())
    }
}

impl std::str::FromStr for CpuRanges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last).then_some((first, last))
        };
        let ranges = text.split(',').map(|part| range(part).ok_or("cpus such as 0-3,8".to_owned()));
        ranges.collect::<Result<_, _>>().map(CpuRanges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_are_told_without_a_slip() {
        let has = |text: &str, time| text.parse::<TimeSpans>().unwrap().has(time);
        for (text, time) in [
            ("1.5,2", 1_500_000_000),
            ("1,1", 1_000_000_000),
            (".5,", 500_000_000),
            ("1.,2", 1_000_000_000),
            ("1,2 4.000000001,5", 4_000_000_001),
            (" 1,2 ", 1_000_000_000),
            ("1, 2 4, 5 6,", 5_000_000_000),
            ("1, 2,5", 600_000_000_000),
            (",", 0),
        ] {
            assert!(has(text, time), "{text}");
        }
        for (text, why) in [
            ("", "start,end"),
            (" ", "start,end"),
            ("5", "start,end"),
            ("2,1", "ends before it begins"),
            ("2, 1", "'2,1' ends before it begins"),
            ("1,2 3", "start,end"),
            ("1,2 4,3", "'4,3' ends before it begins"),
            ("1.000000001,1", "ends before it begins"),
            ("1,2junk", "'2junk' is no time"),
            ("1,2.000000001junk", "is no time"),
            ("1,2.5.5", "is no time"),
            ("1,2,3", "'2,3' is no time"),
            ("1,2,", "'2,' is no time"),
            ("-1,2", "'-1' is no time"),
            ("+1,2", "'+1' is no time"),
            ("1,1.+5", "is no time"),
            (".,2", "'.' is no time"),
            ("1s,2s", "'1s' is no time"),
            ("0x1,2", "is no time"),
            ("1e3,", "is no time"),
            ("1,2.0000000001", "nine digits"),
            ("99999999999,", "no clock goes so far"),
            ("99999999999999999999999,", "no clock goes so far"),
            ("20%-10%", "ends before it begins"),
            ("10%-20%-30%", "is no part"),
            ("10%/0", "is no part"),
            ("10%/11", "is no part"),
            ("10%/1.5", "is no part"),
            ("-10%/1", "is no part"),
            ("110%", "is no part"),
            ("nan%", "is no part"),
            ("%", "is no part"),
            ("10%junk", "is no part"),
            ("10%,5", "'5' is no part"),
        ] {
            let error = text.parse::<TimeSpans>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn ranges_of_cpus_are_told_as_they_were_meant() {
        let ranges: CpuRanges = "0, 2-4,9-9".parse().unwrap();
        assert_eq!(ranges.to_string(), "0,2-4,9");
        for text in ["", "x", "4-2", "1-", "-1", "1,,2"] {
            assert!(text.parse::<CpuRanges>().is_err(), "{text}");
        }
    }
}
