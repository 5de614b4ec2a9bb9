//! Real files compared with what binutils and perf say of them, where those are installed.

use perfuse_symbols::{Address, BuildId, DsoKey, Elf, Missing, SymbolOptions, Symbolizer};
use perfuse_testkit::{Outcome, Skip, need};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

perfuse_testkit::suite! {
    witnesses:
        this_program_as_nm_has_it,
        dynamic_symbols_as_nm_has_them,
        stubs_as_objdump_has_them,
        build_ids_as_readelf_and_perf_have_them,
        separate_debug_files,
        minimal_debug_information,
        names_that_perf_shows;
}

/// The output of a program.
fn output(program: &str, arguments: &[&str]) -> Result<String, Skip> {
    let program = need::program(program)?;
    let output = Command::new(&program).args(arguments).env("LC_ALL", "C").output().expect("it starts");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(Skip::needs(&program.display().to_string(), error.lines().next().unwrap_or("no reason")))
        }
    }
}

/// A folder for a test's files.
fn scratch(name: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("symbols-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the test's files");
    folder
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("this program")
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Compares with nm: every address with a function has one of its names, and sizes agree.
fn compare_with_nm(path: &Path, dynamic: &[&str]) -> Outcome {
    let arguments = [&["-S", "--defined-only"], dynamic, &[utf8(path)]].concat();
    let mut expected: BTreeMap<u64, BTreeSet<(u64, String)>> = BTreeMap::new();
    for line in output("nm", &arguments)?.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [address, size, letter, name] = words[..] else { continue };
        let hex = |text| u64::from_str_radix(text, 16).expect("nm prints hexadecimal numbers");
        if matches!(letter, "t" | "T" | "w" | "W" | "i" | "u") {
            let name = name.split('@').next().unwrap_or(name).to_string();
            expected.entry(hex(address)).or_default().insert((hex(size), name));
        }
    }
    if expected.len() < 10 {
        return Err(Skip::needs("symbols", format_args!("{} has none", path.display())));
    }
    let table = Elf::open(path).expect("an ELF file").symbols().expect("symbols");
    for (address, names) in &expected {
        let found = table.find(*address).unwrap_or_else(|| panic!("nothing at {address:#x}: {names:?}"));
        let name = found.symbol.name();
        let ours = (found.symbol.size, name.split('@').next().unwrap_or_default().to_string());
        assert!(names.contains(&ours), "{address:#x}: {ours:?} is none of {names:?}");
        assert_eq!(found.offset, 0);
    }
    Ok(())
}

fn this_program_as_nm_has_it() -> Outcome {
    compare_with_nm(&this_program(), &[])
}

/// The C library that this program uses.
fn shared_libc() -> Result<String, Skip> {
    let maps = fs::read_to_string("/proc/self/maps").expect("/proc/self/maps");
    let mut files = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    let libc = files.find(|file| file.contains("libc.so"));
    Ok(libc.ok_or_else(|| Skip::needs("a shared C library", "this program is static"))?.to_owned())
}

fn dynamic_symbols_as_nm_has_them() -> Outcome {
    let libc = shared_libc()?;
    let libc = Path::new(&libc);
    let arguments: &[&str] = if Elf::open(libc).expect("libc").has_symtab() { &[] } else { &["-D"] };
    compare_with_nm(libc, arguments)
}

fn stubs_as_objdump_has_them() -> Outcome {
    let mut compared = 0;
    let libc = shared_libc().unwrap_or_default();
    for path in ["/bin/ls", "/bin/bash", "/usr/bin/perf", "/usr/bin/git", &libc, utf8(&this_program())] {
        if !Path::new(path).exists() {
            continue;
        }
        let table = Elf::open(Path::new(path)).expect("an ELF file").symbols().expect("symbols");
        for section in [".plt", ".plt.sec", ".plt.got"] {
            // A section that is not there makes objdump fail.
            let Ok(text) = output("objdump", &["-d", "-j", section, path]) else { continue };
            for line in text.lines().filter(|line| line.ends_with("@plt>:")) {
                let (address, name) = line.split_once(" <").expect("address and name");
                let address = u64::from_str_radix(address, 16).expect("an address");
                let name = name.trim_end_matches(">:");
                let found = table.find(address).unwrap_or_else(|| panic!("{path}: nothing at {line}"));
                compared += 1;
                if let Some(chooser) =
                    name.strip_prefix("*ABS*+0x").and_then(|name| name.strip_suffix("@plt"))
                {
                    // A function chosen when the program starts has the name of the one that chooses, if that has one.
                    let chooser = u64::from_str_radix(chooser, 16).expect("an address");
                    let called = found.symbol.name();
                    let called = called.strip_suffix("@plt").expect("a stub");
                    let names = output("nm", &["-D", path])?;
                    let is_it = |line: &str| {
                        let mut words = line.split([' ', '@']);
                        words.next().and_then(|word| u64::from_str_radix(word, 16).ok()) == Some(chooser)
                            && words.nth(1) == Some(called)
                    };
                    assert!(
                        names.lines().any(is_it) || *name == *found.symbol.name(),
                        "{path}: {line}: {called}"
                    );
                    continue;
                }
                // Newer versions of objdump add the version of the symbol.
                let expected = match name.trim_end_matches("@plt").split_once('@') {
                    Some((name, _)) => format!("{name}@plt"),
                    None => name.to_string(),
                };
                assert_eq!((&*found.symbol.name(), found.offset), (&*expected, 0), "{path}: {line}");
            }
        }
    }
    match compared {
        0 => Err(Skip::needs("programs with stubs", "objdump shows none")),
        _ => Ok(()),
    }
}

fn build_ids_as_readelf_and_perf_have_them() -> Outcome {
    let path = Path::new("/bin/ls");
    let elf = Elf::open(path).map_err(|error| Skip::needs("/bin/ls", error))?;
    let id = elf.build_id().expect("notes").ok_or_else(|| Skip::needs("/bin/ls", "it has no build-id"))?;
    let readelf = output("readelf", &["-n", "/bin/ls"])?;
    assert!(readelf.contains(&format!("Build ID: {id}")), "{id}:\n{readelf}");
    if let Ok(file) = output("file", &["-L", "/bin/ls"]) {
        assert!(file.contains(&format!("={id}")), "{id}: {file}");
    }
    if let Ok(perf) = output("perf", &["buildid-list", "-k"]) {
        let kernel: BuildId = perf.trim().parse().expect("a build-id");
        assert_eq!(BuildId::of_running_kernel(), Some(kernel));
    }
    Ok(())
}

/// A C program with debug information.
fn compile(folder: &Path, source: &str, name: &str) -> Result<PathBuf, Skip> {
    let (input, program) = (folder.join(name), folder.join("program"));
    fs::write(&input, source).expect("written");
    output("cc", &["-g", "-O1", "-Wl,--build-id", "-o", utf8(&program), utf8(&input)])?;
    Ok(program)
}

const SOURCE: &str = "
static __attribute__((noinline)) int only_here(int x) { volatile int y = x; return y + 1; }
int main(int argc, char **argv) { (void)argv; return only_here(argc); }
";

/// The offset in the file of this function's third byte.
fn offset_of(program: &Path, function: &str) -> u64 {
    let elf = Elf::open(program).expect("just compiled");
    let table = elf.symbols().expect("symbols");
    let symbol = table.iter().find(|symbol| symbol.raw_name() == function.as_bytes()).expect("the function");
    let offset = (0..1 << 20).find(|&offset| elf.address_of(offset) == Some(symbol.start + 2));
    offset.expect("within the file")
}

fn separate_debug_files() -> Outcome {
    let folder = scratch("link");
    let program = compile(&folder, SOURCE, "a.c")?;
    let offset = offset_of(&program, "only_here");
    let debug = folder.join("program.debug");
    let stripped = folder.join("stripped");
    output("objcopy", &["--only-keep-debug", utf8(&program), utf8(&debug)])?;
    let link = format!("--add-gnu-debuglink={}", utf8(&debug));
    output("objcopy", &["--strip-all", &link, utf8(&program), utf8(&stripped)])?;
    // Without a build-id only the checksum tells that the file is the right one.
    let anonymous = folder.join("anonymous");
    let anonymous_debug = folder.join("anonymous.debug");
    output("objcopy", &["-R", ".note.gnu.build-id", utf8(&program), utf8(&anonymous)])?;
    output("objcopy", &["--only-keep-debug", utf8(&anonymous), utf8(&anonymous_debug)])?;
    let link = format!("--add-gnu-debuglink={}", utf8(&anonymous_debug));
    output("objcopy", &["--strip-all", &link, utf8(&anonymous)])?;

    let mut options = SymbolOptions::default();
    options.build_id_store = None;
    let find = |path: &Path| {
        let dso = Symbolizer::new(options.clone()).dso(&DsoKey::of_map(path.as_os_str().as_bytes(), 1));
        let found = dso.find(Address::FileOffset(offset)).map(|found| found.symbol.name().into_owned());
        (found, dso.missing().cloned(), dso.debug_sources().debug.clone())
    };
    for (path, debug) in [(&stripped, &debug), (&anonymous, &anonymous_debug)] {
        assert_eq!(find(path), (Some("only_here".into()), None, Some(debug.clone())));
        let hidden = folder.join(".debug").join(debug.file_name().expect("a file"));
        fs::create_dir_all(folder.join(".debug")).expect("a folder");
        fs::rename(debug, &hidden).expect("moved");
        assert_eq!(find(path), (Some("only_here".into()), None, Some(hidden.clone())));
        let mut bytes = fs::read(&hidden).expect("readable");
        bytes.push(0);
        fs::write(&hidden, bytes).expect("written");
    }
    // The build-id says that it still is the right one, the checksum that it is not.
    assert_eq!(find(&stripped).0.as_deref(), Some("only_here"));
    let (found, missing, _) = find(&anonymous);
    assert_eq!(found, None);
    assert!(matches!(missing, Some(Missing::Stripped { .. } | Missing::NoSymbols { .. })), "{missing:?}");
    fs::remove_dir_all(folder).expect("removed");
    Ok(())
}

fn minimal_debug_information() -> Outcome {
    let folder = scratch("mini");
    let program = compile(&folder, SOURCE, "a.c")?;
    let offset = offset_of(&program, "only_here");
    let mini = folder.join("mini");
    output("objcopy", &["--only-keep-debug", "--strip-debug", utf8(&program), utf8(&mini)])?;
    output("xz", &["-k", utf8(&mini)])?;
    let stripped = folder.join("stripped");
    let section = format!(".gnu_debugdata={}", utf8(&mini.with_extension("xz")));
    output("objcopy", &["--strip-all", "--add-section", &section, utf8(&program), utf8(&stripped)])?;
    let dso = Symbolizer::default().dso(&DsoKey::of_map(stripped.as_os_str().as_bytes(), 1));
    let found = dso.find(Address::FileOffset(offset)).unwrap_or_else(|| panic!("{:?}", dso.missing()));
    assert_eq!((&*found.symbol.name(), found.offset), ("only_here", 2));
    assert_eq!(dso.missing(), None);
    fs::remove_dir_all(folder).expect("removed");
    Ok(())
}

/// Functions that spend the same time, each with several names, in assembly of x86-64.
const NAMES: &str = r#"
.macro spin names:vararg
.irp name, \names
.type \name, @function
\name:
.endr
  mov $20000000, %ecx
1: dec %ecx
  jnz 1b
  ret
.irp name, \names
.size \name, . - \name
.endr
.endm
.text
.globl a_global, c_short, __c_under_long, c_longer, d_sized
.weak a_weak_and_longer, b_weak
spin a_global, a_weak_and_longer, a_local_and_longest_of_all
spin b_weak, b_local
spin c_short, __c_under_long, c_longer
.globl d_unsized
.type d_unsized, @function
d_unsized:
spin d_sized
.globl main
.type main, @function
main:
  call a_global
  call b_weak
  call c_short
  call d_sized
  xor %eax, %eax
  ret
.size main, . - main
.section .note.GNU-stack, "", @progbits
"#;

fn names_that_perf_shows() -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        return Err(Skip::needs("x86-64", "the program is in its assembly"));
    }
    let perf = need::perf()?;
    let folder = scratch("names");
    let program = compile(&folder, NAMES, "names.s")?;
    let data = folder.join("perf.data");
    output(
        utf8(&perf).rsplit('/').next().expect("a name"),
        &["record", "-q", "-e", "cpu-clock:u", "-o", utf8(&data), utf8(&program)],
    )?;
    let report = output("perf", &["script", "-i", utf8(&data), "-F", "ip,sym", "--comms", "program"])?;
    let shown = report.lines().filter_map(|line| line.split_ascii_whitespace().nth(1));
    let shown: BTreeSet<&str> =
        shown.filter(|name| matches!(name.as_bytes(), [b'a'..=b'd', b'_', ..])).collect();
    let table = Elf::open(&program).expect("just compiled").symbols().expect("symbols");
    let ours: BTreeSet<String> = table.iter().map(|symbol| symbol.name().into_owned()).collect();
    let expected = ["a_global", "b_local", "c_longer", "d_sized"];
    if shown.is_empty() {
        return Err(Skip::needs("samples", "perf has none of the program"));
    }
    for name in shown {
        assert!(ours.contains(name), "perf shows {name}, which is none of {ours:?}");
        assert!(expected.contains(&name), "perf shows {name}");
    }
    fs::remove_dir_all(folder).expect("removed");
    Ok(())
}
