//! `perf_event_open(2)`: everything that is checked, in the kernel's order (section B).

use crate::attr::{self, UserMemory};
use crate::context::{Context, ContextKey, ContextKind};
use crate::engine::Engine;
use crate::event::{self, Event, EventKey, Siblings, State, Times};
use crate::host::{Access, Capability, CgroupId, Host, SecurityStep};
use crate::pmu::{Hw, PmuId, Target, TaskContext};
use crate::pmus::breakpoint;
use crate::task::TaskId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use perfuse_abi::{Attr, AttrFlags, AuxAction, Errno, EventType, OpenFlags, ReadFormat, SampleType};

/// The arguments of `perf_event_open(2)` but the attr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenArguments {
    /// The task, by its number; 0: the caller; -1: all on the cpu. A descriptor of a cgroup with
    /// [`OpenFlags::PID_CGROUP`].
    pub pid: i32,
    /// The cpu, or -1.
    pub cpu: i32,
    /// A descriptor of the leader, or -1.
    pub group_fd: i32,
    /// Flags.
    pub flags: OpenFlags,
}

impl Default for OpenArguments {
    /// On the caller, on any cpu, alone.
    fn default() -> Self {
        OpenArguments { pid: 0, cpu: -1, group_fd: -1, flags: OpenFlags::empty() }
    }
}

const FLAGS: OpenFlags = OpenFlags::FD_NO_GROUP
    .union(OpenFlags::FD_OUTPUT)
    .union(OpenFlags::PID_CGROUP)
    .union(OpenFlags::FD_CLOEXEC);

/// Bytes that `read(2)` may give at most (rule B31).
const MOST_READ: usize = 16 * 1024;

/// Clocks that all PMUs can use, and those that only PMUs without NMIs can (rule B24).
const ANY_CLOCK: [i32; 2] = [1, 4];
const SLOW_CLOCKS: [i32; 3] = [0, 7, 11];

const EXCLUDE: AttrFlags = AttrFlags::EXCLUDE_USER
    .union(AttrFlags::EXCLUDE_KERNEL)
    .union(AttrFlags::EXCLUDE_HV)
    .union(AttrFlags::EXCLUDE_IDLE)
    .union(AttrFlags::EXCLUDE_HOST)
    .union(AttrFlags::EXCLUDE_GUEST);

/// A new event before it has a context.
pub(crate) struct NewEvent {
    pub(crate) attr: Attr,
    pub(crate) task: Option<TaskId>,
    pub(crate) cpu: Option<u32>,
    pub(crate) leader: Option<EventKey>,
    pub(crate) cgroup: Option<CgroupId>,
    pub(crate) parent: Option<EventKey>,
    pub(crate) owner: Option<TaskId>,
    pub(crate) target: Target,
}

impl Engine {
    /// Opens an event (rules B1 to B34). The descriptor is the host's affair: it names the event by the
    /// key that is returned, until [`close`](Self::close).
    pub fn open(
        &mut self,
        host: &mut dyn Host,
        caller: TaskId,
        now: u64,
        attr: &mut dyn UserMemory,
        arguments: OpenArguments,
    ) -> Result<EventKey, Errno> {
        let OpenArguments { pid, cpu, group_fd, flags } = arguments;
        if !FLAGS.contains(flags) {
            return Err(Errno::EINVAL);
        }
        let attr = attr::copy(attr, &self.config, self.sysctls.stack_default(), &mut || {
            self.allow_kernel(host, caller)
        })?;
        let has = |flag| attr.flags.contains(flag);
        host.security(caller, SecurityStep::Open)?;
        if !has(AttrFlags::EXCLUDE_KERNEL) {
            self.allow_kernel(host, caller)?;
        }
        if has(AttrFlags::NAMESPACES) && !host.capable(caller, Capability::Perfmon) {
            return Err(Errno::EACCES);
        }
        if has(AttrFlags::FREQ) {
            if attr.sample_period > self.sysctls.max_sample_rate as u64 {
                return Err(Errno::EINVAL);
            }
        } else if attr.sample_period >> 63 != 0 {
            return Err(Errno::EINVAL);
        }
        if attr.sample_type.contains(SampleType::PHYS_ADDR) {
            self.allow_kernel(host, caller)?;
        }
        if attr.sample_type.contains(SampleType::REGS_INTR) {
            host.security(caller, SecurityStep::Registers)?;
        }
        let of_cgroup = flags.contains(OpenFlags::PID_CGROUP);
        if of_cgroup && (pid == -1 || cpu == -1) {
            return Err(Errno::EINVAL);
        }
        host.reserve_descriptor(caller)?;
        let (mut leader, mut output) = (None, None);
        if group_fd != -1 {
            let group = host.event_of(caller, group_fd).filter(|&key| self.events.get(key).is_some());
            let group = group.ok_or(Errno::EBADF)?;
            if self.events[group].state <= State::Exit {
                return Err(Errno::ENODEV);
            }
            leader = (!flags.contains(OpenFlags::FD_NO_GROUP)).then_some(group);
            output = flags.contains(OpenFlags::FD_OUTPUT).then_some(group);
        }
        let task = match pid {
            _ if of_cgroup => None,
            -1 => None,
            0 => Some(caller),
            pid => {
                let pid = u32::try_from(pid).map_err(|_| Errno::ESRCH)?;
                Some(host.find_task(caller, pid).ok_or(Errno::ESRCH)?)
            }
        };
        if task.is_some_and(|task| !self.tasks.contains_key(&task)) {
            return Err(Errno::ESRCH);
        }
        if let (Some(_), Some(leader)) = (task, leader) {
            if self.events[leader].has(AttrFlags::INHERIT) != has(AttrFlags::INHERIT) {
                return Err(Errno::EINVAL);
            }
        }
        let bound = match u32::try_from(cpu) {
            Ok(cpu) if (cpu as usize) < self.cpus.len() => Some(cpu),
            Err(_) if cpu == -1 && task.is_some() => None,
            _ => return Err(Errno::EINVAL),
        };
        let target = Target {
            task: task.is_some(),
            cpu,
            perfmon: host.capable(caller, Capability::Perfmon),
            admin: host.capable(caller, Capability::SysAdmin),
            raw: self.allow_raw(host, caller),
            inherited: false,
        };
        let new = NewEvent {
            attr,
            task,
            cpu: bound,
            leader,
            cgroup: None,
            parent: None,
            owner: Some(caller),
            target,
        };
        let event = self.create(new)?;
        self.events[event].namespace = host.namespace_of(caller);
        let opened = self.admit(host, caller, now, event, arguments, leader, output);
        if opened.is_err() {
            self.destroy(event);
        }
        opened.map(|()| event)
    }

    /// *Kernel permission* (section B).
    pub(crate) fn allow_kernel(&self, host: &dyn Host, caller: TaskId) -> Result<(), Errno> {
        if self.sysctls.paranoid > 1 && !host.capable(caller, Capability::Perfmon) {
            return Err(Errno::EACCES);
        }
        host.security(caller, SecurityStep::Kernel)
    }

    /// *Cpu permission* (section B).
    fn allow_cpu(&self, host: &dyn Host, caller: TaskId) -> Result<(), Errno> {
        if self.sysctls.paranoid > 0 && !host.capable(caller, Capability::Perfmon) {
            return Err(Errno::EACCES);
        }
        host.security(caller, SecurityStep::Cpu)
    }

    /// *Tracepoint permission* (section B).
    pub(crate) fn allow_raw(&self, host: &dyn Host, caller: TaskId) -> Result<(), Errno> {
        if self.sysctls.paranoid > -1 && !host.capable(caller, Capability::Perfmon) {
            return Err(Errno::EPERM);
        }
        host.security(caller, SecurityStep::Tracepoint)
    }

    /// Allocates an event and finds its PMU (rules B15, B16).
    pub(crate) fn create(&mut self, new: NewEvent) -> Result<EventKey, Errno> {
        let NewEvent { mut attr, task, cpu, leader, cgroup, parent, owner, target } = new;
        let has = |attr: &Attr, flag| attr.flags.contains(flag);
        if has(&attr, AttrFlags::SIGTRAP) && task.is_none() {
            return Err(Errno::EINVAL);
        }
        self.last_id += 1;
        let id = self.last_id;
        if has(&attr, AttrFlags::INHERIT)
            && attr.sample_type.contains(SampleType::READ)
            && !attr.sample_type.contains(SampleType::TID)
        {
            return Err(Errno::EINVAL);
        }
        if !attr.sample_type.contains(SampleType::BRANCH_STACK) {
            attr.branch_sample_type = perfuse_abi::BranchSampleType::empty();
        }
        let asked_type = attr.type_;
        let disabled = has(&attr, AttrFlags::DISABLED);
        let key = self.events.insert(|key| Event {
            id,
            asked_type,
            state: if disabled { State::Off } else { State::Inactive },
            pmu: PmuId::NONE,
            place: PmuId::NONE,
            software: false,
            hw: Hw::new(key, &attr),
            context: None,
            sequence: 0,
            cpu,
            task,
            cgroup,
            on: None,
            leader: leader.unwrap_or(key),
            siblings: Siblings::default(),
            software_group: false,
            group_index: 0,
            group_generation: 0,
            parent,
            children: BTreeMap::new(),
            child_count: 0,
            child_enabled: 0,
            child_running: 0,
            times: Times::default(),
            limit: 0,
            pending_disable: false,
            pending_trap: false,
            lost: 0,
            itrace_started: false,
            program: None,
            runs_for_all: false,
            buffer: None,
            mappings: 0,
            asynchronous: false,
            owner,
            namespace: Default::default(),
            open: false,
        });
        let pmu = match self.find_pmu(key, &target, leader) {
            Ok(pmu) => pmu,
            Err(errno) => {
                self.events.remove(key);
                return Err(errno);
            }
        };
        let software = self.pmus.get(pmu).info.context == TaskContext::Software;
        let event = &mut self.events[key];
        (event.pmu, event.place) = (pmu, pmu);
        (event.software, event.software_group) = (software, software);
        if let Err(errno) = self.suits(key) {
            self.destroy(key);
            return Err(errno);
        }
        Ok(key)
    }

    /// Refuses an event that the PMU's properties forbid (rule B16).
    fn suits(&self, key: EventKey) -> Result<(), Errno> {
        let event = &self.events[key];
        let caps = self.pmus.get(event.pmu).info.caps;
        let registers = event.attr().sample_regs_user | event.attr().sample_regs_intr;
        if registers & attr::extended_registers(self.config.arch) != 0 && !caps.extended_regs {
            return Err(Errno::EOPNOTSUPP);
        }
        if caps.no_exclude && event.attr().flags.intersects(EXCLUDE) {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Section B-pmu.
    fn find_pmu(&mut self, key: EventKey, target: &Target, leader: Option<EventKey>) -> Result<PmuId, Errno> {
        let event = &mut self.events[key];
        let type_ = event.attr().type_;
        // An inherited one goes to its original's PMU.
        if let Some(parent) = event.parent {
            let pmu = self.events[parent].pmu;
            return self.try_pmu(key, pmu, target, leader).map(|()| pmu);
        }
        let mut wanted = type_;
        let mut extended = false;
        if [EventType::HARDWARE, EventType::HW_CACHE].contains(&type_) {
            wanted = EventType((event.attr().config >> 32) as u32);
            if wanted.0 == 0 {
                wanted = EventType::RAW;
            } else {
                extended = true;
                event.hw.attr.config &= 0xffff_ffff;
                event.hw.config = event.hw.attr.config;
            }
        }
        while let Some(pmu) = self.pmus.by_type(wanted) {
            let can = self.pmus.get(pmu).info.caps.extended_hw_type;
            // A PMU may have sent the event on to another type.
            let type_ = self.events[key].attr().type_;
            if type_ != wanted && wanted != EventType::RAW && !can {
                return Err(Errno::ENOENT);
            }
            let tried = self.try_pmu(key, pmu, target, leader);
            let type_ = self.events[key].attr().type_;
            match tried {
                Err(Errno::ENOENT) if wanted != type_ && !extended => wanted = type_,
                result => return result.map(|()| pmu),
            }
        }
        // The newest first.
        let mut all: Vec<PmuId> = self.pmus.living().map(|(id, _)| id).collect();
        all.sort_unstable();
        for pmu in all.into_iter().rev() {
            match self.try_pmu(key, pmu, target, leader) {
                Err(Errno::ENOENT) => {}
                result => return result.map(|()| pmu),
            }
        }
        Err(Errno::ENOENT)
    }

    fn try_pmu(
        &mut self,
        key: EventKey,
        pmu: PmuId,
        target: &Target,
        leader: Option<EventKey>,
    ) -> Result<(), Errno> {
        let breakpoints = self.pmus.get(pmu).type_ == EventType::BREAKPOINT;
        let event = &self.events[key];
        let (task, cpu) = (event.task, event.cpu);
        let reserve = breakpoints && event.attr().type_ == EventType::BREAKPOINT;
        if reserve {
            breakpoint::precheck(event.attr())?;
            self.breakpoints.reserve(key, task, cpu)?;
        }
        let counters = self.pmus.get(pmu).info.context != TaskContext::Software;
        let members: Vec<EventKey> = match leader.filter(|_| counters) {
            Some(leader) => self.group_of(leader),
            None => Vec::new(),
        };
        let group: Vec<Hw> = (members.iter().map(|&member| &self.events[member]))
            .filter(|member| member.pmu == pmu)
            .map(|member| member.hw.clone())
            .collect();
        let group: Vec<&Hw> = group.iter().collect();
        let driver = self.pmus.driver(pmu).ok_or(Errno::ENOENT)?;
        let result = driver.event_init(&mut self.events[key].hw, target, &group);
        if reserve && result.is_err() {
            self.breakpoints.release(key);
        }
        result
    }

    /// The rest of the checks, and the installation (rules B17 to B34).
    #[expect(clippy::too_many_arguments, reason = "the second half of one long function")]
    fn admit(
        &mut self,
        host: &mut dyn Host,
        caller: TaskId,
        now: u64,
        key: EventKey,
        arguments: OpenArguments,
        leader: Option<EventKey>,
        output: Option<EventKey>,
    ) -> Result<(), Errno> {
        let event = &self.events[key];
        let attr = *event.attr();
        let has = |flag| attr.flags.contains(flag);
        let info = &self.pmus.get(event.pmu).info;
        let (caps, kind) = (info.caps, info.context);
        let (task, cpu) = (event.task, event.cpu);
        let of_cgroup = arguments.flags.contains(OpenFlags::PID_CGROUP);
        if kind == TaskContext::None && (task.is_some() || of_cgroup) {
            return Err(Errno::EINVAL);
        }
        let action = attr.aux_action;
        let moves = action.intersects(AuxAction::PAUSE | AuxAction::RESUME);
        if has(AttrFlags::AUX_OUTPUT) && (!caps.aux_output || moves) {
            return Err(Errno::EOPNOTSUPP);
        }
        if action.contains(AuxAction::PAUSE | AuxAction::RESUME) {
            return Err(Errno::EINVAL);
        }
        if action.contains(AuxAction::START_PAUSED) && !caps.aux_pause {
            return Err(Errno::EOPNOTSUPP);
        }
        if of_cgroup {
            let cgroup = host.cgroup_of(caller, arguments.pid)?;
            if leader.is_some_and(|leader| self.events[leader].cgroup != Some(cgroup)) {
                return Err(Errno::EINVAL);
            }
            self.events[key].cgroup = Some(cgroup);
        }
        if caps.exclusive {
            let pmu = self.events[key].pmu;
            let other = |other: EventKey| {
                let other_event = &self.events[other];
                other != key && other_event.pmu == pmu && other_event.task.is_some() != task.is_some()
            };
            if self.events.keys().any(other) {
                return Err(Errno::EBUSY);
            }
        }
        if attr.sample_type.contains(SampleType::CALLCHAIN)
            && i32::from(attr.sample_max_stack) > self.sysctls.max_stack
        {
            return Err(Errno::EOVERFLOW);
        }
        host.security(caller, SecurityStep::Alloc)?;
        if self.events[key].is_sampling() && caps.no_interrupt {
            return Err(Errno::EOPNOTSUPP);
        }
        if has(AttrFlags::USE_CLOCKID)
            && !ANY_CLOCK.contains(&attr.clockid)
            && !(caps.no_nmi && SLOW_CLOCKS.contains(&attr.clockid))
        {
            return Err(Errno::EINVAL);
        }
        if let Some(task) = task {
            self.allow_task(host, caller, task, has(AttrFlags::SIGTRAP))?;
        } else {
            self.allow_cpu(host, caller)?;
        }
        let context = match (task, cpu) {
            (Some(task), _) => self.task_context(task)?,
            (None, Some(cpu)) => {
                let place = &self.cpus[cpu as usize];
                if !place.online {
                    return Err(Errno::ENODEV);
                }
                place.context
            }
            (None, None) => return Err(Errno::EINVAL),
        };
        let moved = match leader {
            Some(leader) => self.may_join(key, leader, context)?,
            None => None,
        };
        if let Some(output) = output {
            self.check_output(key, output)?;
        }
        if let Some(leader) = leader {
            let group = &self.events[leader];
            let own = [attr.read_format, group.attr().read_format];
            let mut all = own.into_iter().chain(group.siblings.formats());
            if all.any(|format| event::read_len(format, group.siblings.len() + 1) > MOST_READ) {
                return Err(Errno::E2BIG);
            }
        }
        if attr::needs_aux_leader(&attr) {
            let traces = |leader: EventKey| {
                let caps = self.pmus.get(self.events[leader].pmu).info.caps;
                caps.itrace && (!moves || caps.aux_pause)
            };
            if !leader.is_some_and(traces) {
                return Err(Errno::EINVAL);
            }
        }
        if caps.exclusive {
            let pmu = self.events[key].pmu;
            let clashes = self.contexts[context].events.values().any(|&other| {
                let other = &self.events[other];
                other.pmu == pmu && (other.cpu.is_none() || cpu.is_none() || other.cpu == cpu)
            });
            if clashes {
                return Err(Errno::EBUSY);
            }
        }
        // From here on nothing fails.
        self.events[key].hw.needs_leader |= attr::needs_aux_leader(&attr);
        if let Some(output) = output {
            self.redirect(key, Some(output));
        }
        if let (Some(leader), Some(place)) = (leader, moved) {
            self.move_group(leader, place, now);
        }
        self.events[key].open = true;
        self.events[key].owner = Some(caller);
        self.owners.insert(caller);
        self.gate(key, true);
        self.install(context, key, now);
        Ok(())
    }

    /// Whether the caller may measure a task (rule B25).
    fn allow_task(&self, host: &dyn Host, caller: TaskId, task: TaskId, trap: bool) -> Result<(), Errno> {
        let perfmon = host.capable(caller, Capability::Perfmon);
        let allowed = if caller == task {
            true
        } else if trap {
            perfmon && host.capable(caller, Capability::Kill(task))
                || host.may_access(caller, task, Access::Attach)
        } else {
            perfmon || host.may_access(caller, task, Access::Read)
        };
        if allowed { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// The context of a task, made if there is none: `ESRCH` for one that ends (rules B26, B27).
    pub(crate) fn task_context(&mut self, task: TaskId) -> Result<ContextKey, Errno> {
        let own = self.tasks.get_mut(&task).ok_or(Errno::ESRCH)?;
        if own.exiting {
            return Err(Errno::ESRCH);
        }
        if let Some(context) = own.context {
            return Ok(context);
        }
        let context = self.contexts.insert(|_| Context::new(ContextKind::Task(task)));
        own.context = Some(context);
        Ok(context)
    }

    /// Whether an event may join a group (rules B28, B29), and to which PMU the group has to move then.
    fn may_join(
        &mut self,
        key: EventKey,
        leader: EventKey,
        context: ContextKey,
    ) -> Result<Option<PmuId>, Errno> {
        let (event, group) = (&self.events[key], &self.events[leader]);
        let wrong = !group.is_leader()
            || group.clockid() != event.clockid()
            || group.cpu != event.cpu
            || group.context != Some(context);
        if wrong {
            return Err(if group.context.is_none() && group.is_leader() {
                Errno::ENODEV
            } else {
                Errno::EINVAL
            });
        }
        if event.attr().flags.intersects(AttrFlags::EXCLUSIVE | AttrFlags::PINNED) {
            return Err(Errno::EINVAL);
        }
        let members = if group.software_group { Vec::new() } else { self.group_of(leader) };
        let hardware = members.into_iter().find(|&member| !self.events[member].software);
        let hardware = hardware.map(|member| self.events[member].pmu);
        let (software, pmu) = (self.events[key].software, self.events[key].pmu);
        match (software, hardware) {
            // It takes its turn where the group does; as for its arrival see rule C23.
            (true, _) => {
                let place = self.events[leader].place;
                if self.pmus.get(place).info.context != TaskContext::Software {
                    self.events[key].place = place;
                }
                Ok(None)
            }
            (false, Some(other)) if other != pmu => Err(Errno::EINVAL),
            (false, Some(_)) => Ok(None),
            (false, None) => Ok(Some(pmu)),
        }
    }

    /// A hardware event comes to a group of software events: all take their turn with the hardware, and
    /// start anew from `attr.disabled` (rule C36).
    fn move_group(&mut self, leader: EventKey, place: PmuId, now: u64) {
        let members = self.group_of(leader);
        let Some(context) = self.events[leader].context else { return };
        for &member in &members {
            self.event_sched_out(member, now);
        }
        let siblings = members[1..].iter().copied();
        for member in siblings.chain([leader]) {
            let disabled = self.events[member].has(AttrFlags::DISABLED);
            self.set_state(member, if disabled { State::Off } else { State::Inactive }, now);
            let own = &mut self.events[member];
            let (from, order) = (own.place, own.order());
            own.place = place;
            let kind = crate::context::GroupKind::of(own);
            let holder = &mut self.contexts[context];
            let turn = holder.pmu(from);
            turn.events -= 1;
            if turn.events == 0 {
                holder.pmus.remove(&from);
            }
            holder.pmu(place).events += 1;
            if member == leader {
                holder.groups(kind).remove(&order);
                self.add_group(context, leader);
            }
        }
    }

    /// Frees an event that has no context any more.
    pub(crate) fn destroy(&mut self, key: EventKey) {
        let Some(mut event) = self.events.remove(key) else { return };
        if let Some(driver) = self.pmus.driver(event.pmu) {
            driver.event_destroy(&mut event.hw);
        }
        self.breakpoints.release(key);
        if event.program.is_some() {
            self.drop_programs(key);
        }
    }

    /// Bytes of a read of this event in its group (rule E3).
    pub(crate) fn read_len(&self, key: EventKey) -> usize {
        let event = &self.events[key];
        let group = event.attr().read_format.contains(ReadFormat::GROUP);
        let siblings = if group { self.events[event.leader].siblings.len() } else { 0 };
        event::read_len(event.attr().read_format, siblings)
    }
}
