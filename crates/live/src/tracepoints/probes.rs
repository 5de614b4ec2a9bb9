//! Tracepoints of probes in programs, in the words of Linux's `uprobe_events` (Documentation/trace/uprobetracer.rst): what a line means,
//! the format that comes of it, and the record of a hit.
//!
//! A line that Linux takes means the same here, but for several places under one name, arrays of texts, and `%orig_ax`.

use super::COMMON;
use crate::machine::ProbedFile;
use crate::proc;
use crate::ptrace::Tid;
use crate::regs::Registers;
use crate::remote;
use perfuse_abi::Errno;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ids of them, which records have 16 bits for.
const IDS: std::ops::RangeInclusive<u64> = 63_001..=65_535;

/// The id that the next one has, if it is free.
static NEXT: AtomicU64 = AtomicU64::new(*IDS.start());

/// Values that a probe tells at most, and their names in bytes.
const MOST: usize = 128;
const LONGEST_NAME: usize = 32;

/// Bytes of the texts of a record together.
const TEXTS: usize = 4096;

/// A tracepoint of a probe.
#[derive(Debug)]
pub(crate) struct ProbePoint {
    pub(crate) id: u64,
    /// `group:event`.
    name: String,
    pub(crate) path: Vec<u8>,
    pub(crate) file: ProbedFile,
    pub(crate) offset: u64,
    pub(crate) semaphore: u64,
    pub(crate) returns: bool,
    values: Vec<Value>,
}

/// Where the definitions are, for all machines of this process.
fn defined() -> MutexGuard<'static, BTreeMap<u64, Arc<ProbePoint>>> {
    static DEFINED: Mutex<BTreeMap<u64, Arc<ProbePoint>>> = Mutex::new(BTreeMap::new());
    DEFINED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one of an id.
pub(crate) fn get(id: u64) -> Option<Arc<ProbePoint>> {
    if !IDS.contains(&id) {
        return None;
    }
    defined().get(&id).cloned()
}

/// Their names, `group:event`, with the ids.
pub(super) fn names() -> Vec<(String, u64)> {
    defined().values().map(|point| (point.name.clone(), point.id)).collect()
}

/// The format of the one of a name.
pub(super) fn format_of(name: &str) -> Option<String> {
    defined().values().find(|point| point.name == name).map(|point| point.format_text())
}

/// The lines that define those there are.
pub(crate) fn lines() -> String {
    defined().values().map(|point| point.line() + "\n").collect()
}

/// Does what a line says that is written to `uprobe_events`: defines a tracepoint (`p:GROUP/EVENT PATH:OFFSET NAME=FETCH:TYPE ...`,
/// `r:...` for returns), or removes one (`-:GROUP/EVENT`); events that are open stay. Its id is one that Linux gives to none.
/// The path is seen as this process sees it.
///
/// # Errors
///
/// `EINVAL`: the line makes no sense. `EEXIST`: there is one of this name. `ENOENT`: there is none, or no such file. `ENOSPC`: there are
/// too many.
pub fn define(line: &str) -> Result<(), Errno> {
    /// The kernel's own buffer has as many.
    const LONGEST: usize = 4096;
    if line.len() > LONGEST {
        return Err(Errno::EINVAL);
    }
    let line = line.split('#').next().unwrap_or_default().trim();
    let mut words = line.split_whitespace();
    let Some(head) = words.next() else { return Ok(()) };
    let (kind, rest) = head.split_at_checked(1).ok_or(Errno::EINVAL)?;
    // Linux heeds no name that stands further behind.
    let name = rest.strip_prefix(':').unwrap_or_default();
    if kind == "-" {
        let name = full_name(name, "").ok_or(Errno::EINVAL)?;
        let id = defined().values().find(|point| point.name == name).map(|point| point.id);
        defined().remove(&id.ok_or(Errno::ENOENT)?);
        return Ok(());
    }
    let returns = match kind {
        "p" => false,
        "r" => true,
        _ => return Err(Errno::EINVAL),
    };
    let place = words.next().ok_or(Errno::EINVAL)?;
    let (place, returns) = match place.strip_suffix("%return") {
        Some(place) => (place, true),
        None => (place, returns),
    };
    let (path, offset) = place.rsplit_once(':').ok_or(Errno::EINVAL)?;
    let (offset, semaphore) = match offset.split_once('(') {
        Some((offset, semaphore)) => {
            let semaphore = semaphore.strip_suffix(')').and_then(number).ok_or(Errno::EINVAL)?;
            (offset, semaphore as u64)
        }
        None => (offset, 0),
    };
    let offset = number(offset).and_then(|offset| u64::try_from(offset).ok()).ok_or(Errno::EINVAL)?;
    let file = ProbedFile::at(Path::new(path))?;
    if !file.is_file || cfg!(target_arch = "aarch64") && offset % 4 != 0 {
        return Err(Errno::EINVAL);
    }
    let base = Path::new(path).file_name().map_or(&b""[..], |name| name.as_bytes());
    let base: String =
        base.iter().take_while(|byte| byte.is_ascii_alphanumeric()).map(|&byte| char::from(byte)).collect();
    let usual = format!("{}_{base}_{offset:#x}", if returns { 'r' } else { 'p' });
    let name = full_name(name, &usual).ok_or(Errno::EINVAL)?;
    let mut values: Vec<Value> = Vec::new();
    for (index, word) in words.enumerate() {
        let value = Value::parse(word, index + 1, returns)?;
        let is_taken =
            RESERVED.contains(&value.name.as_str()) || values.iter().any(|other| other.name == value.name);
        if is_taken || index == MOST {
            return Err(Errno::EINVAL);
        }
        values.push(value);
    }
    let mut all = defined();
    if all.values().any(|point| point.name == name) {
        return Err(Errno::EEXIST);
    }
    // That of one which was removed may still be an open event's: it comes last.
    let next = NEXT.load(Relaxed);
    let mut ids = (next..=*IDS.end()).chain(*IDS.start()..next);
    let id = ids.find(|id| !all.contains_key(id)).ok_or(Errno(libc::ENOSPC))?;
    NEXT.store(id + 1, Relaxed);
    let path = path.as_bytes().to_vec();
    let point = ProbePoint { id, name, path, file, offset, semaphore, returns, values };
    all.insert(id, Arc::new(point));
    Ok(())
}

/// `group:event` of `group/event`, where either may be left out.
fn full_name(text: &str, usual: &str) -> Option<String> {
    let (group, event) = text.split_once(['/', '.']).unwrap_or(("uprobes", text));
    let event = if event.is_empty() { usual } else { event };
    let fits = is_name(&group.replace('-', "_")) && is_name(event) && group.len() < 64 && event.len() < 64;
    fits.then(|| format!("{group}:{event}"))
}

fn is_name(text: &str) -> bool {
    let begins = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    begins && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Fields that are there anyway.
const RESERVED: [&str; 7] = [
    "common_type",
    "common_flags",
    "common_preempt_count",
    "common_pid",
    "__probe_ip",
    "__probe_func",
    "__probe_ret_ip",
];

/// A number as the kernel reads it: decimal, or with 0x, perhaps with a sign.
fn number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) if !hex.starts_with(['+', '-']) => i64::from_str_radix(hex, 16).ok()?,
        None if digits.starts_with('0') && digits.len() > 1 => i64::from_str_radix(digits, 8).ok()?,
        None if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        _ => return None,
    };
    Some(value.wrapping_mul(sign))
}

/// A value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Value {
    name: String,
    /// As it was written, without the name.
    text: String,
    source: Source,
    /// Steps that are added to an address before the word there is read, innermost first.
    loads: Vec<i64>,
    kind: Kind,
}

/// Where a value begins.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// A register, by its number in `perf_regs.h`.
    Register(u32),
    /// A word of the stack.
    Stack(u64),
    StackPointer,
    Result,
    Comm,
    Number(u64),
    /// One that stands in the line.
    Text,
    /// An address in the file, for the one that it has in the process.
    InFile(u64),
}

/// The form of a value in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number { bytes: usize, base: Base, count: Option<usize>, bits: Option<(u32, u32)> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Unsigned,
    Signed,
    Hex,
    Char,
}

impl Value {
    /// `NAME=FETCH:TYPE`, the `index`-th.
    fn parse(word: &str, index: usize, returns: bool) -> Result<Self, Errno> {
        let (name, text) = match word.split_once('=') {
            Some((name, rest)) => (name.to_owned(), rest),
            None => (format!("arg{index}"), word),
        };
        if !is_name(&name) || name.len() > LONGEST_NAME {
            return Err(Errno::EINVAL);
        }
        let (fetch, kind) = match text.split_once(':') {
            Some((fetch, kind)) => (fetch, Some(kind)),
            None => (text, None),
        };
        let (source, loads) = fetched(fetch, returns).ok_or(Errno::EINVAL)?;
        let is_text = matches!(source, Source::Comm | Source::Text);
        let kind = match kind {
            Some(kind) => Kind::parse(kind).ok_or(Errno::EINVAL)?,
            None if is_text => Kind::Text,
            None => Kind::Number { bytes: 8, base: Base::Hex, count: None, bits: None },
        };
        // A text is at an address, and so are several numbers.
        let needs_address = matches!(kind, Kind::Text | Kind::Number { count: Some(_), .. });
        if is_text && (kind != Kind::Text || !loads.is_empty())
            || !is_text && needs_address && loads.is_empty()
        {
            return Err(Errno::EINVAL);
        }
        Ok(Value { name, text: text.to_owned(), source, loads, kind })
    }

    /// Its value at a hit. Nothing of memory that is not there.
    fn at(&self, hit: &Hit<'_>) -> Option<Found> {
        let mut word = match &self.source {
            Source::Register(number) => hit.registers.sampled(*number),
            Source::Stack(index) => hit.word(hit.registers.stack().wrapping_add(index.wrapping_mul(8)))?,
            Source::StackPointer => hit.registers.stack(),
            Source::Result => hit.registers.result() as u64,
            Source::Number(number) => *number,
            Source::InFile(offset) => hit.loaded_at.wrapping_add(*offset),
            Source::Comm => return Some(Found::Bytes(proc::comm(hit.tid, hit.tid))),
            // Linux looks for it in the program's memory.
            Source::Text => return None,
        };
        let Some((last, before)) = self.loads.split_last() else {
            return Some(Found::Number(self.cut(word)));
        };
        for step in before {
            word = hit.word(word.wrapping_add_signed(*step))?;
        }
        let address = word.wrapping_add_signed(*last);
        match self.kind {
            Kind::Text => hit.text(address).map(Found::Bytes),
            Kind::Number { bytes, count: Some(count), .. } => {
                let mut room = vec![0; bytes * count];
                remote::read_exact(hit.tid, address, &mut room).ok()?;
                Some(Found::Bytes(room))
            }
            Kind::Number { bytes, .. } => {
                let mut room = [0; 8];
                remote::read_exact(hit.tid, address, &mut room[..bytes]).ok()?;
                Some(Found::Number(self.cut(u64::from_le_bytes(room))))
            }
        }
    }

    /// The bits that are asked for of a number.
    fn cut(&self, word: u64) -> u64 {
        match self.kind {
            Kind::Number { bits: Some((width, offset)), .. } => word >> offset & u64::MAX >> (64 - width),
            _ => word,
        }
    }
}

/// A value at a hit.
enum Found {
    Number(u64),
    Bytes(Vec<u8>),
}

/// Where a value begins, and the steps from there, innermost first.
fn fetched(text: &str, returns: bool) -> Option<(Source, Vec<i64>)> {
    let whole = |source| Some((source, Vec::new()));
    if let Some(name) = text.strip_prefix('%') {
        return whole(Source::Register(register(name)?));
    }
    if let Some(name) = text.strip_prefix('$') {
        return whole(match name {
            "retval" => returns.then_some(Source::Result)?,
            "comm" | "COMM" => Source::Comm,
            "stack" => Source::StackPointer,
            _ => Source::Stack(name.strip_prefix("stack")?.parse().ok()?),
        });
    }
    if let Some(rest) = text.strip_prefix('\\') {
        return match rest.strip_prefix('"') {
            Some(rest) => rest.ends_with('"').then_some((Source::Text, Vec::new())),
            None => whole(Source::Number(number(rest)? as u64)),
        };
    }
    if let Some(rest) = text.strip_prefix('@') {
        let source = match rest.strip_prefix('+') {
            Some(offset) => Source::InFile(number(offset)? as u64),
            None => Source::Number(number(rest)? as u64),
        };
        return Some((source, vec![0]));
    }
    let rest = text.strip_prefix(['+', '-'])?;
    let (offset, inner) = rest.strip_prefix('u').unwrap_or(rest).strip_suffix(')')?.split_once('(')?;
    let offset = number(offset)?;
    let (source, mut loads) = fetched(inner, returns)?;
    if loads.len() >= 32 || matches!(source, Source::Comm | Source::Text) {
        return None;
    }
    loads.push(if text.starts_with('-') { offset.wrapping_neg() } else { offset });
    Some((source, loads))
}

impl Kind {
    fn parse(text: &str) -> Option<Self> {
        let (text, count) = match text.strip_suffix(']').map(|text| text.split_once('[')) {
            Some(found) => {
                let (text, count) = found?;
                (text, Some(count.parse().ok().filter(|count| (1..=64).contains(count))?))
            }
            None => (text, None),
        };
        if ["string", "ustring"].contains(&text) {
            return count.is_none().then_some(Kind::Text);
        }
        let bytes = |bits: &str| match bits {
            "8" => Some(1),
            "16" => Some(2),
            "32" => Some(4),
            "64" => Some(8),
            _ => None,
        };
        if let Some((width, rest)) = text.strip_prefix('b').and_then(|rest| rest.split_once('@')) {
            let (offset, of) = rest.split_once('/')?;
            let (width, offset, bytes): (u32, u32, usize) =
                (width.parse().ok()?, offset.parse().ok()?, bytes(of)?);
            let fits = width > 0 && width.checked_add(offset)? <= bytes as u32 * 8 && count.is_none();
            return fits.then_some(Kind::Number {
                bytes,
                base: Base::Unsigned,
                count,
                bits: Some((width, offset)),
            });
        }
        if text == "char" {
            return Some(Kind::Number { bytes: 1, base: Base::Char, count, bits: None });
        }
        let base = match text.get(..1)? {
            "u" => Base::Unsigned,
            "s" => Base::Signed,
            "x" => Base::Hex,
            _ => return None,
        };
        Some(Kind::Number { bytes: bytes(&text[1..])?, base, count, bits: None })
    }

    /// Bytes that it has in a record.
    fn size(self) -> usize {
        match self {
            Kind::Text => 4,
            Kind::Number { bytes, count, .. } => bytes * count.unwrap_or(1),
        }
    }

    /// How the line of a record shows it.
    fn conversion(self) -> &'static str {
        match self {
            Kind::Text => "\\\"%s\\\"",
            Kind::Number { base: Base::Char, .. } => "'%c'",
            Kind::Number { bytes: 8, base: Base::Unsigned, .. } => "%Lu",
            Kind::Number { bytes: 8, base: Base::Signed, .. } => "%Ld",
            Kind::Number { bytes: 8, base: Base::Hex, .. } => "0x%Lx",
            Kind::Number { base: Base::Unsigned, .. } => "%u",
            Kind::Number { base: Base::Signed, .. } => "%d",
            Kind::Number { base: Base::Hex, .. } => "0x%x",
        }
    }
}

/// The number in `perf_regs.h` of a register.
#[cfg(target_arch = "x86_64")]
fn register(name: &str) -> Option<u32> {
    const NAMES: [&str; 12] = ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", "flags", "cs", "ss"];
    let low = NAMES.iter().position(|known| *known == name);
    let high = || name.strip_prefix('r')?.parse::<usize>().ok().filter(|number| (8..16).contains(number));
    low.or_else(|| high().map(|number| number + 8)).map(|number| number as u32)
}

/// The number in `perf_regs.h` of a register.
#[cfg(target_arch = "aarch64")]
fn register(name: &str) -> Option<u32> {
    match name {
        "sp" => Some(31),
        "pc" => Some(32),
        _ => name.strip_prefix('x')?.parse().ok().filter(|number| *number < 31),
    }
}

/// A thread at a probe.
pub(crate) struct Hit<'r> {
    pub(crate) tid: Tid,
    pub(crate) registers: &'r Registers,
    /// The function that it has left, if it has.
    pub(crate) function: Option<u64>,
    /// Where its process has the beginning of the file.
    loaded_at: u64,
}

impl<'r> Hit<'r> {
    /// Of a thread that is stopped at the probe.
    pub(crate) fn new(tid: Tid, registers: &'r Registers, function: Option<u64>) -> Self {
        Hit { tid, registers, function, loaded_at: 0 }
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        remote::read_exact(self.tid, address, &mut word).ok().map(|()| u64::from_le_bytes(word))
    }

    /// The text at an address, without the NUL that ends it; nothing of one that is longer than all may be.
    fn text(&self, address: u64) -> Option<Vec<u8>> {
        const PIECE: usize = 256;
        let mut text = Vec::new();
        while text.len() < TEXTS {
            let mut piece = [0; PIECE];
            let from = address.wrapping_add(text.len() as u64);
            let got = remote::read(self.tid, from, &mut piece).ok()?;
            let end = piece[..got].iter().position(|&byte| byte == 0);
            text.extend(&piece[..end.unwrap_or(got)]);
            if end.is_some() {
                return Some(text);
            }
        }
        None
    }
}

impl ProbePoint {
    pub(super) fn format_text(&self) -> String {
        format_text(&self.name, self.id, self.returns, &self.values)
    }

    fn line(&self) -> String {
        let kind = if self.returns { 'r' } else { 'p' };
        let (name, path) = (self.name.replacen(':', "/", 1), String::from_utf8_lossy(&self.path));
        let mut line = format!("{kind}:{name} {path}:{:#018x}", self.offset);
        if self.semaphore != 0 {
            let _ = write!(line, "({:#x})", self.semaphore);
        }
        for value in &self.values {
            let _ = write!(line, " {}={}", value.name, value.text);
        }
        line
    }

    /// The data of the record of a hit.
    pub(crate) fn record(&self, hit: Hit<'_>) -> Vec<u8> {
        let ip = hit.registers.ip();
        let hit = Hit { loaded_at: hit.function.unwrap_or(ip).wrapping_sub(self.offset), ..hit };
        let mut data = (self.id as u32).to_ne_bytes().to_vec();
        data.extend(hit.tid.to_ne_bytes());
        data.extend(hit.function.into_iter().chain([ip]).flat_map(u64::to_ne_bytes));
        // Texts stand behind all that has a place of its own.
        let size = data.len() + self.values.iter().map(|value| value.kind.size()).sum::<usize>();
        let mut texts = Vec::new();
        for value in &self.values {
            let end = data.len() + value.kind.size();
            match (value.at(&hit), value.kind) {
                (found, Kind::Text) => {
                    let start = texts.len();
                    // One that finds no room is told as one that could not be read.
                    match found {
                        Some(Found::Bytes(text)) if start + text.len() < TEXTS => {
                            texts.extend(text);
                            texts.push(0);
                        }
                        _ => {}
                    }
                    let place = (size + start) | (texts.len() - start) << 16;
                    data.extend((place as u32).to_ne_bytes());
                }
                (Some(Found::Number(number)), _) => data.extend(&number.to_le_bytes()[..value.kind.size()]),
                (Some(Found::Bytes(bytes)), _) => data.extend(bytes),
                (None, _) => {}
            }
            data.resize(end, 0);
        }
        data.extend(texts);
        data
    }
}

/// The text of a format, as Linux writes it.
fn format_text(name: &str, id: u64, returns: bool, values: &[Value]) -> String {
    let event = name.split_once(':').map_or(name, |(_, event)| event);
    let mut text = format!("name: {event}\nID: {id}\nformat:\n{COMMON}\n");
    let places: &[&str] = if returns { &["__probe_func", "__probe_ret_ip"] } else { &["__probe_ip"] };
    let mut offset = 8;
    for place in places {
        let _ = writeln!(text, "\tfield:unsigned long {place};\toffset:{offset};\tsize:8;\tsigned:0;");
        offset += 8;
    }
    let mut line = (if returns { "(%lx <- %lx)" } else { "(%lx)" }).to_owned();
    let mut words: String = places.iter().map(|place| format!(", REC->{place}")).collect();
    for Value { name, kind, .. } in values {
        let size = kind.size();
        let (type_, brackets, signed) = match *kind {
            Kind::Text => ("__data_loc char[]".to_owned(), "", true),
            Kind::Number { bytes, base, count, .. } => {
                let letter = if base == Base::Signed { 's' } else { 'u' };
                (
                    format!("{letter}{}", bytes * 8),
                    if count.is_some() { "[]" } else { "" },
                    base == Base::Signed,
                )
            }
        };
        let signed = u8::from(signed);
        let _ = writeln!(
            text,
            "\tfield:{type_} {name}{brackets};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
        );
        offset += size;
        let conversion = kind.conversion();
        match *kind {
            Kind::Text => {
                let _ = write!(line, " {name}={conversion}");
                let _ = write!(words, ", __get_str({name})");
            }
            Kind::Number { count: Some(count), .. } => {
                let _ = write!(line, " {name}={{{}}}", vec![conversion; count].join(","));
                words.extend((0..count).map(|at| format!(", REC->{name}[{at}]")));
            }
            Kind::Number { .. } => {
                let _ = write!(line, " {name}={conversion}");
                let _ = write!(words, ", REC->{name}");
            }
        }
    }
    let _ = write!(text, "\nprint fmt: \"{line}\"{words}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Defines one in this very program, which is there and a file; its format and its line.
    fn defined_by(line: &str) -> Result<(String, String), Errno> {
        let own = std::env::current_exe().expect("this program");
        let line = line.replace("PATH", own.to_str().expect("a path in UTF-8"));
        define(&line)?;
        let name = line.split(' ').next().and_then(|head| head.split_once(':')).expect("a name").1.to_owned();
        let format = format_of(&name.replace('/', ":")).expect("it is there");
        let listed = lines().lines().find(|listed| listed.contains(&name)).expect("it is listed").to_owned();
        define(&format!("-:{name}"))?;
        assert_eq!(define(&format!("-:{name}")), Err(Errno::ENOENT));
        Ok((format, listed.replace(own.to_str().unwrap_or_default(), "PATH")))
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn formats_are_linuxs() {
        // As Linux 6.18 tells them.
        let entry = "name: h2\nID: 63001\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
            \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
            \n\
            \tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n\
            \tfield:s32 n;\toffset:16;\tsize:4;\tsigned:1;\n\
            \tfield:u8 u;\toffset:20;\tsize:1;\tsigned:0;\n\
            \tfield:u64 x;\toffset:21;\tsize:8;\tsigned:0;\n\
            \tfield:__data_loc char[] s;\toffset:29;\tsize:4;\tsigned:1;\n\
            \tfield:__data_loc char[] c;\toffset:33;\tsize:4;\tsigned:1;\n\
            \tfield:u64 sz;\toffset:37;\tsize:8;\tsigned:0;\n\
            \tfield:s16 w;\toffset:45;\tsize:2;\tsigned:1;\n\
            \tfield:u64 st;\toffset:47;\tsize:8;\tsigned:0;\n\
            \tfield:u64 sp;\toffset:55;\tsize:8;\tsigned:0;\n\
            \tfield:u32 b;\toffset:63;\tsize:4;\tsigned:0;\n\
            \tfield:u64 d;\toffset:67;\tsize:8;\tsigned:0;\n\
            \tfield:u16 ar[];\toffset:75;\tsize:6;\tsigned:0;\n\
            \tfield:__data_loc char[] us;\toffset:81;\tsize:4;\tsigned:1;\n\
            \n\
            print fmt: \"(%lx) n=%d u=%u x=0x%Lx s=\\\"%s\\\" c=\\\"%s\\\" sz=%Lu w=%d st=0x%Lx sp=0x%Lx b=%u d=0x%Lx \
            ar={%u,%u,%u} us=\\\"%s\\\"\", REC->__probe_ip, REC->n, REC->u, REC->x, __get_str(s), __get_str(c), REC->sz, \
            REC->w, REC->st, REC->sp, REC->b, REC->d, REC->ar[0], REC->ar[1], REC->ar[2], __get_str(us)\n";
        let line = "p:pg/h2 PATH:0x1149 n=%si:s32 u=%si:u8 x=%di:x64 s=+0(+0(%di)):string c=$comm sz=+8(%di):u64 \
            w=+18(%di):s16 st=$stack0 sp=$stack b=%si:b4@2/32 d=%dx ar=+0(%di):u16[3] us=+0(%dx):ustring";
        let (format, listed) = defined_by(line).expect("it makes sense");
        let without_id = |text: &str| {
            text.lines().filter(|line| !line.starts_with("ID:")).map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(without_id(&format), without_id(entry));
        assert_eq!(listed, line.replace("0x1149", "0x0000000000001149"));
        let (format, listed) = defined_by("r:pg/r PATH:4425 $retval v=$retval:s32").expect("it makes sense");
        let end = "\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;\n\
            \tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;\n\
            \tfield:u64 arg1;\toffset:24;\tsize:8;\tsigned:0;\n\
            \tfield:s32 v;\toffset:32;\tsize:4;\tsigned:1;\n\
            \n\
            print fmt: \"(%lx <- %lx) arg1=0x%Lx v=%d\", REC->__probe_func, REC->__probe_ret_ip, REC->arg1, REC->v\n";
        assert!(format.ends_with(end), "{format}");
        assert_eq!(listed, "r:pg/r PATH:0x0000000000001149 arg1=$retval v=$retval:s32");
    }

    #[test]
    fn lines_that_make_no_sense_are_refused() {
        let first = if cfg!(target_arch = "x86_64") { "%di" } else { "%x0" };
        for rest in [
            "",
            "a",
            "a=",
            "=FIRST",
            "1a=FIRST",
            "a=FIRST b=%nothing",
            "a=FIRST:u7",
            "a=FIRST:string",
            "a=FIRST:u8[2]",
            "a=+(FIRST)",
            "a=+8(FIRST",
            "a=$retval",
            "a=$stackx",
            "a=$comm:u8",
            "a=+0($comm):string",
            "a=FIRST a=FIRST",
            "common_pid=FIRST",
            "__probe_ip=FIRST",
            "a=\\\"x",
            "a=FIRST:b0@0/8",
            "a=FIRST:b4@6/8",
            "a=FIRST:",
            "a=@main",
            "a234567890123456789012345678901234=FIRST",
        ] {
            let line = format!("p:g/no PATH:0x4 {}", rest.replace("FIRST", first));
            let done = defined_by(&line).map(drop);
            assert_eq!(done, if rest.is_empty() { Ok(()) } else { Err(Errno::EINVAL) }, "{rest}");
        }
        let own = std::env::current_exe().expect("this program").display().to_string();
        for (line, refused) in [
            ("", None),
            ("# nothing", None),
            ("q:g/no PATH:4", Some(Errno::EINVAL)),
            ("p:g/no", Some(Errno::EINVAL)),
            ("p:g/no PATH", Some(Errno::EINVAL)),
            ("p:g/no PATH:x", Some(Errno::EINVAL)),
            ("p:g/no PATH:-4", Some(Errno::EINVAL)),
            ("p:g/no PATH:4(x)", Some(Errno::EINVAL)),
            ("p:g/n-o PATH:4", Some(Errno::EINVAL)),
            ("p:g.x/no PATH:4", Some(Errno::EINVAL)),
            ("p:/no PATH:4", Some(Errno::EINVAL)),
            ("p:g/no /nonexistent/by-perfuse:4", Some(Errno::ENOENT)),
            ("p:g/no /:4", Some(Errno::EINVAL)),
            ("-:g/nothing", Some(Errno::ENOENT)),
            ("-:", Some(Errno::EINVAL)),
        ] {
            assert_eq!(define(&line.replace("PATH", &own)).err(), refused, "{line}");
        }
        let nested = format!("p:g/no {own}:4 a={}{first}{}", "+0(".repeat(2000), ")".repeat(2000));
        assert_eq!(define(&nested), Err(Errno::EINVAL), "longer than the kernel reads");
        let nested = format!("p:g/no {own}:4 a={}{first}{}", "+0(".repeat(900), ")".repeat(900));
        assert_eq!(define(&nested), Err(Errno::EINVAL), "deeper than it follows");
        define(&format!("p:g/twice {own}:4")).expect("it makes sense");
        assert_eq!(define(&format!("p:g/twice {own}:8")), Err(Errno::EEXIST));
        define("-:g/twice").expect("it is there");
    }
}
