//! Things that stand in one place: blocks of `unsafe` where docs/architecture.md has figures for them, attrs taken apart by
//! `perfuse-abi`, texts of `/proc` about processes by `perfuse-proc`. Read from the sources.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources of a crate, with their texts.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            found.push((path, text));
        }
    }
}

fn of_crate(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    sources(&root().join(folder).join("src"), &mut found);
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

#[test]
fn blocks_of_unsafe_are_as_many_as_the_table_says() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).expect("the page");
    let mut rows = 0;
    for row in page.lines().filter(|line| line.starts_with("| `perfuse")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let &[name, folder, _, said] = &cells[..] else { panic!("a row of other cells: {row}") };
        let before = said.split(" blocks").next().filter(|before| *before != said);
        let word = before.and_then(|before| before.rsplit(' ').next());
        let told = word.map_or(0, |word| word.parse().expect("a number of blocks"));
        let words = ["unsafe {", "unsafe impl"];
        let blocks = |(_, text): &(PathBuf, String)| {
            words.map(|word| text.matches(word).count()).iter().sum::<usize>()
        };
        let there: usize = of_crate(folder.trim_matches('`')).iter().map(blocks).sum();
        assert_eq!(told, there, "{name} in docs/architecture.md, which says \"{said}\"");
        rows += 1;
    }
    assert!(rows > 10, "{rows} rows");
}

/// The crates whose sources may not have one of these words, and where it stands instead.
#[track_caller]
fn is_only_in(home: &str, words: &[&str]) {
    let crates = fs::read_dir(root().join("crates")).expect("the crates");
    for folder in crates.map(|entry| entry.expect("a crate").path()) {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if name == home || name == "testkit" || !folder.join("src").is_dir() {
            continue;
        }
        for (path, text) in of_crate(&format!("crates/{name}")) {
            for word in words {
                let found = text.lines().find(|line| line.contains(word));
                assert!(
                    found.is_none(),
                    "{}: {:?} belongs to perfuse-{home}",
                    path.display(),
                    found.map(str::trim)
                );
            }
        }
    }
}

/// Offsets by hand look so.
#[test]
fn attrs_are_taken_apart_by_abi_alone() {
    let by_range = (0..10).flat_map(|digit| [format!("attr[{digit}"), format!("attr.get({digit}")]);
    let by_range: Vec<String> = by_range.collect();
    is_only_in("abi", &by_range.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn maps_and_stat_are_taken_apart_by_proc_alone() {
    is_only_in("proc", &["}/maps", "/self/maps", "}/stat\")).and", "rfind(')')"]);
}
