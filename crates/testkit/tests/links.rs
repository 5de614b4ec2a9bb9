//! Links between the pages of the repository: the file that each names is there, and so is the heading.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All pages below a folder, without the folders that builds make and those that begin with a dot.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            let generated = ["target", "corpus", "artifacts"].contains(&name.as_str());
            let skipped = generated || (name.starts_with('.') && name != ".github");
            if !skipped && !path.is_symlink() {
                pages(&path, found);
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The lines of a page outside of blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// The anchors of a page's headings, as GitHub makes them; of equal ones the second has `-1` behind it.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut times = BTreeMap::new();
    let headings = prose(page).filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|&c| c.is_alphanumeric() || "-_ ".contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    let mut numbered = |anchor: String| {
        let before: &mut usize = times.entry(anchor.clone()).or_default();
        *before += 1;
        if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
    };
    headings.map(|heading| numbered(anchor(heading))).collect()
}

/// The targets of links: in parentheses behind the link's text, outside of backticks.
fn links(page: &str) -> Vec<&str> {
    let plain = prose(page).flat_map(|line| line.split("](").skip(1));
    plain.filter_map(|rest| rest.split([')', ' ']).next()).collect()
}

/// The path without `.` and `..`, whether it exists or not.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => (),
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut found = Vec::new();
    pages(&root(), &mut found);
    let found: BTreeMap<PathBuf, String> =
        found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    let (mut seen, mut wrong) = (0, Vec::new());
    for (path, page) in &found {
        for link in links(page).into_iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { plain(&path.with_file_name(file)) };
            let heading =
                anchor.is_empty() || found.get(&target).is_some_and(|p| anchors(p).contains(anchor));
            if !target.exists() || !heading {
                wrong.push(format!("{}: {link}", path.display()));
            }
            seen += 1;
        }
    }
    assert!(seen > 80, "only {seen} links");
    assert!(wrong.is_empty(), "these links lead nowhere: {wrong:#?}");
}

/// The web pages that crates link to are those of this repository: the files exist here.
#[test]
fn every_link_to_the_repository_on_the_web_is_a_file_here() {
    let mut found = Vec::new();
    pages(&root(), &mut found);
    let mut wrong = Vec::new();
    for path in &found {
        let page = fs::read_to_string(path).unwrap();
        for link in links(&page) {
            let inside = ["blob/main/", "tree/main/"].iter().find_map(|kind| {
                link.strip_prefix("https://github.com/perfuse/perfuse/")?.strip_prefix(kind)
            });
            let Some(inside) = inside else { continue };
            let file = inside.split('#').next().unwrap();
            if !root().join(file).exists() {
                wrong.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "these links lead nowhere: {wrong:#?}");
}
