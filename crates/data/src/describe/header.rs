//! The header of a recording, about the machine and itself, as comment lines: those of `perf report --header`.

use super::page_size as unit;
use crate::feature::{
    BpfFunction, BpfProgram, Btf, Capability, CpuTopology, Feature, FeatureId, MemNode, Section,
};
use crate::replay::Formats;
use crate::text::foreign;
use crate::{Event, Form, PerfData};
use perfuse_abi::{Attr, ByteOrder};
use std::io::{self, Write};
use std::time::Duration;

/// How the header is told.
#[derive(Clone, Copy)]
pub struct HeaderOptions<'a> {
    /// Also what is long in it: topology, caches, memory.
    pub full: bool,
    /// When the file was last changed, as it is to be shown.
    pub captured: Option<&'a str>,
    /// Whether the file begins as those before perf 3.4 do, which perf calls version 0.
    pub is_old: bool,
    /// The time of day of a moment since 1970, as `2026-11-23 07:00:00`.
    pub local_time: &'a dyn Fn(Duration) -> String,
}

/// A line, whatever the recording has put into it.
fn put(out: &mut dyn Write, line: std::fmt::Arguments<'_>) -> io::Result<()> {
    writeln!(out, "{}", foreign(&line.to_string()))
}

/// Writes what a recording says of the machine and of itself. In a pipe it comes among the records, so those are read, and the
/// header itself tells nothing, which perf shows as zeros.
///
/// # Errors
///
/// Those of `out`.
pub fn header(out: &mut dyn Write, mut data: PerfData<'_>, options: &HeaderOptions<'_>) -> io::Result<()> {
    if matches!(data.form(), Form::Pipe) {
        while let Ok(Some(_)) = data.next() {}
    }
    put(out, format_args!("# ========"))?;
    if let Some(captured) = options.captured {
        put(out, format_args!("# captured on    : {captured}"))?;
    }
    let (start, size) = match *data.form() {
        Form::File(header) => (header.data.offset, header.data.size),
        Form::Pipe => (0, 0),
    };
    put(out, format_args!("# header version : {}", u32::from(!options.is_old)))?;
    put(out, format_args!("# data offset    : {start}"))?;
    put(out, format_args!("# data size      : {size}"))?;
    put(out, format_args!("# feat offset    : {}", start.wrapping_add(size)))?;
    let is_pipe = matches!(data.form(), Form::Pipe);
    if is_pipe {
        put(out, format_args!("# ========"))?;
        put(out, format_args!("#"))?;
    }
    let formats = Formats::read(&mut data);
    let names: Vec<String> = data.events().iter().map(|event| formats.event_name(event)).collect();
    let ids: Vec<FeatureId> = data.features().collect();
    let order = data.order();
    // They come after the programs whose functions they name.
    let types = data.feature_bytes(FeatureId::BPF_BTF).ok().flatten().map(<[u8]>::to_vec).unwrap_or_default();
    for &id in &ids {
        match (id, data.feature(id)) {
            (FeatureId::EVENT_DESC, _) => events(out, data.events(), &names)?,
            (FeatureId::GROUP_DESC, Ok(Some(section))) => {
                if let Feature::GroupDesc(list) = section.feature {
                    for group in list {
                        let name = group.name.to_string().replace("{anon_group}", "");
                        let members = names.iter().skip(group.leader as usize).take(group.members as usize);
                        let members: Vec<&str> = members.map(String::as_str).collect();
                        put(out, format_args!("# group: {name}{{{}}}", members.join(",")))?;
                    }
                }
            }
            (FeatureId::BPF_PROG_INFO, Ok(Some(section))) => {
                if let Feature::BpfPrograms(list) = section.feature {
                    let types = match Section::decode(FeatureId::BPF_BTF, &types, order, 0) {
                        Ok(Section { feature: Feature::BpfTypes(types), .. }) => types,
                        _ => Vec::new(),
                    };
                    list.iter().try_for_each(|program| bpf(out, program, order, &types))?;
                }
            }
            (_, Ok(Some(section))) if options.full || !is_long(id) => {
                feature(out, id, &section.feature, options)?
            }
            (_, Ok(Some(_))) => put(out, format_args!("# {id} info available, use -I to display"))?,
            (_, Ok(None)) => {}
            (_, Err(error)) => put(out, format_args!("# {id}: {error}"))?,
        }
    }
    if is_pipe && !ids.contains(&FeatureId::EVENT_DESC) {
        events(out, data.events(), &names)?;
    }
    if !is_pipe {
        write!(out, "# missing features: ")?;
        for id in FeatureId::ALL.iter().filter(|id| !ids.contains(id) && **id != FeatureId::SEALED) {
            write!(out, "{id} ")?;
        }
        put(out, format_args!(""))?;
    }
    for problem in data.problems() {
        put(out, format_args!("# problem : {problem}"))?;
    }
    if !is_pipe {
        put(out, format_args!("# ========"))?;
        put(out, format_args!("#"))?;
    }
    Ok(())
}

/// The fields of an attr that are not zero, as `name: value` with what is wanted for the colon.
pub fn attr_text(attr: &Attr, between: &str) -> String {
    let text = attr.to_string();
    let mut fields: Vec<String> = Vec::new();
    for part in text.split(", ") {
        match fields.last_mut() {
            // The comma stood in a pair of braces.
            Some(last) if last.starts_with('{') && !last.contains('}') => {
                last.push_str(", ");
                last.push_str(part);
            }
            _ => fields.push(part.to_owned()),
        }
    }
    let field = |field: String| {
        let (name, value) = field.split_once(": ")?;
        // perf 6.1 has no names of types and events here, and leaves out what is zero.
        let value = value.split(" (").next().unwrap_or(value);
        let value = if name == "sample_type" { sample_type(value) } else { value.to_owned() };
        (!["type", "config", "clockid"].contains(&name) || !["0", "0x0"].contains(&value.as_str()))
            .then(|| format!("{name}{between}{value}"))
    };
    fields.into_iter().filter_map(field).collect::<Vec<_>>().join(", ")
}

/// The names of a sample type in perf's order, which is not that of the bits.
fn sample_type(names: &str) -> String {
    const LATE: [&str; 10] = [
        "IDENTIFIER",
        "REGS_INTR",
        "DATA_SRC",
        "WEIGHT",
        "PHYS_ADDR",
        "AUX",
        "CGROUP",
        "DATA_PAGE_SIZE",
        "CODE_PAGE_SIZE",
        "WEIGHT_STRUCT",
    ];
    let mut names: Vec<&str> = names.split('|').collect();
    names.sort_by_key(|name| LATE.iter().position(|late| late == name).map_or(0, |place| place + 1));
    names.join("|")
}

fn events(out: &mut dyn Write, events: &[Event], names: &[String]) -> io::Result<()> {
    for (event, name) in events.iter().zip(names) {
        write!(out, "# event : name = {}, ", foreign(name))?;
        if !event.ids.is_empty() {
            let ids: Vec<String> = event.ids.iter().map(ToString::to_string).collect();
            write!(out, ", id = {{ {} }}", ids.join(", "))?;
        }
        put(out, format_args!(", {}", attr_text(&event.attr, " = ")))?;
    }
    Ok(())
}

/// Whether perf shows this only when asked for more.
fn is_long(id: FeatureId) -> bool {
    [
        FeatureId::CPU_TOPOLOGY,
        FeatureId::NUMA_TOPOLOGY,
        FeatureId::CACHE,
        FeatureId::MEM_TOPOLOGY,
        FeatureId::HYBRID_TOPOLOGY,
    ]
    .contains(&id)
}

fn feature(
    out: &mut dyn Write,
    id: FeatureId,
    feature: &Feature<'_>,
    options: &HeaderOptions<'_>,
) -> io::Result<()> {
    match feature {
        Feature::Hostname(text) => put(out, format_args!("# hostname : {text}"))?,
        Feature::OsRelease(text) => put(out, format_args!("# os release : {text}"))?,
        Feature::Version(text) => put(out, format_args!("# perf version : {text}"))?,
        Feature::Arch(text) => put(out, format_args!("# arch : {text}"))?,
        Feature::NrCpus(cpus) => {
            put(out, format_args!("# nrcpus online : {}", cpus.online))?;
            put(out, format_args!("# nrcpus avail : {}", cpus.available))?;
        }
        Feature::CpuDesc(text) => put(out, format_args!("# cpudesc : {text}"))?,
        Feature::CpuId(text) => put(out, format_args!("# cpuid : {text}"))?,
        Feature::TotalMem(kib) => put(out, format_args!("# total memory : {kib} kB"))?,
        Feature::Cmdline(words) => {
            write!(out, "# cmdline : ")?;
            for word in words {
                write!(out, "{} ", foreign(word.as_bytes()).replace('\'', "\\'"))?;
            }
            put(out, format_args!(""))?;
        }
        Feature::CpuTopology(topology) => cpus(out, topology)?,
        Feature::NumaTopology(nodes) => {
            for node in nodes {
                let (number, total, free) = (node.node, node.total_kib, node.free_kib);
                put(out, format_args!("# node{number} meminfo  : total = {total} kB, free = {free} kB"))?;
                put(out, format_args!("# node{number} cpu list : {}", node.cpus))?;
            }
        }
        Feature::PmuMappings(pmus) => {
            let pmus: Vec<String> = pmus.iter().map(|pmu| format!("{} = {}", pmu.name, pmu.kind)).collect();
            put(out, format_args!("# pmu mappings: {}", pmus.join(", ")))?;
        }
        Feature::Cache(cache) => {
            put(out, format_args!("# CPU cache info:"))?;
            for level in &cache.levels {
                let (kind, size) = (level.kind.to_string(), level.size.to_string());
                put(out, format_args!("#  L{} {kind:<15} {size:>8} [{}]", level.level, level.cpus))?;
            }
        }
        Feature::SampleTime(time) => {
            let seconds = |ns: u64| format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000);
            put(out, format_args!("# time of first sample : {}", seconds(time.first_ns)))?;
            put(out, format_args!("# time of last sample : {}", seconds(time.last_ns)))?;
            let span = time.last_ns.saturating_sub(time.first_ns);
            put(out, format_args!("# sample duration : {:10.3} ms", span as f64 / 1e6))?;
        }
        Feature::MemTopology(memory) => {
            let (count, size) = (memory.nodes.len(), memory.block_size);
            put(out, format_args!("# memory nodes (nr {count}, block size {size:#x}):"))?;
            for node in &memory.nodes {
                let (ranges, count) = blocks(node);
                put(
                    out,
                    format_args!("#  {:3} [{}]: {ranges}", node.node, unit(size.saturating_mul(count))),
                )?;
            }
        }
        Feature::ClockResolution(ns) => {
            put(out, format_args!("# clockid frequency: {} MHz", ns.saturating_mul(1000)))?;
        }
        Feature::DirFormat(version) => put(out, format_args!("# directory data version : {version}"))?,
        Feature::Clock(clock) => {
            let name = clock_name(clock.clock_id);
            put(out, format_args!("# clockid: {name} ({})", clock.clock_id))?;
            let wall = (options.local_time)(Duration::from_nanos(clock.wall_ns));
            let second = 1_000_000_000;
            let micros = clock.wall_ns % second / 1000;
            let (wall_s, clock_s) = (clock.wall_ns / second, clock.clock_ns / second);
            put(
                out,
                format_args!(
                    "# reference time: {wall}.{micros:06} = {wall_s}.{micros:06} (TOD) = {clock_s}.{:09} ({name})",
                    clock.clock_ns % second
                ),
            )?;
        }
        Feature::EMachine { machine, flags } => {
            put(out, format_args!("# e_machine : {machine}"))?;
            put(out, format_args!("#   e_flags : {flags}"))?;
        }
        Feature::CacheLineSize(bytes) => put(out, format_args!("# cacheline size: {bytes}"))?,
        Feature::Compressed(how) => {
            let (kind, level, ratio) = (if how.kind == 1 { "Zstd" } else { "Unknown" }, how.level, how.ratio);
            put(out, format_args!("# compressed : {kind}, level = {level}, ratio = {ratio}"))?;
        }
        Feature::CpuPmuCaps(caps) => capabilities(out, "cpu", caps)?,
        Feature::PmuCaps(pmus) => {
            for pmu in pmus {
                capabilities(out, &pmu.pmu.to_string(), &pmu.caps)?;
            }
        }
        Feature::HybridTopology(nodes) => {
            put(out, format_args!("# hybrid cpu system:"))?;
            for node in nodes {
                put(out, format_args!("# {} cpu list : {}", node.pmu, node.cpus))?;
            }
        }
        Feature::BpfTypes(types) => {
            for of_program in types {
                put(out, format_args!("# btf info of id {}", of_program.id))?;
            }
        }
        Feature::EventDesc(_) | Feature::BuildIds(_) | Feature::TracingData(_) => {}
        Feature::GroupDesc(_) | Feature::BpfPrograms(_) => {}
        Feature::Stat => put(out, format_args!("# contains stat data"))?,
        Feature::Auxtrace(_) => put(out, format_args!("# contains AUX area data (e.g. instruction trace)"))?,
        Feature::BranchStack => put(out, format_args!("# contains samples with branch stack"))?,
        Feature::Unknown { bytes, .. } if id == FeatureId::SEALED => {
            let size = unit(bytes.len() as u64);
            put(
                out,
                format_args!("# sealed : names of functions, source lines and code are inside ({size})"),
            )?;
        }
        _ => put(out, format_args!("# {id} info available"))?,
    }
    Ok(())
}

/// A BPF program, or its parts.
fn bpf(out: &mut dyn Write, program: &BpfProgram<'_>, order: ByteOrder, types: &[Btf<'_>]) -> io::Result<()> {
    let types = types.iter().find(|types| types.id == program.types(order)).copied();
    let functions = program.functions(order, types);
    let one = |function: &BpfFunction| {
        let name = String::from_utf8_lossy(&function.name).into_owned();
        format!("{name} addr 0x{:x} size {}", function.addr, function.len)
    };
    let id = program.id(order);
    if let [function] = &functions[..] {
        return put(out, format_args!("# bpf_prog_info {id}: {}", one(function)));
    }
    put(out, format_args!("# bpf_prog_info {id}:"))?;
    for (number, function) in functions.iter().enumerate() {
        writeln!(out, "# \tsub_prog {number}: {}", foreign(&one(function)))?;
    }
    Ok(())
}

fn capabilities(out: &mut dyn Write, pmu: &str, caps: &[Capability<'_>]) -> io::Result<()> {
    let caps: Vec<String> = caps.iter().map(|cap| format!("{}={}", cap.name, cap.value)).collect();
    let caps = if caps.is_empty() { "not available".to_owned() } else { caps.join(", ") };
    put(out, format_args!("# {pmu} pmu capabilities: {caps}"))?;
    Ok(())
}

fn cpus(out: &mut dyn Write, topology: &CpuTopology<'_>) -> io::Result<()> {
    let dies = topology.dies.as_ref();
    for list in &topology.core_siblings {
        put(out, format_args!("# sibling sockets : {list}"))?;
    }
    for list in dies.iter().flat_map(|dies| &dies.siblings) {
        put(out, format_args!("# sibling dies    : {list}"))?;
    }
    for list in &topology.thread_siblings {
        put(out, format_args!("# sibling threads : {list}"))?;
    }
    let Some(ids) = &topology.cpus else {
        let what = if dies.is_some() { "Core ID, Die ID" } else { "Core ID" };
        put(out, format_args!("# {what} and Socket ID information is not available"))?;
        return Ok(());
    };
    for (cpu, id) in ids.iter().enumerate() {
        let (core, socket) = (id.core as i32, id.socket as i32);
        match dies.and_then(|dies| dies.of_cpu.get(cpu)) {
            Some(die) => {
                let die = *die as i32;
                put(out, format_args!("# CPU {cpu}: Core ID {core}, Die ID {die}, Socket ID {socket}"))?;
            }
            None => put(out, format_args!("# CPU {cpu}: Core ID {core}, Socket ID {socket}"))?,
        }
    }
    Ok(())
}

/// The blocks of memory that a node has, as ranges, and how many they are.
fn blocks(node: &MemNode<'_>) -> (String, u64) {
    let has = |bit: u64| node.set.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1);
    let bits = node.bits.min(node.set.len() as u64 * 64);
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for bit in (0..bits).filter(|&bit| has(bit)) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == bit => *last = bit,
            _ => ranges.push((bit, bit)),
        }
    }
    let text = |&(first, last): &(u64, u64)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let count = ranges.iter().map(|(first, last)| last - first + 1).sum();
    (ranges.iter().map(text).collect::<Vec<_>>().join(","), count)
}

fn clock_name(id: u32) -> &'static str {
    match id {
        0 => "realtime",
        1 => "monotonic",
        4 => "monotonic_raw",
        7 => "boottime",
        11 => "tai",
        _ => "(not found)",
    }
}
