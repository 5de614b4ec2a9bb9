//! The list of the running kernel's symbols, kept in a file for as long as that kernel runs: reading `/proc/kallsyms` and sorting
//! it takes longer than most reports. Code that comes and goes without a word (BPF programs, trampolines) is left out; it is
//! looked for in the list itself.

use crate::kernel::{self, KernelSymbols, LoadedModule, Module, read_modules};
use crate::missing::Missing;
use crate::numbers::{put, put_bytes, take, take_bytes};
use crate::pieces::Pieces;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the file, and the form that it has.
const NAME: &str = "kernel-symbols";
const FORM: &[u8] = b"perfuse kernel symbols 3\n";
/// So much of the list's beginning is compared: it shows which kernel it is, where that is, and whether addresses are visible.
const BEGINNING: usize = 2048;
/// Larger files are not ours.
const MAX_FILE: u64 = 256 << 20;

/// Symbols of the running kernel that stay while it runs, from a file in this folder. It is read while the same kernel runs with
/// the same modules and shows its addresses to this user, who alone has rights to the file; else the kernel's own list is read,
/// all of it, and kept there if that is possible.
pub(crate) fn running(folder: &Path) -> Result<KernelSymbols, Missing> {
    let mut text = Vec::new();
    let modules = perfuse_files::open(Path::new("/proc/modules"));
    let is_read = modules.is_ok_and(|file| file.take(MAX_FILE).read_to_end(&mut text).is_ok());
    let running = Running::here(folder, &text).filter(|_| is_read || text.is_empty());
    let Some(running) = running else { return KernelSymbols::running() };
    match running.read() {
        Ok(symbols) => return Ok(symbols),
        Err(why) => log::debug!("no list of kernel symbols from {}: {why}", folder.display()),
    }
    let modules = read_modules(&text[..]).unwrap_or_default();
    let symbols = kernel::running_with(&modules)?;
    if let Err(error) = running.write(&symbols, &modules) {
        log::debug!("the list of kernel symbols is not kept in {}: {error}", folder.display());
    }
    Ok(symbols)
}

/// The kernel as it runs now, by what is quickly read.
struct Running {
    /// All of it, as the file has it at its beginning.
    facts: Vec<u8>,
    file: PathBuf,
}

impl Running {
    /// Nothing where the kernel cannot be told from others, or hides its addresses.
    fn here(folder: &Path, modules: &[u8]) -> Option<Self> {
        let mut beginning = Vec::new();
        File::open("/proc/kallsyms").ok()?.take(BEGINNING as u64).read_to_end(&mut beginning).ok()?;
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
        Self::of(folder, &boot, &beginning, modules)
    }

    fn of(folder: &Path, boot: &[u8], beginning: &[u8], modules: &[u8]) -> Option<Self> {
        let has_address = |line: &[u8]| {
            let digits = line.split(|&byte| byte == b' ').next().unwrap_or_default();
            digits.iter().any(|digit| matches!(digit, b'1'..=b'9' | b'a'..=b'f'))
        };
        if boot.is_empty() || !beginning.split(|&byte| byte == b'\n').any(has_address) {
            return None;
        }
        let mut facts = FORM.to_vec();
        for part in [boot, beginning, modules] {
            put_bytes(&mut facts, part);
        }
        Some(Running { facts, file: folder.join(NAME) })
    }

    /// The list that was kept while this kernel ran, for this user; without one, the reason. Only what tells of its pieces is
    /// read: each is read when it is wanted.
    fn read(&self) -> Result<KernelSymbols, String> {
        let file = perfuse_files::open_private(&self.file).map_err(|error| error.to_string())?;
        let end = file.metadata().map_err(|error| error.to_string())?.len();
        let mut beginning = vec![0; self.facts.len() + 8];
        let is_same = file.read_exact_at(&mut beginning, 0).is_ok() && beginning.starts_with(&self.facts);
        if !is_same || end > MAX_FILE {
            return Err("it is another kernel's, or of other modules".to_owned());
        }
        let read = || {
            let len = take(&mut &beginning[self.facts.len()..])?;
            let mut index = vec![0; usize::try_from(len).ok().filter(|_| len <= end)?];
            file.read_exact_at(&mut index, beginning.len() as u64).ok()?;
            decode(&index, file, beginning.len() as u64 + len, end)
        };
        read().ok_or_else(|| "it is damaged".to_owned())
    }

    /// Keeps a list.
    fn write(&self, symbols: &KernelSymbols, modules: &[LoadedModule]) -> std::io::Result<()> {
        let (mut bytes, mut index, mut data) = (self.facts.clone(), Vec::new(), Vec::new());
        encode(symbols, modules, &mut index, &mut data);
        put_bytes(&mut bytes, &index);
        bytes.append(&mut data);
        perfuse_files::write_private(&self.file, &bytes)
    }
}

/// The core and the modules that are loaded: what tells of their pieces, and the pieces one after the other.
fn encode(symbols: &KernelSymbols, loaded: &[LoadedModule], index: &mut Vec<u8>, data: &mut Vec<u8>) {
    let is_loaded = |module: &&Module| loaded.iter().any(|loaded| loaded.name == module.name);
    let modules: Vec<&Module> = symbols.modules().iter().filter(is_loaded).collect();
    for address in [symbols.address_of("_text"), symbols.address_of("_stext")] {
        put_option(index, address);
    }
    symbols.core().encode(index, data);
    put(index, modules.len() as u64);
    for module in &modules {
        put_bytes(index, module.name.as_bytes());
        put_option(index, module.base);
        module.symbols.encode(index, data);
    }
    let runs = symbols.runs_with(&modules);
    put(index, runs.len() as u64);
    for (start, part) in runs {
        put(index, start);
        put(index, part.into());
    }
}

/// The list with this index, of which the pieces lie in a file from `place` to its `end`.
fn decode(mut index: &[u8], file: File, mut place: u64, end: u64) -> Option<KernelSymbols> {
    let (index, place, file) = (&mut index, &mut place, Arc::new(file));
    let (text, stext) = (take_option(index)?, take_option(index)?);
    let core = Pieces::decode(index, &file, place, end)?;
    let mut modules: Vec<Module> = Vec::new();
    for _ in 0..take(index)? {
        let name = String::from_utf8(take_bytes(index)?.to_vec()).ok()?;
        if modules.last().is_some_and(|last| last.name >= name) {
            return None;
        }
        modules.push(Module {
            name,
            base: take_option(index)?,
            symbols: Pieces::decode(index, &file, place, end)?,
        });
    }
    let mut runs = Vec::new();
    for _ in 0..take(index)? {
        runs.push((take(index)?, u32::try_from(take(index)?).ok()?));
    }
    let symbols = KernelSymbols::kept(core, modules, runs, text, stext)?;
    (index.is_empty() && *place == end).then_some(symbols)
}

fn put_option(out: &mut Vec<u8>, number: Option<u64>) {
    put(out, u64::from(number.is_some()));
    put(out, number.unwrap_or(0));
}

fn take_option(bytes: &mut &[u8]) -> Option<Option<u64>> {
    let (is_some, number) = (take(bytes)?, take(bytes)?);
    match is_some {
        0 => Some(None),
        1 => Some(Some(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MODULES: &str = "e1000 8192 1 - Live 0xffffffffc0001000\n";
    const LIST: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t do_one_initcall
ffffffff82000000 D some_data
ffffffffc0001000 t helper\t[e1000]
ffffffffc0001100 T entry\t[e1000]
ffffffffc0009000 t bpf_prog_6deef7357e7b4530\t[bpf]
";

    fn list() -> KernelSymbols {
        let modules = read_modules(MODULES.as_bytes()).expect("text");
        KernelSymbols::read(LIST.as_bytes(), &modules).expect("text").expect("addresses")
    }

    /// A folder of this user alone, and the kernel that keeps its list there.
    fn kept(name: &str) -> (PathBuf, Running) {
        let folder = std::env::temp_dir().join(format!("perfuse-kept-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(&folder)
            .expect("a folder");
        let here = Running::of(&folder, b"1", LIST.as_bytes(), MODULES.as_bytes()).expect("addresses");
        (folder, here)
    }

    fn write(here: &Running) {
        here.write(&list(), &read_modules(MODULES.as_bytes()).expect("text")).expect("written");
    }

    #[test]
    fn the_core_and_loaded_modules_are_kept_and_bpf_programs_are_not() {
        let (folder, here) = kept("parts");
        write(&here);
        let (whole, kept) = (list(), here.read().expect("as it was written"));
        let _ = std::fs::remove_dir_all(&folder);
        let name = |symbols: &KernelSymbols, address| {
            let (module, found) = symbols.find(address)?;
            Some((
                module.map(str::to_owned),
                found.symbol.name().into_owned(),
                found.offset,
                found.symbol.size,
            ))
        };
        for address in [
            0xffffffff81000000,
            0xffffffff81000150,
            0xffffffff82000000,
            0xffffffffc0001010,
            0xffffffffc0002fff,
            0x10,
        ] {
            assert_eq!(name(&kept, address), name(&whole, address), "{address:#x}");
        }
        assert_eq!(name(&kept, 0xffffffffc0009001), None);
        assert!(name(&whole, 0xffffffffc0009001).is_some());
        assert_eq!(kept.address_of("_stext"), Some(0xffffffff81000000));
        assert!(kept.leaves_out() && !whole.leaves_out());
    }

    #[test]
    fn a_kept_list_is_taken_for_the_same_boot_kernel_modules_and_user_alone() {
        let (folder, here) = kept("same");
        let of = |boot: &[u8], list: &str, modules: &str| {
            Running::of(&folder, boot, list.as_bytes(), modules.as_bytes())
        };
        assert!(here.read().is_err(), "nothing is kept yet");
        write(&here);
        assert!(here.read().is_ok());
        for other in [of(b"2", LIST, MODULES), of(b"1", &LIST[30..], MODULES), of(b"1", LIST, "")] {
            assert!(other.expect("addresses").read().is_err());
        }
        // Addresses that a user does not see are not told from the file either.
        assert!(of(b"1", "0000000000000000 T _text\n0000000000000000 T _stext\n", MODULES).is_none());
        let file = folder.join(NAME);
        let whole = std::fs::read(&file).expect("it is there");
        std::fs::write(&file, &whole[..whole.len() - 1]).expect("written");
        assert!(here.read().is_err(), "it is cut off");
        let _ = std::fs::remove_dir_all(&folder);
    }

    proptest! {
        /// Reading any file and looking for an address in it ends, without a panic.
        #[test]
        fn damage_is_borne(at in 0usize..3000, value: u8, cut in 0usize..3000) {
            let (folder, here) = kept("damage");
            write(&here);
            let mut bytes = std::fs::read(&here.file).expect("it is there");
            let at = at % bytes.len();
            bytes[at] = value;
            bytes.truncate(if cut % 2 == 0 { bytes.len() } else { cut % bytes.len() });
            std::fs::write(&here.file, &bytes).expect("written");
            if let Ok(symbols) = here.read() {
                for address in [0, 0xffffffff81000150, 0xffffffffc0001010, 0xffffffffc0009001, u64::MAX] {
                    let _ = symbols.find(address).map(|(_, found)| found.symbol.name().len());
                }
            }
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}
