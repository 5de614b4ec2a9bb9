//! The part of a recording that a filter admits.

use super::output::{Output, Sections, Target};
use super::{RewriteError, Rewritten};
use crate::feature::{Feature, FeatureId, SampleTime, Section};
use crate::names::is_name_of;
use crate::reader::{Form, PerfData};
use crate::record::FileRecord;
use crate::replay::{Filter, Formats, Selection, Switched, event_names};
use crate::session::Session;
use crate::tool::{Tool, kind};
use crate::{Error, Location, Ordered, Problem};
use perfuse_abi::ByteOrder;
use perfuse_abi::record::{Decoded, Record, RecordType, Tid};

/// Sections take no more memory than this together.
const MOST_SECTIONS: u64 = 256 << 20;

/// Names of events in a pipe are read no more often than this.
const MOST_NAMINGS: u32 = 64;

/// Sections that tell of the form of a file, which is a new one.
const OF_FORM: [FeatureId; 3] = [FeatureId::AUXTRACE, FeatureId::COMPRESSED, FeatureId::DIR_FORMAT];

/// Keeps the samples that a filter admits, and all that is needed to read them: every other record, events, sections.
/// With nothing asked for, the result has the same records.
///
/// The order of the file stays, but where samples are chosen by the name of their thread, and in a directory: these become
/// one file in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// Samples that are kept.
    pub filter: Filter,
    /// Names of events that are kept, with or without their modifiers; empty for all. A group's sample is one of its leader's.
    pub events: Vec<String>,
}

impl Cut {
    /// Writes the part of a recording. A recording in the form of pipes keeps it in a file, too.
    ///
    /// # Errors
    ///
    /// The input cannot be read, or the target not be written; there is no event of a name, or no time of which a part can be
    /// taken. Broken records within the input are passed over and told.
    pub fn run(&self, mut data: PerfData<'_>, target: Target<'_>) -> Result<Rewritten, RewriteError> {
        let mut filter = self.filter.clone();
        if let Some(spans) = &mut filter.time {
            spans.settle(&mut data)?;
        }
        let is_file = matches!(data.form(), Form::File(_));
        let mut done = Rewritten::default();
        let order = data.order();
        let is_any_moment = filter.cpus.is_none()
            && filter.time.is_none()
            && filter.expr.is_none()
            && filter.switches.is_empty();
        let admits_all = self.events.is_empty() && filter.admits_all_tasks() && is_any_moment;
        let (is_wanted, names_read) = (Vec::new(), 0);
        let selection = filter.expr.clone().map(|expr| Selection::new(expr, false));
        let switched = Switched::new(filter.switches.clone());
        let formats = Formats::read(&mut data);
        let mut cutting = Cutting {
            cut: self,
            filter,
            selection,
            switched,
            formats,
            admits_all,
            is_wanted,
            names_read,
            first: u64::MAX,
            last: 0,
        };
        cutting.learn_events(&mut data);
        if is_file {
            cutting.check_names(&mut data)?;
        }
        let mut output = match is_file && target.is_file() {
            true => Output::file(target, order, data.events())?,
            false => Output::pipe(target, order)?,
        };
        if is_file && output.is_pipe() {
            output.events(data.events())?;
            let mut sections = sections(&mut data, &mut done)?;
            sections.retain(|(id, _)| *id != FeatureId::SAMPLE_TIME || cutting.admits_all);
            output.sections(&sections)?;
        }
        let by_time = !self.filter.comms.is_empty()
            || self.filter.expr.is_some()
            || !self.filter.switches.is_empty()
            || data.is_directory();
        let mut ordered = if by_time { Ordered::new(data) } else { Ordered::as_read(data) };
        cutting.records(&mut ordered, &mut output, &mut done)?;
        let data = ordered.data_mut();
        if !is_file {
            cutting.check_names(data)?;
            output.finish(Vec::new())?;
            return Ok(done);
        }
        let mut sections = if output.is_pipe() { Vec::new() } else { sections(data, &mut done)? };
        cutting.tell_times(&mut sections, order);
        output.finish(sections)?;
        Ok(done)
    }
}

/// A cut that is being made.
struct Cutting<'c> {
    cut: &'c Cut,
    filter: Filter,
    selection: Option<Selection>,
    switched: Switched,
    formats: Formats,
    /// Nothing is asked for.
    admits_all: bool,
    /// Of each event, whether its samples are wanted.
    is_wanted: Vec<bool>,
    /// How often the names of a pipe's events were read.
    names_read: u32,
    /// Times of the first and the last sample that was kept.
    first: u64,
    last: u64,
}

impl Cutting<'_> {
    /// Finds out of each event whether it is asked for.
    fn learn_events(&mut self, data: &mut PerfData<'_>) {
        if !self.cut.events.is_empty() {
            self.is_wanted = event_names(data).iter().map(|name| self.is_asked(name)).collect();
        }
    }

    /// The same of events that came in a pipe, or of their names.
    fn learn_more(&mut self, data: &mut PerfData<'_>, kind: RecordType) {
        let named = [kind::HEADER_FEATURE, kind::EVENT_UPDATE, kind::HEADER_TRACING_DATA].contains(&kind);
        if named && self.names_read < MOST_NAMINGS {
            self.names_read += 1;
            self.learn_events(data);
        }
        for index in self.is_wanted.len()..data.events().len() {
            let is_asked = self.is_asked(&data.events()[index].display_name());
            self.is_wanted.push(is_asked);
        }
    }

    fn is_asked(&self, name: &str) -> bool {
        self.cut.events.iter().any(|asked| is_name_of(asked, name))
    }

    fn check_names(&self, data: &mut PerfData<'_>) -> Result<(), RewriteError> {
        if self.cut.events.is_empty() {
            return Ok(());
        }
        let names = event_names(data);
        let missing = self.cut.events.iter().find(|asked| !names.iter().any(|name| is_name_of(asked, name)));
        match missing {
            Some(name) => Err(RewriteError::NoEvent { name: name.clone(), names }),
            None => Ok(()),
        }
    }

    fn records(
        &mut self,
        ordered: &mut Ordered<'_>,
        output: &mut Output<'_>,
        done: &mut Rewritten,
    ) -> Result<(), RewriteError> {
        let mut session = Session::new();
        loop {
            let entry = match ordered.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(()),
                Err(error) => {
                    done.note(error)?;
                    continue;
                }
            };
            let kind = entry.kind();
            if entry.is_kernel() {
                if self.keeps(&entry, &mut session, done)? {
                    output.put(entry.bytes())?;
                }
                continue;
            }
            if kind == kind::AUXTRACE {
                output.put(entry.bytes())?;
                let (len, size) = (entry.payload_len(), entry.bytes().len() as u64);
                output.payload(&mut ordered.data_mut().payload(), len, size)?;
                continue;
            }
            if !self.is_stale(&entry) {
                output.put(entry.bytes())?;
            }
            if kind == kind::HEADER_TRACING_DATA {
                if let Some(bytes) =
                    ordered.data_mut().tracing_data().or_else(|error| done.note(error).map(|()| None))?
                {
                    output.put(bytes)?;
                }
                self.formats = Formats::read(ordered.data_mut());
            }
            if !self.cut.events.is_empty() {
                self.learn_more(ordered.data_mut(), kind);
            }
        }
    }

    /// Whether a section that came as a record is no longer true.
    fn is_stale(&self, entry: &FileRecord<'_>) -> bool {
        match entry.tool().map(|record| record.tool) {
            Ok(Tool::HeaderFeature { id, .. }) => {
                id == FeatureId::COMPRESSED || id == FeatureId::SAMPLE_TIME && !self.admits_all
            }
            _ => false,
        }
    }

    /// Whether a record of the kernel is kept: any that is no sample, and samples that are admitted.
    fn keeps(
        &mut self,
        entry: &FileRecord<'_>,
        session: &mut Session,
        done: &mut Rewritten,
    ) -> Result<bool, RewriteError> {
        let is_sample = entry.kind() == RecordType::SAMPLE;
        done.samples += u64::from(is_sample);
        if self.admits_all {
            done.kept += u64::from(is_sample);
            return Ok(true);
        }
        // Names of threads may stand in an expression, too.
        let by_name = !self.filter.comms.is_empty() || self.selection.is_some();
        if !is_sample {
            if by_name {
                if let Ok(decoded) = entry.decode() {
                    session.apply(&decoded);
                }
            }
            return Ok(true);
        }
        // A sample that cannot be read is in no report.
        let Ok(Decoded { record: Record::Sample(sample), .. }) = entry.decode() else { return Ok(false) };
        if !(self.filter.admits_time(sample.time)
            && self.switched.admits(entry, &self.formats)
            && self.filter.admits_cpu(sample.cpu.map(|cpu| cpu.cpu)))
        {
            return Ok(false);
        }
        if !self.cut.events.is_empty() {
            let is_wanted = entry.event_index().and_then(|index| self.is_wanted.get(index));
            if is_wanted != Some(&true) {
                return Ok(false);
            }
        }
        let Tid { pid, tid } = sample.tid.unwrap_or_default();
        let name = if by_name { session.name_of(tid) } else { Default::default() };
        if !self.filter.admits_task(pid, tid, &name) {
            return Ok(false);
        }
        if let Some(selection) = &mut self.selection {
            let admitted = selection.admits(entry, &sample, (session, &self.formats), &|_| None);
            if !admitted.map_err(|error| RewriteError::Refused(format!("--filter: {}", error.explain())))? {
                return Ok(false);
            }
        }
        if let Some(time) = sample.time {
            (self.first, self.last) = (self.first.min(time), self.last.max(time));
        }
        done.kept += 1;
        Ok(true)
    }

    /// The times of the first and the last sample are those of the samples that were kept.
    fn tell_times(&self, sections: &mut Sections, order: ByteOrder) {
        let times = sections.iter_mut().find(|(id, _)| *id == FeatureId::SAMPLE_TIME);
        if let (Some((_, bytes)), true) = (times, self.first <= self.last) {
            let (first_ns, last_ns) = (self.first, self.last);
            let section = Section::from(Feature::SampleTime(SampleTime { first_ns, last_ns }));
            bytes.clear();
            // A vector takes all bytes.
            let _ = section.encode(order, bytes);
        }
    }
}

/// The sections of a file, without those that its form needs.
pub(super) fn sections(data: &mut PerfData<'_>, done: &mut Rewritten) -> Result<Sections, RewriteError> {
    let ids: Vec<FeatureId> = data.features().filter(|id| !OF_FORM.contains(id)).collect();
    let (mut sections, mut size) = (Vec::new(), 0);
    for id in ids {
        match data.feature_bytes(id) {
            Ok(Some(bytes)) => {
                size += bytes.len() as u64;
                if size > MOST_SECTIONS {
                    let problem = Problem::TooLarge { size, limit: MOST_SECTIONS };
                    done.note(Error::new(Location::default(), "feature sections", problem))?;
                    break;
                }
                sections.push((id, bytes.to_vec()));
            }
            Ok(None) => {}
            Err(error) => done.note(error)?,
        }
    }
    Ok(sections)
}
