//! An instruction, whichever machine it is for.

use serde::Serialize;

/// No function is taken apart further: so many bytes.
pub(crate) const MOST_BYTES: usize = 256 << 10;

/// The machine that code is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Arch {
    /// x86 with 64 bits.
    X86_64,
    /// x86 with 32 bits.
    X86,
    /// arm64.
    Arm64,
}

impl Arch {
    /// Of an ELF file: a number of the `EM_*` family. `None` for machines whose code is not taken apart.
    pub fn of_elf(machine: u16) -> Option<Self> {
        match machine {
            62 => Some(Arch::X86_64),
            3 => Some(Arch::X86),
            183 => Some(Arch::Arm64),
            _ => None,
        }
    }
}

/// The way in which instructions of x86 are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// As assemblers of Unix do it: `mov %rax,%rbx` changes `rbx`.
    #[default]
    Att,
    /// As the processor's manuals do it: `mov rbx, rax` changes `rbx`.
    Intel,
}

/// Where control goes from an instruction to the address that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flow {
    /// It jumps there, always or on a condition.
    Jump,
    /// It calls the function there.
    Call,
    /// Nowhere: it reads, writes or only names what is there.
    Data,
}

/// The instruction that runs after another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The one behind it, or on a condition another one.
    Behind,
    /// Another one: it jumps, calls or returns, always.
    Elsewhere,
    /// Nobody knows: the bytes are no instruction.
    Unknown,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub len: usize,
    /// Its text.
    pub text: String,
    /// The address that it names, and what for.
    pub target: Option<(Flow, u64)>,
    /// Where control goes on.
    pub next: Next,
}

/// A mnemonic with room for longer ones, as disassemblers write it.
pub(crate) fn padded(text: &str) -> String {
    match text.split_once(' ') {
        Some((mnemonic, operands)) => format!("{mnemonic:<6} {}", operands.trim_start()),
        None => text.to_owned(),
    }
}
