//! An attr on the wire: in any size, in either byte order.

use super::{Attr, Field};
use crate::flags::{AttrFlags, AuxAction};
use crate::order::ByteOrder;
use crate::wire::{Codec, Layout, Reader, Short, Sink, SliceSink, Writer};
use core::fmt;

impl Attr {
    /// Reads an attr of any size from the start of `bytes`. The attr's own `size` field tells how far it
    /// goes (0 means [`SIZE_VER0`](Self::SIZE_VER0), rule A2); fields beyond that are zero, and what lies
    /// beyond this crate's knowledge is the [`tail`](WireAttr::tail).
    pub fn decode(bytes: &[u8], order: ByteOrder) -> Result<WireAttr<'_>, AttrError> {
        let needed = Self::SIZE_VER0 as usize;
        if bytes.len() < needed {
            return Err(Short { what: "perf_event_attr", offset: 0, needed, available: bytes.len() }.into());
        }
        let mut attr = Attr::peek(bytes, order);
        let size = if attr.size == 0 { needed } else { attr.size as usize };
        if size < needed || size > Self::SIZE_MAX as usize {
            return Err(AttrError::Size { size: attr.size });
        }
        let Some(own) = bytes.get(..size) else {
            return Err(
                Short { what: "perf_event_attr", offset: 0, needed: size, available: bytes.len() }.into()
            );
        };
        // The bytes behind the attr belong to somebody else.
        if size < bytes.len() {
            attr = Attr::peek(own, order);
        }
        Ok(WireAttr { attr, tail: own.get(Self::SIZE_VER9 as usize..).unwrap_or(&[]) })
    }

    /// The fields of an attr that stand in `bytes`, whether or not these are a whole one: fields and parts of fields that
    /// are not there are zero, and `size` is the number that stands there. For those who pass an attr on to a
    /// kernel, which is the one that judges it; everybody else decodes.
    pub fn peek(bytes: &[u8], order: ByteOrder) -> Self {
        let mut image = [0; Self::SIZE_VER9 as usize];
        let at_hand = bytes.len().min(image.len());
        image[..at_hand].copy_from_slice(&bytes[..at_hand]);
        let mut attr = Attr::default();
        attr.layout(&mut Reader::new(&image, order)).expect("the image is as large as the layout");
        attr
    }

    /// The other direction of [`peek`](Self::peek): writes the fields into `bytes`, as far as these reach.
    pub fn poke(&self, bytes: &mut [u8], order: ByteOrder) {
        let image = self.image(order);
        let len = bytes.len().min(image.len());
        bytes[..len].copy_from_slice(&image[..len]);
    }

    /// All 144 bytes of this attr.
    pub(super) fn image(&self, order: ByteOrder) -> [u8; Self::SIZE_VER9 as usize] {
        let mut image = [0; Self::SIZE_VER9 as usize];
        let mut copy = *self;
        let mut sink = SliceSink::new(&mut image);
        copy.layout(&mut Writer::new(&mut sink, order)).expect("the image is as large as the layout");
        image
    }
}

impl<'a> Layout<'a> for Attr {
    /// All 144 bytes of the newest size.
    fn layout<C: Codec<'a>>(&mut self, c: &mut C) -> Result<(), C::Error> {
        c.u32("type", &mut self.type_.0)?;
        c.u32("size", &mut self.size)?;
        c.u64("config", &mut self.config)?;
        c.u64("sample_period", &mut self.sample_period)?;
        c.flags64("sample_type", &mut self.sample_type)?;
        c.flags64("read_format", &mut self.read_format)?;
        let mut flags = self.flags.bits();
        c.bitfield("flags", &AttrFlags::WIDTHS, &mut flags)?;
        self.flags = AttrFlags::from_bits_retain(flags);
        c.u32("wakeup_events", &mut self.wakeup)?;
        c.u32("bp_type", &mut self.bp_type.0)?;
        c.u64("config1", &mut self.config1)?;
        c.u64("config2", &mut self.config2)?;
        c.flags64("branch_sample_type", &mut self.branch_sample_type)?;
        c.u64("sample_regs_user", &mut self.sample_regs_user)?;
        c.u32("sample_stack_user", &mut self.sample_stack_user)?;
        c.i32("clockid", &mut self.clockid)?;
        c.u64("sample_regs_intr", &mut self.sample_regs_intr)?;
        c.u32("aux_watermark", &mut self.aux_watermark)?;
        c.u16("sample_max_stack", &mut self.sample_max_stack)?;
        c.u16("reserved_2", &mut self.reserved_2)?;
        c.u32("aux_sample_size", &mut self.aux_sample_size)?;
        let mut action = self.aux_action.bits();
        c.bitfield32("aux_action", &AuxAction::WIDTHS, &mut action)?;
        self.aux_action = AuxAction::from_bits_retain(action);
        c.u64("sig_data", &mut self.sig_data)?;
        c.u64("config3", &mut self.config3)?;
        c.u64("config4", &mut self.config4)
    }
}

/// An attr as it stands in a file or in another program's memory: the part this crate knows, and what
/// a newer writer added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireAttr<'a> {
    /// The known part; its `size` is the size on the wire.
    pub attr: Attr,
    /// The bytes after the newest known field.
    pub tail: &'a [u8],
}

impl WireAttr<'_> {
    /// How many bytes the attr takes on the wire.
    pub fn len(&self) -> usize {
        if self.attr.size == 0 { Attr::SIZE_VER0 as usize } else { self.attr.size as usize }
    }

    /// Never: an attr has at least 64 bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes [`len`](Self::len) bytes. Fails rather than drop a field that is set but lies beyond
    /// `attr.size`; bytes of the size that neither the known fields nor the tail fill are zero.
    pub fn encode(&self, order: ByteOrder, sink: &mut impl Sink) -> Result<(), AttrError> {
        let size = self.len();
        if size < Attr::SIZE_VER0 as usize || size > Attr::SIZE_MAX as usize {
            return Err(AttrError::Size { size: self.attr.size });
        }
        let image = self.attr.image(order);
        // A size may cut a field in the middle (rule A6): only bytes that are set are missed.
        let dropped = (size..image.len()).find(|&byte| image[byte] != 0);
        if let Some(byte) = dropped {
            let holds = |field: &&Field| field.offset + field.kind.size() > byte;
            let field = Attr::FIELDS.iter().find(holds).map_or("", |field| field.name);
            return Err(AttrError::FieldBeyondSize { field, size: self.attr.size });
        }
        let room_for_tail = size.saturating_sub(image.len());
        if self.tail.len() > room_for_tail {
            return Err(AttrError::FieldBeyondSize { field: "tail", size: self.attr.size });
        }
        if sink.room() < size {
            let available = sink.room();
            return Err(Short { what: "perf_event_attr", offset: 0, needed: size, available }.into());
        }
        sink.put(&image[..size.min(image.len())]);
        sink.put(self.tail);
        (self.tail.len()..room_for_tail).for_each(|_| sink.put(&[0]));
        Ok(())
    }
}

/// Why bytes are not an attr, or an attr cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttrError {
    /// There are fewer bytes than the attr needs.
    Short(Short),
    /// The `size` field is below 64 or above a page.
    Size {
        /// The field's value.
        size: u32,
    },
    /// A field is set that lies beyond the `size` to be written.
    FieldBeyondSize {
        /// Its C name.
        field: &'static str,
        /// The size to be written.
        size: u32,
    },
}

impl From<Short> for AttrError {
    fn from(short: Short) -> Self {
        AttrError::Short(short)
    }
}

impl fmt::Display for AttrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttrError::Short(short) => short.fmt(f),
            AttrError::Size { size } => {
                write!(f, "perf_event_attr.size is {size}, outside {}..={}", Attr::SIZE_VER0, Attr::SIZE_MAX)
            }
            AttrError::FieldBeyondSize { field, size } => {
                write!(f, "perf_event_attr.{field} is set but lies beyond the attr's size of {size} bytes")
            }
        }
    }
}

impl core::error::Error for AttrError {}
