//! The header of a recording in words, if the user asks for it; and moments as the time of day of this machine.

use super::Input;
use crate::exit::Result;
use perfuse_data::describe;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

/// Whether the header is shown.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Shown {
    /// Show what the recording says of itself first
    #[arg(long)]
    pub(crate) header: bool,
    /// Show only what the recording says of itself
    #[arg(long)]
    pub(crate) header_only: bool,
    /// With the header, also what is long in it: topology, caches, memory
    #[arg(short = 'I', long)]
    show_info: bool,
}

impl Shown {
    /// Whether any of it was asked for.
    pub(crate) fn is_any(&self) -> bool {
        self.header || self.header_only || self.show_info
    }

    /// Prints the header if it was asked for.
    pub(crate) fn print(&self, out: &mut impl Write, input: &Input) -> Result<()> {
        if !(self.header || self.header_only) {
            return Ok(());
        }
        let data = input.open()?;
        let changed = std::fs::metadata(input.path()).and_then(|metadata| metadata.modified());
        let since = changed.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let captured = since.map(|since| local_time(since).strftime("%a %b %e %H:%M:%S %Y").to_string());
        let options = describe::HeaderOptions {
            full: self.show_info,
            captured: captured.as_deref(),
            is_old: is_old(input),
            local_time: &|since| local_time(since).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        };
        Ok(describe::header(out, data, &options)?)
    }
}

/// When a recording was written, as a fact to tell: what files know of it.
pub(crate) fn written(input: &Input) -> Option<(String, String)> {
    Some(("written".to_owned(), changed(input, "%Y-%m-%d %H:%M:%S UTC")?))
}

/// The time (UTC) at which a recording's file was last changed, in this form.
pub(crate) fn changed(input: &Input, form: &str) -> Option<String> {
    let changed = std::fs::metadata(input.path()).ok()?.modified().ok()?;
    let moment = jiff::Timestamp::try_from(changed).ok()?;
    Some(moment.strftime(form).to_string())
}

/// Whether a file begins as those before perf 3.4 do, which perf calls version 0, in either byte order.
fn is_old(input: &Input) -> bool {
    let mut magic = [0; 8];
    // A pipe is read once, and has no header of that time.
    let file = Some(input.path()).filter(|input| input.is_file());
    let read = file
        .and_then(|input| std::fs::File::open(input).ok())
        .and_then(|mut file| file.read_exact(&mut magic).ok());
    read.is_some() && [b"PERFFILE", b"ELIFFREP"].contains(&&magic)
}

/// The time of day where this is read, of a moment since 1970.
pub(crate) fn local_time(since: Duration) -> jiff::Zoned {
    let moment = i64::try_from(since.as_secs()).ok();
    let moment = moment.and_then(|seconds| jiff::Timestamp::new(seconds, since.subsec_nanos() as i32).ok());
    moment.unwrap_or_default().to_zoned(zone())
}

/// The time zone of the reader. `TZ` may name a file, which has to be one that can be read to its end.
fn zone() -> jiff::tz::TimeZone {
    static ZONE: OnceLock<jiff::tz::TimeZone> = OnceLock::new();
    const MAX_FILE: u64 = 1 << 20;
    let is_zone = |named: &OsStr| {
        let named = named.as_bytes();
        let path = Path::new(OsStr::from_bytes(named.strip_prefix(b":").unwrap_or(named)));
        match perfuse_files::open(path).map(|file| file.metadata()) {
            Ok(Ok(metadata)) => metadata.len() <= MAX_FILE,
            Err(perfuse_files::Error::Io(_)) => true, // no file: the name of a zone, or a rule
            _ => false,
        }
    };
    let find = || match std::env::var_os("TZ") {
        Some(named) if !is_zone(&named) => jiff::tz::TimeZone::UTC,
        _ => jiff::tz::TimeZone::system(),
    };
    ZONE.get_or_init(find).clone()
}
