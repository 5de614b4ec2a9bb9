//! The keys by which a report tells samples apart, and its columns, by the names that perf has for them.

use perfuse_data::session::Level;

/// A key: entries of a report differ in it.
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
    /// The processor socket: see [`Plan::sockets`](crate::Plan::sockets).
    Socket,
    /// The cgroup, by its path.
    Cgroup,
    /// The cgroup namespace, by device and inode.
    CgroupId,
    /// When, in steps: see [`Plan::time_step_ns`](crate::Plan::time_step_ns).
    Time,
    /// The cost of a sample, and of all samples of that cost.
    Weight,
    /// The cost of a sample.
    LocalWeight,
    /// Cycles until the instruction retired, of all samples of so many.
    InsLat,
    /// Cycles until the instruction retired.
    LocalInsLat,
    /// Cycles in stages of the pipeline, of all samples of so many.
    PStageCyc,
    /// Cycles in stages of the pipeline.
    LocalPStageCyc,
    /// The address.
    Addr,
    /// The flags of the transaction.
    Transaction,
    /// Vector instructions, of which only traces tell that are not decoded.
    Simd,
    /// The size of the page of the code.
    CodePageSize,
    /// How many threads ran: see [`Running`](crate::Running).
    Parallelism,
    /// The place in the function. Source files and lines are not read yet.
    Srcline,
    /// The source file, which is not read yet.
    Srcfile,
    /// The size of the function in bytes.
    SymbolSize,
    /// The size of what of the object was mapped there.
    DsoSize,
    /// The place in the function, in bytes from its start.
    SymOff,
    /// The first of the callers that [`ViewPlan::parent`](crate::ViewPlan::parent) admits.
    Parent,
    /// A text that is made of the sample: see [`Collector::give`](crate::Collector::give).
    Given(u16),
    /// The object that a branch came from.
    DsoFrom,
    /// The object that a branch went to.
    DsoTo,
    /// The function that a branch came from.
    SymbolFrom,
    /// The function that a branch went to.
    SymbolTo,
    /// The address that a branch came from.
    AddrFrom,
    /// The address that a branch went to.
    AddrTo,
    /// The source line that a branch came from.
    SrclineFrom,
    /// The source line that a branch went to.
    SrclineTo,
    /// Whether a branch was predicted wrongly.
    Mispredict,
    /// Whether a branch ended a transaction.
    Abort,
    /// Whether a branch was in a transaction.
    InTx,
    /// Cycles since the branch before.
    Cycles,
    /// The data that was accessed.
    SymbolDaddr,
    /// The code that accessed it, by address.
    SymbolIaddr,
    /// The object of the data that was accessed.
    DsoDaddr,
    /// The cache line that was accessed.
    Dcacheline,
    /// Whether the access was locked.
    Locked,
    /// Where the address was translated.
    Tlb,
    /// Where the data came from.
    Mem,
    /// The answer of other caches.
    Snoop,
    /// The reason why the access had to wait.
    Blocked,
    /// The physical address that was accessed.
    PhysDaddr,
    /// The size of the page that was accessed.
    DataPageSize,
}

/// A key, its names, its title; the first name is the one to show.
type Known = (Key, &'static [&'static str], &'static str);

const KEYS: [Known; 51] = [
    (Key::Comm, &["comm"], "Command"),
    (Key::Dso, &["dso"], "Shared Object"),
    (Key::Symbol, &["symbol", "sym"], "Symbol"),
    (Key::Pid, &["pid", "tid"], "    Pid:Command"),
    (Key::Tgid, &["tgid"], "   Tgid:Command"),
    (Key::Cpu, &["cpu"], "CPU"),
    (Key::Socket, &["socket"], "Socket"),
    (Key::Cgroup, &["cgroup"], "Cgroup"),
    (Key::CgroupId, &["cgroup_id"], "cgroup id (dev/inode)"),
    (Key::Time, &["time"], "Time"),
    (Key::Weight, &["weight"], "Weight"),
    (Key::LocalWeight, &["local_weight"], "Local Weight"),
    (Key::InsLat, &["ins_lat"], "INSTR Latency"),
    (Key::LocalInsLat, &["local_ins_lat"], "Local INSTR Latency"),
    (Key::PStageCyc, &["p_stage_cyc", "retire_lat"], "Pipeline Stage Cycle"),
    (Key::LocalPStageCyc, &["local_p_stage_cyc", "local_retire_lat"], "Local Pipeline Stage Cycle"),
    (Key::Addr, &["addr"], "Address"),
    (Key::Transaction, &["transaction"], "Transaction                "),
    (Key::Simd, &["simd"], "Simd   "),
    (Key::CodePageSize, &["code_page_size"], "Code Page Size"),
    (Key::Parallelism, &["parallelism"], "Parallelism"),
    (Key::Srcline, &["srcline"], "Source:Line"),
    (Key::Srcfile, &["srcfile"], "Source File"),
    (Key::SymbolSize, &["symbol_size"], "Symbol size"),
    (Key::DsoSize, &["dso_size"], "DSO size"),
    (Key::SymOff, &["symoff"], "Symbol Offset"),
    (Key::Parent, &["parent"], "Parent symbol"),
    (Key::Given(0), &["trace"], "Trace output"),
    (Key::DsoFrom, &["dso_from"], "Source Shared Object"),
    (Key::DsoTo, &["dso_to"], "Target Shared Object"),
    (Key::SymbolFrom, &["symbol_from"], "Source Symbol"),
    (Key::SymbolTo, &["symbol_to"], "Target Symbol"),
    (Key::AddrFrom, &["addr_from"], "Source Address"),
    (Key::AddrTo, &["addr_to"], "Target Address"),
    (Key::SrclineFrom, &["srcline_from"], "From Source:Line"),
    (Key::SrclineTo, &["srcline_to"], "To Source:Line"),
    (Key::Mispredict, &["mispredict"], "Branch Mispredicted"),
    (Key::Abort, &["abort"], "Transaction abort"),
    (Key::InTx, &["in_tx"], "Branch in transaction"),
    (Key::Cycles, &["cycles"], "Basic Block Cycles"),
    (Key::SymbolDaddr, &["symbol_daddr"], "Data Symbol"),
    (Key::SymbolIaddr, &["symbol_iaddr"], "Code Symbol"),
    (Key::DsoDaddr, &["dso_daddr"], "Data Object"),
    (Key::Dcacheline, &["dcacheline"], "Data Cacheline"),
    (Key::Locked, &["locked"], "Locked"),
    (Key::Tlb, &["tlb"], "TLB access"),
    (Key::Mem, &["mem"], "Memory access"),
    (Key::Snoop, &["snoop"], "Snoop"),
    (Key::Blocked, &["blocked"], "Blocked"),
    (Key::PhysDaddr, &["phys_daddr"], "Data Physical Address"),
    (Key::DataPageSize, &["data_page_size"], "Data Page Size"),
];

impl Key {
    /// The text of a tracepoint's sample.
    pub const TRACE: Key = Key::Given(0);

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

    fn known(self) -> Option<&'static Known> {
        KEYS.iter().find(|(key, ..)| *key == self)
    }

    /// Its name. A [given](Key::Given) key has none.
    pub fn name(self) -> &'static str {
        self.known().and_then(|known| known.1.first().copied()).unwrap_or("")
    }

    /// The title of its column.
    pub fn title(self) -> &'static str {
        self.known().map_or("", |known| known.2)
    }

    /// Whether it is a frame's, not the whole sample's.
    pub fn is_of_frame(self) -> bool {
        matches!(self, Key::Dso | Key::Symbol | Key::SymbolSize | Key::DsoSize) || self.is_of_address()
    }

    /// Whether it tells addresses within a function apart.
    pub fn is_of_address(self) -> bool {
        matches!(self, Key::Srcline | Key::Srcfile | Key::Addr | Key::SymOff)
    }

    /// Whether debug information tells it.
    pub fn is_of_line(self) -> bool {
        matches!(self, Key::Srcline | Key::Srcfile | Key::SrclineFrom | Key::SrclineTo)
    }

    /// Whether it is a branch's.
    pub fn is_of_branch(self) -> bool {
        use Key::*;
        matches!(self, DsoFrom | DsoTo | SymbolFrom | SymbolTo | AddrFrom | AddrTo | SrclineFrom)
            || matches!(self, SrclineTo | Mispredict | Abort | InTx | Cycles)
    }

    /// Whether a sample's stack tells it, so that samples need no value for it.
    pub fn is_of_stack(self) -> bool {
        self.is_of_frame() || self == Key::Parent
    }

    /// Whether its value is a location.
    pub(crate) fn is_location(self) -> bool {
        use Key::*;
        matches!(self, DsoFrom | DsoTo | SymbolFrom | SymbolTo | AddrFrom | AddrTo | SrclineFrom | SrclineTo)
            || matches!(self, SymbolDaddr | SymbolIaddr | DsoDaddr | Dcacheline)
    }

    /// Whether it has to be looked up, other than where the sample was.
    pub(crate) fn is_place(self) -> bool {
        self.is_of_branch() || self.is_location() || matches!(self, Key::Parent | Key::CgroupId)
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
    /// The share of the latency that a function with what it calls has: see [`ViewPlan::latency`](crate::ViewPlan::latency).
    LatencyTotal,
    /// The share of the latency that the function itself has.
    Latency,
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
    /// A key.
    Key(Key),
}

const COLUMNS: [(Column, &[&str]); 10] = [
    (Column::Own, &["overhead"]),
    (Column::Total, &["overhead_children", "children"]),
    (Column::Latency, &["latency"]),
    (Column::LatencyTotal, &["latency_children"]),
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

    /// The column whose name begins like this, in letters of any case. Of several it is the first that perf knows; of others there is to
    /// be one alone.
    ///
    /// ```
    /// use perfuse_profile::{Column, Key};
    ///
    /// assert_eq!(Column::shortened("Sy"), Some(Column::Key(Key::Symbol)));
    /// assert_eq!(Column::shortened("overh"), None);
    /// ```
    pub fn shortened(name: &str) -> Option<Self> {
        // In perf's order.
        const FIRST: [&str; 13] = [
            "pid",
            "comm",
            "dso",
            "symbol",
            "parent",
            "cpu",
            "socket",
            "srcline",
            "srcfile",
            "local_weight",
            "weight",
            "transaction",
            "trace",
        ];
        let name = name.to_ascii_lowercase();
        let is_meant = |known: &&'static str| known.starts_with(&name);
        let mut others: Vec<Column> = Column::names().filter(is_meant).filter_map(Column::named).collect();
        others.dedup();
        let first = FIRST.into_iter().find(is_meant).and_then(Column::named);
        Column::named(&name).or(first).or_else(|| others.pop().filter(|_| others.is_empty()))
    }

    /// All names of all columns.
    pub fn names() -> impl Iterator<Item = &'static str> {
        COLUMNS.iter().flat_map(|(_, names)| names.iter().copied()).chain(Key::names())
    }

    /// Whether it tells of the latency.
    pub fn is_of_latency(self) -> bool {
        matches!(self, Column::Latency | Column::LatencyTotal)
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
        let of_sample = |key: &Known| !key.0.is_of_frame() && !key.0.is_place();
        assert!(KEYS.iter().any(of_sample) && !KEYS.iter().all(of_sample));
    }
}
