//! The parts that Go's linker writes: the section with its table of functions, and words of the runtime's data, as they are once a program is
//! loaded.

use super::{Elf, Section};
use crate::error::Error;
use object::{Endian, elf};

/// A table begins at a multiple of it.
const ALIGNED: usize = 32;
/// Bytes of a section of data, or of relocations, that are looked through.
const MAX_DATA: u64 = 256 << 20;
/// Relocations by the program's own place, of x86-64 and arm64, in the low half of an entry's second word.
const RELATIVE: [u32; 2] = [8, 1027];

impl Elf {
    /// Whether it is a program in Go: those have a table of their functions of their own.
    pub fn is_go(&self) -> bool {
        self.go_section().is_some() || self.section(".go.buildinfo").is_some()
    }

    fn go_section(&self) -> Option<&Section> {
        self.sections.iter().find(|section| self.name_of(section).ends_with(b".gopclntab"))
    }

    /// Where that table is in the file, and its bytes, if these are no more than `most`. It begins as `is_head` knows, and other bytes
    /// may follow.
    pub(crate) fn go_table(
        &self,
        most: u64,
        is_head: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let read = |section| self.bytes_of(section, most, "Go's table of functions");
        if let Some(section) = self.go_section() {
            return Ok(Some((section.offset, read(section)?)));
        }
        // In programs at any place that are linked by the linker of C it is among other data.
        let Some(section) = self.section(".data.rel.ro").filter(|_| self.is_go()) else { return Ok(None) };
        let mut bytes = read(section)?;
        let heads = bytes.chunks_exact(ALIGNED).position(is_head);
        Ok(heads.map(|number| {
            bytes.drain(..number * ALIGNED);
            (section.offset + (number * ALIGNED) as u64, bytes)
        }))
    }

    /// Whether an address is one of code.
    pub(crate) fn is_code_at(&self, address: u64) -> bool {
        let mut code = self.sections.iter().filter(|section| section.is(elf::SHF_EXECINSTR));
        code.any(|section| section.area().contains(&address))
    }

    /// Where code begins (`.text`).
    pub(crate) fn text_address(&self) -> Option<u64> {
        self.section(".text").map(|section| section.address)
    }

    /// The first so many words of the first part of the program's data whose words `fits` knows by their numbers. A word has so
    /// many bytes; one that is written when the program is loaded is what will be there.
    pub(crate) fn go_words(
        &self,
        bytes: usize,
        count: usize,
        fits: impl Fn(&dyn Fn(usize) -> Option<u64>) -> bool,
    ) -> Option<Vec<u64>> {
        let is_data = |section: &&Section| {
            section.is(elf::SHF_WRITE) && section.is(elf::SHF_ALLOC) && section.kind != elf::SHT_NOBITS
        };
        let (address, mut words) = self.find_in_sections(is_data, |section, content| {
            let word = |at: usize| self.word(content.get(at..at.checked_add(bytes)?)?);
            let words_from = |at: usize| move |number: usize| word(at + number * bytes);
            let found = (0..content.len()).step_by(bytes).find(|&at| fits(&words_from(at)))?;
            let words = (0..count).map_while(words_from(found)).collect::<Vec<_>>();
            Some((section.address.wrapping_add(found as u64), words))
        })?;
        if words.contains(&0) {
            self.relocate(address, bytes, &mut words);
        }
        Some(words)
    }

    /// The bytes of a section of data from one of these addresses on, the first ones that `fits` knows.
    pub(crate) fn go_data(&self, addresses: &[u64], fits: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let has_some = |section: &&Section| {
            let is_data = section.is(elf::SHF_ALLOC) && !section.is(elf::SHF_EXECINSTR);
            is_data && addresses.iter().any(|address| section.area().contains(address))
        };
        self.find_in_sections(has_some, |section, content| {
            let begins = addresses.iter().filter_map(|address| address.checked_sub(section.address));
            let mut parts = begins.filter_map(|at| content.get(usize::try_from(at).ok()?..));
            parts.find(|part| fits(part)).map(<[u8]>::to_vec)
        })
    }

    /// Puts in the place of zeros the numbers that are written there when the program is loaded, counted from the program's place.
    fn relocate(&self, address: u64, bytes: usize, words: &mut [u64]) {
        let is_table =
            |section: &&Section| section.kind == elf::SHT_RELA && self.is_64 && section.is(elf::SHF_ALLOC);
        let known = RELATIVE.map(u64::from).map(Some);
        let _ = self.find_in_sections(is_table, |_, entries| {
            let word = |entry: &[u8], number: usize| self.word(&entry[8 * number..8 * number + 8]);
            for entry in entries.chunks_exact(24).filter(|entry| known.contains(&word(entry, 1))) {
                let place = word(entry, 0).and_then(|place| place.checked_sub(address));
                let number = place.map_or(usize::MAX, |place| (place / bytes as u64) as usize);
                if let (Some(to), Some(value)) = (words.get_mut(number), word(entry, 2)) {
                    *to = if *to == 0 { value } else { *to };
                }
            }
            None::<()>
        });
    }

    /// The first answer of `find` to the bytes of such sections. Sections that together have more bytes than the file are left out:
    /// thousands may name the same ones.
    fn find_in_sections<T>(
        &self,
        which: impl Fn(&&Section) -> bool,
        mut find: impl FnMut(&Section, &[u8]) -> Option<T>,
    ) -> Option<T> {
        let mut left = self.image.len;
        self.sections.iter().filter(which).find_map(|section| {
            left = left.checked_sub(section.size)?;
            find(section, &self.bytes_of(section, MAX_DATA, "data").ok()?)
        })
    }

    fn word(&self, bytes: &[u8]) -> Option<u64> {
        match bytes.len() {
            4 => Some(self.endian.read_u32(*bytes.first_chunk()?).into()),
            _ => Some(self.endian.read_u64(*bytes.first_chunk()?)),
        }
    }
}
