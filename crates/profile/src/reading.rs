//! From the steps of a replay to a profile: [`Reading`] knows for each sample which events it stands for, and adds it to
//! theirs.

use crate::collect::{Collector, Plan, Taken};
use crate::locate::ThreadTime;
use crate::lookup::Lookup;
use crate::profile::Profile;
use crate::running::Running;
use crate::source::LocalSymbols;
use crate::tracepoints::TracepointTexts;
use perfuse_abi::record::{Decoded, Sample, Weight};
use perfuse_data::replay::{Groups, Replay, Step};
use perfuse_data::session::{Level, Session};
use perfuse_data::{PerfData, describe};
use perfuse_unwind::Unwinder;
use std::cell::RefCell;

/// Which part of samples entries are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Samples.
    #[default]
    Samples,
    /// Branches that samples tell of.
    Branches,
    /// The cost of accesses to memory.
    Memory,
}

impl Profile {
    /// The profile of a recording: all of its samples. If callchains count, stacks of which samples have copies are unwound.
    ///
    /// ```no_run
    /// use perfuse_data::PerfData;
    /// use perfuse_profile::{Plan, Profile};
    ///
    /// let profile = Profile::read(PerfData::open("perf.data")?, Plan::new(&Plan::ALL_KEYS))?;
    /// profile.save(std::fs::File::create("profile")?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The recording is damaged or cannot be read.
    pub fn read(mut data: PerfData<'_>, plan: Plan) -> Result<Self, perfuse_data::Error> {
        plan.code.iter().for_each(|code| _ = LocalSymbols::new(code.clone()).take_sealed(&mut data));
        let unwinder = plan.chains.then(|| {
            let symbolizer = plan.code.clone().unwrap_or_default();
            Unwinder::new(symbolizer, &describe::machine(&mut data)).with_most(plan.max_stack)
        });
        let mut reading = Reading { unwinder, ..Reading::new(plan) };
        let mut replay = Replay::new(data).joined();
        replay.each(|step| step.map(|step| reading.step(&step)))?;
        Ok(reading.finish(&replay.into_parts().1))
    }
}

/// Takes the steps of a [`Replay`], for those who want to decide by each step or to take windows; [`Profile::read`] takes
/// all.
pub struct Reading {
    collector: Collector,
    mode: Mode,
    groups: Groups,
    texts: TracepointTexts,
    /// Names the kernel's functions in texts.
    lookup: Option<RefCell<Lookup>>,
    /// Events that have a name already.
    named: usize,
    /// Unwinds stacks of which samples have copies.
    unwinder: Option<Unwinder>,
    /// Counts threads that run, for [`Key::Parallelism`](crate::Key::Parallelism).
    running: Option<Running>,
    /// Room for a callchain that was unwound.
    chain: Vec<u64>,
}

impl Reading {
    /// By this plan.
    pub fn new(plan: Plan) -> Self {
        Reading {
            collector: Collector::new(plan),
            mode: Mode::default(),
            groups: Groups::default(),
            texts: TracepointTexts::default(),
            lookup: None,
            named: 0,
            unwinder: None,
            running: None,
            chain: Vec::new(),
        }
    }

    /// Of another part of samples.
    #[must_use]
    pub fn of(self, mode: Mode) -> Self {
        Reading { mode, ..self }
    }

    /// With keys that are texts of tracepoints; `lookup` names the kernel's addresses in them.
    #[must_use]
    pub fn with_texts(self, texts: TracepointTexts, lookup: Lookup) -> Self {
        let lookup = (!texts.is_empty()).then(|| RefCell::new(lookup));
        Reading { texts, lookup, ..self }
    }

    /// Stacks of which samples have copies are unwound first.
    #[must_use]
    pub fn unwinding(self, unwinder: Unwinder) -> Self {
        Reading { unwinder: Some(unwinder), ..self }
    }

    /// Threads that run are counted, for [`Key::Parallelism`](crate::Key::Parallelism) and latencies.
    #[must_use]
    pub fn counting(self, running: Running) -> Self {
        Reading { running: Some(running), ..self }
    }

    /// The unwinder, which tells how stacks ended.
    pub fn unwinder(&self) -> Option<&Unwinder> {
        self.unwinder.as_ref()
    }

    /// Takes a step: adds its sample, if it is one.
    #[inline]
    pub fn step(&mut self, step: &Step<'_>) {
        let Some(unwinder) = &mut self.unwinder else { return self.plain(step) };
        let mut chain = std::mem::take(&mut self.chain);
        match unwinder.unwind(step, &mut chain) {
            Some(decoded) => self.plain(&step.with(&decoded)),
            None => self.plain(step),
        }
        self.chain = chain;
    }

    #[inline]
    fn plain(&mut self, step: &Step<'_>) {
        if let (Some(running), Some(decoded)) = (&mut self.running, step.decoded) {
            running.heed(decoded);
            self.collector.set_parallelism(running.count());
        }
        match (step.decoded, step.sample()) {
            (Some(decoded), Some(sample)) => self.add(step, decoded, sample),
            (Some(_), None) => self.collector.session_changed(),
            (None, _) => {}
        }
    }

    /// Adds a sample of a step.
    #[inline]
    fn add(
        &mut self,
        &Step { entry, session, formats, .. }: &Step<'_>,
        decoded: &Decoded<'_>,
        sample: &Sample<'_>,
    ) {
        let Reading { collector, mode, groups, texts, lookup, named, .. } = self;
        let level = Level::of(decoded.misc);
        if *named < entry.events().len() {
            for (index, event) in entry.events().iter().enumerate().skip(*named) {
                collector.name_event(index, &event.display_name());
            }
            *named = entry.events().len();
        }
        groups.deliver(entry, sample, |index, event, period| {
            if let Some(lookup) = lookup {
                let at = ThreadTime::of(&event.attr, sample);
                let symbol = |address| lookup.borrow_mut().kernel_symbol(session, at, address);
                texts.give(collector, event, sample, formats, &symbol);
            }
            let taken = Taken::new((index, &event.attr), session, sample, level, period);
            match mode {
                Mode::Branches => collector.add_branches(&taken),
                Mode::Memory => {
                    let cost = sample.weight.map_or(0, Weight::first).max(1);
                    collector.add(&Taken { weight: cost, ..taken });
                }
                Mode::Samples => collector.add(&taken),
            }
        });
    }

    /// The profile of all samples until now; the reading goes on with none ([`Collector::take`]).
    pub fn take(&mut self, session: &Session) -> Profile {
        self.collector.take(session)
    }

    /// The profile of all samples.
    pub fn finish(mut self, session: &Session) -> Profile {
        self.take(session)
    }
}
