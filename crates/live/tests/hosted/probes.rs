//! Probes in programs: the same counts under both kernels.

use super::scenarios::{off, on, opened, value};
use perfuse_abi::{Attr, AttrFlags, EventType, OpenFlags, SampleType};
use perfuse_sys::{Mapping, Protection, perf_event_open};
use perfuse_testkit::work;
use std::ffi::{CStr, CString};
use std::hint::black_box;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::sync::Barrier;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Begins with an instruction of the compiler's choice.
#[inline(never)]
pub(crate) fn plain(number: u64) -> u64 {
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
    place_at(function as usize as u64)
}

/// The same of an address.
fn place_at(addr: u64) -> (CString, u64) {
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
    let told = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type");
    let told = told.ok().and_then(|text| text.trim().parse().ok()).map(EventType);
    // Where Linux has no such PMU, as in gVisor, it is our own.
    let mut attr = Attr::new(told.unwrap_or(perfuse_live::machine::UPROBE));
    (attr.config1, attr.config2) = (path.as_ptr() as u64, offset);
    attr.flags |= AttrFlags::DISABLED;
    attr
}

fn probe(function: fn(u64) -> u64) -> OwnedFd {
    let (path, offset) = place(function);
    opened(&attr(&path, offset))
}

/// A probe where a function returns.
fn return_probe(function: fn(u64) -> u64) -> OwnedFd {
    let (path, offset) = place(function);
    let mut attr = attr(&path, offset);
    attr.config |= 1;
    opened(&attr)
}

/// Of the returns of that function, in children too: with the path, which Linux reads again for each child.
pub(crate) fn inherited_return_probe() -> (CString, Attr) {
    let (path, offset) = place(plain);
    let mut attr = attr(&path, offset);
    attr.config |= 1;
    attr.flags |= AttrFlags::INHERIT;
    (path, attr)
}

/// Calls itself so many times.
#[inline(never)]
fn deep(number: u64) -> u64 {
    if number == 0 { 1 } else { black_box(deep(number - 1)) + black_box(number) }
}

// `perfuse_passes` passes its place on to `perfuse_passed`, which returns in place of both; `perfuse_leaves` calls
// `perfuse_left` as often as it is told, which jumps out of its call but for the last time.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".global perfuse_passes, perfuse_passed, perfuse_leaves, perfuse_left",
    "perfuse_passes: nop",
    "jmp perfuse_passed",
    "perfuse_passed: mov rax, rdi",
    "ret",
    "perfuse_leaves: mov rax, rsp",
    "call perfuse_left",
    "mov rax, rdi",
    "ret",
    "perfuse_left: nop",
    "cmp rdi, 1",
    "je 2f",
    "dec rdi",
    "mov rsp, rax",
    "jmp perfuse_leaves",
    "2: ret",
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".global perfuse_passes, perfuse_passed, perfuse_leaves, perfuse_left",
    "perfuse_passes: nop",
    "b perfuse_passed",
    "perfuse_passed: add x0, x0, #0",
    "ret",
    "perfuse_leaves: mov x9, x30",
    "3: bl perfuse_left",
    "mov x30, x9",
    "ret",
    "perfuse_left: nop",
    "cmp x0, #1",
    "b.eq 2f",
    "sub x0, x0, #1",
    "b 3b",
    "2: ret",
);

// `perfuse_loops` does the instruction at `perfuse_again` as often as it is told; the one at `perfuse_faults` cannot be
// done.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".global perfuse_loops, perfuse_again, perfuse_faults",
    "perfuse_loops: mov rcx, rdi",
    "perfuse_again: loop perfuse_again",
    "mov rax, rdi",
    "ret",
    "perfuse_faults: ud2",
    "ret",
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".global perfuse_loops, perfuse_again, perfuse_faults",
    "perfuse_loops: nop",
    "perfuse_again: cbz x0, 4f",
    "sub x0, x0, #1",
    "b perfuse_again",
    "4: ret",
    "perfuse_faults: udf #0",
    "ret",
);

unsafe extern "C" {
    fn perfuse_loops(number: u64) -> u64;
    fn perfuse_again(number: u64) -> u64;
    fn perfuse_faults(number: u64) -> u64;
    fn perfuse_passes(number: u64) -> u64;
    fn perfuse_passed(number: u64) -> u64;
    fn perfuse_leaves(number: u64) -> u64;
    fn perfuse_left(number: u64) -> u64;
}

/// The address of one of them as that of a function like the others, which is never called as such.
fn address(function: unsafe extern "C" fn(u64) -> u64) -> fn(u64) -> u64 {
    // SAFETY: both are addresses of code, and only the address is used.
    unsafe { std::mem::transmute(function) }
}

pub(crate) fn probes_at_returns() {
    let counted = |functions: &[fn(u64) -> u64], work: &dyn Fn()| {
        let events: Vec<OwnedFd> =
            functions.iter().flat_map(|&function| [probe(function), return_probe(function)]).collect();
        work();
        events.iter().for_each(on);
        work();
        events.iter().for_each(off);
        work();
        events.iter().map(value).collect::<Vec<_>>()
    };
    let called =
        counted(&[plain, roomy], &|| (0..7).for_each(|time| _ = black_box(plain(time) + roomy(time))));
    println!("begun and returned: {called:?}");
    println!("in itself: {:?}", counted(&[deep], &|| _ = black_box(deep(20))));
    println!("deeper than Linux looks: {:?}", counted(&[deep], &|| _ = black_box(deep(100))));
    // SAFETY: they keep to the calling convention, and touch nothing but registers.
    let passes = || _ = black_box(unsafe { perfuse_passes(3) });
    let both = [address(perfuse_passes), address(perfuse_passed)];
    println!("passed on: {:?}", counted(&both, &|| (0..5).for_each(|_| passes())));
    // SAFETY: as above.
    let leaves = || _ = black_box(unsafe { perfuse_leaves(5) });
    println!("left by a jump: {:?}", counted(&[address(perfuse_left)], &leaves));
    // A function that has begun before the event was switched on, and one that returns afterwards.
    let event = return_probe(switches);
    black_box(switches(&raw const event as u64));
    println!("switched within: {}", value(&event));
    off(&event);
    println!("and goes on: {} {}", plain(1), deep(3));
}

/// Faults of `perfuse_faults`, and how many of them told its address.
static FAULTS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Goes on behind the instruction at its third fault.
extern "C" fn at_fault(_signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: what the kernel hands to a handler with SA_SIGINFO lives as long as that runs.
    let (addr, context) = unsafe { ((*info).si_addr() as usize, &mut *context.cast::<libc::ucontext_t>()) };
    FAULTS[1].fetch_add(u64::from(addr == perfuse_faults as *const () as usize), Relaxed);
    if FAULTS[0].fetch_add(1, Relaxed) == 2 {
        #[cfg(target_arch = "x86_64")]
        let () = context.uc_mcontext.gregs[libc::REG_RIP as usize] += 2;
        #[cfg(target_arch = "aarch64")]
        let () = context.uc_mcontext.pc += 4;
    }
}

/// Rule J54.
pub(crate) fn probes_that_are_come_to_again() {
    if cfg!(target_arch = "aarch64") {
        println!("needs x86: elsewhere Linux tells another address of a fault at a probe");
        std::process::exit(2);
    }
    let again = probe(address(perfuse_again));
    on(&again);
    // SAFETY: it keeps to the calling convention, and touches nothing but registers.
    black_box(unsafe { perfuse_loops(10) });
    off(&again);
    println!("an instruction that is its own next one: {}", value(&again));
    // SAFETY: an all-zero sigaction is a valid value of that plain struct, the pointer is to a live one, and the
    // handler touches nothing but numbers and its context.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (at_fault as *const () as usize, libc::SA_SIGINFO);
        libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut());
    }
    let faults = probe(address(perfuse_faults));
    on(&faults);
    // SAFETY: its handler goes on behind it.
    black_box(unsafe { perfuse_faults(0) });
    off(&faults);
    println!("one that faults: {}, signals {FAULTS:?}", value(&faults));
}

/// Switches an event on while it is in this function itself.
#[inline(never)]
fn switches(event: u64) -> u64 {
    // SAFETY: the event lives as long as the call.
    on(unsafe { &*(black_box(event) as *const OwnedFd) });
    event
}

pub(crate) fn returns_of_threads_and_children() {
    // Linux reads the path again for each child.
    let (path, offset) = place(deep);
    let attr_of = |inherit| {
        let mut attr = attr(&path, offset);
        attr.config |= 1;
        attr.flags |= if inherit { AttrFlags::INHERIT } else { AttrFlags::empty() };
        opened(&attr)
    };
    let (alone, all) = (attr_of(false), attr_of(true));
    on(&alone);
    on(&all);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..20).for_each(|_| _ = black_box(deep(2))));
        }
    });
    work::Child::fork(|| _ = black_box(deep(4))).join();
    black_box(deep(0));
    off(&alone);
    off(&all);
    println!("{} of all {}", value(&alone), value(&all));
}

pub(crate) fn returns_are_sampled() {
    let (path, offset) = place(deep);
    let mut attr = attr(&path, offset);
    attr.config |= 1;
    attr.sample_period = 1;
    attr.sample_type = SampleType::IP | SampleType::RAW;
    let event = opened(&attr);
    let ring = Mapping::new(event.as_fd(), 9 * 4096, Protection::ReadWrite, 0).expect("a ring");
    on(&event);
    black_box(deep(1));
    off(&event);
    let head = ring.load_u64(1024, Acquire) as usize;
    let begin = deep as fn(u64) -> u64 as usize as u64;
    // The inner one returns to the outer one.
    let ip = ring.load_u64(4096 + 8, Acquire);
    println!("{head} bytes, behind the function's begin: {}", (begin + 1..begin + 256).contains(&ip));
    let raw = |at: usize| u64::from(ring.load_u32(4096 + at, Acquire));
    let size = raw(16);
    let (function, to) = (raw(28) | raw(32) << 32, raw(36) | raw(40) << 32);
    println!("{size} {} {}", function == begin, to == ip);
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

// Functions with frame pointers, one of which is guarded against jumps; and the places before there is a frame, and
// behind it.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".global perfuse_calls, perfuse_framed, perfuse_guarded, perfuse_pushed, perfuse_popped",
    "perfuse_calls: push rbp",
    "mov rbp, rsp",
    "call perfuse_framed",
    "call perfuse_guarded",
    "pop rbp",
    "ret",
    "perfuse_framed: push rbp",
    "perfuse_pushed: mov rbp, rsp",
    "pop rbp",
    "perfuse_popped: ret",
    "perfuse_guarded: endbr64",
    "push rbp",
    "mov rbp, rsp",
    "pop rbp",
    "ret",
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".global perfuse_calls, perfuse_framed, perfuse_guarded, perfuse_pushed, perfuse_popped",
    "perfuse_calls: stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "bl perfuse_framed",
    "bl perfuse_guarded",
    "ldp x29, x30, [sp], #16",
    "ret",
    "perfuse_framed: stp x29, x30, [sp, #-16]!",
    "perfuse_pushed: mov x29, sp",
    "ldp x29, x30, [sp], #16",
    "perfuse_popped: ret",
    "perfuse_guarded: bti c",
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "ldp x29, x30, [sp], #16",
    "ret",
);

unsafe extern "C" {
    fn perfuse_calls(number: u64) -> u64;
    fn perfuse_framed(number: u64) -> u64;
    fn perfuse_guarded(number: u64) -> u64;
    fn perfuse_pushed(number: u64) -> u64;
    fn perfuse_popped(number: u64) -> u64;
}

/// Whether the callchain of a probe at each of these places has the function that called. (Linux, from 6.11 on, on x86,
/// at the first of them; from a build for guarded branches, at the second.)
pub(crate) fn frameless() {
    let seen = |function| {
        let place_of = address(function);
        let (path, offset) = place(place_of);
        let mut attr = attr(&path, offset);
        attr.sample_period = 1;
        attr.sample_type = SampleType::CALLCHAIN;
        attr.flags |= AttrFlags::EXCLUDE_KERNEL;
        let event = opened(&attr);
        let ring = Mapping::new(event.as_fd(), 9 * 4096, Protection::ReadWrite, 0).expect("a ring");
        on(&event);
        // SAFETY: it keeps to the calling convention, and touches nothing but registers and its frame.
        black_box(unsafe { perfuse_calls(1) });
        off(&event);
        // Behind the header and the length: where it was, after a mark of user space.
        let [at, caller] = [24, 32].map(|word| ring.load_u64(4096 + word, Acquire));
        let [from, to] = [perfuse_calls, perfuse_framed].map(|end| address(end) as usize as u64);
        at == place_of as usize as u64 && (from..to).contains(&caller)
    };
    println!("{:?}", [perfuse_framed, perfuse_guarded, perfuse_pushed, perfuse_popped].map(seen));
}

/// Rule J51.
pub(crate) fn probes_that_cannot_be() {
    let (own, offset) = place(plain);
    let error = |path: &CStr, offset| {
        perf_event_open(&mut attr(path, offset), 0, -1, None, OpenFlags::FD_CLOEXEC).err()
    };
    drop(opened(&attr(&own, offset)));
    println!("no file: {:?}", error(c"/there/is/none", 0));
    println!("no path: {:?}", error(c"", 0));
    println!("a folder: {:?}", error(c"/proc", 0));
    println!("beyond: {:?}", error(&own, 1 << 40));
    println!("before the beginning: {:?}", error(&own, 1 << 63));
    println!("a device: {:?}", error(c"/dev/null", 0));
    let long = CString::new(vec![b'a'; 4096]).expect("no zero in it");
    println!("a long path: {:?}", error(&long, 0));
    let with = |change: &dyn Fn(&mut Attr)| {
        let mut attr = attr(&own, offset);
        change(&mut attr);
        perf_event_open(&mut attr, 0, -1, None, OpenFlags::FD_CLOEXEC).err()
    };
    println!("a null path: {:?}", with(&|attr| attr.config1 = 0));
    println!("a path that is nowhere: {:?}", with(&|attr| attr.config1 = 16));
    for semaphore in [1, 2, 3] {
        println!("a semaphore at {semaphore}: {:?}", with(&|attr| attr.config |= semaphore << 32));
    }
}

/// Rule J51: probes are in files that have pages.
pub(crate) fn probes_in_files_of_all_kinds() {
    let (own, offset) = place(plain);
    drop(opened(&attr(&own, offset)));
    let files = [
        c"/proc/version",
        c"/proc/self/maps",
        c"/proc/self/exe",
        c"/proc/self/mem",
        c"/sys/kernel/notes",
        c"/sys/bus/event_source/devices/uprobe/type",
        c"/sys/kernel/tracing/README",
        c"/sys/kernel/debug/devices_deferred",
        c"/sys/kernel/security/lsm",
        c"/sys/fs/bpf/progs.debug",
        c"/proc/sys/fs/binfmt_misc/status",
        c"/dev/zero",
        c"/dev/shm",
    ];
    for file in files {
        for offset in [0, 1 << 40] {
            let opened = perf_event_open(&mut attr(file, offset), 0, -1, None, OpenFlags::FD_CLOEXEC);
            println!("{file:?} {offset}: {:?}", opened.err());
        }
    }
}

/// Instructions, 16 bytes apart. None of them is ever done.
#[cfg(target_arch = "x86_64")]
const INSTRUCTIONS: [&[u8]; 44] = [
    &[0x90],
    &[0xf4],
    &[0xf1],
    &[0xfa],
    &[0xfb],
    &[0xec],
    &[0xe4, 1],
    &[0xe6, 1],
    &[0xee],
    &[0x6c],
    &[0x6f],
    &[0xcd, 0x80],
    &[0xcf],
    &[0x06],
    &[0x17],
    &[0x1f],
    &[0x27],
    &[0x60],
    &[0x82, 0xc0, 1],
    &[0x9a],
    &[0xd4, 1],
    &[0xd6],
    &[0xd7],
    &[0xea],
    &[0x2e, 0x90],
    &[0x3e, 0x8b, 0x00],
    &[0x64, 0x8b, 0x00],
    &[0x65, 0x90],
    &[0x67, 0x8b, 0x00],
    &[0xf0, 0xff, 0x00],
    &[0x66, 0x90],
    &[0x48, 0xf4],
    &[0xf3, 0xf4],
    &[0x8e, 0xd0],
    &[0x8e, 0xd8],
    &[0xe8, 0, 0, 0, 0],
    &[0x66, 0xe8, 0, 0],
    &[0x66, 0x74, 0],
    &[0x74, 0],
    &[0x66, 0x0f, 0x84, 0, 0],
    &[0x0f, 0x84, 0, 0, 0, 0],
    &[0x0f, 0x0b],
    &[0x9c],
    &[0xf3, 0xa4],
];

/// `uprobe_init_insn` of Linux.
#[cfg(target_arch = "x86_64")]
pub(crate) fn probes_on_instructions_of_all_kinds() {
    let (own, offset) = place(plain);
    drop(opened(&attr(&own, offset)));
    let mut code = vec![0x90; 4096];
    for (instruction, place) in INSTRUCTIONS.iter().zip(code.chunks_mut(16)) {
        place[..instruction.len()].copy_from_slice(instruction);
    }
    let path = std::env::temp_dir().join(format!("perfuse-instructions-{}", std::process::id()));
    std::fs::write(&path, &code).expect("a file");
    let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
    let file = std::fs::File::open(&path).expect("it has just been written");
    // SAFETY: a fresh mapping of a file that nobody changes, which is never written nor run.
    let there = unsafe {
        let prot = libc::PROT_READ | libc::PROT_EXEC;
        libc::mmap(std::ptr::null_mut(), code.len(), prot, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
    };
    for (index, instruction) in INSTRUCTIONS.iter().enumerate() {
        let mut attr = attr(&name, 16 * index as u64);
        let opened = perf_event_open(&mut attr, 0, -1, None, OpenFlags::FD_CLOEXEC);
        println!("{instruction:x?}: {:?}", opened.err());
    }
    println!("mapped: {}", there != libc::MAP_FAILED);
    std::fs::remove_file(&path).expect("it is ours");
}

/// Here probes are set that Linux for arm64 refuses.
#[cfg(target_arch = "aarch64")]
pub(crate) fn probes_on_instructions_of_all_kinds() {
    println!("needs an x86-64 processor");
    std::process::exit(2);
}

/// A library that is not here yet, and a function of it without an argument that matters: its path and offset.
fn absent() -> Option<(&'static CStr, &'static CStr, CString, u64)> {
    const CANDIDATES: [(&CStr, &CStr); 3] =
        [(c"libm.so.6", c"cbrt"), (c"libanl.so.1", c"gai_cancel"), (c"libz.so.1", c"zlibVersion")];
    let maps = || std::fs::read_to_string("/proc/self/maps").expect("the memory map");
    CANDIDATES.into_iter().find_map(|(library, name)| {
        let short = library.to_str().expect("a name").split(".so").next()?;
        if maps().contains(short) {
            return None;
        }
        let (path, offset) = place(function_in(library, name)?);
        leave(library);
        (!maps().contains(short)).then_some((library, name, path, offset))
    })
}

/// Loads a library: a function of it.
fn function_in(library: &CStr, name: &CStr) -> Option<fn(u64) -> u64> {
    // SAFETY: names that end with a zero; a library of the system may run what it does at its start.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
        let addr = if handle.is_null() { handle } else { libc::dlsym(handle, name.as_ptr()) };
        // It is called with an argument that does no harm: a zero in the first register.
        (!addr.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, fn(u64) -> u64>(addr))
    }
}

/// Lets a library go that was loaded once.
fn leave(library: &CStr) {
    // SAFETY: the name ends with a zero; each handle that is asked for is given back, and the first one too.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if !handle.is_null() {
            libc::dlclose(handle);
            libc::dlclose(handle);
        }
    }
}

pub(crate) fn libraries_are_loaded_later() {
    let Some((library, name, path, offset)) = absent() else {
        println!("there is none that could be");
        return;
    };
    let events = [0, 1].map(|returns| {
        let mut attr = attr(&path, offset);
        attr.config |= returns;
        opened(&attr)
    });
    events.iter().for_each(on);
    for times in [3, 4] {
        let function = function_in(library, name).expect("it was there before");
        (0..times).for_each(|_| _ = black_box(function(0)));
        leave(library);
    }
    println!("{:?}", events.each_ref().map(value));
}

/// A function that the dynamic linker calls before the program begins, the program's own first instruction, and one of the linker.
pub(crate) fn programs_are_probed_from_the_first_instruction() {
    // SAFETY: it only looks.
    let [entry, linker] = [libc::AT_ENTRY, libc::AT_BASE].map(|what| unsafe { libc::getauxval(what) });
    let Some(early) = function_in(c"libc.so.6", c"__libc_early_init") else {
        println!("there is no such function");
        std::process::exit(2);
    };
    let places = [place(early), place_at(entry), place_at(linker + linker_entry(linker))];
    let events = places.each_ref().map(|(path, offset)| {
        let mut attr = attr(path, *offset);
        attr.flags -= AttrFlags::DISABLED;
        perf_event_open(&mut attr, 0, -1, None, OpenFlags::empty()).expect("an event")
    });
    let mut next =
        std::process::Command::new(std::env::current_exe().expect("the running program has a path"));
    next.args(["tool", "values"]).args(events.iter().map(|event| event.as_raw_fd().to_string()));
    panic!("it cannot be executed: {}", next.exec());
}

/// The values of events with these numbers.
pub(crate) fn values() {
    for number in std::env::args().skip(3) {
        // SAFETY: the program before this one left them open, and nothing else here knows them.
        println!("{}", value(&unsafe { OwnedFd::from_raw_fd(number.parse().expect("a number")) }));
    }
}

/// Where the program of the ELF file at an address begins, beyond that.
fn linker_entry(at: u64) -> u64 {
    const ENTRY: u64 = 24;
    // SAFETY: the dynamic linker of this program stays where it is, with its header of 64 bytes.
    unsafe { std::ptr::read_unaligned((at + ENTRY) as *const u64) }
}
