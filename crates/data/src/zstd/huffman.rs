//! Huffman-coded literals: the code's description, its table, the decoding of a stream.

use super::ZstdError;
use super::bits::Backward;
use super::fse::Table;

/// The longest code word.
const MAX_BITS: u32 = 11;

/// A decoding table: for each value of the next `bits` bits the symbol and the length of its code word.
#[derive(Clone, Debug)]
pub(super) struct Code {
    bits: u32,
    entries: Box<[(u8, u8)]>,
}

impl Code {
    /// Reads the description of a code at the start of `bytes`, and says how long it was.
    pub(super) fn read(bytes: &[u8]) -> Result<(Self, usize), ZstdError> {
        let cut = ZstdError("the description of a Huffman code is cut off");
        let (&header, rest) = bytes.split_first().ok_or(cut)?;
        let mut weights = [0u8; 256];
        let (count, len) = if header < 128 {
            let described = rest.get(..usize::from(header)).ok_or(cut)?;
            (compressed_weights(described, &mut weights)?, described.len())
        } else {
            let count = usize::from(header) - 127;
            let described = rest.get(..count.div_ceil(2)).ok_or(cut)?;
            for (index, weight) in weights[..count].iter_mut().enumerate() {
                let pair = described[index / 2];
                *weight = if index % 2 == 0 { pair >> 4 } else { pair & 15 };
            }
            (count, described.len())
        };
        Ok((Self::build(&mut weights, count)?, 1 + len))
    }

    /// The code with these weights; that of the last symbol is what is missing to a power of two.
    fn build(weights: &mut [u8; 256], count: usize) -> Result<Self, ZstdError> {
        let wrong = ZstdError("the weights of a Huffman code do not add up");
        if weights[..count].iter().any(|&weight| u32::from(weight) > MAX_BITS) {
            return Err(wrong);
        }
        let share = |weight: u8| if weight == 0 { 0 } else { 1usize << (weight - 1) };
        let sum: usize = weights[..count].iter().map(|&weight| share(weight)).sum();
        if sum == 0 || count >= weights.len() {
            return Err(wrong);
        }
        let bits = sum.ilog2() + 1;
        let missing = (1usize << bits) - sum;
        if bits > MAX_BITS || !missing.is_power_of_two() {
            return Err(wrong);
        }
        weights[count] = missing.ilog2() as u8 + 1;
        let mut entries = vec![(0, 0); 1 << bits].into_boxed_slice();
        let mut start = 0;
        for weight in 1..=bits as u8 {
            for symbol in (0..=count).filter(|&symbol| weights[symbol] == weight) {
                let end = start + share(weight);
                let run = entries.get_mut(start..end).ok_or(wrong)?;
                run.fill((symbol as u8, bits as u8 + 1 - weight));
                start = end;
            }
        }
        if start == entries.len() { Ok(Code { bits, entries }) } else { Err(wrong) }
    }

    /// Decodes a stream that holds exactly `count` symbols.
    pub(super) fn decode(&self, stream: &[u8], count: usize, out: &mut Vec<u8>) -> Result<(), ZstdError> {
        let mut bits = Backward::new(stream)?;
        for _ in 0..count {
            let (symbol, len) = self.entries[bits.peek(self.bits) as usize];
            bits.skip(len.into());
            out.push(symbol);
        }
        if bits.left() == 0 { Ok(()) } else { Err(ZstdError("literals do not fill their stream")) }
    }
}

/// Weights that are themselves entropy-coded, by two states in turns.
fn compressed_weights(bytes: &[u8], weights: &mut [u8; 256]) -> Result<usize, ZstdError> {
    let (table, len) = Table::read(bytes, 6, 13)?;
    let mut bits = Backward::new(&bytes[len..])?;
    let mut states = [table.start(&mut bits), table.start(&mut bits)];
    let mut count = 0;
    loop {
        if count + 2 > weights.len() - 1 {
            return Err(ZstdError("a Huffman code has too many weights"));
        }
        let turn = count % 2;
        weights[count] = states[turn].symbol;
        count += 1;
        states[turn] = table.next(states[turn], &mut bits);
        if bits.left() < 0 {
            weights[count] = states[1 - turn].symbol;
            return Ok(count + 1);
        }
    }
}
