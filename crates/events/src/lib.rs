//! The event language: what people write after `-e`, parsed into plain data.
//!
//! ```
//! use perfuse_events::{EventList, NoCatalogue};
//!
//! let list: EventList = "task-clock, {cycles,instructions:k}:u".parse()?;
//! let sets = list.resolve(&NoCatalogue)?;
//! assert_eq!(sets[1].events[1].name, "instructions:k");
//! assert!(sets[1].events[0].exclude.kernel && !sets[1].events[1].exclude.kernel);
//!
//! let mut attr = perfuse_events::abi::Attr::default();
//! sets[1].events[0].apply(&mut attr);
//! assert!(attr.flags.contains(perfuse_events::abi::AttrFlags::EXCLUDE_KERNEL));
//! # Ok::<(), perfuse_events::EventError>(())
//! ```
//!
//! Three steps, each a module: the lexer finds words and their columns, the parser makes a tree
//! ([`EventList`]) that prints back to what was read, and [`EventList::resolve`] turns the tree into
//! [`EventSpec`]s, asking a [`Catalogue`] about the machine that is to be measured. Nothing but the
//! catalogues of the running machine (feature `std`) touches that machine.
//!
//! Metrics, which are made of several events, are [`Expression`]s; with the feature `tables`, events and
//! metrics come from the JSON files that vendors publish for the kernel's `tools/perf/pmu-events`.
//!
//! # What is accepted
//!
//! ```text
//! list      := item (',' item)*
//! item      := [NAME] '{' event (',' event)* '}' [':' MODIFIERS]  |  event
//! event     := what ['/' terms '/'] [':' MODIFIERS]
//! what      := NAME | CACHE | 'r' HEX | TYPE ':' CONFIG | SYSTEM ':' TRACEPOINT | PMU '/' terms '/'
//!            | 'mem:' ADDRESS ['/' LENGTH] [':' letters of r w x]
//!            | 'uprobe:' PATH ':' SYMBOL ['+' OFFSET] ['%return'] | 'uprobe:' PATH ':' (SOURCE | FUNCTION) ':' LINE
//!            | 'usdt:' PATH ':' PROVIDER ':' NAME
//!            | 'kprobe:' FUNCTION ['+' OFFSET] ['%return']
//! NAME      := a common event, or one that a PMU of the machine names
//! CACHE     := cache [-op] [-result], op and result in either order
//! terms     := [term (',' term)*]          term := KEY ['=' VALUE]
//! MODIFIERS := letters of u k h G H p P I S D e W b R X
//! ```
//!
//! White space around words is ignored. Names of hardware, software, tool and cache events are taken in
//! any case, as the newest `perf` does for its software events; tracepoints, modifiers and the `r` of a
//! raw event are not. A list that perf accepts and this crate does too means the same to both; perf
//! takes a second operation or result in a cache name and ignores it, which is an error here. Probes by
//! place are this crate's own.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod cache;
mod catalogue;
mod cgroups;
mod common;
mod error;
mod format;
mod lexer;
#[cfg(feature = "std")]
mod machine;
mod metric;
mod modifiers;
mod names;
mod nearest;
mod parser;
mod probe;
mod resolve;
mod spec;
#[cfg(feature = "std")]
mod sysfs;
#[cfg(feature = "tables")]
mod tables;
mod terms;
mod tree;

pub use catalogue::{Catalogue, NoCatalogue, Pmu, PmuEvent, Probe, Refusal, Scale, glob, is_pattern};
pub use cgroups::Cgroups;
pub use common::{Common, CommonKind, common_events};
pub use error::{EventError, Problem};
pub use format::{Config, Format};
#[cfg(feature = "tables")]
pub use machine::TableSource;
#[cfg(feature = "std")]
pub use machine::{Machine, OwnPmu, OwnTracepoints, ProbeFinder, TRACEFS, Tracefs, TracefsFinder};
pub use metric::{Context, Expression, ExpressionError, Function, Metric, Operator, scale_unit};
pub use modifiers::{Modifiers, ModifiersError};
pub use names::{Tool, known_names};
pub use nearest::nearest;
pub use perfuse_abi as abi;
pub use probe::ProbePlace;
pub use spec::{CallGraph, EventOptions, EventSet, EventSpec, Exclude, OnPmu, Precise, Source, Unit};
#[cfg(feature = "std")]
pub use sysfs::{Sysfs, cpu_list, parse_cpu_list};
#[cfg(feature = "tables")]
pub use tables::{MachineFacts, Processor, Tables, TablesError, cpuid_of_this_machine};
pub use tree::{Event, EventList, Group, Item, Span, Term, What};

#[cfg(test)]
mod threads {
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::EventList>();
        is_shared::<crate::EventSpec>();
        is_shared::<crate::EventError>();
        is_shared::<crate::Metric>();
    }
}
