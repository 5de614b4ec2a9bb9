//! Types as BTF tells them: those that programs were compiled with, and the kernel's, which it shows as `/sys/kernel/btf/vmlinux`. The
//! format is that of `Documentation/bpf/btf.rst` of Linux.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use perfuse_abi::ByteOrder;

/// Names, modifiers and arrays of one type are followed so far.
pub(crate) const DEEPEST: u32 = 32;
/// Longer names are cut, as many may lie over each other. Linux knows none longer than 512 bytes.
const LONGEST_NAME: usize = 4096;
const HEADER: usize = 24;
const MAGIC: u16 = 0xeb9f;

/// `BTF_KIND_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the header")]
pub enum Kind {
    Int,
    Ptr,
    Array,
    Struct,
    Union,
    Enum,
    Fwd,
    Typedef,
    Volatile,
    Const,
    Restrict,
    Func,
    FuncProto,
    Var,
    DataSec,
    Float,
    DeclTag,
    TypeTag,
    Enum64,
}

/// By number, from 1 on.
const KINDS: [Kind; 19] = [
    Kind::Int,
    Kind::Ptr,
    Kind::Array,
    Kind::Struct,
    Kind::Union,
    Kind::Enum,
    Kind::Fwd,
    Kind::Typedef,
    Kind::Volatile,
    Kind::Const,
    Kind::Restrict,
    Kind::Func,
    Kind::FuncProto,
    Kind::Var,
    Kind::DataSec,
    Kind::Float,
    Kind::DeclTag,
    Kind::TypeTag,
    Kind::Enum64,
];

impl Kind {
    fn of_number(number: u32) -> Option<Kind> {
        KINDS.get((number as usize).checked_sub(1)?).copied()
    }

    /// Bytes behind the twelve that all types have.
    fn bytes_behind(self, count: u32) -> u32 {
        match self {
            Kind::Int | Kind::Var | Kind::DeclTag => 4,
            Kind::Array => 12,
            Kind::Struct | Kind::Union | Kind::DataSec | Kind::Enum64 => 12 * count,
            Kind::Enum | Kind::FuncProto => 8 * count,
            _ => 0,
        }
    }

    /// Whether its third word is the number of another type.
    fn refers(self) -> bool {
        !matches!(
            self,
            Kind::Int
                | Kind::Array
                | Kind::Struct
                | Kind::Union
                | Kind::Enum
                | Kind::Fwd
                | Kind::DataSec
                | Kind::Float
                | Kind::Enum64
        )
    }

    /// A struct or a union.
    pub fn has_members(self) -> bool {
        matches!(self, Kind::Struct | Kind::Union)
    }

    /// Numbers with names, of 32 or 64 bits.
    pub fn is_enum(self) -> bool {
        matches!(self, Kind::Enum | Kind::Enum64)
    }

    /// It says something about a type, or gives it another name.
    fn is_around(self) -> bool {
        matches!(self, Kind::Typedef | Kind::Volatile | Kind::Const | Kind::Restrict | Kind::TypeTag)
    }
}

/// Why bytes are no types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BtfError {
    /// They do not begin as types do.
    NoTypes,
    /// They are of another version than 1, or have flags.
    Version,
    /// The header's parts are not one behind the other, up to the end.
    Layout,
    /// The type with this number is cut off, of no kind, or names what is not there.
    Type(u32),
}

impl fmt::Display for BtfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BtfError::NoTypes => f.write_str("these are no types (BTF)"),
            BtfError::Version => f.write_str("types (BTF) of another version than 1"),
            BtfError::Layout => f.write_str("types (BTF) whose parts do not follow each other up to the end"),
            BtfError::Type(number) => {
                write!(
                    f,
                    "type {number} (BTF) is cut off, of an unknown kind, or names one that is not there"
                )
            }
        }
    }
}

impl core::error::Error for BtfError {}

/// Types, by number. Number 0 is `void`, which is none.
#[derive(Clone, Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    order: ByteOrder,
    /// Where each begins.
    places: Vec<u32>,
    names: Range<usize>,
}

pub(crate) fn word(bytes: &[u8], at: usize, order: ByteOrder) -> Option<u32> {
    let bytes = *bytes.get(at..)?.first_chunk()?;
    Some(match order {
        ByteOrder::Little => u32::from_le_bytes(bytes),
        ByteOrder::Big => u32::from_be_bytes(bytes),
    })
}

impl Btf {
    /// Looks through types as `BPF_BTF_LOAD` does: every type is whole, and what it names is there.
    ///
    /// # Errors
    ///
    /// They are not.
    pub fn parse(bytes: Vec<u8>, order: ByteOrder) -> Result<Self, BtfError> {
        let magic = match order {
            ByteOrder::Little => MAGIC.to_le_bytes(),
            ByteOrder::Big => MAGIC.to_be_bytes(),
        };
        if bytes.len() < HEADER || bytes[..2] != magic {
            return Err(BtfError::NoTypes);
        }
        if bytes[2] != 1 || bytes[3] != 0 {
            return Err(BtfError::Version);
        }
        let field = |index: usize| word(&bytes, 4 + 4 * index, order).unwrap_or(0);
        let [header, types_at, types_len, names_at, names_len] = core::array::from_fn(field);
        let follows = types_at == 0 && types_at.checked_add(types_len) == Some(names_at) && types_at % 4 == 0;
        let whole = u64::from(header) + u64::from(names_at) + u64::from(names_len);
        if (header as usize) < HEADER || !follows || whole != bytes.len() as u64 || types_len == 0 {
            return Err(BtfError::Layout);
        }
        let types = header as usize..header as usize + types_len as usize;
        let names = types.end..bytes.len();
        if names.is_empty() || bytes[names.start] != 0 || bytes[names.end - 1] != 0 {
            return Err(BtfError::Layout);
        }
        let (mut places, mut at) = (Vec::new(), types.start);
        while at < types.end {
            let number = places.len() as u32 + 1;
            let read = |more| word(&bytes[..types.end], at + more, order).ok_or(BtfError::Type(number));
            let (name, info) = (read(0)?, read(4)?);
            read(8)?;
            let kind = Kind::of_number(info >> 24 & 0x1f).ok_or(BtfError::Type(number))?;
            if name as usize >= names.len() {
                return Err(BtfError::Type(number));
            }
            places.push(at as u32);
            at += 12 + kind.bytes_behind(info & 0xffff) as usize;
        }
        let btf = Btf { bytes, order, places, names };
        let names_what_is_there = |one: &Type<'_>| {
            let kind = one.kind();
            let found = btf.get(one.word());
            !kind.refers()
                || match kind {
                    Kind::Func => found.is_some_and(|found| found.kind() == Kind::FuncProto),
                    _ => one.word() == 0 || found.is_some(),
                }
        };
        let wrong = btf.all().find(|(_, one)| !names_what_is_there(one));
        match (at == types.end, wrong) {
            (true, None) => Ok(btf),
            (_, Some((number, _))) => Err(BtfError::Type(number)),
            (false, None) => Err(BtfError::Type(btf.places.len() as u32)),
        }
    }

    /// The bytes that were read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A type by its number.
    pub fn get(&self, number: u32) -> Option<Type<'_>> {
        let place = *self.places.get((number as usize).checked_sub(1)?)?;
        Some(Type { btf: self, at: place as usize })
    }

    /// All of them, with their numbers.
    pub fn all(&self) -> impl Iterator<Item = (u32, Type<'_>)> {
        self.places
            .iter()
            .enumerate()
            .map(|(index, &place)| (index as u32 + 1, Type { btf: self, at: place as usize }))
    }

    /// The first type of a kind with this name.
    pub fn find(&self, kind: Kind, name: &str) -> Option<(u32, Type<'_>)> {
        self.all().find(|(_, one)| one.kind() == kind && one.name() == name.as_bytes())
    }

    /// The name at some byte of the names.
    pub(crate) fn name_at(&self, at: u32) -> &[u8] {
        let names = self.bytes[self.names.clone()].get(at as usize..).unwrap_or_default();
        let names = &names[..names.len().min(LONGEST_NAME)];
        names.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The type behind names and modifiers; `None` of `void`, and of names for themselves.
    pub fn resolved(&self, mut number: u32) -> Option<(u32, Type<'_>)> {
        for _ in 0..DEEPEST {
            let one = self.get(number)?;
            if !one.kind().is_around() {
                return Some((number, one));
            }
            number = one.word();
        }
        None
    }

    /// The bytes that a value of the type takes; pointers are those of BPF.
    pub fn size_of(&self, number: u32) -> Option<u64> {
        let (mut number, mut count) = (number, 1u64);
        for _ in 0..DEEPEST {
            let (_, one) = self.resolved(number)?;
            let own = match one.kind() {
                Kind::Array => {
                    let array = one.array()?;
                    count = count.checked_mul(array.count.into())?;
                    number = array.element;
                    continue;
                }
                Kind::Ptr => 8,
                Kind::Fwd | Kind::Func | Kind::FuncProto | Kind::Var | Kind::DeclTag => return None,
                _ => one.word().into(),
            };
            return count.checked_mul(own);
        }
        None
    }
}

/// The number of the first type of [`of_functions`].
pub const FIRST_FUNCTION: u32 = 2;

/// Types for so many functions, of which they say nothing: what Linux asks for where a helper calls one of a program's functions. The
/// functions' numbers are those from [`FIRST_FUNCTION`] on. In the machine's byte order.
pub fn of_functions(count: usize) -> Vec<u8> {
    /// The name of all of them.
    const NAMES: &[u8] = b"\0function\0";
    const PROTOTYPE: [u32; 3] = [0, 13 << 24, 0];
    /// Of the prototype, seen by no other file.
    const FUNCTION: [u32; 3] = [1, 12 << 24, 1];
    let types = PROTOTYPE.into_iter().chain(core::iter::repeat_n(FUNCTION, count).flatten());
    let (len, names) = (12 * (count as u32 + 1), NAMES.len() as u32);
    // The magic number, the version, no flags.
    let head = [MAGIC.to_ne_bytes(), [1, 0]].concat();
    let words = [HEADER as u32, 0, len, len, names].into_iter().chain(types);
    head.into_iter().chain(words.flat_map(u32::to_ne_bytes)).chain(NAMES.iter().copied()).collect()
}

/// One type.
#[derive(Clone, Copy, Debug)]
pub struct Type<'b> {
    btf: &'b Btf,
    at: usize,
}

/// A member of a struct or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'b> {
    /// Empty: its own members are those of the struct.
    pub name: &'b [u8],
    /// The number of its type.
    pub type_number: u32,
    /// Where it begins, in bits.
    pub bit_offset: u32,
    /// Its bits, if it is a bit field; otherwise 0.
    pub bits: u32,
}

/// An array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    /// The number of the type of its elements.
    pub element: u32,
    /// How many there are; 0: as many as there is memory, at the end of a struct.
    pub count: u32,
}

impl<'b> Type<'b> {
    fn read(&self, more: usize) -> u32 {
        // `parse` has seen it.
        word(&self.btf.bytes, self.at + more, self.btf.order).unwrap_or(0)
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        Kind::of_number(self.read(4) >> 24 & 0x1f).unwrap_or(Kind::Fwd)
    }

    /// Its name; empty if it has none.
    pub fn name(&self) -> &'b [u8] {
        self.btf.name_at(self.read(0))
    }

    /// Whether its name begins so, which is sooner known than all of it.
    #[cfg(feature = "object")]
    pub(crate) fn name_begins(&self, with: &[u8]) -> bool {
        let names = &self.btf.bytes[self.btf.names.clone()];
        names.get(self.read(0) as usize..).is_some_and(|rest| rest.starts_with(with))
    }

    /// Members, values, or parameters; of a function its linkage.
    pub fn count(&self) -> u32 {
        self.read(4) & 0xffff
    }

    /// `kind_flag`: values of an enum have a sign, members may be bit fields, a forward is a union.
    pub fn flag(&self) -> bool {
        self.read(4) >> 31 == 1
    }

    /// Its bytes, or the number of the type that it is made of.
    pub fn word(&self) -> u32 {
        self.read(8)
    }

    /// Whether an integer has a sign, or a value of an enum.
    pub fn is_signed(&self) -> bool {
        match self.kind() {
            Kind::Int => self.read(12) >> 24 & 1 == 1,
            kind => kind.is_enum() && self.flag(),
        }
    }

    /// Where an integer begins in its bytes, in bits: 0 but for old bit fields.
    pub fn int_offset(&self) -> u32 {
        self.read(12) >> 16 & 0xff
    }

    /// Its element and how many of them, if it is an array.
    pub fn array(&self) -> Option<Array> {
        (self.kind() == Kind::Array).then(|| Array { element: self.read(12), count: self.read(20) })
    }

    /// Its members; none but of structs and unions.
    pub fn members(&self) -> impl Iterator<Item = Member<'b>> + use<'b> {
        let one = *self;
        (0..self.count()).map_while(move |index| one.member(index))
    }

    /// A member by its place among them.
    pub fn member(&self, index: u32) -> Option<Member<'b>> {
        if !self.kind().has_members() || index >= self.count() {
            return None;
        }
        let at = 12 + 12 * index as usize;
        let place = self.read(at + 8);
        let (bit_offset, bits) = if self.flag() { (place & 0xff_ffff, place >> 24) } else { (place, 0) };
        Some(Member {
            name: self.btf.name_at(self.read(at)),
            type_number: self.read(at + 4),
            bit_offset,
            bits,
        })
    }

    /// The names of its values, with these; none but of enums.
    pub fn values(&self) -> impl Iterator<Item = (&'b [u8], u64)> + use<'b> {
        let one = *self;
        (0..self.count()).map_while(move |index| one.value(index))
    }

    /// A value of an enum by its place among them, with its name.
    pub fn value(&self, index: u32) -> Option<(&'b [u8], u64)> {
        let kind = self.kind();
        if !kind.is_enum() || index >= self.count() {
            return None;
        }
        let at = 12 + index as usize * if kind == Kind::Enum { 8 } else { 12 };
        let low = self.read(at + 4);
        let value = match kind {
            Kind::Enum if self.flag() => i64::from(low as i32) as u64,
            Kind::Enum => low.into(),
            _ => u64::from(self.read(at + 8)) << 32 | u64::from(low),
        };
        Some((self.btf.name_at(self.read(at)), value))
    }

    /// The types of a function's parameters.
    pub fn parameters(&self) -> impl Iterator<Item = u32> + use<'b> {
        let (one, count) = (*self, if self.kind() == Kind::FuncProto { self.count() } else { 0 });
        (0..count as usize).map(move |index| one.read(12 + 8 * index + 4))
    }

    /// The numbers of the variables of a section.
    pub fn variables(&self) -> impl Iterator<Item = u32> + use<'b> {
        let (one, count) = (*self, if self.kind() == Kind::DataSec { self.count() } else { 0 });
        (0..count as usize).map(move |index| one.read(12 + 12 * index))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use alloc::vec;

    /// Types with these names, in a byte order.
    pub(crate) fn bytes(types: &[u32], names: &[u8], order: ByteOrder) -> Vec<u8> {
        let words = [24, 0, 4 * types.len() as u32, 4 * types.len() as u32, names.len() as u32];
        let put = |word: &u32| match order {
            ByteOrder::Little => word.to_le_bytes(),
            ByteOrder::Big => word.to_be_bytes(),
        };
        let mut bytes = match order {
            ByteOrder::Little => vec![0x9f, 0xeb, 1, 0],
            ByteOrder::Big => vec![0xeb, 0x9f, 1, 0],
        };
        bytes.extend(words.iter().chain(types).flat_map(put));
        bytes.extend(names);
        bytes
    }

    const NAMES: &[u8] = b"\0int\0pair\0first\0second\0";
    const INT: u32 = 1 << 24;
    const STRUCT: u32 = 4 << 24;

    #[test]
    fn types_are_read_in_both_byte_orders() {
        // int; struct pair { int first; int second : 3; }; int[5]; a typedef of the array.
        #[rustfmt::skip]
        let types = [
            1, INT, 4, 1 << 24 | 32,
            5, 1 << 31 | STRUCT | 2, 8, 10, 1, 0, 16, 1, 3 << 24 | 32,
            0, 3 << 24, 0, 2, 1, 5,
            1, 8 << 24, 3,
        ];
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let btf = Btf::parse(bytes(&types, NAMES, order), order).unwrap();
            let (number, pair) = btf.find(Kind::Struct, "pair").unwrap();
            let members: Vec<_> = pair.members().collect();
            let of =
                |name: &'static [u8], bit_offset, bits| Member { name, type_number: 1, bit_offset, bits };
            assert_eq!((number, &members[..]), (2, &[of(b"first", 0, 0), of(b"second", 32, 3)][..]));
            assert!(btf.get(1).unwrap().is_signed());
            let sizes: Vec<_> = (0..6).map(|number| btf.size_of(number)).collect();
            assert_eq!(sizes, [None, Some(4), Some(8), Some(40), Some(40), None]);
            assert_eq!(btf.resolved(4).map(|(number, _)| number), Some(3));
        }
    }

    #[test]
    fn functions_have_types() {
        let btf = Btf::parse(of_functions(3), ByteOrder::NATIVE).unwrap();
        let kinds: Vec<Kind> = btf.all().map(|(_, one)| one.kind()).collect();
        assert_eq!(kinds, [Kind::FuncProto, Kind::Func, Kind::Func, Kind::Func]);
        assert_eq!(btf.get(FIRST_FUNCTION).map(|one| one.name()), Some(&b"function"[..]));
    }

    #[test]
    fn a_name_for_itself_is_no_type() {
        let btf = Btf::parse(bytes(&[1, 8 << 24, 1], NAMES, ByteOrder::Little), ByteOrder::Little).unwrap();
        assert!(btf.resolved(1).is_none() && btf.size_of(1).is_none());
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        let read = |types: &[u32], names| {
            Btf::parse(bytes(types, names, ByteOrder::Little), ByteOrder::Little).err()
        };
        assert_eq!(read(&[1, INT, 4, 32], NAMES), None);
        assert_eq!(read(&[], NAMES), Some(BtfError::Layout));
        assert_eq!(read(&[1, INT, 4, 32], b"\0int"), Some(BtfError::Layout));
        assert_eq!(read(&[1, INT, 4], NAMES), Some(BtfError::Type(1)));
        assert_eq!(read(&[99, INT, 4, 32], NAMES), Some(BtfError::Type(1)));
        assert_eq!(read(&[1, INT, 4, 32, 0, 2 << 24, 7], NAMES), Some(BtfError::Type(2)));
        assert_eq!(read(&[1, INT, 4, 32, 1, 12 << 24, 1], NAMES), Some(BtfError::Type(2)));
        assert_eq!(read(&[1, 25 << 24, 4, 32], NAMES), Some(BtfError::Type(1)));
        let mut other = bytes(&[1, INT, 4, 32], NAMES, ByteOrder::Little);
        other[2] = 2;
        assert_eq!(Btf::parse(other, ByteOrder::Little).err(), Some(BtfError::Version));
        assert_eq!(Btf::parse(vec![0; 64], ByteOrder::Little).err(), Some(BtfError::NoTypes));
    }
}
