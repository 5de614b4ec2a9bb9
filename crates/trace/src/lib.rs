//! Records of tracepoints and system calls: what they say, which of them count, and what they come to.
//!
//! ```
//! use perfuse_trace::{Expr, Format, NoExtras, Record as _, RawRecord, Schema};
//! use perfuse_trace::abi::ByteOrder;
//!
//! let format = Format::parse(
//!     "name: sys_enter\nID: 7\n\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\nprint fmt: \"NR %ld\", REC->id\n",
//! ).expect("a format");
//! let expr: Expr = "id in {0, 17..19} && id != 18".parse()?;
//! let filter = expr.bind(&Schema::of(&format))?;
//! let mut data = [0; 16];
//! data[8] = 17;
//! assert!(filter.admits(&RawRecord::new(&data, ByteOrder::Little)));
//! data[8] = 18;
//! assert!(!filter.admits(&RawRecord::new(&data, ByteOrder::Little)));
//! # Ok::<(), perfuse_trace::ExprError>(())
//! ```
//!
//! [`format`](Format) takes formats of tracepoints apart and prints records by them; [`expr`](Expr) is the one language of
//! filters, a superset of the one that ftrace has. [`Joiner`] makes system calls of entries and exits, [`Calls`] knows their names and
//! arguments, [`Question`] and [`Groups`] sum records up by keys. [`CallSums`] are the sums of calls, [`InKernel`] the programs by which
//! the kernel makes them itself. [`OffCpu`] are those that sum up sleep, [`Fold`] those that make one sample of many.
#![forbid(unsafe_code)]

mod calls;
mod errno;
mod expr;
mod fold;
mod format;
mod off_cpu;
mod sums;

pub use calls::{
    Argument, CALL_FIELDS, Call, CallQuestion, CallRecord, CallRow, CallSet, CallSums, CallTexts, Calls,
    Descriptors, Element, Entries, InKernel, Joiner, Key, LONGEST_ADDRESS, LONGEST_TEXT, Look, Looked,
    Moment, NoRoom, RETURNED, RawCall, RawCalls, Rows, Spec, UnknownCall, Wanted, WantedError, Whose, Width,
    call_schema, socket_address, write_arguments,
};
pub use errno::{errno_name, errno_remark};
pub use expr::{
    Bound, BoundValue, Expr, ExprError, Extra, KernelPart, Kind, NoExtras, RawRecord, Record, Schema, Value,
};
pub use fold::{Fold, FoldedRow};
pub use format::{Field, FieldKind, Filling, Format, Names, NoNames};
pub use off_cpu::{OffCpu, OffCpuRow};
pub use perfuse_abi as abi;
pub use sums::{Asked, Distribution, Groups, Question, Statistic};

#[cfg(test)]
mod threads {
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn the_main_types_go_from_thread_to_thread() {
        is_shared::<crate::Format>();
        is_shared::<crate::Expr>();
        is_shared::<crate::Bound>();
    }
}
