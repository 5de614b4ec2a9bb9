//! Where configuration files are looked for, in the order in which they count: the real program, in folders of the test's own.

use perfuse_testkit::Outcome;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

perfuse_testkit::suite! {
    deterministic:
        each_place_comes_before_the_next,
        options_that_are_typed_come_first,
        an_empty_name_means_no_file;
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("project/src")).expect("folders");
        Folder(folder)
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    /// Runs the program in the project, at home in this folder.
    fn perfuse(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perfuse"));
        command.args(arguments).current_dir(self.0.join("project/src")).env_clear();
        command.env("HOME", &self.0).env("LC_ALL", "C.UTF-8").envs(variables.iter().copied());
        command.output().expect("the program starts")
    }

    /// The value of a key, and where it is from.
    fn key(&self, variables: &[(&str, &str)], name: &str) -> (String, String) {
        let output = self.perfuse(variables, &["config", "--json"]);
        let all: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        assert_eq!(all["schema"], "perfuse.config/1");
        let keys = all["keys"].as_array().expect("keys");
        let key = keys.iter().find(|key| key["key"] == name).unwrap_or_else(|| panic!("{name}: {all}"));
        let [path, line] = [&key["path"], &key["line"]];
        let folder = self.0.to_str().expect("UTF-8");
        let from = match key["from"].as_str().expect("a word") {
            "file" => format!("{}:{line}", path.as_str().expect("a path").trim_start_matches(folder)),
            from => from.to_owned(),
        };
        (key["value"].as_str().expect("a value").to_owned(), from)
    }
}

fn each_place_comes_before_the_next() -> Outcome {
    let folder = Folder::new("places");
    let style = |variables: &[(&str, &str)]| {
        let (value, from) = folder.key(variables, "looks.style");
        format!("{value} {from}")
    };
    assert_eq!(style(&[]), "perfuse default");
    folder.put(".config/perfuse/config.toml", "[looks]\nstyle = 'perf'\n");
    assert_eq!(style(&[]), "perf /.config/perfuse/config.toml:2");
    let xdg = folder.0.join("xdg");
    folder.put("xdg/perfuse/config.toml", "\n[looks]\nstyle = 'perfuse'\n");
    let xdg = xdg.to_str().expect("UTF-8");
    assert_eq!(style(&[("XDG_CONFIG_HOME", xdg)]), "perfuse /xdg/perfuse/config.toml:3");
    folder.put("named.toml", "[looks]\nstyle = 'perf'\n");
    let named = folder.0.join("named.toml");
    let named = named.to_str().expect("UTF-8");
    assert_eq!(style(&[("XDG_CONFIG_HOME", xdg), ("PERFUSE_CONFIG", named)]), "perf /named.toml:2");
    // Not at home itself.
    folder.put(".perfuse.toml", "[looks]\nstyle = 'perfuse'\n");
    assert_eq!(style(&[]), "perf /.config/perfuse/config.toml:2");
    folder.put("project/.perfuse.toml", "[looks]\n\n\nstyle = 'perfuse'\n");
    assert_eq!(style(&[("PERFUSE_CONFIG", named)]), "perfuse /project/.perfuse.toml:4");
    assert_eq!(style(&[("PERFUSE_STYLE", "perf")]), "perf environment");
    let paths = folder.perfuse(&[], &["config", "path"]);
    let paths = String::from_utf8_lossy(&paths.stdout).into_owned();
    let names: Vec<&str> = paths.lines().filter_map(|path| path.strip_prefix(folder.0.to_str()?)).collect();
    assert_eq!(names, ["/.config/perfuse/config.toml", "/project/.perfuse.toml"]);
    Ok(())
}

fn options_that_are_typed_come_first() -> Outcome {
    let folder = Folder::new("typed");
    // The help shows the default that clap takes.
    let shown = |variables: &[(&str, &str)]| {
        let output = folder.perfuse(variables, &["compare", "--help"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let warmup = text.split("--warmup").nth(1).and_then(|rest| rest.split("[default: ").nth(1));
        warmup.and_then(|rest| rest.split(']').next()).unwrap_or_else(|| panic!("{output:?}")).to_owned()
    };
    assert_eq!(shown(&[]), "1");
    folder.put(
        "project/.perfuse.toml",
        "[compare]\nwarmup = 7\nuntil = '3%'\n[record]\ncall-graph = 'nonsense'\n",
    );
    assert_eq!(shown(&[]), "7");
    // A configured value is refused in the words of its option, with its place; a typed one is not blamed on the file.
    let refusal = |arguments: &[&str]| {
        let output = folder.perfuse(&[], arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let configured = refusal(&["record", "-n", "true"]);
    assert!(
        configured.contains("nonsense")
            && configured.contains(".perfuse.toml:5 says so: call-graph = nonsense"),
        "{configured}"
    );
    let typed = refusal(&["record", "-n", "--call-graph", "rubbish", "true"]);
    assert!(typed.contains("rubbish") && !typed.contains("nonsense"), "{typed}");
    Ok(())
}

fn an_empty_name_means_no_file() -> Outcome {
    let folder = Folder::new("empty");
    folder.put(".config/perfuse/config.toml", "[looks]\nstyle = 'perf'\n");
    folder.put("project/.perfuse.toml", "no TOML\n");
    for none in ["", "/dev/null"] {
        assert_eq!(folder.key(&[("PERFUSE_CONFIG", none)], "looks.style").1, "default", "{none}");
    }
    let output = folder.perfuse(&[], &["config"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains(".perfuse.toml:1: no TOML"), "{output:?}");
    // Nothing of it is read where nothing of it counts.
    assert!(folder.perfuse(&[], &["version"]).status.success());
    Ok(())
}
