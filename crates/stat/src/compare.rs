//! Commands compared by running them in turns: rounds in shuffled order, differences with their intervals, verdicts.

mod model;
mod rounds;
mod statistics;

#[cfg(any(test, feature = "samples"))]
pub use model::samples;
pub use model::{Candidate, Comparison, Direction, Judged, Measure, Series, Unit, Verdict};
pub use rounds::{Baseline, Done, Entry, Plan, Progress, Until, compare, run_aside};
pub use statistics::{Difference, Estimate, outliers};
