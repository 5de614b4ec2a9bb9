//! The descriptors of the engine's events, as programs have them: those that call the library, and tools whose calls
//! are [intercepted](crate::intercept).
//!
//! A descriptor of an event is the reading end of a pipe. So `poll(2)`, `epoll(7)`, `O_ASYNC` and its signals,
//! close-on-exec, inheritance by fork and passing it on are the kernel's work. The writing end stays here: a byte in
//! the pipe says that the event is ready, and closing the end that it hangs up.
//!
//! [`Served`] is one such pipe. The [`Descriptors`] that a front keeps know which number in which process it is, and
//! who gets its signals; [`carry_out`] does to them the effects of the engine.

use crate::machine::Machine;
use crate::memory::Shared;
use perfuse_abi::page::offset;
use perfuse_abi::{Errno, PollFlags};
use perfuse_engine::{Effect, EventKey, Memory as _, Notice, Trap};
use perfuse_sys::pipe;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An open event: the pipe behind its descriptors.
#[derive(Debug)]
pub struct Served {
    /// The number in this process of the reading end.
    number: RawFd,
    /// The reading end itself, where it is [kept](Self::keep).
    read: Option<OwnedFd>,
    /// `None` while the event hangs up: it has no ring (rule G23), or is over (rule G21).
    write: Option<OwnedFd>,
    /// A byte lies in the pipe.
    ready: bool,
    /// A wait has been told of what the byte says.
    seen: bool,
    /// A wait for it has been entered, and may be going on.
    waited_for: bool,
    /// A wait may have been going on when the byte came.
    came_in_wait: bool,
    /// `O_ASYNC`: each byte is a signal.
    asynchronous: bool,
    /// Its ring, if the reader moves the tail of it.
    ring: Option<Arc<Shared>>,
}

impl Served {
    /// A pipe, and its reading end, which stays open as long as it is served: `EMFILE`, `ENFILE`.
    pub fn new(close_on_exec: bool) -> Result<(Self, OwnedFd), Errno> {
        let (read, write) = pipe::nonblocking(close_on_exec)?;
        let served = Served {
            number: read.as_raw_fd(),
            read: None,
            write: Some(write),
            ready: false,
            seen: false,
            waited_for: false,
            came_in_wait: false,
            asynchronous: false,
            ring: None,
        };
        Ok((served, read))
    }

    /// Keeps a descriptor of the reading end, by which readiness is taken back without the program's help: as
    /// signals need.
    pub fn keep(&mut self, read: OwnedFd) {
        self.number = read.as_raw_fd();
        self.read = Some(read);
    }

    /// The number of the reading end in this process.
    pub fn number(&self) -> RawFd {
        self.number
    }

    /// The reading end, if it is [kept](Self::keep).
    pub fn kept(&self) -> Option<BorrowedFd<'_>> {
        self.read.as_ref().map(AsFd::as_fd)
    }

    /// Whether each byte is a signal.
    pub fn is_asynchronous(&self) -> bool {
        self.asynchronous
    }

    /// `O_ASYNC` of its descriptors is set or cleared. The reading end has to be [kept](Self::keep).
    pub fn set_asynchronous(&mut self, on: bool) {
        self.asynchronous = on;
    }

    /// The ring that its reader empties; `None`: there is none any longer.
    pub fn set_ring(&mut self, ring: Option<Arc<Shared>>) {
        self.ring = ring;
    }

    /// Wakes those who wait for it: there is something to read. `waits`: whether somebody does, where that is known.
    /// With `O_ASYNC` the byte is that of a [signal](Self::signal), if one lies there.
    fn wake(&mut self, waits: Option<bool>) {
        // A byte that was told of already stands for another wake-up from now on. Who waits for edges is to see one.
        if !self.asynchronous {
            self.drain();
        }
        if !self.ready {
            self.put();
        }
        (self.seen, self.came_in_wait) = match waits {
            Some(waits) => (waits, false),
            None => (false, self.waited_for),
        };
    }

    /// Sends the signal that `O_ASYNC` stands for, as the kernel does with each byte. `wakes`: there is something to read,
    /// too, so that the byte stays.
    fn signal(&mut self, wakes: bool) {
        let stays = self.ready || wakes;
        self.drain();
        self.put();
        if !stays {
            self.drain();
        }
    }

    fn put(&mut self) {
        self.ready = self.write.as_ref().is_some_and(|write| pipe::put(write.as_fd()));
    }

    /// Takes the byte out.
    fn drain(&mut self) {
        if let Some(read) = self.read.as_ref().filter(|_| self.ready) {
            pipe::drain(read.as_fd());
            self.ready = false;
        }
    }

    /// Readiness was told at this descriptor of the reading end. It is told once (rule G20).
    pub fn acknowledge(&mut self, read: BorrowedFd<'_>) {
        if std::mem::take(&mut self.ready) {
            pipe::drain(read);
        }
    }

    /// A program is about to wait; `surely`: for this event. Linux takes the readiness away when it is asked for (rule
    /// G20), while a pipe stays readable. So the byte is taken out as soon as it was seen. A byte that may have come during a
    /// wait has been seen by that wait if it was still going on: where nothing tells, it is taken out once all that is in
    /// the ring has been read.
    pub(crate) fn before_wait(&mut self, surely: bool) {
        self.waited_for = true;
        if !self.ready {
            return;
        }
        let seen = std::mem::replace(&mut self.seen, true);
        let heeded = || self.ring.as_ref().map_or(seen, |ring| is_empty(ring));
        if surely && seen || (self.came_in_wait || !surely) && heeded() {
            self.drain();
        }
    }

    /// That wait is over.
    pub(crate) fn after_wait(&mut self) {
        self.waited_for = false;
    }

    /// It is ready (`POLLHUP`) until it is [taken up](Self::take_up). With `O_ASYNC` that sends a signal, too.
    fn hang_up(&mut self) {
        self.drain();
        self.write = None;
    }

    /// It no longer hangs up: a pipe gets another writing end.
    fn take_up(&mut self) {
        if self.write.is_none() {
            self.write = pipe::writing_end_of(self.number).ok();
        }
    }

    /// Whether the pipe hangs up: if the event does, as far as a pipe can. With `O_ASYNC` it keeps its writing end as long
    /// as any signal may come, and where a pipe gets no other writing end it hangs up only for good.
    fn hangs_up(&self, machine: &impl Answers, event: EventKey) -> bool {
        let for_a_while = || !self.asynchronous && pipe::has_writing_ends(self.number);
        machine.has_hung_up(event) && (machine.is_over(event) || for_a_while())
    }
}

/// The reader has caught up with the writer.
fn is_empty(ring: &Shared) -> bool {
    let word = |offset: usize| ring.words()[offset / 8].load(Ordering::Acquire);
    word(offset::DATA_HEAD) == word(offset::DATA_TAIL)
}

/// The machine behind the events of a front.
pub trait Answers {
    /// The effects of the engine since this was asked last.
    fn take_effects(&mut self) -> Vec<Effect>;

    /// The answer of `poll(2)`, which takes readiness back (rule G24).
    fn poll(&mut self, event: EventKey) -> PollFlags;

    /// Whether `poll(2)` answers that there will be nothing to read: what it measures has ended (rule G21), or it has no
    /// ring (rule G23).
    fn has_hung_up(&self, event: EventKey) -> bool;

    /// Whether the targets of an event and of its copies have ended.
    fn is_over(&self, event: EventKey) -> bool;
}

impl Answers for Machine {
    fn take_effects(&mut self) -> Vec<Effect> {
        self.effects().collect()
    }

    fn poll(&mut self, event: EventKey) -> PollFlags {
        Machine::poll(self, event)
    }

    fn has_hung_up(&self, event: EventKey) -> bool {
        Machine::has_hung_up(self, event)
    }

    fn is_over(&self, event: EventKey) -> bool {
        Machine::is_over(self, event)
    }
}

/// The open events of a front before a machine.
pub trait Descriptors<M = Machine> {
    /// An open event; `None`: no program has it open.
    fn served(&mut self, event: EventKey) -> Option<&mut Served>;

    /// The event with `O_ASYNC` is about to hang up, which to the kernel is one more signal; events send none.
    fn hanging_up(&mut self, event: EventKey);

    /// The event with `O_ASYNC` is about to become ready without a signal, which to the kernel is one. Whether that can be
    /// kept from its owner; otherwise the event stays as it is.
    fn becoming_ready(&mut self, event: EventKey) -> bool {
        let _ = event;
        false
    }

    /// Whether a thread sleeps in a wait for an event at this moment; `None`: that is not known.
    fn is_waited_for(&mut self, event: EventKey) -> Option<bool> {
        let _ = event;
        None
    }

    /// A signal of the event's `O_ASYNC` has been sent.
    fn has_signalled(&mut self, event: EventKey, notice: Notice) {
        let _ = (event, notice);
    }

    /// A SIGTRAP of `attr.sigtrap` is to be sent. Only fronts that open such events get any.
    fn trap(&mut self, machine: &M, trap: Trap) {
        let _ = (machine, trap);
    }
}

/// Carries out the effects of the engine.
pub fn carry_out<M: Answers>(machine: &mut M, descriptors: &mut impl Descriptors<M>) {
    // To be woken can have effects again.
    loop {
        let all = machine.take_effects();
        if all.is_empty() {
            return;
        }
        let woken: Vec<EventKey> = all
            .iter()
            .filter_map(|effect| if let Effect::Wake(event) = effect { Some(*event) } else { None })
            .collect();
        for effect in all {
            match effect {
                Effect::Signal(event, notice) => {
                    if let Some(served) = descriptors.served(event) {
                        served.signal(woken.contains(&event));
                        descriptors.has_signalled(event, notice);
                    }
                }
                Effect::Trap(trap) => descriptors.trap(machine, trap),
                // To be woken comes last.
                Effect::Wake(_) | Effect::Watch(_) | Effect::Unwatch { .. } | Effect::RateLowered { .. } => {}
            }
        }
        wake(machine, descriptors, &woken);
    }
}

/// The events of one answer of the engine become ready.
fn wake<M: Answers>(machine: &mut M, descriptors: &mut impl Descriptors<M>, events: &[EventKey]) {
    // Events that share a ring take the readiness from each other: all are woken.
    let ready: Vec<PollFlags> = events.iter().map(|&event| machine.poll(event)).collect();
    let any = ready.iter().any(|ready| ready.contains(PollFlags::IN));
    for (&event, ready) in events.iter().zip(ready) {
        settle(machine, descriptors, event);
        let Some(served) = descriptors.served(event).filter(|_| any && !ready.is_over()) else { continue };
        let silent = served.asynchronous && !served.ready;
        if silent && !descriptors.becoming_ready(event) {
            continue;
        }
        let waits = descriptors.is_waited_for(event);
        descriptors.served(event).into_iter().for_each(|served| served.wake(waits));
    }
}

/// The pipe of an event hangs up if the event does, as far as a pipe can. To be called after what may change that.
pub fn settle<M: Answers>(machine: &M, descriptors: &mut impl Descriptors<M>, event: EventKey) {
    let Some(served) = descriptors.served(event) else { return };
    if !served.hangs_up(machine, event) {
        served.take_up();
    } else if served.write.is_some() {
        if served.asynchronous {
            descriptors.hanging_up(event);
        }
        descriptors.served(event).into_iter().for_each(Served::hang_up);
    }
}

#[cfg(test)]
mod tests {
    use super::{Descriptors, Served, carry_out, settle};
    use crate::machine::{Machine, Rights, Settings};
    use perfuse_abi::wire::{Layout, Writer};
    use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, Software};
    use perfuse_engine::{EventKey, Ioctl, MapRequest, OpenArguments, TaskId};
    use perfuse_sys::pipe;
    use perfuse_sys::poll::{Readiness, poll};
    use std::collections::BTreeMap;
    use std::os::fd::{AsFd, OwnedFd};
    use std::time::Duration;

    #[derive(Debug, Default)]
    struct Open {
        events: BTreeMap<EventKey, Served>,
        /// Those that hung up with `O_ASYNC`.
        silenced: Vec<EventKey>,
    }

    impl Descriptors for Open {
        fn served(&mut self, event: EventKey) -> Option<&mut Served> {
            self.events.get_mut(&event)
        }

        fn hanging_up(&mut self, event: EventKey) {
            self.silenced.push(event);
        }
    }

    /// An event that tells of each child of a task, with its pipe.
    fn opened(machine: &mut Machine, open: &mut Open, task: TaskId) -> (EventKey, OwnedFd) {
        let mut attr = Attr { config: Software::DUMMY.0, wakeup: 1, ..Attr::new(EventType::SOFTWARE) };
        attr.flags |= AttrFlags::TASK | AttrFlags::WATERMARK;
        let mut bytes = Vec::new();
        attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).expect("room");
        let arguments = OpenArguments::default();
        let event = machine.open(task, &mut bytes, arguments, None, Rights::OWN).expect("it can be opened");
        let (served, read) = Served::new(true).expect("a pipe");
        open.events.insert(event, served);
        settle(machine, open, event);
        (event, read)
    }

    fn ready(read: &OwnedFd) -> Readiness {
        poll(&[read.as_fd()], Some(Duration::ZERO)).expect("poll")[0]
    }

    const READABLE: Readiness = Readiness { readable: true, hangup: false, error: false };
    const HANGS_UP: Readiness = Readiness { readable: false, hangup: true, error: false };

    /// Rules G18, G24: a wake-up is for all that write to the ring, though readiness is told once for all of them.
    #[test]
    fn events_that_share_a_ring_are_ready_together() {
        let (mut machine, mut open) = (Machine::new(Settings::default()), Open::default());
        let task = machine.adopt_caller();
        let (first, read) = opened(&mut machine, &mut open, task);
        let (second, other) = opened(&mut machine, &mut open, task);
        machine.mmap(task, first, MapRequest::ring(1)).expect("a ring");
        machine.ioctl(task, second, Ioctl::SetOutput(Some(first))).expect("they measure the same task");
        [first, second].into_iter().for_each(|event| settle(&machine, &mut open, event));
        assert_eq!([&read, &other].map(ready), [Readiness::default(); 2]);
        machine.born(task, 1 << 29, 1 << 29);
        carry_out(&mut machine, &mut open);
        assert_eq!([&read, &other].map(ready), [READABLE; 2]);
        open.served(first).expect("it is open").acknowledge(read.as_fd());
        assert_eq!([&read, &other].map(ready), [Readiness::default(), READABLE]);
    }

    /// Rules G20, G24: each wake-up is told once, also one that comes while the byte of the last one lies in the pipe.
    #[test]
    fn a_wake_up_is_told_once() {
        let (mut served, read) = Served::new(true).expect("a pipe");
        served.keep(read.try_clone().expect("a descriptor"));
        let polls = |served: &mut Served| {
            served.before_wait(true);
            let ready = ready(&read).readable;
            served.after_wait();
            ready
        };
        assert!(!polls(&mut served));
        for _ in 0..3 {
            served.wake(Some(false));
            assert!(polls(&mut served));
        }
        assert!(!polls(&mut served));
        // One that sleeps in a wait is told by that wait.
        served.wake(Some(true));
        assert!(ready(&read).readable);
        assert!(!polls(&mut served));
        // Where it is not known whether one does, it is told once more rather than not at all.
        served.before_wait(true);
        served.wake(None);
        assert!(polls(&mut served) && !polls(&mut served));
    }

    /// Rule G26: a signal is no readiness, and takes none away.
    #[test]
    fn a_signal_is_no_readiness() {
        let (mut served, read) = Served::new(true).expect("a pipe");
        served.keep(read.try_clone().expect("a descriptor"));
        served.set_asynchronous(true);
        let mut told = [false, true, false].map(|wakes| {
            served.signal(wakes);
            ready(&read).readable
        });
        assert_eq!(told, [false, true, true]);
        served.before_wait(true);
        served.before_wait(true);
        told[0] = ready(&read).readable;
        assert!(!told[0]);
    }

    /// Rules G21, G23: without a ring it hangs up, with one no longer, and for good when what it measures has ended.
    #[test]
    fn a_pipe_hangs_up_as_its_event_does() {
        let (mut machine, mut open) = (Machine::new(Settings::default()), Open::default());
        let caller = machine.adopt_caller();
        let task = machine.born(caller, 1 << 29, 1 << 29);
        let (event, read) = opened(&mut machine, &mut open, task);
        let for_a_while = pipe::has_writing_ends(open.events[&event].number());
        assert_eq!(ready(&read), if for_a_while { HANGS_UP } else { Readiness::default() });
        machine.mmap(task, event, MapRequest::ring(1)).expect("a ring");
        settle(&machine, &mut open, event);
        assert_eq!(ready(&read), Readiness::default());
        machine.munmap(event);
        settle(&machine, &mut open, event);
        assert_eq!(ready(&read).hangup, for_a_while);
        machine.exit(task);
        carry_out(&mut machine, &mut open);
        settle(&machine, &mut open, event);
        assert_eq!(ready(&read), HANGS_UP);
        assert!(open.silenced.is_empty(), "it had no signals");
    }

    /// With `O_ASYNC` a hang-up is a signal: it comes only for good, and the front is told first.
    #[test]
    fn a_pipe_with_signals_stays_until_its_event_is_over() {
        let (mut machine, mut open) = (Machine::new(Settings::default()), Open::default());
        let caller = machine.adopt_caller();
        let task = machine.born(caller, 1 << 29, 1 << 29);
        let (event, read) = opened(&mut machine, &mut open, task);
        let served = open.served(event).expect("it is open");
        served.keep(read.try_clone().expect("a descriptor"));
        served.set_asynchronous(true);
        machine.set_async(event, true);
        settle(&machine, &mut open, event);
        assert_eq!(ready(&read), Readiness::default());
        machine.exit(task);
        carry_out(&mut machine, &mut open);
        settle(&machine, &mut open, event);
        assert_eq!((ready(&read), open.silenced), (HANGS_UP, vec![event]));
    }
}
