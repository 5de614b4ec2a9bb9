//! Build-ids: the number that a linker gives to what it makes, so that a program, its debug file and a
//! recording of it can be matched however they are named. Its text form, and the ELF notes it is read from.

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

/// As much as is read of the notes of a program header.
const MOST_NOTES: usize = 64 << 10;

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
    pub fn store_name(&self) -> (String, String) {
        let mut folder = self.to_string();
        let file = folder.split_off(2);
        (folder, file)
    }

    /// The id in a sequence of ELF notes whose numbers are in this byte order and which are padded to
    /// `align` (4 or 8) bytes. Notes that do not fit end the search.
    pub fn from_notes(notes: &[u8], big_endian: bool, align: u64) -> Option<Self> {
        BuildId::new(in_notes(notes, big_endian, align)?)
    }

    /// The id of an ELF file of this machine's byte order, 64 or 32 bits wide, as Linux finds it for records of mappings: in
    /// the notes that its program headers name, 20 bytes at most. `read` fills bytes of the file from an offset on, or fails.
    pub fn of_elf(read: impl Fn(u64, &mut [u8]) -> Option<()>) -> Option<Self> {
        const NOTE: u32 = 4;
        let mut head = [0; 64];
        read(0, &mut head)?;
        if !head.starts_with(b"\x7fELF") {
            return None;
        }
        let wide = head[4] == 2;
        let half = |bytes: &[u8], at| number(bytes, at).map(|bytes| u16::from_ne_bytes(bytes).into());
        let word = |bytes: &[u8], at| number(bytes, at).map(u32::from_ne_bytes);
        let long = |bytes: &[u8], at| number(bytes, at).map(u64::from_ne_bytes);
        let address = |bytes: &[u8], at| if wide { long(bytes, at) } else { word(bytes, at).map(u64::from) };
        let table = address(&head, if wide { 32 } else { 28 })?;
        let [size, count]: [Option<usize>; 2] =
            [0, 2].map(|place| half(&head, if wide { 54 } else { 42 } + place));
        let (size, count) = (size.filter(|size| (32..=256).contains(size))?, count?.min(64));
        let mut headers = vec![0; size * count];
        read(table, &mut headers)?;
        headers.chunks_exact(size).filter(|header| word(header, 0) == Some(NOTE)).find_map(|header| {
            let from = address(header, if wide { 8 } else { 4 })?;
            let len = address(header, if wide { 32 } else { 16 })?;
            let mut notes = vec![0; usize::try_from(len).ok()?.min(MOST_NOTES)];
            read(from, &mut notes)?;
            let id = in_notes(&notes, cfg!(target_endian = "big"), 4)?;
            BuildId::new(id).filter(|_| id.len() <= Self::MAX)
        })
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

/// The bytes of the id in a sequence of notes.
fn in_notes(mut notes: &[u8], big_endian: bool, align: u64) -> Option<&[u8]> {
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
            return notes.get(desc_start..desc_end);
        }
        notes = notes.get(desc_end.checked_next_multiple_of(align)?..)?;
    }
    None
}

fn number<const SIZE: usize>(bytes: &[u8], at: usize) -> Option<[u8; SIZE]> {
    bytes.get(at..at.checked_add(SIZE)?)?.try_into().ok()
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
    fn descriptions_may_be_aligned_to_eight_bytes() {
        // As x86 linkers lay out `.note.gnu.property` beside the id: names of four bytes end at 16.
        let mut notes = note(b"GNU\0", 5, &[7; 12], false);
        notes.resize(32, 0);
        notes.extend(note(b"GNU\0", 3, &[5; 20], false));
        assert_eq!(BuildId::from_notes(&notes, false, 8), BuildId::new(&[5; 20]));
        assert_eq!(BuildId::from_notes(&notes, false, 4), None);
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

    /// A file as far as Linux looks at it: a header, one program header, notes.
    fn elf(notes: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..5].copy_from_slice(b"\x7fELF\x02");
        bytes[32..40].copy_from_slice(&64u64.to_ne_bytes());
        bytes[54..56].copy_from_slice(&56u16.to_ne_bytes());
        bytes[56..58].copy_from_slice(&1u16.to_ne_bytes());
        bytes[64..68].copy_from_slice(&4u32.to_ne_bytes());
        bytes[72..80].copy_from_slice(&120u64.to_ne_bytes());
        bytes[96..104].copy_from_slice(&(notes.len() as u64).to_ne_bytes());
        bytes.extend(notes);
        bytes
    }

    #[test]
    fn a_file_tells_its_own() {
        let find = |file: &[u8]| {
            BuildId::of_elf(|at, into| {
                let start = usize::try_from(at).ok()?;
                into.copy_from_slice(file.get(start..start.checked_add(into.len())?)?);
                Some(())
            })
        };
        let big = cfg!(target_endian = "big");
        let other = note(b"GNU\0", 1, &[7; 15], big);
        let own = elf(&[&other[..], &note(b"GNU\0", 3, &[5; 20], big)].concat());
        assert_eq!(find(&own), BuildId::new(&[5; 20]));
        assert_eq!(find(&elf(&other)), None);
        assert_eq!(find(&elf(&note(b"XYZ\0", 3, &[1; 20], big))), None);
        assert_eq!(find(&elf(&note(b"GNU\0", 3, &[1; 24], big))), None, "too long");
        for end in 0..own.len() {
            assert_eq!(find(&own[..end]), None, "cut at {end}");
        }
        assert_eq!(find(&elf(&[0xff; 64])), None);
    }

    #[test]
    fn sizes_that_overflow_end_the_search() {
        for sizes in [[0xff; 8], [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]] {
            let notes = [&sizes[..], &[3, 0, 0, 0], &[0; 40]].concat();
            assert_eq!(BuildId::from_notes(&notes, false, 4), None);
        }
    }
}
