//! The reasons a kernel, or something in front of it, has for refusing: one name each.

use std::fmt;

/// The kind of a [`Cause`]: the sort of thing that would have to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Rights: another user, a capability, a setting of the system or of its container.
    Permission,
    /// A limit of resources.
    Limit,
    /// The machine, the kernel or the PMU does not have it.
    Unsupported,
    /// The request contradicts itself or the rules.
    Invalid,
    /// Somebody else has it at the moment.
    Busy,
    /// The thing to be measured is no longer there, or never was.
    Gone,
    /// Everything else.
    Other,
}

/// Declares the causes with their kinds and their names for scripts.
macro_rules! causes {
    ($($(#[$doc:meta])+ $name:ident = $slug:literal $kind:ident $words:literal;)+) => {
        /// The reason behind an errno, as far as it can be told.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Cause {
            $($(#[$doc])+ $name,)+
        }

        impl Cause {
            /// Every cause there is.
            pub const ALL: &'static [Cause] = &[$(Cause::$name),+];

            /// A stable name for scripts, such as `no-hardware-pmu`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Cause::$name => $slug,)+
                }
            }

            /// The cause in a few words, such as "no hardware PMU here"; a diagnosis has the details.
            pub fn words(self) -> &'static str {
                match self {
                    $(Cause::$name => $words,)+
                }
            }

            /// The sort of reason.
            pub fn kind(self) -> Kind {
                match self {
                    $(Cause::$name => Kind::$kind,)+
                }
            }
        }
    };
}

causes! {
    /// `perf_event_paranoid` above 1 keeps users without privilege from measuring the kernel (rule B4).
    ParanoidKernel = "paranoid-kernel" Permission "not allowed: perf_event_paranoid > 1";
    /// `perf_event_paranoid` above 0 keeps them from measuring whole cpus and cgroups (rule B26).
    ParanoidCpuWide = "paranoid-cpu-wide" Permission "not allowed: perf_event_paranoid > 0";
    /// A distribution's level of `perf_event_paranoid` keeps them from everything.
    ParanoidClosed = "paranoid-closed" Permission "not allowed: perf_event_paranoid";
    /// `perf_event_paranoid` above -1 keeps them from raw tracepoint data (rule J31).
    ParanoidTracepoint = "paranoid-tracepoint" Permission "not allowed: perf_event_paranoid > -1";
    /// The thread belongs to somebody else, or may not be debugged (rule B25).
    ForeignTask = "foreign-task" Permission "the process belongs to somebody else";
    /// `ptrace(2)`, by which the embedded kernel measures, may not attach to the process.
    PtraceRefused = "ptrace-refused" Permission "ptrace may not attach to it";
    /// Only for `CAP_PERFMON`, whatever the settings: namespace records (rule B5), kprobes and uprobes
    /// (rule J50).
    PrivilegedFeature = "privileged-feature" Permission "needs CAP_PERFMON";
    /// A breakpoint in kernel memory needs `CAP_SYS_ADMIN` (rule J20).
    KernelBreakpoint = "kernel-breakpoint" Permission "kernel memory needs CAP_SYS_ADMIN";
    /// A seccomp filter, or another guard in front of the kernel, answers the call.
    Seccomp = "seccomp" Permission "a seccomp filter refuses the system call";
    /// Kernel lockdown (rules B8, J52).
    Lockdown = "lockdown" Permission "kernel lockdown";
    /// A security module such as SELinux (rules B3, B22).
    SecurityModule = "security-module" Permission "a security module refuses it";
    /// A file that is needed may not be read.
    FilePermission = "file-permission" Permission "a file may not be read";
    /// Rings may lock no more memory (rule F20).
    LockedMemory = "locked-memory" Limit "the limit of locked memory";
    /// The process has as many descriptors as it may have.
    OpenFiles = "open-files" Limit "no descriptors left";
    /// The system has as many descriptors as it may have.
    SystemFiles = "system-files" Limit "no descriptors left in the system";
    /// The machine is out of memory, or the size is beyond what the kernel allocates.
    Memory = "memory" Limit "no memory left";
    /// `perf_event_max_sample_rate` (rule B6).
    SampleRate = "sample-rate" Limit "above perf_event_max_sample_rate";
    /// `perf_event_max_stack` (rule B21).
    StackDepth = "stack-depth" Limit "above perf_event_max_stack";
    /// A group of more members than one `read(2)` may return (rule B31).
    GroupReadSize = "group-read-size" Limit "the group is too large to be read";
    /// The kernel was built without perf_events.
    NoPerfEvents = "no-perf-events" Unsupported "this kernel has no perf_events";
    /// Another kernel (gVisor, WSL 1) answers the system calls and has no perf_events.
    OtherKernel = "other-kernel" Unsupported "no Linux kernel here: no perf_events";
    /// The embedded kernel, which measures in place of Linux' perf_events, cannot have it.
    NotEmbedded = "not-embedded" Unsupported "not to be had without Linux' perf_events";
    /// There is no PMU for cycles, instructions, caches and branches.
    NoHardwarePmu = "no-hardware-pmu" Unsupported "no hardware PMU here";
    /// No PMU has this `attr.type`.
    UnknownPmu = "unknown-pmu" Unsupported "no such PMU here";
    /// The PMU has no such event.
    UnknownEvent = "unknown-event" Unsupported "the PMU has no such event";
    /// No tracepoint has this id (rule J30).
    UnknownTracepoint = "unknown-tracepoint" Unsupported "no such tracepoint";
    /// The attr asks for something this kernel does not know yet (rules A4, A8 to A10).
    TooNew = "too-new" Unsupported "newer than this kernel";
    /// The event cannot record branches.
    NoBranchStack = "no-branch-stack" Unsupported "cannot record branches";
    /// The event cannot sample as precisely as asked.
    NoPrecise = "no-precise" Unsupported "cannot be that precise";
    /// The PMU has no overflow interrupt: it counts but cannot sample (rule B23).
    NoSampling = "no-sampling" Unsupported "counts but cannot sample";
    /// The PMU has no AUX area, or does not allow this use of it (rule B18).
    NoAux = "no-aux" Unsupported "no AUX area";
    /// The PMU cannot record these registers (rules A13, B16).
    NoRegisters = "no-registers" Unsupported "cannot record these registers";
    /// The PMU counts user space, kernel and hypervisor together only (rule B16).
    NoExclude = "no-exclude" Unsupported "cannot leave out user space or kernel";
    /// The processor watches no memory, or not in this way (rule J20).
    NoBreakpoints = "no-breakpoints" Unsupported "no registers for such breakpoints";
    /// The PMU belongs to a package or the machine, not to tasks (rule B17).
    NotPerTask = "not-per-task" Unsupported "counts whole cpus only (-a)";
    /// Cgroups of this hierarchy have no events (rule B19).
    CgroupHierarchy = "cgroup-hierarchy" Unsupported "this cgroup tree has no events";
    /// A file that is needed does not exist: no tracing file system, an older kernel.
    NoFile = "no-file" Unsupported "a file does not exist";
    /// Bits of the open flags or of the attr that mean nothing (rules A8 to A11, B1).
    UnknownBits = "unknown-bits" Invalid "bits without a meaning";
    /// Fields of the attr that exclude, or require, each other (rules A11 to A21, B15).
    Contradiction = "contradiction" Invalid "options that do not go together";
    /// A field is out of its range.
    OutOfRange = "out-of-range" Invalid "a value out of range";
    /// No such cpu (rule B14).
    NoSuchCpu = "no-such-cpu" Invalid "no such cpu";
    /// Neither a thread nor a cpu, or a cgroup without a cpu (rules B9, B14).
    NoTarget = "no-target" Invalid "nobody to measure";
    /// A clock that does not exist, or not for this kind of event (rule B24).
    Clock = "clock" Invalid "no such clock for this event";
    /// The event does not go with its group leader (rules B13, B28, B29).
    Group = "group" Invalid "does not go with its group";
    /// An event that uses an AUX area needs a leader that owns one (rule B32).
    AuxLeader = "aux-leader" Invalid "needs a leader with an AUX area";
    /// The PMU has the event but not with these bits.
    EventConfig = "event-config" Invalid "the PMU does not take this config";
    /// A probe that cannot be placed there (rules J51, J52).
    ProbePlace = "probe-place" Invalid "cannot be probed there";
    /// A breakpoint of this type, length or alignment (rule J20).
    BreakpointShape = "breakpoint-shape" Invalid "no breakpoint can be like that";
    /// A ring whose data pages are not a power of two (rule F5).
    RingSize = "ring-size" Invalid "not a size of a ring";
    /// An inherited event that is not bound to a cpu has no ring (rule F1).
    RingInherit = "ring-inherit" Invalid "an inherited event needs a cpu to have a ring";
    /// The event's ring has another size, or it writes to the ring of another (rule F6).
    RingTaken = "ring-taken" Invalid "the event has a ring already";
    /// The AUX area does not follow from the control page (rule F9).
    AuxArea = "aux-area" Invalid "not an AUX area";
    /// Records cannot be redirected like this (rule G30).
    Redirection = "redirection" Invalid "records cannot go there";
    /// The event only counts, or its children are counted: no refresh, no period (rules C48, C49).
    NotSampling = "not-sampling" Invalid "for sampling events only";
    /// A filter the event does not understand or already has (rules J34, J40).
    Filter = "filter" Invalid "no such filter";
    /// A BPF program that does not fit the event (rules K1, K10).
    Bpf = "bpf" Invalid "the BPF program does not fit";
    /// The descriptor is not that of an event.
    NotAnEvent = "not-an-event" Invalid "not the descriptor of an event";
    /// The descriptor is not that of a cgroup's directory (rule B19).
    NotACgroup = "not-a-cgroup" Invalid "not a cgroup";
    /// Room for the answer was too small.
    ShortBuffer = "short-buffer" Invalid "too little room for the answer";
    /// Memory that cannot be read or written was passed.
    BadPointer = "bad-pointer" Invalid "memory that cannot be used";
    /// Members were added to or taken from the group after its task forked (rule D12).
    GroupChanged = "group-changed" Busy "the group changed after a fork";
    /// A pinned event found no room on the PMU and is in the error state (rule E1).
    NoRoom = "no-room" Busy "no room on the PMU";
    /// Every debug register is taken (rule J22).
    BreakpointSlots = "breakpoint-slots" Busy "every debug register is taken";
    /// Somebody else uses a PMU that has room for one (rules B20, B33).
    ExclusivePmu = "exclusive-pmu" Busy "somebody else uses the PMU";
    /// A passing shortage.
    TryAgain = "try-again" Busy "a passing shortage";
    /// A signal came first.
    Interrupted = "interrupted" Other "interrupted by a signal";
    /// No such thread, or it has ended.
    NoSuchTask = "no-such-task" Gone "no such process";
    /// The thread is ending.
    TaskExiting = "task-exiting" Gone "the process is ending";
    /// The cpu is offline (rule B27).
    CpuOffline = "cpu-offline" Gone "the cpu is offline";
    /// The group leader's task has ended (rules B11, B28).
    LeaderGone = "leader-gone" Gone "the group leader's task has ended";
    /// The event's PMU is gone.
    PmuGone = "pmu-gone" Gone "the PMU is gone";
    /// No such program.
    NoProgram = "no-program" Other "no such program";
    /// The program may not or cannot be executed.
    NotExecutable = "not-executable" Other "cannot be executed";
    /// None of the reasons above is known to apply.
    Unknown = "unknown" Other "refused";
}

impl Cause {
    /// Somebody with more rights, or under another setting or limit, would not be refused.
    pub fn is_permission(self) -> bool {
        matches!(self.kind(), Kind::Permission | Kind::Limit)
    }

    /// Nobody can have this on this machine and kernel.
    pub fn is_unsupported(self) -> bool {
        self.kind() == Kind::Unsupported
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Cause;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Cause::ALL.iter().map(|cause| cause.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Cause::ALL.len());
    }
}
