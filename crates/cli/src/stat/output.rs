//! Where results go and in which format. Each report is written as soon as it exists.

use super::args::Args;
use super::{looks, text};
use crate::common::style;
use crate::exit::{Failure, reason};
use crate::term::foreign::width;
use crate::term::glyphs;
use crate::term::out::{self, Out, wants_colours};
use clap::ColorChoice;
use perfuse_stat::format::{classic, csv, json, jsonl};
use perfuse_stat::{Observer, Report};
use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The results' way out.
#[derive(Debug)]
pub(super) struct Output {
    place: RowPlace,
    format: Format,
    /// A column for the spread, in perf's formats.
    repeated: bool,
    /// How many intervals were written.
    intervals: usize,
    /// The screen is cleared before each.
    clears: bool,
    /// The total follows them in perf's formats too, in CSV behind this word.
    summary: Option<&'static str>,
    /// Metrics and no events.
    metrics_alone: bool,
    color: anstream::ColorChoice,
    /// A command is measured: it goes on even when nobody reads the results any more.
    for_command: bool,
    /// Nobody reads the results any more.
    unread: bool,
    /// The table that is drawn anew each second, where there is one.
    live: Option<Live>,
    hides_zeros: bool,
}

/// A table on the terminal that standard error is.
#[derive(Debug)]
struct Live {
    /// The line above it.
    title: String,
    /// So many lines were drawn, title and table.
    drawn: usize,
}

/// How `stat report` shows a recording.
#[derive(Debug, clap::Args)]
pub(super) struct Formats {
    /// Fields separated by this, as perf writes them
    #[arg(short = 'x', long, value_name = "SEPARATOR", group = "format")]
    field_separator: Option<String>,

    /// JSON lines with values as strings, as perf writes them
    #[arg(short = 'j', long, group = "format")]
    json_output: bool,

    /// One JSON object (schema perfuse.stat/1)
    #[arg(long, group = "format")]
    json: bool,

    /// perf's own text, for scripts that read it
    #[arg(long, group = "format")]
    perf_style: bool,

    /// Write to this file in place of standard error; - is standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug)]
enum RowPlace {
    Stderr,
    Stdout,
    File(File),
}

#[derive(Debug)]
enum Format {
    Text(looks::Options),
    /// perf's text.
    Classic(classic::Style),
    /// perf's `-x`.
    Separated(String),
    /// perf's `-j`.
    JsonLines,
    Json,
}

impl Format {
    /// The format of the one option that names a format; without one it is text, perf's or ours.
    fn chosen(
        separator: Option<&str>,
        json_lines: bool,
        json: bool,
        perf_style: bool,
        classic: classic::Style,
        text: looks::Options,
    ) -> Self {
        if let Some(separator) = separator {
            Format::Separated(separator.replace("\\t", "\t"))
        } else if json_lines {
            Format::JsonLines
        } else if json {
            Format::Json
        } else if style::is_perfs(perf_style) {
            Format::Classic(classic)
        } else {
            Format::Text(text)
        }
    }
}

impl Output {
    /// Opens the file, if one was named; one that was named for a recording (`recorded`) is not for this.
    pub(super) fn open(args: &Args, repeated: bool, recorded: bool) -> Result<Self, Failure> {
        let place = match args.output.as_deref().filter(|_| !recorded) {
            None => args.log_fd.map_or(Ok(RowPlace::Stderr), descriptor)?,
            Some(path) if path == Path::new("-") => RowPlace::Stdout,
            Some(path) => RowPlace::File(open_file(path, args.append)?),
        };
        let on_terminal = match &place {
            RowPlace::Stderr => io::stderr().is_terminal(),
            RowPlace::Stdout => io::stdout().is_terminal(),
            RowPlace::File(_) => false,
        };
        let classic = classic::Style {
            grouped: args.big_num,
            repeated,
            metrics_alone: args.metrics.metric_only,
            with_runs: args.table,
            nothing: args.null,
        };
        let text = looks::Options {
            glyphs: glyphs::of_the_locale(),
            columns: looks::columns(),
            exact: args.big_num,
            quiet: args.quiet,
            metrics_alone: args.metrics.metric_only,
            with_runs: args.table,
            hints: on_terminal && !args.quiet,
        };
        let separator = args.field_separator.as_deref();
        let format = Format::chosen(separator, args.json_output, args.json, args.perf_style, classic, text);
        let color = colors(args.color);
        let metrics_alone = args.metrics.metric_only;
        let mut output = Output {
            place,
            format,
            repeated,
            intervals: 0,
            clears: args.interval_clear,
            summary: args.summary.then_some(if args.no_csv_summary { "" } else { "summary" }),
            metrics_alone,
            color,
            for_command: false,
            unread: false,
            live: None,
            hides_zeros: args.hide_zero_events,
        };
        // perf's mark of a new measurement in a file that may hold several. JSON stays JSON, as in perf since 6.5.
        let is_json = matches!(output.format, Format::Json | Format::JsonLines);
        if matches!(output.place, RowPlace::File(_)) && args.log_fd.is_none() && !is_json {
            output.write(&format!("# started on {}\n\n", date(SystemTime::now())))?;
        }
        Ok(output)
    }

    /// The output of a recording's counts.
    pub(super) fn of_recording(formats: &Formats) -> Result<Self, Failure> {
        let text = looks::Options {
            glyphs: glyphs::of_the_locale(),
            columns: looks::columns(),
            exact: false,
            quiet: false,
            metrics_alone: false,
            with_runs: false,
            hints: false,
        };
        let format = Format::chosen(
            formats.field_separator.as_deref(),
            formats.json_output,
            formats.json,
            formats.perf_style,
            classic::Style::default(),
            text,
        );
        let place = match formats.output.as_deref() {
            None => RowPlace::Stderr,
            Some(path) if path == Path::new("-") => RowPlace::Stdout,
            Some(path) => RowPlace::File(open_file(path, false)?),
        };
        Ok(Output {
            place,
            format,
            repeated: false,
            intervals: 0,
            clears: false,
            summary: None,
            metrics_alone: false,
            color: anstream::ColorChoice::Auto,
            for_command: false,
            unread: false,
            live: None,
            hides_zeros: false,
        })
    }

    /// From now on a command is measured.
    pub(super) fn goes_on_unread(&mut self) {
        self.for_command = true;
    }

    /// Shows a table each second from now on, below this title, until the total takes its place; where text goes to a terminal.
    /// Tells whether it does.
    pub(super) fn goes_live(&mut self, title: String) -> bool {
        let is_text = matches!((&self.place, &self.format), (RowPlace::Stderr, Format::Text(_)));
        let is_able = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        let goes = is_text && is_able && io::stderr().is_terminal();
        self.live = goes.then_some(Live { title, drawn: 0 });
        goes
    }

    /// Draws the title, and the table below it, over those of the second before.
    fn draw(&mut self, table: &str) -> io::Result<()> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let text = format!("\n {}\n\n{table}", live.title);
        out::take_back(live.drawn);
        let columns = style::columns(io::stderr());
        // A line that is wider than the terminal takes several.
        let plain = anstream::adapter::strip_str(&text).to_string();
        live.drawn = plain.lines().map(|line| width(line).div_ceil(columns).max(1)).sum();
        self.write(&text)
    }

    /// Writes the measurement as a whole, after all intervals.
    pub(super) fn total(&mut self, report: &Report, had_intervals: bool) -> io::Result<()> {
        let report = &*self.wanted(report);
        if let Some(live) = self.live.take() {
            out::take_back(live.drawn);
        }
        let text = match &self.format {
            Format::Text(options) => text::format(report, options),
            // perf's formats have the intervals only, if not asked for more.
            Format::Classic(_) | Format::Separated(_) | Format::JsonLines
                if had_intervals && self.summary.is_none() =>
            {
                return Ok(());
            }
            Format::Classic(options) => classic::format(report, options),
            Format::Separated(separator) if self.metrics_alone => csv::metrics_alone(report, separator),
            Format::Separated(separator) => csv::format(report, separator, self.repeated),
            Format::JsonLines if self.metrics_alone => jsonl::metrics_alone(report),
            Format::JsonLines => jsonl::format(report, self.repeated),
            Format::Json => json::format(report),
        };
        let text = match (&self.format, self.summary.filter(|word| had_intervals && !word.is_empty())) {
            (Format::Separated(separator), Some(word)) => {
                text.lines().map(|line| format!("{word:>16}{separator}{line}\n")).collect()
            }
            _ => text,
        };
        self.write(&text)
    }

    /// The part of a report that is to be shown.
    fn wanted<'r>(&self, report: &'r Report) -> Cow<'r, Report> {
        match self.hides_zeros {
            true => Cow::Owned(report.without_zeros()),
            false => Cow::Borrowed(report),
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.send(false, text)
    }

    fn send(&mut self, clears: bool, text: &str) -> io::Result<()> {
        if self.unread {
            return Ok(());
        }
        let color = self.color;
        let written = match &mut self.place {
            RowPlace::Stderr => {
                let coloured = wants_colours(color, &io::stderr());
                send(Out::new(io::stderr().lock(), coloured), clears, text)
            }
            RowPlace::Stdout => {
                let coloured = wants_colours(color, &io::stdout());
                send(Out::new(io::stdout().lock(), coloured), clears, text)
            }
            RowPlace::File(file) => {
                let coloured = wants_colours(color, file);
                send(Out::new(file, coloured), clears, text)
            }
        };
        match written {
            Err(error) if self.for_command && error.kind() == io::ErrorKind::BrokenPipe => {
                self.unread = true;
                Ok(())
            }
            written => written,
        }
    }
}

impl Observer for Output {
    /// Writes a remark; in formats for machines there is no room for one.
    fn remark(&mut self, text: &str) -> io::Result<()> {
        match self.format {
            Format::Text(_) | Format::Classic(_) => self.write(&format!("# {text}\n")),
            _ => Ok(()),
        }
    }

    fn begins(&mut self) -> io::Result<()> {
        self.draw("")
    }

    /// Writes an interval.
    fn interval(&mut self, report: &Report) -> io::Result<()> {
        let report = &*self.wanted(report);
        if let (Some(_), Format::Text(options)) = (&self.live, &self.format) {
            let mut second = report.clone();
            second.interval = None;
            let table = text::tables(&second, options, true);
            return self.draw(&table);
        }
        let text = match &self.format {
            Format::Text(options) => {
                let first = report.interval.is_some_and(|interval| interval.first);
                text::tables(report, options, first)
            }
            Format::Classic(options) => classic::interval(report, options, self.intervals),
            Format::Separated(separator) if self.metrics_alone => csv::metrics_alone(report, separator),
            Format::Separated(separator) => csv::format(report, separator, self.repeated),
            Format::JsonLines if self.metrics_alone => jsonl::metrics_alone(report),
            Format::JsonLines => jsonl::format(report, self.repeated),
            Format::Json => json::format(report),
        };
        self.intervals += 1;
        self.send(self.clears, &text)
    }
}

fn send(mut stream: Out<impl Write>, clears: bool, text: &str) -> io::Result<()> {
    if clears {
        // Cursor to the first place, and everything after it away.
        stream.control("\x1b[H\x1b[2J")?;
    }
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

fn open_file(path: &Path, append: bool) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).append(append).truncate(!append);
    options
        .open(path)
        .map_err(|error| Failure::new(format_args!("cannot write {}: {}", path.display(), reason(&error))))
}

/// A descriptor that the caller of the program left open for it.
fn descriptor(number: i32) -> Result<RowPlace, Failure> {
    let file = perfuse_sys::inherited(number).map(File::from);
    let file = file.map_err(|errno| {
        Failure::usage(format_args!("--log-fd {number}: {}", perfuse_sys::io_error(errno)))
    })?;
    Ok(RowPlace::File(file))
}

/// The choice of `--color`, in the words of the stream.
pub(crate) fn colors(choice: ColorChoice) -> anstream::ColorChoice {
    match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
}

/// A date as `ctime(3)` writes it, in UTC: `Sat Nov 21 23:07:38 2026`.
fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [(&str, u64); 12] = [
        ("Jan", 31),
        ("Feb", 28),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    let leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut name = "";
    for (month, length) in MONTHS {
        name = month;
        let length = length + u64::from(month == "Feb" && leap(year));
        if day < length {
            break;
        }
        day -= length;
    }
    let weekday = WEEKDAYS[(days % 7) as usize];
    format!("{weekday} {name} {:2} {:02}:{:02}:{:02} {year}", day + 1, rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_stat::samples::*;
    use perfuse_stat::{Aggregation, RowPlace, Subject};
    use std::time::Duration;

    #[test]
    fn names_do_no_harm_in_any_format() {
        let name = "a\x1b]0;b\x07,\"c\"\n\u{202e}\u{9b}2J漢";
        let scale = perfuse_events::Scale { factor: 2.0, unit: name.into() };
        let mut report = report(vec![counted("cs", &[3, 4]), refused("cycles")]);
        report.subject = Subject::Recording(name.into());
        (report.cgroups, report.aggregation) = (true, Aggregation::Thread);
        for event in &mut report.events {
            (event.name, event.cgroup, event.scale) = (name.into(), Some(name.into()), Some(scale.clone()));
            event.rows[0].place = RowPlace::Thread { name: name.into(), tid: 7 };
        }
        let classic = classic::Style { repeated: true, ..classic::Style::default() };
        let text = looks::Options {
            glyphs: &glyphs::UNICODE,
            columns: looks::MOST,
            exact: false,
            quiet: false,
            metrics_alone: false,
            with_runs: true,
            hints: false,
        };
        let plain = |text: String| anstream::adapter::strip_str(&text.replace('\n', "\u{1}")).to_string();
        for text in [
            classic::format(&report, &classic),
            text::format(&report, &text),
            csv::format(&report, ",", true),
        ] {
            let shown = plain(text.clone());
            let harmless = |c: char| c == '\u{1}' || !(c.is_control() || c == '\u{202e}');
            assert!(shown.chars().all(harmless) && shown.contains("a\\u001b]0;b\\u0007"), "{text:?}");
            assert_eq!(text.matches("\\u202e").count(), text.matches("\\n").count(), "{text:?}");
        }
        let row = csv::format(&report, ",", true);
        // Every field that is a name is one field, in quotes.
        let quoted = "\"a\\u001b]0;b\\u0007,\"\"c\"\"\\n\\u202e\\u009b2J漢";
        let row = row.lines().next().unwrap_or_default().replace(&format!("{quoted}-7\""), "thread");
        let row = row.replace(&format!("{quoted}\""), "name");
        assert!(row.starts_with("thread,7.00,name,name,name,"), "{row}");
        for line in jsonl::format(&report, true).lines() {
            let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert_eq!((&object["event"], &object["cgroup"]), (&name.into(), &name.into()));
        }
        let object: serde_json::Value = serde_json::from_str(&json::format(&report)).expect("JSON");
        assert_eq!(object["events"][0]["name"], name, "{object}");
    }

    #[test]
    fn dates() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(at(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(at(1_795_302_458), "Sat Nov 21 23:07:38 2026");
        assert_eq!(at(1_798_761_599), "Thu Dec 31 23:59:59 2026");
    }
}
