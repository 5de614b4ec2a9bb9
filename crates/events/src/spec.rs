//! The result of a parsed list: plain data about the events to open.

use crate::catalogue::{Probe, Scale};
use crate::format::Config;
use crate::modifiers::Effects;
use crate::names::{Software, Tool};
use crate::probe::ProbePlace;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use perfuse_abi::{Attr, AttrFlags, AuxAction, Breakpoint, EventType};

/// Events of one item of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventSet {
    /// The name of a group.
    pub name: Option<String>,
    /// They are to be counted together, the first one leading. Never set for a single event.
    pub grouped: bool,
    /// Rather apart than not at all (modifier W).
    pub weak: bool,
    /// The events; at least one.
    pub events: Vec<EventSpec>,
}

/// An event as a name and what goes into its attr.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventSpec {
    /// The name that perf prints: as it was written, with its modifiers (without, for tracepoints).
    pub name: String,
    /// The source of counts.
    pub source: Source,
    /// Levels that are left out.
    pub exclude: Exclude,
    /// How exactly samples must point at the instruction.
    pub precise: Precise,
    /// Must always be on the PMU (modifier D).
    pub pinned: bool,
    /// Must be alone on the PMU (modifier e).
    pub exclusive: bool,
    /// The group is read with each sample of its leader (modifier S).
    pub sample_read: bool,
    /// Not its number is asked for, but for how long its instructions waited to retire (modifier R).
    pub retire_latency: bool,
    /// Letters were written after it or its group.
    pub has_modifiers: bool,
    /// The requests of its own terms.
    pub options: EventOptions,
    /// The PMU it was looked for on, and what that PMU says about it.
    pub pmu: Option<Box<OnPmu>>,
    /// The place of a probe, and where that is.
    pub probe: Option<Box<(ProbePlace, Probe)>>,
}

/// Facts of an event of a PMU beyond its numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnPmu {
    /// The PMU.
    pub name: String,
    /// It is that of one of several kinds of cores.
    pub is_core: bool,
    /// On which cpus the event is to be opened, if not on all.
    pub cpus: Option<Vec<u32>>,
    /// The factor of counts.
    pub scale: Option<Scale>,
    /// Its value is a state, not a number of occurrences.
    pub snapshot: bool,
    /// Counted once for a whole package.
    pub per_package: bool,
    /// The name of the event that several PMUs of a kind count together, each its part, if it is one.
    pub common_name: Option<String>,
}

/// Requests of terms to the measuring tool, for one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventOptions {
    /// `period=`: a sample after so many events.
    pub period: Option<u64>,
    /// The period that the PMU's own description of the event proposes.
    pub proposed_period: Option<u64>,
    /// `freq=`: so many samples a second.
    pub frequency: Option<u64>,
    /// `time=`: samples tell the time.
    pub time: Option<bool>,
    /// `call-graph=`: how call chains are found.
    pub call_graph: Option<CallGraph>,
    /// `stack-size=`: bytes of the stack with each sample.
    pub stack_size: Option<u32>,
    /// `max-stack=`: so many entries in a call chain.
    pub max_stack: Option<u16>,
    /// `inherit` or `no-inherit`: with what the measured tasks start.
    pub inherit: Option<bool>,
    /// `overwrite` or `no-overwrite`: the newest records stay, not the oldest.
    pub overwrite: Option<bool>,
    /// `branch_type=`: these branches with each sample; `no`: none.
    pub branch_type: Option<String>,
    /// `percore`: the threads of a core are one.
    pub per_core: bool,
    /// `nr=`: a tracer shows no more than so many of them.
    pub most: Option<u64>,
    /// `aux-output`: into the AUX area.
    pub aux_output: bool,
    /// `aux-sample-size=`: bytes of the AUX area with each sample.
    pub aux_sample_size: Option<u32>,
    /// `aux-action=`: what it does to the trace of the AUX area.
    pub aux_action: Option<AuxAction>,
    /// `cpu=`: on these cpus only.
    pub cpus: Option<Vec<u32>>,
    /// `@name` or `@name=value`: for the driver.
    pub driver: Vec<String>,
}

/// How call chains are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallGraph {
    /// Not at all.
    No,
    /// By frame pointers.
    FramePointers,
    /// From copies of the stack.
    Dwarf,
    /// From the last branches.
    LastBranches,
}

/// The source of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The kernel, asked with these members of the attr.
    Kernel {
        /// `attr.type`.
        type_: EventType,
        /// `attr.config`.
        config: u64,
        /// `attr.config1` to `config4`.
        more: [u64; 4],
    },
    /// The kernel, watching memory.
    Breakpoint {
        /// `attr.bp_type`.
        access: Breakpoint,
        /// `attr.bp_addr`.
        addr: u64,
        /// `attr.bp_len`.
        len: u64,
    },
    /// The measuring tool itself.
    Tool(Tool),
}

/// `attr.exclude_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Exclude {
    /// `exclude_user`.
    pub user: bool,
    /// `exclude_kernel`.
    pub kernel: bool,
    /// `exclude_hv`.
    pub hv: bool,
    /// `exclude_idle`.
    pub idle: bool,
    /// `exclude_host`.
    pub host: bool,
    /// `exclude_guest`; set, as perf does, unless the event's own modifiers say otherwise.
    pub guest: bool,
}

/// `attr.precise_ip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precise {
    /// This level, 0 to 3.
    Level(u8),
    /// The highest the kernel takes: the opener has to try 3, 2, 1, 0.
    Most,
}

impl Default for Precise {
    fn default() -> Self {
        Precise::Level(0)
    }
}

/// The unit of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Occurrences.
    Count,
    /// Nanoseconds.
    Nanoseconds,
}

impl EventSpec {
    /// An event as it is without modifiers.
    pub fn new(name: impl Into<String>, source: Source) -> Self {
        Self::with_effects(name.into(), source, unmodified(), false)
    }

    pub(crate) fn with_effects(name: String, source: Source, effects: Effects, has_modifiers: bool) -> Self {
        let Effects { exclude, precise, sample_read, retire_latency, pinned, exclusive, .. } = effects;
        EventSpec {
            name,
            source,
            exclude,
            precise,
            pinned,
            exclusive,
            sample_read,
            retire_latency,
            has_modifiers,
            options: EventOptions::default(),
            pmu: None,
            probe: None,
        }
    }

    /// Whether it is the measuring tool's, and no kernel counts it.
    pub fn is_tools(&self) -> bool {
        matches!(self.source, Source::Tool(_))
    }

    /// `attr.type`; `None` for what the kernel does not count.
    pub fn event_type(&self) -> Option<EventType> {
        match self.source {
            Source::Kernel { type_, .. } => Some(type_),
            Source::Breakpoint { .. } => Some(EventType::BREAKPOINT),
            Source::Tool(_) => None,
        }
    }

    /// Whether it is the kernel's own event for cycles of the cpu.
    pub fn is_cycles(&self) -> bool {
        const CYCLES: u64 = 0;
        matches!(self.source, Source::Kernel { type_, config: CYCLES, .. } if type_ == EventType::HARDWARE)
    }

    /// The cpus it is to be opened on: those its terms ask for, of those its PMU says. `None`: all.
    pub fn cpus(&self) -> Option<Vec<u32>> {
        let pmus = self.pmu.as_ref().and_then(|pmu| pmu.cpus.clone());
        match (&self.options.cpus, pmus) {
            (None, pmus) => pmus,
            (Some(own), None) => Some(own.clone()),
            // A socket's PMU is opened on the cpu that stands for the socket.
            (Some(own), Some(pmus)) => Some(own.iter().copied().filter(|cpu| pmus.contains(cpu)).collect()),
        }
    }

    /// The factor of counts, if its PMU tells one.
    pub fn scale(&self) -> Option<&Scale> {
        self.pmu.as_ref().and_then(|pmu| pmu.scale.as_ref())
    }

    /// Puts this event into an attr: type, config, and the flags that modifiers concern, each set or
    /// cleared. [`Precise::Most`] leaves `precise_ip` alone. Returns `false`, having changed nothing,
    /// for an event the kernel does not count.
    pub fn apply(&self, attr: &mut Attr) -> bool {
        match self.source {
            Source::Kernel { type_, config, more } => {
                (attr.type_, attr.config) = (type_, config);
                [attr.config1, attr.config2, attr.config3, attr.config4] = more;
            }
            Source::Breakpoint { access, addr, len } => {
                (attr.type_, attr.config, attr.bp_type) = (EventType::BREAKPOINT, 0, access);
                [attr.config1, attr.config2, attr.config3, attr.config4] = [addr, len, 0, 0];
            }
            Source::Tool(_) => return false,
        }
        let Exclude { user, kernel, hv, idle, host, guest } = self.exclude;
        for (flag, on) in [
            (AttrFlags::EXCLUDE_USER, user),
            (AttrFlags::EXCLUDE_KERNEL, kernel),
            (AttrFlags::EXCLUDE_HV, hv),
            (AttrFlags::EXCLUDE_IDLE, idle),
            (AttrFlags::EXCLUDE_HOST, host),
            (AttrFlags::EXCLUDE_GUEST, guest),
            (AttrFlags::PINNED, self.pinned),
            (AttrFlags::EXCLUSIVE, self.exclusive),
        ] {
            attr.flags.set(flag, on);
        }
        if let Precise::Level(level) = self.precise {
            attr.flags = attr.flags.with_precise_ip(level);
        }
        true
    }

    /// The unit of its count.
    pub fn unit(&self) -> Unit {
        match self.source {
            Source::Tool(_) => Unit::Nanoseconds,
            Source::Kernel { type_: EventType::SOFTWARE, config, .. }
                if [Software::CPU_CLOCK, Software::TASK_CLOCK].contains(&Software(config)) =>
            {
                Unit::Nanoseconds
            }
            Source::Kernel { .. } | Source::Breakpoint { .. } => Unit::Count,
        }
    }
}

/// perf leaves guests out of what has no modifiers of its own.
pub(crate) fn unmodified() -> Effects {
    Effects { exclude: Exclude { guest: true, ..Exclude::default() }, ..Effects::default() }
}

impl Source {
    /// The kernel's event with these words.
    pub(crate) fn kernel(type_: EventType, config: Config) -> Self {
        let [config, more @ ..] = config.words;
        Source::Kernel { type_, config, more }
    }
}
