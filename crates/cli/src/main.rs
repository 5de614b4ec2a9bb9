//! `perfuse`, the program: arguments in, text out. What is measured, and how, is the library's.

#![forbid(unsafe_code)]

mod cli;
mod common;
mod doctor;
mod exit;
mod generate;
mod listing;
mod record;
mod recording;
mod report;
mod script;
mod sim;
mod stat;

use clap::Parser;
use cli::{Cli, Subcommand};
use std::process::ExitCode;

fn main() -> ExitCode {
    exit::tell_panics_plainly();
    let result = match Cli::parse().subcommand {
        Subcommand::Stat(args) => stat::run(&args),
        Subcommand::Report(args) => report::run(&args),
        Subcommand::Script(args) => script::run(&args),
        Subcommand::Evlist(args) => listing::evlist(&args),
        Subcommand::BuildidList(args) => listing::build_ids(&args),
        Subcommand::Record(args) => record::run(&args),
        Subcommand::Sim(args) => sim::run(&args),
        Subcommand::Doctor(args) => doctor::run(args),
        Subcommand::Completions(args) => generate::completions(args),
        Subcommand::Man => generate::man(),
    };
    exit::finish(result)
}
