//! Records of tracepoints: the `format` file of tracefs, taken apart, and raw data turned into text by it.
//!
//! A format lists the fields with their places, and ends with a C expression, `print fmt`, that makes a line
//! of them. [`Format::print`] evaluates it. The author of the tracepoint decides what that expression does:
//! where it uses something that is not known here, the fields are printed as `name=value` instead. Nothing
//! in a format or in raw data makes this fail.

pub(crate) mod eval;
mod expr;
mod fill;
mod lexer;
mod steps;
#[cfg(test)]
mod tests;

use eval::{CUT, Room};
pub use fill::Filling;
use perfuse_abi::ByteOrder;
use std::fmt::Write;
use steps::Print;

/// So many fields are known of a tracepoint, and lines of so many bytes tell them: C has no longer names.
const FIELDS: usize = 1024;
const FIELD: usize = 1024;

/// So many fields are told of data however short.
const SHORT: usize = 32;

/// A field of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its C type, as the kernel writes it.
    pub type_name: String,
    /// Where it is in the raw data, in bytes.
    pub offset: usize,
    /// How many bytes it has there.
    pub size: usize,
    /// Whether it is a signed number.
    pub signed: bool,
    /// How its bytes are to be understood.
    pub kind: FieldKind,
}

/// How the bytes of a field are to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A number.
    Number,
    /// Text of a fixed size, up to a NUL.
    Text,
    /// Numbers, each of so many bytes.
    Array(usize),
    /// Offset and length of data elsewhere in the record (`__data_loc`), of elements of so many bytes, which
    /// are text or not.
    Dynamic {
        /// Bytes of an element.
        element: usize,
        /// Whether the elements are characters.
        text: bool,
        /// Whether the offset counts from the end of the field (`__rel_loc`).
        relative: bool,
    },
}

/// A tracepoint's format.
#[derive(Clone, Debug)]
pub struct Format {
    /// Name of the tracepoint.
    pub name: String,
    /// Its number: `attr.config` of its events, and the first two bytes of its data.
    pub id: u64,
    /// Its fields; those that all tracepoints have come first.
    pub fields: Vec<Field>,
    print: Option<Print>,
}

/// Names that the recording, or the machine, knows.
pub trait Names {
    /// The symbol of the kernel at an address, and how far into it that is.
    fn symbol(&self, address: u64) -> Option<(String, u64)> {
        let _ = address;
        None
    }

    /// The text of a string in the kernel that a tracepoint refers to by its address.
    fn text(&self, address: u64) -> Option<&[u8]> {
        let _ = address;
        None
    }
}

/// Knows no names.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {}

impl Format {
    /// Takes the text of a `format` file apart. `None` if it has no name or no number.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut name, mut id, mut fields, mut print) = (None, None, Vec::new(), None);
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("name:") {
                name = Some(rest.trim().to_owned());
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id = rest.trim().parse().ok();
            } else if line.starts_with("field:") && line.len() <= FIELD && fields.len() < FIELDS {
                fields.extend(field(line));
            } else if let Some(rest) = line.strip_prefix("print fmt:") {
                // The expression may contain line ends; nothing follows it.
                let mut all = rest.to_owned();
                lines.by_ref().for_each(|line| {
                    all.push('\n');
                    all.push_str(line);
                });
                print = Some(all);
            }
        }
        let print = print.and_then(|text| Print::parse(&text, &fields));
        Some(Format { name: name?, id: id?, fields, print })
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The value of a number's field, sign-extended.
    pub fn number(&self, name: &str, data: &[u8], order: ByteOrder) -> Option<u64> {
        eval::number(self.field(name)?, data, order)
    }

    /// The text of a field that has text.
    pub fn text<'d>(&self, name: &str, data: &'d [u8], order: ByteOrder) -> Option<&'d [u8]> {
        eval::text(self.field(name)?, data, order)
    }

    /// The line that the tracepoint's author meant; fields as `name=value` where that cannot be made. A line of more than 4 KiB and
    /// eight bytes for each of `data`, or one that takes as much work, ends with ` [cut]`; the kernel prints 8 KiB at most.
    pub fn print(&self, data: &[u8], order: ByteOrder, names: &dyn Names) -> String {
        let mut out = String::new();
        let room = Room::new(&out, data);
        let whole = self
            .print
            .as_ref()
            .and_then(|print| print.write(&mut out, &self.fields, data, order, names, &room));
        if whole.is_none() && room.is_used_up() {
            out.push_str(CUT);
        } else if whole.is_none() {
            out.clear();
            self.write_fields(&mut out, data, order);
        }
        out
    }

    /// A field as text, whatever it is.
    pub fn field_text(&self, field: &Field, data: &[u8], order: ByteOrder) -> String {
        let mut out = String::new();
        eval::write_field(&mut out, field, data, order);
        out
    }

    /// The value of a field that is a number, sign-extended.
    pub fn field_number(&self, field: &Field, data: &[u8], order: ByteOrder) -> Option<u64> {
        eval::number(field, data, order)
    }

    /// All fields but those that every tracepoint has. Where data has fewer bytes than there are fields, the first of them.
    pub fn own_fields(&self, data: &[u8]) -> impl Iterator<Item = &Field> {
        let own = self.fields.iter().filter(|field| !field.name.starts_with("common_"));
        own.take(data.len().max(SHORT))
    }

    /// The bytes of a field, or those it refers to; none where the data is too short.
    pub fn field_bytes<'d>(&self, field: &Field, data: &'d [u8], order: ByteOrder) -> &'d [u8] {
        eval::bytes(field, data, order).unwrap_or(&[])
    }

    /// Whether `print fmt` was understood.
    pub fn is_understood(&self) -> bool {
        self.print.is_some()
    }

    /// All fields but those that every tracepoint has, as `name=value`; cut as [`print`](Self::print) does.
    pub fn write_fields(&self, out: &mut String, data: &[u8], order: ByteOrder) {
        let room = Room::new(out, data);
        let mut word = String::new();
        for field in self.own_fields(data) {
            let _ = write!(word, "{}=", field.name);
            eval::write_field(&mut word, field, data, order);
            if room.push(out, &word).is_none() {
                return out.push_str(CUT);
            }
            word.clear();
            word.push(' ');
        }
    }
}

/// `field:TYPE NAME[N]; offset:0; size:4; signed:1;`
fn field(line: &str) -> Option<Field> {
    let (mut declaration, mut offset, mut size, mut signed) = (None, None, None, false);
    for part in line.split(';') {
        let (key, value) = match part.trim().split_once(':') {
            Some((key, value)) => (key, value.trim()),
            None => continue,
        };
        match key {
            "field" | "field special" => declaration = Some(value),
            "offset" => offset = value.parse().ok(),
            "size" => size = value.parse().ok(),
            "signed" => signed = value == "1",
            _ => {}
        }
    }
    let (declaration, offset, size) = (declaration?, offset?, size?);
    let (before, count) = match declaration.rfind('[') {
        Some(bracket) => {
            let count = declaration[bracket + 1..].trim_end_matches(']');
            (declaration[..bracket].trim_end(), Some(count.parse::<usize>().unwrap_or(0)))
        }
        None => (declaration, None),
    };
    let name_letter = |c: &char| c.is_alphanumeric() || *c == '_';
    let start =
        before.len() - before.chars().rev().take_while(name_letter).map(char::len_utf8).sum::<usize>();
    let (mut type_name, mut name) = (before[..start].trim().to_owned(), before[start..].to_owned());
    let dynamic = type_name.starts_with("__data_loc");
    let relative = type_name.starts_with("__rel_loc");
    if (dynamic || relative) && name.is_empty() {
        // `__data_loc char[] name`: the bracket stands before the name.
        let rest = declaration.rfind(']').map_or("", |at| declaration[at + 1..].trim());
        name = rest.to_owned();
    }
    let after = declaration.rfind(']').map(|at| declaration[at + 1..].trim()).filter(|rest| !rest.is_empty());
    if let Some(rest) = after {
        type_name = before.to_owned();
        name = rest.to_owned();
    }
    if name.is_empty() {
        return None;
    }
    let is_char =
        type_name.split_whitespace().any(|word| word == "char") && !type_name.contains("unsigned char");
    let kind = if dynamic || relative {
        let element = element_size(&type_name);
        FieldKind::Dynamic { element, text: is_char, relative }
    } else if count.is_some() && is_char {
        FieldKind::Text
    } else if count.is_some() {
        let element = count.filter(|&count| count > 0).map_or(element_size(&type_name), |count| size / count);
        FieldKind::Array(element.clamp(1, 8))
    } else {
        FieldKind::Number
    };
    Some(Field { name, type_name, offset, size, signed, kind })
}

fn element_size(type_name: &str) -> usize {
    let words = || type_name.split(|c: char| c.is_whitespace() || c == '[');
    let has = |wanted: &[&str]| words().any(|word| wanted.contains(&word));
    if has(&["long", "u64", "s64", "__u64", "__s64", "*", "size_t"]) {
        8
    } else if has(&["short", "u16", "s16", "__u16", "__s16"]) {
        2
    } else if has(&["char", "u8", "s8", "__u8", "__s8", "bool", "cpumask_t", "uint8_t"]) {
        1
    } else {
        4
    }
}
