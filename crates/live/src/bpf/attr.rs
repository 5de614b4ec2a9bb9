//! The arguments of `bpf(2)`: `union bpf_attr`, copied as Linux copies it.

use super::Caller;
use perfuse_abi::Errno;

/// Bytes of the union in Linux 6.18.
const SIZE: usize = 168;
const PAGE: usize = 4096;

/// A copy of the arguments, and where they are.
#[derive(Debug)]
pub(super) struct Attr {
    bytes: [u8; SIZE],
    addr: u64,
    /// Bytes that the caller says there are.
    size: u32,
}

impl Attr {
    /// Copies arguments of this size: `E2BIG` if there is something behind what is known, `EFAULT`.
    pub(super) fn read(caller: &dyn Caller, addr: u64, size: u32) -> Result<Self, Errno> {
        let len = size as usize;
        if len > PAGE {
            return Err(Errno::E2BIG);
        }
        if len > SIZE {
            let mut tail = [0; PAGE];
            let tail = &mut tail[..len - SIZE];
            caller.read(addr.wrapping_add(SIZE as u64), tail)?;
            if tail.iter().any(|byte| *byte != 0) {
                return Err(Errno::E2BIG);
            }
        }
        let mut bytes = [0; SIZE];
        caller.read(addr, &mut bytes[..len.min(SIZE)])?;
        Ok(Attr { bytes, addr, size })
    }

    /// Nothing is asked for behind this field: `EINVAL`.
    pub(super) fn ends_at(&self, end: usize) -> Result<(), Errno> {
        if self.bytes[end..].iter().any(|byte| *byte != 0) { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Whether the caller knows a field that ends here.
    pub(super) fn reaches(&self, end: u32) -> bool {
        self.size >= end
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(std::array::from_fn(|index| self.bytes[at + index]))
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|index| self.bytes[at + index]))
    }

    pub(super) fn name(&self, at: usize) -> [u8; 16] {
        std::array::from_fn(|index| self.bytes[at + index])
    }

    /// Where a field is in the caller's memory.
    pub(super) fn address_of(&self, at: u64) -> u64 {
        self.addr.wrapping_add(at)
    }
}
