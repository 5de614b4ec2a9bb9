//! Long text on a terminal, shown by a pager as git and perf do it.

use crate::config;
use crate::exit::Result;
use crate::term::foreign::foreign;
use crate::term::out::{self, Out, say};
use crate::term::pager::Pager;
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

/// Whether the program's own `--no-pager` or `--paginate`, in front of the subcommand, has decided.
pub(crate) static DECIDED: OnceLock<bool> = OnceLock::new();

/// Options of subcommands that print much.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Paging {
    /// Show the output by a pager (PERFUSE_PAGER, PAGER, less), as is usual on a terminal
    #[arg(long, overrides_with = "no_pager")]
    pager: bool,
    /// Write to the terminal without a pager
    #[arg(long, overrides_with = "pager")]
    no_pager: bool,
}

impl Paging {
    /// Whether somebody has decided it, either way.
    pub(crate) fn was_told(self) -> bool {
        self.pager || self.no_pager || DECIDED.get().is_some()
    }

    fn is_wanted(self) -> bool {
        match (self.pager, self.no_pager) {
            (true, _) => true,
            (_, true) => false,
            _ => DECIDED.get().copied().unwrap_or(true),
        }
    }
}

/// Standard output, or the pager in front of it.
#[derive(Debug)]
pub(crate) enum Sink {
    Direct(StdoutLock<'static>),
    /// The pager of this name is started by the first text.
    Waiting(String),
    Pager(Pager),
}

impl Sink {
    fn new(is_wanted: bool) -> Self {
        let takes_pages =
            io::stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        match command().filter(|_| is_wanted && takes_pages) {
            Some(command) => Sink::Waiting(command),
            None => Sink::Direct(io::stdout().lock()),
        }
    }

    /// Starts the pager, once there is something to show.
    fn begin(&mut self) {
        let Sink::Waiting(command) = self else { return };
        *self = match Pager::start(command) {
            Ok(pager) => Sink::Pager(pager),
            Err(error) => {
                // Not every machine has the usual one.
                if command != USUAL {
                    say(format_args!("the pager '{}' cannot be started: {error}", foreign(command)));
                }
                Sink::Direct(io::stdout().lock())
            }
        };
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin();
        match self {
            Sink::Direct(out) => out.write(bytes),
            Sink::Pager(pager) => pager.write(bytes),
            Sink::Waiting(_) => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Direct(out) => out.flush(),
            Sink::Pager(pager) => pager.flush(),
            Sink::Waiting(_) => Ok(()),
        }
    }
}

/// The pager where nobody names one.
const USUAL: &str = "less";

/// The pager's command line; none where somebody wants none.
fn command() -> Option<String> {
    let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let command = variable("PERFUSE_PAGER")
        .or_else(|| config::look("pager").map(str::to_owned))
        .or_else(|| variable("PAGER"))
        .unwrap_or_else(|| USUAL.to_owned());
    (!matches!(command.trim(), "" | "cat")).then_some(command)
}

/// Does work that writes, and waits until its text has been seen. Who leaves the pager has seen enough, which is no failure.
pub(crate) fn paged(
    paging: Paging,
    coloured: bool,
    work: impl FnOnce(&mut Out<&mut Sink>) -> Result,
) -> Result {
    let mut sink = Sink::new(paging.is_wanted());
    let result = work(&mut Out::new(&mut sink, coloured));
    let Sink::Pager(pager) = sink else { return result };
    pager.wait();
    match result {
        Err(failure) if failure.is_unread() => Ok(ExitCode::SUCCESS),
        result => result,
    }
}

/// Prints help: by the pager if it is longer than the screen.
pub(crate) fn help(text: &str) {
    let rows = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_row.into());
    let is_wanted = !std::env::args_os().any(|word| word == "--no-pager");
    let paging = Paging { pager: false, no_pager: !is_wanted || text.lines().count() < rows };
    let coloured = out::wants_colours(anstream::ColorChoice::Auto, &io::stdout());
    // If the text cannot be written the exit status still tells.
    let _ = paged(paging, coloured, |out| {
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    });
}
