//! One recording of several.

use super::ids::{Patch, Renumbering};
use super::output::{Output, Sections, Target, attr_bytes};
use super::strip::number;
use super::{RewriteError, Rewritten};
use crate::events::Event;
use crate::feature::{
    BuildIdEntry, EventDesc, EventDescs, Feature, FeatureId, SampleTime, Section, TracingData,
};
use crate::layout::{AttrBytes, Str};
use crate::replay::Formats;
use crate::tool::kind;
use crate::{Error, Ordered, PerfData, Problem};
use perfuse_abi::record::RecordType;
use perfuse_abi::wire::Words;
use perfuse_abi::{Attr, AttrFlags, ByteOrder, SampleType};
use std::collections::{HashMap, HashSet};

/// After so many records the result says that all before are older than what comes.
const TURN: u64 = 1 << 14;

/// More recordings are not read at once: each has its buffers.
const MOST_INPUTS: usize = 256;

/// Sections of an input that say nothing of the result.
const OF_INPUT: [FeatureId; 5] = [
    FeatureId::AUXTRACE,
    FeatureId::COMPRESSED,
    FeatureId::DIR_FORMAT,
    FeatureId::EVENT_DESC,
    FeatureId::SAMPLE_TIME,
];

/// Flags of an attr by which the same event is opened in different ways: what starts it, and which of the events of a
/// recording tells of processes.
const WAYS: AttrFlags = AttrFlags::DISABLED
    .union(AttrFlags::ENABLE_ON_EXEC)
    .union(AttrFlags::MMAP)
    .union(AttrFlags::MMAP_DATA)
    .union(AttrFlags::MMAP2)
    .union(AttrFlags::COMM)
    .union(AttrFlags::COMM_EXEC)
    .union(AttrFlags::TASK);

/// Makes one recording of several, which is a file if the target can seek: their records in the order of time, each event
/// that has the same attr and name in several of them once, ids that collide numbered anew, build-ids and formats of
/// tracepoints joined. Other sections are those of the first that has them.
///
/// `open` is asked twice for each input, by its index: once to look, and once to read.
///
/// # Errors
///
/// An input cannot be read, the target not be written, or the recordings do not go together: they are of other byte orders,
/// machines or clocks, have traces of processors or counts of `perf stat`, or samples that do not tell their event.
pub fn merge<'i>(
    inputs: usize,
    mut open: impl FnMut(usize) -> Result<PerfData<'i>, Error>,
    target: Target<'_>,
) -> Result<Rewritten, RewriteError> {
    if inputs == 0 || inputs > MOST_INPUTS {
        return Err(refused(format_args!("{inputs} recordings cannot be merged, but 1 to {MOST_INPUTS}")));
    }
    let mut done = Rewritten::default();
    let mut looks = Vec::new();
    for index in 0..inputs {
        looks.push(Look::at(open(index)?, index, &mut done)?);
    }
    go_together(&looks)?;
    let (events, numbers) = join_events(&mut looks)?;
    let order = looks[0].order;
    let sections = join_sections(&looks, &events, order)?;
    let is_file = target.is_file();
    let mut output = match is_file {
        true => Output::file(target, order, &events)?,
        false => Output::pipe(target, order)?,
    };
    if !is_file {
        output.events(&events)?;
        output.sections(&sections)?;
    }
    let earliest = looks.iter().map(|look| look.first).min().unwrap_or(0);
    let mut lanes: Vec<Lane<'i>> = Vec::new();
    for (index, ids) in numbers.into_iter().enumerate() {
        let first = looks[index].first;
        let begins_later = first > earliest || index > 0 && first == earliest;
        let mut lane = Lane {
            ordered: Ordered::new(open(index)?),
            ids,
            first,
            begins_later,
            is_first: index == 0,
            time: if begins_later { first } else { 0 },
            record: Vec::new(),
            is_timeless: false,
        };
        if lane.advance(&mut done)? {
            lanes.push(lane);
        }
    }
    records(&mut lanes, &mut output, &mut done)?;
    output.finish(if is_file { sections } else { Vec::new() })?;
    Ok(done)
}

fn refused(reason: impl std::fmt::Display) -> RewriteError {
    RewriteError::Refused(reason.to_string())
}

/// The facts about an input that must be known before it is read.
struct Look {
    /// Its number, from 1.
    number: usize,
    order: ByteOrder,
    /// Its events, with names.
    events: Vec<Event>,
    sections: Sections,
    /// Times of the first and the last record.
    first: u64,
    last: u64,
    /// Times of the first and the last sample.
    samples: (u64, u64),
    /// Some record of the kernel has a time.
    has_times: bool,
    has_samples: bool,
}

impl Look {
    fn at(mut data: PerfData<'_>, index: usize, done: &mut Rewritten) -> Result<Self, RewriteError> {
        let (number, order) = (index + 1, data.order());
        let (mut first, mut last, mut samples) = (u64::MAX, 0, (u64::MAX, 0));
        let (mut has_samples, mut refusal) = (false, None);
        loop {
            match data.next() {
                Ok(Some(entry)) => {
                    if [kind::AUXTRACE, kind::AUXTRACE_INFO].contains(&entry.kind()) {
                        refusal =
                            Some("traces of processors (AUX data), which are found by numbers of buffers");
                    } else if [kind::STAT, kind::STAT_CONFIG].contains(&entry.kind()) {
                        refusal = Some("counts of perf stat");
                    }
                    has_samples |= entry.kind() == RecordType::SAMPLE;
                    let Some(time) = entry.time().filter(|time| ![0, u64::MAX].contains(time)) else {
                        continue;
                    };
                    (first, last) = (first.min(time), last.max(time));
                    if entry.kind() == RecordType::SAMPLE {
                        samples = (samples.0.min(time), samples.1.max(time));
                    }
                }
                Ok(None) => break,
                Err(error) => done.note(error)?,
            }
        }
        if let Some(words) = refusal {
            return Err(refused(format_args!("recording {number} has {words}: it cannot be merged")));
        }
        let formats = Formats::read(&mut data);
        let mut events: Vec<Event> = data.events().iter().cloned().collect();
        events.iter_mut().for_each(|event| event.name = Some(formats.event_name(event)));
        let sections = super::cut::sections(&mut data, done)?;
        let has_times = first <= last;
        let first = if has_times { first } else { 0 };
        Ok(Look { number, order, events, sections, first, last, samples, has_times, has_samples })
    }

    fn section(&self, id: FeatureId) -> Option<&[u8]> {
        self.sections.iter().find(|(found, _)| *found == id).map(|(_, bytes)| bytes.as_slice())
    }

    fn text(&self, id: FeatureId) -> Option<String> {
        match Section::decode(id, self.section(id)?, self.order, 0).ok()?.feature {
            Feature::Hostname(text) | Feature::Arch(text) | Feature::OsRelease(text) => {
                Some(text.to_string())
            }
            _ => None,
        }
    }

    /// The clock of its times.
    fn clock(&self) -> Option<i32> {
        let attr = &self.events.first()?.attr;
        attr.flags.contains(AttrFlags::USE_CLOCKID).then_some(attr.clockid)
    }
}

/// Refuses recordings that are of different worlds.
fn go_together(looks: &[Look]) -> Result<(), RewriteError> {
    let Some((one, others)) = looks.split_first() else { return Ok(()) };
    for other in others {
        let differ = |words: &str| {
            Err(refused(format_args!(
                "recordings {} and {} cannot be merged: {words}",
                one.number, other.number
            )))
        };
        if one.order != other.order {
            return differ("they are of different byte orders");
        }
        let texts = |id| (one.text(id), other.text(id));
        if let (Some(a), Some(b)) = texts(FeatureId::ARCH) {
            if a != b {
                return differ(&format!("they are of different architectures, {a} and {b}"));
            }
        }
        if one.clock() != other.clock() && !one.events.is_empty() && !other.events.is_empty() {
            return differ("their times are of different clocks");
        }
        if one.has_times != other.has_times && one.has_samples && other.has_samples {
            return differ("one has times and the other has none");
        }
    }
    for (index, one) in looks.iter().enumerate() {
        for other in &looks[index + 1..] {
            let is_other =
                |id| one.text(id).is_some_and(|text| other.text(id).is_some_and(|other| other != text));
            let overlap = one.has_times && one.first <= other.last && other.first <= one.last;
            if overlap && (is_other(FeatureId::HOSTNAME) || is_other(FeatureId::OSRELEASE)) {
                return Err(refused(format_args!(
                    "recordings {} and {} cannot be merged: they are of different machines or kernels at the same times, \
                     and processes could not be told apart",
                    one.number, other.number
                )));
            }
        }
    }
    Ok(())
}

/// The attr as far as it tells what is sampled and how records are laid out.
fn essence(attr: &Attr) -> Attr {
    Attr { size: 0, flags: attr.flags - WAYS, ..*attr }
}

fn is_same(one: &Event, other: &Event) -> bool {
    one.name == other.name
        && one.attr_tail == other.attr_tail
        && one.format == other.format
        && essence(&one.attr) == essence(&other.attr)
}

/// The events of all, each once, and the new ids of each input.
fn join_events(looks: &mut [Look]) -> Result<(Vec<Event>, Vec<Renumbering>), RewriteError> {
    let ids = looks.iter().flat_map(|look| &look.events).flat_map(|event| &event.ids);
    let mut known: HashSet<u64> = ids.copied().collect();
    let mut fresh = known.iter().copied().max().unwrap_or(0);
    let (mut used, mut events) = (HashSet::new(), Vec::<Event>::new());
    let mut numbers = Vec::new();
    for look in looks.iter() {
        let (mut ids, mut taken) = (Renumbering::new(), HashSet::new());
        for event in &look.events {
            let mut event = event.clone();
            for id in &mut event.ids {
                if used.contains(id) {
                    let old = *id;
                    *id = *ids.entry(old).or_insert_with(|| {
                        while !known.insert(fresh) || fresh == 0 {
                            fresh = fresh.wrapping_add(1);
                        }
                        fresh
                    });
                }
            }
            let same = (0..events.len()).find(|at| !taken.contains(at) && is_same(&events[*at], &event));
            match same {
                Some(at) => {
                    taken.insert(at);
                    events[at].ids.append(&mut event.ids);
                }
                None => {
                    taken.insert(events.len());
                    events.push(event);
                }
            }
        }
        used.extend(look.events.iter().flat_map(|event| &event.ids).copied());
        numbers.push(ids);
    }
    let tells =
        |event: &Event| event.format.sample_type.contains(SampleType::IDENTIFIER) && !event.ids.is_empty();
    let has_id =
        |event: &Event| event.format.sample_type.contains(SampleType::ID) && event.format == events[0].format;
    if events.len() > 1 && looks.len() > 1 && !events.iter().all(tells) && !events.iter().all(has_id) {
        let event = events.iter().find(|event| !tells(event));
        let name = event.and_then(|event| event.name.as_deref()).unwrap_or("an event");
        return Err(refused(format_args!(
            "samples of {name} do not tell their event (no PERF_SAMPLE_IDENTIFIER), and there are {} in the recordings; \
             only recordings of the same single event can be merged so",
            events.len()
        )));
    }
    Ok((events, numbers))
}

/// The names that recordings have inside, one after the other, with a mark if some have none.
fn join_names(looks: &[Look]) -> Vec<u8> {
    const NOT_WHOLE: &[u8] = b"PFSEAL\0\0";
    looks.iter().flat_map(|look| look.section(FeatureId::SEALED).unwrap_or(NOT_WHOLE)).copied().collect()
}

/// The sections of all.
fn join_sections(looks: &[Look], events: &[Event], order: ByteOrder) -> Result<Sections, RewriteError> {
    let mut sections = Sections::new();
    for (look, (id, bytes)) in
        looks.iter().flat_map(|look| look.sections.iter().map(move |found| (look, found)))
    {
        // Groups are told by numbers of events, which are those of the first.
        let is_of_all = *id != FeatureId::GROUP_DESC || look.number == 1;
        if is_of_all && !OF_INPUT.contains(id) && sections.iter().all(|(known, _)| known != id) {
            sections.push((*id, bytes.clone()));
        }
    }
    if let Some((_, names)) = sections.iter_mut().find(|(id, _)| *id == FeatureId::SEALED) {
        *names = join_names(looks);
    }
    let mut put = |feature: Feature<'_>| {
        let (id, mut bytes) = (feature.id(), Vec::new());
        Section::from(feature).encode(order, &mut bytes).map_err(super::output::invalid)?;
        sections.retain(|(known, _)| *known != id);
        sections.push((id, bytes));
        Ok::<(), RewriteError>(())
    };
    let of = |id: FeatureId| {
        looks.iter().filter_map(move |look| Section::decode(id, look.section(id)?, look.order, 0).ok())
    };
    let mut build_ids: Vec<BuildIdEntry<'_>> = Vec::new();
    let mut seen = HashSet::new();
    for section in of(FeatureId::BUILD_ID) {
        if let Feature::BuildIds(ids) = section.feature {
            build_ids.extend(ids.into_iter().filter(|id| seen.insert((id.pid, id.id, id.name.as_bytes()))));
        }
    }
    let mut tracing: Option<Box<TracingData<'_>>> = None;
    for section in of(FeatureId::TRACING_DATA) {
        if let Feature::TracingData(data) = section.feature {
            match &mut tracing {
                Some(all) => join_tracing(all, &data)?,
                none => *none = Some(data),
            }
        }
    }
    let (mut programs, mut types) = (Vec::new(), Vec::new());
    for section in of(FeatureId::BPF_PROG_INFO).chain(of(FeatureId::BPF_BTF)) {
        match section.feature {
            Feature::BpfPrograms(found) => {
                programs.extend(found.into_iter().filter(|new| !programs.contains(new)).collect::<Vec<_>>())
            }
            Feature::BpfTypes(found) => {
                types.extend(found.into_iter().filter(|new| !types.contains(new)).collect::<Vec<_>>())
            }
            _ => {}
        }
    }
    if !build_ids.is_empty() {
        put(Feature::BuildIds(build_ids))?;
    }
    tracing.map_or(Ok(()), |data| put(Feature::TracingData(data)))?;
    if !programs.is_empty() {
        put(Feature::BpfPrograms(programs))?;
    }
    if !types.is_empty() {
        put(Feature::BpfTypes(types))?;
    }
    let samples = looks.iter().map(|look| look.samples);
    let times = samples.fold((u64::MAX, 0), |all, of| (all.0.min(of.0), all.1.max(of.1)));
    if times.0 <= times.1 && of(FeatureId::SAMPLE_TIME).next().is_some() {
        put(Feature::SampleTime(SampleTime { first_ns: times.0, last_ns: times.1 }))?;
    }
    let attrs = events.iter().map(|event| attr_bytes(event, order)).collect::<std::io::Result<Vec<_>>>()?;
    let size = attrs.iter().map(Vec::len).max().unwrap_or(0);
    let padded: Vec<Vec<u8>> = attrs
        .into_iter()
        .map(|mut attr| {
            attr.resize(size, 0);
            attr
        })
        .collect();
    let descs = events.iter().zip(&padded).map(|(event, attr)| EventDesc {
        attr: AttrBytes(attr),
        name: Str::new(event.name.as_deref().unwrap_or_default()),
        ids: Words::from(&event.ids[..]),
    });
    put(Feature::EventDesc(EventDescs { attr_size: size as u32, events: descs.collect() }))?;
    Ok(sections)
}

/// Adds formats of tracepoints to others, unless the same number is that of another.
fn join_tracing<'a>(all: &mut TracingData<'a>, other: &TracingData<'a>) -> Result<(), RewriteError> {
    let formats = all.systems.iter().flat_map(|system| &system.formats).chain(&all.ftrace_formats);
    let known: HashMap<u64, &[u8]> = formats.filter_map(|text| Some((number(text)?, *text))).collect();
    let others = other.systems.iter().flat_map(|system| &system.formats).chain(&other.ftrace_formats);
    for text in others {
        let is_other = number(text).and_then(|id| known.get(&id)).is_some_and(|known| known != text);
        if is_other {
            let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
            return Err(refused(format_args!(
                "the recordings have different formats of tracepoints under the same number ({}): they are of different kernels",
                String::from_utf8_lossy(line)
            )));
        }
    }
    for system in &other.systems {
        match all.systems.iter_mut().find(|known| known.name == system.name) {
            Some(known) => {
                let new: Vec<&[u8]> =
                    system.formats.iter().copied().filter(|text| !known.formats.contains(text)).collect();
                known.formats.extend(new);
            }
            None => all.systems.push(system.clone()),
        }
    }
    for text in &other.ftrace_formats {
        if !all.ftrace_formats.contains(text) {
            all.ftrace_formats.push(text);
        }
    }
    Ok(())
}

/// An input that is being read, and its next record.
struct Lane<'i> {
    ordered: Ordered<'i>,
    ids: Renumbering,
    /// The time at which it begins.
    first: u64,
    /// Another begins before it.
    begins_later: bool,
    is_first: bool,
    /// The time of the next record, or of the last that had one.
    time: u64,
    record: Vec<u8>,
    /// The next record is one of the kernel that readers take in at once, though others are older.
    is_timeless: bool,
}

impl Lane<'_> {
    /// Goes to the next record that the result has. `false` at the end.
    fn advance(&mut self, done: &mut Rewritten) -> Result<bool, RewriteError> {
        let order = self.ordered.data().order();
        loop {
            let entry = match self.ordered.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(false),
                Err(error) if matches!(error.problem, Problem::Io(_)) => return Err(error.into()),
                // It was told when the recording was looked at.
                Err(_) => continue,
            };
            let kind = entry.kind();
            let of_form = [
                kind::FINISHED_ROUND,
                kind::HEADER_ATTR,
                kind::HEADER_FEATURE,
                kind::HEADER_TRACING_DATA,
                kind::HEADER_EVENT_TYPE,
            ];
            let once = [kind::FINISHED_INIT, kind::THREAD_MAP, kind::CPU_MAP, kind::TIME_CONV];
            if of_form.contains(&kind) || once.contains(&kind) && !self.is_first {
                continue;
            }
            self.record.clear();
            self.record.extend_from_slice(entry.bytes());
            self.is_timeless = false;
            let mut patch = Patch { bytes: &mut self.record, order };
            if !entry.is_kernel() {
                patch.tool_ids(kind, &self.ids);
                return Ok(true);
            }
            done.samples += u64::from(kind == RecordType::SAMPLE);
            if let Some(format) = entry.format() {
                if !self.ids.is_empty() {
                    patch.ids(kind, format, &self.ids);
                }
                match entry.time() {
                    Some(0) if self.begins_later && kind != RecordType::SAMPLE => {
                        patch.time(format, self.first)
                    }
                    Some(0 | u64::MAX) => {}
                    Some(time) => self.time = time,
                    None => self.is_timeless = self.begins_later && kind != RecordType::SAMPLE,
                }
            }
            return Ok(true);
        }
    }
}

/// Writes the records of all in the order of their times.
fn records(
    lanes: &mut Vec<Lane<'_>>,
    output: &mut Output<'_>,
    done: &mut Rewritten,
) -> Result<(), RewriteError> {
    let mut waiting = 0;
    loop {
        // Of equal times, those of the first recording come first.
        let Some(index) = (0..lanes.len()).min_by_key(|index| (lanes[*index].time, *index)) else {
            return Ok(());
        };
        let lane = &mut lanes[index];
        if waiting >= TURN || lane.is_timeless && waiting > 0 {
            output.round()?;
            // At a mark readers take in all before the last mark but one.
            if lane.is_timeless {
                output.round()?;
            }
            waiting = 0;
        }
        output.put(&lane.record)?;
        waiting += 1;
        if !lane.advance(done)? {
            lanes.remove(index);
        }
        done.kept = done.samples;
    }
}
