//! A recording from beginning to end: the command is started, records move from the rings to the file,
//! signals and orders are obeyed, files follow one another. How it is completed is in [`finish`].

mod finish;

use crate::follow::Follow;
use crate::opening::{self, Opened};
use crate::plan::{Plan, Switch, Target};
use crate::sections::{self, Facts, Machine};
use crate::sink::Sink;
use crate::start;
use crate::synthesis::bpf::Programs;
use crate::synthesis::numbers;
use crate::tally::Tally;
use crate::{Ended, Error, Observer, Remark, Sums};
use perfuse::abi::ByteOrder;
use perfuse::abi::record::{RecordFormat, RecordType};
use perfuse::abi::wire::{Layout, Writer};
use perfuse::control::{Control, Order};
use perfuse::{Command, RunningCommand, Start, Wait, processes_are_gone, threads_are_gone};
use perfuse_data::NewEvent;
use perfuse_data::tool::Tool;
use perfuse_sys::signal::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR2, Signals};
use perfuse_sys::{Errno, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitStatus;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long records wait in a ring that does not fill.
const READ_EVERY: Duration = Duration::from_millis(100);

pub(crate) struct Session<'a> {
    plan: &'a Plan,
    sink: &'a mut dyn Sink,
    observer: &'a mut dyn Observer,
    began: Instant,
    opened: Opened,
    events: Vec<NewEvent>,
    format: RecordFormat,
    follow: Option<Follow>,
    facts: Facts,
    machine: Looking,
    programs: Programs,
    /// Of the current file, and of all before it.
    tally: Tally,
    before: Sums,
    /// The records of earlier snapshots that were no samples.
    told: Vec<u8>,
    signals: Option<Signals>,
    control: Option<Control>,
    child: Option<RunningCommand>,
    /// How often somebody wanted this to end.
    asked_to_stop: u32,
    /// The command was ended from here.
    ended_by_us: bool,
    /// It is over without the command.
    stop: bool,
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

impl<'a> Session<'a> {
    /// Makes a recording.
    pub(crate) fn run(
        plan: &'a Plan,
        sink: &'a mut dyn Sink,
        observer: &'a mut dyn Observer,
        control: Option<Control>,
    ) -> Result<Ended, Error> {
        let signals = match plan.owns_process {
            true => {
                Some(Signals::collect(&[SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGUSR2]).map_err(Error::Signals)?)
            }
            false => None,
        };
        let held = plan.command.split_first().map(|(program, rest)| Command::new(program).args(rest).hold());
        let held = held.transpose()?;
        let pid = held.as_ref().map(|held| held.pid());
        let following = plan.following().or_else(|| plan.following_processes());
        let (plan, opened) = opening::open(plan, following.as_ref(), held.as_ref())?;
        if plan.owns_process {
            // Rings have to be read in time, also where all cpus are busy. Not everybody may go first; the command
            // is a process of its own already and does not.
            let _ = rustix::process::setpriority_process(None, -20);
        }
        let mut machine = Looking::Underway(std::thread::spawn(Machine::look));
        let facts = Facts::new(plan, &opened);
        let events = start::new_events(&opened);
        let Some(attr) = opened.set.attr(opened.tracker) else {
            return Err(Error::Gone);
        };
        let format = RecordFormat::of(attr, ByteOrder::NATIVE);
        // Whoever starts from now on has a record of it.
        let follow = plan.follow.as_ref().map(|pids| match pid {
            Some(pid) if pids.is_empty() => Follow::command(pid),
            _ => Follow::threads(pids.iter().flat_map(|pid| numbers(&format!("/proc/{pid}/task")))),
        });
        let began = Instant::now();
        observer.begins(plan, pid);
        opened.remarks.iter().for_each(|remark| observer.remark(remark));
        opened.details.iter().for_each(|detail| observer.detail(detail));
        let mut programs = Programs::default();
        if opened.has_kernel() && plan.bpf {
            programs.look();
        }
        let mut features = Vec::new();
        if sink.is_stream() {
            features = facts.features(plan, &opened, machine.done(), None);
            features.extend(sections::programs(&programs));
        }
        sink.begin(&events, features, plan.compression)?;
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
            facts,
            machine,
            programs,
            tally,
            before,
            told: Vec::new(),
            signals,
            control,
            child: None,
            asked_to_stop: 0,
            ended_by_us: false,
            stop: false,
            switch_now: false,
        };
        session.warn_of_large_rings();
        let at_once = plan.start == Start::AtOnce;
        if at_once && matches!(plan.target, Target::Processes(_) | Target::Threads(_)) {
            // Mappings from now on are in the rings, and earlier ones will be looked up.
            session.opened.set.enable()?;
        }
        if let Err(error) = session.begin(pid, true) {
            session.sink.undo();
            return Err(error);
        }
        if at_once && matches!(plan.target, Target::Cpus(_)) {
            // Without what this program itself does to begin.
            session.opened.set.enable()?;
        }
        if let Some(held) = held {
            match held.release() {
                Ok(child) => session.child = Some(child),
                Err(error) => {
                    session.sink.undo();
                    return Err(Error::Start(error));
                }
            }
        }
        let passed = session.pass();
        if passed.is_err() {
            // Nobody waits for it any longer.
            session.child.iter().for_each(RunningCommand::end);
        }
        session.end(passed?)
    }

    /// A file that goes on after so many bytes is larger by what the rings hold until they are read.
    fn warn_of_large_rings(&mut self) {
        let held = (self.opened.set.rings() * self.opened.set.ring_bytes() / 2) as u64;
        if matches!(self.plan.switch, Switch::Size(most) if most < held) {
            self.observer.remark(&Remark::LargeRings(held));
        }
    }

    /// What a file starts with.
    fn begin(&mut self, child: Option<u32>, held: bool) -> Result<(), Error> {
        let written = start::describe(&self.opened, self.sink)
            .and_then(|()| start::maps(&self.opened, self.plan, child, self.sink))
            .and_then(|()| if self.plan.tail_synthesize { Ok(()) } else { self.synthesize(child, held) })
            .and_then(|()| self.sink.tool(Tool::FinishedInit.into()))
            .and_then(|()| self.sink.flush());
        written.map_err(|error| self.sink.fail(error))
    }

    fn synthesize(&mut self, child: Option<u32>, held: bool) -> io::Result<()> {
        start::synthesize(&self.opened, self.plan, child, held, &self.programs, &mut self.tally, self.sink)
    }

    /// Deals with all that happens until the recording is over. Returns how the command ended.
    fn pass(&mut self) -> Result<Option<ExitStatus>, Error> {
        let plan = self.plan;
        let start = Instant::now();
        let mut enable_at = match plan.start {
            Start::After(delay) => Some(start + delay),
            _ => None,
        };
        let mut switch_at = match plan.switch {
            Switch::Every(time) => Some(start + time),
            _ => None,
        };
        let mut look_at = start;
        let status = loop {
            self.drain()?;
            if let Some(child) = &self.child {
                if let Some((status, _)) = child.try_wait()? {
                    break Some(status);
                }
            } else if self.asked_to_stop > 0 {
                break None;
            }
            if self.stop || self.asked_to_stop > 2 {
                break None;
            }
            let now = Instant::now();
            if self.child.is_none() && now >= look_at {
                if self.is_gone() {
                    break None;
                }
                look_at = now + READ_EVERY;
            }
            if enable_at.is_some_and(|at| now >= at) {
                self.opened.set.enable()?;
                enable_at = None;
            }
            if let (Some(at), Switch::Every(time)) = (switch_at, plan.switch) {
                if now >= at {
                    self.switch_now = true;
                    switch_at = Some(now + time);
                }
            }
            let size = self.sink.len();
            self.switch_now |= matches!(plan.switch, Switch::Size(most) if size >= most);
            if std::mem::take(&mut self.switch_now) {
                self.switch()?;
            }
            if plan.max_bytes.is_some_and(|most| self.before.bytes + size >= most) && !self.ended_by_us {
                self.observer.remark(&Remark::SizeReached);
                self.finish_early();
            }
            let sums = self.sums();
            if self.observer.progress(sums).is_break() && !self.ended_by_us {
                self.finish_early();
            }
            let wake = [Some(now + READ_EVERY), enable_at, switch_at, self.observer.due()];
            self.wait(wake.into_iter().flatten().min().unwrap_or(now))?;
        };
        Ok(status)
    }

    fn finish_early(&mut self) {
        self.ended_by_us = true;
        self.stop = self.child.is_none();
        self.child.iter().for_each(RunningCommand::end);
    }

    /// Waits for records, or for something to happen, at most until `wake`.
    fn wait(&mut self, wake: Instant) -> Result<(), Error> {
        let began = Instant::now();
        let mut others: Vec<BorrowedFd<'_>> = self.signals.iter().map(AsFd::as_fd).collect();
        others.extend(self.control.as_ref().map(AsFd::as_fd));
        let timeout = wake.saturating_duration_since(began);
        match self.opened.set.wait(&others, Some(timeout))? {
            Wait::Ended if self.child.is_none() && self.plan.start == Start::AtOnce => self.stop = true,
            // A ring whose owner has ended does not block any more: the others are waited for alone.
            Wait::TimedOut | Wait::Ended if began.elapsed() < timeout / 2 => {
                let left = wake.saturating_duration_since(Instant::now());
                match poll::poll(&others, Some(left)) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(errno) => return Err(Error::Wait(errno)),
                }
            }
            _ => {}
        }
        while let Some(received) = self.signals.as_ref().and_then(Signals::next) {
            match received.signal {
                SIGCHLD => {}
                SIGUSR2 => self.switch_now |= self.plan.switch != Switch::Never || self.plan.overwrite,
                _ => {
                    self.asked_to_stop += 1;
                    self.child.iter().for_each(|child| child.ask_to_end(received, self.asked_to_stop));
                }
            }
        }
        self.obey()
    }

    /// Carries out what the control channel says.
    fn obey(&mut self) -> Result<(), Error> {
        let Some(control) = &mut self.control else { return Ok(()) };
        let (orders, closed) = control.orders();
        for order in orders {
            match order {
                Order::Switch { on, name: None } if on => self.opened.set.enable()?,
                Order::Switch { name: None, .. } => self.opened.set.disable()?,
                Order::Ping => {}
                Order::Stop => {
                    (self.ended_by_us, self.stop) = (true, self.child.is_none());
                    self.child.iter().for_each(RunningCommand::end);
                }
                other => {
                    self.observer.remark(&Remark::Order(format!("{other:?}")));
                    continue;
                }
            }
            control.acknowledge();
        }
        if closed {
            self.control = None;
        }
        Ok(())
    }

    /// Nothing of what is recorded exists any more.
    fn is_gone(&self) -> bool {
        match &self.plan.target {
            Target::Processes(pids) => processes_are_gone(pids),
            Target::Threads(tids) => threads_are_gone(tids),
            Target::Command | Target::Cpus(_) => {
                self.plan.follow.as_ref().is_some_and(|pids| processes_are_gone(pids))
            }
        }
    }

    /// The rings of which the oldest records give way.
    fn overwritten(&self) -> Vec<usize> {
        (0..self.opened.set.rings()).filter(|&ring| self.opened.set.is_overwritten(ring)).collect()
    }

    /// Moves what the rings hold to the output, each ring once.
    fn drain(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        let mut any = false;
        // What is overwritten is written last: until then nothing is known to be complete.
        let overwritten = self.overwritten();
        for ring in (0..self.opened.set.rings()).filter(|ring| !overwritten.contains(ring)) {
            let batch = self.opened.set.batch(ring);
            let (first, second) = batch.take_bytes();
            if first.is_empty() && second.is_empty() {
                continue;
            }
            any = true;
            if let Some(follow) = &mut self.follow {
                let kept = follow.pick(first, second, &self.format);
                self.tally.look(&kept, &[], &self.format);
                result = result.and_then(|()| self.sink.records(&[&kept]));
                continue;
            }
            let whole = self.tally.look(first, second, &self.format);
            let first = &first[..first.len().min(whole)];
            let second = &second[..whole - first.len()];
            result = result.and_then(|()| self.sink.records(&[first, second]));
        }
        if let Some(follow) = &mut self.follow {
            let kept = follow.next_pass(&self.format);
            self.tally.look(&kept, &[], &self.format);
            result = result.and_then(|()| self.sink.records(&[&kept]));
            any = follow.round_is_over();
        }
        self.tally.programs.drain(..).for_each(|id| self.programs.add(id));
        if any && overwritten.is_empty() {
            result = result.and_then(|()| self.sink.tool(Tool::FinishedRound.into()));
            if self.sink.is_stream() {
                // Readers of a pipe want to see it.
                result = result.and_then(|()| self.sink.flush());
            }
        }
        result.map_err(|error| self.sink.fail(error))
    }

    /// Copies what rings that overwrite themselves hold and no snapshot before had, oldest first.
    fn snapshot(&mut self) -> Result<(), Error> {
        if self.overwritten().is_empty() {
            return Ok(());
        }
        // What the files before told about tasks holds for this one too.
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
            self.tally.look(&bytes, &[], &self.format);
            result = result.and_then(|()| self.sink.records(&[&bytes]));
        }
        result = result.and_then(|()| self.sink.tool(Tool::FinishedRound.into()));
        result.map_err(|error| self.sink.fail(error))
    }

    fn sums(&self) -> Sums {
        Sums {
            samples: self.before.samples + self.tally.samples,
            bytes: self.before.bytes + self.sink.len(),
            lost: self.before.lost + self.tally.lost,
        }
    }

    /// Goes on in a new file.
    fn switch(&mut self) -> Result<(), Error> {
        self.drain()?;
        self.snapshot()?;
        self.before = self.sums();
        let pid = self.child.as_ref().map(RunningCommand::pid);
        // The old file has to have its last name before the new one takes the first.
        self.complete(true)?;
        self.sink.begin(&self.events, Vec::new(), self.plan.compression)?;
        let clocks = std::mem::take(&mut self.tally.clocks);
        self.tally = Tally::of(self.plan, clocks);
        self.begin(pid, false)
    }
}
