//! Collects the names that go into a recording, from wherever they are found on this machine.

use crate::code::Code;
use crate::dso::Dso;
use crate::key::{Address, DsoKind};
use crate::missing::Missing;
use crate::sealed::layout::{Contents, Frame, Function, Kind, Object, Places, Run, TextRef};
use crate::table::SymbolKind;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::ffi::OsStrExt;

/// Of a longer function lines and instructions are sealed for the recorded addresses alone.
const LONG: u64 = 64 << 10;
/// Addresses whose lines are looked up together, and in all.
const MOST_ADDRESSES: u64 = 16 << 20;
/// Bytes of instructions, and of all texts.
const MOST_CODE: usize = 16 << 20;
const MOST_TEXTS: usize = 32 << 20;
/// Bytes of lines, about.
const MOST_LINES: usize = 32 << 20;
/// The time of addresses for which it does not matter.
const ANY_TIME: u64 = u64::MAX;

/// Collects names for a recording, which then has them inside.
///
/// ```
/// use perfuse_symbols::{Address, DsoKey, Sealed, Sealing, Symbolizer};
///
/// let exe = std::env::current_exe()?;
/// let dso = Symbolizer::default().dso(&DsoKey::of_map(exe.as_os_str().as_encoded_bytes(), 1));
/// let mut sealing = Sealing::default();
/// sealing.add(&dso, &[(Address::FileOffset(0x1000), u64::MAX, true)], true);
/// let sealed = Sealed::decode(&sealing.finish()).expect("just made");
/// assert_eq!(sealed.object_count(), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Sealing {
    contents: Contents,
    known: HashMap<Vec<u8>, u32>,
    /// Source files that lines are in.
    files: BTreeSet<u32>,
    addresses: u64,
    code: usize,
    lines: usize,
    functions: usize,
}

impl Sealing {
    /// Adds an object with what is known of addresses in it, each with the time for which code that a process made is wanted
    /// (the last moment if it does not matter), and whether all of its function is wanted: lines and instructions. `is_whole` tells that these are all addresses of the recording: a reader then
    /// needs nothing else.
    pub fn add(&mut self, dso: &Dso, at: &[(Address, u64, bool)], is_whole: bool) {
        let key = dso.key();
        let kind = match &key.kind {
            DsoKind::File => Kind::File,
            DsoKind::Vdso => Kind::Vdso,
            DsoKind::Vsyscall => Kind::Vsyscall,
            DsoKind::Kernel { reference: None } => Kind::Kernel(None, 0),
            DsoKind::Kernel { reference: Some(reference) } => {
                let Some(symbol) = self.text(reference.symbol.as_bytes()) else { return };
                Kind::Kernel(Some(symbol), reference.address)
            }
            DsoKind::Module { base } => Kind::Module(*base),
            DsoKind::Anonymous { pid } => Kind::Anonymous(*pid),
            DsoKind::Special => return,
        };
        let Some(path) = self.text(key.path.as_os_str().as_bytes()) else { return };
        let missing = dso.missing().map(|why| match why {
            Missing::Sealed { why } => why.clone(),
            why => why.to_string(),
        });
        let build_id = dso.build_id().map_or(Vec::new(), |id| id.as_bytes().to_vec());
        let missing = missing.and_then(|why| self.text(why.as_bytes()));
        let mut object = Object { kind, path, build_id, is_whole, missing, ..Object::default() };
        object.places = places(&dso.load().code);
        let (functions, whole) = self.functions(dso, at);
        object.functions = functions;
        self.lines(dso, at, &whole, &mut object);
        self.instructions(dso, &whole, &mut object);
        self.functions += object.functions.len();
        self.contents.objects.push(object);
    }

    /// Adds the texts of the source files that lines are in, as far as `read` has them, together no more than `most` bytes. Tells
    /// how many there are.
    pub fn add_sources(&mut self, most: usize, mut read: impl FnMut(&str) -> Option<Vec<u8>>) -> usize {
        let (mut left, before) = (most, self.contents.sources.len());
        for &file in &self.files {
            let Ok(path) = std::str::from_utf8(self.contents.texts.get(file)) else { continue };
            let Some(text) = read(path).filter(|text| text.len() <= left) else { continue };
            left -= text.len();
            self.contents.sources.push((file, text));
        }
        self.contents.sources.len() - before
    }

    /// How many functions have names.
    pub fn function_count(&self) -> usize {
        self.functions
    }

    /// How many objects there are.
    pub fn object_count(&self) -> usize {
        self.contents.objects.len()
    }

    /// The section.
    pub fn finish(self) -> Vec<u8> {
        self.contents.encode()
    }

    /// The number of a text; `None` if there are too many.
    fn text(&mut self, text: &[u8]) -> TextRef {
        if let Some(&known) = self.known.get(text) {
            return Some(known);
        }
        if self.contents.texts.byte_count() + text.len() > MOST_TEXTS {
            return None;
        }
        let number = self.contents.texts.push(text);
        self.known.insert(text.to_vec(), number);
        Some(number)
    }

    /// The functions that addresses are in, by their start, and those of which all is wanted.
    fn functions(&mut self, dso: &Dso, at: &[(Address, u64, bool)]) -> (Vec<Function>, BTreeSet<u64>) {
        let mut whole = BTreeSet::new();
        let mut by_id: BTreeMap<(u64, u64), Function> = BTreeMap::new();
        for &(place, time, is_whole) in at {
            let Some(found) = dso.find_at(place, time) else { continue };
            let symbol = found.symbol;
            whole.extend(is_whole.then_some(symbol.start));
            let from = if time == ANY_TIME { 0 } else { time };
            if let Some(known) = by_id.get_mut(&(symbol.start, symbol.id.0)) {
                known.from = known.from.min(from);
                continue;
            }
            let Some(name) = self.text(symbol.raw_name()) else { continue };
            let kind = match symbol.kind {
                SymbolKind::Label => 0,
                SymbolKind::Object => 1,
                SymbolKind::Function => 2,
            };
            let (start, size) = (symbol.start, symbol.size);
            by_id.insert((start, symbol.id.0), Function { start, size, name, kind, from });
        }
        (by_id.into_values().collect(), whole)
    }

    /// Lines and inlined functions of whole functions, or of the addresses alone.
    fn lines(&mut self, dso: &Dso, at: &[(Address, u64, bool)], whole: &BTreeSet<u64>, object: &mut Object) {
        let Some((info, shift)) = dso.debug_info() else { return };
        let mut spans: Vec<(u64, u64)> = at
            .iter()
            .filter_map(|&(place, ..)| dso.address(place))
            .map(|address| (address, address.saturating_add(1)))
            .collect();
        let is_wanted = |function: &&Function| function.size <= LONG && whole.contains(&function.start);
        let short = object.functions.iter().filter(is_wanted);
        spans.extend(short.map(|function| (function.start, function.start.saturating_add(function.size))));
        spans.sort_unstable();
        let (mut numbers, mut lists) = (HashMap::new(), HashMap::new());
        let (mut done, mut addresses) = (0, Vec::new());
        let mut spans = spans.into_iter().peekable();
        while let Some((start, end)) = spans.next() {
            for address in start.max(done)..end {
                addresses.push(address);
            }
            done = done.max(end);
            if addresses.len() as u64 >= LONG || spans.peek().is_none() {
                self.addresses += addresses.len() as u64;
                if self.addresses > MOST_ADDRESSES || self.lines > MOST_LINES {
                    object.is_whole = false;
                    return;
                }
                let told = self.frames((info, shift), &addresses, &mut numbers);
                for (&address, frames) in addresses.iter().zip(told) {
                    if frames.is_empty() {
                        continue;
                    }
                    let next = lists.len() as u32;
                    let list = *lists.entry(frames).or_insert_with_key(|frames| {
                        self.lines += 10 * frames.len();
                        object.lists.push(frames.clone());
                        next
                    });
                    match object.runs.last_mut() {
                        Some(run) if run.list == list && run.addresses.end == address => {
                            run.addresses.end = address + 1;
                        }
                        _ => {
                            self.lines += 6;
                            object.runs.push(Run { addresses: address..address.saturating_add(1), list });
                        }
                    }
                }
                addresses.clear();
            }
        }
    }

    /// The frames of each of these addresses.
    fn frames(
        &mut self,
        (info, shift): (&crate::info::DebugInfo, u64),
        addresses: &[u64],
        numbers: &mut HashMap<u64, u32>,
    ) -> Vec<Vec<Frame>> {
        let asked: Vec<u64> = addresses.iter().map(|address| address.wrapping_sub(shift)).collect();
        let mut told = vec![Vec::new(); addresses.len()];
        let mut names: HashMap<u32, TextRef> = HashMap::new();
        info.frames(&asked, &mut |index, frame| {
            let next = numbers.len() as u32;
            let function = frame.function.map(|number| *numbers.entry(number).or_insert(next));
            let made = || (frame.name)().and_then(|name| self.text(name.as_bytes()));
            let known = function.and_then(|function| names.get(&function).copied());
            let name = known.unwrap_or_else(made);
            names.extend(function.map(|function| (function, name)));
            let file = frame.file.and_then(|file| self.text(file.as_bytes()));
            self.files.extend(file);
            let (line, column, is_inlined) = (frame.line, frame.column, frame.is_inlined);
            told[index].push(Frame { function, name, is_inlined, file, line, column });
        });
        told
    }

    fn instructions(&mut self, dso: &Dso, whole: &BTreeSet<u64>, object: &mut Object) {
        let mut done = 0;
        for function in object.functions.iter().filter(|function| whole.contains(&function.start)) {
            let start = function.start.max(done);
            let end = function.start.saturating_add(function.size);
            if function.kind == 1 || start >= end || end - start > LONG || self.code >= MOST_CODE {
                continue;
            }
            let Ok(code) = dso.code(start, end - start) else { continue };
            (object.machine, object.is_64) = (code.machine, code.is_64);
            self.code += code.bytes.len();
            done = start + code.bytes.len() as u64;
            object.code.push((start, code.bytes));
        }
    }
}

fn places(code: &Code) -> Places {
    match code {
        Code::File { layout, .. } => Places::Segments(layout.sealed()),
        Code::Shifted { shift, base, .. } | Code::Kernel { shift, base, .. } => {
            Places::Shifted { shift: *shift, base: *base }
        }
        Code::Nothing | Code::Jit => Places::default(),
    }
}
