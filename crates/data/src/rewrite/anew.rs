//! A recording written anew as a caller wants its events, records and sections.

use super::output::{Output, Sections, Target};
use super::{RewriteError, Rewritten};
use crate::Ordered;
use crate::events::{Event, Events};
use crate::feature::{EventDescs, Feature, FeatureId, Section};
use crate::layout::AttrBytes;
use crate::reader::{Form, PerfData};
use crate::record::FileRecord;
use crate::replay::{Formats, Step};
use crate::session::Session;
use crate::tool::{HeaderAttr, Tool, ToolRecord, kind};
use perfuse_abi::record::{Decoded, Record, RecordFormat, RecordType};
use perfuse_abi::{Attr, ByteOrder, WireAttr};

/// The fate of a record that is written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays as it was.
    Stays,
    /// It stays, after what was added to the bytes.
    StaysAfter,
    /// In its place comes what was added to the bytes; any number of records.
    Changes,
}

/// Decides how a recording is written anew.
pub trait Changes {
    /// Changes the attr of an event; `tail` are its bytes that this program is too old to know.
    fn attr(&mut self, attr: &mut Attr, tail: &mut Vec<u8>) {
        let _ = (attr, tail);
    }

    /// Decides on a record. `goes` is how records of its event are laid out from now on, if that is known.
    ///
    /// # Errors
    ///
    /// The recording cannot be written so.
    fn record(
        &mut self,
        step: &Step<'_>,
        goes: Option<&RecordFormat>,
        out: &mut Vec<u8>,
    ) -> Result<Fate, RewriteError> {
        let _ = (step, goes, out);
        Ok(Fate::Stays)
    }

    /// Adds what comes after all records.
    fn last(&mut self, session: &Session, out: &mut Vec<u8>) {
        let _ = (session, out);
    }

    /// Whether the input has to be a file, and the output one: in a pipe, sections are small and come first.
    fn needs_file(&self) -> bool {
        true
    }

    /// Changes the sections of a file: numbers and bytes.
    fn sections(&mut self, sections: &mut Vec<(FeatureId, Vec<u8>)>, order: ByteOrder) {
        let _ = (sections, order);
    }
}

/// Writes a recording anew; by time, or as its records lie. Compressed records are unpacked, a directory becomes one file. Files
/// become files again where the target can seek, pipes stay pipes. [`Rewritten::kept`] are samples that stay or change.
///
/// # Errors
///
/// The input cannot be read, the target not be written; it is, or would be, a pipe and must be a file; [`Changes`] refuse it.
pub fn anew(
    mut data: PerfData<'_>,
    target: Target<'_>,
    by_time: bool,
    changes: &mut dyn Changes,
) -> Result<Rewritten, RewriteError> {
    let is_file = matches!(data.form(), Form::File(_));
    if changes.needs_file() && !(is_file && target.is_file()) {
        let words = "it has, or would get, the form of pipes, whose sections are too small for this: it takes a file, and writes one; perfuse merge -o FILE makes a file of what came from a pipe";
        return Err(RewriteError::Refused(words.to_owned()));
    }
    let (order, mut done) = (data.order(), Rewritten::default());
    let mut events: Vec<Event> = Vec::new();
    more_events(&mut events, data.events(), order, changes);
    let mut output = match is_file && target.is_file() {
        true => Output::file(target, order, &events)?,
        false => Output::pipe(target, order)?,
    };
    if is_file && output.is_pipe() {
        output.events(&events)?;
        output.sections(&changed_sections(&mut data, order, changes, &mut done)?)?;
    }
    let formats = Formats::read(&mut data);
    let mut session = Session::new();
    if let Ok(Some(Section { feature: Feature::BuildIds(ids), .. })) = data.feature(FeatureId::BUILD_ID) {
        ids.iter().for_each(|id| session.set_build_id(id));
    }
    let mut ordered =
        if by_time || data.is_directory() { Ordered::new(data) } else { Ordered::as_read(data) };
    let mut out = Vec::new();
    loop {
        let entry = match ordered.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) => {
                done.note(error)?;
                continue;
            }
        };
        more_events(&mut events, entry.events(), order, changes);
        let is_sample = entry.kind() == RecordType::SAMPLE;
        let mut decoded = Decoded::from(Record::Switch);
        let broken = if entry.is_kernel() { entry.fill(&mut decoded).err() } else { None };
        let decoded = (entry.is_kernel() && broken.is_none()).then_some(&decoded);
        decoded.inspect(|decoded| session.apply(decoded));
        let goes = entry.event_index().and_then(|index| events.get(index)).or(events.first());
        let step = Step { entry: &entry, decoded, broken, session: &session, formats: &formats };
        out.clear();
        let mut fate = changes.record(&step, goes.map(|event| &event.format), &mut out)?;
        done.samples += u64::from(is_sample);
        done.kept += u64::from(is_sample && (fate != Fate::Changes || !out.is_empty()));
        output.put(&out)?;
        if fate != Fate::Changes {
            out.clear();
            if told_anew(&entry, order, changes, &mut out) {
                output.put(&out)?;
                fate = Fate::Changes;
            }
        }
        if fate == Fate::Changes {
            continue;
        }
        output.put(entry.bytes())?;
        if entry.kind() == kind::AUXTRACE {
            let (len, size) = (entry.payload_len(), entry.bytes().len() as u64);
            output.payload(&mut ordered.data_mut().payload(), len, size)?;
        } else if entry.kind() == kind::HEADER_TRACING_DATA {
            match ordered.data_mut().tracing_data() {
                Ok(bytes) => output.put(bytes.unwrap_or_default())?,
                Err(error) => done.note(error)?,
            }
        }
    }
    out.clear();
    changes.last(&session, &mut out);
    output.put(&out)?;
    let sections = match is_file && !output.is_pipe() {
        true => changed_sections(ordered.data_mut(), order, changes, &mut done)?,
        false => Vec::new(),
    };
    output.finish(sections)?;
    Ok(done)
}

/// Adds the events that came since, with what becomes of them.
fn more_events(events: &mut Vec<Event>, known: &Events, order: ByteOrder, changes: &mut dyn Changes) {
    for event in known.iter().skip(events.len()) {
        let mut event = event.clone();
        changes.attr(&mut event.attr, &mut event.attr_tail);
        event.format = RecordFormat::of(&event.attr, order);
        events.push(event);
    }
}

fn changed_sections(
    data: &mut PerfData<'_>,
    order: ByteOrder,
    changes: &mut dyn Changes,
    done: &mut Rewritten,
) -> Result<Sections, RewriteError> {
    let mut sections = super::cut::sections(data, done)?;
    if let Some((_, bytes)) = sections.iter_mut().find(|(id, _)| *id == FeatureId::EVENT_DESC) {
        if let Some(new) = descriptions(bytes, order, changes) {
            *bytes = new;
        }
    }
    changes.sections(&mut sections, order);
    Ok(sections)
}

/// Whether a record of a pipe tells of events or of the form, and what is in its place.
fn told_anew(entry: &FileRecord<'_>, order: ByteOrder, changes: &mut dyn Changes, out: &mut Vec<u8>) -> bool {
    if entry.is_kernel() {
        return false;
    }
    match entry.tool().map(|record| record.tool) {
        Ok(Tool::HeaderAttr(HeaderAttr { attr, ids })) => {
            let Some(bytes) = changed_attr(attr, order, changes) else { return false };
            let attr = HeaderAttr { attr: AttrBytes(&bytes), ids };
            ToolRecord::from(Tool::HeaderAttr(attr)).padded().encode(order, out).is_ok()
        }
        Ok(Tool::HeaderFeature { id: FeatureId::COMPRESSED, .. }) => true,
        Ok(Tool::HeaderFeature { id: id @ FeatureId::EVENT_DESC, bytes }) => {
            let Some(bytes) = descriptions(bytes, order, changes) else { return false };
            ToolRecord::from(Tool::HeaderFeature { id, bytes: &bytes }).padded().encode(order, out).is_ok()
        }
        _ => false,
    }
}

fn changed_attr(attr: AttrBytes<'_>, order: ByteOrder, changes: &mut dyn Changes) -> Option<Vec<u8>> {
    let WireAttr { mut attr, tail } = attr.decode(order).ok()?;
    let (mut tail, mut bytes) = (tail.to_vec(), Vec::new());
    changes.attr(&mut attr, &mut tail);
    WireAttr { attr, tail: &tail }.encode(order, &mut bytes).ok()?;
    Some(bytes)
}

/// The attrs of events stand in the section with their names, too.
fn descriptions(bytes: &[u8], order: ByteOrder, changes: &mut dyn Changes) -> Option<Vec<u8>> {
    let section = Section::decode(FeatureId::EVENT_DESC, bytes, order, 0).ok()?;
    let Feature::EventDesc(EventDescs { mut events, .. }) = section.feature else { return None };
    let attrs = events.iter().map(|event| changed_attr(event.attr, order, changes));
    let mut attrs = attrs.collect::<Option<Vec<Vec<u8>>>>()?;
    let longest = attrs.iter().map(Vec::len).max().unwrap_or(0);
    attrs.iter_mut().for_each(|attr| attr.resize(longest, 0));
    events.iter_mut().zip(&attrs).for_each(|(event, attr)| event.attr = AttrBytes(attr));
    let (mut new, attr_size) = (Vec::new(), u32::try_from(longest).ok()?);
    Section::from(Feature::EventDesc(EventDescs { attr_size, events })).encode(order, &mut new).ok()?;
    Some(new)
}
