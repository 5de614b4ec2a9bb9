//! Options that change all events once they are chosen: sides, one group, one kind of cores, cgroups.

use super::args::Args;
use crate::exit::Failure;
use perfuse::Cgroup;
use perfuse_events::Source;
use perfuse_stat::Request;
use std::fs;
use std::path::{Path, PathBuf};

/// Applies them.
pub(super) fn apply(args: &Args, requests: &mut Vec<Request>) -> Result<(), Failure> {
    if let Some(pmu) = &args.cputype {
        keep_kind(pmu, requests)?;
    }
    for request in requests.iter_mut().filter(|_| args.all_user || args.all_kernel) {
        if !matches!(request.spec.source, Source::Tool(_)) {
            request.spec.exclude.user = args.all_kernel;
            request.spec.exclude.kernel = args.all_user;
        }
    }
    if args.group {
        requests.iter_mut().for_each(|request| {
            (request.group, request.weak) = (Some(0), false);
        });
    }
    if let Some(list) = &args.for_each_cgroup {
        *requests = for_each_cgroup(list, requests)?;
    }
    Ok(())
}

/// Of events that were opened for each kind of cores, those of this kind.
fn keep_kind(pmu: &str, requests: &mut Vec<Request>) -> Result<(), Failure> {
    let dir = Path::new("/sys/bus/event_source/devices").join(pmu);
    // The PMU of cores that are all alike is called cpu; those of kinds of cores tell their cpus.
    let is_core = !pmu.contains('/') && dir.exists() && (pmu == "cpu" || dir.join("cpus").exists());
    if !is_core {
        return Err(Failure::usage(format_args!(
            "--cputype: there are no cores with a PMU called '{pmu}' here"
        )));
    }
    requests.retain(|request| request.spec.pmu.as_ref().is_none_or(|own| !own.is_core || own.name == pmu));
    Ok(())
}

/// All events for the first cgroup, then all for the second.
fn for_each_cgroup(list: &str, requests: &[Request]) -> Result<Vec<Request>, Failure> {
    let mut all = Vec::new();
    let groups = requests.iter().filter_map(|request| request.group).max().map_or(1, |most| most + 1);
    for (number, cgroup) in cgroups(list)?.into_iter().enumerate() {
        all.extend(requests.iter().map(|request| Request {
            cgroup: Some(cgroup.clone()),
            group: request.group.map(|group| group + groups * number as u32),
            ..request.clone()
        }));
    }
    Ok(all)
}

/// The cgroups of a list of names and patterns.
fn cgroups(list: &str) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    let mut known: Option<Vec<String>> = None;
    for name in list.split(',').filter(|name| !name.is_empty()) {
        // A plain name is opened as it is, and explains itself where that fails.
        if !name.contains(['*', '^', '$', '[', '(', '?', '+', '|']) {
            found.push(name.to_owned());
            continue;
        }
        let pattern = regex_lite::Regex::new(name);
        let pattern =
            pattern.map_err(|error| Failure::usage(format_args!("--for-each-cgroup {name}: {error}")))?;
        let known = known.get_or_insert_with(all_cgroups);
        let before = found.len();
        found.extend(known.iter().filter(|path| pattern.is_match(path)).cloned());
        if found.len() == before {
            return Err(Failure::usage(format_args!("--for-each-cgroup: no cgroup fits '{name}'")));
        }
    }
    match found.is_empty() {
        true => Err(Failure::usage("--for-each-cgroup names no cgroup")),
        false => Ok(found),
    }
}

/// The names of all cgroups, as they are found by.
fn all_cgroups() -> Vec<String> {
    let Ok(tree) = Cgroup::open("/") else { return Vec::new() };
    let root = tree.path();
    let mut paths = Vec::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(dir) = left.pop() {
        paths.extend(
            dir.strip_prefix(root)
                .ok()
                .and_then(Path::to_str)
                .filter(|path| !path.is_empty())
                .map(str::to_owned),
        );
        let entries = fs::read_dir(&dir).into_iter().flatten().filter_map(Result::ok);
        let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        left.extend(entries.filter(is_dir).map(|entry| entry.path()).collect::<Vec<PathBuf>>());
    }
    paths.sort();
    paths
}
