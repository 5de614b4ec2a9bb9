//! What BPF programs send to their user, one message after the other: by `perf_event_output` into a perf event array, or by
//! `ringbuf_output` and `ringbuf_submit` into a ring buffer.
//!
//! ```no_run
//! use perfuse::{Programs, bpf::{MapKind, MapSpec, assemble}};
//! use std::time::Duration;
//!
//! // Sends the process of each exec.
//! let send = assemble("
//!     r6 = r1
//!     call get_current_pid_tgid
//!     *(u64 *)(r10 -8) = r0
//!     r1 = r6
//!     r2 = map[idx:0]
//!     r3 = 0xffffffff ll
//!     r4 = r10
//!     r4 += -8
//!     r5 = 8
//!     call perf_event_output
//!     r0 = 0
//!     exit")?;
//! let mut programs = Programs::new(&[MapSpec::new(MapKind::PerfEventArray, 4, 4, 64)])?;
//! let mut messages = programs.messages(0, 16)?;
//! programs.at_raw_tracepoint("sched_process_exec", &send)?;
//! loop {
//!     messages.wait(Some(Duration::from_secs(1)))?;
//!     messages.take(|message| println!("{:?} on cpu {:?}", message.data, message.cpu));
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::builder::Builder;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::sampler::{RingOptions, Wait};
use crate::sampler_set::{SamplerSet, SetBatch};
use crate::scope::Scope;
use perfuse_abi::record::Record;
use perfuse_abi::{SampleType, Software};
use perfuse_sys::bpf::Map;
use perfuse_sys::{Errno, Mapping, Protection, page_size};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

/// A message of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message<'m> {
    /// The bytes that the program sent; by an event array with zeros behind them, so that four bytes before them and all together
    /// are a multiple of eight.
    pub data: &'m [u8],
    /// The cpu that it ran on; a ring buffer does not tell.
    pub cpu: Option<u32>,
    /// When it was sent, in nanoseconds of the scheduler's clock; a ring buffer does not tell.
    pub time_ns: Option<u64>,
}

/// Reads the messages of a map: see [`Programs::messages`](crate::Programs::messages).
#[derive(Debug)]
#[must_use = "messages are handed out by `take`"]
pub struct Messages {
    way: Way,
    lost: u64,
}

#[derive(Debug)]
enum Way {
    /// An event of each cpu, which the array has at the cpu's number.
    Events(SamplerSet),
    Ring(RingBuffer),
}

impl Messages {
    /// Those of a perf event array: opens a `bpf-output` event on each cpu, with a ring of so many pages, and puts it in.
    pub(crate) fn of_event_array(map: &Map, pages: usize) -> Result<Self, Errno> {
        // A sample for each message, and a wake-up.
        let event = Builder::new(Software::BPF_OUTPUT).period(1).with(|attr| attr.wakeup = 1);
        let event = event.sample(SampleType::RAW | SampleType::TIME | SampleType::CPU);
        let options = RingOptions { pages, ..RingOptions::default() };
        let mut set =
            SamplerSet::open(&Scope::system(), &[event.into()], options).map_err(|error| error.errno())?;
        set.enable().map_err(|error| error.errno())?;
        for source in set.sources() {
            let descriptor = source.counter().as_fd().as_raw_fd();
            map.update(&source.cpu.unwrap_or(0).to_ne_bytes(), &descriptor.to_ne_bytes(), 0)?;
        }
        Ok(Messages { way: Way::Events(set), lost: 0 })
    }

    /// Those of a ring buffer of so many bytes.
    pub(crate) fn of_ring(map: &Map, bytes: u32) -> Result<Self, Errno> {
        Ok(Messages { way: Way::Ring(RingBuffer::map(map, bytes as usize)?), lost: 0 })
    }

    /// Waits until there are messages ([`Wait::Records`]), or the time is over.
    ///
    /// # Errors
    ///
    /// Those of `poll(2)`.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Wait> {
        match &self.way {
            Way::Events(set) if set.has_early() => Ok(Wait::Records),
            Way::Events(set) => set.wait(&[], timeout),
            Way::Ring(ring) => ring.wait(timeout),
        }
    }

    /// Hands out the messages that are there, and returns how many they were. Those of an event array come in the order of time over all
    /// cpus, and those that an older one may still follow wait for the next call; those of a ring buffer come in the order in
    /// which programs reserved their room.
    pub fn take(&mut self, each: impl FnMut(Message<'_>)) -> usize {
        let Messages { way, lost } = self;
        match way {
            Way::Events(set) => of_records(set.settled(), lost, each),
            Way::Ring(ring) => ring.take(each),
        }
    }

    /// The same of all that are there: the last ones, once the programs are [detached](crate::Programs::detach).
    pub fn rest(&mut self, each: impl FnMut(Message<'_>)) -> usize {
        let Messages { way, lost } = self;
        match way {
            Way::Events(set) => of_records(set.records(), lost, each),
            Way::Ring(ring) => ring.take(each),
        }
    }

    /// How many messages found no room in an event array's rings, as far as [`take`](Self::take) has read. A ring buffer counts none: there
    /// `ringbuf_output` tells the program, by `-EAGAIN`.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl AsFd for Messages {
    /// Readable when there are messages: for poll, epoll and async runtimes. Call [`wait`](Messages::wait) with no time to wait before
    /// [`take`](Messages::take): it acknowledges.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.way {
            Way::Events(set) => set.as_fd(),
            Way::Ring(ring) => ring.descriptor.as_fd(),
        }
    }
}

fn of_records(mut records: SetBatch<'_>, lost: &mut u64, mut each: impl FnMut(Message<'_>)) -> usize {
    let mut count = 0;
    for record in records.iter() {
        match record.decode().map(|decoded| decoded.record) {
            Ok(Record::Sample(sample)) => {
                let data = sample.raw.as_ref().map_or(&[][..], |raw| raw.as_bytes());
                let cpu = sample.cpu.map(|cpu| cpu.cpu);
                each(Message { data, cpu, time_ns: sample.time });
                count += 1;
            }
            Ok(Record::Lost(told)) => *lost += told.lost,
            _ => {}
        }
    }
    count
}

/// A `BPF_MAP_TYPE_RINGBUF` map: a page with the reader's position, one with the writer's, and the records behind it, mapped twice in a
/// row so that none is torn. A record is a word of length and place, and its bytes.
#[derive(Debug)]
struct RingBuffer {
    descriptor: OwnedFd,
    reader: Mapping,
    records: Mapping,
    bytes: usize,
    /// The message that is handed out.
    message: Vec<u8>,
}

/// The bits of a length: the program has not sent it yet; it has changed its mind.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

impl RingBuffer {
    fn map(map: &Map, bytes: usize) -> Result<Self, Errno> {
        let (descriptor, page) = (map.as_fd(), page_size());
        let reader = Mapping::new(descriptor, page, Protection::ReadWrite, 0)?;
        let records = Mapping::new(descriptor, page + 2 * bytes, Protection::Read, page as u64)?;
        let descriptor = descriptor.try_clone_to_owned().map_err(|_| Errno::EMFILE)?;
        Ok(RingBuffer { descriptor, reader, records, bytes, message: Vec::new() })
    }

    fn has_records(&self) -> bool {
        self.reader.load_u64(0, Acquire) != self.records.load_u64(0, Acquire)
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<Wait> {
        match perfuse_sys::poll::poll(&[self.descriptor.as_fd()], timeout) {
            _ if self.has_records() => Ok(Wait::Records),
            Ok(_) => Ok(Wait::TimedOut),
            Err(Errno::EINTR) => Ok(Wait::Interrupted),
            Err(errno) => Err(Error::new(Call::Poll, errno)),
        }
    }

    fn take(&mut self, mut each: impl FnMut(Message<'_>)) -> usize {
        let (mut at, mut count) = (self.reader.load_u64(0, Acquire), 0);
        while at != self.records.load_u64(0, Acquire) {
            let place = page_size() + (at as usize & (self.bytes - 1));
            let length = self.records.load_u32(place, Acquire);
            let len = (length & !(BUSY | DISCARDED)) as usize;
            if length & BUSY != 0 || len + 8 > self.bytes {
                break;
            }
            if length & DISCARDED == 0 {
                self.message.clear();
                for word in (place + 8..place + 8 + len).step_by(8) {
                    self.message.extend(self.records.load_u64(word, Acquire).to_ne_bytes());
                }
                self.message.truncate(len);
                each(Message { data: &self.message, cpu: None, time_ns: None });
                count += 1;
            }
            at += (len as u64 + 8).next_multiple_of(8);
            self.reader.store_u64(0, at, Release);
        }
        count
    }
}
