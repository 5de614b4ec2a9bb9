//! The commands about maps and what is in them.

use super::attr::Attr;
use super::{Caller, DONE, EVENT, File, FileId, MAP, Map, Object, Opened, Reply, State, name};
use crate::cgroups;
use perfuse_abi::Errno;
use perfuse_bpf::map::{ENOTSUPP, flag};
use perfuse_bpf::{MapKind, MapSpec, ProgramId};
use perfuse_engine::Engine;
use std::collections::BTreeMap;

/// Flags of how a map is open.
pub(super) const ACCESS: u32 = flag::RDONLY | flag::WRONLY;

/// Whether files with these flags read and write: `EINVAL` of both limits at once.
pub(super) fn access(flags: u32) -> Result<(bool, bool), Errno> {
    match flags & ACCESS {
        ACCESS => Err(Errno::EINVAL),
        only => Ok((only != flag::WRONLY, only != flag::RDONLY)),
    }
}

/// Elements that one call is answered for: others wait meanwhile.
const MOST_AT_ONCE: u32 = 1 << 18;
/// The last type of maps in Linux 6.18.
const LAST_TYPE: u32 = 33;

impl Map {
    pub(super) fn is_mapped(&self) -> bool {
        self.mapped.as_ref().is_some_and(super::mapped::Mapped::is_mapped)
    }
}

impl State {
    /// `BPF_MAP_CREATE`.
    pub(super) fn create_map(&mut self, caller: &dyn Caller, attr: &Attr) -> Result<Reply, Errno> {
        attr.ends_at(92)?;
        let [map_type, key_size, value_size, max_entries, flags] = [0, 4, 8, 12, 16].map(|at| attr.u32(at));
        let [types, key_type, value_type, kernel_type] = [48, 52, 56, 60].map(|at| attr.u32(at));
        let is_extra = attr.u64(64) != 0 || attr.u64(80) != 0 || attr.u32(88) != 0;
        if key_type != 0 && value_type == 0 || is_extra || attr.u32(44) != 0 {
            return Err(Errno::EINVAL);
        }
        let (reads, writes) = access(flags)?;
        if flags & flag::NUMA_NODE != 0 && attr.u32(24) != 0 {
            return Err(Errno::EINVAL);
        }
        let Some(kind) = MapKind::of_number(map_type) else {
            if (1..=LAST_TYPE).contains(&map_type) {
                self.tell_not_served(format!("a map of type {map_type}"));
            }
            return Err(Errno::EINVAL);
        };
        let spec = MapSpec { kind, key_size, value_size, max_entries, flags };
        spec.check()?;
        if kind == MapKind::StackTrace && flags & flag::STACK_BUILD_ID != 0 {
            self.tell_not_served("stacks with build-ids".to_owned());
            return Err(Errno::EINVAL);
        }
        let name = name(&attr.name(28))?;
        if kernel_type != 0 {
            return Err(Errno::EINVAL);
        }
        let is_typed = key_type != 0 || value_type != 0;
        let types = if is_typed { self.own_types_of(caller, types as i32)? } else { 0 };
        let map = match self.machine.maps.create(spec.clone()) {
            Err(Errno::ENOMEM | Errno::ENFILE) => {
                self.collect();
                self.machine.maps.create(spec)?
            }
            created => created?,
        };
        let id = self.number(MAP);
        self.maps.insert(
            id,
            Map {
                map,
                name,
                files: 0,
                set_by: BTreeMap::new(),
                types: [types, key_type, value_type],
                owner: None,
                mapped: None,
            },
        );
        Ok(Reply::Opens(self.open(Object::Map(id), reads, writes)))
    }

    /// The map of a descriptor, by its id, and how it is open.
    pub(super) fn map_of(&self, caller: &dyn Caller, fd: i32) -> Result<(u32, FileId, File), Errno> {
        let (id, file) = self.file(caller, fd)?;
        match file.object {
            Object::Map(map) => Ok((map, id, file)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The map of a descriptor that may be read or written by calls: `EPERM`.
    fn map_to(
        &self,
        caller: &dyn Caller,
        fd: u32,
        reads: bool,
        writes: bool,
    ) -> Result<(u32, FileId), Errno> {
        let (id, by, file) = self.map_of(caller, fd as i32)?;
        let frozen = self.map(id)?.is_frozen();
        if reads && !file.reads || writes && (!file.writes || frozen) {
            return Err(Errno::EPERM);
        }
        Ok((id, by))
    }

    pub(super) fn map(&self, id: u32) -> Result<&perfuse_bpf::Map, Errno> {
        self.machine.maps.get(self.maps.get(&id).ok_or(Errno::EBADF)?.map)
    }

    fn map_mut(&mut self, id: u32) -> Result<&mut perfuse_bpf::Map, Errno> {
        self.machine.maps.get_mut(self.maps.get(&id).ok_or(Errno::EBADF)?.map)
    }

    /// A key: none for a map without keys, where the address has to be null.
    fn key(&self, caller: &dyn Caller, id: u32, addr: u64) -> Result<Vec<u8>, Errno> {
        let len = self.map(id)?.spec().key_size as usize;
        if len == 0 {
            return if addr == 0 { Ok(Vec::new()) } else { Err(Errno::EINVAL) };
        }
        let mut key = vec![0; len];
        caller.read(addr, &mut key)?;
        Ok(key)
    }

    /// `BPF_MAP_LOOKUP_ELEM`.
    pub(super) fn lookup(&mut self, caller: &mut dyn Caller, attr: &Attr) -> Result<Reply, Errno> {
        attr.ends_at(32)?;
        let flags = attr.u64(24);
        if flags & !flag::LOCK != 0 {
            return Err(Errno::EINVAL);
        }
        let (id, _) = self.map_to(caller, attr.u32(0), true, false)?;
        // No value has a lock.
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let key = self.key(caller, id, attr.u64(8))?;
        let value = self.value(id, &key)?;
        caller.write(attr.u64(16), &value)?;
        DONE
    }

    /// The value of a key, as callers see it.
    fn value(&mut self, id: u32, key: &[u8]) -> Result<Vec<u8>, Errno> {
        self.take_from_mapped(id);
        let value = self.map(id)?.lookup(key)?;
        if self.map(id)?.spec().kind != MapKind::ProgArray {
            return Ok(value);
        }
        // A program is told by its id.
        let handle = value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let program = self.id_of(ProgramId(handle)).ok_or(Errno::ENOENT)?;
        Ok(program.to_ne_bytes().to_vec())
    }

    /// `BPF_MAP_UPDATE_ELEM`.
    pub(super) fn update(
        &mut self,
        engine: &Engine,
        caller: &mut dyn Caller,
        attr: &Attr,
    ) -> Result<Reply, Errno> {
        attr.ends_at(32)?;
        let (id, by) = self.map_to(caller, attr.u32(0), false, true)?;
        if attr.u64(24) & flag::LOCK != 0 {
            return Err(Errno::EINVAL);
        }
        self.set(engine, caller, (id, by), attr.u64(8), attr.u64(16), attr.u64(24))?;
        DONE
    }

    /// Sets the value of a key, both of the caller's memory.
    fn set(
        &mut self,
        engine: &Engine,
        caller: &mut dyn Caller,
        (id, by): (u32, FileId),
        key: u64,
        value: u64,
        flags: u64,
    ) -> Result<(), Errno> {
        let key = self.key(caller, id, key)?;
        let mut bytes = vec![0; self.map(id)?.user_value_bytes()];
        caller.read(value, &mut bytes)?;
        match self.map(id)?.spec().kind {
            kind if kind.has_objects() => self.set_object(engine, caller, (id, by), &key, &bytes, flags),
            _ => {
                self.take_from_mapped(id);
                self.map_mut(id)?.update(&key, &bytes, flags)?;
                self.give_to_mapped(id);
                Ok(())
            }
        }
    }

    /// Puts a program, an event or a cgroup, whose descriptor is the value, into an array of these (rule K21).
    fn set_object(
        &mut self,
        engine: &Engine,
        caller: &mut dyn Caller,
        (id, by): (u32, FileId),
        key: &[u8],
        value: &[u8],
        flags: u64,
    ) -> Result<(), Errno> {
        let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let (index, fd) = (number(key), number(value) as i32);
        let (kind, most) = (self.map(id)?.spec().kind, self.map(id)?.spec().max_entries);
        if flags != flag::ANY {
            return Err(Errno::EINVAL);
        }
        if index >= most {
            return Err(Errno::E2BIG);
        }
        let handle = if kind == MapKind::CgroupArray {
            caller.cgroup(fd).map(cgroups::handle)?
        } else if kind == MapKind::ProgArray {
            let program = &self.programs[&self.program_of(caller, fd)?];
            let (handle, program_type) = (program.program.0, program.program_type);
            let own = self.maps.get_mut(&id).ok_or(Errno::EBADF)?;
            if *own.owner.get_or_insert(program_type) != program_type {
                return Err(Errno::EINVAL);
            }
            handle
        } else {
            let Opened::Event(event) = caller.opened(fd) else { return Err(Errno::EBADF) };
            engine.is_for_programs(event)?;
            caller.hold(event);
            let handle = self.number(EVENT);
            self.events.insert(handle, event);
            handle
        };
        self.map_mut(id)?.update(key, &handle.to_ne_bytes(), flags)?;
        let own = self.maps.get_mut(&id).ok_or(Errno::EBADF)?;
        let before = own.set_by.insert(index, (by, handle));
        if let Some((_, handle)) = before.filter(|_| kind == MapKind::PerfEventArray) {
            self.release_event(handle);
        }
        Ok(())
    }

    /// `BPF_MAP_DELETE_ELEM`.
    pub(super) fn delete(&mut self, caller: &mut dyn Caller, attr: &Attr) -> Result<Reply, Errno> {
        attr.ends_at(16)?;
        let (id, _) = self.map_to(caller, attr.u32(0), false, true)?;
        self.unset(caller, id, attr.u64(8))?;
        DONE
    }

    fn unset(&mut self, caller: &dyn Caller, id: u32, key: u64) -> Result<(), Errno> {
        let key = self.key(caller, id, key)?;
        self.map_mut(id)?.delete(&key)?;
        let own = self.maps.get_mut(&id).ok_or(Errno::EBADF)?;
        let index = key.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        if let Some((_, handle)) = index.and_then(|index| own.set_by.remove(&index)) {
            if self.map(id)?.spec().kind == MapKind::PerfEventArray {
                self.release_event(handle);
            }
        }
        Ok(())
    }

    /// `BPF_MAP_GET_NEXT_KEY`.
    pub(super) fn next_key(&mut self, caller: &mut dyn Caller, attr: &Attr) -> Result<Reply, Errno> {
        attr.ends_at(24)?;
        let (id, _) = self.map_to(caller, attr.u32(0), true, false)?;
        let key = match attr.u64(8) {
            0 => None,
            addr => Some(self.key(caller, id, addr)?),
        };
        let next = self.map(id)?.next_key(key.as_deref())?;
        caller.write(attr.u64(16), &next)?;
        DONE
    }

    /// `BPF_MAP_LOOKUP_AND_DELETE_ELEM`.
    pub(super) fn take(&mut self, caller: &mut dyn Caller, attr: &Attr) -> Result<Reply, Errno> {
        attr.ends_at(32)?;
        let flags = attr.u64(24);
        if flags & !flag::LOCK != 0 {
            return Err(Errno::EINVAL);
        }
        let (id, _) = self.map_to(caller, attr.u32(0), true, true)?;
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let key = self.key(caller, id, attr.u64(8))?;
        let value = self.map_mut(id)?.lookup_and_delete(&key)?;
        caller.write(attr.u64(16), &value)?;
        DONE
    }

    /// `BPF_MAP_FREEZE`.
    pub(super) fn freeze(&mut self, caller: &dyn Caller, attr: &Attr) -> Result<Reply, Errno> {
        attr.ends_at(4)?;
        let (id, _) = self.map_to(caller, attr.u32(0), false, true)?;
        if self
            .maps
            .get(&id)
            .is_some_and(|own| own.mapped.as_ref().is_some_and(super::mapped::Mapped::is_writable))
        {
            return Err(Errno::EBUSY);
        }
        self.map_mut(id)?.freeze()?;
        DONE
    }

    /// `BPF_MAP_*_BATCH`: how many were done is written in any case.
    pub(super) fn batch(
        &mut self,
        engine: &Engine,
        caller: &mut dyn Caller,
        command: u32,
        attr: &Attr,
    ) -> Result<Reply, Errno> {
        const LOOKUP: u32 = 24;
        const TAKE: u32 = 25;
        const UPDATE: u32 = 26;
        const COUNT: u64 = 32;
        attr.ends_at(56)?;
        let looks = matches!(command, LOOKUP | TAKE);
        let (id, by) = self.map_to(caller, attr.u32(36), looks, command != LOOKUP)?;
        let kind = self.map(id)?.spec().kind;
        let is_array = matches!(kind, MapKind::Array | MapKind::PerCpuArray);
        let is_hash =
            matches!(kind, MapKind::Hash | MapKind::PerCpuHash | MapKind::LruHash | MapKind::LruPerCpuHash);
        let is_trie = kind == MapKind::LpmTrie && command != TAKE;
        if !(is_hash || is_trie || is_array && matches!(command, LOOKUP | UPDATE)) {
            return Err(ENOTSUPP);
        }
        // No value has a lock. Flags of the whole are looked at where hashes are read alone.
        let flags = attr.u64(40);
        if flags != 0 || is_hash && looks && attr.u64(48) != 0 {
            return Err(Errno::EINVAL);
        }
        let (keys, values, most) = (attr.u64(16), attr.u64(24), attr.u32(32));
        // As if a signal had come.
        let (most, goes_on) =
            if most > MOST_AT_ONCE { (MOST_AT_ONCE, Err(Errno::EINTR)) } else { (most, DONE) };
        if most == 0 {
            return DONE;
        }
        let key_bytes = u64::from(self.map(id)?.spec().key_size);
        let value_bytes = self.map(id)?.user_value_bytes() as u64;
        let place = |number: u32, bytes: u64, start: u64| start.wrapping_add(u64::from(number) * bytes);
        if looks {
            return self.look_in_batches(caller, attr, (id, is_hash), most, command == TAKE).and(goes_on);
        }
        let mut count = 0;
        let mut answer = DONE;
        while count < most && answer.is_ok() {
            let key = place(count, key_bytes, keys);
            let done = match command {
                UPDATE => self.set(engine, caller, (id, by), key, place(count, value_bytes, values), flags),
                _ => self.unset(caller, id, key),
            };
            match done {
                Ok(()) => count += 1,
                Err(errno) => answer = Err(errno),
            }
        }
        caller.write(attr.address_of(COUNT), &count.to_ne_bytes())?;
        answer.and(goes_on)
    }

    /// Keys and values, from a place on that the caller got from the call before: of arrays the last key, of hashes how many there
    /// were. `ENOENT` when the last one is among them.
    fn look_in_batches(
        &mut self,
        caller: &mut dyn Caller,
        attr: &Attr,
        (id, is_hash): (u32, bool),
        most: u32,
        takes: bool,
    ) -> Result<Reply, Errno> {
        const COUNT: u64 = 32;
        let (before, next, keys, values) = (attr.u64(0), attr.u64(8), attr.u64(16), attr.u64(24));
        caller.write(attr.address_of(COUNT), &[0; 4])?;
        let mut begin = vec![0; if is_hash { 4 } else { self.map(id)?.spec().key_size as usize }];
        if before != 0 {
            caller.read(before, &mut begin)?;
        }
        self.take_from_mapped(id);
        let mut key: Option<Vec<u8>> = None;
        let mut done_before = 0;
        if is_hash {
            done_before = begin.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            for _ in 0..done_before {
                key = Some(self.map(id)?.next_key(key.as_deref())?);
            }
        } else if before != 0 {
            key = Some(begin);
        }
        let is_trie = self.map(id)?.spec().kind == MapKind::LpmTrie;
        let mut prefixes = self.map(id)?.prefixes_after(key.as_deref()).into_iter();
        let mut after = |state: &Self, key: Option<&[u8]>| match is_trie {
            true => prefixes.next().ok_or(Errno::ENOENT),
            false => state.map(id)?.next_key(key),
        };
        let mut count = 0u32;
        let mut answer = DONE;
        let mut taken = Vec::new();
        while count < most {
            let next = match after(self, key.as_deref()) {
                Ok(next) => next,
                Err(errno) => {
                    answer = Err(errno);
                    break;
                }
            };
            let value = self.map(id)?.lookup(&next)?;
            let at = |start: u64, bytes: usize| start.wrapping_add(u64::from(count) * bytes as u64);
            caller.write(at(keys, next.len()), &next)?;
            caller.write(at(values, value.len()), &value)?;
            count += 1;
            if takes {
                taken.push(next.clone());
            }
            key = Some(next);
        }
        // All that is behind the last one of a hash is looked at, too.
        if is_hash && answer.is_ok() && count > 0 {
            answer = self.map(id)?.next_key(key.as_deref()).and(DONE);
        }
        for key in taken {
            self.map_mut(id)?.delete(&key)?;
        }
        caller.write(attr.address_of(COUNT), &count.to_ne_bytes())?;
        if is_hash {
            let next_place = if takes { 0 } else { done_before + count };
            caller.write(next, &next_place.to_ne_bytes())?;
        } else if let Some(key) = key.filter(|_| count > 0) {
            caller.write(next, &key)?;
        }
        answer
    }
}
