//! Programs that were to have more rights than those who started them, and do not: Linux gives none by exec to a
//! process whose tracer could not have had them himself.

use super::Machine;
use crate::ptrace::Tid;
use perfuse_proc::{Status, read};
use perfuse_sys::file;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The programs that have been noticed.
#[derive(Debug)]
pub(super) struct Rights {
    /// Exec gives what it does to tracees of ours too.
    all: bool,
    missed: Vec<PathBuf>,
}

/// So many programs are remembered.
const MOST: usize = 16;

impl Default for Rights {
    fn default() -> Self {
        const SYS_PTRACE: u64 = 1 << 19;
        let own = read::own_status().and_then(|own| Status(&own).set("CapEff"));
        Rights { all: own.is_some_and(|own| own & SYS_PTRACE != 0), missed: Vec::new() }
    }
}

impl Machine {
    /// Programs that exec would have given rights if they had not been traced (set-user-id, set-group-id, capabilities
    /// of files), since this was asked last.
    pub fn take_deprived(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.rights.missed)
    }

    /// A process has a new program.
    pub(super) fn see_rights(&mut self, pid: Tid) {
        let missed = &mut self.rights.missed;
        if !self.rights.all && missed.len() < MOST {
            missed.extend(deprived(pid).filter(|path| !missed.contains(path)));
        }
    }
}

/// The program of a process, if that should have rights that it has not.
fn deprived(pid: Tid) -> Option<PathBuf> {
    const SET_USER_ID: u32 = 0o4000;
    /// And executable by its group: otherwise it is a mark of files that are to be locked.
    const SET_GROUP_ID: u32 = 0o2010;
    let link = format!("/proc/{pid}/exe");
    let file = std::fs::metadata(&link).ok()?;
    let has = |bits| file.mode() & bits == bits;
    let given = capabilities(&link);
    if !has(SET_USER_ID) && !has(SET_GROUP_ID) && given == 0 {
        return None;
    }
    let status = read::status(pid as u32)?;
    let process = Status(&status);
    let permitted = process.set("CapPrm")?;
    let misses = has(SET_USER_ID) && process.effective_user()? != file.uid()
        || has(SET_GROUP_ID) && process.effective_group()? != file.gid()
        || given & process.set("CapBnd")? & !permitted != 0;
    // Then they would not have been given anyway.
    let never = process.field("NoNewPrivs") == Some("1") || file::is_nosuid(Path::new(&link));
    (misses && !never).then(|| std::fs::read_link(&link).unwrap_or_default())
}

/// The capabilities that exec of a file gives.
fn capabilities(file: &str) -> u64 {
    let Some(data) = file::capabilities(Path::new(file)) else { return 0 };
    // A version, and two pairs of words of what is permitted and what is inherited.
    let word = |at: usize| {
        let word = data.get(at..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| u64::from(u32::from_le_bytes(*word)))
    };
    if data.len() >= 20 { word(4) | word(12) << 32 } else { 0 }
}
