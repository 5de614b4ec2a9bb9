//! The options of `perfuse stat`. Letters and meanings are perf's where perf has them.

use super::select::Selection;
use crate::common::kernel::KernelOption;
use crate::common::processes::Processes;
use crate::common::tables::EventsDir;
use crate::common::unsupported::{OfStat, Unsupported};
use clap::{ArgAction, ColorChoice};
use perfuse_stat::metrics::MetricChoice;
use std::ffi::OsString;
use std::path::PathBuf;

const AFTER: &str = "\
Examples:
  perfuse stat -- make -j8             what did that cost?
  perfuse stat -r 10 -- ./prog         ten runs, and how they differ
  perfuse stat -e '{cycles,instructions},faults' -- ./prog
  perfuse stat -p 1234 -I 1000         a running process, every second
  perfuse stat -a --per-core sleep 5   the whole system for 5 seconds
  perfuse stat -e cs -G web.slice      a cgroup, until Ctrl-C
  perfuse stat -M cs_per_second -- ./prog   a metric, made of events
  perfuse stat --json -o out -- ./prog for programs

Results go to standard error. The exit status is the command's: 128+n if signal n ended it; 125 if perfuse \
failed, 126 if the command cannot be executed, 127 if there is none, 2 for a wrong command line.";

/// Options of `perfuse stat`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "perfuse stat [OPTIONS] [--] COMMAND [ARGS]...\n       \
                      perfuse stat [OPTIONS] -p PID | -t TID | -a | -C CPUS [[--] COMMAND [ARGS]...]",
    after_help = AFTER
)]
pub(crate) struct Args {
    /// `-e` and `-G`
    #[command(flatten)]
    pub(super) selection: Selection,

    #[command(flatten)]
    pub(super) metrics: MetricOptions,

    #[command(flatten)]
    pub(super) events_dir: EventsDir,

    #[command(flatten)]
    pub(super) kernel: KernelOption,

    /// More events: caches (-d), TLBs (-d -d), prefetches (-d -d -d)
    #[arg(short = 'd', long, action = ArgAction::Count)]
    pub(super) detailed: u8,

    /// Measure these processes, by number or by name, with their threads
    #[arg(short = 'p', long, value_name = "PID|NAME", value_delimiter = ',')]
    pub(super) pid: Vec<Processes>,

    /// Measure these threads
    #[arg(short = 't', long, value_name = "TID", value_delimiter = ',')]
    pub(super) tid: Vec<u32>,

    /// Measure the whole system
    #[arg(short = 'a', long)]
    pub(super) all_cpus: bool,

    /// Measure all that runs on these cpus, such as 0-3,8
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub(super) cpu: Option<String>,

    /// Count each event in each of these cgroups; patterns such as ^user mean all cgroups that they fit
    #[arg(long, value_name = "CGROUP,...", conflicts_with_all = ["cgroups", "pid", "tid", "metrics"])]
    pub(super) for_each_cgroup: Option<String>,

    /// Put all events into one group
    #[arg(long)]
    pub(super) group: bool,

    /// Count the user side only
    #[arg(long, conflicts_with = "all_kernel")]
    pub(super) all_user: bool,

    /// Count the kernel side only
    #[arg(long)]
    pub(super) all_kernel: bool,

    /// Where cores are of several kinds: count on those of this PMU only, such as cpu_core
    #[arg(long, alias = "pmu-filter", value_name = "PMU")]
    pub(super) cputype: Option<String>,

    /// Also the metrics of a top-down analysis, from the tables of this processor (--events-dir)
    #[arg(long)]
    pub(super) topdown: bool,

    /// The deepest level of --topdown
    #[arg(long, value_name = "LEVEL", requires = "topdown", default_value_t = 1, hide_default_value = true)]
    pub(super) td_level: u8,

    /// Also the events of memory transactions
    #[arg(short = 'T', long)]
    pub(super) transaction: bool,

    /// Leave out what the measured tasks start
    #[arg(short = 'i', long)]
    pub(super) no_inherit: bool,

    /// Run the command N times and show the spread; 0 repeats until Ctrl-C
    #[arg(short = 'r', long, value_name = "N")]
    pub(super) repeat: Option<u32>,

    /// With -r, also the time of each run
    #[arg(long, requires = "repeat")]
    pub(super) table: bool,

    /// Run this shell command before each run of the command
    #[arg(long, value_name = "COMMAND")]
    pub(super) pre: Option<OsString>,

    /// Run this shell command after each run of the command
    #[arg(long, value_name = "COMMAND")]
    pub(super) post: Option<OsString>,

    /// Write what waits for the disks before each run
    #[arg(short = 'S', long)]
    pub(super) sync: bool,

    /// Count nothing: only time and memory
    #[arg(short = 'n', long, conflicts_with = "events")]
    pub(super) null: bool,

    /// Report every so many milliseconds
    #[arg(short = 'I', long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) interval_print: Option<u64>,

    /// Stop after this many intervals
    #[arg(long, value_name = "N", requires = "interval_print", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) interval_count: Option<u32>,

    /// Clear the screen before each interval
    #[arg(long, requires = "interval_print")]
    pub(super) interval_clear: bool,

    /// Also the total of all intervals, in perf's formats; the table always has it
    #[arg(long, requires = "interval_print")]
    pub(super) summary: bool,

    /// With -x, no word "summary" before the total
    #[arg(long)]
    pub(super) no_csv_summary: bool,

    /// Stop after this many milliseconds, and end the command
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) timeout: Option<u64>,

    /// Start counting after this many milliseconds; -1: when told so (--control)
    #[arg(short = 'D', long, value_name = "MS", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    pub(super) delay: Option<i64>,

    /// Take orders (enable, disable, evlist, ping, stop) from a descriptor or fifo, and answer with "ack"
    #[arg(long, value_name = "fd:N[,ACK] | fifo:PATH[,ACK]")]
    pub(super) control: Option<String>,

    /// A row for each cpu
    #[arg(short = 'A', long, group = "aggregation")]
    pub(super) no_aggr: bool,

    /// Of events with the term percore, show the sum over the threads of a core in the row of each cpu
    #[arg(long, requires = "no_aggr")]
    pub(super) percore_show_thread: bool,

    /// A row for each PMU where one name stands for several, such as uncore_imc; with -A too
    #[arg(long)]
    pub(super) no_merge: bool,

    /// A row for each core
    #[arg(long, group = "aggregation")]
    pub(super) per_core: bool,

    /// A row for each cluster of cores
    #[arg(long, group = "aggregation")]
    pub(super) per_cluster: bool,

    /// A row for each cache of this level, such as L2, that cpus share; the last one unless told
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "", group = "aggregation")]
    pub(super) per_cache: Option<CacheLevel>,

    /// A row for each die
    #[arg(long, group = "aggregation")]
    pub(super) per_die: bool,

    /// A row for each socket
    #[arg(long, group = "aggregation")]
    pub(super) per_socket: bool,

    /// A row for each NUMA node
    #[arg(long, group = "aggregation")]
    pub(super) per_node: bool,

    /// A row for each thread, of -p, -t or, with -a, of the whole system
    #[arg(long, group = "aggregation")]
    pub(super) per_thread: bool,

    /// Show counts of part of the time as they are, not scaled to all of it
    #[arg(long)]
    pub(super) no_scale: bool,

    /// Fields separated by this, as perf writes them
    #[arg(short = 'x', long, value_name = "SEPARATOR", group = "format")]
    pub(super) field_separator: Option<String>,

    /// JSON lines with values as strings, as perf writes them
    #[arg(short = 'j', long, group = "format")]
    pub(super) json_output: bool,

    /// One JSON object (schema perfuse.stat/1); with -I one more for each interval
    #[arg(long, group = "format")]
    pub(super) json: bool,

    /// perf's own text, for scripts that read it
    #[arg(long, group = "format")]
    pub(super) perf_style: bool,

    /// Write to this descriptor in place of standard error
    #[arg(long, value_name = "FD", conflicts_with = "output")]
    pub(super) log_fd: Option<i32>,

    /// Write to this file in place of standard error; - is standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// Add to the file
    #[arg(long)]
    pub(super) append: bool,

    /// Whole numbers in place of four digits
    #[arg(short = 'B', long, overrides_with = "no_big_num")]
    pub(super) big_num: bool,

    /// Four digits, the default
    #[arg(long)]
    pub(super) no_big_num: bool,

    /// Leave out events that were counted, and did not happen
    #[arg(long)]
    pub(super) hide_zero_events: bool,

    /// Show how each event was opened
    #[arg(short = 'v', long)]
    pub(super) verbose: bool,

    /// Leave out footnotes and hints
    #[arg(short = 'q', long, conflicts_with = "verbose")]
    pub(super) quiet: bool,

    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(super) color: ColorChoice,

    #[command(flatten)]
    _untaken: Unsupported<OfStat>,

    /// The command to run
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// How metrics are chosen and their events are counted.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct MetricOptions {
    /// Metrics, by their names or those of their groups: perfuse list metric
    #[arg(short = 'M', long = "metrics", value_name = "METRIC,...", conflicts_with = "cgroups")]
    pub(super) metrics: Vec<String>,

    /// Show metrics and no events
    #[arg(long)]
    pub(super) metric_only: bool,

    /// Count the events of a metric one by one, not as a group
    #[arg(long)]
    metric_no_group: bool,

    /// Let no metric use the events of another
    #[arg(long)]
    metric_no_merge: bool,

    /// Count no events only to know whether a metric is beyond its threshold
    #[arg(long)]
    metric_no_threshold: bool,
}

impl MetricOptions {
    /// For the library.
    pub(super) fn choice(&self) -> MetricChoice {
        MetricChoice {
            metrics: self.metrics.clone(),
            no_group: self.metric_no_group,
            no_merge: self.metric_no_merge,
            no_threshold: self.metric_no_threshold,
        }
    }
}

/// The level of a cache: a number behind an L; the last one, if nothing is said.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheLevel(pub(super) Option<u32>);

impl std::str::FromStr for CacheLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let level = text.strip_prefix(['L', 'l']).and_then(|number| number.parse().ok());
        match (text, level) {
            ("", _) => Ok(CacheLevel(None)),
            (_, Some(level)) if level > 0 => Ok(CacheLevel(Some(level))),
            _ => Err("levels are L1, L2, L3 ...".to_owned()),
        }
    }
}
