//! The expressions of a `print fmt` as trees.

use super::Field;
use super::lexer::{Token, words};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Expressions may be nested so deep.
const DEPTH: u32 = 192;

#[derive(Clone, Debug)]
pub(super) enum Expr {
    Number(u64),
    Text(String),
    /// By its index.
    Field(usize),
    Index(Box<Expr>, Box<Expr>),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    Cast(Cast, Box<Expr>),
    Flags {
        value: Box<Expr>,
        between: String,
        names: Vec<(Expr, String)>,
    },
    Symbolic {
        value: Box<Expr>,
        names: Vec<(Expr, String)>,
    },
    /// `__get_str` and its like: what a dynamic field refers to.
    Dynamic(usize),
    DynamicLen(usize),
    Bitmask(usize),
    /// Bytes in hexadecimal, and whether spaces are between them.
    Hex {
        bytes: Box<Expr>,
        len: Box<Expr>,
        spaced: bool,
    },
    Array {
        bytes: Box<Expr>,
        count: Box<Expr>,
        size: Box<Expr>,
    },
}

/// What a cast makes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cast {
    pub(super) bytes: u8,
    pub(super) signed: bool,
}

/// A whole `print fmt`.
#[derive(Clone, Debug)]
pub(super) struct Print {
    pub(super) format: String,
    pub(super) arguments: Vec<Expr>,
}

impl Print {
    /// `None` if there is something in it that is not known.
    pub(super) fn parse(text: &str, fields: &[Field]) -> Option<Self> {
        let tokens = words(text)?;
        let mut parser = Parser { tokens: &tokens, fields, depth: 0, in_list: false };
        let format = parser.texts()?;
        let mut arguments = Vec::new();
        while parser.sign(",") {
            arguments.push(parser.expression()?);
        }
        parser.tokens.is_empty().then_some(Print { format, arguments })
    }
}

struct Parser<'t> {
    tokens: &'t [Token],
    fields: &'t [Field],
    depth: u32,
    /// Whether this is the value of a name.
    in_list: bool,
}

/// The operators from the loosest to the tightest.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Parser<'_> {
    fn next(&mut self) -> Option<&Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn sign(&mut self, wanted: &str) -> bool {
        let found = matches!(self.tokens.first(), Some(Token::Sign(sign)) if *sign == wanted);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    fn expect(&mut self, wanted: &str) -> Option<()> {
        self.sign(wanted).then_some(())
    }

    /// A string, or several after each other.
    fn texts(&mut self) -> Option<String> {
        let mut text = match self.next()? {
            Token::Text(text) => text.clone(),
            _ => return None,
        };
        while let Some(Token::Text(more)) = self.tokens.first() {
            text.push_str(more);
            self.tokens = &self.tokens[1..];
        }
        Some(text)
    }

    fn boxed(&mut self) -> Option<Box<Expr>> {
        self.expression().map(Box::new)
    }

    fn expression(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let condition = self.binary(0)?;
        let result = if self.sign("?") {
            let yes = self.boxed()?;
            self.expect(":")?;
            Some(Expr::Choice(Box::new(condition), yes, self.boxed()?))
        } else {
            Some(condition)
        };
        self.depth -= 1;
        result
    }

    /// Operators of this level and tighter ones.
    fn binary(&mut self, level: usize) -> Option<Expr> {
        let mut left = self.unary()?;
        while let Some((found, sign)) = self.operator(level) {
            left = Expr::Binary(sign, Box::new(left), Box::new(self.binary(found + 1)?));
        }
        Some(left)
    }

    fn operator(&mut self, level: usize) -> Option<(usize, &'static str)> {
        let Some(Token::Sign(next)) = self.tokens.first() else { return None };
        let found = (level..LEVELS.len()).find(|&level| LEVELS[level].contains(next))?;
        let sign = *next;
        self.tokens = &self.tokens[1..];
        Some((found, sign))
    }

    fn unary(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let sign = ["-", "~", "!", "+"].into_iter().find(|sign| self.sign(sign));
        let result = match sign {
            Some(sign) => Expr::Unary(sign, Box::new(self.unary()?)),
            None => match self.cast() {
                Some(Some(cast)) => Expr::Cast(cast, Box::new(self.unary()?)),
                Some(None) => self.unary()?,
                None => self.postfix()?,
            },
        };
        self.depth -= 1;
        Some(result)
    }

    /// `(type)`, if that comes next; of a pointer, nothing is changed.
    fn cast(&mut self) -> Option<Option<Cast>> {
        let Some(Token::Sign("(")) = self.tokens.first() else { return None };
        let end = self.tokens.iter().position(|token| *token == Token::Sign(")"))?;
        let inner = &self.tokens[1..end];
        let (mut names, mut pointer) = (Vec::new(), false);
        for token in inner {
            match token {
                Token::Name(name) => names.push(name.as_str()),
                Token::Sign("*") => pointer = true,
                _ => return None,
            }
        }
        let cast = cast_to(&names)?;
        self.tokens = &self.tokens[end + 1..];
        Some((!pointer).then_some(cast))
    }

    fn postfix(&mut self) -> Option<Expr> {
        let mut left = match self.next()?.clone() {
            Token::Number(number) => Expr::Number(number),
            Token::Text(mut text) => {
                while let Some(Token::Text(more)) = self.tokens.first() {
                    text.push_str(more);
                    self.tokens = &self.tokens[1..];
                }
                Expr::Text(text)
            }
            Token::Sign("(") if matches!(self.tokens, [Token::Name(name), Token::Sign(")"), ..] if name == "REC") =>
            {
                self.tokens = &self.tokens[2..];
                self.expect("->")?;
                Expr::Field(self.field()?)
            }
            Token::Sign("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                inner
            }
            Token::Name(name) if name == "REC" => {
                self.expect("->")?;
                Expr::Field(self.field()?)
            }
            Token::Name(name) if self.tokens.first() != Some(&Token::Sign("(")) => {
                constant(&name, self.in_list)
            }
            Token::Name(name) => self.call(&name)?,
            Token::Sign(_) => return None,
        };
        while self.sign("[") {
            let index = self.boxed()?;
            self.expect("]")?;
            left = Expr::Index(Box::new(left), index);
        }
        Some(left)
    }

    fn field(&mut self) -> Option<usize> {
        let fields = self.fields;
        let Token::Name(name) = self.next()? else { return None };
        fields.iter().position(|field| field.name == *name)
    }

    fn call(&mut self, name: &str) -> Option<Expr> {
        self.expect("(")?;
        let expr = match name {
            "__get_str" | "__get_rel_str" | "__get_dynamic_array" | "__get_rel_dynamic_array" => {
                Expr::Dynamic(self.field()?)
            }
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => Expr::DynamicLen(self.field()?),
            "__get_bitmask" | "__get_rel_bitmask" | "__get_cpumask" | "__get_rel_cpumask" => {
                Expr::Bitmask(self.field()?)
            }
            "__print_flags" | "__print_flags_u64" => {
                let value = self.boxed()?;
                self.expect(",")?;
                let between = self.texts()?;
                Expr::Flags { value, between, names: self.names()? }
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                let value = self.boxed()?;
                Expr::Symbolic { value, names: self.names()? }
            }
            "__print_hex" | "__print_hex_str" => {
                let bytes = self.boxed()?;
                self.expect(",")?;
                Expr::Hex { bytes, len: self.boxed()?, spaced: name == "__print_hex" }
            }
            "__print_array" => {
                let bytes = self.boxed()?;
                self.expect(",")?;
                let count = self.boxed()?;
                self.expect(",")?;
                Expr::Array { bytes, count, size: self.boxed()? }
            }
            "__builtin_expect" => {
                let value = self.expression()?;
                self.expect(",")?;
                self.expression()?;
                value
            }
            "sizeof" => {
                let end = self.tokens.iter().position(|token| *token == Token::Sign(")"))?;
                let names: Option<Vec<&str>> = self.tokens[..end]
                    .iter()
                    .map(|token| if let Token::Name(name) = token { Some(name.as_str()) } else { None })
                    .collect();
                let cast = cast_to(&names?)?;
                self.tokens = &self.tokens[end..];
                Expr::Number(cast.bytes.into())
            }
            _ => return None,
        };
        self.expect(")")?;
        Some(expr)
    }

    /// `, { value, "name" }` any number of times.
    fn names(&mut self) -> Option<Vec<(Expr, String)>> {
        let mut names = Vec::new();
        while self.sign(",") {
            self.expect("{")?;
            self.in_list = true;
            let value = self.expression();
            self.in_list = false;
            let value = value?;
            self.expect(",")?;
            match self.tokens.first() {
                Some(Token::Text(_)) => names.push((value, self.texts()?)),
                // A null pointer ends some lists.
                _ => drop(self.expression()?),
            }
            self.expect("}")?;
        }
        Some(names)
    }
}

/// A constant of the kernel that its format names and does not tell: for perf most are zero, and in lists
/// of names not what is looked for.
fn constant(name: &str, in_list: bool) -> Expr {
    const SOFTIRQS: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    let softirq = name.strip_suffix("_SOFTIRQ");
    Expr::Number(match softirq.and_then(|name| SOFTIRQS.iter().position(|known| *known == name)) {
        Some(number) => number as u64,
        None if name == "HRTIMER_NORESTART" => 0,
        None if name == "HRTIMER_RESTART" => 1,
        None if in_list => u64::MAX,
        None => 0,
    })
}

fn cast_to(names: &[&str]) -> Option<Cast> {
    let has = |wanted: &str| names.contains(&wanted);
    let signed = !has("unsigned");
    let known = |bytes, signed| Some(Cast { bytes, signed });
    let known_words =
        ["unsigned", "signed", "int", "long", "short", "char", "const", "void", "struct", "bool"];
    match names {
        [] => None,
        [
            "u64" | "__u64" | "uint64_t" | "size_t" | "sector_t" | "dma_addr_t" | "loff_t" | "uintptr_t"
            | "ino_t",
        ] => known(8, false),
        ["s64" | "__s64" | "ssize_t"] => known(8, true),
        ["u32" | "__u32" | "uint32_t" | "uint" | "gfp_t" | "dev_t" | "__be32" | "__le32"] => known(4, false),
        ["s32" | "__s32" | "pid_t"] => known(4, true),
        ["u16" | "__u16" | "uint16_t" | "__be16" | "__le16"] => known(2, false),
        ["s16" | "__s16"] => known(2, true),
        ["u8" | "__u8" | "uint8_t"] => known(1, false),
        ["s8" | "__s8"] => known(1, true),
        [name] if name.starts_with("__kernel_") || name.ends_with("flags_t") => known(4, false),
        _ if !names.iter().all(|name| known_words.contains(name)) && !has("struct") => None,
        _ if has("long") => known(8, signed),
        _ if has("short") => known(2, signed),
        _ if has("char") => known(1, signed),
        _ if has("bool") => known(1, false),
        _ if has("struct") || has("void") => known(8, false),
        _ => known(4, signed),
    }
}
