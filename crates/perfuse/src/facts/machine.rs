//! The facts that stay the same while a process runs: the kernel, the processor, and the kind of
//! machine and container. They are read once.

use super::parse::{self, Flavour};
use super::read;
use crate::pmu::parse_cpu_list;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

/// See the fields of the same names of [`Facts`](super::Facts).
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) release: String,
    pub(super) flavour: Flavour,
    pub(super) security_modules: Option<Vec<String>>,
    pub(super) possible_cpus: Option<u32>,
    pub(super) cpu_model: Option<String>,
    pub(super) hypervisor: Option<String>,
    pub(super) container: Option<String>,
    pub(super) config: Option<parse::KernelConfig>,
}

impl Machine {
    /// This one; `mounts` is what /proc/self/mountinfo says.
    pub(super) fn get(mounts: &str) -> &'static Self {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        MACHINE.get_or_init(|| Self::read(mounts))
    }

    fn read(mounts: &str) -> Self {
        let release = perfuse_sys::uname_release();
        let version = read("/proc/version").unwrap_or_default();
        // The first processor tells it all, and hundreds of them take long to write.
        let cpuinfo = head("/proc/cpuinfo", 16 << 10);
        Machine {
            flavour: parse::flavour(&version, &release),
            security_modules: read("/sys/kernel/security/lsm")
                .map(|text| text.trim().split(',').map(str::to_owned).collect()),
            possible_cpus: read("/sys/devices/system/cpu/possible")
                .and_then(|text| parse_cpu_list(&text)?.last().map(|last| last + 1)),
            cpu_model: cpuinfo.as_deref().and_then(parse::cpu_model),
            hypervisor: hypervisor_from(cpuinfo.as_deref().unwrap_or_default(), &release),
            container: container(mounts),
            config: read(format!("/boot/config-{release}")).map(|text| parse::KernelConfig::parse(&text)),
            release,
        }
    }
}

/// The first `limit` bytes of a file, if it can be had.
fn head(path: &str, limit: u64) -> Option<String> {
    let mut bytes = Vec::with_capacity(limit.min(8 << 10) as usize);
    fs::File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The hypervisor alone, which takes a few files instead of dozens.
pub(super) fn hypervisor() -> Option<String> {
    let cpuinfo = head("/proc/cpuinfo", 4 << 10).unwrap_or_default();
    hypervisor_from(&cpuinfo, &perfuse_sys::uname_release())
}

fn hypervisor_from(cpuinfo: &str, release: &str) -> Option<String> {
    let clocks = read("/sys/devices/system/clocksource/clocksource0/available_clocksource");
    let dmi = ["sys_vendor", "product_name"].map(|name| read(format!("/sys/class/dmi/id/{name}")));
    let dmi = dmi.map(Option::unwrap_or_default).join(" ");
    let device_tree = read("/proc/device-tree/hypervisor/compatible").unwrap_or_default();
    let xen = read("/sys/hypervisor/type").unwrap_or_default();
    parse::hypervisor(cpuinfo, release, &dmi, &clocks.unwrap_or_default(), &device_tree, &xen)
}

/// Whether processes, host name and IPC are those the system was booted with, whose inodes have fixed numbers
/// (`include/linux/proc_ns.h`).
fn in_initial_namespaces() -> bool {
    [("pid", 0xEFFF_FFFC_u32), ("uts", 0xEFFF_FFFE), ("ipc", 0xEFFF_FFFF)].iter().all(|(kind, inode)| {
        let link = fs::read_link(format!("/proc/self/ns/{kind}"));
        link.is_ok_and(|link| link.as_os_str() == format!("{kind}:[{inode}]").as_str())
    })
}

fn container(mountinfo: &str) -> Option<String> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let marks = parse::ContainerMarks {
        docker_file: Path::new("/.dockerenv").exists(),
        podman_file: read("/run/.containerenv"),
        systemd: read("/run/systemd/container").or_else(|| std::env::var("container").ok()),
        cgroup_of_init: read("/proc/1/cgroup").unwrap_or_default(),
        mounts: mountinfo.to_owned(),
        initial_namespaces: in_initial_namespaces(),
        kubernetes: !variable("KUBERNETES_SERVICE_HOST").is_empty(),
    };
    parse::container(&marks)
}
