//! Probes in programs: the same counts, whoever sets the traps.

use super::scenarios::{off, on, opened, value};
use perfuse_abi::{Attr, AttrFlags, EventType, OpenFlags, SampleType};
use perfuse_sys::{Mapping, Protection, perf_event_open};
use perfuse_testkit::work;
use std::ffi::{CStr, CString};
use std::hint::black_box;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Barrier;
use std::sync::atomic::Ordering::Acquire;

/// Begins with something, whatever the compiler makes of it.
#[inline(never)]
fn plain(number: u64) -> u64 {
    black_box(number) + 1
}

/// Has room for itself on the stack, which is no push.
#[inline(never)]
fn roomy(number: u64) -> u64 {
    let room = black_box([number; 64]);
    room.iter().sum()
}

/// Where a function is: the path of its file, and the offset in it.
fn place(function: fn(u64) -> u64) -> (CString, u64) {
    let addr = function as usize as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the memory map");
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (from, to) = fields[0].split_once('-').expect("a range");
        if (hex(from)..hex(to)).contains(&addr) {
            return (CString::new(fields[5]).expect("a path"), addr - hex(from) + hex(fields[2]));
        }
    }
    panic!("the function is nowhere");
}

fn attr(path: &CStr, offset: u64) -> Attr {
    let type_ = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type");
    let mut attr = Attr::new(EventType(type_.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(9)));
    (attr.config1, attr.config2) = (path.as_ptr() as u64, offset);
    attr.flags |= AttrFlags::DISABLED;
    attr
}

fn probe(function: fn(u64) -> u64) -> OwnedFd {
    let (path, offset) = place(function);
    opened(&attr(&path, offset))
}

pub(crate) fn probes_are_counted() {
    let functions = [plain, roomy];
    let events = functions.map(probe);
    let call = |times| {
        for time in 0..times {
            black_box(functions.map(|function| function(time)));
        }
    };
    call(3);
    events.iter().for_each(on);
    call(7);
    events.iter().for_each(off);
    call(2);
    println!("{:?}", events.each_ref().map(value));
    drop(events);
    println!("and goes on: {} {}", plain(1), roomy(1));
    // Without one, children and threads are none of its.
    let event = probe(plain);
    on(&event);
    work::Child::fork(|| {
        black_box(plain(2));
    })
    .join();
    std::thread::scope(|scope| {
        scope.spawn(|| black_box(plain(3)));
    });
    black_box(plain(4));
    println!("{}", value(&event));
}

pub(crate) fn probes_of_threads_miss_nothing() {
    let ready = Barrier::new(4);
    let counts: Vec<u64> = std::thread::scope(|scope| {
        let work = |index: u64| {
            let event = probe(roomy);
            ready.wait();
            on(&event);
            (0..50 + index).for_each(|time| {
                black_box(roomy(time));
            });
            off(&event);
            value(&event)
        };
        let threads: Vec<_> = (0..4).map(|index| scope.spawn(move || work(index))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    println!("{counts:?}");
}

pub(crate) fn probes_are_sampled() {
    let (path, offset) = place(roomy);
    let mut attr = attr(&path, offset);
    attr.sample_period = 1;
    attr.sample_type = SampleType::IP | SampleType::RAW;
    let event = opened(&attr);
    let ring = Mapping::new(event.as_fd(), 9 * 4096, Protection::ReadWrite, 0).expect("a ring");
    on(&event);
    (0..3).for_each(|time| {
        black_box(roomy(time));
    });
    off(&event);
    let head = ring.load_u64(1024, Acquire) as usize;
    let addr = roomy as fn(u64) -> u64 as usize as u64;
    println!("{head} bytes, at the function: {}", ring.load_u64(4096 + 8, Acquire) == addr);
    // A length, the common header of eight bytes, the address.
    let raw = [16, 20, 24, 28, 32].map(|at| ring.load_u32(4096 + at, Acquire));
    println!("{} {}, {:#x}", raw[0], raw[2] == std::process::id(), u64::from(raw[3]) ^ addr & 0xffff_ffff);
}

pub(crate) fn probes_that_cannot_be() {
    let (own, offset) = place(plain);
    let error = |path: &CStr, offset| {
        perf_event_open(&mut attr(path, offset), 0, -1, None, OpenFlags::FD_CLOEXEC).err()
    };
    println!("there is one: {:?}", error(&own, offset));
    println!("no file: {:?}", error(c"/there/is/none", 0));
    println!("no path: {:?}", error(c"", 0));
    println!("a folder: {:?}", error(c"/proc", 0));
    println!("beyond: {:?}", error(&own, 1 << 40));
}
