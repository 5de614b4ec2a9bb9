//! Why a call was refused, and what would help. [`examine`] looks at the machine; [`diagnose`] only
//! thinks.

use crate::error::{Call, Subject};
use perfuse_abi::Attr;
use perfuse_sys::Errno;

/// The true reason behind an errno.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// No such thread, or it has been reaped.
    NoSuchTask,
    /// The thread is about to end.
    TaskExiting,
    /// The cpu is offline.
    CpuOffline,
    /// None of the known reasons.
    Unknown,
}

impl Cause {
    /// Somebody with more rights, or another setting, would not be refused.
    pub fn is_permission(&self) -> bool {
        false
    }

    /// Nobody can have this on this machine and kernel.
    pub fn is_unsupported(&self) -> bool {
        false
    }
}

/// A cause with its explanation and remedies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The reason.
    pub cause: Cause,
    /// The reason in words, without a full stop.
    pub explanation: String,
    /// What would help, most promising first.
    pub remedies: Vec<String>,
}

pub(crate) fn examine(_call: &Call, _subject: Option<&Subject>, _errno: Errno) -> Diagnosis {
    Diagnosis { cause: Cause::Unknown, explanation: "no reason is known".into(), remedies: Vec::new() }
}

/// The event in a few words.
pub(crate) fn event_name(attr: &Attr) -> String {
    format!("an event of type {}", attr.type_.0)
}
