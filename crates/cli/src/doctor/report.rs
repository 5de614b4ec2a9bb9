//! What the doctor finds out, as data: printed by [`super::text`] and [`super::json`].

use perfuse::Error;
use perfuse::facts::Facts;

/// How it stands with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It works.
    Yes,
    /// It works in part, or could be better.
    Partly,
    /// It does not work.
    No,
}

impl Verdict {
    /// The word for scripts.
    pub(super) fn word(self) -> &'static str {
        match self {
            Verdict::Yes => "yes",
            Verdict::Partly => "partly",
            Verdict::No => "no",
        }
    }
}

/// Why something does not work, or only in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    /// What was tried: `cannot open cycles for this thread`.
    pub(super) tried: String,
    /// The kernel's answer, where it gave one.
    pub(super) errno: Option<String>,
    /// The cause's name for scripts.
    pub(super) cause: &'static str,
    /// The cause in a few words.
    pub(super) words: &'static str,
    /// The cause in a sentence.
    pub(super) explanation: String,
    /// What would help, the most promising first.
    pub(super) remedies: Vec<String>,
}

impl Reason {
    /// One that is no error of a call.
    pub(super) fn new(
        tried: &str,
        cause: &'static str,
        words: &'static str,
        explanation: impl Into<String>,
    ) -> Self {
        let (tried, explanation) = (tried.to_owned(), explanation.into());
        Reason { tried, errno: None, cause, words, explanation, remedies: Vec::new() }
    }

    /// With a remedy more.
    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
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
pub(super) struct Check {
    /// Its name for scripts.
    pub(super) id: &'static str,
    /// Its name for people.
    pub(super) title: &'static str,
    /// Whether it works.
    pub(super) verdict: Verdict,
    /// What was seen.
    pub(super) detail: String,
    /// Why not, or why only in part.
    pub(super) reason: Option<Reason>,
}

impl Check {
    pub(super) fn yes(id: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Check { id, title, verdict: Verdict::Yes, detail: detail.into(), reason: None }
    }

    pub(super) fn partly(
        id: &'static str,
        title: &'static str,
        detail: impl Into<String>,
        reason: Reason,
    ) -> Self {
        Check { id, title, verdict: Verdict::Partly, detail: detail.into(), reason: Some(reason) }
    }

    pub(super) fn no(id: &'static str, title: &'static str, reason: impl Into<Reason>) -> Self {
        Check { id, title, verdict: Verdict::No, detail: String::new(), reason: Some(reason.into()) }
    }
}

/// One setting of the system, and what it means here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// Its name for scripts.
    pub(super) id: &'static str,
    /// Its name for people.
    pub(super) title: &'static str,
    /// Whether it stands in the way.
    pub(super) verdict: Verdict,
    /// What it is and means.
    pub(super) text: String,
    /// What could be changed.
    pub(super) remedies: Vec<String>,
}

/// Everything.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// The system.
    pub(super) facts: Facts,
    /// What was tried.
    pub(super) checks: Vec<Check>,
    /// What the system is set to.
    pub(super) settings: Vec<Setting>,
    /// What a user without privilege gets here, where this one has more.
    pub(super) normal_user: Option<String>,
}
