//! The samples that are shown: those of a span of time, a thread or cpu, an object, an event; and the order of rows.

use crate::page::Page;
use crate::state::{Deed, State};
use crate::subject::{RowOrder, Subject};
use crate::time::Lane;

impl State {
    /// Shows only the marked time, or the thread or cpu of the cursor; the second time again all of them.
    pub(crate) fn choose(&mut self, subject: &Subject<'_>) -> Deed {
        let Some(timeline) = self.timeline(subject) else { return Deed::Nothing };
        if let Some(steps) = self.marked() {
            self.choice.span_ns = Some(timeline.time_of(steps));
            self.mark = None;
        } else {
            // The first line is that of all.
            let lane = self.lane.checked_sub(1).and_then(|lane| timeline.lanes.get(lane)).map(|one| one.lane);
            self.choice.lane = lane.filter(|_| self.choice.lane != lane);
        }
        Deed::Again
    }

    /// Takes the last choice back.
    pub(crate) fn choose_more(&mut self) -> Deed {
        if self.mark.take().is_some() {
            return Deed::Nothing;
        }
        if self.choice.lane.take().is_none() {
            self.choice.span_ns = None;
        }
        Deed::Again
    }

    /// Shows only the thread in which the function of the cursor took most; the second time again all of them.
    pub(crate) fn choose_thread(&mut self, subject: &Subject<'_>) -> Deed {
        if self.choice.lane.take().is_none() {
            let thread = self.frame(subject).and_then(|frame| subject.thread_of(frame));
            let Some(thread) = thread else {
                self.tell("the samples of this function tell of no thread");
                return Deed::Nothing;
            };
            self.choice.lane = Some(Lane::Thread(thread));
        }
        Deed::Again
    }

    /// Shows only samples in the object of the function of the cursor; the second time again those of before.
    pub(crate) fn choose_object(&mut self, subject: &Subject<'_>) -> Deed {
        match self.objects.take() {
            Some(before) => self.tables.filter.objects = before,
            None => {
                let Some(frame) = self.frame(subject) else { return Deed::Nothing };
                let object = vec![subject.object_of(frame).to_owned()];
                self.objects = Some(std::mem::replace(&mut self.tables.filter.objects, object));
            }
        }
        Deed::Again
    }

    /// Shows the event of the cursor.
    pub(crate) fn choose_event(&mut self, subject: &Subject<'_>) -> Deed {
        self.events = self.event_line.min(subject.events().len().saturating_sub(1));
        self.page = Page::Functions;
        Deed::Again
    }

    /// Shows the event so many places after the one that is shown.
    pub(crate) fn turn_event(&mut self, subject: &Subject<'_>, by: isize) -> Deed {
        let count = subject.events().len().max(1);
        self.events = (self.events % count).wrapping_add_signed(by).wrapping_add(count) % count;
        self.event_line = self.events;
        Deed::Again
    }

    /// Sorts rows by a column; by the same one again the other way round.
    pub(crate) fn sort_by(&mut self, order: RowOrder) -> Deed {
        self.tables.is_reversed = self.tables.order == order && !self.tables.is_reversed;
        self.tables.order = order;
        Deed::Again
    }

    /// Sorts rows by the column behind the one that they are sorted by.
    pub(crate) fn sort_by_next(&mut self, subject: &Subject<'_>) -> Deed {
        let first = if subject.has_chains() { RowOrder::Total } else { RowOrder::Own };
        self.tables.is_reversed = false;
        let is_there = |key: usize| key < self.tables.keys.len();
        self.tables.order = match self.tables.order {
            RowOrder::Total if subject.has_chains() => RowOrder::Own,
            RowOrder::Total | RowOrder::Own if is_there(0) => RowOrder::Key(0),
            RowOrder::Key(key) if is_there(key + 1) => RowOrder::Key(key + 1),
            _ => first,
        };
        Deed::Again
    }
}
