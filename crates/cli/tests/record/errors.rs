//! Recordings that are refused, wholly or partly, and what is said about it.

use super::*;

pub(super) fn wrong_command_lines_are_told_apart() -> Outcome {
    let folder = Folder::new("usage");
    for arguments in
        [&["-p", "none"][..], &["-F", "x", "true"], &["-e", "cpu-clok", "true"], &["--latency", "-a"]]
    {
        let output = record(&folder.file("d"), arguments).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    Ok(())
}

pub(super) fn an_unprivileged_user_records_the_user_side() -> Outcome {
    let _paranoid = need::Sysctl::is("kernel/perf_event_paranoid", 2)?;
    need::root()?;
    let folder = Folder::new("user");
    // A copy, because the folder of the program may be closed to others.
    let program = folder.file("perfuse");
    fs::copy(self::program(), &program).expect("a copy");
    let directory = Command::new("chmod").arg("777").arg(&folder.0).status();
    assert!(directory.is_ok_and(|status| status.success()));
    let file = folder.file("d");
    let mut command = Sandbox::new().unprivileged().command(&program);
    command.args(["record", "-e", "cpu-clock", "-o"]).arg(&file).args(["sh", "-c", BUSY]);
    let output = command.env("LC_ALL", "C.UTF-8").output().expect("it starts");
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("user side only"), "{said}");
    assert!(samples(&file) > 20);
    let data = PerfData::open(&file).expect("a recording");
    assert!(
        data.events().iter().next().is_some_and(|event| format!("{:?}", event.name).contains("cpu-clock:u"))
    );
    Ok(())
}

/// A recording that is refused: what is said, and that no file is left.
fn refused(folder: &Folder, arguments: &[&str]) -> String {
    let output = record(&folder.file("refused"), arguments).output().expect("it starts");
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(2 | 125)), "{arguments:?}: {:?} {said}", output.status);
    assert!(!folder.file("refused").exists(), "{arguments:?} left a file");
    said
}

pub(super) fn what_is_wrong_is_said() -> Outcome {
    let folder = Folder::new("wrong");
    for (arguments, expected) in [
        (&["-e", "cpu-clok", "true"][..], "did you mean cpu-clock?"),
        (&["-e", "duration_time", "true"], "duration_time cannot be sampled; perfuse stat counts it"),
        (&["-e", "cpu-clock", "--filter", "x > 1", "true"], "cpu-clock is none"),
        (&["-p", "2147483646"], "no such process: 2147483646"),
        (&["-t", "2147483646"], "no such thread: 2147483646"),
        (&["-u", "no such user"], "no such user"),
        (&["-I=sp,nonsense", "true"], "no register is called 'nonsense'; there are"),
        (&["-F", "2000000000", "--strict-freq", "true"], "perf_event_max_sample_rate"),
        (&["-C", "4000", "true"], "there is no cpu 4000 online"),
    ] {
        let said = refused(&folder, arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    Ok(())
}

pub(super) fn what_needs_a_pmu_says_so() -> Outcome {
    need::no_hardware_pmu()?;
    let folder = Folder::new("no-pmu");
    // An event that is refused after others were opened: nothing is recorded, and it is the one that is told.
    let said = refused(&folder, &["-e", "cpu-clock,cycles,page-faults", "true"]);
    assert!(said.contains("cannot open cycles"), "{said}");
    for arguments in [&["-b", "true"][..], &["--call-graph", "lbr", "true"]] {
        let said = refused(&folder, arguments);
        assert!(said.contains("cannot open cycles"), "{said}");
        // Only an event with branches would be a help.
        assert!(said.contains("nothing else records branches") && !said.contains("page-faults"), "{said}");
    }
    let said = refused(&folder, &["-e", "cpu-clock", "-j", "any_call,u", "true"]);
    assert!(said.contains("cannot record branches"), "{said}");
    Ok(())
}

pub(super) fn rings_are_as_large_as_the_user_may_lock() -> Outcome {
    need::root()?;
    let allowed_kib = need::sysctl("kernel/perf_event_mlock_kb")?;
    if !(64..1 << 20).contains(&allowed_kib) {
        return Err(Skip::needs("a limit of locked memory", allowed_kib));
    }
    let _paranoid = need::Sysctl::is("kernel/perf_event_paranoid", 2)?;
    let folder = Folder::new("locked");
    let program = folder.file("perfuse");
    fs::copy(self::program(), &program).expect("a copy");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).expect("a folder for all");
    let mut command = Sandbox::new().as_own_user().locked_bytes(0).command(&program);
    command.args(["record", "-e", "cpu-clock", "-m", "256M", "-o"]).arg(folder.file("d")).arg("true");
    let output = command.env("LC_ALL", "C.UTF-8").output().expect("it starts");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("KiB in place of 262144, which is what this user may lock in memory"), "{said}");
    assert!(PerfData::open(folder.file("d")).is_ok());
    Ok(())
}
