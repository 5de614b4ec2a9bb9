//! The beginning of a file or a pipe.

use crate::feature::FeatureId;
use perfuse_abi::ByteOrder;
use perfuse_abi::wire::{Codec, Item, Layout};

/// A range of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSection {
    /// Where it starts.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl<'a> Layout<'a> for FileSection {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("offset", &mut self.offset)?;
        c.u64("size", &mut self.size)
    }
}

impl Item for FileSection {
    const SIZE: usize = 16;
}

/// The header of a file, after the magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Bytes of the header, the magic included: 104, or 72 without features.
    pub size: u64,
    /// Bytes from one attr to the next: its size and that of a [`FileSection`] for its ids.
    pub attr_size: u64,
    /// The attrs.
    pub attrs: FileSection,
    /// The records.
    pub data: FileSection,
    /// Names of events, no longer written.
    pub event_types: FileSection,
    /// One bit for each feature section.
    pub features: FeatureSet,
}

impl Default for FileHeader {
    fn default() -> Self {
        FileHeader {
            size: Self::SIZE,
            attr_size: 0,
            attrs: FileSection::default(),
            data: FileSection::default(),
            event_types: FileSection::default(),
            features: FeatureSet::default(),
        }
    }
}

impl FileHeader {
    /// Its usual size.
    pub const SIZE: u64 = 104;
    /// Its size before there were features.
    pub const SIZE_WITHOUT_FEATURES: u64 = 72;
    /// The size that says that this is no file header: that of magic and size in a pipe.
    pub const PIPE_SIZE: u64 = 16;
}

impl<'a> Layout<'a> for FileHeader {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u64("size", &mut self.size)?;
        c.u64("attr_size", &mut self.attr_size)?;
        self.attrs.layout(c)?;
        self.data.layout(c)?;
        self.event_types.layout(c)?;
        if self.size == Self::SIZE_WITHOUT_FEATURES {
            return Ok(());
        }
        self.features.layout(c)
    }
}

/// A set of features; unknown ones are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureSet([u64; 4]);

impl FeatureSet {
    /// Whether the set has a feature.
    pub fn contains(&self, id: FeatureId) -> bool {
        self.0.get(id.0 as usize / 64).is_some_and(|word| word >> (id.0 % 64) & 1 == 1)
    }

    /// Adds a feature; numbers from [`FeatureId::BITS`] on have no place.
    pub fn insert(&mut self, id: FeatureId) {
        if let Some(word) = self.0.get_mut(id.0 as usize / 64) {
            *word |= 1 << (id.0 % 64);
        }
    }

    /// The features in order, as their sections are.
    pub fn iter(&self) -> impl Iterator<Item = FeatureId> + use<> {
        let set = *self;
        (0..FeatureId::BITS).map(FeatureId).filter(move |&id| set.contains(id))
    }
}

impl<'a> Layout<'a> for FeatureSet {
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        for word in &mut self.0 {
            c.u64("features", word)?;
        }
        // The set is made of C longs: on a big-endian machine of 32 bits the halves are the other way
        // round. Every recording has a host name, so that bit tells.
        let swapped = FeatureSet(self.0.map(|word| word.rotate_left(32)));
        let host = FeatureId::HOSTNAME;
        if c.order() == ByteOrder::Big && !self.contains(host) && swapped.contains(host) {
            *self = swapped;
        }
        Ok(())
    }
}

/// The magic of a file of today, on a little-endian machine.
pub(crate) const MAGIC: [u8; 8] = *b"PERFILE2";
/// The magic of files before perf 3.4, in both byte orders.
pub(crate) const MAGIC_1: [u8; 8] = *b"PERFFILE";

/// The byte order that the first 16 bytes tell: magic and size of the header. `None` for another magic.
pub(crate) fn order_of(start: &[u8; 16]) -> Option<ByteOrder> {
    let [magic, size] = [&start[..8], &start[8..]];
    let reversed = magic.iter().rev().eq(&MAGIC);
    if magic == MAGIC {
        Some(ByteOrder::Little)
    } else if reversed {
        Some(ByteOrder::Big)
    } else if magic == MAGIC_1 {
        // A size is small, so the first byte is zero if the last is the lowest.
        Some(if size[7] != 0 && size[0] == 0 { ByteOrder::Big } else { ByteOrder::Little })
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_abi::wire::{Reader, Writer};

    #[test]
    fn a_set_of_features_of_a_big_endian_machine_of_32_bits() {
        let mut bytes = [0; 32];
        bytes[3] = 1 << 3; // HOSTNAME in the first long
        bytes[7] = 1 << 1; // 33 in the second
        let mut set = FeatureSet::default();
        set.layout(&mut Reader::new(&bytes, ByteOrder::Big)).unwrap();
        assert!(set.iter().eq([FeatureId::HOSTNAME, FeatureId::E_MACHINE]));
    }

    #[test]
    fn all_bits_of_a_set_survive() {
        let mut set = FeatureSet::default();
        [1, 3, 63, 64, 128, 255, 256].into_iter().for_each(|id| set.insert(FeatureId(id)));
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut bytes = Vec::new();
            set.layout(&mut Writer::new(&mut bytes, order)).unwrap();
            let mut again = FeatureSet::default();
            again.layout(&mut Reader::new(&bytes, order)).unwrap();
            assert_eq!(again, set);
        }
        assert!(set.iter().map(|id| id.0).eq([1, 3, 63, 64, 128, 255]));
    }

    #[test]
    fn the_magic_tells_the_byte_order() {
        let start = |magic: &[u8; 8], size: u64, order: ByteOrder| {
            let mut start = [0; 16];
            start[..8].copy_from_slice(magic);
            start[8..].copy_from_slice(&order.bytes64(size));
            start
        };
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let magic = order.bytes64(u64::from_le_bytes(MAGIC));
            assert_eq!(order_of(&start(&magic, 104, order)), Some(order));
            assert_eq!(order_of(&start(b"PERFFILE", 104, order)), Some(order));
            assert_eq!(order_of(&start(b"PERFFILF", 104, order)), None);
        }
    }
}
