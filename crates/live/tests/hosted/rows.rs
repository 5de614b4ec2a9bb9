//! The differences that docs/hosting.md lists, each shown: a row's scenario writes what it sees, and that has to be the
//! text that the row has for Linux, and the one that it has for us. So a difference that is no longer there fails, as does one
//! that has become another, and a row without a scenario.

mod descriptors;
mod explained;
mod opening;
mod processes;
mod records;

pub(crate) use descriptors::*;
pub(crate) use explained::{Case, Opening, explanation};
pub(crate) use opening::*;
pub(crate) use processes::*;
pub(crate) use records::*;

use super::play_with;
use perfuse_sys::Errno;
use perfuse_testkit::{Outcome, Sandbox, Skip};

/// A line of a table of differences.
pub(crate) struct Row {
    pub(crate) name: String,
    linux: String,
    ours: String,
    rules: String,
}

/// All rows of docs/hosting.md, in its order: those of tables with this head.
pub(crate) fn rows() -> Vec<Row> {
    const HEAD: &str = "| row | on Linux | hosted | why | rules |\n|---|---|---|---|---|\n";
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hosting.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let tables = page.split(HEAD).skip(1);
    let lines = tables.flat_map(|table| table.lines().take_while(|line| line.starts_with('|')));
    lines.map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let &[name, linux, ours, _why, rules] = &cells[..] else { panic!("a row of other cells: {line}") };
    let [name, linux, ours, rules] = [name, linux, ours, rules].map(|cell| cell.replace('`', ""));
    Row { name, linux, ours, rules }
}

/// Whether the cell of a row names rules of docs/semantics.md, or says that there is none.
fn are_rules(cell: &str) -> bool {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/semantics.md");
    let page = std::fs::read_to_string(page).expect("the page");
    cell == "none" || cell.split(", ").all(|rule| page.contains(&format!("\n| {rule} |")))
}

/// The answer to a call that opens an event.
fn answer<T>(answer: &Result<T, Errno>) -> String {
    answer.as_ref().map_or_else(|errno| format!("{errno:?}"), |_| "opens".to_owned())
}

/// The kernel that answers a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    Linux,
    Ours,
}

/// That of this process: ours traces it.
pub(crate) fn answers() -> Kernel {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_traced = status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"));
    if is_traced { Kernel::Ours } else { Kernel::Linux }
}

/// "works", or the errno.
fn said(answer: i64) -> String {
    if answer < 0 { format!("{:?}", super::tracers::errno()) } else { "works".to_owned() }
}

/// Ends a scenario that the machine cannot show.
fn needs(what: &str) -> ! {
    println!("needs {what}");
    std::process::exit(2)
}

/// Plays a row's scenario under both kernels.
pub(crate) fn compare(name: &str) -> Outcome {
    perfuse_sys::perf_event_open_is_reachable().map_err(|error| Skip::needs("perf_event_open(2)", error))?;
    let name_in_page = name.replace('_', "-");
    let row = rows().into_iter().find(|row| row.name == name_in_page);
    let row = row.unwrap_or_else(|| panic!("docs/hosting.md has no row {name_in_page}"));
    let refusing = Sandbox::new().refusing_perf_event_open(libc::EPERM);
    let (on_linux, hosted) = match name {
        "ignored_sigsys" => (Sandbox::new(), refusing),
        "rights_by_exec" => (Sandbox::new().unprivileged(), Sandbox::new().unprivileged()),
        _ => (Sandbox::new(), Sandbox::new()),
    };
    let program = (name == "rights_by_exec").then(processes::RootsProgram::new).transpose()?;
    let path = program.as_ref().map(|program| program.0.display().to_string()).unwrap_or_default();
    let mut missing = Ok(());
    for (role, sandbox, expected) in [("tool", on_linux, row.linux), ("host", hosted, row.ours)] {
        let output = play_with(sandbox, &[role, name, &path]);
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.code() == Some(2) && said.starts_with("needs ") {
            // The other kernel may show its part all the same.
            missing = Err(Skip(said));
            continue;
        }
        assert_eq!(said, expected, "as {role}, of the row {name_in_page}; {output:?}");
    }
    missing
}

/// The rows of the page and those that have scenarios are the same, and tell their rules.
pub(crate) fn each_row_has_a_scenario(scenarios: &[&str]) -> Outcome {
    let explained = explained::EXPLANATIONS.iter().map(|(name, _)| *name);
    for name in explained {
        assert!(rows().iter().any(|row| row.name == name), "{name} is no row");
    }
    for row in rows() {
        assert!(are_rules(&row.rules), "{}: no rules of docs/semantics.md: {}", row.name, row.rules);
    }
    let on_page: Vec<String> = rows().into_iter().map(|row| row.name).collect();
    let mut shown: Vec<String> = scenarios.iter().map(|name| name.replace('_', "-")).collect();
    let mut sorted = on_page.clone();
    sorted.sort();
    shown.sort();
    assert_eq!(sorted, shown, "the rows of docs/hosting.md (left), and those that are shown");
    Ok(())
}
