//! The engine, and the kernel it runs on as its peer: what an occurrence of a software event and a switch of
//! tasks cost, and how that grows with events and tasks; and records into a ring, against copying as many
//! bytes.
//!
//! The kernel's figures hold what happens besides (a page fault, a switch with its pipes), the engine's do
//! not: what can be compared is the growth, which is what events cost.

use crate::measure::{Contestant, compare, display, shortest};
use perfuse::abi::wire::{Layout, Writer};
use perfuse::abi::{Attr, ByteOrder, Errno, EventType, OpenFlags, Software};
use perfuse_engine::ring::{Ring, RingOptions};
use perfuse_engine::{
    AtIp, AtomicU64, Cx, Engine, EventKey, Hw, Leaving, Memory, OpenArguments, Pmu, PmuInfo, Target,
    TaskFacts, TaskId,
};
use perfuse_sim::{Machine, Setup, World};
use std::hint::black_box;
use std::io::{Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

const ROUNDS: usize = 25;
const EVENTS: [usize; 4] = [0, 1, 4, 64];

pub fn all() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("engine (load {})", load.split(' ').next().unwrap_or("?"));
    occurrences();
    switches();
    tasks();
    for words in [4, 40, 512] {
        ring(words);
    }
}

/// One line for each size, and what one more costs at the end.
fn curve(title: &str, of: &str, sizes: &[usize], mut contestants: Vec<(&str, Vec<Contestant<'_>>)>) {
    println!("{title}  (the shortest of {ROUNDS} turns)");
    let counts: Vec<usize> = contestants.iter().map(|(_, turns)| turns.len()).collect();
    let names: Vec<&str> = contestants.iter().map(|(name, _)| *name).collect();
    let mut turns: Vec<Contestant<'_>> = contestants.drain(..).flat_map(|(_, turns)| turns).collect();
    let all = shortest(ROUNDS, &mut turns);
    let mut from = 0;
    for (name, count) in names.into_iter().zip(counts) {
        let mine = &all[from..from + count];
        from += count;
        let cells: Vec<String> =
            sizes.iter().zip(mine).map(|(size, ns)| format!("{size}: {}", display(*ns))).collect();
        let (first, last) = (mine[0], mine[count - 1]);
        let each = (last - first) / (sizes[count - 1] - sizes[0]) as f64;
        println!("  {name:30} {}; one more {of} costs {}", cells.join("  "), display(each.max(0.0)));
    }
    println!();
}

fn attr(type_: EventType, config: u64) -> Attr {
    Attr { config, size: Attr::SIZE_VER8, ..Attr::new(type_) }
}

fn faults() -> Attr {
    attr(EventType::SOFTWARE, Software::PAGE_FAULTS.0)
}

/// The engine with a host that allows everything.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    world: World,
    pub(crate) now: u64,
}

const NOBODY: AtIp = AtIp { user: true, ip: 0x40_0000 };

impl Bench {
    pub(crate) fn new() -> Self {
        let Machine { engine, world, .. } = Machine::new(Setup { pmu: None, ..Setup::default() });
        let mut bench = Bench { engine, world, now: 1 };
        bench.engine.register(Box::new(Plenty)).expect("the type is free");
        (1..=2).for_each(|task| bench.task(task));
        bench
    }

    fn task(&mut self, number: u32) {
        self.engine.add_task(TaskId(number.into()), TaskFacts::new(number, number));
    }

    fn open(&mut self, attr: &Attr, pid: i32) {
        self.open_with(attr, OpenArguments { pid, ..OpenArguments::default() });
    }

    fn open_with(&mut self, attr: &Attr, arguments: OpenArguments) -> EventKey {
        let (mut bytes, mut attr) = (Vec::new(), *attr);
        attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).expect("room");
        self.engine.open(&mut self.world, TaskId(1), self.now, &mut bytes, arguments).expect("an event")
    }

    /// Opens so many on task 1, the first as the leader of all if they are a `group`.
    pub(crate) fn open_all(&mut self, attr: &Attr, group: bool, count: usize) -> Vec<EventKey> {
        let leader = OpenArguments { pid: 1, ..OpenArguments::default() };
        let mut events = Vec::new();
        for _ in 0..count {
            let group_fd = if group && !events.is_empty() { 3 } else { -1 };
            events.push(self.open_with(attr, OpenArguments { group_fd, ..leader }));
            self.world.descriptors.entry(3).or_insert(events[0]);
        }
        events
    }

    pub(crate) fn switch(&mut self, task: u64) {
        self.now += 100;
        self.engine.switch(0, self.now, Leaving::Sleeps, Some(TaskId(task)), &NOBODY);
        self.engine.effects().for_each(drop);
    }

    /// Nanoseconds of a switch between two tasks.
    fn switching(mut self) -> impl FnMut() -> f64 {
        const PAIRS: u64 = 20;
        move || {
            let start = Instant::now();
            for _ in 0..PAIRS {
                self.switch(1);
                self.switch(2);
            }
            start.elapsed().as_nanos() as f64 / (2 * PAIRS) as f64
        }
    }
}

/// A PMU that never runs out of counters.
#[derive(Debug)]
struct Plenty;

impl Pmu for Plenty {
    fn info(&self) -> PmuInfo {
        PmuInfo { type_: Some(EventType::RAW), ..PmuInfo::hardware("cpu") }
    }

    fn event_init(&mut self, hw: &mut Hw, _target: &Target, _group: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.type_ == EventType::RAW { Ok(()) } else { Err(Errno::ENOENT) }
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, _start: bool) -> Result<(), Errno> {
        (hw.prev, hw.stopped) = (cx.now, false);
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.stop(cx, hw);
    }

    fn read(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        hw.count += cx.now - hw.prev;
        hw.prev = cx.now;
    }
}

/// A page fault that so many events count.
fn occurrences() {
    let of_engine = |events| {
        let mut bench = Bench::new();
        (0..events).for_each(|_| bench.open(&faults(), 1));
        bench.switch(1);
        Contestant::calls("engine", 1000, move || {
            bench.engine.software(0, bench.now, Software::PAGE_FAULTS, 1, 0x7000, &NOBODY);
        })
    };
    let of_kernel = |events| {
        let turn = move || {
            let _open: Vec<OwnedFd> = (0..events).map(|_| kernel_event(0)).collect();
            touch(500)
        };
        Contestant::timed("kernel", turn)
    };
    let engine = EVENTS.map(of_engine).into();
    let kernel = EVENTS.map(of_kernel).into();
    let all = vec![("the engine is told of a fault", engine), ("a page fault of Linux", kernel)];
    curve("an occurrence that so many software events count", "event", &EVENTS, all);
}

fn kernel_event(tid: i32) -> OwnedFd {
    perfuse_sys::perf_event_open(&mut faults(), tid, -1, None, OpenFlags::FD_CLOEXEC).expect("as root")
}

/// Nanoseconds of the first write to a fresh page.
fn touch(pages: usize) -> f64 {
    let len = pages * 4096;
    // SAFETY: a fresh private mapping, written within its bounds and unmapped again.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        libc::madvise(start, len, libc::MADV_NOHUGEPAGE);
        let clock = Instant::now();
        (0..len).step_by(4096).for_each(|at| start.cast::<u8>().add(at).write_volatile(1));
        let ns = clock.elapsed().as_nanos() as f64;
        libc::munmap(start, len);
        ns / pages as f64
    }
}

/// A switch between two tasks that have so many groups each: of software events, and in the engine of a PMU
/// too.
fn switches() {
    let of_engine = |attr: Attr| {
        move |events| {
            let mut bench = Bench::new();
            (0..events).for_each(|_| (1..=2).for_each(|pid| bench.open(&attr, pid)));
            Contestant::timed("engine", bench.switching())
        }
    };
    let software = EVENTS.map(of_engine(faults())).into();
    let hardware = EVENTS.map(of_engine(attr(EventType::RAW, 0))).into();
    let kernel = EVENTS.map(|events| Contestant::timed("kernel", move || ping_pong(events, 0))).into();
    let all = vec![
        ("the engine, software events", software),
        ("the engine, a PMU's", hardware),
        ("Linux, software events", kernel),
    ];
    curve("a switch of tasks with so many groups each", "group", &EVENTS, all);
}

/// Nanoseconds of a switch between two threads on one cpu that answer each other through pipes, and have so
/// many events; `idle` other threads have four each.
fn ping_pong(events: usize, idle: usize) -> f64 {
    const TURNS: u32 = 200;
    let (mut hear, mut ask) = pipe().expect("a pipe");
    let (mut hear_back, mut answer) = pipe().expect("a pipe");
    let on_one_cpu = || {
        // SAFETY: a set of cpus made here, for this very thread.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
        }
    };
    let (stop, stopped) = channel::<()>();
    let stopped = Arc::new(std::sync::Mutex::new(stopped));
    let sleepers: Vec<_> = (0..idle)
        .map(|_| {
            let (stopped, (ready, is_ready)) = (stopped.clone(), channel());
            let sleeper = thread::spawn(move || {
                let _open: Vec<OwnedFd> = (0..4).map(|_| kernel_event(0)).collect();
                ready.send(()).expect("somebody waits");
                // An error: nobody will ever send.
                let _ = stopped.lock().map(|stopped| stopped.recv());
            });
            is_ready.recv().expect("a thread");
            sleeper
        })
        .collect();
    let partner = thread::spawn(move || {
        on_one_cpu();
        let _open: Vec<OwnedFd> = (0..events).map(|_| kernel_event(0)).collect();
        let mut byte = [0];
        while hear.read_exact(&mut byte).is_ok() {
            answer.write_all(&byte).expect("a pipe");
        }
    });
    let asker = thread::spawn(move || {
        on_one_cpu();
        let _open: Vec<OwnedFd> = (0..events).map(|_| kernel_event(0)).collect();
        let mut byte = [0];
        let mut turn = || {
            ask.write_all(&byte).expect("a pipe");
            hear_back.read_exact(&mut byte).expect("an answer");
        };
        turn();
        let start = Instant::now();
        (0..TURNS).for_each(|_| turn());
        start.elapsed().as_nanos() as f64 / f64::from(2 * TURNS)
    });
    let ns = asker.join().expect("a thread");
    drop(stop);
    partner.join().expect("a thread");
    sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("a thread"));
    ns
}

/// A switch between two tasks, with so many other tasks; all have four events.
fn tasks() {
    const TASKS: [usize; 4] = [0, 16, 256, 4096];
    perfuse_sys::limits::provide_open_files(4096);
    let of_engine = |tasks: usize| {
        let mut bench = Bench::new();
        for task in 1..tasks as u32 + 3 {
            bench.task(task);
            (0..4).for_each(|_| bench.open(&faults(), task as i32));
        }
        Contestant::timed("engine", bench.switching())
    };
    let engine = TASKS.map(of_engine).into();
    // Threads of the kernel are dear to make.
    let kernel: Vec<_> =
        TASKS[..3].iter().map(|&tasks| Contestant::timed("kernel", move || ping_pong(4, tasks))).collect();
    let all = vec![("the engine", engine), ("Linux", kernel)];
    curve("a switch of tasks with four events each, beside so many others", "task", &TASKS, all);
}

/// Records of so many words into a ring whose reader keeps up.
fn ring(words: usize) {
    const BYTES: usize = 1 << 19;
    const PAGE: usize = 4096;
    let bytes = vec![7; words * 8];
    let records = (BYTES / 2 / bytes.len()) as u32;
    let memory: Arc<dyn Memory> =
        Arc::new((0..(PAGE + BYTES) / 8).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    let ring = Ring::new(memory.clone(), PAGE, RingOptions::default());
    let mut target = vec![0; BYTES];
    let mut place = 0;
    let copy = || {
        target[place..place + bytes.len()].copy_from_slice(black_box(&bytes));
        place = if place + 2 * bytes.len() > BYTES { 0 } else { place + bytes.len() };
    };
    let write = || {
        let mut slot = ring.begin(bytes.len(), 24).expect("the reader keeps up");
        slot.put(black_box(&bytes));
        black_box(slot.finish());
        let head = memory.words()[1024 / 8].load(Ordering::Relaxed);
        memory.words()[1032 / 8].store(head, Ordering::Release);
    };
    let contestants = vec![
        Contestant::calls("memcpy", records * 8, copy),
        Contestant::calls("the engine's ring", records * 8, write),
    ];
    compare(&format!("a record of {} bytes", bytes.len()), 41, contestants);
}
