//! What a scenario shows: counts, records, and a diagram of who ran and what counted.

use super::check::line;
use super::play::Stage;
use super::records;
use perfuse_abi::read::ReadValues;
use perfuse_engine::TaskId;
use std::fmt::Write;

/// A table of all events.
pub(super) fn counts(stage: &mut Stage) -> String {
    let mut rows = vec![["event", "count", "enabled", "counting", "share"].map(str::to_owned)];
    let events: Vec<_> =
        stage.events.iter().map(|event| (event.name.clone(), event.fd, event.attr)).collect();
    for (name, fd, attr) in events {
        let cells = match fd.and_then(|fd| stage.machine.read(fd)) {
            Err(errno) => [format!("{errno:?}"), String::new(), String::new(), String::new()],
            Ok(words) if words.is_empty() => ["error state", "", "", ""].map(str::to_owned),
            Ok(words) => {
                let values = ReadValues::from_words(&words, attr.read_format).ok();
                let value = values.and_then(|values| values.get(0)).map_or(0, |entry| entry.value);
                let enabled = values.and_then(|values| values.time_enabled()).unwrap_or(0);
                let running = values.and_then(|values| values.time_running()).unwrap_or(0);
                let share = match (running * 100).checked_div(enabled) {
                    Some(share) => format!("{share} %"),
                    None => "-".to_owned(),
                };
                [value.to_string(), time(enabled), time(running), share]
            }
        };
        let [count, enabled, running, share] = cells;
        rows.push([name, count, enabled, running, share]);
    }
    table(&rows)
}

/// The first column to the left, the others to the right.
fn table(rows: &[[String; 5]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = format!("{:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            // Writing to a string does not fail.
            let _ = write!(line, "  {cell:>width$}");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// A time in ms.
pub(super) fn time(ns: u64) -> String {
    format!("{}.{:03} ms", ns / 1_000_000, ns / 1000 % 1000)
}

/// The records of rings.
pub(super) fn records(stage: &Stage, only: Option<&str>) -> String {
    let mut text = String::new();
    for event in stage.events.iter().filter(|event| !event.bytes.is_empty() || event.reader.is_some()) {
        if only.is_some_and(|only| only != event.name) {
            continue;
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "records of {}:", event.name);
        for seen in records::of(event) {
            let _ = writeln!(text, "  {}", seen.as_ref().map_or_else(Clone::clone, line));
        }
    }
    text
}

/// Time from left to right: who ran on each cpu, and when each event counted.
pub(super) fn schedule(stage: &Stage) -> String {
    let looks = &stage.looks;
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else {
        return "nothing has run yet\n".to_owned();
    };
    let mut tasks: Vec<TaskId> = Vec::new();
    let mut letter = |task: TaskId| {
        let index = tasks.iter().position(|known| *known == task).unwrap_or_else(|| {
            tasks.push(task);
            tasks.len() - 1
        });
        (b'A' + (index % 26) as u8) as char
    };
    let names = (0..stage.machine.setup().cpus).map(|cpu| format!("cpu {cpu}"));
    let width = names.chain(stage.events.iter().map(|event| event.name.clone())).map(|name| name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = format!("{:width$}  {} to {}\n", "", time(*first), time(*last));
    for cpu in 0..stage.machine.setup().cpus {
        let turns: Vec<_> = stage.machine.schedule.iter().filter(|turn| turn.cpu == cpu).collect();
        // Just before the look: what was there when it came.
        let at =
            |look: &u64| turns.iter().take_while(|turn| turn.at < *look).last().and_then(|turn| turn.task);
        let row: String = looks.iter().map(|look| at(look).map_or('.', &mut letter)).collect();
        let _ = writeln!(text, "{:<width$}  {row}", format!("cpu {cpu}"));
    }
    for event in &stage.events {
        let row: String = event.active.iter().map(|active| if *active { '#' } else { '.' }).collect();
        let _ = writeln!(text, "{:<width$}  {row}", event.name);
    }
    for (index, task) in tasks.iter().enumerate() {
        let name = match stage.machine.name(*task) {
            "" => "has ended",
            name => name,
        };
        let _ = writeln!(
            text,
            "{:width$}  {} is task {}, {name}",
            "",
            (b'A' + (index % 26) as u8) as char,
            task.0
        );
    }
    text
}
