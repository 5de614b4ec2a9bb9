//! Stacks of a process that runs: from registers and copies of stacks of its threads to functions, files and lines.

use crate::registers::Registers;
use crate::stack::{End, Stack};
use crate::unwinder::Unwinder;
use perfuse_abi::ByteOrder;
use perfuse_abi::record::{CpuMode, Decoded, Misc, Mmap2, MmapFile, Record, Regs, Tid};
use perfuse_abi::regs::Arch;
use perfuse_abi::wire::Text;
use perfuse_data::session::{Level, Session};
use perfuse_symbols::{Address, DsoKey, DsoKind, Signatures, Symbolizer, demangle};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A place on a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningFrame {
    /// Its address: that of the instruction that a thread is at, or of the last byte of the one that called.
    pub address: u64,
    /// The function, demangled. `None` where no symbol is known.
    pub function: Option<String>,
    /// How far into the function it is, in bytes. `None` for inlined functions.
    pub offset: Option<u64>,
    /// The program or library, or what the kernel shows in place of one.
    pub object: PathBuf,
    /// The source file and the line in it, where debug information tells them.
    pub line: Option<(String, u32)>,
    /// Whether it was inlined into the frame that comes next.
    pub is_inlined: bool,
}

/// A process that runs, with its mappings as they were when it was looked at.
pub struct RunningStacks {
    pid: u32,
    session: Session,
    unwinder: Unwinder,
    symbolizer: Arc<Symbolizer>,
}

impl RunningStacks {
    /// Of a process, with the files that a symbolizer finds. `most` frames of each stack are followed.
    ///
    /// # Errors
    ///
    /// Its mappings cannot be read: it is gone, or another user's.
    pub fn of(pid: u32, symbolizer: Arc<Symbolizer>, most: usize) -> io::Result<Self> {
        let maps = perfuse_proc::read::maps(pid)?;
        let mut session = Session::new();
        for map in perfuse_proc::maps(&maps).filter(|map| map.prot & perfuse_proc::Map::EXEC != 0) {
            let ino = map.inode;
            let filename = if map.name.is_empty() { &b"//anon"[..] } else { map.name };
            let record = Record::Mmap2(Mmap2 {
                tid: Tid { pid, tid: pid },
                addr: map.start,
                len: map.len(),
                pgoff: map.offset,
                file: MmapFile::Inode { maj: map.device.0, min: map.device.1, ino, ino_generation: 0 },
                prot: map.prot,
                flags: 2,
                filename: Text::new(filename),
            });
            let misc = Misc::empty().with_cpu_mode(CpuMode::USER);
            session.apply(&Decoded { misc, ..Decoded::from(record) });
        }
        Ok(RunningStacks { pid, session, unwinder: Unwinder::of_running().with_most(most), symbolizer })
    }

    /// The addresses of a thread's stack, the innermost first, and how it ended. `None` of a thread of 32 bits. The registers are
    /// numbered as perf numbers them, and `stack` is a copy from the stack pointer on.
    pub fn unwind(&mut self, regs: &Regs<'_>, stack: &[u8]) -> Option<(Vec<u64>, End)> {
        let registers = Registers::of(regs, Arch::NATIVE?)?;
        let stack = Stack { start: registers.sp()?, bytes: stack, order: ByteOrder::NATIVE };
        let mut chain = Vec::new();
        let end = self.unwinder.walk(&self.session, (self.pid, self.pid), registers, &stack, &mut chain);
        Some((chain, end))
    }

    /// The frames at an address: those of functions that were inlined there first, then that of the function itself.
    pub fn frames(&self, address: u64) -> Vec<RunningFrame> {
        let bare = RunningFrame { address, ..RunningFrame::default() };
        let Some(found) = self.session.resolve(self.pid, self.pid, Level::User, address) else {
            return vec![bare];
        };
        let object = self.session.object(found.map.object);
        let key = DsoKey::of_map(&object.name, self.pid);
        let place = match key.kind {
            DsoKind::Anonymous { .. } | DsoKind::Vsyscall => Address::Memory(address),
            _ => Address::FileOffset(found.place),
        };
        // Another process may see other files under these names.
        let pid = (key.kind == DsoKind::File).then_some(self.pid);
        let dso = self.symbolizer.dso(&DsoKey { pid, ..key });
        let bare = RunningFrame { object: dso.path().to_owned(), ..bare };
        let symbol = dso.find(place);
        let named = |function: Option<String>, offset, line, is_inlined| RunningFrame {
            function: function.or_else(|| Some(symbol.as_ref()?.symbol.demangled().into_owned())),
            offset,
            line,
            is_inlined,
            ..bare.clone()
        };
        let offset = symbol.as_ref().map(|found| found.offset);
        let mut frames = Vec::new();
        if let Some(((info, shift), counted)) = dso.debug_info().zip(dso.address(place)) {
            info.frames(&[counted.wrapping_sub(shift)], &mut |_, frame| {
                let line = frame.file.filter(|_| frame.line != 0).map(|file| (file.to_owned(), frame.line));
                let name = (frame.name)().map(|name| demangle(name, Signatures::Short).into_owned());
                match frame.is_inlined {
                    true => frames.push(named(name, None, line, true)),
                    false if symbol.is_some() => frames.push(named(None, offset, line, false)),
                    false => frames.push(named(name, offset, line, false)),
                }
            });
        }
        if frames.last().is_none_or(|last| last.is_inlined) {
            frames.push(named(None, offset, None, false));
        }
        frames
    }
}
