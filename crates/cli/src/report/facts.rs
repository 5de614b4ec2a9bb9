//! A recording beside its samples: how many records of each kind, tasks, mappings.

use crate::exit::Result;
use crate::recording::{self, Input};
use crate::term::foreign::foreign;
use crate::term::out::say;
use perfuse_data::describe::kind_name;
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_data::replay::{Replay, event_names};
use perfuse_data::tool::kind;
use perfuse_data::{PerfData, ReadOptions, RecordCounts};
use std::collections::BTreeMap;
use std::io::Write;

/// The socket of each cpu, as far as the recording tells.
pub(super) fn sockets(data: &mut PerfData<'_>) -> Vec<u32> {
    match recording::feature(data, FeatureId::CPU_TOPOLOGY) {
        Some(Feature::CpuTopology(topology)) => {
            topology.cpus.iter().flat_map(|cpus| cpus.iter()).map(|cpu| cpu.socket).collect()
        }
        _ => Vec::new(),
    }
}

/// How many records of each kind there are. `is_quiet` if errors were told of already.
pub(super) fn stats(out: &mut impl Write, input: &Input, is_quiet: bool) -> Result<()> {
    let mut counts = RecordCounts::default();
    let mut data = input.open()?;
    counts.count(&mut data, |error| {
        if !is_quiet {
            say(error);
        }
    });
    // The replay unpacks compressed records; a second reading counts them as they are in the file.
    if input.path().is_file() || input.path().is_dir() {
        let mut raw = input.open_with(ReadOptions::new().with_unpack(false))?;
        counts.count_kinds(&mut raw, &[kind::COMPRESSED, kind::COMPRESSED2]);
    }
    let total = counts.total();
    writeln!(out, "\nAggregated stats:\n{:>20} events: {total:>10}", "TOTAL")?;
    for (&of, &count) in &counts.kinds {
        let percent = count as f64 * 100.0 / total.max(1) as f64;
        writeln!(out, "{:>20} events: {count:>10}  ({percent:4.1}%)", kind_name(of))?;
    }
    let names = event_names(&mut data);
    for (name, &count) in names.iter().zip(&counts.samples).filter(|(_, count)| **count > 0) {
        let name = foreign(name);
        writeln!(out, "{name} stats:\n{:>20} events: {count:>10}", "SAMPLE")?;
    }
    Ok(())
}

/// No more mappings are shown.
const MOST_MAPS: usize = 500_000;

/// Threads under their parents; `with_maps` also the mappings of their processes.
pub(super) fn tasks(out: &mut impl Write, input: &Input, with_maps: bool) -> Result<()> {
    let (_, session) = recording::replay(Replay::new(input.open()?), |_| Ok(()))?.into_parts();
    let mut children: BTreeMap<Option<u32>, Vec<u32>> = BTreeMap::new();
    for (tid, thread) in session.threads() {
        let parent = match thread.parent {
            Some(parent) if parent != tid && session.thread(parent).is_some() => Some(parent),
            None if thread.pid != tid && session.thread(thread.pid).is_some() => Some(thread.pid),
            _ => None,
        };
        children.entry(parent).or_default().push(tid);
    }
    children.values_mut().for_each(|list| list.sort_unstable_by(|one, other| other.cmp(one)));
    writeln!(out, "# {:>8} {:>8} {:>8}  comm", "pid", "tid", "ppid")?;
    let mut left: Vec<(u32, usize)> =
        children.remove(&None).unwrap_or_default().iter().map(|&tid| (tid, 0)).collect();
    // Forked processes have all of their parents' mappings: what is to be told of a small recording has no bounds.
    let mut maps_left = MOST_MAPS;
    while let Some((tid, depth)) = left.pop() {
        left.extend(children.remove(&Some(tid)).unwrap_or_default().iter().map(|&child| (child, depth + 1)));
        let Some(thread) = session.thread(tid) else { continue };
        let parent = thread.parent.map_or(-1, i64::from);
        let comm = format!("{}{}", " ".repeat(depth.min(64)), foreign(session.comm(thread.comm)));
        writeln!(out, "  {:>8} {tid:>8} {parent:>8} |{comm}", thread.pid)?;
        if with_maps && thread.pid == tid {
            let maps = session.maps_of(tid, tid);
            for map in maps.iter().take(maps_left) {
                let right = |bit: u32, letter| if map.prot & bit != 0 { letter } else { '-' };
                let shared = if map.flags & 1 != 0 { 's' } else { 'p' };
                let name = foreign(&session.object(map.object).name);
                let rights = [right(1, 'r'), right(2, 'w'), right(4, 'x'), shared].iter().collect::<String>();
                let (start, end, offset, inode) = (map.start, map.end, map.pgoff, map.inode);
                let indent = 32 + depth.min(64);
                writeln!(out, "{:indent$}{start:x}-{end:x} {rights} {offset:08x} {inode} {name}", "")?;
            }
            match maps_left.checked_sub(maps.len()) {
                Some(left) => maps_left = left,
                None => return Ok(writeln!(out, "# More mappings are not shown.")?),
            }
        }
    }
    Ok(())
}
