//! Where a thread does system calls for us that may lose its tracer at any moment: at an instruction that calls the system and is followed by
//! a return, which leads to one that jumps to itself. There the thread waits for somebody who knows its registers.

use crate::ptrace::{self, Tid};
use crate::remote;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

#[cfg(target_arch = "x86_64")]
const CALL: &[u8] = &[0x0f, 0x05, 0xc3];
#[cfg(target_arch = "x86_64")]
const REST: &[u8] = &[0xeb, 0xfe];
#[cfg(target_arch = "aarch64")]
const CALL: &[u8] = &[0x01, 0x00, 0x00, 0xd4, 0xc0, 0x03, 0x5f, 0xd6];
#[cfg(target_arch = "aarch64")]
const REST: &[u8] = &[0x00, 0x00, 0x00, 0x14];

/// Bytes of the return.
const RETURN: u64 = if cfg!(target_arch = "x86_64") { 1 } else { 4 };

/// Two places in the code of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Harbour {
    pub(crate) call: u64,
    pub(crate) rest: u64,
}

/// A part of a file: device, inode, offset and length.
type Part = ((u32, u32), u64, u64, u64);

/// What has been found in parts of files.
static FOUND: Mutex<Option<HashMap<Part, [Option<usize>; 2]>>> = Mutex::new(None);

/// So much is looked through of one mapping, and so many of these are remembered.
const MOST: u64 = 4 << 20;
const MOST_PARTS: usize = 4096;

/// That of a 64-bit process; `None` where there are no such places.
pub(crate) fn of(tid: Tid) -> Option<Harbour> {
    const EXECUTABLE: u32 = 5;
    let maps = perfuse_proc::read::maps(tid as u32).ok()?;
    let (mut call, mut rest) = (None, None);
    for map in perfuse_proc::maps(&maps).filter(|map| map.prot & 7 == EXECUTABLE) {
        let len = (map.end - map.start).min(MOST);
        let part = (map.inode != 0).then_some((map.device, map.inode, map.offset, len));
        let known = part.and_then(|part| with_found(|found| found.get(&part).copied()));
        let places = known.unwrap_or_else(|| {
            let places = look(tid, map.start, len);
            if let Some(part) = part {
                with_found(|found| {
                    if found.len() < MOST_PARTS {
                        found.insert(part, places);
                    }
                });
            }
            places
        });
        let [found_call, found_rest] = places.map(|place| place.map(|place| map.start + place as u64));
        (call, rest) = (call.or(found_call), rest.or(found_rest));
        if let (Some(call), Some(rest)) = (call, rest) {
            // A file may have been changed, or have a trap there.
            let is = |addr, code: &[u8]| {
                let mut bytes = vec![0; code.len()];
                remote::read_exact(tid, addr, &mut bytes).is_ok() && bytes == code
            };
            return (is(call, CALL) && is(rest, REST)).then_some(Harbour { call, rest });
        }
    }
    None
}

/// Whether a stopped thread stands in one: before the call, behind it, or where it rests. Asks for no memory.
pub(crate) fn is_there(tid: Tid, ip: u64) -> bool {
    let begins = |addr: u64, code: &[u8]| {
        ptrace::peek(tid, addr).is_ok_and(|word| word.to_ne_bytes().starts_with(code))
    };
    let behind = CALL.len() as u64 - RETURN;
    begins(ip, REST) || begins(ip, CALL) || begins(ip.wrapping_sub(behind), CALL)
}

fn with_found<R>(act: impl FnOnce(&mut HashMap<Part, [Option<usize>; 2]>) -> R) -> R {
    act(FOUND.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

fn look(tid: Tid, from: u64, len: u64) -> [Option<usize>; 2] {
    let mut code = vec![0; len as usize];
    let mut got = 0;
    while got < code.len() {
        match remote::read(tid, from + got as u64, &mut code[got..]) {
            Ok(more) if more > 0 => got += more,
            _ => break,
        }
    }
    [CALL, REST].map(|wanted| remote::find_instruction(&code[..got], wanted))
}
