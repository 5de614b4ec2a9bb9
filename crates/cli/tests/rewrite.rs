//! Recordings made of recordings: what the program tells of a part is what it tells of the whole with the same filter.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that is gone with this.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("rewrite-{name}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perfuse"));
        command.args(words).current_dir(&self.0).env_clear();
        command.envs([("PATH", "/nonexistent"), ("TZ", "UTC"), ("LC_ALL", "C"), ("PERFUSE_CONFIG", "")]);
        command.env("HOME", self.0.join("home"));
        command.output().unwrap()
    }

    fn done(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The words of a recording, without lines of the file itself and of why there is none.
    fn told(&self, command: &str, input: &str, filter: &[&str]) -> Vec<String> {
        let text = self.done(&[&[command, "-i", input], filter].concat());
        text.lines()
            .filter(|line| !line.contains(".data") && !line.contains(" no sample"))
            .map(str::to_owned)
            .collect()
    }
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/fixtures").join(name);
    path.to_str().unwrap().to_owned()
}

#[cfg(target_endian = "little")]
#[test]
fn a_part_by_an_expression_has_the_samples_for_which_it_holds() {
    let folder = &Folder::new("filter");
    let whole = &fixture("calls.data");
    for (filter, least) in
        [("id == 1", 2), ("ret < 0", 3), ("id in {0..3} && cpu >= 0", 4), ("pid == 1 && pid == 2", 0)]
    {
        folder.done(&["cut", "-i", whole, "-o", "part.data", "--filter", filter]);
        let part = folder.told("script", "part.data", &[]);
        assert_eq!(part, folder.told("script", whole, &["--filter", filter]), "{filter}");
        assert!(part.len() >= least, "{filter}: {part:?}");
    }
    let refused = folder.run(&["cut", "-i", whole, "-o", "none.data", "--filter", "idd == 1"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("'idd'"), "{said}");
    assert!(!folder.0.join("none.data").exists());
}

#[cfg(target_endian = "little")]
#[test]
fn a_part_is_told_as_the_whole_with_the_same_filter() {
    let folder = &Folder::new("cut");
    let filters: [&[&str]; 6] = [
        &[],
        &["--time", "0.002,0.004"],
        &["-C", "0"],
        &["--tid", "401"],
        &["--comm", "grind"],
        &["--pid", "7"],
    ];
    for name in ["chains.data", "kinds.data", "group.data", "pipe.data", "tracing.data", "branches.data"] {
        let whole = &fixture(name);
        for filter in filters {
            folder.done(&[&["cut", "-i", whole, "-o", "part.data"], filter].concat());
            let script = |input, filter| folder.told("script", input, filter);
            assert_eq!(script("part.data", &[]), script(whole, filter), "{name} {filter:?}");
            // Samples of other tasks are a part of a report's sum, and of a moment they are none.
            if filter.first().is_none_or(|option| ["--time", "-C"].contains(option)) {
                let report =
                    |input, filter: &[&str]| folder.told("report", input, &[&["--stdio"], filter].concat());
                assert_eq!(report("part.data", &[]), report(whole, filter), "{name} {filter:?}");
            }
        }
    }
}

#[cfg(target_endian = "little")]
#[test]
fn there_is_a_whole_file_or_none() {
    let folder = &Folder::new("whole");
    fs::copy(fixture("chains.data"), folder.0.join("a.data")).unwrap();
    let before = folder.told("script", "a.data", &["-C", "0"]);
    folder.done(&["cut", "a.data", "-C", "0", "-o", "a.data"]);
    assert_eq!(folder.told("script", "a.data", &[]), before, "a recording can become a part of itself");
    let refused: [&[&str]; 4] = [
        &["cut", "a.data", "-o", "none/b.data"],
        &["cut", "a.data", "-o", "."],
        &["cut", "a.data", "-e", "nonsense", "-o", "a.data"],
        &["cut", "none.data", "-o", "a.data"],
    ];
    for words in refused {
        let output = folder.run(words);
        assert_eq!(output.status.code(), Some(125), "{words:?}");
        assert_eq!(folder.told("script", "a.data", &[]), before, "{words:?}");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "{words:?}");
    }
    if Path::new("/dev/full").exists() {
        let output = folder.run(&["cut", "a.data", "-o", "/dev/full"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(125) && said.contains("the disk is full"), "{said}");
    }
}

#[cfg(target_endian = "little")]
#[test]
fn what_is_merged_has_the_samples_of_all() {
    let folder = &Folder::new("merge");
    let whole = &fixture("chains.data");
    folder.done(&["cut", "-i", whole, "--time", "0%-50%", "-o", "a.data"]);
    folder.done(&["cut", "-i", whole, "--time", "50%-100%", "-o", "b.data"]);
    folder.done(&["merge", "-o", "all.data", "b.data", "a.data"]);
    for command in ["script", "report", "buildid-list", "evlist"] {
        // Both parts tell of all losses.
        let told = |input| {
            let mut lines = folder.told(command, input, &[]);
            lines.retain(|line| !line.contains("Lost"));
            lines
        };
        assert_eq!(told("all.data"), told(whole), "{command}");
    }
    let group = &fixture("group.data");
    folder.done(&["merge", "-o", "both.data", whole, group]);
    let of = |input: &str| folder.told("script", input, &["-F", "tid,time,ip"]);
    let both = of("both.data");
    let (mut sum, mut found) = ([of(whole), of(group)].concat(), both);
    sum.sort();
    found.sort();
    assert_eq!(found, sum);
}

/// The folder with programs and libraries where perf keeps them, by build-id.
fn with_programs(folder: &Folder) {
    for (byte, name, kind) in
        [("11", "grind", "elf"), ("22", "libtext.so", "elf"), ("33", "kallsyms", "kallsyms")]
    {
        let store = folder.0.join(format!("home/.debug/.build-id/{byte}/{}", byte.repeat(19)));
        fs::create_dir_all(&store).unwrap();
        fs::copy(fixture(name), store.join(kind)).unwrap();
    }
    fs::copy(fixture("grind.c"), folder.0.join("grind.c")).unwrap();
}

#[cfg(target_endian = "little")]
#[test]
fn a_sealed_recording_is_told_the_same_where_none_of_its_programs_are() {
    let folder = &Folder::new("seal");
    with_programs(folder);
    let ways: [(&str, &[&str]); 7] = [
        ("report", &["--stdio"]),
        ("report", &["--stdio", "-g", "--no-children"]),
        ("report", &["--stdio", "--sort", "srcline"]),
        ("script", &[]),
        ("script", &["-F", "+srcline"]),
        ("export", &["-f", "folded"]),
        ("annotate", &["hash"]),
    ];
    for name in ["chains.data", "group.data", "branches.data", "memory.data"] {
        let whole = &fixture(name);
        folder.done(&["seal", "--sources", "-i", whole, "-o", "sealed.data"]);
        folder.done(&["cut", "-i", "sealed.data", "-o", "cut.data"]);
        let told = |input: &str, &(command, options): &(&str, &[&str])| {
            let output = folder.run(&[&[command, "-i", input], options].concat());
            let text = String::from_utf8(output.stdout).unwrap();
            // Remarks of annotate are folded, so that more words in one move all that follow.
            let text = match command {
                "annotate" => text.split_whitespace().collect::<Vec<_>>().join(" "),
                _ => text,
            };
            let lines = text.lines().filter(|line| command == "annotate" || !line.contains(".data"));
            lines.map(|line| line.replace("where it was sealed: ", "")).collect::<Vec<_>>()
        };
        let before: Vec<_> = ways.iter().map(|way| told(whole, way)).collect();
        fs::rename(folder.0.join("home"), folder.0.join("gone")).unwrap();
        fs::rename(folder.0.join("grind.c"), folder.0.join("gone.c")).unwrap();
        let plain: Vec<_> = ways.iter().map(|way| told(whole, way)).collect();
        for input in ["sealed.data", "cut.data"] {
            for (way, before) in ways.iter().zip(&before) {
                assert_eq!(&told(input, way), before, "{name} {way:?}");
            }
        }
        assert_ne!(plain, before, "{name}: without its names less is told");
        fs::rename(folder.0.join("gone"), folder.0.join("home")).unwrap();
        fs::rename(folder.0.join("gone.c"), folder.0.join("grind.c")).unwrap();
        // Merged with a part of itself it keeps its names.
        folder.done(&["merge", "-o", "merged.data", "sealed.data", "cut.data"]);
        let merged = told("merged.data", &("report", &["--stdio", "--sort", "dso,sym", "--no-children"]));
        assert!(merged.iter().any(|line| line.contains("hash")), "{name}: {merged:?}");
        // Sealed again it is the same, from its own names.
        folder.done(&["seal", "-i", "sealed.data", "-o", "again.data"]);
        assert_eq!(told("again.data", &ways[0]), before[0], "{name}");
    }
}
