//! Things that only one test of the machine may use at a time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// A lock that all test programs of this machine share, whoever runs them; let go on drop.
#[derive(Debug)]
pub struct Alone(#[expect(dead_code, reason = "the lock is on the open file")] File);

impl Alone {
    /// Waits until nobody else has the lock of this name.
    pub fn on_this_machine(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{name}.lock"));
        // The first test makes it, readable for all; nobody writes to it.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o444).open(&path);
        let file = made.or_else(|_| File::open(&path)).expect("a file for the lock");
        // SAFETY: plain numbers.
        let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) };
        assert_eq!(locked, 0, "flock: {}", io::Error::last_os_error());
        Alone(file)
    }
}
