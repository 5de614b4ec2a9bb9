//! The state of a cpu at a moment, as the engine asks for it.

use perfuse_engine::abi::record::RegsAbi;
use perfuse_engine::{CpuState, Registers};

/// The state of a cpu at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimCpuState {
    pub(super) user: bool,
    pub(super) idle: bool,
    pub(super) place: u64,
    pub(super) pid: u32,
}

/// Where programs lie, and the kernel.
const TEXT: u64 = 0x40_0000;

const KERNEL_TEXT: u64 = 0xffff_ffff_8100_0000;

const STACK: u64 = 0x7fff_ff00_0000;

impl CpuState for SimCpuState {
    fn is_user(&self) -> bool {
        self.user
    }

    fn ip(&self) -> u64 {
        if self.user { TEXT + self.place * 16 } else { KERNEL_TEXT }
    }

    fn is_idle(&self) -> bool {
        self.idle
    }

    fn has_user(&self) -> bool {
        !self.idle
    }

    fn registers(&self, which: Registers) -> RegsAbi {
        match which {
            Registers::User if self.idle => RegsAbi::ABI_NONE,
            _ => RegsAbi::ABI_64,
        }
    }

    fn register(&self, which: Registers, number: u32) -> u64 {
        // Numbers 7 and 8 are the stack and the instruction pointer of x86.
        match (number, which) {
            (7, _) => STACK,
            (8, Registers::Interrupted) => self.ip(),
            (8, Registers::User) => TEXT + self.place * 16,
            _ => u64::from(self.pid) << 8 | u64::from(number),
        }
    }

    fn user_chain(&self, most: usize, chain: &mut Vec<u64>) {
        let callers = [TEXT + self.place * 16, TEXT + 8];
        chain.extend(callers.into_iter().take(most));
    }

    fn user_stack_left(&self) -> u64 {
        4096
    }

    fn user_stack(&self, len: usize, bytes: &mut Vec<u8>) {
        bytes.resize(len.min(256), self.pid as u8);
    }
}
