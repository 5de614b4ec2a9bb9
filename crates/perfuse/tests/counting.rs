//! Counters against the running kernel: exact where Linux is exact. Rules are those of
//! `docs/semantics`.

use perfuse::abi::{AttrFlags, Breakpoint, ReadFormat, Software};
use perfuse::diagnosis::Cause;
use perfuse::{
    Builder, Cgroup, Command, Counter, CounterSet, Errno, Event, Inherit, Pmu, Scaled, Scope, SetEvent,
    SignalOwner, Target, Wait, online_cpus,
};
use perfuse_testkit::bpf::{Program, ProgramType};
use perfuse_testkit::signals::Handler;
use perfuse_testkit::work::{Child, Pages, burn, switches, switches_so_far, system_calls, thread_time};
use perfuse_testkit::{Outcome, OwnCgroup, Sandbox, Skip, need, suite};
use std::cell::UnsafeCell;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// Page faults of user space: what every user may count. Skips where none may.
fn faults() -> Result<Builder, Skip> {
    let builder = Counter::builder(Software::PAGE_FAULTS).user_only();
    match builder.open() {
        Ok(_) => Ok(builder),
        Err(error) => Err(Skip::needs("to count one's own page faults", error)),
    }
}

/// Fifty faults, as often as it is called.
fn fifty_faults() -> impl Fn() {
    let pages = Pages::map(50);
    move || {
        pages.forget();
        pages.touch();
    }
}

/// The count of `counter` for `work`, which is done once before, so that its code has been fetched.
fn counted(counter: &mut Counter, work: impl Fn()) -> u64 {
    work();
    let before = counter.read().expect("read").value;
    counter.enable().expect("enable");
    work();
    counter.disable().expect("disable");
    counter.read().expect("read").value - before
}

fn page_faults_are_exact() -> Outcome {
    // A machine short of memory may take a page of the test itself, which then is a fault more.
    let mut tries = Vec::new();
    let counter = loop {
        let mut counter = faults()?.open().expect("page faults");
        tries.push(counted(&mut counter, fifty_faults()));
        if tries.contains(&50) {
            break counter;
        }
        assert!(tries.len() < 5 && tries.iter().all(|&faults| faults > 50), "{tries:?}");
    };
    let count = counter.read().expect("read");
    assert_eq!(count.scaled(), Scaled::Exact(50));
    assert!(count.running_ns == count.enabled_ns && count.enabled_ns > 0, "{count:?}");
    assert_eq!(count.id, counter.id().expect("an id"));
    Ok(())
}

fn a_disabled_counter_counts_nothing() -> Outcome {
    let mut counter = faults()?.open().expect("page faults");
    let work = fifty_faults();
    work();
    let never = counter.read().expect("read");
    assert_eq!((never.value, never.enabled_ns, never.scaled()), (0, 0, Scaled::NotEnabled));
    assert_eq!(counted(&mut counter, &work), 50);
    let before = counter.read().expect("read");
    work();
    assert_eq!(counter.read().expect("read"), before);
    let enabled = faults()?.enabled(true).open().expect("page faults");
    work();
    assert!(enabled.read().expect("read").value >= 50, "this one counts from the start");
    Ok(())
}

fn reset_keeps_the_times() -> Outcome {
    // Rule C47.
    let mut counter = faults()?.open().expect("page faults");
    counted(&mut counter, fifty_faults());
    let before = counter.read().expect("read");
    counter.reset().expect("reset");
    let after = counter.read().expect("read");
    assert_eq!((before.value, after.value), (50, 0));
    assert_eq!((before.enabled_ns, before.running_ns), (after.enabled_ns, after.running_ns));
    Ok(())
}

fn differences_of_readings() -> Outcome {
    let mut counter = faults()?.enabled(true).open().expect("page faults");
    let work = fifty_faults();
    work();
    let before = counter.read().expect("read");
    work();
    counter.disable().expect("disable");
    let between = counter.read().expect("read") - before;
    assert_eq!(between.value, 50);
    assert!(between.enabled_ns > 0 && between.enabled_ns < counter.read().expect("read").enabled_ns);
    Ok(())
}

fn every_read_format_is_understood() -> Outcome {
    // Rule E3: a counter that was asked for less, or for its whole group, still tells its own value.
    let work = fifty_faults();
    for format in (0..32).map(ReadFormat::from_bits_retain) {
        let builder = faults()?.with(|attr| attr.read_format = format);
        let Ok(mut counter) = builder.open() else {
            assert!(format.contains(ReadFormat::LOST), "{format:?}");
            continue;
        };
        assert_eq!(counted(&mut counter, &work), 50, "{format:?}");
        let count = counter.read().expect("read");
        assert_eq!(count.enabled_ns > 0, format.contains(ReadFormat::TOTAL_TIME_ENABLED), "{format:?}");
        assert_eq!(count.running_ns > 0, format.contains(ReadFormat::TOTAL_TIME_RUNNING), "{format:?}");
        assert_eq!(count.id != 0, format.contains(ReadFormat::ID), "{format:?}");
        assert_eq!(count.lost.is_some(), format.contains(ReadFormat::LOST), "{format:?}");
    }
    Ok(())
}

fn the_task_clock_agrees_with_the_clock_of_the_thread() -> Outcome {
    let Ok(mut counter) = Counter::new(Software::TASK_CLOCK) else {
        return Err(Skip::needs("a task clock", "refused"));
    };
    // The two clocks are read one after the other, and time that a hypervisor or an interrupt takes is
    // booked differently: what is asked for is that they can agree, not that they always do.
    let mut worst = Vec::new();
    for _ in 0..10 {
        counter.reset().expect("reset");
        let start = thread_time();
        counter.enable().expect("enable");
        burn(Duration::from_millis(50));
        counter.disable().expect("disable");
        let clock = (thread_time() - start).as_nanos() as f64;
        let ratio = counter.read().expect("read").value as f64 / clock;
        if (ratio - 1.0).abs() < 0.02 {
            return Ok(());
        }
        worst.push(ratio);
    }
    panic!("task-clock divided by the thread's clock: {worst:?}")
}

fn context_switches_are_exact() -> Outcome {
    let mut counter = Counter::builder(Software::CONTEXT_SWITCHES)
        .user_and_kernel()
        .open()
        .map_err(|error| Skip::needs("to count what happens in the kernel", error))?;
    switches(2);
    let outer = switches_so_far();
    counter.enable().expect("enable");
    let inner = switches_so_far();
    switches(20);
    let inner = switches_so_far() - inner;
    counter.disable().expect("disable");
    let outer = switches_so_far() - outer;
    let counted = counter.read().expect("read").value;
    // The kernel's own bookkeeping counts those of other causes as well.
    assert!(inner >= 20 && (inner..=outer).contains(&counted), "{inner} <= {counted} <= {outer}");
    Ok(())
}

/// The counts of a counter of this thread while a new thread, and then a new process, touch 5000 pages
/// each.
fn inherited(inherit: Inherit) -> Result<(u64, u64), Skip> {
    let counts = |counter: &Counter| counter.read().expect("read").value;
    let counter = faults()?
        .inherit(inherit)
        .enabled(true)
        .open()
        .map_err(|error| Skip::needs("inherited events", error))?;
    assert_eq!(counter.inherit(), inherit);
    let pages = Pages::map(5000);
    let start = counts(&counter);
    std::thread::spawn(move || pages.touch()).join().expect("a thread");
    let by_thread = counts(&counter) - start;
    let pages = Pages::map(5000);
    let start = counts(&counter);
    Child::fork(|| pages.touch()).join();
    Ok((by_thread, counts(&counter) - start))
}

/// Faults of this thread itself while threads and processes are made: stacks, and pages that were shared
/// with a child. Far below what the child does.
const OWN: std::ops::Range<u64> = 0..2500;

fn nothing_is_inherited_unless_asked_for() -> Outcome {
    let (thread, process) = inherited(Inherit::No)?;
    assert!(OWN.contains(&thread) && OWN.contains(&process), "{thread}, {process}");
    Ok(())
}

fn threads_only() -> Outcome {
    // Rule D2.
    let (thread, process) = inherited(Inherit::Threads)?;
    assert!(thread >= 5000 && OWN.contains(&process), "{thread}, {process}");
    Ok(())
}

fn threads_and_children() -> Outcome {
    let (thread, process) = inherited(Inherit::All)?;
    assert!(thread >= 5000 && process >= 5000, "{thread}, {process}");
    Ok(())
}

fn a_command_is_counted_from_its_exec() -> Outcome {
    // Rule D41.
    let command = Command::new("sh").args(["-c", "exit 3"]).hold().expect("a child");
    let builder = faults()?.target(command.target()).inherit(Inherit::All);
    let mut from_exec = builder.clone().enable_on_exec(true).open().expect("page faults");
    let never = builder.open().expect("page faults");
    assert_eq!(from_exec.read().expect("read").scaled(), Scaled::NotEnabled, "it is held");
    let (status, usage) = command.release().expect("sh").wait().expect("its end");
    let count = from_exec.read().expect("read");
    assert_eq!(status.code(), Some(3));
    // The kernel's own figures of the child hold the time before exec too, and faults of the kernel.
    assert!(
        count.value > 0 && count.value <= usage.minor_faults + usage.major_faults,
        "{count:?}, {usage:?}"
    );
    assert_eq!(never.read().expect("read").value, 0, "this one was not to be enabled on exec");
    assert!(from_exec.poll(None).expect("poll").hangup, "it has ended (rule G21)");
    from_exec.enable().expect("a counter whose task is gone takes it (rule D31)");
    assert_eq!(from_exec.read().expect("read").value, count.value);
    Ok(())
}

fn an_event_that_leaves_on_exec() -> Outcome {
    // Rule D42.
    let command = Command::new("true").hold().expect("a child");
    let builder = faults()?.target(command.target()).remove_on_exec(true).enabled(true);
    let counter = builder.open().map_err(|error| Skip::needs("remove_on_exec", error))?;
    command.release().expect("true").wait().expect("its end");
    let before = faults()?.target(Target::this_thread()).open().expect("page faults");
    let (left, own) = (counter.read().expect("read"), before.read().expect("read"));
    assert!(left.value < 100 && own.value == 0, "a few at most before exec: {left:?}");
    Ok(())
}

/// Threads that touch fifty pages each, again and again.
struct Team {
    barrier: Arc<Barrier>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Team {
    fn of(size: usize, rounds: usize) -> Self {
        let barrier = Arc::new(Barrier::new(size + 1));
        let threads = (0..size).map(|_| {
            let barrier = barrier.clone();
            std::thread::spawn(move || {
                let work = fifty_faults();
                for _ in 0..rounds {
                    barrier.wait();
                    work();
                    barrier.wait();
                }
            })
        });
        let threads = threads.collect();
        Team { barrier, threads }
    }

    fn round(&self) {
        self.barrier.wait();
        self.barrier.wait();
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn a_process_is_counted_with_its_threads() -> Outcome {
    let event = faults()?.into();
    let team = Team::of(3, 3);
    team.round();
    let scope = Scope::processes(&[std::process::id()]).expect("this process");
    assert_eq!(scope.slots().len(), fs::read_dir("/proc/self/task").expect("threads").count());
    let mut set = CounterSet::open(&scope, &[event]).expect("a set");
    team.round();
    set.enable().expect("enable");
    team.round();
    set.disable().expect("disable");
    assert_eq!(set.total(0).expect("read").value, 150);
    let mut each: Vec<_> = set.counters(0).map(|(_, counter)| counter.read().expect("read").value).collect();
    each.sort_unstable();
    assert_eq!(each[each.len() - 3..], [50, 50, 50]);
    assert!(set.slots().iter().all(|slot| slot.pid == Some(std::process::id()) && slot.tid().is_some()));
    set.reset().expect("reset");
    assert_eq!(set.total(0).expect("read").value, 0);
    Ok(())
}

fn events_that_start_by_themselves_can_be_stopped() -> Outcome {
    let scope = Scope::processes(&[std::process::id()]).expect("this process");
    let mut set = CounterSet::open(&scope, &[faults()?.enabled(true).into()]).expect("a set");
    let work = fifty_faults();
    work();
    set.disable().expect("disable");
    let stopped = set.total(0).expect("read");
    work();
    assert!(stopped.value >= 50);
    assert_eq!(set.total(0).expect("read").value, stopped.value);
    Ok(())
}

fn a_thread_that_is_gone_is_left_out() -> Outcome {
    let event: SetEvent = faults()?.into();
    let gone = Command::new("true").hold().expect("a child").release().expect("true");
    gone.wait().expect("its end");
    // SAFETY: gettid has no preconditions.
    let me = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let mut set = CounterSet::open(&Scope::threads(&[gone.pid(), me]), &[event]).expect("a set");
    let work = fifty_faults();
    set.enable().expect("enable");
    work();
    set.disable().expect("disable");
    assert!(set.error(0).is_none() && set.counter(0, 0).is_none() && set.counter(0, 1).is_some());
    assert!(set.total(0).expect("read").value >= 50);
    assert_eq!(set.refused(0).count(), 0);
    let error = Scope::processes(&[gone.pid()]).expect_err("nobody is there");
    assert_eq!(error.errno(), Errno::ESRCH);
    Ok(())
}

/// An event of a type no PMU has.
fn unknown_event() -> Builder {
    let attr = perfuse::abi::Attr::new(perfuse::abi::EventType(0x7fff_fff0));
    Counter::builder(attr)
}

fn one_refused_event_leaves_the_others() -> Outcome {
    let events = [faults()?, unknown_event(), faults()?].map(SetEvent::from);
    let set = CounterSet::open(&Scope::threads(&[0]), &events);
    let mut set = set.expect("a set with two of three");
    assert_eq!(set.error(1).map(|error| error.errno()), Some(Errno::ENOENT));
    assert!(set.error(0).is_none() && set.error(2).is_none());
    assert!(set.counter(1, 0).is_none());
    let work = fifty_faults();
    work();
    set.enable().expect("enable");
    work();
    set.disable().expect("disable");
    assert_eq!([0, 2].map(|index| set.total(index).expect("read").value), [50, 50]);
    Ok(())
}

fn where_the_first_of_a_group_is_refused_the_next_leads() -> Outcome {
    let command = Command::new("sh").args(["-c", ":"]).hold().expect("a child");
    let events = [unknown_event(), faults()?, Counter::builder(Software::TASK_CLOCK).user_only(), faults()?];
    let events =
        events.map(|builder| SetEvent { group: Some(1), ..SetEvent::from(builder.enable_on_exec(true)) });
    let set = CounterSet::open(&Scope::command(&command), &events).expect("a set");
    command.release().expect("sh").wait().expect("its end");
    let leads = |index| set.counter(index, 0).map(|c| c.attr().flags.contains(AttrFlags::ENABLE_ON_EXEC));
    assert_eq!([0, 1, 2, 3].map(leads), [None, Some(true), Some(false), Some(false)]);
    let counts = [1, 2, 3].map(|index| set.total(index).expect("read"));
    assert!(counts[0].value > 0 && counts[1].value > 0, "{counts:?}");
    assert_eq!(counts[0].value, counts[2].value, "both count the same faults");
    assert_eq!(counts[0].running_ns, counts[1].running_ns, "they were on together");
    Ok(())
}

fn a_group_that_starts_by_itself_starts_whole() -> Outcome {
    // A leader of another software PMU that is already on would not take its siblings along.
    let clock = Counter::builder(Software::TASK_CLOCK).user_only();
    let events = [clock, faults()?].map(|b| SetEvent { group: Some(1), ..SetEvent::from(b.enabled(true)) });
    let work = fifty_faults();
    work();
    let mut set = CounterSet::open(&Scope::threads(&[0]), &events).expect("a set");
    let before = set.total(1).expect("read").value;
    work();
    assert_eq!(set.total(1).expect("read").value - before, 50);
    set.disable().expect("disable");
    let stopped = [0, 1].map(|index| set.total(index).expect("read").value);
    work();
    assert_eq!([0, 1].map(|index| set.total(index).expect("read").value), stopped);
    Ok(())
}

fn groups_of_a_set_are_separate() -> Outcome {
    let grouped = |number, builder| SetEvent { group: Some(number), ..SetEvent::from(builder) };
    let events = [
        grouped(1, faults()?),
        grouped(1, faults()?),
        faults()?.into(),
        grouped(2, faults()?),
        grouped(2, faults()?),
    ];
    let mut set = CounterSet::open(&Scope::threads(&[0]), &events).expect("a set");
    let starts = |index| set.counter(index, 0).map(|c| !c.attr().flags.contains(AttrFlags::DISABLED));
    let siblings = [0, 1, 2, 3, 4].map(starts);
    assert_eq!(siblings, [false, true, false, false, true].map(Some), "siblings are opened on");
    let work = fifty_faults();
    work();
    set.enable().expect("enable");
    work();
    set.disable().expect("disable");
    work();
    assert_eq!([0, 1, 2, 3, 4].map(|index| set.total(index).expect("read").value), [50; 5]);
    Ok(())
}

fn descriptors_that_run_out_end_the_whole_set() -> Outcome {
    let test = "descriptors_that_run_out_end_the_whole_set";
    // Without the privilege to raise the limit.
    Sandbox::new().unprivileged().open_files(40).within(test, || {
        need::events()?;
        let events: Vec<SetEvent> = (0..100).map(|_| faults().map(Into::into)).collect::<Result<_, _>>()?;
        let error = CounterSet::open(&Scope::threads(&[0]), &events).expect_err("too many");
        assert_eq!(error.errno(), Errno::EMFILE);
        Ok(())
    })
}

fn the_soft_limit_of_descriptors_is_raised() -> Outcome {
    let test = "the_soft_limit_of_descriptors_is_raised";
    Sandbox::new().open_files(300).within(test, || {
        let lower = libc::rlimit { rlim_cur: 40, rlim_max: 300 };
        // SAFETY: the pointer is to a live rlimit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &lower) }, 0);
        let events: Vec<SetEvent> = (0..100).map(|_| faults().map(Into::into)).collect::<Result<_, _>>()?;
        let set = CounterSet::open(&Scope::threads(&[0]), &events).expect("they fit below the hard limit");
        assert_eq!(set.len(), 100);
        Ok(())
    })
}

fn where_an_event_is_refused_later_that_is_told() -> Outcome {
    // A breakpoint on every thread takes a register on every cpu; a thread that has them all in use
    // cannot be counted, and the total must not pass for that of all threads (rule J22).
    let word = Box::new(0u64);
    let breakpoint = Event::breakpoint(Breakpoint::W, &raw const *word as u64, 8);
    let builder = Counter::builder(breakpoint).user_only();
    // SAFETY: gettid has no preconditions.
    let me = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let mut own = Vec::new();
    let full = loop {
        match builder.clone().target(Target::thread(me)).open() {
            Ok(counter) if own.len() < 64 => own.push(counter),
            Ok(_) => return Err(Skip::needs("breakpoints that run out", "there is no end of them")),
            Err(error) => break error,
        }
    };
    if own.is_empty() {
        return Err(Skip::needs("a hardware breakpoint", full));
    }
    assert_eq!(full.errno(), Errno::ENOSPC);
    let other = Command::new("true").hold().expect("a child");
    let scope = Scope::threads(&[other.pid(), me]).without_children();
    let set = CounterSet::open(&scope, &[builder.into()]).expect("a set");
    assert!(set.error(0).is_none() && set.counter(0, 0).is_some() && set.counter(0, 1).is_none());
    let refused: Vec<_> = set.refused(0).map(|(slot, error)| (slot, error.errno())).collect();
    assert_eq!(refused, [(1, Errno::ENOSPC)]);
    Ok(())
}

fn the_whole_machine() -> Outcome {
    let event = Counter::builder(Software::PAGE_FAULTS);
    let cpu = *online_cpus().first().expect("a cpu");
    let probe = event.clone().target(Target::cpu(cpu)).user_and_kernel().open();
    probe.map_err(|error| Skip::needs("to count whole cpus", error))?;
    let (task, mut own) = (faults()?, faults()?.open().expect("page faults"));
    let mut set = CounterSet::open(&Scope::system(), &[event.into(), task.into()]).expect("a set");
    assert_eq!(set.slots().len(), online_cpus().len());
    let work = fifty_faults();
    set.enable().expect("enable");
    own.enable().expect("enable");
    (0..10).for_each(|_| work());
    own.disable().expect("disable");
    set.disable().expect("disable");
    let counts = [set.total(0), set.total(1), own.read()].map(|count| count.expect("read").value);
    // They were switched one after the other, so the others hold somewhat more.
    assert!(counts.iter().all(|&count| count >= 500), "{counts:?}");
    Ok(())
}

fn a_cgroup_is_counted_and_nothing_else() -> Outcome {
    // Rules B19 and C34.
    let own = OwnCgroup::new("counting")?;
    let cgroup = Cgroup::open(own.path()).expect("the folder");
    assert_eq!(cgroup.path(), own.path());
    let event = Counter::builder(Software::PAGE_FAULTS).user_and_kernel();
    let scope = Scope::cgroup(&cgroup, &online_cpus());
    let mut set = CounterSet::open(&scope, &[event.clone().into()]).expect("a set");
    if let Some(error) = set.error(0) {
        // A pristine tree has no ids for its groups until a controller is switched on.
        assert_eq!(error.errno(), Errno::ENOENT, "{error:#}");
        return Err(Skip::needs("events of cgroups", error));
    }
    set.enable().expect("enable");
    let work = fifty_faults();
    work();
    assert_eq!(set.total(0).expect("read").scaled(), Scaled::NotEnabled, "nobody is in it");
    let command = Command::new("sh").args(["-c", "true | true"]).hold().expect("a child");
    own.add(command.pid());
    let task = event.clone().target(command.target()).inherit(Inherit::All).enabled(true);
    let task = task.open().expect("page faults");
    let before = set.total(0).expect("read").value;
    command.release().expect("sh").wait().expect("its end");
    work();
    let (in_cgroup, of_command) = (set.total(0).expect("read"), task.read().expect("read"));
    assert!(in_cgroup.enabled_ns > 0 && of_command.value > 0);
    assert_eq!(in_cgroup.value - before, of_command.value, "both saw the same program");

    // Next to an event of everything, in one set.
    let of = |cgroup: Option<&Cgroup>| SetEvent { cgroup: cgroup.cloned(), ..event.clone().into() };
    let mut set = CounterSet::open(&Scope::system(), &[of(Some(&cgroup)), of(None)]).expect("a set");
    set.enable().expect("enable");
    work();
    assert_eq!(set.total(0).expect("read").scaled(), Scaled::NotEnabled, "nobody is in it");
    assert!(set.total(1).expect("read").value >= 50);
    // One of the two alone.
    set.disable_event(1).expect("disable");
    let before = set.total(1).expect("read").value;
    work();
    assert_eq!(set.total(1).expect("read").value, before);
    set.enable_event(1).expect("enable");
    work();
    assert!(set.total(1).expect("read").value >= before + 50);
    // A cgroup's tasks are counted on cpus.
    let set = CounterSet::open(&Scope::threads(&[0]), &[of(Some(&cgroup)), of(None)]).expect("a set");
    let error = set.error(0).expect("a thread is no cpu");
    assert_eq!((error.errno(), error.cause()), (Errno::EINVAL, Cause::NoTarget), "{error:#}");
    assert!(set.error(1).is_none());
    Ok(())
}

fn a_tracepoint_by_name_with_a_filter() -> Outcome {
    // Rule J34.
    need::root()?;
    need::tracefs()?;
    let mut counter =
        Counter::new(Event::tracepoint("raw_syscalls:sys_enter").expect("its id")).expect("a tracepoint");
    assert_eq!(counter.event().to_string(), "raw_syscalls:sys_enter");
    assert_eq!(counter.set_filter("id ==").expect_err("half a filter").errno(), Errno::EINVAL);
    assert_eq!(counter.set_filter("id == 1\0").expect_err("a NUL").errno(), Errno::EINVAL);
    let getppid = if cfg!(target_arch = "x86_64") { 110 } else { 173 };
    counter.set_filter(&format!("id == {getppid}")).expect("a filter");
    assert_eq!(counted(&mut counter, || system_calls(123)), 123);
    let mut all = Counter::new(Event::tracepoint("raw_syscalls:sys_enter").expect("its id")).expect("again");
    let calls = counted(&mut all, || system_calls(123));
    assert_eq!(calls, 124, "the ioctl that switches it off is one as well");
    for unknown in ["raw_syscalls:no_such_event", "sched", "../raw_syscalls:sys_enter", ":", ""] {
        assert_eq!(Event::tracepoint(unknown).expect_err("no such tracepoint").errno(), Errno::ENOENT);
    }
    Ok(())
}

/// Two words to be watched, in memory of their own.
struct Watched([UnsafeCell<u64>; 2]);

impl Watched {
    fn new() -> Box<Self> {
        Box::new(Watched([0, 0].map(UnsafeCell::new)))
    }

    fn address(&self, index: usize) -> u64 {
        self.0[index].get() as u64
    }

    #[inline(never)]
    fn write(&self, index: usize, times: u64) {
        for time in 0..times {
            // SAFETY: the word is ours, and no reference to its content exists.
            unsafe { self.0[index].get().write_volatile(time) };
        }
    }
}

fn writes_to_a_word_are_exact_wherever_it_is() -> Outcome {
    // Rules J23 and C51.
    let words = Watched::new();
    let event = Event::breakpoint(Breakpoint::W, words.address(0), 8);
    let mut counter = Counter::builder(event)
        .user_only()
        .open()
        .map_err(|error| Skip::needs("a hardware breakpoint", error))?;
    let work = || {
        words.write(0, 30);
        words.write(1, 50);
    };
    assert_eq!(counted(&mut counter, work), 30);
    counter.move_breakpoint(Breakpoint::W, words.address(1), 8).expect("moved");
    assert_eq!(counted(&mut counter, work), 50);
    assert_eq!(*counter.event(), Event::breakpoint(Breakpoint::W, words.address(1), 8));
    let error = counter.move_breakpoint(Breakpoint::W, words.address(1) + 1, 8).expect_err("unaligned");
    assert_eq!(error.errno(), Errno::EINVAL);
    assert_eq!(counted(&mut counter, work), 50, "where it was before (rule C51)");
    let mut faults = faults()?.open().expect("page faults");
    assert!(faults.move_breakpoint(Breakpoint::W, 8, 8).is_err(), "not a breakpoint");
    Ok(())
}

static CALLS: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn probed() {
    CALLS.fetch_add(1, Relaxed);
}

/// File and offset of a function of this program.
fn place_in_file(function: fn()) -> (PathBuf, u64) {
    let address = function as usize as u64;
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let hex = |text| u64::from_str_radix(text, 16).expect("a hexadecimal number");
    let place = maps.lines().find_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (start, end) = words[0].split_once('-').expect("a range");
        let inside = (hex(start)..hex(end)).contains(&address);
        inside.then(|| (PathBuf::from(words[5]), address - hex(start) + hex(words[2])))
    });
    place.expect("the function is in a mapping")
}

fn calls_of_an_own_function_are_exact() -> Outcome {
    // Rules J50 and J51.
    need::root()?;
    if let Err(error) = Pmu::named("uprobe") {
        return Err(Skip::needs("uprobes", error));
    }
    let (file, offset) = place_in_file(probed);
    let event = Event::uprobe(&file, offset).expect("a probe");
    let work = || (0..40).for_each(|_| probed());
    let mut entries = Counter::new(event.clone()).expect("a probe at the entry");
    assert_eq!(counted(&mut entries, work), 40);
    let mut returns = Counter::new(event.on_return()).expect("a probe at the return");
    assert_eq!(counted(&mut returns, work), 40);
    let error = Counter::new(Event::uprobe("/nonexistent/file", 0).expect("data")).expect_err("no file");
    assert_eq!(error.errno(), Errno::ENOENT);
    assert_eq!(Event::uprobe("a\0b", 0).expect_err("a NUL").errno(), Errno::EINVAL);
    Ok(())
}

fn calls_of_a_kernel_function_are_exact() -> Outcome {
    // Rule J52.
    need::root()?;
    if let Err(error) = Pmu::named("kprobe") {
        return Err(Skip::needs("kprobes", error));
    }
    let function = if cfg!(target_arch = "x86_64") { "__x64_sys_getppid" } else { "__arm64_sys_getppid" };
    let event = Event::kprobe(function).expect("a probe");
    let mut entries = Counter::new(event.clone()).expect("a probe at the entry");
    assert_eq!(counted(&mut entries, || system_calls(60)), 60);
    let mut returns = Counter::new(event.on_return()).expect("a probe at the return");
    assert_eq!(counted(&mut returns, || system_calls(60)), 60);
    let unknown = Event::kprobe("perfuse_no_such_function").expect("data");
    assert_eq!(Counter::new(unknown).expect_err("no such function").errno(), Errno::ENOENT);
    Ok(())
}

fn a_pmu_that_sysfs_describes() -> Outcome {
    // Rule J60: it counts user and kernel together, so asking for one of them is refused.
    let pmu = Pmu::named("msr").map_err(|error| Skip::needs("the msr PMU", error))?;
    let tsc = pmu.event("tsc").expect("an event it names");
    assert_eq!(tsc.to_string(), "msr/tsc/");
    assert_eq!(pmu.event_with(&[("event", 0)]).expect("by its terms").to_string(), "msr/event=0x0/");
    assert_eq!(pmu.event_with(&[("no-such-term", 0)]).expect_err("unknown").errno(), Errno::ENOENT);
    let mut counter = Counter::builder(tsc.clone())
        .user_and_kernel()
        .open()
        .map_err(|error| Skip::needs("to count the kernel", error))?;
    assert!(counted(&mut counter, || _ = burn(Duration::from_millis(1))) > 0);
    let error = Counter::builder(tsc).user_only().open().expect_err("it cannot exclude the kernel");
    assert_eq!(error.errno(), Errno::EINVAL);
    Ok(())
}

fn a_program_is_attached_to_a_counter() -> Outcome {
    // Rules K1 and K10.
    need::root()?;
    need::tracefs()?;
    let program = Program::returning(ProgramType::Tracepoint, 1)?;
    let event = Event::tracepoint("raw_syscalls:sys_exit").expect("its id");
    let mut counter = Counter::new(event).expect("a tracepoint");
    assert!(counter.query_bpf().expect("none").is_empty());
    counter.set_bpf(program.as_fd()).expect("attach");
    assert_eq!(counter.query_bpf().expect("one"), [program.id()]);
    assert_eq!(counter.set_bpf(program.as_fd()).expect_err("a second time").errno(), Errno::EEXIST);
    assert!(counted(&mut counter, || system_calls(10)) >= 10, "it answers 1");
    Ok(())
}

fn programs_of_ones_own_are_attached_and_read() -> Outcome {
    use perfuse::bpf::{MapKind, MapSpec, ProgramType, assemble};
    use perfuse::{ProgramAttempt, Programs};
    need::root()?;
    need::tracefs()?;
    let maps = [MapSpec::new(MapKind::Array, 4, 16, 1)];
    let mut programs = Programs::new(&maps).map_err(|error| Skip::needs("BPF", error))?;
    // The calls of this process are counted in the first word by one way, in the second by the other.
    let count = |at: usize| {
        let own = std::process::id();
        let text = format!(
            "call get_current_pid_tgid; r0 >>= 32; if r0 != {own} goto out
             r1 = map[idx:0][0]+{at}; r2 = 1; lock *(u64 *)(r1 +0) += r2
             out: r0 = 0; exit"
        );
        assemble(&text).expect("a program")
    };
    let event = Event::tracepoint("raw_syscalls:sys_exit").expect("its id");
    let mut counter = Counter::new(event).expect("a tracepoint");
    programs.at_raw_tracepoint("sys_enter", &count(0)).expect("attach");
    programs.at_event(&mut counter, ProgramType::Tracepoint, &count(8)).expect("attach");
    let counts = |programs: &Programs| {
        let value = programs.map(0).lookup(&[0; 4]).expect("a value");
        [0, 8].map(|at| u64::from_ne_bytes(value[at..][..8].try_into().expect("a word")))
    };
    let before = counts(&programs);
    system_calls(100);
    let after = counts(&programs);
    assert!(after.iter().zip(before).all(|(after, before)| after - before >= 100), "{before:?} {after:?}");
    programs.detach();
    drop(counter);
    let before = counts(&programs);
    system_calls(100);
    assert_eq!(counts(&programs), before);
    assert_eq!(programs.map(0).entries().expect("entries").len(), 1);

    let exit = assemble("r0 = 0; exit").expect("a program");
    let error = programs.at_raw_tracepoint("no_such_place", &exit).expect_err("there is none");
    assert_eq!((error.attempt, error.errno), (ProgramAttempt::Attach("no_such_place".into()), Errno::ENOENT));
    let careless = assemble("r0 = *(u64 *)(r1 +4000); exit").expect("a program");
    let error = programs.at_raw_tracepoint("sys_enter", &careless).expect_err("it is out of bounds");
    assert!(error.to_string().contains("the verifier says: "), "{error}");
    Ok(())
}

/// A program at the tracepoint of entries to calls that sends its task's number at each getppid(2) of this process, by these lines.
fn sends(by: &str) -> Vec<perfuse::bpf::Insn> {
    let (own, call) = (std::process::id(), libc::SYS_getppid);
    let text = format!(
        "r6 = r1; r1 = *(u64 *)(r6 +8); if r1 != {call} goto out
         call get_current_pid_tgid; *(u64 *)(r10 -8) = r0; r0 >>= 32; if r0 != {own} goto out
         {by}
         out: r0 = 0; exit"
    );
    perfuse::bpf::assemble(&text).expect("a program")
}

fn messages_of_programs_are_read() -> Outcome {
    use perfuse::Programs;
    use perfuse::bpf::{MapKind, MapSpec, ProgramType};
    need::root()?;
    need::tracefs()?;
    let array =
        "r1 = r6; r2 = map[idx:0]; r3 = 0xffffffff ll; r4 = r10; r4 += -8; r5 = 8; call perf_event_output";
    let ring = "r1 = map[idx:0]; r2 = r10; r2 += -8; r3 = 8; r4 = 0; call ringbuf_output";
    let calls = |count: u64| {
        for _ in 0..count {
            // SAFETY: it takes nothing, and cannot fail.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
    };
    // They are there before anybody waits.
    let minute = Some(Duration::from_secs(60));
    for (spec, by) in [
        (MapSpec::new(MapKind::PerfEventArray, 4, 4, 4096), array),
        (MapSpec::new(MapKind::RingBuf, 0, 0, 1 << 16), ring),
    ] {
        let kind = spec.kind;
        let mut programs = Programs::new(&[spec]).map_err(|error| Skip::needs("BPF", error))?;
        let mut messages = programs.messages(0, 4).expect("a reader");
        assert_eq!(messages.wait(Some(Duration::ZERO)).expect("a poll"), Wait::TimedOut, "{kind:?}");
        let event = Event::tracepoint("raw_syscalls:sys_enter").expect("its id");
        let mut counter = Counter::new(event).expect("a tracepoint");
        programs.at_event(&mut counter, ProgramType::Tracepoint, &sends(by)).expect("attach");
        let (mut told, mut last) = (0, 0);
        let mut each = |message: perfuse::Message<'_>| {
            let pid_tgid = u64::from_ne_bytes(message.data[..8].try_into().expect("a word"));
            assert_eq!(pid_tgid >> 32, u64::from(std::process::id()), "{kind:?}");
            assert_eq!(message.cpu.is_some(), kind == MapKind::PerfEventArray);
            let time = message.time_ns.unwrap_or(0);
            assert!(time >= last, "{kind:?}: in the order of time");
            last = time;
            told += 1;
        };
        // Read while they come.
        for _ in 0..10 {
            calls(50);
            assert_eq!(messages.wait(minute).expect("a poll"), Wait::Records, "{kind:?}");
            messages.take(&mut each);
        }
        while messages.wait(Some(Duration::ZERO)).expect("a poll") == Wait::Records {
            messages.take(&mut each);
        }
        // More than there is room for.
        calls(20_000);
        drop(counter);
        messages.rest(&mut each);
        assert_eq!(messages.rest(|_| {}), 0, "{kind:?}: each is handed out once");
        match kind {
            // The last that were lost are told with the next message, which does not come.
            MapKind::PerfEventArray => assert!(told > 500 && told + messages.lost() <= 20_500, "{told}"),
            // Linux never fills the last byte.
            _ => assert_eq!(told, 500 + (1 << 16) / 16 - 1, "all that there was room for"),
        }
    }
    let programs = Programs::new(&[MapSpec::new(MapKind::Hash, 4, 8, 1)]).expect("a map");
    let error = programs.messages(0, 1).expect_err("it is for nothing of the kind");
    assert!(error.to_string().contains("neither a perf event array nor a ring buffer"), "{error}");
    Ok(())
}

fn a_refreshed_counter_stops_by_itself() -> Outcome {
    // Rule C48.
    let mut counter = faults()?.period(1).open().expect("page faults");
    let work = fifty_faults();
    work();
    counter.refresh(7).expect("refresh");
    work();
    assert_eq!(counter.read().expect("read").value, 7);
    counter.set_period(10).expect("a period");
    counter.refresh(2).expect("refresh");
    work();
    assert_eq!(counter.read().expect("read").value, 7 + 20);
    let mut only_counting = faults()?.open().expect("page faults");
    assert_eq!(only_counting.refresh(1).expect_err("no overflows").errno(), Errno::EINVAL);
    assert_eq!(only_counting.set_period(1).expect_err("no overflows").errno(), Errno::EINVAL);
    Ok(())
}

fn overflows_become_signals() -> Outcome {
    // Rule G26.
    let handler = Handler::install(libc::SIGUSR2);
    let mut counter = faults()?.period(1).open().expect("page faults");
    counter.deliver_signal(SignalOwner::this_thread(), libc::SIGUSR2).expect("fcntl");
    let work = fifty_faults();
    work();
    counter.refresh(1).expect("refresh");
    work();
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while handler.count() == 0 && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    let caught = handler.caught();
    assert_eq!((caught.len(), caught[0].fd), (1, counter.as_fd().as_raw_fd()));
    Ok(())
}

fn overflows_trap_with_the_data_they_were_given() -> Outcome {
    // Rules I30 and A21.
    const TRAP_PERF: i32 = 6;
    let handler = Handler::install(libc::SIGTRAP);
    let data = 0xfeed_0123_4567_cafe;
    let builder = faults()?.period(1).sigtrap(data);
    let mut counter = builder.open().map_err(|error| Skip::needs("sigtrap", error))?;
    let pages = Pages::map(8);
    let work = || {
        pages.forget();
        pages.touch();
    };
    // Everything runs once before, the handler too, so that its code has been fetched.
    counter.enable().expect("enable");
    work();
    counter.disable().expect("disable");
    assert_eq!(counter.read().expect("read").value, handler.count() as u64);
    let before = handler.count();
    let count = counted(&mut counter, work);
    let caught = handler.caught().split_off(before);
    assert_eq!((count, caught.len()), (8, 8), "one signal for each fault: {caught:x?}");
    for signal in caught {
        assert_eq!((signal.code, signal.perf_data, signal.perf_type), (TRAP_PERF, data, 1), "{signal:?}");
    }
    Ok(())
}

fn everything_this_thread_opened_is_switched_at_once() -> Outcome {
    // Rule C57.
    let counters = [(); 3].map(|()| faults().map(|builder| builder.open().expect("page faults")));
    let work = fifty_faults();
    work();
    perfuse::Perf::linux().enable_own_events().expect("prctl");
    work();
    perfuse::Perf::linux().disable_own_events().expect("prctl");
    work();
    for counter in counters {
        assert_eq!(counter?.read().expect("read").value, 50);
    }
    Ok(())
}

fn programs_do_not_inherit_counters() -> Outcome {
    let counter = faults()?.open().expect("page faults");
    let number = counter.as_fd().as_raw_fd();
    let held = Command::new("sleep").arg("1000").hold().expect("a child");
    let link = PathBuf::from(format!("/proc/{}/fd/{number}", held.pid()));
    let target = |link: &Path| fs::read_link(link).map(|path| path.to_string_lossy().into_owned());
    assert!(target(&link).expect("a fork has it").contains("perf_event"));
    let running = held.release().expect("sleep");
    assert!(!target(&link).is_ok_and(|target| target.contains("perf_event")), "an exec closes it");
    running.signal(libc::SIGKILL).expect("a signal");
    running.wait().expect("its end");
    Ok(())
}

fn a_counter_may_move_to_another_thread() -> Outcome {
    let mut counter = faults()?.open().expect("page faults");
    let work = fifty_faults();
    work();
    counter.enable().expect("enable");
    work();
    let mut counter = std::thread::spawn(move || {
        fifty_faults()();
        counter
    })
    .join()
    .expect("a thread");
    counter.disable().expect("disable");
    let value = counter.read().expect("read").value;
    // It still measures the thread that opened it; making and joining a thread costs that one a few.
    assert!((50..100).contains(&value), "{value}");
    Ok(())
}

fn a_thread_of_this_process_by_its_id() -> Outcome {
    let builder = faults()?;
    let (tell, told) = std::sync::mpsc::channel();
    let barrier = Arc::new(Barrier::new(2));
    let other = std::thread::spawn({
        let barrier = barrier.clone();
        move || {
            let work = fifty_faults();
            work();
            // SAFETY: gettid has no preconditions.
            tell.send(unsafe { libc::syscall(libc::SYS_gettid) } as u32).expect("the test waits");
            barrier.wait();
            work();
            barrier.wait();
        }
    });
    let tid = told.recv().expect("an id");
    let mut counter = builder.target(Target::thread(tid)).open().expect("page faults");
    counter.enable().expect("enable");
    barrier.wait();
    barrier.wait();
    counter.disable().expect("disable");
    other.join().expect("a thread");
    let value = counter.read().expect("read").value;
    // The first time it passes the barrier may fetch code.
    assert!((50..60).contains(&value), "{value}");
    Ok(())
}

suite! {
    smoke:
        page_faults_are_exact,
        a_command_is_counted_from_its_exec;
    measurements:
        a_disabled_counter_counts_nothing,
        reset_keeps_the_times,
        differences_of_readings,
        every_read_format_is_understood,
        the_task_clock_agrees_with_the_clock_of_the_thread,
        context_switches_are_exact,
        nothing_is_inherited_unless_asked_for,
        threads_only,
        threads_and_children,
        an_event_that_leaves_on_exec,
        a_process_is_counted_with_its_threads,
        events_that_start_by_themselves_can_be_stopped,
        a_thread_that_is_gone_is_left_out,
        one_refused_event_leaves_the_others,
        where_the_first_of_a_group_is_refused_the_next_leads,
        a_group_that_starts_by_itself_starts_whole,
        groups_of_a_set_are_separate,
        descriptors_that_run_out_end_the_whole_set,
        the_soft_limit_of_descriptors_is_raised,
        where_an_event_is_refused_later_that_is_told,
        the_whole_machine,
        a_cgroup_is_counted_and_nothing_else,
        a_tracepoint_by_name_with_a_filter,
        writes_to_a_word_are_exact_wherever_it_is,
        calls_of_an_own_function_are_exact,
        calls_of_a_kernel_function_are_exact,
        a_pmu_that_sysfs_describes,
        a_program_is_attached_to_a_counter,
        programs_of_ones_own_are_attached_and_read,
        messages_of_programs_are_read,
        a_refreshed_counter_stops_by_itself,
        overflows_become_signals,
        overflows_trap_with_the_data_they_were_given,
        everything_this_thread_opened_is_switched_at_once,
        programs_do_not_inherit_counters,
        a_counter_may_move_to_another_thread,
        a_thread_of_this_process_by_its_id;
}
