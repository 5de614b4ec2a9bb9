//! What the keys of an entry are as text, and in which order entries are shown.

use crate::chains::Order;
use crate::collect::Profile;
use crate::entries::Entry;
use crate::frames::Frames;
use crate::keys::{Column, Key};
use perfuse_data::session::{CommId, Session};
use std::borrow::Cow;
use std::cmp::Ordering;

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
    pub fn text(&self, entry: &Entry, key: Key) -> Cow<'n, str> {
        let frame = self.frames.get(entry.frame);
        let value = || self.value(entry, key);
        let text = match key {
            Key::Comm => return self.comm(value() as u32),
            Key::Dso => return Cow::Borrowed(self.frames.short_object(frame.object)),
            Key::Symbol => {
                let letter = entry.level.letter();
                match &frame.symbol {
                    Some(name) => format!("[{letter}] {name}"),
                    None => match self.address(entry) {
                        0 => format!("[{letter}] {:016}", 0),
                        address => format!("[{letter}] {address:#018x}"),
                    },
                }
            }
            Key::Pid | Key::Tgid => format!("{:>7}:{}", value() as i32, self.comm_of(value())),
            Key::Cpu => match value() {
                u64::MAX => "-001".to_owned(),
                cpu => format!("{cpu:03}"),
            },
            Key::Cgroup => match (value(), self.session.cgroup(value())) {
                (_, Some(path)) => return String::from_utf8_lossy(path),
                (0, None) => "N/A".to_owned(),
                (id, None) => format!("unknown[{id}]"),
            },
            Key::Time => format!("{}.{:06}", value() / 1_000_000_000, value() % 1_000_000_000 / 1000),
            Key::Addr | Key::PhysDaddr => format!("{:#018x}", value()),
            Key::DataPageSize | Key::CodePageSize => page_size(value()),
            Key::Weight => (value() * entry.self_samples).to_string(),
            Key::LocalWeight | Key::LocalInsLat | Key::Transaction => value().to_string(),
            Key::Srcline => match &frame.symbol {
                Some(name) => format!("{name}+{}", frame.offset),
                None if frame.object == 0 => "??:0".to_owned(),
                None => format!("{}[{:x}]", self.frames.short_object(frame.object), self.address(entry)),
            },
            Key::Srcfile => String::new(),
            Key::SymbolSize if frame.symbol.is_some() => frame.size.to_string(),
            Key::SymbolSize => "unknown".to_owned(),
        };
        Cow::Owned(text)
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
        entries.sort_by(|one, other| {
            let shown = columns.iter().map(|&column| self.compare(one, other, column, trees));
            let exact = columns.iter().filter_map(|column| column.key());
            let exact = exact.map(|key| self.compare_exactly(one, other, key));
            shown.chain(exact).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        });
    }

    fn compare(&self, one: &Entry, other: &Entry, column: Column, trees: Option<Order>) -> Ordering {
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
            Column::Key(key) => self.compare_keys(one, other, key),
            column => other.self_in(column).cmp(&one.self_in(column)),
        }
    }

    fn compare_keys(&self, one: &Entry, other: &Entry, key: Key) -> Ordering {
        match key {
            Key::Symbol => {
                let name = |entry: &Entry| self.frames.get(entry.frame).symbol.as_deref();
                match (name(one), name(other)) {
                    (Some(one), Some(other)) => one.cmp(other),
                    (one, other) => other.is_some().cmp(&one.is_some()),
                }
            }
            Key::Dso => {
                let object = |entry: &Entry| self.frames.get(entry.frame).object;
                let (one, other) = (object(one), object(other));
                let names = || self.frames.short_object(one).cmp(self.frames.short_object(other));
                // What is in no object comes last.
                (one == 0).cmp(&(other == 0)).then_with(names)
            }
            _ => match (self.number(one, key), self.number(other, key)) {
                (Some(one), Some(other)) => one.cmp(&other),
                _ => self.text(one, key).cmp(&self.text(other, key)),
            },
        }
    }

    /// Tells apart what reads the same.
    fn compare_exactly(&self, one: &Entry, other: &Entry, key: Key) -> Ordering {
        match key {
            Key::Symbol => {
                let place = |entry: &Entry| {
                    let frame = self.frames.get(entry.frame);
                    let is_known = frame.symbol.is_some();
                    let address = if is_known { frame.address } else { self.address(entry) };
                    let object = if is_known { self.frames.short_object(frame.object) } else { "" };
                    (!is_known, object, address, frame.size)
                };
                place(one).cmp(&place(other))
            }
            _ => self.compare_keys(one, other, key),
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
