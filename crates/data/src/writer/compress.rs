//! COMPRESSED records: one zstd stream over all of them, flushed at the end of each, as perf writes it.
//!
//! Each takes at most [`PIECE`] bytes of records, so that even what does not compress fits into the 16 bits
//! of a record's size, and into the buffer that readers have for what comes out (the size of a ring).

use super::output::Output;
use super::{ORDER, invalid};
use crate::tool::{Tool, ToolRecord};
use std::io::{self, Write};
use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

/// Bytes that go into one record.
const PIECE: usize = 60 << 10;

pub(super) struct Compressor {
    encoder: Encoder<'static>,
    buffer: Vec<u8>,
    taken: u64,
    given: u64,
}

impl Compressor {
    pub(super) fn new(level: i32) -> io::Result<Self> {
        let encoder = Encoder::new(level)?;
        Ok(Compressor { encoder, buffer: vec![0; usize::from(u16::MAX) - 8], taken: 0, given: 0 })
    }

    /// Bytes before and after.
    pub(super) fn sizes(&self) -> (u64, u64) {
        (self.taken, self.given)
    }

    pub(super) fn records<W: Write>(&mut self, parts: &[&[u8]], output: &mut Output<W>) -> io::Result<()> {
        for piece in parts.iter().flat_map(|part| part.chunks(PIECE)) {
            let mut input = InBuffer::around(piece);
            let mut out = OutBuffer::around(self.buffer.as_mut_slice());
            while input.pos() < piece.len() {
                self.encoder.run(&mut input, &mut out)?;
                too_long(&out)?;
            }
            while self.encoder.flush(&mut out)? > 0 {
                too_long(&out)?;
            }
            let len = out.pos();
            self.taken += piece.len() as u64;
            self.given += len as u64;
            let record = ToolRecord::from(Tool::Compressed(&self.buffer[..len]));
            output.put_with(|buffer| record.encode(ORDER, buffer).map_err(invalid))?;
        }
        Ok(())
    }
}

/// Input of at most [`PIECE`] bytes never fills the room there is for output; better an error than a loop.
fn too_long(out: &OutBuffer<'_, [u8]>) -> io::Result<()> {
    match out.pos() == out.capacity() {
        true => Err(io::Error::other("a compressed record is too long")),
        false => Ok(()),
    }
}
