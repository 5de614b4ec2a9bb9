//! [`Page`]: a profile with the facts of its recording, written as one file.

use crate::lines::{Line, Lines};
use crate::numbers::Numbers;
use crate::tables::{Named, Row, Tables};
use perfuse_export::{Colour, Quoted, Strings, Unit, is_kernel, visible};
use perfuse_profile::{Frames, Origin, Profile, Sources};
use std::io::{self, Write};

/// The page may load nothing, send nothing and be part of nothing.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
/// The scripts, of which each uses those before it.
const SCRIPTS: &[&str] = &[
    include_str!("page/data.js"),
    include_str!("page/model.js"),
    include_str!("page/looks.js"),
    include_str!("page/flame.js"),
    include_str!("page/chart.js"),
    include_str!("page/functions.js"),
    include_str!("page/trees.js"),
    include_str!("page/source.js"),
    include_str!("page/timeline.js"),
    include_str!("page/heat.js"),
    include_str!("page/place.js"),
    include_str!("page/page.js"),
];
/// Objects without names that are told.
const MOST_MISSING: usize = 200;

/// A page of a profile: summary, flame graphs from either end, tables, call trees, a timeline.
///
/// Best made of a profile with [`Key::Comm`](perfuse_profile::Key::Comm), `Key::Pid` and `Key::Cpu`, and with
/// [times](perfuse_profile::Plan::times): each part without which there is less to choose by.
#[derive(Clone, Debug)]
pub struct Page<'p> {
    title: String,
    facts: Vec<(String, String)>,
    lost: u64,
    profile: &'p Profile,
    frames: &'p Frames,
}

impl<'p> Page<'p> {
    /// Of a profile and its frames by function, under a title.
    pub fn new(title: &str, profile: &'p Profile, frames: &'p Frames) -> Self {
        Page { title: title.to_owned(), facts: Vec::new(), lost: 0, profile, frames }
    }

    /// Of a recording, of which it tells the command and the machine.
    #[must_use]
    pub fn of(self, origin: &Origin) -> Self {
        self.with_facts(facts(origin))
    }

    /// With more facts to tell: words for each, and its value.
    #[must_use]
    pub fn with_facts(self, facts: impl IntoIterator<Item = (String, String)>) -> Self {
        Page { facts: self.facts.into_iter().chain(facts).collect(), ..self }
    }

    /// With the number of samples that were lost.
    #[must_use]
    pub fn with_lost(self, lost: u64) -> Self {
        Page { lost, ..self }
    }

    /// Writes the page in UTF-8: the same bytes for the same profile. It is made piece by piece, so `to` should have a buffer.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        self.write_all(None, to)
    }

    /// The same with the text of source lines of the hottest functions, as far as the files are there. Lines are in the page if the
    /// frames are [by address](Frames::new()) and the symbols tell lines; without their text if the page is written by
    /// [`write`](Self::write).
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write_with_sources(&self, sources: &Sources, to: impl Write) -> io::Result<()> {
        self.write_all(Some(sources), to)
    }

    fn write_all(&self, sources: Option<&Sources>, mut to: impl Write) -> io::Result<()> {
        writeln!(
            to,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>perfuse report</title>\n\
             <style>\n{}</style>\n</head>\n<body>\n{}<script type=\"application/json\" id=\"data\">",
            include_str!("page/page.css"),
            include_str!("page/page.html"),
        )?;
        self.write_data(sources, &mut to)?;
        write!(to, "</script>\n<script>\n\"use strict\";\n")?;
        for line in SCRIPTS.iter().flat_map(|script| lean(script)) {
            writeln!(to, "{line}")?;
        }
        writeln!(to, "</script>\n</body>\n</html>")
    }

    /// Writes the data alone: one object of JSON, in which nothing can end a script.
    fn write_data(&self, sources: Option<&Sources>, to: &mut dyn Write) -> io::Result<()> {
        let tables = Tables::new(self.profile, self.frames, sources);
        let mut strings = Strings::default();
        write!(to, "{{\"schema\":\"perfuse.html/2\",\"title\":{},\"facts\":[", Text(&self.title))?;
        for (at, (words, value)) in self.facts.iter().enumerate() {
            write!(to, "{}[{},{}]", comma(at), Text(words), Text(value))?;
        }
        write!(to, "],\n\"lost\":{},\"cut\":{},\n\"events\":[", self.lost, or_null(tables.cut))?;
        for (at, event) in tables.events.iter().enumerate() {
            let unit = if Unit::of(&event.name) == Unit::Nanoseconds { "ns" } else { "" };
            write!(
                to,
                "{}{{\"name\":{},\"unit\":\"{unit}\",\"samples\":{},\"weight\":{},\"unresolved\":{},\"usual\":{}}}",
                comma(at),
                Text(&event.name),
                event.samples,
                event.weight,
                event.unresolved,
                event.usual
            )?;
        }
        write!(to, "],\n\"missing\":[")?;
        for (at, (object, reason)) in self.frames.missing().take(MOST_MISSING).enumerate() {
            write!(to, "{}[{},{}]", comma(at), Text(object), Text(reason))?;
        }
        write!(to, "],\n\"threads\":[")?;
        for (at, (id, name)) in tables.threads.iter().enumerate() {
            write!(to, "{}[{},{}]", comma(at), or_null(*id), Text(name))?;
        }
        let cpus: Vec<String> = tables.cpus.iter().map(|cpu| or_null(*cpu)).collect();
        write!(to, "],\n\"cpus\":[{}],\n\"time\":", cpus.join(","))?;
        match tables.time {
            Some(time) => write!(
                to,
                "{{\"start\":{},\"end\":{},\"step\":{},\"steps\":{}}}",
                time.start_ns,
                time.end_ns,
                time.step_ns,
                time.steps()
            )?,
            None => write!(to, "null")?,
        }
        write_functions(&tables.named, &mut strings, to)?;
        let back = |(at, parent): (u32, Option<u32>)| parent.map_or(0, |parent| at - parent);
        let parents: Numbers = (0..).zip(tables.nodes.iter().map(|node| node.parent)).map(back).collect();
        let functions: Numbers = tables.nodes.iter().map(|node| node.named).collect();
        write!(
            to,
            ",\n\"nodes\":{{\"count\":{},\"parents\":\"{parents}\",\"functions\":\"{functions}\"}}",
            tables.nodes.len(),
        )?;
        write_cells(&tables, to)?;
        write_lines(&tables.lines, to)?;
        write!(to, ",\n\"strings\":[")?;
        for (at, text) in strings.list().iter().enumerate() {
            write!(to, "{}{}", comma(at), Text(text))?;
        }
        write!(to, "]}}")
    }
}

/// The lines of a script without remarks and blanks around them. No text goes over several lines.
fn lean(script: &str) -> impl Iterator<Item = &str> {
    let is_remark = |line: &str| {
        line.starts_with("//") || line.starts_with("/*") && line.ends_with("*/") || line.starts_with('*')
    };
    let is_needed = move |line: &&str| {
        !line.is_empty() && !is_remark(line) && *line != "/**" && *line != "\"use strict\";"
    };
    script.lines().map(str::trim).filter(is_needed)
}

/// The command and the machine of a recording, as far as they are known.
fn facts(origin: &Origin) -> impl Iterator<Item = (String, String)> + use<> {
    let number = |number: &u32| number.to_string();
    let known = [
        ("command", origin.command.as_ref().map(shell_words::join)),
        ("host", origin.hostname.clone()),
        ("kernel", origin.os_release.clone()),
        ("architecture", origin.arch.clone()),
        ("processor", origin.cpu.clone()),
        ("cpus online", origin.cpus_online.as_ref().map(number)),
        ("memory", origin.memory_kib.map(|kib| format!("{} MiB", kib >> 10))),
        ("recorded by version", origin.perf_version.clone()),
    ];
    known.into_iter().filter_map(|(words, value)| Some((words.to_owned(), value?)))
}

fn write_functions<'t>(named: &'t [Named], strings: &mut Strings<'t>, to: &mut dyn Write) -> io::Result<()> {
    let (mut names, mut objects) = (Numbers::default(), Numbers::default());
    let (mut hues, mut lights, mut kinds) = (Numbers::default(), Numbers::default(), String::new());
    for named in named {
        let (name, object, kind) = match named {
            Named::Thread(name) => (name.as_str(), "", 't'),
            Named::Function(of) if is_kernel(&of.object) => (of.name.as_str(), of.object.as_str(), 'k'),
            Named::Function(of) => (of.name.as_str(), of.object.as_str(), 'u'),
        };
        let colour = Colour::of(name, object);
        names.push(strings.number(name));
        objects.push(strings.number(object));
        hues.push(colour.hue);
        lights.push(colour.light);
        kinds.push(kind);
    }
    write!(
        to,
        ",\n\"functions\":{{\"names\":\"{names}\",\"objects\":\"{objects}\",\"kinds\":\"{kinds}\",\"hues\":\"{hues}\",\"lights\":\"{lights}\"}}",
    )
}

/// Writes rows, each with the number of its cells and its node by the distance from the one before, and cells: the steps of a row each by its distance from the one before, weights
/// by their distance from the usual.
fn write_cells(tables: &Tables, to: &mut dyn Write) -> io::Result<()> {
    let mut rows: Vec<(Row, u64)> = Vec::new();
    let (mut steps, mut samples, mut weights) = (Numbers::default(), Numbers::default(), Numbers::default());
    let mut step = 0;
    for cell in &tables.cells {
        match rows.last_mut().filter(|(row, _)| *row == cell.row) {
            Some((_, count)) => *count += 1,
            None => {
                rows.push((cell.row, 1));
                step = 0;
            }
        }
        steps.push(cell.step - step);
        step = cell.step;
        samples.push(cell.samples);
        let usual = tables.events.get(cell.row.event as usize).map_or(0, |event| event.usual);
        weights.push_signed(i128::from(cell.weight) - i128::from(usual) * i128::from(cell.samples));
    }
    // Rows are in the order of their nodes, but for that of their events.
    let (mut nodes, mut node) = (Numbers::default(), 0);
    for (row, _) in &rows {
        nodes.push_signed(i128::from(row.node) - node);
        node = row.node.into();
    }
    let of = |part: fn(&Row) -> u32| rows.iter().map(|(row, _)| part(row)).collect::<Numbers>();
    let (events, threads) = (of(|row| row.event), of(|row| row.thread));
    let (cpus, lines) = (of(|row| row.cpu), of(|row| row.line));
    let counts: Numbers = rows.iter().map(|(_, count)| *count).collect();
    write!(
        to,
        ",\n\"rows\":{{\"count\":{},\"events\":\"{events}\",\"nodes\":\"{nodes}\",\"threads\":\"{threads}\",\"cpus\":\"{cpus}\",\"lines\":\"{lines}\",\"cells\":\"{counts}\"}}",
        rows.len(),
    )?;
    write!(
        to,
        ",\n\"cells\":{{\"count\":{},\"steps\":\"{steps}\",\"samples\":\"{samples}\",\"weights\":\"{weights}\"}}",
        tables.cells.len(),
    )
}

/// Writes the lines that samples were in, and the files that they are of with the text that is known of each.
fn write_lines(lines: &Lines, to: &mut dyn Write) -> io::Result<()> {
    let of = |part: fn(&Line) -> u32| lines.list.iter().map(part).collect::<Numbers>();
    let (functions, files, numbers) = (of(|line| line.named), of(|line| line.file), of(|line| line.number));
    write!(
        to,
        ",\n\"lines\":{{\"count\":{},\"left\":{},\"functions\":\"{functions}\",\"files\":\"{files}\",\"numbers\":\"{numbers}\"}},\n\"sources\":[",
        lines.list.len(),
        lines.left_out,
    )?;
    for (at, file) in lines.files.iter().enumerate() {
        write!(to, "{}[{},[", comma(at), Text(&file.path))?;
        for (at, (number, text)) in file.text.iter().enumerate() {
            write!(to, "{}[{number},{}]", comma(at), Text(text))?;
        }
        write!(to, "]]")?;
    }
    write!(to, "]")
}

/// A text of a stranger: quoted, and each letter of it can be seen.
struct Text<'t>(&'t str);

impl std::fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Quoted(&visible(self.0)).fmt(f)
    }
}

fn comma(at: usize) -> &'static str {
    if at == 0 { "" } else { "," }
}

fn or_null(number: Option<impl ToString>) -> String {
    number.map_or("null".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_tells_its_command_as_shells_read_it_and_memory_in_mib() {
        let mut origin = Origin::default();
        origin.command = Some(["grep", "a b"].map(str::to_owned).to_vec());
        origin.memory_kib = Some(2_050 * 1024);
        let told = facts(&origin).map(|(words, value)| format!("{words}: {value}")).collect::<Vec<_>>();
        assert_eq!(told, ["command: grep 'a b'", "memory: 2050 MiB"]);
    }
}
