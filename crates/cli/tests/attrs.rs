//! The attrs with which `perfuse stat`, `perfuse record` and perf call the kernel: every event that stays open, as
//! both programs write it down for `PERF_TEST_ATTR`. docs/differences.md lists the differences on purpose; this test
//! takes exactly these for granted. Both sides ask the kernel that runs, so that what perf asked for is not kept: what perfuse asks for
//! depends on the PMUs and refusals of the machine too.

use perfuse_testkit::{Outcome, Skip, need, side_by_side};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

perfuse_testkit::suite! {
    witnesses:
        counting_asks_for_what_perf_asks_for,
        recording_asks_for_what_perf_asks_for,
        both_take_and_refuse_the_same;
}

/// A folder that is removed with all it has.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("perfuse-attrs-{pid}-{number}"));
        fs::create_dir_all(&path).expect("a folder for a test");
        Folder(path)
    }

    /// An empty folder in it.
    fn empty(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        // Of the last round; at first there is none.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a folder in it");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn perfuse() -> PathBuf {
    std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into()).into()
}

type Event = BTreeMap<String, i64>;

/// The events that this program opened with these arguments; `None` if it ended badly.
fn opened(program: &Path, folder: &Folder, name: &str, arguments: &[&str]) -> Option<Vec<Event>> {
    let notes = folder.empty(name);
    let mut command = Command::new(program);
    command.arg(arguments[0]);
    if arguments[0] == "record" {
        command.arg("-o").arg(folder.0.join("recording"));
        // It takes perf a second to look at all BPF programs; the event for them is not compared anyway.
        command.arg("--no-bpf-event");
    }
    let output = command.args(&arguments[1..]).arg("true").env("PERF_TEST_ATTR", &notes).output();
    if !output.expect("the program starts").status.success() {
        return None;
    }
    let files = fs::read_dir(notes).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let member = |line: &str| {
        let (name, value) = line.split_once('=')?;
        // A mask of 64 bits does not fit; that both have it is enough.
        Some((name.to_owned(), value.parse().unwrap_or(i64::MAX)))
    };
    Some(files.map(|text| text.lines().filter_map(member).collect()).collect())
}

const DUMMY: (i64, i64) = (1, 9);
/// perf's numbers for sample_type.
const TIME: i64 = 1 << 2;
/// perf gives it up together with what it thinks a kernel may not know.
const FD_CLOEXEC: i64 = 1 << 3;
/// perf's numbers for read_format.
const FORMAT_ID: i64 = 1 << 2;
const FORMAT_GROUP: i64 = 1 << 3;

/// Without what is different on purpose, in an order that does not depend on that of opening.
fn comparable(events: Vec<Event>, is_recording: bool) -> Vec<Event> {
    let kind = |event: &Event| (event["type"], event["config"]);
    let mut events: Vec<Event> = events.into_iter().filter(|event| kind(event) != DUMMY).collect();
    for event in &mut events {
        event.insert("is_leader".into(), (event["group_fd"] == -1).into());
        for name in ["fd", "group_fd", "pid", "size"] {
            event.remove(name);
        }
        *event.get_mut("flags").unwrap() &= !FD_CLOEXEC;
        if is_recording {
            let sample_type = event.get_mut("sample_type").unwrap();
            *sample_type &= !TIME;
            event.remove("use_clockid");
        } else {
            // Reading a group at once is a matter of how the numbers are fetched.
            let read_format = event.get_mut("read_format").unwrap();
            *read_format &= !(FORMAT_GROUP | FORMAT_ID);
        }
    }
    events.sort();
    events
}

fn compare(perf: &Path, line: &str) {
    let folder = &Folder::new();
    let arguments: Vec<_> = line.split(' ').collect();
    // perf now and then crashes while it ends a recording.
    let theirs = (0..5).find_map(|_| opened(perf, folder, "theirs", &arguments));
    let theirs = theirs.unwrap_or_else(|| panic!("perf {line} fails"));
    let ours =
        opened(&perfuse(), folder, "ours", &arguments).unwrap_or_else(|| panic!("perfuse {line} fails"));
    let is_recording = arguments[0] == "record";
    let (mut ours, mut theirs) = (comparable(ours, is_recording), comparable(theirs, is_recording));
    if arguments.contains(&"-r") {
        // Where the events of the run before are still open they are noted twice.
        ours.dedup();
        theirs.dedup();
    }
    assert_eq!(ours, theirs, "perfuse {line} on the left, perf on the right");
}

/// perf, if it was built with its hook for tests.
fn perf_with_notes() -> Result<PathBuf, Skip> {
    need::root()?;
    need::tracefs()?;
    let perf = need::perf()?;
    match opened(&perf, &Folder::new(), "hook", &["stat", "-e", "cs"]) {
        Some(events) if !events.is_empty() => Ok(perf),
        _ => Err(Skip::needs("a perf that heeds PERF_TEST_ATTR", "this one does not")),
    }
}

fn counting_asks_for_what_perf_asks_for() -> Outcome {
    let perf = perf_with_notes()?;
    let mut lines: Vec<String> = Vec::new();
    for options in [
        "", " -d", " -dd", " -ddd", " -a", " -d -a", " -C 0", " -i", " -D 10", " -I 100", " -A -a", " -r 2",
        " -x,",
    ] {
        lines.push(format!("stat{options}"));
    }
    for list in [
        "cs",
        "cs:u",
        "cs:k",
        "cs:G",
        "cs:H",
        "cs:uG",
        "cs:pp",
        "cs:I",
        "cs:D",
        "cs:e",
        "cs:S",
        "cs:P",
        "cs:",
        "cs//u",
        "{cs,faults:u}",
        "{cs,faults}:D",
        "{cs:k,faults}:u",
        "{cs,faults}:W",
        "g{cs,faults}:S,task-clock",
        "cpu-clock,task-clock,page-faults,cpu-migrations,minor-faults,major-faults,alignment-faults,emulation-faults",
        "dummy,bpf-output,cgroup-switches,cs/name=x/",
        "cpu-clock/period=1000/",
        "cs/config=2/",
        "cs:b",
        "cs/percore/",
        "msr/tsc,percore/",
        "cs/metric-id=x/",
        "cs/config1=5,config2=0x6/",
        "mem:0x1000",
        "mem:0x1000:rw",
        "mem:0x1000/8:w:u",
        "mem:0x1000:x",
        "mem:0x1000/8:x:k",
        "mem:0x1000/1:rw",
        "msr/tsc/",
        "tsc",
        "msr/event=0/",
        "msr/config=0,name=y/",
        "software/config=2,config1=3/k",
        "1:2",
        "0x1:0x2:u",
        "sched:sched_switch",
        "sched:sched_wak*",
        "{sched:sched_wakeup,cs}:k",
        "duration_time,cs",
        "user_time,system_time,faults",
        "cycles,instructions,cs",
        "L1-dcache-load-misses,cs",
        "r1a8,cs",
    ] {
        lines.push(format!("stat -e {list}"));
        lines.push(format!("stat -a -e {list}"));
    }
    side_by_side(&lines, |line| {
        compare(&perf, line);
        Ok(())
    })
}

fn recording_asks_for_what_perf_asks_for() -> Outcome {
    let perf = perf_with_notes()?;
    let mut lines: Vec<String> = Vec::new();
    // Periods are long, as samples are not what is compared.
    for list in [
        "cpu-clock",
        "cpu-clock:u",
        "cpu-clock:ppp",
        "task-clock:k",
        "cpu-clock,faults",
        "{cpu-clock,faults}",
        "{cpu-clock,faults}:u",
        "cpu-clock/period=1000000/",
        "cpu-clock/freq=100/",
        "cpu-clock/call-graph=fp/",
        "cpu-clock/call-graph=dwarf/",
        "cpu-clock/call-graph=dwarf,stack-size=4096/",
        "cpu-clock/call-graph=no/",
        "cpu-clock/no-inherit/,faults",
        "cpu-clock/name=a/,faults/period=3/",
        "cpu-clock/overwrite/",
        "cpu-clock/no-overwrite/",
        "cpu-clock/time=0/,faults",
        "cpu-clock/nr=5/",
        "cpu-clock/percore/",
        "cpu-clock/branch_type=no/",
        "cpu-clock/max-stack=4/",
        "cpu-clock/period=10000000,freq=5/",
        "cpu-clock/freq=5,period=10000000/",
        "cpu-clock:b",
        "mem:0x1000:rw",
        "mem:0x1000/8:x",
        "software/config=0/u",
        "sched:sched_switch",
        "sched:sched_switch:u",
        "1:0",
    ] {
        lines.push(format!("record -F 1000 -e {list}"));
        lines.push(format!("record -a -F 1000 -e {list}"));
    }
    for options in [
        "-c 1000000 -e cpu-clock",
        "-e mem:0x1000:w",
        "-e sched:sched_switch",
        "--call-graph fp -F 99 -e cpu-clock/max-stack=5/",
        "--call-graph fp -F 99 -e cpu-clock/call-graph=no/,faults",
        "-F 99 -d -e cpu-clock",
        "-F 99 -s -e cpu-clock",
        "-F 99 -W -e cpu-clock",
        "-F 99 -C 0 -e cpu-clock",
        "-F 99 --all-user -e cpu-clock",
        "-F 99 --switch-events -e cpu-clock",
        "-F 99 -R -e cpu-clock",
        "-F 99 --namespaces -e cpu-clock",
        "-F 99 --overwrite -e cpu-clock",
        "-F 99 --overwrite -e cpu-clock/no-overwrite/",
        "-e sched:sched_switch/overwrite/",
        "-e sched:sched_switch/max-stack=3/",
        "-e sched:sched_switch/nr=3/",
        "-F 99 -i -e cpu-clock",
        "-F 99 -i -e cpu-clock/inherit/,faults",
        "-F 99 -D 10 -e cpu-clock",
        "-F 99 --per-thread -e cpu-clock",
        "-F 99 -a --call-graph fp -e cpu-clock,faults",
        "-F 99 -a --call-graph dwarf -e cpu-clock",
        "-F 99 -a -R -e cpu-clock",
        "-F 99 -a -I -e cpu-clock",
        "-F 99 -D 10 --call-graph fp -e cpu-clock",
        "-F 99 --all-user -e cpu-clock:k",
        "-F 99 -e cpu-clock:S",
        "-F 99 -a -e {cpu-clock,faults}:S",
        "-F 99 --no-buffering -e cpu-clock",
    ] {
        lines.push(format!("record {options}"));
    }
    side_by_side(&lines, |line| {
        compare(&perf, line);
        Ok(())
    })
}

fn both_take_and_refuse_the_same() -> Outcome {
    need::root()?;
    need::tracefs()?;
    let perf = need::perf()?;
    let takes = |program: &Path, list: &str| {
        let output = Command::new(program).args(["stat", "-x,", "-e", list, "true"]).output();
        output.expect("the program starts").status.success()
    };
    let lists = [
        "cycles:ukh",
        "cycles:pppp",
        "cycles:uu",
        "cycles:z",
        "cycles:",
        "cycles//",
        "cycles//u",
        "cycles/name=x/",
        "cycles/freq=100/",
        "cycles/call-graph=fp/",
        "cycles/time/",
        "cycles/config=1/",
        "cycles/nope/",
        "cycles:W",
        "L1-data-write-refs",
        "L2-load-misses",
        "Instruction-TLB",
        "L1-dcache-misses-loads",
        "bpu-stores",
        "iTLB-stores",
        "r12345678901234567",
        "rxyz",
        "1:",
        ":1",
        "4:0x1a8:k",
        "mem:",
        "mem:x",
        "mem:0x10:rr",
        "mem:0x10:q",
        "mem:0x10/",
        "mem:0/1:rwx:kp",
        "sched:nope",
        "nope:nope",
        "sched:sched_switch/name=x/",
        "sched:sched_switch/period=1/",
        "sched:",
        "{cs,{faults}}",
        "{}",
        "cs,",
        "cs,,faults",
        "{cs,}",
        "msr/nope/",
        "msr/event/",
        "msr/event=zz/",
        "msr//",
        "msr/event=99999999999999999999/",
        "nopmu/config=1/",
        "cpu/config=1/",
        "software//",
        "cycles:R",
        "cs/nr=4/",
        "cs/overwrite/",
        "cs/aux-output/",
        "cs/time=0/",
        "cs/percore=2/",
        "sched:sched_switch/percore/",
        "cs:Gp",
        "cs:uGH",
    ];
    side_by_side(&lists, |list| {
        assert_eq!(
            takes(&perfuse(), list),
            takes(&perf, list),
            "{list}: perfuse on the left, perf on the right"
        );
        Ok(())
    })
}
