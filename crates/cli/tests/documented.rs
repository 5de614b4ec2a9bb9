//! Command lines of the documents are taken by the program: each one in `docs/how-to`, `docs/guide` and `README.md`, in blocks and in
//! tables. They are parsed, not carried out: `--help` stands behind their options, which the program then looks at and no more.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands that pages measure without `--` before them.
const MEASURED: [&str; 3] = ["true", "sleep", "make"];

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for folder in ["docs/how-to", "docs/guide"] {
        let entries = std::fs::read_dir(root.join(folder)).expect("a folder of pages");
        pages.extend(entries.map(|entry| entry.expect("a page").path()));
    }
    pages.sort();
    pages
}

/// The command lines of a page: lines of blocks, joined where they go on, and pieces of code in tables.
fn command_lines(page: &str) -> Vec<String> {
    let (mut lines, mut block, mut begun) = (Vec::new(), false, String::new());
    for line in page.lines() {
        if line.starts_with("```") {
            block = !block;
        } else if block {
            let line = line.trim_start_matches("$ ").trim();
            if begun.is_empty() && !line.starts_with("perfuse ") {
                continue;
            }
            begun.push_str(line.trim_end_matches('\\'));
            if !line.ends_with('\\') {
                lines.push(std::mem::take(&mut begun));
            }
        } else if line.starts_with('|') {
            let code = line.split('`').skip(1).step_by(2);
            lines.extend(code.filter(|code| code.starts_with("perfuse ")).map(str::to_owned));
        }
    }
    lines
}

/// The words of the program's command line with `--help` behind its options, without what a shell does with it; `None` for a
/// line with placeholders.
fn words(line: &str) -> Option<Vec<String>> {
    if ["…", "...", "[-"].iter().any(|mark| line.contains(mark)) {
        return None;
    }
    let is_shells = |word: &String| {
        ["|", "&", "&&", ";", "#"].contains(&word.as_str())
            || word.starts_with(['>', '<'])
            || word.starts_with("2>")
    };
    let words = shell_words::split(line).expect("quotes are in pairs");
    let mut words: Vec<_> = words.into_iter().skip(1).take_while(|word| !is_shells(word)).collect();
    let is_end = |word: &String| word == "--" || MEASURED.contains(&word.as_str());
    let end = words.iter().position(is_end).unwrap_or(words.len());
    let is_placeholder = |word: &String| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    if words[..end].iter().any(is_placeholder) {
        return None;
    }
    words.insert(end, "--help".to_owned());
    // Numbers of processes and their names, of which this machine has others.
    for word in words.iter_mut().filter(|word| word.starts_with('$') || *word == "firefox") {
        *word = "1".to_owned();
    }
    Some(words)
}

#[test]
fn command_lines_are_found_in_blocks_and_tables() {
    let page = "x `perfuse no`\n```text\n$ perfuse stat -e a \\\n  -- b\nperfuse: no\n```\n| `perfuse list` | `perf no` |\n";
    assert_eq!(command_lines(page), ["perfuse stat -e a -- b", "perfuse list"]);
    let taken = |line| words(line).map(|words| words.join(" "));
    assert_eq!(taken("perfuse stat -p $PID -- b -x | c").as_deref(), Some("stat -p 1 --help -- b -x"));
    assert_eq!(taken("perfuse man > file").as_deref(), Some("man --help"));
    assert_eq!(taken("perfuse compare 'a' 'b>c'  # why").as_deref(), Some("compare a b>c --help"));
    assert_eq!(taken("perfuse stat [-e EVENTS] -- CMD"), None);
    assert_eq!(taken("perfuse sim FILE"), None);
}

#[test]
fn the_program_takes_what_the_pages_tell() {
    let (mut refused, mut taken) = (Vec::new(), 0);
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        for line in command_lines(&text) {
            let Some(words) = words(&line) else { continue };
            let mut program = Command::new(env!("CARGO_BIN_EXE_perfuse"));
            // Nothing can be started: a line whose options end elsewhere fails.
            program.args(&words).env_clear().envs([("LC_ALL", "C.UTF-8"), ("PATH", "/nowhere")]);
            let output = program.output().expect("it starts");
            taken += 1;
            if !output.status.success() {
                let error = String::from_utf8_lossy(&output.stderr);
                refused.push(format!("{}: {line}\n  {}", page.display(), error.trim()));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(taken > 100, "only {taken} lines were found");
}
