//! `perfuse doctor`, the real program: as the user who runs the tests, as a user without privilege, and under
//! filters that refuse the system call.

use perfuse_testkit::{Outcome, Sandbox, need};
use serde_json::Value;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Output;

perfuse_testkit::suite! {
    deterministic:
        a_plan_that_makes_no_sense;
    smoke:
        whatever_is_missing_has_a_reason;
    measurements:
        root_may_measure_everything,
        a_user_is_told_what_keeps_him_out,
        a_filter_with_eperm_is_named,
        a_filter_with_enosys_is_named,
        a_plan_that_works,
        a_plan_without_a_pmu,
        a_plan_beyond_a_users_rights,
        a_plan_where_linux_refuses,
        a_plan_without_anybody_is_about_all,
        text_keeps_to_eighty_columns_and_the_locale;
}

/// Runs `perfuse doctor` with these arguments under these conditions.
fn doctor(conditions: Sandbox, arguments: &[&str]) -> Output {
    // Through a descriptor, so that the folder of the program may be closed to the other user.
    let path = std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into());
    let program = File::open(path).expect("the program is built");
    conditions
        .command(format!("/proc/self/fd/{}", program.as_raw_fd()))
        .arg("doctor")
        .args(arguments)
        .current_dir("/")
        .output()
        .expect("the program starts")
}

/// The same with `--json`, understood.
#[track_caller]
fn report(conditions: Sandbox) -> Value {
    let output = doctor(conditions, &["--json"]);
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["schema"], "perfuse.doctor/1");
    report
}

fn checks(report: &Value) -> &[Value] {
    report["checks"].as_array().expect("a list of checks")
}

/// The check of this name.
#[track_caller]
fn check<'a>(report: &'a Value, id: &str) -> &'a Value {
    checks(report).iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("no check {id}"))
}

fn whatever_is_missing_has_a_reason() -> Outcome {
    let report = report(Sandbox::new());
    for check in checks(&report) {
        let reason = &check["reason"];
        match check["state"].as_str() {
            Some("yes") => assert!(check["detail"].is_string(), "{check:#}"),
            Some("no" | "partly") => {
                assert!(reason["cause"].is_string() && reason["explanation"].is_string(), "{check:#}");
            }
            other => panic!("{other:?}"),
        }
        assert!(check["detail"].is_string() || reason.is_object(), "{check:#}");
    }
    for (name, value) in report["host"].as_object().expect("facts") {
        assert_eq!(value.is_null(), report["absent"][name].is_string(), "{name}: {value}");
    }
    assert!(report["host"]["perf_event_paranoid"].as_i64().is_none_or(|level| level > -10));
    Ok(())
}

fn root_may_measure_everything() -> Outcome {
    need::root()?;
    let report = report(Sandbox::new());
    for id in ["software", "kernel", "timer-sampling", "cpu-wide", "rings"] {
        assert_eq!(check(&report, id)["state"], "yes", "{:#}", check(&report, id));
    }
    assert!(report["normal_user"].is_string(), "root learns what others get");
    let hardware = check(&report, "hardware");
    match need::hardware_pmu() {
        Ok(_) => assert_ne!(hardware["state"], "no", "{hardware:#}"),
        Err(_) => assert_eq!(hardware["reason"]["cause"], "no-hardware-pmu", "{hardware:#}"),
    }
    Ok(())
}

/// The level of `perf_event_paranoid` if it keeps users from whole cpus.
fn strict_level() -> Result<i64, perfuse_testkit::Skip> {
    match need::sysctl("kernel/perf_event_paranoid")? {
        level @ 1.. => Ok(level),
        level => {
            Err(perfuse_testkit::Skip::needs("a stricter perf_event_paranoid", format_args!("it is {level}")))
        }
    }
}

fn a_user_is_told_what_keeps_him_out() -> Outcome {
    need::root()?;
    let level = strict_level()?;
    let report = report(Sandbox::new().unprivileged());
    assert_eq!(report["host"]["uid"], 65534);
    assert!(report["normal_user"].is_null(), "he is one");
    let cpu_wide = &check(&report, "cpu-wide")["reason"];
    if cpu_wide["cause"] == "paranoid-closed" {
        assert!(level > 2, "{cpu_wide:#}");
        assert_eq!(check(&report, "software")["state"], "no");
        return Ok(());
    }
    assert_eq!(cpu_wide["cause"], "paranoid-cpu-wide", "{cpu_wide:#}");
    let remedies = cpu_wide["remedies"].to_string();
    assert!(remedies.contains("sysctl kernel.perf_event_paranoid=0"), "{remedies}");
    if level > 1 {
        assert_eq!(check(&report, "kernel")["reason"]["cause"], "paranoid-kernel");
        // Switches cannot be counted without the kernel: that is said, in place of a 0.
        let software = check(&report, "software");
        assert_eq!(software["state"], "partly");
        assert!(software["detail"].to_string().contains("not context-switches"), "{software:#}");
    }
    assert_eq!(
        check(&report, "breakpoints")["state"],
        check(&self::report(Sandbox::new()), "breakpoints")["state"]
    );
    if need::no_hardware_pmu().is_ok() {
        // Not his rights: the machine has none.
        assert_eq!(check(&report, "hardware")["reason"]["cause"], "no-hardware-pmu");
    }
    Ok(())
}

fn refused_with(errno: i32, name: &str) -> Outcome {
    let report = report(Sandbox::new().refusing_perf_event_open(errno));
    assert_eq!(report["host"]["seccomp_filter"], true);
    for check in checks(&report) {
        // Only the embedded kernel works, which does without the system call.
        let expected = if check["id"] == "embedded" { "yes" } else { "no" };
        assert_eq!(check["state"], expected, "{check:#}");
    }
    for id in
        ["software", "kernel", "timer-sampling", "cpu-wide", "hardware", "cache", "breakpoints", "rings"]
    {
        let reason = &check(&report, id)["reason"];
        assert_eq!((&reason["cause"], &reason["errno"]), (&"seccomp".into(), &name.into()), "{reason:#}");
        assert!(!reason["remedies"].to_string().contains("sysctl"), "no sysctl helps: {reason:#}");
    }
    Ok(())
}

fn a_filter_with_eperm_is_named() -> Outcome {
    refused_with(libc::EPERM, "EPERM")
}

fn a_filter_with_enosys_is_named() -> Outcome {
    refused_with(libc::ENOSYS, "ENOSYS")
}

/// The exit status of a plan and what was said.
fn plan(conditions: Sandbox, line: &str) -> (Option<i32>, String) {
    let output = doctor(conditions, &["--for", line]);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn a_plan_that_works() -> Outcome {
    need::root()?;
    for line in [
        "stat -e page-faults,cs -- true",
        "perfuse stat -a -e cpu-clock",
        "record -a -e cpu-clock -g",
        "record -e 'page-faults' -c 1 -- sh -c \"no such thing\"",
    ] {
        let (status, text) = plan(Sandbox::new(), line);
        assert_eq!(status, Some(0), "{line}: {text}");
    }
    // Default events may be missing.
    let (status, text) = plan(Sandbox::new(), "stat -- true");
    assert_eq!(status, Some(0), "{text}");
    let output = doctor(Sandbox::new(), &["--json", "--for", "stat -e page-faults -- true"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&answer["schema"], &answer["possible"]), (&"perfuse.doctor.plan/1".into(), &true.into()));
    Ok(())
}

fn a_plan_without_a_pmu() -> Outcome {
    need::root()?;
    need::no_hardware_pmu()?;
    let (status, text) = plan(Sandbox::new(), "record -a -e cycles");
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("no PMU") && !text.contains("kernel.perf_event_paranoid"), "{text}");
    let (status, text) = plan(Sandbox::new(), "record -- true");
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("in place of cycles"), "{text}");
    Ok(())
}

fn a_plan_beyond_a_users_rights() -> Outcome {
    need::root()?;
    strict_level()?;
    let (status, text) = plan(Sandbox::new().unprivileged(), "record --kernel linux -a -e page-faults");
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("kernel.perf_event_paranoid"), "{text}");
    let filtered = Sandbox::new().refusing_perf_event_open(libc::EPERM);
    let (status, text) = plan(filtered, "stat --kernel linux -- true");
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("seccomp"), "{text}");
    Ok(())
}

fn a_plan_where_linux_refuses() -> Outcome {
    let filtered = Sandbox::new().refusing_perf_event_open(libc::EPERM);
    for line in ["stat -e page-faults -- true", "record -e cpu-clock -- true"] {
        let (status, text) = plan(filtered, line);
        assert_eq!(status, Some(0), "{line}: {text}");
        assert!(text.contains("measured by perfuse itself"), "{line}: {text}");
    }
    let (status, text) = plan(filtered, "stat -a -e page-faults");
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("not whole cpus"), "{text}");
    Ok(())
}

fn a_plan_without_anybody_is_about_all() -> Outcome {
    need::root()?;
    for line in ["stat -e cs", "record -e cpu-clock"] {
        let (status, text) = plan(Sandbox::new(), line);
        assert_eq!(status, Some(0), "{line}: {text}");
    }
    Ok(())
}

fn a_plan_that_makes_no_sense() -> Outcome {
    for line in ["", "stat -e no-such-event true", "juggle", "record 'x", "stat -p", "record -C x true"] {
        let (status, text) = plan(Sandbox::new(), line);
        assert_eq!(status, Some(2), "{line}: {text}");
    }
    Ok(())
}

fn text_keeps_to_eighty_columns_and_the_locale() -> Outcome {
    let path = std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into());
    let text = |locale: &str| {
        let mut command = std::process::Command::new(&path);
        let output = command.arg("doctor").env("LC_ALL", locale).output().expect("the program starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let unicode = text("C.UTF-8");
    let long = unicode.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None);
    assert!(unicode.contains("Measurements on this machine") && unicode.contains(['✓', '✗']), "{unicode}");
    assert!(!unicode.contains('\x1b'), "no colours into a pipe");
    let plain = text("C");
    assert!(plain.is_ascii(), "{plain}");
    Ok(())
}
