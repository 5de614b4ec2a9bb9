//! Questions to the machine. Each answers with what was asked for, or with the reason to skip.

use crate::Skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Nothing that is not everywhere.
pub fn nothing() -> Result<(), Skip> {
    Ok(())
}

/// Needs a Linux that counts for this user, even if only what his own programs do in user space. Sandboxes refuse all events, and so
/// do the levels of `perf_event_paranoid` that distributions have added (3 and more).
pub fn events() -> Result<(), Skip> {
    // struct perf_event_attr in its first size: a software event (type 1), page faults (2), without the kernel's.
    let mut attr = [0u64; 8];
    (attr[0], attr[1], attr[5]) = (1 | 64 << 32, 2, 1 << 5);
    // SAFETY: the pointer is to an attr of the size that it tells; the rest are plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attr.as_mut_ptr(), 0, -1, -1, 0) };
    if fd < 0 {
        return Err(Skip::needs("events of Linux", std::io::Error::last_os_error()));
    }
    // SAFETY: a fresh descriptor that nobody else has.
    unsafe { libc::close(fd as libc::c_int) };
    Ok(())
}

/// A process may trace its children, as the embedded kernel does: containers may refuse it, and so may the Yama module.
pub fn ptrace() -> Result<(), Skip> {
    // SAFETY: the child, which has this thread alone, makes two system calls and no others.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: PTRACE_TRACEME takes no pointers, and _exit runs nothing of ours.
        unsafe { libc::_exit((libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0).into()) }
    }
    let mut status = 0;
    // SAFETY: the status is ours to write.
    let waited = child > 0 && unsafe { libc::waitpid(child, &mut status, 0) } == child;
    match waited && status == 0 {
        true => Ok(()),
        false => Err(Skip::needs("ptrace", "a child may not be traced")),
    }
}

/// Something that counts: Linux' events, or by ptrace the embedded kernel's.
pub fn some_events() -> Result<(), Skip> {
    events().or_else(|_| ptrace())
}

/// The effective user is root.
pub fn root() -> Result<(), Skip> {
    // SAFETY: geteuid has no preconditions.
    match unsafe { libc::geteuid() } {
        0 => Ok(()),
        uid => Err(Skip::needs("root", format_args!("running as uid {uid}"))),
    }
}

/// Processes have the numbers here that they have for the kernel: in no container.
pub fn first_pid_namespace() -> Result<(), Skip> {
    // PROC_PID_INIT_INO of the kernel's <linux/proc_ns.h>.
    let here = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    match here == Path::new("pid:[4026531836]") {
        true => Ok(()),
        false => Err(Skip::needs("the first pid namespace", format_args!("this one is {}", here.display()))),
    }
}

/// A program of this name on the PATH.
pub fn program(name: &str) -> Result<PathBuf, Skip> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| Skip::needs(name, "no such program on the PATH"))
}

/// Linux's own `perf`, able to run.
pub fn perf() -> Result<PathBuf, Skip> {
    let perf = program("perf")?;
    let runs = Command::new(&perf).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match runs {
        Ok(status) if status.success() => Ok(perf),
        _ => Err(Skip::needs("perf", "`perf --version` fails; is linux-perf installed?")),
    }
}

/// The tracing file system; mounts it where root may.
pub fn tracefs() -> Result<PathBuf, Skip> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let found = || places.iter().map(Path::new).find(|dir| dir.join("events").is_dir());
    if found().is_none() {
        let mount = Command::new("mount").args(["-t", "tracefs", "tracefs", places[0]]).output();
        if let Err(error) = mount {
            return Err(Skip::needs("tracefs", error));
        }
    }
    found().map(Path::to_path_buf).ok_or_else(|| Skip::needs("tracefs", "not mounted, and it cannot be"))
}

/// The number in a file under /proc/sys, such as `kernel/perf_event_paranoid`.
pub fn sysctl(name: &str) -> Result<i64, Skip> {
    let path = Path::new("/proc/sys").join(name);
    let text = fs::read_to_string(&path).map_err(|e| Skip::needs(&path.display().to_string(), e))?;
    text.trim().parse().map_err(|e| Skip::needs(&path.display().to_string(), e))
}

/// A file under /proc/sys with a certain number in it. Put back on drop, if it was changed.
#[derive(Debug)]
#[must_use = "the number is put back when this is dropped"]
pub struct Sysctl {
    path: PathBuf,
    before: Option<String>,
}

impl Sysctl {
    /// The number is `value`, or is made so in a virtual machine that exists for the tests (which says so
    /// by the environment variable `PERFUSE_VM`): the settings of other machines are left alone.
    pub fn is(name: &str, value: i64) -> Result<Self, Skip> {
        let (found, path) = (sysctl(name)?, Path::new("/proc/sys").join(name));
        if found == value {
            return Ok(Sysctl { path, before: None });
        }
        let what = format!("{name} of {value}");
        if std::env::var_os("PERFUSE_VM").is_none() {
            return Err(Skip::needs(
                &what,
                format_args!("it is {found}, and tests do not change this machine"),
            ));
        }
        fs::write(&path, value.to_string()).map_err(|error| Skip::needs(&what, error))?;
        Ok(Sysctl { path, before: Some(found.to_string()) })
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = fs::write(&self.path, before);
        }
    }
}

/// A hardware PMU of the cpu: any whose name does not belong to a software or platform PMU.
pub fn hardware_pmu() -> Result<String, Skip> {
    let devices = "/sys/bus/event_source/devices";
    let names = fs::read_dir(devices).map_err(|e| Skip::needs("a hardware PMU", e))?;
    names
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find(|name| name.starts_with("cpu") || name.starts_with("armv"))
        .ok_or_else(|| Skip::needs("a hardware PMU", format_args!("{devices} lists none")))
}

/// No hardware PMU: for tests of what then happens.
pub fn no_hardware_pmu() -> Result<(), Skip> {
    match hardware_pmu() {
        Err(_) => Ok(()),
        Ok(name) => Err(Skip::needs("a machine without a hardware PMU", format_args!("this one has {name}"))),
    }
}

/// At least this many online cpus.
pub fn cpus(count: usize) -> Result<(), Skip> {
    let have = std::thread::available_parallelism().map_or(1, usize::from);
    if have >= count {
        return Ok(());
    }
    Err(Skip::needs(&format!("{count} cpus"), format_args!("there are {have}")))
}

/// Shared data outside the project, named by the environment variable `PERFUSE_SHARED`.
pub fn shared(below: &str) -> Result<PathBuf, Skip> {
    let root = std::env::var_os("PERFUSE_SHARED")
        .ok_or_else(|| Skip::needs(below, "PERFUSE_SHARED names no folder"))?;
    let path = Path::new(&root).join(below);
    if path.exists() {
        Ok(path)
    } else {
        Err(Skip::needs(below, format_args!("{} is absent", path.display())))
    }
}
