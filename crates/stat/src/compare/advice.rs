//! Advice for the reader: how good the measurements are, and how to make them better.

use super::{ComparePlan, Comparison, Done, Series, outliers};
use std::fs;

/// Shorter runs are mostly the start of a process.
const SHORT_NS: f64 = 5e6;
/// From here on a spread (as a share of the mean) is worth a word.
const NOISY: f64 = 0.05;

/// About the machine, before anything runs on it.
pub fn before() -> Vec<String> {
    let mut advice = Vec::new();
    let cpus = perfuse::online_cpus().len();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Option<f64> = load.split_whitespace().next().and_then(|load| load.parse().ok());
    if let Some(load) = load.filter(|load| *load > 0.5 * cpus as f64) {
        advice.push(format!("The machine is busy: load average {load:.1} on {cpus} cpus. CPU time and instructions bear that best."));
    }
    let governor = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    if let Ok(governor) = governor.as_deref().map(str::trim) {
        if governor != "performance" {
            advice.push(format!(
                "The cpus change their frequency (governor '{governor}'); steadier: cpupower frequency-set -g performance"
            ));
        }
    }
    advice
}

/// About the measurements.
pub fn after(plan: &ComparePlan, done: &Done) -> Vec<String> {
    let comparison = &done.comparison;
    let mut advice = Vec::new();
    if let Some(failure) = &done.failure {
        advice.push(format!("{} runs failed; the first: {failure}.", done.failures));
    }
    if let (Some(until), false) = (&plan.until, done.precise) {
        advice.push(format!(
            "±{} % was not reached: stopped after {} rounds.",
            until.share * 100.0,
            done.rounds
        ));
    }
    if plan.until_certain && !done.certain && !done.interrupted && comparison.candidates.len() > 1 {
        advice.push(format!(
            "The verdict was not certain after {} rounds. More time would help: --time, or --until 1%.",
            done.rounds
        ));
    }
    if done.rounds < 5 && comparison.candidates.len() > 1 {
        advice.push("With fewer than 5 runs of each no difference is called.".to_owned());
    }
    let Some(wall) = comparison.find("wall").map(|at| &comparison.measures[at]) else { return advice };
    advice.extend(noise(comparison, &wall.series));
    for (candidate, series) in comparison.candidates.iter().zip(&wall.series) {
        let Some(spread) = series.spread() else { continue };
        if spread.mean < SHORT_NS {
            advice.push(format!(
                "A run of {} takes {:.1} ms: much of that is starting a process, not the program's work.",
                candidate.name,
                spread.mean / 1e6
            ));
        }
        let values = series.known();
        let far = outliers(&values);
        if far > 0 && spread.sigma > NOISY * spread.mean {
            advice.push(format!(
                "{far} of {} runs of {} took far longer or shorter than the others: other programs, or caches. \
                 They count like all others.",
                values.len(),
                candidate.name
            ));
        }
        if let (Some(first), true) = (values.first(), values.len() >= 8) {
            let rest = crate::Spread::of(values[1..].iter().copied());
            if rest.is_some_and(|rest| *first > rest.mean + 6.0 * rest.sigma && *first > 1.1 * rest.mean) {
                advice.push(format!(
                    "The first run of {} was the slowest by far: give it more --warmup.",
                    candidate.name
                ));
            }
        }
    }
    for measure in &comparison.measures {
        if measure.series.iter().any(|series| series.share < 0.995 && series.spread().is_some()) {
            advice.push(format!(
                "{} was counted part of the time only (~): there are more events than counters, and the rest is an \
                 estimate. Exact with fewer events (-e).",
                measure.title
            ));
        }
    }
    advice
}

/// Which measures to trust where wall time is noisy.
fn noise(comparison: &Comparison, wall: &[Series]) -> Option<String> {
    let noise = |series: &Series| series.spread().filter(|s| s.mean > 0.0).map_or(0.0, |s| s.sigma / s.mean);
    let worst = wall.iter().map(noise).fold(0.0, f64::max);
    if worst < NOISY {
        return None;
    }
    let worst = worst * 100.0;
    let better = |id: &str| {
        let measure = &comparison.measures[comparison.find(id)?];
        let worst_of = measure.series.iter().map(noise).fold(0.0, f64::max) * 100.0;
        let known = measure.series.iter().all(|series| series.spread().is_some());
        (known && worst_of < worst / 2.0).then(|| format!("{} ({worst_of:.1} %)", measure.title))
    };
    let better: Vec<_> = ["instructions", "cpu"].into_iter().filter_map(better).collect();
    Some(match better.is_empty() {
        true => format!(
            "Wall time varies by {worst:.0} % from run to run; a quieter machine or more runs would help."
        ),
        false => format!(
            "Wall time varies by {worst:.0} % from run to run. The safer number here: {}.",
            better.join(", ")
        ),
    })
}
