//! Types (BTF) that programs and maps are told with: looked through, kept, and told again. Nothing here hangs on them but that functions
//! for helpers have one, as Linux wants it. Those of the kernel, which it shows as a file, can be had, too: loaders look for them.

use super::attr::Attr;
use super::info::write_text;
use super::{Caller, DONE, Object, Opened, Reply, State, TYPES};
use perfuse_abi::Errno;
use perfuse_bpf::btf::{Btf, BtfError, Kind};
use perfuse_bpf::insn::functions;
use perfuse_bpf::map::ENOTSUPP;
use perfuse_bpf::{ByteOrder, Insn};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of all types of a hosting.
const LIMIT: usize = 64 << 20;
/// `BTF_MAX_SIZE`.
const MOST: u32 = 16 << 20;

/// The id of the kernel's types.
pub(super) const KERNEL: u32 = 1;
/// Where the kernel shows them.
const KERNEL_FILE: &str = "/sys/kernel/btf/vmlinux";

/// Types of one load, or the kernel's.
#[derive(Debug)]
pub(super) struct Types {
    /// Of the kernel none: they are read when somebody asks.
    btf: Option<Btf>,
    len: u32,
    pub(super) files: usize,
}

/// Where the members of a struct of the kernel are in it, in bytes; none where it has no types.
pub(super) fn kernel_members(structure: &str) -> BTreeMap<String, u64> {
    let btf = std::fs::read(KERNEL_FILE).ok().and_then(|bytes| Btf::parse(bytes, ByteOrder::NATIVE).ok());
    let found = btf.as_ref().and_then(|btf| btf.find(Kind::Struct, structure));
    let members = found.into_iter().flat_map(|(_, one)| one.members());
    members
        .map(|member| (String::from_utf8_lossy(member.name).into_owned(), u64::from(member.bit_offset) / 8))
        .collect()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

impl Types {
    /// Looks through `bytes`: `EINVAL`, and ENOTSUPP of another version.
    fn parse(bytes: Vec<u8>) -> Result<Self, Errno> {
        let len = bytes.len() as u32;
        let btf = Btf::parse(bytes, ByteOrder::NATIVE).map_err(|error| match error {
            BtfError::Version => ENOTSUPP,
            _ => Errno::EINVAL,
        })?;
        Ok(Types { btf: Some(btf), len, files: 0 })
    }

    fn bytes(&self) -> &[u8] {
        self.btf.as_ref().map_or(&[], Btf::bytes)
    }

    /// The kernel's, where it has some.
    fn of_kernel() -> Option<Self> {
        let len = std::fs::metadata(KERNEL_FILE).ok()?.len().try_into().ok()?;
        Some(Types { btf: None, len, files: 0 })
    }

    /// As many bytes as there is room for.
    fn shown(&self, id: u32, room: u32) -> Result<Vec<u8>, Errno> {
        let len = room.min(self.len) as usize;
        if id != KERNEL {
            return Ok(self.bytes()[..len].to_vec());
        }
        let mut shown = vec![0; len];
        if len > 0 {
            let read = File::open(KERNEL_FILE).and_then(|file| file.read_exact_at(&mut shown, 0));
            read.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno))?;
        }
        Ok(shown)
    }

    /// Whether the type of a function is one that other files do not see (`BTF_FUNC_STATIC`); `None` of no function.
    fn is_static(&self, number: u32) -> Option<bool> {
        let one = self.btf.as_ref()?.get(number)?;
        (one.kind() == Kind::Func).then(|| one.count() == 0)
    }
}

/// Why types do not go with a program, and the sentence of Linux's log.
type Refused = (Errno, &'static str);

impl State {
    /// The kernel's types are the first, once somebody calls.
    pub(super) fn know_kernel(&mut self) {
        if self.last[TYPES] == 0 {
            self.last[TYPES] = KERNEL;
            self.types.extend(Types::of_kernel().map(|types| (KERNEL, types)));
        }
    }

    /// `BPF_BTF_LOAD`.
    pub(super) fn load_types(&mut self, caller: &mut dyn Caller, attr: &Attr) -> Result<Reply, Errno> {
        attr.ends_at(40)?;
        let (from, len, log, log_len, level) =
            (attr.u64(0), attr.u32(16), attr.u64(8), attr.u32(20), attr.u32(24));
        if attr.u32(32) != 0 {
            return Err(Errno::EINVAL);
        }
        if len > MOST {
            return Err(Errno::E2BIG);
        }
        if (log != 0) != (log_len != 0) || log != 0 && level == 0 {
            return Err(Errno::EINVAL);
        }
        let used = |state: &Self| state.types.values().map(|own| own.bytes().len()).sum::<usize>();
        if used(self) + len as usize > LIMIT {
            self.collect();
            if used(self) + len as usize > LIMIT {
                return Err(Errno::ENOMEM);
            }
        }
        let mut bytes = vec![0; len as usize];
        caller.read(from, &mut bytes)?;
        let types = Types::parse(bytes).inspect_err(|_| {
            if log != 0 {
                // The answer is the errno in any case.
                let _ = caller.write(log, &b"Invalid BTF\0"[..(log_len as usize).min(12)]);
            }
        })?;
        let id = self.number(TYPES);
        self.types.insert(id, types);
        Ok(Reply::Opens(self.open(Object::Types(id), true, true)))
    }

    /// The types of a descriptor, by their id, for a map or a program: `EACCES` of the kernel's.
    pub(super) fn own_types_of(&self, caller: &dyn Caller, fd: i32) -> Result<u32, Errno> {
        let id = self.types_of(caller, fd)?;
        if id == KERNEL { Err(Errno::EACCES) } else { Ok(id) }
    }

    /// The types of a descriptor, by their id: `EBADF`, `EINVAL`.
    pub(super) fn types_of(&self, caller: &dyn Caller, fd: i32) -> Result<u32, Errno> {
        match caller.opened(fd) {
            Opened::Nothing => Err(Errno::EBADF),
            _ => match self.file(caller, fd)?.1.object {
                Object::Types(id) => Ok(id),
                _ => Err(Errno::EINVAL),
            },
        }
    }

    /// The types that a program is loaded with, if it is told what its functions or lines are; all functions that are pointed to have to
    /// be told.
    pub(super) fn types_of_program(
        &self,
        caller: &dyn Caller,
        attr: &Attr,
        insns: &[Insn],
    ) -> Result<Option<u32>, Refused> {
        const RECORD: u32 = 8;
        const MOST_RECORD: u32 = 252;
        let (fd, size, from, count) = (attr.u32(72) as i32, attr.u32(76), attr.u64(80), attr.u32(88));
        let (starts, pointed) = functions(insns);
        if count == 0 && attr.u32(104) == 0 {
            return if pointed.is_empty() { Ok(None) } else { Err((Errno::EINVAL, "missing btf func_info")) };
        }
        let id = self
            .own_types_of(caller, fd)
            .map_err(|errno| (errno, "prog_btf_fd is not pointing to valid btf"))?;
        let types = &self.types[&id];
        if count == 0 {
            return if pointed.is_empty() {
                Ok(Some(id))
            } else {
                Err((Errno::EINVAL, "missing btf func_info"))
            };
        }
        if count as usize != starts.len() {
            return Err((Errno::EINVAL, "number of funcs in func_info doesn't match number of subprogs"));
        }
        if !(RECORD..=MOST_RECORD).contains(&size) || size % 4 != 0 {
            return Err((Errno::EINVAL, "invalid func info rec size"));
        }
        for (index, start) in starts.iter().enumerate() {
            let mut record = vec![0; size as usize];
            let addr = from.wrapping_add(index as u64 * u64::from(size));
            caller.read(addr, &mut record).map_err(|errno| (errno, "func_info cannot be read"))?;
            if record[RECORD as usize..].iter().any(|byte| *byte != 0) {
                return Err((Errno::E2BIG, "nonzero tailing record in func info"));
            }
            let [at, number] = [0, 4].map(|at| word(&record, at).unwrap_or(0));
            if at as usize != *start {
                return Err((
                    Errno::EINVAL,
                    "func_info BTF section doesn't match subprog layout in BPF program",
                ));
            }
            match types.is_static(number) {
                None => return Err((Errno::EINVAL, "invalid type id in func info")),
                Some(false) if pointed.contains(start) => {
                    return Err((Errno::EINVAL, "callback function not static"));
                }
                Some(_) => {}
            }
        }
        Ok(Some(id))
    }

    /// `struct bpf_btf_info`.
    pub(super) fn types_info(
        &self,
        caller: &mut dyn Caller,
        attr: &Attr,
        id: u32,
        asked: &[u8],
    ) -> Result<Reply, Errno> {
        const BYTES: usize = 32;
        let own = &self.types[&id];
        let pointer = |at: usize| u64::from_ne_bytes(std::array::from_fn(|index| asked[at + index]));
        let room = |at: usize| word(asked, at).unwrap_or(0);
        let name: &[u8] = if id == KERNEL { b"vmlinux" } else { b"" };
        let (name_to, name_room) = (pointer(16), room(24));
        let shown = own.shown(id, room(8))?;
        if !shown.is_empty() {
            caller.write(pointer(0), &shown)?;
        }
        if (name_to == 0) != (name_room == 0) {
            return Err(Errno::EINVAL);
        }
        let named = if name_to == 0 { Ok(()) } else { write_text(caller, name_to, name_room, name) };
        if !matches!(named, Ok(()) | Err(Errno::ENOSPC)) {
            return named.and(DONE);
        }
        let mut info = [0; BYTES];
        info.copy_from_slice(&asked[..BYTES]);
        info[8..12].copy_from_slice(&own.len.to_ne_bytes());
        info[12..16].copy_from_slice(&id.to_ne_bytes());
        info[24..28].copy_from_slice(&(name.len() as u32).to_ne_bytes());
        info[28..32].copy_from_slice(&u32::from(id == KERNEL).to_ne_bytes());
        let len = BYTES.min(attr.u32(4) as usize);
        caller.write(attr.u64(8), &info[..len])?;
        caller.write(attr.address_of(4), &(len as u32).to_ne_bytes())?;
        named.and(DONE)
    }
}
