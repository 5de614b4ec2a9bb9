//! [`Strings`]: texts by their number, for formats that write each text once.

use std::collections::HashMap;

/// Texts, each once, by their number.
#[derive(Clone, Debug, Default)]
pub struct Strings<'t> {
    list: Vec<&'t str>,
    numbers: HashMap<&'t str, u32>,
}

impl<'t> Strings<'t> {
    /// With the empty text as number 0, which stands for none.
    pub fn with_empty() -> Self {
        let mut strings = Strings::default();
        strings.number("");
        strings
    }

    /// The number of a text: the next one, if it is new.
    pub fn number(&mut self, text: &'t str) -> u32 {
        *self.numbers.entry(text).or_insert_with(|| {
            self.list.push(text);
            self.list.len() as u32 - 1
        })
    }

    /// All texts, by their numbers.
    pub fn list(&self) -> &[&'t str] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number() {
        let mut strings = Strings::with_empty();
        assert_eq!(["a", "", "b", "a"].map(|text| strings.number(text)), [1, 0, 2, 1]);
        assert_eq!(strings.list(), ["", "a", "b"]);
    }
}
