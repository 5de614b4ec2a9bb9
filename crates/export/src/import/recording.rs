//! An import as a recording: its samples as records, its functions at places of their own, whose names go to the symbols.

use super::Import;
use perfuse_abi::record::{
    Callchain, CallchainContext, Comm, Cpu, CpuMode, Decoded, Misc, Mmap, Record, RecordFormat, SampleId, Tid,
};
use perfuse_abi::wire::{Text, Words};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType, record};
use perfuse_data::tool::Tool;
use perfuse_data::{NewEvent, Writer};
use perfuse_profile::symbols::{
    DsoKey, DsoKind, Reference, SymbolBinding, SymbolKind, SymbolTable, Symbolizer, TableBuilder, TableFull,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Cursor};

/// Where objects lie: one behind the other, with pages between them.
const USER: u64 = 0x10_0000;
const KERNEL: u64 = 0xffff_ffff_8000_0000;
const MODULES: u64 = 0xffff_ffff_c000_0000;
const PAGE: u64 = 0x1000;
/// Bytes of a function.
const SIZE: u64 = 16;
/// A record holds so many words of a callchain at most: deeper ones are cut, and keep the innermost.
const MAX_CHAIN: usize = 8000;
/// So many samples are told one by one; where there are more, samples that are alike are one.
pub(super) const MAX_SAMPLES: u64 = 1 << 22;
/// `PERF_COUNT_SW_DUMMY`: the event counts nothing itself.
const DUMMY: u64 = 9;

/// The names of functions in an import's recording, to be [given](Self::give) to those who look up its symbols.
#[must_use = "without its names, the recording shows addresses"]
pub struct ImportedNames(Vec<(DsoKey, SymbolTable)>);

impl ImportedNames {
    /// Gives the names to a source of symbols.
    pub fn give(self, symbolizer: &Symbolizer) {
        for (key, table) in self.0 {
            symbolizer.insert(&key, table);
        }
    }
}

/// An object with its functions.
struct Object {
    name: String,
    is_kernel: bool,
    start: u64,
    end: u64,
}

/// The places of all functions.
struct Places {
    objects: Vec<Object>,
    /// The address and the object of each function.
    of_functions: Vec<(u64, usize)>,
    names: Vec<(DsoKey, SymbolTable)>,
}

impl Import {
    /// The same as a recording, and the names of its functions, which have no place in recordings. Functions stand at addresses that were made up,
    /// each once; samples have their times if they were told.
    ///
    /// # Errors
    /// More names than tables of symbols take.
    pub fn recording(&self) -> io::Result<(Vec<u8>, ImportedNames)> {
        let places = self.places().map_err(io::Error::other)?;
        let has_times = self.samples.iter().any(|sample| sample.time_ns.is_some());
        let has_cpus = self.samples.iter().any(|sample| sample.cpu.is_some());
        let mut attr = Attr { config: DUMMY, sample_period: 1, ..Attr::new(EventType::SOFTWARE) };
        attr.sample_type = SampleType::IDENTIFIER | SampleType::IP | SampleType::TID;
        attr.sample_type |= SampleType::PERIOD | SampleType::CALLCHAIN;
        if has_times {
            attr.sample_type |= SampleType::TIME;
        }
        if has_cpus {
            attr.sample_type |= SampleType::CPU;
        }
        attr.flags |= AttrFlags::SAMPLE_ID_ALL;
        let event = |(id, name): (u64, &u32)| NewEvent {
            attr,
            name: self.texts.get(*name).to_owned(),
            ids: vec![id],
        };
        let events: Vec<NewEvent> = (1..).zip(&self.events).map(event).collect();
        let mut making = Making {
            writer: Writer::file(Cursor::new(Vec::new()), &events)?,
            format: RecordFormat::of(&attr, ByteOrder::NATIVE),
            has_times,
            has_cpus,
        };
        let kernel = Tid { pid: u32::MAX, tid: 0 };
        for object in places.objects.iter().filter(|object| object.is_kernel) {
            making.map(kernel, object)?;
        }
        let is_one_by_one = !self.is_merged();
        let mut names: HashMap<u32, u32> = HashMap::new();
        let mut mapped: HashSet<(u32, usize)> = HashSet::new();
        let mut chain = Vec::new();
        for sample in &self.samples {
            let tid = Tid { pid: sample.pid, tid: sample.tid };
            let time = sample.time_ns.unwrap_or(0);
            if names.get(&sample.tid) != Some(&sample.thread) {
                // The first name is there from the start.
                let since = if names.contains_key(&sample.tid) { time } else { 0 };
                let name = Text::new(self.texts.get(sample.thread).as_bytes());
                making.add(tid, since, None, Misc::empty(), Record::Comm(Comm { tid, name }))?;
                names.insert(sample.tid, sample.thread);
            }
            chain.clear();
            let mut mode = None;
            let mut first = (0, CpuMode::USER);
            for &function in self.stacks.list[sample.stack as usize].iter().take(MAX_CHAIN / 2) {
                let (address, object) = places.of_functions[function as usize];
                let is_kernel = places.objects[object].is_kernel;
                if !is_kernel && mapped.insert((sample.pid, object)) {
                    making.map(tid, &places.objects[object])?;
                }
                let (context, cpu_mode) = match is_kernel {
                    true => (CallchainContext::KERNEL, CpuMode::KERNEL),
                    false => (CallchainContext::USER, CpuMode::USER),
                };
                if mode.is_none() {
                    first = (address, cpu_mode);
                }
                if mode != Some(context) {
                    chain.push(context.0);
                    mode = Some(context);
                }
                chain.push(address);
            }
            let count = if is_one_by_one { sample.count.max(1) } else { 1 };
            for number in 0..count {
                // The first ones have what does not go up evenly.
                let period = sample.weight / count + u64::from(number < sample.weight % count);
                let mut record = record::Sample::default();
                (record.identifier, record.ip) = (Some(u64::from(sample.event) + 1), Some(first.0));
                (record.tid, record.time) = (Some(tid), has_times.then_some(time));
                record.cpu = has_cpus.then(|| Cpu::from(sample.cpu.unwrap_or(0)));
                record.period = Some(period);
                record.callchain = Some(Callchain { words: Words::from(&chain[..]) });
                let misc = Misc::empty().with_cpu_mode(first.1);
                making.add(tid, time, sample.cpu, misc, Record::Sample(record))?;
            }
        }
        // Data without a record would be taken for data that goes on to the end of the file.
        making.writer.tool(Tool::FinishedRound)?;
        let bytes = making.writer.finish(Vec::new())?.into_inner();
        Ok((bytes, ImportedNames(places.names)))
    }

    /// Gives a place to each function.
    fn places(&self) -> Result<Places, TableFull> {
        let mut by_object: BTreeMap<(bool, &str), Vec<usize>> = BTreeMap::new();
        for (at, function) in self.functions.list.iter().enumerate() {
            let object = self.texts.get(function.object);
            by_object.entry((function.is_kernel, object)).or_default().push(at);
        }
        let mut places = Places {
            objects: Vec::new(),
            of_functions: vec![(0, 0); self.functions.list.len()],
            names: Vec::new(),
        };
        let (mut user, mut kernel, mut modules) = (USER, KERNEL, MODULES);
        for ((is_kernel, object), functions) in by_object {
            let is_module = is_kernel && !object.starts_with("[kernel");
            let next = match (is_kernel, is_module) {
                (true, true) => &mut modules,
                (true, false) => &mut kernel,
                (false, _) => &mut user,
            };
            let start = *next;
            let mut table = TableBuilder::default();
            let mut address = start;
            for function in functions {
                places.of_functions[function] = (address, places.objects.len());
                let name = self.texts.get(self.functions.list[function].name);
                let name: Vec<u8> = name.bytes().map(|byte| if byte == 0 { b'?' } else { byte }).collect();
                table.push(address, SIZE, &name, SymbolBinding::Global, SymbolKind::Function)?;
                address += SIZE;
            }
            let end = address.next_multiple_of(PAGE);
            *next = end + PAGE;
            let name = shown_name(object);
            let key = match (is_kernel, is_module) {
                (true, true) => DsoKey::module(&name, start),
                (true, false) => DsoKey::kernel(Some(Reference { symbol: "_text".into(), address: start })),
                (false, _) => DsoKey::of_map(name.as_bytes(), 0),
            };
            places.names.push((key, table.finish(&[])));
            places.objects.push(Object { name, is_kernel, start, end });
        }
        Ok(places)
    }
}

/// The name of an object in maps: one that stands for memory of a process gets another, as it is no memory here.
fn shown_name(object: &str) -> String {
    let object = object.replace('\0', "?");
    match DsoKey::of_map(object.as_bytes(), 0).kind {
        _ if object.is_empty() => "[unknown]".to_owned(),
        DsoKind::Anonymous { .. } => format!("[memory: {object}]"),
        _ => object,
    }
}

/// A recording that is being made.
struct Making {
    writer: Writer<Cursor<Vec<u8>>>,
    format: RecordFormat,
    has_times: bool,
    has_cpus: bool,
}

impl Making {
    fn add(
        &mut self,
        tid: Tid,
        time: u64,
        cpu: Option<u32>,
        misc: Misc,
        record: Record<'_>,
    ) -> io::Result<()> {
        let sample_id = match record {
            Record::Sample(_) => SampleId::default(),
            _ => SampleId {
                tid: Some(tid),
                time: self.has_times.then_some(time),
                cpu: self.has_cpus.then(|| Cpu::from(cpu.unwrap_or(0))),
                identifier: Some(1),
                ..SampleId::default()
            },
        };
        self.writer.record(&Decoded { misc, record, sample_id, extra: &[] }, &self.format)
    }

    /// Maps an object: places in it are told by their addresses.
    fn map(&mut self, tid: Tid, object: &Object) -> io::Result<()> {
        let is_whole_kernel = object.is_kernel && object.name.starts_with("[kernel");
        let name = match is_whole_kernel {
            true => format!("{}_text", object.name),
            false => object.name.clone(),
        };
        let (addr, len) = (object.start, object.end - object.start);
        let mode = if object.is_kernel { CpuMode::KERNEL } else { CpuMode::USER };
        let filename = Text::new(name.as_bytes());
        let map = Mmap { tid, addr, len, pgoff: addr, filename };
        self.add(tid, 0, None, Misc::empty().with_cpu_mode(mode), Record::Mmap(map))
    }
}
