//! Recording as an ordinary user, with the limits of one: `perf_event_paranoid` is 2, memory can be locked in part,
//! descriptors are few.

use super::*;

/// The program, where nobody finds it, and a folder that is nobody's own.
struct Nobody {
    folder: Folder,
    program: PathBuf,
}

impl Nobody {
    fn new(name: &str) -> Result<Self, Skip> {
        need::root()?;
        let folder = Folder::new(name);
        let program = folder.file("perfuse");
        // A copy, because the folder of the program may be closed to others.
        fs::copy(self::program(), &program).expect("a copy");
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).expect("a folder for all");
        Ok(Nobody { folder, program })
    }

    /// Records to the file `d`: the exit status, and what was said.
    fn record(&self, sandbox: Sandbox, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = sandbox.unprivileged().command(&self.program);
        command.arg("record").arg("-o").arg(self.file()).args(arguments).env("LC_ALL", "C.UTF-8");
        let output = command.stdin(Stdio::null()).output().expect("the program starts");
        (output.status.code(), text(&output.stderr))
    }

    fn file(&self) -> PathBuf {
        self.folder.file("d")
    }

    /// Records successfully.
    fn recorded(&self, arguments: &[&str]) -> String {
        let (status, said) = self.record(Sandbox::new(), arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {said}");
        said
    }
}

/// A process of nobody's with 300 threads, ended on drop.
struct Crowd(std::process::Child);

impl Crowd {
    const THREADS: usize = 300;

    fn new() -> Result<Self, Skip> {
        let script = format!(
            "import threading,time\nthreading.stack_size(65536)\n\
             [threading.Thread(target=time.sleep,args=(60,),daemon=True).start() for _ in range({})]\n\
             print('ready',flush=True)\nend=time.time()+60\nwhile time.time()<end: pass",
            Self::THREADS - 1
        );
        // Not one of root's own, which others may not run.
        let mut command = Sandbox::new().unprivileged().command("python3");
        command.args(["-c", &script]).env("PATH", "/usr/bin:/bin").stdout(Stdio::piped());
        let mut crowd = Crowd(command.spawn().map_err(|error| Skip::needs("python3 for all users", error))?);
        crowd.0.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 5]).expect("it runs");
        Ok(crowd)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn groups_are_inherited_without_their_kernel_side() -> Outcome {
    let _paranoid = need::Sysctl::is("kernel/perf_event_paranoid", 2)?;
    let nobody = Nobody::new("user-groups")?;
    for events in ["{cpu-clock,page-faults}:S", "{cpu-clock,page-faults,task-clock}"] {
        let said = nobody.recorded(&["-e", events, "-F", "2000", "sh", "-c", BUSY]);
        assert!(said.contains("user side only") && samples(&nobody.file()) > 20, "{events}: {said}");
    }
    Ok(())
}

pub(super) fn a_user_hears_what_is_never_sampled() -> Outcome {
    let _paranoid = need::Sysctl::is("kernel/perf_event_paranoid", 2)?;
    let nobody = Nobody::new("user-unseen")?;
    let forks = "i=0; while [ $i -lt 2000 ]; do (:); i=$((i+1)); done";
    let said = nobody.recorded(&["-e", "cpu-clock", "-F", "997", "sh", "-c", forks]);
    assert!(said.contains("% of the time was not sampled: time in the kernel is left out (:u)"), "{said}");
    // All of one event's time is told, though the other event of its group is no clock.
    let said = nobody.recorded(&["-e", "{cpu-clock,page-faults}:S", "-F", "1", "true"]);
    assert!(said.contains("100 % of the time was not sampled"), "{said}");
    assert!(said.contains("less than the time from sample to sample"), "{said}");
    // So few that none can be missing by chance.
    let said = nobody.recorded(&["-e", "cpu-clock", "-F", "499", "sh", "-c", BUSY]);
    assert!(!said.contains("was not sampled"), "{said}");
    Ok(())
}

pub(super) fn threads_take_one_descriptor_for_each_cpu() -> Outcome {
    let _paranoid = need::Sysctl::is("kernel/perf_event_paranoid", 2)?;
    let nobody = Nobody::new("user-crowd")?;
    let crowd = Crowd::new()?;
    let one_each = Crowd::THREADS * perfuse::online_cpus().len();
    let limit = one_each as u64 + 100;
    let record = |limit, events| {
        let arguments = ["-e", events, "-p", &crowd.pid(), "sleep", "0.5"];
        nobody.record(Sandbox::new().open_files(limit), &arguments)
    };
    let (status, said) = record(limit, "cpu-clock:u");
    assert_eq!(status, Some(0), "{said}");
    let comms = counts(&nobody.file())[&RecordType::COMM.0];
    assert!(samples(&nobody.file()) > 0 && comms as usize >= Crowd::THREADS, "{said} {comms}");
    // How many would be needed, how many there are, and how there would be more.
    fs::remove_file(nobody.file()).expect("it was there");
    let (status, said) = record(limit, "cpu-clock:u,page-faults:u");
    assert!(status == Some(125) && !nobody.file().exists(), "{said}");
    let needed = 2 * one_each + 64;
    let (needs, has) =
        (format!("{needed} descriptors are needed"), format!("(soft limit {limit}, hard limit {limit})"));
    assert!(said.contains(&needs) && said.contains(&has), "{said}");
    assert!(said.contains(&needed.next_multiple_of(1000).to_string()), "the remedy: {said}");
    Ok(())
}

pub(super) fn who_may_sample_cpus_records_any_number_of_threads() -> Outcome {
    need::root()?;
    let folder = Folder::new("root-crowd");
    let crowd = Crowd::new()?;
    let file = folder.file("d");
    let limit = 100 + 4 * perfuse::online_cpus().len() as u64;
    let mut command = Sandbox::new().open_files(limit).command(program());
    command.args(["record", "-e", "cpu-clock,page-faults", "-p", &crowd.pid(), "-o"]).arg(&file);
    let output = command.args(["sleep", "0.5"]).env("LC_ALL", "C.UTF-8").output().expect("it starts");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    // Some users may raise the limit; for the others perfuse samples whole cpus, and says so.
    let needed = 2 * Crowd::THREADS * perfuse::online_cpus().len() + 64;
    let followed = said.contains(&format!("{needed} descriptors are needed")) && said.contains("(--follow)");
    assert!(followed || !said.contains("--follow"), "{said}");
    assert!(counts(&file)[&RecordType::COMM.0] as usize >= Crowd::THREADS, "{said}");
    Ok(())
}

pub(super) fn threads_share_rings_where_memory_is_short() -> Outcome {
    let _paranoid = need::Sysctl::is("kernel/perf_event_paranoid", 2)?;
    let allowed_kib = need::sysctl("kernel/perf_event_mlock_kb")?;
    let nobody = Nobody::new("user-rings")?;
    let crowd = Crowd::new()?;
    let share = allowed_kib.max(0) as usize * perfuse::online_cpus().len();
    if share + 16 * 4 * perfuse::online_cpus().len() >= 8 * Crowd::THREADS {
        return Err(Skip::needs("a limit of locked memory", allowed_kib));
    }
    let how = ["-e", "cpu-clock:u", "--per-thread", "-p", &crowd.pid(), "sleep", "0.5"];
    // Others may have taken what all of this user's processes share: enough for a small ring for each cpu.
    let own = 16 * perfuse_sys::page_size() as u64 * perfuse::online_cpus().len() as u64;
    let (status, said) = nobody.record(Sandbox::new().locked_bytes(own), &how);
    assert!(
        status == Some(0) && said.contains("one ring for each cpu in place of one for each thread"),
        "{said}"
    );
    assert!(samples(&nobody.file()) > 0, "{said}");
    Ok(())
}
