//! The comparison as a table in Markdown, and as comma-separated values.

use super::saved::{unit_name, verdict_name};
use super::words::{reason, sentence};
use super::{Comparison, Judged, Unit};
use perfuse_data::text::foreign;

/// A table of all commands for each measure of which there is anything, and the sentences.
pub fn markdown(comparison: &Comparison) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let mut out = String::from("| measure |");
    for candidate in &comparison.candidates {
        out += &format!(" `{}` |", cell(&candidate.name));
    }
    for candidate in &comparison.candidates[1..] {
        out += &format!(" `{}`: difference [95 % interval] |", cell(&candidate.name));
    }
    out += &format!("\n|:---|{}\n", "---:|".repeat(2 * comparison.candidates.len() - 1));
    for measure in &comparison.measures {
        if measure.series.iter().all(|series| series.spread().is_none()) {
            continue;
        }
        let (size, unit) = match measure.unit {
            Unit::Nanoseconds => (1e6, " ms"),
            Unit::Bytes => (1048576.0, " MiB"),
            Unit::Count => (1.0, ""),
        };
        out += &format!("| {} |", cell(&measure.title));
        for series in &measure.series {
            out += &match series.spread() {
                Some(spread) if size == 1.0 => format!(" {:.1} ± {:.1} |", spread.mean, spread.sigma),
                Some(spread) => format!(" {:.3} ± {:.3}{unit} |", spread.mean / size, spread.sigma / size),
                None => " |".to_owned(),
            };
        }
        for judged in &measure.judged[1..] {
            let relative = judged.and_then(|judged| Some((judged.difference.relative?, judged.verdict)));
            out += &match relative {
                Some((relative, verdict)) => {
                    let (digits, interval) = relative.as_percent();
                    format!(" {digits} {interval} {} |", verdict_name(verdict))
                }
                None => " |".to_owned(),
            };
        }
        out.push('\n');
    }
    out.push('\n');
    (1..comparison.candidates.len()).for_each(|at| out += &(cell(&sentence(comparison, at)) + "\n"));
    reason(comparison).iter().for_each(|reason| out += &(cell(reason) + "\n"));
    out
}

const COLUMNS: [&str; 14] = [
    "command",
    "measure",
    "unit",
    "runs",
    "mean",
    "sigma",
    "difference",
    "low",
    "high",
    "relative",
    "relative_low",
    "relative_high",
    "p",
    "verdict",
];

/// A line for each command and measure, comma-separated, below their names.
pub fn csv(comparison: &Comparison) -> String {
    let mut out = csv::Writer::from_writer(Vec::new());
    // A vector takes all, and each record has as many fields as there are columns.
    let _ = out.write_record(COLUMNS);
    for measure in &comparison.measures {
        let rows = comparison.candidates.iter().zip(&measure.series).zip(&measure.judged);
        for ((candidate, series), judged) in rows {
            let spread = series.spread();
            // Open ends of intervals are empty.
            let number = |value: Option<f64>| {
                value.filter(|value| value.is_finite()).map_or(String::new(), |value| value.to_string())
            };
            let mut fields = vec![
                foreign(&candidate.name).into_owned(),
                foreign(&measure.id).into_owned(),
                unit_name(measure.unit).to_owned(),
                spread.map_or(0, |spread| spread.n).to_string(),
                number(spread.map(|spread| spread.mean)),
                number(spread.map(|spread| spread.sigma)),
            ];
            if let Some(Judged { difference, verdict }) = judged {
                let (absolute, relative) = (difference.absolute, difference.relative);
                fields.extend([absolute.value, absolute.low, absolute.high].map(|value| value.to_string()));
                fields.push(number(relative.map(|found| found.value)));
                fields.push(number(relative.map(|found| found.low)));
                fields.push(number(relative.map(|found| found.high)));
                fields.extend([difference.p.to_string(), verdict_name(*verdict).to_owned()]);
            }
            fields.resize(COLUMNS.len(), String::new());
            let _ = out.write_record(&fields);
        }
    }
    String::from_utf8(out.into_inner().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::samples::comparison;

    #[test]
    fn a_table_in_markdown() {
        let compared = comparison(&[("wall", Unit::Nanoseconds, 1e8, 1.06e8, 1e5)]);
        let text = markdown(&compared);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "| measure | `old` | `new` | `new`: difference [95 % interval] |");
        assert_eq!(lines[1], "|:---|---:|---:|---:|");
        assert!(lines[2].starts_with("| wall time | 100.000 ± 0.303 ms | 106.000 ± 0.303 ms | +6.00 % ["));
        assert!(lines[4].starts_with("new is 6.00 % slower"));
    }

    #[test]
    fn a_line_for_each_command_and_measure() {
        let mut compared = comparison(&[("wall", Unit::Nanoseconds, 100.0, 110.0, 0.0)]);
        compared.candidates[1].name = "a, \"b\"".into();
        let text = csv(&compared);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "old,wall,ns,10,100,0,,,,,,,,");
        assert!(lines[2].starts_with("\"a, \"\"b\"\"\",wall,ns,10,110,0,10,10,10,0.1"), "{}", lines[2]);
        assert!(lines[2].ends_with(",0,more"));
        assert!(lines[1].matches(',').count() == lines[0].matches(',').count());
    }
}
