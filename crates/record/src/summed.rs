//! System calls summed up by the kernel while a plan's target runs: no rings, no records, nothing lost. Where that cannot be, the
//! reason is told ([`NotInKernel`]), and records are the other way ([`streamed`](crate::streamed)).

use crate::followed::{NotInKernel, follow, put, whose};
use crate::{Ended, Error, Plan, Sums};
use perfuse::abi::regs::Arch;
use perfuse::measurement::{End, Measurement, Run, Work};
use perfuse::{Errno, HeldCommand, Programs, Start};
use perfuse_proc::read;
use perfuse_trace::{CallQuestion, CallSums, Calls, Groups, InKernel, NoRoom, Rows};
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Programs that sum up system calls, ready to run.
#[derive(Debug)]
pub struct SummingUp {
    asked: InKernel,
    programs: Programs,
}

/// What calls came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summed {
    /// The sums.
    pub rows: SummedRows,
    /// What found no room.
    pub no_room: NoRoom,
    /// How it ended. It has no samples.
    pub ended: Ended,
}

/// Sums of calls, as they were asked for.
#[derive(Clone, Debug)]
pub enum SummedRows {
    /// By call, or by thread and call.
    Calls(CallSums),
    /// By keys.
    Keys(Groups),
}

impl SummingUp {
    /// Loads the programs for a plan's target; its events do not matter.
    ///
    /// # Errors
    ///
    /// The kernel is not Linux or refuses them, the target is none that they can tell from others, or processes have other numbers
    /// here than the kernel has for them.
    pub fn prepare(plan: &Plan, question: &CallQuestion, calls: &Calls) -> Result<Self, NotInKernel> {
        let whose = whose(plan)?;
        let Some(arch) = Arch::NATIVE else {
            return Err(NotInKernel::Asked("registers of this architecture are not known"));
        };
        let asked = InKernel { whose, asked: question.clone() };
        let cpus = perfuse_sys::thread::possible_cpus();
        let mut programs = Programs::new(&asked.maps(cpus))?;
        let texts = asked.programs(calls, arch).map_err(|_| NotInKernel::Asked("its programs are faulty"))?;
        put(&programs, asked.beginning())?;
        for (place, insns) in texts {
            programs.at_raw_tracepoint(place, &insns)?;
        }
        Ok(SummingUp { asked, programs })
    }

    /// Runs the plan's command, or waits for the end of its target: it ends as a [recording](crate::record) does.
    ///
    /// # Errors
    ///
    /// The command cannot be executed; the target is gone; the sums cannot be read.
    pub fn run(self, plan: &Plan, calls: &Calls) -> Result<Summed, Error> {
        self.watched(plan, calls, None)
    }

    /// The same, and hands over what the calls have come to until then again and again.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and those of `look`.
    pub fn run_watched(
        self,
        plan: &Plan,
        calls: &Calls,
        every: Duration,
        look: &mut dyn FnMut(SummedRows) -> io::Result<()>,
    ) -> Result<Summed, Error> {
        self.watched(plan, calls, Some((every, look)))
    }

    fn watched(mut self, plan: &Plan, calls: &Calls, watch: Option<Watch<'_>>) -> Result<Summed, Error> {
        let mut measurement = Measurement::of(&plan.kernel);
        if plan.owns_process {
            measurement = measurement.with_signals(&[])?;
        }
        let held = plan.hold()?;
        follow(&self.programs, plan, held.as_ref().map(HeldCommand::pid))?;
        let command = held.map(HeldCommand::release).transpose().map_err(Error::Start)?;
        let began = plan.kernel.surroundings().now();
        let run = Run {
            command: command.as_ref(),
            lasts: plan.lasts(),
            began,
            start: Start::AtOnce,
            timeout: None,
        };
        let End { command, was_stopped, .. } = match watch {
            None => measurement.pass(&run, &mut ())?,
            Some((every, look)) => {
                let mut look = || look(self.rows(calls).map_err(of_map)?.0).map_err(Error::Stream);
                measurement.pass(&run, &mut Looks { every, due: Instant::now() + every, look: &mut look })?
            }
        };
        let elapsed = plan.kernel.surroundings().now() - began;
        self.programs.detach();
        let (rows, no_room) = self.rows(calls).map_err(of_map)?;
        let status = command.map(|(status, _)| status);
        let ended =
            Ended { status, stopped: was_stopped, sums: Sums::default(), events: 0, elapsed, stacks: None };
        Ok(Summed { rows, no_room, ended })
    }

    /// Reads the maps.
    fn rows(&self, calls: &Calls) -> Result<(SummedRows, NoRoom), Errno> {
        let read = |map: usize| self.programs.map(map).entries();
        if matches!(self.asked.asked.rows, Rows::ByKeys { .. }) {
            return self
                .asked
                .groups(&read, calls)
                .map(|(groups, no_room)| (SummedRows::Keys(groups), no_room));
        }
        let (mut sums, no_room) = self.asked.sums(&read)?;
        if self.asked.asked.rows == Rows::ByThread {
            // Of threads that have ended the programs kept the names.
            let living: Vec<u32> =
                sums.rows.keys().map(|(tid, _)| *tid).filter(|tid| !sums.names.contains_key(tid)).collect();
            for tid in living {
                let name = String::from_utf8_lossy(&read::name(tid)).into_owned();
                sums.names.insert(tid, (read::process_of(tid).unwrap_or(tid), name));
            }
        }
        Ok((SummedRows::Calls(sums), no_room))
    }
}

/// How often somebody looks, and what he does.
type Watch<'w> = (Duration, &'w mut dyn FnMut(SummedRows) -> io::Result<()>);

/// Looks again and again.
struct Looks<'l> {
    every: Duration,
    due: Instant,
    look: &'l mut dyn FnMut() -> Result<(), Error>,
}

impl Work for Looks<'_> {
    type Error = Error;

    fn enable(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn disable(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn go_on(&mut self, now: Instant, _: bool) -> Result<ControlFlow<()>, Error> {
        if now >= self.due {
            self.due = now + self.every;
            (self.look)()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn due(&self) -> Option<Instant> {
        Some(self.due)
    }
}

fn of_map(errno: Errno) -> Error {
    Error::Plan(format!("the sums of the kernel cannot be read: {}", perfuse_sys::io_error(errno)))
}
