//! Object files, made ready and run. `objects/` has their source.

use perfuse_bpf::map::flag;
use perfuse_bpf::object::{Object, ObjectError, Target, types};
use perfuse_bpf::{
    Insn, Machine, MapId, MapKind, Maps, NoWorld, ProgramId, ProgramSpec, ProgramType, Refusal, listing,
};

const COUNTS: &[u8] = include_bytes!("objects/counts.bpf.o");
const COUNTS_BIG: &[u8] = include_bytes!("objects/counts.bpfeb.o");
const FIELDS: &[u8] = include_bytes!("objects/fields.bpf.o");
const OTHER: &[u8] = include_bytes!("objects/other.bpf.o");

fn machine(object: &Object) -> (Machine, Vec<MapId>) {
    let mut machine = Machine::new(Maps::new(1, 1 << 20, 1));
    let maps = object.maps_in(&mut machine.maps).unwrap();
    (machine, maps)
}

fn load(
    object: &Object,
    name: &str,
    (machine, maps): &mut (Machine, Vec<MapId>),
) -> Result<ProgramId, Refusal> {
    let program = object.programs.iter().find(|program| program.name == name).unwrap();
    let program_type = program.program_type.unwrap();
    machine.load(ProgramSpec { program_type, insns: &program.insns, maps })
}

fn run(object: &Object, name: &str, loaded: &mut (Machine, Vec<MapId>), context: &[u8]) -> u64 {
    let id = load(object, name, loaded).unwrap();
    let mut context = context.to_vec();
    loaded.0.run(id, &mut context, &mut NoWorld, 100_000).unwrap().result.unwrap()
}

fn value(object: &Object, name: &str, (machine, maps): &(Machine, Vec<MapId>), key: u32) -> Vec<u8> {
    machine.maps.get(maps[object.map(name).unwrap()]).unwrap().lookup(&key.to_ne_bytes()).unwrap()
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn an_object_tells_its_programs_and_maps() {
    let object = Object::parse(COUNTS, &Target::new(6)).unwrap();
    assert_eq!(object.license, "Dual MIT/GPL");
    let programs: Vec<_> = object
        .programs
        .iter()
        .map(|program| {
            (program.name.as_str(), program.section.as_str(), program.place(), program.program_type)
        })
        .collect();
    let enter = |name| (name, "raw_tp/sys_enter", Some("sys_enter"), Some(ProgramType::RawTracepoint));
    let call = "tracepoint/syscalls/sys_enter_getppid";
    assert_eq!(
        programs,
        [
            ("on_event", "perf_event", None, Some(ProgramType::PerfEvent)),
            ("on_call", call, Some("syscalls/sys_enter_getppid"), Some(ProgramType::Tracepoint)),
            enter("on_enter"),
            enter("on_enter_too"),
            ("on_exit", "fentry/do_exit", Some("do_exit"), None),
        ]
    );
    let maps: Vec<_> =
        object.maps.iter().map(|map| (map.name.as_str(), map.spec.clone(), map.value.as_deref())).collect();
    let spec = |kind, key_size, value_size, max_entries, flags| perfuse_bpf::MapSpec {
        flags,
        ..perfuse_bpf::MapSpec::new(kind, key_size, value_size, max_entries)
    };
    let [last, hidden] = [7u64, 3].map(u64::to_le_bytes);
    let version = [0, 0x12, 6, 0, 0, 0, 0, 0];
    assert_eq!(
        maps,
        [
            ("counts", spec(MapKind::Hash, 4, 16, 64, 0), None),
            ("events", spec(MapKind::PerfEventArray, 4, 4, 6, 0), None),
            (
                ".rodata",
                spec(MapKind::Array, 4, 12, 1, flag::RDONLY_PROG),
                Some(&b"\x01\0\0\0abc\0\0\0\0\0"[..])
            ),
            (".data", spec(MapKind::Array, 4, 16, 1, 0), Some(&[last, hidden].concat())),
            (".bss", spec(MapKind::Array, 4, 8, 1, 0), Some(&[0; 8][..])),
            (".kconfig", spec(MapKind::Array, 4, 8, 1, flag::RDONLY_PROG), Some(&version[..])),
        ]
    );
}

#[test]
fn variables_and_functions_are_those_of_the_program() {
    let mut object = Object::parse(COUNTS, &Target { version: 0x50a00, ..Target::new(1) }).unwrap();
    object.variable("step").unwrap().copy_from_slice(&5u32.to_ne_bytes());
    assert!(object.variable("nothing").is_none());
    let mut loaded = machine(&object);
    for _ in 0..3 {
        assert_eq!(run(&object, "on_event", &mut loaded, &[0; 184]), 0);
    }
    // 2 * 5 and what was hidden, which grows each time: 13 + 14 + 15.
    assert_eq!(numbers(&value(&object, "counts", &loaded, 5)), [3, 42]);
    assert_eq!(numbers(&value(&object, ".data", &loaded, 0)), [42, 6]);
    assert_eq!(numbers(&value(&object, ".bss", &loaded, 0)), [3]);
    // A function that bpf_loop calls: 0 + 1 + 2 + 3 + 4.
    assert_eq!(run(&object, "on_call", &mut loaded, &[0; 64]), u64::from(b'b'));
    assert_eq!(numbers(&value(&object, ".data", &loaded, 0)), [10, 6]);
    assert_eq!(run(&object, "on_enter", &mut loaded, &[0; 96]), 0x50a);
    assert_eq!(run(&object, "on_enter_too", &mut loaded, &[0; 96]), 6);
}

#[test]
fn both_byte_orders_are_one_program() {
    let [little, big] = [COUNTS, COUNTS_BIG].map(|file| Object::parse(file, &Target::new(1)).unwrap());
    let text = |object: &Object| -> Vec<String> {
        object.programs.iter().map(|program| listing(&program.insns)).collect()
    };
    assert_eq!(text(&little), text(&big));
    assert_eq!(big.maps[5].value.as_deref(), Some(&[0, 6, 0x12, 0, 0, 0, 0, 0][..]));
}

/// The places and values that a program finds, by the types of a kernel.
fn told(kernel: Option<&[u8]>) -> Vec<u64> {
    let kernel = kernel.map(|file| types(file).unwrap().unwrap());
    let object = Object::parse(FIELDS, &Target { types: kernel.as_ref(), ..Target::new(1) }).unwrap();
    let mut loaded = machine(&object);
    assert_eq!(run(&object, "places", &mut loaded, &[0; 96]), 0);
    (0..27).flat_map(|index| numbers(&value(&object, "told", &loaded, index))).collect()
}

#[test]
fn programs_are_fitted_to_types() {
    // As the compiler says it. wide: at, bytes; narrow; points[3]; more: at, bytes, shifts; inner.center.y; number; signs.
    let own = [0, 4, 4, 32, 40, 8, 55, 55, 48, 8, 1, 0];
    // missing and inner.gone are there, and where; struct unknown; GREEN.
    let rest = [1, 1, 68, 1, 1];
    // By a name of its own; a vanished member; sizes; RED and BLUE; points[3]; two further on.
    let last = [0, 1, 1, 72, 4, 1, 0, 2, 1, 200];
    assert_eq!(told(None), [&own[..], &rest, &last].concat());
    let own = [16, 8, 8, 48, 72, 4, 54, 57, 84, 4, 1, 0];
    let last = [88, 0, 0, 104, 8, 1, 7, 8, 1, 296];
    assert_eq!(told(Some(OTHER)), [&own[..], &[0; 5], &last].concat());
}

#[test]
fn numbers_are_read_in_the_kernels_size() {
    let kernel = types(OTHER).unwrap().unwrap();
    let object = Object::parse(FIELDS, &Target { types: Some(&kernel), ..Target::new(1) }).unwrap();
    let mut loaded = machine(&object);
    let mut context = [0; 96];
    context[8..24].copy_from_slice(&[7, 0, 9, 9, 9, 9, 9, 9, 5, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(run(&object, "reads", &mut loaded, &context), 12 | 1 << 32);
    // One with a sign would have to be extended: there is no such read.
    let refused = load(&object, "turned", &mut loaded).unwrap_err().to_string();
    let expected = "the program asks here for a type, member or value that the kernel does not have";
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn what_is_not_had_is_told() {
    // A name in the file is another one of the same length.
    let with = |file: &[u8], name: &[u8], other: &[u8]| {
        let mut file = file.to_vec();
        let places: Vec<usize> = file
            .windows(name.len())
            .enumerate()
            .filter(|(_, part)| *part == name)
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty() && name.len() == other.len());
        places.into_iter().for_each(|at| file[at..at + name.len()].copy_from_slice(other));
        Object::parse(&file, &Target::new(1)).unwrap_err()
    };
    let error = with(COUNTS, b"LINUX_KERNEL_VERSION", b"CONFIG_KERNEL_PREEMP");
    assert_eq!(
        error.to_string(),
        "section raw_tp/sys_enter, instruction 0: CONFIG_KERNEL_PREEMP is a function, variable or setting of the kernel that is not had here"
    );
    let error = with(COUNTS, b"max_entries\0", b"max_entrances"[..12].try_into().unwrap());
    assert_eq!(
        error,
        ObjectError::Map { name: "counts".into(), why: "its type has a member that is not known" }
    );
}

#[test]
fn broken_files_are_refused_or_read() {
    let kernel = types(OTHER).unwrap().unwrap();
    let mut seed = 1u64;
    let mut draw = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let (mut read, mut refused) = (0, 0);
    for round in 0..4_000 {
        let mut file = [COUNTS, FIELDS, OTHER][round % 3].to_vec();
        for _ in 0..1 + round % 7 {
            let at = draw(file.len());
            file[at] = [0, 1, 0x7f, 0xff, draw(256) as u8][draw(5)];
        }
        if round % 11 == 0 {
            let len = draw(file.len());
            file.truncate(len);
        }
        let target = Target { types: (round % 2 == 0).then_some(&kernel), ..Target::new(1) };
        match Object::parse(&file, &target) {
            Ok(object) => {
                read += 1;
                let slots: usize =
                    object.programs.iter().flat_map(|program| &program.insns).map(Insn::slots).sum();
                assert!(slots <= 1_000_000);
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}

/// A section: its type, its flags, where it lies in the file, and how long it says it is.
type Header = (u32, u64, usize, u64);

/// A file with these bytes behind its header and these sections, of which the first has the names of the others: all are called the same.
fn file(bytes: &[u8], sections: &[Header]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\xf7\0\x01\0\0\0".to_vec();
    let start = (64 + bytes.len()).next_multiple_of(8);
    file.extend([0, 0, start as u64].into_iter().flat_map(u64::to_le_bytes));
    // Flags; bytes of the header, of program headers and how many of these there are; the same of sections, and which has the names.
    file.extend([0, 0, 64, 0, 0, 64, sections.len() as u16 + 1, 1].into_iter().flat_map(u16::to_le_bytes));
    file.extend(bytes);
    file.resize(start + 64, 0);
    for &(kind, flags, at, len) in sections {
        file.extend([1, kind].into_iter().flat_map(u32::to_le_bytes));
        let (link, entry) = if kind == 2 { (1, 24) } else { (0, 0) };
        file.extend([flags, 0, 64 + at as u64, len, link, 8, entry].into_iter().flat_map(u64::to_le_bytes));
    }
    file
}

#[test]
fn few_bytes_do_not_become_many() {
    let told =
        |bytes: &[u8], sections: &[Header]| match Object::parse(&file(bytes, sections), &Target::new(1)) {
            Ok(object) => format!("{} programs", object.programs.len()),
            Err(error) => error.to_string(),
        };
    const NAMES: &[u8] = b"\0.data\0";
    let names = (3, 0, 0, NAMES.len() as u64);
    let exit = [0x95, 0, 0, 0, 0, 0, 0, 0];
    // Twenty thousand sections of the same thousand instructions.
    let code = [&NAMES[..6], b"\0\0", &exit.repeat(1000)].concat();
    let one = (1, 6, 8, 8000);
    assert_eq!(told(&code, &[names, one]), "0 programs");
    let refused = "section .data, instruction 0: there are more than 1000000 instructions";
    assert_eq!(told(&code, &[&[names][..], &vec![one; 20_000]].concat()), refused);
    // A gigabyte of variables that begin with 0, and two that share their bytes.
    let refused = "map .data: its variables are larger than 16 MiB in all";
    assert_eq!(told(NAMES, &[names, (8, 3, 0, 1 << 30)]), refused);
    let long = [NAMES, &[0; 10 << 20]].concat();
    assert_eq!(told(&long, &[names, (1, 3, 0, 10 << 20), (1, 3, 0, 10 << 20)]), refused);
    // Symbols whose names are ends of one long name.
    let mut many = [&NAMES[..6], &[b'a'; 1 << 20], b"\0\0"].concat();
    let (len, at) = (many.len() as u64, many.len());
    many.extend((0..100u32).flat_map(|n| [&(10 + n).to_le_bytes()[..], &[0x12, 0, 0, 0], &[0; 16]].concat()));
    let refused = "this is no object file of BPF programs: its names are longer than 16 MiB in all";
    assert_eq!(told(&many, &[(3, 0, 0, len), (2, 0, at, 2400)]), refused);
}
