//! How openings adapt to what the kernel takes, on the running kernel and on others that the tests make
//! up. The made-up ones are also the proof that everything goes through `trait Kernel`.

use perfuse::abi::{
    Attr, AttrFlags, BranchSampleType, Hardware, OpenFlags, ReadFormat, Release, SampleType, Software,
};
use perfuse::kernel::{Kernel, KernelFacts, Mapping, Protection, Request, Wrap};
use perfuse::{
    Builder, Count, Counter, CounterSet, Errno, Event, GivenUp, GivenUpWhy, Group, Inherit, Perf, Sampler,
    Scope, Support, Target,
};
use perfuse_testkit::work::Pages;
use perfuse_testkit::{Outcome, Sandbox, Skip, need, suite};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

/// The running kernel, with a count of what is asked of it.
#[derive(Debug, Default)]
struct Counting {
    opens: AtomicUsize,
    closes: AtomicUsize,
    reads: AtomicUsize,
    ioctls: Mutex<Vec<u32>>,
    mappings: AtomicUsize,
}

impl Counting {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn opens(&self) -> usize {
        self.opens.load(Relaxed)
    }
}

impl Wrap for Counting {
    fn inner(&self) -> &dyn Kernel {
        static LINUX: OnceLock<Perf> = OnceLock::new();
        &**LINUX.get_or_init(Perf::linux)
    }

    fn name(&self) -> &str {
        "Linux, counted"
    }

    fn perf_event_open(
        &self,
        attr: &mut Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
    ) -> Result<OwnedFd, Errno> {
        self.opens.fetch_add(1, Relaxed);
        Perf::linux().perf_event_open(attr, pid, cpu, group, flags)
    }

    fn perf_event_open_bytes(&self, attr: &mut [u8], pid: i32, cpu: i32) -> Result<OwnedFd, Errno> {
        self.opens.fetch_add(1, Relaxed);
        Perf::linux().perf_event_open_bytes(attr, pid, cpu)
    }

    fn read(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
        self.reads.fetch_add(1, Relaxed);
        Perf::linux().read(event, words)
    }

    fn ioctl(&self, event: BorrowedFd<'_>, request: Request<'_>) -> Result<u64, Errno> {
        self.ioctls.lock().expect("no panics").push(request.code());
        Perf::linux().ioctl(event, request)
    }

    fn mmap(
        &self,
        event: BorrowedFd<'_>,
        len: usize,
        protection: Protection,
        offset: u64,
    ) -> Result<Mapping, Errno> {
        self.mappings.fetch_add(1, Relaxed);
        Perf::linux().mmap(event, len, protection, offset)
    }

    fn close(&self, event: OwnedFd) {
        self.closes.fetch_add(1, Relaxed);
        Perf::linux().close(event);
    }

    fn support(&self) -> &Support {
        // This question is asked once for all and stays out of the number.
        static SUPPORT: OnceLock<Support> = OnceLock::new();
        SUPPORT.get_or_init(|| *Perf::linux().support())
    }
}

/// The running kernel, as if it had been made when only this was known.
#[derive(Debug)]
struct Older {
    inner: Arc<Counting>,
    known: Support,
    support: OnceLock<Support>,
}

impl Older {
    /// A kernel that knows as much as those of that release.
    fn of(release: Release) -> Arc<Self> {
        let known = |since: Release| since <= release;
        let size =
            Attr::FIELDS.iter().filter(|field| known(field.since)).map(|field| field.attr_size()).max();
        let mut support = Support { attr_size: size.expect("fields"), ..Support::EVERYTHING };
        support.flags = AttrFlags::all().iter().filter(|f| known(f.since())).collect();
        support.flags |= AttrFlags::PRECISE_IP_MASK;
        support.sample_type = SampleType::all().iter().filter(|f| known(f.since())).collect();
        support.read_format = ReadFormat::all().iter().filter(|f| known(f.since())).collect();
        support.branch_sample_type = BranchSampleType::all().iter().filter(|f| known(f.since())).collect();
        support.aux_action = perfuse::abi::AuxAction::all().iter().filter(|f| known(f.since())).collect();
        Arc::new(Older { inner: Counting::new(), known: support, support: OnceLock::new() })
    }
}

impl Wrap for Older {
    fn inner(&self) -> &dyn Kernel {
        &*self.inner
    }

    fn name(&self) -> &str {
        "Linux as it was"
    }

    fn perf_event_open(
        &self,
        attr: &mut Attr,
        pid: i32,
        cpu: i32,
        group: Option<BorrowedFd<'_>>,
        flags: OpenFlags,
    ) -> Result<OwnedFd, Errno> {
        if attr.min_size() > self.known.attr_size {
            self.inner.opens.fetch_add(1, Relaxed);
            attr.size = self.known.attr_size;
            return Err(Errno::E2BIG); // rule A4
        }
        let branches = attr.sample_type.contains(SampleType::BRANCH_STACK);
        let known = self.known.flags.contains(attr.flags)
            && self.known.sample_type.contains(attr.sample_type)
            && self.known.read_format.contains(attr.read_format)
            && (!branches || self.known.branch_sample_type.contains(attr.branch_sample_type))
            && self.known.aux_action.contains(attr.aux_action);
        if !known {
            self.inner.opens.fetch_add(1, Relaxed);
            return Err(Errno::EINVAL); // rules A8 to A11
        }
        self.inner().perf_event_open(attr, pid, cpu, group, flags)
    }

    fn perf_event_open_bytes(&self, attr: &mut [u8], pid: i32, cpu: i32) -> Result<OwnedFd, Errno> {
        if attr[self.known.attr_size as usize..].iter().any(|&byte| byte != 0) {
            attr[4..8].copy_from_slice(&self.known.attr_size.to_ne_bytes());
            return Err(Errno::E2BIG);
        }
        self.inner().perf_event_open_bytes(attr, pid, cpu)
    }

    fn support(&self) -> &Support {
        self.support.get_or_init(|| {
            let support = Support::probe(self);
            self.inner.opens.store(0, Relaxed);
            support
        })
    }
}

fn faults() -> Builder {
    Counter::builder(Software::PAGE_FAULTS).user_only()
}

/// Skips where users may not count at all.
fn allowed() -> Outcome {
    faults().open().map(drop).map_err(|error| Skip::needs("to count one's own page faults", error))
}

fn unknown(what: &str, since: Release) -> GivenUp {
    GivenUp { what: what.to_owned(), why: GivenUpWhy::UnknownToKernel(since) }
}

fn refused(what: &str, errno: Errno) -> GivenUp {
    GivenUp { what: what.to_owned(), why: GivenUpWhy::Refused(errno) }
}

/// The counter works: it counts ten faults as ten.
fn counts(mut counter: Counter) {
    let pages = Pages::map(10);
    pages.touch();
    counter.enable().expect("enable");
    pages.forget();
    pages.touch();
    counter.disable().expect("disable");
    let value = counter.read().expect("read").value;
    assert!((10..20).contains(&value), "{value}: the first time, code has to be fetched");
}

fn what_the_kernel_does_not_know_is_given_up_and_named() -> Outcome {
    allowed()?;
    let older = Older::of(Release::new(5, 4));
    let counter = faults()
        .kernel(older.clone())
        .prefer(|attr| attr.config4 = 1)
        .prefer(|attr| attr.flags |= AttrFlags::BUILD_ID | AttrFlags::COMM_EXEC)
        .prefer(|attr| attr.sample_type |= SampleType::CGROUP | SampleType::TIME)
        .open()
        .expect("a counter");
    let expected = [
        unknown("build_id", Release::new(5, 12)),
        unknown("sample_type CGROUP", Release::new(5, 7)),
        unknown("read_format LOST", Release::new(6, 0)),
        unknown("config4", Release::new(6, 19)),
    ];
    assert_eq!(counter.given_up(), expected);
    let text = expected.map(|given_up| given_up.to_string());
    assert_eq!(text[0], "build_id (this kernel does not know it; Linux 5.12 does)");
    assert!(counter.attr().flags.contains(AttrFlags::COMM_EXEC), "this one is known");
    assert!(counter.attr().sample_type.contains(SampleType::TIME), "and this one");
    assert_eq!(counter.read().expect("read").lost, None);
    assert_eq!(older.inner.opens(), 1, "once more, knowing what it knows");
    counts(counter);
    Ok(())
}

/// Lines that the library told the operator, with the thread that told them.
static TOLD: Mutex<Vec<(std::thread::ThreadId, String)>> = Mutex::new(Vec::new());

struct Told;

impl log::Log for Told {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {}", record.level(), record.args());
        TOLD.lock().expect("the lines").push((std::thread::current().id(), line));
    }

    fn flush(&self) {}
}

fn the_operator_hears_what_is_asked_and_what_is_given_up() -> Outcome {
    allowed()?;
    log::set_logger(&Told).expect("the only logger");
    log::set_max_level(log::LevelFilter::Debug);
    let counter = faults()
        .kernel(Older::of(Release::new(5, 4)))
        .prefer(|attr| attr.flags |= AttrFlags::BUILD_ID)
        .open()
        .expect("a counter");
    log::set_max_level(log::LevelFilter::Off);
    let own = std::thread::current().id();
    let lines = std::mem::take(&mut *TOLD.lock().expect("the lines"));
    let lines: Vec<String> =
        lines.into_iter().filter(|(thread, _)| *thread == own).map(|(_, line)| line).collect();
    let opened =
        |line: &String| line.starts_with("DEBUG perf_event_open: type 1 ") && line.ends_with("opened");
    assert!(lines.iter().any(opened), "{lines:#?}");
    for given_up in counter.given_up() {
        let line = format!("INFO an event is opened without {given_up}");
        assert!(lines.contains(&line), "no {line:?} in {lines:#?}");
    }
    assert!(!counter.given_up().is_empty());
    Ok(())
}

fn every_release_is_adapted_to() -> Outcome {
    // From the first one that all of today's kernels still understand.
    allowed()?;
    for (major, minor) in [(2, 6), (3, 4), (3, 14), (4, 1), (4, 9), (5, 4), (5, 15), (6, 1), (6, 18), (9, 9)]
    {
        let release = if major == 2 { Release::v2_6(32) } else { Release::new(major, minor) };
        let older = Older::of(release);
        let everything = |attr: &mut Attr| {
            attr.flags |= AttrFlags::MMAP2 | AttrFlags::COMM_EXEC | AttrFlags::KSYMBOL | AttrFlags::BUILD_ID;
            attr.flags |= AttrFlags::CONTEXT_SWITCH | AttrFlags::CGROUP | AttrFlags::SAMPLE_ID_ALL;
            attr.sample_type |= SampleType::CGROUP | SampleType::DATA_PAGE_SIZE | SampleType::WEIGHT_STRUCT;
            (attr.config3, attr.sig_data) = (1, 1);
        };
        let counter = faults().kernel(older.clone()).prefer(everything).open().expect("a counter");
        assert!(older.inner.opens() <= 2, "{release}: {} attempts", older.inner.opens());
        let given_up = counter.given_up().iter().map(|given_up| given_up.why);
        for why in given_up {
            assert!(
                matches!(why, GivenUpWhy::UnknownToKernel(since) if since > release),
                "{release}: {why:?}"
            );
        }
        for requirement in counter.attr().requirements() {
            assert!(requirement.since <= release, "{release} does not know {requirement}");
        }
        counts(counter);
    }
    Ok(())
}

fn what_is_required_and_unknown_fails() -> Outcome {
    allowed()?;
    let older = Older::of(Release::new(5, 4));
    let builder = faults().kernel(older.clone()).with(|attr| attr.config4 = 1);
    assert_eq!(builder.open().expect_err("a field it does not know").errno(), Errno::E2BIG);
    let builder = faults().kernel(older).with(|attr| attr.flags |= AttrFlags::BUILD_ID);
    assert_eq!(builder.open().expect_err("a flag it does not know").errno(), Errno::EINVAL);
    if Perf::linux().support().attr_size < Attr::SIZE_VER9 {
        let error = faults().with(|attr| attr.config4 = 1).open().expect_err("newer than this kernel");
        let text = error.to_string();
        assert!(text.contains("config4") && text.contains("6.19"), "{text}");
        let given_up = faults().prefer(|attr| attr.config4 = 1).open().expect("without it");
        assert_eq!(given_up.given_up(), [unknown("config4", Release::new(6, 19))]);
    }
    Ok(())
}

fn bits_that_have_no_name_yet_are_given_up_too() -> Outcome {
    allowed()?;
    let future = AttrFlags::from_bits_retain(1 << 60);
    let counter = faults()
        .prefer(move |attr| attr.flags |= future | AttrFlags::SAMPLE_ID_ALL)
        .prefer(|attr| attr.sample_type |= SampleType::from_bits_retain(1 << 60))
        .open()
        .expect("without them");
    let expected =
        [refused("unknown bits", Errno::EINVAL), refused("sample_type UNKNOWN BITS", Errno::EINVAL)];
    assert_eq!(counter.given_up(), expected);
    assert!(counter.attr().flags.contains(AttrFlags::SAMPLE_ID_ALL), "this one is known");
    Ok(())
}

fn a_field_goes_with_its_flag() -> Outcome {
    // A clock that does not exist (rule B24): without the flag the field means nothing, and the flag with
    // another clock is not what was asked for.
    allowed()?;
    let counter = faults()
        .prefer(|attr| {
            attr.flags |= AttrFlags::USE_CLOCKID;
            attr.clockid = 99;
        })
        .open()
        .expect("without it");
    assert_eq!(counter.given_up(), [refused("use_clockid", Errno::EINVAL)]);
    assert_eq!(
        (counter.attr().clockid, counter.attr().flags & AttrFlags::USE_CLOCKID),
        (0, AttrFlags::empty())
    );
    // A frequency beyond the limit (rule B6): its number is no period.
    let counter =
        faults().period(1000).prefer(|attr| attr.set_sample_freq(1 << 40)).open().expect("with the period");
    assert_eq!(counter.given_up(), [refused("freq", Errno::EINVAL)]);
    assert_eq!((counter.attr().period(), counter.attr().sample_freq()), (Some(1000), None));
    Ok(())
}

fn only_what_is_refused_is_given_up() -> Outcome {
    allowed()?;
    let counting = Counting::new();
    let counter = faults()
        .kernel(counting.clone())
        .prefer(|attr| attr.flags |= AttrFlags::SAMPLE_ID_ALL)
        .prefer(|attr| attr.sample_type |= SampleType::WEIGHT | SampleType::WEIGHT_STRUCT)
        .prefer(|attr| attr.flags |= AttrFlags::COMM_EXEC)
        .open()
        .expect("with one of the two");
    // Both together mean nothing (rule A18).
    assert_eq!(counter.given_up(), [refused("sample_type WEIGHT_STRUCT", Errno::EINVAL)]);
    assert!(counter.attr().sample_type.contains(SampleType::WEIGHT));
    assert!(counter.attr().flags.contains(AttrFlags::SAMPLE_ID_ALL | AttrFlags::COMM_EXEC));
    // Opened as wanted, as required, and with each of five options back in, one of them in vain.
    assert_eq!((counting.opens(), counting.closes.load(Relaxed)), (7, 4));
    drop(counter);
    assert_eq!(counting.closes.load(Relaxed), 5);
    Ok(())
}

fn the_user_side_alone_where_the_kernel_side_is_refused() -> Outcome {
    let test = "the_user_side_alone_where_the_kernel_side_is_refused";
    need::events()?;
    let _sysctl = need::Sysctl::is("kernel/perf_event_paranoid", 2)?;
    Sandbox::new().unprivileged().within(test, || {
        let counting = Counting::new();
        let counter =
            Counter::builder(Software::PAGE_FAULTS).kernel(counting.clone()).open().expect("user side");
        assert_eq!(counter.given_up(), [refused("kernel side", Errno::EACCES)]);
        assert!(counter.given_up()[0].to_string().starts_with("kernel side (refused: EACCES"));
        assert!(counter.attr().flags.contains(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV));
        assert_eq!(counting.opens(), 2);
        counts(counter);
        for exact in [Builder::user_and_kernel, Builder::kernel_only] {
            let error = exact(Counter::builder(Software::PAGE_FAULTS)).open().expect_err("nothing less");
            assert!(error.errno() == Errno::EACCES && error.is_permission(), "{error:#}");
            assert!(error.to_string().contains("perf_event_paranoid is 2"), "{error}");
        }
        Ok(())
    })
}

fn what_only_the_kernel_sees_is_never_a_silent_zero() -> Outcome {
    // Rule Q20: with exclude_kernel it opens, and counts 0 for ever.
    let test = "what_only_the_kernel_sees_is_never_a_silent_zero";
    need::events()?;
    let _sysctl = need::Sysctl::is("kernel/perf_event_paranoid", 2)?;
    Sandbox::new().unprivileged().within(test, || {
        for event in [Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS] {
            let counting = Counting::new();
            let error = Counter::builder(event).kernel(counting.clone()).open().expect_err("not for users");
            assert_eq!((error.errno(), counting.opens()), (Errno::EACCES, 1));
            let same = Event::from(Attr { config: event.0, ..Attr::new(perfuse::abi::EventType::SOFTWARE) });
            assert_eq!(Counter::new(same).expect_err("not for users").errno(), Errno::EACCES);
        }
        Ok(())
    })
}

fn nothing_is_asked_twice() -> Outcome {
    allowed()?;
    let opens = |builder: Builder| {
        let counting = Counting::new();
        let result = builder.kernel(counting.clone()).open().map(drop);
        (result.map_err(|error| error.errno()), counting.opens())
    };
    let known = Perf::linux().support().read_format.contains(ReadFormat::LOST);
    assert_eq!(opens(faults()), (Ok(()), if known { 1 } else { 2 }));
    let no_pmu = Attr::new(perfuse::abi::EventType(0x7fff_fff0));
    assert_eq!(opens(Counter::builder(no_pmu).user_only()), (Err(Errno::ENOENT), 1));
    let gone = faults().target(Target::thread(0x7fff_fff0));
    assert_eq!(opens(gone), (Err(Errno::ESRCH), 1));
    if need::no_hardware_pmu().is_ok() {
        assert_eq!(opens(Counter::builder(Hardware::CPU_CYCLES).user_only()), (Err(Errno::ENOENT), 1));
    }
    // Only asking tells whether the lost count was the reason; then it is as refused as before.
    let no_clock = |attr: &mut Attr| {
        attr.flags |= AttrFlags::USE_CLOCKID;
        attr.clockid = 99;
    };
    assert_eq!(opens(faults().with(no_clock)), (Err(Errno::EINVAL), 2));
    Ok(())
}

fn probing_finds_what_the_kernel_takes() -> Outcome {
    // Of a made-up kernel: exactly what it knows.
    allowed()?;
    let real = *Perf::linux().support();
    for release in [Release::new(3, 4), Release::new(4, 9), Release::new(5, 12), Release::new(6, 13)] {
        let older = Older::of(release);
        let (known, found) = (older.known, *Kernel::support(&*older));
        assert_eq!(found.attr_size, known.attr_size.min(real.attr_size), "{release}");
        assert_eq!(found.flags, (known.flags | AttrFlags::PRECISE_IP_MASK) & real.flags, "{release}");
        assert_eq!(found.sample_type, known.sample_type & real.sample_type, "{release}");
        assert_eq!(found.read_format, known.read_format & real.read_format, "{release}");
        assert_eq!(found.branch_sample_type, known.branch_sample_type & real.branch_sample_type, "{release}");
        assert_eq!(found.aux_action, known.aux_action & real.aux_action, "{release}");
    }
    Ok(())
}

fn probing_agrees_with_the_running_kernel() -> Outcome {
    allowed()?;
    let support = *Perf::linux().support();
    let running = Release::parse(&perfuse_sys::uname_release()).expect("a release");
    let field =
        Attr::FIELDS.iter().filter(|field| field.since <= running).map(|field| field.attr_size()).max();
    assert!(support.attr_size >= field.expect("fields"), "{support:?}");
    let check = |name: &str, since: Release, found: bool| {
        // Vendors bring newer things into older kernels, but never take any away.
        assert!(found || since > running, "{name} of {since} was not found on {running}");
    };
    AttrFlags::all()
        .iter_names()
        .for_each(|(name, flag)| check(name, flag.since(), support.flags.contains(flag)));
    let sample_types = SampleType::all();
    sample_types
        .iter_names()
        .for_each(|(n, flag)| check(n, flag.since(), support.sample_type.contains(flag)));
    let formats = ReadFormat::all();
    formats.iter_names().for_each(|(n, flag)| check(n, flag.since(), support.read_format.contains(flag)));
    let branches = BranchSampleType::all();
    branches.iter_names().for_each(|(n, f)| check(n, f.since(), support.branch_sample_type.contains(f)));
    let actions = perfuse::abi::AuxAction::all();
    actions.iter_names().for_each(|(n, flag)| check(n, flag.since(), support.aux_action.contains(flag)));
    // And the other way round: what was not found is refused.
    for (name, flag) in (AttrFlags::all() - support.flags).iter_names() {
        let error = faults().with(move |attr| attr.flags |= flag).open().expect_err(name);
        assert_eq!(error.errno(), Errno::EINVAL, "{name}");
    }
    Ok(())
}

fn a_user_finds_the_same() -> Outcome {
    let test = "a_user_finds_the_same";
    let root = *Perf::linux().support();
    let _sysctl = need::Sysctl::is("kernel/perf_event_paranoid", 2)?;
    // The program of the user, whose parent this is, finds the file of this process and of no other.
    let name = |pid: u32| std::env::temp_dir().join(format!("perfuse-support-of-root-{pid}"));
    let file = name(std::process::id());
    if std::env::var_os("PERFUSE_TEST_WITHIN").is_none() {
        std::fs::write(&file, format!("{root:?}")).expect("a file");
    }
    let result = Sandbox::new().unprivileged().within(test, || {
        let parent = name(std::os::unix::process::parent_id());
        let expected = std::fs::read_to_string(parent).expect("the findings of root");
        assert_eq!(format!("{:?}", Perf::linux().support()), expected);
        Ok(())
    });
    if std::env::var_os("PERFUSE_TEST_WITHIN").is_none() {
        std::fs::remove_file(&file).expect("the file");
    }
    result
}

fn behind_a_filter_nothing_is_learnt() -> Outcome {
    let test = "behind_a_filter_nothing_is_learnt";
    Sandbox::new().refusing_perf_event_open(libc::EPERM).within(test, || {
        assert_eq!(*Perf::linux().support(), Support::EVERYTHING);
        let error = Counter::new(Software::PAGE_FAULTS).expect_err("refused");
        assert_eq!(error.errno(), Errno::EPERM);
        Ok(())
    })
}

fn everything_goes_through_the_kernel_that_was_given() -> Outcome {
    allowed()?;
    let counting = Counting::new();
    let builder = || faults().kernel(counting.clone());
    let mut group = Group::new().kernel(counting.clone());
    group.add_built(builder()).expect("a leader");
    group.add_built(builder()).expect("a sibling");
    group.enable().expect("enable");
    group.read().expect("read");
    let set = CounterSet::open(&Scope::threads(&[0]), &[builder().into(), builder().into()]).expect("a set");
    set.total(1).expect("read");
    let sampler = Sampler::builder().event(builder().period(1)).event(builder().period(2)).open();
    let mut sampler = sampler.expect("a sampler");
    sampler.enable().expect("enable");
    let user = builder().open().expect("a counter").into_user_counter().expect("its page");
    user.read().expect("read");
    assert_eq!((counting.opens(), counting.closes.load(Relaxed)), (7, 0));
    assert_eq!((counting.reads.load(Relaxed), counting.mappings.load(Relaxed)), (3, 2));
    let ioctls = counting.ioctls.lock().expect("no panics").clone();
    let called = |code| ioctls.iter().filter(|&&called| called == code).count();
    use perfuse::abi::ioctl::{ENABLE, ID, SET_OUTPUT};
    assert_eq!([ENABLE, ID, SET_OUTPUT].map(called), [3, 5, 1]);
    drop((group, set, sampler, user));
    assert_eq!(counting.closes.load(Relaxed), 7, "and what was opened is closed");
    Ok(())
}

/// A kernel that opens what is asked for and then answers anything at all.
#[derive(Debug, Default)]
struct Liar {
    state: AtomicU64,
}

impl Liar {
    /// The next of a sequence without order (SplitMix64).
    fn next(&self) -> u64 {
        let mut z = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Small numbers, large ones, and those at the ends.
    fn number(&self) -> u64 {
        match self.next() % 5 {
            0 => self.next() % 8,
            1 => u64::MAX - self.next() % 8,
            2 => 1 << (self.next() % 64),
            _ => self.next(),
        }
    }

    fn answer(&self) -> Result<u64, Errno> {
        if self.next() % 4 == 0 { Err(Errno((self.next() % 140) as i32)) } else { Ok(self.number()) }
    }
}

impl Kernel for Liar {
    fn name(&self) -> &str {
        "a liar"
    }

    fn facts(&self) -> KernelFacts {
        KernelFacts::default()
    }

    fn perf_event_open(
        &self,
        attr: &mut Attr,
        _: i32,
        _: i32,
        _: Option<BorrowedFd<'_>>,
        _: OpenFlags,
    ) -> Result<OwnedFd, Errno> {
        attr.size = self.number() as u32;
        if self.next() % 4 == 0 {
            return Err(Errno((self.next() % 140) as i32));
        }
        Ok(std::fs::File::open("/dev/null").expect("/dev/null").into())
    }

    fn perf_event_open_bytes(&self, attr: &mut [u8], _: i32, _: i32) -> Result<OwnedFd, Errno> {
        attr[4..8].copy_from_slice(&(self.number() as u32).to_ne_bytes());
        self.perf_event_open(&mut Attr::default(), 0, 0, None, OpenFlags::empty())
    }

    fn read(&self, _: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
        words.iter_mut().for_each(|word| *word = self.number());
        self.answer().map(|filled| if filled % 2 == 0 { words.len() } else { filled as usize })
    }

    fn ioctl(&self, _: BorrowedFd<'_>, request: Request<'_>) -> Result<u64, Errno> {
        if let Request::QueryBpf(ids) = request {
            ids.extend([1, 2, 3]);
        }
        self.answer()
    }

    fn mmap(&self, _: BorrowedFd<'_>, len: usize, p: Protection, _: u64) -> Result<Mapping, Errno> {
        self.answer()?;
        // Memory full of lies, in the size that was asked for.
        let path = std::env::temp_dir().join(format!("perfuse-liar-{}", std::process::id()));
        let file = std::fs::File::options().create(true).truncate(true).read(true).write(true).open(&path);
        let mut file = file.expect("a file");
        std::fs::remove_file(&path).expect("the file");
        let bytes: Vec<u8> = (0..len / 8).flat_map(|_| self.number().to_ne_bytes()).collect();
        std::io::Write::write_all(&mut file, &bytes).expect("room");
        Mapping::new(std::os::fd::AsFd::as_fd(&file), len, p, 0)
    }

    fn prctl(&self, _: bool) -> Result<(), Errno> {
        self.answer().map(drop)
    }

    fn support(&self) -> &Support {
        static SUPPORT: OnceLock<Support> = OnceLock::new();
        SUPPORT.get_or_init(|| Support::probe(self))
    }
}

fn no_answer_of_a_kernel_makes_it_panic() -> Outcome {
    let page = perfuse_sys::page_size();
    for seed in 0..300 {
        let liar = Arc::new(Liar { state: AtomicU64::new(seed * 0x1234_5678_9abc) });
        let format = ReadFormat::from_bits_retain(liar.next() & 31);
        let sample_type = SampleType::from_bits_retain(liar.next() & ((1 << 25) - 1));
        let builder = || {
            let builder = Counter::builder(Software::PAGE_FAULTS).kernel(liar.clone()).inherit(Inherit::No);
            builder.with(|attr| attr.read_format = format)
        };
        if let Ok(mut counter) = builder().open() {
            _ = (counter.enable(), counter.reset(), counter.id(), counter.query_bpf(), counter.set_period(1));
            if let Ok(count) = counter.read() {
                _ = (count.scaled().value(), count - Count::default(), count + count);
            }
        }
        let mut group = Group::new().kernel(liar.clone());
        let members: Vec<_> = (0..6).filter_map(|_| group.add_built(builder()).ok()).collect();
        for member in members {
            if let Ok(counts) = group.read() {
                _ = (counts.get(member), counts.iter().count(), format!("{counts:?}"));
            }
            if let Some(counter) = group.counter(member) {
                _ = counter.read();
            }
            group.remove(member);
        }
        if let Ok(mut set) = CounterSet::open(&Scope::threads(&[0, 1]), &[builder().into(), builder().into()])
        {
            _ = (set.enable(), set.total(0), set.total(1), set.error(0).is_some(), set.refused(1).count());
        }
        if seed % 10 != 0 {
            continue; // rings are slower
        }
        for overwrite in [false, true] {
            let event = || builder().with(|attr| attr.sample_type = sample_type);
            let sampler =
                Sampler::builder().event(event()).event(event()).pages(1).overwrite(overwrite).open();
            let Ok(mut sampler) = sampler else { continue };
            for _ in 0..3 {
                sampler.batch().iter().for_each(|entry| _ = (entry.decode().is_ok(), entry.time_ns()));
            }
            if let Ok(snapshot) = sampler.snapshot() {
                snapshot.iter().for_each(|entry| _ = entry.decode().is_ok());
            }
            _ = sampler.map_aux(2, overwrite);
            _ = sampler.read_aux(|first, second| first.len() + second.len());
            assert!(sampler.ring_bytes() <= 2 * page);
        }
    }
    Ok(())
}

suite! {
    deterministic:
        what_the_kernel_does_not_know_is_given_up_and_named,
        the_operator_hears_what_is_asked_and_what_is_given_up,
        every_release_is_adapted_to,
        what_is_required_and_unknown_fails,
        bits_that_have_no_name_yet_are_given_up_too,
        a_field_goes_with_its_flag,
        only_what_is_refused_is_given_up,
        the_user_side_alone_where_the_kernel_side_is_refused,
        what_only_the_kernel_sees_is_never_a_silent_zero,
        nothing_is_asked_twice,
        probing_finds_what_the_kernel_takes,
        everything_goes_through_the_kernel_that_was_given,
        no_answer_of_a_kernel_makes_it_panic;
    measurements:
        probing_agrees_with_the_running_kernel,
        a_user_finds_the_same,
        behind_a_filter_nothing_is_learnt;
}
