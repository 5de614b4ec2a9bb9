//! The feature sections of a recording: about the tool, the clock, the files that were mapped, and what
//! [`Machine`] and [`formats`] know.

mod formats;

use crate::opening::Opened;
use crate::plan::{Plan, Request};
use crate::synthesis::bpf::Programs;
use crate::tally::{MappedFile, Tally};
use crate::terms;
use formats::Formats;
pub use formats::take_formats;
use perfuse::abi::record::{CpuMode, Misc};
use perfuse_data::Str;
use perfuse_data::feature::{self, Clock, Compressed, Feature, Group, SampleTime};
use perfuse_data::machine::Machine;
use perfuse_files::in_root_of;
use perfuse_symbols::{BuildId, Elf};
use perfuse_sys::page_size;
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Facts that stay the same while a recording is made.
pub(crate) struct Facts {
    words: Vec<Vec<u8>>,
    clock: Option<(u64, Clock)>,
    formats: Option<Formats>,
}

impl Facts {
    pub(crate) fn new(plan: &Plan, opened: &Opened) -> Self {
        let names = opened.requests.iter().filter(|request| request.is_tracepoint());
        Facts {
            words: std::env::args_os().map(|word| word.as_bytes().to_vec()).collect(),
            clock: plan.clock.filter(|_| !plan.kernel.facts().is_simulated).and_then(clock),
            formats: Formats::of(names.map(|request| request.spec.name.as_str())),
        }
    }

    /// All sections that are known from the start on.
    pub(crate) fn features<'a>(
        &'a self,
        plan: &Plan,
        opened: &'a Opened,
        machine: &'a Machine,
        compressed: Option<(u64, u64)>,
    ) -> Vec<Feature<'a>> {
        let mut all = match plan.kernel.facts().is_simulated {
            true => Vec::new(),
            false => machine.features(),
        };
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
        if terms::any_branches(plan) {
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

/// The BPF programs that were seen.
pub(crate) fn programs(programs: &Programs) -> Vec<Feature<'_>> {
    let (programs, types) = (programs.section(), programs.types());
    let mut all = Vec::new();
    if !programs.is_empty() {
        all.push(Feature::BpfPrograms(programs));
    }
    if !types.is_empty() {
        all.push(Feature::BpfTypes(types));
    }
    all
}

/// Sections that are known only at the end of a file.
pub(crate) fn last<'a>(tally: &Tally, ids: &'a [Identified]) -> Vec<Feature<'a>> {
    let mut all = Vec::new();
    if let (Some(first_ns), Some(last_ns)) = (tally.first_ns, tally.last_ns) {
        all.push(Feature::SampleTime(SampleTime { first_ns, last_ns }));
    }
    if !ids.is_empty() {
        all.push(Feature::BuildIds(ids.iter().map(Identified::entry).collect()));
    }
    all
}

/// A file with its build-id.
pub(crate) struct Identified {
    mode: CpuMode,
    name: Vec<u8>,
    id: BuildId,
}

impl Identified {
    /// As recordings have it, in a section or in a record.
    pub(crate) fn entry(&self) -> feature::BuildIdEntry<'_> {
        let bytes = self.id.as_bytes();
        let mut id = [0; 20];
        id[..bytes.len()].copy_from_slice(bytes);
        let misc = Misc::empty().with_cpu_mode(self.mode) | feature::BuildIdEntry::HAS_LEN;
        let (len, name) = (bytes.len() as u8, Str::new(&self.name));
        feature::BuildIdEntry { misc, id, len, name, ..feature::BuildIdEntry::default() }
    }
}

/// The build-ids of the kernel, its modules, the vdso, and all files that were mapped. Most are known from
/// the kernel or from the start; few files have to be looked at, so there is no need to find out which of
/// them have samples.
pub(crate) fn build_ids(tally: &Tally, kernel: bool) -> Vec<Identified> {
    let mut all = Vec::new();
    let mut add = |mode, name: &[u8], id: Option<BuildId>| {
        all.extend(id.map(|id| Identified { mode, name: name.to_vec(), id }));
    };
    if kernel {
        add(CpuMode::KERNEL, b"[kernel.kallsyms]", BuildId::of_running_kernel());
    }
    tally.modules.iter().for_each(|(file, id)| add(CpuMode::KERNEL, file, Some(*id)));
    fn of<E>(elf: Result<Elf, E>) -> Option<BuildId> {
        elf.ok()?.build_id().ok()?
    }
    for (name, file) in &tally.files {
        let id = match file {
            MappedFile::Identified(id) => BuildId::new(id),
            MappedFile::Mapped(pid, inode) => {
                let path = Path::new(OsStr::from_bytes(name));
                // In a container the process sees another file under this name, as long as it is there.
                let places = [in_root_of(*pid, path), path.to_owned()];
                let open = |place: &PathBuf| match inode {
                    Some((device, inode)) if *inode != 0 => Elf::open_mapped(place, *device, *inode),
                    _ => Elf::open(place),
                };
                of(places.iter().map(open).find_map(Result::ok).ok_or(()))
            }
        };
        add(CpuMode::USER, name, id);
    }
    let vdso = perfuse_symbols::vdso_image().and_then(|image| Elf::from_bytes("[vdso]", image));
    add(CpuMode::USER, b"[vdso]", of(vdso));
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
