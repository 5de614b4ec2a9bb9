//! The catalogue of the running machine: the tracing file system.

use crate::catalogue::{Catalogue, Refusal};
use alloc::string::String;
use alloc::vec::Vec;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Tracepoints as the tracing file system tells them. Nothing is read before it is asked.
#[derive(Clone, Debug, Default)]
pub struct Tracefs {
    /// Its root, if it is known.
    root: Option<PathBuf>,
}

/// Where it is mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

impl Tracefs {
    /// The one of the running machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// One rooted elsewhere.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Tracefs { root: Some(root.into()) }
    }

    /// The folder `events`.
    fn events(&self) -> Result<PathBuf, Refusal> {
        let places = self.root.iter().map(PathBuf::as_path).chain(PLACES.iter().map(Path::new));
        let mut answer = None;
        for place in places.take(if self.root.is_some() { 1 } else { PLACES.len() }) {
            match fs::metadata(place.join("events")) {
                Ok(_) => return Ok(place.join("events")),
                // The place of one that may not be entered is the better answer.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    answer.get_or_insert((place.to_path_buf(), error));
                }
                Err(_) => {}
            }
        }
        Err(match answer {
            Some((place, error)) => closed(&place, &error),
            None => Refusal::Unreadable(
                "the tracing file system is not mounted here; \
                 as root: mount -t tracefs tracefs /sys/kernel/tracing"
                    .into(),
            ),
        })
    }
}

/// For a folder that this user may not read.
fn closed(place: &Path, error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let mount = place.ancestors().find(|dir| dir.ends_with("tracing")).unwrap_or(place);
            Refusal::Unreadable(alloc::format!(
                "this user may not read {}; as root: mount -o remount,mode=755 {}",
                place.display(),
                mount.display()
            ))
        }
        _ => Refusal::Unreadable(alloc::format!("{}: {error}", place.display())),
    }
}

impl Catalogue for Tracefs {
    fn tracepoint(&self, system: &str, name: &str) -> Result<u64, Refusal> {
        // A path made of names must stay below `events`.
        if [system, name].iter().any(|part| part.starts_with('.') || part.contains('/')) {
            return Err(Refusal::Unknown);
        }
        let path = self.events()?.join(system).join(name).join("id");
        match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map_err(|_| Refusal::Unknown),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Refusal::Unknown),
            Err(error) => Err(closed(&path, &error)),
        }
    }

    fn tracepoints(&self) -> Result<Vec<(String, String)>, Refusal> {
        let events = self.events()?;
        let names = |dir: &Path| -> Result<Vec<String>, Refusal> {
            let entries = fs::read_dir(dir).map_err(|error| closed(dir, &error))?;
            let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            let mut names: Vec<String> = entries
                .filter_map(Result::ok)
                .filter(is_dir)
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect();
            names.sort();
            Ok(names)
        };
        let mut all = Vec::new();
        for system in names(&events)? {
            all.extend(names(&events.join(&system))?.into_iter().map(|name| (system.clone(), name)));
        }
        Ok(all)
    }
}
