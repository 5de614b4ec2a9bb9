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
}
