//! Entries and exits as `raw_syscalls:sys_enter` and `raw_syscalls:sys_exit` tell them.

use crate::format::{Field, Format, eval};
use perfuse_abi::ByteOrder;

/// A tracepoint that tells of all calls, and where its fields are.
#[derive(Clone, Debug)]
pub struct RawCalls {
    number: Field,
    /// The arguments of an entry, or what an exit returns.
    rest: Field,
    is_entry: bool,
}

/// What a record of it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawCall {
    /// A call by its number, with its arguments.
    Entry(u64, [u64; 6]),
    /// A call by its number, and what it returned.
    Exit(u64, i64),
}

impl RawCalls {
    /// By its full name; nothing if it is another tracepoint.
    pub fn of(name: &str, format: &Format) -> Option<Self> {
        let (rest, is_entry) = match name {
            "raw_syscalls:sys_enter" => ("args", true),
            "raw_syscalls:sys_exit" => ("ret", false),
            _ => return None,
        };
        Some(RawCalls { number: format.field("id")?.clone(), rest: format.field(rest)?.clone(), is_entry })
    }

    /// Whether it tells of entries.
    pub fn tells_entries(&self) -> bool {
        self.is_entry
    }

    /// Takes a record's data apart.
    pub fn read(&self, data: &[u8], order: ByteOrder) -> Option<RawCall> {
        let number = eval::number(&self.number, data, order)?;
        if !self.is_entry {
            return Some(RawCall::Exit(number, eval::number(&self.rest, data, order)? as i64));
        }
        let content = eval::bytes(&self.rest, data, order)?;
        let size = content.len() / 6;
        let mut arguments = [0; 6];
        for (argument, bytes) in arguments.iter_mut().zip(content.chunks_exact(size.clamp(1, 8))) {
            *argument = eval::load(bytes, order);
        }
        Some(RawCall::Entry(number, arguments))
    }
}
