//! Completions: what `perfuse complete` answers to words, and what bash, zsh and fish make of it, driven at terminals of their own.

use perfuse_testkit::{Outcome, Skip, Terminal, need};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

perfuse_testkit::suite! {
    deterministic:
        commands_and_options_are_offered_and_hidden_ones_are_not,
        values_are_offered_by_what_they_are,
        lists_go_on,
        commands_to_run_belong_to_the_shell,
        the_other_shells_know_the_options;
    witnesses:
        bash_completes,
        zsh_completes,
        fish_completes;
    measurements:
        events_of_the_machine_are_offered,
        processes_are_offered_by_number_and_by_name;
}

fn program() -> OsString {
    std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into())
}

fn perfuse(arguments: &[&str]) -> String {
    let mut command = Command::new(program());
    let output = command.args(arguments).env("PERFUSE_CONFIG", "").output().expect("the program starts");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The kind of answer to these words, and what is offered.
fn answer(words: &[&str]) -> (String, Vec<String>) {
    let text = perfuse(&[&["complete", "--"], words].concat());
    let mut lines = text.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned());
    (lines.next().expect("a kind"), lines.collect())
}

#[track_caller]
fn offered(words: &[&str], kind: &str, offers: &[&str]) {
    let found = answer(words);
    assert_eq!(
        (found.0.as_str(), found.1),
        (kind, offers.iter().map(|&offer| offer.to_owned()).collect()),
        "{words:?}"
    );
}

fn commands_and_options_are_offered_and_hidden_ones_are_not() -> Outcome {
    offered(&["comp"], "words", &["compare", "completions"]);
    offered(&["complete"], "words", &[]);
    offered(&["complete", ""], "words", &[]);
    offered(&["help", "rep"], "words", &["report"]);
    offered(&["man", "sta"], "words", &["stat"]);
    offered(&["man", "./"], "folders", &[]);
    offered(&["record", "--call"], "words", &["--call-graph"]);
    offered(&["record", "--clang"], "words", &[]);
    offered(&["stat", "record", "--per-co"], "words", &["--per-core"]);
    offered(&["no-such-command", ""], "words", &[]);
    assert!(answer(&["-"]).1.contains(&"--version".to_owned()));
    let all = perfuse(&["complete", "--", ""]);
    assert!(all.contains("\nlist\tList the events of this machine"), "{all}");
    Ok(())
}

fn values_are_offered_by_what_they_are() -> Outcome {
    offered(&["record", "--call-graph", ""], "words", &["auto", "fp", "unwound", "dwarf", "lbr", "no"]);
    offered(&["record", "--call-graph=d"], "words", &["--call-graph=dwarf"]);
    offered(&["record", "--call-g", "l"], "words", &["lbr"]);
    offered(&["report", "-g", "fo"], "list", &["folded"]);
    offered(&["report", "--percentage", ""], "words", &["absolute", "relative"]);
    offered(&["record", "-gk", "mono"], "words", &["monotonic", "monotonic_raw"]);
    offered(&["completions", "z"], "words", &["zsh"]);
    offered(&["export", "-f", "sp"], "words", &["speedscope"]);
    offered(&["record", "-u", ""], "users", &[]);
    for words in [
        &["report", ""][..],
        &["report", "-i", ""],
        &["report", "--input="],
        &["diff", "a", ""],
        &["sim", ""],
    ] {
        offered(words, "files", &[]);
    }
    offered(&["stat", "--events-dir", ""], "folders", &[]);
    // Numbers are the user's own.
    offered(&["record", "-F", ""], "words", &[]);
    offered(&["compare", "-P", "n", "1", ""], "words", &[]);
    Ok(())
}

fn lists_go_on() -> Outcome {
    offered(
        &["report", "-s", "comm,ds"],
        "list",
        &["comm,dso", "comm,dso_size", "comm,dso_from", "comm,dso_to", "comm,dso_daddr"],
    );
    offered(&["diff", "--sort", "srcl"], "list", &["srcline", "srcline_from", "srcline_to"]);
    offered(&["report", "-F", "overhead_ch"], "list", &["overhead_children"]);
    offered(&["script", "-F", "+brstacks"], "list", &["+brstacksym"]);
    offered(&["top", "-s", "comm,s"], "list", &["comm,symbol", "comm,srcline", "comm,srcfile"]);
    offered(&["script", "-F", "comm,tim"], "list", &["comm,time"]);
    offered(&["record", "-j", "any_"], "list", &["any_call", "any_ret"]);
    Ok(())
}

fn commands_to_run_belong_to_the_shell() -> Outcome {
    offered(&["stat", ""], "command 2", &[]);
    offered(&["stat", "-r", "5", "ls", "--col"], "command 4", &[]);
    offered(&["stat", "-r5", "--", "ls", ""], "command 4", &[]);
    offered(
        &["stat", "-I", "10", "-"],
        "words",
        &answer(&["stat", "-"]).1.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    offered(&["run", "perf", "re"], "command 2", &[]);
    offered(&["flamegraph", "--", "gz"], "command 3", &[]);
    offered(&["flamegraph", "--", "gzip", "-"], "command 3", &[]);
    offered(&["flamegraph", "re"], "files", &[]);
    offered(&["compare", "-n", "old", "./a", "gz"], "command 5", &[]);
    offered(&["compare", "--prepare", "sy"], "command 3", &[]);
    Ok(())
}

fn events_of_the_machine_are_offered() -> Outcome {
    offered(&["stat", "-e", "page-f"], "list", &["page-faults"]);
    offered(&["stat", "-e", "cs,{CPU-CL"], "list", &["cs,{cpu-clock"]);
    offered(&["record", "--event=page-f"], "list", &["--event=page-faults"]);
    offered(&["stat", "-M", "insn_per_cycle,CPUS_"], "list", &["insn_per_cycle,CPUs_utilized"]);
    offered(&["list", "page-f"], "words", &["page-faults"]);
    offered(&["stat", "-e", "no_such_event"], "list", &[]);
    need::root()?;
    need::tracefs()?;
    assert!(answer(&["stat", "-e", "sched:sched_swi"]).1.contains(&"sched:sched_switch".to_owned()));
    Ok(())
}

fn processes_are_offered_by_number_and_by_name() -> Outcome {
    let own = std::process::id().to_string();
    let name = fs::read_to_string("/proc/self/comm").expect("a name");
    let name = name.trim_end();
    let text = perfuse(&["complete", "--", "record", "-p", &format!("1,{own}")]);
    assert!(text.starts_with("list\n") && text.contains(&format!("\n1,{own}\t{name}\n")), "{text}");
    assert!(answer(&["stat", "-p", &name[..3]]).1.contains(&name.to_owned()));
    Ok(())
}

/// A folder of the test, which goes with it: `perfuse` to be found there, and files to be completed.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perfuse-completions-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("bin")).expect("a folder");
        std::os::unix::fs::symlink(fs::canonicalize(program()).expect("a path"), path.join("bin/perfuse"))
            .expect("a link");
        fs::write(path.join("bin/only-here-tool"), "#!/bin/sh\n").expect("a file");
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path.join("bin/only-here-tool"), everybody).expect("rights");
        fs::write(path.join("recorded.data"), "").expect("a file");
        fs::create_dir(path.join("tables")).expect("a folder");
        Folder(path)
    }

    fn command(&self, shell: &Path) -> Command {
        let mut command = Command::new(shell);
        let path = std::env::join_paths(
            std::iter::once(self.0.join("bin"))
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        );
        command
            .env("PATH", path.expect("a path"))
            .env("PERFUSE_CONFIG", "")
            .env("HOME", &self.0)
            .env("TERM", "xterm");
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME").current_dir(&self.0);
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lines as they are typed, up to the key that completes, and as shells leave them.
const LINES: [(&str, &str); 12] = [
    ("perfuse complet", "perfuse completions "),
    ("perfuse record --call-gr", "perfuse record --call-graph "),
    ("perfuse record --call-graph dw", "perfuse record --call-graph dwarf "),
    ("perfuse record --call-graph=dw", "perfuse record --call-graph=dwarf "),
    ("perfuse report -s comm,parent,sym_no,transa", "perfuse report -s comm,parent,sym_no,transaction"),
    ("perfuse stat -e cs,page-f", "perfuse stat -e cs,page-faults"),
    ("perfuse stat --per-co", "perfuse stat --per-core "),
    ("perfuse report recor", "perfuse report recorded.data "),
    ("perfuse report --input=recor", "perfuse report --input=recorded.data "),
    ("perfuse stat --events-dir ta", "perfuse stat --events-dir tables/"),
    ("perfuse stat -r 3 only-he", "perfuse stat -r 3 only-here-tool "),
    ("perfuse compare true only-he", "perfuse compare true only-here-tool "),
];

/// The line as a shell leaves it when the key was pressed behind it: it is made the text of a command that keeps it.
fn completed(folder: &Folder, mut shell: Command, line: &str) -> Result<String, Skip> {
    let mut terminal = Terminal::new(24, 200)?;
    let side = || Stdio::from(terminal.side());
    let mut child = shell.stdin(side()).stdout(side()).stderr(side()).spawn().expect("the shell starts");
    terminal.read_until("ready>");
    let kept = folder.0.join("kept");
    let _ = fs::remove_file(&kept);
    let keys = format!("{line}\t\x01printf %s '\x05' > kept && echo kept\"-\"it\n");
    terminal.types(keys.as_bytes());
    terminal.read_until("kept-it");
    child.kill().expect("the shell is there");
    child.wait().expect("it ends");
    Ok(fs::read_to_string(&kept).expect("the line"))
}

fn bash_completes() -> Outcome {
    let bash = need::program("bash")?;
    let folder = Folder::new("bash");
    fs::write(
        folder.0.join("rc"),
        "PS1='ready>'\nbind 'set enable-bracketed-paste off'\neval \"$(perfuse completions bash)\"\n",
    )
    .expect("a file");
    for (line, whole) in LINES {
        let mut shell = folder.command(&bash);
        shell.args(["--noprofile", "--rcfile", "rc", "-i"]);
        assert_eq!(completed(&folder, shell, line)?, whole, "{line}");
    }
    if need::root().is_ok() && need::tracefs().is_ok() {
        // A colon is the end of a word for bash.
        let mut shell = folder.command(&bash);
        shell.args(["--noprofile", "--rcfile", "rc", "-i"]);
        let whole = completed(&folder, shell, "perfuse stat -e cs,sched:sched_switc")?;
        assert_eq!(whole, "perfuse stat -e cs,sched:sched_switch");
    }
    Ok(())
}

fn zsh_completes() -> Outcome {
    let zsh = need::program("zsh")?;
    let folder = Folder::new("zsh");
    fs::write(
        folder.0.join(".zshrc"),
        "PS1='ready>'\nunset RPS1\nbindkey -e\nsetopt no_auto_remove_slash\nautoload -U compinit && compinit -u -D\n\
         eval \"$(perfuse completions zsh)\"\n",
    )
    .expect("a file");
    for (line, whole) in LINES {
        let mut shell = folder.command(&zsh);
        shell.args(["-d", "-i"]).env("ZDOTDIR", &folder.0);
        // zsh takes the blank behind a word back when something else than a word follows.
        assert_eq!(completed(&folder, shell, line)?, whole.trim_end(), "{line}");
    }
    Ok(())
}

fn fish_completes() -> Outcome {
    let fish = need::program("fish")?;
    let folder = Folder::new("fish");
    // fish tells the words that a line's last one may become, without a terminal.
    for (line, whole) in LINES {
        let script = format!("perfuse completions fish | source; complete -C '{line}'");
        let output = folder.command(&fish).args(["--no-config", "-c", &script]).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<&str> = text.lines().map(|line| line.split('\t').next().unwrap_or_default()).collect();
        assert_eq!(words, [whole.trim_end().rsplit(' ').next().unwrap()], "{line}: {output:?}");
    }
    Ok(())
}

fn the_other_shells_know_the_options() -> Outcome {
    for shell in ["elvish", "powershell"] {
        let script = perfuse(&["completions", shell]);
        assert!(script.contains("per-core") && script.contains("doctor"), "{shell}");
        assert!(!script.contains("perfuse;complete'") && !script.contains("'complete'"), "{shell}");
    }
    Ok(())
}
