//! Programs in a container: as Docker runs them by default (by `crun`), and under gVisor (by `runsc`).
//!
//! The root of a container has this machine's programs and libraries to read, and a /tmp of its own. Docker's
//! default profile is written here by what it refuses, which is the shorter list; two of its rules about
//! arguments (`socket`, `personality`) are not.

use crate::{Skip, need};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

/// System calls that Docker's default profile answers with `EPERM` for who has Docker's default
/// capabilities. `clone3` gets `ENOSYS`, and `clone` may make no namespace.
const REFUSED: &str = "acct add_key bpf clock_settime delete_module fanotify_init finit_module fsconfig fsmount \
    fsopen fspick get_mempolicy init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp \
    kexec_file_load kexec_load keyctl lookup_dcookie mbind migrate_pages mount mount_setattr move_mount \
    move_pages open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise quotactl \
    quotactl_fd reboot request_key set_mempolicy set_mempolicy_home_node setdomainname sethostname setns \
    settimeofday swapoff swapon sysfs syslog umount2 unshare uselib userfaultfd ustat vhangup";

/// Capabilities of root in a container of Docker's.
const CAPABILITIES: &str = "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW \
    SETFCAP SETGID SETPCAP SETUID SYS_CHROOT";

/// `CLONE_NEW*` but `CLONE_NEWTIME`, which `clone(2)` cannot be asked for.
const NAMESPACES: [u32; 7] =
    [0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

/// The program that runs the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime {
    /// `crun`, with Docker's seccomp profile.
    Docker,
    /// `runsc`, on its ptrace platform.
    Gvisor,
}

/// A container to run programs in. Each run is a new one.
#[derive(Debug)]
pub struct Container {
    runtime: Runtime,
    user: u32,
    shown: Vec<(PathBuf, String)>,
}

impl Container {
    /// As Docker runs programs by default.
    pub fn docker() -> Result<Self, Skip> {
        Self::new(Runtime::Docker, "crun")
    }

    /// Under gVisor.
    pub fn gvisor() -> Result<Self, Skip> {
        Self::new(Runtime::Gvisor, "runsc")
    }

    fn new(runtime: Runtime, program: &str) -> Result<Self, Skip> {
        need::root()?;
        need::program(program)?;
        need::program("unshare")?;
        Ok(Container { runtime, user: 0, shown: Vec::new() })
    }

    /// The user of the programs; root by default. Other users have no capabilities.
    pub fn user(mut self, uid: u32) -> Self {
        self.user = uid;
        self
    }

    /// Shows a file or a folder of this machine inside, to be read and executed.
    pub fn show(mut self, outside: impl Into<PathBuf>, inside: &str) -> Self {
        self.shown.push((outside.into(), inside.to_owned()));
        self
    }

    /// Runs a program with its arguments to its end, in /tmp.
    pub fn run(&self, arguments: &[&str]) -> Result<Output, Skip> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let name = format!("perfuse-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        let bundle = Bundle(std::env::temp_dir().join(&name));
        let skip = |error: io::Error| Skip::needs("a container", error);
        fs::create_dir_all(bundle.0.join("rootfs")).map_err(skip)?;
        fs::write(bundle.0.join("config.json"), self.config(arguments)).map_err(skip)?;
        // A crun of before 1.9 refuses machines with cgroups of both versions.
        let script = match self.runtime {
            Runtime::Docker => {
                "umount /sys/fs/cgroup/unified 2>/dev/null; \
                 exec crun --root=$1/state --cgroup-manager=disabled run --bundle=$1 $2"
            }
            Runtime::Gvisor => {
                "exec runsc --root=$1/state --platform=ptrace --network=none --ignore-cgroups run --bundle=$1 $2"
            }
        };
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(&bundle.0).arg(&name);
        command.stdin(Stdio::null()).output().map_err(skip)
    }

    /// The container for the runtime (OCI runtime specification).
    fn config(&self, arguments: &[&str]) -> String {
        let list = |words: &[String]| words.join(",");
        let quoted = |words: &mut dyn Iterator<Item = &str>| list(&words.map(quote).collect::<Vec<_>>());
        let capabilities: Vec<String> = match self.user {
            0 => CAPABILITIES.split_whitespace().map(|name| quote(&format!("CAP_{name}"))).collect(),
            _ => Vec::new(),
        };
        let sets =
            ["bounding", "effective", "permitted"].map(|set| format!("\"{set}\":[{}]", list(&capabilities)));
        let mut mounts = mount("/proc", "proc", "proc", "nosuid");
        mounts += &mount("/tmp", "tmpfs", "tmpfs", "mode=1777");
        if self.runtime == Runtime::Docker {
            mounts += &mount("/dev", "tmpfs", "tmpfs", "mode=755");
            mounts += &mount("/sys", "sysfs", "sysfs", "ro");
        }
        let machine =
            ["/bin", "/etc", "/lib", "/lib64", "/usr"].map(|path| (PathBuf::from(path), path.to_owned()));
        for (outside, inside) in machine.iter().chain(&self.shown) {
            if outside.exists() {
                let real = outside.canonicalize().unwrap_or_else(|_| outside.clone());
                mounts += &mount(inside, "bind", &real.display().to_string(), "rbind\",\"ro");
            }
        }
        let mounts = mounts.trim_end_matches(',');
        let seccomp = match self.runtime {
            Runtime::Docker => format!(",\"seccomp\":{}", profile(&quoted(&mut REFUSED.split_whitespace()))),
            Runtime::Gvisor => String::new(),
        };
        format!(
            "{{\"ociVersion\":\"1.0.2\",\"process\":{{\"user\":{{\"uid\":{user},\"gid\":{user}}},\"args\":[{args}],\
             \"env\":[\"PATH=/usr/sbin:/usr/bin:/sbin:/bin\",\"HOME=/tmp\",\"TERM=dumb\"],\"cwd\":\"/tmp\",\
             \"capabilities\":{{{sets}}}}},\"root\":{{\"path\":\"rootfs\"}},\"mounts\":[{mounts}],\
             \"linux\":{{\"namespaces\":[{{\"type\":\"pid\"}},{{\"type\":\"mount\"}},{{\"type\":\"ipc\"}},\
             {{\"type\":\"uts\"}}]{seccomp}}}}}",
            user = self.user,
            args = quoted(&mut arguments.iter().copied()),
            sets = sets.join(","),
        )
    }
}

/// A folder with a container's description, until its run is over.
struct Bundle(PathBuf);

impl Drop for Bundle {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(Path::new(&self.0));
    }
}

fn mount(inside: &str, kind: &str, source: &str, options: &str) -> String {
    format!(
        "{{\"destination\":{},\"type\":\"{kind}\",\"source\":{},\"options\":[\"{options}\"]}},",
        quote(inside),
        quote(source)
    )
}

/// The seccomp profile that refuses these system calls.
fn profile(refused: &str) -> String {
    let mut rules = format!("{{\"names\":[{refused}],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":1}}");
    rules += ",{\"names\":[\"clone3\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":38}";
    for flag in NAMESPACES {
        // Writing to a string does not fail.
        let _ = write!(
            rules,
            ",{{\"names\":[\"clone\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":1,\
             \"args\":[{{\"index\":0,\"value\":{flag},\"valueTwo\":{flag},\"op\":\"SCMP_CMP_MASKED_EQ\"}}]}}"
        );
    }
    format!("{{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{rules}]}}")
}

/// A string of JSON.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
