//! The AUX area: a second ring in which a PMU that traces (Intel PT, Arm SPE, CoreSight) leaves its raw
//! data. `PERF_RECORD_AUX` in the ordinary ring tells what arrived there.
#![allow(unsafe_code)] // The borrow of shared memory, see `AuxArea::read`.

use crate::call::Call;
use crate::error::Result;
use crate::handle::Handle;
use crate::ring::Ring;
use perfuse_abi::page::offset;
use perfuse_sys::{Errno, Mapping, Protection, page_size};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The mapped AUX area of a [`Sampler`](crate::Sampler).
#[derive(Debug)]
pub(crate) struct AuxArea {
    map: Mapping,
    protection: Protection,
}

impl AuxArea {
    /// Asks for `pages` (a power of two) behind the ring and maps them (rules F9 and F40).
    pub(crate) fn map(event: &Handle, ring: &Ring, pages: usize, protection: Protection) -> Result<Self> {
        let (bytes, start) = (pages * page_size(), ring.map.len() as u64);
        if !ring.is_writable() {
            // The kernel learns place and size from the control page.
            return Err(event.error(Call::Mmap { bytes, offset: start }, Errno::EACCES));
        }
        ring.map.store_u64(offset::AUX_OFFSET, start, Relaxed);
        ring.map.store_u64(offset::AUX_SIZE, bytes as u64, Relaxed);
        let map = event.mmap(bytes, protection, start)?;
        Ok(AuxArea { map, protection })
    }

    /// Bytes of the area.
    pub(crate) fn size(&self) -> usize {
        self.map.len()
    }

    /// Whether the oldest data gives way.
    pub(crate) fn is_overwritten(&self) -> bool {
        self.protection == Protection::Read
    }

    /// Hands `take` what arrived since the last call, in two parts where it lies across the end, and
    /// gives the room back. `ring` is the ring of the same event. For an overwritten area: a copy of the whole of
    /// it, oldest bytes first; it makes sense if the event is off.
    pub(crate) fn read<T>(&mut self, ring: &mut Ring, take: impl FnOnce(&[u8], &[u8]) -> T) -> T {
        let size = self.map.len();
        let head = ring.map.load_u64(offset::AUX_HEAD, Acquire);
        if self.is_overwritten() {
            // Anybody who can name the event could switch it on meanwhile.
            let copy = self.copy();
            let (newest, oldest) = copy.split_at(head as usize % size);
            return take(oldest, newest);
        }
        let tail = ring.map.load_u64(offset::AUX_TAIL, Relaxed);
        let unread = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX).min(size);
        let from = tail as usize % size;
        let until_end = unread.min(size - from);
        // SAFETY: between tail and head the kernel does not write until the tail is moved below. The area is that of
        // this ring: the event of both is never exchanged.
        let first = unsafe { self.map.bytes(from, until_end) };
        // SAFETY: as above.
        let second = unsafe { self.map.bytes(0, unread - until_end) };
        let result = take(first, second);
        ring.map.store_u64(offset::AUX_TAIL, head, Release);
        result
    }

    fn copy(&self) -> Vec<u8> {
        let mut words = vec![0; self.map.len() / 8];
        self.map.copy_words(0, &mut words);
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    fn file(name: &str, bytes: usize) -> File {
        let path = std::env::temp_dir().join(format!("perfuse-aux-{name}-{}", std::process::id()));
        let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(bytes as u64).unwrap();
        file
    }

    #[test]
    fn an_overwritten_area_may_be_written_while_it_is_read() {
        let page = page_size();
        let (control, data) = (file("control", 2 * page), file("data", page));
        let head = page as u64 + 24;
        control.write_all_at(&head.to_ne_bytes(), offset::AUX_HEAD as u64).unwrap();
        data.write_all_at(&[7; 24], 0).unwrap();
        let mut ring = Ring::of(control.as_fd(), page, Protection::ReadWrite);
        let map = Mapping::new(data.as_fd(), page, Protection::Read, 0).unwrap();
        let mut area = AuxArea { map, protection: Protection::Read };
        area.read(&mut ring, |oldest, newest| {
            data.write_all_at(&vec![9; page], 0).unwrap();
            assert_eq!((oldest.len(), newest), (page - 24, &[7; 24][..]));
            assert!(oldest.iter().all(|&byte| byte == 0), "as it was when it was copied");
        });
    }
}
