//! A child process that does what it is told, one step at a time.

use crate::work::Child;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

/// A forked child. It sleeps until it is told something, does it, says so, and sleeps again. On drop it is
/// ended and waited for.
#[derive(Debug)]
pub struct Puppet {
    child: Option<Child>,
    pipe: UnixStream,
    ended: bool,
}

/// The number that ends a child; other numbers are for the caller.
const END: u8 = 0;

impl Puppet {
    /// Forks. The child closes the descriptors `closing`, then runs `act` with each number it is told. The
    /// conditions for the body of [`Child::fork`] hold for `act`.
    pub fn fork(closing: &[RawFd], mut act: impl FnMut(u8)) -> Self {
        let (here, there) = UnixStream::pair().expect("a pair of sockets");
        let child = Child::fork(|| {
            for &fd in closing.iter().chain([&here.as_raw_fd()]) {
                // SAFETY: a number; what it names is used no more by this process.
                unsafe { libc::close(fd) };
            }
            let mut told = [END];
            while (&there).write_all(&told).is_ok() && (&there).read_exact(&mut told).is_ok() {
                match told[0] {
                    END => break,
                    step => act(step),
                }
            }
        });
        drop(there);
        let mut puppet = Puppet { child: Some(child), pipe: here, ended: false };
        puppet.wait();
        puppet
    }

    fn wait(&mut self) {
        self.pipe.read_exact(&mut [0]).expect("the child answers");
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::pid)
    }

    /// Has the child do something, a number other than 0; returns when it is done.
    pub fn act(&mut self, step: u8) {
        assert_ne!(step, END, "ends it");
        self.pipe.write_all(&[step]).expect("the child listens");
        self.wait();
    }

    /// Ends the child; it stays there as a zombie.
    pub fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let _ = self.pipe.write_all(&[END]);
        // SAFETY: an all-zero siginfo_t is a valid value of that plain struct.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let (pid, options) = (self.pid(), libc::WEXITED | libc::WNOWAIT);
        // SAFETY: the pointer is to a live siginfo_t.
        let result = unsafe { libc::waitid(libc::P_PID, pid, &mut info, options) };
        assert_eq!(result, 0, "waitid: {}", io::Error::last_os_error());
    }

    /// Ends the child and removes what is left of it.
    pub fn reap(&mut self) {
        if self.child.is_some() {
            self.end();
        }
        if let Some(child) = self.child.take() {
            child.join();
        }
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.reap();
        }
    }
}
