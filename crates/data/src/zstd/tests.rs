//! Streams made by hand, and by the program `zstd`: whole, in pieces, cut off and damaged.
use super::*;

/// Decodes a stream that comes in pieces of this size.
fn unpack(bytes: &[u8], piece: usize) -> Result<Vec<u8>, ZstdError> {
    let mut decoder = Decoder::new();
    let mut out = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.feed(piece);
        while decoder.step()? {
            out.extend_from_slice(decoder.output());
            decoder.take(decoder.output().len());
        }
    }
    Ok(out)
}

fn frame(window_log: u8, blocks: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    bytes.extend([0, (window_log - 10) << 3]);
    for &(kind, size, content) in blocks {
        bytes.extend_from_slice(&(size << 3 | kind << 1).to_le_bytes()[..3]);
        bytes.extend_from_slice(content);
    }
    bytes
}

#[test]
fn what_was_flushed_is_there_though_the_frame_never_ends() {
    let stream = frame(19, &[(0, 3, b"abc"), (1, 5, b"x")]);
    for piece in 1..=stream.len() {
        assert_eq!(unpack(&stream, piece).unwrap(), b"abcxxxxx");
    }
}

#[test]
fn frames_follow_each_other_with_skippable_ones_between() {
    let mut stream = (SKIPPABLE + 7).to_le_bytes().to_vec();
    stream.extend([2, 0, 0, 0, 9, 9]);
    let mut first = frame(10, &[(0, 1, b"a")]);
    first[6] |= 1; // its block is the last one
    stream.extend(&first);
    stream.extend(frame(10, &[(0, 1, b"b")]));
    assert_eq!(unpack(&stream, 3).unwrap(), b"ab");
}

#[test]
fn a_bomb_is_unpacked_a_block_at_a_time() {
    let bomb: Vec<_> = (0..1000).map(|_| (1, MAX_BLOCK as u32, &b"\0"[..])).collect();
    let mut decoder = Decoder::new();
    decoder.feed(&frame(20, &bomb));
    let mut total = 0;
    while decoder.step().unwrap() {
        total += decoder.output().len();
        decoder.take(decoder.output().len());
        assert!(decoder.out.capacity() < 8 << 20);
    }
    assert_eq!(total, 1000 * MAX_BLOCK);
}

#[test]
fn what_is_no_stream_is_told_from_what_is_not_all_there() {
    let error = |bytes: &[u8]| unpack(bytes, usize::MAX).unwrap_err().0;
    assert_eq!(error(b"none"), "no frame starts here");
    assert_eq!(error(&frame(28, &[])), "its window is larger than 128 MiB");
    assert_eq!(error(&frame(10, &[(3, 0, b"")])), "a block of the reserved kind");
    assert_eq!(error(&frame(10, &[(0, 1025, b"")])), "a block is larger than the window allows");
    assert_eq!(error(&frame(19, &[(2, 1, b"\0")])), "a block is cut off");
    assert_eq!(unpack(&frame(19, &[(0, 100, b"abc")]), 7), Ok(Vec::new()));
}

/// `for i in 0..300 { print(i * i, " perf ", i / 7) }`, packed by `zstd --no-check` at levels 1 and 19.
fn lines() -> Vec<u8> {
    (0..300).map(|i| format!("{} perf {}\n", i * i, i / 7)).collect::<String>().into_bytes()
}

const PACKED: [&str; 2] = [include_str!("tests/lines.1.hex"), include_str!("tests/lines.19.hex")];

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn what_zstd_packs_is_unpacked() {
    for packed in PACKED {
        for piece in [1, 100, usize::MAX] {
            assert!(unpack(&bytes_of(packed), piece).unwrap() == lines());
        }
    }
}

#[test]
fn damage_never_makes_it_panic_or_produce_more_than_a_block() {
    for packed in PACKED {
        let packed = bytes_of(packed);
        for place in 0..packed.len() {
            for bit in 0..8 {
                let mut damaged = packed.clone();
                damaged[place] ^= 1 << bit;
                assert!(unpack(&damaged, usize::MAX).map_or(0, |out| out.len()) <= 2 * MAX_BLOCK);
            }
            assert!(lines().starts_with(&unpack(&packed[..place], usize::MAX).unwrap()));
        }
    }
}
