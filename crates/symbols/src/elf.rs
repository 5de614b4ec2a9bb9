//! ELF files of both classes and byte orders: headers, sections, segments, the build-id, and where in the
//! file's addresses an offset of the file is. Nothing is trusted: every table is checked against the length
//! of the file and against a limit before it is read. The layouts themselves are the `object` crate's.
//!
//! Symbols are read in `symbols`, stubs of the PLT in `plt`, compressed symbol tables in `debugdata`, what Go's linker writes in
//! `go`, compressed sections in `compressed`, line tables in `lines`, values of functions in `values`.

mod compressed;
mod debugdata;
mod go;
mod lines;
mod plt;
mod probes;
mod symbols;
mod unwinding;
mod values;

pub use lines::{LineAddresses, SourceLine};
pub use probes::DeclaredProbe;
pub use unwinding::UnwindSections;
pub use values::{FunctionValue, FunctionValues, ValueKind};

use crate::error::{Error, Problem};
use crate::image::{FileId, Image};
use crate::table::{is_name, name_within};
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endian, Endianness, pod};
use perfuse_files::BuildId;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Limits of what is read of a file, far above what files have.
const MAX_SECTIONS: u64 = 1 << 18;
const MAX_SEGMENTS: u64 = 1 << 16;
const MAX_SECTION_NAMES: u64 = 16 << 20;
const MAX_NOTES: u64 = 1 << 20;
const MAX_LOADED: usize = 1024;

/// Of the name of a section no more is looked at: longer ones are those of templates, which nobody looks for.
const MAX_SECTION_NAME: usize = 1024;

/// An ELF file, open.
#[derive(Debug)]
pub struct Elf {
    image: Image,
    is_64: bool,
    endian: Endianness,
    machine: u16,
    kind: u16,
    sections: Vec<Section>,
    section_names: Vec<u8>,
    layout: Layout,
    notes: Vec<Segment>,
}

/// Which parts of a file are loaded where.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    segments: Vec<Segment>,
}

#[derive(Clone, Copy, Debug)]
struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
    align: u64,
    entry_size: u64,
}

impl Section {
    fn is(&self, flag: u32) -> bool {
        self.flags & u64::from(flag) != 0
    }

    fn area(&self) -> std::ops::Range<u64> {
        self.address..self.address.saturating_add(self.size)
    }
}

/// A segment that is loaded, or holds notes.
#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    executable: bool,
    offset: u64,
    address: u64,
    file_size: u64,
    align: u64,
}

/// A part of a file that is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) is_executable: bool,
}

/// The name of a separate debug file, as `.gnu_debuglink` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugLink {
    /// A file name without folders.
    pub name: String,
    /// The CRC-32 of that file's content.
    pub crc: u32,
}

impl Elf {
    /// Opens a file and reads its headers.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::new(Image::open(path)?)
    }

    /// Opens the file that `/proc/PID/maps` shows as this device, major and minor number, and inode: a mapped file may be
    /// gone, and another one have its name.
    pub fn open_mapped(path: &Path, device: (u32, u32), inode: u64) -> Result<Self, Error> {
        Self::new(Image::opened(path, perfuse_files::open_inode(path, device, inode))?)
    }

    /// The same of a copy of a file, or of a file that the kernel keeps in memory, such as the vdso. `name`
    /// stands in for the path in errors.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, Error> {
        Self::new(Image::from_bytes(name, bytes))
    }

    fn new(image: Image) -> Result<Self, Error> {
        let mut ident = [0; 16];
        image.read_into(0, &mut ident, "ELF identification")?;
        if ident[..4] != elf::ELFMAG {
            return Err(image.error(0, "ELF identification", Problem::Malformed("not an ELF file")));
        }
        match ident[4] {
            elf::ELFCLASS32 => Self::parse::<FileHeader32<Endianness>>(image),
            elf::ELFCLASS64 => Self::parse::<FileHeader64<Endianness>>(image),
            _ => Err(image.error(4, "ELF identification", Problem::Malformed("neither 32 nor 64 bits"))),
        }
    }

    fn parse<H: FileHeader<Endian = Endianness>>(image: Image) -> Result<Self, Error> {
        let bytes = image.read(0, size_of::<H>() as u64, 64, "ELF header")?;
        let malformed = |what| image.error(0, "ELF header", Problem::Malformed(what));
        let header = H::parse(&bytes[..]).map_err(|_| malformed("unsupported class, order or version"))?;
        let endian = header.endian().map_err(|_| malformed("unsupported byte order"))?;

        let section_offset: u64 = header.e_shoff(endian).into();
        let mut section_count = u64::from(header.e_shnum(endian));
        let mut names_index = u32::from(header.e_shstrndx(endian));
        let mut segment_count = u64::from(header.e_phnum(endian));
        let mut sections = Vec::new();
        if section_offset != 0 {
            let size = size_of::<H::SectionHeader>();
            if usize::from(header.e_shentsize(endian)) != size {
                return Err(malformed("section headers of another size"));
            }
            // Counts that do not fit the header are in the first section.
            if section_count == 0 || names_index == u32::from(elf::SHN_XINDEX) || segment_count == 0xffff {
                let bytes = image.read(section_offset, size as u64, size as u64, "first section header")?;
                let (first, _) = pod::from_bytes::<H::SectionHeader>(&bytes)
                    .map_err(|()| malformed("section headers that are out of place"))?;
                if section_count == 0 {
                    section_count = first.sh_size(endian).into();
                }
                if names_index == u32::from(elf::SHN_XINDEX) {
                    names_index = first.sh_link(endian);
                }
                if segment_count == 0xffff {
                    segment_count = u64::from(first.sh_info(endian));
                }
            }
            let table = "section header table";
            let (len, limit) = (section_count.saturating_mul(size as u64), MAX_SECTIONS * size as u64);
            let bytes = image.read(section_offset, len, limit, table)?;
            let headers = pod::slice_from_all_bytes::<H::SectionHeader>(&bytes)
                .map_err(|()| image.error(section_offset, table, Problem::Malformed("an odd size")))?;
            sections.extend(headers.iter().map(|header| Section {
                name: header.sh_name(endian),
                kind: header.sh_type(endian),
                flags: header.sh_flags(endian).into(),
                address: header.sh_addr(endian).into(),
                offset: header.sh_offset(endian).into(),
                size: header.sh_size(endian).into(),
                link: header.sh_link(endian),
                align: header.sh_addralign(endian).into(),
                entry_size: header.sh_entsize(endian).into(),
            }));
        }

        let mut segments = Vec::new();
        let segment_offset: u64 = header.e_phoff(endian).into();
        if segment_offset != 0 && segment_count > 0 {
            let (table, size) = ("program header table", size_of::<H::ProgramHeader>());
            if usize::from(header.e_phentsize(endian)) != size {
                return Err(malformed("program headers of another size"));
            }
            let limit = MAX_SEGMENTS * size as u64;
            let bytes = image.read(segment_offset, segment_count * size as u64, limit, table)?;
            let headers = pod::slice_from_all_bytes::<H::ProgramHeader>(&bytes)
                .map_err(|()| image.error(segment_offset, table, Problem::Malformed("an odd size")))?;
            segments.extend(headers.iter().map(|header| Segment {
                kind: header.p_type(endian),
                executable: header.p_flags(endian) & elf::PF_X != 0,
                offset: header.p_offset(endian).into(),
                address: header.p_vaddr(endian).into(),
                file_size: header.p_filesz(endian).into(),
                align: header.p_align(endian).into(),
            }));
        }

        let (machine, kind) = (header.e_machine(endian), header.e_type(endian));
        let is_64 = header.is_class_64();
        let notes = segments.iter().filter(|segment| segment.kind == elf::PT_NOTE).copied().collect();
        segments.retain(|segment| segment.kind == elf::PT_LOAD);
        if segments.len() > MAX_LOADED {
            let (size, limit) = (segments.len() as u64, MAX_LOADED as u64);
            return Err(image.error(segment_offset, "loaded segments", Problem::TooLarge { size, limit }));
        }
        let (layout, section_names) = (Layout { segments }, Vec::new());
        let mut this = Elf { image, is_64, endian, machine, kind, sections, section_names, layout, notes };
        if let Some(names) = this.sections.get(names_index as usize).filter(|_| names_index != 0) {
            this.section_names = this.bytes_of(names, MAX_SECTION_NAMES, "names of sections")?;
        }
        Ok(this)
    }

    /// The file that it is, if it is one.
    pub(crate) fn file_id(&self) -> Option<FileId> {
        self.image.id()
    }

    /// The file's machine, a number of the `EM_*` family.
    pub fn machine(&self) -> u16 {
        self.machine
    }

    /// 64 bits, not 32.
    pub fn is_64(&self) -> bool {
        self.is_64
    }

    /// The most significant byte comes first.
    pub fn is_big_endian(&self) -> bool {
        self.endian.is_big_endian()
    }

    /// It is not linked yet, as object files and kernel modules are.
    pub fn is_relocatable(&self) -> bool {
        self.kind == elf::ET_REL
    }

    /// The CRC-32 (of ISO 3309, as in zip files) of the whole file, if that can be read and is not larger than debug files are.
    pub(crate) fn crc(&self) -> Option<u32> {
        const MAX_FILE: u64 = 1 << 30;
        let table: [u32; 256] = std::array::from_fn(|index| {
            (0..8).fold(index as u32, |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
        });
        let mut file = self.image.stream(MAX_FILE, "debug file").ok()?;
        let mut buffer = vec![0; 64 << 10];
        let mut crc = !0u32;
        loop {
            match file.read(&mut buffer).ok()? {
                0 => return Some(!crc),
                got => {
                    for &byte in &buffer[..got] {
                        crc = crc >> 8 ^ table[usize::from(crc as u8 ^ byte)];
                    }
                }
            }
        }
    }

    /// It has the full symbol table, `.symtab`.
    pub fn has_symtab(&self) -> bool {
        self.sections.iter().any(|section| section.kind == elf::SHT_SYMTAB)
    }

    /// The build-id, if it has one.
    pub fn build_id(&self) -> Result<Option<BuildId>, Error> {
        let sections = self.sections.iter().filter(|section| section.kind == elf::SHT_NOTE);
        let sections = sections.map(|section| (section.offset, section.size, section.align));
        let segments = self.notes.iter().map(|segment| (segment.offset, segment.file_size, segment.align));
        let mut failure = None;
        // Sections and segments may tell of the same notes; in files made to be slow, thousands of them do.
        let mut left = self.image.len.saturating_mul(2).saturating_add(MAX_NOTES);
        for (offset, size, align) in sections.chain(segments) {
            let Some(rest) = left.checked_sub(size.min(MAX_NOTES)) else {
                let problem = Problem::Malformed("more notes than the file has bytes");
                return Err(self.image.error(offset, "notes", problem));
            };
            left = rest;
            match self.image.read(offset, size.min(MAX_NOTES), MAX_NOTES, "notes") {
                Ok(notes) => {
                    if let Some(id) = BuildId::from_notes(&notes, self.endian.is_big_endian(), align) {
                        return Ok(Some(id));
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// The name of the separate debug file.
    pub fn debug_link(&self) -> Result<Option<DebugLink>, Error> {
        let Some(section) = self.section(".gnu_debuglink") else { return Ok(None) };
        let structure = "name of the debug file";
        let bytes = self.bytes_of(section, 64 << 10, structure)?;
        let malformed = |what| self.image.error(section.offset, structure, Problem::Malformed(what));
        let end = bytes.iter().position(|&byte| byte == 0).ok_or_else(|| malformed("no end"))?;
        let name = std::str::from_utf8(&bytes[..end]).map_err(|_| malformed("not UTF-8"))?;
        if name.is_empty() || name.contains('/') {
            return Err(malformed("not a file name"));
        }
        let crc = bytes.get((end + 1).next_multiple_of(4)..).and_then(|rest| rest.first_chunk());
        let crc = crc.ok_or_else(|| malformed("no checksum"))?;
        Ok(Some(DebugLink { name: name.to_owned(), crc: self.endian.read_u32(*crc) }))
    }

    /// The file that holds what several debug files have in common (as `dwz` makes it): its path, as the file has
    /// it, and its build-id.
    pub fn alternative_link(&self) -> Result<Option<(PathBuf, BuildId)>, Error> {
        let Some(section) = self.section(".gnu_debugaltlink") else { return Ok(None) };
        let structure = "name of the file with common debug information";
        let bytes = self.bytes_of(section, 64 << 10, structure)?;
        let malformed = |what| self.image.error(section.offset, structure, Problem::Malformed(what));
        let end = bytes.iter().position(|&byte| byte == 0).ok_or_else(|| malformed("no end"))?;
        let name = std::str::from_utf8(&bytes[..end]).map_err(|_| malformed("not UTF-8"))?;
        let id = BuildId::new(&bytes[end + 1..]).ok_or_else(|| malformed("no build-id"))?;
        Ok(Some((PathBuf::from(name), id)))
    }

    /// The address, as the file's symbols count, of what is at this offset in the file and is loaded.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        self.layout.address_of(offset)
    }

    /// Bytes of code from an offset on, no more than were checked to be few.
    pub(crate) fn read_code(&self, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
        self.image.read(offset, len, u64::MAX, "code")
    }

    /// A fault of code at an address.
    pub(crate) fn image_error(&self, address: u64, problem: Problem) -> Error {
        self.image.error(address, "code", problem)
    }

    /// Which parts are loaded where, also for when the file is closed.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn section(&self, name: &str) -> Option<&Section> {
        let is_named = |section: &&Section| is_name(&self.section_names, section.name, name.as_bytes());
        self.sections.iter().find(is_named)
    }

    fn name_of(&self, section: &Section) -> &[u8] {
        name_within(&self.section_names, section.name, MAX_SECTION_NAME)
    }

    /// The bytes of a section; none if it takes no room in the file.
    fn bytes_of(&self, section: &Section, limit: u64, structure: &'static str) -> Result<Vec<u8>, Error> {
        if section.kind == elf::SHT_NOBITS {
            return Ok(Vec::new());
        }
        self.image.read(section.offset, section.size, limit, structure)
    }
}

impl Layout {
    /// Of parts that a recording tells.
    pub(crate) fn of_sealed(parts: &[Part]) -> Self {
        let segment = |&Part { offset, address, size, align, is_executable }: &Part| Segment {
            kind: elf::PT_LOAD,
            executable: is_executable,
            offset,
            address,
            file_size: size,
            align,
        };
        Layout { segments: parts.iter().take(MAX_LOADED).map(segment).collect() }
    }

    /// Its parts for a recording.
    pub(crate) fn sealed(&self) -> Vec<Part> {
        let part = |&Segment { executable, offset, address, file_size, align, .. }: &Segment| Part {
            offset,
            address,
            size: file_size,
            align,
            is_executable: executable,
        };
        self.segments.iter().map(part).collect()
    }

    /// Offset, address and size in the file of each part that is loaded.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.segments.iter().map(|segment| (segment.offset, segment.address, segment.file_size))
    }

    /// The address, as the file's symbols count, of what is at this offset in the file and is loaded.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        // The kernel maps whole pages, so what is next to a segment may be mapped with it.
        let exact =
            |segment: &Segment| offset >= segment.offset && offset - segment.offset < segment.file_size;
        let around = |segment: &Segment| {
            let page = if segment.align.is_power_of_two() { segment.align.clamp(4096, 65536) } else { 4096 };
            let end = segment.offset.saturating_add(segment.file_size);
            let end = end.checked_next_multiple_of(page).unwrap_or(u64::MAX);
            segment.file_size > 0 && offset >= segment.offset & !(page - 1) && offset < end
        };
        let find = |fits: &dyn Fn(&Segment) -> bool| {
            let fitting = self.segments.iter().filter(|segment| fits(segment));
            fitting.max_by_key(|segment| segment.executable)
        };
        let segment = find(&exact).or_else(|| find(&around))?;
        Some(offset.wrapping_sub(segment.offset).wrapping_add(segment.address))
    }

    /// Where in the file an address is that is loaded, and how many bytes of the file there are from there on.
    pub(crate) fn offset_of(&self, address: u64) -> Option<(u64, u64)> {
        let into =
            |segment: &Segment| address.checked_sub(segment.address).filter(|&into| into < segment.file_size);
        let holds = |segment: &&Segment| into(segment).is_some();
        let segment = self.segments.iter().filter(holds).max_by_key(|segment| segment.executable)?;
        let into = into(segment)?;
        Some((segment.offset.checked_add(into)?, segment.file_size - into))
    }

    /// The lowest address that is loaded.
    pub(crate) fn first_address(&self) -> Option<u64> {
        self.segments.iter().map(|segment| segment.address).min()
    }

    /// The file holds the code that its headers describe; a separate debug file does not.
    pub(crate) fn has_code(&self) -> bool {
        self.segments.iter().any(|segment| segment.executable && segment.file_size > 0)
    }
}

#[cfg(test)]
mod tests;
