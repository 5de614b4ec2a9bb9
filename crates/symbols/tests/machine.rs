//! Symbols of what runs here: this program, its libraries, the vdso, the kernel.

use perfuse_symbols::{
    Address, BuildId, Dso, DsoKey, Elf, KernelSymbols, Missing, Reference, SymbolOptions, Symbolizer,
    vdso_image,
};
use perfuse_testkit::{Outcome, Sandbox, Skip};
use std::collections::HashMap;
use std::fs;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

perfuse_testkit::suite! {
    measurements:
        a_function_of_this_program,
        functions_of_the_c_library,
        the_vdso,
        the_vdso_of_another_kernel_is_refused,
        kernel_symbols_as_in_the_list,
        a_kernel_that_was_elsewhere,
        the_list_of_the_kernel_is_kept_and_says_the_same,
        code_that_comes_and_goes_is_found_beside_a_kept_list,
        modules_of_the_running_kernel,
        hidden_kernel_addresses_are_explained,
        another_kernel_is_refused,
        the_perf_map_of_this_process,
        a_file_of_another_build_is_refused,
        a_file_that_may_not_be_read,
        an_unprivileged_user_is_told_why_the_kernel_has_no_names,
        special_mappings;
}

struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    name: Vec<u8>,
}

/// The executable mappings of this process.
fn mappings() -> Vec<Mapping> {
    let maps = fs::read("/proc/self/maps").expect("/proc/self/maps");
    let lines = maps.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let parse = |line: &[u8]| {
        let text = String::from_utf8_lossy(line).into_owned();
        let words: Vec<&str> = text.splitn(6, ' ').collect();
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("a hexadecimal number");
        let (start, end) = words[0].split_once('-').expect("a range");
        let executable = words[1].as_bytes()[2] == b'x';
        let name = words.get(5).map_or("", |name| name.trim_start()).as_bytes().to_vec();
        executable.then(|| Mapping { start: hex(start), end: hex(end), offset: hex(words[2]), name })
    };
    lines.filter_map(parse).collect()
}

/// The DSO at an address of this process, and the place in it.
fn place_of(symbolizer: &Symbolizer, address: u64) -> (Arc<Dso>, Address) {
    let mapping = mappings().into_iter().find(|mapping| (mapping.start..mapping.end).contains(&address));
    let mapping = mapping.expect("mapped");
    let key = DsoKey::of_map(&mapping.name, std::process::id());
    let place = match key.kind {
        perfuse_symbols::DsoKind::Anonymous { .. } => Address::Memory(address),
        _ => Address::FileOffset(address - mapping.start + mapping.offset),
    };
    (symbolizer.dso(&key), place)
}

#[inline(never)]
fn known_function(x: u64) -> u64 {
    black_box(x).wrapping_mul(3)
}

fn a_function_of_this_program() -> Outcome {
    black_box(known_function(black_box(1)));
    let symbolizer = Symbolizer::default();
    let address = known_function as fn(u64) -> u64 as usize as u64;
    let (dso, place) = place_of(&symbolizer, address);
    let found = dso.find(place).expect("a function of this program");
    assert_eq!(found.symbol.demangled(), "machine::known_function");
    assert_eq!(found.offset, 0);
    assert!(found.symbol.size > 0 && found.symbol.size < 4096, "{:?}", found.symbol);
    assert_eq!(dso.symbol(found.symbol.id), Some(found.symbol));
    assert_eq!(dso.address(place), Some(found.symbol.start));
    assert_eq!(dso.missing(), None);
    let Address::FileOffset(offset) = place else { panic!("a file") };
    assert_eq!(dso.find(Address::FileOffset(offset + 2)).map(|found| found.offset), Some(2));
    assert!(dso.debug_sources().binary.is_some());
    Ok(())
}

fn functions_of_the_c_library() -> Outcome {
    let symbolizer = Symbolizer::default();
    let names: [(usize, &str); 3] = [
        (libc_function(b"malloc")?, "malloc"),
        (libc_function(b"qsort")?, "qsort"),
        (libc_function(b"getenv")?, "getenv"),
    ];
    for (address, name) in names {
        let (dso, place) = place_of(&symbolizer, address as u64);
        let found = dso.find(place).unwrap_or_else(|| panic!("{name}: {:?}", dso.missing()));
        assert!(found.symbol.name().contains(name), "{name}: {found:?}");
        assert_eq!(found.offset, 0);
    }
    Ok(())
}

/// The address of a function of libc, found through the library's own dynamic symbols.
fn libc_function(name: &[u8]) -> Result<usize, Skip> {
    let mapping = mappings().into_iter().find(|mapping| {
        Path::new(std::ffi::OsStr::from_bytes(&mapping.name)).file_name().is_some_and(|file| {
            file.as_bytes().starts_with(b"libc.so") || file.as_bytes().starts_with(b"libc-")
        })
    });
    let mapping = mapping.ok_or_else(|| Skip::needs("a shared C library", "this program is static"))?;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(&mapping.name));
    let elf = Elf::open(&path).expect("libc can be read");
    let table = elf.symbols().expect("libc has symbols");
    let symbol = table.iter().find(|symbol| symbol.raw_name() == name);
    let symbol = symbol.ok_or_else(|| Skip::needs("a usual C library", "it has other names"))?;
    let base = elf.address_of(mapping.offset).expect("it is mapped");
    Ok((symbol.start - base + mapping.start) as usize)
}

/// How the vdso's clock function is called, by machine.
const CLOCK: &str = if cfg!(target_arch = "aarch64") { "__kernel_clock_gettime" } else { "clock_gettime" };

fn own_vdso() -> Result<(DsoKey, Elf), Skip> {
    let image = vdso_image().map_err(|error| Skip::needs("a vdso", error))?;
    let elf = Elf::from_bytes("vdso", image).expect("the vdso is an ELF file");
    Ok((DsoKey::of_map(b"[vdso]", std::process::id()), elf))
}

fn the_vdso() -> Outcome {
    let (key, elf) = own_vdso()?;
    let symbolizer = Symbolizer::default();
    let table = elf.symbols().expect("symbols");
    let clock = table.iter().find(|symbol| symbol.name().contains(CLOCK)).expect("the clock");
    let id = elf.build_id().expect("notes").expect("a build-id");
    let mapping = mappings().into_iter().find(|mapping| mapping.name == b"[vdso]").expect("mapped");
    for build_id in [None, Some(id)] {
        let dso = symbolizer.dso(&key.clone().with_build_id(build_id));
        let found = dso.find(Address::FileOffset(clock.start + 1 + mapping.offset)).expect("the clock");
        assert_eq!((found.symbol.raw_name(), found.offset), (clock.raw_name(), 1));
        assert_eq!(dso.missing(), None);
    }
    Ok(())
}

fn the_vdso_of_another_kernel_is_refused() -> Outcome {
    let (key, _) = own_vdso()?;
    let dso = Symbolizer::default().dso(&key.with_build_id(BuildId::new(&[7; 20])));
    assert_eq!(dso.find(Address::FileOffset(0x800)), None);
    assert!(matches!(dso.missing(), Some(Missing::OtherBuildId { .. })), "{:?}", dso.missing());
    Ok(())
}

/// A line of /proc/kallsyms: address, letter, name, module.
type Entry = (u64, u8, String, Option<String>);

/// The lines of /proc/kallsyms. Skips where addresses are hidden.
fn kallsyms() -> Result<Vec<Entry>, Skip> {
    let text = fs::read_to_string("/proc/kallsyms").map_err(|e| Skip::needs("/proc/kallsyms", e))?;
    let entry = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let letter = words.next()?.as_bytes()[0];
        Some((address, letter, words.next()?.to_string(), words.next().map(str::to_string)))
    };
    let entries: Vec<_> = text.lines().filter_map(entry).collect();
    match entries.iter().any(|entry| entry.0 != 0) {
        true => Ok(entries),
        false => Err(Skip::needs("kernel addresses", "the kernel hides them from this user")),
    }
}

fn kernel_symbols_as_in_the_list() -> Outcome {
    let entries = kallsyms()?;
    let mut names: HashMap<u64, Vec<&str>> = HashMap::new();
    for (address, _, name, _) in &entries {
        names.entry(*address).or_default().push(name);
    }
    let kernel = Symbolizer::default().dso(&DsoKey::kernel(None));
    let functions = entries.iter().filter(|(_, letter, name, module)| {
        matches!(letter, b't' | b'T') && module.is_none() && !name.starts_with('$')
    });
    let mut asked = 0;
    for (address, _, name, _) in functions.step_by(97) {
        let found =
            kernel.find(Address::Memory(*address)).unwrap_or_else(|| panic!("{name} at {address:#x}"));
        assert!(names[address].contains(&&*found.symbol.name()), "{found:?} for {name}");
        assert_eq!(found.offset, 0);
        asked += 1;
    }
    assert!(asked > 10, "only {asked} functions");
    Ok(())
}

fn a_kernel_that_was_elsewhere() -> Outcome {
    let entries = kallsyms()?;
    let stext = entries.iter().find(|entry| entry.2 == "_stext");
    let stext = stext.ok_or_else(|| Skip::needs("_stext", "not in the list"))?.0;
    let schedule = entries.iter().find(|entry| entry.2 == "schedule");
    let schedule = schedule.ok_or_else(|| Skip::needs("schedule", "not in the list"))?.0;
    let moved = 0x1340_0000;
    let reference = Reference { symbol: "_stext".into(), address: stext + moved };
    let kernel = Symbolizer::default().dso(&DsoKey::kernel(Some(reference)));
    let found = kernel.find(Address::Memory(schedule + moved + 4)).expect("schedule");
    assert_eq!((&*found.symbol.name(), found.offset), ("schedule", 4));
    Ok(())
}

/// With the list kept below this folder.
fn keeping(folder: &Path) -> Symbolizer {
    let mut options = without_stores();
    options.cache = Some(folder.join("caches/perfuse"));
    Symbolizer::new(options)
}

fn the_list_of_the_kernel_is_kept_and_says_the_same() -> Outcome {
    let entries = kallsyms()?;
    let folder = scratch("kept");
    let kept = folder.join("caches/perfuse/kernel-symbols");
    let kernel = keeping(&folder).dso(&DsoKey::kernel(None));
    kernel.preload();
    assert!(kernel.missing().is_none(), "{:?}", kernel.missing());
    let written = fs::metadata(&kept).expect("the list is kept");
    assert_eq!(written.permissions().mode() & 0o777, 0o600);
    let again = keeping(&folder).dso(&DsoKey::kernel(None));
    for (address, ..) in entries.iter().filter(|entry| entry.0 != 0).step_by(89) {
        let place = Address::Memory(address + 1);
        let told = |dso: &Arc<Dso>| {
            let found = dso.find(place)?;
            assert_eq!(dso.symbol(found.symbol.id), Some(found.symbol), "{address:#x}");
            Some((found.symbol.raw_name().to_vec(), found.offset, found.symbol.size))
        };
        assert_eq!(told(&again), told(&kernel), "{address:#x}");
    }
    // The second time nothing is written; damage is passed over and mended.
    let inode = |path: &Path| fs::metadata(path).expect("it is there").ino();
    assert_eq!(inode(&kept), written.ino());
    let bytes = fs::read(&kept).expect("it is there");
    fs::write(&kept, &bytes[..bytes.len() / 2]).expect("written");
    let place = Address::Memory(
        entries.iter().find(|entry| entry.2 == "_stext").map_or(entries[entries.len() / 2].0, |e| e.0),
    );
    let found = |folder: &Path| keeping(folder).dso(&DsoKey::kernel(None)).find(place).is_some();
    assert!(found(&folder));
    assert_eq!(fs::read(&kept).expect("it is there").len(), bytes.len());
    // Where nothing can be kept the list is read as ever.
    fs::write(folder.join("file"), "").expect("written");
    assert!(found(&folder.join("file")));
    let _ = fs::remove_dir_all(&folder);
    Ok(())
}

fn code_that_comes_and_goes_is_found_beside_a_kept_list() -> Outcome {
    let entries = kallsyms()?;
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    let is_loaded = |name: &str| modules.lines().any(|line| line.split(' ').next() == Some(name));
    let of_none = entries.iter().find(|(_, letter, _, module)| {
        let module = module.as_deref().map(|module| module.trim_matches(['[', ']']));
        matches!(letter, b't' | b'T') && module.is_some_and(|module| !is_loaded(module))
    });
    let (address, _, name, _) =
        of_none.ok_or_else(|| Skip::needs("BPF programs or trampolines", "the kernel has none now"))?;
    let folder = scratch("beside");
    for _ in 0..2 {
        let kernel = keeping(&folder).dso(&DsoKey::kernel(None));
        let Some(found) = kernel.find(Address::Memory(*address)) else {
            return Err(Skip::needs("code that stays for a while", format_args!("{name} is gone")));
        };
        assert_eq!(kernel.symbol(found.symbol.id), Some(found.symbol));
        assert_eq!(found.offset, 0, "{found:?} for {name}");
    }
    let _ = fs::remove_dir_all(&folder);
    Ok(())
}

fn modules_of_the_running_kernel() -> Outcome {
    let entries = kallsyms()?;
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    let bases: HashMap<&str, u64> = modules
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            Some((*words.first()?, u64::from_str_radix(words.get(5)?.trim_start_matches("0x"), 16).ok()?))
        })
        .collect();
    let function = entries.iter().find_map(|(address, letter, name, module)| {
        let module = module.as_deref()?.trim_matches(['[', ']']);
        let base = *bases.get(module)?;
        matches!(letter, b't' | b'T').then_some((*address, name, module, base))
    });
    let (address, name, module, base) =
        function.ok_or_else(|| Skip::needs("a loaded module", "the kernel has none"))?;
    let symbolizer = Symbolizer::default();
    let dso = symbolizer
        .dso(&DsoKey::module(format!("[{module}]"), base).with_build_id(BuildId::of_loaded_module(module)));
    for place in [Address::Memory(address), Address::FileOffset(address.wrapping_sub(base))] {
        let found = dso.find(place).unwrap_or_else(|| panic!("{name}: {:?}", dso.missing()));
        assert_eq!(found.offset, 0, "{found:?} for {name}");
    }
    Ok(())
}

fn hidden_kernel_addresses_are_explained() -> Outcome {
    let folder = scratch("hidden");
    let list = folder.join("kallsyms");
    fs::write(&list, "0000000000000000 T _text\n0000000000000000 T schedule\n").expect("written");
    let reason = KernelSymbols::open(&list, None).expect_err("nothing but zeros");
    assert!(matches!(reason, Missing::KernelHidden { .. }), "{reason:?}");
    assert!(reason.to_string().contains("hides its addresses"), "{reason}");
    Ok(())
}

fn another_kernel_is_refused() -> Outcome {
    let running = BuildId::of_running_kernel();
    running.ok_or_else(|| Skip::needs("the kernel's build-id", "not in /sys/kernel/notes"))?;
    let kernel =
        Symbolizer::new(without_stores()).dso(&DsoKey::kernel(None).with_build_id(BuildId::new(&[7; 20])));
    assert_eq!(kernel.find(Address::Memory(0xffff_ffff_8100_0000)), None);
    let Some(Missing::OtherBuildId { found, .. }) = kernel.missing() else {
        panic!("{:?}", kernel.missing())
    };
    assert_eq!(*found, running);
    Ok(())
}

fn without_stores() -> SymbolOptions {
    let mut options = SymbolOptions::default();
    options.build_id_store = None;
    options.debug_dirs = Vec::new();
    options.debuginfod_cache = None;
    options
}

/// A folder for a test's files.
fn scratch(name: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("symbols-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the test's files");
    folder
}

fn the_perf_map_of_this_process() -> Outcome {
    let pid = std::process::id();
    let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
    let mut file = fs::File::create(&path).map_err(|error| Skip::needs("/tmp", error))?;
    writeln!(file, "7f0000001000 40 function one\n7f0000001040 40 two\n7f0000001020 10 later")
        .expect("written");
    drop(file);
    let mut options = SymbolOptions::default();
    options.live = true;
    for options in [options, SymbolOptions::default()] {
        let symbolizer = Symbolizer::new(options);
        let dso = symbolizer.dso(&DsoKey::of_map(b"//anon", pid));
        for (address, expected) in [
            (0x7f00_0000_1004u64, Some(("function one", 4))),
            (0x7f00_0000_1025, Some(("later", 5))),
            (0x7f00_0000_1030, Some(("function one", 0x30))),
            (0x7f00_0000_107f, Some(("two", 0x3f))),
            (0x7f00_0000_1080, None),
        ] {
            let found = dso.find(Address::Memory(address));
            let found = found.map(|found| (found.symbol.name().into_owned(), found.offset));
            assert_eq!(found, expected.map(|(name, offset)| (name.to_string(), offset)));
        }
        let found = dso.find(Address::Memory(0x7f00_0000_1004)).expect("found above");
        assert_eq!(dso.symbol(found.symbol.id), Some(found.symbol));
        assert_eq!(dso.missing(), None);
        // Symbols written later are seen after forgetting.
        let other = symbolizer.dso(&DsoKey::of_map(b"[heap]", pid));
        assert!(other.find(Address::Memory(0x7f00_0000_1004)).is_some());
    }
    fs::remove_file(&path).expect("removed");
    let symbolizer = Symbolizer::default();
    let dso = symbolizer.dso(&DsoKey::of_map(b"", pid));
    assert_eq!(dso.find(Address::Memory(0x7f00_0000_1004)), None);
    assert!(matches!(dso.missing(), Some(Missing::NoJitMap { .. })), "{:?}", dso.missing());
    Ok(())
}

fn a_file_of_another_build_is_refused() -> Outcome {
    let own = std::env::current_exe().expect("this program");
    let path = own.as_os_str().as_bytes();
    let id = Elf::open(&own).expect("this program").build_id().expect("notes");
    let symbolizer = Symbolizer::new(without_stores());
    let wanted = BuildId::new(&[9; 20]);
    let dso = symbolizer.dso(&DsoKey::of_map(path, 1).with_build_id(wanted));
    assert_eq!(dso.find(Address::FileOffset(0x2000)), None);
    let expected = Missing::OtherBuildId { path: own.clone(), wanted: wanted.expect("an id"), found: id };
    assert_eq!(dso.missing(), Some(&expected));
    if id.is_some() {
        let dso = symbolizer.dso(&DsoKey::of_map(path, 1).with_build_id(id));
        assert_eq!(dso.missing(), None);
        // The process makes no difference then.
        let same = symbolizer.dso(&DsoKey { pid: Some(1), ..dso.key().clone() });
        assert!(Arc::ptr_eq(&dso, &same));
    }
    let gone = [path, b" (deleted)"].concat();
    let dso = symbolizer.dso(&DsoKey::of_map(&gone, 1));
    assert_eq!(dso.missing(), Some(&Missing::Deleted { path: own }));
    Ok(())
}

fn a_file_that_may_not_be_read() -> Outcome {
    Sandbox::new().unprivileged().within("a_file_that_may_not_be_read", || {
        let path = "/etc/shadow";
        match fs::File::open(path).map_err(|error| error.kind()) {
            Err(std::io::ErrorKind::PermissionDenied) => {}
            other => return Err(Skip::needs("a file for root only", format_args!("{path}: {other:?}"))),
        }
        let dso = Symbolizer::default().dso(&DsoKey::of_map(path.as_bytes(), 1));
        assert_eq!(dso.missing(), Some(&Missing::Denied { path: path.into() }));
        assert!(dso.missing().expect("just seen").to_string().contains("may not be read"));
        Ok(())
    })
}

fn an_unprivileged_user_is_told_why_the_kernel_has_no_names() -> Outcome {
    Sandbox::new().unprivileged().within("an_unprivileged_user_is_told_why_the_kernel_has_no_names", || {
        match KernelSymbols::running() {
            Err(missing @ Missing::KernelHidden { kptr_restrict: Some(_), .. }) => {
                assert!(missing.to_string().contains("kernel.kptr_restrict is"), "{missing}");
                Ok(())
            }
            Ok(_) => Err(Skip::needs("a kernel that hides its addresses", "this one shows them")),
            Err(other) => panic!("{other:?}"),
        }
    })
}

fn special_mappings() -> Outcome {
    let symbolizer = Symbolizer::default();
    let vsyscall = symbolizer.dso(&DsoKey::of_map(b"[vsyscall]", 1));
    for (place, name) in [
        (Address::Memory(0xffff_ffff_ff60_0003), "gettimeofday"),
        (Address::FileOffset(0x400), "time"),
        (Address::FileOffset(0x801), "getcpu"),
    ] {
        assert_eq!(vsyscall.find(place).map(|found| found.symbol.name().into_owned()).as_deref(), Some(name));
    }
    let vvar = symbolizer.dso(&DsoKey::of_map(b"[vvar]", 1));
    assert_eq!(vvar.find(Address::FileOffset(0)), None);
    assert_eq!(vvar.missing(), Some(&Missing::NoCode { name: "[vvar]".into() }));
    let missing = symbolizer.dso(&DsoKey::of_map(b"/nonexistent/program", 1));
    assert_eq!(missing.missing(), Some(&Missing::NoFile { tried: vec!["/nonexistent/program".into()] }));
    Ok(())
}
