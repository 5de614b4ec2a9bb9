//! How a descriptor of this process's gets into a tool that cannot open it by its path: one of another user, in another
//! user or pid namespace, below another root. It is sent through a socket, which takes no rights.
//!
//! Sockets come together in two ways. Either the tool makes a pair and one of it is taken, which takes the right to trace
//! the tool and a sandbox that allows it; or each makes one, and they find each other by names, which takes a common
//! network namespace. A program that drops its rights is in one, and a program that makes namespaces has nothing in the way of the other.

use super::inject::Injector;
use crate::proc;
use crate::ptrace::Tid;
use crate::remote;
use perfuse_abi::Errno;
use perfuse_sys::{pidfd, socket};
use std::collections::hash_map::RandomState;
use std::fs::OpenOptions;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const UNIX: u64 = libc::AF_UNIX as u64;
const DATAGRAMS: u64 = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;

/// Two sockets.
struct Sockets {
    ours: OwnedFd,
    /// The tool's, by its number.
    number: u64,
    /// The address of that one, where they are not connected.
    address: Vec<u8>,
}

/// The tool gets a descriptor of this process's, opened anew with these flags (`O_RDONLY` and `O_RDWR`, and what goes with them),
/// as its lowest free number: `EMFILE`, `ENFILE`; `EACCES` where neither way leads there.
pub(super) fn pass(injector: &mut Injector<'_>, fd: RawFd, flags: i32) -> Result<u64, Errno> {
    let writes = flags & libc::O_ACCMODE == libc::O_RDWR;
    let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EACCES));
    let mut options = OpenOptions::new();
    options.read(true).write(writes).custom_flags(flags & !libc::O_ACCMODE);
    let file = options.open(format!("/proc/self/fd/{fd}")).map_err(failed)?;
    let sockets = paired(injector).or_else(|_| named(injector)).map_err(|errno| match errno {
        Errno::EMFILE | Errno::ENFILE => errno,
        _ => Errno::EACCES,
    })?;
    let received = socket::send_descriptor(sockets.ours.as_fd(), &sockets.address, file.as_fd())
        .and_then(|()| receive(injector, sockets.number));
    injector.close(sockets.number);
    // The sockets had lower ones.
    let lowest = injector.call(libc::SYS_fcntl, [received?, libc::F_DUPFD_CLOEXEC as u64, 0, 0, 0, 0]);
    injector.close(received?);
    lowest
}

fn paired(injector: &mut Injector<'_>) -> Result<Sockets, Errno> {
    let pid = proc::process_of(injector.tid()).ok_or(Errno::ESRCH)?;
    let page = injector.put(&[0; 8])?;
    injector.call(libc::SYS_socketpair, [UNIX, DATAGRAMS, 0, page, 0, 0])?;
    let [number, other] = [0, 4].map(|at| word(injector.tid(), page + at));
    let (number, other) = (number?, other?);
    let ours = pidfd::descriptor_of(pid, other as RawFd);
    injector.close(other.into());
    match ours {
        Ok(ours) => Ok(Sockets { ours, number: number.into(), address: Vec::new() }),
        Err(errno) => {
            injector.close(number.into());
            Err(errno)
        }
    }
}

fn named(injector: &mut Injector<'_>) -> Result<Sockets, Errno> {
    // The name is unknown to others.
    let name = format!("perfuse-{:016x}", RandomState::new().build_hasher().finish());
    let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EACCES));
    let address = SocketAddr::from_abstract_name(name.as_bytes()).map_err(failed)?;
    let ours = UnixDatagram::bind_addr(&address).map_err(failed)?;
    let number = injector.call(libc::SYS_socket, [UNIX, DATAGRAMS, 0, 0, 0, 0])?;
    match meet(injector, number, &name) {
        Ok(address) => Ok(Sockets { ours: ours.into(), number, address }),
        Err(errno) => {
            injector.close(number);
            Err(errno)
        }
    }
}

/// The tool's socket is connected, so that no other can send to it, and gets a name: its address.
fn meet(injector: &mut Injector<'_>, number: u64, name: &str) -> Result<Vec<u8>, Errno> {
    const ROOM: usize = 110;
    let family = (UNIX as u16).to_ne_bytes();
    let ours = [&family[..], b"\0", name.as_bytes()].concat();
    let page = injector.put(&ours)?;
    injector.call(libc::SYS_connect, [number, page, ours.len() as u64, 0, 0, 0])?;
    injector.call(libc::SYS_bind, [number, page, family.len() as u64, 0, 0, 0])?;
    let page = injector.put(&(ROOM as u32).to_ne_bytes())?;
    injector.call(libc::SYS_getsockname, [number, page + 8, page, 0, 0, 0])?;
    let mut address = vec![0; (word(injector.tid(), page)? as usize).min(ROOM)];
    remote::read_exact(injector.tid(), page + 8, &mut address)?;
    Ok(address)
}

fn word(tid: Tid, addr: u64) -> Result<u32, Errno> {
    let mut bytes = [0; 4];
    remote::read_exact(tid, addr, &mut bytes)?;
    Ok(u32::from_ne_bytes(bytes))
}

/// The tool takes the descriptor: its number.
fn receive(injector: &mut Injector<'_>, socket: u64) -> Result<u64, Errno> {
    let wide = !injector.is_narrow();
    let size = if wide { 8 } else { 4 };
    const PART: u64 = 64;
    const BYTE: u64 = 80;
    const CONTROL: u64 = 96;
    let room = CONTROL as usize + 3 * size;
    // Pointers are told first where the page is.
    let page = injector.put(&vec![0; room])?;
    let mut bytes = vec![0u8; room];
    let mut place =
        |at: usize, value: u64| bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    // `struct msghdr`: name, its length, parts and how many, control data and their length, flags; `struct iovec`.
    place(2 * size, page + PART);
    place(3 * size, 1);
    place(4 * size, page + CONTROL);
    place(5 * size, 3 * size as u64);
    place(PART as usize, page + BYTE);
    place(PART as usize + size, 1);
    injector.put(&bytes)?;
    let flags = (libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT) as u64;
    injector.call(libc::SYS_recvmsg, [socket, page, flags, 0, 0, 0])?;
    // `struct cmsghdr`: length, level, kind; the number.
    let (len, number) =
        (word(injector.tid(), page + CONTROL)?, word(injector.tid(), page + CONTROL + size as u64 + 8)?);
    // The kernel cuts off the parts for which there was no descriptor.
    if (len as usize) < size + 12 { Err(Errno::EMFILE) } else { Ok(number.into()) }
}
