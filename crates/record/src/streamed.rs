//! A recording that is read while it is made: [`streamed`] records into a socket, and a thread has the other end.
//!
//! Readers order records by the ends of rounds: what came is known to be complete when a round has ended after it. Where nothing
//! more comes from the rings, a record that says so lets readers go on ([`Beats`]).

use crate::texts::{Copies, TextReader, Texts};
use crate::{Ended, Error, Observer, Plan, Remark, Sink, StreamSink, Sums, Written};
use perfuse::abi::record::{Decoded, RecordFormat};
use perfuse_data::NewEvent;
use perfuse_data::feature::{BuildIdEntry, Feature};
use perfuse_data::tool::{Tool, ToolRecord};
use perfuse_sys::signal::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR2, Signals};
use perfuse_trace::{CallSet, Calls};
use std::cell::{Cell, RefCell};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Instant;

/// Who gets a recording besides the one who reads it.
#[derive(Default)]
pub struct Beside<'a> {
    /// Keeps the same records.
    pub sink: Option<&'a mut dyn Sink>,
    /// The one who reads goes before others on busy cpus, if it may, as the one who records does: where it is slower than what is
    /// recorded, records are lost.
    pub reader_goes_first: bool,
    /// The texts that these system calls of a table were given, where the first event is `raw_syscalls:sys_enter` of those
    /// [with texts](Calls::with_texts), and the first `raw_syscalls:sys_exit` of those [that give addresses back](Calls::with_peers), if
    /// there are such among them.
    pub texts: Option<(&'static Calls, Texts, CallSet)>,
}

/// Records by a plan, and hands the recording to `read`, in a thread of its own, while it is made; `beside` gets the same records. When `read` returns early, the recording goes on until it ends by itself.
///
/// A plan that [owns the process](Plan::owns_process) ends by SIGINT, SIGTERM and SIGHUP, and `read` finds the end of the stream:
/// these signals are blocked in the calling thread meanwhile, and in those that it starts.
///
/// # Errors
///
/// Those of [`record`](crate::record). What `read` returned until then is told, too.
pub fn streamed<R: Send>(
    plan: &Plan,
    beside: Beside<'_>,
    observer: &mut dyn Observer,
    read: impl FnOnce(UnixStream) -> R + Send,
) -> (Result<Ended, Error>, Option<R>) {
    let blocked = match block_signals(plan) {
        Ok(blocked) => blocked,
        Err(error) => return (Err(error), None),
    };
    let (writer, reader) = match UnixStream::pair() {
        Ok(pair) => pair,
        Err(error) => return (Err(Error::Io(error)), None),
    };
    thread::scope(|scope| {
        let goes_first = beside.reader_goes_first;
        let reading = scope.spawn(move || {
            if goes_first {
                // Of this thread alone.
                let _ = rustix::process::setpriority_process(None, -20);
            }
            read(reader)
        });
        let mut plan = plan.clone();
        let has_texts =
            |(table, _, wanted): &(&Calls, Texts, CallSet)| !wanted.within(&table.with_texts()).is_empty();
        let texts = beside.texts.filter(has_texts).map(|(table, texts, wanted)| {
            let gives_back = !wanted.within(&table.with_peers()).is_empty();
            let copies = Copies::prepare(&plan, wanted, table);
            // Memory has to be read at once.
            if let (None, Some(first)) = (&copies, plan.events.first_mut()) {
                first.prompt = true;
            }
            TextReader::new(&plan, table, texts, copies, gives_back)
        });
        let plan = &plan;
        let tee =
            RefCell::new(Tee { stream: StreamSink::new(writer), also: beside.sink, texts, is_gone: false });
        let is_idle = Cell::new(false);
        let mut sink = Shared { tee: &tee, is_idle: &is_idle };
        let mut beats =
            Beats { observer, tee: &tee, is_idle: &is_idle, plan, due: Instant::now() + plan.read_every };
        let ended = crate::record(plan, &mut sink, &mut beats, None);
        // Now the reader finds the end.
        drop(tee);
        // One that reads no more is ended by the next signal.
        drop(blocked);
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (ended, Some(read))
    })
}

/// Blocks the signals that end a recording, before any thread starts.
fn block_signals(plan: &Plan) -> Result<Option<Signals>, Error> {
    let signals = [SIGINT, SIGTERM, SIGHUP, SIGUSR2, SIGCHLD];
    let signals = plan.owns_process.then(|| Signals::collect(&signals)).transpose();
    signals.map_err(|errno| Error::Io(perfuse_sys::io_error(errno)))
}

/// The stream, and a sink that keeps the same.
struct Tee<'a> {
    stream: StreamSink<UnixStream>,
    also: Option<&'a mut dyn Sink>,
    texts: Option<TextReader>,
    /// Nobody reads the stream any more.
    is_gone: bool,
}

impl Tee<'_> {
    /// Does something to the stream, as long as somebody reads it. Where nothing else is kept, its end is the recording's.
    fn stream(&mut self, act: impl FnOnce(&mut StreamSink<UnixStream>) -> io::Result<()>) -> io::Result<()> {
        if self.is_gone {
            return Ok(());
        }
        match act(&mut self.stream) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self.also.is_some() => {
                self.is_gone = true;
                Ok(())
            }
            done => done,
        }
    }
}

struct Shared<'t, 'a> {
    tee: &'t RefCell<Tee<'a>>,
    is_idle: &'t Cell<bool>,
}

impl Sink for Shared<'_, '_> {
    fn begin(
        &mut self,
        events: &[NewEvent],
        features: Vec<Feature<'_>>,
        level: Option<i32>,
    ) -> Result<(), Error> {
        let Tee { stream, also, texts, .. } = &mut *self.tee.borrow_mut();
        if let Some(texts) = texts {
            texts.begin(events);
        }
        // A file has its features at the end.
        also.as_mut().map_or(Ok(()), |also| also.begin(events, Vec::new(), level))?;
        stream.begin(events, features, None)
    }

    fn records(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.is_idle.set(false);
        let mut tee = self.tee.borrow_mut();
        // First of all: the memory changes.
        if let Some(texts) = &mut tee.texts {
            texts.look(parts);
        }
        // Who reads has it also where it cannot be kept: a full disk does not take it away.
        let streamed = tee.stream(|stream| stream.records(parts));
        tee.also.as_mut().map_or(Ok(()), |also| also.records(parts))?;
        streamed
    }

    fn record(&mut self, record: &Decoded<'_>, format: &RecordFormat) -> io::Result<()> {
        let mut tee = self.tee.borrow_mut();
        tee.also.as_mut().map_or(Ok(()), |also| also.record(record, format))?;
        tee.stream(|stream| stream.record(record, format))
    }

    fn tool(&mut self, record: ToolRecord<'_>) -> io::Result<()> {
        self.is_idle.set(false);
        let mut tee = self.tee.borrow_mut();
        let streamed = tee.stream(|stream| stream.tool(record));
        tee.also.as_mut().map_or(Ok(()), |also| also.tool(record))?;
        streamed
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut tee = self.tee.borrow_mut();
        let streamed = tee.stream(StreamSink::flush);
        tee.also.as_mut().map_or(Ok(()), |also| also.flush())?;
        streamed
    }

    fn len(&self) -> u64 {
        let tee = self.tee.borrow();
        tee.also.as_ref().map_or_else(|| tee.stream.len(), |also| also.len())
    }

    fn complete(
        &mut self,
        features: Vec<Feature<'_>>,
        ids: &[BuildIdEntry<'_>],
        others_follow: bool,
    ) -> Result<Written, Error> {
        let Tee { stream, also, is_gone, .. } = &mut *self.tee.borrow_mut();
        let kept = also.as_mut().map(|also| also.complete(features, ids, others_follow)).transpose()?;
        let streamed = match is_gone {
            true => Ok(Written::default()),
            false => stream.complete(Vec::new(), ids, others_follow),
        };
        match (kept, streamed) {
            (Some(kept), _) => Ok(kept),
            (None, streamed) => streamed,
        }
    }

    fn fail(&mut self, error: io::Error) -> Error {
        let Tee { stream, also, .. } = &mut *self.tee.borrow_mut();
        match also {
            Some(also) => also.fail(error),
            None => stream.fail(error),
        }
    }

    fn undo(&mut self) {
        if let Some(also) = &mut self.tee.borrow_mut().also {
            also.undo();
        }
    }
}

/// Hears of the recording first, and tells readers when nothing comes.
struct Beats<'t, 'a> {
    observer: &'t mut dyn Observer,
    tee: &'t RefCell<Tee<'a>>,
    is_idle: &'t Cell<bool>,
    plan: &'t Plan,
    due: Instant,
}

impl Observer for Beats<'_, '_> {
    fn begins(&mut self, plan: &Plan, command: Option<u32>) {
        self.tee.borrow_mut().texts.iter_mut().for_each(|texts| texts.follow(plan, command));
        self.observer.begins(plan, command);
    }

    fn remark(&mut self, remark: &Remark) {
        self.observer.remark(remark);
    }

    fn detail(&mut self, text: &str) {
        self.observer.detail(text);
    }

    fn progress(&mut self, sums: Sums) -> ControlFlow<()> {
        let now = Instant::now();
        if now >= self.due {
            self.due = now + self.plan.read_every;
            // All rings were empty since the last beat: whatever comes now is younger than all that was told.
            if self.is_idle.replace(true) {
                let mut tee = self.tee.borrow_mut();
                // An error comes again with the next record, and ends the recording.
                let _ = tee.stream(|stream| {
                    stream.tool(Tool::FinishedRound.into())?;
                    stream.flush()
                });
            }
        }
        self.observer.progress(sums)
    }

    fn due(&self) -> Option<Instant> {
        [Some(self.due), self.observer.due()].into_iter().flatten().min()
    }

    fn ends(&mut self, end: &Ended) {
        self.observer.ends(end);
    }

    fn wrote(&mut self, written: &Written) {
        self.observer.wrote(written);
    }
}
