//! The text of places in programs. The text of an address under some maps is made once and copied from
//! then on: a recording has millions of addresses, and few different ones.

use super::Decode;
use perfuse_abi::Attr;
use perfuse_abi::record::Sample;
use perfuse_data::describe::{Field, Fields};
use perfuse_data::session::{Level, Session};
use perfuse_data::text::LineBuffer;
use perfuse_profile::{FastMap, Lookup, Placed, ThreadTime};
use std::sync::Arc;

/// Bytes of text that are kept; then it is made again.
const MOST_BYTES: usize = 32 << 20;

/// Combinations of the parts of a place, with a cache for each: symbol, offset, object, whether it is a frame of a
/// callchain on a line of its own, the offset in the object, the source line.
const STYLES: usize = 64;
const SYMBOL: usize = 1;
const OFFSET: usize = 2;
const OBJECT: usize = 4;
pub(super) const CHAIN: usize = 8;
const OBJECT_OFFSET: usize = 16;
const LINE: usize = 32;

/// The parts of a place that lines with these fields show.
pub(super) fn style(fields: &Fields) -> usize {
    let has = |field, style| if fields.has(field) { style } else { 0 };
    has(Field::Sym, SYMBOL)
        | has(Field::Symoff, OFFSET)
        | has(Field::Dso, OBJECT)
        | has(Field::Dsoff, OBJECT | OBJECT_OFFSET)
        | has(Field::Srcline, LINE)
}

pub(super) struct Places {
    pub(super) lookup: Lookup,
    caches: [Cache; STYLES],
    /// By the state of the maps, and address.
    instructions: FastMap<(u64, u64), Option<Arc<Found>>>,
}

/// An instruction with its bytes.
pub(super) struct Found {
    pub(super) bytes: Vec<u8>,
    pub(super) text: String,
    /// Whether it always goes elsewhere. `None` of bytes that are no instruction.
    pub(super) leaves: Option<bool>,
}

/// Instructions that are kept; then they are read again.
const MOST_INSTRUCTIONS: usize = 1 << 16;
/// No instruction has more bytes.
pub(super) const LONGEST: u64 = 15;

#[derive(Default)]
struct Cache {
    /// By the state of the maps, and address.
    known: FastMap<(u64, u64), (u32, u32)>,
    text: LineBuffer,
}

/// The address space of a sample.
#[derive(Clone, Copy)]
pub(super) struct Space<'s> {
    session: &'s Session,
    at: ThreadTime,
    user: u64,
    kernel: u64,
}

impl<'s> Space<'s> {
    pub(super) fn of(session: &'s Session, attr: &Attr, sample: &Sample<'_>) -> Self {
        let at = ThreadTime::of(attr, sample);
        let (user, kernel) = (session.maps_of(at.pid, at.tid).id(), session.kernel_maps().id());
        Space { session, at, user, kernel }
    }

    fn key(&self, level: Level) -> u64 {
        let maps = match level {
            Level::User => self.user,
            Level::Kernel => self.kernel,
            _ => 0,
        };
        maps << 3 | level as u64
    }
}

impl Places {
    pub(super) fn new(lookup: Lookup) -> Self {
        let instructions = FastMap::default();
        Places { lookup, caches: std::array::from_fn(|_| Cache::default()), instructions }
    }

    /// The instruction at an address, if a file has it.
    pub(super) fn instruction(
        &mut self,
        space: &Space<'_>,
        level: Level,
        address: u64,
        decode: Decode,
    ) -> Option<Arc<Found>> {
        let key = (space.key(level), address);
        if let Some(known) = self.instructions.get(&key) {
            return known.clone();
        }
        let code = self.lookup.code(space.session, space.at, (level, address), LONGEST);
        let read = code.and_then(|(mut bytes, machine, _)| {
            let (len, text, leaves) = decode(&bytes, machine, address)?;
            bytes.truncate(len);
            Some(Arc::new(Found { bytes, text, leaves }))
        });
        if self.instructions.len() >= MOST_INSTRUCTIONS {
            self.instructions.clear();
        }
        self.instructions.insert(key, read.clone());
        read
    }

    pub(super) fn locate(&mut self, space: &Space<'_>, level: Level, address: u64) -> Placed {
        self.lookup.locate_function(space.session, space.at, of_address(level, address), address)
    }

    /// The same, with the functions that were inlined there.
    pub(super) fn locate_inlined(&mut self, space: &Space<'_>, level: Level, address: u64) -> Placed {
        self.lookup.locate(space.session, space.at, of_address(level, address), address)
    }

    /// The level of an address in data or of a branch, in a sample of `level`: the other half of the address space, if
    /// nothing is mapped there in this one.
    pub(super) fn level_of(&self, space: &Space<'_>, level: Level, address: u64) -> Level {
        let is_known = space.session.resolve(space.at.pid, space.at.tid, level, address).is_some();
        match level {
            Level::User if !is_known && address >> 63 == 1 => Level::Kernel,
            Level::Kernel if !is_known && address >> 63 == 0 => Level::User,
            level => level,
        }
    }

    /// The symbol of the kernel at an address, and how far into it that is.
    pub(super) fn kernel_symbol(&mut self, space: &Space<'_>, address: u64) -> Option<(String, u64)> {
        let located = self.locate(space, Level::Kernel, address);
        Some((located.symbol?.to_string(), located.offset))
    }

    /// The place of an address in this style: behind the address, or with [`CHAIN`] a frame on a line of its own.
    #[inline]
    pub(super) fn place(
        &mut self,
        out: &mut LineBuffer,
        style: usize,
        space: &Space<'_>,
        level: Level,
        address: u64,
    ) {
        let key = (space.key(level), address);
        let cache = &self.caches[style];
        match cache.known.get(&key) {
            Some(&(start, end)) => out.again(&cache.text.0[start as usize..end as usize]),
            None => self.make(out, style, key, space, level, address),
        }
    }

    #[cold]
    fn make(
        &mut self,
        out: &mut LineBuffer,
        style: usize,
        key: (u64, u64),
        space: &Space<'_>,
        level: Level,
        address: u64,
    ) {
        let located = match style & CHAIN {
            0 => self.locate(space, level, address),
            _ => self.locate_inlined(space, level, address),
        };
        let before = out.0.len();
        if style & CHAIN != 0 {
            for (name, line) in &located.inlined {
                inlined(out, &self.lookup, &located, style, name, line.as_ref());
            }
            out.push("\t");
            out.hex(located.place, 16);
        }
        write(out, &self.lookup, &located, style);
        if style & CHAIN != 0 {
            out.push("\n");
        }
        if located.is_timed {
            return;
        }
        let Cache { known, text } = &mut self.caches[style];
        if text.0.len() > MOST_BYTES {
            text.0.clear();
            known.clear();
        }
        let start = text.0.len() as u32;
        text.again(&out.0[before..]);
        known.insert(key, (start, text.0.len() as u32));
    }
}

fn write(text: &mut LineBuffer, lookup: &Lookup, located: &Placed, style: usize) {
    if style & SYMBOL != 0 {
        text.push(" ");
        symbol(text, located, style & OFFSET != 0);
    }
    if style & OBJECT != 0 {
        text.push(" (");
        text.foreign(lookup.object(located.object));
        if style & OBJECT_OFFSET != 0 && located.object != 0 {
            text.push("+0x");
            text.hex(located.place, 0);
        }
        text.push(")");
    }
    source_line_of(text, lookup, located, style, located.line.as_ref());
}

/// An address of the kernel is none of a program's.
fn of_address(level: Level, address: u64) -> Level {
    if level == Level::User && address >> 63 == 1 { Level::Unknown } else { level }
}

/// A frame of a function that was inlined into the next one.
fn inlined(
    text: &mut LineBuffer,
    lookup: &Lookup,
    located: &Placed,
    style: usize,
    name: &str,
    line: Option<&(Arc<str>, u32)>,
) {
    text.push("\t");
    text.hex(located.place, 16);
    if style & SYMBOL != 0 {
        text.push(" ");
        text.foreign(name);
        if style & OFFSET != 0 {
            text.push("+0x");
            text.hex(located.offset, 0);
        }
    }
    source_line_of(text, lookup, located, style, line);
    text.push(" (inlined)\n");
}

/// The source line of a place below it, if it is to be shown.
fn source_line_of(
    text: &mut LineBuffer,
    lookup: &Lookup,
    located: &Placed,
    style: usize,
    line: Option<&(Arc<str>, u32)>,
) {
    if style & LINE != 0 && located.object != 0 {
        text.push("\n  ");
        source_line(text, lookup, located, line);
    }
}

/// The line of a place, with the name of its file; where it is not known, the object and the address in it.
pub(super) fn source_line(
    text: &mut LineBuffer,
    lookup: &Lookup,
    located: &Placed,
    line: Option<&(Arc<str>, u32)>,
) {
    match line {
        Some((file, line)) => {
            text.foreign(lookup.source_name(file));
            text.push(":");
            text.decimal(u64::from(*line), 0);
        }
        None => {
            text.foreign(lookup.short_object(located.object));
            text.push("[");
            text.hex(located.place, 0);
            text.push("]");
        }
    }
}

/// A symbol, perhaps with the offset from its start.
pub(super) fn symbol(text: &mut LineBuffer, located: &Placed, with_offset: bool) {
    match &located.symbol {
        Some(name) => {
            text.foreign(&**name);
            if with_offset {
                text.push("+0x");
                text.hex(located.offset, 0);
            }
        }
        None => text.push("[unknown]"),
    }
}
