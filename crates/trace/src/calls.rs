//! System calls: which there are, what their arguments mean, and calls made of entries and exits.

mod address;
mod codes;
mod decode;
mod descriptors;
pub(crate) mod in_kernel;
mod join;
mod line;
mod raw;
mod record;
mod sums;
mod table;
mod wanted;

pub use address::{LONGEST_ADDRESS, LONGEST_TEXT, socket_address};
pub use decode::write_arguments;
pub use descriptors::{Descriptors, Look, Looked};
pub use in_kernel::{CallQuestion, CallTexts, Element, Entries, InKernel, Key, NoRoom, Rows, Whose, Width};
pub use join::{Call, Joiner, Moment};
pub use line::RETURNED;
pub use raw::{RawCall, RawCalls};
pub use record::{CALL_FIELDS, CallRecord, call_schema};
pub use sums::{CallRow, CallSums};
pub use table::{Argument, CallSet, Calls, Spec, UnknownCall};
pub use wanted::{Wanted, WantedError};
