//! Wake-ups of overflows that come exactly when they are asked for, as breakpoints do: none is lost, none is told twice.

use super::scenarios::{map, on, opened};
use perfuse_abi::{Attr, AttrFlags, Breakpoint, EventType, OpenFlags, SampleType, Software};
use perfuse_sys::{Mapping, ioctl, perf_event_open, poll, signal};
use perfuse_testkit::signals::Handler;
use perfuse_testkit::work;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;

static WATCHED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn hit(times: u64) {
    (0..times).for_each(|time| WATCHED.store(time, Relaxed));
}

/// A sample of each hit, and a wake-up after so many.
pub(crate) fn watch(wakeup: u32) -> Attr {
    let mut attr = Attr::new(EventType::BREAKPOINT);
    attr.bp_type = Breakpoint::W;
    (attr.config1, attr.config2) = ((&raw const WATCHED) as u64, 8);
    attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    (attr.sample_period, attr.sample_type, attr.wakeup) = (1, SampleType::IP, wakeup);
    attr
}

fn empty(ring: &Mapping) {
    ring.store_u64(1032, ring.load_u64(1024, Acquire), Release);
}

fn ready(event: &OwnedFd, ms: u64) -> bool {
    poll::poll(&[event.as_fd()], Some(Duration::from_millis(ms))).expect("a wait")[0].readable
}

pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub(crate) fn of(events: &[&OwnedFd], flags: i32) -> Self {
        // SAFETY: a fresh descriptor that is ours.
        let own = unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
        for (index, event) in events.iter().enumerate() {
            let mut asked = libc::epoll_event { events: (libc::EPOLLIN | flags) as u32, u64: index as u64 };
            // SAFETY: a live entry.
            let added = unsafe {
                libc::epoll_ctl(own.as_raw_fd(), libc::EPOLL_CTL_ADD, event.as_raw_fd(), &raw mut asked)
            };
            assert_eq!(added, 0);
        }
        Epoll(own)
    }

    /// Those that are told, at most so many.
    pub(crate) fn told(&self, most: usize, ms: i32) -> Vec<u64> {
        let mut all = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: as many live entries as that, at most.
        let got = unsafe { libc::epoll_wait(self.0.as_raw_fd(), all.as_mut_ptr(), most as i32, ms) };
        let mut told: Vec<u64> = all.iter().take(got.max(0) as usize).map(|event| event.u64).collect();
        told.sort_unstable();
        told
    }
}

/// Rules G20, G24: each wait is told of what came since the last one, whatever has been read.
pub(crate) fn each_overflow_is_told_once() {
    let event = opened(&watch(1));
    let ring = map(&event, 9).expect("a ring");
    for reads in ["never", "after the wait", "before the wait", "before the overflow"] {
        for _ in 0..4 {
            let when = |now: &str| {
                if reads == now {
                    empty(&ring);
                }
            };
            when("before the overflow");
            hit(1);
            when("before the wait");
            let told = (ready(&event, 100), ready(&event, 20), ready(&event, 0));
            when("after the wait");
            println!("read {reads}: {told:?}");
        }
        hit(2);
        println!("two: {} {}", ready(&event, 100), ready(&event, 20));
        println!("none: {}", ready(&event, 20));
    }
    let event = opened(&watch(3));
    let _ring = map(&event, 9).expect("a ring");
    let told: Vec<bool> = (0..9)
        .map(|_| {
            hit(1);
            ready(&event, 10)
        })
        .collect();
    println!("every third: {told:?}");
}

/// The same by epoll, level- and edge-triggered, where not all are told at once too.
pub(crate) fn epoll_tells_each_overflow_once() {
    for flags in [0, libc::EPOLLET] {
        let event = opened(&watch(1));
        let ring = map(&event, 9).expect("a ring");
        let epoll = Epoll::of(&[&event], flags);
        for reads in [false, true] {
            for _ in 0..4 {
                hit(1);
                println!("{flags}, {reads}: {:?} {:?}", epoll.told(4, 100), epoll.told(4, 20));
                if reads {
                    empty(&ring);
                }
            }
        }
    }
    let events = [opened(&watch(1)), opened(&watch(1))];
    let rings = events.each_ref().map(|event| map(event, 9).expect("a ring"));
    let epoll = Epoll::of(&[&events[0], &events[1]], 0);
    for _ in 0..3 {
        hit(1);
        let mut told = [epoll.told(1, 100), epoll.told(1, 100)].concat();
        told.sort_unstable();
        rings.iter().for_each(empty);
        println!("one by one: {told:?}, then {:?}", epoll.told(1, 20));
    }
}

/// A thread that sleeps until there is something, and reads it or not, sleeps no longer and no shorter than it should.
pub(crate) fn a_sleeping_reader_is_woken_each_time() {
    for reads in [true, false] {
        let mut attr = watch(1);
        attr.flags |= AttrFlags::DISABLED;
        let child = ChildOnOrder::new();
        let event = perf_event_open(&mut attr, child.pid, -1, None, OpenFlags::FD_CLOEXEC);
        let event = event.expect("an event on a child");
        let ring = map(&event, 9).expect("a ring");
        on(&event);
        let mut told = Vec::new();
        for _ in 0..5 {
            child.hits_later();
            told.push((ready(&event, 5000), ready(&event, 20)));
            if reads {
                empty(&ring);
            }
        }
        println!("reads {reads}: {told:?}");
        drop(child);
    }
}

/// A child that hits what is watched a moment after it was asked to.
struct ChildOnOrder {
    pid: i32,
    order: OwnedFd,
}

impl ChildOnOrder {
    fn new() -> Self {
        let mut ends = [0; 2];
        // SAFETY: two live numbers; fresh descriptors that are ours; the child does nothing but system calls and stores.
        unsafe {
            assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0, "a pipe");
            let [hear, order] = ends.map(|fd| OwnedFd::from_raw_fd(fd));
            let pid = libc::fork();
            if pid == 0 {
                drop(order);
                let mut byte = 0u8;
                while libc::read(hear.as_raw_fd(), (&raw mut byte).cast(), 1) == 1 {
                    libc::usleep(50_000);
                    hit(1);
                }
                libc::_exit(0)
            }
            ChildOnOrder { pid, order }
        }
    }

    fn hits_later(&self) {
        // SAFETY: one byte of a live one.
        unsafe { libc::write(self.order.as_raw_fd(), [0u8].as_ptr().cast(), 1) };
    }
}

impl Drop for ChildOnOrder {
    fn drop(&mut self) {
        // SAFETY: plain numbers, and no status is asked for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Rule G26: a signal of each overflow; readiness is told as if there were none.
pub(crate) fn signals_are_no_readiness() {
    if cfg!(target_arch = "aarch64") {
        println!("needs x86: elsewhere Linux comes to a watched store again after each signal of it");
        std::process::exit(2);
    }
    let handler = Handler::install(libc::SIGUSR1);
    for (wakeup, refresh) in [(1, 3), (4, 3), (4, 9), (2, 1)] {
        let mut attr = watch(wakeup);
        attr.flags |= AttrFlags::DISABLED;
        let event = opened(&attr);
        let _ring = map(&event, 9).expect("a ring");
        signal::deliver(event.as_fd(), signal::Owner::this_thread(), libc::SIGUSR1).expect("signals");
        handler.forget();
        ioctl::refresh(event.as_fd(), refresh).expect("on");
        let told: Vec<_> = (0..10)
            .map(|_| {
                hit(1);
                (handler.count(), ready(&event, 0), ready(&event, 0))
            })
            .collect();
        println!("{wakeup} {refresh}: {told:?}, then {}", ready(&event, 20));
    }
    // One that writes to the ring of another is ready with it, and has no signal of that.
    let [first, second] = [1, 1].map(|wakeup| opened(&watch(wakeup)));
    let _ring = map(&first, 9).expect("a ring");
    ioctl::set_output(second.as_fd(), Some(first.as_fd())).expect("of the same task");
    let mut silent = Attr { config: Software::DUMMY.0, ..Attr::new(EventType::SOFTWARE) };
    silent.flags |= AttrFlags::EXCLUDE_KERNEL;
    let silent = opened(&silent);
    ioctl::set_output(silent.as_fd(), Some(first.as_fd())).expect("of the same task");
    signal::deliver(silent.as_fd(), signal::Owner::this_thread(), libc::SIGUSR1).expect("signals");
    handler.forget();
    for _ in 0..3 {
        hit(1);
        println!("in a ring of others: {} {}", ready(&silent, 20), handler.count());
    }
}

/// The owner of an event's signals is a thread that ends, its process, or a group: its end sends none.
pub(crate) fn the_end_of_a_thread_sends_no_signal() {
    const F_SETOWN_EX: i32 = 15;
    let handler = Handler::install(libc::SIGUSR1);
    // Its group is its own.
    // SAFETY: plain numbers.
    unsafe { libc::setpgid(0, 0) };
    for how in ["F_SETOWN", "its process", "its group", "F_SETOWN_EX"] {
        let event = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let event = opened(&watch(1));
                let tid = work::thread_id() as i32;
                // SAFETY: getpid and getpgrp have no preconditions.
                let (pid, group) = unsafe { (libc::getpid(), libc::getpgrp()) };
                let fd = event.as_raw_fd();
                let owner = [0, tid];
                // SAFETY: numbers, and the address of a live structure of two.
                unsafe {
                    libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) | libc::O_ASYNC);
                    libc::fcntl(fd, 10, libc::SIGUSR1);
                    match how {
                        "F_SETOWN" => libc::fcntl(fd, libc::F_SETOWN, tid),
                        "its process" => libc::fcntl(fd, libc::F_SETOWN, pid),
                        "its group" => libc::fcntl(fd, libc::F_SETOWN, -group),
                        _ => libc::fcntl(fd, F_SETOWN_EX, owner.as_ptr()),
                    };
                }
                (map(&event, 3).expect("a ring"), event)
            });
            thread.join().expect("it ends")
        });
        std::thread::sleep(Duration::from_millis(20));
        println!("{how}: {}", handler.count());
        drop(event);
    }
    // One that comes afterwards is not taken for one of those.
    // SAFETY: a plain number.
    unsafe { libc::raise(libc::SIGUSR1) };
    if cfg!(target_arch = "aarch64") {
        // Linux comes to a watched store again after each signal of it, without end.
        return println!("others: {}", handler.count());
    }
    let event = opened(&watch(1));
    signal::deliver(event.as_fd(), signal::Owner::this_thread(), libc::SIGUSR1).expect("signals");
    hit(2);
    println!("others: {}", handler.count());
}
