//! Exclusive loads and stores of arm64, which cannot be stepped: each stop between them lets the store fail, and
//! the program tries again for ever. Such a sequence has to be done at once.

/// Where a sequence can be left, and how many instructions have been done then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub(crate) exits: Vec<(u64, u64)>,
}

/// As many instructions as a sequence may have.
pub(crate) const LONGEST: usize = 16;

fn is_exclusive(word: u32) -> bool {
    // Pairs have 32 or 64 bits each; of other sizes this bit makes it a compare and swap.
    let pair = word & 1 << 21 != 0;
    word & 0x3f80_0000 == 0x0800_0000 && (!pair || word >> 31 == 1)
}

fn is_load(word: u32) -> bool {
    is_exclusive(word) && word & 1 << 22 != 0
}

fn is_store(word: u32) -> bool {
    is_exclusive(word) && word & 1 << 22 == 0
}

/// Where a branch with a condition goes, as far as this is one.
fn branch(word: u32, at: u64) -> Option<u64> {
    let target = |offset: u32, bits: u32| {
        let signed = i64::from((offset << (32 - bits)) as i32 >> (32 - bits));
        at.wrapping_add_signed(4 * signed)
    };
    match word {
        // b.cond; cbz and cbnz
        _ if word & 0xff00_0010 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 => {
            Some(target(word >> 5 & 0x7_ffff, 19))
        }
        // tbz and tbnz
        _ if word & 0x7e00_0000 == 0x3600_0000 => Some(target(word >> 5 & 0x3fff, 14)),
        _ => None,
    }
}

/// Branches without a condition, calls and returns, and instructions that raise exceptions.
fn leaves(word: u32) -> bool {
    word & 0x7c00_0000 == 0x1400_0000
        || word & 0xfe00_0000 == 0xd600_0000
        || word & 0xff00_0000 == 0xd400_0000
}

/// The sequence that code at an address begins with, if it does.
pub(crate) fn sequence(code: &[u32], at: u64) -> Option<Sequence> {
    let (first, rest) = code.split_first()?;
    if !is_load(*first) {
        return None;
    }
    let mut exits = Vec::new();
    for (done, &word) in (2u64..).zip(rest.iter().take(LONGEST - 1)) {
        let next = at + 4 * done;
        if is_store(word) {
            exits.push((next, done));
            // A branch to a place inside is no exit.
            exits.retain(|&(exit, _)| !(at..next).contains(&exit));
            return Some(Sequence { exits });
        }
        if leaves(word) {
            return None;
        }
        if let Some(target) = branch(word, next - 4) {
            if exits.iter().all(|&(exit, _)| exit != target) {
                exits.push((target, done));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_left_behind_its_store_and_where_it_gives_up() {
        // ldaxr w0, [x1]; cmp w0, w2; b.ne +12; stlxr w3, w4, [x1]; cbnz w3, -16; ret
        let code = [0x885f_fc20, 0x6b02_001f, 0x5400_0061, 0x8803_fc24, 0x35ff_ff83, 0xd65f_03c0];
        let exits = vec![(0x1014, 3), (0x1010, 4)];
        assert_eq!(sequence(&code, 0x1000), Some(Sequence { exits }));
        // From the comparison on it is none.
        assert_eq!(sequence(&code[1..], 0x1004), None);
    }

    #[test]
    fn other_code_is_none() {
        // casal w0, w2, [x1]; casp x0, x1, x2, x3, [x4]; ldar w0, [x1]; ldr x0, [x1]
        for word in [0x88e0_fc22, 0x4820_7c82, 0x88df_fc20, 0xf940_0020] {
            assert_eq!(sequence(&[word, 0x8803_fc24], 0), None, "{word:x}");
        }
        // One without a store, and one that calls in between.
        assert_eq!(sequence(&[0x885f_fc20; 20], 0), None);
        assert_eq!(sequence(&[0x885f_fc20, 0x9400_0001, 0x8803_fc24], 0), None);
    }
}
