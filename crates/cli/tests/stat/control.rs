//! `--control`: orders from another program.

use super::*;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

pub(super) fn another_program_controls_the_counting() -> Outcome {
    need::program("mkfifo")?;
    let scratch = Scratch::new("control");
    let (orders, acks) = (scratch.join("orders"), scratch.join("acks"));
    assert!(Command::new("mkfifo").args([&orders, &acks]).status().expect("mkfifo runs").success());
    let channel = format!("fifo:{},{}", orders.display(), acks.display());
    let mut command = stat([
        "-D",
        "-1",
        "--control",
        &channel,
        "-x,",
        "-e",
        "task-clock",
        "sh",
        "-c",
        "while :; do :; done",
    ]);
    let child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let open =
        |path: &Path| fs::OpenOptions::new().read(true).write(true).open(path).expect("the fifo opens");
    let (mut orders, mut acks) = (open(&orders), open(&acks));
    let looping = command_of(child.id(), "sh");
    let mut order = |text: &str| {
        orders.write_all(text.as_bytes()).expect("it listens");
        let mut ack = [0; 5];
        acks.read_exact(&mut ack).expect("it answers");
        assert_eq!(&ack, b"ack\n\0");
    };
    let before = ran(looping);
    order("enable\n");
    until_ran(looping, Duration::from_millis(100));
    order("disable\n");
    let counted = (ran(looping) - before).as_secs_f64() * 1e3;
    until_ran(looping, Duration::from_millis(200));
    order("stop\n");
    let output = child.wait_with_output().expect("it ends");
    let text = text(&output.stderr);
    let ms: f64 = text.split(',').next().unwrap().parse().unwrap_or_else(|_| panic!("{text}"));
    // A virtual machine takes time away that one of the two clocks counts; the 200 ms are in neither.
    assert!((80.0..1.5 * counted + 20.0).contains(&ms), "{counted}: {text}");
    assert_eq!(output.status.code(), Some(0));
    Ok(())
}

/// `perfuse stat` under the control of a socket, which is its standard input.
struct Controlled {
    child: Child,
    socket: UnixStream,
}

impl Controlled {
    fn new(arguments: &[&str]) -> Self {
        let (socket, theirs) = UnixStream::pair().expect("a pair of sockets");
        let mut command = stat(["-D", "-1", "--control", "fd:0,0"]);
        command.args(arguments).args(["sh", "-c", "while :; do /bin/true; done </dev/null"]);
        let child = command.stdin(OwnedFd::from(theirs)).stderr(Stdio::piped()).spawn().expect("it starts");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        Controlled { child, socket }
    }

    fn order(&mut self, text: &str) {
        self.socket.write_all(format!("{text}\n").as_bytes()).expect("it listens");
        let mut ack = [0; 5];
        self.socket.read_exact(&mut ack).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(&ack, b"ack\n\0");
    }

    /// Stops the measurement; what it wrote.
    fn stop(mut self) -> String {
        self.order("stop");
        let output = self.child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr)
    }
}

pub(super) fn a_socket_controls_the_counting() -> Outcome {
    let mut controlled = Controlled::new(&["-x,", "-e", "task-clock"]);
    let looping = command_of(controlled.child.id(), "sh");
    controlled.order("enable");
    until_ran(looping, Duration::from_millis(10));
    controlled.order("disable");
    let text = controlled.stop();
    assert!(text.split(',').next().unwrap().parse::<f64>().is_ok_and(|ms| ms > 1.0), "{text}");
    // The other end may go away: the measurement goes on.
    let (socket, theirs) = UnixStream::pair().expect("a pair of sockets");
    let mut command = stat(["--control", "fd:0", "-e", "faults:u", "sleep", "0.3"]);
    let child = command.stdin(OwnedFd::from(theirs)).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(socket);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(row(&self::text(&output.stderr), "faults:u")[1].parse::<u64>().is_ok());
    assert_eq!(status(&["--control", "fd:77", "true"]), 125);
    Ok(())
}

pub(super) fn single_events_are_switched() -> Outcome {
    let mut controlled = Controlled::new(&["--json", "-e", "faults:u,task-clock:u,{minor-faults:u,dummy:u}"]);
    let looping = command_of(controlled.child.id(), "sh");
    let before = ran(looping);
    controlled.order("enable minor-faults:u");
    controlled.order("enable task-clock:u");
    let between = ran(looping) - before;
    until_ran(looping, Duration::from_millis(20));
    controlled.order("disable minor-faults:u");
    controlled.order("disable nosuch");
    // The children do about as much in the meantime.
    until_ran(looping, between * 10 + Duration::from_millis(50));
    let text = controlled.stop();
    let value: serde_json::Value = serde_json::from_str(&text).expect("one object");
    let events = value["events"].as_array().expect("a list");
    assert_eq!(events[0]["reason"], "not_enabled", "{text}");
    let ns = |event: usize| events[event]["enabled_ns"].as_u64().expect("a number");
    assert!(ns(1) > ns(2) && ns(2) > 0, "{text}");
    Ok(())
}

pub(super) fn events_are_listed() -> Outcome {
    let mut controlled = Controlled::new(&["-e", "faults,{cs:u,minor-faults}"]);
    for order in ["evlist", "evlist -g", "evlist -v", "enable nosuch"] {
        controlled.order(order);
    }
    controlled.socket.write_all(b"hello\n").expect("it listens");
    controlled.order("ping");
    let text = controlled.stop();
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# ")).collect();
    assert_eq!(lines[..5], ["faults", "cs:u", "minor-faults", "faults", "{cs:u,minor-faults}"], "{text}");
    assert!(lines[5].starts_with("faults: ") && lines[5].contains("config"), "{text}");
    assert!(text.contains("there is no event 'nosuch'") && text.contains("'hello' is ignored"), "{text}");
    Ok(())
}
