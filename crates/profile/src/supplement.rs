//! Things that a recording lacks, from the files of this machine: build-ids, and code that processes made, out of jitdumps.

use perfuse_abi::record::BuildId as RecordedId;
use perfuse_data::PerfData;
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_data::rewrite::{MadeCode, Supplements};
use perfuse_data::session::{Object, ObjectKind};
use perfuse_files::Owners;
use perfuse_symbols::{BuildId, JitDump, build_id_of, vdso_build_id};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The files of this machine, as they are now.
#[derive(Debug, Default)]
pub struct LocalFiles {
    /// Build-ids that are known by the path of the file.
    pub known: BTreeMap<PathBuf, BuildId>,
    /// Believe jitdumps of any user. By default only those of root and of the user who reads them.
    pub any_owner: bool,
    /// The folder where code of jitdumps is written to; by default that of the jitdump.
    pub folder: Option<PathBuf>,
    /// The recording is of another kernel than the one that runs.
    is_other_kernel: bool,
    /// Jitdumps that could not be used, or not wholly, with the reasons.
    pub problems: Vec<String>,
    /// Files that were written.
    pub written: u64,
}

impl LocalFiles {
    /// For a recording: whether it is of the kernel that runs its header tells.
    pub fn of(data: &mut PerfData<'_>) -> Self {
        let recorded = match data.feature(FeatureId::OSRELEASE) {
            Ok(Some(section)) => match section.feature {
                Feature::OsRelease(release) => Some(String::from_utf8_lossy(release.as_bytes()).into_owned()),
                _ => None,
            },
            _ => None,
        };
        let running = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let is_other_kernel = recorded.is_some_and(|release| release.trim() != running.trim());
        LocalFiles { is_other_kernel, ..LocalFiles::default() }
    }

    fn found(&self, object: &Object) -> Option<BuildId> {
        let path = Path::new(OsStr::from_bytes(&object.name));
        if let Some(&id) = self.known.get(path) {
            return Some(id);
        }
        match &object.kind {
            ObjectKind::Kernel { .. } if !self.is_other_kernel => BuildId::of_running_kernel(),
            ObjectKind::Module { .. } if !self.is_other_kernel && object.name.starts_with(b"[") => {
                let name = object.name.strip_prefix(b"[")?.strip_suffix(b"]")?;
                BuildId::of_loaded_module(std::str::from_utf8(name).ok()?)
            }
            ObjectKind::User if &*object.name == b"[vdso]" && !self.is_other_kernel => vdso_build_id(),
            ObjectKind::User | ObjectKind::Module { .. } if path.is_absolute() => build_id_of(path).ok(),
            _ => None,
        }
    }
}

impl Supplements for LocalFiles {
    fn build_id(&mut self, object: &Object) -> Option<RecordedId> {
        RecordedId::new(self.found(object)?.as_bytes())
    }

    fn code(
        &mut self,
        path: &[u8],
        _pid: u32,
        each: &mut dyn FnMut(MadeCode<'_>) -> io::Result<()>,
    ) -> io::Result<bool> {
        const MOST_PROBLEMS: usize = 64;
        let path = Path::new(OsStr::from_bytes(path));
        let owners = if self.any_owner { Owners::Any } else { Owners::Trusted { also: None } };
        let mut problem = |text: String| {
            if self.problems.len() < MOST_PROBLEMS {
                self.problems.push(text);
            }
        };
        let dump = match JitDump::open_of(path, owners) {
            Ok(dump) => dump,
            Err(error) => {
                problem(error.to_string());
                return Ok(false);
            }
        };
        let folder = self.folder.as_deref().or(path.parent()).unwrap_or(Path::new("/"));
        let done = dump.write_files(folder, &mut |code| {
            let path = code.path.as_os_str().as_bytes();
            let (address, size) = (code.address, code.size);
            each(MadeCode { address, size, offset: code.offset, time: code.time, path })
        })?;
        self.written += done.files;
        if let Some(damage) = done.damage {
            problem(damage.to_string());
        }
        if done.without_code > 0 {
            problem(format!("{}: {} functions have no code in it", path.display(), done.without_code));
        }
        Ok(true)
    }
}
