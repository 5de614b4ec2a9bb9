//! Texts as configuration files: each is refused with a line that it has, or gives values that could be typed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfuse_config::{Key, Kind, parse};
use std::path::Path;

const KEYS: &[Key] = &[
    Key::new("looks", "color", Kind::Choice(&["auto", "never"])),
    Key::new("looks", "pager", Kind::Text).of_the_user(),
    Key::new("record", "frequency", Kind::Number { least: 1, most: 1000 }),
    Key::new("record", "events", Kind::List),
    Key::new("report", "percent-limit", Kind::Real),
    Key::new("report", "children", Kind::Flag),
];

fuzz_target!(|text: &str| {
    match parse(Path::new("config.toml"), text, KEYS) {
        Ok(all) => assert!(all.iter().all(|setting| !setting.value.contains('\n'))),
        Err(error) => assert!(error.line.is_none_or(|line| line <= 1 + text.matches('\n').count())),
    }
});
