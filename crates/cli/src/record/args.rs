//! The options of `perfuse record`. Letters and meanings are perf's where perf has them.

use super::selection::{Compression, Selection};
use crate::common::kernel::KernelOption;
use crate::common::processes::Processes;
use crate::common::tables::EventsDir;
use crate::common::unsupported::{OfRecord, Unsupported};
use perfuse_record::Synth;
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of `perfuse record`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "perfuse record [OPTIONS] [--] COMMAND [ARGS]...\n       \
                      perfuse record [OPTIONS] -p PID | -t TID | -u USER | -a | -C CPUS [[--] COMMAND [ARGS]...]",
    after_help = "Examples:\n  perfuse record -g -- ./prog           who calls the expensive functions?\n  \
                  perfuse record -a -g sleep 10         the whole system for ten seconds\n  \
                  perfuse record -p 1234 -g sleep 5     a running process\n  \
                  perfuse record -e page-faults -c 1 -g -- ./prog   who touches new memory?\n\n\
                  Without -e, cycles are sampled 997 times a second, or the cpu-clock where there is no PMU. \
                  The exit status is the command's: 128+n if signal n ended it; 125 if perfuse failed, 126 if \
                  the command cannot be executed, 127 if there is none."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) selection: Selection,

    #[command(flatten)]
    pub(super) compression: Compression,

    #[command(flatten)]
    pub(super) kernel: KernelOption,

    #[command(flatten)]
    pub(super) events_dir: EventsDir,

    /// Put all events into one group
    #[arg(long)]
    pub(super) group: bool,

    /// Record the time that threads sleep, too, by the stacks at which they went to sleep: event offcpu-time, in nanoseconds
    #[arg(long)]
    pub(super) off_cpu: bool,

    /// Make one sample of all of a thread at a stack, in the kernel: a small file, without times of single samples (root)
    #[arg(long, conflicts_with_all = ["follow", "overwrite", "switch_output", "no_samples", "latency"])]
    pub(super) fold: bool,

    /// Of tracepoints, leave out what this program does itself
    #[arg(long)]
    pub(super) exclude_perf: bool,

    /// Make sense of the options, and no more
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Go before all ordinary tasks, with this priority of SCHED_FIFO
    #[arg(short = 'r', long, value_name = "PRIORITY", value_parser = clap::value_parser!(i32).range(1..100))]
    pub(super) realtime: Option<i32>,

    /// Of the state before the start, record only tasks, their maps, or cgroups; no: only the kernel
    #[arg(long, value_name = "no|all|task,mmap,cgroup", default_value = "all", hide_default_value = true)]
    pub(super) synth: Synth,

    /// For perf's sake: nothing is compiled
    #[arg(long, hide = true)]
    pub(super) clang_path: Option<OsString>,

    /// The same
    #[arg(long, hide = true, allow_hyphen_values = true)]
    pub(super) clang_opt: Option<OsString>,

    /// For perf's sake: no kernel image is needed to record
    #[arg(long, hide = true)]
    pub(super) vmlinux: Option<OsString>,

    /// Samples a second; max: as many as the kernel allows
    #[arg(short = 'F', long = "freq", value_name = "HZ", conflicts_with = "count")]
    pub(super) frequency: Option<String>,

    /// Fail if the kernel does not allow as many, in place of taking fewer
    #[arg(long)]
    pub(super) strict_freq: bool,

    /// One sample every so many events
    #[arg(short = 'c', long, value_name = "PERIOD", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) count: Option<u64>,

    /// Record call chains, as --call-graph auto
    #[arg(short = 'g')]
    pub(super) chains: bool,

    /// Record call chains: by frame pointers; from copies of the stack, unwound while recording or when the recording
    /// is read; by the hardware; auto: by frame pointers if the programs have them, and else unwound
    #[arg(long, value_name = "auto|fp|unwound[,BYTES]|dwarf[,BYTES]|lbr")]
    pub(super) call_graph: Option<String>,

    /// Of call chains, record the user side only
    #[arg(long, conflicts_with = "kernel_callchains")]
    pub(super) user_callchains: bool,

    /// Of call chains, record the kernel side only
    #[arg(long)]
    pub(super) kernel_callchains: bool,

    /// Record these processes, by number or by name, with their threads
    #[arg(short = 'p', long, value_name = "PID|NAME", value_delimiter = ',')]
    pub(super) pid: Vec<Processes>,

    /// Record the processes of this user, by name or number
    #[arg(short = 'u', long, value_name = "USER")]
    pub(super) uid: Option<String>,

    /// Record these threads
    #[arg(short = 't', long, value_name = "TID", value_delimiter = ',')]
    pub(super) tid: Vec<u32>,

    /// Record the whole system
    #[arg(short = 'a', long)]
    pub(super) all_cpus: bool,

    /// Record all that runs on these cpus, such as 0-3,8
    #[arg(short = 'C', long, value_name = "CPUS")]
    pub(super) cpu: Option<String>,

    /// Sample whole cpus, and keep what belongs to the command or the processes and what they start: sees
    /// processes too short for clocks of their own, and any number of threads, but takes the rights of -a.
    /// The default for a command without -e, where that is allowed
    #[arg(long, conflicts_with_all = ["tid", "all_cpus", "cpu", "cgroup", "no_inherit", "per_thread", "overwrite"])]
    pub(super) follow: bool,

    /// Have the command's own clocks sample it, and what it starts, as perf does; never sample whole cpus in place of threads
    #[arg(long, conflicts_with = "follow")]
    pub(super) no_follow: bool,

    /// Leave out what the recorded tasks start
    #[arg(short = 'i', long)]
    pub(super) no_inherit: bool,

    /// The same, with a ring for each thread in place of each cpu
    #[arg(long)]
    pub(super) per_thread: bool,

    /// Write to this file; - is standard output, in the form for pipes [default: perf.data, or standard output where it is a pipe]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// Start sampling after this many milliseconds; -1: when told so (--control)
    #[arg(short = 'D', long, value_name = "MS", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    pub(super) delay: Option<i64>,

    /// Take the commands enable, disable, stop and ping from a descriptor or fifo, and answer with "ack"
    #[arg(long, value_name = "fd:N[,ACK] | fifo:PATH[,ACK]")]
    pub(super) control: Option<String>,

    /// Size of each cpu's ring: pages, or bytes with a suffix (B, K, M, G)
    #[arg(short = 'm', long, value_name = "PAGES")]
    pub(super) mmap_pages: Option<String>,

    /// Clock of the times: monotonic (the default), monotonic_raw, realtime, boottime, tai; perf: the kernel's
    #[arg(short = 'k', long, value_name = "CLOCK", default_value = "monotonic", hide_default_value = true)]
    pub(super) clockid: String,

    /// For perf's sake: build-ids are never put into a cache
    #[arg(short = 'N', long)]
    pub(super) no_buildid_cache: bool,

    /// Leave out what tells of BPF programs
    #[arg(long)]
    pub(super) no_bpf_event: bool,

    /// Read each sample at once, in place of many at a time
    #[arg(long)]
    pub(super) no_buffering: bool,

    /// Leave build-ids out
    #[arg(short = 'B', long)]
    pub(super) no_buildid: bool,

    /// For perf's sake: build-ids of all mapped files are always written
    #[arg(long)]
    pub(super) buildid_all: bool,

    /// For perf's sake: maps carry build-ids where the kernel can
    #[arg(long)]
    pub(super) buildid_mmap: bool,

    /// Record when tasks are switched in and out
    #[arg(long)]
    pub(super) switch_events: bool,

    /// Record how many threads run, for report --latency: time that passes, not time that cpus spend
    #[arg(long)]
    pub(super) latency: bool,

    /// Record mappings without code, too; -d does
    #[arg(long)]
    pub(super) data_mmap: bool,

    /// Record the namespaces of tasks
    #[arg(long)]
    pub(super) namespaces: bool,

    /// Record cgroups
    #[arg(long)]
    pub(super) all_cgroups: bool,

    /// Record the data addresses of samples
    #[arg(short = 'd', long, alias = "sample-mem-info")]
    pub(super) data: bool,

    /// Record the weight of samples, such as a latency
    #[arg(short = 'W', long)]
    pub(super) weight: bool,

    /// Record the physical data addresses of samples
    #[arg(long)]
    pub(super) phys_data: bool,

    /// Record the size of the pages of data addresses
    #[arg(long)]
    pub(super) data_page_size: bool,

    /// Record the size of the pages of code addresses
    #[arg(long)]
    pub(super) code_page_size: bool,

    /// Record the flags of transactions
    #[arg(long)]
    pub(super) transaction: bool,

    /// Record these registers at the sample, such as ip,sp; all without names; ? lists them
    #[arg(short = 'I', long, value_name = "REGISTERS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(super) intr_regs: Option<String>,

    /// The same of user space
    #[arg(long, value_name = "REGISTERS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(super) user_regs: Option<String>,

    /// Record the raw bytes of samples
    #[arg(short = 'R', long)]
    pub(super) raw_samples: bool,

    /// Record for how much of the time each event was counted, with the values of groups (modifier S)
    #[arg(long)]
    pub(super) running_time: bool,

    /// Record totals only (-s), no samples
    #[arg(short = 'n', long)]
    pub(super) no_samples: bool,

    /// Count for each thread
    #[arg(short = 's', long)]
    pub(super) stat: bool,

    /// Record the time of samples; always so
    #[arg(short = 'T', long)]
    pub(super) timestamp: bool,

    /// Record the period of samples, also with -c
    #[arg(short = 'P', long)]
    pub(super) period: bool,

    /// Record the cpu of samples
    #[arg(long)]
    pub(super) sample_cpu: bool,

    /// Each record tells its event at its very beginning or end, even if there is only one
    #[arg(long)]
    pub(super) sample_identifier: bool,

    /// Record the user side only
    #[arg(long, conflicts_with = "all_kernel")]
    pub(super) all_user: bool,

    /// Record the kernel side only
    #[arg(long)]
    pub(super) all_kernel: bool,

    /// Record the last taken branches
    #[arg(short = 'b', long, conflicts_with = "branch_filter")]
    pub(super) branch_any: bool,

    /// Record the last branches of these kinds, such as any_call,u
    #[arg(short = 'j', long, value_name = "KINDS")]
    pub(super) branch_filter: Option<String>,

    /// Keep the newest records in the rings, and write them at the end or on SIGUSR2
    #[arg(long)]
    pub(super) overwrite: bool,

    /// Tell about tasks that run already at the end in place of the start
    #[arg(long)]
    pub(super) tail_synthesize: bool,

    /// Go on in a new file on SIGUSR2, after this size (B, K, M, G) or time (s, m, h, d)
    #[arg(long, value_name = "signal|SIZE|TIME", num_args = 0..=1, require_equals = true, default_missing_value = "signal")]
    pub(super) switch_output: Option<String>,

    /// Keep only so many of the files that --switch-output makes, the newest
    #[arg(long, value_name = "FILES", requires = "switch_output", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub(super) switch_max_files: Option<usize>,

    /// Put the time into the file's name
    #[arg(long)]
    pub(super) timestamp_filename: bool,

    /// Stop when this much is written
    #[arg(long, value_name = "SIZE")]
    pub(super) max_size: Option<String>,

    /// Show how each event was opened
    #[arg(short = 'v', long)]
    pub(super) verbose: bool,

    /// Say nothing unless something is wrong
    #[arg(short = 'q', long, conflicts_with = "verbose")]
    pub(super) quiet: bool,

    #[command(flatten)]
    _untaken: Unsupported<OfRecord>,

    /// The command to run
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
