//! The vdso, the small library that the kernel puts into every process: it is in no file, but the one of
//! this process is that of all processes of the running kernel with the same word size.

use crate::elf::Elf;
use crate::error::{Error, Problem};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// The name in place of a path.
const NAME: &str = "[vdso] of this process";

/// A vdso is a few pages.
const MAX_SIZE: u64 = 1 << 20;

/// The bytes of this process's vdso.
pub fn vdso_image() -> Result<Vec<u8>, Error> {
    let error = |structure, problem| Error { file: NAME.into(), offset: 0, structure, problem };
    let failed = |structure| move |e: std::io::Error| error(structure, Problem::Io(e.kind()));
    let maps = fs::read("/proc/self/maps").map_err(failed("list of mappings"))?;
    let line = maps.split(|&byte| byte == b'\n').find(|line| line.ends_with(b"[vdso]"));
    let range = line.and_then(|line| {
        let line = std::str::from_utf8(line).ok()?;
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    });
    let (start, end) =
        range.ok_or_else(|| error("list of mappings", Problem::Malformed("this process has no vdso")))?;
    let size = end.saturating_sub(start);
    if size > MAX_SIZE {
        return Err(error("mapping", Problem::TooLarge { size, limit: MAX_SIZE }));
    }
    let mut image = vec![0; size as usize];
    let memory = File::open("/proc/self/mem").map_err(failed("memory of this process"))?;
    memory.read_exact_at(&mut image, start).map_err(failed("memory of this process"))?;
    Ok(image)
}

/// This process's vdso.
pub(crate) fn open() -> Result<Elf, Error> {
    Elf::from_bytes(NAME, vdso_image()?)
}
