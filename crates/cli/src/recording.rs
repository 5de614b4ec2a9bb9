//! What the subcommands that read a recording share: opening it, names of its events, its records in the
//! order of time together with what was running then.

pub(crate) mod dump;
pub(crate) mod groups;
pub(crate) mod header;
mod names;
pub(crate) mod registers;
pub(crate) mod text;
pub(crate) mod tracing;
pub(crate) mod unfinished;

use crate::exit::Failure;
use crate::term::out::say;
pub(crate) use names::{event_name, event_names};
use perfuse_abi::record::{Decoded, Record};
use perfuse_data::feature::{Feature, FeatureId, Section};
use perfuse_data::session::Session;
use perfuse_data::tool::kind;
use perfuse_data::{Entry, Options, Ordered, PerfData, Problem};
use std::path::PathBuf;
use std::sync::OnceLock;
use tracing::Formats;

/// Which recording.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Input {
    /// The recording: a file, a folder of perf record --threads, or - for standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub(crate) input: PathBuf,
    /// Believe what other users' files (/tmp/perf-PID.map, jit-PID.dump) say of code made at run time
    #[arg(short, long)]
    pub(crate) force: bool,
}

impl Input {
    pub(crate) fn open(&self) -> Result<PerfData<'static>, Failure> {
        self.open_with(Options::default())
    }

    pub(crate) fn open_with(&self, options: Options) -> Result<PerfData<'static>, Failure> {
        let opened = match self.input.as_os_str() == "-" {
            true => PerfData::from_reader(std::io::stdin(), options),
            false => PerfData::open_with(&self.input, options),
        };
        opened.map_err(|error| Failure::new(format_args!("{}: {}", self.name(), self.why_not(&error))))
    }

    /// Why it cannot be opened, and what would help.
    fn why_not(&self, error: &perfuse_data::Error) -> String {
        if self.input.as_os_str() == "-" {
            return match error.problem {
                Problem::Truncated { available: 0, .. } => "nothing came from standard input".to_owned(),
                _ => error.to_string(),
            };
        }
        let opened = std::fs::metadata(&self.input).and_then(|metadata| match metadata.is_file() {
            true => std::fs::File::open(&self.input).map(|_| metadata),
            false => Ok(metadata), // opening a FIFO would wait
        });
        match opened {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
                "no such file; `perfuse record COMMAND` makes a perf.data, -i names another".to_owned()
            }
            Err(why) if why.kind() == std::io::ErrorKind::PermissionDenied => {
                "this user may not read it; its owner, or root, can".to_owned()
            }
            Ok(metadata) if metadata.is_file() && metadata.len() == 0 => {
                "an empty file: nothing was recorded".to_owned()
            }
            Ok(metadata) if metadata.is_dir() && !self.input.join("data").exists() => {
                "a folder without the file data of `perf record --threads`; -i names another".to_owned()
            }
            _ => error.to_string(),
        }
    }

    pub(crate) fn name(&self) -> String {
        self.input.to_string_lossy().into_owned()
    }
}

/// Reads all records by time, replays what they tell of processes, and hands each to `visit` after that.
///
/// Ends quietly where a recording is cut off or broken: what came before counts, and the place is said on
/// standard error; the result is whether all was read.
pub(crate) fn replay(
    data: PerfData<'static>,
    session: &mut Session,
    visit: impl FnMut(&Entry<'_>, Option<&Decoded<'_>>, &Session, &Formats) -> Result<(), Failure>,
) -> Result<Ordered<'static>, Failure> {
    replay_in(Ordered::new(data), session, visit)
}

/// The same in the order that was chosen.
pub(crate) fn replay_in(
    mut ordered: Ordered<'static>,
    session: &mut Session,
    mut visit: impl FnMut(&Entry<'_>, Option<&Decoded<'_>>, &Session, &Formats) -> Result<(), Failure>,
) -> Result<Ordered<'static>, Failure> {
    take_build_ids(ordered.data_mut(), session);
    let mut formats = Formats::read(ordered.data_mut());
    // In a pipe the formats of tracepoints follow a record, and are there when the next one is.
    let mut expects_formats = false;
    loop {
        if expects_formats && formats.is_empty() {
            formats = Formats::read(ordered.data_mut());
        }
        match ordered.next() {
            Ok(Some(entry)) if entry.is_kernel() => {
                let mut decoded = Decoded::from(Record::Switch);
                match entry.fill(&mut decoded) {
                    Ok(()) => {
                        session.apply(&decoded);
                        visit(&entry, Some(&decoded), session, &formats)?;
                    }
                    Err(error) => {
                        complain(&error);
                        visit(&entry, None, session, &formats)?;
                    }
                }
            }
            Ok(Some(entry)) => {
                expects_formats |= entry.kind() == kind::HEADER_TRACING_DATA;
                if let Ok(perfuse_data::tool::Tool::BuildId(id)) = entry.tool().map(|record| record.tool) {
                    session.set_build_id(&id);
                }
                visit(&entry, None, session, &formats)?;
            }
            Ok(None) => break,
            Err(error) => complain(&error),
        }
    }
    if ordered.late() > 0 {
        say(format_args!("{} records came later than younger ones", ordered.late()));
    }
    Ok(ordered)
}

/// A feature section, if the recording has it and it can be read.
pub(crate) fn feature<'d>(data: &'d mut PerfData<'_>, id: FeatureId) -> Option<Feature<'d>> {
    data.feature(id).ok().flatten().map(|section| section.feature)
}

/// A number as C's `%#x` has it: zero without prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hex(pub(crate) u64);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            number => write!(f, "{number:#x}"),
        }
    }
}

fn take_build_ids(data: &mut PerfData<'_>, session: &mut Session) {
    if let Ok(Some(Section { feature: Feature::BuildIds(ids), .. })) = data.feature(FeatureId::BUILD_ID) {
        for id in &ids {
            session.set_build_id(id);
        }
    }
}

fn complain(error: &perfuse_data::Error) {
    say(format_args!("{error}; what can be read around it counts"));
}

/// Spans of time: `[start],[stop]` in seconds, several of them with blanks between, or parts of the recording,
/// such as `10%/2` for its second tenth or `0%-10%,30%-40%`. Both ends belong to a span.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    spans: Vec<(u64, u64)>,
    /// Parts of the recording, as shares of its length.
    parts: Vec<(f64, f64)>,
    /// The spans that the parts are, when the recording is known.
    of_parts: OnceLock<Vec<(u64, u64)>>,
    /// As it was told.
    pub(crate) text: String,
}

impl std::str::FromStr for Span {
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
        Ok(Span { spans, parts, of_parts: OnceLock::new(), text: text.to_owned() })
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

impl Span {
    fn has(&self, time: u64) -> bool {
        let of_parts = self.of_parts.get().into_iter().flatten();
        self.spans.iter().chain(of_parts).any(|&(from, to)| (from..=to).contains(&time))
    }

    /// Finds out which spans of a recording its parts are.
    fn settle(&self, data: &mut PerfData<'_>) -> Result<(), Failure> {
        if self.parts.is_empty() {
            return Ok(());
        }
        let Some(Feature::SampleTime(times)) = feature(data, FeatureId::SAMPLE_TIME) else {
            let why = "the recording does not say when it began and ended, as those from pipes";
            return Err(Failure::new(format_args!("--time {}: {why}; seconds may be given", self.text)));
        };
        let (first, last) = (times.first_ns, times.last_ns);
        let at =
            |share: f64| first.saturating_add((last.saturating_sub(first) as f64 * share).round() as u64);
        let span = |&(from, to): &(f64, f64)| {
            let (from, to) = (at(from), at(to));
            // What ends here does not belong to the next part too.
            (from, if to > from && to != last { to - 1 } else { to })
        };
        let _ = self.of_parts.set(self.parts.iter().map(span).collect());
        Ok(())
    }
}

fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = format!("{:0<9}", fraction.get(..9).unwrap_or(fraction));
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction.parse().ok()?)
}

/// Which samples count.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Filter {
    /// Only samples of these commands
    #[arg(short = 'c', long, visible_alias = "comms", value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) comm: Vec<String>,
    /// Only samples of these processes
    #[arg(long, value_name = "PID,...", value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Only samples of these threads
    #[arg(long, value_name = "TID,...", value_delimiter = ',')]
    pub(crate) tid: Vec<u32>,
    /// Only samples of these cpus, such as 0,2-4
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub(crate) cpu: Option<Cpus>,
    /// Only samples between two times in seconds: [START],[END]; or in parts of the recording: 10%/2, 0%-10%
    #[arg(long, value_name = "SPAN")]
    pub(crate) time: Option<Span>,
}

/// Cpus as a list of ranges.
#[derive(Clone, Debug)]
pub(crate) struct Cpus(Vec<(u32, u32)>);

impl std::str::FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
        };
        let ranges = text.split(',').map(|part| range(part).ok_or(format!("'{part}' is no cpu")));
        ranges.collect::<Result<_, _>>().map(Cpus)
    }
}

impl Filter {
    /// To be told of the recording before anything is asked.
    pub(crate) fn settle(&self, data: &mut PerfData<'_>) -> Result<(), Failure> {
        self.time.as_ref().map_or(Ok(()), |span| span.settle(data))
    }

    /// Whether a cpu and a time are among those wanted.
    pub(crate) fn admits_moment(&self, cpu: Option<u32>, time: Option<u64>) -> bool {
        let in_ranges = |cpus: &Cpus| {
            cpu.is_some_and(|cpu| cpus.0.iter().any(|&(first, last)| (first..=last).contains(&cpu)))
        };
        let in_span = |span: &Span| time.is_some_and(|time| span.has(time));
        self.cpu.as_ref().is_none_or(in_ranges) && self.time.as_ref().is_none_or(in_span)
    }

    /// Whether a thread is among those wanted.
    pub(crate) fn admits_task(&self, pid: u32, tid: u32, comm: &[u8]) -> bool {
        let listed = |list: &[u32], value| list.is_empty() || list.contains(&value);
        listed(&self.pid, pid)
            && listed(&self.tid, tid)
            && (self.comm.is_empty() || self.comm.iter().any(|name| name.as_bytes() == comm))
    }
}
