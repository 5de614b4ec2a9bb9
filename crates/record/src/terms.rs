//! The recording options among an event's terms, next to the options for all: `cycles/period=1000/`,
//! `cs/call-graph=fp,max-stack=8/`.

use crate::Error;
use crate::plan::{Chains, Plan, Rate, Request, branch_kinds};
use perfuse::Builder;
use perfuse::abi::{AttrFlags, BranchSampleType, SampleType};
use perfuse_events::{CallGraph, EventSpec};

/// Refuses terms that recording does not follow.
///
/// # Errors
///
/// [`Error::Plan`] names the term.
pub fn check(spec: &EventSpec) -> Result<(), Error> {
    let options = &spec.options;
    let wrong = [
        (!options.driver.is_empty(), "@", "no driver of this kind is known"),
        (options.period == Some(0), "period", "it is at least 1"),
        (options.frequency == Some(0), "freq", "it is at least 1"),
        (
            options.aux_sample_size.is_some_and(|bytes| bytes > u16::MAX.into()),
            "aux-sample-size",
            "it is at most 65535",
        ),
    ];
    if let Some((_, term, why)) = wrong.iter().find(|(is_set, ..)| *is_set) {
        return Err(Error::Plan(format!("{}: the term '{term}' is not taken: {why}", spec.name)));
    }
    own_branches(spec).map(drop)
}

/// The remark about a term that is taken and changes nothing, if there is one.
pub fn remark(spec: &EventSpec) -> Option<String> {
    let options = &spec.options;
    let idle = [
        (options.most.is_some(), "nr", "it is for perf trace; all are recorded"),
        (options.per_core, "percore", "it is for perfuse stat -A"),
        (spec.retire_latency, "R", "it is for perfuse stat; -W records the latencies of samples"),
    ];
    let (_, term, why) = idle.into_iter().find(|(is_set, ..)| *is_set)?;
    Some(format!("{}: '{term}' changes nothing here: {why}", spec.name))
}

/// The PMUs that trace a processor into an AUX area; nothing in sysfs tells them from others.
const TRACERS: &[&str] = &["intel_pt", "intel_bts", "cs_etm", "arm_spe", "hisi_ptt", "s390_cpum"];

fn is_tracer(spec: &EventSpec) -> bool {
    spec.pmu.as_ref().is_some_and(|pmu| TRACERS.iter().any(|name| pmu.name.starts_with(name)))
}

/// Has events whose terms concern the trace of an AUX area join the group of the tracer before them, as in perf.
///
/// # Errors
///
/// [`Error::Plan`]: there is no tracer before it.
pub fn join_tracers(requests: &mut [Request]) -> Result<(), Error> {
    let mut last = requests.iter().filter_map(|request| request.group).max().unwrap_or(0);
    let mut tracer = None;
    for index in 0..requests.len() {
        let spec = &requests[index].spec;
        if is_tracer(spec) {
            tracer = Some(index);
            continue;
        }
        let samples = spec.options.aux_sample_size.is_some_and(|bytes| bytes > 0);
        if !(samples || spec.options.aux_output || spec.options.aux_action.is_some()) {
            continue;
        }
        let Some(tracer) = tracer else {
            if samples {
                return Err(Error::Plan(format!(
                    "{}: aux-sample-size puts a piece of a trace into samples, and no event before it traces; \
                     those that do are of the PMUs {}",
                    spec.name,
                    TRACERS.join(", ")
                )));
            }
            // Whether it can is for the kernel to say.
            continue;
        };
        let group = *requests[tracer].group.get_or_insert_with(|| {
            last += 1;
            last
        });
        // Members of a group follow each other.
        let members = requests[tracer..].iter().take_while(|request| request.group == Some(group)).count();
        if tracer + members <= index {
            requests[index].group = Some(group);
            requests[tracer + members..=index].rotate_right(1);
        }
    }
    Ok(())
}

/// Adds the event's terms about an AUX area.
pub(crate) fn aux(builder: Builder, spec: &EventSpec) -> Builder {
    let options = &spec.options;
    builder.with(|attr| {
        attr.flags.set(AttrFlags::AUX_OUTPUT, options.aux_output);
        attr.aux_sample_size = options.aux_sample_size.unwrap_or(0);
        attr.sample_type.set(SampleType::AUX, attr.aux_sample_size > 0);
        attr.aux_action = options.aux_action.unwrap_or_default();
    })
}

/// How often this event is sampled.
pub(crate) fn rate(plan: &Plan, spec: &EventSpec) -> Option<Rate> {
    let options = &spec.options;
    let proposed = options.proposed_period.filter(|_| !plan.rate_given).map(Rate::Period);
    options.period.map(Rate::Period).or(options.frequency.map(Rate::Frequency)).or(proposed)
}

/// How its call chains are found.
pub(crate) fn chains(plan: &Plan, spec: &EventSpec) -> Option<Chains> {
    match own_chains(plan, spec) {
        // Of the kernel's side alone nothing is to be unwound.
        Some(Chains::Unwound(_))
            if plan.fields.exclude_chains.contains(AttrFlags::EXCLUDE_CALLCHAIN_USER) =>
        {
            Some(Chains::FramePointers)
        }
        chains => chains,
    }
}

fn own_chains(plan: &Plan, spec: &EventSpec) -> Option<Chains> {
    let own = spec.options.stack_size.map(|bytes| bytes.next_multiple_of(8));
    match (spec.options.call_graph, plan.chains) {
        (Some(CallGraph::No), _) => None,
        (Some(CallGraph::FramePointers), _) => Some(Chains::FramePointers),
        (Some(CallGraph::LastBranches), _) => Some(Chains::LastBranches),
        (Some(CallGraph::Dwarf), _) => Some(Chains::Stack(own.unwrap_or(Chains::STACK_BYTES))),
        (None, Some(Chains::Stack(usual))) => Some(Chains::Stack(own.unwrap_or(usual))),
        (None, Some(Chains::Unwound(usual))) => Some(Chains::Unwound(own.or(usual))),
        // How long chains may be means that there are some.
        (None, None) if spec.options.max_stack.is_some() => Some(Chains::FramePointers),
        (None, chains) => chains,
    }
}

/// The branches that come with its samples.
pub(crate) fn branches(plan: &Plan, spec: &EventSpec) -> Result<BranchSampleType, Error> {
    Ok(match own_branches(spec)? {
        None => plan.branches,
        Some(own) if own.is_empty() => own,
        Some(own) => own | plan.branches,
    })
}

/// Those that its own term names; none for `no`.
fn own_branches(spec: &EventSpec) -> Result<Option<BranchSampleType>, Error> {
    match spec.options.branch_type.as_deref() {
        None => Ok(None),
        Some("no") => Ok(Some(BranchSampleType::empty())),
        Some(kinds) => branch_kinds(kinds).map(Some),
    }
}

/// Whether samples of any event come with a copy of the stack out of the rings.
pub(crate) fn any_stacks(plan: &Plan) -> bool {
    any_kept_stacks(plan) || any_unwound(plan)
}

/// Whether copies of the stack stay in the recording.
pub(crate) fn any_kept_stacks(plan: &Plan) -> bool {
    plan.events.iter().any(|request| matches!(chains(plan, &request.spec), Some(Chains::Stack(_))))
}

/// Whether samples of any event are unwound.
pub(crate) fn any_unwound(plan: &Plan) -> bool {
    plan.events.iter().any(|request| is_unwound(plan, &request.spec))
}

/// Whether an event's samples are unwound.
pub(crate) fn is_unwound(plan: &Plan, spec: &EventSpec) -> bool {
    matches!(chains(plan, spec), Some(Chains::Unwound(_)))
}

/// Whether samples of any event come with branches.
pub(crate) fn any_branches(plan: &Plan) -> bool {
    let own = |spec: &EventSpec| {
        spec.options.branch_type.is_some() || chains(plan, spec) == Some(Chains::LastBranches)
    };
    !plan.branches.is_empty() || plan.events.iter().any(|request| own(&request.spec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse::abi::EventType;
    use perfuse_events::{OnPmu, Source};

    fn request(name: &str, group: Option<u32>) -> Request {
        let source = Source::Kernel { type_: EventType::RAW, config: 0, more: [0; 4] };
        let mut spec = EventSpec::new(name, source);
        let pmu = name.split('/').next().unwrap_or_default().to_owned();
        let mut on_pmu = OnPmu::default();
        on_pmu.name = pmu;
        spec.pmu = Some(Box::new(on_pmu));
        spec.options.aux_output = name.contains("aux-output");
        spec.options.aux_sample_size = name.contains("aux-sample-size").then_some(4096);
        Request { group, ..Request::new(spec) }
    }

    #[test]
    fn what_goes_into_a_trace_joins_its_group() {
        let (tracer, other) = ("intel_pt//", "cpu/cycles/");
        let joins = "cpu/instructions,aux-output/";
        for (events, expected) in [
            (vec![(tracer, None), (other, None), (joins, None)], vec![(tracer, 1), (joins, 1), (other, 0)]),
            (vec![(tracer, Some(4)), (joins, Some(4))], vec![(tracer, 4), (joins, 4)]),
            (vec![(joins, None), (tracer, None)], vec![(joins, 0), (tracer, 0)]),
            (
                vec![(other, Some(2)), (tracer, Some(2)), (other, Some(2)), (joins, None), (joins, Some(3))],
                vec![(other, 2), (tracer, 2), (other, 2), (joins, 2), (joins, 2)],
            ),
        ] {
            let mut requests: Vec<_> = events.into_iter().map(|(name, group)| request(name, group)).collect();
            join_tracers(&mut requests).unwrap();
            let found: Vec<_> =
                requests.iter().map(|request| (&*request.spec.name, request.group.unwrap_or(0))).collect();
            assert_eq!(found, expected);
        }
        assert!(join_tracers(&mut [request("cpu/cycles,aux-sample-size=4096/", None)]).is_err());
    }

    #[test]
    fn terms_of_the_trace_are_members_of_the_attr() {
        let mut spec = request("cpu/aux-output,aux-sample-size/", None).spec;
        spec.options.aux_action = Some(perfuse::abi::AuxAction::PAUSE);
        let attr = aux(Builder::from_spec(&spec).unwrap(), &spec).attr();
        assert!(attr.flags.contains(AttrFlags::AUX_OUTPUT) && attr.sample_type.contains(SampleType::AUX));
        assert_eq!((attr.aux_sample_size, attr.aux_action), (4096, perfuse::abi::AuxAction::PAUSE));
    }
}
