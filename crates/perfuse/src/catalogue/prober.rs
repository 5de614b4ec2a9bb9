//! Whether an event works here: it is opened, on this thread or where its PMU wants it, and closed again.
//! Nothing is ever counted.

use super::Kind;
use crate::{Builder, Command, Errno, Error, HeldCommand, Perf, Target};
use perfuse_abi::EventType;
use perfuse_events::{EventSpec, Source};
use std::collections::HashMap;
use std::sync::Arc;

/// The result of opening an event.
#[derive(Clone, Debug)]
pub enum Works {
    /// It was opened.
    Yes,
    /// In user space only: this user may not have the kernel's side.
    UserOnly,
    /// It was refused.
    No(Arc<WhyNot>),
    /// Nothing was tried.
    Unknown,
}

/// Why not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhyNot {
    /// A few words.
    pub words: String,
    /// Remedies.
    pub remedies: Vec<String>,
}

impl Works {
    /// Refused, for a reason in a few words.
    pub fn no(words: String, remedies: Vec<String>) -> Self {
        Works::No(Arc::new(WhyNot { words, remedies }))
    }

    /// The one that says less.
    pub fn worse(self, other: Works) -> Works {
        match (&self, &other) {
            (Works::No(_), _) | (_, Works::Yes) => self,
            (_, Works::No(_)) | (Works::Yes, _) => other,
            _ => self,
        }
    }

    /// A few words for a column.
    pub fn words(&self) -> &str {
        match self {
            Works::Yes => "works here",
            Works::UserOnly => "user space only",
            Works::No(reason) => &reason.words,
            Works::Unknown => "",
        }
    }
}

/// Remembers why events of a kind are refused: finding the reason takes longer than being refused.
#[derive(Debug)]
pub struct Prober {
    kernel: Perf,
    reasons: HashMap<(Kind, u32, Errno), Arc<WhyNot>>,
    /// A process that does nothing.
    other: Option<HeldCommand>,
}

impl Prober {
    /// One that asks this kernel.
    pub fn new(kernel: &Perf) -> Self {
        Prober { kernel: kernel.clone(), reasons: HashMap::new(), other: None }
    }

    fn other(&mut self) -> Option<Target> {
        if self.other.is_none() {
            self.other = Command::new("never").hold().ok();
        }
        self.other.as_ref().map(HeldCommand::target)
    }

    /// Opens an event and closes it again.
    pub fn try_event(&mut self, kind: Kind, spec: &EventSpec) -> Works {
        let Some(builder) = Builder::from_spec(spec) else { return Works::Yes };
        let builder = builder.kernel(&self.kernel);
        let opened = match spec.cpus().and_then(|cpus| cpus.first().copied()) {
            // A kind of cores counts threads too, wherever they run.
            Some(cpu) if !spec.pmu.as_ref().is_some_and(|pmu| pmu.is_core) => {
                builder.target(Target::cpu(cpu)).open()
            }
            _ => builder.clone().open().or_else(|error| match error.errno() {
                // Some of what the embedded kernel has, it has for others only.
                Errno::EOPNOTSUPP if self.kernel.facts().is_embedded => match self.other() {
                    Some(other) => builder.target(other).open(),
                    None => Err(error),
                },
                Errno::EINVAL => builder.target(Target::cpu(0)).open(),
                _ => Err(error),
            }),
        };
        match opened {
            Ok(counter) => {
                let user_only = counter.given_up().iter().any(|given| given.what == "kernel side");
                let event = crate::Event::from(*counter.attr());
                match user_only {
                    true if event.is_kernel_only() => Works::no(
                        "happens in the kernel only, which this user may not see".into(),
                        Vec::new(),
                    ),
                    true => Works::UserOnly,
                    false => Works::Yes,
                }
            }
            // A probe is made at a place that does not exist, as one that does takes the kernel a while to
            // remove; who may not have it is told so before the place is looked at.
            Err(error) if spec.probe.is_some() && error.errno() == Errno::ENOENT => Works::Yes,
            Err(error) => Works::No(self.reason(kind, spec, &error)),
        }
    }

    /// Finds out whether this user may have tracepoints by asking for one that does not exist: to close one that does, the
    /// kernel waits until nobody can be in it any more, which on a busy machine takes it seconds.
    pub fn try_tracepoint(&mut self, spec: &EventSpec) -> Works {
        let more = [0; 4];
        let nowhere = Source::Kernel { type_: EventType::TRACEPOINT, config: u32::MAX.into(), more };
        let mut spec_of_none = spec.clone();
        spec_of_none.source = nowhere;
        let builder = Builder::from_spec(&spec_of_none);
        match builder.map(|builder| builder.kernel(&self.kernel).user_and_kernel().open()) {
            Some(Err(error)) if error.errno() == Errno::EINVAL => Works::Yes,
            _ => self.try_event(Kind::Tracepoint, spec),
        }
    }

    fn reason(&mut self, kind: Kind, spec: &EventSpec, error: &Error) -> Arc<WhyNot> {
        let type_ = spec.event_type().map_or(0, |type_| type_.0);
        let reason = self.reasons.entry((kind, type_, error.errno()));
        let reason = reason.or_insert_with(|| {
            let diagnosis = error.diagnosis();
            let words = match diagnosis.cause.name() {
                "unknown" => error.errno().to_string(),
                _ => diagnosis.cause.words().to_owned(),
            };
            Arc::new(WhyNot { words, remedies: diagnosis.remedies.clone() })
        });
        reason.clone()
    }
}
