//! `perfuse annotate` on recordings of this machine: the hottest line is the known one, and percentages are those of Linux's perf.

use perfuse_testkit::{Outcome, Skip, Terminal, need, perf as linux};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

perfuse_testkit::suite! {
    witnesses:
        percentages_are_perfs;
    measurements:
        the_hottest_line_of_a_c_program_is_known,
        the_hottest_line_of_a_rust_program_is_known,
        a_function_is_seen_from_near_on_the_terminal;
}

/// Only one line takes time, and it stands in a function that is inlined.
const C: &str = r#"
#include <stdlib.h>
static inline __attribute__((always_inline)) unsigned long mix(unsigned long x, unsigned long i)
{
    unsigned long y = i + 1;
    return (x ^ i) / ((x & 7) + 1) / ((x & 3) + 2) / ((x & 5) + 3) + y * 31; /* hot */
}
__attribute__((noinline)) unsigned long work(unsigned long n)
{
    unsigned long x = n;
    for (unsigned long i = 1; i <= n; i++)
        x = mix(x, i);
    return x;
}
int main(int argc, char **argv)
{
    unsigned long sum = argc;
    unsigned long rounds = argc > 1 ? atol(argv[1]) : 1;
    for (unsigned long i = 0; i < rounds; i++)
        sum += work(1000000 + sum % 3);
    return sum == 7;
}
"#;

const RUST: &str = r#"
#[inline(always)]
fn mix(x: u64, i: u64) -> u64 {
    let y = i + 1;
    ((x ^ i) / ((x & 7) + 1) / ((x & 3) + 2) / ((x & 5) + 3)).wrapping_add(y) // hot
}
#[inline(never)]
fn work(n: u64) -> u64 {
    let mut x = n;
    let mut i = 0;
    while i < n {
        x = mix(x, i);
        i += 1;
    }
    x
}
fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1);
    let mut sum = std::env::args().count() as u64;
    for _ in 0..rounds {
        sum = sum.wrapping_add(work(1_000_000 + sum % 3));
    }
    std::process::exit(i32::from(sum == 7));
}
"#;

/// A program that was compiled, in a folder that is gone with this.
struct Program {
    folder: PathBuf,
    source: &'static str,
    file: &'static str,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Program {
    fn new(compiler: &str, source: &'static str, file: &'static str, options: &[&str]) -> Result<Self, Skip> {
        let compiler_path = need::program(compiler)?;
        let name = format!("annotate-{file}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).expect("a folder for the test's files");
        let program = Program { folder, source, file };
        std::fs::write(program.folder.join(file), source).expect("a file can be written");
        let output = Command::new(compiler_path)
            .args(options)
            .args(["-o", "prog", file])
            .current_dir(&program.folder)
            .output()
            .expect("the compiler starts");
        match output.status.success() {
            true => Ok(program),
            false => Err(Skip::needs(compiler, String::from_utf8_lossy(&output.stderr))),
        }
    }

    fn hot_line(&self) -> u64 {
        1 + self.source.lines().position(|line| line.contains("hot")).expect("a line that says so") as u64
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().expect("a name in UTF-8").to_owned()
    }

    /// Records the program, for longer until there are enough samples.
    fn record(&self, enough: u64) -> String {
        let data = self.path("perf.data");
        let mut rounds = 20;
        for _ in 0..8 {
            let (program, rounds_word) = (self.path("prog"), rounds.to_string());
            let options = ["record", "-e", "cpu-clock:u", "-F", "1999", "-o", &data];
            let (_, said, status) = perfuse(&[&options[..], &["--", &program, &rounds_word]].concat());
            assert_eq!(status, Some(0), "{said}");
            if json(&self.annotate(&["--json"]))["samples"].as_u64() >= Some(enough) {
                return data;
            }
            rounds *= 3;
        }
        panic!("there are not {enough} samples however long it runs");
    }

    fn annotate(&self, options: &[&str]) -> String {
        let data = self.path("perf.data");
        let (text, said, status) = perfuse(&[&["annotate", "-i", &data, "work"], options].concat());
        assert_eq!(status, Some(0), "{said}");
        text
    }
}

fn binary() -> OsString {
    std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into())
}

fn perfuse(arguments: &[&str]) -> (String, String, Option<i32>) {
    let output =
        Command::new(binary()).args(arguments).stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

fn json(text: &str) -> serde_json::Value {
    text.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}

/// The hottest line is the known one, in each form.
fn hottest_is_known(program: &Program) {
    let data = program.record(150);
    let told = json(&program.annotate(&["--json"]));
    let function = &told["function"];
    let place = format!("{}:{}", program.file, program.hot_line());
    let files = function["files"].as_array().expect("files");
    let costs = files.iter().flat_map(|file| {
        let name = file["path"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let lines = file["lines"].as_array().into_iter().flatten();
        lines.map(move |line| (line["cost"]["samples"].as_u64(), format!("{name}:{}", line["number"]), line))
    });
    let (samples, hottest, line) = costs.max_by_key(|(samples, ..)| *samples).expect("lines");
    assert_eq!(hottest, place);
    assert!(
        samples.unwrap_or(0) * 10 > told["function"]["cost"]["samples"].as_u64().unwrap_or(0) * 6,
        "{line}"
    );
    assert!(line["text"].as_str().is_some_and(|text| text.contains("hot")), "{line}");
    // It is in the call that was inlined.
    let call = &function["inlined"][0];
    assert!(call["name"].as_str().is_some_and(|name| name.ends_with("mix")), "{call}");
    assert!(call["cost"]["samples"].as_u64() >= samples, "{call}");

    let text = program.annotate(&["--stdio"]);
    let first = text.lines().skip_while(|line| !line.contains("hottest lines")).nth(1);
    assert!(first.is_some_and(|line| line.contains(&place) && line.contains("hot")), "{text}");
    let source = program.annotate(&["--lines"]);
    let share = |line: &str| -> f64 {
        line.split(" :").next().and_then(|share| share.trim().parse().ok()).unwrap_or(0.0)
    };
    let shares = source.lines().skip_while(|line| !line.trim().ends_with(program.file));
    let hottest = shares.max_by(|one, other| share(one).total_cmp(&share(other)));
    assert!(hottest.is_some_and(|line| line.contains("hot")), "{source}");

    let (report, said, _) = perfuse(&["report", "-i", &data, "--no-children", "-s", "srcline", "-q"]);
    let first = report.lines().find(|line| line.contains('%'));
    assert!(first.is_some_and(|line| line.contains(&place)), "{report}{said}");
}

/// The same function among the pages of `report --tui`, from where it is the hottest.
fn a_function_is_seen_from_near_on_the_terminal() -> Outcome {
    let program = Program::new("gcc", C, "prog.c", &["-O2", "-g"])?;
    let data = program.record(150);
    let mut terminal = Terminal::new(60, 100)?;
    let mut command = Command::new(binary());
    command.args(["report", "--tui", "--no-children", "-i", &data]).env("TERM", "xterm");
    command.stdin(terminal.side()).stdout(terminal.side()).stderr(terminal.side());
    let mut child = command.spawn().expect("the program starts");
    drop(command); // and its sides of the terminal
    // The recording was read: before that no function has the cursor.
    terminal.read_until("cpu-clock:u");
    terminal.types(b"6");
    terminal.read_until("threads");
    // Below the two lines of that page nothing was drawn yet, so words come whole.
    terminal.types(b"a");
    terminal.read_until("prog.c:");
    terminal.types(b"q");
    let end = String::from_utf8_lossy(&terminal.read(|_| false)).into_owned();
    assert!(end.contains("\x1b[?1049l"), "{end:?}");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    Ok(())
}

fn the_hottest_line_of_a_c_program_is_known() -> Outcome {
    hottest_is_known(&Program::new("gcc", C, "prog.c", &["-O2", "-g"])?);
    Ok(())
}

fn the_hottest_line_of_a_rust_program_is_known() -> Outcome {
    hottest_is_known(&Program::new("rustc", RUST, "prog.rs", &["-O", "-g", "--crate-name", "prog"])?);
    Ok(())
}

/// The text before the first colon, by the address behind it; of perf's output, where it is about this program.
fn shares(text: &str) -> BTreeMap<u64, f64> {
    let mut is_other = false;
    let share = |line: &str| {
        if line.contains("Percent") {
            is_other = !line.contains("Disassembly of prog ");
        }
        let (share, rest) = line.split_once(" :")?;
        let (address, _) = rest.split_once(':')?;
        let address = u64::from_str_radix(address.trim(), 16).ok()?;
        let share = share.trim().parse().ok().unwrap_or(0.0);
        (share > 0.0 && !is_other).then_some((address, share))
    };
    text.lines().filter_map(share).collect()
}

fn percentages_are_perfs() -> Outcome {
    need::program("objdump")?;
    let program = Program::new("gcc", C, "prog.c", &["-O2", "-g"])?;
    let data = program.record(150);
    for kind in ["local-period", "local-hits", "global-period", "global-hits"] {
        // With a function named, perf takes its samples for all that there are.
        let arguments = ["annotate", "--stdio", "-i", &data, "--percent-type", kind];
        let output = linux::succeeds(&mut linux::command(&arguments)?)?;
        let theirs = shares(&String::from_utf8_lossy(&output.stdout));
        match (theirs.is_empty(), kind) {
            // perf 6.1 has zeros there.
            (true, "global-hits") => continue,
            (true, _) => {
                return Err(Skip::needs("a perf that can annotate", String::from_utf8_lossy(&output.stderr)));
            }
            _ => {}
        }
        let arguments = ["annotate", "-i", &data, "-d", "prog", "--cold", "--percent-type", kind];
        let (ours, said, _) = perfuse(&arguments);
        assert_eq!(shares(&ours), theirs, "{kind}\n{ours}{said}");
    }
    Ok(())
}
