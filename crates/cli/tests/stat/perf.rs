//! Next to Linux's own perf: what it prints, and what it counts.

use super::*;
use perfuse_testkit::OwnCgroup;
use std::os::unix::net::UnixStream;

/// Numbers replaced by their shape: `N`, or `N.` with as many `d` as there are decimals.
fn shape(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        let in_a_name = out.ends_with(|last: char| last.is_ascii_alphabetic());
        if !c.is_ascii_digit() || in_a_name {
            out.push(c);
            continue;
        }
        out.push('N');
        while rest.next_if(char::is_ascii_digit).is_some() {}
        if rest.next_if_eq(&'.').is_some() {
            out.push('.');
            while rest.next_if(char::is_ascii_digit).is_some() {
                out.push('d');
            }
        }
    }
    // The prefix of a rate depends on the rate.
    for prefix in ["K/sec", "M/sec", "G/sec"] {
        out = out.replace(prefix, "/sec");
    }
    out.trim_start().to_owned()
}

fn shapes(program: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(program);
    command.arg("stat").args(arguments);
    plainly(&mut command);
    let output = output(&mut command);
    let mut shapes: Vec<String> = text(&output.stderr).lines().map(shape).collect();
    // How many intervals there are, and whether anything ran in each, is a matter of luck.
    if arguments.contains(&"-I") {
        let mut seen = Vec::new();
        shapes.retain(|line| {
            let new = !seen.contains(line) && !line.contains("<not counted>");
            seen.push(line.clone());
            new
        });
    }
    shapes
}

/// Runs both until their lines have the same shapes. On a busy machine an interval may pass in which
/// nothing ran, and a line then has no rate: a difference counts only if it is there every time.
fn assert_same_shapes(program: &Path, perf: &Path, arguments: &[&str]) {
    let mut found = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let mut perfs = shapes(perf, arguments);
        // perf tells that it switches events on and off; that is no result.
        perfs.retain(|line| !line.starts_with("Events "));
        found = (shapes(program, arguments), perfs);
        if found.0 == found.1 {
            return;
        }
    }
    assert_eq!(found.0, found.1, "{arguments:?}");
}

pub(super) fn lines_have_the_shape_of_perfs() -> Outcome {
    need::root()?;
    let perf = need::perf()?;
    need::no_hardware_pmu()?;
    let busy = Running::shell("while :; do /bin/true; done");
    let pid = busy.0.id().to_string();
    let events =
        ["-e", "task-clock,cs:k,faults,minor-faults:u,cycles,L1-dcache-load-misses,r1a8,duration_time"];
    let clockless = ["-e", "faults,cs"];
    let command = ["sh", "-c", BUSY];
    let sleep = ["sleep", "0.06"];
    let cases: &[(&[&str], &[&str], &[&str])] = &[
        (&[], &events, &command),
        (&[], &[], &command),
        (&["-d", "-d", "-d"], &[], &command),
        (&["-d"], &clockless, &command),
        (&[], &clockless, &command),
        (&["-r", "3"], &events, &command),
        (&["-r", "3"], &clockless, &command),
        (&["-I", "20"], &["-e", "task-clock,cycles,duration_time"], &command),
        (&["-a"], &events, &sleep),
        (&["-a"], &[], &sleep),
        (&["-C", "0"], &events, &sleep),
        (&["-a", "-A"], &events, &sleep),
        (&["-a", "--per-core"], &events, &sleep),
        (&["-a", "--per-die"], &events, &sleep),
        (&["-a", "--per-socket"], &events, &sleep),
        (&["-a", "--per-node"], &events, &sleep),
        (&["-a", "-A", "-I", "20"], &["-e", "cpu-clock,cycles"], &sleep),
        (&["-a", "--per-core", "-I", "20"], &["-e", "cpu-clock,cycles"], &sleep),
        (&["-p", &pid], &["-e", "task-clock,cs,cycles"], &sleep),
        (&["-p", &pid, "--per-thread"], &["-e", "task-clock,cycles,duration_time"], &sleep),
        (&["-D", "5"], &["-e", "task-clock"], &command),
        (&["-n"], &[], &command),
    ];
    let program = program();
    for format in [&["-x,"][..], &["-j"], &["-x", ";"], &["-x", "\\t"]] {
        // A separator is a separator.
        let cases = if format.len() > 1 { &cases[..1] } else { cases };
        for (options, events, command) in cases {
            let arguments = [format, options, events, command].concat();
            assert_same_shapes(&program, &perf, &arguments);
        }
    }
    Ok(())
}

pub(super) fn cgroups_are_perfs() -> Outcome {
    need::root()?;
    let perf = need::perf()?;
    let (busy_group, idle_group) = (OwnCgroup::new("busy")?, OwnCgroup::new("idle")?);
    let (busy_name, idle_name) = (busy_group.name(), idle_group.name());
    // Busy on every cpu, so that no row is empty by chance.
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let busy: Vec<Running> = (0..2 * cpus).map(|_| Running::shell("while :; do /bin/true; done")).collect();
    busy.iter().for_each(|busy| busy_group.add(busy.0.id()));
    let first = output(&mut stat(["-e", "faults", "-G", &busy_name, "-x,", "sleep", "0.2"]));
    if text(&first.stderr).contains("not supported") {
        return Err(Skip::needs("events of cgroups", "no controller was ever switched on in the tree"));
    }
    let program = program();
    let (both, with_gap) = (format!("{busy_name},{idle_name}"), format!("{busy_name},,{busy_name}"));
    let (alone, after) = (format!("{busy_name},"), format!(",{busy_name},"));
    let three = "cpu-clock,faults,cs";
    let cases: &[&[&str]] = &[
        &["-a", "-e", three, "-G", &busy_name],
        &["-a", "-e", three, "-G", &idle_name],
        &["-a", "-e", "duration_time,cpu-clock,cs", "-G", &idle_name],
        &["-a", "-e", three, "-G", &both],
        &["-a", "-e", three, "-G", &with_gap],
        &["-a", "-e", three, "-G", &alone],
        &["-a", "-e", three, "-G", &after],
        &["-a", "-e", "faults", "-G", &busy_name, "-e", "cpu-clock"],
        &["-a", "-e", "faults,cs", "-G", &busy_name, "-e", "cpu-clock", "-G", &idle_name],
        &["-a", "-e", "{faults,cs}", "-G", &busy_name],
        &["-a", "-e", "{faults,cs}:W", "-G", &both],
        &["-C", "0", "-e", three, "-G", &with_gap],
        &["-a", "-A", "-e", "cpu-clock,faults", "-G", &alone],
        &["-a", "--per-core", "-e", "cpu-clock,faults", "-G", &alone],
        &["-a", "--per-socket", "-e", "cpu-clock,faults", "-G", &alone],
        &["-a", "-r", "2", "-e", three, "-G", &busy_name],
        &["-a", "-I", "50", "-e", "cpu-clock,faults", "-G", &alone],
        &["-a", "-d", "-e", "cpu-clock", "-G", &busy_name],
    ];
    for (format, cases) in [("-x,", cases), ("-j", &cases[..5])] {
        for case in cases {
            let arguments = [&[format], *case, &["sleep", "0.1"]].concat();
            assert_same_shapes(&program, &perf, &arguments);
        }
    }
    for wrong in [&["-a", "-G", "x", "-e", "cs", "true"][..], &["-a", "-e", "cs", "-G", "a,b", "true"]] {
        for program in [&program, &perf] {
            let mut command = Command::new(program);
            assert_ne!(output(command.arg("stat").args(wrong)).status.code(), Some(0), "{wrong:?}");
        }
    }
    Ok(())
}

/// The orders of this list that are answered with an "ack" within this time, over a socket.
fn answered(program: &Path, orders: &[&'static str], time: Duration) -> Vec<&'static str> {
    let (mut ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let mut command = Command::new(program);
    command.args(["stat", "-D", "-1", "--control", "fd:0,0", "-e", "task-clock,faults,{cs,migrations}"]);
    command.args(["sh", "-c", "exec sleep 60 </dev/null"]);
    plainly(&mut command);
    let child = command.stdin(std::os::fd::OwnedFd::from(theirs)).stderr(Stdio::null()).spawn();
    let child = Running(child.expect("it starts"));
    let mut is_answered = |order: &str, time: Duration| {
        ours.write_all(format!("{order}\n").as_bytes()).expect("it listens");
        ours.set_read_timeout(Some(time)).expect("a socket");
        let mut ack = [0; 5];
        let answered = ours.read_exact(&mut ack).is_ok();
        assert!(!answered || &ack == b"ack\n\0", "{ack:?}");
        answered
    };
    assert!(is_answered("ping", Duration::from_secs(60)));
    let answered = orders.iter().copied().filter(|order| is_answered(order, time)).collect();
    // perf waits for its command.
    let children = format!("/proc/{0}/task/{0}/children", child.0.id());
    let children = fs::read_to_string(children).unwrap_or_default();
    children.split_whitespace().for_each(|pid| send(libc::SIGKILL, pid.parse().expect("a number")));
    answered
}

pub(super) fn the_orders_are_perfs() -> Outcome {
    let perf = need::perf()?;
    need::root()?;
    let orders = [
        "enable",
        "disable",
        "enable faults",
        "disable faults",
        "disable cs",
        "enable nosuch",
        "enablex",
        "evlist",
        "evlist -v",
        "evlist -g",
        "evlist -x",
        "ping",
        "pingx",
        "snapshot",
        "sto",
        "nonsense",
        "",
        "ping",
    ];
    // On a busy machine an answer may come late, which then is told as that of another order.
    let both = |ms| {
        let time = Duration::from_millis(ms);
        (answered(&program(), &orders, time), answered(&perf, &orders, time))
    };
    let agreed = [500, 2_000].into_iter().map(both).find(|(ours, perfs)| ours == perfs);
    let (ours, perfs) = agreed.unwrap_or_else(|| both(10_000));
    assert_eq!(ours, perfs);
    Ok(())
}

pub(super) fn counts_agree_with_perfs() -> Outcome {
    let perf = need::perf()?;
    need::root()?;
    let run = |program: &Path| -> Vec<f64> {
        let mut command = Command::new(program);
        command.args(["stat", "-x,", "-e", "task-clock,faults,cs", "sh", "-c", BUSY]);
        plainly(&mut command);
        let output = output(&mut command);
        let value = |line: &str| line.split(',').next().unwrap().parse().unwrap_or_else(|_| panic!("{line}"));
        text(&output.stderr).lines().map(value).collect()
    };
    // In several turns: what other programs take away differs from run to run, and neither the least nor the middle one
    // is always the better measure.
    let (mut ours, mut perfs) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
    let sorted = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let mut told = String::new();
    for turn in 0..200 {
        for (values, program) in [(&mut perfs, &perf), (&mut ours, &program())] {
            values.iter_mut().zip(run(program)).for_each(|(values, value)| values.push(value));
        }
        if turn < 14 {
            continue;
        }
        // On a busy machine it takes more of them; and where that goes on, the two are not on the same cpus: one of them
        // may share its core with what runs beside it.
        let share = if turn < 150 { 0.05 } else { 0.25 };
        let pairs: Vec<_> =
            ours.iter().zip(&perfs).map(|(ours, perfs)| (sorted(ours), sorted(perfs))).collect();
        let agree = |index: usize, most: &dyn Fn(f64) -> f64| {
            let (ours, perfs) = &pairs[index];
            [0, turn / 2].into_iter().any(|at| (ours[at] - perfs[at]).abs() <= most(perfs[at]))
        };
        if agree(0, &|clock| share * clock) && agree(1, &|_| 5.0) && agree(2, &|_| 3.0) {
            return Ok(());
        }
        let few = |(ours, perfs): &(Vec<f64>, Vec<f64>)| [ours[0], ours[turn / 2], perfs[0], perfs[turn / 2]];
        told = format!("{:?}", pairs.iter().map(few).collect::<Vec<_>>());
    }
    panic!("clock, faults, switches; of each our least and middle, and perf's: {told}");
}
