//! Options whose meaning depends on their order or form: a `--filter` belongs to the `-e` before it, a `-G` to all before it, and
//! `-z` takes its level without a space.

use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};
use std::ffi::OsString;

/// The events, filters and cgroups of `-e`, `--filter` and `-G`, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Those of a `-G` that no `-e` came before.
    pub(crate) cgroups: Vec<String>,
    pub(crate) lists: Vec<Listed>,
}

/// An `-e` with its filter, and the `-G` that come behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) events: String,
    pub(crate) filter: Option<String>,
    pub(crate) cgroups: Vec<String>,
}

impl FromArgMatches for Selection {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let found = |id: &str| -> Vec<(usize, String)> {
            let values = matches.get_many::<String>(id).into_iter().flatten().cloned();
            matches.indices_of(id).into_iter().flatten().zip(values).collect()
        };
        let mut lists = Vec::new();
        let mut filters = found("filter").into_iter().peekable();
        let mut events = found("event").into_iter().peekable();
        let mut cgroups = found("cgroup").into_iter().peekable();
        let mut cgroups_until = |end: usize| -> Vec<String> {
            std::iter::from_fn(|| cgroups.next_if(|(index, _)| *index < end)).map(|(_, list)| list).collect()
        };
        let first = cgroups_until(events.peek().map_or(usize::MAX, |(index, _)| *index));
        while let Some((_, list)) = events.next() {
            let end = events.peek().map_or(usize::MAX, |(index, _)| *index);
            let mut filter: Option<String> = None;
            while let Some((_, text)) = filters.next_if(|(index, _)| *index < end) {
                // Several of them all have to hold, as with perf.
                filter = Some(match filter {
                    Some(first) => format!("({first}) && ({text})"),
                    None => text,
                });
            }
            lists.push(Listed { events: list, filter, cgroups: cgroups_until(end) });
        }
        // One that no -e came before.
        if lists.is_empty() && filters.peek().is_some() {
            let text = "--filter is for the tracepoints of the -e before it, and there is none\n";
            return Err(Error::raw(clap::error::ErrorKind::InvalidValue, text));
        }
        Ok(Selection { cgroups: first, lists })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Selection {
    pub(super) fn has_cgroups(&self) -> bool {
        !self.cgroups.is_empty() || self.lists.iter().any(|list| !list.cgroups.is_empty())
    }

    /// The options as they were given.
    pub(crate) fn words(&self) -> impl Iterator<Item = OsString> {
        let cgroups =
            |list: &[String]| list.iter().map(|list| format!("--cgroup={list}")).collect::<Vec<_>>();
        let listed = self.lists.iter().flat_map(move |list| {
            let filter = list.filter.iter().map(|filter| format!("--filter={filter}"));
            let words = std::iter::once(format!("--event={}", list.events)).chain(filter);
            words.chain(cgroups(&list.cgroups)).collect::<Vec<_>>()
        });
        cgroups(&self.cgroups).into_iter().chain(listed).map(OsString::from)
    }

    /// Adds the two options, of which `-e` has this help.
    fn augment(command: Command, help: &'static str) -> Command {
        let event = Arg::new("event").short('e').long("event").value_name("LIST").action(ArgAction::Append);
        let filter = Arg::new("filter").long("filter").value_name("EXPRESSION").action(ArgAction::Append);
        command.arg(event.help(help)).arg(
            filter.help("Only hits of the tracepoints of the -e before it that match, such as prev_pid > 7"),
        )
    }
}

impl clap::Args for Selection {
    fn augment_args(command: Command) -> Command {
        let help =
            "Events to sample, as perf names them: cycles:u, cpu-clock, page-faults, sched:sched_switch";
        let cgroup = Arg::new("cgroup").short('G').long("cgroup").value_name("CGROUPS");
        let cgroup = cgroup.action(ArgAction::Append).conflicts_with_all(["pid", "tid"]);
        Selection::augment(command, help).arg(cgroup.help(
            "The tasks of this cgroup with all events before it, or of the n-th cgroup with the n-th event, on all cpus or those of -C",
        ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The same of `trace`, whose cgroup is another option.
#[derive(Clone, Debug)]
pub(crate) struct TraceEvents(pub(crate) Selection);

impl FromArgMatches for TraceEvents {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Selection::from_arg_matches(matches).map(TraceEvents)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl clap::Args for TraceEvents {
    fn augment_args(command: Command) -> Command {
        let help = "System calls (openat,close), groups (%file, %desc, %process, %network, %signal, %ipc, %memory), all but some \
                    (!futex), patterns (epoll*), /REGEX, or other events (sched:sched_switch, minor-faults)";
        let expr = |arg: Arg| arg.visible_alias("expr").allow_hyphen_values(true);
        Selection::augment(command, help).mut_arg("event", expr)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// `-z`, with the level of zstd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Compression {
    pub(super) level: Option<i32>,
}

const DIGITS: [(&str, char); 10] = [
    ("z0", '0'),
    ("z1", '1'),
    ("z2", '2'),
    ("z3", '3'),
    ("z4", '4'),
    ("z5", '5'),
    ("z6", '6'),
    ("z7", '7'),
    ("z8", '8'),
    ("z9", '9'),
];

impl FromArgMatches for Compression {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut level = matches.get_one::<i32>("compress").copied();
        // `-z12` is read as three flags, whose places tell the number.
        let mut digits: Vec<(usize, char)> = Vec::new();
        for (id, digit) in DIGITS {
            // Of the same digit twice there is one place, beside the other.
            let (times, place) = (matches.get_count(id), matches.index_of(id));
            digits.extend(place.into_iter().flat_map(|place| (0..times).map(move |_| (place, digit))));
        }
        digits.sort_unstable();
        if !digits.is_empty() {
            let number: String = digits.iter().map(|(_, digit)| digit).collect();
            level = number.parse().ok();
        }
        match level {
            Some(level) if !(1..=22).contains(&level) => {
                let text = "the level of -z is 1 to 22\n";
                Err(Error::raw(clap::error::ErrorKind::InvalidValue, text))
            }
            level => Ok(Compression { level }),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Compression {
    fn augment_args(command: Command) -> Command {
        let compress = Arg::new("compress")
            .short('z')
            .long("compression-level")
            .value_name("LEVEL")
            .value_parser(clap::value_parser!(i32))
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("1")
            .help("Compress what is recorded, with this level of zstd (1 to 22): -z or -z3");
        DIGITS.iter().fold(command.arg(compress), |command, &(id, digit)| {
            let flag = Arg::new(id).short(digit).action(ArgAction::Count).hide(true).requires("compress");
            command.arg(flag)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::args;
    use super::*;

    fn listed(events: &str, filter: Option<&str>) -> Listed {
        Listed { events: events.into(), filter: filter.map(Into::into), cgroups: Vec::new() }
    }

    #[test]
    fn a_filter_belongs_to_the_events_before_it() {
        let lists = |line: &str| args(line).unwrap().selection.lists;
        assert_eq!(lists("-e a --filter x -e b"), [listed("a", Some("x")), listed("b", None)]);
        assert_eq!(lists("-e a -e b --filter x"), [listed("a", None), listed("b", Some("x"))]);
        assert_eq!(lists("-e a --filter x --filter y true"), [listed("a", Some("(x) && (y)"))]);
        assert!(args("--filter x true").is_err());
    }

    #[test]
    fn the_level_needs_no_space() {
        let level = |line: &str| args(line).unwrap().compression.level;
        let lines = ["true", "-z true", "-z3 true", "-z12 true", "-z=7 true", "--compression-level=22 true"];
        assert_eq!(lines.map(level), [None, Some(1), Some(3), Some(12), Some(7), Some(22)]);
        assert_eq!(level("sort -z3"), None);
        assert_eq!((level("-z22 true"), level("-z11 true")), (Some(22), Some(11)));
        assert!(
            args("-z99 true").is_err()
                && args("-z0 true").is_err()
                && args("-z23 true").is_err()
                && args("-3 true").is_err()
        );
    }
}
