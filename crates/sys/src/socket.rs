//! Sockets: descriptors sent through them, and what is asked of those of others.

use crate::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::net::AddressFamily;
use rustix::net::sockopt::{Timeout, socket_domain, socket_timeout};

/// How long a socket waits for data; `None`: for ever, or it is no socket.
pub fn receive_timeout(socket: &OwnedFd) -> Option<Duration> {
    socket_timeout(socket, Timeout::Recv).ok()?
}

/// How long a socket waits until data are taken; `None`: for ever, or it is no socket.
pub fn send_timeout(socket: &OwnedFd) -> Option<Duration> {
    socket_timeout(socket, Timeout::Send).ok()?
}

/// Whether its other side is on this machine (`AF_UNIX`).
pub fn is_local(socket: &OwnedFd) -> bool {
    socket_domain(socket) == Ok(AddressFamily::UNIX)
}

/// Sends a descriptor through a local socket, with one byte and without waiting. `address`: that of the other side as
/// `getsockname(2)` gives it; empty where they are connected.
pub fn send_descriptor(socket: BorrowedFd<'_>, address: &[u8], fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut byte = 0u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // Room for a header and a number, aligned as the header has to be.
    let mut control = [0u64; 3];
    // SAFETY: an all-zero msghdr is a valid value of that plain struct.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    if !address.is_empty() {
        message.msg_name = address.as_ptr().cast_mut().cast();
        message.msg_namelen = address.len() as libc::socklen_t;
    }
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
    // SAFETY: the message describes live values, the address and the byte being read only; the control data have room for the header
    // and the number that are written.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        ((*header).cmsg_level, (*header).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd.as_raw_fd());
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    if sent == -1 { Err(crate::errno::last()) } else { Ok(()) }
}
