//! BPF programs without a kernel: instructions as data, an assembler, a verifier, maps, and an interpreter.
//!
//! The programs are those of Linux that trace: on overflows of events, tracepoints, raw tracepoints and probes, and socket filters,
//! which `BPF_PROG_TEST_RUN` runs. The same instructions load into Linux by `bpf(2)`, or into a [`Machine`] here:
//!
//! - [`Insn`] is an instruction, [`insn`] its eight bytes in either byte order; [`assemble`] reads text, `Display` writes it.
//! - [`Maps`] are what programs share with their owner, with the calls of `bpf(2)` and Linux's errnos, within a limit of memory.
//! - [`verify()`] proves that a program reads and writes only what it may, and ends; a [`Refusal`] says which instruction is in
//!   the way, what its register may hold, and what would help; [`log`] reads the same out of the log of Linux.
//! - [`btf`] reads types, of programs and of the kernel; [`object`], with the feature of this name, programs and maps of object files.
//! - [`Machine`] keeps verified programs with their maps, and runs them within a budget of instructions in a [`World`], which answers
//!   what helpers ask: time, process, memory of the kernel and of users, events.
//!
//! ```
//! use perfuse_bpf::{Machine, MapKind, MapSpec, Maps, NoWorld, ProgramSpec, ProgramType, assemble};
//!
//! let mut machine = Machine::new(Maps::new(1, 1 << 20, 7));
//! let counts = machine.maps.create(MapSpec::new(MapKind::Array, 4, 8, 1))?;
//! let insns = assemble("
//!     *(u32 *)(r10 -4) = 0
//!     r1 = map[idx:0]
//!     r2 = r10
//!     r2 += -4
//!     call map_lookup_elem
//!     if r0 == 0 goto out
//!     r1 = 1
//!     lock *(u64 *)(r0 +0) += r1
//!     out: r0 = 1
//!     exit")?;
//! let program = machine.load(ProgramSpec { program_type: ProgramType::PerfEvent, insns: &insns, maps: &[counts] })?;
//! for _ in 0..3 {
//!     let ran = machine.run(program, &mut [0; 184], &mut NoWorld, 1000)?;
//!     assert_eq!(ran.result, Ok(1));
//! }
//! assert_eq!(machine.maps.get(counts)?.lookup(&[0; 4])?, 3u64.to_ne_bytes());
//!
//! // Without the comparison the program is refused.
//! let insns = assemble("*(u32 *)(r10 -4) = 5; r1 = map[idx:0]; r2 = r10; r2 += -4; call map_lookup_elem; r0 = *(u64 *)(r0 +0); exit")?;
//! let spec = ProgramSpec { program_type: ProgramType::PerfEvent, insns: &insns, maps: &[counts] };
//! assert_eq!(
//!     machine.load(spec).unwrap_err().to_string(),
//!     "instruction 6 (r0 = *(u64 *)(r0 +0)): r0 is a value of map 0 (array of 8 bytes), or null\n\
//!      → compare it with 0 first, and go on with it where it is not"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Nothing escapes.** The verifier is believed by nobody: the interpreter looks up every pointer of every access among the objects
//! of the run, so a program that was wrongly let through ends with a [`Fault`] instead of touching its host.
//!
//! **Where it is stricter than Linux.** Numbers that are equal but for their history are told apart (Linux forgets those that no proof
//! needs), so programs with many independent conditions take more steps of the million. `bpf_for_each_map_elem`, functions of the
//! kernel (kfuncs), `may_goto`, variables of the kernel and the memory of `task_struct` are refused.
//!
//! **Where it is looser.** Functions that `bpf_loop` calls need no types (BTF); functions that call each other have 512 bytes of stack
//! each, not together; what is known of a constant's single bytes and of halves of registers goes further in places.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod btf;
pub mod helper;
pub mod insn;
pub mod log;
mod machine;
pub mod map;
mod memory;
mod names;
#[cfg(feature = "object")]
pub mod object;
mod program;
mod text;
pub mod verify;
mod vm;
mod world;

pub use insn::{Insn, Reg};
pub use machine::{Machine, Program, ProgramId, ProgramSpec, Ran, run_unverified};
pub use map::{Map, MapId, MapKind, MapSpec, Maps};
pub use perfuse_abi::{ByteOrder, Errno};
pub use program::{ContextAccess, ProgramType};
pub use text::{AssembleError, assemble, listing};
pub use verify::{Reason, Refusal, Verified, verify};
pub use vm::{Code, Fault};
pub use world::{NoWorld, World};
