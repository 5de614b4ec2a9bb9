//! The command line: the program's own options and its subcommands. The options of a subcommand live in
//! that subcommand's module.

use crate::habits::Lazy;
use crate::{
    annotate, archive, buildid_cache, compare, config, data, diff, doctor, dump, export, generate, inject,
    kallsyms, list, listing, record, report, rewrite, run, script, sim, stat, top, trace, version,
};
use clap::Parser;

/// Counts, samples, traces and explains programs with Linux perf_events.
#[derive(Debug, Parser)]
#[command(name = "perfuse", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Count events while a command runs, in processes, or on cpus
    Stat(Lazy<stat::Args>),
    /// Run commands against each other: which takes less?
    Compare(Lazy<compare::Args>),
    /// List the events of this machine, and whether they work here
    List(Lazy<list::Args>),
    /// Show where the samples of a recording were
    Report(Lazy<report::Args>),
    /// Show the instructions and source lines of the hottest functions
    Annotate(Lazy<annotate::Args>),
    /// Draw a recording as a flame graph, into an SVG file
    Flamegraph(Lazy<export::FlamegraphArgs>),
    /// Write a recording for pprof, Firefox, speedscope, Perfetto, OTLP
    Export(Lazy<export::Args>),
    /// Read a profile of another tool: pprof, Firefox, folded, ...
    Import(Lazy<export::ImportArgs>),
    /// Show functions whose share differs between two recordings
    Diff(Lazy<diff::Args>),
    /// Print each sample of a recording
    Script(Lazy<script::Args>),
    /// Keep a part of a recording: a span of time, threads, events, cpus
    Cut(Lazy<rewrite::CutArgs>),
    /// Make one recording of several
    Merge(Lazy<rewrite::MergeArgs>),
    /// Write a recording without private names and data
    Strip(Lazy<rewrite::StripArgs>),
    /// Add build-ids and compiled code to a recording
    Inject(Lazy<inject::Args>),
    /// Pack the files that a recording needs elsewhere
    Archive(Lazy<archive::Args>),
    /// Put names, lines and code into a recording, so that it opens anywhere
    Seal(Lazy<rewrite::SealArgs>),
    /// Write a recording as an older perf reads it
    Convert(Lazy<rewrite::ConvertArgs>),
    /// List the events of a recording
    Evlist(Lazy<listing::Evlist>),
    /// List the build-ids of a recording
    #[command(name = "buildid-list")]
    BuildidList(Lazy<listing::BuildIds>),
    /// Keep files by their build-ids, for recordings that are read later
    #[command(name = "buildid-cache")]
    BuildidCache(Lazy<buildid_cache::Args>),
    /// Write a recording as JSON in perf's form: data convert --to-json
    Data(Lazy<data::Args>),
    /// Find functions of the running kernel by their names
    Kallsyms(Lazy<kallsyms::Args>),
    /// Sample a command, processes, or cpus, into a perf.data file
    Record(Lazy<record::Args>),
    /// Show where the machine, a process or a command spends time now
    Top(Lazy<top::Args>),
    /// Show system calls and events while they happen, or sum them up
    Trace(Lazy<trace::Args>),
    /// Show the stack of each thread of a process, now
    Dump(Lazy<dump::Args>),
    /// Run an unmodified tool, such as perf, and serve its events
    Run(Lazy<run::Args>),
    /// Play scenarios on a simulated machine
    Sim(Lazy<sim::Args>),
    /// Tell what can be measured here, and why not the rest
    Doctor(Lazy<doctor::Args>),
    /// Show the defaults that configuration files set, and which file says so
    Config(Lazy<config::Args>),
    /// Tell the version, and what is built in
    Version(Lazy<version::Args>),
    /// Check whether features of perf are built in: check feature libelf,zstd
    Check(Lazy<version::CheckArgs>),
    /// Write a completion script for a shell
    Completions(Lazy<generate::Completions>),
    /// Write manual pages, as roff
    Man(Lazy<generate::Man>),
    /// Write what the last word of a command line may become: for completion scripts
    #[command(hide = true)]
    Complete(Lazy<generate::Complete>),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
