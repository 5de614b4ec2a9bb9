//! Checks the names: each that is used has to be defined.

use super::Parser;
use crate::scenario::words::{Result, column_of, unknown};
use crate::scenario::{Action, Expect, Expected, Quantity, Show, Statement, Target};
use std::cell::RefCell;

impl Parser<'_> {
    /// Refuses a name that is used and nowhere defined, with its place.
    pub(super) fn check(&mut self) -> Result<()> {
        let culprit = RefCell::new(String::new());
        let checked = self.check_names(&culprit);
        if checked.is_err() {
            // The name is a word, or a part of one such as a+b.enabled.
            let line = self.lines.get(self.at.max(1) - 1).copied().unwrap_or_default();
            let name = culprit.into_inner();
            let words = || line.split_whitespace().skip(1);
            let whole = words().find(|word| *word == name);
            let word = whole.or_else(|| words().find(|word| word.contains(&name)));
            self.column.set(word.map_or(0, |word| column_of(line, word)));
        }
        checked
    }

    /// Leaves the name that is wrong in `culprit`.
    fn check_names(&mut self, culprit: &RefCell<String>) -> Result<()> {
        let blame = |name: &str| name.clone_into(&mut culprit.borrow_mut());
        let programs: Vec<&str> =
            self.scenario.programs.iter().map(|program| program.name.as_str()).collect();
        let mut tasks = programs.clone();
        let mut opened: Vec<&str> = Vec::new();
        for line in &self.scenario.statements {
            self.at = line.number;
            let task = |name: &str| {
                blame(name);
                let known = tasks.contains(&name);
                if known {
                    Ok(())
                } else {
                    Err(unknown("no task or program is called", name, tasks.iter().copied()))
                }
            };
            let event = |name: &str| {
                blame(name);
                let known = opened.contains(&name);
                if known { Ok(()) } else { Err(unknown("no event is open as", name, opened.iter().copied())) }
            };
            let amounts = |all: &[Quantity]| all.iter().try_for_each(|one| event(&one.event));
            let value = |value: &Expected| match value {
                Expected::Same(all) => amounts(all),
                Expected::Between(..) => Ok(()),
            };
            match &line.statement {
                Statement::Start { program, name } => {
                    blame(program);
                    if !programs.contains(&program.as_str()) {
                        return Err(unknown("no program is called", program, programs.iter().copied()));
                    }
                    tasks.push(name);
                }
                Statement::Open(open) => {
                    if let Target::Task(name) = &open.on {
                        task(name)?;
                    }
                    open.by.as_ref().map_or(Ok(()), |name| task(name))?;
                    for name in open.group.iter().chain(&open.output) {
                        event(name)?;
                    }
                    blame(&open.name);
                    if opened.contains(&open.name.as_str()) {
                        return Err(format!("there is an event '{}' already", open.name));
                    }
                    opened.push(&open.name);
                }
                Statement::Do { action, .. } => {
                    for name in action.events() {
                        event(name)?;
                    }
                    if let Action::Prctl(name, _) | Action::Move(name, _) = action {
                        task(name)?;
                    }
                }
                Statement::Expect(expect) => match expect {
                    Expect::Value(all, expected) => {
                        amounts(all)?;
                        value(expected)?;
                    }
                    Expect::Refused(name, _)
                    | Expect::EndOfFile(name)
                    | Expect::State(name, _)
                    | Expect::Poll(name, _)
                    | Expect::Order(name, ..)
                    | Expect::Records(name, ..)
                    | Expect::Record { event: name, .. } => event(name)?,
                    Expect::Group(name, values) => {
                        event(name)?;
                        values.iter().try_for_each(value)?;
                    }
                    Expect::Active(all) => all.iter().try_for_each(|(name, _)| event(name))?,
                    Expect::Sysctl(..) => {}
                },
                Statement::Show(Show::Records(Some(name))) => event(name)?,
                Statement::Show(_) | Statement::Run(_) => {}
            }
        }
        Ok(())
    }
}

impl Action {
    /// The events it is about.
    pub(in crate::scenario) fn events(&self) -> impl Iterator<Item = &String> {
        let (event, other) = match self {
            Action::Enable(event, _)
            | Action::Disable(event, _)
            | Action::Reset(event, _)
            | Action::Refresh(event, _)
            | Action::Period(event, _)
            | Action::Pause(event, _)
            | Action::Filter(event, _)
            | Action::Modify(event, _)
            | Action::Map(event, ..)
            | Action::Unmap(event)
            | Action::MapAux(event, ..)
            | Action::UnmapAux(event)
            | Action::Close(event)
            | Action::Drain(event) => (Some(event), None),
            Action::Output(event, target) => (Some(event), target.as_ref()),
            Action::Plug(..)
            | Action::RemovePmu
            | Action::Set(..)
            | Action::MuxInterval(_)
            | Action::Privileged(_)
            | Action::MayTrace(_)
            | Action::LockedMemory(_)
            | Action::Descriptors(_)
            | Action::Prctl(..)
            | Action::Move(..) => (None, None),
        };
        event.into_iter().chain(other)
    }
}
