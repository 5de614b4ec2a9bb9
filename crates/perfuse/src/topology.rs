//! Which core, die, socket and NUMA node a cpu belongs to. Read only when asked for: see [`Surroundings`](crate::kernel::Surroundings).

use std::fs;

/// Where a cpu sits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat {
    /// The number of its socket.
    pub socket: u32,
    /// The number of its die in the socket.
    pub die: u32,
    /// The number of its core in the socket.
    pub core: u32,
}

impl Seat {
    /// Of this cpu; zeros where the system does not tell.
    pub(crate) fn of(cpu: u32) -> Self {
        let number = |file: &str| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}");
            let text = fs::read_to_string(path).unwrap_or_default();
            text.trim().parse().unwrap_or(0)
        };
        Seat { socket: number("physical_package_id"), die: number("die_id"), core: number("core_id") }
    }
}

/// The NUMA node of a cpu; 0 where the system does not tell.
pub(crate) fn node(cpu: u32) -> u32 {
    let entries = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next().unwrap_or(0)
}
