//! The open files of a tool's processes: which descriptor number is which event or object of `bpf(2)`, how many numbers that has,
//! and to whom signals of events go. The pipes behind the numbers are [served](crate::served).

use super::UnwantedSignal;
use crate::bpf::FileId;
use crate::proc;
use crate::ptrace::Tid;
use crate::served::Served;
use perfuse_abi::Errno;
use perfuse_engine::EventKey;
use std::collections::BTreeMap;

/// The descriptors of events and objects that a process has.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    numbers: BTreeMap<i32, Descriptor>,
}

/// What a descriptor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    Event(EventKey),
    Bpf(FileId),
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    pub(super) file: File,
    pub(super) close_on_exec: bool,
}

impl Files {
    pub(super) fn file(&self, fd: i32) -> Option<File> {
        self.numbers.get(&fd).map(|descriptor| descriptor.file)
    }

    /// The event of a descriptor, if it is one's.
    pub(super) fn get(&self, fd: i32) -> Option<EventKey> {
        match self.file(fd)? {
            File::Event(event) => Some(event),
            File::Bpf(_) => None,
        }
    }

    /// The object's file of a descriptor, if it is one's.
    pub(super) fn bpf(&self, fd: i32) -> Option<FileId> {
        match self.file(fd)? {
            File::Event(_) => None,
            File::Bpf(file) => Some(file),
        }
    }

    /// All files of objects that there are descriptors of.
    pub(super) fn bpf_files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.numbers.keys().filter_map(|fd| self.bpf(*fd))
    }

    /// How many numbers from `first` on there are.
    pub(super) fn count_from(&self, first: i32) -> usize {
        self.numbers.range(first..).count()
    }

    pub(super) fn set_close_on_exec(&mut self, fd: i32, on: bool) {
        if let Some(descriptor) = self.numbers.get_mut(&fd) {
            descriptor.close_on_exec = on;
        }
    }

    /// `close_range(2)` with `CLOSE_RANGE_CLOEXEC`.
    pub(super) fn close_on_exec_where(&mut self, which: impl Fn(i32) -> bool) {
        for (_, descriptor) in self.numbers.iter_mut().filter(|(fd, _)| which(**fd)) {
            descriptor.close_on_exec = true;
        }
    }

    fn events(&self) -> impl Iterator<Item = EventKey> + '_ {
        self.numbers.keys().filter_map(|fd| self.get(*fd))
    }
}

/// A ring that a process has mapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct MappedRing {
    pub(super) event: EventKey,
    pub(super) len: u64,
    pub(super) prot: u64,
}

/// An open event, as all its descriptors share it.
#[derive(Debug)]
pub(super) struct OpenEvent {
    /// How many descriptors there are, in all processes.
    descriptors: usize,
    pub(super) served: Served,
    /// `O_ASYNC`: the number by which it was set.
    asynchronous: Option<i32>,
    /// `F_SETSIG`; 0: SIGIO without details.
    pub(super) signal: i32,
    /// `F_SETOWN`, `F_SETOWN_EX`. The kernel knows who it is and who may be sent a signal; here it is only known
    /// which threads a signal would reach that is not to come.
    pub(super) owner: Option<SignalOwner>,
    /// How many signals were sent, and which of them say that no more come: the last ones that do.
    sent: u64,
    last: Vec<u64>,
}

/// The owner, who gets signals, by this process's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalOwner {
    Thread(Tid),
    Process(Tid),
    Group(Tid),
}

impl SignalOwner {
    /// As `F_SETOWN` has it; 0 is none.
    pub(super) fn of_number(number: i32) -> Option<Self> {
        match number {
            0 => None,
            1.. => Some(SignalOwner::Process(number)),
            _ => Some(SignalOwner::Group(number.checked_neg()?)),
        }
    }

    /// As `struct f_owner_ex` has it.
    pub(super) fn of_kind(kind: i32, number: i32) -> Option<Self> {
        match (kind, number) {
            (_, ..=0) => None,
            (0, number) => Some(SignalOwner::Thread(number)),
            (1, number) => Some(SignalOwner::Process(number)),
            (_, number) => Some(SignalOwner::Group(number)),
        }
    }
}

impl OpenEvent {
    fn new() -> Result<Self, Errno> {
        let (mut served, read) = Served::new(true)?;
        served.keep(read);
        Ok(OpenEvent {
            descriptors: 0,
            served,
            asynchronous: None,
            signal: 0,
            owner: None,
            sent: 0,
            last: Vec::new(),
        })
    }

    /// A signal of its `O_ASYNC` has been sent. `last`: no more come.
    pub(super) fn has_signalled(&mut self, last: bool) {
        /// More are not remembered while nobody takes them.
        const MOST: usize = 1024;
        self.sent += 1;
        if last && self.signal != 0 {
            if self.last.len() == MOST {
                self.last.remove(0);
            }
            self.last.push(self.sent);
        }
    }

    /// `F_SETFL` by this number. A number that has set it stays the one that is told.
    pub(super) fn set_asynchronous(&mut self, fd: i32, on: bool) {
        self.asynchronous = on.then_some(self.asynchronous.unwrap_or(fd));
        self.served.set_asynchronous(on);
    }

    /// The signals that the pipe sends and the event does not, as it hangs up or becomes ready: those that come to a place
    /// where they can be taken back. `members`: processes of a group.
    pub(super) fn unwanted(&self, members: impl Fn(Tid) -> Vec<Tid>) -> Vec<UnwantedSignal> {
        let signal = if self.signal == 0 { libc::SIGIO } else { self.signal };
        let (process, owners) = match self.owner {
            None => (false, Vec::new()),
            Some(SignalOwner::Thread(tid)) => (false, vec![tid]),
            // The number may be that of any of its threads, which is there no longer once that has ended.
            Some(SignalOwner::Process(number)) => (true, proc::process_of(number).into_iter().collect()),
            Some(SignalOwner::Group(group)) => (true, members(group)),
        };
        // A signal that waits already is not sent twice, and a thread that blocks it takes it without us.
        let come = owners.into_iter().filter(|&to| proc::takes_signal(to, signal));
        come.map(|to| UnwantedSignal { signal, to, process }).collect()
    }
}

/// All open events.
#[derive(Debug, Default)]
pub(super) struct Table {
    open: BTreeMap<EventKey, OpenEvent>,
    /// How many descriptors the files of objects have, in all processes.
    bpf: BTreeMap<FileId, usize>,
    /// Those with `O_ASYNC` whose last descriptor is closed.
    closed: Vec<OpenEvent>,
}

impl Table {
    /// A new event gets its pipe: `EMFILE`, `ENFILE`.
    pub(super) fn create(&mut self, event: EventKey) -> Result<&mut OpenEvent, Errno> {
        let open = OpenEvent::new()?;
        self.open.insert(event, open);
        self.open.get_mut(&event).ok_or(Errno::ENFILE)
    }

    pub(super) fn get(&mut self, event: EventKey) -> Option<&mut OpenEvent> {
        self.open.get_mut(&event)
    }

    /// An event that got no descriptor after all.
    pub(super) fn forget(&mut self, event: EventKey) {
        self.open.remove(&event);
    }

    /// A descriptor is made, in place of an older one with its number. The answer is what that was the last descriptor of.
    pub(super) fn install(&mut self, files: &mut Files, fd: i32, new: Descriptor) -> Option<File> {
        self.hold(new.file);
        let old = files.numbers.insert(fd, new);
        old.and_then(|old| self.release(old.file))
    }

    /// A file is open by one descriptor more; arrays and links that have an event count as descriptors of it.
    pub(super) fn hold(&mut self, file: File) {
        match file {
            File::Event(event) => {
                if let Some(open) = self.open.get_mut(&event) {
                    open.descriptors += 1;
                }
            }
            File::Bpf(file) => *self.bpf.entry(file).or_default() += 1,
        }
    }

    /// A descriptor is closed; see [`install`](Self::install).
    pub(super) fn close(&mut self, files: &mut Files, fd: i32) -> Option<File> {
        let old = files.numbers.remove(&fd)?;
        self.release(old.file)
    }

    /// All descriptors that are so are closed.
    pub(super) fn close_all(
        &mut self,
        files: &mut Files,
        which: impl Fn(i32, &Descriptor) -> bool,
    ) -> Vec<File> {
        let closed: Vec<i32> = files
            .numbers
            .iter()
            .filter(|(fd, descriptor)| which(**fd, descriptor))
            .map(|(fd, _)| *fd)
            .collect();
        closed.into_iter().filter_map(|fd| self.close(files, fd)).collect()
    }

    /// A process got a copy.
    pub(super) fn copied(&mut self, files: &Files) {
        for descriptor in files.numbers.values() {
            self.hold(descriptor.file);
        }
    }

    /// A file is open by one descriptor less; the file, if that was the last.
    pub(super) fn release(&mut self, file: File) -> Option<File> {
        match file {
            File::Event(event) => {
                let open = self.open.get_mut(&event)?;
                open.descriptors -= 1;
                if open.descriptors > 0 {
                    return None;
                }
                self.closed.extend(self.open.remove(&event).filter(|open| open.served.is_asynchronous()));
            }
            File::Bpf(id) => {
                let count = self.bpf.get_mut(&id)?;
                *count -= 1;
                if *count > 0 {
                    return None;
                }
                self.bpf.remove(&id);
            }
        }
        Some(file)
    }

    /// Takes the events that have been closed since this was asked last, and must be kept until the process has closed them too: the
    /// end of the writers would be a signal.
    pub(super) fn take_closed(&mut self) -> Vec<OpenEvent> {
        std::mem::take(&mut self.closed)
    }

    /// Whether a signal of an event's descriptor is the last one, with `waiting` more of that kind behind it.
    pub(super) fn is_last(&self, signal: i32, fd: i32, waiting: impl FnOnce() -> Option<u64>) -> bool {
        let is_it = |open: &&OpenEvent| {
            open.signal == signal && open.asynchronous == Some(fd) && !open.last.is_empty()
        };
        let Some(open) = self.open.values().find(is_it) else { return false };
        waiting().is_some_and(|waiting| open.last.contains(&open.sent.wrapping_sub(waiting)))
    }

    /// Whether [`is_last`](Self::is_last) could be true of any.
    pub(super) fn has_last(&self) -> bool {
        self.open.values().any(|open| !open.last.is_empty())
    }

    /// A process with these descriptors is about to wait for these numbers, or for any; the answer is for which
    /// events.
    pub(super) fn before_wait(&mut self, files: &Files, numbers: Option<&[i32]>) -> Vec<EventKey> {
        let events: Vec<EventKey> = match numbers {
            Some(numbers) => numbers.iter().filter_map(|&fd| files.get(fd)).collect(),
            None => files.events().collect(),
        };
        for event in &events {
            if let Some(open) = self.open.get_mut(event) {
                open.served.before_wait(numbers.is_some());
            }
        }
        events
    }

    /// A wait for these is over.
    pub(super) fn after_wait(&mut self, events: Vec<EventKey>) {
        for event in events {
            if let Some(open) = self.open.get_mut(&event) {
                open.served.after_wait();
            }
        }
    }
}
