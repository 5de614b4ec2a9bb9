//! Profiles of other tools: [`Import`] is read from folded stacks, pprof, the text of `perf script`, JSON of speedscope or of the
//! Firefox Profiler, and becomes a [recording](Import::recording), so that all that reads recordings reads it too.

mod firefox;
mod json;
mod pprof;
mod recording;
mod script;
mod speedscope;

pub use recording::ImportedNames;

use crate::folded::FoldedError;
use crate::stacks::Stacks;
use flate2::read::MultiGzDecoder;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

/// So many bytes of text are read at most when they are unpacked, and of pprof and JSON, which are held in memory.
const MAX_TEXT: u64 = 4 << 30;
const MAX_MESSAGE: u64 = 256 << 20;
/// Bytes of names, stacks and samples that are kept.
const MAX_KEPT: usize = 256 << 20;
/// A longer line is none.
const MAX_LINE: u64 = 1 << 20;
/// Words of tools for functions and objects without names.
const UNKNOWN: &str = "[unknown]";
/// A stack is no deeper.
const MAX_DEPTH: usize = 1 << 14;
/// Frames that are looked at in all stacks together, also in those that are there already.
const MAX_FRAMES: u64 = 1 << 30;

/// A format that is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportFormat {
    /// A line for each stack, as flamegraph.pl, inferno and others write them.
    #[default]
    Folded,
    /// Messages of pprof, packed by gzip or not.
    Pprof,
    /// The text of `perf script`: a line for each sample, and its callchain below it.
    PerfScript,
    /// JSON of speedscope: profiles of samples, or of frames that open and close.
    Speedscope,
    /// JSON of the Firefox Profiler: processed profiles, as it and samply save them.
    Firefox,
}

impl ImportFormat {
    /// All of them.
    pub const ALL: [ImportFormat; 5] = [
        ImportFormat::Folded,
        ImportFormat::Pprof,
        ImportFormat::PerfScript,
        ImportFormat::Speedscope,
        ImportFormat::Firefox,
    ];

    /// So many bytes of a file tell what it is.
    pub const START: u64 = 1 << 16;

    /// By the ending of a file and the bytes that it begins with; `None` for all that is not read, such as a recording.
    pub fn of(path: &Path, start: &[u8]) -> Option<Self> {
        if start.is_empty() || is_recording(start) {
            return None;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let name = name.trim_end_matches(".gz");
        if [".pb", ".pprof"].iter().any(|ending| name.ends_with(ending)) {
            return Some(ImportFormat::Pprof);
        }
        if [".folded", ".collapsed"].iter().any(|ending| name.ends_with(ending)) {
            return Some(ImportFormat::Folded);
        }
        let unpacked = is_packed(start).then(|| unpacked_start(start));
        let start = unpacked.as_deref().unwrap_or(start);
        match std::str::from_utf8(start) {
            // A letter may be cut in two at the end.
            Err(error) if start.len() - error.valid_up_to() > 3 => {
                pprof::begins(start).then_some(ImportFormat::Pprof)
            }
            _ => {
                let text = String::from_utf8_lossy(start);
                if speedscope::begins(&text) {
                    return Some(ImportFormat::Speedscope);
                }
                if firefox::begins(&text) {
                    return Some(ImportFormat::Firefox);
                }
                match text.lines().any(script::is_header) {
                    true => Some(ImportFormat::PerfScript),
                    false if pprof::begins(start) => Some(ImportFormat::Pprof),
                    false => is_folded(&text).then_some(ImportFormat::Folded),
                }
            }
        }
    }

    /// Whether all of it is held in memory while it is read.
    fn is_message(self) -> bool {
        !matches!(self, ImportFormat::Folded | ImportFormat::PerfScript)
    }

    /// As messages call it.
    pub fn name(self) -> &'static str {
        match self {
            ImportFormat::Folded => "folded stacks",
            ImportFormat::Pprof => "a pprof profile",
            ImportFormat::PerfScript => "text of perf script",
            ImportFormat::Speedscope => "a speedscope profile",
            ImportFormat::Firefox => "a profile of the Firefox Profiler",
        }
    }
}

fn is_packed(start: &[u8]) -> bool {
    start.starts_with(&[0x1f, 0x8b])
}

/// As much as can be unpacked of the beginning of a file.
fn unpacked_start(start: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    // The end is missing, which is an error behind what is there.
    let _ = MultiGzDecoder::new(start).take(ImportFormat::START).read_to_end(&mut unpacked);
    unpacked
}

/// Whether the first line that is no remark is a folded stack.
fn is_folded(text: &str) -> bool {
    let first = text.lines().map(str::trim_end).find(|line| !line.is_empty() && !line.starts_with('#'));
    let weight = first.and_then(|line| line.rsplit_once(' ')).map(|(_, weight)| weight.parse::<u64>());
    matches!(weight, Some(Ok(_)))
}

/// The reason why something is not read.
#[derive(Debug)]
#[non_exhaustive]
pub struct ImportError {
    /// The line, counted from 1; of what has no lines, `None`.
    pub line: Option<usize>,
    /// The fault.
    pub problem: String,
}

impl ImportError {
    fn new(problem: impl Into<String>) -> Self {
        ImportError { line: None, problem: problem.into() }
    }

    fn too_deep() -> Self {
        ImportError::new("a stack of more than 16384 frames")
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.problem),
            None => f.write_str(&self.problem),
        }
    }
}

impl std::error::Error for ImportError {}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        ImportError::new(error.to_string())
    }
}

impl From<FoldedError> for ImportError {
    fn from(FoldedError { line, problem }: FoldedError) -> Self {
        ImportError { line: Some(line), problem }
    }
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Function {
    /// The number of its name.
    name: u32,
    /// The number of its object's name; 0 for none.
    object: u32,
    is_kernel: bool,
}

/// Samples that are alike.
#[derive(Clone, Copy, Debug)]
struct Sample {
    event: u32,
    /// The number of the thread's name.
    thread: u32,
    pid: u32,
    tid: u32,
    cpu: Option<u32>,
    time_ns: Option<u64>,
    stack: u32,
    /// How many they are.
    count: u64,
    /// The occurrences of the event that they stand for together.
    weight: u64,
}

/// A profile of another tool, owned. Names are texts by their number.
#[derive(Clone, Debug, Default)]
pub struct Import {
    texts: Texts,
    events: Vec<u32>,
    functions: Numbered<Function>,
    /// Functions of each stack, the innermost first.
    stacks: Numbered<Box<[u32]>>,
    samples: Vec<Sample>,
    kept: usize,
    frames: u64,
    format: ImportFormat,
}

/// Texts that are owned, each once; 0 is the empty one.
#[derive(Clone, Debug, Default)]
struct Texts {
    list: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
}

/// Things that are owned, each once.
#[derive(Clone, Debug)]
struct Numbered<T> {
    list: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { list: Vec::new(), numbers: HashMap::new() }
    }
}

impl Import {
    /// Reads a format; what is packed by gzip is unpacked.
    ///
    /// # Errors
    /// Input of no such format, more than 4 GiB of text or 256 MiB of pprof or JSON when they are unpacked, more than 256 MiB of names, stacks and samples, a line of more than
    /// 1 MiB, a stack of more than 16384 frames, and those of reading.
    pub fn read(format: ImportFormat, from: impl Read) -> Result<Self, ImportError> {
        let mut from = BufReader::new(from);
        let mut start = [0; 2];
        let there = read_start(&mut from, &mut start)?;
        let from = Cursor::new(start[..there].to_vec()).chain(from);
        match is_packed(&start[..there]) {
            true => Self::read_plain(format, Limited::of(format, MultiGzDecoder::new(from))),
            false => Self::read_plain(format, Limited::of(format, from)),
        }
    }

    fn read_plain(format: ImportFormat, from: impl Read) -> Result<Self, ImportError> {
        let read = match format {
            ImportFormat::Folded => Self::of_stacks(&Stacks::from_folded(BufReader::new(from))?)?,
            ImportFormat::Pprof => pprof::read(from)?,
            ImportFormat::PerfScript => script::read(BufReader::new(from))?,
            ImportFormat::Speedscope => speedscope::read(from)?,
            ImportFormat::Firefox => firefox::read(from)?,
        };
        Ok(Import { format, ..read })
    }

    /// The format that it was read from.
    pub fn format(&self) -> ImportFormat {
        self.format
    }

    /// Of stacks: their threads get numbers, as they have names alone.
    fn of_stacks(stacks: &Stacks) -> Result<Self, ImportError> {
        let mut import = Import::new();
        let events: Vec<u32> = stacks.events().iter().map(|event| import.event(&event.name)).collect();
        for row in stacks.rows() {
            let mut frames = Vec::with_capacity(row.stack.len());
            for function in row.stack.iter().rev() {
                let function = &stacks.functions()[*function as usize];
                frames.push(import.function(&function.name, &function.object, 0)?);
            }
            let (event, stack) = (events[row.event], import.stack(&frames)?);
            let thread = import.text(&row.thread)?;
            let tid = thread + 1;
            let (count, weight) = (row.samples, row.weight);
            import.add(Sample {
                event,
                thread,
                pid: tid,
                tid,
                cpu: None,
                time_ns: None,
                stack,
                count,
                weight,
            })?;
        }
        Ok(import)
    }

    fn new() -> Self {
        let mut import = Import::default();
        import.texts.list.push("".into());
        import.texts.numbers.insert("".into(), 0);
        import
    }

    /// How many samples there are.
    pub fn samples(&self) -> u64 {
        self.samples.iter().map(|sample| sample.count).fold(0, u64::saturating_add)
    }

    /// Whether they are too many for a [recording](Self::recording) to tell them one by one: those that are alike are one there.
    pub fn is_merged(&self) -> bool {
        self.samples() > recording::MAX_SAMPLES
    }

    /// The events, each with its weight.
    pub fn events(&self) -> Vec<(&str, u64)> {
        let mut weights = vec![0u64; self.events.len()];
        for sample in &self.samples {
            let sum = &mut weights[sample.event as usize];
            *sum = sum.saturating_add(sample.weight);
        }
        self.events.iter().map(|name| self.texts.get(*name)).zip(weights).collect()
    }

    /// How many stacks there are.
    pub fn stack_count(&self) -> usize {
        self.stacks.list.len()
    }

    /// How many functions there are.
    pub fn function_count(&self) -> usize {
        self.functions.list.len()
    }

    /// Counts what is kept.
    fn keep(&mut self, bytes: usize) -> Result<(), ImportError> {
        self.kept = self.kept.saturating_add(bytes);
        match self.kept > MAX_KEPT {
            true => Err(ImportError::new("more than 256 MiB of names, stacks and samples")),
            false => Ok(()),
        }
    }

    fn text(&mut self, text: &str) -> Result<u32, ImportError> {
        if let Some(&number) = self.texts.numbers.get(text) {
            return Ok(number);
        }
        self.keep(2 * text.len() + 64)?;
        let number = self.texts.list.len() as u32;
        self.texts.list.push(text.into());
        self.texts.numbers.insert(text.into(), number);
        Ok(number)
    }

    /// The number of an event.
    fn event(&mut self, name: &str) -> u32 {
        // There are few.
        let known = self.events.iter().position(|known| self.texts.get(*known) == name);
        known.unwrap_or_else(|| {
            let name = self.text(name).unwrap_or(0);
            self.events.push(name);
            self.events.len() - 1
        }) as u32
    }

    /// The number of a function of an object; `[unknown]` stands for none. Where the function is not known, the object stands for it, as in
    /// what is [exported](crate::Function::of). The address tells whose code it is.
    fn function(&mut self, name: &str, object: &str, address: u64) -> Result<u32, ImportError> {
        let is_kernel = is_kernel_place(object, address);
        let object = if object == UNKNOWN { "" } else { object };
        let name = match name {
            "" | UNKNOWN if object.is_empty() => UNKNOWN.into(),
            "" | UNKNOWN => match object.starts_with('[') {
                true => object.into(),
                false => format!("[{}]", object.rsplit('/').next().unwrap_or(object)).into(),
            },
            name => Cow::Borrowed(name),
        };
        let function = Function { name: self.text(&name)?, object: self.text(object)?, is_kernel };
        if !self.functions.numbers.contains_key(&function) {
            self.keep(64)?;
        }
        Ok(self.functions.number(function))
    }

    /// The number of a stack, of which the innermost function comes first.
    fn stack(&mut self, functions: &[u32]) -> Result<u32, ImportError> {
        if functions.len() > MAX_DEPTH {
            return Err(ImportError::too_deep());
        }
        self.frames += functions.len() as u64;
        if self.frames > MAX_FRAMES {
            return Err(ImportError::new("more than 2^30 frames in all stacks"));
        }
        if let Some(&number) = self.stacks.numbers.get(functions) {
            return Ok(number);
        }
        self.keep(functions.len() * 8 + 64)?;
        Ok(self.stacks.number(functions.into()))
    }

    fn add(&mut self, sample: Sample) -> Result<(), ImportError> {
        self.keep(size_of::<Sample>())?;
        self.samples.push(sample);
        Ok(())
    }
}

impl Texts {
    fn get(&self, number: u32) -> &str {
        &self.list[number as usize]
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    fn number(&mut self, thing: T) -> u32 {
        let next = self.list.len() as u32;
        let number = *self.numbers.entry(thing.clone()).or_insert(next);
        if number == next {
            self.list.push(thing);
        }
        number
    }
}

/// The kind of an input, by its beginning.
pub enum Begun<R> {
    /// A profile of another tool.
    Import(Box<Import>),
    /// Anything else, from its start on.
    Other(Started<R>),
}

/// A reader, after its first bytes were looked at.
pub type Started<R> = io::Chain<Cursor<Vec<u8>>, R>;

/// Reads a profile of another tool, if it is one by its name and its first bytes: of a recording, eight are looked at.
///
/// # Errors
/// Those of [`Import::read`].
pub fn import_or_begun<R: Read>(path: &Path, mut from: R) -> Result<Begun<R>, ImportError> {
    let mut start = vec![0; 8];
    let there = read_start(&mut from, &mut start)?;
    start.truncate(there);
    if !is_recording(&start) && there == 8 {
        from.by_ref().take(ImportFormat::START - 8).read_to_end(&mut start)?;
    }
    let format = ImportFormat::of(path, &start);
    let from = Cursor::new(start).chain(from);
    match format {
        Some(format) => Import::read(format, from).map(|import| Begun::Import(Box::new(import))),
        None => Ok(Begun::Other(from)),
    }
}

/// Whether a file begins as recordings do, in either byte order.
fn is_recording(start: &[u8]) -> bool {
    [b"PERF", b"2ELI", b"ELIF"].iter().any(|magic| start.starts_with(&magic[..]))
}

/// Whether code is the kernel's: by its object, or by an address in the upper half.
fn is_kernel_place(object: &str, address: u64) -> bool {
    crate::looks::is_kernel(object) || address >> 63 != 0 && object != "[vsyscall]"
}

/// Reads until the room is full, or nothing more comes.
fn read_start(from: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    let mut there = 0;
    while there < room.len() {
        match from.read(&mut room[there..])? {
            0 => break,
            read => there += read,
        }
    }
    Ok(there)
}

/// A reader that fails after so many bytes, in place of an end that is none.
struct Limited<R> {
    from: R,
    left: u64,
}

impl<R: Read> Limited<R> {
    fn of(format: ImportFormat, from: R) -> Self {
        Limited { from, left: if format.is_message() { MAX_MESSAGE } else { MAX_TEXT } }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(room)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "larger than what is read when it is unpacked: 256 MiB of pprof and JSON, 4 GiB of text",
            )
        })?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, start: &str) -> Option<ImportFormat> {
        ImportFormat::of(Path::new(path), start.as_bytes())
    }

    #[test]
    fn files_tell_what_they_are() {
        assert_eq!(of("perf.data", "PERFILE2\0\0"), None);
        assert_eq!(of("x.txt", "main;a;b 3\n"), Some(ImportFormat::Folded));
        let script = "# ========\n# hostname : x\n#\nprog name 12/13 [001] 5.000001:  250000 cpu-clock:u: \n\t 40010 main+0x3 (/bin/x)\n";
        assert_eq!(of("x.txt", script), Some(ImportFormat::PerfScript));
        assert_eq!(of("x.pb.gz", "\u{1f}"), Some(ImportFormat::Pprof));
        assert_eq!(of("notes", "Dear reader,\n"), None);
        assert_eq!(of("x.json", "{\"a\": 1}"), None);
        let speedscope = "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n";
        assert_eq!(of("x.json", speedscope), Some(ImportFormat::Speedscope));
        let escaped = " {\"$schema\":\"https:\\/\\/www.speedscope.app\\/file-format-schema.json\"";
        assert_eq!(of("x", escaped), Some(ImportFormat::Speedscope));
        let firefox = "{\"meta\":{\"categories\":[],\"preprocessedProfileVersion\":49,";
        assert_eq!(of("x", firefox), Some(ImportFormat::Firefox));
        assert_eq!(of("empty.folded", ""), None);
    }
}
