//! The loops around [`State`]: they draw on the terminal, and read keys.

use crate::code::CodeOf;
use crate::live::{Next, Windows};
use crate::state::{Deed, Span, State};
use crate::subject::{Subject, Tables};
use perfuse_annotate::Annotated;
use perfuse_profile::{Frames, Names, Profile, Symbols};
use perfuse_sys::clock::{CLOCK_PROCESS_CPUTIME_ID, read_ns};
use perfuse_sys::poll::poll;
use perfuse_sys::signal::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, Signals, send};
use perfuse_term::clipboard;
use perfuse_term::number::bytes;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{
    self, DisableMouseCapture, EnableMouseCapture, Event, KeyCode, KeyEvent, KeyModifiers,
};
use ratatui::crossterm::execute;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long a key is waited for before signals and windows are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How long the rest of what was typed is waited for.
const SOON: Duration = Duration::from_millis(10);

/// Tells a function of a profile from near, or why that cannot be.
pub type ShowCode<'s> = dyn FnMut(&CodeOf, &Profile) -> Result<Annotated, String> + 's;

/// News of a recording that is read while a part of it is shown.
#[derive(Debug)]
#[non_exhaustive]
pub enum Loading {
    /// The keys of rows and their order.
    Tables(Tables),
    /// So many percent of it have been read.
    Percent(u8),
    /// The samples that came first.
    Part(Arc<(Profile, Frames)>),
    /// The profile that it was when it was read before.
    Before(Arc<(Profile, Frames)>),
    /// All of it.
    All(Arc<(Profile, Frames)>),
    /// A function from near, which is shown.
    Code(CodeOf, Box<Result<Annotated, String>>),
}

/// Shows a recording on the terminal that standard output is, as far as it has been read, until the user leaves, or SIGINT, SIGTERM or
/// SIGHUP come: the terminal is then as it was. `load` reads it in another thread and sends the news; it gives up when nobody takes
/// them any more. Where it ends without [all of it](Loading::All) the screen ends too; its result is handed on. `code` is asked for functions
/// that are wanted from near, each time. `left` is called when the screen is over and `load` is not: a program need not wait for it.
///
/// # Errors
///
/// The terminal cannot be used.
pub fn browse<R: Send>(
    state: State,
    load: impl FnOnce(&Sender<Loading>) -> R + Send,
    code: &mut ShowCode<'_>,
    left: impl FnOnce(&io::Result<()>),
) -> io::Result<R> {
    // Blocked before the reader begins, so that it blocks them too.
    let signals = Signals::collect(&[SIGINT, SIGTERM, SIGHUP]).map_err(perfuse_sys::io_error)?;
    thread::scope(|scope| {
        let (sender, receiver) = channel();
        let reading = scope.spawn(move || load(&sender));
        let shown = look_around(&receiver, &signals, state, code);
        while receiver.try_recv().is_ok() {}
        if matches!(receiver.try_recv(), Err(TryRecvError::Empty)) {
            left(&shown);
        }
        let read = reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        shown.map(|()| read)
    })
}

fn look_around(
    loading: &Receiver<Loading>,
    signals: &Signals,
    mut state: State,
    code: &mut ShowCode<'_>,
) -> io::Result<()> {
    let none = Profile::default();
    let frames = Frames::new(&Names::new(&none, &()), false);
    let mut shown = Arc::new((none, frames));
    state.set_loading(Some(0));
    on_terminal(|terminal| {
        loop {
            let (profile, frames) = &*shown;
            let part = state.choice().of(profile);
            let subject =
                Subject::new(&part, frames, state.event_of(profile), state.tables()).part_of(profile);
            let mut next = None;
            let deed = keys(terminal, &mut state, (&subject, profile), code, &mut |state| {
                if signals.next().is_some() {
                    return Look::Over;
                }
                let mut look = Look::Same;
                loop {
                    match loading.try_recv() {
                        // Of several numbers the last one counts.
                        Ok(Loading::Percent(percent)) => {
                            state.set_loading(Some(percent));
                            look = Look::Anew;
                        }
                        Ok(other) => {
                            next = Some(other);
                            return Look::Over;
                        }
                        // Who reads has given up.
                        Err(TryRecvError::Disconnected) if state.loading.is_some() => return Look::Over,
                        Err(_) => return look,
                    }
                }
            })?;
            match (deed, next) {
                (Deed::Again, None) => {}
                (_, Some(Loading::Tables(tables))) => state.tables = tables,
                (_, Some(Loading::Part(part))) => shown = part,
                (_, Some(Loading::Before(before))) => {
                    shown = before;
                    state.is_of_before = true;
                }
                (_, Some(Loading::All(all))) => {
                    shown = all;
                    state.set_loading(None);
                }
                (_, Some(Loading::Code(of, code))) => state.show_code(of, *code),
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
pub fn follow(
    windows: &Windows,
    symbols: &dyn Symbols,
    mut state: State,
    code: &mut ShowCode<'_>,
) -> io::Result<()> {
    if !windows.begin() {
        return Ok(());
    }
    let mut profile = Profile::default();
    let mut cost = OwnCost::begin();
    on_terminal(|terminal| {
        loop {
            let (deed, next) = show(terminal, &mut state, &profile, symbols, windows, code)?;
            match (deed, next) {
                (Deed::Leave, _) | (_, Some(Next::Over)) => return Ok(()),
                (_, Some(Next::Window(window))) => {
                    let lost =
                        if window.lost > 0 { format!("{} lost  ", window.lost) } else { String::new() };
                    state.set_remark(&format!("{lost}perfuse {:.1} % of a cpu", cost.percent()));
                    if state.span() == Span::Fading {
                        profile.fade(7, 8);
                    }
                    // A sum that has grown too large begins anew.
                    if state.span() == Span::Window || profile.merge(&window.profile).is_err() {
                        profile = window.profile;
                    }
                }
                _ => {}
            }
        }
    })
}

/// The time on processors that this process takes itself, all of its threads together.
struct OwnCost {
    cpu_ns: u64,
    since: Instant,
}

impl OwnCost {
    fn begin() -> Self {
        OwnCost { cpu_ns: read_ns(CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0), since: Instant::now() }
    }

    /// Since the last call, in percent of one processor.
    fn percent(&mut self) -> f64 {
        let before = std::mem::replace(self, OwnCost::begin());
        let ns = self.cpu_ns.saturating_sub(before.cpu_ns) as f64;
        ns * 100.0 / (self.since - before.since).as_nanos().max(1) as f64
    }
}

/// Shows a window until the next one comes, or the last has been.
fn show(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    profile: &Profile,
    symbols: &dyn Symbols,
    windows: &Windows,
    code: &mut ShowCode<'_>,
) -> io::Result<(Deed, Option<Next>)> {
    let names = Names::new(profile, symbols);
    names.look_up_all();
    let frames = Frames::new(&names, state.tables().keys.iter().any(|key| key.is_of_address()));
    let part = state.choice().of(profile);
    let subject = Subject::new(&part, &frames, state.event_of(profile), state.tables()).part_of(profile);
    let mut next = None;
    let deed = keys(terminal, state, (&subject, profile), code, &mut |state| {
        next = match windows.next(Duration::ZERO) {
            Next::Over => Some(Next::Over),
            // Time goes on while the screen stands still.
            Next::Window(window) if !state.is_paused() => Some(Next::Window(window)),
            _ => None,
        };
        if next.is_some() { Look::Over } else { Look::Same }
    })?;
    Ok((deed, next))
}

/// Prepares the terminal, and leaves it as it was, whatever happens.
fn on_terminal<T>(show: impl FnOnce(&mut DefaultTerminal) -> io::Result<T>) -> io::Result<T> {
    // It would complain on standard error when it is dropped, which may be gone with it; `leave` does all that is left to do.
    let mut terminal = ManuallyDrop::new(enter()?);
    let shown = show(&mut terminal);
    let left = leave(&mut terminal);
    shown.and_then(|shown| left.map(|()| shown))
}

fn enter() -> io::Result<DefaultTerminal> {
    let terminal = ratatui::try_init()?;
    // A terminal without a mouse has its keys.
    let _ = execute!(io::stdout(), EnableMouseCapture);
    Ok(terminal)
}

fn leave(terminal: &mut DefaultTerminal) -> io::Result<()> {
    let _ = execute!(io::stdout(), DisableMouseCapture);
    let _ = terminal.show_cursor();
    ratatui::try_restore()
}

/// What is to be done after a look at signals and news.
#[derive(PartialEq, Eq)]
enum Look {
    /// Nothing.
    Same,
    /// The screen is to be drawn.
    Anew,
    /// What is shown is over.
    Over,
}

/// Takes keys until one is more than a change of the state, or a look at other things says that it is over.
fn keys(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    (subject, profile): (&Subject<'_>, &Profile),
    code: &mut ShowCode<'_>,
    look: &mut dyn FnMut(&mut State) -> Look,
) -> io::Result<Deed> {
    loop {
        terminal.draw(|frame| state.draw(subject, frame.area(), frame.buffer_mut()))?;
        loop {
            match look(state) {
                Look::Over => return Ok(Deed::Nothing),
                Look::Anew => {
                    terminal.draw(|frame| state.draw(subject, frame.area(), frame.buffer_mut()))?;
                }
                Look::Same => {}
            }
            if has_event()? {
                break;
            }
        }
        let deed = match event::read()? {
            Event::Key(key) if is_redraw(key) => {
                terminal.clear()?;
                Deed::Nothing
            }
            Event::Key(key) => state.key(subject, key),
            Event::Mouse(mouse) => state.mouse(subject, mouse),
            _ => Deed::Nothing,
        };
        match deed {
            Deed::Nothing => {}
            Deed::Code(of) => {
                // It may take a while.
                state.tell("reading the code");
                terminal.draw(|frame| state.draw(subject, frame.area(), frame.buffer_mut()))?;
                state.tell("");
                let shown = code(&of, profile);
                state.show_code(of, shown);
            }
            Deed::Copy(text) => {
                let mut out = io::stdout();
                out.write_all(clipboard(&text).as_bytes())?;
                out.flush()?;
            }
            Deed::Write { file, contents } => state.tell(&written(&file, &contents)),
            Deed::Suspend => {
                leave(terminal)?;
                // As the terminal does it by itself: all programs of the job stop, until the shell lets them go on.
                let _ = send(0, SIGTSTP);
                *terminal = enter()?;
            }
            deed => return Ok(deed),
        }
    }
}

/// Whether a key or something else came, for which it waits a little. A terminal that is gone is an error: reading from it would go on
/// for ever.
fn has_event() -> io::Result<bool> {
    for wait in [Duration::ZERO, LOOK] {
        let is_readable = is_typed(wait)?;
        // Several keys may have been read at once before.
        if event::poll(Duration::ZERO)? {
            return Ok(true);
        }
        if is_readable && is_typed(Duration::ZERO)? {
            return has_event_behind();
        }
    }
    Ok(false)
}

/// The same where there is something to read that brings no event. Of more than a kilobyte at once crossterm reads the beginning, and of
/// the rest it hears only with the next key; nobody types that fast, so it is dropped.
fn has_event_behind() -> io::Result<bool> {
    let is_there = event::poll(SOON)?;
    if !is_there && is_typed(Duration::ZERO)? {
        let _ = io::stdin().read(&mut [0; 4096])?;
    }
    Ok(is_there)
}

/// Whether there is something to read from the terminal, for which it waits so long.
fn is_typed(wait: Duration) -> io::Result<bool> {
    // A signal, such as that of another size, ends the wait.
    let ready = poll(&[io::stdin().as_fd()], Some(wait)).unwrap_or_default();
    match ready.iter().any(|state| state.hangup || state.error) {
        true => Err(io::Error::other("the terminal is gone")),
        false => Ok(ready.iter().any(|state| state.readable)),
    }
}

fn is_redraw(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('l') && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// Writes a new file, and tells how that went.
fn written(file: &str, contents: &[u8]) -> String {
    let made = OpenOptions::new().write(true).create_new(true).open(file);
    match made.and_then(|mut to| to.write_all(contents)) {
        Ok(()) => format!("wrote {} into {file}", bytes(contents.len() as f64)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            format!("nothing written: {file} is there already; P takes another name")
        }
        Err(error) => format!("{file} cannot be written: {error}"),
    }
}
