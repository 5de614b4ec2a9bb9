#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! [`Stacks`] has the functions and callchains of a profile with their names, in a fixed order. Each format is a module that
//! writes them; [`Tree`] is what some of them are drawn from.
#![forbid(unsafe_code)]

#[cfg(feature = "branches")]
mod branches;
#[cfg(feature = "chrome")]
mod chrome;
#[cfg(feature = "firefox")]
mod firefox;
#[cfg(feature = "flamegraph")]
mod flamegraph;
#[cfg(feature = "folded")]
mod folded;
mod format;
#[cfg(feature = "import")]
mod import;
mod json;
mod looks;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "pprof")]
mod pprof;
#[cfg(any(feature = "import", feature = "otlp", feature = "pprof"))]
mod protobuf;
#[cfg(feature = "script")]
pub mod script;
#[cfg(feature = "speedscope")]
mod speedscope;
mod stacks;
mod strings;
#[cfg(feature = "table")]
mod table;
mod tree;

#[cfg(feature = "branches")]
pub use branches::{BranchFormat, Branches, BranchesWritten};
#[cfg(feature = "folded")]
pub use folded::FoldedError;
#[cfg(any(feature = "import", feature = "pprof"))]
pub use format::packed;
pub use format::{Format, WritePlan, write, write_by};
#[cfg(feature = "import")]
pub use import::{Begun, Import, ImportError, ImportFormat, ImportedNames, Started, import_or_begun};
pub use json::Quoted;
pub use looks::{Colour, is_kernel, visible};
pub use stacks::{EventInfo, Function, Row, Stacks, StacksBuilder, Unit};
pub use strings::Strings;
pub use tree::{Node, Tree};

#[cfg(test)]
mod threads {
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Stacks>();
        is_shared::<crate::StacksBuilder>();
        is_shared::<crate::Tree>();
        is_shared::<crate::Format>();
    }
}
