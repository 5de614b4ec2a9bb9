//! Transfers that end with a part without a tracer, and those that do not.
//!
//! Some calls move as much as is there. Others move all that they were asked for, however long they wait for it, unless a
//! signal comes: those that write to a pipe, a terminal or a socket, and receive with `MSG_WAITALL`. Those look for a signal
//! where they wait, and an interrupt of ours looks like one. So a part is all that such a call did because of us, or because of
//! an error, which it finds again if it is asked for the rest.
//!
//! Of calls that write in parts natively (a descriptor that does not block, `splice`, `MSG_PEEK`, ...) there is no
//! rest.

use crate::ptrace::Tid;
use crate::regs::{Registers, Width};
use crate::remote;
use crate::width::IO_PGETEVENTS;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// A call that does the rest of another one, or the next piece of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remainder {
    /// `None`: the same again.
    pub(super) call: Option<libc::c_long>,
    pub(super) arguments: [u64; 6],
    /// Its answer if it does all of it.
    pub(super) asked: u64,
    /// There is more behind it.
    pub(super) more: bool,
}

/// No call moves more bytes.
const MOST: u64 = 0x7fff_f000;

/// Whether there are calls of this number that have rests.
pub(super) fn may_be_left_of(call: libc::c_long) -> bool {
    matches!(
        call,
        libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_read
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_sendfile
            | libc::SYS_getrandom
            | libc::SYS_io_getevents
            | IO_PGETEVENTS
    )
}

/// The rest of a call that has just answered that it has done so much.
pub(super) fn of(tid: Tid, registers: &Registers, call: libc::c_long, done: u64) -> Option<Remainder> {
    let arguments: [u64; 6] = std::array::from_fn(|index| registers.argument(index));
    let fd = arguments[0] as i32;
    let flags = arguments[3] as i32;
    let bytes = |mut arguments: [u64; 6], at: usize, len: usize| {
        let asked = arguments[len].min(MOST).checked_sub(done).filter(|left| *left > 0)?;
        (arguments[at], arguments[len]) = (arguments[at].wrapping_add(done), asked);
        Some(Remainder { call: None, arguments, asked, more: false })
    };
    match call {
        libc::SYS_write => bytes(arguments, 1, 2).filter(|_| waits_for_room(tid, fd)),
        libc::SYS_writev => {
            let piece = Vector { at: arguments[1], len: arguments[2] }.piece(tid, registers.width(), done)?;
            let arguments = [arguments[0], piece.at, piece.len, 0, 0, 0];
            piece.remainder(libc::SYS_write, arguments).filter(|_| waits_for_room(tid, fd))
        }
        libc::SYS_read => bytes(arguments, 1, 2).filter(|_| never_ends(tid, fd)),
        libc::SYS_getrandom => bytes(arguments, 0, 1),
        libc::SYS_sendto => {
            const FASTOPEN: u64 = libc::MSG_FASTOPEN as u64;
            let remainder = bytes(arguments, 1, 2).filter(|_| sends(flags) && waits_for_room(tid, fd))?;
            let [fd, at, len, flags, ..] = remainder.arguments;
            Some(Remainder { arguments: [fd, at, len, flags & !FASTOPEN, 0, 0], ..remainder })
        }
        libc::SYS_sendmsg => {
            let (_, vector) = message(tid, registers.width(), arguments[1])?;
            let flags = arguments[2] as i32;
            let piece = vector.piece(tid, registers.width(), done)?;
            let own = (flags & !libc::MSG_FASTOPEN) as u64;
            let arguments = [arguments[0], piece.at, piece.len, own, 0, 0];
            piece.remainder(libc::SYS_sendto, arguments).filter(|_| sends(flags) && waits_for_room(tid, fd))
        }
        libc::SYS_recvfrom => {
            let remainder =
                bytes(arguments, 1, 2).filter(|_| receives_all(flags) && is_waiting_socket(tid, fd))?;
            let [fd, at, len, flags, ..] = remainder.arguments;
            Some(Remainder { arguments: [fd, at, len, flags, 0, 0], ..remainder })
        }
        libc::SYS_recvmsg => {
            let flags = arguments[2] as i32;
            if !receives_all(flags) || !is_waiting_socket(tid, fd) {
                return None;
            }
            // There would be no place for the ancillary data.
            let (beside, vector) = message(tid, registers.width(), arguments[1])?;
            let piece = vector.piece(tid, registers.width(), done).filter(|_| beside == 0)?;
            let arguments = [arguments[0], piece.at, piece.len, flags as u64, 0, 0];
            piece.remainder(libc::SYS_recvfrom, arguments)
        }
        libc::SYS_sendmmsg | libc::SYS_recvmmsg => {
            let receives = call == libc::SYS_recvmmsg;
            let asked = (arguments[2] & 0xffff_ffff).min(1024).checked_sub(done).filter(|left| *left > 0)?;
            let ends = libc::MSG_DONTWAIT | if receives { libc::MSG_WAITFORONE } else { libc::MSG_OOB };
            let limited = receives && arguments[4] != 0;
            if flags & ends != 0 || limited || !is_waiting_socket(tid, fd) {
                return None;
            }
            let message = if registers.width() == Width::Native { 64 } else { 32 };
            let mut arguments = arguments;
            (arguments[1], arguments[2]) = (arguments[1].wrapping_add(done * message), asked);
            Some(Remainder { call: None, arguments, asked, more: false })
        }
        // To pipes it sends as much as these have room for.
        libc::SYS_sendfile => {
            let asked = arguments[3].min(MOST).checked_sub(done).filter(|left| *left > 0)?;
            let arguments = [arguments[0], arguments[1], arguments[2], asked, 0, 0];
            is_waiting_socket(tid, fd).then_some(Remainder { call: None, arguments, asked, more: false })
        }
        libc::SYS_io_getevents | IO_PGETEVENTS => {
            /// `struct io_event`.
            const EVENT: u64 = 32;
            let asked = arguments[1].checked_sub(done).filter(|left| *left > 0)?;
            let mut arguments = arguments;
            (arguments[1], arguments[2]) = (asked, arguments[2].checked_sub(done)?);
            arguments[3] = arguments[3].wrapping_add(done * EVENT);
            Some(Remainder { call: None, arguments, asked, more: false })
        }
        _ => None,
    }
}

/// Of messages that are sent: whether all of it is to be.
fn sends(flags: i32) -> bool {
    flags & (libc::MSG_DONTWAIT | libc::MSG_OOB) == 0
}

fn receives_all(flags: i32) -> bool {
    const OTHERS: i32 =
        libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_OOB | libc::MSG_ERRQUEUE | libc::MSG_TRUNC;
    flags & (libc::MSG_WAITALL | OTHERS) == libc::MSG_WAITALL
}

/// The file behind a descriptor of a thread, if calls that use it wait.
fn waiting_file(tid: Tid, fd: i32) -> Option<std::fs::Metadata> {
    let told = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).ok()?;
    let flags = told.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = i32::from_str_radix(flags.trim(), 8).ok()?;
    // The link is followed to the file itself; nothing is opened.
    let file = || std::fs::metadata(format!("/proc/{tid}/fd/{fd}")).ok();
    (flags & libc::O_NONBLOCK == 0).then(file)?
}

fn waits_for_room(tid: Tid, fd: i32) -> bool {
    waiting_file(tid, fd).is_some_and(|file| {
        let kind = file.file_type();
        kind.is_fifo() || kind.is_socket() || kind.is_char_device() && is_terminal(file.rdev())
    })
}

fn is_waiting_socket(tid: Tid, fd: i32) -> bool {
    waiting_file(tid, fd).is_some_and(|file| file.file_type().is_socket())
}

/// Virtual consoles and serial lines, `/dev/tty` and `/dev/console`, pseudo-terminals.
fn is_terminal(device: libc::dev_t) -> bool {
    matches!(libc::major(device), 4 | 5 | 136..=143)
}

/// `/dev/zero`, `/dev/random` and `/dev/urandom` have as much as is asked for.
fn never_ends(tid: Tid, fd: i32) -> bool {
    waiting_file(tid, fd).is_some_and(|file| {
        let device = (libc::major(file.rdev()), libc::minor(file.rdev()));
        file.file_type().is_char_device() && matches!(device, (1, 5 | 8 | 9))
    })
}

/// An array of `struct iovec`.
#[derive(Clone, Copy, Debug)]
struct Vector {
    at: u64,
    len: u64,
}

/// The rest of an element of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    at: u64,
    len: u64,
    more: bool,
}

impl Piece {
    fn remainder(self, call: libc::c_long, arguments: [u64; 6]) -> Option<Remainder> {
        Some(Remainder { call: Some(call), arguments, asked: self.len, more: self.more })
    }
}

impl Vector {
    /// The piece behind so many bytes.
    fn piece(self, tid: Tid, width: Width, done: u64) -> Option<Piece> {
        /// Calls take no more elements.
        const MOST_ELEMENTS: u64 = 1024;
        let mut elements = Vec::new();
        let size = 2 * word_bytes(width);
        for index in 0..self.len.min(MOST_ELEMENTS) {
            let mut bytes = [0; 16];
            remote::read_exact(tid, self.at.wrapping_add(index * size), &mut bytes[..size as usize]).ok()?;
            elements.push((word(width, &bytes, 0), word(width, &bytes, 1)));
        }
        piece(&elements, done)
    }
}

/// The piece behind so many bytes of these, each an address and a length.
fn piece(elements: &[(u64, u64)], mut done: u64) -> Option<Piece> {
    for (index, (at, len)) in elements.iter().enumerate() {
        if done < *len {
            let more = elements[index + 1..].iter().any(|(_, len)| *len > 0);
            return Some(Piece { at: at.wrapping_add(done), len: len - done, more });
        }
        done -= len;
    }
    None
}

/// Of a `struct msghdr`: where there is room for ancillary data, and where these are.
fn message(tid: Tid, width: Width, at: u64) -> Option<(u64, Vector)> {
    let mut bytes = [0; 40];
    let len = 5 * word_bytes(width) as usize;
    remote::read_exact(tid, at, &mut bytes[..len]).ok()?;
    // name, its length, the vector, its length, the ancillary data.
    let [at, len, beside] = [2, 3, 4].map(|index| word(width, &bytes, index));
    Some((beside, Vector { at, len }))
}

fn word_bytes(width: Width) -> u64 {
    if width == Width::Native { 8 } else { 4 }
}

fn word(width: Width, bytes: &[u8], index: usize) -> u64 {
    let size = word_bytes(width) as usize;
    bytes[index * size..][..size].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_vector() {
        let elements = [(100, 10), (200, 0), (300, 5), (400, 0)];
        let all: Vec<Option<Piece>> = [0, 9, 10, 14, 15].map(|done| piece(&elements, done)).into();
        let one = |at, len, more| Some(Piece { at, len, more });
        assert_eq!(
            all,
            [one(100, 10, true), one(109, 1, true), one(300, 5, false), one(304, 1, false), None]
        );
    }

    #[test]
    fn words_of_both_widths() {
        let bytes = [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0];
        assert_eq!([0, 1].map(|index| word(Width::Native, &bytes, index)), [2 << 32 | 1, 4 << 32 | 3]);
        assert_eq!([0, 3].map(|index| word(Width::Narrow, &bytes, index)), [1, 4]);
    }
}
