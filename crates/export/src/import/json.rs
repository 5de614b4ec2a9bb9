//! Values as JSON of profiles has them: numbers that are whole or not, and numbers that are written as texts; and times in nanoseconds.

use super::ImportError;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::Read;

/// A number, exact where it is whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Whole(u64),
    Other(f64),
}

impl Number {
    /// So many units of `factor` each, rounded; `None` for what is below zero or far too much.
    pub(super) fn times(self, factor: f64) -> Option<u64> {
        match self {
            Number::Whole(number) if factor == 1.0 => Some(number),
            Number::Whole(number) => number.checked_mul(factor as u64).filter(|_| factor.fract() == 0.0),
            Number::Other(number) => {
                let product = (number * factor).round();
                (product >= 0.0 && product < u64::MAX as f64).then_some(product as u64)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number::Whole(number))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Number, E> {
                Ok(Number::Other(number as f64))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Number, E> {
                Ok(Number::Other(number))
            }
        }
        from.deserialize_any(Any)
    }
}

/// The number of a row of a table; `null`, and whatever else is no such number, becomes [`NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

const NONE: u32 = u32::MAX;

impl Place {
    pub(super) fn get(self) -> Option<usize> {
        (self.0 != NONE).then_some(self.0 as usize)
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Place;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the number of a row")
            }
            fn visit_unit<E: Error>(self) -> Result<Place, E> {
                Ok(Place(NONE))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Place, E> {
                u32::try_from(number).map(Place).map_err(|_| E::custom("there are not so many rows"))
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<Place, E> {
                Ok(Place(NONE))
            }
        }
        from.deserialize_any(Any)
    }
}

/// A number or a text; all else is none of both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Word {
    #[default]
    None,
    Number(u64),
    Text(Box<str>),
}

impl Word {
    /// The number of a process or a thread, 0 where it is none, and that of an event, which may stand behind a point.
    pub(super) fn task(&self) -> (u32, usize) {
        match self {
            Word::None => (0, 0),
            Word::Number(number) => (u32::try_from(*number).unwrap_or(0), 0),
            Word::Text(text) => {
                let (id, event) = text.split_once('.').unwrap_or((text, ""));
                (id.parse().unwrap_or(0), event.parse().unwrap_or(0))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Word;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }
            fn visit_unit<E: Error>(self) -> Result<Word, E> {
                Ok(Word::None)
            }
            fn visit_bool<E: Error>(self, _: bool) -> Result<Word, E> {
                Ok(Word::None)
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Word, E> {
                Ok(Word::Number(number))
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<Word, E> {
                Ok(Word::None)
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<Word, E> {
                Ok(Word::None)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
                Ok(Word::Text(text.into()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Word, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Word::None)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Word, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Word::None)
            }
        }
        from.deserialize_any(Any)
    }
}

/// A text, or `null` for none.
#[derive(Clone, Debug, Default)]
pub(super) struct Name(pub(super) Box<str>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Name(Option::<Box<str>>::deserialize(from)?.unwrap_or_default()))
    }
}

/// All of a file, of which the format's name is told where it is none.
pub(super) fn all(mut from: impl Read) -> Result<Vec<u8>, ImportError> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file as what it should be.
pub(super) fn parse<'b, T: Deserialize<'b>>(bytes: &'b [u8], what: &str) -> Result<T, ImportError> {
    serde_json::from_slice(bytes).map_err(|error| ImportError {
        line: Some(error.line()).filter(|line| *line > 0),
        problem: format!("not {what}, or a damaged one: {}", without_place(&error)),
    })
}

/// The fault that an error tells, without the place behind it: lines of such files are of any length, columns help nobody.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(text, _)| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_where_they_are_whole() {
        let number = |text: &str| serde_json::from_str::<Number>(text).unwrap();
        assert_eq!(number("18446744073709551615").times(1.0), Some(u64::MAX));
        assert_eq!(number("1099511.627775").times(1e6), Some(1_099_511_627_775));
        assert_eq!(number("-1").times(1.0), None);
        assert_eq!(number("1e300").times(1.0), None);
        assert_eq!(number("18446744073709551615").times(1e3), None);
    }

    #[test]
    fn a_thread_is_a_number_or_a_text() {
        let task = |text: &str| serde_json::from_str::<Word>(text).unwrap().task();
        assert_eq!((task("7"), task("\"8.2\"")), ((7, 0), (8, 2)));
        for other in ["null", "-1", "\"default\"", "[1, [2]]", "{\"a\": 2}", "1.5", "99999999999", "true"] {
            assert_eq!(task(other), (0, 0), "{other}");
        }
    }
}
