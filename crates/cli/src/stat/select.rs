//! `-e`, `--filter` and `-G` in the order they were given: a filter refers to the events of the `-e` before it, a
//! cgroup to all events before it.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

/// The lists of events and of cgroups, and filters, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection(pub(super) Vec<Chosen>, pub(super) UsualEvents);

/// The events that a configuration file has in place of the default ones.
pub(super) type UsualEvents = Option<String>;

/// One option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    Events(String),
    Cgroups(String),
    Filter(String),
}

impl Selection {
    /// Events were chosen; else the default ones are counted.
    pub(super) fn has_events(&self) -> bool {
        self.0.iter().any(|chosen| matches!(chosen, Chosen::Events(_)))
    }

    pub(super) fn has_cgroups(&self) -> bool {
        self.0.iter().any(|chosen| matches!(chosen, Chosen::Cgroups(_)))
    }
}

impl clap::Args for Selection {
    fn augment_args(command: Command) -> Command {
        command
            .arg(
                Arg::new("events")
                    .short('e')
                    .long("event")
                    .value_name("LIST")
                    .action(ArgAction::Append)
                    .help("Events to count, as perf names them: cycles:u, {a,b}, LLC-load-misses, r1a8, sched:sched_switch"),
            )
            .arg(
                Arg::new("filter")
                    .long("filter")
                    .value_name("EXPRESSION")
                    .action(ArgAction::Append)
                    .requires("events")
                    .help("Only hits of the tracepoints of the -e before it that match, such as prev_pid > 7"),
            )
            .arg(
                Arg::new("cgroups")
                    .short('G')
                    .long("cgroup")
                    .value_name("LIST")
                    .action(ArgAction::Append)
                    .conflicts_with_all(["pid", "tid"])
                    .help("Count only tasks of cgroups, on all cpus or those of -C: one name for all events before it, or one for each (empty: everything)"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Selection {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let of = |id: &str, make: fn(String) -> Chosen| -> Vec<(usize, Chosen)> {
            let values = matches.get_many::<String>(id).into_iter().flatten().cloned().map(make);
            matches.indices_of(id).into_iter().flatten().zip(values).collect()
        };
        let is_usual = matches.value_source("events") == Some(ValueSource::DefaultValue);
        let (usual, mut chosen) = match is_usual {
            true => (matches.get_one::<String>("events").cloned(), Vec::new()),
            false => (None, of("events", Chosen::Events)),
        };
        chosen.extend(of("cgroups", Chosen::Cgroups));
        chosen.extend(of("filter", Chosen::Filter));
        chosen.sort_by_key(|(index, _)| *index);
        Ok(Selection(chosen.into_iter().map(|(_, chosen)| chosen).collect(), usual))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
