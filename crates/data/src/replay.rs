//! A recording gone through as it happened: its records by time, each with what was running then.
//!
//! [`Replay`] is the one way for all who read recordings: reports, scripts, exports. [`Filter`] says which records
//! count, [`Groups`] which events a sample of a group stands for, [`Formats`] what tracepoints say.

mod calls;
mod chains;
mod deferred;
mod filter;
mod formats;
mod groups;
mod selection;
mod switches;
mod traced;

use crate::error::Location;
use crate::events::Events;
use crate::feature::{Feature, FeatureId, Section};
use crate::part::Found;
use crate::session::Session;
use crate::tool::{Tool, kind};
use crate::{Error, FileRecord, Ordered, PerfData};
pub use calls::{CallReplay, Heard};
pub use chains::{callstack, is_to_be_unwound, rest_of_chain};
use deferred::Deferred;
pub(crate) use deferred::{MOST_WAITING, cookie, joined};
pub use filter::{CpuRanges, Filter, NoTimes, TimeSpans, sample_span};
pub use formats::{Formats, event_names};
pub use groups::Groups;
use perfuse_abi::record::{Decoded, RawRecord, Record, Sample};
pub use selection::{Places, SampleField, SampleRecord, Selection, sample_fields};
use std::ops::ControlFlow;
pub use switches::{Switched, Switches};
pub use traced::{TextsOf, Told, Traced, TracedSample};

/// Goes through a recording.
///
/// ```
/// use perfuse_abi::record::{Comm, Record, RecordFormat, Tid};
/// use perfuse_abi::{Attr, ByteOrder, EventType};
/// use perfuse_data::{NewEvent, PerfData, Writer, replay::Replay};
/// use std::io::Cursor;
///
/// let attr = Attr::new(EventType::SOFTWARE);
/// let event = NewEvent { attr, name: "cpu-clock".into(), ids: vec![7] };
/// let mut writer = Writer::file(Cursor::new(Vec::new()), &[event])?;
/// let comm = Record::Comm(Comm { tid: Tid { pid: 1, tid: 1 }, name: b"init".as_slice().into() });
/// writer.record(&comm.into(), &RecordFormat::of(&attr, ByteOrder::NATIVE))?;
/// let file = writer.finish(Vec::new())?;
///
/// let data = PerfData::from_seekable(Cursor::new(file.into_inner()), Default::default())?;
/// let mut names = Vec::new();
/// Replay::new(data).each(|step| {
///     let step = step?;
///     names.extend(step.session.thread(1).map(|thread| step.session.comm(thread.comm).to_vec()));
///     Ok::<(), perfuse_data::Error>(())
/// })?;
/// assert_eq!(names, [b"init"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Replay<'i> {
    ordered: Ordered<'i>,
    session: Session,
    formats: Formats,
    /// If callchains are joined.
    deferred: Option<Deferred>,
}

/// A record, and what was known when it came about, it included.
#[derive(Debug)]
#[non_exhaustive]
pub struct Step<'a> {
    /// The record.
    pub entry: &'a FileRecord<'a>,
    /// The same taken apart, if it is one of the kernel's, and not broken.
    pub decoded: Option<&'a Decoded<'a>>,
    /// Why a record of the kernel cannot be taken apart.
    pub broken: Option<Error>,
    /// The processes and what they have mapped.
    pub session: &'a Session,
    /// The formats of tracepoints.
    pub formats: &'a Formats,
}

impl<'a> Step<'a> {
    /// The sample, if the record is one.
    pub fn sample(&self) -> Option<&'a Sample<'a>> {
        match &self.decoded?.record {
            Record::Sample(sample) => Some(sample),
            _ => None,
        }
    }

    /// The same step with another record in place of its own: one with the callchain unwound.
    #[must_use]
    pub fn with<'b>(&'b self, decoded: &'b Decoded<'b>) -> Step<'b> {
        let Step { entry, session, formats, .. } = *self;
        Step { entry, decoded: Some(decoded), broken: None, session, formats }
    }
}

/// Records that the kernel lost, as a recording tells of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    in_rings: u64,
    by_events: u64,
}

impl Lost {
    /// Adds what a step tells.
    pub fn add(&mut self, step: &Step<'_>) {
        match step.decoded.map(|decoded| &decoded.record) {
            Some(Record::Lost(record)) => self.in_rings = self.in_rings.saturating_add(record.lost),
            Some(Record::LostSamples(count)) => self.by_events = self.by_events.saturating_add(*count),
            _ => {}
        }
    }

    /// Records in all. A ring tells of its losses as they come (`PERF_RECORD_LOST`), and those who record have the events tell of
    /// the same ones at the end (`PERF_RECORD_LOST_SAMPLES`, from `PERF_FORMAT_LOST`): they count once.
    pub fn total(self) -> u64 {
        self.in_rings.max(self.by_events)
    }
}

impl<'i> Replay<'i> {
    /// By time.
    pub fn new(data: PerfData<'i>) -> Self {
        Self::of(Ordered::new(data))
    }

    /// In the order that was chosen.
    pub fn of(mut ordered: Ordered<'i>) -> Self {
        let mut session = Session::new();
        let data = ordered.data_mut();
        if let Ok(Some(Section { feature: Feature::BuildIds(ids), .. })) = data.feature(FeatureId::BUILD_ID) {
            ids.iter().for_each(|id| session.set_build_id(id));
        }
        let formats = Formats::read(data);
        Replay { ordered, session, formats, deferred: None }
    }

    /// Samples whose callchain has its user part in a later record come with that record, and with all of the callchain. What
    /// did not come by the end, or too late, is missing.
    #[must_use]
    pub fn joined(mut self) -> Self {
        self.deferred = Some(Deferred::default());
        self
    }

    /// Hands over each record to `visit`, or why there is none at a place, and goes on with what can be read around
    /// that. Ends with the recording, or with the first error of `visit`.
    pub fn each<E>(
        &mut self,
        mut visit: impl FnMut(Result<Step<'_>, Error>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut ended = Ok(());
        self.go_through(&mut |step| match visit(step) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                ended = Err(error);
                ControlFlow::Break(())
            }
        });
        ended
    }

    /// Compiled once, in this crate, whatever the visitor is.
    fn go_through(&mut self, visit: &mut dyn FnMut(Result<Step<'_>, Error>) -> ControlFlow<()>) {
        let Replay { ordered, session, formats, deferred } = self;
        // In a pipe the formats of tracepoints follow a record, and are there when the next one is.
        let mut expects_formats = false;
        loop {
            if expects_formats && formats.is_empty() {
                *formats = Formats::read(ordered.data_mut());
            }
            let flow = match ordered.next() {
                Ok(Some(entry)) if entry.is_kernel() => {
                    let mut decoded = Decoded::from(Record::Switch);
                    let broken = entry.fill(&mut decoded).err();
                    let decoded = broken.is_none().then_some(&decoded);
                    decoded.inspect(|decoded| session.apply(decoded));
                    let due = match (deferred.as_mut(), decoded) {
                        (Some(deferred), Some(decoded)) => match due(deferred, &entry, decoded) {
                            Some(due) => due,
                            None => continue,
                        },
                        _ => Vec::new(),
                    };
                    let mut flow = visit(Ok(Step { entry: &entry, decoded, broken, session, formats }));
                    for (location, bytes) in &due {
                        if flow.is_continue() {
                            flow = again(entry.events(), *location, bytes, (session, formats), visit);
                        }
                    }
                    flow
                }
                Ok(Some(entry)) => {
                    expects_formats |= entry.kind() == kind::HEADER_TRACING_DATA;
                    if let Ok(Tool::BuildId(id)) = entry.tool().map(|record| record.tool) {
                        session.set_build_id(&id);
                    }
                    visit(Ok(Step { entry: &entry, decoded: None, broken: None, session, formats }))
                }
                Ok(None) => {
                    let due = deferred.as_mut().map_or_else(Vec::new, |deferred| deferred.give_up(true));
                    let events = ordered.data().events();
                    let _ = due.iter().try_for_each(|(location, bytes)| {
                        again(events, *location, bytes, (session, formats), visit)
                    });
                    return;
                }
                Err(error) => visit(Err(error)),
            };
            if flow.is_break() {
                return;
            }
        }
    }

    /// The recording.
    pub fn data(&self) -> &PerfData<'i> {
        self.ordered.data()
    }

    /// The recording, to read its sections.
    pub fn data_mut(&mut self) -> &mut PerfData<'i> {
        self.ordered.data_mut()
    }

    /// The formats of tracepoints, as far as they are known.
    pub fn formats(&self) -> &Formats {
        &self.formats
    }

    /// The same, to add what a recording lacks.
    pub fn formats_mut(&mut self) -> &mut Formats {
        &mut self.formats
    }

    /// The processes as they are now.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// How many records came later than younger ones.
    pub fn late(&self) -> u64 {
        self.ordered.late()
    }

    /// The recording, and its processes as they were left.
    pub fn into_parts(self) -> (PerfData<'i>, Session) {
        (self.ordered.into_data(), self.session)
    }
}

/// The samples that go on with a record, by their places; nothing if it is one that waits itself.
fn due(
    deferred: &mut Deferred,
    entry: &FileRecord<'_>,
    decoded: &Decoded<'_>,
) -> Option<Vec<(Location, Vec<u8>)>> {
    match &decoded.record {
        Record::Sample(sample) => {
            let Some((of, format)) = cookie(sample).zip(entry.format()) else { return Some(Vec::new()) };
            deferred.wait(of, entry.location, entry.bytes(), format);
            None
        }
        Record::CallchainDeferred(rest) => {
            let of = decoded.sample_id.tid.map(|tid| (tid, rest.cookie));
            let mut due = deferred.give_up(false);
            due.extend(of.into_iter().flat_map(|of| deferred.join(of, rest.ips)));
            Some(due)
        }
        _ => Some(Vec::new()),
    }
}

/// Hands over a sample that had to wait.
fn again(
    events: &Events,
    location: Location,
    bytes: &[u8],
    (session, formats): (&Session, &Formats),
    visit: &mut dyn FnMut(Result<Step<'_>, Error>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Ok((RawRecord { header, .. }, _)) = RawRecord::split(bytes, events.order()) else {
        return ControlFlow::Continue(());
    };
    let entry = FileRecord::new(Found { header, location }, bytes, events, 0);
    let mut decoded = Decoded::from(Record::Switch);
    let broken = entry.fill(&mut decoded).err();
    let decoded = broken.is_none().then_some(&decoded);
    visit(Ok(Step { entry: &entry, decoded, broken, session, formats }))
}
