//! Advice, fitted to whom it is given to: what a container's user can do is not what an administrator
//! can do, and nobody is told what cannot help him.

use crate::facts::parse::Flavour;
use crate::facts::{Capabilities, Facts};
use perfuse_abi::{Attr, Release, SampleType};

/// "on the host: " where settings of the kernel cannot be changed from here.
fn elsewhere(facts: &Facts) -> &'static str {
    let inside = facts.read_only_sysctls == Some(true) || facts.initial_user_namespace == Some(false);
    if inside { "on the host: " } else { "" }
}

/// Sets a sysctl of the kernel.
pub(super) fn sysctl(facts: &Facts, name: &str, value: impl std::fmt::Display) -> String {
    let sudo = if facts.uid == Some(0) && elsewhere(facts).is_empty() { "" } else { "sudo " };
    format!("{}{sudo}sysctl kernel.{name}={value}", elsewhere(facts))
}

/// Lowers `perf_event_paranoid` to `level`.
pub(super) fn paranoid(facts: &Facts, level: i64) -> String {
    sysctl(facts, "perf_event_paranoid", level)
}

/// Ways to the privilege that overrides `perf_event_paranoid`: `CAP_PERFMON`, or `CAP_SYS_ADMIN` where
/// the kernel is older than that, or (`full`) does not accept it.
pub(super) fn privilege(facts: &Facts, full: bool) -> Vec<String> {
    let perfmon = !full && facts.kernel().is_none_or(|release| release >= Release::new(5, 8));
    let name = if perfmon { "PERFMON" } else { "SYS_ADMIN" };
    if facts.initial_user_namespace == Some(false) {
        return vec![
            "run it outside this user namespace: capabilities inside it do not count for perf_events"
                .to_owned(),
        ];
    }
    let capability = if perfmon { Capabilities::PERFMON } else { Capabilities::SYS_ADMIN };
    let mut remedies = Vec::new();
    if facts.root_has(capability) {
        remedies.push("run it with sudo".to_owned());
    }
    // In a container capabilities are given to its root.
    let root = if facts.uid == Some(0) { "" } else { "--user root " };
    match facts.container.as_deref() {
        // Its root has the capability, so the container is not what is in the way.
        Some(_) if facts.root_has(capability) => {}
        Some("kubernetes") => remedies.push(format!(
            "in the pod's container: securityContext: {{ capabilities: {{ add: [\"{name}\"] }} }}"
        )),
        Some(engine @ ("docker" | "podman")) => {
            remedies.push(format!("{engine} run {root}--cap-add {name} …"));
        }
        Some("lxc") => remedies.push(format!("drop {} from lxc.cap.drop", name.to_ascii_lowercase())),
        Some(other) => remedies.push(format!("give the {other} container CAP_{name}")),
        None if facts.uid == Some(0) => {
            remedies.push(format!("give this process CAP_{name}, which its root has lost"));
        }
        None if facts.no_new_privileges == Some(true) => {
            remedies
                .push("run it outside this sandbox, whose no_new_privs keeps sudo from working".to_owned());
        }
        None => {}
    }
    if facts.root_has(capability) {
        remedies.push(format!("sudo setcap cap_{}=ep PROGRAM, once", name.to_ascii_lowercase()));
    }
    remedies
}

/// Ways past a seccomp filter.
pub(super) fn seccomp(facts: &Facts) -> Vec<String> {
    match facts.container.as_deref() {
        Some("kubernetes") => vec![
            "in the pod's container: securityContext: { seccompProfile: { type: Unconfined } }, or a \
             Localhost profile that allows perf_event_open"
                .to_owned(),
        ],
        Some(engine @ ("docker" | "podman")) => {
            // Newer default profiles allow the call to those who have the capability.
            let capable = facts.capabilities.is_some_and(|own| own.contains(Capabilities::PERFMON));
            let by_default = (!capable).then(|| {
                format!("{engine} run --cap-add PERFMON … (newer default profiles then allow the call)")
            });
            let profile = format!(
                "{engine} run --security-opt seccomp=FILE …, with a profile that allows perf_event_open"
            );
            let none = format!("{engine} run --security-opt seccomp=unconfined …");
            by_default.into_iter().chain([profile, none]).collect()
        }
        Some(other) => vec![format!("allow perf_event_open in the {other} container's seccomp profile")],
        None => vec![
            "allow perf_event_open where the filter comes from: a sandbox, a CI runner, or a systemd unit \
             (SystemCallFilter=perf_event_open)"
                .to_owned(),
        ],
    }
}

/// Ways to a PMU for cycles and instructions, and what an event could do without one.
pub(super) fn hardware_pmu(facts: &Facts, attr: &Attr) -> Vec<String> {
    let own = match facts.hypervisor.as_deref() {
        Some("VMware") => Some("in the virtual machine's settings: virtualize CPU performance counters"),
        Some("Hyper-V") => Some("on the host: Set-VMProcessor NAME -Perfmon @(\"pmu\")"),
        Some("Hyper-V (WSL 2)" | "VirtualBox" | "Apple Virtualization" | "Parallels") => None,
        Some("KVM" | "QEMU" | "a hypervisor") => {
            Some("on the host: QEMU -cpu host,pmu=on; in a cloud: a type with a virtual PMU (often *.metal)")
        }
        Some("Xen") => Some("on the host: boot Xen with vpmu=on"),
        Some(_) => Some("pick a machine type with a virtual PMU, or bare metal (often *.metal)"),
        None => Some("look for the reason in: dmesg | grep -i -e perf -e pmu"),
    };
    let instead = match attr.sample_type.contains(SampleType::BRANCH_STACK) {
        true => "nothing else records branches; samples by cpu-clock can have callchains",
        false => "use software events: task-clock, page-faults, context-switches; sample by cpu-clock",
    };
    own.into_iter().chain([instead]).map(str::to_owned).collect()
}

/// Raises the limit of descriptors to `needed`, where that is known.
pub(super) fn open_files(facts: &Facts, needed: Option<u64>) -> Vec<String> {
    let Some(limit) = facts.open_files else { return vec!["ulimit -n 65536".to_owned()] };
    let mut remedies = Vec::new();
    if limit.hard > limit.soft && needed.is_none_or(|needed| needed <= limit.hard) {
        remedies.push(format!("ulimit -n {}", limit.hard));
    }
    if needed.is_none_or(|needed| needed > limit.hard) {
        let number = needed.unwrap_or(limit.hard.saturating_mul(4)).next_multiple_of(1000);
        match facts.container.as_deref() {
            Some(engine @ ("docker" | "podman")) => {
                remedies.push(format!("{engine} run --ulimit nofile={number} …"));
            }
            _ if facts.capable(Capabilities::SYS_RESOURCE) => {
                // With this right perfuse has raised the limit already, as far as the system lets anybody.
                remedies.push(format!("sysctl fs.nr_open={number}"));
            }
            _ if facts.root_has(Capabilities::SYS_RESOURCE) => {
                remedies.push(format!("sudo prlimit --pid $$ --nofile={number}: for this shell"));
                remedies.push(
                    "for every login: nofile in /etc/security/limits.conf; of a service: LimitNOFILE="
                        .to_owned(),
                );
            }
            _ => remedies.push(format!("have the hard limit raised to {number} (RLIMIT_NOFILE)")),
        }
    }
    remedies.push("measure fewer events, threads or cpus at once: each takes one descriptor".to_owned());
    remedies
}

/// Gives rings more memory: `wanted` bytes for this one.
pub(super) fn ring_memory(facts: &Facts, wanted: u64) -> Vec<String> {
    let mut remedies = vec!["use smaller rings (fewer pages), or fewer of them".to_owned()];
    if facts.locked_bytes.is_some_and(|limit| limit.hard > limit.soft && limit.hard >= wanted) {
        remedies.push("raise the soft limit: ulimit -l $(ulimit -H -l)".to_owned());
    }
    // Each cpu has such a ring, and such a share.
    let share = u64::try_from(facts.mlock_kib.unwrap_or(0)).unwrap_or(0);
    remedies.push(sysctl(facts, "perf_event_mlock_kb", share + wanted.div_ceil(1024)));
    match facts.container.as_deref() {
        Some(engine @ ("docker" | "podman")) => {
            remedies.push(format!("{engine} run --cap-add IPC_LOCK …, or --ulimit memlock=-1"));
        }
        _ if facts.uid == Some(0) => {}
        _ => remedies
            .push("give the program CAP_IPC_LOCK: sudo setcap cap_ipc_lock,cap_perfmon=ep PROGRAM".into()),
    }
    remedies
}

/// Other ways for the user of a kernel without perf_events.
pub(super) fn other_kernel(facts: &Facts) -> Vec<String> {
    match facts.flavour {
        Flavour::GVisor => vec!["run the container with the host's kernel: --runtime runc".to_owned()],
        Flavour::Wsl1 => vec!["wsl --set-version DISTRIBUTION 2".to_owned()],
        _ => Vec::new(),
    }
}
