//! The kernel's account of BPF programs and of their types: the sections BPF_PROG_INFO and BPF_BTF.

use crate::layout::{FileCodec, FileLayout, Surroundings, bytes32};
use perfuse_abi::ByteOrder;

// Offsets in `struct bpf_prog_info`.
const ID: usize = 4;
const TAG: usize = 8;
const NAME: usize = 64;
const FUNCTIONS: usize = 104;
const TYPES: usize = 128;
const DESCRIPTION_SIZE: usize = 132;

/// An array: the bit that says it is there, and the offset of the pointer to it.
type Array = (u32, usize);
const ADDRESSES: Array = (3, 112);
const LENGTHS: Array = (4, 120);
const DESCRIPTIONS: Array = (5, 136);
const TAGS: Array = (8, 184);

/// The kernel's limit of functions in a program.
const MOST_FUNCTIONS: usize = 256;

/// A BPF program that was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BpfProgram<'a> {
    /// One bit for each array in `data`.
    pub arrays: u64,
    /// `struct bpf_prog_info`, its pointers being offsets into `data`.
    pub info: &'a [u8],
    /// The arrays.
    pub data: &'a [u8],
}

impl<'a> FileLayout<'a> for BpfProgram<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        let (mut info_len, mut data_len) = (self.info.len() as u32, self.data.len() as u32);
        c.u32("length of the info", &mut info_len)?;
        c.u32("length of the data", &mut data_len)?;
        c.u64("arrays", &mut self.arrays)?;
        c.bytes("info", info_len.into(), &mut self.info)?;
        c.bytes("data", data_len.into(), &mut self.data)
    }
}

/// Types of a BPF program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Btf<'a> {
    /// The kernel's number of it.
    pub id: u32,
    /// The types.
    pub bytes: &'a [u8],
}

impl<'a> FileLayout<'a> for Btf<'a> {
    fn layout<C: FileCodec<'a>>(&mut self, c: &mut C, _: &Surroundings) -> Result<(), C::Error> {
        c.u32("id", &mut self.id)?;
        bytes32(c, "types", &mut self.bytes)
    }
}

/// A function of a BPF program, as the kernel compiled it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpfFunction {
    /// Where its code is.
    pub addr: u64,
    /// Bytes of the code.
    pub len: u32,
    /// The name that kallsyms has for it.
    pub name: Vec<u8>,
}

impl BpfProgram<'_> {
    /// The kernel's number of it. 0 if it is not told.
    pub fn id(&self, order: ByteOrder) -> u32 {
        self.u32(order, ID).unwrap_or(0)
    }

    /// The digest of its code.
    pub fn tag(&self) -> [u8; 8] {
        self.info.get(TAG..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
    }

    /// The number of its [types](Btf); 0 without any.
    pub fn types(&self, order: ByteOrder) -> u32 {
        self.u32(order, TYPES).unwrap_or(0)
    }

    /// Its functions, as far as they are told of. Names come from its types, where they are there.
    pub fn functions(&self, order: ByteOrder, types: Option<Btf<'_>>) -> Vec<BpfFunction> {
        let count = (self.u32(order, FUNCTIONS).unwrap_or(0) as usize).min(MOST_FUNCTIONS);
        let item = |array, size: usize, index: usize| {
            self.array(order, array)?.get(size.checked_mul(index)?..)?.get(..size)
        };
        let u64_at = |array, index| Some(order.u64(item(array, 8, index)?.try_into().ok()?));
        let names: Vec<_> = types.into_iter().flat_map(|types| types.names(order)).collect();
        let named = |index| {
            let size = self.u32(order, DESCRIPTION_SIZE)? as usize;
            let description = item(DESCRIPTIONS, size, index)?;
            let type_ = order.u32(*description.get(4..)?.first_chunk()?) as usize;
            first_text(names.get(type_.checked_sub(1)?)?)
        };
        let own = self.info.get(NAME..NAME + 16).and_then(|name| name.split(|&byte| byte == 0).next());
        let function = |index| {
            let mut name = b"bpf_prog_".to_vec();
            item(TAGS, 8, index)?.iter().for_each(|byte| name.extend(format!("{byte:02x}").as_bytes()));
            let last = match (named(index), own) {
                (Some(name), _) => name,
                (None, Some(own)) if count == 1 => own,
                (None, None) if count == 1 => b"",
                (None, _) => b"F",
            };
            if !last.is_empty() {
                name.push(b'_');
                name.extend(last);
            }
            let len = order.u32(item(LENGTHS, 4, index)?.try_into().ok()?);
            Some(BpfFunction { addr: u64_at(ADDRESSES, index)?, len, name })
        };
        (0..count).map_while(function).collect()
    }

    fn u32(&self, order: ByteOrder, at: usize) -> Option<u32> {
        Some(order.u32(*self.info.get(at..)?.first_chunk()?))
    }

    /// The data from where an array begins.
    fn array(&self, order: ByteOrder, (bit, pointer): Array) -> Option<&[u8]> {
        if self.arrays & 1 << bit == 0 {
            return None;
        }
        let offset = order.u64(*self.info.get(pointer..)?.first_chunk()?);
        self.data.get(usize::try_from(offset).ok()?..)
    }
}

/// The text that ends with the first zero, if there is one.
fn first_text(bytes: &[u8]) -> Option<&[u8]> {
    bytes.split(|&byte| byte == 0).next().filter(|text| !text.is_empty())
}

impl<'a> Btf<'a> {
    /// The names of all types, each with what lies behind it, in their order, the first of which is that of type 1:
    /// `Documentation/bpf/btf.rst` of Linux.
    fn names(&self, order: ByteOrder) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let u32_at = move |at: usize| Some(order.u32(*bytes.get(at..)?.first_chunk()?) as usize);
        let place = |field| u32_at(4)?.checked_add(u32_at(field)?);
        let (mut next, strings) = (place(8), place(16));
        let end = next.and_then(|types| types.checked_add(u32_at(12)?));
        std::iter::from_fn(move || {
            let at = next.filter(|&at| end.is_some_and(|end| at < end))?;
            let (name, info) = (u32_at(at)?, u32_at(at + 4)?);
            let (count, kind) = (info & 0xffff, info >> 24 & 0x1f);
            // Bytes behind the first 12.
            let more = match kind {
                1 | 14 | 17 => 4,              // an integer, a variable, a tag
                3 => 12,                       // an array
                4 | 5 | 15 | 19 => count * 12, // struct, union, section, 64-bit enum
                6 | 13 => count * 8,           // enum, function prototype
                _ => 0,
            };
            next = Some(at + 12 + more);
            Some(bytes.get(strings?.checked_add(name)?..).unwrap_or_default())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: ByteOrder = ByteOrder::Big;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|&word| ORDER.bytes32(word)).collect()
    }

    /// An integer, a function prototype with one parameter, and a function.
    fn types() -> Vec<u8> {
        let types = words(&[1, 1 << 24, 4, 32, 0, 13 << 24 | 1, 1, 5, 1, 5, 12 << 24, 2]);
        let strings = b"\0int\0main\0";
        let header = words(&[0x1_eb9f, 24, 0, types.len() as u32, types.len() as u32, strings.len() as u32]);
        [&header[..], &types, strings].concat()
    }

    #[test]
    fn types_have_names() {
        let bytes = types();
        let names = |bytes| Btf { id: 1, bytes }.names(ORDER).map(first_text).collect::<Vec<_>>();
        assert_eq!(names(&bytes), [Some(&b"int"[..]), None, Some(b"main")]);
        assert_eq!(names(&bytes[..30]), []);
        assert_eq!(names(&[]), []);
    }

    /// A program with so many functions of which it tells the addresses, lengths, tags and types.
    fn program(count: u32, name: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut info, mut data) = (vec![0; 192], Vec::new());
        let mut set = |at: usize, bytes: &[u8]| info[at..][..bytes.len()].copy_from_slice(bytes);
        set(ID, &ORDER.bytes32(7));
        set(NAME, name);
        set(FUNCTIONS, &ORDER.bytes32(count));
        set(DESCRIPTION_SIZE, &ORDER.bytes32(8));
        for ((_, pointer), item) in [
            (ADDRESSES, &words(&[0xffff_ffff, 0xc000_1000])[..]),
            (LENGTHS, &words(&[61])),
            (DESCRIPTIONS, &words(&[0, 3])),
            (TAGS, &[0xab, 0xcd, 0, 1, 2, 3, 4, 5]),
        ] {
            set(pointer, &ORDER.bytes64(data.len() as u64));
            (0..count).for_each(|_| data.extend(item));
        }
        (info, data)
    }

    #[test]
    fn functions_are_called_as_in_kallsyms() {
        let types = types();
        let names = |count, name: &[u8], types: Option<&[u8]>| -> Vec<String> {
            let (info, data) = program(count, name);
            let program = BpfProgram { arrays: u64::MAX, info: &info, data: &data };
            assert_eq!(program.id(ORDER), 7);
            let functions = program.functions(ORDER, types.map(|bytes| Btf { id: 1, bytes }));
            let is_told =
                |function: &BpfFunction| (function.addr, function.len) == (0xffff_ffff_c000_1000, 61);
            assert!(functions.iter().all(is_told), "{functions:?}");
            functions.iter().map(|function| String::from_utf8_lossy(&function.name).into_owned()).collect()
        };
        assert_eq!(names(1, b"sd_devices", None), ["bpf_prog_abcd000102030405_sd_devices"]);
        assert_eq!(names(1, b"", None), ["bpf_prog_abcd000102030405"]);
        assert_eq!(names(1, b"sd_devices", Some(&types)), ["bpf_prog_abcd000102030405_main"]);
        assert_eq!(names(2, b"x", None), ["bpf_prog_abcd000102030405_F"; 2]);
        let (info, data) = program(3, b"x");
        let short = BpfProgram { arrays: u64::MAX, info: &info, data: &data[..data.len() - 1] };
        assert_eq!(short.functions(ORDER, None).len(), 2, "the last tag is cut off");
        assert_eq!(BpfProgram::default().functions(ORDER, None), []);
    }
}
