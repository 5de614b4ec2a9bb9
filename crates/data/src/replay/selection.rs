//! Samples chosen by an expression: fields of tracepoints, and what every sample tells.

use super::Formats;
use crate::session::Session;
use crate::{Event, FileRecord};
use perfuse_abi::record::{Sample, Weight};
use perfuse_abi::{ByteOrder, EventType, SampleType};
use perfuse_trace::{Bound, Expr, ExprError, Extra, Kind, Record, Schema};
use std::borrow::Cow;

/// Something that a sample tells beside its data, in the order of [`FIELDS`].
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

/// What samples of an event tell.
fn fields(event: &Event, with_places: bool) -> (Vec<SampleField>, Vec<Extra>) {
    let has = |(field, _, needs): &&(SampleField, Extra, SampleType)| {
        let is_place = matches!(field, F::Sym | F::Dso);
        let has_weight = event.attr.sample_type.intersects(SampleType::WEIGHT | SampleType::WEIGHT_STRUCT);
        event.attr.sample_type.contains(*needs)
            && (with_places || !is_place)
            && (*field != F::Weight || has_weight)
    };
    FIELDS.iter().filter(has).map(|(field, extra, _)| (*field, *extra)).unzip()
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
        Ok(bound.admits(&Told { session, formats, event, sample, fields, places }))
    }

    /// Finds out what the expression means for each event.
    fn bind(&mut self, entry: &FileRecord<'_>, formats: &Formats) -> Result<(), ExprError> {
        let mut refused = None;
        self.bound.clear();
        for event in entry.events().iter() {
            let (fields, extras) = fields(event, self.with_places);
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

/// A sample, as an expression sees it.
struct Told<'a> {
    session: &'a Session,
    formats: &'a Formats,
    event: &'a Event,
    sample: &'a Sample<'a>,
    fields: &'a [SampleField],
    places: Places<'a>,
}

impl Record for Told<'_> {
    fn data(&self) -> &[u8] {
        self.sample.raw.as_ref().map_or(&[], |raw| raw.as_bytes())
    }

    fn order(&self) -> ByteOrder {
        self.event.format.order
    }

    fn number(&self, extra: usize) -> Option<u64> {
        let Told { event, sample, .. } = self;
        match self.fields.get(extra)? {
            F::Pid => sample.tid.map(|tid| tid.pid.into()),
            F::Tid => sample.tid.map(|tid| tid.tid.into()),
            F::Cpu => sample.cpu.map(|cpu| cpu.cpu.into()),
            F::Time => sample.time,
            F::Period => Some(event.weight(sample)),
            F::Addr => sample.addr,
            F::Ip => sample.ip,
            F::Weight => sample.weight.map(Weight::first),
            _ => None,
        }
    }

    fn text(&self, extra: usize) -> Option<Cow<'_, [u8]>> {
        match self.fields.get(extra)? {
            F::Comm => {
                let tid = self.sample.tid?;
                Some(self.session.comm(self.session.comm_of(tid.pid, tid.tid)?).into())
            }
            F::Event => Some(self.formats.event_name(self.event).into_bytes().into()),
            F::Sym => (self.places)(true).map(|name| name.into_bytes().into()),
            F::Dso => (self.places)(false).map(|name| name.into_bytes().into()),
            _ => None,
        }
    }
}
