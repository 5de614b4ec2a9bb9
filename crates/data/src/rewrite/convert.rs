//! A recording as an older perf reads it.

use super::anew::{Changes, Fate, anew};
use super::output::Target;
use super::{RewriteError, Rewritten};
use crate::feature::{BuildIdEntry, FeatureId};
use crate::layout::Str;
use crate::reader::PerfData;
use crate::replay::{MOST_WAITING, Step, cookie, joined};
use crate::session::Session;
use crate::tool::{Tool, ToolRecord, kind};
use perfuse_abi::record::{Decoded, Misc, MmapFile, Record, RecordFormat, RecordType, Tid, Weight};
use perfuse_abi::wire::Words;
use perfuse_abi::{Attr, AttrFlags, BranchSampleType, ByteOrder, ReadFormat, Release, SampleType};
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Build-ids that are told of once.
const MOST_BUILD_IDS: usize = 1 << 20;

/// Sizes of attrs, each with the release that brought it.
const SIZES: [(u32, Release); 10] = [
    (Attr::SIZE_VER9, Release::new(6, 19)),
    (Attr::SIZE_VER8, Release::new(6, 3)),
    (Attr::SIZE_VER7, Release::new(5, 13)),
    (Attr::SIZE_VER6, Release::new(5, 5)),
    (Attr::SIZE_VER5, Release::new(4, 1)),
    (Attr::SIZE_VER4, Release::new(3, 19)),
    (Attr::SIZE_VER3, Release::new(3, 7)),
    (Attr::SIZE_VER2, Release::new(3, 4)),
    (Attr::SIZE_VER1, Release::v2_6(33)),
    (Attr::SIZE_VER0, Release::v2_6(31)),
];

/// Records, and the perf that knew them first. Later ones of the kernel and of perf are known by their number.
const RECORDS: [(RecordType, Release); 32] = [
    (RecordType::MMAP2, Release::new(3, 12)),
    (RecordType::AUX, Release::new(4, 1)),
    (RecordType::ITRACE_START, Release::new(4, 1)),
    (RecordType::LOST_SAMPLES, Release::new(4, 2)),
    (RecordType::SWITCH, Release::new(4, 3)),
    (RecordType::SWITCH_CPU_WIDE, Release::new(4, 3)),
    (RecordType::NAMESPACES, Release::new(4, 12)),
    (RecordType::KSYMBOL, Release::new(5, 1)),
    (RecordType::BPF_EVENT, Release::new(5, 1)),
    (RecordType::CGROUP, Release::new(5, 7)),
    (RecordType::TEXT_POKE, Release::new(5, 9)),
    (RecordType::AUX_OUTPUT_HW_ID, Release::new(5, 16)),
    (RecordType::CALLCHAIN_DEFERRED, Release::new(6, 19)),
    (kind::ID_INDEX, Release::new(3, 19)),
    (kind::AUXTRACE_INFO, Release::new(4, 1)),
    (kind::AUXTRACE, Release::new(4, 1)),
    (kind::AUXTRACE_ERROR, Release::new(4, 1)),
    (kind::THREAD_MAP, Release::new(4, 4)),
    (kind::CPU_MAP, Release::new(4, 4)),
    (kind::STAT_CONFIG, Release::new(4, 4)),
    (kind::STAT, Release::new(4, 4)),
    (kind::STAT_ROUND, Release::new(4, 4)),
    (kind::EVENT_UPDATE, Release::new(4, 4)),
    (kind::TIME_CONV, Release::new(4, 8)),
    (kind::HEADER_FEATURE, Release::new(4, 13)),
    (kind::COMPRESSED, Release::new(5, 2)),
    (kind::FINISHED_INIT, Release::new(6, 0)),
    (kind::COMPRESSED2, Release::new(6, 16)),
    (kind::BPF_METADATA, Release::new(6, 17)),
    (kind::SCHEDSTAT_CPU, Release::new(6, 17)),
    (kind::SCHEDSTAT_DOMAIN, Release::new(6, 17)),
    (RecordType(u32::MAX), Release::new(u16::MAX, 0)),
];

/// Writes a recording as the perf of a release reads it: what is compressed is unpacked; attrs have its size, and fields and bits
/// that it knows, and samples no others; callchains whose user part came later are whole; mappings with build-ids are ones with
/// inodes where it knows no others, with the build-ids beside; records that it does not know are left out.
/// [`Rewritten::changes`] tells what was done, how often.
///
/// # Errors
///
/// The input cannot be read, or the target not be written.
pub fn convert(data: PerfData<'_>, target: Target<'_>, release: Release) -> Result<Rewritten, RewriteError> {
    let order = data.order();
    // By time, where samples wait for what comes later.
    let mut converting = Converting {
        release,
        order,
        waiting: VecDeque::new(),
        unresolved: 0,
        bytes: 0,
        told: HashSet::new(),
        changes: BTreeMap::new(),
    };
    let by_time = data.events().iter().any(|event| event.attr.flags.intersects(DEFERS));
    let mut done = anew(data, target, by_time, &mut converting)?;
    done.changes = converting.changes;
    Ok(done)
}

const DEFERS: AttrFlags = AttrFlags::DEFER_CALLCHAIN.union(AttrFlags::DEFER_OUTPUT);

/// A recording that is being converted.
struct Converting {
    release: Release,
    order: ByteOrder,
    /// Records since the first that waits for its callchain.
    waiting: VecDeque<Waiting>,
    /// How many of them wait themselves.
    unresolved: usize,
    bytes: usize,
    /// Names whose build-id was told.
    told: HashSet<Vec<u8>>,
    changes: BTreeMap<&'static str, u64>,
}

/// A record that goes on when those before it do.
struct Waiting {
    bytes: Vec<u8>,
    /// The thread and the cookie of the part that is to come, and how the record is laid out.
    wants: Option<(Tid, u64, RecordFormat)>,
}

impl Converting {
    fn count(&mut self, change: &'static str) {
        *self.changes.entry(change).or_default() += 1;
    }

    fn knows(&self, kind: RecordType) -> bool {
        let since = RECORDS.iter().find(|(known, _)| *known == kind).map(|(_, since)| *since);
        let is_newer = match kind.0 {
            number if kind.is_kernel() => number > RecordType::CALLCHAIN_DEFERRED.0,
            number => number > kind::SCHEDSTAT_DOMAIN.0,
        };
        since.map_or(!is_newer, |since| since <= self.release)
    }

    /// Adds a changed record: a sample with the fields that stay, or whatever else has read values or a mapping.
    fn changed(&mut self, decoded: &Decoded<'_>, goes: &RecordFormat, out: &mut Vec<u8>) -> Option<()> {
        let mut decoded = *decoded;
        decoded.extra = &[];
        match &mut decoded.record {
            Record::Sample(sample) => {
                let full = |weight: Weight| Weight::Full(weight.first());
                if !goes.sample_type.contains(SampleType::WEIGHT_STRUCT) {
                    sample.weight = sample.weight.map(full);
                }
            }
            Record::Mmap2(mmap) => {
                if let MmapFile::BuildId(id) = mmap.file {
                    let name = mmap.filename.as_bytes();
                    if self.told.len() < MOST_BUILD_IDS && self.told.insert(name.to_vec()) {
                        let misc = Misc::empty().with_cpu_mode(decoded.misc.cpu_mode());
                        let entry = BuildIdEntry {
                            kind: kind::HEADER_BUILD_ID,
                            misc: misc | BuildIdEntry::HAS_LEN,
                            id: id.bytes,
                            len: id.size,
                            name: Str::new(name),
                            ..BuildIdEntry::default()
                        };
                        ToolRecord::from(Tool::BuildId(entry)).encode(self.order, out).ok()?;
                    }
                    mmap.file = MmapFile::Inode { maj: 0, min: 0, ino: 0, ino_generation: 0 };
                    decoded.misc -= Misc::MMAP_BUILD_ID;
                    self.count("mappings with build-ids, written with inodes");
                }
            }
            _ => {}
        }
        decoded.encode(goes, out).ok()
    }

    /// The fate of a record but for its callchain: added to `out`.
    fn plain(&mut self, step: &Step<'_>, goes: Option<&RecordFormat>, out: &mut Vec<u8>) {
        let (Some(decoded), Some(comes), Some(goes)) = (step.decoded, step.entry.format(), goes) else {
            return out.extend_from_slice(step.entry.bytes());
        };
        let has_build_id = decoded.misc.contains(Misc::MMAP_BUILD_ID)
            && matches!(decoded.record, Record::Mmap2(_))
            && self.release < AttrFlags::BUILD_ID.since();
        let is_otherwise = match decoded.record {
            Record::Sample(_) | Record::Read(_) => comes != goes,
            _ => has_build_id,
        };
        if !is_otherwise {
            return out.extend_from_slice(step.entry.bytes());
        }
        let before = out.len();
        if self.changed(decoded, goes, out).is_none() {
            out.truncate(before);
            self.count("records that cannot be written so, left out");
        }
    }

    /// Joins the user part of callchains to the samples that wait for it.
    fn join(&mut self, tid: Tid, cookie: u64, ips: Words<'_>) {
        let mut is_wanted = false;
        for waiting in &mut self.waiting {
            let Some((of, wanted, format)) = waiting.wants else { continue };
            if (of, wanted) != (tid, cookie) {
                continue;
            }
            is_wanted = true;
            let bytes = joined(&waiting.bytes, &format, Some(ips));
            self.bytes = self.bytes - waiting.bytes.len() + bytes.len();
            (waiting.bytes, waiting.wants) = (bytes, None);
            self.unresolved -= 1;
            *self.changes.entry("callchains, joined with their user part").or_default() += 1;
        }
        if !is_wanted {
            self.count("user parts of callchains without a sample, left out");
        }
    }

    /// Lets the records go on that wait for nothing.
    fn release(&mut self, all: bool, out: &mut Vec<u8>) {
        while let Some(first) = self.waiting.front() {
            let is_late = all || self.bytes > MOST_WAITING;
            if first.wants.is_some() && !is_late {
                return;
            }
            let Some(first) = self.waiting.pop_front() else { return };
            self.bytes -= first.bytes.len();
            match first.wants {
                None => out.extend_from_slice(&first.bytes),
                Some((_, _, format)) => {
                    self.unresolved -= 1;
                    self.count("callchains whose user part did not come");
                    out.extend_from_slice(&joined(&first.bytes, &format, None));
                }
            }
        }
    }
}

impl Changes for Converting {
    fn attr(&mut self, attr: &mut Attr, tail: &mut Vec<u8>) {
        let before = (*attr, tail.len());
        let size =
            SIZES.iter().find(|(_, since)| *since <= self.release).map_or(Attr::SIZE_VER0, |(size, _)| *size);
        if attr.sample_type.contains(SampleType::WEIGHT_STRUCT)
            && SampleType::WEIGHT_STRUCT.since() > self.release
        {
            attr.sample_type |= SampleType::WEIGHT;
        }
        let late = |since: &Release| *since > self.release;
        for entry in SampleType::SINCE.iter().filter(|entry| late(&entry.since)) {
            attr.sample_type -= entry.what;
        }
        for entry in ReadFormat::SINCE.iter().filter(|entry| late(&entry.since)) {
            attr.read_format -= entry.what;
        }
        for entry in BranchSampleType::SINCE.iter().filter(|entry| late(&entry.since)) {
            attr.branch_sample_type -= entry.what;
        }
        for entry in AttrFlags::SINCE.iter().filter(|entry| late(&entry.since)) {
            attr.flags -= entry.what;
        }
        for field in Attr::FIELDS.iter().filter(|field| field.attr_size() > size) {
            field.copy(&Attr::default(), attr);
        }
        if attr.size > size {
            attr.size = size;
            tail.clear();
        }
        if !attr.sample_type.contains(SampleType::REGS_USER) {
            attr.sample_regs_user = 0;
        }
        if (Attr { size: before.0.size, ..*attr }, tail.len()) != before {
            self.count("events with what is newer, left out");
        }
    }

    fn needs_file(&self) -> bool {
        false
    }

    fn record(
        &mut self,
        step: &Step<'_>,
        goes: Option<&RecordFormat>,
        out: &mut Vec<u8>,
    ) -> Result<Fate, RewriteError> {
        let kind = step.entry.kind();
        let deferred = match step.decoded.map(|decoded| &decoded.record) {
            Some(Record::CallchainDeferred(deferred)) => {
                step.decoded.and_then(|decoded| Some((decoded.sample_id.tid?, deferred.cookie, deferred.ips)))
            }
            _ => None,
        };
        if !self.knows(kind) {
            match deferred {
                Some((tid, cookie, ips)) => self.join(tid, cookie, ips),
                None if kind.is_kernel() => self.count("records of the kernel that are not known, left out"),
                None => self.count("records of the tool that are not known, left out"),
            }
            self.release(false, out);
            return Ok(Fate::Changes);
        }
        let is_newer_chain = !self.knows(RecordType::CALLCHAIN_DEFERRED);
        let wants = step.sample().filter(|_| is_newer_chain).and_then(cookie);
        if self.waiting.is_empty() && wants.is_none() {
            let (comes, is_kernel) = (step.entry.format(), step.decoded.is_some());
            let is_mmap = step.decoded.is_some_and(|decoded| decoded.misc.contains(Misc::MMAP_BUILD_ID));
            if !is_kernel || comes == goes && !is_mmap {
                return Ok(Fate::Stays);
            }
            self.plain(step, goes, out);
            return Ok(Fate::Changes);
        }
        if kind == kind::AUXTRACE || kind == kind::HEADER_TRACING_DATA {
            // Records behind such a one cannot wait.
            self.release(true, out);
            return match out.is_empty() {
                true => Ok(Fate::Stays),
                false => Ok(Fate::StaysAfter),
            };
        }
        let mut bytes = Vec::new();
        self.plain(step, goes, &mut bytes);
        let wants =
            wants.zip(goes).map(|((tid, cookie), goes)| (tid, cookie, *goes)).filter(|_| !bytes.is_empty());
        self.unresolved += usize::from(wants.is_some());
        self.bytes += bytes.len();
        self.waiting.push_back(Waiting { bytes, wants });
        self.release(self.unresolved == 0, out);
        Ok(Fate::Changes)
    }

    fn last(&mut self, _: &Session, out: &mut Vec<u8>) {
        self.release(true, out);
    }

    fn sections(&mut self, sections: &mut Vec<(FeatureId, Vec<u8>)>, _: ByteOrder) {
        sections.retain(|(id, _)| *id != FeatureId::COMPRESSED);
    }
}
