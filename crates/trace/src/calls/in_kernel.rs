//! Calls summed up by BPF programs where they happen: nothing is written to rings, so nothing is lost, and a call costs a fraction of
//! a microsecond. The programs and their maps are data here; `perfuse::Programs` loads them, and so does a machine of `perfuse-bpf`.
//!
//! A thread is known by where the kernel has its task, which stays when a thread executes a program and gets the number of its process.
//! Followed threads are in a map from the moment when they are born ([`FORK`]), before their first call; of those
//! that ran already, or wait to be executed, numbers are given, and they are in the map from their next call on.
//!
//! A call that a signal interrupts counts when the thread has got the signal, or goes on: where it is killed, the call never returned,
//! though the kernel tells an exit. The kernel kills by SIGKILL for other deadly signals too; a debugger such as strace sees
//! those others, and so the thread that one was sent to has returned.

use super::sums::{CallRow, CallSums};
use super::table::{CallSet, Calls};
use crate::sums::{Distribution, Parts};
use perfuse_bpf::map::flag::NO_PREALLOC;
use perfuse_bpf::{AssembleError, Insn, MapKind, MapSpec, assemble};

/// Numbers of the maps.
const SEEDS: usize = 1;
const STATE: usize = 2;
const ROWS: usize = 3;
const ERRORS: usize = 4;
const STEPS: usize = 5;
const NAMES: usize = 6;
const WANTED: usize = 7;

/// Numbers of calls that sets tell apart.
const NUMBERS: u32 = 1024;

/// Whose calls are summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of all processes but this one.
    All(u32),
    /// Of threads that are [given](InKernel::thread), and all that they start.
    Followed,
}

/// Programs that sum calls up, and what they are asked.
#[derive(Clone, Debug)]
pub struct InKernel {
    /// Whose calls.
    pub whose: Whose,
    /// Which calls.
    pub wanted: CallSet,
    /// Only calls that failed.
    pub failed: bool,
    /// Only calls that took so many nanoseconds or more.
    pub least_ns: u64,
    /// Threads are told apart, and percentiles and histograms are known.
    pub by_thread: bool,
}

/// An element for a map: the number of the map, the key, the value.
pub type Element = (usize, Vec<u8>, Vec<u8>);

/// Keys of a map with their values, as `bpf(2)` gives them.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// The thread of the caller: `r0` is its place in the map, or 0; its key stays at -8.
const LOOK: &str = "
    call get_current_task
    *(u64 *)(r10 -8) = r0
    r1 = map[idx:0]
    r2 = r10
    r2 += -8
    call map_lookup_elem";

/// The states of threads: it waits to be executed; its last call was interrupted, and does not count yet.
const WAITS: u64 = 1;
const INTERRUPTED: u64 = 2;

const SIGKILL: u32 = 9;

/// Goes out unless the caller is one of the threads that are given; `r0` is its state. Its number stays at -12.
const GIVEN: &str = "
    r1 = map[idx:2][0]+0
    r1 = *(u64 *)(r1 +0)
    if r1 == 0 goto out
    call get_current_pid_tgid
    *(u32 *)(r10 -12) = r0
    r1 = map[idx:1]
    r2 = r10
    r2 += -12
    call map_lookup_elem
    if r0 == 0 goto out";

/// Puts the thread of the key at -8 into the map, with the state in `r1`. Of a thread the map has when it entered a call, which
/// one, its state, how long its last call took, what that returned, and whether a signal was sent since.
const INSERT: &str = "
    *(u64 *)(r10 -64) = 0
    *(u64 *)(r10 -56) = 0
    *(u64 *)(r10 -48) = r1
    *(u64 *)(r10 -40) = 0
    *(u64 *)(r10 -32) = 0
    *(u64 *)(r10 -24) = 0
    r1 = map[idx:0]
    r2 = r10
    r2 += -8
    r3 = r10
    r3 += -64
    r4 = 1
    call map_update_elem
    if r0 == 0 goto inserted
    r1 = map[idx:2][0]+8
    r2 = 1
    lock *(u64 *)(r1 +0) += r2
    goto out
inserted:";

/// The power of two of the duration in `r9`, in steps as [`Distribution`] has them, to -12.
const STEP: &str = "
    r1 = r9
    if r1 < 32 goto small
    r2 = 0
    r3 = r1
    r4 = r3; r4 >>= 32; if r4 == 0 goto p16; r3 = r4; r2 += 32
p16: r4 = r3; r4 >>= 16; if r4 == 0 goto p8; r3 = r4; r2 += 16
p8: r4 = r3; r4 >>= 8; if r4 == 0 goto p4; r3 = r4; r2 += 8
p4: r4 = r3; r4 >>= 4; if r4 == 0 goto p2; r3 = r4; r2 += 4
p2: r4 = r3; r4 >>= 2; if r4 == 0 goto p1; r3 = r4; r2 += 2
p1: r4 = r3; r4 >>= 1; if r4 == 0 goto power; r2 += 1
power:
    r3 = r2
    r3 += -5
    r1 >>= r3
    r1 &= 31
    r2 += -4
    r2 <<= 5
    r1 += r2
small:
    *(u32 *)(r10 -12) = r1";

/// A tracepoint of the kernel, by its raw name.
const ENTER: &str = "sys_enter";
const LEAVE: &str = "sys_exit";
const FORK: &str = "sched_process_fork";
const END: &str = "sched_process_exit";
const SENT: &str = "signal_generate";
const SIGNAL: &str = "signal_deliver";

/// The element of the key at -24 in a map, in `r0`; a new one is zeros. What finds no room is counted.
fn element(map: usize, bytes: usize) -> String {
    let find = format!(
        "r1 = map[idx:{map}]
         r2 = r10
         r2 += -24
         call map_lookup_elem
         if r0 != 0 goto found{map}"
    );
    let zeros: String =
        (0..bytes / 8).map(|word| format!("*(u64 *)(r10 -{}) = 0\n", 24 + bytes - word * 8)).collect();
    format!(
        "{find}
         {zeros}
         r1 = map[idx:{map}]
         r2 = r10
         r2 += -24
         r3 = r10
         r3 += -{}
         r4 = 1
         call map_update_elem
         {find}
         r1 = map[idx:2][0]+16
         r2 = 1
         lock *(u64 *)(r1 +0) += r2
         goto counted
         found{map}:",
        24 + bytes
    )
}

/// One more of the element of the key at -24.
fn count(map: usize) -> String {
    element(map, 8) + "\nr1 = *(u64 *)(r0 +0)\nr1 += 1\n*(u64 *)(r0 +0) = r1\n"
}

impl InKernel {
    /// The maps, to be made in this order.
    pub fn maps(&self) -> Vec<MapSpec> {
        let growing = |key, value, most| MapSpec {
            flags: NO_PREALLOC,
            ..MapSpec::new(MapKind::Hash, key, value, most)
        };
        // A row of one thread is written by that thread alone; one of all has a part for each cpu.
        let sums = |value, most, most_of_all| match self.by_thread {
            true => growing(16, value, most),
            false => MapSpec::new(MapKind::PerCpuHash, 16, value, most_of_all),
        };
        let if_by_thread = |most| if self.by_thread { most } else { 1 };
        vec![
            growing(8, 48, 1 << 16),
            growing(4, 8, 1 << 16),
            MapSpec::new(MapKind::Array, 4, 24, 1),
            sums(32, 1 << 17, 1 << 10),
            sums(8, 1 << 17, 1 << 12),
            growing(16, 8, if_by_thread(1 << 18)),
            growing(4, 24, if_by_thread(1 << 16)),
            MapSpec::new(MapKind::Array, 4, NUMBERS, 1),
        ]
    }

    /// The programs, each with the name of the tracepoint that runs it.
    ///
    /// # Errors
    ///
    /// None of this crate's own making.
    pub fn programs(&self, calls: &Calls) -> Result<Vec<(&'static str, Vec<Insn>)>, AssembleError> {
        let mut programs = vec![
            (LEAVE, self.leave(calls)),
            (ENTER, self.enter()),
            (SENT, Self::sent()),
            (SIGNAL, self.signal()),
            (END, self.end()),
        ];
        if self.whose == Whose::Followed {
            programs.push((FORK, Self::fork()));
        }
        programs.into_iter().map(|(name, text)| Ok((name, assemble(&text)?))).collect()
    }

    fn enter(&self) -> String {
        let (find, forget) = match self.whose {
            Whose::All(but) => {
                (format!("call get_current_pid_tgid\nr0 >>= 32\nif r0 == {but} goto out\nr1 = 0\n"), "")
            }
            Whose::Followed => (
                format!("{GIVEN}\nr1 = *(u64 *)(r0 +0)\n"),
                "r1 = map[idx:1]\nr2 = r10\nr2 += -12\ncall map_delete_elem",
            ),
        };
        format!(
            "r6 = *(u64 *)(r1 +8)
             {LOOK}
             if r0 != 0 goto known
             {find}
             {INSERT}
             {forget}
             {LOOK}
             if r0 == 0 goto out
             known:
             r7 = r0
             r1 = *(u64 *)(r7 +16)
             if r1 != {INTERRUPTED} goto enters
             *(u64 *)(r7 +16) = 0
             r1 = r7
             call count
             enters:
             *(u64 *)(r7 +8) = r6
             *(u64 *)(r7 +40) = 0
             call ktime_get_ns
             *(u64 *)(r7 +0) = r0
             out: r0 = 0
             exit
             {}",
            self.count()
        )
    }

    /// A signal is sent to a thread, or to the process of which it is the first one, and not ignored.
    fn sent() -> String {
        format!(
            "r7 = *(u64 *)(r1 +32)
             if w7 != 0 goto out
             r6 = *(u64 *)(r1 +0)
             if w6 == {SIGKILL} goto out
             r7 = *(u64 *)(r1 +16)
             *(u64 *)(r10 -8) = r7
             r1 = map[idx:0]
             r2 = r10
             r2 += -8
             call map_lookup_elem
             if r0 == 0 goto out
             *(u64 *)(r0 +40) = 1
             out: r0 = 0
             exit"
        )
    }

    /// A thread gets a signal.
    fn signal(&self) -> String {
        format!(
            "r6 = *(u64 *)(r1 +0)
             {LOOK}
             if r0 == 0 goto out
             r1 = *(u64 *)(r0 +16)
             if r1 != {INTERRUPTED} goto out
             *(u64 *)(r0 +16) = 0
             r1 = *(u64 *)(r0 +40)
             if w6 != {SIGKILL} goto counts
             if r1 == 0 goto out
             counts:
             r1 = r0
             call count
             out: r0 = 0
             exit
             {}",
            self.count()
        )
    }

    fn leave(&self, calls: &Calls) -> String {
        let execve = calls.number("execve").unwrap_or_default();
        format!(
            "r6 = *(u64 *)(r1 +8)
             {LOOK}
             if r0 == 0 goto out
             r7 = r0
             r8 = *(u64 *)(r7 +0)
             if r8 == 0 goto out
             *(u64 *)(r7 +0) = 0
             call ktime_get_ns
             r0 -= r8
             *(u64 *)(r7 +24) = r0
             *(u64 *)(r7 +32) = r6
             r1 = *(u64 *)(r7 +16)
             if r1 != {WAITS} goto returns
             r8 = *(u64 *)(r7 +8)
             if r8 != {execve} goto out
             if r6 != 0 goto out
             *(u64 *)(r7 +16) = 0
             r1 = map[idx:2][0]+0
             *(u64 *)(r1 +0) = 0
             returns:
             // EINTR, and the kernel's own: ERESTARTSYS to ERESTART_RESTARTBLOCK.
             if r6 == -4 goto interrupted
             if r6 s> -512 goto counts
             if r6 s< -516 goto counts
             interrupted:
             *(u64 *)(r7 +16) = {INTERRUPTED}
             goto out
             counts:
             r1 = r7
             call count
             out: r0 = 0
             exit
             {}",
            self.count()
        )
    }

    /// A function of each program: counts the last call of the thread whose element is in `r1`.
    fn count(&self) -> String {
        let wanted = match &self.wanted {
            CallSet::All => String::new(),
            set => format!(
                "if r8 > {} goto {}
                 r1 = map[idx:{WANTED}][0]+0
                 r1 += r8
                 r1 = *(u8 *)(r1 +0)
                 if r1 == 0 goto counted
                 wanted:",
                NUMBERS - 1,
                if set.has(NUMBERS.into()) { "wanted" } else { "counted" }
            ),
        };
        let failed = "if r6 s>= 0 goto counted\nif r6 s< -4095 goto counted";
        let (tid, step) = match self.by_thread {
            true => {
                ("call get_current_pid_tgid\n*(u32 *)(r10 -16) = r0", format!("{STEP}\n{}", count(STEPS)))
            }
            false => ("*(u32 *)(r10 -16) = 0", String::new()),
        };
        format!(
            "count:
             r8 = *(u64 *)(r1 +8)
             r9 = *(u64 *)(r1 +24)
             r6 = *(u64 *)(r1 +32)
             {wanted}
             {failed}
             r1 = {least:#x}
             if r9 < r1 goto counted
             *(u64 *)(r10 -24) = r8
             {tid}
             *(u32 *)(r10 -12) = 0
             {row}
             r1 = *(u64 *)(r0 +0)
             r1 += 1
             *(u64 *)(r0 +0) = r1
             r1 = *(u64 *)(r0 +8)
             r1 += r9
             *(u64 *)(r0 +8) = r1
             // The smallest, turned around, so that zeros are none yet.
             r1 = *(u64 *)(r0 +16)
             r2 = r9
             r2 ^= -1
             if r1 >= r2 goto least
             *(u64 *)(r0 +16) = r2
             least:
             r1 = *(u64 *)(r0 +24)
             if r1 >= r9 goto most
             *(u64 *)(r0 +24) = r9
             most:
             if r6 s>= 0 goto fine
             if r6 s< -4095 goto fine
             r1 = 0
             r1 -= r6
             *(u32 *)(r10 -12) = r1
             {error}
             fine:
             {step}
             counted:
             r0 = 0
             exit",
            failed = if self.failed { failed } else { "" },
            least = self.least_ns,
            row = element(ROWS, 32),
            error = count(ERRORS),
        )
    }

    /// A thread that is followed, or will be, has started another one.
    fn fork() -> String {
        format!(
            "r6 = *(u64 *)(r1 +8)
             {LOOK}
             if r0 != 0 goto known
             {GIVEN}
             known:
             *(u64 *)(r10 -8) = r6
             r1 = 0
             {INSERT}
             out: r0 = 0
             exit"
        )
    }

    /// A thread ends: its name is kept, and the place of its task is free for another.
    fn end(&self) -> String {
        let name = "
            r7 = 0
            call get_current_pid_tgid
            *(u32 *)(r10 -12) = r0
            r0 >>= 32
            *(u64 *)(r10 -40) = r0
            r1 = r10
            r1 += -32
            r2 = 16
            call get_current_comm
            r1 = map[idx:6]
            r2 = r10
            r2 += -12
            r3 = r10
            r3 += -40
            r4 = 0
            call map_update_elem";
        format!(
            "{LOOK}
             if r0 == 0 goto out
             {}
             r1 = map[idx:0]
             r2 = r10
             r2 += -8
             call map_delete_elem
             out: r0 = 0
             exit",
            if self.by_thread { name } else { "" }
        )
    }

    /// What the maps hold before the programs run.
    pub fn beginning(&self) -> Vec<Element> {
        let bytes = (0..NUMBERS).map(|number| u8::from(self.wanted.has(number.into()))).collect();
        vec![(WANTED, vec![0; 4], bytes)]
    }

    /// Makes a thread followed, from its next call on; one that `waits` from the `execve` on that succeeds, itself included.
    /// When all are given, [`look`](Self::look) begins to look for them.
    pub fn thread(tid: u32, waits: bool) -> Element {
        (SEEDS, tid.to_ne_bytes().to_vec(), (u64::from(waits) * WAITS).to_ne_bytes().to_vec())
    }

    /// Begins to look for the threads that are given.
    pub fn look() -> Element {
        let mut state = vec![0; 24];
        state[..8].copy_from_slice(&1u64.to_ne_bytes());
        (STATE, vec![0; 4], state)
    }

    /// What the maps have come to, when the programs run no more. `read` has the entries of a map. Beside the sums: calls that found
    /// no room in the maps, and threads.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub fn sums<E>(&self, read: &dyn Fn(usize) -> Result<Entries, E>) -> Result<(CallSums, [u64; 2]), E> {
        let mut sums = CallSums::default();
        for (key, value) in read(ROWS)? {
            let parts = value.chunks_exact(32).map(|cpu| {
                let [count, sum, least, most] = [0, 8, 16, 24].map(|at| word(cpu, at));
                Parts { count, sum, least: !least, most }
            });
            let mut times = Distribution::default();
            parts.filter(|parts| parts.count > 0).for_each(|parts| times.add_parts(parts));
            sums.rows.insert(row_of(&key), CallRow { times, ..CallRow::default() });
        }
        for (key, value) in read(ERRORS)? {
            if let (Some(row), Ok(error)) = (sums.rows.get_mut(&row_of(&key)), u16::try_from(half(&key, 12)))
            {
                row.errors.insert(error, value.chunks_exact(8).map(|cpu| word(cpu, 0)).sum());
            }
        }
        for (key, value) in read(STEPS)? {
            if let (Some(row), Ok(step)) = (sums.rows.get_mut(&row_of(&key)), i32::try_from(half(&key, 12))) {
                row.times.add_step(step, word(&value, 0));
            }
        }
        for (key, value) in read(NAMES)? {
            let name = value.get(8..).unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default();
            sums.names.insert(half(&key, 0), (half(&value, 0), String::from_utf8_lossy(name).into_owned()));
        }
        let state = read(STATE)?.into_iter().next().map(|(_, value)| value).unwrap_or_default();
        Ok((sums, [word(&state, 16), word(&state, 8)]))
    }
}

fn row_of(key: &[u8]) -> (u32, u64) {
    (half(key, 8), word(key, 0))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |half| u32::from_ne_bytes(*half))
}
