//! The plan of a recording, as plain data: which tasks, which events, how, and for how long.

use crate::Error;
use perfuse::abi::{AttrFlags, BranchSampleType, EventType, Hardware};
use perfuse::measurement::Lasts;
use perfuse::{Command, HeldCommand, Perf, Start};
use perfuse_events::{EventSpec, Precise, Source};
use std::ffi::OsString;
use std::time::Duration;

/// The targets, the events, and the way to record them. [`Plan::new`] has what `perf record` does without options.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// Which kernel records.
    pub kernel: Perf,
    /// The processes, threads or cpus to record.
    pub target: Target,
    /// Of what the cpus record, only these processes, or the command where there are none, are kept, with what they
    /// start.
    pub follow: Option<Vec<u32>>,
    /// Whole cpus may be sampled in place of the command: see [`Plan::following`].
    pub may_follow: bool,
    /// Whole cpus are sampled only where they are the target: not in place of the command, nor where processes have more threads
    /// than there are descriptors.
    pub never_follow: bool,
    /// The command to run: what is recorded, or what tells when to stop.
    pub command: Vec<OsString>,
    /// The command has nothing to read, and what it writes goes nowhere.
    pub silent: bool,
    /// The events.
    pub events: Vec<Request>,
    /// Where there are no cycles, the clock will do.
    pub default_events: bool,
    /// How often events are sampled that do not say it themselves.
    pub rate: Rate,
    /// The rate was asked for: it is also that of events which are usually sampled each time.
    pub rate_given: bool,
    /// How call chains are found; `None` for none.
    pub chains: Option<Chains>,
    /// When sampling starts.
    pub start: Start,
    /// Threads and processes that the tasks start are recorded too.
    pub inherit: bool,
    /// Each thread has a ring of its own.
    pub by_thread: bool,
    /// Pages of a ring; by default 512 KiB to 4 MiB in all.
    pub pages: Option<usize>,
    /// Rings keep the newest records until the end, or a [switch](Switch::Signal).
    pub overwrite: bool,
    /// Records about all that was there before come at the end.
    pub tail_synthesize: bool,
    /// Kinds of records about all that was there before.
    pub synth: Synth,
    /// The clock of times, by the number that `clock_gettime(2)` has for it; `None` for the kernel's own.
    pub clock: Option<i32>,
    /// The level of zstd.
    pub compression: Option<i32>,
    /// Build-ids are recorded.
    pub build_ids: bool,
    /// BPF programs are told of, those there are and those that come.
    pub bpf: bool,
    /// Records wait in their ring until it is half full, or for so long.
    pub buffering: bool,
    /// How long records wait in a ring that does not fill.
    pub read_every: Duration,
    /// More about each sample.
    pub fields: Fields,
    /// Flags of the event that tells about tasks: `CONTEXT_SWITCH`, `NAMESPACES`, `CGROUP`.
    pub sideband: AttrFlags,
    /// BPF programs make one sample of all of a thread at a stack, in the kernel: the file is small, and has no times of single samples.
    /// Takes root, or CAP_BPF and CAP_PERFMON; otherwise each sample is recorded.
    pub fold: bool,
    /// Kinds of branches to record with each sample.
    pub branches: BranchSampleType,
    /// When to go on in a new file.
    pub switch: Switch,
    /// Recording stops when so many bytes are written.
    pub max_bytes: Option<u64>,
    /// All options that events were recorded without are told, also those about which perf is silent.
    pub verbose: bool,
    /// Signals (SIGINT, SIGTERM, SIGHUP end the recording, SIGUSR2 switches) are caught, and the process goes before
    /// others on busy cpus: for programs that do nothing else meanwhile.
    pub owns_process: bool,
}

/// Samples a second, unless asked otherwise: a prime number, so that what the machine does in step with
/// its clock is not missed or hit always.
pub const HZ: u64 = 997;

impl Plan {
    /// Cycles [so many times](HZ) a second, or the clock where there is no PMU, by Linux. `command` is what is recorded if that
    /// is the target, or tells when to stop.
    pub fn new(target: Target, command: Vec<OsString>) -> Self {
        Plan {
            kernel: Perf::linux(),
            follow: None,
            may_follow: false,
            never_follow: false,
            command,
            silent: false,
            events: vec![Request::cycles()],
            default_events: true,
            rate: Rate::Frequency(HZ),
            rate_given: false,
            chains: None,
            start: Start::AtOnce,
            inherit: true,
            by_thread: false,
            pages: None,
            overwrite: false,
            tail_synthesize: false,
            synth: Synth { tasks: true, maps: true, cgroups: true },
            clock: Some(1),
            compression: None,
            build_ids: true,
            bpf: true,
            buffering: true,
            read_every: Duration::from_millis(100),
            fields: Fields { cpu: matches!(target, Target::Cpus(_)), ..Fields::default() },
            sideband: AttrFlags::empty(),
            fold: false,
            branches: BranchSampleType::empty(),
            switch: Switch::Never,
            max_bytes: None,
            verbose: false,
            owns_process: false,
            target,
        }
    }

    /// The same recording made by sampling whole cpus, if that is a matter of course: clocks of tasks begin
    /// anew in each process, and never sample one that ends within a period.
    pub fn following(&self) -> Option<Plan> {
        let mut plan = (self.may_follow && !self.never_follow && !self.fold).then(|| self.clone())?;
        (plan.target, plan.follow) =
            (Target::Cpus(self.kernel.surroundings().online_cpus()), Some(Vec::new()));
        plan.fields.cpu = true;
        Some(plan)
    }

    /// The command, held before it is executed.
    pub(crate) fn hold(&self) -> Result<Option<HeldCommand>, Error> {
        let Some((program, rest)) = self.command.split_first() else { return Ok(None) };
        let command = Command::new(program).args(rest);
        let command = if self.silent { command.silent().map_err(Error::Io)? } else { command };
        Ok(Some(command.hold()?))
    }

    /// Without a command: how long it lasts.
    pub(crate) fn lasts(&self) -> Lasts<'_> {
        match (&self.target, &self.follow) {
            (Target::Processes(pids), _) | (Target::Command | Target::Cpus(_), Some(pids)) => {
                Lasts::Processes(pids)
            }
            (Target::Threads(tids), _) => Lasts::Threads(tids),
            (Target::Command | Target::Cpus(_), None) => Lasts::Forever,
        }
    }

    /// The recording of running processes made in the same way: as whole cpus need few descriptors, it can be
    /// had where there are too many threads. It says the same about each process.
    pub(crate) fn following_processes(&self) -> Option<Plan> {
        let Target::Processes(pids) = &self.target else { return None };
        let same = |request: &Request| {
            request.spec.options.time != Some(false) && !request.spec.sample_read && request.cgroup.is_none()
        };
        let may = self.inherit
            && !(self.never_follow || self.fold)
            && !(self.by_thread || self.overwrite || self.fields.no_samples || self.fields.per_thread_counts)
            && self.events.iter().all(same);
        may.then(|| {
            let mut plan = self.clone();
            (plan.target, plan.follow) =
                (Target::Cpus(self.kernel.surroundings().online_cpus()), Some(pids.clone()));
            plan.fields.cpu = true;
            plan
        })
    }
}

/// The processes, threads or cpus to record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The command of the plan.
    Command,
    /// Processes with their threads.
    Processes(Vec<u32>),
    /// Threads.
    Threads(Vec<u32>),
    /// All that runs on these cpus.
    Cpus(Vec<u32>),
}

/// An event to sample.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which.
    pub spec: EventSpec,
    /// Only these hits of a tracepoint, in the kernel's language.
    pub filter: Option<String>,
    /// Neighbours with the same number form a group.
    pub group: Option<u32>,
    /// The group's name.
    pub group_name: Option<String>,
    /// Rather apart from the group than not at all.
    pub weak: bool,
    /// Only tasks of this cgroup are sampled.
    pub cgroup: Option<String>,
    /// Each hit is read at once, whatever waits else.
    pub prompt: bool,
    /// It is the [time that threads sleep](Request::off_cpu).
    pub off_cpu: bool,
}

impl Request {
    /// An event by itself.
    pub fn new(spec: EventSpec) -> Self {
        Request {
            spec,
            filter: None,
            group: None,
            group_name: None,
            weak: false,
            cgroup: None,
            prompt: false,
            off_cpu: false,
        }
    }

    /// `cycles:P`, as precise as the processor can.
    pub fn cycles() -> Self {
        let source =
            Source::Kernel { type_: EventType::HARDWARE, config: Hardware::CPU_CYCLES.0, more: [0; 4] };
        let mut spec = EventSpec::new("cycles:P", source);
        spec.precise = Precise::Most;
        Request::new(spec)
    }

    /// Whether it is a tracepoint, and told as one.
    pub fn is_tracepoint(&self) -> bool {
        !self.off_cpu && self.spec.event_type() == Some(EventType::TRACEPOINT)
    }
}

/// How often an event is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rate {
    /// So many times a second.
    Frequency(u64),
    /// Once in so many occurrences.
    Period(u64),
}

/// How call chains are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chains {
    /// By the kernel, which follows frame pointers.
    FramePointers,
    /// From a copy of so many bytes of the stack, a multiple of 8 below 64 KiB, by those who read the recording.
    Stack(u32),
    /// From such a copy while the recording is made: it has the call chains alone. If not told how many bytes, as many as the
    /// rings have room for.
    Unwound(Option<u32>),
    /// By the processor, from its last branches.
    LastBranches,
}

impl Chains {
    /// Bytes of a stack that stay in a recording, unless told.
    pub const STACK_BYTES: u32 = 8192;
    /// More bytes are not copied by the kernel.
    pub const MOST_STACK_BYTES: u32 = u16::MAX as u32 / 8 * 8;
}

/// More about each sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// The address of data.
    pub data: bool,
    /// The weight, such as a latency.
    pub weight: bool,
    /// The physical address of data.
    pub physical: bool,
    /// The size of the page of data.
    pub page_size: bool,
    /// The size of the page of code.
    pub code_page_size: bool,
    /// Flags of transactions.
    pub transaction: bool,
    /// A mask of user registers; 0 for none.
    pub user_regs: u64,
    /// A mask of registers where the sample was taken; 0 for none.
    pub intr_regs: u64,
    /// Only totals are recorded.
    pub no_samples: bool,
    /// Raw bytes.
    pub raw: bool,
    /// For how much of the time each event was counted, with the values of groups.
    pub times: bool,
    /// The cpu.
    pub cpu: bool,
    /// The identifier of the event in front.
    pub identifier: bool,
    /// The period.
    pub period: bool,
    /// The cgroup.
    pub cgroup: bool,
    /// Counts of each thread.
    pub per_thread_counts: bool,
    /// `AttrFlags::EXCLUDE_*` for all events.
    pub exclude: AttrFlags,
    /// Of call chains, the side that is left out: `AttrFlags::EXCLUDE_CALLCHAIN_*`.
    pub exclude_chains: AttrFlags,
}

/// When to go on in a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Switch {
    /// Never.
    Never,
    /// On SIGUSR2.
    Signal,
    /// After so many bytes.
    Size(u64),
    /// Again and again after so long.
    Every(Duration),
}

/// Kinds of records about all that was there before a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synth {
    /// Processes, threads, names.
    pub tasks: bool,
    /// Their maps.
    pub maps: bool,
    /// Cgroups.
    pub cgroups: bool,
}

impl std::str::FromStr for Synth {
    type Err = String;

    /// `no`, `all`, or some of `task,mmap,cgroup`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut synth = Synth { tasks: false, maps: false, cgroups: false };
        for word in text.split(',') {
            match word {
                "no" | "none" => {}
                "all" => synth = Synth { tasks: true, maps: true, cgroups: true },
                "task" => synth.tasks = true,
                "mmap" => synth.maps = true,
                "cgroup" => synth.cgroups = true,
                other => return Err(format!("there are no, all, task, mmap and cgroup, not '{other}'")),
            }
        }
        Ok(synth)
    }
}

/// Kinds of branches, and what the side is called that is looked at.
const BRANCH_KINDS: [(&str, BranchSampleType); 18] = [
    ("any", BranchSampleType::ANY),
    ("any_call", BranchSampleType::ANY_CALL),
    ("any_ret", BranchSampleType::ANY_RETURN),
    ("ind_call", BranchSampleType::IND_CALL),
    ("ind_jmp", BranchSampleType::IND_JUMP),
    ("call", BranchSampleType::CALL),
    ("cond", BranchSampleType::COND),
    ("in_tx", BranchSampleType::IN_TX),
    ("no_tx", BranchSampleType::NO_TX),
    ("abort_tx", BranchSampleType::ABORT_TX),
    ("stack", BranchSampleType::CALL_STACK),
    ("save_type", BranchSampleType::TYPE_SAVE),
    ("hw_index", BranchSampleType::HW_INDEX),
    ("priv", BranchSampleType::PRIV_SAVE),
    ("counter", BranchSampleType::COUNTERS),
    ("u", BranchSampleType::USER),
    ("k", BranchSampleType::KERNEL),
    ("hv", BranchSampleType::HV),
];

/// The names that [`branch_kinds`] knows.
pub fn branch_kind_names() -> impl Iterator<Item = &'static str> {
    BRANCH_KINDS.iter().map(|(name, _)| *name)
}

/// Kinds of branches by their names, separated by commas: `any_call,u`.
///
/// # Errors
///
/// [`Error::Plan`] names the first that is unknown.
pub fn branch_kinds(list: &str) -> Result<BranchSampleType, Error> {
    let kind = |name: &str| {
        let known = BRANCH_KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        known.ok_or_else(|| Error::Plan(format!("-j does not know '{name}'; any, any_call, any_ret, ...")))
    };
    list.split(',').try_fold(BranchSampleType::empty(), |all, name| Ok(all | kind(name)?))
}
