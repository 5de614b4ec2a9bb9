//! The time that threads sleep, by the stack at which they went to sleep, summed up by BPF programs at the scheduler's tracepoints.
//!
//! As with perf's `--off-cpu`, a thread that is preempted while it could run does not count: its stack says nothing about why. Whom the
//! programs follow, and how, is told in `calls/in_kernel.rs`.

use crate::calls::in_kernel::text::{END, FORK, LOOK, TAKEN, element, given, insert};
use crate::calls::in_kernel::{assembled, word};
use crate::calls::{Element, Entries, InKernel, NoRoom, Whose};
use perfuse_bpf::map::flag::NO_PREALLOC;
use perfuse_bpf::{AssembleError, Insn, MapKind, MapSpec};
use std::collections::HashMap;

/// Numbers of the maps. The first ones are those of `in_kernel`.
const THREADS: usize = 0;
const STATE: usize = 2;
const STACKS: usize = 3;
const ROWS: usize = 4;

/// Frames of a stack; the kernel has a limit of its own (`kernel.perf_event_max_stack`).
const FRAMES: u32 = 127;

/// Of a thread the map has when it went to sleep (0: it did not), where it stands in lists, its state, the number of its stack,
/// and its process and thread.
const THREAD_BYTES: usize = 40;

/// Programs that sum up the time that threads sleep.
#[derive(Clone, Copy, Debug)]
pub struct OffCpu {
    /// Whose threads.
    pub whose: Whose,
}

/// The sleep of a thread at a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffCpuRow {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The user's stack, from the innermost frame on; empty where it could not be had.
    pub stack: Vec<u64>,
    /// How often it went to sleep there.
    pub count: u64,
    /// How long it slept, in nanoseconds.
    pub ns: u64,
}

impl OffCpu {
    /// The maps, to be made in this order.
    pub fn maps(&self) -> Vec<MapSpec> {
        let growing = |key, value, most| MapSpec {
            flags: NO_PREALLOC,
            ..MapSpec::new(MapKind::Hash, key, value, most)
        };
        vec![
            growing(8, THREAD_BYTES as u32, 1 << 16),
            growing(4, 8, 1 << 16),
            MapSpec::new(MapKind::Array, 4, 24, 1),
            MapSpec::new(MapKind::StackTrace, 4, FRAMES * 8, 1 << 14),
            growing(16, 16, 1 << 17),
        ]
    }

    /// The programs, each with the name of the tracepoint that runs it. They take Linux 5.18.
    ///
    /// # Errors
    ///
    /// None of this crate's own making.
    pub fn programs(&self) -> Result<Vec<(&'static str, Vec<Insn>)>, AssembleError> {
        let mut texts = vec![("sched_switch", self.switch()), (END, InKernel::forget(""))];
        if self.whose == Whose::Followed {
            texts.push((FORK, InKernel::born(THREAD_BYTES)));
            texts.push(("sched_process_exec", Self::exec()));
        }
        assembled(texts)
    }

    /// A thread leaves the cpu, and another one comes.
    fn switch(&self) -> String {
        let insert = insert(THREAD_BYTES).replace("goto out", "goto next");
        // One that waits to be executed sleeps for others' sake.
        let found = match self.whose {
            Whose::All(but) => format!(
                "call get_current_pid_tgid
                 if r0 == 0 goto next
                 r0 >>= 32
                 if r0 == {but} goto next
                 r1 = 0
                 {insert}"
            ),
            Whose::Followed => format!(
                "{}
                 r1 = *(u64 *)(r0 +0)
                 if r1 != 0 goto next
                 {insert}
                 {TAKEN}",
                given("next")
            ),
        };
        format!(
            "r6 = r1
             call ktime_get_ns
             r9 = r0
             // TASK_INTERRUPTIBLE or TASK_UNINTERRUPTIBLE.
             r1 = *(u64 *)(r6 +24)
             r1 &= 255
             if r1 == 1 goto sleeps
             if r1 != 2 goto next
             sleeps:
             {LOOK}
             if r0 != 0 goto known
             {found}
             {LOOK}
             if r0 == 0 goto next
             known:
             r7 = r0
             *(u64 *)(r7 +0) = r9
             call get_current_pid_tgid
             *(u64 *)(r7 +32) = r0
             r1 = r6
             r2 = map[idx:{STACKS}]
             // BPF_F_USER_STACK.
             r3 = 256
             call get_stackid
             *(u64 *)(r7 +24) = r0
             next:
             r1 = *(u64 *)(r6 +16)
             *(u64 *)(r10 -8) = r1
             r1 = map[idx:{THREADS}]
             r2 = r10
             r2 += -8
             call map_lookup_elem
             if r0 == 0 goto counted
             r7 = r0
             r8 = *(u64 *)(r7 +0)
             if r8 == 0 goto counted
             *(u64 *)(r7 +0) = 0
             r9 -= r8
             r1 = *(u64 *)(r7 +32)
             *(u64 *)(r10 -24) = r1
             r1 = *(u64 *)(r7 +24)
             *(u64 *)(r10 -16) = r1
             {}
             r1 = *(u64 *)(r0 +0)
             r1 += 1
             *(u64 *)(r0 +0) = r1
             r1 = *(u64 *)(r0 +8)
             r1 += r9
             *(u64 *)(r0 +8) = r1
             counted: r0 = 0
             exit",
            element(ROWS, 16, 24, 24),
        )
    }

    /// One that waits to be executed has been.
    fn exec() -> String {
        format!(
            "{LOOK}
             if r0 != 0 goto out
             {}
             r1 = 0
             {}
             {TAKEN}
             out: r0 = 0
             exit",
            given("out"),
            insert(THREAD_BYTES)
        )
    }

    /// Makes a thread followed: see [`InKernel::thread`].
    pub fn thread(tid: u32, waits: bool) -> Element {
        InKernel::thread(tid, waits)
    }

    /// Begins to look for the threads that are given.
    pub fn look() -> Element {
        InKernel::look()
    }

    /// The rows that the maps hold, the longest sleep first; threads that still sleep have slept until `now`, by the monotonic clock.
    /// `read` has the entries of a map.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub fn rows<E>(
        &self,
        read: &dyn Fn(usize) -> Result<Entries, E>,
        now: u64,
    ) -> Result<(Vec<OffCpuRow>, NoRoom), E> {
        let mut sums: HashMap<(u64, u64), (u64, u64)> = HashMap::new();
        for (key, value) in read(ROWS)? {
            sums.insert((word(&key, 0), word(&key, 8)), (word(&value, 0), word(&value, 8)));
        }
        for (_, thread) in read(THREADS)? {
            let since = word(&thread, 0);
            if since != 0 {
                let row = sums.entry((word(&thread, 32), word(&thread, 24))).or_default();
                *row = (row.0 + 1, row.1 + now.saturating_sub(since));
            }
        }
        let mut stacks: HashMap<u64, Vec<u64>> = HashMap::new();
        for (key, frames) in read(STACKS)? {
            let number = key.first_chunk().map_or(0, |number| u32::from_ne_bytes(*number));
            let frames = frames.chunks_exact(8).map(|frame| word(frame, 0)).take_while(|frame| *frame != 0);
            stacks.insert(number.into(), frames.collect());
        }
        let rows = sums.into_iter().map(|((who, stack), (count, ns))| OffCpuRow {
            pid: (who >> 32) as u32,
            tid: who as u32,
            stack: stacks.get(&stack).cloned().unwrap_or_default(),
            count,
            ns,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| (b.ns, a.tid, &a.stack).cmp(&(a.ns, b.tid, &b.stack)));
        let state = read(STATE)?.into_iter().next().map(|(_, value)| value).unwrap_or_default();
        Ok((rows, NoRoom { calls: word(&state, 16), threads: word(&state, 8) }))
    }
}
