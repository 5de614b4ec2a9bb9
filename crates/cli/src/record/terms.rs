//! What the terms of an event ask of its recording, next to the options for all: `cycles/period=1000/`,
//! `cs/call-graph=fp,max-stack=8/`.

use super::plan::{Chains, Plan, Rate};
use super::words;
use crate::exit::Failure;
use perfuse::abi::BranchSampleType;
use perfuse_events::{CallGraph, EventSpec};

/// Refuses terms that recording does not follow.
pub(super) fn check(spec: &EventSpec) -> Result<(), Failure> {
    let options = &spec.options;
    let wrong = [
        (options.overwrite.is_some(), "overwrite", "it is an option for all events: --overwrite"),
        (options.per_core, "percore", "cores have no records of their own"),
        (options.most.is_some(), "nr", "all are recorded; --max-size bounds the file"),
        (options.aux_output, "aux-output", "AUX areas are not recorded"),
        (options.aux_sample_size.is_some(), "aux-sample-size", "AUX areas are not recorded"),
        (!options.driver.is_empty(), "@", "no driver of this kind is known"),
        (options.time == Some(false), "time=0", "records always tell the time, by which they are ordered"),
        (options.period == Some(0), "period", "it is at least 1"),
        (options.frequency == Some(0), "freq", "it is at least 1"),
    ];
    if let Some((_, term, why)) = wrong.iter().find(|(is_set, ..)| *is_set) {
        return Err(Failure::usage(format_args!("{}: the term '{term}' is not taken: {why}", spec.name)));
    }
    branches(spec).map(drop)
}

/// How often this event is sampled.
pub(super) fn rate(plan: &Plan, spec: &EventSpec) -> Option<Rate> {
    let options = &spec.options;
    let proposed = options.proposed_period.filter(|_| !plan.rate_given).map(Rate::Period);
    options.period.map(Rate::Period).or(options.frequency.map(Rate::Frequency)).or(proposed)
}

/// How its call chains are found.
pub(super) fn chains(plan: &Plan, spec: &EventSpec) -> Option<Chains> {
    let bytes = |usual: u32| spec.options.stack_size.map_or(usual, |bytes| bytes.next_multiple_of(8));
    match (spec.options.call_graph, plan.chains) {
        (Some(CallGraph::No), _) => None,
        (Some(CallGraph::FramePointers), _) => Some(Chains::FramePointers),
        (Some(CallGraph::LastBranches), _) => Some(Chains::LastBranches),
        (Some(CallGraph::Dwarf), _) => Some(Chains::Stack(bytes(words::STACK_BYTES))),
        (None, Some(Chains::Stack(usual))) => Some(Chains::Stack(bytes(usual))),
        (None, chains) => chains,
    }
}

/// The branches that come with its samples.
pub(super) fn branches(spec: &EventSpec) -> Result<BranchSampleType, Failure> {
    spec.options.branch_type.as_deref().map_or(Ok(BranchSampleType::empty()), words::branch_kinds)
}

/// Whether samples of any event come with a copy of the stack.
pub(super) fn any_stacks(plan: &Plan) -> bool {
    plan.events.iter().any(|request| matches!(chains(plan, &request.spec), Some(Chains::Stack(_))))
}

/// Whether samples of any event come with branches.
pub(super) fn any_branches(plan: &Plan) -> bool {
    let own = |spec: &EventSpec| {
        spec.options.branch_type.is_some() || chains(plan, spec) == Some(Chains::LastBranches)
    };
    !plan.branches.is_empty() || plan.events.iter().any(|request| own(&request.spec))
}
