//! `perfuse report -D` and `--stats` on a folder of recordings from elsewhere, each with the dump that perf
//! 6.12 made of it: every line must be the same, but for the differences listed here. Broken recordings
//! must be told of, and must cost neither time nor memory.

use perfuse_testkit::{Outcome, need};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

perfuse_testkit::suite! {
    deterministic:
        dumps_are_perfs,
        numbers_of_records_are_as_listed,
        broken_recordings_are_told_of;
}

/// perf gave up on these, or stopped after the header: what it did print is compared. Of the trace of
/// ETM (lines that begin with a tab) perfuse prints only the bytes; perf 6.12 does not know COMPRESSED2.
const GIVEN_UP: [&str; 14] = [
    "zero_size_sample",
    "compressed2",
    "__s_etm__",
    "for_build_id_check",
    "max_stack_and_percent_limit",
    "with_callchain_record",
    "failed_unwinding_debug_info",
    "__be-pipe",
    "perf.data.true.v0",
    "cpp-inlining",
    "fork_static_gcc",
    "parallel_static_gcc",
    "intel_pt",
    "small_map_range",
];

struct Corpus {
    folder: PathBuf,
    files: Vec<Value>,
}

impl Corpus {
    fn open() -> Result<Self, perfuse_testkit::Skip> {
        let folder = need::shared("corpus")?;
        let text = std::fs::read_to_string(folder.join("manifest.json")).expect("a list of the files");
        Ok(Corpus { folder, files: serde_json::from_str(&text).expect("JSON") })
    }

    /// The files that are recordings as they should be, or those that are not.
    fn of_kind(&self, is_real: bool) -> impl Iterator<Item = (&Value, &str)> {
        let files = self.files.iter().map(|file| (file, file["file"].as_str().expect("a name")));
        files.filter(move |(file, _)| (file["kind"] == "real") == is_real)
    }

    fn perfuse(&self, arguments: &[&str]) -> Output {
        let path = std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into());
        // No more than 2 GB of addresses.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 2000000; exec \"$@\"", "sh"]).arg(path).args(arguments);
        command.current_dir(&self.folder).stdin(Stdio::null()).output().expect("the program starts")
    }
}

fn unpacked(path: &Path) -> String {
    let output = Command::new("gzip").arg("-dc").arg(path).output().expect("gzip");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The lines to compare, without what may differ:
///
/// - perf's own was built without BPF, and prints nothing of what BPF_EVENT records say, not even a line end;
/// - perf names the vdso after the temporary file it copies its own to;
/// - perf shows the bytes of the other byte order after it has swapped what it knows, which scales and rights are not;
/// - perf counts each branch of a branch stack for a sample in its statistics.
fn lines(text: &str, is_big_endian: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut drops_empty = false;
    for line in text.lines() {
        if std::mem::take(&mut drops_empty) && line.is_empty() {
            continue;
        }
        if let Some((start, _)) = line.split_once("PERF_RECORD_BPF_EVENT type") {
            lines.push(format!("{start}PERF_RECORD_BPF_EVENT"));
            drops_empty = true;
        } else if let (true, true, Some(at)) =
            (is_big_endian, line.contains("PERF_RECORD_MMAP2"), line.rfind("]: "))
        {
            lines.push(format!("{}{}", &line[..at], &line[at + 7..]));
        } else if line.starts_with(" ...... dso: /tmp/perf-vdso.so-") {
            lines.push(" ...... dso: [vdso]".to_owned());
        } else if line.starts_with('\t') && !line.starts_with("\t\t") {
            // Of a trace's header.
        } else if !is_big_endian || !(line.starts_with(".  ") || line.starts_with("... scale:")) {
            lines.push(line.to_owned());
        }
    }
    lines
}

fn dumps_are_perfs() -> Outcome {
    let corpus = Corpus::open()?;
    let (mut same, mut prefixes, mut count) = (0, 0, 0);
    for (file, name) in corpus.of_kind(true) {
        let Some(dump) = file["perf_dump"].as_str() else { continue };
        let is_big = file["endian"] == "big";
        let output = corpus.perfuse(&["report", "-D", "-i", name]);
        let ours = lines(&String::from_utf8_lossy(&output.stdout), is_big);
        let mut theirs = lines(&unpacked(&corpus.folder.join(dump)), is_big);
        count += 1;
        if GIVEN_UP.iter().any(|part| name.contains(part)) {
            // The last line may be cut, and the statistics are of what was read.
            let statistics = theirs.iter().position(|line| line.starts_with("Aggregated stats"));
            theirs.truncate(statistics.unwrap_or(theirs.len()).saturating_sub(1));
            let common = ours.iter().zip(&theirs).take_while(|(ours, theirs)| ours == theirs).count();
            assert_eq!(common, theirs.len(), "{name}: {:?} {:?}", ours.get(common), theirs.get(common));
            prefixes += 1;
            continue;
        }
        let has_branches =
            file["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == "branch-stack"));
        let different: Vec<_> = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).collect();
        let allowed = match () {
            // Two modules and the kernel claim the same addresses there.
            () if name.contains("with_mini_debug_info") => 2,
            // An old kernel wrote a shorter MMAP2; perf takes the pid behind it for the name.
            () if name.contains("perf.data.true.v2") => 7,
            () if has_branches => {
                different.iter().filter(|(ours, _)| ours.contains("SAMPLE events:")).count()
            }
            () => 0,
        };
        assert_eq!(ours.len(), theirs.len(), "{name}: number of lines");
        assert!(different.len() <= allowed, "{name}: {:?}", different.first());
        same += 1;
    }
    println!("{count} dumps: {same} the same, {prefixes} as far as perf read");
    assert!(same >= 95 && same + prefixes == count, "{same} {prefixes} {count}");
    Ok(())
}

fn numbers_of_records_are_as_listed() -> Outcome {
    let corpus = Corpus::open()?;
    let mut count = 0;
    for (file, name) in corpus.of_kind(true) {
        let Some(listed) = file["records"].as_object() else { continue };
        // The list has only the first record of this one.
        if name.contains("perf_with_tracepoint_event") {
            continue;
        }
        if listed.is_empty() || listed.keys().any(|kind| kind.starts_with("U_COMPRESSED")) {
            continue;
        }
        let output = corpus.perfuse(&["report", "--stats", "-i", name]);
        let text = String::from_utf8_lossy(&output.stdout);
        let total = text.split(" stats:\n").nth(1).unwrap_or_default();
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let (name, "events:", number) = (words.next()?, words.next()?, words.next()?) else {
                return None;
            };
            Some((name.to_owned(), number.parse::<u64>().ok()?)).filter(|(name, _)| name != "TOTAL")
        };
        let ours: BTreeMap<String, u64> = total.lines().filter_map(line).collect();
        let number = |(kind, number): (&String, &Value)| {
            (
                kind.trim_start_matches("U_").trim_start_matches("type").to_owned(),
                number.as_u64().expect("a number"),
            )
        };
        let theirs: BTreeMap<String, u64> = listed.iter().map(number).collect();
        assert_eq!(ours, theirs, "{name}");
        count += 1;
    }
    println!("{count} recordings");
    assert!(count > 100);
    Ok(())
}

fn broken_recordings_are_told_of() -> Outcome {
    let corpus = Corpus::open()?;
    let (mut count, mut told) = (0, 0);
    for (number, (_, name)) in corpus.of_kind(false).enumerate() {
        // Most faults show in the dump already; the others take turns.
        let turns = [&["script"][..], &["report", "--header"], &["evlist", "-v"], &["buildid-list"]];
        for what in [&["report", "-D"][..], turns[number % turns.len()]] {
            let start = Instant::now();
            let output = corpus.perfuse(&[what, &["-i", name]].concat());
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(
                matches!(output.status.code(), Some(0 | 125)),
                "{what:?} {name}: {:?} {errors}",
                output.status
            );
            assert!(!errors.contains("internal error"), "{what:?} {name}: {errors}");
            assert!(start.elapsed() < Duration::from_secs(60), "{what:?} {name}: {:?}", start.elapsed());
            let is_failure = output.status.code() == Some(125);
            assert!(!is_failure || !errors.is_empty(), "{what:?} {name} fails without a word");
            if what[0] == "report" && what[1] == "-D" && !errors.is_empty() {
                let says_where =
                    ["offset", "empty file", "it ends after"].iter().any(|words| errors.contains(words));
                assert!(says_where, "{name}: where? {errors}");
                told += 1;
            }
            count += 1;
        }
    }
    println!("{count} runs, {told} recordings told of");
    Ok(())
}
