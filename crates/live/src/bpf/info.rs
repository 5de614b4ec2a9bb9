//! `BPF_OBJ_GET_INFO_BY_FD` and `BPF_TASK_FD_QUERY`: what Linux 6.18 tells of maps, programs and links, in its layout.

use super::attr::Attr;
use super::{Caller, DONE, Kernel, Link, Object, Opened, Reply, State};
use perfuse_abi::Errno;
use perfuse_bpf::map::ENOTSUPP;
use perfuse_engine::ProgramKind;

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

/// Writes a text with its zero, as much as there is room for: `ENOSPC` if that is not all.
pub(super) fn write_text(caller: &mut dyn Caller, to: u64, room: u32, text: &[u8]) -> Result<(), Errno> {
    let shown = text.len().min((room as usize).saturating_sub(1));
    caller.write(to, &[&text[..shown], &[0]].concat())?;
    if shown < text.len() { Err(Errno::ENOSPC) } else { Ok(()) }
}

impl State {
    /// `BPF_TASK_FD_QUERY`: the program and the place of a probe.
    pub(super) fn query_descriptor(
        &self,
        kernel: &Kernel<'_>,
        caller: &mut dyn Caller,
        attr: &Attr,
    ) -> Result<Reply, Errno> {
        const UPROBE: u32 = 4;
        const URETPROBE: u32 = 5;
        attr.ends_at(48)?;
        let (pid, fd, room, to) = (attr.u32(0) as i32, attr.u32(4) as i32, attr.u32(12), attr.u64(16));
        if attr.u32(8) != 0 {
            return Err(Errno::EINVAL);
        }
        let event = match caller.opened_in(pid, fd).ok_or(Errno::ENOENT)? {
            Opened::Nothing => return Err(Errno::EBADF),
            Opened::Other | Opened::Bpf(_) => return Err(ENOTSUPP),
            Opened::Event(event) => event,
        };
        let program = kernel.engine.program(event).ok_or(Errno::ENOENT)?;
        if program.kind == ProgramKind::PerfEvent {
            return Err(Errno::EOPNOTSUPP);
        }
        let probe = (kernel.probe_of)(event).ok_or(ENOTSUPP)?;
        caller.write(attr.address_of(12), &(probe.path.len() as u32).to_ne_bytes())?;
        let written = if to == 0 { Ok(()) } else { write_text(caller, to, room, &probe.path) };
        if !matches!(written, Ok(()) | Err(Errno::ENOSPC)) {
            return written.map(|()| Reply::Number(0));
        }
        let kind = if probe.returns { URETPROBE } else { UPROBE };
        caller.write(attr.address_of(24), &program.id.to_ne_bytes())?;
        caller.write(attr.address_of(28), &kind.to_ne_bytes())?;
        caller.write(attr.address_of(32), &probe.offset.to_ne_bytes())?;
        caller.write(attr.address_of(40), &[0; 8])?;
        written.and(DONE)
    }

    pub(super) fn info(
        &mut self,
        kernel: &Kernel<'_>,
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
            Object::Link(id) => self.link_info(&mut info, kernel, caller, &asked, id)?,
            Object::Types(id) => return self.types_info(caller, attr, id, &asked),
        }
        let len = known.min(room as usize);
        caller.write(addr, &info.0[..len])?;
        caller.write(attr.address_of(4), &(len as u32).to_ne_bytes())?;
        DONE
    }

    /// The bytes that the caller has where the info is to be: `E2BIG` of something behind those that are known.
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

    fn link_info(
        &self,
        info: &mut Info,
        kernel: &Kernel<'_>,
        caller: &mut dyn Caller,
        asked: &[u8],
        id: u32,
    ) -> Result<(), Errno> {
        const PERF_EVENT: u32 = 7;
        const OF_PROBE: u32 = 1;
        const OF_RETURN: u32 = 2;
        const OF_EVENT: u32 = 6;
        let Link { program, event, cookie, .. } = self.links[&id];
        info.put_u32(0, PERF_EVENT);
        info.put_u32(4, id);
        info.put_u32(8, program);
        if let Some(probe) = (kernel.probe_of)(event) {
            let place = u64::from_ne_bytes(std::array::from_fn(|index| asked[24 + index]));
            let room = u32::from_ne_bytes(std::array::from_fn(|index| asked[32 + index]));
            if (place == 0) != (room == 0) {
                return Err(Errno::EINVAL);
            }
            info.put_u32(16, if probe.returns { OF_RETURN } else { OF_PROBE });
            info.put_u64(24, place);
            info.put_u32(32, probe.path.len() as u32 + 1);
            info.put_u32(36, probe.offset as u32);
            info.put_u64(40, cookie);
            info.put_u64(48, probe.semaphore);
            if place != 0 {
                write_text(caller, place, room, &probe.path)?;
            }
        } else if let Some(attr) = kernel.engine.attr(event) {
            info.put_u32(16, OF_EVENT);
            info.put_u64(24, attr.config);
            info.put_u32(32, attr.type_.0);
            info.put_u64(40, cookie);
        }
        Ok(())
    }
}
