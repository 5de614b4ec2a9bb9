//! The state of a cpu when something happened there: the data of samples about the interrupted program.

use alloc::vec::Vec;
use perfuse_abi::record::RegsAbi;

/// One of two sets of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// Those of the user program, saved when it entered the kernel.
    User,
    /// Those at the interrupt.
    Interrupted,
}

/// The state of a cpu when something happened there. Methods are called for the fields that samples ask for, so they
/// may be expensive.
///
/// The methods that have a body answer as for a program of which only mode and instruction pointer are known.
pub trait CpuState {
    /// It was in user mode.
    fn is_user(&self) -> bool;

    /// The instruction pointer.
    fn ip(&self) -> u64;

    /// The cpu had nothing to do.
    fn is_idle(&self) -> bool {
        false
    }

    /// A virtual machine's guest ran (rule H2).
    fn is_guest(&self) -> bool {
        false
    }

    /// The current task has user memory: is no kernel thread.
    fn has_user(&self) -> bool {
        true
    }

    /// The kind of the registers, [`RegsAbi::ABI_NONE`] if there are none.
    fn registers(&self, which: Registers) -> RegsAbi {
        let _ = which;
        RegsAbi::ABI_NONE
    }

    /// A register by its number in `perf_regs.h`.
    fn register(&self, which: Registers, number: u32) -> u64 {
        let _ = (which, number);
        0
    }

    /// Appends the kernel's part of the callchain, the interrupted place first, at most `most` places.
    /// Called in kernel mode only.
    fn kernel_chain(&self, most: usize, chain: &mut Vec<u64>) {
        if most > 0 {
            chain.push(self.ip());
        }
    }

    /// Appends the user's part, where the user is first.
    fn user_chain(&self, most: usize, chain: &mut Vec<u64>) {
        if most > 0 && self.is_user() {
            chain.push(self.ip());
        }
    }

    /// Bytes between the stack pointer and the end of user memory.
    fn user_stack_left(&self) -> u64 {
        0
    }

    /// Appends up to `len` bytes of the user's stack, as far as it can be read.
    fn user_stack(&self, len: usize, bytes: &mut Vec<u8>) {
        let _ = (len, bytes);
    }

    /// The physical address of a virtual one; 0 if unknown.
    fn physical(&self, addr: u64) -> u64 {
        let _ = addr;
        0
    }

    /// The size of the page of a virtual address; 0 if there is none.
    fn page_size(&self, addr: u64) -> u64 {
        let _ = addr;
        0
    }
}

/// The state of a cpu of which only mode and instruction pointer are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtIp {
    /// In user mode.
    pub user: bool,
    /// The instruction pointer.
    pub ip: u64,
}

impl CpuState for AtIp {
    fn is_user(&self) -> bool {
        self.user
    }

    fn ip(&self) -> u64 {
        self.ip
    }
}
