#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! [`Collector`] takes samples and makes a [`Profile`] for each event: the distinct stacks of [`Frames`] for each
//! combination of key values. [`Report`] goes through them and makes the entries; [`Chains`] makes the call
//! trees of entries; [`Names`] has their texts and their order.
#![forbid(unsafe_code)]

mod chains;
mod collect;
mod entries;
mod filter;
mod frames;
mod hash;
mod keys;
pub mod mem;
mod names;
mod places;
mod rows;
mod seen;
mod sorted;
mod stacks;
mod texts;

pub use chains::{Branch, Chains, Least, Order};
pub use collect::{Collector, Plan, Profile};
pub use entries::{Entry, Report};
pub use filter::Filter;
pub use frames::{Frame, FrameId, Frames, Located, Moment, level_of, made_code};
pub use hash::{Fast, FastMap};
pub use keys::{Column, Key};
pub use names::Names;
pub use places::NameTest;
pub use texts::Texts;
