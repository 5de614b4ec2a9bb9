//! A terminal that nobody sits at: a program's output goes there, a test reads it.

use crate::Skip;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};

/// A pseudo-terminal.
#[derive(Debug)]
pub struct Terminal {
    ours: File,
    name: String,
}

impl Terminal {
    /// One of this size.
    pub fn new(rows: u16, columns: u16) -> Result<Self, Skip> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC);
        let ours = ours.map_err(|error| Skip::needs("pseudo-terminals", error))?;
        grantpt(&ours).and_then(|()| unlockpt(&ours)).map_err(|error| Skip::needs("/dev/pts", error))?;
        let name = ptsname(&ours, Vec::new()).expect("a name").into_string().expect("UTF-8");
        let terminal = Terminal { ours: File::from(ours), name };
        terminal.resize(rows, columns);
        Ok(terminal)
    }

    /// Gives it another size; a program that has it for its own terminal hears of that.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.ours, size).expect("a size");
    }

    /// The side that programs write to.
    pub fn side(&self) -> File {
        File::options().read(true).write(true).open(&self.name).expect("its other side")
    }

    /// The same, of a terminal that passes bytes on as they are.
    pub fn raw_side(&self) -> File {
        let side = self.side();
        let mut modes = tcgetattr(&side).expect("modes");
        modes.make_raw();
        tcsetattr(&side, OptionalActions::Now, &modes).expect("modes");
        side
    }

    /// Types this.
    pub fn types(&mut self, keys: &[u8]) {
        self.ours.write_all(keys).expect("the terminal is there");
    }

    /// All that is written to it, until that is `enough`, until nobody has the other side any more, or until nothing comes for a minute.
    pub fn read(&mut self, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let (mut seen, mut room) = (Vec::new(), [0; 4096]);
        let long = Timespec { tv_sec: 60, tv_nsec: 0 };
        while !enough(&seen) && poll(&mut [PollFd::new(&self.ours, PollFlags::IN)], Some(&long)) != Ok(0) {
            match self.ours.read(&mut room) {
                Ok(0) | Err(_) => break,
                Ok(count) => seen.extend_from_slice(&room[..count]),
            }
        }
        seen
    }

    /// The same as text, until it contains `wanted`; panics if it ends without.
    #[track_caller]
    pub fn read_until(&mut self, wanted: &str) -> String {
        let text = |seen: &[u8]| String::from_utf8_lossy(seen).into_owned();
        let seen = text(&self.read(|seen| text(seen).contains(wanted)));
        assert!(seen.contains(wanted), "'{wanted}' does not appear: {seen:?}");
        seen
    }
}
