//! Which kernel measures: Linux, or where it refuses, the embedded one. Options and the environment are read here alone;
//! from here on the kernel is a value that is passed down.

use crate::exit::Failure;
use crate::term::foreign::foreign;
use crate::term::out;
use perfuse::kernel::Notice;
use perfuse::{Perf, Rehearsed, doctor};
use std::ops::Deref;

/// The kernel that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Choice {
    /// The running kernel
    Linux,
    /// perfuse's own, by ptrace(2): for places where Linux refuses
    Embedded,
}

/// The option.
#[derive(Debug, clap::Args)]
pub(crate) struct KernelOption {
    /// The kernel that measures: by default Linux, and perfuse itself where Linux refuses
    #[arg(long, value_name = "KERNEL", value_enum)]
    kernel: Option<Choice>,

    /// Count `instructions:u` by stopping after each instruction: exact, without hardware, and tens of
    /// thousands of times slower (what `step/instructions/u` is by name); with --kernel embedded
    #[arg(long)]
    single_step: bool,
}

/// The kernel that measures. When it is over, this tells what there is to know of those that were measured.
#[derive(Debug)]
pub(crate) struct Chosen(Perf);

/// The kernel that was asked to open the events of a command line, and its answer for each event.
pub(crate) type Tried = (Chosen, Vec<Rehearsed>);

impl KernelOption {
    /// Decides, before any event is opened, and tells the user if perfuse has to stand in for Linux unasked.
    pub(crate) fn decide(&self) -> Result<Chosen, Failure> {
        let wanted = match self.kernel {
            Some(kernel) => Some(kernel),
            None if self.single_step => Some(Choice::Embedded),
            None => from_environment()?,
        };
        let chosen = match wanted {
            Some(Choice::Linux) if self.single_step => {
                return Err(Failure::usage("--single-step is for --kernel embedded: Linux does not step"));
            }
            Some(Choice::Linux) => Perf::linux(),
            Some(Choice::Embedded) if self.single_step => Perf::embedded_stepping().ok_or_else(none)?,
            Some(Choice::Embedded) => Perf::embedded().ok_or_else(none)?,
            None => available(),
        };
        Ok(Chosen(chosen))
    }
}

/// The kernel that is asked where there is no option: the one that the environment names, or Linux.
pub(crate) fn of_the_environment() -> Result<Perf, Failure> {
    match from_environment()? {
        Some(Choice::Embedded) => Perf::embedded().ok_or_else(none),
        Some(Choice::Linux) | None => Ok(Perf::linux()),
    }
}

/// The name of the environment variable.
const VARIABLE: &str = "PERFUSE_KERNEL";

fn from_environment() -> Result<Option<Choice>, Failure> {
    match std::env::var(VARIABLE).as_deref() {
        Err(_) | Ok("") => Ok(None),
        Ok("linux") => Ok(Some(Choice::Linux)),
        Ok("embedded") => Ok(Some(Choice::Embedded)),
        Ok(other) => Err(Failure::usage(format_args!("{VARIABLE} is {other:?}; there are: linux, embedded"))),
    }
}

fn none() -> Failure {
    Failure::usage("there is no embedded kernel for this architecture")
}

/// Linux, or what stands in for it, which is told.
fn available() -> Perf {
    let kernel = Perf::available();
    if let Some(refusal) = kernel.refusal() {
        let instead = match doctor::try_child(&kernel) {
            Ok(()) => "measuring by ptrace instead",
            Err(_) => "and ptrace is refused too: only the time and memory of a command are known",
        };
        let words = refusal.cause().words();
        out::say(format_args!("Linux' perf_events are refused ({words}); {instead}"));
    }
    kernel
}

/// perf's hook for its tests: with `PERF_TEST_ATTR=DIR` in the environment, events are told in files there.
pub(crate) fn with_attr_files(kernel: &Perf) -> Perf {
    match std::env::var_os("PERF_TEST_ATTR") {
        Some(folder) => perfuse::with_attr_files(kernel, folder.into()),
        None => kernel.clone(),
    }
}

impl Deref for Chosen {
    type Target = Perf;

    fn deref(&self) -> &Perf {
        &self.0
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.0.take_notices().iter().for_each(tell);
    }
}

fn tell(notice: &Notice) {
    match notice {
        Notice::Deprived(program) => out::say(format_args!(
            "{} ran without the rights that its file gives (set-user-id, set-group-id or capabilities): Linux gives \
             none to what an ordinary user traces; measured as root it has them",
            foreign(program.as_os_str().as_encoded_bytes())
        )),
        Notice::Unguarded => out::say(
            "there was no process to take probes, watchpoints and unfinished transfers back if perfuse had been killed: \
             memfd_create(2), pidfd_open(2) and clone(2) make it, one of which was refused",
        ),
        Notice::Words(words) => out::say(foreign(words.as_bytes())),
        _ => {}
    }
}
