//! The log of the libraries, for people who look for the cause of something: `PERFUSE_LOG` sends it to standard error.

use crate::term::out::say;
use log::{LevelFilter, Log, Metadata, Record};

/// The name of the environment variable.
const VARIABLE: &str = "PERFUSE_LOG";

struct Lines;

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("perfuse")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let (level, library) = (record.level(), record.target().split("::").next().unwrap_or_default());
            say(format_args!("[{} {library}] {}", level.as_str().to_lowercase(), record.args()));
        }
    }

    fn flush(&self) {}
}

/// Begins to show what the variable asks for.
pub(crate) fn start() {
    let Some(wanted) = std::env::var_os(VARIABLE).filter(|wanted| !wanted.is_empty()) else { return };
    match wanted.to_str().and_then(|wanted| wanted.parse::<LevelFilter>().ok()) {
        // Nothing else in this program sets a logger.
        Some(level) => log::set_logger(&Lines).map(|()| log::set_max_level(level)).unwrap_or_default(),
        None => say(format_args!(
            "{VARIABLE} wants off, error, warn, info, debug or trace, not '{}'",
            wanted.to_string_lossy()
        )),
    }
}
