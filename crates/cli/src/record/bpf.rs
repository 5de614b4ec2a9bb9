//! Loaded BPF programs: where their code is, as records that seem to come from before the recording, and
//! what the kernel tells about them, for the header of the file.

use super::synthesis::{Receiver, Synthesis};
use perfuse::abi::record::{BpfEvent, BpfEventType, CpuMode, Ksymbol, KsymbolType, Misc, Record};
use perfuse::abi::wire::Text;
use perfuse_data::feature::{BpfProgram, Btf};
use perfuse_sys::bpf::{self, ProgramInfo, array};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

/// What perf keeps of a program.
const ARRAYS: [usize; 7] = [
    array::JITED_INSNS,
    array::JITED_KSYMS,
    array::JITED_FUNC_LENS,
    array::FUNC_INFO,
    array::LINE_INFO,
    array::JITED_LINE_INFO,
    array::PROG_TAGS,
];

// Offsets in `struct bpf_prog_info`.
const TAG: usize = 8;
const NAME: usize = 64;
const TYPES: usize = 128;
const FUNC_INFO_SIZE: usize = 132;

/// Programs that were seen, also such as are gone by now.
#[derive(Debug, Default)]
pub(super) struct Programs {
    programs: BTreeMap<u32, Program>,
    types: BTreeMap<u32, Vec<u8>>,
}

#[derive(Debug)]
struct Program {
    info: ProgramInfo,
    arrays: u64,
    /// The info as files have it: its pointers are offsets into the data.
    info_bytes: Vec<u8>,
    data: Vec<u8>,
}

impl Programs {
    /// Looks at all programs that are loaded now. Nothing is found by those who may not know.
    pub(super) fn look(&mut self) {
        let mut id = 0;
        while let Ok(next) = bpf::next_program(id) {
            id = next;
            self.add(id);
        }
    }

    /// Looks at a program, unless it is gone already.
    pub(super) fn add(&mut self, id: u32) {
        let info = bpf::program(id).and_then(|program| bpf::program_info(program.as_fd(), &ARRAYS));
        let Ok(info) = info else { return };
        let types = info.u32(TYPES);
        if types != 0 && !self.types.contains_key(&types) {
            if let Ok(bytes) = bpf::types(types).and_then(|types| bpf::type_bytes(types.as_fd())) {
                self.types.insert(types, bytes);
            }
        }
        self.programs.insert(id, Program::new(info));
    }

    /// For the section BPF_PROG_INFO.
    pub(super) fn section(&self) -> Vec<BpfProgram<'_>> {
        let programs = self.programs.values();
        programs
            .map(|program| BpfProgram {
                arrays: program.arrays,
                info: &program.info_bytes,
                data: &program.data,
            })
            .collect()
    }

    /// For the section BPF_BTF.
    pub(super) fn types(&self) -> Vec<Btf<'_>> {
        self.types.iter().map(|(&id, bytes)| Btf { id, bytes }).collect()
    }
}

impl Program {
    fn new(info: ProgramInfo) -> Self {
        let (mut arrays, mut info_bytes, mut data) = (0, info.info.clone(), Vec::new());
        for index in ARRAYS {
            let bytes = &info.arrays[index];
            let place = ProgramInfo::pointer_at(index);
            if bytes.is_empty() || place + 8 > info_bytes.len() {
                continue;
            }
            arrays |= 1 << index;
            info_bytes[place..][..8].copy_from_slice(&(data.len() as u64).to_ne_bytes());
            data.extend_from_slice(bytes);
            data.resize(data.len().next_multiple_of(8), 0);
        }
        Program { info, arrays, info_bytes, data }
    }

    fn tag(&self) -> [u8; 8] {
        self.info.info.get(TAG..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
    }

    /// The functions: address, length, and the name that kallsyms has, too.
    fn functions(&self, types: Option<&[u8]>) -> Vec<(u64, u32, Vec<u8>)> {
        let addresses = words(&self.info.arrays[array::JITED_KSYMS]);
        let lengths = self.info.arrays[array::JITED_FUNC_LENS].chunks_exact(4);
        let lengths = lengths.map(|bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        let tags = words(&self.info.arrays[array::PROG_TAGS]).map(u64::to_ne_bytes);
        let single = addresses.len() == 1;
        let named = |index: usize| {
            let size = self.info.u32(FUNC_INFO_SIZE) as usize;
            let item = self.info.arrays[array::FUNC_INFO].get(index.checked_mul(size)?..)?;
            type_name(types?, u32::from_ne_bytes(*item.get(4..)?.first_chunk()?))
        };
        let functions = addresses.zip(lengths).zip(tags).enumerate();
        let functions = functions.map(|(index, ((address, len), tag))| {
            let mut name = b"bpf_prog_".to_vec();
            tag.iter().for_each(|byte| name.extend(format!("{byte:02x}").as_bytes()));
            let own =
                self.info.info.get(NAME..NAME + 16).and_then(|name| name.split(|&byte| byte == 0).next());
            let own = own.filter(|name| single && !name.is_empty());
            match (named(index), own) {
                (Some(function), _) => name.extend([b"_", function].concat()),
                (None, Some(own)) => name.extend([b"_", own].concat()),
                (None, None) if single => {}
                (None, None) => name.extend(b"_F"),
            }
            (address, len, name)
        });
        functions.collect()
    }
}

fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
}

/// The name of a type in BTF, `Documentation/bpf/btf.rst` of Linux.
fn type_name(btf: &[u8], id: u32) -> Option<&[u8]> {
    let u32_at = |at: usize| Some(u32::from_ne_bytes(*btf.get(at..)?.first_chunk()?) as usize);
    let (header, types, strings) = (u32_at(4)?, u32_at(8)?, u32_at(16)?);
    let mut at = header.checked_add(types)?;
    for _ in 1..id {
        let info = u32_at(at + 4)?;
        let (count, kind) = (info & 0xffff, info >> 24 & 0x1f);
        // What follows the first 12 bytes.
        at += 12
            + match kind {
                1 | 14 | 17 => 4,              // an integer, a variable, a tag
                3 => 12,                       // an array
                4 | 5 | 15 | 19 => count * 12, // struct, union, section, 64-bit enum
                6 | 13 => count * 8,           // enum, function prototype
                _ => 0,
            };
    }
    let name = btf.get(header.checked_add(strings)?.checked_add(u32_at(at)?)?..)?;
    name.split(|&byte| byte == 0).next().filter(|name| !name.is_empty())
}

impl<R: Receiver> Synthesis<'_, R> {
    /// The programs that are loaded.
    pub(super) fn bpf(&mut self, all: &Programs) -> io::Result<()> {
        for (&id, program) in &all.programs {
            let types = all.types.get(&program.info.u32(TYPES)).map(Vec::as_slice);
            for (addr, len, name) in program.functions(types) {
                let kind = KsymbolType::BPF;
                let symbol = Ksymbol { addr, len, kind, name: Text::new(&name), ..Ksymbol::default() };
                self.send(Record::Ksymbol(symbol), CpuMode::KERNEL, Misc::empty())?;
            }
            let event =
                BpfEvent { kind: BpfEventType::PROG_LOAD, id, tag: program.tag(), ..BpfEvent::default() };
            self.send(Record::BpfEvent(event), CpuMode::KERNEL, Misc::empty())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
        // An integer, a function prototype with one parameter, and a function.
        let types = words(&[1, 1 << 24, 4, 32, 0, 13 << 24 | 1, 1, 5, 1, 5, 12 << 24, 2]);
        let strings = b"\0int\0main\0";
        let header = words(&[0x1_eb9f, 24, 0, types.len() as u32, types.len() as u32, strings.len() as u32]);
        let btf = [&header[..], &types, strings].concat();
        assert_eq!(type_name(&btf, 1), Some(&b"int"[..]));
        assert_eq!(type_name(&btf, 2), None);
        assert_eq!(type_name(&btf, 3), Some(&b"main"[..]));
        assert_eq!((type_name(&btf, 9), type_name(&btf[..30], 3)), (None, None));
    }
}
