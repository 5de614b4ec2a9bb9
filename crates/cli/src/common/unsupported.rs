//! Options of perf that mean nothing here, and those that are refused, with the reason.

use crate::exit;
use clap::builder::Arg;
use clap::error::ErrorKind;
use clap::{ArgAction, ArgMatches, Command};
use perfuse_abi::BranchSampleType;
use perfuse_abi::record::RecordType;
use perfuse_data::Event;
use perfuse_data::replay::Step;
use perfuse_data::session::Level;
use perfuse_data::tool::kind;
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
    /// The part of a recording without which it changes nothing and is taken.
    matters: Option<Part>,
}

/// A part that only some recordings have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Traces of the processor.
    Traces,
    /// Samples in guests.
    Guests,
    /// Counts of single threads.
    ThreadCounts,
    /// Callchains of the processor's branch records.
    Lbr,
}

impl Part {
    fn is_in(self, step: &Step<'_>) -> bool {
        let calls = |event: &Event| event.attr.branch_sample_type.contains(BranchSampleType::CALL_STACK);
        match self {
            Part::Traces => step.entry.kind() == kind::AUXTRACE_INFO,
            Part::Guests => step.decoded.is_some_and(|decoded| {
                step.sample().is_some()
                    && matches!(Level::of(decoded.misc), Level::GuestKernel | Level::GuestUser)
            }),
            Part::ThreadCounts => step.entry.kind() == RecordType::READ,
            Part::Lbr => step.sample().is_some() && step.entry.event().is_some_and(calls),
        }
    }
}

/// No letter.
const NONE: char = '\0';

impl PerfOption {
    /// One that changes nothing here.
    pub(crate) const fn ignored(name: &'static str) -> Self {
        PerfOption { name: (name, NONE), values: (0, 0), refusal: "", matters: None }
    }

    /// One that is refused.
    pub(crate) const fn refused(name: &'static str, refusal: &'static str) -> Self {
        PerfOption { name: (name, NONE), values: (0, 0), refusal, matters: None }
    }

    /// Refused of recordings that have this alone.
    pub(crate) const fn of(self, part: Part) -> Self {
        PerfOption { matters: Some(part), ..self }
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

/// Takes the options of a table from the command line; those that were given and are refused of some recordings.
#[derive(Clone, Debug)]
pub(crate) struct Unsupported<T>(Vec<PerfOption>, PhantomData<T>);

impl<T> Unsupported<T> {
    /// Refuses an option that would matter at this step of a replay.
    #[inline]
    pub(crate) fn heed(&self, step: &Step<'_>) -> exit::Result<()> {
        let met = |option: &&PerfOption| option.matters.is_some_and(|part| part.is_in(step));
        match self.0.iter().find(met) {
            Some(option) => {
                Err(exit::Failure::usage(format_args!("--{}: {}", option.name.0, option.refusal)))
            }
            None => Ok(()),
        }
    }
}

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
        let refused = T::OPTIONS.iter().filter(given).filter(|option| !option.refusal.is_empty()).copied();
        match refused.clone().find(|option| option.matters.is_none()) {
            Some(option) => {
                let text = format!("--{}: {}\n", option.name.0, option.refusal);
                Err(clap::Error::raw(ErrorKind::InvalidValue, text))
            }
            None => Ok(Unsupported(refused.collect(), PhantomData)),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        Self::from_arg_matches(matches).map(drop)
    }
}
