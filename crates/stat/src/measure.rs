//! One measurement from beginning to end: the command is started, time passes, intervals are reported,
//! orders and signals are obeyed, and at the end everything is read.

use super::command::LastRun;
use super::counting::{Counting, Description};
use super::hooks;
use super::merged;
use super::model::{
    Event, Exit, Interval, Missing, MissingKind, Outcome, Report, Row, RowPlace, Run, Subject, Usage,
};
use super::percore;
use super::plan::{Plan, Target};
use super::recorder::{Destination, Recorder};
use crate::Error;
use perfuse::control::{Control, Order};
use perfuse::diagnosis::Kind;
use perfuse::measurement::{self, End, Lasts, Measurement, Work};
use perfuse::{Command, HeldCommand, Start};
use perfuse_events::abi::{EventType, Software};
use perfuse_events::{EventSpec, Source, Tool};
use perfuse_sys::signal::SIGTERM;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Hears of a measurement while it goes on. All of it is optional; `()` hears nothing.
pub trait Observer {
    /// Something to know about how events are counted, or about an order.
    ///
    /// # Errors
    ///
    /// End the measurement, here and below.
    fn remark(&mut self, text: &str) -> io::Result<()> {
        let _ = text;
        Ok(())
    }

    /// Counting begins: the events are open, those at least that are not refused.
    #[expect(clippy::missing_errors_doc, reason = "as for remark")]
    fn begins(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// An interval is over.
    #[expect(clippy::missing_errors_doc, reason = "as for remark")]
    fn interval(&mut self, report: &Report) -> io::Result<()> {
        let _ = report;
        Ok(())
    }
}

impl Observer for () {}

/// Makes all runs of a plan. The observer hears of intervals as they end; the result is the total of all runs, if there
/// was one.
///
/// # Changes to this process
///
/// As the plan [says](Plan::owns_process), signals are caught meanwhile: see [`Measurement::with_signals`].
///
/// # Errors
///
/// All events are refused, the command cannot be executed, or one of the others takes no more.
pub fn count(
    plan: &Plan,
    observer: &mut dyn Observer,
    control: Option<Control>,
    destination: Option<&mut Destination>,
) -> Result<Option<Report>, Error> {
    let mut measurement = Measurement::of(&plan.kernel).with_control(control);
    if plan.owns_process {
        measurement = measurement.with_signals(&[])?;
    }
    let last = LastRun::default();
    let mut measuring = Measuring { plan, observer, measurement, destination, last };
    let mut total: Option<Report> = None;
    let mut done = 0;
    let births = plan.kernel.births();
    while plan.runs.is_none_or(|runs| done < runs) && !measuring.measurement.is_to_end() {
        let report = measuring.once()?;
        done += 1;
        total = Some(match total {
            Some(total) => merge(total, report),
            None => report,
        });
    }
    if let Some(total) = &mut total {
        let added = stops_of_births(total, plan.kernel.births() - births);
        total.warnings.extend(added);
    }
    Ok(total)
}

struct Measuring<'a> {
    plan: &'a Plan,
    observer: &'a mut dyn Observer,
    measurement: Measurement,
    /// Where the counts are recorded.
    destination: Option<&'a mut Destination>,
    last: LastRun,
}

impl Measuring<'_> {
    fn once(&mut self) -> Result<Report, Error> {
        let plan = self.plan;
        hooks::before(plan)?;
        let held = (!plan.command.is_empty())
            .then(|| Command::new(&plan.command[0]).args(&plan.command[1..]).hold());
        let held = held.transpose()?;
        let mut counting = Counting::open(plan, held.as_ref(), &mut self.last.answers)?;
        self.last.counting = None;
        if plan.verbose {
            for remark in counting.remarks(plan) {
                self.observer.remark(&remark)?;
            }
        }
        // A command is worth running for its time and memory alone, and as in perf, to measure others while it runs
        // where it is only that nothing here counts such events. Anything else is not.
        let is_in_vain = |error: &perfuse::Error| match plan.target {
            Target::Command => false,
            _ => plan.command.is_empty() || error.cause().kind() != Kind::Unsupported,
        };
        if let Some(error) = counting.refused_altogether().filter(|error| is_in_vain(error)) {
            return Err(error.clone().into());
        }
        self.observer.begins()?;
        let mut recorder = None;
        if let Some(destination) = &mut self.destination {
            let child = held.as_ref().map(HeldCommand::pid);
            recorder = Some(Recorder::begin(destination, plan, &counting, child)?);
        }
        log::debug!("counting of {} events begins", plan.events.len());
        let (wall, end) = self.pass(&mut counting, recorder.as_mut(), held)?;
        log::debug!("counting ends");
        let outcomes = (0..plan.events.len()).map(|event| counting.totals(event)).collect();
        let usage = end.command.filter(|_| plan.target == Target::Command).map(|(_, usage)| Usage {
            user_ns: nanoseconds(usage.user),
            system_ns: nanoseconds(usage.system),
            peak_rss_bytes: usage.peak_rss_bytes,
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
        });
        let run = Run { wall_ns: nanoseconds(wall), usage };
        if let Some(recorder) = recorder {
            recorder.finish(plan, &counting, &run)?;
        }
        let mut report = report(plan, &counting, run, outcomes);
        report.exit = end.command.map(|(status, _)| match exit(status) {
            Exit::Signal(SIGTERM) if end.was_stopped => Exit::Stopped,
            exit => exit,
        });
        if !plan.kernel.facts().is_simulated {
            report.warnings.extend(watchdog(&report));
        }
        // Of whole cpus there would be too many descriptors.
        self.last.counting = (plan.target == Target::Command && plan.runs != Some(1)).then_some(counting);
        // The run was measured, and is told all the same.
        report.warnings.extend(hooks::after(plan).err().map(|error| error.to_string()));
        Ok(report)
    }

    /// Lets the time of a run pass: how long it was, and how it ended.
    fn pass(
        &mut self,
        counting: &mut Counting,
        recorder: Option<&mut Recorder>,
        held: Option<HeldCommand>,
    ) -> Result<(Duration, End), Error> {
        let plan = self.plan;
        let surroundings = plan.kernel.surroundings();
        let began = surroundings.now();
        if plan.start == Start::AtOnce && plan.target != Target::Command {
            counting.enable()?;
        }
        let release = |held: HeldCommand| held.release_while(|| counting.explain()).map_err(Error::Start);
        let command = held.map(release).transpose()?;
        let lasts = match &plan.target {
            Target::Processes(pids) => Lasts::Processes(pids),
            Target::Threads(tids) => Lasts::Threads(tids),
            Target::Command | Target::EveryThread(_) | Target::Cpus { .. } => Lasts::Forever,
        };
        let run = measurement::Run {
            command: command.as_ref(),
            lasts,
            began,
            start: plan.start,
            timeout: plan.timeout,
        };
        let is_late = matches!(plan.start, Start::After(_));
        let interval_ends = plan.interval.filter(|_| !is_late).map(|interval| began + interval);
        let observer = &mut *self.observer;
        let mut counts = Counts {
            plan,
            counting,
            observer,
            recorder,
            began,
            is_begun: false,
            interval_began: began,
            interval_ends,
            intervals: 0,
        };
        let end = self.measurement.pass(&run, &mut counts)?;
        let now = surroundings.now();
        let began = counts.began;
        counts.disable()?;
        let goes_on = plan.intervals.is_none_or(|wanted| counts.intervals < wanted);
        if plan.interval.is_some() && goes_on && now > counts.interval_began {
            counts.interval(now)?;
        }
        Ok((now - began, end))
    }
}

/// The counts of a run, interval by interval.
struct Counts<'a> {
    plan: &'a Plan,
    counting: &'a mut Counting,
    observer: &'a mut dyn Observer,
    recorder: Option<&'a mut Recorder>,
    /// When time begins, of which a delay before the events are enabled is no part.
    began: Instant,
    is_begun: bool,
    interval_began: Instant,
    interval_ends: Option<Instant>,
    intervals: u32,
}

impl Counts<'_> {
    fn interval(&mut self, now: Instant) -> Result<(), Error> {
        let outcomes = self.counting.since_last(self.plan);
        let run = Run { wall_ns: nanoseconds(now - self.interval_began), usage: None };
        let mut report = report(self.plan, self.counting, run, outcomes);
        let at_ns = nanoseconds(now - self.began);
        if let Some(recorder) = &mut self.recorder {
            recorder.interval(self.plan, self.counting, &run, at_ns)?;
        }
        report.interval = Some(Interval { at_ns, first: self.intervals == 0 });
        Ok(self.observer.interval(&report)?)
    }
}

impl Work for Counts<'_> {
    type Error = Error;

    fn enable(&mut self) -> Result<(), Error> {
        self.counting.enable()?;
        // As with perf, time begins when a delay is over; intervals too.
        if let (Start::After(_), false) = (self.plan.start, std::mem::replace(&mut self.is_begun, true)) {
            self.began = self.plan.kernel.surroundings().now();
            self.interval_began = self.began;
            self.interval_ends = self.plan.interval.map(|interval| self.began + interval);
        }
        Ok(())
    }

    fn disable(&mut self) -> Result<(), Error> {
        Ok(self.counting.disable()?)
    }

    fn take(&mut self, now: Instant, is_ending: bool) -> Result<ControlFlow<()>, Error> {
        let Some((ends, length)) =
            self.interval_ends.zip(self.plan.interval).filter(|(ends, _)| now >= *ends)
        else {
            return Ok(ControlFlow::Continue(()));
        };
        if is_ending {
            self.interval_ends = None;
            return Ok(ControlFlow::Continue(()));
        }
        self.interval(now)?;
        self.interval_began = now;
        self.intervals += 1;
        if self.plan.intervals == Some(self.intervals) {
            self.interval_ends = None;
            return Ok(ControlFlow::Break(()));
        }
        self.interval_ends = Some((ends + length).max(now));
        Ok(ControlFlow::Continue(()))
    }

    fn due(&self) -> Option<Instant> {
        self.interval_ends
    }

    fn obey(&mut self, order: Order) -> Result<bool, Error> {
        let (remarks, is_answered) = obey(order, self.plan, self.counting)?;
        remarks.iter().try_for_each(|remark| self.observer.remark(remark))?;
        Ok(is_answered)
    }
}

/// Carries out an order about single events: what there is to say about it, and whether it is to be answered.
fn obey(order: Order, plan: &Plan, counting: &mut Counting) -> Result<(Vec<String>, bool), Error> {
    let is_known = match &order {
        Order::Switch { on, name: Some(name) } => counting.switch(plan, name, *on)?,
        _ => true,
    };
    let events: Vec<_> =
        plan.events.iter().map(|request| (request.spec.name.as_str(), request.group)).collect();
    Ok(order.answer(&events, is_known, || counting.remarks(plan)))
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    }
}

/// Nanoseconds, as many as fit.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A report of one run or interval.
fn report(plan: &Plan, counting: &Counting, run: Run, outcomes: Vec<Vec<Outcome>>) -> Report {
    let events = plan.events.iter().zip(outcomes).enumerate().map(|(index, (request, outcomes))| {
        let spec = &request.spec;
        let rows = match spec.source {
            Source::Tool(tool) => tool_rows(tool, counting.places(), &run),
            _ => {
                let places = counting.places().iter().cloned();
                let row = |((place, targets), outcome)| {
                    let outcome = explain_pinned(plan, spec, outcome);
                    Row { place, targets, outcome }
                };
                percore::rows(plan, spec, places.zip(outcomes).map(row).collect())
            }
        };
        let Description { name, lost_kernel_side, lost_children, impossible } =
            counting.describe(plan, index);
        let (source, exclude, unit) = (spec.source, spec.exclude, spec.unit());
        let (cgroup, scale) = (request.cgroup.clone(), spec.scale().cloned());
        Event {
            name,
            source,
            exclude,
            unit,
            scale,
            cgroup,
            impossible,
            lost_kernel_side,
            lost_children,
            rows,
        }
    });
    let (events, places) = match plan.merge {
        true => merged::events(plan, events.collect()),
        false => (events.collect(), Vec::new()),
    };
    Report {
        subject: match &plan.target {
            Target::Command => Subject::Command(
                plan.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            ),
            Target::Processes(pids) => Subject::Processes(pids.clone()),
            Target::Threads(tids) => Subject::Threads(tids.clone()),
            Target::EveryThread(_) => Subject::EveryThread,
            Target::Cpus { cpus, all } => Subject::Cpus { cpus: cpus.clone(), all: *all },
        },
        exit: None,
        runs: vec![run],
        interval: None,
        aggregation: plan.aggregation,
        cgroups: plan.cgroups,
        events,
        // Without merging, every event has stayed where it was.
        metrics: match places.is_empty() {
            true => plan.metrics.clone(),
            false => plan.metrics.iter().map(|metric| metric.moved(&places)).collect(),
        },
        warnings: Vec::new(),
    }
}

/// A command has run, so a pinned event that seems never to have been enabled found no room: once its
/// task has ended, its error state does not show any more.
fn explain_pinned(plan: &Plan, spec: &EventSpec, outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Missing(missing)
            if missing.kind == MissingKind::NeverEnabled
                && spec.pinned
                && (&plan.target, plan.start) == (&Target::Command, Start::AtOnce) =>
        {
            Outcome::Missing(Missing::no_room())
        }
        outcome => outcome,
    }
}

/// Rows of an event that this program measures itself, where perf shows it: once for all cpus, for every thread.
fn tool_rows(tool: Tool, places: &[(RowPlace, u32)], run: &Run) -> Vec<Row> {
    let outcome = run.of_tool(tool);
    let elsewhere =
        Outcome::Missing(Missing::plain(MissingKind::NeverEnabled, "elsewhere", "shown once, above"));
    let row = |(number, (place, targets)): (usize, &(RowPlace, u32))| {
        let outcome = match place {
            RowPlace::Cpu(_) if number > 0 => return None,
            part if part.is_part() && number > 0 => elsewhere.clone(),
            _ => outcome.clone(),
        };
        Some(Row { place: place.clone(), targets: *targets, outcome })
    };
    places.iter().enumerate().filter_map(row).collect()
}

/// Adds a run to those before.
fn merge(mut total: Report, run: Report) -> Report {
    if total.exit != run.exit {
        let warning = "Not all runs ended in the same way; shown is how the last one did.".to_owned();
        if !total.warnings.contains(&warning) {
            total.warnings.push(warning);
        }
    }
    total.exit = run.exit;
    total.runs.extend(run.runs);
    for (event, new) in total.events.iter_mut().zip(run.events) {
        for (row, new) in event.rows.iter_mut().zip(new.rows) {
            match (&mut row.outcome, new.outcome) {
                (Outcome::Counted(readings), Outcome::Counted(more)) => readings.extend(more),
                (outcome @ Outcome::Missing(_), new) => *outcome = new,
                (Outcome::Counted(_), Outcome::Missing(_)) => {}
            }
        }
    }
    total
}

/// A birth that the measuring kernel stops costs so much time at most, with the ways around it (`docs/live-cost.md`).
const BIRTH_NS: u64 = 60_000;

/// A warning about the time that the measuring kernel's stops of so many births add to counts, if that may be a tenth
/// of all.
fn stops_of_births(report: &Report, births: u64) -> Option<String> {
    let times = report.runs.iter().filter_map(|run| run.usage);
    let used_ns: u64 = times.map(|usage| usage.user_ns + usage.system_ns).sum();
    if births == 0 || used_ns == 0 || births.saturating_mul(BIRTH_NS) < used_ns / 10 {
        return None;
    }
    let is_touched = |event: &Event| match event.source {
        Source::Kernel { type_: EventType::SOFTWARE, config, .. } => {
            [Software::TASK_CLOCK, Software::CPU_CLOCK, Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS]
                .contains(&Software(config))
        }
        Source::Tool(_) => true,
        _ => false,
    };
    report.events.iter().any(is_touched).then(|| {
        format!(
            "Counted without perf_events, which stops a command at each start of a thread or process: the {births} that \
             started took up to {:.2} ms longer each, and may have waited more or less often and moved to other cpus \
             more often than alone. That is in these counts.",
            BIRTH_NS as f64 / 1e6
        )
    })
}

/// A counter that the kernel's own watchdog holds, told when it was missed.
fn watchdog(report: &Report) -> Option<String> {
    let hardware = |event: &&Event| match event.source {
        Source::Kernel { type_, .. } => {
            [EventType::HARDWARE, EventType::HW_CACHE, EventType::RAW].contains(&type_)
        }
        _ => false,
    };
    let missed = |row: &Row| {
        row.share() < 0.995 || row.missing().is_some_and(|m| m.kind == MissingKind::NeverScheduled)
    };
    if !report.events.iter().filter(hardware).flat_map(|event| &event.rows).any(missed) {
        return None;
    }
    let on = fs::read_to_string("/proc/sys/kernel/nmi_watchdog").is_ok_and(|text| text.trim() == "1");
    on.then(|| "The NMI watchdog holds a counter; to free it: sudo sysctl kernel.nmi_watchdog=0".to_owned())
}
