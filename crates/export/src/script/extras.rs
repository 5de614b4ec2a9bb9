//! Fields that only some recordings have: where data came from, registers, branches, what BPF programs wrote.

use super::places::{self, Found, Places, Space};
use perfuse_abi::record::{BranchStack, DataSrc, Regs, RegsAbi};
use perfuse_data::describe::{Field, Fields, registers as names};
use perfuse_data::session::Level;
use perfuse_data::text::{LineBuffer, foreign};
use perfuse_profile::mem;
use std::fmt::Write;

pub(super) fn bytes(text: &mut LineBuffer, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "{byte:02x} ");
    }
}

/// The number, and what it says.
pub(super) fn data_source(text: &mut LineBuffer, source: DataSrc) {
    text.hex(source.0, 16);
    let mut out = String::from(" |OP ");
    mem::operation(&mut out, source);
    out.push_str("|LVL ");
    mem::level(&mut out, source);
    out.push_str("|SNP ");
    mem::snoop(&mut out, source);
    out.push_str("|TLB ");
    mem::translation(&mut out, source);
    out.push_str("|LCK ");
    out.push_str(mem::locked(source));
    out.push_str("|BLK ");
    out.push_str(mem::blocked(source));
    text.again(out.as_bytes());
}

pub(super) fn registers(text: &mut LineBuffer, regs: Option<&Regs<'_>>, machine: &str) {
    let Some(regs) = regs.filter(|regs| regs.abi != RegsAbi::ABI_NONE) else { return };
    let _ = write!(text, " ABI:{} ", regs.abi.0);
    for (register, value) in regs.iter() {
        let _ = write!(text, "{:>5}:0x{value:x} ", names::name(machine, register));
    }
}

/// The branches of a sample, in the form that was asked for.
pub(super) fn branches(
    text: &mut LineBuffer,
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
                    places::symbol(text, &located, true);
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
                text.foreign(places.lookup.object(located.object));
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

/// The bytes that a BPF program wrote, as numbers and letters; and as text, if they are text.
pub(super) fn bpf_output(text: &mut LineBuffer, bytes: &[u8]) {
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
            text.again(&[if is_letter { byte } else { b'.' }]);
            hit_nul |= byte == 0;
            is_printable &= is_letter || byte == 0;
        }
        text.spaces(8 - chunk.len());
        text.push("\n");
    }
    if is_printable && hit_nul {
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let _ = writeln!(text, "{:>17} \"{}\"", "BPF string:", foreign(&bytes[..end]));
    }
}

/// The instruction where the sample was.
pub(super) fn instruction(text: &mut LineBuffer, fields: &Fields, found: Option<&Found>) {
    if fields.has(Field::Insnlen) {
        let _ = write!(text, " ilen: {}", found.map_or(0, |found| found.bytes.len()));
    }
    let Some(found) = found else { return };
    if fields.has(Field::Insn) {
        text.push(" insn:");
        found.bytes.iter().for_each(|byte| _ = write!(text, " {byte:02x}"));
    }
    if fields.has(Field::Disasm) {
        text.push("\t\t");
        text.foreign(&found.text);
    }
}
