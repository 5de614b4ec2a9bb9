//! Texts that system calls are given, copied while their threads are stopped where calls begin: for readers of records in this
//! very process, as a record has addresses alone.

use crate::ptrace::Tid;
use crate::regs::ARCH;
use crate::remote;
use perfuse_trace::Calls;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes of a text that are copied; longer ones are cut.
pub const LONGEST: usize = 512;

/// `sizeof(struct sockaddr_storage)`.
const LONGEST_ADDRESS: usize = 128;

/// Calls of a thread, and threads, whose texts are kept until somebody takes them.
const MOST: usize = 1 << 10;

/// The texts of a call: the place of each argument, and its bytes.
type Texts = Vec<(usize, Vec<u8>)>;

static ARE_COPIED: AtomicBool = AtomicBool::new(false);

/// Of each thread, in the order of its calls, with the times of the records that tell of them.
type Copies = HashMap<u32, VecDeque<(u64, Texts)>>;

fn copies() -> MutexGuard<'static, Copies> {
    static COPIES: OnceLock<Mutex<Copies>> = OnceLock::new();
    COPIES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to copy texts of the calls that tracepoints tell of, or ends it.
pub fn copy(on: bool) {
    ARE_COPIED.store(on, Relaxed);
    copies().clear();
}

/// The texts of a call by its thread and the time at which its record says that it began: the place of each argument, and the text up to
/// its NUL, or a socket's address.
pub fn take(tid: u32, time: u64) -> Texts {
    let mut copies = copies();
    let Some(calls) = copies.get_mut(&tid) else { return Vec::new() };
    // Of those before nobody asks any more.
    while calls.front().is_some_and(|&(at, _)| at < time) {
        calls.pop_front();
    }
    match calls.front() {
        Some(&(at, _)) if at == time => calls.pop_front().map(|(_, texts)| texts).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// A thread is stopped where a call begins, of which a record of this time tells.
pub(crate) fn note(tid: Tid, time: u64, number: u64, arguments: &[u64; 6]) {
    if !ARE_COPIED.load(Relaxed) {
        return;
    }
    let spec = Calls::of(ARCH).get(number);
    let given = spec.iter().flat_map(|spec| spec.arguments.iter().flatten()).zip(arguments).enumerate();
    let texts = given.filter(|(_, (argument, address))| argument.is_text() && **address != 0);
    let texts: Texts = texts
        .filter_map(|(index, (argument, &address))| {
            let len = match argument.is_socket_address() {
                true => arguments.get(index + 1).map_or(0, |&len| len as u32 as usize).min(LONGEST_ADDRESS),
                false => LONGEST,
            };
            let mut bytes = vec![0; len];
            let got = remote::read(tid, address, &mut bytes).ok()?;
            bytes.truncate(got);
            if !argument.is_socket_address() {
                let end = bytes.iter().position(|&byte| byte == 0).or_else(|| (got == len).then_some(len))?;
                bytes.truncate(end);
            }
            Some((index, bytes))
        })
        .collect();
    if !texts.is_empty() {
        let mut copies = copies();
        if copies.len() >= MOST && !copies.contains_key(&(tid as u32)) {
            copies.clear();
        }
        let calls = copies.entry(tid as u32).or_default();
        if calls.len() >= MOST {
            calls.pop_front();
        }
        calls.push_back((time, texts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::own_tid;

    #[test]
    fn texts_are_those_of_their_call() {
        let number = |name| Calls::of(ARCH).number(name).expect(name);
        let (first, second) = (c"/first", c"/second");
        let open = |path: &std::ffi::CStr| [0, path.as_ptr() as u64, 0, 0, 0, 0];
        let tid = own_tid();
        note(tid, 1, number("openat"), &open(first));
        assert_eq!(take(tid as u32, 1), [], "nobody has asked for them");
        copy(true);
        note(tid, 5, number("openat"), &open(first));
        note(tid, 6, number("read"), &[0; 6]);
        note(tid, 7, number("openat"), &open(second));
        note(tid, 9, number("renameat2"), &[0, first.as_ptr() as u64, 0, second.as_ptr() as u64, 0, 0]);
        let address = [2u8, 0, 0, 80, 127, 0, 0, 1];
        note(tid, 10, number("connect"), &[0, address.as_ptr() as u64, 8, 0, 0, 0]);
        assert_eq!(take(tid as u32, 6), []);
        assert_eq!(take(tid as u32, 7), [(1, b"/second".to_vec())]);
        assert_eq!(take(tid as u32, 7), []);
        assert_eq!(take(tid as u32, 9), [(1, b"/first".to_vec()), (3, b"/second".to_vec())]);
        assert_eq!(take(tid as u32, 10), [(1, address.to_vec())]);
        // What is not there, and more than a text may have.
        let long = std::ffi::CString::new(vec![b'x'; 2 * LONGEST]).expect("no NUL");
        note(tid, 11, number("openat"), &[0, 1, 0, 0, 0, 0]);
        note(tid, 12, number("openat"), &open(&long));
        assert_eq!(take(tid as u32, 11), []);
        assert_eq!(take(tid as u32, 12)[0].1.len(), LONGEST);
        (0..2 * MOST as u64).for_each(|time| note(tid, 100 + time, number("openat"), &open(first)));
        assert_eq!(copies()[&(tid as u32)].len(), MOST);
        copy(false);
        assert!(copies().is_empty());
    }
}
