//! The bytes of a file's debug sections.

use super::Slice;
use crate::elf::Elf;
use crate::error::Error;
use gimli::{Dwarf, EndianSlice, Endianity, SectionId};
use std::convert::Infallible;

/// The sections that functions and lines are found with.
const WANTED: [SectionId; 9] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// Those that a package of units has besides: the index of units tells of parts of all of them.
const OF_PACKAGES: [SectionId; 3] = [SectionId::DebugCuIndex, SectionId::DebugLoc, SectionId::DebugLocLists];

/// Sections by what they are.
#[derive(Debug)]
pub(super) struct Sections(Vec<(SectionId, Vec<u8>)>);

impl Sections {
    /// Reads them; with the names that they have in files for split units, if `split`.
    pub(super) fn read(elf: &Elf, split: bool) -> Result<Self, Error> {
        let mut sections = Vec::new();
        let of_packages = OF_PACKAGES.into_iter().filter(|_| split);
        for id in WANTED.into_iter().chain(of_packages) {
            let name = if split { id.dwo_name() } else { Some(id.name()) };
            if let Some(bytes) = name.map(|name| elf.debug_bytes(name)).transpose()?.flatten() {
                sections.push((id, bytes));
            }
        }
        Ok(Sections(sections))
    }

    pub(super) fn get(&self, id: SectionId) -> &[u8] {
        self.0.iter().find(|(known, _)| *known == id).map_or(&[], |(_, bytes)| bytes)
    }

    pub(super) fn slice<E: Endianity>(&self, id: SectionId, endian: E) -> Slice<'_, E> {
        EndianSlice::new(self.get(id), endian)
    }

    pub(super) fn dwarf<E: Endianity>(&self, endian: E) -> Dwarf<Slice<'_, E>> {
        let load = |id| Ok::<_, Infallible>(self.slice(id, endian));
        match Dwarf::load(load) {
            Ok(dwarf) => dwarf,
            Err(never) => match never {},
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}
