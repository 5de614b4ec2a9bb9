//! `perfuse report`, the real program, on files that the real perf records, compared with
//! what perf makes of them; and on a folder of recordings from elsewhere, which must not make it fall over. The test `perf`
//! compares with what perf said of recordings that are kept.

use perfuse_abi::record::{
    Comm, CpuMode, Decoded, Misc, Mmap, Mmap2, MmapFile, Record, RecordFormat, Sample, Task, Tid,
};
use perfuse_abi::wire::Text;
use perfuse_abi::{Attr, AttrFlags, ByteOrder, EventType, SampleType};
use perfuse_data::{NewEvent, Writer};
use perfuse_testkit::{Outcome, Skip, need, perf as linux, side_by_side};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

perfuse_testkit::suite! {
    deterministic:
        what_cannot_be_done_is_explained,
        foreign_recordings_are_no_reason_to_panic,
        modules_and_threads_of_another_machine_are_told,
        what_perf_has_and_perfuse_has_not_is_refused,
        json_is_the_report,
        columns_have_a_widest_width,
        functions_behind_the_kernels_recorded_end_have_names;
    witnesses:
        statistics_are_perfs,
        reports_are_perfs,
        reports_of_branches_data_and_groups_are_perfs,
        groups_and_hierarchies_have_perfs_call_trees,
        modules_and_threads_of_another_machine_are_perfs;
    measurements:
        the_kernels_symbols_are_read_for_samples_in_the_kernel_alone;
}

fn perfuse(arguments: &[&str]) -> (String, String, Option<i32>) {
    perfuse_with(None, arguments)
}

/// With a folder for what it keeps, if it is to keep anything.
fn perfuse_with(cache: Option<&Path>, arguments: &[&str]) -> (String, String, Option<i32>) {
    let path = std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into());
    let mut command = Command::new(path);
    let command = linux::impersonal(command.args(arguments));
    let output =
        command.envs(cache.map(|cache| ("XDG_CACHE_HOME", cache))).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

fn perf(arguments: &[&str]) -> Result<String, Skip> {
    let output = linux::output(&mut linux::command(arguments)?)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The path of a recording that the golden test keeps.
fn fixture(name: &str) -> String {
    format!("{}/tests/golden/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A recording that is gone with this.
struct Recording(PathBuf);

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Recording {
    fn path(&self) -> &str {
        self.0.to_str().expect("a name in UTF-8")
    }
}

/// Records a shell that works, and another program, with the real perf.
fn record(name: &str, options: &[&str]) -> Result<Recording, Skip> {
    record_script(name, options, "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; ls / >/dev/null")
}

fn record_script(name: &str, options: &[&str], script: &str) -> Result<Recording, Skip> {
    let path = std::env::temp_dir().join(format!("perfuse-report-test-{}-{name}", std::process::id()));
    let recording = Recording(path);
    let command = ["--", "sh", "-c", script];
    let arguments = [&["record", "-q", "-o", recording.path()], options, &command].concat();
    linux::succeeds(&mut linux::command(&arguments)?)?;
    Ok(recording)
}

fn statistics_are_perfs() -> Outcome {
    for (name, options) in [("stats", &["-e", "cpu-clock", "-g"][..]), ("zstd", &["-e", "cpu-clock", "-z"])] {
        let recording = record(name, options)?;
        let words = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| line.contains(" events: "));
            lines.map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ")).collect()
        };
        let ours = words(&perfuse(&["report", "--stats", "-i", recording.path()]).0);
        let theirs = words(&perf(&["report", "--stats", "-i", recording.path()])?);
        assert_eq!(ours, theirs, "{name}");
    }
    Ok(())
}

/// A report's lines without what only one of both says; what stands in columns, with single blanks.
fn entries(report: &str) -> Vec<Vec<String>> {
    let mut entries: Vec<Vec<String>> = Vec::new();
    for line in report.lines().map(str::trim_end).filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let line = line.replace("__ia32_sys_", "__x64_sys_").replace("[...] (inlined)", "[...]");
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_tree = line.starts_with("           ") || words.len() < 2;
        match (is_tree, entries.last_mut()) {
            (true, Some(entry)) => entry.push(line),
            _ => entries.push(vec![words.join(" ")]),
        }
    }
    entries
}

/// The lines of `ours` that are missing in `theirs`; a line counts as often as it is there.
fn not_in(ours: impl Iterator<Item = String>, theirs: impl Iterator<Item = String>) -> Vec<String> {
    let mut theirs: Vec<_> = theirs.collect();
    let is_missing = |line: &String| match theirs.iter().position(|other| other == line) {
        Some(place) => {
            theirs.swap_remove(place);
            false
        }
        None => true,
    };
    let mut ours: Vec<_> = ours.collect();
    ours.retain(is_missing);
    ours
}

/// The entries that only one of both has, without those that perf cannot name, and whether there are any with them.
fn heads(ours: &[Vec<String>], theirs: &[Vec<String>]) -> (Vec<String>, bool) {
    let of = |entries: &[Vec<String>]| entries.iter().map(|entry| entry[0].clone()).collect::<Vec<_>>();
    let (ours, theirs) = (of(ours), of(theirs));
    let mut all = not_in(ours.iter().cloned(), theirs.iter().cloned());
    let mut others = not_in(theirs.into_iter(), ours.into_iter());
    let differ = !all.is_empty() || !others.is_empty();
    // perf gives one name, "@plt", to all that it cannot name in a table of jumps; ours has a name or the address.
    let is_unnamed = |line: &String| line.ends_with(" @plt") || line.contains("*ABS*");
    if others.iter().any(is_unnamed) {
        others.retain(|line| !is_unnamed(line));
        all.retain(|line| !line.ends_with("@plt") && !line.contains("[.] 0x"));
    }
    all.extend(others);
    (all, differ)
}

/// The lines of call trees that we have and perf has not, without what is drawn and without jumps.
fn trees(ours: &[Vec<String>], theirs: &[Vec<String>]) -> Vec<String> {
    let plain = |line: &String| line.trim_start_matches(|c| "| -".contains(c)).to_owned();
    let of = |entries: &[Vec<String>]| -> Vec<String> {
        let lines = entries.iter().flat_map(|entry| entry[1..].iter().map(plain));
        lines.filter(|line| !line.is_empty() && !line.ends_with("@plt")).collect()
    };
    not_in(of(ours).into_iter(), of(theirs).into_iter())
}

fn reports_are_perfs() -> Outcome {
    // Nothing is executed: perf looks up callchains that end before an exec in the maps from before it.
    let script = "i=0; while [ $i -lt 1500 ]; do i=$((i+1)); x=$(echo $i); done; while [ $i -lt 40000 ]; do i=$((i+1)); done";
    let recording = record_script("reports", &["-e", "cpu-clock", "-F", "3000", "-g"], script)?;
    let plain = record_script("plain-reports", &["-e", "cpu-clock,page-faults"], script)?;
    let cases = [
        (&recording, ""),
        (&recording, "--no-children"),
        (&recording, "--children -g none"),
        (&recording, "--no-children -g fractal"),
        (&recording, "-g fractal"),
        (&recording, "-g fractal,callee"),
        (&recording, "--no-children -g caller"),
        (&recording, "-G"),
        (&recording, "-g graph,2"),
        (&recording, "-g period"),
        (&recording, "-g fractal,count"),
        (&recording, "--percent-limit 3"),
        (&recording, "-n --show-total-period"),
        (&recording, "-s comm"),
        (&recording, "-s comm,dso --no-children"),
        (&recording, "-s +pid --no-children"),
        (&recording, "-s time --no-children"),
        (&recording, "-s sym --no-children"),
        (&recording, "-F +sample"),
        (&recording, "-s comm -F overhead,dso --no-children"),
        (&recording, "--comm sh,ls --no-children"),
        (&recording, "-d libc.so.6 --no-children"),
        (&recording, "-S do_syscall_64 --no-children"),
        (&recording, "--symbol-filter sys --no-children"),
        (&recording, "--max-stack 3 --no-children"),
        (&recording, "-q --no-children"),
        (&recording, "--show-cpu-utilization --no-children"),
        (&recording, "--stdio-color=always --no-children"),
        (&plain, ""),
        (&plain, "-n -s dso"),
        (&plain, "-s comm,pid,sym"),
    ];
    side_by_side(&cases, |(recording, options)| {
        let words: Vec<&str> = options.split_whitespace().collect();
        let arguments = [&["report", "--stdio", "--no-inline", "-i", recording.path()], &words[..]].concat();
        let (ours, theirs) = (entries(&perfuse(&arguments).0), entries(&perf(&arguments)?));
        assert_eq!(ours.is_empty(), theirs.is_empty(), "{options}");
        // Entries with the same share may stand in another order, in lists and in trees, and a branch may be drawn
        // longer or shorter for it; each line must be there. One callchain in many may have been taken in the
        // middle of an exec, and then be read in either way.
        let ((heads, differ), trees) = (heads(&ours, &theirs), trees(&ours, &theirs));
        assert!(heads.len() <= ours.len() / 50, "{options}: {heads:#?}");
        let lines: usize = ours.iter().map(Vec::len).sum();
        assert!(trees.len() <= lines / 50 + 1, "{options}: {} of {lines}: {trees:#?}", trees.len());
        let share = |entry: &Vec<String>| entry[0].split(' ').next().map(str::to_owned);
        let in_order = ours.iter().map(share).eq(theirs.iter().map(share));
        assert!(in_order || differ, "{options}: order");
        Ok(())
    })
}

/// Lines of a table, without what only one of both says.
fn lines(report: &str) -> Vec<String> {
    let is_ours =
        |line: &str| line.starts_with("# ") && line.contains(": ") && !line.starts_with("# Samples");
    let is_kept = |line: &&str| {
        let is_said =
            line.starts_with("# (Tip") || line.starts_with("# To display") || line.starts_with("# --header");
        // perf takes these cycles for negative, and cannot name all jumps through tables.
        let is_wrong = ["  -2", "  42141", "@plt"].iter().any(|wrong| line.contains(wrong));
        !is_said && !is_wrong && !is_ours(line) && !line.trim_matches(['#', ' ']).is_empty()
    };
    // perf has a plural for the first of a group that is shown apart.
    let report = report.replace("of events 'cpu-clock'\n", "of event 'cpu-clock'\n");
    let mut lines: Vec<String> =
        report.lines().filter(is_kept).map(|line| line.trim_end().to_owned()).collect();
    // Entries with equal shares may stand in another order.
    lines.sort();
    lines
}

fn reports_of_branches_data_and_groups_are_perfs() -> Outcome {
    let folder = need::shared("corpus/files")?;
    let branches = "google+perf_data_converter__q_perf.data.branch-4.14";
    let memory = "generated-x86_64__v6.1-addr.data";
    let traced = "generated-x86_64__v6.1-tracepoints.data";
    let grouped = "generated-x86_64__v6.1-group.data";
    // perf takes the size of the kernel from its symbols, the last of which ends with the page behind its own.
    let list =
        Recording(std::env::temp_dir().join(format!("perfuse-report-test-{}-kallsyms", std::process::id())));
    let (start, end) = kernel_of(&folder.join(memory));
    let symbols = format!("{start:016x} T _text\n{start:016x} T _stext\n{:016x} T _etext\n", end - 0x1000);
    std::fs::write(&list.0, symbols).expect("a file");
    let in_pages = (end - start).next_multiple_of(0x1000);
    for (name, options) in [
        (branches, ""),
        (branches, "-b -s comm,mispredict,abort,in_tx"),
        (branches, "-s dso_to,dso_from,addr_from,addr_to"),
        (branches, "-s dso_to,cycles -n"),
        (branches, "--no-branch-stack"),
        (memory, "--mem-mode -s local_weight,mem,sym,dso,snoop,tlb,locked,blocked,local_ins_lat"),
        (memory, "--mem-mode"),
        (memory, "--mem-mode -s sym,phys_daddr,data_page_size"),
        (memory, "--hierarchy"),
        (memory, "--hierarchy -n --percent-limit 1"),
        (memory, "--hierarchy -s dso,comm,sym"),
        (memory, "-s cpu,socket"),
        (memory, "-s dso_size,comm"),
        (memory, "-s addr"),
        (memory, "-s cgroup_id,cgroup,time --time-quantum 10ms --ns"),
        (memory, "-s comm,dso --group -n"),
        (traced, ""),
        (traced, "-s comm,next_comm,next_pid"),
        (traced, "-s sched:sched_switch.prev_state,prev_prio"),
        (traced, "-s sched_switch.*"),
        (traced, "-s trace_fields"),
        (traced, "--raw-trace"),
        (traced, "-s comm --group"),
        (grouped, ""),
        (grouped, "-n --show-total-period -s comm,sym"),
        (grouped, "--no-group"),
        (grouped, "--group-sort-idx 2"),
    ] {
        let path = folder.join(name);
        let input = ["report", "--stdio", "--no-inline", "-i", path.to_str().expect("a name in UTF-8")];
        let mut arguments = [&input[..], &options.split_whitespace().collect::<Vec<_>>()].concat();
        if options.contains("dso_size") {
            arguments.extend(["--kallsyms", list.path()]);
        }
        let theirs = perf(&arguments)?.replace(&format!(" {in_pages} "), &format!(" {} ", end - start));
        let (ours, theirs) = (lines(&perfuse(&arguments).0), lines(&theirs));
        assert!(!ours.is_empty(), "{name} {options}");
        let more = not_in(ours.iter().cloned(), theirs.iter().cloned());
        let fewer = not_in(theirs.into_iter(), ours.into_iter());
        assert!(more.is_empty() && fewer.is_empty(), "{name} {options}:\n{more:#?}\nand not\n{fewer:#?}");
    }
    Ok(())
}

/// Where the kernel began and ended on the machine of a recording, by its mapping: `[0xADDR(0xLEN) @ ...]`.
fn kernel_of(recording: &Path) -> (u64, u64) {
    let dump = perfuse(&["report", "-D", "-i", recording.to_str().expect("a name in UTF-8")]).0;
    let line = dump.lines().find(|line| line.ends_with("[kernel.kallsyms]_text")).expect("a mapping");
    let (_, place) = line.split_once(": [0x").expect("an address");
    let (start, rest) = place.split_once("(0x").expect("a length");
    let number = |digits: &str| u64::from_str_radix(digits, 16).expect("a number");
    let (start, len) = (number(start), number(rest.split(')').next().expect("an end")));
    (start, start + len)
}

fn groups_and_hierarchies_have_perfs_call_trees() -> Outcome {
    let recording = record("group-chains", &["-e", "{cpu-clock,page-faults}", "-g"])?;
    for options in
        ["", "--no-children -s comm,dso", "--hierarchy --no-group", "--hierarchy --no-group --no-children"]
    {
        let input = ["report", "--stdio", "--no-inline", "-i", recording.path()];
        let arguments = [&input[..], &options.split_whitespace().collect::<Vec<_>>()].concat();
        let (ours, theirs) = (lines(&perfuse(&arguments).0), lines(&perf(&arguments)?));
        let more = not_in(ours.iter().cloned(), theirs.iter().cloned());
        let fewer = not_in(theirs.into_iter(), ours.iter().cloned());
        // The order of equal branches is free, and changes the lines that are drawn between them.
        let most = ours.len() / 25 + 4;
        assert!(more.len() <= most && fewer.len() <= most, "{options}:\n{more:#?}\nand not\n{fewer:#?}");
        let is_head = |line: &&String| line.contains('%') && !line.contains("--");
        assert_eq!(more.iter().filter(is_head).count(), 0, "{options}: {more:#?}");
    }
    Ok(())
}

/// A recording of a kernel that is not this one: of its modules there is no file.
fn of_another_machine(name: &str) -> Recording {
    let mut attr = Attr::new(EventType::SOFTWARE);
    attr.sample_type = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD;
    attr.flags |= AttrFlags::TASK | AttrFlags::COMM | AttrFlags::MMAP;
    let format = RecordFormat::of(&attr, ByteOrder::NATIVE);
    let path = std::env::temp_dir().join(format!("perfuse-report-test-{}-{name}", std::process::id()));
    let file = std::fs::File::create(&path).expect("a file");
    let event = NewEvent { attr, name: "cpu-clock".into(), ids: vec![7] };
    let mut writer = Writer::file(file, &[event]).expect("a recording");
    let mut write = |mode: CpuMode, record: Record<'_>| {
        let misc = Misc::empty().with_cpu_mode(mode);
        let record = Decoded { misc, ..Decoded::from(record) };
        writer.record(&record, &format).expect("a record");
    };
    let tid = Tid { pid: 4100, tid: 4101 };
    let kernel = Tid { pid: u32::MAX, tid: 0 };
    for (addr, len, name) in [
        (0xffff_ffff_c000_0000, 0x4000, "/lib/modules/5.4.0/kernel/drivers/usb/xhci-hcd.ko.xz"),
        (0xffff_ffff_c001_0000, 0x9000, "/lib/modules/5.4.0/kernel/fs/ext4/ext4.ko"),
    ] {
        let filename = Text::new(name.as_bytes());
        write(CpuMode::KERNEL, Record::Mmap(Mmap { tid: kernel, addr, len, pgoff: 0, filename }));
    }
    let leader = Tid { pid: 4100, tid: 4100 };
    write(CpuMode::USER, Record::Comm(Comm { tid: leader, name: Text::new(b"worker") }));
    // A thread makes a thread, and that one a process.
    for (pid, tid, ppid, ptid) in
        [(4100, 4101, 4100, 4100), (4100, 4102, 4100, 4101), (4200, 4200, 4100, 4102)]
    {
        write(CpuMode::USER, Record::Fork(Task { pid, tid, ppid, ptid, ..Task::default() }));
    }
    let file = MmapFile::Inode { maj: 8, min: 1, ino: 123_456, ino_generation: 1 };
    let filename = Text::new(b"/usr/bin/gone");
    let mmap =
        Mmap2 { tid: leader, addr: 0x40_0000, len: 0x2000, prot: 5, flags: 2, file, filename, pgoff: 0 };
    write(CpuMode::USER, Record::Mmap2(mmap));
    for (number, ip) in
        [0xffff_ffff_c000_1234, 0xffff_ffff_c001_8000, 0xffff_ffff_c000_1234].iter().enumerate()
    {
        let time = Some(1000 + number as u64);
        let mut sample = Sample::default();
        sample.ip = Some(*ip);
        sample.tid = Some(tid);
        sample.time = time;
        sample.period = Some(1000);
        write(CpuMode::KERNEL, Record::Sample(sample));
    }
    writer.finish(Vec::new()).expect("room");
    Recording(path)
}

/// The words of perf about it.
const OF_ANOTHER_MACHINE: [(&str, &[&str]); 2] = [
    (
        "--stdio -s dso,sym --symfs /nonexistent",
        &["66.67% [xhci_hcd] [k] 0x0000000000001234", "33.33% [ext4] [k] 0x0000000000008000"],
    ),
    (
        "--tasks",
        &[
            "0 0 -1 | swapper",
            "4100 4100 -1 | worker",
            "4100 4101 4100 | worker",
            "4100 4102 4101 | worker",
            "4200 4200 4102 | worker",
        ],
    ),
];

/// Lines without blanks and titles.
fn words_of(text: &str) -> Vec<String> {
    let words = |line: &str| line.replace('|', "| ").split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(words);
    lines.filter(|line| !line.is_empty()).collect()
}

fn modules_and_threads_of_another_machine_are_told() -> Outcome {
    let recording = of_another_machine("told");
    for (options, wanted) in OF_ANOTHER_MACHINE {
        let words: Vec<&str> = options.split(' ').collect();
        let text = perfuse(&[&["report", "-i", recording.path()], &words[..]].concat()).0;
        assert_eq!(words_of(&text), wanted, "{options}");
    }
    let maps = perfuse(&["report", "--mmaps", "-i", recording.path()]).0;
    assert!(maps.contains(" 400000-402000 r-xp 00000000 123456 /usr/bin/gone\n"), "{maps}");
    Ok(())
}

fn modules_and_threads_of_another_machine_are_perfs() -> Outcome {
    let recording = of_another_machine("perfs");
    for (options, wanted) in OF_ANOTHER_MACHINE {
        let words: Vec<&str> = options.split(' ').collect();
        let text = perf(&[&["report", "-i", recording.path()], &words[..]].concat())?;
        assert_eq!(words_of(&text), wanted, "{options}");
    }
    Ok(())
}

fn what_perf_has_and_perfuse_has_not_is_refused() -> Outcome {
    for (arguments, words) in
        [("--branch-history", "-b shows"), ("--total-cycles", "-b shows"), ("--tui", "text")]
    {
        let words_of: Vec<&str> = arguments.split_whitespace().collect();
        let (_, errors, code) = perfuse(&[&["report"][..], &words_of].concat());
        assert!(errors.contains(words) && code == Some(2), "{arguments}: {code:?} {errors}");
    }
    let recording = fixture("chains.data");
    for (arguments, words, status) in [
        ("-s symbl", "did you mean symbol", 2),
        ("-s type", "types of data", 2),
        ("-s dso_from", "recorded with -b", 2),
        ("-b", "recorded without -b", 125),
        ("--mem-mode", "recorded without -d", 125),
    ] {
        let words_of: Vec<&str> = arguments.split_whitespace().collect();
        let (_, errors, code) = perfuse(&[&["report", "-i", &recording][..], &words_of].concat());
        assert!(errors.contains(words) && code == Some(status), "{arguments}: {code:?} {errors}");
    }
    // Options that only concern the interactive view, or how perf works, change nothing.
    let taken = "-f -v -M intel --objdump x --samples 5 --inline --demangle --skip-empty --source -c sh";
    let words_of: Vec<&str> = taken.split_whitespace().collect();
    assert_eq!(perfuse(&[&["report", "-i", &recording][..], &words_of].concat()).2, Some(0));
    Ok(())
}

fn json_is_the_report() -> Outcome {
    let text = perfuse(&["report", "--json", "-s", "comm,sym", "-i", &fixture("chains.data")]).0;
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["schema"], "perfuse.report/1");
    assert_eq!(report["recording"]["hostname"], "demo");
    let event = &report["events"][0];
    let entries = event["entries"].as_array().expect("entries");
    let sum: u64 = entries.iter().filter_map(|entry| entry["self_samples"].as_u64()).sum();
    assert_eq!(event["samples"].as_u64(), Some(sum));
    let first = &entries[0];
    assert!(first["total_period"].as_u64() >= first["self_period"].as_u64());
    assert!(first["callchains"].as_array().is_some_and(|chains| !chains.is_empty()));
    Ok(())
}

fn what_cannot_be_done_is_explained() -> Outcome {
    let empty =
        Recording(std::env::temp_dir().join(format!("perfuse-report-test-{}-empty", std::process::id())));
    std::fs::write(&empty.0, b"").expect("a file");
    for (arguments, words, status) in [
        (&["-i", "/nowhere/perf.data"][..], "no such file; `perfuse record COMMAND`", 125),
        (&["-i", empty.path()], "an empty file", 125),
        (&["-i", "-"], "nothing came from standard input", 125),
        (&["-i", env!("CARGO_MANIFEST_DIR")], "a folder without the file data", 125),
        (&["-i", env!("CARGO_MANIFEST_PATH")], "not a perf.data file", 125),
        (&["-g", "sideways", "-i", empty.path()], "an empty file", 125),
    ] {
        let (_, errors, code) = perfuse(&[&["report"], arguments].concat());
        assert!(errors.contains(words), "{arguments:?}: {errors}");
        assert_eq!(code, Some(status), "{arguments:?}");
    }
    Ok(())
}

fn foreign_recordings_are_no_reason_to_panic() -> Outcome {
    let folder = need::shared("corpus/files")?;
    let files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("an entry").path()).collect();
    // The kernel's symbols are read a thousand times otherwise.
    let cache = std::env::temp_dir().join(format!("perfuse-report-test-{}-kept", std::process::id()));
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
        .create(&cache)
        .expect("a folder");
    side_by_side(&files, |path| {
        let path = Path::new(path).to_str().expect("a name in UTF-8").to_owned();
        for what in [
            &["report", "-s", "comm,cpu", "--stats"][..],
            &["report", "-s", "comm,sym,parent,socket,cgroup_id,dso_size,symoff,addr,trace,time,ins_lat"],
            &["report", "--mem-mode", "-s", "mem,tlb,snoop,symbol_daddr,symbol_iaddr,dcacheline,blocked"],
            &["report", "-b", "-s", "dso_from,addr_to,symbol_to,cycles,mispredict,srcline_from"],
            &["report", "--group"],
            &["script", "-F", "comm,tid,time"],
        ] {
            let (_, errors, code) = perfuse_with(Some(&cache), &[what, &["-i", &path]].concat());
            assert!(!errors.contains("internal error"), "{what:?} {path}: {errors}");
            assert!(matches!(code, Some(0 | 125)), "{what:?} {path}: {code:?}");
        }
        Ok(())
    })?;
    println!("{} files", files.len());
    std::fs::remove_dir_all(&cache).expect("the test's files");
    Ok(())
}

fn columns_have_a_widest_width() -> Outcome {
    for widths in ["99999999999", "10,4097", "18446744073709551616", "-1"] {
        let (_, errors, code) =
            perfuse(&["report", &format!("--column-widths={widths}"), "-i", "/nonexistent"]);
        assert!(code != Some(0) && errors.contains("4096 at most"), "{widths}: {code:?}: {errors}");
    }
    let (_, errors, _) = perfuse(&["report", "-w", "0,4096", "-i", "/nonexistent"]);
    assert!(errors.contains("/nonexistent"), "{errors}");
    Ok(())
}

/// A recording of this kernel with one sample at this address, whose page is all that is mapped of it.
fn with_sample_at(ip: u64, mode: CpuMode) -> Recording {
    with_sample_and_kernel(ip, mode, ip & !0xfff)
}

/// The same, with the kernel's mapping of one page there.
fn with_sample_and_kernel(ip: u64, mode: CpuMode, addr: u64) -> Recording {
    let mut attr = Attr::new(EventType::SOFTWARE);
    attr.sample_type = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::PERIOD;
    let format = RecordFormat::of(&attr, ByteOrder::NATIVE);
    let path = std::env::temp_dir().join(format!("perfuse-report-test-{}-{ip:x}", std::process::id()));
    let event = NewEvent { attr, name: "cpu-clock".into(), ids: vec![7] };
    let mut writer =
        Writer::file(std::fs::File::create(&path).expect("a file"), &[event]).expect("a recording");
    let mut write = |mode: CpuMode, record: Record<'_>| {
        let misc = Misc::empty().with_cpu_mode(mode);
        writer.record(&Decoded { misc, ..Decoded::from(record) }, &format).expect("a record");
    };
    let kernel = Tid { pid: u32::MAX, tid: 0 };
    let filename = Text::new(b"[kernel.kallsyms]_text");
    let len = 0x1000;
    if mode == CpuMode::KERNEL {
        write(CpuMode::KERNEL, Record::Mmap(Mmap { tid: kernel, addr, len, pgoff: addr, filename }));
    }
    let mut sample = Sample::default();
    sample.ip = Some(ip);
    sample.tid = Some(Tid { pid: 41, tid: 41 });
    sample.time = Some(1000);
    sample.period = Some(1000);
    write(mode, Record::Sample(sample));
    writer.finish(Vec::new()).expect("room");
    Recording(path)
}

fn functions_behind_the_kernels_recorded_end_have_names() -> Outcome {
    let list =
        Recording(std::env::temp_dir().join(format!("perfuse-report-test-{}-behind", std::process::id())));
    let symbols = "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff81005000 T start_kernel\n\
                   ffffffff81006000 B _end\n";
    std::fs::write(&list.0, symbols).expect("room");
    for (ip, name) in [(0xffff_ffff_8100_5010, "start_kernel"), (0xffff_ffff_80ff_0000, "0xffffffff80ff0000")]
    {
        let recording = with_sample_and_kernel(ip, CpuMode::KERNEL, 0xffff_ffff_8100_0000);
        let (out, errors, code) =
            perfuse(&["report", "--stdio", "--kallsyms", list.path(), "-i", recording.path()]);
        assert!(code == Some(0) && out.contains(name), "{code:?} {errors}\n{out}");
    }
    Ok(())
}

fn the_kernels_symbols_are_read_for_samples_in_the_kernel_alone() -> Outcome {
    let list =
        std::fs::read_to_string("/proc/kallsyms").map_err(|error| Skip::needs("/proc/kallsyms", error))?;
    let text = list.lines().find_map(|line| line.strip_suffix(" T _text").or(line.strip_suffix(" T _stext")));
    let address =
        text.and_then(|digits| u64::from_str_radix(digits, 16).ok()).filter(|&address| address != 0);
    let address =
        address.ok_or_else(|| Skip::needs("kernel addresses", "the kernel hides them from this user"))?;
    let caches = std::env::temp_dir().join(format!("perfuse-report-test-{}-caches", std::process::id()));
    let program = std::env::var_os("PERFUSE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_perfuse").into());
    let kept = caches.join("perfuse/kernel-symbols");
    let told = |recording: &Recording, subcommand: &str| {
        let mut command = Command::new(&program);
        command.args([subcommand, "-i", recording.path()]).env("XDG_CACHE_HOME", &caches);
        let output = command.stdin(Stdio::null()).output().expect("the program starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
        .create(&caches)
        .expect("a folder");
    let (user, kernel) = (with_sample_at(0x1000, CpuMode::USER), with_sample_at(address, CpuMode::KERNEL));
    for subcommand in ["report", "script"] {
        told(&user, subcommand);
        assert!(!kept.exists(), "{subcommand} reads symbols that nobody wants");
    }
    let first = told(&kernel, "script");
    assert!(kept.exists(), "{first}");
    assert_eq!(told(&kernel, "script"), first, "the second time they come from there");
    let _ = std::fs::remove_dir_all(&caches);
    Ok(())
}
