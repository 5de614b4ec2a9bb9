//! The memory of a run: what pointers of a program are, and what each may touch. A pointer is a number whose high 16 bits name a
//! region (a stack, the context, a reservation, the values of a map) and whose rest is a place in it. Every access is looked up
//! and checked against the very object, whatever the verifier has proved: the host's memory has no number here.

use crate::insn::Size;
use crate::map::{MapId, Maps};
use alloc::boxed::Box;
use alloc::vec::Vec;

const REGION: u32 = 48;
const STACK: u64 = 1;
const CONTEXT: u64 = 2;
const RESERVATION: u64 = 3;
const MAP: u64 = 4;
const FUNCTION: u64 = 5;
const VALUES: u64 = 6;
/// Numbers of regions end where addresses of Linux's kernel begin.
const END: u64 = 0xfff0;

/// Bytes of a frame.
pub(crate) const FRAME: usize = 512;
/// Functions that call each other.
pub(crate) const FRAMES: usize = 8;
/// A frame's region: its bytes end in the middle.
const FRAME_SHIFT: u32 = 11;
const FRAME_TOP: u64 = 1024;
/// A reservation's region.
const RESERVATION_SHIFT: u32 = 31;

/// `r10` in a frame.
pub(crate) fn frame_pointer(frame: usize) -> u64 {
    STACK << REGION | (frame as u64) << FRAME_SHIFT | FRAME_TOP
}

/// `r1` at the beginning.
pub(crate) const CONTEXT_POINTER: u64 = CONTEXT << REGION;

/// A map as an argument of helpers.
pub(crate) fn map_pointer(map: MapId) -> u64 {
    MAP << REGION | u64::from(map.0)
}

/// The map of such an argument.
pub(crate) fn map_of(pointer: u64) -> Option<MapId> {
    (pointer >> REGION == MAP).then_some(MapId(pointer as u32))
}

/// A function as an argument of helpers.
pub(crate) fn function_pointer(slot: usize) -> u64 {
    FUNCTION << REGION | slot as u64
}

/// The function of such an argument.
pub(crate) fn function_of(pointer: u64) -> Option<usize> {
    (pointer >> REGION == FUNCTION).then_some(pointer as u32 as usize)
}

/// Whether a number is a pointer of a run, not an address of the machine.
pub(crate) fn is_own(pointer: u64) -> bool {
    (STACK..END).contains(&(pointer >> REGION))
}

/// Memory of a ring buffer while it is written.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) ring: MapId,
    /// Where in the ring.
    pub(crate) at: u64,
    pub(crate) bytes: Box<[u8]>,
    pub(crate) open: bool,
}

/// All that a run can touch.
#[derive(Debug)]
pub(crate) struct Memory<'a> {
    pub(crate) stack: Box<[u8; FRAME * FRAMES]>,
    pub(crate) context: &'a mut [u8],
    pub(crate) reservations: Vec<Reservation>,
    pub(crate) maps: &'a mut Maps,
}

impl Memory<'_> {
    /// Zeroes a frame.
    pub(crate) fn clear(&mut self, frame: usize) {
        self.stack[frame * FRAME..][..FRAME].fill(0);
    }

    /// The pointer to a value.
    pub(crate) fn value_pointer(&self, map: MapId, cell: u64) -> Option<u64> {
        let shift = self.maps.get(map).ok()?.shift();
        Some((VALUES + u64::from(map.0)) << REGION | cell << shift)
    }

    /// Keeps a reservation; its pointer.
    pub(crate) fn reserve(&mut self, reservation: Reservation) -> u64 {
        self.reservations.push(reservation);
        RESERVATION << REGION | (self.reservations.len() as u64 - 1) << RESERVATION_SHIFT
    }

    /// The open reservation that begins here.
    pub(crate) fn reservation(&mut self, pointer: u64) -> Option<&mut Reservation> {
        let begins = pointer >> REGION == RESERVATION && pointer & ((1 << RESERVATION_SHIFT) - 1) == 0;
        let index = (pointer & ((1 << REGION) - 1)) >> RESERVATION_SHIFT;
        let reservation = self.reservations.get_mut(usize::try_from(index).ok()?);
        reservation.filter(|reservation| begins && reservation.open)
    }

    /// The bytes of a pointer, to read.
    #[inline]
    pub(crate) fn bytes(&self, pointer: u64, len: usize) -> Option<&[u8]> {
        let place = pointer & ((1 << REGION) - 1);
        match pointer >> REGION {
            STACK => self.stack.get(stack_place(place, len)?..)?.get(..len),
            CONTEXT => self.context.get(usize::try_from(place).ok()?..)?.get(..len),
            RESERVATION => {
                let reservation = self.reservations.get((place >> RESERVATION_SHIFT) as usize)?;
                let at = place & ((1 << RESERVATION_SHIFT) - 1);
                reservation.bytes.get(at as usize..)?.get(..len).filter(|_| reservation.open)
            }
            region @ VALUES..END => {
                let map = self.maps.get(MapId((region - VALUES) as u32)).ok()?;
                let (cell, at) = (place >> map.shift(), place & ((1 << map.shift()) - 1));
                map.cell_value(cell)?.get(at as usize..)?.get(..len)
            }
            _ => None,
        }
    }

    /// The bytes of a pointer, to write.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, pointer: u64, len: usize) -> Option<&mut [u8]> {
        let place = pointer & ((1 << REGION) - 1);
        match pointer >> REGION {
            STACK => self.stack.get_mut(stack_place(place, len)?..)?.get_mut(..len),
            CONTEXT => self.context.get_mut(usize::try_from(place).ok()?..)?.get_mut(..len),
            RESERVATION => {
                let reservation = self.reservations.get_mut((place >> RESERVATION_SHIFT) as usize)?;
                let at = place & ((1 << RESERVATION_SHIFT) - 1);
                let open = reservation.open;
                reservation.bytes.get_mut(at as usize..)?.get_mut(..len).filter(|_| open)
            }
            region @ VALUES..END => {
                let map = self.maps.get_mut(MapId((region - VALUES) as u32)).ok()?;
                let (cell, at) = (place >> map.shift(), place & ((1 << map.shift()) - 1));
                if !map.is_writable_by_programs() {
                    return None;
                }
                map.cell_value_mut(cell)?.get_mut(at as usize..)?.get_mut(..len)
            }
            _ => None,
        }
    }

    /// Loads a number.
    #[inline(always)]
    pub(crate) fn load(&self, pointer: u64, size: Size) -> Option<u64> {
        let bytes = self.bytes(pointer, size.bytes() as usize)?;
        Some(match size {
            Size::B1 => u64::from(*bytes.first()?),
            Size::B2 => u64::from(u16::from_ne_bytes(*bytes.first_chunk()?)),
            Size::B4 => u64::from(u32::from_ne_bytes(*bytes.first_chunk()?)),
            Size::B8 => u64::from_ne_bytes(*bytes.first_chunk()?),
        })
    }

    /// Stores the low bytes of a number.
    #[inline(always)]
    pub(crate) fn store(&mut self, pointer: u64, size: Size, value: u64) -> Option<()> {
        let bytes = self.bytes_mut(pointer, size.bytes() as usize)?;
        match size {
            Size::B1 => *bytes.first_mut()? = value as u8,
            Size::B2 => *bytes.first_chunk_mut()? = (value as u16).to_ne_bytes(),
            Size::B4 => *bytes.first_chunk_mut()? = (value as u32).to_ne_bytes(),
            Size::B8 => *bytes.first_chunk_mut()? = value.to_ne_bytes(),
        }
        Some(())
    }
}

/// Where bytes of a frame lie among those of all.
#[inline]
fn stack_place(place: u64, len: usize) -> Option<usize> {
    let (frame, at) = (place >> FRAME_SHIFT, place & ((1 << FRAME_SHIFT) - 1));
    let at = at.checked_sub(FRAME_TOP - FRAME as u64)? as usize;
    (frame < FRAMES as u64 && at + len <= FRAME).then_some(frame as usize * FRAME + at)
}
