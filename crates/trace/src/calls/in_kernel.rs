//! Calls summed up by BPF programs where they happen: nothing is written to rings, so nothing is lost, and a call costs a fraction of
//! a microsecond. The programs and their maps are data here; `perfuse::Programs` loads them, and so does a machine of `perfuse-bpf`.
//!
//! A thread is known by where the kernel has its task, which stays when a thread executes a program and gets the number of its process.
//! Followed threads are in a map from the moment when they are born ([`FORK`]), before their first call; of those
//! that ran already, or wait to be executed, numbers are given, and they are in the map from their next call on.
//!
//! A call that a signal interrupts counts when the thread has got the signal, or goes on: where it is killed, the call never returned,
//! though the kernel tells an exit. The kernel kills by SIGKILL for other deadly signals too; a debugger such as strace sees
//! those others, and so the thread that one was sent to has returned.

mod keys;
pub(crate) mod text;
mod texts;

pub use keys::{Key, Width};
pub use texts::CallTexts;

use super::sums::{CallRow, CallSums};
use super::table::{CallSet, Calls};
use crate::sums::{Distribution, Groups, Parts};
use perfuse_abi::regs::Arch;
use perfuse_bpf::map::flag::NO_PREALLOC;
use perfuse_bpf::{AssembleError, Insn, MapKind, MapSpec, assemble};

/// Numbers of the maps.
const SEEDS: usize = 1;
const STATE: usize = 2;
const ROWS: usize = 3;
const ERRORS: usize = 4;
const STEPS: usize = 5;
const NAMES: usize = 6;
const WANTED: usize = 7;

/// Numbers of calls that sets tell apart.
const NUMBERS: u32 = 1024;

/// Where the element of a thread has the arguments of its call.
const ARGUMENTS: usize = 48;

/// The state of a thread that waits to be executed.
const WAITS: u64 = 1;

/// Whose calls are summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of all processes but this one.
    All(u32),
    /// Of threads that are [given](InKernel::thread), and all that they start.
    Followed,
}

/// Which calls the kernel sums up, and how.
#[derive(Clone, Debug)]
pub struct CallQuestion {
    /// Which calls.
    pub wanted: CallSet,
    /// Only calls that failed.
    pub failed: bool,
    /// Only calls that took so many nanoseconds or more.
    pub least_ns: u64,
    /// What is told apart.
    pub rows: Rows,
}

/// What the kernel tells apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Calls, with their errors.
    ByCall,
    /// Calls of each thread, with their errors and percentiles.
    ByThread,
    /// Rows by fields.
    ByKeys {
        /// The fields; none for one row.
        keys: Vec<Key>,
        /// What is summed up of each call; calls are counted alone without it.
        of: Option<Key>,
        /// Percentiles or histograms are told.
        spread: bool,
    },
}

/// Programs that sum calls up, and what they are asked.
#[derive(Clone, Debug)]
pub struct InKernel {
    /// Whose calls.
    pub whose: Whose,
    /// Which calls.
    pub asked: CallQuestion,
}

/// An element for a map: the number of the map, the key, the value.
pub type Element = (usize, Vec<u8>, Vec<u8>);

/// Keys of a map with their values, as `bpf(2)` gives them.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Rows with the bytes of their keys.
type KeyedRows = Vec<(Vec<u8>, CallRow)>;

/// What found no room in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoRoom {
    /// Calls without a row.
    pub calls: u64,
    /// Threads, whose calls are in no row.
    pub threads: u64,
}

impl NoRoom {
    /// The same in sentences, of what there is any.
    pub fn told(&self) -> Vec<String> {
        let rows = [
            (self.calls, "calls found no room in the sums of the kernel"),
            (self.threads, "threads found no room in the kernel's list: their calls are not counted"),
        ];
        rows.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
    }
}

impl InKernel {
    fn keys(&self) -> &[Key] {
        match &self.asked.rows {
            Rows::ByCall => &[Key::Number],
            Rows::ByThread => &[Key::Number, Key::Tid],
            Rows::ByKeys { keys, .. } => keys,
        }
    }

    /// What is summed up.
    fn of(&self) -> Option<Key> {
        match &self.asked.rows {
            Rows::ByCall | Rows::ByThread => Some(Key::Duration),
            Rows::ByKeys { of, .. } => *of,
        }
    }

    fn has_errors(&self) -> bool {
        !matches!(self.asked.rows, Rows::ByKeys { .. })
    }

    fn has_steps(&self) -> bool {
        matches!(self.asked.rows, Rows::ByThread | Rows::ByKeys { spread: true, .. })
    }

    /// Arguments that are kept of each call, by their places.
    fn arguments(&self) -> Vec<u8> {
        let all = self.keys().iter().copied().chain(self.of());
        let mut places: Vec<u8> = all
            .filter_map(|key| if let Key::Argument(place, _) = key { Some(place) } else { None })
            .collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Bytes of a row's key: a row without keys has one that is always 0.
    fn key_bytes(&self) -> usize {
        self.keys().iter().map(|key| key.size()).sum::<usize>().max(8)
    }

    /// The maps, to be made in this order, on a machine of so many cpus.
    pub fn maps(&self, cpus: usize) -> Vec<MapSpec> {
        let growing = |key: usize, value: usize, most: u32| MapSpec {
            flags: NO_PREALLOC,
            ..MapSpec::new(MapKind::Hash, key as u32, value as u32, most)
        };
        let keys = self.keys();
        let key = self.key_bytes();
        // A row of one thread is written by that thread alone; one of several has a part for each cpu.
        let sums = |key: usize, value: usize, is_there: bool, most: u32| {
            let most = if is_there { most } else { 1 };
            if keys.contains(&Key::Tid) {
                return growing(key, value, most);
            }
            let room = (64 << 20) / (value * cpus.max(1)) as u32;
            let spec = MapSpec::new(MapKind::PerCpuHash, key as u32, value as u32, most.min(room.max(1024)));
            // A few rows are there before they are wanted.
            let flags = if keys == [Key::Number] { 0 } else { NO_PREALLOC };
            MapSpec { flags, ..spec }
        };
        let rows = if keys == [Key::Number] { 1 << 10 } else { 1 << 17 };
        let names = if self.asked.rows == Rows::ByThread { 1 << 16 } else { 1 };
        vec![
            growing(8, ARGUMENTS + 8 * self.arguments().len(), 1 << 16),
            growing(4, 8, 1 << 16),
            MapSpec::new(MapKind::Array, 4, 24, 1),
            sums(key, 32, true, rows),
            sums(key + 8, 8, self.has_errors(), rows * 4),
            sums(key + 8, 8, self.has_steps(), 1 << 18),
            growing(4, 24, names),
            MapSpec::new(MapKind::Array, 4, NUMBERS, 1),
        ]
    }

    /// The programs, each with the name of the tracepoint that runs it.
    ///
    /// # Errors
    ///
    /// None of this crate's own making.
    pub fn programs(
        &self,
        calls: &Calls,
        arch: Arch,
    ) -> Result<Vec<(&'static str, Vec<Insn>)>, AssembleError> {
        assembled(self.texts(calls, arch))
    }

    /// What the maps hold before the programs run.
    pub fn beginning(&self) -> Vec<Element> {
        let bytes = (0..NUMBERS).map(|number| u8::from(self.asked.wanted.has(number.into()))).collect();
        vec![(WANTED, vec![0; 4], bytes)]
    }

    /// Makes a thread followed, from its next call on; one that `waits` from the `execve` on that succeeds, itself included.
    /// When all are given, [`look`](Self::look) begins to look for them.
    pub fn thread(tid: u32, waits: bool) -> Element {
        (SEEDS, tid.to_ne_bytes().to_vec(), (u64::from(waits) * WAITS).to_ne_bytes().to_vec())
    }

    /// Begins to look for the threads that are given.
    pub fn look() -> Element {
        let mut state = vec![0; 24];
        state[..8].copy_from_slice(&1u64.to_ne_bytes());
        (STATE, vec![0; 4], state)
    }

    /// The rows by the bytes of their keys, when the programs run no more.
    fn rows<E>(&self, read: &dyn Fn(usize) -> Result<Entries, E>) -> Result<(KeyedRows, NoRoom), E> {
        let turn = self.of().map_or(0, |of| u64::from(of.is_signed()) << 63);
        let number = |bits: u64| if turn != 0 { i128::from(bits as i64) } else { i128::from(bits) };
        let mut rows = KeyedRows::new();
        for (key, value) in read(ROWS)? {
            let mut times = Distribution::default();
            for cpu in value.chunks_exact(32) {
                let [count, sum, least, most] = [0, 8, 16, 24].map(|at| word(cpu, at));
                if count > 0 {
                    let [sum, least, most] = [sum, !least ^ turn, most ^ turn].map(number);
                    times.add_parts(Parts { count, sum, least, most });
                }
            }
            rows.push((key, CallRow { times, ..CallRow::default() }));
        }
        rows.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut each = |map: usize, add: &dyn Fn(&mut CallRow, u64, u64)| {
            for (key, value) in read(map)? {
                let (key, more) = key.split_at(key.len().saturating_sub(8));
                if let Ok(at) = rows.binary_search_by(|(row, _)| row.as_slice().cmp(key)) {
                    let count = value.chunks_exact(8).map(|cpu| word(cpu, 0)).sum();
                    add(&mut rows[at].1, word(more, 0), count);
                }
            }
            Ok(())
        };
        each(ERRORS, &|row, error, count| {
            row.errors.insert(error as u16, count);
        })?;
        each(STEPS, &|row, step, count| row.times.add_step(step as i64 as i32, count))?;
        let state = read(STATE)?.into_iter().next().map(|(_, value)| value).unwrap_or_default();
        Ok((rows, NoRoom { calls: word(&state, 16), threads: word(&state, 8) }))
    }

    /// What the maps have come to, when the programs run no more: sums of calls, of [`Rows::ByCall`] and [`Rows::ByThread`]. `read`
    /// has the entries of a map.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub fn sums<E>(&self, read: &dyn Fn(usize) -> Result<Entries, E>) -> Result<(CallSums, NoRoom), E> {
        let (rows, no_room) = self.rows(read)?;
        let of = |key: &[u8]| (word(key, 8) as u32, word(key, 0));
        let rows = rows.into_iter().map(|(key, row)| (of(&key), row)).collect();
        let mut sums = CallSums { rows, ..CallSums::default() };
        for (key, value) in read(NAMES)? {
            let name = String::from_utf8_lossy(name(value.get(8..).unwrap_or_default())).into_owned();
            let tid = key.first_chunk().map_or(0, |tid| u32::from_ne_bytes(*tid));
            sums.names.insert(tid, (word(&value, 0) as u32, name));
        }
        Ok((sums, no_room))
    }

    /// The same as rows by keys, of [`Rows::ByKeys`].
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub fn groups<E>(
        &self,
        read: &dyn Fn(usize) -> Result<Entries, E>,
        calls: &Calls,
    ) -> Result<(Groups, NoRoom), E> {
        let (rows, no_room) = self.rows(read)?;
        let mut groups = Groups::default();
        for (bytes, row) in rows {
            let mut at = 0;
            let values = self.keys().iter().map(|key| {
                let value = key.value(bytes.get(at..).unwrap_or_default(), calls);
                at += key.size();
                Some(value)
            });
            groups.insert(values.collect(), &row.times);
        }
        Ok((groups, no_room))
    }
}

/// Programs, of the text of each.
pub(crate) fn assembled(
    texts: Vec<(&'static str, String)>,
) -> Result<Vec<(&'static str, Vec<Insn>)>, AssembleError> {
    texts.into_iter().map(|(name, text)| Ok((name, assemble(&text)?))).collect()
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word))
}

/// A name of the kernel's, without the zeros behind it.
fn name(bytes: &[u8]) -> &[u8] {
    bytes.get(..16).unwrap_or(bytes).split(|byte| *byte == 0).next().unwrap_or_default()
}
