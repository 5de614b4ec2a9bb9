//! BPF programs and maps of those who are served: calls of `bpf(2)`, and programs that come to events and go.

use super::Machine;
use crate::bpf::{self, Caller, FileId, Reply};
use perfuse_abi::{Attr, AttrFlags, Errno, EventType, Software};
use perfuse_engine::{EventKey, Ioctl, TaskId};

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

impl Machine {
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
