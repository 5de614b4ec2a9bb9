//! Why symbols are missing, so that a report can say more than "[unknown]".

use crate::error::Error;
use perfuse_files::BuildId;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a [`Dso`](crate::Dso) has no symbols, or not all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The file is in none of the places where it could be.
    NoFile {
        /// The places.
        tried: Vec<PathBuf>,
    },
    /// The file was deleted or replaced while it was running, and no build-id tells which file it was.
    Deleted {
        /// Its path while it was there.
        path: PathBuf,
    },
    /// The file is there, and may not be read.
    Denied {
        /// The file.
        path: PathBuf,
    },
    /// The file is of another build than the one that ran.
    OtherBuildId {
        /// The file.
        path: PathBuf,
        /// The build that ran.
        wanted: BuildId,
        /// The build that is there.
        found: Option<BuildId>,
    },
    /// The file lacks its full symbol table, and no debug file has it: only functions that the file offers
    /// to others have names.
    Stripped {
        /// The file.
        path: PathBuf,
    },
    /// The file is in order and has no symbols at all.
    NoSymbols {
        /// The file.
        path: PathBuf,
    },
    /// Only the debug file is there, which does not tell how the program lies in memory.
    NoLayout {
        /// The debug file.
        debug: PathBuf,
    },
    /// The file cannot be understood.
    Unreadable(Error),
    /// The kernel shows its addresses as zeros.
    KernelHidden {
        /// The list of kernel symbols.
        path: PathBuf,
        /// The setting `kernel.kptr_restrict`.
        kptr_restrict: Option<i32>,
    },
    /// The kernel's list has no such module.
    NoModule {
        /// Its name.
        name: String,
    },
    /// The code was made at run time, and nothing tells about it.
    NoJitMap {
        /// Where a perf map was looked for.
        tried: Vec<PathBuf>,
    },
    /// The recording has its names inside, and the reason why these are not all.
    Sealed {
        /// The reason where it was sealed.
        why: String,
    },
    /// The mapping holds no code of a program.
    NoCode {
        /// Its name.
        name: String,
    },
}

impl Missing {
    /// The meaning of an error with this file.
    pub(crate) fn from_error(path: &Path, error: Error) -> Self {
        match error {
            error if error.is_denied() => Missing::Denied { path: path.to_owned() },
            error if error.is_not_found() => Missing::NoFile { tried: vec![path.to_owned()] },
            error => Missing::Unreadable(error),
        }
    }

    /// Of two reasons the one that says more; a list of places gets longer.
    pub(crate) fn or_better(self, other: Missing) -> Missing {
        match (self, other) {
            (Missing::NoFile { mut tried }, Missing::NoFile { tried: more }) => {
                tried.extend(more);
                Missing::NoFile { tried }
            }
            (Missing::NoFile { .. }, other) => other,
            (this, Missing::OtherBuildId { path, wanted, found })
                if !matches!(this, Missing::OtherBuildId { .. }) =>
            {
                Missing::OtherBuildId { path, wanted, found }
            }
            (this, _) => this,
        }
    }

    /// Symbols are there, though not all of them.
    pub fn is_partial(&self) -> bool {
        matches!(self, Missing::Stripped { .. })
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |paths: &[PathBuf]| {
            paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        };
        match self {
            Missing::NoFile { tried } if tried.is_empty() => f.write_str("there is no file of its symbols"),
            Missing::NoFile { tried } => write!(f, "no such file: {}", list(tried)),
            Missing::Deleted { path } => write!(
                f,
                "{} was deleted or replaced while it ran, and without a build-id nothing tells which file it was",
                path.display()
            ),
            Missing::Denied { path } => write!(f, "{} may not be read by this user", path.display()),
            Missing::OtherBuildId { path, wanted, found } => {
                write!(f, "{} is another build than the one that ran: build-id ", path.display())?;
                match found {
                    Some(found) => write!(f, "{found}, not {wanted}"),
                    None => write!(f, "none, not {wanted}"),
                }
            }
            Missing::Stripped { path } => write!(
                f,
                "{} is stripped and there is no debug file for it: only exported functions have names",
                path.display()
            ),
            Missing::NoSymbols { path } => {
                write!(f, "{} has no symbols and there is no debug file for it", path.display())
            }
            Missing::NoLayout { debug } => write!(
                f,
                "of the program only the debug file {} is there, which does not tell where its code was in memory",
                debug.display()
            ),
            Missing::Unreadable(error) => error.fmt(f),
            Missing::KernelHidden { path, kptr_restrict } => {
                write!(f, "the kernel hides its addresses: {} has only zeros", path.display())?;
                match kptr_restrict {
                    Some(2) => {
                        f.write_str(" for everybody (kernel.kptr_restrict is 2; root can set it to 1 or 0)")
                    }
                    Some(1) => f.write_str(" for users without CAP_SYSLOG (kernel.kptr_restrict is 1)"),
                    Some(setting) => write!(
                        f,
                        " (kernel.kptr_restrict is {setting}: what decides then is CAP_SYSLOG and kernel.perf_event_paranoid, which has to be 1 or less for others)"
                    ),
                    None => Ok(()),
                }
            }
            Missing::NoModule { name } => write!(f, "the kernel's list of symbols has no module {name}"),
            Missing::NoJitMap { tried } => {
                write!(f, "code made at run time, and the program wrote no map of it: no {}", list(tried))
            }
            Missing::Sealed { why } => write!(f, "where it was sealed: {why}"),
            Missing::NoCode { name } => write!(f, "{name} holds no code of a program"),
        }
    }
}

impl std::error::Error for Missing {}
