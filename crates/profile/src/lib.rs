#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! [`Collector`] takes samples and makes a [`Profile`] for each event: a tree of [`Frames`] under each
//! combination of key values. [`Report`] sums the tree up and makes its entries; [`chains()`] is the call
//! tree of one; [`Names`] has their texts and their order.
#![forbid(unsafe_code)]

mod chains;
mod collect;
mod entries;
mod filter;
mod frames;
mod hash;
mod keys;
mod names;
mod sorted;
mod tree;

pub use chains::{Branch, Least, Order, chains};
pub use collect::{Collector, Plan, Profile};
pub use entries::{Entry, Report};
pub use filter::Filter;
pub use frames::{Frame, FrameId, Frames, Located, Moment, made_code};
pub use hash::{Fast, FastMap};
pub use keys::{Column, Key};
pub use names::Names;
