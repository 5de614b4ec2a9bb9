//! Why a call was refused, and what would help.
//!
//! [`diagnose`] is a pure function of the call, its errno, the [`Facts`] of the system and the
//! [`Findings`] of a few harmless probes, so it can be asked about machines that are not at hand. It
//! follows the order in which the kernel checks (`semantics.md`, sections A, B and F), so that it names
//! the check that failed and not one that would have failed later.
//!
//! ```
//! use perfuse::abi::{Attr, EventType, Hardware, OpenFlags};
//! use perfuse::diagnosis::{Cause, Findings, diagnose};
//! use perfuse::facts::Facts;
//! use perfuse::{Call, Errno, Pmu};
//!
//! // A virtual machine without a PMU: as its root, whatever perf_event_paranoid says.
//! let mut facts = Facts::unknown();
//! facts.pmus = Some(vec![Pmu::new("software", EventType::SOFTWARE), Pmu::new("tracepoint", EventType::TRACEPOINT)]);
//! facts.hypervisor = Some("KVM".to_owned());
//! let attr = Attr { config: Hardware::CPU_CYCLES.0, ..Attr::new(EventType::HARDWARE) };
//! let call = Call::Open { attr, pid: 0, cpu: -1, leader: None, flags: OpenFlags::empty() };
//!
//! let diagnosis = diagnose(&call, None, Errno::ENOENT, &facts, &Findings::default());
//! assert_eq!(diagnosis.cause, Cause::NoHardwarePmu);
//! assert!(diagnosis.remedies[0].contains("pmu=on"));
//! ```

mod access;
mod attr;
mod cause;
mod invalid;
mod missing;
mod name;
mod opened;
mod probe;
mod remedy;
#[cfg(test)]
mod tests;
mod tracing;

pub use cause::{Cause, Kind};
pub(crate) use name::event_name;
pub use probe::{CgroupKind, Findings, Part, Task};

use crate::call::{Call, Subject};
use crate::facts::Facts;
use perfuse_abi::{Attr, EventType, Hardware, OpenFlags};
use perfuse_sys::Errno;

/// A cause with its explanation and remedies.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The reason.
    pub cause: Cause,
    /// The reason in words: clauses that end a sentence, without a full stop.
    pub explanation: String,
    /// Remedies, the most likely to work for this user first; empty where nothing would help.
    pub remedies: Vec<String>,
}

impl Diagnosis {
    /// A cause in words, without remedies.
    pub fn new(cause: Cause, explanation: impl Into<String>) -> Self {
        Diagnosis { cause, explanation: explanation.into(), remedies: Vec::new() }
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedies.push(remedy.into());
        self
    }

    pub(crate) fn remedies(mut self, remedies: impl IntoIterator<Item = String>) -> Self {
        self.remedies.extend(remedies);
        self
    }
}

/// A refused `perf_event_open(2)` with all that is known about it.
struct Open<'a> {
    attr: &'a Attr,
    pid: i32,
    cpu: i32,
    leader: Option<&'a Subject>,
    flags: OpenFlags,
    errno: Errno,
    facts: &'a Facts,
    findings: &'a Findings,
}

impl Open<'_> {
    fn is_cgroup(&self) -> bool {
        self.flags.contains(OpenFlags::PID_CGROUP)
    }

    fn is_cpu_wide(&self) -> bool {
        self.pid == -1 || self.is_cgroup()
    }
}

/// Looks at the machine, then thinks. Returns the name of the event too, as far as it is known.
pub(crate) fn examine(call: &Call, subject: Option<&Subject>, errno: Errno) -> (Diagnosis, Option<String>) {
    // The answer lies in the errno itself: threads that end while they are being opened come by the
    // thousand and are expected.
    let gathered;
    let (facts, findings) = match without_cpu_pmu(call, errno) {
        Some(facts) => (facts, Findings::default()),
        None => {
            gathered = match (call, errno) {
                (Call::Open { .. }, Errno::ESRCH) | (_, Errno::EINTR) => Facts::unknown(),
                _ => Facts::gather(),
            };
            (&gathered, Findings::gather(call, subject, errno, &gathered))
        }
    };
    let name = subject.map(|subject| {
        let pmu = facts.pmu(subject.attr.type_).map(|pmu| pmu.name());
        name::name_with(&subject.attr, pmu)
    });
    (diagnose(call, subject, errno, facts, &findings), name)
}

/// The few facts that explain the refusal that everybody meets in virtual machines without a PMU.
fn without_cpu_pmu(call: &Call, errno: Errno) -> Option<&'static Facts> {
    is_for_want_of_cpu_events(call, errno).then(Facts::without_cpu_pmu).flatten()
}

/// Whether a call is refused because the cpus have no such event: a property of the machine.
pub(crate) fn is_for_want_of_cpu_events(call: &Call, errno: Errno) -> bool {
    let Call::Open { attr, flags, .. } = call else { return false };
    let is_of_a_cpu = match attr.type_ {
        EventType::HARDWARE | EventType::HW_CACHE => Hardware::from_config(attr.config).1 == EventType(0),
        type_ => type_ == EventType::RAW,
    };
    is_of_a_cpu && errno == Errno::ENOENT && !flags.contains(OpenFlags::PID_CGROUP)
}

/// The reason for `errno`, on a system of which `facts` and `findings` are known. `subject` is the event
/// of a call other than [`Call::Open`].
pub fn diagnose(
    call: &Call,
    subject: Option<&Subject>,
    errno: Errno,
    facts: &Facts,
    findings: &Findings,
) -> Diagnosis {
    let found = match call {
        Call::Open { attr, pid, cpu, leader, flags } => {
            let (pid, cpu, leader, flags) = (*pid, *cpu, leader.as_deref(), *flags);
            open(&Open { attr, pid, cpu, leader, flags, errno, facts, findings })
        }
        _ => opened::diagnose(call, subject, errno, facts, findings),
    };
    found.unwrap_or_else(|| common(errno, facts))
}

fn open(open: &Open<'_>) -> Option<Diagnosis> {
    access::guarded(open).or_else(|| match open.errno {
        Errno::EACCES => access::eacces(open),
        Errno::EPERM => access::eperm(open),
        Errno::ENOSYS => missing::enosys(open),
        Errno::ENOENT => missing::enoent(open),
        Errno::ENODEV => missing::enodev(open),
        Errno::ESRCH => missing::esrch(open),
        Errno::EBADF => missing::ebadf(open),
        Errno::EOPNOTSUPP => missing::eopnotsupp(open),
        Errno::EBUSY => missing::ebusy(open),
        Errno::ENOSPC => missing::enospc(open),
        Errno::EINVAL => invalid::einval(open),
        Errno::E2BIG => invalid::e2big(open),
        Errno::EOVERFLOW => invalid::eoverflow(open),
        Errno(libc_eilseq) if libc_eilseq == EILSEQ => Some(Diagnosis::new(
            Cause::ProbePlace,
            "the address is not at the start of an instruction (rule J52)",
        )),
        _ => None,
    })
}

/// Why so many descriptors could not be had: for those who know how many they wanted.
pub(crate) fn too_few_files(needed: u64, facts: &Facts) -> Diagnosis {
    let limit = facts.open_files.map_or_else(String::new, |limit| {
        format!(
            ", and this process may have {} (soft limit {}, hard limit {})",
            limit.hard, limit.soft, limit.hard
        )
    });
    let text = format!("{needed} descriptors are needed, one for each event on each target{limit}");
    Diagnosis::new(Cause::OpenFiles, text).remedies(remedy::open_files(facts, Some(needed)))
}

/// Same number on every architecture but mips, sparc and alpha.
const EILSEQ: i32 = 84;

/// Reasons that are the same whatever was called.
fn common(errno: Errno, facts: &Facts) -> Diagnosis {
    match errno {
        Errno::EMFILE => {
            let limit = facts.open_files.map_or_else(String::new, |limit| {
                let open = facts.open_now.map_or_else(String::new, |open| format!("{open} open, "));
                format!(" ({open}limit {})", limit.soft)
            });
            let text = format!("this process has as many descriptors as it may have{limit}");
            Diagnosis::new(Cause::OpenFiles, text).remedies(remedy::open_files(facts, None))
        }
        Errno::ENFILE => {
            Diagnosis::new(Cause::SystemFiles, "the system has as many open files as it may have")
                .remedy("sudo sysctl fs.file-max=1000000")
        }
        Errno::ENOMEM => Diagnosis::new(Cause::Memory, "the kernel could not get the memory for it")
            .remedy("ask for less: smaller rings, fewer events"),
        Errno::EAGAIN => Diagnosis::new(Cause::TryAgain, "a passing shortage; trying again may work"),
        Errno::EINTR => Diagnosis::new(Cause::Interrupted, "a signal came first; trying again works"),
        Errno::EFAULT => Diagnosis::new(Cause::BadPointer, "the memory passed cannot be read or written"),
        Errno::EBADF => Diagnosis::new(Cause::NotAnEvent, "the descriptor is not that of an event"),
        Errno::ENODEV => Diagnosis::new(Cause::PmuGone, "the PMU of the event is gone"),
        _ => Diagnosis::new(Cause::Unknown, "none of the known reasons applies"),
    }
}
