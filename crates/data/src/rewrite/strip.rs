//! A recording without what is private in it.

use super::output::{Output, Sections, Target, invalid};
use super::{RewriteError, Rewritten};
use crate::feature::{EventDescs, Feature, FeatureId, Section, System};
use crate::layout::Str;
use crate::names::made;
use crate::reader::{Form, PerfData};
use crate::record::FileRecord;
use crate::tool::{Tool, ToolRecord, kind};
use crate::{Error, Ordered};
use perfuse_abi::record::{Decoded, Raw, Record, RecordFormat, RecordType, Regs, Sample, UserStack};
use perfuse_abi::wire::{Text, Words};
use perfuse_abi::{Attr, ByteOrder, EventType, SampleType};
use std::collections::{HashMap, HashSet};

/// Names that are told apart, and their bytes; all further ones get the same.
const MOST_NAMES: usize = 1 << 20;
const MOST_BYTES: usize = 64 << 20;

/// Bytes of a tracepoint's data that every tracepoint has: its number, flags and the thread.
const COMMON: usize = 8;

static NOTHING: [u8; 1 << 16] = [0; 1 << 16];
static NO_WORDS: [u64; 64] = [0; 64];

/// Sections that tell of the machine's hardware, its kernel and of times, and stay as they are.
const KEPT: [FeatureId; 21] = [
    FeatureId::OSRELEASE,
    FeatureId::VERSION,
    FeatureId::ARCH,
    FeatureId::NRCPUS,
    FeatureId::CPUDESC,
    FeatureId::CPUID,
    FeatureId::TOTAL_MEM,
    FeatureId::CPU_TOPOLOGY,
    FeatureId::NUMA_TOPOLOGY,
    FeatureId::BRANCH_STACK,
    FeatureId::PMU_MAPPINGS,
    FeatureId::STAT,
    FeatureId::CACHE,
    FeatureId::SAMPLE_TIME,
    FeatureId::MEM_TOPOLOGY,
    FeatureId::CLOCKID,
    FeatureId::CLOCK_DATA,
    FeatureId::CPU_PMU_CAPS,
    FeatureId::PMU_CAPS,
    FeatureId::E_MACHINE,
    FeatureId::CLN_SIZE,
];

/// Writes a recording without names that tell of people and of what they run. Replaced, each name by the same one wherever it
/// stands, numbered in the order of the recording: paths of files (build-ids stay), names of threads, cgroups, symbols of
/// BPF programs and the like, tracepoints of probes. Emptied: the data of tracepoints and other raw data, copies of stacks and
/// registers. The name of the machine and the command line become fixed words. Left out: BPF programs and types, whatever is not known, and records that cannot be read. [`Rewritten::changes`] tells what was done, how often.
///
/// Addresses, times, numbers of processes and cpus, and facts about the hardware stay.
///
/// # Errors
///
/// The input cannot be read, the target not be written, or the recording has traces of processors (AUX data), which tell
/// everything.
pub fn strip(mut data: PerfData<'_>, target: Target<'_>) -> Result<Rewritten, RewriteError> {
    let order = data.order();
    let is_file = matches!(data.form(), Form::File(_));
    let mut stripping = Stripping {
        order,
        names: HashMap::new(),
        numbers: HashMap::new(),
        bytes: 0,
        done: Rewritten::default(),
        probes: None,
    };
    let mut output = match is_file && target.is_file() {
        true => Output::file(target, order, data.events())?,
        false => Output::pipe(target, order)?,
    };
    let mut found = if is_file { super::cut::sections(&mut data, &mut stripping.done)? } else { Vec::new() };
    stripping.learn_probes(
        found.iter().find(|(id, _)| *id == FeatureId::TRACING_DATA).map(|(_, bytes)| &bytes[..]),
    );
    let mut sections = Sections::new();
    for (id, bytes) in found.drain(..) {
        sections.extend(stripping.section(id, &bytes).map(|bytes| (id, bytes)));
    }
    if is_file && output.is_pipe() {
        output.events(data.events())?;
        output.sections(&sections)?;
        sections.clear();
    }
    let mut ordered = if data.is_directory() { Ordered::new(data) } else { Ordered::as_read(data) };
    let mut bytes = Vec::new();
    loop {
        let entry = match ordered.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) => {
                stripping.done.note(error)?;
                continue;
            }
        };
        bytes.clear();
        if entry.kind() == kind::HEADER_TRACING_DATA {
            let tracing = ordered.data_mut().tracing_data();
            let told: Result<Option<Vec<u8>>, Error> = tracing.map(|bytes| bytes.map(<[u8]>::to_vec));
            match told {
                Ok(Some(told)) => {
                    stripping.learn_probes(Some(&told));
                    let section = stripping.section(FeatureId::TRACING_DATA, &told);
                    output.sections(
                        &section.map(|bytes| (FeatureId::TRACING_DATA, bytes)).into_iter().collect(),
                    )?;
                }
                Ok(None) => stripping.count("formats of tracepoints that cannot be read, left out"),
                Err(error) => stripping.done.note(error)?,
            }
            continue;
        }
        let is_kept = match entry.is_kernel() {
            true => stripping.kernel(&entry, &mut bytes)?,
            false => stripping.tool(&entry, &mut bytes)?,
        };
        if is_kept {
            output.put(&bytes)?;
        }
    }
    output.finish(sections)?;
    Ok(stripping.done)
}

/// The state of a recording that is being stripped.
struct Stripping {
    order: ByteOrder,
    /// Numbers of names, by their kind and text.
    names: HashMap<(&'static str, Vec<u8>), usize>,
    /// How many names there are of a kind.
    numbers: HashMap<&'static str, usize>,
    /// Bytes of the names.
    bytes: usize,
    done: Rewritten,
    /// Numbers of the tracepoints that are probes; `None` as long as no formats are known.
    probes: Option<HashSet<u64>>,
}

impl Stripping {
    fn count(&mut self, change: &'static str) {
        *self.done.changes.entry(change).or_default() += 1;
    }

    /// The name in place of another.
    fn name(&mut self, kind: &'static str, name: &[u8]) -> usize {
        if let Some(number) = self.names.get(&(kind, name.to_vec())) {
            return *number;
        }
        if self.names.len() >= MOST_NAMES || self.bytes + name.len() > MOST_BYTES {
            return 0;
        }
        let number = self.numbers.entry(kind).or_default();
        *number += 1;
        self.bytes += name.len();
        self.names.insert((kind, name.to_vec()), *number);
        *number
    }

    /// A path's name. Names of the kernel's and the process's own mappings stay.
    fn path(&mut self, path: &[u8]) -> Vec<u8> {
        if path.is_empty() || path == b"//anon" || path.starts_with(b"[") && !path.contains(&b'/') {
            return path.to_vec();
        }
        self.count("paths");
        format!("/file-{}", self.name("file", path)).into_bytes()
    }

    /// A thread's name.
    fn comm(&mut self, comm: &[u8]) -> Vec<u8> {
        self.count("names of threads");
        format!("comm-{}", self.name("comm", comm)).into_bytes()
    }

    /// Any other name.
    fn other(&mut self, kind: &'static str, change: &'static str, name: &[u8]) -> Vec<u8> {
        self.count(change);
        format!("{kind}-{}", self.name(kind, name)).into_bytes()
    }

    /// The name of an event: one that its attr tells, or that of a tracepoint of the kernel.
    fn event(&mut self, attr: Option<Attr>, name: &[u8]) -> Vec<u8> {
        let Some(attr) = attr else { return self.other("event", "names of events", name) };
        let is_of_kernel = self.probes.as_ref().is_some_and(|probes| !probes.contains(&attr.config));
        match attr.type_ {
            EventType::TRACEPOINT if is_of_kernel && !name.contains(&b'/') => name.to_vec(),
            EventType::TRACEPOINT => self.other("event", "names of events", name),
            _ => {
                let made = made(&attr);
                let base = made.split(':').next().unwrap_or_default();
                if std::str::from_utf8(name).is_ok_and(|name| crate::names::is_name_of(base, name)) {
                    return name.to_vec();
                }
                self.count("names of events");
                made.into_bytes()
            }
        }
    }

    /// Finds out which tracepoints are probes.
    fn learn_probes(&mut self, tracing: Option<&[u8]>) {
        let section = tracing.map(|bytes| Section::decode(FeatureId::TRACING_DATA, bytes, self.order, 0));
        if let Some(Ok(Section { feature: Feature::TracingData(data), .. })) = section {
            let formats = data.systems.iter().flat_map(|system| &system.formats);
            self.probes =
                Some(formats.filter(|text| is_probe(text)).filter_map(|text| number(text)).collect());
        }
    }

    /// A section without private parts; `None` if it is left out.
    fn section(&mut self, id: FeatureId, bytes: &[u8]) -> Option<Vec<u8>> {
        // The number of cpus matters for a section that is written as it is read.
        let section = match id {
            FeatureId::CPU_TOPOLOGY => return Some(bytes.to_vec()),
            _ => Section::decode(id, bytes, self.order, 0).ok(),
        };
        let names: Vec<Vec<u8>>;
        let plain: Vec<String>;
        let feature = match section.map(|section| section.feature) {
            Some(Feature::Hostname(_)) => {
                self.count("name of the machine");
                Feature::Hostname("host".into())
            }
            Some(Feature::Cmdline(_)) => {
                self.count("command line");
                Feature::Cmdline(vec!["perf".into(), "record".into()])
            }
            Some(Feature::BuildIds(mut ids)) => {
                names = ids.iter().map(|id| self.path(id.name.as_bytes())).collect();
                ids.iter_mut().zip(&names).for_each(|(id, name)| id.name = Str::new(name));
                Feature::BuildIds(ids)
            }
            Some(Feature::EventDesc(EventDescs { attr_size, mut events })) => {
                let order = self.order;
                let attr = |bytes: crate::AttrBytes<'_>| bytes.decode(order).ok().map(|attr| attr.attr);
                names =
                    events.iter().map(|event| self.event(attr(event.attr), event.name.as_bytes())).collect();
                events.iter_mut().zip(&names).for_each(|(event, name)| event.name = Str::new(name));
                Feature::EventDesc(EventDescs { attr_size, events })
            }
            Some(Feature::GroupDesc(mut groups)) => {
                groups.iter_mut().for_each(|group| group.name = "{anon_group}".into());
                Feature::GroupDesc(groups)
            }
            Some(Feature::TracingData(mut data)) => {
                let of_system = data.systems.iter().flat_map(|system| &system.formats);
                plain = of_system
                    .filter(|text| is_probe(text))
                    .filter_map(|text| number(text))
                    .map(plain_format)
                    .collect();
                data.systems.iter_mut().for_each(|system| system.formats.retain(|text| !is_probe(text)));
                data.systems.retain(|system| !system.formats.is_empty());
                if !plain.is_empty() {
                    self.count("formats of probes");
                    let formats = plain.iter().map(String::as_bytes).collect();
                    data.systems.push(System { name: b"private", formats });
                }
                (data.kallsyms, data.printk_formats) = (&[], &[]);
                data.saved_cmdlines = data.saved_cmdlines.map(|_| &[][..]);
                Feature::TracingData(data)
            }
            Some(feature) if KEPT.contains(&id) => feature,
            _ => {
                self.count("sections left out");
                return None;
            }
        };
        let mut bytes = Vec::new();
        Section::from(feature).encode(self.order, &mut bytes).ok()?;
        Some(bytes)
    }

    /// A record of the kernel. `false` if it is left out.
    fn kernel(&mut self, entry: &FileRecord<'_>, out: &mut Vec<u8>) -> Result<bool, RewriteError> {
        self.done.samples += u64::from(entry.kind() == RecordType::SAMPLE);
        let (Ok(mut decoded), Some(format)) = (entry.decode(), entry.format()) else {
            self.count("records that cannot be read, left out");
            return Ok(false);
        };
        decoded.extra = &[];
        let event = entry.event().map(|event| event.attr);
        let name: Vec<u8>;
        match &mut decoded.record {
            Record::Mmap(mmap) => {
                name = self.path(mmap.filename.as_bytes());
                mmap.filename = Text::new(&name);
            }
            Record::Mmap2(mmap) => {
                name = self.path(mmap.filename.as_bytes());
                mmap.filename = Text::new(&name);
            }
            Record::Comm(comm) => {
                name = self.comm(comm.name.as_bytes());
                comm.name = Text::new(&name);
            }
            Record::Cgroup(cgroup) => {
                name = self.other("/cgroup", "cgroups", cgroup.path.as_bytes());
                cgroup.path = Text::new(&name);
            }
            Record::Ksymbol(symbol) => {
                name = self.other("symbol", "symbols", symbol.name.as_bytes());
                symbol.name = Text::new(&name);
            }
            Record::Sample(sample) => {
                if format.sample_type.contains(SampleType::AUX) {
                    return Err(traces());
                }
                let mut raw = Vec::new();
                self.sample(sample, event, &mut raw);
                sample.raw = sample.raw.map(|_| Raw::new(&raw));
                return self.put(&decoded, format, out);
            }
            Record::Unknown { .. } => {
                self.count("records that are not known, left out");
                return Ok(false);
            }
            _ => {}
        }
        self.put(&decoded, format, out)
    }

    fn put(
        &mut self,
        decoded: &Decoded<'_>,
        format: &RecordFormat,
        out: &mut Vec<u8>,
    ) -> Result<bool, RewriteError> {
        decoded.encode(format, out).map_err(invalid)?;
        self.done.kept += u64::from(decoded.record.kind() == RecordType::SAMPLE);
        Ok(true)
    }

    /// Empties what of a sample is memory and values; `raw` gets what is left of raw data.
    fn sample(&mut self, sample: &mut Sample<'_>, event: Option<Attr>, raw: &mut Vec<u8>) {
        if let Some(data) = sample.raw.map(|raw| raw.as_bytes()) {
            self.count("raw data of samples");
            let is_tracepoint = event.is_some_and(|attr| attr.type_ == EventType::TRACEPOINT);
            raw.extend_from_slice(&data[..data.len().min(if is_tracepoint { COMMON } else { 0 })]);
            raw.resize(data.len(), 0);
        }
        if let Some(stack) = &mut sample.stack_user {
            self.count("copies of stacks");
            *stack = UserStack { bytes: &NOTHING[..stack.bytes.len().min(NOTHING.len())], dyn_size: 0 };
        }
        for regs in [&mut sample.regs_user, &mut sample.regs_intr].into_iter().flatten() {
            self.count("copies of registers");
            *regs = Regs { words: Words::from(&NO_WORDS[..regs.words.len().min(NO_WORDS.len())]), ..*regs };
        }
    }

    /// A record of the tool. `false` if it is left out.
    fn tool(&mut self, entry: &FileRecord<'_>, out: &mut Vec<u8>) -> Result<bool, RewriteError> {
        let Ok(mut record) = entry.tool() else {
            self.count("records that cannot be read, left out");
            return Ok(false);
        };
        record.extra = &[];
        let (name, threads, section);
        record.tool = match record.tool {
            Tool::AuxtraceInfo(_) | Tool::Auxtrace(_) | Tool::AuxtraceError(_) => return Err(traces()),
            Tool::BuildId(mut id) => {
                name = self.path(id.name.as_bytes());
                id.name = Str::new(&name);
                Tool::BuildId(id)
            }
            Tool::ThreadMap(list) => {
                let of = |mut thread: crate::tool::Thread| {
                    let end = thread.comm.iter().position(|byte| *byte == 0).unwrap_or(thread.comm.len());
                    let new = self.comm(&thread.comm[..end]);
                    thread.comm =
                        std::array::from_fn(|at| new.get(at).copied().filter(|_| at < 15).unwrap_or(0));
                    thread
                };
                threads = list.iter().map(of).collect::<Vec<_>>();
                Tool::ThreadMap(threads.as_slice().into())
            }
            Tool::HeaderFeature { id, bytes } => match self.section(id, bytes) {
                Some(bytes) => {
                    section = bytes;
                    Tool::HeaderFeature { id, bytes: &section }
                }
                None => return Ok(false),
            },
            Tool::EventUpdate(update) => match update.update {
                crate::tool::Update::Scale(_) | crate::tool::Update::Cpus(_) => Tool::EventUpdate(update),
                _ => {
                    self.count("names and units of events, left out");
                    return Ok(false);
                }
            },
            tool @ (Tool::HeaderAttr(_)
            | Tool::FinishedRound
            | Tool::FinishedInit
            | Tool::IdIndex(_)
            | Tool::CpuMap(_)
            | Tool::StatConfig(_)
            | Tool::Stat(_)
            | Tool::StatRound(_)
            | Tool::TimeConv(_)) => tool,
            _ => {
                self.count("records that are not known, left out");
                return Ok(false);
            }
        };
        let record: ToolRecord<'_> = record;
        record.padded().encode(self.order, out).map_err(invalid)?;
        Ok(true)
    }
}

fn traces() -> RewriteError {
    let words = "the recording has traces of processors (AUX data), which tell everything that ran: record without them";
    RewriteError::Refused(words.to_owned())
}

/// Whether a format is that of a probe, which somebody named.
fn is_probe(format: &[u8]) -> bool {
    let has = |word: &[u8]| format.windows(word.len()).any(|window| window == word);
    has(b"__probe_")
}

/// A format with the fields of every tracepoint: readers want one for each event.
fn plain_format(number: u64) -> String {
    let fields = [("unsigned short common_type", 0, 2, 0), ("unsigned char common_flags", 2, 1, 0)];
    let more = [("unsigned char common_preempt_count", 3, 1, 0), ("int common_pid", 4, 4, 1)];
    let field = |(name, offset, size, signed): (&str, u8, u8, u8)| {
        format!("\tfield:{name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
    };
    let fields: String = fields.into_iter().chain(more).map(field).collect();
    format!("name: probe_{number}\nID: {number}\nformat:\n{fields}\n\nprint fmt: \"probe\"\n")
}

/// The number of a tracepoint's format.
pub(super) fn number(format: &[u8]) -> Option<u64> {
    let line = format.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"ID:"))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}
