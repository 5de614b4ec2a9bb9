//! Code that programs make while they run, in `perfuse script` and `perfuse report`: a made recording of a
//! process that tells of its code in a jitdump, of its child, and of one that has a perf map.

use perfuse_abi::record::{
    Callchain, CallchainContext, Comm, CpuMode, Decoded, Misc, Mmap2, Record, RecordFormat, Sample, SampleId,
    Task, Tid,
};
use perfuse_abi::wire::{Text, Words};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType};
use perfuse_data::{NewEvent, Writer};
use perfuse_testkit::Outcome;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

perfuse_testkit::suite! {
    deterministic:
        code_is_named_by_the_time_of_the_sample,
        other_clocks_find_the_last_code,
        a_child_has_its_parents_code,
        a_perf_map_names_code,
        injected_code_is_in_files;
}

/// Processes with numbers that the kernel never gives out.
const MAKER: u32 = 0x7000_0000 + 11;
const CHILD: u32 = 0x7000_0000 + 12;
const CODE: u64 = 0x7f00_0000_0000;

/// A file that is gone with this.
struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Made {
    fn new(name: &str) -> Self {
        Made(std::env::temp_dir().join(format!("perfuse-jit-test-{}-{name}", std::process::id())))
    }
}

/// A jitdump of functions: when they were loaded, where, how large, and their names.
fn jitdump(path: &Path, pid: u32, functions: &[(u64, u64, u64, &str)]) {
    let mut bytes = Vec::new();
    let word = |bytes: &mut Vec<u8>, word: u32| bytes.extend(word.to_ne_bytes());
    let long = |bytes: &mut Vec<u8>, long: u64| bytes.extend(long.to_ne_bytes());
    [0x4a69_5444, 1, 40, 62, 0, pid].iter().for_each(|&number| word(&mut bytes, number));
    [1, 0].iter().for_each(|&number| long(&mut bytes, number));
    for (index, &(time, address, size, name)) in functions.iter().enumerate() {
        [0, 56 + name.len() as u32 + 1 + size as u32].iter().for_each(|&number| word(&mut bytes, number));
        long(&mut bytes, time);
        [pid, pid].iter().for_each(|&number| word(&mut bytes, number));
        [address, address, size, index as u64].iter().for_each(|&number| long(&mut bytes, number));
        bytes.extend(name.as_bytes());
        bytes.resize(bytes.len() + 1 + size as usize, 0);
    }
    fs::write(path, bytes).expect("a jitdump");
}

/// The deeds of the processes, written as records.
struct Story {
    writer: Writer<File>,
    format: RecordFormat,
}

impl Story {
    fn new(path: &Path, is_monotonic: bool) -> Self {
        let mut attr = Attr::new(EventType::SOFTWARE);
        attr.sample_type = SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CALLCHAIN;
        attr.sample_period = 1;
        attr.flags |= AttrFlags::SAMPLE_ID_ALL | AttrFlags::COMM_EXEC;
        if is_monotonic {
            attr.flags |= AttrFlags::USE_CLOCKID;
            attr.clockid = 1;
        }
        let event = NewEvent { attr, name: "cpu-clock".to_owned(), ids: vec![7] };
        let writer = Writer::file(File::create(path).expect("a file"), &[event]).expect("a recording");
        Story { writer, format: RecordFormat::of(&attr, ByteOrder::NATIVE) }
    }

    fn tell(&mut self, pid: u32, time: u64, record: Record<'_>) {
        let id = (Some(Tid { pid, tid: pid }), Some(time), Some(7));
        let sample_id = SampleId { tid: id.0, time: id.1, identifier: id.2, ..SampleId::default() };
        let misc = Misc::empty().with_cpu_mode(CpuMode::USER);
        let decoded = Decoded { misc, sample_id, ..Decoded::from(record) };
        self.writer.record(&decoded, &self.format).expect("written");
    }

    /// A process with memory for code, and perhaps a file that it maps.
    fn process(&mut self, pid: u32, name: &str, mapped: Option<&Path>) {
        let tid = Tid { pid, tid: pid };
        self.tell(pid, 1, Record::Comm(Comm { tid, name: Text::new(name.as_bytes()) }));
        let memory = Mmap2 { tid, addr: CODE, len: 0x1000, prot: 5, flags: 2, ..Mmap2::default() };
        self.tell(pid, 2, Record::Mmap2(Mmap2 { filename: Text::new(b"//anon"), ..memory }));
        if let Some(path) = mapped {
            let filename = Text::new(path.as_os_str().as_encoded_bytes());
            self.tell(pid, 3, Record::Mmap2(Mmap2 { addr: 0x1000, filename, ..memory }));
        }
    }

    /// A sample in the second function, which the first one called.
    fn sample(&mut self, pid: u32, time: u64, ip: u64, caller: u64) {
        let words = [CallchainContext::USER.0, ip, caller];
        let mut sample = Sample::default();
        sample.identifier = Some(7);
        sample.ip = Some(ip);
        sample.tid = Some(Tid { pid, tid: pid });
        sample.time = Some(time);
        sample.callchain = Some(Callchain { words: Words::from(&words[..]) });
        self.tell(pid, time, Record::Sample(sample));
    }

    fn end(self) {
        self.writer.finish(Vec::new()).expect("a whole recording");
    }
}

fn perfuse(recording: &Made, arguments: &[&str]) -> String {
    let program = std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into());
    let mut command = Command::new(program);
    let output = command.args(arguments).arg("-i").arg(&recording.0).stdin(Stdio::null()).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The first frame of each sample.
fn places(recording: &Made) -> Vec<String> {
    let text = perfuse(recording, &["script", "-G", "-F", "ip,sym,symoff,dso"]);
    let line = |line: &str| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect()
}

/// A process that makes one function after another at one place, recorded.
fn made(name: &str, is_monotonic: bool) -> [Made; 2] {
    let dump = Made(std::env::temp_dir().join(format!("jit-{}{name}.dump", std::process::id())));
    let outer = (40, CODE + 0x100, 0x40, "outer");
    let functions = [(50, CODE, 0x80, "first"), outer, (200, CODE, 0x40, "second")];
    jitdump(&dump.0, MAKER, &functions);
    let recording = Made::new(&format!("{name}.data"));
    let mut story = Story::new(&recording.0, is_monotonic);
    story.process(MAKER, "maker", Some(&dump.0));
    for time in [45, 60, 70, 199, 200, 300] {
        story.sample(MAKER, time, CODE + 0x10, CODE + 0x110);
    }
    story.sample(MAKER, 301, CODE + 0x50, CODE + 0x110);
    let (tid, task) = (CHILD, Task { pid: CHILD, tid: CHILD, ppid: MAKER, ptid: MAKER, time: 302 });
    story.tell(tid, 302, Record::Fork(task));
    story.sample(CHILD, 303, CODE + 0x20, CODE + 0x110);
    story.end();
    [dump, recording]
}

fn code_is_named_by_the_time_of_the_sample() -> Outcome {
    let [_dump, recording] = made("1", true);
    let of = |name: &str| format!("{name} (/tmp/perf-{MAKER}.map)");
    let first = of("first+0x10");
    let second = of("second+0x10");
    let expected = [of("[unknown]"), first.clone(), first.clone(), first, second.clone(), second];
    assert_eq!(places(&recording)[..6], expected);
    // Of the first function there is still what the second does not cover.
    assert_eq!(places(&recording)[6], of("first+0x50"));
    // The same with callchains.
    let chains = perfuse(&recording, &["script", "-F", "ip,sym"]);
    let names = |name: &str| chains.lines().filter(|line| line.ends_with(&format!(" {name}"))).count();
    assert_eq!((names("first"), names("second"), names("outer")), (4, 3, 8));

    let report = ["report", "--stdio", "--no-children", "-s", "sym", "-g", "none", "-F", "sample,sym"];
    let report = perfuse(&recording, &report);
    let lines: Vec<String> = report
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(lines[..2], ["4 [.] first", "3 [.] second"], "{report}");
    let callers = perfuse(&recording, &["report", "--stdio", "--children", "-s", "sym", "-g", "none"]);
    let is_all = |line: &str| line.trim_start().starts_with("100.00%") && line.ends_with("outer");
    assert!(callers.lines().any(is_all), "{callers}");
    Ok(())
}

fn other_clocks_find_the_last_code() -> Outcome {
    let [_dump, recording] = made("2", false);
    let of = |name: &str| format!("{name} (/tmp/perf-{MAKER}.map)");
    assert_eq!(places(&recording)[0], of("second+0x10"));
    assert!(places(&recording)[..6].iter().all(|place| *place == of("second+0x10")));
    Ok(())
}

fn a_child_has_its_parents_code() -> Outcome {
    let [_dump, recording] = made("3", true);
    assert_eq!(places(&recording)[7], format!("second+0x20 (/tmp/perf-{MAKER}.map)"));
    Ok(())
}

fn a_perf_map_names_code() -> Outcome {
    // Beyond what the kernel gives out (22 bits), and not that of another run of this test: its map is in `/tmp`.
    let mapped = 0x4000_0000 + std::process::id();
    let map = Made(PathBuf::from(format!("/tmp/perf-{mapped}.map")));
    fs::write(&map.0, format!("{CODE:x} 20 one function\n{:x} 20 another\n", CODE + 0x20)).expect("a map");
    let recording = Made::new("map.data");
    let mut story = Story::new(&recording.0, true);
    story.process(mapped, "mapped", None);
    for (time, offset) in [(10, 0x8), (11, 0x28), (12, 0x48)] {
        story.sample(mapped, time, CODE + offset, CODE);
    }
    story.end();
    let of = |name: &str| format!("{name} ({})", map.0.display());
    assert_eq!(places(&recording), [of("one function+0x8"), of("another+0x8"), of("[unknown]")]);
    let report = perfuse(&recording, &["report", "--stdio", "--no-children", "-s", "dso,sym", "-g", "none"]);
    assert!(report.contains(&format!("[JIT] tid {mapped}")), "{report}");
    assert!(report.contains("one function"), "{report}");
    Ok(())
}

fn injected_code_is_in_files() -> Outcome {
    let [_dump, recording] = made("4", true);
    let folder = Made::new("files");
    fs::create_dir_all(&folder.0).expect("a folder");
    let (output, place) = (Made::new("injected.data"), folder.0.to_str().expect("UTF-8"));
    let target = output.0.to_str().expect("UTF-8");
    perfuse(&recording, &["inject", "-j", "--jit-folder", place, "-o", target]);
    let of = |name: &str, number: u32| format!("{name} ({place}/jitted-{MAKER}-{number}.so)");
    let unknown = format!("[unknown] (/tmp/perf-{MAKER}.map)");
    let first = of("first+0x10", 0);
    let second = of("second+0x10", 2);
    let found = places(&output);
    assert_eq!(found[..6], [unknown, first.clone(), first.clone(), first, second.clone(), second]);
    assert_eq!(found[6..], [of("first+0x50", 0), of("second+0x20", 2)]);
    for name in ["jitted-1879048203-0.so", "jitted-1879048203-1.so", "jitted-1879048203-2.so"] {
        fs::remove_file(folder.0.join(name)).expect("a file");
    }
    fs::remove_dir(&folder.0).expect("nothing else");

    let [_dump, recording] = made("5", false);
    let mut command = Command::new(env!("CARGO_BIN_EXE_perfuse"));
    let output = command.args(["inject", "-j", "-o", target, "-i"]).arg(&recording.0).output();
    let said = output.expect("the program starts").stderr;
    assert!(String::from_utf8_lossy(&said).contains("record with -k mono"), "{said:?}");
    Ok(())
}
