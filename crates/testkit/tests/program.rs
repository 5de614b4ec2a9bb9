//! The program has arguments, words and looks; what it measures, reads or computes is a library's. Read from the sources of
//! `crates/cli`, without tests: names that only measuring, reading or computing needs do not stand in them, and they are few.

use perfuse_testkit::source::{tokens, without_tests};
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of the program that are not tests. `trace` has a thousand of them: its options, lines as strace's, and tables of calls, of threads
/// and by keys.
const BUDGET: usize = 16_000;

/// Words and signs in a row that only a library needs, and the library that has it.
const FORBIDDEN: &[(&str, &str)] = &[
    // Opening events and counting.
    ("perf_event_open", "perfuse opens events"),
    ("Builder", "perfuse::Builder opens events: stat, record, perfuse::doctor and perfuse::catalogue do so"),
    ("Counter", "counters are opened and read by perfuse-stat"),
    ("UserCounter", "counters are opened and read by perfuse-stat"),
    ("CounterSet", "counters are opened and read by perfuse-stat"),
    ("Counts", "counts are read by perfuse-stat"),
    ("CommandCounting", "a command is counted by perfuse-stat: count, compare"),
    ("HeldCommand", "commands are started by perfuse-stat and perfuse-record"),
    ("Cgroup :: open", "cgroups are opened by perfuse-stat and perfuse-record"),
    ("impl Kernel", "kernels are perfuse's"),
    ("impl Wrap", "kernels are perfuse's"),
    // Rings.
    ("Sampler", "rings are read by perfuse-record"),
    ("SamplerBuilder", "rings are read by perfuse-record"),
    ("SamplerSet", "rings are read by perfuse-record"),
    ("SamplerBatch", "rings are read by perfuse-record"),
    (". batch (", "rings are read by perfuse-record"),
    ("Mapping", "rings are mapped by perfuse"),
    // Layouts. A record that a replay hands over is decoded already.
    (". decode (", "records are decoded by perfuse_data::replay and RecordCounts"),
    (":: decode (", "sections are decoded by perfuse-data"),
    ("RawRecord", "records are decoded by perfuse-data"),
    ("RecordFormat", "records are decoded by perfuse-data"),
    ("Codec", "layouts are perfuse-abi's"),
    ("wire", "layouts are perfuse-abi's"),
    ("from_ne_bytes", "layouts are perfuse-abi's"),
    ("from_le_bytes", "layouts are perfuse-abi's"),
    ("from_be_bytes", "layouts are perfuse-abi's"),
    // Programs and their names.
    ("Elf", "programs are read by perfuse-symbols"),
    ("Symbolizer", "programs are read by perfuse-symbols"),
    // Statistics.
    ("statrs", "statistics are perfuse-stat's"),
    ("sqrt", "statistics are perfuse-stat's"),
    ("student_t", "statistics are perfuse-stat's"),
    ("Spread :: of", "perfuse_stat::Spread is made by perfuse-stat"),
    ("Estimate {", "estimates are made by perfuse_stat::compare"),
    ("Difference {", "differences are made by perfuse_stat::compare"),
    // Everything else comes by other ways.
    ("perfuse :: *", "imports of a library by name show what is used"),
    ("perfuse_stat :: *", "imports of a library by name show what is used"),
    ("perfuse_record :: *", "imports of a library by name show what is used"),
    ("perfuse_data :: *", "imports of a library by name show what is used"),
    ("extern crate", "imports of a library by name show what is used"),
    ("unsafe", "docs/architecture.md has no row for it"),
];

/// Dependencies that the manifest must be without: with these one measures or computes.
const DEPENDENCIES: &[&str] = &[
    "statrs",
    "perfuse-engine",
    "gimli",
    "object",
    "addr2line",
    "cpp_demangle",
    "rustc-demangle",
    "zstd",
    "csv",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli")
}

fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

fn program() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    sources(&folder().join("src"), &mut found);
    found.sort();
    assert!(found.len() > 20, "there is no program in {}", folder().display());
    found
}

/// The forbidden names in a text, with the reasons.
fn forbidden(text: &str) -> Vec<(&'static str, &'static str)> {
    let tokens = without_tests(&tokens(text));
    let stands = |(row, _): &(&str, &str)| {
        let row: Vec<&str> = row.split(' ').collect();
        tokens.windows(row.len()).any(|window| window.iter().eq(row.iter()))
    };
    FORBIDDEN.iter().copied().filter(stands).collect()
}

/// The lines of a text, without modules that are tests.
fn lines(text: &str) -> usize {
    let (mut count, mut closes) = (0, None);
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        if let Some(end) = &closes {
            closes = (line != end).then(|| String::clone(end));
            continue;
        }
        let next = lines.get(number + 1).copied().unwrap_or("");
        let module = next.trim_start().strip_prefix("mod ").filter(|rest| rest.ends_with('{'));
        match (line.trim(), module) {
            ("#[cfg(test)]", Some(_)) => {
                let indent = next.len() - next.trim_start().len();
                closes = Some(" ".repeat(indent) + "}");
            }
            _ => count += 1,
        }
    }
    count
}

#[test]
fn the_program_neither_measures_nor_reads_nor_computes() {
    let mut told = Vec::new();
    for (path, text) in program() {
        for (row, reason) in forbidden(&text) {
            told.push(format!("{}: `{row}`: {reason}", path.display()));
        }
    }
    let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    let dependencies =
        manifest.split("[dependencies]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap();
    for name in DEPENDENCIES {
        let is_own =
            |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '.', '=']));
        if dependencies.lines().any(is_own) {
            told.push(format!("Cargo.toml: {name}: that belongs into a library"));
        }
    }
    assert!(told.is_empty(), "the program does what a library should:\n{}", told.join("\n"));
}

#[test]
fn the_program_is_small() {
    let sizes: Vec<(usize, PathBuf)> =
        program().into_iter().map(|(path, text)| (lines(&text), path)).collect();
    let all: usize = sizes.iter().map(|(size, _)| size).sum();
    println!("the program has {all} lines, of {BUDGET}");
    assert!(all <= BUDGET, "the program has {all} lines, more than {BUDGET}");
}

#[test]
fn forbidden_names_are_found_in_code_alone() {
    let found = |text: &str| forbidden(text).len();
    assert_eq!(found("use perfuse::{Error, Counter as C};"), 1);
    assert_eq!(found("let e = perfuse::Builder::new(event);"), 1);
    assert_eq!(found("entry\n    .decode()?"), 1);
    assert_eq!(found("Section::decode(id, bytes)"), 1);
    assert_eq!(found("use perfuse::*;"), 1);
    assert_eq!(found("// Counter\nlet a = \"Builder\"; step.decoded; Counters"), 0);
    assert_eq!(found("#[cfg(test)] mod tests { use perfuse::Counter; }"), 0);
}

#[test]
fn tests_do_not_count_as_lines() {
    assert_eq!(lines("a\n\nb\n#[cfg(test)]\nmod tests {\n    fn x() {\n    }\n}\nc\n"), 4);
    assert_eq!(lines("#[cfg(test)]\nfn a() {}\n"), 2);
}
