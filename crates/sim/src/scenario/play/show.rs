//! The text that a scenario shows: counts, records, and a diagram of the tasks that ran and the events that counted.

use super::Player;
use crate::scenario::records::{self, line, time};
use perfuse_abi::read::ReadValues;
use perfuse_engine::TaskId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A table of all events.
pub(super) fn counts(player: &mut Player) -> String {
    let mut rows = vec![["event", "count", "enabled", "counting", "share"].map(str::to_owned)];
    let events: Vec<_> =
        player.events.iter().map(|event| (event.name.clone(), event.fd, event.attr)).collect();
    for (name, fd, attr) in events {
        let cells = match fd.and_then(|fd| player.machine.read(fd)) {
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

/// A text at the left of a column, however wide.
fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.chars().count())))
}

/// The first column to the left, the others to the right.
fn table(rows: &[[String; 5]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = left(&row[0], widths[0]);
        for (value, width) in row.iter().zip(widths).skip(1) {
            line += &format!("  {}{value}", " ".repeat(width - value.chars().count()));
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The records of rings.
pub(super) fn records(player: &Player, only: Option<&str>) -> String {
    let mut text = String::new();
    for event in player.events.iter().filter(|event| !event.bytes.is_empty() || event.reader.is_some()) {
        if only.is_some_and(|only| only != event.name) {
            continue;
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "records of {}:", event.name);
        for seen in records::of(&event.attr, &event.bytes) {
            let _ = writeln!(text, "  {}", seen.as_ref().map_or_else(Clone::clone, line));
        }
    }
    text
}

/// Time from left to right: which task ran on each cpu, and when each event counted.
pub(super) fn schedule(player: &Player) -> String {
    let looks = &player.looks;
    if looks.is_empty() {
        return "nothing has run yet\n".to_owned();
    }
    // The task just before each look.
    let cpus = 0..player.machine.setup().cpus;
    let ran = |cpu: u32| -> Vec<Option<TaskId>> {
        let mut switches = player.machine.schedule.iter().filter(|switch| switch.cpu == cpu).peekable();
        let mut task = None;
        let at = |look: &u64| {
            while let Some(switch) = switches.next_if(|switch| switch.at < *look) {
                task = switch.task;
            }
            task
        };
        looks.iter().map(at).collect()
    };
    let rows: Vec<Vec<Option<TaskId>>> = cpus.map(ran).collect();
    let tasks: BTreeSet<TaskId> = rows.iter().flatten().copied().flatten().collect();
    let letters = (0u8..26).cycle().map(|index| (b'A' + index) as char);
    let letters: BTreeMap<TaskId, char> = tasks.into_iter().zip(letters).collect();
    let names = (0..player.machine.setup().cpus).map(|cpu| format!("cpu {cpu}"));
    let width =
        names.chain(player.events.iter().map(|event| event.name.clone())).map(|name| name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = format!("{}  {}\n", left("", width), ruler(looks));
    for (cpu, row) in rows.iter().enumerate() {
        let row: String = row.iter().map(|task| task.map_or('.', |task| letters[&task])).collect();
        let _ = writeln!(text, "{}  {row}", left(&format!("cpu {cpu}"), width));
    }
    for event in &player.events {
        let mark = |counting: &usize| match counting {
            0 => '.',
            1 => '#',
            copies => char::from_digit(*copies as u32, 10).unwrap_or('+'),
        };
        let row: String = event.active.iter().map(mark).collect();
        let _ = writeln!(text, "{}  {row}", left(&event.name, width));
    }
    for (task, letter) in &letters {
        let ended = if player.machine.lives(*task) { "" } else { ", has ended" };
        let name = player.machine.first_name(*task);
        let _ = writeln!(text, "{}  {letter} is {name} (task {}{ended})", left("", width), task.0);
    }
    text
}

/// Times above their columns.
fn ruler(looks: &[u64]) -> String {
    const EVERY: usize = 18;
    let mut text = String::new();
    for (column, at) in looks.iter().enumerate().step_by(EVERY) {
        let _ = write!(text, "{:column$}", "");
        text.truncate(column);
        text += &format!("|{}", time(*at));
    }
    text
}
