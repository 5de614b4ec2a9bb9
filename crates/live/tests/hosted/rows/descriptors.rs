//! Events as descriptors: what else can be done to them, and how they tell of readiness.

use super::super::scenarios::{attr, map, opened};
use super::super::strangers::{as_root, unfilled};
use super::super::tracers::errno;
use super::super::wakeups::{Epoll, hit, watch};
use super::said;
use perfuse_abi::{OpenFlags, Software};
use perfuse_sys::{Errno, perf_event_open, signal};
use perfuse_testkit::Puppet;
use perfuse_testkit::work::Child;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The same without a wait.
fn non_blocking(event: &OwnedFd) -> i32 {
    let fd = event.as_raw_fd();
    // SAFETY: plain numbers.
    unsafe { libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) | libc::O_NONBLOCK) };
    fd
}

pub(crate) fn names_of_files() {
    let event = opened(&attr(Software::DUMMY));
    let _ring = map(&event, 3).expect("a ring");
    let link = std::fs::read_link(format!("/proc/self/fd/{}", event.as_raw_fd())).expect("a link");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let ring = maps.lines().find(|line| line.contains("[perf_event]") || line.contains("memfd:"));
    let ring = ring.and_then(|line| line.rsplit("  ").next()).unwrap_or("nothing").trim();
    // Pipes have numbers.
    let link = link.display().to_string().replace(|c: char| c.is_ascii_digit(), "");
    println!("{link}, {ring}");
}

/// Calls that pipes have.
pub(crate) fn calls_of_pipes() {
    let event = opened(&attr(Software::DUMMY));
    let fd = non_blocking(&event);
    let mut ends = [0; 2];
    // SAFETY: two live numbers, and plain ones.
    unsafe {
        libc::pipe(ends.as_mut_ptr());
        let null = std::ptr::null_mut();
        let splice = said(libc::splice(fd, null, ends[1], null, 8, libc::SPLICE_F_NONBLOCK) as i64);
        let again = std::ffi::CString::new(format!("/proc/self/fd/{fd}")).expect("no zeros");
        let again = said(libc::open(again.as_ptr(), libc::O_RDONLY | libc::O_NONBLOCK).into());
        println!("splice {splice}, open {again}");
    }
}

/// Through a socket to another process, which reads it.
pub(crate) fn descriptors_that_are_passed() {
    let (here, there) = UnixStream::pair().expect("a pair of sockets");
    let told = Child::fork(|| {
        // SAFETY: structures that live, in which the kernel writes no more than they say.
        unsafe {
            let mut byte = 0u8;
            let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
            let mut room = [0u64; 4];
            let mut message: libc::msghdr = std::mem::zeroed();
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            (message.msg_control, message.msg_controllen) = (room.as_mut_ptr().cast(), 32);
            libc::recvmsg(there.as_raw_fd(), &raw mut message, 0);
            let fd = room[2] as i32;
            libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
            let mut word = 0u64;
            println!("read gives {} bytes", libc::read(fd, (&raw mut word).cast(), 8));
        }
    });
    let event = opened(&attr(Software::DUMMY));
    // SAFETY: as above; a header of 16 bytes and a number.
    unsafe {
        let byte = 0u8;
        let mut part = libc::iovec { iov_base: (&raw const byte).cast_mut().cast(), iov_len: 1 };
        let mut room =
            [20u64, (libc::SCM_RIGHTS as u64) << 32 | libc::SOL_SOCKET as u64, event.as_raw_fd() as u64];
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = (room.as_mut_ptr().cast(), 24);
        assert_eq!(libc::sendmsg(here.as_raw_fd(), &raw const message, 0), 1, "{:?}", errno());
    }
    told.join();
}

fn polled(event: &OwnedFd) -> i16 {
    let mut one = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one live entry.
    unsafe { libc::poll(&raw mut one, 1, 10) };
    one.revents
}

/// Rule G23, of an event that wants signals.
pub(crate) fn no_ring_but_signals() {
    let event = opened(&attr(Software::DUMMY));
    signal::deliver(event.as_fd(), signal::Owner::this_thread(), libc::SIGURG).expect("signals can be had");
    println!("{}", if polled(&event) & libc::POLLHUP != 0 { "POLLHUP" } else { "nothing" });
}

/// Rule G25, where the signal is blocked.
pub(crate) fn blocked_signals_of_ends() {
    let mut child = Puppet::fork(&[], |_| {});
    let pid = child.pid() as i32;
    let event = perf_event_open(&mut attr(Software::DUMMY), pid, -1, None, OpenFlags::FD_CLOEXEC);
    let event = event.expect("of a child");
    let _ring = map(&event, 3).expect("a ring");
    // SAFETY: sets of signals that live.
    unsafe {
        let mut usr1: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut usr1, libc::SIGUSR1);
        libc::pthread_sigmask(libc::SIG_BLOCK, &usr1, std::ptr::null_mut());
    }
    signal::deliver(event.as_fd(), signal::Owner::this_thread(), libc::SIGUSR1).expect("signals can be had");
    child.reap();
    (0..100).any(|_| polled(&event) & libc::POLLHUP != 0);
    // SAFETY: likewise.
    let waits = unsafe {
        let mut waiting: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&mut waiting);
        libc::sigismember(&waiting, libc::SIGUSR1) == 1
    };
    println!("{}", if waits { "one waits" } else { "none waits" });
}

/// Rule G24: two events are ready, and one is told at a time.
pub(crate) fn epoll_with_little_room() {
    let events = [1, 1].map(|wakeup| opened(&watch(wakeup)));
    let _rings = events.each_ref().map(|event| map(event, 9).expect("a ring"));
    let epoll = Epoll::of(&[&events[0], &events[1]], 0);
    hit(1);
    let told = (0..6).filter(|_| !epoll.told(1, 50).is_empty()).count();
    println!("{}", if told == 2 { "each is told once" } else { "some are told again" });
}

/// Rule B34: a call whose attr lies in memory that nobody fills.
pub(crate) fn memory_that_is_not_filled() {
    as_root();
    let (mut told, tells) = UnixStream::pair().expect("two ends");
    let caller = Child::fork(|| {
        let memory = unfilled();
        // SAFETY: the kernel checks the memory that it reads.
        unsafe { libc::syscall(libc::SYS_perf_event_open, memory, 0, -1, -1, 0) };
        let error = errno();
        let _ = (&tells).write(&[error.0 as u8]);
    });
    let mut error = [0];
    told.set_read_timeout(Some(Duration::from_secs(1))).expect("it can be set");
    let answered = told.read_exact(&mut error);
    let error = Errno(error[0].into());
    println!("{}", if answered.is_ok() { format!("{error:?}") } else { "the call waits".to_owned() });
    // SAFETY: a child that was not waited for; no status is written to the null pointer.
    unsafe {
        libc::kill(caller.pid() as i32, libc::SIGKILL);
        libc::waitpid(caller.pid() as i32, std::ptr::null_mut(), 0);
    }
}
