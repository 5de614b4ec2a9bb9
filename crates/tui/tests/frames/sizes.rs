//! Every page in the usual sizes of terminals, letter by letter. `PERFUSE_GOLDEN=write` writes them anew.

use super::*;
use perfuse_tui::{CodeOf, Colours, Looks};

/// A page by the keys that lead to it.
const PAGES: [(&str, &str); 7] = [
    ("functions", "1jj"),
    ("callers", "1\n"),
    ("tree", "3lj"),
    ("flame", "4"),
    ("code", "5"),
    ("events", "7"),
    ("help", "?"),
];

/// Names as long as those of templates.
fn templates(id: u64) -> String {
    format!(
        "app::Store<std::basic_string<char, std::allocator<char>>, std::map<int, int>>::step_{id:x}(int const&)"
    )
}

#[test]
fn pages_are_drawn_in_every_size_as_they_were() {
    for (width, height) in [(60, 20), (80, 24), (120, 40), (200, 60)] {
        let mut all = String::new();
        walk("chains.data", templates, Tables::default(), |walk| {
            let of = CodeOf::new(0, "step", "/usr/lib/grind");
            walk.state.show_code(of, Err("its file is gone; the build-id store has none either".to_owned()));
            for (page, keys) in PAGES {
                let lines = walk.keys(keys).lines(width, height);
                assert!(
                    lines.iter().all(|line| perfuse_term::foreign::width(line) <= width.into()),
                    "{lines:#?}"
                );
                all += &format!("== {page}\n{}\n", lines.join("\n"));
            }
        });
        let name = format!("tests/frames/pages-{width}x{height}.txt");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(&name);
        if std::env::var_os("PERFUSE_GOLDEN").is_some_and(|how| how == "write") {
            std::fs::write(&file, &all).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), all, "{name}");
    }
}

#[test]
fn eighty_columns_have_the_share_the_object_and_what_tells_templates_apart() {
    walk("chains.data", templates, Tables::default(), |walk| {
        let page = walk.page();
        assert!(page.contains("  40.00%   40.00%  grind              app::Store<…>::step_5(…)"), "{page}");
    });
}

#[test]
fn colours_are_those_of_the_terminal_and_ascii_is_ascii() {
    walk("chains.data", plain, Tables::default(), |walk| {
        let coloured = |walk: &mut Walk<'_>| {
            let cells = walk.cells(80, 24);
            cells.content().iter().any(|cell| {
                cell.style().fg != Some(perfuse_tui::ratatui::style::Color::Reset)
                    || cell.style().bg != Some(perfuse_tui::ratatui::style::Color::Reset)
            })
        };
        for keys in ["1", "2", "3", "4"] {
            assert!(!coloured(walk.keys(keys)), "{keys}: none unless told");
        }
        for colours in [Colours::Sixteen, Colours::Many, Colours::True] {
            walk.state = State::new("colours", Tables::default()).with_looks(Looks::new(colours, false));
            for keys in ["1", "2", "3", "4"] {
                assert!(coloured(walk.keys(keys)), "{keys} {colours:?}");
            }
        }
        walk.state = State::new("ascii…", Tables::default()).with_looks(Looks::new(Colours::None, true));
        walk.state.show_code(CodeOf::new(0, "f", "/o"), Err("it is gone: “漢字”".to_owned()));
        for keys in ["1", "2", "3l", "4", "5", "6", "7", "?"] {
            let page = walk.keys(keys).page();
            assert!(page.is_ascii(), "{page}");
        }
    });
}
