//! Hardware breakpoints: the same counts, samples and signals, under both kernels.

use super::scenarios::{off, on, opened, value};
use perfuse_abi::{Attr, AttrFlags, Breakpoint, EventType, OpenFlags, SampleType};
use perfuse_sys::{Errno, Mapping, Protection, ioctl, perf_event_open};
use perfuse_testkit::work;
use std::hint::black_box;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed};

static WATCHED: AtomicU64 = AtomicU64::new(0);

fn watch(what: *const AtomicU64, kind: Breakpoint, len: u64) -> Attr {
    let mut attr = Attr::new(EventType::BREAKPOINT);
    attr.bp_type = kind;
    (attr.config1, attr.config2) = (what as u64, len);
    attr.flags |= AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    attr
}

fn open(attr: &Attr) -> Result<OwnedFd, Errno> {
    perf_event_open(&mut attr.clone(), 0, -1, None, OpenFlags::FD_CLOEXEC)
}

fn write(times: u64) {
    (0..times).for_each(|time| WATCHED.store(time, Relaxed));
}

#[inline(never)]
fn called(number: u64) -> u64 {
    black_box(number) + 1
}

pub(crate) fn breakpoints_are_counted() {
    let writes = opened(&watch(&raw const WATCHED, Breakpoint::W, 8));
    let accesses = opened(&watch(&raw const WATCHED, Breakpoint::RW, 8));
    let mut code = watch(std::ptr::null(), Breakpoint::X, 8);
    code.config1 = called as fn(u64) -> u64 as usize as u64;
    let calls = opened(&code);
    write(3);
    for event in [&writes, &accesses, &calls] {
        on(event);
    }
    write(20);
    for _ in 0..5 {
        black_box(WATCHED.load(Relaxed));
    }
    for number in 0..7 {
        black_box(called(number));
    }
    for event in [&writes, &accesses, &calls] {
        off(event);
    }
    write(3);
    println!("writes {}, accesses {}, calls {}", value(&writes), value(&accesses), value(&calls));
    // Elsewhere, while it counts.
    let other = AtomicU64::new(0);
    on(&writes);
    ioctl::modify_attributes(writes.as_fd(), &watch(&raw const other, Breakpoint::W, 8)).expect("changed");
    ioctl::enable(writes.as_fd(), perfuse_abi::IocFlags::empty()).expect("on");
    write(4);
    (0..6).for_each(|time| other.store(time, Relaxed));
    off(&writes);
    println!("writes {}", value(&writes));
}

pub(crate) fn breakpoints_that_cannot_be() {
    let error = |attr: Attr| open(&attr).err();
    println!("nothing: {:?}", error(watch(&raw const WATCHED, Breakpoint::EMPTY, 8)));
    println!("3 bytes: {:?}", error(watch(&raw const WATCHED, Breakpoint::W, 3)));
    println!("16 bytes: {:?}", error(watch(&raw const WATCHED, Breakpoint::W, 16)));
    let between = (&raw const WATCHED).cast::<u8>().wrapping_add(1).cast();
    println!("across: {:?}", error(watch(between, Breakpoint::W, 8)));
    println!("the kernel: {:?}", error(watch(usize::MAX as *const _, Breakpoint::W, 1)));
    let mut all = Vec::new();
    while let Ok(event) = open(&watch(&raw const WATCHED, Breakpoint::W, 8)) {
        on(&event);
        all.push(event);
    }
    write(5);
    let values: Vec<u64> = all.iter().map(value).collect();
    println!("{values:?}, then {:?}", error(watch(&raw const WATCHED, Breakpoint::W, 8)));
    all.pop();
    println!("one is free: {:?}", error(watch(&raw const WATCHED, Breakpoint::W, 8)));
}

pub(crate) fn breakpoints_are_sampled() {
    let mut attr = watch(&raw const WATCHED, Breakpoint::W, 4);
    attr.sample_period = 2;
    attr.sample_type = SampleType::IP | SampleType::TID | SampleType::ADDR | SampleType::PERIOD;
    let event = opened(&attr);
    let ring = Mapping::new(event.as_fd(), 9 * 4096, Protection::ReadWrite, 0).expect("a ring");
    on(&event);
    write(10);
    off(&event);
    let head = ring.load_u64(1024, Acquire) as usize;
    let place = write as fn(u64) as usize as u64;
    let sane = |at: usize| {
        let word = |index: usize| ring.load_u64(4096 + at + 8 * index, Acquire);
        let near = word(1).wrapping_sub(place) < 4096;
        (near, word(3) == (&raw const WATCHED) as u64, word(4))
    };
    println!(
        "{} of 40 bytes: {:?}",
        head / 40,
        (0..head / 40).map(|index| sane(40 * index)).collect::<Vec<_>>()
    );
}

/// Rule C49b: the next hit overflows, then comes an interval of the old length, and then the new one.
pub(crate) fn a_period_that_is_set_holds_at_once() {
    for (old, new) in [(100, 100), (100, 10), (100, 300), (10, 15)] {
        let mut attr = watch(&raw const WATCHED, Breakpoint::W, 8);
        attr.sample_period = old;
        attr.sample_type = SampleType::IP;
        let event = opened(&attr);
        let ring = Mapping::new(event.as_fd(), 9 * 4096, Protection::ReadWrite, 0).expect("a ring");
        // Set while it is off, there is a full new period.
        ioctl::period(event.as_fd(), old).expect("set");
        on(&event);
        let samples = || {
            let mut at = Vec::new();
            for hit in 1..=450 {
                let before = ring.load_u64(1024, Acquire);
                write(1);
                if ring.load_u64(1024, Acquire) != before {
                    at.push(hit);
                }
            }
            at.truncate(5);
            at
        };
        let before = samples();
        write(7);
        // Nothing is printed meanwhile, as who reads that may take the cpu.
        ioctl::period(event.as_fd(), new).expect("set");
        println!("{old}: {before:?}, {new}: {:?}", samples());
    }
}

pub(crate) fn breakpoints_of_children() {
    let mut attr = watch(&raw const WATCHED, Breakpoint::W, 8);
    attr.flags |= AttrFlags::INHERIT;
    let event = opened(&attr);
    on(&event);
    write(2);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| write(10));
        }
    });
    work::Child::fork(|| {
        write(100);
        work::Child::fork(|| write(1000)).join();
    })
    .join();
    off(&event);
    println!("{}", value(&event));
    // A child that runs already, switched on and off from here.
    static GO: AtomicU32 = AtomicU32::new(0);
    let mut attr = watch(&raw const WATCHED, Breakpoint::W, 8);
    attr.flags |= AttrFlags::INHERIT | AttrFlags::INHERIT_THREAD;
    let event = opened(&attr);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while GO.load(Acquire) == 0 {
                    std::thread::yield_now();
                }
                write(10);
                GO.fetch_add(1, Relaxed);
            });
        }
        on(&event);
        GO.store(1, Relaxed);
        while GO.load(Acquire) != 4 {
            std::thread::yield_now();
        }
        off(&event);
        write(7);
    });
    println!("{}", value(&event));
}

pub(crate) fn breakpoints_send_signals() {
    if cfg!(target_arch = "aarch64") {
        println!("Linux sends the signal before the access is made, again and again");
        return;
    }
    static SEEN: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
    static CODE: AtomicI32 = AtomicI32::new(0);
    extern "C" fn trapped(_signal: i32, info: *const u64, _context: *const u8) {
        // SAFETY: the kernel gives a siginfo of sixteen words.
        let word = |at: usize| unsafe { info.add(at).read() };
        SEEN[0].fetch_add(1, Relaxed);
        CODE.store(word(1) as i32, Relaxed);
        for (at, seen) in SEEN.iter().enumerate().skip(1) {
            seen.store(word(at + 1), Relaxed);
        }
    }
    // SAFETY: a handler that only uses atomics; all else is zero, which is valid.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = trapped as extern "C" fn(i32, *const u64, *const u8) as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut());
    }
    let mut attr = watch(&raw const WATCHED, Breakpoint::W, 8);
    attr.flags |= AttrFlags::SIGTRAP | AttrFlags::REMOVE_ON_EXEC;
    (attr.sample_period, attr.sig_data) = (1, 0x1122_3344_5566_7788);
    let event = opened(&attr);
    on(&event);
    for _ in 0..30 {
        write(1);
    }
    off(&event);
    write(1);
    let [times, addr, data, kind] = SEEN.each_ref().map(|word| word.load(Relaxed));
    let right = addr == (&raw const WATCHED) as u64;
    println!("{times} of {}, code {}, {right} {data:#x} {kind}", value(&event), CODE.load(Relaxed));
}
