//! Keys beyond moving about: perf's own, the order of rows, and what leaves the screen.

use super::*;

fn typed(walk: &mut Walk<'_>, keys: &str) -> Deed {
    let mut last = Deed::Nothing;
    for letter in keys.chars() {
        let code = if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
        last = walk.press(code, KeyModifiers::NONE);
    }
    last
}

#[test]
fn the_help_names_every_key_and_is_read_to_its_end_on_a_small_terminal() {
    walk("chains.data", plain, Tables::default(), |walk| {
        // h is perf's key for it, where nothing is on the left.
        for key in ["?", "h"] {
            let first = walk.keys(key).lines(40, 8);
            assert!(first[2].starts_with(" 1 to 7"), "{first:#?}");
            let last = walk.keys("jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj").lines(40, 8);
            assert!(last.iter().any(|line| line.starts_with(" q, Esc")), "{last:#?}");
            let page = walk.keys("x").page();
            assert!(page.contains("Symbol"), "{page}");
        }
    });
}

#[test]
fn rows_are_sorted_by_each_column_and_the_other_way_round() {
    let profile = profile("chains.data");
    let frames = Frames::new(&Names::new(&profile, &Named(plain)), false);
    let mut state = State::new("sorted", Tables::default());
    let mut first = |keys: &str| {
        for key in keys.chars() {
            let subject = Subject::new(&profile, &frames, 0, state.tables());
            assert_eq!(state.key(&subject, KeyCode::Char(key).into()), Deed::Again);
        }
        let subject = Subject::new(&profile, &frames, 0, state.tables());
        let texts: Vec<String> = subject.rows().iter().map(|row| row.texts.join(" ")).collect();
        (state.tables().order, texts)
    };
    let (order, by_own) = first("s");
    assert_eq!((order, by_own[0].as_str()), (RowOrder::Own, "grind f5"));
    let (order, by_object) = first("s");
    let is_sorted = by_object.is_sorted_by_key(|row| row.split(' ').next().map(str::to_owned));
    assert!(order == RowOrder::Key(0) && is_sorted, "{by_object:?}");
    let (_, reversed) = first("r");
    assert_eq!(reversed, by_object.into_iter().rev().collect::<Vec<_>>());
    assert_eq!((first("s").0, first("s").0), (RowOrder::Key(1), RowOrder::Total));
    // A click at a title does it, too.
    walk("chains.data", plain, Tables::default(), |walk| {
        walk.cells(80, 24);
        assert_eq!(walk.mouse(14, 2), Deed::Again);
        assert_eq!(walk.state.tables().order, RowOrder::Own);
    });
}

#[test]
fn a_function_is_unfolded_in_the_tree_and_all_of_it_is_and_is_folded() {
    walk("chains.data", plain, Tables::default(), |walk| {
        let page = walk.keys("jje").page();
        assert_eq!(walk.state.page(), Page::Tree);
        assert!(page.contains("callees first") && page.contains("▾ f5  grind"), "{page}");
        assert!(!walk.keys("e").page().contains('▾'));
        assert!(!walk.keys("E").page().contains('▸'));
        assert!(!walk.keys("C").page().contains('▾'));
    });
}

#[test]
fn one_thread_and_one_object_are_shown_alone_until_the_key_comes_again() {
    let profile = timed("chains.data");
    let whole = profile.event(0).samples;
    walk_in_time(
        &profile,
        &[
            ("t", &|walk| {
                assert!(
                    walk.subject.samples() < whole && walk.page().contains("of thread 200"),
                    "{}",
                    walk.page()
                )
            }),
            ("t", &|walk| assert_eq!(walk.subject.samples(), whole)),
            ("d", &|walk| {
                let objects = walk.state.tables().filter.objects.clone();
                assert!(
                    objects.len() == 1 && walk.page().contains("  in grind"),
                    "{objects:?} {}",
                    walk.page()
                );
            }),
            ("d", &|walk| assert!(walk.state.tables().filter.objects.is_empty())),
        ],
    );
}

#[test]
fn tables_are_copied_and_files_written_in_the_format_of_their_ending() {
    walk("chains.data", plain, Tables::default(), |walk| {
        let Deed::Copy(table) = typed(walk, "Y") else { panic!("nothing copied") };
        assert!(
            table.starts_with("percent\tself percent\ttotal\tself\tsamples\tShared Object\tSymbol\n"),
            "{table}"
        );
        assert_eq!(table.lines().nth(3).map(|line| line.split('\t').count()), Some(7));
        let mut written = |name: &str| {
            typed(walk, "P");
            walk.press(KeyCode::Char('u'), KeyModifiers::CONTROL);
            match typed(walk, &format!("{name}\n")) {
                Deed::Write { file, contents } => {
                    assert_eq!(file, name);
                    Some(String::from_utf8(contents).unwrap())
                }
                _ => None,
            }
        };
        let text = written("page.txt").unwrap();
        assert!(
            text.contains("  40.00%   40.00%  grind              f5\n") && !text.contains("? help"),
            "{text}"
        );
        let csv = written("page.csv").unwrap();
        assert!(csv.contains(",grind,f5\n"), "{csv}");
        assert!(written("page.svg").unwrap().contains("<svg"));
        let folded = written("page.folded").unwrap();
        assert!(
            folded.lines().all(|line| line.rsplit(' ').next().unwrap().parse::<u64>().is_ok()),
            "{folded}"
        );
        assert_eq!(written("page.png"), None);
        assert!(walk.page().contains("nothing written: the name has to end in"), "{}", walk.page());
    });
}

#[test]
fn the_shell_is_reached_from_every_page_and_while_something_is_typed() {
    walk("chains.data", plain, Tables::default(), |walk| {
        for keys in ["1", "4", "?", "/f", "P"] {
            typed(walk, keys);
            assert_eq!(walk.press(KeyCode::Char('z'), KeyModifiers::CONTROL), Deed::Suspend);
        }
    });
}

#[test]
fn a_recording_that_is_being_read_says_so() {
    walk("chains.data", plain, Tables::default(), |walk| {
        walk.state.set_loading(Some(12));
        assert!(walk.page().contains("of the first part; reading 12 %"), "{}", walk.page());
        walk.state.set_loading(None);
        assert!(!walk.page().contains("reading"));
    });
}
