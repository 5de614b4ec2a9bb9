//! Programs in Go that have neither symbols nor debug information, against the same programs with both, as Go's own tools
//! read them.

use perfuse_symbols::{DebugInfo, Elf, SymbolOptions, SymbolTable};
use perfuse_testkit::{Outcome, Skip, need};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

perfuse_testkit::suite! {
    witnesses:
        a_stripped_program,
        a_stripped_program_at_any_place,
        a_stripped_program_with_c,
        stripped_programs_of_other_machines;
}

const SOURCE: &str = r#"
package main

type tree struct {
	left, right *tree
	key         int
}

//go:noinline
func (t *tree) insert(key int) *tree {
	if t == nil {
		return &tree{key: key}
	}
	if key < t.key {
		t.left = t.left.insert(key)
	} else {
		t.right = t.right.insert(key)
	}
	return t
}

//go:noinline
func largest[T int | float64](list []T) T {
	best := list[0]
	for _, v := range list {
		if v > best {
			best = v
		}
	}
	return best
}

func main() {
	var t *tree
	for i := 0; i < 100; i++ {
		t = t.insert(i * 37 % 100)
	}
	defer func() { println(t.key, largest([]int{1, 3, 2})) }()
}
"#;

/// Calls C, so that the C compiler links it.
const WITH_C: &str = "package main\n\n// static int twice(int x) { return 2 * x; }\nimport \"C\"\n\nfunc init() { println(C.twice(4)) }\n";

/// Builds a program twice: as Go does, and without symbols and debug information.
fn built(
    name: &str,
    with_c: bool,
    options: &[&str],
    environment: &[(&str, &str)],
) -> Result<[PathBuf; 2], Skip> {
    let go = need::program("go")?;
    let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = base.join(format!("go-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the test's files");
    fs::write(folder.join("go.mod"), "module made\ngo 1.18\n").expect("go.mod");
    fs::write(folder.join("main.go"), SOURCE).expect("a source");
    if with_c {
        need::program("gcc")?;
        fs::write(folder.join("with_c.go"), WITH_C).expect("a source");
    }
    let build = |output: &str, more: &[&str]| {
        let mut command = Command::new(&go);
        command.arg("build").args(options).args(more).args(["-o", output, "."]).current_dir(&folder);
        command.env("GOCACHE", base.join("go-cache")).env("CGO_ENABLED", if with_c { "1" } else { "0" });
        command.env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local").envs(environment.iter().copied());
        let output = command.output().expect("it starts");
        match output.status.success() {
            true => Ok(()),
            false => Err(Skip::needs("go build", String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    };
    build("whole", &[])?;
    build("stripped", &["-ldflags=-s -w"])?;
    Ok([folder.join("whole"), folder.join("stripped")])
}

fn symbols(program: &Path) -> SymbolTable {
    Elf::open(program).expect("an ELF file").symbols().expect("symbols")
}

/// Function and line of each address, as `go tool addr2line` tells them. Of programs at any place it knows nothing: there they are
/// those of the debug information.
fn theirs(program: &Path, addresses: &[u64]) -> Vec<String> {
    let mut command = Command::new(need::program("go").expect("it built"));
    command.args(["tool", "addr2line"]).arg(program).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let asked: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads all");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 * addresses.len());
    match text.contains(".go:") {
        true => lines.chunks(2).map(|pair| format!("{} {}", pair[0], pair[1])).collect(),
        false => ours(program, addresses),
    }
}

/// The function that has an address, and the line there, of what was inlined into it.
fn ours(program: &Path, addresses: &[u64]) -> Vec<String> {
    let elf = Elf::open(program).expect("an ELF file");
    let info = DebugInfo::of(&elf, program, &SymbolOptions::default());
    let info = info.expect("a table that can be read").expect("a table");
    let mut told = vec![(String::new(), None); addresses.len()];
    info.frames(addresses, &mut |index, frame| {
        let (name, line) = &mut told[index];
        *name = (frame.name)().unwrap_or_else(|| "?".into());
        let file = frame.file.unwrap_or("?").trim_start_matches("./");
        line.get_or_insert_with(|| format!("{file}:{}", frame.line));
    });
    told.into_iter().map(|(name, line)| format!("{name} {}", line.unwrap_or_default())).collect()
}

/// The functions at each address, the innermost first, with their lines: those that were inlined, and the one that is there.
fn chains(program: &Path, addresses: &[u64]) -> Vec<Vec<String>> {
    let elf = Elf::open(program).expect("an ELF file");
    let info = DebugInfo::of(&elf, program, &SymbolOptions::default());
    let info = info.expect("a table that can be read").expect("a table");
    let mut told = vec![Vec::new(); addresses.len()];
    info.frames(addresses, &mut |index, frame| {
        let name = (frame.name)().unwrap_or_default();
        let sign = if frame.is_inlined { " (inlined)" } else { "" };
        told[index].push(format!(
            "{name}{sign} {}:{}",
            frame.file.unwrap_or("?").trim_start_matches("./"),
            frame.line
        ));
    });
    told
}

/// All functions of the stripped program are those of the whole one, and so are files and lines all over them.
fn check([whole, stripped]: &[PathBuf; 2]) {
    let (known, found) = (symbols(whole), symbols(stripped));
    let elf = Elf::open(stripped).expect("an ELF file");
    assert!(!elf.has_symtab() && !elf.has_debug_info());
    let names: BTreeMap<u64, (String, u64)> =
        known.iter().map(|symbol| (symbol.start, (symbol.name().into_owned(), symbol.size))).collect();
    let mut others = Vec::new();
    let (mut same, mut addresses) = (0, Vec::new());
    for symbol in found.iter() {
        let name = symbol.name().into_owned();
        // The linker tells more: the types of generated code, and how a function is called.
        let plain = |name: &str| name.trim_end_matches(".abi0").split('[').next().map(str::to_owned);
        match names.get(&symbol.start) {
            Some((known, size)) if plain(known) == plain(&name) => {
                same += 1;
                // C has no lines there, and neither has what fills the gaps between functions.
                if name.contains('.') && !name.starts_with('_') && !name.contains('[') {
                    let step = (size / 20).max(1) as usize;
                    addresses.extend((0..*size).step_by(step).map(|at| symbol.start + at));
                }
            }
            known => others.push((name.clone(), known)),
        }
    }
    assert!(others.len() * 200 < same && same > 900, "{same} the same, and {others:?}");
    for function in ["main.main", "main.(*tree).insert", "main.main.func1"] {
        assert!(found.iter().any(|symbol| symbol.name() == function), "{function}");
    }
    let (ours, theirs) = (ours(stripped, &addresses), theirs(whole, &addresses));
    let differ = addresses.iter().zip(ours.iter().zip(&theirs)).filter(|(_, (ours, theirs))| ours != theirs);
    let differ: Vec<_> = differ.collect();
    let some = &differ[..20.min(differ.len())];
    assert!(differ.len() * 1000 <= addresses.len(), "{} of {}: {some:?}", differ.len(), addresses.len());
    // From Go 1.18 on the calls that were inlined are told, too.
    let (ours, theirs) = (chains(stripped, &addresses), chains(whole, &addresses));
    let inlined = theirs.iter().filter(|chain| chain.len() > 1).count();
    // The debug information has no lines of what the compiler made itself.
    let is_made = |chain: &[String]| chain.last().is_some_and(|last| last.contains("<autogenerated>"));
    let all = addresses.iter().zip(ours.iter().zip(&theirs));
    let differ: Vec<_> = all.filter(|(_, (ours, theirs))| ours != theirs && !is_made(ours)).collect();
    let some = &differ[..10.min(differ.len())];
    assert!(inlined * 20 > addresses.len(), "{inlined} of {}", addresses.len());
    assert!(differ.len() * 200 <= addresses.len(), "{} of {}: {some:#?}", differ.len(), addresses.len());
    fs::remove_dir_all(whole.parent().expect("a folder")).expect("it can be removed");
}

fn a_stripped_program() -> Outcome {
    check(&built("plain", false, &[], &[])?);
    Ok(())
}

fn a_stripped_program_at_any_place() -> Outcome {
    check(&built("pie", false, &["-buildmode=pie"], &[])?);
    Ok(())
}

fn a_stripped_program_with_c() -> Outcome {
    check(&built("c", true, &[], &[])?);
    check(&built("c-pie", true, &["-buildmode=pie"], &[])?);
    Ok(())
}

fn stripped_programs_of_other_machines() -> Outcome {
    for machine in ["arm64", "386", "s390x"] {
        check(&built(machine, false, &[], &[("GOARCH", machine)])?);
    }
    Ok(())
}
