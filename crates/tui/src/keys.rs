//! The keys: those of vim and of perf's browser, and arrows.

use crate::code::Code;
use crate::page::Page;
use crate::state::{Deed, Span, State, Typing};
use crate::subject::Subject;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A text that is typed has no more letters.
const LONGEST: usize = 256;

/// The keys and what they do, for people. No line is wider than a terminal of 80 columns.
pub(crate) const HELP: &str = "\
1 to 7, Tab    functions, callers, call tree, flame graph, code, time, events
j k, arrows    move; Ctrl-D Ctrl-U, PgDn PgUp by a screen; g G to an end
Enter          functions: its callers and callees; there: go to that one
               tree: open or close; flame graph: zoom; code: next hottest
               time: only what is marked, or this thread; events: this one
l h, arrows    tree: open, close; callers: the other list; flame, time: move
Backspace      back: the function before, one step of the zoom, no filter
a              source lines and instructions of the function
e  E  C        unfold the function in the tree; unfold all; fold all
i              callers or callees; from where samples were; cpus or threads
s  r           sort by the next column, the other way round; code: lines
t              only the thread where the function takes most; again: all
               code: percent, samples, or occurrences of the event
d              only the object of the function; again: all
v              time: mark from here; Backspace takes choices back
[  ]           the event before, the next one
/  n  N        search; next; the one before
f              show only functions with this text; Esc while typing: all
y  Y           copy the name of the function; the table that is shown
P  w           write what is shown to a file: .txt .csv .svg .folded
H              code: to the hottest line
p, space       a live profile stands still, or goes on
z              a live profile: older windows fade, add up, or are left out
Ctrl-L         draw the screen anew
Ctrl-Z         back to the shell; fg goes on
?  h  F1       this help
q, Esc         leave";

impl State {
    /// Takes a key.
    pub fn key(&mut self, subject: &Subject<'_>, key: KeyEvent) -> Deed {
        if key.kind == KeyEventKind::Release {
            return Deed::Nothing;
        }
        self.note.clear();
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Deed::Leave,
            KeyCode::Char('z') if control => return Deed::Suspend,
            _ => {}
        }
        if let Some(typing) = self.typing {
            return self.type_key(subject, typing, key.code, control);
        }
        let page = self.height.max(2) as isize - 1;
        if let Some(line) = self.help {
            let line = line as isize;
            self.help = match (key.code, control) {
                (KeyCode::Down | KeyCode::Char('j'), _) => Some(line + 1),
                (KeyCode::Up | KeyCode::Char('k'), _) => Some(line - 1),
                (KeyCode::PageDown, _) | (KeyCode::Char('d' | 'f'), true) => Some(line + page),
                (KeyCode::PageUp, _) | (KeyCode::Char('u' | 'b'), true) => Some(line - page),
                _ => None,
            }
            .map(|line| line.max(0) as usize);
            return Deed::Nothing;
        }
        match (key.code, control) {
            (KeyCode::Char('q') | KeyCode::Esc, false) => return Deed::Leave,
            (KeyCode::Char('?') | KeyCode::F(1), _) => self.help = Some(0),
            // To the left where there is something, else perf's key for help.
            (KeyCode::Char('h'), false)
                if matches!(self.page, Page::Functions | Page::Code | Page::Events) =>
            {
                self.help = Some(0);
            }
            (KeyCode::Char('p' | ' '), false) => self.is_paused = !self.is_paused,
            (KeyCode::Char('z'), false) => {
                self.span = match self.span {
                    Span::Window => Span::Fading,
                    Span::Fading => Span::Sum,
                    Span::Sum => Span::Window,
                }
            }
            (KeyCode::Char('/'), _) => (self.typing, self.search) = (Some(Typing::Search), String::new()),
            (KeyCode::Char('f'), false) => (self.typing, self.page) = (Some(Typing::Filter), Page::Functions),
            (KeyCode::Char('P' | 'w'), false) => {
                (self.typing, self.file) = (Some(Typing::File), "perfuse.txt".to_owned());
            }
            (KeyCode::Char('n'), false) => self.find(subject, true, false),
            (KeyCode::Char('N'), false) => self.find(subject, false, false),
            (KeyCode::Tab, _) => return self.turn(subject, 1),
            (KeyCode::BackTab, _) => return self.turn(subject, Page::ALL.len() - 1),
            (KeyCode::Char(digit @ '1'..='7'), _) => {
                return self.open_page(subject, Page::ALL[digit as usize - '1' as usize]);
            }
            (KeyCode::Char('a'), false) => return self.open_code(subject),
            (KeyCode::Char('y'), false) => return self.copy(subject),
            (KeyCode::Char('Y'), false) => return self.copy_table(subject),
            (KeyCode::Char('v'), false) if self.page == Page::Time => {
                self.mark = if self.mark.is_some() { None } else { Some(self.column) };
            }
            (KeyCode::Enter, _) if self.page == Page::Time => return self.choose(subject),
            (KeyCode::Enter, _) if self.page == Page::Events => return self.choose_event(subject),
            (KeyCode::Backspace, _) if self.page == Page::Time => return self.choose_more(),
            (KeyCode::Char('s'), false) if self.page == Page::Code => {
                self.code.iter_mut().for_each(Code::toggle);
            }
            (KeyCode::Char('t'), false) if self.page == Page::Code => {
                self.code.iter_mut().for_each(Code::next_value);
            }
            (KeyCode::Char('H'), false) => self.code.iter_mut().for_each(Code::go_to_hottest),
            (KeyCode::Char('s'), false) => return self.sort_by_next(subject),
            (KeyCode::Char('r'), false) => return self.sort_by(self.tables.order),
            (KeyCode::Char('t'), false) => return self.choose_thread(subject),
            (KeyCode::Char('d'), false) => return self.choose_object(subject),
            (KeyCode::Char('['), _) => return self.turn_event(subject, -1),
            (KeyCode::Char(']'), _) => return self.turn_event(subject, 1),
            (KeyCode::Char('e' | '+'), false) => match self.page {
                Page::Tree => self.toggle(subject),
                Page::Functions | Page::Neighbours | Page::Flame => self.unfold(subject),
                Page::Code | Page::Time | Page::Events => {}
            },
            (KeyCode::Char('E'), false) => {
                self.page = Page::Tree;
                self.open_all(subject, true);
            }
            (KeyCode::Char('C'), false) => self.open_all(subject, false),
            (KeyCode::Char('i'), false) => self.invert(),
            (KeyCode::Down | KeyCode::Char('j'), _) => self.step(subject, 1),
            (KeyCode::Up | KeyCode::Char('k'), _) => self.step(subject, -1),
            (KeyCode::PageDown, _) | (KeyCode::Char('d' | 'f'), true) => self.step(subject, page),
            (KeyCode::PageUp, _) | (KeyCode::Char('u' | 'b'), true) => self.step(subject, -page),
            (KeyCode::Home | KeyCode::Char('g'), _) => self.step(subject, isize::MIN / 2),
            (KeyCode::End | KeyCode::Char('G'), _) => self.step(subject, isize::MAX / 2),
            (KeyCode::Enter, _) => self.enter(subject),
            (KeyCode::Right | KeyCode::Char('l'), false) => self.deeper(subject),
            (KeyCode::Left | KeyCode::Char('h'), false) => self.back(subject),
            (KeyCode::Backspace, _) => self.back_out(subject),
            _ => {}
        }
        Deed::Nothing
    }

    fn type_key(&mut self, subject: &Subject<'_>, typing: Typing, code: KeyCode, control: bool) -> Deed {
        let text = match typing {
            Typing::Search => &mut self.search,
            Typing::Filter => &mut self.filter,
            Typing::File => &mut self.file,
        };
        match (code, control) {
            (KeyCode::Esc, _) => {
                text.clear();
                self.typing = None;
            }
            (KeyCode::Enter, _) => self.typing = None,
            (KeyCode::Backspace, _) => {
                text.pop();
            }
            (KeyCode::Char('u'), true) => text.clear(),
            (KeyCode::Char(c), false) if text.chars().count() < LONGEST => text.push(c),
            _ => {}
        }
        match typing {
            Typing::Search if code != KeyCode::Esc => self.find(subject, true, true),
            Typing::Search => {}
            Typing::Filter => self.choose_row(subject, 0),
            Typing::File if code == KeyCode::Enter && !self.file.is_empty() => return self.write(subject),
            Typing::File => {}
        }
        Deed::Nothing
    }
}
