//! The files that each crate takes along when it is published: its licences, and a page that can be read anywhere.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of the crates that are published.
fn published() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = fs::read_dir(crates).expect("the crates").map(|entry| entry.expect("a crate").path());
    let manifest = |folder: &Path| fs::read_to_string(folder.join("Cargo.toml"));
    folders.filter(|folder| manifest(folder).is_ok_and(|text| !text.contains("publish = false"))).collect()
}

/// The texts in parentheses behind those of links, and behind `[name]:` at the start of lines.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let inline = page.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let named = page.lines().filter(|line| line.starts_with('[')).filter_map(|line| line.split_once("]: "));
    inline.chain(named.map(|(_, link)| link.trim()))
}

#[test]
fn licences_are_in_each_package() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let published = published();
    assert!(published.len() > 5, "{published:?}");
    for folder in published {
        for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
            // Links to the root's files; cargo packs what they lead to.
            let [own, roots] = [&folder, &root].map(|folder| fs::read_to_string(folder.join(name)).ok());
            assert!(own.is_some() && own == roots, "{}: no {name}, or another", folder.display());
        }
    }
}

/// A registry shows the page without the repository around it.
#[test]
fn pages_of_packages_link_to_the_web() {
    for folder in published() {
        let path = folder.join("README.md");
        let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for link in links(&page) {
            let elsewhere = link.starts_with("https://") || link.starts_with('#');
            assert!(elsewhere, "{}: a link to {link:?}", path.display());
        }
    }
}

/// A registry refuses more keywords, or longer ones; docs.rs takes the machines from the manifest.
#[test]
fn manifests_tell_registries_all_that_they_ask_for() {
    for folder in published() {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let field = |name: &str| manifest.lines().find_map(|line| line.strip_prefix(name));
        for name in ["description = ", "readme = ", "categories", "keywords"] {
            assert!(field(name).is_some(), "{}: no {name}", folder.display());
        }
        let keywords: Vec<&str> = field("keywords = ").unwrap_or("").split('"').skip(1).step_by(2).collect();
        assert!(keywords.len() <= 5 && keywords.iter().all(|word| word.len() <= 20), "{keywords:?}");
        let program = manifest.contains("[[bin]]");
        assert!(
            program || manifest.contains("[package.metadata.docs.rs]"),
            "{}: nothing for docs.rs",
            folder.display()
        );
    }
}
