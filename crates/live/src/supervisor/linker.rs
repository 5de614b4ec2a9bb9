//! Where a program begins, and where its dynamic linker tells debuggers that libraries came or went: a function that
//! does nothing, and is called for the sake of their traps.

use crate::ptrace::Tid;
use crate::regs::Registers;
use crate::remote;
use std::collections::BTreeMap;

/// Entries of the auxiliary vector.
const PROGRAM_HEADERS: u64 = 3;
const NUMBER_OF_HEADERS: u64 = 5;
const ENTRY: u64 = 9;

/// Segments of a program: where its dynamic section is, and its headers are.
const DYNAMIC: u32 = 2;
const HEADERS: u32 = 6;
/// `DT_DEBUG` of the dynamic section: where the linker has put its `struct r_debug`, in which this is the function.
const DEBUG: u64 = 21;
const FUNCTION: u64 = 16;

/// Of the program of a stopped tracee; also the bytes of its words.
fn auxiliary(tid: Tid) -> Option<(BTreeMap<u64, u64>, usize)> {
    let auxv = std::fs::read(format!("/proc/{tid}/auxv")).ok()?;
    let size = if Registers::of(tid).ok()?.is_narrow() { 4 } else { 8 };
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let pairs = auxv.chunks_exact(2 * size).map(|pair| (word(&pair[..size]), word(&pair[size..])));
    Some((pairs.collect(), size))
}

/// Where the program of a stopped tracee begins.
pub(super) fn entry(tid: Tid) -> Option<u64> {
    auxiliary(tid)?.0.get(&ENTRY).copied()
}

/// Where a 64-bit program's linker tells of libraries, once it has begun to work.
pub(super) fn told_at(tid: Tid) -> Option<u64> {
    let (auxiliary, size) = auxiliary(tid)?;
    let (&at, &number) = (auxiliary.get(&PROGRAM_HEADERS)?, auxiliary.get(&NUMBER_OF_HEADERS)?);
    if size != 8 || number > 128 {
        return None;
    }
    let word = |addr: u64| {
        let mut bytes = [0; 8];
        remote::read_exact(tid, addr, &mut bytes).ok().map(|()| u64::from_ne_bytes(bytes))
    };
    // Each header of 56 bytes has its kind, and in its third word the address as linked.
    let header = |kind: u32| {
        let mut headers = (0..number).map(|index| at + 56 * index);
        headers.find(|&header| word(header).is_some_and(|first| first as u32 == kind))
    };
    let linked = |kind| word(header(kind)? + 16);
    // Programs that do not lie where they were linked say where their headers were.
    let away = linked(HEADERS).map_or(0, |headers| at.wrapping_sub(headers));
    let dynamic = linked(DYNAMIC)?.wrapping_add(away);
    let entries = (0..512).map_while(|index| Some((word(dynamic + 16 * index)?, dynamic + 16 * index + 8)));
    let debug = entries.take_while(|(tag, _)| *tag != 0).find(|(tag, _)| *tag == DEBUG)?.1;
    let debug = word(debug).filter(|&debug| debug != 0)?;
    word(debug + FUNCTION).filter(|&function| function != 0)
}
