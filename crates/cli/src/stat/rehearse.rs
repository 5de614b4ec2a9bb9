//! Opening what would be counted, to see whether it can be: for `perfuse doctor --for`.

use super::args::Args;
use super::counting::Counting;
use super::plan::{Plan, Whom};
use crate::exit::Result;
use perfuse::{Command, Rehearsed};

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
