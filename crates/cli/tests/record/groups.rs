//! Groups: events that are on the PMU together, and whose values come with each sample of their leader. And
//! whose rings their records are in.

use super::*;
use perfuse_data::feature::Feature;
use std::collections::BTreeSet;

/// The values of the group in each sample, by the thread it is of and the id of the leader, which is another
/// one on each cpu.
fn group_values(file: &Path) -> BTreeMap<(u32, Option<u64>), Vec<Vec<u64>>> {
    let mut data = PerfData::open(file).expect("a recording");
    let mut all: BTreeMap<_, Vec<Vec<u64>>> = BTreeMap::new();
    while let Some(entry) = data.next().expect("whole records") {
        if entry.kind() != RecordType::SAMPLE {
            continue;
        }
        assert_eq!(entry.event_index(), Some(0), "only the leader samples");
        let Record::Sample(sample) = entry.decode().expect("known").record else { panic!("a sample") };
        let values = sample.read.expect("the values of the group");
        let leader = values.entries().next().and_then(|entry| entry.id);
        let values = values.entries().map(|entry| entry.value).collect();
        all.entry((sample.tid.map_or(0, |tid| tid.tid), leader)).or_default().push(values);
    }
    all
}

pub(super) fn samples_of_a_leader_have_the_values_of_its_group() -> Outcome {
    let folder = Folder::new("values");
    let file = folder.file("d");
    recorded(&file, &["-e", "{cpu-clock,page-faults,dummy}:Su", "-F", "2000", "sh", "-c", BUSY]);
    let values = group_values(&file);
    let most = values.values().max_by_key(|values| values.len()).expect("samples");
    assert!(most.len() > 30 && most.iter().all(|values| values.len() == 3), "{values:?}");
    // Totals since the start: they grow, and the clock's is near to what it was asked for.
    assert!(most.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] <= pair[1][1]), "{most:?}");
    assert!(most.last().is_some_and(|last| last[2] == 0), "{most:?}");
    // Faults are counted where they happen: perhaps on another cpu than most of the samples.
    assert!(values.values().flatten().any(|values| values[1] > 20), "{values:?}");
    let report = text(&perf(&["report", "--stdio"], &file)?.stdout);
    assert!(report.contains("'anon group { cpu-clock, page-faults, dummy }'"), "{report}");
    Ok(())
}

pub(super) fn values_of_groups_are_inherited_where_the_kernel_can() -> Outcome {
    let folder = Folder::new("inherited-values");
    let file = folder.file("d");
    let script = format!("({BUSY}) & {BUSY}; wait");
    let said = recorded(&file, &["-e", "{cpu-clock,page-faults}:S", "-F", "2000", "sh", "-c", &script]);
    let tasks: BTreeSet<u32> = group_values(&file).into_keys().map(|(tid, _)| tid).collect();
    let tasks = tasks.len();
    assert!(tasks >= 2 || said.contains("that the recorded tasks start are left out"), "{tasks}: {said}");
    Ok(())
}

pub(super) fn members_sample_by_themselves_without_s() -> Outcome {
    let folder = Folder::new("members");
    let file = folder.file("d");
    recorded(&file, &["-e", "both{cpu-clock,page-faults},dummy", "-c", "100000", "sh", "-c", BUSY]);
    let mut data = PerfData::open(&file).expect("a recording");
    let section = data.feature(FeatureId::GROUP_DESC).expect("a whole section").expect("one");
    let Feature::GroupDesc(groups) = section.feature else { panic!("{section:?}") };
    let [group] = &groups[..] else { panic!("{groups:?}") };
    assert_eq!((group.name.to_string().as_str(), group.leader, group.members), ("both", 0, 2));
    recorded(&file, &["-e", "{cpu-clock:u,page-faults:u}", "-c", "10", "sh", "-c", "exec env true"]);
    let stats = text(&perf(&["report", "--stats"], &file)?.stdout);
    assert!(stats.contains("cpu-clock:u stats:") && stats.contains("page-faults:u stats:"), "{stats}");
    Ok(())
}

pub(super) fn weak_groups_stay_together_where_they_can() -> Outcome {
    let folder = Folder::new("weak");
    let file = folder.file("d");
    recorded(&file, &["-e", "{cpu-clock,page-faults}:Wu", "sh", "-c", BUSY]);
    let list = text(&perf(&["evlist", "-g"], &file)?.stdout);
    assert!(list.contains("{cpu-clock,page-faults}"), "{list}");
    Ok(())
}

pub(super) fn each_event_has_its_cgroup() -> Outcome {
    need::root()?;
    let cgroup = OwnCgroup::new("record")?;
    let folder = Folder::new("cgroups");
    let file = folder.file("d");
    let path = cgroup.path().to_string_lossy().into_owned();
    // One more shell goes into the cgroup by itself, before it does anything.
    let script = format!("sh -c 'echo $$ > {path}/cgroup.procs; {BUSY}' & {BUSY}; wait");
    recorded(&file, &["-e", "cpu-clock,task-clock", "-G", &format!("{path},"), "sh", "-c", &script]);
    let mut data = PerfData::open(&file).expect("a recording");
    let mut tasks: [BTreeMap<u32, u64>; 2] = Default::default();
    while let Some(entry) = data.next().expect("whole records") {
        if entry.kind() == RecordType::SAMPLE {
            let Record::Sample(sample) = entry.decode().expect("known").record else { panic!("a sample") };
            let event = entry.event_index().expect("its event");
            *tasks[event].entry(sample.tid.map_or(0, |tid| tid.tid)).or_default() += 1;
        }
    }
    let [inside, everywhere] = tasks;
    assert!(inside.len() == 1 && everywhere.len() > 1, "{inside:?} {everywhere:?}");
    Ok(())
}

pub(super) fn threads_have_rings_of_their_own() -> Outcome {
    let folder = Folder::new("per-thread");
    let file = folder.file("d");
    let python = need::program("python3")?;
    let script = "import threading\ndef f():\n while True: pass\n\
                  for _ in range(3): threading.Thread(target=f, daemon=True).start()\nprint(flush=True)\nf()";
    let mut process =
        Command::new(python).args(["-c", script]).stdout(Stdio::piped()).spawn().expect("python");
    let mut line = [0];
    process.stdout.take().expect("a pipe").read_exact(&mut line).expect("it runs");
    let pid = process.id().to_string();
    let events = "{cpu-clock,page-faults},task-clock";
    recorded(&file, &["-e", events, "--per-thread", "-p", &pid, "sleep", "0.5"]);
    process.kill().and_then(|()| process.wait()).expect("it ends");
    // Four threads with three events, on no cpu in particular.
    let dump = text(&perf(&["report", "-D"], &file)?.stdout);
    let sources: Vec<_> = dump.lines().filter(|line| line.starts_with(" ... id:")).collect();
    assert_eq!(sources.len(), 4 * 3, "{sources:?}");
    assert!(sources.iter().all(|source| source.contains("cpu: -1")), "{sources:?}");
    let rings: Vec<_> = sources.iter().filter(|source| source.contains("idx: 3 ")).collect();
    assert_eq!(rings.len(), 3, "{sources:?}");
    assert!(dump.contains("PERF_RECORD_CPU_MAP: -1"));
    assert_eq!(perf_counts(&file, "SAMPLE")?, samples(&file));
    Ok(())
}
