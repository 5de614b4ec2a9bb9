//! Which event, task, time and cpu a record belongs to: the trailer of records other than samples.

use super::RecordFormat;
use crate::flags::SampleType;
use crate::wire::{Codec, Layout};

/// A process and one of its threads, in the pid namespace of the opener: 0 if not visible there, -1
/// (0xffffffff) if dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tid {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
}

impl<'a> Layout<'a> for Tid {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u32("pid", &mut self.pid)?;
        c.u32("tid", &mut self.tid)
    }
}

/// A cpu, with the reserved half of its word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cpu {
    /// Its number.
    pub cpu: u32,
    /// Reserved, zero.
    pub res: u32,
}

impl From<u32> for Cpu {
    #[inline]
    fn from(cpu: u32) -> Self {
        Cpu { cpu, res: 0 }
    }
}

impl<'a> Layout<'a> for Cpu {
    #[inline]
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u32("cpu", &mut self.cpu)?;
        c.u32("cpu, reserved", &mut self.res)
    }
}

/// The trailer (rule H43): those of the fields that `attr.sample_type` asks for, if
/// `attr.sample_id_all` is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleId {
    /// Process and thread.
    pub tid: Option<Tid>,
    /// Time, on the event's clock.
    pub time: Option<u64>,
    /// Id of the event.
    pub id: Option<u64>,
    /// Id of the very event instance.
    pub stream_id: Option<u64>,
    /// CPU.
    pub cpu: Option<Cpu>,
    /// Id of the event, at the record's end.
    pub identifier: Option<u64>,
}

impl SampleId {
    /// The trailer in both directions; nothing without `sample_id_all`.
    #[inline]
    pub fn layout<'a, C: Codec<'a>>(&mut self, c: &mut C, format: &RecordFormat) -> Result<(), C::Error> {
        if !format.sample_id_all {
            return Ok(());
        }
        let has = |flag| format.sample_type.contains(flag);
        c.optional(has(SampleType::TID), "sample_id.tid", &mut self.tid, |c, v| v.layout(c))?;
        c.optional_u64(has(SampleType::TIME), "sample_id.time", &mut self.time)?;
        c.optional_u64(has(SampleType::ID), "sample_id.id", &mut self.id)?;
        c.optional_u64(has(SampleType::STREAM_ID), "sample_id.stream_id", &mut self.stream_id)?;
        c.optional(has(SampleType::CPU), "sample_id.cpu", &mut self.cpu, |c, v| v.layout(c))?;
        c.optional_u64(has(SampleType::IDENTIFIER), "sample_id.identifier", &mut self.identifier)
    }
}
