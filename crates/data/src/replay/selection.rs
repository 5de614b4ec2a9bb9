//! Samples chosen by an expression: fields of tracepoints, and what every sample tells.

use super::Formats;
use crate::session::Session;
use crate::{Event, FileRecord};
use perfuse_abi::record::{Sample, Weight};
use perfuse_abi::{ByteOrder, EventType, SampleType};
use perfuse_trace::{Bound, Expr, ExprError, Extra, Kind, Record, Schema};
use std::borrow::Cow;

/// Something that a sample tells beside its data, in the order in which they are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SampleField {
    /// The process.
    Pid,
    /// The thread.
    Tid,
    /// The cpu.
    Cpu,
    /// The time in nanoseconds.
    Time,
    /// How many events it stands for.
    Period,
    /// The address of data.
    Addr,
    /// The address of the instruction.
    Ip,
    /// The weight, such as a latency.
    Weight,
    /// The name of the thread.
    Comm,
    /// The name of the event.
    Event,
    /// The function.
    Sym,
    /// The object, without folders.
    Dso,
}

use SampleField as F;

const TEXTS: [SampleField; 4] = [F::Comm, F::Event, F::Sym, F::Dso];

/// All of them with their names, and the part of a sample that they need.
const FIELDS: [(SampleField, Extra, SampleType); 12] = [
    (F::Pid, number("pid"), SampleType::TID),
    (F::Tid, number("tid"), SampleType::TID),
    (F::Cpu, number("cpu"), SampleType::CPU),
    (F::Time, number("time"), SampleType::TIME),
    (F::Period, number("period"), SampleType::empty()),
    (F::Addr, number("addr"), SampleType::ADDR),
    (F::Ip, number("ip"), SampleType::IP),
    (F::Weight, number("weight"), SampleType::empty()),
    (F::Comm, text("comm"), SampleType::TID),
    (F::Event, text("event"), SampleType::empty()),
    (F::Sym, text("sym"), SampleType::IP),
    (F::Dso, text("dso"), SampleType::IP),
];

const fn number(name: &'static str) -> Extra {
    Extra { name, kind: Kind::Unsigned }
}

const fn text(name: &'static str) -> Extra {
    Extra { name, kind: Kind::Text }
}

/// What samples of this type tell, as far as those who ask know texts.
pub fn sample_fields(type_: SampleType, texts: &[SampleField]) -> (Vec<SampleField>, Vec<Extra>) {
    let has = |(field, extra, needs): &&(SampleField, Extra, SampleType)| {
        let has_weight = type_.intersects(SampleType::WEIGHT | SampleType::WEIGHT_STRUCT);
        type_.contains(*needs)
            && (extra.kind != Kind::Text || texts.contains(field))
            && (*field != F::Weight || has_weight)
    };
    FIELDS.iter().filter(has).map(|(field, extra, _)| (*field, *extra)).unzip()
}

/// A sample, as an expression sees it.
pub struct SampleRecord<'a> {
    /// The sample.
    pub sample: &'a Sample<'a>,
    /// How many events it stands for.
    pub period: u64,
    /// The order of the bytes of its data.
    pub order: ByteOrder,
    /// What it tells, as the schema has it.
    pub fields: &'a [SampleField],
    /// Tells texts.
    pub text: &'a dyn Fn(SampleField) -> Option<Vec<u8>>,
}

impl Record for SampleRecord<'_> {
    fn data(&self) -> &[u8] {
        self.sample.raw.as_ref().map_or(&[], |raw| raw.as_bytes())
    }

    fn order(&self) -> ByteOrder {
        self.order
    }

    fn number(&self, extra: usize) -> Option<u64> {
        let sample = self.sample;
        match self.fields.get(extra)? {
            F::Pid => sample.tid.map(|tid| tid.pid.into()),
            F::Tid => sample.tid.map(|tid| tid.tid.into()),
            F::Cpu => sample.cpu.map(|cpu| cpu.cpu.into()),
            F::Time => sample.time,
            F::Period => Some(self.period),
            F::Addr => sample.addr,
            F::Ip => sample.ip,
            F::Weight => sample.weight.map(Weight::first),
            _ => None,
        }
    }

    fn text(&self, extra: usize) -> Option<Cow<'_, [u8]>> {
        (self.text)(*self.fields.get(extra)?).map(Cow::Owned)
    }
}

/// The samples of a recording that an expression means. Events that lack a field which it names have none of them.
#[derive(Clone, Debug)]
pub struct Selection {
    expr: Expr,
    with_places: bool,
    /// By event; nothing of one that lacks a field.
    bound: Vec<Option<(Bound, Vec<SampleField>)>>,
}

/// Finds the function (`true`) or the object of a sample.
pub type Places<'p> = &'p dyn Fn(bool) -> Option<String>;

impl Selection {
    /// Of what an expression means. `with_places`: those who ask can tell functions and objects.
    pub fn new(expr: Expr, with_places: bool) -> Self {
        Selection { expr, with_places, bound: Vec::new() }
    }

    /// Whether functions or objects are asked for.
    pub fn names_places(&self) -> bool {
        self.expr.names().iter().any(|name| matches!(name.trim_start_matches("sample."), "sym" | "dso"))
    }

    /// Whether a sample is among them.
    ///
    /// # Errors
    ///
    /// The expression makes no sense for an event, or no event of the recording has all of its fields.
    pub fn admits(
        &mut self,
        entry: &FileRecord<'_>,
        sample: &Sample<'_>,
        (session, formats): (&Session, &Formats),
        places: Places<'_>,
    ) -> Result<bool, ExprError> {
        let Some((index, event)) = entry.event_index().zip(entry.event()) else { return Ok(false) };
        if index >= self.bound.len() {
            self.bind(entry, formats)?;
        }
        let Some(Some((bound, fields))) = self.bound.get(index) else { return Ok(false) };
        let text = |field| match field {
            F::Comm => sample.tid.map(|tid| session.name_of(tid.tid).into_owned()),
            F::Event => Some(formats.event_name(event).into_bytes()),
            F::Sym => places(true).map(String::into_bytes),
            F::Dso => places(false).map(String::into_bytes),
            _ => None,
        };
        let order = event.format.order;
        Ok(bound.admits(&SampleRecord { sample, period: event.weight(sample), order, fields, text: &text }))
    }

    /// Finds out what the expression means for each event.
    fn bind(&mut self, entry: &FileRecord<'_>, formats: &Formats) -> Result<(), ExprError> {
        let mut refused = None;
        self.bound.clear();
        for event in entry.events().iter() {
            let texts = if self.with_places { &TEXTS[..] } else { &TEXTS[..2] };
            let (fields, extras) = sample_fields(event.attr.sample_type, texts);
            let schema = Schema { format: format_of(event, formats), extras: &extras };
            self.bound.push(match self.expr.bind(&schema) {
                Ok(bound) => Some((bound, fields)),
                Err(error) if error.is_unknown_name() => {
                    // Of several events, the one with the most fields can offer the best names.
                    refused =
                        Some(error).filter(|_| refused.is_none() || schema.format.is_some()).or(refused);
                    None
                }
                Err(error) => return Err(error),
            });
        }
        match refused.filter(|_| self.bound.iter().all(Option::is_none)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

fn format_of<'f>(event: &Event, formats: &'f Formats) -> Option<&'f perfuse_trace::Format> {
    let is_traced = event.attr.type_ == EventType::TRACEPOINT;
    formats.get(event.attr.config).filter(|_| is_traced).map(|(_, format)| format)
}
