//! Shell completions and the manual page, which packagers install beside the program.

mod complete;

use crate::exit::{Failure, Result, reason};
use crate::help;
use crate::term::out;
use clap::Command;
use clap_complete::Shell;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `perfuse completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell to write for
    shell: Shell,
}

/// Writes a completion script to standard output.
pub(crate) fn completions(args: &Completions, command: Command) -> Result {
    out::print(&script(args.shell, &help::program(command)))?;
    Ok(ExitCode::SUCCESS)
}

/// Options of `perfuse man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  perfuse man stat | man -l -    the page of a command\n  \
                        perfuse man ./man1             a file for each page, in this folder")]
pub(crate) struct Man {
    /// A command, whose page goes to standard output; or a folder, for a file of each page. Without it the page of perfuse
    /// itself is written
    #[arg(value_name = "COMMAND|DIR")]
    page: Option<PathBuf>,
}

/// Writes manual pages, one for the program and one for each subcommand.
pub(crate) fn man(args: &Man, program: Command) -> Result {
    let pages = pages(program)?;
    let Some(wanted) = &args.page else {
        out::print(&pages[0].1)?;
        return Ok(ExitCode::SUCCESS);
    };
    let name = wanted.to_string_lossy();
    if let Some((_, page)) = pages.iter().find(|(page, _)| page.strip_prefix("perfuse-") == Some(&name)) {
        out::print(page)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !wanted.is_dir() && !name.contains('/') {
        return Err(Failure::usage(format_args!(
            "there is no command and no folder '{name}'; a new one is ./{name}"
        )));
    }
    let failed = |path: &Path, error: &io::Error| {
        Failure::new(format_args!("cannot write {}: {}", path.display(), reason(error)))
    };
    std::fs::create_dir_all(wanted).map_err(|error| failed(wanted, &error))?;
    for (name, page) in pages {
        let path = wanted.join(format!("{name}.1"));
        std::fs::write(&path, page).map_err(|error| failed(&path, &error))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Options of the subcommand that scripts ask.
#[derive(Debug, clap::Args)]
pub(crate) struct Complete {
    /// The words of the command line up to the cursor, without the program's name
    #[arg(last = true)]
    words: Vec<String>,
}

/// Writes the kind of what the last word may become, and what there is of it, one to a line. Events that cannot be looked up are
/// left out.
pub(crate) fn complete(args: &Complete, program: Command) -> Result {
    out::print(complete::answer(&help::program(program), &args.words).to_text().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The script of a shell. Those of bash, zsh and fish ask perfuse when something is typed, as every machine has other events
/// and processes; the others know the options.
fn script(shell: Shell, program: &Command) -> Vec<u8> {
    match shell {
        Shell::Bash => include_bytes!("generate/perfuse.bash").to_vec(),
        Shell::Fish => include_bytes!("generate/perfuse.fish").to_vec(),
        Shell::Zsh => include_bytes!("generate/perfuse.zsh").to_vec(),
        _ => {
            // clap adds its own help again.
            let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
            let commands = program.get_subcommands().filter(shown).cloned();
            let options =
                program.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str()));
            let command = Command::new("perfuse").version(env!("CARGO_PKG_VERSION"));
            let mut command = command.args(options.cloned()).subcommands(commands);
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, "perfuse", &mut script);
            script
        }
    }
}

/// The manual pages by their names, that of the program first.
fn pages(program: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    // Help is for the terminal; a page has no page about itself.
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    let commands: Vec<&Command> = program.get_subcommands().filter(shown).collect();
    let names: Vec<String> =
        commands.iter().map(|command| format!("perfuse-{}", command.get_name())).collect();
    let page = |command: &Command, name: &str| {
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut page)?;
        let others = std::iter::once("perfuse").chain(names.iter().map(String::as_str));
        let others = others
            .filter(|other| *other != name)
            .map(|other| format!("\\fB{}\\fR(1)", other.replace('-', "\\-")));
        let others: Vec<String> =
            others.chain([r"\fBperf\fR(1)".into(), r"\fBperf_event_open\fR(2)".into()]).collect();
        page.extend_from_slice(format!(".SH \"SEE ALSO\"\n{}\n", others.join(",\n")).as_bytes());
        Ok((name.to_owned(), page))
    };
    let own = commands.iter().zip(&names).map(|(command, name)| page(command, name));
    std::iter::once(page(&program, "perfuse")).chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{CommandFactory, ValueEnum};

    #[test]
    fn every_subcommand_has_a_page_with_its_options_and_its_neighbours() {
        let pages = pages(crate::help::program(Cli::command())).unwrap();
        assert_eq!(pages[0].0, "perfuse");
        for command in crate::help::program(Cli::command()).get_subcommands() {
            let name = format!("perfuse-{}", command.get_name());
            let Some((_, page)) = pages.iter().find(|(page, _)| *page == name) else {
                assert!(command.is_hide_set() || command.get_name() == "help", "{name}");
                continue;
            };
            let page = std::str::from_utf8(page).unwrap();
            assert!(
                page.contains(&format!(".TH {name} 1")) && page.contains("\\fBperfuse\\fR(1)"),
                "{name}: {page:.300}"
            );
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            for option in shown.filter_map(clap::Arg::get_long) {
                assert!(page.contains(&format!("\\-\\-{}", option.replace('-', "\\-"))), "{name} --{option}");
            }
        }
    }

    #[test]
    fn every_shell_has_a_script_that_names_no_hidden_command() {
        for &shell in Shell::value_variants() {
            let script = String::from_utf8(script(shell, &crate::help::program(Cli::command()))).unwrap();
            let asks = [Shell::Bash, Shell::Fish, Shell::Zsh].contains(&shell);
            assert_eq!(script.contains("perfuse complete -- "), asks, "{shell}");
            assert_eq!(script.contains("per-core") && script.contains("doctor"), !asks, "{shell}");
            assert!(asks || !script.contains("complete'"), "{shell}");
        }
    }
}
