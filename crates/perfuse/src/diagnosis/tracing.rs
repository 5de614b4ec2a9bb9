//! Why the tracing file system cannot be read, in which names and ids of tracepoints are.

use super::access::unreachable;
use super::{Cause, Diagnosis, remedy};
use crate::facts::{Capabilities, Facts};
use crate::mounted::PLACES;
use perfuse_sys::Errno;
use std::path::Path;

/// Whether a file is in there.
pub(super) fn has(path: &Path) -> bool {
    PLACES.iter().any(|place| path.starts_with(place))
}

/// For a file in there.
pub(super) fn file(errno: Errno, facts: &Facts) -> Option<Diagnosis> {
    match errno {
        Errno::EACCES | Errno::EPERM | Errno::ENOENT | Errno::ENOTDIR if facts.tracefs.is_none() => {
            Some(unmounted(facts))
        }
        Errno::EACCES | Errno::EPERM => {
            let text =
                "the tracing file system is closed to this user; tracepoint names and ids are in there";
            let group = "for a group: sudo mount -o remount,gid=GROUP,mode=750 /sys/kernel/tracing";
            Some(Diagnosis::new(Cause::FilePermission, text).remedy("run it with sudo").remedy(group))
        }
        Errno::ENOENT | Errno::ENOTDIR => {
            Some(Diagnosis::new(Cause::UnknownTracepoint, "this kernel has no such tracepoint"))
        }
        _ => None,
    }
}

/// The tracing file system is mounted nowhere that this process sees. Where every tracepoint is refused for another
/// reason too, that one gives the cause and the remedies.
fn unmounted(facts: &Facts) -> Diagnosis {
    const TEXT: &str = "the tracing file system, where names and ids of tracepoints are, is not mounted here";
    if let Err(answer) = facts.reachable {
        let refusal = unreachable(facts, answer);
        let text = format!("{TEXT}, and no tracepoint could be opened: {}", refusal.explanation);
        return Diagnosis { explanation: text, ..refusal };
    }
    let told = |text: &str| Diagnosis::new(Cause::NoFile, format!("{TEXT}{text}"));
    if facts.initial_user_namespace == Some(false) {
        return told(", and the root of a user namespace may not mount it")
            .remedies(remedy::privilege(facts, true));
    }
    const MOUNT: &str = "mount -t tracefs tracefs /sys/kernel/tracing";
    match facts.tracefs_refused {
        Some(Errno::ENODEV) => {
            return told(": the kernel was built without tracing (CONFIG_TRACING)")
                .remedy("use events that are no tracepoints: perfuse list");
        }
        Some(errno) if facts.capable(Capabilities::SYS_ADMIN) => {
            let text =
                format!(", and a filter or a security module refuses to mount it, even to root ({errno:?})");
            return told(&text).remedy(format!("on the host: {MOUNT}"));
        }
        None if facts.capable(Capabilities::SYS_ADMIN) => return told("").remedy(MOUNT),
        _ => {}
    }
    if let Some(engine @ ("docker" | "podman")) = facts.container.as_deref() {
        return told(&format!(" in this {engine} container, and only root of the host may mount it")).remedy(format!(
            "{engine} run --user root --cap-add PERFMON -v /sys/kernel/tracing:/sys/kernel/tracing:ro …, once the host \
             has mounted it"
        ));
    }
    if facts.root_has(Capabilities::SYS_ADMIN) {
        return told(", and this user may not mount it; root needs no mount").remedy("run it with sudo");
    }
    told(", and this user may not mount it").remedies(remedy::privilege(facts, true))
}
