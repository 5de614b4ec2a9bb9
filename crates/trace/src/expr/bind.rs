//! An expression for records of one kind: names have become places, and all is of one type.

use super::error::Fault;
use super::text::glob;
use super::{Item, Node, Relation, What};
use crate::errno;
use crate::format::{Field, FieldKind, Format, eval};
use perfuse_abi::ByteOrder;
use perfuse_events::nearest;
use regex_lite::Regex;
use std::borrow::Cow;
use std::cmp::Ordering;

/// What records of one kind have that an expression may name: fields of their format, and extras.
#[derive(Clone, Copy, Debug)]
pub struct Schema<'a> {
    /// The format of the record's data, if it is a tracepoint's.
    pub format: Option<&'a Format>,
    /// What else is known of each record: of a sample, its thread, time, and so on.
    pub extras: &'a [Extra],
}

/// Something that is known of each record beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    /// Its name. `sample.NAME` is the same where a field of the record has that name, too.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
}

/// The type of an [`Extra`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number from 0 on.
    Unsigned,
    /// A number that may be negative.
    Signed,
    /// A text.
    Text,
}

/// A record that an expression is asked about.
pub trait Record {
    /// The data that the format is about.
    fn data(&self) -> &[u8];

    /// The order of its bytes.
    fn order(&self) -> ByteOrder;

    /// The number of an extra, by its place in the schema; a negative one in 64 bits.
    fn number(&self, extra: usize) -> Option<u64>;

    /// The text of an extra.
    fn text(&self, extra: usize) -> Option<Cow<'_, [u8]>>;
}

/// No extras.
pub struct NoExtras;

impl NoExtras {
    /// As a schema has it.
    pub const NONE: &'static [Extra] = &[];
}

impl<'a> Schema<'a> {
    /// A format's fields alone.
    pub fn of(format: &'a Format) -> Self {
        Schema { format: Some(format), extras: NoExtras::NONE }
    }

    /// A record's own fields go before what the sample has, as in the kernel; common ones are among the format's.
    fn find(&self, name: &str) -> Option<Found<'a>> {
        if let Some(field) = self.format.and_then(|format| format.field(name)) {
            return Some(Found::Field(field));
        }
        let name = match name {
            "CPU" => "cpu",
            "COMM" => "comm",
            name => name.strip_prefix("sample.").unwrap_or(name),
        };
        let place = self.extras.iter().position(|extra| extra.name == name)?;
        Some(Found::Extra(place, self.extras[place].kind))
    }

    pub(super) fn field(&self, name: &str) -> Option<&'a Field> {
        match self.find(name)? {
            Found::Field(field) => Some(field),
            Found::Extra(..) => None,
        }
    }

    pub(super) fn has_extra(&self, name: &str) -> bool {
        matches!(self.find(name), Some(Found::Extra(..)))
    }

    /// The names to tell where none is near.
    fn own(&self) -> Vec<&str> {
        let mut known = self.known();
        known.retain(|name| !name.starts_with("common_"));
        known
    }

    fn known(&self) -> Vec<&str> {
        let fields = self.format.into_iter().flat_map(|format| &format.fields);
        fields.map(|field| field.name.as_str()).chain(self.extras.iter().map(|extra| extra.name)).collect()
    }
}

enum Found<'a> {
    Field(&'a Field),
    Extra(usize, Kind),
}

/// Data of a tracepoint, of which nothing else is known.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'d> {
    data: &'d [u8],
    order: ByteOrder,
}

impl<'d> RawRecord<'d> {
    /// Data as the record has it.
    pub fn new(data: &'d [u8], order: ByteOrder) -> Self {
        RawRecord { data, order }
    }
}

impl Record for RawRecord<'_> {
    fn data(&self) -> &[u8] {
        self.data
    }

    fn order(&self) -> ByteOrder {
        self.order
    }

    fn number(&self, _: usize) -> Option<u64> {
        None
    }

    fn text(&self, _: usize) -> Option<Cow<'_, [u8]>> {
        None
    }
}

/// An expression that can be asked about records of one kind.
#[derive(Clone, Debug)]
pub struct Bound(Truth);

/// An expression that has a value in records of one kind.
#[derive(Clone, Debug)]
pub struct BoundValue(Typed);

/// The value of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// A number of 64 bits, with its sign.
    Number(i128),
    /// A text.
    Text(Vec<u8>),
}

/// A number: its bits, and whether it may be negative. Where the field has fewer than 64 bits it always may, as all its values are
/// numbers with a sign then.
type Number = (u64, bool);

#[derive(Clone, Debug)]
enum Num {
    Constant(Number),
    Field(Field),
    Element(Field, Box<Num>),
    Extra(usize, bool),
    Binary(&'static str, Box<Num>, Box<Num>),
    Unary(&'static str, Box<Num>),
    Truth(Box<Truth>),
}

#[derive(Clone, Debug)]
enum Text {
    Constant(Vec<u8>),
    Field(Field),
    Extra(usize),
}

#[derive(Clone, Debug)]
enum Truth {
    Any(Vec<Truth>),
    All(Vec<Truth>),
    Not(Box<Truth>),
    Numbers(Relation, Num, Num),
    Texts(Relation, Text, Text),
    Glob(Text, String),
    Regex(Text, Regex),
    AmongNumbers(Num, Vec<(Number, Number)>),
    AmongTexts(Text, Vec<String>),
    NotZero(Num),
}

#[derive(Clone, Debug)]
enum Typed {
    Num(Num),
    Text(Text),
    Truth(Truth),
}

pub(super) fn bind(root: &Node, schema: &Schema<'_>) -> Result<Bound, Fault> {
    truth(root, schema).map(Bound)
}

pub(super) fn bind_value(root: &Node, schema: &Schema<'_>) -> Result<BoundValue, Fault> {
    typed(root, schema).map(BoundValue)
}

/// The arguments of a tracepoint that are text in the kernel's eyes: it takes any array of characters for one.
pub(super) fn is_text(field: &Field) -> bool {
    match field.kind {
        FieldKind::Text | FieldKind::Dynamic { text: true, .. } => true,
        FieldKind::Array(1) => field.type_name.contains("char"),
        _ => false,
    }
}

pub(super) fn is_pointer_to_text(field: &Field) -> bool {
    field.kind == FieldKind::Number && matches!(field.type_name.trim(), "char *" | "const char *")
}

fn truth(node: &Node, schema: &Schema<'_>) -> Result<Truth, Fault> {
    match typed(node, schema)? {
        Typed::Truth(truth) => Ok(truth),
        // Alone, `flags & 4` is a comparison of the kernel's, which cuts the number.
        Typed::Num(Num::Binary("&", mut left, mut right)) => {
            cut(&left, &mut right);
            cut(&right, &mut left);
            Ok(Truth::NotZero(Num::Binary("&", left, right)))
        }
        Typed::Num(num) => Ok(Truth::NotZero(num)),
        Typed::Text(_) => {
            Err(Fault::new(node.at.clone(), "a text is neither true nor false: compare it by == or ~"))
        }
    }
}

fn num(node: &Node, schema: &Schema<'_>) -> Result<Num, Fault> {
    match typed(node, schema)? {
        Typed::Num(num) => Ok(num),
        Typed::Truth(truth) => Ok(Num::Truth(truth.into())),
        Typed::Text(_) => Err(Fault::new(node.at.clone(), "this is a text, where a number is wanted")),
    }
}

fn text(node: &Node, schema: &Schema<'_>, signs: &str) -> Result<Text, Fault> {
    if let Some(field) =
        name(node).and_then(|name| schema.field(name)).filter(|field| is_pointer_to_text(field))
    {
        let why = format!(
            "a record of {} has the text's address alone; only the kernel can look behind it",
            field.name
        );
        return Err(Fault::new(node.at.clone(), why));
    }
    match typed(node, schema)? {
        Typed::Text(text) => Ok(text),
        _ => Err(Fault::new(node.at.clone(), format!("this is a number; {signs} is for texts"))),
    }
}

fn name(node: &Node) -> Option<&str> {
    match &node.what {
        What::Name(name) => Some(name),
        _ => None,
    }
}

fn is_text_like(node: &Node, schema: &Schema<'_>) -> bool {
    match &node.what {
        What::Text(_) => true,
        What::Name(name) => match schema.find(name) {
            Some(Found::Field(field)) => is_text(field),
            Some(Found::Extra(_, kind)) => kind == Kind::Text,
            None => false,
        },
        _ => false,
    }
}

fn typed(node: &Node, schema: &Schema<'_>) -> Result<Typed, Fault> {
    let truths = |nodes: &[Node]| nodes.iter().map(|node| truth(node, schema)).collect::<Result<Vec<_>, _>>();
    Ok(match &node.what {
        What::Or(nodes) => Typed::Truth(Truth::Any(truths(nodes)?)),
        What::And(nodes) => Typed::Truth(Truth::All(truths(nodes)?)),
        What::Not(of) => Typed::Truth(Truth::Not(truth(of, schema)?.into())),
        What::Compare(relation, left, right) => Typed::Truth(compare(*relation, left, right, schema)?),
        What::Glob(of, pattern, is_turned) => {
            let (not, pattern) = match pattern.strip_prefix('!') {
                Some(rest) => (!is_turned, rest),
                None => (*is_turned, pattern.as_str()),
            };
            let found = Truth::Glob(text(of, schema, "~")?, pattern.to_owned());
            Typed::Truth(if not { Truth::Not(found.into()) } else { found })
        }
        What::Regex(of, pattern) => {
            let regex = Regex::new(pattern).map_err(|why| Fault::new(node.at.clone(), why.to_string()))?;
            Typed::Truth(Truth::Regex(text(of, schema, "=~")?, regex))
        }
        What::In(of, items, is_turned) => {
            let found = among(of, items, schema)?;
            Typed::Truth(if *is_turned { Truth::Not(found.into()) } else { found })
        }
        What::Binary(sign, left, right) => {
            Typed::Num(Num::Binary(sign, num(left, schema)?.into(), num(right, schema)?.into()))
        }
        What::Unary(sign, of) => Typed::Num(Num::Unary(sign, num(of, schema)?.into())),
        What::Number(bits) => Typed::Num(Num::Constant((*bits, *bits <= i64::MAX as u64))),
        What::Text(text) => Typed::Text(Text::Constant(text.as_bytes().to_vec())),
        What::Index(of, index) => {
            let field = name(of).and_then(|name| schema.field(name));
            match field {
                Some(field)
                    if matches!(field.kind, FieldKind::Array(_) | FieldKind::Dynamic { text: false, .. }) =>
                {
                    Typed::Num(Num::Element(field.clone(), num(index, schema)?.into()))
                }
                _ => {
                    typed(of, schema)?;
                    return Err(Fault::new(of.at.clone(), "only fields that are arrays have elements"));
                }
            }
        }
        What::Name(name) => named(node, name, schema)?,
    })
}

fn named(node: &Node, name: &str, schema: &Schema<'_>) -> Result<Typed, Fault> {
    match schema.find(name) {
        Some(Found::Field(field)) if is_text(field) => return Ok(Typed::Text(Text::Field(field.clone()))),
        Some(Found::Field(field)) if field.kind == FieldKind::Number && matches!(field.size, 1..=8) => {
            return Ok(Typed::Num(Num::Field(field.clone())));
        }
        Some(Found::Field(field)) => {
            let why = match field.kind {
                FieldKind::Number => {
                    format!("{name} has {} bytes, and no value that could be compared", field.size)
                }
                _ => format!("{name} is an array: its elements are {name}[0], {name}[1], ..."),
            };
            return Err(Fault::new(node.at.clone(), why));
        }
        Some(Found::Extra(place, Kind::Text)) => return Ok(Typed::Text(Text::Extra(place))),
        Some(Found::Extra(place, kind)) => return Ok(Typed::Num(Num::Extra(place, kind == Kind::Signed))),
        None => {}
    }
    if let Some(number) = errno::by_name(name) {
        return Ok(Typed::Num(Num::Constant((number.into(), true))));
    }
    let of_kernel = [".function", ".ustring", ".string"].iter().find(|end| name.ends_with(**end));
    let why = match of_kernel {
        Some(end) => format!("only the kernel can evaluate {end}"),
        None => {
            let near = nearest(name, schema.known().into_iter().filter(|known| *known != name));
            let of = schema.format.map_or_else(String::new, |format| format!(" of {}", format.name));
            let near = match near.len() {
                0 => format!("; there are {}", schema.own().join(", ")),
                _ => format!("; did you mean {}?", near.join(" or ")),
            };
            format!("there is no field{of} '{name}'{near}")
        }
    };
    Err(Fault { at: node.at.clone(), why, is_unknown_name: of_kernel.is_none() })
}

fn compare(relation: Relation, left: &Node, right: &Node, schema: &Schema<'_>) -> Result<Truth, Fault> {
    if is_text_like(left, schema) || is_text_like(right, schema) {
        if !matches!(relation, Relation::Equal | Relation::Unequal) {
            let at = left.at.start..right.at.end;
            return Err(Fault::new(
                at,
                format!("texts are not compared by {}, only by == != ~ =~", relation.sign()),
            ));
        }
        for (one, other) in [(left, right), (right, left)] {
            if let Some(word) =
                name(other).filter(|name| schema.find(name).is_none() && is_text_like(one, schema))
            {
                return Err(Fault::new(
                    other.at.clone(),
                    format!("a text stands in quotation marks: '{word}'"),
                ));
            }
            if let What::Number(_) = other.what {
                return Err(Fault::new(
                    one.at.clone(),
                    "this is a text: compare it with one in quotation marks",
                ));
            }
        }
        return Ok(Truth::Texts(relation, text(left, schema, "this")?, text(right, schema, "this")?));
    }
    let (mut left_num, mut right_num) = (num(left, schema)?, num(right, schema)?);
    cut(&left_num, &mut right_num);
    cut(&right_num, &mut left_num);
    Ok(Truth::Numbers(relation, left_num, right_num))
}

/// The kernel cuts a number to the size of the field that it is compared with; it takes no negative one for an unsigned field.
fn cut(field: &Num, constant: &mut Num) {
    let Num::Field(Field { size, signed, .. }) = field else { return };
    let constant = match constant {
        Num::Constant(number) => number,
        Num::Unary("-", of) => match **of {
            Num::Constant((bits, true)) => {
                *constant = Num::Constant((bits.wrapping_neg(), true));
                return cut(field, constant);
            }
            _ => return,
        },
        _ => return,
    };
    let is_negative = constant.1 && (constant.0 as i64) < 0;
    if *size < 8 && (*signed || !is_negative) {
        *constant = (eval::extend(constant.0, *size, *signed), true);
    }
}

fn among(of: &Node, items: &[Item], schema: &Schema<'_>) -> Result<Truth, Fault> {
    let texts: Option<Vec<String>> = items
        .iter()
        .map(|item| match item {
            Item::Text(text) => Some(text.clone()),
            Item::Numbers(..) => None,
        })
        .collect();
    let mixed = || Fault::new(of.at.clone(), "a set has numbers or texts, as what is looked for in it");
    match (texts, is_text_like(of, schema)) {
        (Some(texts), true) => Ok(Truth::AmongTexts(text(of, schema, "this")?, texts)),
        (None, false) => {
            let of = num(of, schema)?;
            let numbers = items.iter().map(|item| match item {
                Item::Numbers(first, last) => {
                    let number = |(bits, is_negative): (u64, bool)| {
                        let mut constant = Num::Constant((bits, is_negative || bits <= i64::MAX as u64));
                        cut(&of, &mut constant);
                        match constant {
                            Num::Constant(number) => number,
                            _ => (bits, is_negative),
                        }
                    };
                    Some((number(*first), number(*last)))
                }
                Item::Text(_) => None,
            });
            let numbers = numbers.collect::<Option<Vec<_>>>().ok_or_else(mixed)?;
            Ok(Truth::AmongNumbers(of, numbers))
        }
        _ => {
            typed(of, schema)?;
            Err(mixed())
        }
    }
}

/// A number as what it is, whatever its sign.
fn whole((bits, signed): Number) -> i128 {
    if signed { i128::from(bits as i64) } else { i128::from(bits) }
}

fn order(a: Number, b: Number) -> Ordering {
    whole(a).cmp(&whole(b))
}

impl BoundValue {
    /// Its value in a record; nothing where there is none.
    pub fn value(&self, record: &dyn Record) -> Option<Value> {
        match &self.0 {
            Typed::Num(num) => num.value(record).map(|number| Value::Number(whole(number))),
            Typed::Truth(truth) => Some(Value::Number(truth.holds(record).into())),
            Typed::Text(text) => text.value(record).map(|text| Value::Text(text.into_owned())),
        }
    }
}

impl Bound {
    /// Whether the record is one of those that the expression means.
    pub fn admits(&self, record: &dyn Record) -> bool {
        self.0.holds(record)
    }
}

impl Truth {
    fn holds(&self, record: &dyn Record) -> bool {
        match self {
            Truth::Any(truths) => truths.iter().any(|truth| truth.holds(record)),
            Truth::All(truths) => truths.iter().all(|truth| truth.holds(record)),
            Truth::Not(truth) => !truth.holds(record),
            Truth::NotZero(num) => num.value(record).is_some_and(|(bits, _)| bits != 0),
            Truth::Numbers(relation, left, right) => {
                let values = left.value(record).zip(right.value(record));
                values.is_some_and(|(left, right)| relation.holds(order(left, right)))
            }
            Truth::Texts(relation, left, right) => {
                let texts = left.value(record).zip(right.value(record));
                texts.is_some_and(|(left, right)| (left == right) == (*relation == Relation::Equal))
            }
            Truth::Glob(text, pattern) => {
                text.value(record).is_some_and(|text| glob(pattern.as_bytes(), &text))
            }
            Truth::Regex(text, regex) => {
                text.value(record).is_some_and(|text| regex.is_match(&String::from_utf8_lossy(&text)))
            }
            Truth::AmongNumbers(num, ranges) => num.value(record).is_some_and(|number| {
                ranges
                    .iter()
                    .any(|(first, last)| order(*first, number).is_le() && order(number, *last).is_le())
            }),
            Truth::AmongTexts(text, texts) => {
                text.value(record).is_some_and(|text| texts.iter().any(|known| known.as_bytes() == &*text))
            }
        }
    }
}

impl Num {
    fn value(&self, record: &dyn Record) -> Option<Number> {
        match self {
            Num::Constant(number) => Some(*number),
            Num::Field(field) => {
                let bits = eval::number(field, record.data(), record.order())?;
                Some((bits, field.signed || field.size < 8))
            }
            Num::Element(field, index) => {
                let (at, at_signed) = index.value(record)?;
                let (FieldKind::Array(size) | FieldKind::Dynamic { element: size, .. }) = field.kind else {
                    return None;
                };
                let start = usize::try_from(at)
                    .ok()
                    .filter(|_| !at_signed || at <= i64::MAX as u64)?
                    .checked_mul(size)?;
                let content = eval::bytes(field, record.data(), record.order())?;
                let item = content.get(start..start.checked_add(size)?)?;
                Some((
                    eval::extend(eval::load(item, record.order()), size, field.signed),
                    field.signed || size < 8,
                ))
            }
            Num::Extra(place, signed) => Some((record.number(*place)?, *signed)),
            Num::Binary(sign, left, right) => {
                eval::arithmetic(sign, left.value(record)?, right.value(record)?)
            }
            Num::Unary(sign, of) => {
                let (bits, signed) = of.value(record)?;
                Some(if *sign == "-" { (bits.wrapping_neg(), true) } else { (!bits, signed) })
            }
            Num::Truth(truth) => Some((truth.holds(record).into(), true)),
        }
    }
}

impl Text {
    /// Up to a NUL, as the kernel compares.
    fn value<'r>(&'r self, record: &'r dyn Record) -> Option<Cow<'r, [u8]>> {
        match self {
            Text::Constant(bytes) => Some(bytes.into()),
            Text::Field(field) => {
                Some(eval::until_nul(eval::bytes(field, record.data(), record.order())?).into())
            }
            Text::Extra(place) => record.text(*place),
        }
    }
}
