//! Tracepoints where the tracing file system is not mounted: users with the right have them all the same, and others
//! hear what is in the way, and what would help. The machine is left as it is: each test has mounts of its own.

use perfuse_testkit::{Container, Outcome, Sandbox, Skip, need, suite};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

suite! {
    measurements:
        root_has_tracepoints_without_a_mount,
        an_ordinary_user_hears_who_has_them,
        the_root_of_a_user_namespace_hears_that_it_is_none,
        in_a_container_the_true_cause_is_told,
        under_gvisor_the_true_cause_is_told;
}

fn program() -> PathBuf {
    std::env::var_os("PERFUSE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_perfuse").into(), PathBuf::from)
}

/// Advice only for users who are able to follow it, and only where it helps.
const ADVICE_OF_OLD: &str = "mount -t tracefs";

/// A copy of the program that everybody may run, gone with this.
struct Copy(PathBuf);

impl Copy {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("perfuse-tracing-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("one for all");
        fs::copy(program(), folder.join("perfuse")).expect("a copy");
        Copy(folder)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a shell script where neither tracefs nor debugfs is mounted; `$P` is the program. Skips where a kernel has no
/// tracing, or nobody may unmount.
fn without_mounts(copy: &Copy, script: &str) -> Result<Output, Skip> {
    need::root()?;
    need::program("unshare")?;
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.contains("tracefs") {
        return Err(Skip::needs("tracefs", "this kernel has none"));
    }
    let unmounted = "for p in /sys/kernel/tracing /sys/kernel/debug; do umount -R $p 2>/dev/null; done; \
                     ls /sys/kernel/tracing/events /sys/kernel/debug/tracing/events 2>/dev/null && exit 77; ";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("{unmounted}{script}")]).env("P", copy.0.join("perfuse"));
    let output = command.stdin(Stdio::null()).output().map_err(|error| Skip::needs("unshare", error))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(1) if said.starts_with("unshare: ") => Err(Skip::needs("mounts of its own", said)),
        Some(77) => Err(Skip::needs("a place without tracefs", "it cannot be unmounted here")),
        _ => Ok(output),
    }
}

fn text(output: &Output) -> String {
    let [out, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    // Lines are broken where a terminal's end.
    format!("{out}{error}").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn root_has_tracepoints_without_a_mount() -> Outcome {
    let copy = Copy::new("root");
    let script = "cd $(dirname $P) && $P stat -x, -e sched:sched_process_exit true \
         && $P record -q -e sched:sched_process_exit --filter 'prio > 0' -o d -- true && $P script -i d \
         && $P list 'sched:sched_process_ex*' && $P doctor --json | grep -A1 '\"tracefs\"' \
         && ! mount | grep ' on /sys/kernel/[a-z/]* type tracefs'";
    let output = without_mounts(&copy, script)?;
    let said = text(&output);
    if said.contains("CAP_SYS_ADMIN") {
        return Err(Skip::needs("CAP_SYS_ADMIN", said));
    }
    assert!(output.status.success(), "{said}");
    for part in [
        "1,,sched:sched_process_exit",
        "sched:sched_process_exit: comm=true pid=",
        "sched:sched_process_exec",
        "\"tracefs\": \"/sys/kernel/tracing\"",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    Ok(())
}

fn an_ordinary_user_hears_who_has_them() -> Outcome {
    let copy = Copy::new("user");
    let user = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    need::program("setpriv")?;
    for command in
        ["stat -e sched:sched_switch true", "list 'sched:*'", "record -e sched:sched_switch -o- true"]
    {
        let said = text(&without_mounts(&copy, &format!("{user} $P {command}"))?);
        assert!(said.contains("is not mounted here, and this user may not mount it"), "{command}: {said}");
        assert!(!said.contains(ADVICE_OF_OLD), "{command}: {said}");
    }
    Ok(())
}

fn the_root_of_a_user_namespace_hears_that_it_is_none() -> Outcome {
    let copy = Copy::new("namespace");
    let may = Sandbox::new().unprivileged().command("unshare").args(["-Ur", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        return Err(Skip::needs("user namespaces", "this user may make none"));
    }
    let said = text(&without_mounts(&copy, "unshare -Ur $P stat -e sched:sched_switch true")?);
    assert!(said.contains("the root of a user namespace may not mount it"), "{said}");
    assert!(said.contains("outside this user namespace") && !said.contains(ADVICE_OF_OLD), "{said}");
    Ok(())
}

fn in_a_container_the_true_cause_is_told() -> Outcome {
    for user in [0, 1000] {
        let container = Container::docker()?.user(user).show(program(), "/perfuse");
        for command in [
            &["/perfuse", "list", "sched:*"][..],
            &["/perfuse", "record", "-e", "sched:sched_switch", "-o", "/tmp/d", "true"],
            &["/perfuse", "stat", "-e", "syscalls:sys_enter_openat", "true"],
            &["/perfuse", "doctor"],
        ] {
            let said = text(&container.run(command)?);
            assert!(said.contains("seccomp"), "uid {user}, {command:?}: {said}");
            assert!(!said.contains(ADVICE_OF_OLD), "uid {user}, {command:?}: {said}");
        }
    }
    Ok(())
}

fn under_gvisor_the_true_cause_is_told() -> Outcome {
    let container = Container::gvisor()?.show(program(), "/perfuse");
    let said = text(&container.run(&["/perfuse", "stat", "-e", "sched:sched_switch", "true"])?);
    assert!(said.contains("gVisor answers the system calls here"), "{said}");
    assert!(!said.contains(ADVICE_OF_OLD), "{said}");
    Ok(())
}
