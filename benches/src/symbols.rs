//! Symbol tables: loading that of a large file, and finding names in it. The floor is the `object` crate's
//! own map of symbols over the mapped file, which knows neither sizes nor aliases nor stubs.

use crate::measure::{Contestant, compare};
use object::Object;
use perfuse_symbols::{Address, DsoKey, Elf, KernelSymbols, Symbolizer};
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 15;
const LOOKUPS: usize = 200_000;

/// All of it.
pub fn all() {
    let path = large_file();
    let bytes = std::fs::read(&path).unwrap();
    let table = Elf::open(&path).unwrap().symbols().unwrap();
    let megabytes = bytes.len() >> 20;
    println!(
        "{}: {megabytes} MiB, {} symbols, {} KiB of memory",
        path.display(),
        table.len(),
        table.memory_bytes() >> 10
    );
    load(&path, &bytes);

    // Few symbols get most samples: the rank of a symbol is drawn evenly on a logarithmic scale.
    let mut state = 88_172_645_463_325_252u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let symbols: Vec<_> = table.iter().map(|symbol| (symbol.start, symbol.size)).collect();
    let mut addresses = Vec::with_capacity(LOOKUPS);
    for _ in 0..LOOKUPS {
        let rank = (symbols.len() as f64).powf((random() >> 11) as f64 / (1u64 << 53) as f64) as usize;
        let (start, size) = symbols[rank.wrapping_mul(7919) % symbols.len()];
        addresses.push(start + random() % size);
    }
    find(&path, &bytes, &addresses);
    kernel();
}

/// The library that the Rust compiler mostly is, or this program.
fn large_file() -> PathBuf {
    let own = || std::env::current_exe().unwrap();
    let Ok(output) = Command::new("rustc").args(["--print", "sysroot"]).output() else { return own() };
    let lib = Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("lib");
    let files = std::fs::read_dir(lib).into_iter().flatten().flatten();
    let files = files.filter(|file| file.file_name().to_string_lossy().starts_with("librustc_driver"));
    files.map(|file| file.path()).next().unwrap_or_else(own)
}

fn load(path: &Path, bytes: &[u8]) {
    let contestants = vec![
        Contestant::calls("object, file in memory", 1, || {
            black_box(object::File::parse(bytes).unwrap().symbol_map());
        }),
        Contestant::calls("perfuse, file read", 1, || {
            black_box(Elf::open(path).unwrap().symbols().unwrap());
        }),
    ];
    compare("load a symbol table", ROUNDS, contestants);
}

fn find(path: &Path, bytes: &[u8], addresses: &[u64]) {
    let floor = object::File::parse(bytes).unwrap().symbol_map();
    let dso = Symbolizer::default().dso(&DsoKey::of_map(path.as_os_str().as_bytes(), 1));
    dso.preload();
    let contestants = vec![
        each("object", addresses, |a| floor.containing(a).map_or(0, |symbol| a - symbol.address())),
        each("perfuse", addresses, |a| dso.find(Address::Memory(a)).map_or(0, |found| found.offset)),
        each("perfuse, with the raw name", addresses, |a| {
            dso.find(Address::Memory(a)).map_or(0, |found| found.symbol.raw_name().len() as u64)
        }),
    ];
    compare("find a symbol", ROUNDS, contestants);
}

/// A turn of looking up all addresses.
fn each<'a>(
    name: &'static str,
    addresses: &'a [u64],
    mut find: impl FnMut(u64) -> u64 + 'a,
) -> Contestant<'a> {
    Contestant::timed(name, move || {
        let start = Instant::now();
        black_box(addresses.iter().fold(0u64, |sum, &address| sum.wrapping_add(find(address))));
        start.elapsed().as_nanos() as f64 / addresses.len() as f64
    })
}

fn kernel() {
    let contestants = vec![
        Contestant::calls("read /proc/kallsyms", 1, || {
            black_box(std::fs::read("/proc/kallsyms").unwrap());
        }),
        Contestant::calls("perfuse, symbols of the kernel", 1, || {
            let _ = black_box(KernelSymbols::running());
        }),
    ];
    compare("load the kernel's symbols", ROUNDS, contestants);
}
