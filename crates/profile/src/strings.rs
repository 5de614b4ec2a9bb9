//! The strings of a profile: each is kept once and is a number.

use crate::hash::FastState;
use crate::index::{Index, hash};
use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher};

/// The number of a string of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringId(pub(crate) u32);

/// All strings, one after the other. They are bytes, as names and paths are on Linux. The first is empty.
#[derive(Clone, Debug)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    index: Index,
}

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Strings { bytes: Vec::new(), ends: Vec::new(), index: Index::default() };
        strings.id(b"");
        strings
    }
}

impl Strings {
    /// The number of a string, which is new if there is none like it.
    pub(crate) fn id(&mut self, string: &[u8]) -> StringId {
        let Strings { bytes, ends, index } = self;
        let next = ends.len() as u32;
        let number = index.number(of_bytes(string), next, |at| part(bytes, ends, at) == string);
        if number == next {
            bytes.extend_from_slice(string);
            ends.push(bytes.len());
        }
        StringId(number)
    }

    pub(crate) fn get(&self, id: StringId) -> &[u8] {
        part(&self.bytes, &self.ends, id.0)
    }

    /// A string as text.
    pub(crate) fn text(&self, id: StringId) -> Cow<'_, str> {
        String::from_utf8_lossy(self.get(id))
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// All strings, by their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len() as u32).map(|number| self.get(StringId(number)))
    }
}

fn part<'b>(bytes: &'b [u8], ends: &[usize], number: u32) -> &'b [u8] {
    let start = number.checked_sub(1).map_or(0, |before| ends[before as usize]);
    &bytes[start..ends[number as usize]]
}

fn of_bytes(string: &[u8]) -> u64 {
    let mut fast = FastState::default().build_hasher();
    fast.write(string);
    hash(&[fast.finish(), string.len() as u64])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_kept_once() {
        let mut strings = Strings::default();
        let ids: Vec<StringId> = [&b"a"[..], b"", b"ab", b"a\0", b"a"].map(|s| strings.id(s)).into();
        assert_eq!(ids, [1, 0, 2, 3, 1].map(StringId));
        assert!(strings.iter().eq([&b""[..], b"a", b"ab", b"a\0"]));
        assert_eq!(strings.text(ids[2]), "ab");
    }
}
