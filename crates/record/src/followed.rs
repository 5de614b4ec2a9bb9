//! BPF programs that follow the target of a plan: whether Linux runs them here, and whom they follow.

use crate::{Error, Plan, Target};
use perfuse::{ProgramAttempt, ProgramError, Programs, Start};
use perfuse_proc::read;
use perfuse_trace::{Element, InKernel, Whose};
use std::fmt;
use std::path::Path;

/// Why the kernel cannot sum up for a plan. `{}` is the end of a sentence.
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

impl NotInKernel {
    pub(crate) const OTHER_NUMBERS: Self =
        NotInKernel::Asked("processes have other numbers in this container than the kernel has");
}

/// Whether processes have the numbers here that programs see.
pub(crate) fn has_kernels_numbers() -> bool {
    // PROC_PID_INIT_INO of the kernel's <linux/proc_ns.h>.
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link == Path::new("pid:[4026531836]"))
}

/// Whose threads belong to a plan's target, if programs can tell them from others.
pub(crate) fn whose(plan: &Plan) -> Result<Whose, NotInKernel> {
    let no = |words| Err(NotInKernel::Asked(words));
    let facts = plan.kernel.facts();
    if facts.is_embedded || facts.is_simulated {
        return no("only Linux runs such programs");
    }
    if plan.start != Start::AtOnce {
        return no("a delay is a matter of events");
    }
    if plan.events.iter().any(|request| request.cgroup.is_some()) {
        return no("its programs know no cgroups");
    }
    if !has_kernels_numbers() {
        return Err(NotInKernel::OTHER_NUMBERS);
    }
    match &plan.target {
        Target::Cpus(_) if plan.follow.is_some() => Ok(Whose::Followed),
        Target::Cpus(cpus) if *cpus != plan.kernel.surroundings().online_cpus() => {
            no("its programs run on all cpus")
        }
        Target::Cpus(_) => Ok(Whose::All(std::process::id())),
        Target::Command | Target::Processes(_) | Target::Threads(_) => Ok(Whose::Followed),
    }
}

/// Tells programs whom to follow: the threads of a plan's target, of which `held` is the command that waits to be executed.
pub(crate) fn follow(programs: &Programs, plan: &Plan, held: Option<u32>) -> Result<(), Error> {
    let threads = || -> Vec<u32> {
        let of = |&pid: &u32| plan.kernel.surroundings().threads(pid).unwrap_or_default();
        match (&plan.target, &plan.follow) {
            (Target::Processes(pids), _) | (Target::Cpus(_), Some(pids)) => {
                pids.iter().flat_map(of).collect()
            }
            (Target::Threads(tids), _) => tids.iter().copied().filter(|&tid| read::exists(tid)).collect(),
            _ => Vec::new(),
        }
    };
    let put = |elements| put(programs, elements).map_err(|error| Error::Plan(error.to_string()));
    let is_command = match (&plan.target, &plan.follow) {
        (Target::Cpus(_), None) => return Ok(()),
        (Target::Command, _) => true,
        (_, pids) => pids.as_ref().is_some_and(Vec::is_empty),
    };
    if let (true, Some(held)) = (is_command, held) {
        return put(vec![InKernel::thread(held, true), InKernel::look()]);
    }
    let mut known = Vec::new();
    let mut found = threads();
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
    Ok(())
}

/// Puts elements into the maps of programs.
pub(crate) fn put(programs: &Programs, elements: Vec<Element>) -> Result<(), NotInKernel> {
    for (map, key, value) in elements {
        programs.map(map).update(&key, &value, 0).map_err(|errno| {
            let attempt = ProgramAttempt::Map(map);
            NotInKernel::Refused(ProgramError { attempt, errno, log: String::new() })
        })?;
    }
    Ok(())
}
