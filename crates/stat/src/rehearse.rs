//! Opening what would be counted, to see whether it can be.

use super::counting::Counting;
use super::plan::{Plan, Target};
use crate::Error;
use perfuse::{Answers, Command, Rehearsed};

/// Opens what a plan asks for and closes it again. A command is made but not run.
///
/// # Errors
///
/// No process can be made for the command.
pub fn rehearse(plan: &Plan) -> Result<Vec<Rehearsed>, Error> {
    let held = match plan.command.split_first() {
        Some((program, arguments)) if plan.target == Target::Command => {
            Some(Command::new(program).args(arguments).hold()?)
        }
        _ => None,
    };
    let counting = Counting::open(plan, held.as_ref(), &mut Answers::default())?;
    let events = plan.events.iter().enumerate();
    Ok(events
        .map(|(index, request)| Rehearsed {
            event: request.spec.name.clone(),
            error: counting.error(index).cloned(),
            required: true,
        })
        .collect())
}
