//! Raw data and an expression make a value; values and a format string make a line.

use super::expr::{Cast, Expr, Print};
use super::{Field, FieldKind, Names};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::{Ipv4Addr, Ipv6Addr};
use perfuse_abi::ByteOrder;

/// Longer widths in formats are cut.
const MAX_WIDTH: usize = 256;

enum Value<'a> {
    Number { bits: u64, signed: bool },
    Bytes(Cow<'a, [u8]>),
}

fn unsigned(bits: u64) -> Value<'static> {
    Value::Number { bits, signed: false }
}

/// Up to eight bytes as a number.
fn load(bytes: &[u8], order: ByteOrder) -> u64 {
    let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    match order {
        ByteOrder::Big => bytes.iter().fold(0, add),
        ByteOrder::Little => bytes.iter().rev().fold(0, add),
    }
}

fn extend(bits: u64, bytes: usize, signed: bool) -> u64 {
    let shift = 64 - 8 * bytes.clamp(1, 8) as u32;
    if signed { ((bits << shift) as i64 >> shift) as u64 } else { bits << shift >> shift }
}

/// The data of a field: where it is, or where it refers to.
pub(super) fn bytes<'d>(field: &Field, data: &'d [u8], order: ByteOrder) -> Option<&'d [u8]> {
    let here = data.get(field.offset..field.offset.checked_add(field.size)?)?;
    let FieldKind::Dynamic { relative, .. } = field.kind else { return Some(here) };
    let word = load(here.get(..4)?, order) as usize;
    let (start, len) = (word & 0xffff, word >> 16);
    let start = if relative { start + field.offset + field.size } else { start };
    data.get(start..start.checked_add(len)?)
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len())]
}

pub(super) fn number(field: &Field, data: &[u8], order: ByteOrder) -> Option<u64> {
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
            let _ = match (is_pointer || !field.signed && field.size == 8, field.signed) {
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

struct Scope<'s> {
    fields: &'s [Field],
    data: &'s [u8],
    order: ByteOrder,
    names: &'s dyn Names,
}

impl<'s> Scope<'s> {
    fn value(&self, expr: &'s Expr) -> Option<Value<'s>> {
        Some(match expr {
            Expr::Number(bits) => Value::Number { bits: *bits, signed: *bits <= i64::MAX as u64 },
            Expr::Text(text) => Value::Bytes(text.as_bytes().into()),
            Expr::Field(index) => {
                let field = &self.fields[*index];
                match field.kind {
                    FieldKind::Number => {
                        let bits = number(field, self.data, self.order)?;
                        Value::Number { bits, signed: field.signed }
                    }
                    _ => Value::Bytes(bytes(field, self.data, self.order)?.into()),
                }
            }
            Expr::Dynamic(index) => Value::Bytes(bytes(&self.fields[*index], self.data, self.order)?.into()),
            Expr::DynamicLen(index) => {
                unsigned(bytes(&self.fields[*index], self.data, self.order)?.len() as u64)
            }
            Expr::Bitmask(index) => {
                Value::Bytes(bitmask(bytes(&self.fields[*index], self.data, self.order)?, self.order).into())
            }
            Expr::Index(array, index) => {
                let at = usize::try_from(self.bits(index)?).ok()?;
                let element = match &**array {
                    Expr::Field(index) | Expr::Dynamic(index) => match self.fields[*index].kind {
                        FieldKind::Array(element) | FieldKind::Dynamic { element, .. } => element,
                        _ => 1,
                    },
                    _ => 1,
                };
                let Value::Bytes(content) = self.value(array)? else { return None };
                let start = at.checked_mul(element)?;
                unsigned(load(content.get(start..start.checked_add(element)?)?, self.order))
            }
            Expr::Unary(sign, inner) => {
                let bits = self.bits(inner)?;
                let bits = match *sign {
                    "-" => bits.wrapping_neg(),
                    "~" => !bits,
                    "!" => u64::from(bits == 0),
                    _ => bits,
                };
                Value::Number { bits, signed: true }
            }
            Expr::Binary(sign, left, right) => self.binary(sign, left, right)?,
            Expr::Choice(condition, yes, no) => {
                return self.value(if self.bits(condition)? != 0 { yes } else { no });
            }
            Expr::Cast(Cast { bytes, signed }, inner) => match self.value(inner)? {
                Value::Number { bits, .. } => {
                    Value::Number { bits: extend(bits, usize::from(*bytes), *signed), signed: *signed }
                }
                text => text,
            },
            Expr::Flags { value, between, names } => {
                Value::Bytes(self.flags(self.bits(value)?, between, names)?.into())
            }
            Expr::Symbolic { value, names } => {
                let wanted = self.bits(value)?;
                for (value, name) in names {
                    // perf compares whole words; what is cut to 32 bits in the kernel is meant too.
                    let bits = self.bits(value)?;
                    if bits == wanted || bits as u32 as u64 == wanted {
                        return Some(Value::Bytes(name.as_bytes().into()));
                    }
                }
                Value::Bytes(alloc::format!("{wanted:#x}").into_bytes().into())
            }
            Expr::Hex { bytes, len, spaced } => {
                let len = usize::try_from(self.bits(len)?).ok()?;
                let Value::Bytes(content) = self.value(bytes)? else { return None };
                let mut out = String::new();
                for (index, byte) in content.iter().take(len).enumerate() {
                    let _ = write!(out, "{}{byte:02x}", if *spaced && index > 0 { " " } else { "" });
                }
                Value::Bytes(out.into_bytes().into())
            }
            Expr::Array { bytes, count, size } => {
                let (count, size) = (self.bits(count)?, usize::try_from(self.bits(size)?).ok()?);
                let Value::Bytes(content) = self.value(bytes)? else { return None };
                let mut out = String::from("{");
                let items = content.chunks_exact(size.clamp(1, 8));
                for (index, item) in items.take(usize::try_from(count).ok()?).enumerate() {
                    let _ = write!(out, "{}{:#x}", if index > 0 { "," } else { "" }, load(item, self.order));
                }
                out.push('}');
                Value::Bytes(out.into_bytes().into())
            }
        })
    }

    fn bits(&self, expr: &'s Expr) -> Option<u64> {
        match self.value(expr)? {
            Value::Number { bits, .. } => Some(bits),
            Value::Bytes(_) => None,
        }
    }

    fn binary(&self, sign: &str, left: &'s Expr, right: &'s Expr) -> Option<Value<'s>> {
        let Value::Number { bits: a, signed: a_signed } = self.value(left)? else { return None };
        let truth = |is: bool| Some(Value::Number { bits: u64::from(is), signed: true });
        match sign {
            "&&" => return truth(a != 0 && self.bits(right)? != 0),
            "||" => return truth(a != 0 || self.bits(right)? != 0),
            _ => {}
        }
        let Value::Number { bits: b, signed: b_signed } = self.value(right)? else { return None };
        let signed = a_signed && b_signed;
        let less = if signed { (a as i64) < b as i64 } else { a < b };
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
            "==" => return truth(a == b),
            "!=" => return truth(a != b),
            "<" => return truth(less),
            ">=" => return truth(!less),
            ">" => return truth(!less && a != b),
            "<=" => return truth(less || a == b),
            _ => return None,
        };
        Some(Value::Number { bits, signed })
    }

    fn flags(&self, mut value: u64, between: &str, names: &'s [(Expr, String)]) -> Option<Vec<u8>> {
        let mut out = String::new();
        for (flag, name) in names {
            let flag = self.bits(flag)?;
            let is = if flag == 0 { value == 0 && out.is_empty() } else { value & flag == flag };
            if is {
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
        Some(out.into_bytes())
    }
}

/// Words of 32 bits in hexadecimal, the highest first.
fn bitmask(bytes: &[u8], order: ByteOrder) -> Vec<u8> {
    let words: Vec<_> = bytes.chunks_exact(8).map(|word| load(word, order)).collect();
    let mut out = String::new();
    for word in words.iter().rev() {
        let between = if out.is_empty() { "" } else { "," };
        let _ = write!(out, "{between}{:08x},{:08x}", word >> 32, *word as u32);
    }
    out.into_bytes()
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
    ) -> Option<()> {
        let scope = Scope { fields, data, order, names };
        let mut arguments = self.arguments.iter();
        let mut rest = self.format.as_str();
        while let Some(percent) = rest.find('%') {
            out.push_str(&rest[..percent]);
            rest = &rest[percent + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                out.push('%');
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
                pointer(out, &kind, &value, &scope)?;
            } else {
                spec.write(out, letter, &value, &scope)?;
            }
        }
        out.push_str(rest);
        Some(())
    }
}

/// A width: digits, or `*` and an argument.
fn size<'r, 's>(
    rest: &'r str,
    size: &mut Option<usize>,
    arguments: &mut impl Iterator<Item = &'s Expr>,
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
                String::from_utf8_lossy(&text[..text.len().min(self.precision.unwrap_or(usize::MAX))]).into()
            }
            ('s', Value::Number { bits, .. }) => match scope.names.text(*bits) {
                Some(text) => String::from_utf8_lossy(text).into(),
                None => alloc::format!("{bits:#x}"),
            },
            ('c', Value::Number { bits, .. }) => String::from(char::from(*bits as u8)),
            ('d' | 'i', Value::Number { bits, .. }) => {
                let number = extend(*bits, self.bytes(), true) as i64;
                let sign = if self.plus && number >= 0 { "+" } else { "" };
                alloc::format!("{sign}{number}")
            }
            ('u', Value::Number { bits, .. }) => alloc::format!("{}", extend(*bits, self.bytes(), false)),
            ('x' | 'X' | 'o', Value::Number { bits, .. }) => {
                let bits = extend(*bits, self.bytes(), false);
                match (letter, self.alternate && bits != 0) {
                    ('x', true) => alloc::format!("{bits:#x}"),
                    ('x', false) => alloc::format!("{bits:x}"),
                    ('X', true) => alloc::format!("0X{bits:X}"),
                    ('X', false) => alloc::format!("{bits:X}"),
                    (_, true) => alloc::format!("0{bits:o}"),
                    (_, false) => alloc::format!("{bits:o}"),
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
