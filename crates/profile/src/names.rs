//! What the keys of an entry are as text, and in which order entries are shown.

use crate::chains::Order;
use crate::collect::Profile;
use crate::entries::Entry;
use crate::frames::{FrameId, Frames};
use crate::keys::{Column, Key};
use perfuse_data::session::{CommId, Session};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write;

/// Turns entries of a profile into text.
#[derive(Clone, Copy)]
pub struct Names<'n> {
    frames: &'n Frames,
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

    fn value(&self, entry: &Entry, key: Key) -> u64 {
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

    /// What a key is for an entry, as a number where it is one.
    pub fn number(&self, entry: &Entry, key: Key) -> Option<u64> {
        match key {
            Key::Comm | Key::Dso | Key::Symbol | Key::Cgroup | Key::Srcline | Key::Srcfile => None,
            Key::SymbolSize => Some(self.frames.get(entry.frame).size),
            Key::Cpu if self.value(entry, key) == u64::MAX => None,
            _ => Some(self.value(entry, key)),
        }
    }

    /// Sorts entries by columns in this order: numbers with the largest first, keys with the smallest. With
    /// an order of call trees, callers of one thread stand above their callees.
    pub fn sort(&self, entries: &mut [&Entry], columns: &[Column], trees: Option<Order>) {
        let ranks = self.ranks(entries);
        entries.sort_by(|one, other| {
            let shown = columns.iter().map(|&column| self.compare(one, other, column, trees, &ranks));
            let exact = columns.iter().filter_map(|column| column.key());
            let exact = exact.map(|key| self.compare_exactly(one, other, key, &ranks));
            shown.chain(exact).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        });
    }

    /// The place of each frame among all names, so that names need not be compared again and again. What
    /// has no name comes last.
    fn ranks(&self, entries: &[&Entry]) -> Vec<u32> {
        let mut frames: Vec<u32> = entries.iter().map(|entry| entry.frame.0).collect();
        frames.sort_unstable();
        frames.dedup();
        let name = |&frame: &u32| self.frames.get(FrameId(frame)).symbol.as_deref();
        frames.sort_by(|one, other| match (name(one), name(other)) {
            (Some(one), Some(other)) => one.cmp(other),
            (one, other) => other.is_some().cmp(&one.is_some()),
        });
        let mut ranks = vec![0; self.frames.len()];
        let (mut rank, mut last) = (0, None);
        for frame in &frames {
            if last != Some(name(frame)) {
                (rank, last) = (rank + 1, Some(name(frame)));
            }
            ranks[*frame as usize] = rank;
        }
        ranks
    }

    fn compare(
        &self,
        one: &Entry,
        other: &Entry,
        column: Column,
        trees: Option<Order>,
        ranks: &[u32],
    ) -> Ordering {
        match column {
            Column::Total => {
                let by_weight = other.total_weight.cmp(&one.total_weight);
                by_weight.then_with(|| match trees {
                    Some(order) => {
                        let by_depth = match order.caller_first {
                            true => other.depth.cmp(&one.depth),
                            false => one.reach.cmp(&other.reach),
                        };
                        one.thread.cmp(&other.thread).then(by_depth)
                    }
                    None => Ordering::Equal,
                })
            }
            Column::Own | Column::Period => other.self_weight.cmp(&one.self_weight),
            Column::Samples => other.self_samples.cmp(&one.self_samples),
            Column::Key(key) => self.compare_keys(one, other, key, ranks),
            column => other.self_in(column).cmp(&one.self_in(column)),
        }
    }

    fn compare_keys(&self, one: &Entry, other: &Entry, key: Key, ranks: &[u32]) -> Ordering {
        match key {
            Key::Symbol => {
                let rank = |entry: &Entry| ranks[entry.frame.0 as usize];
                rank(one).cmp(&rank(other))
            }
            Key::Comm => {
                let (one, other) = (self.value(one, key), self.value(other, key));
                if one == other {
                    Ordering::Equal
                } else {
                    self.comm(one as u32).cmp(&self.comm(other as u32))
                }
            }
            Key::Dso => {
                let object = |entry: &Entry| self.frames.get(entry.frame).object;
                let (one, other) = (object(one), object(other));
                let names = || self.frames.short_object(one).cmp(self.frames.short_object(other));
                // What is in no object comes last.
                let by_name = || if one == other { Ordering::Equal } else { names() };
                (one == 0).cmp(&(other == 0)).then_with(by_name)
            }
            _ => match (self.number(one, key), self.number(other, key)) {
                (Some(one), Some(other)) => one.cmp(&other),
                _ => self.text(one, key).cmp(&self.text(other, key)),
            },
        }
    }

    /// Tells apart what reads the same.
    fn compare_exactly(&self, one: &Entry, other: &Entry, key: Key, ranks: &[u32]) -> Ordering {
        match key {
            Key::Symbol => {
                let place = |entry: &Entry| {
                    let frame = self.frames.get(entry.frame);
                    let address = if frame.symbol.is_some() { frame.address } else { self.address(entry) };
                    (address, frame.size)
                };
                let by_place = || place(one).cmp(&place(other));
                match self.frames.get(one.frame).symbol {
                    Some(_) => self.compare_keys(one, other, Key::Dso, ranks).then_with(by_place),
                    None => by_place(),
                }
            }
            _ => self.compare_keys(one, other, key, ranks),
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
