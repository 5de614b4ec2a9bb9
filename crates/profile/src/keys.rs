//! What a report tells apart and shows: keys and columns by the names that perf has for them.

use perfuse_abi::record::{Sample, Weight};
use perfuse_data::session::Level;

/// What entries of a report are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Key {
    /// The name of the thread.
    Comm,
    /// The object: a program, a library, the kernel.
    Dso,
    /// The function, or the address where none is known.
    Symbol,
    /// The thread.
    Pid,
    /// The process.
    Tgid,
    /// The cpu.
    Cpu,
    /// The cgroup, by its path.
    Cgroup,
    /// When, in steps: see [`Plan::time_step_ns`](crate::Plan::time_step_ns).
    Time,
    /// The cost of a sample, and of all samples of that cost.
    Weight,
    /// The cost of a sample.
    LocalWeight,
    /// Cycles until the instruction retired.
    LocalInsLat,
    /// The address that was accessed.
    Addr,
    /// The physical address that was accessed.
    PhysDaddr,
    /// The size of the page that was accessed.
    DataPageSize,
    /// The size of the page of the code.
    CodePageSize,
    /// What is known of the transaction, as a number.
    Transaction,
    /// The place in the function. Source files and lines are not read yet.
    Srcline,
    /// The source file, which is not read yet.
    Srcfile,
    /// The size of the function in bytes.
    SymbolSize,
}

/// A key, its names, its title; the first name is the one to show.
type Known = (Key, &'static [&'static str], &'static str);

const KEYS: [Known; 19] = [
    (Key::Comm, &["comm"], "Command"),
    (Key::Dso, &["dso"], "Shared Object"),
    (Key::Symbol, &["symbol", "sym"], "Symbol"),
    (Key::Pid, &["pid", "tid"], "    Pid:Command"),
    (Key::Tgid, &["tgid"], "   Tgid:Command"),
    (Key::Cpu, &["cpu"], "CPU"),
    (Key::Cgroup, &["cgroup"], "Cgroup"),
    (Key::Time, &["time"], "Time"),
    (Key::Weight, &["weight"], "Weight"),
    (Key::LocalWeight, &["local_weight"], "Local Weight"),
    (Key::LocalInsLat, &["local_ins_lat"], "Local INSTR Latency"),
    (Key::Addr, &["addr"], "Address"),
    (Key::PhysDaddr, &["phys_daddr"], "Data Physical Address"),
    (Key::DataPageSize, &["data_page_size"], "Data Page Size"),
    (Key::CodePageSize, &["code_page_size"], "Code Page Size"),
    (Key::Transaction, &["transaction"], "Transaction"),
    (Key::Srcline, &["srcline"], "Source:Line"),
    (Key::Srcfile, &["srcfile"], "Source File"),
    (Key::SymbolSize, &["symbol_size"], "Symbol size"),
];

impl Key {
    /// The key with a name, as in `perf report --sort`.
    ///
    /// ```
    /// use perfuse_profile::Key;
    ///
    /// assert_eq!(Key::named("sym"), Some(Key::Symbol));
    /// assert_eq!(Key::named("frog"), None);
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        KEYS.iter().find(|(_, names, _)| names.contains(&name)).map(|&(key, ..)| key)
    }

    /// All names of all keys.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KEYS.iter().flat_map(|(_, names, _)| names.iter().copied())
    }

    fn known(self) -> &'static Known {
        // Each key is in the table: a test goes through them.
        KEYS.iter().find(|(key, ..)| *key == self).unwrap_or(&KEYS[0])
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.known().1[0]
    }

    /// What stands over its column.
    pub fn title(self) -> &'static str {
        self.known().2
    }

    /// Whether it is a frame's, not the whole sample's.
    pub fn is_of_frame(self) -> bool {
        matches!(self, Key::Dso | Key::Symbol | Key::Srcline | Key::Srcfile | Key::SymbolSize)
    }

    /// Whether it tells addresses within a function apart.
    pub fn is_of_address(self) -> bool {
        matches!(self, Key::Srcline | Key::Srcfile)
    }

    /// The value of a key that is the whole sample's, as a number that is the same for what is to be taken
    /// together.
    #[inline]
    pub(crate) fn value(self, sample: &Sample<'_>, comm: u32, time_step_ns: u64) -> u64 {
        let tid = sample.tid.unwrap_or_default();
        match self {
            Key::Comm => comm.into(),
            Key::Pid => tid.tid.into(),
            Key::Tgid => tid.pid.into(),
            Key::Cpu => sample.cpu.map_or(u64::MAX, |cpu| cpu.cpu.into()),
            Key::Cgroup => sample.cgroup.unwrap_or(0),
            Key::Time => sample.time.unwrap_or(0) / time_step_ns * time_step_ns,
            Key::Weight | Key::LocalWeight => sample.weight.map_or(0, Weight::first),
            Key::LocalInsLat => match sample.weight {
                Some(Weight::Struct { var2, .. }) => var2.into(),
                _ => 0,
            },
            Key::Addr => sample.addr.unwrap_or(0),
            Key::PhysDaddr => sample.phys_addr.unwrap_or(0),
            Key::DataPageSize => sample.data_page_size.unwrap_or(0),
            Key::CodePageSize => sample.code_page_size.unwrap_or(0),
            Key::Transaction => sample.transaction.map_or(0, |txn| txn.bits()),
            Key::Dso | Key::Symbol | Key::Srcline | Key::Srcfile | Key::SymbolSize => 0,
        }
    }
}

/// A column of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Column {
    /// The share of a function with what it calls.
    Total,
    /// The share of the function itself.
    Own,
    /// Of that, what was in the kernel.
    OwnKernel,
    /// Of that, what was in the program.
    OwnUser,
    /// Of that, what was in a guest's kernel.
    OwnGuestKernel,
    /// Of that, what was in a guest's programs.
    OwnGuestUser,
    /// The number of samples.
    Samples,
    /// The occurrences of the event that the samples stand for.
    Period,
    /// What it is a share of.
    Key(Key),
}

const COLUMNS: [(Column, &[&str]); 8] = [
    (Column::Own, &["overhead"]),
    (Column::Total, &["overhead_children", "children"]),
    (Column::OwnKernel, &["overhead_sys"]),
    (Column::OwnUser, &["overhead_us"]),
    (Column::OwnGuestKernel, &["overhead_guest_sys"]),
    (Column::OwnGuestUser, &["overhead_guest_us"]),
    (Column::Samples, &["sample", "samples"]),
    (Column::Period, &["period"]),
];

impl Column {
    /// The column with a name, as in `perf report --fields`.
    pub fn named(name: &str) -> Option<Self> {
        let number = COLUMNS.iter().find(|(_, names)| names.contains(&name)).map(|&(column, _)| column);
        number.or_else(|| Key::named(name).map(Column::Key))
    }

    /// All names of all columns.
    pub fn names() -> impl Iterator<Item = &'static str> {
        COLUMNS.iter().flat_map(|(_, names)| names.iter().copied()).chain(Key::names())
    }

    /// The key, if it is one.
    pub fn key(self) -> Option<Key> {
        if let Column::Key(key) = self { Some(key) } else { None }
    }

    /// The level whose samples it counts, if it counts one's.
    pub(crate) fn level(self) -> Option<Level> {
        Some(match self {
            Column::OwnKernel => Level::Kernel,
            Column::OwnUser => Level::User,
            Column::OwnGuestKernel => Level::GuestKernel,
            Column::OwnGuestUser => Level::GuestUser,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_names_and_a_title() {
        for name in Key::names() {
            let key = Key::named(name).expect("a name of a key");
            assert_eq!(Key::named(key.name()), Some(key));
            assert!(!key.title().is_empty());
        }
    }
}
