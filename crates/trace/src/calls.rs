//! System calls: which there are, what their arguments mean, and calls made of entries and exits.

mod address;
mod codes;
mod decode;
pub(crate) mod in_kernel;
mod join;
mod raw;
mod record;
mod sums;
mod table;

pub use address::socket_address;
pub use decode::write_arguments;
pub use in_kernel::{CallQuestion, CallTexts, Element, Entries, InKernel, Key, NoRoom, Rows, Whose, Width};
pub use join::{Call, Joiner, Moment};
pub use raw::{RawCall, RawCalls};
pub use record::{CALL_FIELDS, CallRecord, call_schema};
pub use sums::{CallRow, CallSums};
pub use table::{Argument, CallSet, Calls, Spec, UnknownCall};
