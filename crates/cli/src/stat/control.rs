//! `--control`: another program switches counting on and off by writing lines, and reads "ack".

use crate::exit::Failure;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// An open control channel.
#[derive(Debug)]
pub(super) struct Control {
    commands: File,
    acks: Option<File>,
    /// What was read of a line that is not complete.
    line: Vec<u8>,
}

/// A line that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Enable,
    Disable,
    Stop,
    Ping,
}

/// What perf writes: the string with its terminating zero.
const ACK: &[u8] = b"ack\n\0";

impl Control {
    /// Opens what `--control` names.
    pub(super) fn open(text: &str) -> Result<Self, Failure> {
        let (kind, names) = text.split_once(':').unwrap_or((text, ""));
        let (commands, acks) = match names.split_once(',') {
            Some((commands, acks)) => (commands, Some(acks).filter(|acks| !acks.is_empty())),
            None => (names, None),
        };
        let path = |name: &str| -> Result<PathBuf, Failure> {
            match kind {
                "fifo" if !name.is_empty() => Ok(name.into()),
                // Through the file system: a descriptor by number cannot be had safely otherwise.
                "fd" if name.parse::<u32>().is_ok() => Ok(format!("/proc/self/fd/{name}").into()),
                _ => Err(Failure::usage(format_args!(
                    "--control wants fd:N[,ACK] or fifo:PATH[,ACK], not '{text}'"
                ))),
            }
        };
        let open = |name: &str| -> Result<File, Failure> {
            let path = path(name)?;
            // For reading and writing, so that a fifo opens without its other side and never ends.
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
            let opened = options
                .open(&path)
                .or_else(|_| OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path));
            opened.map_err(|error| Failure::new(format_args!("--control {kind}:{name}: {error}")))
        };
        Ok(Control { commands: open(commands)?, acks: acks.map(open).transpose()?, line: Vec::new() })
    }

    /// Reads what has arrived. The flag tells that no more will come.
    pub(super) fn orders(&mut self) -> (Vec<Result<Order, String>>, bool) {
        let mut buffer = [0; 256];
        let mut orders = Vec::new();
        loop {
            match self.commands.read(&mut buffer) {
                Ok(0) => return (orders, true),
                Ok(length) => {
                    for &byte in &buffer[..length] {
                        match byte {
                            b'\n' | 0 if self.line.is_empty() => {}
                            b'\n' | 0 => orders.push(order(&std::mem::take(&mut self.line))),
                            byte => self.line.push(byte),
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return (orders, error.kind() != ErrorKind::WouldBlock),
            }
        }
    }

    /// Answers an order that has been carried out. A reader that has gone away does not matter.
    pub(super) fn acknowledge(&mut self) {
        if let Some(acks) = &mut self.acks {
            let _ = acks.write_all(ACK);
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.commands.as_fd()
    }
}

fn order(line: &[u8]) -> Result<Order, String> {
    let text = String::from_utf8_lossy(line);
    match text.trim() {
        "enable" => Ok(Order::Enable),
        "disable" => Ok(Order::Disable),
        "stop" => Ok(Order::Stop),
        "ping" => Ok(Order::Ping),
        other => Err(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_orders() {
        assert_eq!(order(b"enable"), Ok(Order::Enable));
        assert_eq!(order(b"disable "), Ok(Order::Disable));
        assert_eq!(order(b"evlist"), Err("evlist".into()));
    }

    #[test]
    fn wrong_channels_are_refused() {
        for text in ["", "fd:", "fd:x", "fifo:", "pipe:1", "fd:1,x"] {
            assert!(Control::open(text).is_err(), "{text}");
        }
    }
}
