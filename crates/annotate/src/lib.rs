#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! [`Sampled::of`] finds the functions of a profile in which samples were, with the cost of each address. [`Annotator`] reads
//! a function's code and debug information and makes an [`Annotated`] of it, which owns all that it tells. Both steps can be had
//! without a profile: [`annotate`] takes costs, code, lines and names from wherever they come, [`disassemble`] takes bytes.
//! [`text`] shows functions to people.
#![forbid(unsafe_code)]

mod arm64;
mod arrows;
mod code;
mod costs;
mod disassemble;
mod function;
mod inlined;
mod lines;
pub mod text;
mod x86;

pub use arrows::Arrows;
pub use code::{Arch, Decoded, Flow, Next, Syntax};
pub use costs::{Cost, Function, Sampled, Skid};
pub use disassemble::{disassemble, first_instruction};
pub use function::{Annotated, Annotator, Instruction, Parts, Target, annotate};
pub use inlined::InlinedCall;
pub use lines::{Line, SourceFile, SourceLine};
pub use perfuse_profile::Sources;
