//! What is refused, for which reason and in which order: the same under both kernels.

use super::scenarios::{allowed, map, on, open, opened};
use super::strangers::{Victim, as_root, become_user};
use perfuse_abi::{Attr, AttrFlags, EventType, OpenFlags, SampleType, Software, ioctl};
use perfuse_sys::{Errno, perf_event_open};
use perfuse_testkit::work::{self, Child};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Acquire;

fn software(which: Software) -> Attr {
    let mut attr = Attr::new(EventType::SOFTWARE);
    attr.config = which.0;
    attr.flags |= allowed();
    attr
}

fn answer(fd: &OwnedFd, code: u32, argument: u64) -> Option<io::Error> {
    // SAFETY: the argument is a number, or the address of memory that lives and is as long as the code says.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), code as _, argument) };
    (answer < 0).then(io::Error::last_os_error)
}

/// Those that nothing tells of are there, and count nothing.
pub(crate) fn software_events_of_all_kinds() {
    for config in 0..20 {
        let attr = software(Software(config));
        println!("{config}: {:?}", open(&attr).err());
    }
    for which in [Software::ALIGNMENT_FAULTS, Software::EMULATION_FAULTS, Software::BPF_OUTPUT] {
        let mut attr = software(which);
        attr.sample_period = 1;
        println!("{which:?} sampled: {:?}", open(&attr).err());
    }
}

/// As many bits of an argument as Linux looks at (rules C49 to C56).
pub(crate) fn arguments_of_ioctls() {
    const HIGH: u64 = 1 << 32;
    let mut attr = super::scenarios::sampling(1_000_000);
    attr.flags |= AttrFlags::COMM;
    let event = opened(&attr);
    let ring = map(&event, 3).expect("a ring");
    on(&event);
    // A record of a name is written, unless it is not to be.
    for pause in [0, 1, HIGH, HIGH + 1] {
        let answer = answer(&event, ioctl::PAUSE_OUTPUT, pause);
        let before = ring.load_u64(1024, Acquire);
        // SAFETY: a name that ends with a NUL.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"named".as_ptr()) };
        let written = (0..if pause == 0 { 1000 } else { 10 }).any(|_| {
            work::burn(std::time::Duration::from_millis(2));
            ring.load_u64(1024, Acquire) != before
        });
        println!("pause {pause:x}: {answer:?}, written {written}");
    }
    drop(ring);
    let event = opened(&super::scenarios::sampling(1_000_000));
    for more in [HIGH, HIGH + 1, u64::MAX] {
        println!("refresh {more:x}: {:?}", answer(&event, ioctl::REFRESH, more));
    }
    let file = std::fs::File::open("/proc/self/exe").expect("the running program");
    for program in [u64::MAX, 999, HIGH + 999, file.as_raw_fd() as u64, event.as_raw_fd() as u64] {
        let error = answer(&event, ioctl::SET_BPF, program).and_then(|error| error.raw_os_error());
        println!("a program that is none: {error:?}");
    }
    println!("no such code: {:?}", answer(&event, 0x24ff, 0));
}

/// Rule K10: the rights come first.
pub(crate) fn a_user_asks_for_programs() {
    as_root();
    for user in [0, 65534] {
        Child::fork(|| {
            become_user(user);
            let mut attr = software(Software::DUMMY);
            attr.flags |= AttrFlags::EXCLUDE_KERNEL;
            let event = opened(&attr);
            let mut query = [4u32; 6];
            println!("{user}: {:?}", answer(&event, ioctl::QUERY_BPF, query.as_mut_ptr() as u64));
            println!("{user}: {:?}", answer(&event, ioctl::QUERY_BPF, 16));
        })
        .join();
    }
}

fn open_of(attr: &Attr, pid: i32, cpu: i32, group: Option<BorrowedFd<'_>>) -> Option<Errno> {
    perf_event_open(&mut attr.clone(), pid, cpu, group, OpenFlags::FD_CLOEXEC).err()
}

/// Rules B6 to B28: the rights over the one that is to be measured are asked late, whether it is measured already or not.
pub(crate) fn refusals_have_their_order() {
    as_root();
    let stranger = Victim::new();
    let known = Victim::new();
    let mut root = software(Software::DUMMY);
    let _known = perf_event_open(&mut root, known.pid(), -1, None, OpenFlags::FD_CLOEXEC).expect("root may");
    let dummy = |change: &dyn Fn(&mut Attr)| {
        let mut attr = software(Software::DUMMY);
        attr.flags |= AttrFlags::EXCLUDE_KERNEL;
        change(&mut attr);
        attr
    };
    let nothing = |_: &mut Attr| {};
    let leader = opened(&dummy(&nothing));
    let on_another_cpu = perf_event_open(&mut dummy(&nothing), 0, 0, None, OpenFlags::FD_CLOEXEC)
        .expect("its own, on one cpu");
    Child::fork(|| {
        become_user(65534);
        for pid in [1, stranger.pid(), known.pid(), 0x7fff_fff0] {
            let tell = |what: &str, answer: Option<Errno>| println!("{what}: {answer:?}");
            let alone = |attr: Attr| open_of(&attr, pid, -1, None);
            tell("nothing wrong", alone(dummy(&nothing)));
            tell("no such event", alone(dummy(&|attr| attr.config = 99)));
            tell("no such type", alone(dummy(&|attr| attr.type_ = EventType(12345))));
            tell("no such clock", {
                alone(dummy(&|attr| {
                    attr.flags |= AttrFlags::USE_CLOCKID;
                    attr.clockid = 99;
                }))
            });
            tell("no such field", {
                alone(dummy(&|attr| attr.sample_type = SampleType::from_bits_retain(1 << 40)))
            });
            tell("namespaces", alone(dummy(&|attr| attr.flags |= AttrFlags::NAMESPACES)));
            tell("too deep", {
                alone(dummy(&|attr| {
                    (attr.sample_type, attr.sample_max_stack) = (SampleType::CALLCHAIN, u16::MAX);
                }))
            });
            tell("too often", alone(dummy(&|attr| attr.sample_period = 1 << 63)));
            tell("no such breakpoint", alone(dummy(&|attr| attr.type_ = EventType::BREAKPOINT)));
            tell("no such cpu", open_of(&dummy(&nothing), pid, 100_000, None));
            for leader in [&leader, &on_another_cpu] {
                tell("in a group", open_of(&dummy(&nothing), pid, -1, Some(leader.as_fd())));
                let inherits = dummy(&|attr| attr.flags |= AttrFlags::INHERIT);
                tell("unlike its leader", open_of(&inherits, pid, -1, Some(leader.as_fd())));
            }
        }
    })
    .join();
}

/// Rule B27, of one that nobody has waited for.
pub(crate) fn one_that_has_ended_is_gone() {
    // SAFETY: the child ends at once; the structure is one that lives.
    let pid = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(0)
        }
        let mut info = std::mem::zeroed();
        libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, libc::WEXITED | libc::WNOWAIT);
        pid
    };
    let leader = opened(&software(Software::DUMMY));
    println!("alone: {:?}", open_of(&software(Software::DUMMY), pid, -1, None));
    println!("in a group: {:?}", open_of(&software(Software::DUMMY), pid, -1, Some(leader.as_fd())));
    println!("no such event: {:?}", open_of(&software(Software(99)), pid, -1, None));
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    println!("waited for: {:?}", open_of(&software(Software::DUMMY), pid, -1, None));
}

/// Rules B4, B5: root's, whatever `perf_event_paranoid` says.
pub(crate) fn root_looks_at_the_kernel() {
    as_root();
    for which in [Software::CPU_CLOCK, Software::TASK_CLOCK] {
        let mut attr = software(which);
        attr.sample_period = 1_000_000;
        attr.sample_type = SampleType::IP;
        println!("{which:?}: {:?}", open(&attr).err());
    }
    let mut attr = software(Software::DUMMY);
    attr.flags |= AttrFlags::NAMESPACES | AttrFlags::TASK;
    let event = opened(&attr);
    let ring = map(&event, 3).expect("a ring");
    println!("records of namespaces: {}", ring.load_u64(1024, Acquire));
}
