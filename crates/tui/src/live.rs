//! A profile that goes on: [`watch`] records, and hands over what came in each interval as a [`Window`].
//!
//! Three threads share the work. The caller's records into a socket ([`streamed`]). One reads the other end into a profile and closes
//! its windows by the clock, where a turn of the rings ends. One has the windows, and looks at them as long as it likes: meanwhile the next one grows, so that no
//! more than two are ever in memory. Where nothing comes from the rings, a record that says so keeps the windows going.

use perfuse_data::replay::{Lost, Replay};
use perfuse_data::tool::kind;
use perfuse_data::{PerfData, ReadOptions};
use perfuse_profile::{Plan, Profile, Reading};
use perfuse_record::{Beside, Ended, Error, Observer, Remark, Sums, Written, streamed};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

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
    let (sender, receiver) = channel();
    let (is_taken, has_seen_enough) = (Arc::new(AtomicBool::new(true)), AtomicBool::new(false));
    let windows = Windows { windows: receiver, is_taken: Arc::clone(&is_taken) };
    let handing = Handing { sender, is_taken };
    let mut watching = Watching { observer, has_seen_enough: &has_seen_enough };
    let (ended, consumed) = streamed(plan, Beside::default(), &mut watching, |stream| {
        // Only one thread can have them.
        let windows = windows;
        thread::scope(|scope| {
            let _ends = Ends(&has_seen_enough);
            scope.spawn(move || read(stream, collected, every, &handing));
            consumer(&windows)
        })
    });
    // Where nobody consumed, there is an error.
    Ok((ended?, consumed.ok_or(Error::Gone)?))
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
    let (mut begin, mut marks, mut lost, mut told) = (None, 0, Lost::default(), 0);
    let _ = handing.sender.send(None);
    let mut replay = Replay::new(data).joined();
    let passed: Result<(), Infallible> = replay.each(|step| {
        // Records that cannot be read are left out.
        let Ok(step) = step else { return Ok(()) };
        // A turn of the rings comes behind the mark of the next one: what has come up to a mark was there two turns before.
        let now = Instant::now();
        match (step.entry.kind(), begin) {
            // All that ran before was told.
            (kind::FINISHED_INIT, _) => (began, begin, marks) = (now, None, 0),
            (kind::FINISHED_ROUND, None) => {
                marks += 1;
                begin = (marks == 2).then_some(now);
            }
            (kind::FINISHED_ROUND, Some(since)) if now - since >= every && handing.may() => {
                let profile = reading.take(step.session);
                let lost = lost.total() - std::mem::replace(&mut told, lost.total());
                handing.hand(Window { profile, lost, begin: since - began, length: now - since });
                begin = Some(now);
            }
            _ => {}
        }
        lost.add(&step);
        reading.step(&step);
        Ok(())
    });
    let Ok(()) = passed;
    let profile = reading.finish(replay.session());
    let (lost, begin) = (lost.total() - told, begin.unwrap_or(began));
    if lost > 0 || profile.events().iter().any(|event| event.samples > 0) {
        handing.hand(Window { profile, lost, begin: begin - began, length: begin.elapsed() });
    }
}

/// Hears of the recording first, and ends it when the consumer has seen enough.
struct Watching<'a> {
    observer: &'a mut dyn Observer,
    has_seen_enough: &'a AtomicBool,
}

impl Observer for Watching<'_> {
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
        match self.has_seen_enough.load(SeqCst) {
            true => ControlFlow::Break(()),
            false => self.observer.progress(sums),
        }
    }

    fn due(&self) -> Option<Instant> {
        self.observer.due()
    }

    fn ends(&mut self, end: &Ended) {
        self.observer.ends(end);
    }

    fn wrote(&mut self, written: &Written) {
        self.observer.wrote(written);
    }
}
