//! The contents of samples and records, and when they come.

use super::super::scenarios::{PAGE, attr, burn_until, map, off, on, opened, sampling};
use super::super::strangers::as_root;
use super::super::tracers::{child, waited};
use super::{Kernel, answers, needs};
use perfuse_abi::{Attr, AttrFlags, EventType, OpenFlags, SampleType, Software};
use perfuse_sys::{Mapping, perf_event_open};
use perfuse_testkit::bpf::{Program, ProgramType};
use perfuse_testkit::work::{self, Pages, Region};
use perfuse_testkit::{OwnCgroup, Puppet};
use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

const MMAP: u32 = 1;
const COMM: u32 = 3;
const SAMPLE: u32 = 9;
const NAMESPACES: u32 = 16;
const KSYMBOL: u32 = 17;
const CGROUP: u32 = 19;

/// The records of a kind in a ring, each from its header on; they are taken out.
fn taken(ring: &Mapping, kind: u32) -> Vec<Vec<u64>> {
    let (head, mut tail) = (ring.load_u64(1024, Acquire), ring.load_u64(1032, Acquire));
    let mut data = vec![0; (ring.len() - PAGE) / 8];
    ring.copy_words(PAGE, &mut data);
    let mut found = Vec::new();
    while tail < head {
        let word = |index: u64| data[(tail / 8 + index) as usize % data.len()];
        let size = word(0) >> 48;
        if word(0) as u32 == kind {
            found.push((0..size / 8).map(word).collect());
        }
        tail += size;
    }
    ring.store_u64(1032, head, Release);
    found
}

fn ring_of(attr: &Attr) -> (OwnedFd, Mapping) {
    let event = opened(attr);
    let ring = map(&event, 65).expect("a ring");
    (event, ring)
}

/// Samples of the kernel's part, of a program that works there. `work`: once.
fn in_kernel(sample_type: SampleType, mut work: impl FnMut()) -> Vec<Vec<u64>> {
    as_root();
    let mut attr = sampling(500_000);
    attr.flags = AttrFlags::DISABLED;
    attr.sample_type = sample_type;
    let (event, ring) = ring_of(&attr);
    let mut all = Vec::new();
    for _ in 0..2000 {
        on(&event);
        work();
        off(&event);
        all.extend(taken(&ring, SAMPLE));
        if all.len() > 200 {
            break;
        }
    }
    all
}

fn is_of_kernel(sample: &[u64]) -> bool {
    const KERNEL: u64 = 1;
    sample[0] >> 32 & 7 == KERNEL
}

pub(crate) fn places_in_the_kernel() {
    let zeros = File::open("/dev/zero").expect("it is always there");
    let mut room = vec![0u8; 1 << 20];
    let samples = in_kernel(SampleType::IP, || {
        // SAFETY: memory that lives.
        unsafe { libc::read(zeros.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
        // Another place of the kernel.
        work::system_calls(500);
    });
    let mut places: Vec<u64> =
        samples.iter().filter(|sample| is_of_kernel(sample)).map(|sample| sample[1]).collect();
    places.sort_unstable();
    places.dedup();
    println!(
        "samples show {}",
        match places.len() {
            0 => "no place",
            1 => "one place",
            _ => "many places",
        }
    );
}

/// A program that does little but touch new memory is in the kernel for most of its time.
pub(crate) fn kernel_time_outside_of_calls() {
    let pages = Pages::map(4096);
    let samples = in_kernel(SampleType::IP, || {
        pages.touch();
        pages.forget();
    });
    let of_kernel = samples.iter().filter(|sample| is_of_kernel(sample)).count();
    // Giving memory back is a call.
    println!("it is {}", if of_kernel > samples.len() * 3 / 4 { "the kernel's" } else { "the program's" });
}

/// Registers at samples of the kernel's part.
pub(crate) fn registers_in_the_kernel() {
    as_root();
    let mut attr = sampling(500_000);
    attr.flags = AttrFlags::DISABLED;
    attr.sample_type = SampleType::REGS_INTR;
    attr.sample_regs_intr = 1;
    let (event, ring) = ring_of(&attr);
    let mut known = Vec::new();
    while known.len() < 20 {
        on(&event);
        work::system_calls(2000);
        off(&event);
        let samples = taken(&ring, SAMPLE);
        known.extend(samples.iter().filter(|sample| is_of_kernel(sample)).map(|sample| sample[1] != 0));
    }
    println!("{}", if known.contains(&true) { "there" } else { "not there" });
}

/// So many samples of a tenth of a second.
pub(crate) fn samples_a_second() {
    let (event, ring) = ring_of(&sampling(100_000));
    on(&event);
    work::burn(Duration::from_millis(100));
    off(&event);
    let samples = taken(&ring, SAMPLE).len();
    println!("{}", if samples > 440 { "as many as asked for" } else { "4000 at most" });
}

pub(crate) fn periods_of_samples() {
    const PERIOD: u64 = 1_000_000;
    let mut attr = sampling(PERIOD);
    attr.sample_type = SampleType::PERIOD;
    let (event, ring) = ring_of(&attr);
    on(&event);
    work::burn(Duration::from_millis(200));
    off(&event);
    let samples = taken(&ring, SAMPLE);
    assert!(samples.len() > 10, "{samples:?}");
    let all = samples.iter().all(|sample| sample[1] == PERIOD);
    println!("{}", if all { "all are the event's" } else { "each is the time it stands for" });
}

/// Records with a time of the clock that is the default.
pub(crate) fn clock_of_records() {
    let mut attr = sampling(500_000);
    attr.sample_type = SampleType::TIME;
    let (event, ring) = ring_of(&attr);
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a live timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let mut before = now();
    on(&event);
    let mut is_monotonic = true;
    for _ in 0..20 {
        burn_until(|| ring.load_u64(1024, Acquire) > ring.load_u64(1032, Acquire));
        let samples = taken(&ring, SAMPLE);
        let after = now();
        is_monotonic &= samples.iter().all(|sample| (before..after).contains(&sample[1]));
        // None that comes before the next look is older than this one.
        before = samples.last().map_or(before, |sample| sample[1]);
    }
    println!("{}", if is_monotonic { "CLOCK_MONOTONIC" } else { "the kernel's own" });
}

/// Rules F35, F36.
pub(crate) fn times_of_control_pages() {
    let (_event, ring) = ring_of(&attr(Software::DUMMY));
    let has = |bit: u64| ring.load_u64(40, Acquire) & 1 << bit != 0;
    if !has(3) && answers() == Kernel::Linux {
        needs("a native TSC that is stable");
    }
    println!("{}", if has(3) { "there" } else { "not there" });
}

fn dummy(flags: AttrFlags) -> Attr {
    Attr { flags: AttrFlags::DISABLED | flags, ..attr(Software::DUMMY) }
}

/// When a record comes of what was done: at once, when the task is looked at again, or never.
fn when(ring: &Mapping, kind: u32, act: impl FnOnce(), looked_at: impl FnOnce()) {
    taken(ring, kind);
    act();
    let at_once = !taken(ring, kind).is_empty();
    looked_at();
    let later = !taken(ring, kind).is_empty();
    println!(
        "{}",
        match (at_once, later) {
            (true, _) => "told at once",
            (false, true) => "told later",
            (false, false) => "not told",
        }
    );
}

/// A page of a file, readable only.
pub(crate) fn mapped_data() {
    let (event, ring) = ring_of(&dummy(AttrFlags::MMAP | AttrFlags::MMAP_DATA));
    on(&event);
    let region = Region::reserve(2);
    let file = File::open("/proc/self/exe").expect("the running program");
    let map_data = || region.map(0, libc::PROT_READ, Some(file.as_fd()));
    // Code that is mapped is told, and all that is new with it.
    when(&ring, MMAP, map_data, || _ = work::map_code(&file));
}

/// Of a child that was there before, and has no events.
pub(crate) fn code_that_others_map() {
    let file = File::open("/proc/self/exe").expect("the running program");
    let region = Region::reserve(2);
    let child = RefCell::new(Puppet::fork(&[], |step| match step {
        1 => region.map(0, libc::PROT_READ | libc::PROT_EXEC, Some(file.as_fd())),
        _ => _ = work::burn(Duration::from_millis(200)),
    }));
    let act = |step| child.borrow_mut().act(step);
    let mut told = sampling(1_000_000);
    told.flags |= AttrFlags::MMAP;
    let pid = child.borrow().pid() as i32;
    let event = perf_event_open(&mut told, pid, -1, None, OpenFlags::FD_CLOEXEC).expect("of a child");
    let ring = map(&event, 65).expect("a ring");
    on(&event);
    act(2);
    when(&ring, MMAP, || act(1), || act(2));
}

pub(crate) fn names_of_threads() {
    let mut attr = sampling(1_000_000);
    attr.flags |= AttrFlags::COMM;
    let (event, ring) = ring_of(&attr);
    on(&event);
    let name = || {
        // SAFETY: a short name that ends with NUL.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"renamed".as_ptr()) };
    };
    when(&ring, COMM, name, || _ = work::burn(Duration::from_millis(100)));
}

/// Of a child that leaves one, and then becomes another program.
pub(crate) fn changes_of_namespaces() {
    as_root();
    let (mut here, there) = UnixStream::pair().expect("two ends");
    let pid = child(|| {
        // SAFETY: a plain number; a name, and an array that ends with a null pointer.
        unsafe {
            let _ = (&there).read(&mut [0]);
            let left = libc::unshare(libc::CLONE_NEWUTS);
            let _ = (&there).write(b"!");
            let _ = (&there).read(&mut [0]);
            let name = c"/bin/true".as_ptr();
            libc::execv(name, [name, std::ptr::null()].as_ptr());
            left
        }
    });
    let mut told = dummy(AttrFlags::NAMESPACES);
    let event = perf_event_open(&mut told, pid, -1, None, OpenFlags::FD_CLOEXEC).expect("of a child");
    let ring = map(&event, 65).expect("a ring");
    on(&event);
    let mut second = here.try_clone().expect("a descriptor");
    let leave = || {
        here.write_all(b"!").expect("it listens");
        here.read_exact(&mut [0]).expect("it answers");
    };
    let become_another = || {
        second.write_all(b"!").expect("it listens");
        assert_eq!(waited(pid, 0), "ended with 0");
    };
    when(&ring, NAMESPACES, leave, become_another);
}

pub(crate) fn symbols_of_the_kernel() {
    as_root();
    let (event, ring) = ring_of(&dummy(AttrFlags::KSYMBOL));
    on(&event);
    let load = || {
        Program::returning(ProgramType::PerfEvent, 1).unwrap_or_else(|skip| needs(&skip.0));
    };
    when(&ring, KSYMBOL, load, || _ = work::burn(Duration::from_millis(20)));
}

pub(crate) fn new_cgroups() {
    as_root();
    let (event, ring) = ring_of(&dummy(AttrFlags::CGROUP));
    on(&event);
    let make = || {
        OwnCgroup::new("told").unwrap_or_else(|skip| needs(&skip.0));
    };
    when(&ring, CGROUP, make, || _ = work::burn(Duration::from_millis(20)));
}

/// Rule H52: two listeners, of which one has asked for build-ids.
pub(crate) fn build_ids_for_others() {
    const MMAP2: u32 = 10;
    const HAS_BUILD_ID: u64 = 1 << 14;
    let flags = AttrFlags::MMAP | AttrFlags::MMAP2;
    // Linux tells the one that came last first.
    let rings = [flags, flags | AttrFlags::BUILD_ID].map(|flags| {
        let (event, ring) = ring_of(&dummy(flags));
        on(&event);
        (event, ring)
    });
    let file = File::open("/proc/self/exe").expect("the running program");
    work::map_code(&file);
    let says = rings.each_ref().map(|(_, ring)| {
        let records = taken(ring, MMAP2);
        assert!(!records.is_empty(), "code is told of");
        records.iter().any(|record| record[0] >> 32 & HAS_BUILD_ID != 0)
    });
    if answers() == Kernel::Linux && says == [false, true] {
        needs("a Linux that has the fault of rule H52");
    }
    println!(
        "{}",
        match says {
            [false, true] => "the bit is right",
            [true, true] => "an inode may be called a build-id",
            _ => "no build-id",
        }
    );
}

/// A sample tells of the memory that it touched, and of the place of its code.
pub(crate) fn fields_of_memory() {
    as_root();
    let mut attr = Attr::new(EventType::BREAKPOINT);
    static VARIABLE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    attr.bp_type = perfuse_abi::Breakpoint::W;
    (attr.config1, attr.config2) = (VARIABLE.as_ptr() as u64, 8);
    attr.flags |= AttrFlags::EXCLUDE_KERNEL;
    attr.sample_period = 1;
    let fields =
        [SampleType::PHYS_ADDR, SampleType::CGROUP, SampleType::DATA_PAGE_SIZE, SampleType::CODE_PAGE_SIZE];
    let names = ["physical address", "cgroup", "size of the data's page", "size of the code's page"];
    let mut missing = Vec::new();
    for (field, name) in fields.into_iter().zip(names) {
        attr.sample_type = field | SampleType::ADDR;
        let (_event, ring) = ring_of(&attr);
        VARIABLE.store(1, Release);
        let samples = taken(&ring, SAMPLE);
        if samples[0][2] == 0 {
            missing.push(name);
        }
    }
    println!(
        "{}",
        if missing.is_empty() { "all are there".to_owned() } else { format!("0: {}", missing.join(", ")) }
    );
}
