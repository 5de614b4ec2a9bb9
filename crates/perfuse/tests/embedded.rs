//! The embedded kernel: the same library on a kernel of our own, next to Linux where that allows it.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use perfuse::abi::record::{Record, RecordFormat};
use perfuse::abi::{AttrFlags, Breakpoint, ByteOrder, Hardware, SampleType, Software};
use perfuse::diagnosis::Cause;
use perfuse::kernel::{Kernel, Wrap};
use perfuse::{
    Builder, Command, Counter, Errno, Event, Inherit, Perf, RingOptions, SamplerSet, Scaled, Scope,
    SignalOwner, Target, Wait,
};
use perfuse_testkit::signals::Handler;
use perfuse_testkit::work::{Child, Pages, burn, switches};
use perfuse_testkit::{Outcome, Puppet, Sandbox, Skip, need, suite, wait};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The embedded kernel.
fn embedded() -> Perf {
    Perf::embedded().expect("one for this architecture")
}

suite! {
    all need need::ptrace;
    smoke:
        a_command_is_counted_from_its_exec;
    witnesses:
        counts_are_those_of_linux,
        lines_that_define_probes_are_linuxs,
        switches_of_storms_are_those_of_linux_less_our_stops;
    measurements:
        faults_of_this_thread_are_exact,
        calls_about_others_take_nothing_away,
        the_time_of_this_thread_is_its_clocks,
        sleeping_is_switching,
        a_group_counts_together,
        a_command_that_cannot_be_executed,
        a_held_command_that_is_dropped,
        a_running_process_can_be_joined,
        samples_add_up_to_the_time,
        a_descriptor_is_ready_as_that_of_linux,
        a_loop_of_ones_own_acknowledges,
        both_kernels_measure_at_once,
        a_kernel_before_it_passes_all_on,
        what_cannot_be_had_is_explained,
        it_works_where_perf_event_open_is_refused,
        another_thread_is_read_while_it_lives,
        what_is_watched_of_a_child_is_counted,
        overflows_of_a_child_become_signals;
}

/// A counter on the embedded kernel.
fn on(event: impl Into<Event>) -> Builder {
    embedded().counter(event)
}

/// A shell loop of some 100 ms.
const BUSY: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";

fn shell(script: &str) -> Command {
    Command::new("sh").args(["-c", script])
}

fn faults_of_this_thread_are_exact() -> Outcome {
    let mut counter = on(Software::PAGE_FAULTS).open().expect("page faults");
    let pages = Pages::map(50);
    let work = || {
        pages.forget();
        pages.touch();
    };
    work();
    assert_eq!(counter.read().expect("read").scaled(), Scaled::NotEnabled);
    counter.enable().expect("enable");
    work();
    counter.disable().expect("disable");
    let count = counter.read().expect("read");
    assert_eq!(count.scaled(), Scaled::Exact(50));
    work();
    assert_eq!(counter.read().expect("read"), count, "a counter that is off does not count");
    counter.reset().expect("reset");
    assert_eq!(counter.read().expect("read").value, 0);
    Ok(())
}

/// A thread's counter counts all its work between two calls, also when these calls are about other tasks.
fn calls_about_others_take_nothing_away() -> Outcome {
    let command = shell("exec sleep 60").hold().expect("a child");
    let others = on(Software::TASK_CLOCK).target(command.target()).open().expect("its clock");
    let mut counter = on(Software::PAGE_FAULTS).open().expect("page faults");
    let pages = Pages::map(50);
    let work = || {
        pages.forget();
        pages.touch();
    };
    work();
    counter.enable().expect("enable");
    for rounds in 1..=3 {
        work();
        others.read().expect("read");
        work();
        drop(on(Software::DUMMY).open().expect("another event"));
        let faults = counter.read().expect("read").value;
        assert!(faults >= rounds * 100 && faults < rounds * 100 + 20, "{faults} in {rounds} rounds");
    }
    Ok(())
}

fn the_time_of_this_thread_is_its_clocks() -> Outcome {
    let mut counter = on(Software::TASK_CLOCK).open().expect("task-clock");
    counter.enable().expect("enable");
    let burnt = burn(Duration::from_millis(20));
    std::thread::sleep(Duration::from_millis(20));
    let count = counter.read().expect("read");
    let burnt = burnt.as_nanos() as u64;
    assert!(count.value >= burnt && count.value < burnt + 10_000_000, "{count:?} of {burnt}");
    assert_eq!(
        (count.enabled_ns, count.running_ns),
        (count.value, count.value),
        "its time is that of the task"
    );
    Ok(())
}

fn sleeping_is_switching() -> Outcome {
    let mut counter = on(Software::CONTEXT_SWITCHES).open().expect("context switches");
    counter.enable().expect("enable");
    switches(10);
    counter.disable().expect("disable");
    let value = counter.read().expect("read").value;
    assert!((10..1000).contains(&value), "{value}");
    Ok(())
}

fn a_group_counts_together() -> Outcome {
    let events = [on(Software::TASK_CLOCK), on(Software::PAGE_FAULTS)];
    let mut group = embedded().group();
    let members = events.map(|event| group.add_built(event).expect("a member"));
    group.enable().expect("enable");
    perfuse_testkit::work::touch_pages(20);
    group.disable().expect("disable");
    let counts = group.read().expect("read");
    assert!(counts[members[0]].value > 0);
    assert!(counts[members[1]].value >= 20);
    Ok(())
}

/// Counters on a held command, by one kernel.
fn counters(command: &perfuse::HeldCommand, kernel: &Perf, events: &[Software]) -> Vec<Counter> {
    let open = |event: &Software| {
        let builder = Counter::builder(*event).kernel(kernel).target(command.target());
        builder.inherit(Inherit::All).enable_on_exec(true).open()
    };
    events.iter().map(|event| open(event).expect("it can be counted")).collect()
}

fn a_command_is_counted_from_its_exec() -> Outcome {
    let command = shell("exit 3").hold().expect("a child");
    let counted = counters(&command, &embedded(), &[Software::PAGE_FAULTS]);
    assert_eq!(counted[0].read().expect("read").scaled(), Scaled::NotEnabled, "it is held");
    let (status, usage) = command.release().expect("sh").wait().expect("its end");
    assert_eq!(status.code(), Some(3));
    let count = counted[0].read().expect("read");
    let all = usage.minor_faults + usage.major_faults;
    assert!(count.value > 0 && count.value <= all, "{count:?} of {all}");
    assert!(counted[0].poll(None).expect("poll").hangup, "it has ended (rule G21)");
    Ok(())
}

fn a_command_that_cannot_be_executed() -> Outcome {
    let command = Command::new("/nonexistent/program").hold().expect("a child");
    let counted = counters(&command, &embedded(), &[Software::TASK_CLOCK]);
    let error = command.release().expect_err("there is no such program");
    assert_eq!(error.errno(), Errno::ENOENT);
    assert_eq!(counted[0].read().expect("read").value, 0);
    Ok(())
}

fn a_held_command_that_is_dropped() -> Outcome {
    let command = shell("exit 0").hold().expect("a child");
    let counted = counters(&command, &embedded(), &[Software::TASK_CLOCK]);
    let pid = command.pid();
    drop(command);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "it has been waited for");
    assert_eq!(counted[0].read().expect("read").value, 0);
    Ok(())
}

fn counts_are_those_of_linux() -> Outcome {
    let events = [Software::TASK_CLOCK, Software::PAGE_FAULTS, Software::CONTEXT_SWITCHES];
    let allowed = Counter::builder(Software::CONTEXT_SWITCHES).kernel(Perf::linux()).user_and_kernel().open();
    if let Err(error) = allowed {
        return Err(Skip::needs("Linux' perf_events", error));
    }
    let command = shell(BUSY).hold().expect("a child");
    // Counters that are opened first are switched on first, and see a little more.
    let theirs = counters(&command, &Perf::linux(), &events);
    let ours = counters(&command, &embedded(), &events);
    let (_, usage) = command.release().expect("sh").wait().expect("its end");
    let read = |all: &[Counter]| -> Vec<u64> {
        all.iter().map(|counter| counter.read().expect("read").value).collect()
    };
    let (theirs, ours) = (read(&theirs), read(&ours));
    // Linux counts some tenths of a millisecond of the exec itself. It also counts the time that interrupts and the
    // host of a virtual machine take from the task, which is no CPU time of its own.
    let all = u64::try_from((usage.user + usage.system).as_nanos()).expect("less than centuries");
    assert!(ours[0].abs_diff(all) < all / 10 + 5_000_000, "ns: {} of {all}", ours[0]);
    assert!(ours[0] < theirs[0] + theirs[0] / 10 + 2_000_000, "ns: {} and Linux' {}", ours[0], theirs[0]);
    assert!(theirs[1].abs_diff(ours[1]) <= 25, "faults: {} and Linux' {}", ours[1], theirs[1]);
    // Linux counts the stops by which we follow it.
    assert!(ours[2] <= theirs[2] + 2 && theirs[2] <= ours[2] + 10, "{} and Linux' {}", ours[2], theirs[2]);
    Ok(())
}

/// Linux counts both stops of each birth, and that of the signal by which a child tells of its end; neither counts the switch by which a dead one leaves its cpu.
fn switches_of_storms_are_those_of_linux_less_our_stops() -> Outcome {
    let event = [Software::CONTEXT_SWITCHES];
    let allowed = Counter::builder(event[0]).kernel(Perf::linux()).user_and_kernel().open();
    allowed.map_err(|error| Skip::needs("Linux' perf_events", error))?;
    let forks = shell("i=0; while [ $i -lt 200 ]; do (:); i=$((i+1)); done");
    let threads = "import threading\n\
                   for _ in range(200): t = threading.Thread(target=int); t.start(); t.join()";
    let python = need::program("python3");
    let threads = python.as_ref().ok().map(|python| (Command::new(python).args(["-c", threads]), 2));
    for (storm, stops) in [Some((forks, 3)), threads].into_iter().flatten() {
        let agree = || {
            let command = storm.hold().expect("a child");
            let born = embedded().births();
            let theirs = counters(&command, &Perf::linux(), &event);
            let ours = counters(&command, &embedded(), &event);
            command.release().expect("it starts").wait().expect("its end");
            let births = embedded().births() - born;
            let value = |all: &[Counter]| all[0].read().expect("read").value;
            let (theirs, ours) = (value(&theirs), value(&ours));
            eprintln!("{births} births, {theirs} switches by Linux, {ours} by us");
            // An interpreter's wrapper may start processes first.
            let stops = stops * births - births / 5..=3 * births + births / 5;
            births >= 200 && stops.contains(&theirs.saturating_sub(ours))
        };
        wait::until("a storm whose switches agree", agree);
    }
    python.map(drop)
}

fn a_running_process_can_be_joined() -> Outcome {
    let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh");
    let scope = Scope::processes(&[child.id()]).expect("it lives");
    let open = || {
        let event = on(Software::TASK_CLOCK).enabled(true);
        perfuse::CounterSet::open(&scope.clone(), &[event.into()])
    };
    let value = open().map(|set| {
        std::thread::sleep(Duration::from_millis(100));
        set.total(0).map(|count| count.value)
    });
    child.kill().expect("it runs");
    let _ = child.wait();
    let value = value.expect("one's own child can be joined").expect("read");
    assert!((1_000_000..2_000_000_000).contains(&value), "{value}");
    Ok(())
}

fn samples_add_up_to_the_time() -> Outcome {
    // As exact as so many samples can be; where the machine is busy some stops come so late that it takes another run.
    let mut told = Vec::new();
    for _ in 0..10 {
        let (periods, time) = sampled_and_counted();
        if periods < time / 2 * 3 && periods > time / 2 {
            return Ok(());
        }
        told.push((periods, time));
    }
    panic!("sampled and counted, in ns: {told:?}")
}

/// Runs a busy shell: what its samples add up to, and its task-clock.
fn sampled_and_counted() -> (u64, u64) {
    let command = shell(&BUSY.replace("60000", "300000")).hold().expect("a child");
    let clock = counters(&command, &embedded(), &[Software::TASK_CLOCK]);
    let fields =
        SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD | SampleType::CALLCHAIN;
    let flags = AttrFlags::TASK | AttrFlags::COMM | AttrFlags::MMAP | AttrFlags::MMAP2;
    let event = on(Software::CPU_CLOCK).user_only().frequency(500).sample(fields).enable_on_exec(true);
    let event = event.with(|attr| attr.flags |= flags);
    let scope = Scope::command(&command);
    let mut set = SamplerSet::open(&scope, &[event.into()], RingOptions::default()).expect("samplers");
    let pid = command.pid();
    let running = command.release().expect("sh");
    let (mut samples, mut periods, mut comms, mut maps, mut exits) = (0, 0, 0, 0, 0);
    let format = RecordFormat::of(set.attr(0).expect("it is open"), ByteOrder::NATIVE);
    loop {
        let told = set.wait(&[], Some(Duration::from_millis(200))).expect("wait");
        for ring in 0..set.rings() {
            for raw in set.batch(ring).iter() {
                match raw.decode(&format).expect("a record").record {
                    Record::Sample(sample) => {
                        samples += 1;
                        periods += sample.period.expect("a period");
                        assert_eq!(sample.tid.expect("a thread").pid, pid);
                        assert!(sample.callchain.is_some_and(|chain| !chain.words.is_empty()));
                    }
                    Record::Comm(_) => comms += 1,
                    Record::Mmap2(_) => maps += 1,
                    Record::Exit(_) => exits += 1,
                    _ => {}
                }
            }
        }
        if told == Wait::Ended {
            break;
        }
    }
    running.wait().expect("its end");
    let time = clock[0].read().expect("read").value;
    // A static shell has one map, and the vdso.
    assert!(samples > 5 && comms >= 1 && maps >= 1 && exits >= 1, "{samples} {comms} {maps} {exits}");
    (periods, time)
}

/// Rules G21, G23, G24: a descriptor hangs up at once without a ring, is ready with one while there is something to read,
/// and hangs up when what it measures has ended, whichever kernel answers.
fn a_descriptor_is_ready_as_that_of_linux() -> Outcome {
    let told = |kernel: &Perf| {
        let command = shell("exit 0").hold().expect("a child");
        let dummy = Counter::builder(Software::DUMMY).kernel(kernel).target(command.target());
        let without = dummy.enabled(true).open().expect("a counter");
        let event = Counter::builder(Software::DUMMY).kernel(kernel).enabled(true);
        let event = event.with(|attr| attr.flags |= AttrFlags::TASK | AttrFlags::COMM);
        let opened = perfuse::Sampler::builder().target(command.target()).event(event).open();
        let mut ring = opened.expect("a ring");
        let now = |fd: std::os::fd::BorrowedFd<'_>, millis| {
            let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry that lives.
            unsafe { libc::poll(&raw mut entry, 1, millis) };
            entry.revents
        };
        let mut all = vec![now(without.as_fd(), 0), now(ring.as_fd(), 0)];
        let running = command.release().expect("sh");
        running.wait().expect("its end");
        all.push(now(without.as_fd(), 0));
        all.push(now(ring.as_fd(), 10_000) & libc::POLLHUP);
        assert!(ring.batch().iter().count() > 0);
        all
    };
    let ours = told(&embedded());
    assert_eq!(ours, [libc::POLLHUP, 0, libc::POLLHUP, libc::POLLHUP]);
    if Counter::builder(Software::DUMMY).kernel(Perf::linux()).open().is_ok() {
        assert_eq!(ours, told(&Perf::linux()));
    }
    Ok(())
}

/// The kernels of which something can be had here: the embedded one, and Linux if it allows the least.
fn kernels() -> impl Iterator<Item = Perf> {
    std::iter::once(embedded()).chain(Perf::linux_refuses().is_none().then(Perf::linux))
}

/// Rule G24, for event loops that know nothing of kernels: readiness that was acknowledged is not told again, and the next
/// wake-up is.
fn a_loop_of_ones_own_acknowledges() -> Outcome {
    for kernel in kernels() {
        let (mut ours, its) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
        let output = its.try_clone().expect("the other end");
        let command = shell("while read line; do (:); echo $line; done").stdin(its).stdout(output);
        let command = command.hold().expect("a child");
        let event = kernel.counter(Software::DUMMY).enabled(true).user_only().with(|attr| {
            attr.flags |= AttrFlags::TASK;
            attr.set_wakeup_watermark(1);
        });
        let set = SamplerSet::open(&Scope::command(&command), &[event.into()], RingOptions::default());
        let mut set = set.expect("rings");
        let running = command.release().expect("sh");
        let poll = |set: &SamplerSet, millis| {
            let entry =
                |ring| libc::pollfd { fd: set.fd(ring).as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let mut entries: Vec<_> = (0..set.rings()).map(entry).collect();
            // SAFETY: as many entries as are said, which live.
            unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, millis) };
            entries.into_iter().map(|entry| entry.revents & libc::POLLIN != 0).collect::<Vec<_>>()
        };
        for _ in 0..3 {
            assert!(!poll(&set, 0).contains(&true), "{}: nothing new", kernel.name());
            // A child is born and ends.
            ours.write_all(b"go\n").expect("it reads");
            ours.read_exact(&mut [0; 3]).expect("it answers");
            let mut records = 0;
            while records < 2 {
                let ready = poll(&set, 60_000);
                assert!(ready.contains(&true), "{}: a wake-up that is not told", kernel.name());
                for ring in (0..set.rings()).filter(|&ring| ready[ring]) {
                    set.acknowledge(ring);
                    records += set.batch(ring).iter().count();
                }
            }
            assert_eq!(records, 2, "{}: its birth and its end", kernel.name());
        }
        drop(ours);
        running.wait().expect("its end");
    }
    Ok(())
}

/// Nothing of the process decides who measures: counters, groups and samplers of both kernels live side by side, on the
/// same command.
fn both_kernels_measure_at_once() -> Outcome {
    let linux = match Perf::linux_refuses() {
        Some(error) => return Err(Skip::needs("Linux", error)),
        None => Perf::linux(),
    };
    let command = shell(BUSY).hold().expect("a child");
    let both = [embedded(), linux];
    let clocks = both.each_ref().map(|kernel| {
        let clock = kernel.counter(Software::TASK_CLOCK).target(command.target()).enable_on_exec(true);
        clock.open().expect("a clock")
    });
    let mut groups = both.each_ref().map(Perf::group);
    let members = groups.each_mut().map(|group| group.add(Software::PAGE_FAULTS).expect("page faults"));
    let mut rings = both.each_ref().map(|kernel| {
        let event = kernel.counter(Software::DUMMY).enabled(true).with(|attr| attr.flags |= AttrFlags::TASK);
        perfuse::Sampler::builder().target(command.target()).event(event).open().expect("a ring")
    });
    groups.iter_mut().for_each(|group| group.enable().expect("on"));
    Pages::map(64).touch();
    let (_, usage) = command.release().expect("sh").wait().expect("its end");
    let used = (usage.user + usage.system).as_nanos() as u64;
    for (kernel, clock) in both.iter().zip(&clocks) {
        let time = clock.read().expect("read").value;
        assert!(time > 0 && time < used + 10_000_000, "{}: {time} of {used} ns", kernel.name());
    }
    for (group, member) in groups.iter().zip(members) {
        assert!(
            group.read().expect("read")[member].value >= 64,
            "{}: {group:?}",
            group.read().expect("read")[member].value
        );
    }
    for ring in &mut rings {
        assert!(ring.batch().iter().count() > 0, "the end of the command");
    }
    Ok(())
}

/// A kernel that changes nothing.
#[derive(Debug)]
struct Before(Perf);

impl Wrap for Before {
    fn inner(&self) -> &dyn Kernel {
        &*self.0
    }
}

fn a_kernel_before_it_passes_all_on() -> Outcome {
    let kernel = Perf::new(Before(embedded()));
    assert!(kernel.facts().is_embedded && kernel.name() == embedded().name());
    let refused = kernel.counter(Hardware::CPU_CYCLES).open().expect_err("no PMU");
    assert_eq!(refused.cause(), Cause::NotEmbedded, "its reasons");
    let command = shell("exec sleep 60").hold().expect("a child");
    let event = kernel.counter(Software::DUMMY).enabled(true).with(|attr| {
        attr.flags |= AttrFlags::COMM;
        attr.set_wakeup_watermark(1);
    });
    let opened = perfuse::Sampler::builder().target(command.target()).event(event).open();
    let mut ring = opened.expect("a ring");
    let running = command.release().expect("sh");
    // Each wait takes back that something is there: one that is not heard of goes on being told.
    let mut names = 0;
    while names < 2 {
        assert_ne!(ring.wait(Some(Duration::from_secs(60))).expect("wait"), Wait::TimedOut);
        names += ring.batch().iter().count();
    }
    assert_eq!(ring.wait(Some(Duration::from_millis(50))).expect("wait"), Wait::TimedOut);
    let mut entry = libc::pollfd { fd: ring.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry that lives.
    unsafe { libc::poll(&raw mut entry, 1, 0) };
    assert_eq!(entry.revents, 0, "it was read");
    running.signal(libc::SIGKILL).expect("it runs");
    running.wait().expect("its end");
    Ok(())
}

fn what_cannot_be_had_is_explained() -> Outcome {
    let refused = |builder: Builder| builder.open().expect_err("it cannot be had");
    let cases = [
        (on(Hardware::CPU_CYCLES), Errno::ENOENT, "hardware events"),
        (on(Software::ALIGNMENT_FAULTS), Errno::ENOENT, "nobody tells"),
        (on(Software::TASK_CLOCK).target(Target::cpu(0)), Errno::EACCES, "whole cpus"),
        (on(Software::TASK_CLOCK).inherit(Inherit::All), Errno::EOPNOTSUPP, "trace itself"),
        (on(Software::CPU_CLOCK).user_only().period(1_000_000), Errno::EOPNOTSUPP, "not sampled"),
        (on(Software::PAGE_FAULTS).period(1), Errno::EOPNOTSUPP, "single faults"),
        (on(Event::breakpoint(Breakpoint::W, 4096, 8)), Errno::EOPNOTSUPP, "no breakpoints"),
    ];
    for (builder, errno, words) in cases {
        let error = refused(builder);
        assert_eq!((error.errno(), error.cause()), (errno, Cause::NotEmbedded), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let foreign = refused(on(Software::TASK_CLOCK).target(Target::thread(u32::MAX >> 1)));
    assert_eq!(foreign.errno(), Errno::ESRCH);
    Ok(())
}

fn it_works_where_perf_event_open_is_refused() -> Outcome {
    let test = "it_works_where_perf_event_open_is_refused";
    Sandbox::new().unprivileged().refusing_perf_event_open(Errno::EPERM.0).within(test, || {
        let refused = Counter::builder(Software::TASK_CLOCK).kernel(Perf::linux()).open();
        assert_eq!(refused.expect_err("a filter refuses").cause(), Cause::Seccomp);
        let command = shell(BUSY).hold().expect("a child");
        let counted = counters(&command, &embedded(), &[Software::TASK_CLOCK, Software::PAGE_FAULTS]);
        let (_, usage) = command.release().expect("sh").wait().expect("its end");
        let time = counted[0].read().expect("read").value;
        let used = (usage.user + usage.system).as_nanos() as u64;
        assert!(time <= used && used < time + 10_000_000, "{time} of {used} ns");
        assert!(counted[1].read().expect("read").value > 10);
        Ok(())
    })
}

fn another_thread_is_read_while_it_lives() -> Outcome {
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let (more, goes_on) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        tell.send(perfuse_testkit::work::thread_id()).expect("the test waits");
        goes_on.recv().expect("the test counts");
        let burnt = burn(Duration::from_millis(5));
        tell.send(0).expect("the test waits");
        let _ = ends.recv();
        burnt
    });
    let tid = told.recv().expect("an id");
    let counter =
        on(Software::TASK_CLOCK).target(Target::thread(tid)).enabled(true).open().expect("a thread of ours");
    more.send(()).expect("it waits");
    told.recv().expect("it has worked");
    let value = counter.read().expect("read").value;
    assert!(value >= 5_000_000, "{value}");
    end.send(()).expect("it waits");
    other.join().expect("a thread");
    // It is waited for as soon as it needs its stack no more, which is a little before its end.
    while std::path::Path::new(&format!("/proc/self/task/{tid}")).exists() {
        std::thread::yield_now();
    }
    let error = counter.read().expect_err("its last numbers are lost");
    assert_eq!(error.errno(), Errno::ENODATA);
    Ok(())
}

fn what_is_watched_of_a_child_is_counted() -> Outcome {
    static WATCHED: AtomicU64 = AtomicU64::new(0);
    let write = || (0..50).for_each(|time| WATCHED.store(time, Ordering::Relaxed));
    let (ours, its) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    let child = Child::fork(|| {
        let mut byte = [0];
        while (&its).read_exact(&mut byte).is_ok() && byte != [0] {
            write();
            (&its).write_all(&byte).expect("somebody listens");
        }
    });
    let ask = |byte: u8| {
        (&ours).write_all(&[byte]).expect("the child listens");
        (&ours).read_exact(&mut [0]).expect("the child answers");
    };
    let target = Target::thread(child.pid());
    let event = Event::breakpoint(Breakpoint::W, (&raw const WATCHED) as u64, 8);
    let mut counter = on(event).target(target).open().expect("a child can be watched");
    let value = |counter: &Counter| counter.read().expect("it can be read").value;
    ask(1);
    counter.enable().expect("on");
    ask(1);
    assert_eq!(value(&counter), 50);
    counter.disable().expect("off");
    ask(1);
    assert_eq!(value(&counter), 50);
    counter.enable().expect("on");
    ask(1);
    assert_eq!(value(&counter), 100);
    drop(counter);
    ask(1);
    (&ours).write_all(&[0]).expect("the child listens");
    Ok(())
}

fn overflows_of_a_child_become_signals() -> Outcome {
    static WATCHED: AtomicU64 = AtomicU64::new(0);
    let handler = Handler::install(libc::SIGUSR2);
    let mut puppet = Puppet::fork(&[], |_| (0..5).for_each(|time| WATCHED.store(time, Ordering::Relaxed)));
    let event = Event::breakpoint(Breakpoint::W, (&raw const WATCHED) as u64, 8);
    let target = Target::thread(puppet.pid());
    let opened = on(event).user_only().target(target).period(5).open();
    let mut counter = opened.map_err(|error| Skip::needs("debug registers", error))?;
    counter.deliver_signal(SignalOwner::this_thread(), libc::SIGUSR2).expect("fcntl");
    puppet.act(1);
    counter.enable().expect("on");
    for times in 1..=4 {
        puppet.act(1);
        wait::until("a signal", || handler.count() >= times);
    }
    counter.disable().expect("off");
    let fd = counter.as_fd().as_raw_fd();
    drop(counter);
    puppet.act(1);
    // It is traced: only its tracer may wait for it. It ends when nobody is left to tell it anything.
    std::mem::forget(puppet);
    let caught = handler.caught();
    assert_eq!((caught.len(), caught[3].fd), (4, fd), "one for each overflow, and none for the end");
    Ok(())
}

/// A function with arguments of all kinds, at an address that is the same each time.
const PROBED: &str = r#"
struct request { const char *name; long length; short tags[3]; unsigned char letter; };
__attribute__((noipa)) long handle(struct request *request, long number, const char *text) { return request->length * number; }
static struct request request = { "a name", -7, { 1, -2, 300 }, 'x' };
int main(void) {
    long sum = 0;
    for (long number = -2; number < 3; number++) {
        request.length = number;
        sum += handle(&request, number, number & 1 ? "odd" : "");
    }
    return sum == 12345;
}
"#;

/// The data of samples of a program's tracepoint, without the id and the thread.
fn raw_samples(kernel: &Perf, program: &Path, id: u64) -> Vec<Vec<u8>> {
    let command = Command::new(program).hold().expect("a child");
    let event = kernel.counter(Event::Tracepoint { id, name: "probes:line".into() });
    let event = event.period(1).sample(SampleType::RAW).enable_on_exec(true);
    let scope = Scope::command(&command);
    let mut set = SamplerSet::open(&scope, &[event.into()], RingOptions::default()).expect("samplers");
    let format = RecordFormat::of(set.attr(0).expect("it is open"), ByteOrder::NATIVE);
    let running = command.release().expect("it begins");
    let mut samples = Vec::new();
    loop {
        let told = set.wait(&[], Some(Duration::from_millis(200))).expect("wait");
        for ring in 0..set.rings() {
            for raw in set.batch(ring).iter() {
                if let Record::Sample(sample) = raw.decode(&format).expect("a record").record {
                    let mut data = sample.raw.expect("raw data").as_bytes().to_vec();
                    data[..8].fill(0);
                    samples.push(data);
                }
            }
        }
        if told == Wait::Ended {
            break;
        }
    }
    running.wait().expect("its end");
    samples
}

/// Lines of `uprobe_events` mean the same on both kernels: the same are refused, with the same errno, and of the others formats and
/// the data of samples are equal.
fn lines_that_define_probes_are_linuxs() -> Outcome {
    need::root()?;
    let tracefs = need::tracefs()?;
    if !tracefs.join("uprobe_events").exists() {
        return Err(Skip::needs("uprobe_events", "this kernel has none"));
    }
    need::program("cc")?;
    let folder = std::env::temp_dir().join(format!("perfuse-lines-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (source, built) = (folder.join("probed.c"), folder.join("probed"));
    std::fs::write(&source, PROBED).expect("a source");
    let done =
        std::process::Command::new("cc").args(["-O1", "-no-pie", "-o"]).args([&built, &source]).status();
    assert!(done.is_ok_and(|status| status.success()));
    let elf = perfuse_symbols::Elf::open(&built).expect("a program");
    let place = elf.function("handle").expect("symbols").and_then(|at| elf.offset_of(at)).expect("a place");
    let group = format!("perfuse_lines_{}", std::process::id());
    let name = format!("{group}:line");
    let registers = if cfg!(target_arch = "x86_64") { ["%di", "%si", "%dx"] } else { ["%x0", "%x1", "%x2"] };
    let list = tracefs.join("uprobe_events");
    let linux = |line: &str| {
        let mut file = std::fs::OpenOptions::new().append(true).open(&list).expect("the list can be written");
        file.write_all(format!("{line}\n").as_bytes())
            .map_err(|error| Errno(error.raw_os_error().unwrap_or(0)))
    };
    let ours = |line: &str| perfuse::tracefs::define_embedded(line);
    let mut taken = 0;
    for (kind, values) in [
        ("p", "n=R1:s32 u=R1:u8 x=R0:x64 R2 w=R1:s64 h=R1:x16"),
        ("p", "s=+0(+0(R0)):string t=+0(R2):ustring c=$comm none=+0(R1):string after=+0(R2):string"),
        (
            "p",
            "length=+8(R0):s64 low=+8(R0):u16 tag=+18(R0):s16 tags=+16(R0):s16[3] letter=+22(R0):char back=-8(+16(R0)):u8",
        ),
        ("p", "b=R1:b4@2/32 b3=+18(R0):b3@1/16 top=+8(R0):b8@56/64 all=R1:b8@0/8"),
        (
            "p",
            "five=\\5:u16 minus=\\-5:s16 octal=\\010 hex=\\0x10 text=\\\"x\" magic=@+0:x32 elf=@+1:string none=+0(R1):u32",
        ),
        ("p", "back=$stack0 deep=+0(+0(+0(R0))):x8"),
        ("p", ""),
        ("r", "$retval value=$retval:s32 bits=$retval:b2@0/8 c=$comm"),
        ("r", ""),
        ("p", "a=$retval"),
        ("p", "a=R0:string"),
        ("p", "a=R0:u8[2]"),
        ("p", "a=R0:u7"),
        ("p", "a=R0 a=R1"),
        ("p", "a=+-8(R0):u8 c=+010(R0):u8 d=+0x10(R0):u8"),
        ("p", "a=+0(R0):u8[65]"),
        ("p", "a=+0(R0):u8[0]"),
        ("p", "a=\\\"x y\""),
        ("p", "a=\\\"x:y\""),
        ("p", "common_pid=R0"),
        ("p", "__probe_ip=R0"),
        ("p", "a2345678901234567890123456789012=R0"),
        ("p", "a23456789012345678901234567890123=R0"),
        ("p", "a=%none"),
        ("p", "a=$nothing"),
        ("p", "a=@main"),
        ("q", ""),
    ] {
        let values = registers.iter().enumerate().fold(values.to_owned(), |values, (index, register)| {
            values.replace(&format!("R{index}"), register)
        });
        let line = format!("{kind}:{group}/line {}:{place:#x} {values}", built.display());
        let answers = [linux(&line), ours(&line)];
        assert_eq!(answers[0], answers[1], "{line}");
        if answers[0].is_err() {
            continue;
        }
        taken += 1;
        let format =
            |file: &str| std::fs::read_to_string(tracefs.join("events").join(&group).join("line").join(file));
        let without_id = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with("ID:")).map(str::to_owned).collect()
        };
        let theirs = format("format").expect("Linux has it");
        let id: u64 = format("id").expect("Linux has it").trim().parse().expect("a number");
        let defined = perfuse::tracefs::of_embedded().into_iter().find(|(known, _)| *known == name);
        let (_, own_id) = defined.expect("it is defined");
        let from_linux = raw_samples(&Perf::linux(), &built, id);
        let hosted = raw_samples(&embedded(), &built, own_id);
        let remove = format!("-:{group}/line");
        assert_eq!(linux(&remove), Ok(()), "{line}");
        // Where Linux has none of the name, that is the embedded kernel's.
        let own = perfuse::tracefs::format(&group, "line").expect("it is defined");
        assert_eq!(without_id(&theirs), without_id(&String::from_utf8_lossy(&own)), "{line}");
        assert_eq!(ours(&remove), Ok(()), "{line}");
        assert_eq!((from_linux.len(), hosted.len()), (5, 5), "{line}");
        for (theirs, own) in from_linux.iter().zip(&hosted) {
            // Linux fills up to eight bytes.
            assert_eq!(&theirs[..own.len().min(theirs.len())], &own[..], "{line}");
        }
    }
    assert_eq!(taken, 11);
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}
