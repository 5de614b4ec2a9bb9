//! Records as scenarios see them: a kind, and fields with names.

use perfuse_abi::record::{CpuMode, Decoded, Misc, MmapFile, Record, RecordFormat, RecordType, Records};
use perfuse_abi::{Attr, AuxFlags, ByteOrder};
use std::fmt::Write;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordValue {
    /// A number.
    Number(u64),
    /// An address, which is shown in hexadecimal.
    Address(u64),
    /// A text.
    Text(String),
    /// Several numbers: of a group, or the addresses of a callchain.
    Numbers(Vec<u64>),
}

/// A record.
#[derive(Clone, Debug)]
pub struct ScenarioRecord {
    /// Its kind.
    pub kind: RecordType,
    /// Its fields, by the names that scenarios use.
    pub fields: Vec<(&'static str, RecordValue)>,
}

impl ScenarioRecord {
    pub(super) fn get(&self, name: &str) -> Option<&RecordValue> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    }
}

/// All records in the bytes that were read from the ring of an event with this attr; bytes that are no record become a text.
pub(super) fn of(attr: &Attr, bytes: &[u8]) -> impl Iterator<Item = Result<ScenarioRecord, String>> {
    let format = RecordFormat::of(attr, ByteOrder::NATIVE);
    Records::new(bytes, ByteOrder::NATIVE).map(move |record| {
        let record = record.map_err(|error| error.to_string())?;
        let decoded = record.decode(&format).map_err(|error| error.to_string())?;
        Ok(ScenarioRecord { kind: decoded.record.kind(), fields: fields(&decoded) })
    })
}

/// A record in one line: what is there, by name.
pub(super) fn line(seen: &ScenarioRecord) -> String {
    let mut text = seen.kind.to_string();
    for (name, value) in &seen.fields {
        let _ = match (*name, value) {
            ("time", RecordValue::Number(at)) => write!(text, " at {}", time(*at)),
            (name, value) => write!(text, " {name} {}", as_text(value)),
        };
    }
    text
}

/// The value of a field, as text.
pub(super) fn as_text(value: &RecordValue) -> String {
    match value {
        RecordValue::Number(number) => number.to_string(),
        RecordValue::Address(address) => format!("{address:#x}"),
        RecordValue::Text(text) => text.clone(),
        RecordValue::Numbers(numbers) => {
            let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:#x}")).collect();
            numbers.join(",")
        }
    }
}

/// A time in ms.
pub(super) fn time(ns: u64) -> String {
    format!("{}.{:03} ms", ns / 1_000_000, ns / 1000 % 1000)
}

/// The names of the values of a group's first members.
const MEMBERS: [&str; 4] = ["value", "value2", "value3", "value4"];

fn fields(decoded: &Decoded<'_>) -> Vec<(&'static str, RecordValue)> {
    use RecordValue::{Address, Number, Numbers, Text};
    let mut all: Vec<(&'static str, RecordValue)> = Vec::new();
    let small = |number: u32| Number(number.into());
    if let Some(time) = decoded.time() {
        all.push(("time", Number(time)));
    }
    let tid = decoded.sample_id.tid;
    match &decoded.record {
        Record::Sample(sample) => {
            if let Some(tid) = sample.tid {
                all.extend([("pid", small(tid.pid)), ("tid", small(tid.tid))]);
            }
            let addresses = [("ip", sample.ip), ("addr", sample.addr), ("phys", sample.phys_addr)];
            all.extend(addresses.into_iter().filter_map(|(name, value)| Some((name, Address(value?)))));
            let numbers = [
                ("id", sample.id.or(sample.identifier)),
                ("stream", sample.stream_id),
                ("cpu", sample.cpu.map(|cpu| cpu.cpu.into())),
                ("period", sample.period),
                ("cgroup", sample.cgroup),
                ("raw", sample.raw.map(|raw| raw.size() as u64)),
                ("branches", sample.branch_stack.map(|stack| stack.entries.len() as u64)),
                ("aux", sample.aux.map(|aux| aux.len() as u64)),
                ("stack", sample.stack_user.map(|stack| stack.copied().len() as u64)),
            ];
            all.extend(numbers.into_iter().filter_map(|(name, value)| Some((name, Number(value?)))));
            if let Some(read) = sample.read {
                let values: Vec<u64> = read.entries().map(|entry| entry.value).collect();
                all.extend(MEMBERS.into_iter().zip(values.iter().map(|value| Number(*value))));
                all.push(("values", Numbers(values)));
            }
            if let Some(chain) = sample.callchain {
                let words: Vec<u64> = chain.words.iter().collect();
                all.extend([("nr", Number(words.len() as u64)), ("chain", Numbers(words))]);
            }
            let mode = match decoded.misc.cpu_mode() {
                CpuMode::USER => "user",
                CpuMode::KERNEL => "kernel",
                _ => "other",
            };
            all.push(("mode", Text(mode.to_owned())));
        }
        Record::Fork(task) | Record::Exit(task) => all.extend([
            ("pid", small(task.pid)),
            ("ppid", small(task.ppid)),
            ("tid", small(task.tid)),
            ("ptid", small(task.ptid)),
        ]),
        Record::Comm(comm) => all.extend([
            ("pid", small(comm.tid.pid)),
            ("tid", small(comm.tid.tid)),
            ("name", Text(comm.name.to_string())),
            ("exec", Number(decoded.misc.contains(Misc::COMM_EXEC).into())),
        ]),
        Record::Mmap(map) => all.extend([
            ("pid", small(map.tid.pid)),
            ("tid", small(map.tid.tid)),
            ("addr", Address(map.addr)),
            ("len", Number(map.len)),
            ("name", Text(map.filename.to_string())),
        ]),
        Record::Mmap2(map) => {
            all.extend([
                ("pid", small(map.tid.pid)),
                ("tid", small(map.tid.tid)),
                ("addr", Address(map.addr)),
                ("len", Number(map.len)),
                ("prot", small(map.prot)),
                ("name", Text(map.filename.to_string())),
            ]);
            if let MmapFile::Inode { ino, .. } = map.file {
                all.push(("inode", Number(ino)));
            }
        }
        Record::Aux(aux) => {
            let bit = |flag| Number(aux.flags.contains(flag).into());
            all.extend([("offset", Number(aux.offset)), ("size", Number(aux.size))]);
            all.extend([("truncated", bit(AuxFlags::TRUNCATED)), ("overwrite", bit(AuxFlags::OVERWRITE))]);
        }
        Record::ItraceStart(tid) => all.extend([("pid", small(tid.pid)), ("tid", small(tid.tid))]),
        Record::AuxOutputHwId(id) => all.push(("hw-id", Number(*id))),
        Record::Lost(lost) => all.extend([("id", Number(lost.id)), ("lost", Number(lost.lost))]),
        Record::Throttle(at) | Record::Unthrottle(at) => {
            all.extend([("id", Number(at.id)), ("stream", Number(at.stream_id))]);
        }
        Record::Read(read) => {
            let values: Vec<u64> = read.values.entries().map(|entry| entry.value).collect();
            all.extend([("pid", small(read.tid.pid)), ("tid", small(read.tid.tid))]);
            all.extend(values.first().map(|first| ("value", Number(*first))));
        }
        Record::Switch | Record::SwitchCpuWide(_) => {
            if let Record::SwitchCpuWide(other) = &decoded.record {
                all.extend([("other-pid", small(other.pid)), ("other-tid", small(other.tid))]);
            }
            let bit = |misc| Number(decoded.misc.contains(misc).into());
            all.extend([("out", bit(Misc::SWITCH_OUT)), ("preempted", bit(Misc::SWITCH_OUT_PREEMPT))]);
        }
        Record::Cgroup(cgroup) => {
            all.extend([("cgroup", Number(cgroup.id)), ("name", Text(cgroup.path.to_string()))]);
        }
        _ => {}
    }
    if let (Some(tid), false) = (tid, all.iter().any(|(name, _)| *name == "tid")) {
        all.extend([("pid", small(tid.pid)), ("tid", small(tid.tid))]);
    }
    all
}
