//! The list of events: type to search, look at an event, watch it happen, copy its name.
//!
//! The screen follows from [`State`] alone; the loop around it reads keys and the clock. Names and descriptions are those of
//! others (tracepoints of modules, tables of events), and are shown as [`foreign`] text.

use perfuse::Perf;
use perfuse::catalogue::{Entry, Kind, Listing, Rate, Wanted, Works, fields};
use perfuse_events::Machine;
use perfuse_term::clipboard;
use perfuse_term::foreign::{foreign, left};
use perfuse_term::number::per;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, List, ListItem, ListState, Paragraph, Wrap};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// How long an event must stay selected before it is counted, and how often it is read.
const SETTLE: Duration = Duration::from_millis(250);
const READ: Duration = Duration::from_millis(500);

/// Shows a list of events until the user has seen enough. Who stays at an event sees how often it happens on that kernel, on all cpus.
///
/// # Errors
///
/// Those of the terminal.
pub fn browse_events(kernel: &Perf, machine: &Machine, all: Listing) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let outcome = browse(&mut terminal, (kernel, machine), State::new(all));
    ratatui::try_restore()?;
    outcome
}

fn browse(
    terminal: &mut ratatui::DefaultTerminal,
    (kernel, machine): (&Perf, &Machine),
    mut state: State,
) -> io::Result<()> {
    let mut since = Instant::now();
    let mut read_at = Instant::now();
    loop {
        terminal.draw(|frame| state.draw(frame))?;
        let waits = if state.live.is_none() { SETTLE } else { READ };
        if event::poll(waits)? {
            let before = state.selected().map(|entry| entry.name.clone());
            if let Event::Key(key) = event::read()? {
                match state.key(key) {
                    Deed::Nothing => {}
                    Deed::Copy(name) => {
                        let mut out = io::stdout();
                        out.write_all(clipboard(&name).as_bytes())?;
                        out.flush()?;
                    }
                    Deed::Leave => return Ok(()),
                }
            }
            if state.selected().map(|entry| &entry.name) != before.as_ref() {
                state.live = None;
                since = Instant::now();
            }
        }
        match (&mut state.live, state.selected.and_then(|at| state.found.get(at))) {
            (None, Some(&at)) if since.elapsed() >= SETTLE => {
                state.live = Some(Rate::start(kernel, &state.all.entries[at].name, machine));
                read_at = Instant::now();
            }
            (Some(Ok(live)), _) if read_at.elapsed() >= READ => {
                live.tick();
                read_at = Instant::now();
            }
            _ => {}
        }
    }
}

/// A deed that a key asks for beyond a change of the state.
#[derive(Debug, PartialEq, Eq)]
enum Deed {
    Nothing,
    Copy(String),
    Leave,
}

/// All that the screen is drawn from.
#[derive(Debug)]
struct State {
    all: Listing,
    query: String,
    /// Indices of the entries that fit the query.
    found: Vec<usize>,
    /// Of those found.
    selected: Option<usize>,
    copied: Option<String>,
    live: Option<Result<Rate, String>>,
    /// Rows of the list, as last drawn.
    page: usize,
}

impl State {
    fn new(all: Listing) -> Self {
        let mut state = State {
            all,
            query: String::new(),
            found: Vec::new(),
            selected: None,
            copied: None,
            live: None,
            page: 10,
        };
        state.search();
        state
    }

    fn selected(&self) -> Option<&Entry> {
        Some(&self.all.entries[*self.found.get(self.selected?)?])
    }

    fn search(&mut self) {
        let words: Vec<String> = self.query.split_whitespace().map(Into::into).collect();
        let wanted = Wanted::new(&words);
        let entries = self.all.entries.iter().enumerate();
        self.found = entries.filter(|(_, entry)| wanted.takes(entry)).map(|(index, _)| index).collect();
        self.selected = (!self.found.is_empty()).then_some(0);
    }

    fn step(&mut self, by: isize) {
        if let Some(at) = self.selected {
            self.selected = Some(at.saturating_add_signed(by).min(self.found.len() - 1));
        }
    }

    fn key(&mut self, key: KeyEvent) -> Deed {
        if key.kind == KeyEventKind::Release {
            return Deed::Nothing;
        }
        let page = self.page.max(1) as isize;
        match (key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'd'), true) => return Deed::Leave,
            (KeyCode::Enter, _) | (KeyCode::Char('y'), true) => {
                self.copied = self.selected().map(|entry| entry.name.clone());
                return self.copied.clone().map_or(Deed::Nothing, Deed::Copy);
            }
            (KeyCode::Down, _) | (KeyCode::Char('n'), true) => self.step(1),
            (KeyCode::Up, _) | (KeyCode::Char('p'), true) => self.step(-1),
            (KeyCode::PageDown, _) => self.step(page),
            (KeyCode::PageUp, _) => self.step(-page),
            (KeyCode::Home, _) => self.step(isize::MIN / 2),
            (KeyCode::End, _) => self.step(isize::MAX / 2),
            (KeyCode::Backspace, _) => {
                self.query.pop();
                self.search();
            }
            (KeyCode::Char('u'), true) => {
                self.query.clear();
                self.search();
            }
            (KeyCode::Char(c), false) => {
                self.query.push(c);
                self.search();
            }
            _ => {}
        }
        self.copied = None;
        Deed::Nothing
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let rows = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(3),
            Constraint::Length(9),
            Constraint::Length(1),
        ]);
        let [top, middle, details, bottom] = rows.areas(frame.area());
        let dim = Style::new().add_modifier(Modifier::DIM);
        let prompt = Line::from(vec![
            Span::styled(" search: ", dim),
            Span::raw(foreign(&self.query).into_owned()),
            Span::styled("▏", Style::new().add_modifier(Modifier::SLOW_BLINK)),
            Span::styled(format!("  {} of {}", self.found.len(), self.all.entries.len()), dim),
        ]);
        frame.render_widget(prompt, top);
        self.page = usize::from(middle.height);
        // Only what can be seen is laid out: there are thousands.
        let first = self.selected.map_or(0, |at| at.saturating_sub(self.page / 2));
        let first = first.min(self.found.len().saturating_sub(self.page));
        let shown = self.found.iter().skip(first).take(self.page);
        let items: Vec<ListItem<'_>> = shown.map(|&at| ListItem::new(item(&self.all.entries[at]))).collect();
        let mut list_state = ListState::default().with_selected(self.selected.map(|at| at - first));
        let list = List::new(items).highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(list, middle, &mut list_state);
        let block = Block::new().borders(Borders::TOP);
        let text = Paragraph::new(self.about()).block(block).wrap(Wrap { trim: false });
        frame.render_widget(text, details);
        let help = match &self.copied {
            Some(name) => format!(" copied: {}", foreign(name)),
            None => " type to search · ↑↓ choose · Enter copies the name · Esc ends".to_owned(),
        };
        frame.render_widget(Span::styled(help, dim), bottom);
    }

    /// The lines about the selected event.
    fn about(&self) -> Vec<Line<'static>> {
        let Some(entry) = self.selected() else {
            return vec![Line::raw(" nothing fits")];
        };
        let mut lines = Vec::new();
        let mut add = |key: &str, text: String| {
            if !text.is_empty() {
                let key = Span::styled(format!(" {key:<9}"), Style::new().add_modifier(Modifier::DIM));
                lines.push(Line::from(vec![key, Span::raw(foreign(&text).into_owned())]));
            }
        };
        let names: Vec<_> = std::iter::once(entry.name.clone()).chain(entry.aliases.clone()).collect();
        add("event", names.join(", "));
        add("counts", entry.description.clone());
        add("here", entry.works.words().to_owned());
        add(
            "now",
            match (&self.live, entry.unit.is_empty()) {
                (None, _) => String::new(),
                (Some(Ok(live)), _) => match live.per_second {
                    None => "counting ...".to_owned(),
                    Some(rate) => format!("{} on all cpus", per(rate, "/s")),
                },
                (Some(Err(why)), _) => why.clone(),
            },
        );
        add("terms", entry.terms.clone());
        add("encoding", entry.encoding_text().unwrap_or_default());
        if entry.kind == Kind::Tracepoint {
            let fields: Vec<_> = fields(&entry.name).into_iter().map(|(name, _)| name).collect();
            add("fields", fields.join(", "));
        }
        lines
    }
}

fn item(entry: &Entry) -> Line<'static> {
    let (sign, colour) = match entry.works {
        Works::Yes => ("✓", Color::Green),
        Works::UserOnly => ("▲", Color::Yellow),
        Works::No(_) => ("✗", Color::Red),
        Works::Unknown => (" ", Color::Reset),
    };
    let dim = Style::new().add_modifier(Modifier::DIM);
    Line::from(vec![
        Span::styled(format!(" {sign} "), Style::new().fg(colour)),
        Span::raw(left(&foreign(&entry.name), 40) + " "),
        Span::styled(foreign(&entry.description).into_owned(), dim),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn state() -> State {
        let machine = Machine { tracefs: perfuse_events::Tracefs::at("/nowhere"), ..Machine::default() };
        State::new(perfuse_stat::metrics::catalogue_of_names(&machine, &|kind| {
            matches!(kind, Kind::Software | Kind::Tool)
        }))
    }

    fn typed(state: &mut State, text: &str) {
        for c in text.chars() {
            assert_eq!(state.key(KeyEvent::from(KeyCode::Char(c))), Deed::Nothing);
        }
    }

    fn screen(state: &mut State) -> String {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| state.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn typing_searches_and_enter_copies() {
        let mut state = state();
        let all = state.found.len();
        typed(&mut state, "fault minor");
        assert_eq!(state.found.len(), 1);
        let shown = screen(&mut state);
        assert!(shown.contains("search: fault minor") && shown.contains(&format!("1 of {all}")), "{shown}");
        assert!(shown.contains("minor-faults") && shown.contains("needed no I/O"), "{shown}");
        assert_eq!(state.key(KeyEvent::from(KeyCode::Enter)), Deed::Copy("minor-faults".into()));
        assert!(screen(&mut state).contains("copied: minor-faults"));
        state.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
        assert_eq!(state.found.len(), all);
        assert_eq!(state.key(KeyEvent::from(KeyCode::Esc)), Deed::Leave);
    }

    #[test]
    fn what_terminals_obey_is_shown_as_text() {
        let mut state = state();
        let entry = &mut state.all.entries[0];
        let hostile = |text: &str| format!("{text}\u{1b}[2Jx\u{202e}y\u{9b}z\n");
        (entry.name, entry.description) = (hostile("name"), hostile("counts"));
        (entry.aliases, entry.terms) = (vec![hostile("other")], hostile("terms"));
        state.query = hostile("");
        state.copied = Some(hostile("copied"));
        let shown = screen(&mut state);
        for text in ["name", "counts", "other", "terms", "copied", "search: "] {
            assert!(shown.contains(&format!("{text}\\u001b[2Jx\\u202ey\\u009bz\\n")), "{text}: {shown}");
        }
        assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{9b}']), "{shown}");
    }

    #[test]
    fn the_choice_stays_in_the_list() {
        let mut state = state();
        state.key(KeyEvent::from(KeyCode::Up));
        assert_eq!(state.selected, Some(0));
        state.key(KeyEvent::from(KeyCode::End));
        assert_eq!(state.selected, Some(state.found.len() - 1));
        state.key(KeyEvent::from(KeyCode::PageDown));
        assert_eq!(state.selected().map(|entry| entry.name.as_str()), Some("system_time"));
        typed(&mut state, "no such event");
        assert!(state.selected().is_none() && screen(&mut state).contains("nothing fits"));
        assert_eq!(state.key(KeyEvent::from(KeyCode::Enter)), Deed::Nothing);
        state.key(KeyEvent::from(KeyCode::Down));
    }
}
