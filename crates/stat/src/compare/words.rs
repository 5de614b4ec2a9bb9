//! Comparisons in words: verdicts, differences with their intervals, and what it all comes to in a sentence.

use super::{Comparison, Direction, Estimate, Judged, Unit, Verdict};

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
        return format!("{new} against {old}: the {title} of the reference cannot be told from 0.");
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
    let range = format!("between {} and {} %", percent(relative.low), percent(relative.high));
    match verdict {
        Verdict::Called(_) => {
            let interval = format!("95 % interval {} to {} %", unsigned(near), unsigned(far));
            let size = unsigned(relative.value);
            match (measure.unit, verdict.words(measure.unit)) {
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
    use crate::compare::Unit;
    use crate::compare::samples::comparison;

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
}
