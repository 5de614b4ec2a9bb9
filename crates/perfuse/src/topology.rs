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
        let number = |file| number(cpu, file);
        Seat { socket: number("physical_package_id"), die: number("die_id"), core: number("core_id") }
    }
}

/// A cache of data that some cpus share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedCache {
    /// Its level; 0 is none.
    pub level: u32,
    /// The first of its cpus.
    pub first_cpu: u32,
}

/// The cache of a level, or the last one, of a cpu.
pub(crate) fn cache(cpu: u32, level: Option<u32>) -> Option<SharedCache> {
    // No processor has more.
    let caches = (0..10).map_while(|index| {
        let file = |name: &str| {
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}")).ok()
        };
        let is_of_data = file("type")?.trim() != "Instruction";
        let level = file("level")?.trim().parse().ok()?;
        let first_cpu = *perfuse_events::parse_cpu_list(&file("shared_cpu_list")?)?.first()?;
        Some((is_of_data, SharedCache { level, first_cpu }))
    });
    let of_data = caches.filter(|(is_of_data, _)| *is_of_data).map(|(_, cache)| cache);
    of_data.filter(|cache| level.is_none_or(|level| cache.level == level)).max_by_key(|cache| cache.level)
}

/// The cluster of a cpu; 0 where the system does not tell.
pub(crate) fn cluster(cpu: u32) -> u32 {
    number(cpu, "cluster_id")
}

/// A number that sysfs tells of the place of a cpu; 0 where it does not.
fn number(cpu: u32, file: &str) -> u32 {
    let text = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}"));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The NUMA node of a cpu; 0 where the system does not tell.
pub(crate) fn node(cpu: u32) -> u32 {
    let entries = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next().unwrap_or(0)
}
