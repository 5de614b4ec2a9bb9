//! The AUX area: a second ring in which a PMU that traces (Intel PT, Arm SPE, CoreSight) leaves its raw
//! data. `PERF_RECORD_AUX` in the ordinary ring tells what arrived there.
#![allow(unsafe_code)] // The borrow of shared memory, see `AuxArea::read`.

use crate::error::{Call, Result};
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
    /// gives the room back. `ring` is the ring of the same event. For an overwritten area: the whole of
    /// it, oldest bytes first; the event must be off.
    pub(crate) fn read<T>(&mut self, ring: &mut Ring, take: impl FnOnce(&[u8], &[u8]) -> T) -> T {
        let size = self.map.len();
        let head = ring.map.load_u64(offset::AUX_HEAD, Acquire);
        let tail = match self.protection {
            Protection::ReadWrite => ring.map.load_u64(offset::AUX_TAIL, Relaxed),
            Protection::Read => head.wrapping_sub(size as u64),
        };
        let unread = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX).min(size);
        let from = tail as usize % size;
        let until_end = unread.min(size - from);
        // SAFETY: between tail and head the kernel does not write until the tail is moved below; an
        // overwritten area is not written while the event is off.
        let first = unsafe { self.map.bytes(from, until_end) };
        // SAFETY: as above.
        let second = unsafe { self.map.bytes(0, unread - until_end) };
        let result = take(first, second);
        if self.protection == Protection::ReadWrite {
            ring.map.store_u64(offset::AUX_TAIL, head, Release);
        }
        result
    }
}
