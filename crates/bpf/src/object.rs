//! Object files of BPF programs, as clang and GCC compile them for libbpf: programs and maps ready to be loaded, into Linux or into a
//! [`Machine`](crate::Machine). Instructions that hang on types of the kernel are fitted to those of a kernel (BTF), functions are put behind the
//! programs that call them, and global variables are maps.
//!
//! ```no_run
//! use perfuse_bpf::btf::Btf;
//! use perfuse_bpf::object::{Object, Target};
//! use perfuse_bpf::{ByteOrder, Machine, Maps, ProgramSpec, ProgramType};
//!
//! let types = Btf::parse(std::fs::read("/sys/kernel/btf/vmlinux")?, ByteOrder::NATIVE)?;
//! let mut object = Object::parse(&std::fs::read("counts.bpf.o")?, &Target { types: Some(&types), ..Target::new(4) })?;
//! // A variable that is constant for the program: `const volatile int threshold;`
//! object.variable("threshold").ok_or("there is none")?.copy_from_slice(&100u32.to_ne_bytes());
//!
//! let mut machine = Machine::new(Maps::new(4, 1 << 20, 7));
//! let maps = object.maps_in(&mut machine.maps)?;
//! for program in &object.programs {
//!     let program_type = program.program_type.ok_or("a program of another kind")?;
//!     machine.load(ProgramSpec { program_type, insns: &program.insns, maps: &maps })?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Not read:** maps of maps and what arrays of programs begin with, `maps` sections of libbpf before 1.0, addresses of the kernel's
//! variables, values of its configuration (`CONFIG_*`), and `bpf_core_type_matches`. A program that needs one is refused, with its name.

mod elf;
mod fields;
mod link;

use crate::btf::{Btf, BtfError, Kind, Type, word};
use crate::map::flag;
use crate::{Errno, Insn, MapId, MapKind, MapSpec, Maps, ProgramType};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use elf::File;
use fields::{Asked, Fitting, Record};
use link::{Code, Linker};
use perfuse_abi::ByteOrder;

/// All global variables of an object have at most so many bytes.
const MOST_DATA: u64 = 16 << 20;

/// The kernel that an object's programs are made for.
#[derive(Clone, Copy, Debug)]
pub struct Target<'k> {
    /// Its types. Without them programs stay as they were compiled: for a kernel with the types that they were compiled with.
    pub types: Option<&'k Btf>,
    /// Its version, as `LINUX_KERNEL_VERSION` has it: 0x61200 is 6.18.
    pub version: u32,
    /// Its cpus: entries of arrays of events that do not say how many they have.
    pub cpus: u32,
}

impl Target<'_> {
    /// Linux 6.18 with so many cpus, without types.
    pub const fn new(cpus: u32) -> Self {
        Target { types: None, version: 6 << 16 | 18 << 8, cpus }
    }
}

/// Programs with their maps.
#[derive(Clone, Debug)]
pub struct Object {
    /// The licence that the programs are under; helpers of Linux may ask for `GPL`.
    pub license: String,
    /// The maps, in the order of the numbers that the programs have for them.
    pub maps: Vec<ObjectMap>,
    /// The programs.
    pub programs: Vec<ObjectProgram>,
    variables: BTreeMap<String, Variable>,
}

/// A map of an object.
#[derive(Clone, Debug)]
pub struct ObjectMap {
    /// Its name; that of variables is their section's.
    pub name: String,
    /// Its kind and sizes. A size that the program leaves open is 0 until somebody says it.
    pub spec: MapSpec,
    /// Of variables: the value that its one entry begins with.
    pub value: Option<Vec<u8>>,
}

impl ObjectMap {
    fn of_variables(name: &str, value: Vec<u8>, is_constant: bool) -> Self {
        let mut spec = MapSpec::new(MapKind::Array, 4, value.len() as u32, 1);
        spec.flags = if is_constant { flag::RDONLY_PROG } else { 0 };
        ObjectMap { name: name.to_owned(), spec, value: Some(value) }
    }

    /// Whether programs only read its value: it is to be frozen when that is set, so that nobody else changes it.
    pub fn is_constant(&self) -> bool {
        self.value.is_some() && self.spec.flags & flag::RDONLY_PROG != 0
    }
}

/// A program of an object.
#[derive(Clone, Debug)]
pub struct ObjectProgram {
    /// The name of its function.
    pub name: String,
    /// Its section, which says where it belongs: `tracepoint/sched/sched_switch`, `uprobe//bin/sh:readline`, `perf_event`.
    pub section: String,
    /// Its type; `None` of one that is not run here.
    pub program_type: Option<ProgramType>,
    /// Its instructions, with the functions that it calls behind it. Maps stand by their numbers.
    pub insns: Vec<Insn>,
}

#[derive(Clone, Copy, Debug)]
struct Variable {
    map: usize,
    at: usize,
    len: usize,
}

/// Why a file is no object of programs, or one that cannot be made ready.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectError {
    /// It is no such file, in words.
    File(String),
    /// Its types are none.
    Types(BtfError),
    /// A map cannot be made as it is told.
    Map {
        /// Its name.
        name: String,
        /// Why not, in words.
        why: &'static str,
    },
    /// A program cannot be made ready.
    Program {
        /// Its section.
        section: String,
        /// The instruction in the section, in slots of 8 bytes.
        slot: usize,
        /// Why not, in words.
        why: String,
    },
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectError::File(why) => write!(f, "this is no object file of BPF programs: {why}"),
            ObjectError::Types(error) => write!(f, "the object's types: {error}"),
            ObjectError::Map { name, why } => write!(f, "map {name}: {why}"),
            ObjectError::Program { section, slot, why } => {
                write!(f, "section {section}, instruction {slot}: {why}")
            }
        }
    }
}

impl core::error::Error for ObjectError {}

impl From<object::Error> for ObjectError {
    fn from(error: object::Error) -> Self {
        ObjectError::File(error.to_string())
    }
}

/// The beginnings of sections of programs.
const SECTIONS: [(&str, ProgramType); 17] = [
    ("socket", ProgramType::SocketFilter),
    ("kprobe", ProgramType::Kprobe),
    ("kprobe.multi", ProgramType::Kprobe),
    ("kretprobe", ProgramType::Kprobe),
    ("kretprobe.multi", ProgramType::Kprobe),
    ("ksyscall", ProgramType::Kprobe),
    ("kretsyscall", ProgramType::Kprobe),
    ("uprobe", ProgramType::Kprobe),
    ("uprobe.multi", ProgramType::Kprobe),
    ("uretprobe", ProgramType::Kprobe),
    ("uretprobe.multi", ProgramType::Kprobe),
    ("usdt", ProgramType::Kprobe),
    ("tracepoint", ProgramType::Tracepoint),
    ("tp", ProgramType::Tracepoint),
    ("raw_tracepoint", ProgramType::RawTracepoint),
    ("raw_tp", ProgramType::RawTracepoint),
    ("perf_event", ProgramType::PerfEvent),
];

impl ObjectProgram {
    /// Where it is to be attached: the part of its section behind the first `/`.
    pub fn place(&self) -> Option<&str> {
        self.section.split_once('/').map(|(_, place)| place)
    }
}

/// The type of the programs in a section.
fn type_of(section: &str) -> Option<ProgramType> {
    let kind = section.split('/').next()?.trim_start_matches('?');
    let kind = kind.strip_suffix(".s").unwrap_or(kind);
    SECTIONS.iter().find(|(name, _)| *name == kind).map(|(_, program_type)| *program_type)
}

/// A section of variables.
fn is_data(name: &str) -> bool {
    [".data", ".rodata", ".bss"]
        .iter()
        .any(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

impl Object {
    /// Reads an object file, and makes its programs ready for a kernel.
    ///
    /// # Errors
    ///
    /// It is none, or has what cannot be made ready: see [`ObjectError`].
    pub fn parse(file: &[u8], target: &Target<'_>) -> Result<Self, ObjectError> {
        let file = File::read(file)?;
        let types = own_types(&file)?;
        let mut reading =
            Reading { file: &file, types: types.as_ref(), maps: Vec::new(), places: BTreeMap::new() };
        reading.maps(target)?;
        let variables = reading.variables()?;
        let settings = reading.settings(target);
        let mut code = Code::of(&file)?;
        if let (Some(local), Some(kernel)) = (&types, target.types) {
            reading.fit(local, kernel, &mut code)?;
        }
        let linker = Linker::new(&file, &code, &reading.places, &settings, target.types);
        let mut programs = Vec::new();
        let mut room = link::MOST_SLOTS;
        for (section, at) in linker.programs() {
            let insns = linker.program((section, at), &mut room)?;
            let (section, name) = linker.names((section, at));
            programs.push(ObjectProgram {
                name: name.to_owned(),
                program_type: type_of(section),
                section: section.to_owned(),
                insns,
            });
        }
        let license = file.section("license").map_or(&[][..], |(_, section)| section.bytes);
        let license = license.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(Object {
            license: String::from_utf8_lossy(license).into_owned(),
            maps: reading.maps,
            programs,
            variables,
        })
    }

    /// The bytes of a global variable, which may be set before the maps are made.
    pub fn variable(&mut self, name: &str) -> Option<&mut [u8]> {
        let Variable { map, at, len } = *self.variables.get(name)?;
        self.maps.get_mut(map)?.value.as_mut()?.get_mut(at..at.checked_add(len)?)
    }

    /// The number of a map.
    pub fn map(&self, name: &str) -> Option<usize> {
        self.maps.iter().position(|map| map.name == name)
    }

    /// Makes the maps, with the values of variables, for programs that run here.
    ///
    /// # Errors
    ///
    /// Those of [`Maps::create`] and [`Map::update`](crate::Map::update).
    pub fn maps_in(&self, maps: &mut Maps) -> Result<Vec<MapId>, Errno> {
        let create = |one: &ObjectMap| {
            let id = maps.create(one.spec.clone())?;
            if let Some(value) = &one.value {
                let map = maps.get_mut(id)?;
                map.update(&[0; 4], value, flag::ANY)?;
                if one.is_constant() {
                    map.freeze()?;
                }
            }
            Ok(id)
        };
        self.maps.iter().map(create).collect()
    }
}

/// The types that an object file has of its own: those that its programs were compiled with.
///
/// # Errors
///
/// It is no object file of programs, or its types are none.
pub fn types(file: &[u8]) -> Result<Option<Btf>, ObjectError> {
    own_types(&File::read(file)?)
}

fn own_types(file: &File<'_>) -> Result<Option<Btf>, ObjectError> {
    let section = file.section(".BTF").map(|(_, section)| section.bytes.to_vec());
    section.map(|bytes| Btf::parse(bytes, file.order)).transpose().map_err(ObjectError::Types)
}

/// Where symbols of maps and variables lie: by section, the map of a place in it, or of all of it.
type Places = BTreeMap<usize, MapsOf>;

/// Where the values are that libbpf would give: the map, and the place in its value.
type Settings = BTreeMap<String, (usize, i32)>;

/// The maps of a section.
#[derive(Debug)]
enum MapsOf {
    /// One, whose value is the section.
    Data(usize),
    /// By where they begin.
    Told(BTreeMap<u64, usize>),
}

struct Reading<'r, 'f> {
    file: &'r File<'f>,
    types: Option<&'r Btf>,
    maps: Vec<ObjectMap>,
    places: Places,
}

impl Reading<'_, '_> {
    /// The maps that are told by types in the section `.maps`.
    fn maps(&mut self, target: &Target<'_>) -> Result<(), ObjectError> {
        if self.file.section("maps").is_some() {
            let why = "maps are told in the way before libbpf 1.0: struct bpf_map_def";
            return Err(ObjectError::Map { name: "maps".to_owned(), why });
        }
        let Some((section, _)) = self.file.section(".maps") else { return Ok(()) };
        let all = self.types.into_iter().flat_map(|types| types.all());
        let variables: BTreeMap<&[u8], u32> =
            all.filter(|(_, one)| one.kind() == Kind::Var).map(|(_, one)| (one.name(), one.word())).collect();
        let mut places = BTreeMap::new();
        for symbol in self.file.symbols.values().filter(|symbol| symbol.section == Some(section)) {
            let name = symbol.name;
            if name.is_empty() {
                continue;
            }
            let told = self.types.and_then(|types| Some((types, *variables.get(name.as_bytes())?)));
            let spec = told.ok_or("no type (BTF) tells what it is");
            let spec = spec.and_then(|(types, number)| told_map(types, number, target));
            let spec = spec.map_err(|why| ObjectError::Map { name: name.to_owned(), why })?;
            places.insert(symbol.address, self.maps.len());
            self.maps.push(ObjectMap { name: name.to_owned(), spec, value: None });
        }
        self.places.insert(section, MapsOf::Told(places));
        Ok(())
    }

    /// Maps of global variables, and these.
    fn variables(&mut self) -> Result<BTreeMap<String, Variable>, ObjectError> {
        let (mut variables, mut room) = (BTreeMap::new(), MOST_DATA);
        for (&index, section) in &self.file.sections {
            if !is_data(section.name) || section.is_code || section.size == 0 {
                continue;
            }
            let why = "its variables are larger than 16 MiB in all";
            let left = room.checked_sub(section.size);
            room = left.ok_or_else(|| ObjectError::Map { name: section.name.to_owned(), why })?;
            let mut value = section.bytes.to_vec();
            value.resize(section.size as usize, 0);
            self.places.insert(index, MapsOf::Data(self.maps.len()));
            let is_constant = section.name.starts_with(".rodata");
            self.maps.push(ObjectMap::of_variables(section.name, value, is_constant));
        }
        for symbol in self.file.symbols.values().filter(|symbol| !symbol.name.is_empty()) {
            let section = symbol.section.and_then(|index| self.places.get(&index));
            if let Some(&MapsOf::Data(map)) = section {
                let variable = Variable { map, at: symbol.address as usize, len: symbol.size as usize };
                variables.insert(symbol.name.to_owned(), variable);
            }
        }
        Ok(variables)
    }

    /// Values that libbpf would give (`__kconfig`), in a map of their own: where each is.
    fn settings(&mut self, target: &Target<'_>) -> Settings {
        let section = self.types.and_then(|types| Some((types, types.find(Kind::DataSec, ".kconfig")?.1)));
        let Some((types, section)) = section else { return Settings::new() };
        let (mut settings, mut value, map) = (BTreeMap::new(), Vec::new(), self.maps.len());
        for number in section.variables() {
            let Some(one) = types.get(number).filter(|one| one.kind() == Kind::Var) else { continue };
            let name = String::from_utf8_lossy(one.name()).into_owned();
            // An unknown one is 0 for programs that can do without; others are refused where they ask for it.
            let known = match name.as_str() {
                "LINUX_KERNEL_VERSION" => target.version.into(),
                "LINUX_HAS_BPF_COOKIE" | "LINUX_HAS_SYSCALL_WRAPPER" => 1u64,
                _ => 0,
            };
            let size =
                types.size_of(one.word()).filter(|size| (1..=8).contains(size) && size.is_power_of_two());
            let Some(size) = size else { continue };
            value.resize(value.len().next_multiple_of(size as usize), 0);
            settings.insert(name, (map, value.len() as i32));
            match self.file.order {
                ByteOrder::Little => value.extend(&known.to_le_bytes()[..size as usize]),
                ByteOrder::Big => value.extend(&known.to_be_bytes()[8 - size as usize..]),
            }
        }
        if !value.is_empty() {
            self.maps.push(ObjectMap::of_variables(".kconfig", value, true));
        }
        settings
    }

    /// Fits instructions to a kernel's types.
    fn fit(
        &self,
        local: &Btf,
        kernel: &Btf,
        code: &mut BTreeMap<usize, Code<'_>>,
    ) -> Result<(), ObjectError> {
        let Some((_, section)) = self.file.section(".BTF.ext") else { return Ok(()) };
        let broken = || ObjectError::File("its records about types (.BTF.ext) are cut off".to_owned());
        let (bytes, order) = (section.bytes, self.file.order);
        let word = |at: usize| word(bytes, at, order).ok_or_else(broken);
        // Older compilers tell only of functions and lines.
        let header = word(4)? as usize;
        if header < 32 {
            return Ok(());
        }
        let start = header.checked_add(word(24)? as usize).ok_or_else(broken)?;
        let end =
            start.checked_add(word(28)? as usize).filter(|end| *end <= bytes.len()).ok_or_else(broken)?;
        if start == end {
            return Ok(());
        }
        let (record_bytes, mut at) = (word(start)? as usize, start + 4);
        if record_bytes < 16 {
            return Err(broken());
        }
        let mut fitting = Fitting::new(local, kernel, order);
        let numbers: BTreeMap<&[u8], usize> =
            code.iter().rev().map(|(&number, section)| (section.name.as_bytes(), number)).collect();
        while at < end {
            let (name, count) = (local.name_at(word(at)?), word(at + 4)? as usize);
            at += 8;
            let section = numbers.get(name).and_then(|number| code.get_mut(number)).ok_or_else(|| {
                let name = String::from_utf8_lossy(name);
                ObjectError::File(format!("it has no instructions in a section {name}"))
            })?;
            for _ in 0..count {
                if at.checked_add(record_bytes).is_none_or(|next| next > end) {
                    return Err(broken());
                }
                let [insn, type_number, way, kind] =
                    [word(at)?, word(at + 4)?, word(at + 8)?, word(at + 12)?];
                at += record_bytes;
                let refused = |why: &str| ObjectError::Program {
                    section: section.name.to_owned(),
                    slot: insn as usize / 8,
                    why: why.to_owned(),
                };
                let asked = Asked::of_number(kind);
                let asked = asked
                    .ok_or_else(|| refused("bpf_core_type_matches and later kinds are not known here"))?;
                let record = Record { at: insn, type_number, way: local.name_at(way), asked };
                fitting.apply(&record, &mut section.slots).map_err(|why| {
                    let of = local.get(type_number).map_or_else(String::new, |one| {
                        format!(" ({})", String::from_utf8_lossy(one.name()))
                    });
                    refused(&format!("{why}{of}"))
                })?;
            }
        }
        Ok(())
    }
}

/// A map as its type tells: a struct whose members' types are arrays of so many elements, or pointers to what it keeps.
fn told_map(types: &Btf, number: u32, target: &Target<'_>) -> Result<MapSpec, &'static str> {
    const OTHER: &str = "its type is no struct, as those of maps are";
    /// There are eleven that mean something.
    const MOST_MEMBERS: u32 = 16;
    let is_of_map = |one: &Type<'_>| one.kind() == Kind::Struct && one.count() <= MOST_MEMBERS;
    let (_, told) = types.resolved(number).filter(|(_, one)| is_of_map(one)).ok_or(OTHER)?;
    let (mut kind, mut spec) = (None, MapSpec::new(MapKind::Array, 0, 0, 0));
    for member in told.members() {
        let behind = |number: u32| {
            let (_, one) = types.resolved(number).filter(|(_, one)| one.kind() == Kind::Ptr)?;
            Some(one.word())
        };
        let count = || {
            let (_, array) = types.resolved(behind(member.type_number)?)?;
            array.array().map(|array| array.count)
        };
        let size = || u32::try_from(types.size_of(behind(member.type_number)?)?).ok();
        const NO_NUMBER: &str = "its type has a member that tells no number";
        match member.name {
            b"type" => kind = Some(count().ok_or(NO_NUMBER)?),
            b"max_entries" => spec.max_entries = count().ok_or(NO_NUMBER)?,
            b"map_flags" => spec.flags = count().ok_or(NO_NUMBER)?,
            b"key_size" => spec.key_size = count().ok_or(NO_NUMBER)?,
            b"value_size" => spec.value_size = count().ok_or(NO_NUMBER)?,
            b"key" => spec.key_size = size().ok_or(NO_NUMBER)?,
            b"value" => spec.value_size = size().ok_or(NO_NUMBER)?,
            b"values" => return Err("maps of maps, and arrays that begin with programs, are not read"),
            // Whose memory it is, and under which name others find it, is for whoever makes it.
            b"numa_node" | b"pinning" => {}
            _ => return Err("its type has a member that is not known"),
        }
    }
    spec.kind = kind.and_then(MapKind::of_number).ok_or("it is of a kind that there is not here")?;
    if spec.kind == MapKind::PerfEventArray {
        let or = |size: u32, other: u32| if size == 0 { other } else { size };
        (spec.key_size, spec.value_size) = (or(spec.key_size, 4), or(spec.value_size, 4));
        spec.max_entries = or(spec.max_entries, target.cpus);
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn sections_tell_types() {
        for (section, expected) in [
            ("perf_event", Some(ProgramType::PerfEvent)),
            ("tp/sched/sched_switch", Some(ProgramType::Tracepoint)),
            ("?kprobe/do_exit", Some(ProgramType::Kprobe)),
            ("uprobe.s//bin/sh:readline", Some(ProgramType::Kprobe)),
            ("raw_tp/sys_enter", Some(ProgramType::RawTracepoint)),
            ("fentry/do_exit", None),
            ("tpx/a/b", None),
        ] {
            assert_eq!(type_of(section), expected, "{section}");
        }
        assert!(is_data(".rodata.str1.1") && is_data(".bss") && !is_data(".database") && !is_data("data"));
    }

    #[test]
    fn other_files_are_told() {
        let told = |bytes: &[u8]| Object::parse(bytes, &Target::new(1)).unwrap_err().to_string();
        assert!(told(b"").starts_with("this is no object file of BPF programs: "));
        let mut header = [0; 64];
        header[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0");
        header[52] = 64;
        assert_eq!(
            told(&header),
            "this is no object file of BPF programs: it is for another processor than BPF"
        );
    }

    #[test]
    fn a_map_keeps_its_value() {
        let spec = MapSpec { flags: flag::RDONLY_PROG, ..MapSpec::new(MapKind::Array, 4, 2, 1) };
        let map = ObjectMap { name: ".rodata".to_owned(), spec, value: Some(vec![1, 2]) };
        let variables = BTreeMap::from([
            ("second".to_owned(), Variable { map: 0, at: 1, len: 1 }),
            ("beyond".to_owned(), Variable { map: 0, at: 1, len: 2 }),
            ("endless".to_owned(), Variable { map: 0, at: usize::MAX, len: 2 }),
        ]);
        let mut object = Object { license: String::new(), maps: vec![map], programs: Vec::new(), variables };
        object.variable("second").unwrap()[0] = 9;
        assert!(object.variable("beyond").is_none() && object.variable("endless").is_none());
        let mut maps = Maps::new(1, 1 << 16, 1);
        let made = object.maps_in(&mut maps).unwrap();
        let map = maps.get(made[0]).unwrap();
        assert_eq!((map.lookup(&[0; 4]).unwrap(), map.is_frozen()), (vec![1, 9], true));
    }
}
