//! The vdso, the small library that the kernel puts into every process: it is in no file, but the one of
//! this process is that of all processes of the running kernel with the same word size.

use crate::elf::Elf;
use crate::error::{Error, Problem};
use perfuse_files::BuildId;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The name in place of a path.
const NAME: &str = "[vdso] of this process";

/// A vdso is a few pages.
const MAX_SIZE: u64 = 1 << 20;

/// The bytes of this process's vdso.
pub fn vdso_image() -> Result<Vec<u8>, Error> {
    let error = |structure, problem| Error { file: NAME.into(), offset: 0, structure, problem };
    let failed = |structure| move |e: std::io::Error| error(structure, Problem::Io(e.kind()));
    let maps = perfuse_proc::read::maps(std::process::id()).map_err(failed("list of mappings"))?;
    let vdso = perfuse_proc::maps(&maps).find(|map| map.name == b"[vdso]");
    let vdso =
        vdso.ok_or_else(|| error("list of mappings", Problem::Malformed("this process has no vdso")))?;
    let size = vdso.len();
    if size > MAX_SIZE {
        return Err(error("mapping", Problem::TooLarge { size, limit: MAX_SIZE }));
    }
    let mut image = vec![0; size as usize];
    let memory = File::open("/proc/self/mem").map_err(failed("memory of this process"))?;
    memory.read_exact_at(&mut image, vdso.start).map_err(failed("memory of this process"))?;
    Ok(image)
}

/// The build-id of this process's vdso, if there is one and it has one.
pub fn vdso_build_id() -> Option<BuildId> {
    open().ok()?.build_id().ok()?
}

/// This process's vdso.
pub(crate) fn open() -> Result<Elf, Error> {
    Elf::from_bytes(NAME, vdso_image()?)
}
