//! The mouse: a click goes to a thing, the wheel moves.

use crate::page::{Page, Spot};
use crate::state::{Deed, State};
use crate::subject::Subject;
use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

/// Lines that a step of the wheel moves.
const WHEEL: isize = 3;

impl State {
    /// Takes what the mouse does: a click goes to a thing, one at the thing that has the cursor does what Enter does; the wheel moves.
    pub fn mouse(&mut self, subject: &Subject<'_>, mouse: MouseEvent) -> Deed {
        let at = Position::new(mouse.column, mouse.row);
        // The thing drawn last is on top.
        let spot = self.spots.iter().rev().find(|(area, _)| area.contains(at)).map(|&(_, spot)| spot);
        if let Some(line) = &mut self.help {
            match mouse.kind {
                MouseEventKind::ScrollDown => *line += WHEEL as usize,
                MouseEventKind::ScrollUp => *line = line.saturating_sub(WHEEL as usize),
                MouseEventKind::Down(_) => self.help = None,
                _ => {}
            }
            return Deed::Nothing;
        }
        match (mouse.kind, spot) {
            (MouseEventKind::ScrollDown, _) => self.step(subject, WHEEL),
            (MouseEventKind::ScrollUp, _) => self.step(subject, -WHEEL),
            (MouseEventKind::Down(MouseButton::Left), Some(spot)) => return self.click(subject, spot),
            (MouseEventKind::Drag(MouseButton::Left), Some(Spot::Step { column, .. })) => {
                self.mark.get_or_insert(self.column);
                self.column = column;
            }
            _ => {}
        }
        Deed::Nothing
    }

    fn click(&mut self, subject: &Subject<'_>, spot: Spot) -> Deed {
        match spot {
            Spot::Page(page) => return self.open_page(subject, page),
            Spot::Title(order) => return self.sort_by(order),
            Spot::Line(line) => match self.page {
                Page::Functions => {
                    let is_there = self.function.is_some() && self.line == line;
                    self.choose_row(subject, line);
                    if is_there {
                        self.enter(subject);
                    }
                }
                Page::Tree => {
                    let is_there = self.tree_line == line;
                    self.tree_line = line;
                    if is_there {
                        self.enter(subject);
                    }
                }
                Page::Events => {
                    let is_there = self.event_line == line;
                    self.event_line = line;
                    if is_there {
                        return self.choose_event(subject);
                    }
                }
                _ => self.code.iter_mut().for_each(|code| code.line = line),
            },
            Spot::Neighbour { is_callee, place } => {
                let is_there = (self.in_callees, self.neighbour) == (is_callee, place);
                (self.in_callees, self.neighbour) = (is_callee, place);
                if is_there {
                    self.enter(subject);
                }
            }
            Spot::Node(id) => {
                let is_there = self.flame == Some(id);
                self.flame = Some(id);
                if is_there {
                    self.enter(subject);
                }
            }
            Spot::Step { lane, column } => (self.lane, self.column, self.mark) = (lane, column, None),
        }
        Deed::Nothing
    }
}
