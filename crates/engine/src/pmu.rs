//! PMUs: the trait that drivers implement, what they see of an event, and the registry.

use crate::aux::{AuxOutput, DriverRecord};
use crate::bpf::ProgramKind;
use crate::cpu::{Listeners, Timers};
use crate::effect::Effect;
use crate::event::EventKey;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use perfuse_abi::{Attr, AttrFlags, AuxAction, Errno, EventType};

/// Capabilities of a PMU (rule N6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmuCaps {
    /// It cannot interrupt, so cannot sample.
    pub no_interrupt: bool,
    /// Its interrupts are no NMIs: all clocks can be used (rule B24).
    pub no_nmi: bool,
    /// Samples can have the registers from bit 32 on.
    pub extended_regs: bool,
    /// Only one event at a time (rules B20, B33).
    pub exclusive: bool,
    /// It writes an instruction trace.
    pub itrace: bool,
    /// It counts in all modes: events with `exclude_*` are refused.
    pub no_exclude: bool,
    /// It writes to an AUX area: has [`setup_aux`](Pmu::setup_aux).
    pub aux: bool,
    /// Its output can go to another PMU's AUX area.
    pub aux_output: bool,
    /// Types HARDWARE and HW_CACHE with its number in the upper half of config mean it.
    pub extended_hw_type: bool,
    /// Its AUX trace can be paused.
    pub aux_pause: bool,
}

/// The kind of context that a PMU's events live in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskContext {
    /// They never run out of counters.
    Software,
    /// They compete for counters.
    Hardware,
    /// There are none of tasks: an uncore PMU (rule B17).
    None,
}

/// The files of a PMU under `/sys/bus/event_source/devices/NAME` (rule M1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// `format/*`: names of terms and their places, such as `("event", "config:0-7")`.
    pub format: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    /// `events/*`: names of events and their terms, also `NAME.unit` and `NAME.scale`.
    pub events: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    /// `caps/*`.
    pub caps: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    /// `cpumask`: the cpus it is to be opened on.
    pub cpumask: Option<Vec<u32>>,
    /// `nr_addr_filters`.
    pub address_filters: u32,
}

/// The description of a PMU, told once when it is registered.
#[derive(Clone, Debug)]
pub struct PmuInfo {
    /// The directory in sysfs; empty for one that has none.
    pub name: Cow<'static, str>,
    /// The type it must have; `None` for the next free one.
    pub type_: Option<EventType>,
    /// Its capabilities.
    pub caps: PmuCaps,
    /// Its kind of contexts.
    pub context: TaskContext,
    /// Its files in sysfs.
    pub description: Description,
}

impl PmuInfo {
    /// A PMU with counters.
    pub fn hardware(name: impl Into<Cow<'static, str>>) -> Self {
        PmuInfo {
            name: name.into(),
            type_: None,
            caps: PmuCaps::default(),
            context: TaskContext::Hardware,
            description: Description::default(),
        }
    }
}

/// The driver's part of an event (the kernel's `hw_perf_event`).
#[derive(Clone, Debug)]
pub struct Hw {
    /// The event.
    pub event: EventKey,
    /// Its attr. `sample_period` is what was asked for; see the field of that name here.
    pub attr: Attr,
    /// Its config as the driver wants it.
    pub config: u64,
    /// The count.
    pub count: u64,
    /// The value of the counter when it was read last.
    pub prev: u64,
    /// The number of the counter, for the control page (rule F32).
    pub index: Option<u32>,
    /// Occurrences between overflows, now.
    pub sample_period: u64,
    /// The period that was being counted down when the event overflowed.
    pub last_period: u64,
    /// The rest of the period.
    pub period_left: i64,
    /// A period was set while it was on a cpu, which it has not left since: its next occurrence overflows (rule C49).
    pub due: bool,
    /// Not counting although it is on a cpu: throttled, or stopped by a driver.
    pub stopped: bool,
    /// The trace is paused.
    pub aux_paused: bool,
    /// Overflows in this tick; [`THROTTLED`] while it is.
    pub interrupts: u64,
    pub(crate) tick: u64,
    pub(crate) freq_stamp: u64,
    pub(crate) freq_count: u64,
    /// Its number among the listeners of an occurrence.
    pub(crate) listener: u64,
    /// It makes sense only as a member of its leader's group, and fails without it (rule C40).
    pub needs_leader: bool,
    /// For the driver's use.
    pub data: [u64; 2],
}

/// [`Hw::interrupts`] of a throttled event.
pub const THROTTLED: u64 = u64::MAX;

impl Hw {
    pub(crate) fn new(event: EventKey, attr: &Attr) -> Self {
        // Rules I7 and I15.
        let freq = attr.flags.contains(AttrFlags::FREQ) && attr.sample_period != 0;
        let period = if freq { 1 } else { attr.sample_period };
        Hw {
            event,
            attr: *attr,
            config: attr.config,
            count: 0,
            prev: 0,
            index: None,
            sample_period: period,
            last_period: period,
            period_left: period as i64,
            due: false,
            stopped: true,
            aux_paused: attr.aux_action.contains(AuxAction::START_PAUSED),
            interrupts: 0,
            tick: 0,
            freq_stamp: 0,
            freq_count: 0,
            listener: 0,
            needs_leader: false,
            data: [0; 2],
        }
    }

    /// Makes of a frequency the period that it comes to, for a PMU whose events count nanoseconds.
    pub fn take_frequency_as_period(&mut self) {
        if self.attr.flags.contains(AttrFlags::FREQ) && self.attr.sample_period != 0 {
            self.attr.sample_period = (1_000_000_000 / self.attr.sample_period).max(1);
            self.attr.flags.remove(AttrFlags::FREQ);
            (self.sample_period, self.last_period) = (self.attr.sample_period, self.attr.sample_period);
        }
    }

    /// Whether it samples.
    pub fn is_sampling(&self) -> bool {
        self.attr.sample_period != 0
    }

    /// The rest of the period before the next overflow, of a counter whose count is all in
    /// `period_left`; a new period begins where it is used up (rule N2).
    pub fn start_period(&mut self) -> u64 {
        let period = self.sample_period.min(i64::MAX as u64) as i64;
        if self.period_left <= -period {
            self.period_left = period;
            self.last_period = self.sample_period;
        } else if self.period_left <= 0 {
            self.period_left += period;
            self.last_period = self.sample_period;
        }
        self.period_left.max(1) as u64
    }

    /// The event comes to a cpu and counts occurrences down to its period; a period that is over by then is no sample
    /// (rule I7).
    pub(crate) fn begin_periods(&mut self) {
        if self.is_sampling() && !self.due {
            self.last_period = self.sample_period;
            self.next_period();
        }
    }

    /// Starts the next period, with all that came too late counted (rule I4); the answer is how many periods were
    /// over.
    pub(crate) fn next_period(&mut self) -> u64 {
        self.due = false;
        let period = self.last_period;
        self.last_period = self.sample_period;
        if self.period_left < 0 || period == 0 {
            return 0;
        }
        let left = self.period_left as u64;
        let over = (period + left) / period;
        // A period may take 63 bits.
        self.period_left = left.wrapping_sub(over.wrapping_mul(period)) as i64;
        over
    }
}

/// The services of the engine to a driver while it is called.
#[derive(Debug)]
pub struct Cx<'a> {
    /// The cpu.
    pub cpu: u32,
    /// The time, on the clock of records.
    pub now: u64,
    /// The clock of the event's context: stands still while the task does not run.
    pub context_now: u64,
    pub(crate) timers: &'a mut Timers,
    pub(crate) listeners: &'a mut Listeners,
    pub(crate) effects: &'a mut Vec<Effect>,
    pub(crate) driver_records: &'a mut Vec<DriverRecord>,
    pub(crate) aux: Option<AuxOutput<'a>>,
}

impl Cx<'_> {
    /// Calls the event's [`Pmu::timer`] at this time; replaces what was asked for before.
    pub fn set_timer(&mut self, event: EventKey, at: u64) {
        self.timers.set(event, at);
    }

    /// Takes the timer back; when it would have come.
    pub fn cancel_timer(&mut self, event: EventKey) -> Option<u64> {
        self.timers.cancel(event)
    }

    /// From now on the event hears of occurrences of this PMU type and config on this cpu.
    pub(crate) fn listen(&mut self, type_: EventType, config: u64, hw: &mut Hw) {
        hw.listener = self.listeners.add(type_, config, hw.event);
    }

    pub(crate) fn stop_listening(&mut self, type_: EventType, config: u64, hw: &Hw) {
        self.listeners.remove(type_, config, hw.listener);
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }
}

/// The target of an event that is opened, and the rights of its caller.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// For a task.
    pub task: bool,
    /// The cpu, or -1.
    pub cpu: i32,
    /// The caller may look at the kernel in every way (`CAP_PERFMON`).
    pub perfmon: bool,
    /// The caller has `CAP_SYS_ADMIN`.
    pub admin: bool,
    /// Whether the caller may have the data that tracepoints record.
    pub raw: Result<(), Errno>,
    /// A copy for a child task: permissions were checked for the original.
    pub inherited: bool,
}

/// Which transaction begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// The events of a group are added.
    Add,
    /// The events of a group are read.
    Read,
}

/// An event that a PMU saw overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// The event.
    pub event: EventKey,
    /// The address of the data, if the hardware tells.
    pub addr: u64,
    /// The instruction pointer is exact.
    pub exact_ip: bool,
}

/// A source of events. The methods have the names and contracts of `struct pmu` (rules N1 to N6).
///
/// Only [`info`](Self::info), [`event_init`](Self::event_init), [`add`](Self::add), [`del`](Self::del)
/// and [`read`](Self::read) must be written; a PMU that samples has [`interrupt`](Self::interrupt) or
/// [`timer`](Self::timer) too.
pub trait Pmu: fmt::Debug + Send {
    /// Its description.
    fn info(&self) -> PmuInfo;

    /// It is registered, with this type.
    fn registered(&mut self, type_: EventType) {
        let _ = type_;
    }

    /// Takes an event or refuses it: `ENOENT` not mine, `ENODEV` mine but absent, `EBUSY` in use,
    /// `EINVAL` wrong, `EOPNOTSUPP` cannot do that, `EACCES` not for you. `group` holds those members of
    /// its group that this PMU has already, the leader first; none for one that never runs out of counters
    /// ([`TaskContext::Software`]).
    fn event_init(&mut self, hw: &mut Hw, target: &Target, group: &[&Hw]) -> Result<(), Errno>;

    /// The event is gone.
    fn event_destroy(&mut self, hw: &mut Hw) {
        let _ = hw;
    }

    /// Puts the event on a cpu, counting at once unless `start` is false. An error where there is no
    /// room.
    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, start: bool) -> Result<(), Errno>;

    /// Takes it away, its count up to date.
    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw);

    /// Goes on counting. `reload`: with a new period.
    fn start(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, reload: bool) {
        let _ = (cx, reload);
        hw.stopped = false;
    }

    /// Stops counting; the event keeps its place.
    fn stop(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        self.read(cx, hw);
        hw.stopped = true;
    }

    /// Brings the count up to date.
    fn read(&mut self, cx: &mut Cx<'_>, hw: &mut Hw);

    /// The following adds or reads belong together.
    fn start_txn(&mut self, cpu: u32, transaction: Transaction) {
        let _ = (cpu, transaction);
    }

    /// The adds or reads are complete. An error takes them all back.
    fn commit_txn(&mut self, cpu: u32) -> Result<(), Errno> {
        let _ = cpu;
        Ok(())
    }

    /// Takes the adds or reads back.
    fn cancel_txn(&mut self, cpu: u32) {
        let _ = cpu;
    }

    /// Everything of this PMU pauses on a cpu while its events change.
    fn disable(&mut self, cpu: u32) {
        let _ = cpu;
    }

    /// Everything of it goes on.
    fn enable(&mut self, cpu: u32) {
        let _ = cpu;
    }

    /// Tasks changed on a cpu.
    fn sched_task(&mut self, cpu: u32, comes: bool) {
        let _ = (cpu, comes);
    }

    /// The cpu's interrupt came: which events overflowed. [`overflowed`](Self::overflowed) is called for
    /// each.
    fn interrupt(&mut self, cpu: u32, now: u64, over: &mut Vec<Overflow>) {
        let _ = (cpu, now, over);
    }

    /// An event that [`interrupt`](Self::interrupt) named: brings its count up to date and starts its
    /// next period (rule N2). Whether its period is over: a counter of few bits comes round before.
    fn overflowed(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) -> bool {
        self.read(cx, hw);
        true
    }

    /// A timer of [`Cx::set_timer`] is due; whether the event overflowed.
    fn timer(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) -> bool {
        let _ = (cx, hw);
        false
    }

    /// Whether samples at this moment are left out: of a timer that counts on through kernel and user,
    /// say (rule I21).
    fn skips(&self, hw: &Hw, user: bool, idle: bool) -> bool {
        let _ = (hw, user, idle);
        false
    }

    /// Bits of the counter, if users may read it themselves (rule F34).
    fn user_width(&self, hw: &Hw) -> Option<u16> {
        let _ = hw;
        None
    }

    /// The number of the counter, for the control page, while the event counts (rule F32). The
    /// value of the counter is then to be [`Hw::count`] once [`Hw::prev`] is taken away and this added.
    fn event_idx(&self, hw: &Hw) -> Option<u32> {
        hw.index
    }

    /// Whether a period can be had (rule C49).
    fn check_period(&self, hw: &Hw, period: u64) -> Result<(), Errno> {
        let _ = (hw, period);
        Ok(())
    }

    /// Moves a breakpoint (rule C51); other PMUs refuse.
    fn modify(&mut self, hw: &mut Hw, attr: &Attr, target: &Target) -> Result<(), Errno> {
        let _ = (hw, attr, target);
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets a filter: of a tracepoint's fields, or of addresses (rules C52, J34, J40).
    fn set_filter(&mut self, hw: &mut Hw, text: &str) -> Result<(), Errno> {
        let _ = (hw, text);
        Err(Errno::EINVAL)
    }

    /// Whether the record of a hit passes the filter of an event (rule J34). Copies are asked about as
    /// their original.
    fn passes(&self, event: EventKey, record: &[u8]) -> bool {
        let _ = (event, record);
        true
    }

    /// Which BPF programs its events take: those for overflows, but for tracing events (rule K1).
    fn programs(&self) -> ProgramKind {
        ProgramKind::PerfEvent
    }

    /// Makes an AUX area of so many pages: the driver's own handle (rule F9).
    fn setup_aux(&mut self, hw: &Hw, pages: usize, overwrite: bool) -> Result<u64, Errno> {
        let _ = (hw, pages, overwrite);
        Err(Errno::EOPNOTSUPP)
    }

    /// An overflow in the group pauses the trace, or lets it go on (rule F45). [`Hw::aux_paused`] is set
    /// already, and is at the start as `aux_start_paused` says.
    fn aux_pause(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, pause: bool) {
        let _ = (cx, hw, pause);
    }

    /// Where the trace is now, as [`AuxRoom::head`](crate::AuxRoom::head) counts: samples can have the
    /// bytes before it (rule H31).
    fn aux_head(&self, hw: &Hw) -> Option<u64> {
        let _ = hw;
        None
    }

    /// The AUX area is gone.
    fn free_aux(&mut self, handle: u64) {
        let _ = handle;
    }

    /// The methods that only the PMU of tracepoints has.
    #[doc(hidden)]
    fn tracepoints(&mut self) -> Option<&mut dyn crate::pmus::tracepoint::Tracepoints> {
        None
    }
}

/// Names a registered PMU, and no other one afterwards. Its order is that of registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PmuId {
    /// One more than that of the PMU registered before.
    serial: u32,
    /// Its place in the registry, which is given away again.
    slot: u32,
}

impl PmuId {
    /// Of no PMU: an event that is being opened has none yet.
    pub(crate) const NONE: PmuId = PmuId { serial: 0, slot: 0 };
}

/// A registered PMU.
#[derive(Debug)]
pub(crate) struct Registered {
    serial: u32,
    pub(crate) info: PmuInfo,
    pub(crate) type_: EventType,
    pub(crate) mux_interval_ns: u64,
    /// `None` once it was removed.
    pub(crate) driver: Option<Box<dyn Pmu>>,
}

/// All PMUs.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    all: Vec<Registered>,
    last_serial: u32,
    /// Places of PMUs that are gone and that nothing refers to any longer.
    free: Vec<u32>,
}

/// The first type that is given away.
const FIRST_DYNAMIC: u32 = 6;

impl Registry {
    /// Registers a PMU: `EEXIST` if its type or its name is taken.
    pub(crate) fn add(&mut self, mut driver: Box<dyn Pmu>, mux_interval_ns: u64) -> Result<PmuId, Errno> {
        let info = driver.info();
        let taken = |type_: EventType| self.living().any(|(_, pmu)| pmu.type_ == type_);
        if !info.name.is_empty() && self.living().any(|(_, pmu)| pmu.info.name == info.name) {
            return Err(Errno::EEXIST);
        }
        let type_ = match info.type_ {
            Some(type_) if taken(type_) => return Err(Errno::EEXIST),
            Some(type_) => type_,
            None => {
                let free = (FIRST_DYNAMIC..).map(EventType).find(|&type_| !taken(type_));
                free.ok_or(Errno::ENOSPC)?
            }
        };
        let serial = self.last_serial.checked_add(1).ok_or(Errno::ENOSPC)?;
        self.last_serial = serial;
        driver.registered(type_);
        let own = Registered { serial, info, type_, mux_interval_ns, driver: Some(driver) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.all[slot as usize] = own;
                slot
            }
            None => {
                self.all.push(own);
                self.all.len() as u32 - 1
            }
        };
        Ok(PmuId { serial, slot })
    }

    /// The driver goes. Its events may still ask for its properties, until they are
    /// [released](Self::release).
    pub(crate) fn remove(&mut self, id: PmuId) -> Option<Box<dyn Pmu>> {
        let own = self.all.get_mut(id.slot as usize).filter(|own| own.serial == id.serial)?;
        own.info.description = Description::default();
        own.driver.take()
    }

    /// Those that are gone while something may still refer to them.
    pub(crate) fn gone(&self) -> impl Iterator<Item = PmuId> + '_ {
        let all = self.all.iter().enumerate().filter(|(_, pmu)| pmu.driver.is_none());
        let ids = all.map(|(slot, pmu)| PmuId { serial: pmu.serial, slot: slot as u32 });
        ids.filter(|id| !self.free.contains(&id.slot))
    }

    /// Nothing refers to this one any longer: its place can be had.
    pub(crate) fn release(&mut self, id: PmuId) {
        self.free.push(id.slot);
    }

    /// Places in all, those that can be had among them.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.all.len()
    }

    /// Those that are there, in the order of their places.
    pub(crate) fn living(&self) -> impl Iterator<Item = (PmuId, &Registered)> {
        let all = self.all.iter().enumerate().filter(|(_, pmu)| pmu.driver.is_some());
        all.map(|(slot, pmu)| (PmuId { serial: pmu.serial, slot: slot as u32 }, pmu))
    }

    /// The drivers of those.
    pub(crate) fn drivers(&mut self) -> impl Iterator<Item = &mut Box<dyn Pmu>> {
        self.all.iter_mut().filter_map(|pmu| pmu.driver.as_mut())
    }

    pub(crate) fn by_type(&self, type_: EventType) -> Option<PmuId> {
        self.living().find(|(_, pmu)| pmu.type_ == type_).map(|(id, _)| id)
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<PmuId> {
        self.living().find(|(_, pmu)| pmu.info.name == name).map(|(id, _)| id)
    }

    /// That of an event.
    pub(crate) fn get(&self, id: PmuId) -> &Registered {
        &self.all[id.slot as usize]
    }

    /// One that a host asks for by the id it was told, unless it is gone.
    pub(crate) fn find(&self, id: PmuId) -> Option<&Registered> {
        let own = self.all.get(id.slot as usize)?;
        (own.serial == id.serial && own.driver.is_some()).then_some(own)
    }

    pub(crate) fn find_mut(&mut self, id: PmuId) -> Option<&mut Registered> {
        let own = self.all.get_mut(id.slot as usize)?;
        (own.serial == id.serial && own.driver.is_some()).then_some(own)
    }

    /// The driver; `None` for a PMU that is gone.
    pub(crate) fn driver(&mut self, id: PmuId) -> Option<&mut (dyn Pmu + 'static)> {
        let own = self.all.get_mut(id.slot as usize).filter(|own| own.serial == id.serial)?;
        own.driver.as_deref_mut()
    }
}

/// A file below a PMU's directory, with what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysfsFile {
    /// Relative to the PMU's directory.
    pub path: String,
    /// The content, with its newline.
    pub text: String,
    /// Permission bits.
    pub mode: u32,
}
