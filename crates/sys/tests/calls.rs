//! The calls against the running kernel: every ioctl with its true argument, and what a wrong one would
//! show. Rules are those of `docs/semantics`.

use perfuse_sys::abi::{Attr, AttrFlags, Breakpoint, EventType, IocFlags, OpenFlags, ReadFormat};
use perfuse_sys::abi::{SampleType, Software, page::offset};
use perfuse_sys::poll::poll;
use perfuse_sys::signal::{self, Owner, Signals};
use perfuse_sys::{Errno, Mapping, Protection, ioctl, limits, page_size, prctl, process, read};
use perfuse_sys::{perf_event_open, perf_event_open_bytes, perf_event_open_is_reachable};
use perfuse_testkit::bpf::{Program, ProgramType};
use perfuse_testkit::signals::{Handler, POLL_HUP};
use perfuse_testkit::work::{Child, Pages, system_calls};
use perfuse_testkit::{Outcome, Sandbox, Skip, need, suite};
use std::cell::UnsafeCell;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::catch_unwind;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

const NONE: IocFlags = IocFlags::empty();

/// Page faults of this thread in user space, off: what every user may count.
fn faults() -> Attr {
    let mut attr = Attr { config: Software::PAGE_FAULTS.0, ..Attr::new(EventType::SOFTWARE) };
    attr.flags = AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    attr
}

/// The same, with a sample of 16 bytes every `period` faults.
fn sampled_faults(period: u64) -> Attr {
    Attr { sample_period: period, sample_type: SampleType::IP, ..faults() }
}

/// Opens an event on the calling thread.
fn open(attr: Attr) -> OwnedFd {
    try_open(attr, None).unwrap_or_else(|errno| panic!("{errno}: {attr}"))
}

fn try_open(mut attr: Attr, group: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Errno> {
    perf_event_open(&mut attr, 0, -1, group, OpenFlags::FD_CLOEXEC)
}

/// Events can be opened at all: not so for users of a kernel with a stricter `perf_event_paranoid`.
fn events() -> Result<(), Skip> {
    try_open(faults(), None).map(drop).map_err(|errno| Skip::needs("to count one's own page faults", errno))
}

fn ring(event: impl AsFd, data_pages: usize) -> Mapping {
    let len = (1 + data_pages) * page_size();
    Mapping::new(event.as_fd(), len, Protection::ReadWrite, 0).expect("a small ring")
}

/// Bytes of records written so far.
fn head(ring: &Mapping) -> u64 {
    ring.load_u64(offset::DATA_HEAD, Acquire)
}

/// Samples of [`sampled_faults`] written so far, where nothing else was.
fn samples(ring: &Mapping) -> u64 {
    assert_eq!(head(ring) % 16, 0);
    head(ring) / 16
}

fn value(event: impl AsFd) -> u64 {
    let mut words = [0; 5];
    assert_ne!(read(event.as_fd(), &mut words), Ok(0));
    words[0]
}

/// Counts what `work` does. It is done once before, so that its code has been fetched.
fn counted(event: &OwnedFd, work: impl Fn()) -> u64 {
    work();
    let before = value(event);
    ioctl::enable(event.as_fd(), NONE).expect("enable");
    work();
    ioctl::disable(event.as_fd(), NONE).expect("disable");
    value(event) - before
}

/// Fifty faults, as often as it is called.
fn fifty_faults() -> impl Fn() {
    let pages = Pages::map(50);
    move || {
        pages.forget();
        pages.touch();
    }
}

fn enable_and_disable_switch_the_event() -> Outcome {
    events()?;
    let (event, work) = (open(faults()), fifty_faults());
    assert_eq!(counted(&event, &work), 50);
    work();
    assert_eq!(value(&event), 50, "disabled, nothing is counted");
    assert_eq!(counted(&event, &work), 50);
    assert_eq!(value(&event), 100);
    Ok(())
}

fn the_group_flag_reaches_every_member() -> Outcome {
    // Rule C44.
    events()?;
    let leader = open(faults());
    let siblings = [(); 2].map(|()| try_open(faults(), Some(leader.as_fd())).expect("a sibling"));
    let work = fifty_faults();
    counted(&leader, &work);
    assert_eq!(siblings.each_ref().map(value), [0, 0], "siblings that were opened off stay off");
    ioctl::enable(siblings[0].as_fd(), IocFlags::GROUP).expect("through any member");
    work();
    ioctl::disable(leader.as_fd(), IocFlags::GROUP).expect("disable");
    assert_eq!(siblings.each_ref().map(value), [50, 50]);
    ioctl::reset(siblings[1].as_fd(), NONE).expect("reset");
    assert_eq!(siblings.each_ref().map(value), [50, 0], "without the flag only the one itself");
    ioctl::reset(leader.as_fd(), IocFlags::GROUP).expect("reset");
    assert_eq!((value(&leader), value(&siblings[0])), (0, 0));
    Ok(())
}

fn reset_clears_the_count_and_not_the_times() -> Outcome {
    // Rule C47.
    events()?;
    let format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    let event = open(Attr { read_format: format, ..faults() });
    counted(&event, fifty_faults());
    let words = || {
        let mut words = [0; 5];
        assert_eq!(read(event.as_fd(), &mut words), Ok(3), "value, enabled, running (rule E4)");
        (words[0], words[1], words[2])
    };
    let (value, enabled, running) = words();
    ioctl::reset(event.as_fd(), NONE).expect("reset");
    assert!(value == 50 && enabled > 0 && running == enabled, "{:?}", (value, enabled, running));
    assert_eq!(words(), (0, enabled, running));
    Ok(())
}

fn the_period_is_what_the_pointer_points_to() -> Outcome {
    // Rule C49; passed by value, the kernel would answer EFAULT.
    events()?;
    let event = open(sampled_faults(1000));
    let ring = ring(&event, 1);
    ioctl::period(event.as_fd(), 10).expect("a new period");
    let work = fifty_faults();
    assert_eq!(counted(&event, &work), 50);
    assert_eq!(samples(&ring), 5, "every tenth of 50 faults");
    ioctl::period(event.as_fd(), 25).expect("another");
    counted(&event, &work);
    assert_eq!(samples(&ring), 5 + 2);
    assert_eq!(ioctl::period(event.as_fd(), 0), Err(Errno::EINVAL));
    assert_eq!(ioctl::period(event.as_fd(), 1 << 63), Err(Errno::EINVAL));
    assert_eq!(ioctl::period(open(faults()).as_fd(), 10), Err(Errno::EINVAL), "it only counts");
    Ok(())
}

fn the_id_is_the_one_in_read() -> Outcome {
    events()?;
    let event = open(Attr { read_format: ReadFormat::ID, ..faults() });
    let mut words = [0; 5];
    assert_eq!(read(event.as_fd(), &mut words), Ok(2));
    assert_eq!(ioctl::id(event.as_fd()), Ok(words[1]));
    assert_ne!(words[1], 0);
    Ok(())
}

fn refresh_ends_the_event_after_so_many_overflows() -> Outcome {
    // Rules C48 and I2.
    events()?;
    let (event, work) = (open(sampled_faults(10)), fifty_faults());
    let ring = ring(&event, 1);
    work();
    ioctl::refresh(event.as_fd(), 1).expect("refresh");
    ioctl::refresh(event.as_fd(), 2).expect("it adds up");
    work();
    assert_eq!((value(&event), samples(&ring)), (30, 3), "it stops in the middle of the work");
    work();
    assert_eq!(value(&event), 30, "and is off");
    assert_eq!(ioctl::refresh(open(faults()).as_fd(), 1), Err(Errno::EINVAL), "it has no overflows");
    Ok(())
}

fn output_goes_where_it_is_sent() -> Outcome {
    // Rule G30.
    events()?;
    let (first, second) = (open(sampled_faults(1)), open(sampled_faults(5)));
    let ring = ring(&first, 2);
    ioctl::set_output(second.as_fd(), Some(first.as_fd())).expect("redirect");
    let work = fifty_faults();
    counted(&second, &work);
    assert_eq!(samples(&ring), 10, "the second writes into the ring of the first");
    ioctl::set_output(second.as_fd(), None).expect("detach");
    counted(&second, &work);
    assert_eq!(samples(&ring), 10, "and no more");
    assert_eq!(ioctl::set_output(first.as_fd(), Some(second.as_fd())), Err(Errno::EINVAL), "it is mapped");
    let file = fs::File::open("/dev/null").expect("/dev/null");
    assert_eq!(ioctl::set_output(second.as_fd(), Some(file.as_fd())), Err(Errno::EBADF));
    Ok(())
}

fn a_paused_ring_takes_nothing() -> Outcome {
    // Rules C55 and G2.
    events()?;
    let event = open(sampled_faults(1));
    assert_eq!(ioctl::pause_output(event.as_fd(), true), Err(Errno::EINVAL), "there is no ring");
    let (ring, work) = (ring(&event, 2), fifty_faults());
    ioctl::pause_output(event.as_fd(), true).expect("pause");
    assert_eq!(counted(&event, &work), 50);
    assert_eq!(head(&ring), 0, "occurrences are counted, records are not written");
    ioctl::pause_output(event.as_fd(), false).expect("resume");
    counted(&event, &work);
    let told = 24; // PERF_RECORD_LOST comes first (rule G3)
    assert_eq!(head(&ring), told + 50 * 16);
    let mut record = [0; 3];
    ring.copy_words(page_size(), &mut record);
    assert_eq!(record, [24 << 48 | 2, ioctl::id(event.as_fd()).expect("an id"), 50]);
    Ok(())
}

/// The id of a tracepoint, and the right to use it.
fn tracepoint(name: &str) -> Result<Attr, Skip> {
    need::root()?;
    let path = need::tracefs()?.join("events").join(name).join("id");
    let text = fs::read_to_string(&path).map_err(|error| Skip::needs(name, error))?;
    let id = text.trim().parse().expect("a number");
    Ok(Attr { config: id, flags: AttrFlags::DISABLED, ..Attr::new(EventType::TRACEPOINT) })
}

fn a_filter_decides_what_is_counted() -> Outcome {
    // Rule J34.
    let event = open(tracepoint("raw_syscalls/sys_enter")?);
    let filter = |text| ioctl::set_filter(event.as_fd(), text);
    assert_eq!(filter(c"no_such_field == 1"), Err(Errno::EINVAL));
    let text = format!("id == {}\0", system_call_number());
    filter(std::ffi::CStr::from_bytes_with_nul(text.as_bytes()).expect("one NUL")).expect("a filter");
    assert_eq!(counted(&event, || system_calls(70)), 70, "not the ioctl that ends it");
    assert_eq!(filter(c"id == 0"), Err(Errno::EEXIST), "it cannot be replaced");
    if events().is_ok() {
        assert_eq!(ioctl::set_filter(open(faults()).as_fd(), c"id == 1"), Err(Errno::EINVAL));
    }
    Ok(())
}

/// `getppid`, which [`system_calls`] uses.
fn system_call_number() -> i64 {
    if cfg!(target_arch = "x86_64") { 110 } else { 173 }
}

fn a_program_decides_about_samples() -> Outcome {
    // Rules K1 and K3.
    events()?;
    let silent = Program::returning(ProgramType::PerfEvent, 0)?;
    let event = open(sampled_faults(1));
    let (ring, work) = (ring(&event, 1), fifty_faults());
    ioctl::set_bpf(event.as_fd(), silent.as_fd()).expect("attach");
    assert_eq!(counted(&event, &work), 50);
    assert_eq!(samples(&ring), 0, "it answered 0 each time");
    assert_eq!(ioctl::set_bpf(event.as_fd(), silent.as_fd()), Err(Errno::EEXIST));
    let other = open(sampled_faults(1));
    assert_eq!(ioctl::set_bpf(other.as_fd(), event.as_fd()), Err(Errno::EINVAL), "not a program");
    Ok(())
}

fn the_programs_of_a_tracepoint_are_told() -> Outcome {
    // Rules K4 and K10.
    let attr = tracepoint("sched/sched_process_hang")?;
    let events = [(); 3].map(|()| open(attr));
    assert_eq!(ioctl::query_bpf(events[0].as_fd()), Ok(vec![]));
    let mut expected = Vec::new();
    let mut programs = Vec::new();
    for event in &events {
        let program = Program::returning(ProgramType::Tracepoint, 1)?;
        ioctl::set_bpf(event.as_fd(), program.as_fd()).expect("attach");
        expected.push(program.id());
        programs.push(program);
    }
    let mut found = ioctl::query_bpf(events[0].as_fd()).expect("ids");
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    if self::events().is_ok() {
        assert_eq!(ioctl::query_bpf(open(faults()).as_fd()), Err(Errno::EINVAL), "not a tracepoint");
    }
    Ok(())
}

fn more_programs_than_there_is_room_for_at_first() -> Outcome {
    let attr = tracepoint("sched/sched_process_hang")?;
    let events: Vec<_> = (0..40).map(|_| open(attr)).collect();
    for event in &events {
        let program = Program::returning(ProgramType::Tracepoint, 1)?;
        ioctl::set_bpf(event.as_fd(), program.as_fd()).expect("attach");
    }
    assert_eq!(ioctl::query_bpf(events[0].as_fd()).expect("ids").len(), 40);
    Ok(())
}

/// Two words to be watched, in memory of their own.
struct Watched([UnsafeCell<u64>; 2]);

impl Watched {
    fn new() -> Box<Self> {
        Box::new(Watched([0, 0].map(UnsafeCell::new)))
    }

    fn address(&self, index: usize) -> u64 {
        self.0[index].get() as u64
    }

    fn write(&self, index: usize, times: u64) {
        for time in 0..times {
            // SAFETY: the word is ours, and no reference to its content exists.
            unsafe { self.0[index].get().write_volatile(time) };
        }
    }
}

fn a_breakpoint_moves() -> Outcome {
    // Rule C51.
    let words = Watched::new();
    let attr = Attr {
        bp_type: Breakpoint::W,
        config1: words.address(0),
        config2: 8,
        flags: faults().flags,
        ..Attr::new(EventType::BREAKPOINT)
    };
    let event = try_open(attr, None).map_err(|errno| Skip::needs("a hardware breakpoint", errno))?;
    let work = || {
        words.write(0, 3);
        words.write(1, 5);
    };
    assert_eq!(counted(&event, work), 3);
    ioctl::modify_attributes(event.as_fd(), &Attr { config1: words.address(1), ..attr }).expect("move");
    assert_eq!(counted(&event, work), 5);
    let other = Attr { sample_period: 7, ..attr };
    assert_eq!(ioctl::modify_attributes(event.as_fd(), &other), Err(Errno::EINVAL), "only its place");
    let long = Attr { size: 4096, ..attr };
    assert_eq!(ioctl::modify_attributes(event.as_fd(), &long), Err(Errno::EINVAL), "beyond the struct");
    Ok(())
}

fn prctl_switches_what_this_thread_opened() -> Outcome {
    // Rule C57.
    events()?;
    let (mine, work) = (open(faults()), fifty_faults());
    let (close, closed) = std::sync::mpsc::channel::<()>();
    let (give, take) = std::sync::mpsc::channel();
    // SAFETY: gettid has no preconditions.
    let me = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
    let other = std::thread::spawn(move || {
        let event = perf_event_open(&mut faults(), me, -1, None, OpenFlags::FD_CLOEXEC).expect("an event");
        give.send(event).expect("the test waits");
        let _ = closed.recv();
    });
    let theirs = take.recv().expect("an event");
    work();
    prctl::task_perf_events_enable().expect("prctl");
    work();
    prctl::task_perf_events_disable().expect("prctl");
    assert_eq!((value(&mine), value(&theirs)), (50, 0));
    work();
    assert_eq!(value(&mine), 50);
    drop(close);
    other.join().expect("the other thread");
    Ok(())
}

/// An attr as bytes: `len` of them, with `size` in its size field.
fn bytes(attr: &Attr, size: u32, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let wire = perfuse_sys::abi::WireAttr { attr: *attr, tail: &[] };
    wire.encode(perfuse_sys::abi::ByteOrder::NATIVE, &mut bytes).expect("an attr");
    bytes.resize(len, 0);
    bytes[4..8].copy_from_slice(&size.to_ne_bytes());
    bytes
}

fn an_attr_of_any_size_is_taken() -> Outcome {
    // Rules A2 to A6.
    events()?;
    let open = |bytes: &mut [u8]| perf_event_open_bytes(bytes, 0, -1, None, OpenFlags::FD_CLOEXEC);
    for (size, len) in
        [(64, 64), (72, 72), (0, 64), (65, 65), (144, 144), (200, 200), (4096, 4096), (64, 300)]
    {
        let result = open(&mut bytes(&faults(), size, len)).map(drop);
        assert_eq!(result, Ok(()), "size {size} in {len} bytes");
    }
    let mut newer = bytes(&faults(), 4096, 4096);
    newer[4095] = 1;
    assert_eq!(open(&mut newer).map(drop), Err(Errno::E2BIG));
    let known = u32::from_ne_bytes([newer[4], newer[5], newer[6], newer[7]]);
    assert!((112..4096).contains(&known), "the kernel tells its size: {known}");
    assert_eq!(open(&mut bytes(&faults(), 4104, 4104)).map(drop), Err(Errno::E2BIG));
    Ok(())
}

fn a_size_beyond_the_bytes_is_refused_without_a_call() -> Outcome {
    let open = |bytes: &mut [u8]| perf_event_open_bytes(bytes, 0, -1, None, OpenFlags::empty()).map(drop);
    for (size, len) in [(65, 64), (4096, 144), (u32::MAX, 4096), (0, 63), (1, 63)] {
        let mut attr = bytes(&faults(), size, 4096.max(len));
        assert_eq!(open(&mut attr[..len]), Err(Errno::EINVAL), "size {size} in {len} bytes");
    }
    for len in 0..8 {
        assert_eq!(open(&mut vec![0; len]), Err(Errno::EINVAL), "{len} bytes");
    }
    let mut attr = Attr { size: 145, ..faults() };
    assert_eq!(perf_event_open(&mut attr, 0, -1, None, OpenFlags::empty()).map(drop), Err(Errno::EINVAL));
    Ok(())
}

fn no_byte_behind_the_attr_is_touched() -> Outcome {
    // The attr ends where readable memory ends: one byte more would be an EFAULT (rule A5).
    events()?;
    let page = page_size();
    let pages = Pages::map(2);
    let start = pages.addresses().next().expect("two pages") as usize;
    // SAFETY: the second page of a mapping of ours, to which there are no references.
    let result = unsafe { libc::mprotect((start + page) as *mut _, page, libc::PROT_NONE) };
    assert_eq!(result, 0);
    for size in [64u32, 72, 144, 512] {
        let image = bytes(&faults(), size, size as usize);
        let place = (start + page - image.len()) as *mut u8;
        // SAFETY: within the first page, which is ours, and to which there are no other references.
        let place = unsafe { std::slice::from_raw_parts_mut(place, image.len()) };
        place.copy_from_slice(&image);
        let result = perf_event_open_bytes(place, 0, -1, None, OpenFlags::FD_CLOEXEC);
        assert_eq!(result.map(drop), Ok(()), "size {size}");
    }
    Ok(())
}

fn the_call_is_reachable() -> Outcome {
    match perf_event_open_is_reachable() {
        Ok(()) => Ok(()),
        Err(errno) => Err(Skip::needs("perf_event_open", errno)),
    }
}

fn the_call_is_reachable_without_privileges() -> Outcome {
    Sandbox::new().unprivileged().within("the_call_is_reachable_without_privileges", the_call_is_reachable)
}

fn a_filter_in_front_of_the_call_is_noticed() -> Outcome {
    let test = "a_filter_in_front_of_the_call_is_noticed";
    Sandbox::new().refusing_perf_event_open(libc::EPERM).within(test, || {
        assert_eq!(perf_event_open_is_reachable(), Err(Errno::EPERM));
        Ok(())
    })
}

fn a_missing_call_is_noticed() -> Outcome {
    let test = "a_missing_call_is_noticed";
    Sandbox::new().refusing_perf_event_open(libc::ENOSYS).within(test, || {
        assert_eq!(perf_event_open_is_reachable(), Err(Errno::ENOSYS));
        assert_eq!(try_open(faults(), None).map(drop), Err(Errno::ENOSYS));
        Ok(())
    })
}

fn mappings_follow_the_kernels_rules() -> Outcome {
    // Rules F4 to F10.
    events()?;
    let (event, page) = (open(sampled_faults(1)), page_size());
    let map = |pages: usize, offset| {
        Mapping::new(event.as_fd(), pages * page, Protection::ReadWrite, offset).map(|map| map.len())
    };
    assert_eq!(map(4, 0), Err(Errno::EINVAL), "three pages of data");
    assert_eq!(map(0, 0), Err(Errno::EINVAL));
    assert_eq!(map(1, 4 * page as u64), Err(Errno::EINVAL), "an AUX area without a ring");
    assert_eq!(map(1, u64::MAX), Err(Errno::EOVERFLOW));
    assert_eq!(map(1, 0), Ok(page), "the control page alone");
    assert_eq!(map(3, 0), Ok(3 * page));
    let ring = ring(&event, 2);
    assert_eq!(ring.load_u64(offset::DATA_OFFSET, Relaxed), page as u64);
    assert_eq!(ring.load_u64(offset::DATA_SIZE, Relaxed), 2 * page as u64);
    assert!(!ring.is_empty());
    Ok(())
}

fn a_mapping_outlives_its_descriptor() -> Outcome {
    // Rule F12.
    events()?;
    let mut attr = sampled_faults(1);
    attr.flags.remove(AttrFlags::DISABLED);
    let (event, work) = (open(attr), fifty_faults());
    let ring = ring(&event, 2);
    drop(event);
    let before = samples(&ring);
    work();
    assert!(samples(&ring) >= before + 50, "it still records");
    Ok(())
}

fn mappings_check_what_they_are_asked() -> Outcome {
    events()?;
    let event = open(sampled_faults(1));
    let ring = ring(&event, 1);
    let len = ring.len();
    let panics = |f: &dyn Fn()| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let result = catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
        std::panic::set_hook(hook);
        result
    };
    assert!(panics(&|| _ = ring.load_u64(len, Relaxed)), "behind the end");
    assert!(panics(&|| _ = ring.load_u64(4, Relaxed)), "unaligned");
    assert!(panics(&|| _ = ring.load_u32(usize::MAX - 3, Relaxed)), "overflowing");
    assert!(panics(&|| ring.copy_words(len - 8, &mut [0; 2])));
    assert!(panics(&|| ring.store_u64(page_size(), 0, Release)), "data belongs to the kernel");
    // SAFETY: the event is off and the ring empty, so nobody writes.
    assert!(panics(&|| _ = unsafe { ring.bytes(len - 8, 9) }));
    // SAFETY: as above.
    assert_eq!(unsafe { ring.bytes(len - 8, 8) }, [0; 8]);
    let read_only = Mapping::new(event.as_fd(), len, Protection::Read, 0).expect("a second mapping");
    assert!(panics(&|| read_only.store_u64(offset::DATA_TAIL, 0, Release)), "not writable");
    ring.store_u64(offset::DATA_TAIL, 48, Release);
    assert_eq!(read_only.load_u64(offset::DATA_TAIL, Acquire), 48, "both are the same memory");
    Ok(())
}

fn poll_tells_what_there_is() -> Outcome {
    // Rules G20 to G24.
    events()?;
    let event = open(Attr { wakeup: 1, ..sampled_faults(1) });
    let now = Some(Duration::ZERO);
    let look = |timeout| poll(&[event.as_fd()], timeout).expect("poll")[0];
    assert!(look(now).hangup, "an event without a ring hangs up (rule G23)");
    let (_ring, work) = (ring(&event, 1), fifty_faults());
    assert!(!look(now).any(), "nothing yet");
    let start = Instant::now();
    assert!(!look(Some(Duration::from_micros(20_100))).any());
    assert!(start.elapsed() >= Duration::from_millis(20), "it waited for {:?}", start.elapsed());
    counted(&event, work);
    // The wake-up comes through an interrupt of its own, a moment later.
    assert!(look(Some(Duration::from_secs(10))).readable);
    assert!(!look(now).any(), "each wake-up is told once (rule G24)");
    Ok(())
}

fn poll_hangs_up_when_the_task_is_gone() -> Outcome {
    events()?;
    let held = process::spawn("sh".as_ref(), &["sh".into(), "-c".into(), ":".into()]);
    let held = held.expect("a child");
    let mut attr = sampled_faults(1);
    let event = perf_event_open(&mut attr, held.pid(), -1, None, OpenFlags::FD_CLOEXEC).expect("an event");
    let _ring = ring(&event, 1);
    assert!(!poll(&[event.as_fd()], Some(Duration::ZERO)).expect("poll")[0].any());
    let child = held.release().expect("sh");
    let found = poll(&[event.as_fd()], Some(Duration::from_secs(60))).expect("poll");
    assert!(found[0].hangup && !found[0].readable, "{found:?} (rule G21)");
    child.wait().expect("its end");
    Ok(())
}

fn poll_is_interrupted_by_a_signal() -> Outcome {
    let _handler = Handler::install(libc::SIGUSR1);
    let (socket, _other_end) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    // SAFETY: pthread_self has no preconditions.
    let me = unsafe { libc::pthread_self() } as usize;
    let (done, finished) = std::sync::mpsc::channel::<()>();
    let sender = std::thread::spawn(move || {
        // Again and again: the first ones may come before the wait.
        while finished.recv_timeout(Duration::from_millis(5))
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            // SAFETY: the thread lives: it waits for this one.
            unsafe { libc::pthread_kill(me as libc::pthread_t, libc::SIGUSR1) };
        }
    });
    let result = poll(&[socket.as_fd()], Some(Duration::from_secs(60)));
    drop(done);
    sender.join().expect("the sender");
    assert_eq!(result, Err(Errno::EINTR));
    Ok(())
}

const POLL_IN: i32 = 1;

fn overflows_send_signals_that_tell_their_event() -> Outcome {
    // Rule G26: at every overflow, without a ring as well; the last one of a refresh says so.
    events()?;
    let handler = Handler::install(libc::SIGIO);
    let (event, pages) = (open(sampled_faults(1)), Pages::map(8));
    pages.touch();
    signal::deliver(event.as_fd(), Owner::this_thread(), libc::SIGIO).expect("fcntl");
    ioctl::refresh(event.as_fd(), 3).expect("refresh");
    pages.forget();
    pages.touch();
    // Through an interrupt of its own, a moment later.
    let deadline = Instant::now() + Duration::from_secs(10);
    while handler.caught().last().is_none_or(|signal| signal.code != POLL_HUP) && Instant::now() < deadline {
        std::thread::yield_now();
    }
    let caught = handler.caught();
    assert_eq!(caught.last().map(|signal| signal.code), Some(POLL_HUP), "{caught:?}");
    assert!(caught.len() <= 3 && caught.iter().all(|signal| signal.fd == event.as_raw_fd()), "{caught:?}");
    // Signals that come before the last was handled are one; here each waits for its own fault.
    assert!(caught.iter().rev().skip(1).all(|signal| signal.code == POLL_IN), "{caught:?}");
    signal::stop_delivery(event.as_fd()).expect("fcntl");
    ioctl::refresh(event.as_fd(), 1).expect("refresh");
    pages.forget();
    pages.touch();
    assert_eq!(handler.count(), caught.len(), "no more of them");
    Ok(())
}

fn signals_can_be_collected_from_a_descriptor() -> Outcome {
    events()?;
    let signals = Signals::collect(&[libc::SIGIO, libc::SIGUSR2]).expect("signalfd");
    assert_eq!(signals.next(), None);
    let (event, pages) = (open(sampled_faults(1)), Pages::map(1));
    signal::deliver(event.as_fd(), Owner::this_thread(), libc::SIGIO).expect("fcntl");
    ioctl::refresh(event.as_fd(), 1).expect("refresh");
    pages.touch();
    assert!(poll(&[signals.as_fd()], Some(Duration::from_secs(10))).expect("poll")[0].readable);
    let received = signals.next().expect("a signal");
    assert_eq!((received.signal, received.fd), (libc::SIGIO, event.as_raw_fd()));
    assert_eq!(received.code, POLL_HUP);
    // SAFETY: plain numbers; the signal is blocked and collected.
    unsafe { libc::raise(libc::SIGUSR2) };
    assert_eq!(signals.next().map(|received| received.signal), Some(libc::SIGUSR2));
    assert_eq!(signals.next(), None);
    Ok(())
}

fn dropped_signals_are_unblocked_again() -> Outcome {
    let handler = Handler::install(libc::SIGUSR1);
    let signals = Signals::collect(&[libc::SIGUSR1]).expect("signalfd");
    // SAFETY: plain numbers; the signal is handled.
    unsafe { libc::raise(libc::SIGUSR1) };
    assert_eq!(handler.count(), 0, "blocked");
    signals.next().expect("collected");
    drop(signals);
    // SAFETY: as above.
    unsafe { libc::raise(libc::SIGUSR1) };
    assert_eq!(handler.count(), 1, "handled");
    Ok(())
}

fn reading_needs_room() -> Outcome {
    // Rule E1.
    events()?;
    let event = open(Attr { read_format: ReadFormat::ID, ..faults() });
    assert_eq!(read(event.as_fd(), &mut [0]), Err(Errno::ENOSPC));
    assert_eq!(read(event.as_fd(), &mut []), Err(Errno::ENOSPC));
    assert_eq!(read(event.as_fd(), &mut [0; 9]), Ok(2));
    Ok(())
}

fn a_forked_child_shares_the_event() -> Outcome {
    // Rules C38 and C43: the descriptor is the event, in every process that has it.
    events()?;
    let mut attr = faults();
    attr.flags.remove(AttrFlags::DISABLED);
    let event = open(attr);
    let fd = event.as_fd();
    Child::fork(|| _ = ioctl::disable(fd, NONE)).join();
    let stopped = value(&event);
    fifty_faults()();
    assert_eq!(value(&event), stopped);
    Ok(())
}

fn the_limits_are_those_of_the_process() -> Outcome {
    let test = "the_limits_are_those_of_the_process";
    Sandbox::new().unprivileged().open_files(100).locked_bytes(1 << 16).within(test, || {
        let limit = |value| limits::Limit { soft: value, hard: value };
        assert_eq!(limits::open_files(), Ok(limit(100)));
        assert_eq!(limits::locked_bytes(), Ok(limit(1 << 16)));
        let lower = libc::rlimit { rlim_cur: 50, rlim_max: 100 };
        // SAFETY: the pointer is to a live rlimit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &lower) }, 0);
        assert_eq!(limits::open_files(), Ok(limits::Limit { soft: 50, hard: 100 }));
        limits::provide_open_files(50);
        assert_eq!(limits::open_files(), Ok(limits::Limit { soft: 50, hard: 100 }), "enough already");
        limits::provide_open_files(1000);
        assert_eq!(limits::open_files(), Ok(limit(100)), "as many as may be had");
        // A program that is started has the limit that there was before.
        let arguments = ["sh", "-c", "[ $(ulimit -n) = 50 ]"].map(Into::into);
        let child =
            process::spawn("sh".as_ref(), &arguments).and_then(process::Held::release).expect("a shell");
        assert!(child.wait().expect("it ends").0.success());
        Ok(())
    })
}

suite! {
    smoke:
        the_call_is_reachable;
    measurements:
        enable_and_disable_switch_the_event,
        the_group_flag_reaches_every_member,
        reset_clears_the_count_and_not_the_times,
        the_period_is_what_the_pointer_points_to,
        the_id_is_the_one_in_read,
        refresh_ends_the_event_after_so_many_overflows,
        output_goes_where_it_is_sent,
        a_paused_ring_takes_nothing,
        a_filter_decides_what_is_counted,
        a_program_decides_about_samples,
        the_programs_of_a_tracepoint_are_told,
        more_programs_than_there_is_room_for_at_first,
        a_breakpoint_moves,
        prctl_switches_what_this_thread_opened,
        an_attr_of_any_size_is_taken,
        a_size_beyond_the_bytes_is_refused_without_a_call,
        no_byte_behind_the_attr_is_touched,
        the_call_is_reachable_without_privileges,
        a_filter_in_front_of_the_call_is_noticed,
        a_missing_call_is_noticed,
        mappings_follow_the_kernels_rules,
        a_mapping_outlives_its_descriptor,
        mappings_check_what_they_are_asked,
        poll_tells_what_there_is,
        poll_hangs_up_when_the_task_is_gone,
        poll_is_interrupted_by_a_signal,
        overflows_send_signals_that_tell_their_event,
        signals_can_be_collected_from_a_descriptor,
        dropped_signals_are_unblocked_again,
        reading_needs_room,
        a_forked_child_shares_the_event,
        the_limits_are_those_of_the_process;
}
