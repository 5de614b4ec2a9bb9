//! Which kernel measures: Linux, or where it refuses, the embedded one.

use crate::exit::Failure;
use crate::term::foreign::foreign;
use crate::term::out;
use perfuse::kernel::{self, VARIABLE};
use perfuse::{Error, doctor};

/// Who is asked.
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
    /// Who measures; by default Linux, and perfuse itself where Linux refuses
    #[arg(long, value_name = "KERNEL", value_enum)]
    kernel: Option<Choice>,

    /// Count `instructions:u` by stopping after each instruction: exact, without hardware, and tens of
    /// thousands of times slower (what `step/instructions/u` is by name); with --kernel embedded
    #[arg(long)]
    single_step: bool,
}

impl KernelOption {
    /// Decides, before any event is opened. That it is not Linux, though nobody asked for that, is told.
    pub(crate) fn decide(&self) -> Result<(), Failure> {
        let wanted = match self.kernel {
            Some(kernel) => Some(kernel),
            None if self.single_step => Some(Choice::Embedded),
            None => from_environment()?,
        };
        if self.single_step {
            if wanted == Some(Choice::Linux) {
                return Err(Failure::usage("--single-step is for --kernel embedded: Linux does not step"));
            }
            kernel::step_for_instructions(true);
        }
        match wanted {
            Some(Choice::Linux) => kernel::choose(kernel::linux()),
            Some(Choice::Embedded) => choose_embedded()?,
            None => {
                if let Some(refusal) = doctor::why_linux_refuses() {
                    fall_back(&refusal);
                }
            }
        }
        Ok(())
    }
}

fn from_environment() -> Result<Option<Choice>, Failure> {
    match std::env::var(VARIABLE).as_deref() {
        Err(_) | Ok("") => Ok(None),
        Ok("linux") => Ok(Some(Choice::Linux)),
        Ok("embedded") => Ok(Some(Choice::Embedded)),
        Ok(other) => Err(Failure::usage(format_args!("{VARIABLE} is {other:?}; there are: linux, embedded"))),
    }
}

/// perf's hook for its tests: with `PERF_TEST_ATTR=DIR` in the environment, events are told in files there. To be called when
/// it is decided which kernel measures, before anything is opened.
pub(crate) fn keep_attr_files() {
    if let Some(folder) = std::env::var_os("PERF_TEST_ATTR") {
        kernel::choose(perfuse::with_attr_files(kernel::current(), folder.into()));
    }
}

fn choose_embedded() -> Result<(), Failure> {
    let none = || Failure::usage("there is no embedded kernel for this architecture");
    kernel::choose(kernel::embedded().ok_or_else(none)?);
    Ok(())
}

/// Says which programs ran with fewer rights than they have alone, and whether one was in danger.
pub(crate) fn tell_of_the_measured() {
    if !is_embedded() {
        return;
    }
    for program in kernel::take_deprived() {
        out::say(format_args!(
            "{} ran without the rights that its file gives (set-user-id, set-group-id or capabilities): Linux gives \
             none to what an ordinary user traces; measured as root it has them",
            foreign(program.as_os_str().as_encoded_bytes())
        ));
    }
    if kernel::take_unguarded() {
        out::say(
            "there was no process to take probes, watchpoints and unfinished transfers back if perfuse had been killed: \
             memfd_create(2), pidfd_open(2) and clone(2) make it, one of which was refused",
        );
    }
}

fn fall_back(refusal: &Error) {
    if choose_embedded().is_err() {
        return;
    }
    let instead = match doctor::try_child() {
        Ok(()) => "measuring by ptrace instead",
        Err(_) => "and ptrace is refused too: only the time and memory of a command are known",
    };
    let words = refusal.cause().words();
    out::say(format_args!("Linux' perf_events are refused ({words}); {instead}"));
}

/// Whether the embedded kernel measures.
pub(crate) fn is_embedded() -> bool {
    kernel::current().facts().is_embedded
}
