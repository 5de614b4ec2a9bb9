//! An attr in memory.

#![allow(dead_code, reason = "each test file uses a part")]

use perfuse_engine::abi::wire::{Layout, Writer};
use perfuse_engine::abi::{Attr, ByteOrder};
use std::fmt;

/// As long as its size field says, at least.
pub(crate) fn image(attr: &Attr) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut attr = *attr;
    attr.layout(&mut Writer::new(&mut bytes, ByteOrder::NATIVE)).expect("room");
    let size = if attr.size == 0 { 64 } else { attr.size as usize };
    bytes.resize(size.max(bytes.len()), 0);
    bytes
}

/// The bytes of an attr; printed as what they say.
#[derive(Clone)]
pub(crate) struct AttrBytes(pub(crate) Vec<u8>);

impl fmt::Debug for AttrBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Attr::decode(&self.0, ByteOrder::NATIVE) {
            Ok(wire) => write!(f, "{}", wire.attr),
            Err(error) => write!(f, "{error}"),
        }
    }
}
