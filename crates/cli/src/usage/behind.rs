//! Options of perfuse behind the command to run: they are the command's, which is said where they were meant for perfuse.

use crate::common::events;
use clap::Command;
use std::ffi::OsString;
use std::path::Path;

/// What is said about options behind a command: where it has failed, of those that `own` has and few others have; else of `-e` with
/// events.
pub(crate) fn remark(own: &Command, command: &[OsString], has_failed: bool) -> Option<String> {
    let (program, words) = command.split_first()?;
    let is_marked = std::env::args_os().rev().nth(command.len()).is_some_and(|word| word == "--");
    let name = Path::new(program).file_name()?.to_str()?;
    // perf and perfuse have these options themselves, and so have stat record and stat report.
    if is_marked
        || name.starts_with("perf")
        || own.get_name() == "stat" && matches!(name, "record" | "report")
    {
        return None;
    }
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let names_events = |at: usize| {
        let value = words.get(at + 1).filter(|_| matches!(words[at], "-e" | "--event"));
        value.is_some_and(|value| events::resolve(value, &events::machine()).is_ok())
    };
    let is_meant = |at: usize| has_failed && is_option(own, words[at]) || names_events(at);
    let at = (0..words.len()).find(|&at| is_meant(at))?;
    let option = words[at].split('=').next()?;
    Some(format!(
        "{option} stands behind {name}, which got it; options of perfuse stand in front: perfuse {} {option} ... -- {name}",
        own.get_name()
    ))
}

/// Whether a word is an option that a command has and few others have: one of several words, as --call-graph.
fn is_option(own: &Command, word: &str) -> bool {
    let long = word.strip_prefix("--").and_then(|long| long.split('=').next());
    let long = long.filter(|long| long.contains('-') || matches!(*long, "event" | "freq" | "repeat"));
    long.is_some_and(|long| own.get_arguments().any(|arg| !arg.is_hide_set() && arg.get_long() == Some(long)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn options_that_were_meant_for_perfuse() {
        let mut program = Cli::command();
        program.build();
        let stat = program.find_subcommand("stat").expect("a command");
        let said = |line: &str, has_failed| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            remark(stat, &words, has_failed)
        };
        for line in ["./prog -e cs", "./prog x --event page-faults,cs"] {
            assert!(said(line, false).is_some_and(|text| text.contains("perfuse stat -")), "{line}");
        }
        for line in ["./prog --per-core", "./prog --repeat=3"] {
            assert!(said(line, true).is_some() && said(line, false).is_none(), "{line}");
        }
        for line in
            ["./prog", "./prog -e 's/a/b/'", "./prog -c 3 --output=x", "perf stat -e cs", "record -e cs true"]
        {
            assert_eq!(said(line, true), None, "{line}");
        }
    }
}
