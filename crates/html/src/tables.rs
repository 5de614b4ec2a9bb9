//! The tables of a page: functions, the tree of their calls, threads, cpus, and samples by all of these and by time. Their order
//! is that of names and numbers, so that the same profile becomes the same bytes.

use crate::lines::Lines;
use perfuse_export::Function;
use perfuse_profile::{FrameId, Frames, Profile, SampleRow, Sources};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Steps of time are shorter than this part of the span,
const FINE: u64 = 1 << 13;
/// or last so many nanoseconds, fifty in a second,
const ENOUGH_NS: u64 = 20_000_000;
/// and are no more than this.
const MOST_STEPS: u64 = 1 << 15;
/// Cells beyond this make steps longer, as far as that helps.
const MOST_CELLS: usize = 1 << 19;
/// Nodes beyond this cut the longest callchains.
const MOST_NODES: usize = 1 << 19;

/// A function, or a name of threads as the caller of all.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Named {
    Thread(String),
    Function(Function),
}

/// A function as it was called by those above it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// The index of its caller, which comes before it.
    pub(crate) parent: Option<u32>,
    pub(crate) named: u32,
}

/// An event with samples.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    /// All samples, also those that a filter left out.
    pub(crate) samples: u64,
    pub(crate) weight: u64,
    /// Samples at an address without a function.
    pub(crate) unresolved: u64,
    /// The weight that most samples have.
    pub(crate) usual: u64,
}

/// By this samples are told apart: indices of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Row {
    pub(crate) event: u32,
    pub(crate) node: u32,
    pub(crate) thread: u32,
    pub(crate) cpu: u32,
    /// From 1 on; 0 is none.
    pub(crate) line: u32,
}

/// Samples of a row in one step of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) row: Row,
    /// The number of steps stands for samples without a time.
    pub(crate) step: u64,
    pub(crate) weight: u64,
    pub(crate) samples: u64,
}

/// The span of time, and its steps: each as long as 1 or 2 and zeros say, so that columns of seconds, or of tenths of them, have
/// whole numbers of steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) step_ns: u64,
}

impl Time {
    fn new(start_ns: u64, end_ns: u64) -> Self {
        let span = end_ns - start_ns;
        let least = (span / FINE).min(ENOUGH_NS.max(span / MOST_STEPS));
        let mut time = Time { start_ns, end_ns, step_ns: 1 };
        while time.step_ns < least {
            time.step_ns *= time.to_coarser();
        }
        time
    }

    /// By how much the next longer steps are longer.
    fn to_coarser(self) -> u64 {
        if self.step_ns.to_string().starts_with('1') { 2 } else { 5 }
    }

    /// How many steps there are.
    pub(crate) fn steps(self) -> u64 {
        (self.end_ns - self.start_ns).div_ceil(self.step_ns).max(1)
    }
}

#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) events: Vec<Event>,
    pub(crate) named: Vec<Named>,
    pub(crate) nodes: Vec<Node>,
    /// The frames that callchains were cut to, if they had to be.
    pub(crate) cut: Option<usize>,
    /// Numbers and names; the number is not there where the profile tells of none.
    pub(crate) threads: Vec<(Option<u32>, String)>,
    pub(crate) cpus: Vec<Option<u32>>,
    pub(crate) time: Option<Time>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) lines: Lines,
}

impl Tables {
    pub(crate) fn new(profile: &Profile, frames: &Frames, sources: Option<&Sources>) -> Self {
        let wanted: Vec<&SampleRow> = profile.samples().iter().filter(|row| row.samples > 0).collect();
        let calls = Calls::new(profile, frames, &wanted);
        let threads: BTreeSet<(Option<u32>, String)> =
            wanted.iter().map(|row| thread(profile, row)).collect();
        let threads: Vec<_> = threads.into_iter().collect();
        let cpus: BTreeSet<Option<u32>> = wanted.iter().map(|row| profile.cpu(row)).collect();
        let cpus: Vec<_> = cpus.into_iter().collect();
        let innermost =
            |row: &SampleRow| profile.stack(row.stack).next().and_then(|at| frames.at(at).first()).copied();
        let mut sampled: BTreeMap<FrameId, (u32, u64)> = BTreeMap::new();
        for row in &wanted {
            let function = innermost(row).and_then(|frame| Some((frame, calls.of_frames[frame.0 as usize]?)));
            if let Some((frame, function)) = function {
                sampled.entry(frame).or_insert((function, 0)).1 += row.samples;
            }
        }
        let lines = Lines::new(frames, sources, &sampled);
        let (mut events, numbers) = events(profile);
        let mut rows: Vec<Option<Row>> = Vec::with_capacity(profile.samples().len());
        let mut ends = calls.ends.iter();
        for row in profile.samples() {
            rows.push((row.samples > 0).then(|| {
                let event = &mut events[numbers[row.event as usize] as usize];
                let innermost = innermost(row);
                if innermost.is_none_or(|frame| frames.get(frame).symbol.is_none()) {
                    event.unresolved += row.samples;
                }
                let place = |found: Result<usize, usize>| found.unwrap_or_default() as u32;
                Row {
                    event: numbers[row.event as usize],
                    node: ends.next().copied().unwrap_or_default(),
                    thread: place(threads.binary_search(&thread(profile, row))),
                    cpu: place(cpus.binary_search(&profile.cpu(row))),
                    line: innermost.and_then(|frame| lines.of(frame)).map_or(0, |line| line + 1),
                }
            }));
        }
        let (time, cells) = cells(profile, &rows, MOST_CELLS);
        for (at, event) in (0..).zip(&mut events) {
            event.usual = usual(cells.iter().filter(|cell| cell.row.event == at));
        }
        let Calls { named, nodes, cut, .. } = calls;
        Tables { events, named, nodes, cut, threads, cpus, time, cells, lines }
    }
}

/// The thread of a row; where only its name is known, that.
fn thread(profile: &Profile, row: &SampleRow) -> (Option<u32>, String) {
    match profile.thread(row) {
        Some((id, name)) => (Some(id), name.into_owned()),
        None => (None, profile.comm(row).unwrap_or_default().into_owned()),
    }
}

/// Events with samples, and their numbers by those of the profile.
fn events(profile: &Profile) -> (Vec<Event>, Vec<u32>) {
    let mut events = Vec::new();
    let mut numbers = Vec::new();
    for (index, sum) in profile.events().iter().enumerate() {
        numbers.push(events.len() as u32);
        if sum.samples > 0 {
            let name = profile.event_name(index).into_owned();
            let (samples, weight) = (sum.samples, sum.weight);
            events.push(Event { name, samples, weight, unresolved: 0, usual: 0 });
        }
    }
    (events, numbers)
}

/// The functions of all callchains as a tree.
struct Calls {
    named: Vec<Named>,
    nodes: Vec<Node>,
    /// Of each row, the node that its samples are in.
    ends: Vec<u32>,
    cut: Option<usize>,
    /// The functions of frames.
    of_frames: Vec<Option<u32>>,
}

impl Calls {
    fn new(profile: &Profile, frames: &Frames, rows: &[&SampleRow]) -> Self {
        // Numbers in the order in which they are met first, then by name.
        let mut known: HashMap<Named, u32> = HashMap::new();
        let mut number = |named: Named| {
            let next = known.len() as u32;
            *known.entry(named).or_insert(next)
        };
        let mut of_frames: Vec<Option<u32>> = vec![None; frames.len()];
        let mut paths: Vec<Vec<u32>> = Vec::new();
        let mut path_of: HashMap<(u32, Option<Cow<'_, str>>), u32> = HashMap::new();
        let mut of_rows: Vec<u32> = Vec::with_capacity(rows.len());
        for row in rows {
            let comm = profile.comm(row);
            let next = paths.len() as u32;
            let path = *path_of.entry((row.stack.0, comm.clone())).or_insert(next);
            of_rows.push(path);
            if path != next {
                continue;
            }
            let mut path: Vec<u32> = Vec::new();
            for location in profile.stack(row.stack) {
                for id in frames.at(location) {
                    let function = &mut of_frames[id.0 as usize];
                    path.push(
                        *function.get_or_insert_with(|| number(Named::Function(Function::of(frames, *id)))),
                    );
                }
            }
            path.extend(comm.map(|comm| number(Named::Thread(comm.into_owned()))));
            path.reverse();
            paths.push(path);
        }
        let mut named: Vec<(Named, u32)> = known.into_iter().collect();
        named.sort_unstable();
        let mut place = vec![0u32; named.len()];
        (0..).zip(&named).for_each(|(now, (_, before))| place[*before as usize] = now);
        let numbered = paths.iter_mut().flatten().chain(of_frames.iter_mut().flatten());
        numbered.for_each(|function| *function = place[*function as usize]);
        let named = named.into_iter().map(|(named, _)| named).collect();
        let cut = cut(&mut paths, MOST_NODES);
        let (nodes, ends) = tree(&paths);
        let ends = of_rows.into_iter().map(|path| ends[path as usize]).collect();
        Calls { named, nodes, ends, cut, of_frames }
    }
}

/// How many frames of each path are those of the path before.
fn shared(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

fn in_order(paths: &[Vec<u32>]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..paths.len() as u32).collect();
    order.sort_by(|one, other| paths[*one as usize].cmp(&paths[*other as usize]));
    order
}

/// Cuts paths so that their tree has no more nodes than are wanted, or a few for each: the outermost callers and the function
/// that the samples were in stay.
fn cut(paths: &mut [Vec<u32>], most: usize) -> Option<usize> {
    let mut new_at: Vec<usize> = Vec::new();
    let mut before: &[u32] = &[];
    for path in in_order(paths) {
        let path = &paths[path as usize];
        new_at.resize(new_at.len().max(path.len()), 0);
        new_at[shared(before, path)..path.len()].iter_mut().for_each(|count| *count += 1);
        before = path;
    }
    let mut nodes = 0;
    let fits = new_at.iter().take_while(|count| {
        nodes += **count;
        nodes <= most
    });
    let depth = fits.count();
    if depth == new_at.len() {
        return None;
    }
    let depth = depth.max(2);
    for path in paths.iter_mut().filter(|path| path.len() > depth) {
        if let Some(last) = path.last().copied() {
            path.truncate(depth - 1);
            path.push(last);
        }
    }
    Some(depth)
}

/// The nodes of all paths, callers before callees and by name below each, and the node that each path ends in.
fn tree(paths: &[Vec<u32>]) -> (Vec<Node>, Vec<u32>) {
    let mut nodes: Vec<Node> = Vec::new();
    let mut ends = vec![0; paths.len()];
    let mut open: Vec<u32> = Vec::new();
    let mut before: &[u32] = &[];
    for at in in_order(paths) {
        let path = &paths[at as usize];
        open.truncate(shared(before, path));
        for &named in &path[open.len()..] {
            nodes.push(Node { parent: open.last().copied(), named });
            open.push(nodes.len() as u32 - 1);
        }
        ends[at as usize] = open.last().copied().unwrap_or_default();
        before = path;
    }
    (nodes, ends)
}

/// Samples by row and step of time; one step where the profile has no times.
fn cells(profile: &Profile, rows: &[Option<Row>], most: usize) -> (Option<Time>, Vec<Cell>) {
    let Some((start_ns, last_ns)) = profile.span_ns() else {
        let all = profile.samples().iter().zip(rows);
        let all = all.filter_map(|(sum, row)| Some((sum, (*row)?)));
        let all = all.map(|(sum, row)| Cell { row, step: 0, weight: sum.weight, samples: sum.samples });
        return (None, joined(all.collect()));
    };
    let mut time = Time::new(start_ns, last_ns.saturating_add(1));
    let step_of = |time_ns: u64| ((time_ns - start_ns) / time.step_ns).min(time.steps() - 1);
    let mut left: Vec<(u64, u64)> = profile.samples().iter().map(|row| (row.weight, row.samples)).collect();
    let mut cells = Vec::with_capacity(profile.sample_times().len());
    for sample in profile.sample_times() {
        let Some(row) = rows[sample.row as usize] else { continue };
        let left = &mut left[sample.row as usize];
        *left = (left.0.saturating_sub(sample.weight), left.1.saturating_sub(1));
        cells.push(Cell { row, step: step_of(sample.time_ns), weight: sample.weight, samples: 1 });
    }
    for (&(weight, samples), row) in left.iter().zip(rows) {
        if let Some(row) = row.filter(|_| samples > 0) {
            cells.push(Cell { row, step: time.steps(), weight, samples });
        }
    }
    let mut cells = joined(cells);
    while cells.len() > most && time.steps() > 1 {
        let (timeless, by) = (time.steps(), time.to_coarser());
        time.step_ns = time.step_ns.saturating_mul(by);
        for cell in &mut cells {
            cell.step = if cell.step == timeless { time.steps() } else { cell.step / by };
        }
        cells = joined(cells);
    }
    (Some(time), cells)
}

/// In order, those of the same row and step as one.
fn joined(mut cells: Vec<Cell>) -> Vec<Cell> {
    cells.sort_by_key(|cell| (cell.row, cell.step));
    cells.dedup_by(|next, kept| {
        let is_same = (next.row, next.step) == (kept.row, kept.step);
        if is_same {
            kept.weight = kept.weight.saturating_add(next.weight);
            kept.samples = kept.samples.saturating_add(next.samples);
        }
        is_same
    });
    cells
}

/// The weight of a sample in most of the cells; the smallest of them, if there are several.
fn usual<'c>(cells: impl Iterator<Item = &'c Cell>) -> u64 {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for cell in cells {
        *counts.entry(cell.weight / cell.samples.max(1)).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by(|one, other| one.1.cmp(&other.1).then(other.0.cmp(&one.0)))
        .map_or(0, |most| most.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfuse_data::PerfData;
    use perfuse_profile::{Key, Plan};
    use std::path::Path;

    #[test]
    fn callchains_are_cut_where_there_are_too_many_and_keep_where_they_end() {
        let paths = vec![vec![1, 2, 3, 4, 9], vec![1, 2, 5, 6, 9], vec![1, 2, 7], vec![8]];
        let mut cut_to_four = paths.clone();
        assert_eq!(cut(&mut cut_to_four, 6), Some(3));
        assert_eq!(cut_to_four, [vec![1, 2, 9], vec![1, 2, 9], vec![1, 2, 7], vec![8]]);
        let mut whole = paths.clone();
        assert_eq!((cut(&mut whole, 10), &whole), (None, &paths));
        let mut least = paths;
        assert_eq!(cut(&mut least, 0), Some(2));
        assert_eq!(least, [vec![1, 9], vec![1, 9], vec![1, 7], vec![8]]);
    }

    #[test]
    fn steps_become_longer_where_there_are_too_many_cells_and_sums_stay() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/fixtures/chains.data");
        let mut plan = Plan::new(&[Key::Comm]);
        plan.times = true;
        let profile = Profile::read(PerfData::open(path).unwrap(), plan).unwrap();
        let row = Row { event: 0, node: 0, thread: 0, cpu: 0, line: 0 };
        let rows = vec![Some(row); profile.samples().len()];
        let made = |most| {
            let (time, cells) = cells(&profile, &rows, most);
            let samples: u64 = cells.iter().map(|cell| cell.samples).sum();
            let weight: u64 = cells.iter().map(|cell| cell.weight).sum();
            let time = time.unwrap();
            assert!(cells.iter().all(|cell| cell.step < time.steps()), "each sample has a time");
            (time.steps(), cells.len(), samples, weight)
        };
        let (steps, cells, samples, weight) = made(100);
        assert!((1000..=FINE).contains(&steps), "{steps} steps");
        assert_eq!((cells, samples, weight), (40, 40, 40_000_000));
        let (steps, cells, samples, weight) = made(10);
        assert!(steps < 64 && cells <= 10, "{steps} steps, {cells} cells");
        assert_eq!((samples, weight), (40, 40_000_000));
        assert_eq!(made(0), (1, 1, 40, 40_000_000));
    }

    #[test]
    fn steps_divide_seconds_and_are_neither_few_nor_too_many() {
        let of = |span| Time::new(7, 7 + span);
        let second = 1_000_000_000;
        for (span, step_ns) in [
            (1, 1),
            (40_000, 10),
            (second, 200_000),
            (10 * second, 2_000_000),
            (100 * second, 20_000_000),
            (600 * second, 20_000_000),
            (3600 * second, 200_000_000),
            (u64::MAX - 7, 1_000_000_000_000_000),
        ] {
            let time = of(span);
            assert_eq!(time.step_ns, step_ns, "{span}");
            assert!(time.steps() <= MOST_STEPS, "{span}");
        }
    }
}
