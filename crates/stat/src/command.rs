//! Counting the events of one run of a command, for other subcommands.

use super::counting::Counting;
use super::model::{Outcome, Run};
use super::plan::{Plan, Requests, Target};
use crate::Error;
use perfuse::{Answers, HeldCommand, Perf};
use perfuse_events::{Machine, Scale, Source, Unit};

/// Events to be counted while commands run, with all that these start.
#[derive(Debug)]
pub struct CommandEvents(Plan);

/// What one run of a command leaves for the next, so that this costs less.
#[derive(Debug, Default)]
pub struct LastRun {
    pub(crate) answers: Answers,
    /// Still open: the kernel patches its code when the first event of a kind is opened, and again after the last was
    /// closed. That takes longer than all else that a run costs here.
    pub(crate) counting: Option<Counting>,
}

/// Events of a plan, open on one command.
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

    /// Opens them; they count from the command's exec on. `last` is of these events alone, and empty at first.
    ///
    /// # Errors
    ///
    /// [`Error::Perf`]: the command is gone.
    pub fn open(&self, command: &HeldCommand, last: &mut LastRun) -> Result<CommandCounting<'_>, Error> {
        let counting = Counting::open(&self.0, Some(command), &mut last.answers)?;
        last.counting = None;
        Ok(CommandCounting { plan: &self.0, counting })
    }
}

impl CommandCounting<'_> {
    /// The outcome of each event up to the command's end, with the name to show it by.
    pub fn finish(self, run: &Run, last: &mut LastRun) -> Vec<(String, Outcome)> {
        let outcome = |(index, request): (usize, &super::plan::Request)| {
            let outcome = match request.spec.source {
                Source::Tool(tool) => run.of_tool(tool),
                _ => self.counting.totals(index).swap_remove(0),
            };
            (self.counting.describe(self.plan, index).name, outcome)
        };
        let outcomes = self.plan.events.iter().enumerate().map(outcome).collect();
        last.counting = Some(self.counting);
        outcomes
    }
}
