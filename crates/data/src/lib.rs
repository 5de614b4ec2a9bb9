//! perf.data, read and written.
//!
//! A recording is a sequence of records: those of the kernel, which [`perfuse_abi::record`] takes apart, and
//! those of the tool ([`tool`]). Beside them stand the events ([`Events`]) and sections about the machine
//! and the recording ([`feature`]). [`PerfData`] opens one in any of its forms and delivers the records in
//! the order of the file; [`Ordered`] delivers them by time.
//!
//! [`replay::Replay`] goes through a recording with what was running ([`session::Session`]); [`Writer`] makes one.
//!
//! Every layout that is not the kernel's is written down once, as in [`perfuse_abi::wire`], and serves both
//! directions: [`feature::Section::encode`] and [`tool::ToolRecord::encode`] write what the reader reads.
//!
//! Reading is one sequential pass. It costs less than what is done with the records, and threads that share
//! this out, each with a reader of its own, do not end sooner: what they find has to be put together again.
#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod counts;
pub mod describe;
mod error;
mod events;
pub mod feature;
#[cfg(unix)]
mod fresh;
mod groups;
mod header;
mod input;
mod layout;
#[cfg(target_os = "linux")]
pub mod machine;
mod names;
mod options;
mod ordered;
mod part;
mod reader;
mod record;
#[cfg(unix)]
mod replaced;
pub mod replay;
pub mod rewrite;
pub mod session;
pub mod text;
pub mod tool;
#[cfg_attr(not(feature = "compress"), path = "unpack/without.rs")]
mod unpack;
mod writer;

pub use counts::RecordCounts;
pub use error::{Error, Location, Problem};
pub use events::{Event, Events};
#[cfg(unix)]
pub use fresh::{FreshFileError, fresh_file};
pub use groups::{EventGroup, Grouping};
pub use header::{FeatureSet, FileHeader, FileSection};
pub use layout::{AttrBytes, Str};
pub use options::ReadOptions;
pub use ordered::Ordered;
pub use reader::{Form, Payload, PerfData};
pub use record::FileRecord;
#[cfg(unix)]
pub use replaced::ReplacedFile;
pub use writer::{NewEvent, Writer};

/// The crate that the kernel's records are from.
pub use perfuse_abi as abi;

#[cfg(test)]
mod threads {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Error>();
        is_shared::<crate::Event>();
        is_shared::<crate::Events>();
        is_shared::<crate::session::Session>();
        is_shared::<crate::replay::Filter>();
        is_send::<crate::PerfData<'static>>();
        is_send::<crate::Ordered<'static>>();
        is_send::<crate::replay::Replay<'static>>();
        is_send::<crate::Writer<std::fs::File>>();
    }
}
