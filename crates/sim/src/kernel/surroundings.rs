//! The time, the cpus and the tasks of the machine, as those who measure ask for them.

use super::SimKernel;
use perfuse::kernel::{Errno, Readiness, Seat, SharedCache, Surroundings};
use perfuse::{Call, Cgroup, Error};
use std::fmt::Write;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

impl Surroundings for SimKernel {
    fn now(&self) -> Instant {
        self.began + Duration::from_nanos(self.state().machine.now())
    }

    fn poll(&self, fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Result<Vec<Readiness>, Errno> {
        let mut state = self.state();
        let ns = timeout.map_or(u64::MAX, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let deadline = state.machine.now().saturating_add(ns);
        state.poll(fds, deadline)
    }

    fn is_over(&self) -> bool {
        self.state().is_over()
    }

    fn online_cpus(&self) -> Vec<u32> {
        self.state().machine.online_cpus().collect()
    }

    /// Each is a core of its own.
    fn seat(&self, cpu: u32) -> Seat {
        Seat { socket: 0, die: 0, core: cpu }
    }

    fn node(&self, _cpu: u32) -> u32 {
        0
    }

    fn cluster(&self, _cpu: u32) -> u32 {
        0
    }

    fn cache(&self, cpu: u32, level: Option<u32>) -> Option<SharedCache> {
        // Pairs of cores share the last of two caches.
        match level.unwrap_or(2) {
            level @ 1 => Some(SharedCache { level, first_cpu: cpu }),
            level @ 2 => Some(SharedCache { level, first_cpu: cpu & !1 }),
            _ => None,
        }
    }

    fn processes(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.state().machine.tasks().map(|task| task.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    fn threads(&self, pid: u32) -> io::Result<Vec<u32>> {
        let state = self.state();
        let threads = state.machine.tasks().filter(|task| task.pid == pid).map(|task| task.tid);
        let threads: Vec<u32> = threads.collect();
        if threads.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(threads) }
    }

    fn process_of(&self, tid: u32) -> Option<u32> {
        self.state().machine.tasks().find(|task| task.tid == tid).map(|task| task.pid)
    }

    fn is_alive(&self, tid: u32) -> bool {
        self.process_of(tid).is_some()
    }

    fn name(&self, tid: u32) -> Vec<u8> {
        let state = self.state();
        let task = state.machine.tasks().find(|task| task.tid == tid);
        task.map_or(Vec::new(), |task| task.name.into())
    }

    fn name_and_parent(&self, pid: u32, tid: u32) -> Option<(Vec<u8>, u32)> {
        let state = self.state();
        let task = state.machine.tasks().find(|task| (task.pid, task.tid) == (pid, tid))?;
        Some((task.name.into(), task.parent.unwrap_or(0)))
    }

    fn maps(&self, pid: u32) -> io::Result<Vec<u8>> {
        let mut text = String::new();
        for mapped in self.state().machine.mapped(pid) {
            let (start, end) = (mapped.addr, mapped.addr.saturating_add(mapped.len));
            let rights = if mapped.executable { "r-xp" } else { "rw-p" };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{start:x}-{end:x} {rights} 00000000 08:01 1 {}", mapped.name);
        }
        Ok(text.into())
    }

    fn cgroup(&self, name: &str) -> Result<Cgroup, Error> {
        let known = self.cgroups.get(name).cloned();
        known.ok_or_else(|| Error::new(Call::Cgroup { path: name.into() }, Errno::ENOENT))
    }
}
