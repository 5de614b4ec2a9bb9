//! Finds out by trying which measurements this machine, kernel and user allow: each kind of event is opened, made to
//! happen and read ([`examine`]), and the settings that decide are read and explained.
//!
//! ```
//! let report = perfuse::doctor::examine(&perfuse::Perf::linux());
//! for check in &report.checks {
//!     println!("{}: {}", check.title, check.verdict.word());
//! }
//! ```

mod checks;
mod settings;

use crate::facts::Facts;
use crate::{Command, Error, Perf, tracefs};
use perfuse_abi::Software;

/// Tries everything. It takes a fraction of a second, and disturbs nothing else on the machine.
pub fn examine(kernel: &Perf) -> Report {
    // Where nobody has mounted it, this may find it all the same; the facts tell what came of it.
    let _ = tracefs::root();
    let facts = Facts::gather();
    Report {
        checks: checks::run(kernel, &facts),
        settings: settings::list(&facts),
        normal_user: settings::normal_user(&facts),
        facts,
    }
}

/// Whether a kernel can measure a child: one that is never executed.
///
/// # Errors
///
/// Why not.
pub fn try_child(kernel: &Perf) -> Result<(), Error> {
    let child = Command::new("never").hold()?;
    kernel.counter(Software::DUMMY).target(child.target()).open().map(drop)
}

/// How it stands with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It works.
    Yes,
    /// It works in part, or could be better.
    Partly,
    /// It does not work.
    No,
}

impl Verdict {
    /// The word for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Yes => "yes",
            Verdict::Partly => "partly",
            Verdict::No => "no",
        }
    }
}

/// Why something does not work, or only in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The attempt: `cannot open cycles for this thread`.
    pub tried: String,
    /// The kernel's answer, where it gave one.
    pub errno: Option<String>,
    /// The cause's name for scripts.
    pub cause: &'static str,
    /// The cause in a few words.
    pub words: &'static str,
    /// The cause in a sentence.
    pub explanation: String,
    /// Remedies, the most promising first.
    pub remedies: Vec<String>,
}

impl Reason {
    /// One that is no error of a call.
    fn new(tried: &str, cause: &'static str, words: &'static str, explanation: impl Into<String>) -> Self {
        let (tried, explanation) = (tried.to_owned(), explanation.into());
        Reason { tried, errno: None, cause, words, explanation, remedies: Vec::new() }
    }

    /// With a remedy more.
    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedies.push(remedy.into());
        self
    }
}

impl From<&Error> for Reason {
    fn from(error: &Error) -> Self {
        let diagnosis = error.diagnosis();
        Reason {
            tried: error.attempt(),
            errno: error.errno().name().map(str::to_owned),
            cause: error.cause().name(),
            words: error.cause().words(),
            explanation: diagnosis.explanation.clone(),
            remedies: diagnosis.remedies.clone(),
        }
    }
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name for scripts.
    pub id: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Whether it works.
    pub verdict: Verdict,
    /// The observation in words.
    pub detail: String,
    /// Why not, or why only in part.
    pub reason: Option<Reason>,
}

impl Check {
    fn yes(id: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Check { id, title, verdict: Verdict::Yes, detail: detail.into(), reason: None }
    }

    fn partly(id: &'static str, title: &'static str, detail: impl Into<String>, reason: Reason) -> Self {
        Check { id, title, verdict: Verdict::Partly, detail: detail.into(), reason: Some(reason) }
    }

    fn no(id: &'static str, title: &'static str, reason: impl Into<Reason>) -> Self {
        Check { id, title, verdict: Verdict::No, detail: String::new(), reason: Some(reason.into()) }
    }
}

/// One setting of the system, and what it means here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name for scripts.
    pub id: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Whether it stands in the way.
    pub verdict: Verdict,
    /// Its value, and the meaning of that.
    pub text: String,
    /// Changes that would help.
    pub remedies: Vec<String>,
}

/// Everything.
#[derive(Clone, Debug)]
pub struct Report {
    /// The system.
    pub facts: Facts,
    /// The kinds of events, as they were tried.
    pub checks: Vec<Check>,
    /// The settings of the system.
    pub settings: Vec<Setting>,
    /// How much a user without privilege may measure here, where this one may more.
    pub normal_user: Option<String>,
}
