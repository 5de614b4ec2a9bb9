//! Facts of the running system that decide what `perf_event_open(2)` allows:
//! settings, rights, limits, PMUs, and the kind of machine. Reading is done here; the texts
//! are understood in [`parse`], which is tested with those of other machines.
//!
//! A file that is absent or unreadable is `None`. Nothing is guessed: a container without
//! `/proc/sys/kernel/perf_event_paranoid` has no known level.

mod machine;
pub mod parse;

use crate::pmu::{Pmu, parse_cpu_list};
use parse::Flavour;
use perfuse_abi::{EventType, Release};
use perfuse_proc::Status;
pub use perfuse_sys::limits::Limit;
use perfuse_sys::{Errno, limits};
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Everything a diagnosis is made from. Gathered in well under a millisecond.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// `uname -r`.
    pub release: String,
    /// The origin of the kernel, as `/proc/version` tells.
    pub flavour: Flavour,
    /// The architecture this program was built for, such as `x86_64`.
    pub arch: &'static str,
    /// Bytes per page.
    pub page_bytes: usize,
    /// Effective user id.
    pub uid: Option<u32>,
    /// Effective capabilities.
    pub capabilities: Option<Capabilities>,
    /// Capabilities that root, or a program with file capabilities, can have here.
    pub bounding: Option<Capabilities>,
    /// Whether this process and its children can never gain privileges: sudo does not work.
    pub no_new_privileges: Option<bool>,
    /// Whether this is the initial user namespace: capabilities of any other do not count for
    /// perf_events.
    pub initial_user_namespace: Option<bool>,
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Option<i64>,
    /// `kernel.perf_event_mlock_kb`: KiB of ring per user and cpu beyond `RLIMIT_MEMLOCK`.
    pub mlock_kib: Option<i64>,
    /// `kernel.perf_event_max_sample_rate` in Hz.
    pub max_sample_rate: Option<i64>,
    /// `kernel.perf_cpu_time_max_percent`.
    pub cpu_time_max_percent: Option<i64>,
    /// `kernel.perf_event_max_stack`: frames per callchain.
    pub max_stack: Option<i64>,
    /// `kernel.kptr_restrict`.
    pub kptr_restrict: Option<i64>,
    /// `kernel.nmi_watchdog`: 1 takes a hardware counter of every cpu.
    pub nmi_watchdog: Option<i64>,
    /// `kernel.yama.ptrace_scope`.
    pub ptrace_scope: Option<i64>,
    /// `kernel.perf_user_access` (arm64).
    pub user_access: Option<i64>,
    /// Whether `/proc/sys` is mounted so that nothing there can be changed, as containers do.
    pub read_only_sysctls: Option<bool>,
    /// Kernel lockdown: `none`, `integrity` or `confidentiality`.
    pub lockdown: Option<String>,
    /// Active security modules.
    pub security_modules: Option<Vec<String>>,
    /// Whether a seccomp filter is in force.
    pub seccomp_filter: Option<bool>,
    /// Whether the system call reaches a kernel that knows it, or what is answered in its place.
    pub reachable: Result<(), Errno>,
    /// `RLIMIT_NOFILE`.
    pub open_files: Option<Limit>,
    /// Descriptors this process has open.
    pub open_now: Option<usize>,
    /// `RLIMIT_MEMLOCK` in bytes.
    pub locked_bytes: Option<Limit>,
    /// Bytes that count towards `RLIMIT_MEMLOCK` for rings already (`VmPin`).
    pub pinned_bytes: Option<u64>,
    /// The PMUs of `/sys/bus/event_source/devices`, by type.
    pub pmus: Option<Vec<Pmu>>,
    /// Where the tracing file system is.
    pub tracefs: Option<Tracefs>,
    /// The refusal of a mount of this process's own, where it is not mounted and was needed.
    pub tracefs_refused: Option<Errno>,
    /// The cpus that are on.
    pub online_cpus: Option<Vec<u32>>,
    /// One more than the highest cpu number there can be.
    pub possible_cpus: Option<u32>,
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// The hypervisor this runs on: a name, or `a hypervisor` where only that much is known. `None`
    /// where no trace of one is found.
    pub hypervisor: Option<String>,
    /// The kind of container this runs in, such as `docker`; `None` where no trace of one is found.
    pub container: Option<String>,
    /// Where cgroups that events can be bound to are: version 2, or the version 1 hierarchy of the
    /// perf_event controller.
    pub cgroups: Option<PathBuf>,
    /// Whether the kernel was built with these options, from `/boot/config-*` where that is readable.
    pub config: Option<parse::KernelConfig>,
}

/// The tracing file system.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tracefs {
    /// Where it is mounted, or should be.
    pub path: PathBuf,
    /// Whether this user can list its events.
    pub readable: bool,
}

/// A set of capabilities, as the kernel numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Those that matter for perf_events, with their names.
    pub const NAMES: [(Capabilities, &'static str); 6] = [
        (Self::PERFMON, "CAP_PERFMON"),
        (Self::SYS_ADMIN, "CAP_SYS_ADMIN"),
        (Self::SYS_PTRACE, "CAP_SYS_PTRACE"),
        (Self::IPC_LOCK, "CAP_IPC_LOCK"),
        (Self::SYS_RESOURCE, "CAP_SYS_RESOURCE"),
        (Self::KILL, "CAP_KILL"),
    ];
    /// Signals to anybody.
    pub const KILL: Self = Self(1 << 5);
    /// No limit of locked memory.
    pub const IPC_LOCK: Self = Self(1 << 14);
    /// Debugging anybody.
    pub const SYS_PTRACE: Self = Self(1 << 19);
    /// Nearly everything.
    pub const SYS_ADMIN: Self = Self(1 << 21);
    /// Raising limits.
    pub const SYS_RESOURCE: Self = Self(1 << 24);
    /// Measuring anything (Linux 5.8).
    pub const PERFMON: Self = Self(1 << 38);

    /// Whether it has all of `other`.
    pub fn contains(self, other: Capabilities) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for Capabilities {
    /// The names of those that matter here, or "none".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> =
            Self::NAMES.iter().filter(|(one, _)| self.contains(*one)).map(|(_, name)| *name).collect();
        f.write_str(&if names.is_empty() { "none".to_owned() } else { names.join(", ") })
    }
}

impl Facts {
    /// Reads them now; what cannot change while a process runs, only the first time.
    pub fn gather() -> Self {
        let status = perfuse_proc::read::own_status().unwrap_or_default();
        let mounts = read("/proc/self/mountinfo");
        let machine = machine::Machine::get(mounts.as_deref().unwrap_or_default());
        Facts {
            release: machine.release.clone(),
            flavour: machine.flavour,
            arch: std::env::consts::ARCH,
            page_bytes: perfuse_sys::page_size(),
            uid: Status(&status).effective_user(),
            capabilities: Status(&status).set("CapEff").map(Capabilities),
            bounding: Status(&status).set("CapBnd").map(Capabilities),
            no_new_privileges: parse::status_number(&status, "NoNewPrivs").map(|set| set == 1),
            initial_user_namespace: initial_user_namespace(),
            paranoid: sysctl("perf_event_paranoid"),
            mlock_kib: sysctl("perf_event_mlock_kb"),
            max_sample_rate: sysctl("perf_event_max_sample_rate"),
            cpu_time_max_percent: sysctl("perf_cpu_time_max_percent"),
            max_stack: sysctl("perf_event_max_stack"),
            kptr_restrict: sysctl("kptr_restrict"),
            nmi_watchdog: sysctl("nmi_watchdog"),
            ptrace_scope: sysctl("yama/ptrace_scope"),
            user_access: sysctl("perf_user_access"),
            read_only_sysctls: mounts.as_deref().map(parse::read_only_sysctls),
            lockdown: read("/sys/kernel/security/lockdown").and_then(|text| parse::selected(&text)),
            security_modules: machine.security_modules.clone(),
            seccomp_filter: parse::status_number(&status, "Seccomp").map(|mode| mode == 2),
            reachable: perfuse_sys::perf_event_open_is_reachable(),
            open_files: limits::open_files().ok(),
            open_now: fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count().saturating_sub(1)),
            locked_bytes: limits::locked_bytes().ok(),
            pinned_bytes: parse::status_number(&status, "VmPin").map(|kib| kib * 1024),
            pmus: pmus(),
            tracefs: tracefs(mounts.as_deref().unwrap_or_default()),
            tracefs_refused: crate::mounted::own().and_then(Result::err),
            online_cpus: read("/sys/devices/system/cpu/online").and_then(|text| parse_cpu_list(&text)),
            possible_cpus: machine.possible_cpus,
            cpu_model: machine.cpu_model.clone(),
            hypervisor: machine.hypervisor.clone(),
            container: machine.container.clone(),
            cgroups: mounts.as_deref().and_then(parse::event_cgroups),
            config: machine.config,
        }
    }

    /// Where this machine has no PMU of a processor: all that a refused hardware event is explained by then. Looked for once in a
    /// process, as such a PMU does not come later.
    pub(crate) fn without_cpu_pmu() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Facts>> = OnceLock::new();
        let find = || {
            let reachable = perfuse_sys::perf_event_open_is_reachable();
            let facts = Facts { reachable, pmus: pmus(), ..Facts::unknown() };
            let is_without = reachable.is_ok() && facts.cpu_pmus().next().is_none();
            is_without.then(|| Facts { hypervisor: machine::hypervisor(), ..facts })
        };
        FOUND.get_or_init(find).as_ref()
    }

    /// A system about which nothing is known: the base for tests with another machine's facts.
    pub fn unknown() -> Self {
        Facts {
            release: String::new(),
            flavour: Flavour::Linux,
            arch: std::env::consts::ARCH,
            page_bytes: 4096,
            uid: None,
            capabilities: None,
            bounding: None,
            no_new_privileges: None,
            initial_user_namespace: None,
            paranoid: None,
            mlock_kib: None,
            max_sample_rate: None,
            cpu_time_max_percent: None,
            max_stack: None,
            kptr_restrict: None,
            nmi_watchdog: None,
            ptrace_scope: None,
            user_access: None,
            read_only_sysctls: None,
            lockdown: None,
            security_modules: None,
            seccomp_filter: None,
            reachable: Ok(()),
            open_files: None,
            open_now: None,
            locked_bytes: None,
            pinned_bytes: None,
            pmus: None,
            tracefs: None,
            tracefs_refused: None,
            online_cpus: None,
            possible_cpus: None,
            cpu_model: None,
            hypervisor: None,
            container: None,
            cgroups: None,
            config: None,
        }
    }

    /// The running kernel's release in numbers.
    pub fn kernel(&self) -> Option<Release> {
        Release::parse(&self.release)
    }

    /// Whether this process has the capability where it counts: in the initial user namespace.
    pub fn capable(&self, capability: Capabilities) -> bool {
        self.capabilities.is_some_and(|own| own.contains(capability))
            && self.initial_user_namespace.unwrap_or(true)
    }

    /// Whether this process is exempt from `perf_event_paranoid` (rule B-perm): `CAP_SYS_ADMIN`, or from
    /// Linux 5.8 on `CAP_PERFMON`, in the initial user namespace.
    pub fn may_monitor(&self) -> bool {
        let perfmon_exists = self.kernel().is_none_or(|release| release >= Release::new(5, 8));
        self.capable(Capabilities::SYS_ADMIN) || perfmon_exists && self.capable(Capabilities::PERFMON)
    }

    /// Whether another user of this very place, namely root, has the capability where this one has not,
    /// and can be reached by `sudo`.
    pub fn root_has(&self, capability: Capabilities) -> bool {
        self.uid != Some(0)
            && self.bounding.is_some_and(|bounding| bounding.contains(capability))
            && self.initial_user_namespace.unwrap_or(true)
            && self.no_new_privileges != Some(true)
    }

    /// The level from which this kernel refuses perf_event_open altogether to users without privilege;
    /// mainline has none (rule B-perm).
    pub fn closed_level(&self) -> Option<i64> {
        match self.flavour {
            Flavour::Debian | Flavour::Android => Some(3),
            Flavour::Ubuntu => Some(4),
            _ => None,
        }
    }

    /// The PMU with this `attr.type`.
    pub fn pmu(&self, type_: EventType) -> Option<&Pmu> {
        self.pmus.iter().flatten().find(|pmu| pmu.event_type() == type_)
    }

    /// The PMU of this name.
    pub fn pmu_named(&self, name: &str) -> Option<&Pmu> {
        self.pmus.iter().flatten().find(|pmu| pmu.name() == name)
    }

    /// The PMUs that count cycles and instructions: none in many virtual machines, two kinds on hybrid
    /// processors.
    pub fn cpu_pmus(&self) -> impl Iterator<Item = &Pmu> {
        self.pmus.iter().flatten().filter(|pmu| pmu.is_cpu())
    }

    /// Whether rings of this process may take any amount of locked memory (rule F20).
    pub fn locks_without_limit(&self) -> bool {
        self.paranoid.is_some_and(|level| level < 0) || self.capable(Capabilities::IPC_LOCK)
    }

    /// How many bytes of ring one user may map on all cpus together before `RLIMIT_MEMLOCK` is charged
    /// (rule F20).
    pub fn ring_share_bytes(&self) -> Option<u64> {
        let page_kib = self.page_bytes as u64 / 1024;
        let pages = u64::try_from(self.mlock_kib?).unwrap_or(0) / page_kib.max(1);
        Some(pages * self.online_cpus.as_ref()?.len() as u64 * self.page_bytes as u64)
    }
}

/// The text of a file, if it can be had.
fn read(path: impl AsRef<Path>) -> Option<String> {
    // Files of /proc do not tell their size: with room for most of them, two reads do.
    let mut bytes = Vec::with_capacity(8 << 10);
    fs::File::open(path).ok()?.read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A number below /proc/sys/kernel.
fn sysctl(name: &str) -> Option<i64> {
    read(Path::new("/proc/sys/kernel").join(name))?.trim().parse().ok()
}

/// The initial user namespace has a fixed inode number; without /proc/self/ns, the map of user ids tells
/// most others apart.
fn initial_user_namespace() -> Option<bool> {
    match fs::read_link("/proc/self/ns/user") {
        Ok(link) => Some(link.as_os_str() == "user:[4026531837]"),
        Err(_) => read("/proc/self/uid_map").map(|text| parse::maps_every_id(&text)),
    }
}

fn pmus() -> Option<Vec<Pmu>> {
    let mut pmus = Pmu::list().ok()?;
    pmus.sort_by_key(|pmu| pmu.event_type().0);
    Some(pmus)
}

fn tracefs(mountinfo: &str) -> Option<Tracefs> {
    let places = crate::mounted::PLACES.map(PathBuf::from);
    // Only its owner may look into it by default, so a mount counts even where `events` cannot be seen.
    let mounted = |place: &PathBuf| {
        place.join("events").is_dir() || parse::is_mounted(mountinfo, &place.to_string_lossy(), "tracefs")
    };
    let Some(path) = places.iter().find(|place| mounted(place)).cloned() else {
        let [usual, _] = places;
        return matches!(crate::mounted::own(), Some(Ok(())))
            .then_some(Tracefs { path: usual, readable: true });
    };
    let readable = fs::read_dir(path.join("events")).is_ok();
    Some(Tracefs { path, readable })
}
