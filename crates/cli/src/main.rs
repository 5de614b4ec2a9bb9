//! `perfuse`, the program: arguments in, text out. The libraries measure.

#![forbid(unsafe_code)]
// Names that others chose must not drive the terminal: `term::out` writes text.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod common;
mod compare;
mod doctor;
mod exit;
mod generate;
mod habits;
mod list;
mod listing;
mod nested;
mod record;
mod recording;
mod report;
mod run;
mod script;
mod sim;
mod stat;
mod term;
mod version;

use clap::CommandFactory;
use cli::{Cli, Subcommand};
use std::process::ExitCode;

fn main() -> ExitCode {
    exit::tell_panics_plainly();
    common::log::start();
    let result = match habits::parse::<Cli>().subcommand {
        Subcommand::Stat(args) => stat::run(&args, &nested::stat_args),
        Subcommand::Compare(args) => compare::run(&args),
        Subcommand::List(args) => list::run(&args),
        Subcommand::Report(args) => report::run(&args),
        Subcommand::Script(args) => script::run(&args),
        Subcommand::Evlist(args) => listing::evlist(&args),
        Subcommand::BuildidList(args) => listing::build_ids(&args),
        Subcommand::Record(args) => record::run(&args),
        Subcommand::Run(args) => run::run(&args),
        Subcommand::Sim(args) => sim::run(&args),
        Subcommand::Doctor(args) => doctor::run(args, &nested::rehearse),
        Subcommand::Version(args) => version::run(&args),
        Subcommand::Completions(args) => generate::completions(args, Cli::command()),
        Subcommand::Man => generate::man(Cli::command()),
        Subcommand::CompleteEvents(args) => generate::complete_events(&args),
    };
    exit::finish(result)
}
