//! `bpf(2)`: which programs are loaded, maps of one's own, loading programs and running them for a test. It takes
//! `CAP_SYS_ADMIN` (or `CAP_BPF` for some of it); others are refused with `EPERM`.

use crate::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;
const MAP_GET_NEXT_KEY: libc::c_long = 4;
const PROG_LOAD: libc::c_long = 5;
const PROG_TEST_RUN: libc::c_long = 10;
const PROG_GET_NEXT_ID: libc::c_long = 11;
const PROG_GET_FD_BY_ID: libc::c_long = 13;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const BTF_LOAD: libc::c_long = 18;
const BTF_GET_FD_BY_ID: libc::c_long = 19;
const MAP_LOOKUP_AND_DELETE_ELEM: libc::c_long = 21;
const MAP_FREEZE: libc::c_long = 22;

/// The first bytes of `union bpf_attr`, which are all that these commands use.
#[repr(C, align(8))]
#[derive(Default)]
struct Arguments([u32; 4]);

/// # Safety
/// The arguments must point to memory of the kind and size that the command wants there.
unsafe fn bpf<T>(command: libc::c_long, arguments: &mut T) -> Result<i32, Errno> {
    let mut call = || {
        // SAFETY: the kernel reads and writes at most the size it is told of the live arguments; the caller
        // vouches for what these point to.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, command, &raw mut *arguments, size_of::<T>() as libc::c_ulong)
        };
        crate::errno::check(result as libc::c_int)
    };
    match command {
        MAP_CREATE | PROG_LOAD | BTF_LOAD => crate::limits::with_room_to_lock(call),
        _ => call(),
    }
}

/// The id of the program after this one; 0 is before the first. `ENOENT` after the last.
pub fn next_program(id: u32) -> Result<u32, Errno> {
    let mut arguments = Arguments([id, 0, 0, 0]);
    // SAFETY: the arguments hold no pointers.
    unsafe { bpf(PROG_GET_NEXT_ID, &mut arguments)? };
    Ok(arguments.0[1])
}

/// Opens a program. `ENOENT` if it is gone.
pub fn program(id: u32) -> Result<OwnedFd, Errno> {
    open(PROG_GET_FD_BY_ID, id)
}

/// Opens the types (BTF) of programs. `ENOENT` if they are gone.
pub fn types(id: u32) -> Result<OwnedFd, Errno> {
    open(BTF_GET_FD_BY_ID, id)
}

fn open(command: libc::c_long, id: u32) -> Result<OwnedFd, Errno> {
    let mut arguments = Arguments([id, 0, 0, 0]);
    // SAFETY: the arguments hold no pointers.
    let descriptor = unsafe { bpf(command, &mut arguments)? };
    // SAFETY: the kernel has just made the descriptor, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// An array that belongs to a program, and where `struct bpf_prog_info` tells of it.
#[derive(Clone, Copy, Debug)]
struct Place {
    pointer: usize,
    count: usize,
    item: Item,
}

#[derive(Clone, Copy, Debug)]
enum Item {
    Bytes(usize),
    /// The kernel tells the size here.
    ToldAt(usize),
}

/// The arrays of a program, by their numbers in perf.data.
pub mod array {
    #![allow(missing_docs, reason = "the names are those of struct bpf_prog_info")]
    pub const JITED_INSNS: usize = 0;
    pub const XLATED_INSNS: usize = 1;
    pub const MAP_IDS: usize = 2;
    pub const JITED_KSYMS: usize = 3;
    pub const JITED_FUNC_LENS: usize = 4;
    pub const FUNC_INFO: usize = 5;
    pub const LINE_INFO: usize = 6;
    pub const JITED_LINE_INFO: usize = 7;
    pub const PROG_TAGS: usize = 8;
}

/// By the numbers of [`mod@array`].
const PLACES: [Place; 9] = [
    Place { pointer: 24, count: 16, item: Item::Bytes(1) },
    Place { pointer: 32, count: 20, item: Item::Bytes(1) },
    Place { pointer: 56, count: 52, item: Item::Bytes(4) },
    Place { pointer: 112, count: 104, item: Item::Bytes(8) },
    Place { pointer: 120, count: 108, item: Item::Bytes(4) },
    Place { pointer: 136, count: 144, item: Item::ToldAt(132) },
    Place { pointer: 152, count: 148, item: Item::ToldAt(172) },
    Place { pointer: 160, count: 168, item: Item::ToldAt(176) },
    Place { pointer: 184, count: 180, item: Item::Bytes(8) },
];

/// Bytes of `struct bpf_prog_info` that this crate asks for, all fields up to Linux 6.12.
const INFO_SIZE: usize = 232;

/// A program, as the kernel describes it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ProgramInfo {
    /// `struct bpf_prog_info`; its pointers are zero.
    pub info: Vec<u8>,
    /// The arrays, by the numbers of [`mod@array`]; empty unless asked for.
    pub arrays: [Vec<u8>; 9],
}

impl ProgramInfo {
    /// The number at this offset of the info; 0 where this kernel has none.
    pub fn u32(&self, at: usize) -> u32 {
        word(&self.info, at)
    }

    /// Where the info has the pointer to an array.
    pub fn pointer_at(array: usize) -> usize {
        PLACES[array].pointer
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}

/// Asks about an open program, with these of its [arrays](mod@array).
pub fn program_info(program: BorrowedFd<'_>, arrays: &[usize]) -> Result<ProgramInfo, Errno> {
    let mut info = [0; INFO_SIZE];
    // How long the arrays are.
    // SAFETY: the info holds no pointers.
    let known = unsafe { object_info(program, &mut info)? };
    let mut wish = [0; INFO_SIZE];
    let mut found = ProgramInfo::default();
    for &array in arrays {
        let Place { pointer, count, item } = PLACES[array];
        let size = match item {
            Item::Bytes(size) => size,
            Item::ToldAt(at) => word(&info, at) as usize,
        };
        let items = word(&info, count);
        if items == 0 || size == 0 || pointer + 8 > known {
            continue;
        }
        let room = &mut found.arrays[array];
        room.resize(items as usize * size, 0);
        wish[count..][..4].copy_from_slice(&items.to_ne_bytes());
        wish[pointer..][..8].copy_from_slice(&(room.as_mut_ptr() as u64).to_ne_bytes());
        if let Item::ToldAt(at) = item {
            // The kernel refuses to copy items of another size than it has.
            wish[at..][..4].copy_from_slice(&(size as u32).to_ne_bytes());
        }
    }
    // SAFETY: every pointer of the info is to as many items as its count says, of the size that the kernel
    // copies, and alive.
    let known = unsafe { object_info(program, &mut wish)? };
    PLACES.iter().for_each(|place| wish[place.pointer..][..8].fill(0));
    found.info = wish[..known.min(INFO_SIZE)].to_vec();
    Ok(found)
}

/// The types (BTF) themselves.
pub fn type_bytes(types: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    /// Of `struct bpf_btf_info` the pointer and the length.
    const SIZE: usize = 12;
    let mut info = [0; SIZE];
    // SAFETY: the info holds no pointers.
    unsafe { object_info(types, &mut info)? };
    let mut bytes = vec![0; word(&info, 8) as usize];
    info[..8].copy_from_slice(&(bytes.as_mut_ptr() as u64).to_ne_bytes());
    // SAFETY: the pointer is to as many bytes as the length says.
    unsafe { object_info(types, &mut info)? };
    Ok(bytes)
}

/// Returns how many bytes of the info the kernel filled in.
///
/// # Safety
/// The pointers in the info must be to as much writable memory as its counts say.
unsafe fn object_info(object: BorrowedFd<'_>, info: &mut [u8]) -> Result<usize, Errno> {
    let pointer = (info.as_mut_ptr() as u64).to_ne_bytes();
    let size = u32::try_from(info.len()).map_err(|_| Errno::EINVAL)?;
    let mut arguments = Arguments([object.as_raw_fd() as u32, size, word(&pointer, 0), word(&pointer, 4)]);
    // SAFETY: the info is live and as long as told; the caller vouches for its pointers.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut arguments)? };
    Ok(arguments.0[1] as usize)
}

/// A map of one's own, which knows the sizes that its calls take.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

/// Keys of a map with their values.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// The types with a value for each cpu.
const PER_CPU: [u32; 4] = [5, 6, 10, 21];

/// Of `union bpf_attr` the part of calls on elements.
#[repr(C)]
#[derive(Default)]
struct Element {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Map {
    /// `BPF_MAP_CREATE`, with the numbers of `<linux/bpf.h>`: type, bytes of a key, of a value, entries, flags.
    pub fn create(declared: [u32; 5]) -> Result<Map, Errno> {
        let [map_type, key, value, ..] = declared;
        let value_bytes = if PER_CPU.contains(&map_type) {
            (value as usize).next_multiple_of(8) * crate::thread::possible_cpus()
        } else {
            value as usize
        };
        let mut arguments = declared;
        // SAFETY: the arguments hold no pointers.
        let descriptor = unsafe { bpf(MAP_CREATE, &mut arguments)? };
        // SAFETY: the kernel has just made the descriptor, and nobody else knows of it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Map { descriptor, key_bytes: key as usize, value_bytes })
    }

    /// A call with a key and a value of their sizes; the kernel may write to both.
    fn element(
        &self,
        command: libc::c_long,
        key: Option<&mut [u8]>,
        value: Option<&mut [u8]>,
        flags: u64,
    ) -> Result<(), Errno> {
        let mut pointers = [0; 2];
        for (pointer, bytes, size) in [(0, key, self.key_bytes), (1, value, self.value_bytes)] {
            let Some(bytes) = bytes.filter(|_| size != 0) else { continue };
            if bytes.len() != size {
                return Err(Errno::EINVAL);
            }
            pointers[pointer] = bytes.as_mut_ptr() as u64;
        }
        let map = self.descriptor.as_raw_fd() as u32;
        let mut arguments = Element { map, unused: 0, key: pointers[0], value: pointers[1], flags };
        // SAFETY: the pointers are to live memory of the sizes of a key and of all values of a key.
        unsafe { bpf(command, &mut arguments) }.map(|_| ())
    }

    /// Bytes of a value, of all cpus where each has one.
    pub fn lookup_bytes(&self) -> usize {
        self.value_bytes
    }

    /// `BPF_MAP_LOOKUP_ELEM`.
    pub fn lookup(&self, key: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut value = vec![0; self.value_bytes];
        self.element(MAP_LOOKUP_ELEM, Some(&mut key.to_vec()), Some(&mut value), 0)?;
        Ok(value)
    }

    /// `BPF_MAP_UPDATE_ELEM`.
    pub fn update(&self, key: &[u8], value: &[u8], flags: u64) -> Result<(), Errno> {
        self.element(MAP_UPDATE_ELEM, Some(&mut key.to_vec()), Some(&mut value.to_vec()), flags)
    }

    /// `BPF_MAP_DELETE_ELEM`.
    pub fn delete(&self, key: &[u8]) -> Result<(), Errno> {
        self.element(MAP_DELETE_ELEM, Some(&mut key.to_vec()), None, 0)
    }

    /// `BPF_MAP_LOOKUP_AND_DELETE_ELEM`.
    pub fn lookup_and_delete(&self, key: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut value = vec![0; self.value_bytes];
        self.element(MAP_LOOKUP_AND_DELETE_ELEM, Some(&mut key.to_vec()), Some(&mut value), 0)?;
        Ok(value)
    }

    /// `BPF_MAP_GET_NEXT_KEY`: the first, or the one after this.
    pub fn next_key(&self, key: Option<&[u8]>) -> Result<Vec<u8>, Errno> {
        let (mut before, mut next) = (key.map(<[u8]>::to_vec), vec![0; self.key_bytes]);
        if before.as_ref().is_some_and(|key| key.len() != self.key_bytes) {
            return Err(Errno::EINVAL);
        }
        let pointer = |bytes: &mut Vec<u8>| bytes.as_mut_ptr() as u64;
        let key = before.as_mut().map_or(0, pointer);
        let map = self.descriptor.as_raw_fd() as u32;
        let mut arguments = Element { map, unused: 0, key, value: pointer(&mut next), flags: 0 };
        // SAFETY: the pointers are to live memory of a key each.
        unsafe { bpf(MAP_GET_NEXT_KEY, &mut arguments)? };
        Ok(next)
    }

    /// All keys with their values; of a map that changes meanwhile, some may be missing or come twice.
    pub fn entries(&self) -> Result<Entries, Errno> {
        let mut entries = Vec::new();
        let mut next = self.next_key(None);
        loop {
            let key = match next {
                Err(Errno::ENOENT) => return Ok(entries),
                key => key?,
            };
            next = self.next_key(Some(&key));
            match self.lookup(&key) {
                Err(Errno::ENOENT) => {}
                value => entries.push((key, value?)),
            }
        }
    }

    /// `BPF_MAP_FREEZE`.
    pub fn freeze(&self) -> Result<(), Errno> {
        let mut arguments = Arguments([self.descriptor.as_raw_fd() as u32, 0, 0, 0]);
        // SAFETY: the arguments hold no pointers.
        unsafe { bpf(MAP_FREEZE, &mut arguments) }.map(|_| ())
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for Map {
    fn as_raw_fd(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }
}

/// Of `union bpf_attr` the part of loading.
#[repr(C)]
#[derive(Default)]
struct Load {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    types: u32,
    function_bytes: u32,
    functions: u64,
    function_count: u32,
    unused: u32,
}

/// The types of a program's functions, which Linux asks for where a helper calls one.
#[derive(Clone, Copy, Debug)]
pub struct FunctionTypes<'t> {
    /// [Types](load_types).
    pub types: BorrowedFd<'t>,
    /// Of each function, in order, its first slot, and the number of its type.
    pub functions: &'t [[u32; 2]],
}

/// `BPF_BTF_LOAD`.
pub fn load_types(types: &[u8]) -> Result<OwnedFd, Errno> {
    /// Of `union bpf_attr` the part of types.
    #[repr(C)]
    #[derive(Default)]
    struct Types {
        bytes: u64,
        log: u64,
        size: u32,
        log_size: u32,
        log_level: u32,
        unused: u32,
    }
    let mut arguments = Types { bytes: types.as_ptr() as u64, size: types.len() as u32, ..Types::default() };
    // SAFETY: the pointer is to as many bytes as the size says, which the kernel reads.
    let descriptor = unsafe { bpf(BTF_LOAD, &mut arguments)? };
    // SAFETY: the kernel has just made the descriptor, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A license under which programs may call all helpers.
pub const ALL_HELPERS: &CStr = c"Dual MIT/GPL";

/// `BPF_PROG_LOAD`. A refusal comes with the log, if one is wanted.
pub fn load(
    program_type: u32,
    instructions: &[[u8; 8]],
    license: &CStr,
    types: Option<FunctionTypes<'_>>,
    wants_log: bool,
) -> Result<OwnedFd, (Errno, String)> {
    const LOG: usize = 1 << 20;
    let mut log = vec![0u8; if wants_log { LOG } else { 0 }];
    let mut arguments = Load {
        program_type,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(wants_log),
        log_size: log.len() as u32,
        log: if wants_log { log.as_mut_ptr() as u64 } else { 0 },
        ..Load::default()
    };
    if let Some(FunctionTypes { types, functions }) = types {
        arguments.types = types.as_raw_fd() as u32;
        arguments.function_bytes = size_of::<[u32; 2]>() as u32;
        arguments.functions = functions.as_ptr() as u64;
        arguments.function_count = functions.len() as u32;
    }
    // SAFETY: the pointers are to live memory, of as many bytes as the counts say, and to a text with its zero.
    let loaded = unsafe { bpf(PROG_LOAD, &mut arguments) };
    match loaded {
        // SAFETY: the kernel has just made the descriptor, and nobody else knows of it.
        Ok(descriptor) => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        Err(errno) => {
            let len = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            Err((errno, String::from_utf8_lossy(&log[..len]).into_owned()))
        }
    }
}

/// Of `union bpf_attr` the part of raw tracepoints.
#[repr(C)]
#[derive(Default)]
struct RawTracepoint {
    name: u64,
    program: u32,
    unused: u32,
}

/// `BPF_RAW_TRACEPOINT_OPEN`: runs a program at each hit of a tracepoint of the kernel, on all cpus, until the descriptor is closed.
/// `ENOENT` if there is no such tracepoint.
pub fn attach_raw_tracepoint(name: &CStr, program: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut arguments =
        RawTracepoint { name: name.as_ptr() as u64, program: program.as_raw_fd() as u32, unused: 0 };
    // SAFETY: the pointer is to a text with its zero, which the kernel reads.
    let descriptor = unsafe { bpf(RAW_TRACEPOINT_OPEN, &mut arguments)? };
    // SAFETY: the kernel has just made the descriptor, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Of `union bpf_attr` the part of a run.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    result: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration_ns: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    unused: u32,
}

/// `BPF_PROG_TEST_RUN` with a packet or a context, so many times (0 is once): the result, and nanoseconds of a run on average.
pub fn test_run(
    program: BorrowedFd<'_>,
    data: &[u8],
    context: &[u8],
    repeat: u32,
) -> Result<(u32, u32), Errno> {
    let pointer = |bytes: &[u8]| if bytes.is_empty() { 0 } else { bytes.as_ptr() as u64 };
    let mut arguments = TestRun {
        program: program.as_raw_fd() as u32,
        data_size_in: data.len() as u32,
        data_in: pointer(data),
        repeat,
        context_size_in: context.len() as u32,
        context_in: pointer(context),
        ..TestRun::default()
    };
    // SAFETY: the kernel reads as many bytes of the live memory as the sizes say, and writes to the arguments alone.
    unsafe { bpf(PROG_TEST_RUN, &mut arguments)? };
    Ok((arguments.result, arguments.duration_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn loaded_programs_are_told_or_refused() {
        let mut id = 0;
        loop {
            match next_program(id) {
                Ok(next) => id = next,
                Err(Errno::ENOENT | Errno::EPERM | Errno::ENOSYS) => return,
                Err(errno) => panic!("{errno}"),
            }
            // It may have gone meanwhile.
            let Ok(program) = program(id) else { continue };
            let info = program_info(program.as_fd(), &[array::JITED_KSYMS, array::FUNC_INFO]).unwrap();
            assert_eq!(info.u32(4), id);
            assert_eq!(info.arrays[array::JITED_KSYMS].len(), info.u32(104) as usize * 8);
        }
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(program_info(file.as_fd(), &[]).is_err() && type_bytes(file.as_fd()).is_err());
        assert!(program(u32::MAX).is_err() && types(u32::MAX).is_err());
    }
}
