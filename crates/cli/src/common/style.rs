//! The looks that the environment and the configuration decide: whether output is to look like perf's, for scripts that read it,
//! and how wide it is.

use crate::{config, term};
use anstream::ColorChoice;
use std::os::fd::AsFd;
use std::path::Path;

/// Whether it is perf's: asked for, asked for by the environment (`PERFUSE_STYLE=perf`) or a configuration file, or because the
/// program is called `perf`, which `PERFUSE_STYLE=perfuse` takes back.
pub(crate) fn is_perfs(asked_for: bool) -> bool {
    if asked_for {
        return true;
    }
    match std::env::var_os("PERFUSE_STYLE") {
        Some(style) if style == "perf" => true,
        Some(style) if style == "perfuse" => false,
        _ => {
            let name = std::env::args_os().next();
            let is_perf = |name| Path::new(&name).file_name().is_some_and(|name| name == "perf");
            name.is_some_and(is_perf) || config::look("style") == Some("perf")
        }
    }
}

/// perf's options for text with colours.
#[derive(Debug, clap::Args)]
pub(crate) struct Text {
    /// Taken for perf's sake: the output is text
    #[arg(long, hide = true)]
    stdio: bool,
    /// When to use colours: always, never, or auto on a terminal
    #[arg(long, value_name = "WHEN", num_args = 0..=1, default_value = "auto", default_missing_value = "always", value_parser = ["always", "never", "auto"])]
    stdio_color: String,
}

impl Text {
    /// Whether standard output is to have colours.
    pub(crate) fn is_coloured(&self) -> bool {
        let choice = match self.stdio_color.as_str() {
            "always" => ColorChoice::Always,
            "never" => ColorChoice::Never,
            _ => ColorChoice::Auto,
        };
        term::out::wants_colours(choice, &std::io::stdout())
    }
}

/// The columns of a terminal: those that the environment or a configuration file says, or its own.
pub(crate) fn columns(terminal: impl AsFd) -> usize {
    config::look("columns").and_then(|told| told.parse().ok()).unwrap_or_else(|| term::columns(terminal))
}
