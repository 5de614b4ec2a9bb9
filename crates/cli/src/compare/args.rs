//! The options of `perfuse compare`.

use crate::common::kernel::KernelOption;
use crate::common::tables::EventsDir;
use clap::ColorChoice;
use perfuse_stat::compare::{Gate, Until};
use std::path::PathBuf;
use std::time::Duration;

const AFTER: &str = "\
Examples:
  perfuse compare './old in.json' './new in.json'
  perfuse compare -n old ./a.out -n new ./b.out    with names of your own
  perfuse compare -L level 1,6,9 'gzip -kc{level} big'
  perfuse compare --until 1% ./a ./b               as many runs as that takes
  perfuse compare -e cycles,instructions ./a ./b
  perfuse compare --save main.json ./prog          now, and after the change:
  perfuse compare --baseline main.json --fail-if 'instructions>+2%' ./prog
  perfuse compare --profile ./old ./new            which functions became slower?
  perfuse compare --load main.json --export-markdown table.md

Measures are wall (wall time), cpu (CPU time in user space and kernel, children included), rss (peak RSS) \
and the names of events. The commands' runs are mixed: each round runs every command once, in random \
order. A difference is that of the means as a share of the first command's, with its 95 % interval: from the \
pairs of runs of one round (Fieller's interval), against a baseline from both series (Welch's). It is called \
(slower, more, ...) when all measures together give less than 1 % chance of a false call.

Rounds end when the verdict on the measure that decides is certain: a difference is called, or is surely below 1 %. \
That is looked for again and again, and each look may use a part of the 1 % only, so that all of them together \
keep it. With -r, --until and --fail-if rounds end by these alone, or by --time.

The exit status is 0 whatever the difference; 3 if --fail-if says so; 125 if a command fails or cannot be \
measured, 126 or 127 if it cannot be executed, 2 for a wrong command line, 130 after Ctrl-C.";

/// Options of `perfuse compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// Commands, each as one argument, or as words with -- between them; the first is the reference. Words are split as a shell does, but no
    /// shell runs them
    #[arg(value_name = "COMMAND", required_unless_present = "load")]
    pub(super) commands: Vec<String>,

    /// A name for the next command in turn
    #[arg(short = 'n', long = "name", value_name = "NAME")]
    pub(super) names: Vec<String>,

    /// Count these events too (default: instructions, cycles, branch-misses, page-faults, context-switches)
    #[arg(short = 'e', long = "event", value_name = "LIST")]
    pub(super) events: Vec<String>,

    #[command(flatten)]
    pub(super) kernel: KernelOption,

    #[command(flatten)]
    pub(super) events_dir: EventsDir,

    /// Run each command N times
    #[arg(short = 'r', long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..), conflicts_with_all = ["min_runs", "max_runs", "until"])]
    pub(super) runs: Option<u32>,

    /// At least so many runs of each
    #[arg(short = 'm', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..))]
    pub(super) min_runs: u32,

    /// At most so many runs of each
    #[arg(short = 'M', long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..))]
    pub(super) max_runs: u32,

    /// Runs of each that are not counted, before all others
    #[arg(short = 'w', long, value_name = "N", default_value_t = 1)]
    pub(super) warmup: u32,

    /// Go on until the 95 % interval of the difference is no wider than this to each side [default: until the verdict is
    /// certain]
    #[arg(long, value_name = "[MEASURE:]PERCENT")]
    pub(super) until: Option<Until>,

    /// Start no round after this many seconds [default: 3 s a command; without limit with --until and -r]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) time: Option<Duration>,

    /// Fail, with exit status 3, when the whole interval of a difference lies beyond this, such as
    /// 'instructions>+2%', 'wall>5%', 'rss>+1MiB'
    #[arg(long = "fail-if", value_name = "MEASURE>LIMIT")]
    pub(super) gates: Vec<Gate>,

    /// Fail too when the interval holds the limit, so that more runs would have to decide
    #[arg(long, requires = "gates")]
    pub(super) fail_if_unclear: bool,

    /// The measure that decides what is said in the end [default: wall; cpu where wall time is noisy]
    #[arg(long, value_name = "MEASURE")]
    pub(super) by: Option<String>,

    /// Sample both commands in each round, and compare the time of each function: with its 95 % interval, and a verdict that
    /// is corrected for the number of functions
    #[arg(long, conflicts_with_all = ["events", "until", "gates", "by", "baseline", "load", "save", "export_csv", "prepare", "setup", "cleanup", "input"])]
    pub(super) profile: bool,

    /// Run the commands in a shell
    #[arg(short = 'S', long, value_name = "SHELL", num_args = 0..=1, require_equals = true, default_missing_value = "sh")]
    pub(super) shell: Option<String>,

    /// Run this before each run, unmeasured: one for all commands, or one for each
    #[arg(short = 'p', long, value_name = "COMMAND")]
    pub(super) prepare: Vec<String>,

    /// Run this once, before everything
    #[arg(long, value_name = "COMMAND")]
    pub(super) setup: Option<String>,

    /// Run this once, after everything
    #[arg(long, value_name = "COMMAND")]
    pub(super) cleanup: Option<String>,

    /// Put each of these in the place of {NAME}: a command for each
    #[arg(short = 'L', long = "parameter-list", value_names = ["NAME", "VALUES"], num_args = 2)]
    pub(super) lists: Vec<String>,

    /// Put the numbers from MIN to MAX in the place of {NAME}
    #[arg(short = 'P', long = "parameter-scan", value_names = ["NAME", "MIN", "MAX"], num_args = 3, allow_negative_numbers = true)]
    pub(super) scans: Vec<String>,

    /// The step of -P
    #[arg(short = 'D', long, value_name = "STEP", requires = "scans")]
    pub(super) parameter_step_size: Option<String>,

    /// Go on when a command fails
    #[arg(short = 'i', long)]
    pub(super) ignore_failure: bool,

    /// The commands' standard input [default: nothing]
    #[arg(long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,

    /// Let the commands write to the terminal; else their output goes nowhere
    #[arg(long)]
    pub(super) show_output: bool,

    /// Compare with the measurements of this file, of --save or --json, in place of the first command
    #[arg(long, value_name = "FILE")]
    pub(super) baseline: Option<PathBuf>,

    /// Run nothing, but show the measurements of this file, of --save or --json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["commands", "baseline", "runs", "until", "time", "setup", "cleanup", "prepare"])]
    pub(super) load: Option<PathBuf>,

    /// Write all measurements to this file, as --json does
    #[arg(long, visible_alias = "export-json", value_name = "FILE")]
    pub(super) save: Option<PathBuf>,

    /// Write a table in Markdown to this file
    #[arg(long, value_name = "FILE")]
    pub(super) export_markdown: Option<PathBuf>,

    /// Write a line for each command and measure to this file, comma-separated
    #[arg(long, value_name = "FILE")]
    pub(super) export_csv: Option<PathBuf>,

    /// One JSON object (schema perfuse.compare/1) in place of text
    #[arg(long)]
    pub(super) json: bool,

    /// The order of runs is that of this number
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,

    /// The table and the last sentence only
    #[arg(short = 'q', long)]
    pub(super) quiet: bool,

    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(super) color: ColorChoice,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is no number of seconds"))?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}
