//! A recording with the names of all its addresses inside, so that it can be read where none of its programs are.

use crate::hash::FastMap;
use crate::locate::{Locator, ThreadTime, level_of};
use crate::source::{LocalSymbols, ObjectRef, TimedAddress};
use crate::tables::{ANY_TIME, Location, ObjectId, ObjectKind};
use perfuse_abi::record::{
    Callchain, CallchainContext, CpuMode, Decoded, Misc, Record, RecordFormat, Sample,
};
use perfuse_abi::wire::Words;
use perfuse_abi::{Attr, ByteOrder};
use perfuse_data::feature::{BuildIdEntry, Feature, FeatureId, Section};
use perfuse_data::replay::{Step, callstack, is_to_be_unwound};
use perfuse_data::rewrite::{Changes, Fate, RewriteError, Rewritten, Target, anew};
use perfuse_data::session::{Level, Session};
use perfuse_data::{PerfData, Str, describe};
use perfuse_symbols::{Address, Sealing};
use perfuse_unwind::{Recording, Unwinder};
use std::collections::{BTreeMap, BTreeSet};

/// Addresses that are told apart; the names of all further ones are looked for where the recording is read.
const MOST_ADDRESSES: usize = 1 << 22;
/// Addresses of processes that are known to be noted already; then they are looked at again.
const MOST_SEEN: usize = 1 << 22;

/// How [`seal`] does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealOptions {
    /// Texts of source files take no more bytes than this together; 0 for none.
    pub source_bytes: usize,
}

impl SealOptions {
    /// With texts of source files of no more bytes than this together.
    #[must_use]
    pub fn with_sources(self, source_bytes: usize) -> Self {
        SealOptions { source_bytes }
    }
}

/// The result of [`seal`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SealedRecording {
    /// Samples and faults of the input.
    pub rewritten: Rewritten,
    /// Objects whose names are inside.
    pub objects: usize,
    /// Functions.
    pub functions: usize,
    /// Source files.
    pub sources: usize,
    /// Bytes of the section.
    pub bytes: usize,
    /// Stacks that were unwound.
    pub stacks: u64,
    /// The objects that have no names here, or not all, and the reason.
    pub missing: Vec<(String, String)>,
}

/// Writes a recording with the names of its addresses inside: functions, inlined functions, source lines, instructions, build-ids.
/// Stacks of which samples have copies are unwound, and the copies left out. perf reads the result as any recording.
///
/// # Errors
///
/// The input cannot be read, the target not be written; it has the form of pipes, or traces of processors, which can only be
/// decoded with the programs.
pub fn seal(
    mut data: PerfData<'_>,
    target: Target<'_>,
    symbols: &LocalSymbols,
    options: SealOptions,
) -> Result<(SealedRecording, Unwinder), RewriteError> {
    symbols.take_sealed(&mut data);
    let unwinder = Unwinder::new(symbols.symbolizer().clone(), &describe::machine(&mut data));
    let mut making = Making {
        unwinder,
        locator: Locator::new(Some(symbols.symbolizer().clone())),
        symbols,
        options,
        seen: FastMap::default(),
        noted: Vec::new(),
        count: 0,
        chain: Vec::new(),
        done: SealedRecording::default(),
    };
    let rewritten = anew(data, target, true, &mut making)?;
    Ok((SealedRecording { rewritten, ..making.done }, making.unwinder))
}

/// A recording that is being sealed.
struct Making<'s> {
    unwinder: Unwinder,
    locator: Locator,
    symbols: &'s LocalSymbols,
    options: SealOptions,
    /// By the state of the maps with the level, and the address.
    seen: FastMap<(u64, u64), ()>,
    /// By object, its addresses: of memory, place and time; whether samples were there themselves.
    noted: Vec<BTreeMap<(bool, u64, u64), bool>>,
    count: usize,
    chain: Vec<u64>,
    done: SealedRecording,
}

impl Making<'_> {
    /// Notes the addresses of a sample.
    fn note(&mut self, session: &Session, attr: &Attr, misc: Misc, sample: &Sample<'_>) {
        let at = ThreadTime::of(attr, sample);
        let own = Level::of(misc);
        let branches = sample.branch_stack.iter().flat_map(|stack| stack.entries.iter());
        for address in branches.flat_map(|branch| [branch.from, branch.to]).chain(sample.addr) {
            for level in [Level::User, Level::Kernel, own] {
                self.address(session, at, level, address, false);
            }
        }
        if let Some(address) = sample.ip {
            self.address(session, at, own, address, true);
        }
        let Some(chain) = &sample.callchain else { return };
        let mut level = own;
        for word in chain.words.iter() {
            match CallchainContext::of(word) {
                Some(context) => level = level_of(context).unwrap_or(Level::Unknown),
                None => self.address(session, at, level, word, false),
            }
        }
        for address in callstack(attr, sample, chain).into_iter().flatten() {
            if CallchainContext::of(address).is_none() {
                self.address(session, at, Level::User, address, false);
            }
        }
    }

    fn address(&mut self, session: &Session, at: ThreadTime, level: Level, ip: u64, is_own: bool) {
        let maps = match level {
            Level::User => session.maps_of(at.pid, at.tid).id(),
            Level::Kernel => session.kernel_maps().id(),
            _ => return,
        };
        let key = (maps << 4 | u64::from(is_own) << 3 | level as u64, ip);
        if self.seen.contains_key(&key) {
            return;
        }
        let location = self.locator.locate(session, at, level, ip);
        if location.time == ANY_TIME {
            if self.seen.len() >= MOST_SEEN {
                self.seen.clear();
            }
            self.seen.insert(key, ());
        }
        self.location(&location, is_own);
    }

    fn location(&mut self, location: &Location, is_own: bool) {
        let ObjectId(number) = location.object;
        let object = &self.locator.objects[number as usize];
        if matches!(object.kind, ObjectKind::Unknown | ObjectKind::Function) || self.count >= MOST_ADDRESSES {
            return;
        }
        let TimedAddress { address, time } = TimedAddress::of(location, object);
        let (is_memory, address) = match address {
            Address::Memory(address) => (true, address),
            Address::FileOffset(offset) => (false, offset),
        };
        if self.noted.len() <= number as usize {
            self.noted.resize(number as usize + 1, BTreeMap::new());
        }
        let mut is_new = false;
        let noted = self.noted[number as usize].entry((is_memory, address, time));
        *noted.or_insert_with(|| {
            is_new = true;
            false
        }) |= is_own;
        self.count += usize::from(is_new);
    }

    /// Unwinds the stack of a sample, and leaves its copy out.
    fn without_copies(
        &mut self,
        step: &Step<'_>,
        decoded: &Decoded<'_>,
        sample: &Sample<'_>,
        goes: &RecordFormat,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let mut chain = std::mem::take(&mut self.chain);
        let event = step.entry.event()?;
        let end = self.unwinder.sample(step.session, sample, event.format.order, &mut chain);
        self.done.stacks += u64::from(end.is_some());
        let mut sample = *sample;
        let sampled = sample.callchain;
        if end.is_some() {
            sample.callchain = Some(Callchain { words: Words::from(&chain[..]) });
        }
        self.note(step.session, &event.attr, decoded.misc, &sample);
        (sample.stack_user, sample.regs_user) = (None, None);
        let encode = |sample, out: &mut Vec<u8>| {
            Decoded { record: Record::Sample(sample), ..*decoded }.encode(goes, out).ok()
        };
        // The callchain may have no room beside large raw data.
        let written = encode(sample, out).or_else(|| {
            out.clear();
            sample.callchain = sampled;
            encode(sample, out)
        });
        self.chain = chain;
        written
    }

    /// The section with the names.
    fn names(&mut self) -> Vec<u8> {
        let mut sealing = Sealing::default();
        let is_whole = self.count < MOST_ADDRESSES;
        let Making { locator: Locator { strings, objects, .. }, noted, symbols, done, options, .. } = self;
        for (object, noted) in objects.iter().zip(noted.iter()).filter(|(_, noted)| !noted.is_empty()) {
            let object = ObjectRef { strings, object };
            let dso = symbols.dso(object);
            let at: Vec<(Address, u64, bool)> = noted
                .iter()
                .map(|(&(is_memory, address, time), &is_own)| match is_memory {
                    true => (Address::Memory(address), time, is_own),
                    false => (Address::FileOffset(address), time, is_own),
                })
                .collect();
            sealing.add(&dso, &at, is_whole);
            let missing = dso.missing().map(|why| (object.path().display().to_string(), why.to_string()));
            done.missing.extend(missing);
        }
        if options.source_bytes > 0 {
            done.sources = sealing.add_sources(options.source_bytes, |path| symbols.source_text(path));
        }
        (done.objects, done.functions) = (sealing.object_count(), sealing.function_count());
        let bytes = sealing.finish();
        done.bytes = bytes.len();
        bytes
    }

    /// Build-ids of the objects that have addresses, added to those that the recording tells.
    fn build_ids(&self, section: Option<&[u8]>, order: ByteOrder) -> Option<Vec<u8>> {
        let told = section.map(|bytes| Section::decode(FeatureId::BUILD_ID, bytes, order, 0));
        let mut entries = match told {
            Some(Ok(Section { feature: Feature::BuildIds(entries), .. })) => entries,
            Some(_) => return None,
            None => Vec::new(),
        };
        let Locator { strings, objects, .. } = &self.locator;
        let mut names: BTreeSet<Vec<u8>> =
            entries.iter().map(|entry| entry.name.as_bytes().to_vec()).collect();
        for (object, _) in objects.iter().zip(&self.noted).filter(|(_, noted)| !noted.is_empty()) {
            let mode = match object.kind {
                ObjectKind::User if !object.by_address => CpuMode::USER,
                ObjectKind::Kernel(..) | ObjectKind::Module(_) => CpuMode::KERNEL,
                _ => continue,
            };
            let Some(build_id) = self.symbols.dso(ObjectRef { strings, object }).build_id() else { continue };
            let name = strings.get(object.path);
            if !names.insert(name.to_vec()) {
                continue;
            }
            let (mut id, bytes) = ([0; 20], build_id.as_bytes());
            id[..bytes.len()].copy_from_slice(bytes);
            let misc = Misc::empty().with_cpu_mode(mode) | BuildIdEntry::HAS_LEN;
            entries.push(BuildIdEntry {
                misc,
                id,
                len: bytes.len() as u8,
                name: Str::new(name),
                ..BuildIdEntry::default()
            });
        }
        let mut bytes = Vec::new();
        Section::from(Feature::BuildIds(entries)).encode(order, &mut bytes).ok()?;
        Some(bytes)
    }
}

impl Changes for Making<'_> {
    fn attr(&mut self, attr: &mut Attr, _: &mut Vec<u8>) {
        if is_to_be_unwound(attr) {
            *attr = Recording::attr(attr, false);
        }
    }

    fn record(
        &mut self,
        step: &Step<'_>,
        goes: Option<&RecordFormat>,
        out: &mut Vec<u8>,
    ) -> Result<Fate, RewriteError> {
        let kind = step.entry.kind();
        if [perfuse_data::tool::kind::AUXTRACE, perfuse_data::tool::kind::AUXTRACE_INFO].contains(&kind) {
            let words = "the recording has traces of processors (AUX data), which are decoded with the programs: it cannot be sealed";
            return Err(RewriteError::Refused(words.to_owned()));
        }
        let (Some(decoded), Some(sample), Some(event)) = (step.decoded, step.sample(), step.entry.event())
        else {
            return Ok(Fate::Stays);
        };
        match goes.filter(|_| is_to_be_unwound(&event.attr)) {
            Some(goes) => {
                // A sample that cannot be written is left out.
                let _ = self.without_copies(step, decoded, sample, goes, out);
                Ok(Fate::Changes)
            }
            None => {
                self.note(step.session, &event.attr, decoded.misc, sample);
                Ok(Fate::Stays)
            }
        }
    }

    fn sections(&mut self, sections: &mut Vec<(FeatureId, Vec<u8>)>, order: ByteOrder) {
        let names = self.names();
        sections.retain(|(id, _)| *id != FeatureId::SEALED);
        sections.push((FeatureId::SEALED, names));
        let told = sections.iter().position(|(id, _)| *id == FeatureId::BUILD_ID);
        let ids = self.build_ids(told.map(|told| &sections[told].1[..]), order);
        if let Some(ids) = ids {
            sections.retain(|(id, _)| *id != FeatureId::BUILD_ID);
            sections.push((FeatureId::BUILD_ID, ids));
        }
    }
}
