//! Filters of tracepoints: the kernel's share is told to it, and what it cannot do is done here, on records as they come from the rings.

use crate::{Error, Request};
use perfuse::abi::record::{Decoded, RawRecord, Record, RecordFormat, RecordType};
use perfuse::abi::{Attr, ByteOrder, SampleType};
use perfuse_data::replay::{SampleField, SampleRecord, sample_fields};
use perfuse_trace::{Bound, Expr, ExprError, Format, Schema};
use std::collections::HashMap;

/// A filter of an event in two parts that both have to hold.
pub(crate) struct Split {
    /// What the kernel is told.
    pub(crate) kernel: Option<String>,
    /// What is left.
    rest: Option<(Bound, Vec<SampleField>)>,
}

/// Parts the filter of a request. What is no expression here, but may be one of the kernel's, is the kernel's. The embedded kernel has
/// no filters.
pub(crate) fn split(request: &Request, attr: &Attr, is_embedded: bool) -> Result<Split, Error> {
    let text = request.filter.clone().unwrap_or_default();
    let name = &request.spec.name;
    let whole = |text| Ok(Split { kernel: Some(text), rest: None });
    let (Some(format), Ok(expr)) = (format_of(name), text.parse::<Expr>()) else { return whole(text) };
    let refused = |error: ExprError| Error::Filter(format!("--filter for {name}: {}", error.explain()));
    // The command's name is the kernel's to tell: records have none.
    let (_, extras) =
        sample_fields(attr.sample_type | SampleType::CPU | SampleType::TID, &[SampleField::Comm]);
    let schema = Schema { format: Some(&format), extras: &extras };
    let mut part = expr.kernel_part(&schema);
    if is_embedded {
        (part.filter, part.rest, part.why) = (None, Some(expr.clone()), None);
    }
    if let Err(error) = expr.bind(&schema) {
        // The kernel knows more of functions and of texts behind pointers.
        return if part.rest.is_none() || !error.is_unknown_name() {
            whole(text)
        } else {
            Err(refused(error))
        };
    }
    let Some(rest) = part.rest else { return Ok(Split { kernel: part.filter, rest: None }) };
    let why = part.why.unwrap_or_default();
    let (fields, extras) = sample_fields(attr.sample_type, &[]);
    let schema = Schema { format: Some(&format), extras: &extras };
    let bound = rest.bind(&schema).map_err(|_| {
        let known = |name: &&str| format.field(name).is_none() && !extras.iter().any(|extra| extra.name == *name);
        let lacks = rest.names().into_iter().find(known).unwrap_or_default();
        Error::Filter(format!(
            "--filter for {name}: the kernel cannot do '{rest}', as {why}, and the record of a hit does not tell {lacks}; \
             --filter of report and script can"
        ))
    })?;
    log::info!("{name}: '{rest}' is evaluated on records: the kernel cannot, as {why}");
    Ok(Split { kernel: part.filter, rest: Some((bound, fields)) })
}

/// The format of a tracepoint of the running kernel.
fn format_of(name: &str) -> Option<Format> {
    let (system, name) = name.split_once(':')?;
    Format::parse(std::str::from_utf8(&perfuse::tracefs::format(system, name)?).ok()?)
}

/// Leaves out samples that filters do not mean.
#[derive(Debug, Default)]
pub(crate) struct Sieve {
    events: Vec<Sifted>,
    /// Events by the ids of their samples.
    by_id: HashMap<u64, usize>,
    /// All samples are of one event.
    is_one: bool,
}

#[derive(Debug)]
struct Sifted {
    bound: Bound,
    fields: Vec<SampleField>,
    format: RecordFormat,
    period: u64,
}

impl Sieve {
    /// Takes the rest of an event's filter.
    pub(crate) fn add(&mut self, split: Split, attr: &Attr, ids: impl Iterator<Item = u64>, is_one: bool) {
        let Some((bound, fields)) = split.rest else { return };
        let format = RecordFormat::of(attr, ByteOrder::NATIVE);
        self.by_id.extend(ids.map(|id| (id, self.events.len())));
        self.events.push(Sifted { bound, fields, format, period: attr.sample_period });
        self.is_one = is_one;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The records that are to be kept, of those from one ring; `format` knows where ids are.
    pub(crate) fn pick(&self, first: &[u8], second: &[u8], format: &RecordFormat) -> Vec<u8> {
        let all = [first, second].concat();
        let (mut rest, mut kept) = (all.as_slice(), Vec::with_capacity(all.len()));
        while let Ok((record, after)) = RawRecord::split(rest, ByteOrder::NATIVE) {
            if self.keeps(&record, format) {
                kept.extend_from_slice(&rest[..rest.len() - after.len()]);
            }
            rest = after;
        }
        kept
    }

    fn keeps(&self, record: &RawRecord<'_>, format: &RecordFormat) -> bool {
        if record.header.kind != RecordType::SAMPLE {
            return true;
        }
        let by_id = format.id_of(record).and_then(|id| self.by_id.get(&id)).copied();
        let Some(sifted) = by_id.or(self.is_one.then_some(0)).and_then(|index| self.events.get(index)) else {
            return true;
        };
        // A sample that cannot be taken apart is for those who read the recording to tell of.
        let Ok(Decoded { record: Record::Sample(sample), .. }) = record.decode(&sifted.format) else {
            return true;
        };
        let (period, order) = (sample.period.unwrap_or(sifted.period), ByteOrder::NATIVE);
        sifted.bound.admits(&SampleRecord {
            sample: &sample,
            period,
            order,
            fields: &sifted.fields,
            text: &|_| None,
        })
    }
}
