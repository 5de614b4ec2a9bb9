//! Where data came from, in the words that perf's reports have for it.

use crate::keys::Key;
use perfuse_abi::record::DataSrc;
use std::fmt::Write;

const OPS: [&str; 5] = ["N/A", "LOAD", "STORE", "PFETCH", "EXEC"];
const LEVELS: [&str; 14] = [
    "N/A",
    "HIT",
    "MISS",
    "L1",
    "LFB/MAB",
    "L2",
    "L3",
    "Local RAM",
    "Remote RAM (1 hop)",
    "Remote RAM (2 hops)",
    "Remote Cache (1 hop)",
    "Remote Cache (2 hops)",
    "I/O",
    "Uncached",
];
const HOPS: [&str; 8] =
    ["N/A", "core, same node", "node, same socket", "socket, same board", "board", "", "", ""];
const SNOOPS: [&str; 5] = ["N/A", "None", "Hit", "Miss", "HitM"];
const TLB: [&str; 7] = ["N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault"];

/// Bits that say a hit or a miss, of levels and of translations.
const ENDS: u64 = 6;

fn field(source: DataSrc, shift: u32, width: u32) -> u64 {
    source.0 >> shift & ((1 << width) - 1)
}

/// The bits that a key tells of.
pub(crate) fn part(key: Key, source: DataSrc) -> u64 {
    let mask = |shift: u32, width: u32| ((1u64 << width) - 1) << shift;
    let mask = match key {
        Key::Mem => mask(5, 14) | mask(33, 4) | mask(37, 1) | mask(43, 3),
        Key::Snoop => mask(19, 5) | mask(38, 2),
        Key::Locked => mask(24, 2),
        Key::Tlb => mask(26, 7),
        Key::Blocked => mask(40, 3),
        _ => 0,
    };
    source.0 & mask
}

/// The names of the bits that are set.
fn listed(text: &mut String, bits: u64, names: &[&str]) {
    let mut between = "";
    for (bit, name) in names.iter().enumerate() {
        if bits >> bit & 1 == 1 {
            text.push_str(between);
            text.push_str(name);
            between = " or ";
        }
    }
}

/// Whether it was a hit or a miss.
fn ends(out: &mut String, start: usize, bits: u64) {
    if out.len() == start {
        out.push_str("N/A");
    }
    out.push_str(if bits & 2 != 0 { " hit" } else { "" });
    out.push_str(if bits & 4 != 0 { " miss" } else { "" });
}

/// The kind of access.
pub fn operation(out: &mut String, source: DataSrc) {
    let bits = field(source, 0, 5);
    out.push_str(OPS.iter().enumerate().find(|(bit, _)| bits >> bit & 1 == 1).map_or("No", |(_, name)| name));
}

/// Which level of the memory it was.
pub fn level(out: &mut String, source: DataSrc) {
    let (bits, number) = (field(source, 5, 14), field(source, 33, 4));
    let (remote, hops) = (field(source, 37, 1), field(source, 43, 3));
    let start = out.len();
    if remote == 1 {
        out.push_str("Remote ");
    }
    let is_named = hops == 0 && bits & !ENDS != 0;
    if hops != 0 {
        out.push_str(HOPS[hops as usize]);
        out.push(' ');
    } else {
        listed(out, bits & !ENDS, &LEVELS);
    }
    if number != 0 {
        if is_named {
            out.push_str(" or ");
        }
        match number {
            9 => out.push_str("CXL"),
            10 => out.push_str("I/O"),
            11 => out.push_str("Any cache"),
            12 => out.push_str("LFB/MAB"),
            13 => out.push_str("RAM"),
            14 => out.push_str("PMEM"),
            15 => out.push_str("N/A"),
            number => {
                let _ = write!(out, "L{number}");
            }
        }
    }
    ends(out, start, bits);
}

/// The answer of other caches.
pub fn snoop(out: &mut String, source: DataSrc) {
    let (bits, more) = (field(source, 19, 5), field(source, 38, 2));
    let start = out.len();
    listed(out, bits, &SNOOPS);
    if more != 0 {
        out.push_str(if out.len() > start { " or " } else { "" });
        listed(out, more, &["Fwd", "Peer"]);
    }
    if out.len() == start {
        out.push_str("N/A");
    }
}

/// Where the address was translated.
pub fn translation(out: &mut String, source: DataSrc) {
    let bits = field(source, 26, 7);
    let start = out.len();
    listed(out, bits & !ENDS, &TLB);
    ends(out, start, bits);
}

/// Whether the access was locked.
pub fn locked(source: DataSrc) -> &'static str {
    match field(source, 24, 2) {
        bits if bits & 1 != 0 => "N/A",
        bits if bits & 2 != 0 => "Yes",
        _ => "No",
    }
}

/// The reason why the access had to wait.
pub fn blocked(source: DataSrc) -> &'static str {
    match field(source, 40, 3) {
        bits if bits == 0 || bits & 1 != 0 => " N/A",
        bits if bits & 6 == 6 => " Data Addr",
        bits if bits & 2 != 0 => " Data",
        _ => " Addr",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_column_tells_apart_its_key_tells_apart() {
        type Tell = fn(DataSrc) -> String;
        fn written(write: fn(&mut String, DataSrc), source: DataSrc) -> String {
            let mut text = String::new();
            write(&mut text, source);
            text
        }
        let columns: [(Key, Tell); 5] = [
            (Key::Mem, |source| written(level, source)),
            (Key::Snoop, |source| written(snoop, source)),
            (Key::Tlb, |source| written(translation, source)),
            (Key::Locked, |source| locked(source).to_owned()),
            (Key::Blocked, |source| blocked(source).to_owned()),
        ];
        for (key, tell) in columns {
            for bit in 0..64 {
                let source = DataSrc(1 << bit);
                let is_told = tell(source) != tell(DataSrc(0));
                assert!(!is_told || part(key, source) != 0, "{key:?}, bit {bit}: {}", tell(source));
            }
        }
    }
}
