//! Events by the names people use: `"cycles:u".parse()`, `Group::from_spec("{cycles,instructions}")`.

use crate::builder::Builder;
use crate::error::Error;
use crate::event::{Event, ProbePlace};
use crate::group::{Group, Member};
use crate::own_pmus::OWN_PMUS;
use crate::target::Target;
use perfuse_abi::{Attr, AttrFlags, EventType};
use perfuse_events::{
    EventError, EventList, EventSpec, Machine, Precise, ProbePlace as Place, Source, Tracefs,
};
use std::ffi::CString;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Why a text names no event that can be opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SpecError {
    /// It has no meaning on this machine; the error knows the column, and what may have been meant.
    Language(EventError),
    /// It names several events, or several groups of them, where one is wanted.
    Several(usize),
    /// It names something that tools measure, not the kernel.
    NotTheKernels(String),
    /// The kernel refused it.
    Refused(Error),
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::Language(error) => f.write_str(&error.explain()),
            SpecError::Several(count) => write!(f, "one was wanted, these are {count}"),
            SpecError::NotTheKernels(name) => write!(f, "the kernel does not count {name}"),
            SpecError::Refused(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SpecError {}

impl From<EventError> for SpecError {
    fn from(error: EventError) -> Self {
        SpecError::Language(error)
    }
}

impl From<Error> for SpecError {
    fn from(error: Error) -> Self {
        SpecError::Refused(error)
    }
}

/// The running machine.
fn machine() -> Machine {
    Machine { beside: OWN_PMUS, tracefs: Tracefs::found_by(crate::tracefs::find), ..Machine::new() }
}

impl FromStr for Builder {
    type Err = SpecError;

    /// One event, looked up on the running machine, with what its modifiers and terms ask for.
    ///
    /// ```
    /// # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
    /// use perfuse::Builder;
    ///
    /// let mut faults = "page-faults:u".parse::<Builder>()?.open()?;
    /// faults.enable()?;
    /// assert!("page-fualts".parse::<Builder>().unwrap_err().to_string().contains("did you mean page-faults"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let sets = text.parse::<EventList>()?.resolve(&machine())?;
        let specs: Vec<_> = sets.iter().flat_map(|set| &set.events).collect();
        let [spec] = specs[..] else { return Err(SpecError::Several(specs.len())) };
        Builder::from_spec(spec).ok_or_else(|| SpecError::NotTheKernels(spec.name.clone()))
    }
}

impl Builder {
    /// A builder that asks for an event of the language, on the calling thread; `None` if the kernel does not
    /// count it. Levels that its modifiers choose are required; without modifiers they are merely preferred, as
    /// ever. Its [options](EventSpec::options) are for
    /// recording.
    pub fn from_spec(spec: &EventSpec) -> Option<Self> {
        let mut attr = Attr::default();
        if !spec.apply(&mut attr) {
            return None;
        }
        let mut builder = Builder::new(event(spec, attr));
        let levels = AttrFlags::EXCLUDE_USER | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        if attr.flags.intersects(levels) {
            // Chosen by the user; else the kernel is left out where that has to be.
            builder = builder.user_and_kernel().with(|wanted| wanted.flags |= attr.flags & levels);
        }
        let rest =
            AttrFlags::EXCLUDE_IDLE | AttrFlags::EXCLUDE_HOST | AttrFlags::PINNED | AttrFlags::EXCLUSIVE;
        builder = builder.with(|wanted| wanted.flags |= attr.flags & rest);
        // Without modifiers guests are left out as perf does, but not every PMU can.
        let guest = attr.flags & AttrFlags::EXCLUDE_GUEST;
        builder = match spec.has_modifiers {
            true => builder.with(|wanted| wanted.flags |= guest),
            false => builder.prefer(|wanted| wanted.flags |= guest),
        };
        if let Precise::Level(level @ 1..) = spec.precise {
            builder = builder.precise(level);
        }
        Some(builder)
    }
}

fn event(spec: &EventSpec, attr: Attr) -> Event {
    if let Some((place, probe)) = spec.probe.as_deref() {
        // A name with a zero byte is that of no file: the kernel says so of the empty one.
        let name = |name: &str| Arc::from(CString::new(name).unwrap_or_default());
        let type_ = EventType(probe.type_);
        return match place {
            Place::Kprobe { function, offset, on_return } => Event::Kprobe {
                type_,
                place: ProbePlace::Function { name: name(function), offset: *offset },
                on_return: *on_return,
            },
            Place::Uprobe { path, .. } | Place::Line { path, .. } | Place::Usdt { path, .. } => {
                Event::Uprobe {
                    type_,
                    path: name(path),
                    offset: probe.offset,
                    on_return: matches!(place, Place::Uprobe { on_return: true, .. }),
                    // A larger one is refused where probes are looked for.
                    ref_ctr_offset: u32::try_from(probe.semaphore).unwrap_or(0),
                }
            }
        };
    }
    match spec.source {
        Source::Kernel { type_: EventType::TRACEPOINT, config, .. } => {
            Event::Tracepoint { id: config, name: spec.name.as_str().into() }
        }
        _ => Event::from(attr),
    }
}

impl Group {
    /// The events of a list, counted together on the calling thread, with the names perf gives them. The
    /// list may be a group (`{cycles,instructions}:u`) or events separated by commas.
    ///
    /// ```
    /// # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
    /// use perfuse::Group;
    ///
    /// let (mut group, members) = Group::from_spec("{task-clock,page-faults}:u")?;
    /// group.enable()?;
    /// let counts = group.read()?;
    /// for (name, member) in &members {
    ///     println!("{name}: {}", counts[*member].value);
    /// }
    /// # Ok::<(), perfuse::SpecError>(())
    /// ```
    pub fn from_spec(text: &str) -> Result<(Self, Vec<(String, Member)>), SpecError> {
        Self::from_spec_on(text, Target::this_thread())
    }

    /// The same on another target.
    pub fn from_spec_on(
        text: &str,
        target: impl Into<Target>,
    ) -> Result<(Self, Vec<(String, Member)>), SpecError> {
        let sets = text.parse::<EventList>()?.resolve(&machine())?;
        if sets.len() > 1 && sets.iter().any(|set| set.grouped) {
            return Err(SpecError::Several(sets.len()));
        }
        let mut group = Group::on(target);
        let mut members = Vec::new();
        for spec in sets.iter().flat_map(|set| &set.events) {
            let builder = Builder::from_spec(spec);
            let builder = builder.ok_or_else(|| SpecError::NotTheKernels(spec.name.clone()))?;
            members.push((spec.name.clone(), group.add_built(builder)?));
        }
        Ok((group, members))
    }
}
