//! Loading of programs: the arguments, the verifier's log, and what is kept of each.

use super::attr::Attr;
use super::{Caller, DONE, INSTRUCTIONS_LIMIT, Object, PROGRAM, Program, Reply, Sight, State, name};
use crate::proc;
use perfuse_abi::Errno;
use perfuse_bpf::insn::{Constant, decode, slots_of_bytes};
use perfuse_bpf::verify::Reason;
use perfuse_bpf::{ByteOrder, Insn, MapId, MapKind, ProgramSpec, ProgramType, Refusal, helper, log};

/// The last type of programs in Linux 6.18.
const LAST_TYPE: u32 = 32;
/// `BPF_COMPLEXITY_LIMIT_INSNS`.
const MOST_SLOTS: u32 = 1_000_000;
/// Bytes of a licence that are looked at.
const LICENCE: usize = 128;

/// Where the log goes: level, address, bytes.
#[derive(Clone, Copy)]
struct LogRoom {
    level: u32,
    addr: u64,
    len: u32,
}

impl LogRoom {
    /// `EINVAL` of a room without a level, or without an end.
    fn of(attr: &Attr) -> Result<Self, Errno> {
        const KNOWN: u32 = 15;
        let room = LogRoom { level: attr.u32(24), addr: attr.u64(32), len: attr.u32(28) };
        let half = (room.addr != 0) != (room.len != 0);
        if half || room.addr != 0 && room.level == 0 || room.level & !KNOWN != 0 || room.len > u32::MAX >> 2 {
            return Err(Errno::EINVAL);
        }
        Ok(room)
    }

    /// Writes the log, as much as there is room for: its end, or its beginning (`BPF_LOG_FIXED`). `ENOSPC` where that is not all.
    fn write(self, caller: &mut dyn Caller, attr: &Attr, text: &str) -> Result<(), Errno> {
        const FIXED: u32 = 8;
        const TRUE_SIZE: u64 = 140;
        if self.level == 0 {
            return Ok(());
        }
        let whole = text.len() + 1;
        if attr.reaches(TRUE_SIZE as u32 + 4) {
            caller.write(attr.address_of(TRUE_SIZE), &(whole as u32).to_ne_bytes())?;
        }
        if self.addr == 0 {
            return Ok(());
        }
        let room = self.len as usize - 1;
        let shown = text.len().min(room);
        let part = if self.level & FIXED != 0 {
            &text.as_bytes()[..shown]
        } else {
            &text.as_bytes()[text.len() - shown..]
        };
        caller.write(self.addr, &[part, &[0]].concat())?;
        if shown < text.len() { Err(Errno::ENOSPC) } else { Ok(()) }
    }
}

/// Licences that may call all helpers (`license_is_gpl_compatible`).
fn is_gpl(licence: &[u8]) -> bool {
    let all: [&[u8]; 6] =
        [b"GPL", b"GPL v2", b"GPL and additional rights", b"Dual BSD/GPL", b"Dual MIT/GPL", b"Dual MPL/GPL"];
    all.contains(&licence)
}

impl State {
    /// `BPF_PROG_LOAD`.
    pub(super) fn load(&mut self, caller: &mut dyn Caller, attr: &Attr) -> Result<Reply, Errno> {
        const FLAGS: u32 = 0x1ff;
        let (number, count, flags) = (attr.u32(0), attr.u32(4), attr.u32(44));
        if flags & !FLAGS != 0 {
            return Err(Errno::EINVAL);
        }
        let gpl = is_gpl(&text(caller, attr.u64(16))?);
        if !(1..=MOST_SLOTS).contains(&count) {
            return Err(Errno::E2BIG);
        }
        if attr.u32(112) != 0 || attr.u32(108) != 0 || attr.u32(64) != 0 {
            self.tell_not_served(
                "programs that go with functions of the kernel, others or devices".to_owned(),
            );
            return Err(Errno::EINVAL);
        }
        let used = |state: &Self| state.programs.values().map(|own| own.slots.len() / 8).sum::<usize>();
        if used(self) + count as usize > INSTRUCTIONS_LIMIT {
            self.collect();
            if used(self) + count as usize > INSTRUCTIONS_LIMIT {
                return Err(Errno::ENOMEM);
            }
        }
        let mut slots = vec![0; count as usize * 8];
        caller.read(attr.u64(8), &mut slots)?;
        // Signatures are the kernel's affair.
        if attr.u64(152) != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let Some(program_type) = ProgramType::of_number(number) else {
            if (1..=LAST_TYPE).contains(&number) {
                self.tell_not_served(format!("a program of type {number}"));
            }
            return Err(Errno::EINVAL);
        };
        let name = name(&attr.name(48))?;
        let room = LogRoom::of(attr)?;
        let (insns, maps) = match self.resolved(caller, attr, &slots) {
            Ok(resolved) => resolved,
            Err((errno, text)) => {
                room.write(caller, attr, &text)?;
                return Err(errno);
            }
        };
        let types = match self.types_of_program(caller, attr, &insns) {
            Ok(types) => types,
            Err((errno, text)) => {
                room.write(caller, attr, &format!("{text}\n{}", log::nothing_looked_at()))?;
                return Err(errno);
            }
        };
        let refused = |refusal: Refusal| (refusal.reason.errno(), log::text(&refusal));
        let spec = ProgramSpec { program_type, insns: &insns, maps: &[] };
        let loaded = match licensed(&insns, gpl) {
            Err(refusal) => Err(refused(refusal)),
            Ok(()) => self.machine.load(spec).map_err(refused),
        };
        let program = match loaded {
            Ok(program) => program,
            Err((errno, text)) => {
                room.write(caller, attr, &text)?;
                return Err(errno);
            }
        };
        let accepted =
            self.machine.program(program).map(|own| log::accepted(own.verified())).unwrap_or_default();
        let done =
            room.write(caller, attr, &accepted).and_then(|()| self.owns_arrays(program_type, &insns, &maps));
        if let Err(errno) = done {
            self.machine.unload(program)?;
            return Err(errno);
        }
        let (process, thread) = caller.thread();
        let (uid, tag, sees) = (caller.uid(), tag(&slots), Sight::of(thread));
        let id = self.number(PROGRAM);
        let loaded_ns = proc::clock_ns(libc::CLOCK_BOOTTIME);
        self.ids.insert(program, id);
        self.programs.insert(
            id,
            Program {
                program,
                program_type,
                name,
                gpl,
                slots,
                maps,
                types,
                loaded_ns,
                uid,
                process,
                sees,
                tag,
                attachments: Vec::new(),
                faulted: false,
            },
        );
        Ok(Reply::Opens(self.open(Object::Program(id), true, true)))
    }

    /// The instructions, with our numbers of maps in place of descriptors, and the ids of these maps; or an errno and a log.
    fn resolved(
        &self,
        caller: &dyn Caller,
        attr: &Attr,
        slots: &[u8],
    ) -> Result<(Vec<Insn>, Vec<u32>), (Errno, String)> {
        const MOST_MAPS: usize = 64;
        let mut insns = decode(&slots_of_bytes(slots, ByteOrder::NATIVE))
            .map_err(|error| (Errno::EINVAL, log::undecodable(&error)))?;
        let fd_of = |index: i32| {
            let addr = attr.u64(120).wrapping_add((i64::from(index) * 4) as u64);
            let mut bytes = [0; 4];
            let is_there = attr.u64(120) != 0 || attr.u32(148) != 0;
            let read = if is_there { caller.read(addr, &mut bytes) } else { Err(Errno::EPROTO) };
            let fault =
                |errno| (errno, format!("fd_idx without fd_array is invalid\n{}", log::nothing_looked_at()));
            read.map(|()| i32::from_ne_bytes(bytes)).map_err(fault)
        };
        let mut maps = Vec::new();
        let mut of_fd = |fd: i32| -> Result<i32, (Errno, String)> {
            let refused = |errno| {
                (errno, format!("fd {fd} is not pointing to valid bpf_map\n{}", log::nothing_looked_at()))
            };
            let (id, ..) = self.map_of(caller, fd).map_err(refused)?;
            if !maps.contains(&id) {
                if maps.len() == MOST_MAPS {
                    return Err((
                        Errno::E2BIG,
                        format!(
                            "The total number of maps per program has reached the limit of 64\n{}",
                            log::nothing_looked_at()
                        ),
                    ));
                }
                maps.push(id);
            }
            self.maps.get(&id).map(|own| own.map.0 as i32).ok_or((Errno::EBADF, String::new()))
        };
        // Maps beyond those that instructions name.
        for index in 0..attr.u32(148) {
            let fd = fd_of(index as i32)?;
            if self.types_of(caller, fd).is_err() {
                of_fd(fd)?;
            }
        }
        for insn in &mut insns {
            let Insn::Constant { value, .. } = insn else { continue };
            *value = match *value {
                Constant::Map(fd) => Constant::Map(of_fd(fd)?),
                Constant::MapValue(fd, at) => Constant::MapValue(of_fd(fd)?, at),
                Constant::MapIndex(index) => Constant::Map(of_fd(fd_of(index)?)?),
                Constant::MapIndexValue(index, at) => Constant::MapValue(of_fd(fd_of(index)?)?, at),
                other => other,
            };
        }
        Ok((insns, maps))
    }

    /// Arrays of programs that a program goes on in are of its type from now on: `EINVAL`.
    fn owns_arrays(&mut self, program_type: ProgramType, insns: &[Insn], maps: &[u32]) -> Result<(), Errno> {
        const TAIL_CALL: u32 = 12;
        if !insns.contains(&Insn::CallHelper(TAIL_CALL)) {
            return Ok(());
        }
        for id in maps {
            if self.map(*id)?.spec().kind == MapKind::ProgArray {
                let own = self.maps.get_mut(id).ok_or(Errno::EBADF)?;
                if *own.owner.get_or_insert(program_type) != program_type {
                    return Err(Errno::EINVAL);
                }
            }
        }
        Ok(())
    }

    /// `BPF_PROG_BIND_MAP`: the map lives as long as the program.
    pub(super) fn bind_map(&mut self, caller: &dyn Caller, attr: &Attr) -> Result<Reply, Errno> {
        attr.ends_at(12)?;
        if attr.u32(8) != 0 {
            return Err(Errno::EINVAL);
        }
        let program = self.program_of(caller, attr.u32(0) as i32)?;
        let (map, ..) = self.map_of(caller, attr.u32(4) as i32)?;
        if let Some(own) = self.programs.get_mut(&program).filter(|own| !own.maps.contains(&map)) {
            own.maps.push(map);
        }
        DONE
    }

    /// The numbers of the maps of a program among those of the machine.
    pub(super) fn maps_of(&self, program: u32) -> Vec<(u32, MapId)> {
        let ids = self.programs.get(&program).into_iter().flat_map(|own| &own.maps);
        ids.filter_map(|id| self.maps.get(id).map(|own| (*id, own.map))).collect()
    }
}

/// Whether the licence allows all helpers that a program calls.
fn licensed(insns: &[Insn], gpl: bool) -> Result<(), Refusal> {
    if gpl {
        return Ok(());
    }
    let mut slot = 0;
    for insn in insns {
        if let Insn::CallHelper(number) = *insn {
            if helper::is_gpl_only(number) {
                return Err(Refusal {
                    slot,
                    insn: Some(*insn),
                    reason: Reason::Licence { number },
                    looked_at: 0,
                });
            }
        }
        slot += insn.slots();
    }
    Ok(())
}

/// A text of the caller's: `EFAULT`.
fn text(caller: &dyn Caller, addr: u64) -> Result<Vec<u8>, Errno> {
    let mut text = Vec::new();
    while text.len() < LICENCE - 1 {
        let mut byte = [0];
        caller.read(addr.wrapping_add(text.len() as u64), &mut byte)?;
        if byte == [0] {
            break;
        }
        text.push(byte[0]);
    }
    Ok(text)
}

/// Eight bytes that are the same for the same instructions, whatever the descriptors of maps are. Linux has those of a SHA-256.
fn tag(slots: &[u8]) -> [u8; 8] {
    const LOAD: u8 = 0x18;
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut second = false;
    for slot in slots.chunks_exact(8) {
        let is_map = slot[0] == LOAD && matches!(slot[1] >> 4, 1 | 2);
        let len = if is_map || second { 4 } else { 8 };
        for byte in &slot[..len] {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
        second = is_map;
    }
    (hash | 1).to_ne_bytes()
}
