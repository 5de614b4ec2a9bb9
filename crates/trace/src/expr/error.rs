//! Faults of expressions, with their places.

use super::Span;
use std::fmt;

/// An expression that makes no sense. `Display` is one line; [`explain`](Self::explain) shows the place, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError {
    text: String,
    at: Span,
    why: String,
    is_unknown_name: bool,
}

/// The fault without the text that has it.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) at: Span,
    pub(crate) why: String,
    pub(crate) is_unknown_name: bool,
}

impl Fault {
    pub(crate) fn new(at: Span, why: impl Into<String>) -> Self {
        Fault { at, why: why.into(), is_unknown_name: false }
    }

    pub(crate) fn of(self, text: &str) -> ExprError {
        ExprError { text: text.to_owned(), at: self.at, why: self.why, is_unknown_name: self.is_unknown_name }
    }
}

impl ExprError {
    /// Whether all that is wrong is a field that these records do not have; others may have it.
    pub fn is_unknown_name(&self) -> bool {
        self.is_unknown_name
    }

    /// The fault without its place.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Three lines: the fault, the text, and a mark below the place.
    pub fn explain(&self) -> String {
        let before = self.text[..self.at.start].chars().count();
        let marks = self.text[self.at.clone()].chars().count().max(1);
        // A mark stands below its place only if each character has a column of its own.
        let shown: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("{}\n  {shown}\n  {}{}", self.why, " ".repeat(before), "^".repeat(marks))
    }
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.text[..self.at.start].chars().count() + 1;
        write!(f, "'{}', column {column}: {}", self.text, self.why)
    }
}

impl std::error::Error for ExprError {}
