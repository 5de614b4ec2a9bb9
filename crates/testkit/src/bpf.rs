//! The smallest BPF programs there are, loaded without a compiler: `r0 = value; exit`.

use crate::Skip;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The kind of place that a program may be attached to: `enum bpf_prog_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProgramType {
    /// kprobes and uprobes.
    Kprobe = 2,
    /// Tracepoints.
    Tracepoint = 5,
    /// Overflows of events.
    PerfEvent = 7,
}

/// A loaded program.
#[derive(Debug)]
pub struct Program(OwnedFd);

const BPF_PROG_LOAD: i64 = 5;
const BPF_OBJ_GET_INFO_BY_FD: i64 = 15;

/// The part of `union bpf_attr` that loading needs.
#[repr(C)]
#[derive(Default)]
struct Load {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// The part of `union bpf_attr` that asking for information needs.
#[repr(C)]
struct Info {
    fd: u32,
    len: u32,
    info: u64,
}

impl Program {
    /// Loads a program that returns `value`. Skips where this user or kernel may not.
    pub fn returning(program_type: ProgramType, value: i32) -> Result<Self, Skip> {
        // struct bpf_insn: opcode, registers, offset, immediate. BPF_ALU64|BPF_MOV|BPF_K; BPF_JMP|BPF_EXIT.
        let value = value.to_ne_bytes();
        let instructions =
            [[0xb7, 0, 0, 0, value[0], value[1], value[2], value[3]], [0x95, 0, 0, 0, 0, 0, 0, 0]];
        let load = Load {
            program_type: program_type as u32,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            ..Load::default()
        };
        // SAFETY: the pointers within are to data that lives through the call; the kernel takes an attr
        // shorter than its own.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const load, size_of_val(&load)) };
        if fd < 0 {
            return Err(Skip::needs("BPF", io::Error::last_os_error()));
        }
        // SAFETY: the kernel just gave us this descriptor, nobody else has it.
        Ok(Program(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// The kernel's number of the program.
    pub fn id(&self) -> u32 {
        // struct bpf_prog_info starts with the type and the id.
        let mut known = [0u32; 2];
        let info = Info {
            fd: self.0.as_raw_fd().unsigned_abs(),
            len: size_of_val(&known) as u32,
            info: known.as_mut_ptr() as u64,
        };
        // SAFETY: the pointer within is to as many bytes as the length says, alive through the call.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &raw const info, size_of_val(&info))
        };
        assert_eq!(result, 0, "BPF_OBJ_GET_INFO_BY_FD: {}", io::Error::last_os_error());
        known[1]
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
