//! Texts of the keys of an entry.

use super::View;
use super::contexts::cache_line;
use super::entries::Entry;
use super::frames::{Frame, FrameId};
use crate::keys::Key;
use crate::mem;
use crate::strings::StringId;
use crate::tables::{Cgroup, LocationId, NO_VALUE, value_parts};
use perfuse_abi::record::DataSrc;
use std::fmt::{self, Write};

/// Stands behind the name of a function that was inlined.
pub(crate) const INLINED: &str = " (inlined)";

impl View<'_> {
    /// The bytes by which a text that was given is sorted.
    pub(crate) fn text_order(&self, value: u64) -> &[u8] {
        let given = usize::try_from(value).ok().and_then(|at| self.profile.texts.get(at));
        given.map_or(&[], |given| self.profile.strings.get(given.order))
    }

    /// The value of a key that is the whole sample's.
    pub(crate) fn value(&self, entry: &Entry, key: Key) -> u64 {
        let at = self.contexts.keys.iter().position(|&other| other == key);
        at.and_then(|at| self.contexts.values(entry.context).get(at)).copied().unwrap_or(0)
    }

    /// The address of an entry without a function: as its object counts, or as its process did.
    pub fn address(&self, entry: &Entry) -> u64 {
        let frame = self.frames.get(entry.frame);
        if entry.is_leaf && !self.plan.of_branches { frame.address } else { frame.ip }
    }

    /// The value of a key for an entry, as text.
    pub fn text(&self, entry: &Entry, key: Key) -> String {
        let mut text = String::new();
        self.write(&mut text, entry, key);
        text
    }

    /// Writes what a key is for an entry.
    pub fn write(&self, out: &mut String, entry: &Entry, key: Key) {
        let frame = self.frames.get(entry.frame);
        let value = || self.value(entry, key);
        // Writing to a string does not fail.
        let _ = match key {
            Key::Comm => {
                out.push_str(&self.profile.strings.text(StringId(value() as u32)));
                Ok(())
            }
            Key::Dso => {
                out.push_str(self.frames.short_object(frame.object));
                Ok(())
            }
            Key::Symbol => {
                out.push_str(match entry.level.letter() {
                    '.' => "[.] ",
                    'k' => "[k] ",
                    'g' => "[g] ",
                    'u' => "[u] ",
                    'H' => "[H] ",
                    _ => "[?] ",
                });
                match &frame.symbol {
                    Some(name) => {
                        out.push_str(name);
                        if frame.is_inlined {
                            out.push_str(INLINED);
                        }
                        Ok(())
                    }
                    None => match self.address(entry) {
                        0 => write!(out, "{:016}", 0),
                        address => write!(out, "{address:#018x}"),
                    },
                }
            }
            Key::Pid | Key::Tgid => match self.profile.threads.get(value() as usize) {
                Some(thread) => {
                    write!(out, "{:>7}:{}", thread.id as i32, self.profile.strings.text(thread.name))
                }
                None => Ok(()),
            },
            Key::Cpu => match value() {
                u64::MAX => write!(out, "-001"),
                cpu => write!(out, "{cpu:03}"),
            },
            Key::Cgroup => match self.profile.cgroups.get(value() as usize) {
                Some(Cgroup { path: Some(path), .. }) => {
                    write!(out, "{}", self.profile.strings.text(*path))
                }
                Some(Cgroup { id: 1.., .. }) => write!(out, "unknown[{}]", self.number_of(key, value())),
                _ => write!(out, "N/A"),
            },
            Key::Time if self.plan.ns => {
                write!(out, "{}.{:09}", value() / 1_000_000_000, value() % 1_000_000_000)
            }
            Key::Time => write!(out, "{}.{:06}", value() / 1_000_000_000, value() % 1_000_000_000 / 1000),
            Key::Socket => match value() {
                u64::MAX => write!(out, "  -001"),
                socket => write!(out, "   {socket:03}"),
            },
            Key::CgroupId => write!(out, "{}/{:#x}", value() >> 32, value() as u32),
            Key::Addr => write!(out, "{}", Place(frame.ip)),
            Key::PhysDaddr => write!(out, "[{}] {}", entry.level.letter(), Address(value())),
            Key::DataPageSize | Key::CodePageSize => write!(out, "{}", page_size(value())),
            Key::Weight | Key::InsLat | Key::PStageCyc => {
                write!(out, "{}", value().saturating_mul(entry.self_samples))
            }
            Key::LocalWeight | Key::LocalInsLat | Key::LocalPStageCyc | Key::Parallelism => {
                write!(out, "{}", value())
            }
            Key::Transaction => {
                transaction(out, value());
                Ok(())
            }
            Key::Simd => Ok(()),
            Key::Given(_) => {
                if let Some(given) = self.profile.texts.get(value() as usize) {
                    out.push_str(&self.profile.strings.text(given.text));
                }
                Ok(())
            }
            Key::Parent => {
                let frame = u32::try_from(value()).ok().map(|id| self.frames.get(FrameId(id)));
                out.push_str(frame.and_then(|frame| frame.symbol.as_deref()).unwrap_or("[other]"));
                Ok(())
            }
            Key::SymOff => write!(out, "[{}] {}+{:#x}", entry.level.letter(), Name(frame), frame.offset),
            key if key.is_place() => {
                self.place(out, key, value());
                Ok(())
            }
            Key::Locked | Key::Tlb | Key::Mem | Key::Snoop | Key::Blocked => {
                memory(out, key, value());
                Ok(())
            }
            Key::Srcline => {
                self.line(out, frame, frame.offset, self.address(entry));
                Ok(())
            }
            Key::Srcfile => {
                out.push_str(self.frames.line(frame).map_or("", |(file, _)| file));
                Ok(())
            }
            Key::SymbolSize if frame.symbol.is_some() => write!(out, "{}", frame.size),
            Key::DsoSize if frame.object != 0 => write!(out, "{}", frame.mapped),
            Key::SymbolSize | Key::DsoSize => write!(out, "unknown"),
            _ => Ok(()),
        };
    }

    /// A key that had to be looked up.
    fn place(&self, out: &mut String, key: Key, value: u64) {
        let number = |out: &mut String, texts: [&str; 2]| {
            out.push_str(texts.get(usize::try_from(value).unwrap_or(usize::MAX)).copied().unwrap_or("N/A"));
        };
        match key {
            Key::Mispredict => return number(out, ["N", "Y"]),
            Key::Abort => return number(out, [".", "A"]),
            Key::InTx => return number(out, [".", "T"]),
            _ if value == NO_VALUE => return out.push_str("N/A"),
            Key::Cycles if value == 0 => return out.push('-'),
            Key::Cycles => {
                let _ = write!(out, "{value}");
                return;
            }
            _ => {}
        }
        let (location, letter) = value_parts(value);
        let (frame, offset) = self.frames.exact(location);
        if matches!(key, Key::DsoFrom | Key::DsoTo | Key::DsoDaddr) {
            return out.push_str(self.frames.short_object(self.frames.alias(frame.object)));
        }
        if matches!(key, Key::SrclineFrom | Key::SrclineTo) {
            let address =
                if frame.symbol.is_some() { frame.address } else { self.profile.location(location).address };
            return self.line(out, frame, offset, address);
        }
        let _ = write!(out, "[{letter}] ");
        let Some(name) = &frame.symbol else {
            let _ = write!(out, "{}", Address(self.unnamed(key, location)));
            return;
        };
        out.push_str(name);
        let has_offset = match key {
            Key::AddrFrom | Key::AddrTo => offset > 0 || frame.is_data,
            // Of a branch's function it does not matter where in it the branch is.
            Key::SymbolFrom | Key::SymbolTo => frame.is_data,
            _ => frame.is_data,
        };
        if has_offset {
            let offset = match key {
                Key::Dcacheline => cache_line(self.frames, location).wrapping_sub(frame.address),
                Key::SymbolFrom | Key::SymbolTo => 0,
                _ => offset,
            };
            let _ = match offset as i64 {
                // A line may begin before the data in it.
                before @ ..0 => write!(out, "-{:#x}", before.unsigned_abs()),
                offset => write!(out, "+{offset:#x}"),
            };
        }
    }

    /// The address that is shown of a location without a function.
    fn unnamed(&self, key: Key, location: LocationId) -> u64 {
        let at = self.profile.location(location);
        match key {
            Key::Dcacheline => cache_line(self.frames, location),
            // Data is shown where the process has it, code where its file has it.
            Key::SymbolDaddr | Key::SymbolIaddr => at.ip,
            _ => at.address,
        }
    }

    /// The place in the source, or what is shown where that is not known.
    fn line(&self, out: &mut String, frame: &Frame, offset: u64, address: u64) {
        if let Some((file, line)) = self.frames.line(frame) {
            let _ = write!(out, "{file}:{line}");
            return;
        }
        let _ = match &frame.symbol {
            Some(name) => write!(out, "{name}+{offset}"),
            None if frame.object == 0 => write!(out, "??:0"),
            None => write!(out, "{}[{address:x}]", self.frames.short_object(frame.object)),
        };
    }

    /// Whether a key is a number for entries.
    pub(crate) fn is_number(&self, key: Key) -> bool {
        use Key::*;
        !key.is_place()
            && !matches!(
                key,
                Comm | Dso | Symbol | Cgroup | Srcline | Srcfile | SymOff | Addr | Simd | Given(_)
            )
            && !matches!(key, Locked | Tlb | Mem | Snoop | Blocked | Transaction)
    }

    /// The value of a key for an entry, as a number where it is one.
    pub fn number(&self, entry: &Entry, key: Key) -> Option<u64> {
        match key {
            _ if !self.is_number(key) => None,
            Key::SymbolSize => Some(self.frames.get(entry.frame).size),
            Key::DsoSize => Some(self.frames.get(entry.frame).mapped),
            Key::Cpu | Key::Socket if self.value(entry, key) == u64::MAX => None,
            _ => Some(self.number_of(key, self.value(entry, key))),
        }
    }

    /// The number that a value stands for.
    fn number_of(&self, key: Key, value: u64) -> u64 {
        match key {
            Key::Pid | Key::Tgid => {
                self.profile.threads.get(value as usize).map_or(0, |thread| thread.id.into())
            }
            Key::Cgroup => self.profile.cgroups.get(value as usize).map_or(0, |cgroup| cgroup.id),
            _ => value,
        }
    }
}

/// An address, as reports show it.
struct Address(u64);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { write!(f, "{:016}", 0) } else { write!(f, "{:#018x}", self.0) }
    }
}

/// An address without zeros in front.
struct Place(u64);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("0") } else { write!(f, "{:#x}", self.0) }
    }
}

/// A function, or its address.
struct Name<'f>(&'f Frame);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.symbol {
            Some(name) => f.write_str(name),
            None => Address(self.0.address).fmt(f),
        }
    }
}

/// The text of a memory access.
fn memory(out: &mut String, key: Key, bits: u64) {
    let source = DataSrc(bits);
    match key {
        Key::Locked => out.push_str(mem::locked(source)),
        Key::Tlb => mem::translation(out, source),
        Key::Mem => mem::level(out, source),
        Key::Snoop => mem::snoop(out, source),
        _ => out.push_str(mem::blocked(source)),
    }
}

/// The text of a transaction, in perf's words.
fn transaction(out: &mut String, bits: u64) {
    const WORDS: [&str; 8] = ["EL ", "TX ", "SYNC ", "ASYNC ", "RETRY ", "CON ", "CAP-WRITE ", "CAP-READ "];
    let (sync, code) = (bits & 0b1100, bits >> 32);
    for (bit, word) in WORDS.iter().enumerate() {
        out.push_str(if bits >> bit & 1 == 1 { word } else { "" });
    }
    if bits != 0 && sync == 0 {
        out.push_str("NEITHER ");
    }
    if code != 0 {
        let _ = write!(out, ":{code:x}");
    }
}

/// The size of a page as reports show it.
fn page_size(bytes: u64) -> String {
    match bytes {
        0 => "N/A".to_owned(),
        _ if bytes >= 1 << 30 => format!("{}G", bytes >> 30),
        _ if bytes >= 1 << 20 => format!("{}M", bytes >> 20),
        _ => format!("{}K", bytes >> 10),
    }
}
