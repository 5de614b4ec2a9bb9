//! Calls as expressions see them: their arguments by name, and what is known of each.

use super::join::Call;
use super::table::{Calls, Spec};
use crate::errno::errno_name;
use crate::expr::{Extra, Kind, Record, Schema};
use perfuse_abi::ByteOrder;
use std::borrow::Cow;

/// What every call has.
pub const CALL_FIELDS: [Extra; 16] = [
    unsigned("pid"),
    unsigned("tid"),
    unsigned("cpu"),
    unsigned("time"),
    unsigned("duration"),
    signed("ret"),
    unsigned("nr"),
    unsigned("arg0"),
    unsigned("arg1"),
    unsigned("arg2"),
    unsigned("arg3"),
    unsigned("arg4"),
    unsigned("arg5"),
    text("name"),
    text("comm"),
    text("error"),
];

const fn unsigned(name: &'static str) -> Extra {
    Extra { name, kind: Kind::Unsigned }
}

const fn signed(name: &'static str) -> Extra {
    Extra { name, kind: Kind::Signed }
}

const fn text(name: &'static str) -> Extra {
    Extra { name, kind: Kind::Text }
}

/// The fields of a call: [`CALL_FIELDS`], and its arguments by their names.
pub fn call_schema(spec: Option<&Spec>) -> Vec<Extra> {
    let arguments = spec.and_then(|spec| spec.arguments.as_ref()).into_iter().flatten();
    let extra = arguments.map(|argument| Extra {
        name: argument.name,
        kind: match argument.kind {
            "path" | "str" | "sockaddr" | "peer" => Kind::Text,
            "fd" | "dirfd" | "int" | "pid" | "long" => Kind::Signed,
            _ => Kind::Unsigned,
        },
    });
    CALL_FIELDS.into_iter().chain(extra).collect()
}

/// A call that an expression is asked about.
pub struct CallRecord<'a> {
    /// The call.
    pub call: &'a Call,
    /// The table that it is from.
    pub calls: &'a Calls,
    /// The name of its thread.
    pub comm: &'a [u8],
    /// Knows the texts of its arguments, by their places.
    pub text: &'a dyn Fn(usize) -> Option<String>,
}

impl CallRecord<'_> {
    fn argument(&self, extra: usize) -> Option<(usize, u64)> {
        let index = extra.checked_sub(CALL_FIELDS.len())?;
        Some((index, *self.call.arguments?.get(index)?))
    }
}

impl Record for CallRecord<'_> {
    fn data(&self) -> &[u8] {
        &[]
    }

    fn order(&self) -> ByteOrder {
        ByteOrder::NATIVE
    }

    fn number(&self, extra: usize) -> Option<u64> {
        let call = self.call;
        match extra {
            0 => Some(call.at.pid.into()),
            1 => Some(call.at.tid.into()),
            2 => call.at.cpu.map(u64::from),
            3 => Some(call.at.time),
            4 => call.duration,
            5 => call.returned.map(|value| value as u64),
            6 => Some(call.number),
            7..=12 => call.arguments.map(|arguments| arguments[extra - 7]),
            _ => {
                let (index, value) = self.argument(extra)?;
                let kind = self.calls.get(call.number)?.arguments.as_ref()?.get(index)?.kind;
                Some(match kind {
                    "fd" | "dirfd" | "int" | "pid" => i64::from(value as i32) as u64,
                    "uint" | "mode" => u64::from(value as u32),
                    _ => value,
                })
            }
        }
    }

    fn text(&self, extra: usize) -> Option<Cow<'_, [u8]>> {
        match extra {
            13 => Some(match self.calls.get(self.call.number) {
                Some(spec) => spec.name.as_bytes().into(),
                None => self.calls.name(self.call.number).into_bytes().into(),
            }),
            14 => Some(self.comm.into()),
            // Nothing is an error, too: `error == 'ENOENT'` is false of a call that went well.
            15 => Some(self.call.error().and_then(errno_name).unwrap_or_default().as_bytes().into()),
            _ => {
                let (index, _) = self.argument(extra)?;
                (self.text)(index).map(|text| text.into_bytes().into())
            }
        }
    }
}

/// The schema of calls without a format.
impl<'a> Schema<'a> {
    /// Of fields that are not in a record's data.
    pub fn of_extras(extras: &'a [Extra]) -> Self {
        Schema { format: None, extras }
    }
}

impl Calls {
    /// Whether a call has an argument of this name that is a text, and no other field has the name.
    pub fn has_text(&self, name: &str) -> bool {
        if CALL_FIELDS.iter().any(|field| field.name == name) {
            return false;
        }
        let mut arguments = self
            .numbers()
            .filter_map(|number| self.get(number))
            .flat_map(|spec| spec.arguments.iter().flatten());
        arguments.any(|argument| argument.name == name && (argument.is_text() || argument.is_peer()))
    }
}
