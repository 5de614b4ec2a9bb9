//! Files of the tracing file system, for programs that use `bpf(2)` where it is not mounted, or not theirs to read: bpftrace and libbpf
//! look there for the tracepoints, and those that are served here are told.

use super::Intercept;
use super::bpf;
use super::calls::Answer;
use super::inject;
use crate::ptrace::Tid;
use crate::regs::Registers;
use crate::supervisor::Supervisor;
use crate::tracepoints;
use perfuse_abi::Errno;
use perfuse_sys::memfd;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;

impl Intercept {
    /// `open` and `openat`: another file than one of these is the kernel's affair.
    pub(super) fn open_file(
        &mut self,
        supervisor: &Supervisor,
        tid: Tid,
        registers: &Registers,
        path: u64,
        flags: u64,
    ) -> Result<Answer, Errno> {
        let flags = flags as i32;
        let access = flags & libc::O_ACCMODE;
        let text = text(tid, path).filter(|(_, may_be_written)| access == libc::O_RDONLY || *may_be_written);
        let Some((text, _)) = text else { return Ok(Answer::Pass) };
        inject::skip(tid, registers)?;
        self.stopped_again(supervisor, tid);
        let opened = file_of(&text).and_then(|file| {
            let kept = flags & libc::O_CLOEXEC;
            self.process(tid).injector(tid, registers).open(file.as_raw_fd(), access | kept)
        });
        Ok(Answer::Done(opened))
    }
}

/// The text of a file of this path, in the thread's memory, if it is one of these; and whether it may be written.
fn text(tid: Tid, path: u64) -> Option<(String, bool)> {
    let path = &bpf::path_at(tid, path)?;
    // Where bpftrace takes back a probe that it might have made by hand: there is none.
    match tracepoints::is_list_of_probes(path) {
        true => Some((tracepoints::probe_lines(), true)),
        false => Some((tracepoints::file(path)?, false)),
    }
}

/// A file without a name.
fn file_of(text: &str) -> Result<File, Errno> {
    let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EIO));
    let mut file = File::from(memfd::create(c"tracing")?);
    file.write_all(text.as_bytes()).and_then(|()| file.rewind()).map_err(failed)?;
    Ok(file)
}
