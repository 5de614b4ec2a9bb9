//! Samples folded by BPF programs at the overflows of events: those of a thread at a stack, under a name, become one, whose period is
//! the sum of theirs. What finds no room in the maps stays a sample of its own.

use crate::calls::Entries;
use crate::calls::in_kernel::word;
use perfuse_abi::regs::Arch;
use perfuse_bpf::{AssembleError, Insn, MapKind, MapSpec, assemble};
use std::collections::HashMap;

/// Numbers of the maps.
const ROWS: usize = 0;
const STACKS: usize = 1;

/// Of a row the map has its process and thread, its stacks of the kernel and the user or its place, its cpu, its event, with a bit for
/// places of the user, and the name of the thread; and how many samples it is, their periods, and when the last one was.
const KEY_BYTES: u32 = 40;
const VALUE_BYTES: u32 = 24;

/// Programs that fold samples.
#[derive(Clone, Copy, Debug)]
pub struct Fold {
    /// So many frames of a stack count; 0: only the place.
    pub frames: u32,
    /// Each cpu for itself.
    pub by_cpu: bool,
}

/// Samples that have become one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoldedRow {
    /// The event, as it was given to [`Fold::program`].
    pub event: u32,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The cpu; 0 where cpus do not count.
    pub cpu: u32,
    /// The kernel's stack, from the innermost frame on; empty for a sample of the user's part.
    pub kernel: Vec<u64>,
    /// The user's stack.
    pub user: Vec<u64>,
    /// How many samples.
    pub count: u64,
    /// The sum of their periods.
    pub period: u64,
    /// When the last one was taken, by `CLOCK_MONOTONIC`, in nanoseconds.
    pub last_ns: u64,
}

/// Where `struct bpf_perf_event_data` has the place, what tells its mode, and the period, in bytes; and the bits that are 0 in one mode.
struct Context {
    ip: u32,
    mode: u32,
    bits: u32,
    /// They are 0 in the user's.
    zero_is_user: bool,
    period: u32,
}

impl Context {
    fn of(arch: Arch) -> Self {
        match arch {
            Arch::Arm64 => Context { ip: 256, mode: 264, bits: 15, zero_is_user: true, period: 272 },
            _ => Context { ip: 128, mode: 136, bits: 3, zero_is_user: false, period: 168 },
        }
    }
}

impl Fold {
    /// The maps, to be made in this order. They have all their memory from the beginning, as events of the hardware overflow at any
    /// moment.
    pub fn maps(&self) -> Vec<MapSpec> {
        let mut maps = vec![MapSpec::new(MapKind::Hash, KEY_BYTES, VALUE_BYTES, 1 << 16)];
        if self.frames > 0 {
            maps.push(MapSpec::new(MapKind::StackTrace, 4, self.frames * 8, 1 << 15));
        }
        maps
    }

    /// The program for overflows of an event, to which it gives this number, below 2^30.
    ///
    /// # Errors
    ///
    /// None of this crate's own making.
    pub fn program(&self, event: u32, arch: Arch) -> Result<Vec<Insn>, AssembleError> {
        let context = Context::of(arch);
        let place = if self.frames > 0 { Self::stacks(event) } else { Self::place(event, &context) };
        let cpu = if self.by_cpu { "call get_smp_processor_id" } else { "r0 = 0" };
        let look = format!(
            "r1 = map[idx:{ROWS}]
             r2 = r10
             r2 += -40
             call map_lookup_elem
             if r0 != 0 goto found"
        );
        assemble(&format!(
            "r6 = r1
             {place}
             call get_current_pid_tgid
             *(u64 *)(r10 -40) = r0
             {cpu}
             *(u32 *)(r10 -24) = r0
             r1 = r10
             r1 += -16
             r2 = 16
             call get_current_comm
             {look}
             *(u64 *)(r10 -64) = 0
             *(u64 *)(r10 -56) = 0
             *(u64 *)(r10 -48) = 0
             r1 = map[idx:{ROWS}]
             r2 = r10
             r2 += -40
             r3 = r10
             r3 += -64
             // BPF_NOEXIST.
             r4 = 1
             call map_update_elem
             {look}
             // The sample is written.
             stays: r0 = 1
             exit
             found:
             r7 = r0
             r1 = 1
             lock *(u64 *)(r7 +0) += r1
             r1 = *(u64 *)(r6 +{})
             lock *(u64 *)(r7 +8) += r1
             call ktime_get_ns
             *(u64 *)(r7 +16) = r0
             r0 = 0
             exit",
            context.period
        ))
    }

    /// The numbers of both stacks. One that is not there is EFAULT; any other answer is a stack that found no room.
    fn stacks(event: u32) -> String {
        let stack = |flags: u32, at: u32, known: &str| {
            format!(
                "r1 = r6
                 r2 = map[idx:{STACKS}]
                 r3 = {flags}
                 call get_stackid
                 if r0 s>= 0 goto {known}
                 if r0 != -14 goto stays
                 {known}:
                 *(u32 *)(r10 -{at}) = r0"
            )
        };
        // BPF_F_USER_STACK.
        let (kernel, user) = (stack(0, 32, "kernel"), stack(256, 28, "user"));
        format!("{kernel}\n{user}\n*(u32 *)(r10 -20) = {}", event << 1)
    }

    /// The place, and whose part that is in.
    fn place(event: u32, context: &Context) -> String {
        let Context { ip, mode, bits, zero_is_user, .. } = context;
        let (zero, other) = if *zero_is_user { (1, 0) } else { (0, 1) };
        format!(
            "r1 = *(u64 *)(r6 +{ip})
             *(u64 *)(r10 -32) = r1
             r1 = *(u64 *)(r6 +{mode})
             r1 &= {bits}
             r2 = {}
             if r1 == 0 goto mode
             r2 = {}
             mode:
             *(u32 *)(r10 -20) = r2",
            event << 1 | zero,
            event << 1 | other
        )
    }

    /// The rows that the maps hold, in the order of the last samples. `read` has the entries of a map.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub fn rows<E>(&self, read: &dyn Fn(usize) -> Result<Entries, E>) -> Result<Vec<FoldedRow>, E> {
        let half = |bytes: &[u8], at: usize| (word(bytes, at / 8 * 8) >> (at % 8 * 8)) as u32;
        let mut stacks: HashMap<u32, Vec<u64>> = HashMap::new();
        if self.frames > 0 {
            for (key, frames) in read(STACKS)? {
                let number = key.first_chunk().map_or(0, |number| u32::from_ne_bytes(*number));
                let frames =
                    frames.chunks_exact(8).map(|frame| word(frame, 0)).take_while(|frame| *frame != 0);
                // Markers between the sides of a chain are no addresses.
                stacks.insert(number, frames.filter(|frame| *frame < MARKERS).collect());
            }
        }
        let stack = |number| stacks.get(&number).cloned().unwrap_or_default();
        let rows = read(ROWS)?.into_iter().map(|(key, value)| {
            let (who, is_user) = (word(&key, 0), half(&key, 20) & 1 == 1);
            let (kernel, user) = match (self.frames > 0, is_user) {
                (true, _) => (stack(half(&key, 8)), stack(half(&key, 12))),
                (false, true) => (Vec::new(), vec![word(&key, 8)]),
                (false, false) => (vec![word(&key, 8)], Vec::new()),
            };
            FoldedRow {
                event: half(&key, 20) >> 1,
                pid: (who >> 32) as u32,
                tid: who as u32,
                cpu: half(&key, 16),
                kernel,
                user,
                count: word(&value, 0),
                period: word(&value, 8),
                last_ns: word(&value, 16),
            }
        });
        let mut rows: Vec<FoldedRow> = rows.collect();
        rows.sort_by(|a, b| {
            (a.last_ns, a.tid, &a.user, &a.kernel).cmp(&(b.last_ns, b.tid, &b.user, &b.kernel))
        });
        Ok(rows)
    }
}

/// `PERF_CONTEXT_MAX`: words of a chain from here on are no addresses.
const MARKERS: u64 = -4095_i64 as u64;
