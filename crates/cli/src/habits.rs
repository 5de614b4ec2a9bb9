//! Habits of perf's users that clap does not know: long options cut short, options given twice (the last one counts),
//! `--no-X` where there is an `--X` and the other way round, and perf's words for this program itself (`version`, `-v`,
//! `--no-pager`).

use crate::term::out;
use clap::{Arg, ArgAction, Command, Parser};
use std::ffi::OsString;
use std::io::Write;

/// Options that take a value and can still be taken back.
const TAKEN_BACK: [&str; 3] = ["call-graph", "switch-output", "compression-level"];

/// Makes sense of a command line; ends the program where there is none, or where help was asked for.
pub(crate) fn parse<C: Parser>() -> C {
    parse_from(std::env::args_os()).unwrap_or_else(|error| {
        let text = error.render().ansi().to_string();
        // If the text cannot be written the exit status still tells.
        let _ = match error.use_stderr() {
            true => out::stderr().write_all(text.as_bytes()),
            false => out::print(text.as_bytes()),
        };
        std::process::exit(error.exit_code())
    })
}

/// Makes sense of these words, of which the first is the program's name.
pub(crate) fn parse_from<C: Parser>(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<C, clap::Error> {
    let mut command = command(C::command());
    let matches = command.try_get_matches_from_mut(words)?;
    C::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The command line with all habits.
fn command(command: Command) -> Command {
    let mut command = command.infer_long_args(true).args_override_self(true);
    // perf's help has them too; nothing here is ever shown by a pager.
    for pager in ["no-pager", "paginate"] {
        command = command.arg(Arg::new(pager).long(pager).action(ArgAction::SetTrue).hide(true));
    }
    command = command.arg(Arg::new("v").short('v').action(ArgAction::Version).hide(true));
    let names: Vec<String> =
        command.get_subcommands().map(|subcommand| subcommand.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, with_opposites);
    }
    command
}

/// Adds the opposite of each flag, where it has none.
fn with_opposites(command: Command) -> Command {
    let known: Vec<String> = command
        .get_arguments()
        .flat_map(|arg| arg.get_long_and_visible_aliases().unwrap_or_default())
        .map(str::to_owned)
        .collect();
    let is_flag = |arg: &&Arg| {
        let flag = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count);
        flag || arg.get_long().is_some_and(|long| TAKEN_BACK.contains(&long))
    };
    let opposite = |arg: &Arg| {
        let long = arg.get_long()?;
        let opposite = match long.strip_prefix("no-") {
            Some(positive) => positive.to_owned(),
            None => format!("no-{long}"),
        };
        (!known.contains(&opposite)).then(|| {
            Arg::new(opposite.clone())
                .long(opposite)
                .action(ArgAction::SetTrue)
                .hide(true)
                .overrides_with(arg.get_id().clone())
        })
    };
    let opposites: Vec<Arg> = command.get_arguments().filter(is_flag).filter_map(opposite).collect();
    command.args(opposites)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Subcommand};
    use clap::CommandFactory;

    fn parsed(line: &str) -> Result<String, clap::Error> {
        let words = ["perfuse"].into_iter().chain(line.split_whitespace());
        parse_from::<Cli>(words.map(OsString::from)).map(|cli| format!("{:?}", cli.subcommand))
    }

    #[test]
    fn the_command_line_stays_consistent() {
        command(Cli::command()).debug_assert();
    }

    #[test]
    fn long_options_may_be_cut_short_where_that_leaves_one() {
        for (short, long) in [
            ("report --task", "report --tasks"),
            ("stat --interval-p 100 --interval-co 2 true", "stat -I 100 --interval-count 2 true"),
            ("list --detail --no-desc --deprecated sw", "list -v sw"),
            ("record --call dwarf --no-buildid-c true", "record --call-graph dwarf -N true"),
        ] {
            assert_eq!(parsed(short).unwrap(), parsed(long).unwrap(), "{short}");
        }
        assert!(parsed("stat --per- true").is_err(), "this could be many");
        assert_ne!(parsed("stat -e cs sleep --all").unwrap(), parsed("stat -e cs -a sleep").unwrap());
    }

    #[test]
    fn the_later_of_an_option_and_its_opposite_counts() {
        for (line, same) in [
            ("stat -a -a -r 3 -v -v -r 5 true", "stat -a -r 5 -v true"),
            ("stat -dd -d true", "stat -ddd true"),
            ("record -F 99 -q -F 199 -q -o a --output b true", "record -F 199 -q -o b true"),
            ("report -n -n -s comm -s dso", "report -n -s dso"),
            ("evlist -v -v", "evlist -v"),
            ("stat --no-inherit --inherit true", "stat true"),
            ("stat --inherit --no-inherit true", "stat -i true"),
            ("stat -a --no-all-cpus true", "stat true"),
            ("stat -dd --no-detailed true", "stat true"),
            ("record -g --no-switch-events true", "record -g true"),
            ("record --call-graph dwarf --no-call-graph true", "record true"),
            ("record -B --buildid true", "record true"),
            ("report --no-children --children", "report --children"),
        ] {
            assert_eq!(parsed(line).unwrap(), parsed(same).unwrap(), "{line}");
        }
    }

    #[test]
    fn perfs_words_for_the_program_itself() {
        use clap::error::ErrorKind;
        let kind = |line: &str| parsed(line).unwrap_err().kind();
        for line in ["-v", "-V", "--version"] {
            assert_eq!(kind(line), ErrorKind::DisplayVersion, "{line}");
        }
        for line in ["-h", "help", "help stat", "stat -h", "help record"] {
            assert_eq!(kind(line), ErrorKind::DisplayHelp, "{line}");
        }
        assert_eq!(parsed("--no-pager report").unwrap(), parsed("report").unwrap());
        let cli = parse_from::<Cli>(["perf", "version", "--build-options"]).unwrap();
        assert!(matches!(cli.subcommand, Subcommand::Version(_)));
    }
}
