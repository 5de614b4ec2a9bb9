//! Opening what would be recorded, to see whether it can be.

use crate::plan::{Plan, Request, Target};
use crate::{Error, opening};
use perfuse::diagnosis::Cause;
use perfuse::{Command, Rehearsed};
use std::slice;

/// Opens what a plan asks for, with its rings, and closes it again: each event by itself, so that each has its
/// answer, and then all of them. A command is made but not run.
///
/// # Errors
///
/// No process can be made for the command.
pub fn rehearse(plan: &Plan) -> Result<Vec<Rehearsed>, Error> {
    let held = match plan.command.split_first() {
        Some((program, arguments)) if plan.target == Target::Command || plan.follow.is_some() => {
            Some(Command::new(program).args(arguments).hold()?)
        }
        _ => None,
    };
    let on_cpus = plan.following_processes();
    let attempt = |plan: &Plan, requests: &[Request]| {
        let open = |plan: &Plan| opening::attempt(plan, requests, held.as_ref()).map(drop).err();
        match (open(plan), &on_cpus) {
            (Some(error), Some(on_cpus)) if error.cause() == Cause::OpenFiles => open(on_cpus),
            (error, _) => error,
        }
    };
    let mut tried: Vec<Rehearsed> = plan
        .events
        .iter()
        .map(|request| Rehearsed {
            event: request.spec.name.clone(),
            error: attempt(plan, slice::from_ref(request)),
            required: !plan.default_events,
        })
        .collect();
    let refused = tried.iter().filter(|tried| tried.error.is_some()).count();
    if plan.default_events && refused == tried.len() {
        let clock = [Request::new(opening::cpu_clock())];
        let following = plan.following().filter(|plan| attempt(plan, &clock).is_none());
        let error = attempt(following.as_ref().unwrap_or(plan), &clock);
        let event = "cpu-clock (in place of cycles)".to_owned();
        tried.push(Rehearsed { event, error, required: true });
    } else if refused == 0 && tried.len() > 1 {
        // Weak groups may fall apart.
        let mut all = plan.events.clone();
        all.iter_mut().filter(|request| request.weak).for_each(|request| request.group = None);
        if let Some(error) = attempt(plan, &all) {
            let event = "all of them together".to_owned();
            tried.push(Rehearsed { event, error: Some(error), required: true });
        }
    }
    Ok(tried)
}
