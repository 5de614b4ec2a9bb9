//! A window as a table, for people and pipes, or as a JSON object, schema `perfuse.top/1`.

use crate::live::Window;
use crate::subject::{Row, Subject, Tables};
use perfuse_profile::Frames;
use perfuse_term::number::grouped;
use perfuse_term::table::{Cell, Column, Side, Table};
use serde_json::{Map, Value, json};

/// The events of a window that had samples.
#[derive(Debug)]
pub struct Shown<'w> {
    window: &'w Window,
    subjects: Vec<Subject<'w>>,
}

impl<'w> Shown<'w> {
    /// With the frames of the window's profile.
    pub fn new(window: &'w Window, frames: &'w Frames, tables: &Tables) -> Self {
        let profile = &window.profile;
        let events = (0..profile.events().len()).filter(|&event| profile.event(event).samples > 0);
        let subjects = events.map(|event| Subject::new(profile, frames, event, tables)).collect();
        Shown { window, subjects }
    }

    /// A table of so many rows for each event, with an empty line behind it. Names are harmless on a terminal.
    pub fn text(&self, rows: usize) -> String {
        let time = (self.window.begin + self.window.length).as_secs_f64();
        let lost = match self.window.lost {
            0 => String::new(),
            lost => format!(", {} lost", grouped(lost)),
        };
        if self.subjects.is_empty() {
            return format!("# {time:.1} s: no samples{lost}\n\n");
        }
        let text = |subject: &Subject<'_>| {
            let (name, samples) = (subject.event_name(), grouped(subject.samples()));
            format!("# {time:.1} s: {samples} samples of {name}{lost}\n{}\n", table(subject, rows).format())
        };
        self.subjects.iter().map(text).collect()
    }

    /// The object on a line, with so many entries of each event, or all.
    pub fn json(&self, entries: Option<usize>) -> String {
        let entries = entries.unwrap_or(usize::MAX);
        let event = |subject: &Subject<'_>| {
            let rows = subject.rows().iter().take(entries);
            json!({
                "name": subject.event_name(),
                "samples": subject.samples(),
                "period": subject.whole(),
                "entries": rows.map(|row| entry(subject, row)).collect::<Vec<_>>(),
            })
        };
        let document = json!({
            "schema": "perfuse.top/1",
            "begin": self.window.begin.as_secs_f64(),
            "seconds": self.window.length.as_secs_f64(),
            "lost": self.window.lost,
            "events": self.subjects.iter().map(event).collect::<Vec<_>>(),
        });
        document.to_string()
    }
}

fn table(subject: &Subject<'_>, rows: usize) -> Table {
    let percent =
        |part: u64| Cell::new(format!("{:.2}%", part as f64 * 100.0 / subject.whole().max(1) as f64));
    let has_chains = subject.has_chains();
    let shares = if has_chains { &["Total", "Self"][..] } else { &["Self"][..] };
    let titles = subject.titles();
    let numbers = subject.tables().numbers;
    let asked =
        |of: [String; 2]| of.into_iter().zip(numbers).filter(|(_, is_asked)| *is_asked).map(|(of, _)| of);
    let more: Vec<String> = asked(["Samples", "Period"].map(str::to_owned)).collect();
    let head =
        shares.iter().map(Cell::new).chain(more.iter().map(Cell::new)).chain(titles.iter().map(Cell::new));
    let head = head.collect();
    let row = |row: &Row| {
        let total = has_chains.then(|| percent(row.total));
        let more = asked([row.samples, row.own].map(|number| number.to_string())).map(Cell::new);
        let shares = total.into_iter().chain([percent(row.own)]).chain(more);
        shares.chain(row.texts.iter().map(Cell::new)).collect()
    };
    let column = |side, least| Column { gap: 2, side, least };
    let columns = (0..shares.len() + more.len()).map(|_| column(Side::Right, 6));
    Table {
        columns: columns.chain(titles.iter().map(|_| column(Side::Left, 0))).collect(),
        rows: std::iter::once(head).chain(subject.rows().iter().take(rows).map(row)).collect(),
    }
}

fn entry(subject: &Subject<'_>, row: &Row) -> Value {
    let mut entry = Map::new();
    entry.insert("self_period".into(), row.own.into());
    entry.insert("self_samples".into(), row.samples.into());
    if subject.has_chains() {
        entry.insert("total_period".into(), row.total.into());
    }
    let keys = subject.tables().keys.iter();
    entry.extend(keys.map(|&key| (key.name().to_owned(), subject.value(row, key).into())));
    Value::Object(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_data::PerfData;
    use perfuse_profile::{Key, Names, Plan, Profile};
    use std::path::Path;
    use std::time::Duration;

    fn window(recording: &str) -> Window {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/fixtures");
        let profile = Profile::read(PerfData::open(folder.join(recording)).unwrap(), Plan::new(&[Key::Comm]));
        let (begin, length) = (Duration::from_secs(2), Duration::from_millis(1500));
        Window { profile: profile.unwrap(), lost: 3, begin, length }
    }

    #[test]
    fn a_window_is_a_table_or_an_object() {
        let window = window("chains.data");
        let frames = Frames::new(&Names::new(&window.profile, &()), false);
        let shown = Shown::new(&window, &frames, &Tables::new(&[Key::Comm, Key::Dso]));
        let expected = "# 3.5 s: 40 samples of cpu-clock, 3 lost
   Total    Self  Command   Shared Object
  42.50%  27.50%  grind     grind
  30.00%  17.50%  grind-io  grind
";
        assert!(shown.text(2).starts_with(expected), "{}", shown.text(2));
        let object: Value = serde_json::from_str(&shown.json(Some(1))).unwrap();
        assert_eq!((&object["schema"], &object["lost"]), (&json!("perfuse.top/1"), &json!(3)));
        assert_eq!(object["begin"], json!(2.0));
        let event = &object["events"][0];
        assert_eq!((&event["name"], &event["samples"]), (&json!("cpu-clock"), &json!(40)));
        assert_eq!(event["entries"].as_array().map(Vec::len), Some(1));
        let (entry, whole) = (&event["entries"][0], event["period"].as_u64().unwrap());
        assert_eq!((&entry["comm"], &entry["dso"]), (&json!("grind"), &json!("grind")));
        assert_eq!(entry["total_period"].as_u64().map(|total| total * 1000 / whole), Some(425));
    }

    #[test]
    fn a_table_has_what_was_asked_for() {
        let window = window("chains.data");
        let frames = Frames::new(&Names::new(&window.profile, &()), false);
        let mut tables = Tables::new(&[Key::Comm, Key::Dso]);
        (tables.numbers, tables.least_percent) = ([true, false], 40.0);
        let expected = "   Total    Self  Samples  Command  Shared Object
  42.50%  27.50%       11  grind    grind
";
        let text = Shown::new(&window, &frames, &tables).text(9);
        assert_eq!(text.split_once('\n').map(|(_, rest)| rest.trim_end()), Some(expected.trim_end()));
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let (begin, length) = (Duration::ZERO, Duration::from_secs(1));
        let window = Window { profile: Profile::default(), lost: 0, begin, length };
        let frames = Frames::new(&Names::new(&window.profile, &()), false);
        let shown = Shown::new(&window, &frames, &Tables::default());
        assert_eq!(shown.text(9), "# 1.0 s: no samples\n\n");
        assert!(shown.json(None).contains("\"events\":[]"));
    }
}
