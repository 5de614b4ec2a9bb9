//! Probes by the names of places: calls of a function are counted exactly, places that do not exist are
//! answered, and nothing stays behind.

use perfuse_testkit::{Outcome, Skip, need};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

perfuse_testkit::suite! {
    measurements:
        calls_and_returns_of_a_function_are_counted,
        a_probed_command_can_start_others,
        a_declared_probe_is_counted,
        a_declared_probe_tells_its_arguments,
        source_lines_are_counted,
        lines_of_functions_are_counted,
        lines_are_found_where_they_are_kept,
        patterns_are_all_functions_that_fit,
        places_that_do_not_exist_are_answered,
        nothing_stays_behind;
}

/// A program that calls `visited` as often as its first argument says.
struct Program {
    folder: PathBuf,
}

const SOURCE: &str = r#"
#include <stdlib.h>
__attribute__((noinline)) int visited(int n) { __asm__ volatile(""); return n + 1; }
/* A probe as sys/sdt.h declares it: one instruction, a note about it, and a semaphore. */
unsigned short semaphore __attribute__((section(".probes")));
static void declared(int n, const char *text) {
    __asm__ volatile(
        "990: nop\n"
        ".pushsection .note.stapsdt,\"?\",\"note\"\n"
        ".balign 4\n"
        ".4byte 992f-991f, 994f-993f, 3\n"
        "991: .asciz \"stapsdt\"\n"
        "992: .balign 4\n"
        "993: .8byte 990b, _.stapsdt.base, semaphore\n"
        ".asciz \"own\"\n.asciz \"passed\"\n.asciz \"-4@%0 8@%1\"\n"
        "994: .balign 4\n"
        ".popsection\n"
        ".ifndef _.stapsdt.base\n"
        ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
        ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"
        ".size _.stapsdt.base, 1\n"
        ".popsection\n"
        ".endif\n" : : "r"(n), "m"(text));
}
int main(int argc, char **argv) {
    int n = atoi(argv[1]), sum = 0;
    for (int i = 0; i < n; i++) { sum += visited(i); if (*(volatile unsigned short *)&semaphore) declared(i, i % 2 ? "odd" : "even"); }
    return sum == -1;
}
"#;

impl Program {
    fn new(name: &str) -> Result<Self, Skip> {
        need::root()?;
        let compiler = need::program("cc")?;
        if !fs::exists("/sys/bus/event_source/devices/uprobe").unwrap_or(false) {
            return Err(Skip::needs("the PMU uprobe", "this kernel has none"));
        }
        let folder = std::env::temp_dir().join(format!("perfuse-probes-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for a test");
        let program = Program { folder };
        fs::write(program.folder.join("visits.c"), SOURCE).expect("a source");
        let output = Command::new(compiler)
            .args(["-O1", "-g", "visits.c", "-o", "visits"])
            .current_dir(&program.folder)
            .output();
        let output = output.expect("the compiler starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(program)
    }

    fn path(&self) -> String {
        self.folder.join("visits").to_str().expect("a name in UTF-8").to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn perfuse() -> Command {
    Command::new(std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into()))
}

fn stat(events: &[String], command: &[&str]) -> (bool, String) {
    let mut stat = perfuse();
    stat.args(["stat", "-x", ";"]);
    stat.args(events.iter().flat_map(|event| ["-e", event]));
    let output = stat.arg("--").args(command).output().expect("the program starts");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The counts, in order.
#[track_caller]
fn counts(events: &[String], command: &[&str]) -> Vec<u64> {
    let (success, text) = stat(events, command);
    assert!(success, "{text}");
    let count = |line: &str| line.split(';').next()?.parse().ok();
    text.lines().map(|line| count(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

fn calls_and_returns_of_a_function_are_counted() -> Outcome {
    let program = Program::new("calls")?;
    let path = program.path();
    let events = [
        format!("uprobe:{path}:visited"),
        format!("uprobe:{path}:visited%return"),
        format!("uprobe:{path}:main:u"),
        format!("uprobe:'{path}:visited'/name=quoted/"),
    ];
    assert_eq!(counts(&events, &[&path, "137"]), [137, 137, 1, 137]);
    // One is a leader, the other its member.
    let group = [format!("{{uprobe:{path}:visited,uprobe:{path}:main}}")];
    assert_eq!(counts(&group, &[&path, "12"]), [12, 1]);
    Ok(())
}

fn a_probed_command_can_start_others() -> Outcome {
    let program = Program::new("forks")?;
    let path = program.path();
    let mut command = perfuse();
    command.args(["stat", "-e", &format!("uprobe:{path}:visited"), "--", "sh", "-c"]);
    // The shell waits for it as its child.
    let output = command.arg(format!("'{path}' 5; echo started")).output().expect("the program starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().last(), Some("started"), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("counted without what"), "{text}");
    Ok(())
}

fn a_declared_probe_is_counted() -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        return Err(Skip::needs("x86_64", "the probe is declared in its assembly"));
    }
    let program = Program::new("declared")?;
    let path = program.path();
    // It is passed only while its semaphore says that somebody listens.
    assert_eq!(counts(&[format!("usdt:{path}:own:passed")], &[&path, "41"]), [41]);
    Ok(())
}

fn a_declared_probe_tells_its_arguments() -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        return Err(Skip::needs("x86_64", "the probe is declared in its assembly"));
    }
    let program = Program::new("told")?;
    let path = program.path();
    let told = |kernel: &str, probe: &str| {
        let mut trace = perfuse();
        trace.args([
            "trace",
            "--kernel",
            kernel,
            "-e",
            &format!("usdt:{path}:own:{probe}"),
            "--",
            &path,
            "3",
        ]);
        let output = trace.output().expect("the program starts");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for kernel in ["linux", "embedded"] {
        let lines = ["(n=0 text=\"even\")", "(n=1 text=\"odd\")", "(n=2 text=\"even\")"];
        let lines = lines.map(|line| format!("own:passed{line}\n")).concat();
        assert_eq!(told(kernel, "passed(n=arg0,text=arg1:str)"), lines, "{kernel}");
        assert!(told(kernel, "passed()").contains("own:passed(arg0=1 arg1=0x"), "{kernel}");
    }
    for (probe, part) in [
        ("passed(arg2)", "own:passed has 2 arguments"),
        ("passed(n)", "tells arg0, arg1, ..."),
        ("pased(arg0)", "did you mean own:passed"),
    ] {
        let said = told("embedded", probe).replace("\n  ", " ");
        assert!(said.contains(part), "{probe}: {said}");
    }
    Ok(())
}

/// The line of the source that begins so.
fn line(start: &str) -> usize {
    SOURCE.lines().position(|line| line.starts_with(start)).expect("it is there") + 1
}

fn source_lines_are_counted() -> Outcome {
    let program = Program::new("lines")?;
    let path = program.path();
    let visited = line("__attribute__((noinline)) int visited");
    let events = [
        format!("uprobe:{path}:visits.c:{visited}"),
        format!("uprobe:{path}:{}/visits.c:{}:u", program.folder.display(), line("int main")),
    ];
    assert_eq!(counts(&events, &[&path, "23"]), [23, 1]);
    for (place, answer) in [
        ("visits.c:3000".to_owned(), "has no code; the nearest"),
        (format!("visit.c:{visited}"), "has no source or function called"),
        ("visits.c:0".to_owned(), "expected uprobe:"),
    ] {
        let (success, text) = stat(&[format!("uprobe:{path}:{place}")], &["true"]);
        assert!(!success && text.contains(answer), "{place}: {text}");
    }
    Ok(())
}

fn lines_of_functions_are_counted() -> Outcome {
    let program = Program::new("functions")?;
    let path = program.path();
    let events = ["visited:0", "main:1", "main:0"].map(|place| format!("uprobe:{path}:{place}"));
    assert_eq!(counts(&events, &[&path, "23"]), [23, 1, 1]);
    let end = line("    return sum") - line("int main");
    for (place, answer) in [
        (format!("main:{}", end + 9), "the nearest that has is"),
        ("visitd:1".to_owned(), "has no source or function called visitd"),
    ] {
        let (success, text) = stat(&[format!("uprobe:{path}:{place}")], &["true"]);
        assert!(!success && text.contains(answer), "{place}: {text}");
    }
    Ok(())
}

fn lines_are_found_where_they_are_kept() -> Outcome {
    let program = Program::new("kept")?;
    let objcopy = need::program("objcopy")?;
    let copied = |arguments: &[&str]| {
        let status = Command::new(&objcopy).args(arguments).current_dir(&program.folder).output();
        status.is_ok_and(|output| output.status.success())
    };
    let mut tried = 0;
    for (name, way) in [("z", "zlib"), ("old", "zlib-gnu"), ("zst", "zstd")] {
        // Older ones cannot do all of them.
        if copied(&[&format!("--compress-debug-sections={way}"), "visits", name]) {
            let copy = program.folder.join(name).display().to_string();
            assert_eq!(counts(&[format!("uprobe:{copy}:main:1")], &[&copy, "2"]), [1], "{way}");
            tried += 1;
        }
    }
    assert!(tried > 0, "objcopy compresses nothing");
    assert!(copied(&["--only-keep-debug", "visits", "apart.debug"]));
    assert!(copied(&["--strip-all", "--add-gnu-debuglink=apart.debug", "visits", "apart"]));
    let apart = program.folder.join("apart").display().to_string();
    let events = ["main:1", "visits.c:3", "visited"].map(|place| format!("uprobe:{apart}:{place}"));
    assert_eq!(counts(&events, &[&apart, "5"]), [1, 5, 5]);
    // A debug file of another build is none.
    let _ = fs::remove_file(program.folder.join("apart.debug"));
    fs::write(program.folder.join("other.c"), "int main(void) { return 7; }").expect("a source");
    let mut compiler = Command::new(need::program("cc")?);
    compiler.args(["-g", "other.c", "-o", "apart.debug"]).current_dir(&program.folder);
    assert!(compiler.output().is_ok_and(|output| output.status.success()));
    let (success, text) = stat(&[format!("uprobe:{apart}:main:1")], &["true"]);
    assert!(!success && text.contains("no line tables"), "{text}");
    Ok(())
}

fn patterns_are_all_functions_that_fit() -> Outcome {
    let program = Program::new("patterns")?;
    let path = program.path();
    let (success, text) =
        stat(&[format!("uprobe:{path}:vis*"), format!("uprobe:{path}:ma?n%return")], &[&path, "9"]);
    assert!(success, "{text}");
    let lines: Vec<(&str, &str)> =
        text.lines().map(|line| (line.split(';').next().unwrap(), line.split(';').nth(2).unwrap())).collect();
    let names = [format!("uprobe:{path}:visited"), format!("uprobe:{path}:main%return")];
    assert_eq!(lines, [("9", &*names[0]), ("1", &*names[1])]);
    let (success, text) = stat(&[format!("uprobe:{path}:nothing*")], &["true"]);
    assert!(!success && text.contains("no function of"), "{text}");
    Ok(())
}

fn places_that_do_not_exist_are_answered() -> Outcome {
    let program = Program::new("nowhere")?;
    let path = program.path();
    for (event, answer) in [
        (format!("uprobe:{path}:visitd"), "did you mean visited"),
        (format!("uprobe:{path}:no_such_function"), "has no function no_such_function"),
        (format!("usdt:{path}:own:pased"), "did you mean own:passed"),
        ("usdt:/nowhere/at/all:a:b".to_owned(), "cannot make the probe"),
    ] {
        let (success, text) = stat(std::slice::from_ref(&event), &["true"]);
        assert!(!success && text.contains(answer), "{event}: {text}");
    }
    if !fs::exists("/sys/bus/event_source/devices/kprobe").unwrap_or(false) {
        let (success, text) = stat(&["kprobe:do_exit".to_owned()], &["true"]);
        assert!(!success && text.contains("CONFIG_KPROBE_EVENTS"), "{text}");
    }
    Ok(())
}

fn nothing_stays_behind() -> Outcome {
    let program = Program::new("behind")?;
    let tracefs = need::tracefs()?;
    let path = program.path();
    counts(&[format!("uprobe:{path}:visited")], &[&path, "1"]);
    let listed = fs::read_to_string(tracefs.join("uprobe_events")).unwrap_or_default();
    assert!(!listed.contains(&path), "{listed}");
    Ok(())
}
