//! Files whose headers name the same bytes again and again.

use super::*;

/// The fields of a section header of 64 bits: kind, offset, size.
fn section(kind: u32, offset: u64, size: u64) -> Vec<u8> {
    let words = [1, kind].map(u32::to_le_bytes).concat();
    let longs = [0, 0, offset, size].map(u64::to_le_bytes).concat();
    [words, longs, [0u32; 2].map(u32::to_le_bytes).concat(), [4u64, 0].map(u64::to_le_bytes).concat()]
        .concat()
}

/// The header of a segment that is loaded.
fn loaded(offset: u64) -> Vec<u8> {
    [[1u32, 5].map(u32::to_le_bytes).concat(), [offset, 0, 0, 1, 1, 4096].map(u64::to_le_bytes).concat()]
        .concat()
}

/// A file of 64 bits with these segments, the bytes behind them and sections, the first of which has the names.
fn file(segments: &[Vec<u8>], bytes: &[u8], sections: &[Vec<u8>]) -> Result<Elf, Error> {
    let end = (64 + 56 * segments.len() + bytes.len()) as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([3u16, 62].map(u16::to_le_bytes).concat());
    file.extend(1u32.to_le_bytes());
    file.extend([0, 64, end].map(u64::to_le_bytes).concat());
    file.extend(0u32.to_le_bytes());
    let counts = [64, 56, segments.len() as u16, 64, sections.len() as u16 + 1, 1];
    file.extend(counts.map(u16::to_le_bytes).concat());
    file.extend(segments.concat());
    file.extend(bytes);
    file.extend(section(0, 0, 0));
    file.extend(sections.concat());
    Elf::from_bytes("made", file)
}

#[test]
fn notes_are_no_more_than_twice_what_the_file_has() {
    let note = [0u32, 0, 99].map(u32::to_le_bytes).concat().repeat(1000);
    let notes =
        |count: usize| file(&[], &note, &vec![section(elf::SHT_NOTE, 64, 12_000); count]).unwrap().build_id();
    assert_eq!(notes(2), Ok(None));
    let error = notes(60_000).expect_err("they lie on each other").to_string();
    assert!(error.ends_with("more notes than the file has bytes"), "{error}");
}

#[test]
fn names_of_sections_are_looked_at_as_far_as_they_are_wanted() {
    let mut names = b"\0.opd\0".to_vec();
    names.resize(1 << 17, b'A');
    let with = |at: u32| {
        let mut named = section(elf::SHT_PROGBITS, 64, 1);
        named[..4].copy_from_slice(&at.to_le_bytes());
        named
    };
    let strings = section(elf::SHT_STRTAB, 64, names.len() as u64);
    let file = file(&[], &names, &[strings, with(6), with(1), with(6)]).unwrap();
    let lengths: Vec<usize> = file.sections.iter().map(|section| file.name_of(section).len()).collect();
    assert_eq!(lengths, [4, 4, MAX_SECTION_NAME, 4, MAX_SECTION_NAME]);
    assert!(file.section(".opd").is_some() && file.section(".op").is_none() && file.section("A").is_none());
}

#[test]
fn loaded_segments_are_as_many_as_files_have() {
    let segments =
        |count: usize| file(&vec![loaded(1 << 40); count], &[], &[]).map(|file| file.layout.segments.len());
    assert_eq!(segments(MAX_LOADED), Ok(MAX_LOADED));
    let error = segments(MAX_LOADED + 1).expect_err("too many").to_string();
    assert!(
        error.contains("loaded segments") && error.contains("1025 is more than the limit of 1024"),
        "{error}"
    );
}
