//! The instructions that ran before a sample, by its branches: from where each went to where the next one came from, a block. Lines as
//! perf prints them for `brstackinsn`.

use super::places::{self, Found, LONGEST, Places, Space};
use super::sources::SourceLines;
use super::{Decode, Sample};
use perfuse_abi::record::BranchEntry;
use perfuse_data::describe::{Field, Fields};
use perfuse_data::session::Level;
use perfuse_data::text::LineBuffer;
use std::fmt::Write;
use std::sync::Arc;

/// A longer block is none: between its ends, branches are missing.
const MOST_BYTES: u64 = 16384 - LONGEST;
/// Where the branch before a sample is missing, so much is looked through for one.
const LOOKED_THROUGH: u64 = 128;
/// No sample has more lines: processors record 32 branches, a file may claim thousands.
const MOST_LINES: usize = 1 << 15;

/// How instructions are shown.
#[derive(Clone, Copy)]
pub(super) struct Form {
    as_text: bool,
    with_length: bool,
    with_line: bool,
    with_source: bool,
}

impl Form {
    /// If these fields have instructions between branches.
    pub(super) fn of(fields: &Fields) -> Option<Self> {
        let has = |field| fields.has(field);
        let all = [Field::Brstackinsn, Field::Brstackinsnlen, Field::Brstackdisasm];
        all.into_iter().any(has).then(|| Form {
            as_text: has(Field::Brstackdisasm),
            with_length: has(Field::Brstackinsnlen),
            with_line: has(Field::Srcline),
            with_source: has(Field::Srccode),
        })
    }
}

/// Where lines go, and where what is in them comes from.
pub(super) struct Lines<'l> {
    pub(super) text: &'l mut LineBuffer,
    pub(super) places: &'l mut Places,
    pub(super) sources: &'l mut SourceLines,
    /// At most so many blocks.
    pub(super) most: Option<usize>,
}

/// Adds the blocks of a sample, the oldest first.
pub(super) fn write(lines: Lines<'_>, one: &Sample<'_>, space: &Space<'_>, form: Form, decode: Decode) {
    let Some(stack) = &one.sample.branch_stack else { return };
    // The newest is the first one.
    let mut entries: Vec<BranchEntry> = stack.entries.iter().collect();
    entries.truncate(lines.most.filter(|&most| most > 0).map_or(usize::MAX, |most| most + 1));
    let (Some(&newest), Some(&oldest)) = (entries.first(), entries.last()) else { return };
    let tid = one.sample.tid.unwrap_or_default().tid;
    let mut walk = Walk { lines, space, form, decode, tid, function: None, cycles: 0, left: MOST_LINES };
    walk.lines.text.push("\n");
    // Where the first one came to is not known.
    if let Ok(level) = walk.block(oldest.from, oldest.from) {
        walk.function(level, oldest.from);
        walk.branch(level, &oldest, 0);
    }
    let mut index = entries.len() - 1;
    while index > 0 {
        index -= 1;
        let start = entries[index + 1].to;
        let mut block = walk.block(start, entries[index].from);
        // The processor may leave out the branches of the kernel: then the branch back from it is the next one.
        if matches!(block, Err(NoBlock::Crosses)) && index > 0 {
            index -= 1;
            block = walk.block(start, entries[index].from);
        }
        if let Ok(level) = block {
            walk.between(level, start, &entries[index]);
        }
    }
    let ip = one.sample.ip.unwrap_or(0);
    if newest.from != ip && !newest.flags.abort() {
        walk.last(newest.to, ip);
    }
}

/// Why there is no block between two addresses.
#[derive(Clone, Copy)]
enum NoBlock {
    /// One is the kernel's, the other a program's.
    Crosses,
    /// It would be too long, or there is no code.
    Unknown,
}

struct Walk<'w, 's> {
    lines: Lines<'w>,
    space: &'w Space<'s>,
    form: Form,
    decode: Decode,
    tid: u32,
    /// The function that was named last, by its object and where it begins there.
    function: Option<(u32, u64)>,
    /// Of all branches until here, those that told theirs.
    cycles: u64,
    /// Lines that are left.
    left: usize,
}

impl Walk<'_, '_> {
    /// Whose code the block between two addresses is.
    fn block(&mut self, start: u64, end: u64) -> Result<Level, NoBlock> {
        let level = level_of(start);
        if start == 0 || end == 0 {
            return Err(NoBlock::Unknown);
        }
        if level != level_of(end) {
            return Err(NoBlock::Crosses);
        }
        let is_there = end.wrapping_sub(start) <= MOST_BYTES && self.instruction(level, start).is_some();
        is_there.then_some(level).ok_or(NoBlock::Unknown)
    }

    fn instruction(&mut self, level: Level, at: u64) -> Option<Arc<Found>> {
        self.lines.places.instruction(self.space, level, at, self.decode)
    }

    /// Names the function at an address, if it is another one than before.
    fn function(&mut self, level: Level, at: u64) {
        let Lines { text, places, .. } = &mut self.lines;
        let located = places.locate(self.space, level, at);
        let Some(name) = &located.symbol else { return };
        let begins = (located.object, located.place.wrapping_sub(located.offset));
        if self.function.replace(begins) == Some(begins) {
            return;
        }
        text.push("\t");
        text.foreign(&**name);
        if located.offset > 0 {
            text.push("+");
            text.decimal(located.offset, 0);
        }
        text.push(":");
        if self.form.with_line {
            text.push("\t");
            places::source_line(text, &places.lookup, &located, located.line.as_ref());
        }
        text.push("\n");
    }

    /// The beginning of an instruction's line: none is longer than `most`, the bytes that are looked at. Returns its length, if it
    /// is an instruction.
    fn begin(&mut self, at: u64, found: Option<&Found>, most: u64, width: usize) -> Option<u64> {
        self.left = self.left.saturating_sub(1);
        let text = &mut *self.lines.text;
        text.push("\t");
        let _ = write!(text, "{at:016x}");
        text.push("\t");
        let found = found.filter(|found| found.leaves.is_some() && found.bytes.len() as u64 <= most);
        let before = text.0.len();
        match found {
            Some(found) if self.form.as_text => text.foreign(&found.text),
            Some(found) => {
                text.push("insn: ");
                found.bytes.iter().for_each(|byte| _ = write!(text, "{byte:02x} "));
            }
            None => text.push("<bad>"),
        }
        text.spaces(width.saturating_sub(text.0.len() - before));
        found.map(|found| found.bytes.len() as u64)
    }

    /// A line of an instruction that made no branch. Returns its length, if it is an instruction.
    fn line(&mut self, at: u64, found: Option<&Found>, most: u64) -> Option<u64> {
        let len = self.begin(at, found, most, 0);
        let text = &mut *self.lines.text;
        if self.form.with_length {
            let _ = write!(text, "\tilen: {}", len.unwrap_or(0));
        }
        text.push("\n");
        len
    }

    /// The line of an instruction that made a branch, the last one of so many.
    fn branch(&mut self, level: Level, branch: &BranchEntry, count: u32) {
        let found = self.instruction(level, branch.from);
        let len = self.begin(branch.from, found.as_deref(), LONGEST, 30);
        let text = &mut *self.lines.text;
        text.push("\t");
        if self.form.with_length {
            let _ = write!(text, "ilen: {}\t", len.unwrap_or(0));
        }
        text.push("#");
        let flags = branch.flags;
        let told = [
            (flags.predicted(), " PRED"),
            (flags.mispred(), " MISPRED"),
            (flags.in_tx(), " INTX"),
            (flags.abort(), " ABORT"),
        ];
        told.iter().filter(|(is_so, _)| *is_so).for_each(|(_, word)| text.push(word));
        let cycles = flags.cycles();
        if cycles > 0 {
            self.cycles += u64::from(cycles);
            let _ = write!(text, " {cycles} cycles [{}]", self.cycles);
            if count > 0 {
                let _ = write!(text, " {:.2} IPC", count as f32 / f32::from(cycles));
            }
        }
        text.push("\n");
        self.source(level, branch.from);
    }

    fn source(&mut self, level: Level, at: u64) {
        if self.form.with_source {
            let located = self.lines.places.locate(self.space, level, at);
            self.lines.sources.show(self.lines.text, self.tid, located.line);
        }
    }

    /// The instructions from where a branch went to the next branch.
    fn between(&mut self, level: Level, start: u64, branch: &BranchEntry) {
        let size = branch.from - start + LONGEST;
        let (mut offset, mut count) = (0, 0);
        while offset < size && self.left > 0 {
            let at = start.wrapping_add(offset);
            self.function(level, at);
            count += 1;
            if at == branch.from {
                self.branch(level, branch, count);
                return;
            }
            let found = self.instruction(level, at);
            let Some(len) = self.line(at, found.as_deref(), size - offset) else { break };
            self.source(level, at);
            offset += len;
        }
        self.lines.text.push("\tmismatch of LBR data and executable\n");
    }

    /// The instructions from where the last branch went to the sample. The processor may not have recorded another one yet: then
    /// they are shown until there is one.
    fn last(&mut self, start: u64, ip: u64) {
        let end = if ip < start { start.saturating_add(LOOKED_THROUGH) } else { ip };
        let block = self.block(start, end);
        self.function(level_of(start), start);
        let Ok(level) = block else {
            if let Ok(level) = self.block(ip, ip) {
                let found = self.instruction(level, ip);
                self.line(ip, found.as_deref(), LONGEST);
                self.source(level, ip);
            }
            return;
        };
        let mut offset = 0;
        while offset <= end - start && self.left > 0 {
            let at = start.wrapping_add(offset);
            let found = self.instruction(level, at);
            let Some(len) = self.line(at, found.as_deref(), end - start + LONGEST - offset) else { return };
            if at != ip && found.is_some_and(|found| found.leaves == Some(true)) {
                self.lines.text.push("\t... not reaching sample ...\n");
                return;
            }
            self.source(level, at);
            offset += len;
        }
    }
}

fn level_of(address: u64) -> Level {
    if address >> 63 == 1 { Level::Kernel } else { Level::User }
}
