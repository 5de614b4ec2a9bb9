//! Pages as they are drawn: keys go in, lines of cells are compared.

mod keys;
mod sizes;

use perfuse_data::PerfData;
use perfuse_profile::{Frames, Function, Key, Names, ObjectRef, Plan, Profile, Symbols, TimedAddress};
use perfuse_tui::ratatui::buffer::Buffer;
use perfuse_tui::ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use perfuse_tui::ratatui::layout::Rect;
use perfuse_tui::ratatui::style::Modifier;
use perfuse_tui::{Choice, Deed, Page, RowOrder, State, Subject, Tables};
use std::path::Path;

/// Functions of 64 bytes each, which is how the program in the recordings has them, with names of others.
struct Named(fn(u64) -> String);

impl Symbols for Named {
    fn look_up(&self, _: ObjectRef<'_>, at: &[TimedAddress], found: &mut dyn FnMut(usize, Function<'_>)) {
        for (index, timed) in at.iter().enumerate() {
            let address = match timed.address {
                perfuse_profile::symbols::Address::FileOffset(address) => address,
                perfuse_profile::symbols::Address::Memory(address) => address,
            };
            let (id, offset) = (address / 64, address % 64);
            let name = || (self.0)(id);
            let function = Function {
                id,
                name: &name,
                start: address - offset,
                size: 64,
                offset,
                is_data: false,
                line: None,
            };
            found(index, function);
        }
    }

    fn missing(&self, _: ObjectRef<'_>) -> Option<String> {
        None
    }
}

fn plain(id: u64) -> String {
    format!("f{id:x}")
}

fn profile(recording: &str) -> Profile {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/fixtures");
    Profile::read(PerfData::open(folder.join(recording)).unwrap(), Plan::new(&[Key::Comm])).unwrap()
}

/// A profile that somebody walks through.
struct Walk<'s> {
    subject: Subject<'s>,
    state: State,
}

fn walk(recording: &str, name: fn(u64) -> String, tables: Tables, go: impl FnOnce(&mut Walk<'_>)) {
    let (profile, symbols) = (profile(recording), Named(name));
    let frames = Frames::new(&Names::new(&profile, &symbols), false);
    let subject = Subject::new(&profile, &frames, 0, &tables);
    let state = State::new(recording, tables);
    go(&mut Walk { subject, state });
}

impl Walk<'_> {
    fn keys(&mut self, text: &str) -> &mut Self {
        for letter in text.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\u{8}' => KeyCode::Backspace,
                letter => KeyCode::Char(letter),
            };
            assert_eq!(self.state.key(&self.subject, code.into()), Deed::Nothing, "{letter}");
        }
        self
    }

    fn press(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Deed {
        self.state.key(&self.subject, KeyEvent::new(code, modifiers))
    }

    fn mouse(&mut self, column: u16, row: u16) -> Deed {
        let (kind, modifiers) = (MouseEventKind::Down(MouseButton::Left), KeyModifiers::NONE);
        self.state.mouse(&self.subject, MouseEvent { kind, column, row, modifiers })
    }

    fn cells(&mut self, width: u16, height: u16) -> Buffer {
        let area = Rect::new(0, 0, width, height);
        let mut cells = Buffer::empty(area);
        self.state.draw(&self.subject, area, &mut cells);
        cells
    }

    fn lines(&mut self, width: u16, height: u16) -> Vec<String> {
        let cells = self.cells(width, height);
        let line = |y| (0..width).map(|x| cells[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    fn page(&mut self) -> String {
        self.lines(80, 24).join("\n")
    }
}

/// Compares a page with lines; those that are left out at the end are empty, but for the last.
fn assert_page(page: &str, expected: &str) {
    let page: Vec<&str> = page.lines().collect();
    let expected: Vec<&str> = expected.trim_start_matches('\n').lines().collect();
    assert_eq!(&page[..expected.len()], &expected[..], "{}", page.join("\n"));
    let rest = &page[expected.len()..];
    assert!(rest.iter().rev().skip(1).all(|line| line.is_empty()), "{}", page.join("\n"));
    assert!(page.len() == 24 && page[23].ends_with("Tab pages · ? help · q ends"), "{}", page.join("\n"));
}

#[test]
fn functions_have_their_shares() {
    walk("chains.data", plain, Tables::default(), |walk| {
        let page = walk.page();
        assert!(
            page.starts_with(
                " cpu-clock  40 samples                                              chains.data
  1 functions 2 callers 3 tree 4 flame 5 code 6 time 7 events
   Total     Self  Shared Object      Symbol
  72.50%    0.00%  grind              f8
  72.50%    0.00%  grind              f9
  40.00%   40.00%  grind              f5
  32.50%    5.00%  grind              f6
"
            ),
            "{page}"
        );
        // There is room for all of them, and for longer names.
        let wide = walk.lines(120, 40);
        assert!(wide[22].ends_with("0x7f0000000248") || wide[23].ends_with("0x7f0000000248"), "{wide:#?}");
        assert!(wide.iter().all(|line| line.chars().count() <= 120));
        assert_eq!(walk.press(KeyCode::Char('s'), KeyModifiers::NONE), Deed::Again);
        assert_eq!(walk.state.tables().order, RowOrder::Own);
    });
    let by_own = {
        let mut tables = Tables::default();
        tables.order = RowOrder::Own;
        tables
    };
    walk("chains.data", plain, by_own, |walk| {
        let lines = walk.lines(80, 24);
        assert_eq!(lines[3], "  40.00%   40.00%  grind              f5");
    });
    // Samples without callchains have one share; other keys are columns.
    walk("before.data", plain, Tables::new(&[Key::Comm, Key::Symbol]), |walk| {
        let page = walk.page();
        assert!(page.contains("Self  Command"), "{page}");
    });
}

/// The line that is shown in reverse, below the first three.
fn cursor(cells: &Buffer) -> String {
    let is_reverse = |y: &u16| cells[(4, *y)].modifier.contains(Modifier::REVERSED);
    let line = (3..cells.area.height).find(is_reverse).expect("a cursor");
    (0..cells.area.width).map(|x| cells[(x, line)].symbol()).collect::<String>().trim_end().to_owned()
}

#[test]
fn the_chosen_function_stays_chosen_in_the_next_window() {
    let (profile, symbols) = (profile("chains.data"), Named(plain));
    let frames = Frames::new(&Names::new(&profile, &symbols), false);
    let mut tables = Tables::default();
    let subject = Subject::new(&profile, &frames, 0, &tables);
    let mut walk = Walk { subject, state: State::new("chains.data", tables.clone()) };
    assert_eq!(cursor(&walk.cells(80, 24)), "  72.50%    0.00%  grind              f8");
    walk.keys("jjj");
    assert_eq!(cursor(&walk.cells(80, 24)), "  32.50%    5.00%  grind              f6");
    tables.order = RowOrder::Own;
    walk.subject = Subject::new(&profile, &frames, 0, &tables);
    let line = cursor(&walk.cells(80, 24));
    assert_eq!(line, "  32.50%    5.00%  grind              f6");
    // Where it has gone, the line stays.
    let nothing = Profile::default();
    let none = Frames::new(&Names::new(&nothing, &()), false);
    walk.subject = Subject::new(&nothing, &none, 0, &tables);
    assert!(walk.page().contains("no samples") && !walk.state.is_paused());
    assert!(walk.keys("p").page().contains("paused") && walk.state.is_paused());
}

#[test]
fn callers_and_callees_are_walked_through() {
    walk("chains.data", plain, Tables::default(), |walk| {
        assert_page(
            &walk.keys("\n").page(),
            "
 cpu-clock  40 samples                                              chains.data
  1 functions 2 callers 3 tree 4 flame 5 code 6 time 7 events
 called by
  72.50%    f9  grind








  72.50%  f8  grind                                             itself    0.00%
 calls
  32.50%    f6  grind
  20.00%    f7  grind
  20.00%    fb  libtext.so
",
        );
        // To the callees, the second of them, and back.
        let page = walk.keys("lj\n").page();
        assert!(
            page.contains("  20.00%  f7  grind                                             itself    0.00%"),
            "{page}"
        );
        let page = walk.keys("\u{8}").page();
        assert!(page.contains("  72.50%  f8  grind "), "{page}");
        walk.keys("\u{8}");
        assert_eq!(walk.state.page(), Page::Functions);
    });
}

#[test]
fn trees_open_to_the_next_fork_from_either_end() {
    walk("chains.data", plain, Tables::default(), |walk| {
        assert_page(
            &walk.keys("3j\n").page(),
            "
 cpu-clock  40 samples                                              chains.data
  1 functions 2 callers 3 tree 4 flame 5 code 6 time 7 events  callers first
   Total     Self  Function
  72.50%    0.00%  ▸ f9  grind
  25.00%    0.00%  ▾ f9  sh
  25.00%    0.00%    ▾ f8  sh
  10.00%    0.00%      ▸ f7  sh
  10.00%    0.00%      ▸ 0x7f00000002c5  [unknown]
   5.00%    2.50%      ▸ f6  sh
   2.50%    0.00%  ▸ f9  libtext.so
",
        );
        // Closed again; then from where samples were.
        let page = walk.keys("h").page();
        assert!(page.contains("  25.00%    0.00%  ▸ f9  sh\n   2.50%"), "{page}");
        let page = walk.keys("il").page();
        assert!(page.contains("callees first\n   Share  Function\n  40.00%  ▾ f5  grind"), "{page}");
    });
}

#[test]
fn flame_graphs_are_as_wide_as_the_samples() {
    walk("chains.data", plain, Tables::default(), |walk| {
        let lines = walk.keys("4").lines(80, 24);
        assert_eq!(lines[2], "  72.50%  f9  grind");
        let columns = |line: &str| {
            line.chars()
                .position(|c| c == '▏')
                .into_iter()
                .chain(line.chars().enumerate().skip(1).filter(|(_, c)| *c == '▏').map(|(at, _)| at))
                .collect::<Vec<_>>()
        };
        // 72.5 %, 25 % and 2.5 % of 80 columns.
        assert_eq!(columns(&lines[3]), [0, 58, 78], "{}", lines[3]);
        let lines = walk.keys("l\n").lines(80, 24);
        assert_eq!(columns(&lines[3]), [0], "{}", lines[3]);
        assert!(lines[3].starts_with("▏f9"), "{}", lines[3]);
        let lines = walk.keys("\u{8}").lines(80, 24);
        assert_eq!(columns(&lines[3]), [0, 58, 78]);
    });
}

#[test]
fn searches_and_filters_find_functions() {
    walk("chains.data", plain, Tables::default(), |walk| {
        let page = walk.keys("fDEMO").page();
        assert!(page.contains("only functions with: DEMO▏") && page.contains("[demo]"), "{page}");
        assert_eq!(page.lines().filter(|line| line.contains('%')).count(), 2, "{page}");
        let page = walk.keys("zz").page();
        assert!(page.contains("nothing fits"), "{page}");
        walk.press(KeyCode::Esc, KeyModifiers::NONE);
        assert!(walk.page().contains("grind"));
        // The found function is the chosen one.
        let page = walk.keys("/libtext\n\n").page();
        assert!(page.contains("  20.00%  fb  libtext.so"), "{page}");
        let page = walk.keys("1n\n").page();
        assert!(page.contains("  10.00%  f9  libtext.so"), "{page}");
        let page = walk.keys("3/f5\n").page();
        assert!(page.contains("▸ f5  grind") || page.contains("  f5  grind"), "{page}");
    });
}

#[test]
fn names_of_strangers_are_text_and_wide_letters_take_two_columns() {
    fn hostile(id: u64) -> String {
        format!("漢字\u{1b}[2J\u{202e}{id:x}\n{}", "x".repeat(300))
    }
    walk("chains.data", hostile, Tables::default(), |walk| {
        for keys in ["1", "2", "3l", "4", "/\u{1b}[", "\n"] {
            for (width, height) in [(80, 24), (120, 40), (21, 9)] {
                let cells = walk.keys(keys).cells(width, height);
                for cell in cells.content() {
                    assert!(!cell.symbol().contains(['\u{1b}', '\u{202e}', '\n']), "{:?}", cell.symbol());
                }
            }
        }
        let lines = walk.keys("1").cells(80, 24);
        let row: String = (0..80).map(|x| lines[(x, 3)].symbol()).collect();
        // The cell behind a wide letter is its second half.
        assert!(row.contains("漢 字 \\u001b[2J\\u202e8\\nxxx"), "{row}");
    });
}

/// A profile with times, threads and cpus: what the pages of time and code are about.
fn timed(recording: &str) -> Profile {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/fixtures");
    let mut plan = Plan::new(&[Key::Comm, Key::Pid, Key::Cpu]);
    plan.times = true;
    Profile::read(PerfData::open(folder.join(recording)).unwrap(), plan).unwrap()
}

/// Keys, and what must hold after them.
type Step<'s> = (&'s str, &'s dyn Fn(&mut Walk<'_>));

/// Makes the subject anew as often as the state wishes it, as the loop on the terminal does.
fn walk_in_time(profile: &Profile, steps: &[Step<'_>]) {
    let frames = Frames::new(&Names::new(profile, &Named(plain)), false);
    let mut state = State::new("timed", Tables::default());
    for (keys, check) in steps {
        for key in keys.chars().map(Some).chain([None]) {
            let part = state.choice().of(profile);
            let subject = Subject::new(&part, &frames, 0, &Tables::default()).part_of(profile);
            let mut walk = Walk { subject, state: state.clone() };
            match key {
                Some('\n') => drop(walk.press(KeyCode::Enter, KeyModifiers::NONE)),
                Some('\u{8}') => drop(walk.press(KeyCode::Backspace, KeyModifiers::NONE)),
                Some(key) => drop(walk.press(KeyCode::Char(key), KeyModifiers::NONE)),
                None => check(&mut walk),
            }
            state = walk.state;
        }
    }
}

#[test]
fn a_part_of_the_time_or_one_thread_is_shown_alone_on_all_pages() {
    let profile = timed("chains.data");
    let whole = profile.event(0).samples;
    let samples = |walk: &mut Walk<'_>| walk.subject.samples();
    walk_in_time(
        &profile,
        &[
            ("6", &|walk| {
                let page = walk.page();
                assert!(page.contains("threads") && page.contains("100.00%    all"), "{page}");
                // Each thread has a line; the bars of all are as many as columns.
                let threads: Vec<&str> = page.lines().skip(4).filter(|line| line.contains('%')).collect();
                let names = ["grind 200", "grind-io 201", "sh 300"];
                assert_eq!(threads.len(), names.len(), "{page}");
                assert!(threads.iter().zip(names).all(|(line, name)| line.contains(name)), "{page}");
            }),
            // The second line is the first thread.
            ("j\n", &|walk| {
                assert!(samples(walk) < whole, "{}", walk.page());
                assert!(walk.page().contains("of thread") && walk.page().contains('•'), "{}", walk.page());
                assert!(walk.state.choice().lane.is_some());
            }),
            ("1", &|walk| assert!(!walk.page().contains("  sh  "), "{}", walk.page())),
            ("6\u{8}", &|walk| assert_eq!(samples(walk), whole)),
            // From the first step on, a few columns.
            ("vllllllllll\n", &|walk| {
                let span = walk.state.choice().span_ns.clone().expect("a span");
                let times = profile.sample_times().iter();
                let expected = times.filter(|sample| span.contains(&sample.time_ns)).count() as u64;
                assert_eq!(samples(walk), expected, "{}", walk.page());
                assert!(0 < expected && expected < whole, "{}", walk.page());
            }),
            ("i", &|walk| {
                assert!(walk.page().contains("cpus") && walk.page().contains("cpu "), "{}", walk.page())
            }),
            ("\u{8}", &|walk| assert_eq!(samples(walk), whole)),
        ],
    );
    // Parts that follow each other have all samples between them.
    let (first, last) = profile.span_ns().unwrap();
    let middle = first + (last - first) / 3;
    let [one, other] = [first..middle, middle..last + 1].map(|span| {
        let choice = Choice { span_ns: Some(span), ..Choice::default() };
        choice.of(&profile).event(0).samples
    });
    assert_eq!(one + other, whole);
}

#[test]
fn a_function_is_seen_from_near() {
    walk("chains.data", plain, Tables::default(), |walk| {
        let deed = walk.press(KeyCode::Char('a'), KeyModifiers::NONE);
        let Deed::Code(of) = deed else { panic!("{deed:?}") };
        assert_eq!((of.function.as_str(), of.event), ("f8", 0));
        walk.state.show_code(of.clone(), Err("no\u{1b}[2J file".to_owned()));
        let page = walk.page();
        assert!(page.contains("f8") && page.contains("no\\u001b[2J file"), "{page}");
        // The same function is not asked for again, another one is.
        walk.keys("1");
        assert_eq!(walk.press(KeyCode::Char('a'), KeyModifiers::NONE), Deed::Nothing);
        walk.keys("1j");
        assert!(
            matches!(walk.press(KeyCode::Char('a'), KeyModifiers::NONE), Deed::Code(other) if other != of)
        );
        let copied = walk.press(KeyCode::Char('y'), KeyModifiers::NONE);
        assert_eq!(copied, Deed::Copy("f8".to_owned()));
    });
}

#[test]
fn a_click_goes_to_a_thing_and_the_second_one_enters_it() {
    walk("chains.data", plain, Tables::default(), |walk| {
        walk.cells(80, 24);
        // The third row of the table, which is below two lines of head and the titles.
        assert_eq!(walk.mouse(30, 5), Deed::Nothing);
        assert_eq!(cursor(&walk.cells(80, 24)), "  40.00%   40.00%  grind              f5");
        walk.mouse(30, 5);
        assert_eq!(walk.state.page(), Page::Neighbours);
        walk.cells(80, 24);
        // The third page by its title.
        walk.mouse(28, 1);
        assert_eq!(walk.state.page(), Page::Tree);
        walk.cells(80, 24);
        walk.mouse(4, 3);
        assert!(walk.page().contains('▾'), "{}", walk.page());
        let wheel = MouseEventKind::ScrollDown;
        let event = MouseEvent { kind: wheel, column: 0, row: 9, modifiers: KeyModifiers::NONE };
        walk.state.mouse(&walk.subject, event);
        // Nothing is where nothing was drawn.
        assert_eq!(walk.mouse(79, 23), Deed::Nothing);
    });
}

#[test]
fn no_key_and_no_size_is_too_much() {
    let mut seed = 7u64;
    let mut next = |most: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % most
    };
    for recording in ["chains.data", "before.data", "kinds.data"] {
        walk(recording, plain, Tables::new(&[Key::Comm, Key::Dso, Key::Symbol]), |walk| {
            for _ in 0..3000 {
                let letters = [
                    'j', 'k', 'h', 'l', 'g', 'G', 'i', 'n', 'N', '/', 'f', '1', '2', '3', '4', '5', '6', '?',
                    'p', 'a', 'v', 'y', 's', '7', 'e', 'E', 'C', 't', 'd', 'r', 'Y', 'P', '[', ']', 'H', 'z',
                ];
                match next(45) {
                    at if at < letters.len() => {
                        let deed = walk.press(KeyCode::Char(letters[at]), KeyModifiers::NONE);
                        if let Deed::Code(of) = deed {
                            walk.state.show_code(of, Err("there are no files".to_owned()));
                        }
                    }
                    36 => drop(walk.press(KeyCode::Tab, KeyModifiers::NONE)),
                    37 => drop(walk.press(KeyCode::Enter, KeyModifiers::NONE)),
                    38 => drop(walk.press(KeyCode::Backspace, KeyModifiers::NONE)),
                    39 => drop(walk.press(KeyCode::PageDown, KeyModifiers::NONE)),
                    40 => drop(walk.press(KeyCode::PageUp, KeyModifiers::NONE)),
                    41 => drop(walk.press(KeyCode::Char('u'), KeyModifiers::CONTROL)),
                    42 => drop(walk.mouse(next(130) as u16, next(50) as u16)),
                    _ => drop(walk.cells(next(130) as u16, next(50) as u16)),
                }
            }
            assert_eq!(walk.press(KeyCode::Char('c'), KeyModifiers::CONTROL), Deed::Leave);
        });
    }
    // A profile without samples has all pages.
    let (profile, tables) = (Profile::default(), Tables::default());
    let frames = Frames::new(&Names::new(&profile, &()), false);
    let subject = Subject::new(&profile, &frames, 0, &tables);
    let mut walk = Walk { subject, state: State::new("nothing", tables) };
    for keys in ["1", "\n", "j", "i", "3", "j\nlh", "4", "jkl\n\u{8}", "/x\n"] {
        assert!(walk.keys(keys).page().contains("no samples"));
    }
}
