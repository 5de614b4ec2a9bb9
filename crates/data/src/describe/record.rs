//! The contents of the kernel's records other than samples, in perf's words; also for scripts that want to see
//! more than samples.

use super::known_name;
use crate::Event;
use crate::text::Hex;
use crate::text::foreign;
use perfuse_abi::ReadFormat;
use perfuse_abi::record::RecordType;
use perfuse_abi::record::{Decoded, Misc, MmapFile, Namespaces, Read, Record, TextPoke, Tid};
use perfuse_abi::wire::Text;
use std::borrow::Cow;
use std::fmt::Write;

/// Writes what follows the record's name, and ends the line.
pub(super) fn write(text: &mut String, event: Option<&Event>, decoded: &Decoded<'_>) {
    match &decoded.record {
        Record::Lost(lost) => {
            let _ = writeln!(text, ": id:{}: lost:{}", lost.id, lost.lost);
        }
        Record::LostSamples(lost) => {
            let id = decoded.id().unwrap_or(u64::MAX);
            let _ = writeln!(text, ": id:{id}: lost samples :{lost}");
        }
        Record::Throttle(_) | Record::Unthrottle(_) => text.push_str(": unhandled!\n"),
        Record::Read(read) => values(text, event, read),
        Record::Sample(_) => {}
        _ => body(text, decoded),
    }
}

/// Writes the name of a record that is no sample, and what is in it, as lines among samples have it; ends the line.
pub fn write_record(text: &mut String, kind: RecordType, decoded: &Decoded<'_>) {
    let _ = write!(text, "PERF_RECORD_{}", known_name(kind));
    body(text, decoded);
}

/// The contents of a record, as lines among samples have it.
pub(super) fn body(text: &mut String, decoded: &Decoded<'_>) {
    let _ = match &decoded.record {
        Record::Mmap(mmap) => {
            let kind = if decoded.misc.contains(Misc::MMAP_DATA) { 'r' } else { 'x' };
            let (start, len, offset) = (Hex(mmap.addr), Hex(mmap.len), Hex(mmap.pgoff));
            let (pid, tid) = numbers(mmap.tid);
            writeln!(text, " {pid}/{tid}: [{start}({len}) @ {offset}]: {kind} {}", name(&mmap.filename))
        }
        Record::Mmap2(mmap) => {
            let (start, len, offset) = (Hex(mmap.addr), Hex(mmap.len), Hex(mmap.pgoff));
            let (pid, tid) = numbers(mmap.tid);
            let _ = write!(text, " {pid}/{tid}: [{start}({len}) @ {offset} ");
            let _ = match mmap.file {
                MmapFile::Inode { maj, min, ino, ino_generation } => {
                    write!(text, "{maj:02x}:{min:02x} {ino} {ino_generation}")
                }
                MmapFile::BuildId(id) => write!(text, "<{id}>"),
            };
            let right = |bit: u32, letter| if mmap.prot & bit != 0 { letter } else { '-' };
            let shared = if mmap.flags & 1 != 0 { 's' } else { 'p' };
            let (read, write, execute) = (right(1, 'r'), right(2, 'w'), right(4, 'x'));
            writeln!(text, "]: {read}{write}{execute}{shared} {}", name(&mmap.filename))
        }
        Record::Comm(comm) => {
            let exec = if decoded.misc.contains(Misc::COMM_EXEC) { " exec" } else { "" };
            let (pid, tid) = numbers(comm.tid);
            writeln!(text, "{exec}: {}:{pid}/{tid}", name(&comm.name))
        }
        Record::Fork(task) | Record::Exit(task) => {
            let [pid, tid, ppid, ptid] = [task.pid, task.tid, task.ppid, task.ptid].map(|id| id as i32);
            writeln!(text, "({pid}:{tid}):({ppid}:{ptid})")
        }
        Record::Lost(lost) => writeln!(text, " lost {}", lost.lost),
        Record::LostSamples(lost) => writeln!(text, " lost {lost}"),
        Record::Switch => writeln!(text, " {}", way(decoded.misc)),
        Record::SwitchCpuWide(tid) => {
            let whom = if decoded.misc.contains(Misc::SWITCH_OUT) { "next" } else { "prev" };
            let (pid, tid) = numbers(*tid);
            writeln!(text, " {}  {whom} pid/tid: {pid:>5}/{tid:<5}", way(decoded.misc))
        }
        Record::Namespaces(namespaces) => return links(text, namespaces),
        Record::Ksymbol(symbol) => writeln!(
            text,
            " addr {:x} len {} type {} flags {:#x} name {}",
            symbol.addr,
            symbol.len,
            symbol.kind.0,
            symbol.flags.bits(),
            name(&symbol.name)
        ),
        Record::BpfEvent(event) => {
            writeln!(text, " type {}, flags {}, id {}", event.kind.0, event.flags, event.id)
        }
        Record::Cgroup(cgroup) => writeln!(text, " cgroup: {} {}", cgroup.id, name(&cgroup.path)),
        Record::TextPoke(poke) => return poked(text, poke),
        Record::Aux(aux) => {
            let flags = aux.flags.bits();
            let letter = |bit: u64, letter| if flags & bit != 0 { letter } else { "" };
            let letters = [letter(1, "T"), letter(2, "O"), letter(4, "P")].concat();
            let (offset, size) = (Hex(aux.offset), Hex(aux.size));
            writeln!(text, " offset: {offset} size: {size} flags: {} [{letters}]", Hex(flags))
        }
        Record::ItraceStart(tid) => {
            let (pid, tid) = numbers(*tid);
            writeln!(text, " pid: {pid} tid: {tid}")
        }
        Record::AuxOutputHwId(id) => writeln!(text, " hw_id: {}", Hex(*id)),
        _ => Ok(()),
    };
}

fn name<'t>(text: &Text<'t>) -> Cow<'t, str> {
    foreign(text.as_bytes())
}

fn numbers(tid: Tid) -> (i32, i32) {
    (tid.pid as i32, tid.tid as i32)
}

fn way(misc: Misc) -> &'static str {
    match (misc.contains(Misc::SWITCH_OUT), misc.contains(Misc::SWITCH_OUT_PREEMPT)) {
        (false, _) => "IN         ",
        (true, false) => "OUT        ",
        (true, true) => "OUT preempt",
    }
}

fn links(text: &mut String, namespaces: &Namespaces<'_>) {
    const NAMES: [&str; 7] = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"];
    let (pid, tid) = numbers(namespaces.tid);
    let count = namespaces.links.len();
    let _ = write!(text, " {pid}/{tid} - nr_namespaces: {count}\n\t\t[");
    for (index, link) in namespaces.links.iter().enumerate() {
        if index > 0 && index % 4 == 0 {
            text.push_str("\n\t\t ");
        }
        let name = NAMES.get(index).unwrap_or(&"unknown");
        let end = if index + 1 == count { "]\n" } else { ", " };
        let _ = write!(text, "{index}/{name}: {}/{:#x}{end}", link.dev, link.ino);
    }
}

fn poked(text: &mut String, poke: &TextPoke<'_>) {
    let _ = writeln!(text, " {:x}  old len {} new len {}", poke.addr, poke.old.len(), poke.new.len());
    for (name, bytes) in [("old", poke.old), ("new", poke.new)] {
        for row in bytes.chunks(16) {
            let _ = write!(text, "            {name} bytes:");
            row.iter().for_each(|byte| {
                let _ = write!(text, " {byte:02x}");
            });
            text.push('\n');
        }
    }
}

fn values(text: &mut String, event: Option<&Event>, read: &Read<'_>) {
    let (pid, tid) = numbers(read.tid);
    let name = event.map_or_else(|| "unknown".to_owned(), Event::display_name);
    let Some(entry) = read.values.entries().next() else { return };
    let _ = writeln!(text, ": {pid} {tid} {} {}", foreign(&name), entry.value);
    let format = event.map_or(ReadFormat::empty(), |event| event.attr.read_format);
    let lines = [
        (ReadFormat::TOTAL_TIME_ENABLED, "time enabled", read.values.time_enabled()),
        (ReadFormat::TOTAL_TIME_RUNNING, "time running", read.values.time_running()),
        (ReadFormat::ID, "id          ", entry.id),
        (ReadFormat::LOST, "lost        ", entry.lost),
    ];
    for (flag, name, value) in lines {
        if let (true, Some(value)) = (format.contains(flag), value) {
            let _ = writeln!(text, "... {name} : {value}");
        }
    }
}
