//! What several subcommands share: commands that are measured while they run, and orders from other
//! programs.

pub(crate) mod child;
pub(crate) mod control;
