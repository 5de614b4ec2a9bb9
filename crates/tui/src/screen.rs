//! The loops around [`State`]: they draw on the terminal, and read keys.

use crate::code::CodeOf;
use crate::live::{Next, Windows};
use crate::state::{Deed, State};
use crate::subject::{Subject, Tables};
use perfuse_annotate::Annotated;
use perfuse_profile::{Frames, Names, Profile, Symbols};
use perfuse_sys::signal::{SIGHUP, SIGINT, SIGTERM, Signals};
use perfuse_term::clipboard;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event};
use ratatui::crossterm::execute;
use std::io::{self, Write};
use std::time::Duration;

/// How long a key is waited for before signals and windows are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Tells a function from near, or why that cannot be.
pub type ShowCode<'s> = dyn FnMut(&CodeOf) -> Result<Annotated, String> + 's;

/// Shows a profile on the terminal that standard output is, until the user leaves, or SIGINT, SIGTERM or SIGHUP
/// come: the terminal is then as it was. `code` is asked for functions that are wanted from near, each time.
///
/// # Errors
///
/// The terminal cannot be used.
pub fn browse(
    profile: &Profile,
    frames: &Frames,
    title: &str,
    tables: Tables,
    code: &mut ShowCode<'_>,
) -> io::Result<()> {
    let signals = Signals::collect(&[SIGINT, SIGTERM, SIGHUP]).map_err(perfuse_sys::io_error)?;
    let mut state = State::new(title, tables);
    on_terminal(|terminal| {
        loop {
            let part = state.choice().of(profile);
            let subject =
                Subject::new(&part, frames, state.event_of(profile), state.tables()).part_of(profile);
            match keys(terminal, &mut state, &subject, code, &mut |_| signals.next().is_some())? {
                Deed::Again => {}
                _ => return Ok(()),
            }
        }
    })
}

/// Shows the windows of a profile that goes on, each as it comes, until the user leaves or there are no more.
///
/// # Errors
///
/// The terminal cannot be used.
pub fn follow(windows: &Windows, symbols: &dyn Symbols, title: &str, tables: Tables) -> io::Result<()> {
    if !windows.begin() {
        return Ok(());
    }
    let mut state = State::new(title, tables);
    let mut profile = Profile::default();
    on_terminal(|terminal| {
        loop {
            let (deed, next) = show(terminal, &mut state, &profile, symbols, windows)?;
            match (deed, next) {
                (Deed::Leave, _) | (_, Some(Next::Over)) => return Ok(()),
                (_, Some(Next::Window(window))) => {
                    let lost = window.lost;
                    state.set_remark(&if lost > 0 { format!("{lost} lost") } else { String::new() });
                    profile = window.profile;
                }
                _ => {}
            }
        }
    })
}

/// Shows a window until the next one comes, or the last has been.
fn show(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    profile: &Profile,
    symbols: &dyn Symbols,
    windows: &Windows,
) -> io::Result<(Deed, Option<Next>)> {
    let names = Names::new(profile, symbols);
    names.look_up_all();
    let frames = Frames::new(&names, false);
    let subject = Subject::new(profile, &frames, state.event_of(profile), state.tables());
    let mut next = None;
    let mut no_code =
        |_: &CodeOf| Err("a live profile knows functions alone; record, and perfuse annotate".to_owned());
    let deed = keys(terminal, state, &subject, &mut no_code, &mut |state| {
        next = match windows.next(Duration::ZERO) {
            Next::Over => Some(Next::Over),
            // Time goes on while the screen stands still.
            Next::Window(window) if !state.is_paused() => Some(Next::Window(window)),
            _ => None,
        };
        next.is_some()
    })?;
    Ok((deed, next))
}

/// Prepares the terminal, and leaves it as it was, whatever happens.
fn on_terminal(show: impl FnOnce(&mut DefaultTerminal) -> io::Result<()>) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    // A terminal without a mouse has its keys.
    let _ = execute!(io::stdout(), EnableMouseCapture);
    let shown = show(&mut terminal);
    let _ = execute!(io::stdout(), DisableMouseCapture);
    ratatui::try_restore().and(shown)
}

/// Takes keys until one is more than a change of the state, or `is_over` says so.
fn keys(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    subject: &Subject<'_>,
    code: &mut ShowCode<'_>,
    is_over: &mut dyn FnMut(&State) -> bool,
) -> io::Result<Deed> {
    loop {
        terminal.draw(|frame| state.draw(subject, frame.area(), frame.buffer_mut()))?;
        loop {
            if is_over(state) {
                return Ok(Deed::Nothing);
            }
            if event::poll(LOOK)? {
                break;
            }
        }
        let deed = match event::read()? {
            Event::Key(key) => state.key(subject, key),
            Event::Mouse(mouse) => state.mouse(subject, mouse),
            _ => Deed::Nothing,
        };
        match deed {
            Deed::Nothing => {}
            Deed::Code(of) => {
                let shown = code(&of);
                state.show_code(of, shown);
            }
            Deed::Copy(text) => {
                let mut out = io::stdout();
                out.write_all(clipboard(&text).as_bytes())?;
                out.flush()?;
            }
            deed => return Ok(deed),
        }
    }
}
