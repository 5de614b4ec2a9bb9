//! Keys by which the kernel tells rows apart, and what it sums up: the fields of a call that programs can tell.

use super::Rows;
use crate::calls::table::{CallSet, Calls};
use crate::errno::errno_name;
use crate::expr::{Expr, Value};
use perfuse_abi::regs::Arch;

/// A field of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The number of the call.
    Number,
    /// The same, told as its name.
    Name,
    /// The process.
    Pid,
    /// The thread.
    Tid,
    /// The name of the thread.
    Comm,
    /// How long it took, in nanoseconds.
    Duration,
    /// What it returned.
    Returned,
    /// The number of its error, told as its name; 0 is none.
    Error,
    /// An argument, by its place.
    Argument(u8, Width),
}

/// The bits of an argument that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 with a sign.
    Signed32,
    /// 32 without one.
    Unsigned32,
    /// 64 with a sign.
    Signed64,
    /// 64 without one.
    Unsigned64,
}

/// Rows have at most so many keys.
const MOST_KEYS: usize = 4;

impl Key {
    /// The field that an expression names, and the calls of a set that have it; nothing for other expressions, and for arguments that
    /// stand at different places.
    fn of(expr: &Expr, wanted: &CallSet, calls: &Calls) -> Option<(Key, CallSet)> {
        let key = match expr.as_str().trim() {
            "nr" => Key::Number,
            "name" => Key::Name,
            "pid" => Key::Pid,
            "tid" => Key::Tid,
            "comm" => Key::Comm,
            "duration" => Key::Duration,
            "ret" => Key::Returned,
            "error" => Key::Error,
            name => return Key::argument(name, wanted, calls),
        };
        Some((key, wanted.clone()))
    }

    fn argument(name: &str, wanted: &CallSet, calls: &Calls) -> Option<(Key, CallSet)> {
        if let Some(Ok(place @ 0..6)) = name.strip_prefix("arg").map(str::parse) {
            return Some((Key::Argument(place, Width::Unsigned64), wanted.clone()));
        }
        let (mut found, mut having) = (None, Vec::new());
        for number in calls.numbers().filter(|&number| wanted.has(number)) {
            let arguments = calls.get(number)?.arguments.as_ref();
            let named =
                arguments.into_iter().flatten().enumerate().find(|(_, argument)| argument.name == name);
            let Some((place, argument)) = named else { continue };
            let width = match argument.kind {
                "path" | "str" | "sockaddr" | "peer" => return None,
                "fd" | "dirfd" | "int" | "pid" => Width::Signed32,
                "uint" | "mode" => Width::Unsigned32,
                "long" => Width::Signed64,
                _ => Width::Unsigned64,
            };
            let key = Key::Argument(u8::try_from(place).ok()?, width);
            if *found.get_or_insert(key) != key {
                return None;
            }
            having.push(number);
        }
        Some((found?, CallSet::Only(having.into_iter().collect())))
    }

    /// Bytes of the key.
    pub(super) fn size(self) -> usize {
        if self == Key::Comm { 16 } else { 8 }
    }

    /// Whether numbers have a sign.
    pub(super) fn is_signed(self) -> bool {
        matches!(self, Key::Returned | Key::Argument(_, Width::Signed32 | Width::Signed64))
    }

    /// Reads the value into `r0`, of the thread whose element is in `r7`; of a name, writes it at a place of the stack.
    pub(super) fn text(self, arguments: &[u8], place: usize) -> String {
        match self {
            Key::Number | Key::Name => "r0 = *(u64 *)(r7 +8)".to_owned(),
            Key::Pid => "call get_current_pid_tgid\nr0 >>= 32".to_owned(),
            Key::Tid => "call get_current_pid_tgid\nr0 <<= 32\nr0 >>= 32".to_owned(),
            Key::Comm => {
                format!("r1 = r10\nr1 += -{place}\nr2 = 16\ncall get_current_comm")
            }
            Key::Duration => "r0 = *(u64 *)(r7 +24)".to_owned(),
            Key::Returned => "r0 = *(u64 *)(r7 +32)".to_owned(),
            Key::Error => format!(
                "r1 = *(u64 *)(r7 +32)
                 r0 = 0
                 if r1 s>= 0 goto fine{place}
                 if r1 s< -4095 goto fine{place}
                 r0 -= r1
                 fine{place}:"
            ),
            Key::Argument(argument, width) => {
                let at = arguments.iter().position(|kept| *kept == argument).unwrap_or(0);
                let cut = match width {
                    Width::Signed32 => "\nr0 <<= 32\nr0 s>>= 32",
                    Width::Unsigned32 => "\nr0 <<= 32\nr0 >>= 32",
                    Width::Signed64 | Width::Unsigned64 => "",
                };
                format!("r0 = *(u64 *)(r7 +{}){cut}", super::ARGUMENTS + 8 * at)
            }
        }
    }

    /// The value of a key's bytes.
    pub(super) fn value(self, bytes: &[u8], calls: &Calls) -> Value {
        let number = super::word(bytes, 0);
        match self {
            Key::Name => Value::Text(calls.name(number).into_bytes()),
            Key::Comm => Value::Text(super::name(bytes).to_vec()),
            Key::Error => {
                let name = u16::try_from(number).ok().and_then(errno_name);
                Value::Text(name.unwrap_or_default().as_bytes().to_vec())
            }
            _ if self.is_signed() => Value::Number((number as i64).into()),
            _ => Value::Number(number.into()),
        }
    }
}

impl Rows {
    /// Rows by these expressions, with sums of another one, and the calls of a set that have all that; nothing where the kernel
    /// cannot tell them. `spread`: percentiles or histograms are wanted.
    pub fn by_keys(
        keys: &[Expr],
        of: Option<&Expr>,
        spread: bool,
        wanted: &CallSet,
        calls: &Calls,
    ) -> Option<(Rows, CallSet)> {
        if keys.len() > MOST_KEYS {
            return None;
        }
        let mut wanted = wanted.clone();
        let mut found = Vec::new();
        for expr in keys.iter().chain(of) {
            let (key, having) = Key::of(expr, &wanted, calls)?;
            wanted = having;
            found.push(key);
        }
        let of = of.and_then(|_| found.pop());
        // Names are no numbers.
        if matches!(of, Some(Key::Name | Key::Comm | Key::Error)) {
            return None;
        }
        Some((Rows::ByKeys { keys: found, of, spread }, wanted))
    }
}

/// Where `struct pt_regs` has the arguments of a call.
pub(super) fn registers(arch: Arch) -> [u16; 6] {
    match arch {
        Arch::X86_64 => [112, 104, 96, 56, 72, 64],
        // Of arm64; there are no others.
        _ => [0, 8, 16, 24, 32, 40],
    }
}
