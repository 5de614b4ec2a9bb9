//! Transcripts of perf: what it printed about recordings of the repository stands in the `.txt` files beside this, and perfuse prints
//! the same. README.md tells how they are made.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

fn home(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The folder in which the commands run: recordings, lists of the kernel's symbols, and the root of the system that they are of.
/// It is gone with this.
struct Stage(PathBuf);

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Stage {
    fn new(name: &str) -> Self {
        let stage =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("perf-{}-{name}", std::process::id()));
        let programs = stage.join("root/opt/demo");
        fs::create_dir_all(&programs).unwrap();
        let copy = |from: PathBuf, to: &Path| {
            let to = to.join(from.file_name().unwrap());
            fs::copy(from, &to).unwrap();
            // Headers tell when a recording was made.
            let when = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
            File::options().write(true).open(to).unwrap().set_modified(when).unwrap();
        };
        for folder in ["golden/fixtures", "perf/recordings"] {
            let files = fs::read_dir(home(folder)).unwrap().map(|entry| entry.unwrap().path());
            files.filter(|path| path.extension().is_some_and(|end| end == "data")).for_each(|path| {
                copy(path, &stage);
            });
        }
        copy(home("golden/fixtures/kallsyms"), &stage);
        copy(home("perf/toil.kallsyms"), &stage);
        for program in ["golden/fixtures/grind", "golden/fixtures/libtext.so", "perf/root/opt/demo/toil"] {
            copy(home(program), &programs);
        }
        Stage(stage)
    }

    /// The text that perfuse prints for a command line of a transcript: reports and lines with symbols from the stage alone, as `make` has it.
    fn run(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let program = std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into());
        let mut command = Command::new(program);
        command.arg(words[0]).current_dir(&self.0).stdin(Stdio::null()).env_clear();
        command.envs([("HOME", "home"), ("PATH", "/nonexistent"), ("TZ", "UTC"), ("LC_ALL", "C")]);
        command.env("PERFUSE_CONFIG", "");
        if matches!(words[0], "report" | "script") {
            let list = if line.contains(" -i toil") { "toil.kallsyms" } else { "kallsyms" };
            command.args(["--no-inline", "--symfs", "root", "--kallsyms", list]);
        }
        let output = command.args(&words[1..]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// A transcript: command lines, and what perf printed.
fn cases(file: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(home("perf").join(file)).unwrap();
    let cases = text.split("\n$ ").skip(1).map(|case| case.split_once('\n').unwrap_or((case, "")));
    let cases = cases.filter(|(line, _)| !line.starts_with('#'));
    cases.map(|(line, answer)| (line.to_owned(), answer.to_owned())).collect()
}

/// Whether a line of a header or report is what only one of both says: hints, what it does not know, and why there are no names.
fn is_remark(line: &str) -> bool {
    let starts =
        ["# To display", "# --header", "# missing features", "# Tip", "# /opt/", "# Total Lost Samples"];
    starts.iter().any(|start| line.starts_with(start))
}

/// Lines as they stand, without blanks at their ends and remarks. Numbers of records are indented, and have shares, as newer
/// versions of perf print them.
fn lines(text: &str) -> Vec<String> {
    let plain = |line: &str| match line.contains(" events: ") {
        true => line.split_whitespace().take(3).collect::<Vec<_>>().join(" "),
        false => line.trim_end().to_owned(),
    };
    text.trim().lines().filter(|line| !is_remark(line)).map(plain).collect()
}

/// The entries of a report: each with the lines of its call tree, without what is drawn, and in the order of their shares. The
/// order of entries with equal shares, or of such branches, depends on addresses in perf's memory; so do the lines that are drawn
/// between them.
fn entries(line: &str, text: &str) -> Vec<Vec<String>> {
    let mut entries: Vec<Vec<String>> = Vec::new();
    // perf has a plural for each event that is shown apart, and does not say of a group without a name that it has none.
    let text = text.replace("  of events '", "  of event '").replace("'anon group {", "' {");
    for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !is_remark(line)) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Lines below titles are as wide as the columns.
        if line.starts_with('#') && line.contains("....") || words == ["#"] {
            continue;
        }
        let is_tree = line.starts_with("           ") || words.len() < 2;
        match entries.last_mut().filter(|_| is_tree && !line.starts_with('#')) {
            Some(entry) => entry.push(line.trim_start_matches(|sign| "| -".contains(sign)).to_owned()),
            None => entries.push(vec![words.join(" ")]),
        }
    }
    for entry in &mut entries {
        entry.retain(|line| !line.is_empty());
        entry[1..].sort();
    }
    // Of equal shares in a row any may be the first, and takes all that is below it along.
    let column = usize::from(line.contains("--group-sort-idx 1"));
    let share = |entry: &Vec<String>| entry[0].split(' ').nth(column).map(str::to_owned);
    match line.contains("--hierarchy") {
        true => entries.sort(),
        false => entries.chunk_by_mut(|one, other| share(one) == share(other)).for_each(<[_]>::sort),
    }
    entries
}

/// Whether what is printed is a table.
fn is_table(line: &str) -> bool {
    let others = ["--stats", "--tasks", "--mmaps", "-D", "--header-only"];
    line.starts_with("report ") && !line.split(' ').any(|word| others.contains(&word))
}

/// The first difference.
fn difference(line: &str, ours: &str, theirs: &str) -> Option<String> {
    let (ours, theirs) = match is_table(line) {
        true => (entries(line, ours).concat(), entries(line, theirs).concat()),
        false => (lines(ours), lines(theirs)),
    };
    if ours.is_empty() {
        return Some("nothing is printed".into());
    }
    let at = (0..ours.len().max(theirs.len())).find(|&at| ours.get(at) != theirs.get(at))?;
    Some(format!("    ours {:?}\n    perf {:?}", ours.get(at), theirs.get(at)))
}

fn compare(file: &str) {
    let stage = &Stage::new(file);
    let cases = cases(file);
    assert!(!cases.is_empty());
    let excused: BTreeMap<&str, &str> = EXCUSED.iter().copied().collect();
    let mut told = Vec::new();
    for (line, theirs) in &cases {
        let found = difference(line, &stage.run(line), theirs);
        match (found, excused.get(line.as_str())) {
            (Some(difference), None) => told.push(format!("{line}\n{difference}\n")),
            (None, Some(why)) => told.push(format!("{line}\n    is perf's, and was not: {why}\n")),
            _ => {}
        }
    }
    assert!(told.is_empty(), "{file}: {} of {} are not perf's:\n{}", told.len(), cases.len(), told.concat());
}

/// Command lines that perf answers otherwise, and why it is right to differ.
const EXCUSED: &[(&str, &str)] = &[
    (
        "report -i toil-chains.data --ignore-callees ^ask$",
        "perf goes through callchains from the caller where it counts children, and forgets the callers",
    ),
    ("report -i toil-chains.data -t , --no-children -g none", "perf leaves padding in a title"),
    (
        "report -i branches.data -s dso_to,dso_from,addr_from,addr_to",
        "perf cuts names of functions to the width that they have without an offset",
    ),
    ("report -i memory.data --mem-mode", "local_p_stage_cyc has numbers on POWER alone"),
    ("report -i toil-memory.data --mem-mode", "local_p_stage_cyc has numbers on POWER alone"),
    (
        "report -i memory.data -s dso_size,comm",
        "perf takes the size of the kernel from its last symbol, not from the recording",
    ),
    ("report -i toil-sched.data", "perf cuts texts to the width of the first"),
    ("report -i toil-sched.data --raw-trace", "perf cuts fields to the width of their type"),
    ("report -i group.data --no-children -g none", NOT_LOADED),
    ("report -i group.data -n --show-total-period -s comm,sym --no-children -g none", NOT_LOADED),
    ("report -i group.data --no-group --no-children -g none", NOT_LOADED),
    ("report -i group.data --group-sort-idx 1 --no-children -g none", NOT_LOADED),
    ("report -i chains.data --stats", "lost samples are told by the report, in all"),
    ("report -i kinds.data -D", "records are described without symbols"),
    (
        "script -i kinds.data --show-mmap-events --show-task-events --show-switch-events --show-namespace-events \
         --show-cgroup-events --show-lost-events --show-bpf-events --show-text-poke-events -G",
        "records are described without symbols",
    ),
    (
        "script -i branches.data -F brstackoff",
        "perf shows addresses, not offsets, of programs that are not relocatable, once it has read their symbols",
    ),
];

const NOT_LOADED: &str = "perf names functions of a module only after it had to name one of the kernel";

#[test]
fn functions_callers_and_callees_are_perfs() {
    compare("report.txt");
}

#[test]
fn branches_data_tracepoints_and_groups_are_perfs() {
    compare("kinds.txt");
}

#[test]
fn headers_lists_and_dumps_are_perfs() {
    compare("headers.txt");
}

#[test]
fn lines_of_samples_and_other_records_are_perfs() {
    compare("script.txt");
}
