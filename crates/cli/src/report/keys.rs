//! What a report sorts by and shows: its columns.

use super::profile::Entry;
use crate::recording::frames::Frames;
use perfuse_data::session::{CommId, Session};

/// What entries are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Comm,
    Dso,
    Symbol,
    Pid,
    Tid,
    Cpu,
    Cgroup,
    Time,
    Weight,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Total,
    Own,
    Samples,
    Period,
    Key(Key),
}

impl Key {
    fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "comm" => Key::Comm,
            "dso" => Key::Dso,
            "sym" | "symbol" => Key::Symbol,
            "pid" => Key::Pid,
            "tid" => Key::Tid,
            "cpu" => Key::Cpu,
            "cgroup" => Key::Cgroup,
            "time" => Key::Time,
            "local_weight" | "weight" => Key::Weight,
            "srcline" | "srcfile" => {
                return Err(format!("'{name}': source lines are not read yet; sort by symbol"));
            }
            _ => {
                let known = "comm, dso, symbol (sym), pid, tid, cpu, cgroup, time, weight";
                return Err(format!("'{name}' is nothing to sort by; there are {known}"));
            }
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Key::Comm => "comm",
            Key::Dso => "dso",
            Key::Symbol => "symbol",
            Key::Pid => "pid",
            Key::Tid => "tid",
            Key::Cpu => "cpu",
            Key::Cgroup => "cgroup",
            Key::Time => "time",
            Key::Weight => "weight",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Key::Comm => "Command",
            Key::Dso => "Shared Object",
            Key::Symbol => "Symbol",
            Key::Pid => "Pid:Command",
            Key::Tid => "Tid:Command",
            Key::Cpu => "CPU",
            Key::Cgroup => "Cgroup",
            Key::Time => "Time",
            Key::Weight => "Weight",
        }
    }

    /// Whether it is a frame's, not the whole sample's.
    pub(super) fn is_of_frame(self) -> bool {
        matches!(self, Key::Dso | Key::Symbol)
    }
}

/// The keys of `-s`.
pub(super) fn keys(text: &str) -> Result<Vec<Key>, String> {
    text.split(',').filter(|name| !name.is_empty()).map(Key::parse).collect()
}

/// The columns of `-F`.
pub(super) fn columns(text: &str) -> Result<Vec<Column>, String> {
    let column = |name: &str| {
        Ok(match name {
            "overhead" => Column::Own,
            "overhead_children" | "children" => Column::Total,
            "sample" | "samples" => Column::Samples,
            "period" => Column::Period,
            name => Column::Key(Key::parse(name)?),
        })
    };
    text.split(',').filter(|name| !name.is_empty()).map(column).collect()
}

/// Turns entries into text.
#[derive(Clone, Copy)]
pub(super) struct Names<'n> {
    pub(super) frames: &'n Frames,
    pub(super) session: &'n Session,
    /// The keys that contexts have values of, in order.
    pub(super) context_keys: &'n [Key],
    pub(super) contexts: &'n [super::profile::Context],
}

impl Names<'_> {
    pub(super) fn text(&self, entry: &Entry, key: Key) -> String {
        let frame = self.frames.get(entry.frame);
        let of_context = || {
            let at = self.context_keys.iter().position(|&other| other == key);
            let values = &self.contexts[entry.context as usize];
            at.and_then(|at| values.get(at)).copied().unwrap_or(0)
        };
        let comm = |id: u64| String::from_utf8_lossy(self.session.comm(CommId(id as u32))).into_owned();
        match key {
            Key::Comm => comm(of_context()),
            Key::Dso => self.frames.short_object(frame.object).to_owned(),
            Key::Symbol => {
                let letter = frame.level.letter();
                match &frame.symbol {
                    Some(name) => format!("[{letter}] {name}"),
                    None => format!("[{letter}] {:#018x}", frame.address),
                }
            }
            Key::Pid | Key::Tid => {
                let value = of_context();
                format!("{:>7}:{}", (value >> 32) as i32, comm(value & 0xffff_ffff))
            }
            Key::Cpu => match of_context() {
                u64::MAX => "-".to_owned(),
                cpu => format!("{cpu:03}"),
            },
            Key::Cgroup => match self.session.cgroup(of_context()) {
                Some(path) => String::from_utf8_lossy(path).into_owned(),
                None => format!("{}", of_context()),
            },
            Key::Time => {
                let mut text = String::new();
                crate::recording::write_time(&mut text, of_context(), 6);
                text
            }
            Key::Weight => of_context().to_string(),
        }
    }
}
