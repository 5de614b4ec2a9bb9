//! The attrs in the file, as `perf evlist -v` shows them, of perf's recording and of ours with the same options. The
//! differences on purpose are listed here.

use super::*;

/// The name and the members of each event, by `perf evlist -v`. It leaves out members that are zero, and bits of kernels
/// after its own.
fn evlist(file: &Path) -> Result<Vec<(String, Vec<String>)>, Skip> {
    let output = perf(&["evlist", "-v"], file)?;
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let lines = shown.lines().filter(|line| line.contains("size: "));
    let event = |line: &str| {
        let mut parts = line.replace("{ sample_period, sample_freq }", "rate");
        parts = parts.replace("{ wakeup_events, wakeup_watermark }", "wakeup");
        let parts: Vec<_> = parts.split(", ").map(str::to_owned).collect();
        let (name, first) = parts[0].split_once(": ").unwrap_or((&parts[0], ""));
        (name.to_owned(), [&[first.to_owned()], &parts[1..]].concat())
    };
    Ok(lines.map(event).collect())
}

/// Without what is different on purpose.
fn comparable(members: &[String]) -> Vec<String> {
    // Our rings wake us when they are half full; our clock is the monotonic one; build-ids come with maps;
    // whole cpus inherit nothing; everybody may have the event that tells about tasks.
    let ours = ["wakeup: ", "watermark: ", "use_clockid: ", "clockid: ", "build_id: ", "inherit: "];
    let users = ["exclude_kernel: ", "exclude_hv: "];
    let dummy = members.contains(&"config: 0x9".to_owned());
    let kept = members.iter().filter(|member| {
        let is = |names: &[&str]| names.iter().any(|name| member.starts_with(name));
        !(is(&ours) || dummy && is(&users))
    });
    // Every record of ours tells its event and its time.
    let bits = |member: &String| {
        let Some(bits) = member.strip_prefix("sample_type: ") else { return member.clone() };
        let bits = bits.split('|').filter(|bit| !["ID", "IDENTIFIER", "TIME"].contains(bit));
        format!("sample_type: {}", bits.collect::<Vec<_>>().join("|"))
    };
    kept.map(bits).collect()
}

/// Records the same with both, and compares all events but the dummies.
fn same(folder: &Folder, arguments: &[&str]) -> Result<(), Skip> {
    same_next_to(folder, QUICKLY, arguments)
}

fn same_next_to(folder: &Folder, how: &str, arguments: &[&str]) -> Result<(), Skip> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let (ours, theirs) = (folder.file(&format!("ours-{number}")), folder.file(&format!("theirs-{number}")));
    recorded(&ours, arguments);
    perf_records(&theirs, how, arguments)?;
    let events = |file: &Path| -> Result<Vec<_>, Skip> {
        let mut events = evlist(file)?;
        events.retain(|(name, _)| !name.starts_with("dummy"));
        for (_, members) in &mut events {
            *members = comparable(members);
            members.retain(|member| how != QUICKLY || !["ksymbol: 1", "bpf_event: 1"].contains(&&**member));
        }
        Ok(events)
    };
    assert_eq!(events(&ours)?, events(&theirs)?, "{arguments:?}");
    Ok(())
}

pub(super) fn attrs_are_perfs() -> Outcome {
    need::perf()?;
    let folder = Folder::new("attrs");
    same_next_to(&folder, "--bpf-event", &["-F", "1000", "-e", "cpu-clock", "true"])?;
    let options = [
        "-F 4000",
        "-c 100000",
        "-c 100000 -P",
        "-F 1000 -T",
        "-F 1000 -g",
        "-F 1000 --call-graph dwarf",
        "-F 1000 --call-graph dwarf,4096 --user-regs=ip",
        "-F 1000 --call-graph fp --user-callchains",
        "-F 1000 --call-graph fp --kernel-callchains",
        "-F 1000 -d",
        "-F 1000 -W",
        "-F 1000 --data-page-size",
        "-F 1000 --code-page-size",
        "-F 1000 --transaction",
        "-F 1000 -R",
        "-F 1000 -s",
        "-F 1000 -s -n",
        "-F 1000 --running-time",
        "-F 1000 --sample-cpu",
        "-F 1000 --sample-identifier",
        "-F 1000 --switch-events",
        "-F 1000 --all-cgroups",
        "-F 1000 --all-user",
        "-F 1000 --intr-regs",
        "-F 1000 --intr-regs=ip,sp",
        "-F 1000 --user-regs",
        "-F 1000 --no-inherit",
        "-F 1000 --per-thread",
        "-F 1000 --overwrite",
        "-F 1000 --strict-freq",
        "-F 1000 -k mono",
        "-F 1000 -D 1",
        "-F 1000 -z",
    ];
    side_by_side(&options, |options| {
        let options: Vec<_> = options.split(' ').collect();
        same(&folder, &[&["-e", "cpu-clock"], &options[..], &["true"]].concat())
    })?;
    for events in ["cpu-clock,page-faults", "cpu-clock:p"] {
        same(&folder, &["-F", "1000", "-e", events, "true"])?;
    }
    if need::root().is_ok() {
        same(&folder, &["-F", "1000", "-e", "cpu-clock", "--phys-data", "true"])?;
        same(&folder, &["-F", "1000", "-e", "cpu-clock", "--all-kernel", "true"])?;
        same(&folder, &["-F", "1000", "-e", "cpu-clock", "--namespaces", "true"])?;
        same(&folder, &["-F", "1000", "-e", "cpu-clock:u,page-faults:k", "true"])?;
        same(&folder, &["-F", "1000", "-e", "context-switches", "true"])?;
        same(&folder, &["-F", "1000", "-e", "cpu-clock", "-a", "true"])?;
        same(&folder, &["-F", "1000", "-e", "cpu-clock", "-C", "0", "true"])?;
    }
    Ok(())
}

pub(super) fn attrs_of_tracepoints_are_perfs() -> Outcome {
    need::perf()?;
    need::root()?;
    need::tracefs()?;
    let folder = Folder::new("tracepoint-attrs");
    same(&folder, &["-e", "sched:sched_switch", "true"])?;
    same(&folder, &["-e", "sched:sched_switch", "-F", "100", "true"])?;
    same(&folder, &["-e", "sched:sched_switch", "-c", "2", "true"])?;
    same(&folder, &["-F", "1000", "-e", "cpu-clock,sched:sched_switch,sched:sched_wakeup", "-R", "true"])?;
    same(&folder, &["-F", "1000", "-e", "{cpu-clock,sched:sched_switch}:S", "--running-time", "true"])?;
    Ok(())
}

pub(super) fn attrs_of_groups_are_perfs() -> Outcome {
    need::perf()?;
    let folder = Folder::new("group-attrs");
    let groups = [
        "{cpu-clock,page-faults}",
        "{cpu-clock,page-faults}:S",
        "{cpu-clock:u,page-faults}:S",
        "{cpu-clock,page-faults}:D",
        "{cpu-clock,page-faults}:W",
        "cpu-clock:S",
    ];
    side_by_side(&groups, |events| {
        same(&folder, &["-F", "1000", "-e", events, "true"])?;
        same(&folder, &["-c", "100000", "--call-graph", "fp", "-e", events, "true"])
    })
}
