//! The formats of tracepoints: a file within the file, made by and for the tools of ftrace.
//!
//! It has its own magic, states the byte order and word size of the recorded machine, and then holds
//! copies of files of tracefs, each after its length. The texts are not taken apart here.

use crate::layout::{FileCodec, FileLayout, Surroundings, bytes32, bytes64, items};
use perfuse_abi::ByteOrder;
use perfuse_abi::wire::Reader;

/// The recorded machine's tracepoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingData<'a> {
    /// Such as `0.6`.
    pub version: &'a [u8],
    /// Byte order of the recorded machine.
    pub is_big_endian: bool,
    /// Bytes of a C `long` there.
    pub long_size: u8,
    /// Bytes of a page there.
    pub page_size: u32,
    /// `events/header_page`
    pub header_page: &'a [u8],
    /// `events/header_event`
    pub header_event: &'a [u8],
    /// Formats of ftrace's own events.
    pub ftrace_formats: Vec<&'a [u8]>,
    /// Formats of the other events, by system.
    pub systems: Vec<System<'a>>,
    /// `/proc/kallsyms`; perf leaves it out.
    pub kallsyms: &'a [u8],
    /// `printk_formats`
    pub printk_formats: &'a [u8],
    /// `saved_cmdlines`, since version 0.6.
    pub saved_cmdlines: Option<&'a [u8]>,
}

impl Default for TracingData<'_> {
    /// Nothing of this machine.
    fn default() -> Self {
        TracingData {
            version: b"0.6",
            is_big_endian: cfg!(target_endian = "big"),
            long_size: size_of::<usize>() as u8,
            page_size: 4096,
            header_page: &[],
            header_event: &[],
            ftrace_formats: Vec::new(),
            systems: Vec::new(),
            kallsyms: &[],
            printk_formats: &[],
            saved_cmdlines: None,
        }
    }
}

/// A system of tracepoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System<'a> {
    /// Such as `sched`.
    pub name: &'a [u8],
    /// The `format` file of each event that was recorded.
    pub formats: Vec<&'a [u8]>,
}

const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

impl<'a> TracingData<'a> {
    /// The byte order of the recorded machine.
    pub fn order(&self) -> ByteOrder {
        if self.is_big_endian { ByteOrder::Big } else { ByteOrder::Little }
    }

    /// The byte order that a blob states.
    pub(super) fn order_of(bytes: &'a [u8]) -> Option<ByteOrder> {
        let mut data = TracingData::default();
        data.prelude(&mut Reader::new(bytes, ByteOrder::Little)).ok()?;
        Some(data.order())
    }

    /// Reads or writes the fields that have no byte order.
    fn prelude<C: FileCodec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        let mut magic = *MAGIC;
        c.fixed("magic", &mut magic)?;
        expect(c, &magic == MAGIC, "magic of tracing data")?;
        c.c_string("version", &mut self.version)?;
        let mut big = u8::from(self.is_big_endian);
        c.u8("byte order", &mut big)?;
        expect(c, big < 2, "byte order")?;
        self.is_big_endian = big == 1;
        c.u8("size of a long", &mut self.long_size)
    }

    fn files<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        c.u32("page size", &mut self.page_size)?;
        label(c, b"header_page", "header_page")?;
        bytes64(c, "header_page", &mut self.header_page)?;
        label(c, b"header_event", "header_event")?;
        bytes64(c, "header_event", &mut self.header_event)?;
        let mut count = self.ftrace_formats.len() as u32;
        c.u32("number of ftrace formats", &mut count)?;
        items(c, count.into(), &mut self.ftrace_formats, |c, v| bytes64(c, "ftrace format", v))?;
        let mut count = self.systems.len() as u32;
        c.u32("number of systems", &mut count)?;
        items(c, count.into(), &mut self.systems, |c, system| {
            c.c_string("name of a system", &mut system.name)?;
            let mut count = system.formats.len() as u32;
            c.u32("number of formats", &mut count)?;
            items(c, count.into(), &mut system.formats, |c, v| bytes64(c, "format", v))
        })?;
        bytes32(c, "kallsyms", &mut self.kallsyms)?;
        bytes32(c, "printk formats", &mut self.printk_formats)?;
        let has_cmdlines = around.has(c, 8, self.saved_cmdlines.is_some()) && self.version >= &b"0.6"[..];
        c.optional(has_cmdlines, "saved_cmdlines", &mut self.saved_cmdlines, |c, v| {
            bytes64(c, "saved_cmdlines", v)
        })
    }
}

/// A name that stands for itself.
fn label<'a, C: FileCodec<'a>>(c: &mut C, name: &'static [u8], what: &'static str) -> Result<(), C::Error> {
    let mut found = name;
    c.c_string(what, &mut found)?;
    expect(c, found == name, what)
}

/// Codecs know one error, missing bytes: what should be there and is not is as many as there cannot be.
fn expect<'a, C: FileCodec<'a>>(c: &mut C, is_there: bool, what: &'static str) -> Result<(), C::Error> {
    if is_there { Ok(()) } else { c.bytes(what, u64::MAX, &mut { &[][..] }) }
}

impl<'a> FileLayout<'a> for TracingData<'a> {
    /// The codec must have the [`order`](TracingData::order) of the blob.
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, around: &Surroundings) -> Result<(), C::Error> {
        self.prelude(c)?;
        self.files(c, around)
    }
}
