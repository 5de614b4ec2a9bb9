//! The layout for people: one line about the command, a table of events, what else it used, footnotes
//! about everything that is not as it seems, and what to do next.

use super::looks::{DIM, Options, WARN};
use super::metric_table;
use super::runs_table;
use crate::term::foreign::{foreign, right, width};
use crate::term::glyphs::shorten;
use crate::term::number::{self, Quantity};
use crate::term::table::{Cell, Column, Side, Table, paint, wrap};
use anstyle::Style;
use perfuse_events::abi::Cache;
use perfuse_events::{Source, Unit};
use perfuse_stat::derive::{self, Kind, Whole};
use perfuse_stat::{Event, Exit, MissingKind, Report, Row, RowPlace, Subject};

/// With fewer columns tables are as narrow as their cells.
const ROOMY: usize = 70;
/// Names are cut here.
const LONGEST: usize = 120;
const BOLD: Style = Style::new().bold();

/// A whole measurement.
pub(crate) fn format(report: &Report, options: &Options) -> String {
    head(report, options) + &tables(report, options, true) + &tail(report, options)
}

/// The first lines: the command or the target, and how it ended.
pub(crate) fn head(report: &Report, options: &Options) -> String {
    let glyphs = options.glyphs;
    let mut facts = Vec::new();
    if report.is_repeated() {
        facts.push(format!("{} runs", report.runs.len()));
    }
    match report.exit {
        Some(Exit::Code(code)) => facts.push(format!("exit {code}")),
        Some(Exit::Signal(signal)) => facts.push(format!("killed by {}", signal_name(signal))),
        Some(Exit::Stopped) => facts.push("stopped".to_owned()),
        None => {}
    }
    if let (Some(wall), None) = (report.wall_ns(), report.interval) {
        let (mean, sigma, _) = number::with_spread(wall.mean, wall.sigma, None, true, glyphs);
        facts.push(match report.is_repeated() {
            true => format!("{} wall ({} {sigma})", mean.joined(), glyphs.sigma),
            false => format!("{} wall", number::time(wall.mean, glyphs).joined()),
        });
    }
    let facts = facts.join(&format!("  {}  ", glyphs.dot));
    let room = options.columns.saturating_sub(width(&facts) + 3).max(20);
    let subject = shorten(&subject(report), room, glyphs);
    let line = match facts.is_empty() {
        true => paint(&subject, BOLD),
        false => paint(&subject, BOLD) + &right(&facts, width(&facts) + room - width(&subject) + 2),
    };
    format!("\n {line}\n\n")
}

fn subject(report: &Report) -> String {
    let numbers = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let subject = match &report.subject {
        Subject::Command(words) => words.join(" "),
        Subject::Processes(pids) => format!("process {}", numbers(pids)),
        Subject::Threads(tids) => format!("thread {}", numbers(tids)),
        Subject::Recording(name) => name.clone(),
        Subject::EveryThread => "every thread of the system".to_owned(),
        Subject::Cpus { cpus, all: true } => format!("the whole system, {} cpus", cpus.len()),
        Subject::Cpus { cpus, all: false } => format!("cpu {}", numbers(cpus)),
    };
    let subject = match report.common_cgroup() {
        Some(cgroup) => format!("cgroup {cgroup} on {subject}"),
        None => subject,
    };
    foreign(&subject).into_owned()
}

/// The tables of events and of metrics, with or without the names of their columns.
pub(crate) fn tables(report: &Report, options: &Options, with_header: bool) -> String {
    let metrics = metric_table::format(report, options, with_header);
    match (options.metrics_alone, metrics.is_empty()) {
        (true, _) => metrics,
        (false, true) => table(report, options, with_header),
        // Rows of intervals follow each other closely.
        (false, false) if report.interval.is_some() => table(report, options, with_header) + &metrics,
        (false, false) => table(report, options, with_header) + "\n" + &metrics,
    }
}

/// The table of events, with or without the names of its columns.
fn table(report: &Report, options: &Options, with_header: bool) -> String {
    if report.events.is_empty() {
        return String::new();
    }
    let column = |gap, side, least| Column { gap, side, least };
    let repeated = report.is_repeated();
    let partial = report.events.iter().flat_map(|event| &event.rows).any(is_partial);
    let with_place = report.places().iter().any(|place| **place != RowPlace::Everywhere);

    let mut table = Table::default();
    let mut titles = Vec::new();
    let mut add = |title: &str, column: Column| {
        table.columns.push(column);
        titles.push(Cell::styled(title, DIM));
    };
    if report.interval.is_some() {
        add("time", column(2, Side::Right, 9));
    }
    if with_place {
        add("where", column(2, Side::Left, 5));
    }
    // Events that stand alone get a fixed width, so that reports look alike.
    let with_cgroup = report.cgroups && report.common_cgroup().is_none();
    let alone =
        options.columns >= ROOMY && !repeated && !with_place && !with_cgroup && report.interval.is_none();
    add("event", column(3, Side::Left, if alone { 20 } else { 14 }));
    if with_cgroup {
        add("cgroup", column(2, Side::Left, 6));
    }
    add(if repeated { "mean" } else { "count" }, column(2, Side::Right, if alone { 8 } else { 7 }));
    add("", column(1, Side::Left, 2));
    if repeated {
        add(options.glyphs.sigma, column(1, Side::Right, 5));
        add("95 % interval", column(2, Side::Left, 0));
    }
    add("rate / ratio", column(if repeated { 2 } else { 3 }, Side::Left, if alone { 22 } else { 12 }));
    if !repeated || partial {
        add("counted", column(2, Side::Right, 7));
        add("", column(1, Side::Left, 0));
    }
    if with_header {
        table.rows.push(titles);
    }
    for event in &report.events {
        for row in &event.rows {
            let mut cells = Vec::new();
            if let Some(interval) = report.interval {
                cells.push(Cell::styled(format!("{:.3} s", interval.at_ns as f64 / 1e9), DIM));
            }
            if with_place {
                cells.push(Cell::new(shorten(&row.place.to_string(), LONGEST, options.glyphs)));
            }
            cells.push(Cell::new(shorten(&event.name, LONGEST, options.glyphs)));
            if with_cgroup {
                cells.push(Cell::styled(event.cgroup.as_deref().unwrap_or("(any)"), DIM));
            }
            cells.extend(row_cells(report, event, row, options, repeated, partial));
            table.rows.push(cells);
        }
    }
    table.format()
}

fn row_cells(
    report: &Report,
    event: &Event,
    row: &Row,
    options: &Options,
    repeated: bool,
    partial: bool,
) -> Vec<Cell> {
    let glyphs = options.glyphs;
    let Some(spread) = row.spread() else {
        let short = row.missing().map_or("", |missing| &missing.short);
        return vec![Cell::styled(glyphs.none, WARN), Cell::new(""), Cell::styled(short, WARN)];
    };
    let in_ns = event.unit == Unit::Nanoseconds;
    let estimate = if is_partial(row) { "~ " } else { "" };
    let mut cells = Vec::new();
    let value =
        |quantity: Quantity| [Cell::new(estimate.to_owned() + &quantity.digits), Cell::new(quantity.unit)];
    if repeated {
        let factor = event.scale.as_ref().map_or(1.0, |scale| scale.factor);
        let interval = spread.interval95().map(|(low, high)| (low * factor, high * factor));
        let (mean, sigma, interval) =
            number::with_spread(spread.mean * factor, spread.sigma * factor, interval, in_ns, glyphs);
        cells.extend(value(with_unit(mean, event)));
        cells.extend([Cell::new(sigma), Cell::new(interval)]);
    } else if let Some(scale) = &event.scale {
        let scaled = number::count(spread.mean * scale.factor);
        cells.extend(value(with_unit(scaled, event)));
    } else if options.exact {
        let unit = if in_ns { "ns" } else { "" };
        cells.extend(value(Quantity { digits: number::grouped(spread.mean as u64), unit: unit.into() }));
    } else {
        cells.extend(value(if in_ns {
            number::time(spread.mean, glyphs)
        } else {
            number::count(spread.mean)
        }));
    }
    if event.impossible {
        cells.push(Cell::styled(format!("{} always 0 in user space", glyphs.warning), WARN));
    } else {
        cells.push(Cell::new(rate(report, event, row)));
    }
    if !repeated || partial {
        let share = row.share();
        let style = if is_partial(row) { WARN } else { DIM };
        let source = !matches!(event.source, Source::Tool(_));
        cells.push(Cell::styled(if source { percent(share) } else { String::new() }, style));
        cells.push(Cell::styled(if is_partial(row) { glyphs.part } else { "" }, WARN));
    }
    cells
}

/// With the unit that the PMU gives the event.
fn with_unit(quantity: Quantity, event: &Event) -> Quantity {
    match &event.scale {
        Some(scale) => Quantity { unit: format!("{}{}", quantity.unit, scale.unit), ..quantity },
        None => quantity,
    }
}

/// A share in whole percents; a little is not shown as nothing, nor almost all as all.
fn percent(share: f64) -> String {
    match share * 100.0 {
        little if little > 0.0 && little < 1.0 => "<1 %".into(),
        much if much < 100.0 && much > 99.0 => ">99 %".into(),
        share => format!("{share:.0} %"),
    }
}

/// The event counted for less than all of the time. The kernel starts events one after another, and the little time that
/// they lose by this deserves no mark.
fn is_partial(row: &Row) -> bool {
    row.share() < 0.995
}

fn rate(report: &Report, event: &Event, row: &Row) -> String {
    let Some(metric) = derive::metric(report, event, &row.place) else { return String::new() };
    let Some(value) = metric.value else { return String::new() };
    let significant = |value| number::significant(value, 3);
    match metric.kind {
        Kind::CpusUsed => format!("{} CPUs used", significant(value)),
        // Time per time is no rate.
        Kind::PerSecond if event.unit == Unit::Nanoseconds => String::new(),
        Kind::PerSecond => number::per(value, "/s"),
        Kind::GigaHertz => number::per(value * 1e9, "Hz"),
        Kind::PerCycle => format!("{} per cycle", significant(value)),
        Kind::ShareOf(whole) => format!("{} % of {}", significant(value * 100.0), share_of(whole)),
    }
}

fn share_of(whole: Whole) -> &'static str {
    match whole {
        Whole::Branches => "branches",
        Whole::CacheReferences => "cache references",
        Whole::CyclesFrontend | Whole::CyclesBackend => "cycles",
        Whole::Loads(Cache::L1D) => "L1 data loads",
        Whole::Loads(Cache::L1I) => "L1 code loads",
        Whole::Loads(Cache::DTLB) => "data TLB loads",
        Whole::Loads(Cache::ITLB) => "code TLB loads",
        Whole::Loads(Cache::BPU) => "branch loads",
        Whole::Loads(_) => "LLC loads",
    }
}

/// The last lines: the resources that the command used, the footnotes, and advice.
pub(crate) fn tail(report: &Report, options: &Options) -> String {
    let mut out = used(report, options);
    if options.with_runs {
        out += &runs_table::format(report, options);
    }
    if options.quiet {
        return out + "\n";
    }
    let notes = footnotes(report, options);
    if !notes.is_empty() {
        out.push('\n');
        out += &notes;
    }
    if options.hints {
        if let Some(next) = next(report, options) {
            out += &format!("\n {}\n", paint(&next, DIM));
        }
    }
    out.push('\n');
    out
}

fn used(report: &Report, options: &Options) -> String {
    let time = |what: fn(&perfuse_stat::Usage) -> u64| {
        report.usage(what).map(|time| number::time(time.mean, options.glyphs).joined())
    };
    let (Some(user), Some(system)) = (time(|usage| usage.user_ns), time(|usage| usage.system_ns)) else {
        return String::new();
    };
    let mut parts = vec![format!("cpu time {user} user, {system} sys")];
    if let Some(rss) = report.usage(|usage| usage.peak_rss_bytes) {
        parts.push(format!("peak RSS {}", number::bytes(rss.mean)));
    }
    if let Some(major) = report.usage(|usage| usage.major_faults).filter(|major| major.mean > 0.0) {
        parts.push(format!("{} faults with I/O", number::count(major.mean).joined()));
    }
    let lead = if report.is_repeated() { "mean " } else { "" };
    let gap = if report.events.is_empty() { "" } else { "\n" };
    format!("{gap}   {lead}{}\n", parts.join(&format!("  {}  ", options.glyphs.dot)))
}

fn footnotes(report: &Report, options: &Options) -> String {
    let glyphs = options.glyphs;
    let mut out = String::new();
    let mut note = |text: &str, remedies: &[String]| {
        // The mark is one character wide in either alphabet.
        let wrapped = wrap(" ! ", text, options.columns);
        out += &wrapped.replacen('!', &paint(glyphs.warning, WARN), 1);
        for remedy in remedies {
            out += &wrap(&format!("   {} ", glyphs.arrow), remedy, options.columns);
        }
    };
    // One note for all events with the same trouble.
    let mut told: Vec<&str> = Vec::new();
    let all: Vec<(&Event, &Row)> =
        report.events.iter().flat_map(|event| event.rows.iter().map(move |row| (event, row))).collect();
    for (_, row) in &all {
        let Some(missing) = row.missing().filter(|missing| !missing.explanation.is_empty()) else { continue };
        if told.contains(&missing.explanation.as_str()) {
            continue;
        }
        told.push(&missing.explanation);
        let same = |row: &&Row| row.missing().is_some_and(|other| other.explanation == missing.explanation);
        let concerned = names(&all, |_, row| same(&row));
        note(&format!("{concerned}: {}", sentence(&missing.explanation)), &missing.remedies);
    }
    let lost = names(&all, |event, _| event.lost_kernel_side);
    if !lost.is_empty() {
        note(
            "User space only: this user may not measure the kernel (perf_event_paranoid is above 1).",
            &["sudo sysctl kernel.perf_event_paranoid=1, or run as root or with CAP_PERFMON".to_owned()],
        );
    }
    let alone = names(&all, |event, _| event.lost_children);
    if !alone.is_empty() {
        note(
            &format!(
                "{alone}: counted without what the measured tasks start. Linux could start nothing under a probe that is inherited: it looks for the name of the probed file in the memory of whoever forks.",
            ),
            &["count it in the whole system (-a), or behind `perf probe` as a tracepoint".to_owned()],
        );
    }
    let impossible = names(&all, |event, row| event.impossible && row.missing().is_none());
    if !impossible.is_empty() {
        note(
            &format!(
                "{impossible}: this 0 says nothing. The kernel itself makes these happen, and only user space was counted.",
            ),
            &["leave out the modifier u; that takes root, CAP_PERFMON or perf_event_paranoid <= 1"
                .to_owned()],
        );
    }
    let scheduled =
        |row: &Row| row.missing().is_some_and(|missing| missing.kind == MissingKind::NeverScheduled);
    if all.iter().any(|(_, row)| is_partial(row) || scheduled(row)) {
        note(
            "More events than the hardware has counters for: the kernel took turns. Values with ~ are scaled by enabled/running time; short phases can be missed.",
            &["ask for fewer events at a time (-e), in several runs".to_owned()],
        );
    }
    for warning in &report.warnings {
        note(warning, &[]);
    }
    out
}

/// Names of the events that meet a condition, each once.
fn names(all: &[(&Event, &Row)], wanted: impl Fn(&Event, &Row) -> bool) -> String {
    let mut names: Vec<&str> =
        all.iter().filter(|(event, row)| wanted(event, row)).map(|(event, _)| event.name.as_str()).collect();
    names.dedup();
    names.join(", ")
}

/// A clause as a sentence's end.
fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

fn next(report: &Report, options: &Options) -> Option<String> {
    let Subject::Command(words) = &report.subject else { return None };
    let command = shorten(&words.join(" "), 30, options.glyphs);
    let mut steps = Vec::new();
    if !report.is_repeated() {
        steps.push(format!("perfuse stat -r 10 -- {command}   (spread)"));
    }
    if report.events.iter().flat_map(|event| &event.rows).any(|row| row.missing().is_some()) {
        steps.push("perfuse doctor   (what is missing here)".to_owned());
    }
    (!steps.is_empty()).then(|| format!("next: {}", steps.join("\n       ")))
}

/// `SIGKILL`, or the number of a signal without a common name.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::glyphs::{ASCII, UNICODE};
    use perfuse_stat::samples::*;
    use perfuse_stat::{Aggregation, Interval, Missing, Outcome};

    const PLAIN: Options = Options {
        glyphs: &UNICODE,
        columns: 80,
        exact: false,
        quiet: false,
        metrics_alone: false,
        with_runs: false,
        hints: false,
    };

    fn shown(report: &Report, options: &Options) -> String {
        anstream::adapter::strip_str(&format(report, options)).to_string()
    }

    #[track_caller]
    fn assert_fits(text: &str) {
        for line in text.lines() {
            assert!(width(line) <= PLAIN.columns, "{} columns: {line}", width(line));
            assert_eq!(line, line.trim_end());
        }
    }

    #[test]
    fn one_run() {
        let text = shown(&report(default_events()), &PLAIN);
        assert_fits(&text);
        let expected = "
 ./parse big.json                                        exit 0  ·  1.204 s wall

   event                    count      rate / ratio            counted
   task-clock               2.310 s    1.92 CPUs used            100 %
   context-switches           531      230 /s                    100 %
   cpu-migrations               6      2.60 /s                   100 %
   page-faults                282      122 /s                    100 %
   cycles                   8.912 G    3.86 GHz                  100 %
   instructions             21.47 G    2.41 per cycle            100 %
   branches                 3.118 G    1.35 G/s                  100 %
   branch-misses            41.27 M    1.32 % of branches        100 %

   cpu time 2.271 s user, 34.00 ms sys  ·  peak RSS 3.00 MiB

";
        assert_eq!(text, expected);
    }

    #[test]
    fn estimates_and_what_was_never_counted() {
        let never = event("iTLB-loads", Outcome::Missing(Missing::never_scheduled()));
        let text = shown(&report(vec![partly("L1-dcache-loads", &[6_830_000_000], 100, 49), never]), &PLAIN);
        assert_fits(&text);
        assert!(
            text.contains("   L1-dcache-loads        ~ 6.830 G                               49 %  ▒\n")
                || text.contains("49 % ▒"),
            "{text}"
        );
        assert!(
            text.contains("   iTLB-loads                   —      not counted: never on the PMU\n"),
            "{text}"
        );
        assert!(text.contains(" ▲ More events than the hardware has counters for"), "{text}");
    }

    #[test]
    fn a_refusal_is_told_in_the_row_and_explained_once() {
        let text =
            shown(&report(vec![counted("cs", &[3]), refused("cycles"), refused("instructions")]), &PLAIN);
        assert_fits(&text);
        assert!(text.contains("   cycles                       —      no hardware PMU here\n"), "{text}");
        assert!(
            text.contains(" ▲ cycles, instructions: this virtual machine has no PMU.\n   → on the host: "),
            "{text}"
        );
        assert_eq!(text.matches("virtual machine").count(), 1);
    }

    #[test]
    fn an_impossible_zero_is_not_left_alone() {
        let mut zero = counted("cs:u", &[0]);
        zero.impossible = true;
        let text = shown(&report(vec![zero]), &PLAIN);
        assert_fits(&text);
        assert!(text.contains("0      ▲ always 0 in user space"), "{text}");
        assert!(text.contains("cs:u: this 0 says nothing."), "{text}");
    }

    #[test]
    fn an_unprivileged_user_is_told_what_is_left_out() {
        let mut faults = counted("faults:u", &[40]);
        faults.lost_kernel_side = true;
        assert!(shown(&report(vec![faults]), &PLAIN).contains(" ▲ User space only"));
    }

    #[test]
    fn several_runs_name_their_spread() {
        let mut events = default_events();
        for (number, event) in events.iter_mut().enumerate() {
            let Outcome::Counted(readings) = &mut event.rows[0].outcome else { continue };
            let first = readings[0];
            for run in 1..8 {
                let value = first.value + first.value / 100 * run % (7 + number as u64 * 1000);
                readings.push(perfuse_stat::Reading { value, ..first });
            }
        }
        let text = shown(&report(events), &PLAIN);
        assert_fits(&text);
        assert!(text.contains("8 runs  ·  exit 0"), "{text}");
        assert!(text.lines().any(|line| line.contains(" σ  95 % interval")), "{text}");
    }

    #[test]
    fn intervals_have_a_time_and_one_header() {
        let mut report = report(vec![counted("cs", &[3]), refused("cycles")]);
        report.interval = Some(Interval { at_ns: 1_000_900_000, first: true });
        report.exit = None;
        let with = anstream::adapter::strip_str(&table(&report, &PLAIN, true)).to_string();
        let without = anstream::adapter::strip_str(&table(&report, &PLAIN, false)).to_string();
        assert!(with.ends_with(&without), "{with}{without}");
        assert!(without.starts_with("    1.001 s   cs "), "{without}");
    }

    #[test]
    fn places_have_a_column() {
        for (aggregation, place, label) in [
            (Aggregation::Core, RowPlace::Core { socket: 0, die: 0, core: 1 }, "  S0-D0-C1   cs"),
            (
                Aggregation::Thread,
                RowPlace::Thread { name: "python3".into(), tid: 1498 },
                "  python3 1498   cs",
            ),
            (Aggregation::Cpu, RowPlace::Cpu(1), "  cpu 1   cs"),
        ] {
            let mut report = report(vec![counted("cs", &[3])]);
            report.aggregation = aggregation;
            report.events[0].rows[0].place = place;
            let text = shown(&report, &PLAIN);
            assert_fits(&text);
            assert!(text.contains(label), "{text}");
        }
    }

    #[test]
    fn cgroups_have_a_column_unless_there_is_only_one() {
        let mut report = report(vec![counted("cs", &[3]), counted("faults", &[5])]);
        report.cgroups = true;
        report.events[0].cgroup = Some("web".into());
        let text = shown(&report, &PLAIN);
        assert_fits(&text);
        assert!(text.contains("   event           cgroup    count"), "{text}");
        assert!(text.contains("   cs              web           3"), "{text}");
        assert!(text.contains("   faults          (any)         5"), "{text}");
        report.events[1].cgroup = Some("web".into());
        let text = shown(&report, &PLAIN);
        assert!(text.contains("cgroup web on ./parse") && !text.contains(" cgroup  "), "{text}");
    }

    #[test]
    fn other_alphabets_and_amounts() {
        let mut report =
            report(vec![counted("task-clock", &[362_067]), counted("cs", &[1_234_567]), refused("cycles")]);
        report.exit = Some(Exit::Signal(9));
        let text = shown(&report, &Options { glyphs: &ASCII, exact: true, hints: true, ..PLAIN });
        assert!(text.is_ascii(), "{text}");
        assert_fits(&text);
        assert!(
            text.contains("killed by SIGKILL") && text.contains("1 234 567") && text.contains("362 067 ns"),
            "{text}"
        );
        assert!(text.contains("next: perfuse stat -r 10 -- ./parse big.json"), "{text}");
    }

    #[test]
    fn long_commands_are_cut() {
        let mut report = report(vec![]);
        report.subject = Subject::Command(vec!["x".repeat(300)]);
        let text = shown(&report, &PLAIN);
        assert_fits(&text);
        assert!(text.contains("…"));
    }
}
