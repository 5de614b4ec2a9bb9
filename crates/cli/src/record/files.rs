//! Where a recording goes: its file, under which name at first and at the end, the one that was there
//! before; or standard output.

use super::plan::{Destination, Plan};
use crate::exit::Failure;
use crate::recording::header::local_time;
use perfuse_data::{NewEvent, Writer};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An output that was opened.
pub(super) struct Target {
    pub(super) writer: Writer<File>,
    /// `None` for standard output.
    pub(super) path: Option<PathBuf>,
    /// Where the file that was there before is now.
    old: Option<PathBuf>,
}

/// The descriptor of standard output, kept for the recording alone: whatever else is written there, as by
/// the recorded command, goes to standard error from now on.
pub(crate) fn take_standard_output() -> Result<File, Failure> {
    use std::io::IsTerminal;
    if io::stdout().is_terminal() {
        return Err(Failure::usage("a recording is nothing for a terminal: -o - wants a pipe or a file"));
    }
    let failed = |error| Failure::new(format_args!("cannot use standard output: {error}"));
    let file = io::stdout().as_fd().try_clone_to_owned().map_err(failed)?;
    rustix::stdio::dup2_stdout(io::stderr()).map_err(|errno| failed(errno.into()))?;
    Ok(file.into())
}

impl Target {
    /// Starts a file.
    pub(super) fn create(plan: &Plan, path: &Path, events: &[NewEvent]) -> Result<Self, Failure> {
        let (file, old) = renew(path)?;
        match Writer::file(file, events) {
            Ok(mut writer) => {
                compress(plan, &mut writer)?;
                Ok(Target { writer, path: Some(path.to_owned()), old })
            }
            Err(error) => {
                put_back(path, old.as_deref());
                Err(cannot("write", path, &error))
            }
        }
    }

    /// Starts a stream.
    pub(super) fn pipe(plan: &Plan, out: File, events: &[NewEvent]) -> Result<Self, Failure> {
        let mut writer = Writer::pipe(out, events)?;
        compress(plan, &mut writer)?;
        Ok(Target { writer, path: None, old: None })
    }

    /// The writer, to complete or abandon its file; another that writes nowhere takes its place.
    pub(super) fn take_writer(&mut self) -> Result<Writer<File>, Failure> {
        let nowhere = File::options().write(true).open("/dev/null")?;
        Ok(std::mem::replace(&mut self.writer, Writer::pipe(nowhere, &[])?))
    }

    /// Nothing was recorded after all: the files are as they were.
    pub(super) fn undo(self) {
        if let Some(path) = &self.path {
            put_back(path, self.old.as_deref());
        }
    }
}

/// A file for a recording. One that is there already gets another name.
pub(crate) fn fresh_file(path: &Path) -> Result<File, Failure> {
    renew(path).map(|(file, _)| file)
}

/// The same, with the name of the file that was there.
fn renew(path: &Path) -> Result<(File, Option<PathBuf>), Failure> {
    let mut old = None;
    if fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0) {
        let mut name = path.as_os_str().to_owned();
        name.push(".old");
        fs::rename(path, &name).map_err(|error| cannot("rename", path, &error))?;
        old = Some(PathBuf::from(name));
    }
    // Only the owner may read it: it holds parts of the recorded programs' memory.
    let mut options = File::options();
    let file = options.create(true).truncate(true).read(true).write(true).mode(0o600).open(path);
    Ok((file.map_err(|error| cannot("write", path, &error))?, old))
}

fn put_back(path: &Path, old: Option<&Path>) {
    // A device, say, is none of ours. Where the rest fails there is an empty recording, which does no harm.
    let _ = match old {
        Some(old) => fs::rename(old, path),
        None if fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) => fs::remove_file(path),
        None => Ok(()),
    };
}

fn compress(plan: &Plan, writer: &mut Writer<File>) -> Result<(), Failure> {
    match plan.compression {
        Some(level) => Ok(writer.compress(level)?),
        None => Ok(()),
    }
}

/// What is to be written to first.
pub(super) fn first_path(plan: &Plan) -> Option<PathBuf> {
    match &plan.output {
        Destination::File(path) => Some(path.clone()),
        Destination::Pipe => None,
    }
}

/// Gives a finished file the name with the time in it; a name that is taken is that of a little later.
pub(super) fn with_time(path: &Path) -> Result<PathBuf, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let later = (0..).map(|steps| now + steps * Duration::from_millis(10));
    let mut names = later.map(|time| {
        let mut name = path.as_os_str().to_owned();
        let clock = local_time(time).strftime("%Y%m%d%H%M%S");
        name.push(format!(".{clock}{:02}", time.subsec_millis() / 10));
        PathBuf::from(name)
    });
    let name = names.find(|name| !name.exists()).unwrap_or_default();
    fs::rename(path, &name).map_err(|error| cannot("rename", path, &error))?;
    Ok(name)
}

pub(super) fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format_args!("cannot {what} {}: {error}", path.display()))
}
