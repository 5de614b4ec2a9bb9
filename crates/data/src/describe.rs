//! A recording in words: its header ([`header`]), every record ([`dump`], [`write_record`]), and the names that depend
//! on the machine where it was made. The lines are those of `perf report --header` and `perf report -D`, byte for byte.

mod dump;
mod fields;
mod header;
mod record;
pub mod registers;
mod sample;
mod tool;

pub use dump::{DumpOptions, dump};
pub use fields::{AskedFields, Field, FieldNeed, Fields, NoSuchField};
pub use header::{HeaderOptions, attr_text, header};
pub use record::write_record;
pub use sample::page_size;

use crate::PerfData;
use crate::feature::{Feature, FeatureId};
use crate::tool::kind;
use perfuse_abi::record::RecordType;

/// The machine where a recording was made, as `uname -m` calls it; this one's, if the recording does not tell.
pub fn machine(data: &mut PerfData<'_>) -> String {
    match data.feature(FeatureId::ARCH).ok().flatten().map(|section| section.feature) {
        Some(Feature::Arch(name)) => name.to_string(),
        _ => std::env::consts::ARCH.to_owned(),
    }
}

/// The name of a kind of records, without what all have in front; its number, if it has no name.
pub fn kind_name(of: RecordType) -> String {
    match of.header_name().or_else(|| kind::name(of)) {
        Some(name) => name.trim_start_matches("PERF_RECORD_").trim_start_matches("HEADER_").to_owned(),
        None => of.0.to_string(),
    }
}

/// The name of a kind of record, if it has one.
fn known_name(kind: RecordType) -> String {
    match kind_name(kind) {
        name if name.starts_with(|first: char| first.is_ascii_digit()) => "UNKNOWN".to_owned(),
        name => name,
    }
}
