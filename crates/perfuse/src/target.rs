//! The tasks and cpus that one event measures: the `pid` and `cpu` of `perf_event_open(2)`, without the
//! combinations that mean nothing.

use crate::call::Call;
use crate::error::Error;
use perfuse_abi::OpenFlags;
use perfuse_sys::Errno;
use std::fmt;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A target of one event. Cheap to clone.
///
/// ```
/// use perfuse::Target;
/// assert_eq!(Target::thread(42).on_cpu(1).to_string(), "thread 42 on cpu 1");
/// assert_eq!(Target::cpu(0).to_string(), "everything on cpu 0");
/// ```
#[derive(Clone, Debug)]
pub struct Target(Kind);

/// A target that is a thread: on any cpu, or bound to one with [`on_cpu`](Thread::on_cpu).
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// 0: the calling one.
    tid: u32,
}

#[derive(Clone, Debug)]
enum Kind {
    Thread { tid: u32, cpu: Option<u32> },
    Cpu(u32),
    Cgroup { cgroup: Cgroup, cpu: u32 },
}

/// A cgroup whose tasks are to be measured, held open.
#[derive(Clone, Debug)]
pub struct Cgroup {
    path: Arc<Path>,
    dir: Arc<OwnedFd>,
}

impl Cgroup {
    /// Opens a cgroup: a directory of the cgroup v2 tree, or of the v1 tree that carries the
    /// `perf_event` controller. A relative path that is not there is looked up below the mounted tree,
    /// as perf does with `-G`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let mut candidates = vec![path.to_path_buf()];
        candidates.extend(
            mounted_trees().into_iter().map(|tree| tree.join(path.strip_prefix("/").unwrap_or(path))),
        );
        if path.is_absolute() && path.starts_with("/sys") {
            candidates.truncate(1);
        } else {
            // A name is meant as a cgroup first: "/" is the root cgroup, not the root directory.
            candidates.rotate_left(1);
        }
        let mut failure = Errno::ENOENT;
        for candidate in candidates {
            match File::open(&candidate) {
                Ok(dir) => return Ok(Cgroup { path: candidate.into(), dir: Arc::new(dir.into()) }),
                Err(error) => match error.raw_os_error().map_or(Errno::EIO, Errno) {
                    Errno::ENOENT => {}
                    errno => failure = errno,
                },
            }
        }
        Err(Error::new(Call::Cgroup { path: path.to_path_buf() }, failure))
    }

    /// One of a kernel that knows cgroups by descriptors of its own: its path, and the descriptor by which it is named.
    pub fn of(path: impl Into<PathBuf>, descriptor: OwnedFd) -> Self {
        Cgroup { path: path.into().into(), dir: Arc::new(descriptor) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Mount points of cgroup trees that events can be bound to: the v1 tree with the perf_event controller
/// where there is one, else v2.
fn mounted_trees() -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut trees = Vec::new();
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(_), Some(place), Some(kind)) = (words.next(), words.next(), words.next()) else { continue };
        let options = words.next().unwrap_or_default();
        match kind {
            "cgroup" if options.split(',').any(|o| o == "perf_event") => trees.insert(0, place.into()),
            "cgroup2" => trees.push(place.into()),
            _ => {}
        }
    }
    trees
}

impl Thread {
    /// Only while it runs on this cpu.
    pub fn on_cpu(self, cpu: u32) -> Target {
        Target(Kind::Thread { tid: self.tid, cpu: Some(cpu) })
    }
}

impl From<Thread> for Target {
    fn from(thread: Thread) -> Self {
        Target(Kind::Thread { tid: thread.tid, cpu: None })
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Target::from(*self).fmt(f)
    }
}

impl Target {
    /// The calling thread, on any cpu.
    pub fn this_thread() -> Thread {
        Thread { tid: 0 }
    }

    /// The thread of this id, on any cpu. The id of a process is that of its first thread; all threads
    /// of a process are a [`Scope`](crate::Scope), and are sampled by [`SamplerSet::process`](crate::SamplerSet::process).
    pub fn thread(tid: u32) -> Thread {
        Thread { tid }
    }

    /// Everything that runs on this cpu, the kernel's own work included.
    pub fn cpu(cpu: u32) -> Target {
        Target(Kind::Cpu(cpu))
    }

    /// The tasks of this cgroup and of those below it, while they run on this cpu.
    pub fn cgroup(cgroup: &Cgroup, cpu: u32) -> Target {
        Target(Kind::Cgroup { cgroup: cgroup.clone(), cpu })
    }

    /// The thread, if it is one; 0 is the calling thread.
    pub fn tid(&self) -> Option<u32> {
        match self.0 {
            Kind::Thread { tid, .. } => Some(tid),
            _ => None,
        }
    }

    /// The cpu it is bound to.
    pub fn bound_cpu(&self) -> Option<u32> {
        match self.0 {
            Kind::Thread { cpu, .. } => cpu,
            Kind::Cpu(cpu) | Kind::Cgroup { cpu, .. } => Some(cpu),
        }
    }

    /// The arguments of `perf_event_open(2)`: pid, cpu and the flags that say what pid is.
    pub fn arguments(&self) -> (i32, i32, OpenFlags) {
        // A number too large for the interface names no thread and no cpu either.
        let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        match &self.0 {
            Kind::Thread { tid, cpu } => (number(*tid), cpu.map_or(-1, number), OpenFlags::empty()),
            Kind::Cpu(cpu) => (-1, number(*cpu), OpenFlags::empty()),
            Kind::Cgroup { cgroup, cpu } => (cgroup.dir.as_raw_fd(), number(*cpu), OpenFlags::PID_CGROUP),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Thread { tid: 0, .. } => f.write_str("the calling thread")?,
            Kind::Thread { tid, .. } => write!(f, "thread {tid}")?,
            Kind::Cpu(_) => f.write_str("everything")?,
            Kind::Cgroup { cgroup, .. } => write!(f, "cgroup {}", cgroup.path.display())?,
        }
        self.bound_cpu().map_or(Ok(()), |cpu| write!(f, " on cpu {cpu}"))
    }
}
