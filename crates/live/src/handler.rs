//! The handler of SIGTRAP that a process has while there are traps, watchpoints and single steps of ours in it, although the
//! process outlives us. Its code, and the memory that goes with it.
//!
//! As long as we live it is not called for anything of ours: the tracer takes these signals. If we are killed, Linux lets the process
//! go with all that is in it, and from that moment on the handler does the harmless thing:
//!
//! - A thread that ran into a trap goes back to it, and waits until the guardian has put the instruction there again. If nobody does, the
//!   handler does it by itself.
//! - A thread that was stopped at a trap, or was already helped past it, goes on where it stands ([`marked`]).
//! - A thread that was doing an instruction for us blocks the signals that it blocked before.
//! - A hit of a debug register, and a single step that the process has not asked for, are nothing.
//!
//! All other signals have the effect that they would have had: the action of before, which is kept here, is done.

use crate::ptrace::SignalInfo;
use crate::regs::Registers;
use crate::text::Original;

#[cfg(target_arch = "aarch64")]
mod arm64;
#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(target_arch = "aarch64")]
use arm64 as arch;
#[cfg(target_arch = "x86_64")]
use x86 as arch;

/// From the code to its memory, which can be written to: as much as a page has at most.
pub(crate) const TO_DATA: u64 = arch::TO_DATA;

/// Bytes of an entry in the table of traps.
pub(crate) const ENTRY: usize = 16;

/// The offset of an entry there.
const fn entry(index: u64) -> u64 {
    TABLE + ENTRY as u64 * index
}

/// The offsets of the words in the memory.
const HANDLER: u64 = 16;
const FLAGS: u64 = 24;
const COUNT: u64 = 32;
/// A thread that does an instruction for us while it blocks other signals than usual, and those that it does.
pub(crate) const STEPPER: u64 = 40;
pub(crate) const BLOCKED: u64 = 48;
/// More of the action of before, for another tracer that puts it back.
const RESTORER: u64 = 56;
const MASK: u64 = 64;
const BYTES: u64 = 72;
const TABLE: u64 = 80;

/// How many traps there is room for in so many bytes of code and memory, the last of which are left for an [`Action`].
pub(crate) fn room(bytes: u64) -> u64 {
    bytes.saturating_sub(TO_DATA + TABLE + Action::BYTES as u64) / ENTRY as u64
}

/// The bytes of code and memory with room for so many traps.
pub(crate) fn bytes_for(traps: u64) -> u64 {
    (TO_DATA + entry(traps) + Action::BYTES as u64).next_multiple_of(TO_DATA)
}

/// The code of the handler, which runs wherever it lies.
pub(crate) fn code() -> &'static [u8] {
    arch::code()
}

/// An action of a signal: the kernel's `struct sigaction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) handler: u64,
    pub(crate) flags: u64,
    pub(crate) restorer: u64,
    pub(crate) mask: u64,
}

impl Action {
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words = [self.handler, self.flags, self.restorer, self.mask];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_ne_bytes()));
        bytes
    }

    pub(crate) fn of(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |index: usize| u64::from_ne_bytes(std::array::from_fn(|at| bytes[8 * index + at]));
        Action { handler: word(0), flags: word(1), restorer: word(2), mask: word(3) }
    }

    /// The same in whose place the handler is called, whose code is at this address.
    pub(crate) fn handled(&self, code: u64) -> Self {
        const RESTORER: u64 = 0x0400_0000;
        let (usual, once) = (libc::SA_SIGINFO as u64, libc::SA_RESETHAND as u64);
        let own = (libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART) as u64;
        // A handler of the program's own is called as it wants to be.
        let (flags, mask) = if self.handler > 1 { (self.flags & !once, self.mask) } else { (own, 0) };
        let restorer = arch::RESTORER.map_or(self.restorer, |offset| code + offset());
        let restores = if arch::RESTORER.is_some() { RESTORER } else { 0 };
        Action { handler: code, flags: flags | usual | restores, restorer, mask }
    }
}

/// Bytes of the memory that are read before anything else is known of it.
pub(crate) const HEAD: usize = TABLE as usize;

/// The memory at the beginning, when no trap is there; `bytes` of code and memory.
pub(crate) fn memory(before: &Action, bytes: u64) -> [u8; HEAD] {
    let mut memory = [0; HEAD];
    let words = [
        (HANDLER, before.handler),
        (FLAGS, before.flags),
        (RESTORER, before.restorer),
        (MASK, before.mask),
        (BYTES, bytes),
    ];
    for (offset, word) in words {
        memory[offset as usize..][..8].copy_from_slice(&word.to_ne_bytes());
    }
    memory
}

/// The action of before, the bytes of code and memory, and the number of traps, as such memory has them.
pub(crate) fn of_memory(memory: &[u8; HEAD]) -> (Action, u64, u64) {
    let word = |offset: u64| u64::from_ne_bytes(std::array::from_fn(|at| memory[offset as usize + at]));
    let before =
        Action { handler: word(HANDLER), flags: word(FLAGS), restorer: word(RESTORER), mask: word(MASK) };
    (before, word(BYTES), word(COUNT).min(room(word(BYTES))))
}

/// Where the address of a trap is in the memory, by its number.
pub(crate) fn place_of(index: u64) -> u64 {
    entry(index)
}

/// The address of the trap that an entry tells of.
pub(crate) fn address_in(entry: &[u8; ENTRY]) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|at| entry[at]))
}

/// The bytes to write into the memory for one trap more, whose number is `index`, with their offsets and lengths; in this order.
pub(crate) fn added(index: u64, addr: u64, original: Original) -> [(u64, [u8; ENTRY], usize); 2] {
    let (mut words, mut count) = ([0; ENTRY], [0; ENTRY]);
    words[..8].copy_from_slice(&addr.to_ne_bytes());
    words[8..8 + original.len()].copy_from_slice(&original);
    count[..8].copy_from_slice(&(index + 1).to_ne_bytes());
    [(entry(index), words, ENTRY), (COUNT, count, 8)]
}

/// The details of a signal at whose delivery a thread is stopped, which is one of a trap at `addr`: in the hands of the handler they put
/// a thread back that stands behind the trap with the stack of now, and leave it where it is otherwise.
pub(crate) fn marked(info: &SignalInfo, addr: u64, registers: &Registers) -> SignalInfo {
    let mut marked = *info;
    marked.0[1] = arch::MARK;
    (marked.0[2], marked.0[3]) = (addr, registers.stack());
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_one_piece_in_front_of_its_memory() {
        assert!(code().len() > 64 && (code().len() as u64) < 4096, "{}", code().len());
        assert_eq!(room(bytes_for(100)), room(bytes_for(100)).max(100));
        assert!(room(bytes_for(0)) > 0);
        let action = Action { handler: 7, flags: 5, restorer: 6, mask: 9 };
        assert_eq!(Action::of(&action.bytes()), action);
        assert_eq!(of_memory(&memory(&action, 8192)), (action, 8192, 0));
    }
}
