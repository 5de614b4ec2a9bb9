//! Memory of maps in tools: arrays with `BPF_F_MMAPABLE`, and ring buffers. Programs work on the map's own memory, and tools on a
//! memory file; before a run what the tool has written is taken over, and after it what the program has. So a store of the tool
//! between the two is lost where the program stores to the same word, as it may be on Linux.

use super::{FileId, Object, Shared, State};
use crate::memory;
use crate::proc;
use crate::ptrace::Tid;
use perfuse_abi::Errno;
use perfuse_bpf::map::Ring;
use perfuse_bpf::map::{ENOTSUPP, flag};
use perfuse_bpf::{MapId, MapKind};
use perfuse_engine::Memory as _;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const WORD: usize = 8;

/// A memory file that shows a map, and who has mapped it.
#[derive(Debug)]
pub(super) struct Mapped {
    memory: Arc<memory::Shared>,
    inode: u64,
    by: BTreeSet<Tid>,
    /// The values of an array as the file has them.
    shadow: Vec<u8>,
    /// The position of the writer of a ring as the file has it.
    producer: u64,
}

/// A part of a mapping: where in the file it begins, and how long it is.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) memory: Arc<memory::Shared>,
    /// Offset and length of each part, in the order of addresses.
    pub(crate) parts: Vec<(u64, u64)>,
}

impl Mapped {
    /// Whether it is still in a process that mapped it.
    pub(super) fn is_mapped(&self) -> bool {
        self.any_map(|_| true)
    }

    pub(super) fn is_writable(&self) -> bool {
        const PROT_WRITE: u32 = 2;
        self.any_map(|prot| prot & PROT_WRITE != 0)
    }

    fn any_map(&self, which: impl Fn(u32) -> bool) -> bool {
        let is_own = |map: &proc::Map| map.file.2 == self.inode && which(map.prot);
        self.by.iter().any(|pid| proc::maps(*pid).iter().any(is_own))
    }

    fn load(&self, word: usize) -> u64 {
        self.memory.words()[word].load(Ordering::Acquire)
    }

    fn store(&self, word: usize, value: u64) {
        self.memory.words()[word].store(value, Ordering::Release);
    }

    /// Shows the records of a ring that are new.
    fn show(&mut self, ring: &Ring) {
        let (bytes, page) = (ring.bytes(), perfuse_sys::page_size());
        let producer = ring.positions().1;
        let mut at = self.producer;
        while at < producer {
            let place = (at & (ring.size() - 1)) as usize;
            let word = bytes[place..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
            self.store((2 * page + place) / WORD, word);
            at += WORD as u64;
        }
        self.producer = producer;
        self.store(page / WORD, producer);
    }
}

impl Shared {
    /// `mmap(2)` of a file: the memory to map instead. Errors are those of maps of this kind.
    pub(crate) fn map(
        &self,
        file: FileId,
        by: Tid,
        (offset, len): (u64, u64),
        (writes, shared): (bool, bool),
    ) -> Result<Region, Errno> {
        let mut state = self.lock();
        let found = state.files.get(&file).copied().ok_or(Errno::EBADF)?;
        let Object::Map(id) = found.object else { return Err(Errno::ENODEV) };
        let map = state.map(id)?;
        let spec = map.spec().clone();
        let is_ring = spec.kind == MapKind::RingBuf;
        if !(is_ring || spec.kind == MapKind::Array) {
            return Err(ENOTSUPP);
        }
        if !shared {
            return Err(Errno::EINVAL);
        }
        if writes && spec.flags & flag::RDONLY_PROG != 0 {
            return Err(Errno::EACCES);
        }
        if writes && map.is_frozen() {
            return Err(Errno::EPERM);
        }
        let page = perfuse_sys::page_size() as u64;
        let data = if is_ring { u64::from(spec.max_entries) } else { map.cells().len() as u64 };
        let data = data.next_multiple_of(page);
        let (whole, beyond) = if is_ring { (2 * page + data, data) } else { (data, 0) };
        // The reader's position alone is for the reader to write.
        if is_ring && writes && (offset != 0 || len != page) {
            return Err(Errno::EPERM);
        }
        let is_array = !is_ring && spec.flags & flag::MMAPABLE != 0;
        if !(is_ring || is_array) || offset.checked_add(len).is_none_or(|end| end > whole + beyond) {
            return Err(Errno::EINVAL);
        }
        state.show(id, whole as usize)?;
        let own = state.maps.get_mut(&id).and_then(|own| own.mapped.as_mut()).ok_or(Errno::ENOMEM)?;
        own.by.insert(by);
        let first = (offset < whole).then(|| (offset, len.min(whole - offset)));
        let again = offset.max(whole);
        let second = (offset + len > whole).then(|| (again - beyond, offset + len - again));
        Ok(Region { memory: own.memory.clone(), parts: first.into_iter().chain(second).collect() })
    }

    /// Whether a ring buffer has something to read; `None` of other files.
    pub(crate) fn has_records(&self, file: FileId) -> Option<(u32, bool)> {
        let mut state = self.lock();
        let Object::Map(id) = state.files.get(&file)?.object else { return None };
        state.take_from_mapped(id);
        let map = state.maps.get(&id)?.map;
        let (consumer, producer) = state.machine.maps.get_mut(map).ok()?.ring()?.positions();
        Some((id, consumer != producer))
    }

    /// The rings that have got a record for a reader who waits, by their ids.
    pub(crate) fn take_woken(&self) -> BTreeSet<u32> {
        std::mem::take(&mut self.lock().woken)
    }

    /// The ring buffers that there are, by their ids.
    pub(crate) fn is_there(&self, ring: u32) -> bool {
        self.lock().maps.contains_key(&ring)
    }
}

impl State {
    /// Makes the memory file of a map, if there is none yet.
    fn show(&mut self, id: u32, bytes: usize) -> Result<(), Errno> {
        let own = self.maps.get_mut(&id).ok_or(Errno::EBADF)?;
        if own.mapped.is_some() {
            return Ok(());
        }
        let map = self.machine.maps.get_mut(own.map)?;
        let memory = Arc::new(memory::Shared::new(bytes)?);
        let file = memory.as_fd().try_clone_to_owned().map(std::fs::File::from);
        let inode = file.and_then(|file| file.metadata()).map_err(|_| Errno::EMFILE)?.st_ino();
        let shadow = vec![0; map.cells().len()];
        let mut mapped = Mapped { memory, inode, by: BTreeSet::new(), shadow, producer: 0 };
        if let Some(ring) = map.ring() {
            let (consumer, producer) = ring.positions();
            mapped.store(0, consumer);
            mapped.producer = producer.saturating_sub(ring.size());
            mapped.show(ring);
        }
        own.mapped = Some(mapped);
        self.give_to_mapped(id);
        Ok(())
    }

    /// Takes over what tools have written to the memory of a map.
    pub(super) fn take_from_mapped(&mut self, id: u32) {
        let Some(own) = self.maps.get_mut(&id) else { return };
        let (Some(mapped), Ok(map)) = (&mut own.mapped, self.machine.maps.get_mut(own.map)) else { return };
        if let Some(ring) = map.ring() {
            ring.set_consumer(mapped.load(0));
            return;
        }
        for (at, cell) in map.cells_mut().chunks_exact_mut(WORD).enumerate() {
            cell.copy_from_slice(&mapped.load(at).to_ne_bytes());
        }
        mapped.shadow.copy_from_slice(map.cells());
    }

    /// Shows tools what has changed in a map since then.
    pub(super) fn give_to_mapped(&mut self, id: u32) {
        let Some(own) = self.maps.get_mut(&id) else { return };
        let (Some(mapped), Ok(map)) = (&mut own.mapped, self.machine.maps.get_mut(own.map)) else { return };
        if let Some(ring) = map.ring() {
            mapped.show(ring);
            return;
        }
        let words = map.cells().chunks_exact(WORD).zip(mapped.shadow.chunks_exact(WORD)).enumerate();
        for (at, (now, before)) in words {
            if now != before {
                let word = now.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
                mapped.memory.words()[at].store(word, Ordering::Release);
            }
        }
        mapped.shadow.copy_from_slice(map.cells());
    }

    /// A program that uses these maps is about to run.
    pub(super) fn before_run(&mut self, maps: &[(u32, MapId)]) {
        maps.iter().for_each(|(id, _)| self.take_from_mapped(*id));
    }

    /// It has run, and wakes readers of some of them.
    pub(super) fn after_run(&mut self, maps: &[(u32, MapId)], woken: &[MapId]) {
        for (id, map) in maps {
            self.give_to_mapped(*id);
            if woken.contains(map) {
                self.woken.insert(*id);
            }
        }
    }
}
