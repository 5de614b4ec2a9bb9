//! Names in a process that runs, such as this one: from an address of its memory to a function, in one call.

use crate::key::{Address, DsoKey, DsoKind};
use crate::running::MappedAt;
use crate::symbolizer::Symbolizer;
use perfuse_proc::{MapText, read};
use std::sync::{Mutex, PoisonError};

/// Functions of a running process by their addresses in its memory: those of programs, libraries, the vdso, code that it
/// made, and, from the upper half of the addresses on, the kernel.
///
/// ```
/// use perfuse_symbols::ProcessSymbols;
///
/// #[inline(never)]
/// fn hot() {}
///
/// let name = ProcessSymbols::own().name(hot as fn() as usize as u64);
/// assert!(name.is_some_and(|name| name.ends_with("hot")));
/// ```
#[derive(Debug)]
pub struct ProcessSymbols {
    pid: u32,
    symbolizer: Symbolizer,
    /// Its mappings, as they were read last.
    maps: Mutex<MapText>,
}

impl ProcessSymbols {
    /// Of this process.
    pub fn own() -> Self {
        Self::of(std::process::id())
    }

    /// Of a process that may be read: one of the same user's, mostly.
    pub fn of(pid: u32) -> Self {
        ProcessSymbols { pid, symbolizer: Symbolizer::default(), maps: Mutex::default() }
    }

    /// The function at an address, demangled, without parameters. `None` for an address that is not mapped or a place without
    /// a symbol. Mappings are read at the first call, and again where an address is in none of them.
    pub fn name(&self, address: u64) -> Option<String> {
        let named = |key: &DsoKey, place| {
            let dso = self.symbolizer.dso(key);
            dso.find(place).map(|found| found.symbol.demangled().into_owned())
        };
        if address >> 63 == 1 {
            return named(&DsoKey::kernel(None), Address::Memory(address));
        }
        let (key, place) = self.place(address)?;
        named(&key, place)
    }

    /// The object that is mapped at an address, and the place in it.
    fn place(&self, address: u64) -> Option<(DsoKey, Address)> {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        find(&maps, address, self.pid).or_else(|| {
            *maps = read::maps(self.pid).ok()?.into();
            let files = maps.iter().filter(|map| map.inode != 0);
            self.symbolizer.meet(
                self.pid,
                files.map(|map| MappedAt { address: map.start, name: map.name, inode: map.inode }),
            );
            find(&maps, address, self.pid)
        })
    }
}

fn find(maps: &MapText, address: u64, pid: u32) -> Option<(DsoKey, Address)> {
    let map = maps.at(address)?;
    let key = DsoKey::of_map(map.name, pid);
    let place = match key.kind {
        DsoKind::Anonymous { .. } | DsoKind::Vsyscall => Address::Memory(address),
        _ => Address::FileOffset(address - map.start + map.offset),
    };
    // Another process may see other files under these names.
    let pid = (pid != std::process::id() && key.kind == DsoKind::File).then_some(pid);
    Some((DsoKey { pid, ..key }, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_file_as_far_as_in_its_mapping() {
        let maps = b"1000-2000 r--p 00000000 fe:01 7 /usr/lib/a.so\n2000-3000 r-xp 00001000 fe:01 7 /usr/lib/a.so\n5000-6000 rwxp 00000000 00:00 0 \n";
        let (maps, own) = (&MapText::from(maps.to_vec()), std::process::id());
        let (key, place) = find(maps, 0x2010, own).unwrap();
        assert_eq!((key, place), (DsoKey::of_map(b"/usr/lib/a.so", own), Address::FileOffset(0x1010)));
        assert_eq!(find(maps, 0x2010, own + 1).unwrap().0.pid, Some(own + 1));
        assert_eq!(find(maps, 0x5010, own).unwrap().1, Address::Memory(0x5010));
        assert_eq!(find(maps, 0x4000, own), None);
    }

    #[test]
    fn names_of_this_process_are_found_and_no_others() {
        let own = ProcessSymbols::own();
        let here = names_of_this_process_are_found_and_no_others as fn() as usize as u64;
        let name = own.name(here).expect("tests have symbols");
        assert!(name.ends_with("names_of_this_process_are_found_and_no_others"), "{name}");
        assert_eq!(own.name(0), None);
        assert_eq!(own.name(1 << 62), None);
    }
}
