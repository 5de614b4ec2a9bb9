//! The contents of a sample.

use super::registers;
use crate::replay::callstack;
use crate::text::Hex;
use crate::{Event, FileRecord};
use perfuse_abi::record::{BranchStack, Decoded, Regs, RegsAbi, Sample, Weight};
use perfuse_abi::{BranchSampleType, ReadFormat};
use std::fmt::Write;

/// Writes what follows the record's name, and ends the line.
pub(super) fn write(
    text: &mut String,
    event: &Event,
    entry: &FileRecord<'_>,
    decoded: &Decoded<'_>,
    sample: &Sample<'_>,
    machine: &str,
) {
    let (pid, tid) = sample.tid.map_or((-1, -1), |tid| (tid.pid as i32, tid.tid as i32));
    let _ = writeln!(
        text,
        "(IP, {:#x}): {pid}/{tid}: {} period: {} addr: {}",
        decoded.misc.bits(),
        Hex(sample.ip.unwrap_or(0)),
        event.weight(sample),
        Hex(sample.addr.unwrap_or(0))
    );
    let is_callstack = event.attr.branch_sample_type.contains(BranchSampleType::CALL_STACK);
    if let Some(chain) = &sample.callchain {
        // The callchain that the hardware's call stack completes.
        if let Some(words) = callstack(&event.attr, sample, chain) {
            let words: Vec<u64> = words.collect();
            let _ = writeln!(text, "... LBR call chain: nr:{}", words.len());
            numbered(text, words.into_iter());
        }
        let _ = writeln!(text, "... FP chain: nr:{}", chain.words.len());
        numbered(text, chain.words.iter());
    }
    if let Some(stack) = &sample.branch_stack {
        branches(text, stack, is_callstack);
    }
    write_registers(text, "user", sample.regs_user.as_ref(), machine);
    write_registers(text, "intr", sample.regs_intr.as_ref(), machine);
    if let Some(stack) = &sample.stack_user {
        // perf counts from the word before, which tells the size.
        let offset = (stack.bytes.as_ptr() as usize).wrapping_sub(entry.bytes().as_ptr() as usize);
        let _ = writeln!(text, "... ustack: size {}, offset {:#x}", stack.dyn_size, offset.wrapping_sub(8));
    }
    if let Some(weight) = &sample.weight {
        let _ = match weight {
            Weight::Full(cost) => writeln!(text, "... weight: {cost}"),
            Weight::Struct { var1, var2, var3 } => writeln!(text, "... weight: {var1},0x{var2:x},0x{var3:x}"),
        };
    }
    if let Some(source) = &sample.data_src {
        let _ = writeln!(text, " . data_src: 0x{:x}", source.0);
    }
    if let Some(address) = sample.phys_addr {
        let _ = writeln!(text, " .. phys_addr: 0x{address:x}");
    }
    for (name, size) in [("data", sample.data_page_size), ("code", sample.code_page_size)] {
        if let Some(size) = size {
            let _ = writeln!(text, " .. {name} page size: {}", page_size(size));
        }
    }
    if let Some(transaction) = sample.transaction {
        let _ = writeln!(text, "... transaction: {:x}", transaction.bits());
    }
    if let Some(values) = &sample.read {
        text.push_str("... sample_read:\n");
        if let Some(time) = values.time_enabled() {
            let _ = writeln!(text, "...... time enabled {time:016x}");
        }
        if let Some(time) = values.time_running() {
            let _ = writeln!(text, "...... time running {time:016x}");
        }
        if event.attr.read_format.contains(ReadFormat::GROUP) {
            let _ = writeln!(text, ".... group nr {}", values.entries().count());
        }
        for entry in values.entries() {
            let _ = write!(text, "..... id {:016x}, value {:016x}", entry.id.unwrap_or(0), entry.value);
            if let Some(lost) = entry.lost {
                let _ = write!(text, ", lost {lost}");
            }
            text.push('\n');
        }
    }
}

fn numbered(text: &mut String, words: impl Iterator<Item = u64>) {
    for (index, word) in words.enumerate() {
        let _ = writeln!(text, "..... {index:2}: {word:016x}");
    }
}

fn branches(text: &mut String, stack: &BranchStack<'_>, is_callstack: bool) {
    let count = stack.entries.len();
    if is_callstack {
        let _ = writeln!(text, "... branch callstack: nr:{}", count + 1);
        let froms = stack.entries.iter().map(|branch| branch.from);
        numbered(text, stack.entries.get(0).map(|branch| branch.to).into_iter().chain(froms));
    } else {
        let _ = writeln!(text, "... branch stack: nr:{count}");
        for (index, branch) in stack.entries.iter().enumerate() {
            let flags = branch.flags;
            let letter = |is_set, letter| if is_set { letter } else { " " };
            let _ = writeln!(
                text,
                "..... {index:2}: {:016x} -> {:016x} {} cycles {}{}{}{} {:x} {} {}",
                branch.from,
                branch.to,
                flags.cycles(),
                letter(flags.mispred(), "M"),
                letter(flags.predicted(), "P"),
                letter(flags.abort(), "A"),
                letter(flags.in_tx(), "T"),
                flags.0 >> 33,
                registers::branch_type(flags),
                registers::speculation(flags)
            );
        }
    }
    if let Some(counters) = &stack.counters {
        let _ = writeln!(text, "... branch stack counters: nr:{count}");
        numbered(text, counters.iter());
    }
}

fn write_registers(text: &mut String, name: &str, regs: Option<&Regs<'_>>, machine: &str) {
    let Some(regs) = regs.filter(|regs| regs.abi != RegsAbi::ABI_NONE) else { return };
    let abi = match regs.abi {
        RegsAbi::ABI_32 => "32-bit",
        RegsAbi::ABI_64 => "64-bit",
        _ => "unknown",
    };
    let _ = writeln!(text, "... {name} regs: mask 0x{:x} ABI {abi}", regs.mask);
    for (register, value) in regs.iter() {
        let _ = writeln!(text, ".... {:<5} 0x{value:016x}", registers::name(machine, register));
    }
}

/// As perf writes the size of a page: the largest unit of which it is at least two.
pub fn page_size(size: u64) -> String {
    let mut units = "BKMG".chars().peekable();
    let (mut size, mut unit) = (size, units.next().unwrap_or('B'));
    if size == 0 {
        return "N/A".to_owned();
    }
    while size / 1024 > 1 {
        let Some(next) = units.next() else { break };
        (size, unit) = (size / 1024, next);
    }
    format!("{size}{unit}")
}
