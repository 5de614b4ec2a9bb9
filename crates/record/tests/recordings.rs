//! Recordings by the library alone: into memory, files, and sinks that take no more; by the embedded kernel, which everybody
//! may use.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use perfuse::Perf;
use perfuse::abi::record::{CallchainContext, Decoded, Record, RecordFormat};
use perfuse::abi::{AttrFlags, SampleType};
use perfuse_data::feature::{BuildIdEntry, Feature};
use perfuse_data::{NewEvent, PerfData, ReadOptions};
use perfuse_events::{EventList, Machine};
use perfuse_record::{
    Chains, Ended, Error, FileSink, Observer, Plan, Request, Sink, StreamSink, Sums, Target, Written, record,
};
use perfuse_testkit::{Outcome, need, suite};
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

suite! {
    smoke:
        a_command_is_recorded_into_memory;
    measurements:
        each_command_begins_with_the_priority_of_its_caller,
        an_observer_ends_the_recording_and_the_command,
        a_command_that_cannot_be_executed_leaves_no_file,
        a_file_that_is_there_gets_another_name,
        a_sink_that_takes_no_more_ends_the_recording,
        stacks_are_unwound_on_their_way;
}

/// A recording of nothing but what happens to a command.
fn plan(command: &[&str]) -> Plan {
    let mut plan = Plan::new(Target::Command, command.iter().map(Into::into).collect());
    plan.kernel = Perf::embedded().expect("one for this architecture");
    let list: EventList = "dummy:u".parse().expect("a list");
    let sets = list.resolve(&Machine::new()).expect("an event of every kernel");
    plan.events = sets.into_iter().flat_map(|set| set.events).map(Request::new).collect();
    plan
}

/// The names that tasks got by an exec, and how many tasks ended.
fn told(data: &mut PerfData<'_>) -> (Vec<String>, usize) {
    let (mut names, mut ends) = (Vec::new(), 0);
    while let Some(entry) = data.next().expect("a record") {
        if !entry.is_kernel() {
            continue;
        }
        match entry.decode().expect("a record of the kernel").record {
            Record::Comm(comm) => names.push(comm.name.to_string()),
            Record::Exit(_) => ends += 1,
            _ => {}
        }
    }
    (names, ends)
}

fn a_command_is_recorded_into_memory() -> Outcome {
    need::ptrace()?;
    #[derive(Default)]
    struct Heard {
        command: Option<u32>,
        ends: usize,
        bytes: u64,
    }

    impl Observer for Heard {
        fn begins(&mut self, _: &Plan, command: Option<u32>) {
            self.command = command;
        }

        fn ends(&mut self, _: &Ended) {
            self.ends += 1;
        }

        fn wrote(&mut self, written: &Written) {
            self.bytes += written.bytes;
        }
    }

    let (mut sink, mut heard) = (StreamSink::new(Vec::new()), Heard::default());
    let ended = record(&plan(&["sh", "-c", "exit 3"]), &mut sink, &mut heard, None).expect("a recording");
    assert_eq!(ended.status.and_then(|status| status.code()), Some(3));
    assert!(!ended.stopped);
    let bytes = sink.get_ref().expect("it has begun");
    assert!(heard.command.is_some() && heard.ends == 1);
    assert_eq!(heard.bytes, bytes.len() as u64);
    let mut data = PerfData::from_reader(bytes.as_slice(), ReadOptions::default()).expect("a recording");
    let (names, ends) = told(&mut data);
    assert!(
        data.events().iter().any(|event| event.name.as_deref() == Some("dummy:u")),
        "{:?}",
        data.events()
    );
    assert!(names.iter().any(|name| name == "sh"), "{names:?}");
    assert_eq!(ends, 1);
    Ok(())
}

/// Root's recordings go before others while they last; what is started after them does not.
fn each_command_begins_with_the_priority_of_its_caller() -> Outcome {
    need::ptrace()?;
    let nice = || rustix::process::getpriority_process(None).expect("a priority");
    let before = nice();
    for _ in 0..2 {
        let mut plan = plan(&["sh", "-c", "exit $(nice)"]);
        plan.owns_process = true;
        let ended = record(&plan, &mut StreamSink::new(Vec::new()), &mut (), None).expect("a recording");
        assert_eq!(ended.status.and_then(|status| status.code()), Some(before & 0xff));
        assert_eq!(nice(), before);
    }
    Ok(())
}

/// The recording has callchains alone, and its attr says so.
fn stacks_are_unwound_on_their_way() -> Outcome {
    need::ptrace()?;
    let mut samples = 0;
    for rounds in (1..=10).map(|round| round * 20_000) {
        let script = format!("i=0; while [ $i -lt {rounds} ]; do i=$((i+1)); done");
        let mut plan = plan(&["sh", "-c", &script]);
        let list: EventList = "cpu-clock:u".parse().expect("a list");
        let sets = list.resolve(&Machine::new()).expect("an event of every kernel");
        plan.events = sets.into_iter().flat_map(|set| set.events).map(Request::new).collect();
        plan.chains = Some(Chains::Unwound(Some(Chains::STACK_BYTES)));
        let mut sink = StreamSink::new(Vec::new());
        let ended = record(&plan, &mut sink, &mut (), None).expect("a recording");
        let stacks = ended.stacks.expect("sums of stacks");
        let bytes = sink.get_ref().expect("it has begun");
        let mut data = PerfData::from_reader(bytes.as_slice(), ReadOptions::default()).expect("a recording");
        while let Some(entry) = data.next().expect("a record") {
            if !entry.is_kernel() {
                continue;
            }
            let Record::Sample(sample) = entry.decode().expect("its attr's format").record else { continue };
            let chain = sample.callchain.expect("a callchain");
            assert!(sample.regs_user.is_none() && sample.stack_user.is_none());
            assert_eq!(chain.words.get(0), Some(CallchainContext::USER.0));
            assert!(chain.words.len() > 1, "{sample:?}");
            samples += 1;
        }
        assert!(stacks.stacks >= stacks.incomplete(), "{stacks:?}");
        let attr = data.events().iter().next().expect("an event").attr;
        let copies = SampleType::REGS_USER | SampleType::STACK_USER;
        assert!(attr.sample_type.contains(SampleType::CALLCHAIN) && !attr.sample_type.intersects(copies));
        assert!(!attr.flags.contains(AttrFlags::EXCLUDE_CALLCHAIN_USER));
        if samples > 10 {
            return Ok(());
        }
    }
    panic!("only {samples} samples");
}

fn an_observer_ends_the_recording_and_the_command() -> Outcome {
    need::ptrace()?;
    struct Impatient;

    impl Observer for Impatient {
        fn progress(&mut self, _: Sums) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }

    let mut sink = StreamSink::new(Vec::new());
    let ended = record(&plan(&["sleep", "1000"]), &mut sink, &mut Impatient, None).expect("a recording");
    assert!(ended.stopped, "{ended:?}");
    let data =
        PerfData::from_reader(sink.get_ref().expect("it has begun").as_slice(), ReadOptions::default());
    assert_eq!(told(&mut data.expect("a recording")).1, 1, "the command was recorded until it ended");
    Ok(())
}

/// A folder, until the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perfuse-record-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn a_command_that_cannot_be_executed_leaves_no_file() -> Outcome {
    need::ptrace()?;
    let folder = Folder::new("none");
    let path = folder.0.join("data");
    let ended = record(&plan(&["/nowhere/at/all"]), &mut FileSink::new(&path), &mut (), None);
    assert!(matches!(ended, Err(Error::Start(_))), "{ended:?}");
    assert!(!path.exists());
    Ok(())
}

fn a_file_that_is_there_gets_another_name() -> Outcome {
    need::ptrace()?;
    let folder = Folder::new("old");
    let path = folder.0.join("data");
    for command in ["true", "false"] {
        record(&plan(&[command]), &mut FileSink::new(&path), &mut (), None).expect("a recording");
    }
    for (name, command) in [("data", "false"), ("data.old", "true")] {
        let names = told(&mut PerfData::open(folder.0.join(name)).expect("a recording")).0;
        assert!(names.iter().any(|name| name == command), "{name}: {names:?}");
    }
    Ok(())
}

/// It takes the beginning, and none of the kernel's records.
#[derive(Default)]
struct Full {
    failed: usize,
}

impl Sink for Full {
    fn begin(&mut self, _: &[NewEvent], _: Vec<Feature<'_>>, _: Option<i32>) -> Result<(), Error> {
        Ok(())
    }

    fn records(&mut self, _: &[&[u8]]) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn record(&mut self, _: &Decoded<'_>, _: &RecordFormat) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        0
    }

    fn complete(&mut self, _: Vec<Feature<'_>>, _: &[BuildIdEntry<'_>], _: bool) -> Result<Written, Error> {
        Ok(Written::default())
    }

    fn fail(&mut self, error: io::Error) -> Error {
        self.failed += 1;
        Error::Stream(error)
    }
}

fn a_sink_that_takes_no_more_ends_the_recording() -> Outcome {
    need::ptrace()?;
    let mut sink = Full::default();
    let ended = record(&plan(&["true"]), &mut sink, &mut (), None);
    assert!(
        matches!(&ended, Err(Error::Stream(error)) if error.kind() == io::ErrorKind::StorageFull),
        "{ended:?}"
    );
    assert_eq!(sink.failed, 1);
    Ok(())
}
