//! In place of `unpack.rs` in a build without the feature `compress`: no decoder. Such a build delivers
//! compressed records as they are, if asked to, and cannot read what is in them.

use crate::error::Problem;
use crate::input::Buffer;

/// There is no decoder, and no value of this type.
pub(crate) enum Unpacker {}

impl Unpacker {
    pub(crate) fn new() -> Result<Self, Problem> {
        Err(Problem::NotBuilt { feature: "compress" })
    }

    pub(crate) fn feed(&mut self, _: &[u8]) {
        match *self {}
    }

    pub(crate) fn output(&self) -> &Buffer {
        match *self {}
    }

    pub(crate) fn output_mut(&mut self) -> &mut Buffer {
        match *self {}
    }

    pub(crate) fn is_open(&self) -> bool {
        match *self {}
    }

    pub(crate) fn step(&mut self) -> Result<bool, Problem> {
        match *self {}
    }
}
