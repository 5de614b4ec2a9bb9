//! What packagers install beside the program: shell completions and the manual page.

use crate::cli::Cli;
use crate::exit::Result;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::{self, Write};
use std::process::ExitCode;

/// Options of `perfuse completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell to write for
    shell: Shell,
}

/// Writes a completion script to standard output.
pub(crate) fn completions(args: Completions) -> Result {
    io::stdout().write_all(&script(args.shell))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual page to standard output: the program, then each subcommand.
pub(crate) fn man() -> Result {
    io::stdout().write_all(&page()?)?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "perfuse", &mut script);
    script
}

fn page() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    // Help is for the terminal; a page has no page about itself.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands() {
        clap_mangen::Man::new(subcommand.clone()).render(&mut page)?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn the_manual_has_every_subcommand_and_its_options() {
        let page = String::from_utf8(page().unwrap()).unwrap();
        for subcommand in Cli::command().get_subcommands() {
            let name = subcommand.get_name();
            let page_name = format!("perfuse\\-{}", name.replace('-', "\\-"));
            assert!(page.contains(&page_name), "{name}");
            let shown = subcommand.get_arguments().filter(|argument| !argument.is_hide_set());
            for option in shown.filter_map(clap::Arg::get_long) {
                assert!(page.contains(&format!("\\-\\-{}", option.replace('-', "\\-"))), "{name} --{option}");
            }
        }
        assert!(!page.contains("perfuse\\-help"), "there is no such page");
    }

    #[test]
    fn every_shell_completes_the_options() {
        for &shell in Shell::value_variants() {
            let script = String::from_utf8(script(shell)).unwrap();
            assert!(script.contains("per-core") && script.contains("doctor"), "{shell}");
        }
    }
}
