//! Build-ids of mapped files, for records of mappings, which Linux reads from the first page of a file.

use crate::proc::Map;
use crate::ptrace::Tid;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Those of the files that have been looked at, by device and inode.
#[derive(Debug, Default)]
pub(crate) struct BuildIds {
    known: HashMap<(u32, u32, u64), Option<Vec<u8>>>,
}

/// As much as is read of the notes of a file.
const MOST_NOTES: usize = 64 << 10;
const LONGEST: usize = 20;
const NOTE: u32 = 4;
const GNU_BUILD_ID: u32 = 3;

impl BuildIds {
    /// That of the file which a process has mapped there.
    pub(crate) fn of(&mut self, pid: Tid, map: &Map) -> Option<&[u8]> {
        if map.file == (0, 0, 0) {
            return None;
        }
        let known = self.known.entry(map.file).or_insert_with(|| {
            let path = map.name.strip_prefix(b"/")?;
            let path = PathBuf::from(format!("/proc/{pid}/root")).join(OsStr::from_bytes(path));
            let (major, minor, inode) = map.file;
            // It may have been replaced since, by anything.
            let file = perfuse_files::open_inode(&path, (major, minor), inode).ok()?;
            find(|at, into| file.read_exact_at(into, at).ok())
        });
        known.as_deref()
    }
}

fn number<const SIZE: usize>(bytes: &[u8], at: usize) -> Option<[u8; SIZE]> {
    bytes.get(at..at.checked_add(SIZE)?)?.try_into().ok()
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    number(bytes, at).map(|bytes| u16::from_le_bytes(bytes).into())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

/// Looks for it in an ELF file of this machine's byte order, 64 or 32 bits wide.
fn find(read: impl Fn(u64, &mut [u8]) -> Option<()>) -> Option<Vec<u8>> {
    let mut head = [0; 64];
    read(0, &mut head)?;
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let wide = head[4] == 2;
    let address =
        |bytes: &[u8], at: usize| if wide { long(bytes, at) } else { word(bytes, at).map(u64::from) };
    let table = address(&head, if wide { 32 } else { 28 })?;
    let [size, count] = [0, 2].map(|place| half(&head, if wide { 54 } else { 42 } + place));
    let (size, count) = (size.filter(|size| (32..=256).contains(size))?, count?.min(64));
    let mut headers = vec![0; size * count];
    read(table, &mut headers)?;
    headers.chunks_exact(size).filter(|header| word(header, 0) == Some(NOTE)).find_map(|header| {
        let from = address(header, if wide { 8 } else { 4 })?;
        let len = address(header, if wide { 32 } else { 16 })?;
        let mut notes = vec![0; usize::try_from(len).ok()?.min(MOST_NOTES)];
        read(from, &mut notes)?;
        in_notes(&notes)
    })
}

/// Looks for it among notes: lengths of name and text, a type, the name, the text, each at a multiple of 4.
fn in_notes(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let [name, text] = [0, 4].map(|at| word(notes, at).map(|len| len as usize));
        let (name, text) = (name?, text?);
        let start = 12 + name.checked_next_multiple_of(4)?;
        let end = start.checked_add(text)?;
        let id = notes.get(start..end)?;
        if word(notes, 8) == Some(GNU_BUILD_ID) && notes.get(12..16) == Some(b"GNU\0") {
            return Some(id).filter(|id| (1..=LONGEST).contains(&id.len())).map(<[u8]>::to_vec);
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8; 4], text: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [4, text.len() as u32, kind] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(name);
        bytes.extend(text);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn notes_are_searched() {
        let id: Vec<u8> = (1..=20).collect();
        let other = note(1, b"GNU\0", &[7; 15]);
        let own = note(GNU_BUILD_ID, b"GNU\0", &id);
        assert_eq!(in_notes(&[&other[..], &own].concat()), Some(id));
        assert_eq!(in_notes(&other), None);
        assert_eq!(in_notes(&note(GNU_BUILD_ID, b"XYZ\0", &[1; 20])), None);
        assert_eq!(in_notes(&note(GNU_BUILD_ID, b"GNU\0", &[1; 24])), None, "too long");
        for end in 0..own.len() {
            assert_eq!(in_notes(&own[..end]), None, "cut at {end}");
        }
        assert_eq!(in_notes(&[0xff; 64]), None);
    }

    #[test]
    fn only_the_mapped_file_is_read() {
        let folder = std::env::temp_dir().join(format!("perfuse-build-id-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        // A process can leave something under the name that the kernel shows for a file which it removed.
        let fifo = folder.join("program (deleted)");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.is_ok_and(|status| status.success()));
        let other = folder.join("program");
        std::fs::copy("/proc/self/exe", &other).expect("a copy of this program");
        let inode =
            |path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("it is there"));
        let mut known = BuildIds::default();
        let mut of = |path: &std::path::Path, inode| {
            let name = path.as_os_str().as_bytes().to_vec();
            let file = (0, 1, inode);
            let map = Map { from: 0, to: 4096, prot: 5, shared: false, pgoff: 0, file, name };
            known.of(std::process::id() as Tid, &map).map(<[u8]>::len)
        };
        assert_eq!(of(&fifo, inode(&fifo)), None, "a FIFO is not waited for");
        assert_eq!(of(&other, inode(&other) + 1), None, "another file");
        assert_eq!(of(&other, inode(&other)), Some(20));
        std::fs::remove_dir_all(&folder).expect("it can be removed");
    }

    #[test]
    fn what_is_no_elf_file_has_none() {
        let read = |bytes: &'static [u8]| {
            move |at: u64, into: &mut [u8]| {
                into.copy_from_slice(bytes.get(at as usize..at as usize + into.len())?);
                Some(())
            }
        };
        assert_eq!(find(read(b"#!/bin/sh")), None);
        assert_eq!(find(read(&[0xff; 100])), None);
        let mut wrong = [0xff; 100];
        wrong[..5].copy_from_slice(b"\x7fELF\x02");
        assert_eq!(find(read(Box::leak(Box::new(wrong)))), None);
    }
}
