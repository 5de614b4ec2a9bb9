//! Prints functions of this process by their addresses.

use perfuse_symbols::ProcessSymbols;

#[inline(never)]
fn work(number: u64) -> u64 {
    std::hint::black_box(number) + 1
}

fn main() {
    let symbols = ProcessSymbols::own();
    for address in [main as fn() as usize, work as fn(u64) -> u64 as usize, 8] {
        let name = symbols.name(address as u64).unwrap_or_else(|| "no function".into());
        println!("{address:#x} {name}");
    }
}
