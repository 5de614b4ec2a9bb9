//! Which kernel measures: Linux, or where it refuses, the embedded one. Options and the environment are read here alone;
//! from here on the kernel is a value that is passed down.

use crate::exit::Failure;
use crate::term::foreign::foreign;
use crate::term::out;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command};
use perfuse::kernel::Notice;
use perfuse::{Perf, Rehearsed, doctor};
use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The kernel that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The running kernel.
    Linux,
    /// perfuse's own, by ptrace(2).
    Embedded,
    /// That of a machine in memory, by the file of its scenario.
    Simulated(PathBuf),
}

/// The word for a simulated one, before the file.
const SIMULATED: &str = "sim:";

impl Choice {
    /// The kernel that a word names, if it names one.
    fn named(word: &OsStr) -> Option<Self> {
        match word.to_str() {
            Some("linux") => Some(Choice::Linux),
            Some("embedded") => Some(Choice::Embedded),
            _ => {
                let file = word.as_bytes().strip_prefix(SIMULATED.as_bytes())?;
                (!file.is_empty()).then(|| Choice::Simulated(OsStr::from_bytes(file).into()))
            }
        }
    }

    /// The word for it.
    pub(crate) fn word(&self) -> OsString {
        match self {
            Choice::Linux => "linux".into(),
            Choice::Embedded => "embedded".into(),
            Choice::Simulated(file) => [OsStr::new(SIMULATED), file.as_os_str()].into_iter().collect(),
        }
    }

    fn open(&self) -> Result<Perf, Failure> {
        match self {
            Choice::Linux => Ok(Perf::linux()),
            Choice::Embedded => Perf::embedded().ok_or_else(none),
            Choice::Simulated(file) => simulated(file),
        }
    }
}

/// The word of a choice on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Choices;

impl TypedValueParser for Choices {
    type Value = Choice;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, word: &OsStr) -> Result<Choice, clap::Error> {
        let none = || command.clone().error(ErrorKind::InvalidValue, "no such kernel");
        Choice::named(word).map_or_else(
            || {
                let known = PossibleValuesParser::new(["linux", "embedded", "sim:FILE"]);
                known.parse_ref(command, arg, word).and_then(|_| Err(none()))
            },
            Ok,
        )
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let known = [
            ("linux", "The running kernel"),
            ("embedded", "perfuse's own, by ptrace(2): for places where Linux refuses"),
            ("sim:FILE", "That of a machine in memory, which a scenario of perfuse sim describes"),
        ];
        Some(Box::new(known.into_iter().map(|(word, help)| PossibleValue::new(word).help(help))))
    }
}

/// The option.
#[derive(Debug, clap::Args)]
pub(crate) struct KernelOption {
    /// The kernel that measures: by default Linux, and perfuse itself where Linux refuses
    #[arg(long, value_name = "KERNEL", value_parser = Choices)]
    kernel: Option<Choice>,

    /// Count `instructions:u` by stopping after each instruction: exact, without hardware, and tens of
    /// thousands of times slower (what `step/instructions/u` is by name); with --kernel embedded
    #[arg(long)]
    single_step: bool,
}

/// The kernel that measures. When it is over, this tells what there is to know of those that were measured.
#[derive(Debug)]
pub(crate) struct Chosen {
    perf: Perf,
    /// That it stands in for Linux unasked.
    instead: Option<String>,
}

/// The kernel that was asked to open the events of a command line, and its answer for each event.
pub(crate) type Tried = (Chosen, Vec<Rehearsed>);

impl KernelOption {
    /// Decides, before any event is opened. [`Chosen::tell`] tells the user if perfuse has to stand in for Linux unasked.
    pub(crate) fn decide(&self) -> Result<Chosen, Failure> {
        let wanted = match &self.kernel {
            Some(kernel) => Some(kernel.clone()),
            None if self.single_step => Some(Choice::Embedded),
            None => from_environment()?,
        };
        let perf = match wanted {
            Some(Choice::Embedded) if self.single_step => Perf::embedded_stepping().ok_or_else(none)?,
            Some(_) if self.single_step => {
                return Err(Failure::usage("--single-step is for --kernel embedded: Linux does not step"));
            }
            Some(choice) => choice.open()?,
            None => return Ok(available()),
        };
        Ok(Chosen { perf, instead: None })
    }
}

/// The kernel that is asked where there is no option: the one that the environment names, or Linux.
pub(crate) fn of_the_environment() -> Result<Perf, Failure> {
    from_environment()?.unwrap_or(Choice::Linux).open()
}

/// Whether neither an option nor the environment names a kernel.
pub(crate) fn is_free(option: Option<&Choice>) -> Result<bool, Failure> {
    Ok(option.is_none() && from_environment()?.is_none())
}

/// Whether the embedded kernel is to measure, by the option, by the environment, or as Linux refuses.
pub(crate) fn is_embedded(option: Option<&Choice>) -> Result<bool, Failure> {
    let asked = option.cloned().map_or_else(from_environment, |choice| Ok(Some(choice)))?;
    Ok(asked.map_or_else(|| Perf::linux_refuses().is_some(), |choice| choice == Choice::Embedded))
}

/// The name of the environment variable.
const VARIABLE: &str = "PERFUSE_KERNEL";

fn from_environment() -> Result<Option<Choice>, Failure> {
    let Some(word) = std::env::var_os(VARIABLE).filter(|word| !word.is_empty()) else { return Ok(None) };
    let told = || format!("{VARIABLE} is {word:?}; there are: linux, embedded, sim:FILE");
    Choice::named(&word).map(Some).ok_or_else(|| Failure::usage(told()))
}

/// The kernel of a scenario's machine.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn simulated(file: &Path) -> Result<Perf, Failure> {
    let scenario = crate::sim::read(file)?;
    let scenario = scenario.map_err(|error| {
        Failure::usage(format_args!("--kernel sim: {}: {}", file.display(), error.explain()))
    })?;
    Ok(Perf::new(perfuse_sim::SimKernel::of(&scenario)))
}

/// There is none.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn simulated(_: &Path) -> Result<Perf, Failure> {
    Err(Failure::usage("there is no simulated kernel for this architecture"))
}

/// Refuses a command for a kernel that cannot run it.
pub(crate) fn can_run(kernel: &Perf, command: &[OsString]) -> Result<(), Failure> {
    if command.is_empty() || !kernel.facts().is_simulated {
        return Ok(());
    }
    Err(Failure::usage(
        "--kernel sim: a simulated machine runs the programs of its scenario, and no command: -a, -C, -p or -t",
    ))
}

fn none() -> Failure {
    Failure::usage("there is no embedded kernel for this architecture")
}

/// Linux, or what stands in for it.
fn available() -> Chosen {
    let perf = Perf::available();
    let instead = perf.refusal().map(|refusal| {
        let instead = match doctor::try_child(&perf) {
            Ok(()) => "measuring by ptrace instead",
            Err(_) => "and ptrace is refused too: only the time and memory of a command are known",
        };
        format!("Linux' perf_events are refused ({}); {instead}", refusal.cause().words())
    });
    Chosen { perf, instead }
}

impl Chosen {
    /// Tells the user if this kernel stands in for Linux.
    pub(crate) fn tell(&self) {
        self.instead.iter().for_each(out::say);
    }

    /// The same beside a failure, which may come of it; a wrong command line has nothing to do with it.
    pub(crate) fn tell_beside(&self, failure: &Failure) {
        if !failure.is_usage() {
            self.tell();
        }
    }
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
        &self.perf
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.perf.take_notices().iter().for_each(tell);
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
