//! Commands compared by running them in turns: rounds in shuffled order, differences with their intervals, verdicts.

pub mod advice;
mod export;
mod gate;
mod histogram;
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
pub use rounds::{Baseline, ComparePlan, Contender, Done, Progress, Until, compare, run_aside};
pub use saved::{BaselineError, json, read_baseline};
pub use statistics::{Difference, Estimate, outliers};
pub use words::{not_counted, sentence};
