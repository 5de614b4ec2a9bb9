//! The loop of a measurement, the same for counting, recording and comparing: its time passes until the command or all that
//! is measured has ended, a signal or an order says so, or the time is over.

use crate::call::Call;
use crate::command::RunningCommand;
use crate::control::{Control, Order, Start};
use crate::error::{Error, Result};
use crate::kernel::Surroundings;
use crate::perf::Perf;
use perfuse_sys::Errno;
use perfuse_sys::poll::poll;
use perfuse_sys::process::Usage;
use perfuse_sys::signal::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, Signals};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The caller's work while the time of a measurement passes: he reads counters, or empties rings.
pub trait Work {
    /// Why it goes no further.
    type Error: From<Error>;

    /// Starts all events: the delay is over, or an order says so.
    #[expect(clippy::missing_errors_doc, reason = "the work's own")]
    fn enable(&mut self) -> Result<(), Self::Error>;

    /// Stops all events: an order says so.
    #[expect(clippy::missing_errors_doc, reason = "the work's own")]
    fn disable(&mut self) -> Result<(), Self::Error>;

    /// Takes what has come until now. Asked before each look at whether it is over, so once more after the end of what is
    /// measured. `Break` ends the measurement, and the command; `is_ending`: that has been done.
    #[expect(clippy::missing_errors_doc, reason = "the work's own")]
    fn take(&mut self, now: Instant, is_ending: bool) -> Result<ControlFlow<()>, Self::Error> {
        let _ = (now, is_ending);
        Ok(ControlFlow::Continue(()))
    }

    /// The same, where it goes on.
    #[expect(clippy::missing_errors_doc, reason = "the work's own")]
    fn go_on(&mut self, now: Instant, is_ending: bool) -> Result<ControlFlow<()>, Self::Error> {
        let _ = (now, is_ending);
        Ok(ControlFlow::Continue(()))
    }

    /// When it has something to do next at the latest.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Waits for what it measures, one of `others`, or the end of the time. `true`: all that is measured has ended.
    #[expect(clippy::missing_errors_doc, reason = "the work's own")]
    fn wait(
        &mut self,
        surroundings: &dyn Surroundings,
        others: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<bool, Self::Error> {
        wait(surroundings, others, timeout)?;
        Ok(false)
    }

    /// Carries out an order other than to start and stop all events, to end, and to answer. Whether it is answered.
    #[expect(clippy::missing_errors_doc, reason = "the work's own")]
    fn obey(&mut self, order: Order) -> Result<bool, Self::Error> {
        let _ = order;
        Ok(false)
    }

    /// A signal has come that is no wish to end.
    fn signal(&mut self, signal: i32) {
        let _ = signal;
    }
}

/// Waits until one of these is ready, or the time is over, or a signal comes.
///
/// # Errors
///
/// `poll(2)` fails.
pub fn wait(
    surroundings: &dyn Surroundings,
    others: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
) -> Result<()> {
    match surroundings.poll(others, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(Error::new(Call::Poll, errno)),
    }
}

/// Commands that only run.
impl Work for () {
    type Error = Error;

    fn enable(&mut self) -> Result<()> {
        Ok(())
    }

    fn disable(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Steers one or several runs of a measurement from outside, by signals and orders.
#[derive(Debug, Default)]
pub struct Measurement {
    kernel: Perf,
    signals: Option<Signals>,
    control: Option<Control>,
    /// How often somebody wanted it to end by a signal.
    asked_to_end: u32,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The command that runs meanwhile: with its end the run ends.
    pub command: Option<&'a RunningCommand>,
    /// Without a command: the run ends when none of these is left.
    pub lasts: Lasts<'a>,
    /// When it began; delays and limits count from here.
    pub began: Instant,
    /// When events are started.
    pub start: Start,
    /// It ends after so long.
    pub timeout: Option<Duration>,
}

impl<'a> Run<'a> {
    /// As long as a command runs.
    pub fn of(command: &'a RunningCommand) -> Self {
        let (began, start) = (Instant::now(), Start::AtOnce);
        Run { command: Some(command), lasts: Lasts::Forever, began, start, timeout: None }
    }
}

/// How long a run lasts that has no command.
#[derive(Clone, Copy, Debug)]
pub enum Lasts<'a> {
    /// Until something else ends it.
    Forever,
    /// As long as one of these processes exists.
    Processes(&'a [u32]),
    /// As long as one of these threads exists.
    Threads(&'a [u32]),
}

impl Lasts<'_> {
    fn is_over(&self, surroundings: &dyn Surroundings) -> bool {
        let is_alive = |tid| surroundings.is_alive(tid);
        let lives = |&pid: &u32| surroundings.threads(pid).unwrap_or_default().into_iter().any(is_alive);
        match self {
            Lasts::Forever => false,
            Lasts::Processes(pids) => !pids.iter().any(lives),
            Lasts::Threads(tids) => !tids.iter().copied().any(is_alive),
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct End {
    /// How the command ended and what it used; `None` without one, and where it did not heed three signals.
    pub command: Option<(ExitStatus, Usage)>,
    /// The command was ended from here: by an order, a limit, or the work.
    pub was_stopped: bool,
}

/// How often it is looked whether something still exists that tells nobody of its end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long it may take until a process that has ended can be waited for.
const SOON: Duration = Duration::from_millis(1);

impl Measurement {
    /// One of Linux, that is steered by nothing.
    pub fn new() -> Self {
        Measurement::default()
    }

    /// One of this kernel, by whose [time](Surroundings::now) it goes.
    pub fn of(kernel: &Perf) -> Self {
        Measurement { kernel: kernel.clone(), ..Measurement::default() }
    }

    /// Takes orders from a control channel.
    #[must_use]
    pub fn with_control(mut self, control: Option<Control>) -> Self {
        self.control = control;
        self
    }

    /// Ends by SIGINT, SIGTERM and SIGHUP, which the command gets too, and tells the work of `others`.
    ///
    /// # Changes to this process
    ///
    /// Until this value is dropped these signals and SIGCHLD are blocked in the calling thread and in threads that it
    /// starts meanwhile: for programs of one thread. Others leave this away, and end by the work or an order.
    ///
    /// # Errors
    ///
    /// Descriptors have run out.
    pub fn with_signals(mut self, others: &[i32]) -> Result<Self> {
        let all = [&[SIGINT, SIGTERM, SIGHUP, SIGCHLD], others].concat();
        let signals = Signals::collect(&all).map_err(|errno| Error::new(Call::Signals, errno))?;
        self.signals = Some(signals);
        Ok(self)
    }

    /// Whether a signal wanted it to end: during a run, or since.
    pub fn is_to_end(&mut self) -> bool {
        while let Some(received) = self.signals.as_ref().and_then(Signals::next) {
            self.asked_to_end += u32::from(is_wish_to_end(received.signal));
        }
        self.asked_to_end > 0
    }

    /// Lets the time of a run pass. A command is ended where that fails.
    ///
    /// # Errors
    ///
    /// Waiting fails, or the work does.
    pub fn pass<W: Work>(&mut self, run: &Run<'_>, work: &mut W) -> Result<End, W::Error> {
        let passed = self.turns(run, work);
        if passed.is_err() {
            // Nobody waits for it any longer.
            run.command.iter().for_each(|command| command.end());
        }
        passed
    }

    fn turns<W: Work>(&mut self, run: &Run<'_>, work: &mut W) -> Result<End, W::Error> {
        let mut enable_at = match run.start {
            Start::After(delay) => Some(run.began + delay),
            Start::AtOnce | Start::WhenTold => None,
        };
        // The time that is asked for is that of measuring.
        let mut end_at = run.timeout.map(|timeout| enable_at.unwrap_or(run.began) + timeout);
        let mut look_at = run.began;
        let ending = run.command.and_then(RunningCommand::ending);
        let mut end = End::default();
        let mut is_over = false;
        let kernel = self.kernel.clone();
        let surroundings = kernel.surroundings();
        loop {
            let now = surroundings.now();
            if enable_at.is_some_and(|at| now >= at) {
                work.enable()?;
                enable_at = None;
            }
            let taken = work.take(now, end.was_stopped)?;
            end.stop_if(taken.is_break(), run);
            if end_at.is_some_and(|at| now >= at) {
                end.stop_if(true, run);
                end_at = None;
            }
            match run.command {
                Some(command) => {
                    end.command = command.try_wait()?;
                    is_over |= end.command.is_some() || self.asked_to_end > 2;
                }
                None => {
                    is_over |= end.was_stopped || self.asked_to_end > 0 || surroundings.is_over();
                    if now >= look_at {
                        is_over |= run.lasts.is_over(surroundings);
                        look_at = now + LOOK_EVERY;
                    }
                }
            }
            if is_over {
                return Ok(end);
            }
            let goes_on = work.go_on(now, end.was_stopped)?;
            end.stop_if(goes_on.is_break(), run);

            // A process that has ended goes on being ready until its tracer has waited for it.
            let has_ended = ending.as_ref().is_some_and(is_ready);
            let look = match (run.command, &ending, run.lasts) {
                (Some(_), Some(_), _) => has_ended.then_some(SOON),
                (Some(_), None, _) => Some(LOOK_EVERY),
                (None, _, _) if end.was_stopped => Some(Duration::ZERO),
                (None, _, Lasts::Forever) => None,
                (None, _, _) => Some(look_at.saturating_duration_since(now)),
            };
            let wake = [enable_at, end_at, work.due(), look.map(|look| now + look)];
            let timeout = wake.into_iter().flatten().min();
            let timeout = timeout.map(|wake| wake.saturating_duration_since(surroundings.now()));
            let mut others: Vec<BorrowedFd<'_>> = self.signals.iter().map(AsFd::as_fd).collect();
            others.extend(self.control.as_ref().map(AsFd::as_fd));
            others.extend(ending.as_ref().filter(|_| !has_ended).map(AsFd::as_fd));
            is_over |= work.wait(surroundings, &others, timeout)? && run.command.is_none();

            self.hear(run, work);
            end.stop_if(self.obey(work)?, run);
        }
    }

    /// Deals with the signals that have come.
    fn hear<W: Work>(&mut self, run: &Run<'_>, work: &mut W) {
        while let Some(received) = self.signals.as_ref().and_then(Signals::next) {
            if is_wish_to_end(received.signal) {
                self.asked_to_end += 1;
                run.command.iter().for_each(|command| command.ask_to_end(received, self.asked_to_end));
            } else if received.signal != SIGCHLD {
                work.signal(received.signal);
            }
        }
    }

    /// Deals with the orders that have come; whether one was to end.
    fn obey<W: Work>(&mut self, work: &mut W) -> Result<bool, W::Error> {
        let Some(control) = &mut self.control else { return Ok(false) };
        let (orders, is_closed) = control.orders();
        let mut is_to_end = false;
        for order in orders {
            let is_answered = match order {
                Order::Switch { on: true, name: None } => work.enable().map(|()| true)?,
                Order::Switch { on: false, name: None } => work.disable().map(|()| true)?,
                Order::Ping => true,
                Order::Stop => {
                    is_to_end = true;
                    true
                }
                order => work.obey(order)?,
            };
            if is_answered {
                control.acknowledge();
            }
        }
        if is_closed {
            self.control = None;
        }
        Ok(is_to_end)
    }
}

impl End {
    /// Ends the command, once.
    fn stop_if(&mut self, is_to_end: bool, run: &Run<'_>) {
        if is_to_end && !std::mem::replace(&mut self.was_stopped, true) {
            run.command.iter().for_each(|command| command.end());
        }
    }
}

fn is_wish_to_end(signal: i32) -> bool {
    [SIGINT, SIGTERM, SIGHUP].contains(&signal)
}

fn is_ready(fd: &OwnedFd) -> bool {
    poll(&[fd.as_fd()], Some(Duration::ZERO)).is_ok_and(|found| found[0].any())
}
