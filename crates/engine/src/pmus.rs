//! The PMUs that every kernel has.

pub(crate) mod breakpoint;
mod clock;
pub(crate) mod probe;
mod software;
pub(crate) mod tracepoint;

use crate::engine::Config;
use crate::pmu::Pmu;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// All built-in PMUs, in the order in which Linux registers them (section B-pmu, step 5).
pub(crate) fn built_in(config: &Config) -> Vec<Box<dyn Pmu>> {
    vec![
        Box::new(software::SoftwarePmu),
        Box::new(tracepoint::TracepointPmu::default()),
        Box::new(breakpoint::BreakpointPmu::new(config)),
        Box::new(clock::ClockPmu::cpu()),
        Box::new(clock::ClockPmu::task()),
    ]
}
