//! The feature sections of a recording: about the tool, the clock, the files that were mapped, and what
//! [`machine`](super::machine) and [`formats`](super::formats) know.

use super::formats::Formats;
use super::machine::Machine;
use super::opening::Opened;
use super::plan::{Chains, Plan, Request};
use super::tally::Tally;
use perfuse::abi::record::{CpuMode, Misc};
use perfuse_data::Str;
use perfuse_data::feature::{BuildId, Clock, Compressed, Feature, Group, SampleTime};
use perfuse_symbols::Elf;
use perfuse_sys::page_size;
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What does not change while a recording is made.
pub(super) struct Facts {
    words: Vec<Vec<u8>>,
    clock: Option<(u64, Clock)>,
    formats: Option<Formats>,
}

impl Facts {
    pub(super) fn new(plan: &Plan, opened: &Opened) -> Self {
        let names = opened.requests.iter().filter(|request| super::attrs::is_tracepoint(request));
        Facts {
            words: std::env::args_os().map(|word| word.as_bytes().to_vec()).collect(),
            clock: plan.clock.and_then(clock),
            formats: Formats::of(names.map(|request| request.spec.name.as_str())),
        }
    }

    /// All sections that are known from the start on.
    pub(super) fn features<'a>(
        &'a self,
        plan: &Plan,
        opened: &'a Opened,
        machine: &'a Machine,
        compressed: Option<(u64, u64)>,
    ) -> Vec<Feature<'a>> {
        let mut all = machine.features();
        all.push(Feature::Version(Str::new(concat!("perfuse ", env!("CARGO_PKG_VERSION")))));
        all.push(Feature::Cmdline(self.words.iter().map(Str::new).collect()));
        let groups = groups(&opened.requests);
        if !groups.is_empty() {
            all.push(Feature::GroupDesc(groups));
        }
        if let Some((resolution, clock)) = self.clock {
            all.push(Feature::ClockResolution(resolution));
            all.push(Feature::Clock(clock));
        }
        if !plan.branches.is_empty() || plan.chains == Some(Chains::LastBranches) {
            all.push(Feature::BranchStack);
        }
        all.extend(self.formats.as_ref().map(|formats| Feature::TracingData(Box::new(formats.section()))));
        if let Some(level) = plan.compression {
            let (before, after) = compressed.unwrap_or_default();
            all.push(Feature::Compressed(Compressed {
                level: level.unsigned_abs(),
                ratio: before.checked_div(after).unwrap_or(1).max(1) as u32,
                // Readers make room for this much; pieces are never larger than 60 KiB.
                mmap_len: (opened.set.ring_bytes().max(128 << 10) + page_size()) as u32,
                ..Compressed::default()
            }));
        }
        all
    }
}

/// The groups that the events form.
fn groups(requests: &[Request]) -> Vec<Group<'_>> {
    let mut all = Vec::new();
    let mut leader = 0;
    for members in requests.chunk_by(|one, next| one.group.is_some() && one.group == next.group) {
        if members.len() > 1 {
            let name = members[0].group_name.as_deref().unwrap_or("{anon_group}");
            all.push(Group { name: Str::new(name), leader, members: members.len() as u32 });
        }
        leader += members.len() as u32;
    }
    all
}

/// What is known at the end of a file only.
pub(super) fn last<'a>(tally: &Tally, ids: &'a [(CpuMode, Vec<u8>, Vec<u8>)]) -> Vec<Feature<'a>> {
    let mut all = Vec::new();
    if let (Some(first_ns), Some(last_ns)) = (tally.first_ns, tally.last_ns) {
        all.push(Feature::SampleTime(SampleTime { first_ns, last_ns }));
    }
    if !ids.is_empty() {
        let ids = ids.iter().map(|(mode, name, id)| {
            let mut bytes = [0; 20];
            bytes[..id.len()].copy_from_slice(id);
            BuildId {
                misc: Misc::empty().with_cpu_mode(*mode) | BuildId::HAS_LEN,
                id: bytes,
                len: id.len() as u8,
                name: Str::new(name),
                ..BuildId::default()
            }
        });
        all.push(Feature::BuildIds(ids.collect()));
    }
    all
}

/// The build-ids of all files that were mapped, with the side they run on and their names.
pub(super) fn build_ids(tally: &Tally, kernel: bool) -> Vec<(CpuMode, Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    if kernel {
        let id = perfuse_symbols::BuildId::of_running_kernel();
        all.extend(id.map(|id| (CpuMode::KERNEL, b"[kernel.kallsyms]".to_vec(), id.as_bytes().to_vec())));
    }
    for (name, told) in &tally.files {
        let id = told.clone().or_else(|| {
            let elf = Elf::open(Path::new(OsStr::from_bytes(name))).ok()?;
            Some(elf.build_id().ok()??.as_bytes().to_vec())
        });
        all.extend(id.map(|id| (CpuMode::USER, name.clone(), id)));
    }
    all
}

/// Resolution of a clock, and what it shows now next to the wall clock.
fn clock(number: i32) -> Option<(u64, Clock)> {
    let id = match number {
        0 => ClockId::Realtime,
        1 => ClockId::Monotonic,
        4 => ClockId::MonotonicRaw,
        7 => ClockId::Boottime,
        _ => return None,
    };
    let ns = |time: Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    let (wall, clock) = (clock_gettime(ClockId::Realtime), clock_gettime(id));
    let clock = Clock { clock_id: number as u32, wall_ns: ns(wall), clock_ns: ns(clock), ..Clock::default() };
    Some((ns(clock_getres(id)), clock))
}
