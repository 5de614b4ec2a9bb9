//! Every record of a recording with what is in it, in the order of the file.

use super::{Input, say};
use crate::exit::Result;
use perfuse_abi::record::{Decoded, MmapFile, Record};
use perfuse_data::Entry;
use perfuse_data::session::Level;
use std::fmt::Write as _;
use std::io::Write;

/// Dumps a recording.
pub(crate) fn print(out: &mut impl Write, input: &Input) -> Result<()> {
    let mut data = input.open()?;
    let name = input.name();
    loop {
        match data.next() {
            Ok(Some(entry)) => record(out, &entry, &name)?,
            Ok(None) => break,
            Err(error) => say(&error.to_string()),
        }
    }
    Ok(())
}

fn record(out: &mut impl Write, entry: &Entry<'_>, name: &str) -> Result<()> {
    let (offset, header) = (entry.location.offset, entry.raw.header);
    let kind = crate::report::kind_name(header.kind);
    writeln!(out, "\n{offset:#x}@{name} [{:#x}]: event: {}", header.size, header.kind.0)?;
    bytes(out, entry.bytes())?;
    let text = if entry.is_kernel() {
        match entry.decode() {
            Ok(decoded) => {
                let cpu = decoded.cpu().map_or(-1, |cpu| i64::from(cpu as i32));
                let time = decoded.time().map_or(-1, |time| time as i64);
                format!(
                    "{cpu} {time} {offset:#x} [{:#x}]: PERF_RECORD_{kind}{}",
                    header.size,
                    body(entry, &decoded)
                )
            }
            Err(error) => format!("{offset:#x} [{:#x}]: PERF_RECORD_{kind}: {error}", header.size),
        }
    } else {
        match entry.tool() {
            Ok(tool) => format!("0 0 {offset:#x} [{:#x}]: PERF_RECORD_{kind} {:?}", header.size, tool.tool),
            Err(error) => format!("0 0 {offset:#x} [{:#x}]: PERF_RECORD_{kind}: {error}", header.size),
        }
    };
    writeln!(out, "{text}")?;
    Ok(())
}

fn bytes(out: &mut impl Write, bytes: &[u8]) -> Result<()> {
    let mut line = String::new();
    for (row, chunk) in bytes.chunks(16).enumerate() {
        line.clear();
        let _ = write!(line, ".  {:04x}: ", row * 16);
        chunk.iter().for_each(|byte| {
            let _ = write!(line, " {byte:02x}");
        });
        let _ = write!(line, "{:width$}  ", "", width = 3 * (16 - chunk.len()));
        line.extend(chunk.iter().map(|&byte| match byte {
            b' '..=b'~' => char::from(byte),
            _ => '.',
        }));
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// What is in a record, in perf's words; also for scripts that want to see more than samples.
pub(crate) fn body(entry: &Entry<'_>, decoded: &Decoded<'_>) -> String {
    let rights = |prot: u32, flags: u32| {
        let right = |bit: u32, letter| if prot & bit != 0 { letter } else { '-' };
        [right(1, 'r'), right(2, 'w'), right(4, 'x'), if flags & 1 != 0 { 's' } else { 'p' }]
            .iter()
            .collect::<String>()
    };
    match &decoded.record {
        Record::Sample(sample) => {
            let tid = sample.tid.unwrap_or_default();
            let period = entry.event().map_or(0, |event| event.weight(sample));
            let mut text = format!(
                "(IP, {:#x}): {}/{}: {:#x} period: {period} addr: {:#x}",
                decoded.misc.bits(),
                tid.pid as i32,
                tid.tid as i32,
                sample.ip.unwrap_or(0),
                sample.addr.unwrap_or(0)
            );
            if let Some(chain) = &sample.callchain {
                let _ = write!(text, "\n... chain: nr:{}", chain.words.len());
                for (index, word) in chain.words.iter().enumerate() {
                    let _ = write!(text, "\n..... {index:2}: {word:016x}");
                }
            }
            if let Some(stack) = &sample.branch_stack {
                let _ = write!(text, "\n... branch stack: nr:{}", stack.entries.len());
                for (index, branch) in stack.entries.iter().enumerate() {
                    let _ = write!(
                        text,
                        "\n..... {index:2}: {:016x} -> {:016x} {:?}",
                        branch.from, branch.to, branch.flags
                    );
                }
            }
            for (name, registers) in [("user", &sample.regs_user), ("intr", &sample.regs_intr)] {
                let Some(registers) = registers else { continue };
                let _ = write!(text, "\n... {name} regs: mask {:#x} abi {}", registers.mask, registers.abi.0);
                for (register, value) in registers.iter() {
                    let _ = write!(text, "\n.... {register:2} {value:#018x}");
                }
            }
            if let Some(stack) = &sample.stack_user {
                let _ = write!(
                    text,
                    "\n... ustack: size {}, offset {:#x}",
                    stack.copied().len(),
                    stack.bytes.len()
                );
            }
            if let Some(values) = &sample.read {
                let _ = write!(text, "\n... read {values:?}");
            }
            if let Some(weight) = &sample.weight {
                let _ = write!(text, "\n... weight: {}", weight.bits());
            }
            if let Some(source) = &sample.data_src {
                let _ = write!(text, "\n . data_src: {source:?}");
            }
            if let Some(address) = sample.phys_addr {
                let _ = write!(text, "\n .. phys_addr: {address:#x}");
            }
            if let Some(cgroup) = sample.cgroup {
                let _ = write!(text, "\n... cgroup: {cgroup}");
            }
            if let Some(size) = sample.data_page_size {
                let _ = write!(text, "\n .. data page size: {size}");
            }
            if let Some(size) = sample.code_page_size {
                let _ = write!(text, "\n .. code page size: {size}");
            }
            text
        }
        Record::Mmap(mmap) => {
            let (pid, tid) = (mmap.tid.pid as i32, mmap.tid.tid as i32);
            let kind = if Level::of(decoded.misc) == Level::Kernel || mmap.pgoff != 0 { 'x' } else { 'r' };
            let kind =
                if decoded.misc.contains(perfuse_abi::record::Misc::MMAP_DATA) { 'r' } else { 'x'.max(kind) };
            format!(
                " {pid}/{tid}: [{:#x}({:#x}) @ {:#x}]: {kind} {}",
                mmap.addr, mmap.len, mmap.pgoff, mmap.filename
            )
        }
        Record::Mmap2(mmap) => {
            let (pid, tid) = (mmap.tid.pid as i32, mmap.tid.tid as i32);
            let file = match mmap.file {
                MmapFile::Inode { maj, min, ino, ino_generation } => {
                    format!("{maj:02x}:{min:02x} {ino} {ino_generation}")
                }
                MmapFile::BuildId(id) => format!("<{id}>"),
            };
            let offset = if mmap.pgoff == 0 { "0".to_owned() } else { format!("{:#x}", mmap.pgoff) };
            let rights = rights(mmap.prot, mmap.flags);
            format!(
                " {pid}/{tid}: [{:#x}({:#x}) @ {offset} {file}]: {rights} {}",
                mmap.addr, mmap.len, mmap.filename
            )
        }
        Record::Comm(comm) => {
            let exec = if decoded.misc.contains(perfuse_abi::record::Misc::COMM_EXEC) { " exec" } else { "" };
            format!("{exec}: {}:{}/{}", comm.name, comm.tid.pid as i32, comm.tid.tid as i32)
        }
        Record::Fork(task) | Record::Exit(task) => {
            let [pid, tid, ppid, ptid] = [task.pid, task.tid, task.ppid, task.ptid].map(|id| id as i32);
            format!("({pid}:{tid}):({ppid}:{ptid})")
        }
        Record::Lost(lost) => format!(" id:{}: lost:{}", lost.id, lost.lost),
        Record::LostSamples(lost) => format!(" : lost samples {lost}"),
        Record::Switch if decoded.misc.contains(perfuse_abi::record::Misc::SWITCH_OUT) => {
            let preempt = decoded.misc.contains(perfuse_abi::record::Misc::SWITCH_OUT_PREEMPT);
            format!(" OUT {}", if preempt { "preempt" } else { "" })
        }
        Record::Switch => " IN  ".to_owned(),
        Record::SwitchCpuWide(tid) => {
            let out = decoded.misc.contains(perfuse_abi::record::Misc::SWITCH_OUT);
            let preempt = out && decoded.misc.contains(perfuse_abi::record::Misc::SWITCH_OUT_PREEMPT);
            let (way, whom) = if out { ("OUT", "next") } else { ("IN ", "prev") };
            let preempt = if preempt { "preempt" } else { "" };
            let [pid, tid] = [tid.pid, tid.tid].map(|id| id as i32);
            format!(" {way} {preempt}          {whom} pid/tid: {pid:>5}/{tid:<5}")
        }
        Record::Ksymbol(symbol) => {
            let (flags, kind) = (symbol.flags.bits(), symbol.kind.0);
            format!(
                " addr {:x} len {} type {kind} flags {flags:#x} name {}",
                symbol.addr, symbol.len, symbol.name
            )
        }
        Record::BpfEvent(event) => format!(" type {}, flags {}, id {}", event.kind.0, event.flags, event.id),
        Record::Cgroup(cgroup) => format!(" cgroup: {} {}", cgroup.id, cgroup.path),
        Record::Throttle(_) | Record::Unthrottle(_) => String::new(),
        Record::Aux(aux) => {
            format!(" offset: {:#x} size: {:#x} flags: {:#x}", aux.offset, aux.size, aux.flags.bits())
        }
        other => format!(" {other:?}"),
    }
}
