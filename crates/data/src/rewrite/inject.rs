//! A recording with more in it: build-ids of the files it names, mappings of code that was made at run time.

use super::output::{Output, Sections, Target, invalid};
use super::{RewriteError, Rewritten};
use crate::Ordered;
use crate::feature::{BuildIdEntry, Feature, FeatureId, Section};
use crate::layout::Str;
use crate::reader::{Form, PerfData};
use crate::record::FileRecord;
use crate::session::{Level, Object, ObjectId, ObjectKind, Session, is_jit_dump};
use crate::tool::{TimeConv, Tool, ToolRecord, kind};
use perfuse_abi::record::{
    BuildId, CallchainContext, CpuMode, Decoded, Misc, Mmap2, MmapFile, Record, RecordFormat, RecordType,
    Sample, SampleId, Tid,
};
use perfuse_abi::wire::Text;
use perfuse_abi::{AttrFlags, ByteOrder};
use std::collections::{BTreeMap, HashSet};
use std::io;

/// Build-ids that a recording tells are taken over up to so many bytes of names.
const MOST_BYTES: usize = 64 << 20;

/// `CLOCK_MONOTONIC`, by which jitdumps tell the time.
const MONOTONIC: i32 = 1;

/// The objects whose build-ids are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildIdsOf {
    /// None.
    #[default]
    Nothing,
    /// Those with samples, in their callchains too.
    Hit,
    /// Everything that was mapped.
    Mapped,
}

/// A piece of code that a process made, and that a file has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeCode<'p> {
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// When it was there, on the clock of the jitdump.
    pub time: u64,
    /// The file.
    pub path: &'p [u8],
}

/// The source of what a recording lacks.
pub trait Supplements {
    /// The build-id of an object of which the recording tells none.
    fn build_id(&mut self, object: &Object) -> Option<BuildId>;

    /// Tells `each` of the code in a jitdump that a process mapped. The mapping of the jitdump itself is then left out.
    /// `false` if it is not to be read: its mapping stays.
    ///
    /// # Errors
    ///
    /// Those of `each`.
    fn code(
        &mut self,
        path: &[u8],
        pid: u32,
        each: &mut dyn FnMut(MadeCode<'_>) -> io::Result<()>,
    ) -> io::Result<bool>;
}

/// Adds what is missing to a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inject {
    /// The objects whose build-ids are told: in the section of a file, and in records before the first that needs them.
    pub build_ids: BuildIdsOf,
    /// Mappings of code that processes made, in place of those of jitdumps.
    pub code: bool,
}

impl Inject {
    /// Writes the recording with what is added, in the order of time. A recording in the form of pipes keeps it in a file, too.
    ///
    /// # Errors
    ///
    /// The input cannot be read, or the target not be written. Code is wanted, and times of the recording are of another clock than
    /// those of jitdumps. Broken records within the input are passed over and told.
    pub fn run(
        &self,
        mut data: PerfData<'_>,
        target: Target<'_>,
        supplements: &mut dyn Supplements,
    ) -> Result<Rewritten, RewriteError> {
        let is_file = matches!(data.form(), Form::File(_));
        let order = data.order();
        let mut output = match is_file && target.is_file() {
            true => Output::file(target, order, data.events())?,
            false => Output::pipe(target, order)?,
        };
        let mut done = Rewritten::default();
        let mut sections = if is_file { super::cut::sections(&mut data, &mut done)? } else { Vec::new() };
        let mut injecting = Injecting {
            inject: *self,
            session: Session::new(),
            order,
            told: HashSet::new(),
            ids: BTreeMap::new(),
            bytes: 0,
            conversion: None,
        };
        injecting.learn(&sections);
        if is_file && output.is_pipe() {
            output.events(data.events())?;
            output.sections(&sections)?;
        }
        let mut ordered = Ordered::new(data);
        loop {
            let entry = match ordered.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(error) => {
                    done.note(error)?;
                    continue;
                }
            };
            let is_sample = entry.kind() == RecordType::SAMPLE;
            done.samples += u64::from(is_sample);
            done.kept += u64::from(is_sample);
            if entry.is_kernel() {
                let is_kept = injecting.kernel(&entry, supplements, &mut output, &mut done)?;
                if is_kept {
                    output.put(entry.bytes())?;
                }
                continue;
            }
            injecting.tool(&entry);
            output.put(entry.bytes())?;
            if entry.kind() == kind::AUXTRACE {
                let (len, size) = (entry.payload_len(), entry.bytes().len() as u64);
                output.payload(&mut ordered.data_mut().payload(), len, size)?;
            } else if entry.kind() == kind::HEADER_TRACING_DATA {
                let tracing = ordered.data_mut().tracing_data();
                if let Some(bytes) = tracing.or_else(|error| done.note(error).map(|()| None))? {
                    output.put(bytes)?;
                }
            }
        }
        if output.is_pipe() {
            sections.clear();
        } else if !injecting.ids.is_empty() {
            sections.retain(|(id, _)| *id != FeatureId::BUILD_ID);
            sections.push((FeatureId::BUILD_ID, injecting.section()?));
        }
        output.finish(sections)?;
        Ok(done)
    }
}

/// The build-id of a name: the flags of its record, and the id.
type Ids = BTreeMap<Vec<u8>, (Misc, BuildId)>;

struct Injecting {
    inject: Inject,
    session: Session,
    order: ByteOrder,
    /// Objects that were told of, or have no build-id.
    told: HashSet<ObjectId>,
    ids: Ids,
    /// Bytes of names that the recording told.
    bytes: usize,
    /// From the processor's time to that of the recording.
    conversion: Option<TimeConv>,
}

impl Injecting {
    /// Takes note of the build-ids that the recording tells itself.
    fn learn(&mut self, sections: &Sections) {
        for (id, bytes) in sections {
            if *id != FeatureId::BUILD_ID {
                continue;
            }
            let section = Section::decode(*id, bytes, self.order, 0);
            if let Ok(Section { feature: Feature::BuildIds(ids), .. }) = section {
                ids.iter().for_each(|id| self.note(id));
            }
        }
    }

    fn note(&mut self, entry: &BuildIdEntry<'_>) {
        self.session.set_build_id(entry);
        let name = entry.name.as_bytes();
        if self.bytes + name.len() > MOST_BYTES {
            return;
        }
        if let Some(id) = BuildId::new(entry.bytes()) {
            self.bytes += name.len();
            self.ids.insert(entry.name.as_bytes().to_vec(), (entry.misc, id));
        }
    }

    fn tool(&mut self, entry: &FileRecord<'_>) {
        match entry.tool() {
            Ok(ToolRecord { tool: Tool::BuildId(id), .. }) => self.note(&id),
            Ok(ToolRecord { tool: Tool::TimeConv(conversion), .. }) => self.conversion = Some(conversion),
            _ => {}
        }
    }

    /// Takes a record of the kernel. `false` if it is left out.
    fn kernel(
        &mut self,
        entry: &FileRecord<'_>,
        supplements: &mut dyn Supplements,
        output: &mut Output<'_>,
        done: &mut Rewritten,
    ) -> Result<bool, RewriteError> {
        let Ok(decoded) = entry.decode() else { return Ok(true) };
        let of = self.inject.build_ids;
        if let Record::Sample(sample) = &decoded.record {
            if of == BuildIdsOf::Hit {
                for object in self.hit(sample, decoded.misc) {
                    self.tell(object, supplements, output)?;
                }
            }
            return Ok(true);
        }
        let mapped = match &decoded.record {
            Record::Mmap2(map) => Some((map.tid, map.addr, map.filename)),
            Record::Mmap(map) => Some((map.tid, map.addr, map.filename)),
            _ => None,
        };
        if let Some((tid, _, name)) = mapped.filter(|_| self.inject.code) {
            let name = name.as_bytes();
            if is_jit_dump(name) && self.code(entry, &decoded, (tid, name), supplements, output, done)? {
                return Ok(false);
            }
        }
        self.session.apply(&decoded);
        let place = mapped.map(|(tid, address, _)| (tid, address));
        if let (BuildIdsOf::Mapped, Some((tid, address))) = (of, place) {
            let found = self.session.resolve(tid.pid, tid.tid, Level::of(decoded.misc), address);
            if let Some(found) = found {
                self.tell(found.map.object, supplements, output)?;
            }
        }
        Ok(true)
    }

    /// The objects of a sample that are not told of yet.
    fn hit(&self, sample: &Sample<'_>, misc: Misc) -> Vec<ObjectId> {
        let tid = sample.tid.unwrap_or_default();
        let mut level = Level::of(misc);
        let mut found = Vec::new();
        let mut take = |level, address| {
            let object = self.session.resolve(tid.pid, tid.tid, level, address);
            let object = object.map(|found| found.map.object).filter(|object| !self.told.contains(object));
            found.extend(object.filter(|object| !found.contains(object)));
        };
        if let Some(ip) = sample.ip {
            take(level, ip);
        }
        for word in sample.callchain.iter().flat_map(|chain| chain.words.iter()) {
            match CallchainContext::of(word) {
                Some(CallchainContext::KERNEL) => level = Level::Kernel,
                Some(CallchainContext::USER) => level = Level::User,
                Some(_) => level = Level::Unknown,
                None => take(level, word),
            }
        }
        found
    }

    /// Tells the build-id of an object, once.
    fn tell(
        &mut self,
        id: ObjectId,
        supplements: &mut dyn Supplements,
        output: &mut Output<'_>,
    ) -> io::Result<()> {
        if !self.told.insert(id) {
            return Ok(());
        }
        let object = self.session.object(id);
        let (name, kind) = (object.name.clone(), object.kind.clone());
        let known = object.build_id;
        let Some(build_id) = known.or_else(|| supplements.build_id(object)) else { return Ok(()) };
        let mode = if kind == ObjectKind::User { CpuMode::USER } else { CpuMode::KERNEL };
        let misc = Misc::empty().with_cpu_mode(mode) | BuildIdEntry::HAS_LEN;
        let is_new = self.ids.insert(name.to_vec(), (misc, build_id)).is_none();
        if is_new {
            let entry = entry_of(&name, misc, &build_id);
            output.tool(Tool::BuildId(BuildIdEntry { kind: kind::HEADER_BUILD_ID, ..entry }))?;
        }
        Ok(())
    }

    /// The section of all build-ids.
    fn section(&self) -> io::Result<Vec<u8>> {
        let ids = self.ids.iter().map(|(name, (misc, id))| entry_of(name, *misc, id)).collect();
        let mut bytes = Vec::new();
        Section::from(Feature::BuildIds(ids)).encode(self.order, &mut bytes).map_err(invalid)?;
        Ok(bytes)
    }

    /// Tells of the code in a jitdump. `false` if it is not read.
    fn code(
        &mut self,
        entry: &FileRecord<'_>,
        decoded: &Decoded<'_>,
        (tid, path): (Tid, &[u8]),
        supplements: &mut dyn Supplements,
        output: &mut Output<'_>,
        done: &mut Rewritten,
    ) -> Result<bool, RewriteError> {
        let (Some(format), Some(event)) = (entry.format(), entry.event().or(entry.events().first())) else {
            return Ok(false);
        };
        let attr = &event.attr;
        let is_monotonic = attr.flags.contains(AttrFlags::USE_CLOCKID) && attr.clockid == MONOTONIC;
        if !is_monotonic && self.conversion.is_none() {
            let why = "the times of code that was made at run time are of the monotonic clock, and those of this recording are not: \
                       record with -k mono";
            return Err(RewriteError::Refused(why.to_owned()));
        }
        let conversion = self.conversion.filter(|_| !is_monotonic);
        let (session, trailer) = (&mut self.session, decoded.sample_id);
        let mut count = 0;
        let is_read = supplements.code(path, tid.pid, &mut |code| {
            let time = conversion.map_or(code.time, |conversion| recorded_time(&conversion, code.time));
            count += 1;
            map(&code, tid, time, trailer, format, |decoded, bytes| {
                session.apply(decoded);
                output.put(bytes)
            })
        })?;
        *done.changes.entry("pieces of code").or_default() += count;
        Ok(is_read)
    }
}

/// Makes the mapping of a piece of code.
fn map(
    code: &MadeCode<'_>,
    tid: Tid,
    time: u64,
    trailer: SampleId,
    format: &RecordFormat,
    with: impl FnOnce(&Decoded<'_>, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    const READ_AND_EXECUTE: u32 = 5;
    const PRIVATE: u32 = 2;
    let file = MmapFile::Inode { maj: 0, min: 0, ino: 0, ino_generation: 0 };
    let map = Mmap2 {
        tid,
        addr: code.address,
        len: code.size,
        pgoff: code.offset,
        file,
        prot: READ_AND_EXECUTE,
        flags: PRIVATE,
        filename: Text::new(code.path),
    };
    let sample_id = SampleId { time: trailer.time.map(|_| time), ..trailer };
    let misc = Misc::empty().with_cpu_mode(CpuMode::USER);
    let decoded = Decoded { misc, sample_id, ..Decoded::from(Record::Mmap2(map)) };
    let mut bytes = Vec::new();
    decoded.encode(format, &mut bytes).map_err(invalid)?;
    with(&decoded, &bytes)
}

/// A time of the processor on the clock of the recording, as perf converts it.
fn recorded_time(conversion: &TimeConv, cycles: u64) -> u64 {
    let shift = conversion.shift.min(63);
    let (whole, rest) = (cycles >> shift, cycles & ((1 << shift) - 1));
    let mult = conversion.mult;
    let part = (u128::from(rest) * u128::from(mult)) >> shift;
    conversion.zero.wrapping_add(whole.wrapping_mul(mult)).wrapping_add(part as u64)
}

fn entry_of<'a>(name: &'a [u8], misc: Misc, id: &BuildId) -> BuildIdEntry<'a> {
    let (bytes, len) = (id.bytes, id.as_bytes().len() as u8);
    BuildIdEntry { misc, id: bytes, len, name: Str::new(name), ..BuildIdEntry::default() }
}
