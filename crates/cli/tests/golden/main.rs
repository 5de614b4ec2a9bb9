//! Transcripts: command lines with all that they print, letter by letter, and the recordings that they read, byte by byte.
//! README.md tells how they look, and how they are written anew.

mod recordings;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// With this variable set, files are written in place of being compared.
const WRITE: &str = "PERFUSE_GOLDEN";
/// No command takes so long, on however busy a machine.
const LONG: Duration = Duration::from_secs(60);

fn home(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The folder in which the commands run, a copy of the fixtures that is gone with this: times and owners of the
/// repository's files are nobody's business.
struct Stage(PathBuf);

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Stage {
    fn new() -> Self {
        let stage = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("golden-{}", std::process::id()));
        let stage = Stage(stage);
        stage.copy(&home("fixtures"), Path::new(""));
        stage.copy(&home("../../../../fuzz/seeds/perf_data"), Path::new("seeds"));
        stage.copy(&home("../../../events/tests/tables"), Path::new("tables"));
        stage.copy(&home("../../../sim/scenarios"), Path::new("scenarios"));
        // Where perf keeps the files that it has seen.
        for (id, file, kind) in [(0, "grind", "elf"), (1, "libtext.so", "elf"), (2, "kallsyms", "kallsyms")] {
            let id = format!("{:02x}", recordings::BUILD_IDS[id]);
            let store = format!("home/.debug/.build-id/{id}/{}/{kind}", id.repeat(19));
            stage.put(Path::new(&store), &fs::read(home("fixtures").join(file)).unwrap());
        }
        stage
    }

    fn copy(&self, from: &Path, to: &Path) {
        for entry in fs::read_dir(from).unwrap() {
            let (path, name) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
            if path.is_dir() { self.copy(&path, &name) } else { self.put(&name, &fs::read(path).unwrap()) }
        }
    }

    fn put(&self, name: &Path, bytes: &[u8]) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        // Reports say when a recording was made.
        let when = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        File::options().write(true).open(path).unwrap().set_modified(when).unwrap();
    }

    /// Runs a command line. Gives the text that it prints, with "! " before lines of standard error, and its exit status
    /// if that is not 0.
    fn run(&self, line: &str) -> String {
        let mut words = shell_words::split(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let name = words.iter().position(|word| word == "perfuse").unwrap_or_else(|| panic!("{line}"));
        let mut arguments = words.split_off(name);
        let stdin = match arguments.iter().position(|word| word == "<") {
            Some(place) => File::open(self.0.join(&arguments.split_off(place)[1])).unwrap().into(),
            None => Stdio::null(),
        };
        let program = std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into());
        let mut command = Command::new(program);
        command.args(&arguments[1..]).current_dir(&self.0).stdin(stdin).env_clear();
        command.envs([("HOME", "home"), ("PATH", "/nonexistent"), ("TZ", "UTC"), ("LC_ALL", "C")]);
        // No configuration of anybody's, but where a line names one.
        command.env("PERFUSE_CONFIG", "");
        command.envs(words.iter().map(|word| word.split_once('=').unwrap_or_else(|| panic!("{line}"))));
        let output = finished(&mut command).unwrap_or_else(|| panic!("{line}: it does not end"));
        let mut text = shown(&output.stdout, "");
        // On machines that refuse the system call.
        let instead = |line: &&str| !line.starts_with("! perfuse: Linux' perf_events are refused (");
        text.extend(shown(&output.stderr, "! ").split_inclusive('\n').filter(instead));
        match output.status.code() {
            Some(0) => {}
            Some(code) => text += &format!("[status {code}]\n"),
            None => text += &format!("[{}]\n", output.status),
        }
        text
    }
}

/// Runs a command, unless it goes on for longer than any should.
fn finished(command: &mut Command) -> Option<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let read = |mut from: Box<dyn Read + Send>| {
        let mut bytes = Vec::new();
        std::thread::spawn(move || from.read_to_end(&mut bytes).map(|_| bytes).unwrap())
    };
    let (stdout, stderr) = (
        read(Box::new(child.stdout.take().expect("a pipe"))),
        read(Box::new(child.stderr.take().expect("a pipe"))),
    );
    let started = Instant::now();
    while !(stdout.is_finished() && stderr.is_finished()) {
        if started.elapsed() > LONG {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let status = child.wait().unwrap();
    (started.elapsed() <= LONG).then(|| Output {
        status,
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    })
}

/// Lines of text, without what would drive a terminal.
fn shown(bytes: &[u8], prefix: &str) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::new();
    for line in text.split_inclusive('\n') {
        shown += prefix;
        for letter in line.chars() {
            match letter {
                '\n' | '\t' => shown.push(letter),
                _ if letter.is_control() => shown.extend(letter.escape_default()),
                _ => shown.push(letter),
            }
        }
    }
    if !shown.is_empty() && !shown.ends_with('\n') {
        shown += "[no line end]\n";
    }
    shown
}

/// Compares a file with its bytes as they are now, and tells the difference; or writes it.
fn check(path: &Path, found: &[u8]) -> Option<String> {
    let expected = fs::read(path).unwrap_or_default();
    if expected == found {
        return None;
    }
    if std::env::var_os(WRITE).is_some() {
        fs::write(path, found).unwrap();
        return None;
    }
    let (expected, found) = (String::from_utf8_lossy(&expected), String::from_utf8_lossy(found));
    // Each command is compared by itself.
    let name = path.file_name().unwrap().to_string_lossy();
    let mut told = format!("{name} is otherwise:\n");
    for (expected, found) in
        expected.split("\n$ ").zip(found.split("\n$ ")).filter(|(was, is)| was != is).take(20)
    {
        let mut lines = expected.lines().zip(found.lines()).filter(|(was, is)| was != is);
        let first = found.lines().next().unwrap_or_default();
        let (was, is) = lines.next().unwrap_or(("an end", "another end"));
        told += &format!("  {first}\n    was: {was}\n    is:  {is}\n");
    }
    Some(told)
}

fn assert_same(told: Vec<String>) {
    let again = "PERFUSE_GOLDEN=write cargo test -p perfuse-cli --test golden";
    assert!(told.is_empty(), "{}\nIf all of that is as wanted: {again}", told.concat());
}

/// Files with wrong usages, all of which are answered in one voice.
const REFUSED: [&str; 2] = ["usage.txt", "refused.txt"];

#[test]
fn refusals_are_short_and_speak_as_perfuse() {
    let mut told = Vec::new();
    for file in REFUSED {
        let text = fs::read_to_string(home(file)).unwrap();
        let cases = text
            .split("\n$ ")
            .filter(|case| case.contains("\n[status 2]") || case.contains("\n[status 125]"));
        for case in cases {
            let lines: Vec<&str> = case.lines().filter_map(|line| line.strip_prefix("! ")).collect();
            let starts =
                lines.first().is_some_and(|line| line.starts_with("perfuse: ") && !line.contains("error:"));
            if !starts || lines.len() > 3 || lines.iter().any(|line| line.chars().count() > 200) {
                told.push(format!("{file}: {case}"));
            }
        }
    }
    assert!(told.is_empty(), "{}\nA refusal has at most three lines of 200 characters", told.join("\n"));
}

#[test]
fn what_is_written_and_printed_is_the_same() {
    // Recordings are written in the byte order of the machine.
    let recordings = if cfg!(target_endian = "little") { recordings::all() } else { Vec::new() };
    assert_same(
        recordings.iter().filter_map(|(name, bytes)| check(&home("fixtures").join(name), bytes)).collect(),
    );
    let stage = &Stage::new();
    let files = fs::read_dir(home("")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    let texts: Vec<_> = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let commands = texts.iter().map(|text| text.lines().filter_map(|line| line.strip_prefix("$ ")));
    let all: Vec<_> = commands.clone().flatten().collect();
    let case = |line: &&str| match line.starts_with('#') {
        true => format!("$ {line}\n\n"),
        false => format!("$ {line}\n{}\n", stage.run(line)),
    };
    // Each thread runs its share of them.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(16);
    let mut shares: Vec<_> = std::thread::scope(|scope| {
        let share =
            |first: usize| all.iter().skip(first).step_by(threads).map(case).collect::<Vec<_>>().into_iter();
        let shares: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        shares.into_iter().map(|share| share.join().unwrap()).collect()
    });
    let mut found = (0..all.len()).map(|number| shares[number % threads].next().unwrap());
    let transcripts = commands.map(|lines| found.by_ref().take(lines.count()).collect::<String>());
    let told = files.iter().zip(transcripts).filter_map(|(path, text)| check(path, text.as_bytes()));
    assert_same(told.collect());
}
