//! The calls and samples of a replay that somebody asks for, and for which a condition holds.

use super::{CallReplay, Heard, SampleField, SampleRecord, Step, sample_fields};
use crate::Event;
use crate::session::Session;
use perfuse_abi::record::{Record, Sample};
use perfuse_events::glob;
use perfuse_trace::{
    Asked, Call, CallRecord, Calls, Descriptors, ExprError, Question, Schema, Wanted, call_schema,
};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Tells the texts that a call of a thread was given which began at some time, by the places of its arguments.
pub type TextsOf = Box<dyn FnMut(u32, u64) -> Vec<(usize, String)> + Send>;

/// One that is asked for.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Told<'a> {
    /// A call, and the step at which it ended: none of one that never did.
    Call(&'a CallRecord<'a>, &'a Asked, Option<&'a Step<'a>>),
    /// A sample of another event, by its name, in a thread of this name.
    Sample(TracedSample<'a>, &'a Asked, &'a Step<'a>),
}

/// A sample that is asked for.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct TracedSample<'a> {
    /// The name of its event.
    pub name: &'a str,
    /// The name of its thread.
    pub comm: &'a [u8],
    /// Its event.
    pub event: &'a Event,
    /// The sample.
    pub sample: &'a Sample<'a>,
    /// The same as expressions see it.
    pub record: &'a SampleRecord<'a>,
}

/// Finds them.
pub struct Traced {
    wanted: Wanted,
    question: Question,
    table: &'static Calls,
    calls: CallReplay,
    /// The question for each call by its number, and for each other event by its type and config; nothing where it lacks a field.
    asked: HashMap<(Option<u32>, u64), Option<Arc<Asked>>>,
    refused: Option<ExprError>,
    texts: Option<TextsOf>,
    descriptors: Option<Descriptors>,
    paths: Vec<String>,
    without: Option<u32>,
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traced")
            .field("wanted", &self.wanted)
            .field("question", &self.question)
            .finish_non_exhaustive()
    }
}

impl Traced {
    /// The calls of this table and the events that are wanted, as far as the condition of the question holds.
    ///
    /// # Errors
    ///
    /// A fault of the question that all calls would have: where other events are wanted, too, it is found later
    /// ([`fault`](Self::fault)).
    pub fn new(wanted: Wanted, question: Question, table: &'static Calls) -> Result<Self, ExprError> {
        if wanted.has_calls && wanted.events.is_empty() {
            let mut extras = call_schema(None);
            for number in table.numbers().filter(|&number| wanted.calls.has(number)) {
                let more = call_schema(table.get(number)).into_iter();
                let known: Vec<&str> = extras.iter().map(|extra| extra.name).collect();
                let new: Vec<_> = more.filter(|extra| !known.contains(&extra.name)).collect();
                extras.extend(new);
            }
            match question.bind(&Schema::of_extras(&extras)) {
                Err(error) if error.is_unknown_name() => return Err(error),
                _ => {}
            }
        }
        Ok(Traced {
            wanted,
            question,
            table,
            calls: CallReplay::default(),
            asked: HashMap::new(),
            refused: None,
            texts: None,
            descriptors: None,
            paths: Vec::new(),
            without: None,
        })
    }

    /// With the texts that calls were given.
    #[must_use]
    pub fn with_texts(self, texts: TextsOf) -> Self {
        Traced { texts: Some(texts), ..self }
    }

    /// Descriptors are told by what they are.
    #[must_use]
    pub fn with_descriptors(self, descriptors: Descriptors) -> Self {
        Traced { descriptors: Some(descriptors), ..self }
    }

    /// Only calls that are given one of these paths, or a descriptor that is one of them; all where there are none.
    #[must_use]
    pub fn of_paths(self, paths: Vec<String>) -> Self {
        Traced { paths, ..self }
    }

    /// Samples of all other events that are there, by whatever name.
    #[must_use]
    pub fn of_all_events(mut self) -> Self {
        self.wanted.events.clear();
        self
    }

    /// Without the calls of this process.
    #[must_use]
    pub fn without_process(self, pid: u32) -> Self {
        Traced { without: Some(pid), ..self }
    }

    /// Takes a step, and hands over what is asked for.
    ///
    /// # Errors
    ///
    /// The first of `visit`.
    pub fn step<E>(
        &mut self,
        step: &Step<'_>,
        visit: &mut dyn FnMut(Told<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let (Some(known), Some(decoded)) = (&mut self.descriptors, step.decoded) {
            match &decoded.record {
                Record::Fork(task) => known.forked(task.ppid, task.pid),
                Record::Exit(task) if task.pid == task.tid => known.ended(task.pid),
                _ => {}
            }
        }
        let mut calls = std::mem::take(&mut self.calls);
        let mut done = Ok(());
        calls.step(step, &mut |heard| {
            if done.is_ok() {
                done = match heard {
                    Heard::Entered(..) => Ok(()),
                    Heard::Call(call) => self.call(call, step.session, Some(step), visit),
                    Heard::Sample(event, sample) => self.sample(event, sample, step, visit),
                };
            }
        });
        self.calls = calls;
        done
    }

    /// Hands over the calls that never returned, when all is read: with names of this session.
    ///
    /// # Errors
    ///
    /// The first of `visit`.
    pub fn rest<E>(
        &mut self,
        session: &Session,
        visit: &mut dyn FnMut(Told<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let rest = self.calls.rest();
        rest.iter().try_for_each(|call| self.call(call, session, None, visit))
    }

    /// Why the question could not be asked of any call or event.
    pub fn fault(&mut self) -> Option<ExprError> {
        self.refused.take().filter(|_| self.asked.values().all(Option::is_none))
    }

    fn call<E>(
        &mut self,
        call: &Call,
        session: &Session,
        step: Option<&Step<'_>>,
        visit: &mut dyn FnMut(Told<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.wanted.has_calls || self.without == Some(call.at.pid) {
            return Ok(());
        }
        let mut texts = self.texts.as_mut().map(|texts| texts(call.at.tid, call.at.time)).unwrap_or_default();
        if let Some(descriptors) = &mut self.descriptors {
            descriptors.tell(call, self.table, &mut texts);
        }
        // A recording has what it has, whatever is asked of it now.
        let is_of_path = |(_, text): &(usize, String)| self.paths.contains(text);
        if !self.wanted.calls.has(call.number) || !(self.paths.is_empty() || texts.iter().any(is_of_path)) {
            return Ok(());
        }
        let comm = session.comm_of(call.at.tid).map(|comm| session.comm(comm));
        let text = |index| texts.iter().find(|(place, _)| *place == index).map(|(_, text)| text.clone());
        let table = self.table;
        let record = CallRecord { call, calls: table, comm: comm.unwrap_or_default(), text: &text };
        let Some(asked) = self.asked((None, call.number), |question| {
            question.bind(&Schema::of_extras(&call_schema(table.get(call.number))))
        }) else {
            return Ok(());
        };
        if asked.admits(&record) { visit(Told::Call(&record, &asked, step)) } else { Ok(()) }
    }

    fn sample<E>(
        &mut self,
        event: &Event,
        sample: &Sample<'_>,
        step: &Step<'_>,
        visit: &mut dyn FnMut(Told<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let texts = [SampleField::Comm, SampleField::Event];
        let (fields, extras) = sample_fields(event.attr.sample_type, &texts);
        let format = step.formats.get(event.attr.config).map(|(_, format)| format);
        let kind = (Some(event.attr.type_.0), event.attr.config);
        let Some(asked) = self.asked(kind, |question| question.bind(&Schema { format, extras: &extras }))
        else {
            return Ok(());
        };
        let name = step.formats.event_name(event);
        let events = &self.wanted.events;
        if !events.is_empty() && !events.iter().any(|(wanted, _)| glob(wanted, &name)) {
            return Ok(());
        }
        let comm = sample.tid.map(|tid| step.session.name_of(tid.tid)).unwrap_or_default();
        let text = |field| match field {
            SampleField::Comm => Some(comm.to_vec()),
            _ => Some(name.clone().into_bytes()),
        };
        let order = event.format.order;
        let record =
            SampleRecord { sample, period: event.weight(sample), order, fields: &fields, text: &text };
        if !asked.admits(&record) {
            return Ok(());
        }
        let traced = TracedSample { name: &name, comm: &comm, event, sample, record: &record };
        visit(Told::Sample(traced, &asked, step))
    }

    /// The question for calls or events of a kind.
    fn asked(
        &mut self,
        kind: (Option<u32>, u64),
        bind: impl FnOnce(&Question) -> Result<Asked, ExprError>,
    ) -> Option<Arc<Asked>> {
        let Traced { asked, question, refused, .. } = self;
        let bound = asked
            .entry(kind)
            .or_insert_with(|| bind(question).map(Arc::new).map_err(|error| *refused = Some(error)).ok());
        bound.clone()
    }
}
