//! Signals that a test provokes, with what `siginfo_t` says of them, and those that it sends.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Sends a signal to a process that is there.
pub fn send(signal: libc::c_int, pid: u32) {
    // SAFETY: plain numbers.
    let sent = unsafe { libc::kill(pid as libc::pid_t, signal) };
    assert_eq!(sent, 0, "signal {signal} to process {pid}: {}", io::Error::last_os_error());
}

/// `si_code` of the last signal of a refresh (`siginfo.h`; the libc crate lacks it).
pub const POLL_HUP: i32 = 6;

/// A signal that was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_fd`, for signals of descriptors.
    pub fd: i32,
    /// `si_perf_data`, for those of events with `sigtrap`.
    pub perf_data: u64,
    /// `si_perf_type`, likewise.
    pub perf_type: u32,
    /// `si_addr`, likewise.
    pub addr: u64,
}

/// Handles a signal and remembers each, until dropped. There is one at a time in a process.
#[derive(Debug)]
pub struct Handler {
    signal: i32,
    before: libc::sigaction,
    _alone: std::sync::MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());
/// Signals handled; the details of the first [`ROOM`] are kept.
static COUNT: AtomicUsize = AtomicUsize::new(0);
const ROOM: usize = 256;
static CODES: [AtomicI32; ROOM] = [const { AtomicI32::new(0) }; ROOM];
/// The words of `siginfo_t` behind its three numbers and their padding.
static WORDS: [[AtomicU64; 3]; ROOM] = [const { [const { AtomicU64::new(0) }; 3] }; ROOM];

extern "C" fn remember(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let index = COUNT.fetch_add(1, SeqCst);
    if index >= ROOM {
        return;
    }
    // SAFETY: the kernel hands a handler installed with SA_SIGINFO a whole siginfo.
    let code = unsafe { (*info).si_code };
    CODES[index].store(code, SeqCst);
    for (place, word) in WORDS[index].iter().enumerate() {
        // SAFETY: bytes 16 to 40 of the 128 that every siginfo has, aligned to eight.
        word.store(unsafe { info.cast::<u64>().add(2 + place).read() }, SeqCst);
    }
}

fn forget() {
    COUNT.store(0, SeqCst);
    // Written once, so that the handler causes no page faults of its own.
    CODES.iter().for_each(|code| code.store(0, SeqCst));
    WORDS.iter().flatten().for_each(|word| word.store(0, SeqCst));
}

impl Handler {
    /// Handles `signal` from now on.
    pub fn install(signal: i32) -> Self {
        let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        forget();
        // SAFETY: an all-zero sigaction is a valid value of that plain struct.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        action.sa_sigaction = remember as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        // SAFETY: both pointers are to live structs; the handler only stores into atomics.
        let result = unsafe { libc::sigaction(signal, &action, &mut before) };
        assert_eq!(result, 0, "sigaction: {}", io::Error::last_os_error());
        Handler { signal, before, _alone: alone }
    }

    /// The signal it handles.
    pub fn signal(&self) -> i32 {
        self.signal
    }

    /// Forgets those that came so far.
    pub fn forget(&self) {
        forget();
    }

    /// How many came so far.
    pub fn count(&self) -> usize {
        COUNT.load(SeqCst)
    }

    /// The first of those that came so far, with their details.
    pub fn caught(&self) -> Vec<Signal> {
        (0..self.count().min(ROOM))
            .map(|index| {
                let [first, second, third] = WORDS[index].each_ref().map(|word| word.load(SeqCst));
                // Little-endian or big: si_fd follows si_band (a long), si_perf_type follows si_perf_data.
                let third_low = u32::from_ne_bytes(third.to_ne_bytes()[..4].try_into().expect("four bytes"));
                let fd = u32::from_ne_bytes(second.to_ne_bytes()[..4].try_into().expect("four bytes"));
                let code = CODES[index].load(SeqCst);
                let (fd, perf_data) = (fd as i32, second);
                Signal { signal: self.signal, code, fd, perf_data, perf_type: third_low, addr: first }
            })
            .collect()
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: the pointer is to the action that was there before.
        unsafe { libc::sigaction(self.signal, &self.before, std::ptr::null_mut()) };
    }
}
