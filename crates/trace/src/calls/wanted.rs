//! Lists of `-e`, as strace and perf trace take them: they ask for system calls, for other events, and for how calls end.

use super::table::{CallSet, Calls, UnknownCall};
use perfuse_events::known_names;
use std::fmt;

/// The calls and events that somebody asks for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The calls.
    pub calls: CallSet,
    /// Calls are asked for: where other events are named, they are not by themselves.
    pub has_calls: bool,
    /// Other events by their names, each with its filter.
    pub events: Vec<(String, Option<String>)>,
    /// How calls end, as a condition: of `status=`.
    pub condition: Option<String>,
}

/// Why a list makes no sense, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WantedError {
    /// There is no such call, and no such event.
    Unknown(UnknownCall),
    /// A qualifier that is not taken, and why.
    Qualifier(&'static str, &'static str),
    /// `status=` does not know this.
    Status(String),
    /// A filter without an event before it.
    NoEvent,
}

impl fmt::Display for WantedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WantedError::Unknown(unknown) => unknown.fmt(f),
            WantedError::Qualifier(name, why) => write!(f, "'{name}=': {why}"),
            WantedError::Status(word) => {
                write!(f, "calls end successful, failed or unfinished, not '{word}'")
            }
            WantedError::NoEvent => {
                f.write_str("--filter is for the events of the -e before it, such as sched:sched_switch; --if chooses calls")
            }
        }
    }
}

impl std::error::Error for WantedError {}

/// strace's qualifiers that change what a program sees, or tell what perfuse does not copy.
const REFUSED: [(&str, &str); 5] = [
    ("inject", "perfuse trace changes nothing that a program sees; strace does"),
    ("fault", "perfuse trace changes nothing that a program sees; strace does"),
    ("read", "the data that calls read are not copied; strace tells them"),
    ("write", "the data that calls write are not copied; strace tells them"),
    ("kvm", "exits of virtual machines are the events kvm:*"),
];

/// Those that say how things are told which perfuse tells in one way.
const IDLE: [&str; 11] =
    ["abbrev", "a", "verbose", "v", "raw", "x", "quiet", "silent", "q", "signal", "decode-fds"];

/// Calls that returned, and those that never did.
const RETURNED: &str = "(ret >= 0 || ret < 0)";

impl Wanted {
    /// Of the lists of `-e`, each with the filter behind it.
    ///
    /// # Errors
    ///
    /// The first word that makes no sense.
    pub fn parse<'l>(
        lists: impl IntoIterator<Item = (&'l str, Option<&'l str>)>,
        table: &Calls,
    ) -> Result<Self, WantedError> {
        let mut wanted = Wanted { calls: CallSet::All, has_calls: true, events: Vec::new(), condition: None };
        let (mut any, mut has_events) = (false, false);
        for (list, filter) in lists {
            let list = match list.split_once('=') {
                Some(("trace" | "t", list)) => list,
                Some(("status", list)) => {
                    wanted.condition = Some(of_status(list)?);
                    continue;
                }
                Some((name, _)) if IDLE.contains(&name) => continue,
                Some((name, _)) => match REFUSED.iter().find(|(refused, _)| *refused == name) {
                    Some((name, why)) => return Err(WantedError::Qualifier(name, why)),
                    None => list,
                },
                None => list,
            };
            let (turned, words) = list.strip_prefix('!').map_or(("", list), |rest| ("!", rest));
            let (named, of_calls): (Vec<&str>, Vec<&str>) =
                split(words).filter(|word| !word.is_empty()).partition(|word| is_event(word, table));
            if filter.is_some() && named.is_empty() {
                return Err(WantedError::NoEvent);
            }
            has_events |= !named.is_empty();
            let filter = filter.map(str::to_owned);
            wanted.events.extend(named.into_iter().map(|name| (name.to_owned(), filter.clone())));
            if !of_calls.is_empty() {
                let set = CallSet::parse(&format!("{turned}{}", of_calls.join(",")), table);
                wanted.calls = wanted.calls.and(set.map_err(WantedError::Unknown)?);
                any = true;
            }
        }
        wanted.has_calls = any || !has_events;
        Ok(wanted)
    }
}

/// The words between commas; those within parentheses are a word's own.
fn split(words: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0usize;
    words.split(move |c| {
        depth = match c {
            '(' => depth + 1,
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        c == ',' && depth == 0
    })
}

/// Whether a word is an event: a tracepoint, a probe, or a name that no call has.
fn is_event(word: &str, table: &Calls) -> bool {
    let is_tracepoint = word.contains(':') && !word.starts_with('/');
    is_tracepoint || table.number(word).is_none() && known_names().contains(&word)
}

/// The condition for calls that end in one of these ways.
fn of_status(list: &str) -> Result<String, WantedError> {
    let (turned, list) = list.strip_prefix('!').map_or(("", list), |rest| ("!", rest));
    let ways = list.split(',').map(|word| match word {
        "successful" => Ok(format!("error == '' && {RETURNED}")),
        "failed" => Ok("error != ''".to_owned()),
        "unfinished" => Ok(format!("!{RETURNED}")),
        // Calls whose end nobody saw, or after which strace looks no more.
        "unavailable" | "detached" | "none" => Ok("nr < 0".to_owned()),
        "all" => Ok("nr >= 0".to_owned()),
        word => Err(WantedError::Status(word.to_owned())),
    });
    let ways = ways.collect::<Result<Vec<_>, _>>()?;
    Ok(format!("{turned}({})", ways.iter().map(|way| format!("({way})")).collect::<Vec<_>>().join(" || ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_abi::regs::Arch;

    fn wanted(lists: &[(&str, Option<&str>)]) -> Result<Wanted, String> {
        Wanted::parse(lists.iter().copied(), Calls::of(Arch::X86_64)).map_err(|error| error.to_string())
    }

    #[test]
    fn calls_and_events_are_told_apart() {
        let calls = |lists: &[(&str, Option<&str>)]| {
            wanted(lists).map(|wanted| (wanted.has_calls, wanted.events.len()))
        };
        assert_eq!(calls(&[]), Ok((true, 0)));
        assert_eq!(calls(&[("openat,close", None)]), Ok((true, 0)));
        assert_eq!(calls(&[("sched:sched_switch", None)]), Ok((false, 1)));
        assert_eq!(calls(&[("openat,minor-faults", None)]), Ok((true, 1)));
        assert_eq!(calls(&[("status=failed", None), ("sched:*", None)]), Ok((false, 1)));
        assert_eq!(calls(&[("raw=all", None), ("signal=none", None)]), Ok((true, 0)));
        let one =
            wanted(&[("sched:sched_switch", Some("prev_pid > 7")), ("sched:sched_wakeup", None)]).unwrap();
        assert_eq!(one.events[0], ("sched:sched_switch".into(), Some("prev_pid > 7".into())));
        assert_eq!(one.events[1].1, None);
        let probes = wanted(&[("openat,uprobe:./a:f(x=arg0,req->len),close", None)]).unwrap();
        assert_eq!(probes.events, [("uprobe:./a:f(x=arg0,req->len)".into(), None)]);
        assert!(probes.has_calls);
        assert!(wanted(&[("trace=%file", None)]).unwrap().calls.has(2));
    }

    #[test]
    fn what_is_not_taken_says_why() {
        for (list, filter, part) in [
            ("inject=read:error=EIO", None, "'inject=': perfuse trace changes nothing"),
            ("fault=read", None, "'fault='"),
            ("read=3", None, "are not copied"),
            ("status=odd", None, "not 'odd'"),
            ("openat", Some("pid > 1"), "--if chooses calls"),
            ("opennat", None, "did you mean openat"),
        ] {
            let said = wanted(&[(list, filter)]).unwrap_err();
            assert!(said.contains(part), "{list}: {said}");
        }
    }

    #[test]
    fn ways_to_end_are_conditions() {
        let condition = |list: &str| wanted(&[(list, None)]).unwrap().condition.unwrap();
        assert_eq!(condition("status=failed"), "((error != ''))");
        assert_eq!(condition("status=!failed"), "!((error != ''))");
        for list in ["status=successful,unfinished", "status=unavailable", "status=all"] {
            assert!(condition(list).parse::<crate::Expr>().is_ok(), "{list}");
        }
    }
}
