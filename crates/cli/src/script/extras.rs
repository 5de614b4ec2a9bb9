//! Fields that only some recordings have: where data came from, registers, branches, what BPF programs wrote.

use super::fields::{Field, Fields};
use super::places::{self, Places, Space};
use crate::recording::registers as names;
use crate::recording::text::Text;
use perfuse_abi::record::{BranchStack, DataSrc, Regs, RegsAbi};
use perfuse_data::session::Level;
use std::fmt::Write;

pub(super) fn bytes(text: &mut Text, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "{byte:02x} ");
    }
}

/// The names of the bits that are set.
fn listed(text: &mut String, bits: u64, names: &[&str]) {
    let mut between = "";
    for (bit, name) in names.iter().enumerate() {
        if bits >> bit & 1 == 1 {
            text.push_str(between);
            text.push_str(name);
            between = " or ";
        }
    }
}

/// The number, and what it says.
pub(super) fn data_source(text: &mut Text, source: DataSrc) {
    const OPS: [&str; 5] = ["N/A", "LOAD", "STORE", "PFETCH", "EXEC"];
    const LEVELS: [&str; 14] = [
        "N/A",
        "HIT",
        "MISS",
        "L1",
        "LFB",
        "L2",
        "L3",
        "Local RAM",
        "Remote RAM (1 hop)",
        "Remote RAM (2 hops)",
        "Remote Cache (1 hop)",
        "Remote Cache (2 hops)",
        "I/O",
        "Uncached",
    ];
    const HOPS: [&str; 8] =
        ["N/A", "core, same node", "node, same socket", "socket, same board", "board", "", "", ""];
    const SNOOPS: [&str; 5] = ["N/A", "None", "Hit", "Miss", "HitM"];
    const TLB: [&str; 7] = ["N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault"];
    let bits = source.0;
    let field = |shift: u32, width: u32| bits >> shift & ((1 << width) - 1);
    let (op, level, snoop, lock, tlb) = (field(0, 5), field(5, 14), field(19, 5), field(24, 2), field(26, 7));
    let (number, remote, snoop_more, block, hops) =
        (field(33, 4), field(37, 1), field(38, 2), field(40, 3), field(43, 3));
    text.hex(bits, 16);
    let mut out = String::from(" |OP ");
    out.push_str(OPS.iter().enumerate().find(|(bit, _)| op >> bit & 1 == 1).map_or("No", |(_, name)| name));
    out.push_str("|LVL ");
    let start = out.len();
    if remote == 1 {
        out.push_str("Remote ");
    }
    let is_named = hops == 0 && level & !6 != 0;
    if hops != 0 {
        let _ = write!(out, "{} ", HOPS[hops as usize]);
    } else {
        listed(&mut out, level & !6, &LEVELS);
    }
    if number != 0 {
        if is_named {
            out.push_str(" or ");
        }
        match number {
            9 => out.push_str("CXL"),
            10 => out.push_str("I/O"),
            11 => out.push_str("Any cache"),
            12 => out.push_str("LFB"),
            13 => out.push_str("RAM"),
            14 => out.push_str("PMEM"),
            15 => out.push_str("N/A"),
            number => {
                let _ = write!(out, "L{number}");
            }
        }
    }
    ends(&mut out, start, level);
    out.push_str("|SNP ");
    let start = out.len();
    listed(&mut out, snoop, &SNOOPS);
    if snoop_more != 0 {
        out.push_str(if out.len() > start { " or " } else { "" });
        listed(&mut out, snoop_more, &["Fwd", "Peer"]);
    }
    if out.len() == start {
        out.push_str("N/A");
    }
    out.push_str("|TLB ");
    let start = out.len();
    listed(&mut out, tlb & !6, &TLB);
    ends(&mut out, start, tlb);
    out.push_str("|LCK ");
    out.push_str(if lock & 1 != 0 {
        "N/A"
    } else if lock & 2 != 0 {
        "Yes"
    } else {
        "No"
    });
    out.push_str("|BLK ");
    if block == 0 || block & 1 != 0 {
        out.push_str(" N/A");
    } else {
        out.push_str(if block & 2 != 0 { " Data" } else { "" });
        out.push_str(if block & 4 != 0 { " Addr" } else { "" });
    }
    text.push(out);
}

/// Whether it was a hit or a miss.
fn ends(out: &mut String, start: usize, bits: u64) {
    if out.len() == start {
        out.push_str("N/A");
    }
    out.push_str(if bits & 2 != 0 { " hit" } else { "" });
    out.push_str(if bits & 4 != 0 { " miss" } else { "" });
}

pub(super) fn registers(text: &mut Text, regs: Option<&Regs<'_>>, machine: &str) {
    let Some(regs) = regs.filter(|regs| regs.abi != RegsAbi::ABI_NONE) else { return };
    let _ = write!(text, " ABI:{} ", regs.abi.0);
    for (register, value) in regs.iter() {
        let _ = write!(text, "{:>5}:0x{value:x} ", names::name(machine, register));
    }
}

/// The branches of a sample, in the form that was asked for.
pub(super) fn branches(
    text: &mut Text,
    places: &mut Places,
    fields: &Fields,
    space: &Space<'_>,
    level: Level,
    stack: &BranchStack<'_>,
) {
    let forms = [Field::Brstack, Field::Brstacksym, Field::Brstackoff];
    let Some(form) = forms.into_iter().find(|form| fields.has(*form)) else { return };
    for branch in stack.entries.iter() {
        for (address, before) in [(branch.from, " "), (branch.to, "/")] {
            let at = places.level_of(space, level, address);
            let located = places.locate(space, at, address);
            match form {
                Field::Brstacksym => {
                    text.push(if before == " " { "" } else { before });
                    places::symbol(text, &places.frames, located, true);
                }
                _ => {
                    let is_offset = form == Field::Brstackoff && at == Level::User;
                    text.push(before);
                    text.push("0x");
                    text.hex(if is_offset { located.place } else { address }, 0);
                }
            }
            if fields.has(Field::Dso) {
                text.push("(");
                text.push(places.frames.object(places.frames.get(located.frame).object));
                text.push(")");
            }
        }
        let flags = branch.flags;
        let way = match (flags.mispred(), flags.predicted()) {
            (_, true) => 'P',
            (true, false) => 'M',
            (false, false) => '-',
        };
        let (in_tx, abort) = (if flags.in_tx() { 'X' } else { '-' }, if flags.abort() { 'A' } else { '-' });
        let kind = names::branch_type(flags);
        let _ = write!(text, "/{way}/{in_tx}/{abort}/{}/{kind} ", flags.cycles());
    }
}

/// What a BPF program wrote, as numbers and letters, and as text if it is some.
pub(super) fn bpf_output(text: &mut Text, bytes: &[u8]) {
    text.push("\n");
    let (mut hit_nul, mut is_printable) = (false, true);
    for (row, chunk) in bytes.chunks(8).enumerate() {
        let _ = write!(text, "{:>17} {:04x}:", if row == 0 { "BPF output:" } else { "           " }, row * 8);
        for byte in chunk {
            let _ = write!(text, " {byte:02x}");
        }
        text.spaces(3 * (8 - chunk.len()) + 2);
        for &byte in chunk {
            is_printable &= !(hit_nul && byte != 0);
            let is_letter = (b' '..=b'~').contains(&byte);
            text.push([if is_letter { byte } else { b'.' }]);
            hit_nul |= byte == 0;
            is_printable &= is_letter || byte == 0;
        }
        text.spaces(8 - chunk.len());
        text.push("\n");
    }
    if is_printable && hit_nul {
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let _ = writeln!(text, "{:>17} \"{}\"", "BPF string:", String::from_utf8_lossy(&bytes[..end]));
    }
}
