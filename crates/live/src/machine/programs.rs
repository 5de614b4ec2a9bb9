//! BPF programs and maps of those who are served: calls of `bpf(2)`, and programs that come to events and go.

use super::{Machine, clocks};
use crate::bpf::{self, Caller, FileId, Reply, Sight};
use crate::proc;
use perfuse_abi::{Attr, AttrFlags, ByteOrder, Errno, EventType, Software};
use perfuse_bpf::ProgramType;
use perfuse_engine::{EventKey, Ioctl, OpenArguments, TaskId};

/// Whether an event of a whole cpu shows what its owner's programs write, and nothing of others: everybody may have such a one.
pub(super) fn only_writes_what_programs_do(attr: &Attr) -> bool {
    const WITHOUT_RECORDS: AttrFlags = AttrFlags::DISABLED
        .union(AttrFlags::INHERIT)
        .union(AttrFlags::PINNED)
        .union(AttrFlags::EXCLUDE_USER)
        .union(AttrFlags::EXCLUDE_KERNEL)
        .union(AttrFlags::EXCLUDE_HV)
        .union(AttrFlags::EXCLUDE_IDLE)
        .union(AttrFlags::EXCLUDE_HOST)
        .union(AttrFlags::EXCLUDE_GUEST)
        .union(AttrFlags::FREQ)
        .union(AttrFlags::WATERMARK)
        .union(AttrFlags::SAMPLE_ID_ALL)
        .union(AttrFlags::USE_CLOCKID)
        .union(AttrFlags::WRITE_BACKWARD);
    let is_output = attr.type_ == EventType::SOFTWARE && Software(attr.config) == Software::BPF_OUTPUT;
    is_output && WITHOUT_RECORDS.contains(attr.flags)
}

/// An event of a whole cpu that stands for programs.
#[derive(Debug)]
pub(super) struct Carried {
    /// The threads for which they run.
    pub(super) sight: Sight,
    /// The cpu and the period of a clock.
    pub(super) clock: Option<(u32, u64)>,
}

impl Machine {
    /// Programs of tracepoints, probes and overflows are attached by events of a whole cpu: libbpf and bpftrace know no others. They are
    /// opened for a process that has loaded such programs. Such an event becomes one of its opener's first thread, which stays until the last one goes, and shows it nothing of
    /// others; programs run at the hits of all threads that they may see. Of a clock that goes off it becomes one that counts nothing.
    pub(super) fn carry_programs(
        &self,
        caller: TaskId,
        attr: &mut [u8],
        arguments: &mut OpenArguments,
    ) -> Option<Carried> {
        if arguments.pid != -1 || attr.len() < Attr::SIZE_VER0 as usize {
            return None;
        }
        let seen = Attr::peek(attr, ByteOrder::NATIVE);
        let is_probe = self.places.as_ref().is_some_and(|places| places.type_ == seen.type_);
        let cpu = u32::try_from(arguments.cpu).ok().filter(|cpu| *cpu < self.cpus)?;
        let clock = clocks::period_ns(&seen).map(|period| (cpu, period));
        let program_type = match seen.type_ {
            EventType::TRACEPOINT => ProgramType::Tracepoint,
            _ if is_probe => ProgramType::Kprobe,
            _ if clock.is_some() && self.has_room_for_clock() => ProgramType::PerfEvent,
            _ => return None,
        };
        let (pid, tid) = self.tid_of(caller)?;
        if !self.bpf.has_loaded(pid, program_type) {
            return None;
        }
        let is_there = self.task_of(pid).is_some() && !proc::is_dead(pid);
        (arguments.pid, arguments.cpu) = (if is_there { pid } else { 0 }, -1);
        let config = if clock.is_some() { Software::DUMMY.0 } else { seen.config };
        let flags = seen.flags | AttrFlags::EXCLUDE_KERNEL;
        Attr { config, flags, ..seen }.poke(attr, ByteOrder::NATIVE);
        Some(Carried { sight: Sight::of(tid), clock })
    }

    /// The objects.
    pub(crate) fn bpf(&self) -> &bpf::Shared {
        &self.bpf
    }

    /// `bpf(2)`: a command, the address of its arguments in the caller's memory, and how many bytes these have.
    pub(crate) fn call_bpf(
        &mut self,
        task: TaskId,
        caller: &mut dyn Caller,
        command: u32,
        addr: u64,
        size: u32,
    ) -> Result<Reply, Errno> {
        // Programs look at the memory of threads.
        self.stacks |= command == bpf::LINK_CREATE;
        let is_run = command == bpf::TEST_RUN;
        // A program that runs for its caller reaches events of it that are on its cpu.
        if is_run {
            self.update(task);
        }
        let place = (self.cpu_of(task), self.now());
        if is_run {
            self.come(task, place.0, place.1);
        }
        let places = self.places.as_ref();
        let probe_of = |event| places.and_then(|places| places.probe_of(event));
        let mut kernel = bpf::Kernel { engine: &mut self.engine, place, probe_of: &probe_of };
        let reply = self.bpf.call(&mut kernel, caller, command, addr, size);
        if is_run {
            self.leave(task, place.0, place.1);
        }
        if command == bpf::LINK_CREATE {
            self.look_again(vec![task]);
        }
        reply
    }

    /// The last descriptor of a file is closed.
    pub(crate) fn bpf_is_closed(&mut self, file: FileId) {
        self.bpf.closed(&mut self.engine, file);
    }

    /// `PERF_EVENT_IOC_SET_BPF` of the program of a file; or why it is none (rule K1).
    pub(crate) fn set_program(
        &mut self,
        caller: TaskId,
        event: EventKey,
        file: Result<FileId, Errno>,
    ) -> Result<u64, Errno> {
        self.stacks = true;
        let program = file.and_then(|file| self.bpf.program(file));
        self.ioctl_with(caller, event, Ioctl::SetBpf(0), program)
    }
}
