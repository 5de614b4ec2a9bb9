//! A recording from beginning to end: the command is started, records move from the rings to the file,
//! signals and orders are obeyed, files follow one another. How it is completed is in [`finish`].

mod finish;

use crate::fold::{self, Folds};
use crate::follow::Follow;
use crate::off_cpu::Sleeping;
use crate::off_cpu::folding::{self, Folding, Out};
use crate::opening::{self, Opened};
use crate::plan::{Plan, Switch, Target};
use crate::sections::{self, Facts};
use crate::sink::Sink;
use crate::start::{self, Takers};
use crate::synthesis::bpf::Programs;
use crate::tally::Tally;
use crate::unwound::{self, Unwinding};
use crate::{Ended, Error, Observer, Remark, Sums};
use perfuse::abi::ByteOrder;
use perfuse::abi::record::{RecordFormat, RecordType};
use perfuse::abi::wire::{Layout, Writer};
use perfuse::control::{Control, Order};
use perfuse::kernel::Surroundings;
use perfuse::measurement::{self, End, Measurement, Run, Work};
use perfuse::{HeldCommand, RunningCommand, Start, Wait};
use perfuse_data::NewEvent;
use perfuse_data::machine::Machine;
use perfuse_data::tool::Tool;
use perfuse_sys::signal::SIGUSR2;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) struct Session<'a> {
    plan: &'a Plan,
    sink: Out<'a>,
    observer: &'a mut dyn Observer,
    began: Instant,
    opened: Opened,
    events: Vec<NewEvent>,
    format: RecordFormat,
    follow: Option<Follow>,
    unwinding: Option<Unwinding>,
    facts: Facts,
    machine: Looking,
    programs: Programs,
    /// Sums up how long threads sleep, if that is asked for.
    sleeping: Option<Sleeping>,
    /// Makes one sample of many, if that is asked for.
    folds: Option<Folds>,
    /// Of the current file, and of all before it.
    tally: Tally,
    before: Sums,
    /// The records of earlier snapshots that were no samples.
    told: Vec<u8>,
    /// The command.
    child: Option<u32>,
    /// When the output is switched by the clock, or what was recorded is looked at.
    switch_at: Option<Instant>,
    look_at: Instant,
    switch_now: bool,
}

/// The machine is looked at while the command runs already.
enum Looking {
    Underway(JoinHandle<Machine>),
    Done(Box<Machine>),
}

impl Looking {
    fn done(&mut self) -> &Machine {
        if let Looking::Underway(_) = self {
            let before = std::mem::replace(self, Looking::Done(Box::default()));
            if let Looking::Underway(thread) = before {
                *self = Looking::Done(Box::new(thread.join().unwrap_or_default()));
            }
        }
        match self {
            Looking::Done(machine) => machine,
            Looking::Underway(_) => unreachable!("it was waited for"),
        }
    }
}

/// The calling thread goes before others on busy cpus, if it may, until this is dropped: what it starts later begins as
/// it was.
struct GoesFirst {
    nice: Option<i32>,
}

impl GoesFirst {
    fn begin() -> Self {
        let nice = rustix::process::getpriority_process(None).ok();
        let _ = rustix::process::setpriority_process(None, -20);
        GoesFirst { nice }
    }
}

impl Drop for GoesFirst {
    fn drop(&mut self) {
        if let Some(nice) = self.nice {
            let _ = rustix::process::setpriority_process(None, nice);
        }
    }
}

impl<'a> Session<'a> {
    /// Makes a recording.
    pub(crate) fn run(
        plan: &'a Plan,
        sink: &'a mut dyn Sink,
        observer: &'a mut dyn Observer,
        control: Option<Control>,
    ) -> Result<Ended, Error> {
        let mut measurement = Measurement::of(&plan.kernel).with_control(control);
        if plan.owns_process {
            measurement = measurement.with_signals(&[SIGUSR2])?;
        }
        let held = plan.hold()?;
        let pid = held.as_ref().map(|held| held.pid());
        let by_records;
        let (plan, sleeping) = match Sleeping::prepare(plan) {
            Ok(sleeping) => (plan, sleeping),
            Err(why) => {
                if !plan.kernel.facts().is_embedded {
                    observer.remark(&Remark::OffCpuByRecords(why.to_string()));
                }
                by_records = folding::plan(plan);
                (&by_records, None)
            }
        };
        let following = plan.following().or_else(|| plan.following_processes());
        let opened = opening::open(plan, following.as_ref(), held.as_ref());
        if opened.is_err()
            && plan.events.iter().any(folding::is_asked)
            && !matches!(plan.target, Target::Cpus(_))
        {
            observer.remark(&Remark::OffCpuElsewhere);
        }
        let (plan, mut opened) = opened?;
        fold::check(plan, &opened)?;
        let folds = Folds::begin(plan, &mut opened).unwrap_or_else(|why| {
            opened.remarks.push(Remark::NotFolded(why.to_string()));
            None
        });
        // Rings have to be read in time, also where all cpus are busy. The command is a process of its own already.
        let _first = plan.owns_process.then(GoesFirst::begin);
        let mut sink = Out::new(sink);
        let surroundings = plan.kernel.surroundings();
        let is_simulated = plan.kernel.facts().is_simulated;
        let mut machine = match is_simulated {
            true => Looking::Done(Box::default()),
            false => Looking::Underway(std::thread::spawn(Machine::look)),
        };
        let facts = Facts::new(plan, &opened);
        let events = start::new_events(plan, &opened);
        let Some(attr) = opened.set.attr(opened.tracker) else {
            return Err(Error::Gone);
        };
        let format = RecordFormat::of(attr, ByteOrder::NATIVE);
        let folded = opened.requests.iter().position(folding::is_asked);
        sink.folding = folded.and_then(|event| {
            let sources = opened.set.sources().iter().filter(|source| source.event == event);
            let ids = sources.map(|source| source.id).collect();
            Some(Folding::new(plan, ids, &unwound::attr(plan, &opened, event)?, &format))
        });
        // From now on, rings have a record of each task that starts.
        let follow = plan.follow.as_ref().map(|pids| match pid {
            Some(pid) if pids.is_empty() => Follow::command(pid),
            _ => Follow::threads(pids.iter().flat_map(|&pid| surroundings.threads(pid).unwrap_or_default())),
        });
        let began = surroundings.now();
        observer.begins(plan, pid);
        opened.remarks.iter().for_each(|remark| observer.remark(remark));
        opened.details.iter().for_each(|detail| observer.detail(detail));
        let mut programs = Programs::default();
        if opened.has_kernel() && plan.bpf && !is_simulated {
            programs.look();
        }
        let mut features = Vec::new();
        if sink.is_stream() {
            features = facts.features(plan, &opened, machine.done(), None);
            features.extend(sections::programs(&programs));
        }
        sink.begin(&events, features, plan.compression)?;
        let unwinding = Unwinding::of(plan, &opened);
        let (tally, before) = (Tally::of(plan, opened.clocks()), Sums::default());
        let mut session = Session {
            plan,
            sink,
            observer,
            began,
            opened,
            events,
            format,
            follow,
            unwinding,
            facts,
            machine,
            programs,
            sleeping,
            folds,
            tally,
            before,
            told: Vec::new(),
            child: None,
            switch_at: None,
            look_at: began,
            switch_now: false,
        };
        session.warn_of_large_rings();
        let at_once = plan.start == Start::AtOnce;
        if at_once && matches!(plan.target, Target::Processes(_) | Target::Threads(_)) {
            // Mappings from now on are in the rings, and earlier ones will be looked up.
            session.opened.set.enable()?;
        }
        if let Err(error) = session.begin(pid, true, true) {
            session.sink.undo();
            return Err(error);
        }
        if at_once && matches!(plan.target, Target::Cpus(_)) {
            // Without what this program itself does to begin.
            session.opened.set.enable()?;
        }
        if let Some(Err(error)) =
            session.sleeping.as_ref().map(|sleeping| sleeping.begin(plan, held.as_ref()))
        {
            session.sink.undo();
            return Err(error);
        }
        let command = match held.map(HeldCommand::release).transpose() {
            Ok(command) => command,
            Err(error) => {
                session.sink.undo();
                return Err(Error::Start(error));
            }
        };
        let end = session.pass(&mut measurement, command.as_ref())?;
        session.end(end)
    }

    /// A file that is closed after so many bytes exceeds that by what the rings hold until they are read.
    fn warn_of_large_rings(&mut self) {
        let held = (self.opened.set.rings() * self.opened.set.ring_bytes() / 2) as u64;
        if matches!(self.plan.switch, Switch::Size(most) if most < held) {
            self.observer.remark(&Remark::LargeRings(held));
        }
    }

    /// Writes the beginning of a file, which may be the first.
    fn begin(&mut self, child: Option<u32>, held: bool, is_first: bool) -> Result<(), Error> {
        let is_recorded = !self.plan.tail_synthesize;
        let written = start::describe(&self.opened, &mut self.sink)
            .and_then(|()| start::maps(&self.opened, self.plan, child, &mut self.sink))
            .and_then(|()| self.synthesize(child, held, (is_recorded, is_first)))
            .and_then(|()| self.sink.tool(Tool::FinishedInit.into()))
            .and_then(|()| self.sink.flush());
        written.map_err(|error| self.sink.fail(error))
    }

    /// Tells of what runs already: the recording, and those who unwind.
    fn synthesize(
        &mut self,
        child: Option<u32>,
        held: bool,
        (is_recorded, is_told): (bool, bool),
    ) -> io::Result<()> {
        let Session { opened, plan, programs, tally, sink, unwinding, .. } = self;
        let recording = unwinding.as_mut().filter(|_| is_told).map(|unwinding| &mut unwinding.recording);
        if !is_recorded && recording.is_none() {
            return Ok(());
        }
        let sink = if is_recorded { Some(sink as &mut dyn Sink) } else { None };
        start::synthesize(opened, plan, child, held, programs, tally, Takers { sink, recording })
    }

    /// Lets the time of the recording pass.
    fn pass(
        &mut self,
        measurement: &mut Measurement,
        command: Option<&RunningCommand>,
    ) -> Result<End, Error> {
        let plan = self.plan;
        let began = plan.kernel.surroundings().now();
        self.child = command.map(RunningCommand::pid);
        self.look_at = began;
        self.switch_at = match plan.switch {
            Switch::Every(time) => Some(began + time),
            _ => None,
        };
        measurement.pass(&Run { command, lasts: plan.lasts(), began, start: plan.start, timeout: None }, self)
    }

    /// The rings of which the oldest records give way.
    fn overwritten(&self) -> Vec<usize> {
        (0..self.opened.set.rings()).filter(|&ring| self.opened.set.is_overwritten(ring)).collect()
    }

    /// Moves what the rings hold to the output, each ring once.
    fn drain(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        let mut any = false;
        // Overwritten rings are written last: until then none is known to be complete.
        let overwritten = self.overwritten();
        for ring in (0..self.opened.set.rings()).filter(|ring| !overwritten.contains(ring)) {
            let batch = self.opened.set.batch(ring);
            let (first, second) = batch.take_bytes();
            if first.is_empty() && second.is_empty() {
                continue;
            }
            any = true;
            let sifted;
            let (first, second) = match self.opened.sieve.is_empty() {
                true => (first, second),
                false => {
                    sifted = self.opened.sieve.pick(first, second, &self.format);
                    (sifted.as_slice(), &[][..])
                }
            };
            if let Some(follow) = &mut self.follow {
                let kept = follow.pick(first, second, &self.format);
                self.tally.look(&kept, &[], &self.format);
                result =
                    result.and_then(|()| unwound::hand_on(&mut self.unwinding, &mut self.sink, [&kept, &[]]));
                continue;
            }
            let whole = self.tally.look(first, second, &self.format);
            let first = &first[..first.len().min(whole)];
            let second = &second[..whole - first.len()];
            result =
                result.and_then(|()| unwound::hand_on(&mut self.unwinding, &mut self.sink, [first, second]));
        }
        if let Some(follow) = &mut self.follow {
            let kept = follow.next_pass(&self.format);
            self.tally.look(&kept, &[], &self.format);
            result =
                result.and_then(|()| unwound::hand_on(&mut self.unwinding, &mut self.sink, [&kept, &[]]));
            any = follow.round_is_over();
        } else if let Some(unwinding) = &self.unwinding {
            any |= unwinding.recording.is_waiting();
        }
        self.tally.programs.drain(..).for_each(|id| self.programs.add(id));
        if let (true, Some(unwinding)) = (any, &mut self.unwinding) {
            result = result.and_then(|()| unwinding.round(&mut self.sink));
        }
        if let (true, Some(folding)) = (any, &mut self.sink.folding) {
            folding.round();
        }
        // Folded samples come at the end, with times from before: readers sort them in.
        if any && overwritten.is_empty() && self.folds.is_none() {
            result = result.and_then(|()| self.sink.tool(Tool::FinishedRound.into()));
        }
        if any {
            // Readers of a pipe want to see it; and whoever ends this program, the file has what was sampled.
            result = result.and_then(|()| self.sink.flush());
        }
        result.map_err(|error| self.sink.fail(error))
    }

    /// Copies what rings that overwrite themselves hold and no snapshot before had, oldest first.
    fn snapshot(&mut self) -> Result<(), Error> {
        if self.overwritten().is_empty() {
            return Ok(());
        }
        // Records about tasks in the files before hold for this one too.
        let told = std::mem::take(&mut self.told);
        let mut result = self.sink.records(&[&told]);
        self.told = told;
        for ring in self.overwritten() {
            let snapshot = self.opened.set.snapshot(ring)?;
            let mut records: Vec<_> = snapshot.fresh().collect();
            records.reverse();
            let mut bytes = Vec::new();
            for mut record in records {
                let start = bytes.len();
                let mut writer = Writer::new(&mut bytes, ByteOrder::NATIVE);
                record.header.layout(&mut writer).map_err(|error| Error::Plan(error.to_string()))?;
                bytes.extend_from_slice(record.body);
                if record.header.kind != RecordType::SAMPLE {
                    self.told.extend_from_slice(&bytes[start..]);
                }
            }
            if !self.opened.sieve.is_empty() {
                bytes = self.opened.sieve.pick(&bytes, &[], &self.format);
            }
            self.tally.look(&bytes, &[], &self.format);
            result =
                result.and_then(|()| unwound::hand_on(&mut self.unwinding, &mut self.sink, [&bytes, &[]]));
        }
        result = result.and_then(|()| self.finish_unwinding());
        result = result.and_then(|()| self.sink.tool(Tool::FinishedRound.into()));
        result.map_err(|error| self.sink.fail(error))
    }

    /// Hands on what waits for being unwound.
    fn finish_unwinding(&mut self) -> io::Result<()> {
        self.unwinding.as_mut().map_or(Ok(()), |unwinding| unwinding.finish(&mut self.sink))
    }

    fn sums(&self) -> Sums {
        Sums {
            samples: self.before.samples + self.tally.samples.saturating_sub(self.sink.samples_taken()),
            bytes: self.before.bytes + self.sink.len(),
            lost: self.before.lost + self.tally.lost,
        }
    }

    /// Goes on in a new file.
    fn switch(&mut self) -> Result<(), Error> {
        self.drain()?;
        self.snapshot()?;
        self.finish_unwinding().map_err(|error| self.sink.fail(error))?;
        self.before = self.sums();
        self.sink.folding.iter_mut().for_each(|folding| folding.samples_taken = 0);
        let pid = self.child;
        // The old file has to have its last name before the new one takes the first.
        self.complete(true)?;
        self.sink.begin(&self.events, Vec::new(), self.plan.compression)?;
        let clocks = std::mem::take(&mut self.tally.clocks);
        self.tally = Tally::of(self.plan, clocks);
        self.begin(pid, false, false)
    }
}

impl Work for Session<'_> {
    type Error = Error;

    fn enable(&mut self) -> Result<(), Error> {
        Ok(self.opened.set.enable()?)
    }

    fn disable(&mut self) -> Result<(), Error> {
        Ok(self.opened.set.disable()?)
    }

    fn take(&mut self, _now: Instant, _is_ending: bool) -> Result<ControlFlow<()>, Error> {
        self.drain()?;
        Ok(ControlFlow::Continue(()))
    }

    fn go_on(&mut self, now: Instant, is_ending: bool) -> Result<ControlFlow<()>, Error> {
        let plan = self.plan;
        if let (Some(at), Switch::Every(time)) = (self.switch_at, plan.switch) {
            if now >= at {
                self.switch_now = true;
                self.switch_at = Some(now + time);
            }
        }
        let size = self.sink.len();
        self.switch_now |= matches!(plan.switch, Switch::Size(most) if size >= most);
        if std::mem::take(&mut self.switch_now) {
            self.switch()?;
        }
        let mut goes_on = ControlFlow::Continue(());
        if plan.max_bytes.is_some_and(|most| self.before.bytes + size >= most) && !is_ending {
            self.observer.remark(&Remark::SizeReached);
            goes_on = ControlFlow::Break(());
        }
        let sums = self.sums();
        if self.observer.progress(sums).is_break() {
            goes_on = ControlFlow::Break(());
        }
        self.look_at = now + plan.read_every;
        Ok(goes_on)
    }

    fn due(&self) -> Option<Instant> {
        [Some(self.look_at), self.switch_at, self.observer.due()].into_iter().flatten().min()
    }

    fn wait(
        &mut self,
        surroundings: &dyn Surroundings,
        others: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<bool, Error> {
        let began = surroundings.now();
        let elapsed = || surroundings.now() - began;
        match self.opened.set.wait(others, timeout)? {
            Wait::Ended if self.child.is_none() && self.plan.start == Start::AtOnce => return Ok(true),
            // A ring whose owner has ended does not block any more: the others are waited for alone.
            Wait::TimedOut | Wait::Ended if timeout.is_none_or(|timeout| elapsed() < timeout / 2) => {
                let left = timeout.map(|timeout| timeout.saturating_sub(elapsed()));
                measurement::wait(surroundings, others, left)?;
            }
            _ => {}
        }
        Ok(false)
    }

    fn obey(&mut self, order: Order) -> Result<bool, Error> {
        // A snapshot is taken of rings that are overwritten.
        if self.plan.overwrite && matches!(&order, Order::Ignored(line) if line == "snapshot") {
            self.switch_now = true;
            return Ok(true);
        }
        let Opened { set, requests, names, details, .. } = &mut self.opened;
        let mut is_known = true;
        if let Order::Switch { on, name: Some(wanted) } = &order {
            let found: Vec<usize> = (0..names.len()).filter(|&event| names[event] == *wanted).collect();
            is_known = !found.is_empty();
            found.into_iter().try_for_each(|event| set.switch_event(event, *on))?;
        }
        let group_of = |event: usize| requests.get(event).and_then(|request| request.group);
        let events: Vec<_> =
            names.iter().enumerate().map(|(event, name)| (name.as_str(), group_of(event))).collect();
        let (lines, is_answered) = order.answer(&events, is_known, || details.clone());
        lines.into_iter().for_each(|line| self.observer.remark(&Remark::Control(line)));
        Ok(is_answered)
    }

    fn signal(&mut self, signal: i32) {
        let switches = self.plan.switch != Switch::Never || self.plan.overwrite;
        self.switch_now |= signal == SIGUSR2 && switches;
    }
}
