//! The tracing file system: where it is, and which id a tracepoint has. Where it is not mounted, root has it none
//! the less: by a mount of this process's own that nobody else sees.

use crate::call::Call;
use crate::embedded;
use crate::error::{Error, Result};
use crate::facts::{Capabilities, Facts};
use crate::mounted::{OWN, PLACES};
use crate::sysfs::file_error;
use perfuse_events::Refusal;
use perfuse_sys::Errno;
use std::borrow::Cow;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Where its files can be read: the first place whose `events` folder can be listed, or, where it is mounted
/// nowhere, a path below `/proc/self/fd` that only this process can use. Where there is neither, the error of the
/// usual place tells why.
pub fn root() -> Result<PathBuf> {
    let mounted = PLACES.iter().map(Path::new).find(|place| fs::read_dir(place.join("events")).is_ok());
    if let Some(place) = mounted {
        return Ok(place.to_path_buf());
    }
    let usual = Path::new(PLACES[0]).join("events");
    let error = fs::read_dir(&usual).err();
    if let (Some(io::ErrorKind::NotFound), Some(own)) = (error.as_ref().map(io::Error::kind), own_root()) {
        return Ok(own);
    }
    Err(file_error(usual, error.as_ref()))
}

/// The path of the mount of this process's own, made when first asked for. Only who may mount tries: elsewhere it
/// could be a filter's reason to end the process.
fn own_root() -> Option<PathBuf> {
    let own = OWN.get_or_init(|| {
        if !Facts::gather().capable(Capabilities::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        perfuse_sys::detached_tracefs()
    });
    match own {
        Ok(mount) => {
            let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
            fs::read_dir(root.join("events")).is_ok().then_some(root)
        }
        // An older kernel; perf does the same on all.
        Err(Errno::ENOSYS) => perfuse_sys::mount_tracefs().ok().map(|()| PLACES[0].into()),
        Err(_) => None,
    }
}

/// [`root`] for a catalogue of events: where there is none, the reason and what would help, in a sentence.
pub fn find() -> Result<PathBuf, Refusal> {
    root().map_err(|error| {
        let diagnosis = error.diagnosis();
        let help = diagnosis.remedies.first().map_or_else(String::new, |remedy| format!("; {remedy}"));
        Refusal::Unreadable(format!("{}{help}", diagnosis.explanation))
    })
}

/// The id of the tracepoint `system:name`: `config` of its event.
pub fn tracepoint_id(system: &str, name: &str) -> Result<u64> {
    let outside = |part: &str| part.is_empty() || part.contains('/') || part.starts_with('.');
    let place = |root: &Path| root.join("events").join(system).join(name).join("id");
    let usual = place(Path::new(PLACES[0]));
    if outside(system) || outside(name) {
        return Err(Error::new(Call::File { path: usual }, Errno::ENOENT));
    }
    // Tried directly first: one open in place of listing a folder.
    let mut failure = None;
    for path in PLACES.map(|root| place(Path::new(root))) {
        match read_id(&path) {
            Err(error) if failure.is_none() => failure = Some(error),
            Err(_) => {}
            id => return id,
        }
    }
    // No such file: because there is no such tracepoint, or because nothing is mounted there?
    let root = root()?;
    if root.starts_with("/proc") {
        // The path is nobody else's.
        return read_id(&place(&root)).map_err(|error| Error::new(Call::File { path: usual }, error.errno()));
    }
    Err(failure.expect("both places were tried"))
}

/// The tracepoints that the embedded kernel has where Linux's cannot be looked up, with their ids.
pub fn of_embedded() -> Vec<(Cow<'static, str>, u64)> {
    embedded::tracepoints()
}

/// Does what a line of `uprobe_events` says for the embedded kernel: defines a tracepoint of a probe, or removes one
/// (`perfuse_live::tracepoints::define`).
///
/// # Errors
///
/// The errno with which Linux refuses such a line; `EOPNOTSUPP` where there is no embedded kernel.
pub fn define_embedded(line: &str) -> Result<(), Errno> {
    embedded::define_tracepoint(line)
}

/// The id of the embedded kernel's tracepoint that tells how long a thread has slept in a system call
/// (`perfuse_live::tracepoints::ASLEEP`); 0 where there is no embedded kernel.
pub const ASLEEP: u64 = embedded::ASLEEP;

/// The text of a tracepoint's format, as this machine tells it; where that cannot be read, that of the embedded kernel's
/// [own](of_embedded).
pub fn format(system: &str, name: &str) -> Option<Vec<u8>> {
    let of_linux =
        root().ok().and_then(|root| read(&root.join("events").join(system).join(name).join("format")).ok());
    of_linux.or_else(|| embedded::format_of_tracepoint(&format!("{system}:{name}")).map(String::into_bytes))
}

/// The content of a file. Some give everything to the first read, and nothing to later ones.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut room = vec![0; 64 << 10];
    let mut bytes = Vec::new();
    loop {
        match file.read(&mut room)? {
            0 => return Ok(bytes),
            count => bytes.extend_from_slice(&room[..count]),
        }
    }
}

/// The formats of tracepoints by their ids, as this machine has them now, each with its system. Those that it has not, or nobody may
/// read, are missing.
pub fn formats(ids: &[u64]) -> Vec<(String, String)> {
    let own = of_embedded().into_iter().filter(|(_, id)| ids.contains(id));
    let mut found: Vec<(String, String)> = own
        .filter_map(|(name, _)| {
            Some((name.split_once(':')?.0.to_owned(), embedded::format_of_tracepoint(&name)?))
        })
        .collect();
    let Ok(root) = root() else { return found };
    let names = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    for system in names(&root.join("events")) {
        for event in names(&system) {
            if read_id(&event.join("id")).is_ok_and(|id| ids.contains(&id)) {
                let name = system.file_name().unwrap_or_default().to_string_lossy().into_owned();
                found.extend(fs::read_to_string(event.join("format")).ok().map(|text| (name, text)));
            }
        }
    }
    found
}

fn read_id(path: &Path) -> Result<u64> {
    let text = fs::read_to_string(path).map_err(|error| file_error(path.to_path_buf(), Some(&error)))?;
    text.trim().parse().map_err(|_| Error::new(Call::File { path: path.to_path_buf() }, Errno::EINVAL))
}
