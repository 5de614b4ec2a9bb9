//! Counting the events of one run of a command, for other subcommands.

use super::counting::Counting;
use super::model::{Outcome, Run};
use super::plan::{Plan, Requests, Target};
use crate::Error;
use perfuse::{HeldCommand, Perf};
use perfuse_events::{Machine, Scale, Source, Unit};

/// Events to be counted while commands run, with all that these start.
#[derive(Debug)]
pub struct CommandEvents(Plan);

/// The same, open on one command.
#[derive(Debug)]
pub struct CommandCounting<'a> {
    plan: &'a Plan,
    counting: Counting,
}

impl CommandEvents {
    /// Of lists as `-e` takes them, counted by this kernel.
    ///
    /// # Errors
    ///
    /// [`Error::Plan`]: an event is unknown.
    pub fn new(kernel: &Perf, lists: &[String], machine: &Machine) -> Result<Self, Error> {
        let mut requests = Requests::default();
        lists.iter().try_for_each(|list| requests.add(list, machine))?;
        let plan = Plan::new(Target::Command, Vec::new(), requests.all);
        Ok(CommandEvents(Plan { kernel: kernel.clone(), ..plan }))
    }

    /// Their names, as asked for, and units.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Unit)> {
        self.0.events.iter().map(|request| (request.spec.name.as_str(), request.spec.unit()))
    }

    /// The factor for counts of an event, and the unit of the product.
    pub fn scale(&self, event: usize) -> Option<&Scale> {
        self.0.events[event].spec.scale()
    }

    /// Opens them; they count from the command's exec on.
    ///
    /// # Errors
    ///
    /// [`Error::Perf`]: the command is gone.
    pub fn open(&self, command: &HeldCommand) -> Result<CommandCounting<'_>, Error> {
        Ok(CommandCounting { plan: &self.0, counting: Counting::open(&self.0, Some(command))? })
    }
}

impl CommandCounting<'_> {
    /// The outcome of each event up to the command's end, with the name to show it by.
    pub fn finish(self, run: &Run) -> Vec<(String, Outcome)> {
        let outcome = |(index, request): (usize, &super::plan::Request)| {
            let outcome = match request.spec.source {
                Source::Tool(tool) => run.of_tool(tool),
                _ => self.counting.totals(index).swap_remove(0),
            };
            (self.counting.describe(self.plan, index).name, outcome)
        };
        self.plan.events.iter().enumerate().map(outcome).collect()
    }
}
