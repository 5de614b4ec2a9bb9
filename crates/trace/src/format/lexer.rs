//! The words of a `print fmt`.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Number(u64),
    Text(String),
    Name(String),
    /// An operator or bracket.
    Sign(&'static str),
}

/// Longest first, so that the first that fits is meant.
const SIGNS: [&str; 33] = [
    "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "->", "(", ")", "[", "]", "{", "}", ",", "?", ":", "+",
    "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", ".", ";", "=",
];

/// `None` at anything that is no word of C.
pub(super) fn words(text: &str) -> Option<Vec<Token>> {
    let (mut rest, mut tokens) = (text.trim_start(), Vec::new());
    while let Some(first) = rest.chars().next() {
        let token;
        if first == '"' {
            let (content, after) = string(&rest[1..])?;
            (token, rest) = (Token::Text(content), after);
        } else if first == '\'' {
            let (content, after) = character(&rest[1..])?;
            (token, rest) = (Token::Number(content), after);
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            token = Token::Number(number(&rest[..end])?);
            rest = &rest[end..];
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            token = Token::Name(rest[..end].into());
            rest = &rest[end..];
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign))?;
            token = Token::Sign(sign);
            rest = &rest[sign.len()..];
        }
        tokens.push(token);
        rest = rest.trim_start();
    }
    Some(tokens)
}

fn number(word: &str) -> Option<u64> {
    let word = word.trim_end_matches(['u', 'U', 'l', 'L']);
    match word.strip_prefix("0x").or(word.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if word.len() > 1 && word.starts_with('0') => u64::from_str_radix(word, 8).ok(),
        None => word.parse().ok(),
    }
}

fn escape(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        '0' => '\0',
        other => other,
    }
}

/// The content of a string and what follows its end.
fn string(text: &str) -> Option<(String, &str)> {
    let (mut content, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((content, &text[at + 1..])),
            '\\' => content.push(escape(chars.next()?.1)),
            c => content.push(c),
        }
    }
    None
}

fn character(text: &str) -> Option<(u64, &str)> {
    let mut chars = text.chars();
    let c = match chars.next()? {
        '\\' => escape(chars.next()?),
        c => c,
    };
    (chars.next()? == '\'').then(|| (u64::from(c), chars.as_str()))
}
