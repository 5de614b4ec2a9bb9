//! The open files of a tool's processes: which descriptor number is which event, how many numbers an event has, and
//! to whom its signals go. The pipes behind the numbers are [served](crate::served).

use super::UnwantedSignal;
use crate::proc;
use crate::ptrace::Tid;
use crate::served::Served;
use perfuse_abi::Errno;
use perfuse_engine::EventKey;
use std::collections::BTreeMap;

/// The descriptors of events that a process has.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    numbers: BTreeMap<i32, Descriptor>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    pub(super) event: EventKey,
    pub(super) close_on_exec: bool,
}

impl Files {
    pub(super) fn get(&self, fd: i32) -> Option<EventKey> {
        self.numbers.get(&fd).map(|descriptor| descriptor.event)
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
        self.numbers.values().map(|descriptor| descriptor.event)
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

    /// A descriptor is made, in place of an older one with its number. The answer is an event whose last descriptor
    /// that was.
    pub(super) fn install(&mut self, files: &mut Files, fd: i32, new: Descriptor) -> Option<EventKey> {
        if let Some(open) = self.open.get_mut(&new.event) {
            open.descriptors += 1;
        }
        let old = files.numbers.insert(fd, new);
        old.and_then(|old| self.release(old.event))
    }

    /// A descriptor is closed; see [`install`](Self::install).
    pub(super) fn close(&mut self, files: &mut Files, fd: i32) -> Option<EventKey> {
        let old = files.numbers.remove(&fd)?;
        self.release(old.event)
    }

    /// All descriptors that are so are closed.
    pub(super) fn close_all(
        &mut self,
        files: &mut Files,
        which: impl Fn(i32, &Descriptor) -> bool,
    ) -> Vec<EventKey> {
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
        for event in files.events() {
            if let Some(open) = self.open.get_mut(&event) {
                open.descriptors += 1;
            }
        }
    }

    fn release(&mut self, event: EventKey) -> Option<EventKey> {
        let open = self.open.get_mut(&event)?;
        open.descriptors -= 1;
        if open.descriptors > 0 {
            return None;
        }
        self.closed.extend(self.open.remove(&event).filter(|open| open.served.is_asynchronous()));
        Some(event)
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
