//! The bytes of sealed names: plain data in both directions. `docs/formats/sealed-names.md` describes them.
//!
//! Nothing of the input is trusted: counts are compared with the bytes that are left, numbers of texts and frames with how many
//! there are, and what is repeated by reference is held once.

use crate::elf::Part as Segment;
use flate2::Compression;
use flate2::bufread::ZlibDecoder;
use flate2::write::ZlibEncoder;
use std::io::{Read, Write};
use std::ops::Range;

/// The first bytes, with the version.
pub(crate) const MAGIC: [u8; 8] = *b"PFSEAL\0\x01";

/// Packed parts take no more bytes than this when they are unpacked.
const MOST_BYTES: u64 = 128 << 20;

/// In place of names, from a recording that was merged with one without: what the others have is not all.
pub(crate) const NOT_WHOLE: [u8; 8] = *b"PFSEAL\0\0";

/// A number of a text, or none.
pub(crate) type TextRef = Option<u32>;

/// Texts one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Texts {
    pub(crate) fn push(&mut self, text: &[u8]) -> u32 {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u32);
        self.ends.len() as u32 - 1
    }

    pub(crate) fn get(&self, text: u32) -> &[u8] {
        let Some(&end) = self.ends.get(text as usize) else { return &[] };
        let start = (text as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..end as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn byte_count(&self) -> usize {
        self.bytes.len()
    }
}

/// All that a section says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) texts: Texts,
    pub(crate) objects: Vec<Object>,
    /// Texts of source files by their paths.
    pub(crate) sources: Vec<(u32, Vec<u8>)>,
}

/// The kind of an object, as in a [`DsoKind`](crate::DsoKind).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    File,
    Vdso,
    Vsyscall,
    /// A symbol and its address.
    Kernel(TextRef, u64),
    /// Where it was loaded.
    Module(u64),
    /// The process.
    Anonymous(u32),
}

/// How places become addresses of the object's symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Places {
    /// A file that is mapped in pieces.
    Segments(Vec<Segment>),
    /// Addresses of memory less `shift`, offsets from `base` on.
    Shifted { shift: u64, base: u64 },
}

impl Default for Places {
    fn default() -> Self {
        Places::Shifted { shift: 0, base: 0 }
    }
}

/// A function, or data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) name: u32,
    /// 0 for a label, 1 for data, 2 for a function.
    pub(crate) kind: u8,
    /// The time from which it was there, for code that a process made.
    pub(crate) from: u64,
}

/// A function at an address as debug information tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    /// A number that only this function of the object has.
    pub(crate) function: Option<u32>,
    pub(crate) name: TextRef,
    pub(crate) is_inlined: bool,
    pub(crate) file: TextRef,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Addresses that have the same frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) addresses: Range<u64>,
    /// The number of the list of frames.
    pub(crate) list: u32,
}

/// An object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) path: u32,
    pub(crate) build_id: Vec<u8>,
    /// All addresses of the recording were looked up.
    pub(crate) is_whole: bool,
    /// Why it has no names, or not all.
    pub(crate) missing: TextRef,
    /// Of instructions: the machine, and whether it is one of 64 bits.
    pub(crate) machine: u16,
    pub(crate) is_64: bool,
    pub(crate) places: Places,
    pub(crate) functions: Vec<Function>,
    /// Frames of an address, the innermost first.
    pub(crate) lists: Vec<Vec<Frame>>,
    /// By address.
    pub(crate) runs: Vec<Run>,
    /// Instructions by address.
    pub(crate) code: Vec<(u64, Vec<u8>)>,
}

impl Contents {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::new());
        out.number(self.texts.len() as u64);
        (0..self.texts.len() as u32).for_each(|text| out.bytes(self.texts.get(text)));
        out.number(self.objects.len() as u64);
        self.objects.iter().for_each(|object| object.encode(&mut out));
        out.number(self.sources.len() as u64);
        for (path, text) in &self.sources {
            out.number((*path).into());
            out.bytes(text);
        }
        packed(&out.0)
    }

    /// All that a section has one after the other: one, or those of several recordings that were merged. `None` where the
    /// bytes are damaged, or of a version that is not known.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<Self>> {
        let (mut all, mut is_whole, mut left) = (Vec::new(), true, MOST_BYTES);
        while !bytes.is_empty() {
            if let Some(rest) = bytes.strip_prefix(&NOT_WHOLE) {
                (bytes, is_whole) = (rest, false);
                continue;
            }
            let unpacked = unpacked(bytes.strip_prefix(&MAGIC)?, left)?;
            bytes = unpacked.1;
            left -= unpacked.0.len() as u64;
            all.push(Self::unpacked(&unpacked.0)?);
        }
        for object in all.iter_mut().flat_map(|contents| &mut contents.objects) {
            object.is_whole &= is_whole;
        }
        Some(all).filter(|all| !all.is_empty())
    }

    fn unpacked(bytes: &[u8]) -> Option<Self> {
        let mut input = In { left: bytes, texts: 0 };
        let mut texts = Texts::default();
        for _ in 0..input.count(1)? {
            let text = input.bytes()?;
            u32::try_from(texts.byte_count() + text.len()).ok()?;
            texts.push(text);
        }
        input.texts = texts.len() as u64;
        let count = input.count(1)?;
        let objects = (0..count).map(|_| Object::decode(&mut input)).collect::<Option<_>>()?;
        let mut sources = Vec::new();
        for _ in 0..input.count(2)? {
            sources.push((input.text()?, input.bytes()?.to_vec()));
        }
        // More may follow in versions to come.
        Some(Contents { texts, objects, sources })
    }
}

impl Object {
    fn encode(&self, out: &mut Out) {
        let (number, more) = match self.kind {
            Kind::File => (0, None),
            Kind::Vdso => (1, None),
            Kind::Vsyscall => (2, None),
            Kind::Kernel(_, address) => (3, Some(address)),
            Kind::Module(base) => (4, Some(base)),
            Kind::Anonymous(pid) => (5, Some(pid.into())),
        };
        out.number(number);
        more.into_iter().for_each(|more| out.number(more));
        if let Kind::Kernel(symbol, _) = self.kind {
            out.option(symbol);
        }
        out.number(self.path.into());
        out.bytes(&self.build_id);
        out.number(u64::from(self.is_whole) | u64::from(self.is_64) << 1);
        out.option(self.missing);
        out.number(self.machine.into());
        match &self.places {
            Places::Shifted { shift, base } => [0, *shift, *base].into_iter().for_each(|n| out.number(n)),
            Places::Segments(segments) => {
                out.number(1);
                out.number(segments.len() as u64);
                for &Segment { offset, address, size, align, is_executable } in segments {
                    [offset, address, size, align, is_executable.into()]
                        .into_iter()
                        .for_each(|n| out.number(n));
                }
            }
        }
        out.number(self.functions.len() as u64);
        let mut last = 0;
        for function in &self.functions {
            out.after(&mut last, function.start);
            [function.size, function.name.into(), function.kind.into(), function.from]
                .into_iter()
                .for_each(|n| out.number(n));
        }
        out.number(self.lists.len() as u64);
        for list in &self.lists {
            out.number(list.len() as u64);
            for frame in list {
                out.option(frame.function);
                out.option(frame.name);
                out.option(frame.file);
                [frame.is_inlined.into(), frame.line.into(), frame.column.into()]
                    .into_iter()
                    .for_each(|n| out.number(n));
            }
        }
        out.number(self.runs.len() as u64);
        let mut last = 0;
        for run in &self.runs {
            out.after(&mut last, run.addresses.start);
            out.number(run.addresses.end.wrapping_sub(run.addresses.start));
            out.number(run.list.into());
        }
        out.number(self.code.len() as u64);
        let mut last = 0;
        for (start, bytes) in &self.code {
            out.after(&mut last, *start);
            out.bytes(bytes);
        }
    }

    fn decode(input: &mut In<'_>) -> Option<Self> {
        let kind = match input.number()? {
            0 => Kind::File,
            1 => Kind::Vdso,
            2 => Kind::Vsyscall,
            3 => {
                let address = input.number()?;
                Kind::Kernel(input.text_option()?, address)
            }
            4 => Kind::Module(input.number()?),
            5 => Kind::Anonymous(input.small()?),
            _ => return None,
        };
        let (path, build_id, flags) = (input.text()?, input.bytes()?.to_vec(), input.number()?);
        let (missing, machine) = (input.text_option()?, u16::try_from(input.number()?).ok()?);
        let places = match input.number()? {
            0 => Places::Shifted { shift: input.number()?, base: input.number()? },
            1 => {
                let count = input.count(5)?;
                Places::Segments((0..count).map(|_| input.segment()).collect::<Option<_>>()?)
            }
            _ => return None,
        };
        let (count, mut last) = (input.count(5)?, 0);
        let functions = (0..count).map(|_| input.function(&mut last)).collect::<Option<_>>()?;
        let count = input.count(1)?;
        let lists: Vec<Vec<Frame>> = (0..count).map(|_| input.frames()).collect::<Option<_>>()?;
        let (count, mut last) = (input.count(3)?, 0);
        let mut runs: Vec<Run> = Vec::with_capacity(count);
        for _ in 0..count {
            let start = input.after(&mut last)?;
            let end = start.checked_add(input.number()?)?;
            let list = input.small()?;
            let is_behind = runs.last().is_none_or(|run| run.addresses.end <= start);
            if !is_behind || list as usize >= lists.len() {
                return None;
            }
            runs.push(Run { addresses: start..end, list });
        }
        let (count, mut last) = (input.count(2)?, 0);
        let mut code: Vec<(u64, Vec<u8>)> = Vec::with_capacity(count);
        for _ in 0..count {
            let start = input.after(&mut last)?;
            let bytes = input.bytes()?;
            start.checked_add(bytes.len() as u64)?;
            if code.last().is_some_and(|(before, bytes)| before + bytes.len() as u64 > start) {
                return None;
            }
            code.push((start, bytes.to_vec()));
        }
        let (is_whole, is_64) = (flags & 1 != 0, flags & 2 != 0);
        Some(Object {
            kind,
            path,
            build_id,
            is_whole,
            missing,
            machine,
            is_64,
            places,
            functions,
            lists,
            runs,
            code,
        })
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(MAGIC.to_vec(), Compression::default());
    // A vector takes all bytes.
    let _ = packer.write_all(bytes);
    packer.finish().unwrap_or_default()
}

/// The first packed bytes, at most so many, and what is behind them.
fn unpacked(bytes: &[u8], most: u64) -> Option<(Vec<u8>, &[u8])> {
    let (mut unpacked, mut packed) = (Vec::new(), ZlibDecoder::new(bytes));
    packed.by_ref().take(most + 1).read_to_end(&mut unpacked).ok()?;
    (unpacked.len() as u64 <= most).then(|| (unpacked, packed.into_inner()))
}

/// Writes numbers in seven bits a byte, the low ones first.
struct Out(Vec<u8>);

impl Out {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn option(&mut self, number: Option<u32>) {
        self.number(number.map_or(0, |number| u64::from(number) + 1));
    }

    /// A number as its distance from the one before.
    fn after(&mut self, last: &mut u64, number: u64) {
        self.number(number.wrapping_sub(std::mem::replace(last, number)));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

/// Reads them.
struct In<'b> {
    left: &'b [u8],
    /// How many texts there are.
    texts: u64,
}

impl<'b> In<'b> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.left.split_first()?;
            self.left = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn after(&mut self, last: &mut u64) -> Option<u64> {
        *last = last.wrapping_add(self.number()?);
        Some(*last)
    }

    /// A number of things that take at least so many bytes each.
    fn count(&mut self, each: usize) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.left.len() / each).then_some(count)
    }

    fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.left.split_at_checked(length)?;
        self.left = rest;
        Some(bytes)
    }

    fn option(&mut self) -> Option<Option<u32>> {
        match self.number()? {
            0 => Some(None),
            number => Some(Some(u32::try_from(number - 1).ok()?)),
        }
    }

    fn text(&mut self) -> Option<u32> {
        let text = self.small()?;
        (u64::from(text) < self.texts).then_some(text)
    }

    fn text_option(&mut self) -> Option<TextRef> {
        let text = self.option()?;
        text.is_none_or(|text| u64::from(text) < self.texts).then_some(text)
    }

    fn segment(&mut self) -> Option<Segment> {
        let (offset, address, size) = (self.number()?, self.number()?, self.number()?);
        let (align, is_executable) = (self.number()?, self.number()? & 1 != 0);
        Some(Segment { offset, address, size, align, is_executable })
    }

    fn function(&mut self, last: &mut u64) -> Option<Function> {
        let (start, size, name) = (self.after(last)?, self.number()?, self.text()?);
        let kind = u8::try_from(self.number()?).ok().filter(|&kind| kind <= 2)?;
        Some(Function { start, size, name, kind, from: self.number()? })
    }

    fn frames(&mut self) -> Option<Vec<Frame>> {
        let count = self.count(6)?;
        (0..count).map(|_| self.frame()).collect()
    }

    fn frame(&mut self) -> Option<Frame> {
        let (function, name, file) = (self.option()?, self.text_option()?, self.text_option()?);
        let (is_inlined, line, column) = (self.number()? & 1 != 0, self.small()?, self.small()?);
        Some(Frame { function, name, is_inlined, file, line, column })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    const TEXTS: u32 = 4;

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![
            Just(Kind::File),
            Just(Kind::Vdso),
            Just(Kind::Vsyscall),
            (option::of(0..TEXTS), any::<u64>()).prop_map(|(symbol, address)| Kind::Kernel(symbol, address)),
            any::<u64>().prop_map(Kind::Module),
            any::<u32>().prop_map(Kind::Anonymous),
        ]
    }

    fn places() -> impl Strategy<Value = Places> {
        let segment =
            (any::<[u64; 4]>(), any::<bool>()).prop_map(|([offset, address, size, align], is_executable)| {
                Segment { offset, address, size, align, is_executable }
            });
        prop_oneof![
            any::<(u64, u64)>().prop_map(|(shift, base)| Places::Shifted { shift, base }),
            vec(segment, 0..4).prop_map(Places::Segments),
        ]
    }

    fn frame() -> impl Strategy<Value = Frame> {
        let texts = (option::of(0..TEXTS), option::of(0..TEXTS));
        let function = option::of(0..u32::MAX);
        (function, texts, any::<bool>(), any::<(u32, u32)>()).prop_map(
            |(function, (name, file), is_inlined, (line, column))| Frame {
                function,
                name,
                is_inlined,
                file,
                line,
                column,
            },
        )
    }

    fn object() -> impl Strategy<Value = Object> {
        let function = (any::<u64>(), any::<u64>(), 0..TEXTS, 0u8..3, any::<u64>())
            .prop_map(|(start, size, name, kind, from)| Function { start, size, name, kind, from });
        let steps = vec((0u64..1 << 40, 0u64..1 << 40, 0u32..2), 0..5);
        let code = vec((0u64..1 << 40, vec(any::<u8>(), 0..20)), 0..4);
        let facts = (kind(), 0..TEXTS, vec(any::<u8>(), 0..21), any::<(bool, bool, u16)>());
        let tables = (vec(function, 0..5), vec(vec(frame(), 0..4), 2..4), steps, code);
        (facts, option::of(0..TEXTS), places(), tables).prop_map(
            |((kind, path, build_id, (is_whole, is_64, machine)), missing, places, tables)| {
                let (functions, lists, steps, pieces) = tables;
                let mut at = 0;
                let mut next = |gap: u64, len: u64| {
                    let start = at + gap;
                    at = start + len;
                    start..at
                };
                let runs = steps.into_iter().map(|(gap, len, list)| Run { addresses: next(gap, len), list });
                let runs = runs.collect();
                let mut at = 0;
                let code = pieces.into_iter().map(|(gap, bytes)| {
                    let start = at + gap;
                    at = start + bytes.len() as u64;
                    (start, bytes)
                });
                let code = code.collect();
                Object {
                    kind,
                    path,
                    build_id,
                    is_whole,
                    missing,
                    machine,
                    is_64,
                    places,
                    functions,
                    lists,
                    runs,
                    code,
                }
            },
        )
    }

    pub(in crate::sealed) fn contents() -> impl Strategy<Value = Contents> {
        let texts = vec(vec(any::<u8>(), 0..9), TEXTS as usize..6).prop_map(|list| {
            let mut texts = Texts::default();
            list.iter().for_each(|text| _ = texts.push(text));
            texts
        });
        let sources = vec((0..TEXTS, vec(any::<u8>(), 0..30)), 0..3);
        (texts, vec(object(), 0..4), sources).prop_map(|(texts, objects, sources)| Contents {
            texts,
            objects,
            sources,
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(contents in contents()) {
            let bytes = contents.encode();
            let twice = Some(vec![contents.clone(), contents.clone()]);
            prop_assert_eq!(Contents::decode(&[&bytes[..], &bytes].concat()), twice);
            prop_assert_eq!(Contents::decode(&bytes), Some(vec![contents]));
            let marked = Contents::decode(&[&bytes[..], &NOT_WHOLE].concat()).expect("one and a mark");
            prop_assert!(marked[0].objects.iter().all(|object| !object.is_whole));
        }

        #[test]
        fn a_part_is_refused(contents in contents(), cut in any::<prop::sample::Index>()) {
            let bytes = contents.encode();
            prop_assert_eq!(Contents::decode(&bytes[..cut.index(bytes.len())]), None);
            let bytes = unpacked(&bytes[MAGIC.len()..], MOST_BYTES).expect("it was packed").0;
            prop_assert_eq!(Contents::unpacked(&bytes[..cut.index(bytes.len())]), None);
        }

        #[test]
        fn any_bytes_are_borne(bytes in vec(any::<u8>(), 0..200)) {
            let _ = Contents::decode(&packed(&bytes));
            if let Some(read) = Contents::unpacked(&bytes) {
                prop_assert_eq!(Contents::decode(&read.encode()), Some(vec![read]));
            }
        }
    }

    #[test]
    fn counts_beyond_the_bytes_are_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 1;
        assert_eq!(Contents::unpacked(&bytes), None);
        let bomb = packed(&vec![0; MOST_BYTES as usize + 1]);
        assert_eq!(Contents::decode(&bomb), None);
    }
}
