//! Orders from another program, perf's `--control`: it switches counting on and off by writing lines, and reads "ack".
//!
//! The orders are perf's, understood as perf 6.1 understands them: what follows a space is an argument, an
//! order that exists is answered even if nothing came of it, and `snapshot`, which concerns recording only,
//! is not, nor is a line that is no order. Beyond perf, `stop` ends the measurement.

use perfuse_sys::{inherited, pipe, poll};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// An open control channel.
#[derive(Debug)]
pub struct Control {
    commands: File,
    acks: Option<File>,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
}

/// The order that a line gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start or stop the events of a name, or all.
    Switch {
        /// Start.
        on: bool,
        /// The event; `None` for all.
        name: Option<String>,
    },
    /// List the events.
    List(Listing),
    /// End the measurement.
    Stop,
    /// Answer.
    Ping,
    /// Begins with an order, but goes on wrongly.
    Malformed(String),
    /// Not answered: of no use here, or no order at all.
    Ignored(String),
}

/// How `evlist` is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Names alone.
    Names,
    /// `-v`: how each event was opened.
    Details,
    /// `-g`: groups in braces.
    Groups,
}

impl Order {
    /// The lines that are to be said of an order, and whether it is acknowledged. `events`: names, each with the number of its group;
    /// `is_known`: whether there is an event of the name that it switches; `details`: a line about each event. To switch events, or to
    /// end, is for those who measure.
    pub fn answer(
        &self,
        events: &[(&str, Option<u32>)],
        is_known: bool,
        details: impl FnOnce() -> Vec<String>,
    ) -> (Vec<String>, bool) {
        let lines = match self {
            Order::Switch { name: Some(name), .. } if !is_known => {
                vec![format!("control: there is no event '{name}'")]
            }
            Order::List(Listing::Names) => events.iter().map(|(name, _)| (*name).to_owned()).collect(),
            Order::List(Listing::Details) => details(),
            Order::List(Listing::Groups) => {
                let groups = events.chunk_by(|(_, one), (_, other)| one.is_some() && one == other);
                let shown = groups.map(|group| {
                    let names: Vec<_> = group.iter().map(|(name, _)| *name).collect();
                    if group[0].1.is_some() { format!("{{{}}}", names.join(",")) } else { names.concat() }
                });
                shown.collect()
            }
            Order::Switch { .. } | Order::Ping | Order::Stop => Vec::new(),
            Order::Malformed(line) => vec![format!("control: '{line}' is not understood")],
            Order::Ignored(line) => {
                let known = "enable [EVENT], disable [EVENT], evlist [-v|-g], ping, stop";
                return (vec![format!("control: '{line}' is ignored; there are {known}")], false);
            }
        };
        (lines, true)
    }
}

/// Why there is no control channel.
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// It is not named as `fd:N[,ACK]` or `fifo:PATH[,ACK]`.
    Form(String),
    /// It cannot be opened.
    Io {
        /// The one of the two.
        channel: String,
        /// Why not.
        error: std::io::Error,
    },
}

impl std::fmt::Display for ControlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ControlError::Form(text) => {
                write!(f, "--control wants fd:N[,ACK] or fifo:PATH[,ACK], not '{text}'")
            }
            ControlError::Io { channel, error } => write!(f, "--control {channel}: {error}"),
        }
    }
}

impl std::error::Error for ControlError {}

/// The answer, as perf writes it: the string with its terminating zero.
const ACK: &[u8] = b"ack\n\0";

impl Control {
    /// Opens what `--control` names.
    pub fn open(text: &str) -> Result<Self, ControlError> {
        let (kind, names) = text.split_once(':').unwrap_or((text, ""));
        let (commands, acks) = match names.split_once(',') {
            Some((commands, acks)) => (commands, Some(acks).filter(|acks| !acks.is_empty())),
            None => (names, None),
        };
        let failed =
            |name: &str, error: std::io::Error| ControlError::Io { channel: format!("{kind}:{name}"), error };
        let open = |name: &str| -> Result<File, ControlError> {
            match (kind, name.parse()) {
                ("fifo", _) if !name.is_empty() => pipe::open_fifo(name).map_err(|error| failed(name, error)),
                ("fd", Ok(number)) => inherited(number)
                    .map(File::from)
                    .map_err(|errno| failed(name, perfuse_sys::io_error(errno))),
                _ => Err(ControlError::Form(text.to_owned())),
            }
        };
        Ok(Control { commands: open(commands)?, acks: acks.map(open).transpose()?, line: Vec::new() })
    }

    /// Reads what has arrived. The flag tells that no more will come.
    pub fn orders(&mut self) -> (Vec<Order>, bool) {
        let mut buffer = [0; 256];
        let mut orders = Vec::new();
        // A descriptor that was given to us may be one that blocks, and is not ours to change.
        while poll::poll(&[self.commands.as_fd()], Some(Duration::ZERO)).is_ok_and(|found| found[0].any()) {
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
                Err(error) if [ErrorKind::Interrupted, ErrorKind::WouldBlock].contains(&error.kind()) => {}
                Err(_) => return (orders, true),
            }
        }
        (orders, false)
    }

    /// Answers an order that has been carried out. A reader that has gone away, or does not read, does
    /// not matter.
    pub fn acknowledge(&mut self) {
        if let Some(acks) = self.acks.as_mut().filter(|acks| poll::is_writable(acks.as_fd())) {
            let _ = acks.write_all(ACK);
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.commands.as_fd()
    }
}

fn order(line: &[u8]) -> Order {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    let argument = |word: &str| text.strip_prefix(word).map(|rest| (rest, rest.strip_prefix(' ')));
    for (word, on) in [("enable", true), ("disable", false)] {
        match argument(word) {
            Some(("", _)) => return Order::Switch { on, name: None },
            Some((_, Some(name))) => return Order::Switch { on, name: Some(name.trim().to_owned()) },
            Some(_) => return Order::Malformed(text.to_owned()),
            None => {}
        }
    }
    match argument("evlist") {
        Some(("", _)) => return Order::List(Listing::Names),
        Some((_, Some("-v"))) => return Order::List(Listing::Details),
        Some((_, Some("-g"))) => return Order::List(Listing::Groups),
        Some(_) => return Order::Malformed(text.to_owned()),
        None => {}
    }
    // perf looks at the beginning only.
    match text {
        _ if text.starts_with("stop") => Order::Stop,
        _ if text.starts_with("ping") => Order::Ping,
        _ => Order::Ignored(text.to_owned()),
    }
}

/// When measuring starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At once.
    AtOnce,
    /// After so long.
    After(Duration),
    /// When the control channel says so.
    WhenTold,
}

impl Start {
    /// From milliseconds; a negative number waits to be told.
    pub fn after(delay_ms: Option<i64>) -> Self {
        match delay_ms {
            None | Some(0) => Start::AtOnce,
            Some(ms) => {
                u64::try_from(ms).map_or(Start::WhenTold, |ms| Start::After(Duration::from_millis(ms)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_orders() {
        let switch = |on, name: Option<&str>| Order::Switch { on, name: name.map(str::to_owned) };
        for (line, expected) in [
            ("enable", switch(true, None)),
            ("disable ", switch(false, None)),
            ("enable cs:u", switch(true, Some("cs:u"))),
            ("disable sched:sched_switch", switch(false, Some("sched:sched_switch"))),
            ("enablex", Order::Malformed("enablex".into())),
            ("evlist", Order::List(Listing::Names)),
            ("evlist -v", Order::List(Listing::Details)),
            ("evlist -g", Order::List(Listing::Groups)),
            ("evlist -x", Order::Malformed("evlist -x".into())),
            ("ping", Order::Ping),
            ("stop", Order::Stop),
            ("snapshot", Order::Ignored("snapshot".into())),
            ("sto", Order::Ignored("sto".into())),
        ] {
            assert_eq!(order(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn wrong_channels_are_refused() {
        for text in
            ["", "fd:", "fd:x", "fifo:", "pipe:1", "fd:1,x", "fd:-1", "fd:99999", "fifo:/no/such/fifo"]
        {
            assert!(Control::open(text).is_err(), "{text}");
        }
    }
}
