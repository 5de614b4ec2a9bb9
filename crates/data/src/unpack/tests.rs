//! Streams as perf makes them: whole, in pieces, cut off and damaged.
use super::*;
use crate::input::BUFFER;
use zstd::stream::raw::Encoder;

/// Each piece flushed on its own, in one frame that never ends.
fn pack(pieces: &[&[u8]], level: i32) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(level).unwrap();
    let mut packed = Vec::new();
    for piece in pieces {
        let mut bytes = vec![0; piece.len() + 1000];
        let mut out = OutBuffer::around(bytes.as_mut_slice());
        encoder.run(&mut InBuffer::around(piece), &mut out).unwrap();
        assert_eq!(encoder.flush(&mut out).unwrap(), 0);
        let len = out.pos();
        bytes.truncate(len);
        packed.push(bytes);
    }
    packed
}

fn drain(unpacker: &mut Unpacker) -> Result<Vec<u8>, Problem> {
    let mut all = Vec::new();
    while unpacker.step()? {
        all.extend_from_slice(unpacker.output().bytes());
        unpacker.output_mut().clear();
    }
    Ok(all)
}

fn lines(count: usize) -> Vec<u8> {
    (0..count).map(|i| format!("{} perf {}\n", i * i, i / 7)).collect::<String>().into_bytes()
}

#[test]
fn what_was_flushed_is_there_though_the_frame_never_ends() {
    let (first, second) = (lines(30_000), lines(300));
    for level in [1, 19] {
        let mut unpacker = Unpacker::new().unwrap();
        for (piece, packed) in [&first, &second].into_iter().zip(pack(&[&first, &second], level)) {
            unpacker.feed(&packed);
            assert!(drain(&mut unpacker).unwrap() == *piece);
            assert!(!unpacker.is_open());
        }
    }
}

#[test]
fn pieces_may_end_anywhere() {
    let text = lines(300);
    let packed = pack(&[&text], 3).concat();
    for size in [1, 7, 100] {
        let mut unpacker = Unpacker::new().unwrap();
        let mut all = Vec::new();
        for piece in packed.chunks(size) {
            unpacker.feed(piece);
            all.extend(drain(&mut unpacker).unwrap());
        }
        assert!(all == text);
    }
    for cut in 1..packed.len() {
        let mut unpacker = Unpacker::new().unwrap();
        unpacker.feed(&packed[..cut]);
        assert!(text.starts_with(&drain(&mut unpacker).unwrap()));
        // The end of the frame's header is the only place where nothing is missing.
        assert!(unpacker.is_open() || cut < 10, "{cut}");
    }
}

#[test]
fn a_bomb_is_unpacked_step_by_step() {
    let packed = pack(&[&vec![0; 64 << 20]], 19).concat();
    assert!(packed.len() < 10_000);
    let mut unpacker = Unpacker::new().unwrap();
    unpacker.feed(&packed);
    let mut total = 0;
    while unpacker.step().unwrap() {
        assert!(unpacker.output().len() <= BUFFER);
        total += unpacker.output().len();
        unpacker.output_mut().clear();
        assert_eq!(unpacker.output_mut().room(STEP).len(), BUFFER);
    }
    assert_eq!(total, 64 << 20);
}

#[test]
fn what_unpacks_to_far_more_than_any_recording_does_ends() {
    let packed = zstd::stream::encode_all(&vec![0; 4 << 20][..], 19).unwrap();
    assert!((packed.len() as u64) < (4 << 20) / TIMES);
    let (mut unpacker, mut total) = (Unpacker::new().unwrap(), 0);
    let problem = loop {
        unpacker.feed(&packed);
        match drain(&mut unpacker) {
            Ok(bytes) => total += bytes.len() as u64,
            Err(problem) => break problem,
        }
    };
    assert!(matches!(problem, Problem::TooLarge { size: ALWAYS, limit: ALWAYS }), "{problem}");
    assert_eq!(total, ALWAYS - (4 << 20));
}

#[test]
fn damage_is_an_error_or_other_bytes() {
    let packed = pack(&[&lines(300)], 19).concat();
    for place in 0..packed.len() {
        let mut damaged = packed.clone();
        damaged[place] ^= 0x10;
        let mut unpacker = Unpacker::new().unwrap();
        unpacker.feed(&damaged);
        let _ = drain(&mut unpacker);
    }
    let mut unpacker = Unpacker::new().unwrap();
    unpacker.feed(b"not a stream");
    assert!(unpacker.step().is_err());
}
