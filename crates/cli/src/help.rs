//! Help that one can read: `-h` is one screen, written by hand (`pages.txt`); `--help` has all options, below headings
//! (`headings.txt`). Both are looked at only when somebody asks.

use crate::term;
use clap::Command;
use perfuse::facts::Facts;
use std::ffi::OsString;
use std::io;

const PAGES: &str = include_str!("help/pages.txt");
const HEADINGS: &str = include_str!("help/headings.txt");

/// The program's commands in groups, as its help shows them; those that are in none are named at the end.
const GROUPS: [(&str, &[&str]); 3] = [
    ("measure", &["stat", "record", "top", "trace", "compare"]),
    ("read recordings", &["report", "annotate", "script", "diff", "flamegraph", "export"]),
    ("know the machine", &["doctor", "list"]),
];

/// Commands that make recordings of recordings, or keep what they need, told on a line of their own.
const REWRITE: &[&str] = &["cut", "merge", "strip", "seal", "convert", "inject", "archive", "buildid-cache"];

/// Lines of `--help` are no longer, on however wide a terminal.
const WIDEST: usize = 100;

/// The help that these words of a command line ask for, the program's name first.
pub(crate) fn text(program: Command, words: &[OsString]) -> String {
    let words: Vec<&str> = words.iter().skip(1).filter_map(|word| word.to_str()).collect();
    let is_long = words.first() == Some(&"help") || words.iter().any(|word| word.starts_with("--h"));
    let program = self::program(program);
    match words.iter().filter(|word| **word != "help").find_map(|word| program.find_subcommand(word)) {
        None => commands(&program),
        Some(command) => match section(PAGES, command.get_name()).filter(|_| !is_long) {
            Some(page) => page,
            None => long(command.clone()),
        },
    }
}

/// The program with all options of its commands, below headings.
pub(crate) fn program(mut program: Command) -> Command {
    program.build();
    program.mut_subcommands(with_headings)
}

fn with_headings(command: Command) -> Command {
    let Some(section) = section(HEADINGS, command.get_name()) else { return command };
    let headings: Vec<(String, Vec<String>)> = section
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(heading, names)| (heading.to_owned(), names.split(' ').map(str::to_owned).collect()))
        .collect();
    command.mut_args(|arg| {
        let name = arg.get_long().map(str::to_owned).or(arg.get_short().map(|letter| format!("-{letter}")));
        let heading =
            headings.iter().find(|(_, names)| name.as_ref().is_some_and(|name| names.contains(name)));
        match heading {
            Some((heading, _)) => arg.help_heading(heading.clone()),
            None => arg,
        }
    })
}

/// Everything about a command.
fn long(command: Command) -> String {
    let columns = term::columns(io::stdout()).min(WIDEST);
    command.term_width(columns).render_long_help().ansi().to_string()
}

/// The program's commands, in groups.
pub(crate) fn commands(program: &Command) -> String {
    let mut text = "perfuse counts, samples, traces and explains programs with Linux perf_events\n\
                    usage: perfuse COMMAND [OPTIONS] [ARGS]; its -h has what matters, --help all\n"
        .to_owned();
    let shown: Vec<&Command> = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .collect();
    let is_grouped =
        |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name)) || REWRITE.contains(&name);
    for (group, names) in GROUPS {
        text += &format!("\n{group}\n");
        for command in
            names.iter().filter_map(|name| shown.iter().find(|command| command.get_name() == *name))
        {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            text += &format!("  {:<13} {about}\n", command.get_name());
        }
    }
    // As everywhere, --version tells the version; and those who come from perf know the other words.
    let is_told = |name: &&str| !is_grouped(name) && !["version", "check", "data", "kallsyms"].contains(name);
    let rest: Vec<&str> = shown.iter().map(|command| command.get_name()).filter(is_told).collect();
    text += &format!("\nrewrite: {}\n", REWRITE.join(", "));
    text + &format!("more: {}\n", rest.join(", "))
}

/// Tells somebody who has typed nothing yet how to begin, and what this machine allows.
pub(crate) fn here() -> String {
    let facts = Facts::gather();
    let hardware = match facts.cpu_pmus().next() {
        Some(_) => "cycles, instructions and caches are counted",
        None => "no hardware PMU is seen, so time is sampled by the clock",
    };
    let whose = match (facts.may_monitor(), facts.paranoid) {
        (true, _) => "the whole system may be measured",
        (false, Some(level)) if facts.closed_level().is_some_and(|closed| level >= closed) => {
            "the kernel refuses this user, and perfuse measures by ptrace"
        }
        (false, Some(level)) if level <= 0 => "the whole system may be measured",
        (false, Some(1)) => "your own programs may be measured, and the kernel for them",
        (false, _) => "your own programs may be measured, in user space",
    };
    format!(
        "\nfirst: perfuse stat -- ./program, then perfuse record -g -- ./program and perfuse report\n\
         here:  {hardware}\n       {whose}; perfuse doctor tells more\n"
    )
}

/// The lines of a section of a text.
fn section(text: &str, name: &str) -> Option<String> {
    let mut lines = text
        .lines()
        .skip_while(|line| line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) != Some(name));
    lines.next()?;
    Some(lines.take_while(|line| !line.starts_with('[')).map(|line| format!("{line}\n")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use crate::habits;
    use clap::CommandFactory;

    fn sections(text: &'static str) -> impl Iterator<Item = &'static str> {
        text.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'))
    }

    #[test]
    fn short_help_is_one_screen_of_options_and_examples_that_are_there() {
        let program = program(Cli::command());
        let pages = sections(PAGES).map(|name| (name, section(PAGES, name).expect(name)));
        for (name, page) in pages.chain([("", commands(&program))]) {
            assert!(page.lines().count() <= 24, "{name}: {} lines", page.lines().count());
            for line in page.lines() {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
            if name.is_empty() {
                continue;
            }
            let command = program.find_subcommand(name).expect(name);
            for word in
                page.split([' ', ',', ';', '\n', ':']).filter(|word| word.starts_with("--") && word.len() > 2)
            {
                let has = command.get_arguments().any(|arg| arg.get_long() == Some(&word[2..]));
                assert!(has || page.contains(&format!(" -- {word}")) || word == "--help", "{name}: {word}");
            }
            let examples: Vec<&str> = page
                .lines()
                .skip_while(|line| *line != "examples:")
                .filter(|line| line.starts_with("  perfuse "))
                .collect();
            assert_eq!(examples.len(), 2, "{name}");
            for example in examples {
                let line = example
                    .trim()
                    .split("   ")
                    .next()
                    .unwrap_or_default()
                    .split("  ")
                    .next()
                    .unwrap_or_default();
                let words = shell_words::split(line).expect(line);
                assert!(habits::parse_from::<Cli>(words).is_ok(), "{line}");
            }
        }
    }

    #[test]
    fn help_of_a_command_is_told_in_either_order() {
        let told =
            |line: &str| text(Cli::command(), &line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(told("perfuse help evlist"), told("perfuse evlist --help"));
        assert_eq!(told("perfuse help"), told("perfuse -h"));
        assert_ne!(told("perfuse evlist -h"), told("perfuse evlist --help"));
    }

    #[test]
    fn headings_are_of_options_that_are_there() {
        let program = program(Cli::command());
        for name in sections(HEADINGS) {
            let command = program.find_subcommand(name).expect(name);
            let section = section(HEADINGS, name).expect(name);
            let names: Vec<&str> =
                section.lines().flat_map(|line| line.split_once(": ").expect(line).1.split(' ')).collect();
            for option in &names {
                let has = command.get_arguments().any(|arg| {
                    arg.get_long() == Some(option)
                        || arg.get_short().is_some_and(|letter| *option == format!("-{letter}"))
                });
                assert!(has, "{name}: there is no {option}");
                assert_eq!(
                    names.iter().filter(|name| *name == option).count(),
                    1,
                    "{name}: {option} is there twice"
                );
            }
        }
    }

    #[test]
    fn examples_of_long_help_are_command_lines() {
        for command in program(Cli::command()).get_subcommands() {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in after.lines().filter_map(|line| line.strip_prefix("  perfuse ")) {
                let line =
                    line.split("  ").next().unwrap_or_default().split(" | ").next().unwrap_or_default();
                let words = shell_words::split(&format!("perfuse {line}")).expect(line);
                assert!(habits::parse_from::<Cli>(words).is_ok(), "{line}");
            }
        }
    }
}
