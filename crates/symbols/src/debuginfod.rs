//! Programs and debug files by build-id from debuginfod servers, kept where other clients of debuginfod keep them: [`Servers`].
//!
//! Nothing is asked unless the user names servers, and nothing is asked while a report is made. `curl` speaks to the
//! servers: it knows the user's proxies and certificates. What a server sends is taken only if it has the build-id that it was asked for.

use crate::debug_files::{Part, SymbolOptions};
use crate::elf::Elf;
use crate::load::open_build;
use crate::store::{Addition, BuildIdStore, StoreError};
use perfuse_files::BuildId;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fmt, fs, io, process};

/// No file that a server sends is larger.
const MOST_BYTES: u64 = 16 << 30;
/// A server that sends less than 100 KiB in this time is given up, as by other clients (`DEBUGINFOD_TIMEOUT`).
const PATIENCE_S: u32 = 90;

/// Servers that have programs and debug files by build-id, and the folder that keeps what they sent.
#[derive(Clone, Debug)]
pub struct Servers {
    urls: Vec<String>,
    cache: PathBuf,
    patience_s: u32,
}

/// Why the servers gave no file.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// None of these servers has it.
    Nowhere(Vec<String>),
    /// `curl` cannot be started.
    NoCurl(io::Error),
    /// A server could not be asked, or sent something else.
    Server {
        /// The address that was asked.
        url: String,
        /// What went wrong, in curl's words or ours.
        why: String,
    },
    /// The file cannot be kept.
    Keep {
        /// The folder of it.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Nowhere(urls) => write!(f, "not at {}", urls.join(", ")),
            FetchError::NoCurl(error) if error.kind() == io::ErrorKind::NotFound => {
                f.write_str("the servers are asked by curl, which is not installed")
            }
            FetchError::NoCurl(error) => write!(f, "curl cannot be started: {error}"),
            FetchError::Server { url, why } => write!(f, "{url}: {why}"),
            FetchError::Keep { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for FetchError {}

impl Servers {
    /// Servers as `DEBUGINFOD_URLS` names them: addresses with blanks between them. Words that are no addresses of `http` or `https` (newer
    /// clients have `ima:enforcing` there) are left out; `None` if nothing is left, or there is no folder to keep files in.
    pub fn new(urls: &str, options: &SymbolOptions) -> Option<Self> {
        let is_address = |word: &&str| word.starts_with("http://") || word.starts_with("https://");
        let urls = urls.split_whitespace().filter(is_address).map(|url| url.trim_end_matches('/').to_owned());
        let urls: Vec<String> = urls.collect();
        let seconds = std::env::var("DEBUGINFOD_TIMEOUT").ok().and_then(|text| text.parse().ok());
        Some(Servers {
            cache: options.debuginfod_cache.clone().filter(|_| !urls.is_empty())?,
            urls,
            patience_s: seconds.filter(|&seconds| seconds > 0).unwrap_or(PATIENCE_S),
        })
    }

    /// The file of a build: the one that was kept before, or that of the first server that has it.
    ///
    /// # Errors
    ///
    /// No server has it, or none can be asked; what is sent is of another build; the file cannot be kept.
    pub fn fetch(&self, id: &BuildId, part: Part) -> Result<PathBuf, FetchError> {
        let (folder, name) = (self.cache.join(id.to_string()), part.name());
        let place = folder.join(name);
        if open_build(&place, Some(id)).is_ok() {
            return Ok(place);
        }
        let keep = |error| FetchError::Keep { path: folder.clone(), error };
        fs::create_dir_all(&folder).map_err(keep)?;
        let new = folder.join(format!("{name}.{}", process::id()));
        let mut failed = None;
        for server in &self.urls {
            let url = format!("{server}/buildid/{id}/{name}");
            let answer = self.download(&url, &new).and_then(|found| {
                let right = !found || open_build(&new, Some(id)).is_ok();
                let other =
                    || FetchError::Server { url, why: format!("sent something that is not build {id}") };
                right.then_some(found).ok_or_else(other)
            });
            let kept = match answer {
                Ok(true) => Some(fs::rename(&new, &place).map_err(keep)),
                Ok(false) => None,
                Err(FetchError::NoCurl(error)) => Some(Err(FetchError::NoCurl(error))),
                Err(error) => {
                    failed.get_or_insert(error);
                    None
                }
            };
            let _ = fs::remove_file(&new);
            if let Some(kept) = kept {
                return kept.map(|()| place);
            }
        }
        let _ = fs::remove_dir(&folder); // if it is empty
        Err(failed.unwrap_or_else(|| FetchError::Nowhere(self.urls.clone())))
    }

    /// Writes what is at an address into a new file; `false` if the server says that it has no such file.
    fn download(&self, url: &str, to: &Path) -> Result<bool, FetchError> {
        let mut curl = Command::new("curl");
        curl.args(["--fail", "--silent", "--show-error", "--location"]);
        curl.args(["--proto", "=http,https", "--write-out", "%{http_code}"]);
        curl.args(["--max-filesize", &MOST_BYTES.to_string(), "--connect-timeout", "10"]);
        curl.args(["--speed-limit", &(102_400 / self.patience_s).max(1).to_string()]);
        curl.args(["--speed-time", &self.patience_s.to_string(), "--output"]).arg(to).arg("--").arg(url);
        let done = curl.stdin(Stdio::null()).output().map_err(FetchError::NoCurl)?;
        if done.status.success() {
            return Ok(true);
        }
        if done.stdout == b"404" {
            return Ok(false);
        }
        let words = String::from_utf8_lossy(&done.stderr);
        let first = words.lines().next().map(|line| line.trim_start_matches("curl: "));
        let why = first.map_or_else(|| format!("curl ended with {}", done.status), str::to_owned);
        Err(FetchError::Server { url: url.to_owned(), why })
    }
}

/// What became of a file that a recording names.
#[derive(Debug)]
#[non_exhaustive]
pub struct Gathered {
    /// Why there is no debug file beside the program, which has no debug information itself.
    pub no_debug_info: Option<FetchError>,
}

/// Why a file that a recording names is not kept.
#[derive(Debug)]
#[non_exhaustive]
pub enum GatherError {
    /// It is not here in this build, and not at the servers either, if some were asked.
    Gone(Option<FetchError>),
    /// The store did not take it.
    Store(StoreError),
}

impl fmt::Display for GatherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GatherError::Gone(None) => f.write_str("the file is not here in the build that ran"),
            GatherError::Gone(Some(error)) => {
                write!(f, "the file is not here in the build that ran, and {error}")
            }
            GatherError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GatherError {}

impl BuildIdStore {
    /// Adds a file that a recording names, in the build that ran: the one at its path, or else the servers'. If it has no
    /// debug information and no debug file is here, the servers are asked for that as well.
    ///
    /// # Errors
    ///
    /// The file is nowhere in this build, or the store cannot keep it.
    pub fn gather(
        &self,
        name: &Path,
        id: &BuildId,
        options: &SymbolOptions,
        servers: Option<&Servers>,
    ) -> Result<Gathered, GatherError> {
        let own = self.file(id).into_iter().chain([options.under_root(name)]);
        let here = own.into_iter().find_map(|place| Some((open_build(&place, Some(id)).ok()?, place)));
        let (elf, place) = match (here, servers) {
            (Some(here), _) => here,
            (None, None) => return Err(GatherError::Gone(None)),
            (None, Some(servers)) => {
                let place =
                    servers.fetch(id, Part::Executable).map_err(|why| GatherError::Gone(Some(why)))?;
                let elf = open_build(&place, Some(id)).map_err(|_| GatherError::Gone(None))?;
                (elf, place)
            }
        };
        let lacks = !elf.has_debug_info() && options.debug_file(name, &elf, Elf::has_debug_info).is_none();
        let no_debug_info = servers.filter(|_| lacks).and_then(|it| it.fetch(id, Part::DebugInfo).err());
        self.add(Addition::File { name, place: &place }, options).map_err(GatherError::Store)?;
        Ok(Gathered { no_debug_info })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_addresses_with_blanks_between_them() {
        let options = SymbolOptions { debuginfod_cache: Some("/cache".into()), ..SymbolOptions::default() };
        let servers = Servers::new("ima:enforcing https://one.example/ \n http://two.example:8002", &options);
        assert_eq!(servers.expect("two").urls, ["https://one.example", "http://two.example:8002"]);
        for none in ["", "  ", "ima:ignore", "file:///etc", "-o /etc/passwd"] {
            assert!(Servers::new(none, &options).is_none(), "{none}");
        }
    }
}
