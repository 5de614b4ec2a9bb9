//! The programs as text.

use super::keys::registers;
use super::{ARGUMENTS, CallQuestion, ERRORS, InKernel, NUMBERS, ROWS, STEPS, WAITS, WANTED, Whose};
use crate::calls::in_kernel::Rows;
use crate::calls::table::{CallSet, Calls};
use perfuse_abi::regs::Arch;

/// The thread of the caller: `r0` is its place in the map, or 0; its key stays at -8.
pub(crate) const LOOK: &str = "
    call get_current_task
    *(u64 *)(r10 -8) = r0
    r1 = map[idx:0]
    r2 = r10
    r2 += -8
    call map_lookup_elem";

/// The state of a thread whose last call was interrupted, and does not count yet.
const INTERRUPTED: u64 = 2;

const SIGKILL: u32 = 9;

/// Goes out, to this label, unless the caller is one of the threads that are given; `r0` is its state. Its number stays at -12.
pub(crate) fn given(out: &str) -> String {
    format!(
        "r1 = map[idx:2][0]+0
         r1 = *(u64 *)(r1 +0)
         if r1 == 0 goto {out}
         call get_current_pid_tgid
         *(u32 *)(r10 -12) = r0
         r1 = map[idx:1]
         r2 = r10
         r2 += -12
         call map_lookup_elem
         if r0 == 0 goto {out}"
    )
}

/// The steps for a thread that is not in the map: goes out unless its calls are wanted, with its state in `r1`, which is `state` of one
/// that is given; and what is to be done when it is in the map.
pub(crate) fn unknown(whose: Whose, state: &str) -> (String, &'static str) {
    match whose {
        Whose::All(but) => {
            (format!("call get_current_pid_tgid\nr0 >>= 32\nif r0 == {but} goto out\nr1 = 0\n"), "")
        }
        Whose::Followed => (format!("{}\nr1 = {state}\n", given("out")), TAKEN),
    }
}

/// Takes the thread that [`given`] has found off the list.
pub(crate) const TAKEN: &str = "r1 = map[idx:1]\nr2 = r10\nr2 += -12\ncall map_delete_elem";

/// Puts the thread of the key at -8 into the map, with the state in `r1`. Of a thread the map has when it entered a call, which
/// one, its state, how long its last call took, what that returned, whether a signal was sent since, and arguments.
pub(crate) fn insert(bytes: usize) -> String {
    let zeros: String =
        (0..bytes / 8).filter(|word| *word != 2).map(|word| store(16 + bytes - word * 8, "0")).collect();
    format!(
        "{zeros}
         {}
         r1 = map[idx:0]
         r2 = r10
         r2 += -8
         r3 = r10
         r3 += -{}
         r4 = 1
         call map_update_elem
         if r0 == 0 goto inserted
         r1 = map[idx:2][0]+8
         r2 = 1
         lock *(u64 *)(r1 +0) += r2
         goto out
         inserted:",
        store(bytes, "r1"),
        16 + bytes,
    )
}

/// Stores to so many bytes below the end of the stack.
pub(crate) fn store(below: usize, value: &str) -> String {
    format!("*(u64 *)(r10 -{below}) = {value}\n")
}

/// The step of the number in `r9`, as [`Distribution`](crate::Distribution) has them, to -8: of a negative one a negative step.
const STEP: &str = "
    r1 = r9
    if r1 s>= 0 goto size
    r1 = -r1
size:
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
    if r9 s>= 0 goto sign
    r1 = -r1
sign:
    *(u64 *)(r10 -8) = r1";

/// A tracepoint of the kernel, by its raw name.
pub(crate) const ENTER: &str = "sys_enter";
pub(crate) const LEAVE: &str = "sys_exit";
pub(crate) const FORK: &str = "sched_process_fork";
pub(crate) const END: &str = "sched_process_exit";
const SENT: &str = "signal_generate";
const SIGNAL: &str = "signal_deliver";

/// The element of a key of so many bytes at `below` the end of the stack, in `r0`; a new one is zeros. What finds no room is counted.
pub(crate) fn element(map: usize, bytes: usize, below: usize, free: usize) -> String {
    let find = format!(
        "r1 = map[idx:{map}]
         r2 = r10
         r2 += -{below}
         call map_lookup_elem
         if r0 != 0 goto found{map}"
    );
    let place = free + bytes;
    let zeros: String = (0..bytes / 8).map(|word| store(place - word * 8, "0")).collect();
    format!(
        "{find}
         {zeros}
         r1 = map[idx:{map}]
         r2 = r10
         r2 += -{below}
         r3 = r10
         r3 += -{place}
         r4 = 1
         call map_update_elem
         {find}
         r1 = map[idx:2][0]+16
         r2 = 1
         lock *(u64 *)(r1 +0) += r2
         goto counted
         found{map}:"
    )
}

impl InKernel {
    /// Each program with the name of its tracepoint.
    pub(super) fn texts(&self, calls: &Calls, arch: Arch) -> Vec<(&'static str, String)> {
        let mut programs = vec![
            (LEAVE, self.leave(calls)),
            (ENTER, self.enter(arch)),
            (SENT, Self::sent()),
            (SIGNAL, self.signal()),
            (END, self.end()),
        ];
        if self.whose == Whose::Followed {
            programs.push((FORK, Self::born(self.thread_bytes())));
        }
        programs
    }

    /// Bytes of the element of a thread.
    fn thread_bytes(&self) -> usize {
        ARGUMENTS + 8 * self.arguments().len()
    }

    fn enter(&self, arch: Arch) -> String {
        let (find, forget) = unknown(self.whose, "*(u64 *)(r0 +0)");
        let kept: String = self
            .arguments()
            .iter()
            .enumerate()
            .map(|(index, &place)| {
                format!(
                    "r1 = r7
                     r1 += {}
                     r2 = 8
                     r3 = r8
                     r3 += {}
                     call probe_read_kernel\n",
                    ARGUMENTS + 8 * index,
                    registers(arch)[usize::from(place)]
                )
            })
            .collect();
        format!(
            "r6 = *(u64 *)(r1 +8)
             r8 = *(u64 *)(r1 +0)
             {LOOK}
             if r0 != 0 goto known
             {find}
             {insert}
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
             {kept}
             call ktime_get_ns
             *(u64 *)(r7 +0) = r0
             out: r0 = 0
             exit
             {}",
            self.count(),
            insert = insert(self.thread_bytes()),
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

    /// A function of each program: counts the last call of the thread whose element is in `r1`. Its stack has the key, with a word
    /// for an error or a step behind it at -8.
    fn count(&self) -> String {
        let CallQuestion { wanted, failed, least_ns, .. } = &self.asked;
        let wanted = match wanted {
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
        let failed = if *failed { "if r6 s>= 0 goto counted\nif r6 s< -4095 goto counted" } else { "" };
        let least = match least_ns {
            0 => String::new(),
            ns => format!("r1 = {ns:#x}\nif r9 < r1 goto counted"),
        };
        let key_bytes = self.key_bytes();
        let below = 8 + key_bytes;
        let (arguments, mut at, mut keys) = (self.arguments(), below, String::new());
        if self.keys().is_empty() {
            keys += &store(below, "0");
        }
        for key in self.keys() {
            keys += &(key.text(&arguments, at) + "\n");
            if key.size() == 8 {
                keys += &store(at, "r0");
            }
            at -= key.size();
        }
        let of = match self.of() {
            None => "r9 = 0".to_owned(),
            Some(of) => of.text(&arguments, 0) + "\nr9 = r0",
        };
        let turn = match self.of().is_some_and(|of| of.is_signed()) {
            true => "r3 = 0x8000000000000000\nr2 ^= r3",
            false => "",
        };
        let one_more = |map: usize| {
            element(map, 8, below, below) + "\nr1 = *(u64 *)(r0 +0)\nr1 += 1\n*(u64 *)(r0 +0) = r1\n"
        };
        let errors = match self.has_errors() {
            true => format!(
                "if r6 s>= 0 goto fine
                 if r6 s< -4095 goto fine
                 r1 = 0
                 r1 -= r6
                 *(u64 *)(r10 -8) = r1
                 {}
                 fine:",
                one_more(ERRORS)
            ),
            false => String::new(),
        };
        let steps = match self.has_steps() {
            true => format!("{STEP}\n{}", one_more(STEPS)),
            false => String::new(),
        };
        format!(
            "count:
             r7 = r1
             r8 = *(u64 *)(r7 +8)
             r9 = *(u64 *)(r7 +24)
             r6 = *(u64 *)(r7 +32)
             {wanted}
             {failed}
             {least}
             {keys}
             {of}
             *(u64 *)(r10 -8) = 0
             {row}
             r1 = *(u64 *)(r0 +0)
             r1 += 1
             *(u64 *)(r0 +0) = r1
             r1 = *(u64 *)(r0 +8)
             r1 += r9
             *(u64 *)(r0 +8) = r1
             // Extremes are compared without signs; the smallest is turned around, so that zeros are none yet.
             r2 = r9
             {turn}
             r1 = *(u64 *)(r0 +24)
             if r1 >= r2 goto most
             *(u64 *)(r0 +24) = r2
             most:
             r2 ^= -1
             r1 = *(u64 *)(r0 +16)
             if r1 >= r2 goto least
             *(u64 *)(r0 +16) = r2
             least:
             {errors}
             {steps}
             counted:
             r0 = 0
             exit",
            row = element(ROWS, 32, below, below),
        )
    }

    /// A thread that is followed, or will be, has started another one.
    pub(crate) fn born(thread_bytes: usize) -> String {
        format!(
            "r6 = *(u64 *)(r1 +8)
             {LOOK}
             if r0 != 0 goto known
             {}
             known:
             *(u64 *)(r10 -8) = r6
             r1 = 0
             {}
             out: r0 = 0
             exit",
            given("out"),
            insert(thread_bytes)
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
        Self::forget(if self.asked.rows == Rows::ByThread { name } else { "" })
    }

    /// A thread ends: it is forgotten after these steps.
    pub(crate) fn forget(before: &str) -> String {
        format!(
            "{LOOK}
             if r0 == 0 goto out
             {before}
             r1 = map[idx:0]
             r2 = r10
             r2 += -8
             call map_delete_elem
             out: r0 = 0
             exit"
        )
    }
}
