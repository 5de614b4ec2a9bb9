//! Recordings that are refused, wholly or partly, and what is said about it.

use super::*;

pub(super) fn wrong_command_lines_are_told_apart() -> Outcome {
    let folder = Folder::new("usage");
    for arguments in [&[][..], &["-F", "x", "true"], &["-e", "cpu-clok", "true"], &["-p", "1", "-a"]] {
        let output = record(&folder.file("d"), arguments).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    Ok(())
}

pub(super) fn an_unprivileged_user_records_the_user_side() -> Outcome {
    if need::sysctl("kernel/perf_event_paranoid")? < 2 {
        return Err(Skip::needs("perf_event_paranoid of 2 or more", "it is less"));
    }
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
