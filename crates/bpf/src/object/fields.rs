//! "Compile once, run everywhere": the places, sizes and values in a program that hang on types of the kernel, fitted to a kernel's types.
//! The rules are those of libbpf (`Documentation/bpf/llvm_reloc.rst` of Linux has the records).

use crate::btf::{Array, Btf, DEEPEST, Kind, Type};
use crate::helper::NOT_IN_KERNEL;
use crate::insn::{CALL, CONSTANT, Constant, LDX, REG, ST, STX, Size, Slot, W32, W64};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use perfuse_abi::ByteOrder;

/// Types and members that are looked at for one object: a file may name few things many times.
const MOST_STEPS: u32 = 10_000_000;

/// `enum bpf_core_relo_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    ByteOffset,
    ByteSize,
    Exists,
    Signed,
    LeftShift,
    RightShift,
    LocalType,
    TargetType,
    TypeExists,
    TypeSize,
    ValueExists,
    Value,
}

impl Asked {
    pub(super) fn of_number(number: u32) -> Option<Self> {
        const ALL: [Asked; 12] = [
            Asked::ByteOffset,
            Asked::ByteSize,
            Asked::Exists,
            Asked::Signed,
            Asked::LeftShift,
            Asked::RightShift,
            Asked::LocalType,
            Asked::TargetType,
            Asked::TypeExists,
            Asked::TypeSize,
            Asked::ValueExists,
            Asked::Value,
        ];
        ALL.get(number as usize).copied()
    }

    fn is_of_types(self) -> bool {
        matches!(self, Asked::LocalType | Asked::TargetType | Asked::TypeExists | Asked::TypeSize)
    }

    fn is_of_values(self) -> bool {
        matches!(self, Asked::ValueExists | Asked::Value)
    }

    /// The answer where the kernel has no such thing.
    fn nowhere(self) -> Option<u64> {
        matches!(self, Asked::Exists | Asked::TypeExists | Asked::ValueExists).then_some(0)
    }
}

const TOO_MANY: Why = "the object hangs on types in too many ways";

/// Why a place in a program cannot be fitted, in words.
pub(super) type Why = &'static str;

/// A record of the object: which instruction hangs on what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'o> {
    /// The instruction, in bytes from the beginning of its section.
    pub(super) at: u32,
    /// The type, among the program's.
    pub(super) type_number: u32,
    /// The way from there: numbers of members and elements, with `:` between them.
    pub(super) way: &'o [u8],
    pub(super) asked: Asked,
}

/// A step of a way: to a member with a name, or to an element.
#[derive(Clone, Copy, Debug)]
enum Step<'b> {
    /// And the member's type.
    Member(&'b [u8], u32),
    Element(u64),
}

/// A place in a type.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// In bits.
    offset: u64,
    type_number: u32,
    /// Of a bit field.
    bits: u32,
}

/// The thing that a record asks for.
#[derive(Debug)]
enum Sought<'b> {
    /// The type itself.
    Type,
    /// A value of an enum, by its name.
    Value(&'b [u8]),
    /// A place in the type.
    Place(Vec<Step<'b>>),
}

/// Memory that an access reads or writes: its bytes, its kind, and whether it has a sign.
type Memory = (u64, Kind, bool);

/// The number for a place, a type or a value; and the memory there, if that is no bit field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    value: u64,
    memory: Option<Memory>,
}

/// The program's types beside the kernel's.
pub(super) struct Fitting<'b> {
    local: &'b Btf,
    target: &'b Btf,
    order: ByteOrder,
    /// Types of the kernel by the part of their names that counts.
    candidates: BTreeMap<Vec<u8>, Vec<u32>>,
    steps: u32,
}

/// The name without what follows `___`: forms of one type.
fn essential(name: &[u8]) -> &[u8] {
    let is_mark = |at: usize| name[at] != b'_' && &name[at + 1..at + 4] == b"___" && name[at + 4] != b'_';
    let mark = (0..name.len().saturating_sub(4)).rev().find(|&at| is_mark(at));
    mark.map_or(name, |at| &name[..=at])
}

/// Whether values of one kind can stand for those of the other.
fn are_alike(one: Kind, other: Kind) -> bool {
    one == other || one.is_enum() && other.is_enum()
}

impl<'b> Fitting<'b> {
    pub(super) fn new(local: &'b Btf, target: &'b Btf, order: ByteOrder) -> Self {
        Fitting { local, target, order, candidates: BTreeMap::new(), steps: MOST_STEPS }
    }

    /// Fits one instruction.
    pub(super) fn apply(&mut self, record: &Record<'_>, slots: &mut [Slot]) -> Result<(), Why> {
        let at = record.at as usize;
        if at % Slot::SIZE != 0 || at / Slot::SIZE >= slots.len() {
            return Err("it hangs on types where no instruction is");
        }
        let slots = &mut slots[at / Slot::SIZE..];
        if record.asked == Asked::LocalType {
            return put(slots, record.type_number.into());
        }
        let (_, root) = self.local.resolved(record.type_number).ok_or("the type is not there")?;
        let named = self.local.get(record.type_number).ok_or("the type is not there")?;
        // A name is looked for as a name, everything else as what it is.
        let named = if record.asked.is_of_types() && named.kind() == Kind::Typedef { named } else { root };
        if named.name().is_empty() {
            return Err("the type has no name");
        }
        let way = way(record.way).ok_or("the way to a member is not understood")?;
        let (sought, memory) = self.sought(record, &root, &way)?;
        let mut found: Option<Answer> = None;
        for number in self.candidates(&named)? {
            let Some(answer) = self.answer(record, &sought, number)? else { continue };
            if found.is_some_and(|found| found.value != answer.value) {
                return Err("several types of the kernel have this name, and differ");
            }
            found = Some(answer);
        }
        let Some(found) = found else {
            return match record.asked.nowhere() {
                Some(value) => put(slots, value),
                None => {
                    nothing(slots);
                    Ok(())
                }
            };
        };
        if record.asked == Asked::ByteOffset && is_access(slots[0].code) {
            return access(slots, memory, &found);
        }
        put(slots, found.value)
    }

    /// One more type or member is looked at.
    fn step(&mut self) -> Result<(), Why> {
        self.steps = self.steps.checked_sub(1).ok_or(TOO_MANY)?;
        Ok(())
    }

    /// Types of the kernel that may be this one.
    fn candidates(&mut self, named: &Type<'_>) -> Result<Vec<u32>, Why> {
        let name = essential(named.name()).to_vec();
        if !self.candidates.contains_key(&name) {
            self.steps = self.steps.checked_sub(self.target.bytes().len() as u32 / 256).ok_or(TOO_MANY)?;
            let same =
                self.target.all().filter(|(_, one)| one.name_begins(&name) && essential(one.name()) == name);
            let numbers: Vec<u32> = same.map(|(number, _)| number).collect();
            self.candidates.insert(name.clone(), numbers);
        }
        let numbers = self.candidates.get(&name).into_iter().flatten().copied();
        let target = self.target;
        let is_alike =
            |number: &u32| target.get(*number).is_some_and(|one| are_alike(one.kind(), named.kind()));
        Ok(numbers.filter(is_alike).collect())
    }

    /// The thing that a record asks for, by the program's own types, and the memory there.
    fn sought(
        &mut self,
        record: &Record<'_>,
        root: &Type<'b>,
        way: &[u64],
    ) -> Result<(Sought<'b>, Option<Memory>), Why> {
        if record.asked.is_of_types() {
            return Ok((Sought::Type, None));
        }
        if record.asked.is_of_values() {
            let &[index] = way else { return Err("the way to a value is not understood") };
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let (name, _) = root.value(index).ok_or("the value is not there")?;
            return Ok((Sought::Value(name), None));
        }
        let (steps, place) = self.go(record.type_number, way)?;
        let local = told(self.local, record.asked, &place, self.order)?;
        Ok((Sought::Place(steps), local.memory))
    }

    /// The answer by a type of the kernel; none if that is another one.
    fn answer(
        &mut self,
        record: &Record<'_>,
        sought: &Sought<'_>,
        number: u32,
    ) -> Result<Option<Answer>, Why> {
        let asked = record.asked;
        let value = match sought {
            Sought::Place(steps) => {
                let Some(place) = self.follow(number, steps)? else { return Ok(None) };
                return told(self.target, asked, &place, self.order).map(Some);
            }
            Sought::Type if !self.are_compatible(record.type_number, number, DEEPEST)? => return Ok(None),
            Sought::Type => match asked {
                Asked::TypeSize => self.target.size_of(number).ok_or("the type has no size")?,
                Asked::TypeExists => 1,
                _ => number.into(),
            },
            Sought::Value(name) => {
                let (_, target) = self.target.resolved(number).ok_or("the type is not there")?;
                self.steps = self.steps.checked_sub(target.count()).ok_or(TOO_MANY)?;
                let found = target.values().find(|(other, _)| essential(other) == essential(name));
                let Some((_, value)) = found else { return Ok(None) };
                if asked == Asked::Value { value } else { 1 }
            }
        };
        Ok(Some(Answer { value, memory: None }))
    }

    /// Goes a way in the program's own types: the steps that have names or count, and where they lead.
    fn go(&mut self, root: u32, way: &[u64]) -> Result<(Vec<Step<'b>>, Place), Why> {
        const NOT_THERE: Why = "the member is not there";
        let local = self.local;
        let (first, rest) = way.split_first().ok_or("the way to a member is not understood")?;
        let bits = |number: u32, count: u64| {
            local.size_of(number).and_then(|size| size.checked_mul(8)?.checked_mul(count)).ok_or(NOT_THERE)
        };
        let mut place = Place { offset: bits(root, *first)?, type_number: root, bits: 0 };
        let mut steps = Vec::from([Step::Element(*first)]);
        for &index in rest {
            self.step()?;
            let (_, one) = local.resolved(place.type_number).ok_or(NOT_THERE)?;
            let at = u32::try_from(index).map_err(|_| NOT_THERE)?;
            if let Some(Array { element, count }) = one.array() {
                if count != 0 && index >= count.into() {
                    return Err(NOT_THERE);
                }
                steps.push(Step::Element(index));
                let more = bits(element, index)?;
                place = Place {
                    offset: place.offset.checked_add(more).ok_or(NOT_THERE)?,
                    type_number: element,
                    bits: 0,
                };
                continue;
            }
            let member = one.member(at).ok_or(NOT_THERE)?;
            let offset = place.offset.checked_add(member.bit_offset.into()).ok_or(NOT_THERE)?;
            place = Place { offset, type_number: member.type_number, bits: member.bits };
            if !member.name.is_empty() {
                steps.push(Step::Member(member.name, member.type_number));
            }
        }
        Ok((steps, place))
    }

    /// Goes the same steps in a type of the kernel; none if a member is not there, or is of another kind.
    fn follow(&mut self, root: u32, steps: &[Step<'_>]) -> Result<Option<Place>, Why> {
        let target = self.target;
        let mut place = Place { offset: 0, type_number: root, bits: 0 };
        for (nth, step) in steps.iter().enumerate() {
            self.step()?;
            match *step {
                Step::Element(index) => {
                    let element = match target.resolved(place.type_number).and_then(|(_, one)| one.array()) {
                        _ if nth == 0 => root,
                        Some(Array { element, count }) if count == 0 || index < count.into() => element,
                        _ => return Ok(None),
                    };
                    let more =
                        target.size_of(element).and_then(|size| size.checked_mul(8)?.checked_mul(index));
                    let offset = more.and_then(|more| place.offset.checked_add(more));
                    let Some(offset) = offset else { return Ok(None) };
                    place = Place { offset, type_number: element, bits: 0 };
                }
                Step::Member(name, local) => {
                    let Some(found) = self.member(place.type_number, name, DEEPEST)? else { return Ok(None) };
                    if !self.are_compatible_fields(local, found.type_number, DEEPEST)? {
                        return Ok(None);
                    }
                    place = Place { offset: place.offset.saturating_add(found.offset), ..found };
                }
            }
        }
        Ok(Some(place))
    }

    /// A member by its name, also of members without one.
    fn member(&mut self, number: u32, name: &[u8], depth: u32) -> Result<Option<Place>, Why> {
        let target = self.target;
        let Some((_, one)) = target.resolved(number) else { return Ok(None) };
        for member in one.members() {
            self.step()?;
            let offset = u64::from(member.bit_offset);
            if member.name == name {
                return Ok(Some(Place { offset, type_number: member.type_number, bits: member.bits }));
            }
            if member.name.is_empty() && depth > 0 {
                if let Some(found) = self.member(member.type_number, name, depth - 1)? {
                    return Ok(Some(Place { offset: offset + found.offset, ..found }));
                }
            }
        }
        Ok(None)
    }

    /// Both types behind their names; or whether both are `void`.
    fn both(&mut self, local: u32, target: u32) -> Result<Result<(Type<'b>, Type<'b>), bool>, Why> {
        self.step()?;
        Ok(match (self.local.resolved(local), self.target.resolved(target)) {
            (Some((_, local)), Some((_, target))) => Ok((local, target)),
            (local, target) => Err(local.is_none() && target.is_none()),
        })
    }

    /// Whether a member can stand for the program's: sizes and signs of numbers do not count.
    fn are_compatible_fields(&mut self, local: u32, target: u32, depth: u32) -> Result<bool, Why> {
        let (local, target) = match self.both(local, target)? {
            Ok(both) => both,
            Err(are_void) => return Ok(are_void),
        };
        let (kind, other) = (local.kind(), target.kind());
        if kind.has_members() && other.has_members() {
            return Ok(true);
        }
        if !are_alike(kind, other) {
            return Ok(false);
        }
        Ok(match kind {
            Kind::Int => local.int_offset() == 0 && target.int_offset() == 0,
            Kind::Fwd | Kind::Enum | Kind::Enum64 => {
                let (name, other) = (essential(local.name()), essential(target.name()));
                name.is_empty() || other.is_empty() || name == other
            }
            Kind::Array if depth > 0 => match (local.array(), target.array()) {
                (Some(local), Some(target)) => {
                    return self.are_compatible_fields(local.element, target.element, depth - 1);
                }
                _ => false,
            },
            kind => matches!(kind, Kind::Ptr | Kind::Float),
        })
    }

    /// Whether two types are of one shape, as far as their kinds go.
    fn are_compatible(&mut self, local: u32, target: u32, depth: u32) -> Result<bool, Why> {
        let (local, target) = match self.both(local, target)? {
            Ok(both) => both,
            Err(are_void) => return Ok(are_void),
        };
        if !are_alike(local.kind(), target.kind()) || depth == 0 {
            return Ok(false);
        }
        match local.kind() {
            Kind::Int => Ok(local.int_offset() == 0 && target.int_offset() == 0),
            Kind::Ptr => self.are_compatible(local.word(), target.word(), depth - 1),
            Kind::Array => match (local.array(), target.array()) {
                (Some(local), Some(target)) => self.are_compatible(local.element, target.element, depth - 1),
                _ => Ok(false),
            },
            Kind::FuncProto => {
                if local.count() != target.count() {
                    return Ok(false);
                }
                for (local, target) in local.parameters().zip(target.parameters()) {
                    if !self.are_compatible(local, target, depth - 1)? {
                        return Ok(false);
                    }
                }
                self.are_compatible(local.word(), target.word(), depth - 1)
            }
            _ => Ok(true),
        }
    }
}

fn way(text: &[u8]) -> Option<Vec<u64>> {
    /// `BPF_CORE_SPEC_MAX_LEN`.
    const MOST: usize = 64;
    let text = core::str::from_utf8(text).ok()?;
    let way: Vec<u64> = text
        .split(':')
        .take(MOST + 1)
        .map(|step| step.parse::<u32>().ok().map(u64::from))
        .collect::<Option<_>>()?;
    (way.len() <= MOST).then_some(way)
}

/// Answers for a place.
fn told(btf: &Btf, asked: Asked, place: &Place, order: ByteOrder) -> Result<Answer, Why> {
    const NO_SIZE: Why = "the member has no size";
    let (_, one) = match asked {
        Asked::Exists => return Ok(Answer { value: 1, memory: None }),
        _ => btf.resolved(place.type_number).ok_or(NO_SIZE)?,
    };
    let mut bytes = match one.kind() {
        Kind::FuncProto | Kind::Func => return Err(NO_SIZE),
        _ => btf.size_of(place.type_number).ok_or(NO_SIZE)?,
    };
    // Sums of what follows are small against that.
    if place.offset > u64::MAX / 2 {
        return Err(NO_SIZE);
    }
    let (mut byte, mut bits) = (place.offset / 8, bytes.saturating_mul(8));
    if place.bits > 0 {
        // The smallest aligned piece of memory that has all of its bits.
        bits = place.bits.into();
        loop {
            if bytes == 0 || bytes > 8 {
                return Err("the bits of a member lie in more than 8 bytes");
            }
            byte = place.offset / 8 / bytes * bytes;
            if place.offset + bits <= (byte + bytes) * 8 {
                break;
            }
            bytes *= 2;
        }
    }
    let before = place.offset - byte * 8;
    let shift = |bits: u64| 64u64.checked_sub(bits).ok_or("a number has more than 64 bits");
    let value = match asked {
        Asked::ByteOffset => byte,
        Asked::ByteSize => bytes,
        Asked::Signed => one.is_signed().into(),
        Asked::LeftShift => match order {
            ByteOrder::Little => shift(bits.saturating_add(before))?,
            ByteOrder::Big => shift(bytes.saturating_mul(8))?.saturating_add(before),
        },
        _ => shift(bits)?,
    };
    Ok(Answer { value, memory: (place.bits == 0).then(|| (bytes, one.kind(), one.is_signed())) })
}

/// The bits of an opcode that tell its class, and a class of constants.
const CLASS: u8 = 0x07;
const LD: u8 = 0x00;

fn is_access(code: u8) -> bool {
    matches!(code & CLASS, LDX | ST | STX)
}

/// Puts the answer in the place of the number that the instruction has.
fn put(slots: &mut [Slot], value: u64) -> Result<(), Why> {
    const NO_ROOM: Why = "the number that hangs on a type does not fit into the instruction";
    match (slots[0].code & CLASS, &mut *slots) {
        (LD, [first, second, ..]) if first.code == CONSTANT => {
            (_, first.imm, second.imm) = Constant::Value(value).parts();
        }
        (W32 | W64, [slot, ..]) if slot.code & REG == 0 => {
            slot.imm = i32::try_from(value as i64)
                .or(u32::try_from(value).map(|value| value as i32))
                .map_err(|_| NO_ROOM)?;
        }
        (LDX | ST | STX, [slot, ..]) => slot.off = i16::try_from(value).map_err(|_| NO_ROOM)?,
        _ => return Err("the instruction has no number that could hang on a type"),
    }
    Ok(())
}

/// Puts a place into an access to memory, and how many bytes there are. A number that is shorter or longer than the program knew it must
/// have no sign.
fn access(slots: &mut [Slot], local: Option<Memory>, found: &Answer) -> Result<(), Why> {
    put(slots, found.value)?;
    let (Some((was, kind, was_signed)), Some((is, other, is_signed))) = (local, found.memory) else {
        return Ok(());
    };
    if was == is {
        return Ok(());
    }
    let fits = kind == other && (kind == Kind::Ptr || kind == Kind::Int && !was_signed && !is_signed);
    let size =
        [Size::B1, Size::B2, Size::B4, Size::B8].into_iter().find(|size| u64::from(size.bytes()) == is);
    match size.filter(|_| fits) {
        Some(size) => slots[0].code = slots[0].code & !Size::BITS | size.code(),
        None => nothing(slots),
    }
    Ok(())
}

/// The instruction becomes a call of [`NOT_IN_KERNEL`].
fn nothing(slots: &mut [Slot]) {
    let count = if slots[0].code == CONSTANT { 2 } else { 1 };
    let call = Slot { code: CALL, dst: 0, src: 0, off: 0, imm: NOT_IN_KERNEL as i32 };
    slots.iter_mut().take(count).for_each(|slot| *slot = call);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf;

    #[test]
    fn places_at_the_end_of_all_numbers_are_refused() {
        const NAMES: &[u8] = b"\0pair\0bits\0";
        const STRUCT: u32 = 4 << 24;
        // int; struct bits { int bits : 30; }; bits[2^31 - 1]; struct pair, which says that it is as long, with the array at bit 1; an
        // array of 2^29 of the array, and a struct with that at bit 1.
        #[rustfmt::skip]
        let types = [
            0, 1 << 24, 4, 1 << 24 | 32,
            6, 1 << 31 | STRUCT | 1, 4, 6, 1, 30 << 24,
            0, 3 << 24, 0, 2, 1, 0x7fff_ffff,
            1, STRUCT | 1, 0x7fff_ffff, 6, 3, 0,
            0, 3 << 24, 0, 3, 1, 1 << 29,
            1, STRUCT | 1, 8, 6, 5, 1,
        ];
        let btf = btf::tests::bytes(&types, NAMES, ByteOrder::NATIVE);
        let btf = Btf::parse(btf, ByteOrder::NATIVE).unwrap();
        let refused = |type_number, way: &[u8], asked| {
            let mut slots = [Slot { code: 0xb7, ..Slot::default() }];
            let record = Record { at: 0, type_number, way, asked };
            Fitting::new(&btf, &btf, ByteOrder::Little).apply(&record, &mut slots).unwrap_err()
        };
        // 24 bits before the last number of all.
        assert_eq!(refused(4, b"1073741823:0:805306367:0", Asked::ByteOffset), "the member has no size");
        assert_eq!(refused(6, b"0:0", Asked::LeftShift), "a number has more than 64 bits");
    }
}
