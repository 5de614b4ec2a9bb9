//! Symbols that distributions leave in stripped files: `.gnu_debugdata`, a whole ELF file with nothing but
//! a symbol table, compressed as xz. Only what such sections are made of is understood: one stream of
//! LZMA2 blocks. The checksums of xz are not verified; what comes out is checked as any ELF file is.

use super::Elf;
use super::symbols::Procedures;
use crate::error::{Error, Problem};
use crate::table::TableBuilder;
use lzma_rust2::Lzma2Reader;
use std::io::Read;

const MAX_COMPRESSED: u64 = 64 << 20;
/// How much may come out, and how large a window may be asked for.
const MAX_PLAIN: u64 = 128 << 20;
const MAX_WINDOW: u32 = 64 << 20;

impl Elf {
    /// Adds the compressed symbols; false if there are none.
    pub(crate) fn add_debugdata(&self, to: &mut TableBuilder) -> Result<bool, Error> {
        let Some(section) = self.section(".gnu_debugdata") else { return Ok(false) };
        let structure = "compressed symbol table";
        let packed = self.bytes_of(section, MAX_COMPRESSED, structure)?;
        let malformed = |what| self.image.error(section.offset, structure, Problem::Malformed(what));
        let plain = unpack(&packed).map_err(malformed)?;
        let inner = Elf::from_bytes(&format!("{}[.gnu_debugdata]", self.image.name), plain)?;
        inner.add_symtab(to, &Procedures::default())
    }
}

/// Decompresses an xz stream.
fn unpack(packed: &[u8]) -> Result<Vec<u8>, &'static str> {
    let rest = packed.strip_prefix(b"\xfd7zXZ\0").ok_or("not xz")?;
    let flags = rest.get(1).ok_or("it ends in its header")?;
    let check_size = [0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64][usize::from(flags & 15)];
    let mut blocks = rest.get(6..).ok_or("it ends in its header")?;
    let mut plain = Vec::new();
    // A block begins with the size of its header, the index after the last one with a zero.
    while let Some(&size) = blocks.first().filter(|&&size| size != 0) {
        let header_len = (usize::from(size) + 1) * 4;
        let header = blocks.get(1..header_len).ok_or("it ends in the header of a block")?;
        let window = window_of(header).ok_or("compressed in another way than LZMA2")?;
        let body = &blocks[header_len..];
        let len = lzma2_len(body).ok_or("it ends in a block")?;
        let room = MAX_PLAIN - plain.len() as u64;
        let mut reader = Lzma2Reader::new(&body[..len], window, None).take(room);
        reader.read_to_end(&mut plain).map_err(|_| "LZMA2 data that cannot be decompressed")?;
        if plain.len() as u64 >= MAX_PLAIN {
            return Err("too much comes out");
        }
        let next = len.next_multiple_of(4) + check_size;
        blocks = body.get(next..).ok_or("it ends in a block")?;
    }
    Ok(plain)
}

/// The window in the header of a block whose only filter is LZMA2.
fn window_of(header: &[u8]) -> Option<u32> {
    let (&flags, mut rest) = header.split_first()?;
    if flags & 0x3f != 0 {
        return None; // more filters, or reserved
    }
    // The compressed and the plain size, each there or not.
    for _ in 0..(flags >> 6).count_ones() {
        let end = rest.iter().position(|byte| byte & 0x80 == 0)?;
        rest = &rest[end + 1..];
    }
    let &[0x21, 1, bits, ..] = rest else { return None };
    let window = match bits {
        0..40 => (2 | u32::from(bits & 1)) << (bits / 2 + 11),
        _ => return None,
    };
    Some(window.min(MAX_WINDOW))
}

/// How many bytes a sequence of LZMA2 chunks has.
fn lzma2_len(body: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(usize::from(u16::from_be_bytes([*body.get(at)?, *body.get(at + 1)?])));
    let mut at = 0;
    loop {
        at = match *body.get(at)? {
            0 => return Some(at + 1),
            1 | 2 => at + 3 + word(at + 1)? + 1,
            0x80.. => at + 5 + usize::from(body[at] >= 0xc0) + word(at + 3)? + 1,
            _ => return None,
        };
        if at >= body.len() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unpack;

    /// A line of text through `xz`: one block, CRC-64.
    const PACKED: &[u8] = b"\
        \xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x16\x00\x00\x00\x74\x2f\
        \xe5\xa3\xe0\x00\x1f\x00\x10\x5d\x00\x38\x19\x4a\xab\x04\x20\xb9\x9c\x19\xd3\x46\x79\x82\
        \xa8\x00\x00\x00\xde\xdf\x8b\xf2\x27\x06\xdd\xb5\x00\x01\x2c\x20\x4d\xfe\xd9\x22\x1f\xb6\
        \xf3\x7d\x01\x00\x00\x00\x00\x04\x59\x5a";

    #[test]
    fn a_stream_is_decompressed() {
        assert_eq!(unpack(PACKED).expect("xz"), b"perfuse perfuse perfuse perfuse\n");
    }

    #[test]
    fn damage_is_an_error() {
        for end in 0..PACKED.len() - 30 {
            assert!(unpack(&PACKED[..end]).is_err() || end < 6 + 6 + 1, "{end}");
        }
        let mut other_filter = PACKED.to_vec();
        other_filter[14] = 4;
        assert!(unpack(&other_filter).is_err());
    }
}
