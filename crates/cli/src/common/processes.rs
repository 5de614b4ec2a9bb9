//! Processes of `-p`: by number, or all of a name.

use crate::exit::Failure;
use crate::term::foreign::foreign;
use perfuse::Perf;
use perfuse_proc::read::{self, Running};
use std::str::FromStr;

/// So many are named where none is meant.
const SHOWN: usize = 3;

/// The processes that one word of the command line means.
#[derive(Clone, Debug)]
pub(crate) struct Processes(Vec<u32>);

impl FromStr for Processes {
    type Err = String;

    /// A number is that process; a name is all processes that are called so, of this user or, for root, of everybody.
    fn from_str(word: &str) -> Result<Self, String> {
        if let Ok(pid) = word.parse() {
            return Ok(Processes(vec![pid]));
        }
        let user = rustix::process::geteuid();
        let of = (!user.is_root()).then(|| user.as_raw());
        let mut running = read::running(of);
        running.retain(|process| process.pid != std::process::id());
        let called = running.iter().filter(|process| process.is_called(word.as_bytes()));
        let pids: Vec<u32> = called.map(|process| process.pid).collect();
        if pids.is_empty() { Err(none(word, &running)) } else { Ok(Processes(pids)) }
    }
}

/// The numbers of all of them, each once.
pub(crate) fn all(words: &[Processes]) -> Vec<u32> {
    let mut all = Vec::new();
    for &pid in words.iter().flat_map(|Processes(pids)| pids) {
        if !all.contains(&pid) {
            all.push(pid);
        }
    }
    all
}

/// The sentence to say where several options, in this order, tell whom to measure: as in perf, processes, threads and users go before
/// cpus. Each is given by whether it is there.
pub(crate) fn overridden(options: &[(&str, bool)]) -> Option<String> {
    let mut given = options.iter().filter(|(_, is_there)| *is_there).map(|(option, _)| *option);
    let first = given.next().filter(|option| !["-C", "-a"].contains(option))?;
    match given.collect::<Vec<_>>()[..] {
        [] => None,
        [other] => Some(format!("{first} overrides {other}")),
        [ref others @ .., last] => Some(format!("{first} overrides {} and {last}", others.join(", "))),
    }
}

/// Refuses processes and threads that are not there.
pub(crate) fn are_there(kernel: &Perf, processes: &[Processes], threads: &[u32]) -> Result<(), Failure> {
    let all = all(processes).into_iter().map(|pid| ("process", pid));
    let mut all = all.chain(threads.iter().map(|&tid| ("thread", tid)));
    match all.find(|&(_, id)| kernel.surroundings().process_of(id).is_none()) {
        Some((kind, id)) => Err(Failure::new(format_args!("no such {kind}: {id}"))),
        None => Ok(()),
    }
}

/// There is none of this name: what is there that looks like it.
fn none(word: &str, running: &[Running]) -> String {
    let names: Vec<String> = running
        .iter()
        .flat_map(|process| [&process.name, &process.program])
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    let near =
        perfuse_events::nearest(word, names.iter().filter(|name| !name.is_empty()).map(String::as_str));
    let shown = near.iter().map(|name| {
        let pids = running.iter().filter(|process| process.is_called(name.as_bytes()));
        let pids: Vec<String> = pids.take(SHOWN).map(|process| process.pid.to_string()).collect();
        format!("{} ({})", foreign(name), pids.join(", "))
    });
    let shown: Vec<String> = shown.collect();
    let hint =
        if shown.is_empty() { String::new() } else { format!("; did you mean {}?", shown.join(" or ")) };
    format!("no process that you may measure is called '{}'{hint}", foreign(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_is_taken_once_in_the_order_of_the_words() {
        assert_eq!(all(&[Processes(vec![7]), Processes(vec![3, 7, 5]), Processes(vec![3])]), [7, 3, 5]);
    }

    #[test]
    fn a_wrong_name_is_told_with_what_looks_like_it() {
        let running =
            |pid, name: &str, program: &str| Running { pid, name: name.into(), program: program.into() };
        let all = [
            running(8, "firefox", "firefox-bin"),
            running(9, "Web Content", "firefox"),
            running(7, "sh", "dash"),
        ];
        let told = none("firefx", &all);
        assert_eq!(told, "no process that you may measure is called 'firefx'; did you mean firefox (8, 9)?");
        assert_eq!(none("zzz\u{1b}", &all), "no process that you may measure is called 'zzz\\u001b'");
    }
}
