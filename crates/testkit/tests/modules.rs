//! No circle of modules: of the modules that have the same parent, none uses itself by way of others. Read from the
//! sources: every path that begins with `crate`, `self` or `super`, and what `use` brings in; tests are left out.

use perfuse_testkit::source::{tokens, without_tests};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that still have circles. Each name leaves this list with its last circle.
const WITH_CIRCLES: &[&str] = &["abi", "engine", "events", "live"];

/// A module by its names from the root of the crate on; the root itself has none.
type Place = Vec<String>;

/// A module: what it declares, brings in, and names.
#[derive(Debug, Default)]
struct Module {
    children: BTreeSet<String>,
    /// Names that `use` brings in, with the path as it is written there.
    imports: BTreeMap<String, Vec<String>>,
    /// Paths into the crate, as they are written.
    paths: Vec<Vec<String>>,
}

/// The paths of the tree that begins at `tokens[*i]`, each with the name by which it is known.
fn tree(tokens: &[String], i: &mut usize, before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let mut path = before.to_vec();
    let mut known = None;
    while let Some(token) = tokens.get(*i) {
        match token.as_str() {
            "{" => {
                *i += 1;
                while tokens.get(*i).is_some_and(|token| token != "}") {
                    let began = *i;
                    tree(tokens, i, &path, found);
                    // A comma, or what is no path.
                    let is_over = tokens.get(*i).is_none_or(|token| token == "}");
                    *i += usize::from(!is_over && (tokens[*i] == "," || *i == began));
                }
                *i += 1;
                return;
            }
            "::" => {}
            "as" => {
                known = tokens.get(*i + 1).cloned();
                *i += 1;
            }
            "self" if !path.is_empty() => {}
            word if word == "*" || word.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                // A path goes on with what follows its colons alone.
                if path.len() > before.len() && tokens[*i - 1] != "::" {
                    break;
                }
                path.push(word.to_owned());
            }
            _ => break,
        }
        *i += 1;
    }
    let name = known.or_else(|| path.last().cloned()).unwrap_or_default();
    found.push((path, name));
}

/// Reads the module of a file, and those below it.
fn read(file: &Path, place: &Place, modules: &mut BTreeMap<Place, Module>) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let tokens = without_tests(&tokens(&text));
    let mut module = Module::default();
    let mut i = 0;
    while i < tokens.len() {
        let next = tokens.get(i + 1).map(String::as_str);
        match tokens[i].as_str() {
            "mod" if tokens.get(i + 2).is_some_and(|token| token == ";") => {
                module.children.insert(tokens[i + 1].clone());
                i += 3;
            }
            "use" => {
                i += 1;
                let mut found = Vec::new();
                tree(&tokens, &mut i, &[], &mut found);
                for (path, name) in found {
                    module.paths.push(path.clone());
                    module.imports.insert(name, path);
                }
            }
            "crate" | "super" | "self" if next == Some("::") && tokens[i - 1] != "in" => {
                let mut found = Vec::new();
                tree(&tokens, &mut i, &[], &mut found);
                module.paths.extend(found.into_iter().map(|(path, _)| path));
            }
            _ => i += 1,
        }
    }
    let is_root = place.is_empty() || file.ends_with("mod.rs");
    let folder = if is_root { file.with_file_name("") } else { file.with_extension("") };
    for child in &module.children {
        let below: Place = place.iter().chain([child]).cloned().collect();
        let files = [folder.join(child).with_extension("rs"), folder.join(child).join("mod.rs")];
        if let Some(file) = files.iter().find(|file| file.exists()) {
            read(file, &below, modules);
        }
    }
    modules.insert(place.clone(), module);
}

/// The module in which the thing of a path is defined, as seen from `place`; `None` for what is of other crates.
fn defined(modules: &BTreeMap<Place, Module>, place: &Place, path: &[String], steps: usize) -> Option<Place> {
    let (mut here, mut rest) = (place.clone(), path);
    match path.first()?.as_str() {
        "crate" => (here, rest) = (Place::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {}
        // A path of an import: of a module below, or of another crate.
        name if modules[place].children.contains(name) => {}
        _ => return None,
    }
    while let Some(("super", after)) = rest.split_first().map(|(first, after)| (first.as_str(), after)) {
        here.pop();
        rest = after;
    }
    while let Some((name, after)) = rest.split_first() {
        let module = &modules[&here];
        if module.children.contains(name) {
            here.push(name.clone());
            rest = after;
            continue;
        }
        // Names that a module imports are defined elsewhere.
        return match module.imports.get(name) {
            Some(import) if steps > 0 => match import.first().map(String::as_str) {
                Some("crate" | "self" | "super") => defined(modules, &here, import, steps - 1),
                Some(first) if module.children.contains(first) => defined(modules, &here, import, steps - 1),
                _ => None,
            },
            _ => Some(here),
        };
    }
    Some(here)
}

/// For each module that has others below it: which of them use which, with one path as evidence.
type Uses = BTreeMap<Place, BTreeMap<String, BTreeMap<String, String>>>;

fn uses(modules: &BTreeMap<Place, Module>) -> Uses {
    let mut uses = Uses::new();
    for (place, module) in modules {
        for path in &module.paths {
            let Some(target) = defined(modules, place, path, 8) else { continue };
            let common = place.iter().zip(&target).take_while(|(a, b)| a == b).count();
            // A module and those below it are one.
            if let (Some(user), Some(used)) = (place.get(common), target.get(common)) {
                let of_parent = uses.entry(place[..common].to_vec()).or_default();
                let evidence = format!("{}: {}", place.join("::"), path.join("::"));
                of_parent.entry(user.clone()).or_default().entry(used.clone()).or_insert(evidence);
            }
        }
    }
    uses
}

/// The shortest circle through each module that is in one, as evidence of its steps.
fn circles(uses: &BTreeMap<String, BTreeMap<String, String>>) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut seen: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
    for start in uses.keys() {
        let mut ways: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([start.as_str()]);
        while let Some(user) = queue.pop_front() {
            for used in uses.get(user).into_iter().flat_map(BTreeMap::keys) {
                if !ways.contains_key(used.as_str()) {
                    ways.insert(used, user);
                    queue.push_back(used);
                }
            }
        }
        if !ways.contains_key(start.as_str()) {
            continue;
        }
        let (mut names, mut steps, mut used) = (BTreeSet::new(), Vec::new(), start.as_str());
        loop {
            let user = ways[used];
            steps.push(format!("{user} -> {used} ({})", uses[user][used]));
            names.insert(user);
            used = user;
            if used == start {
                break;
            }
        }
        if seen.insert(names) {
            steps.reverse();
            found.push(steps);
        }
    }
    found
}

/// The circles of a crate, in words.
fn report(root: &Path) -> Vec<String> {
    let mut modules = BTreeMap::new();
    for file in ["lib.rs", "main.rs"].map(|name| root.join("src").join(name)) {
        if file.exists() {
            read(&file, &Place::new(), &mut modules);
        }
    }
    let mut told = Vec::new();
    for (parent, uses) in uses(&modules) {
        for circle in circles(&uses) {
            told.push(format!("in crate::{}\n    {}", parent.join("::"), circle.join("\n    ")));
        }
    }
    told
}

fn crates() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut crates: Vec<_> = entries
        .filter(|path| path.join("Cargo.toml").exists())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path))
        .collect();
    crates.sort();
    crates
}

#[test]
fn no_module_uses_itself_by_way_of_others() {
    let mut told = Vec::new();
    for (name, path) in crates() {
        let circles = report(&path);
        match (WITH_CIRCLES.contains(&name.as_str()), circles.is_empty()) {
            (true, true) => told.push(format!("{name} has no circle any more: take it off the list")),
            (false, false) => told.extend(circles.iter().map(|circle| format!("{name}: {circle}"))),
            _ => {}
        }
    }
    assert!(told.is_empty(), "circles of modules:\n{}", told.join("\n"));
}

/// Prints the circles of the crates on the list.
#[test]
#[ignore = "for those who open circles"]
fn the_circles_that_are_left() {
    for (name, path) in crates().iter().filter(|(name, _)| WITH_CIRCLES.contains(&name.as_str())) {
        for circle in report(path) {
            println!("{name}: {circle}");
        }
    }
}

#[test]
fn a_circle_is_found_through_lists_aliases_and_imports() {
    let module = |text: &str, children: &[&str]| {
        let tokens = without_tests(&tokens(text));
        let mut module =
            Module { children: children.iter().map(|&name| name.to_owned()).collect(), ..Module::default() };
        let mut i = 0;
        while i < tokens.len() {
            let mut found = Vec::new();
            i += 1;
            if tokens[i - 1] == "use" {
                tree(&tokens, &mut i, &[], &mut found);
            }
            for (path, name) in found {
                module.paths.push(path.clone());
                module.imports.insert(name, path);
            }
        }
        module
    };
    let crates = |a: &str, b: &str| {
        BTreeMap::from([
            (vec![], module("pub use b::{Thing as Other, self};", &["a", "b"])),
            (vec!["a".to_owned()], module(a, &[])),
            (vec!["b".to_owned()], module(b, &[])),
        ])
    };
    let found =
        |a: &str, b: &str| uses(&crates(a, b)).values().map(|uses| circles(uses).len()).sum::<usize>();
    assert_eq!(found("use crate::Other;", "use crate::a::{self, X};"), 1);
    assert_eq!(found("use super::b::deep::Thing;", "use super::{a, std};"), 1);
    assert_eq!(found("use crate::Other;", "/* use crate::a; */ // use crate::a;"), 0);
    assert_eq!(found("use crate::Other;", "#[cfg(test)] mod tests { use crate::a; }"), 0);
    assert_eq!(
        found("use crate::Other;", r#"const A: &str = "use crate::a; \" use"; fn a<'a>() -> char { '"' }"#),
        0
    );
}
