//! Things that several subcommands share: commands that are measured while they run, when measuring starts, and
//! orders from other programs.

pub(crate) mod cpus;
pub(crate) mod events;
pub(crate) mod kernel;
pub(crate) mod log;
pub(crate) mod style;
pub(crate) mod tables;
pub(crate) mod unsupported;
