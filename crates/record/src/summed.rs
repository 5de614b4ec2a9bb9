//! System calls summed up by the kernel while a plan's target runs: no rings, no records, nothing lost. Where that cannot be, the
//! reason is told ([`NotInKernel`]), and records are the other way ([`streamed`](crate::streamed)).

use crate::{Ended, Error, Plan, Sums, Target};
use perfuse::abi::regs::Arch;
use perfuse::measurement::{End, Measurement, Run};
use perfuse::{Errno, HeldCommand, ProgramError, Programs, Start};
use perfuse_proc::read;
use perfuse_trace::{CallQuestion, CallSums, Calls, Element, Groups, InKernel, NoRoom, Rows, Whose};
use std::fmt;
use std::path::Path;

/// Why the kernel cannot sum up the calls of a plan. `{}` is the end of a sentence.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NotInKernel {
    /// It runs no such programs for this user, or not these.
    Refused(ProgramError),
    /// Its programs cannot tell what is asked, in words.
    Asked(&'static str),
}

impl fmt::Display for NotInKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotInKernel::Refused(error) => error.fmt(f),
            NotInKernel::Asked(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for NotInKernel {}

impl From<ProgramError> for NotInKernel {
    fn from(error: ProgramError) -> Self {
        NotInKernel::Refused(error)
    }
}

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
        let no = |words| Err(NotInKernel::Asked(words));
        let facts = plan.kernel.facts();
        if facts.is_embedded || facts.is_simulated {
            return no("only Linux runs programs at system calls");
        }
        if plan.start != Start::AtOnce {
            return no("a delay is a matter of events");
        }
        if plan.events.iter().any(|request| request.cgroup.is_some()) {
            return no("its programs know no cgroups");
        }
        let whose = match &plan.target {
            Target::Cpus(cpus) if *cpus != plan.kernel.surroundings().online_cpus() => {
                return no("its programs run on all cpus");
            }
            Target::Cpus(_) => Whose::All(std::process::id()),
            Target::Command | Target::Processes(_) | Target::Threads(_) => Whose::Followed,
        };
        // PROC_PID_INIT_INO of the kernel's <linux/proc_ns.h>.
        if !std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link == Path::new("pid:[4026531836]")) {
            return no("processes have other numbers in this container than the kernel has");
        }
        let Some(arch) = Arch::NATIVE else { return no("registers of this architecture are not known") };
        let asked = InKernel { whose, asked: question.clone() };
        let cpus = perfuse_sys::bpf::possible_cpus().unwrap_or(1);
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
    pub fn run(mut self, plan: &Plan, calls: &Calls) -> Result<Summed, Error> {
        let mut measurement = Measurement::of(&plan.kernel);
        if plan.owns_process {
            measurement = measurement.with_signals(&[])?;
        }
        let held = plan.hold()?;
        self.follow(plan, held.as_ref())?;
        let command = held.map(HeldCommand::release).transpose().map_err(Error::Start)?;
        let began = plan.kernel.surroundings().now();
        let run = Run {
            command: command.as_ref(),
            lasts: plan.lasts(),
            began,
            start: Start::AtOnce,
            timeout: None,
        };
        let End { command, was_stopped, .. } = measurement.pass(&run, &mut ())?;
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

    /// Tells the programs whom to follow.
    fn follow(&self, plan: &Plan, held: Option<&HeldCommand>) -> Result<(), Error> {
        let threads = || match &plan.target {
            Target::Processes(pids) => {
                let of = |&pid: &u32| plan.kernel.surroundings().threads(pid).unwrap_or_default();
                pids.iter().flat_map(of).collect()
            }
            Target::Threads(tids) => tids.iter().copied().filter(|&tid| read::exists(tid)).collect(),
            _ => Vec::new(),
        };
        let put = |elements| put(&self.programs, elements).map_err(|error| Error::Plan(error.to_string()));
        match (&plan.target, held) {
            (Target::Cpus(_), _) => return Ok(()),
            (Target::Command, Some(held)) => put(vec![InKernel::thread(held.pid(), true), InKernel::look()])?,
            _ => {
                let mut known = Vec::new();
                let mut found: Vec<u32> = threads();
                if found.is_empty() {
                    return Err(Error::Gone);
                }
                // A thread that another one starts meanwhile is followed where the other one is known already; if not, it is found now.
                while !found.is_empty() {
                    put(found.iter().map(|&tid| InKernel::thread(tid, false)).collect())?;
                    put(vec![InKernel::look()])?;
                    known.append(&mut found);
                    found = threads().into_iter().filter(|tid| !known.contains(tid)).collect();
                }
            }
        }
        Ok(())
    }
}

fn of_map(errno: Errno) -> Error {
    Error::Plan(format!("the sums of the kernel cannot be read: {}", perfuse_sys::io_error(errno)))
}

fn put(programs: &Programs, elements: Vec<Element>) -> Result<(), NotInKernel> {
    for (map, key, value) in elements {
        programs.map(map).update(&key, &value, 0).map_err(|errno| {
            let attempt = perfuse::ProgramAttempt::Map(map);
            NotInKernel::Refused(ProgramError { attempt, errno, log: String::new() })
        })?;
    }
    Ok(())
}
