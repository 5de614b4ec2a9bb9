//! Completions of an unfinished command line: the scripts of bash, zsh and fish hand over its words, and offer what stands here.
//! Options come from their definitions; values from the libraries that take them, and from the machine.

use crate::list;
use crate::top::KEYS;
use clap::{Arg, ArgAction, Command};
use perfuse_data::describe::Field;
use perfuse_proc::read;
use perfuse_profile::{Column, Key};
use perfuse_record::CallChains;
use std::fmt::Write;

/// Words of `report -g`.
const TREES: [(&str, &str); 12] = [
    ("caller", "from the beginning of the program"),
    ("callee", "from the function itself"),
    ("graph", "percentages of everything"),
    ("fractal", "percentages of the branch above"),
    ("flat", "each callchain by itself"),
    ("folded", "a line for each callchain"),
    ("none", "no callchains"),
    ("function", "frames by function"),
    ("address", "frames by address"),
    ("percent", "percentages at branches"),
    ("period", "sums of periods at branches"),
    ("count", "numbers of samples at branches"),
];

const CLOCKS: [&str; 6] = ["monotonic", "monotonic_raw", "realtime", "boottime", "tai", "perf"];

/// A word and what there is to say about it.
type Offer = (String, String);

/// Words that the last one of a command line may become.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// One of these.
    Words(Vec<Offer>),
    /// One of these, after which a list may go on.
    List(Vec<Offer>),
    Files,
    Folders,
    Users,
    /// From this word on it is the command line of another program.
    Command(usize),
}

impl Answer {
    /// The kind on a line, and then an offer on each.
    pub(crate) fn to_text(&self) -> String {
        let (kind, offers) = match self {
            Answer::Words(offers) => ("words".into(), &offers[..]),
            Answer::List(offers) => ("list".into(), &offers[..]),
            Answer::Files => ("files".into(), &[][..]),
            Answer::Folders => ("folders".into(), &[][..]),
            Answer::Users => ("users".into(), &[][..]),
            Answer::Command(begin) => (format!("command {begin}"), &[][..]),
        };
        let mut text: String = kind + "\n";
        for (word, about) in offers.iter().filter(|(word, _)| !word.chars().any(char::is_control)) {
            let about = about.replace(char::is_control, " ");
            let _ =
                if about.is_empty() { writeln!(text, "{word}") } else { writeln!(text, "{word}\t{about}") };
        }
        text
    }
}

/// Completes the last of these words, which stand behind the program's name.
pub(crate) fn answer(program: &Command, words: &[String]) -> Answer {
    let Some((last, before)) = words.split_last() else { return Answer::Words(commands(program, "")) };
    let Some(at) = before.iter().position(|word| !word.starts_with('-') && word != "help") else {
        return Answer::Words(if last.starts_with('-') {
            options(program, last)
        } else {
            commands(program, last)
        });
    };
    let Some(command) = program.find_subcommand(&before[at]).filter(|command| !command.is_hide_set()) else {
        return Answer::Words(Vec::new());
    };
    if before[..at].iter().any(|word| word == "help") {
        return Answer::Words(Vec::new());
    }
    // The numbers of words count the program's name.
    let begin = |index: usize| at + index + 2;
    let takes_command = |only_words| {
        of_words(command, only_words).is_some_and(|arg| arg.is_trailing_var_arg_set() || arg.is_last_set())
    };
    let (mut wanted, mut only_words) = (None::<(&Arg, usize)>, false);
    for (index, word) in before[at + 1..].iter().enumerate() {
        if let Some((arg, count)) = wanted.take().filter(|_| !word.starts_with('-')) {
            wanted = (count > 1).then_some((arg, count - 1));
        } else if only_words || !word.starts_with('-') || word == "-" {
            // `stat record` and `stat report` have options of stat.
            if takes_command(only_words)
                && !(index == 0 && command.get_name() == "stat" && ["record", "report"].contains(&&**word))
            {
                return Answer::Command(begin(index));
            }
        } else if word == "--" {
            only_words = true;
        } else {
            wanted = unfinished(command, word);
        }
    }
    let here = begin(before.len() - at - 1);
    if let Some((arg, _)) =
        wanted.filter(|(arg, _)| !last.starts_with('-') || arg.is_allow_hyphen_values_set())
    {
        return values(command, arg, "", last, here);
    }
    if !only_words && last.starts_with('-') {
        return match last.split_once('=').filter(|(name, _)| name.starts_with("--")) {
            Some((name, value)) => match long(command, &name[2..]) {
                Some(arg) => values(command, arg, &format!("{name}="), value, here),
                None => Answer::Words(Vec::new()),
            },
            None => Answer::Words(options(command, last)),
        };
    }
    let positional = of_words(command, only_words);
    match positional {
        Some(_) if command.get_name() == "man" => match commands(program, last) {
            pages if pages.is_empty() => Answer::Folders,
            pages => Answer::Words(pages),
        },
        Some(arg) => values(command, arg, "", last, here),
        None => Answer::Words(options(command, last)),
    }
}

/// Values of the words that stand without an option; some have others behind `--`.
fn of_words(command: &Command, only_words: bool) -> Option<&Arg> {
    let mut all = command.get_positionals();
    all.find(|arg| arg.is_last_set() == only_words)
        .or_else(|| command.get_positionals().find(|arg| !arg.is_last_set()))
}

/// The commands that begin like this.
fn commands(program: &Command, begun: &str) -> Vec<Offer> {
    let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
    let named = shown.map(|command| (command.get_name(), command.get_about().map(ToString::to_string)));
    let named = named.filter(|(name, _)| name.starts_with(begun));
    named.map(|(name, about)| (name.to_owned(), about.unwrap_or_default())).collect()
}

/// The options that begin like this.
fn options(command: &Command, begun: &str) -> Vec<Offer> {
    let shown = command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
    let named = shown.flat_map(|arg| {
        let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let longs = arg.get_long_and_visible_aliases().unwrap_or_default();
        let letter = arg.get_short().filter(|_| longs.is_empty()).map(|letter| format!("-{letter}"));
        let longs = longs.into_iter().map(|long| format!("--{long}"));
        longs.chain(letter).map(|name| (name, about.clone())).collect::<Vec<_>>()
    });
    named.filter(|(name, _)| name.starts_with(begun)).collect()
}

/// The option of this long name, which may be cut short.
fn long<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    let names = |arg: &&Arg, fits: &dyn Fn(&str) -> bool| {
        arg.get_long_and_visible_aliases().unwrap_or_default().into_iter().any(fits)
    };
    let mut all = command.get_arguments();
    let mut near = command.get_arguments().filter(|arg| names(arg, &|long| long.starts_with(name)));
    all.find(|arg| names(arg, &|long| long == name)).or_else(|| near.next().filter(|_| near.next().is_none()))
}

/// The option of this word that waits for values, and for how many.
fn unfinished<'c>(command: &'c Command, word: &str) -> Option<(&'c Arg, usize)> {
    let takes = |arg: &Arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let arg = match word.strip_prefix("--") {
        Some(name) if name.contains('=') => None,
        Some(name) => long(command, name),
        None => {
            let mut letters = word[1..].chars();
            let of = |letter| command.get_arguments().find(|arg| arg.get_short() == Some(letter));
            let taker = letters.by_ref().find_map(|letter| of(letter).filter(|arg| takes(arg)));
            taker.filter(|_| letters.as_str().is_empty())
        }
    };
    let arg = arg.filter(|arg| takes(arg) && !arg.is_require_equals_set())?;
    Some((arg, arg.get_num_args().map_or(1, |range| range.max_values()).max(1)))
}

/// Values of an option, or of what stands without one; `before` is what the word has before its value.
fn values(command: &Command, arg: &Arg, before: &str, value: &str, here: usize) -> Answer {
    let plain =
        |names: &[&str]| names.iter().map(|&name| (name.to_owned(), String::new())).collect::<Vec<_>>();
    let told = |names: &[(&str, &str)]| {
        names.iter().map(|&(name, about)| (name.to_owned(), about.to_owned())).collect::<Vec<_>>()
    };
    let words = |offers: Vec<Offer>| Answer::Words(beginning(offers, before, value));
    let list = |offers: Vec<Offer>| {
        let begun = value.rfind([',', '{', '+']).map_or(0, |at| at + 1);
        Answer::List(beginning(offers, &format!("{before}{}", &value[..begun]), &value[begun..]))
    };
    let asked = |metrics: bool| {
        let found = list::completions(value, metrics).into_iter();
        Answer::List(found.map(|name| (format!("{before}{name}"), String::new())).collect())
    };
    let possible = arg.get_possible_values();
    if !possible.is_empty() {
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        let about = |value: &clap::builder::PossibleValue| value.get_help().map(ToString::to_string);
        return words(
            shown.map(|value| (value.get_name().to_owned(), about(value).unwrap_or_default())).collect(),
        );
    }
    let name = arg.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
    match (command.get_name(), arg.get_long().unwrap_or_default(), name) {
        (_, "event", "LIST") => asked(false),
        (_, "metrics", _) => asked(true),
        ("list", _, "WORD") => match asked(false) {
            Answer::List(offers) => Answer::Words(offers),
            other => other,
        },
        ("report", "call-graph", _) => list(told(&TREES)),
        (_, "call-graph", _) => words(told(&CallChains::WORDS)),
        ("report", "fields", _) => {
            list(Column::names().map(|name| (name.to_owned(), String::new())).collect())
        }
        ("script", "fields", _) => list(plain(&Field::names().collect::<Vec<_>>())),
        ("top", "sort", _) => list(plain(&KEYS.map(Key::name))),
        (_, "sort", _) => {
            let title = |name| Key::named(name).map_or("", Key::title).trim();
            list(Key::names().map(|name| (name.to_owned(), title(name).to_owned())).collect())
        }
        (_, "branch-filter", _) => list(plain(&perfuse_record::branch_kind_names().collect::<Vec<_>>())),
        (_, "clockid", _) => words(plain(&CLOCKS)),
        (_, "synth", _) => list(plain(&["all", "no", "task", "mmap", "cgroup"])),
        (_, "control", _) => list(plain(&["fd:", "fifo:"])),
        (_, "color" | "stdio-color", _) => words(plain(&["auto", "always", "never"])),
        ("export", "format", _) => words(plain(&crate::export::formats())),
        ("stat" | "record" | "top", "pid" | "tid", _) => {
            list(processes(value.rsplit(',').next().unwrap_or_default()))
        }
        (_, _, "USER") => Answer::Users,
        (_, _, "FILE" | "COMMAND|DIR") => Answer::Files,
        (_, _, "DIR") => Answer::Folders,
        (_, _, "COMMAND" | "TOOL") if before.is_empty() => Answer::Command(here),
        ("config", "", path) => words(plain(&[path])),
        _ => words(Vec::new()),
    }
}

/// Those that begin like this, with what stands before them.
fn beginning(offers: Vec<Offer>, before: &str, begun: &str) -> Vec<Offer> {
    let fits = offers.into_iter().filter(|(word, _)| word.starts_with(begun));
    fits.map(|(word, about)| (format!("{before}{word}"), about)).collect()
}

/// The processes of this user, or for root of everybody: by number, or by name where a name has been begun.
fn processes(begun: &str) -> Vec<Offer> {
    let user = rustix::process::geteuid();
    let mut running = read::running((!user.is_root()).then(|| user.as_raw()));
    running.retain(|process| process.pid != std::process::id());
    let named =
        running.iter().map(|process| (process.pid, String::from_utf8_lossy(&process.name).into_owned()));
    if begun.is_empty() || begun.starts_with(|first: char| first.is_ascii_digit()) {
        return named.map(|(pid, name)| (pid.to_string(), name)).collect();
    }
    let mut names: Vec<Offer> = named.map(|(_, name)| (name, String::new())).collect();
    names.sort();
    names.dedup();
    names
}
