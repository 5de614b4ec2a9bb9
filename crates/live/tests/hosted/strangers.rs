//! What programs may do to others with perf events: to those of other users, and from namespaces of their own. Each writes
//! what Linux and we must agree on.

use super::scenarios::{map, opened, sampling};
use perfuse_sys::{ioctl, signal};
use perfuse_testkit::signals::Handler;
use perfuse_testkit::{wait, work};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// User and group that nobody is.
const NOBODY: u32 = 65534;

/// Only root has strangers that it can make.
fn as_root() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("needs root");
        std::process::exit(2);
    }
}

/// The calling process becomes a user's, with nothing of root left.
fn become_user(user: u32) {
    if user == 0 {
        return;
    }
    // SAFETY: plain numbers, and no groups are read from the null pointer.
    let done = unsafe {
        [
            libc::setgroups(0, std::ptr::null()),
            libc::setresgid(user, user, user),
            libc::setresuid(user, user, user),
        ]
    };
    assert_eq!(done, [0; 3], "root may become anybody");
}

/// A process that lives until it gets a signal, or this is dropped.
struct Victim {
    pid: i32,
    _release: OwnedFd,
}

impl Victim {
    /// In a process group of its own.
    fn new() -> Self {
        let mut ends = [0; 2];
        // SAFETY: two live numbers.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0, "a pipe");
        // SAFETY: fresh descriptors that are ours.
        let [hold, release] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        // SAFETY: the child does nothing but system calls.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop(release);
            // SAFETY: one byte of a live one; ends without running anything of this program.
            unsafe {
                libc::read(hold.as_raw_fd(), [0u8].as_mut_ptr().cast(), 1);
                libc::_exit(0)
            }
        }
        // SAFETY: plain numbers.
        unsafe { libc::setpgid(pid, pid) };
        Victim { pid, _release: release }
    }

    /// The signal by which it has ended.
    fn ended_by(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: a live number.
        let ended = unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) } == self.pid;
        ended.then(|| libc::WTERMSIG(status))
    }
}

/// A sampling event that has been told to signal this owner at the end of two samples.
fn signals_as(user: u32, owner: signal::Owner) {
    work::Child::fork(|| {
        let event = opened(&sampling(1_000_000));
        become_user(user);
        println!("owner: {:?}", signal::deliver(event.as_fd(), owner, libc::SIGUSR1));
        println!("refresh: {:?}", ioctl::refresh(event.as_fd(), 2));
        work::burn(Duration::from_millis(150));
    })
    .join();
}

pub(crate) fn signals_reach_whom_the_owner_may_signal() {
    as_root();
    for group in [false, true] {
        let victim = Victim::new();
        let owner = if group { signal::Owner::Group(victim.pid) } else { signal::Owner::Process(victim.pid) };
        signals_as(NOBODY, owner);
        println!("group {group}: nobody has ended it by {:?}", victim.ended_by());
        signals_as(0, owner);
        let mut by = None;
        wait::until("root's signal", || {
            by = victim.ended_by();
            by.is_some()
        });
        println!("group {group}: root has ended it by {by:?}");
    }
}

/// Signals that queue up each say what they were sent for.
pub(crate) fn the_last_of_queued_signals_says_so() {
    let number = libc::SIGRTMIN() + 2;
    let handler = Handler::install(number);
    let event = opened(&sampling(2_000_000));
    let _ring = map(&event, 9).expect("a ring");
    signal::deliver(event.as_fd(), signal::Owner::this_thread(), number).expect("signals can be had");
    // SAFETY: a live set, and plain numbers.
    let held = |how| unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, number);
        libc::sigprocmask(how, &set, std::ptr::null_mut());
    };
    held(libc::SIG_BLOCK);
    for count in [3, 2] {
        println!("refresh: {:?}", ioctl::refresh(event.as_fd(), count));
        work::burn(Duration::from_millis(150));
    }
    held(libc::SIG_UNBLOCK);
    for caught in handler.caught() {
        println!("code {} fd {}", caught.code, caught.fd == event.as_raw_fd());
    }
}
