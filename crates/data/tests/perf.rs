//! Fresh recordings of Linux's own perf, read by both: the same number of records of each type as `perf
//! report --stats`, and the same samples as `perf script`.

#[path = "support/written.rs"]
mod written;

use perfuse_abi::AttrFlags;
use perfuse_abi::record::{Record, RecordType};
use perfuse_data::feature::{Feature, FeatureId};
use perfuse_data::tool::{Auxtrace, Tool, kind};
use perfuse_data::{Ordered, PerfData, ReadOptions, Writer};
use perfuse_testkit::{Outcome, Skip, need, perf as witness, suite};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

suite! {
    witnesses:
        plain,
        callchains,
        user_stacks,
        several_events,
        a_group_read_at_once,
        all_cpus,
        compressed,
        tracepoints,
        addresses_and_weights,
        context_switches,
        namespaces_and_cgroups,
        build_ids_in_maps,
        overwritten,
        one_file_per_thread,
        through_a_pipe,
        compressed_through_a_pipe,
        tracepoints_through_a_pipe,
        counts,
        counts_through_a_pipe,
        straight_from_a_pipe,
        sections_tell_the_machine,
        perf_shows_the_sections_that_are_written,
        perf_reads_written_files_pipes_and_directories;
}

const WORK: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; ls -R /usr/share >/dev/null; \
                    for i in 1 2 3; do ls / >/dev/null; done";

/// A folder for one test's files, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perfuse-data-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for recordings");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs perf in `folder` and returns what it printed.
fn perf(folder: &Folder, arguments: &[&str]) -> Result<Vec<u8>, Skip> {
    let output = witness::output(witness::command(arguments)?.current_dir(&folder.0))?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "perf {arguments:?}: {text}");
    Ok(output.stdout)
}

/// The same of a perf that records into perf.data, or through a pipe into it.
fn perf_records(folder: &Folder, arguments: &[&str], pipe: bool) -> Result<(), Skip> {
    let recording = perf(folder, arguments)?;
    if pipe {
        std::fs::write(folder.0.join("perf.data"), recording).expect("a file");
    }
    Ok(())
}

fn text(folder: &Folder, arguments: &[&str]) -> Result<String, Skip> {
    Ok(String::from_utf8_lossy(&perf(folder, arguments)?).into_owned())
}

/// Records [`WORK`] with these arguments, into a file or through a pipe into one.
fn record(name: &str, arguments: &[&str], pipe: bool) -> Result<(Folder, PathBuf), Skip> {
    need::perf()?;
    need::root()?;
    let folder = Folder::new(name);
    let path = folder.0.join("perf.data");
    let target = if pipe { "-" } else { "perf.data" };
    let mut all = vec!["record", "-q", "-N", "--no-bpf-event", "-o", target];
    all.extend(arguments);
    all.extend(["--", "sh", "-c", WORK]);
    perf_records(&folder, &all, pipe)?;
    Ok((folder, path))
}

/// How many records of each type perf counts.
fn their_counts(folder: &Folder) -> Result<BTreeMap<String, u64>, Skip> {
    let stats = text(folder, &["report", "-i", "perf.data", "--stats"])?;
    let all = stats.lines().skip_while(|line| !line.starts_with("Aggregated stats")).skip(1);
    let of_line = |line: &str| {
        let (name, rest) = line.split_once(" events:")?;
        Some((name.trim().to_owned(), rest.split_whitespace().next()?.parse().ok()?))
    };
    Ok(all.map_while(of_line).filter(|(name, _)| name != "TOTAL").collect())
}

/// The name perf gives a type in these counts.
fn name(kind: RecordType) -> String {
    let name = kind.header_name().or(kind::name(kind)).expect("a known type");
    name.trim_start_matches("PERF_RECORD_").trim_start_matches("HEADER_").to_owned()
}

fn our_counts(path: &Path) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut data = PerfData::open(path).expect("opens");
    assert!(data.problems().is_empty(), "{:?}", data.problems());
    while let Some(entry) = data.next().expect("a whole recording") {
        *counts.entry(name(entry.kind())).or_default() += 1;
        if entry.is_kernel() {
            let decoded = entry.decode().expect("a whole record");
            assert!(decoded.extra.is_empty(), "{decoded:?}");
        } else {
            entry.tool().expect("a whole record");
        }
    }
    // perf also counts the records that hold the compressed ones.
    let options = ReadOptions::new().with_unpack(false);
    let mut data = PerfData::open_with(path, options).expect("opens");
    while let Some(entry) = data.next().expect("a whole recording") {
        if entry.kind() == kind::COMPRESSED {
            *counts.entry(name(kind::COMPRESSED)).or_default() += 1;
        }
    }
    counts
}

/// Thread, time, period and address of a sample.
type Line = (i64, u64, u64, u64);

fn their_samples(folder: &Folder) -> Result<Vec<Line>, Skip> {
    let fields = "tid,time,period,ip";
    let script = text(folder, &["script", "-i", "perf.data", "--ns", "-G", "-F", fields])?;
    let line = |line: &str| {
        let (head, tail) = line.split_once(": ")?;
        let mut head = head.split_whitespace();
        let mut tail = tail.split_whitespace();
        let tid = head.next()?.parse().ok()?;
        let time = head.next()?.replace('.', "").parse().ok()?;
        let period = tail.next()?.parse().ok()?;
        Some((tid, time, period, u64::from_str_radix(tail.next()?, 16).ok()?))
    };
    Ok(script.lines().map(|text| line(text).unwrap_or_else(|| panic!("a sample: {text:?}"))).collect())
}

fn our_samples(path: &Path) -> Vec<Line> {
    let mut ordered = Ordered::new(PerfData::open(path).expect("opens"));
    let mut samples = Vec::new();
    while let Some(entry) = ordered.next().expect("a whole recording") {
        let Some(event) = entry.event() else { continue };
        if let Ok(Record::Sample(sample)) = entry.decode().map(|decoded| decoded.record) {
            let tid = sample.tid.map_or(0, |tid| i64::from(tid.tid as i32));
            let time = sample.time.expect("a time");
            samples.push((tid, time, event.weight(&sample), sample.ip.expect("an address")));
        }
    }
    assert_eq!(ordered.late(), 0, "records in the wrong order");
    assert!(samples.is_sorted_by_key(|&(_, time, ..)| time), "samples in the wrong order");
    samples
}

fn same_counts(folder: &Folder, path: &Path) -> Outcome {
    let (theirs, ours) = (their_counts(folder)?, our_counts(path));
    assert!(!theirs.is_empty());
    assert_eq!(ours, theirs);
    Ok(())
}

fn same(name: &str, arguments: &[&str], pipe: bool) -> Outcome {
    let (folder, path) = record(name, arguments, pipe)?;
    same_counts(&folder, &path)?;
    same_samples(&folder, &path)?;
    Ok(())
}

fn same_samples(folder: &Folder, path: &Path) -> Outcome {
    let (mut theirs, mut ours) = (their_samples(folder)?, our_samples(path));
    assert!(ours.len() > 10, "{} samples", ours.len());
    theirs.sort_unstable();
    ours.sort_unstable();
    assert_eq!(ours.len(), theirs.len());
    if let Some((ours, theirs)) = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs) {
        panic!("{ours:x?} instead of {theirs:x?}");
    }
    Ok(())
}

fn plain() -> Outcome {
    same("plain", &["-e", "cpu-clock", "-F", "5000"], false)
}

fn callchains() -> Outcome {
    same("callchains", &["-e", "cpu-clock", "-F", "5000", "-g"], false)
}

fn user_stacks() -> Outcome {
    same("stacks", &["-e", "cpu-clock", "-F", "1000", "--call-graph", "dwarf"], false)
}

fn several_events() -> Outcome {
    same("several", &["-e", "cpu-clock,page-faults,context-switches", "-c", "100000"], false)
}

fn a_group_read_at_once() -> Outcome {
    let (folder, path) = record("group", &["-e", "{cpu-clock,faults}:S", "-F", "5000"], false)?;
    same_counts(&folder, &path)?;
    // perf shows each sample once for each value in it.
    let mut theirs: Vec<_> =
        their_samples(&folder)?.iter().map(|&(tid, time, _, ip)| (tid, time, ip)).collect();
    theirs.dedup();
    let ours: Vec<_> = our_samples(&path).iter().map(|&(tid, time, _, ip)| (tid, time, ip)).collect();
    assert_eq!(ours, theirs);
    let mut data = PerfData::open(&path).expect("opens");
    assert_eq!(data.events()[0].name.as_deref(), Some("cpu-clock"));
    let groups = data.feature(FeatureId::GROUP_DESC).expect("reads").expect("is there").feature;
    assert!(matches!(groups, Feature::GroupDesc(groups) if groups[0].members == 2));
    while let Some(entry) = data.next().expect("a whole recording") {
        if let Ok(Record::Sample(sample)) = entry.decode().map(|decoded| decoded.record) {
            assert_eq!(sample.read.expect("values").len(), 2);
        }
    }
    Ok(())
}

fn all_cpus() -> Outcome {
    same("cpus", &["-e", "cpu-clock", "-F", "5000", "-a", "-g"], false)
}

fn compressed() -> Outcome {
    same("compressed", &["-e", "cpu-clock", "-F", "10000", "-g", "-z"], false)?;
    same("compressed-19", &["-e", "cpu-clock", "-F", "10000", "-g", "-a", "--compression-level=19"], false)
}

fn tracepoints() -> Outcome {
    need::tracefs()?;
    let events = "sched:sched_switch,sched:sched_process_fork,raw_syscalls:sys_enter";
    let (folder, path) = record("tracepoints", &["-e", events], false)?;
    same_counts(&folder, &path)?;
    same_samples(&folder, &path)?;
    has_formats(PerfData::open(&path).expect("opens"));
    Ok(())
}

fn has_formats(mut data: PerfData<'_>) {
    while data.next().expect("a whole recording").is_some() {}
    let section = data.feature(FeatureId::TRACING_DATA).expect("reads").expect("is there");
    let Feature::TracingData(tracing) = section.feature else { panic!("{section:?}") };
    let mut systems: Vec<_> = tracing.systems.iter().map(|system| system.name).collect();
    systems.sort_unstable();
    assert_eq!(systems, [&b"raw_syscalls"[..], b"sched"]);
    let format = String::from_utf8_lossy(tracing.systems[0].formats[0]);
    assert!(format.contains("name: ") && format.contains("print fmt: "), "{format}");
}

fn addresses_and_weights() -> Outcome {
    same("addresses", &["-e", "page-faults", "-c", "1", "-d", "-W", "--phys-data"], false)
}

fn context_switches() -> Outcome {
    same("switches", &["-e", "cpu-clock", "-F", "5000", "--switch-events"], false)?;
    same("switches-all", &["-e", "cpu-clock", "-F", "5000", "--switch-events", "-a"], false)
}

fn namespaces_and_cgroups() -> Outcome {
    same("cgroups", &["-e", "cpu-clock", "-F", "5000", "--namespaces", "--all-cgroups"], false)
}

fn build_ids_in_maps() -> Outcome {
    same("buildid", &["-e", "cpu-clock", "-F", "5000", "--buildid-mmap"], false)
}

fn overwritten() -> Outcome {
    same("overwritten", &["-e", "cpu-clock", "-F", "5000", "--overwrite"], false)?;
    same("tail", &["-e", "cpu-clock", "-F", "5000", "--overwrite", "--tail-synthesize"], false)
}

fn one_file_per_thread() -> Outcome {
    same("threads", &["-e", "cpu-clock", "-F", "5000", "-a", "--threads"], false)?;
    same("threads-z", &["-e", "cpu-clock", "-F", "5000", "-a", "--threads", "-z"], false)
}

fn through_a_pipe() -> Outcome {
    same("pipe", &["-e", "cpu-clock,faults", "-F", "5000", "-g"], true)
}

fn compressed_through_a_pipe() -> Outcome {
    // perf 6.1 cannot read what it writes here itself, so there is nothing to compare with.
    let (_folder, path) = record("pipe-z", &["-e", "cpu-clock", "-F", "5000", "-z"], true)?;
    let counts = our_counts(&path);
    assert!(counts["COMPRESSED"] > 0 && counts["SAMPLE"] > 10, "{counts:?}");
    let samples = our_samples(&path);
    assert_eq!(samples.len() as u64, counts["SAMPLE"]);
    Ok(())
}

fn tracepoints_through_a_pipe() -> Outcome {
    need::tracefs()?;
    let events = "sched:sched_switch,raw_syscalls:sys_enter";
    let (folder, path) = record("pipe-tracepoints", &["-e", events], true)?;
    same_samples(&folder, &path)?;
    has_formats(PerfData::open(&path).expect("opens"));
    Ok(())
}

fn stat(name: &str, pipe: bool) -> Outcome {
    need::perf()?;
    need::root()?;
    let folder = Folder::new(name);
    let path = folder.0.join("perf.data");
    let target = if pipe { "-" } else { "perf.data" };
    let arguments = ["stat", "record", "-a", "-I", "50", "-e", "task-clock,faults", "-o", target];
    let work = ["--", "sleep", "0.2"];
    perf_records(&folder, &[&arguments[..], &work].concat(), pipe)?;
    if !pipe {
        same_counts(&folder, &path)?;
    }
    let mut data = PerfData::open(&path).expect("opens");
    let mut values = 0;
    while let Some(entry) = data.next().expect("a whole recording") {
        if entry.kind() == kind::STAT {
            let record = entry.tool().expect("a count");
            let perfuse_data::tool::Tool::Stat(stat) = record.tool else { panic!("{record:?}") };
            assert!(stat.running_ns <= stat.enabled_ns && stat.enabled_ns > 0, "{stat:?}");
            values += 1;
        }
    }
    assert!(values >= 6, "{values} counts");
    let units: Vec<_> = data.events().iter().map(|event| event.unit.as_deref()).collect();
    assert_eq!(units[0], Some("msec"));
    Ok(())
}

fn counts() -> Outcome {
    stat("stat", false)
}

fn counts_through_a_pipe() -> Outcome {
    stat("stat-pipe", true)
}

fn straight_from_a_pipe() -> Outcome {
    need::root()?;
    let arguments =
        ["record", "-q", "-N", "-e", "cpu-clock", "-F", "5000", "-o", "-", "--", "sh", "-c", WORK];
    let mut child = witness::command(&arguments)?.stdout(Stdio::piped()).spawn().expect("perf runs");
    let output = child.stdout.take().expect("its output");
    let mut data = PerfData::from_reader(output, ReadOptions::default()).expect("a recording");
    let mut samples = 0;
    let end = loop {
        match data.next() {
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
            Ok(Some(entry)) => samples += u32::from(entry.kind() == RecordType::SAMPLE),
        }
        let mut nothing = [0; 8];
        assert_eq!(data.payload().read(&mut nothing).expect("reads"), 0);
    };
    let status = child.wait().expect("perf ends");
    if status.signal().is_some() {
        return Err(Skip::needs("a perf that does not crash", status));
    }
    assert!(status.success() && end.is_ok(), "{status}, {end:?}");
    assert!(samples > 10, "{samples} samples");
    assert_eq!(data.events().len(), 1);
    Ok(())
}

fn sections_tell_the_machine() -> Outcome {
    let (folder, path) = record("sections", &["-e", "cpu-clock", "-k", "CLOCK_MONOTONIC", "-z"], false)?;
    let mut data = PerfData::open(&path).expect("opens");
    assert!(data.events()[0].attr.flags.contains(AttrFlags::USE_CLOCKID));
    let header = text(&folder, &["report", "-i", "perf.data", "--header-only"])?;
    let shown = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(&format!("# {name} : ")));
        line.unwrap_or_else(|| panic!("{name} in {header}")).to_owned()
    };
    let mut string = |id| match data.feature(id).expect("reads").expect("is there").feature {
        Feature::Hostname(text) | Feature::OsRelease(text) | Feature::Version(text) | Feature::Arch(text) => {
            text.to_string()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(string(FeatureId::HOSTNAME), shown("hostname"));
    assert_eq!(string(FeatureId::OSRELEASE), shown("os release"));
    assert_eq!(string(FeatureId::VERSION), shown("perf version"));
    assert_eq!(string(FeatureId::ARCH), shown("arch"));
    let section = data.feature(FeatureId::NRCPUS).expect("reads").expect("is there");
    let Feature::NrCpus(cpus) = section.feature else { panic!("{section:?}") };
    assert_eq!(
        [shown("nrcpus online"), shown("nrcpus avail")],
        [cpus.online, cpus.available].map(|n| n.to_string())
    );
    let section = data.feature(FeatureId::TOTAL_MEM).expect("reads").expect("is there");
    let Feature::TotalMem(kib) = section.feature else { panic!("{section:?}") };
    assert_eq!(shown("total memory"), format!("{kib} kB"));
    let section = data.feature(FeatureId::CPU_TOPOLOGY).expect("reads").expect("is there");
    let Feature::CpuTopology(topology) = section.feature else { panic!("{section:?}") };
    assert_eq!(topology.cpus.expect("cores").len(), cpus.available as usize);
    Ok(())
}

/// All but formats of tracepoints: perf gives up where those are not all there.
fn sections_for_perf() -> Vec<Feature<'static>> {
    let mut sections = written::features();
    sections.retain(|section| section.id() != FeatureId::TRACING_DATA);
    sections
}

fn perf_shows_the_sections_that_are_written() -> Outcome {
    need::perf()?;
    let folder = Folder::new("written-sections");
    let file = File::create(folder.0.join("perf.data")).expect("a file");
    let mut writer = Writer::file(file, &written::events()).expect("starts");
    writer.records(&[&written::comm(b"one", 1)]).expect("a record");
    writer.finish(sections_for_perf()).expect("ends");
    let text = text(&folder, &["report", "-i", "perf.data", "--header-only", "-I"])?;
    let expected = [
        "# hostname : host",
        "# os release : 6.1",
        "# perf version : perfuse",
        "# arch : x86_64",
        "# nrcpus online : 2",
        "# nrcpus avail : 2",
        "# cpudesc : cpu",
        "# cpuid : V,1,2,3",
        "# total memory : 1048576 kB",
        "# cmdline : perfuse record ",
        "# event : name = cpu-clock, , id = { 11, 12 }",
        "# event : name = page-faults:u, , id = { 13 }",
        "# sibling sockets : 0-1",
        "# sibling threads : 0",
        "# CPU 1: Core ID 1, Die ID 0, Socket ID 0",
        "# node0 meminfo  : total = 5 kB, free = 3 kB",
        "# node0 cpu list : 0-1",
        "# pmu mappings: software = 1",
        "# contains samples with branch stack",
        "# group: {cpu-clock,page-faults:u}",
        "# contains stat data",
        "# CPU cache info:",
        "#  L1 Data ",
        "# time of first sample : 0.000000",
        "# sample duration :      0.000 ms",
        "# memory nodes (nr 1, block size 0x8000000):",
        "#    0 [256M]: 0,2",
        "# clockid frequency: 1000 MHz",
        "# bpf_prog_info 77:",
        "# btf info of id 78",
        "# compressed : Zstd, level = 1, ratio = 1",
        "# cpu pmu capabilities: branches=32",
        "# clockid: monotonic (1)",
        "# cpu_atom cpu list : 0-1",
        "# cpu_atom pmu capabilities: max_precise=3",
    ];
    let missing: Vec<_> =
        expected.iter().filter(|&&line| !text.lines().any(|found| found.starts_with(line))).collect();
    assert!(missing.is_empty(), "{missing:#?} in\n{text}");
    Ok(())
}

fn perf_reads_written_files_pipes_and_directories() -> Outcome {
    need::perf()?;
    let folder = Folder::new("written");
    let path = folder.0.join("perf.data");
    let record = |n: u64| written::comm(b"a name", n);
    // A pipe.
    let mut pipe = Writer::pipe(File::create(&path).expect("a file"), &written::events()).expect("starts");
    pipe.features(sections_for_perf()).expect("sections");
    pipe.records(&[&record(1), &record(2)]).expect("records");
    pipe.flush().expect("ends");
    assert_eq!(their_counts(&folder)?, our_counts(&path));
    // A file with the data of an AUX area.
    let mut file = Writer::file(File::create(&path).expect("a file"), &written::events()).expect("starts");
    file.aux(Auxtrace::default(), &[b"some data"]).expect("AUX data");
    file.records(&[&record(2)]).expect("a record");
    file.tool(Tool::FinishedRound).expect("a record");
    file.finish(Vec::new()).expect("ends");
    let counts = their_counts(&folder)?;
    assert_eq!((counts.get("COMM"), counts.get("AUXTRACE")), (Some(&1), Some(&1)), "{counts:?}");
    assert_eq!(counts, our_counts(&path));
    std::fs::remove_file(&path).expect("the file goes");
    // A directory.
    let main = Writer::directory(&path, &written::events()).expect("starts");
    for number in 0..2 {
        let mut part = Writer::part(&path, number).expect("a part");
        (0..10).for_each(|n| part.records(&[&record(1 + n)]).expect("a record"));
        part.flush().expect("ends");
    }
    main.finish(Vec::new()).expect("ends");
    assert_eq!(their_counts(&folder)?.get("COMM"), Some(&20));
    Ok(())
}
