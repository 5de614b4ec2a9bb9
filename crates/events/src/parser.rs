//! Tokens into the tree. One function per rule of the grammar; looks nothing up but the fixed names.

use crate::cache;
use crate::error::{EventError, Problem};
use crate::lexer::{Placed, Token, tokens};
use crate::modifiers::Modifiers;
use crate::names;
use crate::tree::{Event, EventList, Group, Item, Span, Term, What};
use alloc::string::String;
use alloc::vec::Vec;
use core::str::FromStr;

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
    /// What has not been read yet.
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
        // Parts of one name may be written apart; the spelling has no white space.
        let spelling = self.text[at.start..spelled_to].split_whitespace().collect();
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
        // What is left takes a second word.
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
            Some((name, _)) => {
                self.tokens = &self.tokens[2..];
                Ok(What::Tracepoint { system: word.into(), name: name.into() })
            }
            None if self.is_mark(0, '/') => Err((at, Problem::NamedPmu(word.into()))),
            None => Err((at, Problem::unknown_event(word))),
        }
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

/// `r` and up to 16 hexadecimal digits.
fn raw(word: &str) -> Option<u64> {
    let digits = word.strip_prefix('r')?;
    let hexadecimal =
        !digits.is_empty() && digits.len() <= 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    hexadecimal.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// A decimal number, or a hexadecimal one after `0x`.
pub(crate) fn number(word: &str) -> Option<u64> {
    let (digits, radix) = word.strip_prefix("0x").map_or((word, 10), |digits| (digits, 16));
    let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}
