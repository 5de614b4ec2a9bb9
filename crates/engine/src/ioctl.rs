//! The ioctls and prctls (rules C44 to C57), and closing.

use crate::attr::{self, UserMemory};
use crate::bpf::BpfQuery;
use crate::engine::Engine;
use crate::event::{EventKey, State};
use crate::host::{Capability, Host, SecurityStep};
use crate::pmu::{THROTTLED, Target};
use crate::task::TaskId;
use alloc::vec::Vec;
use perfuse_abi::{AttrFlags, Errno, EventType};

/// An ioctl with its argument, taken from the caller's memory.
#[derive(Debug)]
#[non_exhaustive]
pub enum Ioctl<'a> {
    /// `PERF_EVENT_IOC_ENABLE`; with the whole group?
    Enable {
        /// `PERF_IOC_FLAG_GROUP`.
        group: bool,
    },
    /// `PERF_EVENT_IOC_DISABLE`.
    Disable {
        /// `PERF_IOC_FLAG_GROUP`.
        group: bool,
    },
    /// `PERF_EVENT_IOC_RESET`.
    Reset {
        /// `PERF_IOC_FLAG_GROUP`.
        group: bool,
    },
    /// `PERF_EVENT_IOC_REFRESH`: this many more overflows.
    Refresh(i32),
    /// `PERF_EVENT_IOC_PERIOD`: a period, or a frequency.
    Period(u64),
    /// `PERF_EVENT_IOC_ID`: answers with the id.
    Id,
    /// `PERF_EVENT_IOC_SET_OUTPUT`: the event of the descriptor; `None` for -1.
    SetOutput(Option<EventKey>),
    /// `PERF_EVENT_IOC_PAUSE_OUTPUT`.
    PauseOutput(bool),
    /// `PERF_EVENT_IOC_SET_FILTER`.
    SetFilter(&'a str),
    /// `PERF_EVENT_IOC_SET_BPF`: the descriptor of a program (rule K1).
    SetBpf(i32),
    /// `PERF_EVENT_IOC_QUERY_BPF`: what is found is written even if it fails (rule K10).
    QueryBpf(&'a mut BpfQuery),
    /// `PERF_EVENT_IOC_MODIFY_ATTRIBUTES`.
    ModifyAttributes(&'a mut AttrMemory<'a>),
}

/// A caller's memory that holds an attr.
pub struct AttrMemory<'a>(pub &'a mut dyn UserMemory);

impl core::fmt::Debug for AttrMemory<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("AttrMemory")
    }
}

/// A step that is done to an event and its copies.
type Step = fn(&mut Engine, EventKey, u64);

impl Engine {
    /// Carries out an ioctl; the number it answers with is 0 but for [`Ioctl::Id`].
    pub fn ioctl(
        &mut self,
        host: &mut dyn Host,
        caller: TaskId,
        event: EventKey,
        now: u64,
        ioctl: Ioctl<'_>,
    ) -> Result<u64, Errno> {
        host.security(caller, SecurityStep::Write)?;
        if self.events.get(event).ok_or(Errno::EBADF)?.state <= State::Revoked {
            return Err(Errno::ENODEV);
        }
        match ioctl {
            Ioctl::Enable { group } => self.each(event, group, now, Engine::enable_event),
            Ioctl::Disable { group } => self.each(event, group, now, Engine::disable_event),
            Ioctl::Reset { group } => self.each(event, group, now, Engine::reset_event),
            Ioctl::Refresh(more) => self.refresh_limit(event, more, now)?,
            Ioctl::Period(value) => self.set_period(event, value, now)?,
            Ioctl::Id => return Ok(self.events[self.events[event].original()].id),
            Ioctl::SetOutput(target) => {
                match target {
                    Some(target) => self.check_output(event, target)?,
                    None if self.events[event].mappings > 0 => return Err(Errno::EINVAL),
                    None => {}
                }
                self.redirect(event, target);
            }
            Ioctl::PauseOutput(pause) => self.pause_output(event, pause)?,
            Ioctl::SetFilter(text) => self.set_filter(event, text)?,
            Ioctl::SetBpf(fd) => self.set_program(host, caller, event, fd)?,
            Ioctl::QueryBpf(query) => self.query_programs(host, caller, event, query)?,
            Ioctl::ModifyAttributes(memory) => self.modify(host, caller, event, now, memory.0)?,
        }
        Ok(0)
    }

    /// `prctl(PR_TASK_PERF_EVENTS_ENABLE)` and `_DISABLE`: all events that this thread opened (rule C57).
    pub fn prctl(&mut self, caller: TaskId, enable: bool, now: u64) {
        let step: Step = if enable { Engine::enable_event } else { Engine::disable_event };
        for event in self.events.keys().collect::<Vec<_>>() {
            if self.events.get(event).is_some_and(|event| event.owner == Some(caller)) {
                self.each(event, false, now, step);
            }
        }
    }

    /// Does something to an event or its group, and to all their copies in child tasks (rule C44).
    fn each(&mut self, event: EventKey, group: bool, now: u64, step: Step) {
        let members = if group { self.group_of(event) } else { Vec::from([event]) };
        for member in members {
            step(self, member, now);
            for child in self.copies_of(member) {
                step(self, child, now);
            }
        }
    }

    /// Rule C47: only the count, and not what ended children left.
    fn reset_event(&mut self, event: EventKey, now: u64) {
        self.update_count(event, now);
        self.events[event].hw.count = 0;
        self.update_page(event, now);
    }

    fn refresh_limit(&mut self, event: EventKey, more: i32, now: u64) -> Result<(), Errno> {
        let own = &mut self.events[event];
        if own.has(AttrFlags::INHERIT) || !own.is_sampling() {
            return Err(Errno::EINVAL);
        }
        own.limit = own.limit.wrapping_add(more);
        self.enable_event(event, now);
        Ok(())
    }

    /// Rule C49.
    fn set_period(&mut self, event: EventKey, value: u64, now: u64) -> Result<(), Errno> {
        let own = &self.events[event];
        if !own.is_sampling() || value == 0 {
            return Err(Errno::EINVAL);
        }
        let freq = own.is_freq();
        if freq && value > self.sysctls.max_sample_rate as u64 {
            return Err(Errno::EINVAL);
        }
        if let Some(pmu) = self.pmus.get(own.pmu).driver.as_deref() {
            pmu.check_period(&own.hw, value).map_err(|_| Errno::EINVAL)?;
        }
        if !freq && value >> 63 != 0 {
            return Err(Errno::EINVAL);
        }
        let on = own.on.filter(|_| own.state == State::Active);
        let throttled = own.hw.interrupts == THROTTLED;
        if let Some(cpu) = on {
            if throttled {
                self.unthrottle_group(event, Some(event), cpu, now);
            }
            self.drive(event, cpu, now, |pmu, cx, hw| pmu.stop(cx, hw));
        }
        let hw = &mut self.events[event].hw;
        hw.attr.sample_period = value;
        if !freq {
            hw.sample_period = value;
        }
        (hw.period_left, hw.due) = (0, on.is_some());
        if let Some(cpu) = on {
            self.drive(event, cpu, now, |pmu, cx, hw| pmu.start(cx, hw, true));
        }
        Ok(())
    }

    fn set_filter(&mut self, event: EventKey, text: &str) -> Result<(), Errno> {
        if text.len() >= self.config.page_bytes || self.events[event].parent.is_some() {
            return Err(Errno::EINVAL);
        }
        let pmu = self.events[event].pmu;
        let driver = self.pmus.driver(pmu).ok_or(Errno::ENODEV)?;
        driver.set_filter(&mut self.events[event].hw, text)
    }

    /// Rule C51.
    fn modify(
        &mut self,
        host: &mut dyn Host,
        caller: TaskId,
        event: EventKey,
        now: u64,
        memory: &mut dyn UserMemory,
    ) -> Result<(), Errno> {
        let default = self.sysctls.stack_default();
        let attr = attr::copy(memory, &self.config, default, &mut || self.allow_kernel(host, caller))?;
        let own = &self.events[event];
        if attr.type_ != own.attr().type_ {
            return Err(Errno::EINVAL);
        }
        if attr.type_ != EventType::BREAKPOINT {
            return Err(Errno::EOPNOTSUPP);
        }
        let target = Target {
            task: own.task.is_some(),
            cpu: own.cpu.map_or(-1, |cpu| cpu as i32),
            perfmon: host.capable(caller, Capability::Perfmon),
            admin: host.capable(caller, Capability::SysAdmin),
            raw: Ok(()),
            inherited: false,
        };
        let mut members = Vec::from([event]);
        members.extend(self.copies_of(event));
        for member in members {
            self.events[member].hw.attr.sig_data = attr.sig_data;
            self.disable_event(member, now);
            let pmu = self.events[member].pmu;
            let modified = match self.pmus.driver(pmu) {
                Some(driver) => driver.modify(&mut self.events[member].hw, &attr, &target),
                None => Err(Errno::ENODEV),
            };
            // Where the new attr is wrong the old breakpoint stays, and goes on as its attr says.
            if !self.events[member].has(AttrFlags::DISABLED) {
                self.enable_event(member, now);
            }
            modified?;
        }
        Ok(())
    }

    /// `O_ASYNC` of the descriptor is set or cleared.
    pub fn set_async(&mut self, event: EventKey, on: bool) {
        if let Some(event) = self.events.get_mut(event) {
            event.asynchronous = on;
        }
    }

    /// The last descriptor of an event is closed (rules C38 to C42). Mappings keep it alive.
    pub fn close(&mut self, event: EventKey, now: u64) {
        let Some(own) = self.events.get_mut(event) else { return };
        own.open = false;
        if own.mappings == 0 {
            self.release(event, now);
        }
    }

    /// The last reference to the event is gone.
    pub(crate) fn release(&mut self, event: EventKey, now: u64) {
        for child in core::mem::take(&mut self.events[event].children).into_values() {
            self.update_times(child, now);
            self.detach(child, State::Dead, true, now);
            self.gate(child, false);
            self.destroy(child);
        }
        self.update_times(event, now);
        if self.events[event].context.is_some() {
            self.detach(event, State::Dead, true, now);
        } else {
            self.ungroup(event, now);
        }
        self.redirect(event, None);
        self.gate(event, false);
        self.destroy(event);
    }
}
