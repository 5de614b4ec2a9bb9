//! Reading the definition of a metric: words and signs, then one function per rule of the grammar.

use super::expression::{Expression, Function, Operator};
use crate::tree::Span;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Why a text defines nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// Where, in bytes.
    pub at: Span,
    /// The expected text.
    pub expected: &'static str,
    /// The text that stands there; empty at the end.
    pub found: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.at.start + 1;
        match self.found.is_empty() {
            true => write!(f, "column {column}: {} is missing at the end", self.expected),
            false => write!(f, "column {column}: expected {}, found '{}'", self.expected, self.found),
        }
    }
}

impl core::error::Error for ExpressionError {}

/// Parentheses and conditions within each other; vendors have fewer than 20.
const DEPTH: usize = 32;

/// Words and signs; vendors have fewer than 500.
const TOKENS: usize = 1000;

/// Letters and signs of a name that need no backslash.
pub(super) fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':')
}

/// The bytes of the number at the start of a text: `12`, `1.5`, `.5`, `1e-6`.
pub(super) fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(0);
    let mut length = whole;
    if bytes.get(whole) == Some(&b'.') {
        let fraction = digits(whole + 1);
        if whole + fraction == 0 {
            return 0;
        }
        length += 1 + fraction;
    }
    if length > 0 && matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'-' | b'+')));
        match bytes.get(length + 1 + sign..).map_or(0, |_| digits(length + 1 + sign)) {
            0 => {}
            exponent => length += 1 + sign + exponent,
        }
    }
    length
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    /// A name, with what its escapes stand for.
    Name(String),
    Literal(String),
    Sign(char),
}

type Parsed<T> = Result<T, ExpressionError>;

fn tokens(text: &str) -> Vec<(Token, Span)> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while let Some(first) = text[start..].chars().next() {
        let rest = &text[start..];
        let (token, length) = match first {
            c if c.is_whitespace() => {
                start += c.len_utf8();
                continue;
            }
            '#' => {
                let length = rest[1..].bytes().take_while(|b| is_plain(char::from(*b)) || *b == b'-').count();
                (Token::Literal(rest[1..=length].into()), length + 1)
            }
            c if is_plain(c) || c == '\\' || c == '@' || c == '?' => word(rest),
            c => (Token::Sign(c), c.len_utf8()),
        };
        tokens.push((token, Span { start, end: start + length }));
        start += length;
    }
    tokens
}

/// A number or a name, whichever is longer.
fn word(text: &str) -> (Token, usize) {
    let mut name = String::new();
    let mut length = 0;
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        match c {
            '\\' => match letters.next() {
                Some(escaped) => {
                    name.push(escaped);
                    length += 1 + escaped.len_utf8();
                }
                None => break,
            },
            '@' => {
                name.push('/');
                length += 1;
            }
            c if is_plain(c) || c == '?' => {
                name.push(c);
                length += 1;
            }
            _ => break,
        }
    }
    let digits = number_length(text);
    match text[..digits].parse::<f64>() {
        Ok(number) if digits >= length && number.is_finite() => (Token::Number(number), digits),
        // A backslash at the very end stands for nothing.
        _ if length == 0 => (Token::Sign('\\'), 1),
        _ => (Token::Name(name), length),
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;

    /// Reads a definition as perf's tables write it.
    fn from_str(text: &str) -> Parsed<Self> {
        let tokens = tokens(text);
        let mut parser = Parser { text, tokens: &tokens, depth: 0 };
        if tokens.len() > TOKENS {
            parser.tokens = &tokens[TOKENS..];
            return Err(parser.wrong("the end of so long a definition"));
        }
        let expression = parser.condition()?;
        match parser.tokens {
            [] => Ok(expression),
            _ => Err(parser.wrong("an operator or the end")),
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: &'t [(Token, Span)],
    depth: usize,
}

impl Parser<'_> {
    /// `a if b else c`, where c may be one again, or what needs no condition.
    fn condition(&mut self) -> Parsed<Expression> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.wrong("fewer parentheses within each other"));
        }
        let mut parts = Vec::new();
        let last = loop {
            let value = self.binary(1)?;
            if !self.takes_word("if") {
                break value;
            }
            let condition = self.binary(1)?;
            if !self.takes_word("else") {
                return Err(self.wrong("else"));
            }
            parts.push((value, condition));
        };
        self.depth -= 1;
        let nest = |otherwise, (value, condition)| Expression::If(Box::new((value, condition, otherwise)));
        Ok(parts.into_iter().rev().fold(last, nest))
    }

    /// Operators that bind at least as tightly as `level`.
    fn binary(&mut self, level: u8) -> Parsed<Expression> {
        let mut left = self.unary()?;
        loop {
            let Some((Token::Sign(sign), _)) = self.tokens.first() else { return Ok(left) };
            let operator = Operator::ALL.iter().find(|(_, own, _)| own == sign);
            let Some(&(operator, _, binds)) = operator.filter(|(_, _, binds)| *binds >= level) else {
                return Ok(left);
            };
            self.tokens = &self.tokens[1..];
            let right = self.binary(binds + 1)?;
            left = Expression::Binary(operator, Box::new((left, right)));
        }
    }

    fn unary(&mut self) -> Parsed<Expression> {
        let mut signs = 0;
        while self.takes_sign('-') {
            signs += 1;
            if signs > DEPTH {
                return Err(self.wrong("fewer signs"));
            }
        }
        let value = self.primary()?;
        Ok((0..signs).fold(value, |of, _| Expression::Negative(Box::new(of))))
    }

    fn primary(&mut self) -> Parsed<Expression> {
        const WHAT: &str = "an event, a metric, a number or '('";
        if self.takes_sign('(') {
            let inner = self.condition()?;
            self.sign(')', "')'")?;
            return Ok(inner);
        }
        let Some((token, _)) = self.tokens.first() else { return Err(self.wrong(WHAT)) };
        let token = token.clone();
        let called = matches!(self.tokens.get(1), Some((Token::Sign('('), _)));
        let expression = match token {
            Token::Number(number) => Expression::Number(number),
            Token::Literal(name) if !name.is_empty() => Expression::Literal(name),
            Token::Name(name) if called => return self.call(&name),
            Token::Name(name) if !["if", "else"].contains(&name.as_str()) => Expression::Name(name),
            _ => return Err(self.wrong(WHAT)),
        };
        self.tokens = &self.tokens[1..];
        Ok(expression)
    }

    fn call(&mut self, name: &str) -> Parsed<Expression> {
        let of_two = Function::ALL.iter().find(|(own, _)| *own == name).map(|&(_, function)| function);
        let of_name: Option<fn(String) -> Expression> = match name {
            "has_event" => Some(Expression::HasEvent),
            "source_count" => Some(Expression::SourceCount),
            "strcmp_cpuid_str" => Some(Expression::IsCpu),
            _ => None,
        };
        if of_two.is_none() && of_name.is_none() {
            return Err(
                self.wrong("min, max, d_ratio, has_event, source_count or strcmp_cpuid_str before '('")
            );
        }
        self.tokens = &self.tokens[1..];
        self.sign('(', "'('")?;
        let expression = match (of_two, of_name) {
            (Some(function), _) => {
                let first = self.condition()?;
                self.sign(',', "','")?;
                Expression::Call(function, Box::new((first, self.condition()?)))
            }
            (None, Some(make)) => match self.tokens {
                [(Token::Name(name), _), rest @ ..] => {
                    self.tokens = rest;
                    make(name.clone())
                }
                _ => return Err(self.wrong("a name")),
            },
            (None, None) => return Err(self.wrong("a function")),
        };
        self.sign(')', "')'")?;
        Ok(expression)
    }

    fn takes_sign(&mut self, sign: char) -> bool {
        let is = matches!(self.tokens.first(), Some((Token::Sign(own), _)) if *own == sign);
        if is {
            self.tokens = &self.tokens[1..];
        }
        is
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is = matches!(self.tokens.first(), Some((Token::Name(own), _)) if own == word);
        if is {
            self.tokens = &self.tokens[1..];
        }
        is
    }

    fn sign(&mut self, sign: char, what: &'static str) -> Parsed<()> {
        if self.takes_sign(sign) { Ok(()) } else { Err(self.wrong(what)) }
    }

    fn wrong(&self, expected: &'static str) -> ExpressionError {
        let end = self.text.len();
        let at = self.tokens.first().map_or(Span { start: end, end }, |(_, at)| *at);
        ExpressionError { at, expected, found: self.text[at.start..at.end].into() }
    }
}
