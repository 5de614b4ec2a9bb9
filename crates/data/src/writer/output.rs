//! The way of bytes to the output: small records are gathered, large ones go out beside them in the same
//! system call without being copied; and what of an interrupted write are whole records.

use perfuse_abi::ByteOrder;
use perfuse_abi::record::Header;
use std::io::{self, IoSlice, Write};

/// Gathered records are written when they exceed this.
const GATHER: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Output<W> {
    out: W,
    pending: Vec<u8>,
    /// Bytes that were written.
    written: u64,
    /// Bytes up to the end of the last whole record that was written.
    whole: u64,
    /// A write failed: what is where is no longer certain enough to go on.
    failed: bool,
}

impl<W: Write> Output<W> {
    pub(super) fn new(out: W) -> Self {
        Output { out, pending: Vec::new(), written: 0, whole: 0, failed: false }
    }

    /// Takes whole records, or the start of a file.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() > GATHER { self.flush() } else { Ok(()) }
    }

    /// Takes a record from a function that appends it, or leaves no trace if it fails.
    pub(super) fn put_with(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
        let before = self.pending.len();
        if let Err(error) = encode(&mut self.pending) {
            self.pending.truncate(before);
            return Err(error);
        }
        if self.pending.len() > GATHER { self.flush() } else { Ok(()) }
    }

    /// Writes what was gathered, and then the parts, which together are whole records.
    pub(super) fn write(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.write_counting(parts, whole_records)
    }

    /// Writes what was gathered, and then the parts, which together are one record with what follows it: of
    /// that, nothing is whole if not all of it was written.
    pub(super) fn write_at_once(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.write(&[])?;
        self.write_counting(parts, |_, _| 0)
    }

    fn write_counting(
        &mut self,
        parts: &[&[u8]],
        count_whole: impl Fn(&[&[u8]], usize) -> usize,
    ) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write failed"));
        }
        let pending = std::mem::take(&mut self.pending);
        let mut all = Vec::with_capacity(parts.len() + 1);
        all.push(pending.as_slice());
        all.extend_from_slice(parts);
        let total: usize = all.iter().map(|part| part.len()).sum();
        let result = self.write_all(&all, total);
        let done = (self.written - self.whole) as usize;
        // Of the first file only the header has been written, and no record.
        let first = self.whole == 0;
        self.whole = match &result {
            Ok(()) => self.written,
            Err(_) if first => 0,
            Err(_) => self.whole + count_whole(&all, done) as u64,
        };
        self.failed = result.is_err();
        self.pending = pending;
        self.pending.clear();
        result
    }

    fn write_all(&mut self, parts: &[&[u8]], total: usize) -> io::Result<()> {
        let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut slices = slices.as_mut_slice();
        IoSlice::advance_slices(&mut slices, 0);
        let mut left = total;
        while left > 0 {
            match self.out.write_vectored(slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.written += count as u64;
                    left -= count;
                    IoSlice::advance_slices(&mut slices, count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() {
            self.write(&[])?;
        }
        self.out.flush()
    }

    /// Bytes written and gathered.
    pub(super) fn position(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Bytes up to the end of the last whole record that was written.
    pub(super) fn whole(&self) -> u64 {
        self.whole
    }

    pub(super) fn get_ref(&self) -> &W {
        &self.out
    }

    pub(super) fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    pub(super) fn into_inner(self) -> W {
        self.out
    }
}

/// How many of the first `limit` bytes of `parts` are whole records.
fn whole_records(parts: &[&[u8]], limit: usize) -> usize {
    let byte = |mut at: usize| {
        for part in parts {
            match part.get(at) {
                Some(&byte) => return byte,
                None => at -= part.len(),
            }
        }
        0
    };
    let mut whole = 0;
    while whole + Header::SIZE <= limit {
        let start: [u8; Header::SIZE] = std::array::from_fn(|index| byte(whole + index));
        let size = Header::peek(&start, ByteOrder::NATIVE).map_or(0, |header| usize::from(header.size));
        if size < Header::SIZE || whole + size > limit {
            break;
        }
        whole += size;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes and no more.
    struct Disk(Vec<u8>, usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = (self.1 - self.0.len()).min(bytes.len());
            if room == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.extend_from_slice(&bytes[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn record(size: u16) -> Vec<u8> {
        let mut bytes = vec![0; size.into()];
        bytes[6..8].copy_from_slice(&size.to_ne_bytes());
        bytes
    }

    #[test]
    fn what_a_full_disk_took_are_whole_records() {
        for (room, whole) in
            [(100, 100), (101, 100), (115, 100), (116, 116), (139, 116), (140, 140), (155, 140)]
        {
            let mut output = Output::new(Disk(Vec::new(), room));
            output.put(&[1; 100]).unwrap();
            output.flush().unwrap();
            output.put(&record(16)).unwrap();
            let stream = [record(24), record(16)].concat();
            // A record lies across two parts, its header too.
            assert!(output.write(&[&stream[..6], &stream[6..]]).is_err());
            assert_eq!((output.written, output.whole()), (room as u64, whole), "{room}");
            assert!(output.write(&[]).is_err(), "nothing more is written after a failure");
        }
    }
}
