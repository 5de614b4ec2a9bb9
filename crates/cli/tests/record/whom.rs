//! The tasks that are recorded: commands with what they start, running processes, the whole system.

use super::*;

pub(super) fn forks_and_execs_are_told() -> Outcome {
    let folder = Folder::new("forks");
    let file = folder.file("d");
    recorded(&file, &["sh", "-c", "for i in 1 2 3 4 5; do env true; done; exec env true"]);
    let mut data = PerfData::open(&file).expect("a recording");
    let (mut forks, mut comms) = (0, Vec::new());
    while let Some(entry) = data.next().expect("whole records") {
        if !entry.is_kernel() {
            continue;
        }
        match entry.decode().expect("known").record {
            Record::Fork(_) => forks += 1,
            Record::Comm(comm) => comms.push(text(comm.name.as_bytes())),
            _ => {}
        }
    }
    assert!(forks >= 5, "{forks}");
    assert_eq!(comms.iter().filter(|name| *name == "true").count(), 6, "{comms:?}");
    Ok(())
}

pub(super) fn hundreds_of_threads_are_recorded() -> Outcome {
    const THREADS: usize = 300;
    let folder = Folder::new("threads");
    let file = folder.file("d");
    let python = need::program("python3")?;
    let script = format!(
        "import threading\nts=[threading.Thread(target=lambda: sum(range(20000))) for _ in range({THREADS})]\n\
         [t.start() for t in ts]\n[t.join() for t in ts]"
    );
    recorded(&file, &[&python.to_string_lossy(), "-c", &script]);
    assert!(counts(&file)[&RecordType::FORK.0] >= THREADS as u64);
    Ok(())
}

pub(super) fn a_running_process_is_recorded_with_its_threads() -> Outcome {
    let folder = Folder::new("attach");
    let file = folder.file("d");
    let python = need::program("python3")?;
    let script = "import threading,time\nend=time.time()+600\ndef f():\n while time.time()<end: pass\n\
                  ts=[threading.Thread(target=f) for _ in range(4)]\n[t.start() for t in ts]\n[t.join() for t in ts]";
    let mut process = Command::new(python).args(["-c", script]).spawn().expect("python starts");
    let threads = format!("/proc/{}/task", process.id());
    wait::until("its threads run", || fs::read_dir(&threads).is_ok_and(|threads| threads.count() == 5));
    let mut tids = BTreeMap::new();
    let mut synthesized = 0;
    // They take turns: on a busy machine it takes a while until each has had one.
    for seconds in ["1", "5", "30"] {
        recorded(&file, &["-e", "cpu-clock", "-p", &process.id().to_string(), "sleep", seconds]);
        let mut data = PerfData::open(&file).expect("a recording");
        while let Some(entry) = data.next().expect("whole records") {
            if !entry.is_kernel() {
                continue;
            }
            let decoded = entry.decode().expect("known");
            match decoded.record {
                Record::Sample(sample) => *tids.entry(sample.tid.map(|tid| tid.tid)).or_insert(0) += 1,
                Record::Mmap2(_) if decoded.time() == Some(0) => synthesized += 1,
                _ => {}
            }
        }
        if tids.len() >= 4 {
            break;
        }
    }
    let _ = process.kill();
    let _ = process.wait();
    assert!(tids.len() >= 4 && synthesized > 3, "{tids:?} {synthesized}");
    Ok(())
}

pub(super) fn the_whole_system_is_recorded() -> Outcome {
    need::root()?;
    let folder = Folder::new("system");
    let file = folder.file("d");
    recorded(&file, &["-a", "sleep", "0.3"]);
    assert_eq!(perf_counts(&file, "SAMPLE")?, samples(&file));
    let maps = counts(&file)[&RecordType::MMAP2.0];
    assert!(maps > 5, "{maps}");
    Ok(())
}

pub(super) fn what_is_never_sampled_is_said() -> Outcome {
    let folder = Folder::new("unseen");
    let file = folder.file("d");
    let script = "i=0; while [ $i -lt 2000 ]; do (:); i=$((i+1)); done";
    let said = recorded(&file, &["-e", "cpu-clock", "-F", "997", "sh", "-c", script]);
    assert!(said.contains("was not sampled"), "{said}");
    // On a machine that gives its time to others, periods pass without an interrupt: that is said too.
    let mut said = String::new();
    for _ in 0..20 {
        said = recorded(&file, &["-e", "cpu-clock", "-F", "997", "sh", "-c", BUSY]);
        if !said.contains("was not sampled") {
            return Ok(());
        }
    }
    panic!("{said}")
}

/// Records of these types that were made up at the start, as text.
fn synthesized(file: &Path, kinds: &[RecordType]) -> Vec<String> {
    let mut data = PerfData::open(file).expect("a recording");
    let mut found = Vec::new();
    while let Some(entry) = data.next().expect("whole records") {
        if kinds.contains(&entry.kind()) {
            let decoded = entry.decode().expect("known");
            found.extend((decoded.time() == Some(0)).then(|| format!("{:?}", decoded.record)));
        }
    }
    found
}

pub(super) fn loaded_bpf_programs_are_told() -> Outcome {
    use perfuse_testkit::bpf::{Program, ProgramType};
    need::root()?;
    let program = Program::returning(ProgramType::PerfEvent, 1)?;
    let folder = Folder::new("bpf");
    let file = folder.file("d");
    recorded(&file, &["-a", "-e", "cpu-clock", "sleep", "0.1"]);
    let records = synthesized(&file, &[RecordType::KSYMBOL, RecordType::BPF_EVENT]);
    let id = format!("id: {},", program.id());
    assert!(records.iter().any(|record| record.contains(&id)), "{id} in {records:?}");
    assert!(records.iter().any(|record| record.contains("bpf_prog_")), "{records:?}");
    let header = text(&perf(&["report", "--header-only", "-I"], &file)?.stdout);
    assert!(header.contains(&format!("# bpf_prog_info {}: bpf_prog_", program.id())), "{header}");
    Ok(())
}

pub(super) fn cgroups_are_told() -> Outcome {
    need::root()?;
    let folder = Folder::new("cgroups");
    let file = folder.file("d");
    recorded(&file, &["-a", "--all-cgroups", "-e", "cpu-clock", "sleep", "0.1"]);
    let records = synthesized(&file, &[RecordType::CGROUP]);
    assert!(!records.is_empty());
    assert_eq!(perf_counts(&file, "CGROUP")?, counts(&file)[&RecordType::CGROUP.0]);
    Ok(())
}

pub(super) fn what_runs_already_has_build_ids() -> Outcome {
    let folder = Folder::new("ids");
    let file = folder.file("d");
    let mut process = Command::new("sleep").arg("1000").spawn().expect("it starts");
    // It is loaded as soon as it sleeps.
    let stat = format!("/proc/{}/stat", process.id());
    wait::until("it sleeps", || fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S ")));
    recorded(&file, &["-e", "cpu-clock", "-p", &process.id().to_string(), "sleep", "0.1"]);
    let _ = process.kill();
    let _ = process.wait();
    let maps = synthesized(&file, &[RecordType::MMAP2]);
    if !maps.iter().any(|map| map.contains("BuildId(")) {
        return Err(Skip::needs(
            "a kernel that tells build-ids, and programs that have them",
            "neither is seen",
        ));
    }
    let ids = text(&perf(&["buildid-list"], &file)?.stdout);
    assert!(ids.contains("libc") && ids.contains("[vdso]"), "{ids}");
    // In a stream they are records.
    let out = File::create(&file).expect("a file");
    let status = record(Path::new("-"), &["-e", "cpu-clock", "true"]).stdout(out).status();
    assert!(status.is_ok_and(|status| status.success()));
    let stream = PerfData::from_reader(File::open(&file).expect("it"), ReadOptions::default()).expect("one");
    assert!(counts_of(stream).contains_key(&kind::HEADER_BUILD_ID.0));
    Ok(())
}

pub(super) fn processes_of_a_moment_are_followed() -> Outcome {
    need::root()?;
    let folder = Folder::new("follow");
    let file = folder.file("d");
    // Each subshell lives for less than a period; all are the work of this one command.
    let script = "i=0; while [ $i -lt 3000 ]; do (:); i=$((i+1)); done; cat /proc/$$/stat";
    // Without events it is so by default.
    for options in [&["--follow", "-e", "cpu-clock", "-F", "997"][..], &[]] {
        let mut command = record(&file, &[options, &["sh", "-c", script]].concat());
        let output = command.stdout(Stdio::piped()).output().expect("it starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let stat = text(&output.stdout);
        let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = fields[11..15].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
        let expected = ticks as f64 / 100.0 * 997.0;
        let found = samples(&file) as f64;
        assert!(
            found > 0.7 * expected - 30.0 && found < 1.3 * expected + 40.0,
            "{found}, not about {expected}"
        );
        assert!(counts(&file)[&RecordType::FORK.0] >= 3000);
        let comms = text(&perf(&["report", "--stdio", "--sort", "comm"], &file)?.stdout);
        let names = comms.lines().filter(|line| line.contains('%')).count();
        assert!(names > 0 && !comms.contains("swapper") && !comms.contains("perfuse"), "{comms}");
    }
    Ok(())
}

pub(super) fn who_wants_own_clocks_has_them() -> Outcome {
    need::root()?;
    let folder = Folder::new("own");
    let file = folder.file("d");
    // An event that is enabled by the command's exec is the command's own.
    let has_own = |options: &[&str]| {
        recorded(&file, &[options, &["true"]].concat());
        let data = PerfData::open(&file).expect("a recording");
        data.events()[0].attr.flags.contains(AttrFlags::ENABLE_ON_EXEC)
    };
    // Cycles of a PMU are the command's own in any case.
    assert_eq!(has_own(&[]), need::no_hardware_pmu().is_err());
    for options in [&["--no-follow"][..], &["-e", "cpu-clock"], &["-F", "5000"], &["-c", "1000000"], &["-s"]]
    {
        assert!(has_own(options), "{options:?}");
    }
    Ok(())
}

pub(super) fn thousands_of_threads_need_few_descriptors() -> Outcome {
    need::root()?;
    let folder = Folder::new("crowd");
    let file = folder.file("d");
    let python = need::program("python3")?;
    let script = "import threading,time\nthreading.stack_size(65536)\nend=time.time()+600\n\
                  ts=[threading.Thread(target=time.sleep,args=(600,),daemon=True) for _ in range(2000)]\n\
                  [t.start() for t in ts]\nprint('ready',flush=True)\nwhile time.time()<end: pass";
    let mut process =
        Command::new(python).args(["-c", script]).stdout(Stdio::piped()).spawn().expect("python starts");
    let mut ready = [0; 5];
    process.stdout.as_mut().expect("a pipe").read_exact(&mut ready).expect("it runs");
    let pid = process.id().to_string();
    // How many samples there are depends on what else the machine does.
    let mut found = (0, 0);
    for seconds in ["0.5", "5", "30"] {
        let mut command = Sandbox::new().open_files(64).command(program());
        command.args(["record", "-e", "cpu-clock", "--follow", "-p", &pid, "-o"]).arg(&file);
        let output = command.args(["--", "sleep", seconds]).output().expect("it starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        found = (samples(&file), counts(&file)[&RecordType::COMM.0]);
        if found.0 > 0 {
            break;
        }
    }
    let _ = process.kill();
    let _ = process.wait();
    assert!(found.0 > 0 && found.1 >= 2000, "{found:?}");
    Ok(())
}

/// A program without a build-id: it makes code with a perf map under the number that it has for itself, runs that and a function
/// called WHERE until a file has gone, and says when it begins.
const CONTAINED: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) void WHERE(void (*made)(void)) {
    while (access("/goes-on", F_OK) == 0)
        for (volatile int i = 0; i < 2000000; i++) if (made && i % 100 == 0) made();
}
int main(void) {
    void (*made)(void) = 0;
#ifdef __x86_64__
    unsigned char code[] = {0xb8, 0, 1, 0, 0, 0xff, 0xc8, 0x75, 0xfc, 0xc3};
    char name[64];
    sprintf(name, "/tmp/perf-%d.map", getpid());
    made = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy((void *)made, code, sizeof code);
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx %lx made_inside\n", (unsigned long)made, (unsigned long)sizeof code);
    fclose(map);
#endif
    fclose(fopen("/begun", "w"));
    WHERE(made);
    return 0;
}
"#;

pub(super) fn files_of_containers_are_found_as_their_processes_see_them() -> Outcome {
    need::root()?;
    let (compiler, unshare) = (need::program("cc")?, need::program("unshare")?);
    let folder = Folder::new("contained");
    let root = folder.file("root");
    fs::create_dir_all(root.join("tmp")).expect("a root folder");
    fs::write(folder.file("a.c"), CONTAINED).expect("written");
    // The name of the program inside is that of another one outside.
    let outside = folder.file("program");
    let inside = root.join(outside.strip_prefix("/").expect("a whole path"));
    fs::create_dir_all(inside.parent().expect("a folder")).expect("a folder inside");
    for (name, program) in [("outside_function", &outside), ("inside_function", &inside)] {
        let options = ["-O1", "-static", "-Wl,--build-id=none", &format!("-DWHERE={name}"), "-o"];
        let compiled = Command::new(&compiler).args(options).arg(program).arg(folder.file("a.c")).status();
        assert!(compiled.expect("cc starts").success());
    }
    let goes_on = root.join("goes-on");
    fs::write(&goes_on, "").expect("written");
    let enter = r#"mount --bind "$0" "$0" && cd "$0" && mkdir -p old && pivot_root . old && exec "$1""#;
    let mut contained = Command::new(unshare)
        .args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", enter])
        .args([&root, &outside])
        .spawn()
        .expect("unshare starts");
    wait::until("the program runs", || root.join("begun").exists());
    let children = format!("/proc/{0}/task/{0}/children", contained.id());
    let pid = fs::read_to_string(children).expect("its child").trim().to_owned();
    let file = folder.file("d");
    let report = || {
        let mut report = Command::new(program());
        report.args(["report", "-s", "sym", "-g", "none", "-i"]).arg(&file);
        text(&report.output().expect("perfuse starts").stdout)
    };
    // On a busy machine it takes a while until it runs.
    let found = ["1", "5", "30"].iter().find_map(|seconds| {
        recorded(&file, &["-e", "cpu-clock", "-F", "500", "-p", &pid, "sleep", seconds]);
        Some(report()).filter(|report| report.contains("inside_function"))
    });
    // A link that leads out of the root folder from there leads nowhere: it is looked up as the process would.
    let moved = inside.with_extension("moved");
    fs::rename(&inside, &moved).expect("renamed");
    std::os::unix::fs::symlink(&outside, &inside).expect("a link");
    let linked = report();
    fs::remove_file(&goes_on).expect("removed");
    let _ = contained.wait();
    let found = found.expect("its function has a name");
    assert!(!found.contains("outside_function"), "{found}");
    if cfg!(target_arch = "x86_64") {
        assert!(found.contains("made_inside"), "{found}");
    }
    assert!(!linked.contains("outside_function"), "{linked}");
    Ok(())
}

pub(super) fn a_flame_graph_records_first_what_it_is_told() -> Outcome {
    let folder = Folder::new("flamegraph");
    let (file, to) = (folder.file("d"), folder.file("d.html"));
    let mut process = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
    let process_id = process.id().to_string();
    let graph = |of: &[&str]| {
        let mut command = Command::new(program());
        command.arg("flamegraph").arg("-i").arg(&file).arg("-o").arg(&to).args(of).stdin(Stdio::null());
        let output = command.output().expect("the program starts");
        let said = text(&output.stderr);
        assert!(output.status.success(), "{of:?}: {said}");
        said
    };
    let said = graph(&["-e", "cpu-clock", "-F", "199", "-p", &process_id, "--", "sleep", "1"]);
    let page = fs::read_to_string(&to);
    let of_command = graph(&["-e", "page-faults", "--", "true"]);
    let _ = process.kill();
    let _ = process.wait();
    assert!(page.is_ok_and(|page| page.contains(&format!("[{process_id},\"sh\"]"))), "{said}");
    assert!(of_command.contains(" samples)"), "{of_command}");
    assert!(fs::read_to_string(&to).is_ok_and(|page| page.contains("page-faults")));
    Ok(())
}
