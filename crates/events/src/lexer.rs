//! Text into words and punctuation, each with its place. Knows nothing of events.

use crate::tree::Span;
use alloc::string::String;
use alloc::vec::Vec;

/// A piece of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// Anything that is neither punctuation nor white space.
    Word(String),
    /// A term's value in single quotes, without them.
    Quoted(String),
    /// One of `{ } , : / =`.
    Mark(char),
}

/// A token and its place.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) token: Token,
    pub(crate) at: Span,
    /// White space comes before it.
    pub(crate) apart: bool,
}

/// Punctuation of the language.
pub(crate) fn is_mark(c: char) -> bool {
    matches!(c, '{' | '}' | ',' | ':' | '/' | '=')
}

/// Splits `text`. The error is the place of a quote that is never closed.
pub(crate) fn tokens(text: &str) -> Result<Vec<Placed>, Span> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    let mut apart = false;
    while let Some((start, c)) = rest.next() {
        if c.is_whitespace() {
            apart = true;
            continue;
        }
        let mut end = start + c.len_utf8();
        let token = if is_mark(c) {
            Token::Mark(c)
        } else if c == '\'' {
            let Some(length) = text[end..].find('\'') else {
                return Err(Span { start, end: text.len() });
            };
            let value = String::from(&text[end..end + length]);
            end += length + 1;
            while rest.next_if(|&(at, _)| at < end).is_some() {}
            Token::Quoted(value)
        } else {
            while let Some((at, c)) = rest.next_if(|&(_, c)| !is_mark(c) && !c.is_whitespace() && c != '\'') {
                end = at + c.len_utf8();
            }
            Token::Word(String::from(&text[start..end]))
        };
        tokens.push(Placed { token, at: Span { start, end }, apart });
        apart = false;
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_marks_and_their_places() {
        let tokens = tokens(" {cs , a:b}/x='1,2'/").unwrap();
        let texts: Vec<_> = tokens.iter().map(|t| (t.at.start, t.at.end, t.apart)).collect();
        assert_eq!(texts[..3], [(1, 2, true), (2, 4, false), (5, 6, true)]);
        assert_eq!(tokens[10].token, Token::Quoted("1,2".into()));
        assert_eq!(tokens[11].token, Token::Mark('/'));
    }

    #[test]
    fn a_quote_must_be_closed() {
        assert_eq!(tokens("a/name='x/").map(|_| ()), Err(Span { start: 7, end: 10 }));
    }
}
