//! Sets of samplers over processes, by either kernel: all threads and those to come, records in the order of time, one
//! descriptor for all rings.

use perfuse::abi::record::Record;
use perfuse::abi::{AttrFlags, SampleType, Software};
use perfuse::{Builder, Command, Perf, RingOptions, RunningCommand, SamplerSet, Scope, Wait};
use perfuse_testkit::{Outcome, Skip, suite};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

suite! {
    measurements:
        a_process_is_sampled_with_the_threads_it_has_and_will_have,
        records_of_all_rings_are_in_the_order_of_time,
        one_descriptor_tells_of_all_rings,
        a_set_lives_as_long_as_its_last_process;
}

/// The kernels of which something can be had here.
fn kernels() -> impl Iterator<Item = Perf> {
    Perf::embedded().into_iter().chain(Perf::linux_refuses().is_none().then(Perf::linux))
}

/// Births and ends of tasks, each of them a wake-up.
fn births(kernel: &Perf) -> Builder {
    let event = kernel.counter(Software::DUMMY).user_only().sample(SampleType::TID | SampleType::TIME);
    event.with(|attr| {
        attr.flags |= AttrFlags::TASK;
        attr.set_wakeup_watermark(1);
    })
}

fn a_process_is_sampled_with_the_threads_it_has_and_will_have() -> Outcome {
    if let Some(error) = Perf::linux_refuses() {
        return Err(Skip::needs("to measure one's own process", error));
    }
    let own = perfuse_testkit::work::thread_id;
    let (go, wait) = mpsc::channel::<()>();
    let earlier = thread::spawn(move || {
        wait.recv().expect("a word");
        thread::spawn(own).join().expect("it ends")
    });
    let mut set = SamplerSet::process(std::process::id(), [births(&Perf::linux())]).expect("a set");
    go.send(()).expect("it listens");
    let of_earlier = earlier.join().expect("it ends");
    let of_later =
        thread::spawn(move || thread::spawn(own).join().expect("it ends")).join().expect("it ends");
    set.disable().expect("off");
    let mut born = Vec::new();
    for record in set.records().iter() {
        if let Record::Fork(task) = record.decode().expect("a record").record {
            born.push(task.tid);
        }
    }
    assert!(born.contains(&of_earlier), "of a thread that there was: {of_earlier} in {born:?}");
    assert!(born.contains(&of_later), "of a thread to come: {of_later} in {born:?}");
    Ok(())
}

/// A shell that does a line's work when it gets one, and answers.
struct Worker {
    line: UnixStream,
    running: RunningCommand,
    pid: u32,
}

impl Worker {
    fn start(script: &str) -> Self {
        let (line, its) = UnixStream::pair().expect("a pair of sockets");
        let output = its.try_clone().expect("the other end");
        let script = format!("while read line; do {script}; echo $line; done");
        let command = Command::new("sh").args(["-c", &script]).stdin(its).stdout(output);
        let held = command.hold().expect("a child");
        let pid = held.pid();
        let mut worker = Worker { line, running: held.release().expect("sh"), pid };
        worker.work(); // it has become the shell
        worker
    }

    fn work(&mut self) {
        self.line.write_all(b"go\n").expect("it reads");
        self.line.read_exact(&mut [0; 3]).expect("it answers");
    }

    fn end(self) {
        drop(self.line);
        self.running.wait().expect("its end");
    }
}

/// The set of these processes, switched on.
fn set_of(kernel: &Perf, workers: &[&Worker]) -> SamplerSet {
    let pids: Vec<_> = workers.iter().map(|worker| worker.pid).collect();
    let scope = Scope::processes(&pids).expect("they live");
    let mut set = SamplerSet::open(&scope, &[births(kernel).into()], RingOptions::default()).expect("a set");
    set.enable().expect("on");
    set
}

fn records_of_all_rings_are_in_the_order_of_time() -> Outcome {
    for kernel in kernels() {
        let mut worker = Worker::start("for i in 1 2 3 4 5; do (:) & done; wait");
        let pid = worker.pid;
        let mut set = set_of(&kernel, &[&worker]);
        let (mut last, mut living, mut seen) = (0, vec![pid], Vec::new());
        let mut take = |set: &mut SamplerSet| {
            for record in set.settled().iter() {
                let time = record.time_ns().expect("a time");
                assert!(time >= last, "{}: {time} after {last}", kernel.name());
                last = time;
                match record.decode().expect("a record").record {
                    Record::Fork(task) => {
                        living.push(task.pid);
                        seen.push(task.pid);
                    }
                    Record::Exit(task) => {
                        let found = living.iter().position(|pid| *pid == task.pid);
                        living.remove(found.expect("it was born before it ended"));
                    }
                    _ => {}
                }
            }
        };
        for _ in 0..10 {
            worker.work();
            take(&mut set);
        }
        worker.end();
        while set.wait(&[], None).expect("wait") != Wait::Ended {
            take(&mut set);
        }
        assert!(living.is_empty(), "{}: {living:?}", kernel.name());
        assert_eq!(seen.len(), 50, "{}: five a line", kernel.name());
    }
    Ok(())
}

/// Whether the set's descriptor is readable within this time.
fn is_readable(set: &SamplerSet, millis: i32) -> bool {
    let mut entry = libc::pollfd { fd: set.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry that lives.
    unsafe { libc::poll(&raw mut entry, 1, millis) };
    entry.revents & libc::POLLIN != 0
}

/// Rule G24, for all rings at once: readiness that was acknowledged is not told again, and the next wake-up is.
fn one_descriptor_tells_of_all_rings() -> Outcome {
    for kernel in kernels() {
        let mut worker = Worker::start("(:)");
        let mut set = set_of(&kernel, &[&worker]);
        for _ in 0..5 {
            assert!(!is_readable(&set, 0), "{}: nothing new", kernel.name());
            worker.work();
            let mut records = 0;
            while records < 2 {
                assert!(is_readable(&set, 60_000), "{}: a wake-up that is not told", kernel.name());
                set.acknowledge_all().expect("heard");
                records += set.records().iter().count();
            }
            assert_eq!(records, 2, "{}: a child's birth and its end", kernel.name());
        }
        worker.end();
        while !set.is_over() {
            assert!(is_readable(&set, 60_000), "{}: an end that is not told", kernel.name());
            set.acknowledge_all().expect("heard");
        }
        assert!(is_readable(&set, 0), "{}: the end stays", kernel.name());
        assert_eq!(set.records().iter().count(), 1, "{}: its end", kernel.name());
    }
    Ok(())
}

/// The rings belong to events of the first process; those of the others go on writing there.
fn a_set_lives_as_long_as_its_last_process() -> Outcome {
    for kernel in kernels() {
        let (first, mut second) = (Worker::start("(:)"), Worker::start("(:)"));
        let mut set = set_of(&kernel, &[&first, &second]);
        first.end();
        let mut records = 0;
        while records < 1 {
            assert_eq!(set.wait(&[], None).expect("wait"), Wait::Records, "{}", kernel.name());
            records += set.records().iter().count();
        }
        let soon = Some(std::time::Duration::from_millis(20));
        assert_eq!(set.wait(&[], soon).expect("wait"), Wait::TimedOut, "{}: one lives", kernel.name());
        assert!(!is_readable(&set, 0) && !set.is_over(), "{}: and nothing is new", kernel.name());
        second.work();
        while records < 3 {
            assert_eq!(set.wait(&[], None).expect("wait"), Wait::Records, "{}", kernel.name());
            records += set.records().iter().count();
        }
        second.end();
        while set.wait(&[], None).expect("wait") != Wait::Ended {
            records += set.records().iter().count();
        }
        assert_eq!(records, 4, "{}: two ends of shells, a child's birth and end", kernel.name());
    }
    Ok(())
}
