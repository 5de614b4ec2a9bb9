//! What can be opened, and what is counted. Each row says what a program sees: in the words of the table in
//! docs/hosting.md, under both kernels.

use super::super::probes::{inherited_return_probe, plain};
use super::super::scenarios::{attr, map, off, on, open, opened, value};
use super::super::strangers::{as_root, become_user};
use super::{Kernel, answer, answers, needs, said};
use perfuse_abi::{Attr, AttrFlags, Breakpoint, EventType, OpenFlags, Software};
use perfuse_sys::perf_event_open;
use perfuse_testkit::work::{self, Child, Pages};
use perfuse_testkit::{OwnCgroup, Puppet, need};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) fn whole_cpus() {
    as_root();
    let opened = perf_event_open(&mut attr(Software::DUMMY), -1, 0, None, OpenFlags::FD_CLOEXEC);
    println!("{}", answer(&opened));
}

pub(crate) fn cgroups() {
    as_root();
    let own = OwnCgroup::new("row").unwrap_or_else(|skip| needs(&skip.0));
    let folder = File::open(own.path()).expect("a folder");
    let flags = OpenFlags::FD_CLOEXEC | OpenFlags::PID_CGROUP;
    let opened = perf_event_open(&mut attr(Software::DUMMY), folder.as_raw_fd(), 0, None, flags);
    println!("{}", answer(&opened));
}

pub(crate) fn other_pmus() {
    as_root();
    let type_ = std::fs::read_to_string("/sys/bus/event_source/devices/msr/type");
    let type_ = type_.ok().and_then(|text| text.trim().parse().ok());
    let tsc = Attr::new(EventType(type_.unwrap_or_else(|| needs("the PMU msr"))));
    println!("{}", answer(&open(&tsc)));
}

pub(crate) fn tracepoints() {
    as_root();
    let tracing = need::tracefs().unwrap_or_else(|skip| needs(&skip.0));
    let id = std::fs::read_to_string(tracing.join("events/sched/sched_switch/id")).expect("it is there");
    let mut attr = Attr::new(EventType::TRACEPOINT);
    attr.config = id.trim().parse().expect("a number");
    println!("{}", answer(&open(&attr)));
}

pub(crate) fn switch_records() {
    let mut attr = attr(Software::DUMMY);
    attr.flags |= AttrFlags::CONTEXT_SWITCH;
    println!("{}", answer(&open(&attr)));
}

pub(crate) fn single_faults_and_switches() {
    let all = [Software::PAGE_FAULTS, Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS];
    let answers = all.map(|which| {
        let mut attr = attr(which);
        attr.sample_period = 1;
        answer(&open(&attr))
    });
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    println!("{}", answers[0]);
}

pub(crate) fn kernel_breakpoints() {
    as_root();
    if !cfg!(target_arch = "x86_64") {
        needs("x86: elsewhere Linux has none of the kernel for a task");
    }
    let mut attr = Attr::new(EventType::BREAKPOINT);
    attr.bp_type = Breakpoint::W;
    (attr.config1, attr.config2) = (0xffff_ffff_ff5f_f000, 8);
    println!("{}", answer(&open(&attr)));
}

pub(crate) fn counts_of_the_kernel() {
    as_root();
    if need::sysctl("kernel/perf_event_paranoid").is_ok_and(|level| level < 2) {
        needs("a perf_event_paranoid of 2");
    }
    Child::fork(|| {
        become_user(65534);
        println!("{}", answer(&open(&Attr { flags: AttrFlags::DISABLED, ..attr(Software::PAGE_FAULTS) })));
    })
    .join();
}

/// A user loads a program.
pub(crate) fn bpf_of_users() {
    as_root();
    if need::sysctl("kernel/unprivileged_bpf_disabled").is_ok_and(|off| off == 0) {
        needs("an unprivileged_bpf_disabled that is on");
    }
    Child::fork(|| {
        become_user(65534);
        let instructions = [[0xb7, 0, 0, 0, 1, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
        let loaded = perfuse_sys::bpf::load(7, &instructions, perfuse_sys::bpf::ALL_HELPERS, None, false)
            .map_err(|(errno, _)| errno);
        println!("{}", answer(&loaded));
    })
    .join();
}

/// Statistics of programs, as `BPF_ENABLE_STATS` gives them.
pub(crate) fn commands_of_bpf() {
    as_root();
    // SAFETY: the arguments are the kind of statistics, and live.
    println!("{}", said(unsafe { libc::syscall(libc::SYS_bpf, 32, [0u32; 4].as_mut_ptr(), 16) }));
}

/// Two tasks of different cgroups take turns on a cpu.
pub(crate) fn untold_events() {
    as_root();
    work::stay_on(0);
    let own = OwnCgroup::new("switches").unwrap_or_else(|skip| needs(&skip.0));
    let mut other = Puppet::fork(&[], |_| {});
    own.add(other.pid());
    let event = opened(&attr(Software::CGROUP_SWITCHES));
    on(&event);
    (0..20).for_each(|_| other.act(1));
    off(&event);
    other.reap();
    println!("{}", if value(&event) > 0 { "they count" } else { "they stay 0" });
}

/// The kernel touches memory in place of the program.
pub(crate) fn modes_of_faults() {
    let mut attr = attr(Software::PAGE_FAULTS);
    attr.flags |= AttrFlags::EXCLUDE_KERNEL;
    let event = opened(&attr);
    let zeros = File::open("/dev/zero").expect("it is always there");
    let pages = Pages::map(64);
    let into = pages.addresses().next().expect("a page") as *mut libc::c_void;
    on(&event);
    // SAFETY: memory of these pages, which nobody refers to.
    unsafe { libc::read(zeros.as_raw_fd(), into, 64 * 4096) };
    off(&event);
    println!("{}", if value(&event) >= 64 { "count" } else { "do not count" });
}

/// The kernel writes to a variable in place of the program.
pub(crate) fn kernel_hits() {
    as_root();
    static VARIABLE: AtomicU64 = AtomicU64::new(0);
    let mut attr = Attr::new(EventType::BREAKPOINT);
    attr.bp_type = Breakpoint::W;
    (attr.config1, attr.config2) = (VARIABLE.as_ptr() as u64, 8);
    let event = opened(&attr);
    let zeros = File::open("/dev/zero").expect("it is always there");
    VARIABLE.store(1, Relaxed);
    // SAFETY: eight bytes of a live variable that may change at any time.
    unsafe { libc::read(zeros.as_raw_fd(), VARIABLE.as_ptr().cast(), 8) };
    println!("{}", if value(&event) > 1 { "count" } else { "do not count" });
}

/// Beyond what a user may lock.
pub(crate) fn locked_memory() {
    as_root();
    Child::fork(|| {
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a live value.
        unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) };
        become_user(65534);
        let event = opened(&attr(Software::DUMMY));
        println!("{}", answer(&map(&event, 1 + 4096)).replace("opens", "is mapped"));
    })
    .join();
}

pub(crate) fn numbers_of_descriptors() {
    // SAFETY: a plain number.
    let lowest = unsafe { libc::dup(0) };
    // SAFETY: it is nobody's any more.
    unsafe { libc::close(lowest) };
    let number = opened(&attr(Software::DUMMY)).as_raw_fd();
    println!("{}", if number == lowest { "the lowest free number".to_owned() } else { number.to_string() });
}

pub(crate) fn hardware_events() {
    let mut attr = Attr::new(EventType::HARDWARE);
    attr.flags |= AttrFlags::EXCLUDE_KERNEL;
    let opened = open(&attr);
    if opened.is_err() && answers() == Kernel::Linux {
        needs("a hardware PMU");
    }
    println!("{}", answer(&opened));
}

/// The PMU that perfuse has beside those of Linux.
pub(crate) fn single_steps() {
    let mut attr = Attr::new(EventType(0x5354_4550));
    attr.flags |= AttrFlags::EXCLUDE_KERNEL;
    println!("{}", answer(&open(&attr)));
}

/// A probe at the beginning of this program.
fn probe() -> Attr {
    let type_ = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type");
    let type_ = type_.ok().and_then(|text| text.trim().parse().ok());
    let mut attr = Attr::new(EventType(type_.unwrap_or_else(|| needs("the PMU uprobe"))));
    attr.config1 = c"/proc/self/exe".as_ptr() as u64;
    attr.flags |= AttrFlags::EXCLUDE_KERNEL;
    attr
}

pub(crate) fn probes_of_users() {
    as_root();
    let attr = probe();
    Child::fork(|| {
        become_user(65534);
        println!("{}", answer(&open(&attr)));
    })
    .join();
}

/// Of the kernel itself.
pub(crate) fn kernel_threads() {
    as_root();
    const KTHREADD: i32 = 2;
    let comm = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
    if comm.trim() != "kthreadd" {
        needs("the first pid namespace");
    }
    let opened = perf_event_open(&mut attr(Software::DUMMY), KTHREADD, -1, None, OpenFlags::FD_CLOEXEC);
    println!("{}", answer(&opened));
}

/// A function that a child runs in the memory of its parent, which waits.
pub(crate) fn returns_after_vfork() {
    extern "C" fn child(_argument: *mut libc::c_void) -> i32 {
        for number in 0..3 {
            plain(number);
        }
        0
    }
    let (_path, attr) = inherited_return_probe();
    let event = opened(&attr);
    on(&event);
    let mut stack = vec![0u64; 1 << 14];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child has a stack of its own, calls nothing but that function, and ends before the stack is gone; no status
    // is asked for.
    unsafe {
        let top = stack.as_mut_ptr().add(stack.len() - 2);
        let pid = libc::clone(child, top.cast(), flags, std::ptr::null_mut());
        assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), 0), pid);
    }
    off(&event);
    println!("{}", if value(&event) == 3 { "count" } else { "do not count" });
}

/// Rule D4: the memory of the path has another use by then.
pub(crate) fn paths_of_inherited_probes() {
    let (path, attr) = inherited_return_probe();
    let _event = opened(&attr);
    let mut bytes = path.into_bytes_with_nul();
    bytes[0] = b'x';
    // SAFETY: the child ends at once.
    let forked = unsafe {
        match libc::fork() {
            0 => libc::_exit(0),
            pid => pid,
        }
    };
    println!("fork {}", said(forked.into()));
}
