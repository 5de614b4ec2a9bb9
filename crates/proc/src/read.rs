//! The files. A process that is gone meanwhile is an absence, and no error.

use crate::{Stat, Status};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// The processes that there are, in order.
pub fn processes() -> Vec<u32> {
    numbers(Path::new("/proc")).unwrap_or_default()
}

/// The processes of a user, in order.
pub fn processes_of(uid: u32) -> Vec<u32> {
    let is_of = |pid: &u32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|folder| folder.uid() == uid);
    processes().into_iter().filter(is_of).collect()
}

/// A process and its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its number.
    pub pid: u32,
    /// The name of its first thread, of which the kernel keeps 15 bytes.
    pub name: Vec<u8>,
    /// The name of its program's file, without folders; empty where that is not told.
    pub program: Vec<u8>,
}

impl Running {
    /// Whether it is called so, by either of its names.
    pub fn is_called(&self, name: &[u8]) -> bool {
        !name.is_empty() && (self.name == name || self.program == name)
    }
}

/// The processes of a user with their names, in order; of everybody, where no user is given.
pub fn running(uid: Option<u32>) -> Vec<Running> {
    use std::os::unix::ffi::OsStrExt;
    let program = |pid| {
        let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let file = path.file_name()?.as_bytes();
        Some(file.strip_suffix(b" (deleted)").unwrap_or(file).to_vec())
    };
    let pids = uid.map_or_else(processes, processes_of);
    pids.into_iter()
        .map(|pid| Running { pid, name: name(pid), program: program(pid).unwrap_or_default() })
        .collect()
}

/// The threads of a process, in order.
///
/// # Errors
///
/// "Not found" where there is no such process.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    numbers(Path::new(&format!("/proc/{pid}/task")))
}

/// Whether there is a process or thread of this number.
pub fn exists(tid: u32) -> bool {
    Path::new(&format!("/proc/{tid}")).exists()
}

/// The text of `stat` of a thread, to be [taken apart](Stat::parse).
pub fn stat(pid: u32, tid: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()
}

/// The text of `status` of a process or thread, to be [looked through](Status).
pub fn status(tid: u32) -> Option<String> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    Some(String::from_utf8_lossy(&status).into_owned())
}

/// That of this process.
pub fn own_status() -> Option<String> {
    status(std::process::id())
}

/// The process of a thread.
pub fn process_of(tid: u32) -> Option<u32> {
    Status(&status(tid)?).process()
}

/// The namespaces of a thread, device and inode of each, in the order of records of them (`struct perf_ns_link_info`): net, uts, ipc,
/// pid, user, mnt, cgroup. Zeros for those that the kernel was built without, or does not tell.
pub fn namespaces(tid: u32) -> [(u64, u64); 7] {
    ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"].map(|kind| {
        let found = fs::metadata(format!("/proc/{tid}/ns/{kind}"));
        found.map_or((0, 0), |found| (found.dev(), found.ino()))
    })
}

/// The name of a thread; nothing once it is gone.
pub fn name(tid: u32) -> Vec<u8> {
    let mut name = fs::read(format!("/proc/{tid}/comm")).unwrap_or_default();
    name.truncate(name.trim_ascii_end().len());
    name
}

/// The text of `maps` of a process, to be [taken apart](crate::maps).
///
/// # Errors
///
/// Those of opening and reading it: it is gone, or another user's.
pub fn maps(pid: u32) -> io::Result<Vec<u8>> {
    fs::read(format!("/proc/{pid}/maps"))
}

/// Whether a thread exists, and is more than an entry that its parent has not waited for.
pub fn is_alive(tid: u32) -> bool {
    let stat = fs::read(format!("/proc/{tid}/stat")).unwrap_or_default();
    Stat::parse(&stat).is_some_and(|stat| !stat.is_dead())
}

/// Whether a process has a thread that is alive: it may outlive its first one.
pub fn has_live_thread(pid: u32) -> bool {
    let threads = threads(pid).unwrap_or_default();
    threads
        .into_iter()
        .any(|tid| stat(pid, tid).is_some_and(|stat| Stat::parse(&stat).is_some_and(|stat| !stat.is_dead())))
}

/// The names of a folder that are numbers, in order.
fn numbers(folder: &Path) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(folder)?;
    let mut all: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable();
    Ok(all)
}

/// So many pages of a range are looked at; those behind count as not at hand.
const MOST_PAGES: usize = 64;

/// Of an entry of `/proc/PID/pagemap` (`Documentation/admin-guide/mm/pagemap.rst`): in memory, swapped out, and protected against
/// writing by a userfaultfd.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const PROTECTED: u64 = 1 << 57;

/// How many bytes of a range of memory can be read, or `written`, from its start on without waiting for anybody who fills pages;
/// where nothing tells, all. `pages` is the process's `pagemap`, `page_bytes` the size of a page.
pub fn at_hand(pages: &File, addr: u64, len: usize, written: bool, page_bytes: usize) -> usize {
    let size = page_bytes as u64;
    let first = addr / size;
    let last = addr.saturating_add(len.saturating_sub(1) as u64) / size;
    let count = (last - first + 1).min(MOST_PAGES as u64);
    let mut bytes = [0; 8 * MOST_PAGES];
    let bytes = &mut bytes[..8 * count as usize];
    let got = pages.read_at(bytes, first.saturating_mul(8)).unwrap_or(0);
    if got == 0 {
        return len;
    }
    let is_there = |entry: &[u8]| {
        let entry = entry.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        entry & (PRESENT | SWAPPED) != 0 && !(written && entry & PROTECTED != 0)
    };
    let there = bytes[..got].chunks_exact(8).take_while(|entry| is_there(entry)).count() as u64;
    ((first + there) * size).saturating_sub(addr).min(len as u64) as usize
}

/// The same of the memory of a process.
pub fn bytes_at_hand(pid: u32, addr: u64, len: usize, written: bool, page_bytes: usize) -> usize {
    File::open(format!("/proc/{pid}/pagemap"))
        .map_or(len, |pages| at_hand(&pages, addr, len, written, page_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Map;

    #[test]
    fn this_process_is_there() {
        let me = std::process::id();
        assert!(processes().contains(&me) && exists(me) && is_alive(me) && has_live_thread(me));
        assert!(threads(me).expect("threads").contains(&me));
        let stat = stat(me, me).expect("stat");
        let stat = Stat::parse(&stat).expect("a line");
        assert!(stat.parent() > Some(0) && stat.name == name(me), "{stat:?}");
        assert_eq!(process_of(me), Some(me));
        let maps = maps(me).expect("maps");
        assert!(crate::maps(&maps).any(|map| map.prot & Map::EXEC != 0 && map.inode != 0));
    }

    #[test]
    fn a_process_is_found_by_its_names() {
        let mine =
            running(None).into_iter().find(|running| running.pid == std::process::id()).expect("this one");
        let program = std::env::current_exe().expect("a program");
        let program = program.file_name().expect("its name").as_encoded_bytes();
        assert!(
            mine.is_called(program) && mine.is_called(&name(mine.pid)) && !mine.is_called(b""),
            "{mine:?}"
        );
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        assert_eq!(threads(u32::MAX).expect_err("none").kind(), io::ErrorKind::NotFound);
        assert!(!exists(u32::MAX) && !is_alive(u32::MAX) && name(u32::MAX).is_empty());
    }
}
