//! Faults around a recording: disks that are full, readers and processes that go away, outputs that
//! cannot be.

use super::*;

/// A file system of its own, so small that a recording fills it.
struct Disk(PathBuf);

impl Disk {
    fn new(folder: &Folder, kib: u32) -> Result<Self, Skip> {
        need::root()?;
        let path = folder.file("disk");
        fs::create_dir_all(&path).expect("a folder");
        let size = format!("size={kib}k");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&path).status();
        match mounted.is_ok_and(|status| status.success()) {
            true => Ok(Disk(path)),
            false => Err(Skip::needs("a file system of its own", "mount is refused")),
        }
    }

    /// Leaves so many KiB.
    fn fill(&self, size: u32, left: u32) {
        fs::write(self.0.join("filler"), vec![0; (size - left) as usize * 1024]).expect("room for it");
    }

    fn recordings(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).expect("the folder").flatten().map(|entry| entry.path());
        let mut all: Vec<_> = entries.filter(|path| path.file_name() != Some("filler".as_ref())).collect();
        all.sort();
        all
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

const ENDLESS: &str = "while :; do :; done";

pub(super) fn a_full_disk_is_told_and_leaves_a_readable_file() -> Outcome {
    let folder = Folder::new("full");
    let disk = Disk::new(&folder, 128)?;
    let file = disk.0.join("d");
    let arguments = ["-e", "cpu-clock", "-F", "20000", "-g", "sh", "-c", ENDLESS];
    let output = record(&file, &arguments).output().expect("it starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains(&*file.to_string_lossy()) && said.contains("KiB"), "{said}");
    assert!(samples(&file) > 20);
    Ok(())
}

pub(super) fn a_disk_that_is_full_at_the_end_or_between_files() -> Outcome {
    let folder = Folder::new("full-later");
    let disk = Disk::new(&folder, 128)?;
    let file = disk.0.join("d");
    // Room for the records, and not for all that follows them.
    disk.fill(128, 4);
    let output = record(&file, &["-e", "cpu-clock", "-F", "100", "sh", "-c", BUSY]).output();
    let output = output.expect("it starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("can be read") && samples(&file) > 0, "{said}");
    // Not even room for a start: nothing is left behind.
    fs::remove_file(&file).expect("it");
    disk.fill(128, 0);
    let output = record(&file, &["-e", "cpu-clock", "true"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(125));
    assert!(disk.recordings().is_empty());
    // Full in one of several files: all can be read.
    disk.fill(128, 100);
    let arguments =
        ["--switch-output=40K", "-m", "8", "-F", "5000", "-g", "-e", "cpu-clock", "sh", "-c", ENDLESS];
    let output = record(&file, &arguments).output().expect("it starts");
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    let files = disk.recordings();
    assert!(files.len() >= 2, "{files:?}");
    files.iter().for_each(|file| drop(counts(file)));
    Ok(())
}

pub(super) fn a_killed_target_ends_the_recording() -> Outcome {
    let folder = Folder::new("target");
    let file = folder.file("d");
    let mut target = Command::new("sh").args(["-c", ENDLESS]).spawn().expect("it starts");
    let pid = target.id().to_string();
    let recorder = record(&file, &["-e", "cpu-clock", "-F", "2000", "-p", &pid]).spawn().expect("it starts");
    wait::until("there are samples", || session::samples_so_far(&file) > 20);
    target.kill().expect("it is killed");
    target.wait().expect("it ends");
    let output = recorder.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(samples(&file) > 20);
    assert!(counts(&file)[&RecordType::EXIT.0] > 0, "its end is recorded");
    Ok(())
}

pub(super) fn a_reader_that_goes_away_ends_the_recording() -> Outcome {
    let mut command = record(Path::new("-"), &["-e", "cpu-clock", "-F", "5000", "sh", "-c", ENDLESS]);
    let mut recorder = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut start = [0; 1000];
    let mut out = recorder.stdout.take().expect("a pipe");
    out.read_exact(&mut start).expect("the start of a recording");
    drop(out);
    let output = recorder.wait_with_output().expect("it ends");
    assert!(!output.status.success());
    assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
    Ok(())
}

pub(super) fn outputs_that_cannot_be_written_are_told() -> Outcome {
    let folder = Folder::new("outputs");
    for output in [&folder.0, &folder.file("no/such/folder"), Path::new("/dev/full")] {
        let done = record(output, &["true"]).output().expect("it starts");
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(125), "{said}");
        assert!(said.contains(&*output.to_string_lossy()), "{said}");
    }
    assert!(Path::new("/dev/full").exists());
    assert_eq!(folder.names(), [""; 0]);
    Ok(())
}

pub(super) fn a_killed_recorder_leaves_a_readable_file() -> Outcome {
    let folder = Folder::new("killed");
    let file = folder.file("d");
    let child = long_recording(&file);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap_or_default();
    signal(child.id(), "KILL");
    for child in children.split_whitespace() {
        signal(child.parse().expect("a number"), "KILL");
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.signal(), Some(9));
    let mut data = PerfData::open(&file).expect("a recording");
    let mut found = 0;
    // The last record may have been cut off; all before it are there.
    while let Ok(Some(entry)) = data.next() {
        found += u64::from(entry.kind() == RecordType::SAMPLE);
    }
    assert!(found > 100, "{found}");
    Ok(())
}
