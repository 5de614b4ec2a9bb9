//! Files that the tests make themselves: ELF files of all classes and orders, whole and damaged, stores of
//! debug files, and jitdumps.

mod common;

use common::{FUNC, GLOBAL, MadeDump, MadeElf};
use perfuse_symbols::{
    Addition, Address, BuildId, BuildIdStore, DsoKey, Elf, JitDump, JitEvent, Missing, Reference,
    SymbolOptions, SymbolTable, Symbolizer,
};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A folder for the files of one test, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = format!("symbols-made-{name}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
        fs::create_dir_all(&folder).expect("a folder for the test's files");
        Scratch(folder)
    }

    /// Writes a file below the folder.
    fn file(&self, path: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, bytes).expect("written");
        path
    }

    /// SymbolOptions that look nowhere else.
    fn options(&self) -> SymbolOptions {
        let mut options = SymbolOptions::default();
        options.build_id_store = Some(self.0.join("store"));
        options.debug_dirs = vec![self.0.join("debug")];
        options.debuginfod_cache = None;
        options
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(path: &Path) -> DsoKey {
    DsoKey::of_map(path.as_os_str().as_bytes(), 1)
}

fn names(table: &SymbolTable) -> Vec<String> {
    table.iter().map(|symbol| format!("{:x}+{:x} {}", symbol.start, symbol.size, symbol.name())).collect()
}

#[test]
fn every_class_and_byte_order() {
    for (is_64, machine) in [(true, 62), (false, 3), (true, 22), (false, 20)] {
        for big_endian in [false, true] {
            let elf = MadeElf { is_64, big_endian, machine, ..MadeElf::default() };
            let elf = Elf::from_bytes("made", elf.bytes()).expect("an ELF file");
            assert_eq!((elf.is_64(), elf.is_big_endian(), elf.machine()), (is_64, big_endian, machine));
            let id: Vec<u8> = (1..=20).collect();
            assert_eq!(elf.build_id().expect("notes"), BuildId::new(&id));
            let table = elf.symbols().expect("symbols");
            assert_eq!(names(&table), ["2000+40 first", "2040+40 _ZN3foo3barEv", "20c0+40 open"]);
            assert_eq!(elf.address_of(0x1044), Some(0x2044));
            let found = table.find(0x2044).expect("found");
            assert_eq!((found.symbol.demangled().as_ref(), found.offset), ("foo::bar", 4));
        }
    }
}

#[test]
fn a_file_whose_code_is_not_at_its_offset() {
    for (kind, code_address) in [(2, 0x40_1000), (3, 0x1000), (3, 0x5_3000), (3, 0x3_4567_8000)] {
        let symbols = vec![("f", code_address, 0x10, GLOBAL | FUNC), ("g", code_address + 0x10, 0x10, FUNC)];
        let elf = MadeElf { kind, code_address, code_offset: 0x1000, symbols, ..MadeElf::default() };
        let scratch = Scratch::new(&format!("vaddr-{code_address:x}"));
        let path = scratch.file("program", &elf.bytes());
        let dso = Symbolizer::new(scratch.options()).dso(&key(&path));
        let found = dso.find(Address::FileOffset(0x1012)).expect("found");
        assert_eq!((&*found.symbol.name(), found.offset), ("g", 2));
        assert_eq!(dso.address(Address::FileOffset(0x1012)), Some(code_address + 0x12));
        assert_eq!(dso.find(Address::Memory(code_address + 0x12)), Some(found));
        assert_eq!(dso.find(Address::FileOffset(0x1080)), None);
        assert_eq!(dso.missing(), None);
    }
}

#[test]
fn thumb_functions_begin_at_even_addresses() {
    let symbols = vec![("thumb", 0x2001, 0x10, GLOBAL | FUNC), ("$t", 0x2000, 0, 0), ("$d.1", 0x2010, 0, 0)];
    let elf = MadeElf { is_64: false, machine: 40, symbols, ..MadeElf::default() };
    let table = Elf::from_bytes("made", elf.bytes()).expect("ELF").symbols().expect("symbols");
    assert_eq!(names(&table), ["2000+10 thumb"]);
}

/// A recording may call a file by any number of names.
#[test]
fn a_file_is_read_once_whatever_its_names_are() {
    let scratch = Scratch::new("one");
    let path = scratch.file("bin/program", &MadeElf::default().bytes());
    let (linked, pointed) = (scratch.0.join("linked"), scratch.0.join("pointed"));
    fs::hard_link(&path, &linked).expect("a link");
    std::os::unix::fs::symlink(&path, &pointed).expect("a link");
    let symbolizer = Symbolizer::new(scratch.options());
    let name = |path: &Path| {
        let dso = symbolizer.dso(&key(path));
        let found = dso.find(Address::Memory(0x2000)).expect("found");
        // The same bytes of memory, not only the same name.
        (found.symbol.name().into_owned(), found.symbol.raw_name().as_ptr())
    };
    let first = name(&path);
    let roundabout = (0..50).map(|number| scratch.0.join("bin/../".repeat(number)).join("bin/program"));
    for other in roundabout.chain([linked, pointed]) {
        assert_eq!(name(&other), first, "{}", other.display());
    }
    let copy = scratch.file("copy", &MadeElf::default().bytes());
    assert_ne!(name(&copy).1, first.1);
}

/// A stripped program and its debug file.
fn stripped() -> (MadeElf, MadeElf) {
    let program =
        MadeElf { full: false, symbols: vec![("first", 0x2000, 0x40, GLOBAL | FUNC)], ..MadeElf::default() };
    let debug = MadeElf { has_code: false, ..MadeElf::default() };
    (program, debug)
}

#[test]
fn a_store_finds_what_it_keeps_and_stays_within_itself() {
    let scratch = Scratch::new("kept");
    let program = scratch.file("program", &MadeElf::default().bytes());
    let program = program.canonicalize().expect("a path");
    let (store, options) = (BuildIdStore::at(scratch.0.join("store")), scratch.options());
    assert_eq!(store.list().expect("an empty store"), []);
    let addition = Addition::File { name: &program, place: &program };
    let id = store.add(addition, &options).expect("added");
    assert_eq!(store.add(addition, &options).expect("added again"), id);
    assert_eq!(store.list().expect("a list").len(), 1);
    assert_eq!((store.name_of(&id), store.named(&program).expect("ids")), (Some(program.clone()), vec![id]));
    assert_eq!(store.parts(&id).len(), 2);
    // The file is found by its build-id alone.
    fs::remove_file(&program).expect("removed");
    let mut wanted = key(&program);
    wanted.build_id = Some(id);
    let dso = Symbolizer::new(options.clone()).dso(&wanted);
    assert_eq!(dso.find(Address::FileOffset(0x1000)).map(|found| found.symbol.start), Some(0x2000));

    // Links that lead out are none, and what they lead to stays.
    let outside = scratch.file(&format!("outside/{id}/elf"), b"precious");
    let link = scratch.0.join("store/.build-id").join(STORE);
    for target in [
        format!("../../../outside/{id}"),
        format!("../../x/../../outside/{id}"),
        scratch.0.join("outside").join(id.to_string()).display().to_string(),
        format!("../../{}", "0".repeat(40)),
    ] {
        fs::remove_file(&link).expect("a link");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        assert_eq!((store.name_of(&id), store.parts(&id)), (None, vec![]), "{target}");
        assert_eq!(store.list().expect("a list"), []);
        assert!(store.remove(&id).expect("removed") && outside.is_file(), "{target}");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
    }
    fs::remove_file(&link).expect("a link");
    assert!(!store.remove(&id).expect("nothing"));
    for name in ["relative", "/up/../../etc/passwd", "[x]/../../y"] {
        let refused = store.add(Addition::File { name: Path::new(name), place: &outside }, &options);
        assert!(refused.is_err(), "{name}");
    }
}

const STORE: &str = "01/02030405060708090a0b0c0d0e0f1011121314";

#[test]
fn debug_files_are_found_by_build_id() {
    let (program, debug) = stripped();
    for place in [
        format!("debug/.build-id/{STORE}.debug"),
        format!("store/.build-id/{STORE}/debug"),
        format!("store/.build-id/{STORE}/elf"),
        format!("store/.build-id/{STORE}"),
    ] {
        let scratch = Scratch::new("debug");
        let path = scratch.file("program", &program.bytes());
        let debug = scratch.file(&place, &debug.bytes());
        let dso = Symbolizer::new(scratch.options()).dso(&key(&path));
        let found = dso.find(Address::FileOffset(0x1050)).unwrap_or_else(|| panic!("{place}"));
        assert_eq!(found.symbol.demangled(), "foo::bar");
        assert_eq!(dso.missing(), None);
        assert_eq!((&dso.debug_sources().binary, &dso.debug_sources().debug), (&Some(path), &Some(debug)));
    }
}

#[test]
fn a_debug_file_of_another_build_is_not_taken() {
    let (program, debug) = stripped();
    let other = MadeElf { build_id: Some(vec![9; 20]), ..debug };
    let scratch = Scratch::new("other-debug");
    let path = scratch.file("program", &program.bytes());
    scratch.file(&format!("debug/.build-id/{STORE}.debug"), &other.bytes());
    let dso = Symbolizer::new(scratch.options()).dso(&key(&path));
    assert_eq!(dso.find(Address::FileOffset(0x1050)), None);
    assert!(dso.find(Address::FileOffset(0x1010)).is_some(), "dynamic symbols are there");
    assert_eq!(dso.missing(), Some(&Missing::Stripped { path }));
}

#[test]
fn a_library_that_was_moved_by_prelinking() {
    let (_, debug) = stripped();
    let symbols = vec![("first", 0x7_2000, 0x40, GLOBAL | FUNC)];
    let program = MadeElf { full: false, code_address: 0x7_2000, symbols, ..MadeElf::default() };
    let scratch = Scratch::new("prelinked");
    let path = scratch.file("library", &program.bytes());
    scratch.file(&format!("debug/.build-id/{STORE}.debug"), &debug.bytes());
    let dso = Symbolizer::new(scratch.options()).dso(&key(&path));
    let found = dso.find(Address::FileOffset(0x1050)).expect("found");
    assert_eq!((found.symbol.start, found.symbol.demangled().as_ref()), (0x7_2040, "foo::bar"));
}

#[test]
fn a_program_that_is_gone() {
    let (program, debug) = stripped();
    let scratch = Scratch::new("gone");
    let path = scratch.0.join("program");
    let id = BuildId::new(&program.build_id.clone().expect("made with one"));
    let key = key(&path).with_build_id(id);
    let symbolizer = || Symbolizer::new(scratch.options());
    let Some(Missing::NoFile { tried }) = symbolizer().dso(&key).missing().cloned() else {
        panic!("a reason")
    };
    assert_eq!(tried[0], path);
    // Its debug file alone does not tell where offsets are.
    let debug_path = scratch.file(&format!("debug/.build-id/{STORE}.debug"), &debug.bytes());
    assert_eq!(symbolizer().dso(&key).missing(), Some(&Missing::NoLayout { debug: debug_path }));
    // The copy that perf keeps does.
    scratch.file(&format!("store/.build-id/{STORE}/elf"), &MadeElf::default().bytes());
    let symbolizer = symbolizer();
    let dso = symbolizer.dso(&key);
    assert!(dso.find(Address::FileOffset(0x1050)).is_some(), "{:?}", dso.missing());
}

#[test]
fn a_copied_system() {
    let scratch = Scratch::new("symfs");
    scratch.file("root/usr/bin/program", &MadeElf::default().bytes());
    let mut options = scratch.options();
    options.symfs = Some(scratch.0.join("root"));
    let dso = Symbolizer::new(options).dso(&DsoKey::of_map(b"/usr/bin/program", 1));
    assert!(dso.find(Address::FileOffset(0x1050)).is_some(), "{:?}", dso.missing());
}

#[test]
fn a_kernel_file_and_where_the_kernel_was() {
    let base = 0xffff_ffff_8100_0000;
    let symbols = vec![("_stext", base, 0, GLOBAL), ("schedule", base + 0x40, 0x20, GLOBAL | FUNC)];
    let elf = MadeElf { kind: 2, code_address: base, symbols, ..MadeElf::default() };
    let scratch = Scratch::new("vmlinux");
    let mut options = scratch.options();
    options.vmlinux = Some(scratch.file("vmlinux", &elf.bytes()));
    let symbolizer = Symbolizer::new(options);
    for moved in [0, 0x1280_0000, 0u64.wrapping_sub(0x20_0000)] {
        let reference = Reference { symbol: "_stext".into(), address: base.wrapping_add(moved) };
        let kernel = symbolizer.dso(&DsoKey::kernel(Some(reference)));
        let found = kernel.find(Address::Memory((base + 0x44).wrapping_add(moved)));
        let found = found.unwrap_or_else(|| panic!("{:?}", kernel.missing()));
        assert_eq!((&*found.symbol.name(), found.offset), ("schedule", 4));
    }
    let other = symbolizer.dso(&DsoKey::kernel(None).with_build_id(BuildId::new(&[3; 20])));
    assert!(matches!(other.missing(), Some(Missing::OtherBuildId { .. })));
}

#[test]
fn a_copied_systems_kernel_is_not_the_running_one() {
    let base = 0xffff_ffff_8100_0000;
    let symbols = vec![("_text", base, 0, GLOBAL), ("of_file", base + 0x40, 0x20, GLOBAL | FUNC)];
    let elf = MadeElf { kind: 2, code_address: base, symbols, ..MadeElf::default() };
    let scratch = Scratch::new("copied-kernel");
    let list = scratch.file("list", b"ffffffff81000000 T _text\nffffffff81000040 T of_list\n");
    scratch.file("root/boot/vmlinux", &elf.bytes());
    let found = |kallsyms: Option<&PathBuf>, vmlinux: Option<&str>| {
        let mut options = scratch.options().below(scratch.0.join("root"));
        options.kallsyms = kallsyms.cloned();
        options.vmlinux = vmlinux.map(Into::into);
        let kernel = Symbolizer::new(options).dso(&DsoKey::kernel(None));
        let found = kernel.find(Address::Memory(base + 0x44));
        found.map(|found| found.symbol.name().into_owned())
    };
    // A relative path is below the root; the list comes before the file, as with perf.
    assert_eq!(found(None, None), None);
    assert_eq!(found(None, Some("boot/vmlinux")).as_deref(), Some("of_file"));
    assert_eq!(found(Some(&list), Some("boot/vmlinux")).as_deref(), Some("of_list"));
}

#[test]
fn a_kernel_list_that_perf_kept() {
    let scratch = Scratch::new("kallsyms");
    let list = "ffffffff81000000 T _text\nffffffff81000040 T schedule\nffffffffc0000000 t probe\t[e1000]\n";
    scratch.file(&format!("store/.build-id/{STORE}/kallsyms"), list.as_bytes());
    let id: Vec<u8> = (1..=20).collect();
    let reference = Reference { symbol: "_text".into(), address: 0xffff_ffff_9200_0000 };
    let key = DsoKey::kernel(Some(reference)).with_build_id(BuildId::new(&id));
    let kernel = Symbolizer::new(scratch.options()).dso(&key);
    let found = kernel.find(Address::Memory(0xffff_ffff_9200_0041));
    assert_eq!(found.unwrap_or_else(|| panic!("{:?}", kernel.missing())).symbol.raw_name(), b"schedule");
}

#[test]
fn a_module_in_a_list() {
    let list =
        "ffffffff81000000 T _text\nffffffffc0000000 t probe\t[e1000]\nffffffffc0000040 t remove\t[e1000]\n";
    let scratch = Scratch::new("module-list");
    let mut options = scratch.options();
    options.kallsyms = Some(scratch.file("kallsyms", list.as_bytes()));
    let symbolizer = Symbolizer::new(options);
    let module = symbolizer.dso(&DsoKey::module("[e1000]", 0xffff_ffff_c000_0000));
    let found = module.find(Address::Memory(0xffff_ffff_c000_0044)).expect("found");
    assert_eq!((&*found.symbol.name(), found.offset), ("remove", 4));
    assert_eq!(module.symbol(found.symbol.id), Some(found.symbol));
    assert_eq!(
        symbolizer.dso(&DsoKey::kernel(None)).find(Address::Memory(0xffff_ffff_c000_0044)),
        Some(found)
    );
    let other = symbolizer.dso(&DsoKey::module("[ixgbe]", 0xffff_ffff_c000_0000));
    assert_eq!(other.missing(), Some(&Missing::NoModule { name: "ixgbe".into() }));
}

#[test]
fn a_module_from_its_file() {
    let symbols = vec![("probe", 0, 0x20, FUNC), ("remove", 0x20, 0x20, GLOBAL | FUNC)];
    let elf = MadeElf { kind: 1, symbols, ..MadeElf::default() };
    let scratch = Scratch::new("module");
    let path = scratch.file("lib/modules/6.1.0/my-driver.ko", &elf.bytes());
    // A list that has no such module.
    let mut options = scratch.options();
    options.kallsyms = Some(scratch.file("kallsyms", b"ffffffff81000000 T _text\n"));
    let base = 0xffff_ffff_c012_0000;
    let module = Symbolizer::new(options).dso(&DsoKey::module(path, base));
    for place in [Address::Memory(base + 0x24), Address::FileOffset(0x24)] {
        let found = module.find(place).unwrap_or_else(|| panic!("{:?}", module.missing()));
        assert_eq!((&*found.symbol.name(), found.offset), ("remove", 4));
    }
}

#[test]
fn jitdump_of_either_byte_order() {
    for big_endian in [false, true] {
        let mut made = MadeDump::new(big_endian);
        made.lines(1_000, 0x7000, &[(0x7000, 12, b"a.js"), (0x7008, 13, b"\xff")]);
        made.unwinding(1_000, &[1, 2, 3, 4, 5, 6, 7, 8]);
        made.load(1_001, 0x7000, 0, "first", &[0x90; 16]);
        made.load(1_002, 0x7100, 1, "second", &[0xc3; 32]);
        made.unknown(99, 1_002);
        made.moved(1_003, 0x7000, 0x8000, 16, 0);
        made.load(1_004, 0x7000, 2, "third", &[0xcc; 8]);
        made.close(1_005);
        let mut dump = JitDump::from_bytes("made", made.bytes.clone()).expect("a jitdump");
        let header = *dump.header();
        assert_eq!((header.pid, header.machine, header.time), (4711, 62, 1_000));
        let mut records = Vec::new();
        while let Some(record) = dump.next_record().expect("whole") {
            records.push((record.time, record.event));
        }
        assert_eq!(records.len(), 8);
        let JitEvent::Lines { address: 0x7000, lines } = &records[0].1 else { panic!("{:?}", records[0]) };
        let lines: Vec<_> = lines.iter().map(|line| (line.address, line.line, &line.file[..])).collect();
        assert_eq!(lines, [(0x7000, 12, &b"a.js"[..]), (0x7008, 13, b"a.js")]);
        let JitEvent::Unwinding { data, size: 8, .. } = records[1].1 else { panic!("{:?}", records[1]) };
        assert_eq!(dump.code(data, 8).expect("data"), [1, 2, 3, 4, 5, 6, 7, 8]);
        let JitEvent::Load { code: Some(code), size: 32, tid: 4712, .. } = records[3].1 else {
            panic!("{:?}", records[3])
        };
        assert_eq!(dump.code(code, 32).expect("code"), [0xc3; 32]);
        assert_eq!(records[4].1, JitEvent::Unknown(99));
        assert_eq!(records[7].1, JitEvent::Close);

        let (map, damage) = JitDump::from_bytes("made", made.bytes).expect("a jitdump").code_map();
        assert_eq!(damage, None);
        for (address, time, expected) in [
            (0x7004, 1_000, None),
            (0x7004, 1_001, Some("first")),
            (0x8004, 1_002, None),
            (0x8004, 1_003, Some("first")),
            (0x7004, 1_003, None),
            (0x7004, 1_004, Some("third")),
            (0x700c, u64::MAX, None),
            (0x711f, u64::MAX, Some("second")),
        ] {
            let found = map.find(address, time).map(|found| found.symbol.name().into_owned());
            assert_eq!(found.as_deref(), expected, "{address:#x} at {time}");
        }
    }
}

#[test]
fn a_jitdump_cut_off_keeps_what_was_before() {
    let mut made = MadeDump::new(false);
    made.load(1, 0x1000, 0, "whole", &[0; 16]);
    let whole = made.bytes.len();
    made.load(2, 0x2000, 1, "cut", &[0; 16]);
    for end in 0..made.bytes.len() {
        let Ok(dump) = JitDump::from_bytes("made", made.bytes[..end].to_vec()) else {
            assert!(end < 40);
            continue;
        };
        let (map, damage) = dump.code_map();
        assert_eq!(map.len(), usize::from(end >= whole), "{end}");
        assert_eq!(damage.is_some(), end != 40 && end != whole, "{end}");
        if let Some(damage) = damage {
            assert!(damage.to_string().contains("jitdump record at 0x"), "{damage}");
        }
    }
}

#[test]
fn a_jitdump_of_a_process() {
    let scratch = Scratch::new("jitdump");
    let mut made = MadeDump::new(false);
    made.load(10, 0x7000, 0, "compiled", &[0; 64]);
    let path = scratch.file("jit-4711.dump", &made.bytes);
    let symbolizer = Symbolizer::new(scratch.options());
    // The mapping is known before the file is.
    let dso = symbolizer.dso(&DsoKey::of_map(b"//anon", 4_000_000_000));
    let added = symbolizer.add_jitdump(4_000_000_000, &path).expect("added");
    assert_eq!((added.pieces, added.damage), (1, None));
    let found = dso.find_at(Address::Memory(0x7010), 10).expect("compiled by then");
    assert_eq!((&*found.symbol.name(), found.offset), ("compiled", 0x10));
    assert_eq!(dso.symbol(found.symbol.id), Some(found.symbol));
    assert_eq!(dso.find_at(Address::Memory(0x7010), 9), None);
    assert_eq!(dso.missing(), None);
    let missing = symbolizer.add_jitdump(1, Path::new("/nonexistent.dump"));
    assert!(matches!(missing, Err(Missing::NoFile { .. })));
}

/// Files in `/tmp` may be anybody's and anything. Only what may be believed is read, and nothing is waited for.
#[test]
fn what_strangers_leave_for_a_process() {
    let scratch = Scratch::new("strangers");
    let find = |pid: u32, any_owner: bool| {
        let mut options = scratch.options();
        options.symfs = Some(scratch.0.clone());
        options.any_owner = any_owner;
        let dso = Symbolizer::new(options).dso(&DsoKey::of_map(b"//anon", pid));
        let found = dso.find(Address::Memory(0x7010)).map(|found| found.symbol.name().into_owned());
        found.ok_or_else(|| dso.missing().expect("a reason").to_string())
    };
    let own = scratch.file("tmp/perf-4000000001.map", b"7000 20 compiled\n");
    assert_eq!(find(4_000_000_001, false), Ok("compiled".to_owned()));

    let fifo = scratch.0.join("tmp/perf-4000000002.map");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.is_ok_and(|status| status.success()));
    let why = find(4_000_000_002, false).expect_err("a FIFO");
    assert!(why.ends_with("it is a FIFO, and only regular files are read"), "{why}");

    let sparse = scratch.file("tmp/perf-4000000003.map", b"");
    fs::File::options().write(true).open(&sparse).and_then(|file| file.set_len(1 << 40)).expect("sparse");
    let why = find(4_000_000_003, false).expect_err("more than any disk has");
    assert!(why.contains("is more than the limit"), "{why}");

    if std::os::unix::fs::chown(&own, Some(65534), None).is_ok() {
        let why = find(4_000_000_001, false).expect_err("another's");
        assert!(why.contains("it belongs to user 65534, and only files of root"), "{why}");
        assert_eq!(find(4_000_000_001, true), Ok("compiled".to_owned()));
        let mut made = MadeDump::new(false);
        made.load(10, 0x7000, 0, "compiled", &[0; 64]);
        let dump = scratch.file("jit-1.dump", &made.bytes);
        std::os::unix::fs::chown(&dump, Some(65534), None).expect("as before");
        let symbolizer = Symbolizer::new(scratch.options());
        let why = symbolizer.add_jitdump(4_000_000_000, &dump).expect_err("another's").to_string();
        assert!(why.contains("it belongs to user 65534"), "{why}");
    }
}

/// Everything that reads an ELF file, to see that it ends without a panic.
fn read_all(bytes: Vec<u8>) {
    let Ok(elf) = Elf::from_bytes("damaged", bytes) else { return };
    let _ = (elf.build_id(), elf.debug_link(), elf.address_of(0x1000));
    if let Ok(table) = elf.symbols() {
        let _ = table.find(0x2044);
        table.iter().for_each(|symbol| drop(symbol.demangled()));
    }
}

#[test]
fn damaged_files_are_errors() {
    for (is_64, big_endian) in [(true, false), (false, true)] {
        let bytes =
            MadeElf { is_64, big_endian, code_offset: 0x300, code_size: 0x20, ..MadeElf::default() }.bytes();
        (0..bytes.len()).for_each(|end| read_all(bytes[..end].to_vec()));
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                read_all(damaged);
            }
        }
    }
}

#[test]
fn errors_name_the_place() {
    let mut bytes = MadeElf::default().bytes();
    let len = bytes.len();
    let error = |bytes: &[u8]| match Elf::from_bytes("made", bytes.to_vec()) {
        Ok(elf) => elf.symbols().expect_err("damaged").to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(error(b"\x7fELF"), "made: ELF identification at 0x0: needs 16 bytes, the file has 4 there");
    assert_eq!(error(&[0; 99]), "made: ELF identification at 0x0: not an ELF file");
    let cut = error(&bytes[..len - 1]);
    assert!(cut.contains("section header table at 0x") && cut.contains("needs 384 bytes"), "{cut}");
    // The size of the symbol table, in its section header.
    let size = len - 3 * 64 + 32;
    bytes[size..size + 8].copy_from_slice(&(1u64 << 60).to_le_bytes());
    assert!(error(&bytes).contains("symbol table at 0x1100: needs"), "{}", error(&bytes));
    // A count of sections that no file has.
    let mut bytes = MadeElf::default().bytes();
    bytes[60..62].copy_from_slice(&0u16.to_le_bytes());
    let first = len - 6 * 64;
    bytes[first + 32..first + 40].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(error(&bytes).contains("more than the limit"), "{}", error(&bytes));
}

#[cfg(feature = "archive")]
mod archives {
    use super::*;
    use perfuse_symbols::archive::{ArchiveError, Archived, Compression, Wanted, archive, unpack};

    /// A tar file of entries: names, links' targets, contents.
    fn tar_of(entries: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, link, bytes) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(bytes.len() as u64);
            header.set_entry_type(tar::EntryType::Regular);
            if let Some(link) = link {
                header.set_entry_type(tar::EntryType::Symlink);
                header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
            }
            // As a stranger would write it, unchecked.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            tar.append(&header, *bytes).expect("written");
        }
        tar.into_inner().expect("written")
    }

    fn unpacked(scratch: &Scratch, bytes: &[u8]) -> (BuildIdStore, Result<Archived, ArchiveError>) {
        let store = BuildIdStore::at(scratch.0.join("elsewhere/store"));
        fs::create_dir_all(scratch.0.join("elsewhere/here")).expect("a folder");
        let done = unpack(bytes, &store, &scratch.0.join("elsewhere/here"));
        (store, done)
    }

    #[test]
    fn what_is_packed_is_unpacked_in_every_form() {
        for compression in [Compression::Bzip2, Compression::Gzip, Compression::Zstd, Compression::None] {
            for with_recording in [false, true] {
                let scratch = Scratch::new(&format!("packed-{compression:?}-{with_recording}"));
                let program = scratch.file("program", &MadeElf::default().bytes());
                let program = program.canonicalize().expect("a path");
                let recording = scratch.file("my.data", b"a recording");
                let store = BuildIdStore::at(scratch.0.join("store"));
                let id = BuildId::new(&(1..=20).collect::<Vec<u8>>()).expect("an id");
                let gone = BuildId::new(&[9; 20]).expect("an id");
                let wanted =
                    [Wanted { id, name: program.clone() }, Wanted { id: gone, name: "/no/such".into() }];
                let mut bytes = Vec::new();
                let recording = with_recording.then_some(&*recording);
                let done = archive(&mut bytes, compression, &wanted, &store, &scratch.options(), recording);
                let done = done.expect("written");
                assert_eq!((done.files, done.missing), (1, vec![wanted[1].clone()]));

                let (store, done) = unpacked(&scratch, &bytes);
                let done = done.expect("unpacked");
                assert_eq!((done.files, &done.refused[..]), (1, &[][..]));
                assert_eq!(store.name_of(&id), Some(program.clone()));
                let file = store.file(&id).expect("a file");
                assert_eq!(fs::read(file).expect("read"), fs::read(&program).expect("read"));
                let told = done.recording.map(|path| fs::read(path).expect("read"));
                assert_eq!(told.as_deref(), with_recording.then_some(&b"a recording"[..]));
                // Again: the store has it, and the recording is not overwritten.
                let (_, again) = unpacked(&scratch, &bytes);
                assert_eq!(matches!(again, Err(ArchiveError::Exists(_))), with_recording);
                // Cut short it is an error, or less is there, and nothing else happens.
                for end in [0, 1, bytes.len() / 2] {
                    let _ = unpacked(&scratch, &bytes[..end]);
                }
            }
        }
    }

    #[test]
    fn strangers_archives_stay_within_the_store() {
        let scratch = Scratch::new("strange");
        let id = "0102030405060708090a0b0c0d0e0f1011121314";
        let elf = MadeElf::default().bytes();
        let link = format!(".build-id/{STORE}");
        let inside = format!("usr/bin/x/{id}/elf");
        let bad = format!("usr/bin/x/{}/elf", "ff".repeat(20));
        let other = format!("usr/bin/x/{id}/other");
        let up = format!("usr/../../x/{id}/elf");
        let root = format!("/usr/bin/x/{id}/elf");
        let [far, absolute] = [format!("../../../x/{id}"), format!("/usr/bin/x/{id}")];
        let outside = scratch.file("elsewhere/x/elf", b"precious");
        let entries: Vec<(&str, Option<&str>, &[u8])> = vec![
            (".build-id/zz/first", None, b"x"),
            (&up, None, &elf),
            (&root, None, &elf),
            (&bad, None, &elf),
            (&link, Some(&far), b""),
            (&link, Some(&absolute), b""),
            (&link, None, b"no link"),
            (".bashrc", None, b"evil"),
            ("usr/bin/x/elf", None, b"x"),
            (&inside, Some("../../../../x/elf"), b""),
            (&other, None, b"x"),
        ];
        let (store, done) = unpacked(&scratch, &tar_of(&entries));
        let done = done.expect("read");
        assert_eq!((done.files, done.refused.len()), (0, entries.len()), "{done:?}");
        assert_eq!(store.list().expect("a list"), []);
        assert_eq!(fs::read(&outside).expect("it is there"), b"precious");
        let mut files = Vec::new();
        let mut folders = vec![scratch.0.join("elsewhere")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        assert_eq!(files, [outside], "nothing was written");

        let good = format!("../../usr/bin/x/{id}");
        let entries: Vec<(&str, Option<&str>, &[u8])> =
            vec![(&inside, None, &elf), (&link, Some(&good), b"")];
        let (store, done) = unpacked(&scratch, &tar_of(&entries));
        let done = done.expect("read");
        assert_eq!((done.files, done.refused, store.list().expect("a list").len()), (1, vec![], 1));
    }
}
