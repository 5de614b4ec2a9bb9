//! Programs that use perf events. Each writes what Linux and we must agree on: answers and exact numbers,
//! and of times only how they compare.

use perfuse_abi::{Attr, AttrFlags, EventType, IocFlags, OpenFlags, ReadFormat, SampleType, Software};
use perfuse_sys::{Errno, Mapping, Protection, ioctl, perf_event_open, poll, prctl, read, signal};
use perfuse_testkit::Puppet;
use perfuse_testkit::signals::{Handler, POLL_HUP};
use perfuse_testkit::work::{self, Pages};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

pub(crate) use super::breakpoints::*;
pub(crate) use super::memory::*;
pub(crate) use super::probes::*;
pub(crate) use super::refusals::*;
pub(crate) use super::strangers::*;
pub(crate) use super::tracers::*;
pub(crate) use super::wakeups::*;

pub(crate) const PAGE: usize = 4096;

pub(crate) fn attr(which: Software) -> Attr {
    let mut attr = Attr::new(EventType::SOFTWARE);
    attr.config = which.0;
    attr.flags |= AttrFlags::DISABLED | allowed();
    attr
}

/// The flags with which Linux opens an event for a user too: the kernel's side is root's.
pub(crate) fn allowed() -> AttrFlags {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 { AttrFlags::empty() } else { AttrFlags::EXCLUDE_KERNEL }
}

/// An event on the calling thread.
pub(crate) fn open(attr: &Attr) -> Result<OwnedFd, Errno> {
    perf_event_open(&mut attr.clone(), 0, -1, None, OpenFlags::FD_CLOEXEC)
}

pub(crate) fn opened(attr: &Attr) -> OwnedFd {
    open(attr).unwrap_or_else(|errno| {
        println!("cannot be opened: {errno}");
        std::process::exit(2)
    })
}

pub(crate) fn on(fd: &OwnedFd) {
    ioctl::enable(fd.as_fd(), IocFlags::empty()).expect("an event can be switched on");
}

pub(crate) fn off(fd: &OwnedFd) {
    ioctl::disable(fd.as_fd(), IocFlags::empty()).expect("an event can be switched off");
}

pub(crate) fn value(fd: &OwnedFd) -> u64 {
    let mut words = [0; 16];
    read(fd.as_fd(), &mut words).expect("an event can be read");
    words[0]
}

/// A task-clock that samples user space, with a record each `period` ns and at each a wake-up.
pub(crate) fn sampling(period: u64) -> Attr {
    let mut attr = attr(Software::TASK_CLOCK);
    attr.flags |= AttrFlags::EXCLUDE_KERNEL;
    attr.sample_period = period;
    attr.sample_type = SampleType::IP | SampleType::TID;
    attr.wakeup = 1;
    attr
}

pub(crate) fn attrs_of_all_sizes() {
    // Raw bytes: type 1, size, config 9 (dummy).
    for size in [0u32, 1, 63, 64, 72, 80, 96, 104, 112, 120, 128, 136, 4096, 4097, u32::MAX] {
        for tail in [0u8, 1] {
            let mut bytes = vec![0u8; 8192];
            bytes[0..4].copy_from_slice(&1u32.to_ne_bytes());
            bytes[4..8].copy_from_slice(&size.to_ne_bytes());
            bytes[8] = 9;
            bytes[40..48].copy_from_slice(&allowed().bits().to_ne_bytes());
            if size as usize > 200 && (size as usize) < bytes.len() {
                bytes[size as usize - 1] = tail;
            }
            // SAFETY: the kernel reads at most a page, which is there.
            let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, bytes.as_mut_ptr(), 0, -1, -1, 0) };
            let errno = std::io::Error::last_os_error().raw_os_error();
            let told = u32::from_ne_bytes(bytes[4..8].try_into().expect("four bytes"));
            println!("size {size} tail {tail}: {:?}, then {told}", (fd < 0).then_some(errno));
            if fd >= 0 {
                // SAFETY: a fresh descriptor that is ours.
                drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
            }
        }
    }
}

pub(crate) fn wrong_calls() {
    let raw = |attr: usize, pid: i32, cpu: i32, group: i32, flags: u64| {
        // SAFETY: the addresses are of nothing, or of a live attr.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attr, pid, cpu, group, flags) };
        if fd >= 0 { "works".to_owned() } else { std::io::Error::last_os_error().to_string() }
    };
    let good = attr(Software::DUMMY);
    let good = (&raw const good) as usize;
    println!("flags first: {}", raw(0, 0, -1, -1, u64::MAX));
    println!("no attr: {}", raw(0, 0, -1, -1, 0));
    println!("an attr that is not there: {}", raw(16, 0, -1, -1, 0));
    println!("nobody: {}", raw(good, -1, -1, -1, 0));
    println!("a cpu that is not there: {}", raw(good, 0, 100_000, -1, 0));
    println!("a group that is none: {}", raw(good, 0, -1, 1, 0));
    println!("a group that is not open: {}", raw(good, 0, -1, 700, 0));
    println!("no such process: {}", raw(good, 0x7fff_fff0, -1, -1, 0));
    println!("cgroup without cpu: {}", raw(good, 0, -1, -1, 4));
    let mut other = attr(Software(1000));
    println!("no such event: {:?}", open(&other).err());
    other = attr(Software::DUMMY);
    other.sample_type = SampleType::from_bits_retain(1 << 40);
    println!("an unknown field: {:?}", open(&other).err());
    other = attr(Software::DUMMY);
    other.type_ = EventType(12345);
    println!("an unknown type: {:?}", open(&other).err());
    // Not about events at all, but near.
    // SAFETY: plain numbers.
    unsafe {
        println!("a closed descriptor: {} {}", libc::close(777), libc::read(800, std::ptr::null_mut(), 0));
        println!("an ioctl of no event: {}", libc::ioctl(1, 0x2400, 0));
        println!("nothing mapped: {}", libc::munmap(0x6b00_0000_0000 as *mut libc::c_void, 4096));
    }
}

pub(crate) fn counts_and_groups() {
    let mut leader = attr(Software::PAGE_FAULTS_MIN);
    leader.read_format = ReadFormat::GROUP | ReadFormat::ID | ReadFormat::LOST;
    let first = opened(&leader);
    let mut second = attr(Software::PAGE_FAULTS);
    (second.flags, second.read_format) = (allowed(), leader.read_format);
    let group = |attr: &Attr, group: &OwnedFd| {
        perf_event_open(&mut attr.clone(), 0, -1, Some(group.as_fd()), OpenFlags::FD_CLOEXEC)
    };
    let second = group(&second, &first).expect("a sibling");
    println!("one of another task: {:?}", {
        let mut attr = attr(Software::DUMMY);
        perf_event_open(&mut attr, 0, 0, Some(first.as_fd()), OpenFlags::empty()).err()
    });
    let pages = Pages::map(100);
    pages.touch();
    pages.forget();
    let mut words = [0u64; 16];
    for round in 0..3 {
        ioctl::enable(first.as_fd(), IocFlags::GROUP).expect("a group can be switched on");
        pages.touch();
        ioctl::disable(first.as_fd(), IocFlags::GROUP).expect("a group can be switched off");
        pages.touch();
        pages.forget();
        let read = read(first.as_fd(), &mut words).expect("a group can be read");
        println!("round {round}: {read} words, {} events, {} and {}", words[0], words[1], words[4]);
    }
    let ids = [&first, &second].map(|fd| ioctl::id(fd.as_fd()).expect("an id"));
    println!("the ids are those of ioctl: {}", ids == [words[2], words[5]]);
    let mut short = [0; 3];
    println!("no room: {:?}", read(first.as_fd(), &mut short));
    let mut timed = attr(Software::TASK_CLOCK);
    timed.read_format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    let clock = opened(&timed);
    on(&clock);
    let burnt = work::burn(Duration::from_millis(20)).as_nanos() as u64;
    off(&clock);
    read(clock.as_fd(), &mut words).expect("a clock can be read");
    // The clocks of a thread and of its events differ by what interrupts took.
    println!("what was burnt: {}", words[0] > burnt / 2 && words[0] < 4 * burnt);
    println!("times are the count's: {}", words[0].abs_diff(words[1]) < 10_000_000 && words[1] == words[2]);
    println!("off it stands still: {}", { value(&clock) == words[0] });
}

pub(crate) fn ioctls() {
    let counting = opened(&attr(Software::DUMMY));
    let samples = opened(&sampling(1_000_000));
    let fd = counting.as_fd();
    println!("refresh of one that counts: {:?}", ioctl::refresh(fd, 1));
    println!("period of one that counts: {:?}", ioctl::period(fd, 1000));
    println!("period 0: {:?}", ioctl::period(samples.as_fd(), 0));
    println!("period too long: {:?}", ioctl::period(samples.as_fd(), 1 << 63));
    println!("period: {:?}", ioctl::period(samples.as_fd(), 2_000_000));
    println!("no filter: {:?}", ioctl::set_filter(fd, c"x == 1"));
    println!("output to itself: {:?}", ioctl::set_output(fd, Some(fd)));
    println!("output without a ring: {:?}", ioctl::set_output(fd, Some(samples.as_fd())));
    println!("output to nobody: {:?}", ioctl::set_output(fd, None));
    println!("output to no event: {:?}", ioctl::set_output(fd, Some(std::io::stdin().as_fd())));
    println!("pause without a ring: {:?}", ioctl::pause_output(fd, true));
    // Linux refuses users before it looks at the event.
    if allowed().is_empty() {
        println!("programs: {:?}", ioctl::query_bpf(fd).err());
    }
    println!("attributes: {:?}", ioctl::modify_attributes(fd, &attr(Software::DUMMY)));
    println!("ids differ: {}", ioctl::id(fd) != ioctl::id(samples.as_fd()));
    // SAFETY: numbers, and addresses of nothing.
    unsafe {
        println!("unknown: {} {}", libc::ioctl(fd.as_raw_fd(), 0x24ff, 0), std::io::Error::last_os_error());
        let id = perfuse_abi::ioctl::ID as libc::c_ulong;
        println!("nowhere: {} {}", libc::ioctl(fd.as_raw_fd(), id as _, 8), std::io::Error::last_os_error());
    }
    let faults = opened(&attr(Software::PAGE_FAULTS));
    let pages = Pages::map(10);
    on(&faults);
    pages.touch();
    off(&faults);
    println!("counted {}", value(&faults) >= 10);
    println!("reset {:?}, then {}", ioctl::reset(faults.as_fd(), IocFlags::empty()), value(&faults));
}

/// The event of a descriptor; 0 for none.
fn id(fd: i32) -> u64 {
    // SAFETY: the descriptor is only used for a moment.
    ioctl::id(unsafe { BorrowedFd::borrow_raw(fd) }).unwrap_or(0)
}

/// How many bytes `read(2)` gives.
fn bytes_of(fd: i32) -> isize {
    let mut words = [0u64; 8];
    // SAFETY: the bytes are there.
    unsafe { libc::read(fd, words.as_mut_ptr().cast(), size_of_val(&words)) }
}

pub(crate) fn descriptors_are_duplicated_and_inherited() {
    let event = opened(&attr(Software::DUMMY));
    let (raw, own) = (event.as_raw_fd(), id(event.as_raw_fd()));
    // SAFETY: plain numbers; the numbers used are nobody else's.
    unsafe {
        let copies = [
            libc::dup(raw),
            libc::fcntl(raw, libc::F_DUPFD, 100),
            libc::fcntl(raw, libc::F_DUPFD_CLOEXEC, 0),
        ];
        for copy in copies {
            println!("a copy: {} {} {}", id(copy) == own, bytes_of(copy), libc::fcntl(copy, libc::F_GETFD));
        }
        println!("dup2: {} {}", libc::dup2(raw, 50) == 50, id(50) == own && bytes_of(50) == 8);
        println!("dup3: {} {}", libc::dup3(raw, 900, libc::O_CLOEXEC), libc::fcntl(900, libc::F_GETFD));
        println!("onto itself: {} {}", libc::dup2(900, 900), libc::dup3(900, 900, 0));
        println!("replaced: {} {} {}", libc::dup2(1, 900), id(900), bytes_of(50));
        println!("closed: {} {}", libc::close(900), libc::close(900));
        println!("closed low: {} {} {}", libc::close(50), id(50), bytes_of(50));
        println!("the others: {}", copies.map(|copy| id(copy) == own && bytes_of(copy) == 8) == [true; 3]);
        let flags = libc::fcntl(copies[0], libc::F_SETFD, libc::FD_CLOEXEC);
        println!("close on exec: {flags} {}", libc::fcntl(copies[0], libc::F_GETFD));
        let child = work::Child::fork(|| {
            // The status tells of it.
            let good = id(copies[1]) == own && bytes_of(copies[1]) == 8 && libc::close(copies[1]) == 0;
            libc::_exit(if good { 0 } else { 1 })
        });
        child.join();
        println!("after the child: {}", bytes_of(copies[1]));
        println!(
            "a range: {} {}",
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0),
            id(raw) + id(copies[1])
        );
    }
    std::mem::forget(event);
}

pub(crate) fn a_program_that_is_executed_keeps_what_it_should() {
    let kept = {
        let mut attr = attr(Software::DUMMY);
        perf_event_open(&mut attr, 0, -1, None, OpenFlags::empty()).expect("an event")
    };
    let closed = opened(&attr(Software::DUMMY));
    let path = std::env::current_exe().expect("the running program has a path");
    let mut command = std::process::Command::new(path);
    command.args(["tool", "reader", &kept.as_raw_fd().to_string(), &closed.as_raw_fd().to_string()]);
    // Written by the other program.
    let output = command.output().expect("the program runs again");
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

/// The program that is executed.
pub(crate) fn reader() {
    let numbers = std::env::args().skip(3).map(|number| number.parse::<i32>().expect("a number"));
    for number in numbers {
        println!("{} {}", id(number) != 0, bytes_of(number));
    }
}

pub(crate) fn map(fd: &OwnedFd, pages: usize) -> Result<Mapping, Errno> {
    Mapping::new(fd.as_fd(), pages * PAGE, Protection::ReadWrite, 0)
}

pub(crate) fn rings_are_mapped_and_unmapped() {
    let event = opened(&sampling(1_000_000));
    for pages in [3, 4, 6] {
        println!("{pages} pages: {:?}", map(&event, pages).err());
    }
    println!("private: {}", {
        let (prot, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY: the kernel chooses the address.
        let got = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, prot, flags, event.as_raw_fd(), 0) };
        got == libc::MAP_FAILED
    });
    println!("an offset: {:?}", Mapping::new(event.as_fd(), PAGE, Protection::Read, 4096).err());
    let first = map(&event, 3).expect("a ring");
    println!("another size: {:?}", map(&event, 5).err());
    let second = map(&event, 3).expect("the same ring");
    first.store_u64(1032, 0, std::sync::atomic::Ordering::Relaxed);
    println!("the same memory: {}", {
        let word = |mapping: &Mapping| mapping.load_u64(1048, std::sync::atomic::Ordering::Relaxed);
        (word(&first), word(&second)) == (2 * PAGE as u64, 2 * PAGE as u64)
    });
    println!("while it is mapped: {:?}", ioctl::set_output(event.as_fd(), None));
    drop((first, second));
    println!("when it is not: {:?}", ioctl::set_output(event.as_fd(), None));
    println!("again: {:?}", map(&event, 9).err());
    let mut inherited = sampling(1_000_000);
    inherited.flags |= AttrFlags::INHERIT;
    println!("inherited on any cpu: {:?}", map(&opened(&inherited), 3).err());
    let other = opened(&attr(Software::DUMMY));
    let ring = map(&event, 3).expect("a ring");
    println!("output: {:?}", ioctl::set_output(other.as_fd(), Some(event.as_fd())));
    drop(ring);
    println!("control page only: {:?}", map(&opened(&attr(Software::DUMMY)), 1).err());
}

/// The answer of `poll(2)` at once.
fn polled(fd: &OwnedFd) -> libc::c_short {
    let mut one = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to one that lives.
    unsafe { libc::poll(&raw mut one, 1, 0) };
    one.revents
}

/// Rules G21, G23, G24.
pub(crate) fn readiness() {
    println!("without a ring: {:x}", polled(&opened(&attr(Software::DUMMY))));
    let event = opened(&sampling(200_000));
    println!("sampling without a ring: {:x}", polled(&event));
    let ring = map(&event, 9).expect("a ring");
    println!("with one: {:x}", polled(&event));
    let sampled = || {
        // Where it is lost for a moment, there is more time.
        let head = || ring.load_u64(1024, Acquire);
        let before = head();
        on(&event);
        while head() == before {
            work::burn(Duration::from_millis(1));
        }
        off(&event);
    };
    sampled();
    println!("with samples: {:x}, {:x}, {:x}", polled(&event), polled(&event), polled(&event));
    sampled();
    let mut set: libc::fd_set = {
        // SAFETY: an all-zero set is a valid value.
        unsafe { std::mem::zeroed() }
    };
    let selected = |set: &mut libc::fd_set| {
        let (fd, none) = (event.as_raw_fd(), std::ptr::null_mut());
        let mut at_once = libc::timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: the number is below that of sets' ends, and the pointers are to values that live.
        unsafe {
            libc::FD_SET(fd, set);
            libc::select(fd + 1, set, none, none, &raw mut at_once)
        }
    };
    println!("by select: {}, {}, then {:x}", selected(&mut set), selected(&mut set), polled(&event));
    sampled();
    let tail = ring.load_u64(1024, Acquire);
    ring.store_u64(1032, tail, std::sync::atomic::Ordering::Release);
    println!("read before it was asked: {:x}, {:x}", polled(&event), polled(&event));
    let other = opened(&attr(Software::DUMMY));
    println!("one that writes there: {:x}", {
        ioctl::set_output(other.as_fd(), Some(event.as_fd())).expect("of the same task");
        polled(&other)
    });
    println!("and no longer: {:x}", {
        ioctl::set_output(other.as_fd(), None).expect("it has no ring");
        polled(&other)
    });
    drop(ring);
    println!("unmapped: {:x}", polled(&event));
    let _ring = map(&event, 9).expect("a ring");
    println!("mapped again: {:x}", polled(&event));
    let mut puppet = Puppet::fork(&[], |_| {});
    let pid = puppet.pid() as i32;
    let theirs = perf_event_open(&mut attr(Software::DUMMY), pid, -1, None, OpenFlags::empty());
    let theirs = theirs.expect("an event on a child");
    let ring = map(&theirs, 3).expect("a ring");
    println!("of one that lives: {:x}", polled(&theirs));
    puppet.reap();
    println!("of one that has ended: {:x}", polled(&theirs));
    drop(ring);
}

pub(crate) fn calls_of_files() {
    let event = opened(&attr(Software::DUMMY));
    let fd = event.as_raw_fd();
    let error = |answer: i64| (answer, (answer < 0).then(|| std::io::Error::last_os_error().to_string()));
    let mut number = 0u64;
    let word = (&raw mut number).cast::<libc::c_void>();
    let output = perfuse_abi::ioctl::SET_OUTPUT as libc::c_ulong;
    // SAFETY: numbers, and the address of a word that lives, of which no call takes more.
    unsafe {
        println!("write: {:?}", error(libc::write(fd, word, 8) as i64));
        println!("nothing: {:?}", error(libc::write(fd, word, 0) as i64));
        let part = libc::iovec { iov_base: word, iov_len: 8 };
        println!("writev: {:?}", error(libc::writev(fd, &raw const part, 1) as i64));
        let mut words = [0u64; 4];
        let mut parts = |lens: [usize; 2]| {
            let part =
                |at: usize| libc::iovec { iov_base: (&raw mut words[at]).cast(), iov_len: lens[at / 2] };
            [0, 2].map(part)
        };
        for lens in [[8, 8], [16, 8], [0, 8], [8, 4], [4, 8]] {
            let parts = parts(lens);
            println!("in parts {lens:?}: {:?}", error(libc::readv(fd, parts.as_ptr(), 2) as i64));
            for position in [-1, 0] {
                let read = libc::preadv2(fd, parts.as_ptr(), 2, position, 0);
                println!("at {position}: {:?}", error(read as i64));
            }
        }
        println!("too many parts: {:?}", error(libc::readv(fd, &raw const part, 1025) as i64));
        println!("pread: {:?}", error(libc::pread(fd, word, 8, 0) as i64));
        println!("lseek: {:?}", error(libc::lseek(fd, 0, libc::SEEK_CUR)));
        println!("FIONREAD: {:?}", error(libc::ioctl(fd, libc::FIONREAD, word).into()));
        println!("TCGETS: {:?}", error(libc::ioctl(fd, libc::TCGETS, word).into()));
        println!("FIONBIO: {:?}", error(libc::ioctl(fd, libc::FIONBIO, word).into()));
        println!("flags: {:x}", libc::fcntl(fd, libc::F_GETFL));
        println!(
            "FIONCLEX: {:?}, {}",
            error(libc::ioctl(fd, libc::FIONCLEX).into()),
            libc::fcntl(fd, libc::F_GETFD)
        );
        println!(
            "FIOCLEX: {:?}, {}",
            error(libc::ioctl(fd, libc::FIOCLEX).into()),
            libc::fcntl(fd, libc::F_GETFD)
        );
        for target in [-1i64, 0xffff_ffff, 0x1_ffff_ffff, -2, 999, 1] {
            println!("output to {target:x}: {:?}", error(libc::ioctl(fd, output as _, target).into()));
        }
    }
}

/// Rules F2, F4 and F11.
pub(crate) fn rings_are_not_other_memory() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(18)) {
        println!("needs Linux 6.18, whose rings ours are like: this is {}", release.trim());
        std::process::exit(2);
    }
    let event = opened(&attr(Software::DUMMY));
    let (read, write, code) = (libc::PROT_READ, libc::PROT_WRITE, libc::PROT_EXEC);
    let size = 3 * PAGE;
    let error = |failed: bool| failed.then(|| std::io::Error::last_os_error().to_string());
    let map = |len, prot, flags| {
        // SAFETY: the kernel chooses the address.
        unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, event.as_raw_fd(), 0) }
    };
    for (prot, flags) in [(read | code, libc::MAP_SHARED), (7, libc::MAP_SHARED), (7, libc::MAP_PRIVATE)] {
        println!("as code {prot} {flags}: {:?}", error(map(size, prot, flags) == libc::MAP_FAILED));
    }
    let ring = map(size, read, libc::MAP_SHARED);
    // SAFETY: of the ring alone, and what is behind it is never taken.
    unsafe {
        let protect = |at: usize, len, prot| error(libc::mprotect(ring.add(at), len, prot) != 0);
        println!("to write: {:?}", protect(0, size, read | write));
        println!("as code: {:?}", protect(0, size, read | code));
        println!("a part: {:?}, {:?}", protect(PAGE, PAGE, read), protect(0, 5, read));
        println!("a part as it is: {:?}", protect(PAGE, PAGE, read | write));
        println!("nothing: {:?}, {:?}", protect(0, size, libc::PROT_NONE), protect(0, size, read | write));
        ring.cast::<u8>().add(1032).write_volatile(7);
        for advice in [libc::MADV_DONTNEED, libc::MADV_FREE, libc::MADV_REMOVE, libc::MADV_WILLNEED] {
            let (all, part) =
                (libc::madvise(ring, size, advice), libc::madvise(ring.add(PAGE), PAGE, advice));
            println!("advice {advice}: {:?}, {:?}", error(all != 0), error(part != 0));
        }
        println!("its bytes: {}", ring.cast::<u8>().add(1032).read_volatile());
        println!("synchronized: {:?}", error(libc::msync(ring, size, libc::MS_SYNC) != 0));
        let twice = libc::mremap(ring, 0, size, libc::MREMAP_MAYMOVE);
        println!("a second time: {:?}", error(twice == libc::MAP_FAILED));
        println!("unmapped by bytes: {:?}", error(libc::munmap(ring, size - 5) != 0));
    }
    for _ in 0..20 {
        let ring = map(size - 5, read | write, libc::MAP_SHARED);
        // SAFETY: it has just been mapped, and nobody else has it.
        let failed = ring == libc::MAP_FAILED || unsafe { libc::munmap(ring, size - 5) } != 0;
        println!("and again: {:?}", error(failed));
    }
}

pub(crate) fn rings_are_not_cut() {
    let event = opened(&attr(Software::DUMMY));
    let (shared, prot) = (libc::MAP_SHARED, libc::PROT_READ | libc::PROT_WRITE);
    let size = 3 * PAGE;
    let fails = |address: *mut libc::c_void| address == libc::MAP_FAILED;
    // SAFETY: memory that is nobody else's, as the kernel has chosen its place.
    unsafe {
        let none = libc::PROT_NONE;
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let region = libc::mmap(std::ptr::null_mut(), 12 * PAGE, none, anonymous, -1, 0);
        let there = region.add(4 * PAGE);
        let fixed = libc::mmap(there, size, prot, shared | libc::MAP_FIXED, event.as_raw_fd(), 0);
        println!("in its place: {}", fixed == there);
        for at in [0, PAGE, 2 * PAGE] {
            let cut = libc::munmap(there.add(at), PAGE);
            if cut == 0 {
                println!("this kernel cuts rings");
                std::process::exit(2);
            }
            println!("unmapped at {at}: {cut}");
            let over = libc::mmap(there.add(at), PAGE, prot, anonymous | libc::MAP_FIXED, -1, 0);
            println!("replaced at {at}: {}", fails(over));
        }
        println!("shrunk: {}", fails(libc::mremap(there, size, PAGE, libc::MREMAP_MAYMOVE)));
        println!("grown: {}", fails(libc::mremap(there, size, 2 * size, libc::MREMAP_MAYMOVE)));
        println!("still open to others: {:?}", ioctl::set_output(event.as_fd(), None));
        let to = libc::mmap(std::ptr::null_mut(), size, prot, anonymous, -1, 0);
        let moved = libc::mremap(there, size, size, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, to);
        println!("moved: {}", moved == to);
        println!("still mapped: {:?}", ioctl::set_output(event.as_fd(), None));
        println!("unmapped: {} {:?}", libc::munmap(to, size), ioctl::set_output(event.as_fd(), None));
    }
}

/// Records in a ring that the reader has not read, as types.
fn records(ring: &Mapping, data: usize) -> Vec<u32> {
    let (head, mut tail) = (ring.load_u64(1024, Acquire), ring.load_u64(1032, Acquire));
    let mut types = Vec::new();
    while tail < head {
        let at = PAGE + (tail as usize & (data * PAGE - 1));
        types.push(ring.load_u32(at, Acquire));
        tail += u64::from(ring.load_u16(at + 6, Acquire));
    }
    ring.store_u64(1032, head, std::sync::atomic::Ordering::Release);
    types
}

pub(crate) fn a_ring_outlives_its_descriptor() {
    let mut named = attr(Software::DUMMY);
    named.flags = AttrFlags::COMM;
    named.sample_type = SampleType::TID;
    let event = opened(&named);
    let ring = map(&event, 3).expect("a ring");
    drop(event);
    // SAFETY: a short name that ends with NUL. The event is still told of: here it is not waited for.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"renamed".as_ptr()) };
    println!("data {}", ring.load_u64(1048, std::sync::atomic::Ordering::Relaxed));
    drop(ring);
}

pub(crate) fn mapped_code_is_told() {
    let mut told = attr(Software::DUMMY);
    told.flags |= AttrFlags::MMAP | AttrFlags::MMAP2;
    let event = opened(&told);
    let ring = map(&event, 3).expect("a ring");
    on(&event);
    let program = std::fs::File::open("/proc/self/exe").expect("the running program");
    let addr = work::map_code(program.as_fd());
    // Header, process and thread, address.
    let place = ring.load_u64(PAGE + 16, Acquire);
    println!("{:?}, where it is: {}", records(&ring, 2), place == addr);
    // SAFETY: a fresh page that the kernel chooses the place of, and that nobody uses.
    unsafe {
        let (both, anonymous) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), PAGE, both, anonymous, -1, 0);
        let made = libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_EXEC);
        println!("made code: {made}, {:?}", records(&ring, 2));
    }
}

pub(crate) fn mapped_code_has_its_build_id() {
    let mut told = attr(Software::DUMMY);
    told.flags |= AttrFlags::MMAP | AttrFlags::MMAP2 | AttrFlags::BUILD_ID;
    let event = opened(&told);
    let ring = map(&event, 3).expect("a ring");
    on(&event);
    let program = std::fs::File::open("/proc/self/exe").expect("the running program");
    work::map_code(program.as_fd());
    // Behind address, length and offset: its size, and twenty bytes of it.
    let misc = ring.load_u16(PAGE + 4, Acquire);
    let id = [40, 44, 48, 52, 56, 60].map(|at| ring.load_u32(PAGE + at, Acquire));
    println!("{misc:#x} {id:x?}");
}

pub(crate) fn waiting_for_samples() {
    let event = opened(&sampling(5_000_000));
    let ring = map(&event, 9).expect("a ring");
    let wait = |ms| poll::poll(&[event.as_fd()], Some(Duration::from_millis(ms))).expect("a wait")[0];
    println!("nothing yet: {:?}", wait(10));
    // A sample of an address and two numbers takes 24 bytes.
    let has = |samples: u64| ring.load_u64(1024, Acquire) >= samples * 24;
    on(&event);
    burn_until(|| has(2));
    off(&event);
    println!("samples: {:?}", wait(0));
    let found = records(&ring, 8);
    println!("there are some: {}, all samples: {}", found.len() >= 2, found.iter().all(|&kind| kind == 9));
    println!("none any more: {:?}", wait(10));
    // By epoll(7), and edge-triggered.
    // SAFETY: pointers to live values; descriptors that are open.
    unsafe {
        let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        let mut wanted = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 7 };
        println!("epoll: {}", libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, event.as_raw_fd(), &mut wanted));
        let mut got = libc::epoll_event { events: 0, u64: 0 };
        println!("not ready: {}", libc::epoll_wait(epoll, &mut got, 1, 10));
        let before = ring.load_u64(1024, Acquire);
        on(&event);
        burn_until(|| ring.load_u64(1024, Acquire) > before);
        off(&event);
        let ready = libc::epoll_wait(epoll, &mut got, 1, 1000);
        let (events, data) = (got.events, got.u64);
        println!("ready: {ready} {events} {data}");
        records(&ring, 8);
        println!("told once: {}", libc::epoll_wait(epoll, &mut got, 1, 10));
        libc::close(epoll);
    }
    // Of another process, which ends.
    let (mut hold, release) = pipe();
    let child = work::Child::fork(|| {
        let mut byte = 0u8;
        // SAFETY: one byte of a live one.
        unsafe { libc::read(hold.as_raw_fd(), (&raw mut byte).cast(), 1) };
    });
    let mut attr = sampling(1_000_000);
    let of_child =
        perf_event_open(&mut attr, child.pid() as i32, -1, None, OpenFlags::FD_CLOEXEC).expect("an event");
    let ring = map(&of_child, 3).expect("a ring");
    let wait = |ms| poll::poll(&[of_child.as_fd()], Some(Duration::from_millis(ms))).expect("a wait")[0];
    println!("it lives: {:?}", wait(10));
    // SAFETY: one byte of a live one.
    unsafe { libc::write(release.as_raw_fd(), [0u8].as_ptr().cast(), 1) };
    child.join();
    println!("it has ended: {:?} {:?}", wait(1000).hangup, wait(0).hangup);
    drop(ring);
    hold = release;
    drop(hold);
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: two live numbers.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    assert_eq!(made, 0, "a pipe");
    // SAFETY: fresh descriptors that are ours.
    let [read, write] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    (read, write)
}

/// An event that signals this thread, refreshed for so many samples: the signals of those. A sample that was told too
/// late shares the signal of the next (rule G26), so the time between samples doubles until each has its own.
fn signals_one_by_one(handler: &Handler, count: i32) -> (OwnedFd, impl Sized) {
    let mut period = Duration::from_millis(5);
    loop {
        let event = opened(&sampling(period.as_nanos() as u64));
        let ring = map(&event, 9).expect("a ring");
        signal::deliver(event.as_fd(), signal::Owner::this_thread(), handler.signal())
            .expect("signals can be had");
        handler.forget();
        let asked = ioctl::refresh(event.as_fd(), count);
        burn_until(|| handler.caught().last().is_some_and(|last| last.code == POLL_HUP));
        if handler.count() == count as usize || period > Duration::from_secs(1) {
            println!("refresh: {asked:?}");
            return (event, ring);
        }
        period *= 2;
    }
}

/// Works until it is so, at most for twenty seconds, and a little longer.
pub(crate) fn burn_until(mut so: impl FnMut() -> bool) {
    (0..4000).any(|_| {
        work::burn(Duration::from_millis(5));
        so()
    });
    work::burn(Duration::from_millis(20));
}

pub(crate) fn signals_of_samples() {
    let handler = Handler::install(libc::SIGUSR1);
    let (event, _ring) = signals_one_by_one(&handler, 2);
    for caught in handler.caught() {
        println!("code {} fd {}", caught.code, caught.fd == event.as_raw_fd());
    }
    println!("refresh: {:?}", ioctl::refresh(event.as_fd(), 1));
    burn_until(|| handler.count() == 3);
    println!("{} signals", handler.count());
    signal::stop_delivery(event.as_fd()).expect("signals can be done without");
    println!("refresh: {:?}", ioctl::refresh(event.as_fd(), 1));
    work::burn(Duration::from_millis(50));
    println!("{} signals", handler.count());
    signal::deliver(event.as_fd(), signal::Owner::this_thread(), libc::SIGUSR1).expect("signals can be had");
    drop(event);
    println!("its end is none: {} signals", handler.count());
}

/// `O_ASYNC` is set and cleared by `FIOASYNC`.
pub(crate) fn signals_by_an_ioctl() {
    let handler = Handler::install(libc::SIGUSR1);
    let event = opened(&sampling(5_000_000));
    let _ring = map(&event, 9).expect("a ring");
    signal::deliver(event.as_fd(), signal::Owner::this_thread(), libc::SIGUSR1).expect("signals can be had");
    signal::stop_delivery(event.as_fd()).expect("signals can be done without");
    for on in [0, 1, 0, 1] {
        let on: libc::c_int = on;
        // SAFETY: the kernel reads one live number.
        let set = unsafe { libc::ioctl(event.as_raw_fd(), libc::FIOASYNC, &raw const on) };
        // SAFETY: F_GETFL takes nothing.
        let flags = unsafe { libc::fcntl(event.as_raw_fd(), libc::F_GETFL) };
        let before = handler.count();
        println!("{on}: {set} {} {:?}", flags & libc::O_ASYNC != 0, ioctl::refresh(event.as_fd(), 1));
        if on == 1 {
            burn_until(|| handler.count() > before);
        } else {
            // Its sample is over when it no longer counts.
            burn_until(|| {
                let counted = value(&event);
                work::burn(Duration::from_millis(5));
                value(&event) == counted
            });
        }
        println!("{} signals", handler.count() - before);
    }
}

/// The target of an event with `O_ASYNC` ends: a wait for the descriptor is told, and no signal comes.
pub(crate) fn an_end_sends_no_signal() {
    let handler = Handler::install(libc::SIGUSR1);
    let mut child = Puppet::fork(&[], |_| {
        work::burn(Duration::from_millis(10));
    });
    let attr = sampling(1_000_000);
    let pid = child.pid() as i32;
    let event =
        perf_event_open(&mut attr.clone(), pid, -1, None, OpenFlags::FD_CLOEXEC).expect("one's own child");
    let _ring = map(&event, 9).expect("a ring");
    signal::deliver(event.as_fd(), signal::Owner::this_thread(), libc::SIGUSR1).expect("signals can be had");
    on(&event);
    let has_signalled = (0..1000).any(|_| {
        child.act(1);
        handler.count() > 0
    });
    println!("signals of samples: {has_signalled}");
    off(&event);
    let before = handler.count();
    child.end();
    child.reap();
    let over = || {
        let mut asked = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live entry.
        unsafe { libc::poll(&raw mut asked, 1, 10) };
        asked.revents & libc::POLLHUP != 0
    };
    println!("over: {}", (0..1000).any(|_| over()));
    println!("signals of its end: {}", handler.count() - before);
}

/// What is done for a call is not counted: the fewest switches of some tries, as others want the cpu too.
pub(crate) fn calls_are_no_switches() {
    let fewest = |call: &dyn Fn(&OwnedFd)| {
        let tries = (0..20).map(|_| {
            let switches = opened(&attr(Software::CONTEXT_SWITCHES));
            on(&switches);
            let before = value(&switches);
            call(&switches);
            value(&switches) - before
        });
        tries.min()
    };
    let first = opened(&Attr { flags: allowed(), ..attr(Software::CONTEXT_SWITCHES) });
    println!("after the first: {}", value(&first) < 3);
    println!("nothing: {:?}", fewest(&|_| ()));
    println!("a sleep: {:?}", fewest(&|_| std::thread::sleep(Duration::from_millis(1))));
    println!("an event: {:?}", fewest(&|_| drop(opened(&attr(Software::DUMMY)))));
    println!("a sibling: {:?}", {
        fewest(&|leader| {
            let mut sibling = attr(Software::DUMMY);
            let sibling = perf_event_open(&mut sibling, 0, -1, Some(leader.as_fd()), OpenFlags::empty());
            drop(sibling.expect("a sibling"));
        })
    });
    println!("one that is refused: {:?}", fewest(&|_| drop(open(&attr(Software(99))))));
    println!("a ring: {:?}", fewest(&|event| drop(map(event, 3).expect("a ring"))));
    println!("a copy: {:?}", fewest(&|event| drop(event.try_clone().expect("a descriptor"))));
    println!("a wait: {:?}", {
        fewest(&|event| {
            polled(event);
        })
    });
    println!("ioctls: {:?}", {
        fewest(&|event| {
            off(event);
            on(event);
        })
    });
}

pub(crate) fn switched_by_prctl() {
    let events: Vec<OwnedFd> = (0..3).map(|_| opened(&attr(Software::PAGE_FAULTS))).collect();
    let pages = Pages::map(50);
    pages.touch();
    pages.forget();
    let values = || events.iter().map(value).collect::<Vec<_>>();
    println!("on: {:?}", prctl::task_perf_events_enable());
    pages.touch();
    println!("off: {:?}", prctl::task_perf_events_disable());
    pages.forget();
    let before = values();
    println!("counted: {}", before.iter().all(|&value| (50..60).contains(&value)));
    pages.touch();
    println!("stands still: {}", values() == before);
}

pub(crate) fn threads_open_events() {
    let threads: Vec<_> = (0..8)
        .map(|index| {
            std::thread::spawn(move || {
                let count = 20 + 10 * index;
                let pages = Pages::map(count);
                let event = opened(&attr(Software::PAGE_FAULTS));
                pages.touch();
                pages.forget();
                on(&event);
                pages.touch();
                off(&event);
                let counted = value(&event);
                let mut group = attr(Software::DUMMY);
                let sibling = perf_event_open(&mut group, 0, -1, Some(event.as_fd()), OpenFlags::empty());
                ((count..count + 4).contains(&(counted as usize)), sibling.is_ok(), event)
            })
        })
        .collect();
    for thread in threads {
        let (counted, sibling, event) = thread.join().expect("no panic");
        // A descriptor is the process's, and the count of a thread that is gone can be read.
        println!("{counted} {sibling} {}", value(&event) >= 20);
    }
}

pub(crate) fn children_are_counted() {
    let mut inherited = attr(Software::PAGE_FAULTS);
    inherited.flags |= AttrFlags::INHERIT;
    let mut own = attr(Software::PAGE_FAULTS);
    let (all, alone) = (opened(&inherited), opened(&own));
    on(&all);
    on(&alone);
    for _ in 0..3 {
        let child = work::Child::fork(|| work::touch_pages(500));
        child.join();
    }
    std::thread::spawn(|| work::touch_pages(1000)).join().expect("no panic");
    let (all, alone) = (value(&all), value(&alone));
    println!("children: {}, {}", all >= alone + 2500, alone < 500);
    // Opened on a child that waits, switched on by its exec.
    own.flags |= AttrFlags::ENABLE_ON_EXEC | AttrFlags::INHERIT;
    let arguments = ["sh", "-c", "true; true; /bin/true"].map(Into::into);
    let held = perfuse_sys::process::spawn("sh".as_ref(), &arguments).expect("a child");
    let event = perf_event_open(&mut own, held.pid(), -1, None, OpenFlags::FD_CLOEXEC).expect("an event");
    println!("before: {}", value(&event));
    let (status, _) = held.release().expect("an exec").wait().expect("an end");
    println!("after: {status}, {}", value(&event) > 50);
}

/// Names that threads and children give themselves before they end.
pub(crate) fn threads_have_their_names() {
    let mut told = attr(Software::DUMMY);
    told.flags |= AttrFlags::COMM | AttrFlags::INHERIT;
    // SAFETY: sysconf has no preconditions.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) } as i32;
    let open = |cpu| perf_event_open(&mut told.clone(), 0, cpu, None, OpenFlags::FD_CLOEXEC).ok();
    let events: Vec<OwnedFd> = (0..cpus).filter_map(open).collect();
    let rings: Vec<Mapping> = events.iter().map(|event| map(event, 3).expect("a ring")).collect();
    events.iter().for_each(on);
    let name = |name: &std::ffi::CStr| {
        // SAFETY: the name ends with a zero.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    };
    for own in [c"first", c"second", c"name of 15 byte"] {
        std::thread::spawn(move || name(own)).join().expect("no panic");
    }
    work::Child::fork(|| name(c"child")).join();
    let names = || {
        let mut names = Vec::new();
        for ring in &rings {
            let (head, mut at) = (ring.load_u64(1024, Acquire), 0);
            while at < head {
                let place = PAGE + at as usize;
                let size = ring.load_u16(place + 6, Acquire);
                if ring.load_u32(place, Acquire) == 3 {
                    let words = [16, 24].map(|word| ring.load_u64(place + word, Acquire).to_ne_bytes());
                    let bytes = words.concat();
                    names.push(bytes.split(|&byte| byte == 0).next().unwrap_or_default().to_vec());
                }
                at += u64::from(size);
            }
        }
        names.sort();
        names
    };
    // A thread that waits for an end may hear of it first.
    let start = std::time::Instant::now();
    while names().len() < 4 && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    names().iter().for_each(|name| println!("{}", String::from_utf8_lossy(name)));
}

pub(crate) fn vfork_and_exec() {
    let mut inherited = attr(Software::TASK_CLOCK);
    inherited.flags |= AttrFlags::INHERIT;
    let event = opened(&inherited);
    on(&event);
    // The library starts simple commands by a child that shares the memory until its exec.
    for _ in 0..5 {
        let status = std::process::Command::new("true").status().expect("a command");
        println!("{status}");
    }
    off(&event);
    println!("{}", value(&event) > 500_000);
}

pub(crate) fn descriptors_run_out() {
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 4096 };
    // SAFETY: the pointer is to a live value.
    println!("{}", unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) });
    // Descriptors that were open before are the same in both runs.
    let mut events = Vec::new();
    let errno = loop {
        match open(&attr(Software::DUMMY)) {
            Ok(event) => events.push(event),
            Err(errno) => break errno,
        }
        if events.len() > 1000 {
            break Errno(0);
        }
    };
    println!("some: {}, then {errno:?}", events.len() > 10);
    events.truncate(10);
    println!("again: {}", open(&attr(Software::DUMMY)).is_ok());
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live value.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut now) };
    println!("the limit is {} {}", now.rlim_cur, now.rlim_max);
}

pub(crate) fn sigsys_is_left_alone() {
    let handler = Handler::install(libc::SIGSYS);
    println!("handled: {}", open(&attr(Software::DUMMY)).is_ok());
    println!("signals: {}", handler.count());
    // SAFETY: sets of signals that live, and plain numbers.
    unsafe {
        let (mut all, mut now): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        println!("blocked: {}", open(&attr(Software::DUMMY)).is_ok());
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut now);
        println!("still blocked: {}", libc::sigismember(&now, libc::SIGSYS));
    }
}
