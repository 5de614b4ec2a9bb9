//! The citations of rules in code and tests lead somewhere: each is in `docs/semantics.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Rules named after the word "rule" or "rules", up to where the list ends.
fn cited(text: &str, rules: &mut BTreeSet<String>) {
    for rest in text.split("rule").skip(1) {
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        let Some(mut rest) = rest.strip_prefix(' ') else { continue };
        loop {
            let len = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
            let word = &rest[..len];
            let mut letters = word.chars();
            let is_rule = letters.next().is_some_and(|c| c.is_ascii_uppercase())
                && letters.next().is_some_and(|c| c.is_ascii_digit());
            if !is_rule {
                break;
            }
            rules.insert(word.to_owned());
            let after = rest[len..].trim_start_matches(|c: char| c == ',' || c.is_whitespace() || c == '/');
            rest = ["and ", "to ", "or "].iter().find_map(|w| after.strip_prefix(w)).unwrap_or(after);
        }
    }
}

fn visit(dir: &Path, rules: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            visit(&path, rules);
        } else if path.extension().is_some_and(|e| e == "rs" || e == "md") {
            cited(&fs::read_to_string(&path).unwrap(), rules);
        }
    }
}

#[test]
fn every_cited_rule_is_stated() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut rules = BTreeSet::new();
    visit(&root.join("crates"), &mut rules);
    visit(&root.join("benches"), &mut rules);
    assert!(rules.len() > 50, "the search found the citations: {rules:?}");
    let stated = fs::read_to_string(root.join("docs/semantics.md")).unwrap();
    let missing: Vec<_> = rules
        .iter()
        .filter(|rule| !stated.contains(&format!("| {rule} |")) && !stated.contains(&format!("({rule}:")))
        .collect();
    assert!(missing.is_empty(), "docs/semantics.md does not state {missing:?}");
}
