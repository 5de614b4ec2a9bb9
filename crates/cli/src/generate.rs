//! Shell completions and the manual page, which packagers install beside the program.

use crate::exit::Result;
use crate::list;
use crate::term::out;
use clap::Command;
use clap_complete::Shell;
use std::io;
use std::process::ExitCode;

/// Options of `perfuse completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell to write for
    shell: Shell,
}

/// Writes a completion script to standard output.
pub(crate) fn completions(args: Completions, command: Command) -> Result {
    out::print(&script(args.shell, command))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual page to standard output: the program, then each subcommand.
pub(crate) fn man(command: Command) -> Result {
    out::print(&page(command)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Options of the subcommand that scripts ask.
#[derive(Debug, clap::Args)]
pub(crate) struct CompleteEvents {
    /// Metrics, as after -M
    #[arg(long)]
    metrics: bool,

    /// The list as typed so far
    #[arg(default_value = "", allow_hyphen_values = true)]
    list: String,
}

/// Writes what a list may become, one to a line. Events that cannot be looked up are left out.
pub(crate) fn complete_events(args: &CompleteEvents) -> Result {
    let mut text = list::completions(&args.list, args.metrics).join("\n");
    text.push('\n');
    out::print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The completion of options is made from their definitions; names of events are asked for when they are
/// typed, as every machine has others.
fn script(shell: Shell, mut command: Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "perfuse", &mut script);
    let text = String::from_utf8_lossy(&script).into_owned();
    let text = match shell {
        Shell::Bash => text + include_str!("generate/events.bash"),
        Shell::Fish => text + include_str!("generate/events.fish"),
        Shell::Zsh => zsh(&text),
        _ => text,
    };
    text.into_bytes()
}

/// zsh has its actions within the description of an option.
fn zsh(script: &str) -> String {
    let line = |line: &str| {
        let action = match line {
            line if line.contains("-e+[") || line.contains("--event=[") => "_perfuse_events",
            line if line.contains("-M+[") || line.contains("--metrics=[") => "_perfuse_metrics",
            _ => return format!("{line}\n"),
        };
        format!("{}\n", line.replace(":_default'", &format!(":{action}'")))
    };
    let script: String = script.lines().map(line).collect();
    // The first line has to stay the first.
    let (first, rest) = script.split_once('\n').unwrap_or((&script, ""));
    format!("{first}\n\n{}\n{rest}", include_str!("generate/events.zsh"))
}

fn page(command: Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    // Help is for the terminal; a page has no page about itself.
    let mut command = command.disable_help_subcommand(true);
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
    use crate::cli::Cli;
    use clap::{CommandFactory, ValueEnum};

    #[test]
    fn the_manual_has_every_subcommand_and_its_options() {
        let page = String::from_utf8(page(Cli::command()).unwrap()).unwrap();
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
            let script = String::from_utf8(script(shell, Cli::command())).unwrap();
            assert!(script.contains("per-core") && script.contains("doctor"), "{shell}");
            let asks = [Shell::Bash, Shell::Fish, Shell::Zsh].contains(&shell);
            assert_eq!(script.contains("perfuse complete-events"), asks, "{shell}");
            assert!(shell != Shell::Zsh || script.contains(":LIST:_perfuse_events'"), "{script}");
        }
    }
}
