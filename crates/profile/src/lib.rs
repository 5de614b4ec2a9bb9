#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! [`Collector`] takes samples and makes a [`Profile`]: tables of locations, stacks, keys and samples, which know no names
//! and need nothing else. [`Reading`] does it for the steps of a replay. [`Symbols`] tell functions at locations, and
//! [`Names`] asks them when they are wanted. [`Frames`] are locations by function or address; a [`View`] makes entries of
//! them, with [`Trees`] of their callchains.
#![forbid(unsafe_code)]

mod admitted;
mod collect;
mod hash;
mod index;
mod kept;
mod keys;
mod locate;
mod lookup;
pub mod mem;
mod names;
mod origin;
mod profile;
mod reading;
mod running;
mod save;
mod seal;
mod source;
mod source_files;
mod spread;
mod strings;
mod supplement;
mod tables;
mod tracepoints;
mod view;
mod workers;

pub use perfuse_data::session::Level;
pub use perfuse_symbols as symbols;

pub use admitted::Admitted;
pub use collect::{Collector, Plan, Taken, TaskFilter};
pub use hash::{Fast, FastMap, FastState};
pub use kept::KeptProfile;
pub use keys::{Column, Key};
pub use locate::{ThreadTime, level_of, made_code};
pub use lookup::{InlinedFunction, Lookup, Placed};
pub use names::{FunctionAt, NamedFunction, Names};
pub use origin::Origin;
pub use profile::{MergeError, Profile};
pub use reading::{Mode, Reading};
pub use running::Running;
pub use save::LoadError;
pub use seal::{SealOptions, SealedRecording, seal};
pub use source::{Function, LocalSymbols, ObjectRef, Symbols, TimedAddress};
pub use source_files::{SourceText, Sources, source_name};
pub use strings::StringId;
pub use supplement::LocalFiles;
pub use tables::{
    ChainStart, EventSum, Location, LocationId, Object, ObjectId, ObjectKind, SampleRow, SampleTime, StackId,
    Thread,
};
pub use tracepoints::{FieldKey, TracepointTexts, field_keys};
pub use workers::in_order;

pub use view::{
    Branch, Changed, Entry, Filter, Frame, FrameId, Frames, Hierarchy, HotFunction, JoinedRow, Least,
    NameTest, Neighbours, Node, Order, PlaceSum, Trees, View, ViewPlan, difference, join,
};

#[cfg(test)]
mod threads {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Plan>();
        is_shared::<crate::Collector>();
        is_shared::<crate::Profile>();
        is_shared::<crate::Names<'static>>();
        is_shared::<crate::Frames>();
        is_shared::<crate::View<'static>>();
        is_shared::<crate::Trees<'static>>();
        is_shared::<crate::ViewPlan>();
        is_shared::<crate::Filter>();
        is_shared::<crate::LocalSymbols>();
        is_shared::<crate::MergeError>();
        is_shared::<crate::LoadError>();
        is_send::<crate::Reading>();
    }
}
