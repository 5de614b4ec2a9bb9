//! Metrics: numbers that are made of the counts of several events, as the tables of vendors define them. What
//! stands in such a definition is read in [`expression`]; where definitions come from is not known here.

mod expression;
mod parse;

pub use expression::{Context, Expression, Function, Operator};
pub use parse::ExpressionError;

use crate::catalogue::Scale;
use alloc::string::String;
use alloc::vec::Vec;

/// A metric.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// The groups it belongs to.
    pub groups: Vec<String>,
    /// A sentence about it.
    pub description: String,
    /// Its formula.
    pub expression: Expression,
    /// Not 0 where its value is to be looked at.
    pub threshold: Option<Expression>,
    /// The factor of its value, and the unit it then has.
    pub scale: Option<Scale>,
    /// Its events must not be counted as a group.
    pub apart: bool,
    /// The PMU it is about, where cores are of several kinds.
    pub pmu: Option<String>,
}

impl Metric {
    /// Whether a name that somebody asks for is that of this metric, or of one of its groups.
    pub fn answers_to(&self, name: &str) -> bool {
        let same = |own: &String| own.eq_ignore_ascii_case(name);
        name == "all" || same(&self.name) || self.groups.iter().any(same)
    }
}

/// Reads a factor with a unit, such as `100%`, `1e-6MiB/s` or `64Bytes`. A unit alone has the factor 1.
///
/// ```
/// let scale = perfuse_events::scale_unit("100%").unwrap();
/// assert_eq!((scale.factor, scale.unit.as_str()), (100.0, "%"));
/// ```
pub fn scale_unit(text: &str) -> Option<Scale> {
    let text = text.trim();
    let length = parse::number_length(text);
    let (factor, unit) = text.split_at(length);
    let factor = if factor.is_empty() { 1.0 } else { factor.parse().ok()? };
    (!text.is_empty()).then(|| Scale { factor, unit: unit.trim().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_and_units() {
        let read = |text| scale_unit(text).map(|scale| (scale.factor, scale.unit));
        assert_eq!(read("1e-6MiB/s"), Some((1e-6, "MiB/s".into())));
        assert_eq!(read("64Bytes"), Some((64.0, "Bytes".into())));
        assert_eq!(read("1per_sec"), Some((1.0, "per_sec".into())));
        assert_eq!(read("2.5 evs"), Some((2.5, "evs".into())));
        assert_eq!(read("%"), Some((1.0, "%".into())));
        assert_eq!(read(""), None);
    }

    #[test]
    fn no_definition_is_deeper_than_a_small_stack() {
        let work = || {
            let chain = |link: &str, links: usize| alloc::format!("a{}", link.repeat(links));
            let rising = alloc::format!("{}1{}", "1|1^1&1<1+1*(".repeat(31), ")".repeat(31));
            for text in [chain("+1", 499), chain(" if b else a", 249), rising] {
                let expression: Expression = text.parse().expect("it is within the limits");
                assert_eq!(expression.names(&()).first().copied(), text.starts_with('a').then_some("a"));
                assert_eq!(expression.value(&()).is_nan(), text.starts_with('a'));
                assert_eq!(alloc::format!("{expression}").parse(), Ok(expression.clone()));
            }
            for text in [chain("+1", 28_000), "(".repeat(300), "-".repeat(300), chain(" if b else a", 28_000)]
            {
                assert!(text.parse::<Expression>().is_err());
            }
        };
        // Half of what threads have by default, in a build without optimizations.
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(work);
        thread.expect("a thread").join().expect("nothing overflows");
    }

    #[test]
    fn a_metric_answers_to_its_name_and_its_groups() {
        let metric =
            Metric { name: "IPC".into(), groups: alloc::vec!["Summary".into()], ..Metric::default() };
        assert!(["ipc", "IPC", "summary", "all"].iter().all(|name| metric.answers_to(name)));
        assert!(!metric.answers_to("IP"));
    }
}
