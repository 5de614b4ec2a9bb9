//! Opening what would be counted, to see whether it can be: for `perfuse doctor --for`.

use super::args::Args;
use super::counting::Counting;
use super::plan::{Plan, Whom};
use crate::exit::Result;
use perfuse::{Command, Error};

/// One event of a plan that was opened to see whether it can be.
#[derive(Debug)]
pub(crate) struct Rehearsed {
    /// The event's name.
    pub(crate) event: String,
    /// Why it was refused.
    pub(crate) error: Option<Error>,
    /// It was asked for; else it is taken because nothing was, and may be missing.
    pub(crate) required: bool,
}

/// Opens what `args` ask for and closes it again. A command is made but not run.
pub(crate) fn rehearse(args: &Args) -> Result<Vec<Rehearsed>> {
    args.kernel.decide()?;
    let plan = Plan::new(args)?;
    let held = match plan.command.split_first() {
        Some((program, arguments)) if plan.whom == Whom::Command => {
            Some(Command::new(program).args(arguments).hold()?)
        }
        _ => None,
    };
    let counting = Counting::open(&plan, held.as_ref())?;
    let events = plan.events.iter().enumerate();
    Ok(events
        .map(|(index, request)| Rehearsed {
            event: request.spec.name.clone(),
            error: counting.error(index).cloned(),
            required: args.selection.has_events(),
        })
        .collect())
}
