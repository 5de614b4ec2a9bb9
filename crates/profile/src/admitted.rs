//! The samples of a replay that a filter means: by their moments, by others before them, and by an expression, which may ask for
//! names.

use crate::locate::ThreadTime;
use crate::lookup::Lookup;
use crate::source::LocalSymbols;
use perfuse_abi::record::Sample;
use perfuse_data::replay::{Filter, Selection, Step, Switched};
use perfuse_data::session::Level;
use perfuse_trace::ExprError;
use std::cell::RefCell;

/// Says of samples, in their order, whether they are wanted. Of what a filter says of tasks, it says nothing: a profile's
/// [`Plan`](crate::Plan) has that too.
pub struct Admitted {
    filter: Filter,
    switched: Switched,
    selection: Option<Selection>,
    lookup: Option<RefCell<Lookup>>,
}

impl Admitted {
    /// By this filter, with names from these symbols.
    pub fn new(filter: Filter, symbols: &LocalSymbols) -> Self {
        let selection = filter.expr.clone().map(|expr| Selection::new(expr, true));
        let names_places = selection.as_ref().is_some_and(Selection::names_places);
        let lookup = names_places.then(|| RefCell::new(Lookup::new(symbols.clone(), true)));
        let switched = Switched::new(filter.switches.clone());
        Admitted { filter, switched, selection, lookup }
    }

    /// The filter.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether a sample of a step is wanted.
    ///
    /// # Errors
    ///
    /// The expression makes no sense for the events of the recording.
    #[inline]
    pub fn admits(&mut self, step: &Step<'_>, sample: &Sample<'_>) -> Result<bool, ExprError> {
        if !(self.filter.admits_time(sample.time)
            && self.switched.admits(step.entry, step.formats)
            && self.filter.admits_cpu(sample.cpu.map(|cpu| cpu.cpu)))
        {
            return Ok(false);
        }
        if self.selection.is_none() { Ok(true) } else { self.is_selected(step, sample) }
    }

    fn is_selected(&mut self, step: &Step<'_>, sample: &Sample<'_>) -> Result<bool, ExprError> {
        let (Some(selection), Some(event)) = (&mut self.selection, step.entry.event()) else {
            return Ok(false);
        };
        let lookup = &self.lookup;
        let places = |is_function: bool| {
            let mut lookup = lookup.as_ref()?.borrow_mut();
            let level = Level::of(step.decoded?.misc);
            let at = ThreadTime::of(&event.attr, sample);
            let placed = lookup.locate_function(step.session, at, level, sample.ip?);
            match is_function {
                true => placed.symbol.map(|symbol| symbol.to_string()),
                false => Some(lookup.short_object(placed.object).to_owned()),
            }
        };
        selection.admits(step.entry, sample, (step.session, step.formats), &places)
    }
}
