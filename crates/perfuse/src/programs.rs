//! BPF programs of one's own in Linux: the maps that they share, loading, attaching, reading. Programs are written with
//! [`bpf::assemble`](crate::bpf::assemble), so no compiler is needed, at no time.
//!
//! ```no_run
//! use perfuse::{Programs, bpf::{MapKind, MapSpec, assemble}};
//!
//! // Counts the system calls of each process of the machine.
//! let count = assemble("
//!     call get_current_pid_tgid
//!     r0 >>= 32
//!     *(u32 *)(r10 -4) = r0
//!     r1 = map[idx:0]
//!     r2 = r10
//!     r2 += -4
//!     call map_lookup_elem
//!     if r0 == 0 goto new
//!     r1 = 1
//!     lock *(u64 *)(r0 +0) += r1
//!     goto out
//! new:
//!     *(u64 *)(r10 -16) = 1
//!     r1 = map[idx:0]
//!     r2 = r10
//!     r2 += -4
//!     r3 = r10
//!     r3 += -16
//!     r4 = 0
//!     call map_update_elem
//! out:
//!     r0 = 0
//!     exit")?;
//! let mut programs = Programs::new(&[MapSpec::new(MapKind::Hash, 4, 8, 10_000)])?;
//! programs.at_raw_tracepoint("sys_enter", &count)?;
//! std::thread::sleep(std::time::Duration::from_secs(1));
//! programs.detach();
//! for (pid, calls) in programs.map(0).entries()? {
//!     println!("{pid:?}: {calls:?}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::counter::Counter;
use crate::messages::Messages;
use crate::sampler_set::SamplerSet;
use perfuse_abi::ByteOrder;
use perfuse_bpf::btf;
use perfuse_bpf::insn::{Constant, functions, to_bytes};
use perfuse_bpf::{Insn, MapKind, MapSpec, ProgramType};
#[cfg(feature = "object")]
use perfuse_bpf::{map::flag, object::Object};
use perfuse_sys::bpf::{self, FunctionTypes, Map};
use perfuse_sys::{Errno, io_error};
use std::ffi::CString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Programs with the maps that they share. All of them are detached and freed when this is dropped.
#[derive(Debug)]
#[must_use = "programs are detached when this is dropped"]
pub struct Programs {
    maps: Vec<Map>,
    specs: Vec<MapSpec>,
    license: CString,
    /// As long as one is open, its program runs.
    links: Vec<OwnedFd>,
}

/// Linux refused a map, a program, or to attach it. `{}` tells which and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError {
    /// What was refused.
    pub attempt: ProgramAttempt,
    /// The kernel's answer.
    pub errno: Errno,
    /// Of a program that the verifier refused: its words.
    pub log: String,
}

/// A step on the way to a running program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramAttempt {
    /// Making the map with this number.
    Map(usize),
    /// Loading a program, by where it was to run.
    Load(String),
    /// Attaching it there.
    Attach(String),
    /// Reading the messages of the map with this number.
    Messages(usize),
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.attempt {
            ProgramAttempt::Map(number) => write!(f, "Linux refuses map {number} of BPF programs")?,
            ProgramAttempt::Load(place) => write!(f, "Linux refuses the BPF program for {place}")?,
            ProgramAttempt::Attach(place) => write!(f, "Linux runs no BPF program at {place}")?,
            ProgramAttempt::Messages(number) => write!(f, "messages of map {number} cannot be read")?,
        }
        match self.errno {
            Errno::E2BIG if matches!(self.attempt, ProgramAttempt::Messages(_)) => {
                f.write_str(": the array has fewer entries than the machine has cpus (E2BIG)")
            }
            Errno::EINVAL if matches!(self.attempt, ProgramAttempt::Messages(_)) => {
                f.write_str(": it is neither a perf event array nor a ring buffer (EINVAL)")
            }
            Errno::EPERM => f.write_str(": that takes root, or CAP_BPF and CAP_PERFMON (EPERM)"),
            Errno::ENOSYS => f.write_str(": this kernel is built without BPF (ENOSYS)"),
            errno => write!(f, ": {}", io_error(errno)),
        }?;
        // The verifier's last words but one are the reason.
        let reason = self.log.lines().rev().find(|line| !line.starts_with("processed "));
        reason.map_or(Ok(()), |reason| write!(f, "; the verifier says: {reason}"))
    }
}

impl std::error::Error for ProgramError {}

impl Programs {
    /// Makes maps; no program yet. In programs they are `map[idx:0]`, `map[idx:1]`, …
    ///
    /// # Errors
    ///
    /// The user lacks the rights (`EPERM`), or the kernel a kind of map (`EINVAL`) or memory.
    pub fn new(maps: &[MapSpec]) -> Result<Self, ProgramError> {
        let create = |(number, spec): (usize, &MapSpec)| {
            let MapSpec { kind, key_size, value_size, max_entries, flags } = *spec;
            Map::create([kind.number(), key_size, value_size, max_entries, flags]).map_err(|errno| {
                ProgramError { attempt: ProgramAttempt::Map(number), errno, log: String::new() }
            })
        };
        Ok(Programs {
            maps: maps.iter().enumerate().map(create).collect::<Result<_, _>>()?,
            specs: maps.to_vec(),
            license: bpf::ALL_HELPERS.to_owned(),
            links: Vec::new(),
        })
    }

    /// Makes the maps of an object file, with the values of its variables. Its programs are attached like all others, and are under its
    /// license.
    ///
    /// ```no_run
    /// use perfuse::bpf::object::{Object, Target};
    /// use perfuse::{Counter, Event, Programs};
    ///
    /// let object = Object::parse(&std::fs::read("counts.bpf.o")?, &Target::new(4))?;
    /// let mut programs = Programs::of_object(&object)?;
    /// for program in &object.programs {
    ///     if let (Some(name), Some(program_type)) = (program.place(), program.program_type) {
    ///         let mut counter = Counter::new(Event::tracepoint(&name.replace('/', ":"))?)?;
    ///         programs.at_event(&mut counter, program_type, &program.insns)?;
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new), with the number of the map.
    #[cfg(feature = "object")]
    pub fn of_object(object: &Object) -> Result<Self, ProgramError> {
        let specs: Vec<MapSpec> = object.maps.iter().map(|map| map.spec.clone()).collect();
        let license = CString::new(object.license.as_str()).unwrap_or_default();
        let programs = Programs { license, ..Programs::new(&specs)? };
        for (number, (one, map)) in object.maps.iter().zip(&programs.maps).enumerate() {
            let Some(value) = &one.value else { continue };
            let set = map.update(&[0; 4], value, flag::ANY);
            let set = set.and_then(|()| if one.is_constant() { map.freeze() } else { Ok(()) });
            set.map_err(|errno| ProgramError {
                attempt: ProgramAttempt::Map(number),
                errno,
                log: String::new(),
            })?;
        }
        Ok(programs)
    }

    /// A map, to be read and written. Its calls are those of `bpf(2)`.
    ///
    /// # Panics
    ///
    /// There is no map with this number.
    pub fn map(&self, number: usize) -> &Map {
        &self.maps[number]
    }

    /// Runs a program ([`ProgramType::RawTracepoint`]) at each hit of a tracepoint on all cpus, with the arguments of the tracepoint
    /// as its context: no tracefs is needed, and no event.
    ///
    /// # Errors
    ///
    /// The verifier refuses the program, or there is no such tracepoint (`ENOENT`).
    pub fn at_raw_tracepoint(&mut self, name: &str, insns: &[Insn]) -> Result<(), ProgramError> {
        let refused = |errno| ProgramError {
            attempt: ProgramAttempt::Attach(name.to_owned()),
            errno,
            log: String::new(),
        };
        let program = self.load(ProgramType::RawTracepoint, name, insns)?;
        let c_name = CString::new(name).map_err(|_| refused(Errno::ENOENT))?;
        self.links.push(bpf::attach_raw_tracepoint(&c_name, program.as_fd()).map_err(refused)?);
        Ok(())
    }

    /// Runs a program at an open event, as long as that is open: at each overflow ([`ProgramType::PerfEvent`]), or at each hit of a
    /// tracepoint ([`ProgramType::Tracepoint`]) or probe ([`ProgramType::Kprobe`]), whoever the event is for.
    ///
    /// # Errors
    ///
    /// The verifier refuses the program, the event takes no program of this type (`EINVAL`) or has one (`EEXIST`).
    pub fn at_event(
        &mut self,
        counter: &mut Counter,
        program_type: ProgramType,
        insns: &[Insn],
    ) -> Result<(), ProgramError> {
        self.at_counters([counter], program_type, insns)
    }

    /// The same at an event of a set, on all its targets and in what they start. A program that returns 0 leaves out the sample.
    ///
    /// # Errors
    ///
    /// Those of [`at_event`](Self::at_event); then some targets may have the program.
    pub fn at_event_of_set(
        &mut self,
        set: &mut SamplerSet,
        event: usize,
        program_type: ProgramType,
        insns: &[Insn],
    ) -> Result<(), ProgramError> {
        self.at_counters(set.counters_mut(event), program_type, insns)
    }

    fn at_counters<'c>(
        &mut self,
        counters: impl IntoIterator<Item = &'c mut Counter>,
        program_type: ProgramType,
        insns: &[Insn],
    ) -> Result<(), ProgramError> {
        let mut counters = counters.into_iter().peekable();
        let Some(first) = counters.peek() else { return Ok(()) };
        let place = crate::diagnosis::event_name(first.attr());
        let program = self.load(program_type, &place, insns)?;
        let refused = |errno| ProgramError {
            attempt: ProgramAttempt::Attach(place.clone()),
            errno,
            log: String::new(),
        };
        counters
            .try_for_each(|counter| counter.set_bpf(program.as_fd()).map_err(|error| refused(error.errno())))
    }

    /// Reads what programs send by a map: a perf event array ([`MapKind::PerfEventArray`] with keys and values of four bytes, one for
    /// each cpu), whose rings have so many pages each, or a ring buffer ([`MapKind::RingBuf`]), which has its size already. It begins
    /// with this call: what programs send before it is lost to an array.
    ///
    /// # Errors
    ///
    /// The map is of neither kind (`EINVAL`), the array has fewer entries than the machine has cpus (`E2BIG`), or the user lacks the
    /// rights for events of all cpus (`EACCES`, `EPERM`).
    ///
    /// # Panics
    ///
    /// There is no map with this number.
    pub fn messages(&self, number: usize, pages: usize) -> Result<Messages, ProgramError> {
        let map = self.map(number);
        let messages = match self.specs[number].kind {
            MapKind::PerfEventArray => Messages::of_event_array(map, pages),
            MapKind::RingBuf => Messages::of_ring(map, self.specs[number].max_entries),
            _ => Err(Errno::EINVAL),
        };
        messages.map_err(|errno| ProgramError {
            attempt: ProgramAttempt::Messages(number),
            errno,
            log: String::new(),
        })
    }

    /// Ends the programs at raw tracepoints; maps keep what they have.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Loads a program, with the maps in the place of their numbers.
    fn load(&self, program_type: ProgramType, place: &str, insns: &[Insn]) -> Result<OwnedFd, ProgramError> {
        let refused =
            |(errno, log)| ProgramError { attempt: ProgramAttempt::Load(place.to_owned()), errno, log };
        let descriptor = |index: i32| {
            let map = usize::try_from(index).ok().and_then(|index| self.maps.get(index));
            map.map(Map::as_raw_fd).ok_or_else(|| refused((Errno::EBADF, String::new())))
        };
        let mut insns = insns.to_vec();
        for insn in &mut insns {
            if let Insn::Constant { value, .. } = insn {
                *value = match *value {
                    Constant::MapIndex(index) => Constant::Map(descriptor(index)?),
                    Constant::MapIndexValue(index, at) => Constant::MapValue(descriptor(index)?, at),
                    value => value,
                };
            }
        }
        let bytes = to_bytes(&insns, ByteOrder::NATIVE);
        let slots: Vec<[u8; 8]> =
            bytes.chunks_exact(8).map(|slot| std::array::from_fn(|index| slot[index])).collect();
        // Types of functions are asked for only where a helper calls one.
        let (starts, called) = functions(&insns);
        let types =
            if called.is_empty() { None } else { bpf::load_types(&btf::of_functions(starts.len())).ok() };
        let numbered = starts.iter().zip(btf::FIRST_FUNCTION..);
        let functions: Vec<[u32; 2]> = numbered.map(|(&slot, number)| [slot as u32, number]).collect();
        let types = types.as_ref().map(|types| FunctionTypes { types: types.as_fd(), functions: &functions });
        let load = |wants_log| bpf::load(program_type.number(), &slots, &self.license, types, wants_log);
        // Once more for the log, which takes time.
        load(false).or_else(|_| load(true)).map_err(refused)
    }
}
