//! Programs of a few instructions, of which each is known: an ELF file made by hand, without a library or a
//! loader. For what counts instructions.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file with such a program, removed on drop.
#[derive(Debug)]
pub struct Tiny {
    path: PathBuf,
}

/// Where the program begins, in memory.
pub const ENTRY: u64 = BASE + HEADERS as u64;
/// Where it begins, in the file.
pub const ENTRY_OFFSET: u64 = HEADERS as u64;

const BASE: u64 = 0x40_0000;
const HEADERS: usize = 64 + 56;
const PAGE: u64 = 0x1_0000;

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(not(target_arch = "x86_64"))]
const MACHINE: u16 = 183;

/// Instructions of [`Tiny::loops`] beside its rounds.
pub const LOOPS_OUTSIDE: u64 = 4;
/// Instructions of each round of [`Tiny::loops`].
pub const LOOPS_ROUND: u64 = 2;
/// The round of [`Tiny::loops`] begins so many bytes behind [`ENTRY`].
#[cfg(target_arch = "x86_64")]
pub const LOOPS_AT: u64 = 5;
/// The round of [`Tiny::loops`] begins so many bytes behind [`ENTRY`].
#[cfg(not(target_arch = "x86_64"))]
pub const LOOPS_AT: u64 = 4;
/// The second instruction of the round is so many bytes behind the first one.
#[cfg(target_arch = "x86_64")]
pub const LOOPS_SECOND: u64 = 2;
/// The second instruction of the round is so many bytes behind the first one.
#[cfg(not(target_arch = "x86_64"))]
pub const LOOPS_SECOND: u64 = 4;

impl Tiny {
    /// A program of this code, at [`ENTRY`].
    pub fn new(code: &[u8]) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("perfuse-tiny-{}-{number}", std::process::id()));
        fs::write(&path, elf(code)).expect("a file can be written");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("it can be made a program");
        Tiny { path }
    }

    /// A program that counts down from `rounds`, two instructions for each, and exits with 0: one instruction
    /// before them, and three behind, of which the last is the system call.
    pub fn loops(rounds: u16) -> Self {
        let mut code = Vec::new();
        if cfg!(target_arch = "x86_64") {
            code.push(0xb9);
            code.extend(u32::from(rounds).to_le_bytes());
            // dec %ecx; jnz; xor %edi, %edi; mov $60, %eax; syscall
            code.extend([0xff, 0xc9, 0x75, 0xfc, 0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]);
        } else {
            // mov w1, #rounds; subs w1, w1, #1; b.ne; mov w0, #0; mov w8, #93; svc #0
            let words = [
                0x5280_0001 | u32::from(rounds) << 5,
                0x7100_0421,
                0x54ff_ffe1,
                0x5280_0000,
                0x5280_0ba8,
                0xd400_0001,
            ];
            words.iter().for_each(|word| code.extend(word.to_le_bytes()));
        }
        Tiny::new(&code)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// One segment with headers and code.
fn elf(code: &[u8]) -> Vec<u8> {
    let size = (HEADERS + code.len()) as u64;
    let mut file = Vec::new();
    // The header of the file: 64 bits, little-endian, executable.
    file.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    file.extend([0; 8]);
    file.extend(2u16.to_le_bytes());
    file.extend(MACHINE.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    [ENTRY, 64, 0].iter().for_each(|word| file.extend(word.to_le_bytes()));
    file.extend(0u32.to_le_bytes());
    [64u16, 56, 1, 64, 0, 0].iter().for_each(|half| file.extend(half.to_le_bytes()));
    // The segment: to be loaded, readable and executable.
    [1u32, 5].iter().for_each(|word| file.extend(word.to_le_bytes()));
    [0, BASE, BASE, size, size, PAGE].iter().for_each(|word| file.extend(word.to_le_bytes()));
    file.extend(code);
    file
}
