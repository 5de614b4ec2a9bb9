//! The thread that traces: it takes commands from the others, and remembers how children of this process
//! ended, because it is the one that waits for them.

use super::Files;
use perfuse_live::machine::Machine;
use perfuse_live::supervisor::{Front, Supervisor, Waker};
use perfuse_sys::process::Usage;
use perfuse_sys::{Errno, signal};
use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A request to the thread.
enum Command {
    Seize { pid: i32, tid: i32, answer: Sender<Result<(), Errno>> },
    FollowTicks,
    FollowWatches { ends: bool, answer: Sender<()> },
}

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Link {
    commands: Sender<Command>,
    waker: Waker,
}

/// How long changes of debug registers are waited for, where a tracee may be where it cannot be stopped.
const PATIENCE: Duration = Duration::from_secs(1);

impl Link {
    /// Traces a thread.
    pub(super) fn seize(&self, pid: i32, tid: i32) -> Result<(), Errno> {
        let (answer, answered) = channel();
        self.order(Command::Seize { pid, tid, answer })?;
        answered.recv().unwrap_or(Err(Errno::EAGAIN))
    }

    /// Breakpoints or probes have changed. Returns when the debug registers and traps of tracees are so: left there,
    /// they would kill a process that is no longer traced. `ends`: it was the last event, after which this process
    /// may end.
    pub(super) fn follow_watches(&self, ends: bool) {
        let (answer, answered) = channel();
        if self.order(Command::FollowWatches { ends, answer }).is_ok() {
            let _ = answered.recv_timeout(PATIENCE);
        }
    }

    /// The periods of samples have changed.
    pub(super) fn follow_ticks(&self) {
        let _ = self.order(Command::FollowTicks);
    }

    /// `EAGAIN`: there is no thread any more.
    fn order(&self, command: Command) -> Result<(), Errno> {
        self.commands.send(command).map_err(|_| Errno::EAGAIN)?;
        self.waker.wake();
        Ok(())
    }
}

/// Starts the thread. It lives as long as the process.
pub(super) fn start(machine: Arc<Mutex<Machine>>, files: Arc<Files>) -> Result<Link, Errno> {
    let (commands, orders) = channel();
    let (ready, readiness) = channel();
    let work = move || {
        // Those of the process are for its other threads.
        signal::block_all();
        match Supervisor::new(machine, 0) {
            Ok(mut supervisor) => {
                let _ = ready.send(Ok(supervisor.waker()));
                let mut thread = Thread { orders, files, watching: Vec::new() };
                // Its only errors are those of waits that cannot fail.
                let _ = supervisor.run(&mut thread);
            }
            Err(errno) => drop(ready.send(Err(errno))),
        }
    };
    // Stops of tracees are no news for the rest of the process.
    signal::only_ended_children_tell()?;
    let thread = std::thread::Builder::new().name("perfuse".to_owned()).spawn(work);
    thread.map_err(|_| Errno::EAGAIN)?;
    let waker = readiness.recv().map_err(|_| Errno::EAGAIN)??;
    Ok(Link { commands, waker })
}

struct Thread {
    orders: Receiver<Command>,
    files: Arc<Files>,
    /// The callers that wait for debug registers.
    watching: Vec<Sender<()>>,
}

impl Thread {
    fn obey(&mut self, supervisor: &mut Supervisor, command: Command) {
        match command {
            Command::Seize { pid, tid, answer } => {
                let seized = supervisor.seize(pid, tid);
                if seized.is_ok() && perfuse_live::proc::parent_of(pid) == Some(std::process::id() as i32) {
                    lock().entry(pid).or_insert(None);
                }
                // A caller that no longer waits has gone.
                let _ = answer.send(seized.map(drop));
            }
            // It does between any two stops.
            Command::FollowTicks => {}
            Command::FollowWatches { ends, answer } => {
                if ends {
                    supervisor.end_remainders();
                }
                supervisor.follow_watches();
                supervisor.follow_probes();
                supervisor.follow_steps();
                self.watching.push(answer);
                self.tell_of_watches(supervisor);
            }
        }
    }

    fn tell_of_watches(&mut self, supervisor: &Supervisor) {
        let settled = supervisor.watches_are_settled()
            && supervisor.probes_are_settled()
            && supervisor.steps_are_settled()
            && supervisor.remainders_are_settled();
        if !self.watching.is_empty() && settled {
            for answer in self.watching.drain(..) {
                // An error means that the receiver has stopped waiting.
                let _ = answer.send(());
            }
        }
    }
}

impl Front for Thread {
    fn ended(&mut self, _supervisor: &mut Supervisor, tid: i32, status: i32, usage: &Usage) {
        if let Some(end) = lock().get_mut(&tid) {
            *end = Some((ExitStatus::from_raw(status), *usage));
            ENDED.notify_all();
            // The one that the end sent may have come before it could be told.
            signal::raise_for_process(signal::SIGCHLD);
        }
    }

    fn effects(&mut self, machine: &Mutex<Machine>) {
        self.files.carry_out(&mut machine.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn between(&mut self, supervisor: &mut Supervisor) -> bool {
        while let Ok(command) = self.orders.try_recv() {
            self.obey(supervisor, command);
        }
        self.tell_of_watches(supervisor);
        true
    }

    fn idle(&mut self, supervisor: &mut Supervisor) -> bool {
        let Ok(command) = self.orders.recv() else { return false };
        self.obey(supervisor, command);
        true
    }
}

/// Children of this process that are traced, and how they ended.
static CHILDREN: Mutex<Option<Children>> = Mutex::new(None);
static ENDED: Condvar = Condvar::new();

type Children = HashMap<i32, Option<(ExitStatus, Usage)>>;

/// The table, made at the first use.
struct Table(MutexGuard<'static, Option<Children>>);

fn lock() -> Table {
    let mut guard = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
    guard.get_or_insert_with(HashMap::new);
    Table(guard)
}

impl std::ops::Deref for Table {
    type Target = Children;

    fn deref(&self) -> &Children {
        self.0.as_ref().expect("made when it was locked")
    }
}

impl std::ops::DerefMut for Table {
    fn deref_mut(&mut self) -> &mut Children {
        self.0.as_mut().expect("made when it was locked")
    }
}

/// How a child that is traced ended, if it has: `None` for one without a tracer. Each end is told
/// once, like by `wait(2)`.
pub(crate) fn ended(pid: i32) -> Option<Option<(ExitStatus, Usage)>> {
    let mut children = lock();
    let end = *children.get(&pid)?;
    if end.is_some() {
        children.remove(&pid);
    }
    Some(end)
}

/// Waits for the end of a child that is traced; `None` for one without a tracer.
pub(crate) fn wait_for_end(pid: i32) -> Option<(ExitStatus, Usage)> {
    loop {
        if let Some(end) = ended(pid)? {
            return Some(end);
        }
        let guard = lock().0;
        if guard.as_ref().and_then(|children| children.get(&pid)).is_some_and(Option::is_none) {
            drop(ENDED.wait(guard).unwrap_or_else(PoisonError::into_inner));
        }
    }
}
