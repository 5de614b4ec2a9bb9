//! Commands compared by running them in turns: rounds in shuffled order, differences with their intervals, verdicts.

pub mod advice;
mod export;
mod gate;
mod histogram;
mod looks;
mod model;
mod rounds;
mod saved;
mod statistics;
mod words;

pub use export::{csv, markdown};
pub use gate::{Gate, Passed};
pub use histogram::{Histogram, HistogramRow};
#[cfg(any(test, feature = "samples"))]
pub use model::samples;
pub use model::{Candidate, Comparison, Direction, Judged, Measure, Series, Unit, Verdict};
pub use rounds::{Baseline, ComparePlan, Contender, Done, Progress, State, Until, compare, run_aside};
pub use saved::{BaselineError, Saved, json, read_baseline};
pub use statistics::{Difference, Estimate, holm, outliers, paired};
pub use words::{not_counted, reason, sentence, waits};
