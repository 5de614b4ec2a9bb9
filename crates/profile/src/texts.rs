//! Texts that are values of keys: each is kept once and is a number.

use std::collections::HashMap;

/// Texts by number, with the bytes by which they are sorted.
#[derive(Debug, Default)]
pub struct Texts {
    ids: HashMap<(Box<str>, Box<[u8]>), u32>,
    list: Vec<(Box<str>, Box<[u8]>)>,
}

impl Texts {
    /// The number of a text.
    pub fn id(&mut self, text: &str, order: &[u8]) -> u64 {
        let key = (Box::from(text), Box::from(order));
        if let Some(&id) = self.ids.get(&key) {
            return id.into();
        }
        let id = self.list.len() as u32;
        self.list.push(key.clone());
        self.ids.insert(key, id);
        id.into()
    }

    pub(crate) fn text(&self, id: u64) -> &str {
        usize::try_from(id).ok().and_then(|id| self.list.get(id)).map_or("", |(text, _)| text)
    }

    pub(crate) fn order(&self, id: u64) -> &[u8] {
        usize::try_from(id).ok().and_then(|id| self.list.get(id)).map_or(&[], |(_, order)| order)
    }
}
