//! Calls as lines that strace's readers know, and as objects of JSON.

use super::decode::{behind, write_arguments};
use super::join::Call;
use super::record::CallRecord;
use crate::errno::{errno_name, errno_remark};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Calls that return addresses.
const ADDRESSES: [&str; 4] = ["mmap", "brk", "mremap", "shmat"];

/// The place of what a call returned, among the texts of its arguments: what the descriptor is, if it is one.
pub const RETURNED: usize = 6;

impl CallRecord<'_> {
    fn arguments(&self) -> String {
        let mut out = String::new();
        match &self.call.arguments {
            Some(values) => write_arguments(&mut out, self.calls.get(self.call.number), values, self.text),
            None => out.push_str("..."),
        }
        out
    }

    /// The call as a line, without its end: `close(7) = -1 EBADF (Bad file descriptor)`.
    pub fn line(&self) -> String {
        let name = self.calls.name(self.call.number);
        let mut line = format!("{name}({}) = ", self.arguments());
        let _ = match (self.call.returned, self.call.error()) {
            (None, _) => write!(line, "?"),
            (Some(_), Some(number)) => match errno_remark(number) {
                Some(remark) => write!(line, "? {} ({remark})", error(number)),
                None => write!(line, "-1 {} ({})", error(number), words(number)),
            },
            (Some(value), None) if ADDRESSES.contains(&name.as_str()) => write!(line, "{value:#x}"),
            (Some(value), None) if name == "umask" => write!(line, "{value:03o}"),
            (Some(value), None) => write!(line, "{value}"),
        };
        if let Some(path) = (self.text)(RETURNED) {
            behind(&mut line, &path);
        }
        line
    }

    /// The call as members of an object.
    pub fn members(&self) -> Map<String, Value> {
        let Call { arguments, duration, returned, number, .. } = self.call;
        let members = [
            ("name", self.calls.name(*number).into()),
            ("arguments", self.arguments().into()),
            ("values", json!(arguments)),
            ("ret", json!(returned)),
            ("error", json!(self.call.error().map(error))),
            ("duration_ns", json!(duration)),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn error(number: u16) -> String {
    errno_name(number).map_or_else(|| format!("error {number}"), str::to_owned)
}

/// The system's words for an error.
fn words(number: u16) -> String {
    let words = std::io::Error::from_raw_os_error(number.into()).to_string();
    words.split(" (os error").next().unwrap_or_default().to_owned()
}
