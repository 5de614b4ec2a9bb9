//! Build-ids: the number that a linker gives to what it makes, so that a program, its debug file and a
//! recording of it can be matched however they are named. Its text form, and the ELF notes it is read from.

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

/// A build-id of up to 20 bytes, as perf.data stores it. Longer ones do not exist in practice and are cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildId {
    bytes: [u8; Self::MAX],
    len: u8,
}

impl BuildId {
    /// How many bytes a build-id has at most.
    pub const MAX: usize = 20;

    /// The first 20 of these bytes; `None` of no bytes, or of nothing but zeros, which files use for "none".
    pub fn new(id: &[u8]) -> Option<Self> {
        let id = &id[..id.len().min(Self::MAX)];
        if id.iter().all(|&byte| byte == 0) {
            return None;
        }
        let mut bytes = [0; Self::MAX];
        bytes[..id.len()].copy_from_slice(id);
        Some(BuildId { bytes, len: id.len() as u8 })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The same id, where one of the two may be padded with zeros: older files always store 20 bytes.
    pub fn matches(&self, other: &BuildId) -> bool {
        self.bytes == other.bytes
    }

    /// The first two hexadecimal digits and the rest, as build-id stores name folder and file.
    pub(crate) fn store_name(&self) -> (String, String) {
        let mut folder = self.to_string();
        let file = folder.split_off(2);
        (folder, file)
    }

    /// The id in a sequence of ELF notes whose numbers are in this byte order and which are padded to
    /// `align` (4 or 8) bytes. Notes that do not fit end the search.
    pub fn from_notes(mut notes: &[u8], big_endian: bool, align: u64) -> Option<Self> {
        const NT_GNU_BUILD_ID: u32 = 3;
        let align = if align == 8 { 8 } else { 4usize };
        let word = |bytes: &[u8]| {
            let bytes = bytes.try_into().ok()?;
            Some(if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
        };
        while let Some(header) = notes.get(..12) {
            let name_len = word(&header[..4])? as usize;
            let desc_len = word(&header[4..8])? as usize;
            let kind = word(&header[8..])?;
            let desc_start = 12usize.checked_add(name_len)?.checked_next_multiple_of(align)?;
            let desc_end = desc_start.checked_add(desc_len)?;
            if kind == NT_GNU_BUILD_ID && notes.get(12..)?.get(..name_len)? == b"GNU\0" {
                return BuildId::new(notes.get(desc_start..desc_end)?);
            }
            notes = notes.get(desc_end.checked_next_multiple_of(align)?..)?;
        }
        None
    }

    /// The running kernel's, from `/sys/kernel/notes`; `None` where it has none or it cannot be read.
    pub fn of_running_kernel() -> Option<Self> {
        Self::from_notes_file(Path::new("/sys/kernel/notes"))
    }

    /// A loaded module's, from `/sys/module/NAME/notes/.note.gnu.build-id`.
    pub fn of_loaded_module(name: &str) -> Option<Self> {
        if name.contains('/') || name.starts_with('.') {
            return None; // not the name of a module, and not to become another path
        }
        // Modules are listed with underscores, whatever their files are called.
        let name = name.replace('-', "_");
        Self::from_notes_file(&Path::new("/sys/module").join(name).join("notes/.note.gnu.build-id"))
    }

    /// From a file that holds bare notes in this machine's byte order, as sysfs has them.
    pub fn from_notes_file(path: &Path) -> Option<Self> {
        let mut notes = Vec::new();
        fs::File::open(path).ok()?.take(1 << 20).read_to_end(&mut notes).ok()?;
        Self::from_notes(&notes, cfg!(target_endian = "big"), 4)
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// Not the hexadecimal form of a build-id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildIdError(String);

impl fmt::Display for BuildIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a build-id: an even number of up to 40 hexadecimal digits, not all 0", self.0)
    }
}

impl std::error::Error for BuildIdError {}

impl FromStr for BuildId {
    type Err = BuildIdError;

    fn from_str(text: &str) -> Result<Self, BuildIdError> {
        let digit = |byte: u8| (byte as char).to_digit(16);
        let parse = || {
            if text.len() % 2 != 0 || text.len() > 2 * Self::MAX {
                return None;
            }
            let pairs = text.as_bytes().chunks_exact(2);
            let bytes: Option<Vec<u8>> =
                pairs.map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8)).collect();
            BuildId::new(&bytes?)
        };
        parse().ok_or_else(|| BuildIdError(text.chars().take(64).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, desc: &[u8], big: bool) -> Vec<u8> {
        let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut note = [word(name.len() as u32), word(desc.len() as u32), word(kind)].concat();
        note.extend_from_slice(name);
        note.resize(note.len().next_multiple_of(4), 0);
        note.extend_from_slice(desc);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    #[test]
    fn text_and_back() {
        let id: BuildId = "9DF2304bf0a5e4be19d1eb2c5e0ea2ab0fb6a4f1".parse().expect("an id");
        assert_eq!(id.to_string(), "9df2304bf0a5e4be19d1eb2c5e0ea2ab0fb6a4f1");
        assert_eq!(id.as_bytes().len(), 20);
        let short: BuildId = "0102".parse().expect("a short id");
        assert_eq!(short.as_bytes(), [1, 2]);
        for bad in ["", "0", "xy", "0000", &"11".repeat(21), "é1"] {
            assert!(bad.parse::<BuildId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn padding_does_not_matter_to_matches() {
        let short = BuildId::new(&[1, 2, 3]).expect("an id");
        let mut padded = [0; 20];
        padded[..3].copy_from_slice(&[1, 2, 3]);
        let padded = BuildId::new(&padded).expect("an id");
        assert!(short.matches(&padded) && short != padded);
    }

    #[test]
    fn found_among_other_notes_in_both_byte_orders() {
        for big in [false, true] {
            let mut notes = note(b"GNU\0", 1, &[0; 16], big);
            notes.extend(note(b"stapsdt\0", 3, &[7; 9], big));
            notes.extend(note(b"GNU\0", 3, &[5; 20], big));
            assert_eq!(BuildId::from_notes(&notes, big, 4), BuildId::new(&[5; 20]));
            assert_eq!(BuildId::from_notes(&notes[..notes.len() - 1], big, 4), None);
            assert_eq!(BuildId::from_notes(&notes, !big, 4), None);
        }
    }

    #[test]
    fn sizes_that_overflow_end_the_search() {
        for sizes in [[0xff; 8], [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]] {
            let notes = [&sizes[..], &[3, 0, 0, 0], &[0; 40]].concat();
            assert_eq!(BuildId::from_notes(&notes, false, 4), None);
        }
    }
}
