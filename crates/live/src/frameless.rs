//! Where a function returns to that has no frame yet, or no longer: a walk of frame pointers from there misses its
//! caller. The instruction that comes next tells it: those that functions begin with, and those that return.
//!
//! Linux looks for the first of these at probes only, and takes any word on the stack for an address. Here it
//! counts if there is a call before it.

use crate::ptrace::Tid;
use crate::regs::Registers;
use crate::remote;

/// Bytes that tell the next instruction.
pub(crate) const CODE: usize = 4;
/// Bytes of the longest call.
#[cfg(target_arch = "x86_64")]
const CALL: usize = 7;
#[cfg(target_arch = "aarch64")]
const CALL: usize = 4;

/// Where the return address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReturnAddress {
    /// In this word of the stack, from its top on.
    #[cfg(target_arch = "x86_64")]
    Stack(u64),
    #[cfg(target_arch = "aarch64")]
    Link,
}

#[cfg(target_arch = "x86_64")]
fn at(code: [u8; CODE], narrow: bool) -> Option<ReturnAddress> {
    match code {
        // endbr32 and endbr64, push of the frame pointer; ret, with a prefix or a number too
        [0xf3, 0x0f, 0x1e, 0xfa | 0xfb] | [0x55, ..] => Some(ReturnAddress::Stack(0)),
        [0xc2 | 0xc3, ..] | [0xf2 | 0xf3, 0xc3, ..] => Some(ReturnAddress::Stack(0)),
        // The stack pointer becomes the frame pointer, which has just been pushed.
        [0x48, 0x89, 0xe5, _] | [0x48, 0x8b, 0xec, _] if !narrow => Some(ReturnAddress::Stack(1)),
        [0x89, 0xe5, ..] | [0x8b, 0xec, ..] if narrow => Some(ReturnAddress::Stack(1)),
        _ => None,
    }
}

#[cfg(target_arch = "aarch64")]
fn at(code: [u8; CODE], narrow: bool) -> Option<ReturnAddress> {
    let word = u32::from_le_bytes(code);
    match word {
        _ if narrow => None,
        // paciasp and pacibsp, bti c and bti jc, autiasp and autibsp; ret, retaa and retab
        0xd503_233f | 0xd503_237f | 0xd503_245f | 0xd503_24df | 0xd503_23bf | 0xd503_23ff => {
            Some(ReturnAddress::Link)
        }
        0xd65f_03c0 | 0xd65f_0bff | 0xd65f_0fff => Some(ReturnAddress::Link),
        // stp x29, x30, [sp, #...]! and mov x29, sp
        _ if word & 0xffc0_7fff == 0xa980_7bfd || word == 0x9100_03fd => Some(ReturnAddress::Link),
        _ => None,
    }
}

/// Whether code ends with a call.
#[cfg(target_arch = "x86_64")]
fn ends_with_call(code: [u8; CALL]) -> bool {
    // By a register or a place in memory: ff /2, whose length follows from the bytes behind it.
    let [a, b, c, d, e, f, g] = code;
    let operand = |byte: u8, mode: u8| byte & 0xf8 == mode << 6 | 2 << 3;
    let scaled = |byte: u8, mode: u8| byte == mode << 6 | 2 << 3 | 4;
    c == 0xe8
        || f == 0xff && (operand(g, 3) || operand(g, 0))
        || e == 0xff && (operand(f, 1) || scaled(f, 0))
        || d == 0xff && scaled(e, 1)
        || b == 0xff && (operand(c, 2) || c == 0x15)
        || a == 0xff && scaled(b, 2)
}

#[cfg(target_arch = "aarch64")]
fn ends_with_call(code: [u8; CALL]) -> bool {
    // bl; blr, blraa and their like
    let word = u32::from_le_bytes(code);
    word >> 26 == 0x25 || word & 0xfeff_f000 == 0xd63f_0000
}

/// The address that the function returns to where a thread stands, if no frame tells it. `original`: the bytes with
/// which the code begins in truth, where a trap is.
pub(crate) fn caller(tid: Tid, registers: &Registers, original: &[u8]) -> Option<u64> {
    let mut code = [0; CODE];
    remote::read_present(tid, registers.ip(), &mut code).ok()?;
    code[..original.len()].copy_from_slice(original);
    let to = match at(code, registers.is_narrow())? {
        #[cfg(target_arch = "x86_64")]
        ReturnAddress::Stack(skip) => {
            let size = if registers.is_narrow() { 4 } else { 8 };
            let word = |index: u64| {
                let mut word = [0; 8];
                let from = registers.stack().wrapping_add(index * size as u64);
                let got = remote::read_present(tid, from, &mut word[..size]);
                (got == Ok(size)).then(|| u64::from_le_bytes(word))
            };
            if skip > 0 && word(0)? != registers.frame() {
                return None;
            }
            word(skip)?
        }
        // It may be signed.
        #[cfg(target_arch = "aarch64")]
        ReturnAddress::Link => registers.link()? & (crate::TASK_SIZE - 1),
    };
    let mut before = [0; CALL];
    let got = remote::read_present(tid, to.wrapping_sub(CALL as u64), &mut before);
    (got == Ok(CALL) && ends_with_call(before)).then_some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_are_told_from_what_is_none() {
        let ends = |code: &[u8]| {
            let mut bytes = [0x90; CALL];
            bytes[CALL - code.len()..].copy_from_slice(code);
            ends_with_call(bytes)
        };
        for call in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd3],
            &[0xff, 0x10],
            &[0xff, 0x50, 0x18],
            &[0xff, 0x14, 0xc5],
            &[0xff, 0x54, 0x24, 8],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0xff, 0x93, 1, 2, 3, 4],
            &[0xff, 0x94, 0x24, 1, 2, 3, 4],
        ] {
            assert!(ends(call), "{call:x?}");
        }
        // jmp, jmp rax, push [rax], ret
        for other in [&[0xe9, 1, 2, 3, 4][..], &[0xff, 0xe0], &[0xff, 0x30], &[0xc3], &[]] {
            assert!(!ends(other), "{other:x?}");
        }
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn calls_are_told_from_what_is_none() {
        for call in [0x9400_0010u32, 0x97ff_fff0, 0xd63f_0000, 0xd63f_0260, 0xd73f_0811] {
            assert!(ends_with_call(call.to_le_bytes()), "{call:x}");
        }
        // b, br x16, ret, nop
        for other in [0x1400_0010u32, 0xd61f_0200, 0xd65f_03c0, 0xd503_201f] {
            assert!(!ends_with_call(other.to_le_bytes()), "{other:x}");
        }
    }
}
