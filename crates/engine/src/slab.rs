//! A table whose keys stay valid while the entry lives and never name another entry afterwards.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

/// Names an entry of a table. Entries that come later never have the same key.
pub struct Key<T> {
    index: u32,
    generation: u32,
    of: PhantomData<fn() -> T>,
}

/// Entries of one kind.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Slot<T>>,
    free: Vec<u32>,
    /// How often an entry was looked at, for tests of how much work is done.
    #[cfg(test)]
    pub(crate) looks: core::cell::Cell<u64>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    entry: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Slab {
            places: Vec::new(),
            free: Vec::new(),
            #[cfg(test)]
            looks: core::cell::Cell::new(0),
        }
    }

    pub(crate) fn insert(&mut self, make: impl FnOnce(Key<T>) -> T) -> Key<T> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.places.push(Slot { generation: 0, entry: None });
                self.places.len() as u32 - 1
            }
        };
        let place = &mut self.places[index as usize];
        let key = Key { index, generation: place.generation, of: PhantomData };
        place.entry = Some(make(key));
        key
    }

    pub(crate) fn remove(&mut self, key: Key<T>) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let entry = place.entry.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(entry)
    }

    pub(crate) fn get(&self, key: Key<T>) -> Option<&T> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        let place = self.places.get(key.index as usize)?;
        place.entry.as_ref().filter(|_| place.generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        let place = self.places.get_mut(key.index as usize)?;
        place.entry.as_mut().filter(|_| place.generation == key.generation)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = Key<T>> + '_ {
        let places = self.places.iter().enumerate().filter(|(_, place)| place.entry.is_some());
        places.map(|(index, place)| Key {
            index: index as u32,
            generation: place.generation,
            of: PhantomData,
        })
    }
}

impl<T> core::ops::Index<Key<T>> for Slab<T> {
    type Output = T;

    /// Panics for an entry that is gone: within the engine that is a broken invariant.
    fn index(&self, key: Key<T>) -> &T {
        self.get(key).expect("the entry lives")
    }
}

impl<T> core::ops::IndexMut<Key<T>> for Slab<T> {
    fn index_mut(&mut self, key: Key<T>) -> &mut T {
        self.get_mut(key).expect("the entry lives")
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.index, self.generation) == (other.index, other.generation)
    }
}

impl<T> Eq for Key<T> {}

impl<T> PartialOrd for Key<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Key<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.index, self.generation).cmp(&(other.index, other.generation))
    }
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;

    #[test]
    fn a_key_never_names_a_later_entry() {
        let mut slab = Slab::new();
        let first = slab.insert(|_| 'a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert(|_| 'b');
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&'b')));
        assert_eq!((slab.remove(first), slab.keys().count()), (None, 1));
    }
}
