//! Objects without a process: a caller that is an array of bytes.

use super::{Caller, FileId, Kernel, Opened, Reply, Shared, Told};
use crate::ptrace::Tid;
use perfuse_abi::Errno;
use perfuse_engine::{Config, Engine, EventKey};
use std::collections::BTreeMap;

/// A caller: addresses are places in its memory, descriptors are given out in order.
struct Bench {
    shared: Shared,
    engine: Engine,
    memory: Vec<u8>,
    files: BTreeMap<i32, FileId>,
    next: i32,
}

struct View<'a> {
    memory: &'a mut Vec<u8>,
    files: &'a BTreeMap<i32, FileId>,
}

impl Caller for View<'_> {
    fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
        let found = self.memory.get(addr as usize..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(found.filter(|_| addr != 0).ok_or(Errno::EFAULT)?);
        Ok(())
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        let found = self.memory.get_mut(addr as usize..).and_then(|rest| rest.get_mut(..bytes.len()));
        found.filter(|_| addr != 0).ok_or(Errno::EFAULT)?.copy_from_slice(bytes);
        Ok(())
    }

    fn opened(&self, fd: i32) -> Opened {
        self.files.get(&fd).map_or(Opened::Nothing, |file| Opened::Bpf(*file))
    }

    fn opened_in(&self, _pid: i32, fd: i32) -> Option<Opened> {
        Some(self.opened(fd))
    }

    fn cgroup(&self, _fd: i32) -> Result<u64, Errno> {
        Err(Errno::EBADF)
    }

    fn uid(&self) -> u32 {
        7
    }

    fn thread(&self) -> (Tid, Tid) {
        (1, 1)
    }

    fn hold(&mut self, _event: EventKey) {}
}

/// Where in the memory arguments, keys, values and instructions are.
const ATTR: usize = 1 << 12;
const KEY: u64 = 1 << 13;
const VALUE: u64 = KEY + 64;
const INSNS: u64 = 1 << 14;
const LICENCE: u64 = INSNS + 4096;

const CREATE: u32 = 0;
const LOOKUP: u32 = 1;
const UPDATE: u32 = 2;
const LOAD: u32 = 5;
const NEXT_PROGRAM: u32 = 11;
const NEXT_MAP: u32 = 12;
const PIN: u32 = 6;

impl Bench {
    fn new() -> Self {
        let engine = Engine::new(Config::default());
        Bench { shared: Shared::new(), engine, memory: vec![0; 1 << 16], files: BTreeMap::new(), next: 3 }
    }

    /// Calls with these words of arguments.
    fn call(&mut self, command: u32, words: &[u32]) -> Result<i32, Errno> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.memory[ATTR..ATTR + bytes.len()].copy_from_slice(&bytes);
        let mut view = View { memory: &mut self.memory, files: &self.files };
        let mut kernel = Kernel { engine: &mut self.engine, place: (0, 0), probe_of: &|_| None };
        match self.shared.call(&mut kernel, &mut view, command, ATTR as u64, bytes.len() as u32)? {
            Reply::Number(number) => Ok(number as i32),
            Reply::Opens(file) => {
                self.next += 1;
                self.files.insert(self.next, file);
                Ok(self.next)
            }
        }
    }

    fn close(&mut self, fd: i32) {
        let file = self.files.remove(&fd).expect("it is open");
        self.shared.closed(&mut self.engine, file);
    }

    fn put(&mut self, addr: u64, bytes: &[u8]) {
        self.memory[addr as usize..addr as usize + bytes.len()].copy_from_slice(bytes);
    }

    fn map(&mut self, kind: u32, key: u32, value: u32, entries: u32) -> Result<i32, Errno> {
        self.call(CREATE, &[kind, key, value, entries, 0])
    }

    /// A call about a key and a value.
    fn element(&mut self, command: u32, fd: i32, key: u32, value: u64) -> Result<u64, Errno> {
        self.put(KEY, &key.to_ne_bytes());
        self.put(VALUE, &value.to_ne_bytes());
        self.call(command, &[fd as u32, 0, KEY as u32, 0, VALUE as u32, 0, 0, 0])?;
        Ok(u64::from_ne_bytes(std::array::from_fn(|at| self.memory[VALUE as usize + at])))
    }

    /// Loads a program of socket filters.
    fn load(&mut self, text: &str) -> Result<i32, Errno> {
        let insns = perfuse_bpf::assemble(text).expect("a program");
        let bytes = perfuse_bpf::insn::to_bytes(&insns, perfuse_bpf::ByteOrder::NATIVE);
        self.put(INSNS, &bytes);
        self.put(LICENCE, b"GPL\0");
        self.call(LOAD, &[1, (bytes.len() / 8) as u32, INSNS as u32, 0, LICENCE as u32, 0])
    }

    /// The ids that there are.
    fn ids(&mut self, command: u32) -> Vec<u32> {
        let mut ids = Vec::new();
        while self.call(command, &[ids.last().copied().unwrap_or(0), 0]).is_ok() {
            ids.push(u32::from_ne_bytes(std::array::from_fn(|at| self.memory[ATTR + 4 + at])));
        }
        ids
    }
}

#[test]
fn objects_live_as_long_as_something_leads_to_them() {
    let mut bench = Bench::new();
    let counts = bench.map(2, 4, 8, 1).expect("an array");
    let other = bench.map(2, 4, 8, 1).expect("an array");
    assert_eq!(bench.element(UPDATE, counts, 0, 5), Ok(5));
    assert_eq!(bench.element(LOOKUP, counts, 0, 0), Ok(5));
    let program = bench.load(&format!("r1 = map[fd:{counts}]; r0 = 0; exit")).expect("a program");
    bench.close(counts);
    bench.close(other);
    assert_eq!((bench.ids(NEXT_MAP), bench.ids(NEXT_PROGRAM)), (vec![1], vec![1]));
    bench.close(program);
    assert_eq!((bench.ids(NEXT_MAP), bench.ids(NEXT_PROGRAM)), (vec![], vec![]));
}

#[test]
fn programs_in_an_array_go_with_its_last_file() {
    let mut bench = Bench::new();
    let array = bench.map(3, 4, 4, 2).expect("an array of programs");
    // A program that goes on in itself.
    let program = bench
        .load(&format!("r2 = map[fd:{array}]; r3 = 0; call tail_call; r0 = 0; exit"))
        .expect("a program");
    assert!(bench.element(UPDATE, array, 0, program as u64).is_ok());
    assert_eq!(bench.element(UPDATE, array, 2, program as u64), Err(Errno::E2BIG));
    bench.close(program);
    assert_eq!(bench.ids(NEXT_PROGRAM), [1]);
    bench.close(array);
    assert_eq!((bench.ids(NEXT_MAP), bench.ids(NEXT_PROGRAM)), (vec![], vec![]));
}

#[test]
fn memory_of_maps_comes_back() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        let fds: Vec<i32> = std::iter::from_fn(|| bench.map(2, 4, 1 << 20, 128).ok()).collect();
        assert_eq!(fds.len(), 4, "of 128 MiB each");
        assert_eq!(bench.map(2, 4, 1 << 20, 128), Err(Errno::ENOMEM));
        fds.into_iter().for_each(|fd| bench.close(fd));
    }
}

#[test]
fn wrong_calls_are_refused_and_told_once() {
    let mut bench = Bench::new();
    let map = bench.map(1, 4, 8, 4).expect("a hash");
    assert_eq!(bench.element(LOOKUP, map, 3, 0), Err(Errno::ENOENT));
    assert_eq!(bench.element(LOOKUP, 99, 3, 0), Err(Errno::EBADF));
    assert_eq!(bench.call(LOOKUP, &[map as u32, 0, 1 << 20, 0, VALUE as u32, 0, 0, 0]), Err(Errno::EFAULT));
    assert_eq!(bench.call(9999, &[0]), Err(Errno::EINVAL));
    assert!(bench.shared.take_told().is_empty());
    assert_eq!(bench.call(PIN, &[0, 0, map as u32]), Err(Errno::EINVAL));
    assert_eq!(bench.map(12, 4, 4, 1), Err(Errno::EINVAL));
    let told = bench.shared.take_told();
    assert_eq!(told, ["BPF_OBJ_PIN", "a map of type 12"].map(|what| Told::NotServed(what.to_owned())));
    assert_eq!(bench.load("r0 = r2; exit"), Err(Errno::EACCES));
    let program = bench.load("r0 = 0; exit").expect("a program");
    assert_eq!(bench.element(LOOKUP, program, 3, 0), Err(Errno::EINVAL));
    assert!(bench.shared.program(bench.files[&map]).is_err());
    assert_eq!(bench.shared.name_of(bench.files[&program]), "anon_inode:bpf-prog");
}
