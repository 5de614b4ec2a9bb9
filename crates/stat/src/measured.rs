//! A metric and the events of a plan that it is made of: found by `metrics`, carried by plans and reports.

use perfuse_events::Metric;
use std::collections::BTreeMap;

/// A metric whose events are counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The metric.
    pub metric: Metric,
    /// Other metrics that it is made of, each after those it is made of itself.
    pub(crate) others: Vec<Metric>,
    /// Names in its definition, with the events of the plan that count them.
    pub(crate) counted: Vec<(String, Vec<usize>)>,
    /// Of how many counters each of them is the sum.
    pub(crate) sources: BTreeMap<String, usize>,
    /// Facts of the machine that its definition asks for.
    pub(crate) facts: BTreeMap<String, f64>,
    /// The event that it is shown next to.
    pub leader: usize,
}

impl Measured {
    /// The same when the events of the plan have gone elsewhere.
    pub(crate) fn moved(&self, places: &[usize]) -> Self {
        let counted = self.counted.iter().map(|(name, events)| {
            let mut events: Vec<usize> = events.iter().map(|&at| places[at]).collect();
            events.dedup();
            (name.clone(), events)
        });
        Measured { counted: counted.collect(), leader: places[self.leader], ..self.clone() }
    }
}
