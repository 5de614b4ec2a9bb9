//! Text to tree. Filters come from recordings and strangers' command lines, too: nothing is deep, nothing is long.

use super::error::Fault;
use super::{Item, Node, Relation, Span, What};
use crate::errno;

/// Longer texts are refused; the kernel takes a page.
const LONGEST: usize = 64 << 10;

/// Parentheses and signs may be nested so deep.
const DEPTH: u32 = 64;

/// An expression has so many operators of arithmetic: each puts what is before it a step deeper.
const OPERATORS: u32 = 128;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(u64),
    Text(String),
    Name(String),
    Sign(&'static str),
}

/// Longest first, so that the first that fits is meant.
const SIGNS: [&str; 31] = [
    "<<", ">>", "<=", ">=", "==", "!=", "=~", "!~", "&&", "||", "..", "(", ")", "[", "]", "{", "}", ",", "+",
    "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", "=",
];

/// Operators of numbers, from the loosest to the tightest.
const LEVELS: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "%"]];

pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    if text.len() > LONGEST {
        return Err(Fault::new(0..0, format!("an expression has {LONGEST} bytes at most")));
    }
    let tokens = words(text)?;
    let mut parser = Parser { tokens: &tokens, end: text.len(), depth: 0, operators: 0 };
    let root = parser.any()?;
    match parser.tokens.first() {
        None => Ok(root),
        Some((Token::Sign("="), at)) => Err(Fault::new(at.clone(), "equality is ==")),
        Some((Token::Sign(sign), at)) if Relation::ALL.iter().any(|(known, _)| known == sign) => {
            Err(Fault::new(at.clone(), "a comparison has two sides; join two of them by &&"))
        }
        Some((Token::Name(word), at)) if word == "and" || word == "or" => {
            let sign = if word == "and" { "&&" } else { "||" };
            Err(Fault::new(at.clone(), format!("{word} is written {sign}")))
        }
        Some((_, at)) => Err(Fault::new(at.clone(), "expected an operator such as ==, <, ~, in, && or ||")),
    }
}

fn words(text: &str) -> Result<Vec<(Token, Span)>, Fault> {
    let (mut at, mut tokens) = (0, Vec::new());
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let (token, length) = if first == '\'' || first == '"' {
            let Some(end) = rest[1..].find(first) else {
                return Err(Fault::new(at..text.len(), "the quotation mark is never closed"));
            };
            (Token::Text(rest[1..=end].to_owned()), end + 2)
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let why = "no number of 64 bits: 7, 0x1f, 017, or a time such as 5ms";
            (Token::Number(number(&rest[..end]).ok_or_else(|| Fault::new(at..at + end, why))?), end)
        } else if first.is_alphabetic() || first == '_' {
            let is_in = |c: char| c.is_alphanumeric() || c == '_';
            let mut end = rest.find(|c| !is_in(c)).unwrap_or(rest.len());
            // `sample.cpu`, `call_site.function`.
            while rest[end..].starts_with('.') && rest[end + 1..].starts_with(is_in) {
                end += 1 + rest[end + 1..].find(|c| !is_in(c)).unwrap_or(rest.len() - end - 1);
            }
            (Token::Name(rest[..end].to_owned()), end)
        } else {
            let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) else {
                return Err(Fault::new(at..at + first.len_utf8(), format!("'{first}' means nothing here")));
            };
            (Token::Sign(sign), sign.len())
        };
        tokens.push((token, at..at + length));
        at += length;
    }
}

/// As `kstrtoull(9)` reads it with base 0; with a unit, a time in nanoseconds.
fn number(word: &str) -> Option<u64> {
    if let Some(hex) = word.strip_prefix("0x").or(word.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    let digits = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let (digits, unit) = word.split_at(digits);
    let scale = match unit {
        "" if digits.len() > 1 && digits.starts_with('0') => return u64::from_str_radix(digits, 8).ok(),
        "" | "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

struct Parser<'t> {
    tokens: &'t [(Token, Span)],
    end: usize,
    depth: u32,
    operators: u32,
}

impl Parser<'_> {
    fn here(&self) -> Span {
        self.tokens.first().map_or(self.end..self.end, |(_, at)| at.clone())
    }

    fn sign(&mut self, wanted: &str) -> bool {
        let found = matches!(self.tokens.first(), Some((Token::Sign(sign), _)) if *sign == wanted);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    fn word(&mut self, wanted: &str) -> bool {
        let found = matches!(self.tokens.first(), Some((Token::Name(name), _)) if name == wanted);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    fn expect(&mut self, wanted: &str) -> Result<(), Fault> {
        let here = self.here();
        if self.sign(wanted) { Ok(()) } else { Err(Fault::new(here, format!("expected '{wanted}'"))) }
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        let here = self.here();
        (self.depth <= DEPTH).then_some(()).ok_or_else(|| Fault::new(here, "this is nested too deep"))
    }

    fn text(&mut self, of: &str) -> Result<String, Fault> {
        let here = self.here();
        match self.tokens.split_first() {
            Some(((Token::Text(text), _), rest)) => {
                self.tokens = rest;
                Ok(text.clone())
            }
            _ => Err(Fault::new(here, format!("expected {of} in quotation marks"))),
        }
    }

    fn any(&mut self) -> Result<Node, Fault> {
        self.deeper()?;
        let node = self.list("||", &mut |parser| parser.list("&&", &mut Self::not, What::And), What::Or);
        self.depth -= 1;
        node
    }

    fn list(
        &mut self,
        sign: &str,
        each: &mut dyn FnMut(&mut Self) -> Result<Node, Fault>,
        make: fn(Vec<Node>) -> What,
    ) -> Result<Node, Fault> {
        let first = each(self)?;
        if !matches!(self.tokens.first(), Some((Token::Sign(next), _)) if *next == sign) {
            return Ok(first);
        }
        let mut nodes = vec![first];
        while self.sign(sign) {
            nodes.push(each(self)?);
        }
        let at = nodes[0].at.start..nodes[nodes.len() - 1].at.end;
        Ok(Node { at, what: make(nodes) })
    }

    fn not(&mut self) -> Result<Node, Fault> {
        let start = self.here().start;
        if !self.sign("!") {
            return self.test();
        }
        self.deeper()?;
        let of = self.not()?;
        self.depth -= 1;
        Ok(Node { at: start..of.at.end, what: What::Not(Box::new(of)) })
    }

    fn test(&mut self) -> Result<Node, Fault> {
        let left = self.value(0)?;
        let start = left.at.start;
        if let Some((Token::Sign(sign), _)) = self.tokens.first() {
            if let Some(&(_, relation)) = Relation::ALL.iter().find(|(known, _)| known == sign) {
                self.tokens = &self.tokens[1..];
                let right = self.value(0)?;
                let at = start..right.at.end;
                return Ok(Node { at, what: What::Compare(relation, left.into(), right.into()) });
            }
        }
        let what = if self.sign("~") {
            What::Glob(left.into(), self.text("a pattern such as '*.conf'")?, false)
        } else if self.sign("!~") {
            What::Glob(left.into(), self.text("a pattern such as '*.conf'")?, true)
        } else if self.sign("=~") {
            What::Regex(left.into(), self.text("a regular expression")?)
        } else if self.word("not") {
            let here = self.here();
            if !self.word("in") {
                return Err(Fault::new(here, "expected in"));
            }
            What::In(left.into(), self.set()?, true)
        } else if self.word("in") {
            What::In(left.into(), self.set()?, false)
        } else {
            return Ok(left);
        };
        let end = self.end - self.tokens.first().map_or(0, |(_, at)| self.end - at.start);
        Ok(Node { at: start..end, what })
    }

    fn set(&mut self) -> Result<Vec<Item>, Fault> {
        let here = self.here();
        let Some(end) = [("{", "}"), ("(", ")"), ("[", "]")].into_iter().find(|(open, _)| self.sign(open))
        else {
            return Err(Fault::new(here, "expected a set such as {1, 4..7} or {'a', 'b'}"));
        };
        let mut items = Vec::new();
        loop {
            items.push(match self.tokens.first() {
                Some((Token::Text(_), _)) => Item::Text(self.text("a text")?),
                _ => {
                    let first = self.bound()?;
                    let last = if self.sign("..") { self.bound()? } else { first };
                    Item::Numbers(first, last)
                }
            });
            if !self.sign(",") {
                break;
            }
        }
        self.expect(end.1)?;
        Ok(items)
    }

    /// An end of a range: its bits, and whether it is negative.
    fn bound(&mut self) -> Result<(u64, bool), Fault> {
        let is_negative = self.sign("-");
        let here = self.here();
        match self.tokens.split_first() {
            Some(((token, _), rest)) => {
                let bits = match token {
                    Token::Number(bits) => Some(*bits),
                    Token::Name(name) => errno::by_name(name).map(u64::from),
                    _ => None,
                };
                let bits = bits.ok_or_else(|| Fault::new(here, "a set has numbers and texts"))?;
                self.tokens = rest;
                Ok(if is_negative { (bits.wrapping_neg(), bits != 0) } else { (bits, false) })
            }
            None => Err(Fault::new(here, "a set has numbers and texts")),
        }
    }

    /// Operators of this level and tighter ones.
    fn value(&mut self, level: usize) -> Result<Node, Fault> {
        if level == LEVELS.len() {
            return self.unary();
        }
        let mut left = self.value(level + 1)?;
        while let Some(sign) = LEVELS[level].iter().copied().find(|sign| self.sign(sign)) {
            self.operators += 1;
            if self.operators > OPERATORS {
                return Err(Fault::new(left.at, "this has too many operators"));
            }
            let right = self.value(level + 1)?;
            let at = left.at.start..right.at.end;
            left = Node { at, what: What::Binary(sign, left.into(), right.into()) };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, Fault> {
        let start = self.here().start;
        let Some(sign) = ["-", "~"].into_iter().find(|sign| self.sign(sign)) else { return self.postfix() };
        self.deeper()?;
        let of = self.unary()?;
        self.depth -= 1;
        Ok(Node { at: start..of.at.end, what: What::Unary(sign, of.into()) })
    }

    fn postfix(&mut self) -> Result<Node, Fault> {
        let mut node = self.primary()?;
        if self.sign("[") {
            self.deeper()?;
            let index = self.value(0)?;
            self.depth -= 1;
            let end = self.here().end;
            self.expect("]")?;
            node = Node { at: node.at.start..end, what: What::Index(node.into(), index.into()) };
        }
        Ok(node)
    }

    fn primary(&mut self) -> Result<Node, Fault> {
        let at = self.here();
        let what = match self.tokens.first() {
            Some((Token::Sign("("), _)) => {
                self.tokens = &self.tokens[1..];
                let inner = self.any()?;
                let end = self.here().end;
                self.expect(")")?;
                return Ok(Node { at: at.start..end, what: inner.what });
            }
            Some((Token::Number(bits), _)) => What::Number(*bits),
            Some((Token::Text(text), _)) => What::Text(text.clone()),
            Some((Token::Name(name), _)) => What::Name(name.clone()),
            Some((Token::Sign(sign), _)) => {
                let why = format!("expected a field, a number or a text, not '{sign}'");
                return Err(Fault::new(at, why));
            }
            None => return Err(Fault::new(at, "expected a field, a number or a text")),
        };
        self.tokens = &self.tokens[1..];
        Ok(Node { at, what })
    }
}
