//! Keys, the kinds of their values, and one text that sets them.

use perfuse_events::nearest;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The values that a key can have.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// Any text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number within these.
    Number {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// A number that is not negative, with or without a fraction.
    Real,
    /// `true` or `false`.
    Flag,
    /// Names: a text with commas, or an array of texts.
    List,
}

/// A key in a table.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Key {
    /// The table that it stands in.
    pub table: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// The files of projects cannot set it.
    pub is_users: bool,
}

impl Key {
    /// A key that every file may set.
    pub const fn new(table: &'static str, name: &'static str, kind: Kind) -> Self {
        Key { table, name, kind, is_users: false }
    }

    /// The same, in the user's own file only.
    #[must_use]
    pub const fn of_the_user(self) -> Self {
        Key { is_users: true, ..self }
    }
}

/// A key that a file sets.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Setting {
    /// The key.
    pub key: Key,
    /// The value as it would stand on a command line: `true`, `999`, `cycles,faults`.
    pub value: String,
    /// The file.
    pub path: PathBuf,
    /// The line of the value, from 1 on.
    pub line: usize,
}

/// A file that cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// The line in it, from 1 on, if it is about one.
    pub line: Option<usize>,
    /// The fault, and what would be right.
    pub words: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.words)
    }
}

impl std::error::Error for Error {}

/// Takes the text of a file apart. The settings stand in the order of the text.
///
/// # Errors
///
/// The first fault: no TOML, a table or key that there is not, a value of another kind.
pub fn parse(path: &Path, text: &str, keys: &[Key]) -> Result<Vec<Setting>, Error> {
    let line =
        |at: usize| 1 + text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count();
    let fault = |at: Option<usize>, words: String| Error { path: path.into(), line: at.map(line), words };
    let document = DeTable::parse(text).map_err(|error| {
        let start = error.span().map(|span| span.start);
        fault(start, format!("no TOML: {}", error.message().replace('\n', ", ")))
    })?;
    let mut found = Vec::new();
    for (table, value) in document.get_ref() {
        let name: &str = table.get_ref();
        let Some(content) = value.get_ref().as_table() else {
            let of = keys.iter().find(|key| key.name == name);
            let hint = of.map_or(String::new(), |key| format!("; '{}' stands in [{}]", key.name, key.table));
            let words = format!("keys stand in tables such as [{}]{hint}", first_table(keys));
            found.push((table.span().start, Err(words)));
            continue;
        };
        if !keys.iter().any(|key| key.table == name) {
            found.push((table.span().start, Err(no_table(name, keys))));
            continue;
        }
        for (key, value) in content {
            let (span, name): (_, &str) = (value.span().start, key.get_ref());
            let of_table = || keys.iter().filter(|key| key.table == &**table.get_ref());
            let setting = match of_table().find(|key| key.name == name) {
                None => {
                    let near = nearest(name, of_table().map(|key| key.name));
                    let all = || of_table().map(|key| key.name).collect::<Vec<_>>().join(", ");
                    let hint = match near.is_empty() {
                        true => format!("; there are {}", all()),
                        false => format!("; did you mean {}?", near.join(" or ")),
                    };
                    found.push((
                        key.span().start,
                        Err(format!(
                            "there is no key '{}' in [{}]{hint}",
                            name.escape_debug(),
                            table.get_ref()
                        )),
                    ));
                    continue;
                }
                Some(key) => value_of(key, value.get_ref()).map(|value| Setting {
                    key: *key,
                    value,
                    path: path.into(),
                    line: line(span),
                }),
            };
            found.push((span, setting));
        }
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(at, setting)| setting.map_err(|words| fault(Some(at), words))).collect()
}

fn first_table(keys: &[Key]) -> &'static str {
    keys.first().map_or("", |key| key.table)
}

/// The names of the tables that there are.
fn tables(keys: &[Key]) -> Vec<&'static str> {
    let mut tables: Vec<&str> = Vec::new();
    for key in keys {
        if !tables.contains(&key.table) {
            tables.push(key.table);
        }
    }
    tables
}

fn no_table(name: &str, keys: &[Key]) -> String {
    let tables = tables(keys);
    let near = nearest(name, tables.iter().copied());
    let name = name.escape_debug();
    match near.is_empty() {
        true => format!("there is no table [{name}]; there are [{}]", tables.join("], [")),
        false => format!("there is no table [{name}]; did you mean [{}]?", near.join("] or [")),
    }
}

/// A value in the form of the command line, or why it is none for this key.
fn value_of(key: &Key, value: &DeValue<'_>) -> Result<String, String> {
    let whole = || {
        let number = value.as_integer().filter(|number| number.radix() == 10)?;
        number.as_str().replace('_', "").parse::<u64>().ok()
    };
    let fits = match key.kind {
        Kind::Text => value.as_str().map(str::to_owned),
        Kind::Choice(words) => value.as_str().filter(|word| words.contains(word)).map(str::to_owned),
        Kind::Number { least, most } => {
            whole().filter(|number| (least..=most).contains(number)).map(|number| number.to_string())
        }
        Kind::Real => whole().map(|number| number.to_string()).or_else(|| {
            let number: f64 = value.as_float()?.as_str().replace('_', "").parse().ok()?;
            (number.is_finite() && number >= 0.0).then(|| number.to_string())
        }),
        Kind::Flag => value.as_bool().map(|flag| flag.to_string()),
        Kind::List => match value.as_array() {
            None => value.as_str().map(str::to_owned),
            Some(items) => {
                let items: Option<Vec<&str>> = items.iter().map(|item| item.get_ref().as_str()).collect();
                items.map(|items| items.join(","))
            }
        },
    };
    // A line end or a NUL is nothing that somebody types on a command line.
    let fits = fits.filter(|text| !text.chars().any(char::is_control));
    fits.ok_or_else(|| {
        format!("[{}] {} wants {}, not {}", key.table, key.name, wanted(key.kind), shown(value))
    })
}

fn wanted(kind: Kind) -> String {
    match kind {
        Kind::Text => "a text in quotes, on one line".into(),
        Kind::Choice(words) => {
            words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
        }
        Kind::Number { least, most: u64::MAX } => format!("a whole number from {least} on"),
        Kind::Number { least, most } => format!("a whole number from {least} to {most}"),
        Kind::Real => "a number such as 0.5".into(),
        Kind::Flag => "true or false".into(),
        Kind::List => "names such as \"a,b\" or [\"a\", \"b\"]".into(),
    }
}

/// A value, or its kind where it is long.
fn shown(value: &DeValue<'_>) -> String {
    let mut out = String::new();
    let _ = match value {
        DeValue::String(text) if text.len() <= 40 => write!(out, "{text:?}"),
        DeValue::String(_) => write!(out, "another text"),
        DeValue::Integer(number) => write!(out, "{}", number.as_str()),
        DeValue::Float(number) => write!(out, "{}", number.as_str()),
        DeValue::Boolean(flag) => write!(out, "{flag}"),
        DeValue::Datetime(_) => write!(out, "a date"),
        DeValue::Array(_) => write!(out, "an array"),
        DeValue::Table(_) => write!(out, "a table"),
    };
    out
}
