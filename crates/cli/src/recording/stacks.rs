//! Stacks that are unwound while a recording is read, and the remark about those that end too early.

use crate::term::out;
use perfuse_data::replay::Step;
use perfuse_profile::LocalSymbols;
use perfuse_unwind::{End, Unwinder};

/// The kernel copies no more bytes of a stack, but for some that are not there.
const MOST: usize = 65_000;
/// One stack of so many may end too early without a remark.
const FEW: u64 = 100;

/// Unwinds what the steps of a replay have copied of stacks.
pub(crate) struct Stacks {
    pub(crate) unwinder: Unwinder,
    chain: Vec<u64>,
}

impl Stacks {
    /// Of a recording of such a machine, at most so many frames.
    pub(crate) fn new(symbols: &LocalSymbols, machine: &str, most: usize) -> Self {
        let unwinder = Unwinder::new(symbols.symbolizer().clone(), machine).with_most(most);
        Stacks { unwinder, chain: Vec::new() }
    }

    /// Hands over the step, with its callchain unwound if that is to be.
    pub(crate) fn visit<T>(&mut self, step: &Step<'_>, visit: impl FnOnce(&Step<'_>) -> T) -> T {
        match self.unwinder.unwind(step, &mut self.chain) {
            Some(decoded) => visit(&step.with(&decoded)),
            None => visit(step),
        }
    }
}

/// How stacks that were unwound have ended, as facts to tell.
pub(crate) fn facts(ends: &[(End, u64)]) -> Option<(String, String)> {
    let count = |is_it: fn(End) -> bool| -> u64 {
        ends.iter().filter(|(end, _)| is_it(*end)).map(|(_, count)| count).sum()
    };
    let (cut, all) = (count(|end| end == End::Stack), count(|_| true));
    let told =
        format!("{cut} of {all} are deeper than what was copied of them, and lack their outermost callers");
    (all > 0).then(|| ("unwound stacks".to_owned(), told))
}

/// Says of how many stacks that were unwound the outermost callers lack, if these are many.
pub(crate) fn say(unwinder: &Unwinder) {
    let count = |wanted: Option<End>| -> u64 {
        let ends = unwinder.ends().filter(|(end, _)| wanted.is_none_or(|wanted| wanted == *end));
        ends.map(|(_, count)| count).sum()
    };
    let (cut, all) = (count(Some(End::Stack)), count(None));
    if cut > all / FEW {
        let has_all = unwinder.most_copied() >= MOST;
        let more = if has_all { "the kernel copies no more" } else { "--call-graph dwarf,65528 copies more" };
        out::say(format_args!(
            "{cut} of {all} stacks are deeper than what was copied of them, and lack their outermost callers; {more}"
        ));
    }
    let lost: u64 = [End::NoTable, End::Unknown, End::Loop].map(|end| count(Some(end))).iter().sum();
    if lost > all / FEW {
        out::say(format_args!(
            "{lost} of {all} stacks end in code without unwinding tables and frame pointers, and lack their outermost callers; \
             record --call-graph unwound reads code that a process made, and files before they are gone"
        ));
    }
}
