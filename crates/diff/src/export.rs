//! Reports as one JSON object, schema `perfuse.diff/1`, and as a table in Markdown.

use crate::{Estimate, Line, Method, Report};
use perfuse_data::text::foreign;
use serde::Serialize;

/// A report with the names of its sides and of its event.
#[derive(Clone, Copy, Debug)]
pub struct Named<'r> {
    /// The report.
    pub report: &'r Report,
    /// The names of the sides, the earlier one first.
    pub sides: [&'r str; 2],
    /// The event.
    pub event: &'r str,
    /// Occurrences of the event are ns.
    pub is_time: bool,
}

#[derive(Serialize)]
struct Document<'r> {
    schema: &'static str,
    event: &'r str,
    unit: &'static str,
    method: &'static str,
    rounds: Option<usize>,
    sides: [Side<'r>; 2],
    /// Functions that are judged, for which verdicts are corrected.
    judged: usize,
    functions: Vec<Function<'r>>,
}

#[derive(Serialize)]
struct Side<'r> {
    name: &'r str,
    amount: f64,
    samples: u64,
}

#[derive(Serialize)]
struct Function<'r> {
    name: &'r str,
    amounts: [f64; 2],
    shares: [f64; 2],
    samples: [u64; 2],
    /// Of shares between recordings, of amounts between rounds.
    difference: f64,
    interval95: (f64, f64),
    relative: Option<f64>,
    relative_interval95: Option<(f64, f64)>,
    p: f64,
    verdict: &'static str,
}

/// A report as one JSON object, with a line feed at the end. Open ends of intervals are null.
pub fn json(named: &Named<'_>) -> String {
    let Named { report, sides, event, is_time } = *named;
    let ends = |estimate: Estimate| (estimate.low, estimate.high);
    let functions = report.lines.iter().map(|line| Function {
        name: &line.name,
        amounts: line.amounts,
        shares: line.shares,
        samples: line.samples,
        difference: line.difference.value,
        interval95: ends(line.difference),
        relative: line.relative.map(|relative| relative.value),
        relative_interval95: line.relative.map(ends),
        p: line.p,
        verdict: line.verdict.word(report.method),
    });
    let (method, rounds) = match report.method {
        Method::Recordings => ("shares of two recordings, Newcombe's interval", None),
        Method::Rounds(rounds) => ("amounts of paired rounds, Student's t", Some(rounds)),
    };
    let side = |at: usize| Side { name: sides[at], amount: report.wholes[at], samples: report.samples[at] };
    let document = Document {
        schema: "perfuse.diff/1",
        event,
        unit: if is_time { "ns" } else { "occurrences" },
        method,
        rounds,
        sides: [side(0), side(1)],
        judged: report.judged,
        functions: functions.collect(),
    };
    // Numbers, texts and nothing else: there is nothing that could fail.
    serde_json::to_string(&document).unwrap_or_default() + "\n"
}

/// A table of the functions that differ, or a sentence where none does.
pub fn markdown(named: &Named<'_>) -> String {
    let Named { report, sides, event, .. } = *named;
    let cell = |text: &str| foreign(text).replace('|', "\\|");
    let called: Vec<&Line> = report.called().collect();
    let mut out = format!(
        "Of {} functions ({}), {} differ between `{}` and `{}`.\n",
        report.judged,
        cell(event),
        called.len(),
        cell(sides[0]),
        cell(sides[1])
    );
    if called.is_empty() {
        return out;
    }
    let difference = match report.method {
        Method::Recordings => "points [95 % interval]",
        Method::Rounds(_) => "time [95 % interval]",
    };
    out += &format!("\n| function | before | after | {difference} | verdict |\n|:---|---:|---:|---:|:---|\n");
    for line in called {
        let (digits, interval) = match line.relative {
            Some(relative) => relative.as_percent(),
            None if report.method == Method::Recordings => line.difference.shown(100.0),
            None => Default::default(),
        };
        out += &format!(
            "| `{}` | {:.2} % | {:.2} % | {digits} {interval} | {} |\n",
            cell(&line.name),
            100.0 * line.shares[0],
            100.0 * line.shares[1],
            line.verdict.word(report.method)
        );
    }
    out
}
