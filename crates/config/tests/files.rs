//! Files: which of them hold, which key of which file counts, and what is said of faults.

use perfuse_config::{Key, Kind, Places, Settings, State, parse, read};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const KEYS: &[Key] = &[
    Key::new("looks", "color", Kind::Choice(&["auto", "always", "never"])),
    Key::new("looks", "pager", Kind::Text).of_the_user(),
    Key::new("record", "frequency", Kind::Number { least: 1, most: 1000 }),
    Key::new("record", "events", Kind::List),
    Key::new("report", "percent-limit", Kind::Real),
    Key::new("report", "children", Kind::Flag),
];

/// A folder of one test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("config-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("home/project/src")).expect("folders");
        Folder(folder)
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("its mode");
        path
    }

    fn places(&self) -> Places {
        Places {
            user: Some(self.0.join("home/config.toml")),
            named: None,
            project: Some(".perfuse.toml".into()),
            folder: self.0.join("home/project/src"),
            home: Some(self.0.join("home")),
        }
    }

    fn read(&self) -> Settings {
        read(&self.places(), KEYS).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn value<'s>(settings: &'s Settings, table: &str, name: &str) -> Option<&'s str> {
    settings.get(table, name).map(|setting| setting.value.as_str())
}

#[test]
fn a_projects_file_comes_before_the_users_key_by_key() {
    let folder = Folder::new("order");
    assert_eq!(folder.read().all, []);
    folder.put("home/config.toml", "[record]\nfrequency = 99\nevents = 'cs'\n");
    assert_eq!(value(&folder.read(), "record", "frequency"), Some("99"));
    folder.put("home/project/.perfuse.toml", "[record]\nfrequency = 999\n");
    let settings = folder.read();
    assert_eq!(value(&settings, "record", "frequency"), Some("999"));
    assert_eq!(value(&settings, "record", "events"), Some("cs"));
    assert_eq!(settings.get("record", "frequency").map(|setting| setting.line), Some(2));
    // The nearest one is the project's.
    folder.put("home/project/src/.perfuse.toml", "[record]\nfrequency = 9\n");
    assert_eq!(value(&folder.read(), "record", "frequency"), Some("9"));
}

#[test]
fn a_projects_file_is_looked_for_below_the_home() {
    let folder = Folder::new("home");
    folder.put("home/.perfuse.toml", "[record]\nfrequency = 9\n");
    folder.put(".perfuse.toml", "[record]\nfrequency = 9\n");
    assert_eq!(folder.read().all, []);
    let outside = Places { folder: folder.0.clone(), ..folder.places() };
    assert_eq!(read(&outside, KEYS).expect("it is right").all.len(), 1);
}

#[test]
fn a_named_file_has_to_be_there_and_stands_in_place_of_the_users() {
    let folder = Folder::new("named");
    folder.put("home/config.toml", "[record]\nfrequency = 99\n");
    let named = folder.put("home/other.toml", "[record]\nevents = ['a', 'b']\n");
    let places = Places { named: Some(named), ..folder.places() };
    let settings = read(&places, KEYS).expect("it is right");
    assert_eq!((settings.all.len(), value(&settings, "record", "events")), (1, Some("a,b")));
    let places = Places { named: Some(folder.0.join("none.toml")), ..folder.places() };
    assert!(
        read(&places, KEYS)
            .expect_err("none")
            .to_string()
            .ends_with("none.toml: there is no such file (ENOENT)")
    );
}

#[test]
fn a_file_that_others_can_write_to_does_not_hold() {
    let folder = Folder::new("mode");
    let path = folder.put("home/project/.perfuse.toml", "[record]\nfrequency = 9\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("its mode");
    let settings = folder.read();
    assert_eq!(settings.all, []);
    assert!(
        matches!(&settings.files[1].state, State::Refused(words) if words.contains("chmod go-w")),
        "{settings:?}"
    );
    fs::remove_file(&path).expect("it was there");
    // A folder, or a link to nowhere, of that name.
    symlink("/nonexistent", &path).expect("a link");
    assert_eq!(folder.read().all, []);
    fs::remove_file(&path).expect("it was there");
    fs::create_dir(&path).expect("a folder");
    let error = read(&folder.places(), KEYS).expect_err("a folder");
    assert!(error.to_string().ends_with("it is a folder, and only regular files are read"), "{error}");
}

#[test]
fn a_projects_file_cannot_set_what_is_the_users() {
    let folder = Folder::new("users");
    folder.put("home/config.toml", "[looks]\npager = 'less'\n");
    assert_eq!(value(&folder.read(), "looks", "pager"), Some("less"));
    folder.put("home/project/.perfuse.toml", "[looks]\ncolor = 'never'\npager = 'rm -rf x'\n");
    let error = read(&folder.places(), KEYS).expect_err("a pager").to_string();
    assert!(error.contains(".perfuse.toml:3: [looks] pager stands in the user's own file alone"), "{error}");
}

#[test]
fn files_have_limits() {
    let folder = Folder::new("limits");
    folder.put("home/config.toml", &"#\n".repeat(40_000));
    assert!(read(&folder.places(), KEYS).expect_err("large").to_string().contains("more than 65536 bytes"));
    fs::write(folder.0.join("home/config.toml"), b"[looks]\n\xff").expect("a file");
    assert!(read(&folder.places(), KEYS).expect_err("bytes").to_string().ends_with(":2: no UTF-8"));
    let deep = format!("[record]\nevents = {}", "[".repeat(30_000));
    assert_eq!(parse(Path::new("x"), &deep, KEYS).expect_err("deep").line, Some(2));
}

#[test]
fn faults_name_line_key_and_what_was_meant() {
    let said = |text: &str| parse(Path::new("f"), text, KEYS).expect_err(text).to_string();
    for (text, words) in [
        ("\n[recrod]\nx = 1", "f:2: there is no table [recrod]; did you mean [record]?"),
        ("[x]", "f:1: there is no table [x]; there are [looks], [record], [report]"),
        ("[record]\nfrequncy = 9", "f:2: there is no key 'frequncy' in [record]; did you mean frequency?"),
        ("[looks]\nx = 9", "f:2: there is no key 'x' in [looks]; there are color, pager"),
        ("frequency = 9", "f:1: keys stand in tables such as [looks]; 'frequency' stands in [record]"),
        (
            "[record]\nfrequency = 'x'",
            "f:2: [record] frequency wants a whole number from 1 to 1000, not \"x\"",
        ),
        (
            "[record]\nfrequency = 1001",
            "f:2: [record] frequency wants a whole number from 1 to 1000, not 1001",
        ),
        ("[record]\nfrequency = -1", "f:2: [record] frequency wants a whole number from 1 to 1000, not -1"),
        ("[looks]\ncolor = true", "f:2: [looks] color wants \"auto\" or \"always\" or \"never\", not true"),
        ("[report]\nchildren = 'yes'", "f:2: [report] children wants true or false, not \"yes\""),
        ("[report]\npercent-limit = nan", "f:2: [report] percent-limit wants a number such as 0.5, not nan"),
        (
            "[record]\nevents = [1]",
            "f:2: [record] events wants names such as \"a,b\" or [\"a\", \"b\"], not an array",
        ),
        (
            "[looks]\npager = \"a\\nb\"",
            "f:2: [looks] pager wants a text in quotes, on one line, not \"a\\nb\"",
        ),
    ] {
        assert_eq!(said(text), words, "{text}");
    }
    assert!(said("[record\n").starts_with("f:1: no TOML: "));
    assert!(said("[record]\nfrequency = 1\nfrequency = 2\n").starts_with("f:3: no TOML: duplicate key"));
}

#[test]
fn values_look_as_they_are_typed() {
    let text = "[record]\nfrequency = 9_9\nevents = ['{a,b}', 'c']\n[report]\npercent-limit = 0.50\nchildren = false\n";
    let all = parse(Path::new("f"), text, KEYS).expect("it is right");
    let values: Vec<(&str, usize)> =
        all.iter().map(|setting| (setting.value.as_str(), setting.line)).collect();
    assert_eq!(values, [("99", 2), ("{a,b},c", 3), ("0.5", 5), ("false", 6)]);
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused_in_a_line_that_there_is(text in "([\\[\\]\"'={},.#a-c0-9 \n-]|looks|record|events|pager){0,60}") {
        match parse(Path::new("f"), &text, KEYS) {
            Ok(all) => prop_assert!(all.iter().all(|setting| !setting.value.contains('\n'))),
            Err(error) => prop_assert!(error.line.is_none_or(|line| line <= 1 + text.matches('\n').count())),
        }
    }

    /// A value that is written is read.
    #[test]
    fn texts_come_back(value in "[^\u{0}-\u{1f}\u{7f}-\u{9f}\"\\\\]{0,30}") {
        let text = format!("[looks]\npager = \"{value}\"\n");
        let all = parse(Path::new("f"), &text, KEYS).expect("it is right");
        prop_assert_eq!(&all[0].value, &value);
    }
}
