//! Functions, inlined functions and lines compared with what binutils say: `addr2line -aif`. The programs are compiled here,
//! in each way that debug information is kept.

use perfuse_symbols::{DebugInfo, Elf, SymbolOptions, SymbolTable};
use perfuse_testkit::{Outcome, Skip, need};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

perfuse_testkit::suite! {
    witnesses:
        c_in_every_version,
        arguments_of_functions_in_every_version,
        cpp_in_every_version,
        rust,
        split,
        packages,
        compressed_sections,
        common_debug_files,
        a_debug_file_of_its_own,
        several_threads_get_the_same,
        a_second_look_opens_no_debug_information;
}

const C: &str = r#"
#include <stdlib.h>
static inline int square(int x) { return x * x; }
static inline int cube(int x)
{
    int y = square(x);
    if (y > 100) y += square(y);
    return y * x;
}
__attribute__((noinline)) int outer(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += cube(i) ^
            square(sum);
    return sum;
}
__attribute__((noinline, cold)) void seldom(int n) { if (cube(n) == 3) abort(); }
int main(int argc, char **argv) { if (argc > 3) seldom(argc); return outer(argc) & 1; }
"#;

const CPP: &str = r#"
#include <algorithm>
#include <vector>
namespace inner {
struct Sum {
    long of = 0;
    void add(long x) { of += twice(x); }
    static long twice(long x) { return x * 2; }
};
template <class T> T least(const std::vector<T> &all) {
    T best = all.front();
    for (const auto &x : all) best = std::min(best, x);
    return best;
}
}
__attribute__((noinline)) long work(std::vector<long> &all) {
    inner::Sum sum;
    std::sort(all.begin(), all.end(), [](long a, long b) { return a > b; });
    for (long x : all) sum.add(x);
    return sum.of + inner::least(all);
}
int main(int argc, char **) {
    std::vector<long> all(1000, argc);
    all[argc] = 5;
    return work(all) & 1;
}
"#;

const RUST: &str = r#"
#[inline(always)]
fn square(x: u64) -> u64 { x.wrapping_mul(x) }
#[inline(never)]
fn work(list: &mut Vec<u64>) -> u64 {
    list.sort();
    list.iter().map(|x| square(*x)).filter(|x| x % 3 == 1).fold(0, |sum, x| sum ^ square(x))
}
fn main() {
    let count = std::env::args().count() as u64;
    let mut list: Vec<u64> = (0..1000).map(|x| x * count).collect();
    std::process::exit((work(&mut list) & 1) as i32);
}
"#;

/// A folder for a test's files.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lines-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the test's files");
    folder
}

/// The output of a program, or the reason why it does not do that.
fn run(program: &str, folder: &Path, arguments: &[&str]) -> Result<String, Skip> {
    let path = need::program(program)?;
    let output = Command::new(path)
        .args(arguments)
        .current_dir(folder)
        .env("LC_ALL", "C")
        .output()
        .expect("it starts");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(Skip::needs(program, error.lines().next().unwrap_or("no reason")))
        }
    }
}

/// A program of a source, compiled with these options.
fn compiled(name: &str, (file, text): (&str, &str), options: &[&str]) -> Result<PathBuf, Skip> {
    let folder = scratch(name);
    fs::write(folder.join(file), text).expect("the source");
    let compiler = match file.rsplit('.').next() {
        Some("c") => "gcc",
        Some("cc") => "g++",
        _ => "rustc",
    };
    run(compiler, &folder, &[&["-o", "program", file], options].concat())?;
    Ok(folder.join("program"))
}

fn symbols(program: &Path) -> SymbolTable {
    Elf::open(program).expect("an ELF file").symbols().expect("symbols")
}

fn debug_info(program: &Path) -> DebugInfo {
    let elf = Elf::open(program).expect("an ELF file");
    let info = DebugInfo::of(&elf, program, &SymbolOptions::default());
    info.expect("readable sections").expect("debug information")
}

/// Addresses all over the code of functions of the program, every one of small functions.
fn addresses(program: &Path, wanted: &[&str]) -> Vec<u64> {
    let table = symbols(program);
    let mut all = BTreeSet::new();
    for symbol in table.iter() {
        let name = symbol.demangled().into_owned();
        if wanted.iter().any(|wanted| name == *wanted || name.contains(wanted) && wanted.contains(':')) {
            let step = (symbol.size / 300).max(1);
            all.extend((0..symbol.size).step_by(step as usize).map(|offset| symbol.start + offset));
        }
    }
    assert!(all.len() > 20, "{}: {} addresses", program.display(), all.len());
    all.into_iter().collect()
}

/// Functions with their lines, as addr2line prints them.
fn ours(info: &DebugInfo, addresses: &[u64]) -> String {
    let mut told = vec![String::new(); addresses.len()];
    info.frames(addresses, &mut |index, frame| {
        let name = (frame.name)().unwrap_or_else(|| "??".into());
        let file = frame.file.unwrap_or("??");
        let line = if frame.line == 0 { "?".to_owned() } else { frame.line.to_string() };
        writeln!(told[index], "{name}\n{file}:{line}").expect("text");
    });
    let mut text = String::new();
    for (address, told) in addresses.iter().zip(told) {
        let told = if told.is_empty() { "??\n??:?\n".to_owned() } else { told };
        write!(text, "{address:#018x}\n{told}").expect("text");
    }
    text
}

fn theirs(program: &Path, addresses: &[u64]) -> Result<String, Skip> {
    let numbers: Vec<String> = addresses.iter().map(|address| format!("{address:#x}")).collect();
    let path = program.to_str().expect("UTF-8");
    let folder = program.parent().expect("a folder");
    let mut arguments = vec!["-aif", "-e", path];
    arguments.extend(numbers.iter().map(String::as_str));
    let mut text = String::new();
    for line in run("addr2line", folder, &arguments)?.lines() {
        let line = line.split(" (discriminator").next().unwrap_or(line);
        let line = if line == "??:0" { "??:?" } else { line };
        writeln!(text, "{}", plain(line)).expect("text");
    }
    Ok(text)
}

/// A path without `.` and `..`: whether these stay is a matter of taste.
fn plain(line: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in line.split('/') {
        match part {
            "." => {}
            ".." if parts.len() > 1 => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn compare(program: &Path, wanted: &[&str]) -> Outcome {
    compare_with(program, program, wanted)
}

/// Compares the debug information of one file with what addr2line says of another.
fn compare_with(program: &Path, theirs_of: &Path, wanted: &[&str]) -> Outcome {
    let addresses = addresses(theirs_of, wanted);
    let expected = theirs(theirs_of, &addresses)?;
    let told = ours(&debug_info(program), &addresses);
    let told: String = told.lines().map(|line| plain(line) + "\n").collect();
    let blocks = |text: &str| -> Vec<String> {
        text.split("0x00").filter(|block| !block.is_empty()).map(str::to_owned).collect()
    };
    let (told, expected) = (blocks(&told), blocks(&expected));
    assert_eq!(told.len(), expected.len());
    let (mut inlined, mut wrong) = (0, Vec::new());
    let table = symbols(theirs_of);
    for ((told, expected), &address) in told.iter().zip(&expected).zip(&addresses) {
        inlined += usize::from(expected.lines().count() > 3);
        // Some functions of libraries have no debug information, and only a file beside their name there.
        let is_known = !expected.lines().any(|line| line.ends_with("??:?") || line.ends_with(".o:?"));
        // It may take the name of the symbol table for a function that has only a plain one, and with version 5 the unit's own
        // file for that of a line that this does not have.
        let symbol = table.find(address).map(|found| found.symbol.name().into_owned()).unwrap_or_default();
        let (parts, theirs): (Vec<&str>, Vec<&str>) = (told.lines().collect(), expected.lines().collect());
        let line = |place: &str| place.rsplit(':').next().and_then(|line| line.parse::<u32>().ok());
        let is_alike = |at: usize| {
            let of_symbol =
                theirs[at] == symbol && !parts[at].starts_with("_Z") && !parts[at].starts_with("_R");
            let is_beyond = theirs[at].contains("/a.cc:") && line(theirs[at]).is_some_and(|line| line > 100);
            theirs[at] == parts[at] || of_symbol || is_beyond && line(theirs[at]) == line(parts[at])
        };
        let is_same = parts.len() == theirs.len() && (0..parts.len()).all(is_alike);
        if is_known && !is_same {
            wrong.push(format!("ours: {told}theirs: {expected}"));
        }
    }
    assert!(inlined > 5, "only {inlined} addresses in inlined functions");
    assert!(
        wrong.is_empty(),
        "{}: {} of {} differ:\n{}",
        program.display(),
        wrong.len(),
        told.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
    Ok(())
}

const C_FUNCTIONS: [&str; 3] = ["outer", "seldom", "main"];
const CPP_FUNCTIONS: [&str; 3] = ["work(std::vector<long, std::allocator<long> >&)", "main", "std::__"];
const RUST_FUNCTIONS: [&str; 2] = ["program::", "core::slice::sort"];

fn c_in_every_version() -> Outcome {
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
        compare(&compiled(version, ("a.c", C), &["-O2", "-g", version])?, &C_FUNCTIONS)?;
    }
    compare(&compiled("static", ("a.c", C), &["-O2", "-g", "-static"])?, &C_FUNCTIONS)
}

const ARGUMENTS: &str = r#"
enum kind { FEW, MANY };
struct head { short kind; unsigned char flag; };
struct large { long of[3]; };
struct pair { int a, b; };
typedef struct request { struct head head; unsigned long len; const char *name; char tag[8]; struct request *next;
    union { int inner; }; unsigned bits : 3; void (*call)(void); } request;
__attribute__((noipa)) int handle(const request *req, double x, struct large by, enum kind kind, unsigned short port, char c, long e, long f, long g)
{ return req->len + x + by.of[0] + kind + port + c + e + f + g; }
__attribute__((noipa)) struct large large(char *text, struct pair pair, int behind) { struct large l = { { text[0], pair.a, behind } }; return l; }
__attribute__((noipa)) const request *next(request *req) { return req->next; }
__attribute__((noipa)) void nothing(void) {}
int main(void) { request r = { .len = 3, .next = &r, .name = "a" }; struct pair p = { 1, 2 }; struct large l = large("x", p, 3);
    nothing(); return handle(next(&r), 1.0, l, MANY, 80, 'x', 1, 2, 3) == 1; }
"#;

fn arguments_of_functions_in_every_version() -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        return Err(Skip::needs("x86-64", "this is another architecture"));
    }
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
        let program = compiled(&format!("values{version}"), ("a.c", ARGUMENTS), &["-O1", "-g", version])?;
        let elf = Elf::open(&program).expect("an ELF file");
        let told = |function: &str, paths: &[&str]| -> Vec<String> {
            let address = elf.function(function).expect("symbols").expect("the function");
            let found =
                elf.function_values(None, address, paths).expect("debug information").expect("the function");
            let values = found.values.into_iter().map(|value| match value {
                Ok(value) => format!("{:?} {:?} {:?}", value.word, value.loads, value.kind),
                Err(why) => why,
            });
            values.collect()
        };
        let int = |bytes: u8, signed: bool| format!("Integer {{ bytes: {bytes}, signed: {signed} }}");
        let paths = [
            "req",
            "req->len",
            "req->head.flag",
            "req->name",
            "req->tag",
            "req->next->len",
            "req->inner",
            "kind",
            "port",
            "c",
            "g",
        ];
        let expected = [
            "Some(0) [] Pointer".to_owned(),
            format!("Some(0) [8] {}", int(8, false)),
            format!("Some(0) [2] {}", int(1, false)),
            "Some(0) [16, 0] Text".to_owned(),
            "Some(0) [24] Text".to_owned(),
            format!("Some(0) [32, 8] {}", int(8, false)),
            format!("Some(0) [40] {}", int(4, true)),
            format!("Some(1) [] {}", int(4, false)),
            format!("Some(2) [] {}", int(2, false)),
            format!("Some(3) [] {}", int(1, true)),
            // Behind the struct, on the stack.
            format!("Some(9) [] {}", int(8, true)),
        ];
        assert_eq!(told("handle", &paths), expected, "{version}");
        // The place of a large result is the first word.
        assert_eq!(told("large", &["text", "behind", "retval"])[0], "Some(1) [0] Text");
        assert_eq!(told("large", &["behind"]), [format!("Some(3) [] {}", int(4, true))]);
        for (function, path, part) in [
            ("large", "retval", "no number, no address and no text"),
            ("handle", "x", "numbers with a fraction"),
            ("handle", "by", "no number"),
            ("handle", "req->bits", "no member 'bits'"),
            ("handle", "rq", "the arguments are req, x, by, kind, port, c, e, f, g"),
            ("handle", "port.x", "there is no struct"),
            ("nothing", "retval", "returns nothing"),
            ("nothing", "x", "the arguments are none"),
        ] {
            let said = told(function, &[path]).concat();
            assert!(said.contains(part), "{version} {function} {path}: {said}");
        }
        assert_eq!(
            told("next", &["retval", "retval->len"]),
            ["None [] Pointer".to_owned(), format!("None [8] {}", int(8, false))]
        );
        assert_eq!(elf.function_values(None, 1, &[]), Ok(None));
    }
    Ok(())
}

fn cpp_in_every_version() -> Outcome {
    for version in ["-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
        compare(&compiled(&format!("cc{version}"), ("a.cc", CPP), &["-O2", "-g", version])?, &CPP_FUNCTIONS)?;
    }
    Ok(())
}

fn rust() -> Outcome {
    for options in [&["-Copt-level=2", "-g"][..], &["-Copt-level=3", "-Cdebuginfo=line-tables-only"]] {
        let program = compiled(&format!("rust{}", options[1]), ("program.rs", RUST), options)?;
        compare(&program, &RUST_FUNCTIONS)?;
    }
    Ok(())
}

fn split() -> Outcome {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        // addr2line is asked about the same code with all debug information in one file.
        let plain = compiled(&format!("whole{version}"), ("a.c", C), &["-O2", "-g", version])?;
        let folder = plain.parent().expect("a folder");
        let options = ["-O2", "-g", version, "-gsplit-dwarf", "-o", "divided", "a.c"];
        run("gcc", folder, &options)?;
        compare_with(&folder.join("divided"), &plain, &C_FUNCTIONS)?;
    }
    Ok(())
}

fn packages() -> Outcome {
    let plain = compiled("package", ("a.c", C), &["-O2", "-g", "-gdwarf-4"])?;
    let folder = plain.parent().expect("a folder");
    run("gcc", folder, &["-O2", "-g", "-gdwarf-4", "-gsplit-dwarf", "-o", "divided", "a.c"])?;
    run("dwp", folder, &["-e", "divided", "-o", "divided.dwp"])?;
    for entry in fs::read_dir(folder).expect("the folder").flatten() {
        if entry.path().extension().is_some_and(|ending| ending == "dwo") {
            fs::remove_file(entry.path()).expect("a file less");
        }
    }
    compare_with(&folder.join("divided"), &plain, &C_FUNCTIONS)
}

fn compressed_sections() -> Outcome {
    let plain = compiled("small", ("a.c", C), &["-O2", "-g"])?;
    let folder = plain.parent().expect("a folder");
    for way in ["-gz=zlib", "-gz=zlib-gnu"] {
        run("gcc", folder, &["-O2", "-g", way, "-o", "small", "a.c"])?;
        compare_with(&folder.join("small"), &plain, &C_FUNCTIONS)?;
    }
    Ok(())
}

fn common_debug_files() -> Outcome {
    let one = compiled("common", ("a.cc", CPP), &["-O2", "-g", "-gdwarf-4"])?;
    let folder = one.parent().expect("a folder");
    fs::copy(&one, folder.join("other")).expect("a copy");
    fs::copy(&one, folder.join("whole")).expect("a copy");
    run("dwz", folder, &["-m", "shared", "program", "other"])?;
    compare_with(&one, &folder.join("whole"), &CPP_FUNCTIONS)
}

fn a_debug_file_of_its_own() -> Outcome {
    use perfuse_symbols::{DsoKey, Symbolizer};
    let program = compiled("apart", ("a.c", C), &["-O2", "-g"])?;
    let folder = program.parent().expect("a folder");
    let addresses = addresses(&program, &C_FUNCTIONS);
    let expected = ours(&debug_info(&program), &addresses);
    run("objcopy", folder, &["--only-keep-debug", "program", "program.debug"])?;
    run("objcopy", folder, &["--strip-all", "--add-gnu-debuglink=program.debug", "program", "bare"])?;
    let name = folder.join("bare");
    let dso = Symbolizer::default().dso(&DsoKey::of_map(name.as_os_str().as_encoded_bytes(), 1));
    let (info, shift) = dso.debug_info().expect("the debug file is found");
    assert_eq!(shift, 0);
    assert_eq!(ours(info, &addresses), expected);
    Ok(())
}

fn several_threads_get_the_same() -> Outcome {
    let program = compiled("threads", ("a.cc", CPP), &["-O2", "-g"])?;
    let addresses = addresses(&program, &CPP_FUNCTIONS);
    let info = debug_info(&program);
    let expected = ours(&debug_info(&program), &addresses);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // One after the other, too: what was asked before makes no difference.
                let single: String = addresses.iter().map(|address| ours(&info, &[*address])).collect();
                assert_eq!(single, expected);
            });
        }
    });
    Ok(())
}

fn a_second_look_opens_no_debug_information() -> Outcome {
    use perfuse_symbols::{DsoKey, Symbolizer};
    use std::os::unix::fs::{DirBuilderExt, FileExt};
    let program = compiled("kept", ("a.cc", CPP), &["-O2", "-g"])?;
    let all = addresses(&program, &CPP_FUNCTIONS);
    let cache = program.with_file_name("cache");
    fs::DirBuilder::new().mode(0o700).create(&cache).expect("a folder");
    let look = |addresses: &[u64]| {
        let mut options = SymbolOptions::default();
        options.cache = Some(cache.clone());
        let symbolizer = Symbolizer::new(options);
        let dso = symbolizer.dso(&DsoKey::of_map(program.as_os_str().as_encoded_bytes(), 1));
        dso.debug_info().map(|(info, _)| ours(info, addresses)).expect("debug information")
    };
    let (asked, others) = all.split_at(all.len() / 2);
    let expected = ours(&debug_info(&program), asked);
    assert_eq!(look(asked), expected);
    // The units of the debug information are lost, which the file's size and time do not show.
    let file = fs::File::options().write(true).open(&program).expect("the program");
    let modified = file.metadata().and_then(|file| file.modified()).expect("a time");
    let sections = run("readelf", &cache, &["-SW", program.to_str().expect("UTF-8")])?;
    let units = sections.lines().find(|line| line.contains(" .debug_info ")).expect("a section");
    let words: Vec<&str> = units.split_whitespace().skip_while(|word| *word != "PROGBITS").collect();
    let [place, size] = [words[2], words[3]].map(|word| u64::from_str_radix(word, 16).expect("a number"));
    file.write_all_at(&vec![0; size as usize], place).expect("written");
    file.set_modified(modified).expect("a time");
    assert_eq!(look(asked), expected);
    let unknown: String = others.iter().map(|address| format!("{address:#018x}\n??\n??:?\n")).collect();
    assert_eq!(look(others), unknown);
    // A file that was written to is another.
    file.set_modified(modified + std::time::Duration::from_secs(1)).expect("a time");
    assert_ne!(look(asked), expected);
    Ok(())
}
