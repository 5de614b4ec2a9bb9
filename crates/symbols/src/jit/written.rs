//! Code of a jitdump as ELF files, one for each function, as `perf inject --jit` writes them: tools that know nothing of
//! jitdumps find names, instructions and unwinding data there.

use super::dump::{JitDump, JitEvent};
use crate::error::Error;
use perfuse_files::BuildId;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the code begins in each file.
const TEXT: u64 = 0xc0;
/// The code of a function is no larger, and its unwinding data neither.
const MOST: u64 = 16 << 20;
/// So many functions of a dump get files.
const MOST_FILES: u32 = 1 << 20;

/// A function of a jitdump that has become a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenCode {
    /// The address at which it ran.
    pub address: u64,
    /// The bytes that were in memory: the code, and the unwinding data behind it.
    pub size: u64,
    /// Where in the file they begin.
    pub offset: u64,
    /// When it was there, on the clock of the jitdump.
    pub time: u64,
    /// The file.
    pub path: PathBuf,
}

/// The outcome for a jitdump.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WrittenDump {
    /// Files that were written.
    pub files: u64,
    /// Functions without code in the dump, of which there is nothing to write.
    pub without_code: u64,
    /// The fault that ended it before its end.
    pub damage: Option<Error>,
}

/// The data to unwind the next function.
struct Unwinding {
    bytes: Vec<u8>,
    header: u64,
}

impl JitDump {
    /// Writes each function of the file as `jitted-PID-NUMBER.so` into a folder, and tells `each` of it. A file that has that
    /// name is replaced. A function that moves is told again, at its new address.
    ///
    /// # Errors
    ///
    /// A file cannot be written; those of `each`. A damaged dump is no error: all before the damage counts.
    pub fn write_files(
        mut self,
        folder: &Path,
        each: &mut dyn FnMut(&WrittenCode) -> io::Result<()>,
    ) -> io::Result<WrittenDump> {
        let mut done = WrittenDump::default();
        let mut written: HashMap<u64, (PathBuf, u64)> = HashMap::new();
        let mut unwinding: Option<Unwinding> = None;
        let (machine, pid) = (self.header().machine, self.header().pid);
        let mut number = 0;
        loop {
            let record = match self.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(done),
                Err(error) => {
                    done.damage = Some(error);
                    return Ok(done);
                }
            };
            let time = record.time;
            match record.event {
                JitEvent::Unwinding { header, data, size, .. } => {
                    let bytes = if size <= MOST { self.code(data, size).ok() } else { None };
                    unwinding =
                        bytes.filter(|_| header <= size && size > 0).map(|bytes| Unwinding { bytes, header });
                }
                JitEvent::Load { address, size, index, name, code, .. } => {
                    let unwinding = unwinding.take();
                    let code = code.filter(|_| size > 0 && size <= MOST && number < MOST_FILES);
                    let Some(code) = code else {
                        done.without_code += 1;
                        continue;
                    };
                    let code = match self.code(code, size) {
                        Ok(code) => code,
                        Err(error) => {
                            done.damage = Some(error);
                            return Ok(done);
                        }
                    };
                    let path = folder.join(format!("jitted-{pid}-{number}.so"));
                    number += 1;
                    let made = Made { code: &code, name: &name, unwinding: unwinding.as_ref() };
                    let (bytes, size) = made.file(machine, self.is_big_endian(), address);
                    replace(&path, &bytes)?;
                    done.files += 1;
                    written.insert(index, (path.clone(), size));
                    each(&WrittenCode { address, size, offset: TEXT, time, path })?;
                }
                JitEvent::Move { to, index, .. } => {
                    if let Some((path, size)) = written.get(&index) {
                        let (path, size) = (path.clone(), *size);
                        each(&WrittenCode { address: to, size, offset: TEXT, time, path })?;
                    }
                }
                _ => {}
            }
        }
    }
}

/// Puts a file there at once, in place of whatever has its name: a link is replaced, and not followed.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut new = OsString::from(path);
    new.push(format!(".{}.new", std::process::id()));
    let write = || -> io::Result<()> {
        let mut file = fs::File::options().write(true).create_new(true).open(&new)?;
        io::Write::write_all(&mut file, bytes)?;
        fs::rename(&new, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&new)))
}

/// A function of which a file is made.
struct Made<'f> {
    code: &'f [u8],
    name: &'f [u8],
    unwinding: Option<&'f Unwinding>,
}

/// A section of the file.
struct Part<'f> {
    name: &'static str,
    kind: u32,
    flags: u64,
    at: u64,
    bytes: &'f [u8],
    link: u32,
    info: u32,
    align: u64,
    entry: u64,
}

impl Made<'_> {
    /// The file, and how many of its bytes are mapped.
    fn file(&self, machine: u32, big_endian: bool, address: u64) -> (Vec<u8>, u64) {
        let number = Numbers { big_endian };
        let code_end = TEXT + self.code.len() as u64;
        let unwinding_at = code_end.next_multiple_of(8);
        let (frames, header) = match self.unwinding {
            Some(unwinding) => {
                let header = unwinding.header.min(unwinding.bytes.len() as u64) as usize;
                unwinding.bytes.split_at(unwinding.bytes.len() - header)
            }
            None => (&[][..], &[][..]),
        };
        let mapped_end = match self.unwinding {
            Some(unwinding) => unwinding_at + unwinding.bytes.len() as u64,
            None => code_end,
        };
        let header_at = unwinding_at + frames.len() as u64;
        let note_at = mapped_end.next_multiple_of(8);

        let mut note = Vec::new();
        [4, BuildId::MAX as u32, 3].iter().for_each(|&word| number.word(&mut note, word));
        note.extend(b"GNU\0");
        note.extend(self.id(address));

        // The first symbol is none, the second one the function.
        let mut symbols = vec![0; 24];
        number.word(&mut symbols, 1);
        symbols.extend([0x12, 0]); // a global function
        number.half(&mut symbols, 1); // in the first section
        number.long(&mut symbols, TEXT);
        number.long(&mut symbols, self.code.len() as u64);
        let mut names = vec![0];
        names.extend(self.name.iter().copied().filter(|&byte| byte != 0));
        names.push(0);

        let part = |name, kind, flags, at, bytes, align| Part {
            name,
            kind,
            flags,
            at,
            bytes,
            link: 0,
            info: 0,
            align,
            entry: 0,
        };
        let (loaded, code) = (2, 6);
        let mut parts = vec![part(".text", 1, code, TEXT, self.code, 16)];
        if self.unwinding.is_some() {
            parts.push(part(".eh_frame", 1, loaded, unwinding_at, frames, 8));
            parts.push(part(".eh_frame_hdr", 1, loaded, header_at, header, 4));
        }
        parts.push(part(".note.gnu.build-id", 7, loaded, note_at, &note, 4));
        let symbols_at = (note_at + note.len() as u64).next_multiple_of(8);
        let names_at = symbols_at + symbols.len() as u64;
        let link = parts.len() as u32 + 2;
        let table = part(".symtab", 2, 0, symbols_at, &symbols, 8);
        parts.push(Part { link, info: 1, entry: 24, ..table });
        parts.push(part(".strtab", 3, 0, names_at, &names, 1));
        let mut section_names = vec![0];
        let own = [".shstrtab"];
        let all = parts.iter().map(|part| part.name).chain(own);
        let named: Vec<u32> = all
            .map(|name| {
                let at = section_names.len() as u32;
                section_names.extend(name.as_bytes());
                section_names.push(0);
                at
            })
            .collect();
        let section_names_at = names_at + names.len() as u64;
        parts.push(part(".shstrtab", 3, 0, section_names_at, &section_names, 1));
        let table_at = (section_names_at + section_names.len() as u64).next_multiple_of(8);

        let mut file = vec![0x7f, b'E', b'L', b'F', 2, if big_endian { 2 } else { 1 }, 1];
        file.resize(16, 0);
        number.half(&mut file, 3); // a shared object
        number.half(&mut file, machine as u16);
        number.word(&mut file, 1);
        [TEXT, 64, table_at].iter().for_each(|&long| number.long(&mut file, long));
        number.word(&mut file, 0);
        let counts = [64, 56, 2, 64, parts.len() as u16 + 1, parts.len() as u16];
        counts.iter().for_each(|&half| number.half(&mut file, half));
        let note_end = note_at + note.len() as u64;
        for (kind, flags, from, to, align) in [(1, 5, 0, note_end, 0x1000), (4, 4, note_at, note_end, 4)] {
            number.word(&mut file, kind);
            number.word(&mut file, flags);
            [from, from, from, to - from, to - from, align]
                .iter()
                .for_each(|&long| number.long(&mut file, long));
        }
        for part in &parts {
            file.resize(part.at as usize, 0);
            file.extend(part.bytes);
        }
        file.resize(table_at as usize + 64, 0);
        for (part, name) in parts.iter().zip(named) {
            number.word(&mut file, name);
            number.word(&mut file, part.kind);
            let address = if part.flags != 0 { part.at } else { 0 };
            let longs = [part.flags, address, part.at, part.bytes.len() as u64];
            longs.iter().for_each(|&long| number.long(&mut file, long));
            [part.link, part.info].iter().for_each(|&word| number.word(&mut file, word));
            [part.align, part.entry].iter().for_each(|&long| number.long(&mut file, long));
        }
        (file, mapped_end - TEXT)
    }

    /// A build-id of the name, the address and the code: the same for the same function, and not for another.
    fn id(&self, address: u64) -> [u8; BuildId::MAX] {
        let mut id = [0; BuildId::MAX];
        for (seed, part) in id.chunks_exact_mut(4).enumerate() {
            let mut hash = 0xcbf2_9ce4_8422_2325u64 ^ (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let bytes = self.name.iter().chain(&[0]).chain(self.code);
            for &byte in address.to_le_bytes().iter().chain(bytes) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
            part.copy_from_slice(&((hash >> 32) as u32 ^ hash as u32).to_le_bytes());
        }
        id
    }
}

/// Numbers in the byte order of the file.
#[derive(Clone, Copy)]
struct Numbers {
    big_endian: bool,
}

impl Numbers {
    fn half(self, file: &mut Vec<u8>, half: u16) {
        file.extend(if self.big_endian { half.to_be_bytes() } else { half.to_le_bytes() });
    }

    fn word(self, file: &mut Vec<u8>, word: u32) {
        file.extend(if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() });
    }

    fn long(self, file: &mut Vec<u8>, long: u64) {
        file.extend(if self.big_endian { long.to_be_bytes() } else { long.to_le_bytes() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::Elf;

    #[test]
    fn a_made_file_is_an_elf_file_of_one_function() {
        for big_endian in [false, true] {
            let unwinding = Unwinding { bytes: vec![7; 44], header: 20 };
            for unwinding in [None, Some(&unwinding)] {
                let made = Made { code: &[0x90; 13], name: b"_ZN3foo3barEv", unwinding };
                let (bytes, mapped) = made.file(62, big_endian, 0x7000);
                let elf = Elf::from_bytes("made", bytes).expect("an ELF file");
                assert_eq!((elf.machine(), elf.is_big_endian(), elf.is_64()), (62, big_endian, true));
                assert_eq!(mapped, if unwinding.is_some() { 16 + 44 } else { 13 });
                assert_eq!(elf.address_of(TEXT), Some(TEXT));
                assert!(elf.build_id().expect("notes").is_some());
                let table = elf.symbols().expect("symbols");
                let found = table.find(TEXT + 12).expect("found");
                assert_eq!((found.symbol.demangled().as_ref(), found.offset), ("foo::bar", 12));
                assert!(table.find(TEXT + 13).is_none());
                let sections = elf.unwind_sections().expect("sections");
                assert_eq!(sections.eh_frame.is_empty(), unwinding.is_none());
            }
        }
        let id = |name: &[u8], address| Made { code: &[1], name, unwinding: None }.id(address);
        assert!(id(b"a", 1) == id(b"a", 1) && id(b"a", 1) != id(b"b", 1) && id(b"a", 1) != id(b"a", 2));
    }
}
