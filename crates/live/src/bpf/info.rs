//! `BPF_OBJ_GET_INFO_BY_FD`: what Linux 6.18 tells of maps, programs and links, in its layout.

use super::attr::Attr;
use super::{Caller, DONE, Link, Object, Opened, Reply, State};
use perfuse_abi::Errno;
use perfuse_engine::Engine;

/// Bytes of `struct bpf_map_info`, `bpf_prog_info` and `bpf_link_info`.
const MAP_BYTES: usize = 104;
const PROGRAM_BYTES: usize = 232;
const LINK_BYTES: usize = 56;
const TYPES_BYTES: usize = 32;

struct Info(Vec<u8>);

impl Info {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_u32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_ne_bytes());
    }

    fn put_u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_ne_bytes());
    }
}

impl State {
    pub(super) fn info(
        &mut self,
        engine: &Engine,
        caller: &mut dyn Caller,
        attr: &Attr,
    ) -> Result<Reply, Errno> {
        attr.ends_at(16)?;
        let (fd, room, addr) = (attr.u32(0) as i32, attr.u32(4), attr.u64(8));
        if caller.opened(fd) == Opened::Nothing {
            // EBADFD.
            return Err(Errno(77));
        }
        let object = self.file(caller, fd)?.1.object;
        let known = match object {
            Object::Map(_) => MAP_BYTES,
            Object::Program(_) => PROGRAM_BYTES,
            Object::Link(_) => LINK_BYTES,
            Object::Types(_) => TYPES_BYTES,
        };
        let asked = self.asked(caller, addr, room as usize, known)?;
        let mut info = Info(vec![0; known]);
        match object {
            Object::Map(id) => self.map_info(&mut info, id)?,
            Object::Program(id) => self.program_info(&mut info, caller, &asked, id)?,
            Object::Link(id) => self.link_info(&mut info, engine, id)?,
            Object::Types(id) => return self.types_info(caller, attr, id, &asked),
        }
        let len = known.min(room as usize);
        caller.write(addr, &info.0[..len])?;
        caller.write(attr.address_of(4), &(len as u32).to_ne_bytes())?;
        DONE
    }

    /// What the caller has where the info is to be: `E2BIG` of something behind what is known.
    fn asked(&self, caller: &dyn Caller, addr: u64, room: usize, known: usize) -> Result<Vec<u8>, Errno> {
        const PAGE: usize = 4096;
        if room > PAGE {
            return Err(Errno::E2BIG);
        }
        let mut asked = vec![0; room];
        caller.read(addr, &mut asked)?;
        if asked.iter().skip(known).any(|byte| *byte != 0) {
            return Err(Errno::E2BIG);
        }
        asked.resize(known.max(room), 0);
        Ok(asked)
    }

    fn map_info(&self, info: &mut Info, id: u32) -> Result<(), Errno> {
        let (own, spec) = (&self.maps[&id], self.map(id)?.spec());
        let numbers = [spec.kind.number(), id, spec.key_size, spec.value_size, spec.max_entries, spec.flags];
        for (at, number) in numbers.into_iter().enumerate() {
            info.put_u32(4 * at, number);
        }
        info.put(24, &own.name);
        for (at, number) in own.types.into_iter().enumerate() {
            info.put_u32(64 + 4 * at, number);
        }
        Ok(())
    }

    fn program_info(
        &self,
        info: &mut Info,
        caller: &mut dyn Caller,
        asked: &[u8],
        id: u32,
    ) -> Result<(), Errno> {
        let own = &self.programs[&id];
        let wish = |at: usize| u32::from_ne_bytes(std::array::from_fn(|index| asked[at + index]));
        let pointer = |at: usize| u64::from_ne_bytes(std::array::from_fn(|index| asked[at + index]));
        info.put_u32(0, own.program_type.number());
        info.put_u32(4, id);
        info.put(8, &own.tag);
        let verified = self.machine.program(own.program)?.verified();
        // Instructions, as they were loaded.
        let room = (wish(20) as usize).min(own.slots.len());
        if room > 0 && pointer(32) != 0 {
            caller.write(pointer(32), &own.slots[..room])?;
        }
        info.put_u32(20, own.slots.len() as u32);
        info.put_u64(32, pointer(32));
        info.put_u64(40, own.loaded_ns);
        info.put_u32(48, own.uid);
        let ids: Vec<u8> = own.maps.iter().flat_map(|id| id.to_ne_bytes()).collect();
        let room = (wish(52) as usize).min(own.maps.len());
        if room > 0 {
            caller.write(pointer(56), &ids[..room * 4])?;
        }
        info.put_u32(52, own.maps.len() as u32);
        info.put_u64(56, pointer(56));
        info.put(64, &own.name);
        info.put_u32(84, u32::from(own.gpl));
        info.put_u32(128, own.types.unwrap_or(0));
        info.put_u32(216, verified.looked_at);
        Ok(())
    }

    fn link_info(&self, info: &mut Info, engine: &Engine, id: u32) -> Result<(), Errno> {
        const PERF_EVENT: u32 = 7;
        const OF_EVENT: u32 = 6;
        let Link { program, event, cookie, .. } = self.links[&id];
        info.put_u32(0, PERF_EVENT);
        info.put_u32(4, id);
        info.put_u32(8, program);
        if let Some(attr) = engine.attr(event) {
            info.put_u32(16, OF_EVENT);
            info.put_u64(24, attr.config);
            info.put_u32(32, attr.type_.0);
            info.put_u64(40, cookie);
        }
        Ok(())
    }
}
