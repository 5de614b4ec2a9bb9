//! Where the arguments of a function are when it is entered, and what it returns when it does, by the types that a compiler writes
//! with `-g`: what a probe of a function needs to tell them.
//!
//! Where an argument is at the first instruction, optimizing compilers write down. Else places are those of the calling conventions of
//! x86-64 and arm64, as far as types alone tell them: arguments that are integers or pointers are in registers, one after the other;
//! numbers with a fraction are elsewhere, and are not told.

use super::Elf;
use super::lines::{Declared, MOST_REFERENCES, load};
use crate::error::{Error, Problem};
use crate::ranges::ranges_of;
use gimli::{AttributeValue, DebuggingInformationEntry, Dwarf, Reader, RunTimeEndian, Unit, UnitOffset};
use object::Endian;
use std::cell::Cell;

/// Types refer to types so often at most, and members are looked for in members so deep.
const MOST_TYPES: u8 = 24;

/// So many members, and entries of lists of places, are looked at for a function.
const MOST_MEMBERS: u32 = 1 << 16;

/// Larger things are not passed in registers.
const IN_REGISTERS: u64 = 16;

/// A value of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionValue {
    /// Which of the words that are passed to the function it begins with; nothing for what the function returns.
    pub word: Option<usize>,
    /// The loads that follow, one after the other: each is from so many bytes behind the address so far.
    pub loads: Vec<u64>,
    /// The kind of the last.
    pub kind: ValueKind,
}

impl FunctionValue {
    /// Begins with a word, of which something is loaded.
    pub fn new(word: Option<usize>, loads: Vec<u64>, kind: ValueKind) -> Self {
        FunctionValue { word, loads, kind }
    }

    /// A word of which nothing else is known.
    pub fn of_word(word: Option<usize>) -> Self {
        FunctionValue::new(word, Vec::new(), ValueKind::Integer { bytes: 8, signed: true })
    }
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueKind {
    /// A number.
    Integer {
        /// Its size.
        bytes: u8,
        /// It may be negative.
        signed: bool,
    },
    /// An address.
    Pointer,
    /// A text that ends with a zero: the last load is its address.
    Text,
}

/// The values of a function that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionValues {
    /// The names of all arguments.
    pub arguments: Vec<String>,
    /// Each value, or why it cannot be told.
    pub values: Vec<Result<FunctionValue, String>>,
}

impl Elf {
    /// Finds values of the function that begins at this address: its arguments by name (`len`), what they point at (`req->len`,
    /// `req->head.kind`), and `retval`. Nothing if no debug information of this file has the function. `common` is the file that this one shares debug information with
    /// others through, if there is one: types that are described there alone are not known.
    ///
    /// # Errors
    ///
    /// The debug information makes no sense.
    pub fn function_values(
        &self,
        common: Option<&Elf>,
        address: u64,
        paths: &[&str],
    ) -> Result<Option<FunctionValues>, Error> {
        let malformed =
            |_| self.image.error(0, "debug information", Problem::Malformed("not as DWARF has it"));
        let endian = if self.endian.is_big_endian() { RunTimeEndian::Big } else { RunTimeEndian::Little };
        let mut sections = self.line_sections()?;
        for name in [".debug_loc", ".debug_loclists"] {
            sections.push((name, self.debug_bytes(name)?.unwrap_or_default()));
        }
        let shared = common.map(Elf::line_sections).transpose()?.unwrap_or_default();
        let mut dwarf = Dwarf::load(|id| load(&sections, id, endian)).map_err(malformed)?;
        if !shared.is_empty() {
            dwarf.load_sup(|id| load(&shared, id, endian)).map_err(malformed)?;
        }
        let convention = if self.machine == object::elf::EM_X86_64 { &X86_64 } else { &ARM64 };
        find(&dwarf, address, paths, convention).map_err(malformed)
    }
}

/// How words are passed to functions.
struct Convention {
    /// Registers of integers and pointers, by their numbers in debug information.
    registers: &'static [u16],
    /// Bytes between the stack pointer at the first instruction and the first word that is passed on the stack.
    above: i64,
    /// The stack pointer, by its number.
    stack: u16,
    /// The place of a large result is passed as a word of its own, and large structs are passed on the stack.
    shifts: bool,
}

const X86_64: Convention = Convention { registers: &[5, 4, 1, 2, 8, 9], above: 8, stack: 7, shifts: true };
const ARM64: Convention =
    Convention { registers: &[0, 1, 2, 3, 4, 5, 6, 7], above: 0, stack: 31, shifts: false };

fn find<R: Reader>(
    dwarf: &Dwarf<R>,
    address: u64,
    paths: &[&str],
    convention: &Convention,
) -> gimli::Result<Option<FunctionValues>> {
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let mut entries = unit.entries();
        while let Some((_, entry)) = entries.next_dfs()? {
            let has_code = [gimli::DW_AT_low_pc, gimli::DW_AT_ranges].iter().any(|name| has(entry, *name));
            if entry.tag() != gimli::DW_TAG_subprogram || !has_code {
                continue;
            }
            let mut ranges = ranges_of(dwarf, &unit, entry)?;
            let mut begins = false;
            while let Some(range) = ranges.next()? {
                begins |= range.begin == address;
            }
            if begins {
                let members = Cell::new(MOST_MEMBERS);
                let types = Types { dwarf, unit: &unit, members, convention, address };
                let found = types.function(entry)?;
                let values =
                    paths.iter().map(|path| types.value(&found, path)).collect::<gimli::Result<_>>()?;
                let arguments = found.arguments.into_iter().map(|(name, ..)| name).collect();
                return Ok(Some(FunctionValues { arguments, values }));
            }
        }
    }
    Ok(None)
}

fn has<R: Reader>(entry: &DebuggingInformationEntry<'_, '_, R>, name: gimli::DwAt) -> bool {
    matches!(entry.attr_value(name), Ok(Some(_)))
}

/// A type, without its names and qualifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type<O> {
    Void,
    Integer { bytes: u8, signed: bool, is_char: bool },
    Fraction { bytes: u8 },
    Pointer(Option<O>),
    Aggregate(O, u64),
    Array(Option<O>),
    Unknown,
}

/// Where an argument is: in a word, or so many bytes behind the address that the word is.
#[derive(Clone, Copy, Debug)]
struct Place {
    word: usize,
    behind: Option<u64>,
}

/// A function: its arguments with their types and places, and what it returns.
struct Function<O> {
    arguments: Vec<(String, Type<O>, Result<Place, &'static str>)>,
    returns: Type<O>,
}

struct Types<'t, R: Reader> {
    dwarf: &'t Dwarf<R>,
    unit: &'t Unit<R>,
    /// So many members and entries may still be looked at.
    members: Cell<u32>,
    convention: &'t Convention,
    /// Where the function begins.
    address: u64,
}

type Found<T> = gimli::Result<Result<T, String>>;
type Offset<R> = UnitOffset<<R as Reader>::Offset>;

const AFTER_CLASS: &str = "where it is depends on a struct or class that is passed or returned beside it";
const AFTER_UNKNOWN: &str = "where it is depends on an argument before it whose type is not known";
const ON_STACK: &str = "where it is on the stack depends on an argument before it";
const IN_PIECES: &str = "it is where no probe can read it";

impl<R: Reader> Types<'_, R> {
    fn function(&self, entry: &DebuggingInformationEntry<'_, '_, R>) -> gimli::Result<Function<Offset<R>>> {
        let returns = self.of(self.type_of(entry)?, MOST_TYPES)?;
        let Convention { registers, shifts, .. } = *self.convention;
        // Other languages than C pass classes by what their code is like.
        let is_c = self.is_of_c()?;
        // A large result is written to where the caller wants it, which x86-64 is told by a word of its own.
        let mut next = match returns {
            Type::Aggregate(..) if !is_c => Err(AFTER_CLASS),
            Type::Aggregate(_, bytes) => Ok(usize::from(bytes > IN_REGISTERS && shifts)),
            _ => Ok(0),
        };
        // The frame begins where the stack pointer was before the call.
        let frame = self.expression(entry.attr_value(gimli::DW_AT_frame_base)?)?;
        let frame = frame.map(|frame| frame.operations(self.unit.encoding()).next()).transpose()?.flatten();
        let frame_is_known = match frame {
            Some(gimli::Operation::CallFrameCFA) => true,
            Some(gimli::Operation::RegisterOffset { register, offset, .. }) => {
                (register.0, offset) == (self.convention.stack, self.convention.above)
            }
            _ => false,
        };
        let (mut on_stack, mut fractions) = (false, 0);
        let mut arguments = Vec::new();
        let mut tree = self.unit.entries_tree(Some(entry.offset()))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            if entry.tag() != gimli::DW_TAG_formal_parameter {
                continue;
            }
            let mut known = Declared::default();
            known.read(self.dwarf, self.unit, entry, MOST_REFERENCES)?;
            let type_ = self.of(self.type_of(entry)?, MOST_TYPES)?;
            let words = match type_ {
                Type::Integer { bytes: 0, .. } => Ok(0),
                Type::Integer { bytes, .. } if bytes <= 8 => Ok(1),
                Type::Integer { .. } => Ok(2),
                Type::Pointer(_) | Type::Array(_) => Ok(1),
                Type::Fraction { .. } | Type::Void => Ok(0),
                Type::Aggregate(..) if !is_c => Err(AFTER_CLASS),
                // On the stack, on x86-64.
                Type::Aggregate(_, bytes) if bytes > IN_REGISTERS && shifts => Ok(0),
                Type::Aggregate(..) => Err(AFTER_CLASS),
                Type::Unknown => Err(AFTER_UNKNOWN),
            };
            let ends = |next: usize| words.map_or(next, |words| next + words);
            let by_convention = next.and_then(|word| match word {
                _ if on_stack && ends(word) > registers.len() => Err(ON_STACK),
                // Two words are in registers, or neither is.
                _ if word < registers.len() && ends(word) > registers.len() => Err(ON_STACK),
                word => Ok(Place { word, behind: None }),
            });
            on_stack |= by_convention.is_err_and(|why| why == ON_STACK);
            fractions += u32::from(matches!(type_, Type::Fraction { .. }));
            on_stack |= fractions > 8 || matches!(type_, Type::Fraction { bytes } if bytes > 8);
            on_stack |= matches!(type_, Type::Aggregate(_, bytes) if bytes > IN_REGISTERS);
            let place = match type_ {
                // It is not told, wherever it is.
                Type::Fraction { .. } => Ok(Place { word: 0, behind: None }),
                _ => self.at_entry(entry, frame_is_known)?.unwrap_or(by_convention),
            };
            arguments.push((known.names.into_iter().next().unwrap_or_default(), type_, place));
            next = next.and_then(|next| words.map(|words| next + words));
        }
        Ok(Function { arguments, returns })
    }

    /// Takes one of the members and entries that may still be looked at.
    fn may_look(&self) -> bool {
        self.members.set(self.members.get().saturating_sub(1));
        self.members.get() > 0
    }

    /// Whether the unit is written in C, or in a language that does not say so.
    fn is_of_c(&self) -> gimli::Result<bool> {
        let mut entries = self.unit.entries();
        let Some((_, unit)) = entries.next_dfs()? else { return Ok(true) };
        let others = [
            gimli::DW_LANG_C_plus_plus,
            gimli::DW_LANG_C_plus_plus_03,
            gimli::DW_LANG_C_plus_plus_11,
            gimli::DW_LANG_C_plus_plus_14,
            gimli::DW_LANG_C_plus_plus_17,
            gimli::DW_LANG_C_plus_plus_20,
            gimli::DW_LANG_Rust,
            gimli::DW_LANG_Swift,
            gimli::DW_LANG_D,
            gimli::DW_LANG_Go,
        ];
        Ok(match unit.attr_value(gimli::DW_AT_language)? {
            Some(AttributeValue::Language(language)) => !others.contains(&language),
            _ => true,
        })
    }

    /// The expression of an attribute that holds at the first instruction.
    fn expression(&self, value: Option<AttributeValue<R>>) -> gimli::Result<Option<gimli::Expression<R>>> {
        match value {
            None => Ok(None),
            Some(AttributeValue::Exprloc(expression)) => Ok(Some(expression)),
            Some(value) => {
                let Some(mut list) = self.dwarf.attr_locations(self.unit, value)? else { return Ok(None) };
                while let Some(entry) = list.next()? {
                    // Arguments may share a list.
                    if !self.may_look() {
                        break;
                    }
                    if (entry.range.begin..entry.range.end).contains(&self.address) {
                        return Ok(Some(entry.data));
                    }
                }
                Ok(None)
            }
        }
    }

    /// The place that the compiler has written down for the first instruction. Nothing where it has written none, or one that holds
    /// only later on.
    fn at_entry(
        &self,
        argument: &DebuggingInformationEntry<'_, '_, R>,
        frame_is_known: bool,
    ) -> gimli::Result<Option<Result<Place, &'static str>>> {
        let location = argument.attr_value(gimli::DW_AT_location)?;
        let is_lasting = matches!(location, Some(AttributeValue::Exprloc(_)));
        let Some(expression) = self.expression(location)? else { return Ok(None) };
        let Convention { registers, above, stack, .. } = *self.convention;
        let word_of = |register: u16| registers.iter().position(|known| *known == register);
        // Bytes above the first word that is passed there.
        let on_stack = |bytes: i64| {
            let words = usize::try_from(bytes).ok().filter(|bytes| bytes % 8 == 0)? / 8;
            Some(Place { word: registers.len().checked_add(words)?, behind: None })
        };
        let mut operations = expression.operations(self.unit.encoding());
        let (first, more) = (operations.next()?, operations.next()?);
        // Memory that is always the same is filled by the function's own first instructions, but for what the caller has passed.
        let holds = match first {
            Some(gimli::Operation::Register { .. }) => true,
            Some(gimli::Operation::FrameOffset { offset }) => frame_is_known && (offset >= 0 || !is_lasting),
            _ => !is_lasting,
        };
        if !holds {
            return Ok(None);
        }
        let place = match (first, more) {
            (Some(gimli::Operation::Register { register }), None) => {
                word_of(register.0).map(|word| Place { word, behind: None })
            }
            (Some(gimli::Operation::RegisterOffset { register, offset, .. }), None)
                if register.0 == stack =>
            {
                offset.checked_sub(above).and_then(on_stack)
            }
            (Some(gimli::Operation::RegisterOffset { register, offset, .. }), None) => {
                let behind = u64::try_from(offset).ok();
                word_of(register.0).zip(behind).map(|(word, behind)| Place { word, behind: Some(behind) })
            }
            // From the frame that the caller has left, where the stack pointer was before the call.
            (Some(gimli::Operation::FrameOffset { offset }), None) => on_stack(offset),
            _ => None,
        };
        Ok(Some(place.ok_or(IN_PIECES)))
    }

    /// The type of an entry; if it has none of its own, of what it stands for. One that is described elsewhere is told by no place.
    fn type_of(
        &self,
        entry: &DebuggingInformationEntry<'_, '_, R>,
    ) -> gimli::Result<Option<Option<Offset<R>>>> {
        if let Some(value) = entry.attr_value(gimli::DW_AT_type)? {
            return Ok(Some(self.within(&value)));
        }
        for name in [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification] {
            if let Some(offset) = entry.attr_value(name)?.and_then(|value| self.within(&value)) {
                let value = self.unit.entry(offset)?.attr_value(gimli::DW_AT_type)?;
                return Ok(value.map(|value| self.within(&value)));
            }
        }
        Ok(None)
    }

    /// An entry of the same unit that another one refers to.
    fn within(&self, value: &AttributeValue<R>) -> Option<Offset<R>> {
        match value {
            AttributeValue::UnitRef(offset) => Some(*offset),
            AttributeValue::DebugInfoRef(offset) => offset.to_unit_offset(&self.unit.header),
            _ => None,
        }
    }

    fn of(&self, at: Option<Option<Offset<R>>>, most: u8) -> gimli::Result<Type<Offset<R>>> {
        let offset = match at {
            None => return Ok(Type::Void),
            Some(None) => return Ok(Type::Unknown),
            Some(Some(offset)) => offset,
        };
        let entry = self.unit.entry(offset)?;
        let bytes = entry.attr_value(gimli::DW_AT_byte_size)?.and_then(|value| value.udata_value());
        let to = self.type_of(&entry)?;
        let size = u8::try_from(bytes.unwrap_or(0)).unwrap_or(u8::MAX);
        Ok(match entry.tag() {
            _ if most == 0 => Type::Unknown,
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => return self.of(to, most - 1),
            gimli::DW_TAG_base_type => match entry.attr_value(gimli::DW_AT_encoding)? {
                Some(AttributeValue::Encoding(encoding)) => base(encoding, size),
                _ => Type::Unknown,
            },
            gimli::DW_TAG_enumeration_type => {
                let encoding = entry.attr_value(gimli::DW_AT_encoding)?;
                let signed = match (encoding, to) {
                    (Some(AttributeValue::Encoding(encoding)), _) => encoding == gimli::DW_ATE_signed,
                    (_, Some(to)) => {
                        matches!(self.of(Some(to), most - 1)?, Type::Integer { signed: true, .. })
                    }
                    _ => false,
                };
                Type::Integer { bytes: size, signed, is_char: false }
            }
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => Type::Pointer(to.flatten()),
            gimli::DW_TAG_array_type => Type::Array(to.flatten()),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                Type::Aggregate(offset, bytes.unwrap_or(0))
            }
            _ => Type::Unknown,
        })
    }

    /// A value by its path.
    fn value(&self, function: &Function<Offset<R>>, path: &str) -> Found<FunctionValue> {
        let no = |why: String| Ok(Err(format!("'{path}': {why}")));
        let path_text = path.replace("->", ".");
        let mut parts = path_text.split('.').map(str::trim);
        let first = parts.next().unwrap_or_default();
        // The value lies so many bytes behind the address so far.
        let mut behind: Option<u64> = None;
        let (word, mut type_) = if first == "retval" {
            (None, function.returns)
        } else {
            let Some((_, type_, place)) = function.arguments.iter().find(|(name, ..)| name == first) else {
                let names: Vec<&str> = function.arguments.iter().map(|(name, ..)| name.as_str()).collect();
                return no(format!(
                    "the arguments are {}",
                    if names.is_empty() { "none".into() } else { names.join(", ") }
                ));
            };
            match place {
                Ok(place) => {
                    behind = place.behind;
                    (Some(place.word), *type_)
                }
                Err(why) => return no((*why).to_owned()),
            }
        };
        let mut loads = Vec::new();
        for name in parts {
            if let Type::Pointer(to) = type_ {
                loads.extend(behind.take());
                type_ = self.of(to.map(Some), MOST_TYPES)?;
                behind = Some(0);
            }
            if type_ == Type::Unknown {
                return no(format!("the type before '.{name}' is not described in this file alone"));
            }
            let (Type::Aggregate(at, _), Some(before)) = (type_, behind) else {
                return no(format!("there is no struct behind '.{name}' that an address tells"));
            };
            match self.member(at, name, MOST_TYPES)? {
                Some((offset, to)) => {
                    behind = Some(before.saturating_add(offset));
                    type_ = self.of(to, MOST_TYPES)?;
                }
                None => return no(format!("it has no member '{name}' that has an address")),
            }
        }
        loads.extend(behind.filter(|_| !matches!(type_, Type::Aggregate(..))));
        let is_char = |to: Option<Offset<R>>| {
            Ok::<_, gimli::Error>(matches!(
                self.of(to.map(Some), MOST_TYPES)?,
                Type::Integer { is_char: true, .. }
            ))
        };
        let kind = match type_ {
            Type::Integer { bytes: bytes @ (1 | 2 | 4 | 8), signed, .. } => {
                ValueKind::Integer { bytes, signed }
            }
            Type::Pointer(to) if is_char(to)? => {
                loads.push(0);
                ValueKind::Text
            }
            Type::Pointer(_) => ValueKind::Pointer,
            Type::Array(to) if is_char(to)? && behind.is_some() => ValueKind::Text,
            Type::Void => return no("the function returns nothing".to_owned()),
            Type::Fraction { .. } => return no("numbers with a fraction are not told".to_owned()),
            Type::Unknown => return no("its type is not described in this file alone".to_owned()),
            _ => return no("it is no number, no address and no text".to_owned()),
        };
        Ok(Ok(FunctionValue { word, loads, kind }))
    }

    /// A member of a struct: where it is in it, and its type. Members without a name and base classes are looked into.
    #[allow(clippy::type_complexity)]
    fn member(
        &self,
        of: Offset<R>,
        name: &str,
        most: u8,
    ) -> gimli::Result<Option<(u64, Option<Option<Offset<R>>>)>> {
        let mut tree = self.unit.entries_tree(Some(of))?;
        let mut children = tree.root()?.children();
        let mut within = Vec::new();
        while let Some(child) = children.next()? {
            if !self.may_look() {
                return Ok(None);
            }
            let entry = child.entry();
            let is_base = entry.tag() == gimli::DW_TAG_inheritance;
            if entry.tag() != gimli::DW_TAG_member && !is_base {
                continue;
            }
            let place = entry.attr_value(gimli::DW_AT_data_member_location)?;
            let place = match place {
                None => Some(0),
                // As old compilers have it.
                Some(AttributeValue::Exprloc(expression)) => {
                    match expression.operations(self.unit.encoding()).next()? {
                        Some(gimli::Operation::PlusConstant { value }) => Some(value),
                        _ => None,
                    }
                }
                Some(value) => value.udata_value(),
            };
            let to = self.type_of(entry)?;
            let own = match entry.attr_value(gimli::DW_AT_name)? {
                Some(value) => {
                    Some(self.dwarf.attr_string(self.unit, value)?.to_string_lossy()?.into_owned())
                }
                None => None,
            };
            let is_bits = has(entry, gimli::DW_AT_bit_size);
            match (own, place) {
                (Some(own), Some(place)) if own == name && !is_bits => return Ok(Some((place, to))),
                (None, Some(place)) => within.push((place, to)),
                (Some(_), Some(place)) if is_base => within.push((place, to)),
                _ => {}
            }
        }
        for (place, to) in within.into_iter().filter(|_| most > 0) {
            if let Type::Aggregate(at, _) = self.of(to, MOST_TYPES)? {
                if let Some((offset, to)) = self.member(at, name, most - 1)? {
                    return Ok(Some((place.saturating_add(offset), to)));
                }
            }
        }
        Ok(None)
    }
}

fn base<O>(encoding: gimli::DwAte, bytes: u8) -> Type<O> {
    let integer = |signed, is_char| Type::Integer { bytes, signed, is_char };
    match encoding {
        gimli::DW_ATE_signed => integer(true, false),
        gimli::DW_ATE_signed_char => integer(true, true),
        gimli::DW_ATE_unsigned_char => integer(false, true),
        gimli::DW_ATE_unsigned | gimli::DW_ATE_boolean | gimli::DW_ATE_UTF => integer(false, false),
        gimli::DW_ATE_address => Type::Pointer(None),
        gimli::DW_ATE_float => Type::Fraction { bytes },
        _ => Type::Unknown,
    }
}
