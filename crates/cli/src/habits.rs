//! Habits of perf's users that clap does not know: long options cut short, options given twice (the last one counts),
//! `--no-X` where there is an `--X` and the other way round, and perf's words for this program itself (`version`, `-v`,
//! `--no-pager`). And one of ours: only the subcommand that was named gets its options built ([`Lazy`]).

use crate::common::pages;
use crate::config;
use crate::exit;
use crate::term::out;
use crate::{help, recording, usage};
use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Parser};
use std::cell::Cell;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::PathBuf;

thread_local! {
    /// Whether a long option is among the words that sense is made of: only such ones are taken back by another.
    static HAS_LONG: Cell<bool> = const { Cell::new(true) };
}

/// Makes sense of a command line; ends the program where there is none, or where help was asked for.
pub(crate) fn parse<C: Parser>() -> C {
    let words: Vec<OsString> = std::env::args_os().collect();
    parse_from(&words).unwrap_or_else(|error| {
        // If the text cannot be written the exit status still tells.
        match error.kind() {
            ErrorKind::DisplayHelp => pages::help(&help::text(command(C::command()), &words)),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let text = help::text(command(C::command()), &words);
                let here = if std::io::stderr().is_terminal() { help::here() } else { String::new() };
                drop(out::stderr().write_all((text + &here).as_bytes()))
            }
            _ => end(&error, |error| usage::refusal(error, C::command(), &words)),
        };
        std::process::exit(error.exit_code())
    })
}

/// Ends the program with help that was asked for, or with what there is to say about a command line.
pub(crate) fn end(error: &clap::Error, refusal: impl Fn(&clap::Error) -> String) -> ! {
    let text = error.render().ansi().to_string();
    // If the text cannot be written the exit status still tells.
    match error.kind() {
        ErrorKind::DisplayHelp => pages::help(&text),
        ErrorKind::DisplayVersion => drop(out::print(text.as_bytes())),
        _ => {
            let refusal = refusal(error);
            out::say(exit::folded(&refusal));
            config::blamed(&refusal).into_iter().for_each(out::say);
        }
    }
    std::process::exit(error.exit_code())
}

/// Makes sense of these words, of which the first is the program's name.
pub(crate) fn parse_from<C: Parser>(
    words: impl IntoIterator<Item = impl Into<OsString>>,
) -> Result<C, clap::Error> {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    // They live as long as the program does: to take them apart costs a tenth of a start.
    let mut command = ManuallyDrop::new(command(C::command()));
    let is_long = |word: &OsString| word.len() > 2 && word.as_encoded_bytes().starts_with(b"--");
    let before = HAS_LONG.replace(words.iter().any(is_long));
    let matches = command.try_get_matches_from_mut(words);
    HAS_LONG.set(before);
    let matches = ManuallyDrop::new(matches?);
    let asked = [("no-pager", false), ("paginate", true)];
    if let Some((_, paged)) = asked.into_iter().find(|(name, _)| matches.get_flag(name)) {
        let _ = pages::DECIDED.set(paged);
    }
    if let Some(store) = matches.get_one::<PathBuf>("buildid-dir") {
        let _ = recording::STORE.set(store.clone());
    }
    C::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The command line with all habits.
fn command(command: Command) -> Command {
    let mut command = command.infer_long_args(true).args_override_self(true);
    // perf and git have them here, too.
    for pager in ["no-pager", "paginate"] {
        command = command.arg(Arg::new(pager).long(pager).action(ArgAction::SetTrue).hide(true));
    }
    // perf has it in front of its subcommands.
    let store = Arg::new("buildid-dir").long("buildid-dir").value_parser(clap::value_parser!(PathBuf));
    command = command.arg(store.hide(true));
    command.arg(Arg::new("v").short('v').action(ArgAction::Version).hide(true))
}

/// The options of a subcommand. They are built when somebody looks at that subcommand, since those of all take longer than
/// counting the events of `true` does. A list of all options needs `Command::build` therefore.
#[derive(Debug)]
pub(crate) struct Lazy<T>(pub(crate) Box<T>);

impl<T: Args> Args for Lazy<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| {
            // The subcommand's own words, instead of those about its options.
            let (about, long_about) = (command.get_about().cloned(), command.get_long_about().cloned());
            let has_habits = command.is_args_override_self();
            let command = T::augment_args(command)
                .about(Resettable::from(about))
                .long_about(Resettable::from(long_about));
            if has_habits { with_opposites(command) } else { command }
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for Lazy<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(|args| Lazy(Box::new(args)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches_mut(matches).map(|args| Lazy(Box::new(args)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Adds the opposite of each option, where it has none and might be asked for; that of one with a value takes the value back.
fn with_opposites(command: Command) -> Command {
    if !HAS_LONG.get() && !config::has_defaults(&command) {
        return config::with_defaults(command);
    }
    let mut known: Vec<String> = command
        .get_arguments()
        .flat_map(|arg| arg.get_long_and_visible_aliases().unwrap_or_default())
        .map(str::to_owned)
        .collect();
    let mut opposites = Vec::new();
    for arg in command.get_arguments().filter(|arg| can_be_taken_back(arg)) {
        for long in arg.get_long_and_visible_aliases().unwrap_or_default() {
            let opposite = config::opposite_of(long);
            if known.contains(&opposite) {
                continue;
            }
            known.push(opposite.clone());
            let opposite = Arg::new(opposite.clone()).long(opposite).action(ArgAction::SetTrue).hide(true);
            opposites.push(opposite.overrides_with(arg.get_id().clone()));
        }
    }
    config::with_defaults(command.args(opposites))
}

fn can_be_taken_back(arg: &Arg) -> bool {
    let taken = [ArgAction::SetTrue, ArgAction::Count, ArgAction::Set, ArgAction::Append];
    taken.iter().any(|action| std::mem::discriminant(action) == std::mem::discriminant(arg.get_action()))
        && !arg.is_required_set()
        && arg.get_long().is_some()
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
    fn only_the_named_subcommand_gets_its_options_built() {
        let mut command = command(Cli::command());
        command.try_get_matches_from_mut(["perfuse", "evlist", "-v"]).unwrap();
        let options = |name| command.find_subcommand(name).unwrap().get_arguments().count();
        assert!(options("evlist") > 0);
        assert_eq!(options("stat") + options("record") + options("report"), 0);
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
            ("report --time 1,2 --no-time", "report"),
            ("report --comms sh --no-comms -c ls", "report -c ls"),
            ("report --max-stack 3 --no-max-stack --no-sort", "report"),
            ("script --itrace=i100us --no-itrace --no-xed", "script"),
            ("script --script x.py --no-script --no-dsos", "script"),
            ("record -e cs --no-event -F 99 --no-freq true", "record true"),
        ] {
            assert_eq!(parsed(line).unwrap(), parsed(same).unwrap(), "{line}");
        }
    }

    #[test]
    fn perfs_words_for_the_program_itself() {
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
