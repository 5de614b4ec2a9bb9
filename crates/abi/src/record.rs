//! Records: what the ring buffer and `perf.data` are made of.
//!
//! Decoding has two steps. [`RawRecord`] is a header with its bytes, enough to sort and to route:
//! [`RecordFormat::id_of`] and [`RecordFormat::time_of`] find the event and the time of any record at a
//! fixed place. [`RawRecord::decode`] then takes the body apart, in the layout that the event's attr
//! chose ([`RecordFormat`]). The result borrows the bytes; [`Decoded::encode`] writes it again, from the
//! same description.
//!
//! ```
//! use perfuse_abi::record::{Comm, Decoded, Record, RecordFormat, RawRecord, SampleId, Tid};
//! use perfuse_abi::{ByteOrder, SampleType};
//!
//! let format = RecordFormat {
//!     order: ByteOrder::Little,
//!     sample_type: SampleType::TIME,
//!     sample_id_all: true,
//!     ..RecordFormat::default()
//! };
//! let comm = Comm { tid: Tid { pid: 10, tid: 11 }, name: "make".into() };
//! let record = Decoded {
//!     sample_id: SampleId { time: Some(1234), ..SampleId::default() },
//!     ..Decoded::from(Record::Comm(comm))
//! };
//! let mut bytes = Vec::new();
//! record.encode(&format, &mut bytes)?;
//! assert_eq!(bytes.len(), 8 + 8 + 8 + 8); // header, pid and tid, "make" padded, time
//!
//! let (raw, rest) = RawRecord::split(&bytes, ByteOrder::Little)?;
//! assert_eq!(format.time_of(&raw), Some(1234));
//! assert_eq!(raw.decode(&format)?, record);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod branch;
mod callchain;
mod data_src;
mod decoded;
mod format;
mod header;
mod kernel;
mod sample;
mod sample_id;
mod task;
mod values;

pub use branch::{BranchEntry, BranchFlags, BranchNewType, BranchPriv, BranchSpec, BranchStack, BranchType};
pub use callchain::{Callchain, CallchainContext, CallchainPart};
pub use data_src::{
    DataSrc, MemBlk, MemHops, MemLock, MemLvl, MemLvlNum, MemOp, MemRegion, MemSnoop, MemSnoopX, MemTlb,
};
pub use decoded::{Decoded, Record};
pub use format::RecordFormat;
pub use header::{CpuMode, Header, Misc, RawRecord, RecordError, RecordType, Records};
pub use kernel::{
    Aux, BpfEvent, BpfEventType, CallchainDeferred, Cgroup, Ksymbol, KsymbolFlags, KsymbolType, Lost, Read,
    TextPoke, Throttle,
};
pub use sample::Sample;
pub use sample_id::{Cpu, SampleId, Tid};
pub use task::{BuildId, Comm, Mmap, Mmap2, MmapFile, Namespace, NamespaceLink, Namespaces, Task};
pub use values::{Raw, Regs, RegsAbi, UserStack, Weight};
