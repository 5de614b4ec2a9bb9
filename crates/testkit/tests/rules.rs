//! The rules of `docs/semantics.md`: what code and tests cite is stated there, and each rule is shown by a test
//! or listed in `docs/coverage.md` with the reason why not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs").join(name)).unwrap()
}

/// The length of a rule's name, such as "C49b", at the start of a text.
fn rule_len(text: &str) -> Option<usize> {
    let len = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let mut letters = text[..len].chars();
    let is_rule = letters.next().is_some_and(|c| c.is_ascii_uppercase())
        && letters.next().is_some_and(|c| c.is_ascii_digit());
    is_rule.then_some(len)
}

/// Rules named after the word "rule" or "rules", up to where the list ends.
fn cited(text: &str, rules: &mut BTreeSet<String>) {
    let words = text.split("rule").skip(1).chain(text.split("Rule").skip(1));
    for rest in words {
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        let Some(mut rest) = rest.strip_prefix(' ') else { continue };
        while let Some(len) = rule_len(rest) {
            rules.insert(rest[..len].to_owned());
            let after = rest[len..].trim_start_matches(|c: char| c == ',' || c.is_whitespace() || c == '/');
            rest = ["and ", "to ", "or "].iter().find_map(|w| after.strip_prefix(w)).unwrap_or(after);
        }
    }
}

/// All files below a folder with one of these endings.
fn files(dir: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            files(&path, endings, found);
        } else if path.extension().is_some_and(|own| endings.iter().any(|ending| own == *ending)) {
            found.push(path);
        }
    }
}

/// The rules that `docs/semantics.md` states: each begins a row of a table, or stands in parentheses before a
/// colon.
fn stated() -> BTreeSet<String> {
    let text = page("semantics.md");
    let starts = text.split("\n| ").skip(1).chain(text.split('(').skip(1));
    let names = starts.filter_map(|rest| {
        let len = rule_len(rest)?;
        (rest[len..].starts_with(" |") || rest[len..].starts_with(':')).then(|| rest[..len].to_owned())
    });
    names.collect()
}

/// The rules that `docs/coverage.md` gives a reason for, and those that it says are the same as another.
fn explained() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for row in page("coverage.md").lines().filter_map(|line| line.strip_prefix("| ")) {
        let Some((rules, reason)) = row.split_once(" | ") else { continue };
        for rule in rules.split(", ").filter(|rule| rule_len(rule) == Some(rule.len())) {
            let twice = all.insert(rule.to_owned(), reason.trim_end_matches(" |").to_owned());
            assert!(twice.is_none(), "docs/coverage.md names {rule} twice");
        }
    }
    all
}

/// The tests that cite each rule: in their doc comment or body, a scenario anywhere.
fn tests() -> BTreeMap<String, BTreeSet<String>> {
    let mut found = Vec::new();
    files(&root().join("crates/engine/tests"), &["rs"], &mut found);
    files(&root().join("crates/sim/tests"), &["rs"], &mut found);
    files(&root().join("crates/sim/scenarios"), &["scenario"], &mut found);
    let mut tests: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut cite = |text: &str, name: &str| {
        let mut rules = BTreeSet::new();
        cited(text, &mut rules);
        rules.into_iter().for_each(|rule| {
            tests.entry(rule).or_default().insert(name.to_owned());
        });
    };
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.extension().is_some_and(|ending| ending == "scenario") {
            // A comment may break a list of rules.
            cite(&text.replace("\n# ", " "), &stem);
            continue;
        }
        // A comment right above a function belongs to it.
        let (mut name, mut above) = (String::new(), String::new());
        for line in text.lines() {
            let code = line.trim_start();
            match code.strip_prefix("fn ").and_then(|rest| rest.split_once('(')) {
                Some((function, _)) if !line.starts_with(' ') => {
                    name = format!("{stem}::{function}");
                    cite(&std::mem::take(&mut above), &name);
                }
                _ if line.starts_with("///") => above.push_str(&line[3..]),
                _ if line.starts_with("#[") => {}
                _ => {
                    above.clear();
                    if !name.is_empty() {
                        cite(line, &name);
                    }
                }
            }
        }
    }
    tests
}

#[test]
fn every_cited_rule_is_stated() {
    let mut found = Vec::new();
    files(&root().join("crates"), &["rs", "md", "scenario"], &mut found);
    files(&root().join("benches"), &["rs"], &mut found);
    let mut rules = BTreeSet::new();
    found.iter().for_each(|path| cited(&fs::read_to_string(path).unwrap(), &mut rules));
    assert!(rules.len() > 50, "the search found the citations: {rules:?}");
    let stated = stated();
    let missing: Vec<_> = rules.difference(&stated).collect();
    assert!(missing.is_empty(), "docs/semantics.md does not state {missing:?}");
}

#[test]
fn every_rule_is_tested_or_explained() {
    let (stated, explained, tests) = (stated(), explained(), tests());
    let same =
        |rule: &str| explained.get(rule)?.strip_prefix("see ").map(|other| other.trim_end_matches('.'));
    let (mut tested, mut without, mut neither) = (0, 0, Vec::new());
    for rule in &stated {
        let shown = match same(rule) {
            Some(others) => {
                let all = others.split(", ").all(|other| tests.contains_key(other));
                all.then(|| format!("see {others}"))
            }
            None => tests.get(rule).map(|names| names.iter().cloned().collect::<Vec<_>>().join(" ")),
        };
        match (shown, explained.get(rule)) {
            (Some(names), _) => {
                tested += 1;
                println!("{rule}: {names}");
            }
            (None, Some(reason)) if same(rule).is_none() => {
                without += 1;
                println!("{rule}: no test: {reason}");
            }
            _ => neither.push(rule),
        }
    }
    let unknown: Vec<_> = explained.keys().filter(|rule| !stated.contains(*rule)).collect();
    let needless: Vec<_> =
        explained.keys().filter(|rule| same(rule).is_none() && tests.contains_key(*rule)).collect();
    println!("rules: {}, with tests: {tested}, without: {without}, neither: {}", stated.len(), neither.len());
    assert!(unknown.is_empty(), "docs/coverage.md explains what is no rule: {unknown:?}");
    assert!(needless.is_empty(), "docs/coverage.md explains what is tested: {needless:?}");
    assert!(neither.is_empty(), "neither tested nor explained in docs/coverage.md: {neither:?}");
}
