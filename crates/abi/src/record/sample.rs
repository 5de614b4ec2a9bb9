//! `PERF_RECORD_SAMPLE`.

use super::{BranchStack, Callchain, Cpu, DataSrc, Raw, RecordFormat, Regs, Tid, UserStack, Weight};
use crate::flags::{BranchSampleType, SampleType, Txn};
use crate::read::ReadValues;
use crate::wire::{Codec, Layout, Reader, Short};

/// The state of things when the event overflowed: those of the fields that `attr.sample_type` asks for, in
/// the order they have on the wire (rule H1).
///
/// A field that the format does not ask for is not written. One that it asks for must be there to be
/// written, even if there is nothing to tell: a kernel writes zeros, an empty stack,
/// [`DataSrc::NA`].
///
/// Kernels add fields: outside of this crate one is made from [`Sample::default`], field by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample<'a> {
    /// Id of the event, at the record's start.
    pub identifier: Option<u64>,
    /// Instruction pointer.
    pub ip: Option<u64>,
    /// Process and thread.
    pub tid: Option<Tid>,
    /// Time, on the event's clock.
    pub time: Option<u64>,
    /// Data address.
    pub addr: Option<u64>,
    /// Id of the event (of the original one, for an inherited copy).
    pub id: Option<u64>,
    /// Id of the very event instance.
    pub stream_id: Option<u64>,
    /// CPU.
    pub cpu: Option<Cpu>,
    /// Period at the time.
    pub period: Option<u64>,
    /// Values of the event or its group.
    pub read: Option<ReadValues<'a>>,
    /// Callchain.
    pub callchain: Option<Callchain<'a>>,
    /// Opaque data.
    pub raw: Option<Raw<'a>>,
    /// Recent branches.
    pub branch_stack: Option<BranchStack<'a>>,
    /// Registers of the user.
    pub regs_user: Option<Regs<'a>>,
    /// Copy of the user's stack.
    pub stack_user: Option<UserStack<'a>>,
    /// Cost, for [`SampleType::WEIGHT`] and [`SampleType::WEIGHT_STRUCT`].
    pub weight: Option<Weight>,
    /// Where the data came from.
    pub data_src: Option<DataSrc>,
    /// About the transaction.
    pub transaction: Option<Txn>,
    /// Registers at the interrupt.
    pub regs_intr: Option<Regs<'a>>,
    /// Physical data address; 0 if not known.
    pub phys_addr: Option<u64>,
    /// Id of the task's cgroup.
    pub cgroup: Option<u64>,
    /// Page size of the data address in bytes; 0 if not known.
    pub data_page_size: Option<u64>,
    /// Page size of the instruction pointer in bytes; 0 if not known.
    pub code_page_size: Option<u64>,
    /// Snapshot of the AUX area.
    pub aux: Option<&'a [u8]>,
}

impl<'a> Sample<'a> {
    /// Reads a sample into an empty one, and leaves the reader behind it.
    ///
    /// An empty branch stack may have a `hw_idx` or not, and nothing before it tells. It has one if the
    /// record is then used up exactly, and otherwise has none if then the record is.
    #[inline]
    pub(super) fn fill(&mut self, reader: &mut Reader<'a>, format: &RecordFormat) -> Result<(), Short> {
        let uncertain = format.sample_type.contains(SampleType::BRANCH_STACK)
            && format.branch_sample_type.contains(BranchSampleType::HW_INDEX);
        if uncertain { self.fill_uncertain(reader, format) } else { self.layout(reader, format, true) }
    }

    fn fill_uncertain(&mut self, reader: &mut Reader<'a>, format: &RecordFormat) -> Result<(), Short> {
        let mut other = reader.clone();
        let with = self.layout(reader, format, true);
        let is_empty = self.branch_stack.is_some_and(|stack| stack.entries.is_empty());
        if !is_empty || with.is_ok() && reader.remaining().is_empty() {
            return with;
        }
        let mut sample = Sample::default();
        let without = sample.layout(&mut other, format, false);
        if without.is_ok() && (with.is_err() || other.remaining().is_empty()) {
            (*self, *reader) = (sample, other);
            return without;
        }
        with
    }

    /// The fields in both directions.
    #[inline]
    pub(super) fn layout<C: Codec<'a>>(
        &mut self,
        c: &mut C,
        format: &RecordFormat,
        index_of_empty: bool,
    ) -> Result<(), C::Error> {
        let has = |flag| format.sample_type.contains(flag);
        c.optional_u64(has(SampleType::IDENTIFIER), "identifier", &mut self.identifier)?;
        c.optional_u64(has(SampleType::IP), "ip", &mut self.ip)?;
        c.optional(has(SampleType::TID), "tid", &mut self.tid, |c, v| v.layout(c))?;
        c.optional_u64(has(SampleType::TIME), "time", &mut self.time)?;
        c.optional_u64(has(SampleType::ADDR), "addr", &mut self.addr)?;
        c.optional_u64(has(SampleType::ID), "id", &mut self.id)?;
        c.optional_u64(has(SampleType::STREAM_ID), "stream_id", &mut self.stream_id)?;
        c.optional(has(SampleType::CPU), "cpu", &mut self.cpu, |c, v| v.layout(c))?;
        c.optional_u64(has(SampleType::PERIOD), "period", &mut self.period)?;
        c.optional(has(SampleType::READ), "read values", &mut self.read, |c, v| {
            v.layout(c, format.read_format)
        })?;
        c.optional(has(SampleType::CALLCHAIN), "callchain", &mut self.callchain, |c, v| {
            let mut nr = v.words.len() as u64;
            c.u64("length of the callchain", &mut nr)?;
            c.seq("callchain", nr, &mut v.words)
        })?;
        c.optional(has(SampleType::RAW), "raw", &mut self.raw, |c, v| v.layout(c))?;
        c.optional(has(SampleType::BRANCH_STACK), "branch stack", &mut self.branch_stack, |c, v| {
            v.layout(c, format.branch_sample_type, index_of_empty)
        })?;
        c.optional(has(SampleType::REGS_USER), "user registers", &mut self.regs_user, |c, v| {
            v.layout(c, format.sample_regs_user)
        })?;
        c.optional(has(SampleType::STACK_USER), "user stack", &mut self.stack_user, |c, v| v.layout(c))?;
        let three = has(SampleType::WEIGHT_STRUCT);
        c.optional(three || has(SampleType::WEIGHT), "weight", &mut self.weight, |c, v| v.layout(c, three))?;
        c.optional(has(SampleType::DATA_SRC), "data_src", &mut self.data_src, |c, v| {
            c.u64("data_src", &mut v.0)
        })?;
        c.optional(has(SampleType::TRANSACTION), "transaction", &mut self.transaction, |c, v| {
            c.flags64("transaction", v)
        })?;
        c.optional(has(SampleType::REGS_INTR), "registers at the interrupt", &mut self.regs_intr, |c, v| {
            v.layout(c, format.sample_regs_intr)
        })?;
        c.optional_u64(has(SampleType::PHYS_ADDR), "phys_addr", &mut self.phys_addr)?;
        c.optional_u64(has(SampleType::CGROUP), "cgroup", &mut self.cgroup)?;
        c.optional_u64(has(SampleType::DATA_PAGE_SIZE), "data_page_size", &mut self.data_page_size)?;
        c.optional_u64(has(SampleType::CODE_PAGE_SIZE), "code_page_size", &mut self.code_page_size)?;
        c.optional(has(SampleType::AUX), "aux", &mut self.aux, |c, v| {
            let mut size = v.len() as u64;
            c.u64("aux size", &mut size)?;
            c.bytes("aux", size, v)
        })
    }
}
