//! Changes to all events once they are chosen: sides, one group, one kind of cores, cgroups.

use crate::{Error, Request, Requests};
use perfuse::Cgroup;
use perfuse_events::Source;
use std::fs;
use std::path::{Path, PathBuf};

impl Requests {
    /// Counts one side alone: user space or the kernel.
    pub fn only_side(&mut self, kernel: bool) {
        for request in &mut self.all {
            if !matches!(request.spec.source, Source::Tool(_)) {
                request.spec.exclude.user = kernel;
                request.spec.exclude.kernel = !kernel;
            }
        }
    }

    /// Counts all events as one group.
    pub fn join(&mut self) {
        self.all.iter_mut().for_each(|request| {
            (request.group, request.weak) = (Some(0), false);
        });
    }

    /// Keeps, of events that are one for each kind of cores, those of the cores with this PMU.
    ///
    /// # Errors
    ///
    /// [`Error::Plan`]: there are no such cores.
    pub fn only_cores(&mut self, pmu: &str) -> Result<(), Error> {
        let dir = Path::new("/sys/bus/event_source/devices").join(pmu);
        // The PMU of cores that are all alike is called cpu; those of kinds of cores tell their cpus.
        let is_core = !pmu.contains('/') && dir.exists() && (pmu == "cpu" || dir.join("cpus").exists());
        if !is_core {
            return Err(Error::Plan(format!("--cputype: there are no cores with a PMU called '{pmu}' here")));
        }
        self.all
            .retain(|request| request.spec.pmu.as_ref().is_none_or(|own| !own.is_core || own.name == pmu));
        Ok(())
    }

    /// Counts all events for the first cgroup of a list of names and patterns, then all for the second, and so on.
    ///
    /// # Errors
    ///
    /// [`Error::Plan`]: the list names none, or a pattern is none or fits none.
    pub fn for_each_cgroup(&mut self, list: &str) -> Result<(), Error> {
        let mut all = Vec::new();
        let groups = self.all.iter().filter_map(|request| request.group).max().map_or(1, |most| most + 1);
        for (number, cgroup) in cgroups(list)?.into_iter().enumerate() {
            all.extend(self.all.iter().map(|request| Request {
                cgroup: Some(cgroup.clone()),
                group: request.group.map(|group| group + groups * number as u32),
                ..request.clone()
            }));
        }
        self.all = all;
        Ok(())
    }
}

/// The cgroups of a list of names and patterns.
fn cgroups(list: &str) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut known: Option<Vec<String>> = None;
    for name in list.split(',').filter(|name| !name.is_empty()) {
        // A plain name is opened as it is, and explains itself where that fails.
        if !name.contains(['*', '^', '$', '[', '(', '?', '+', '|']) {
            found.push(name.to_owned());
            continue;
        }
        let pattern = regex_lite::Regex::new(name);
        let pattern = pattern.map_err(|error| Error::Plan(format!("--for-each-cgroup {name}: {error}")))?;
        let known = known.get_or_insert_with(all_cgroups);
        let before = found.len();
        found.extend(known.iter().filter(|path| pattern.is_match(path)).cloned());
        if found.len() == before {
            return Err(Error::Plan(format!("--for-each-cgroup: no cgroup fits '{name}'")));
        }
    }
    match found.is_empty() {
        true => Err(Error::Plan("--for-each-cgroup names no cgroup".to_owned())),
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
