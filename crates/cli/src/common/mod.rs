//! What several subcommands share: commands that are measured while they run, when measuring starts, and
//! orders from other programs.

pub(crate) mod child;
pub(crate) mod control;
pub(crate) mod start;
