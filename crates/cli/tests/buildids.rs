//! Build-ids as perf keeps them: the store of files (`perfuse buildid-cache`), and recordings that are told them later (`perfuse
//! inject`), next to the real perf.

use perfuse_testkit::{Outcome, need, perf};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

perfuse_testkit::suite! {
    deterministic:
        a_file_without_a_build_id_is_refused_and_others_are_kept;
    witnesses:
        perf_and_perfuse_keep_files_alike,
        each_removes_what_the_other_keeps,
        the_same_files_are_missing,
        build_ids_are_injected_as_perf_does,
        archives_are_read_by_either;
}

fn program() -> PathBuf {
    std::env::var_os("PERFUSE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_perfuse").into(), PathBuf::from)
}

/// A folder that is gone with this, with a program of its own in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("buildids-{name}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        let folder = Folder(folder.canonicalize().expect("a folder"));
        fs::copy(std::env::current_exe().expect("this program"), folder.file("own")).expect("a copy");
        folder
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs perfuse on a store, with this home.
    fn ours(&self, store: &str, words: &[&str]) -> Output {
        let mut command = Command::new(program());
        command.arg("buildid-cache").args(words).args(["--buildid-dir", store]);
        command.current_dir(&self.0).env_clear().env("HOME", &self.0).output().expect("it starts")
    }

    /// Runs perf on it.
    fn theirs(&self, store: &str, words: &[&str]) -> Result<Output, perfuse_testkit::Skip> {
        let place = self.file(store);
        let place = place.to_str().expect("UTF-8");
        let mut command = perf::command(&[&["--buildid-dir", place, "buildid-cache"], words].concat())?;
        perf::succeeds(command.current_dir(&self.0).env("HOME", &self.0))
    }

    /// The files and links of a store with their contents, but the list of probes, which perf alone writes.
    fn kept(&self, store: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.file(store)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.expect("an entry").path();
                let name = path.strip_prefix(self.file(store)).expect("inside").to_owned();
                let kind = fs::symlink_metadata(&path).expect("it is there");
                if kind.is_symlink() {
                    let target = fs::read_link(&path).expect("a link");
                    found.insert(name, target.as_os_str().as_bytes().to_vec());
                } else if kind.is_dir() {
                    folders.push(path);
                } else if !name.ends_with("probes") {
                    found.insert(name, fs::read(&path).expect("a file"));
                }
            }
        }
        found
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Programs that every system has, with their libraries.
const FILES: &str = "own,/bin/sh,/bin/cat";

fn perf_and_perfuse_keep_files_alike() -> Outcome {
    let folder = Folder::new("alike");
    folder.theirs("perfs", &["-a", FILES])?;
    let done = folder.ours("ours", &["-a", FILES]);
    assert!(done.status.success(), "{done:?}");
    let (perfs, ours) = (folder.kept("perfs"), folder.kept("ours"));
    assert_eq!(ours.keys().collect::<Vec<_>>(), perfs.keys().collect::<Vec<_>>());
    assert!(ours == perfs && ours.len() >= 6, "the contents differ");
    for store in ["perfs", "ours"] {
        let (theirs, ours) = (folder.theirs(store, &["-l"])?, folder.ours(store, &["-l"]));
        assert_eq!(text(&ours), text(&theirs), "{store}");
        assert_eq!(text(&ours).lines().count(), 3);
    }
    // A file that is no longer there is none of the list.
    fs::remove_file(folder.file("own")).expect("removed");
    assert_eq!(text(&folder.ours("ours", &["-l"])), text(&folder.theirs("ours", &["-l"])?));
    assert_eq!(text(&folder.ours("ours", &["-l", "-v"])).lines().count(), 3);
    Ok(())
}

fn each_removes_what_the_other_keeps() -> Outcome {
    let folder = Folder::new("removed");
    for words in [["-r", FILES], ["-p", FILES]] {
        folder.theirs("perfs", &["-a", FILES])?;
        assert!(folder.ours("ours", &["-a", FILES]).status.success());
        assert!(folder.ours("perfs", &words).status.success());
        folder.theirs("ours", &words)?;
        assert!(folder.kept("perfs").is_empty(), "{words:?}: perfuse leaves {:?}", folder.kept("perfs"));
        assert!(folder.kept("ours").is_empty(), "{words:?}: perf leaves {:?}", folder.kept("ours"));
    }
    folder.theirs("perfs", &["-a", FILES])?;
    assert!(folder.ours("perfs", &["-P"]).status.success());
    assert!(folder.kept("perfs").is_empty());
    // An update keeps the file of now.
    for words in [["-a", "own"], ["-u", "own"]] {
        assert!(folder.ours("ours", &words).status.success());
        assert_eq!(folder.kept("ours").len(), 2);
    }
    Ok(())
}

fn the_same_files_are_missing() -> Outcome {
    let folder = Folder::new("missing");
    let store = folder.file("recorded");
    let store = store.to_str().expect("UTF-8");
    let words =
        ["--buildid-dir", store, "record", "-q", "-e", "cpu-clock:u", "-F", "5000", "-o", "made.data"];
    let mut record = perf::command(&words)?;
    let shell = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    perf::succeeds(record.args(["--", "/bin/sh", "-c", shell]).current_dir(&folder.0))?;
    let sorted = |output: &Output| {
        let mut lines: Vec<String> = text(output).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let missing = sorted(&folder.ours("none", &["-M", "made.data"]));
    assert_eq!(missing, sorted(&folder.theirs("none", &["-M", "made.data"])?));
    assert!(!missing.is_empty());
    // perf kept all of them while it recorded.
    assert_eq!(sorted(&folder.ours("recorded", &["-M", "made.data"])), [""; 0]);
    Ok(())
}

fn a_file_without_a_build_id_is_refused_and_others_are_kept() -> Outcome {
    need::program("true")?;
    let folder = Folder::new("refused");
    fs::write(folder.file("text"), "no program").expect("written");
    let done = folder.ours("ours", &["-a", "text,own,gone"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!((done.status.code(), folder.kept("ours").len()), (Some(125), 2), "{said}");
    assert!(said.lines().count() == 2 && said.contains("gone: no such file"), "{said}");
    Ok(())
}

/// The lines that perf's dump has of build-ids and of samples, in their order.
fn dumped(folder: &Folder, name: &str) -> Result<Vec<String>, perfuse_testkit::Skip> {
    let mut command = perf::command(&["report", "-D", "-i", name])?;
    let output = perf::succeeds(command.current_dir(&folder.0).env("HOME", &folder.0))?;
    let text = text(&output);
    let lines = text.lines().filter(|line| line.contains("PERF_RECORD_"));
    let word = |line: &str| line.split("PERF_RECORD_").nth(1).map(str::to_owned);
    Ok(lines
        .filter_map(word)
        .filter(|line| line.starts_with("BUILD_ID") || line.starts_with("SAMPLE"))
        .collect())
}

fn build_ids_are_injected_as_perf_does() -> Outcome {
    let folder = Folder::new("inject");
    let words = ["record", "-q", "-B", "-e", "cpu-clock:u", "-F", "5000", "-o"];
    let shell = ["--", "/bin/sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"];
    let mut record = perf::command(&[&words[..], &["made.data"], &shell].concat())?;
    perf::succeeds(record.current_dir(&folder.0))?;
    let mut record = perf::command(&[&words[..], &["-"], &shell].concat())?;
    let piped = perf::succeeds(record.current_dir(&folder.0))?;
    fs::write(folder.file("pipe.data"), &piped.stdout).expect("written");
    let known = "00112233445566778899aabbccddeeff00112233 /usr/bin/dash";
    let turns: [(&str, &[&str]); 4] = [
        ("made.data", &["-b"]),
        ("made.data", &["--buildid-all"]),
        ("made.data", &["-b", "--known-build-ids", known]),
        ("pipe.data", &["-b"]),
    ];
    for (input, options) in turns {
        // perf 6.1 writes nothing that can be read where a pipe becomes a file.
        let files = ["theirs.data", "ours.data"];
        let is_pipe = input == "pipe.data";
        let words = |output: &'static str| match is_pipe {
            true => [&["inject"], options].concat(),
            false => [&["inject", "-i", input, "-o", output], options].concat(),
        };
        let mut commands = [perf::command(&words(files[0]))?, Command::new(program())];
        commands[1].args(words(files[1]));
        for (command, file) in commands.iter_mut().zip(files) {
            command.stdin(fs::File::open(folder.file(input)).expect("a recording")).current_dir(&folder.0);
            let done = command.output().expect("it starts");
            assert!(done.status.success(), "{done:?}");
            if is_pipe {
                fs::write(folder.file(file), done.stdout).expect("written");
            }
        }
        let (theirs, ours) = (dumped(&folder, "theirs.data")?, dumped(&folder, "ours.data")?);
        // With known ones, perf tells build-ids at other places.
        let is_same = ours == theirs || options.len() > 1;
        assert!(is_same, "{input} {options:?}: other records, or at other places");
        assert!(ours.iter().any(|line| line.starts_with("BUILD_ID")), "{input} {options:?}");
        // The build-ids that reports go by.
        let listed = |name: &str| -> Result<Vec<String>, perfuse_testkit::Skip> {
            let mut list = perf::command(&["buildid-list", "-i", name])?;
            let output = perf::succeeds(list.current_dir(&folder.0))?;
            let mut lines: Vec<String> = text(&output).lines().map(str::to_owned).collect();
            lines.retain(|line| !line.ends_with("[vdso]")); // perf tells it even without samples
            lines.sort();
            Ok(lines)
        };
        let (ours, theirs) = (listed("ours.data")?, listed("theirs.data")?);
        match options[0] {
            // perf lists only those that a sample was in, ours all that it injects.
            "--buildid-all" => {
                assert!(theirs.iter().all(|line| ours.contains(line)), "{ours:?} {theirs:?}");
                assert!(ours.iter().any(|line| line.contains("/ld-")), "{ours:?}");
            }
            _ => assert_eq!(ours, theirs, "{input} {options:?}"),
        }
    }
    Ok(())
}

fn archives_are_read_by_either() -> Outcome {
    let tar = need::program("tar")?;
    let folder = Folder::new("archive");
    let store = folder.file("recorded");
    let store = store.to_str().expect("UTF-8");
    let words =
        ["--buildid-dir", store, "record", "-q", "-e", "cpu-clock:u", "-F", "5000", "-o", "perf.data"];
    let mut record = perf::command(&words)?;
    let shell = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    perf::succeeds(record.args(["--", "/bin/sh", "-c", shell]).current_dir(&folder.0))?;
    let run = |words: &[&str]| {
        let mut command = Command::new(program());
        let done =
            command.args(words).current_dir(&folder.0).env("HOME", &folder.0).output().expect("it starts");
        assert!(done.status.success(), "{done:?}");
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    // Of the store that perf has filled, and of the files where they are.
    for (name, from) in
        [("stored.tar.bz2", "recorded"), ("found.tar.gz", "none"), ("all.tar.zst", "recorded")]
    {
        let all: &[&str] = if name.starts_with("all") { &["--all"] } else { &[] };
        run(&[&["archive", "-o", name, "--buildid-dir", from], all].concat());
        let to = format!("unpacked-{name}");
        let _ = fs::rename(folder.file("perf.data"), folder.file("away")).map_err(drop);
        run(&["archive", "--unpack", name, "--buildid-dir", &to]);
        let is_there = folder.file("perf.data").exists();
        assert_eq!(is_there, !all.is_empty());
        fs::rename(folder.file("away"), folder.file("perf.data")).expect("back");
        let missing = folder.theirs(&to, &["-M", "perf.data"])?;
        assert_eq!(text(&missing), "", "{name}");
        let (theirs, ours) = (folder.theirs(&to, &["-l"])?, folder.ours(&to, &["-l"]));
        assert!(text(&ours) == text(&theirs) && text(&ours).lines().count() >= 2, "{}", text(&ours));
    }
    // As perf's users unpack it.
    fs::create_dir(folder.file("untarred")).expect("a folder");
    let mut command = Command::new(tar);
    command.args(["-xzf", "found.tar.gz", "-C", "untarred"]).current_dir(&folder.0);
    assert!(command.status().expect("it starts").success());
    assert_eq!(text(&folder.theirs("untarred", &["-M", "perf.data"])?), "");
    Ok(())
}
