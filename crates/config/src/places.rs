//! The files that hold: the user's own, and the nearest of a project's above a folder.

use crate::{Error, Key, Setting, parse};
use perfuse_files::{Owners, open_of};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file may have as many bytes.
const LIMIT: u64 = 64 << 10;

/// Where files are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The user's own file, which may be missing.
    pub user: Option<PathBuf>,
    /// A file that somebody has named in place of that: it has to be there, and is believed whoever owns it.
    pub named: Option<PathBuf>,
    /// The name of a project's file.
    pub project: Option<PathBuf>,
    /// That is looked for in this folder and the ones above it.
    pub folder: PathBuf,
    /// They end below this one, which is the user's home, or at the root.
    pub home: Option<PathBuf>,
}

/// The fate of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It holds.
    Holds,
    /// It is not there.
    Missing,
    /// It is there and does not hold: why.
    Refused(String),
}

/// A file that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// Its name.
    pub path: PathBuf,
    /// It is a project's.
    pub is_projects: bool,
    /// Its fate.
    pub state: State,
}

/// All that the files set.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// The values that hold: each key once. A project's file comes before the user's.
    pub all: Vec<Setting>,
    /// The files: the user's, then those of projects that are there.
    pub files: Vec<Found>,
}

impl Settings {
    /// The setting of a key.
    pub fn get(&self, table: &str, name: &str) -> Option<&Setting> {
        self.all.iter().find(|setting| setting.key.table == table && setting.key.name == name)
    }
}

/// Reads the files that hold in these places. Where none is, it asks for the user's file, and for one in each folder.
///
/// A file that belongs to somebody else than the user or root, or that others can write to, does not hold, and is no error: in a
/// folder such as `/tmp` anybody can put one.
///
/// # Errors
///
/// A file that holds and has a [fault](parse), cannot be read, or is too large; a named one that is not there; a project's that sets
/// a key of the user's.
pub fn read(places: &Places, keys: &[Key]) -> Result<Settings, Error> {
    let mut settings = Settings::default();
    let (user, is_named) = match &places.named {
        Some(path) => (Some(path), true),
        None => (places.user.as_ref(), false),
    };
    if let Some(path) = user {
        let state = take(&mut settings, path, is_named, keys, false)?;
        settings.files.push(Found { path: path.clone(), is_projects: false, state });
    }
    let Some(name) = &places.project else { return Ok(settings) };
    let is_above = |folder: &&Path| !folder.as_os_str().is_empty() && Some(*folder) != places.home.as_deref();
    for folder in places.folder.ancestors().take_while(is_above) {
        let path = folder.join(name);
        match take(&mut settings, &path, false, keys, true)? {
            State::Missing => {}
            state => {
                let ends = state == State::Holds;
                settings.files.push(Found { path, is_projects: true, state });
                if ends {
                    break;
                }
            }
        }
    }
    Ok(settings)
}

/// Takes the settings of a file, if it holds; they come before those that are there.
fn take(
    settings: &mut Settings,
    path: &Path,
    is_named: bool,
    keys: &[Key],
    is_projects: bool,
) -> Result<State, Error> {
    let fault = |line, words| Error { path: path.into(), line, words };
    let file = match open(path, is_named) {
        Ok(file) => file,
        Err(Refusal::Missing) if !is_named => return Ok(State::Missing),
        Err(Refusal::Missing) => return Err(fault(None, "there is no such file (ENOENT)".into())),
        Err(Refusal::Distrusted(words)) => return Ok(State::Refused(words)),
        Err(Refusal::Failed(words)) => return Err(fault(None, words)),
    };
    let mut bytes = Vec::new();
    let read = file.take(LIMIT + 1).read_to_end(&mut bytes);
    read.map_err(|error| fault(None, format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > LIMIT {
        return Err(fault(None, format!("it has more than {LIMIT} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        fault(Some(1 + valid.iter().filter(|&&byte| byte == b'\n').count()), "no UTF-8".into())
    })?;
    let mut found = parse(path, &text, keys)?;
    if let Some(Setting { key, line, .. }) = found.iter().find(|setting| is_projects && setting.key.is_users)
    {
        let words = format!(
            "[{}] {} stands in the user's own file alone: a project's file has looks and defaults that do no harm",
            key.table, key.name
        );
        return Err(fault(Some(*line), words));
    }
    found.extend(settings.all.drain(..).filter(|old| is_new_to(&found, old)).collect::<Vec<_>>());
    settings.all = found;
    Ok(State::Holds)
}

fn is_new_to(settings: &[Setting], old: &Setting) -> bool {
    !settings.iter().any(|new| new.key == old.key)
}

enum Refusal {
    Missing,
    Distrusted(String),
    Failed(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Refusal::Missing,
            // A folder that the user cannot enter has nothing of his.
            io::ErrorKind::PermissionDenied => Refusal::Distrusted(format!("it cannot be read: {error}")),
            _ => Refusal::Failed(format!("cannot be read: {error}")),
        }
    }
}

/// Opens a file that is believed: because it was named, or because it and the link to it are of the user or of root.
fn open(path: &Path, is_named: bool) -> Result<File, Refusal> {
    let owners = if is_named { Owners::Any } else { Owners::Trusted { also: None } };
    let file = open_of(path, owners).map_err(|error| match error {
        perfuse_files::Error::Io(error) => error.into(),
        error @ perfuse_files::Error::OfAnother(_) => Refusal::Distrusted(error.to_string()),
        error => Refusal::Failed(error.to_string()),
    })?;
    if !is_named {
        let facts = file.metadata()?;
        if can_others_write(facts.mode(), facts.gid() == rustix::process::getegid().as_raw()) {
            return Err(Refusal::Distrusted("others can write to it: chmod go-w makes it hold".into()));
        }
    }
    Ok(file)
}

/// Many systems give each user a group of his own, and new files to that group.
fn can_others_write(mode: u32, is_own_group: bool) -> bool {
    mode & if is_own_group { 0o002 } else { 0o022 } != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_group_may_write_and_no_other() {
        for (mode, by_own, by_another) in [
            (0o100_644, false, false),
            (0o100_664, false, true),
            (0o100_646, true, true),
            (0o100_600, false, false),
        ] {
            let found = (can_others_write(mode, true), can_others_write(mode, false));
            assert_eq!(found, (by_own, by_another), "{mode:o}");
        }
    }
}
