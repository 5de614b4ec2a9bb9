//! The looks of terminals: pagers, the live table of the whole system; and processes found by name, as people type them there.

use perfuse_testkit::signals::send;
use perfuse_testkit::{Outcome, Sandbox, Skip, Terminal, need};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

perfuse_testkit::suite! {
    deterministic:
        long_text_goes_through_the_pager_on_a_terminal,
        a_pager_that_is_left_is_no_failure,
        nobody_gets_a_pager_who_wants_none,
        a_pager_that_is_not_there_is_told,
        a_recording_is_walked_through_and_the_terminal_is_left_as_it_was,
        a_report_on_a_terminal_is_a_screen_unless_text_is_asked_for,
        a_screen_follows_the_size_of_the_terminal_and_stops_as_a_job_of_the_shell,
        a_screen_ends_with_its_terminal,
        a_screen_that_is_left_waits_for_no_reader,
        code_is_a_screen_of_its_own,
        terminals_without_colours_and_people_who_want_none_get_plain_text;
    smoke:
        a_command_is_watched_by_either_kernel;
    measurements:
        the_whole_system_is_shown_each_second,
        the_whole_system_is_refused_with_what_to_type,
        processes_have_names;
}

fn program() -> std::ffi::OsString {
    std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into())
}

/// Starts the program with its output on a terminal.
fn start(terminal: &Terminal, variables: &[(&str, &str)], arguments: &[&str]) -> Child {
    let mut command = Command::new(program());
    command.args(arguments).envs(variables.iter().copied()).env_remove("LESS");
    if !variables.iter().any(|(name, _)| *name == "TERM") {
        command.env("TERM", "xterm");
    }
    command.stdin(Stdio::null()).stdout(terminal.side()).stderr(terminal.side());
    command.spawn().expect("the program starts")
}

/// All that the program shows on a terminal of this many lines, with 80 columns, and its exit status.
fn shown(rows: u16, variables: &[(&str, &str)], arguments: &[&str]) -> Result<(String, Option<i32>), Skip> {
    let mut terminal = Terminal::new(rows, 80)?;
    let mut child = start(&terminal, variables, arguments);
    let seen = String::from_utf8_lossy(&terminal.read(|_| false)).into_owned();
    Ok((seen, child.wait().expect("it ends").code()))
}

/// Marks each line that goes through it.
const MARKS: (&str, &str) = ("PERFUSE_PAGER", "sed s/^/PAGED:/");

fn recording() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/fixtures/chains.data").display().to_string()
}

fn report(rows: u16, variables: &[(&str, &str)], more: &[&str]) -> Result<(String, Option<i32>), Skip> {
    let file = recording();
    let arguments = [&["report", "-q", "-g", "none", "-s", "dso", "-i", file.as_str()], more].concat();
    shown(rows, variables, &arguments)
}

fn long_text_goes_through_the_pager_on_a_terminal() -> Outcome {
    let (seen, code) = report(24, &[MARKS], &[])?;
    assert!(seen.contains("PAGED:") && seen.contains("libtext.so") && code == Some(0), "{code:?} {seen:?}");
    let file = recording();
    let (seen, _) = shown(24, &[MARKS], &["script", "-i", &file])?;
    assert!(seen.contains("PAGED:grind"), "{seen:?}");
    // A command line for a shell.
    let (seen, _) = report(24, &[("PERFUSE_PAGER", "sed 's/^/A:/' | sed 's/^/B:/'")], &[])?;
    assert!(seen.contains("B:A:"), "{seen:?}");
    // `PAGER` is behind ours; `--pager` takes `--no-pager` back.
    let (seen, _) = report(24, &[("PAGER", "sed s/^/PAGED:/")], &["--no-pager", "--pager"])?;
    assert!(seen.contains("PAGED:"), "{seen:?}");
    // Help, where it is longer than the screen.
    let (long, _) = shown(8, &[MARKS], &["report", "--help"])?;
    let (short, _) = shown(1000, &[MARKS], &["report", "--help"])?;
    assert!(long.contains("PAGED:") && !short.contains("PAGED:"));
    Ok(())
}

fn a_pager_that_is_left_is_no_failure() -> Outcome {
    let file = recording();
    // All of the recording's records are more than a pipe holds.
    let arguments = ["script", "-D", "-i", &file, "--pager"];
    let (seen, code) = shown(24, &[("PERFUSE_PAGER", "true")], &arguments)?;
    assert_eq!((seen.as_str(), code), ("", Some(0)));
    Ok(())
}

fn nobody_gets_a_pager_who_wants_none() -> Outcome {
    for variables in [[("PERFUSE_PAGER", "")], [("PERFUSE_PAGER", "cat")]] {
        let (seen, code) = report(24, &[variables[0], ("PAGER", "sed s/^/PAGED:/")], &[])?;
        assert!(!seen.contains("PAGED:") && seen.contains("libtext.so") && code == Some(0), "{seen:?}");
    }
    for (variables, more) in
        [(vec![MARKS], vec!["--no-pager"]), (vec![MARKS, ("TERM", "dumb")], vec!["--pager"])]
    {
        let (seen, _) = report(24, &variables, &more)?;
        assert!(!seen.contains("PAGED:") && seen.contains("libtext.so"), "{seen:?}");
    }
    let file = recording();
    let (seen, _) = shown(24, &[MARKS], &["--no-pager", "script", "-i", &file])?;
    assert!(!seen.contains("PAGED:") && seen.contains("grind"), "{seen:?}");
    // A pipe is read by another program.
    let piped =
        Command::new(program()).args(["report", "-i", &file, "--pager"]).env(MARKS.0, MARKS.1).output();
    let piped = String::from_utf8(piped.expect("the program starts").stdout).expect("text");
    assert!(!piped.contains("PAGED:") && piped.contains("libtext.so"), "{piped}");
    Ok(())
}

fn a_pager_that_is_not_there_is_told() -> Outcome {
    let (seen, code) = report(24, &[("PERFUSE_PAGER", "/nonexistent/pager")], &[])?;
    assert!(seen.contains("the pager '/nonexistent/pager' cannot be started"), "{seen:?}");
    assert!(seen.contains("libtext.so") && code == Some(0), "{seen:?}");
    // Nobody has asked for the usual one.
    let (seen, code) = report(24, &[("PATH", "/nonexistent")], &[])?;
    assert!(!seen.contains("pager") && seen.contains("libtext.so") && code == Some(0), "{seen:?}");
    Ok(())
}

fn the_whole_system_is_shown_each_second() -> Outcome {
    need::root()?;
    need::events()?;
    let mut terminal = Terminal::new(40, 80)?;
    let mut child = start(&terminal, &[], &["stat", "-e", "cpu-clock"]);
    let title = "the whole system, ";
    let text = |seen: &[u8]| String::from_utf8_lossy(seen).into_owned();
    let twice = |seen: &str| seen.contains("\x1b[A") && seen.matches("cpu-clock").count() == 2;
    let seen = text(&terminal.read(|seen| twice(&text(seen))));
    let first = seen.find(title).unwrap_or_else(|| panic!("{seen:?}"));
    assert!(first < seen.find("cpu-clock").expect("a row"), "{seen:?}");
    send(rustix::process::Signal::INT.as_raw(), child.id());
    // The total, as without a terminal.
    let end = text(&terminal.read(|_| false));
    assert!(end.contains(title) && end.contains(" wall"), "{end:?}");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    Ok(())
}

fn the_whole_system_is_refused_with_what_to_type() -> Outcome {
    need::root()?;
    let paranoid = need::sysctl("kernel/perf_event_paranoid")?;
    if paranoid < 1 {
        return Err(Skip::needs("kernel.perf_event_paranoid of 1 or more", paranoid));
    }
    let program = File::open(program()).expect("the program is built");
    let output = Sandbox::new()
        .unprivileged()
        .command(format!("/proc/self/fd/{}", program.as_raw_fd()))
        .arg("stat")
        .current_dir("/")
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{text}");
    let refused = text.find("the whole system, which is refused").unwrap_or_else(|| panic!("{text}"));
    assert!(text[refused..].contains("perfuse stat -- COMMAND") && text.contains("-p NAME"), "{text}");
    Ok(())
}

/// A process of this name, which ends with its input.
fn called(name: &str) -> Child {
    let script = format!("printf {name} > /proc/$$/comm; echo ready; read line");
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    child
}

fn stat(arguments: &[&str]) -> Output {
    Command::new(program()).arg("stat").args(arguments).output().expect("the program starts")
}

fn processes_have_names() -> Outcome {
    need::events()?;
    let name = format!("pf{}", std::process::id());
    let mut both = [called(&name), called(&name)];
    let output = stat(&["-e", "task-clock", "--timeout", "10", "-p", &name]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut pids = both.each_ref().map(Child::id);
    pids.sort_unstable();
    let [first, second] = pids;
    assert!(output.status.success() && text.contains(&format!("process {first}, {second}")), "{text}");
    // Numbers and names mix; each counts once.
    let output = stat(&["-e", "task-clock", "--timeout", "10", "-p", &format!("{second},{name}")]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains(&format!("process {second}, {first}")), "{text}");
    let output = stat(&["-p", &format!("{name}x")]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("is called") && text.contains(&format!("did you mean {name} (")), "{text}");
    for child in &mut both {
        drop(child.stdin.take());
        child.wait().expect("it ends");
    }
    Ok(())
}

fn terminals_without_colours_and_people_who_want_none_get_plain_text() -> Outcome {
    let file = recording();
    let commands: [&[&str]; 5] = [
        &["report", "-i", &file, "-g", "none"],
        &["script", "-i", &file],
        &["list", "--plain", "tool"],
        &["stat", "--help"],
        &["frobnicate"],
    ];
    let drives = |text: &str| text.replace("\r\n", "\n").contains(['\x1b', '\r', '\x08', '\x07']);
    for arguments in commands {
        for plain in [&[("TERM", "dumb")][..], &[("TERM", "xterm"), ("NO_COLOR", "1")]] {
            let variables = [plain, &[("PERFUSE_PAGER", ""), ("PERFUSE_CONFIG", "")]].concat();
            let (seen, _) = shown(50, &variables, arguments)?;
            assert!(!seen.is_empty() && !drives(&seen), "{variables:?} {arguments:?}: {seen:?}");
        }
    }
    let variables = [("TERM", "xterm"), ("PERFUSE_PAGER", ""), ("PERFUSE_CONFIG", "")];
    let (seen, _) = shown(50, &variables, commands[0])?;
    assert!(seen.contains("\x1b["), "others have colours: {seen:?}");
    Ok(())
}

/// Starts the program at a terminal, as a job of its own.
fn at_terminal(terminal: &Terminal, arguments: &[&str]) -> Child {
    let mut command = Command::new(program());
    command.args(arguments).env("TERM", "xterm").env("PERFUSE_CONFIG", "").env_remove("PERFUSE_STYLE");
    command.stdin(terminal.side()).stdout(terminal.side()).stderr(terminal.side());
    command.process_group(0).spawn().expect("the program starts")
}

/// Starts the screen of a recording, and waits for its first page.
fn walking(terminal: &mut Terminal) -> Child {
    let child = at_terminal(terminal, &["report", "--tui", "-i", &recording()]);
    let seen = terminal.read_until("libtext.so");
    assert!(seen.contains("\x1b[?1049h") && seen.contains("functions"), "{seen:?}");
    child
}

fn a_recording_is_walked_through_and_the_terminal_is_left_as_it_was() -> Outcome {
    for signal in [None, Some(rustix::process::Signal::TERM), Some(rustix::process::Signal::INT)] {
        let mut terminal = Terminal::new(24, 80)?;
        let mut child = walking(&mut terminal);
        terminal.types(b"6");
        terminal.read_until("threads");
        // Its files are not here, which the page says.
        terminal.types(b"1a");
        leaves(&mut terminal, &mut child, signal);
    }
    Ok(())
}

/// Ends a screen by a signal, or by its key: the terminal is as it was, and the program has succeeded.
fn leaves(terminal: &mut Terminal, child: &mut Child, signal: Option<rustix::process::Signal>) {
    match signal {
        Some(signal) => send(signal.as_raw(), child.id()),
        None => terminal.types(b"q"),
    }
    let end = String::from_utf8_lossy(&terminal.read(|_| false)).into_owned();
    assert!(end.contains("\x1b[?1049l"), "{signal:?} {end:?}");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{signal:?}");
}

fn a_report_on_a_terminal_is_a_screen_unless_text_is_asked_for() -> Outcome {
    let file = recording();
    let mut terminal = Terminal::new(24, 80)?;
    let mut child = at_terminal(&terminal, &["report", "-i", &file]);
    let seen = terminal.read_until("libtext.so");
    assert!(seen.contains("\x1b[?1049h"), "{seen:?}");
    terminal.types(b"q");
    terminal.read(|_| false);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    for text in
        [&["--stdio"][..], &["--no-pager"], &["-g", "none", "--no-pager"], &["-q", "--stdio"], &["--json"]]
    {
        let mut terminal = Terminal::new(24, 80)?;
        let mut child = at_terminal(&terminal, &[&["--no-pager", "report", "-i", &file], text].concat());
        let seen = String::from_utf8_lossy(&terminal.read(|_| false)).into_owned();
        assert!(!seen.contains("\x1b[?1049h") && seen.contains("libtext.so"), "{text:?} {seen:?}");
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
    }
    // A file that cannot be opened is refused without a screen.
    let mut terminal = Terminal::new(24, 80)?;
    let mut child = at_terminal(&terminal, &["report", "-i", "/dev/null"]);
    let seen = String::from_utf8_lossy(&terminal.read(|_| false)).into_owned();
    assert!(seen.contains("/dev/null") && child.wait().expect("it ends").code() != Some(0), "{seen:?}");
    Ok(())
}

fn a_screen_follows_the_size_of_the_terminal_and_stops_as_a_job_of_the_shell() -> Outcome {
    let mut terminal = Terminal::new(24, 80)?;
    let mut child = walking(&mut terminal);
    let pid = rustix::process::Pid::from_child(&child);
    // The terminal is not the program's own here, so that it is told by hand.
    terminal.resize(5, 20);
    send(rustix::process::Signal::WINCH.as_raw(), child.id());
    terminal.read_until("\x1b[5;");
    terminal.resize(24, 80);
    send(rustix::process::Signal::WINCH.as_raw(), child.id());
    terminal.read_until("\x1b[24;");
    terminal.types(b"\x1a");
    let left = terminal.read_until("\x1b[?1049l");
    assert!(left.contains("\x1b[?1000l"), "the mouse is let go: {left:?}");
    let stopped = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED);
    assert!(stopped.is_ok_and(|found| found.is_some_and(|(_, status)| status.stopped())));
    send(rustix::process::Signal::CONT.as_raw(), child.id());
    let back = terminal.read_until("libtext.so");
    assert!(back.contains("\x1b[?1049h"), "{back:?}");
    terminal.types(b"q");
    terminal.read(|_| false);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    Ok(())
}

fn a_screen_ends_with_its_terminal() -> Outcome {
    let mut terminal = Terminal::new(24, 80)?;
    let mut child = walking(&mut terminal);
    drop(terminal);
    assert!(child.wait().expect("it ends").code().is_some_and(|code| code != 0));
    Ok(())
}

/// The recording comes through a pipe whose writer never goes on.
fn a_screen_that_is_left_waits_for_no_reader() -> Outcome {
    let pipe = std::env::temp_dir().join(format!("perfuse-screen-left-{}", std::process::id()));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let held = File::options().read(true).write(true).open(&pipe).expect("both ends");
    for signal in [None, Some(rustix::process::Signal::TERM)] {
        let mut terminal = Terminal::new(24, 80)?;
        let mut child =
            at_terminal(&terminal, &["report", "--tui", "-i", pipe.to_str().expect("names are UTF-8")]);
        terminal.read_until("\x1b[?1049h");
        leaves(&mut terminal, &mut child, signal);
    }
    drop(held);
    std::fs::remove_file(&pipe).expect("it is there");
    Ok(())
}

fn code_is_a_screen_of_its_own() -> Outcome {
    let mut terminal = Terminal::new(24, 80)?;
    let mut child = at_terminal(&terminal, &["annotate", "--tui", "-i", &recording()]);
    // The functions of the recording have no names here, which is told without a screen, or behind it.
    let seen = String::from_utf8_lossy(&terminal.read(|_| false)).into_owned();
    assert!(seen.contains("no sample is in a function whose name is known"), "{seen:?}");
    assert!(child.wait().expect("it ends").code() != Some(0) && seen.ends_with('\n'), "{seen:?}");
    Ok(())
}

/// Reads objects of `top --json` until one has samples of the command, and ends it.
fn watched(more: &[&str]) {
    let busy = ["--", "sh", "-c", "while :; do :; done"];
    let mut command = Command::new(program());
    command
        .args(["top", "--json", "-e", "cpu-clock", "-d", "0.2", "-s", "comm,symbol"])
        .args(more)
        .args(busy);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).env("PERFUSE_CONFIG", "");
    let mut child = command.spawn().expect("the program starts");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let is_evidence = |line: &String| {
        assert!(line.contains("\"schema\":\"perfuse.top/1\""), "{line}");
        line.contains("\"comm\":\"sh\"")
    };
    let mut lines = lines.map(|line| line.expect("text"));
    assert!(lines.any(|line| is_evidence(&line)), "{more:?}: it ends before there are samples");
    send(rustix::process::Signal::TERM.as_raw(), child.id());
    lines.for_each(drop);
    // As the command, which the signal has ended too.
    assert_eq!(child.wait().expect("it ends").code(), Some(143), "{more:?}");
}

fn a_command_is_watched_by_either_kernel() -> Outcome {
    need::events()?;
    watched(&[]);
    watched(&["--kernel", "embedded"]);
    watched(&["-K", "--comms", "sh", "--max-stack", "3", "-i", "-m", "64", "-z", "-v"]);
    Ok(())
}
