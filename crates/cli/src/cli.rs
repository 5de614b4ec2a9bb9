//! The command line: the program's own options and its subcommands. The options of a subcommand live in
//! that subcommand's module.

use crate::{compare, doctor, generate, list, listing, record, report, run, script, sim, stat, version};
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
    /// Count events while a command runs, or in running processes, or on cpus
    Stat(Box<stat::Args>),
    /// Run commands against each other: which takes less, and how sure is that?
    Compare(Box<compare::Args>),
    /// List the events of this machine, and whether they work here
    List(list::Args),
    /// Show where the samples of a recording were
    Report(Box<report::Args>),
    /// Print each sample of a recording
    Script(Box<script::Args>),
    /// List the events of a recording
    Evlist(listing::Evlist),
    /// List the build-ids of a recording
    #[command(name = "buildid-list")]
    BuildidList(listing::BuildIds),
    /// Sample a command while it runs, or running processes, or cpus, into a perf.data file
    Record(Box<record::Args>),
    /// Run an unmodified tool, such as Linux' perf, whose events perfuse serves instead of the kernel
    Run(run::Args),
    /// Play scenarios on a simulated machine
    Sim(sim::Args),
    /// Tell what this machine, kernel and user allow to measure, and why not the rest
    Doctor(doctor::Args),
    /// Tell the version, and what is built in
    Version(version::Args),
    /// Write a completion script for a shell
    Completions(generate::Completions),
    /// Write the manual page, as roff
    Man,
    /// Write what an unfinished list of events may become: for completion scripts
    #[command(hide = true)]
    CompleteEvents(generate::CompleteEvents),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
