//! The contract between Linux's perf_event subsystem and its users, and nothing else.
//!
//! Everything that crosses the border of `perf_event_open(2)` is described here **once**, and both
//! encoded and decoded from that one description: the event attribute in every published size
//! ([`Attr`]), the flag sets and enumerations of `<linux/perf_event.h>`, the records of the ring
//! buffer and of `perf.data` ([`record`]), the layouts of `read(2)` ([`read`]), the control page of
//! `mmap(2)` ([`page`]) and the ioctl numbers ([`ioctl`]).
//!
//! The crate is `no_std`, has no `unsafe`, performs no system call, and treats both byte orders alike:
//! it is as useful on a Mac that reads a file from a big-endian router as in a kernel. Additions of a
//! newer kernel survive a round trip: unknown bits, unknown records and longer attributes are kept as
//! they are. Bytes are untrusted: decoding never panics and never looks beyond them.
//!
//! How a layout is written down is described in [`wire`]. Rules that are cited by a letter and a number,
//! such as H15, are those of the project's `docs/semantics`.
//!
//! ```
//! use perfuse_abi::{Attr, EventType, Software};
//!
//! let attr = Attr { config: Software::PAGE_FAULTS.0, ..Attr::new(EventType::SOFTWARE) };
//! assert_eq!(attr.to_string(), "type: 1 (PERF_TYPE_SOFTWARE), size: 144, config: 0x2 (PERF_COUNT_SW_PAGE_FAULTS)");
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod attr;
mod errno;
mod event;
mod flags;
pub mod ioctl;
mod order;
pub mod page;
mod poll;
pub mod read;
pub mod record;
pub mod regs;
mod release;
pub mod wire;

pub use attr::{Attr, AttrError, Field, FieldKind, Requirement, WireAttr};
pub use errno::Errno;
pub use event::{Breakpoint, Cache, CacheEvent, CacheOp, CacheResult, EventType, Hardware, Software};
pub use flags::{
    AttrFlags, AuxAction, AuxFlags, BranchSampleType, IocFlags, OpenFlags, ReadFormat, SampleType, Txn,
};
pub use order::ByteOrder;
pub use poll::PollFlags;
pub use release::{Release, Since};

#[cfg(test)]
mod threads {
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Attr>();
        is_shared::<crate::attr::AttrError>();
        is_shared::<crate::record::Record<'static>>();
        is_shared::<crate::record::Sample<'static>>();
        is_shared::<crate::record::RecordError>();
        is_shared::<crate::read::ReadValues<'static>>();
        is_shared::<crate::page::UserCount>();
    }
}
