//! Other machines' refusals, as a table: what each would be told.

use super::*;
use crate::facts::parse::Flavour;
use crate::facts::{Capabilities, Tracefs};
use crate::pmu::Pmu;
use perfuse_abi::{
    AttrFlags, AuxAction, BranchSampleType, Breakpoint, EventType, Hardware, ReadFormat, SampleType,
    Software, ioctl as code,
};
use perfuse_sys::limits::Limit;

/// A plain user on a bare-metal x86 machine with mainline's defaults.
fn user() -> Facts {
    let mut facts = Facts::unknown();
    facts.release = "6.12.0".into();
    facts.arch = "x86_64";
    facts.uid = Some(1000);
    facts.capabilities = Some(Capabilities(0));
    facts.bounding = Some(Capabilities(0x1ff_ffff_ffff));
    facts.no_new_privileges = Some(false);
    facts.initial_user_namespace = Some(true);
    facts.paranoid = Some(2);
    facts.mlock_kib = Some(516);
    facts.max_sample_rate = Some(100_000);
    facts.max_stack = Some(127);
    facts.seccomp_filter = Some(false);
    facts.open_files = Some(Limit { soft: 1024, hard: 524_288 });
    facts.open_now = Some(1024);
    facts.locked_bytes = Some(Limit { soft: 8 << 20, hard: 8 << 20 });
    facts.pinned_bytes = Some(8 << 20);
    let pmus =
        [("software", 1), ("tracepoint", 2), ("cpu", 4), ("breakpoint", 5), ("kprobe", 8), ("uprobe", 9)];
    let pmus = pmus.into_iter().chain([("msr", 10), ("uncore_imc", 11)]);
    facts.pmus = Some(pmus.map(|(name, type_)| Pmu::new(name, EventType(type_))).collect());
    facts.tracefs = Some(Tracefs { path: "/sys/kernel/tracing".into(), readable: false });
    facts.online_cpus = Some(vec![0, 1, 3]);
    facts.possible_cpus = Some(4);
    facts
}

fn root() -> Facts {
    Facts { uid: Some(0), capabilities: Some(Capabilities(0x1ff_ffff_ffff)), ..user() }
}

/// A machine type without a PMU, rented.
fn guest() -> Facts {
    let mut facts = root();
    facts.pmus.iter_mut().flatten().for_each(|pmu| {
        if pmu.name() == "cpu" {
            *pmu = Pmu::new("power", EventType(12));
        }
    });
    facts.hypervisor = Some("Amazon EC2".into());
    facts
}

fn docker() -> Facts {
    Facts {
        capabilities: Some(Capabilities(0xa80425fb)),
        bounding: Some(Capabilities(0xa80425fb)),
        container: Some("docker".into()),
        read_only_sysctls: Some(true),
        seccomp_filter: Some(true),
        ..root()
    }
}

fn counter(type_: EventType, config: u64) -> Attr {
    Attr { config, ..Attr::new(type_) }
}

fn cycles() -> Attr {
    counter(EventType::HARDWARE, Hardware::CPU_CYCLES.0)
}

fn faults() -> Attr {
    counter(EventType::SOFTWARE, Software::PAGE_FAULTS.0)
}

/// `attr` for the calling thread.
fn open(attr: Attr) -> Call {
    Call::Open { attr, pid: 0, cpu: -1, leader: None, flags: OpenFlags::empty() }
}

/// An event of the calling thread that joins a group.
fn member(attr: Attr, leader: Subject) -> Call {
    Call::Open { attr, pid: 0, cpu: -1, leader: Some(Box::new(leader)), flags: OpenFlags::empty() }
}

fn open_at(attr: Attr, pid: i32, cpu: i32, flags: OpenFlags) -> Call {
    Call::Open { attr, pid, cpu, leader: None, flags }
}

fn told(call: &Call, errno: Errno, facts: &Facts) -> Diagnosis {
    diagnose(call, None, errno, facts, &Findings::default())
}

/// The cause, and that its first remedy says `remedy` (or that there is none).
#[track_caller]
fn expect(diagnosis: &Diagnosis, cause: Cause, remedy: &str) {
    assert_eq!(diagnosis.cause, cause, "{diagnosis:#?}");
    match diagnosis.remedies.first() {
        Some(first) => assert!(!remedy.is_empty() && first.contains(remedy), "{diagnosis:#?}"),
        None => assert_eq!(remedy, "", "{diagnosis:#?}"),
    }
    assert!(!diagnosis.explanation.ends_with('.'), "{diagnosis:#?}");
}

#[test]
fn a_machine_without_a_pmu_is_told_by_its_few_facts_what_all_of_them_would_tell() {
    for (type_, config) in [(EventType::HARDWARE, 0), (EventType::HW_CACHE, 0x10002), (EventType::RAW, 0xc0)]
    {
        let attr = Attr { config, ..Attr::new(type_) };
        let call = Call::Open { attr, pid: 0, cpu: -1, leader: None, flags: OpenFlags::FD_CLOEXEC };
        let Some(few) = without_cpu_pmu(&call, Errno::ENOENT) else { continue };
        let (all, subject) = (Facts::gather(), Subject::of(&call));
        let findings = Findings::gather(&call, subject.as_ref(), Errno::ENOENT, &all);
        assert_eq!(
            diagnose(&call, None, Errno::ENOENT, few, &Findings::default()),
            diagnose(&call, None, Errno::ENOENT, &all, &findings)
        );
    }
}

#[test]
fn a_user_and_the_paranoid_level() {
    let user = user();
    expect(&told(&open(cycles()), Errno::EACCES, &user), Cause::ParanoidKernel, ":u");
    // Switches happen in the kernel: nothing is left of them without it.
    let switches = counter(EventType::SOFTWARE, Software::CONTEXT_SWITCHES.0);
    let diagnosis = told(&open(switches), Errno::EACCES, &user);
    expect(&diagnosis, Cause::ParanoidKernel, "sudo sysctl kernel.perf_event_paranoid=1");
    assert!(diagnosis.explanation.contains("always count 0"), "{diagnosis:#?}");
    // Whole cpus need level 0: leaving the kernel out, or level 1, would not help.
    let wide = told(&open_at(cycles(), -1, 0, OpenFlags::empty()), Errno::EACCES, &user);
    expect(&wide, Cause::ParanoidCpuWide, "your own processes");
    assert!(wide.remedies.iter().any(|r| r == "sudo sysctl kernel.perf_event_paranoid=0"), "{wide:#?}");
    assert!(wide.explanation.contains("the kernel's part"), "{wide:#?}");
    let mut own = cycles();
    own.flags = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    let cgroup = told(&open_at(own, 5, 0, OpenFlags::PID_CGROUP), Errno::EACCES, &user);
    expect(&cgroup, Cause::ParanoidCpuWide, "sysctl kernel.perf_event_paranoid=0");
    // Branches are checked before everything else, and with levels of their own (rule A11b).
    own.flags = AttrFlags::EXCLUDE_KERNEL;
    own.sample_type = SampleType::BRANCH_STACK;
    own.branch_sample_type = BranchSampleType::ANY;
    expect(&told(&open(own), Errno::EACCES, &user), Cause::ParanoidKernel, "leave out branches");
    own.sample_type = SampleType::PHYS_ADDR;
    expect(&told(&open(own), Errno::EACCES, &user), Cause::ParanoidKernel, "leave out physical addresses");
    own.sample_type = SampleType::empty();
    own.flags |= AttrFlags::NAMESPACES;
    expect(&told(&open(own), Errno::EACCES, &user), Cause::PrivilegedFeature, "sudo");
    let mut probe = counter(EventType(9), 0);
    probe.flags = AttrFlags::EXCLUDE_KERNEL;
    let probe = told(&open(probe), Errno::EACCES, &user);
    expect(&probe, Cause::PrivilegedFeature, "sudo");
    assert!(!probe.remedies.iter().any(|remedy| remedy.contains("paranoid")), "{probe:#?}");
}

#[test]
fn kernel_callchains_need_rights_since_7_2() {
    let mut attr = faults();
    attr.flags = AttrFlags::EXCLUDE_KERNEL;
    attr.sample_type = SampleType::CALLCHAIN;
    let newer = Facts { release: "7.2.12".into(), ..user() };
    expect(&told(&open(attr), Errno::EACCES, &newer), Cause::ParanoidKernel, "leave out kernel callchains");
    assert_ne!(told(&open(attr), Errno::EACCES, &user()).cause, Cause::ParanoidKernel);
}

#[test]
fn distributions_close_the_door() {
    let debian = Facts { flavour: Flavour::Debian, paranoid: Some(3), ..user() };
    let mut own = faults();
    own.flags = AttrFlags::EXCLUDE_KERNEL;
    let diagnosis = told(&open(own), Errno::EACCES, &debian);
    expect(&diagnosis, Cause::ParanoidClosed, "sudo sysctl kernel.perf_event_paranoid=2");
    // The remedy covers the other needs of the request too.
    expect(&told(&open(faults()), Errno::EACCES, &debian), Cause::ParanoidClosed, "paranoid=1");
    // Debian's patch wants CAP_SYS_ADMIN.
    let perfmon = Facts { capabilities: Some(Capabilities::PERFMON), ..debian.clone() };
    let diagnosis = told(&open(own), Errno::EACCES, &perfmon);
    expect(&diagnosis, Cause::ParanoidClosed, "paranoid=2");
    assert!(diagnosis.explanation.contains("CAP_PERFMON is not enough"), "{diagnosis:#?}");
    // Ubuntu's level is 4; its 3 is like 2.
    let ubuntu = Facts { flavour: Flavour::Ubuntu, paranoid: Some(4), ..user() };
    expect(&told(&open(own), Errno::EACCES, &ubuntu), Cause::ParanoidClosed, "paranoid=3");
    let three = Facts { paranoid: Some(3), ..ubuntu };
    expect(&told(&open(faults()), Errno::EACCES, &three), Cause::ParanoidKernel, ":u");
    // Mainline with 4 is like 2 (rule B-perm).
    let mainline = Facts { paranoid: Some(4), ..user() };
    expect(&told(&open(faults()), Errno::EACCES, &mainline), Cause::ParanoidKernel, ":u");
    // A probe that gets through shows that the level is not enforced.
    let findings = Findings { least: Some(Ok(())), ..Default::default() };
    let diagnosis = diagnose(&open(faults()), None, Errno::EACCES, &debian, &findings);
    expect(&diagnosis, Cause::ParanoidKernel, ":u");
}

#[test]
fn other_peoples_threads() {
    let mut own = faults();
    own.flags = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    let findings = Findings { task: Some(Task::of_user(0)), ..Default::default() };
    let of = |attr, facts: &Facts| {
        diagnose(&open_at(attr, 1, -1, OpenFlags::empty()), None, Errno::EACCES, facts, &findings)
    };
    let diagnosis = of(own, &user());
    expect(&diagnosis, Cause::ForeignTask, "sudo");
    assert!(diagnosis.explanation.contains("uid 0"), "{diagnosis:#?}");
    // The kernel's part is checked first.
    expect(&of(faults(), &user()), Cause::ParanoidKernel, ":u");
}

#[test]
fn containers() {
    let mut docker = docker();
    docker.reachable = Err(Errno::EPERM);
    let diagnosis = told(&open(cycles()), Errno::EPERM, &docker);
    expect(&diagnosis, Cause::Seccomp, "docker run --cap-add PERFMON");
    assert!(!diagnosis.remedies.iter().any(|remedy| remedy.contains("sysctl")), "{diagnosis:#?}");
    // Past the filter, the container's root is no root.
    docker.reachable = Ok(());
    let diagnosis = told(&open(cycles()), Errno::EACCES, &docker);
    expect(&diagnosis, Cause::ParanoidKernel, ":u");
    assert_eq!(diagnosis.remedies[1], "on the host: sudo sysctl kernel.perf_event_paranoid=1");
    assert_eq!(diagnosis.remedies[2], "docker run --cap-add PERFMON …");
    // A user of the container gets capabilities by way of its root; no sudo helps.
    let inside = Facts { uid: Some(1000), capabilities: Some(Capabilities(0)), ..docker.clone() };
    let diagnosis = told(&open(cycles()), Errno::EACCES, &inside);
    assert_eq!(diagnosis.remedies[2..], ["docker run --user root --cap-add PERFMON …"], "{diagnosis:#?}");
    // In a machine that only looks like one, its root can.
    let machine = Facts { container: Some("docker".into()), ..user() };
    let diagnosis = told(&open(cycles()), Errno::EACCES, &machine);
    assert_eq!(diagnosis.remedies[2], "run it with sudo", "{diagnosis:#?}");
    // Rootless podman: every capability, in a namespace where they do not count.
    let podman = Facts {
        container: Some("podman".into()),
        capabilities: Some(Capabilities(0x1ff_ffff_ffff)),
        initial_user_namespace: Some(false),
        ..docker.clone()
    };
    let diagnosis = told(&open(cycles()), Errno::EACCES, &podman);
    expect(&diagnosis, Cause::ParanoidKernel, ":u");
    assert!(diagnosis.explanation.contains("user namespace"), "{diagnosis:#?}");
    let pod = Facts { container: Some("kubernetes".into()), reachable: Err(Errno::EPERM), ..docker };
    expect(&told(&open(cycles()), Errno::EPERM, &pod), Cause::Seccomp, "seccompProfile");
}

#[test]
fn kernels_without_the_call() {
    let mut facts = Facts { reachable: Err(Errno::ENOSYS), paranoid: None, ..user() };
    facts.flavour = Flavour::GVisor;
    expect(&told(&open(faults()), Errno::ENOSYS, &facts), Cause::OtherKernel, "runc");
    facts.flavour = Flavour::Wsl1;
    expect(&told(&open(faults()), Errno::ENOSYS, &facts), Cause::OtherKernel, "wsl");
    facts.flavour = Flavour::Linux;
    expect(&told(&open(faults()), Errno::ENOSYS, &facts), Cause::NoPerfEvents, "CONFIG_PERF_EVENTS");
    // With the sysctl there, the kernel has it and somebody else says no.
    facts.paranoid = Some(2);
    facts.seccomp_filter = Some(true);
    expect(&told(&open(faults()), Errno::ENOSYS, &facts), Cause::Seccomp, "allow perf_event_open");
}

#[test]
fn no_pmu() {
    let diagnosis = told(&open(cycles()), Errno::ENOENT, &guest());
    expect(&diagnosis, Cause::NoHardwarePmu, "virtual PMU");
    assert!(diagnosis.explanation.contains("Amazon EC2"), "{diagnosis:#?}");
    assert!(!diagnosis.remedies.iter().any(|remedy| remedy.contains("sysctl")), "{diagnosis:#?}");
    let wsl = Facts { hypervisor: Some("Hyper-V (WSL 2)".into()), ..guest() };
    expect(&told(&open(cycles()), Errno::ENOENT, &wsl), Cause::NoHardwarePmu, "software events");
    let metal = Facts { hypervisor: None, ..guest() };
    expect(
        &told(&open(counter(EventType::RAW, 0x1a8)), Errno::ENOENT, &metal),
        Cause::NoHardwarePmu,
        "dmesg",
    );
    // Without /sys nobody knows whether there is one.
    let blind = Facts { pmus: None, ..guest() };
    expect(&told(&open(cycles()), Errno::ENOENT, &blind), Cause::UnknownEvent, "mount -t sysfs");
    // arm64's PMU has a dynamic type.
    let arm = Facts { pmus: Some(vec![Pmu::new("armv8_pmuv3", EventType(8))]), arch: "aarch64", ..guest() };
    let stalled = counter(EventType::HARDWARE, Hardware::STALLED_CYCLES_FRONTEND.0);
    let diagnosis = told(&open(stalled), Errno::ENOENT, &arm);
    expect(&diagnosis, Cause::UnknownEvent, "armv8_pmuv3/events");
    // Hybrid: one PMU of two, by type.
    let hybrid = vec![Pmu::new("cpu_core", EventType(4)), Pmu::new("cpu_atom", EventType(10))];
    let hybrid = Facts { pmus: Some(hybrid), ..root() };
    let on = |type_| counter(EventType::HARDWARE, Hardware::REF_CPU_CYCLES.on_pmu(EventType(type_)));
    expect(&told(&open(on(10)), Errno::ENOENT, &hybrid), Cause::UnknownEvent, "cpu_core");
    expect(&told(&open(on(77)), Errno::ENOENT, &hybrid), Cause::UnknownPmu, "type");
}

#[test]
fn things_that_are_not_there() {
    let enoent = |attr, facts: &Facts| told(&open(attr), Errno::ENOENT, facts);
    expect(&enoent(counter(EventType(77), 0), &root()), Cause::UnknownPmu, "type");
    expect(&enoent(counter(EventType(10), 99), &root()), Cause::UnknownEvent, "msr");
    expect(&enoent(counter(EventType::SOFTWARE, 99), &root()), Cause::UnknownEvent, "");
    let old = Facts { release: "5.10.0".into(), ..root() };
    let switches = counter(EventType::SOFTWARE, Software::CGROUP_SWITCHES.0);
    expect(&enoent(switches, &old), Cause::TooNew, "");
    expect(&enoent(counter(EventType(8), 0), &root()), Cause::ProbePlace, "kallsyms");
    expect(&enoent(counter(EventType(9), 0), &root()), Cause::NoFile, "path");
    let of_version = |kind| Findings { bare: Some(Ok(())), cgroup: Some(kind), ..Default::default() };
    let call = open_at(faults(), 7, 0, OpenFlags::PID_CGROUP);
    let cgroup = |kind| diagnose(&call, None, Errno::ENOENT, &root(), &of_version(kind));
    expect(&cgroup(CgroupKind::Version1), Cause::CgroupHierarchy, "mount -t cgroup2");
    expect(&cgroup(CgroupKind::Version2), Cause::CgroupHierarchy, "cgroup.subtree_control");
    let esrch = told(&open_at(faults(), 99, -1, OpenFlags::empty()), Errno::ESRCH, &root());
    expect(&esrch, Cause::NoSuchTask, "");
    let offline = told(&open_at(faults(), -1, 2, OpenFlags::empty()), Errno::ENODEV, &root());
    expect(&offline, Cause::CpuOffline, "cpu2/online");
    let member = member(faults(), Subject::new(faults(), 0, -1));
    expect(&told(&member, Errno::ENODEV, &root()), Cause::LeaderGone, "leader");
    expect(&told(&member, Errno::EBADF, &root()), Cause::NotAnEvent, "");
    expect(
        &told(&open_at(faults(), 7, 0, OpenFlags::PID_CGROUP), Errno::EBADF, &root()),
        Cause::NotACgroup,
        "open",
    );
}

#[test]
fn invalid_requests_are_named_by_the_first_rule_they_break() {
    let einval = |call: &Call| told(call, Errno::EINVAL, &root());
    let with = |change: fn(&mut Attr)| {
        let mut attr = faults();
        change(&mut attr);
        open(attr)
    };
    expect(&einval(&open_at(faults(), 0, -1, OpenFlags::from_bits_retain(32))), Cause::UnknownBits, "");
    expect(&einval(&with(|a| a.flags |= AttrFlags::from_bits_retain(1 << 50))), Cause::UnknownBits, "");
    expect(&einval(&with(|a| a.sample_type = SampleType::from_bits_retain(1 << 40))), Cause::UnknownBits, "");
    expect(&einval(&with(|a| a.aux_action = AuxAction::from_bits_retain(8))), Cause::UnknownBits, "");
    expect(&einval(&with(|a| a.sample_type = SampleType::BRANCH_STACK)), Cause::Contradiction, "ANY");
    expect(&einval(&with(|a| a.sample_type = SampleType::REGS_USER)), Cause::Contradiction, "registers");
    let segment = |a: &mut Attr| {
        a.sample_type = SampleType::REGS_USER;
        a.sample_regs_user = 1 << 12;
    };
    expect(&einval(&with(segment)), Cause::NoRegisters, "");
    let stack = |a: &mut Attr| {
        a.sample_type = SampleType::STACK_USER;
        a.sample_stack_user = 12;
    };
    expect(&einval(&with(stack)), Cause::OutOfRange, "");
    let weights = |a: &mut Attr| a.sample_type = SampleType::WEIGHT | SampleType::WEIGHT_STRUCT;
    expect(&einval(&with(weights)), Cause::Contradiction, "one");
    expect(&einval(&with(|a| a.flags = AttrFlags::INHERIT_THREAD)), Cause::Contradiction, "inherit");
    expect(&einval(&with(|a| a.flags = AttrFlags::SIGTRAP)), Cause::Contradiction, "remove_on_exec");
    let both = |a: &mut Attr| a.flags = AttrFlags::REMOVE_ON_EXEC | AttrFlags::ENABLE_ON_EXEC;
    expect(&einval(&with(both)), Cause::Contradiction, "one");
    let fast = |a: &mut Attr| a.set_sample_freq(200_000);
    let diagnosis = einval(&with(fast));
    expect(&diagnosis, Cause::SampleRate, "100000 Hz");
    assert!(diagnosis.explanation.contains("200000") && diagnosis.explanation.contains("100000"));
    expect(&einval(&with(|a| a.sample_period = 1 << 63)), Cause::OutOfRange, "");
    expect(&einval(&open_at(faults(), -1, -1, OpenFlags::empty())), Cause::NoTarget, "each cpu");
    expect(&einval(&open_at(faults(), 7, -1, OpenFlags::PID_CGROUP)), Cause::NoTarget, "each cpu");
    expect(&einval(&open_at(faults(), -1, 4, OpenFlags::empty())), Cause::NoSuchCpu, "");
    expect(&einval(&open_at(faults(), 0, -2, OpenFlags::empty())), Cause::NoSuchCpu, "");
    let read = |a: &mut Attr| {
        a.flags = AttrFlags::INHERIT;
        a.sample_type = SampleType::READ;
    };
    expect(&einval(&with(read)), Cause::Contradiction, "TID");
    let clock = |a: &mut Attr| {
        a.flags = AttrFlags::USE_CLOCKID;
        a.clockid = 2;
    };
    expect(&einval(&with(clock)), Cause::Clock, "MONOTONIC");
    let realtime = Attr { flags: AttrFlags::USE_CLOCKID, clockid: 0, ..cycles() };
    expect(&einval(&open(realtime)), Cause::Clock, "MONOTONIC");
    // The first rule wins: bits before the target.
    let mut two = faults();
    two.read_format = ReadFormat::from_bits_retain(1 << 9);
    expect(&einval(&open_at(two, -1, -1, OpenFlags::empty())), Cause::UnknownBits, "");
}

#[test]
fn fields_newer_than_the_kernel() {
    let old = Facts { release: "5.10.0-30-amd64".into(), ..root() };
    let mut attr = faults();
    attr.flags = AttrFlags::INHERIT | AttrFlags::INHERIT_THREAD;
    let diagnosis = told(&open(attr), Errno::EINVAL, &old);
    expect(&diagnosis, Cause::TooNew, "inherit_thread");
    assert!(diagnosis.explanation.contains("5.13") && diagnosis.explanation.contains("5.10.0-30-amd64"));
    // A vendor may have brought it back: the probes know better.
    attr.sample_type = SampleType::WEIGHT | SampleType::WEIGHT_STRUCT;
    let culprits = vec![Part::Sample(SampleType::WEIGHT_STRUCT)];
    let findings = Findings { culprits, ..Default::default() };
    let diagnosis = diagnose(&open(attr), None, Errno::EINVAL, &old, &findings);
    expect(&diagnosis, Cause::TooNew, "WEIGHT_STRUCT");
    let attr = Attr { config4: 1, ..faults() };
    let findings = Findings { attr_size: Some(136), ..Default::default() };
    let diagnosis = diagnose(&open(attr), None, Errno::E2BIG, &root(), &findings);
    expect(&diagnosis, Cause::TooNew, "zero");
    assert!(
        diagnosis.explanation.contains("config4") && diagnosis.explanation.contains("136"),
        "{diagnosis:#?}"
    );
    expect(&told(&open(Attr { size: 8, ..faults() }), Errno::E2BIG, &root()), Cause::OutOfRange, "");
}

#[test]
fn breakpoints() {
    let watch = |bp_type, config1, config2| {
        let attr = Attr { bp_type, config1, config2, ..Attr::new(EventType::BREAKPOINT) };
        open(attr)
    };
    let einval = |call: &Call| told(call, Errno::EINVAL, &root());
    expect(&einval(&watch(Breakpoint::W, 0x1000, 3)), Cause::BreakpointShape, "1, 2, 4 or 8");
    expect(&einval(&watch(Breakpoint::W, 0x1001, 4)), Cause::BreakpointShape, "align");
    expect(&einval(&watch(Breakpoint::R, 0x1000, 4)), Cause::BreakpointShape, "rw");
    expect(&einval(&watch(Breakpoint::X, 0x1000, 1)), Cause::BreakpointShape, "8");
    expect(&einval(&watch(Breakpoint::EMPTY, 0x1000, 8)), Cause::BreakpointShape, "bp_type");
    expect(&told(&watch(Breakpoint::W, 0x1000, 8), Errno::ENOSPC, &root()), Cause::BreakpointSlots, "close");
    let kernel = watch(Breakpoint::W, 0xffff_8000_0000_0000, 8);
    expect(&told(&kernel, Errno::EPERM, &user()), Cause::KernelBreakpoint, "sudo");
}

#[test]
fn pmus_that_cannot_do_that() {
    let told = |attr, errno, findings: Findings| diagnose(&open(attr), None, errno, &root(), &findings);
    let culprit = |part| Findings { bare: Some(Ok(())), culprits: vec![part], ..Default::default() };
    let mut attr = cycles();
    attr.flags = attr.flags.with_precise_ip(3);
    expect(&told(attr, Errno::EOPNOTSUPP, culprit(Part::Precise)), Cause::NoPrecise, "one p fewer");
    attr.sample_period = 1000;
    expect(&told(attr, Errno::EOPNOTSUPP, culprit(Part::Sampling)), Cause::NoSampling, "cpu-clock");
    attr.sample_type = SampleType::BRANCH_STACK;
    let branches = culprit(Part::Sample(SampleType::BRANCH_STACK));
    expect(&told(attr, Errno::EOPNOTSUPP, branches), Cause::NoBranchStack, "callchains");
    let mut msr = counter(EventType(10), 0);
    msr.flags = AttrFlags::EXCLUDE_KERNEL;
    let refused = Findings {
        bare: Some(Err(Errno::EINVAL)),
        on_cpu: Some(Err(Errno::EINVAL)),
        culprits: vec![Part::Excludes],
        ..Default::default()
    };
    expect(&told(msr, Errno::EINVAL, refused), Cause::NoExclude, "modifiers");
    let on_cpu = Findings { bare: Some(Err(Errno::EINVAL)), on_cpu: Some(Ok(())), ..Default::default() };
    expect(&told(counter(EventType(11), 1), Errno::EINVAL, on_cpu), Cause::NotPerTask, "uncore_imc/cpumask");
    let bare = Findings { bare: Some(Err(Errno::EINVAL)), ..Default::default() };
    let tracepoint = counter(EventType::TRACEPOINT, 99_999);
    expect(&told(tracepoint, Errno::EINVAL, bare), Cause::UnknownTracepoint, "id");
    let raw = Attr { sample_type: SampleType::RAW, ..tracepoint };
    let raw = diagnose(&open(raw), None, Errno::EPERM, &user(), &Findings::default());
    expect(&raw, Cause::ParanoidTracepoint, "count the tracepoint");
    let locked = Facts { lockdown: Some("confidentiality".into()), ..root() };
    let regs = Attr { sample_type: SampleType::REGS_INTR, ..cycles() };
    let regs = diagnose(&open(regs), None, Errno::EPERM, &locked, &Findings::default());
    expect(&regs, Cause::Lockdown, "boot");
    let mut chain = cycles();
    chain.sample_type = SampleType::CALLCHAIN;
    chain.sample_max_stack = 1000;
    expect(&told(chain, Errno::EOVERFLOW, Findings::default()), Cause::StackDepth, "127");
}

#[test]
fn a_member_that_does_not_go_with_its_leader_hears_why() {
    let culprits = Findings { culprits: vec![Part::Group], ..Default::default() };
    let refused = |call| diagnose(&call, None, Errno::EINVAL, &root(), &culprits);
    let thread = |attr| Subject::new(attr, 0, -1);
    expect(&refused(member(cycles(), thread(cycles()))), Cause::Group, "smaller");

    let with = |change: fn(&mut Attr)| {
        let mut attr = faults();
        change(&mut attr);
        attr
    };
    let inherited = with(|attr| attr.flags |= AttrFlags::INHERIT);
    let clocked = with(|attr| {
        attr.flags |= AttrFlags::USE_CLOCKID;
        attr.clockid = 1;
    });
    let pinned = with(|attr| attr.flags |= AttrFlags::PINNED);
    let cgroup = |fd| Subject::with_flags(faults(), fd, 0, OpenFlags::PID_CGROUP);
    let on = |leader: Subject, pid, cpu, flags| Call::Open {
        attr: faults(),
        pid,
        cpu,
        leader: Some(Box::new(leader)),
        flags,
    };
    let none = OpenFlags::empty();
    for (call, words) in [
        (member(inherited, thread(faults())), "is inherited and its leader is not (rule B13)"),
        (member(faults(), thread(inherited)), "the leader is inherited and the event is not (rule B13)"),
        (member(clocked, thread(faults())), "different clocks (rule B28)"),
        (member(pinned, thread(faults())), "pinned and exclusive are for group leaders (rule B28)"),
        (on(Subject::new(faults(), -1, 1), -1, 0, none), "on cpu 0 and its group leader on cpu 1 (rule B28)"),
        (on(thread(faults()), 0, 3, none), "on cpu 3 and its group leader on no particular cpu (rule B28)"),
        (on(Subject::new(faults(), 7, -1), 8, -1, none), "thread 8 and its group leader thread 7 (rule B28)"),
        (on(cgroup(5), 6, 0, OpenFlags::PID_CGROUP), "another cgroup than its group leader (rule B19)"),
        (on(Subject::new(faults(), -1, 0), 6, 0, OpenFlags::PID_CGROUP), "another cgroup"),
        // The caller may have been named by its number, and nothing else differs.
        (on(Subject::new(faults(), 7, -1), 0, -1, none), "(rules B28, B29)"),
        (on(cgroup(5), -1, 0, none), "(rules B28, B29)"),
    ] {
        let diagnosis = refused(call);
        assert_eq!(diagnosis.cause, Cause::Group);
        assert!(diagnosis.explanation.contains(words), "{diagnosis:#?}");
        assert!(!diagnosis.remedies.is_empty(), "{diagnosis:#?}");
    }
}

#[test]
fn limits_come_with_their_numbers() {
    let user = user();
    let diagnosis = told(&open(faults()), Errno::EMFILE, &user);
    expect(&diagnosis, Cause::OpenFiles, "ulimit -n 524288");
    assert!(diagnosis.explanation.contains("limit 1024"), "{diagnosis:#?}");
    let map = Call::Mmap { bytes: 4 << 20, offset: 0 };
    let diagnosis = told(&map, Errno::EPERM, &user);
    expect(&diagnosis, Cause::LockedMemory, "smaller");
    // 516 KiB for each of three cpus, 8 MiB of which all are used.
    for number in ["4096 KiB", "1548 KiB", "516 × 3", "8192 KiB per process", "8192 KiB are used"] {
        assert!(diagnosis.explanation.contains(number), "{number}: {diagnosis:#?}");
    }
    assert!(
        diagnosis.remedies.contains(&"sudo sysctl kernel.perf_event_mlock_kb=4612".to_owned()),
        "{diagnosis:#?}"
    );
}

#[test]
fn rings_and_reads() {
    let page = 4096;
    let map = |pages: usize| Call::Mmap { bytes: pages * page, offset: 0 };
    expect(&told(&map(8), Errno::EINVAL, &user()), Cause::RingSize, "36864");
    let subject = Subject::new(Attr { flags: AttrFlags::INHERIT, ..faults() }, 0, -1);
    let inherited = diagnose(&map(9), Some(&subject), Errno::EINVAL, &user(), &Findings::default());
    expect(&inherited, Cause::RingInherit, "each cpu");
    expect(&told(&map(9), Errno::EINVAL, &user()), Cause::RingTaken, "once");
    expect(&told(&map(9), Errno::EBUSY, &user()), Cause::RingTaken, "other");
    expect(&told(&Call::Read, Errno::ENOSPC, &user()), Cause::ShortBuffer, "room");
    expect(&told(&Call::Read, Errno::ECHILD, &user()), Cause::GroupChanged, "before the task forks");
    let counting = Subject::new(faults(), 0, -1);
    let ioctl =
        |code, errno| diagnose(&Call::Ioctl(code), Some(&counting), errno, &user(), &Findings::default());
    expect(&ioctl(code::REFRESH, Errno::EINVAL), Cause::NotSampling, "");
    expect(&ioctl(code::PERIOD, Errno::EINVAL), Cause::NotSampling, "period");
    expect(&ioctl(code::SET_FILTER, Errno::EEXIST), Cause::Filter, "anew");
    expect(&ioctl(code::ENABLE, Errno::ENOTTY), Cause::NotAnEvent, "");
    let program = Call::Spawn { program: "no-such-program".into() };
    expect(&told(&program, Errno::ENOENT, &user()), Cause::NoProgram, "");
    let file = Call::File { path: "/sys/kernel/tracing/events/sched/sched_switch/id".into() };
    expect(&told(&file, Errno::EACCES, &user()), Cause::FilePermission, "sudo");
    expect(&told(&file, Errno::ENOENT, &user()), Cause::UnknownTracepoint, "");
    let unmounted = Facts { tracefs: None, ..root() };
    expect(&told(&file, Errno::ENOENT, &unmounted), Cause::NoFile, "mount");
}

#[test]
fn tracepoints_without_their_file_system() {
    let file = Call::File { path: "/sys/kernel/tracing/events".into() };
    let told = |facts: Facts| told(&file, Errno::ENOENT, &Facts { tracefs: None, ..facts });
    let refused = |facts: Facts, errno| Facts { tracefs_refused: Some(errno), ..facts };
    let diagnosis = told(user());
    expect(&diagnosis, Cause::NoFile, "run it with sudo");
    assert!(diagnosis.explanation.contains("root needs no mount"), "{diagnosis:#?}");
    expect(&told(refused(root(), Errno::ENODEV)), Cause::NoFile, "no tracepoints");
    expect(&told(refused(root(), Errno::EPERM)), Cause::NoFile, "on the host: mount");
    let namespace = Facts { initial_user_namespace: Some(false), ..root() };
    expect(&told(refused(namespace, Errno::EPERM)), Cause::NoFile, "outside this user namespace");
    // The container hides it, or nothing could be opened anyway.
    expect(&told(refused(docker(), Errno::EPERM)), Cause::NoFile, "-v /sys/kernel/tracing");
    let filtered = Facts { reachable: Err(Errno::EPERM), seccomp_filter: Some(true), ..docker() };
    expect(&told(refused(filtered, Errno::EPERM)), Cause::Seccomp, "--cap-add PERFMON");
    let sandboxed = Facts { no_new_privileges: Some(true), ..user() };
    expect(&told(sandboxed), Cause::NoFile, "outside this sandbox");
}

/// Nothing panics, whatever the kernel answers to whatever it was asked.
#[test]
fn every_errno_has_an_explanation() {
    let calls = [
        open(faults()),
        open(cycles()),
        open_at(counter(EventType::TRACEPOINT, 1), -1, 0, OpenFlags::empty()),
        open_at(counter(EventType::BREAKPOINT, 0), 7, 0, OpenFlags::PID_CGROUP),
        Call::Read,
        Call::Ioctl(code::SET_OUTPUT),
        Call::Mmap { bytes: 0, offset: 0 },
        Call::Mmap { bytes: 4096, offset: 8192 },
        Call::Poll,
        Call::Prctl,
        Call::Fcntl,
        Call::Process,
        Call::Spawn { program: "x".into() },
        Call::File { path: "/".into() },
    ];
    for facts in [user(), root(), guest(), docker(), Facts::unknown()] {
        for call in &calls {
            for errno in 0..134 {
                let diagnosis = told(call, Errno(errno), &facts);
                assert!(!diagnosis.explanation.is_empty());
            }
        }
    }
}
