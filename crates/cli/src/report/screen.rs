//! The report that is walked through on the terminal: when it is shown, and how it is read while somebody looks at it already.

use super::options::Plan;
use super::{Args, Read, Watch, read_kept, read_watched, view_plan};
use crate::annotate;
use crate::common::style;
use crate::exit::{self, Failure, Result};
use crate::recording;
use crate::term::out;
use perfuse_profile::{Frames, KeptProfile, Mode, Profile};
use perfuse_tui::{CodeOf, Loading, RowOrder, State, Tables};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Samples that are read in this time are shown before all others have been read.
const FIRST: Duration = Duration::from_millis(100);

/// Whether the report is shown on the terminal: where it was asked for, or nothing else was and there is one.
///
/// # Errors
///
/// It was asked for, and there is no terminal.
pub(super) fn is_wanted(args: &Args) -> Result<bool> {
    style::can_have_screen(args.tui, "the report")?;
    Ok(is_on(args))
}

pub(super) fn is_on(args: &Args) -> bool {
    args.tui || (style::has_screen(&args.text, args.paging) && !is_of_text(args))
}

/// Whether something was asked for that only text, a page or an object has.
fn is_of_text(args: &Args) -> bool {
    args.json
        || args.html.is_some()
        || args.stats
        || args.tasks
        || args.mmaps
        || args.dump_raw_trace
        || args.header.is_any()
        || args.quiet
        || args.hierarchy
        || args.group
        || args.fields.is_some()
        || args.call_graph.is_some()
        || args.field_separator.is_some()
        || !args.column_widths.is_empty()
        || args.show_nr_samples
        || args.show_total_period
        || args.show_cpu_utilization
        || args.percent_limit > 0.0
        || args.branch_stack
        || args.mem_mode
        || args.latency
}

/// Shows the recording on the terminal, for somebody who walks through it.
pub(super) fn look_around(args: &Args) -> Result {
    // A file that cannot be opened at all is refused without a screen.
    if args.input.path().is_file() && args.input.begun()?.is_none() {
        args.input.open()?;
    }
    let mut near = annotate::FromNear::of(&args.input, &args.filter, &args.symbol_files, args.no_demangle);
    let mut code = |of: &CodeOf, _: &Profile| near.show(of).map_err(|why| why.to_string());
    let state = State::new(&args.input.name(), Tables::default()).with_looks(style::screen_looks());
    let held = out::hold();
    let read = perfuse_tui::browse(state, |sender| load(args, sender), &mut code, exit::left);
    drop(held);
    read??;
    Ok(ExitCode::SUCCESS)
}

/// Reads the recording, and shows what there is of it until all is: a little of it, which is all of a small one, then what it
/// became the last time.
fn load(args: &Args, sender: &Sender<Loading>) -> Result<()> {
    let until = Some(Instant::now() + FIRST);
    let size = args.input.path().metadata().map_or(0, |found| found.len());
    let mut first = Telling { args, sender, until, is_cut: false, is_left: false, size, percent: 0 };
    // A pipe is read once.
    if args.input.path().is_file() {
        let (read, plan) = read_watched(args, &mut first)?;
        if !first.is_cut {
            return loaded(args, sender, read, &plan).map(drop);
        }
        if sender.send(Loading::Part(Arc::new((read.profile, read.frames)))).is_err() {
            return Ok(());
        }
    }
    let place = place(args);
    let before = place.as_ref().map(|place| read_kept(args, place)).transpose()?.flatten();
    let is_kept = before.is_some();
    if before.is_some_and(|before| sender.send(Loading::Before(Arc::new(before))).is_err()) {
        return Ok(());
    }
    let mut whole = Telling { until: None, ..first };
    let (read, plan) = read_watched(args, &mut whole)?;
    let all = loaded(args, sender, read, &plan)?;
    if let Some(place) = place.filter(|_| !is_kept && !whole.is_left) {
        if let Err(why) = place.write(&all.0) {
            log::debug!("the profile is not kept: {why}");
        }
    }
    Ok(())
}

/// Where the profile of the recording is kept, if it is a large one.
fn place(args: &Args) -> Option<KeptProfile> {
    let how = format!("{} {args:?}", env!("CARGO_PKG_VERSION"));
    KeptProfile::of(&recording::cache()?, args.input.path(), &how)
}

/// Hands all of the recording on, or fails where nothing of it is left to show.
fn loaded(args: &Args, sender: &Sender<Loading>, read: Read, plan: &Plan) -> Result<Arc<(Profile, Frames)>> {
    if let Some(none) = read.none_left(args, plan) {
        return Err(Failure::new(format_args!("{}: {none}", args.input.name())));
    }
    let all = Arc::new((read.profile, read.frames));
    // Nobody takes it who has left.
    let _ = sender.send(Loading::All(all.clone()));
    Ok(all)
}

/// Reads until a moment, or all, and tells how far it is.
struct Telling<'a> {
    args: &'a Args,
    sender: &'a Sender<Loading>,
    until: Option<Instant>,
    is_cut: bool,
    /// Whether nobody hears it any more.
    is_left: bool,
    size: u64,
    percent: u8,
}

impl Watch for Telling<'_> {
    fn begins(&mut self, plan: &Plan) {
        let _ = self.sender.send(Loading::Tables(tables(self.args, plan)));
    }

    #[inline]
    fn at(&mut self, offset: u64) -> ControlFlow<()> {
        if let Some(until) = self.until {
            self.is_cut = Instant::now() >= until;
            return if self.is_cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        if u128::from(offset) * 100 < u128::from(self.size) * u128::from(self.percent + 1) {
            return ControlFlow::Continue(());
        }
        self.percent = (u128::from(offset) * 100 / u128::from(self.size.max(1))).min(99) as u8;
        self.is_left = self.sender.send(Loading::Percent(self.percent)).is_err();
        if self.is_left { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The rows of the table of functions.
fn tables(args: &Args, plan: &Plan) -> Tables {
    let mut tables = match &args.sort {
        Some(_) => Tables::new(&plan.keys),
        None if plan.mode == Mode::Samples => Tables::default(),
        None => Tables::new(&plan.keys),
    };
    if !plan.children {
        tables.order = RowOrder::Own;
    }
    tables.filter = view_plan(args, plan).filter;
    tables
}
