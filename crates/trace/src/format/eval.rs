//! Raw data and an expression make a value; values and a format string make a line.

use super::steps::{Cast, Print, Step};
use super::{Field, FieldKind, Names, NoNames};
use core::cell::Cell;
use core::net::{Ipv4Addr, Ipv6Addr};
use perfuse_abi::ByteOrder;
use std::borrow::Cow;
use std::fmt::Write;

/// Longer widths in formats are cut.
const MAX_WIDTH: usize = 256;

/// A line has so many bytes of text, and so many more for each byte of its data: a recording with one long format and many
/// small samples is not many times as long in text. The kernel itself prints 8 KiB of a tracepoint at most.
const LINE: usize = 4096;
const LINE_PER_BYTE: usize = 8;

/// To make a line may take so many steps, names that are compared and bytes that are gone through, and so many more for each byte
/// of its data.
const WORK: usize = 128 << 10;
const WORK_PER_BYTE: usize = 64;

/// The work of looking for the name of an address.
const SYMBOL: usize = 64;

/// A line ends with this where it was cut.
pub(super) const CUT: &str = " [cut]";

enum Value<'a> {
    Number { bits: u64, signed: bool },
    Bytes(Cow<'a, [u8]>),
}

fn unsigned(bits: u64) -> Value<'static> {
    Value::Number { bits, signed: false }
}

/// Up to eight bytes as a number.
pub(crate) fn load(bytes: &[u8], order: ByteOrder) -> u64 {
    let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    match order {
        ByteOrder::Big => bytes.iter().fold(0, add),
        ByteOrder::Little => bytes.iter().rev().fold(0, add),
    }
}

pub(crate) fn extend(bits: u64, bytes: usize, signed: bool) -> u64 {
    let shift = 64 - 8 * bytes.clamp(1, 8) as u32;
    if signed { ((bits << shift) as i64 >> shift) as u64 } else { bits << shift >> shift }
}

/// The data of a field: where it is, or where it refers to.
pub(crate) fn bytes<'d>(field: &Field, data: &'d [u8], order: ByteOrder) -> Option<&'d [u8]> {
    let here = data.get(field.offset..field.offset.checked_add(field.size)?)?;
    let FieldKind::Dynamic { relative, .. } = field.kind else { return Some(here) };
    let word = load(here.get(..4)?, order) as usize;
    let (start, len) = (word & 0xffff, word >> 16);
    let start = if relative { start + field.offset + field.size } else { start };
    data.get(start..start.checked_add(len)?)
}

pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len())]
}

pub(crate) fn number(field: &Field, data: &[u8], order: ByteOrder) -> Option<u64> {
    let bytes = data.get(field.offset..field.offset.checked_add(field.size)?)?;
    (field.kind == FieldKind::Number && matches!(field.size, 1..=8))
        .then(|| extend(load(bytes, order), field.size, field.signed))
}

pub(super) fn text<'d>(field: &Field, data: &'d [u8], order: ByteOrder) -> Option<&'d [u8]> {
    match field.kind {
        FieldKind::Text | FieldKind::Dynamic { text: true, .. } => bytes(field, data, order).map(until_nul),
        _ => None,
    }
}

/// A field as text, whatever it is.
pub(super) fn write_field(out: &mut String, field: &Field, data: &[u8], order: ByteOrder) {
    let Some(content) = bytes(field, data, order) else {
        out.push('?');
        return;
    };
    let is_pointer = field.type_name.contains('*');
    let element = match field.kind {
        FieldKind::Text | FieldKind::Dynamic { text: true, .. } => {
            return out.push_str(&String::from_utf8_lossy(until_nul(content)));
        }
        FieldKind::Number => {
            let bits = extend(load(&content[..content.len().min(8)], order), field.size, field.signed);
            // perf takes what is called long for an address.
            let is_address = is_pointer || !field.signed && field.type_name.contains("long");
            let _ = match (is_address, field.signed) {
                (true, _) => write!(out, "{bits:#x}"),
                (_, true) => write!(out, "{}", bits as i64),
                _ => write!(out, "{bits}"),
            };
            return;
        }
        FieldKind::Array(element) | FieldKind::Dynamic { element, .. } => element.max(1),
    };
    out.push_str("ARRAY[");
    for (index, item) in content.chunks(element).take(64).enumerate() {
        let _ = write!(out, "{}{:02x}", if index > 0 { ", " } else { "" }, load(item, order));
    }
    out.push(']');
}

/// The limits of one line.
pub(super) struct Room {
    /// The line is cut when it is so long.
    text: usize,
    /// Work that is left.
    work: Cell<usize>,
    is_used_up: Cell<bool>,
}

impl Room {
    /// Of a line that goes on from what `out` has.
    pub(super) fn new(out: &str, data: &[u8]) -> Self {
        let of = |always: usize, per_byte: usize| always.saturating_add(data.len().saturating_mul(per_byte));
        Room {
            text: out.len().saturating_add(of(LINE, LINE_PER_BYTE)),
            work: Cell::new(of(WORK, WORK_PER_BYTE)),
            is_used_up: Cell::new(false),
        }
    }

    /// Asks for so much work; `None` if that is too much.
    fn take(&self, work: usize) -> Option<()> {
        let left = self.work.get().checked_sub(work);
        self.is_used_up.set(self.is_used_up.get() || left.is_none());
        self.work.set(left?);
        Some(())
    }

    /// Adds as much of a text as there is room for; `None` if that is not all.
    pub(super) fn push(&self, out: &mut String, text: &str) -> Option<()> {
        let room = self.text.saturating_sub(out.len());
        if text.len() <= room {
            out.push_str(text);
            return Some(());
        }
        let end = (0..=room).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        out.push_str(&text[..end]);
        self.is_used_up.set(true);
        None
    }

    /// Whether something asked for more than there was.
    pub(super) fn is_used_up(&self) -> bool {
        self.is_used_up.get()
    }
}

/// The data that an expression can ask for.
pub(super) struct Scope<'s> {
    fields: &'s [Field],
    data: &'s [u8],
    order: ByteOrder,
    names: &'s dyn Names,
    room: &'s Room,
}

/// The values that the steps of a program have made so far.
struct Stack<'s>(Vec<Value<'s>>);

impl<'s> Stack<'s> {
    fn number(&mut self) -> Option<(u64, bool)> {
        match self.0.pop()? {
            Value::Number { bits, signed } => Some((bits, signed)),
            Value::Bytes(_) => None,
        }
    }

    fn bits(&mut self) -> Option<u64> {
        self.number().map(|(bits, _)| bits)
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.bits()?).ok()
    }

    fn bytes(&mut self) -> Option<Cow<'s, [u8]>> {
        match self.0.pop()? {
            Value::Bytes(bytes) => Some(bytes),
            Value::Number { .. } => None,
        }
    }
}

fn made(text: String) -> Value<'static> {
    Value::Bytes(text.into_bytes().into())
}

fn truth(is: bool) -> Value<'static> {
    Value::Number { bits: u64::from(is), signed: true }
}

impl<'s> Scope<'s> {
    /// No fields, no data, no names.
    pub(super) fn nothing(room: &'s Room) -> Self {
        Scope { fields: &[], data: &[], order: ByteOrder::Little, names: &NoNames, room }
    }

    fn field(&self, index: usize) -> Option<&'s Field> {
        self.fields.get(index)
    }

    fn bytes_of(&self, index: usize) -> Option<&'s [u8]> {
        bytes(self.field(index)?, self.data, self.order)
    }

    /// Whether it is a record of a probe that was made by hand.
    fn is_of_probe(&self) -> bool {
        self.fields.iter().any(|field| field.name.starts_with("__probe_"))
    }

    /// The value that a program makes; `None` if a value cannot be had.
    fn value(&self, steps: &'s [Step]) -> Option<Value<'s>> {
        let mut stack = Stack(Vec::with_capacity(4));
        let mut next = 0;
        while let Some(step) = steps.get(next) {
            next += 1;
            self.room.take(1)?;
            let value = match step {
                Step::Number(bits) => Value::Number { bits: *bits, signed: *bits <= i64::MAX as u64 },
                Step::Text(text) => Value::Bytes(text.as_bytes().into()),
                Step::Field(index) => {
                    let field = self.field(*index)?;
                    match field.kind {
                        FieldKind::Number => {
                            let bits = number(field, self.data, self.order)?;
                            Value::Number { bits, signed: field.signed }
                        }
                        _ => Value::Bytes(self.bytes_of(*index)?.into()),
                    }
                }
                Step::Dynamic(index) => Value::Bytes(match self.bytes_of(*index)? {
                    // As the kernel says it of what its probes could not read.
                    [] if self.is_of_probe() => b"(fault)"[..].into(),
                    bytes => bytes.into(),
                }),
                Step::DynamicLen(index) => unsigned(self.bytes_of(*index)?.len() as u64),
                Step::Bitmask(index) => {
                    let content = self.bytes_of(*index)?;
                    self.room.take(content.len())?;
                    made(bitmask(content, self.order))
                }
                Step::Index(element) => {
                    let (at, content) = (stack.size()?, stack.bytes()?);
                    let start = at.checked_mul(*element)?;
                    unsigned(load(content.get(start..start.checked_add(*element)?)?, self.order))
                }
                Step::Unary(sign) => {
                    let bits = stack.bits()?;
                    let bits = match *sign {
                        "-" => bits.wrapping_neg(),
                        "~" => !bits,
                        "!" => u64::from(bits == 0),
                        _ => bits,
                    };
                    Value::Number { bits, signed: true }
                }
                Step::Binary(sign) => {
                    let (right, left) = (stack.number()?, stack.number()?);
                    binary(sign, left, right)?
                }
                Step::Jump(to) => {
                    next = *to;
                    continue;
                }
                Step::Unless(to) => {
                    if stack.bits()? == 0 {
                        next = *to;
                    }
                    continue;
                }
                Step::Decided { by_zero, next: to } => {
                    let bits = stack.bits()?;
                    if (bits == 0) != *by_zero {
                        continue;
                    }
                    next = *to;
                    truth(bits != 0)
                }
                Step::Truth => truth(stack.bits()? != 0),
                Step::Cast(Cast { bytes, signed }) => match stack.0.pop()? {
                    Value::Number { bits, .. } => {
                        Value::Number { bits: extend(bits, usize::from(*bytes), *signed), signed: *signed }
                    }
                    text => text,
                },
                Step::Flags { between, names } => made(flags(stack.bits()?, between, names, self.room)?),
                Step::Symbolic(names) => {
                    let wanted = stack.bits()?;
                    // perf compares whole words; what is cut to 32 bits in the kernel is meant too.
                    let is = |bits: u64| bits == wanted || bits as u32 as u64 == wanted;
                    self.room.take(names.len())?;
                    match names.iter().find(|(bits, _)| is(*bits)) {
                        Some((_, name)) => Value::Bytes(name.as_bytes().into()),
                        None => made(format!("{wanted:#x}")),
                    }
                }
                Step::Hex { spaced } => {
                    let (len, content) = (stack.size()?, stack.bytes()?);
                    self.room.take(content.len().min(len))?;
                    let mut out = String::new();
                    for (index, byte) in content.iter().take(len).enumerate() {
                        let _ = write!(out, "{}{byte:02x}", if *spaced && index > 0 { " " } else { "" });
                    }
                    made(out)
                }
                Step::Array => {
                    let (size, count, content) = (stack.size()?, stack.size()?, stack.bytes()?);
                    self.room.take(content.len())?;
                    let mut out = String::from("{");
                    for (index, item) in content.chunks_exact(size.clamp(1, 8)).take(count).enumerate() {
                        let between = if index > 0 { "," } else { "" };
                        let _ = write!(out, "{between}{:#x}", load(item, self.order));
                    }
                    out.push('}');
                    made(out)
                }
            };
            stack.0.push(value);
        }
        stack.0.pop()
    }

    pub(super) fn bits(&self, steps: &'s [Step]) -> Option<u64> {
        match self.value(steps)? {
            Value::Number { bits, .. } => Some(bits),
            Value::Bytes(_) => None,
        }
    }
}

/// The value that an operator makes of two numbers, each with whether it is signed.
fn binary(sign: &str, (a, a_signed): (u64, bool), (b, b_signed): (u64, bool)) -> Option<Value<'static>> {
    let signed = a_signed && b_signed;
    let less = if signed { (a as i64) < b as i64 } else { a < b };
    Some(match sign {
        "==" => truth(a == b),
        "!=" => truth(a != b),
        "<" => truth(less),
        ">=" => truth(!less),
        ">" => truth(!less && a != b),
        "<=" => truth(less || a == b),
        _ => {
            let (bits, signed) = arithmetic(sign, (a, a_signed), (b, b_signed))?;
            Value::Number { bits, signed }
        }
    })
}

/// What an operator of arithmetic makes of two numbers, each with whether it is signed: as C does with 64 bits.
pub(crate) fn arithmetic(
    sign: &str,
    (a, a_signed): (u64, bool),
    (b, b_signed): (u64, bool),
) -> Option<(u64, bool)> {
    let signed = a_signed && b_signed;
    let bits = match sign {
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" | "%" if b == 0 => return None,
        "/" if signed => (a as i64).wrapping_div(b as i64) as u64,
        "%" if signed => (a as i64).wrapping_rem(b as i64) as u64,
        "/" => a / b,
        "%" => a % b,
        "<<" => a.checked_shl(u32::try_from(b).ok()?).unwrap_or(0),
        ">>" if a_signed => ((a as i64) >> b.min(63)) as u64,
        ">>" => a.checked_shr(u32::try_from(b).ok()?).unwrap_or(0),
        "&" => a & b,
        "|" => a | b,
        "^" => a ^ b,
        _ => return None,
    };
    Some((bits, signed))
}

fn flags(mut value: u64, between: &str, names: &[(u64, String)], room: &Room) -> Option<String> {
    let mut out = String::new();
    for (flag, name) in names {
        room.take(1)?;
        let is = if *flag == 0 { value == 0 && out.is_empty() } else { value & flag == *flag };
        if is {
            room.take(name.len() + between.len())?;
            if !out.is_empty() {
                out.push_str(between);
            }
            out.push_str(name);
            value &= !flag;
        }
    }
    if value != 0 {
        let _ = write!(out, "{}{value:#x}", if out.is_empty() { "" } else { between });
    }
    Some(out)
}

/// Words of 32 bits in hexadecimal, the highest first.
fn bitmask(bytes: &[u8], order: ByteOrder) -> String {
    let words: Vec<_> = bytes.chunks_exact(8).map(|word| load(word, order)).collect();
    let mut out = String::new();
    for word in words.iter().rev() {
        let between = if out.is_empty() { "" } else { "," };
        let _ = write!(out, "{between}{:08x},{:08x}", word >> 32, *word as u32);
    }
    out
}

impl Print {
    /// `None` if a value cannot be had.
    pub(super) fn write(
        &self,
        out: &mut String,
        fields: &[Field],
        data: &[u8],
        order: ByteOrder,
        names: &dyn Names,
        room: &Room,
    ) -> Option<()> {
        let scope = Scope { fields, data, order, names, room };
        let mut arguments = self.arguments.iter();
        let mut rest = self.format.as_str();
        let mut word = String::new();
        while let Some(percent) = rest.find('%') {
            room.push(out, &rest[..percent])?;
            rest = &rest[percent + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                room.push(out, "%")?;
                rest = after;
                continue;
            }
            let mut spec = Spec::default();
            rest = spec.flags(rest);
            rest = size(rest, &mut spec.width, &mut arguments, &scope)?;
            if let Some(after) = rest.strip_prefix('.') {
                let mut precision = Some(0);
                rest = size(after, &mut precision, &mut arguments, &scope)?;
                spec.precision = precision;
            }
            let conversion = rest.find(|c: char| !matches!(c, 'l' | 'h' | 'z' | 'j' | 't' | 'L' | 'q'))?;
            spec.long = rest[..conversion].contains(['l', 'z', 'j', 't', 'L', 'q']);
            spec.halves = rest[..conversion].bytes().filter(|&byte| byte == b'h').count();
            rest = &rest[conversion..];
            let letter = rest.chars().next()?;
            rest = &rest[letter.len_utf8()..];
            let value = scope.value(arguments.next()?)?;
            if letter == 'p' {
                let kind: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
                rest = &rest[kind.len()..];
                pointer(&mut word, &kind, &value, &scope)?;
            } else {
                spec.write(&mut word, letter, &value, &scope)?;
            }
            room.push(out, &word)?;
            word.clear();
        }
        room.push(out, rest)
    }
}

/// A width: digits, or `*` and an argument.
fn size<'r, 's>(
    rest: &'r str,
    size: &mut Option<usize>,
    arguments: &mut impl Iterator<Item = &'s Vec<Step>>,
    scope: &Scope<'s>,
) -> Option<&'r str> {
    if let Some(after) = rest.strip_prefix('*') {
        *size = Some(usize::try_from(scope.bits(arguments.next()?)?).ok()?.min(MAX_WIDTH));
        return Some(after);
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        *size = Some(rest[..digits].parse().unwrap_or(MAX_WIDTH).min(MAX_WIDTH));
    }
    Some(&rest[digits..])
}

fn pointer(out: &mut String, kind: &str, value: &Value<'_>, scope: &Scope<'_>) -> Option<()> {
    let bits = match value {
        Value::Number { bits, .. } => *bits,
        Value::Bytes(bytes) => return address(out, kind, bytes, scope.order),
    };
    scope.room.take(SYMBOL)?;
    let symbol = matches!(kind, "S" | "s" | "F" | "f" | "B").then(|| scope.names.symbol(bits)).flatten();
    let _ = match symbol {
        Some((name, offset)) if matches!(kind, "S" | "F" | "B") => write!(out, "{name}+{offset:#x}"),
        Some((name, _)) => out.write_str(&name),
        None if bits == 0 && kind.is_empty() => out.write_str("(nil)"),
        None => write!(out, "{bits:#x}"),
    };
    Some(())
}

/// Bytes that are an address of the network or a UUID.
fn address(out: &mut String, kind: &str, bytes: &[u8], order: ByteOrder) -> Option<()> {
    match kind {
        "I4" | "i4" => push(out, Ipv4Addr::from(*bytes.first_chunk()?)),
        "I6c" => push(out, Ipv6Addr::from(*bytes.first_chunk::<16>()?)),
        "I6" | "i6" => groups(out, bytes.get(..16)?, 2, if kind == "I6" { ":" } else { "" }),
        "M" | "m" => groups(out, bytes.get(..6)?, 1, if kind == "M" { ":" } else { "" }),
        "U" | "Ub" => {
            let bytes: &[u8; 16] = bytes.first_chunk()?;
            let [first, rest] = [&bytes[..4], &bytes[4..10]];
            groups(out, first, 4, "");
            out.push('-');
            groups(out, rest, 2, "-");
            out.push('-');
            groups(out, &bytes[10..], 6, "");
        }
        _ if kind.starts_with("IS") => {
            let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
            let with_port = kind.contains('p');
            match load(bytes.get(..2)?, order) {
                2 => push(out, Ipv4Addr::from(*bytes.get(4..)?.first_chunk()?)),
                10 if with_port => {
                    let _ = write!(out, "[{}]", Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?));
                }
                10 => push(out, Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?)),
                _ => return None,
            }
            if with_port {
                let _ = write!(out, ":{port}");
            }
        }
        _ => return None,
    }
    Some(())
}

fn push(out: &mut String, shown: impl core::fmt::Display) {
    let _ = write!(out, "{shown}");
}

/// Bytes in hexadecimal, so many together.
fn groups(out: &mut String, bytes: &[u8], together: usize, between: &str) {
    for (index, byte) in bytes.iter().enumerate() {
        let sign = if index > 0 && index % together == 0 { between } else { "" };
        let _ = write!(out, "{sign}{byte:02x}");
    }
}

#[derive(Default)]
struct Spec {
    left: bool,
    zeros: bool,
    alternate: bool,
    plus: bool,
    long: bool,
    halves: usize,
    width: Option<usize>,
    precision: Option<usize>,
}

impl Spec {
    fn flags<'r>(&mut self, mut rest: &'r str) -> &'r str {
        loop {
            match rest.bytes().next() {
                Some(b'-') => self.left = true,
                Some(b'0') => self.zeros = true,
                Some(b'#') => self.alternate = true,
                Some(b'+') => self.plus = true,
                Some(b' ') => {}
                _ => return rest,
            }
            rest = &rest[1..];
        }
    }

    fn write(&self, out: &mut String, letter: char, value: &Value<'_>, scope: &Scope<'_>) -> Option<()> {
        let text: String = match (letter, value) {
            ('s', Value::Bytes(bytes)) => {
                let text = until_nul(bytes);
                scope.room.take(text.len())?;
                String::from_utf8_lossy(&text[..text.len().min(self.precision.unwrap_or(usize::MAX))]).into()
            }
            ('s', Value::Number { bits, .. }) => match scope.names.text(*bits) {
                Some(text) => {
                    scope.room.take(text.len())?;
                    String::from_utf8_lossy(text).into()
                }
                None => format!("{bits:#x}"),
            },
            ('c', Value::Number { bits, .. }) => String::from(char::from(*bits as u8)),
            ('d' | 'i', Value::Number { bits, .. }) => {
                let number = extend(*bits, self.bytes(), true) as i64;
                let sign = if self.plus && number >= 0 { "+" } else { "" };
                format!("{sign}{number}")
            }
            ('u', Value::Number { bits, .. }) => format!("{}", extend(*bits, self.bytes(), false)),
            ('x' | 'X' | 'o', Value::Number { bits, .. }) => {
                let bits = extend(*bits, self.bytes(), false);
                match (letter, self.alternate && bits != 0) {
                    ('x', true) => format!("{bits:#x}"),
                    ('x', false) => format!("{bits:x}"),
                    ('X', true) => format!("0X{bits:X}"),
                    ('X', false) => format!("{bits:X}"),
                    (_, true) => format!("0{bits:o}"),
                    (_, false) => format!("{bits:o}"),
                }
            }
            _ => return None,
        };
        let missing = self.width.unwrap_or(0).saturating_sub(text.chars().count());
        if self.left {
            out.push_str(&text);
            out.extend(core::iter::repeat_n(' ', missing));
        } else if self.zeros && letter != 's' {
            let prefix =
                text.len() - text.trim_start_matches("0x").len().min(text.trim_start_matches('-').len());
            out.push_str(&text[..prefix]);
            out.extend(core::iter::repeat_n('0', missing));
            out.push_str(&text[prefix..]);
        } else {
            // A precision of a number is a least number of digits; tracepoints use it for padding only.
            let zeros = match self.precision {
                Some(digits) if letter != 's' => digits.saturating_sub(text.len()),
                _ => 0,
            };
            out.extend(core::iter::repeat_n(' ', missing.saturating_sub(zeros)));
            out.extend(core::iter::repeat_n('0', zeros));
            out.push_str(&text);
        }
        Some(())
    }

    fn bytes(&self) -> usize {
        match (self.long, self.halves) {
            (true, _) => 8,
            (false, 0) => 4,
            (false, 1) => 2,
            (false, _) => 1,
        }
    }
}
