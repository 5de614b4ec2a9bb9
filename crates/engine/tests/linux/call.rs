//! Calls, and how each is made on both sides.

use crate::image::{AttrBytes, image};
use crate::machine::ME;
use crate::pair::{Answers, CALLS, Pair, TAIL, head, of_engine, of_linux, write_watched};
use perfuse_engine::abi::record::MmapFile;
use perfuse_engine::abi::{Attr, IocFlags, PollFlags};
use perfuse_engine::{AttrMemory, BpfQuery, Ioctl, MapRequest, Mapping as Mapped};
use perfuse_sys::{ioctl, prctl};
use perfuse_testkit::work;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A descriptor in a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fd {
    /// -1.
    None,
    /// Of the event at this place in the list of those that are open.
    Event(usize),
    /// Of a file that is no event.
    File,
}

/// A call with its arguments; events are named by their place in the list of those that are open.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Open {
        attr: AttrBytes,
        pid: i32,
        cpu: i32,
        group: Fd,
        flags: u64,
    },
    Close(usize),
    /// Into so many words.
    Read(usize, usize),
    Enable(usize, bool),
    Disable(usize, bool),
    Reset(usize, bool),
    Refresh(usize, i32),
    Period(usize, u64),
    Pause(usize, bool),
    SetOutput(usize, Fd),
    Filter(usize, CString),
    Modify(usize, Box<Attr>),
    /// A BPF program by its place, or what is no program.
    SetBpf(usize, Option<usize>),
    QueryBpf(usize),
    Map(usize, MapRequest),
    /// Of an event, one of its mappings.
    Unmap(usize, usize),
    /// One of the mappings of events that are closed.
    UnmapClosed(usize),
    /// Writes a word of the control page.
    Tell(usize, usize, u64),
    /// Gives back all room in the ring.
    Consume(usize),
    Poll(usize),
    Prctl(bool),
    /// Writes the watched word so many times.
    Write(u8),
    Sleep,
    Fork,
    /// A child writes the watched word so many times.
    ChildWrites(usize, u8),
    ChildEnds(usize),
    Reap(usize),
    /// Calls getppid so many times.
    SystemCalls(u8),
    ChildCalls(usize, u8),
    /// Gives the thread a name.
    Name(&'static str),
    /// Maps a page of this program as code.
    MapCode,
}

impl Pair {
    pub(crate) fn carry_out(&mut self, call: &Call) -> Answers {
        let flags = |group: &bool| if *group { IocFlags::GROUP } else { IocFlags::empty() };
        let both = |number| Answers { linux: Ok(number), engine: Ok(number) };
        match call {
            Call::Open { attr, pid, cpu, group, flags } => self.open(attr, *pid, *cpu, *group, *flags),
            Call::Close(at) => {
                self.close(*at);
                both(0)
            }
            Call::Read(at, room) => {
                let event = &self.open[*at];
                let mut words = vec![0; *room];
                let linux = perfuse_sys::read(event.linux.as_fd(), &mut words);
                let mut bytes = Vec::new();
                let key = self.machine.key(event.engine);
                let engine = self.machine.engine.read(key, self.machine.now, room * 8, &mut bytes);
                Answers {
                    linux: linux.map(|words| words as u64 * 8).map_err(|errno| format!("{errno:?}")),
                    engine: engine.map(|()| bytes.len() as u64).map_err(|errno| format!("{errno:?}")),
                }
            }
            Call::Enable(at, group) => Answers {
                linux: of_linux(ioctl::enable(self.open[*at].linux.as_fd(), flags(group))),
                engine: self.ioctl(*at, Ioctl::Enable { group: *group }),
            },
            Call::Disable(at, group) => Answers {
                linux: of_linux(ioctl::disable(self.open[*at].linux.as_fd(), flags(group))),
                engine: self.ioctl(*at, Ioctl::Disable { group: *group }),
            },
            Call::Reset(at, group) => Answers {
                linux: of_linux(ioctl::reset(self.open[*at].linux.as_fd(), flags(group))),
                engine: self.ioctl(*at, Ioctl::Reset { group: *group }),
            },
            Call::Refresh(at, more) => Answers {
                linux: of_linux(ioctl::refresh(self.open[*at].linux.as_fd(), *more)),
                engine: self.ioctl(*at, Ioctl::Refresh(*more)),
            },
            Call::Period(at, period) => Answers {
                linux: of_linux(ioctl::period(self.open[*at].linux.as_fd(), *period)),
                engine: self.ioctl(*at, Ioctl::Period(*period)),
            },
            Call::Pause(at, pause) => Answers {
                linux: of_linux(ioctl::pause_output(self.open[*at].linux.as_fd(), *pause)),
                engine: self.ioctl(*at, Ioctl::PauseOutput(*pause)),
            },
            Call::SetOutput(at, target) => {
                let linux = ioctl::set_output(self.open[*at].linux.as_fd(), self.fd(*target));
                // The host says what a descriptor means.
                let engine = match *target {
                    Fd::None => self.ioctl(*at, Ioctl::SetOutput(None)),
                    Fd::Event(target) => {
                        let target = self.machine.key(self.open[target].engine);
                        self.ioctl(*at, Ioctl::SetOutput(Some(target)))
                    }
                    Fd::File => Err("EBADF".into()),
                };
                Answers { linux: of_linux(linux), engine }
            }
            Call::Filter(at, text) => {
                let linux = ioctl::set_filter(self.open[*at].linux.as_fd(), text);
                let text = text.to_str().expect("plain text");
                Answers { linux: of_linux(linux), engine: self.ioctl(*at, Ioctl::SetFilter(text)) }
            }
            Call::SetBpf(at, which) => {
                let event = &self.open[*at];
                let program = which.map_or(self.file_fd(), |which| self.programs[which].as_fd());
                let linux = ioctl::set_bpf(event.linux.as_fd(), program);
                let fd = which.map_or(self.file(), |which| self.programs[which].as_fd().as_raw_fd());
                Answers { linux: of_linux(linux), engine: self.ioctl(*at, Ioctl::SetBpf(fd)) }
            }
            Call::QueryBpf(at) => {
                // The sum of the ids says whether they are the same.
                let sum = |ids: &[u32]| ids.iter().fold(0, |sum: u64, id| sum << 8 ^ u64::from(*id));
                let linux = ioctl::query_bpf(self.open[*at].linux.as_fd());
                let mut query = BpfQuery { room: 16, ..BpfQuery::default() };
                let engine = self.ioctl(*at, Ioctl::QueryBpf(&mut query));
                Answers {
                    linux: linux.map(|ids| sum(&ids)).map_err(|errno| format!("{errno:?}")),
                    engine: engine.map(|_| sum(&query.ids)),
                }
            }
            Call::Modify(at, attr) => {
                let linux = ioctl::modify_attributes(self.open[*at].linux.as_fd(), attr);
                let mut bytes = image(attr);
                let mut memory = AttrMemory(&mut bytes);
                let engine = self.machine.ioctl(self.open[*at].engine, Ioctl::ModifyAttributes(&mut memory));
                Answers { linux: of_linux(linux), engine: of_engine(engine) }
            }
            Call::Map(at, request) => self.map(*at, *request),
            Call::Unmap(at, area) => {
                let area = self.open[*at].areas.remove(*area);
                let key = self.machine.key(self.open[*at].engine);
                self.unmap(area, key);
                both(0)
            }
            Call::UnmapClosed(at) => {
                let (area, key) = self.left.remove(*at);
                self.unmap(area, key);
                both(0)
            }
            Call::Tell(at, word, value) => {
                if let Some(area) = self.open[*at].ring().filter(|area| area.writable) {
                    area.linux.store_u64(*word, *value, Ordering::Release);
                    area.engine.memory.words()[*word / 8].store(*value, Ordering::Release);
                }
                both(0)
            }
            Call::Consume(at) => {
                let ring = self.open[*at].areas.iter_mut().find(|area| !area.aux && area.writable);
                if let Some(area) = ring {
                    area.linux.store_u64(TAIL, head(&area.linux), Ordering::Release);
                    area.engine.skip();
                }
                both(0)
            }
            Call::Poll(at) => {
                let event = &self.open[*at];
                let ready = perfuse_sys::poll::poll(&[event.linux.as_fd()], Some(Duration::ZERO));
                let ready = ready.expect("it works")[0];
                let mut linux = PollFlags::empty();
                linux.set(PollFlags::READABLE, ready.readable);
                linux.set(PollFlags::HUP, ready.hangup);
                linux.set(PollFlags::ERR, ready.error);
                let engine = self.machine.poll(event.engine);
                Answers { linux: Ok(linux.bits().into()), engine: Ok(engine.bits().into()) }
            }
            Call::Prctl(enable) => {
                let linux = if *enable {
                    prctl::task_perf_events_enable()
                } else {
                    prctl::task_perf_events_disable()
                };
                self.machine.engine.prctl(ME, *enable, self.machine.now);
                Answers { linux: of_linux(linux), engine: Ok(0) }
            }
            Call::Write(times) => {
                for _ in 0..*times {
                    write_watched();
                    self.hit();
                }
                // So many are never too many for a tick of Linux (rule I10).
                self.machine.engine.tick(0, self.machine.now);
                both(0)
            }
            Call::Sleep => {
                std::thread::sleep(Duration::from_nanos(1));
                both(0)
            }
            Call::Fork => self.fork(),
            Call::ChildWrites(kid, times) => {
                self.kids[*kid].puppet.act(*times);
                self.run(Some(self.kids[*kid].task));
                (0..*times).for_each(|_| self.hit());
                self.machine.engine.tick(0, self.machine.now);
                self.run(Some(ME));
                both(0)
            }
            Call::ChildEnds(kid) => {
                let kid = &mut self.kids[*kid];
                kid.puppet.end();
                kid.ended = true;
                let task = kid.task;
                self.run(Some(task));
                self.machine.engine.exit(task, Some(ME), 0, self.machine.now);
                self.run(Some(ME));
                both(0)
            }
            Call::SystemCalls(times) => {
                work::system_calls((*times).into());
                let me = work::thread_id();
                (0..*times).for_each(|_| self.enter(me));
                both(0)
            }
            Call::ChildCalls(kid, times) => {
                self.kids[*kid].puppet.act(CALLS + *times);
                let (task, pid) = (self.kids[*kid].task, self.kids[*kid].pid());
                self.run(Some(task));
                (0..*times).for_each(|_| self.enter(pid));
                self.run(Some(ME));
                both(0)
            }
            Call::Name(name) => {
                std::fs::write("/proc/thread-self/comm", name).expect("a thread may name itself");
                self.machine.engine.comm(ME, 0, self.machine.now, name.as_bytes(), false);
                both(0)
            }
            Call::MapCode => {
                let path = std::env::current_exe().expect("it is known");
                let file = File::open(&path).expect("it can be read");
                let addr = work::map_code(&file);
                let meta = file.metadata().expect("it has some");
                let file = MmapFile::Inode {
                    maj: (meta.dev() >> 8 & 0xfff) as u32,
                    min: (meta.dev() & 0xff | meta.dev() >> 12 & 0xfff00) as u32,
                    ino: meta.ino(),
                    ino_generation: 0,
                };
                let name = path.as_os_str().as_bytes();
                let mapping =
                    Mapped { addr, len: 4096, pgoff: 0, file, build_id: None, prot: 5, flags: 2, name };
                self.machine.engine.mapped(ME, 0, self.machine.now, &mapping);
                both(0)
            }
            Call::Reap(at) => {
                let mut kid = self.kids.remove(*at);
                kid.puppet.reap();
                self.machine.engine.reap(kid.task, self.machine.now);
                self.machine.world.tasks.remove(&kid.pid());
                both(0)
            }
        }
    }
}
