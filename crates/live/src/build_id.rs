//! Build-ids of mapped files, for records of mappings, which Linux reads from the first page of a file.

use crate::proc::Map;
use crate::ptrace::Tid;
use perfuse_files::BuildId;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Those of the files that have been looked at, by device and inode.
#[derive(Debug, Default)]
pub(crate) struct BuildIds {
    known: HashMap<(u32, u32, u64), Option<BuildId>>,
}

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
            BuildId::of_elf(|at, into| file.read_exact_at(into, at).ok())
        });
        known.as_ref().map(BuildId::as_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(BuildId::of_elf(read(b"#!/bin/sh")), None);
        assert_eq!(BuildId::of_elf(read(&[0xff; 100])), None);
        let mut wrong = [0xff; 100];
        wrong[..5].copy_from_slice(b"\x7fELF\x02");
        assert_eq!(BuildId::of_elf(read(Box::leak(Box::new(wrong)))), None);
    }
}
