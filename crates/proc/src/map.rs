//! Lines of `/proc/PID/maps`.

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map<'a> {
    /// The first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// `PROT_*`.
    pub prot: u32,
    /// Changes are shared.
    pub shared: bool,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The device of the file, major and minor number; zeros for none.
    pub device: (u32, u32),
    /// The inode of the file; 0 for none.
    pub inode: u64,
    /// The path, `[heap]` and its like, or nothing. A newline in a path is written as `\012`.
    pub name: &'a [u8],
}

impl<'a> Map<'a> {
    /// The pages may be read.
    pub const READ: u32 = 1;
    /// The pages may be written.
    pub const WRITE: u32 = 2;
    /// The pages may be executed.
    pub const EXEC: u32 = 4;

    /// A line, without its newline.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |&byte| byte == b' ');
        let mut text = || std::str::from_utf8(fields.next()?).ok();
        let (start, end) = text()?.split_once('-')?;
        let bits = text()?.as_bytes();
        let offset = text()?;
        let (major, minor) = text()?.split_once(':')?;
        let inode = text()?;
        let has = |index: usize, letter: u8, bit: u32| if bits.get(index) == Some(&letter) { bit } else { 0 };
        let (start, end) = (hex(start)?, hex(end)?);
        let [major, minor] = [major, minor].map(|text| u32::try_from(hex(text)?).ok());
        (start <= end).then_some(Map {
            start,
            end,
            prot: has(0, b'r', Self::READ) | has(1, b'w', Self::WRITE) | has(2, b'x', Self::EXEC),
            shared: bits.get(3) == Some(&b's'),
            offset: hex(offset)?,
            device: (major?, minor?),
            inode: inode.parse().ok()?,
            name: fields.next().unwrap_or_default().trim_ascii_start(),
        })
    }

    /// How many bytes are mapped.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// All mappings in a text.
pub fn maps(text: &[u8]) -> impl Iterator<Item = Map<'_>> {
    text.split(|&byte| byte == b'\n').filter_map(Map::parse)
}

/// The text of a process's mappings, in which that of an address is found by halves: for those who ask often.
#[derive(Debug, Default)]
pub struct MapText {
    text: Vec<u8>,
    /// The first addresses of the lines in order, and where each begins.
    lines: Vec<(u64, usize)>,
}

impl From<Vec<u8>> for MapText {
    fn from(text: Vec<u8>) -> Self {
        let line_at = |line: &[u8]| line.as_ptr() as usize - text.as_ptr() as usize;
        let all = text.split(|&byte| byte == b'\n');
        let mut lines: Vec<(u64, usize)> =
            all.filter_map(|line| Some((Map::parse(line)?.start, line_at(line)))).collect();
        // As the kernel has them.
        lines.sort_unstable();
        MapText { text, lines }
    }
}

impl MapText {
    /// The mapping that an address is in.
    pub fn at(&self, address: u64) -> Option<Map<'_>> {
        let after = self.lines.partition_point(|(start, _)| *start <= address);
        let (_, place) = self.lines.get(after.checked_sub(1)?)?;
        maps(&self.text[*place..]).next().filter(|map| address < map.end)
    }

    /// All mappings.
    pub fn iter(&self) -> impl Iterator<Item = Map<'_>> {
        maps(&self.text)
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line =
            b"7f12a000-7f12b000 r-xp 00001000 fe:01 1234                       /usr/lib/a b.so (deleted)";
        let map = Map::parse(line).expect("a line");
        assert_eq!((map.start, map.end, map.offset, map.inode), (0x7f12a000, 0x7f12b000, 0x1000, 1234));
        assert_eq!((map.prot, map.shared, map.device, map.len()), (5, false, (0xfe, 1), 0x1000));
        assert_eq!(map.name, b"/usr/lib/a b.so (deleted)");
        let anonymous = Map::parse(b"1000-2000 rw-s 00000000 00:00 0 ").expect("a line");
        assert_eq!((anonymous.name, anonymous.prot, anonymous.shared), (&b""[..], 3, true));
        assert_eq!(Map::parse(b""), None);
        assert_eq!(Map::parse(b"2000-1000 rw-s 00000000 00:00 0 "), None);
    }

    #[test]
    fn the_mapping_of_an_address_is_found_as_by_looking_at_all() {
        let text =
            b"1000-2000 r--p 0 0:0 0 a\n2000-3000 r-xp 0 0:0 0 b\nno line\n\n5000-6000 rwxp 0 0:0 0 c\n";
        let known = MapText::from(text.to_vec());
        assert_eq!(known.iter().count(), 3);
        for address in (0..0x7000).step_by(0x7ff).chain([0x1fff, 0x2000, 0x3000, 0x5fff, 0x6000, u64::MAX]) {
            let found = maps(text).find(|map| (map.start..map.end).contains(&address));
            assert_eq!(known.at(address), found, "{address:#x}");
        }
        assert_eq!(MapText::default().at(0), None);
    }
}
