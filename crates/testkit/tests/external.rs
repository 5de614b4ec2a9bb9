//! The map of others' tests in `docs/external-tests.md`: each row names tests of this project that really are there,
//! or says why there is none.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names of tests below a folder: `file::function` (of a file `main`: of its folder), and of a scenario its file.
fn tests(dir: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests(&path, names);
            continue;
        }
        let stem = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("scenario") => {
                names.insert(stem(&path));
            }
            Some("rs") => {
                let file = match stem(&path) {
                    main if main == "main" => stem(path.parent().unwrap()),
                    file => file,
                };
                let text = fs::read_to_string(&path).unwrap();
                let functions = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
                names.extend(
                    functions.filter_map(|rest| Some(format!("{file}::{}", rest.split_once('(')?.0))),
                );
            }
            _ => {}
        }
    }
}

/// The words between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_external_test_is_mapped() {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let of = entry.unwrap().path();
        for dir in ["tests", "scenarios"].map(|dir| of.join(dir)).iter().filter(|dir| dir.is_dir()) {
            tests(dir, &mut names);
        }
    }
    let text = fs::read_to_string(root().join("docs/external-tests.md")).unwrap();
    let (mut covered, mut without, mut wrong) = (0, 0, Vec::new());
    let mut seen = BTreeSet::new();
    let mut section = "";
    for line in text.lines() {
        section = line.strip_prefix("## ").unwrap_or(section);
        let Some(row) = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")) else { continue };
        let Some((theirs, ours)) = row.split_once(" | ").filter(|(theirs, _)| *theirs != "test") else {
            continue;
        };
        for name in theirs.split(", ") {
            assert!(seen.insert((section, name.to_owned())), "docs/external-tests.md names {name} twice");
            if quoted(ours).next().is_some() { covered += 1 } else { without += 1 }
        }
        wrong.extend(
            quoted(ours).filter(|name| !names.contains(*name)).map(|name| format!("{theirs}: {name}")),
        );
        assert!(ours.len() > 3, "{theirs} has neither a test nor a reason");
    }
    println!("external tests: {}, covered: {covered}, with a reason why not: {without}", covered + without);
    assert!(covered > 150, "the search found the table");
    assert!(wrong.is_empty(), "docs/external-tests.md names tests that are not there: {wrong:#?}");
}
