//! A stopped thread as samples see it: its registers, one copy of the top of its stack, and the callers
//! found by walking frame pointers through that copy.

use crate::frameless;
use crate::ptrace::Tid;
use crate::regs::Registers;
use crate::remote;
use crate::text::Original;
use perfuse_abi::record::RegsAbi;
use perfuse_engine::{CpuState, Registers as Which};
use std::cell::RefCell;

/// Bytes of the stack that are copied at once.
const WINDOW: usize = 16 << 10;
/// How many copies a walk makes at most.
const MOST_WINDOWS: usize = 8;

/// A stopped thread.
#[derive(Debug)]
pub struct StoppedThread {
    tid: Tid,
    registers: Registers,
    /// It was in a system call when it was asked to stop, and stands where that returns to.
    in_kernel: bool,
    /// The bytes that its code begins with, where a trap is.
    original: Option<Original>,
    stack: RefCell<Window>,
}

#[derive(Debug, Default)]
struct Window {
    from: u64,
    bytes: Vec<u8>,
    copies: usize,
}

impl Window {
    /// A word of the stack; another part of it is copied where it is needed, upwards only.
    fn word(&mut self, tid: Tid, addr: u64, size: usize) -> Option<u64> {
        let inside = |window: &Window| {
            let at = usize::try_from(addr.checked_sub(window.from)?).ok()?;
            window.bytes.get(at..at.checked_add(size)?).map(|bytes| {
                let mut word = [0; 8];
                word[..size].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            })
        };
        if let Some(word) = inside(self) {
            return Some(word);
        }
        if self.copies == MOST_WINDOWS {
            return None;
        }
        self.copies += 1;
        self.copy(tid, addr, WINDOW);
        inside(self)
    }

    fn copy(&mut self, tid: Tid, from: u64, len: usize) {
        self.from = from;
        self.bytes.resize(len, 0);
        let got = remote::read_present(tid, from, &mut self.bytes).unwrap_or(0);
        self.bytes.truncate(got);
    }
}

impl StoppedThread {
    /// Looks at a tracee that is stopped, and stays so while this is used.
    pub fn new(tid: Tid, registers: Registers) -> Self {
        StoppedThread { tid, registers, in_kernel: false, original: None, stack: RefCell::default() }
    }

    /// The same of one that was in the kernel, in place of this.
    pub(crate) fn in_kernel(self, in_kernel: bool) -> Self {
        StoppedThread { in_kernel, ..self }
    }

    /// The same at a trap, in place of this.
    pub(crate) fn at_trap(tid: Tid, registers: Registers, original: Original) -> Self {
        StoppedThread { original: Some(original), ..StoppedThread::new(tid, registers) }
    }

    /// Its registers.
    pub fn registers(&self) -> &Registers {
        &self.registers
    }
}

impl CpuState for StoppedThread {
    fn is_user(&self) -> bool {
        !self.in_kernel
    }

    fn ip(&self) -> u64 {
        if self.in_kernel { crate::SOMEWHERE_IN_KERNEL } else { self.registers.ip() }
    }

    fn registers(&self, which: Which) -> RegsAbi {
        match which {
            // Those of the kernel are not known.
            Which::Interrupted if self.in_kernel => RegsAbi::ABI_NONE,
            _ => self.registers.abi(),
        }
    }

    fn register(&self, _which: Which, number: u32) -> u64 {
        self.registers.sampled(number)
    }

    fn user_chain(&self, most: usize, chain: &mut Vec<u64>) {
        let limit = chain.len() + most;
        if most == 0 {
            return;
        }
        chain.push(self.registers.ip());
        let size = if self.registers.abi() == RegsAbi::ABI_32 { 4 } else { 8 };
        let window = &mut *self.stack.borrow_mut();
        let (stack, mut frame) = (self.registers.stack(), self.registers.frame());
        if window.bytes.is_empty() && window.copies == 0 {
            window.copy(self.tid, stack, WINDOW);
        }
        let original = self.original.as_ref().map_or(&[][..], |bytes| bytes);
        let caller = frameless::caller(self.tid, &self.registers, original);
        chain.extend(caller.filter(|_| chain.len() < limit));
        if frame < stack {
            return;
        }
        while chain.len() < limit && frame % size as u64 == 0 {
            let next = window.word(self.tid, frame, size);
            let caller = window.word(self.tid, frame.saturating_add(size as u64), size);
            let (Some(next), Some(caller)) = (next, caller) else { break };
            if caller == 0 {
                break;
            }
            chain.push(caller);
            // Frames lie one above the other.
            if next <= frame {
                break;
            }
            frame = next;
        }
    }

    fn user_stack_left(&self) -> u64 {
        crate::TASK_SIZE.saturating_sub(self.registers.stack())
    }

    fn user_stack(&self, len: usize, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.resize(start + len, 0);
        let mut done = 0;
        while done < len {
            let from = self.registers.stack().wrapping_add(done as u64);
            match remote::read_present(self.tid, from, &mut bytes[start + done..]) {
                Ok(got) if got > 0 => done += got,
                _ => break,
            }
        }
        bytes.truncate(start + done);
    }
}

/// A thread in its last system call: its memory is gone, and it cannot be stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExitingThread;

impl CpuState for ExitingThread {
    fn is_user(&self) -> bool {
        false
    }

    fn ip(&self) -> u64 {
        crate::SOMEWHERE_IN_KERNEL
    }

    fn has_user(&self) -> bool {
        false
    }
}
