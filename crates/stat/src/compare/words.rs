//! Comparisons in words: verdicts, differences with their intervals, and what it all comes to in a sentence.

use super::{Comparison, Direction, Estimate, Judged, Measure, State, Unit, Verdict};

/// From here on a difference in time is told as a factor.
const TIMES: f64 = 1.5;

impl Verdict {
    /// The verdict in words, for a measure in this unit.
    pub fn words(self, unit: Unit) -> &'static str {
        let time = unit == Unit::Nanoseconds;
        match self {
            Verdict::NoChange => "no change",
            Verdict::Unclear => "unclear",
            Verdict::Perhaps(Direction::Less) if time => "perhaps faster",
            Verdict::Perhaps(Direction::More) if time => "perhaps slower",
            Verdict::Perhaps(Direction::Less) => "perhaps less",
            Verdict::Perhaps(Direction::More) => "perhaps more",
            Verdict::Called(Direction::Less) if time => "faster",
            Verdict::Called(Direction::More) if time => "slower",
            Verdict::Called(Direction::Less) => "less",
            Verdict::Called(Direction::More) => "more",
        }
    }
}

impl Estimate {
    /// The value times `factor` and its interval as text, cut where the interval's width begins.
    pub fn shown(&self, factor: f64) -> (String, String) {
        let half = self.half_width() * factor;
        let decimals = match half {
            half if half > 0.0 => (1 - half.log10().floor() as i32).clamp(0, 3) as usize,
            _ => 2,
        };
        let number = |value: f64| {
            let text = format!("{:+.decimals$}", value * factor);
            // No sign for what is nothing.
            if text[1..].bytes().all(|byte| b"0.".contains(&byte)) { text[1..].to_owned() } else { text }
        };
        (number(self.value), format!("[{}, {}]", number(self.low), number(self.high)))
    }

    /// A share as a percentage, and its interval. Where the measurements allow what cannot be, such as less than nothing,
    /// that end is open: "up to +50", "at least 2.1x", "no bound".
    pub fn as_percent(&self) -> (String, String) {
        let (digits, interval) = self.shown(100.0);
        let interval = match (self.low <= -1.0, self.high.is_infinite()) {
            (false, false) => interval,
            (true, false) => format!("up to {}", Estimate { value: self.high, ..*self }.shown(100.0).0),
            (false, true) => format!("at least {}x", times(1.0 + self.low)),
            (true, true) => "no bound".to_owned(),
        };
        (digits + " %", interval)
    }
}

/// A factor, with two digits that say something.
fn times(factor: f64) -> String {
    let decimals = (1 - factor.abs().max(1e-9).log10().floor() as i32).clamp(0, 3) as usize;
    format!("{factor:.decimals$}")
}

/// Compares a command with the reference in a sentence, by the measure that decides.
pub fn sentence(comparison: &Comparison, candidate: usize) -> String {
    let measure = comparison.decisive();
    let (new, old) = (&comparison.candidates[candidate].name, &comparison.candidates[0].name);
    let title = &measure.title;
    let Some(Judged { difference, verdict }) = measure.judged[candidate] else {
        return format!("{new} and {old}: too few runs to compare.");
    };
    let Some(relative) = difference.relative else {
        return format!("{new} against {old}: the {title} of the reference is 0.");
    };
    let percent = |value: f64| {
        let (digits, _) = Estimate { value, ..relative }.shown(100.0);
        digits
    };
    let unsigned = |value: f64| percent(value.abs()).trim_start_matches('+').to_owned();
    let (near, far) = match relative.value < 0.0 {
        true => (-relative.high, -relative.low),
        false => (relative.low, relative.high),
    };
    let range = match (relative.low <= -1.0, relative.high.is_infinite()) {
        (false, false) => format!("between {} and {} %", percent(relative.low), percent(relative.high)),
        (true, false) => format!("up to {} %", percent(relative.high)),
        (false, true) => format!("from {}x on", times(1.0 + relative.low)),
        (true, true) => "of any size".to_owned(),
    };
    match verdict {
        Verdict::Called(direction) => {
            let interval = match direction {
                Direction::Less if relative.low <= -1.0 => {
                    format!("95 % interval from {} % on", unsigned(near))
                }
                Direction::More if relative.high.is_infinite() => {
                    format!("95 % interval: at least {}x", times(1.0 + relative.low))
                }
                _ => format!("95 % interval {} to {} %", unsigned(near), unsigned(far)),
            };
            let size = unsigned(relative.value);
            let factor = 1.0 + relative.value;
            match (measure.unit, verdict.words(measure.unit)) {
                (Unit::Nanoseconds, _) if factor > 0.0 && factor <= 1.0 / TIMES => format!(
                    "{new} is {} times as fast as {old} ({size} % less {title}; {interval}).",
                    times(1.0 / factor)
                ),
                (Unit::Nanoseconds, _) if factor >= TIMES => format!(
                    "{new} takes {} times as long as {old} ({size} % more {title}; {interval}).",
                    times(factor)
                ),
                (Unit::Nanoseconds, word) => {
                    format!("{new} is {size} % {word} than {old} ({title}; {interval}).")
                }
                (_, word) => format!("{new} has {size} % {word} {title} than {old} ({interval})."),
            }
        }
        Verdict::Perhaps(_) => format!(
            "{new} is {} than {old}: the difference in {title} is {range}, which chance alone gives now and then. \
             More runs would tell.",
            verdict.words(measure.unit)
        ),
        Verdict::NoChange => {
            format!("No difference between {new} and {old}: the one in {title} is {range}.")
        }
        Verdict::Unclear => format!(
            "No difference seen between {new} and {old}, but the one in {title} may be anything {range}. More \
             runs or a quieter machine would tell."
        ),
    }
}

/// The reason why another measure than wall time decides, where nobody asked for it.
pub fn reason(comparison: &Comparison) -> Option<String> {
    let decisive = comparison.decisive();
    if comparison.is_chosen || decisive.id != "cpu" {
        return None;
    }
    let wall = comparison.find("wall").map(|at| &comparison.measures[at]);
    let known = |measure: Option<&Measure>| match measure.and_then(Measure::uncertainty) {
        Some(share) if share < 1.0 => format!("to {} %", times(share * 100.0)),
        _ => "to nothing at all".to_owned(),
    };
    Some(format!(
        "CPU time decides here: the commands compute all the time, and their difference in it is known {}, in wall time \
         {}.",
        known(Some(decisive)),
        known(wall)
    ))
}

/// What a comparison that goes on still waits for, in a few words.
pub fn waits(state: &State<'_>) -> String {
    let (plan, comparison) = (state.plan, state.comparison);
    let least = plan.least as usize;
    if state.done < least || plan.least == plan.most {
        return format!("{} rounds to go", least.saturating_sub(state.done));
    }
    let known = |measure: &Measure| match measure.uncertainty() {
        Some(share) if share < 10.0 => format!("now {} %", times(share * 100.0)),
        _ => "now unknown".to_owned(),
    };
    let mut waits = match &plan.until {
        Some(until) => {
            let measure = until.measure.as_deref().and_then(|name| comparison.find(name));
            let measure = &comparison.measures[measure.unwrap_or(comparison.by)];
            format!("until known to {} %, {}", times(until.share * 100.0), known(measure))
        }
        None if plan.until_certain => {
            format!("until sure or known to 1 %, {}", known(comparison.decisive()))
        }
        None => String::new(),
    };
    if let Some(time) = plan.time {
        let left = time.saturating_sub(state.elapsed).as_secs_f64();
        let comma = if waits.is_empty() { "" } else { ", " };
        waits += &format!("{comma}{left:.0} s left");
    }
    waits
}

/// The events that were counted for nobody, by reason, in a sentence each.
pub fn not_counted(comparison: &Comparison) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for measure in &comparison.measures {
        if measure.series.iter().any(|series| series.spread().is_some()) {
            continue;
        }
        let reason = measure.series.iter().find_map(|series| series.missing.clone());
        let reason = reason.unwrap_or_else(|| "no runs".to_owned());
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(&measure.title),
            None => reasons.push((reason, vec![&measure.title])),
        }
    }
    reasons.iter().map(|(reason, names)| format!("not counted: {}: {reason}", names.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use crate::compare::samples::comparison;
    use crate::compare::{Estimate, Unit};

    #[test]
    fn sentences_say_what_is_not_known() {
        let sentence = |new: f64, off: f64| {
            let compared = comparison(&[("wall", Unit::Nanoseconds, 1e8, new, off)]);
            super::sentence(&compared, 1)
        };
        assert!(sentence(1e8, 1e4).starts_with("No difference between new and old"));
        assert!(sentence(1e8, 3e6).contains("may be anything between"));
        assert!(sentence(0.9e8, 1e4).starts_with("new is 10.0"));
        assert!(sentence(0.9e8, 1e4).contains("% faster than old"));
    }

    #[test]
    fn large_differences_in_time_are_factors() {
        let sentence = |new: f64| {
            let compared = comparison(&[("wall", Unit::Nanoseconds, 1e8, new, 1e5)]);
            super::sentence(&compared, 1)
        };
        let faster = sentence(0.357e8);
        assert!(faster.starts_with("new is 2.8 times as fast as old (64.3"), "{faster}");
        assert!(faster.contains("% less wall time; 95 % interval 64."), "{faster}");
        let slower = sentence(2.8e8);
        assert!(slower.starts_with("new takes 2.8 times as long as old (180."), "{slower}");
        let more = comparison(&[("faults", Unit::Count, 100.0, 300.0, 0.1)]);
        assert!(super::sentence(&more, 1).starts_with("new has 200.0"), "{}", super::sentence(&more, 1));
    }

    #[test]
    fn an_interval_that_has_left_the_possible_is_open() {
        let shown = |low: f64, high: f64| Estimate { value: 0.2, low, high }.as_percent().1;
        assert_eq!(shown(0.1, 0.3), "[+10, +30]");
        assert_eq!(shown(-1.3, 0.5), "up to +50");
        assert_eq!(shown(1.1, f64::INFINITY), "at least 2.1x");
        assert_eq!(shown(f64::NEG_INFINITY, f64::INFINITY), "no bound");
        // One run of ten that takes as long as all others together.
        let wild = comparison(&[("wall", Unit::Nanoseconds, 1e8, 0.5e8, 2.2e8)]);
        let sentence = super::sentence(&wild, 1);
        assert!(sentence.contains("may be anything"), "{sentence}");
        assert!(!sentence.contains("-1") && !sentence.contains("inf"), "{sentence}");
    }

    #[test]
    fn the_measure_that_decides_says_why() {
        let noisy = comparison(&[
            ("wall", Unit::Nanoseconds, 1e8, 1.06e8, 3e6),
            ("cpu", Unit::Nanoseconds, 0.95e8, 1e8, 1e4),
        ]);
        let reason = super::reason(&noisy).expect("a reason");
        assert!(
            reason.starts_with("CPU time decides here") && reason.contains("in wall time to "),
            "{reason}"
        );
        assert_eq!(super::reason(&comparison(&[("wall", Unit::Nanoseconds, 1e8, 1e8, 1e4)])), None);
    }
}
