//! The sections by which stacks are unwound, and what tells beforehand how they can be.

use super::Elf;
use crate::error::Error;
use object::{Endian, elf};

/// No program has larger tables.
const MAX_TABLES: u64 = 1 << 30;

/// No program names more libraries, or longer ones, in bytes of sections.
const MAX_DYNAMIC: u64 = 1 << 20;
const MAX_DYNAMIC_STRINGS: u64 = 64 << 20;
/// The tag of a library's name.
const NEEDED: u64 = elf::DT_NEEDED as u64;
/// The libraries that are told, at most.
const MAX_NEEDED: usize = 1000;

/// The tables by which stacks are unwound, and what their addresses count from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnwindSections {
    /// `.eh_frame`, which is loaded with the program. Nothing if there is none.
    pub eh_frame: Vec<u8>,
    /// Where it is loaded.
    pub eh_frame_address: u64,
    /// `.debug_frame`, which debug files may have.
    pub debug_frame: Vec<u8>,
    /// Where code begins (`.text`).
    pub text_address: u64,
    /// Where the table of offsets begins (`.got`).
    pub got_address: u64,
}

impl Elf {
    /// The tables by which stacks are unwound.
    ///
    /// # Errors
    ///
    /// A section cannot be read.
    pub fn unwind_sections(&self) -> Result<UnwindSections, Error> {
        self.unwind_sections_within(MAX_TABLES)
    }

    /// The same, if neither has more bytes than that.
    ///
    /// # Errors
    ///
    /// A section cannot be read, or is larger.
    pub fn unwind_sections_within(&self, most: u64) -> Result<UnwindSections, Error> {
        let address = |name| self.section(name).map_or(0, |section| section.address);
        let (most, what) = (most.min(MAX_TABLES), "unwinding tables");
        let eh_frame = self.section(".eh_frame");
        let eh_frame = eh_frame.map(|section| self.bytes_of(section, most, what)).transpose()?;
        let debug_frame = self.debug_section(".debug_frame");
        let debug_frame = debug_frame.map(|section| self.plain_bytes_of(section, most, what));
        Ok(UnwindSections {
            eh_frame: eh_frame.unwrap_or_default(),
            eh_frame_address: address(".eh_frame"),
            debug_frame: debug_frame.transpose()?.unwrap_or_default(),
            text_address: address(".text"),
            got_address: address(".got"),
        })
    }

    /// Whether it has unwinding tables for debuggers, `.debug_frame`.
    pub fn has_debug_frame(&self) -> bool {
        self.debug_section(".debug_frame").is_some_and(|section| section.kind != elf::SHT_NOBITS)
    }

    /// The names of the libraries that it says it needs (`DT_NEEDED`). None for programs of 32 bits.
    ///
    /// # Errors
    ///
    /// A section cannot be read.
    pub fn needed(&self) -> Result<Vec<Vec<u8>>, Error> {
        let dynamic = self.sections.iter().find(|section| section.kind == elf::SHT_DYNAMIC);
        let Some(dynamic) = dynamic.filter(|_| self.is_64) else { return Ok(Vec::new()) };
        let Some(strings) = self.sections.get(dynamic.link as usize) else { return Ok(Vec::new()) };
        let strings = self.bytes_of(strings, MAX_DYNAMIC_STRINGS, "names of libraries")?;
        let bytes = self.bytes_of(dynamic, MAX_DYNAMIC, "dynamic section")?;
        let words = bytes.chunks_exact(16).map(|entry| {
            let word =
                |at: usize| entry[at..at + 8].first_chunk().map_or(0, |word| self.endian.read_u64(*word));
            (word(0), word(8))
        });
        let names = words.filter(|(tag, _)| *tag == NEEDED).filter_map(|(_, at)| {
            let rest = strings.get(usize::try_from(at).ok()?..)?;
            Some(rest[..rest.iter().position(|&byte| byte == 0)?].to_vec())
        });
        Ok(names.take(MAX_NEEDED).collect())
    }
}
