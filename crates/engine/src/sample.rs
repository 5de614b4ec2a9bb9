//! Writing records: samples with their fields (section H), and the trailer of all others.

use crate::cpu_state::{CpuState, Registers};
use crate::effect::Notice;
use crate::engine::Engine;
use crate::event::EventKey;
use crate::task::TaskId;
use alloc::vec::Vec;
use perfuse_abi::read::ReadValues;
use perfuse_abi::record::{
    BranchEntry, BranchStack, Callchain, CallchainContext, Cpu, CpuMode, DataSrc, Decoded, Lost, Misc, Raw,
    Record, Regs, RegsAbi, Sample, SampleId, Tid, UserStack, Weight,
};
use perfuse_abi::wire::Seq;
use perfuse_abi::{AttrFlags, SampleType, Txn};

/// The data of a sample, as far as the host or a driver knows them.
#[derive(Clone, Copy)]
pub struct SampleData<'a> {
    /// The state of the cpu.
    pub cpu_state: &'a dyn CpuState,
    /// The address of the data.
    pub addr: Option<u64>,
    /// The data of a tracepoint.
    pub raw: Option<&'a [u8]>,
    /// The instruction pointer is exact.
    pub exact_ip: bool,
    /// The cost of the access.
    pub weight: Option<Weight>,
    /// Where the data came from.
    pub data_src: Option<DataSrc>,
    /// About the transaction.
    pub transaction: Txn,
    /// The last branches, the newest first, with the hardware's index.
    pub branches: Option<(&'a [BranchEntry], Option<u64>)>,
}

impl<'a> SampleData<'a> {
    /// Nothing is known but the state of the cpu.
    pub fn new(cpu_state: &'a dyn CpuState) -> Self {
        SampleData {
            cpu_state,
            addr: None,
            raw: None,
            exact_ip: false,
            weight: None,
            data_src: None,
            transaction: Txn::empty(),
            branches: None,
        }
    }
}

impl core::fmt::Debug for SampleData<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Facts")
            .field("ip", &self.cpu_state.ip())
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

/// The fate of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// There was no ring, or no room in it.
    Lost,
    /// It is in the ring.
    There,
    /// It is, and wakes those who wait.
    Wakes,
}

/// Room that is used again for each record.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    words: Vec<u64>,
    chain: Vec<u64>,
    user: Vec<u64>,
    interrupted: Vec<u64>,
    stack: Vec<u8>,
    aux: Vec<u8>,
    bytes: Vec<u8>,
}

/// The fields of a sample that are one word.
const WORDS: SampleType = SampleType::IDENTIFIER
    .union(SampleType::IP)
    .union(SampleType::TID)
    .union(SampleType::TIME)
    .union(SampleType::ADDR)
    .union(SampleType::ID)
    .union(SampleType::STREAM_ID)
    .union(SampleType::CPU)
    .union(SampleType::PERIOD)
    .union(SampleType::WEIGHT)
    .union(SampleType::WEIGHT_STRUCT)
    .union(SampleType::DATA_SRC)
    .union(SampleType::TRANSACTION)
    .union(SampleType::PHYS_ADDR)
    .union(SampleType::CGROUP)
    .union(SampleType::DATA_PAGE_SIZE)
    .union(SampleType::CODE_PAGE_SIZE);

impl Engine {
    /// The clock of an event's records.
    pub(crate) fn record_time(&self, event: EventKey, now: u64) -> u64 {
        let clock = self.events[event].clockid();
        let ahead = clock.and_then(|clock| self.clocks.get(&clock));
        now.wrapping_add_signed(ahead.copied().unwrap_or(0))
    }

    /// The trailer of a record that an event gets (rule H43).
    fn sample_id(&self, event: EventKey, cpu: u32, now: u64, task: Option<TaskId>) -> SampleId {
        let original = self.events[self.events[event].original()].id;
        SampleId {
            tid: Some(self.tid_for(event, task)),
            time: Some(self.record_time(event, now)),
            id: Some(original),
            stream_id: Some(self.events[event].id),
            cpu: Some(Cpu::from(cpu)),
            identifier: Some(original),
        }
    }

    /// Writes a record other than a sample to the buffer of an event.
    pub(crate) fn write_record(
        &mut self,
        event: EventKey,
        record: Record<'_>,
        misc: Misc,
        cpu: u32,
        now: u64,
    ) {
        let task = self.cpus[cpu as usize].current;
        self.write_record_of(event, record, misc, cpu, now, task);
    }

    pub(crate) fn write_record_of(
        &mut self,
        event: EventKey,
        record: Record<'_>,
        misc: Misc,
        cpu: u32,
        now: u64,
        task: Option<TaskId>,
    ) {
        if self.buffer_of(event).is_none() {
            return;
        }
        let sample_id = self.sample_id(event, cpu, now, task);
        let decoded = Decoded { misc, sample_id, ..Decoded::from(record) };
        let mut bytes = core::mem::take(&mut self.scratch.bytes);
        bytes.clear();
        let fits = decoded.encode(&self.events[event].format(), &mut bytes).is_ok();
        self.output(event, fits.then_some(&mut bytes), sample_id, None, (cpu, now));
        self.scratch.bytes = bytes;
    }

    /// Puts the bytes of a record into the buffer (rules G1 to G9). One that is too long for a header
    /// (`None`) is lost, where Linux writes a torn one (rule G12). `wakeup_events`: it is a sample, and
    /// so many of them wake the reader (rule G15).
    fn output(
        &mut self,
        event: EventKey,
        bytes: Option<&mut Vec<u8>>,
        sample_id: SampleId,
        wakeup_events: Option<u32>,
        (cpu, now): (u32, u64),
    ) -> Written {
        let original = self.events[event].original();
        let Some(key) = self.events[original].buffer else { return Written::Lost };
        let format = self.events[event].format();
        let id = self.events[original].id;
        let ring = &self.buffers[key].ring;
        let lost_bytes = 24 + format.trailer_len();
        let slot = match &bytes {
            Some(bytes) => ring.begin(bytes.len(), lost_bytes),
            None => {
                ring.lose();
                Err(crate::ring::Full::default())
            }
        };
        let (Ok(mut slot), Some(bytes)) = (slot, bytes) else {
            if !ring.is_empty() {
                self.events[original].lost += 1;
            }
            return Written::Lost;
        };
        if let Some(lost) = slot.lost() {
            let record = Record::Lost(Lost { id, lost });
            // It is the original's, even if a copy lost them (rule G8).
            let sample_id = SampleId { stream_id: Some(id), ..sample_id };
            let decoded = Decoded { sample_id, ..Decoded::from(record) };
            let mut told = Vec::with_capacity(lost_bytes);
            let encoded = decoded.encode(&format, &mut told);
            debug_assert!(encoded.is_ok(), "a small record");
            slot.put(&told);
            // Fields that were made for it are in the record behind it too.
            let kind = self.events[event].attr().sample_type;
            if let Some(at) = stream_id_at(kind, bytes.len(), wakeup_events.is_some()) {
                if format.sample_id_all {
                    bytes[at..at + 8].copy_from_slice(&id.to_ne_bytes());
                }
            }
        }
        if self.nested.as_ref().is_some_and(|nested| nested.cpu == cpu) {
            let suspended = slot.suspend();
            self.nested_interrupt(now);
            slot = self.buffers[key].ring.resume(suspended);
        }
        slot.put(bytes);
        let ring = &self.buffers[key].ring;
        if let Some(every) = wakeup_events {
            ring.count_sample(every);
        }
        if !slot.finish() {
            return Written::There;
        }
        self.wake_readers(key);
        // A sample's overflow signals anyway (rule G26).
        if wakeup_events.is_none() {
            self.signal(original, Notice::In);
        }
        Written::Wakes
    }

    /// Writes a sample (rules H1 to H31).
    pub(crate) fn write_sample(
        &mut self,
        event: EventKey,
        cpu: u32,
        now: u64,
        data: &SampleData<'_>,
        period: u64,
    ) -> Written {
        if self.buffer_of(event).is_none() {
            return Written::Lost;
        }
        let mut scratch = core::mem::take(&mut self.scratch);
        let attr = *self.events[event].attr();
        let wants = |field| attr.sample_type.contains(field);
        let cpu_state = data.cpu_state;
        let task = self.cpus[cpu as usize].current;
        let sample_id = self.sample_id(event, cpu, now, task);
        let read = if wants(SampleType::READ) {
            self.values(event, now, false, &mut scratch.words).unwrap_or_default()
        } else {
            ReadValues::default()
        };
        if wants(SampleType::CALLCHAIN) {
            scratch.chain.clear();
            self.callchain(event, task, cpu_state, &mut scratch.chain);
        }
        let user_abi = registers(cpu_state, Registers::User, attr.sample_regs_user, &mut scratch.user);
        let abi =
            registers(cpu_state, Registers::Interrupted, attr.sample_regs_intr, &mut scratch.interrupted);
        let mut sample = Sample::default();
        sample.identifier = sample_id.identifier;
        sample.ip = Some(cpu_state.ip());
        sample.tid = sample_id.tid;
        sample.time = sample_id.time;
        sample.addr = Some(data.addr.unwrap_or(0));
        sample.id = sample_id.id;
        sample.stream_id = sample_id.stream_id;
        sample.cpu = sample_id.cpu;
        sample.period = Some(period);
        sample.read = Some(read);
        sample.callchain = Some(Callchain { words: scratch.chain[..].into() });
        sample.raw = Some(Raw::new(data.raw.unwrap_or(&[])));
        sample.branch_stack = Some(branches(data));
        sample.regs_user =
            Some(Regs { abi: user_abi, mask: attr.sample_regs_user, words: scratch.user[..].into() });
        sample.stack_user = None;
        sample.weight = Some(match data.weight {
            Some(weight) => weight,
            None if wants(SampleType::WEIGHT_STRUCT) => Weight::Struct { var1: 0, var2: 0, var3: 0 },
            None => Weight::Full(0),
        });
        sample.data_src = Some(data.data_src.unwrap_or(DataSrc::NA));
        sample.transaction = Some(data.transaction);
        sample.regs_intr =
            Some(Regs { abi, mask: attr.sample_regs_intr, words: scratch.interrupted[..].into() });
        sample.phys_addr =
            Some(if wants(SampleType::PHYS_ADDR) { cpu_state.physical(data.addr.unwrap_or(0)) } else { 0 });
        sample.cgroup = Some(task.and_then(|task| self.tasks.get(&task)).map_or(1, |task| task.cgroup.0));
        sample.data_page_size = Some(match data.addr {
            Some(addr) if wants(SampleType::DATA_PAGE_SIZE) => cpu_state.page_size(addr),
            _ => 0,
        });
        sample.code_page_size =
            Some(if wants(SampleType::CODE_PAGE_SIZE) { cpu_state.page_size(cpu_state.ip()) } else { 0 });
        sample.aux = Some(&[]);
        let mut stack = core::mem::take(&mut scratch.stack);
        if wants(SampleType::STACK_USER) {
            stack.clear();
            let before = self.bytes_before_stack(event, &sample);
            let copied = user_stack(cpu_state, attr.sample_stack_user, before, &mut stack);
            sample.stack_user = Some(UserStack { bytes: &stack, dyn_size: copied });
        }
        let mode = match (
            cpu_state.is_guest() && !self.events[event].has(AttrFlags::EXCLUDE_GUEST),
            cpu_state.is_user(),
        ) {
            (false, true) => CpuMode::USER,
            (false, false) => CpuMode::KERNEL,
            (true, true) => CpuMode::GUEST_USER,
            (true, false) => CpuMode::GUEST_KERNEL,
        };
        let exact = if data.exact_ip { Misc::EXACT_IP } else { Misc::empty() };
        let misc = exact.with_cpu_mode(mode);
        let format = self.events[event].format();
        let mut aux = core::mem::take(&mut scratch.aux);
        aux.clear();
        if wants(SampleType::AUX) {
            // The sample that is measured before has an AUX field without bytes.
            let before = Decoded::from(Record::Sample(sample)).encoded_len(&format).unwrap_or(usize::MAX);
            self.aux_sample(event, usize::from(u16::MAX).saturating_sub(before), &mut aux);
            sample.aux = Some(&aux);
        }
        let decoded = Decoded { misc, ..Decoded::from(Record::Sample(sample)) };
        let mut bytes = core::mem::take(&mut scratch.bytes);
        bytes.clear();
        let fits = decoded.encode(&format, &mut bytes).is_ok();
        let every = attr.wakeup_events().unwrap_or(0);
        let written = self.output(event, fits.then_some(&mut bytes), sample_id, Some(every), (cpu, now));
        (scratch.bytes, scratch.stack, scratch.aux) = (bytes, stack, aux);
        self.scratch = scratch;
        written
    }

    /// Rules H10 to H13.
    fn callchain(
        &self,
        event: EventKey,
        task: Option<TaskId>,
        cpu_state: &dyn CpuState,
        chain: &mut Vec<u64>,
    ) {
        let own = &self.events[event];
        let most = usize::from(own.attr().sample_max_stack);
        let mut contexts = usize::try_from(self.sysctls.max_contexts_per_stack).unwrap_or(0);
        let target = self.target_of(event);
        let foreign = target.is_some() && target != task;
        let kernel = !own.has(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL) && !cpu_state.is_user();
        let user = !own.has(AttrFlags::EXCLUDE_CALLCHAIN_USER) && cpu_state.has_user() && !foreign;
        let mut left = most;
        let parts = [(kernel, CallchainContext::KERNEL), (user, CallchainContext::USER)];
        for (wanted, marker) in parts {
            if !wanted || contexts == 0 {
                continue;
            }
            contexts -= 1;
            chain.push(marker.0);
            let before = chain.len();
            if marker == CallchainContext::KERNEL {
                cpu_state.kernel_chain(left, chain);
            } else {
                cpu_state.user_chain(left, chain);
            }
            // A host may give more than was asked for; the rest is cut.
            chain.truncate(before + left);
            left -= chain.len() - before;
        }
    }

    /// The part of a sample that was measured before the stack is cut to fit (rule H20).
    fn bytes_before_stack(&self, event: EventKey, sample: &Sample<'_>) -> usize {
        let kind = self.events[event].attr().sample_type;
        let words = kind.intersection(WORDS).bits().count_ones() as usize;
        let mut bytes = 8 + words * 8;
        let mut add = |field, len: usize| bytes += if kind.contains(field) { len } else { 0 };
        add(SampleType::READ, self.read_len(event));
        add(SampleType::CALLCHAIN, sample.callchain.map_or(0, |chain| 8 + chain.words.len() * 8));
        add(SampleType::RAW, sample.raw.map_or(0, |raw| 4 + raw.size()));
        let branches = |stack: BranchStack<'_>| 8 + stack.entries.len() * 24;
        add(SampleType::BRANCH_STACK, sample.branch_stack.map_or(0, branches));
        add(SampleType::REGS_USER, sample.regs_user.map_or(0, |regs| 8 + regs.words.len() * 8));
        bytes
    }
}

/// Where in a record of so many bytes the stream id stands: in a sample, or in the trailer of another.
fn stream_id_at(kind: SampleType, len: usize, sample: bool) -> Option<usize> {
    const BEFORE: SampleType = SampleType::IDENTIFIER
        .union(SampleType::IP)
        .union(SampleType::TID)
        .union(SampleType::TIME)
        .union(SampleType::ADDR)
        .union(SampleType::ID);
    const FROM_HERE: SampleType = SampleType::STREAM_ID.union(SampleType::CPU).union(SampleType::IDENTIFIER);
    let words = |of: SampleType| kind.intersection(of).bits().count_ones() as usize;
    let there = kind.contains(SampleType::STREAM_ID);
    there.then(|| if sample { 8 + 8 * words(BEFORE) } else { len - 8 * words(FROM_HERE) })
}

fn registers(cpu_state: &dyn CpuState, which: Registers, mask: u64, words: &mut Vec<u64>) -> RegsAbi {
    words.clear();
    let abi = cpu_state.registers(which);
    if abi != RegsAbi::ABI_NONE {
        words.extend((0..64).filter(|bit| mask >> bit & 1 != 0).map(|bit| cpu_state.register(which, bit)));
    }
    abi
}

fn branches<'a>(data: &SampleData<'a>) -> BranchStack<'a> {
    match data.branches {
        None => BranchStack::default(),
        Some((entries, hw_idx)) => {
            BranchStack { hw_idx, entries: Seq::from(entries), ..BranchStack::default() }
        }
    }
}

/// Copies the stack into `bytes`, which get the size that rule H20 gives; how much could be copied.
fn user_stack(cpu_state: &dyn CpuState, wanted: u32, before: usize, bytes: &mut Vec<u8>) -> u64 {
    const MOST: u64 = u16::MAX as u64;
    if !cpu_state.has_user() {
        return 0;
    }
    let mut size = u64::from(wanted).min(MOST).min(cpu_state.user_stack_left());
    let header = before as u64 + 16;
    if header + size > MOST {
        size = MOST.saturating_sub(header + 8).next_multiple_of(8);
    }
    let size = size as usize / 8 * 8;
    cpu_state.user_stack(size, bytes);
    bytes.truncate(size);
    let copied = bytes.len() as u64;
    bytes.resize(size, 0);
    copied
}

/// The numbers where there is no task.
pub(crate) const NOBODY: Tid = Tid { pid: 0, tid: 0 };
