//! Recordings that somebody made to harm their readers: small files that ask for much memory, time or text. Each is read
//! with a limit on memory and on the processor's time, and the bytes that perfuse prints are counted.

use perfuse_abi::record::{
    Callchain, CallchainContext, Comm, CpuMode, Decoded, Misc, Mmap2, MmapFile, Record, RecordFormat, Sample,
    SampleId, Task, Tid,
};
use perfuse_abi::wire::{Text, Words};
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType};
use perfuse_data::feature::{Feature, Group};
use perfuse_data::{NewEvent, Writer};
use perfuse_testkit::Outcome;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

perfuse_testkit::suite! {
    deterministic:
        forks_of_a_process_with_many_maps,
        mappings_inside_each_other,
        callchains_without_end,
        threads_below_threads,
        names_without_end,
        records_that_are_all_broken,
        a_group_of_many_events_and_many_places;
}

/// The memory and time that reading any of them may take.
const MEMORY_KIB: u64 = 1 << 20;
const PROCESSOR_S: u64 = 60;
/// Bytes of text.
const TEXT: u64 = 64 << 20;

/// A recording that a test writes, removed with it.
struct Hostile {
    path: PathBuf,
    writer: Option<Writer<BufWriter<File>>>,
    /// Members of the group of its events, if they are one.
    group: Option<u32>,
    format: RecordFormat,
    time: u64,
}

impl Hostile {
    fn new(name: &str) -> Self {
        Self::with_events(name, 1)
    }

    /// With so many events, of which the first has all samples.
    fn with_events(name: &str, count: u64) -> Self {
        let mut attr = Attr::new(EventType::SOFTWARE);
        attr.sample_type =
            SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD | SampleType::CALLCHAIN;
        attr.sample_type |= SampleType::IDENTIFIER;
        attr.flags |= AttrFlags::SAMPLE_ID_ALL;
        let format = RecordFormat::of(&attr, ByteOrder::NATIVE);
        // Where the tests were built is not always where they run.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::create_dir_all(folder).expect("a folder");
        let path = folder.join(format!("hostile-{name}-{}", std::process::id()));
        let event = |id| NewEvent { attr, name: "cpu-clock".into(), ids: vec![id] };
        let events: Vec<NewEvent> = (1..=count).map(event).collect();
        let file = BufWriter::new(File::create(&path).expect("a file"));
        let writer = Some(Writer::file(file, &events).expect("it can be written"));
        Hostile { path, writer, group: None, format, time: 0 }
    }

    fn add(&mut self, pid: u32, misc: Misc, mut record: Record<'_>) {
        self.time += 1;
        let tid = Tid { pid, tid: pid };
        if let Record::Sample(sample) = &mut record {
            (sample.tid, sample.time, sample.period) = (Some(tid), Some(self.time), Some(1));
            sample.identifier = Some(1);
        }
        let sample_id =
            SampleId { tid: Some(tid), time: Some(self.time), identifier: Some(1), ..SampleId::default() };
        let sample_id = if matches!(record, Record::Sample(_)) { SampleId::default() } else { sample_id };
        let record = Decoded { misc: misc.with_cpu_mode(CpuMode::USER), sample_id, ..Decoded::from(record) };
        let writer = self.writer.as_mut().expect("it is not finished");
        writer.record(&record, &self.format).expect("it can be written");
    }

    fn map(&mut self, pid: u32, addr: u64, len: u64) {
        let file = MmapFile::Inode { maj: 254, min: 1, ino: 9, ino_generation: 1 };
        let (tid, filename) = (Tid { pid, tid: pid }, Text::new(b"/nonexistent/l"));
        let map = Mmap2 { tid, addr, len, file, prot: 5, flags: 2, filename, ..Mmap2::default() };
        self.add(pid, Misc::empty(), Record::Mmap2(map));
    }

    fn fork(&mut self, parent: u32, child: u32) {
        let task = Task { pid: child, ppid: parent, tid: child, ptid: parent, time: 0 };
        self.add(child, Misc::empty(), Record::Fork(task));
    }

    fn sample(&mut self, pid: u32, chain: &[u64]) {
        let words: Vec<u64> = [CallchainContext::USER.0].into_iter().chain(chain.iter().copied()).collect();
        let callchain = Some(Callchain { words: Words::from(&words[..]) });
        let mut sample = Sample::default();
        sample.ip = chain.first().copied();
        sample.callchain = callchain;
        self.add(pid, Misc::empty(), Record::Sample(sample));
    }

    /// The words of a subcommand about it.
    fn read(&mut self, arguments: &str) -> String {
        self.read_and_hear(arguments).0
    }

    /// The same, and the words on standard error.
    fn read_and_hear(&mut self, arguments: &str) -> (String, String) {
        if let Some(writer) = self.writer.take() {
            let group = |members| vec![Group { name: "g".into(), leader: 0, members }];
            let features = self.group.map(|members| vec![Feature::GroupDesc(group(members))]);
            writer
                .finish(features.unwrap_or_default())
                .expect("it can be written")
                .into_inner()
                .expect("it can be written");
        }
        let perfuse = std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into());
        let blocks = TEXT / 512;
        let limited = format!(
            "ulimit -d {MEMORY_KIB}; ulimit -t {PROCESSOR_S}; ulimit -f {blocks}; exec \"$0\" {arguments} -i \"$1\""
        );
        let text = self.path.with_extension("txt");
        let mut command = Command::new("sh");
        command.args(["-c", &limited]).arg(perfuse).arg(&self.path);
        let output = command.stdout(File::create(&text).expect("a file")).output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = (fs::read(&text).expect("it is there"), fs::remove_file(&text)).0;
        assert!(output.status.success(), "{arguments}: {}, {} bytes: {said}", output.status, text.len());
        (String::from_utf8_lossy(&text).into_owned(), said)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Every child has all of its parent's maps, and one of its own.
fn forks_of_a_process_with_many_maps() -> Outcome {
    let mut hostile = Hostile::new("forks");
    (0..10_000).for_each(|n| hostile.map(1, 0x10_0000 + n * 0x2000, 0x1000));
    for child in 2..6_000 {
        hostile.fork(1, child);
        hostile.map(child, 0x5000_0000, 0x1000);
    }
    hostile.sample(5_999, &[0x5000_0010]);
    let text = hostile.read("report --stdio --sort dso");
    assert!(text.contains("100.00%") && text.contains(" l"), "{text}");
    // All of their maps together are 60 million lines.
    let text = hostile.read("report --mmaps");
    assert!(text.ends_with("# More mappings are not shown.\n"));
    Ok(())
}

/// Each mapping lies inside the one before, and cuts it in two.
fn mappings_inside_each_other() -> Outcome {
    const COUNT: u64 = 100_000;
    let mut hostile = Hostile::new("nested");
    (0..COUNT).for_each(|n| hostile.map(1, 0x10_0000 + n * 16, (COUNT - n) * 32));
    hostile.sample(1, &[0x10_0000 + COUNT * 16]);
    assert!(hostile.read("report --stdio --sort dso").contains("100.00%"));
    Ok(())
}

/// Each frame shows its callchain, which has the callchain's length again.
fn callchains_without_end() -> Outcome {
    let mut hostile = Hostile::new("chains");
    hostile.map(1, 0x40_0000, 0x10_0000);
    for sample in 0..20u64 {
        let chain: Vec<u64> = (0..1000).map(|n| 0x40_0000 + (sample * 977 + n * 64) % 0xf_f000).collect();
        hostile.sample(1, &chain);
    }
    for style in ["graph", "fractal", "flat", "folded", "caller"] {
        hostile.read(&format!("report --stdio --children -g {style}"));
    }
    hostile.read("report --stdio --hierarchy");
    hostile.read("script");
    Ok(())
}

/// Every thread is the child of the one before.
fn threads_below_threads() -> Outcome {
    let mut hostile = Hostile::new("tasks");
    (1..50_000).for_each(|n| hostile.fork(n, n + 1));
    assert_eq!(hostile.read("report --tasks").lines().count(), 50_001);
    Ok(())
}

/// Names as long as a record.
fn names_without_end() -> Outcome {
    let mut hostile = Hostile::new("names");
    for pid in 1..1_000u32 {
        let name = format!("{pid}{}", "n".repeat(60_000));
        let comm = Comm { tid: Tid { pid, tid: pid }, name: Text::new(name.as_bytes()) };
        hostile.add(pid, Misc::empty(), Record::Comm(comm));
    }
    hostile.sample(7, &[0x40_0000]);
    hostile.read("report --stdio");
    Ok(())
}

/// A line for each of them would be a hundred megabytes.
fn records_that_are_all_broken() -> Outcome {
    let mut hostile = Hostile::new("broken");
    hostile.sample(7, &[0x40_0000]);
    let writer = hostile.writer.as_mut().expect("it is not finished");
    // A sample without its fields.
    let broken = [&9u32.to_ne_bytes()[..], &0u16.to_ne_bytes(), &16u16.to_ne_bytes(), &[0; 8]].concat();
    for _ in 0..100_000 {
        writer.records(&[&broken]).expect("it can be written");
    }
    for command in ["report --stdio", "script", "report --stats", "report -D"] {
        let (_, said) = hostile.read_and_hear(command);
        // Those that only count records, or print all their bytes, do not complain.
        let expected = if matches!(command, "report --stats" | "report -D") { 0 } else { 21 };
        assert_eq!(said.lines().count(), expected, "{command}: {}", &said[..said.len().min(2000)]);
        assert!(expected == 0 || said.contains("99980 further errors"), "{said}");
    }
    Ok(())
}

/// A table of the whole group has a cell for each event and place.
fn a_group_of_many_events_and_many_places() -> Outcome {
    let mut hostile = Hostile::with_events("group", 2_000);
    hostile.group = Some(2_000);
    (0..2_000).for_each(|place| hostile.sample(1, &[0x1000 + 16 * place]));
    let text = hostile.read("report --stdio --no-children -g none");
    assert!(text.contains("# Events 1 to 128: their group has 2000, and a table 128 at most\n"));
    // 2000 lines of 128 shares.
    assert!(text.len() < 2_000 * 128 * 10, "{}", text.len());
    hostile.read("report --json");
    Ok(())
}
