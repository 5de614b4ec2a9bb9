//! The language of filters: which records count, in one line.
//!
//! ```text
//! expr    := and ('||' and)*                 and   := not ('&&' not)*
//! not     := '!' not | test                  a '!' turns the whole test around, as ftrace has it
//! test    := value [('==' | '!=' | '<' | '<=' | '>' | '>=') value]
//!          | value ('~' | '!~') TEXT         a pattern with * ? [a-z]
//!          | value ('=~') TEXT               a regular expression
//!          | value ['not'] 'in' '{' item (',' item)* '}'       item := TEXT | number ['..' number]
//! value   := numbers and fields with | ^ & << >> + - * / % and the signs - ~, from the loosest to the tightest
//! field   := NAME | NAME '[' value ']'
//! number  := 7 | 0x1f | 017 | 5ns | 5us | 5ms | 5s | ENOENT
//! TEXT    := 'text' | "text"                 as it stands: there are no escapes
//! ```
//!
//! What ftrace takes means here what it means there: fields of the record go before those of the sample, a number is cut to the
//! size of the field that it is compared with, and `flags & 4` holds where the bit is set. Numbers have 64 bits; numbers of which
//! one is signed are compared as what they are, not as C does. Where there is no value (data that is too short, a division by
//! zero), a test does not hold.

mod bind;
mod error;
mod kernel;
mod parse;
#[cfg(test)]
mod tests;
mod text;

pub use bind::{Bound, BoundValue, Extra, Kind, NoExtras, RawRecord, Record, Schema, Value};
pub use error::ExprError;
pub use kernel::KernelPart;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A place in the text.
pub(crate) type Span = Range<usize>;

/// An expression as it was written: what its names are is asked later, by [`bind`](Expr::bind).
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    text: String,
    root: Node,
}

/// A node and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Span,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Or(Vec<Node>),
    And(Vec<Node>),
    Not(Box<Node>),
    Compare(Relation, Box<Node>, Box<Node>),
    /// A pattern, and whether it must not match.
    Glob(Box<Node>, String, bool),
    Regex(Box<Node>, String),
    In(Box<Node>, Vec<Item>, bool),
    Binary(&'static str, Box<Node>, Box<Node>),
    Unary(&'static str, Box<Node>),
    Index(Box<Node>, Box<Node>),
    Name(String),
    Number(u64),
    Text(String),
}

/// A member of a set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Text(String),
    /// From one number to another, both among them; each by its bits, and whether it is negative.
    Numbers((u64, bool), (u64, bool)),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Relation {
    pub(crate) const ALL: [(&'static str, Relation); 6] = [
        ("==", Relation::Equal),
        ("!=", Relation::Unequal),
        ("<=", Relation::AtMost),
        (">=", Relation::AtLeast),
        ("<", Relation::Less),
        (">", Relation::More),
    ];

    pub(crate) fn sign(self) -> &'static str {
        Relation::ALL.iter().find(|(_, relation)| *relation == self).map_or("", |(sign, _)| sign)
    }

    /// The same with the sides changed.
    pub(crate) fn turned(self) -> Self {
        match self {
            Relation::Less => Relation::More,
            Relation::More => Relation::Less,
            Relation::AtMost => Relation::AtLeast,
            Relation::AtLeast => Relation::AtMost,
            same => same,
        }
    }

    pub(crate) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Relation::Equal => order.is_eq(),
            Relation::Unequal => order.is_ne(),
            Relation::Less => order.is_lt(),
            Relation::AtMost => order.is_le(),
            Relation::More => order.is_gt(),
            Relation::AtLeast => order.is_ge(),
        }
    }
}

impl Expr {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Finds out what its names are in records of one kind, and whether it makes sense of them.
    ///
    /// # Errors
    ///
    /// A field is not there ([`ExprError::is_unknown_name`]), or is of another kind than what it is compared with.
    pub fn bind(&self, schema: &Schema<'_>) -> Result<Bound, ExprError> {
        bind::bind(&self.root, schema).map_err(|fault| fault.of(&self.text))
    }

    /// The same for an expression of which the value is asked, not whether it holds: a key, or what is summed up.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn bind_value(&self, schema: &Schema<'_>) -> Result<BoundValue, ExprError> {
        bind::bind_value(&self.root, schema).map_err(|fault| fault.of(&self.text))
    }

    /// What of it the kernel can do itself at a tracepoint of this format, in ftrace's words.
    pub fn kernel_part(&self, schema: &Schema<'_>) -> KernelPart {
        kernel::part(self, schema)
    }

    /// Whether ftrace takes it for a filter at a tracepoint of this format: fields that are compared with a number or a text.
    pub fn is_ftraces(&self, schema: &Schema<'_>) -> bool {
        let has_own_words = self.names().iter().any(|name| name.starts_with("sample."));
        !has_own_words && kernel::is_ftraces(&self.root, schema)
    }

    /// The names of all fields in it.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        collect(&self.root, &mut names);
        names
    }
}

fn collect<'n>(node: &'n Node, names: &mut Vec<&'n str>) {
    match &node.what {
        What::Or(nodes) | What::And(nodes) => nodes.iter().for_each(|node| collect(node, names)),
        What::Not(node) | What::Unary(_, node) => collect(node, names),
        What::Glob(node, ..) | What::Regex(node, _) | What::In(node, ..) => collect(node, names),
        What::Compare(_, left, right) | What::Binary(_, left, right) | What::Index(left, right) => {
            collect(left, names);
            collect(right, names);
        }
        What::Name(name) => names.push(name),
        What::Number(_) | What::Text(_) => {}
    }
}

impl FromStr for Expr {
    type Err = ExprError;

    fn from_str(text: &str) -> Result<Self, ExprError> {
        let root = parse::parse(text).map_err(|fault| fault.of(text))?;
        Ok(Expr { text: text.to_owned(), root })
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
