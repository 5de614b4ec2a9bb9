//! The kernel's own list of its symbols, `/proc/kallsyms`, or a copy of one: the core, and each module
//! (BPF programs and trampolines among them) apart. Sizes are not in it: a symbol ends where the next one
//! of its part begins.

use crate::error::Problem;
use crate::image::{Image, for_each_line};
use crate::missing::Missing;
use crate::pieces::Pieces;
use crate::table::{FoundSymbol, Symbol, SymbolBinding, SymbolId, SymbolKind, TableBuilder};
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Longer lines are cut.
const MAX_LINE: usize = 4096;
/// Larger lists are not read: a file can be larger than the disk it is on.
const MAX_FILE: u64 = 256 << 20;
const LIST: &str = "list of kernel symbols";
/// The kernel's list.
pub(crate) const KALLSYMS: &str = "/proc/kallsyms";
/// How many modules are told apart.
const MAX_MODULES: usize = 1 << 16;

/// The symbols of a kernel and its modules.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    core: Pieces,
    /// By name.
    modules: Vec<Module>,
    /// From which address on the next symbol is one of which part: 0 the core, else a module.
    runs: Vec<(u64, u32)>,
    text: Option<u64>,
    stext: Option<u64>,
    /// It was kept, and has only what stays while a kernel runs.
    leaves_out: bool,
}

/// A loaded module, or what looks like one in kallsyms.
#[derive(Debug)]
pub struct Module {
    /// Its name, without brackets.
    pub name: String,
    /// Where it is loaded, if /proc/modules told.
    pub base: Option<u64>,
    pub(crate) symbols: Pieces,
}

/// Where a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedSymbol {
    /// The module; `None` is the core.
    pub module: Option<String>,
    /// Its first address.
    pub start: u64,
    /// Bytes up to the next address that has a name.
    pub size: u64,
}

/// Where a module is, by `/proc/modules`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedModule {
    /// Its name.
    pub name: String,
    /// Where it begins; 0 if the kernel hides it.
    pub base: u64,
    /// How large it is, in bytes.
    pub size: u64,
}

/// The module of a symbol; `None` is the core.
pub type InModule<'a> = Option<&'a str>;

impl KernelSymbols {
    /// Those of the running kernel.
    pub fn running() -> Result<Self, Missing> {
        Self::open(Path::new(KALLSYMS), Some(Path::new("/proc/modules")))
    }

    /// Those of a kallsyms file, and of the modules file that belongs to it.
    pub fn open(kallsyms: &Path, modules: Option<&Path>) -> Result<Self, Missing> {
        // A kernel without modules has no such file.
        let modules = modules.and_then(|path| perfuse_files::open(path).ok());
        let modules = modules.map_or(Ok(Vec::new()), |file| read_modules(file.take(MAX_FILE)));
        read_list(kallsyms, &modules.unwrap_or_default(), kptr_restrict)
    }

    /// Puts together what was kept; `None` if `runs` name a part that is not there.
    pub(crate) fn kept(
        core: Pieces,
        modules: Vec<Module>,
        runs: Vec<(u64, u32)>,
        text: Option<u64>,
        stext: Option<u64>,
    ) -> Option<Self> {
        let is_there = runs.iter().all(|&(_, part)| part as usize <= modules.len());
        is_there.then_some(KernelSymbols { core, modules, runs, text, stext, leaves_out: true })
    }

    /// Where a part with symbols begins, and which one: 0 is the core, and 1 the first module. For [`kept`](Self::kept) with
    /// these modules of them alone.
    pub(crate) fn runs_with(&self, modules: &[&Module]) -> Vec<(u64, u32)> {
        runs(&self.core, modules)
    }

    /// Code that comes and goes without a word is not in it.
    pub(crate) fn leaves_out(&self) -> bool {
        self.leaves_out
    }

    /// From text in the form of kallsyms; `None` if all addresses are zero, which is how the kernel hides
    /// them.
    pub fn read(text: impl Read, modules: &[LoadedModule]) -> io::Result<Option<Self>> {
        let mut core = TableBuilder::with_last_names();
        let mut parts: Vec<(String, TableBuilder)> = Vec::new();
        let mut numbers: HashMap<Vec<u8>, usize> = HashMap::new();
        let (mut any, mut text_start, mut stext) = (false, None, None);
        for_each_line(text, MAX_LINE, |line| {
            let Some(entry) = entry(line) else { return };
            any |= entry.address != 0;
            let builder = match entry.module {
                None => &mut core,
                Some(module) => {
                    let next = parts.len();
                    let number = match numbers.get(module) {
                        Some(&number) => number,
                        None if next < MAX_MODULES => {
                            numbers.insert(module.to_vec(), next);
                            parts.push((
                                String::from_utf8_lossy(module).into_owned(),
                                TableBuilder::with_last_names(),
                            ));
                            next
                        }
                        None => return,
                    };
                    &mut parts[number].1
                }
            };
            match entry.name {
                b"_text" => text_start = text_start.or(Some(entry.address)),
                b"_stext" => stext = stext.or(Some(entry.address)),
                _ => {}
            }
            // More than a table takes cannot come from a kernel.
            let _ = builder.push(entry.address, 0, entry.name, entry.binding, entry.kind);
        })?;
        if !any {
            return Ok(None);
        }
        let mut modules: Vec<Module> = parts
            .into_iter()
            .map(|(name, builder)| {
                let loaded = modules.iter().find(|loaded| loaded.name == name && loaded.base != 0);
                let area = loaded.map(|loaded| loaded.base..loaded.base.saturating_add(loaded.size));
                let symbols = builder.finish(area.as_slice()).into();
                Module { base: loaded.map(|loaded| loaded.base), name, symbols }
            })
            .collect();
        modules.sort_by(|one, other| one.name.cmp(&other.name));
        let core = core.finish(&[]).into();
        let runs = runs(&core, &modules.iter().collect::<Vec<_>>());
        Ok(Some(KernelSymbols { core, modules, runs, text: text_start, stext, leaves_out: false }))
    }

    /// The symbol at an address of this kernel, of the core or of any module.
    pub fn find(&self, address: u64) -> Option<(InModule<'_>, FoundSymbol<'_>)> {
        let run = self.runs.partition_point(|&(start, _)| start <= address).checked_sub(1)?;
        match self.runs[run].1 as usize {
            0 => Some((None, self.core.find(address)?)),
            part => {
                let module = &self.modules[part - 1];
                Some((Some(&module.name), in_part(part, module.symbols.find(address)?)))
            }
        }
    }

    /// The symbol at an address of one module of this kernel.
    pub fn find_in(&self, module: &str, address: u64) -> Option<FoundSymbol<'_>> {
        let number = self.modules.binary_search_by(|other| other.name.as_str().cmp(module)).ok()?;
        self.find_in_numbered(number, address)
    }

    /// The same, by the module's place in [`modules`](Self::modules).
    pub(crate) fn find_in_numbered(&self, number: usize, address: u64) -> Option<FoundSymbol<'_>> {
        Some(in_part(number + 1, self.modules.get(number)?.symbols.find(address)?))
    }

    /// The symbol with an id that one of the searches gave.
    pub fn get(&self, id: SymbolId) -> Option<Symbol<'_>> {
        let (part, index) = ((id.0 >> 32) as usize, id.0 & u64::from(u32::MAX));
        let table = match part.checked_sub(1) {
            None => &self.core,
            Some(number) => &self.modules.get(number)?.symbols,
        };
        Some(Symbol { id, ..table.get(index)? })
    }

    /// Where each of these names is, in the running kernel or the one of a copy of its list. A name may be there several times, also where
    /// others have the same address.
    pub fn named(kallsyms: Option<&Path>, names: &[&str]) -> Result<Vec<Vec<NamedSymbol>>, Missing> {
        let (path, symbols) = match kallsyms {
            Some(path) => (path, Self::open(path, None)?),
            None => (Path::new(KALLSYMS), Self::running()?),
        };
        let failed = |error| Missing::from_error(path, error);
        let image = Image::open(path).map_err(failed)?;
        let text = image.stream(MAX_FILE, LIST).map_err(failed)?;
        let found = symbols.find_names(text, names);
        found.map_err(|error| failed(image.error(0, LIST, Problem::Io(error.kind()))))
    }

    /// The same in this text of the list.
    fn find_names(&self, text: impl Read, names: &[&str]) -> io::Result<Vec<Vec<NamedSymbol>>> {
        let mut found = vec![Vec::new(); names.len()];
        for_each_line(text, MAX_LINE, |line| {
            let Some(entry) = entry(line) else { return };
            for (of, _) in found.iter_mut().zip(names).filter(|(_, name)| name.as_bytes() == entry.name) {
                let next = self.find(entry.address).map_or(0, |(_, at)| at.symbol.size);
                let module = entry.module.map(|module| String::from_utf8_lossy(module).into_owned());
                of.push(NamedSymbol { module, start: entry.address, size: next });
            }
        })?;
        Ok(found)
    }

    /// The symbols of the core.
    pub(crate) fn core(&self) -> &Pieces {
        &self.core
    }

    /// The modules by name.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The address of `_text` or `_stext`, by which perf.data tells where a kernel was; of any other symbol
    /// too, though that takes a search.
    pub fn address_of(&self, name: &str) -> Option<u64> {
        match name {
            "_text" => self.text,
            "_stext" => self.stext,
            _ => address_in(self.core.iter(), name),
        }
    }
}

/// Parts lie between one another: a BPF program may be anywhere among the modules.
fn runs(core: &Pieces, modules: &[&Module]) -> Vec<(u64, u32)> {
    let parts = modules.iter().map(|module| &module.symbols).zip(1..);
    let parts = parts.chain([(core, 0)]);
    let mut runs: Vec<(u64, u32)> =
        parts.flat_map(|(table, part)| table.iter().map(move |symbol| (symbol.start, part))).collect();
    runs.sort_unstable();
    runs.dedup_by_key(|&mut (_, part)| part);
    runs.shrink_to_fit();
    runs
}

/// The address of a symbol of this name.
pub(crate) fn address_in<'s>(mut symbols: impl Iterator<Item = Symbol<'s>>, name: &str) -> Option<u64> {
    symbols.find(|symbol| symbol.raw_name() == name.as_bytes()).map(|symbol| symbol.start)
}

fn in_part(part: usize, found: FoundSymbol<'_>) -> FoundSymbol<'_> {
    let id = SymbolId((part as u64) << 32 | found.symbol.id.0);
    FoundSymbol { symbol: Symbol { id, ..found.symbol }, ..found }
}

/// The modules in text of the form of /proc/modules.
pub fn read_modules(text: impl Read) -> io::Result<Vec<LoadedModule>> {
    let mut modules = Vec::new();
    for_each_line(text, MAX_LINE, |line| {
        let line = String::from_utf8_lossy(line);
        // name size users list-of-users state address
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, size, _, _, _, base, ..] = words[..] else { return };
        let base = u64::from_str_radix(base.trim_start_matches("0x"), 16);
        if let (Ok(size), Ok(base), true) = (size.parse(), base, modules.len() < MAX_MODULES) {
            modules.push(LoadedModule { name: name.to_owned(), base, size });
        }
    })?;
    Ok(modules)
}

struct Entry<'a> {
    address: u64,
    binding: SymbolBinding,
    kind: SymbolKind,
    name: &'a [u8],
    module: Option<&'a [u8]>,
}

/// A line: "address letter name", a tab and "[module]" if it is of one.
fn entry(line: &[u8]) -> Option<Entry<'_>> {
    let digits = line.iter().position(|&byte| byte == b' ').filter(|&digits| digits <= 16)?;
    let mut address = 0u64;
    for &byte in &line[..digits] {
        address = address << 4 | u64::from((byte as char).to_digit(16)?);
    }
    let &[letter, b' ', ref rest @ ..] = &line[digits + 1..] else { return None };
    let name_end = rest.iter().position(|byte| matches!(byte, b'\t' | b' ')).unwrap_or(rest.len());
    let (name, after) = rest.split_at(name_end);
    let module = after.trim_ascii().strip_prefix(b"[").and_then(|module| module.strip_suffix(b"]"));
    if matches!(letter, b'A' | b'a' | b'U' | b'N') || name.is_empty() || name[0] == b'$' {
        return None; // numbers, not addresses; marks of the assembler
    }
    let binding = match letter {
        b'W' | b'w' | b'V' | b'v' => SymbolBinding::Weak,
        letter if letter.is_ascii_uppercase() => SymbolBinding::Global,
        _ => SymbolBinding::Local,
    };
    let kind =
        if matches!(letter, b'T' | b't' | b'W' | b'w') { SymbolKind::Function } else { SymbolKind::Object };
    Some(Entry { address, binding, kind, name, module })
}

/// Those of the running kernel, which has these modules.
pub(crate) fn running_with(modules: &[LoadedModule]) -> Result<KernelSymbols, Missing> {
    read_list(Path::new(KALLSYMS), modules, kptr_restrict)
}

fn kptr_restrict() -> Option<i32> {
    fs::read_to_string("/proc/sys/kernel/kptr_restrict").ok()?.trim().parse().ok()
}

/// A kallsyms file kept with a build-id.
pub(crate) fn open_copy(path: &Path) -> Result<KernelSymbols, Missing> {
    read_list(path, &[], || None)
}

/// Reads a list of symbols; `kptr_restrict` tells why it may have no addresses.
fn read_list(
    path: &Path,
    modules: &[LoadedModule],
    kptr_restrict: impl FnOnce() -> Option<i32>,
) -> Result<KernelSymbols, Missing> {
    let failed = |error| Missing::from_error(path, error);
    let image = Image::open(path).map_err(failed)?;
    let text = image.stream(MAX_FILE, LIST).map_err(failed)?;
    match KernelSymbols::read(text, modules) {
        Ok(Some(symbols)) => Ok(symbols),
        Ok(None) => Err(Missing::KernelHidden { path: path.to_owned(), kptr_restrict: kptr_restrict() }),
        Err(error) => Err(failed(image.error(0, LIST, Problem::Io(error.kind())))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t do_one_initcall
ffffffff81000100 T do_one_initcall_global
ffffffff81000200 W weak_one
ffffffff81000200 t local_one
ffffffff81000300 T memset
ffffffff81000300 T __pi_memset
ffffffff82000000 D some_data
ffffffffc0001000 t helper\t[e1000]
ffffffffc0001100 T entry\t[e1000]
ffffffffc0009000 t bpf_prog_6deef7357e7b4530\t[bpf]
nonsense
ffffffffc00 t";

    fn symbols() -> KernelSymbols {
        let modules = read_modules("e1000 8192 1 - Live 0xffffffffc0001000\nbad\n".as_bytes()).expect("text");
        KernelSymbols::read(KALLSYMS.as_bytes(), &modules).expect("text").expect("addresses")
    }

    #[test]
    fn addresses_of_the_core_and_of_modules() {
        let symbols = symbols();
        for (address, expected) in [
            (0xffffffff81000150u64, Some((None, "do_one_initcall_global", 0x50))),
            (0xffffffff810001ff, Some((None, "do_one_initcall_global", 0xff))),
            (0xffffffff81000201, Some((None, "local_one", 1))),
            (0xffffffff81000301, Some((None, "__pi_memset", 1))),
            (0xffffffffc0001010, Some((Some("e1000"), "helper", 0x10))),
            (0xffffffffc0002fff, Some((Some("e1000"), "entry", 0x1eff))),
            (0xffffffffc0003000, None),
            (0xffffffffc0009001, Some((Some("bpf"), "bpf_prog_6deef7357e7b4530", 1))),
            (0x10, None),
        ] {
            let found = symbols.find(address);
            let found = found.map(|(module, found)| (module, found.symbol.name().into_owned(), found.offset));
            let expected = expected.map(|(module, name, offset)| (module, name.to_string(), offset));
            assert_eq!(found, expected, "{address:#x}");
        }
        let (_, found) = symbols.find(0xffffffffc0001010).expect("found above");
        assert_eq!(symbols.get(found.symbol.id), Some(found.symbol));
        assert_eq!(symbols.find_in("e1000", 0xffffffffc0001010), Some(found));
        assert_eq!(symbols.find_in("bpf", 0xffffffffc0001010), None);
        assert_eq!(symbols.address_of("_stext"), Some(0xffffffff81000000));
        assert_eq!(symbols.address_of("some_data"), Some(0xffffffff82000000));
    }

    #[test]
    fn symbols_are_found_by_name_in_all_parts() {
        let symbols = symbols();
        let names = ["local_one", "entry", "memset", "__pi_memset", "nothing"];
        let found = symbols.find_names(KALLSYMS.as_bytes(), &names).expect("text");
        let found: Vec<_> =
            found.iter().flatten().map(|at| (at.module.as_deref(), at.start, at.size)).collect();
        let expected = [(None, 0xffffffff81000200, 0x100), (Some("e1000"), 0xffffffffc0001100, 0x1f00)];
        assert_eq!(found[..2], expected);
        // Both names of one address.
        assert_eq!((found.len(), found[2].1, found[2]), (4, 0xffffffff81000300, found[3]));
    }

    #[test]
    fn zeros_are_hidden_addresses() {
        let hidden = "0000000000000000 T _text\n0000000000000000 T _stext\n";
        assert!(KernelSymbols::read(hidden.as_bytes(), &[]).expect("text").is_none());
        assert!(KernelSymbols::read(&b""[..], &[]).expect("text").is_none());
    }
}
