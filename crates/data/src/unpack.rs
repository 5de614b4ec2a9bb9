//! The contents of compressed records: one zstd stream that goes through all of them, flushed at the end of
//! each and never ended.
//!
//! Output is asked for in small steps and none is produced ahead, so that memory stays within the stream's
//! window (zstd takes up to 128 MiB) and one step, whatever the bytes say.

use crate::error::Problem;
use crate::input::Buffer;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Room that a step has at least: for the most that a block of zstd's can produce.
const STEP: usize = 128 << 10;

/// So much may come out whatever went in, and so many bytes for each byte of more input. Copies of one 64 KiB stack,
/// told apart by their times, shrink to a 650th.
const ALWAYS: u64 = 256 << 20;
const TIMES: u64 = 2048;

/// A stream that comes in pieces.
pub(crate) struct Unpacker {
    decoder: Decoder<'static>,
    /// Input not yet decoded, from `input_start` on.
    input: Vec<u8>,
    input_start: usize,
    /// Output not yet taken.
    output: Buffer,
    /// The last step filled all the room it had: there may be more without more input.
    was_full: bool,
    /// The input so far ends within a block or a header.
    is_open: bool,
    /// Bytes that were fed, and that came out.
    fed: u64,
    produced: u64,
}

impl Unpacker {
    pub(crate) fn new() -> Result<Self, Problem> {
        let decoder = Decoder::new().map_err(Problem::Zstd)?;
        Ok(Unpacker {
            decoder,
            input: Vec::new(),
            input_start: 0,
            output: Buffer::new(),
            was_full: false,
            is_open: false,
            fed: 0,
            produced: 0,
        })
    }

    /// Adds compressed bytes. They are decoded when [`step`](Self::step) asks for them.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.input.drain(..self.input_start);
        self.input_start = 0;
        self.input.extend_from_slice(bytes);
        self.fed += bytes.len() as u64;
    }

    /// Output that was not taken yet.
    #[inline]
    pub(crate) fn output(&self) -> &Buffer {
        &self.output
    }

    /// The same, to take from it.
    #[inline]
    pub(crate) fn output_mut(&mut self) -> &mut Buffer {
        &mut self.output
    }

    /// Whether the stream was cut off: it does not end where a block does.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Adds to the output. `false` if there is nothing to add before more is fed.
    pub(crate) fn step(&mut self) -> Result<bool, Problem> {
        let input = &self.input[self.input_start..];
        if input.is_empty() && !self.was_full {
            return Ok(false);
        }
        let limit = ALWAYS.max(self.fed.saturating_mul(TIMES));
        if self.produced >= limit {
            return Err(Problem::TooLarge { size: self.produced, limit });
        }
        let mut input = InBuffer::around(input);
        let mut output = OutBuffer::around(self.output.room(STEP));
        let hint = self.decoder.run(&mut input, &mut output).map_err(Problem::Zstd)?;
        self.was_full = output.pos() == output.capacity();
        self.input_start += input.pos();
        let produced = output.pos();
        self.produced += produced as u64;
        self.output.extend(produced);
        // The hint counts the bytes that the decoder wants next: at the end of a block the three bytes that the next starts with, at
        // the end of the stream nothing.
        self.is_open = !matches!(hint, 0 | 3);
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
