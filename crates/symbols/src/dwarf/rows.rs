//! The lines of a unit's addresses.

use super::Slice;
use gimli::{ColumnType, Dwarf, Endianity, FileEntry, LineProgramHeader, Unit};

/// More rows and files of a unit than this are left out.
const MOST_ROWS: usize = 1 << 23;
const MOST_FILES: u64 = 1 << 18;
/// Bytes of all file names of a unit.
const MOST_NAMES: usize = 64 << 20;

/// The lines of a unit.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    /// Sequences by address.
    sequences: Vec<Sequence>,
    /// By row: what tells blocks of one line apart, for the few rows that have it.
    discriminators: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// From the beginning of the sequence.
    offset: u32,
    file: u32,
    line: u32,
    column: u32,
}

#[derive(Clone, Copy, Debug)]
struct Sequence {
    begin: u64,
    end: u64,
    /// Its rows.
    first: usize,
    last: usize,
}

impl Rows {
    /// The file's number, line and column of an address.
    pub(super) fn find(&self, address: u64) -> Option<(u32, u32, u32)> {
        let row = &self.rows[self.row(address)?];
        Some((row.file, row.line, row.column))
    }

    /// The number that tells blocks of one line apart at an address; 0 where there is none.
    pub(super) fn discriminator(&self, address: u64) -> u32 {
        let found = self.row(address).and_then(|row| {
            let at = self.discriminators.binary_search_by_key(&row, |(row, _)| *row as usize).ok()?;
            Some(self.discriminators[at].1)
        });
        found.unwrap_or(0)
    }

    fn row(&self, address: u64) -> Option<usize> {
        let after = self.sequences.partition_point(|sequence| sequence.begin <= address);
        let sequence = self.sequences[..after].last().filter(|sequence| address < sequence.end)?;
        let rows = &self.rows[sequence.first..sequence.last];
        let after = rows.partition_point(|row| u64::from(row.offset) <= address - sequence.begin);
        Some(sequence.first + after.checked_sub(1)?)
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.len() * size_of::<Row>()
            + self.sequences.len() * size_of::<Sequence>()
            + self.discriminators.len() * size_of::<(u32, u32)>()
    }
}

/// The lines of a unit, and the names of its files by number.
pub(super) fn read<E: Endianity>(
    dwarf: &Dwarf<Slice<'_, E>>,
    unit: &Unit<Slice<'_, E>>,
) -> (Rows, Vec<Box<str>>) {
    let Some(program) = unit.line_program.clone() else { return Default::default() };
    let mut all = Rows::default();
    let mut rows = program.rows();
    let (mut begin, mut first) = (0, 0);
    // What comes before a fault counts.
    while let Ok(Some((_, row))) = rows.next_row() {
        let address = row.address();
        if row.end_sequence() {
            // An address of 0 is that of code that the linker left out.
            if all.rows.len() > first && begin < address && begin != 0 {
                all.sequences.push(Sequence { begin, end: address, first, last: all.rows.len() });
            } else {
                all.rows.truncate(first);
            }
            first = all.rows.len();
            continue;
        }
        if all.rows.len() == first {
            begin = address;
        }
        let Ok(offset) = u32::try_from(address.wrapping_sub(begin)) else { continue };
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let discriminator = narrow(row.discriminator());
        let row = Row {
            offset,
            file: narrow(row.file_index()),
            line: row.line().map_or(0, |line| narrow(line.get())),
            column: match row.column() {
                ColumnType::LeftEdge => 0,
                ColumnType::Column(column) => narrow(column.get()),
            },
        };
        let is_full = all.rows.len() >= MOST_ROWS;
        match all.rows[first..].last_mut() {
            Some(last) if last.offset == offset => *last = row,
            Some(last) if last.offset > offset => {}
            _ if is_full => break,
            _ => all.rows.push(row),
        }
        let at = all.rows.len() as u32 - 1;
        while all.discriminators.last().is_some_and(|(row, _)| *row >= at) {
            all.discriminators.pop();
        }
        if discriminator != 0 && all.rows.last().is_some_and(|last| last.offset == offset) {
            all.discriminators.push((at, discriminator));
        }
    }
    all.rows.shrink_to_fit();
    all.sequences.sort_unstable_by_key(|sequence| sequence.begin);
    (all, files(dwarf, unit, rows.header()))
}

fn files<E: Endianity>(
    dwarf: &Dwarf<Slice<'_, E>>,
    unit: &Unit<Slice<'_, E>>,
    header: &LineProgramHeader<Slice<'_, E>>,
) -> Vec<Box<str>> {
    let mut files: Vec<Box<str>> = Vec::new();
    let mut bytes = 0;
    for number in 0..MOST_FILES {
        let name = match header.file(number) {
            Some(file) => path(dwarf, unit, header, file),
            None if number == 0 => Box::default(),
            None => break,
        };
        bytes += name.len();
        if bytes > MOST_NAMES {
            break;
        }
        files.push(name);
    }
    files
}

/// The whole path of a file.
fn path<'s, E: Endianity>(
    dwarf: &Dwarf<Slice<'s, E>>,
    unit: &Unit<Slice<'s, E>>,
    header: &LineProgramHeader<Slice<'s, E>>,
    file: &FileEntry<Slice<'s, E>>,
) -> Box<str> {
    let mut path: Vec<u8> = unit.comp_dir.map(|folder| folder.slice().to_vec()).unwrap_or_default();
    let mut push = |part: Option<Slice<'s, E>>| {
        let part = part.map_or(&b""[..], |part| part.slice());
        if part.starts_with(b"/") {
            path.clear();
        } else if !path.is_empty() && !path.ends_with(b"/") && !part.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(part);
    };
    // Folder 0 is that of the unit.
    if file.directory_index() != 0 {
        push(file.directory(header).and_then(|folder| dwarf.attr_string(unit, folder).ok()));
    }
    push(dwarf.attr_string(unit, file.path_name()).ok());
    String::from_utf8_lossy(&path).into()
}
