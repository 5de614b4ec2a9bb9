//! Parts of recordings that nothing here makes use of yet: said in a line each, on standard error.

use crate::term::out::say;
use perfuse_data::Event;
use perfuse_data::replay::is_to_be_unwound;

/// Callers are not found in copies of the stack.
const UNWINDING: &str = "copies of the stack (--call-graph dwarf) are not unwound yet: a callchain ends where the \
                         program was; recorded with -g, programs with frame pointers tell their callers";

/// Lines of sources are not looked up.
pub(crate) const SOURCE_LINES: &str = "source lines are not looked up yet: srcline shows function and offset";

/// Inlined functions are not told apart.
pub(crate) const INLINED: &str =
    "inlined functions are not looked up yet: --inline shows no more than without";

/// Says so if callchains of any of the events would have to be unwound.
pub(crate) fn say_of_chains<'e>(events: impl IntoIterator<Item = &'e Event>) {
    if events.into_iter().any(|event| is_to_be_unwound(&event.attr)) {
        say(UNWINDING);
    }
}
