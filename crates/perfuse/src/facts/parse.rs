//! Texts of /proc, /sys and /boot, understood. No file is opened here.

use perfuse_proc::Status;
use std::path::PathBuf;

/// The origin of a kernel, as far as it changes the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flavour {
    /// Mainline, or nothing that matters here.
    Linux,
    /// Debian: `perf_event_paranoid` 3 closes perf_events to users without privilege.
    Debian,
    /// Ubuntu: level 4 does.
    Ubuntu,
    /// Android: level 3 does.
    Android,
    /// Windows Subsystem for Linux, in its virtual machine.
    Wsl2,
    /// Windows Subsystem for Linux, first version: Windows itself answers the system calls.
    Wsl1,
    /// gVisor: a user-space kernel answers the system calls.
    GVisor,
}

/// Options the kernel was built with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelConfig {
    /// `CONFIG_PERF_EVENTS`.
    pub perf_events: bool,
    /// `CONFIG_KPROBE_EVENTS`.
    pub kprobes: bool,
    /// `CONFIG_UPROBE_EVENTS`.
    pub uprobes: bool,
    /// `CONFIG_CGROUP_PERF`.
    pub cgroups: bool,
}

impl KernelConfig {
    /// Reads the text of a `/boot/config-*`.
    pub fn parse(text: &str) -> Self {
        let on = |name: &str| {
            text.lines()
                .any(|line| line.strip_prefix(name).is_some_and(|rest| matches!(rest.trim(), "=y" | "=m")))
        };
        KernelConfig {
            perf_events: on("CONFIG_PERF_EVENTS"),
            kprobes: on("CONFIG_KPROBE_EVENTS"),
            uprobes: on("CONFIG_UPROBE_EVENTS"),
            cgroups: on("CONFIG_CGROUP_PERF"),
        }
    }
}

/// Tells the flavour from `/proc/version` and `uname -r`.
pub fn flavour(version: &str, release: &str) -> Flavour {
    // gVisor gives this constant for the version of its kernel.
    if version.contains("gVisor") || version.contains("Sun Jan 10 15:06:54 PST 2016") {
        Flavour::GVisor
    } else if release.contains("-WSL2") || release.contains("microsoft-standard") {
        Flavour::Wsl2
    } else if release.ends_with("-Microsoft") {
        Flavour::Wsl1
    } else if version.contains("android") || release.contains("-android") {
        Flavour::Android
    // The compiler's name does not count: people build mainline on Debian and Ubuntu too.
    } else if version.contains("-Ubuntu ") {
        Flavour::Ubuntu
    } else if version.contains("debian-kernel@lists.debian.org") {
        Flavour::Debian
    } else {
        Flavour::Linux
    }
}

/// A decimal value of `/proc/PID/status`, without its unit.
pub fn status_number(status: &str, name: &str) -> Option<u64> {
    Status(status).words(name).next()?.parse().ok()
}

/// The choice in brackets, as in `none [integrity] confidentiality`.
pub fn selected(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(choice, _)| choice.to_owned())
}

/// Whether a `uid_map` maps every id to itself, as that of the initial namespace does.
pub fn maps_every_id(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The processor's name in `/proc/cpuinfo`; arm64 names none.
pub fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value =
        |key| cpuinfo.lines().find_map(|line| line.strip_prefix(key)?.split_once(':')).map(|(_, v)| v);
    let name = value("model name").or_else(|| value("cpu model")).or_else(|| value("Model"))?;
    Some(name.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The hypervisor below, by whatever betrays it.
pub fn hypervisor(
    cpuinfo: &str,
    release: &str,
    dmi: &str,
    clock_sources: &str,
    device_tree: &str,
    sys_hypervisor: &str,
) -> Option<String> {
    const VENDORS: [(&str, &str); 12] = [
        ("VMware", "VMware"),
        ("VirtualBox", "VirtualBox"),
        ("Parallels", "Parallels"),
        ("Amazon EC2", "Amazon EC2"),
        ("Google", "Google Compute Engine"),
        ("Microsoft Corporation Virtual Machine", "Hyper-V"),
        ("Apple Virtualization", "Apple Virtualization"),
        ("Alibaba Cloud", "Alibaba Cloud"),
        ("OpenStack", "OpenStack"),
        ("Hetzner", "Hetzner Cloud"),
        ("QEMU", "QEMU"),
        ("KVM", "KVM"),
    ];
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let flagged = flags.split_whitespace().any(|flag| flag == "hypervisor");
    let vendor = VENDORS.iter().find(|(mark, _)| dmi.contains(mark)).map(|(_, name)| *name);
    // A bare-metal instance carries its cloud's name in DMI too; only the processor's flag tells.
    let cloud = matches!(vendor, Some("Amazon EC2" | "Google Compute Engine" | "Alibaba Cloud"));
    let bare_metal = dmi.contains(".metal") || cloud && !flags.is_empty() && !flagged;
    let name = if release.contains("-WSL2") || release.contains("microsoft-standard") {
        "Hyper-V (WSL 2)"
    } else if sys_hypervisor.trim() == "xen" || device_tree.starts_with("xen") {
        "Xen"
    } else if let Some(name) = vendor.filter(|_| !bare_metal) {
        name
    } else if clock_sources.contains("kvm-clock") || device_tree.starts_with("linux,kvm") {
        "KVM"
    } else if clock_sources.contains("hyperv_clocksource") {
        "Hyper-V"
    } else if flagged {
        "a hypervisor"
    } else {
        return None;
    };
    Some(name.to_owned())
}

/// Traces by which a container shows itself.
#[derive(Clone, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "tests of other crates make them")]
pub struct ContainerMarks {
    /// `/.dockerenv` exists.
    pub docker_file: bool,
    /// Text of `/run/.containerenv`, if it exists.
    pub podman_file: Option<String>,
    /// Text of `/run/systemd/container`, or the variable `container`.
    pub systemd: Option<String>,
    /// `/proc/1/cgroup`.
    pub cgroup_of_init: String,
    /// `/proc/self/mountinfo`.
    pub mounts: String,
    /// Variables of a Kubernetes pod are there.
    pub kubernetes: bool,
    /// Processes, host name and IPC are those the system was booted with. A virtual machine made from an
    /// image of Docker's has Docker's file, and is no container.
    pub initial_namespaces: bool,
}

/// The kind of container, if its marks are there.
pub fn container(marks: &ContainerMarks) -> Option<String> {
    let cgroup = &marks.cgroup_of_init;
    let engine = marks.podman_file.as_deref().and_then(|text| {
        let value = text.lines().find_map(|line| line.strip_prefix("engine="))?.trim_matches('"');
        value.split_once('-').map(|(engine, _)| engine.to_owned())
    });
    let name = if marks.kubernetes || cgroup.contains("kubepods") {
        "kubernetes".to_owned()
    } else if marks.podman_file.is_some() || cgroup.contains("libpod") {
        engine.unwrap_or_else(|| "podman".to_owned())
    } else if marks.docker_file && !marks.initial_namespaces
        || cgroup.contains("/docker")
        || marks.mounts.contains("/docker/containers/")
    {
        "docker".to_owned()
    } else if let Some(name) = marks.systemd.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
        name.to_owned()
    } else if cgroup.contains("/lxc") {
        "lxc".to_owned()
    } else if cgroup.contains("containerd") || marks.mounts.contains("containerd") {
        "containerd".to_owned()
    } else {
        return None;
    };
    Some(name)
}

/// One line of `/proc/self/mountinfo`.
struct Mount<'a> {
    place: &'a str,
    options: &'a str,
    file_system: &'a str,
    file_system_options: &'a str,
}

fn mounts(mountinfo: &str) -> impl Iterator<Item = Mount<'_>> {
    mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let (mut before, mut after) = (before.split(' ').skip(4), after.split(' '));
        Some(Mount {
            place: before.next()?,
            options: before.next()?,
            file_system: after.next()?,
            file_system_options: after.nth(1)?,
        })
    })
}

/// Whether a file system of this type is mounted at this place.
pub fn is_mounted(mountinfo: &str, place: &str, file_system: &str) -> bool {
    mounts(mountinfo).any(|mount| mount.place == place && mount.file_system == file_system)
}

/// Whether a read-only mount covers the kernel's settings, as in containers.
pub fn read_only_sysctls(mountinfo: &str) -> bool {
    // The last mount of a place is the one that is seen.
    let covering =
        mounts(mountinfo).filter(|mount| ["/proc", "/proc/sys", "/proc/sys/kernel"].contains(&mount.place));
    covering.last().is_some_and(|mount| mount.options.split(',').any(|option| option == "ro"))
}

/// Where the cgroups that events can be bound to are mounted (rule B19): the version 1 hierarchy with
/// the perf_event controller, or else version 2.
pub fn event_cgroups(mountinfo: &str) -> Option<PathBuf> {
    let of_version_1 = mounts(mountinfo).find(|mount| {
        mount.file_system == "cgroup"
            && mount.file_system_options.split(',').any(|option| option == "perf_event")
    });
    let mount = of_version_1.or_else(|| mounts(mountinfo).find(|mount| mount.file_system == "cgroup2"))?;
    Some(PathBuf::from(mount.place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_many_houses() {
        let of = |version: &str, release: &str| flavour(version, release);
        let debian = "Linux version 6.12.48+deb13-amd64 (debian-kernel@lists.debian.org) (x86_64-linux-gnu-gcc-14 \
                      (Debian 14.2.0-19) 14.2.0, GNU ld (GNU Binutils for Debian) 2.44) #1 SMP PREEMPT_DYNAMIC \
                      Debian 6.12.48-1 (2025-09-20)";
        assert_eq!(of(debian, "6.12.48+deb13-amd64"), Flavour::Debian);
        let ubuntu = "Linux version 6.8.0-45-generic (buildd@lcy02-amd64-115) (x86_64-linux-gnu-gcc-13 (Ubuntu \
                      13.2.0-23ubuntu4) 13.2.0, GNU ld (GNU Binutils for Ubuntu) 2.42) #45-Ubuntu SMP";
        assert_eq!(of(ubuntu, "6.8.0-45-generic"), Flavour::Ubuntu);
        let gvisor = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016";
        assert_eq!(of(gvisor, "4.4.0"), Flavour::GVisor);
        let wsl = "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@f9c826d3017f) (gcc (GCC) 11.2.0)";
        assert_eq!(of(wsl, "5.15.167.4-microsoft-standard-WSL2"), Flavour::Wsl2);
        assert_eq!(of("Linux version 4.4.0-19041-Microsoft", "4.4.0-19041-Microsoft"), Flavour::Wsl1);
        assert_eq!(
            of("Linux version 6.18.44-fc (builder@host) (gcc (GCC) 15.3.0)", "6.18.44-fc"),
            Flavour::Linux
        );
        assert_eq!(of("", ""), Flavour::Linux);
    }

    #[test]
    fn the_status_of_a_process() {
        let status = "Name:\tcat\nState:\tR (running)\nUid:\t1000\t1001\t1000\t1000\nVmPin:\t     516 kB\n\
                      CapEff:\t000001fffeffffff\nSeccomp:\t2\n";

        assert_eq!(status_number(status, "VmPin"), Some(516));
        assert_eq!(status_number(status, "Seccomp"), Some(2));
        assert_eq!(status_number(status, "Vm"), None);
    }

    #[test]
    fn choices_in_brackets_and_id_maps() {
        assert_eq!(selected("none [integrity] confidentiality\n").as_deref(), Some("integrity"));
        assert_eq!(selected("none"), None);
        assert!(maps_every_id("         0          0 4294967295\n"));
        assert!(!maps_every_id("         0       1000          1\n         1     100000      65536\n"));
    }

    #[test]
    fn hypervisors_and_bare_metal() {
        let intel = "model name\t: Intel(R) Xeon(R)   Platinum\nflags\t\t: fpu vme hypervisor lahf_lm\n";
        let metal = "flags\t\t: fpu vme lahf_lm\n";
        let name = |cpuinfo, dmi, clocks| hypervisor(cpuinfo, "6.1.0", dmi, clocks, "", "");
        assert_eq!(name(intel, "Amazon EC2 c7i.large", "tsc kvm-clock").as_deref(), Some("Amazon EC2"));
        assert_eq!(name(metal, "Amazon EC2 c7i.metal-24xl", "tsc hpet"), None);
        assert_eq!(name(intel, "QEMU Standard PC", "kvm-clock tsc").as_deref(), Some("QEMU"));
        assert_eq!(name(intel, "", "kvm-clock tsc").as_deref(), Some("KVM"));
        assert_eq!(name(intel, "", "tsc").as_deref(), Some("a hypervisor"));
        assert_eq!(name(metal, "Dell Inc. PowerEdge", "tsc hpet acpi_pm"), None);
        let wsl = hypervisor(intel, "5.15.167.4-microsoft-standard-WSL2", "", "", "", "");
        assert_eq!(wsl.as_deref(), Some("Hyper-V (WSL 2)"));
        let arm = "processor\t: 0\nBogoMIPS\t: 125.00\nFeatures\t: fp asimd\n";
        assert_eq!(
            hypervisor(arm, "6.12.48", "QEMU QEMU Virtual Machine", "", "", "").as_deref(),
            Some("QEMU")
        );
        assert_eq!(hypervisor(arm, "6.12.48", "", "arch_sys_counter", "", ""), None);
        assert_eq!(cpu_model(intel).as_deref(), Some("Intel(R) Xeon(R) Platinum"));
        assert_eq!(cpu_model(arm), None);
    }

    #[test]
    fn containers_by_their_marks() {
        let none = ContainerMarks { cgroup_of_init: "0::/init.scope\n".into(), ..Default::default() };
        assert_eq!(container(&none), None);
        let docker =
            ContainerMarks { docker_file: true, cgroup_of_init: "0::/\n".into(), ..Default::default() };
        assert_eq!(container(&docker).as_deref(), Some("docker"));
        let machine = ContainerMarks { initial_namespaces: true, ..docker };
        assert_eq!(container(&machine), None);
        let podman = "engine=\"podman-5.4.2\"\nname=\"x\"\nid=\"5f\"\nrootless=1\n";
        let podman = ContainerMarks { podman_file: Some(podman.into()), ..Default::default() };
        assert_eq!(container(&podman).as_deref(), Some("podman"));
        let empty = ContainerMarks { podman_file: Some(String::new()), ..Default::default() };
        assert_eq!(container(&empty).as_deref(), Some("podman"));
        let pod = "11:perf_event:/kubepods/besteffort/pod0/ab\n";
        let pod = ContainerMarks { cgroup_of_init: pod.into(), docker_file: true, ..Default::default() };
        assert_eq!(container(&pod).as_deref(), Some("kubernetes"));
        let nspawn = ContainerMarks { systemd: Some("systemd-nspawn\n".into()), ..Default::default() };
        assert_eq!(container(&nspawn).as_deref(), Some("systemd-nspawn"));
    }

    #[test]
    fn mounts_of_cgroups() {
        let v2 = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(event_cgroups(v2), Some("/sys/fs/cgroup".into()));
        let v1 = "40 33 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                  41 33 0:36 / /sys/fs/cgroup/perf_event rw shared:10 - cgroup cgroup rw,perf_event\n\
                  42 33 0:37 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
        assert_eq!(event_cgroups(v1), Some("/sys/fs/cgroup/perf_event".into()));
        assert_eq!(event_cgroups("not a mount\n"), None);
        let traces = "52 24 0:11 / /sys/kernel/tracing rw,nosuid - tracefs tracefs rw\n";
        assert!(is_mounted(traces, "/sys/kernel/tracing", "tracefs"));
        assert!(!is_mounted(traces, "/sys/kernel/debug/tracing", "tracefs"));
        let docker = "500 498 0:60 / /proc rw,nosuid - proc proc rw\n\
                      509 500 0:60 /sys /proc/sys ro,nosuid - proc proc rw\n";
        assert!(read_only_sysctls(docker));
        assert!(!read_only_sysctls(traces));
    }

    #[test]
    fn kernel_options() {
        let text = "CONFIG_PERF_EVENTS=y\n# CONFIG_KPROBE_EVENTS is not set\nCONFIG_UPROBE_EVENTS=y\n";
        let config = KernelConfig::parse(text);
        let expected = KernelConfig { perf_events: true, uprobes: true, ..Default::default() };
        assert_eq!(config, expected);
    }
}
