//! The functions of each event as tables: CSV as RFC 4180 has it, and Markdown as GitHub shows it. A function has the weight of the
//! samples that it was the innermost of, and of all that it was in, also where it called itself.

use crate::stacks::Stacks;
use perfuse_data::text::foreign;
use std::cmp::Reverse;
use std::io::{self, Write};

/// A function in an event.
struct Row<'s> {
    name: &'s str,
    object: &'s str,
    own: u64,
    all: u64,
}

/// The functions of an event, the most expensive first; those below so many percent, with all that they called, are left out.
fn rows(stacks: &Stacks, event: usize, least_percent: f64) -> Vec<Row<'_>> {
    let functions = stacks.functions();
    let mut sums = vec![(0u64, 0u64, false); functions.len()];
    // The row that a function was counted for last, so that it counts once where it called itself.
    let mut counted = vec![usize::MAX; functions.len()];
    for (number, row) in stacks.rows().iter().enumerate().filter(|(_, row)| row.event == event) {
        for &function in &row.stack {
            let function = function as usize;
            if std::mem::replace(&mut counted[function], number) != number {
                sums[function].1 = sums[function].1.saturating_add(row.weight);
            }
            sums[function].2 = true;
        }
        if let Some(&innermost) = row.stack.last() {
            sums[innermost as usize].0 = sums[innermost as usize].0.saturating_add(row.weight);
        }
    }
    let total = stacks.total(event);
    let mut rows: Vec<Row<'_>> = (functions.iter().zip(sums))
        .filter(|(_, (_, all, is_there))| *is_there && percent(*all, total) >= least_percent)
        .map(|(function, (own, all, _))| Row { name: &function.name, object: &function.object, own, all })
        .collect();
    rows.sort_by_key(|row| (Reverse(row.own), Reverse(row.all), row.name, row.object));
    rows
}

fn percent(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { part as f64 * 100.0 / total as f64 }
}

/// Writes a row for each function of each event.
pub(crate) fn write_csv(stacks: &Stacks, least_percent: f64, to: &mut dyn Write) -> io::Result<()> {
    write!(to, "event,function,object,self,total,self_percent,total_percent\r\n")?;
    for (event, info) in stacks.events().iter().enumerate() {
        let total = stacks.total(event);
        for row in rows(stacks, event, least_percent) {
            let texts = [info.name.as_str(), row.name, row.object];
            let [event, name, object] = texts.map(|text| field(&foreign(text)));
            let (own, all) = (percent(row.own, total), percent(row.all, total));
            write!(to, "{event},{name},{object},{},{},{own:.4},{all:.4}\r\n", row.own, row.all)?;
        }
    }
    Ok(())
}

/// A field, in quotes where it needs them.
fn field(text: &str) -> String {
    let needs = |letter: char| matches!(letter, '"' | ',' | '\n' | '\r' | ' ');
    match text.contains(needs) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Writes a table for each event.
pub(crate) fn write_markdown(
    stacks: &Stacks,
    title: &str,
    least_percent: f64,
    to: &mut dyn Write,
) -> io::Result<()> {
    writeln!(to, "# {}", code(title))?;
    for (event, info) in stacks.events().iter().enumerate() {
        let total = stacks.total(event);
        writeln!(to, "\n## {}: {total}\n", code(&info.name))?;
        writeln!(to, "| Self | Total | Share | With callees | Function | Object |")?;
        writeln!(to, "|---:|---:|---:|---:|---|---|")?;
        for row in rows(stacks, event, least_percent) {
            let (own, all) = (percent(row.own, total), percent(row.all, total));
            let (name, object) = (code(row.name), code(row.object));
            writeln!(to, "| {} | {} | {own:.2} % | {all:.2} % | {name} | {object} |", row.own, row.all)?;
        }
    }
    Ok(())
}

/// A text as code within a table: nothing in it is markup, and controls are shown.
fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut shown = String::new();
    let (mut ticks, mut most) = (0, 0);
    for letter in text.chars() {
        ticks = if letter == '`' { ticks + 1 } else { 0 };
        most = most.max(ticks);
        match letter {
            // The bar ends a cell, also in code.
            '|' => shown.push_str("\\|"),
            '\u{2028}' | '\u{2029}' => shown.extend(letter.escape_unicode()),
            _ if letter.is_control() => shown.extend(letter.escape_default()),
            _ => shown.push(letter),
        }
    }
    let fence = "`".repeat(most + 1);
    // A blank at both ends is no part of it, and keeps a tick from joining the fence.
    let blank = match text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) {
        true => " ",
        false => "",
    };
    format!("{fence}{blank}{shown}{blank}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StacksBuilder;

    fn stacks() -> Stacks {
        let mut made = StacksBuilder::default();
        made.event("cycles");
        let [main, odd, leaf] = [("main", "/bin/a"), ("odd, \"name\" | `x`", "/lib/b c"), ("leaf", "")]
            .map(|(name, object)| made.function(name, object));
        made.add(0, "t", vec![main, odd, main, leaf], 60, 1);
        made.add(0, "t", vec![main, odd], 39, 1);
        made.add(0, "u", vec![main], 1, 1);
        made.finish()
    }

    fn text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut bytes = Vec::new();
        write(&mut bytes).expect("a vector takes all");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn functions_count_once_where_they_call_themselves() {
        let csv = text(|to| write_csv(&stacks(), 0.0, to));
        let expected = "event,function,object,self,total,self_percent,total_percent\r\n\
                        cycles,leaf,,60,60,60.0000,60.0000\r\n\
                        cycles,\"odd, \"\"name\"\" | `x`\",\"/lib/b c\",39,99,39.0000,99.0000\r\n\
                        cycles,main,/bin/a,1,100,1.0000,100.0000\r\n";
        assert_eq!(csv, expected);
        assert_eq!(text(|to| write_csv(&stacks(), 99.5, to)).lines().count(), 2);
    }

    #[test]
    fn nothing_in_a_name_is_markdown() {
        let table = text(|to| write_markdown(&stacks(), "a.data", 0.0, to));
        assert!(table.starts_with("# `a.data`\n\n## `cycles`: 100\n\n| Self |"), "{table}");
        assert!(
            table.contains("\n| 39 | 99 | 39.00 % | 99.00 % | `` odd, \"name\" \\| `x` `` | `/lib/b c` |\n"),
            "{table}"
        );
        assert_eq!(code("a\nb\u{1b}"), "`a\\nb\\u{1b}`");
    }
}
