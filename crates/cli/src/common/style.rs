//! The looks that the environment and the configuration decide: whether output is to look like perf's, for scripts that read it,
//! and how wide it is.

use crate::common::pages::Paging;
use crate::exit::{Failure, Result};
use crate::{config, term};
use anstream::ColorChoice;
use perfuse_tui::{Colours, Looks};
use std::io::IsTerminal;
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
    /// Text, on a terminal too
    #[arg(long)]
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

/// Whether there is a terminal to look around on, and neither text nor a pager was asked for.
pub(crate) fn has_screen(text: &Text, paging: Paging) -> bool {
    let wants_text = text.stdio || text.stdio_color != "auto" || paging.was_told() || is_perfs(false);
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !wants_text && !is_dumb && is_at_terminal()
}

fn is_at_terminal() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// Refuses `--tui`, if it was given, where there is no terminal; `what` is text without it.
pub(crate) fn can_have_screen(is_wanted: bool, what: &str) -> Result<()> {
    if !is_wanted || is_at_terminal() {
        return Ok(());
    }
    Err(Failure::usage(format_args!(
        "--tui wants a terminal, and standard input or output is none; without --tui {what} is text"
    )))
}

/// The looks of screens: colours as the terminal has them, none with `NO_COLOR`; ASCII where the locale is not of UTF-8.
pub(crate) fn screen_looks() -> Looks {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let colours = match (variable("COLORTERM").as_str(), variable("TERM").as_str()) {
        _ if !term::out::wants_colours(ColorChoice::Auto, &std::io::stdout()) => Colours::None,
        ("truecolor" | "24bit", _) => Colours::True,
        (_, term) if term.contains("direct") => Colours::True,
        (_, term) if term.contains("256color") => Colours::Many,
        (_, term) if term.contains("mono") || term.starts_with("vt1") || term.starts_with("vt2") => {
            Colours::None
        }
        _ => Colours::Sixteen,
    };
    Looks::new(colours, *term::glyphs::of_the_locale() == term::glyphs::ASCII)
}

/// The columns of a terminal: those that the environment or a configuration file says, or its own.
pub(crate) fn columns(terminal: impl AsFd) -> usize {
    config::look("columns").and_then(|told| told.parse().ok()).unwrap_or_else(|| term::columns(terminal))
}
