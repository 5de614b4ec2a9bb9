//! What leaves the screen: texts for the clipboard, and files with what is shown, as text, CSV, SVG or folded stacks.

use crate::names::frame_name;
use crate::page::Page;
use crate::state::{Deed, State};
use crate::subject::{Neighbour, Subject};
use perfuse_export::Format;
use perfuse_term::foreign::field;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::path::Path;

/// Columns of text in files: there is room for long names.
const COLUMNS: u16 = 400;
/// Columns of drawings in files.
const DRAWN: u16 = 160;
/// Lines of text in files at most, as a drawing counts them.
const LINES: usize = 16_000;

impl State {
    /// Copies the name of the function.
    pub(crate) fn copy(&mut self, subject: &Subject<'_>) -> Deed {
        let of = match self.page {
            Page::Code => self.code.as_ref().map(|code| code.of.clone()),
            _ => self.frame(subject).and_then(|frame| subject.code_of(frame)),
        };
        let Some(of) = of else {
            self.tell("there is no name to copy");
            return Deed::Nothing;
        };
        self.tell("the name of the function is copied");
        Deed::Copy(of.function)
    }

    /// Copies the table that is shown, with tabs between its columns.
    pub(crate) fn copy_table(&mut self, subject: &Subject<'_>) -> Deed {
        let table = self.table(subject);
        self.tell(&format!("{} lines are copied", table.len().saturating_sub(1)));
        Deed::Copy(table.iter().map(|row| row.join("\t") + "\n").collect())
    }

    /// Writes what is shown to the file whose name was typed, in the format of its ending.
    pub(crate) fn write(&mut self, subject: &Subject<'_>) -> Deed {
        let file = std::mem::take(&mut self.file);
        let ending = Path::new(&file).extension().and_then(|ending| ending.to_str()).unwrap_or("");
        let stacks = |format: &str| {
            let mut to = Vec::new();
            let format = Format::named(format);
            // Writing into memory does not fail.
            let _ = format.map(|format| subject.stacks().write(format, &self.title, &mut to));
            to
        };
        let contents = match ending {
            "csv" => self.csv(subject).into_bytes(),
            "svg" => stacks("flamegraph"),
            "folded" => stacks("folded"),
            "txt" | "text" => self.text(subject).into_bytes(),
            _ => {
                self.tell("nothing written: the name has to end in .txt, .csv, .svg or .folded");
                return Deed::Nothing;
            }
        };
        Deed::Write { file, contents }
    }

    fn csv(&self, subject: &Subject<'_>) -> String {
        let line = |row: &Vec<String>| {
            row.iter().map(|text| field(text, ",").into_owned()).collect::<Vec<_>>().join(",") + "\n"
        };
        self.table(subject).iter().map(line).collect()
    }

    /// The page as it is drawn, with all lines and room for long names.
    fn text(&self, subject: &Subject<'_>) -> String {
        let columns = if matches!(self.page, Page::Flame | Page::Time) { DRAWN } else { COLUMNS };
        let lines = match self.page {
            Page::Flame => {
                subject.tree(!self.is_inverted).nodes.iter().map(|node| node.depth + 1).max().unwrap_or(0)
            }
            Page::Neighbours => 2 * self.table(subject).len(),
            _ => self.table(subject).len(),
        };
        let area = Rect::new(0, 0, columns, (lines + 5).min(LINES) as u16);
        let mut cells = Buffer::empty(area);
        self.clone().draw(subject, area, &mut cells);
        // The titles of pages and the keys are of the screen alone.
        let kept = (0..area.height - 1).filter(|&y| y != 1);
        let line = |y: u16| {
            let mut text = String::new();
            let mut x = 0;
            while x < columns {
                let symbol = cells[(x, y)].symbol();
                text += symbol;
                x += perfuse_term::foreign::width(symbol).max(1) as u16;
            }
            text.trim_end().to_owned()
        };
        kept.map(line).collect::<Vec<_>>().join("\n").trim_end().to_owned() + "\n"
    }

    /// The table of the page, its titles first; numbers are occurrences of the event.
    fn table(&self, subject: &Subject<'_>) -> Vec<Vec<String>> {
        let texts = |row: &[&str]| row.iter().map(|&text| text.to_owned()).collect::<Vec<String>>();
        let share = |part: u64| format!("{:.4}", part as f64 * 100.0 / subject.whole().max(1) as f64);
        match self.page {
            Page::Functions => {
                let titles = subject.titles();
                let numbers = ["percent", "self percent", "total", "self", "samples"];
                let mut table = vec![texts(&[&numbers, &titles[..]].concat())];
                table.extend(self.shown(subject).into_iter().map(|row| {
                    let row = &subject.rows()[row];
                    let numbers = [row.total, row.own, row.samples].map(|number| number.to_string());
                    let shares = [share(row.total), share(row.own)];
                    shares.into_iter().chain(numbers).chain(row.texts.iter().cloned()).collect()
                }));
                table
            }
            Page::Neighbours => {
                let mut table = vec![texts(&["side", "percent", "weight", "function", "object"])];
                let sides = self.row(subject).map(|row| subject.neighbours(row));
                for (side, list) in
                    ["caller", "callee"].iter().zip(sides.iter().flat_map(|sides| sides.iter()))
                {
                    table.extend(list.iter().map(|Neighbour { name, weight }| {
                        let (name, object) = name.clone().unwrap_or_default();
                        vec![(*side).to_owned(), share(*weight), weight.to_string(), name, object]
                    }));
                }
                table
            }
            Page::Tree | Page::Flame => {
                let mut table = vec![texts(&["depth", "percent", "total", "self", "function", "object"])];
                let tree = subject.tree(!self.is_inverted);
                let lines = match self.page {
                    Page::Tree => self.tree_lines(tree),
                    _ => (0..tree.nodes.len()).collect(),
                };
                table.extend(lines.into_iter().map(|line| {
                    let node = &tree.nodes[line];
                    let (name, object) = frame_name(subject.frames(), node.frame);
                    let numbers = [node.weight, node.own].map(|number| number.to_string());
                    let first = [node.depth.to_string(), share(node.weight)];
                    first.into_iter().chain(numbers).chain([name, object]).collect()
                }));
                table
            }
            Page::Code => {
                let mut table = vec![texts(&["weight", "samples", "code"])];
                let lines = self.code.iter().flat_map(|code| &code.lines);
                table.extend(lines.map(|line| {
                    vec![line.cost.weight.to_string(), line.cost.samples.to_string(), line.text.clone()]
                }));
                table
            }
            Page::Time => {
                let mut table = vec![texts(&["weight", "name"])];
                let timeline = self.timeline(subject);
                let lanes = timeline.iter().flat_map(|timeline| &timeline.lanes);
                table.extend(lanes.map(|lane| vec![lane.weight.to_string(), lane.name.clone()]));
                table
            }
            Page::Events => {
                let mut table = vec![texts(&["event", "samples", "weight"])];
                let events = subject.events().into_iter();
                table.extend(
                    events.map(|(_, name, samples, weight)| {
                        vec![name, samples.to_string(), weight.to_string()]
                    }),
                );
                table
            }
        }
    }
}
