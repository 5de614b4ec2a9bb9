//! What the keys of an entry are as text.

use crate::collect::Profile;
use crate::entries::Entry;
use crate::frames::Frames;
use crate::keys::Key;
use perfuse_data::session::{CommId, Session};
use std::borrow::Cow;
use std::fmt::Write;

/// Turns entries of a profile into text.
#[derive(Clone, Copy)]
pub struct Names<'n> {
    pub(crate) frames: &'n Frames,
    session: &'n Session,
    profile: &'n Profile,
    /// The keys that contexts have values of, in order.
    keys: &'n [Key],
}

impl<'n> Names<'n> {
    /// With the keys that the samples were collected by: those of the [`Plan`](crate::Plan).
    pub fn new(frames: &'n Frames, session: &'n Session, profile: &'n Profile, keys: &'n [Key]) -> Self {
        Names { frames, session, profile, keys }
    }

    /// The value of a key that is the whole sample's.
    pub(crate) fn value(&self, entry: &Entry, key: Key) -> u64 {
        let at = self.keys.iter().position(|&other| other == key);
        let values = &self.profile.contexts[entry.context as usize];
        at.and_then(|at| values.get(at)).copied().unwrap_or(0)
    }

    fn comm(&self, id: u32) -> Cow<'n, str> {
        String::from_utf8_lossy(self.session.comm(CommId(id)))
    }

    /// The name that a thread has at the end.
    fn comm_of(&self, tid: u64) -> Cow<'n, str> {
        let tid = u32::try_from(tid).unwrap_or_default();
        self.session.comm_of(tid, tid).map_or(Cow::Borrowed(""), |comm| self.comm(comm.0))
    }

    /// The address of an entry without a function: as its object counts, or as its process did.
    pub fn address(&self, entry: &Entry) -> u64 {
        let frame = self.frames.get(entry.frame);
        if entry.is_leaf { frame.address } else { frame.ip }
    }

    /// What a key is for an entry.
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
                out.push_str(&self.comm(value() as u32));
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
                        Ok(())
                    }
                    None => match self.address(entry) {
                        0 => write!(out, "{:016}", 0),
                        address => write!(out, "{address:#018x}"),
                    },
                }
            }
            Key::Pid | Key::Tgid => write!(out, "{:>7}:{}", value() as i32, self.comm_of(value())),
            Key::Cpu => match value() {
                u64::MAX => write!(out, "-001"),
                cpu => write!(out, "{cpu:03}"),
            },
            Key::Cgroup => match (value(), self.session.cgroup(value())) {
                (_, Some(path)) => write!(out, "{}", String::from_utf8_lossy(path)),
                (0, None) => write!(out, "N/A"),
                (id, None) => write!(out, "unknown[{id}]"),
            },
            Key::Time => write!(out, "{}.{:06}", value() / 1_000_000_000, value() % 1_000_000_000 / 1000),
            Key::Addr | Key::PhysDaddr => write!(out, "{:#018x}", value()),
            Key::DataPageSize | Key::CodePageSize => write!(out, "{}", page_size(value())),
            Key::Weight => write!(out, "{}", value() * entry.self_samples),
            Key::LocalWeight | Key::LocalInsLat | Key::Transaction => write!(out, "{}", value()),
            Key::Srcline => match &frame.symbol {
                Some(name) => write!(out, "{name}+{}", frame.offset),
                None if frame.object == 0 => write!(out, "??:0"),
                None => {
                    write!(out, "{}[{:x}]", self.frames.short_object(frame.object), self.address(entry))
                }
            },
            Key::Srcfile => Ok(()),
            Key::SymbolSize if frame.symbol.is_some() => write!(out, "{}", frame.size),
            Key::SymbolSize => write!(out, "unknown"),
        };
    }

    /// Whether a key is a number for entries.
    pub(crate) fn is_number(&self, key: Key) -> bool {
        !matches!(key, Key::Comm | Key::Dso | Key::Symbol | Key::Cgroup | Key::Srcline | Key::Srcfile)
    }

    /// What a key is for an entry, as a number where it is one.
    pub fn number(&self, entry: &Entry, key: Key) -> Option<u64> {
        match key {
            _ if !self.is_number(key) => None,
            Key::SymbolSize => Some(self.frames.get(entry.frame).size),
            Key::Cpu if self.value(entry, key) == u64::MAX => None,
            _ => Some(self.value(entry, key)),
        }
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
