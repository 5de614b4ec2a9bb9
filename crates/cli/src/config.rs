//! `perfuse config`, and the configuration files: which keys there are, which options they stand for, and which of them hold. An
//! option that is typed comes first, then the environment, then the project's file, the user's, and what an option is by itself.
//!
//! A key becomes the default value of its option, so that clap takes typed ones in place of it and conflicts with none.

use crate::exit::{Failure, Result};
use crate::term::foreign::{foreign, left, width};
use crate::term::out;
use clap::builder::ArgPredicate;
use clap::{Arg, ArgAction, Command};
use perfuse_config::{Error, Key, Kind, Places, Setting, Settings, State, read};
use serde_json::json;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

/// Options of `perfuse config`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A file has tables named after subcommands, and [looks]:\n\n  [looks]\n  color = \"never\"\n\n  [record]\n  frequency = 999\n  call-graph = \"dwarf\"\n\nTyped options come first, then the environment, then .perfuse.toml of the project, then the user's file.\nPERFUSE_CONFIG names another file in place of the user's; empty or /dev/null, it means none at all."
)]
pub(crate) struct Args {
    /// Only the names of the files: path
    #[arg(value_name = "path")]
    wanted: Option<Wanted>,
    /// One JSON object (schema perfuse.config/1)
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Wanted {
    /// The names of the files
    Path,
}

/// A key, and the option of a subcommand that it stands for.
struct Default {
    key: Key,
    /// The option's name in clap; none where a module asks for the value by itself.
    option: &'static str,
    /// The option that is set where the value is `false`.
    opposite: &'static str,
    /// Options that, when they are typed, take the place of this one.
    unless: &'static [&'static str],
    /// Variables of the environment that come before the files.
    variables: &'static [&'static str],
    /// A variable that comes behind the files.
    fallback: &'static str,
    /// The value where nobody says one.
    usual: &'static str,
}

const fn of(table: &'static str, name: &'static str, kind: Kind, usual: &'static str) -> Default {
    Default {
        key: Key::new(table, name, kind),
        option: "",
        opposite: "",
        unless: &[],
        variables: &[],
        fallback: "",
        usual,
    }
}

impl Default {
    const fn option(self, option: &'static str) -> Self {
        Default { option, ..self }
    }

    const fn opposite(self, opposite: &'static str) -> Self {
        Default { opposite, ..self }
    }

    const fn unless(self, unless: &'static [&'static str]) -> Self {
        Default { unless, ..self }
    }

    const fn variables(self, variables: &'static [&'static str]) -> Self {
        Default { variables, ..self }
    }

    const fn fallback(self, fallback: &'static str) -> Self {
        Default { fallback, ..self }
    }

    const fn of_the_user(self) -> Self {
        Default { key: self.key.of_the_user(), ..self }
    }

    /// The variable that is set, with its value.
    fn in_environment(&self) -> Option<(&'static str, OsString)> {
        self.variables.iter().find_map(|&name| {
            std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| (name, value))
        })
    }
}

const WHEN: Kind = Kind::Choice(&["auto", "always", "never"]);
const RUNS: Kind = Kind::Number { least: 2, most: u32::MAX as u64 };
const DEPTH: Kind = Kind::Number { least: 0, most: u16::MAX as u64 };

/// All keys. None of them runs a program, names a file to write or sends anything, but for those of the user's own file.
const DEFAULTS: &[Default] = &[
    of("looks", "color", WHEN, "auto").variables(&["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR"]),
    of("looks", "style", Kind::Choice(&["perfuse", "perf"]), "perfuse").variables(&["PERFUSE_STYLE"]),
    of("looks", "columns", Kind::Number { least: 20, most: 4096 }, "the terminal's").variables(&["COLUMNS"]),
    of("looks", "pager", Kind::Text, "less").variables(&["PERFUSE_PAGER"]).fallback("PAGER").of_the_user(),
    of("stat", "events", Kind::List, "perf's").option("events"),
    of("stat", "detailed", Kind::Number { least: 0, most: 3 }, "0").option("detailed"),
    of("record", "events", Kind::List, "cycles, or cpu-clock").option("event"),
    of("record", "frequency", Kind::Number { least: 1, most: 1_000_000 }, "997")
        .option("frequency")
        .unless(&["count"]),
    of("record", "call-graph", Kind::Text, "none").option("call_graph"),
    of("record", "mmap-pages", Kind::Text, "as many as allowed").option("mmap_pages"),
    of("record", "compression-level", Kind::Number { least: 1, most: 22 }, "none").option("compress"),
    of("report", "sort", Kind::List, "comm,dso,symbol").option("sort").unless(&["fields"]),
    of("report", "percent-limit", Kind::Real, "0").option("percent_limit"),
    of("report", "percentage", Kind::Choice(&["absolute", "relative"]), "absolute").option("percentage"),
    of("report", "children", Kind::Flag, "where there are callchains")
        .option("children")
        .opposite("no_children"),
    of("report", "call-graph", Kind::Text, "graph,0.5,caller").option("call_graph"),
    of("report", "max-stack", DEPTH, "127").option("max_stack"),
    of("script", "fields", Kind::List, "perf's").option("fields").unless(&["json", "dump_raw_trace"]),
    of("script", "max-stack", DEPTH, "127").option("max_stack"),
    of("script", "ns", Kind::Flag, "false").option("ns"),
    of("compare", "events", Kind::List, "the usual five").option("events"),
    of("compare", "min-runs", RUNS, "10").option("min_runs").unless(&["runs"]),
    of("compare", "max-runs", RUNS, "1000").option("max_runs").unless(&["runs"]),
    of("compare", "warmup", Kind::Number { least: 0, most: u32::MAX as u64 }, "1").option("warmup"),
    of("compare", "by", Kind::Text, "wall, or cpu").option("by"),
    of("compare", "until", Kind::Text, "none").option("until").unless(&["runs"]),
];

/// `color` is an option of several subcommands, under two names.
const COLORS: [(&str, &str); 4] =
    [("stat", "color"), ("compare", "color"), ("report", "stdio_color"), ("annotate", "stdio_color")];

static SETTINGS: OnceLock<std::result::Result<Settings, Error>> = OnceLock::new();

/// The settings of the files, read when somebody first asks for them.
fn settings() -> &'static std::result::Result<Settings, Error> {
    SETTINGS.get_or_init(|| {
        let keys: Vec<Key> = DEFAULTS.iter().map(|default| default.key).collect();
        places().map_or_else(|| Ok(Settings::default()), |places| read(&places, &keys))
    })
}

/// Where files are looked for; nowhere, if the environment says so.
fn places() -> Option<Places> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let named = std::env::var_os("PERFUSE_CONFIG");
    // Unit tests heed no configuration, so that they do the same for everybody.
    if cfg!(test) || named.as_ref().is_some_and(|named| named.is_empty() || named == "/dev/null") {
        return None;
    }
    let home = folder("HOME");
    let own = folder("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    Some(Places {
        user: own.map(|own| own.join("perfuse/config.toml")),
        named: named.map(PathBuf::from),
        project: Some(".perfuse.toml".into()),
        folder: std::env::current_dir().unwrap_or_default(),
        home,
    })
}

/// Fails where a file that somebody has asked has a fault.
pub(crate) fn check() -> Result<()> {
    SETTINGS.get().map_or(Ok(()), |settings| settings.as_ref().map(drop).map_err(Failure::usage))
}

/// The setting of a key, if the environment has nothing that comes before it.
fn holds(default: &Default) -> Option<&'static Setting> {
    let setting = settings().as_ref().ok()?.get(default.key.table, default.key.name)?;
    default.in_environment().is_none().then_some(setting)
}

/// How things are to look: the value of a key of `[looks]` in the files.
pub(crate) fn look(name: &str) -> Option<&'static str> {
    let default = DEFAULTS.iter().find(|default| default.key.table == "looks" && default.key.name == name)?;
    holds(default).map(|setting| setting.value.as_str())
}

/// Whether the files have values for options of a subcommand.
pub(crate) fn has_defaults(command: &Command) -> bool {
    let table = command.get_name();
    DEFAULTS.iter().any(|default| default.key.table == table && holds(default).is_some())
}

/// Gives the options of a subcommand the values of the files. Its options are there already, those that take others back too.
pub(crate) fn with_defaults(mut command: Command) -> Command {
    let table = command.get_name().to_owned();
    for default in DEFAULTS.iter().filter(|default| default.key.table == table && !default.option.is_empty())
    {
        let Some(setting) = holds(default) else { continue };
        let is_off = setting.value == "false" && !default.opposite.is_empty();
        let (option, value) = match is_off {
            true => (default.opposite, "true"),
            false => (default.option, setting.value.as_str()),
        };
        command = with_default(command, option, value, default);
    }
    for (_, option) in COLORS.iter().filter(|(name, _)| *name == table) {
        if let Some(when) = look("color") {
            command = command.mut_arg(option, |arg| arg.default_value(when));
        }
    }
    command
}

fn with_default(command: Command, option: &str, value: &'static str, default: &Default) -> Command {
    let Some(arg) = command.get_arguments().find(|arg| arg.get_id() == option) else { return command };
    // The options that take its place: what takes it back, what is the other one of a pair, what conflicts with it.
    let taken_back = arg.get_long().map(opposite_of);
    let pair = [default.option, default.opposite].map(str::to_owned);
    let others = taken_back.into_iter().chain(pair).chain(default.unless.iter().map(|&name| name.to_owned()));
    let there = |name: String| {
        let other = command.get_arguments().find(|arg| name != option && arg.get_id() == name.as_str())?;
        Some((name, matches!(other.get_action(), ArgAction::SetTrue)))
    };
    let others: Vec<(String, bool)> = others.filter_map(there).collect();
    let usual = match arg.get_action() {
        ArgAction::SetTrue => Some("false".to_owned()),
        ArgAction::Count => Some("0".to_owned()),
        _ => arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned()),
    };
    command.mut_arg(option, |arg: Arg| {
        let without = |arg: Arg, (other, is_flag): (String, bool)| {
            let usual = usual.clone().map(clap::builder::OsStr::from);
            // A flag that nobody has typed is there, too, and is false.
            let typed = if is_flag { ArgPredicate::Equals("true".into()) } else { ArgPredicate::IsPresent };
            arg.default_value_if(other, typed, clap::builder::Resettable::from(usual))
        };
        others.into_iter().fold(arg, without).default_value(value)
    })
}

/// `--no-x` of `--x`, and the other way round.
pub(crate) fn opposite_of(long: &str) -> String {
    long.strip_prefix("no-").map_or_else(|| format!("no-{long}"), str::to_owned)
}

/// The setting that a refusal may be about, for people who wonder where a value comes from that they have not typed.
pub(crate) fn blamed(text: &str) -> Option<String> {
    let settings = SETTINGS.get()?.as_ref().ok()?;
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    // A refusal quotes the word that is wrong, or shows the list that it stands in.
    let is_shown = |value: &str| {
        value.split(',').any(|part| text.contains(&format!("'{part}'")))
            || text.lines().any(|line| line.trim().ends_with(value))
    };
    let is_meant = |setting: &&Setting| {
        let is_named = words.iter().any(|word| word == setting.key.table);
        is_named && is_shown(&setting.value) && !words.iter().any(|word| word.contains(&setting.value))
    };
    let setting = settings.all.iter().find(is_meant)?;
    let (key, value) = (setting.key.name, foreign(&setting.value));
    Some(format!("{}:{} says so: {key} = {value}", shown(&setting.path), setting.line))
}

/// A path as people would write it.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let within =
        here.and_then(|here| path.strip_prefix(here).ok()).filter(|path| !path.as_os_str().is_empty());
    foreign(within.unwrap_or(path).as_os_str().as_encoded_bytes()).into_owned()
}

/// Where a value is from.
enum Origin {
    Usual,
    Variable(&'static str),
    File(&'static Setting),
}

/// The value of a key that holds, and where it is from.
fn origin(default: &Default) -> (String, Origin) {
    if let Some((name, value)) = default.in_environment() {
        return (foreign(value.as_encoded_bytes()).into_owned(), Origin::Variable(name));
    }
    if let Some(setting) = holds(default) {
        return (setting.value.clone(), Origin::File(setting));
    }
    match std::env::var_os(default.fallback).filter(|value| !value.is_empty()) {
        Some(value) => (foreign(value.as_encoded_bytes()).into_owned(), Origin::Variable(default.fallback)),
        None => (default.usual.to_owned(), Origin::Usual),
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result {
    let mut out = out::stdout();
    let settings = settings().as_ref().map_err(Failure::usage)?;
    if args.json {
        writeln!(out, "{}", as_json(settings))?;
    } else if args.wanted.is_some() {
        for file in &settings.files {
            writeln!(out, "{}", foreign(file.path.as_os_str().as_encoded_bytes()))?;
        }
    } else {
        out.write_all(text(settings).as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn text(settings: &Settings) -> String {
    let rows: Vec<[String; 3]> = DEFAULTS
        .iter()
        .map(|default| {
            let (value, origin) = origin(default);
            let from = match origin {
                Origin::Usual => "default".to_owned(),
                Origin::Variable(name) => name.to_owned(),
                Origin::File(setting) => format!("{}:{}", shown(&setting.path), setting.line),
            };
            [format!("{}.{}", default.key.table, default.key.name), foreign(&value).into_owned(), from]
        })
        .collect();
    let titles = ["key", "value", "from"].map(str::to_owned);
    let all = || std::iter::once(&titles).chain(&rows);
    let [keys, values] = [0, 1].map(|at| all().map(|row| width(&row[at])).max().unwrap_or(0));
    let mut text = String::new();
    for [key, value, from] in all() {
        text += &format!(" {}  {}  {from}\n", left(key, keys), left(value, values));
    }
    text += "\n";
    if settings.files.is_empty() {
        return text + " No files: PERFUSE_CONFIG says so.\n";
    }
    for file in &settings.files {
        let whose = if file.is_projects { "the project's" } else { "yours" };
        let state = match &file.state {
            State::Missing => "is not there".to_owned(),
            State::Refused(why) => format!("does not hold: {why}"),
            _ => "holds".to_owned(),
        };
        text += &format!(" {} ({whose}) {state}\n", shown(&file.path));
    }
    text
}

fn as_json(settings: &Settings) -> serde_json::Value {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let keys = DEFAULTS.iter().map(|default| {
        let (value, origin) = origin(default);
        let key = format!("{}.{}", default.key.table, default.key.name);
        match origin {
            Origin::Usual => json!({ "key": key, "value": value, "from": "default" }),
            Origin::Variable(name) => {
                json!({ "key": key, "value": value, "from": "environment", "variable": name })
            }
            Origin::File(setting) => {
                let (path, line) = (path(&setting.path), setting.line);
                json!({ "key": key, "value": value, "from": "file", "path": path, "line": line })
            }
        }
    });
    let files = settings.files.iter().map(|file| {
        let (state, reason) = match &file.state {
            State::Missing => ("missing", None),
            State::Refused(why) => ("refused", Some(why)),
            _ => ("holds", None),
        };
        let kind = if file.is_projects { "project" } else { "user" };
        json!({ "path": path(&file.path), "kind": kind, "state": state, "reason": reason })
    });
    json!({ "schema": "perfuse.config/1", "keys": keys.collect::<Vec<_>>(), "files": files.collect::<Vec<_>>() })
}
