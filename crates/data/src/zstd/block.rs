//! Compressed blocks: literals, and the sequences that say where they go and what is repeated.

use super::ZstdError;
use super::bits::Backward;
use super::fse::Table;
use super::huffman::Code;

const CUT: ZstdError = ZstdError("a block is cut off");

/// What a block leaves for the next ones of its frame.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    code: Option<Code>,
    literal_lengths: Option<Table>,
    offsets: Option<Table>,
    match_lengths: Option<Table>,
    recent: [usize; 3],
    /// Literals of the block at hand; kept for their memory.
    literals: Vec<u8>,
}

impl Default for Tables {
    fn default() -> Self {
        let (code, literals) = (None, Vec::new());
        Tables {
            code,
            literal_lengths: None,
            offsets: None,
            match_lengths: None,
            recent: [1, 4, 8],
            literals,
        }
    }
}

/// The three kinds of number in a sequence: how their codes are described and what the codes mean.
struct Kind {
    max_log: u32,
    symbols: usize,
    usual_log: u32,
    usual: &'static [i16],
}

const LITERAL_LENGTHS: Kind = Kind {
    max_log: 9,
    symbols: 36,
    usual_log: 6,
    usual: &[
        4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1,
        -1, -1, -1,
    ],
};

const OFFSETS: Kind = Kind {
    max_log: 8,
    symbols: 32,
    usual_log: 5,
    usual: &[1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1],
};

const MATCH_LENGTHS: Kind = Kind {
    max_log: 9,
    symbols: 53,
    usual_log: 6,
    usual: &[
        1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
    ],
};

/// First value and number of further bits of each code of a literal length.
const LITERAL_CODES: [(u32, u8); 36] =
    codes(16, 0, &[1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
/// The same of a match length, which is at least 3.
const MATCH_CODES: [(u32, u8); 53] =
    codes(32, 3, &[1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);

/// Codes whose first `plain` stand for themselves, counted from `least`, and whose others follow without
/// gaps, with these numbers of further bits.
const fn codes<const N: usize>(plain: usize, least: u32, bits: &[u8]) -> [(u32, u8); N] {
    let mut table = [(0, 0); N];
    let (mut index, mut first) = (0, least);
    while index < N {
        let further = if index < plain { 0 } else { bits[index - plain] };
        table[index] = (first, further);
        first += 1 << further;
        index += 1;
    }
    table
}

/// Decodes a block to the end of `out`, at most `most` bytes. Matches may reach `reach` bytes back into
/// what was there before, and `window` bytes in all.
pub(super) fn compressed(
    content: &[u8],
    tables: &mut Tables,
    out: &mut Vec<u8>,
    reach: usize,
    window: usize,
    most: usize,
) -> Result<(), ZstdError> {
    let mut literals = std::mem::take(&mut tables.literals);
    literals.clear();
    let used = read_literals(content, &mut tables.code, &mut literals, most)?;
    let result = sequences(&content[used..], tables, &literals, out, Limits { reach, window, most });
    tables.literals = literals;
    result
}

/// Reads the literals at the start of a block, and says how many bytes they took.
fn read_literals(
    content: &[u8],
    code: &mut Option<Code>,
    out: &mut Vec<u8>,
    most: usize,
) -> Result<usize, ZstdError> {
    let first = *content.first().ok_or(CUT)?;
    let (kind, format) = (first & 3, first >> 2 & 3);
    let header = |len: usize| {
        let bytes = content.get(..len).ok_or(CUT)?;
        Ok(bytes.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte)))
    };
    let too_many = |size| if size > most { Err(ZstdError("a block has too many literals")) } else { Ok(()) };
    if kind < 2 {
        let (len, size) = match format {
            1 => (2, header(2)? >> 4),
            3 => (3, header(3)? >> 4),
            _ => (1, header(1)? >> 3),
        };
        let size = size as usize;
        too_many(size)?;
        if kind == 0 {
            out.extend_from_slice(content.get(len..len + size).ok_or(CUT)?);
            return Ok(len + size);
        }
        out.resize(size, *content.get(len).ok_or(CUT)?);
        return Ok(len + 1);
    }
    let (len, width) = [(3, 10), (3, 10), (4, 14), (5, 18)][usize::from(format)];
    let word = header(len)?;
    let field = |shift: u32| (word >> shift & ((1 << width) - 1)) as usize;
    let (size, packed) = (field(4), field(4 + width));
    too_many(size)?;
    let mut streams = content.get(len..len + packed).ok_or(CUT)?;
    if kind == 2 {
        let (read, used) = Code::read(streams)?;
        *code = Some(read);
        streams = &streams[used..];
    }
    let code = code.as_ref().ok_or(ZstdError("a block uses a Huffman code that was never described"))?;
    if format == 0 {
        code.decode(streams, size, out)?;
    } else {
        let (jumps, mut rest) = streams.split_first_chunk::<6>().ok_or(CUT)?;
        let each = size.div_ceil(4);
        for jump in jumps.chunks_exact(2) {
            let jump = usize::from(u16::from_le_bytes([jump[0], jump[1]]));
            let (stream, after) = rest.split_at_checked(jump).ok_or(CUT)?;
            code.decode(stream, each, out)?;
            rest = after;
        }
        let last = size.checked_sub(3 * each).ok_or(ZstdError("a block has too few literals"))?;
        code.decode(rest, last, out)?;
    }
    Ok(len + packed)
}

#[derive(Clone, Copy)]
struct Limits {
    reach: usize,
    window: usize,
    most: usize,
}

/// Reads the sequences of a block and carries them out.
fn sequences(
    content: &[u8],
    tables: &mut Tables,
    mut literals: &[u8],
    out: &mut Vec<u8>,
    limits: Limits,
) -> Result<(), ZstdError> {
    let start = out.len();
    let (count, mut rest) = match *content {
        [] => return Err(CUT),
        [0, ref rest @ ..] => (0, rest),
        [a @ 1..=127, ref rest @ ..] => (usize::from(a), rest),
        [255, b, c, ref rest @ ..] => (usize::from(u16::from_le_bytes([b, c])) + 0x7f00, rest),
        [a @ 128..=254, b, ref rest @ ..] => ((usize::from(a) - 128) << 8 | usize::from(b), rest),
        _ => return Err(CUT),
    };
    if count > 0 {
        let (&modes, described) = rest.split_first().ok_or(CUT)?;
        rest = described;
        rest = &rest[table(rest, modes >> 6, &LITERAL_LENGTHS, &mut tables.literal_lengths)?..];
        rest = &rest[table(rest, modes >> 4 & 3, &OFFSETS, &mut tables.offsets)?..];
        rest = &rest[table(rest, modes >> 2 & 3, &MATCH_LENGTHS, &mut tables.match_lengths)?..];
        let (Some(lengths), Some(offsets), Some(matches)) =
            (&tables.literal_lengths, &tables.offsets, &tables.match_lengths)
        else {
            return Err(ZstdError("a block uses a table that was never described"));
        };
        let mut bits = Backward::new(rest)?;
        let mut length = lengths.start(&mut bits);
        let mut offset = offsets.start(&mut bits);
        let mut repeat = matches.start(&mut bits);
        for index in (0..count).rev() {
            let value = (1usize << offset.symbol) + bits.read(offset.symbol.into()) as usize;
            let (first, further) = MATCH_CODES[usize::from(repeat.symbol).min(52)];
            let match_length = first as usize + bits.read(further.into()) as usize;
            let (first, further) = LITERAL_CODES[usize::from(length.symbol).min(35)];
            let literal_length = first as usize + bits.read(further.into()) as usize;
            if index > 0 {
                length = lengths.next(length, &mut bits);
                repeat = matches.next(repeat, &mut bits);
                offset = offsets.next(offset, &mut bits);
            }
            if bits.left() < 0 {
                return Err(ZstdError("a block has fewer sequences than it says"));
            }
            let distance = distance(value, literal_length, &mut tables.recent)?;
            let (now, later) = literals
                .split_at_checked(literal_length)
                .ok_or(ZstdError("a sequence wants more literals than there are"))?;
            literals = later;
            if out.len() - start + literal_length + match_length > limits.most {
                return Err(ZstdError("a block produces more than 128 KiB"));
            }
            out.extend_from_slice(now);
            if distance > limits.window.min(limits.reach + (out.len() - start)) {
                return Err(ZstdError("a match reaches back too far"));
            }
            copy_match(out, distance, match_length);
        }
        if bits.left() != 0 {
            return Err(ZstdError("a block has more sequences than it says"));
        }
    }
    if out.len() - start + literals.len() > limits.most {
        return Err(ZstdError("a block produces more than 128 KiB"));
    }
    out.extend_from_slice(literals);
    Ok(())
}

/// Makes the table that one kind of number uses, and says how many bytes its description took.
fn table(bytes: &[u8], mode: u8, kind: &Kind, table: &mut Option<Table>) -> Result<usize, ZstdError> {
    match mode {
        0 => *table = Some(Table::build(kind.usual_log, kind.usual)?),
        1 => {
            let symbol = *bytes.first().ok_or(CUT)?;
            if usize::from(symbol) >= kind.symbols {
                return Err(ZstdError("a sequence has an unknown code"));
            }
            *table = Some(Table::single(symbol));
            return Ok(1);
        }
        2 => {
            let (read, used) = Table::read(bytes, kind.max_log, kind.symbols)?;
            *table = Some(read);
            return Ok(used);
        }
        _ => {}
    }
    Ok(0)
}

/// How far back a match is: told, or one of the last three distances.
#[inline]
fn distance(value: usize, literal_length: usize, recent: &mut [usize; 3]) -> Result<usize, ZstdError> {
    if value > 3 {
        *recent = [value - 3, recent[0], recent[1]];
        return Ok(value - 3);
    }
    // Without literals the last distance would continue the last match, so the numbers mean the next.
    let index = value - 1 + usize::from(literal_length == 0);
    let distance = if index == 3 { recent[0] - 1 } else { recent[index] };
    if distance == 0 {
        return Err(ZstdError("a match at distance zero"));
    }
    if index > 0 {
        let third = if index == 1 { recent[2] } else { recent[1] };
        *recent = [distance, recent[0], third];
    }
    Ok(distance)
}

/// Appends `len` bytes that repeat what lies `distance` back, which may be what is being appended.
#[inline]
fn copy_match(out: &mut Vec<u8>, distance: usize, mut len: usize) {
    let start = out.len() - distance;
    while len > 0 {
        // Everything from `start` on has the period `distance`, so each round can copy twice as much.
        let now = len.min(out.len() - start);
        out.extend_from_within(start..start + now);
        len -= now;
    }
}
