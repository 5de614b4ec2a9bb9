//! How an event is asked for, and how the asking adapts to what the kernel takes.
//!
//! A [`Builder`] keeps two attrs: what is *wanted*, and what is *required* at least. They differ in the
//! preferences. When the kernel refuses the wanted one, preferences are given up, as few as possible,
//! and the [`Counter`] says which and why.

use crate::call::{Call, Subject};
use crate::count::Count;
use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::handle::Handle;
use crate::options::{Clock, GivenUp, GivenUpWhy, Inherit};
use crate::perf::Perf;
use crate::support::Support;
use crate::target::Target;
use perfuse_abi::{Attr, AttrFlags, Field, OpenFlags, ReadFormat, Release, SampleType};
use perfuse_sys::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// Which privilege levels are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sides {
    /// User space and kernel; where the kernel side is refused, user space, and that is said.
    Prefer,
    /// As the attr says.
    Exactly,
}

/// An event to be opened: what to count, for whom, and how.
///
/// By default the calling thread is measured, in user space and in the kernel, from the moment the
/// counter is enabled. Where the kernel side is not allowed to this user, user space alone is counted,
/// and [`Counter::given_up`] says so; say [`user_only`](Self::user_only) or
/// [`user_and_kernel`](Self::user_and_kernel) to have it one way or not at all.
///
/// ```
/// # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
/// use perfuse::{Counter, Target, abi::Software};
///
/// let mut counter = Counter::builder(Software::TASK_CLOCK).target(Target::this_thread()).open()?;
/// counter.enable()?;
/// std::hint::black_box((0..10_000).sum::<u64>());
/// counter.disable()?;
/// assert!(counter.read()?.value > 0);
/// # Ok::<(), perfuse::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) kernel: Perf,
    pub(crate) event: Event,
    pub(crate) target: Target,
    wanted: Attr,
    required: Attr,
    sides: Sides,
}

impl Builder {
    /// Counts `event` on the calling thread, with Linux ([`Perf::counter`]: with another kernel).
    pub fn new(event: impl Into<Event>) -> Self {
        let event = event.into();
        let mut attr = Attr { read_format: Count::FORMAT, ..Attr::default() };
        attr.flags = AttrFlags::DISABLED;
        event.apply(&mut attr);
        let mut required = attr;
        required.read_format.remove(ReadFormat::LOST);
        let target = Target::this_thread().into();
        let sides = Sides::Prefer;
        Builder { kernel: Perf::linux(), event, target, wanted: attr, required, sides }
    }

    /// The kernel to ask, in place of the running Linux.
    #[must_use]
    pub fn kernel(mut self, kernel: impl Into<Perf>) -> Self {
        self.kernel = kernel.into();
        self
    }

    /// The process, thread, cgroup or cpu to measure.
    #[must_use]
    pub fn target(mut self, target: impl Into<Target>) -> Self {
        self.target = target.into();
        self
    }

    /// Changes the attr in any way: the door to everything that has no method here. It starts with the type
    /// and config words of the event.
    #[must_use]
    pub fn with(mut self, change: impl Fn(&mut Attr)) -> Self {
        change(&mut self.wanted);
        change(&mut self.required);
        self
    }

    /// Like [`with`](Self::with), for what may be given up if the kernel refuses it.
    ///
    /// ```
    /// # if perfuse::Perf::linux_refuses().is_some() { return Ok(()) }
    /// use perfuse::{Counter, abi::{AttrFlags, Software}};
    /// let counter = Counter::builder(Software::DUMMY)
    ///     .prefer(|attr| attr.config4 = 1) // Linux 6.19
    ///     .prefer(|attr| attr.flags |= AttrFlags::COMM_EXEC)
    ///     .open()?;
    /// for given_up in counter.given_up() {
    ///     println!("measuring without {given_up}");
    /// }
    /// # Ok::<(), perfuse::Error>(())
    /// ```
    #[must_use]
    pub fn prefer(mut self, change: impl FnOnce(&mut Attr)) -> Self {
        change(&mut self.wanted);
        self
    }

    fn flag(self, flag: AttrFlags, on: bool) -> Self {
        self.with(|attr| attr.flags.set(flag, on))
    }

    /// Starts counting at once, in place of waiting for [`Counter::enable`].
    #[must_use]
    pub fn enabled(self, on: bool) -> Self {
        self.flag(AttrFlags::DISABLED, !on)
    }

    /// Counts user space only. The usual choice without privileges.
    #[must_use]
    pub fn user_only(mut self) -> Self {
        self.sides = Sides::Exactly;
        self.flag(AttrFlags::EXCLUDE_USER, false).flag(KERNEL_SIDE, true)
    }

    /// Counts the kernel only. Needs `CAP_PERFMON` or `perf_event_paranoid` of 1 at most.
    #[must_use]
    pub fn kernel_only(mut self) -> Self {
        self.sides = Sides::Exactly;
        self.flag(AttrFlags::EXCLUDE_USER, true).flag(KERNEL_SIDE, false)
    }

    /// Counts both, or fails.
    #[must_use]
    pub fn user_and_kernel(mut self) -> Self {
        self.sides = Sides::Exactly;
        self.flag(AttrFlags::EXCLUDE_USER.union(KERNEL_SIDE), false)
    }

    /// Which tasks inherit the event from the measured one.
    #[must_use]
    pub fn inherit(self, inherit: Inherit) -> Self {
        self.flag(AttrFlags::INHERIT, inherit != Inherit::No)
            .flag(AttrFlags::INHERIT_THREAD, inherit == Inherit::Threads)
    }

    /// Must always be on the PMU; where that is impossible, reading fails.
    #[must_use]
    pub fn pinned(self, on: bool) -> Self {
        self.flag(AttrFlags::PINNED, on)
    }

    /// Must be alone on the PMU.
    #[must_use]
    pub fn exclusive(self, on: bool) -> Self {
        self.flag(AttrFlags::EXCLUSIVE, on)
    }

    /// Starts counting when the measured task execs.
    #[must_use]
    pub fn enable_on_exec(self, on: bool) -> Self {
        self.flag(AttrFlags::ENABLE_ON_EXEC, on)
    }

    /// Leaves the measured task when it execs (Linux 5.13).
    #[must_use]
    pub fn remove_on_exec(self, on: bool) -> Self {
        self.flag(AttrFlags::REMOVE_ON_EXEC, on)
    }

    /// Sends the measured thread a synchronous `SIGTRAP` at each overflow, with `data` as its
    /// `si_perf_data` (Linux 5.13). Needs a period; implies [`remove_on_exec`](Self::remove_on_exec), as
    /// the kernel demands.
    #[must_use]
    pub fn sigtrap(self, data: u64) -> Self {
        self.flag(AttrFlags::SIGTRAP.union(AttrFlags::REMOVE_ON_EXEC), true).with(|attr| attr.sig_data = data)
    }

    /// Samples every `occurrences`.
    #[must_use]
    pub fn period(self, occurrences: u64) -> Self {
        self.with(|attr| attr.set_period(occurrences))
    }

    /// Samples about `hz` times a second.
    #[must_use]
    pub fn frequency(self, hz: u64) -> Self {
        self.with(|attr| attr.set_sample_freq(hz))
    }

    /// Adds fields to each sample.
    #[must_use]
    pub fn sample(self, fields: SampleType) -> Self {
        self.with(|attr| attr.sample_type |= fields)
    }

    /// How near to the event a sample's instruction must be, 0 to 3.
    #[must_use]
    pub fn precise(self, level: u8) -> Self {
        self.with(|attr| attr.flags = attr.flags.with_precise_ip(level))
    }

    /// The most precise level up to 3 that the kernel accepts for the event.
    #[must_use]
    pub fn most_precise(self) -> Self {
        self.prefer(|attr| attr.flags = attr.flags.with_precise_ip(3))
    }

    /// The clock of timestamps (Linux 4.1).
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        self.flag(AttrFlags::USE_CLOCKID, true).with(|attr| attr.clockid = clock as i32)
    }

    /// The attr as it would be asked for first.
    pub fn attr(&self) -> Attr {
        self.attrs().0
    }

    /// The wanted and the required attr, complete.
    fn attrs(&self) -> (Attr, Attr) {
        let (wanted, mut required) = (self.wanted, self.required);
        if self.sides == Sides::Prefer && !self.event.is_kernel_only() {
            required.flags |= KERNEL_SIDE;
        }
        (wanted, required)
    }

    /// Opens the event as a counter of its own.
    pub fn open(&self) -> Result<Counter> {
        self.open_in(None)
    }

    /// Opens the event, as a member of the group that `leader` leads if one is given.
    pub(crate) fn open_in(&self, leader: Option<&Handle>) -> Result<Counter> {
        self.open_like(leader, None, &mut None)
    }

    /// [`open_in`](Self::open_in), where `earlier` was refused before, perhaps for the same reason, and
    /// `accepted` is what became of the event on the target before, and what now becomes of it.
    pub(crate) fn open_like(
        &self,
        leader: Option<&Handle>,
        earlier: Option<&Error>,
        accepted: &mut Option<Accepted>,
    ) -> Result<Counter> {
        let (mut wanted, mut required) = self.attrs();
        let (pid, cpu, flags) = self.target.arguments();
        // On whole cpus nothing is inherited.
        let breaks_forks = pid != -1
            && self.event.is_named_probe()
            && wanted.flags.contains(AttrFlags::INHERIT)
            && self.kernel.facts().inherited_probes_break_forks;
        if breaks_forks {
            wanted.flags.remove(AttrFlags::INHERIT);
            required.flags.remove(AttrFlags::INHERIT);
        }
        let opening = Opening { builder: self, leader, earlier };
        // Of thousands of threads, each is asked once.
        let again = accepted.as_ref().filter(|accepted| accepted.asked == (wanted, required));
        let again = again.and_then(|accepted| opening.attempt(&accepted.attr).ok());
        let (fd, accepted) = match (again, accepted) {
            (Some(fd), Some(accepted)) => (fd, &*accepted),
            (_, accepted) => {
                let (fd, attr, mut given_up) = opening.adapt(wanted, required)?;
                if breaks_forks {
                    given_up.push(GivenUp { what: "inherit".to_owned(), why: GivenUpWhy::BreaksForks });
                }
                (fd, &*accepted.insert(Accepted { asked: (wanted, required), attr, given_up }))
            }
        };
        let subject = Subject::with_flags(accepted.attr, pid, cpu, flags);
        let handle = Handle::new(self.kernel.shared(), fd, subject);
        Ok(Counter::from_handle(handle, self.event.clone(), accepted.given_up.clone()))
    }
}

impl Perf {
    /// Counts `event` on the calling thread, as [`Builder::new`] does, with this kernel.
    pub fn counter(&self, event: impl Into<Event>) -> Builder {
        Builder::new(event).kernel(self)
    }
}

impl Counter {
    /// Opens `event` on the calling thread, not yet counting.
    pub fn new(event: impl Into<Event>) -> Result<Self> {
        Builder::new(event).open()
    }

    /// To choose the target and the rest.
    pub fn builder(event: impl Into<Event>) -> Builder {
        Builder::new(event)
    }
}

/// The part of an event that the kernel accepted.
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    /// The wanted and the required attr.
    asked: (Attr, Attr),
    pub(crate) attr: Attr,
    pub(crate) given_up: Vec<GivenUp>,
}

/// The flags that leave the kernel side out.
const KERNEL_SIDE: AttrFlags = AttrFlags::EXCLUDE_KERNEL.union(AttrFlags::EXCLUDE_HV);

/// One difference between the wanted and the required attr, that can be given up by itself.
#[derive(Clone, Copy, Debug)]
struct Preference {
    what: &'static str,
    set: &'static str,
    since: Release,
    give_up: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// These flags, and the fields that go with them, get the required values.
    Flags(AttrFlags),
    /// Likewise.
    SampleType(SampleType),
    /// These flags get the required values.
    ReadFormat(ReadFormat),
    /// One level less.
    Precise,
    /// These bytes of the attr get the required values.
    Field(&'static Field),
}

/// The flag without which a field of the attr means nothing, or something else.
fn owner(field: &Field) -> Option<Step> {
    Some(match field.name {
        "sample_period" => Step::Flags(AttrFlags::FREQ),
        "wakeup_events" => Step::Flags(AttrFlags::WATERMARK),
        "clockid" => Step::Flags(AttrFlags::USE_CLOCKID),
        "sig_data" => Step::Flags(AttrFlags::SIGTRAP),
        "branch_sample_type" => Step::SampleType(SampleType::BRANCH_STACK),
        "sample_regs_user" => Step::SampleType(SampleType::REGS_USER),
        "sample_stack_user" => Step::SampleType(SampleType::STACK_USER),
        "sample_regs_intr" => Step::SampleType(SampleType::REGS_INTR),
        "sample_max_stack" => Step::SampleType(SampleType::CALLCHAIN),
        "aux_sample_size" => Step::SampleType(SampleType::AUX),
        _ => return None,
    })
}

/// The fields that go with any of these flags.
fn owned(flags: AttrFlags, sample_type: SampleType) -> impl Iterator<Item = &'static Field> {
    Attr::FIELDS.iter().filter(move |field| match owner(field) {
        Some(Step::Flags(owner)) => flags.contains(owner),
        Some(Step::SampleType(owner)) => sample_type.contains(owner),
        _ => false,
    })
}

impl Preference {
    fn apply(&self, attr: &mut Attr, required: &Attr) {
        match self.give_up {
            Step::Flags(bits) => {
                attr.flags = attr.flags.difference(bits) | required.flags.intersection(bits);
                owned(bits, SampleType::empty()).for_each(|field| field.copy(required, attr));
            }
            Step::SampleType(bits) => {
                attr.sample_type =
                    attr.sample_type.difference(bits) | required.sample_type.intersection(bits);
                owned(AttrFlags::empty(), bits).for_each(|field| field.copy(required, attr));
            }
            Step::ReadFormat(bits) => {
                attr.read_format =
                    attr.read_format.difference(bits) | required.read_format.intersection(bits);
            }
            Step::Precise => {
                let level = attr.flags.precise_ip();
                let lower = level.saturating_sub(1).max(required.flags.precise_ip());
                attr.flags = attr.flags.with_precise_ip(lower);
            }
            Step::Field(field) => field.copy(required, attr),
        }
    }

    /// Whether a kernel can answer with this errno because of it; the others are about the event, its
    /// target, or limits.
    fn may_be_the_reason(&self, errno: Errno) -> bool {
        let is_field = matches!(self.give_up, Step::Field(_));
        let is_format = matches!(self.give_up, Step::ReadFormat(_));
        // Leaving the kernel out is what some PMUs refuse; asking for it is a matter of rights.
        let is_right = matches!(self.give_up, Step::Flags(KERNEL_SIDE));
        match errno {
            Errno::E2BIG | Errno::EINVAL | Errno::EOPNOTSUPP if is_right => false,
            Errno::E2BIG | Errno::EINVAL => true,
            Errno::EACCES | Errno::EPERM => !is_format && !matches!(self.give_up, Step::Precise),
            Errno::EOPNOTSUPP => !is_format,
            Errno::ENOSYS => matches!(self.give_up, Step::SampleType(_)),
            Errno::ENOENT | Errno::EOVERFLOW => is_field,
            _ => false,
        }
    }

    fn is_known(&self, support: &Support) -> bool {
        match self.give_up {
            Step::Flags(bits) => support.flags.contains(bits),
            Step::SampleType(bits) => support.sample_type.contains(bits),
            Step::ReadFormat(bits) => support.read_format.contains(bits),
            Step::Precise => true,
            Step::Field(field) => support.attr_size >= field.attr_size(),
        }
    }

    fn given_up(&self, why: GivenUpWhy) -> GivenUp {
        let what = match (self.set, self.what) {
            ("", what) => what.to_owned(),
            ("attr", what) => what.to_lowercase(),
            (set, what) => format!("{set} {what}"),
        };
        GivenUp { what, why }
    }
}

/// All single differences.
fn preferences(wanted: &Attr, required: &Attr) -> Vec<Preference> {
    /// Since ever: what is known to every kernel, or has no name here, so that only asking can tell.
    const EVER: Release = Release::v2_6(31);
    const NAMELESS: &str = "UNKNOWN BITS";
    let mut all = Vec::new();
    let mut add = |set, what, since, give_up| all.push(Preference { what, set, since, give_up });
    let mut flags = (wanted.flags ^ required.flags).difference(AttrFlags::PRECISE_IP_MASK);
    if flags.intersects(KERNEL_SIDE) {
        add("", "kernel side", EVER, Step::Flags(KERNEL_SIDE));
        flags.remove(KERNEL_SIDE);
    }
    let mut named = flags.iter_names();
    named.by_ref().for_each(|(what, flag)| add("attr", what, flag.since(), Step::Flags(flag)));
    if !named.remaining().is_empty() {
        add("attr", NAMELESS, EVER, Step::Flags(*named.remaining()));
    }
    let sample_type = wanted.sample_type ^ required.sample_type;
    let mut named = sample_type.iter_names();
    named.by_ref().for_each(|(what, f)| add("sample_type", what, f.since(), Step::SampleType(f)));
    if !named.remaining().is_empty() {
        add("sample_type", NAMELESS, EVER, Step::SampleType(*named.remaining()));
    }
    let mut named = (wanted.read_format ^ required.read_format).iter_names();
    named.by_ref().for_each(|(what, f)| add("read_format", what, f.since(), Step::ReadFormat(f)));
    if !named.remaining().is_empty() {
        add("read_format", NAMELESS, EVER, Step::ReadFormat(*named.remaining()));
    }
    for _ in required.flags.precise_ip()..wanted.flags.precise_ip() {
        add("", "precise_ip", Release::v2_6(35), Step::Precise);
    }
    let by_bits = ["flags", "sample_type", "read_format"];
    let Attr { flags: wanted_flags, sample_type: wanted_type, read_format, .. } = *wanted;
    let others = Attr { flags: wanted_flags, sample_type: wanted_type, read_format, ..*required };
    // Mostly the bits are all.
    let fields = if *wanted == others { &[][..] } else { Attr::FIELDS };
    for field in fields.iter().filter(|field| !by_bits.contains(&field.name)) {
        let with_its_owner = match owner(field) {
            Some(Step::Flags(owner)) => flags.contains(owner),
            Some(Step::SampleType(owner)) => sample_type.contains(owner),
            _ => false,
        };
        if field.get(wanted) != field.get(required) && !with_its_owner {
            add("", field.name, field.since, Step::Field(field));
        }
    }
    all
}

/// One opening of one event, in as many attempts as it takes.
struct Opening<'a> {
    builder: &'a Builder,
    leader: Option<&'a Handle>,
    /// The refusal before this attempt, if there was one.
    earlier: Option<&'a Error>,
}

impl Opening<'_> {
    fn attempt(&self, attr: &Attr) -> Result<OwnedFd, Errno> {
        // A copy, since the kernel may write the size it knows. An older kernel takes the newest size as
        // well, as long as the bytes it does not know are zero (rule A4).
        let mut attr = *attr;
        let (pid, cpu, flags) = self.builder.target.arguments();
        let flags = flags | OpenFlags::FD_CLOEXEC;
        let leader = self.leader.map(Handle::as_fd);
        let answer = self.builder.kernel.perf_event_open(&mut attr, pid, cpu, leader, flags);
        let refused = answer.as_ref().err();
        log::debug!(
            "perf_event_open: type {} config {:#x} pid {pid} cpu {cpu}: {}",
            attr.type_.0,
            attr.config,
            refused.map_or("opened".to_owned(), Errno::to_string)
        );
        log::trace!("{attr:?}");
        answer
    }

    fn error(&self, attr: Attr, errno: Errno) -> Error {
        let (pid, cpu, flags) = self.builder.target.arguments();
        let flags = flags | OpenFlags::FD_CLOEXEC;
        let leader = self.leader.map(|leader| Box::new(leader.subject));
        let kernel = &self.builder.kernel;
        let call = Call::Open { attr, pid, cpu, leader, flags };
        Error::like(self.earlier, call, errno, |call, subject| kernel.explain(call, subject, errno))
    }

    /// Opens with as much of `wanted` as the kernel takes, at least `required`.
    fn adapt(&self, wanted: Attr, required: Attr) -> Result<(OwnedFd, Attr, Vec<GivenUp>)> {
        let first = match self.attempt(&wanted) {
            Ok(fd) => return Ok((fd, wanted, Vec::new())),
            Err(errno) => errno,
        };
        let all = preferences(&wanted, &required);
        let without = |dropped: &[bool]| {
            let mut attr = wanted;
            let dropped = all.iter().zip(dropped).filter(|(_, dropped)| **dropped);
            dropped.for_each(|(preference, _)| preference.apply(&mut attr, &required));
            attr
        };
        let mut dropped = vec![false; all.len()];
        let mut failed = vec![(wanted, first)];
        let mut given_up = Vec::new();

        // Without everything that may be the reason. The answer can then be another one.
        let (mut fd, mut best) = loop {
            let (attr, errno) = failed[failed.len() - 1];
            let reasons = (0..all.len()).filter(|&i| !dropped[i] && all[i].may_be_the_reason(errno));
            let mut reasons: Vec<_> = reasons.collect();
            if reasons.is_empty() {
                return Err(self.error(attr, errno));
            }
            // Options that the kernel does not know are given up first, and for good.
            if [Errno::E2BIG, Errno::EINVAL].contains(&errno) {
                let support = self.builder.kernel.support();
                let unknown = reasons.iter().copied().filter(|&i| !all[i].is_known(support));
                let unknown: Vec<_> = unknown.collect();
                let why = |i: usize| GivenUpWhy::UnknownToKernel(all[i].since);
                given_up.extend(unknown.iter().map(|&i| all[i].given_up(why(i))));
                if !unknown.is_empty() {
                    reasons = unknown;
                }
            }
            reasons.iter().for_each(|&i| dropped[i] = true);
            let attr = without(&dropped);
            match self.attempt(&attr) {
                Ok(fd) => break (fd, attr),
                Err(errno) => failed.push((attr, errno)),
            }
        };

        // And one after the other back in, as long as the kernel agrees.
        let support_is_asked = !given_up.is_empty();
        for index in 0..all.len() {
            let unknown = support_is_asked && !all[index].is_known(self.builder.kernel.support());
            if !dropped[index] || unknown {
                continue;
            }
            dropped[index] = false;
            let attr = without(&dropped);
            let answer = match failed.iter().find(|(known, _)| *known == attr) {
                Some((_, errno)) => Err(*errno),
                None => self.attempt(&attr),
            };
            match answer {
                Ok(better) => {
                    self.builder.kernel.close(std::mem::replace(&mut fd, better));
                    best = attr;
                }
                Err(errno) => {
                    dropped[index] = true;
                    failed.push((attr, errno));
                    given_up.push(all[index].given_up(GivenUpWhy::Refused(errno)));
                }
            }
        }
        // Each level of precision is a preference of its own.
        given_up.dedup();
        given_up.iter().for_each(|given_up| log::info!("an event is opened without {given_up}"));
        Ok((fd, best, given_up))
    }
}
