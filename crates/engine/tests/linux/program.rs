//! The state of this program, as the engine is told of it.

use perfuse_engine::abi::record::RegsAbi;
use perfuse_engine::{CpuState, Registers};

/// The state of this program: its values are not known, but all fields are there.
pub(crate) struct Program;

impl CpuState for Program {
    fn is_user(&self) -> bool {
        true
    }

    fn ip(&self) -> u64 {
        0x40_1000
    }

    fn registers(&self, _which: Registers) -> RegsAbi {
        RegsAbi::ABI_64
    }

    fn user_stack_left(&self) -> u64 {
        1 << 20
    }

    fn user_stack(&self, len: usize, bytes: &mut Vec<u8>) {
        bytes.resize(bytes.len() + len, 0);
    }

    fn physical(&self, addr: u64) -> u64 {
        addr
    }

    fn page_size(&self, addr: u64) -> u64 {
        if addr == 0 { 0 } else { 4096 }
    }
}
