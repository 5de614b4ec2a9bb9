//! Sections that are compressed, as linkers and `objcopy --compress-debug-sections` make them: by zlib, or by zstd;
//! before ELF had a flag for that, by zlib under a name of their own.

use super::{Elf, Section};
use crate::error::{Error, Problem};
use flate2::{Decompress, FlushDecompress, Status};
use object::Endian;
use object::elf;

/// No program has larger sections of debug information.
const MAX_SECTION: u64 = 1 << 31;

impl Elf {
    /// The bytes of a section of debug information, if there is such a section.
    pub(crate) fn debug_bytes(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let section = self.debug_section(name);
        section.map(|section| self.plain_bytes_of(section, MAX_SECTION, "debug information")).transpose()
    }

    /// Whether the file has debug information of its own: functions, and with them lines.
    pub fn has_debug_info(&self) -> bool {
        self.debug_section(".debug_info")
            .is_some_and(|section| section.kind != elf::SHT_NOBITS && section.size > 0)
    }

    /// A section of debug information: `.debug_line`, or `.zdebug_line`.
    pub(super) fn debug_section(&self, name: &str) -> Option<&Section> {
        self.section(name).or_else(|| self.section(&name.replacen(".debug", ".zdebug", 1)))
    }

    /// The bytes of a section before it was compressed, if it is.
    pub(super) fn plain_bytes_of(
        &self,
        section: &Section,
        limit: u64,
        structure: &'static str,
    ) -> Result<Vec<u8>, Error> {
        let bytes = self.bytes_of(section, limit, structure)?;
        let is_old = self.name_of(section).starts_with(b".zdebug") && bytes.starts_with(b"ZLIB");
        if !(is_old || section.is(elf::SHF_COMPRESSED)) {
            return Ok(bytes);
        }
        let malformed = |what| self.image.error(section.offset, structure, Problem::Malformed(what));
        let header = if is_old { old_compression(&bytes) } else { self.compression(&bytes) };
        let (kind, size, header) = header.ok_or_else(|| malformed("no header of a compressed section"))?;
        if size > limit {
            return Err(malformed("larger than such a section ever is"));
        }
        let size = usize::try_from(size).map_err(|_| malformed("larger than memory"))?;
        let compressed = &bytes[header..];
        let plain = match kind {
            elf::ELFCOMPRESS_ZLIB => zlib(compressed, size),
            elf::ELFCOMPRESS_ZSTD => zstd(compressed, size),
            _ => return Err(malformed("compressed in a way that is not known")),
        };
        plain.filter(|plain| plain.len() == size).ok_or_else(|| malformed("compressed, and damaged"))
    }

    /// The way, the size before, and the length of the header of a compressed section.
    fn compression(&self, bytes: &[u8]) -> Option<(u32, u64, usize)> {
        let word = |at: usize| Some(self.endian.read_u32(*bytes.get(at..)?.first_chunk()?));
        let (size, header) = match self.is_64 {
            true => (self.endian.read_u64(*bytes.get(8..)?.first_chunk()?), 24),
            false => (word(4)?.into(), 12),
        };
        (bytes.len() >= header).then_some((word(0)?, size, header))
    }
}

/// The same of the old way: a word, and the size as a number with its highest byte first, on all machines.
fn old_compression(bytes: &[u8]) -> Option<(u32, u64, usize)> {
    let size = u64::from_be_bytes(*bytes.get(4..)?.first_chunk()?);
    Some((elf::ELFCOMPRESS_ZLIB, size, 12))
}

/// Bytes as they were before zlib compressed them, if those are no more than `size`.
fn zlib(compressed: &[u8], size: usize) -> Option<Vec<u8>> {
    /// A byte becomes no more than that (RFC 1951: 258 bytes take two bits).
    const MOST: usize = 1032;
    let mut plain = Vec::with_capacity(size.min(compressed.len().saturating_mul(MOST)));
    let status = Decompress::new(true).decompress_vec(compressed, &mut plain, FlushDecompress::Finish);
    status.is_ok_and(|status| status == Status::StreamEnd).then_some(plain)
}

#[cfg(feature = "zstd")]
fn zstd(compressed: &[u8], size: usize) -> Option<Vec<u8>> {
    zstd::bulk::decompress(compressed, size).ok()
}

#[cfg(not(feature = "zstd"))]
fn zstd(_: &[u8], _: usize) -> Option<Vec<u8>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_way_has_the_highest_byte_of_the_size_first() {
        let header = b"ZLIB\0\0\0\0\0\0\x01\x02";
        assert_eq!(old_compression(header), Some((elf::ELFCOMPRESS_ZLIB, 0x102, 12)));
        assert_eq!(old_compression(&header[..11]), None);
    }
}
