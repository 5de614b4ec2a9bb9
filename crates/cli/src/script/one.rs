//! A sample with all that its line is made of.

use perfuse_abi::record::{Decoded, Sample};
use perfuse_data::Event;
use perfuse_data::describe::Fields;
use perfuse_data::replay::Formats;
use perfuse_data::session::Session;

/// A sample, and what it is one of.
pub(super) struct One<'a> {
    pub(super) event: &'a Event,
    pub(super) fields: &'a Fields,
    pub(super) period: u64,
    pub(super) decoded: &'a Decoded<'a>,
    pub(super) sample: &'a Sample<'a>,
    pub(super) session: &'a Session,
    pub(super) formats: &'a Formats,
}
