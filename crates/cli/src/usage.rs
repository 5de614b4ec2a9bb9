//! Command lines that make no sense, answered: the cause first, then what would help, in at most three lines. clap finds
//! the faults, and its words stay within: numbers, options and commands are told as the rest of this program tells them.
//! [`others`] answers to commands that perfuse does not have.

mod behind;
mod others;

use crate::term::out::say;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, Command};
use std::ffi::OsString;

/// Options that people try, with what there is instead.
const OPTIONS: &str = include_str!("usage/options.txt");

/// Says that options behind the command to run are the command's, where they were meant for perfuse: of the subcommand of this name,
/// once that has ended in this way.
pub(crate) fn tell_behind(name: &str, command: &[OsString], mut program: Command, has_failed: bool) {
    // Most commands have no options of perfuse's kind, and no time is lost over them.
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    if command.iter().skip(1).any(is_option) {
        program.build();
        let own = program.find_subcommand(name);
        own.and_then(|own| behind::remark(own, command, has_failed)).into_iter().for_each(say);
    }
}

/// The answer to these words of a command line of the program, its name first, that clap refuses.
pub(crate) fn refusal(error: &Error, mut program: Command, words: &[OsString]) -> String {
    let words: Vec<&str> = words.iter().skip(1).map(|word| word.to_str().unwrap_or_default()).collect();
    program.build();
    let named = words.iter().find_map(|word| program.find_subcommand(word));
    Refused { error, words: &words, command: named.unwrap_or(&program), program: &program }.text()
}

/// The same for a command line within a command, which has options of its own.
pub(crate) fn refusal_of(error: &Error, command: Command, words: &[OsString]) -> String {
    let words: Vec<&str> = words.iter().skip(1).map(|word| word.to_str().unwrap_or_default()).collect();
    Refused { error, words: &words, command: &command, program: &command }.text()
}

/// There is no command of this name: what there is in its place.
fn no_command(name: &str, program: &Command) -> String {
    if let Some(answer) = others::answer(name) {
        return answer;
    }
    let own: Vec<&str> = shown_commands(program).map(Command::get_name).collect();
    let near = perfuse_events::nearest(name, own.iter().copied());
    let begins =
        own.iter().filter(|own| name.len() >= 2 && own.starts_with(name)).map(|own| (*own).to_owned());
    let near = if near.is_empty() { begins.collect() } else { near };
    // A file is no command, but there is one that shows it.
    if std::path::Path::new(name).is_file() {
        return format!(
            "there is no command '{name}', but there is a file of that name\n  try: perfuse report -i {name}, or perfuse stat -- ./{name}"
        );
    }
    let rest = match near.is_empty().then(|| perfuse_events::nearest(name, others::names())) {
        Some(other) if !other.is_empty() => {
            return no_command(&other[0], program).replacen(":", &format!(" (for '{name}'):"), 1);
        }
        Some(_) => "perfuse -h lists the commands".to_owned(),
        None => format!("did you mean {}?", near.join(" or ")),
    };
    format!("there is no command '{name}'; {rest}")
}

/// A command line that is refused.
struct Refused<'r> {
    error: &'r Error,
    words: &'r [&'r str],
    /// The command that it is of, or the program.
    command: &'r Command,
    program: &'r Command,
}

impl Refused<'_> {
    fn text(&self) -> String {
        let argument = self.name(&self.context(ContextKind::InvalidArg));
        let value = self.context(ContextKind::InvalidValue);
        match self.error.kind() {
            ErrorKind::InvalidSubcommand => {
                no_command(&self.context(ContextKind::InvalidSubcommand), self.program)
            }
            ErrorKind::UnknownArgument => self.unknown(&self.context(ContextKind::InvalidArg)),
            ErrorKind::InvalidValue if value.is_empty() && !argument.is_empty() => {
                let next = self.words.iter().skip_while(|word| **word != argument).nth(1);
                let follows =
                    next.map_or("nothing follows it".to_owned(), |next| format!("'{next}' follows it"));
                let valid = self.list(ContextKind::ValidValue);
                let wanted = if valid.is_empty() { self.wanted(&argument) } else { one_of(&valid) };
                format!("{argument} wants {wanted}, and {follows}{}", self.usage())
            }
            ErrorKind::InvalidValue if !argument.is_empty() => {
                let valid = self.list(ContextKind::ValidValue);
                let near = perfuse_events::nearest(&value, valid.iter().map(String::as_str));
                let near = near.first().map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                let argument = if argument.starts_with('-') { &argument } else { self.short_name() };
                format!("{argument} wants {}, not '{value}'{near}", one_of(&valid))
            }
            ErrorKind::ValueValidation => self.wrong_value(&argument, &value),
            ErrorKind::ArgumentConflict => self.conflict(&argument),
            ErrorKind::MissingRequiredArgument => {
                let missing = self.list(ContextKind::InvalidArg);
                let missing: Vec<String> = missing.iter().map(|name| self.name(name)).collect();
                let is_always = |name: &String| self.arg(name).is_some_and(Arg::is_required_set);
                let is_for_another = !missing.iter().any(is_always);
                let missing = missing.join(" and ");
                match missing.starts_with('-') && is_for_another {
                    true => format!(
                        "{}: an option here needs {missing} beside it{}",
                        self.short_name(),
                        self.usage()
                    ),
                    false => format!("{} wants {missing}{}", self.short_name(), self.usage()),
                }
            }
            ErrorKind::TooManyValues if !argument.starts_with('-') => {
                format!("{} has no use for '{value}'{}", self.short_name(), self.usage())
            }
            ErrorKind::TooManyValues
                if self.arg(&argument).is_some_and(|arg| !arg.get_action().takes_values()) =>
            {
                format!("{argument} takes no value, and '{value}' is one")
            }
            ErrorKind::WrongNumberOfValues | ErrorKind::TooFewValues | ErrorKind::TooManyValues => {
                format!("{argument} wants {}{}", self.wanted(&argument), self.usage())
            }
            ErrorKind::NoEquals => format!("{argument} has its value behind a '=', as in {argument}=VALUE"),
            ErrorKind::InvalidUtf8 => "an option or its value is not text in UTF-8".to_owned(),
            // Said by this program: options of perf that it refuses. clap adds its usage.
            _ => {
                let text = self.error.to_string();
                text.trim_start_matches("error: ")
                    .split("\n\n")
                    .next()
                    .unwrap_or_default()
                    .trim_end()
                    .to_owned()
            }
        }
    }

    /// The words of clap about one thing.
    fn context(&self, kind: ContextKind) -> String {
        self.list(kind).into_iter().next().unwrap_or_default()
    }

    fn list(&self, kind: ContextKind) -> Vec<String> {
        match self.error.get(kind) {
            Some(ContextValue::String(text)) => vec![text.clone()],
            Some(ContextValue::Strings(texts)) => texts.clone(),
            _ => Vec::new(),
        }
    }

    fn command_name(&self) -> &str {
        self.command.get_bin_name().unwrap_or(self.command.get_name())
    }

    /// Its name in a sentence that perfuse says.
    fn short_name(&self) -> &str {
        let name = self.command_name();
        name.strip_prefix("perfuse ").unwrap_or(name)
    }

    /// The line of usage, and where there is more.
    fn usage(&self) -> String {
        let usage: StyledStr = self.command.clone().render_usage();
        let usage = usage.to_string();
        let first = usage.lines().next().unwrap_or_default().trim_start_matches("Usage: ");
        format!("\n  usage: {first}; {} -h tells more", self.command_name())
    }

    /// The option that clap tells as "--repeat <N>", as the user has written it.
    fn name(&self, told: &str) -> String {
        let long = told.split([' ', '=', '[']).next().unwrap_or_default();
        if !long.starts_with("--") {
            return told.trim_matches(['<', '>', '[', ']']).replace(">...", "").to_owned();
        }
        let letter = self.arg(long).and_then(Arg::get_short);
        let has_letter = |letter: &char| {
            self.words
                .iter()
                .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(*letter))
        };
        letter.filter(has_letter).map_or(long.to_owned(), |letter| format!("-{letter}"))
    }

    /// The option that a user calls so.
    fn arg(&self, name: &str) -> Option<&Arg> {
        self.command.get_arguments().find(|arg| match name.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short().is_some_and(|letter| name == format!("-{letter}")),
        })
    }

    /// The kind of value of an option, in words.
    fn wanted(&self, name: &str) -> String {
        let names = self.arg(name).and_then(Arg::get_value_names).unwrap_or_default();
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        let one = match names[..] {
            ["N" | "NUMBER" | "COUNT" | "ROWS"] => "a number",
            ["TEXT"] => "a text",
            ["KEY,..."] => "keys, such as comm,dso",
            ["FIELD,..."] => "fields, such as comm,sym",
            ["SECONDS"] => "seconds",
            ["MS"] => "milliseconds",
            ["PID" | "PID,..."] => "numbers of processes, such as 1234,5678",
            ["TID" | "TID,..."] => "numbers of threads, such as 1234,5678",
            ["HZ"] => "samples a second",
            ["PERIOD"] => "a number of events",
            ["PRIORITY"] => "a priority",
            ["FD"] => "the number of a descriptor",
            ["LEVEL"] => "a level",
            ["FILES"] => "a number of files",
            ["BYTES"] => "a number of bytes",
            ["PERCENT"] => "a percentage",
            ["FILE"] => "the name of a file",
            ["DIR"] => "a folder",
            ["LIST"] => "events, such as cycles,page-faults",
            ["COMMAND"] => "a command",
            ["COMMAND LINE"] => "a command line, such as 'record -a'",
            [] => "a value",
            _ => return names.join(" "),
        };
        one.to_owned()
    }

    /// A value that cannot be one of this option.
    fn wrong_value(&self, name: &str, value: &str) -> String {
        use std::num::{IntErrorKind, ParseFloatError, ParseIntError};
        let source = std::error::Error::source(self.error);
        let wanted = self.wanted(name);
        let number = source.and_then(|source| source.downcast_ref::<ParseIntError>());
        let text = source.map(ToString::to_string).unwrap_or_default();
        let range = text.strip_prefix(value).and_then(|rest| rest.strip_prefix(" is not in "));
        match (number.map(ParseIntError::kind), range) {
            (Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow), _) => {
                format!("{name} wants {wanted}, and '{value}' is beyond all limits")
            }
            (Some(_), _) => format!("{name} wants {wanted}, not '{value}'"),
            (None, Some(range)) => format!("{name} wants {wanted}, {}, not '{value}'", bounds(range, value)),
            _ if source.is_some_and(|source| source.is::<ParseFloatError>()) => {
                format!("{name} wants {wanted}, not '{value}'")
            }
            _ if text.contains(value) => format!("{name}: {text}"),
            _ => format!("{name} '{value}': {text}"),
        }
    }

    /// Two options of which one is enough.
    fn conflict(&self, first: &str) -> String {
        let others: Vec<String> =
            self.list(ContextKind::PriorArg).iter().map(|name| self.name(name)).collect();
        match others.is_empty() || others.iter().any(|other| other == first) {
            true => format!("{first} is there twice; once is enough"),
            false => format!("{first} and {} cannot stand together: leave one out", others.join(", ")),
        }
    }

    /// An option, or a word, that the command has not.
    fn unknown(&self, told: &str) -> String {
        let (command, name) = (self.short_name(), told.split(['=', ' ']).next().unwrap_or_default());
        if !name.starts_with('-') {
            // A recording is the word that people mean by that.
            let is_named = std::path::Path::new(told).is_file() && self.arg("--input").is_some();
            let hint =
                if is_named { format!("; a recording is named by -i: -i {told}") } else { String::new() };
            return format!("{command} has no use for '{told}'{hint}{}", self.usage());
        }
        if name.parse::<f64>().is_ok() {
            let before =
                self.words.iter().take_while(|word| **word != told).last().copied().unwrap_or(command);
            return format!("{before} wants {}, not '{told}'", self.wanted(before));
        }
        let own = self.command.get_name();
        let known = OPTIONS.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let (whose, sentence) = line.split_once(" | ")?;
            let (commands, option) = whose.split_once(' ')?;
            (option == name && (commands == own || commands == "*")).then_some(sentence)
        });
        let near = self.near(name);
        let rest = match (known, self.elsewhere(name)) {
            (Some(sentence), _) => format!(": {sentence}"),
            _ if near.iter().any(|near| near == name) => {
                format!(" before its name: perfuse {own} {name} ...")
            }
            _ if !near.is_empty() => format!("; did you mean {}?", near.join(" or ")),
            (_, elsewhere) if !elsewhere.is_empty() && elsewhere.len() <= 5 => {
                let have = if elsewhere.len() == 1 { "has" } else { "have" };
                format!("; {} {have} it", elsewhere.join(", "))
            }
            _ => String::new(),
        };
        format!("{command} has no option {name}{rest}{}", self.usage())
    }

    /// Options of the command with names like this one, or that begin so; of the program, commands too.
    fn near(&self, name: &str) -> Vec<String> {
        let Some(text) = name.strip_prefix("--") else { return Vec::new() };
        if self.program.find_subcommand(text).is_some() {
            return vec![format!("perfuse {text}")];
        }
        let known = longs(self.command);
        let same = |long: &&str| long.len() >= 4 && (text.starts_with(*long) || long.starts_with(text));
        let near = perfuse_events::nearest(text, known.iter().copied());
        let near =
            if near.is_empty() { known.into_iter().filter(same).map(str::to_owned).collect() } else { near };
        near.iter().map(|long| format!("--{long}")).collect()
    }

    /// Commands that have such an option.
    fn elsewhere(&self, name: &str) -> Vec<&str> {
        let has = |command: &&Command| match name.strip_prefix("--") {
            Some(text) => longs(command).contains(&text),
            None => {
                shown(command).any(|arg| arg.get_short().is_some_and(|letter| name == format!("-{letter}")))
            }
        };
        shown_commands(self.program).filter(has).map(Command::get_name).collect()
    }
}

fn shown_commands(program: &Command) -> impl Iterator<Item = &Command> {
    program.get_subcommands().filter(|command| !command.is_hide_set())
}

/// The options that help shows.
fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help")
}

fn longs(command: &Command) -> Vec<&str> {
    shown(command).filter_map(Arg::get_long).collect()
}

/// Limits as clap tells them, in words: "1..=99", "2..18446744073709551615".
fn bounds(range: &str, value: &str) -> String {
    let (least, most) = range.split_once("..").unwrap_or((range, ""));
    // Without a "=" the end is the first that is too large.
    let most = match (most.strip_prefix('='), most.parse::<u64>()) {
        (Some(most), _) => most.to_owned(),
        (None, Ok(end)) => end.saturating_sub(1).to_string(),
        (None, Err(_)) => most.to_owned(),
    };
    let is_large = |text: &str| text.parse::<u64>().is_ok_and(|number| number >= u64::from(u16::MAX));
    // Nobody meets the limit of a type by mistake, but with a number beyond it.
    match most.is_empty() || is_large(&most) && !is_large(value) {
        true => format!("{least} or more"),
        false => format!("{least} to {most}"),
    }
}

/// One of several, in words.
fn one_of(words: &[String]) -> String {
    match words {
        [] => "another value".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use crate::habits;
    use clap::CommandFactory;
    use perfuse_events::{EventList, NoCatalogue};

    #[test]
    fn the_command_lines_that_perfs_users_type_work_or_name_the_way() {
        let mut told = Vec::new();
        let lines = include_str!("../tests/one-liners.txt").lines();
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (verdict, line) = line.split_once(" | ").expect(line);
            let words: Vec<OsString> =
                shell_words::split(line).expect(line).into_iter().map(OsString::from).collect();
            match (verdict.split_once(": "), habits::parse_from::<Cli>(&words)) {
                (None, Ok(_)) if verdict == "works" => {}
                (Some(("differs", reason)), Ok(_)) if !reason.is_empty() => {}
                (None, Err(error)) if verdict == "works" && !error.use_stderr() => {}
                (Some(("points", text)), Err(error))
                    if refusal(&error, Cli::command(), &words).contains(text) => {}
                (_, Ok(_)) => told.push(format!("{verdict}, and parsed: {line}")),
                (_, Err(error)) => {
                    told.push(format!("{verdict}: {line}: {}", refusal(&error, Cli::command(), &words)))
                }
            }
        }
        assert!(told.is_empty(), "{}", told.join("\n"));
    }

    #[test]
    fn the_events_that_perfs_users_type_are_understood() {
        let lines = include_str!("../tests/one-liners.txt").lines();
        let (mut lists, mut told) = (0, Vec::new());
        for line in lines.filter(|line| line.starts_with("works") || line.starts_with("differs")) {
            let words = shell_words::split(line.split_once(" | ").expect(line).1).expect(line);
            let measures =
                words.get(1).is_some_and(|word| ["stat", "record", "top"].contains(&word.as_str()));
            let options = words.iter().take_while(|word| *word != "--").collect::<Vec<_>>();
            for pair in
                options.windows(2).filter(|pair| measures && ["-e", "--event"].contains(&pair[0].as_str()))
            {
                lists += 1;
                // Names of tracepoints and PMUs are the machine's.
                let is_known =
                    pair[1].parse::<EventList>().and_then(|list| match pair[1].contains([':', '/']) {
                        true => Ok(Vec::new()),
                        false => list.resolve(&NoCatalogue),
                    });
                told.extend(is_known.err().map(|error| format!("{line}: {error}")));
            }
        }
        assert!(lists > 30 && told.is_empty(), "{lists} lists\n{}", told.join("\n"));
    }
}
