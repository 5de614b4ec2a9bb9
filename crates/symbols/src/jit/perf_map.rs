//! `perf-PID.map`: a text file in `/tmp` to which a program appends a line, "start size name", for each
//! function that it compiles. It knows no times, so of several lines about an address the last counts.

use super::{CodeMap, CodeMapBuilder};
use crate::error::{Error, Problem};
use crate::image::{Image, for_each_line};
use perfuse_files::Owners;
use std::path::Path;

/// Longer lines are cut.
const MAX_LINE: usize = 64 << 10;

/// Larger files are not read.
const MAX_FILE: u64 = 256 << 20;

/// Reads a perf map that belongs to one of these users. Lines that say nothing are passed over;
/// the last one may be half written.
pub(crate) fn read(path: &Path, owners: Owners) -> Result<CodeMap, Error> {
    let image = Image::open_of(path, owners)?;
    let mut builder = CodeMapBuilder::default();
    let mut full = false;
    let read = for_each_line(image.stream(MAX_FILE, "perf map")?, MAX_LINE, |line| {
        if let Some((start, size, name)) = entry(line) {
            full |= builder.push(start, size, 0, name).is_err();
        }
    });
    read.map_err(|error| image.error(0, "perf map", Problem::Io(error.kind())))?;
    if full {
        let limit = super::MAX_CODE as u64;
        return Err(image.error(0, "perf map", Problem::TooLarge { size: image.len, limit }));
    }
    Ok(builder.finish())
}

/// The parts of a line. Some programs write `0x` before numbers.
fn entry(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let line = line.trim_ascii();
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let mut number = || {
        let digits = std::str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = words.next()?.trim_ascii();
    (!name.is_empty()).then_some((start, size, name))
}

#[cfg(test)]
mod tests {
    use super::entry;

    #[test]
    fn lines_as_programs_write_them() {
        type Entry = Option<(u64, u64, &'static str)>;
        let cases: [(&str, Entry); 8] = [
            ("7f00 20 foo", Some((0x7f00, 0x20, "foo"))),
            ("0x7f00 0x20 LazyCompile:~f file.js:1:2", Some((0x7f00, 0x20, "LazyCompile:~f file.js:1:2"))),
            ("FFFFffffFFFFffff 1 x\r", Some((u64::MAX, 1, "x"))),
            ("7f00 20", None),
            ("7f00 20 ", None),
            ("", None),
            ("-1 20 x", None),
            ("10000000000000000 20 x", None),
        ];
        for (line, expected) in cases {
            let expected = expected.map(|(start, size, name)| (start, size, name.as_bytes()));
            assert_eq!(entry(line.as_bytes()), expected, "{line:?}");
        }
    }
}
