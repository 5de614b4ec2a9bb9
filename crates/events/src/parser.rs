//! Tokens into the tree. One function per rule of the grammar; looks nothing up but the fixed names.

use crate::cache;
use crate::error::{EventError, Problem};
use crate::lexer::{Placed, Token, tokens};
use crate::modifiers::Modifiers;
use crate::names;
use crate::probe;
use crate::tree::{Event, EventList, Group, Item, Span, Term, What};
use alloc::string::String;
use alloc::vec::Vec;
use core::str::FromStr;
use perfuse_abi::Breakpoint;

impl FromStr for EventList {
    type Err = EventError;

    /// Parses a list as it stands after one `-e`.
    fn from_str(text: &str) -> Result<Self, EventError> {
        let fail = |(at, problem)| EventError::new(text, at, problem);
        let tokens = tokens(text).map_err(|at| fail((at, Problem::OpenQuote)))?;
        let mut parser = Parser { text, tokens: &tokens };
        let items = parser.list().map_err(fail)?;
        Ok(EventList { text: text.into(), items })
    }
}

type Parsed<T> = Result<T, (Span, Problem)>;

struct Parser<'a> {
    text: &'a str,
    /// The text not read yet.
    tokens: &'a [Placed],
}

impl<'a> Parser<'a> {
    fn list(&mut self) -> Parsed<Vec<Item>> {
        let mut items = Vec::new();
        loop {
            items.push(self.item()?);
            if self.tokens.is_empty() {
                return Ok(items);
            }
            self.mark(',', "',' or the end of the list")?;
        }
    }

    fn item(&mut self) -> Parsed<Item> {
        if self.is_mark(0, '{') {
            return self.group(None).map(Item::Group);
        }
        if let [Placed { token: Token::Word(name), .. }, Placed { token: Token::Mark('{'), .. }, ..] =
            self.tokens
        {
            self.tokens = &self.tokens[1..];
            return self.group(Some(name.clone())).map(Item::Group);
        }
        self.event().map(Item::Single)
    }

    fn group(&mut self, name: Option<String>) -> Parsed<Group> {
        self.mark('{', "'{'")?;
        let mut events = Vec::new();
        loop {
            events.push(self.event()?);
            if self.is_mark(0, '}') {
                break;
            }
            self.mark(',', "',' or '}'")?;
        }
        self.mark('}', "'}'")?;
        let modifiers_at = self.tokens.get(1).map_or(self.here(), |token| token.at);
        let modifiers = self.modifiers()?;
        Ok(Group { name, events, modifiers, modifiers_at })
    }

    fn event(&mut self) -> Parsed<Event> {
        let (word, at) = self.word("an event")?;
        let what = self.what(word, at)?;
        let spelled_to = self.before();
        let spelling = &self.text[at.start..spelled_to];
        let spelling = match spelling.contains('\'') {
            true => spelling.into(),
            // Parts of one name may be written apart; the spelling has no white space.
            false => spelling.split_whitespace().collect(),
        };
        let terms = if self.is_mark(0, '/') { Some(self.terms()?) } else { None };
        let modifiers = match self.tokens {
            [Placed { token: Token::Word(_), at, apart: false }, ..] if terms.is_some() => {
                let at = *at;
                let (letters, _) = self.word("modifiers")?;
                Some(check(letters, at)?)
            }
            _ => self.modifiers()?,
        };
        Ok(Event { what, spelling, terms, modifiers, at: Span { start: at.start, end: self.before() } })
    }

    /// The meaning of a word, and of a second one after a colon if it belongs to it.
    fn what(&mut self, word: &str, at: Span) -> Parsed<What> {
        if let Some(event) = names::hardware(word) {
            return Ok(What::Hardware(event));
        }
        if let Some(event) = names::software(word) {
            return Ok(What::Software(event));
        }
        if let Some(event) = names::tool(word) {
            return Ok(What::Tool(event));
        }
        match cache::read(word) {
            Some(cache::Read::Event(event)) => return Ok(What::Cache(event)),
            Some(cache::Read::Impossible) => return Err((at, Problem::ImpossibleCache)),
            Some(cache::Read::Stray(from)) => {
                return Err((Span { start: at.start + from, ..at }, Problem::StrayCachePart));
            }
            None => {}
        }
        if let Some(code) = raw(word) {
            return Ok(What::Raw(code));
        }
        if let (Some(&(kind, colons)), true) =
            (probe::KINDS.iter().find(|(kind, _)| *kind == word), self.is_mark(0, ':'))
        {
            return self.probe(kind, colons);
        }
        if word == "mem" && self.is_mark(0, ':') {
            return self.breakpoint();
        }
        // The other ones take a second word.
        let second = match self.tokens {
            [Placed { token: Token::Mark(':'), .. }, Placed { token: Token::Word(second), at, .. }, ..] => {
                Some((second.as_str(), *at))
            }
            _ => None,
        };
        if let Some(type_) = number(word) {
            let Some((second, second_at)) = second else {
                return Err((at, Problem::Expected { what: "TYPE:CONFIG", found: word.into() }));
            };
            let (Ok(type_), Some(config)) = (u32::try_from(type_), number(second)) else {
                let wrong = if u32::try_from(type_).is_err() { (at, word) } else { (second_at, second) };
                return Err((wrong.0, Problem::BadNumber(wrong.1.into())));
            };
            self.tokens = &self.tokens[2..];
            return Ok(What::Numeric { type_, config });
        }
        match second {
            // No tracepoint has a name that could be modifiers.
            Some((name, _)) if Modifiers::new(name).is_err() => {
                self.tokens = &self.tokens[2..];
                Ok(What::Tracepoint { system: word.into(), name: name.into() })
            }
            _ => Ok(What::Named(word.into())),
        }
    }

    /// Reads the part behind `mem`: an address, a length, kinds of access.
    fn breakpoint(&mut self) -> Parsed<What> {
        let number = |(word, at): (&str, Span)| number(word).ok_or((at, Problem::BadNumber(word.into())));
        self.mark(':', "':'")?;
        let addr = number(self.word("an address")?)?;
        let mut len = None;
        let is_length = match self.tokens {
            [_, Placed { token: Token::Word(word), .. }, after @ ..] => {
                let is_key = matches!(after.first(), Some(Placed { token: Token::Mark('='), .. }));
                !is_key && word.starts_with(|c: char| c.is_ascii_digit())
            }
            _ => false,
        };
        if self.is_mark(0, '/') && is_length {
            self.mark('/', "'/'")?;
            len = Some(number(self.word("a length")?)?);
        }
        let mut access = Breakpoint::RW;
        if let [Placed { token: Token::Mark(':'), .. }, Placed { token: Token::Word(word), .. }, ..] =
            self.tokens
        {
            // An 'r', 'w' or 'x' is no modifier.
            if let Some(read) = accesses(word) {
                access = read;
                self.tokens = &self.tokens[2..];
            }
        }
        Ok(What::Breakpoint { access, addr, len })
    }

    /// Reads the part behind the name of a kind of probe. Its place ends at a comma, a brace or white space, but for
    /// modifiers; in quotes anything may stand in it.
    fn probe(&mut self, kind: &str, colons: usize) -> Parsed<What> {
        self.mark(':', "':'")?;
        let is_end = |token: &Placed| token.apart || matches!(token.token, Token::Mark(',' | '{' | '}'));
        let mut length = self.tokens.iter().position(is_end).unwrap_or(self.tokens.len());
        let text: String = match self.tokens.first() {
            Some(Placed { token: Token::Quoted(text), .. }) if length > 0 => {
                length = 1;
                text.clone()
            }
            _ => {
                length = self.place_length(length, colons);
                let end = self.tokens[..length].last().map_or(self.here().start, |placed| placed.at.end);
                self.text[self.here().start..end].into()
            }
        };
        let at = Span {
            start: self.here().start,
            end: self.tokens[..length].last().map_or(self.here().end, |last| last.at.end),
        };
        let place = probe::place(kind, &text);
        let place = place.ok_or((at, Problem::Expected { what: probe::form(kind), found: text }))?;
        self.tokens = &self.tokens[length..];
        Ok(What::Probe(place))
    }

    fn terms(&mut self) -> Parsed<Vec<Term>> {
        self.mark('/', "'/'")?;
        let mut terms = Vec::new();
        while !self.is_mark(0, '/') {
            if !terms.is_empty() {
                self.mark(',', "',' or '/'")?;
            }
            let (key, at) = self.word("a term or '/'")?;
            let mut end = at.end;
            let mut value = None;
            if self.is_mark(0, '=') {
                self.mark('=', "'='")?;
                value = match self.tokens.first() {
                    Some(Placed { token: Token::Word(text) | Token::Quoted(text), at, .. }) => {
                        self.tokens = &self.tokens[1..];
                        end = at.end;
                        Some(text.clone())
                    }
                    _ => return Err(self.unexpected("a value")),
                };
            }
            terms.push(Term { key: key.into(), value, at: Span { start: at.start, end } });
        }
        self.mark('/', "'/'")?;
        Ok(terms)
    }

    /// `:letters`, if a colon is next. perf takes a colon without letters.
    fn modifiers(&mut self) -> Parsed<Option<Modifiers>> {
        if !self.is_mark(0, ':') {
            return Ok(None);
        }
        self.mark(':', "':'")?;
        match self.tokens.first() {
            Some(Placed { token: Token::Word(letters), at, .. }) => {
                self.tokens = &self.tokens[1..];
                check(letters, *at).map(Some)
            }
            _ => Ok(Some(Modifiers::default())),
        }
    }

    /// How many of the next `length` tokens are the place of a probe: terms or modifiers may follow its last
    /// word.
    fn place_length(&self, length: usize, colons: usize) -> usize {
        let is_colon = |placed: &Placed| placed.token == Token::Mark(':');
        let enough = |place: &[Placed]| {
            !place.is_empty() && place.iter().filter(|placed| is_colon(placed)).count() >= colons
        };
        let mut tokens = &self.tokens[..length];
        match tokens {
            [place @ .., colon, Placed { token: Token::Word(letters), .. }]
                if is_colon(colon) && enough(place) && Modifiers::new(letters).is_ok() =>
            {
                tokens = place;
            }
            [place @ .., colon] if is_colon(colon) && enough(place) => tokens = place,
            _ => {}
        }
        let last = tokens.iter().rposition(is_colon).map_or(0, |colon| colon + 1);
        match &tokens[last..] {
            [_, Placed { token: Token::Mark('/'), .. }, ..] if last > 0 || colons == 0 => last + 1,
            _ => tokens.len(),
        }
    }

    fn is_mark(&self, ahead: usize, mark: char) -> bool {
        self.tokens.get(ahead).is_some_and(|placed| placed.token == Token::Mark(mark))
    }

    fn mark(&mut self, mark: char, what: &'static str) -> Parsed<()> {
        if !self.is_mark(0, mark) {
            return Err(self.unexpected(what));
        }
        self.tokens = &self.tokens[1..];
        Ok(())
    }

    fn word(&mut self, what: &'static str) -> Parsed<(&'a str, Span)> {
        match self.tokens {
            [Placed { token: Token::Word(word), at, .. }, rest @ ..] => {
                self.tokens = rest;
                Ok((word, *at))
            }
            _ => Err(self.unexpected(what)),
        }
    }

    fn unexpected(&self, what: &'static str) -> (Span, Problem) {
        let at = self.here();
        (at, Problem::Expected { what, found: self.text[at.start..at.end].into() })
    }

    /// The place of the next token, or the end.
    fn here(&self) -> Span {
        let end = self.text.trim_end().len();
        self.tokens.first().map_or(Span { start: end, end }, |token| token.at)
    }

    /// The end of the last token that was read.
    fn before(&self) -> usize {
        let rest = self.tokens.first().map_or(self.text.len(), |token| token.at.start);
        self.text[..rest].trim_end().len()
    }
}

fn check(letters: &str, at: Span) -> Parsed<Modifiers> {
    Modifiers::new(letters).map_err(|(offset, error)| {
        let start = at.start + offset;
        let length = letters[offset..].chars().next().map_or(0, char::len_utf8);
        (Span { start, end: start + length }, Problem::Modifiers(error))
    })
}

/// The letters r, w and x, each at most once.
fn accesses(word: &str) -> Option<Breakpoint> {
    let mut access = Breakpoint::EMPTY;
    for letter in word.chars() {
        let one = match letter {
            'r' => Breakpoint::R,
            'w' => Breakpoint::W,
            'x' => Breakpoint::X,
            _ => return None,
        };
        if access.0 & one.0 != 0 {
            return None;
        }
        access = Breakpoint(access.0 | one.0);
    }
    (access != Breakpoint::EMPTY).then_some(access)
}

/// `r` and up to 16 hexadecimal digits.
pub(crate) fn raw(word: &str) -> Option<u64> {
    let digits = word.strip_prefix('r')?;
    let hexadecimal =
        !digits.is_empty() && digits.len() <= 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    hexadecimal.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// A decimal number, or a hexadecimal one after `0x`.
pub(crate) fn number(word: &str) -> Option<u64> {
    let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((word, 10), |digits| (digits, 16));
    let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}
