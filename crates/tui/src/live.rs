//! A profile that goes on: [`watch`] records, and hands over what came in each interval as a [`Window`].
//!
//! Three threads share the work. The caller's records into a socket. One reads the other end into a profile and closes its
//! windows by the clock. One has the windows, and looks at them as long as it likes: meanwhile the next one grows, so that no
//! more than two are ever in memory. Where nothing comes from the rings, a record that says so keeps the windows going.

use perfuse_data::feature::{BuildIdEntry, Feature};
use perfuse_data::replay::{Lost, Replay};
use perfuse_data::tool::{Tool, ToolRecord, kind};
use perfuse_data::{NewEvent, PerfData, ReadOptions};
use perfuse_profile::{Plan, Profile, Reading};
use perfuse_record::{Ended, Error, Observer, Remark, Sink, StreamSink, Sums, Written};
use perfuse_sys::signal::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR2, Signals};
use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often a recording that has nothing to tell says so.
const BEAT: Duration = Duration::from_millis(100);

/// The part of a recording that came in an interval.
#[derive(Debug)]
#[non_exhaustive]
pub struct Window {
    /// Its samples.
    pub profile: Profile,
    /// Records that were lost in it.
    pub lost: u64,
    /// When it began, since the recording did.
    pub begin: Duration,
    /// How long it is: an interval, or more where somebody looked at the one before for longer.
    pub length: Duration,
}

/// The windows of a recording, one after the other.
#[derive(Debug)]
pub struct Windows {
    windows: Receiver<Option<Window>>,
    is_taken: Arc<AtomicBool>,
}

/// An answer to somebody who waits for the next window.
#[derive(Debug)]
#[non_exhaustive]
pub enum Next {
    /// Here it is.
    Window(Box<Window>),
    /// It is not there yet.
    NotYet,
    /// The recording is over, and all windows were taken.
    Over,
}

impl Windows {
    /// Waits until the recording has begun. `false`: it has not, and will not.
    pub fn begin(&self) -> bool {
        self.windows.recv().is_ok()
    }

    /// The next window, which is waited for so long.
    pub fn next(&self, timeout: Duration) -> Next {
        match self.windows.recv_timeout(timeout) {
            Ok(Some(window)) => {
                self.is_taken.store(true, SeqCst);
                Next::Window(Box::new(window))
            }
            Ok(None) | Err(RecvTimeoutError::Timeout) => Next::NotYet,
            Err(RecvTimeoutError::Disconnected) => Next::Over,
        }
    }

    /// The next window, however long it takes; `None` when the recording is over.
    pub fn wait(&self) -> Option<Window> {
        let window = self.windows.iter().flatten().next();
        self.is_taken.store(true, SeqCst);
        window
    }
}

/// Records by a plan, and collects a profile of each interval `every`; the consumer gets them, in a thread of its own. When he
/// has seen enough and returns, the recording ends, and so does its command. The recording goes nowhere else: memory is that of
/// two windows, and of the processes and mappings that the recording tells of.
///
/// A plan that [owns the process](perfuse_record::Plan::owns_process) ends by SIGINT, SIGTERM and SIGHUP, and the consumer hears
/// that it is over: these signals are blocked in the calling thread meanwhile, and in those that it starts.
///
/// # Errors
///
/// Those of [`perfuse_record::record`].
pub fn watch<R: Send>(
    plan: &perfuse_record::Plan,
    collected: &Plan,
    every: Duration,
    observer: &mut dyn Observer,
    consumer: impl FnOnce(&Windows) -> R + Send,
) -> Result<(Ended, R), Error> {
    let signals = [SIGINT, SIGTERM, SIGHUP, SIGUSR2, SIGCHLD];
    let signals = plan.owns_process.then(|| Signals::collect(&signals)).transpose();
    let blocked = signals.map_err(|errno| Error::Io(perfuse_sys::io_error(errno)))?;
    let (writer, reader) = UnixStream::pair().map_err(Error::Io)?;
    let (sender, receiver) = channel();
    let (is_taken, has_seen_enough) = (Arc::new(AtomicBool::new(true)), AtomicBool::new(false));
    let windows = Windows { windows: receiver, is_taken: Arc::clone(&is_taken) };
    thread::scope(|scope| {
        let handing = Handing { sender, is_taken };
        scope.spawn(move || read(reader, collected, every, &handing));
        let ends = Ends(&has_seen_enough);
        let consuming = scope.spawn(move || {
            let _ends = ends;
            consumer(&windows)
        });
        let stream = Rc::new(RefCell::new(StreamSink::new(writer)));
        let (mut sink, now) = (Live { stream: Rc::clone(&stream), is_idle: Rc::default() }, Instant::now());
        let is_idle = Rc::clone(&sink.is_idle);
        let mut beats =
            Beats { observer, stream, is_idle, due: now + BEAT, has_seen_enough: &has_seen_enough };
        let ended = perfuse_record::record(plan, &mut sink, &mut beats, None);
        // Now the reader finds the end.
        drop((sink, beats));
        // A consumer whose reader reads no more is ended by the next signal.
        drop(blocked);
        let consumed = consuming.join();
        Ok((ended?, consumed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
    })
}

/// Tells when it is dropped, also by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Hands windows over, one at a time.
struct Handing {
    sender: Sender<Option<Window>>,
    is_taken: Arc<AtomicBool>,
}

impl Handing {
    fn may(&self) -> bool {
        self.is_taken.load(SeqCst)
    }

    fn hand(&self, window: Window) {
        self.is_taken.store(false, SeqCst);
        // A consumer who has seen enough takes none.
        let _ = self.sender.send(Some(window));
    }
}

/// Reads a recording while it is made.
fn read(stream: UnixStream, collected: &Plan, every: Duration, handing: &Handing) {
    // A recording that never began has no windows; the recorder tells the reason.
    let Ok(data) = PerfData::from_reader(stream, ReadOptions::default()) else { return };
    let mut reading = Reading::new(collected.clone());
    let mut began = Instant::now();
    let (mut begin, mut lost, mut told) = (began, Lost::default(), 0);
    let _ = handing.sender.send(None);
    let mut replay = Replay::new(data).joined();
    let passed: Result<(), Infallible> = replay.each(|step| {
        // Records that cannot be read are left out.
        let Ok(step) = step else { return Ok(()) };
        let now = Instant::now();
        if step.entry.kind() == kind::FINISHED_INIT {
            // All that ran before was told.
            (began, begin) = (now, now);
        }
        if now - begin >= every && handing.may() {
            let profile = reading.take(step.session);
            let lost = lost.total() - std::mem::replace(&mut told, lost.total());
            handing.hand(Window { profile, lost, begin: begin - began, length: now - begin });
            begin = now;
        }
        lost.add(&step);
        reading.step(&step);
        Ok(())
    });
    let Ok(()) = passed;
    let profile = reading.finish(replay.session());
    let lost = lost.total() - told;
    if lost > 0 || profile.events().iter().any(|event| event.samples > 0) {
        handing.hand(Window { profile, lost, begin: begin - began, length: begin.elapsed() });
    }
}

/// Writes the recording, and remembers whether anything came.
struct Live {
    stream: Rc<RefCell<StreamSink<UnixStream>>>,
    is_idle: Rc<RefCell<bool>>,
}

impl Sink for Live {
    fn begin(
        &mut self,
        events: &[NewEvent],
        features: Vec<Feature<'_>>,
        level: Option<i32>,
    ) -> Result<(), Error> {
        self.stream.borrow_mut().begin(events, features, level)
    }

    fn records(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        *self.is_idle.borrow_mut() = false;
        self.stream.borrow_mut().records(parts)
    }

    fn tool(&mut self, record: ToolRecord<'_>) -> io::Result<()> {
        *self.is_idle.borrow_mut() = false;
        self.stream.borrow_mut().tool(record)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.borrow_mut().flush()
    }

    fn len(&self) -> u64 {
        self.stream.borrow().len()
    }

    fn complete(
        &mut self,
        features: Vec<Feature<'_>>,
        ids: &[BuildIdEntry<'_>],
        others_follow: bool,
    ) -> Result<Written, Error> {
        self.stream.borrow_mut().complete(features, ids, others_follow)
    }

    fn fail(&mut self, error: io::Error) -> Error {
        self.stream.borrow_mut().fail(error)
    }
}

/// Hears of the recording first: ends it when the consumer has seen enough, and keeps windows going where nothing comes.
struct Beats<'a> {
    observer: &'a mut dyn Observer,
    stream: Rc<RefCell<StreamSink<UnixStream>>>,
    is_idle: Rc<RefCell<bool>>,
    due: Instant,
    has_seen_enough: &'a AtomicBool,
}

impl Observer for Beats<'_> {
    fn begins(&mut self, plan: &perfuse_record::Plan, command: Option<u32>) {
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
            self.due = now + BEAT;
            // All rings were empty since the last beat: whatever comes now is younger than all that was told.
            if self.is_idle.replace(true) {
                let mut stream = self.stream.borrow_mut();
                // An error comes again with the next record, and ends the recording.
                let _ = stream.tool(Tool::FinishedRound.into()).and_then(|()| stream.flush());
            }
        }
        match self.has_seen_enough.load(SeqCst) {
            true => ControlFlow::Break(()),
            false => self.observer.progress(sums),
        }
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
