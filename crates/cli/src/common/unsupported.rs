//! Options of perf that mean nothing here, and those that are refused, with the reason.

use clap::builder::Arg;
use clap::error::ErrorKind;
use clap::{ArgAction, ArgMatches, Command};
use std::marker::PhantomData;

/// An option of perf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerfOption {
    /// Its name, and its letter.
    name: (&'static str, char),
    /// How many values it takes.
    values: (usize, usize),
    /// Why it is refused; one without a reason is taken and changes nothing.
    refusal: &'static str,
}

/// No letter.
const NONE: char = '\0';

impl PerfOption {
    /// One that changes nothing here.
    pub(crate) const fn ignored(name: &'static str) -> Self {
        PerfOption { name: (name, NONE), values: (0, 0), refusal: "" }
    }

    /// One that is refused.
    pub(crate) const fn refused(name: &'static str, refusal: &'static str) -> Self {
        PerfOption { name: (name, NONE), values: (0, 0), refusal }
    }

    /// With a letter.
    pub(crate) const fn letter(self, letter: char) -> Self {
        PerfOption { name: (self.name.0, letter), ..self }
    }

    /// With a value.
    pub(crate) const fn value(self) -> Self {
        PerfOption { values: (1, 1), ..self }
    }

    /// With a value that may be left out.
    pub(crate) const fn maybe_value(self) -> Self {
        PerfOption { values: (0, 1), ..self }
    }
}

/// The options of a subcommand that it does not take.
pub(crate) trait PerfOptions {
    const OPTIONS: &'static [PerfOption];
}

/// Takes the options of a table from the command line.
#[derive(Clone, Debug)]
pub(crate) struct Unsupported<T>(PhantomData<T>);

impl<T: PerfOptions> clap::Args for Unsupported<T> {
    fn augment_args(command: Command) -> Command {
        T::OPTIONS.iter().fold(command, |command, option| {
            let (name, letter) = option.name;
            let (least, most) = option.values;
            let arg = Arg::new(name).long(name).hide(true);
            let arg = if letter == NONE { arg } else { arg.short(letter) };
            let arg = match most {
                0 => arg.action(ArgAction::Count),
                _ => arg.num_args(least..=most).action(ArgAction::Append).allow_hyphen_values(least > 0),
            };
            command.arg(if least < most { arg.require_equals(true) } else { arg })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: PerfOptions> clap::FromArgMatches for Unsupported<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |option: &&PerfOption| {
            let is_default = clap::parser::ValueSource::DefaultValue;
            matches.value_source(option.name.0).is_some_and(|source| source != is_default)
        };
        let refused = T::OPTIONS.iter().filter(given).find(|option| !option.refusal.is_empty());
        match refused {
            Some(option) => {
                let text = format!("--{}: {}\n", option.name.0, option.refusal);
                Err(clap::Error::raw(ErrorKind::InvalidValue, text))
            }
            None => Ok(Unsupported(PhantomData)),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        Self::from_arg_matches(matches).map(drop)
    }
}
