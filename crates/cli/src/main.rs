//! `perfuse`, the program: arguments in, text out. The libraries measure.

#![forbid(unsafe_code)]
// Names that others chose must not drive the terminal: `term::out` writes text.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod annotate;
mod archive;
mod buildid_cache;
mod cli;
mod common;
mod compare;
mod config;
mod data;
mod diff;
mod doctor;
mod dump;
mod exit;
mod export;
mod generate;
mod habits;
mod help;
mod inject;
mod kallsyms;
mod list;
mod listing;
mod nested;
mod record;
mod recording;
mod report;
mod rewrite;
mod run;
mod script;
mod sim;
mod stat;
mod top;
mod trace;
mod usage;
mod version;

use clap::CommandFactory;
use cli::{Cli, Subcommand};
use perfuse_term as term;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    exit::tell_panics_plainly();
    common::log::start();
    let cli = habits::parse::<Cli>();
    if let Err(failure) = config::check() {
        return exit::finish(Err(failure));
    }
    let result = match cli.subcommand {
        Subcommand::Stat(args) => told("stat", &args.0.command, stat::run(&args, &nested::stat_args)),
        Subcommand::Compare(args) => compare::run(&args),
        Subcommand::List(args) => list::run(&args),
        Subcommand::Report(args) => report::run(&args),
        Subcommand::Annotate(args) => annotate::run(&args),
        Subcommand::Flamegraph(args) => export::flamegraph(&args, &nested::record_args, &nested::report),
        Subcommand::Export(args) => export::export(&args),
        Subcommand::Import(args) => export::import(&args),
        Subcommand::Diff(args) => diff::run(&args),
        Subcommand::Script(args) => script::run(&args),
        Subcommand::Cut(args) => rewrite::cut(&args),
        Subcommand::Merge(args) => rewrite::merge(&args),
        Subcommand::Strip(args) => rewrite::strip(&args),
        Subcommand::Inject(args) => inject::run(&args),
        Subcommand::Archive(args) => archive::run(&args),
        Subcommand::Seal(args) => rewrite::seal(&args),
        Subcommand::Convert(args) => rewrite::convert(&args),
        Subcommand::Evlist(args) => listing::evlist(&args),
        Subcommand::BuildidList(args) => listing::build_ids(&args),
        Subcommand::BuildidCache(args) => buildid_cache::run(&args),
        Subcommand::Data(args) => data::run(&args),
        Subcommand::Kallsyms(args) => kallsyms::run(&args),
        Subcommand::Record(args) => told("record", &args.0.command, record::run(&args)),
        Subcommand::Top(args) => top::run(&args, &nested::record_args),
        Subcommand::Trace(args) => trace::run(&args, &nested::record_args),
        Subcommand::Dump(args) => dump::run(&args),
        Subcommand::Run(args) => run::run(&args),
        Subcommand::Sim(args) => sim::run(&args),
        Subcommand::Doctor(args) => doctor::run(*args.0, &nested::rehearse),
        Subcommand::Config(args) => config::run(&args),
        Subcommand::Version(args) => version::run(&args),
        Subcommand::Check(args) => version::check(&args),
        Subcommand::Completions(args) => generate::completions(&args, Cli::command()),
        Subcommand::Man(args) => generate::man(&args, help::program(Cli::command())),
        Subcommand::Complete(args) => generate::complete(&args, Cli::command()),
    };
    let blamed = result.as_ref().err().filter(|failure| failure.is_usage());
    let blamed = blamed.and_then(|failure| config::blamed(&failure.to_string()));
    let status = exit::finish(result);
    blamed.into_iter().for_each(term::out::say);
    status
}

/// The end of a command that was measured, and what there is to say about its options.
fn told(name: &str, command: &[OsString], ended: exit::Result) -> exit::Result {
    if let Ok(status) = &ended {
        usage::tell_behind(name, command, Cli::command(), *status != ExitCode::SUCCESS);
    }
    ended
}
