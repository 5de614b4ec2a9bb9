//! Starting programs to be measured: what they get, how failures are told, and that nothing stays behind.

use perfuse_sys::abi::{Attr, AttrFlags, EventType, OpenFlags, Software};
use perfuse_sys::process::{Child, Files, Held, exists, spawn, spawn_with};
use perfuse_sys::signal::Signals;
use perfuse_sys::{Errno, inherited, perf_event_open, poll::is_writable};
use perfuse_testkit::{Outcome, Sandbox, suite};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{ErrorKind::NotFound, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// A folder of the test's own, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perfuse-process-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// A file with this content and mode.
    fn file(&self, name: &str, content: &str, mode: u32) -> OsString {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        path.into()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).expect("the child's words")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn hold(program: impl AsRef<OsStr>, arguments: &[&str]) -> Held {
    let program = program.as_ref();
    let arguments: Vec<OsString> =
        std::iter::once(program.to_owned()).chain(arguments.iter().map(Into::into)).collect();
    spawn(program, &arguments).expect("a held child")
}

fn run(program: impl AsRef<OsStr>, arguments: &[&str]) -> Result<Child, Errno> {
    hold(program, arguments).release()
}

/// Runs it to its end.
fn status(program: impl AsRef<OsStr>, arguments: &[&str]) -> ExitStatus {
    run(program, arguments).expect("it starts").wait().expect("it ends").0
}

fn standard_files_are_replaced() -> Outcome {
    let folder = Folder::new("files");
    let input = fs::File::open(folder.file("in", "what was asked", 0o644)).expect("its input");
    let create = |name| fs::File::create(folder.0.join(name)).expect("a file to write to");
    let (output, error) = (create("out"), create("err"));
    let files =
        Files { input: Some(input.as_fd()), output: Some(output.as_fd()), error: Some(error.as_fd()) };
    let arguments = ["sh", "-c", "cat; echo complaint >&2"].map(OsString::from);
    let child =
        spawn_with("sh".as_ref(), &arguments, files).expect("a held child").release().expect("it runs");
    assert!(child.wait().expect("its end").0.success());
    assert_eq!((folder.read("out"), folder.read("err")), ("what was asked".into(), "complaint\n".into()));
    Ok(())
}

/// Waits until `condition` holds; a minute is more than any of these takes on the slowest machine.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn arguments_arrive_as_they_are() -> Outcome {
    let folder = Folder::new("arguments");
    let out = folder.0.join("out").into_os_string().into_string().expect("a plain path");
    let script = r#"printf '<%s>' "$0" "$@" > "$1""#;
    let status = status("sh", &["-c", script, "zero", &out, "", "two words", "ümläut", "*"]);
    assert!(status.success());
    assert_eq!(folder.read("out"), format!("<zero><{out}><><two words><ümläut><*>"));
    Ok(())
}

fn nothing_runs_before_the_release() -> Outcome {
    let folder = Folder::new("release");
    let file = folder.0.join("ran");
    let held = hold("sh", &["-c", &format!("echo ran > '{}'", file.display())]);
    assert!(held.pid() > 0 && exists(held.pid()));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!file.exists());
    let child = held.release().expect("sh");
    assert!(child.wait().expect("its end").0.success());
    assert!(file.exists());
    Ok(())
}

fn exit_statuses_and_signals_are_told() -> Outcome {
    assert_eq!(status("sh", &["-c", "exit 7"]).code(), Some(7));
    let killed = status("sh", &["-c", "kill -9 $$"]);
    assert_eq!((killed.code(), killed.signal()), (None, Some(9)));
    let child = run("sleep", &["1000"]).expect("sleep");
    assert_eq!(child.try_wait(), Ok(None), "it is running");
    child.signal(libc::SIGTERM).expect("a signal");
    let (status, _) = child.wait().expect("its end");
    assert_eq!(status.signal(), Some(libc::SIGTERM));
    assert_eq!(child.wait(), Err(Errno::ECHILD), "a second wait finds nobody");
    Ok(())
}

fn what_the_child_used_is_told() -> Outcome {
    let child = run("sh", &["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]).expect("sh");
    let (status, usage) = child.wait().expect("its end");
    assert!(status.success());
    assert!(usage.user + usage.system > Duration::ZERO, "{usage:?}");
    assert!(usage.minor_faults > 10 && usage.peak_rss_bytes > 100 << 10, "{usage:?}");
    Ok(())
}

fn a_program_is_looked_up_on_the_path() -> Outcome {
    let test = "a_program_is_looked_up_on_the_path";
    // In a process of its own, since it changes the environment.
    Sandbox::new().within(test, || {
        let folder = Folder::new("path");
        let (forbidden, right) = (folder.0.join("first"), folder.0.join("second"));
        fs::create_dir(&forbidden).expect("a folder");
        fs::create_dir(&right).expect("a folder");
        folder.file("first/perfuse-tool", "#!/bin/sh\nexit 1\n", 0o644);
        folder.file("second/perfuse-tool", "#!/bin/sh\nexit 4\n", 0o755);
        folder.file("perfuse-here", "#!/bin/sh\nexit 5\n", 0o755);
        std::env::set_current_dir(&folder.0).expect("the folder");
        let set = |value: String| {
            // SAFETY: this process runs one test, on this thread, and nothing else reads the environment.
            unsafe { std::env::set_var("PATH", value) }
        };
        let (first, second) = (forbidden.display(), right.display());
        set(format!("/nonexistent:{first}:{second}:/bin:/usr/bin"));
        assert_eq!(
            status("perfuse-tool", &[]).code(),
            Some(4),
            "a file that may not be executed is passed over"
        );
        set(format!("{first}:/nonexistent"));
        assert_eq!(run("perfuse-tool", &[]).map(drop), Err(Errno::EACCES), "unless there is no other");
        assert_eq!(run("perfuse-here", &[]).map(drop), Err(Errno::ENOENT));
        set(format!("{first}:"));
        assert_eq!(status("perfuse-here", &[]).code(), Some(5), "an empty entry is the current folder");
        assert_eq!(status("./perfuse-here", &[]).code(), Some(5));
        Ok(())
    })
}

fn failures_of_exec_are_told_by_the_release() -> Outcome {
    let folder = Folder::new("failures");
    let release = |program: &OsStr| run(program, &[]).map(drop);
    // A folder of the PATH that is closed to this user makes it EACCES, as it does for execvp(3).
    let nowhere = release("perfuse-no-such-program".as_ref());
    assert!([Err(Errno::ENOENT), Err(Errno::EACCES)].contains(&nowhere), "{nowhere:?}");
    assert_eq!(release("/nonexistent/program".as_ref()), Err(Errno::ENOENT));
    assert_eq!(release("".as_ref()), Err(Errno::ENOENT));
    assert_eq!(release(&folder.file("plain", "text", 0o644)), Err(Errno::EACCES));
    assert_eq!(release(folder.0.as_os_str()), Err(Errno::EACCES), "a folder");
    let nowhere = folder.file("nowhere", "#!/nonexistent/shell\n", 0o755);
    assert_eq!(release(&nowhere), Err(Errno::ENOENT), "its interpreter is missing");
    assert_eq!(spawn("a\0b".as_ref(), &["a".into()]).map(drop), Err(Errno::EINVAL));
    assert_eq!(spawn("true".as_ref(), &["a\0b".into()]).map(drop), Err(Errno::EINVAL));
    Ok(())
}

fn a_script_without_an_interpreter_is_given_to_the_shell() -> Outcome {
    let folder = Folder::new("script");
    let script = folder.file("script", "echo \"$# $2\" > \"$1\"; exit 6\n", 0o755);
    let out = folder.0.join("out").into_os_string().into_string().expect("a plain path");
    assert_eq!(status(&script, &[&out, "second"]).code(), Some(6));
    assert_eq!(folder.read("out"), "2 second\n");
    Ok(())
}

/// The children of this process that have ended but were not waited for, and those that run.
fn children() -> usize {
    let me = std::process::id().to_string();
    let parent_of = |stat: String| {
        let rest = stat.rsplit_once(") ").expect("the name in parentheses").1.to_owned();
        rest.split(' ').nth(1).map(str::to_owned)
    };
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let stats = processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter(|stat| parent_of(stat.clone()).as_ref() == Some(&me)).count()
}

fn a_dropped_child_leaves_no_zombie() -> Outcome {
    let held: Vec<_> = (0..5).map(|_| hold("sleep", &["1000"])).collect();
    assert_eq!(children(), 5);
    drop(held);
    assert_eq!(children(), 0);
    // A release that fails ends the child too.
    assert_eq!(run("/nonexistent/program", &[]).map(drop), Err(Errno::ENOENT));
    assert_eq!(children(), 0);
    Ok(())
}

fn a_held_child_that_was_killed_is_told_by_wait() -> Outcome {
    // Also in a program that has not switched SIGPIPE off, as Rust's start-up does.
    // SAFETY: plain numbers.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let held = hold("true", &[]);
    // SAFETY: plain numbers.
    unsafe { libc::kill(held.pid(), libc::SIGKILL) };
    eventually("it dies", || {
        fs::read_to_string(format!("/proc/{}/stat", held.pid())).is_ok_and(|stat| stat.contains(") Z "))
    });
    let child = held.release().expect("it ended like a program that was killed at once");
    // SAFETY: plain numbers.
    unsafe { libc::signal(libc::SIGPIPE, before) };
    assert_eq!(child.wait().expect("its end").0.signal(), Some(libc::SIGKILL));
    Ok(())
}

fn children_held_at_the_same_time_do_not_wait_for_each_other() -> Outcome {
    // Two threads spawn at once: neither child may keep an end of the other's pipes open.
    for _ in 0..300 {
        let spawning = || std::thread::spawn(|| hold("true", &[]));
        let (first, second) = (spawning(), spawning());
        let (first, second) = (first.join().expect("a thread"), second.join().expect("a thread"));
        let first = first.release().expect("true");
        assert!(first.wait().expect("its end").0.success());
        assert!(second.release().expect("true").wait().expect("its end").0.success());
    }
    Ok(())
}

fn a_held_child_ends_with_its_parent() -> Outcome {
    let test = "a_held_child_ends_with_its_parent";
    let file = std::env::temp_dir().join(format!("perfuse-held-{}", std::os::unix::process::parent_id()));
    let own = std::env::temp_dir().join(format!("perfuse-held-{}", std::process::id()));
    Sandbox::new().within(test, || {
        let held = hold("sleep", &["1000"]);
        fs::write(&file, held.pid().to_string()).expect("the file");
        // Not dropped: the process ends without running destructors.
        std::mem::forget(held);
        Ok(())
    })?;
    if let Ok(pid) = fs::read_to_string(&own) {
        fs::remove_file(&own).expect("the file");
        // In a container without an init nobody waits for it: it has ended then, and is there all the same.
        let ended = || fs::read_link(format!("/proc/{pid}/exe")).is_err_and(|e| e.kind() == NotFound);
        eventually("it ends after its parent", ended);
    }
    Ok(())
}

fn a_child_starts_with_nothing_blocked() -> Outcome {
    let folder = Folder::new("blocked");
    let out = folder.0.join("out");
    let _signals = Signals::collect(&[libc::SIGINT, libc::SIGTERM, libc::SIGCHLD]).expect("signalfd");
    let script = format!("exec grep -E '^Sig(Blk|Ign)' /proc/self/status > '{}'", out.display());
    assert!(status("sh", &["-c", &script]).success());
    let text = folder.read("out");
    let masks: Vec<u64> = text
        .lines()
        .map(|line| u64::from_str_radix(line.split_whitespace().nth(1).expect("a mask"), 16).expect("hex"))
        .collect();
    assert_eq!(masks[0], 0, "blocked: {text}");
    assert_eq!(masks[1] & (1 << (libc::SIGPIPE - 1)), 0, "ignored: {text}");
    Ok(())
}

/// Where the open descriptors of a process point.
fn links(pid: &str) -> Vec<(i32, String)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors").flatten();
    let link = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
    };
    entries.filter_map(link).collect()
}

fn descriptors_close_on_exec() -> Outcome {
    // Descriptors that this process inherited are none of ours.
    let before: Vec<_> = links("self").into_iter().map(|(number, _)| number).collect();
    let mut ours: Vec<Box<dyn AsRawFd>> = Vec::new();
    let mut attr = Attr { config: Software::DUMMY.0, ..Attr::new(EventType::SOFTWARE) };
    attr.flags = AttrFlags::EXCLUDE_KERNEL;
    let event: Result<OwnedFd, _> = perf_event_open(&mut attr, 0, -1, None, OpenFlags::FD_CLOEXEC);
    ours.extend(event.ok().map(|event| Box::new(event) as Box<dyn AsRawFd>));
    let signals = Signals::collect(&[libc::SIGUSR1]).expect("signalfd");
    let (first, second) = (hold("sleep", &["1000"]), hold("sleep", &["1000"]));
    let pid = second.pid().to_string();
    let child = second.release().expect("sleep");
    let inherited: Vec<_> = links(&pid).into_iter().filter(|(number, _)| !before.contains(number)).collect();
    child.signal(libc::SIGKILL).expect("a signal");
    child.wait().expect("its end");
    assert_eq!(inherited, []);
    drop((first, signals, ours));
    Ok(())
}

fn an_inherited_descriptor_is_taken_by_its_number() -> Outcome {
    let (mut other, given) = UnixStream::pair().expect("a pair of sockets");
    let own = inherited(given.as_raw_fd()).expect("it is open");
    assert_ne!(own.as_raw_fd(), given.as_raw_fd());
    let flags = fs::read_to_string(format!("/proc/self/fdinfo/{}", own.as_raw_fd())).expect("fdinfo");
    let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags").trim();
    assert_ne!(i32::from_str_radix(flags, 8).expect("octal") & libc::O_CLOEXEC, 0, "{flags}");
    // The same open file, beyond the life of the number.
    drop(given);
    let mut own = UnixStream::from(own);
    own.write_all(b"hello").expect("the other end is open");
    let mut bytes = [0; 5];
    other.read_exact(&mut bytes).expect("it was written");
    assert_eq!(&bytes, b"hello");
    assert_eq!(inherited(-1).err(), Some(Errno::EBADF));
    assert_eq!(inherited(1 << 28).err(), Some(Errno::EBADF));

    assert!(is_writable(own.as_fd()));
    own.set_nonblocking(true).expect("a socket");
    while own.write(&[0; 4096]).is_ok() {}
    assert!(!is_writable(own.as_fd()), "it is full");
    Ok(())
}

fn existence_is_told_truly() -> Outcome {
    assert!(exists(std::process::id() as i32) && exists(1));
    for pid in [0, -1, i32::MIN, i32::MAX] {
        assert!(!exists(pid), "{pid}");
    }
    let child = run("true", &[]).expect("true");
    child.wait().expect("its end");
    assert!(!exists(child.pid()));
    Ok(())
}

fn somebody_elses_process_exists() -> Outcome {
    Sandbox::new().unprivileged().within("somebody_elses_process_exists", || {
        assert!(exists(1));
        assert!(!exists(-1) && !exists(0));
        Ok(())
    })
}

suite! {
    smoke:
        exit_statuses_and_signals_are_told;
    measurements:
        standard_files_are_replaced,
        arguments_arrive_as_they_are,
        nothing_runs_before_the_release,
        what_the_child_used_is_told,
        a_program_is_looked_up_on_the_path,
        failures_of_exec_are_told_by_the_release,
        a_script_without_an_interpreter_is_given_to_the_shell,
        a_dropped_child_leaves_no_zombie,
        a_held_child_that_was_killed_is_told_by_wait,
        children_held_at_the_same_time_do_not_wait_for_each_other,
        a_held_child_ends_with_its_parent,
        a_child_starts_with_nothing_blocked,
        descriptors_close_on_exec,
        an_inherited_descriptor_is_taken_by_its_number,
        existence_is_told_truly,
        somebody_elses_process_exists;
}
