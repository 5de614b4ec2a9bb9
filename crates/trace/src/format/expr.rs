//! The text of a `print fmt` becomes programs.

use super::eval::{Room, Scope};
use super::lexer::{Token, words};
use super::steps::{Cast, Print, Step};
use super::{Field, FieldKind};

/// Parentheses, signs and conditions may be nested so deep.
const DEPTH: u32 = 192;

impl Print {
    /// `None` if there is something in it that is not known.
    pub(super) fn parse(text: &str, fields: &[Field]) -> Option<Self> {
        let tokens = words(text)?;
        let mut parser = Parser { tokens: &tokens, fields, steps: Vec::new(), depth: 0, in_list: false };
        let format = parser.texts()?;
        let mut arguments = Vec::new();
        while parser.sign(",") {
            parser.expression()?;
            arguments.push(core::mem::take(&mut parser.steps));
        }
        parser.tokens.is_empty().then_some(Print { format, arguments })
    }
}

struct Parser<'t> {
    tokens: &'t [Token],
    fields: &'t [Field],
    /// Of the argument that is being read.
    steps: Vec<Step>,
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
        let Some(Token::Text(_)) = self.tokens.first() else { return None };
        let mut text = String::new();
        while let Some(Token::Text(more)) = self.tokens.first() {
            text.push_str(more);
            self.tokens = &self.tokens[1..];
        }
        Some(text)
    }

    fn step(&mut self, step: Step) -> Option<()> {
        self.steps.push(step);
        Some(())
    }

    /// A step whose target is not known yet: its place, for `land`.
    fn jump(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    /// Lets the step at a place go on here.
    fn land(&mut self, from: usize) {
        let here = self.steps.len();
        if let Step::Jump(to) | Step::Unless(to) | Step::Decided { next: to, .. } = &mut self.steps[from] {
            *to = here;
        }
    }

    fn expression(&mut self) -> Option<()> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        self.binary(0)?;
        if self.sign("?") {
            let otherwise = self.jump(Step::Unless(0));
            self.expression()?;
            self.expect(":")?;
            let end = self.jump(Step::Jump(0));
            self.land(otherwise);
            self.expression()?;
            self.land(end);
        }
        self.depth -= 1;
        Some(())
    }

    /// Operators of this level and tighter ones.
    fn binary(&mut self, level: usize) -> Option<()> {
        self.unary()?;
        while let Some((found, sign)) = self.operator(level) {
            let decided = match sign {
                "&&" | "||" => Some(self.jump(Step::Decided { by_zero: sign == "&&", next: 0 })),
                _ => None,
            };
            self.binary(found + 1)?;
            match decided {
                Some(from) => {
                    self.step(Step::Truth)?;
                    self.land(from);
                }
                None => self.step(Step::Binary(sign))?,
            }
        }
        Some(())
    }

    fn operator(&mut self, level: usize) -> Option<(usize, &'static str)> {
        let Some(Token::Sign(next)) = self.tokens.first() else { return None };
        let found = (level..LEVELS.len()).find(|&level| LEVELS[level].contains(next))?;
        let sign = *next;
        self.tokens = &self.tokens[1..];
        Some((found, sign))
    }

    fn unary(&mut self) -> Option<()> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let sign = ["-", "~", "!", "+"].into_iter().find(|sign| self.sign(sign));
        match (sign, sign.map_or_else(|| self.cast(), |_| None)) {
            (Some(sign), _) => {
                self.unary()?;
                self.step(Step::Unary(sign))?;
            }
            (None, Some(cast)) => {
                self.unary()?;
                self.steps.extend(cast.map(Step::Cast));
            }
            (None, None) => self.postfix()?,
        }
        self.depth -= 1;
        Some(())
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

    fn postfix(&mut self) -> Option<()> {
        let start = self.steps.len();
        if let Some(text) = self.texts() {
            return self.step(Step::Text(text));
        }
        match self.next()?.clone() {
            Token::Number(number) => self.step(Step::Number(number))?,
            Token::Sign("(") if matches!(self.tokens, [Token::Name(name), Token::Sign(")"), ..] if name == "REC") =>
            {
                self.tokens = &self.tokens[2..];
                self.expect("->")?;
                self.field(Step::Field)?;
            }
            Token::Sign("(") => {
                self.expression()?;
                self.expect(")")?;
            }
            Token::Name(name) if name == "REC" => {
                self.expect("->")?;
                self.field(Step::Field)?;
            }
            Token::Name(name) if self.tokens.first() != Some(&Token::Sign("(")) => {
                self.step(Step::Number(constant(&name, self.in_list)))?;
            }
            Token::Name(name) => self.call(&name)?,
            Token::Sign(_) | Token::Text(_) => return None,
        }
        while self.sign("[") {
            let element = match self.steps[start..] {
                [Step::Field(index) | Step::Dynamic(index)] => match self.fields[index].kind {
                    FieldKind::Array(element) | FieldKind::Dynamic { element, .. } => element,
                    _ => 1,
                },
                _ => 1,
            };
            self.expression()?;
            self.expect("]")?;
            self.step(Step::Index(element))?;
        }
        Some(())
    }

    /// The name of a field, and what is to be had of it.
    fn field(&mut self, step: fn(usize) -> Step) -> Option<()> {
        let fields = self.fields;
        let Token::Name(name) = self.next()? else { return None };
        let index = fields.iter().position(|field| field.name == *name)?;
        self.step(step(index))
    }

    fn call(&mut self, name: &str) -> Option<()> {
        self.expect("(")?;
        match name {
            "__get_str" | "__get_rel_str" | "__get_dynamic_array" | "__get_rel_dynamic_array" => {
                self.field(Step::Dynamic)?;
            }
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => self.field(Step::DynamicLen)?,
            "__get_bitmask" | "__get_rel_bitmask" | "__get_cpumask" | "__get_rel_cpumask" => {
                self.field(Step::Bitmask)?;
            }
            "__print_flags" | "__print_flags_u64" => {
                self.expression()?;
                self.expect(",")?;
                let between = self.texts()?;
                let names = self.names()?;
                self.step(Step::Flags { between, names })?;
            }
            "__print_symbolic" | "__print_symbolic_u64" => {
                self.expression()?;
                let names = self.names()?;
                self.step(Step::Symbolic(names))?;
            }
            "__print_hex" | "__print_hex_str" => {
                self.expression()?;
                self.expect(",")?;
                self.expression()?;
                self.step(Step::Hex { spaced: name == "__print_hex" })?;
            }
            "__print_array" => {
                self.expression()?;
                self.expect(",")?;
                self.expression()?;
                self.expect(",")?;
                self.expression()?;
                self.step(Step::Array)?;
            }
            "__builtin_expect" => {
                self.expression()?;
                self.expect(",")?;
                self.constant()?;
            }
            "sizeof" => {
                let end = self.tokens.iter().position(|token| *token == Token::Sign(")"))?;
                let names: Option<Vec<&str>> = self.tokens[..end]
                    .iter()
                    .map(|token| if let Token::Name(name) = token { Some(name.as_str()) } else { None })
                    .collect();
                let cast = cast_to(&names?)?;
                self.tokens = &self.tokens[end..];
                self.step(Step::Number(cast.bytes.into()))?;
            }
            _ => return None,
        }
        self.expect(")")
    }

    /// An expression without fields: its value. If that cannot be told, as it is made of constants that are not told
    /// either, it is not what is looked for.
    fn constant(&mut self) -> Option<u64> {
        let start = self.steps.len();
        self.expression()?;
        let mut steps = self.steps.split_off(start);
        // They were to follow others.
        for step in &mut steps {
            if let Step::Jump(to) | Step::Unless(to) | Step::Decided { next: to, .. } = step {
                *to -= start;
            }
        }
        Some(Scope::nothing(&Room::new("", &[])).bits(&steps).unwrap_or(u64::MAX))
    }

    /// `, { value, "name" }` any number of times.
    fn names(&mut self) -> Option<Vec<(u64, String)>> {
        let mut names = Vec::new();
        while self.sign(",") {
            self.expect("{")?;
            self.in_list = true;
            let value = self.constant();
            self.in_list = false;
            let value = value?;
            self.expect(",")?;
            match self.tokens.first() {
                Some(Token::Text(_)) => names.push((value, self.texts()?)),
                // A null pointer ends some lists.
                _ => drop(self.constant()?),
            }
            self.expect("}")?;
        }
        Some(names)
    }
}

/// A constant of the kernel that its format names and does not tell: for perf most are zero, and in lists
/// of names not what is looked for.
fn constant(name: &str, in_list: bool) -> u64 {
    const SOFTIRQS: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    let softirq = name.strip_suffix("_SOFTIRQ");
    match softirq.and_then(|name| SOFTIRQS.iter().position(|known| *known == name)) {
        Some(number) => number as u64,
        None if name == "HRTIMER_NORESTART" => 0,
        None if name == "HRTIMER_RESTART" => 1,
        None if in_list => u64::MAX,
        None => 0,
    }
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
