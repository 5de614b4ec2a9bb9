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

/// The options of all commands.
const TABLE: &str = include_str!("unsupported.txt");

/// An option of perf: a row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerfOption {
    name: &'static str,
    letter: Option<char>,
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

impl PerfOption {
    /// The one of a row such as `--threads,T= (guests) | why`.
    fn of(row: &'static str) -> Option<Self> {
        let (option, refusal) = row.split_once(" | ").unwrap_or((row, ""));
        let (option, part) = option.split_once(" (").unwrap_or((option, ""));
        let option = option.strip_prefix("--")?;
        let (option, values) = match (option.strip_suffix("=?"), option.strip_suffix('=')) {
            (Some(option), _) => (option, (0, 1)),
            (None, Some(option)) => (option, (1, 1)),
            (None, None) => (option, (0, 0)),
        };
        let (name, letter) = option.split_once(',').unwrap_or((option, ""));
        let matters = match part {
            "traces)" => Some(Part::Traces),
            "guests)" => Some(Part::Guests),
            "counts of threads)" => Some(Part::ThreadCounts),
            "lbr)" => Some(Part::Lbr),
            _ => None,
        };
        Some(PerfOption { name, letter: letter.chars().next(), values, refusal, matters })
    }
}

/// The options of a subcommand that it does not take.
pub(crate) trait PerfOptions {
    /// Its section in the table.
    const SECTION: &'static str;

    fn options() -> impl Iterator<Item = PerfOption> {
        let lines = TABLE.lines().skip_while(|line| *line != Self::SECTION).skip(1);
        lines.take_while(|line| !line.starts_with('[')).filter_map(PerfOption::of)
    }
}

macro_rules! sections {
    ($($of:ident $section:literal,)*) => {
        $(#[derive(Clone, Debug)]
        pub(crate) struct $of;

        impl PerfOptions for $of {
            const SECTION: &'static str = $section;
        })*
    };
}

sections! {
    OfStat "[stat]",
    OfList "[list]",
    OfReport "[report]",
    OfAnnotate "[annotate]",
    OfDiff "[diff]",
    OfData "[data]",
    OfScript "[script]",
    OfRecord "[record]",
    OfTop "[top]",
    OfTrace "[trace]",
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
            Some(option) => Err(exit::Failure::usage(format_args!("--{}: {}", option.name, option.refusal))),
            None => Ok(()),
        }
    }
}

impl<T: PerfOptions> clap::Args for Unsupported<T> {
    fn augment_args(command: Command) -> Command {
        T::options().fold(command, |command, option| {
            let (least, most) = option.values;
            let arg = Arg::new(option.name).long(option.name).short(option.letter).hide(true);
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
        let given = |option: &PerfOption| {
            let is_default = clap::parser::ValueSource::DefaultValue;
            matches.value_source(option.name).is_some_and(|source| source != is_default)
        };
        let refused: Vec<PerfOption> =
            T::options().filter(given).filter(|option| !option.refusal.is_empty()).collect();
        match refused.iter().find(|option| option.matters.is_none()) {
            Some(option) => {
                let text = format!("--{}: {}\n", option.name, option.refusal);
                Err(clap::Error::raw(ErrorKind::InvalidValue, text))
            }
            None => Ok(Unsupported(refused, PhantomData)),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        Self::from_arg_matches(matches).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_an_option_of_a_section() {
        let sections = [OfStat::SECTION, OfList::SECTION, OfReport::SECTION, OfAnnotate::SECTION];
        let others = [
            OfDiff::SECTION,
            OfData::SECTION,
            OfScript::SECTION,
            OfRecord::SECTION,
            OfTop::SECTION,
            OfTrace::SECTION,
        ];
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let is_section = sections.contains(&line) || others.contains(&line);
            assert!(is_section || PerfOption::of(line).is_some(), "{line}");
            let part = line.split_once(" | ").unwrap_or((line, "")).0.split_once(" (");
            assert!(part.is_none() || PerfOption::of(line).unwrap().matters.is_some(), "{line}");
        }
        let threads = OfReport::options().find(|option| option.letter == Some('T')).unwrap();
        assert_eq!(
            (threads.name, threads.values, threads.matters),
            ("threads", (0, 0), Some(Part::ThreadCounts))
        );
        assert_eq!(OfList::options().next().map(|option| option.values), Some((1, 1)));
    }
}
