//! From the command line to commands that can be run: words, names, and lists of parameters.

use super::args::Args;
use crate::exit::Failure;
use perfuse_stat::compare::{Candidate, Contender};

/// How often parameters may multiply the commands.
const MOST: usize = 100;

/// The commands as one text each, also where they are words with `--` between them: `-- ./a x -- ./b y`.
fn texts(args: &Args) -> Vec<String> {
    if !args.commands.iter().any(|word| word == "--") {
        return args.commands.clone();
    }
    args.commands.split(|word| word == "--").map(shell_words::join).collect()
}

/// All of them, in order.
pub(super) fn entries(args: &Args) -> Result<Vec<Contender>, Failure> {
    let commands = texts(args);
    if args.names.len() > commands.len() {
        return Err(Failure::usage(format_args!(
            "-n names {} commands, but there are {}",
            args.names.len(),
            commands.len()
        )));
    }
    if args.prepare.len() > 1 && args.prepare.len() != commands.len() {
        return Err(Failure::usage("-p is given once for all commands, or once for each"));
    }
    let variants = variants(args, &commands)?;
    let mut entries = Vec::new();
    for (at, command) in commands.iter().enumerate() {
        let name = args.names.get(at);
        let prepare = args.prepare.get(at).or(args.prepare.first());
        for parameters in &variants {
            let put = |text: &str| {
                parameters
                    .iter()
                    .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
            };
            let text = put(command);
            let shown: Vec<_> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let name = match (name, shown.is_empty()) {
                (None, _) => text.clone(),
                (Some(name), true) => name.clone(),
                (Some(name), false) if put(name) != *name => put(name),
                (Some(name), false) => format!("{name} {}", shown.join(" ")),
            };
            entries.push(Contender {
                words: words(&text, args.shell.as_deref())?,
                prepare: prepare.map(|prepare| words(&put(prepare), args.shell.as_deref())).transpose()?,
                candidate: Candidate { name, command: text, parameters: parameters.clone() },
            });
        }
    }
    Ok(entries)
}

/// A command as its words, or given to a shell.
pub(super) fn words(command: &str, shell: Option<&str>) -> Result<Vec<String>, Failure> {
    let split = |text: &str| {
        let words = shell_words::split(text)
            .map_err(|error| Failure::usage(format_args!("cannot split '{text}' into words: {error}")))?;
        match words.is_empty() {
            true => Err(Failure::usage("a command is empty")),
            false => Ok(words),
        }
    };
    match shell {
        None => split(command),
        Some(shell) => {
            let mut words = split(shell)?;
            words.extend(["-c".to_owned(), command.to_owned()]);
            Ok(words)
        }
    }
}

/// All combinations of the values of -L and -P; one without any if there are none.
fn variants(args: &Args, commands: &[String]) -> Result<Vec<Vec<(String, String)>>, Failure> {
    let mut parameters: Vec<(&str, Vec<String>)> = Vec::new();
    for list in args.lists.chunks(2) {
        if let [name, values] = list {
            parameters.push((name, values.split(',').map(str::to_owned).collect()));
        }
    }
    for scan in args.scans.chunks(3) {
        if let [name, from, to] = scan {
            parameters.push((name, numbers(from, to, args.parameter_step_size.as_deref())?));
        }
    }
    let mut variants = vec![Vec::new()];
    for (name, values) in parameters {
        if !commands.iter().any(|command| command.contains(&format!("{{{name}}}"))) {
            return Err(Failure::usage(format_args!("no command has {{{name}}}")));
        }
        let with = |before: &Vec<(String, String)>, value: &String| {
            before.iter().cloned().chain([(name.to_owned(), value.clone())]).collect()
        };
        variants =
            variants.iter().flat_map(|before| values.iter().map(move |value| with(before, value))).collect();
        if variants.len() * commands.len() > MOST {
            return Err(Failure::usage(format_args!("these parameters make more than {MOST} commands")));
        }
    }
    Ok(variants)
}

/// From one number to another. Those written without decimals stay so.
fn numbers(from: &str, to: &str, step: Option<&str>) -> Result<Vec<String>, Failure> {
    let read = |text: &str| {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| Failure::usage(format_args!("'{text}' is no number")))
    };
    let (first, last, by) = (read(from)?, read(to)?, read(step.unwrap_or("1"))?);
    if by <= 0.0 || last < first {
        return Err(Failure::usage(format_args!("there are no steps of {by} from {first} to {last}")));
    }
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let decimals = decimals(from).max(decimals(step.unwrap_or("1")));
    // Half a step of room for rounding.
    let count = ((last - first) / by + 1e-9).floor() as usize + 1;
    Ok((0..count.min(MOST + 1)).map(|at| format!("{:.decimals$}", first + by * at as f64)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Subcommand};
    use clap::Parser;

    fn entries_of(arguments: &[&str]) -> Result<Vec<Contender>, String> {
        let cli = Cli::try_parse_from(["perfuse", "compare"].iter().chain(arguments));
        match cli.map_err(|error| error.to_string())?.subcommand {
            Subcommand::Compare(args) => entries(&args).map_err(|failure| failure.to_string()),
            other => panic!("{other:?}"),
        }
    }

    fn names(arguments: &[&str]) -> Vec<String> {
        entries_of(arguments).expect("commands").into_iter().map(|entry| entry.candidate.name).collect()
    }

    #[test]
    fn commands_are_split_as_a_shell_does_but_not_expanded() {
        let entries = entries_of(&["ls -l 'a b' $HOME", "-n", "quick", "true"]).expect("commands");
        assert_eq!(entries[0].words, ["ls", "-l", "a b", "$HOME"]);
        assert_eq!(
            (entries[0].candidate.name.as_str(), entries[1].candidate.name.as_str()),
            ("quick", "true")
        );
        let entries = entries_of(&["-n", "one", "--", "ls", "a b", "--", "true"]).expect("commands");
        assert_eq!((&entries[0].words[..], entries.len()), (&["ls".to_owned(), "a b".to_owned()][..], 2));
        let entries = entries_of(&["-S", "ls | wc"]).expect("a command");
        assert_eq!(entries[0].words, ["sh", "-c", "ls | wc"]);
        let entries = entries_of(&["-S=bash -e", "ls | wc"]).expect("a command");
        assert_eq!(entries[0].words, ["bash", "-e", "-c", "ls | wc"]);
    }

    #[test]
    fn parameters_make_a_command_of_each_value() {
        assert_eq!(names(&["-L", "n", "1,2", "f {n}"]), ["f 1", "f 2"]);
        assert_eq!(names(&["-P", "n", "1", "2", "-D", "0.5", "f {n}"]), ["f 1.0", "f 1.5", "f 2.0"]);
        assert_eq!(names(&["-L", "n", "1,2", "-L", "m", "a,b", "{n}{m}"]), ["1a", "1b", "2a", "2b"]);
        assert_eq!(names(&["-L", "n", "1,2", "-n", "prog", "f {n}"]), ["prog n=1", "prog n=2"]);
        let entries = entries_of(&["-L", "n", "1,2", "-p", "mk {n}", "f {n}"]).expect("commands");
        assert_eq!(entries[1].prepare.as_deref(), Some(&["mk".to_owned(), "2".to_owned()][..]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (arguments, part) in [
            (&["'a"][..], "cannot split"),
            (&["  "], "empty"),
            (&["-n", "a", "-n", "b", "x"], "-n names 2"),
            (&["-L", "n", "1,2", "f"], "no command has {n}"),
            (&["-P", "n", "1", "1000", "f {n}"], "more than 100"),
            (&["-P", "n", "5", "1", "f {n}"], "no steps"),
            (&["-p", "a", "-p", "b", "x"], "once for each"),
            (&["--", "a", "--", "--", "b"], "empty"),
        ] {
            let error = entries_of(arguments).expect_err("refused");
            assert!(error.contains(part), "{arguments:?}: {error}");
        }
    }
}
