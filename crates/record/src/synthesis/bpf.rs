//! Loaded BPF programs: where their code is, as records that seem to come from before the recording, and
//! what the kernel tells about them, for the header of the file.

use super::{Receiver, Synthesis};
use perfuse::abi::ByteOrder;
use perfuse::abi::record::{BpfEvent, BpfEventType, CpuMode, Ksymbol, KsymbolType, Misc, Record};
use perfuse::abi::wire::Text;
use perfuse_data::feature::{BpfFunction, BpfProgram, Btf};
use perfuse_sys::bpf::{self, ProgramInfo, array};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

/// The arrays of a program that perf keeps.
const ARRAYS: [usize; 7] = [
    array::JITED_INSNS,
    array::JITED_KSYMS,
    array::JITED_FUNC_LENS,
    array::FUNC_INFO,
    array::LINE_INFO,
    array::JITED_LINE_INFO,
    array::PROG_TAGS,
];

/// Programs that were seen, also such as are gone by now.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    programs: BTreeMap<u32, Program>,
    types: BTreeMap<u32, Vec<u8>>,
}

#[derive(Debug)]
struct Program {
    arrays: u64,
    /// The info as files have it: its pointers are offsets into the data.
    info_bytes: Vec<u8>,
    data: Vec<u8>,
}

impl Programs {
    /// Looks at all programs that are loaded now. Nothing is found by those who may not know.
    pub(crate) fn look(&mut self) {
        let mut id = 0;
        while let Ok(next) = bpf::next_program(id) {
            id = next;
            self.add(id);
        }
    }

    /// Looks at a program, unless it is gone already.
    pub(crate) fn add(&mut self, id: u32) {
        let info = bpf::program(id).and_then(|program| bpf::program_info(program.as_fd(), &ARRAYS));
        let Ok(info) = info else { return };
        let program = Program::new(&info);
        let types = program.told().types(ByteOrder::NATIVE);
        if types != 0 && !self.types.contains_key(&types) {
            if let Ok(bytes) = bpf::types(types).and_then(|types| bpf::type_bytes(types.as_fd())) {
                self.types.insert(types, bytes);
            }
        }
        self.programs.insert(id, program);
    }

    /// For the section BPF_PROG_INFO.
    pub(crate) fn section(&self) -> Vec<BpfProgram<'_>> {
        self.programs.values().map(Program::told).collect()
    }

    /// For the section BPF_BTF.
    pub(crate) fn types(&self) -> Vec<Btf<'_>> {
        self.types.iter().map(|(&id, bytes)| Btf { id, bytes }).collect()
    }
}

impl Program {
    fn new(info: &ProgramInfo) -> Self {
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
        Program { arrays, info_bytes, data }
    }

    fn told(&self) -> BpfProgram<'_> {
        BpfProgram { arrays: self.arrays, info: &self.info_bytes, data: &self.data }
    }
}

impl<R: Receiver> Synthesis<'_, R> {
    /// The programs that are loaded.
    pub(crate) fn bpf(&mut self, all: &Programs) -> io::Result<()> {
        for (&id, program) in &all.programs {
            let program = program.told();
            let types = program.types(ByteOrder::NATIVE);
            let types = all.types.get(&types).map(|bytes| Btf { id: types, bytes });
            for BpfFunction { addr, len, name } in program.functions(ByteOrder::NATIVE, types) {
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
