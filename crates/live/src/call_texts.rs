//! Texts that system calls are given, copied while their threads are stopped where calls begin: for readers of records in this
//! very process, as a record has addresses alone.

use crate::ptrace::Tid;
use crate::regs::ARCH;
use crate::remote;
use perfuse_trace::{Calls, LONGEST_ADDRESS, LONGEST_TEXT};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Calls whose texts are kept until somebody takes them; then those of the oldest are forgotten.
const MOST: usize = 1 << 14;

/// The texts of a call: the place of each argument, and its bytes.
type Texts = Vec<(usize, Vec<u8>)>;

#[derive(Debug)]
struct Copies {
    /// How many [`Copying`] there are.
    askers: usize,
    /// By the time of the record that tells of the call, and the thread.
    texts: BTreeMap<(u64, u32), Texts>,
}

fn copies() -> MutexGuard<'static, Copies> {
    static COPIES: Mutex<Copies> = Mutex::new(Copies { askers: 0, texts: BTreeMap::new() });
    COPIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Texts of the calls that tracepoints tell of are copied as long as there is one of these.
#[derive(Debug)]
pub struct Copying(());

impl Copying {
    /// Begins to copy.
    pub fn begin() -> Self {
        copies().askers += 1;
        Copying(())
    }

    /// Takes the texts of a call by its thread and the time at which its record says that it began: the place of each argument, and the
    /// text up to its NUL, or a socket's address.
    pub fn take(&self, tid: u32, time: u64) -> Vec<(usize, Vec<u8>)> {
        copies().texts.remove(&(time, tid)).unwrap_or_default()
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        let mut copies = copies();
        copies.askers -= 1;
        if copies.askers == 0 {
            copies.texts.clear();
        }
    }
}

/// A thread is stopped where a call begins, of which a record of this time tells. Only pages that are there are read: a call fetches the
/// others itself, and nobody waits for who fills them.
pub(crate) fn note(tid: Tid, time: u64, number: u64, arguments: &[u64; 6]) {
    if copies().askers == 0 {
        return;
    }
    let spec = Calls::of(ARCH).get(number);
    let given = spec.iter().flat_map(|spec| spec.arguments.iter().flatten()).zip(arguments).enumerate();
    let texts = given.filter(|(_, (argument, address))| argument.is_text() && **address != 0);
    let texts: Texts = texts
        .filter_map(|(index, (argument, &address))| {
            let is_address = argument.is_socket_address();
            let len = match is_address {
                true => arguments.get(index + 1).map_or(0, |&len| len as u32 as usize).min(LONGEST_ADDRESS),
                false => LONGEST_TEXT,
            };
            let mut bytes = vec![0; len];
            let got = remote::read_present(tid, address, &mut bytes).ok()?;
            let whole = (got == len).then_some(len);
            let end = if is_address { None } else { bytes[..got].iter().position(|&byte| byte == 0) };
            bytes.truncate(end.or(whole)?);
            Some((index, bytes))
        })
        .collect();
    if !texts.is_empty() {
        let mut copies = copies();
        if copies.texts.len() >= MOST {
            copies.texts.pop_first();
        }
        copies.texts.insert((time, tid as u32), texts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::own_tid;
    use std::ffi::{CStr, CString};

    #[test]
    fn texts_are_those_of_their_call() {
        let number = |name| Calls::of(ARCH).number(name).expect(name);
        let [first, second] = ["/first", "/second"].map(|text| CString::new(text).expect("no NUL"));
        let open = |path: &CStr| [0, path.as_ptr() as u64, 0, 0, 0, 0];
        let tid = own_tid();
        note(tid, 1, number("openat"), &open(&first));
        let copying = Copying::begin();
        let take = |tid, time| copying.take(tid, time);
        assert_eq!(take(tid as u32, 1), [], "nobody had asked for them");
        note(tid, 5, number("openat"), &open(&first));
        note(tid, 6, number("read"), &[0; 6]);
        note(tid, 7, number("openat"), &open(&second));
        note(tid, 9, number("renameat2"), &[0, first.as_ptr() as u64, 0, second.as_ptr() as u64, 0, 0]);
        let address = [2u8, 0, 0, 80, 127, 0, 0, 1];
        note(tid, 10, number("connect"), &[0, address.as_ptr() as u64, 8, 0, 0, 0]);
        assert_eq!(take(tid as u32, 6), []);
        assert_eq!(take(tid as u32, 7), [(1, b"/second".to_vec())]);
        assert_eq!(take(tid as u32, 7), []);
        assert_eq!(take(tid as u32, 9), [(1, b"/first".to_vec()), (3, b"/second".to_vec())]);
        assert_eq!(take(tid as u32, 10), [(1, address.to_vec())]);
        // An address where nothing is, and a text that is too long.
        let long = CString::new(vec![b'x'; 2 * LONGEST_TEXT]).expect("no NUL");
        note(tid, 11, number("openat"), &[0, 1, 0, 0, 0, 0]);
        note(tid, 12, number("openat"), &open(&long));
        assert_eq!(take(tid as u32, 11), []);
        assert_eq!(take(tid as u32, 12)[0].1.len(), LONGEST_TEXT);
        (0..2 * MOST as u64).for_each(|time| note(tid, 100 + time, number("openat"), &open(&first)));
        assert_eq!(copies().texts.len(), MOST);
        drop(copying);
        assert!(copies().texts.is_empty());
    }
}
