//! Programs on events: the context that they get, and what their helpers see of the thread that was interrupted.

use super::{Attachment, Shared, Sight, State, Told, tasks};
use crate::cgroups;
use crate::proc;
use crate::ptrace::Tid;
use crate::remote;
use perfuse_abi::Errno;
use perfuse_abi::record::RegsAbi;
use perfuse_bpf::{Fault, MapId, ProgramType, World};
use perfuse_engine::{CpuState, EventKey, Events, ProgramContext, Registers, Run};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Instructions of a run: some tens of milliseconds.
pub(super) const BUDGET: u64 = 16 << 20;
/// Frames of a callchain (`kernel.perf_event_max_stack`).
const MOST_FRAMES: usize = 127;

/// How long a run may read memory of the thread.
const MOST_READING: Duration = Duration::from_millis(200);

/// A clock that programs read.
#[derive(Clone, Copy, Debug)]
enum Clock {
    Monotonic,
    Boot,
    Tai,
}

impl Clock {
    fn ns(self) -> u64 {
        const CLOCK_TAI: i32 = 11;
        proc::clock_ns(match self {
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
            Clock::Boot => libc::CLOCK_BOOTTIME,
            Clock::Tai => CLOCK_TAI,
        })
    }
}

impl Run for Attachment {
    fn run(&self, context: &ProgramContext<'_>, events: &mut dyn Events) -> u32 {
        let Some(state) = self.state.upgrade() else { return 0 };
        let shared = Shared(state);
        shared.lock().run(self.program, self.cookie, context, events)
    }
}

impl State {
    /// Runs a program on an event. One that faults has the result 0, of which the user is told once.
    fn run(&mut self, id: u32, cookie: u64, context: &ProgramContext<'_>, events: &mut dyn Events) -> u32 {
        let Some(own) = self.programs.get(&id) else { return 0 };
        let (program, program_type) = (own.program, own.program_type);
        let thread = context.task.and_then(|task| self.threads.get(&task)).copied().unwrap_or((0, 0));
        // Hits of all tasks come here. One that the program may not see passes.
        let is_for_all = program_type == ProgramType::Tracepoint || self.carriers.contains(&context.event);
        if is_for_all && !own.sees.has(thread.1) {
            return 1;
        }
        let mut bytes = registers(context.cpu_state);
        match program_type {
            ProgramType::PerfEvent => {
                bytes.extend(context.period.to_ne_bytes());
                bytes.extend(context.addr.to_ne_bytes());
            }
            ProgramType::Kprobe => {}
            _ => bytes = context.record.to_vec(),
        }
        let (maps, sees) = (self.maps_of(id), own.sees.clone());
        self.before_run(&maps);
        self.draw();
        let mut world = Surroundings {
            cookie,
            sees,
            values: context.values,
            ..Surroundings::new((context.cpu, context.cpu_state), events, thread, &self.events, self.random)
        };
        let ran = self.machine.run(program, &mut bytes, &mut world, BUDGET);
        let woken = world.woken;
        self.after_run(&maps, &woken);
        ran.map_or(0, |ran| self.result_of(id, ran.result))
    }

    /// The next number by chance.
    pub(super) fn draw(&mut self) {
        const BY: u64 = 6_364_136_223_846_793_005;
        self.random = self.random.wrapping_mul(BY).wrapping_add(1_442_695_040_888_963_407);
    }

    /// The result of a run of a program.
    pub(super) fn result_of(&mut self, id: u32, result: Result<u64, Fault>) -> u32 {
        let fault = match result {
            Ok(value) => return value as u32,
            Err(fault) => fault,
        };
        let Some(own) = self.programs.get_mut(&id) else { return 0 };
        if !std::mem::replace(&mut own.faulted, true) {
            let end = own.name.iter().position(|byte| *byte == 0).unwrap_or(0);
            let name = String::from_utf8_lossy(&own.name[..end]);
            let name = if name.is_empty() { format!("{id}") } else { format!("{name} ({id})") };
            self.told.push(Told::Faulted(name, fault));
        }
        0
    }
}

/// `struct pt_regs` of x86-64, `struct user_pt_regs` of arm64. In the kernel only the place is known.
fn registers(cpu_state: &dyn CpuState) -> Vec<u8> {
    const NONE: u32 = u32::MAX;
    /// The place of the instruction pointer among them.
    const IP: usize = if cfg!(target_arch = "aarch64") { 32 } else { 16 };
    /// By `perf_regs.h`, in the order of the struct.
    #[cfg(target_arch = "x86_64")]
    const ORDER: [u32; 21] = [23, 22, 21, 20, 6, 1, 19, 18, 17, 16, 0, 2, 3, 4, 5, NONE, 8, 10, 9, 7, 11];
    #[cfg(target_arch = "aarch64")]
    const ORDER: [u32; 34] = [
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
        28, 29, 30, 31, 32, NONE,
    ];
    let which = Registers::Interrupted;
    let is_known = cpu_state.registers(which) != RegsAbi::ABI_NONE;
    let word = |(at, number): (usize, &u32)| match *number {
        _ if at == IP => cpu_state.ip(),
        _ if !is_known => 0,
        // No system call: x86 has -1 there.
        NONE if cfg!(target_arch = "x86_64") => u64::MAX,
        NONE => 0,
        number => cpu_state.register(which, number),
    };
    ORDER.iter().enumerate().map(word).flat_map(u64::to_ne_bytes).collect()
}

/// The world of a program: on an event, or in a test run.
pub(super) struct Surroundings<'a> {
    cpu: u32,
    cpu_state: &'a dyn CpuState,
    events: &'a mut dyn Events,
    /// Process and thread.
    thread: (Tid, Tid),
    cookie: u64,
    /// The threads that may be sent signals.
    sees: Sight,
    /// Of the event that overflowed.
    values: [u64; 3],
    /// That a socket filter looks at.
    pub(super) packet: &'a [u8],
    /// Events of arrays.
    handles: &'a BTreeMap<u32, EventKey>,
    random: u64,
    /// Rings with a record for a reader who waits.
    pub(super) woken: Vec<MapId>,
    /// Facts of the thread that this run has looked up.
    ids: Option<u64>,
    name: Option<[u8; 16]>,
    cgroups: Option<Vec<u64>>,
    stacks: [Option<Vec<u64>>; 2],
    /// How long memory of the thread was read for.
    read_for: Duration,
}

impl<'a> Surroundings<'a> {
    pub(super) fn new(
        (cpu, cpu_state): (u32, &'a dyn CpuState),
        events: &'a mut dyn Events,
        thread: (Tid, Tid),
        handles: &'a BTreeMap<u32, EventKey>,
        random: u64,
    ) -> Self {
        Surroundings {
            cpu,
            cpu_state,
            events,
            thread,
            cookie: 0,
            sees: Sight::All,
            values: [0; 3],
            packet: &[],
            handles,
            random,
            woken: Vec::new(),
            ids: None,
            name: None,
            cgroups: None,
            stacks: [None, None],
            read_for: Duration::ZERO,
        }
    }

    /// The thread's cgroups, from the root on.
    fn cgroups(&mut self) -> &[u64] {
        let thread = self.thread.1;
        self.cgroups.get_or_insert_with(|| cgroups::of(thread))
    }

    fn event(&self, handle: u32) -> Result<EventKey, Errno> {
        self.handles.get(&handle).copied().ok_or(Errno::ENOENT)
    }
}

impl World for Surroundings<'_> {
    fn time_ns(&mut self) -> u64 {
        Clock::Monotonic.ns()
    }

    fn boot_time_ns(&mut self) -> u64 {
        Clock::Boot.ns()
    }

    fn tai_ns(&mut self) -> u64 {
        Clock::Tai.ns()
    }

    fn pid_tgid(&mut self) -> u64 {
        (self.thread.0 as u64) << 32 | self.thread.1 as u64
    }

    fn uid_gid(&mut self) -> u64 {
        let thread = self.thread.1;
        *self.ids.get_or_insert_with(|| {
            let (user, group) = proc::real_ids(thread).unwrap_or((0, 0));
            u64::from(group) << 32 | u64::from(user)
        })
    }

    fn comm(&mut self) -> [u8; 16] {
        let (process, thread) = self.thread;
        *self.name.get_or_insert_with(|| {
            let mut comm = [0; 16];
            let name = match thread {
                0 => format!("swapper/{}", self.cpu).into_bytes(),
                _ => proc::comm(process, thread),
            };
            let len = name.len().min(15);
            comm[..len].copy_from_slice(&name[..len]);
            comm
        })
    }

    fn cgroup_id(&mut self) -> u64 {
        self.cgroups().last().copied().unwrap_or(0)
    }

    fn ancestor_cgroup_id(&mut self, level: u32) -> u64 {
        self.cgroups().get(level as usize).copied().unwrap_or(0)
    }

    fn is_under_cgroup(&mut self, cgroup: u32) -> bool {
        self.cgroups().iter().any(|id| cgroups::handle(*id) == cgroup)
    }

    fn current_task(&mut self) -> u64 {
        tasks::address(self.thread.1)
    }

    fn cpu(&mut self) -> u32 {
        self.cpu
    }

    fn random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) as u32
    }

    fn read_user(&mut self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
        // Memory that nobody fills takes its time.
        if self.read_for > MOST_READING {
            return Err(Errno::EFAULT);
        }
        let begin = Instant::now();
        let read = remote::read_exact(self.thread.1, addr, into);
        self.read_for += begin.elapsed();
        read.map_err(|_| Errno::EFAULT)
    }

    /// Linux tells addresses of users from others.
    fn read_kernel(&mut self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
        if let Some(read) = tasks::read(self.thread.1, addr, into) {
            return read;
        }
        Err(if addr < crate::TASK_SIZE { Errno::ERANGE } else { Errno::EFAULT })
    }

    fn packet(&mut self, at: u32, into: &mut [u8]) -> Result<(), Errno> {
        let found = self.packet.get(at as usize..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(found.ok_or(Errno::EFAULT)?);
        Ok(())
    }

    fn event_output(&mut self, event: u32, data: &[u8]) -> Result<(), Errno> {
        let event = self.event(event)?;
        self.events.output(event, data)
    }

    fn event_read(&mut self, event: u32) -> Result<[u64; 3], Errno> {
        let event = self.event(event)?;
        self.events.read(event)
    }

    fn own_event(&mut self) -> Result<[u64; 3], Errno> {
        Ok(self.values)
    }

    fn stack(&mut self, user: bool) -> Result<Vec<u64>, Errno> {
        let cpu_state = self.cpu_state;
        let stack = self.stacks[usize::from(user)].get_or_insert_with(|| {
            let mut chain = Vec::new();
            match user {
                true => cpu_state.user_chain(MOST_FRAMES, &mut chain),
                false if cpu_state.is_user() => {}
                false => cpu_state.kernel_chain(MOST_FRAMES, &mut chain),
            }
            chain.truncate(MOST_FRAMES);
            chain
        });
        Ok(stack.clone())
    }

    fn function_address(&mut self) -> u64 {
        self.cpu_state.ip()
    }

    fn cookie(&mut self) -> u64 {
        self.cookie
    }

    fn send_signal(&mut self, signal: u32, to_thread: bool) -> Result<(), Errno> {
        const LAST: u32 = 64;
        let (process, thread) = self.thread;
        // Neither an idle cpu, nor the first of all, nor the dead.
        if process <= 1 || proc::is_dead(thread) || !self.sees.has(thread) {
            return Err(Errno::EPERM);
        }
        if signal > LAST {
            return Err(Errno::EINVAL);
        }
        match to_thread {
            true => perfuse_sys::signal::send_to_thread(process, thread, signal as i32),
            false => perfuse_sys::signal::send(process, signal as i32),
        }
    }

    fn ring_wakes(&mut self, ring: MapId) {
        self.woken.push(ring);
    }
}
