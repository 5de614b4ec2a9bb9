//! The [handlers](crate::handler) of processes that outlive this one: put there before the first trap, watchpoint or step of ours,
//! and taken back when there is none of these any more.
//!
//! A process that cannot have one goes without, as does a 32-bit one: there the guardian alone is left.

use super::Supervisor;
use super::guardian::Guardian;
use crate::handler::{self, Action};
use crate::proc;
use crate::ptrace::{self, Resume, Status, Tid};
use crate::regs::Registers;
use crate::remote::{self, Calls};
use crate::text::Original;
use perfuse_abi::Errno;
use std::collections::BTreeSet;

/// The handler of a process.
#[derive(Clone, Debug)]
pub(super) struct Shelter {
    /// Where its code is, and how much memory it has.
    at: u64,
    bytes: u64,
    before: Action,
    /// The traps that it knows.
    known: BTreeSet<u64>,
    /// When the process was last seen to have it.
    seen_at: u64,
    /// Another process has this memory too.
    lent: bool,
}

/// So many traps have room at first.
const USUAL: u64 = 200;

/// More traps than these are not taken over from a killed tracer.
const MOST_LEFT: u64 = 1 << 16;

/// After so long it is looked for again.
const LOOK_NS: u64 = 100_000_000;

const SIGTRAP: u64 = libc::SIGTRAP as u64;

impl Shelter {
    /// Puts it into the process of a thread that is stopped where it can call.
    fn put(tid: Tid, traps: u64, guardian: Option<&mut Guardian>) -> Result<Self, Errno> {
        guarded(tid, guardian, |calls| Self::put_by(tid, traps, calls))
    }

    fn put_by(tid: Tid, traps: u64, calls: &mut Calls) -> Result<Self, Errno> {
        let bytes = handler::bytes_for(traps.max(USUAL));
        let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let at = calls.call(libc::SYS_mmap, [0, bytes, prot, flags, u64::MAX, 0])?;
        let put = Self::fill(tid, calls, at, bytes);
        if !put.as_ref().is_ok_and(|put| put.at == at) {
            let _ = calls.call(libc::SYS_munmap, [at, bytes, 0, 0, 0, 0]);
        }
        put
    }

    fn fill(tid: Tid, calls: &mut Calls, at: u64, bytes: u64) -> Result<Self, Errno> {
        // The action of before comes to where it is needed no longer.
        let scratch = at + bytes - Action::BYTES as u64;
        calls.call(libc::SYS_rt_sigaction, [SIGTRAP, 0, scratch, 8, 0, 0])?;
        let mut before = [0; Action::BYTES];
        remote::read_exact(tid, scratch, &mut before)?;
        let before = Action::of(&before);
        if let Some(left) = Self::left(tid, before.handler) {
            return Ok(left);
        }
        remote::write(tid, at, handler::code())?;
        remote::write(tid, at + handler::TO_DATA, &handler::memory(&before, bytes))?;
        let executable = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        calls.call(libc::SYS_mprotect, [at, handler::TO_DATA, executable, 0, 0, 0])?;
        set_action(tid, calls, scratch, &before.handled(at))?;
        Ok(Shelter { at, bytes, before, known: BTreeSet::new(), seen_at: proc::now_ns(), lent: false })
    }

    /// One that a tracer has left here which was killed.
    fn left(tid: Tid, at: u64) -> Option<Self> {
        let mut code = vec![0; handler::code().len()];
        let mut memory = [0; handler::HEAD];
        let is_one = at > 1 && remote::read_exact(tid, at, &mut code).is_ok() && code == handler::code();
        if !is_one || remote::read_exact(tid, at + handler::TO_DATA, &mut memory).is_err() {
            return None;
        }
        // Its guardian may not have taken its traps back yet. It stays when ours are gone, as a thread may be in it still.
        let (before, bytes, count) = handler::of_memory(&memory);
        // The process can have written anything there.
        if count > MOST_LEFT || bytes < handler::bytes_for(count) || at.checked_add(bytes).is_none() {
            return None;
        }
        let mut table = vec![[0; handler::ENTRY]; count as usize];
        let place = at + handler::TO_DATA + handler::place_of(0);
        remote::read_exact(tid, place, table.as_flattened_mut()).ok()?;
        let known: BTreeSet<u64> = table.iter().map(handler::address_in).collect();
        let is_whole = known.len() as u64 == count;
        is_whole.then(|| Shelter { at, bytes, before, known, seen_at: proc::now_ns(), lent: false })
    }

    /// Takes it back, of a thread that is stopped where it can call.
    fn remove(&self, tid: Tid, guardian: Option<&mut Guardian>) -> Result<(), Errno> {
        guarded(tid, guardian, |calls| self.remove_by(tid, calls))
    }

    fn remove_by(&self, tid: Tid, calls: &mut Calls) -> Result<(), Errno> {
        let scratch = self.at + self.bytes - Action::BYTES as u64;
        // The program may have another by now.
        calls.call(libc::SYS_rt_sigaction, [SIGTRAP, 0, scratch, 8, 0, 0])?;
        let mut now = [0; Action::BYTES];
        remote::read_exact(tid, scratch, &mut now)?;
        if Action::of(&now).handler == self.at {
            set_action(tid, calls, scratch, &self.before)?;
        }
        let mut called = [0; 8];
        remote::read_exact(tid, self.at + handler::TO_DATA, &mut called)?;
        // A thread may still be in it otherwise.
        if called == [0; 8] {
            calls.call(libc::SYS_munmap, [self.at, self.bytes, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    /// It knows a trap that is about to be set: `ENOSPC` where there is no room.
    fn add(&mut self, tid: Tid, addr: u64, original: Original) -> Result<(), Errno> {
        let index = self.known.len() as u64;
        if self.known.contains(&addr) {
            return Ok(());
        }
        if index >= handler::room(self.bytes) {
            return Err(Errno::ENOSPC);
        }
        for (offset, bytes, len) in handler::added(index, addr, original) {
            remote::write(tid, self.at + handler::TO_DATA + offset, &bytes[..len])?;
        }
        self.known.insert(addr);
        Ok(())
    }

    /// A thread, which is stopped at a trap of ours, is about to do an instruction while it blocks other signals than now.
    fn steps(&self, tid: Tid) -> Result<(), Errno> {
        let data = self.at + handler::TO_DATA;
        ptrace::poke(tid, data + handler::BLOCKED, ptrace::signal_mask(tid)? as _)?;
        ptrace::poke(tid, data + handler::STEPPER, tid.into())
    }

    /// It has done that.
    fn has_stepped(&self, tid: Tid) {
        // One that was killed meanwhile needs nothing.
        let _ = ptrace::poke(tid, self.at + handler::TO_DATA + handler::STEPPER, 0);
    }
}

/// Calls of a thread, which the guardian leads back if this process is killed meanwhile.
fn guarded<R>(
    tid: Tid,
    guardian: Option<&mut Guardian>,
    act: impl FnOnce(&mut Calls) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let registers = Registers::of(tid)?;
    if registers.is_narrow() {
        return Err(Errno::EOPNOTSUPP);
    }
    let Some((guardian, harbour)) = guardian.zip(remote::harbour_of(tid)) else {
        return act(&mut Calls::begin(tid, remote::syscall_site(tid)?)?);
    };
    let place = guardian.calls(tid, ptrace::signal_mask(tid)?, &registers);
    let acted = Calls::begin_in(tid, harbour).and_then(|mut calls| act(&mut calls));
    guardian.called(place);
    acted
}

fn set_action(tid: Tid, calls: &mut Calls, scratch: u64, action: &Action) -> Result<(), Errno> {
    remote::write(tid, scratch, &action.bytes())?;
    calls.call(libc::SYS_rt_sigaction, [SIGTRAP, scratch, 0, 8, 0, 0]).map(drop)
}

/// What stands in the way of putting something into a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sheltered {
    /// Nothing.
    Yes,
    /// Its thread is not where it could call; it will be soon.
    Soon,
}

impl Supervisor {
    /// Whether a tracee goes on if this process is killed.
    fn outlives_us(&self, tid: Tid) -> bool {
        let attached = self.tracees.get(&tid).is_some_and(|tracee| tracee.attached);
        attached || self.options & ptrace::EXITKILL == 0
    }

    /// Whether something of ours is in a process, or is to be.
    fn holds_anything(&self, pid: Tid) -> bool {
        self.texts.contains_key(&pid)
            || self.stale.contains(&pid)
            || self.tracees.values().any(|tracee| tracee.pid == pid && tracee.holds_anything())
    }

    /// A stopped tracee is about to go on: its process gets a handler if it needs one.
    pub(super) fn shelter(&mut self, tid: Tid) -> Sheltered {
        let Some(tracee) = self.tracees.get(&tid) else { return Sheltered::Yes };
        let (pid, callable) = (tracee.pid, tracee.callable);
        let wants = tracee.holds_anything() || self.stale.contains(&pid) || self.texts.contains_key(&pid);
        if !wants || self.shelters.contains_key(&pid) || !self.outlives_us(tid) {
            return Sheltered::Yes;
        }
        if !callable {
            return Sheltered::Soon;
        }
        let traps = crate::supervisor::lock(&self.machine).probes_of(pid).traps.len() as u64;
        let shelter = Shelter::put(tid, 2 * traps, self.guardian());
        log::debug!("a handler in process {pid}: {:?}", shelter.as_ref().map(|shelter| shelter.at));
        let shelter = shelter.ok();
        self.shelters.insert(pid, shelter);
        // What is there already.
        let there: Vec<(u64, Original)> = self.text_in(pid);
        self.announce(pid, tid, &there);
        Sheltered::Yes
    }

    /// A tracee has replaced its program, in which traps are to be: it goes on to the end of that call, where it can do others.
    pub(super) fn shelter_new_program(&mut self, tid: Tid) {
        if !self.outlives_us(tid) || self.guardian().is_none() {
            return;
        }
        let at_end = ptrace::resume(tid, Resume::Syscall(0)).and_then(|()| remote::wait_for(tid));
        if let (Ok(Status::Syscall), Some(tracee)) = (at_end, self.tracees.get_mut(&tid)) {
            tracee.callable = true;
            self.shelter(tid);
        }
    }

    /// Traps are about to be set.
    pub(super) fn announce(&mut self, pid: Tid, tid: Tid, traps: &[(u64, Original)]) {
        let Some(Some(shelter)) = self.shelters.get_mut(&pid) else { return };
        for &(addr, original) in traps {
            // Without room for it the guardian alone is left.
            let _ = shelter.add(tid, addr, original);
        }
    }

    /// A tracee, stopped where it can call, is in a process in which nothing of ours is any more: nor is the handler, unless another thread
    /// may have run into something right before it was taken back.
    pub(super) fn unshelter(&mut self, tid: Tid) {
        let Some(tracee) = self.tracees.get(&tid).filter(|tracee| tracee.callable && !tracee.borrows) else {
            return;
        };
        let pid = tracee.pid;
        if !self.shelters.contains_key(&pid) || self.holds_anything(pid) {
            return;
        }
        if self.tracees.values().filter(|tracee| tracee.pid == pid).count() > 1 {
            return;
        }
        if let Some(Some(shelter)) =
            self.shelters.remove(&pid).filter(|shelter| shelter.as_ref().is_some_and(|one| !one.lent))
        {
            // One that was killed meanwhile has none.
            let _ = shelter.remove(tid, self.guardian());
        }
    }

    /// A process has a copy of another's memory and actions; `borrows`: that memory itself.
    pub(super) fn shelter_copied(&mut self, from: Tid, to: Tid, borrows: bool) {
        let Some(shelter) = self.shelters.get_mut(&from) else { return };
        if let (Some(shelter), true) = (&mut *shelter, borrows) {
            shelter.lent = true;
        }
        let copy = shelter.clone();
        self.shelters.insert(to, copy);
    }

    /// A thread that is stopped at a trap does the next instruction; the answer is that of [`remote::step`].
    pub(super) fn step_sheltered(&self, pid: Tid, tid: Tid) -> Result<Option<i32>, Errno> {
        let shelter = self.shelters.get(&pid).and_then(Option::as_ref);
        let Some(shelter) = shelter else { return remote::step(tid) };
        shelter.steps(tid)?;
        let stepped = remote::step(tid);
        shelter.has_stepped(tid);
        stepped
    }

    /// A thread is stopped at a trap of ours. Linux takes the handler away from a process that blocks the signal: then it gets
    /// it again.
    pub(super) fn shelter_again(&mut self, pid: Tid, tid: Tid) {
        let Some(Some(shelter)) = self.shelters.get_mut(&pid) else { return };
        let now = proc::now_ns();
        if now < shelter.seen_at + LOOK_NS {
            return;
        }
        shelter.seen_at = now;
        if proc::dispositions(tid).is_none_or(|does| does.catches(libc::SIGTRAP)) {
            return;
        }
        let scratch = shelter.at + shelter.bytes - Action::BYTES as u64;
        let action = shelter.before.handled(shelter.at);
        // One that was killed meanwhile needs none.
        let _ = guarded(tid, self.guardian(), |calls| set_action(tid, calls, scratch, &action));
    }
}
