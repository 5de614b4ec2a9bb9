//! Breakpoints (rules J20 to J25): slots, constraints, and the effects that program them.

use crate::cpu_state::CpuState;
use crate::effect::{Effect, Watch};
use crate::engine::{Config, Engine};
use crate::event::EventKey;
use crate::pmu::{Cx, Description, Hw, Pmu, PmuCaps, PmuInfo, Target, TaskContext};
use crate::sample::SampleData;
use crate::task::TaskId;
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use perfuse_abi::regs::Arch;
use perfuse_abi::{Attr, AttrFlags, Breakpoint, Errno, EventType, SampleType};

/// The slots that are taken, and by which events (rule J22).
#[derive(Debug)]
pub(crate) struct Slots {
    each: u32,
    cpus: u32,
    taken: BTreeMap<EventKey, Holder>,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    task: Option<TaskId>,
    cpu: Option<u32>,
}

impl Slots {
    pub(crate) fn new(cpus: u32, each: u32) -> Self {
        Slots { each, cpus, taken: BTreeMap::new() }
    }

    /// Takes a slot, from the opening to the closing of an event: `ENOSPC`.
    pub(crate) fn reserve(
        &mut self,
        event: EventKey,
        task: Option<TaskId>,
        cpu: Option<u32>,
    ) -> Result<(), Errno> {
        let mut cpus = match cpu {
            Some(cpu) => cpu..cpu + 1,
            None => 0..self.cpus,
        };
        let fits = |cpu: u32| {
            let wide = self.count(|holder| holder.task.is_none() && holder.cpu == Some(cpu));
            let of = |task: TaskId| {
                self.count(|holder| holder.task == Some(task) && holder.cpu.is_none_or(|own| own == cpu))
            };
            let tasks = match task {
                Some(task) => of(task),
                None => {
                    let all: Vec<TaskId> = self.taken.values().filter_map(|holder| holder.task).collect();
                    all.into_iter().map(of).max().unwrap_or(0)
                }
            };
            wide + tasks < self.each as usize
        };
        if !cpus.all(fits) {
            return Err(Errno::ENOSPC);
        }
        self.taken.insert(event, Holder { task, cpu });
        Ok(())
    }

    pub(crate) fn release(&mut self, event: EventKey) {
        self.taken.remove(&event);
    }

    pub(crate) fn len(&self) -> usize {
        self.taken.len()
    }

    fn count(&self, which: impl Fn(&Holder) -> bool) -> usize {
        self.taken.values().filter(|holder| which(holder)).count()
    }
}

/// The PMU of type 5. Slots are the engine's, as they depend on tasks.
#[derive(Debug)]
pub(crate) struct BreakpointPmu {
    task_size: u64,
    arch: Arch,
}

impl BreakpointPmu {
    pub(crate) fn new(config: &Config) -> Self {
        BreakpointPmu { task_size: config.task_size, arch: config.arch }
    }

    /// Rule J20 from the parsing on.
    fn parse(&self, attr: &Attr, target: &Target) -> Result<(), Errno> {
        if self.arch == Arch::Arm64 {
            return self.parse_arm64(attr, target);
        }
        let (addr, len) = (attr.bp_addr(), attr.bp_len());
        let last = addr.checked_add(len.wrapping_sub(1)).ok_or(Errno::EINVAL)?;
        let execute = attr.bp_type == Breakpoint::X;
        if !execute && attr.bp_type != Breakpoint::W && attr.bp_type != Breakpoint::RW {
            return Err(Errno::EINVAL);
        }
        let kernel = addr >= self.task_size || last >= self.task_size;
        if execute && (kernel || len != 8) {
            return Err(Errno::EINVAL);
        }
        if !execute {
            if !len.is_power_of_two() || addr & (len - 1) != 0 {
                return Err(Errno::EINVAL);
            }
            if len > 8 {
                return Err(Errno::EOPNOTSUPP);
            }
        }
        if kernel {
            if attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) {
                return Err(Errno::EINVAL);
            }
            if !target.admin && !target.inherited {
                return Err(Errno::EPERM);
            }
        }
        Ok(())
    }

    /// The same on arm64, whose processors choose single bytes of eight.
    fn parse_arm64(&self, attr: &Attr, target: &Target) -> Result<(), Errno> {
        let (addr, len) = (attr.bp_addr(), attr.bp_len());
        let known = [Breakpoint::X, Breakpoint::R, Breakpoint::W, Breakpoint::RW].contains(&attr.bp_type);
        // All code is four bytes long, even if `bp_len` says otherwise.
        let fits = attr.bp_type == Breakpoint::X || (addr & 7) + len <= 8;
        if !known || !(1..=8).contains(&len) || !fits {
            return Err(Errno::EINVAL);
        }
        let last = addr.checked_add(len - 1).ok_or(Errno::EINVAL)?;
        if addr < self.task_size && last < self.task_size {
            return Ok(());
        }
        // Those of the kernel belong to no task.
        if target.task || attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) {
            return Err(Errno::EINVAL);
        }
        if target.admin || target.inherited { Ok(()) } else { Err(Errno::EPERM) }
    }
}

/// The checks that come before slots are asked for (rule J20).
pub(crate) fn precheck(attr: &Attr) -> Result<(), Errno> {
    if attr.sample_type.contains(SampleType::BRANCH_STACK) {
        return Err(Errno::EOPNOTSUPP);
    }
    if attr.bp_type == Breakpoint::EMPTY || attr.bp_type.0 & 7 == 7 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

impl Pmu for BreakpointPmu {
    fn info(&self) -> PmuInfo {
        PmuInfo {
            name: Cow::Borrowed("breakpoint"),
            type_: Some(EventType::BREAKPOINT),
            caps: PmuCaps::default(),
            context: TaskContext::Software,
            description: Description::default(),
        }
    }

    fn event_init(&mut self, hw: &mut Hw, target: &Target, _group: &[&Hw]) -> Result<(), Errno> {
        if hw.attr.type_ != EventType::BREAKPOINT {
            return Err(Errno::ENOENT);
        }
        hw.stopped = false;
        self.parse(&hw.attr, target)
    }

    fn add(&mut self, cx: &mut Cx<'_>, hw: &mut Hw, start: bool) -> Result<(), Errno> {
        hw.begin_periods();
        // A stopped event stays so until it is started (rule C48).
        hw.stopped |= !start;
        let (kind, addr, len) = (hw.attr.bp_type.0, hw.attr.bp_addr(), hw.attr.bp_len());
        cx.effect(Effect::Watch(Watch { cpu: cx.cpu, event: hw.event, kind, addr, len }));
        Ok(())
    }

    fn del(&mut self, cx: &mut Cx<'_>, hw: &mut Hw) {
        cx.effect(Effect::Unwatch { cpu: cx.cpu, event: hw.event });
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _hw: &mut Hw) {}

    fn modify(&mut self, hw: &mut Hw, attr: &Attr, target: &Target) -> Result<(), Errno> {
        self.parse(attr, target)?;
        // All else must be as it was (rule C51).
        let mut same = hw.attr;
        (same.config1, same.config2, same.bp_type) = (attr.config1, attr.config2, attr.bp_type);
        same.flags.set(AttrFlags::DISABLED, attr.flags.contains(AttrFlags::DISABLED));
        same.sig_data = attr.sig_data;
        if same != *attr {
            return Err(Errno::EINVAL);
        }
        hw.attr = *attr;
        Ok(())
    }
}

impl Engine {
    /// A watchpoint was hit on a cpu (rule J23).
    pub fn breakpoint(&mut self, event: EventKey, cpu: u32, now: u64, cpu_state: &dyn CpuState) {
        self.breakpoints(&[event], cpu, now, cpu_state);
    }

    /// Several watchpoints were hit by one access.
    pub fn breakpoints(&mut self, hit: &[EventKey], cpu: u32, now: u64, cpu_state: &dyn CpuState) {
        for &event in hit {
            let Some(own) = self.events.get(event).filter(|event| event.on == Some(cpu)) else { continue };
            let data = SampleData { addr: Some(own.attr().bp_addr()), ..SampleData::new(cpu_state) };
            self.occurrence(event, cpu, now, 1, &data);
        }
        self.settle(now);
    }
}
