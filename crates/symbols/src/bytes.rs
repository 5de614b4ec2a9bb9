//! The instructions of a DSO: their bytes, from the file or the running kernel's memory, or the reason why there are none.

use crate::code::Code;
use crate::dso::Dso;
use crate::elf::Elf;
use crate::error::{Error, Problem};
use crate::key::DsoKind;
use crate::load;
use std::fmt;
use std::path::Path;

/// No function is read further.
const MAX_CODE: u64 = 16 << 20;
/// The memory of the running kernel as an ELF file.
const KCORE: &str = "/proc/kcore";

/// The bytes of a piece of code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeBytes {
    /// The bytes: as many as were asked for, or as there are.
    pub bytes: Vec<u8>,
    /// The machine that they are for, a number of the `EM_*` family.
    pub machine: u16,
    /// 64 bits, not 32.
    pub is_64: bool,
}

/// The reason why there are no bytes of a piece of code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoCode {
    /// A process made it at run time, and what tells its name has no code.
    Made,
    /// The file has no code there, or is none to read.
    Unreadable(Error),
    /// There is no file: the reason in words.
    NoFile(String),
    /// The kernel that was recorded is not the one that runs, and its file was not given.
    OtherKernel,
    /// The file of a kernel module is not linked yet: its addresses are those of no memory.
    Module,
}

impl fmt::Display for NoCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCode::Made => f.write_str("the process made it while it ran, and no file has it"),
            NoCode::Unreadable(error) => error.fmt(f),
            NoCode::NoFile(why) => f.write_str(why),
            NoCode::OtherKernel => f.write_str("the kernel of the recording is not the one that runs"),
            NoCode::Module => f.write_str("the file of a kernel module does not tell where its code is"),
        }
    }
}

impl std::error::Error for NoCode {}

impl Elf {
    /// The bytes of code from an address on, as the file's symbols count: at most `size` of them, and those that are in
    /// the file.
    ///
    /// # Errors
    ///
    /// The file has nothing at this address, or cannot be read.
    pub fn code(&self, address: u64, size: u64) -> Result<CodeBytes, Error> {
        let none = || self.image_error(address, Problem::Malformed("nothing of the file is loaded there"));
        let (offset, available) = self.layout().offset_of(address).ok_or_else(none)?;
        let bytes = self.read_code(offset, size.min(available).min(MAX_CODE))?;
        Ok(CodeBytes { bytes, machine: self.machine(), is_64: self.is_64() })
    }
}

impl Dso {
    /// The bytes of code from an address on, as the DSO's symbols count: at most `size` of them.
    ///
    /// # Errors
    ///
    /// There is no code to read.
    pub fn code(&self, address: u64, size: u64) -> Result<CodeBytes, NoCode> {
        let local;
        let loaded = match self.sealed() {
            None => self.load(),
            Some(sealed) => match sealed.code(address, size) {
                Some((bytes, machine, is_64)) => {
                    return Ok(CodeBytes { bytes: bytes.to_vec(), machine, is_64 });
                }
                None => {
                    local = self.read_here(&self.meant(sealed));
                    &local.loaded
                }
            },
        };
        let read = |elf: &Elf| elf.code(address, size).map_err(NoCode::Unreadable);
        let why = || NoCode::NoFile(self.missing().map_or("it has no file".to_owned(), ToString::to_string));
        match (&self.key.kind, &loaded.code) {
            (DsoKind::Anonymous { .. }, _) => Err(NoCode::Made),
            (DsoKind::Vdso, Code::File { .. }) => {
                read(&load::vdso_file(&self.shared, &self.key).map_err(NoCode::Unreadable)?)
            }
            (DsoKind::Kernel { .. } | DsoKind::Module { .. }, Code::Kernel { symbols, .. }) => {
                match self.shared.is_running(symbols) {
                    true => read(&Elf::open(Path::new(KCORE)).map_err(NoCode::Unreadable)?),
                    false => Err(NoCode::OtherKernel),
                }
            }
            (DsoKind::File | DsoKind::Kernel { .. } | DsoKind::Module { .. }, _) => {
                let sources = &loaded.sources;
                let path = sources.binary.as_ref().or(sources.debug.as_ref()).ok_or_else(why)?;
                let elf = load::open_build(path, self.key.build_id.as_ref());
                let elf = elf.map_err(|missing| NoCode::NoFile(missing.to_string()))?;
                if elf.is_relocatable() { Err(NoCode::Module) } else { read(&elf) }
            }
            _ => Err(why()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, DsoKey, Symbolizer};

    #[test]
    fn code_of_the_vdso_is_that_of_its_image() {
        // Not every machine has one.
        let Ok(image) = crate::vdso_image() else { return };
        let elf = Elf::from_bytes("vdso", image.clone()).expect("an ELF file");
        let table = elf.symbols().expect("symbols");
        let dso = Symbolizer::default().dso(&DsoKey::of_map(b"[vdso]", 1));
        for symbol in table.iter().filter(|symbol| symbol.size > 0) {
            let Some((offset, _)) = elf.layout().offset_of(symbol.start) else { continue };
            let code = dso.code(symbol.start, symbol.size).expect("code");
            let start = offset as usize;
            assert_eq!(code.bytes, image[start..start + code.bytes.len()]);
            assert_eq!((code.machine, code.is_64), (elf.machine(), elf.is_64()));
            let place = dso.find(Address::FileOffset(offset)).map(|found| found.symbol.start);
            assert_eq!(dso.find_counted(symbol.start).map(|found| found.symbol.start), place);
        }
        assert!(matches!(dso.code(1 << 40, 4), Err(NoCode::Unreadable(_))));
    }

    #[test]
    fn code_that_nobody_has_is_told() {
        let symbolizer = Symbolizer::default();
        let code = |name: &[u8]| symbolizer.dso(&DsoKey::of_map(name, 1)).code(0, 4);
        assert_eq!(code(b"//anon"), Err(NoCode::Made));
        assert!(
            matches!(code(b"/nonexistent/prog"), Err(NoCode::NoFile(why)) if why.contains("no such file"))
        );
        let list = SymbolOptionsOfList::new();
        let kernel = Symbolizer::new(list.0.clone()).dso(&DsoKey::kernel(None));
        assert_eq!(kernel.code(0xffff_ffff_8100_0000, 4), Err(NoCode::OtherKernel));
    }

    /// Options with a list of symbols in place of the running kernel's, gone with this.
    struct SymbolOptionsOfList(crate::SymbolOptions);

    impl SymbolOptionsOfList {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("perfuse-kallsyms-{}", std::process::id()));
            std::fs::write(&path, "ffffffff81000000 T _text\n").expect("a file can be written");
            let options = crate::SymbolOptions { kallsyms: Some(path), ..crate::SymbolOptions::default() };
            SymbolOptionsOfList(options)
        }
    }

    impl Drop for SymbolOptionsOfList {
        fn drop(&mut self) {
            let _ = self.0.kallsyms.take().map(std::fs::remove_file);
        }
    }
}
