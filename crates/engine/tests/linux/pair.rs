//! Linux and the engine side by side: events that are open on both, and calls that are made on both.
//!
//! The calling thread is the engine's task [`ME`], on cpu 0. Whenever Linux has switched it out, the engine's
//! is switched out too, so that both give events their turn at the same moments; only hits of breakpoints that
//! were disturbed so cannot be compared, and the sequence is played again.

use crate::call::{Call, Fd};
use crate::image::{AttrBytes, image};
use crate::machine::{KERNEL, ME, Machine, PAGE, Reader};
use crate::program::Program as ThisProgram;
use perfuse_engine::abi::{Attr, AttrFlags, ByteOrder, EventType, OpenFlags, Software};
use perfuse_engine::{
    BpfProgram, CloneFlags, Effect, EventKey, Hit, Ioctl, Leaving, MapRequest, OpenArguments, ProgramKind,
    TaskId,
};
use perfuse_sys::{Mapping, Protection, perf_event_open_bytes};
use perfuse_testkit::bpf::Program;
use perfuse_testkit::{Alone, Puppet, work};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Breakpoints are few, and all programs' together: one test at a time.
const LOCK: &str = "perfuse-test-breakpoints";

/// The variable that breakpoints watch.
pub(crate) static WATCHED: AtomicU64 = AtomicU64::new(0);

/// An event on both sides.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) linux: OwnedFd,
    pub(crate) engine: i32,
    pub(crate) attr: Option<Attr>,
    pub(crate) areas: Vec<Area>,
}

impl Open {
    /// The control page and the data, if they are mapped.
    pub(crate) fn ring(&self) -> Option<&Area> {
        self.areas.iter().find(|area| !area.aux)
    }
}

/// A mapping on both sides.
#[derive(Debug)]
pub(crate) struct Area {
    pub(crate) linux: Mapping,
    pub(crate) engine: Reader,
    pub(crate) aux: bool,
    pub(crate) writable: bool,
}

/// A child process of both.
#[derive(Debug)]
pub(crate) struct Kid {
    pub(crate) puppet: Puppet,
    pub(crate) task: TaskId,
    pub(crate) ended: bool,
}

impl Kid {
    pub(crate) fn pid(&self) -> u32 {
        self.task.0 as u32
    }
}

/// An answer: the number, or the errno's name.
pub(crate) type Answer = Result<u64, String>;

/// Linux' answer, and the engine's.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) linux: Answer,
    pub(crate) engine: Answer,
}

/// The comparison was disturbed: the thread did not have the cpu all the time, or not all breakpoints.
#[derive(Debug)]
pub(crate) struct Disturbed;

impl Disturbed {
    /// How often a sequence is played while others disturb it.
    const TRIES: usize = 1000;

    /// Plays until nothing disturbs; also how often something did.
    pub(crate) fn until_not<T>(mut play: impl FnMut() -> Result<T, Disturbed>) -> (T, usize) {
        let mut tries = (0..Self::TRIES).filter_map(|before| Some((play().ok()?, before)));
        tries.next().expect("the machine has a moment for this")
    }
}

pub(crate) struct Pair {
    pub(crate) machine: Machine,
    pub(crate) open: Vec<Open>,
    pub(crate) kids: Vec<Kid>,
    /// Mappings of events that are closed.
    pub(crate) left: Vec<(Area, EventKey)>,
    /// The debug registers of cpu 0: they are asked in this order.
    slots: [Option<EventKey>; 4],
    /// How often the thread had been switched out when the engine's was the last time.
    switches: u64,
    /// A file that is no event.
    file: File,
    /// BPF programs that let everything pass.
    pub(crate) programs: Rc<[Program]>,
    /// The tracepoint of the system call getppid, if it is to be hit.
    pub(crate) tracepoint: Option<u64>,
    _alone: Alone,
}

pub(crate) fn of_linux<T>(result: Result<T, perfuse_sys::Errno>) -> Answer {
    result.map(|_| 0).map_err(|errno| format!("{errno:?}"))
}

pub(crate) fn of_engine<T>(result: Result<T, perfuse_engine::abi::Errno>) -> Answer {
    result.map(|_| 0).map_err(|errno| format!("{errno:?}"))
}

impl Pair {
    /// The thread stays on cpu 0 from now on.
    pub(crate) fn new(cpus: u32, privileged: bool) -> Self {
        work::stay_on(0);
        let mut machine = Machine::of(cpus, std::process::id(), work::thread_id());
        machine.world.privileged = privileged;
        Pair {
            machine,
            open: Vec::new(),
            kids: Vec::new(),
            left: Vec::new(),
            slots: [None; 4],
            switches: work::switches_so_far(),
            file: File::open("/dev/null").expect("it is always there"),
            programs: Rc::from([]),
            tracepoint: None,
            _alone: Alone::on_this_machine(LOCK),
        }
    }

    /// A descriptor of a file that is no event.
    pub(crate) fn file(&self) -> i32 {
        self.file.as_raw_fd()
    }

    pub(crate) fn file_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// There are BPF programs: what each of them is for.
    pub(crate) fn know_programs(&mut self, programs: &Rc<[Program]>, kinds: &[ProgramKind]) {
        self.programs = programs.clone();
        for (program, kind) in self.programs.iter().zip(kinds) {
            let own = BpfProgram {
                id: program.id(),
                kind: *kind,
                wants_stacks: false,
                run: Arc::new(|_: &perfuse_engine::ProgramContext<'_>| 1),
            };
            self.machine.world.programs.insert(program.as_fd().as_raw_fd(), own);
        }
    }

    /// Makes a call on both.
    pub(crate) fn make(&mut self, call: &Call) -> Result<Answers, Disturbed> {
        self.follow();
        // Not read again: a switch since then would be after the engine's and before Linux' call.
        let before = self.switches;
        let answers = self.carry_out(call);
        if answers.linux != answers.engine && answers.linux == Err("ENOSPC".into()) {
            // Another program has breakpoints. Were it a difference it would be there each time.
            return Err(Disturbed);
        }
        if work::switches_so_far() != before {
            if matches!(call, Call::Write(_) | Call::SystemCalls(_)) {
                return Err(Disturbed);
            }
            // Whether it was before or after the effect of the call is no matter after one more.
            std::thread::sleep(Duration::from_nanos(1));
        }
        self.machine.now += 1000;
        self.follow();
        Ok(answers)
    }

    /// The engine's task is switched out and in if Linux' was.
    fn follow(&mut self) {
        self.effects();
        let switches = work::switches_so_far();
        if std::mem::replace(&mut self.switches, switches) != switches {
            self.run(None);
            self.run(Some(ME));
        }
    }

    /// Switches the engine's cpu 0 to a task.
    pub(crate) fn run(&mut self, task: Option<TaskId>) {
        self.machine.engine.switch(0, self.machine.now, Leaving::Sleeps, task, &KERNEL);
        self.effects();
    }

    /// Carries out what the engine wants done.
    fn effects(&mut self) {
        let mut trapped = Vec::new();
        for effect in self.machine.engine.effects() {
            match effect {
                Effect::Watch(watch) if watch.cpu == 0 => {
                    let free = self.slots.iter_mut().find(|slot| slot.is_none());
                    *free.expect("the engine keeps to the number of slots") = Some(watch.event);
                }
                Effect::Unwatch { cpu: 0, event } => {
                    self.slots.iter_mut().filter(|slot| **slot == Some(event)).for_each(|slot| *slot = None);
                }
                Effect::Trap(trap) => trapped.push(trap.event),
                _ => {}
            }
        }
        trapped.into_iter().for_each(|event| self.machine.engine.trap_delivered(event));
    }

    /// The task that runs writes the watched word.
    pub(crate) fn hit(&mut self) {
        let hit: Vec<EventKey> = self.slots.iter().copied().flatten().collect();
        self.machine.engine.breakpoints(&hit, 0, self.machine.now, &ThisProgram);
        self.effects();
    }

    /// A task that runs calls getppid.
    pub(crate) fn enter(&mut self, tid: u32) {
        let Some(id) = self.tracepoint else { return };
        // Type, flags, depth of preemption, thread; the number of the call, and zeros.
        let mut record = [0; 20];
        record[..2].copy_from_slice(&(id as u16).to_ne_bytes());
        record[4..8].copy_from_slice(&tid.to_ne_bytes());
        record[8..12].copy_from_slice(&GETPPID.to_ne_bytes());
        self.machine.engine.tracepoint(0, self.machine.now, &Hit::new(id, &record), &ThisProgram);
        self.effects();
    }

    pub(crate) fn fd(&self, fd: Fd) -> Option<BorrowedFd<'_>> {
        match fd {
            Fd::None => None,
            Fd::Event(at) => Some(self.open[at].linux.as_fd()),
            Fd::File => Some(self.file.as_fd()),
        }
    }

    pub(crate) fn ioctl(&mut self, at: usize, ioctl: Ioctl<'_>) -> Answer {
        of_engine(self.machine.ioctl(self.open[at].engine, ioctl))
    }

    pub(crate) fn open(&mut self, attr: &AttrBytes, pid: i32, cpu: i32, group: Fd, flags: u64) -> Answers {
        let flags = OpenFlags::from_bits_retain(flags);
        let (mut first, mut second) = (attr.0.clone(), attr.0.clone());
        let linux = perf_event_open_bytes(&mut first, pid, cpu, self.fd(group), flags);
        let group_fd = match group {
            Fd::None => -1,
            Fd::Event(at) => self.open[at].engine,
            Fd::File => i32::MAX,
        };
        let arguments = OpenArguments { pid, cpu, group_fd, flags };
        let engine = self.machine.open_bytes(ME, &mut second, arguments);
        let answers = Answers {
            linux: of_linux(linux.as_ref().map_err(|errno| *errno)),
            engine: of_engine(engine.as_ref().map_err(|errno| *errno)),
        };
        let size = |bytes: &[u8]| u32::from_ne_bytes(bytes[4..8].try_into().expect("four bytes"));
        assert_eq!(size(&second), size(&first), "the size that is told for {attr:?}");
        match (linux, engine) {
            (Ok(linux), Ok(engine)) => {
                let attr = Attr::decode(&attr.0, ByteOrder::NATIVE).ok().map(|wire| wire.attr);
                self.open.push(Open { linux, engine, attr, areas: Vec::new() });
            }
            // The caller tells of the difference.
            (_, Ok(engine)) => self.machine.close(engine),
            _ => {}
        }
        answers
    }

    /// Closes the descriptors of an event; its mappings stay.
    pub(crate) fn close(&mut self, at: usize) {
        let event = self.open.remove(at);
        let key = self.machine.key(event.engine);
        self.machine.close(event.engine);
        self.left.extend(event.areas.into_iter().map(|area| (area, key)));
    }

    pub(crate) fn map(&mut self, at: usize, request: MapRequest) -> Answers {
        let (event, len) = (&self.open[at], request.pages * PAGE);
        let protection = if request.writable { Protection::ReadWrite } else { Protection::Read };
        let linux = if request.shared {
            Mapping::new(event.linux.as_fd(), len, protection, request.offset).map(Some)
        } else {
            let mapped = work::maps_privately(&event.linux, len);
            if mapped { Ok(None) } else { Err(perfuse_sys::Errno::EINVAL) }
        };
        let key = self.machine.key(event.engine);
        let Machine { engine, world, now, .. } = &mut self.machine;
        let memory = engine.mmap(world, ME, key, *now, request);
        let answers = Answers {
            linux: of_linux(linux.as_ref().map_err(|errno| *errno)),
            engine: of_engine(memory.as_ref().map_err(|errno| *errno)),
        };
        if let (Ok(Some(linux)), Ok(memory)) = (linux, memory) {
            let (aux, writable) = (request.offset != 0, request.writable);
            self.open[at].areas.push(Area { linux, engine: Reader::of(memory), aux, writable });
        }
        answers
    }

    pub(crate) fn unmap(&mut self, area: Area, key: EventKey) {
        if area.aux {
            self.machine.engine.munmap_aux(key, self.machine.now);
        } else {
            self.machine.engine.munmap(key, self.machine.now);
        }
    }

    /// With an event that is not inherited: where all are, Linux may exchange the contexts of parent and child
    /// at a switch (rule D20), and which task finds which one does not depend on the calls alone.
    pub(crate) fn fork(&mut self) -> Answers {
        let dummy = Attr {
            config: Software::DUMMY.0,
            size: Attr::SIZE_VER8,
            flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL,
            ..Attr::new(EventType::SOFTWARE)
        };
        let alone = self.open.len();
        let opened = self.open(&AttrBytes(image(&dummy)), 0, -1, Fd::None, 0);
        assert_eq!((opened.linux, opened.engine), (Ok(0), Ok(0)), "a dummy");
        // A descriptor keeps an event alive.
        let closing: Vec<i32> = self.open.iter().map(|event| event.linux.as_raw_fd()).collect();
        let puppet = Puppet::fork(&closing, |times| match times.checked_sub(CALLS) {
            Some(times) => work::system_calls(times.into()),
            None => (0..times).for_each(|_| write_watched()),
        });
        let pid = puppet.pid();
        let engine = self.machine.fork(ME, pid, CloneFlags::default());
        if let Ok(task) = engine {
            // It has run, to say so.
            self.run(Some(task));
            self.run(Some(ME));
            self.kids.push(Kid { puppet, task, ended: false });
        }
        self.close(alone);
        Answers { linux: Ok(0), engine: of_engine(engine) }
    }
}

impl Drop for Pair {
    /// Descriptors first, as the order decides about nothing then.
    fn drop(&mut self) {
        self.open.clear();
        self.left.clear();
    }
}

/// Above this a number that children are told is one of system calls.
pub(crate) const CALLS: u8 = 100;
/// The number of the system call that the tracepoint tells of.
const GETPPID: u32 = if cfg!(target_arch = "x86_64") { 110 } else { 173 };

/// Where the kernel tells the head of a ring, and the reader its tail.
pub(crate) const HEAD: usize = 1024;
pub(crate) const TAIL: usize = 1032;

/// The head of a ring of Linux.
pub(crate) fn head(mapping: &Mapping) -> u64 {
    mapping.load_u64(HEAD, Ordering::Acquire)
}

pub(crate) fn write_watched() {
    WATCHED.fetch_add(1, Ordering::SeqCst);
}
