//! The containers are as strict as those they stand for.

use perfuse_testkit::{Container, Outcome, Sandbox, need, suite};

suite! {
    witnesses:
        docker_refuses_perf_events_to_root_and_to_users,
        gvisor_has_no_perf_events,
        a_container_shows_only_what_it_is_given,
        a_seccomp_filter_refuses_as_a_raised_paranoid_level_does;
}

fn said(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn docker_refuses_perf_events_to_root_and_to_users() -> Outcome {
    need::perf()?;
    for user in [0, 1000] {
        let output = Container::docker()?.user(user).run(&["perf", "stat", "-e", "task-clock", "true"])?;
        assert!(!output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("No permission"), "{}", said(&output));
        // Two filters of seccomp would be one too many.
        let output = Container::docker()?.user(user).run(&["grep", "Seccomp", "/proc/self/status"])?;
        assert!(said(&output).contains("Seccomp_filters:\t1"), "{}", said(&output));
    }
    Ok(())
}

fn gvisor_has_no_perf_events() -> Outcome {
    need::perf()?;
    let output = Container::gvisor()?.run(&["perf", "stat", "-e", "task-clock", "true"])?;
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("No such device"), "{}", said(&output));
    Ok(())
}

fn a_container_shows_only_what_it_is_given() -> Outcome {
    let program = std::env::current_exe().expect("the running program has a path");
    let container = Container::docker()?.show(program, "/opt/tests");
    let output = container.run(&["sh", "-c", "test -x /opt/tests && ls -A / /tmp"])?;
    let text = said(&output);
    assert!(!text.contains("root\n") && text.contains("/tmp:\n"), "{text}");
    assert!(container.run(&["sh", "-c", "echo a\\\"b > /tmp/x && cat /tmp/x"])?.stdout == b"a\"b\n");
    Ok(())
}

/// Kernels of distributions that know level 3 and 4 answer `EACCES`; others take the number for 2, which
/// lets users look at their own.
fn a_seccomp_filter_refuses_as_a_raised_paranoid_level_does() -> Outcome {
    need::perf()?;
    let sandbox = Sandbox::new().unprivileged().refusing_perf_event_open(libc::EACCES);
    let output = sandbox.command("perf").args(["stat", "-e", "task-clock", "true"]).output();
    let output = output.expect("perf was found");
    assert!(said(&output).contains("perf_event_paranoid"), "{}", said(&output));
    Ok(())
}
