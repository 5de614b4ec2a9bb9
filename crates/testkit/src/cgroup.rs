//! A cgroup for a test.

use crate::{Skip, need};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A cgroup (version 2) of the test's own, removed on drop.
#[derive(Debug)]
pub struct OwnCgroup(PathBuf);

impl OwnCgroup {
    /// An empty one; `name` tells it from others of the same test program.
    pub fn new(name: &str) -> Result<Self, Skip> {
        need::root()?;
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let tree = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let place = words.next()?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(place))
        });
        let tree = tree.ok_or_else(|| Skip::needs("cgroup v2", "not mounted"))?;
        let path = tree.join(format!("perfuse-test-{name}-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| Skip::needs("a cgroup", error))?;
        Ok(OwnCgroup(path))
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its name below the root of the tree.
    pub fn name(&self) -> String {
        self.0.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Moves a process into it.
    pub fn add(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("a process moves");
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        // Its last process may still be on its way out.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
