//! perf's hook for its tests of attrs: each event that stays open is written to a file `event-TYPE-CONFIG-FD`, in the form
//! that perf's own tests compare.

use crate::Perf;
use crate::kernel::{Errno, Kernel, Mapping, Protection, Wrap};
use perfuse_abi::{Attr, AttrFlags, OpenFlags};
use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A kernel that does all that `inner` does, and keeps a file in `folder` for each event that stays open.
pub fn with_attr_files(inner: &Perf, folder: PathBuf) -> Perf {
    let inner = inner.clone();
    Perf::new(Writing { inner, folder, files: Mutex::default(), is_measuring: AtomicBool::new(false) })
}

/// The running kernel, with notes of what it was asked for.
#[derive(Debug)]
struct Writing {
    inner: Perf,
    folder: PathBuf,
    files: Mutex<HashMap<RawFd, PathBuf>>,
    /// Set when measuring begins. An event that is closed before was only a try.
    is_measuring: AtomicBool,
}

/// The members in perf's order. `fd` to `flags` come before them.
const MEMBERS: &[&str] = &[
    "type",
    "size",
    "config",
    "sample_period",
    "sample_type",
    "read_format",
    "disabled",
    "inherit",
    "pinned",
    "exclusive",
    "exclude_user",
    "exclude_kernel",
    "exclude_hv",
    "exclude_idle",
    "mmap",
    "comm",
    "freq",
    "inherit_stat",
    "enable_on_exec",
    "task",
    "watermark",
    "precise_ip",
    "mmap_data",
    "sample_id_all",
    "exclude_host",
    "exclude_guest",
    "exclude_callchain_kernel",
    "exclude_callchain_user",
    "mmap2",
    "comm_exec",
    "context_switch",
    "write_backward",
    "namespaces",
    "use_clockid",
    "wakeup_events",
    "bp_type",
    "config1",
    "config2",
    "branch_sample_type",
    "sample_regs_user",
    "sample_stack_user",
];

fn member(attr: &Attr, name: &str) -> u64 {
    if name == "precise_ip" {
        return attr.flags.precise_ip().into();
    }
    if let Some(flag) = AttrFlags::from_name(&name.to_ascii_uppercase()) {
        return attr.flags.contains(flag).into();
    }
    Attr::FIELDS.iter().find(|field| field.name == name).map_or(0, |field| field.get(attr))
}

impl Writing {
    fn note(&self, attr: &Attr, place: (i32, i32, RawFd), flags: OpenFlags, fd: RawFd) {
        let (pid, cpu, group) = place;
        let title = format!("event-{}-{}-{fd}", attr.type_.0, attr.config);
        let mut text =
            format!("[{title}]\nfd={fd}\ngroup_fd={group}\ncpu={cpu}\npid={pid}\nflags={}\n", flags.bits());
        for name in MEMBERS {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name}={}", member(attr, name));
        }
        let path = self.folder.join(title);
        // The user asked for the files, and sees that one is missing.
        let _ = fs::write(&path, text);
        if let Ok(mut files) = self.files.lock() {
            files.insert(fd, path);
        }
    }
}

impl Wrap for Writing {
    fn inner(&self) -> &dyn Kernel {
        &*self.inner
    }

    fn perf_event_open(
        &self,
        attr: &mut Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
    ) -> Result<OwnedFd, Errno> {
        let fd = self.inner.perf_event_open(attr, pid, cpu, group, flags)?;
        let group = group.map_or(-1, |group| group.as_raw_fd());
        self.note(attr, (pid, cpu, group), flags, fd.as_raw_fd());
        Ok(fd)
    }

    fn read(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
        self.is_measuring.store(true, Ordering::Relaxed);
        self.inner.read(event, words)
    }

    fn mmap(
        &self,
        event: BorrowedFd<'_>,
        len: usize,
        protection: Protection,
        offset: u64,
    ) -> Result<Mapping, Errno> {
        self.is_measuring.store(true, Ordering::Relaxed);
        self.inner.mmap(event, len, protection, offset)
    }

    fn close(&self, event: OwnedFd) {
        let path = self.files.lock().ok().and_then(|mut files| files.remove(&event.as_raw_fd()));
        if let (Some(path), false) = (path, self.is_measuring.load(Ordering::Relaxed)) {
            let _ = fs::remove_file(path);
        }
        self.inner.close(event);
    }
}
