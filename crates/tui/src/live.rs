//! A profile that goes on: [`watch`] records, and hands over what came in each interval as a [`Window`].
//!
//! Three threads share the work. The caller's records into a socket ([`streamed`]). One reads the other end into a profile and closes
//! its windows by the times of the samples ([`Bounds`]). One has the windows, and looks at them as long as it likes: meanwhile the
//! next one grows, so that no more than two are ever in memory. Where nothing comes from the rings, a record that says so keeps the
//! windows going.

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
    /// When it began, since the recording did, by the clock of the samples.
    pub begin: Duration,
    /// How long it is: an interval, or more where somebody looked at the one before for longer, or where samples ceased to come.
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
    let (mut bounds, mut lost, mut told) = (Bounds::new(every, Instant::now()), Lost::default(), 0);
    let _ = handing.sender.send(None);
    let mut replay = Replay::new(data).joined();
    let passed: Result<(), Infallible> = replay.each(|step| {
        // Records that cannot be read are left out.
        let Ok(step) = step else { return Ok(()) };
        let sampled = step.sample().and_then(|sample| sample.time);
        match step.entry.kind() {
            // All that ran before was told.
            kind::FINISHED_INIT => bounds = Bounds::new(every, Instant::now()),
            kind::FINISHED_ROUND => bounds.turn(Instant::now()),
            _ => {}
        }
        let at = sampled.map_or(bounds.last, |time| bounds.sampled(time));
        if let Some((begin, length)) = bounds.pass(at, || handing.may()) {
            let profile = reading.take(step.session);
            let lost = lost.total() - std::mem::replace(&mut told, lost.total());
            handing.hand(Window { profile, lost, begin, length });
        }
        lost.add(&step);
        reading.step(&step);
        Ok(())
    });
    let Ok(()) = passed;
    let profile = reading.finish(replay.session());
    let lost = lost.total() - told;
    if lost > 0 || profile.events().iter().any(|event| event.samples > 0) {
        let (begin, length) = bounds.close(bounds.last);
        handing.hand(Window { profile, lost, begin, length });
    }
}

/// Turns of the rings without a sample after which none is on its way: samples come two turns after they were taken.
const QUIET_TURNS: u32 = 3;

/// Where a window ends: before the first sample that was taken an interval after the window's begin. Samples come later than they
/// were taken, many at once, and those of the first moments all together: when they come says nothing. Only where none
/// come, the reader's clock goes on in place of theirs. Times are counted since the recording began.
#[derive(Debug)]
struct Bounds {
    every: Duration,
    /// When the window began.
    begin: Duration,
    /// When the last sample was taken, or, where none come, now.
    last: Duration,
    /// Of the first sample: the time it bears, and when that was.
    first: Option<(u64, Duration)>,
    /// The reader's clock at the turn that brought the last sample, and at the last turn.
    heard: Instant,
    turned: Instant,
    /// Turns since then.
    quiet: u32,
}

impl Bounds {
    fn new(every: Duration, now: Instant) -> Bounds {
        let zero = Duration::ZERO;
        Bounds { every, begin: zero, last: zero, first: None, heard: now, turned: now, quiet: 0 }
    }

    /// A turn of the rings has ended.
    fn turn(&mut self, now: Instant) {
        (self.turned, self.quiet) = (now, self.quiet + 1);
        if self.quiet > QUIET_TURNS {
            self.last += now - self.heard;
            self.heard = now;
        }
    }

    /// When a sample was taken that bears a time.
    fn sampled(&mut self, time: u64) -> Duration {
        let (first, at) = *self.first.get_or_insert((time, self.last));
        (self.heard, self.quiet) = (self.turned, 0);
        self.last.max(at + Duration::from_nanos(time.saturating_sub(first)))
    }

    /// A moment comes, and before it the window ends, if it is long enough and may: its begin, and its length.
    fn pass(&mut self, at: Duration, may: impl FnOnce() -> bool) -> Option<(Duration, Duration)> {
        let end = self.last.max(self.begin + self.every).min(at);
        self.last = at;
        (at >= self.begin + self.every && may()).then(|| self.close(end))
    }

    /// Ends the window: its begin, and its length. The next one begins there.
    fn close(&mut self, end: Duration) -> (Duration, Duration) {
        let begin = std::mem::replace(&mut self.begin, end);
        (begin, end.saturating_sub(begin))
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Windows of an interval of 100 ms: turns of the rings at so many ms, each with the times of the samples that come behind
    /// it. Each window by its begin, its length and how many samples it has.
    fn windows(turns: &[(u64, &[u64])], may: impl Fn(u64) -> bool) -> Vec<(u64, u64, usize)> {
        let zero = Instant::now();
        let mut bounds = Bounds::new(Duration::from_millis(100), zero);
        let (mut closed, mut samples) = (Vec::new(), 0);
        let mut close = |bounds: &mut Bounds, at, now, samples: &mut usize| {
            if let Some((begin, length)) = bounds.pass(at, || may(now)) {
                let ms = |time: Duration| u64::try_from(time.as_millis()).expect("moments");
                closed.push((ms(begin), ms(length), std::mem::take(samples)));
            }
        };
        for &(now, times) in turns {
            bounds.turn(zero + Duration::from_millis(now));
            let last = bounds.last;
            close(&mut bounds, last, now, &mut samples);
            for time in times {
                let at = bounds.sampled(5000 * MS + time * MS);
                close(&mut bounds, at, now, &mut samples);
                samples += 1;
            }
        }
        closed
    }

    #[test]
    fn windows_end_by_the_times_of_samples() {
        // Half a second comes at once, and the rest behind it.
        let backlog: Vec<u64> = (0..50).map(|i| i * 10).collect();
        let rest: Vec<u64> = (50..62).map(|i| i * 10).collect();
        let turns: [(u64, &[u64]); 3] = [(10, &[]), (600, &backlog), (700, &rest)];
        let five: Vec<_> = (0..6).map(|i| (i * 100, 100, 10)).collect();
        assert_eq!(windows(&turns, |_| true), five);
        // Nobody took the first before the last came: the window reaches to its last sample.
        let all = windows(&turns, |now| now == 700);
        assert_eq!(all, [(0, 490, 50), (490, 100, 9)]);
    }

    #[test]
    fn windows_end_by_the_clock_where_no_samples_come() {
        let turns: Vec<(u64, &[u64])> = (1..=9).map(|turn| (turn * 50, &[][..])).collect();
        assert_eq!(windows(&turns, |_| true), [(0, 200, 0), (200, 100, 0), (300, 100, 0)]);
        // Some come, then none, then some again, which bear times before the last end.
        let some: [u64; 3] = [0, 10, 20];
        let mut turns: Vec<(u64, &[u64])> = vec![(50, &some)];
        turns.extend((2..=5).map(|turn| (turn * 50, &[][..])));
        turns.extend([(300, &[230, 260][..]), (350, &[310, 390][..])]);
        assert_eq!(windows(&turns, |_| true), [(0, 220, 3), (220, 100, 3)]);
    }
}
