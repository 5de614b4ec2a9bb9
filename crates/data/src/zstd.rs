//! Decompression of the zstd streams in `perf -z` recordings (RFC 8878), made for how perf writes them: one
//! frame that is flushed after every record and never ended.
//!
//! A decoder for whole frames cannot read that in order. It holds back as many bytes as the frame's window
//! until the frame ends, while the reader of a recording must have every byte that was flushed before the
//! next uncompressed record. Here the output and the window are one buffer, so whatever a block produced
//! can be looked at at once. Blocks are taken one at a time, only when more output is wanted, and none may
//! produce more than the 128 KiB the format allows: memory stays within the window, one block in and one
//! block out, whatever the bytes say.
//!
//! Not here: dictionaries (perf uses none) and the comparison of content checksums (perf writes none).

mod bits;
mod block;
mod fse;
mod huffman;

use block::Tables;
use std::fmt;

/// The largest window that is accepted: that of zstd's highest level, which perf's `-z` can ask for.
const MAX_WINDOW: u64 = 128 << 20;
/// The most a block may produce or take.
const MAX_BLOCK: usize = 128 << 10;
const MAGIC: u32 = 0xfd2f_b528;
const SKIPPABLE: u32 = 0x184d_2a50;

/// Why compressed bytes cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZstdError(pub(crate) &'static str);

impl fmt::Display for ZstdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a zstd stream: {}", self.0)
    }
}

impl std::error::Error for ZstdError {}

/// What the next input bytes are.
#[derive(Clone, Copy, Debug)]
enum Expect {
    FrameHeader,
    Block,
    Checksum,
    Skip(u64),
}

/// A stream of frames, decompressed block by block.
#[derive(Debug)]
pub(crate) struct Decoder {
    expect: Expect,
    has_checksum: bool,
    window: usize,
    /// Bytes that the current frame has produced, at most `usize::MAX`.
    produced: usize,
    tables: Tables,
    /// Input not yet decoded, from `input_start` on.
    input: Vec<u8>,
    input_start: usize,
    /// The window, then the output not yet taken, which starts at `taken`.
    out: Vec<u8>,
    taken: usize,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Decoder {
            expect: Expect::FrameHeader,
            has_checksum: false,
            window: 0,
            produced: 0,
            tables: Tables::default(),
            input: Vec::new(),
            input_start: 0,
            out: Vec::new(),
            taken: 0,
        }
    }

    /// Adds compressed bytes. They are decoded when [`step`](Self::step) asks for them.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.input.drain(..self.input_start);
        self.input_start = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Output that was not taken yet.
    #[inline]
    pub(crate) fn output(&self) -> &[u8] {
        &self.out[self.taken..]
    }

    /// Takes `len` bytes of the output.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) {
        self.taken = (self.taken + len).min(self.out.len());
    }

    /// Whether input is left that belongs to an incomplete block or header.
    pub(crate) fn has_input(&self) -> bool {
        self.input_start < self.input.len()
    }

    /// Decodes the next block, or the next header. `false` if the input does not hold a whole one.
    pub(crate) fn step(&mut self) -> Result<bool, ZstdError> {
        let input = &self.input[self.input_start..];
        let consumed = match self.expect {
            Expect::FrameHeader => match frame_header(input)? {
                None => return Ok(false),
                Some((FrameHeader::Skippable(size), len)) => {
                    self.expect = Expect::Skip(size.into());
                    len
                }
                Some((FrameHeader::Zstd { window, has_checksum }, len)) => {
                    self.tables = Tables::default();
                    (self.window, self.has_checksum, self.produced) = (window, has_checksum, 0);
                    self.expect = Expect::Block;
                    len
                }
            },
            Expect::Skip(left) => {
                if left > 0 && input.is_empty() {
                    return Ok(false);
                }
                let now = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let left = left - now as u64;
                self.expect = if left == 0 { Expect::FrameHeader } else { Expect::Skip(left) };
                now
            }
            Expect::Checksum => {
                if input.len() < 4 {
                    return Ok(false);
                }
                self.expect = Expect::FrameHeader;
                4
            }
            Expect::Block => match self.block()? {
                None => return Ok(false),
                Some(len) => len,
            },
        };
        self.input_start += consumed;
        Ok(true)
    }

    /// Decodes a block and says how long it was.
    fn block(&mut self) -> Result<Option<usize>, ZstdError> {
        let input = &self.input[self.input_start..];
        let Some((&[a, b, c], rest)) = input.split_first_chunk() else { return Ok(None) };
        let header = u32::from_le_bytes([a, b, c, 0]);
        let (is_last, kind, size) = (header & 1 == 1, header >> 1 & 3, (header >> 3) as usize);
        let most = MAX_BLOCK.min(self.window.max(1 << 10));
        if size > most {
            return Err(ZstdError("a block is larger than the window allows"));
        }
        let content = if kind == 1 { 1 } else { size };
        let Some(content) = rest.get(..content) else { return Ok(None) };
        let consumed = 3 + content.len();
        make_room(&mut self.out, &mut self.taken, self.window);
        let before = self.out.len();
        match kind {
            0 => self.out.extend_from_slice(content),
            1 => self.out.resize(before + size, content[0]),
            2 => {
                let reach = self.produced.min(self.window);
                block::compressed(content, &mut self.tables, &mut self.out, reach, self.window, most)?;
            }
            _ => return Err(ZstdError("a block of the reserved kind")),
        }
        self.produced = self.produced.saturating_add(self.out.len() - before);
        if is_last {
            self.expect = if self.has_checksum { Expect::Checksum } else { Expect::FrameHeader };
        }
        Ok(Some(consumed))
    }
}

/// Forgets what is neither in the window nor still to be taken, once that is more than what is kept: so
/// each byte is moved about once.
fn make_room(out: &mut Vec<u8>, taken: &mut usize, window: usize) {
    let forget = (*taken).min(out.len().saturating_sub(window));
    if forget > (out.len() - forget).max(MAX_BLOCK) {
        out.drain(..forget);
        *taken -= forget;
    }
}

enum FrameHeader {
    Zstd { window: usize, has_checksum: bool },
    Skippable(u32),
}

/// Reads a frame's header and says how long it is; `None` if it is not all there.
fn frame_header(input: &[u8]) -> Result<Option<(FrameHeader, usize)>, ZstdError> {
    let Some((magic, rest)) = input.split_first_chunk() else { return Ok(None) };
    let magic = u32::from_le_bytes(*magic);
    if magic & !0xf == SKIPPABLE {
        let size = rest.first_chunk().map(|size| u32::from_le_bytes(*size));
        return Ok(size.map(|size| (FrameHeader::Skippable(size), 8)));
    }
    if magic != MAGIC {
        return Err(ZstdError("no frame starts here"));
    }
    let Some(&descriptor) = rest.first() else { return Ok(None) };
    let is_single_segment = descriptor & 0x20 != 0;
    let window_len = usize::from(!is_single_segment);
    let dictionary_len = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_len = match descriptor >> 6 {
        0 => usize::from(is_single_segment),
        flag => 1 << flag,
    };
    let len = 1 + window_len + dictionary_len + content_len;
    let Some(fields) = rest.get(1..len) else { return Ok(None) };
    if descriptor & 8 != 0 {
        return Err(ZstdError("a reserved bit of the frame header is set"));
    }
    let (dictionary, content_size) = fields[window_len..].split_at(dictionary_len);
    if dictionary.iter().any(|&byte| byte != 0) {
        return Err(ZstdError("it needs a dictionary"));
    }
    let window = if is_single_segment {
        let mut bytes = [0; 8];
        bytes[..content_len].copy_from_slice(content_size);
        u64::from_le_bytes(bytes) + if content_len == 2 { 256 } else { 0 }
    } else {
        let base = 1u64 << (10 + (fields[0] >> 3));
        base + base / 8 * u64::from(fields[0] & 7)
    };
    if window > MAX_WINDOW {
        return Err(ZstdError("its window is larger than 128 MiB"));
    }
    let header = FrameHeader::Zstd { window: window as usize, has_checksum: descriptor & 4 != 0 };
    Ok(Some((header, 4 + len)))
}

#[cfg(test)]
mod tests;
