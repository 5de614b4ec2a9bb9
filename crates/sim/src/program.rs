//! The work of tasks: programs of steps.

use crate::hardware::Rates;
use perfuse_engine::CgroupId;
use std::sync::Arc;

/// One step of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Works for a while.
    Compute {
        /// How long, on the cpu.
        ns: u64,
        /// In kernel mode.
        kernel: bool,
        /// Occurrences that the hardware sees in a microsecond of it.
        rates: Rates,
    },
    /// Page faults.
    Fault {
        /// How many.
        count: u64,
        /// They need I/O.
        major: bool,
        /// Where the first one is; each further one a page on.
        addr: u64,
    },
    /// Waits.
    Sleep(u64),
    /// Starts a process, or a thread, with a program.
    Start {
        /// The program's name.
        program: String,
        /// A thread.
        thread: bool,
    },
    /// Waits until all it started have ended.
    Wait,
    /// Becomes another program.
    Exec {
        /// The program's name.
        program: String,
        /// It is a program of another user: those who measured the task may not look at it (rule D43).
        fresh: bool,
    },
    /// Switches the events that it opened on or off: `prctl(2)`.
    Prctl(bool),
    /// Goes to a cgroup.
    Enter(CgroupId),
    /// Calls itself something else.
    Comm(String),
    /// Maps memory.
    Map {
        /// The first address.
        addr: u64,
        /// Bytes.
        len: u64,
        /// Executable.
        executable: bool,
        /// The file.
        name: String,
    },
    /// Reads or writes data, which hits breakpoints.
    Touch {
        /// The first address.
        addr: u64,
        /// Bytes.
        len: u64,
        /// Writes.
        write: bool,
    },
    /// Hits a tracepoint.
    Tracepoint {
        /// Its id.
        id: u64,
        /// Its weight.
        count: u64,
        /// The contents of its record.
        value: u64,
    },
    /// Does steps several times.
    Repeat(u64, Arc<[Step]>),
    /// Ends.
    Exit,
}

/// The work of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The name of the task.
    pub name: String,
    /// Its steps; it ends after the last.
    pub steps: Arc<[Step]>,
    /// The only cpu it may run on.
    pub on: Option<u32>,
    /// The cgroup it starts in; that of its parent.
    pub cgroup: Option<CgroupId>,
}

/// Where a task stands in its program.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    /// The innermost loop last: its steps, the next of them, and how many rounds are left.
    frames: Vec<(Arc<[Step]>, usize, u64)>,
}

impl Cursor {
    pub(crate) fn new(steps: Arc<[Step]>) -> Self {
        Cursor { frames: vec![(steps, 0, 0)] }
    }

    /// The step at hand; loops are entered. `None` at the end.
    pub(crate) fn step(&mut self) -> Option<Step> {
        loop {
            let (steps, at, left) = self.frames.last_mut()?;
            match steps.get(*at) {
                Some(Step::Repeat(0, _)) => *at += 1,
                Some(Step::Repeat(times, inner)) => {
                    let frame = (inner.clone(), 0, *times - 1);
                    *at += 1;
                    self.frames.push(frame);
                }
                Some(step) => return Some(step.clone()),
                None if *left > 0 && !steps.is_empty() => (*at, *left) = (0, *left - 1),
                None => {
                    self.frames.pop();
                }
            }
        }
    }

    /// The step at hand is done.
    pub(crate) fn advance(&mut self) {
        if let Some((_, at, _)) = self.frames.last_mut() {
            *at += 1;
        }
    }

    /// A number for the place in the program, which serves as an instruction pointer.
    pub(crate) fn place(&self) -> u64 {
        self.frames.iter().fold(0, |place, (_, at, _)| place << 8 | (*at as u64 & 0xff))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_within_loops() {
        let inner: Arc<[Step]> = Arc::from([Step::Sleep(1)]);
        let outer: Arc<[Step]> = Arc::from([Step::Repeat(2, inner), Step::Sleep(2)]);
        let program: Arc<[Step]> =
            Arc::from([Step::Repeat(2, outer), Step::Repeat(0, Arc::from([Step::Wait])), Step::Exit]);
        let mut cursor = Cursor::new(program);
        let mut steps = Vec::new();
        while let Some(step) = cursor.step() {
            steps.push(step);
            cursor.advance();
        }
        let (one, two) = (Step::Sleep(1), Step::Sleep(2));
        let round = [one.clone(), one, two];
        assert_eq!(steps, [&round[..], &round[..], &[Step::Exit]].concat());
    }
}
